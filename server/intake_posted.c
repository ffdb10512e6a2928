/* What is posted: networks to optimize or to estimate, and timings. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "server/answer.h"
#include "server/intake_question.h"
#include "server/pack.h"
#include "server/timeline.h"
#include "server/timing_pack.h"
#include "server/timing_parse.h"

enum { MAX_OPERATORS = 200000 };
#define MAX_MODEL ((size_t)2 << 30) /* of an ONNX model; its weights are skipped */

/* The body by its media type: a request, and the graph within or beside it. */
static enum mg_code take_apart(struct mg_intake_ask *a, struct mg_error *err)
{
    const char *boundary = "", *query = "{}";
    if (a->media == MG_MEDIA_MULTIPART) {
        (void)!mg_intake_argument(a, "boundary", &boundary, NULL);
        return mg_posted_open_multipart(&a->posted, a->text, a->text_size, boundary, err);
    }
    if (a->media == MG_MEDIA_ONNX) {
        (void)!mg_intake_argument(a, "query", &query, NULL);
        return mg_posted_open_onnx(&a->posted, a->text, a->text_size, a->question->gzip, MAX_MODEL, query, &a->arena,
                                   err);
    }
    a->posted.request = a->text;
    a->posted.request_size = a->text_size;
    return MG_OK;
}

/* A graph that comes beside the request takes its place in it. */
static enum mg_code join(struct mg_intake_ask *a, struct mg_error *err)
{
    struct mg_job_request *q = &a->request;
    if (a->media == MG_MEDIA_JSON)
        return MG_OK;
    if (q->graph || q->model)
        return mg_fail(err, MG_ERR_INVALID, q->graph ? "/graph" : "/zoo", "the graph comes beside the request already");
    q->graph = a->posted.graph;
    q->graph_size = a->posted.graph_size;
    q->onnx = a->posted.has_onnx ? &a->posted.onnx : NULL;
    return MG_OK;
}

static enum mg_code read_posted(struct mg_intake_ask *a, struct mg_error *err)
{
    double max_seconds = 0;
    (void)!mg_intake_argument(a, "max_seconds", NULL, &max_seconds);
    struct mg_posted *posted = &a->posted;
    const struct mg_request_rules rules = {.detached = a->media != MG_MEDIA_JSON,
                                           .max_seconds = max_seconds,
                                           .device_dir = a->device_dir,
                                           .class_id = a->question->class_id,
                                           .class_model = a->question->class_model};
    enum mg_code code = take_apart(a, err);
    if (code == MG_OK)
        code = mg_job_request_read(posted->request, posted->request_size, &rules, &a->arena, &a->request, err);
    if (code != MG_OK && a->request.wanted_class[0]) {
        a->problem = "class-wanted"; /* the daemon looks it up and asks again */
        return mg_fail(err, MG_ERR_INVALID, "/device", "%s", a->request.wanted_class);
    }
    if (code == MG_OK)
        code = join(a, err);
    if (code != MG_OK)
        return code;
    a->problem = "invalid-graph";
    code = mg_job_request_graph(&a->request, &a->arena, &a->graph, NULL, err);
    if (code == MG_OK && a->graph->op_count > MAX_OPERATORS)
        code = mg_fail(err, MG_ERR_LIMIT, "/graph/ops", "more than %d operators", MAX_OPERATORS);
    if (code == MG_OK)
        a->problem = NULL;
    return code;
}

/* Of the graph with its names: graphs of one digest may differ in them, and plans repeat them. */
static void graph_key(const struct mg_graph *g, const struct mg_writer *text, char out[96])
{
    char names[65];
    mg_sha256_hex(text->data, text->size, names);
    snprintf(out, 96, "%.64s.%.16s", g->digest, names);
}

static void write_summary(struct mg_intake_ask *a, const char *key, const char *request_digest, const char *reuse_key)
{
    static const char *const priorities[] = {"interactive", "normal", "batch"};
    const struct mg_job_request *q = &a->request;
    struct mg_writer *w = &a->meta;
    mg_write_begin_object(w);
    mg_write_key(w, "request");
    mg_job_request_write(w, q);
    mg_write_member_string(w, "request_digest", request_digest);
    mg_write_member_string(w, "reuse_key", reuse_key);
    mg_write_member_string(w, "graph_digest", key);
    mg_write_member_string(w, "network", q->model ? q->model : a->graph->name);
    mg_write_member_string(w, "device", q->device.name);
    if (q->name)
        mg_write_member_string(w, "name", q->name);
    mg_write_key(w, "labels");
    mg_write_begin_object(w);
    for (size_t i = 0; i < q->label_count; i++)
        mg_write_member_string(w, q->labels[i].key, q->labels[i].value);
    mg_write_end_object(w);
    mg_write_member_string(w, "priority", priorities[q->priority]);
    mg_write_member_double(w, "seconds", q->seconds);
    mg_write_member_uint(w, "evaluations", q->evaluations);
    mg_write_member_double(w, "deadline_s", q->deadline_s);
    mg_write_member_bool(w, "fresh", q->fresh);
    mg_write_member_bool(w, "require_measured", q->require_measured);
    mg_write_key(w, "timings_models");
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < q->device.gpu_name_count && strcmp(q->timings, "model") != 0; i++)
        mg_write_string(w, q->device.gpu_names[i]);
    mg_write_end_array(w);
    mg_write_member_uint(w, "operators", a->graph->op_count);
    mg_write_member_uint(w, "values", a->graph->value_count);
    mg_write_end_object(w);
}

