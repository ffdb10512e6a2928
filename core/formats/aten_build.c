/* A captured step into a graph: one walk over the calls. A call that the table knows is translated by its rule; an
 * in-place variant is the plain call whose result is then written to its first argument; anything else becomes opaque.
 * At the end new versions of weights become updates, and what nobody needs is left out. */
#include <stdio.h>
#include <string.h>

#include "formats/aten_priv.h"

/* ---- arguments ---- */

const struct aten_arg *aten_argument(const struct aten_node *node, size_t at, const char *key)
{
    if (at < node->args.count)
        return &node->args.item[at];
    for (size_t i = 0; key && i < node->kwargs.count; i++)
        if (strcmp(node->kwargs.item[i].key, key) == 0)
            return &node->kwargs.item[i];
    return NULL;
}

bool aten_is_tensor(const struct aten_arg *arg)
{
    return arg && arg->kind == ATEN_NODE;
}

static bool is_number(const struct aten_arg *arg)
{
    return arg && (arg->kind == ATEN_INT || arg->kind == ATEN_FLOAT || arg->kind == ATEN_BOOL);
}

mg_value aten_in(struct aten_builder *b, const struct aten_node *node, size_t at, const char *key)
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    return aten_is_tensor(arg) ? aten_read(b, arg->node) : MG_NONE;
}

int64_t aten_int(const struct aten_node *node, size_t at, const char *key, int64_t otherwise)
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    return arg && (arg->kind == ATEN_INT || arg->kind == ATEN_BOOL) ? arg->i : otherwise;
}

double aten_real(const struct aten_node *node, size_t at, const char *key, double otherwise)
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    return is_number(arg) ? arg->f : otherwise;
}

uint32_t aten_ints(const struct aten_node *node, size_t at, const char *key, uint32_t repeat, int64_t out[MG_MAX_RANK])
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    if (!arg)
        return 0;
    uint32_t count = 0;
    bool list = arg->kind == ATEN_LIST && arg->count != 1;
    const struct aten_arg *one = arg->kind == ATEN_LIST ? arg->item : arg;
    for (size_t i = 0; list && i < arg->count && i < MG_MAX_RANK; i++)
        out[count++] = arg->item[i].i;
    for (uint32_t i = 0; !list && i < repeat && i < MG_MAX_RANK; i++)
        out[count++] = one->i;
    return count;
}

/* ---- operators ---- */

static struct mg_attr *next_attr(struct aten_builder *b, enum mg_attr_key key, enum mg_attr_type type)
{
    struct mg_attr *attr = &b->attrs[b->attr_count++ % ATEN_MAX_ATTRS];
    *attr = (struct mg_attr){.key = key, .type = type};
    return attr;
}

void aten_set_int(struct aten_builder *b, enum mg_attr_key key, int64_t value)
{
    next_attr(b, key, MG_ATTR_TYPE_INT)->i = value;
}

void aten_set_real(struct aten_builder *b, enum mg_attr_key key, double value)
{
    next_attr(b, key, MG_ATTR_TYPE_FLOAT)->f = value;
}

void aten_set_ints(struct aten_builder *b, enum mg_attr_key key, const int64_t *values, uint32_t count)
{
    struct mg_attr *attr = next_attr(b, key, MG_ATTR_TYPE_INTS);
    attr->ints = mg_arena_copy(b->arena, values, count * sizeof *values);
    attr->count = count;
}

void aten_set_text(struct aten_builder *b, enum mg_attr_key key, const char *text)
{
    next_attr(b, key, MG_ATTR_TYPE_STRING)->string = text;
}

/* The name of the node for the first operator made for it, then with a number. */
static const char *next_name(struct aten_builder *b)
{
    const char *name = b->document->nodes[b->node].name;
    unsigned n = b->emitted++;
    return n ? mg_arena_printf(b->arena, "%s.%u", name, n) : name;
}

