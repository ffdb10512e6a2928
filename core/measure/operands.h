/* The numbers that operands hold while their operator is timed. Most operators take as long whatever they are; those
 * that read by index do not, and refuse an index that is out of range. */
#ifndef MG_MEASURE_OPERANDS_H
#define MG_MEASURE_OPERANDS_H

#include "measure/measure.h"

/* Writes the first `count` elements of operand `i`, which has these strides, as they lie in memory, or fewer; returns
 * how many: what follows may repeat them. Reals lie around 1, whole numbers are 0 and 1; but indices are spread over
 * their axis, boxes as wide as their image, sequences as long as they can be. */
uint64_t mg_operand_fill(const struct mg_op_desc *op, uint32_t i, const struct mg_strides *strides, void *memory,
                         uint64_t count);

/* Whether the operator can read operand `i` from any place in what was written there. */
bool mg_operand_is_anywhere(const struct mg_op_desc *op, uint32_t i);

/* For a whole graph: rewrites the inputs of whole numbers that operators read by index, themselves or through views and
 * copies, so that they are spread over the axis as above; others stay. `values`: by value, NULL where it is computed.
 */
void mg_operand_spread(const struct mg_graph *g, double **values, uint64_t seed, struct mg_arena *arena);

#endif
