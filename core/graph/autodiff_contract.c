/* Gradient rules: contractions and attention. The gradient to the data comes first, then the weight's, then the
 * bias': the order in which eager frameworks run them, so that the original's peak is theirs. */
#include "graph/autodiff_priv.h"

/* ---- matmul ---- */

static bool flag(const struct mg_grad *d, enum mg_attr_key key)
{
    return mg_grad_attr(d, key)->i != 0;
}

/* c = A B with A = a or a^T, B = b or b^T. dA = dy B^T, transposed back where a is. */
static mg_value grad_left(struct mg_grad *d, mg_value dy, mg_value b, bool trans_a, bool trans_b)
{
    return trans_a ? mg_grad_matmul(d, b, trans_b, dy, true) : mg_grad_matmul(d, dy, false, b, !trans_b);
}

static mg_value grad_right(struct mg_grad *d, mg_value dy, mg_value a, bool trans_a, bool trans_b)
{
    return trans_b ? mg_grad_matmul(d, dy, true, a, trans_a) : mg_grad_matmul(d, a, !trans_a, dy, false);
}

/* All dimensions but the last as one. */
static mg_value rows_of(struct mg_grad *d, mg_value x)
{
    const struct mg_shape *shape = mg_grad_shape(d, x);
    struct mg_shape rows = {.rank = 2, .dim = {1, shape->dim[shape->rank - 1]}};
    for (uint32_t i = 0; i + 1 < shape->rank; i++)
        rows.dim[0] *= shape->dim[i];
    return mg_grad_reshape(d, x, &rows);
}

/* A matrix applied to batches of rows is one product over all rows, and so is its gradient. */
static bool is_linear_layer(const struct mg_grad *d)
{
    return mg_grad_shape(d, mg_grad_in(d, 1))->rank == 2 && mg_grad_shape(d, mg_grad_in(d, 0))->rank > 2 &&
           !flag(d, MG_ATTR_TRANS_A);
}

static mg_value scaled(struct mg_grad *d, mg_value x, double factor)
{
    return factor == 1 ? x : mg_grad_affine(d, x, factor, 0);
}

/* The gradients of alpha A B + beta c; `flatten`: B's as one product over all rows. */
static void give_product(struct mg_grad *d, bool flatten, double beta)
{
    mg_value a = mg_grad_in(d, 0), b = mg_grad_in(d, 1), dy = mg_grad_dy(d, 0);
    bool trans_a = flag(d, MG_ATTR_TRANS_A), trans_b = flag(d, MG_ATTR_TRANS_B);
    double alpha = mg_grad_attr(d, MG_ATTR_ALPHA)->f;
    if (mg_grad_wants(d, 0))
        mg_grad_give(d, 0, scaled(d, grad_left(d, dy, b, trans_a, trans_b), alpha));
    if (mg_grad_wants(d, 1)) {
        mg_value rows = flatten ? rows_of(d, a) : a, dy_rows = flatten ? rows_of(d, dy) : dy;
        mg_grad_give(d, 1, scaled(d, grad_right(d, dy_rows, rows, trans_a, trans_b), alpha));
    }
    if (mg_grad_wants(d, 2)) {
        mg_value sum = mg_grad_unbroadcast(d, dy, mg_grad_shape(d, mg_grad_in(d, 2)));
        mg_grad_give(d, 2, scaled(d, sum, beta));
    }
}

void grad_matmul(struct mg_grad *d)
{
    give_product(d, is_linear_layer(d), 1);
}

void grad_gemm(struct mg_grad *d)
{
    give_product(d, false, mg_grad_attr(d, MG_ATTR_BETA)->f);
}

/* ---- convolution ---- */

static struct mg_attr spatial_sizes(struct mg_grad *d, enum mg_attr_key key, mg_value like)
{
    const struct mg_shape *shape = mg_grad_shape(d, like);
    return mg_grad_ints(d, key, shape->dim + 2, shape->rank - 2);
}

static mg_value emit_conv(struct mg_grad *d, mg_value x, mg_value w)
{
    mg_value in[2] = {x, w}, out;
    mg_grad_emit_like(d, MG_OP_CONV, in, 2, NULL, 0, &out, 1);
    return out;
}

static mg_value emit_grad_input(struct mg_grad *d, mg_value dy, mg_value w, mg_value like)
{
    mg_value in[2] = {dy, w}, out;
    struct mg_attr sizes[] = {spatial_sizes(d, MG_ATTR_SPATIAL, like)};
    mg_grad_emit_like(d, MG_OP_CONV_GRAD_INPUT, in, 2, sizes, 1, &out, 1);
    return out;
}

