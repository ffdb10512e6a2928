/* Folding into contractions: alpha a b + c is one operator of every BLAS, conv(x, w) + c of the convolution
 * libraries, so that scaling a product, or an operand of it, and adding to it cost next to nothing. On attention the
 * scaled scores are the largest values there are; on residual networks each addition moves three activations. */
#include "graph/ops_priv.h"
#include "graph/rewrite_priv.h"

static bool is_product(const struct mg_op_info *op)
{
    return op->type == MG_OP_MATMUL || op->type == MG_OP_GEMM;
}

static bool is_scale(const struct mg_op_info *op)
{
    return op->type == MG_OP_AFFINE && op->in_place < 0 && mg_op_attr_float(op, MG_ATTR_BETA) == 0;
}

static mg_op *pair(struct mg_rewrite_source *s, mg_op a, mg_op b)
{
    mg_op *ops = MG_NEW_ARRAY(s->arena, mg_op, 2);
    ops[0] = a;
    ops[1] = b;
    return ops;
}

/* All bound operators go, and the result of the one that feeds the others. */
static void remove_bound(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    app->removed = app->ops;
    app->removed_count = app->op_count;
    app->dropped = MG_NEW_ARRAY(s->arena, mg_value, 1);
    app->dropped[0] = s->g->ops[app->ops[0]].out[0];
    app->dropped_count = 1;
}

/* Is `value` read by operators [1, op_count) of the application, once by each, and by nothing else? */
static bool read_by_bound(const struct mg_rewrite_source *s, const struct mg_rewrite_app *app, mg_value value)
{
    const struct mg_value_info *info = &s->g->values[value];
    if (!mg_rewrite_is_inner(s, value) || info->reader_count != app->op_count - 1)
        return false;
    for (uint32_t i = 1; i < app->op_count; i++) {
        const struct mg_op_info *op = &s->g->ops[app->ops[i]];
        uint32_t times = 0;
        for (uint32_t k = 0; k < op->in_count; k++)
            times += op->in[k] == value;
        if (times != 1)
            return false;
    }
    return true;
}

static const char **names(struct mg_rewrite_source *s, struct mg_rewrite_app *app, uint32_t count)
{
    app->added = MG_NEW_ARRAY(s->arena, const char *, count);
    app->added_count = count;
    return app->added;
}

/* Product `op` with other operands and alpha times `factor`; its result has the name of the old value. */
static enum mg_code emit_product(struct mg_rewrite_target *t, mg_op op, const char *name, const mg_value *in,
                                 uint32_t in_count, double factor, mg_value result, struct mg_error *err)
{
    const struct mg_op_info *info = &t->s->g->ops[op];
    struct mg_attr *attrs = MG_NEW_ARRAY(&t->s->scratch, struct mg_attr, info->attr_count);
    for (uint32_t i = 0; i < info->attr_count; i++) {
        attrs[i] = info->attrs[i];
        if (attrs[i].key == MG_ATTR_ALPHA)
            attrs[i].f *= factor;
    }
    mg_value ignored;
    return mg_rewrite_add(t, info->type, name, in, in_count, attrs, info->attr_count, t->s->g->values[result].name, op,
                          &ignored, err);
}

/* The operands of an old operator in the new graph, `from` replaced by `to`. */
static mg_value *operands(struct mg_rewrite_target *t, mg_op op, mg_value from, mg_value to, uint32_t room)
{
    const struct mg_op_info *info = &t->s->g->ops[op];
    mg_value *in = MG_NEW_ARRAY(&t->s->scratch, mg_value, room);
    for (uint32_t k = 0; k < info->in_count; k++)
        in[k] = t->map[info->in[k] == from ? to : info->in[k]];
    return in;
}

/* ---- [product, scale]: the product of which alone the scale is taken ---- */

bool fits_result_scale(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    const struct mg_graph *g = s->g;
    if (app->op_count != 2)
        return false;
    const struct mg_op_info *product = &g->ops[app->ops[0]], *scale = &g->ops[app->ops[1]];
    if (!is_product(product) || product->in_count != 2 || !is_scale(scale) || !read_by_bound(s, app, product->out[0]) ||
        scale->in[0] != product->out[0])
        return false;
    remove_bound(s, app);
    return true;
}

bool find_result_scale(struct mg_rewrite_source *s, mg_op at, struct mg_rewrite_app *app)
{
    if (!is_scale(&s->g->ops[at]))
        return false;
    mg_op product = s->g->values[s->g->ops[at].in[0]].producer;
    if (product == MG_NONE)
        return false;
    app->ops = pair(s, product, at);
    app->op_count = 2;
    return true;
}

void name_result_scale(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    names(s, app, 1)[0] = mg_rewrite_fresh(s, app->ops[0], "scaled");
}

enum mg_code emit_result_scale(struct mg_rewrite_target *t, const struct mg_rewrite_app *app, mg_op at,
                               struct mg_error *err)
{
    const struct mg_op_info *scale = &t->s->g->ops[app->ops[1]];
    if (at != app->ops[1])
        return MG_OK;
    MG_TRY(emit_product(t, app->ops[0], app->added[0], operands(t, app->ops[0], MG_NONE, MG_NONE, 2), 2,
                        mg_op_attr_float(scale, MG_ATTR_ALPHA), scale->out[0], err));
    t->new_index[at] = t->new_index[app->ops[0]];
    return MG_OK;
}

/* ---- [scale, products...]: products that alone read what is scaled ---- */

