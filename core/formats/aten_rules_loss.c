/* Rules of pooling, resampling, losses and attention. */
#include <string.h>

#include "formats/aten_rules.h"

/* ---- pooling and resampling ---- */

static void set_pool(struct aten_builder *b, const struct aten_node *node, size_t at, uint32_t spatial)
{
    int64_t kernel[MG_MAX_RANK], strides[MG_MAX_RANK], pads[2 * MG_MAX_RANK] = {0};
    const struct aten_arg *stride = aten_argument(node, at + 1, "stride");
    bool own = stride && (stride->kind == ATEN_INT || (stride->kind == ATEN_LIST && stride->count > 0));
    uint32_t count = aten_ints(node, at, "kernel_size", spatial, kernel);
    aten_set_ints(b, MG_ATTR_KERNEL_SHAPE, kernel, count);
    if (own)
        aten_set_ints(b, MG_ATTR_STRIDES, strides, aten_ints(node, at + 1, "stride", spatial, strides));
    else
        aten_set_ints(b, MG_ATTR_STRIDES, kernel, count);
    aten_ints(node, at + 2, "padding", spatial, pads);
    for (uint32_t d = 0; d < spatial; d++)
        pads[spatial + d] = pads[d];
    aten_set_ints(b, MG_ATTR_PADS, pads, 2 * spatial);
}

/* max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil) -> y, indices; its gradient (dy, x, ...). Ours
 * finds the largest again and keeps no indices. */
mg_value aten_rule_max_pool(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_MAX_POOL_GRAD;
    int64_t dilations[MG_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    mg_value dy = grad ? aten_in(b, c->node, 0, NULL) : MG_NONE, x = aten_in(b, c->node, grad, NULL);
    uint32_t spatial = 2;
    if (aten_shape(b, x)->rank != 2 + spatial)
        return aten_decline(b);
    set_pool(b, c->node, 1 + (size_t)grad, spatial);
    aten_ints(c->node, 4 + (size_t)grad, "dilation", spatial, dilations);
    aten_set_ints(b, MG_ATTR_DILATIONS, dilations, spatial);
    aten_set_int(b, MG_ATTR_CEIL_MODE, aten_int(c->node, 5 + (size_t)grad, "ceil_mode", 0));
    if (grad)
        return aten_emit2(b, c->type, dy, x);
    mg_value out[2] = {aten_emit1(b, c->type, x), MG_NONE};
    aten_give(b, out, 2);
    return out[0];
}

/* avg_pool2d([dy, ]x, kernel, stride, padding, ceil, count_include_pad, divisor) */
mg_value aten_rule_avg_pool(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_AVG_POOL_GRAD;
    mg_value a = aten_in(b, c->node, 0, NULL);
    size_t at = 1 + (size_t)grad;
    if (!c->node->has_out || c->node->shape.rank != 4)
        return aten_decline(b);
    if (grad)
        aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, 2);
    set_pool(b, c->node, at, 2);
    aten_set_int(b, MG_ATTR_CEIL_MODE, aten_int(c->node, at + 3, "ceil_mode", 0));
    aten_set_int(b, MG_ATTR_COUNT_INCLUDE_PAD, aten_int(c->node, at + 4, "count_include_pad", 1));
    return aten_emit1(b, c->type, a);
}

/* _adaptive_avg_pool2d(x, [1, 1]), and its gradient (dy, x) */
mg_value aten_rule_global_pool(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_GLOBAL_AVG_POOL_GRAD;
    mg_value a = aten_in(b, c->node, 0, NULL);
    const struct mg_shape *small = grad ? aten_shape(b, a) : &c->node->shape;
    if (small->rank != 4)
        return aten_decline(b);
    for (uint32_t d = 2; d < small->rank; d++)
        if (small->dim[d] != 1)
            return aten_decline(b);
    if (grad)
        aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, c->node->shape.rank - 2);
    return aten_emit1(b, c->type, a);
}

/* The scale of a dimension as it was asked for; 0: that of the sizes. It stands behind the others, for each dimension
 * or as a list. */
static double scale_of_dimension(const struct aten_node *node, size_t at, uint32_t d)
{
    const struct aten_arg *arg = aten_argument(node, at, "scale_factors");
    if (arg && arg->kind == ATEN_LIST)
        return d < arg->count ? arg->item[d].f : 0;
    return aten_real(node, at + d, NULL, 0);
}

/* Does torch come to the same places by a scale as by the two sizes? It computes in single precision, but for f64. */
static bool is_of_sizes(double scale, int64_t from, int64_t to, enum mg_dtype dtype)
{
    if (!(scale > 0) || 1 / scale == (double)from / (double)to)
        return true;
    return dtype != MG_DTYPE_F64 && (float)(1 / scale) == (float)from / (float)to;
}

