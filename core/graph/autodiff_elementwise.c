/* Gradient rules: elementwise operators. */
#include "graph/autodiff_priv.h"

static mg_value mul(struct mg_grad *d, mg_value a, mg_value b)
{
    return mg_grad_binary(d, MG_OP_MUL, a, b);
}

/* ---- two operands ---- */

void grad_add(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_dy(d, 0));
    mg_grad_give(d, 1, mg_grad_dy(d, 0));
}

void grad_sub(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_dy(d, 0));
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, mg_grad_unary(d, MG_OP_NEG, mg_grad_dy(d, 0)));
}

void grad_mul(struct mg_grad *d)
{
    for (uint32_t i = 0; i < 2; i++)
        if (mg_grad_wants(d, i))
            mg_grad_give(d, i, mul(d, mg_grad_dy(d, 0), mg_grad_in(d, 1 - i)));
}

/* y = a / b: dy / b, and -(dy / b) y */
void grad_div(struct mg_grad *d)
{
    mg_value by_b = mg_grad_binary(d, MG_OP_DIV, mg_grad_dy(d, 0), mg_grad_in(d, 1));
    mg_grad_give(d, 0, by_b);
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, mg_grad_unary(d, MG_OP_NEG, mul(d, by_b, mg_grad_out(d, 0))));
}

/* y = a^b: dy b a^(b - 1), and dy y log a */
void grad_pow(struct mg_grad *d)
{
    mg_value a = mg_grad_in(d, 0), b = mg_grad_in(d, 1), dy = mg_grad_dy(d, 0);
    if (mg_grad_wants(d, 0)) {
        mg_value power = mg_grad_binary(d, MG_OP_POW, a, mg_grad_affine(d, b, 1, -1));
        mg_grad_give(d, 0, mul(d, mul(d, dy, b), power));
    }
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, mul(d, mul(d, dy, mg_grad_out(d, 0)), mg_grad_unary(d, MG_OP_LOG, a)));
}

/* dy where a condition on the operands holds; of equal operands the first takes all. */
static void give_where(struct mg_grad *d, uint32_t i, enum mg_op_type condition)
{
    if (!mg_grad_wants(d, i))
        return;
    mg_value mask = mg_grad_binary(d, condition, mg_grad_in(d, 0), mg_grad_in(d, 1));
    mask = mg_grad_cast(d, mask, d->g->values[mg_grad_in(d, i)].dtype);
    mg_grad_give(d, i, mul(d, mg_grad_dy(d, 0), mask));
}

void grad_max(struct mg_grad *d)
{
    give_where(d, 0, MG_OP_GREATER_OR_EQUAL);
    give_where(d, 1, MG_OP_LESS);
}

void grad_min(struct mg_grad *d)
{
    give_where(d, 0, MG_OP_LESS_OR_EQUAL);
    give_where(d, 1, MG_OP_GREATER);
}

/* y = a - b q, q = a / b rounded: dy, and -dy q */
void grad_mod(struct mg_grad *d)
{
    bool to_zero = mg_grad_attr(d, MG_ATTR_FMOD)->i != 0;
    mg_grad_give(d, 0, mg_grad_dy(d, 0));
    if (!mg_grad_wants(d, 1))
        return;
    mg_value q = mg_grad_binary(d, MG_OP_DIV, mg_grad_in(d, 0), mg_grad_in(d, 1));
    q = mg_grad_unary(d, to_zero ? MG_OP_TRUNC : MG_OP_FLOOR, q);
    mg_grad_give(d, 1, mg_grad_unary(d, MG_OP_NEG, mul(d, mg_grad_dy(d, 0), q)));
}

/* angle of (y, x): dy x / r, and -dy y / r with r = x^2 + y^2 */
void grad_atan2(struct mg_grad *d)
{
    mg_value y = mg_grad_in(d, 0), x = mg_grad_in(d, 1);
    mg_value r = mg_grad_binary(d, MG_OP_ADD, mul(d, x, x), mul(d, y, y));
    mg_value by_r = mg_grad_binary(d, MG_OP_DIV, mg_grad_dy(d, 0), r);
    if (mg_grad_wants(d, 0))
        mg_grad_give(d, 0, mul(d, by_r, x));
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, mg_grad_unary(d, MG_OP_NEG, mul(d, by_r, y)));
}

/* dx by an operator of its own; dslope: dy min(x, 0) */
void grad_prelu(struct mg_grad *d)
{
    mg_value in[3] = {mg_grad_dy(d, 0), mg_grad_in(d, 0), mg_grad_in(d, 1)}, out;
    struct mg_attr below[] = {mg_grad_real(MG_ATTR_MAX, 0)};
    if (mg_grad_wants(d, 0)) {
        mg_grad_emit(d, MG_OP_PRELU_GRAD, in, 3, NULL, 0, &out, 1);
        mg_grad_give(d, 0, out);
    }
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, mul(d, in[0], mg_grad_unary_with(d, MG_OP_CLIP, in[1], below, 1)));
}

