/* A captured step into a graph: one walk over the calls. A call that the table knows is translated by its rule; an
 * in-place variant is the plain call whose result is then written to its first argument; anything else becomes opaque.
 * At the end new versions of weights become updates, and what nobody needs is left out. */
#include <stdio.h>
#include <string.h>

#include "formats/aten_priv.h"

/* ---- calls with a rule ---- */

/* The table's entry for "aten.name.overload", or of the plain call for "aten.name_.overload". */
static const struct aten_entry *entry_of(const char *op, bool *in_place)
{
    *in_place = false;
    if (strncmp(op, "aten.", 5) != 0)
        return NULL;
    const char *name = op + 5;
    size_t size = strcspn(name, ".");
    const char *overload = name[size] ? name + size + 1 : "default";
    const struct aten_entry *entry = aten_find(name, size, overload);
    if (entry || size < 2 || name[size - 1] != '_')
        return entry;
    *in_place = true;
    return aten_find(name, size - 1, overload);
}

/* The operand of `op` that lies where the written tensor's old value does, if it is overwritten in the graph too. That
 * pins both values: neither is recomputed, and no region holds the call. So as a rule the planner is left free to let
 * the result take the operand's place. Not behind batch norms where these read concatenations (densenet): recomputing
 * them is the first thing that pays there, and it keeps from better plans, in which the concatenations are made again
 * from their parts (densenet121 at 1.10: 0.50 of the peak, 0.64 without). */
static int32_t overwritten(struct aten_builder *b, mg_op op, mg_value old)
{
    const struct mg_op_info *info = &b->g->ops[op], *norm = aten_made_by(b, old, MG_OP_BATCH_NORM);
    b->joined_norms = b->joined_norms || (norm && aten_made_by(b, norm->in[0], MG_OP_CONCAT));
    if (!norm || !b->joined_norms)
        return -1;
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
    struct aten_storage *s = &b->storages[b->tensors[target].storage];
    result = aten_expand(b, aten_cast(b, result, into->dtype), &into->shape);
    mg_op op = result == MG_NONE ? MG_NONE : b->g->values[result].producer;
    if (op != MG_NONE && op + 1 == b->g->op_count && old != MG_NONE && !s->kept && aten_is_whole(b, target))
        b->g->ops[op].in_place = overwritten(b, op, old);
    s->kept = false;
    aten_write(b, target, result);
    aten_alias(b, target, result);
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
    if (!entry || b->as_is[b->node] || !aten_takes(entry, node))
        return false;
    if ((in_place && (node->args.count == 0 || !aten_is_tensor(&node->args.item[0]) ||
                      !b->document->nodes[node->args.item[0].node].has_out)))
        return false;
    struct aten_mark mark = aten_try(b);
    mg_value old = in_place ? b->tensors[node->args.item[0].node].value : MG_NONE;
    const struct aten_rule_call call = {node, entry->type};
    mg_value result = entry->rule(b, &call);
    if (b->code)
        return true;
    if (b->declined || (!in_place && node->has_out && result != MG_NONE && !fits(b, result))) {
        aten_take_back(b, mark);
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
    if (t->value == MG_NONE || !node->has_out || fits(b, t->value))
        return;
    bool all = mg_shape_elements(aten_shape(b, t->value)) == mg_shape_elements(&node->shape);
    t->value = all ? aten_reshape(b, t->value, &node->shape) : MG_NONE;
}

static bool is_free_name(const struct aten_builder *b, const char *name)
{
    return name && *name && mg_graph_find_value(b->g, name) == MG_NONE;
}

static void add_given(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    bool constant = node->kind == ATEN_CONSTANT;
    if (constant && node->has_value && mg_shape_elements(&node->shape) == 1 && aten_holds(node->dtype, node->value)) {
        b->tensors[b->node].value = aten_fill(b, &node->shape, node->dtype, node->value);
        return;
    }
    const char *name = node->path && strchr(node->path, '.') && is_free_name(b, node->path) ? node->path : node->name;
    mg_value v =
        mg_graph_add_value(b->g, name, constant ? MG_KIND_CONSTANT : node->value_kind, node->dtype, &node->shape);
    if (v == MG_NONE)
        b->code = mg_fail(b->err, MG_ERR_INVALID, "", "the name '%.100s' is taken twice", name);
    else
        b->g->values[v].label = node->path;
    b->tensors[b->node].value = v;
}

static void translate(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    if (!b->is_read[b->node])
        return;
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
    b->emitted = 1; /* the node's own name is the call's */
    aten_translate_opaque(b);
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

/* "result", "result 2", "grad of head.weight": whose an output is; some are several. */
static void label_output(struct aten_builder *b, size_t i, mg_value v)
{
    struct mg_value_info *info = &b->g->values[v];
    const char *of = b->document->outputs[i].of, *label = "result";
    if (of)
        label = mg_arena_printf(b->arena, "grad of %s", of);
    else if (i)
        label = mg_arena_printf(b->arena, "result %zu", i + 1);
    info->label = info->label ? mg_arena_printf(b->arena, "%s, %s", info->label, label) : label;
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
        label_output(b, i, v);
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
    mg_value copy = mg_graph_add_value(to, v->name, v->kind, v->dtype, &v->shape);
    if (copy != MG_NONE && v->label)
        to->values[copy].label = mg_arena_strdup(to->arena, v->label);
    return copy;
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
    mg_graph_set_module(to, (mg_op)to->op_count - 1, info->module);
    to->ops[to->op_count - 1].in_place = info->in_place;
    return MG_OK;
}

static enum mg_code without_dead(struct aten_builder *b, struct mg_arena *arena, struct mg_graph **out)
{
    const struct mg_graph *from = b->g;
    struct mg_graph *to = mg_graph_new(arena, from->name);
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

static enum mg_code build(struct aten_builder *b, struct mg_arena *arena, struct mg_graph **out)
{
    const struct aten_document *document = b->document;
    b->g = mg_graph_new(b->arena, document->name);
    b->g->math = document->math;
    aten_survey(b);
    for (b->node = 0; b->node < document->node_count && !b->code; b->node++)
        translate(b);
    if (b->code) {
        if (!b->err->pointer[0])
            snprintf(b->err->pointer, sizeof b->err->pointer, "/nodes/%u", b->node - 1);
        return b->code;
    }
    b->node = document->node_count ? (uint32_t)document->node_count - 1 : 0;
    add_outputs(b);
    add_updates(b);
    return b->code || b->again ? b->code : without_dead(b, arena, out);
}

/* Whether all results of a call that are read can be had from its rule is only known at the end: calls of which they
 * cannot are then left as they are, and the walk is made again. */
enum mg_code mg_aten_build(const struct aten_document *document, struct mg_arena *scratch, struct mg_arena *arena,
                           struct mg_graph **out, struct mg_error *err)
{
    enum { MOST_WALKS = 16 };
    struct mg_error ignored = {0};
    bool *as_is = MG_NEW_ARRAY(scratch, bool, document->node_count);
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    for (unsigned walk = 0; walk < MOST_WALKS; walk++) {
        struct aten_builder b = {.document = document,
                                 .arena = scratch,
                                 .err = err ? err : &ignored,
                                 .as_is = as_is,
                                 .first_backward = MG_NONE};
        enum mg_code code = build(&b, arena, out);
        if (code != MG_OK || !b.again)
            return code;
        mg_arena_rewind(scratch, mark);
    }
    return mg_fail(err, MG_ERR_UNSUPPORTED, "/nodes",
                   "too many calls whose results are needed by others not known here");
}
