/* Rules of random numbers. */
#include <string.h>

#include "formats/aten_rules.h"

/* Ones that drop out, scaled back to 0 and 1. */
mg_value aten_rule_bernoulli(struct aten_builder *b, const struct aten_rule_call *c)
{
    double p = aten_real(c->node, 1, "p", 0.5);
    if (!(p > 0 && p <= 1) || !c->node->has_out)
        return aten_decline(b);
    mg_value one = aten_fill(b, &(struct mg_shape){0}, c->node->dtype, 1), out[2];
    mg_value ones = aten_expand(b, one, &c->node->shape);
    aten_set_real(b, MG_ATTR_RATIO, 1 - p);
    aten_set_int(b, MG_ATTR_SEED, b->node);
    return aten_affine(b, aten_emit(b, MG_OP_DROPOUT, &ones, 1, out, 2), p, 0);
}

mg_value aten_rule_dropout(struct aten_builder *b, const struct aten_rule_call *c)
{
    double p = aten_real(c->node, 1, "p", 0.5);
    mg_value x = aten_in(b, c->node, 0, NULL), out[2];
    if (!(p >= 0 && p < 1) || !aten_int(c->node, 2, "train", 1))
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_RATIO, p);
    aten_set_int(b, MG_ATTR_SEED, b->node);
    aten_emit(b, MG_OP_DROPOUT, &x, 1, out, 2);
    aten_give(b, out, 2);
    return out[0];
}

mg_value aten_rule_dropout_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    double scale = aten_real(c->node, 2, "scale", 1);
    mg_value dy = aten_in(b, c->node, 0, NULL), mask = aten_in(b, c->node, 1, NULL);
    if (!(scale >= 1))
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_RATIO, 1 - 1 / scale);
    return aten_emit2(b, MG_OP_DROPOUT_GRAD, dy, mask);
}

/* bernoulli(p), p a tensor of probabilities */
mg_value aten_rule_bernoulli_each(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value p = aten_in(b, c->node, 0, NULL);
    aten_set_int(b, MG_ATTR_SEED, b->node);
    return aten_emit1(b, c->type, p);
}

/* randn(size), randn_like(x), normal_(x, mean, std), normal(mean, std, size); rand, rand_like, uniform_(x, from, to):
 * two numbers, where there are any, from position `at` on. */
mg_value aten_rule_random(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool normal = c->type == MG_OP_RANDOM_NORMAL, told = !strstr(c->node->op, "rand");
    size_t at = strstr(c->node->op, "float_float") ? 0 : 1;
    double first = told ? aten_real(c->node, at, normal ? "mean" : "from", 0) : 0;
    double second = told ? aten_real(c->node, at + 1, normal ? "std" : "to", 1) : 1;
    if (!c->node->has_out || c->node->dtype >= MG_DTYPE_I64)
        return aten_decline(b);
    aten_set_ints(b, MG_ATTR_SHAPE, c->node->shape.dim, c->node->shape.rank);
    aten_set_text(b, MG_ATTR_TO, mg_dtype_name(c->node->dtype));
    aten_set_real(b, normal ? MG_ATTR_MEAN : MG_ATTR_LOW, first);
    aten_set_real(b, normal ? MG_ATTR_SCALE : MG_ATTR_HIGH, second);
    aten_set_int(b, MG_ATTR_SEED, b->node);
    return aten_emit(b, c->type, NULL, 0, NULL, 1);
}
