/* Aggregation: operators that share their first operand and differ in the second alone become one wide operator on
 * the joined second operands, and slices of its result, which keep the old names. The wide operator stands where the
 * first of them stood. `linear`: each is followed by the addition of a vector, which is aggregated as well. */
#include <string.h>

#include "graph/ops_priv.h"
#include "graph/rewrite_priv.h"

/* The dimension along which second operands are joined, and the one along which the result is cut. */
struct axes {
    uint32_t operand, result;
};

static struct axes axes_of(const struct mg_graph *g, mg_op op)
{
    const struct mg_op_info *info = &g->ops[op];
    if (info->type == MG_OP_CONV)
        return (struct axes){0, 1};
    uint32_t rank = g->values[info->in[1]].shape.rank;
    bool transposed = mg_op_attr_int(info, MG_ATTR_TRANS_B) != 0;
    return (struct axes){rank - (transposed ? 2 : 1), g->values[info->out[0]].shape.rank - 1};
}

/* ---- conditions ---- */

static bool same_call(const struct mg_op_info *a, const struct mg_op_info *b)
{
    if (a->type != b->type || a->in_count != b->in_count || a->in[0] != b->in[0] || a->attr_count != b->attr_count)
        return false;
    for (uint32_t i = 0; i < a->attr_count; i++)
        if (!mg_attr_equal(&a->attrs[i], &b->attrs[i]))
            return false;
    return true;
}

/* Equal dtype and, but for one dimension, equal shapes. */
static bool alike(const struct mg_graph *g, mg_value a, mg_value b, uint32_t axis)
{
    const struct mg_value_info *x = &g->values[a], *y = &g->values[b];
    if (x->dtype != y->dtype || x->shape.rank != y->shape.rank || axis >= x->shape.rank)
        return false;
    for (uint32_t d = 0; d < x->shape.rank; d++)
        if (d != axis && x->shape.dim[d] != y->shape.dim[d])
            return false;
    return true;
}

static bool is_matrix_product(const struct mg_graph *g, const struct mg_op_info *op)
{
    return op->type == MG_OP_MATMUL && op->in_count == 2 && g->values[op->in[0]].shape.rank >= 2 &&
           g->values[op->in[1]].shape.rank >= 2;
}

static bool is_plain_conv(const struct mg_graph *g, const struct mg_op_info *op)
{
    bool biased = op->in_count == 3 && g->values[op->in[2]].shape.rank == 1;
    return op->type == MG_OP_CONV && (op->in_count == 2 || biased) && mg_op_attr_int(op, MG_ATTR_GROUP) == 1;
}

static bool joins(const struct mg_rewrite_source *s, mg_op first, mg_op other)
{
    const struct mg_graph *g = s->g;
    const struct mg_op_info *a = &g->ops[first], *b = &g->ops[other];
    struct axes axes = axes_of(g, first);
    return same_call(a, b) && alike(g, a->in[1], b->in[1], axes.operand) &&
           alike(g, a->out[0], b->out[0], axes.result) && (a->in_count < 3 || alike(g, a->in[2], b->in[2], 0)) &&
           mg_rewrite_is_inner(s, a->out[0]) && mg_rewrite_is_inner(s, b->out[0]);
}

/* The addition of a vector that alone reads the product, or MG_NONE. */
static mg_op bias_add(const struct mg_graph *g, mg_op op)
{
    mg_value product = g->ops[op].out[0];
    const struct mg_value_info *info = &g->values[product];
    if (info->reader_count != 1 || info->is_output)
        return MG_NONE;
    const struct mg_op_info *add = &g->ops[info->readers[0]];
    if (add->type != MG_OP_ADD || add->in[0] != product || add->in[1] == product)
        return MG_NONE;
    const struct mg_value_info *bias = &g->values[add->in[1]];
    bool vector = bias->shape.rank == 1 && bias->shape.dim[0] == info->shape.dim[info->shape.rank - 1] &&
                  bias->dtype == info->dtype;
    return vector ? info->readers[0] : MG_NONE;
}

static bool ends_in_bias(const struct mg_rewrite_source *s, mg_op op)
{
    mg_op add = bias_add(s->g, op);
    return add != MG_NONE && s->g->ops[add].in_place < 0 && mg_rewrite_is_inner(s, s->g->ops[add].out[0]);
}