/* Does torch, which multiplies in single precision, find the same nearest neighbours as we, who divide in double? */
static bool rounds_alike(int64_t from, int64_t to)
{
    enum { MOST = 1 << 16 };
    float step = (float)from / (float)to;
    for (int64_t i = 0; i < to && i < MOST; i++)
        if ((int64_t)((float)i * step) != (int64_t)((double)i / ((double)to / (double)from)))
            return false;
    return to <= MOST || from == to;
}

/* Sets the scales that differ from those of the sizes; false where the operator cannot tell them: rounding would have
 * to be torch's own. */
static bool set_scales(struct aten_builder *b, const struct aten_node *node, size_t at, mg_value x, bool linear)
{
    const struct mg_shape *given = aten_shape(b, x);
    uint32_t spatial = node->shape.rank - 2;
    bool grad = strstr(node->op, "backward") != NULL;
    for (uint32_t d = 0; d < spatial; d++) {
        int64_t from = grad ? node->shape.dim[2 + d] : given->dim[2 + d];
        int64_t to = grad ? given->dim[2 + d] : node->shape.dim[2 + d];
        double scale = scale_of_dimension(node, at, d);
        bool plain = is_of_sizes(scale, from, to, node->dtype);
        if (!linear && !(plain && rounds_alike(from, to)))
            return false;
        if (!plain)
            aten_set_real(b, (enum mg_attr_key)(MG_ATTR_SCALES_W - (int)(spatial - 1 - d)), scale);
    }
    return true;
}

/* upsample_*(x, size, [align_corners, ]scales), upsample_*_backward(dy, sizes, sizes, ...): the sizes are the result's;
 * aligned corners need no scale */
mg_value aten_rule_resize(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_RESIZE_GRAD, linear = strstr(c->node->op, "linear") != NULL;
    mg_value x = aten_in(b, c->node, 0, NULL);
    size_t at = grad ? 3 : 2;
    bool corners = linear && aten_int(c->node, at, "align_corners", 0) != 0;
    if (!c->node->has_out || c->node->shape.rank < 3 || c->node->shape.rank != aten_shape(b, x)->rank ||
        (!corners && !set_scales(b, c->node, at + linear, x, linear)))
        return aten_decline(b);
    aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, c->node->shape.rank - 2);
    aten_set_text(b, MG_ATTR_MODE, linear ? "linear" : "nearest");
    aten_set_text(b, MG_ATTR_COORDINATES, !linear ? "asymmetric" : corners ? "align_corners" : "half_pixel");
    return aten_emit1(b, c->type, x);
}

/* ---- losses ---- */

enum { REDUCTION_NONE, REDUCTION_MEAN, REDUCTION_SUM };

/* The number of targets that count, in f32: what a mean is divided by. */
static mg_value counted(struct aten_builder *b, mg_value target, int64_t ignored)
{
    int64_t axes[MG_MAX_RANK];
    mg_value none = aten_fill(b, &(struct mg_shape){0}, aten_dtype(b, target), (double)ignored);
    mg_value counts = aten_cast(b, aten_emit2(b, MG_OP_NOT_EQUAL, target, none), MG_DTYPE_F32);
    for (uint32_t d = 0; d < aten_shape(b, target)->rank; d++)
        axes[d] = d;
    aten_set_ints(b, MG_ATTR_AXES, axes, aten_shape(b, target)->rank);
    aten_set_int(b, MG_ATTR_KEEPDIMS, 0);
    return aten_emit1(b, MG_OP_REDUCE_SUM, counts);
}

static mg_value divided(struct aten_builder *b, mg_value v, mg_value by)
{
    enum mg_dtype dtype = aten_dtype(b, v), exact = dtype == MG_DTYPE_F64 ? dtype : MG_DTYPE_F32;
    return aten_cast(b, aten_emit2(b, MG_OP_DIV, aten_cast(b, v, exact), aten_cast(b, by, exact)), dtype);
}

static void set_nll(struct aten_builder *b, const struct aten_node *node, size_t at)
{
    aten_set_real(b, MG_ATTR_DIVISOR, 1);
    aten_set_int(b, MG_ATTR_IGNORE_INDEX, aten_int(node, at, "ignore_index", -100));
}

/* nll_loss_forward(logp, target, weight, reduction, ignore_index) -> loss, total weight. A mean is the sum divided by
 * the number of targets that count, by an operator of its own: so that the sum can be split along the batch. */
mg_value aten_rule_nll(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value logp = aten_in(b, c->node, 0, NULL), target = aten_in(b, c->node, 1, NULL);
    int64_t reduction = aten_int(c->node, 3, "reduction", REDUCTION_MEAN);
    if (reduction == REDUCTION_NONE || logp == MG_NONE || target == MG_NONE)
        return aten_decline(b);
    mg_value count = counted(b, target, aten_int(c->node, 4, "ignore_index", -100));
    set_nll(b, c->node, 4);
    mg_value sum = aten_emit2(b, c->type, logp, target);
    mg_value out[2] = {reduction == REDUCTION_MEAN ? divided(b, sum, count) : sum,
                       aten_cast(b, count, aten_dtype(b, logp))};
    aten_give(b, out, 2);
    return MG_NONE;
}

