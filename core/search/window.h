/* Windows of lists as orderings: levels, items and what each of them makes, reads and frees. */
#ifndef MG_SEARCH_WINDOW_H
#define MG_SEARCH_WINDOW_H

#include "search/downset.h"
#include "search/searcher.h"

struct mg_schedule_limits {
    uint32_t max_sets, beam; /* of struct mg_ordering */
    uint32_t reach;          /* an interval is pushed outward by at most so many steps on each side */
    uint64_t target;         /* peaks below are as good as this one */
};

/* A level: the top of a list or one region's body, as words [from, to). */
struct mg_level {
    uint32_t from, to;
};
/* The innermost level around a step (`outside`: the one around that), MG_NONE in `from` if there is none. */
struct mg_level mg_level_around(const struct mg_list *list, uint32_t step, bool outside);

/* The window [from, to) of a list, which must lie in one level and hold whole bodies, as an ordering of its
 * items: compute steps, copies, and nested regions as one item each. `live` are the list's live bytes per step.
 * False: more than MG_SET_MAX items. */
struct mg_window {
    struct mg_ordering ordering;
    uint32_t *first; /* per item: its first word; first[count] = to */
};
bool mg_window_build(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                     const uint64_t *live, uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                     struct mg_arena *scratch, struct mg_window *out);

/* An item is a step or a whole nested region: the step after the item at i, and the first step of the item that
 * ends before i. */
uint32_t mg_item_end(const struct mg_list *list, uint32_t i);
uint32_t mg_item_before(const struct mg_list *list, uint32_t i);

#endif