static mg_value *emit(struct aten_builder *b, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                      const char *const *names, uint32_t out_count, const char *name)
{
    mg_value *made = MG_NEW_ARRAY(b->arena, mg_value, out_count);
    uint32_t attr_count = b->attr_count;
    b->attr_count = 0;
    for (uint32_t i = 0; i < in_count; i++)
        if (in[i] == MG_NONE)
            b->declined = true;
    if (b->code || b->declined)
        return NULL;
    if (mg_graph_add_op(b->g, type, name, in, in_count, b->attrs, attr_count, names, out_count, made, NULL) != MG_OK) {
        b->declined = true; /* what was added stays without reader, and vanishes */
        return NULL;
    }
    const char *module = b->document->nodes[b->node].module;
    if (module)
        mg_graph_set_module(b->g, (mg_op)(b->g->op_count - 1), module);
    return made;
}

mg_value aten_emit(struct aten_builder *b, enum mg_op_type type, const mg_value *in, uint32_t in_count, mg_value *out,
                   uint32_t out_count)
{
    const char *name = next_name(b);
    const char **names = MG_NEW_ARRAY(b->arena, const char *, out_count);
    for (uint32_t i = 0; i < out_count; i++)
        names[i] = i ? mg_arena_printf(b->arena, "%s:%u", name, i) : name;
    mg_value *made = emit(b, type, in, in_count, names, out_count, name);
    for (uint32_t i = 0; out && i < out_count; i++)
        out[i] = made ? made[i] : MG_NONE;
    return made && out_count ? made[0] : MG_NONE;
}

mg_value aten_emit1(struct aten_builder *b, enum mg_op_type type, mg_value a)
{
    return aten_emit(b, type, &a, 1, NULL, 1);
}

mg_value aten_emit2(struct aten_builder *b, enum mg_op_type type, mg_value a, mg_value c)
{
    const mg_value in[2] = {a, c};
    return aten_emit(b, type, in, 2, NULL, 1);
}

void aten_opaque(struct aten_builder *b, const char *target, const char *purity, const mg_value *in, uint32_t in_count,
                 const struct mg_shape *shapes, const enum mg_dtype *dtypes, mg_value *out, uint32_t out_count)
{
    const char *name = next_name(b);
    const char **names = MG_NEW_ARRAY(b->arena, const char *, out_count);
    double bytes = 0;
    for (uint32_t i = 0; i < in_count; i++)
        bytes += in[i] == MG_NONE
                     ? 0
                     : (double)mg_shape_elements(aten_shape(b, in[i])) * mg_dtype_size(aten_dtype(b, in[i]));
    for (uint32_t i = 0; i < out_count; i++) {
        names[i] = i ? mg_arena_printf(b->arena, "%s:%u", name, i) : name;
        bytes += (double)mg_shape_elements(&shapes[i]) * mg_dtype_size(dtypes[i]);
        if (mg_graph_add_value(b->g, names[i], MG_KIND_COMPUTED, dtypes[i], &shapes[i]) == MG_NONE && !b->code)
            b->code = mg_fail(b->err, MG_ERR_INVALID, "", "the name '%.100s' is taken twice", names[i]);
    }
    b->attr_count = 0;
    aten_set_text(b, MG_ATTR_TARGET, target);
    aten_set_text(b, MG_ATTR_PURITY, purity);
    aten_set_real(b, MG_ATTR_BYTES, bytes);
    mg_value *made = emit(b, MG_OP_OPAQUE, in, in_count, names, out_count, name);
    for (uint32_t i = 0; i < out_count; i++)
        out[i] = made ? made[i] : MG_NONE;
}

mg_value aten_decline(struct aten_builder *b)
{
    b->declined = true;
    return MG_NONE;
}

void aten_give(struct aten_builder *b, const mg_value *results, uint32_t count)
{
    b->tensors[b->node].results = mg_arena_copy(b->arena, results, count * sizeof *results);
    b->tensors[b->node].result_count = count;
}

const struct mg_shape *aten_shape(const struct aten_builder *b, mg_value v)
{
    static const struct mg_shape scalar = {0};
    return v == MG_NONE ? &scalar : &b->g->values[v].shape;
}

enum mg_dtype aten_dtype(const struct aten_builder *b, mg_value v)
{
    return v == MG_NONE ? MG_DTYPE_F32 : b->g->values[v].dtype;
}