static void digest_of(const char *first, const char *second, char out[65])
{
    struct mg_sha256 hash;
    uint8_t bytes[32];
    mg_sha256_init(&hash);
    mg_sha256_update(&hash, first, strlen(first) + 1);
    mg_sha256_update(&hash, second, strlen(second));
    mg_sha256_final(&hash, bytes);
    for (unsigned i = 0; i < 32; i++)
        snprintf(out + (size_t)2 * i, 3, "%02x", bytes[i]);
}

enum mg_code mg_intake_submit(struct mg_intake_ask *a, struct mg_error *err)
{
    char key[96], steering[65], reuse_key[65], request_digest[65];
    enum mg_code code = read_posted(a, err);
    if (code == MG_OK)
        code = mg_job_request_digest(&a->request, steering, err);
    if (code != MG_OK)
        return code;
    struct mg_writer text, request;
    mg_writer_init(&text);
    mg_writer_init(&request);
    mg_graph_write(&text, a->graph);
    mg_job_request_write(&request, &a->request);
    if (mg_writer_finish(&text) && mg_writer_finish(&request) &&
        mg_pack(text.data, text.size, &a->blob, &a->blob_size)) {
        graph_key(a->graph, &text, key);
        digest_of(key, steering, reuse_key);
        digest_of(key, request.data, request_digest);
        write_summary(a, key, request_digest, reuse_key);
    } else {
        code = mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    }
    mg_writer_release(&text);
    mg_writer_release(&request);
    return code;
}

enum mg_code mg_intake_estimate(struct mg_intake_ask *a, struct mg_error *err)
{
    struct mg_plan *plan;
    struct mg_simulation simulation;
    struct mg_search_options options;
    const char *bound_op;
    enum mg_code code = read_posted(a, err);
    if (code != MG_OK)
        return code;
    mg_job_request_search_options(&a->request, &options);
    code = mg_plan_original(a->graph, options.device, &a->arena, &plan, err);
    if (code == MG_OK)
        code = mg_plan_simulate(a->graph, plan, &a->arena, &simulation, err);
    if (code != MG_OK)
        return code;
    struct mg_writer *w = &a->body;
    mg_write_begin_object(w);
    mg_write_key(w, "graph");
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", a->graph->name);
    mg_write_member_uint(w, "operators", a->graph->op_count);
    mg_write_member_uint(w, "values", a->graph->value_count);
    mg_write_member_string(w, "digest", a->graph->digest);
    mg_write_end_object(w);
    mg_write_member_string(w, "device", a->request.device.name);
    mg_write_key(w, "original");
    mg_write_begin_object(w);
    mg_write_member_double(w, "latency_s", plan->figures.latency_s);
    mg_write_member_uint(w, "peak_bytes", plan->figures.peak_bytes);
    mg_write_member_uint(w, "arena_bytes", plan->figures.arena_bytes);
    mg_write_end_object(w);
    mg_write_member_uint(w, "reserve_bytes", a->request.reserve_bytes);
    mg_write_member_uint(w, "lower_bound_bytes", mg_search_lower_bound(a->graph, &options, &bound_op));
    mg_write_member_string(w, "lower_bound_operator", bound_op);
    mg_timeline_write_hot(w, a->graph, plan, &simulation, 50, &a->arena);
    mg_write_key(w, "unsupported");
    mg_answer_write_unsupported(w, a->graph, &a->arena);
    mg_write_end_object(w);
    return MG_OK;
}

enum mg_code mg_intake_timings(struct mg_intake_ask *a, struct mg_error *err)
{
    struct mg_timing_batch *batches;
    size_t count;
    double lines = 0;
    (void)!mg_intake_argument(a, "lines", NULL, &lines);
    enum mg_code code =
        mg_timing_read(a->text, a->text_size, lines > 0, a->device_dir, &a->arena, &batches, &count, err);
    if (code == MG_OK && !mg_timing_pack_batches(batches, count, &a->blob, &a->blob_size))
        code = mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    return code;
}
