/* Gradient rules: reductions, softmax, losses, normalisation, pooling and resampling. */
#include "graph/autodiff_priv.h"

/* ---- reductions ---- */

/* A reduction's result (or its gradient) with the reduced dimensions as 1 again. */
static mg_value with_kept_dims(struct mg_grad *d, mg_value x)
{
    const struct mg_attr *axes = mg_grad_attr(d, MG_ATTR_AXES);
    struct mg_shape kept = *mg_grad_shape(d, mg_grad_in(d, 0));
    for (uint32_t i = 0; i < axes->count; i++)
        kept.dim[axes->ints[i]] = 1;
    return mg_grad_reshape(d, x, &kept);
}

static mg_value spread(struct mg_grad *d, mg_value x)
{
    return mg_grad_expand(d, with_kept_dims(d, x), mg_grad_shape(d, mg_grad_in(d, 0)));
}

void grad_reduce_sum(struct mg_grad *d)
{
    mg_grad_give(d, 0, spread(d, mg_grad_dy(d, 0)));
}

void grad_reduce_mean(struct mg_grad *d)
{
    double divisor = mg_grad_attr(d, MG_ATTR_DIVISOR)->f;
    mg_grad_give(d, 0, spread(d, mg_grad_affine(d, mg_grad_dy(d, 0), 1 / divisor, 0)));
}

/* Elements that equal the result share the gradient evenly. */
static void give_to_equal(struct mg_grad *d)
{
    mg_value x = mg_grad_in(d, 0), y = with_kept_dims(d, mg_grad_out(d, 0));
    const struct mg_attr *axes = mg_grad_attr(d, MG_ATTR_AXES);
    mg_value mask = mg_grad_cast(d, mg_grad_binary(d, MG_OP_EQUAL, x, y), d->g->values[x].dtype);
    mg_value count = mg_grad_sum(d, mask, axes->ints, axes->count, true);
    mg_value share = mg_grad_binary(d, MG_OP_DIV, with_kept_dims(d, mg_grad_dy(d, 0)), count);
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_MUL, mask, share));
}

void grad_reduce_max(struct mg_grad *d)
{
    give_to_equal(d);
}

void grad_reduce_min(struct mg_grad *d)
{
    give_to_equal(d);
}

/* dy y / x: operands must not be zero */
void grad_reduce_prod(struct mg_grad *d)
{
    mg_value product = mg_grad_binary(d, MG_OP_MUL, mg_grad_dy(d, 0), mg_grad_out(d, 0));
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_DIV, with_kept_dims(d, product), mg_grad_in(d, 0)));
}

/* sum of |x|: dy sign(x) */
void grad_reduce_l1(struct mg_grad *d)
{
    mg_value sign = mg_grad_unary(d, MG_OP_SIGN, mg_grad_in(d, 0));
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_MUL, with_kept_dims(d, mg_grad_dy(d, 0)), sign));
}

/* (dy / y) x */
void grad_reduce_l2(struct mg_grad *d)
{
    mg_value share = mg_grad_binary(d, MG_OP_DIV, mg_grad_dy(d, 0), mg_grad_out(d, 0));
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_MUL, with_kept_dims(d, share), mg_grad_in(d, 0)));
}

void grad_reduce_sum_square(struct mg_grad *d)
{
    mg_value twice = mg_grad_affine(d, mg_grad_dy(d, 0), 2, 0);
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_MUL, with_kept_dims(d, twice), mg_grad_in(d, 0)));
}

/* y = log sum x: dy / exp(y) */
void grad_reduce_log_sum(struct mg_grad *d)
{
    mg_value sum = mg_grad_unary(d, MG_OP_EXP, mg_grad_out(d, 0));
    mg_grad_give(d, 0, spread(d, mg_grad_binary(d, MG_OP_DIV, mg_grad_dy(d, 0), sum)));
}

/* dy exp(x - y) */
void grad_reduce_log_sum_exp(struct mg_grad *d)
{
    mg_value y = with_kept_dims(d, mg_grad_out(d, 0));
    mg_value share = mg_grad_unary(d, MG_OP_EXP, mg_grad_binary(d, MG_OP_SUB, mg_grad_in(d, 0), y));
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_MUL, with_kept_dims(d, mg_grad_dy(d, 0)), share));
}

