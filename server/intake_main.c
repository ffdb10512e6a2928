/* magisd intake (internal): answers questions on the socketpair at descriptor 3, one at a time, each
 * under its own limit of processor time and with an arena of its own. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/digest.h"
#include "export/export.h"
#include "formats/formats.h"
#include "server/answer.h"
#include "server/child.h"
#include "server/file.h"
#include "server/intake.h"
#include "server/options.h"
#include "server/pack.h"
#include "server/plan_blob.h"
#include "server/posted.h"
#include "server/reprice.h"
#include "server/request.h"
#include "server/timeline.h"
#include "server/timing_pack.h"
#include "server/timing_parse.h"
#include "server/timing_want.h"
#include "server/wire.h"

enum { GZIP_RATIO = 200, MAX_OPERATORS = 200000, MAX_GRAPH = 1 << 30 };
#define MAX_MODEL ((size_t)2 << 30) /* of an ONNX model; its weights are skipped */

struct session {
    struct mg_wire_question question;
    int in, out;
    uint64_t memory_bytes;
    unsigned cpu_seconds;
    const char *device_dir;
};
struct ask {
    const char *device_dir;
    const struct mg_wire_question *question;
    const char *input; /* the mapped memfd */
    size_t input_size;
    const char *text; /* the posted body after decoding */
    size_t text_size;
    enum mg_media media;
    struct mg_posted posted;
    struct mg_arena arena;
    struct mg_job_request request;
    struct mg_graph *graph;
    struct mg_writer body, meta;
    unsigned char *blob; /* the result instead of body */
    size_t blob_size;
    const char *problem; /* by default that of the error's code */
};

/* The member `key` of the small arguments as a number or a text. */
static bool find_argument(struct ask *a, const char *key, const char **text, double *number)
{
    struct mg_json json;
    const char *name;
    if (!*a->question->args)
        return false;
    mg_json_init(&json, &a->arena, a->question->args, strlen(a->question->args));
    if (!mg_json_enter_object(&json))
        return false;
    while (mg_json_next_member(&json, &name)) {
        if (strcmp(name, key) == 0)
            return text ? mg_json_string(&json, text, NULL) : mg_json_double(&json, number);
        if (!mg_json_skip(&json, NULL, NULL))
            return false;
    }
    return false;
}

static bool wants(struct ask *a, const char *key, const char *value)
{
    const char *text = NULL;
    return find_argument(a, key, &text, NULL) && strcmp(text, value) == 0;
}

/* ---- what is posted ---- */

/* The body by its media type: a request, and the graph within or beside it. */
static enum mg_code take_apart(struct ask *a, struct mg_error *err)
{
    const char *boundary = "", *query = "{}";
    if (a->media == MG_MEDIA_MULTIPART) {
        (void)!find_argument(a, "boundary", &boundary, NULL);
        return mg_posted_open_multipart(&a->posted, a->text, a->text_size, boundary, err);
    }
    if (a->media == MG_MEDIA_ONNX) {
        (void)!find_argument(a, "query", &query, NULL);
        return mg_posted_open_onnx(&a->posted, a->text, a->text_size, a->question->gzip, MAX_MODEL, query, &a->arena,
                                   err);
    }
    a->posted.request = a->text;
    a->posted.request_size = a->text_size;
    return MG_OK;
}

/* A graph that comes beside the request takes its place in it. */
static enum mg_code join(struct ask *a, struct mg_error *err)
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