/* nll_loss_backward(dloss, logp, target, weight, reduction, ignore_index, total weight) */
mg_value aten_rule_nll_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value in[3] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL)};
    int64_t reduction = aten_int(c->node, 4, "reduction", REDUCTION_MEAN);
    if (reduction == REDUCTION_NONE)
        return aten_decline(b);
    if (reduction == REDUCTION_MEAN)
        in[0] = divided(b, in[0], aten_in(b, c->node, 6, NULL));
    set_nll(b, c->node, 5);
    return aten_emit(b, c->type, in, 3, NULL, 1);
}

/* mse_loss(y, t, reduction) */
mg_value aten_rule_mse(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value y = aten_in(b, c->node, 0, NULL), t = aten_in(b, c->node, 1, NULL);
    int64_t reduction = aten_int(c->node, 2, "reduction", 1), axes[MG_MAX_RANK];
    mg_value e = aten_emit2(b, MG_OP_SQUARED_ERROR, y, t);
    uint32_t rank = aten_shape(b, e)->rank;
    if (reduction == 0 || rank == 0)
        return e;
    for (uint32_t d = 0; d < rank; d++)
        axes[d] = d;
    aten_set_ints(b, MG_ATTR_AXES, axes, rank);
    aten_set_int(b, MG_ATTR_KEEPDIMS, 0);
    return aten_emit1(b, reduction == 1 ? MG_OP_REDUCE_MEAN : MG_OP_REDUCE_SUM, e);
}

/* mse_loss_backward(dloss, y, t, reduction) */
mg_value aten_rule_mse_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value dy = aten_in(b, c->node, 0, NULL), y = aten_in(b, c->node, 1, NULL), t = aten_in(b, c->node, 2, NULL);
    double count = (double)mg_shape_elements(aten_shape(b, y));
    if (aten_int(c->node, 3, "reduction", 1) == 1 && count > 0)
        dy = aten_affine(b, dy, 1 / count, 0);
    const mg_value in[3] = {aten_expand(b, dy, aten_shape(b, y)), y, t};
    return aten_emit(b, MG_OP_SQUARED_ERROR_GRAD, in, 3, NULL, 1);
}

/* ---- attention ---- */

static double scale_of(const struct aten_node *node)
{
    return aten_real(node, 1000, "scale", 0);
}

static mg_value log_sum(struct aten_builder *b, mg_value v, mg_value q)
{
    struct mg_shape shape = *aten_shape(b, q);
    if (shape.rank == 0)
        return aten_decline(b);
    shape.dim[shape.rank - 1] = 1;
    return aten_reshape(b, v, &shape);
}

/* flash, cudnn: (q, k, v, dropout, causal, ...) -> y, lse, ...; efficient: (q, k, v, mask, with lse, dropout, causal)
 */
mg_value aten_rule_attention(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool efficient = strstr(c->node->op, "efficient") != NULL;
    size_t at = efficient ? 5 : 3;
    const mg_value in[3] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL)};
    mg_value out[2];
    aten_set_real(b, MG_ATTR_SCALE, scale_of(c->node));
    aten_set_int(b, MG_ATTR_CAUSAL, aten_int(c->node, at + 1, "is_causal", 0));
    aten_emit(b, MG_OP_ATTENTION, in, 3, out, 2);
    aten_give(b, out, 2);
    return MG_NONE;
}

/* flash: (dy, q, k, v, y, lse, ..., dropout, causal) on the device at 10, on the host at 6;
 * efficient: (dy, q, k, v, mask, y, lse, seed, offset, dropout, which, causal) */
mg_value aten_rule_attention_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool efficient = strstr(c->node->op, "efficient") != NULL, host = strstr(c->node->op, "for_cpu") != NULL;
    size_t y = efficient ? 5 : 4, dropout = efficient ? 9 : host ? 6 : 10;
    mg_value q = aten_in(b, c->node, 1, NULL), lse = log_sum(b, aten_in(b, c->node, y + 1, NULL), q);
    const mg_value in[6] = {aten_in(b, c->node, 0, NULL), q,
                            aten_in(b, c->node, 2, NULL), aten_in(b, c->node, 3, NULL),
                            aten_in(b, c->node, y, NULL), lse};
    mg_value out[3];
    aten_set_real(b, MG_ATTR_SCALE, scale_of(c->node));
    aten_set_int(b, MG_ATTR_CAUSAL, aten_int(c->node, dropout + (efficient ? 2 : 1), "is_causal", 0));
    aten_emit(b, MG_OP_ATTENTION_GRAD, in, 6, out, 3);
    aten_give(b, out, 3);
    return MG_NONE;
}
