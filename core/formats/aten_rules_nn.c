/* Rules of products, convolutions and normalisation. */
#include <string.h>

#include "formats/aten_rules.h"

/* ---- products ---- */

mg_value aten_rule_matmul(struct aten_builder *b, const struct aten_rule_call *c)
{
    return aten_emit2(b, MG_OP_MATMUL, aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL));
}

/* _linalg_det(a) -> the determinant; not what it was computed by, which its gradient reads */
mg_value aten_rule_det(struct aten_builder *b, const struct aten_rule_call *c)
{
    const mg_value out[1] = {aten_emit1(b, c->type, aten_in(b, c->node, 0, NULL))};
    aten_give(b, out, 1);
    return MG_NONE;
}

/* mv(a, v), dot(v, v): vectors as matrices of one row or column */
mg_value aten_rule_matmul_vector(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_in(b, c->node, 0, NULL), v = aten_in(b, c->node, 1, NULL);
    int64_t size = aten_shape(b, v)->dim[0];
    if (aten_shape(b, a)->rank == 1)
        a = aten_reshape(b, a, &(struct mg_shape){.rank = 2, .dim = {1, size}});
    v = aten_reshape(b, v, &(struct mg_shape){.rank = 2, .dim = {size, 1}});
    return aten_reshape(b, aten_emit2(b, MG_OP_MATMUL, a, v), &c->node->shape);
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

/* The new version of a running statistic; MG_NONE where none is kept. */
static mg_value updated_statistic(struct aten_builder *b, const struct aten_node *node, size_t at, mg_value with,
                                  const double momentum_epsilon[2], int64_t elements)
{
    mg_value old = aten_in(b, node, at, NULL);
    if (old == MG_NONE)
        return MG_NONE;
    aten_set_real(b, MG_ATTR_MOMENTUM, momentum_epsilon[0]);
    aten_set_int(b, MG_ATTR_VARIANCE, at == 4);
    aten_set_real(b, MG_ATTR_EPSILON, momentum_epsilon[1]);
    aten_set_int(b, MG_ATTR_ELEMENTS, elements);
    return aten_emit2(b, MG_OP_STAT_UPDATE, old, with);
}

static mg_value or_filled(struct aten_builder *b, mg_value v, mg_value like, double value)
{
    return v != MG_NONE ? v : aten_fill(b, aten_shape(b, like), aten_dtype(b, like), value);
}

/* By the running statistics. */
static mg_value batch_norm_inference(struct aten_builder *b, const struct aten_node *node, double epsilon)
{
    mg_value in[5], out[4] = {MG_NONE, MG_NONE, MG_NONE, MG_NONE};
    for (uint32_t i = 0; i < 5; i++)
        in[i] = aten_in(b, node, i, NULL);
    if (in[3] == MG_NONE || in[4] == MG_NONE)
        return aten_decline(b);
    in[1] = or_filled(b, in[1], in[3], 1);
    in[2] = or_filled(b, in[2], in[3], 0);
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
    mg_value in[3] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL)};
    mg_value out[4] = {MG_NONE, MG_NONE, MG_NONE, MG_NONE}, fresh[2];
    if (in[0] == MG_NONE || aten_shape(b, in[0])->rank < 2)
        return aten_decline(b);
    bool plain = in[1] == MG_NONE && in[2] == MG_NONE;
    if (!plain) { /* one of them alone */
        in[1] = or_filled(b, in[1], in[2], 1);
        in[2] = or_filled(b, in[2], in[1], 0);
    }
    aten_set_real(b, MG_ATTR_EPSILON, numbers[1]);
    aten_emit(b, MG_OP_BATCH_NORM, in, plain ? 1 : 3, out, 3);
    int64_t channels = aten_shape(b, in[0])->dim[1];
    int64_t elements = channels ? mg_shape_elements(aten_shape(b, in[0])) / channels : 0;
    for (size_t i = 0; i < 2; i++)
        fresh[i] = updated_statistic(b, c->node, 3 + i, out[1 + i], numbers, elements);
    for (size_t i = 0; i < 2 && !b->declined; i++)
        if (fresh[i] != MG_NONE)
            aten_write(b, aten_argument(c->node, 3 + i, NULL)->node, fresh[i]);
    aten_give(b, out, 4);
    return MG_NONE;
}