void grad_where(struct mg_grad *d)
{
    mg_value condition = mg_grad_in(d, 0);
    enum mg_dtype dtype = d->g->values[mg_grad_out(d, 0)].dtype;
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, mul(d, mg_grad_dy(d, 0), mg_grad_cast(d, condition, dtype)));
    if (mg_grad_wants(d, 2)) {
        mg_value other = mg_grad_unary(d, MG_OP_LOGICAL_NOT, condition);
        mg_grad_give(d, 2, mul(d, mg_grad_dy(d, 0), mg_grad_cast(d, other, dtype)));
    }
}

void grad_squared_error(struct mg_grad *d)
{
    mg_value in[3] = {mg_grad_dy(d, 0), mg_grad_in(d, 0), mg_grad_in(d, 1)}, out;
    mg_grad_emit(d, MG_OP_SQUARED_ERROR_GRAD, in, 3, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, mg_grad_unary(d, MG_OP_NEG, out));
}

/* ---- one operand ---- */

void grad_relu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_RELU_GRAD, mg_grad_out(d, 0));
}

void grad_leaky_relu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_LEAKY_RELU_GRAD, mg_grad_out(d, 0));
}

void grad_elu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_ELU_GRAD, mg_grad_out(d, 0));
}

void grad_sigmoid(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_SIGMOID_GRAD, mg_grad_out(d, 0));
}

void grad_tanh(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_TANH_GRAD, mg_grad_out(d, 0));
}

void grad_erf(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_ERF_GRAD, mg_grad_in(d, 0));
}

void grad_silu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_SILU_GRAD, mg_grad_in(d, 0));
}

void grad_gelu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_GELU_GRAD, mg_grad_in(d, 0));
}

void grad_hard_swish(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_HARD_SWISH_GRAD, mg_grad_in(d, 0));
}

void grad_hard_sigmoid(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_HARD_SIGMOID_GRAD, mg_grad_in(d, 0));
}

void grad_softplus(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_SOFTPLUS_GRAD, mg_grad_in(d, 0));
}

void grad_softsign(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_SOFTSIGN_GRAD, mg_grad_in(d, 0));
}

void grad_selu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_SELU_GRAD, mg_grad_out(d, 0));
}

void grad_celu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_CELU_GRAD, mg_grad_out(d, 0));
}

void grad_mish(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_MISH_GRAD, mg_grad_in(d, 0));
}

void grad_thresholded_relu(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_THRESHOLDED_RELU_GRAD, mg_grad_in(d, 0));
}

void grad_shrink(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_SHRINK_GRAD, mg_grad_in(d, 0));
}

void grad_clip(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_CLIP_GRAD, mg_grad_in(d, 0));
}

void grad_dropout(struct mg_grad *d)
{
    mg_grad_give_own(d, MG_OP_DROPOUT_GRAD, mg_grad_out(d, 1));
}

void grad_affine(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_affine(d, mg_grad_dy(d, 0), mg_grad_attr(d, MG_ATTR_ALPHA)->f, 0));
}

void grad_neg(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_unary(d, MG_OP_NEG, mg_grad_dy(d, 0)));
}

void grad_abs(struct mg_grad *d)
{
    mg_grad_give(d, 0, mul(d, mg_grad_dy(d, 0), mg_grad_unary(d, MG_OP_SIGN, mg_grad_in(d, 0))));
}

void grad_sqrt(struct mg_grad *d)
{
    mg_value by_y = mg_grad_binary(d, MG_OP_DIV, mg_grad_dy(d, 0), mg_grad_out(d, 0));
    mg_grad_give(d, 0, mg_grad_affine(d, by_y, 0.5, 0));
}

/* y = x^(-1/2): -1/2 y^3 */
void grad_rsqrt(struct mg_grad *d)
{
    mg_value y = mg_grad_out(d, 0), cube = mul(d, y, mul(d, y, y));
    mg_grad_give(d, 0, mg_grad_affine(d, mul(d, mg_grad_dy(d, 0), cube), -0.5, 0));
}

void grad_reciprocal(struct mg_grad *d)
{
    mg_value y = mg_grad_out(d, 0);
    mg_grad_give(d, 0, mg_grad_unary(d, MG_OP_NEG, mul(d, mg_grad_dy(d, 0), mul(d, y, y))));
}

void grad_cast(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_cast(d, mg_grad_dy(d, 0), d->g->values[mg_grad_in(d, 0)].dtype));
}

void grad_copy(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_dy(d, 0));
}
