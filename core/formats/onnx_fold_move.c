/* Constants moved while a file is read: other shapes, parts, and several in one. */
#include "formats/onnx_fold.h"

static bool operands_small(const struct onnx_call *c)
{
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i] && !onnx_folding_small(&c->in[i]->shape))
            return false;
    return true;
}

/* The same elements in another shape. */
static bool reshaped(struct onnx_call *c, const struct mg_shape *shape)
{
    struct mg_onnx_data *out = mg_arena_copy(c->m->arena, c->in[0]->data, sizeof *c->in[0]->data);
    out->shape = *shape;
    mg_onnx_fold(c, 0, out);
    return true;
}

bool onnx_fold_reshape(struct onnx_call *c, int which)
{
    struct mg_shape shape;
    (void)which;
    return onnx_reshape_target(c, &shape) && reshaped(c, &shape);
}

bool onnx_fold_squeeze(struct onnx_call *c, int which)
{
    struct mg_shape shape;
    (void)which;
    return onnx_squeeze_target(c, &shape) && reshaped(c, &shape);
}

bool onnx_fold_unsqueeze(struct onnx_call *c, int which)
{
    struct mg_shape shape;
    (void)which;
    return onnx_unsqueeze_target(c, &shape) && reshaped(c, &shape);
}

bool onnx_fold_expand(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data;
    struct mg_shape shape;
    double *real;
    int64_t *whole, index[MG_MAX_RANK] = {0};
    (void)which;
    if (!onnx_expand_target(c, &shape) || !onnx_folding_small(&shape))
        return false;
    struct mg_onnx_data *out = onnx_folding_new(c, in->dtype, &shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&shape); i++) {
        onnx_folding_copy(in, onnx_folding_at(&in->shape, index, shape.rank), real, whole, i);
        onnx_folding_advance(&shape, index);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

bool onnx_fold_tile(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data;
    uint32_t count;
    const int64_t *repeats = mg_onnx_known_ints(c, 1, &count);
    struct mg_shape shape = in->shape;
    double *real;
    int64_t *whole, index[MG_MAX_RANK] = {0};
    (void)which;
    for (uint32_t d = 0; d < shape.rank && d < count; d++)
        if (__builtin_mul_overflow(shape.dim[d], repeats[d], &shape.dim[d]))
            return false;
    if (c->code != MG_OK || count != shape.rank || !mg_shape_fits(&shape, in->dtype) || !onnx_folding_small(&shape))
        return false;
    struct mg_onnx_data *out = onnx_folding_new(c, in->dtype, &shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&shape); i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < shape.rank; d++)
            at = at * in->shape.dim[d] + index[d] % in->shape.dim[d];
        onnx_folding_copy(in, at, real, whole, i);
        onnx_folding_advance(&shape, index);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

bool onnx_fold_transpose(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data;
    uint32_t count, rank = in->shape.rank;
    const int64_t *perm = mg_onnx_ints(c, "perm", &count);
    struct mg_shape shape = in->shape;
    bool seen[MG_MAX_RANK] = {0};
    double *real;
    int64_t *whole, index[MG_MAX_RANK] = {0}, from[MG_MAX_RANK];
    (void)which;
    if (!onnx_folding_small(&shape) || (perm && count != rank))
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        from[d] = perm ? perm[d] : rank - 1 - d;
        if (from[d] < 0 || from[d] >= rank || seen[from[d]])
            return false;
        seen[from[d]] = true;
        shape.dim[d] = in->shape.dim[from[d]];
    }
    struct mg_onnx_data *out = onnx_folding_new(c, in->dtype, &shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&shape); i++) {
        int64_t there[MG_MAX_RANK], at = 0;
        for (uint32_t d = 0; d < rank; d++)
            there[from[d]] = index[d];
        for (uint32_t d = 0; d < rank; d++)
            at = at * in->shape.dim[d] + there[d];
        onnx_folding_copy(in, at, real, whole, i);
        onnx_folding_advance(&shape, index);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

/* Lists and numbers: one dimension is enough for shapes. */
bool onnx_fold_concat(struct onnx_call *c, int which)
{
    struct mg_shape shape = {.rank = 1};
    double *real;
    int64_t *whole, at = 0;
    (void)which;
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!c->in[i] || c->in[i]->shape.rank != 1 || c->in[i]->dtype != c->in[0]->dtype)
            return false;
        shape.dim[0] += c->in[i]->shape.dim[0];
    }
    if (!operands_small(c) || !onnx_folding_small(&shape))
        return false;
    struct mg_onnx_data *out = onnx_folding_new(c, c->in[0]->dtype, &shape, &real, &whole);
    for (uint32_t i = 0; i < c->in_count; i++)
        for (int64_t k = 0; k < c->in[i]->shape.dim[0]; k++)
            onnx_folding_copy(c->in[i]->data, k, real, whole, at++);
    mg_onnx_fold(c, 0, out);
    return true;
}

bool onnx_fold_slice(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data;
    struct onnx_slice s = {.start = {0}};
    double *real;
    int64_t *whole, index[MG_MAX_RANK] = {0};
    (void)which;
    if (!onnx_folding_small(&in->shape) || !onnx_slice_of(c, &s))
        return false;
    struct mg_shape shape = {.rank = in->shape.rank};
    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dim[d] = s.size[d];
    struct mg_onnx_data *out = onnx_folding_new(c, in->dtype, &shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&shape); i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < shape.rank; d++)
            at = at * in->shape.dim[d] + s.start[d] + index[d] * s.step[d];
        onnx_folding_copy(in, at, real, whole, i);
        onnx_folding_advance(&shape, index);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

bool onnx_fold_gather(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data, *indices = c->in[1]->data;
    double *real;
    int64_t *whole, count = mg_shape_elements(&indices->shape);
    (void)which;
    if (!operands_small(c) || in->shape.rank != 1 || !indices->whole || mg_onnx_int(c, "axis", 0) != 0)
        return false;
    struct mg_onnx_data *out = onnx_folding_new(c, in->dtype, &indices->shape, &real, &whole);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = onnx_folding_whole(indices, i), size = in->shape.dim[0];
        at = at < 0 ? at + size : at;
        if (at < 0 || at >= size) {
            mg_onnx_invalid(c, "index %lld is outside %lld elements", (long long)at, (long long)size);
            return false;
        }
        onnx_folding_copy(in, at, real, whole, i);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}