/* ---- operators that many rules need ---- */

mg_value aten_reshape(struct aten_builder *b, mg_value v, const struct mg_shape *shape)
{
    if (v == MG_NONE || mg_shape_equal(aten_shape(b, v), shape))
        return v;
    if (mg_shape_elements(shape) != mg_shape_elements(aten_shape(b, v)))
        return aten_decline(b);
    mg_op maker = b->g->values[v].producer; /* there and back is nothing */
    if (maker != MG_NONE && b->g->ops[maker].type == MG_OP_RESHAPE &&
        mg_shape_equal(aten_shape(b, b->g->ops[maker].in[0]), shape))
        return b->g->ops[maker].in[0];
    aten_set_ints(b, MG_ATTR_SHAPE, shape->dim, shape->rank);
    aten_set_int(b, MG_ATTR_ALLOWZERO, 1);
    return aten_emit1(b, MG_OP_RESHAPE, v);
}

mg_value aten_cast(struct aten_builder *b, mg_value v, enum mg_dtype dtype)
{
    if (v == MG_NONE || aten_dtype(b, v) == dtype)
        return v;
    aten_set_text(b, MG_ATTR_TO, mg_dtype_name(dtype));
    return aten_emit1(b, MG_OP_CAST, v);
}

mg_value aten_fill(struct aten_builder *b, const struct mg_shape *shape, enum mg_dtype dtype, double value)
{
    aten_set_ints(b, MG_ATTR_SHAPE, shape->dim, shape->rank);
    aten_set_text(b, MG_ATTR_TO, mg_dtype_name(dtype));
    aten_set_real(b, MG_ATTR_VALUE, value);
    return aten_emit(b, MG_OP_FILL, NULL, 0, NULL, 1);
}

mg_value aten_affine(struct aten_builder *b, mg_value v, double alpha, double beta)
{
    if (alpha == 1 && beta == 0)
        return v;
    aten_set_real(b, MG_ATTR_ALPHA, alpha);
    aten_set_real(b, MG_ATTR_BETA, beta);
    return aten_emit1(b, MG_OP_AFFINE, v);
}

mg_value aten_expand(struct aten_builder *b, mg_value v, const struct mg_shape *shape)
{
    if (v == MG_NONE || mg_shape_equal(aten_shape(b, v), shape))
        return v;
    aten_set_ints(b, MG_ATTR_SHAPE, shape->dim, shape->rank);
    return aten_emit1(b, MG_OP_EXPAND, v);
}

mg_value aten_slice(struct aten_builder *b, mg_value v, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    if (v == MG_NONE || (start == 0 && step == 1 && end == aten_shape(b, v)->dim[axis]))
        return v;
    aten_set_ints(b, MG_ATTR_STARTS, &start, 1);
    aten_set_ints(b, MG_ATTR_ENDS, &end, 1);
    aten_set_ints(b, MG_ATTR_AXES, &axis, 1);
    aten_set_ints(b, MG_ATTR_STEPS, &step, 1);
    return aten_emit1(b, MG_OP_SLICE, v);
}

static mg_value slice_grad(struct aten_builder *b, mg_value v, const struct mg_shape *whole, const int64_t at[4])
{
    aten_set_ints(b, MG_ATTR_SHAPE, whole->dim, whole->rank);
    aten_set_ints(b, MG_ATTR_STARTS, &at[1], 1);
    aten_set_ints(b, MG_ATTR_ENDS, &at[2], 1);
    aten_set_ints(b, MG_ATTR_AXES, &at[0], 1);
    aten_set_ints(b, MG_ATTR_STEPS, &at[3], 1);
    return aten_emit1(b, MG_OP_SLICE_GRAD, v);
}

mg_value aten_put(struct aten_builder *b, mg_value whole, mg_value part, int64_t axis, int64_t start, int64_t end,
                  int64_t step)
{
    const int64_t at[4] = {axis, start, end, step};
    const struct mg_shape shape = *aten_shape(b, whole);
    if (whole == MG_NONE || part == MG_NONE)
        return aten_decline(b);
    mg_value mask = slice_grad(b, aten_fill(b, aten_shape(b, part), MG_DTYPE_BOOL, 1), &shape, at);
    const mg_value in[3] = {mask, slice_grad(b, part, &shape, at), whole};
    return aten_emit(b, MG_OP_WHERE, in, 3, NULL, 1);
}

