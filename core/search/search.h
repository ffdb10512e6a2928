/* The search: from a normalised graph and limits to a Pareto front of checked plans.
 *
 * The core does no I/O and reads no clock: time, progress and finished plans go through the
 * observer. With the same graph, options, seed and an evaluations budget the result is the same
 * bit for bit on any machine. */
#ifndef MG_SEARCH_SEARCH_H
#define MG_SEARCH_SEARCH_H

#include <stdbool.h>

#include "plan/plan.h"

enum mg_technique {
    MG_TECHNIQUE_FISSION = 1 << 0,
    MG_TECHNIQUE_WINDOW_FISSION = 1 << 1,
    MG_TECHNIQUE_REMAT = 1 << 2,
    MG_TECHNIQUE_SWAP = 1 << 3,
    MG_TECHNIQUE_REORDER = 1 << 4,
    MG_TECHNIQUE_REWRITE = 1 << 5,
    MG_TECHNIQUE_ALL = (1 << 6) - 1,
};

struct mg_constraint {
    const char *pattern; /* operator or module name, with * and ? */
    uint32_t forbid;     /* mask of mg_technique */
};

struct mg_search_options {
    const struct mg_device *device;
    struct mg_pricer *pricer; /* of the device; NULL: the model */
    uint64_t memory_limit;    /* bytes of arena, 0 = none */
    double memory_ratio;      /* of the original peak, 0 = none; at most one of the two */
    double latency_limit;     /* seconds, 0 = none */
    double latency_ratio;     /* of the original latency, 0 = none; at most one of the two */
    uint64_t host_memory;     /* bytes, 0 = unlimited */
    uint64_t max_evaluations; /* 0 = unlimited */
    double max_seconds;       /* by observer->now, from the call on, 0 = unlimited */
    bool seconds_only_end; /* max_seconds is a bound that nobody asked for: it ends the search, no phase takes a share
                              of it, and what ends by evaluations before is the same on any machine */
    uint64_t seed;
    uint32_t techniques; /* mask of mg_technique */
    enum mg_numerics numerics;
    const struct mg_constraint *constraints;
    uint32_t constraint_count;
    /* Plans to go on from, of this graph, device and options: what an earlier search published. The result then
     * depends on them. One that is no state of this search is passed over. They must outlive the search. */
    const struct mg_plan *const *starts;
    uint32_t start_count;
};

enum mg_outcome { MG_OUTCOME_MET, MG_OUTCOME_NOT_MET, MG_OUTCOME_INFEASIBLE, MG_OUTCOME_FRONT };
enum mg_stopped_by { MG_STOPPED_EVALUATIONS, MG_STOPPED_SECONDS, MG_STOPPED_EXHAUSTED, MG_STOPPED_CANCELLED };

struct mg_point {
    char id[17]; /* of the plan */
    struct mg_figures figures;
    uint32_t techniques;        /* which ones the plan uses */
    const struct mg_plan *plan; /* checked and placed; owned by the result's arena; NULL where the observer had it
                                   before (mg_observer.plan, mg_observer.baseline_point) */
};
struct mg_baseline_result {
    const char *name;           /* "sublinear", "microbatch" */
    const char *not_applicable; /* why there are no points, or not all; or NULL */
    struct mg_point *points;    /* by latency */
    uint32_t point_count;
};
struct mg_search_result {
    struct mg_point original;
    struct mg_point *front; /* by ascending latency; includes the original */
    uint32_t front_count;
    uint32_t best; /* index into front: the point for the limit, see mg_front_best */
    struct mg_baseline_result *baselines;
    uint32_t baseline_count;
    enum mg_outcome outcome;
    enum mg_stopped_by stopped_by;
    uint64_t lower_bound_bytes;
    const char *lower_bound_op; /* the operator that sets it, or "" */
    uint64_t evaluations, accepted, rejected;
    uint32_t restored; /* starting plans that were taken up */
    double seconds;    /* search time, by observer->now */
};

struct mg_progress {
    uint64_t evaluations;
    double seconds;
    struct mg_figures original, best;
    uint32_t front_count;
    double fraction; /* of the budget, 0..1 */
};
struct mg_observer {
    void *context;
    double (*now)(void *context);                                        /* monotonic seconds */
    bool (*cancelled)(void *context);                                    /* polled often; may be NULL */
    void (*progress)(void *context, const struct mg_progress *progress); /* at most every 0.25 s; may be NULL */
    /* A checked plan has entered the front (or is the original: k = 0 point). May be NULL. */
    void (*plan)(void *context, const struct mg_point *point);
    /* A baseline has a further, checked point, which may be left out of its points in the end. May be NULL. */
    void (*baseline_point)(void *context, const struct mg_point *point);
    /* A baseline's points. May be NULL. */
    void (*baseline)(void *context, const struct mg_baseline_result *baseline);
    /* The checker refused a plan of ours: a bug; never published. May be NULL. */
    void (*rejected)(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict);
};

enum mg_code mg_search(const struct mg_graph *g, const struct mg_search_options *options,
                       const struct mg_observer *observer, struct mg_arena *arena, struct mg_search_result *out,
                       struct mg_error *err) MG_WARN_UNUSED;

/* A peak that no allowed technique can get below, without a search; *op is the operator that sets it, or "". */
uint64_t mg_search_lower_bound(const struct mg_graph *g, const struct mg_search_options *options, const char **op);

#endif
