/* Shape rules: normalisation, pooling, resampling. */
#include <string.h>

#include "graph/ops_priv.h"

static void result(struct mg_infer *t, uint32_t slot, const struct mg_shape *shape, enum mg_dtype dtype)
{
    t->out[slot] = *shape;
    t->out_dtype[slot] = dtype;
}

/* Operand `i`, if present, must have this shape. */
static enum mg_code want(struct mg_infer *t, uint32_t i, const char *what, const struct mg_shape *shape)
{
    if (i >= t->in_count || mg_shape_equal(&t->in[i], shape))
        return MG_OK;
    return mg_infer_fail(t, "/inputs", "%s (operand %u) has shape %s, must be %s", what, i,
                         mg_shape_text(t->arena, &t->in[i]), mg_shape_text(t->arena, shape));
}

static enum mg_code want_results(struct mg_infer *t, uint32_t count)
{
    if (t->out_count == count)
        return MG_OK;
    return mg_infer_fail(t, "/outputs", "has %u results, makes %u with these operands", t->out_count, count);
}

/* Scale and shift come together: `given` operands against those without them. */
static enum mg_code want_pair(struct mg_infer *t, uint32_t without)
{
    if (t->in_count == without || t->in_count == without + 2)
        return MG_OK;
    return mg_infer_fail(t, "/inputs", "scale and shift must be given together");
}

/* dx, then a gradient like the scale for each further result. */
static void gradients(struct mg_infer *t, uint32_t x, uint32_t scale)
{
    result(t, 0, &t->in[x], t->in_dtype[x]);
    for (uint32_t i = 1; i < t->out_count; i++)
        result(t, i, &t->in[scale], t->in_dtype[scale]);
}

/* (x[, scale, shift]) -> y, mean, rstd */
static enum mg_code normalised(struct mg_infer *t, const struct mg_shape *stat, const struct mg_shape *param)
{
    MG_TRY(want_pair(t, 1));
    MG_TRY(want(t, 1, "scale", param));
    MG_TRY(want(t, 2, "shift", param));
    result(t, 0, &t->in[0], t->in_dtype[0]);
    result(t, 1, stat, mg_dtype_of_statistics(t->in_dtype[0]));
    result(t, 2, stat, mg_dtype_of_statistics(t->in_dtype[0]));
    return MG_OK;
}

/* (dy, x, mean, rstd[, scale]) -> dx[, dscale, dshift] */
static enum mg_code normalised_grad(struct mg_infer *t, const struct mg_shape *stat, const struct mg_shape *param)
{
    MG_TRY(want(t, 0, "dy", &t->in[1]));
    MG_TRY(want(t, 2, "mean", stat));
    MG_TRY(want(t, 3, "rstd", stat));
    MG_TRY(want(t, 4, "scale", param));
    MG_TRY(want_results(t, t->in_count == 5 ? 3 : 1));
    gradients(t, 1, 4);
    return MG_OK;
}

/* ---- layer_norm, rms_norm: dimensions [axis, rank) ---- */

static enum mg_code layer_shapes(struct mg_infer *t, uint32_t x, struct mg_shape *rows, struct mg_shape *params)
{
    uint32_t axis;
    const struct mg_shape *s = &t->in[x];
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, s->rank, &axis));
    *rows = *s;
    *params = (struct mg_shape){.rank = s->rank - axis};
    for (uint32_t d = axis; d < s->rank; d++) {
        rows->dim[d] = 1;
        params->dim[d - axis] = s->dim[d];
    }
    return MG_OK;
}

enum mg_code mg_shape_layer_norm(struct mg_infer *t)
{
    struct mg_shape rows, params;
    MG_TRY(layer_shapes(t, 0, &rows, &params));
    return normalised(t, &rows, &params);
}

enum mg_code mg_shape_layer_norm_grad(struct mg_infer *t)
{
    struct mg_shape rows, params;
    MG_TRY(layer_shapes(t, 1, &rows, &params));
    return normalised_grad(t, &rows, &params);
}

enum mg_code mg_shape_rms_norm(struct mg_infer *t)
{
    struct mg_shape rows, params;
    MG_TRY(layer_shapes(t, 0, &rows, &params));
    MG_TRY(want(t, 1, "scale", &params));
    result(t, 0, &t->in[0], t->in_dtype[0]);
    result(t, 1, &rows, mg_dtype_of_statistics(t->in_dtype[0]));
    return MG_OK;
}

enum mg_code mg_shape_rms_norm_grad(struct mg_infer *t)
{
    struct mg_shape rows, params;
    MG_TRY(layer_shapes(t, 1, &rows, &params));
    MG_TRY(want(t, 0, "dy", &t->in[1]));
    MG_TRY(want(t, 2, "rstd", &rows));
    MG_TRY(want(t, 3, "scale", &params));
    MG_TRY(want_results(t, t->in_count == 4 ? 2 : 1));
    gradients(t, 1, 3);
    return MG_OK;
}

/* ---- batch norm: channel = dimension 1 ---- */