static mg_value emit_grad_weight(struct mg_grad *d, mg_value dy, mg_value x, mg_value like)
{
    mg_value in[2] = {dy, x}, out;
    struct mg_attr sizes[] = {spatial_sizes(d, MG_ATTR_KERNEL_SHAPE, like)};
    mg_grad_emit_like(d, MG_OP_CONV_GRAD_WEIGHT, in, 2, sizes, 1, &out, 1);
    return out;
}

/* The bias is added to every position of its channel. */
static void give_bias(struct mg_grad *d)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t count = 0, rank = mg_grad_shape(d, mg_grad_dy(d, 0))->rank;
    if (!mg_grad_wants(d, 2) || mg_grad_shape(d, mg_grad_in(d, 2))->rank != 1)
        return;
    for (uint32_t i = 0; i < rank; i++)
        if (i != 1)
            axes[count++] = i;
    mg_grad_give(d, 2, mg_grad_sum(d, mg_grad_dy(d, 0), axes, count, false));
}

static void give_addend(struct mg_grad *d, mg_value dy)
{
    for (uint32_t slot = 2; slot < 4; slot++)
        if (mg_grad_wants(d, slot) && mg_grad_shape(d, mg_grad_in(d, slot))->rank == mg_grad_shape(d, dy)->rank)
            mg_grad_give(d, slot, dy);
}

void grad_conv(struct mg_grad *d)
{
    mg_value x = mg_grad_in(d, 0), w = mg_grad_in(d, 1), dy = mg_grad_dy(d, 0);
    if (mg_grad_wants(d, 0))
        mg_grad_give(d, 0, emit_grad_input(d, dy, w, x));
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, emit_grad_weight(d, dy, x, w));
    give_bias(d);
    give_addend(d, dy);
}

/* The transpose of a convolution from y's shape to x's: its gradients are that convolution and that one's
 * weight gradient with the roles of x and y exchanged. */
void grad_conv_transpose(struct mg_grad *d)
{
    mg_value x = mg_grad_in(d, 0), w = mg_grad_in(d, 1), dy = mg_grad_dy(d, 0);
    if (mg_grad_wants(d, 0))
        mg_grad_give(d, 0, emit_conv(d, dy, w));
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, emit_grad_weight(d, x, dy, w));
    give_bias(d);
}

/* (dy, w) -> dx, linear in both */
void grad_conv_grad_input(struct mg_grad *d)
{
    mg_value dy = mg_grad_in(d, 0), w = mg_grad_in(d, 1), g = mg_grad_dy(d, 0);
    if (mg_grad_wants(d, 0))
        mg_grad_give(d, 0, emit_conv(d, g, w));
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, emit_grad_weight(d, dy, g, w));
    give_addend(d, g);
}

/* (dy, x) -> dw, linear in both */
void grad_conv_grad_weight(struct mg_grad *d)
{
    mg_value dy = mg_grad_in(d, 0), x = mg_grad_in(d, 1), g = mg_grad_dy(d, 0);
    if (mg_grad_wants(d, 0))
        mg_grad_give(d, 0, emit_conv(d, x, g));
    if (mg_grad_wants(d, 1))
        mg_grad_give(d, 1, emit_grad_input(d, dy, g, x));
}

/* ---- attention ---- */

void grad_attention(struct mg_grad *d)
{
    mg_value in[7] = {mg_grad_dy(d, 0), mg_grad_in(d, 0), mg_grad_in(d, 1), mg_grad_in(d, 2)}, out[3];
    if (mg_grad_wants(d, 3) || mg_grad_dy(d, 1) != MG_NONE) {
        mg_grad_fail(d, "is not differentiable in its mask or log-sum-exp");
        return;
    }
    in[4] = mg_grad_out(d, 0);
    in[5] = mg_grad_out(d, 1);
    in[6] = mg_grad_in_count(d) > 3 ? mg_grad_in(d, 3) : MG_NONE;
    mg_grad_emit_like(d, MG_OP_ATTENTION_GRAD, in, mg_grad_in_count(d) > 3 ? 7 : 6, NULL, 0, out, 3);
    for (uint32_t i = 0; i < 3; i++)
        mg_grad_give(d, i, out[i]);
}
