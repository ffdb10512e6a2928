/* magisd intake (internal): answers questions on the socketpair at descriptor 3, one at a time, each
 * under its own limit of processor time and with an arena of its own. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/child.h"
#include "server/file.h"
#include "server/intake_question.h"
#include "server/options.h"
#include "server/pack.h"

enum { GZIP_RATIO = 200 };

struct session {
    struct mg_wire_question question;
    int in, out;
    uint64_t memory_bytes;
    unsigned cpu_seconds;
    const char *device_dir;
};

bool mg_intake_argument(struct mg_intake_ask *a, const char *key, const char **text, double *number)
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

bool mg_intake_is(struct mg_intake_ask *a, const char *key, const char *value)
{
    const char *text = NULL;
    return mg_intake_argument(a, key, &text, NULL) && strcmp(text, value) == 0;
}

/* ---- one question ---- */

static enum mg_code answer_guarded(void *context, struct mg_error *err)
{
    struct mg_intake_ask *a = context;
    switch (a->question->kind) {
    case MG_INTAKE_SUBMIT:
        return mg_intake_submit(a, err);
    case MG_INTAKE_ESTIMATE:
        return mg_intake_estimate(a, err);
    case MG_INTAKE_GRAPH:
        return mg_intake_graph(a, err);
    case MG_INTAKE_TIMINGS:
        return mg_intake_timings(a, err);
    case MG_INTAKE_WANTS:
        return mg_intake_wants(a, err);
    case MG_INTAKE_REPRICE:
        return mg_intake_reprice(a, err);
    default:
        return mg_intake_plan(a, err);
    }
}

static const char *problem_of(const struct mg_intake_ask *a, enum mg_code code)
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

static void write_problem(struct mg_intake_ask *a, const char *problem, const struct mg_error *err)
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
static const char *decode(struct mg_intake_ask *a, char **plain)
{
    *plain = NULL;
    a->text = a->input;
    a->text_size = a->question->body_size;
    a->media = mg_intake_is(a, "media", "onnx")        ? MG_MEDIA_ONNX
               : mg_intake_is(a, "media", "multipart") ? MG_MEDIA_MULTIPART
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
    struct mg_intake_ask *ask;
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
static const char *decode_guarded(struct mg_intake_ask *a, char **plain, struct mg_error *err)
{
    struct decoding decoding = {a, plain, "too-much-memory"};
    return mg_arena_guard(&a->arena, run_decode, &decoding, err) == MG_OK ? decoding.problem : "too-much-memory";
}

static void explain_decoding(const struct mg_intake_ask *a, const char *problem, struct mg_error *err)
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

/* Says what is too large: the body may have a few bytes that ask for a network of any size. */
static void explain_memory(const struct mg_intake_ask *a, struct mg_error *err)
{
    unsigned long long budget = a->arena.limit;
    if (a->question->kind != MG_INTAKE_SUBMIT && a->question->kind != MG_INTAKE_ESTIMATE)
        return;
    if (a->request.model)
        mg_fail(err, MG_ERR_NOMEM, "/zoo",
                "the zoo's %.60s of this size takes more than the %llu bytes of memory that there are for a network",
                a->request.model, budget);
    else
        mg_fail(err, MG_ERR_NOMEM, a->request.graph ? "/graph" : "",
                "the network of the body takes more than the %llu bytes of memory that there are for one", budget);
}

static bool answer(struct mg_intake_ask *a)
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
        if (code == MG_ERR_NOMEM)
            explain_memory(a, &err);
        if (code != MG_OK)
            problem = problem_of(a, code);
    }
    if (problem)
        write_problem(a, problem, &err);
    mg_posted_close(&a->posted);
    free(plain);
    return problem != NULL;
}

static bool deliver(struct session *s, struct mg_intake_ask *a, bool failed)
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
    struct mg_intake_ask a = {.question = &s->question, .device_dir = s->device_dir};
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
