/* Steps of normalisation, for core/graph and its tests. */
#ifndef MG_GRAPH_NORMALISE_PRIV_H
#define MG_GRAPH_NORMALISE_PRIV_H

#include "graph/ops_priv.h"

/* The stable topological order: always the earliest listed operator that is ready. An operator with
 * in_place[op] >= 0 also waits for every other reader of that operand and of its views. `order`
 * receives op_count indices. */
enum mg_code mg_order_ops(const struct mg_graph *g, const int32_t *in_place, struct mg_arena *scratch, mg_op *order,
                          struct mg_error *err);

/* Layout (strides, offset) of result `slot` of a view operator as a view of its operand, whose layout
 * is given. False if strides cannot express it. */
struct mg_layout_of {
    int64_t offset;
    int64_t stride[MG_MAX_RANK];
};
bool mg_derive_layout(const struct mg_graph *g, mg_op op, uint32_t slot, const struct mg_layout_of *in,
                      struct mg_layout_of *out);

/* The value whose storage v may share: follows view operators upwards. */
mg_value mg_alias_root(const struct mg_graph *g, mg_value v);

/* Hex SHA-256 of the canonical JSON with names replaced by indices. */
enum mg_code mg_graph_digest(const struct mg_graph *g, char out[65], struct mg_error *err);

/* Fills readers of all values. */
void mg_graph_fill_readers(struct mg_graph *g);

#endif