static mg_value channel_sum(struct aten_builder *b, mg_value v)
{
    int64_t axes[MG_MAX_RANK] = {0};
    if (v == MG_NONE)
        return MG_NONE;
    for (uint32_t d = 2; d < aten_shape(b, v)->rank; d++)
        axes[d - 1] = d;
    aten_set_ints(b, MG_ATTR_AXES, axes, aten_shape(b, v)->rank - 1);
    aten_set_int(b, MG_ATTR_KEEPDIMS, 0);
    return aten_emit1(b, MG_OP_REDUCE_SUM, v);
}

/* The gradients where the running statistics took the batch's place: of (x - mean) r scale + shift, r = 1 /
 * sqrt(variance
 * + epsilon), neither mean nor r depends on x. */
static mg_value inference_grad(struct aten_builder *b, const struct aten_node *node, mg_value dy, mg_value x)
{
    mg_value scale = aten_in(b, node, 2, NULL), mean = aten_in(b, node, 3, NULL), variance = aten_in(b, node, 4, NULL);
    if (mean == MG_NONE || variance == MG_NONE || dy == MG_NONE || x == MG_NONE)
        return aten_decline(b);
    mg_value r = aten_emit1(b, MG_OP_RSQRT, aten_affine(b, variance, 1, aten_real(node, 8, "eps", 1e-5)));
    mg_value by = scale == MG_NONE ? r : aten_emit2(b, MG_OP_MUL, r, scale);
    mg_value out[3] = {aten_emit2(b, MG_OP_MUL, dy, channel_statistic(b, by, x)), MG_NONE, MG_NONE};
    if (scale != MG_NONE) {
        mg_value moved = aten_emit2(b, MG_OP_SUB, x, channel_statistic(b, mean, x));
        out[1] = aten_emit2(b, MG_OP_MUL, channel_sum(b, aten_emit2(b, MG_OP_MUL, dy, moved)), r);
    }
    out[2] = channel_sum(b, dy);
    aten_give(b, out, 3);
    return MG_NONE;
}

/* native: (dy, x, scale, running mean, running variance, mean, rstd, ...); cudnn: (x, dy, scale, ...) */
mg_value aten_rule_batch_norm_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool cudnn = strstr(c->node->op, "cudnn") != NULL;
    mg_value dy = aten_in(b, c->node, cudnn, NULL), x = aten_in(b, c->node, !cudnn, NULL);
    if (!cudnn && !aten_int(c->node, 7, "train", 1))
        return inference_grad(b, c->node, dy, x);
    mg_value mean = channel_statistic(b, aten_in(b, c->node, 5, NULL), x);
    mg_value rstd = channel_statistic(b, aten_in(b, c->node, 6, NULL), x), scale = aten_in(b, c->node, 2, NULL);
    const mg_value in[5] = {dy, x, mean, rstd, scale};
    mg_value out[3] = {MG_NONE, MG_NONE, MG_NONE};
    aten_emit(b, MG_OP_BATCH_NORM_GRAD, in, scale == MG_NONE ? 4 : 5, out, scale == MG_NONE ? 1 : 3);
    if (scale == MG_NONE)
        out[2] = channel_sum(b, dy);
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

/* (x, normalized_shape, scale, epsilon) -> y, rstd */
mg_value aten_rule_rms_norm(struct aten_builder *b, const struct aten_rule_call *c)
{
    const mg_value in[2] = {aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 2, NULL)};
    const struct aten_arg *sizes = aten_argument(c->node, 1, "normalized_shape");
    double epsilon = aten_real(c->node, 3, "eps", -1);
    mg_value out[2];
    if (!sizes || sizes->kind != ATEN_LIST || epsilon < 0)
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_AXIS, -(int64_t)sizes->count);
    aten_set_real(b, MG_ATTR_EPSILON, epsilon);
    aten_emit(b, c->type, in, in[1] == MG_NONE ? 1 : 2, out, 2);
    aten_give(b, out, 2);
    return MG_NONE;
}

/* (dy, x, normalized_shape, rstd, scale, mask) -> dx, dscale */
mg_value aten_rule_rms_norm_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 1, NULL), scale = aten_in(b, c->node, 4, NULL);
    const mg_value in[4] = {aten_in(b, c->node, 0, NULL), x, aten_in(b, c->node, 3, NULL), scale};
    const struct aten_arg *sizes = aten_argument(c->node, 2, "normalized_shape");
    mg_value out[2] = {MG_NONE, MG_NONE};
    if (!sizes || sizes->kind != ATEN_LIST)
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_AXIS, -(int64_t)sizes->count);
    aten_emit(b, c->type, in, scale == MG_NONE ? 3 : 4, out, scale == MG_NONE ? 1 : 2);
    aten_give(b, out, 2);
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
