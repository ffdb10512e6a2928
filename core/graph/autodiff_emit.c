/* What gradient rules are written with: access to the forward operator, and emitting operators. */
#include <stdio.h>
#include <string.h>

#include "graph/autodiff_priv.h"

static const struct mg_op_info *forward_op(const struct mg_grad *d)
{
    return &d->g->ops[d->op];
}

mg_value mg_grad_in(const struct mg_grad *d, uint32_t i)
{
    return forward_op(d)->in[i];
}

mg_value mg_grad_out(const struct mg_grad *d, uint32_t i)
{
    return forward_op(d)->out[i];
}

mg_value mg_grad_dy(const struct mg_grad *d, uint32_t i)
{
    return d->gradient[forward_op(d)->out[i]];
}

uint32_t mg_grad_in_count(const struct mg_grad *d)
{
    return forward_op(d)->in_count;
}

bool mg_grad_wants(const struct mg_grad *d, uint32_t i)
{
    return i < forward_op(d)->in_count && d->wanted[forward_op(d)->in[i]];
}

const struct mg_shape *mg_grad_shape(const struct mg_grad *d, mg_value value)
{
    static const struct mg_shape scalar;
    return value == MG_NONE ? &scalar : &d->g->values[value].shape;
}

void mg_grad_fail(struct mg_grad *d, const char *why)
{
    const struct mg_op_info *info = forward_op(d);
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/ops/%u", d->op);
    if (!d->code)
        d->code = mg_fail(d->err, MG_ERR_UNSUPPORTED, pointer, "operator '%.100s' (%s) %s", info->name,
                          mg_op_type_name(info->type), why);
}

const char *mg_grad_fresh_name(struct mg_grad *d, const char *name)
{
    const char *candidate = name;
    for (uint32_t n = 1; mg_graph_find_value(d->g, candidate) != MG_NONE; n++)
        candidate = mg_arena_printf(d->arena, "%s.%u", name, n);
    return candidate;
}

/* ---- attributes ---- */

struct mg_attr mg_grad_int(enum mg_attr_key key, int64_t value)
{
    return (struct mg_attr){.key = key, .type = MG_ATTR_TYPE_INT, .i = value};
}

struct mg_attr mg_grad_real(enum mg_attr_key key, double value)
{
    return (struct mg_attr){.key = key, .type = MG_ATTR_TYPE_FLOAT, .f = value};
}

struct mg_attr mg_grad_text(enum mg_attr_key key, const char *value)
{
    return (struct mg_attr){.key = key, .type = MG_ATTR_TYPE_STRING, .string = value};
}

struct mg_attr mg_grad_ints(struct mg_grad *d, enum mg_attr_key key, const int64_t *ints, uint32_t count)
{
    struct mg_attr attr = {.key = key, .type = MG_ATTR_TYPE_INTS, .count = count};
    attr.ints = mg_arena_copy(d->arena, ints, count * sizeof *ints);
    return attr;
}

const struct mg_attr *mg_grad_attr(const struct mg_grad *d, enum mg_attr_key key)
{
    return mg_op_attr(forward_op(d), key);
}

/* ---- emitting ---- */

static bool any_missing(const mg_value *in, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (in[i] == MG_NONE)
            return true;
    return false;
}

static void add_named(struct mg_grad *d, const char *base, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                      const struct mg_attr *attrs, uint32_t attr_count, mg_value *out, uint32_t out_count)
{
    const char *module = forward_op(d)->module;
    const char **names = MG_NEW_ARRAY(d->arena, const char *, out_count);
    if (d->code)
        return;
    for (uint32_t i = 0; i < out_count; i++) /* distinct: one of them at most is not numbered */
        names[i] = mg_grad_fresh_name(d, i ? mg_arena_printf(d->arena, "%s_%u", base, i) : base);
    mg_op op = (mg_op)d->g->op_count;
    d->code = mg_graph_add_op(d->g, type, names[0], in, in_count, attrs, attr_count, names, out_count, out, d->err);
    if (d->code)
        return;
    d->g->ops[op].forward_of = d->op;
    mg_graph_set_module(d->g, op, module);
}

void mg_grad_emit(struct mg_grad *d, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                  const struct mg_attr *attrs, uint32_t attr_count, mg_value *out, uint32_t out_count)
{
    for (uint32_t i = 0; i < out_count; i++)
        out[i] = MG_NONE;
    if (d->code || any_missing(in, in_count))
        return;
    const char *name = forward_op(d)->name;
    name = d->emitted ? mg_arena_printf(d->arena, "%s.grad.%u", name, d->emitted)
                      : mg_arena_printf(d->arena, "%s.grad", name);
    d->emitted++;
    add_named(d, name, type, in, in_count, attrs, attr_count, out, out_count);
}

mg_value mg_grad_unary_with(struct mg_grad *d, enum mg_op_type type, mg_value x, const struct mg_attr *attrs,
                            uint32_t attr_count)
{
    mg_value y;
    mg_grad_emit(d, type, &x, 1, attrs, attr_count, &y, 1);
    return y;
}

mg_value mg_grad_binary_with(struct mg_grad *d, enum mg_op_type type, mg_value a, mg_value b,
                             const struct mg_attr *attrs, uint32_t attr_count)
{
    mg_value in[2] = {a, b}, y;
    mg_grad_emit(d, type, in, 2, attrs, attr_count, &y, 1);
    return y;
}

mg_value mg_grad_unary(struct mg_grad *d, enum mg_op_type type, mg_value x)
{
    return mg_grad_unary_with(d, type, x, NULL, 0);
}

