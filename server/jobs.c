/* The table of jobs, opening (recovery), the tick, draining, closing. */
#include "server/jobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/jobs_priv.h"
#include "store/timings.h"

enum {
    EXPIRE_TICKS = 60,
    PROBE_TICKS = 10,
    DRAIN_TICK_MS = 50,
    FIRST_EXPIRE = 5,
    EXPIRE_BATCH = 50,
    FOR_EVER_DAYS = 1000000
};

void mg_jobs_say(const mg_jobs *jobs, const char *level, const char *event, const char *fmt, ...)
{
    char text[2600];
    va_list args;
    if (!jobs->config.log)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    jobs->config.log(jobs->config.log_context, level, event, text);
}

char *mg_problem_document(const char *name, const char *detail, const char *pointer, json_t *members)
{
    char type[80];
    snprintf(type, sizeof type, "/errors/%s", name);
    json_t *root = members ? members : json_object();
    json_t *text = json_string(detail);
    json_object_set_new(root, "type", json_string(type));
    json_object_set_new(root, "detail", text ? text : json_string("(not text)"));
    if (pointer && *pointer)
        json_object_set_new(root, "pointer", json_string(pointer));
    char *out = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return out;
}

/* ---- the table ---- */

struct mg_job *mg_jobs_find(mg_jobs *jobs, const char *id)
{
    for (struct mg_job *job = jobs->first; job; job = job->next)
        if (strcmp(job->info.id, id) == 0)
            return job;
    return NULL;
}

struct mg_job_ref *mg_job_ref_new(mg_jobs *jobs, const struct mg_job *job)
{
    struct mg_job_ref *ref = calloc(1, sizeof *ref);
    if (!ref)
        abort();
    ref->jobs = jobs;
    ref->run = job->run ? job->run->number : 0;
    snprintf(ref->id, sizeof ref->id, "%s", job->info.id);
    return ref;
}

void *mg_jobs_copy(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    return copy;
}

char *mg_jobs_copy_text(const char *text)
{
    return text ? mg_jobs_copy(text, strlen(text) + 1) : NULL;
}

static void each_text(struct mg_store_job *info, void (*apply)(const char **text))
{
    const char **const texts[] = {&info->name,           &info->labels,         &info->owner,  &info->token,
                                  &info->network,        &info->device,         &info->gate,   &info->error,
                                  &info->graph_digest,   &info->request_digest, &info->result, &info->reused_from,
                                  &info->timings_models, &info->timings_class};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        apply(texts[i]);
}

static void own_text(const char **text)
{
    *text = mg_jobs_copy_text(*text);
}

static void free_text(const char **text)
{
    free((void *)(uintptr_t)*text);
    *text = NULL;
}

static void free_job(mg_jobs *jobs, struct mg_job *job)
{
    if (job->run) {
        if (job->run->worker)
            mg_worker_kill(job->run->worker);
        mg_run_free(jobs, job);
    }
    each_text(&job->info, free_text);
    mg_ending_free(job->ending);
    free(job);
}

void mg_jobs_drop(mg_jobs *jobs, const char *id)
{
    for (struct mg_job **at = &jobs->first; *at; at = &(*at)->next) {
        struct mg_job *job = *at;
        if (strcmp(job->info.id, id) != 0)
            continue;
        *at = job->next;
        free_job(jobs, job);
        return;
    }
}

/* The table keeps the newest ended jobs. Newest jobs stand first. */
static void forget_old(mg_jobs *jobs, const struct mg_job *but)
{
    unsigned ended = 0;
    struct mg_job **at = &jobs->first;
    while (*at) {
        struct mg_job *job = *at;
        if (mg_job_state_ended(job->info.state) && !job->run && ++ended > MG_RECENT_JOBS && job != but) {
            *at = job->next;
            free_job(jobs, job);
        } else {
            at = &job->next;
        }
    }
}

static void count_ended(mg_jobs *jobs, enum mg_job_state state)
{
    jobs->stats.succeeded += state == MG_JOB_SUCCEEDED;
    jobs->stats.failed += state == MG_JOB_FAILED;
    jobs->stats.cancelled += state == MG_JOB_CANCELLED;
}

