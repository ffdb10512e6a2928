/* Rules of activations and their gradients. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "formats/aten_rules.h"

mg_value aten_rule_clip(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_CLIP_GRAD;
    size_t at = grad ? 2 : 1;
    bool hard = strstr(c->node->op, "hardtanh") != NULL, most_only = strstr(c->node->op, "clamp_max") != NULL;
    double least = most_only ? -DBL_MAX : aten_real(c->node, at, hard ? "min_val" : "min", hard ? -1 : -DBL_MAX);
    double most = aten_real(c->node, most_only ? at : at + 1, hard ? "max_val" : "max", hard ? 1 : DBL_MAX);
    mg_value a = aten_in(b, c->node, 0, NULL), x = grad ? aten_in(b, c->node, 1, NULL) : MG_NONE;
    aten_set_real(b, MG_ATTR_MIN, least);
    aten_set_real(b, MG_ATTR_MAX, most);
    return grad ? aten_emit2(b, c->type, a, x) : aten_emit1(b, c->type, a);
}

/* leaky_relu(x, slope), leaky_relu_backward(dy, x, slope); with a positive slope x and y have the same sign. */
mg_value aten_rule_leaky(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_LEAKY_RELU_GRAD;
    double slope = aten_real(c->node, grad ? 2 : 1, "negative_slope", 0.01);
    mg_value a = aten_in(b, c->node, 0, NULL), x = grad ? aten_in(b, c->node, 1, NULL) : MG_NONE;
    if (!(slope > 0))
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_ALPHA, slope);
    return grad ? aten_emit2(b, c->type, a, x) : aten_emit1(b, c->type, a);
}

/* A result of such a call on x that is there already, else one made now. */
static mg_value activated(struct aten_builder *b, enum mg_op_type type, mg_value x, double alpha, double gamma)
{
    for (size_t i = b->g->op_count; i-- > 0;) {
        const struct mg_op_info *op = &b->g->ops[i];
        if (op->type == type && op->in[0] == x && mg_op_attr_float(op, MG_ATTR_ALPHA) == alpha &&
            (type != MG_OP_SELU || mg_op_attr_float(op, MG_ATTR_GAMMA) == gamma))
            return op->out[0];
    }
    aten_set_real(b, MG_ATTR_ALPHA, alpha);
    if (type == MG_OP_SELU)
        aten_set_real(b, MG_ATTR_GAMMA, gamma);
    return aten_emit1(b, type, x);
}

/* scale (x > 0 ? x : alpha (exp(input_scale x) - 1)) as elu, selu or celu; its gradient from the result, in which x > 0
 * is seen where both factors are positive. */
static mg_value scaled_elu(struct aten_builder *b, const double numbers[3], mg_value x, mg_value dy, bool is_result)
{
    double alpha = numbers[0], scale = numbers[1], input_scale = numbers[2];
    enum mg_op_type type = input_scale != 1 ? MG_OP_CELU : scale != 1 ? MG_OP_SELU : MG_OP_ELU;
    bool known = input_scale == 1 || (scale == 1 && fabs(input_scale * alpha - 1) < 1e-6); /* celu's was once single */
    if (!known || x == MG_NONE || (dy != MG_NONE && !(alpha > 0 && scale > 0)))
        return aten_decline(b);
    mg_value y = is_result ? x : activated(b, type, x, alpha, scale);
    if (dy == MG_NONE)
        return y;
    aten_set_real(b, MG_ATTR_ALPHA, alpha);
    if (type == MG_OP_SELU)
        aten_set_real(b, MG_ATTR_GAMMA, scale);
    return aten_emit2(b,
                      type == MG_OP_ELU    ? MG_OP_ELU_GRAD
                      : type == MG_OP_SELU ? MG_OP_SELU_GRAD
                                           : MG_OP_CELU_GRAD,
                      dy, y);
}

/* elu(x, alpha, scale, input_scale), elu_backward(dy, alpha, scale, input_scale, is_result, x or y), celu(x, alpha) */
mg_value aten_rule_elu(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_ELU_GRAD, celu = c->type == MG_OP_CELU;
    double alpha = aten_real(c->node, 1, "alpha", 1);
    const double numbers[3] = {alpha, celu ? 1 : aten_real(c->node, 2, "scale", 1),
                               celu ? 1 / alpha : aten_real(c->node, 3, "input_scale", 1)};
    mg_value a = aten_in(b, c->node, 0, NULL);
    if (alpha == 0 || a == MG_NONE)
        return aten_decline(b);
    return grad ? scaled_elu(b, numbers, aten_in(b, c->node, 5, NULL), a, aten_int(c->node, 4, "is_result", 0) != 0)
                : scaled_elu(b, numbers, a, MG_NONE, false);
}

mg_value aten_rule_gelu(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_GELU_GRAD;
    const struct aten_arg *kind = aten_argument(c->node, grad ? 2 : 1, "approximate");
    mg_value a = aten_in(b, c->node, 0, NULL), x = grad ? aten_in(b, c->node, 1, NULL) : MG_NONE;
    aten_set_text(b, MG_ATTR_APPROXIMATE, kind && kind->kind == ATEN_TEXT ? kind->text : "none");
    return grad ? aten_emit2(b, c->type, a, x) : aten_emit1(b, c->type, a);
}

/* torch's hard sigmoid is relu6(x + 3) / 6 */
mg_value aten_rule_hard_sigmoid(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_HARD_SIGMOID_GRAD;
    mg_value a = aten_in(b, c->node, 0, NULL), x = grad ? aten_in(b, c->node, 1, NULL) : MG_NONE;
    aten_set_real(b, MG_ATTR_ALPHA, 1.0 / 6);
    aten_set_real(b, MG_ATTR_BETA, 0.5);
    return grad ? aten_emit2(b, c->type, a, x) : aten_emit1(b, c->type, a);
}

