/* For tests of the timing cache: a store, batches of rows, and what it answers. */
#ifndef MG_TESTS_TIMINGS_UTIL_H
#define MG_TESTS_TIMINGS_UTIL_H

#include <criterion/criterion.h>
#include <unistd.h>

#include "store/store_priv.h"
#include "store/timings.h"
#include "tests/unit/store_util.h"

#define CLASS "00000000000000aa"

static struct fixture f;
static struct timings_got {
    enum mg_store_code code;
    int64_t generation, added, known, suspect, unjudged, confirmed, settled;
    int64_t operators, wanted, wanted_settled; /* of the first class */
    size_t n_wants, n_rows, n_jobs, total;
    char first[64], last[64];
    bool known_graph;
    int snapshot; /* or -1 */
    bool suspects[16], revoked[16], drifts[16];
} got;

static inline void on_timings(void *ctx, const struct mg_store_result *result)
{
    struct timings_got *g = ctx;
    const struct mg_store_timings *t = result->timings;
    *g = (struct timings_got){.code = result->code, .snapshot = -1};
    if (!t) {
        g->snapshot = result->fd > 0 ? dup(result->fd) : -1;
        return;
    }
    g->known_graph = t->graph_known;
    g->generation = t->generation;
    g->added = t->added;
    g->known = t->known;
    g->suspect = t->suspect;
    g->unjudged = t->unjudged;
    g->confirmed = t->confirmed;
    g->settled = t->settled;
    g->n_wants = t->n_wants;
    g->n_rows = t->n_rows;
    g->n_jobs = t->n_jobs;
    g->total = (size_t)t->total;
    if (t->n_wants) {
        got_text(g->first, sizeof g->first, t->wants[0].signature);
        got_text(g->last, sizeof g->last, t->wants[t->n_wants - 1].signature);
    }
    if (t->n_classes) {
        g->operators = t->classes[0].signatures;
        g->wanted = t->classes[0].wanted;
        g->wanted_settled = t->classes[0].settled;
    }
    for (size_t i = 0; i < t->n_rows && i < 16; i++) {
        g->suspects[i] = t->rows[i].suspect;
        g->revoked[i] = t->rows[i].revoked;
        g->drifts[i] = t->rows[i].drifts;
    }
}

static inline const struct timings_got *asked(void)
{
    fixture_wait(&f);
    return &got;
}

#define ASK(op, ...) (mg_store_##op(f.store, __VA_ARGS__, on_timings, &got), asked())

static inline struct mg_timing_row row_of(uint32_t number, const char *signature, double seconds)
{
    return (struct mg_timing_row){.row = number,
                                  .op = "add",
                                  .signature = signature,
                                  .key = {strlen(signature) * 1000003 + (unsigned char)signature[0], 7},
                                  .n = 9,
                                  .median_s = seconds,
                                  .mad_s = seconds / 100,
                                  .min_s = seconds,
                                  .model_s = 1e-3,
                                  .floor_s = 1e-5};
}

static const char *class_id = CLASS;
static int64_t measured_at; /* as batches say; 0: now */
static bool busy;

static inline const struct timings_got *post(const char *agent, const char *token, const char *name,
                                             const struct mg_timing_row *rows, size_t n)
{
    const struct mg_timing_batch batch = {.agent = agent,
                                          .host = "host",
                                          .version = "1",
                                          .batch = name,
                                          .token = token,
                                          .class = {class_id, "card", "{\"device\":\"card\"}"},
                                          .at = measured_at,
                                          .busy = busy,
                                          .rows = rows,
                                          .n_rows = n};
    return ASK(add_timings, &batch, 1);
}

static inline const struct timings_got *list(void)
{
    const struct mg_timing_query all = {.suspect = -1, .limit = 100};
    return ASK(list_timings, &all);
}

#endif