static enum mg_code read_posted(struct ask *a, struct mg_error *err)
{
    double max_seconds = 0;
    (void)!find_argument(a, "max_seconds", NULL, &max_seconds);
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

static void write_summary(struct ask *a, const char *key, const char *request_digest, const char *reuse_key)
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

static enum mg_code answer_submit(struct ask *a, struct mg_error *err)
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

static enum mg_code answer_estimate(struct ask *a, struct mg_error *err)
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

/* ---- what is stored ---- */

static const char *part(const struct ask *a, unsigned which, size_t *size)
{
    uint64_t at = 0;
    for (unsigned i = 0; i < which; i++)
        at += a->question->part_size[i];
    *size = a->question->part_size[which];
    return at + *size <= a->input_size ? a->input + at : NULL;
}

static enum mg_code read_stored_graph(struct ask *a, struct mg_error *err)
{
    size_t packed_size, size;
    char *text;
    const char *packed = part(a, 1, &packed_size);
    if (!packed || !mg_unpack(packed, packed_size, MAX_GRAPH, &text, &size))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the stored graph is damaged");
    const char *copy = mg_arena_copy(&a->arena, text, size + 1);
    free(text);
    struct mg_training training;
    bool has_training = false;
    struct mg_graph *built;
    enum mg_code code = mg_graph_read(copy, size, &a->arena, &built, &training, &has_training, err);
    return code == MG_OK ? mg_graph_normalise(built, &a->arena, &a->graph, err) : code;
}

static enum mg_code answer_graph(struct ask *a, struct mg_error *err)
{
    size_t packed_size, size;
    if (wants(a, "format", "dot")) {
        enum mg_code code = read_stored_graph(a, err);
        if (code == MG_OK)
            mg_graph_write_dot(&a->body, a->graph);
        return code;
    }
    const char *packed = part(a, 1, &packed_size);
    if (!packed || !mg_unpack(packed, packed_size, MAX_GRAPH, (char **)&a->blob, &size))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the stored graph is damaged");
    a->blob_size = size;
    return MG_OK;
}

static enum mg_code answer_formats(struct ask *a, const struct mg_plan *plan, struct mg_error *err)
{
    mg_write_begin_object(&a->body);
    mg_write_key(&a->body, "formats");
    enum mg_code code = mg_export_write_formats(&a->body, a->graph, plan, &a->arena, err);
    mg_write_end_object(&a->body);
    return code;
}

static enum mg_code answer_plan(struct ask *a, struct mg_error *err)
{
    struct mg_plan *plan;
    size_t size;
    const char *blob = part(a, 2, &size);
    enum mg_code code = read_stored_graph(a, err);
    if (code == MG_OK && !blob)
        code = mg_fail(err, MG_ERR_INTERNAL, "", "the stored plan is missing");
    if (code == MG_OK)
        code = mg_plan_unpack(blob, size, &a->arena, &plan, err);
    if (code == MG_OK)
        code = mg_plan_derive(a->graph, plan, &a->arena, err);
    if (code != MG_OK)
        return code;
    if (a->question->kind == MG_INTAKE_TIMELINE)
        return mg_timeline_write(&a->body, a->graph, plan, &a->arena, err);
    if (a->question->kind == MG_INTAKE_FORMATS)
        return answer_formats(a, plan, err);
    const char *name = mg_export_name(MG_EXPORT_JSON);
    find_argument(a, "format", &name, NULL);
    enum mg_export_format format = mg_export_from_name(name);
    if (format == MG_EXPORT_COUNT)
        return mg_fail(err, MG_ERR_INTERNAL, "", "an unknown format");
    return mg_export_write(format, &a->body, a->graph, plan, NULL, &a->arena, err);
}

/* ---- timings ---- */

static enum mg_code answer_timings(struct ask *a, struct mg_error *err)
{
    struct mg_timing_batch *batches;
    size_t count;
    double lines = 0;
    (void)!find_argument(a, "lines", NULL, &lines);
    enum mg_code code =
        mg_timing_read(a->text, a->text_size, lines > 0, a->device_dir, &a->arena, &batches, &count, err);
    if (code == MG_OK && !mg_timing_pack_batches(batches, count, &a->blob, &a->blob_size))
        code = mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    return code;
}

static enum mg_code answer_wants(struct ask *a, struct mg_error *err)
{
    struct mg_timing_want *wants;
    size_t count, size;
    const struct mg_request_rules rules = {.detached = true, .device_dir = a->device_dir};
    const char *request = part(a, 0, &size);
    enum mg_code code = request ? mg_job_request_read(request, size, &rules, &a->arena, &a->request, err)
                                : mg_fail(err, MG_ERR_INTERNAL, "", "the stored request is missing");
    if (code == MG_OK)
        code = read_stored_graph(a, err);
    if (code != MG_OK)
        return code;
    mg_timing_wants_of(a->graph, &a->request.device, &a->arena, &wants, &count);
    return mg_timing_pack_wants(wants, count, &a->blob, &a->blob_size)
               ? MG_OK
               : mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
}

static enum mg_code answer_reprice(struct ask *a, struct mg_error *err)
{
    struct mg_reprice_head head = {"", "", 0, 0};
    size_t request_size, pack_size;
    double generation = 0, priced = 0;
    const struct mg_request_rules rules = {.detached = true, .device_dir = a->device_dir};
    const char *request = part(a, 0, &request_size), *pack = part(a, 2, &pack_size);
    if (!request || !pack || !find_argument(a, "class", &head.device_class, NULL) ||
        !find_argument(a, "priced_class", &head.priced_class, NULL) ||
        !find_argument(a, "generation", NULL, &generation) || !find_argument(a, "priced_generation", NULL, &priced))
        return mg_fail(err, MG_ERR_INTERNAL, "", "what is to be priced anew is damaged");
    head.generation = (int64_t)generation;
    head.priced_generation = (int64_t)priced;
    enum mg_code code = mg_job_request_read(request, request_size, &rules, &a->arena, &a->request, err);
    if (code == MG_OK)
        code = read_stored_graph(a, err);
    return code ? code : mg_reprice_write(&a->body, a->graph, &a->request, pack, pack_size, &head, &a->arena, err);
}

/* ---- one question ---- */

static enum mg_code answer_guarded(void *context, struct mg_error *err)
{
    struct ask *a = context;
    switch (a->question->kind) {
    case MG_INTAKE_SUBMIT:
        return answer_submit(a, err);
    case MG_INTAKE_ESTIMATE:
        return answer_estimate(a, err);
    case MG_INTAKE_GRAPH:
        return answer_graph(a, err);
    case MG_INTAKE_TIMINGS:
        return answer_timings(a, err);
    case MG_INTAKE_WANTS:
        return answer_wants(a, err);
    case MG_INTAKE_REPRICE:
        return answer_reprice(a, err);
    default:
        return answer_plan(a, err);
    }
}

static const char *problem_of(const struct ask *a, enum mg_code code)
{
    switch (code) {
    case MG_ERR_SYNTAX:
        return a->problem && a->media != MG_MEDIA_JSON ? a->problem : "invalid-json";
    case MG_ERR_UNSUPPORTED:
        return "unsupported";
    case MG_ERR_INVALID:
    case MG_ERR_LIMIT:
        return a->problem ? a->problem : "invalid-request";
    case MG_ERR_NOMEM:
        return "too-much-memory";
    default:
        return "internal";
    }
}

static void write_problem(struct ask *a, const char *problem, const struct mg_error *err)
{
    mg_writer_release(&a->body);
    mg_writer_release(&a->meta);
    mg_writer_init(&a->body);
    mg_writer_init(&a->meta);
    free(a->blob);
    a->blob = NULL;
    a->blob_size = 0;
    mg_write_begin_object(&a->meta);
    mg_write_member_string(&a->meta, "problem", problem);
    mg_write_member_string(&a->meta, "pointer", err->pointer);
    mg_write_member_string(&a->meta, "detail", err->message);
    mg_write_end_object(&a->meta);
}

/* Decodes the body if it is compressed; *plain is to be freed. */
static const char *decode(struct ask *a, char **plain)
{
    *plain = NULL;
    a->text = a->input;
    a->text_size = a->question->body_size;
    a->media = wants(a, "media", "onnx")        ? MG_MEDIA_ONNX
               : wants(a, "media", "multipart") ? MG_MEDIA_MULTIPART
                                                : MG_MEDIA_JSON;
    if (a->media == MG_MEDIA_ONNX)
        return NULL; /* read as it is inflated, however large */
    if (!a->question->gzip)
        return a->text_size <= a->question->max_body ? NULL : "too-large";
    switch (mg_gunzip(a->input, a->text_size, a->question->max_body, GZIP_RATIO, plain, &a->text_size)) {
    case MG_GUNZIP_OK:
        a->text = *plain;
        return NULL;
    case MG_GUNZIP_DAMAGED:
        return "bad-encoding";
    default:
        return "too-large";
    }
}

struct decoding {
    struct ask *ask;
    char **plain;
    const char *problem;
};

static enum mg_code run_decode(void *context, struct mg_error *err)
{
    struct decoding *decoding = context;
    (void)err;
    decoding->problem = decode(decoding->ask, decoding->plain);
    return MG_OK;
}

/* The arguments are read in the arena. */
static const char *decode_guarded(struct ask *a, char **plain, struct mg_error *err)
{
    struct decoding decoding = {a, plain, "too-much-memory"};
    return mg_arena_guard(&a->arena, run_decode, &decoding, err) == MG_OK ? decoding.problem : "too-much-memory";
}

static void explain_decoding(const struct ask *a, const char *problem, struct mg_error *err)
{
    unsigned long long limit = a->question->max_body;
    if (err->code != MG_OK)
        return; /* said already */
    if (strcmp(problem, "bad-encoding") == 0)
        mg_fail(err, MG_ERR_SYNTAX, "", "the body is no gzip file, or it is cut off or damaged");
    else if (a->question->gzip)
        mg_fail(err, MG_ERR_LIMIT, "",
                "the body decodes to more than %llu bytes, or to more than %d times its own size", limit,
                (int)GZIP_RATIO);
    else
        mg_fail(err, MG_ERR_LIMIT, "", "the body is larger than %llu bytes", limit);
}

static bool answer(struct ask *a)
{
    struct mg_error err = {.code = MG_OK};
    char *plain = NULL;
    bool posted = a->question->kind == MG_INTAKE_SUBMIT || a->question->kind == MG_INTAKE_ESTIMATE ||
                  a->question->kind == MG_INTAKE_TIMINGS;
    const char *problem = posted ? decode_guarded(a, &plain, &err) : NULL;
    if (problem) {
        explain_decoding(a, problem, &err);
    } else {
        enum mg_code code = mg_arena_guard(&a->arena, answer_guarded, a, &err);
        if (code != MG_OK)
            problem = problem_of(a, code);
    }
    if (problem)
        write_problem(a, problem, &err);
    mg_posted_close(&a->posted);
    free(plain);
    return problem != NULL;
}

static bool deliver(struct session *s, struct ask *a, bool failed)
{
    bool good = a->blob || mg_writer_finish(&a->body);
    good = mg_writer_finish(&a->meta) && good;
    const void *body = a->blob ? a->blob : (const void *)a->body.data;
    size_t size = a->blob ? a->blob_size : a->body.size;
    good = good && mg_write_all(s->out, body, size) && mg_write_all(s->out, a->meta.data, a->meta.size);
    struct mg_wire_answer reply = {
        .id = s->question.id, .failed = failed || !good, .body_size = size, .meta_size = good ? a->meta.size : 0};
    return send(MG_WIRE_FD, &reply, sizeof reply, MSG_NOSIGNAL) == (ssize_t)sizeof reply;
}

/* Restarts the clock of RLIMIT_CPU, which counts whole seconds of the process's life. */
static void limit_processor_time(unsigned seconds)
{
    struct rusage usage;
    struct rlimit limit;
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_CPU, &limit);
    limit.rlim_cur = (rlim_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1) + seconds;
    setrlimit(RLIMIT_CPU, &limit);
}

