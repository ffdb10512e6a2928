/* Rules of products, convolutions, normalisation, pooling, losses and attention. */
#include <math.h>
#include <string.h>

#include "formats/aten_rules.h"

/* ---- products ---- */

mg_value aten_rule_matmul(struct aten_builder *b, const struct aten_rule_call *c)
{
    return aten_emit2(b, MG_OP_MATMUL, aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL));
}

/* addmm(c, a, b, beta, alpha): beta c + alpha a b */
mg_value aten_rule_addmm(struct aten_builder *b, const struct aten_rule_call *c)
{
    const mg_value in[3] = {aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL), aten_in(b, c->node, 0, NULL)};
    aten_set_real(b, MG_ATTR_ALPHA, aten_real(c->node, 4, "alpha", 1));
    aten_set_real(b, MG_ATTR_BETA, aten_real(c->node, 3, "beta", 1));
    return aten_emit(b, MG_OP_GEMM, in, 3, NULL, 1);
}

/* the same for batches; with beta 0 the addend is not read */
mg_value aten_rule_baddbmm(struct aten_builder *b, const struct aten_rule_call *c)
{
    double alpha = aten_real(c->node, 4, "alpha", 1), beta = aten_real(c->node, 3, "beta", 1);
    mg_value product = aten_emit2(b, MG_OP_MATMUL, aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL));
    product = aten_affine(b, product, alpha, 0);
    return beta == 0 ? product
                     : aten_emit2(b, MG_OP_ADD, aten_affine(b, aten_in(b, c->node, 0, NULL), beta, 0), product);
}

/* ---- convolutions ---- */

struct conv {
    bool transposed;
    uint32_t spatial;
    size_t at; /* of the stride */
};

static void set_window(struct aten_builder *b, const struct aten_node *node, const struct conv *conv)
{
    int64_t ints[MG_MAX_RANK], pads[2 * MG_MAX_RANK];
    uint32_t n = conv->spatial;
    aten_set_int(b, MG_ATTR_GROUP, aten_int(node, conv->at + 5, "groups", 1));
    aten_set_ints(b, MG_ATTR_STRIDES, ints, aten_ints(node, conv->at, "stride", n, ints));
    uint32_t count = aten_ints(node, conv->at + 1, "padding", n, pads);
    for (uint32_t d = 0; d < n; d++)
        pads[n + d] = pads[d];
    aten_set_ints(b, MG_ATTR_PADS, pads, 2 * count);
    aten_set_ints(b, MG_ATTR_DILATIONS, ints, aten_ints(node, conv->at + 2, "dilation", n, ints));
}

static struct conv conv_of(const struct aten_builder *b, const struct aten_node *node, size_t at, mg_value x)
{
    uint32_t rank = aten_shape(b, x)->rank;
    return (struct conv){aten_int(node, at + 3, "transposed", 0) != 0, rank > 2 ? rank - 2 : 0, at};
}

/* (x, w, bias, stride, padding, dilation, transposed, output_padding, groups) */
mg_value aten_rule_convolution(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t extra[MG_MAX_RANK];
    const mg_value in[3] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL)};
    struct conv conv = conv_of(b, c->node, 3, in[0]);
    set_window(b, c->node, &conv);
    if (conv.transposed)
        aten_set_ints(b, MG_ATTR_OUTPUT_PADDING, extra, aten_ints(c->node, 7, "output_padding", conv.spatial, extra));
    return aten_emit(b, conv.transposed ? MG_OP_CONV_TRANSPOSE : MG_OP_CONV, in, in[2] == MG_NONE ? 2 : 3, NULL, 1);
}

static mg_value grad_input(struct aten_builder *b, const struct aten_node *node, const struct conv *conv, mg_value dy,
                           mg_value x, mg_value w)
{
    const mg_value in[2] = {dy, w};
    set_window(b, node, conv);
    if (!conv->transposed)
        aten_set_ints(b, MG_ATTR_SPATIAL, aten_shape(b, x)->dim + 2, conv->spatial);
    return aten_emit(b, conv->transposed ? MG_OP_CONV : MG_OP_CONV_GRAD_INPUT, in, 2, NULL, 1);
}

static mg_value grad_weight(struct aten_builder *b, const struct aten_node *node, const struct conv *conv, mg_value dy,
                            mg_value x, mg_value w)
{
    const mg_value in[2] = {conv->transposed ? x : dy, conv->transposed ? dy : x};
    set_window(b, node, conv);
    aten_set_ints(b, MG_ATTR_KERNEL_SHAPE, aten_shape(b, w)->dim + 2, conv->spatial);
    return aten_emit(b, MG_OP_CONV_GRAD_WEIGHT, in, 2, NULL, 1);
}

