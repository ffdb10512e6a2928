/* Reading and writing by index, one_hot, top_k, triangles and reversals. */
#include <string.h>

#include "exec/kernels.h"

static enum mg_code out_of_range(const struct mg_kernel *k)
{
    return mg_fail(k->err, MG_ERR_INVALID, "", "an index of '%s' is out of range", mg_op_type_name(k->op->type));
}

/* Row-major position in `shape` of an index. */
static int64_t flat(const struct mg_shape *shape, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < shape->rank; d++)
        at = at * shape->dim[d] + index[d];
    return at;
}

static double reduce(const char *reduction, double old, double update)
{
    if (strcmp(reduction, "add") == 0)
        return old + update;
    if (strcmp(reduction, "mul") == 0)
        return old * update;
    if (strcmp(reduction, "max") == 0)
        return old > update ? old : update;
    if (strcmp(reduction, "min") == 0)
        return old < update ? old : update;
    return update;
}

static void copy_data(const struct mg_kernel *k)
{
    memcpy(k->out[0], k->in[0], (size_t)mg_kernel_out_count(k, 0) * sizeof(double));
}

/* ---- elements ---- */

/* Visits every index: its element of the data, and its own position. */
static enum mg_code elements(const struct mg_kernel *k, bool scatter)
{
    const struct mg_shape *data = &k->op->in_shape[0], *shape = &k->op->in_shape[1];
    const char *reduction = mg_kernel_text(k, MG_ATTR_REDUCTION);
    int64_t axis = mg_kernel_int(k, MG_ATTR_AXIS), index[MG_MAX_RANK] = {0}, there[MG_MAX_RANK];
    for (int64_t i = 0; i < mg_shape_elements(shape); i++, mg_walk_next(shape, index)) {
        memcpy(there, index, sizeof there);
        int64_t at = (int64_t)k->in[1][i], size = data->dim[axis];
        there[axis] = at < 0 ? at + size : at;
        if (there[axis] < 0 || there[axis] >= size)
            return out_of_range(k);
        at = flat(data, there);
        if (scatter)
            k->out[0][at] = reduce(reduction, k->out[0][at], k->in[2][i]);
        else
            k->out[0][i] = k->in[0][at];
    }
    return MG_OK;
}

enum mg_code kernel_gather_elements(const struct mg_kernel *k)
{
    return elements(k, false);
}

enum mg_code kernel_scatter_elements(const struct mg_kernel *k)
{
    copy_data(k);
    return elements(k, true);
}

/* ---- slices ---- */

/* The number of elements of dimensions [from, to). */
static int64_t extent(const struct mg_shape *shape, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t d = from; d < to; d++)
        n *= shape->dim[d];
    return n;
}

/* Number of the slice of the data that index `i` means, or -1. */
static int64_t slice_of(const struct mg_kernel *k, int64_t i, int64_t count, int64_t indices_per_batch)
{
    const struct mg_shape *data = &k->op->in_shape[0];
    int64_t batch = mg_kernel_int(k, MG_ATTR_BATCH_DIMS), at = i / indices_per_batch;
    for (int64_t c = 0; c < count; c++) {
        int64_t size = data->dim[batch + c], index = (int64_t)k->in[1][i * count + c];
        index = index < 0 ? index + size : index;
        if (index < 0 || index >= size)
            return -1;
        at = at * size + index;
    }
    return at;
}

static enum mg_code slices(const struct mg_kernel *k, bool scatter)
{
    const struct mg_shape *data = &k->op->in_shape[0], *index = &k->op->in_shape[1];
    const char *reduction = mg_kernel_text(k, MG_ATTR_REDUCTION);
    uint32_t batch = (uint32_t)mg_kernel_int(k, MG_ATTR_BATCH_DIMS);
    int64_t count = index->dim[index->rank - 1], size = extent(data, batch + (uint32_t)count, data->rank);
    int64_t total = extent(index, 0, index->rank - 1), per_batch = extent(index, batch, index->rank - 1);
    for (int64_t i = 0; i < total; i++) {
        int64_t slice = slice_of(k, i, count, per_batch);
        if (slice < 0)
            return out_of_range(k);
        for (int64_t e = 0; e < size; e++) {
            double *out = &k->out[0][slice * size + e];
            if (scatter)
                *out = reduce(reduction, *out, k->in[2][i * size + e]);
            else
                k->out[0][i * size + e] = k->in[0][slice * size + e];
        }
    }
    return MG_OK;
}

enum mg_code kernel_gather_nd(const struct mg_kernel *k)
{
    return slices(k, false);
}

enum mg_code kernel_scatter_nd(const struct mg_kernel *k)
{
    copy_data(k);
    return slices(k, true);
}

/* ---- one_hot, top_k ---- */