/* y = x / n: (dy - s sum(dy y)) / n, where s = y for the 2-norm and sign(x) for the 1-norm */
void grad_lp_norm(struct mg_grad *d)
{
    const int64_t axis = mg_grad_attr(d, MG_ATTR_AXIS)->i;
    bool square = mg_grad_attr(d, MG_ATTR_P)->i == 2;
    mg_value dy = mg_grad_dy(d, 0), y = mg_grad_out(d, 0), x = mg_grad_in(d, 0);
    struct mg_attr axes[] = {mg_grad_ints(d, MG_ATTR_AXES, &axis, 1)};
    mg_value norm = mg_grad_unary_with(d, square ? MG_OP_REDUCE_L2 : MG_OP_REDUCE_L1, x, axes, 1);
    mg_value dot = mg_grad_sum(d, mg_grad_binary(d, MG_OP_MUL, dy, y), &axis, 1, true);
    mg_value slope = square ? y : mg_grad_unary(d, MG_OP_SIGN, x);
    mg_value along = mg_grad_binary(d, MG_OP_SUB, dy, mg_grad_binary(d, MG_OP_MUL, slope, dot));
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_DIV, along, norm));
}

void grad_cumsum(struct mg_grad *d)
{
    mg_value dy = mg_grad_dy(d, 0), out;
    struct mg_attr other[] = {mg_grad_int(MG_ATTR_REVERSE, !mg_grad_attr(d, MG_ATTR_REVERSE)->i)};
    mg_grad_emit_like(d, MG_OP_CUMSUM, &dy, 1, other, 1, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_softmax(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_SOFTMAX_GRAD, mg_grad_out(d, 0));
}

void grad_log_softmax(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_LOG_SOFTMAX_GRAD, mg_grad_out(d, 0));
}

static void give_loss(struct mg_grad *d, enum mg_op_type type)
{
    mg_value in[3] = {mg_grad_dy(d, 0), mg_grad_in(d, 0), mg_grad_in(d, 1)}, out;
    mg_grad_emit_like(d, type, in, 3, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_cross_entropy(struct mg_grad *d)
{
    give_loss(d, MG_OP_CROSS_ENTROPY_GRAD);
}

void grad_nll_loss(struct mg_grad *d)
{
    give_loss(d, MG_OP_NLL_LOSS_GRAD);
}

/* ---- normalisation ---- */

/* (dy, x, saved statistics[, scale]) -> dx[, dscale[, dshift]] */
static void give_norm(struct mg_grad *d, enum mg_op_type type, uint32_t statistics)
{
    mg_value in[5] = {mg_grad_dy(d, 0), mg_grad_in(d, 0)}, out[3] = {MG_NONE, MG_NONE, MG_NONE};
    uint32_t count = 2, results = mg_grad_in_count(d);
    for (uint32_t i = 1; i <= statistics; i++) {
        in[count++] = mg_grad_out(d, i);
        if (mg_grad_dy(d, i) != MG_NONE)
            mg_grad_fail(d, "is not differentiable through its statistics");
    }
    if (results > 1)
        in[count++] = mg_grad_in(d, 1);
    mg_grad_emit_like(d, type, in, count, NULL, 0, out, results);
    for (uint32_t i = 0; i < results; i++)
        mg_grad_give(d, i, out[i]);
}

void grad_layer_norm(struct mg_grad *d)
{
    give_norm(d, MG_OP_LAYER_NORM_GRAD, 2);
}

void grad_rms_norm(struct mg_grad *d)
{
    give_norm(d, MG_OP_RMS_NORM_GRAD, 1);
}

void grad_batch_norm(struct mg_grad *d)
{
    give_norm(d, MG_OP_BATCH_NORM_GRAD, 2);
}

void grad_group_norm(struct mg_grad *d)
{
    give_norm(d, MG_OP_GROUP_NORM_GRAD, 2);
}

void grad_instance_norm(struct mg_grad *d)
{
    give_norm(d, MG_OP_INSTANCE_NORM_GRAD, 2);
}

/* A parameter [c] as [c, 1, ...] against [n, c, ...]. */
static mg_value per_channel(struct mg_grad *d, mg_value param)
{
    struct mg_shape shape = *mg_grad_shape(d, param);
    uint32_t spatial = mg_grad_shape(d, mg_grad_in(d, 0))->rank - 2;
    for (uint32_t i = 0; i < spatial; i++)
        shape.dim[++shape.rank - 1] = 1;
    return mg_grad_reshape(d, param, &shape);
}

static mg_value channel_sum(struct mg_grad *d, mg_value x)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t count = 0, rank = mg_grad_shape(d, x)->rank;
    for (uint32_t i = 0; i < rank; i++)
        if (i != 1)
            axes[count++] = i;
    return mg_grad_sum(d, x, axes, count, false);
}

/* (x, scale, shift, mean, variance), the last two fixed: y = (x - mean) rstd scale + shift */
void grad_batch_norm_inference(struct mg_grad *d)
{
    mg_value dy = mg_grad_dy(d, 0), variance = mg_grad_in(d, 4);
    if (mg_grad_wants(d, 3) || mg_grad_wants(d, 4)) {
        mg_grad_fail(d, "is not differentiable in its running statistics");
        return;
    }
    mg_grad_give(d, 2, mg_grad_wants(d, 2) ? channel_sum(d, dy) : MG_NONE);
    mg_value rstd = mg_grad_affine(d, variance, 1, mg_grad_attr(d, MG_ATTR_EPSILON)->f);
    rstd = mg_grad_unary(d, MG_OP_RSQRT, rstd);
    if (mg_grad_wants(d, 1)) {
        mg_value x = mg_grad_binary(d, MG_OP_SUB, mg_grad_in(d, 0), per_channel(d, mg_grad_in(d, 3)));
        mg_value sum = channel_sum(d, mg_grad_binary(d, MG_OP_MUL, dy, x));
        mg_grad_give(d, 1, mg_grad_binary(d, MG_OP_MUL, sum, rstd));
    }
    if (mg_grad_wants(d, 0)) {
        mg_value factor = mg_grad_binary(d, MG_OP_MUL, mg_grad_in(d, 1), rstd);
        mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_MUL, dy, per_channel(d, factor)));
    }
}

