/* A model's graph: inputs, initialisers, nodes in order, outputs; and one node by its rule.
 *
 * Order: from the outputs backwards tells which nodes are needed, then a depth-first walk from each of them in the
 * file's order adds what it reads before it, so an ordered file keeps its order. Both walks keep stacks of their own.
 */
#include "formats/onnx_priv.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 200000, MAX_INLINE = 32, MAX_REASONS = 200, MAX_FOLDED = 1 << 20, FREE_NODES = 8000, CALLS = 8 };

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum mg_code code_ = (call);                                                                                   \
        if (code_ != MG_OK)                                                                                            \
            return code_;                                                                                              \
    } while (0)

void mg_onnx_add_reason(struct onnx_import *m, const char *text)
{
    for (size_t i = 0; i < m->reason_count; i++) {
        if (strcmp(m->reasons[i].text, text) == 0) {
            m->reasons[i].count++;
            return;
        }
    }
    if (m->reason_count == MAX_REASONS)
        return;
    *MG_PUSH(m->arena, m->reasons, m->reason_count, m->reason_capacity) =
        (struct onnx_reason){mg_arena_strdup(m->arena, text), 1};
}

/* ---- scopes ---- */

struct onnx_value *mg_onnx_lookup(const struct onnx_scope *s, const char *name)
{
    for (; s; s = s->outer) {
        struct onnx_value *value = mg_onnx_find(&s->values, name);
        if (value)
            return value;
    }
    return NULL;
}

void mg_onnx_define(struct onnx_scope *s, const char *name, struct onnx_value *value)
{
    *mg_onnx_name(&s->values, s->m->arena, name) = value;
}

/* Contents outlive the reading. */
static const struct mg_onnx_data *kept_data(const struct onnx_import *m, const struct mg_onnx_data *data)
{
    if (m->arena == m->g->arena)
        return data;
    struct mg_onnx_data *copy = mg_arena_copy(m->g->arena, data, sizeof *data);
    size_t count = data->uniform ? 1 : (size_t)mg_shape_elements(&data->shape);
    if (data->real)
        copy->real = mg_arena_copy(m->g->arena, data->real, count * sizeof *data->real);
    if (data->whole)
        copy->whole = mg_arena_copy(m->g->arena, data->whole, count * sizeof *data->whole);
    return copy;
}

mg_value mg_onnx_materialise(struct onnx_import *m, struct onnx_value *value, enum mg_kind kind)
{
    if (value->value != MG_NONE || value->lost)
        return value->value;
    value->name = mg_onnx_unique(&m->value_names, m->arena, *value->name ? value->name : "constant");
    value->value = mg_graph_add_value(m->g, value->name, kind, value->dtype, &value->shape);
    if (value->data && value->value != MG_NONE)
        *MG_PUSH(m->g->arena, m->out->contents, m->out->content_count, m->out->content_capacity) =
            (struct mg_onnx_content){m->g->values[value->value].name, kept_data(m, value->data)};
    return value->value;
}

enum mg_code mg_onnx_add_initializers(struct onnx_scope *s, const struct onnx_graph *graph)
{
    struct mg_arena *arena = s->m->arena;
    for (uint32_t i = 0; i < graph->initializers.count; i++) {
        const struct onnx_tensor *tensor = ONNX_AT(graph->initializers, struct onnx_tensor, i);
        struct mg_onnx_data shape = {0};
        struct onnx_value *value = MG_NEW(arena, struct onnx_value);
        const char *name = tensor->name ? tensor->name : "";
        char place[300];
        snprintf(place, sizeof place, "initialiser '%.200s'", name);
        *value = (struct onnx_value){.origin = ONNX_INITIALIZER, .value = MG_NONE};
        value->name = *s->prefix ? mg_arena_printf(arena, "%s%s", s->prefix, name) : name;
        enum mg_code code = mg_onnx_decode(tensor, arena, place, &shape, &value->data, s->m->err);
        value->lost = code == MG_ERR_UNSUPPORTED; /* counts only if something reads it */
        if (code != MG_OK && !value->lost)
            return code;
        value->dtype = shape.dtype;
        value->shape = shape.shape;
        value->constant = value->data != NULL;
        mg_onnx_define(s, name, value);
    }
    return MG_OK;
}

/* ---- order ---- */

