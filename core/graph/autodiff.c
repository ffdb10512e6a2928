/* Reverse-mode differentiation of a graph: the training step.
 *
 * The forward graph is copied, the loss appended, and the operators are walked backwards. A value's
 * gradient is the sum of the contributions of its readers; all readers stand after its producer, so it
 * is complete when the walk reaches the producer. Gradients are made only for values that depend on
 * something trainable. A weight's update follows as soon as the walk has passed the weight's first
 * reader: then its gradient is complete and nothing that is still to come reads the old version.
 * Time and memory are linear in the graph. */
#include <string.h>

#include "graph/autodiff_priv.h"
#include "graph/normalise_priv.h"

static mg_grad_rule *const rules[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, ...) [MG_OP_##id] = grad,
#include "graph/ops.def"
#undef MG_OP
};

struct differentiation {
    const struct mg_graph *forward;
    const struct mg_training *training;
    struct mg_graph *g;
    mg_value *map; /* forward value -> value of g */
    bool *wanted, *trainable;
    struct mg_grad grad;
    struct mg_arena *arena;
    struct mg_graph **out;
    struct mg_error *err;
};

/* ---- copying the forward graph ---- */

static enum mg_code copy_value(struct differentiation *t, mg_value v)
{
    const struct mg_value_info *from = &t->forward->values[v];
    bool opaque = from->kind == MG_KIND_COMPUTED && from->producer != MG_NONE &&
                  t->forward->ops[from->producer].type == MG_OP_OPAQUE;
    if (from->kind == MG_KIND_COMPUTED && !opaque)
        return MG_OK;
    t->map[v] = mg_graph_add_value(t->g, from->name, from->kind, from->dtype, &from->shape);
    if (t->map[v] == MG_NONE)
        return mg_fail(t->err, MG_ERR_INVALID, "/values", "value '%.100s' is declared twice or too large", from->name);
    t->g->values[t->map[v]].home = from->home;
    return MG_OK;
}

static enum mg_code copy_op(struct differentiation *t, mg_op op)
{
    const struct mg_op_info *from = &t->forward->ops[op];
    mg_value *in = MG_NEW_ARRAY(t->arena, mg_value, from->in_count);
    mg_value *out = MG_NEW_ARRAY(t->arena, mg_value, from->out_count);
    const char **names = MG_NEW_ARRAY(t->arena, const char *, from->out_count);
    for (uint32_t i = 0; i < from->in_count; i++) {
        in[i] = t->map[from->in[i]];
        if (in[i] == MG_NONE)
            return mg_fail(t->err, MG_ERR_INVALID, "/ops", "operator '%.100s' reads '%.100s', which nothing makes",
                           from->name, t->forward->values[from->in[i]].name);
    }
    for (uint32_t i = 0; i < from->out_count; i++)
        names[i] = t->forward->values[from->out[i]].name;
    mg_op copy = (mg_op)t->g->op_count;
    enum mg_code code = mg_graph_add_op(t->g, from->type, from->name, in, from->in_count, from->attrs, from->attr_count,
                                        names, from->out_count, out, t->err);
    if (code)
        return code;
    for (uint32_t i = 0; i < from->out_count; i++)
        t->map[from->out[i]] = out[i];
    mg_graph_set_module(t->g, copy, from->module);
    if (from->in_place_given)
        mg_graph_set_in_place(t->g, copy, from->in_place);
    return MG_OK;
}

/* Operators may be listed in any order: always the earliest listed one that is ready. */
static enum mg_code copy_ops(struct differentiation *t)
{
    size_t count = t->forward->op_count;
    mg_op *order = MG_NEW_ARRAY(t->arena, mg_op, count);
    int32_t *in_place = MG_NEW_ARRAY(t->arena, int32_t, count);
    memset(in_place, 0xff, count * sizeof *in_place); /* normalisation sees to those */
    enum mg_code code = mg_order_ops(t->forward, in_place, t->arena, order, t->err);
    for (size_t i = 0; i < count && !code; i++)
        code = copy_op(t, order[i]);
    return code;
}

