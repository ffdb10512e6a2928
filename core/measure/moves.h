/* Operators that only move elements, as lists of strided boxes to copy or to fill: one description for every back
 * end, whatever the layouts of operands and results. */
#ifndef MG_MEASURE_MOVES_H
#define MG_MEASURE_MOVES_H

#include "measure/measure_priv.h"

struct mg_move {
    struct mg_shape shape;
    uint32_t to;   /* result */
    uint32_t from; /* operand, or MG_NONE: `value` everywhere */
    double value;
    int64_t to_offset, from_offset; /* elements */
    int64_t to_stride[MG_MAX_RANK], from_stride[MG_MAX_RANK];
};
struct mg_moves {
    struct mg_move *items;
    size_t count, capacity;
};
/* The moves of an operator, in p's arena; false if it is not one that only moves elements, or is a reshape between
 * layouts of which neither can be seen as the other's shape. */
bool mg_moves_of(struct mg_prepared *p, struct mg_moves *out);

#endif
