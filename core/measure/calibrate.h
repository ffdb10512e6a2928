/* What is told about a device by measuring it: its class, its profile, and whether it is disturbed. */
#ifndef MG_MEASURE_CALIBRATE_H
#define MG_MEASURE_CALIBRATE_H

#include "measure/measure.h"

/* All that a time depends on beside operator and layout, as a canonical JSON object of texts. */
void mg_engine_write_class(struct mg_writer *w, const struct mg_engine *engine, const struct mg_time_policy *policy);

/* The operator that `name` and `signature` (device/signature.h) describe, dense; "slice", "join" and "acc" with the
 * shape that plans price them by. MG_ERR_UNSUPPORTED and MG_ERR_NOMEM are results, MG_ERR_INVALID is a bad signature.
 */
enum mg_code mg_engine_time_signature(struct mg_engine *engine, const char *name, const char *signature,
                                      const struct mg_time_policy *policy, struct mg_timing *out,
                                      struct mg_error *err) MG_WARN_UNUSED;

/* Seconds of a fixed piece of work, some milliseconds: when it takes longer than at its best, the device is shared,
 * throttled or asleep. */
enum mg_code mg_engine_canary(struct mg_engine *engine, double *seconds, struct mg_error *err) MG_WARN_UNUSED;

/* Fits a device profile, by which the device model gives what it is fitted to the time that was measured: peak rates
 * from a large product in f32, tf32, bf16 and f16 (what the device lacks stays 0), bandwidth from a large sum, launch
 * from a tiny one, the link from copies of two sizes. Takes some seconds; `must_stop` (NULL: never) is asked
 * between what is timed, and where it says so the result is MG_ERR_CANCELLED. */
enum mg_code mg_engine_calibrate(struct mg_engine *engine, bool (*must_stop)(void *context), void *context,
                                 struct mg_device *out, struct mg_error *err) MG_WARN_UNUSED;

#endif