/* Names that a node's subgraphs read from outside count as its operands, after its own. */
struct free_names {
    const char **name;
    size_t count, capacity;
};
struct order {
    struct onnx_scope *s;
    const struct onnx_list *nodes;
    struct onnx_names producers; /* of names made in this list: node index + 1 as a pointer */
    uint8_t *state;              /* of each node: what follows */
    uint32_t *stack;             /* nodes being visited, */
    uint32_t *at;                /* the next operand of each */
    size_t depth;
    struct free_names *operands; /* of each node that was looked at */
};
enum { UNWANTED, WANTED, OPEN, DONE };

static const struct onnx_node *node_at(const struct order *o, uint32_t i)
{
    return ONNX_AT(*o->nodes, struct onnx_node, i);
}

static uint32_t producer_of(const struct order *o, const char *name)
{
    return *name ? (uint32_t)(uintptr_t)mg_onnx_find(&o->producers, name) : 0;
}

static void collect_free(struct mg_arena *arena, const struct onnx_graph *graph, struct free_names *out, unsigned depth)
{
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const struct onnx_node *node = ONNX_AT(graph->nodes, struct onnx_node, i);
        for (uint32_t k = 0; k < node->inputs.count; k++)
            *MG_PUSH(arena, out->name, out->count, out->capacity) = ONNX_NAME(node->inputs, k);
        for (uint32_t k = 0; k < node->attributes.count; k++) {
            const struct onnx_attribute *attribute = ONNX_AT(node->attributes, struct onnx_attribute, k);
            if (attribute->graph && depth < MAX_INLINE)
                collect_free(arena, attribute->graph, out, depth + 1);
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const struct onnx_value_info *info = ONNX_AT(graph->outputs, struct onnx_value_info, i);
        *MG_PUSH(arena, out->name, out->count, out->capacity) = info->name ? info->name : "";
    }
}

static struct free_names operands_of(const struct order *o, uint32_t i)
{
    const struct onnx_node *node = node_at(o, i);
    if (o->operands[i].name)
        return o->operands[i];
    struct free_names names = {(const char **)node->inputs.items, node->inputs.count, node->inputs.count};
    for (uint32_t k = 0; k < node->attributes.count; k++) {
        const struct onnx_attribute *attribute = ONNX_AT(node->attributes, struct onnx_attribute, k);
        if (attribute->graph)
            collect_free(o->s->m->arena, attribute->graph, &names, 0);
    }
    o->operands[i] = names;
    return names;
}

static enum mg_code index_producers(struct order *o)
{
    for (uint32_t i = 0; i < o->nodes->count; i++) {
        const struct onnx_node *node = node_at(o, i);
        for (uint32_t k = 0; k < node->outputs.count; k++) {
            const char *name = ONNX_NAME(node->outputs, k);
            if (!*name)
                continue;
            void **slot = mg_onnx_name(&o->producers, o->s->m->arena, name);
            if (*slot)
                return mg_fail(o->s->m->err, MG_ERR_INVALID, "", "two nodes make '%.200s'", name);
            *slot = (void *)(uintptr_t)(i + 1);
        }
    }
    return MG_OK;
}

/* Marks what the wanted names need. */
static void mark(struct order *o, const char *const *wanted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t p = producer_of(o, wanted[i]);
        if (p && o->state[p - 1] == UNWANTED) {
            o->state[p - 1] = WANTED;
            o->stack[o->depth++] = p - 1;
        }
    }
    while (o->depth) {
        struct free_names names = operands_of(o, o->stack[--o->depth]);
        for (size_t i = 0; i < names.count; i++) {
            uint32_t p = producer_of(o, names.name[i]);
            if (!p || o->state[p - 1] != UNWANTED)
                continue;
            o->state[p - 1] = WANTED;
            o->stack[o->depth++] = p - 1;
        }
    }
}

static enum mg_code add_node(struct onnx_scope *s, const struct onnx_node *node, uint32_t index);