/* ---- calls that no rule knows ---- */

static void add_tensors(struct aten_builder *b, const struct aten_arg *arg, mg_value **in, size_t *count,
                        size_t *capacity)
{
    for (size_t i = 0; i < arg->count; i++)
        add_tensors(b, &arg->item[i], in, count, capacity);
    if (!aten_is_tensor(arg))
        return;
    mg_value v = aten_read(b, arg->node);
    if (v != MG_NONE)
        *MG_PUSH(b->arena, *in, *count, *capacity) = v;
    b->declined = false; /* a result that we do not have is left out */
}

static const char *purity_of(const char *op)
{
    static const char *const random[] = {"rand",        "bernoulli", "dropout",     "normal_", "uniform",
                                         "multinomial", "poisson",   "exponential", "cauchy",  "geometric"};
    if (strncmp(op, "aten.", 5) != 0)
        return "impure";
    for (size_t i = 0; i < sizeof random / sizeof *random; i++)
        if (strstr(op, random[i]))
            return "seeded";
    return "pure";
}

struct results {
    struct mg_shape *shape;
    enum mg_dtype *dtype;
    uint32_t count, own; /* own: results of the call; those behind them are new contents of written arguments */
};

/* Results without a `getitem` are not known, and not needed. */
static void list_results(struct aten_builder *b, struct results *r)
{
    enum { MOST = 64 };
    const struct aten_node *node = &b->document->nodes[b->node];
    r->shape = MG_NEW_ARRAY(b->arena, struct mg_shape, MOST + node->write_count);
    r->dtype = MG_NEW_ARRAY(b->arena, enum mg_dtype, MOST + node->write_count);
    if (node->has_out) {
        r->shape[0] = node->shape;
        r->dtype[0] = node->dtype;
        r->count = node->write_count == 0; /* that of an in-place call is its argument */
    }
    for (uint32_t n = b->first_item[b->node]; n != MG_NONE; n = b->next_item[n]) {
        const struct aten_node *item = &b->document->nodes[n];
        int64_t at = item->args.item[1].i;
        if (!item->has_out || at < 0 || at >= MOST)
            continue;
        r->shape[at] = item->shape;
        r->dtype[at] = item->dtype;
        r->count = at + 1 > r->count ? (uint32_t)at + 1 : r->count;
    }
    r->own = r->count;
    for (size_t i = 0; i < node->write_count; i++) {
        const struct aten_arg *arg = aten_argument(node, (size_t)node->writes[i], NULL);
        if (!aten_is_tensor(arg) || !b->document->nodes[arg->node].has_out)
            continue;
        r->shape[r->count] = b->document->nodes[arg->node].shape;
        r->dtype[r->count++] = b->document->nodes[arg->node].dtype;
    }
}

static void translate_opaque(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    struct results r = {0};
    mg_value *in = NULL;
    size_t count = 0, capacity = 0;
    add_tensors(b, &node->args, &in, &count, &capacity);
    add_tensors(b, &node->kwargs, &in, &count, &capacity);
    list_results(b, &r);
    mg_value *out = MG_NEW_ARRAY(b->arena, mg_value, r.count + 1);
    aten_opaque(b, node->op, purity_of(node->op), in, (uint32_t)count, r.shape, r.dtype, out, r.count);
    if (node->has_out)
        b->tensors[b->node].value = out[0];
    aten_give(b, out, r.own);
    uint32_t at = r.own;
    for (size_t i = 0; i < node->write_count; i++) {
        const struct aten_arg *arg = aten_argument(node, (size_t)node->writes[i], NULL);
        if (aten_is_tensor(arg) && b->document->nodes[arg->node].has_out)
            aten_write(b, arg->node, out[at++]);
    }
}

/* ---- calls with a rule ---- */

