/* The timing cache: what was measured on which class of device, what is wanted, who measures.
 *
 * Part of the store's interface; the rules of store.h hold. Rows are only ever added; a row becomes valid in one
 * generation (at once, or when a suspect is confirmed) and may stop being valid in a later one (revoked). So what a
 * generation held can be told at any later time. */
#ifndef MG_STORE_TIMINGS_H
#define MG_STORE_TIMINGS_H

#include "store/store.h"
#include "store/timing_types.h"

struct mg_timing_agent {
    const char *name, *host, *version, *uuid, *state, *token;
    struct mg_timing_class class;
    int64_t registered_at, seen_at, batches, rows;
    double canary_s; /* the best canary seen on its card, 0: none */
    bool any_agent;  /* as above */
};
struct mg_timing_listed {
    int64_t number; /* grows */
    const char *agent, *host, *batch, *token, *version;
    struct mg_timing_class class;
    struct mg_timing_row row;
    int64_t at;
    double canary_before_s, canary_after_s, canary_best_s;
    bool busy, suspect, revoked, drifts;
};
struct mg_timing_class_stats {
    struct mg_timing_class class;
    int64_t generation, rows, signatures, suspects, drifting, failures, wanted, oldest_at, newest_at;
    int64_t settled; /* of `wanted`: measured, or found not to be measurable */
};

/* What operations on timings answer: result.timings. */
struct mg_store_timings {
    int64_t generation;
    int64_t added, known, suspect, confirmed; /* rows of mg_store_add_timings(); revoked: added */
    int64_t unjudged;                         /* of them suspects because no profile names their device */
    const struct mg_timing_want *wants;
    size_t n_wants;
    const struct mg_timing_agent *agents;
    size_t n_agents;
    const struct mg_timing_listed *rows;
    size_t n_rows;
    const struct mg_timing_class_stats *classes;
    size_t n_classes;
    int64_t next;            /* list: `after` of the next page; 0: the last one */
    const char *const *jobs; /* revoke: ids of jobs that used the rows */
    size_t n_jobs;
    struct mg_timing_class class;    /* pick, claim: the class; id NULL: none */
    int64_t covered, settled, total; /* pick: distinct operators of the graph that are measured in it, that cannot be,
                                        and all */
    double canary_s;                 /* put_agent: the agent's best canary, else that of good batches of its card in the
                                        last MG_TIMING_CANARY_DAYS, posted with its token; 0: none, or no UUID */
    bool graph_known;                /* pick: the graph's operators are wanted for these models */
};

/* One transaction for all: a row (agent, batch, row) that is there already changes nothing. CONFLICT: the agent
 * belongs to another token. result.timings: counts and the generation. */
void mg_store_add_timings(mg_store *store, const struct mg_timing_batch *batches, size_t n, mg_store_cb *cb, void *ctx);
/* Makes the agent known, or tells that it lives, or, in state MG_TIMING_ENDED, that it does not. An agent is told from
 * another of its name by the uuid of its device (BOOT/DEVICE where that has none), as far as both have one: CONFLICT
 * where one lives on another device, or belongs to another token. Of one device one process at a time measures: that is
 * theirs to see to. result.timings: class, canary_s. */
void mg_store_put_agent(mg_store *store, const struct mg_timing_agent *agent, mg_store_cb *cb, void *ctx);
/* Leases at most `max` wanted signatures to the agent for MG_TIMING_LEASE_MS, the most valuable first, not more than
 * can be expected to take `seconds`. What it had leased before it may get again. NOT_FOUND: no such agent.
 * result.timings: wants, class. */
void mg_store_claim_timings(mg_store *store, const char *agent, const char *token, bool any_agent, int max,
                            double seconds, mg_store_cb *cb, void *ctx);
/* `by`: "agent", "token" or "host". Rows measured at `since` or later, as they say, or of a batch of which something
 * came then, are valid no more. */
void mg_store_revoke_timings(mg_store *store, const char *by, const char *name, int64_t since, mg_store_cb *cb,
                             void *ctx);
/* What a graph needs on devices of these models (JSON array of names, and "class:ID"). Where that makes more than
 * MG_TIMING_WANTS, wants that are settled are forgotten, then those worth least. */
void mg_store_add_wants(mg_store *store, const char *graph_digest, const char *models,
                        const struct mg_timing_want *wants, size_t n, mg_store_cb *cb, void *ctx);
/* Pins the prices of a job: result.job. */
void mg_store_set_timings(mg_store *store, const char *id, const char *class_id, int64_t generation, mg_store_cb *cb,
                          void *ctx);

/* ---- reads ---- */

struct mg_timing_query {
    const char *class_id, *model, *op, *agent; /* NULL: any */
    int suspect;                               /* 1: only suspects, 0: none, -1: all */
    int64_t after;                             /* rows with a larger number */
    int limit;                                 /* 1..MG_TIMING_PAGE */
};
void mg_store_list_timings(mg_store *store, const struct mg_timing_query *query, mg_store_cb *cb, void *ctx);
void mg_store_list_classes(mg_store *store, mg_store_cb *cb, void *ctx);
void mg_store_list_agents(mg_store *store, mg_store_cb *cb, void *ctx);
/* What nobody has measured yet in the class (or, class_id NULL, in any class of the model; both NULL: of any). */
void mg_store_list_missing(mg_store *store, const char *class_id, const char *model, int limit, mg_store_cb *cb,
                           void *ctx);
/* Of the classes of these models (or "class:ID") the one in which most operators of the graph are measured. */
void mg_store_pick_class(mg_store *store, const char *graph_digest, const char *models, mg_store_cb *cb, void *ctx);
/* The snapshot of a class as of a generation: result.fd is a file in DIR/cache, made if it is not there (or in memory,
 * if the store is open for reading only). */
void mg_store_snapshot(mg_store *store, const char *class_id, int64_t generation, mg_store_cb *cb, void *ctx);

#endif