static bool masked(const struct aten_node *node, size_t at, size_t which)
{
    const struct aten_arg *mask = aten_argument(node, at, "output_mask");
    return mask && mask->kind == ATEN_LIST && which < mask->count && mask->item[which].i != 0;
}

/* (dy, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask) -> dx, dw, db */
mg_value aten_rule_convolution_backward(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value dy = aten_in(b, c->node, 0, NULL), x = aten_in(b, c->node, 1, NULL), w = aten_in(b, c->node, 2, NULL);
    struct conv conv = conv_of(b, c->node, 4, x);
    mg_value out[3] = {MG_NONE, MG_NONE, MG_NONE};
    int64_t axes[MG_MAX_RANK] = {0};
    if (masked(c->node, 10, 0))
        out[0] = grad_input(b, c->node, &conv, dy, x, w);
    if (masked(c->node, 10, 1))
        out[1] = grad_weight(b, c->node, &conv, dy, x, w);
    if (masked(c->node, 10, 2)) {
        for (uint32_t d = 1; d <= conv.spatial; d++)
            axes[d] = d + 1;
        aten_set_ints(b, MG_ATTR_AXES, axes, conv.spatial + 1);
        aten_set_int(b, MG_ATTR_KEEPDIMS, 0);
        out[2] = aten_emit1(b, MG_OP_REDUCE_SUM, dy);
    }
    aten_give(b, out, 3);
    return MG_NONE;
}

/* ---- normalisation ---- */

/* Statistics in our shape: the rank of x, size 1 but in dimension d. */
static mg_value statistic(struct aten_builder *b, mg_value v, mg_value x, int64_t kept, uint32_t from)
{
    struct mg_shape shape = *aten_shape(b, x);
    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dim[d] = d == from ? kept : d == 0 && from == 1 && kept < 0 ? shape.dim[0] : 1;
    return aten_reshape(b, v, &shape);
}

static mg_value channel_statistic(struct aten_builder *b, mg_value v, mg_value x)
{
    return x == MG_NONE || aten_shape(b, x)->rank < 2 ? aten_decline(b)
                                                      : statistic(b, v, x, aten_shape(b, x)->dim[1], 1);
}

static void update_statistic(struct aten_builder *b, const struct aten_node *node, size_t at, mg_value with,
                             const double momentum_epsilon[2], int64_t elements)
{
    const struct aten_arg *buffer = aten_argument(node, at, NULL);
    if (!aten_is_tensor(buffer))
        return;
    mg_value old = aten_read(b, buffer->node);
    aten_set_real(b, MG_ATTR_MOMENTUM, momentum_epsilon[0]);
    aten_set_int(b, MG_ATTR_VARIANCE, at == 4);
    aten_set_real(b, MG_ATTR_EPSILON, momentum_epsilon[1]);
    aten_set_int(b, MG_ATTR_ELEMENTS, elements);
    mg_value fresh = aten_emit2(b, MG_OP_STAT_UPDATE, old, with);
    if (fresh != MG_NONE)
        aten_write(b, buffer->node, fresh);
}

static mg_value batch_norm_inference(struct aten_builder *b, const struct aten_node *node, double epsilon)
{
    mg_value in[5], out[4] = {MG_NONE, MG_NONE, MG_NONE, MG_NONE};
    for (uint32_t i = 0; i < 5; i++)
        in[i] = aten_in(b, node, i, NULL);
    aten_set_real(b, MG_ATTR_EPSILON, epsilon);
    out[0] = aten_emit(b, MG_OP_BATCH_NORM_INFERENCE, in, 5, NULL, 1);
    aten_give(b, out, 4);
    return MG_NONE;
}

/* (x, scale, shift, running mean, running variance, training, momentum, epsilon) -> y, mean, rstd; the variants with
 * an update lack `training`, those without training lack it too */
mg_value aten_rule_batch_norm(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool always = strstr(c->node->op, "with_update") != NULL, never = strstr(c->node->op, "no_training") != NULL;
    size_t at = always || never ? 5 : 6;
    const double numbers[2] = {aten_real(c->node, at, "momentum", 0.1), aten_real(c->node, at + 1, "eps", 1e-5)};
    if (never || (!always && !aten_int(c->node, 5, "training", 1)))
        return batch_norm_inference(b, c->node, numbers[1]);
    const mg_value in[3] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL)};
    mg_value out[4] = {MG_NONE, MG_NONE, MG_NONE, MG_NONE};
    if (in[0] == MG_NONE || aten_shape(b, in[0])->rank < 2)
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_EPSILON, numbers[1]);
    if (aten_emit(b, MG_OP_BATCH_NORM, in, in[1] == MG_NONE ? 1 : 3, out, 3) == MG_NONE)
        return MG_NONE;
    int64_t channels = aten_shape(b, in[0])->dim[1];
    int64_t elements = channels ? mg_shape_elements(aten_shape(b, in[0])) / channels : 0;
    update_statistic(b, c->node, 3, out[1], numbers, elements);
    update_statistic(b, c->node, 4, out[2], numbers, elements);
    aten_give(b, out, 4);
    return MG_NONE;
}