static bool serve_one(struct session *s)
{
    struct ask a = {.question = &s->question, .device_dir = s->device_dir};
    struct mg_file input;
    if (mg_file_map(&input, s->in)) {
        a.input = input.data;
        a.input_size = input.size;
    }
    mg_arena_init(&a.arena, s->memory_bytes - s->memory_bytes / 4);
    mg_writer_init(&a.body);
    mg_writer_init(&a.meta);
    limit_processor_time(s->cpu_seconds);
    bool failed = answer(&a);
    bool good = deliver(s, &a, failed);
    free(a.blob);
    mg_writer_release(&a.body);
    mg_writer_release(&a.meta);
    mg_arena_release(&a.arena);
    mg_file_close(&input);
    close(s->in);
    close(s->out);
    return good;
}

/* argv: intake PARENT MEMORY_BYTES CPU_SECONDS DEVICE_DIR */
int mg_cmd_intake(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "magisd intake is started by magisd serve\n");
        return MG_EXIT_USAGE;
    }
    struct session s = {.memory_bytes = strtoull(argv[2], NULL, 10),
                        .cpu_seconds = (unsigned)strtoul(argv[3], NULL, 10),
                        .device_dir = *argv[4] ? argv[4] : NULL};
    const struct mg_child_limits limits = {.memory_bytes = s.memory_bytes, .file_bytes = 1u << 30, .oom_score = 500};
    signal(SIGTERM, SIG_IGN); /* it goes when the daemon does */
    if (!mg_child_settle(&limits, strtol(argv[1], NULL, 10)))
        return MG_EXIT_FAILED;
    for (;;) {
        int fds[2], heard = mg_wire_hear(MG_WIRE_FD, &s.question, fds);
        if (heard <= 0)
            return heard == 0 ? MG_EXIT_DONE : MG_EXIT_FAILED;
        s.in = fds[0];
        s.out = fds[1];
        if (!serve_one(&s))
            return MG_EXIT_FAILED;
    }
}
