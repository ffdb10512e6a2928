/* Movement: each result element is found in (or added from) an operand by index arithmetic. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

static int64_t flat(const struct mg_shape *shape, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < shape->rank; d++)
        at = at * shape->dim[d] + index[d];
    return at;
}

enum mg_code kernel_expand(const struct mg_kernel *k)
{
    const struct mg_shape *out = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, i = 0;
    do
        k->out[0][i++] = k->in[0][mg_broadcast_at(&k->op->in_shape[0], index, out->rank)];
    while (mg_walk_next(out, index));
    return MG_OK;
}

enum mg_code kernel_transpose(const struct mg_kernel *k)
{
    const struct mg_shape *out = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, from[MG_MAX_RANK], i = 0;
    do {
        for (uint32_t d = 0; d < out->rank; d++)
            from[mg_kernel_ints(k, MG_ATTR_PERM, d, d)] = index[d];
        k->out[0][i++] = k->in[0][flat(&k->op->in_shape[0], from)];
    } while (mg_walk_next(out, index));
    return MG_OK;
}

/* Position in the whole of the slice's element at `index`. */
static int64_t slice_at(const struct mg_kernel *k, const struct mg_shape *whole, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < whole->rank; d++)
        at = at * whole->dim[d] + mg_kernel_ints(k, MG_ATTR_STARTS, d, 0) +
             index[d] * mg_kernel_ints(k, MG_ATTR_STEPS, d, 1);
    return at;
}

enum mg_code kernel_slice(const struct mg_kernel *k)
{
    int64_t index[MG_MAX_RANK] = {0}, i = 0;
    do
        k->out[0][i++] = k->in[0][slice_at(k, &k->op->in_shape[0], index)];
    while (mg_walk_next(&k->op->out_shape[0], index));
    return MG_OK;
}

enum mg_code kernel_slice_grad(const struct mg_kernel *k)
{
    int64_t index[MG_MAX_RANK] = {0}, count = mg_kernel_in_count(k, 0);
    for (int64_t i = 0; i < count; i++) {
        k->out[0][slice_at(k, &k->op->out_shape[0], index)] = k->in[0][i];
        mg_walk_next(&k->op->in_shape[0], index);
    }
    return MG_OK;
}

/* Copies between a whole and a part that begins at `lo` of dimension `axis`. */
static void copy_part(const struct mg_shape *whole, const struct mg_shape *part, int64_t axis, int64_t lo,
                      const double *from, double *to, bool into_whole)
{
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(part);
    for (int64_t i = 0; i < count; i++) {
        int64_t there[MG_MAX_RANK];
        memcpy(there, index, sizeof there);
        there[axis] += lo;
        if (into_whole)
            to[flat(whole, there)] = from[i];
        else
            to[i] = from[flat(whole, there)];
        mg_walk_next(part, index);
    }
}

enum mg_code kernel_split(const struct mg_kernel *k)
{
    int64_t axis = mg_kernel_int(k, MG_ATTR_AXIS), lo = 0;
    for (uint32_t i = 0; i < k->op->out_count; i++) {
        copy_part(&k->op->in_shape[0], &k->op->out_shape[i], axis, lo, k->in[0], k->out[i], false);
        lo += k->op->out_shape[i].dim[axis];
    }
    return MG_OK;
}

enum mg_code kernel_concat(const struct mg_kernel *k)
{
    int64_t axis = mg_kernel_int(k, MG_ATTR_AXIS), lo = 0;
    for (uint32_t i = 0; i < k->op->in_count; i++) {
        copy_part(&k->op->out_shape[0], &k->op->in_shape[i], axis, lo, k->in[i], k->out[0], true);
        lo += k->op->in_shape[i].dim[axis];
    }
    return MG_OK;
}

/* Source index of a padded dimension, or -1 for the constant. */
static int64_t pad_source(const char *mode, int64_t i, int64_t size)
{
    if (i >= 0 && i < size)
        return i;
    if (strcmp(mode, "edge") == 0)
        return i < 0 ? 0 : size - 1;
    if (strcmp(mode, "reflect") == 0)
        return i < 0 ? -i : 2 * (size - 1) - i;
    return -1;
}

