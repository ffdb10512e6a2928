/* What the file states of shapes: of results, of inputs and outputs, with its symbols bound. */
#include <stdio.h>
#include <string.h>

#include "formats/onnx_priv.h"

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

bool mg_onnx_declared_results(struct onnx_call *c, struct mg_onnx_data *shapes)
{
    for (uint32_t i = 0; i < c->out_count; i++) {
        const char *name = ONNX_NAME(c->node->outputs, i);
        if (!*name || !bind_shape(c->m, mg_names_find(&c->s->declared, name), &shapes[i]))
            return false;
    }
    return c->out_count > 0;
}

void mg_onnx_index_declared(struct onnx_scope *s, const struct onnx_list *infos)
{
    for (uint32_t i = 0; i < infos->count; i++) {
        struct onnx_value_info *info = ONNX_AT(*infos, struct onnx_value_info, i);
        if (info->name)
            *mg_names_at(&s->declared, s->m->arena, info->name) = info;
    }
}

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
        void **seen = mg_names_at(&m->symbols, m->arena, symbol);
        listed = true;
        if (!*seen && strlen(*open) < 300)
            *open = mg_arena_printf(m->arena, "%s%s%.100s", *open, **open ? ", " : "", symbol);
        *seen = m;
    }
    return listed ? MG_OK : mg_fail(m->err, MG_ERR_LIMIT, "", "input '%.200s' is too large", name);
}

enum mg_code mg_onnx_add_inputs(struct onnx_scope *s, const struct onnx_graph *graph)
{
    struct onnx_import *m = s->m;
    const char *open = "";
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        struct onnx_value_info *info = ONNX_AT(graph->inputs, struct onnx_value_info, i);
        info->name = info->name ? info->name : "";
        if (mg_names_find(&s->values, info->name))
            continue; /* an initialiser listed among the inputs, as IR version 3 wants it */
        struct onnx_value *value = MG_NEW(m->arena, struct onnx_value);
        struct mg_onnx_data shape;
        mg_onnx_define(s, info->name, value);
        if (!bind_shape(m, info, &shape)) {
            MG_TRY(fail_input(m, info, &open));
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

enum mg_code mg_onnx_add_outputs(struct onnx_scope *s, const struct onnx_graph *graph, const char *const *names)
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

/* ---- sizes given for what is not there ---- */

/* Whether the dimension d of a value is what `name` names: its symbol, or INPUT.N. */
static bool is_named(const char *name, const struct onnx_value_info *info, const struct onnx_dimension *dim, uint32_t d)
{
    char place[300];
    snprintf(place, sizeof place, "%.200s.%u", info->name ? info->name : "", d);
    return strcmp(name, place) == 0 || (dim->symbol && strcmp(name, dim->symbol) == 0);
}

static bool any_is_named(const char *name, const struct onnx_list *infos)
{
    for (uint32_t i = 0; i < infos->count; i++) {
        const struct onnx_value_info *info = ONNX_AT(*infos, struct onnx_value_info, i);
        const struct onnx_tensor_type *type = tensor_type(info);
        for (uint32_t d = 0; type && type->shape && d < type->shape->dims.count; d++)
            if (is_named(name, info, ONNX_AT(type->shape->dims, struct onnx_dimension, d), d))
                return true;
    }
    return false;
}

/* The symbols of the inputs, for a message. */
static const char *list_symbols(struct onnx_import *m, const struct onnx_list *inputs)
{
    const char *list = "";
    struct mg_names seen = {0};
    for (uint32_t i = 0; i < inputs->count; i++) {
        const struct onnx_tensor_type *type = tensor_type(ONNX_AT(*inputs, struct onnx_value_info, i));
        for (uint32_t d = 0; type && type->shape && d < type->shape->dims.count && strlen(list) < 200; d++) {
            const char *symbol = ONNX_AT(type->shape->dims, struct onnx_dimension, d)->symbol;
            if (!symbol || !*symbol || mg_names_find(&seen, symbol))
                continue;
            *mg_names_at(&seen, m->arena, symbol) = m;
            list = mg_arena_printf(m->arena, "%s%s%.60s", list, *list ? ", " : "", symbol);
        }
    }
    return *list ? list : "none by name";
}

enum mg_code mg_onnx_check_symbols(struct onnx_import *m, const struct onnx_graph *graph)
{
    for (uint32_t i = 0; i < m->options->symbol_count; i++) {
        const char *name = m->options->symbols[i].name;
        if (!any_is_named(name, &graph->inputs) && !any_is_named(name, &graph->outputs) &&
            !any_is_named(name, &graph->value_infos))
            return mg_fail(m->err, MG_ERR_INVALID, "/symbols", "the model has no symbol \"%.60s\"; it has %s", name,
                           list_symbols(m, &graph->inputs));
    }
    return MG_OK;
}
