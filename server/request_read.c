/* The whole request: one table of its members, what holds where they are not given, what excludes what. */
#include <string.h>

#include "server/request_priv.h"

static const struct mg_request_member request_members[] = {
    {"name", mg_request_read_text, MG_REQUEST_AT(name)},
    {"labels", mg_request_read_labels, 0},
    {"graph", mg_request_read_graph, 0},
    {"zoo", mg_request_read_zoo, 0},
    {"training", mg_request_read_training, 0},
    {"symbols", mg_request_read_symbols, 0},
    {"device", mg_request_read_device, MG_REQUEST_AT(device)},
    {"timings", mg_request_read_timings, MG_REQUEST_AT(timings)},
    {"limit", mg_request_read_limit, 0},
    {"host_memory_bytes", mg_request_read_uint, MG_REQUEST_AT(host_memory_bytes)},
    {"reserve_bytes", mg_request_read_reserve, MG_REQUEST_AT(reserve_bytes)},
    {"budget", mg_request_read_budget, 0},
    {"techniques", mg_request_read_techniques, MG_REQUEST_AT(techniques)},
    {"numerics", mg_request_read_numerics, MG_REQUEST_AT(numerics)},
    {"accumulate", mg_request_read_accumulate, 0},
    {"constraints", mg_request_read_constraints, 0},
    {"baselines", mg_request_read_baselines, 0},
    {"priority", mg_request_read_priority, MG_REQUEST_AT(priority)},
    {"fresh", mg_request_read_flag, MG_REQUEST_AT(fresh)},
    {"require_measured", mg_request_read_flag, MG_REQUEST_AT(require_measured)},
    {"supersedes", mg_request_refuse, 0},
    {"gate", mg_request_refuse, 0},
};

static void set_defaults(struct mg_job_request *q)
{
    memset(q, 0, sizeof *q);
    const struct mg_device *device = mg_device_builtin("rtx3090");
    if (device)
        q->device = *device;
    q->timings = "near";
    q->seed = 1;
    q->threads = 1;
    q->techniques = MG_TECHNIQUE_ALL & ~(uint32_t)MG_TECHNIQUE_WINDOW_FISSION;
    q->numerics = MG_NUMERICS_REASSOCIATE;
    q->priority = MG_REQUEST_NORMAL;
}

static enum mg_code check_source(const struct mg_job_request *q, const struct mg_request_rules *rules,
                                 struct mg_error *err)
{
    if (q->graph && q->model)
        return mg_fail(err, MG_ERR_INVALID, "/zoo", "graph and zoo exclude each other");
    if (q->symbol_count && q->model)
        return mg_fail(err, MG_ERR_INVALID, "/symbols", "symbols belong to an ONNX model");
    if (q->require_measured && strcmp(q->timings, "model") == 0)
        return mg_fail(err, MG_ERR_INVALID, "/require_measured", "timings: model uses no measured timings");
    if (!q->graph && !q->model && !rules->detached)
        return mg_fail(err, MG_ERR_INVALID, "", "a request needs a graph or a network of the zoo");
    return MG_OK;
}

static enum mg_code settle(struct mg_job_request *q, const struct mg_request_rules *rules, struct mg_arena *arena,
                           struct mg_error *err)
{
    if (!q->has_reserve)
        q->reserve_bytes = q->device.reserve_bytes;
    if (q->memory_bytes && q->memory_bytes <= q->reserve_bytes)
        return mg_fail(err, MG_ERR_INVALID, "/limit/memory_bytes",
                       "the limit of %llu bytes leaves nothing beside the reserve of %llu bytes",
                       (unsigned long long)q->memory_bytes, (unsigned long long)q->reserve_bytes);
    if (rules->max_seconds > 0 && q->seconds > rules->max_seconds)
        return mg_fail(err, MG_ERR_INVALID, "/budget/seconds", "at most %g seconds are allowed", rules->max_seconds);
    if (q->seconds <= 0 && q->evaluations == 0)
        q->seconds = rules->max_seconds > 0 && rules->max_seconds < 30 ? rules->max_seconds : 30;
    if (!q->has_baselines)
        for (size_t i = 0; i < MG_REQUEST_BASELINES; i++)
            *MG_PUSH(arena, q->baselines, q->baseline_count, q->baseline_capacity) = mg_request_baselines[i];
    return check_source(q, rules, err);
}

/* A graph is passed over by its brackets alone: where a document turns out not to be well-formed, the first place in
 * which that shows is looked for here. False: it is well-formed. */
bool mg_request_find_syntax_error(const char *json, size_t size, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_json reader;
    mg_json_init(&reader, arena, json, size);
    if (mg_json_skip(&reader, NULL, NULL) && mg_json_finish(&reader))
        return false;
    *err = reader.err;
    return true;
}

enum mg_code mg_job_request_read(const char *json, size_t size, const struct mg_request_rules *rules,
                                 struct mg_arena *arena, struct mg_job_request *out, struct mg_error *err)
{
    struct mg_json reader;
    mg_json_init(&reader, arena, json, size);
    struct mg_request_reader r = {&reader, arena, out, rules, NULL};
    set_defaults(out);
    out->document = json;
    out->document_size = size;
    if (!MG_READ_MEMBERS(&r, request_members) || !mg_json_finish(&reader)) {
        if (reader.err.code != MG_ERR_SYNTAX || !mg_request_find_syntax_error(json, size, arena, err))
            *err = reader.err;
        return err->code;
    }
    return settle(out, rules, arena, err);
}

bool mg_job_request_wants_baseline(const struct mg_job_request *request, const char *name)
{
    for (size_t i = 0; i < request->baseline_count; i++)
        if (strcmp(request->baselines[i], name) == 0)
            return true;
    return false;
}
