/* POST: the body goes to intake; within two seconds its answer makes a queued job (or is the refusal),
 * after that the job exists as `validating` and intake's answer comes to it later. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

#include "server/file.h"
#include "server/clock.h"
#include "server/jobs_priv.h"
#include "server/spawn.h"

enum { PATIENCE_MS = 2000 };

/* ---- what intake says about a request ---- */

static const char *text_of(const json_t *meta, const char *key)
{
    return json_string_value(json_object_get(meta, key));
}

static double number_of(const json_t *meta, const char *key)
{
    return json_number_value(json_object_get(meta, key));
}

struct normal {
    struct mg_store_request request;
    char *text, *labels, *models;
    void *graph;
    size_t graph_size;
};

static bool open_normal(struct normal *normal, const json_t *meta, const struct mg_reply *answer)
{
    memset(normal, 0, sizeof *normal);
    normal->graph_size = answer->body_size;
    normal->graph = mmap(NULL, normal->graph_size ? normal->graph_size : 1, PROT_READ, MAP_SHARED, answer->body_fd, 0);
    if (normal->graph == MAP_FAILED) {
        normal->graph = NULL;
        return false;
    }
    normal->text = json_dumps(json_object_get(meta, "request"), JSON_COMPACT | JSON_REAL_PRECISION(17));
    normal->labels = json_dumps(json_object_get(meta, "labels"), JSON_COMPACT);
    normal->models = json_dumps(json_object_get(meta, "timings_models"), JSON_COMPACT);
    normal->request =
        (struct mg_store_request){.request = normal->text,
                                  .request_digest = text_of(meta, "request_digest"),
                                  .graph = {normal->graph, normal->graph_size},
                                  .graph_digest = text_of(meta, "graph_digest"),
                                  .network = text_of(meta, "network"),
                                  .device = text_of(meta, "device"),
                                  .reuse_key = text_of(meta, "reuse_key"),
                                  .timings_models = normal->models,
                                  .require_measured = json_is_true(json_object_get(meta, "require_measured")),
                                  .seconds = number_of(meta, "seconds"),
                                  .evaluations = json_integer_value(json_object_get(meta, "evaluations"))};
    return normal->text && normal->labels && normal->models;
}

static void close_normal(struct normal *normal)
{
    if (normal->graph)
        munmap(normal->graph, normal->graph_size ? normal->graph_size : 1);
    free(normal->text);
    free(normal->labels);
    free(normal->models);
}

static int64_t deadline_of(const json_t *meta, int64_t created)
{
    double seconds = number_of(meta, "deadline_s");
    return seconds > 0 ? created + (int64_t)(seconds * 1000) : 0;
}

/* ---- the answer to the client ---- */

static void answer_or_wait(struct mg_call *call, const struct mg_store_job *info)
{
    call->created_status = 202;
    snprintf(call->id, sizeof call->id, "%s", info->id);
    if (call->submission.wait_s > 0 && !mg_job_state_ended(info->state)) {
        mg_call_wait(call, info->id, call->submission.wait_s);
        return;
    }
    if (mg_job_state_ended(info->state) && call->submission.wait_s > 0)
        call->created_status = 200;
    mg_call_answer_job(call, info);
}

static void answer_store_problem(struct mg_call *call, const struct mg_store_result *result)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    if (!mg_jobs_store_problem(call->jobs, result, &reply))
        mg_reply_fail(&reply, "internal", "", "the store did not say what became of the job");
    mg_call_finish(call, &reply);
}

/* ---- a queued job ---- */

static void on_reused(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    mg_jobs *jobs = call->jobs;
    struct mg_job *job = mg_jobs_find(jobs, call->id);
    if (job)
        job->held = false;
    mg_jobs_take(jobs, result);
    job = mg_jobs_find(jobs, call->id);
    if (result->code == MG_STORE_OK)
        jobs->stats.reused++;
    if (job) /* where there was nothing to copy any more, it is searched for */
        answer_or_wait(call, &job->info);
    else
        answer_store_problem(call, result);
    mg_jobs_schedule(jobs);
}

static void on_submitted(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    mg_jobs *jobs = call->jobs;
    if (result->code != MG_STORE_OK || !result->job) {
        answer_store_problem(call, result);
        return;
    }
    jobs->stats.submitted++;
    struct mg_job *job = mg_jobs_update(jobs, result->job);
    job->deadline_at = deadline_of(call->meta, job->info.created_at);
    for (size_t i = 0; i < result->n_events; i++)
        mg_listeners_tell(jobs, job->info.id, result->events[i].type, result->events[i].seq, result->events[i].data);
    if (call->reuse[0]) {
        job->held = true;
        snprintf(call->id, sizeof call->id, "%s", job->info.id);
        mg_store_reuse(jobs->config.store, call->id, call->reuse, on_reused, call);
        return;
    }
    answer_or_wait(call, &job->info);
    mg_jobs_schedule(jobs);
}

