/* Timings as JSON: a batch with its rows as one document, or as lines (a batch, then its rows, and so on). Agents of a
 * class are given as an object of texts whose member `device` is the device's name. */
#ifndef MG_SERVER_TIMING_PARSE_H
#define MG_SERVER_TIMING_PARSE_H

#include "base/json.h"
#include "device/device.h"
#include "store/timing_types.h"

/* Agents, batches and operators have such names, wherever they are given. */
#define MG_TIMING_NAME_RULE "a name of 1 to 200 visible ASCII characters, without blanks, is expected"
bool mg_timing_is_name(const char *text);
/* The class of a JSON object of texts; inside a guard. */
bool mg_timing_class_read(struct mg_json *json, struct mg_arena *arena, struct mg_timing_class *out);
/* The profile that names the device: a built-in one, or one of `dir` (may be NULL). */
bool mg_timing_profile(const char *dir, const char *model, struct mg_device *out);
/* A posted body; inside a guard. Prices of the model are those of the profile that names the device (the built-in ones
 * and those of `device_dir`). */
enum mg_code mg_timing_read(const char *text, size_t size, bool lines, const char *device_dir, struct mg_arena *arena,
                            struct mg_timing_batch **batches, size_t *count, struct mg_error *err) MG_WARN_UNUSED;
/* What is said of an operator that could not be timed: of memory that was short, by a limit or because others hold it,
 * the store asks again soon; of what cannot be run, after days. False: the device failed, which says nothing of the
 * operator. */
bool mg_timing_status_of(enum mg_code code, enum mg_timing_status *status);
/* ---- timing_write.c: one line each, with its line end ---- */
void mg_timing_write_batch(struct mg_writer *w, const struct mg_timing_batch *batch);
void mg_timing_write_row(struct mg_writer *w, const struct mg_timing_row *row);
void mg_timing_write_want(struct mg_writer *w, const struct mg_timing_want *want);

#endif
