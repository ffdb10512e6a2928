/* Plans at rest: versioned binary arrays, compressed.
 *
 * The blob carries everything of struct mg_plan, so that the canonical JSON (and with it the plan's
 * id) comes out again bit for bit. Reading trusts nothing: every count and index is checked. */
#ifndef MG_SERVER_PLAN_BLOB_H
#define MG_SERVER_PLAN_BLOB_H

#include "plan/plan.h"

/* *out is malloc'ed. */
enum mg_code mg_plan_pack(const struct mg_plan *plan, unsigned char **out, size_t *size,
                          struct mg_error *err) MG_WARN_UNUSED;
/* Guards the arena itself. */
enum mg_code mg_plan_unpack(const void *blob, size_t size, struct mg_arena *arena, struct mg_plan **out,
                            struct mg_error *err) MG_WARN_UNUSED;

#endif
