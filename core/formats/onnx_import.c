/* A model: inputs, initialisers, nodes in order (onnx_order.c), each by its rule (onnx_node.c), outputs. */
#include <stdio.h>
#include <string.h>

#include "formats/onnx_priv.h"

enum { NEWEST_OPSET = 25, MAX_NODES = 200000, MAX_REASONS = 200, FREE_NODES = 8000, CALLS = 8 };

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

struct onnx_value *mg_onnx_lookup(const struct onnx_scope *s, const char *name)
{
    for (; s; s = s->outer) {
        struct onnx_value *value = mg_names_find(&s->values, name);
        if (value)
            return value;
    }
    return NULL;
}

void mg_onnx_define(struct onnx_scope *s, const char *name, struct onnx_value *value)
{
    *mg_names_at(&s->values, s->m->arena, name) = value;
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
    const struct mg_onnx_data *data = value->data ? value->data : value->stored;
    if (data && value->value != MG_NONE)
        *MG_PUSH(m->g->arena, m->out->contents, m->out->content_count, m->out->content_capacity) =
            (struct mg_onnx_content){m->g->values[value->value].name, kept_data(m, data)};
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
        value->constant = value->data && !tensor->large;
        value->stored = value->data;
        value->data = value->constant ? value->data : NULL;
        mg_onnx_define(s, name, value);
    }
    return MG_OK;
}

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
            *mg_names_at(&m->functions, m->arena,
                         mg_arena_printf(m->arena, "%s\n%s", f->domain ? f->domain : "", f->name)) = f;
    }
}

/* Room for what the file seems to hold. A node that says something has some 64 bytes: what has less gets no room. */
static void reserve(struct onnx_import *m, const struct onnx_graph *graph)
{
    size_t most = m->out->bytes_read / 64, nodes = graph->nodes.count;
    size_t values = nodes + graph->initializers.count + graph->inputs.count;
    mg_graph_reserve(m->g, nodes < most ? nodes : most, values < most ? values : most);
}

static enum mg_code import(struct onnx_import *m)
{
    const struct onnx_graph *graph = m->model->graph;
    struct onnx_scope *s = MG_NEW(m->arena, struct onnx_scope);
    *s = (struct onnx_scope){.m = m, .prefix = "", .opset = mg_onnx_opset_of(&m->model->opsets, 11)};
    if (s->opset < 7)
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "opset %lld is older than 7: convert the model",
                       (long long)s->opset);
    if (s->opset > NEWEST_OPSET)
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "",
                       "opset %lld is newer than %d, the newest that is known: export the model with an older opset",
                       (long long)s->opset, NEWEST_OPSET);
    if (graph->sparse.count)
        return mg_fail(m->err, MG_ERR_UNSUPPORTED, "", "sparse initialisers are not supported");
    m->g = m->out->graph = mg_graph_new(m->graph_arena, graph->name ? graph->name : "");
    reserve(m, graph);
    const char **names = MG_NEW_ARRAY(m->arena, const char *, graph->outputs.count + 1);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const char *name = ONNX_AT(graph->outputs, struct onnx_value_info, i)->name;
        names[i] = name ? name : "";
    }
    index_functions(m);
    m->node_limit = FREE_NODES + CALLS * (uint64_t)graph->nodes.count;
    m->node_limit = m->node_limit > MAX_NODES ? MAX_NODES : m->node_limit;
    mg_onnx_index_declared(s, &graph->value_infos);
    mg_onnx_index_declared(s, &graph->outputs);
    MG_TRY(mg_onnx_add_initializers(s, graph));
    MG_TRY(mg_onnx_check_symbols(m, graph));
    MG_TRY(mg_onnx_add_inputs(s, graph));
    MG_TRY(mg_onnx_add_nodes(s, &graph->nodes, names, graph->outputs.count));
    MG_TRY(mg_onnx_add_outputs(s, graph, names));
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
    MG_TRY(mg_onnx_parse_model(request->source, &how, model));
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
    mg_arena_init_within(&reading, arena);
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
    MG_TRY(mg_onnx_parse_tensor(request->source, &how, &tensor));
    MG_TRY(mg_onnx_decode(&tensor, request->arena, "the tensor", &shape, &data, err));
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