/* native: (dy, x, scale, running mean, running variance, mean, rstd, ...); cudnn: (x, dy, scale, ...) */
mg_value aten_rule_batch_norm_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool cudnn = strstr(c->node->op, "cudnn") != NULL;
    mg_value dy = aten_in(b, c->node, cudnn, NULL), x = aten_in(b, c->node, !cudnn, NULL);
    if (!cudnn && !aten_int(c->node, 7, "train", 1))
        return aten_decline(b);
    mg_value mean = channel_statistic(b, aten_in(b, c->node, 5, NULL), x);
    mg_value rstd = channel_statistic(b, aten_in(b, c->node, 6, NULL), x), scale = aten_in(b, c->node, 2, NULL);
    const mg_value in[5] = {dy, x, mean, rstd, scale};
    mg_value out[3] = {MG_NONE, MG_NONE, MG_NONE};
    aten_emit(b, MG_OP_BATCH_NORM_GRAD, in, scale == MG_NONE ? 4 : 5, out, scale == MG_NONE ? 1 : 3);
    aten_give(b, out, 3);
    return MG_NONE;
}

/* (x, normalized_shape, scale, shift, epsilon) -> y, mean, rstd */
mg_value aten_rule_layer_norm(struct aten_builder *b, const struct aten_rule_call *c)
{
    const mg_value in[3] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 2, NULL), aten_in(b, c->node, 3, NULL)};
    const struct aten_arg *sizes = aten_argument(c->node, 1, "normalized_shape");
    mg_value out[3];
    if (!sizes || (in[1] == MG_NONE) != (in[2] == MG_NONE))
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_AXIS, -(sizes->kind == ATEN_LIST ? (int64_t)sizes->count : 1));
    aten_set_real(b, MG_ATTR_EPSILON, aten_real(c->node, 4, "eps", 1e-5));
    aten_emit(b, MG_OP_LAYER_NORM, in, in[1] == MG_NONE ? 1 : 3, out, 3);
    aten_give(b, out, 3);
    return MG_NONE;
}

/* (dy, x, normalized_shape, mean, rstd, scale, shift, mask) -> dx, dscale, dshift */
mg_value aten_rule_layer_norm_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 1, NULL), scale = aten_in(b, c->node, 5, NULL);
    const struct aten_arg *sizes = aten_argument(c->node, 2, "normalized_shape");
    const mg_value in[5] = {aten_in(b, c->node, 0, NULL), x, aten_in(b, c->node, 3, NULL), aten_in(b, c->node, 4, NULL),
                            scale};
    mg_value out[3] = {MG_NONE, MG_NONE, MG_NONE};
    if (!sizes)
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_AXIS, -(sizes->kind == ATEN_LIST ? (int64_t)sizes->count : 1));
    aten_emit(b, MG_OP_LAYER_NORM_GRAD, in, scale == MG_NONE ? 4 : 5, out, scale == MG_NONE ? 1 : 3);
    aten_give(b, out, 3);
    return MG_NONE;
}

/* (x, scale, shift, n, c, hxw, groups, epsilon) -> y, mean, rstd */
mg_value aten_rule_group_norm(struct aten_builder *b, const struct aten_rule_call *c)
{
    const mg_value in[3] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL)};
    mg_value out[3];
    if ((in[1] == MG_NONE) != (in[2] == MG_NONE))
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_NUM_GROUPS, aten_int(c->node, 6, "group", 1));
    aten_set_real(b, MG_ATTR_EPSILON, aten_real(c->node, 7, "eps", 1e-5));
    aten_emit(b, MG_OP_GROUP_NORM, in, in[1] == MG_NONE ? 1 : 3, out, 3);
    aten_give(b, out, 3);
    return MG_NONE;
}

static mg_value group_statistic(struct aten_builder *b, mg_value v, mg_value x, int64_t groups)
{
    if (x == MG_NONE || aten_shape(b, x)->rank < 2)
        return aten_decline(b);
    struct mg_shape shape = {.rank = aten_shape(b, x)->rank, .dim = {aten_shape(b, x)->dim[0], groups}};
    for (uint32_t d = 2; d < shape.rank; d++)
        shape.dim[d] = 1;
    return aten_reshape(b, v, &shape);
}