/* The table's entry for "aten.name.overload", or of the plain call for "aten.name_.overload". */
static const struct aten_entry *entry_of(const char *op, bool *in_place)
{
    *in_place = false;
    if (strncmp(op, "aten.", 5) != 0)
        return NULL;
    const char *name = op + 5;
    size_t size = strcspn(name, ".");
    const struct aten_entry *entry = aten_find(name, size);
    if (entry || size < 2 || name[size - 1] != '_')
        return entry;
    *in_place = true;
    return aten_find(name, size - 1);
}

/* The operand of `op` that lies where the written tensor's old value does, if it may be overwritten. */
static int32_t reusable(const struct aten_builder *b, mg_op op, mg_value old)
{
    const struct mg_op_info *info = &b->g->ops[op];
    for (uint32_t i = 0; i < info->in_count; i++)
        if (info->in[i] == old && info->out_count == 1 && mg_op_is_pointwise(info->type) &&
            mg_shape_equal(aten_shape(b, old), aten_shape(b, info->out[0])) &&
            aten_dtype(b, old) == aten_dtype(b, info->out[0]))
            return (int32_t)i;
    return -1;
}

static void write_result(struct aten_builder *b, mg_value result, mg_value old)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    uint32_t target = node->args.item[0].node;
    const struct aten_node *into = &b->document->nodes[target];
    result = aten_expand(b, aten_cast(b, result, into->dtype), &into->shape);
    mg_op op = result == MG_NONE ? MG_NONE : b->g->values[result].producer;
    if (op != MG_NONE && op + 1 == b->g->op_count && old != MG_NONE && b->g->values[old].kind == MG_KIND_COMPUTED &&
        aten_is_whole(b, target)) {
        int32_t slot = reusable(b, op, old);
        if (slot >= 0)
            b->g->ops[op].in_place = slot;
    }
    aten_write(b, target, result);
    b->tensors[b->node].parent = target;
    b->tensors[b->node].version = b->storages[b->tensors[b->node].storage].version;
    b->tensors[b->node].value = result;
}

static bool fits(const struct aten_builder *b, mg_value v)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    return mg_shape_equal(&node->shape, aten_shape(b, v)) && node->dtype == aten_dtype(b, v);
}

/* True if a rule has translated the call. */
static bool translate_by_rule(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    bool in_place;
    const struct aten_entry *entry = entry_of(node->op, &in_place);
    if (!entry || (in_place && (node->args.count == 0 || !aten_is_tensor(&node->args.item[0]) ||
                                !b->document->nodes[node->args.item[0].node].has_out)))
        return false;
    mg_value old = in_place ? b->tensors[node->args.item[0].node].value : MG_NONE;
    const struct aten_rule_call call = {node, entry->type};
    mg_value result = entry->rule(b, &call);
    if (b->code)
        return true;
    if (b->declined || (!in_place && node->has_out && result != MG_NONE && !fits(b, result))) {
        b->declined = false;
        b->attr_count = 0;
        b->tensors[b->node].results = NULL;
        return false;
    }
    if (in_place) {
        write_result(b, result, old);
    } else if (node->has_out) {
        b->tensors[b->node].value = result;
    }
    return true;
}

/* ---- nodes ---- */

/* A result of a call: one of the rule's, or a piece of the call's first argument. */
static void translate_item(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    uint32_t from = node->args.item[0].node;
    int64_t at = node->args.item[1].i;
    struct aten_tensor *t = &b->tensors[b->node];
    const struct aten_tensor *source = &b->tensors[from];
    if (source->parent != MG_NONE && !b->document->nodes[from].has_out) { /* a list of views */
        t->parent = source->parent;
        t->axis = source->axis;
        t->piece = 0;
        for (uint32_t n = b->first_item[from]; n != MG_NONE && source->axis >= 0; n = b->next_item[n]) {
            const struct aten_node *other = &b->document->nodes[n];
            bool unbound = other->shape.rank < b->document->nodes[t->parent].shape.rank;
            if (other->args.item[1].i < at)
                t->piece += unbound ? 1 : other->shape.dim[source->axis];
        }
        (void)aten_read(b, b->node);
    } else if (at >= 0 && at < source->result_count) {
        t->value = source->results[at];
    }
    t->version = node->has_out ? b->storages[t->storage].version : 0;
    if (t->value != MG_NONE && node->has_out && !fits(b, t->value))
        t->value = aten_reshape(b, t->value, &node->shape);
}