/* Indices out of range are off everywhere. */
enum mg_code kernel_one_hot(const struct mg_kernel *k)
{
    const struct mg_shape *out = &k->op->out_shape[0];
    uint32_t axis = (uint32_t)mg_kernel_int(k, MG_ATTR_AXIS);
    int64_t depth = out->dim[axis], inner = extent(out, axis + 1, out->rank);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++) {
        int64_t index = (int64_t)k->in[0][i / (inner * depth) * inner + i % inner];
        index = index < 0 ? index + depth : index;
        k->out[0][i] = k->in[1][i / inner % depth == index];
    }
    return MG_OK;
}

/* Selection by repeated search for the best of those that are left. */
static void top_of_row(const struct mg_kernel *k, const double *row, int64_t extent_of_row, int64_t step,
                       double *values, double *indices, int64_t count)
{
    bool largest = mg_kernel_int(k, MG_ATTR_LARGEST) != 0;
    bool *taken = MG_NEW_ARRAY(k->scratch, bool, extent_of_row);
    for (int64_t n = 0; n < count; n++) {
        int64_t best = -1;
        for (int64_t i = 0; i < extent_of_row; i++)
            if (!taken[i] &&
                (best < 0 || (largest ? row[i * step] > row[best * step] : row[i * step] < row[best * step])))
                best = i;
        taken[best] = true;
        values[n * step] = row[best * step];
        indices[n * step] = (double)best;
    }
}

enum mg_code kernel_top_k(const struct mg_kernel *k)
{
    const struct mg_shape *in = &k->op->in_shape[0];
    uint32_t axis = (uint32_t)mg_kernel_int(k, MG_ATTR_AXIS);
    int64_t size = in->dim[axis], inner = extent(in, axis + 1, in->rank), outer = extent(in, 0, axis);
    int64_t count = k->op->out_shape[0].dim[axis];
    for (int64_t r = 0; r < outer * inner; r++) {
        struct mg_arena_mark mark = mg_arena_mark(k->scratch);
        int64_t from = r / inner * size * inner + r % inner, to = r / inner * count * inner + r % inner;
        top_of_row(k, k->in[0] + from, size, inner, k->out[0] + to, k->out[1] + to, count);
        mg_arena_rewind(k->scratch, mark);
    }
    return MG_OK;
}

/* ---- triangles ---- */

enum mg_code kernel_trilu(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    int64_t rows = x->dim[x->rank - 2], columns = x->dim[x->rank - 1], diagonal = mg_kernel_int(k, MG_ATTR_DIAGONAL);
    bool upper = mg_kernel_int(k, MG_ATTR_UPPER) != 0;
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++) {
        int64_t right = i % columns - i / columns % rows;
        k->out[0][i] = (upper ? right >= diagonal : right <= diagonal) ? k->in[0][i] : 0;
    }
    return MG_OK;
}

enum mg_code kernel_eye(const struct mg_kernel *k)
{
    int64_t columns = k->op->out_shape[0].dim[1], diagonal = mg_kernel_int(k, MG_ATTR_DIAGONAL);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = i % columns - i / columns == diagonal;
    return MG_OK;
}

/* ---- reversals ---- */

enum mg_code kernel_reverse(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, from[MG_MAX_RANK], axis;
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++, mg_walk_next(x, index)) {
        memcpy(from, index, sizeof from);
        for (uint32_t a = 0; (axis = mg_kernel_ints(k, MG_ATTR_AXES, a, -1)) >= 0; a++)
            from[axis] = x->dim[axis] - 1 - index[axis];
        k->out[0][i] = k->in[0][flat(x, from)];
    }
    return MG_OK;
}

enum mg_code kernel_roll(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, to[MG_MAX_RANK], axis;
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++, mg_walk_next(x, index)) {
        memcpy(to, index, sizeof to);
        for (uint32_t a = 0; (axis = mg_kernel_ints(k, MG_ATTR_AXES, a, -1)) >= 0; a++) {
            int64_t size = x->dim[axis], shift = mg_kernel_ints(k, MG_ATTR_SHIFTS, a, 0) % size;
            to[axis] = (index[axis] + shift + size) % size;
        }
        k->out[0][flat(x, to)] = k->in[0][i];
    }
    return MG_OK;
}

enum mg_code kernel_reverse_sequence(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    int64_t batch = mg_kernel_int(k, MG_ATTR_BATCH_AXIS), time = mg_kernel_int(k, MG_ATTR_TIME_AXIS);
    int64_t index[MG_MAX_RANK] = {0}, from[MG_MAX_RANK];
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++, mg_walk_next(x, index)) {
        int64_t length = (int64_t)k->in[1][index[batch]];
        if (length < 0 || length > x->dim[time])
            return out_of_range(k);
        memcpy(from, index, sizeof from);
        if (index[time] < length)
            from[time] = length - 1 - index[time];
        k->out[0][i] = k->in[0][flat(x, from)];
    }
    return MG_OK;
}