static enum mg_code copy_forward(struct differentiation *t)
{
    const struct mg_graph *forward = t->forward;
    enum mg_code code = MG_OK;
    t->g = mg_graph_new(t->arena, forward->name);
    t->g->math = forward->math;
    t->map = MG_NEW_ARRAY(t->arena, mg_value, forward->value_count);
    memset(t->map, 0xff, forward->value_count * sizeof *t->map);
    for (mg_value v = 0; v < forward->value_count && !code; v++)
        code = copy_value(t, v);
    if (!code)
        code = copy_ops(t);
    for (mg_value v = 0; v < forward->value_count && !code; v++)
        if (forward->values[v].updated_by != MG_NONE)
            mg_graph_add_update(t->g, t->map[v], t->map[forward->values[v].updated_by]);
    return code;
}

/* ---- the loss ---- */

static mg_value add_input(struct differentiation *t, const char *name, enum mg_dtype dtype,
                          const struct mg_shape *shape)
{
    const char *free_name = mg_grad_fresh_name(&t->grad, name);
    return mg_graph_add_value(t->g, free_name, MG_KIND_INPUT, dtype, shape);
}

static mg_value emit_loss(struct differentiation *t, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                          const struct mg_attr *attrs, uint32_t attr_count)
{
    mg_value loss = MG_NONE;
    const char *name = mg_grad_fresh_name(&t->grad, "loss");
    if (!t->grad.code)
        t->grad.code = mg_graph_add_op(t->g, type, name, in, in_count, attrs, attr_count, &name, 1, &loss, t->grad.err);
    return loss;
}

static mg_value mean_of(struct differentiation *t, mg_value x, enum mg_op_type type)
{
    struct mg_attr attrs[] = {mg_grad_int(MG_ATTR_KEEPDIMS, 0)};
    return x == MG_NONE ? x : emit_loss(t, type, &x, 1, attrs, 1);
}

static mg_value squared_error(struct differentiation *t, mg_value y)
{
    struct mg_shape shape = t->g->values[y].shape;
    mg_value in[2] = {y, add_input(t, "target", t->g->values[y].dtype, &shape)};
    return emit_loss(t, MG_OP_SQUARED_ERROR, in, 2, NULL, 0);
}

static mg_value cross_entropy(struct differentiation *t, mg_value y)
{
    struct mg_shape shape = {.rank = t->g->values[y].shape.rank}, logits = t->g->values[y].shape;
    shape.rank = logits.rank ? logits.rank - 1 : 0;
    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dim[d] = logits.dim[d ? d + 1 : 0];
    mg_value in[2] = {y, add_input(t, "target", MG_DTYPE_I64, &shape)};
    return emit_loss(t, MG_OP_CROSS_ENTROPY, in, 2, NULL, 0);
}

static mg_value append_loss(struct differentiation *t, mg_value y)
{
    switch (t->training->loss) {
    case MG_LOSS_SQUARED:
        return squared_error(t, y);
    case MG_LOSS_MSE:
        return mean_of(t, squared_error(t, y), MG_OP_REDUCE_MEAN);
    case MG_LOSS_CROSS_ENTROPY:
        return cross_entropy(t, y);
    case MG_LOSS_SUM:
        return mean_of(t, y, MG_OP_REDUCE_SUM);
    case MG_LOSS_OUTPUT:
        break;
    }
    return y;
}

/* ---- what needs a gradient ---- */

static bool is_real(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_I64;
}

static enum mg_code name_trainable(struct differentiation *t, const char *name)
{
    mg_value v = mg_graph_find_value(t->g, name);
    if (v == MG_NONE || t->g->values[v].kind != MG_KIND_WEIGHT || !is_real(t->g->values[v].dtype))
        return mg_fail(t->err, MG_ERR_INVALID, "/training/trainable", "'%.100s' is no weight of the graph", name);
    t->trainable[v] = true;
    return MG_OK;
}

static enum mg_code mark_trainable(struct differentiation *t)
{
    t->trainable = MG_NEW_ARRAY(t->arena, bool, t->g->value_count);
    for (uint32_t i = 0; t->training->trainable && i < t->training->trainable_count; i++) {
        enum mg_code code = name_trainable(t, t->training->trainable[i]);
        if (code)
            return code;
    }
    for (size_t v = 0; v < t->g->value_count && !t->training->trainable; v++) {
        const struct mg_value_info *info = &t->g->values[v];
        t->trainable[v] = info->kind == MG_KIND_WEIGHT && is_real(info->dtype) && info->updated_by == MG_NONE;
    }
    return MG_OK;
}