static bool is_free_name(const struct aten_builder *b, const char *name)
{
    return name && *name && mg_graph_find_value(b->g, name) == MG_NONE;
}

static void add_given(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    bool constant = node->kind == ATEN_CONSTANT;
    if (constant && node->has_value && mg_shape_elements(&node->shape) == 1) {
        b->tensors[b->node].value = aten_fill(b, &node->shape, node->dtype, node->value);
        return;
    }
    const char *name = node->path && strchr(node->path, '.') && is_free_name(b, node->path) ? node->path : node->name;
    mg_value v =
        mg_graph_add_value(b->g, name, constant ? MG_KIND_CONSTANT : node->value_kind, node->dtype, &node->shape);
    if (v == MG_NONE)
        b->code = mg_fail(b->err, MG_ERR_INVALID, "", "the name '%.100s' is taken twice", name);
    b->tensors[b->node].value = v;
}

static void translate(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    b->emitted = 0;
    if (node->backward && b->first_backward == MG_NONE)
        b->first_backward = (mg_op)b->g->op_count;
    if (node->kind == ATEN_PLACEHOLDER || node->kind == ATEN_CONSTANT) {
        add_given(b);
        return;
    }
    if (node->kind == ATEN_GETITEM) {
        translate_item(b);
        return;
    }
    if (aten_view(b, b->node) || translate_by_rule(b))
        return;
    struct aten_storage *s = node->has_out ? &b->storages[b->tensors[b->node].storage] : NULL;
    if (s && s->base != b->node && node->write_count == 0)
        s->tangled = true;
    translate_opaque(b);
}

/* ---- the ends ---- */

static bool overwrites(const struct mg_graph *g, mg_value version, mg_value weight)
{
    mg_op op = g->values[version].producer;
    return op != MG_NONE && g->values[version].slot == 0 && g->ops[op].in_count > 0 && g->ops[op].in[0] == weight &&
           g->ops[op].out_count == 1 && g->values[version].update_of == MG_NONE &&
           mg_op_is_pointwise(g->ops[op].type) && g->values[version].dtype == g->values[weight].dtype;
}

/* What the step leaves in what it was given: updates of weights and states, outputs for the others. */
static void add_updates(struct aten_builder *b)
{
    for (uint32_t n = 0; n < b->document->node_count && !b->code; n++) {
        const struct aten_node *node = &b->document->nodes[n];
        if (node->kind != ATEN_PLACEHOLDER)
            continue;
        mg_value given = mg_graph_find_value(b->g, node->name), version = b->tensors[n].value;
        if (given == MG_NONE || b->g->values[given].kind == MG_KIND_COMPUTED)
            given = mg_graph_find_value(b->g, node->path ? node->path : "");
        if (version == given || given == MG_NONE || version == MG_NONE)
            continue;
        if (b->g->values[given].kind != MG_KIND_WEIGHT && b->g->values[given].kind != MG_KIND_STATE) {
            mg_graph_add_output(b->g, version);
            continue;
        }
        b->node = n;
        b->emitted = 1;
        if (!overwrites(b->g, version, given))
            version = aten_emit2(b, MG_OP_ASSIGN, given, version);
        if (version != MG_NONE)
            mg_graph_add_update(b->g, given, version);
    }
}

static void add_outputs(struct aten_builder *b)
{
    for (size_t i = 0; i < b->document->output_count && !b->code; i++) {
        mg_value v = aten_read(b, b->document->outputs[i].node);
        if (v == MG_NONE) {
            char pointer[64];
            snprintf(pointer, sizeof pointer, "/outputs/%zu", i);
            b->code = mg_fail(b->err, MG_ERR_UNSUPPORTED, pointer, "this output is not known: '%.100s'",
                              b->document->nodes[b->document->outputs[i].node].name);
            return;
        }
        mg_graph_add_output(b->g, v);
    }
}

/* ---- what nobody needs ---- */