struct mg_job *mg_jobs_update(mg_jobs *jobs, const struct mg_store_job *info)
{
    struct mg_job *job = mg_jobs_find(jobs, info->id);
    bool ended = job && mg_job_state_ended(job->info.state);
    if (!job) {
        job = calloc(1, sizeof *job);
        if (!job)
            abort();
        job->next = jobs->first;
        jobs->first = job;
    } else if (info->revision < job->info.revision) {
        return job; /* an older answer that came later */
    }
    struct mg_store_job old = job->info;
    job->info = *info;
    each_text(&job->info, own_text);
    each_text(&old, free_text);
    if (info->deadline_at > 0)
        job->deadline_at = info->deadline_at;
    if (!ended && mg_job_state_ended(info->state)) {
        count_ended(jobs, info->state);
        mg_calls_job_ended(jobs, &job->info);
        forget_old(jobs, job);
    }
    return job;
}

static bool is_failure(enum mg_store_code code)
{
    return code == MG_STORE_BUSY || code == MG_STORE_FULL || code == MG_STORE_IO || code == MG_STORE_CORRUPT ||
           code == MG_STORE_INTERNAL;
}

void mg_jobs_take(mg_jobs *jobs, const struct mg_store_result *result)
{
    jobs->store_failing = is_failure(result->code);
    if (!result->job)
        return;
    mg_jobs_update(jobs, result->job);
    for (size_t i = 0; i < result->n_events; i++)
        mg_listeners_tell(jobs, result->job->id, result->events[i].type, result->events[i].seq, result->events[i].data);
}

void mg_jobs_written(void *ctx, const struct mg_store_result *result)
{
    mg_jobs *jobs = ctx;
    mg_jobs_take(jobs, result);
    if (result->code != MG_STORE_OK && result->code != MG_STORE_CONFLICT)
        mg_jobs_say(jobs, "error", "store", "%s: %s", mg_store_code_name(result->code), result->message);
    mg_jobs_schedule(jobs);
}

bool mg_jobs_store_problem(mg_jobs *jobs, const struct mg_store_result *result, struct mg_reply *reply)
{
    switch (result->code) {
    case MG_STORE_OK:
        return false;
    case MG_STORE_NOT_FOUND:
        mg_reply_fail(reply, "not-found", "", "there is no such job");
        return true;
    case MG_STORE_CONFLICT:
        mg_reply_fail(reply, "conflict", "", "%s", result->message);
        return true;
    case MG_STORE_GONE:
        mg_reply_fail(reply, "plan-replaced", "", "%s", result->message);
        return true;
    case MG_STORE_INVALID:
        mg_reply_fail(reply, "bad-cursor", "", "%s", result->message);
        return true;
    case MG_STORE_FULL:
        mg_reply_fail(reply, "no-space", "", "the disk of the data directory is full");
        break;
    case MG_STORE_INTERNAL:
        mg_reply_fail(reply, "internal", "", "the store failed");
        break;
    default:
        mg_reply_fail(reply, "store-failed", "", "the store does not answer: %s", mg_store_code_name(result->code));
        reply->retry_after_s = 5;
    }
    jobs->store_failing = true;
    mg_jobs_say(jobs, "error", "store", "%s: %s", mg_store_code_name(result->code), result->message);
    return true;
}

/* ---- the tick ---- */

static void fail_overdue(mg_jobs *jobs, struct mg_job *job)
{
    const char *detail = job->info.state == MG_JOB_WAITING ? "the deadline passed before every operator was measured"
                         : job->put_off
                             ? "the deadline passed before a worker could be started; the daemon's log says why"
                             : "the deadline passed before a worker was free";
    char *error = mg_problem_document("deadline", detail, "", NULL);
    const struct mg_store_outcome outcome = {.state = MG_JOB_FAILED,
                                             .stopped_by = MG_STOP_DEADLINE,
                                             .error = error ? error : "{}",
                                             .lower_bound = -1,
                                             .smallest_found = -1};
    mg_job_finish(jobs, job, &outcome);
    free(error);
}

