/* The order of a small set of steps with the least peak of live bytes (Ahn et al., Serenity, MLSys 2020): an abstract
 * scheduler that knows steps, what must stand before what, and the bytes that steps make and end. */
#ifndef MG_SEARCH_DOWNSET_H
#define MG_SEARCH_DOWNSET_H

#include "search/problem.h"
#include "search/step_set.h"

/* Steps are numbered in an order that is legal. An instance is alive from the step that makes it (or the
 * beginning) through its last reader (or to the end); what a step reads and makes coexists. */
struct mg_ordering {
    uint32_t count;      /* steps, at most MG_SET_MAX */
    struct mg_set *pred; /* per step: steps that must stand before it */
    uint32_t *unit;      /* per step: any of its unit's steps; steps of a unit are placed together. NULL: no units */
    struct mg_rows makes, reads; /* step -> instances */
    struct mg_rows reuse; /* step -> operands, of which the first that ends there lends its bytes to the result */
    uint64_t *extra;      /* per step: bytes that live during it only */
    uint32_t instances;
    uint64_t *bytes;   /* per instance */
    uint8_t *before;   /* per instance: made before the first step */
    uint8_t *after;    /* per instance: read after the last step */
    uint64_t base;     /* bytes alive all the time that belong to no instance */
    uint64_t target;   /* peaks below are as good as this one */
    uint32_t max_sets; /* down-sets kept between two waists before the search becomes a beam of `beam` */
    uint32_t beam;
};
struct mg_order_cost {
    uint64_t peak;
    uint64_t excess; /* sum over the steps of the bytes above the target */
};

/* What an order costs. `live` (per step in that order; may be NULL) receives the live bytes. */
struct mg_order_cost mg_ordering_cost(const struct mg_ordering *o, const uint32_t *order, struct mg_arena *scratch,
                                      uint64_t *live);

/* Which steps must stand before each one, directly or not, and which after it. */
void mg_ordering_close(const struct mg_ordering *o, struct mg_set *ancestors, struct mg_set *descendants);

/* A peak that no order can get below: at each step, the instances that are alive there in every order.
 * Stops early where `enough` is reached. */
uint64_t mg_ordering_bound(const struct mg_ordering *o, uint64_t enough, struct mg_arena *scratch);

/* The best order found. True if it has a smaller peak (at least the target) than 0, 1, 2, ..., or the same peak
 * and a smaller excess; else `order` is 0, 1, 2, .... *exact (may be NULL): no order of the units has a smaller
 * peak. Scratch memory is rewound. */
bool mg_ordering_solve(const struct mg_ordering *o, struct mg_arena *scratch, uint32_t *order, bool *exact);

#endif