static bool *needed_ops(const struct mg_graph *g, struct mg_arena *arena)
{
    bool *value = MG_NEW_ARRAY(arena, bool, g->value_count), *op = MG_NEW_ARRAY(arena, bool, g->op_count);
    for (mg_value v = 0; v < g->value_count; v++)
        value[v] = g->values[v].is_output || g->values[v].update_of != MG_NONE;
    for (size_t i = g->op_count; i-- > 0;) {
        const struct mg_op_info *info = &g->ops[i];
        for (uint32_t k = 0; k < info->out_count; k++)
            op[i] = op[i] || value[info->out[k]];
        for (uint32_t k = 0; op[i] && k < info->in_count; k++)
            value[info->in[k]] = true;
    }
    return op;
}

static mg_value copy_value(struct mg_graph *to, const struct mg_value_info *v)
{
    return mg_graph_add_value(to, v->name, v->kind, v->dtype, &v->shape);
}

static enum mg_code copy_op(struct mg_graph *to, const struct mg_graph *from, size_t i, mg_value *map,
                            struct mg_arena *arena, struct mg_error *err)
{
    const struct mg_op_info *info = &from->ops[i];
    mg_value *in = MG_NEW_ARRAY(arena, mg_value, info->in_count);
    const char **names = MG_NEW_ARRAY(arena, const char *, info->out_count);
    for (uint32_t k = 0; k < info->in_count; k++)
        in[k] = map[info->in[k]];
    for (uint32_t k = 0; k < info->out_count; k++) {
        map[info->out[k]] = copy_value(to, &from->values[info->out[k]]);
        names[k] = from->values[info->out[k]].name;
    }
    enum mg_code code = mg_graph_add_op(to, info->type, info->name, in, info->in_count, info->attrs, info->attr_count,
                                        names, info->out_count, NULL, err);
    if (code != MG_OK)
        return code;
    to->ops[to->op_count - 1].module = info->module;
    to->ops[to->op_count - 1].in_place = info->in_place;
    return MG_OK;
}

static enum mg_code without_dead(struct aten_builder *b, struct mg_graph **out)
{
    const struct mg_graph *from = b->g;
    struct mg_graph *to = mg_graph_new(b->arena, from->name);
    bool *needed = needed_ops(from, b->arena);
    mg_value *map = MG_NEW_ARRAY(b->arena, mg_value, from->value_count);
    to->math = from->math;
    for (mg_value v = 0; v < from->value_count; v++)
        if (from->values[v].kind != MG_KIND_COMPUTED)
            map[v] = copy_value(to, &from->values[v]);
    for (size_t i = 0; i < from->op_count; i++) {
        if (i == b->first_backward)
            to->forward_ops = (mg_op)to->op_count;
        enum mg_code code = needed[i] ? copy_op(to, from, i, map, b->arena, b->err) : MG_OK;
        if (code != MG_OK)
            return code;
    }
    for (size_t i = 0; i < from->output_count; i++)
        mg_graph_add_output(to, map[from->outputs[i]]);
    for (mg_value v = 0; v < from->value_count; v++)
        if (from->values[v].update_of != MG_NONE)
            mg_graph_add_update(to, map[from->values[v].update_of], map[v]);
    *out = to;
    return MG_OK;
}

enum mg_code mg_aten_build(const struct aten_document *document, struct mg_arena *arena, struct mg_graph **out,
                           struct mg_error *err)
{
    struct mg_error ignored = {0};
    struct aten_builder b = {.document = document,
                             .g = mg_graph_new(arena, document->name),
                             .arena = arena,
                             .err = err ? err : &ignored,
                             .first_backward = MG_NONE};
    b.g->math = document->math;
    aten_survey(&b);
    for (b.node = 0; b.node < document->node_count && !b.code; b.node++)
        translate(&b);
    if (b.code) {
        if (!b.err->pointer[0])
            snprintf(b.err->pointer, sizeof b.err->pointer, "/nodes/%u", b.node - 1);
        return b.code;
    }
    b.node = document->node_count ? (uint32_t)document->node_count - 1 : 0;
    add_outputs(&b);
    add_updates(&b);
    return b.code ? b.code : without_dead(&b, out);
}