/* (dy, x, mean, rstd, scale, n, c, hxw, groups, mask) -> dx, dscale, dshift */
mg_value aten_rule_group_norm_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 1, NULL), scale = aten_in(b, c->node, 4, NULL);
    int64_t groups = aten_int(c->node, 8, "group", 1);
    mg_value mean = group_statistic(b, aten_in(b, c->node, 2, NULL), x, groups);
    mg_value rstd = group_statistic(b, aten_in(b, c->node, 3, NULL), x, groups);
    const mg_value in[5] = {aten_in(b, c->node, 0, NULL), x, mean, rstd, scale};
    mg_value out[3] = {MG_NONE, MG_NONE, MG_NONE};
    aten_set_int(b, MG_ATTR_NUM_GROUPS, groups);
    aten_emit(b, MG_OP_GROUP_NORM_GRAD, in, scale == MG_NONE ? 4 : 5, out, scale == MG_NONE ? 1 : 3);
    aten_give(b, out, 3);
    return MG_NONE;
}

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
    const struct aten_arg *divisor = aten_argument(c->node, at + 5, "divisor_override");
    if ((divisor && divisor->kind != ATEN_NULL) || !c->node->has_out || c->node->shape.rank != 4)
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
    for (uint32_t d = 2; d < small->rank; d++)
        if (small->dim[d] != 1)
            return aten_decline(b);
    if (grad)
        aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, c->node->shape.rank - 2);
    return aten_emit1(b, c->type, a);
}

/* upsample_*(x, size, [align_corners, ]scales), upsample_*_backward(dy, ...): the sizes are the result's */
mg_value aten_rule_resize(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_RESIZE_GRAD, linear = strstr(c->node->op, "linear") != NULL;
    mg_value x = aten_in(b, c->node, 0, NULL);
    bool corners = linear && aten_int(c->node, grad ? 3 : 2, "align_corners", 0) != 0;
    if (!c->node->has_out || c->node->shape.rank < 3)
        return aten_decline(b);
    aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, c->node->shape.rank - 2);
    aten_set_text(b, MG_ATTR_MODE, linear ? "linear" : "nearest");
    aten_set_text(b, MG_ATTR_COORDINATES, !linear ? "asymmetric" : corners ? "align_corners" : "half_pixel");
    return aten_emit1(b, c->type, x);
}

/* ---- losses ---- */

/* nll_loss_forward(logp, target, weight, reduction, ignore_index) -> loss, total weight; its gradient (dloss, ...).
 * The default index to ignore, -100, is taken for none: no class has it, and with none the batch can be split. */
mg_value aten_rule_nll(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_NLL_LOSS_GRAD;
    size_t at = grad;
    const mg_value in[3] = {grad ? aten_in(b, c->node, 0, NULL) : MG_NONE, aten_in(b, c->node, at, NULL),
                            aten_in(b, c->node, at + 1, NULL)};
    int64_t reduction = aten_int(c->node, at + 3, "reduction", 1),
            ignored = aten_int(c->node, at + 4, "ignore_index", -100);
    if (aten_is_tensor(aten_argument(c->node, at + 2, "weight")) || reduction == 0 ||
        (reduction == 2 && ignored != -100))
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_DIVISOR, reduction == 2 ? 1 : 0);
    aten_set_int(b, MG_ATTR_IGNORE_INDEX, ignored == -100 ? MG_IGNORE_NONE : ignored);
    if (grad)
        return aten_emit(b, c->type, in, 3, NULL, 1);
    mg_value out[2] = {aten_emit(b, c->type, in + 1, 2, NULL, 1), MG_NONE};
    aten_give(b, out, 2);
    return MG_NONE;
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
    if (aten_real(c->node, at, "dropout_p", 0) != 0 || aten_is_tensor(aten_argument(c->node, 3, "attn_mask")))
        return aten_decline(b);
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
    if (aten_real(c->node, dropout, "dropout_p", 0) != 0 ||
        (efficient && aten_is_tensor(aten_argument(c->node, 4, NULL))))
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_SCALE, scale_of(c->node));
    aten_set_int(b, MG_ATTR_CAUSAL, aten_int(c->node, dropout + (efficient ? 2 : 1), "is_causal", 0));
    aten_emit(b, MG_OP_ATTENTION_GRAD, in, 6, out, 3);
    aten_give(b, out, 3);
    return MG_NONE;
}