void grad_lrn(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_LRN_GRAD, mg_grad_in(d, 0));
}

static mg_value mean_over(struct mg_grad *d, mg_value x, const struct mg_attr *axes)
{
    return mg_grad_unary_with(d, MG_OP_REDUCE_MEAN, x, axes, 1);
}

/* y = c / (s + e) with c = x - mean, s = sqrt(mean c^2): (dy - mean dy - c mean(dy y) / s) / (s + e) */
void grad_mean_variance_norm(struct mg_grad *d)
{
    mg_value x = mg_grad_in(d, 0), y = mg_grad_out(d, 0), dy = mg_grad_dy(d, 0);
    const struct mg_attr *axes = mg_grad_attr(d, MG_ATTR_AXES);
    mg_value c = mg_grad_binary(d, MG_OP_SUB, x, mean_over(d, x, axes));
    mg_value s = mg_grad_unary(d, MG_OP_SQRT, mean_over(d, mg_grad_binary(d, MG_OP_MUL, c, c), axes));
    mg_value along = mg_grad_binary(d, MG_OP_DIV, mean_over(d, mg_grad_binary(d, MG_OP_MUL, dy, y), axes), s);
    mg_value dx = mg_grad_binary(d, MG_OP_SUB, dy, mean_over(d, dy, axes));
    dx = mg_grad_binary(d, MG_OP_SUB, dx, mg_grad_binary(d, MG_OP_MUL, c, along));
    s = mg_grad_affine(d, s, 1, mg_grad_attr(d, MG_ATTR_EPSILON)->f);
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_DIV, dx, s));
}

/* ---- pooling and resampling ---- */

/* dy -> dx, which has x's spatial sizes */
static void give_spatial(struct mg_grad *d, enum mg_op_type type)
{
    const struct mg_shape *x = mg_grad_shape(d, mg_grad_in(d, 0));
    mg_value dy = mg_grad_dy(d, 0), out;
    struct mg_attr sizes[] = {mg_grad_ints(d, MG_ATTR_SPATIAL, x->dim + 2, x->rank - 2)};
    mg_grad_emit_like(d, type, &dy, 1, sizes, 1, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_max_pool(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_MAX_POOL_GRAD, mg_grad_in(d, 0));
}

void grad_lp_pool(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_LP_POOL_GRAD, mg_grad_in(d, 0));
}

/* dy at the indices */
void grad_max_unpool(struct mg_grad *d)
{
    mg_value dy = mg_grad_dy(d, 0);
    struct mg_shape flat = {.rank = 1, .dim = {mg_shape_elements(mg_grad_shape(d, dy))}};
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_GATHER, mg_grad_reshape(d, dy, &flat), mg_grad_in(d, 1)));
}

void grad_adaptive_avg_pool(struct mg_grad *d)
{
    give_spatial(d, MG_OP_ADAPTIVE_AVG_POOL_GRAD);
}

void grad_global_max_pool(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_GLOBAL_MAX_POOL_GRAD, mg_grad_in(d, 0));
}

void grad_avg_pool(struct mg_grad *d)
{
    give_spatial(d, MG_OP_AVG_POOL_GRAD);
}

void grad_global_avg_pool(struct mg_grad *d)
{
    give_spatial(d, MG_OP_GLOBAL_AVG_POOL_GRAD);
}

void grad_resize(struct mg_grad *d)
{
    give_spatial(d, MG_OP_RESIZE_GRAD);
}