static void store_queued(struct mg_call *call)
{
    struct normal normal;
    int priority = mg_job_priority_parse(text_of(call->meta, "priority"));
    if (!open_normal(&normal, call->meta, &call->taken)) {
        close_normal(&normal);
        mg_call_fail(call, "internal", "the answer of intake cannot be read");
        return;
    }
    struct mg_store_submission submission = {.state = MG_JOB_QUEUED,
                                             .name = text_of(call->meta, "name"),
                                             .labels = normal.labels,
                                             .owner = call->owner,
                                             .token = call->owner,
                                             .priority =
                                                 priority < 0 ? MG_PRIORITY_NORMAL : (enum mg_job_priority)priority,
                                             .deadline_at = deadline_of(call->meta, mg_clock_wall_ms()),
                                             .normal = &normal.request};
    mg_store_submit(call->jobs->config.store, &submission, on_submitted, call);
    close_normal(&normal);
}

static void on_reusable(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    if (result->code == MG_STORE_OK && result->job)
        snprintf(call->reuse, sizeof call->reuse, "%s", result->job->id);
    store_queued(call);
}

static void queue_job(struct mg_call *call)
{
    const char *key = text_of(call->meta, "reuse_key");
    if (!key || json_is_true(json_object_get(call->meta, "fresh"))) {
        store_queued(call);
        return;
    }
    char *models = json_dumps(json_object_get(call->meta, "timings_models"), JSON_COMPACT);
    mg_store_find_reusable(call->jobs->config.store, key, number_of(call->meta, "seconds"), models ? models : "[]",
                           on_reusable, call);
    free(models);
}

/* ---- a body that intake has ---- */

/* Whoever comes first, intake's answer or the clock, decides what becomes of the call; after the clock
 * the job exists and the answer comes to it. */
struct mg_pending {
    struct mg_pending *next;
    mg_jobs *jobs;
    mg_ticket intake;
    struct mg_call *call; /* NULL: answered by the clock, or after a restart */
    char id[16];          /* of the validating job */
    bool storing;         /* the clock has gone off, the job is being stored */
    bool answered;        /* intake's answer came meanwhile */
    struct mg_reply answer;
    json_t *meta;
    int copy_fd; /* of the body */
    uv_timer_t clock;
};

static struct mg_pending *new_pending(mg_jobs *jobs, struct mg_call *call, const char *id)
{
    struct mg_pending *pending = calloc(1, sizeof *pending);
    if (!pending)
        abort();
    pending->jobs = jobs;
    pending->call = call;
    pending->copy_fd = -1;
    snprintf(pending->id, sizeof pending->id, "%s", id);
    mg_reply_init(&pending->answer);
    uv_timer_init(jobs->config.loop, &pending->clock);
    pending->clock.data = pending;
    pending->next = jobs->pendings;
    jobs->pendings = pending;
    return pending;
}

static void on_clock_closed(uv_handle_t *handle)
{
    struct mg_pending *pending = handle->data;
    if (pending->copy_fd >= 0)
        close(pending->copy_fd);
    json_decref(pending->meta);
    mg_reply_release(&pending->answer);
    free(pending);
}

static void end_pending(struct mg_pending *pending)
{
    struct mg_pending **at = &pending->jobs->pendings;
    while (*at != pending)
        at = &(*at)->next;
    *at = pending->next;
    uv_timer_stop(&pending->clock);
    uv_close((uv_handle_t *)&pending->clock, on_clock_closed);
}

void mg_pendings_drop_all(mg_jobs *jobs)
{
    while (jobs->pendings) {
        if (jobs->pendings->intake)
            mg_intake_forget(jobs->config.intake, jobs->pendings->intake);
        end_pending(jobs->pendings);
    }
}

static void fail_validating(struct mg_pending *pending)
{
    const struct mg_reply *answer = &pending->answer;
    struct mg_job *job = mg_jobs_find(pending->jobs, pending->id);
    char *error = mg_problem_document(answer->problem, answer->detail, answer->pointer, NULL);
    const struct mg_store_outcome outcome = {
        .state = MG_JOB_FAILED, .error = error ? error : "{}", .lower_bound = -1, .smallest_found = -1};
    if (job)
        mg_job_finish(pending->jobs, job, &outcome);
    free(error);
    end_pending(pending);
}

