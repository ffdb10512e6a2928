/* Plans at rest: versioned binary arrays, compressed.
 *
 * The blob carries everything of struct mg_plan, so that the canonical JSON (and with it the plan's
 * id) comes out again bit for bit. Reading trusts nothing: every count and index is checked.
 *
 * Layout of the plain bytes: "MGP" and a version byte; then, section after section, numbers as
 * LEB128 variable-length integers (signed ones zigzagged, optional indices plus one), doubles as 8
 * little-endian bytes, texts with their length before them. Ranges of refs are stored as the
 * distance from where they would be if refs were listed in step order, which is nearly always 0. */
#ifndef MG_SERVER_PLAN_BLOB_H
#define MG_SERVER_PLAN_BLOB_H

#include "plan/plan.h"

enum { MG_PLAN_BLOB_VERSION = 1 };

/* *out is malloc'ed. */
enum mg_code mg_plan_pack(const struct mg_plan *plan, unsigned char **out, size_t *size,
                          struct mg_error *err) MG_WARN_UNUSED;
/* Guards the arena itself. */
enum mg_code mg_plan_unpack(const void *blob, size_t size, struct mg_arena *arena, struct mg_plan **out,
                            struct mg_error *err) MG_WARN_UNUSED;

#endif