/* Adds a node after all that it reads. */
static enum mg_code visit(struct order *o, uint32_t root)
{
    o->depth = 0;
    o->stack[o->depth] = root;
    o->at[o->depth++] = 0;
    o->state[root] = OPEN;
    while (o->depth) {
        uint32_t i = o->stack[o->depth - 1];
        struct free_names names = operands_of(o, i);
        uint32_t p = 0;
        while (o->at[o->depth - 1] < names.count && !p) {
            p = producer_of(o, names.name[o->at[o->depth - 1]++]);
            p = p && o->state[p - 1] != DONE ? p : 0;
        }
        if (p && o->state[p - 1] == OPEN)
            return mg_fail(o->s->m->err, MG_ERR_INVALID, "", "node '%.100s' (%.60s) needs its own result: a cycle",
                           node_at(o, p - 1)->name ? node_at(o, p - 1)->name : "", node_at(o, p - 1)->op_type);
        if (p) {
            o->state[p - 1] = OPEN;
            o->stack[o->depth] = p - 1;
            o->at[o->depth++] = 0;
            continue;
        }
        TRY(add_node(o->s, node_at(o, i), i));
        o->state[i] = DONE;
        o->depth--;
    }
    return MG_OK;
}

enum mg_code mg_onnx_add_nodes(struct onnx_scope *s, const struct onnx_list *nodes, const char *const *wanted,
                               uint32_t wanted_count)
{
    struct mg_arena *arena = s->m->arena;
    struct order o = {.s = s, .nodes = nodes};
    o.state = MG_NEW_ARRAY(arena, uint8_t, nodes->count + 1);
    o.stack = MG_NEW_ARRAY(arena, uint32_t, nodes->count + 1);
    o.at = MG_NEW_ARRAY(arena, uint32_t, nodes->count + 1);
    o.operands = MG_NEW_ARRAY(arena, struct free_names, nodes->count + 1);
    s->m->node_count += nodes->count;
    if (s->m->node_count > s->m->node_limit)
        return mg_fail(s->m->err, MG_ERR_LIMIT, "", "more than %llu nodes, counting those of functions at each call",
                       (unsigned long long)s->m->node_limit);
    TRY(index_producers(&o));
    mark(&o, wanted, wanted_count);
    for (uint32_t i = 0; i < nodes->count; i++)
        if (o.state[i] == WANTED)
            TRY(visit(&o, i));
    return MG_OK;
}

/* ---- one node ---- */

static const char *call_name(struct onnx_scope *s, const struct onnx_node *node, uint32_t index)
{
    const char *name = node->name && *node->name ? node->name : "";
    for (uint32_t i = 0; i < node->outputs.count && !*name; i++)
        name = ONNX_NAME(node->outputs, i);
    if (!*name)
        name = mg_arena_printf(s->m->arena, "%s_%u", node->op_type, index);
    return *s->prefix ? mg_arena_printf(s->m->arena, "%s%s", s->prefix, name) : name;
}

/* "/layer1/conv/Conv", as PyTorch's exporter names nodes, lies in module layer1.conv. */
static const char *module_of(struct mg_arena *arena, const char *name)
{
    const char *end = strrchr(name, '/');
    if (name[0] != '/' || end == name)
        return NULL;
    char *module = mg_arena_printf(arena, "%.*s", (int)(end - name - 1), name + 1);
    for (char *at = module; *at; at++)
        if (*at == '/')
            *at = '.';
    return module;
}

/* Binds operands; *ready is false if one of them is lost. */
static enum mg_code bind_operands(struct onnx_call *c, bool *ready)
{
    for (uint32_t i = 0; i < c->in_count; i++) {
        const char *name = ONNX_NAME(c->node->inputs, i);
        c->in[i] = *name ? mg_onnx_lookup(c->s, name) : NULL;
        if (*name && !c->in[i])
            return mg_fail(c->m->err, MG_ERR_INVALID, "", "node '%.100s' (%.60s) reads '%.200s', which nothing makes",
                           c->name, c->node->op_type, name);
        if (c->in[i] && c->in[i]->lost && c->in[i]->origin != ONNX_COMPUTED)
            mg_onnx_unsupported(c, "reads '%.100s', whose element type or rank is not supported", name);
        *ready = *ready && !(c->in[i] && c->in[i]->lost);
    }
    while (c->in_count && !c->in[c->in_count - 1])
        c->in_count--;
    return MG_OK;
}

static void lose_results(struct onnx_call *c)
{
    for (uint32_t i = 0; i < c->out_count; i++) {
        c->out[i] = MG_NEW(c->m->arena, struct onnx_value);
        *c->out[i] = (struct onnx_value){.name = ONNX_NAME(c->node->outputs, i), .value = MG_NONE, .lost = true};
    }
}

static bool all_constant(const struct onnx_call *c)
{
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i] && !c->in[i]->constant)
            return false;
    return true;
}