static struct mg_shape per_channel(const struct mg_shape *x)
{
    struct mg_shape s = {.rank = x->rank};
    for (uint32_t d = 0; d < x->rank; d++)
        s.dim[d] = d == 1 ? x->dim[1] : 1;
    return s;
}

static struct mg_shape channels(const struct mg_shape *x)
{
    return (struct mg_shape){.rank = 1, .dim = {x->dim[1]}};
}

enum mg_code mg_shape_batch_norm(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 2, MG_MAX_RANK));
    struct mg_shape stat = per_channel(&t->in[0]), param = channels(&t->in[0]);
    return normalised(t, &stat, &param);
}

enum mg_code mg_shape_batch_norm_grad(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 1, 2, MG_MAX_RANK));
    struct mg_shape stat = per_channel(&t->in[1]), param = channels(&t->in[1]);
    return normalised_grad(t, &stat, &param);
}

enum mg_code mg_shape_bn_apply(struct mg_infer *t)
{
    MG_TRY(want_pair(t, 3));
    MG_TRY(mg_infer_rank(t, 0, 2, MG_MAX_RANK));
    struct mg_shape stat = per_channel(&t->in[0]), param = channels(&t->in[0]);
    MG_TRY(want(t, 1, "mean", &stat));
    MG_TRY(want(t, 2, "rstd", &stat));
    MG_TRY(want(t, 3, "scale", &param));
    MG_TRY(want(t, 4, "shift", &param));
    result(t, 0, &t->in[0], t->in_dtype[0]);
    return MG_OK;
}

enum mg_code mg_shape_batch_norm_inference(struct mg_infer *t)
{
    static const char *const what[] = {"", "scale", "shift", "mean", "variance"};
    MG_TRY(mg_infer_rank(t, 0, 2, MG_MAX_RANK));
    struct mg_shape param = channels(&t->in[0]);
    for (uint32_t i = 1; i < t->in_count; i++)
        MG_TRY(want(t, i, what[i], &param));
    result(t, 0, &t->in[0], t->in_dtype[0]);
    return MG_OK;
}

enum mg_code mg_shape_stat_update(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 1, 1));
    MG_TRY(mg_infer_rank(t, 1, 2, MG_MAX_RANK));
    struct mg_shape stat = {.rank = t->in[1].rank};
    for (uint32_t d = 0; d < stat.rank; d++)
        stat.dim[d] = d == 1 ? t->in[0].dim[0] : 1;
    MG_TRY(want(t, 1, "statistic", &stat));
    if (mg_infer_int(t, MG_ATTR_VARIANCE) && mg_infer_int(t, MG_ATTR_ELEMENTS) < 2)
        return mg_infer_fail(t, "/attrs/count", "count must be at least 2 for a variance");
    result(t, 0, &t->in[0], t->in_dtype[0]);
    return MG_OK;
}

/* ---- group and instance norm: statistics [n, groups, 1...] ---- */

static enum mg_code group_shapes(struct mg_infer *t, uint32_t x, struct mg_shape *stat, struct mg_shape *param)
{
    MG_TRY(mg_infer_rank(t, x, 2, MG_MAX_RANK));
    const struct mg_shape *s = &t->in[x];
    const struct mg_attr *attr = mg_infer_attr(t, MG_ATTR_NUM_GROUPS);
    int64_t groups = attr ? attr->i : s->dim[1];
    if (attr && (groups < 1 || s->dim[1] % groups != 0))
        return mg_infer_fail(t, "/attrs/num_groups", "%lld groups do not divide %lld channels", (long long)groups,
                             (long long)s->dim[1]);
    *param = channels(s);
    *stat = (struct mg_shape){.rank = s->rank, .dim = {s->dim[0], groups}};
    for (uint32_t d = 2; d < s->rank; d++)
        stat->dim[d] = 1;
    return MG_OK;
}

enum mg_code mg_shape_group_norm(struct mg_infer *t)
{
    struct mg_shape stat, param;
    MG_TRY(group_shapes(t, 0, &stat, &param));
    return normalised(t, &stat, &param);
}

enum mg_code mg_shape_group_norm_grad(struct mg_infer *t)
{
    struct mg_shape stat, param;
    MG_TRY(group_shapes(t, 1, &stat, &param));
    return normalised_grad(t, &stat, &param);
}

/* (x) or (dy, x): normalised over neighbouring channels. */
enum mg_code mg_shape_lrn(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 2, MG_MAX_RANK));
    if (mg_infer_int(t, MG_ATTR_SIZE) < 1)
        return mg_infer_fail(t, "/attrs/size", "attribute 'size' must be positive");
    return mg_shape_same(t);
}

/* ---- pooling ---- */

/* Output size of a pooling window along one dimension, or -1. With ceil_mode the last window must still begin
 * inside the input or its left padding. */