void mg_jobs_check_deadline(mg_jobs *jobs, struct mg_job *job, int64_t now)
{
    if (job->deadline_at == 0 || now < job->deadline_at || job->ending)
        return;
    if (job->run && job->run->worker && !job->run->stopping) {
        job->run->deadline = true;
        mg_run_stop(jobs, job);
    } else if (!job->run && (job->info.state == MG_JOB_QUEUED || job->info.state == MG_JOB_WAITING) &&
               job->info.attempts == 0) {
        fail_overdue(jobs, job);
    }
}

static void expire(mg_jobs *jobs);

static void on_expired(void *ctx, const struct mg_store_result *result)
{
    mg_jobs *jobs = ctx;
    jobs->store_failing = is_failure(result->code);
    for (size_t i = 0; i < result->n_jobs; i++)
        mg_jobs_drop(jobs, result->jobs[i].id);
    if (result->code == MG_STORE_OK && result->n_jobs)
        mg_jobs_say(jobs, "info", "expired", "%zu ended jobs", result->n_jobs);
    if (result->code == MG_STORE_OK && result->count == EXPIRE_BATCH && !jobs->draining)
        expire(jobs);
}

static void expire(mg_jobs *jobs)
{
    double days = jobs->config.keep_days ? jobs->config.keep_days : FOR_EVER_DAYS;
    mg_store_expire(jobs->config.store, days, (int64_t)jobs->config.max_store_bytes, EXPIRE_BATCH, on_expired, jobs);
}

/* Ends that the store did not take are tried for a while longer. */
static bool has_endings(const mg_jobs *jobs)
{
    const struct mg_job *job = jobs->first;
    while (job && !job->ending)
        job = job->next;
    return job && !jobs->hurry && jobs->ticks - jobs->drained_from < MG_STOP_GRACE_MS / DRAIN_TICK_MS;
}

static void finish_drain(mg_jobs *jobs)
{
    void (*drained)(void *context) = jobs->drained;
    if (!drained || jobs->running > 0 || mg_store_pending(jobs->config.store) > 0 || has_endings(jobs))
        return;
    jobs->drained = NULL;
    drained(jobs->drained_context);
}

void mg_jobs_tick(mg_jobs *jobs)
{
    int64_t now = mg_clock_wall_ms();
    jobs->ticks++;
    for (struct mg_job *job = jobs->first; job; job = job->next)
        if (!mg_job_state_ended(job->info.state)) {
            mg_jobs_check_deadline(jobs, job, now);
            mg_job_settle(jobs, job);
        }
    bool second = !jobs->draining || jobs->ticks % (MG_TICK_MS / DRAIN_TICK_MS) == 0;
    for (struct mg_job *job = jobs->first; job && second; job = job->next)
        mg_run_watch(jobs, job);
    mg_jobs_watch_store(jobs);
    if (jobs->draining) {
        finish_drain(jobs);
        return;
    }
    unsigned every = jobs->store_failing ? PROBE_TICKS : EXPIRE_TICKS; /* where nobody writes, this says how it is */
    if (jobs->opened && jobs->ticks % every == FIRST_EXPIRE)
        expire(jobs);
    mg_jobs_schedule(jobs); /* priorities rise while jobs wait; a claim may have failed */
}

static void on_tick(uv_timer_t *timer)
{
    mg_jobs_tick(timer->data);
}

/* ---- life ---- */

static void on_recovered(void *ctx, const struct mg_store_result *result)
{
    mg_jobs *jobs = ctx;
    int status = result->code == MG_STORE_OK ? 0 : UV_EIO;
    for (size_t i = 0; i < result->n_jobs; i++) {
        struct mg_job *job = mg_jobs_update(jobs, &result->jobs[i]);
        if (job->info.state == MG_JOB_VALIDATING)
            mg_jobs_read_again(jobs, job);
    }
    if (status == 0)
        mg_jobs_say(jobs, "info", "recovered", "%zu unfinished jobs", result->n_jobs);
    jobs->opened = status == 0;
    jobs->ready(jobs->ready_context, status);
    mg_jobs_schedule(jobs);
}