/* softshrink(x, lambd), hardshrink(x, lambd) and their gradients (dy, x, lambd) */
mg_value aten_rule_shrink(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_SHRINK_GRAD, soft = strstr(c->node->op, "soft") != NULL;
    double lambd = aten_real(c->node, grad ? 2 : 1, "lambd", 0.5);
    mg_value a = aten_in(b, c->node, 0, NULL), x = grad ? aten_in(b, c->node, 1, NULL) : MG_NONE;
    if (!(lambd >= 0))
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_LAMBD, lambd);
    if (!grad)
        aten_set_real(b, MG_ATTR_BIAS, soft ? lambd : 0);
    return grad ? aten_emit2(b, c->type, a, x) : aten_emit1(b, c->type, a);
}

/* ---- prelu ---- */

/* A slope for all or one for each channel, as it broadcasts over x. */
static mg_value slope_over(struct aten_builder *b, mg_value slope, mg_value x)
{
    int64_t count = mg_shape_elements(aten_shape(b, slope));
    uint32_t rank = aten_shape(b, x)->rank;
    struct mg_shape shape = {.rank = count == 1 || rank < 2 ? 0 : rank - 1, .dim = {count, 1, 1, 1, 1, 1, 1}};
    return aten_reshape(b, slope, &shape);
}

mg_value aten_rule_prelu(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL), slope = aten_in(b, c->node, 1, NULL);
    bool shaped = strstr(c->node->op, "_kernel") != NULL;
    return aten_emit2(b, c->type, x, shaped ? slope : slope_over(b, slope, x));
}

/* What of dy x goes to a slope: it counts where x is not positive. */
static mg_value slope_parts(struct aten_builder *b, mg_value dy, mg_value x)
{
    mg_value zero = aten_fill(b, &(struct mg_shape){0}, aten_dtype(b, x), 0);
    const mg_value in[3] = {aten_emit2(b, MG_OP_GREATER, x, zero), zero, aten_emit2(b, MG_OP_MUL, dy, x)};
    return aten_emit(b, MG_OP_WHERE, in, 3, NULL, 1);
}

/* Those parts summed up to the slope's shape. */
static mg_value slope_sum(struct aten_builder *b, mg_value parts, mg_value slope)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t d = 0; d < aten_shape(b, parts)->rank; d++)
        if (d != 1 || mg_shape_elements(aten_shape(b, slope)) == 1)
            axes[count++] = d;
    if (count == 0)
        return aten_decline(b);
    aten_set_ints(b, MG_ATTR_AXES, axes, count);
    aten_set_int(b, MG_ATTR_KEEPDIMS, 0);
    return aten_reshape(b, aten_emit1(b, MG_OP_REDUCE_SUM, parts), aten_shape(b, slope));
}

/* prelu_backward(dy, x, slope) -> dx, dslope; the kernel's: a slope that broadcasts, whose gradient is as large as x */
mg_value aten_rule_prelu_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool shaped = strstr(c->node->op, "_kernel") != NULL;
    mg_value dy = aten_in(b, c->node, 0, NULL), x = aten_in(b, c->node, 1, NULL), slope = aten_in(b, c->node, 2, NULL);
    const mg_value in[3] = {dy, x, shaped ? slope : slope_over(b, slope, x)};
    mg_value out[2] = {aten_emit(b, c->type, in, 3, NULL, 1), slope_parts(b, dy, x)};
    out[1] = shaped ? out[1] : slope_sum(b, out[1], slope);
    aten_give(b, out, 2);
    return MG_NONE;
}

/* ---- those that are put together ---- */

/* log_sigmoid_forward(x) -> -softplus(-x), and a buffer that its gradient (dy, x, buffer) can do without */
mg_value aten_rule_log_sigmoid(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_SOFTPLUS_GRAD;
    mg_value x = aten_emit1(b, MG_OP_NEG, aten_in(b, c->node, grad, NULL));
    if (grad)
        return aten_emit2(b, c->type, aten_in(b, c->node, 0, NULL), x);
    const mg_value out[1] = {aten_emit1(b, MG_OP_NEG, aten_emit1(b, c->type, x))};
    aten_give(b, out, 1);
    return MG_NONE;
}

/* glu(x, dim): the first half times the sigmoid of the second; glu_backward(dy, x, dim) */
mg_value aten_rule_glu(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_SIGMOID_GRAD;
    mg_value dy = grad ? aten_in(b, c->node, 0, NULL) : MG_NONE, x = aten_in(b, c->node, grad, NULL);
    uint32_t rank = aten_shape(b, x)->rank;
    int64_t axis = aten_axis(aten_int(c->node, grad ? 2 : 1, "dim", -1), rank);
    if (x == MG_NONE || axis < 0 || axis >= rank)
        return aten_decline(b);
    int64_t size = aten_shape(b, x)->dim[axis];
    mg_value a = aten_slice(b, x, axis, 0, size / 2, 1);
    mg_value s = aten_emit1(b, MG_OP_SIGMOID, aten_slice(b, x, axis, size / 2, size, 1));
    if (!grad)
        return aten_emit2(b, MG_OP_MUL, a, s);
    const mg_value both[2] = {aten_emit2(b, MG_OP_MUL, dy, s),
                              aten_emit2(b, c->type, aten_emit2(b, MG_OP_MUL, dy, a), s)};
    aten_set_int(b, MG_ATTR_AXIS, axis);
    return aten_emit(b, MG_OP_CONCAT, both, 2, NULL, 1);
}