/* Result shapes that the file declares, bound; false if one is missing. */
static bool declared_results(struct onnx_call *c, struct mg_onnx_data *shapes);
static void add_opaque(struct onnx_call *c, const struct mg_onnx_data *shapes)
{
    struct free_names captured = {NULL, 0, 0};
    for (uint32_t k = 0; k < c->node->attributes.count; k++) {
        const struct onnx_attribute *attribute = ONNX_AT(c->node->attributes, struct onnx_attribute, k);
        if (attribute->graph)
            collect_free(c->m->arena, attribute->graph, &captured, 0);
    }
    mg_value *in = MG_NEW_ARRAY(c->m->arena, mg_value, c->in_count + captured.count + 1), *out = NULL;
    const char *domain = c->node->domain && *c->node->domain ? c->node->domain : "onnx";
    uint32_t in_count = 0;
    const char *target = mg_arena_printf(c->m->arena, "%s.%s", domain, c->node->op_type);
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i])
            in[in_count++] = mg_onnx_in(c, i);
    for (size_t i = 0; i < captured.count; i++) {
        struct onnx_value *value = mg_onnx_lookup(c->s, captured.name[i]);
        if (value && !value->lost)
            in[in_count++] = mg_onnx_materialise(c->m, value, MG_KIND_CONSTANT);
    }
    out = MG_NEW_ARRAY(c->m->arena, mg_value, c->out_count + 1);
    const char **names = MG_NEW_ARRAY(c->m->arena, const char *, c->out_count + 1);
    for (uint32_t i = 0; i < c->out_count && c->code == MG_OK; i++) {
        const char *base = mg_arena_printf(c->m->arena, "%s%s", c->s->prefix, ONNX_NAME(c->node->outputs, i));
        names[i] = mg_onnx_unique(&c->m->value_names, c->m->arena, base);
        mg_graph_add_value(c->m->g, names[i], MG_KIND_COMPUTED, shapes[i].dtype, &shapes[i].shape);
    }
    if (c->code != MG_OK)
        return;
    const char *name = mg_onnx_unique(&c->m->op_names, c->m->arena, c->name);
    c->code = mg_graph_add_op(c->m->g, MG_OP_OPAQUE, name, in, in_count, ATTRS(A_TEXT(TARGET, target)), names,
                              c->out_count, out, c->m->err);
    for (uint32_t i = 0; i < c->out_count && c->code == MG_OK; i++)
        mg_onnx_result(c, i, out[i]);
}

static const struct onnx_function *function_of(struct onnx_import *m, const struct onnx_node *node)
{
    const char *domain = node->domain ? node->domain : "";
    return mg_onnx_find(&m->functions, mg_arena_printf(m->arena, "%s\n%s", domain, node->op_type));
}

static void inline_function(struct onnx_call *c, const struct onnx_function *f);

static void run_rule(struct onnx_call *c, const struct onnx_rule *rule)
{
    if (c->in_count < rule->min_in || c->in_count > rule->max_in) {
        mg_onnx_invalid(c, "has %u operands, where opset %lld takes %u to %u", c->in_count, (long long)c->opset,
                        rule->min_in, rule->max_in);
        return;
    }
    if (c->m->folded < MAX_FOLDED && all_constant(c) && rule->fold(c, rule->fold_which))
        return;
    if (c->code == MG_OK && rule->rule)
        rule->rule(c, rule->which);
}

/* Results that the rule did not make but somebody may read. */
static void check_results(struct onnx_call *c)
{
    for (uint32_t i = 0; i < c->out_count; i++)
        if (c->code == MG_OK && !c->out[i] && *ONNX_NAME(c->node->outputs, i)) {
            c->out[i] = MG_NEW(c->m->arena, struct onnx_value);
            *c->out[i] = (struct onnx_value){.name = ONNX_NAME(c->node->outputs, i), .value = MG_NONE, .lost = true};
            c->out[i]->origin = ONNX_INPUT; /* whoever reads it says so */
        }
}