/* Piecewise constant: the gradient is zero wherever it exists. */
static bool is_flat(enum mg_op_type type)
{
    switch (type) {
    case MG_OP_SIGN:
    case MG_OP_FLOOR:
    case MG_OP_CEIL:
    case MG_OP_ROUND:
    case MG_OP_TRUNC:
    case MG_OP_FLOOR_DIV:
    case MG_OP_HARD_MAX:
    case MG_OP_BERNOULLI:
        return true;
    default:
        return false;
    }
}

static void mark_wanted(struct differentiation *t)
{
    t->wanted = mg_arena_copy(t->arena, t->trainable, t->g->value_count * sizeof *t->wanted);
    for (mg_op op = 0; op < t->g->op_count; op++) {
        const struct mg_op_info *info = &t->g->ops[op];
        bool any = false;
        for (uint32_t i = 0; i < info->in_count; i++)
            any = any || t->wanted[info->in[i]];
        for (uint32_t i = 0; i < info->out_count; i++)
            t->wanted[info->out[i]] = any && !is_flat(info->type) && is_real(t->g->values[info->out[i]].dtype);
    }
}

/* ---- the walk ---- */

static bool has_gradient(const struct differentiation *t, mg_op op)
{
    const struct mg_op_info *info = &t->g->ops[op];
    for (uint32_t i = 0; i < info->out_count; i++)
        if (t->grad.gradient[info->out[i]] != MG_NONE)
            return true;
    return false;
}

static void differentiate_op(struct differentiation *t, mg_op op)
{
    const struct mg_op_info *info = &t->g->ops[op];
    bool any = false;
    for (uint32_t i = 0; i < info->in_count; i++)
        any = any || t->wanted[info->in[i]];
    if (!any || !has_gradient(t, op))
        return;
    t->grad.op = op;
    t->grad.emitted = 0;
    if (rules[info->type])
        rules[info->type](&t->grad);
    else
        mg_grad_fail(&t->grad, "is not differentiable");
}

static mg_value update_op(struct differentiation *t, enum mg_op_type type, mg_value target, const char *suffix,
                          const mg_value *in, uint32_t in_count, const struct mg_attr *attrs, uint32_t attr_count)
{
    const char *name = mg_arena_printf(t->arena, "%s.%s", t->g->values[target].name, suffix);
    const char *op_name = mg_arena_printf(t->arena, "%s.%s", t->g->values[target].name, mg_op_type_name(type));
    mg_value result = MG_NONE;
    name = mg_grad_fresh_name(&t->grad, name);
    if (!t->grad.code)
        t->grad.code =
            mg_graph_add_op(t->g, type, op_name, in, in_count, attrs, attr_count, &name, 1, &result, t->grad.err);
    if (!t->grad.code)
        mg_graph_add_update(t->g, target, result);
    return result;
}

/* Optimizer state like the weight; its new version from the old one and the gradient. */
static mg_value update_state(struct differentiation *t, mg_value weight, const char *name, enum mg_op_type type,
                             mg_value gradient, const struct mg_attr *attrs, uint32_t attr_count)
{
    struct mg_value_info info = t->g->values[weight];
    const char *full = mg_grad_fresh_name(&t->grad, mg_arena_printf(t->arena, "%s.%s", info.name, name));
    mg_value state = mg_graph_add_value(t->g, full, MG_KIND_STATE, info.dtype, &info.shape);
    mg_value in[2] = {state, gradient};
    t->g->values[state].home = info.home;
    return update_op(t, type, state, "new", in, 2, attrs, attr_count);
}

static void update_weight(struct differentiation *t, mg_value weight)
{
    mg_value gradient = t->grad.gradient[weight], in[3] = {weight, gradient};
    struct mg_attr second[] = {mg_grad_real(MG_ATTR_BETA, 0.999), mg_grad_int(MG_ATTR_POWER, 2)};
    switch (t->training->optimizer) {
    case MG_OPTIMIZER_NONE:
        mg_graph_add_output(t->g, gradient);
        break;
    case MG_OPTIMIZER_SGD:
        update_op(t, MG_OP_SGD, weight, "new", in, 2, NULL, 0);
        break;
    case MG_OPTIMIZER_MOMENTUM:
        in[1] = update_state(t, weight, "momentum", MG_OP_MOMENTUM, gradient, NULL, 0);
        update_op(t, MG_OP_SGD, weight, "new", in, 2, NULL, 0);
        break;
    case MG_OPTIMIZER_ADAM:
    case MG_OPTIMIZER_ADAMW:
        in[1] = update_state(t, weight, "m", MG_OP_MOMENT, gradient, NULL, 0);
        in[2] = update_state(t, weight, "v", MG_OP_MOMENT, gradient, second, 2);
        update_op(t, t->training->optimizer == MG_OPTIMIZER_ADAM ? MG_OP_ADAM : MG_OP_ADAMW, weight, "new", in, 3, NULL,
                  0);
        break;
    }
}

