/* Rules of losses and attention. */
#include <string.h>

#include "formats/aten_rules.h"

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

/* The loss of each element, their mean or their sum. */
static mg_value total(struct aten_builder *b, mg_value e, int64_t reduction)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t rank = aten_shape(b, e)->rank;
    if (reduction == REDUCTION_NONE || rank == 0)
        return e;
    for (uint32_t d = 0; d < rank; d++)
        axes[d] = d;
    aten_set_ints(b, MG_ATTR_AXES, axes, rank);
    aten_set_int(b, MG_ATTR_KEEPDIMS, 0);
    return aten_emit1(b, reduction == REDUCTION_MEAN ? MG_OP_REDUCE_MEAN : MG_OP_REDUCE_SUM, e);
}

/* What of the loss's gradient goes to each element of `like`. */
static mg_value shared(struct aten_builder *b, mg_value dy, mg_value like, int64_t reduction)
{
    double count = (double)mg_shape_elements(aten_shape(b, like));
    if (reduction == REDUCTION_MEAN && count > 0)
        dy = aten_affine(b, dy, 1 / count, 0);
    return aten_expand(b, dy, aten_shape(b, like));
}

/* mse_loss(y, t, reduction) */
mg_value aten_rule_mse(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value y = aten_in(b, c->node, 0, NULL), t = aten_in(b, c->node, 1, NULL);
    return total(b, aten_emit2(b, c->type, y, t), aten_int(c->node, 2, "reduction", REDUCTION_MEAN));
}

/* mse_loss_backward(dloss, y, t, reduction) */
mg_value aten_rule_mse_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value dy = aten_in(b, c->node, 0, NULL), y = aten_in(b, c->node, 1, NULL), t = aten_in(b, c->node, 2, NULL);
    const mg_value in[3] = {shared(b, dy, y, aten_int(c->node, 3, "reduction", REDUCTION_MEAN)), y, t};
    return aten_emit(b, c->type, in, 3, NULL, 1);
}

/* y - t no further than `most` from zero: the slope of a loss that is square there and straight outside. */
static mg_value bent(struct aten_builder *b, mg_value difference, double most)
{
    aten_set_real(b, MG_ATTR_MIN, -most);
    aten_set_real(b, MG_ATTR_MAX, most);
    return aten_emit1(b, MG_OP_CLIP, difference);
}

/* smooth_l1_loss(y, t, reduction, beta), huber_loss(y, t, reduction, delta): with d = y - t and c = d between -beta and
 * beta, c (d - c / 2), which smooth_l1 divides by beta. */
mg_value aten_rule_smooth_l1(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool huber = strstr(c->node->op, "huber") != NULL;
    double beta = aten_real(c->node, 3, huber ? "delta" : "beta", 1);
    if (!(beta > 0))
        return aten_decline(b);
    mg_value d = aten_emit2(b, MG_OP_SUB, aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL));
    mg_value slope = bent(b, d, beta);
    mg_value e = aten_emit2(b, MG_OP_MUL, slope, aten_emit2(b, MG_OP_SUB, d, aten_affine(b, slope, 0.5, 0)));
    return total(b, huber ? e : aten_affine(b, e, 1 / beta, 0), aten_int(c->node, 2, "reduction", REDUCTION_MEAN));
}

/* smooth_l1_loss_backward(dloss, y, t, reduction, beta) and huber's */
mg_value aten_rule_smooth_l1_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool huber = strstr(c->node->op, "huber") != NULL;
    double beta = aten_real(c->node, 4, huber ? "delta" : "beta", 1);
    if (!(beta > 0))
        return aten_decline(b);
    mg_value d = aten_emit2(b, MG_OP_SUB, aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL));
    mg_value slope = aten_affine(b, bent(b, d, beta), huber ? 1 : 1 / beta, 0);
    mg_value dy = shared(b, aten_in(b, c->node, 0, NULL), d, aten_int(c->node, 3, "reduction", REDUCTION_MEAN));
    return aten_emit2(b, MG_OP_MUL, slope, dy);
}

/* ---- binary cross entropy ---- */

static mg_value weighted(struct aten_builder *b, mg_value v, mg_value weight)
{
    return weight == MG_NONE ? v : aten_emit2(b, MG_OP_MUL, v, weight);
}

/* No less than `least`. */
static mg_value at_least(struct aten_builder *b, mg_value v, double least)
{
    aten_set_real(b, MG_ATTR_MIN, least);
    return aten_emit1(b, MG_OP_CLIP, v);
}

/* binary_cross_entropy(y, t, weight, reduction): (t - 1) log(1 - y) - t log(y), no logarithm below -100 */
mg_value aten_rule_bce(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value y = aten_in(b, c->node, 0, NULL), t = aten_in(b, c->node, 1, NULL), w = aten_in(b, c->node, 2, NULL);
    mg_value off = aten_emit1(b, MG_OP_LOG1P, aten_emit1(b, MG_OP_NEG, y)), on = aten_emit1(b, MG_OP_LOG, y);
    off = aten_emit2(b, MG_OP_MUL, aten_affine(b, t, 1, -1), at_least(b, off, -100));
    on = aten_emit2(b, MG_OP_MUL, t, at_least(b, on, -100));
    return total(b, weighted(b, aten_emit2(b, MG_OP_SUB, off, on), w),
                 aten_int(c->node, 3, "reduction", REDUCTION_MEAN));
}

/* binary_cross_entropy_backward(dloss, y, t, weight, reduction): dloss (y - t) / (y (1 - y)), that no less than 1e-12
 */
mg_value aten_rule_bce_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value y = aten_in(b, c->node, 1, NULL), t = aten_in(b, c->node, 2, NULL), w = aten_in(b, c->node, 3, NULL);
    mg_value dy = shared(b, aten_in(b, c->node, 0, NULL), y, aten_int(c->node, 4, "reduction", REDUCTION_MEAN));
    mg_value by = at_least(b, aten_emit2(b, MG_OP_MUL, aten_affine(b, y, -1, 1), y), 1e-12);
    mg_value v = aten_emit2(b, MG_OP_DIV, aten_emit2(b, MG_OP_MUL, dy, aten_emit2(b, MG_OP_SUB, y, t)), by);
    return weighted(b, v, w);
}

/* binary_cross_entropy_with_logits(x, t, weight, weight of what is true, reduction):
 * (1 - t) x + (1 + (weight - 1) t) softplus(-x) */
mg_value aten_rule_bce_logits(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL), t = aten_in(b, c->node, 1, NULL);
    mg_value w = aten_in(b, c->node, 2, NULL), on = aten_in(b, c->node, 3, NULL);
    mg_value e = aten_emit1(b, MG_OP_SOFTPLUS, aten_emit1(b, MG_OP_NEG, x));
    if (on != MG_NONE)
        e = aten_emit2(b, MG_OP_MUL, e, aten_affine(b, aten_emit2(b, MG_OP_MUL, aten_affine(b, on, 1, -1), t), 1, 1));
    e = aten_emit2(b, MG_OP_ADD, aten_emit2(b, MG_OP_MUL, aten_affine(b, t, -1, 1), x), e);
    return total(b, weighted(b, e, w), aten_int(c->node, 4, "reduction", REDUCTION_MEAN));
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