static void run_call(struct onnx_call *c)
{
    const struct onnx_function *function = function_of(c->m, c->node);
    const struct onnx_rule *rule = mg_onnx_rule_of(c->node->domain, c->node->op_type);
    struct mg_onnx_data *shapes = MG_NEW_ARRAY(c->m->arena, struct mg_onnx_data, c->out_count + 1);
    size_t reasons = c->m->reason_count;
    if (function) {
        inline_function(c, function);
    } else if (rule) {
        run_rule(c, rule);
    } else if (c->code == MG_OK) {
        const char *domain = c->node->domain && *c->node->domain ? c->node->domain : NULL;
        c->code = MG_ERR_UNSUPPORTED;
        mg_onnx_add_reason(
            c->m, mg_arena_printf(c->m->arena, "%s%s%s", domain ? domain : "", domain ? "." : "", c->node->op_type));
    }
    /* with declared results it can still be scheduled */
    if (c->code == MG_ERR_UNSUPPORTED && !function && declared_results(c, shapes)) {
        struct onnx_reason *reason = &c->m->reasons[c->m->reason_count - 1];
        if (c->m->reason_count > reasons)
            c->m->reason_count = reasons;
        else
            reason->count--;
        c->code = MG_OK;
        c->last = false;
        add_opaque(c, shapes);
    }
}

static enum mg_code add_node(struct onnx_scope *s, const struct onnx_node *node, uint32_t index)
{
    struct mg_arena *arena = s->m->arena;
    bool ready = true;
    struct onnx_call *c = MG_NEW(arena, struct onnx_call);
    *c = (struct onnx_call){.m = s->m, .s = s, .node = node, .opset = s->opset, .in_count = node->inputs.count};
    c->out_count = node->outputs.count;
    c->in = MG_NEW_ARRAY(arena, struct onnx_value *, c->in_count + 1);
    c->out = MG_NEW_ARRAY(arena, struct onnx_value *, c->out_count + 1);
    c->name = call_name(s, node, index);
    c->module = module_of(arena, c->name);
    TRY(bind_operands(c, &ready));
    if (ready || c->code == MG_OK)
        ready ? run_call(c) : (void)(c->code = MG_ERR_UNSUPPORTED);
    if (c->code == MG_ERR_UNSUPPORTED)
        lose_results(c);
    else if (c->code != MG_OK)
        return c->code;
    check_results(c);
    for (uint32_t i = 0; i < c->out_count; i++)
        if (c->out[i] && *ONNX_NAME(node->outputs, i))
            mg_onnx_define(s, ONNX_NAME(node->outputs, i), c->out[i]);
    return MG_OK;
}

/* ---- functions ---- */

static int64_t opset_of(const struct onnx_list *opsets, int64_t otherwise)
{
    int64_t found = 0;
    for (uint32_t i = 0; i < opsets->count; i++) {
        const struct onnx_opset *opset = ONNX_AT(*opsets, struct onnx_opset, i);
        bool ours = !opset->domain || !*opset->domain || strcmp(opset->domain, "ai.onnx") == 0;
        if (ours && opset->version.value > found)
            found = opset->version.value;
    }
    return found ? found : otherwise;
}

static void inline_function(struct onnx_call *c, const struct onnx_function *f)
{
    struct mg_arena *arena = c->m->arena;
    if (c->s->depth >= MAX_INLINE) {
        c->code = mg_fail(c->m->err, MG_ERR_LIMIT, "", "functions call each other more than %d deep", MAX_INLINE);
        return;
    }
    struct onnx_scope *body = MG_NEW(arena, struct onnx_scope);
    *body = (struct onnx_scope){.m = c->m, .caller = c->s, .call = c->node, .body = f, .depth = c->s->depth + 1};
    body->opset = opset_of(&f->opsets, c->s->opset);
    body->prefix = mg_arena_printf(arena, "%s/", c->name);
    for (uint32_t i = 0; i < f->inputs.count && i < c->in_count; i++)
        if (c->in[i])
            mg_onnx_define(body, ONNX_NAME(f->inputs, i), c->in[i]);
    /* operands that the call leaves out are written as missing ones in the body: nothing defines them */
    uint32_t wanted = f->outputs.count < c->out_count ? f->outputs.count : c->out_count;
    enum mg_code code = mg_onnx_add_nodes(body, &f->nodes, (const char *const *)f->outputs.items, wanted);
    if (code != MG_OK) {
        c->code = code;
        return;
    }
    for (uint32_t i = 0; i < wanted; i++) {
        struct onnx_value *value = mg_onnx_find(&body->values, ONNX_NAME(f->outputs, i));
        if (!value)
            mg_onnx_invalid(c, "the function's output '%.100s' is made by nothing", ONNX_NAME(f->outputs, i));
        mg_onnx_alias(c, i, value);
    }
}

/* ---- shapes that the file states ---- */