/* Weights by their first reader: a list for each operator. */
struct first_readers {
    mg_value *head, *next; /* [operator], [value] */
};

static struct first_readers find_first_readers(const struct differentiation *t, size_t op_count, size_t value_count)
{
    struct first_readers lists = {MG_NEW_ARRAY(t->arena, mg_value, op_count),
                                  MG_NEW_ARRAY(t->arena, mg_value, value_count)};
    bool *seen = MG_NEW_ARRAY(t->arena, bool, value_count);
    memset(lists.head, 0xff, op_count * sizeof *lists.head);
    for (mg_op op = 0; op < op_count; op++)
        for (uint32_t i = t->g->ops[op].in_count; i-- > 0;) {
            mg_value v = t->g->ops[op].in[i];
            if (seen[v] || !t->trainable[v])
                continue;
            seen[v] = true;
            lists.next[v] = lists.head[op];
            lists.head[op] = v;
        }
    return lists;
}

static void walk_back(struct differentiation *t)
{
    size_t op_count = t->g->op_count;
    struct first_readers lists = find_first_readers(t, op_count, t->g->value_count);
    for (mg_op op = (mg_op)op_count; op-- > 0 && !t->grad.code;) {
        differentiate_op(t, op);
        for (mg_value w = lists.head[op]; w != MG_NONE && !t->grad.code; w = lists.next[w])
            if (t->grad.gradient[w] != MG_NONE)
                update_weight(t, w);
    }
}

static enum mg_code start_walk(struct differentiation *t, mg_value loss)
{
    struct mg_shape shape = t->g->values[loss].shape;
    if (!t->wanted[loss])
        return mg_fail(t->err, MG_ERR_INVALID, "/training", "the loss depends on no trainable weight");
    mg_value seed = add_input(t, "loss_grad", t->g->values[loss].dtype, &shape);
    t->grad.gradient = MG_NEW_ARRAY(t->arena, mg_value, t->g->value_count);
    memset(t->grad.gradient, 0xff, t->g->value_count * sizeof(mg_value));
    t->grad.gradient[loss] = seed;
    t->grad.wanted = t->wanted;
    return MG_OK;
}

static void add_outputs(struct differentiation *t, mg_value loss)
{
    mg_graph_add_output(t->g, loss);
    for (size_t i = 1; i < t->forward->output_count; i++)
        mg_graph_add_output(t->g, t->map[t->forward->outputs[i]]);
}

static enum mg_code differentiate(void *context, struct mg_error *err)
{
    struct differentiation *t = context;
    t->err = err;
    t->grad.err = err;
    enum mg_code code = copy_forward(t);
    if (code)
        return code;
    if (!t->forward->output_count)
        return mg_fail(err, MG_ERR_INVALID, "/outputs", "a graph without outputs has no loss");
    for (size_t i = 0; i < t->forward->output_count; i++)
        if (t->map[t->forward->outputs[i]] == MG_NONE)
            return mg_fail(err, MG_ERR_INVALID, "/outputs", "nothing makes the output '%.100s'",
                           t->forward->values[t->forward->outputs[i]].name);
    t->grad.g = t->g;
    mg_value loss = append_loss(t, t->map[t->forward->outputs[0]]);
    if (t->grad.code)
        return t->grad.code;
    add_outputs(t, loss);
    code = mark_trainable(t);
    if (code)
        return code;
    mark_wanted(t);
    t->g->forward_ops = (mg_op)t->g->op_count;
    code = start_walk(t, loss);
    if (!code)
        walk_back(t);
    *t->out = t->g;
    return code ? code : t->grad.code;
}

enum mg_code mg_graph_differentiate(const struct mg_graph *forward, const struct mg_training *training,
                                    struct mg_arena *arena, struct mg_graph **out, struct mg_error *err)
{
    struct differentiation t = {.forward = forward, .training = training, .arena = arena, .out = out};
    t.grad.arena = arena;
    return mg_arena_guard(arena, differentiate, &t, err);
}