static bool matmul_pair(const struct mg_rewrite_source *s, mg_op first, mg_op other)
{
    return is_matrix_product(s->g, &s->g->ops[first]) && is_matrix_product(s->g, &s->g->ops[other]) &&
           joins(s, first, other);
}

static bool linear_pair(const struct mg_rewrite_source *s, mg_op first, mg_op other)
{
    return matmul_pair(s, first, other) && ends_in_bias(s, first) && ends_in_bias(s, other);
}

static bool conv_pair(const struct mg_rewrite_source *s, mg_op first, mg_op other)
{
    return is_plain_conv(s->g, &s->g->ops[first]) && is_plain_conv(s->g, &s->g->ops[other]) && joins(s, first, other);
}

typedef bool pair_fits(const struct mg_rewrite_source *s, mg_op first, mg_op other);

static bool fits(const struct mg_rewrite_source *s, struct mg_rewrite_app *app, pair_fits *pair)
{
    for (uint32_t i = 0; i < app->op_count; i++)
        if (!pair(s, app->ops[0], app->ops[i]))
            return false;
    app->removed = app->ops;
    app->removed_count = app->op_count;
    return app->op_count >= 2;
}

bool fits_matmul(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    return fits(s, app, matmul_pair);
}

bool fits_conv(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    return fits(s, app, conv_pair);
}

/* The additions go too, and the products that they alone read. */
bool fits_linear(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    if (!fits(s, app, linear_pair))
        return false;
    uint32_t n = app->op_count;
    app->removed = MG_NEW_ARRAY(s->arena, mg_op, 2 * n);
    app->dropped = MG_NEW_ARRAY(s->arena, mg_value, n);
    app->removed_count = 2 * n;
    app->dropped_count = n;
    for (uint32_t i = 0; i < n; i++) {
        app->removed[i] = app->ops[i];
        app->removed[n + i] = bias_add(s->g, app->ops[i]);
        app->dropped[i] = s->g->ops[app->ops[i]].out[0];
    }
    return true;
}

/* ---- matches ---- */

/* Second operands are given: joining what another operator makes would hold both. */
static bool is_given(const struct mg_graph *g, mg_op op, bool biased)
{
    const struct mg_op_info *info = &g->ops[op];
    for (uint32_t i = 1; i < info->in_count; i++)
        if (g->values[info->in[i]].kind == MG_KIND_COMPUTED)
            return false;
    return !biased || g->values[g->ops[bias_add(g, op)].in[1]].kind != MG_KIND_COMPUTED;
}

static bool find(const struct mg_rewrite_source *s, mg_op first, pair_fits *pair, bool biased,
                 struct mg_rewrite_app *app)
{
    const struct mg_graph *g = s->g;
    if (!pair(s, first, first) || !is_given(g, first, biased))
        return false;
    const struct mg_value_info *shared = &g->values[g->ops[first].in[0]];
    app->ops = MG_NEW_ARRAY(s->arena, mg_op, shared->reader_count);
    for (uint32_t i = 0; i < shared->reader_count; i++) {
        mg_op other = shared->readers[i];
        if (other >= first && !s->taken[other] && pair(s, first, other) && is_given(g, other, biased))
            app->ops[app->op_count++] = other;
    }
    return app->op_count >= 2;
}

bool find_matmul(struct mg_rewrite_source *s, mg_op at, struct mg_rewrite_app *app)
{
    return find(s, at, matmul_pair, false, app);
}

bool find_linear(struct mg_rewrite_source *s, mg_op at, struct mg_rewrite_app *app)
{
    return find(s, at, linear_pair, true, app);
}

bool find_conv(struct mg_rewrite_source *s, mg_op at, struct mg_rewrite_app *app)
{
    return find(s, at, conv_pair, false, app);
}

/* ---- what is added: join of second operands, join of biases, wide operator, its sum, slices ---- */

static bool is_linear(const struct mg_rewrite_app *app)
{
    return app->removed_count > app->op_count;
}

static bool has_biases(const struct mg_graph *g, const struct mg_rewrite_app *app)
{
    return is_linear(app) || g->ops[app->ops[0]].in_count > 2;
}

