/* The published side of the archive: which states become plans, checked before anyone sees them. */
#ifndef MG_SEARCH_FRONT_H
#define MG_SEARCH_FRONT_H

#include "search/searcher.h"

enum { MG_FRONT_MAX = 64 };

struct mg_front {
    double last_published; /* seconds since the start of the search */
    uint64_t accepted, rejected;
};

/* Targets between which a search without a limit divides its time. */
struct mg_target {
    double latency; /* at most so many seconds, or 0 */
    uint64_t peak;  /* at most so many bytes, or 0 */
};
enum { MG_TARGETS_MAX = 48 };
/* The limit asked for; without one *fixed targets, then the latency of every micro-batching point. */
uint32_t mg_targets(const struct mg_searcher *s, struct mg_target out[MG_TARGETS_MAX], uint32_t *fixed);

/* The best state for the limit asked for; without one, the smallest peak within 1.10 times the original's latency. */
struct mg_state *mg_front_best(const struct mg_searcher *s);
bool mg_front_meets(const struct mg_searcher *s, const struct mg_figures *figures);

/* Checks a plan and makes a point of it. MG_ERR_REJECTED: the checker refused (observer told). */
enum mg_code mg_front_point(struct mg_searcher *s, const struct mg_plan *plan, uint32_t techniques,
                            struct mg_point *out, struct mg_error *err) MG_WARN_UNUSED;
/* Publishes a state; keep_apart as in struct mg_evaluator. Memory of the plan is in s->arena. */
enum mg_code mg_front_publish(struct mg_searcher *s, const struct mg_state *state, bool keep_apart,
                              struct mg_point *out, struct mg_error *err) MG_WARN_UNUSED;
/* Ascending latency; equal ones by id. */
void mg_front_sort(struct mg_point *points, uint32_t count);
/* Tells the observer of new points, at most every two seconds. */
void mg_front_update(struct mg_searcher *s, struct mg_front *front);
/* The thinned, checked front of the result. */
void mg_front_finish(struct mg_searcher *s, struct mg_front *front, struct mg_search_result *out);

#endif