mg_value mg_grad_binary(struct mg_grad *d, enum mg_op_type type, mg_value a, mg_value b)
{
    return mg_grad_binary_with(d, type, a, b, NULL, 0);
}

void mg_grad_emit_like(struct mg_grad *d, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                       const struct mg_attr *more, uint32_t more_count, mg_value *out, uint32_t out_count)
{
    const struct mg_op_info *info = forward_op(d);
    struct mg_attr *attrs = MG_NEW_ARRAY(d->arena, struct mg_attr, info->attr_count + more_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < info->attr_count; i++) {
        enum mg_attr_type unused;
        if (mg_op_attr_type(type, info->attrs[i].key, &unused) && !mg_attr_find(more, more_count, info->attrs[i].key))
            attrs[count++] = info->attrs[i];
    }
    for (uint32_t i = 0; i < more_count; i++)
        attrs[count++] = more[i];
    mg_grad_emit(d, type, in, in_count, attrs, count, out, out_count);
}

mg_value mg_grad_affine(struct mg_grad *d, mg_value x, double alpha, double beta)
{
    struct mg_attr attrs[] = {mg_grad_real(MG_ATTR_ALPHA, alpha), mg_grad_real(MG_ATTR_BETA, beta)};
    return mg_grad_unary_with(d, MG_OP_AFFINE, x, attrs, 2);
}

mg_value mg_grad_matmul(struct mg_grad *d, mg_value a, bool trans_a, mg_value b, bool trans_b)
{
    struct mg_attr attrs[] = {mg_grad_int(MG_ATTR_TRANS_A, trans_a), mg_grad_int(MG_ATTR_TRANS_B, trans_b)};
    return mg_grad_binary_with(d, MG_OP_MATMUL, a, b, attrs, 2);
}

/* A list that copies a shape; a shape's own zeros are meant (allowzero). */
mg_value mg_grad_reshape(struct mg_grad *d, mg_value x, const struct mg_shape *shape)
{
    struct mg_shape target = *shape; /* may lie in the array of values, which grows */
    if (x == MG_NONE || mg_shape_equal(mg_grad_shape(d, x), &target))
        return x;
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_SHAPE, target.dim, target.rank),
                              mg_grad_int(MG_ATTR_ALLOWZERO, 1)};
    return mg_grad_unary_with(d, MG_OP_RESHAPE, x, attrs, 2);
}

mg_value mg_grad_expand(struct mg_grad *d, mg_value x, const struct mg_shape *shape)
{
    struct mg_shape target = *shape;
    if (x == MG_NONE || mg_shape_equal(mg_grad_shape(d, x), &target))
        return x;
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_SHAPE, target.dim, target.rank)};
    return mg_grad_unary_with(d, MG_OP_EXPAND, x, attrs, 1);
}

mg_value mg_grad_cast(struct mg_grad *d, mg_value x, enum mg_dtype dtype)
{
    struct mg_attr attrs[] = {mg_grad_text(MG_ATTR_TO, mg_dtype_name(dtype))};
    if (x == MG_NONE || d->g->values[x].dtype == dtype)
        return x;
    return mg_grad_unary_with(d, MG_OP_CAST, x, attrs, 1);
}

mg_value mg_grad_sum(struct mg_grad *d, mg_value x, const int64_t *axes, uint32_t count, bool keepdims)
{
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_AXES, axes, count), mg_grad_int(MG_ATTR_KEEPDIMS, keepdims)};
    return count ? mg_grad_unary_with(d, MG_OP_REDUCE_SUM, x, attrs, 2) : x;
}

mg_value mg_grad_zeros(struct mg_grad *d, mg_value like)
{
    const struct mg_shape *shape = mg_grad_shape(d, like);
    mg_value y;
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_SHAPE, shape->dim, shape->rank),
                              mg_grad_text(MG_ATTR_TO, mg_dtype_name(d->g->values[like].dtype))};
    mg_grad_emit(d, MG_OP_FILL, NULL, 0, attrs, 2, &y, 1);
    return y;
}

mg_value mg_grad_unbroadcast(struct mg_grad *d, mg_value x, const struct mg_shape *shape)
{
    struct mg_shape from = *mg_grad_shape(d, x), to = *shape;
    int64_t axes[MG_MAX_RANK];
    uint32_t count = 0;
    if (x == MG_NONE || mg_shape_equal(&from, &to))
        return x;
    for (uint32_t i = 0; i < from.rank; i++) {
        bool added = i + to.rank < from.rank;
        if (added || (to.dim[i + to.rank - from.rank] == 1 && from.dim[i] != 1))
            axes[count++] = i;
    }
    return mg_grad_reshape(d, mg_grad_sum(d, x, axes, count, false), &to);
}

void mg_grad_give(struct mg_grad *d, uint32_t i, mg_value contribution)
{
    if (!mg_grad_wants(d, i) || d->code)
        return;
    mg_value operand = mg_grad_in(d, i), sum;
    contribution = mg_grad_unbroadcast(d, contribution, mg_grad_shape(d, operand));
    if (d->gradient[operand] != MG_NONE && contribution != MG_NONE) {
        mg_value in[2] = {d->gradient[operand], contribution};
        const char *name = mg_arena_printf(d->arena, "%s.grad.sum", d->g->values[operand].name);
        add_named(d, name, MG_OP_ADD, in, 2, NULL, 0, &sum, 1);
        contribution = d->code ? MG_NONE : sum;
    }
    d->gradient[operand] = contribution;
}

void mg_grad_give_own(struct mg_grad *d, enum mg_op_type type, mg_value other)
{
    mg_value in[2] = {mg_grad_dy(d, 0), other}, out;
    mg_grad_emit_like(d, type, in, 2, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
}
