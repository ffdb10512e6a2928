/* Weisfeiler-Lehman colours of operators: equal for operators that look alike.
 *
 * After round r two operators have the same colour iff (up to hash collisions) their types,
 * attributes, operand and result shapes, and the neighbourhoods up to distance r in both directions
 * agree, edges being labelled by operand position and result slot; inputs, weights, states and
 * constants count as neighbours by their kind, shape and dtype. */
#ifndef MG_GRAPH_COLOUR_H
#define MG_GRAPH_COLOUR_H

#include "graph/graph.h"

/* out[op] for every operator of a normalised graph; scratch memory comes from `arena`. */
enum mg_code mg_graph_colours(const struct mg_graph *g, uint32_t radius, struct mg_arena *arena, uint64_t *out,
                              struct mg_error *err) MG_WARN_UNUSED;

#endif