/* Never `opened`: nothing is scheduled, expired or admitted. */
static void on_at_rest(void *ctx, const struct mg_store_result *result)
{
    mg_jobs *jobs = ctx;
    jobs->ready(jobs->ready_context, result->code == MG_STORE_OK ? 0 : UV_EIO);
}

int mg_jobs_open(mg_jobs **out, const struct mg_jobs_config *config, void (*ready)(void *context, int status),
                 void *context)
{
    mg_jobs *jobs = calloc(1, sizeof *jobs);
    *out = jobs;
    if (!jobs)
        return UV_ENOMEM;
    jobs->config = *config;
    jobs->executable = strdup(config->executable);
    jobs->data_dir = strdup(config->data_dir);
    jobs->public_url = strdup(config->public_url ? config->public_url : "");
    jobs->ready = ready;
    jobs->ready_context = context;
    jobs->stats.claiming = true;
    uv_timer_init(config->loop, &jobs->tick);
    jobs->tick.data = jobs;
    uv_timer_start(&jobs->tick, on_tick, MG_TICK_MS, MG_TICK_MS);
    if (config->at_rest)
        mg_store_list_classes(config->store, on_at_rest, jobs); /* the store answers */
    else
        mg_store_recover(config->store, on_recovered, jobs);
    return 0;
}

void mg_jobs_drain(mg_jobs *jobs, void (*drained)(void *context), void *context)
{
    jobs->hurry = jobs->draining;
    jobs->draining = true;
    jobs->drained = drained;
    jobs->drained_context = context;
    for (struct mg_job *job = jobs->first; job; job = job->next)
        if (job->run)
            mg_run_stop(jobs, job);
    jobs->drained_from = jobs->ticks;
    uv_timer_start(&jobs->tick, on_tick, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

static void on_tick_closed(uv_handle_t *handle)
{
    mg_jobs *jobs = handle->data;
    free(jobs->executable);
    free(jobs->data_dir);
    free(jobs->public_url);
    free(jobs);
}

void mg_jobs_close(mg_jobs *jobs)
{
    for (struct mg_call *call = jobs->calls; call; call = call->next)
        call->done = NULL;
    /* Callbacks of the store name us: let them run while we are here. */
    for (unsigned i = 0; i < 5000 && mg_store_pending(jobs->config.store) > 0; i++)
        if (mg_store_poll(jobs->config.store) == 0)
            usleep(1000);
    /* Not before: they may have asked intake for more. */
    for (struct mg_call *call = jobs->calls; call; call = call->next)
        if (call->intake)
            mg_intake_forget(jobs->config.intake, call->intake);
    mg_timings_drop_all(jobs);
    mg_pendings_drop_all(jobs);
    while (jobs->calls) {
        struct mg_reply reply;
        mg_reply_init(&reply);
        mg_call_finish(jobs->calls, &reply);
    }
    mg_listeners_drop_all(jobs);
    while (jobs->first)
        mg_jobs_drop(jobs, jobs->first->info.id);
    uv_timer_stop(&jobs->tick);
    uv_close((uv_handle_t *)&jobs->tick, on_tick_closed);
}

void mg_jobs_stats(const mg_jobs *jobs, struct mg_jobs_stats *out)
{
    *out = jobs->stats;
    for (const struct mg_job *job = jobs->first; job; job = job->next) {
        out->validating += job->info.state == MG_JOB_VALIDATING;
        out->queued += job->info.state == MG_JOB_QUEUED || job->info.state == MG_JOB_WAITING;
        out->running += job->info.state == MG_JOB_RUNNING;
        out->cancelling += job->info.state == MG_JOB_CANCELLING;
    }
    out->workers = jobs->config.workers;
    out->workers_busy = jobs->running;
    out->draining = jobs->draining;
    out->store_lost = jobs->store_lost;
    out->disk_full = mg_jobs_disk_is_full(jobs);
    out->store_ok = jobs->opened && !jobs->store_failing;
}
