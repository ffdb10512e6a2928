#include "server/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "measure/calibrate.h"

enum { CANARY_ELEMENTS = 1 << 18, TRIES = 2 };
static const double CANARY_SLACK = 1.05;

bool mg_canary_open(const struct mg_canary *c, struct mg_engine **engine)
{
    struct mg_error err;
    bool good = mg_engine_open(c->device, engine, &err) == MG_OK;
    if (!good)
        fprintf(stderr, "%s: %s\n", c->who, err.message);
    else if (c->memory > 0)
        mg_engine_limit_memory(*engine, c->memory);
    return good;
}

bool mg_canary_run(struct mg_canary *c, struct mg_engine *engine, double *seconds)
{
    char signature[96];
    struct mg_timing timing = {0};
    struct mg_error err = {0};
    snprintf(signature, sizeof signature, "f32;f32[%d],f32[%d]->f32[%d]", CANARY_ELEMENTS, CANARY_ELEMENTS,
             CANARY_ELEMENTS);
    enum mg_code code = mg_engine_time_signature(engine, "add", signature, &mg_time_policy_default, &timing, &err);
    c->worked_at = mg_measure_clock();
    *seconds = timing.throttled ? INFINITY : timing.median_s;
    if (code == MG_OK && !timing.throttled && (c->best_s == 0 || timing.median_s < c->best_s))
        c->best_s = timing.median_s;
    if (code != MG_OK)
        fprintf(stderr, "%s: the canary failed: %s\n", c->who, err.message);
    return code == MG_OK;
}

bool mg_canary_is_shared(struct mg_canary *c, struct mg_engine *engine)
{
    char why[128];
    bool shared = mg_engine_is_busy(engine, c->worked_at > 0 ? mg_measure_clock() - c->worked_at : INFINITY, why);
    if (shared && !c->shared)
        fprintf(stderr, "%s is busy: %s\n", c->who, why);
    c->shared = shared;
    return shared;
}

bool mg_canary_is_slow(const struct mg_canary *c, double seconds)
{
    return seconds > CANARY_SLACK * c->best_s;
}

/* ---- batches ---- */

bool mg_batch_begin(struct mg_batch *b, struct mg_canary *c, struct mg_engine *engine)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        abort();
    snprintf(b->name, sizeof b->name, "%llx-%016llx", (unsigned long long)time(NULL), (unsigned long long)random);
    mg_writer_init(&b->rows);
    b->count = 0;
    b->slow = false;
    b->open = true;
    b->begun_at = mg_measure_clock();
    b->head.batch = b->name;
    b->head.busy = mg_canary_is_shared(c, engine);
    return mg_canary_run(c, engine, &b->head.canary_before_s);
}

static void add_row(struct mg_batch *b, const char *op, const char *signature, enum mg_timing_status status,
                    const struct mg_timing *timing)
{
    mg_timing_write_row(&b->rows, &(struct mg_timing_row){.row = b->count++,
                                                          .op = op,
                                                          .signature = signature,
                                                          .status = status,
                                                          .n = timing->n,
                                                          .median_s = timing->median_s,
                                                          .mad_s = timing->mad_s,
                                                          .min_s = timing->min_s,
                                                          .workspace = timing->workspace_bytes,
                                                          .clock_mhz = timing->clock_mhz,
                                                          .throttled = timing->throttled});
}

void mg_batch_refuse(struct mg_batch *b, const char *op, const char *signature)
{
    add_row(b, op, signature, MG_TIMING_UNSUPPORTED, &(struct mg_timing){0});
}

/* After a failure: what comes now must not suffer from it. */
static bool open_anew(struct mg_batch *b, struct mg_canary *c, struct mg_engine **engine)
{
    double seconds;
    mg_engine_close(*engine);
    *engine = NULL;
    if (!mg_canary_open(c, engine) || !mg_canary_run(c, *engine, &seconds))
        return false;
    b->slow = b->slow || mg_canary_is_slow(c, seconds);
    return true;
}

bool mg_batch_time(struct mg_batch *b, struct mg_canary *c, struct mg_engine **engine, const char *op,
                   const char *signature, enum mg_timing_status *status)
{
    for (int tries = 1; tries <= TRIES; tries++) {
        struct mg_timing timing = {0};
        struct mg_error err = {0};
        enum mg_code code = mg_engine_time_signature(*engine, op, signature, &mg_time_policy_default, &timing, &err);
        if (mg_timing_status_of(code, status)) {
            add_row(b, op, signature, *status, &timing);
            return true;
        }
        fprintf(stderr, "%s: timing %s %s failed%s: %s\n", c->who, op, signature,
                tries == TRIES ? " again, it is left out" : "", err.message);
        if (!open_anew(b, c, engine))
            return false;
    }
    mg_batch_refuse(b, op, signature);
    return true;
}

/* A throttled device has no time that could be written. */
static double written(struct mg_batch *b, double seconds)
{
    b->head.busy = b->head.busy || !isfinite(seconds);
    return isfinite(seconds) ? seconds : 0;
}

bool mg_batch_end(struct mg_batch *b, struct mg_canary *c, struct mg_engine *engine)
{
    struct mg_timing_batch *head = &b->head;
    bool good = engine && mg_canary_run(c, engine, &head->canary_after_s);
    b->slow = b->slow || mg_canary_is_slow(c, head->canary_before_s) || mg_canary_is_slow(c, head->canary_after_s);
    head->busy = (engine && mg_canary_is_shared(c, engine)) || head->busy;
    head->canary_best_s = c->best_s;
    head->canary_before_s = written(b, head->canary_before_s);
    head->canary_after_s = written(b, head->canary_after_s);
    return good;
}

void mg_batch_write(const struct mg_batch *b, struct mg_writer *w)
{
    mg_timing_write_batch(w, &b->head);
    mg_write_text(w, "%s", b->count ? b->rows.data : "");
    w->failed = w->failed || b->rows.failed;
}

void mg_batch_release(struct mg_batch *b)
{
    if (b->open)
        mg_writer_release(&b->rows);
    b->open = false;
}
