/* Placement's working set, for place.c and what it calls. */
#ifndef MG_PLAN_PLACE_PRIV_H
#define MG_PLAN_PLACE_PRIV_H

#include "base/digest.h"
#include "plan/plan_priv.h"

struct mg_place_event {
    uint32_t at;
    int64_t bytes;
};
struct mg_place_key {
    double by[2];
    uint32_t item;
};
struct mg_place_item {
    uint64_t size, offset;
    uint32_t lower, upper;
    size_t buffer;
};
struct mg_placement {
    struct mg_place_item *items;
    size_t count;
    struct mg_place_item *stack; /* placed so far, by offset */
    uint64_t *trial, *best;      /* offsets by item */
    uint32_t *order;             /* of the best */
    uint64_t height, bound;
    int64_t effort; /* comparisons left */
};

/* Keys descending, then items ascending; for qsort. */
int mg_place_compare_keys(const void *a, const void *b);
/* Searches for a packing at the lower bound, then for lower ones than the best, with about `effort`. */
void mg_place_exact(struct mg_placement *p, int64_t effort, struct mg_arena *scratch);
/* Best fit in the order of begins (`by_begin`, items); fills p->trial and returns the height. */
uint64_t mg_place_online(struct mg_placement *p, const uint32_t *by_begin, struct mg_arena *scratch);

#endif