static void on_accepted(void *ctx, const struct mg_store_result *result)
{
    struct mg_pending *pending = ctx;
    mg_jobs *jobs = pending->jobs;
    mg_jobs_written(jobs, result);
    struct mg_job *job = mg_jobs_find(jobs, pending->id);
    if (result->code == MG_STORE_INVALID) {
        mg_reply_fail(&pending->answer, "internal", "", "%s", result->message);
        fail_validating(pending);
        return;
    }
    if (job && result->code == MG_STORE_OK) {
        char *labels = json_dumps(json_object_get(pending->meta, "labels"), JSON_COMPACT);
        job->deadline_at = deadline_of(pending->meta, job->info.created_at);
        mg_store_patch(jobs->config.store, pending->id, text_of(pending->meta, "name"), labels, mg_jobs_written, jobs);
        free(labels);
    }
    end_pending(pending);
    mg_jobs_schedule(jobs);
}

/* Intake's answer for a job that exists. Where it is lost, mg_job_settle has the body read again. */
static void settle(struct mg_pending *pending)
{
    struct normal normal;
    struct mg_reply *answer = &pending->answer;
    if (answer->problem && strcmp(answer->problem, "draining") == 0) {
        end_pending(pending); /* it stays `validating`: read again after the restart */
        return;
    }
    pending->meta = answer->members ? json_loads(answer->members, 0, NULL) : NULL;
    if (!answer->problem && !pending->meta)
        mg_reply_fail(answer, "internal", "", "the answer of intake cannot be read");
    if (answer->problem) {
        fail_validating(pending);
        return;
    }
    if (open_normal(&normal, pending->meta, answer)) {
        mg_store_accept(pending->jobs->config.store, pending->id, &normal.request, on_accepted, pending);
    } else {
        mg_jobs_say(pending->jobs, "error", "body", "job %s: the answer of intake cannot be read", pending->id);
        end_pending(pending);
    }
    close_normal(&normal);
}

static void take_reply(struct mg_reply *to, struct mg_reply *from)
{
    *to = *from;
    mg_reply_init(from);
}

static void answer_in_time(struct mg_call *call, struct mg_reply *reply)
{
    if (reply->problem) {
        mg_call_finish(call, reply);
        return;
    }
    take_reply(&call->taken, reply);
    call->meta = call->taken.members ? json_loads(call->taken.members, 0, NULL) : NULL;
    if (call->meta)
        queue_job(call);
    else
        mg_call_fail(call, "internal", "the answer of intake cannot be read");
}

static void on_read(void *context, struct mg_reply *reply)
{
    struct mg_pending *pending = context;
    struct mg_call *call = pending->call;
    pending->intake = 0;
    if (pending->storing) { /* the job is not there yet: on_validating goes on */
        pending->answered = true;
        take_reply(&pending->answer, reply);
    } else if (call) {
        end_pending(pending);
        answer_in_time(call, reply);
    } else {
        take_reply(&pending->answer, reply);
        settle(pending);
    }
}

static void on_validating(void *ctx, const struct mg_store_result *result)
{
    struct mg_pending *pending = ctx;
    struct mg_call *call = pending->call;
    mg_jobs *jobs = pending->jobs;
    pending->storing = false;
    pending->call = NULL;
    if (result->code != MG_STORE_OK || !result->job) {
        answer_store_problem(call, result);
        if (pending->intake)
            mg_intake_forget(jobs->config.intake, pending->intake);
        end_pending(pending);
        return;
    }
    snprintf(pending->id, sizeof pending->id, "%s", result->job->id);
    jobs->stats.submitted++;
    answer_or_wait(call, &mg_jobs_update(jobs, result->job)->info);
    if (pending->answered)
        settle(pending);
}

/* How a kept body is to be read again: "application/json", then "+gzip" if so, then the form. */
static char *body_type(const struct mg_call *call)
{
    const char *form = call->submission.form;
    size_t room = strlen(form) + 32;
    char *text = malloc(room);
    if (!text)
        abort();
    snprintf(text, room, "application/json%s%s", call->submission.gzip ? "+gzip" : "", form);
    return text;
}

static void on_clock(uv_timer_t *clock)
{
    struct mg_pending *pending = clock->data;
    struct mg_call *call = pending->call;
    char *type = body_type(call);
    const struct mg_store_submission submission = {.state = MG_JOB_VALIDATING,
                                                   .owner = call->owner,
                                                   .priority = MG_PRIORITY_NORMAL,
                                                   .body = {NULL, call->submission.body_size},
                                                   .body_fd = pending->copy_fd,
                                                   .body_type = type};
    pending->storing = true;
    mg_store_submit(pending->jobs->config.store, &submission, on_validating, pending);
    free(type);
}

