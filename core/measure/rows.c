#include "measure/rows.h"

enum { FETCHED = 2 * MG_LINE }; /* processors fetch a line's neighbour too */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* The dimension that goes on where a row of so many elements ends; the rank: none does. */
static uint32_t next_of_row(const struct mg_shape *shape, const int64_t *stride, int64_t length)
{
    uint32_t d = 0;
    while (d < shape->rank && (shape->dim[d] == 1 || stride[d] != length))
        d++;
    return d;
}

/* Elements of a row: dimensions belong to it in whatever order they are named. */
static int64_t measure_row(const struct mg_shape *shape, const int64_t *stride, bool *in_row)
{
    int64_t length = 1;
    for (uint32_t d = next_of_row(shape, stride, 1); d < shape->rank; d = next_of_row(shape, stride, length)) {
        in_row[d] = true;
        length *= shape->dim[d];
    }
    return length;
}

/* Rows that begin anywhere in a line touch one more now and then. */
static void measure_lines(struct mg_rows *rows, uint64_t size)
{
    bool anywhere = false;
    for (uint32_t i = 0; i < rows->rank; i++)
        anywhere = anywhere || rows->step[i] % MG_LINE != 0;
    uint64_t touched = anywhere ? rows->bytes + MG_LINE - size : round_up(rows->bytes, MG_LINE);
    rows->pitch = round_up(touched, FETCHED);
    rows->held = rows->rank > 0 && rows->count * touched < rows->span ? rows->count * touched : rows->span;
}

struct mg_rows mg_rows_of(const struct mg_shape *shape, const int64_t *stride, uint64_t size)
{
    struct mg_rows rows = {.count = 1};
    bool in_row[MG_MAX_RANK] = {false};
    int64_t last = 0;
    if (mg_shape_elements(shape) == 0)
        return (struct mg_rows){.pitch = FETCHED};
    rows.bytes = (uint64_t)measure_row(shape, stride, in_row) * size;
    for (uint32_t i = 0; i < shape->rank; i++) {
        last += (shape->dim[i] - 1) * stride[i];
        if (in_row[i] || stride[i] == 0 || shape->dim[i] == 1)
            continue;
        rows.dim[rows.rank] = shape->dim[i];
        rows.step[rows.rank++] = (uint64_t)stride[i] * size;
        rows.count *= (uint64_t)shape->dim[i];
    }
    rows.span = ((uint64_t)last + 1) * size;
    measure_lines(&rows, size);
    return rows;
}

uint64_t mg_rows_fit(const struct mg_rows *rows)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < rows->rank; i++)
        least = rows->step[i] < least ? rows->step[i] : least;
    uint64_t fit = rows->rank > 0 ? least / rows->pitch : 1;
    return fit > 1 ? fit : 1;
}
