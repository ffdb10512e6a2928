/* The dimension graph (MAGIS section 4.1): which iteration axes of which operators run
 * over the same dimension of the data. Its connected components are what fission can split along. */
#ifndef MG_SEARCH_DIMENSION_H
#define MG_SEARCH_DIMENSION_H

#include "search/problem.h"

struct mg_dimensions {
    uint32_t *axis_start;      /* per operator: first axis node; axis_start[op_count] = number of nodes */
    uint32_t *component;       /* per axis node: component, or MG_NONE (window axes) */
    uint32_t *value_start;     /* per value: first dimension node */
    uint32_t *value_component; /* per dimension node */
    uint32_t count;            /* components */
    struct mg_rows ops;        /* component -> operators with an axis in it, ascending, each once */
};

struct mg_dimensions *mg_dimensions_build(const struct mg_graph *g, struct mg_arena *arena);

/* The one axis of `op` in the component; MG_NONE if it has none or more than one. */
uint32_t mg_dimensions_axis(const struct mg_dimensions *d, mg_op op, uint32_t component);

/* The region of the given operators along a component: axes, the common length (the greatest common
 * divisor of the axes' lengths) and scales filled in, parts = 2. False if an operator has not exactly
 * one axis there, or the length is below 2. Whether the region is legal is mg_scheme_build's to say. */
bool mg_dimensions_region(const struct mg_dimensions *d, const struct mg_graph *g, uint32_t component, const mg_op *ops,
                          uint32_t count, struct mg_arena *arena, struct mg_region *out);

/* Labels the weakly connected parts of a set of operators (edges: one reads what another makes, both in
 * the set): part[i] belongs to ops[i]. Returns how many parts. */
uint32_t mg_connected_parts(const struct mg_graph *g, const mg_op *ops, uint32_t count, struct mg_arena *scratch,
                            uint32_t *part);

/* The component along which the data inputs are batched: that of most operators among those of the
 * inputs' outermost dimensions. MG_NONE if there is none. */
uint32_t mg_dimensions_batch(const struct mg_dimensions *d, const struct mg_graph *g);

#endif