static const struct mg_onnx_symbol *symbol_named(const struct onnx_import *m, const char *name)
{
    for (uint32_t i = 0; i < m->options->symbol_count; i++)
        if (strcmp(m->options->symbols[i].name, name) == 0)
            return &m->options->symbols[i];
    return NULL;
}

/* The size of a dimension, or -1 where it is not known. */
static int64_t bind_dimension(const struct onnx_import *m, const struct onnx_dimension *dim, const char *name,
                              uint32_t d)
{
    char place[300];
    snprintf(place, sizeof place, "%.200s.%u", name, d);
    const struct mg_onnx_symbol *symbol = symbol_named(m, place);
    if (!symbol && dim->symbol && *dim->symbol)
        symbol = symbol_named(m, dim->symbol);
    if (symbol)
        return symbol->value;
    return dim->size.given && !(dim->symbol && *dim->symbol) && dim->size.value >= 0 ? dim->size.value : -1;
}

static const struct onnx_tensor_type *tensor_type(const struct onnx_value_info *info)
{
    return info && info->type && info->type->tensor ? info->type->tensor : NULL;
}

static bool bind_shape(const struct onnx_import *m, const struct onnx_value_info *info, struct mg_onnx_data *out)
{
    const struct onnx_tensor_type *type = tensor_type(info);
    if (!type || !type->shape || type->shape->dims.count > MG_MAX_RANK ||
        !mg_onnx_dtype(type->elem_type.value, &out->dtype))
        return false;
    out->shape = (struct mg_shape){.rank = type->shape->dims.count};
    for (uint32_t d = 0; d < out->shape.rank; d++) {
        out->shape.dim[d] = bind_dimension(m, ONNX_AT(type->shape->dims, struct onnx_dimension, d), info->name, d);
        if (out->shape.dim[d] < 0)
            return false;
    }
    return mg_shape_fits(&out->shape, out->dtype);
}

static bool declared_results(struct onnx_call *c, struct mg_onnx_data *shapes)
{
    for (uint32_t i = 0; i < c->out_count; i++) {
        const char *name = ONNX_NAME(c->node->outputs, i);
        if (!*name || !bind_shape(c->m, mg_onnx_find(&c->s->declared, name), &shapes[i]))
            return false;
    }
    return c->out_count > 0;
}

static void index_declared(struct onnx_scope *s, const struct onnx_list *infos)
{
    for (uint32_t i = 0; i < infos->count; i++) {
        struct onnx_value_info *info = ONNX_AT(*infos, struct onnx_value_info, i);
        if (info->name)
            *mg_onnx_name(&s->declared, s->m->arena, info->name) = info;
    }
}

/* ---- inputs and outputs ---- */

/* Says which dimensions of an input are open. */
static enum mg_code fail_input(struct onnx_import *m, const struct onnx_value_info *info, const char **open)
{
    const struct onnx_tensor_type *type = tensor_type(info);
    enum mg_dtype dtype;
    const char *name = info->name ? info->name : "";
    if (!type)
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "input '%.200s' is no tensor", name);
    if (!mg_onnx_dtype(type->elem_type.value, &dtype))
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "input '%.200s' is %s", name,
                       mg_onnx_dtype_text(type->elem_type.value));
    if (!type->shape)
        return mg_fail(m->err, MG_ERR_INVALID, "", "input '%.200s' has no shape", name);
    if (type->shape->dims.count > MG_MAX_RANK)
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "input '%.200s' has more than %d dimensions", name, MG_MAX_RANK);
    bool listed = false;
    for (uint32_t d = 0; d < type->shape->dims.count; d++) {
        const struct onnx_dimension *dim = ONNX_AT(type->shape->dims, struct onnx_dimension, d);
        if (bind_dimension(m, dim, name, d) >= 0)
            continue;
        const char *symbol = dim->symbol && *dim->symbol ? dim->symbol : mg_arena_printf(m->arena, "%s.%u", name, d);
        void **seen = mg_onnx_name(&m->symbols, m->arena, symbol);
        listed = true;
        if (!*seen && strlen(*open) < 300)
            *open = mg_arena_printf(m->arena, "%s%s%.100s", *open, **open ? ", " : "", symbol);
        *seen = m;
    }
    return listed ? MG_OK : mg_fail(m->err, MG_ERR_LIMIT, "", "input '%.200s' is too large", name);
}

