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

enum mg_code mg_job_request_graph(const struct mg_job_request *q, struct mg_arena *arena, struct mg_graph **out,
                                  struct mg_onnx_model *model, struct mg_error *err)
{
    struct mg_training training = q->training;
    bool trains = q->has_training;
    struct mg_graph *g = NULL;
    enum mg_code code = q->model  ? mg_zoo_build(q->model, q->options, (uint32_t)q->option_count, arena, &g, err)
                        : q->onnx ? read_onnx(q, arena, &g, model, err)
                                  : mg_graph_read(q->graph, q->graph_size, arena, &g, &training, &trains, err);
    bool within = q->graph >= q->document && q->graph < q->document + q->document_size;
    if (code == MG_ERR_SYNTAX && within && mg_request_find_syntax_error(q->document, q->document_size, arena, err))
        return err->code;
    if (q->has_training) {
        training = q->training;
        trains = true;
    }
    if (code == MG_OK && trains)
        code = mg_graph_differentiate(g, &training, arena, &g, err);
    if (code == MG_OK)
        code = mg_graph_normalise(g, arena, out, err);
    if (code != MG_OK && strncmp(err->pointer, "/symbols", 8) != 0)
        prefix_pointer(err, q->model ? "/zoo" : "/graph");
    return code;
}
