#include "measure/rows.h"

/* Where a row ends: the dimension behind the last that is not part of it. */
static uint32_t measure_row(const struct mg_shape *shape, const int64_t *stride, int64_t *length)
{
    uint32_t d = shape->rank;
    *length = 1;
    for (; d > 0 && (shape->dim[d - 1] == 1 || stride[d - 1] == *length || stride[d - 1] == 0); d--)
        *length *= stride[d - 1] ? shape->dim[d - 1] : 1;
    return d;
}

struct mg_rows mg_rows_of(const struct mg_shape *shape, const int64_t *stride, uint64_t size)
{
    struct mg_rows rows = {.count = 1};
    int64_t length, last = 0;
    uint32_t outer = measure_row(shape, stride, &length);
    if (mg_shape_elements(shape) == 0)
        return (struct mg_rows){0};
    for (uint32_t i = 0; i < shape->rank; i++)
        last += (shape->dim[i] - 1) * stride[i];
    for (uint32_t i = 0; i < outer; i++) {
        if (stride[i] == 0 || shape->dim[i] == 1)
            continue;
        rows.dim[rows.rank] = shape->dim[i];
        rows.step[rows.rank++] = (uint64_t)stride[i] * size;
        rows.count *= (uint64_t)shape->dim[i];
    }
    rows.bytes = (uint64_t)length * size;
    rows.span = ((uint64_t)last + 1) * size;
    rows.held = rows.count * mg_rows_pitch(&rows);
    rows.held = rows.rank > 0 && rows.held < rows.span ? rows.held : rows.span;
    return rows;
}

uint64_t mg_rows_pitch(const struct mg_rows *rows)
{
    return (rows->bytes + MG_LINE - 1) / MG_LINE * MG_LINE;
}

uint64_t mg_rows_fit(const struct mg_rows *rows)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < rows->rank; i++)
        least = rows->step[i] < least ? rows->step[i] : least;
    uint64_t fit = rows->rank > 0 && rows->bytes > 0 ? least / mg_rows_pitch(rows) : 1;
    return fit > 1 ? fit : 1;
}