static enum mg_code add_inputs(struct onnx_scope *s, const struct onnx_graph *graph)
{
    struct onnx_import *m = s->m;
    const char *open = "";
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        struct onnx_value_info *info = ONNX_AT(graph->inputs, struct onnx_value_info, i);
        info->name = info->name ? info->name : "";
        if (mg_onnx_find(&s->values, info->name))
            continue; /* an initialiser listed among the inputs, as IR version 3 wants it */
        struct onnx_value *value = MG_NEW(m->arena, struct onnx_value);
        struct mg_onnx_data shape;
        mg_onnx_define(s, info->name, value);
        if (!bind_shape(m, info, &shape)) {
            TRY(fail_input(m, info, &open));
            continue;
        }
        *value =
            (struct onnx_value){.name = info->name, .dtype = shape.dtype, .shape = shape.shape, .origin = ONNX_INPUT};
        (void)mg_onnx_unique(&m->value_names, m->arena, info->name);
        value->value = mg_graph_add_value(m->g, info->name, MG_KIND_INPUT, shape.dtype, &shape.shape);
        for (uint32_t k = 0; k < m->options->given_count; k++)
            if (strcmp(m->options->given[k].name, info->name) == 0)
                value->data = m->options->given[k].data;
    }
    if (*open)
        return mg_fail(m->err, MG_ERR_INVALID, "/symbols", "give sizes for these symbols: %.300s", open);
    return MG_OK;
}

/* An output keeps its name: what another name stands for is copied. */
static mg_value named_output(struct onnx_import *m, struct onnx_value *value, const char *name)
{
    mg_value v = mg_onnx_materialise(
        m, value, value->origin == ONNX_INITIALIZER && value->dtype < MG_DTYPE_I64 ? MG_KIND_WEIGHT : MG_KIND_CONSTANT);
    if (v == MG_NONE || strcmp(m->g->values[v].name, name) == 0 || mg_graph_find_value(m->g, name) != MG_NONE)
        return v;
    const char *op = mg_onnx_unique(&m->op_names, m->arena, name);
    mg_value out = MG_NONE;
    struct mg_error ignored;
    enum mg_code code = mg_graph_add_op(m->g, MG_OP_COPY, op, &v, 1, NULL, 0, &name, 1, &out, &ignored);
    return code == MG_OK ? out : v;
}

static enum mg_code add_outputs(struct onnx_scope *s, const struct onnx_graph *graph, const char *const *names)
{
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        struct onnx_value *value = mg_onnx_lookup(s, names[i]);
        if (!value)
            return mg_fail(s->m->err, MG_ERR_INVALID, "", "output '%.200s' is made by nothing", names[i]);
        if (value->lost) {
            if (!s->m->reason_count)
                mg_onnx_add_reason(s->m, mg_arena_printf(s->m->arena, "output '%.100s'", names[i]));
            continue;
        }
        mg_graph_add_output(s->m->g, named_output(s->m, value, names[i]));
    }
    return MG_OK;
}

/* ---- the model ---- */

static enum mg_code fail_unsupported(struct onnx_import *m)
{
    const char *list = "";
    size_t shown = 0;
    for (; shown < m->reason_count && strlen(list) < 400; shown++) {
        const struct onnx_reason *reason = &m->reasons[shown];
        list = mg_arena_printf(m->arena, "%s%s%.150s x%u", list, shown ? ", " : "", reason->text, reason->count);
    }
    if (shown < m->reason_count)
        list = mg_arena_printf(m->arena, "%s, and %zu%s more kinds", list, m->reason_count - shown,
                               m->reason_count == MAX_REASONS ? " or" : "");
    return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "unsupported operators: %s", list);
}

static void index_functions(struct onnx_import *m)
{
    for (uint32_t i = 0; i < m->model->functions.count; i++) {
        struct onnx_function *f = ONNX_AT(m->model->functions, struct onnx_function, i);
        if (f->name)
            *mg_onnx_name(&m->functions, m->arena,
                          mg_arena_printf(m->arena, "%s\n%s", f->domain ? f->domain : "", f->name)) = f;
    }
}