enum mg_code kernel_pad(const struct mg_kernel *k)
{
    const struct mg_shape *in = &k->op->in_shape[0], *out = &k->op->out_shape[0];
    const char *mode = mg_kernel_text(k, MG_ATTR_MODE);
    int64_t index[MG_MAX_RANK] = {0}, from[MG_MAX_RANK], i = 0;
    do {
        bool inside = true;
        for (uint32_t d = 0; d < out->rank; d++) {
            from[d] = pad_source(mode, index[d] - mg_kernel_ints(k, MG_ATTR_PADS, d, 0), in->dim[d]);
            inside = inside && from[d] >= 0;
        }
        k->out[0][i++] = inside ? k->in[0][flat(in, from)] : mg_kernel_float(k, MG_ATTR_VALUE);
    } while (mg_walk_next(out, index));
    return MG_OK;
}

enum mg_code kernel_tile(const struct mg_kernel *k)
{
    const struct mg_shape *in = &k->op->in_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, from[MG_MAX_RANK], i = 0;
    do {
        for (uint32_t d = 0; d < in->rank; d++)
            from[d] = index[d] % in->dim[d];
        k->out[0][i++] = k->in[0][flat(in, from)];
    } while (mg_walk_next(&k->op->out_shape[0], index));
    return MG_OK;
}

/* Runs over the elements of the gathered shape: data[before, indices[at], after] <-> rows[before, at, after]. */
static enum mg_code gather_walk(const struct mg_kernel *k, const struct mg_shape *data, bool add)
{
    int64_t axis = mg_kernel_int(k, MG_ATTR_AXIS), before = 1, after = 1, picked = mg_kernel_in_count(k, 1);
    for (uint32_t d = 0; d < data->rank; d++) {
        before *= d < axis ? data->dim[d] : 1;
        after *= d > axis ? data->dim[d] : 1;
    }
    for (int64_t i = 0; i < before * picked * after; i++) {
        int64_t row = (int64_t)k->in[1][i / after % picked], size = data->dim[axis];
        row = row < 0 ? row + size : row;
        if (row < 0 || row >= size)
            return mg_fail(k->err, MG_ERR_INVALID, "", "an index of '%s' is out of range",
                           mg_op_type_name(k->op->type));
        int64_t at = (i / after / picked * size + row) * after + i % after;
        if (add)
            k->out[0][at] += k->in[0][i];
        else
            k->out[0][i] = k->in[0][at];
    }
    return MG_OK;
}

enum mg_code kernel_gather(const struct mg_kernel *k)
{
    return gather_walk(k, &k->op->in_shape[0], false);
}

enum mg_code kernel_scatter_add(const struct mg_kernel *k)
{
    return gather_walk(k, &k->op->out_shape[0], true);
}

/* Position in [n, c b b, h, w] of element [n, c, h b + i, w b + j]. */
static int64_t depth_at(const struct mg_kernel *k, const struct mg_shape *deep, const int64_t *index)
{
    int64_t b = mg_kernel_int(k, MG_ATTR_BLOCKSIZE), channels = deep->dim[1] / (b * b);
    int64_t block = index[2] % b * b + index[3] % b;
    bool crd = strcmp(mg_kernel_text(k, MG_ATTR_MODE), "CRD") == 0;
    int64_t from[4] = {index[0], crd ? index[1] * b * b + block : block * channels + index[1], index[2] / b,
                       index[3] / b};
    return flat(deep, from);
}

enum mg_code kernel_depth_to_space(const struct mg_kernel *k)
{
    int64_t index[MG_MAX_RANK] = {0}, i = 0;
    do
        k->out[0][i++] = k->in[0][depth_at(k, &k->op->in_shape[0], index)];
    while (mg_walk_next(&k->op->out_shape[0], index));
    return MG_OK;
}

enum mg_code kernel_space_to_depth(const struct mg_kernel *k)
{
    int64_t index[MG_MAX_RANK] = {0}, i = 0;
    do
        k->out[0][depth_at(k, &k->op->out_shape[0], index)] = k->in[0][i++];
    while (mg_walk_next(&k->op->in_shape[0], index));
    return MG_OK;
}

enum mg_code kernel_fill(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = mg_kernel_float(k, MG_ATTR_VALUE);
    return MG_OK;
}

enum mg_code kernel_iota(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = mg_kernel_float(k, MG_ATTR_START) + (double)i * mg_kernel_float(k, MG_ATTR_DELTA);
    return MG_OK;
}
