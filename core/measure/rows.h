/* A box in memory as what lies there: rows of one length. */
#ifndef MG_MEASURE_ROWS_H
#define MG_MEASURE_ROWS_H

#include "graph/graph.h"

enum { MG_LINE = 64 }; /* bytes that a cache holds or does not, together */

struct mg_rows {
    uint64_t bytes; /* of a row */
    uint64_t count; /* of rows, the product of their dimensions; 0: the box is empty */
    uint64_t span;  /* bytes from the first element to the last, both included */
    uint64_t held; /* bytes of the lines that rows with gaps touch, on average where they begin anywhere in a line; of a
                      box without gaps, and at most, the span */
    uint64_t pitch; /* bytes to a row that neither shares a line with this one nor is fetched along with it */
    uint32_t rank;
    int64_t dim[MG_MAX_RANK];
    uint64_t step[MG_MAX_RANK]; /* bytes from a row to the next in this dimension */
};

/* Elements of `size` bytes; what a stride of 0 repeats lies there once. */
struct mg_rows mg_rows_of(const struct mg_shape *shape, const int64_t *stride, uint64_t size);
/* How many such boxes lie in one another's gaps, each a pitch behind the last one; 1: its rows leave no gap. */
uint64_t mg_rows_fit(const struct mg_rows *rows);

#endif
