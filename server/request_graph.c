/* From the request to the search: its options and its graph. */
#include <stdio.h>
#include <string.h>

#include "formats/formats.h"
#include "server/request_priv.h"

void mg_job_request_search_options(const struct mg_job_request *q, struct mg_search_options *out)
{
    *out = (struct mg_search_options){
        .device = &q->device,
        .memory_limit = q->memory_bytes ? q->memory_bytes - q->reserve_bytes : 0,
        .memory_ratio = q->memory_ratio,
        .latency_limit = q->latency_s,
        .latency_ratio = q->latency_ratio,
        .host_memory = q->host_memory_bytes,
        .max_evaluations = q->evaluations,
        .max_seconds = q->seconds,
        .seed = q->seed,
        .techniques = q->techniques,
        .numerics = q->numerics,
        .constraints = q->constraints,
        .constraint_count = (uint32_t)q->constraint_count,
    };
}

static void prefix_pointer(struct mg_error *err, const char *prefix)
{
    char pointer[sizeof err->pointer];
    snprintf(pointer, sizeof pointer, "%s%.*s", prefix, (int)(sizeof pointer - 16), err->pointer);
    memcpy(err->pointer, pointer, sizeof pointer);
}

static enum mg_code read_onnx(const struct mg_job_request *q, struct mg_arena *arena, struct mg_graph **out,
                              struct mg_onnx_model *model, struct mg_error *err)
{
    const struct mg_onnx_options options = {
        .symbols = q->symbols, .symbol_count = (uint32_t)q->symbol_count, .keep_data = q->keep_contents};
    struct mg_onnx_model ignored;
    model = model ? model : &ignored;
    enum mg_code code = mg_onnx_read(q->onnx, &options, arena, model, err);
    *out = model->graph;
    return code;
}

/* A graph on its way: what only leads to the normalised one lies in an arena of its own. */
struct draft {
    const struct mg_job_request *request;
    struct mg_arena scratch, *arena; /* of the draft; of what stays */
    struct mg_onnx_model *model;
    struct mg_graph **out;
};

/* Contents of an ONNX model stay with its graph. */
static struct mg_arena *arena_of(struct draft *d)
{
    return d->request->onnx && d->model ? d->arena : &d->scratch;
}

static enum mg_code build(struct draft *d, struct mg_graph **g, struct mg_error *err)
{
    const struct mg_job_request *q = d->request;
    struct mg_arena *arena = arena_of(d);
    struct mg_training training = q->training;
    bool trains = q->has_training;
    enum mg_code code = q->model  ? mg_zoo_build(q->model, q->options, (uint32_t)q->option_count, arena, g, err)
                        : q->onnx ? read_onnx(q, arena, g, d->model, err)
                                  : mg_graph_read(q->graph, q->graph_size, arena, g, &training, &trains, err);
    if (q->has_training) {
        training = q->training;
        trains = true;
    }
    return code == MG_OK && trains ? mg_graph_differentiate(*g, &training, arena, g, err) : code;
}

static enum mg_code build_and_normalise(void *context, struct mg_error *err)
{
    struct draft *d = context;
    const struct mg_job_request *q = d->request;
    struct mg_graph *g = NULL;
    enum mg_code code = build(d, &g, err);
    bool within = q->graph >= q->document && q->graph < q->document + q->document_size;
    if (code == MG_ERR_SYNTAX && within &&
        mg_request_find_syntax_error(q->document, q->document_size, &d->scratch, err))
        return err->code;
    if (code == MG_OK)
        code = mg_graph_normalise(g, d->arena, d->out, err);
    if (code != MG_OK && strncmp(err->pointer, "/symbols", 8) != 0)
        prefix_pointer(err, q->model ? "/zoo" : "/graph");
    return code;
}

enum mg_code mg_job_request_graph(const struct mg_job_request *q, struct mg_arena *arena, struct mg_graph **out,
                                  struct mg_onnx_model *model, struct mg_error *err)
{
    struct draft d = {.request = q, .arena = arena, .model = model, .out = out};
    mg_arena_init_within(&d.scratch, arena);
    enum mg_code code = mg_arena_guard(&d.scratch, build_and_normalise, &d, err);
    mg_arena_release(&d.scratch);
    return code;
}
