/* Re-ordering lists: intervals around changes, and what the search calls. Re-ordering runs the same steps, so it only
 * minimises memory. */
#ifndef MG_SEARCH_SCHEDULE_H
#define MG_SEARCH_SCHEDULE_H

#include "search/window.h"

/* From scratch: effort before speed. */
static inline struct mg_schedule_limits mg_schedule_limits(void)
{
    return (struct mg_schedule_limits){20000, 64, 20, 0};
}

/* Pushes both ends of the changed steps [*from, *to) outward, within their level, to where the waist is narrow. */
void mg_schedule_interval(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                          const uint64_t *live, const struct mg_schedule_limits *limits, struct mg_arena *scratch,
                          uint32_t *from, uint32_t *to);

/* Re-orders the window in place. True if the peak within it falls (by the rules of mg_evaluate, copies where they
 * are listed), or stays and the excess above the target falls; else the list is left as it was. */
bool mg_schedule_window(const struct mg_problem *p, const struct mg_scheme *scheme, struct mg_list *list,
                        const uint64_t *live, uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                        struct mg_arena *scratch);

/* From scratch: every body and then the top, window by window between waists. Returns whether anything changed;
 * the peak never rises. e->live_at belongs to the result. */
bool mg_schedule_all(struct mg_evaluator *e, const struct mg_scheme *scheme, struct mg_list *list,
                     const struct mg_schedule_limits *limits, struct mg_arena *scratch);

/* Re-orders around a step at the peak of a list whose live bytes are s->live. */
struct mg_reorder {
    const struct mg_scheme *scheme;
    struct mg_list *list; /* in and out */
    uint32_t around_step;
    uint64_t target;     /* bytes: below nothing is gained */
    double latency_cap;  /* nothing slower is taken */
    bool again;          /* also where the same surroundings were tried in vain before */
    struct mg_cost cost; /* out, if true */
};
/* True if the peak falls (at least to the target), or stays and the excess above the target falls: then the list is
 * the better one and s->evaluator.live_at has its live bytes. Uses s->trial; an order found counts as one
 * evaluation. */
bool mg_schedule_improve(struct mg_searcher *s, struct mg_reorder *r);

#endif
