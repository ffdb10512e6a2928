/* One node: its operands, its rule, or the function that it calls; what has no rule becomes opaque or a reason. */
#include <stdio.h>
#include <string.h>

#include "formats/onnx_priv.h"

static void inline_function(struct onnx_call *c, const struct onnx_function *f);

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

static void add_opaque(struct onnx_call *c, const struct mg_onnx_data *shapes)
{
    struct onnx_free_names captured = {NULL, 0, 0};
    for (uint32_t k = 0; k < c->node->attributes.count; k++) {
        const struct onnx_attribute *attribute = ONNX_AT(c->node->attributes, struct onnx_attribute, k);
        if (attribute->graph)
            mg_onnx_collect_free(c->m->arena, attribute->graph, &captured, 0);
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
    return mg_names_find(&m->functions, mg_arena_printf(m->arena, "%s\n%s", domain, node->op_type));
}

/* ---- contents that follow from given inputs ----
 * The operators stay in the graph; the rules of those after them may look at the numbers. */

static bool all_known(const struct onnx_call *c)
{
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i] && !c->in[i]->data)
            return false;
    return true;
}

/* What the results will hold, by slot; NULL where that is not known. */
static const struct mg_onnx_data **follow(struct onnx_call *c, const struct onnx_rule *rule)
{
    const struct mg_onnx_data **out = MG_NEW_ARRAY(c->m->arena, const struct mg_onnx_data *, c->out_count + 1);
    bool folds = c->m->options->given_count && c->m->folded < MG_ONNX_FOLDED && c->in_count && all_known(c);
    if (!folds || !rule->fold(c, rule->fold_which))
        return out;
    for (uint32_t i = 0; i < c->out_count; i++) {
        out[i] = c->out[i] ? c->out[i]->data : NULL;
        c->out[i] = NULL;
    }
    return out;
}

static void attach(struct onnx_call *c, const struct mg_onnx_data *const *contents)
{
    for (uint32_t i = 0; i < c->out_count; i++)
        if (c->out[i] && contents[i] && !c->out[i]->data && c->out[i]->dtype == contents[i]->dtype &&
            mg_shape_equal(&c->out[i]->shape, &contents[i]->shape))
            c->out[i]->data = contents[i];
}

static void run_rule(struct onnx_call *c, const struct onnx_rule *rule)
{
    if (c->in_count < rule->min_in || c->in_count > rule->max_in) {
        mg_onnx_invalid(c, "has %u operands, where opset %lld takes %u to %u", c->in_count, (long long)c->opset,
                        rule->min_in, rule->max_in);
        return;
    }
    if (c->m->folded < MG_ONNX_FOLDED && all_constant(c) && rule->fold(c, rule->fold_which))
        return;
    const struct mg_onnx_data **contents = follow(c, rule);
    if (c->code == MG_OK && rule->rule)
        rule->rule(c, rule->which);
    if (c->code == MG_OK)
        attach(c, contents);
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
    if (c->code == MG_ERR_UNSUPPORTED && !function && mg_onnx_declared_results(c, shapes)) {
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

enum mg_code mg_onnx_add_node(struct onnx_scope *s, const struct onnx_node *node, uint32_t index)
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
    MG_TRY(bind_operands(c, &ready));
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

int64_t mg_onnx_opset_of(const struct onnx_list *opsets, int64_t otherwise)
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
    if (c->s->depth >= ONNX_MAX_NESTED) {
        c->code = mg_fail(c->m->err, MG_ERR_LIMIT, "", "functions call each other more than %d deep", ONNX_MAX_NESTED);
        return;
    }
    struct onnx_scope *body = MG_NEW(arena, struct onnx_scope);
    *body = (struct onnx_scope){.m = c->m, .caller = c->s, .call = c->node, .body = f, .depth = c->s->depth + 1};
    body->opset = mg_onnx_opset_of(&f->opsets, c->s->opset);
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
        struct onnx_value *value = mg_names_find(&body->values, ONNX_NAME(f->outputs, i));
        if (!value)
            mg_onnx_invalid(c, "the function's output '%.100s' is made by nothing", ONNX_NAME(f->outputs, i));
        mg_onnx_alias(c, i, value);
    }
}
