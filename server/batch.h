/* What agents and `magisd measure` share: operators timed in batches, each between two canaries, which tell whether
 * others used the device meanwhile. */
#ifndef MG_SERVER_BATCH_H
#define MG_SERVER_BATCH_H

#include "measure/measure.h"
#include "server/timing_parse.h"

/* One device, for as long as a process measures on it; best_s may begin with what is known of the device. */
struct mg_canary {
    const char *who, *device; /* messages begin with who: "magisd agent: cpu" */
    double memory;            /* the share that may be used of what is free of its memory; 0: all */
    double best_s, worked_at; /* worked_at: monotonic, the last canary, which ends all work; 0: none */
    bool shared;              /* somebody else was using the device when we last looked */
};
/* False, with words on standard error: it cannot be opened, *engine is NULL. */
bool mg_canary_open(const struct mg_canary *c, struct mg_engine **engine);
/* Seconds of the canary kernel, INFINITY on a throttled device; keeps the best. False, with words on standard error:
 * the device failed. */
bool mg_canary_run(struct mg_canary *c, struct mg_engine *engine, double *seconds);
/* Does somebody else use the device? Says so once. */
bool mg_canary_is_shared(struct mg_canary *c, struct mg_engine *engine);
/* More than 5 % slower than at its best. */
bool mg_canary_is_slow(const struct mg_canary *c, double seconds);

enum { MG_BATCH_MAX = 64 };          /* operators of a batch, */
static const double MG_BATCH_S = 20; /* and about how long one lasts */

struct mg_batch {
    struct mg_timing_batch head; /* agent, host, version and class are the caller's */
    char name[64];
    struct mg_writer rows;
    uint32_t count;
    double begun_at; /* monotonic */
    bool open, slow; /* slow: the canary was, or the device is throttled */
};
/* Names the batch, looks whether the device is shared (head.busy) and runs the first canary. False: the device failed;
 * to be released in either case. */
bool mg_batch_begin(struct mg_batch *b, struct mg_canary *c, struct mg_engine *engine);
/* Times an operator and adds its row: that it cannot be timed is a result too. Where timing it makes the device fail,
 * that is said, and the device opened anew; an operator that fails twice is one that cannot be timed. False: the device
 * fails even so, and *engine may be NULL. */
bool mg_batch_time(struct mg_batch *b, struct mg_canary *c, struct mg_engine **engine, const char *op,
                   const char *signature, enum mg_timing_status *status);
/* Adds the row of an operator that cannot be timed. */
void mg_batch_refuse(struct mg_batch *b, const char *op, const char *signature);
/* The second canary; completes the head. False: the device failed; engine: NULL where it is not open any more. */
bool mg_batch_end(struct mg_batch *b, struct mg_canary *c, struct mg_engine *engine);
/* Head and rows, a line each. */
void mg_batch_write(const struct mg_batch *b, struct mg_writer *w);
void mg_batch_release(struct mg_batch *b);

#endif