bool fits_operand_scale(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    const struct mg_graph *g = s->g;
    if (app->op_count < 2 || !is_scale(&g->ops[app->ops[0]]))
        return false;
    mg_value scaled = g->ops[app->ops[0]].out[0];
    if (!read_by_bound(s, app, scaled))
        return false;
    for (uint32_t i = 1; i < app->op_count; i++) {
        const struct mg_op_info *op = &g->ops[app->ops[i]];
        if (!is_product(op) || (op->in_count > 2 && op->in[2] == scaled))
            return false;
    }
    remove_bound(s, app);
    return true;
}

bool find_operand_scale(struct mg_rewrite_source *s, mg_op at, struct mg_rewrite_app *app)
{
    if (!is_scale(&s->g->ops[at]))
        return false;
    const struct mg_value_info *scaled = &s->g->values[s->g->ops[at].out[0]];
    app->op_count = 1 + scaled->reader_count;
    app->ops = MG_NEW_ARRAY(s->arena, mg_op, app->op_count);
    app->ops[0] = at;
    for (uint32_t i = 0; i < scaled->reader_count; i++)
        app->ops[i + 1] = scaled->readers[i];
    return true;
}

void name_operand_scale(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    const char **name = names(s, app, app->op_count - 1);
    for (uint32_t i = 1; i < app->op_count; i++)
        name[i - 1] = mg_rewrite_fresh(s, app->ops[i], "scaled");
}

enum mg_code emit_operand_scale(struct mg_rewrite_target *t, const struct mg_rewrite_app *app, mg_op at,
                                struct mg_error *err)
{
    const struct mg_op_info *scale = &t->s->g->ops[app->ops[0]], *product = &t->s->g->ops[at];
    uint32_t i = 1;
    if (at == app->ops[0])
        return MG_OK;
    while (app->ops[i] != at)
        i++;
    MG_TRY(emit_product(t, at, app->added[i - 1], operands(t, at, scale->out[0], scale->in[0], product->in_count),
                        product->in_count, mg_op_attr_float(scale, MG_ATTR_ALPHA), product->out[0], err));
    t->new_index[app->ops[0]] = t->new_index[at];
    return MG_OK;
}

/* ---- [product, add]: what is added to the product alone ---- */

static bool broadcasts(const struct mg_shape *from, const struct mg_shape *to)
{
    bool fits = from->rank <= to->rank;
    for (uint32_t d = 0; fits && d < from->rank; d++)
        fits = from->dim[d] == 1 || from->dim[d] == to->dim[d + to->rank - from->rank];
    return fits;
}

static mg_value addend_of(const struct mg_op_info *add, mg_value product)
{
    return add->in[0] == product ? add->in[1] : add->in[0];
}

/* Does the operator take an addend of this shape, and has none yet? */
static bool takes_addend(const struct mg_graph *g, const struct mg_op_info *op, const struct mg_shape *c)
{
    const struct mg_shape *result = &g->values[op->out[0]].shape;
    switch (op->type) {
    case MG_OP_GEMM:
        return op->in_count == 2 && mg_op_attr_float(op, MG_ATTR_BETA) == 1 && broadcasts(c, result);
    case MG_OP_MATMUL:
        return op->in_count == 2 && broadcasts(c, result);
    case MG_OP_CONV:
        return (op->in_count == 2 || (op->in_count == 3 && g->values[op->in[2]].shape.rank == 1)) &&
               mg_shape_equal(c, result);
    case MG_OP_CONV_GRAD_INPUT:
        return op->in_count == 2 && mg_shape_equal(c, result);
    default:
        return false;
    }
}

bool fits_addend(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    const struct mg_graph *g = s->g;
    if (app->op_count != 2)
        return false;
    const struct mg_op_info *product = &g->ops[app->ops[0]], *add = &g->ops[app->ops[1]];
    if (add->type != MG_OP_ADD || add->in_place >= 0 || !read_by_bound(s, app, product->out[0]))
        return false;
    const struct mg_value_info *c = &g->values[addend_of(add, product->out[0])], *sum = &g->values[add->out[0]];
    if (c->dtype != sum->dtype || g->values[product->out[0]].dtype != sum->dtype ||
        !mg_shape_equal(&g->values[product->out[0]].shape, &sum->shape) || !takes_addend(g, product, &c->shape))
        return false;
    remove_bound(s, app);
    return true;
}

/* Of two products the later one takes the sum of both: it stays where it is. */
bool find_addend(struct mg_rewrite_source *s, mg_op at, struct mg_rewrite_app *app)
{
    const struct mg_op_info *add = &s->g->ops[at];
    if (add->type != MG_OP_ADD)
        return false;
    mg_op a = s->g->values[add->in[0]].producer, b = s->g->values[add->in[1]].producer;
    mg_op candidates[2] = {a == MG_NONE || (b != MG_NONE && b > a) ? b : a, MG_NONE};
    candidates[1] = candidates[0] == a ? b : a;
    app->ops = pair(s, MG_NONE, at);
    app->op_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        app->ops[0] = candidates[i];
        if (candidates[i] != MG_NONE && !s->taken[candidates[i]] && fits_addend(s, app))
            return true;
    }
    return false;
}

void name_addend(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    names(s, app, 1)[0] = mg_rewrite_fresh(s, app->ops[0], "added");
}

enum mg_code emit_addend(struct mg_rewrite_target *t, const struct mg_rewrite_app *app, mg_op at, struct mg_error *err)
{
    const struct mg_op_info *product = &t->s->g->ops[app->ops[0]], *add = &t->s->g->ops[app->ops[1]];
    if (at != app->ops[1])
        return MG_OK;
    mg_value *in = operands(t, app->ops[0], MG_NONE, MG_NONE, product->in_count + 1);
    in[product->in_count] = t->map[addend_of(add, product->out[0])];
    MG_TRY(emit_product(t, app->ops[0], app->added[0], in, product->in_count + 1, 1, add->out[0], err));
    t->new_index[at] = t->new_index[app->ops[0]];
    return MG_OK;
}