/* ---- after a restart, or a failure ---- */

/* `form`: a JSON object whose members are passed on, or "". */
static char *intake_args(const mg_jobs *jobs, const char *form)
{
    size_t room = strlen(form) + 64;
    char *text = malloc(room);
    if (!text)
        abort();
    int size = snprintf(text, room, "{\"max_seconds\":%.17g", jobs->config.max_seconds);
    snprintf(text + size, room - (size_t)size, "%s%s", *form ? "," : "}", *form ? form + 1 : "");
    return text;
}

static void on_body(void *ctx, const struct mg_store_result *result)
{
    struct mg_pending *pending = ctx;
    mg_jobs *jobs = pending->jobs;
    int fd = result->code == MG_STORE_OK ? mg_memfd("body") : -1;
    if (fd < 0 || !mg_write_all(fd, result->blob.data, result->blob.size)) {
        mg_jobs_say(jobs, "error", "body", "job %s: %s", pending->id, result->message);
        if (fd >= 0)
            close(fd);
        end_pending(pending);
        return;
    }
    const char *type = result->text ? result->text : "", *form = strchr(type, '{');
    char *args = intake_args(jobs, form ? form : "");
    const struct mg_intake_question question = {.kind = MG_INTAKE_SUBMIT,
                                                .body_fd = fd,
                                                .body_size = result->blob.size,
                                                .gzip = strncmp(type, "application/json+gzip", 21) == 0,
                                                .args = args};
    pending->intake = mg_intake_ask(jobs->config.intake, &question, on_read, pending);
    free(args);
}

void mg_jobs_read_again(mg_jobs *jobs, struct mg_job *job)
{
    for (const struct mg_pending *pending = jobs->pendings; pending; pending = pending->next)
        if (strcmp(pending->id, job->info.id) == 0)
            return;
    struct mg_pending *pending = new_pending(jobs, NULL, job->info.id);
    mg_store_get_body(jobs->config.store, pending->id, on_body, pending);
}

static struct mg_call *new_submission(mg_jobs *jobs, const struct mg_submission *submission, mg_reply_cb done,
                                      void *context)
{
    struct mg_call *call = mg_call_new(jobs, "", done, context);
    call->submission = *submission;
    call->owner = strdup(submission->owner ? submission->owner : "");
    return call;
}

static mg_ticket ask_intake(struct mg_call *call, enum mg_intake_kind kind, mg_reply_cb done, void *context)
{
    char *args = intake_args(call->jobs, call->submission.form);
    const struct mg_intake_question question = {.kind = kind,
                                                .body_fd = call->submission.body_fd,
                                                .body_size = call->submission.body_size,
                                                .gzip = call->submission.gzip,
                                                .args = args};
    call->submission.body_fd = -1;
    mg_ticket ticket = mg_intake_ask(call->jobs->config.intake, &question, done, context);
    free(args);
    return ticket;
}

mg_ticket mg_jobs_submit(mg_jobs *jobs, const struct mg_submission *submission, mg_reply_cb done, void *context)
{
    struct mg_call *call = new_submission(jobs, submission, done, context);
    mg_ticket ticket = call->ticket;
    if (mg_call_refused(call, submission->owner ? submission->owner : ""))
        return ticket;
    struct mg_pending *pending = new_pending(jobs, call, "");
    pending->copy_fd = fcntl(submission->body_fd, F_DUPFD_CLOEXEC, 3);
    uv_timer_start(&pending->clock, on_clock, PATIENCE_MS, 0);
    pending->intake = ask_intake(call, MG_INTAKE_SUBMIT, on_read, pending);
    return ticket;
}

static void on_estimated(void *context, struct mg_reply *reply)
{
    struct mg_call *call = context;
    struct mg_reply taken;
    call->intake = 0;
    take_reply(&taken, reply);
    free(taken.members);
    taken.members = NULL;
    mg_call_finish(call, &taken);
}

mg_ticket mg_jobs_estimate(mg_jobs *jobs, const struct mg_submission *submission, mg_reply_cb done, void *context)
{
    struct mg_call *call = new_submission(jobs, submission, done, context);
    mg_ticket ticket = call->ticket;
    call->intake = ask_intake(call, MG_INTAKE_ESTIMATE, on_estimated, call);
    return ticket;
}