static int64_t pool_size(struct mg_infer *t, uint32_t d, uint32_t spatial, int64_t in)
{
    const struct mg_attr *dilations = mg_infer_attr(t, MG_ATTR_DILATIONS);
    int64_t kernel = mg_infer_ints(t, MG_ATTR_KERNEL_SHAPE, NULL)[d];
    int64_t stride = mg_infer_ints(t, MG_ATTR_STRIDES, NULL)[d];
    const int64_t *pad = mg_infer_ints(t, MG_ATTR_PADS, NULL);
    int64_t dilation = dilations ? dilations->ints[d] : 1, begin = pad[d], end = pad[d + spatial];
    if (kernel < 1 || stride < 1 || dilation < 1 || begin < 0 || end < 0 || kernel > INT32_MAX || stride > INT32_MAX ||
        dilation > INT32_MAX || begin > INT32_MAX || end > INT32_MAX)
        return -1;
    int64_t room = in + begin + end - (dilation * (kernel - 1) + 1);
    if (room < 0)
        return -1;
    bool up = mg_infer_int(t, MG_ATTR_CEIL_MODE) != 0;
    int64_t out = (room + (up ? stride - 1 : 0)) / stride + 1;
    return up && (out - 1) * stride >= in + begin ? out - 1 : out;
}

static enum mg_code pooled(struct mg_infer *t, const struct mg_shape *x, struct mg_shape *out)
{
    uint32_t spatial = x->rank - 2;
    const struct mg_attr *p = mg_infer_attr(t, MG_ATTR_P);
    if (p && p->i < 1)
        return mg_infer_fail(t, "/attrs/p", "attribute 'p' is %lld, must be at least 1", (long long)p->i);
    MG_TRY(mg_infer_list_size(t, MG_ATTR_KERNEL_SHAPE, spatial));
    *out = *x;
    for (uint32_t d = 0; d < spatial; d++) {
        out->dim[d + 2] = pool_size(t, d, spatial, x->dim[d + 2]);
        if (out->dim[d + 2] < 0)
            return mg_infer_fail(t, "/attrs", "spatial dimension %u does not fit kernel, strides and pads", d);
    }
    return MG_OK;
}

enum mg_code mg_shape_pool(struct mg_infer *t)
{
    struct mg_shape out;
    MG_TRY(mg_infer_rank(t, 0, 3, 5));
    MG_TRY(pooled(t, &t->in[0], &out));
    result(t, 0, &out, t->in_dtype[0]);
    return MG_OK;
}

enum mg_code mg_shape_max_pool_indices(struct mg_infer *t)
{
    MG_TRY(mg_shape_pool(t));
    result(t, 1, &t->out[0], MG_DTYPE_I64);
    return MG_OK;
}

enum mg_code mg_shape_max_unpool(struct mg_infer *t)
{
    if (!mg_dtype_is_integer(t->in_dtype[1]))
        return mg_infer_fail(t, "/inputs/1", "indices are %s, must be integers", mg_dtype_name(t->in_dtype[1]));
    MG_TRY(want(t, 1, "indices", &t->in[0]));
    return mg_shape_spatial(t);
}

enum mg_code mg_shape_global_pool(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 3, 5));
    struct mg_shape out = t->in[0];
    for (uint32_t d = 2; d < out.rank; d++)
        out.dim[d] = 1;
    result(t, 0, &out, t->in_dtype[0]);
    return MG_OK;
}

enum mg_code mg_shape_max_pool_grad(struct mg_infer *t)
{
    struct mg_shape out;
    MG_TRY(mg_infer_rank(t, 1, 3, 5));
    if (mg_infer_attr(t, MG_ATTR_KERNEL_SHAPE)) {
        MG_TRY(mg_infer_rank(t, 0, t->in[1].rank, t->in[1].rank));
        MG_TRY(pooled(t, &t->in[1], &out));
    } else {
        out = t->in[1];
        for (uint32_t d = 2; d < out.rank; d++)
            out.dim[d] = 1;
    }
    MG_TRY(want(t, 0, "dy", &out));
    result(t, 0, &t->in[1], t->in_dtype[1]);
    return MG_OK;
}

/* The operand with its spatial sizes replaced. */
enum mg_code mg_shape_spatial(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 3, 5));
    MG_TRY(mg_infer_list_size(t, MG_ATTR_SPATIAL, t->in[0].rank - 2));
    struct mg_shape out = t->in[0];
    memcpy(out.dim + 2, mg_infer_ints(t, MG_ATTR_SPATIAL, NULL), (out.rank - 2) * sizeof(int64_t));
    for (uint32_t d = 2; d < out.rank; d++) {
        if (out.dim[d] < 1 || t->in[0].dim[d] < 1)
            return mg_infer_fail(t, "/attrs/spatial", "spatial sizes must be at least 1");
    }
    result(t, 0, &out, t->in_dtype[0]);
    return MG_OK;
}

enum mg_code mg_shape_avg_pool_grad(struct mg_infer *t)
{
    struct mg_shape dy;
    MG_TRY(mg_shape_spatial(t));
    MG_TRY(pooled(t, &t->out[0], &dy));
    return want(t, 0, "dy", &dy);
}