void name_aggregate(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    mg_op first = app->ops[0];
    app->added = MG_NEW_ARRAY(s->arena, const char *, app->op_count + 4);
    app->added[app->added_count++] = mg_rewrite_fresh(s, first, "weights");
    if (has_biases(s->g, app))
        app->added[app->added_count++] = mg_rewrite_fresh(s, first, "biases");
    app->added[app->added_count++] = mg_rewrite_fresh(s, first, "wide");
    if (is_linear(app))
        app->added[app->added_count++] = mg_rewrite_fresh(s, first, "sum");
    for (uint32_t i = 0; i < app->op_count; i++)
        app->added[app->added_count++] = mg_rewrite_fresh(s, app->ops[i], "part");
}

/* Joins operand `slot` of operators [from, from + op_count) of those removed. */
static enum mg_code join(struct mg_rewrite_target *t, const struct mg_rewrite_app *app, const char *name, uint32_t from,
                         uint32_t slot, uint32_t axis, mg_value *out, struct mg_error *err)
{
    mg_value *in = MG_NEW_ARRAY(&t->s->scratch, mg_value, app->op_count);
    for (uint32_t i = 0; i < app->op_count; i++)
        in[i] = t->map[t->s->g->ops[app->removed[from + i]].in[slot]];
    struct mg_attr attr = {.key = MG_ATTR_AXIS, .type = MG_ATTR_TYPE_INT, .i = axis};
    return mg_rewrite_add(t, MG_OP_CONCAT, name, in, app->op_count, &attr, 1, name, app->ops[0], out, err);
}

static enum mg_code cut(struct mg_rewrite_target *t, const struct mg_rewrite_app *app, mg_value wide, uint32_t axis,
                        struct mg_error *err)
{
    const struct mg_graph *g = t->s->g;
    const char **part = &app->added[app->added_count - app->op_count];
    int64_t at = 0, dim = axis, end;
    for (uint32_t i = 0; i < app->op_count; i++) {
        mg_op last = app->removed[app->removed_count - app->op_count + i];
        mg_value result = g->ops[last].out[0], ignored;
        mg_op index = t->new_index[app->ops[0]];
        end = at + g->values[result].shape.dim[axis];
        struct mg_attr attrs[] = {{.key = MG_ATTR_STARTS, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = &at},
                                  {.key = MG_ATTR_ENDS, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = &end},
                                  {.key = MG_ATTR_AXES, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = &dim}};
        MG_TRY(mg_rewrite_add(t, MG_OP_SLICE, part[i], &wide, 1, attrs, 3, g->values[result].name, app->ops[i],
                              &ignored, err));
        t->new_index[app->ops[i]] = index; /* a gradient is of the wide operator */
        at = end;
    }
    return MG_OK;
}

enum mg_code emit_aggregate(struct mg_rewrite_target *t, const struct mg_rewrite_app *app, mg_op at,
                            struct mg_error *err)
{
    const struct mg_op_info *first = &t->s->g->ops[app->ops[0]];
    struct axes axes = axes_of(t->s->g, app->ops[0]);
    const char **name = app->added;
    mg_value in[3] = {t->map[first->in[0]]}, wide;
    if (at != app->ops[0])
        return MG_OK;
    MG_TRY(join(t, app, *name++, 0, 1, axes.operand, &in[1], err));
    if (is_linear(app))
        MG_TRY(join(t, app, *name++, app->op_count, 1, 0, &in[2], err));
    else if (first->in_count > 2)
        MG_TRY(join(t, app, *name++, 0, 2, 0, &in[2], err));
    MG_TRY(mg_rewrite_add(t, first->type, *name, in, first->in_count, first->attrs, first->attr_count, *name,
                          app->ops[0], &wide, err));
    mg_op index = t->new_index[app->ops[0]];
    if (is_linear(app)) {
        mg_value terms[2] = {wide, in[2]};
        name++;
        MG_TRY(mg_rewrite_add(t, MG_OP_ADD, *name, terms, 2, NULL, 0, *name, app->ops[0], &wide, err));
    }
    for (uint32_t i = 0; i < app->removed_count; i++)
        t->new_index[app->removed[i]] = index;
    return cut(t, app, wide, axes.result, err);
}