static enum mg_code import(struct onnx_import *m)
{
    const struct onnx_graph *graph = m->model->graph;
    struct onnx_scope *s = MG_NEW(m->arena, struct onnx_scope);
    *s = (struct onnx_scope){.m = m, .prefix = "", .opset = opset_of(&m->model->opsets, 11)};
    if (s->opset < 7)
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "opset %lld is older than 7: convert the model",
                       (long long)s->opset);
    if (graph->sparse.count)
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "sparse initialisers are not supported");
    m->g = m->out->graph = mg_graph_new(m->graph_arena, graph->name ? graph->name : "");
    mg_graph_reserve(m->g, graph->nodes.count,
                     (size_t)graph->nodes.count + graph->initializers.count + graph->inputs.count);
    const char **names = MG_NEW_ARRAY(m->arena, const char *, graph->outputs.count + 1);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const char *name = ONNX_AT(graph->outputs, struct onnx_value_info, i)->name;
        names[i] = name ? name : "";
    }
    index_functions(m);
    m->node_limit = FREE_NODES + CALLS * (uint64_t)graph->nodes.count;
    m->node_limit = m->node_limit > MAX_NODES ? MAX_NODES : m->node_limit;
    index_declared(s, &graph->value_infos);
    index_declared(s, &graph->outputs);
    TRY(mg_onnx_add_initializers(s, graph));
    TRY(add_inputs(s, graph));
    TRY(mg_onnx_add_nodes(s, &graph->nodes, names, graph->outputs.count));
    TRY(add_outputs(s, graph, names));
    if (m->reason_count)
        return fail_unsupported(m);
    if (!graph->outputs.count)
        return mg_fail(m->err, MG_ERR_INVALID, "", "the graph has no outputs");
    return MG_OK;
}

struct request {
    const struct mg_bytes *source;
    const struct mg_onnx_options *options;
    struct mg_arena *arena, *reading; /* of the graph, of all else */
    struct mg_onnx_model *out;
};

static enum mg_code read_model(void *context, struct mg_error *err)
{
    struct request *request = context;
    struct onnx_model *model = MG_NEW(request->reading, struct onnx_model);
    struct onnx_parse how = {.arena = request->reading, .err = err, .keep_data = request->options->keep_data};
    TRY(mg_onnx_parse_model(request->source, &how, model));
    request->out->bytes_read = how.bytes_read;
    if (!model->graph)
        return mg_fail(err, MG_ERR_SYNTAX, "", "this is no ONNX file: it holds no graph");
    struct onnx_import m = {.arena = request->reading,
                            .graph_arena = request->arena,
                            .err = err,
                            .options = request->options,
                            .model = model,
                            .out = request->out};
    return import(&m);
}

static enum mg_code read_guarded(void *context, struct mg_error *err)
{
    struct request *request = context;
    return mg_arena_guard(request->reading, read_model, request, err);
}

/* What is only needed while the file is read goes when it was; but large contents are not copied for that. */
enum mg_code mg_onnx_read(const struct mg_bytes *source, const struct mg_onnx_options *options, struct mg_arena *arena,
                          struct mg_onnx_model *out, struct mg_error *err)
{
    struct mg_error ignored = {0};
    struct mg_arena reading;
    struct request request = {source, options, arena, options->keep_data ? arena : &reading, out};
    *out = (struct mg_onnx_model){0};
    mg_arena_init(&reading, arena->limit - arena->used);
    enum mg_code code = mg_arena_guard(arena, read_guarded, &request, err ? err : &ignored);
    mg_arena_release(&reading);
    return code;
}

struct tensor_request {
    const struct mg_bytes *source;
    struct mg_arena *arena;
    const char **name;
    struct mg_onnx_data *out;
};

static enum mg_code read_tensor(void *context, struct mg_error *err)
{
    struct tensor_request *request = context;
    struct onnx_tensor tensor;
    struct mg_onnx_data shape = {0};
    const struct mg_onnx_data *data;
    struct onnx_parse how = {.arena = request->arena, .err = err, .keep_data = true};
    TRY(mg_onnx_parse_tensor(request->source, &how, &tensor));
    TRY(mg_onnx_decode(&tensor, request->arena, "the tensor", &shape, &data, err));
    if (!data)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "", "the tensor's data lies outside the file");
    *request->out = *data;
    *request->name = tensor.name ? tensor.name : "";
    return MG_OK;
}

enum mg_code mg_onnx_read_tensor(const struct mg_bytes *source, struct mg_arena *arena, const char **name,
                                 struct mg_onnx_data *out, struct mg_error *err)
{
    struct mg_error ignored = {0};
    struct tensor_request request = {source, arena, name, out};
    return mg_arena_guard(arena, read_tensor, &request, err ? err : &ignored);
}
