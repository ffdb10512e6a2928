/* A job while it holds a worker: claim, load, start; then what the worker says goes to jobs_front.c and jobs_end.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/jobs_priv.h"

static const uint64_t spool_bytes = 2ull << 30, memory_bytes = 4ull << 30;

/* ---- what the worker says ---- */

static void on_point(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    if (event->series) {
        mg_run_keep_baseline(job->run, event);
        return;
    }
    if (event->original)
        mg_run_save_original(jobs, job, event);
    mg_run_add_point(job->run, &event->point)->spooled = event->spooled;
}

static void on_exit_seen(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    if (!job->run->finished)
        mg_run_death(jobs, job, event);
    job->run->worker = NULL;
    mg_run_free(jobs, job);
    mg_jobs_schedule(jobs);
}

/* An evaluations job's result must not depend on what came before the restart. */
static bool keeps_earlier(const struct mg_job *job)
{
    return job->info.budget_evaluations == 0;
}

static void on_worker(void *context, const struct mg_worker_event *event)
{
    struct mg_job_ref *ref = context;
    mg_jobs *jobs = ref->jobs;
    struct mg_job *job = mg_jobs_find(jobs, ref->id);
    bool exits = event->kind == MG_WORKER_EXIT;
    if (exits)
        free(ref);
    if (!job || !job->run || (job->run->finished && !exits))
        return;
    job->run->silent = 0;
    switch (event->kind) {
    case MG_WORKER_POINT:
        on_point(jobs, job, event);
        break;
    case MG_WORKER_BASELINE:
        mg_run_save_baseline(jobs, job, event);
        break;
    case MG_WORKER_FRONT:
        mg_run_save_front(jobs, job, event, keeps_earlier(job) || !event->final);
        break;
    case MG_WORKER_PROGRESS:
        mg_run_progress(jobs, job, event);
        break;
    case MG_WORKER_ALIVE:
        break;
    case MG_WORKER_REJECTED:
        mg_jobs_say(jobs, "error", "plan-rejected", "job %s: %s: %s", job->info.id, event->code, event->message);
        break;
    case MG_WORKER_END:
        mg_run_end(jobs, job, event);
        break;
    case MG_WORKER_ERROR:
        mg_run_error(jobs, job, event);
        break;
    case MG_WORKER_EXIT:
        on_exit_seen(jobs, job, event);
        break;
    }
}

/* ---- the start ---- */

static void free_starts(struct mg_run *run)
{
    for (size_t i = 0; i < run->start_count; i++)
        free((void *)(uintptr_t)run->starts[i].data);
    run->start_count = 0;
}

void mg_run_free(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    mg_jobs_note_time(jobs, job);
    free_starts(run);
    mg_run_free_kept(run);
    free(run->known);
    if (run->timings_fd >= 0)
        close(run->timings_fd);
    free(run);
    job->run = NULL;
    jobs->running--;
}

/* Nothing was started. Counts against claiming as a death does, so that a cause that stays is not met again and again
 * without a pause. What is the job's own fault ends it. */
static void abandon(mg_jobs *jobs, struct mg_job *job, bool own_fault, const char *problem, const char *what,
                    const char *why)
{
    char detail[MG_WORKER_WHY + 200];
    snprintf(detail, sizeof detail, "%s: %s", what, why);
    mg_jobs_say(jobs, "error", "worker-start", "job %s: %s", job->info.id, detail);
    mg_jobs_note_death(jobs);
    if (own_fault && job->info.state == MG_JOB_RUNNING)
        mg_run_fail(jobs, job, mg_problem_document(problem, detail, "", NULL));
    else
        mg_run_put_off(jobs, job, MG_REQUEUE_UNSTARTED, problem, detail);
    mg_run_free(jobs, job);
}

static bool is_gone(enum mg_store_code code)
{
    return code == MG_STORE_NOT_FOUND || code == MG_STORE_GONE;
}

/* What the store has of the job cannot be read: it is damaged, or the store fails for now. */
static void abandon_unread(mg_jobs *jobs, struct mg_job *job, const char *what, const struct mg_store_result *result)
{
    bool damaged = result->code == MG_STORE_OK || result->code == MG_STORE_INVALID ||
                   result->code == MG_STORE_CORRUPT || is_gone(result->code);
    abandon(jobs, job, damaged, "store-failed", what,
            *result->message ? result->message : mg_store_code_name(result->code));
}

static void read_limits(struct mg_job *job, const json_t *request)
{
    struct mg_run *run = job->run;
    const json_t *limit = json_object_get(request, "limit");
    json_int_t bytes = json_integer_value(json_object_get(limit, "memory_bytes"));
    json_int_t reserve = json_integer_value(json_object_get(request, "reserve_bytes"));
    run->limited = json_object_size(limit) > 0;
    run->limits.latency_s = json_number_value(json_object_get(limit, "latency_s"));
    run->limits.arena_bytes = bytes > reserve ? (uint64_t)(bytes - reserve) : 0;
    run->latency_ratio = json_number_value(json_object_get(limit, "latency_ratio"));
    run->memory_ratio = json_number_value(json_object_get(limit, "memory_ratio"));
}

/* A seconds job goes on where it was; one with an evaluations budget starts over. */
static void set_base(struct mg_job *job)
{
    const struct mg_store_job *info = &job->info;
    if (info->budget_evaluations > 0 || info->budget_seconds <= 0 || info->elapsed_s <= 0)
        return;
    job->run->resumes = true;
    job->run->base_elapsed = info->elapsed_s;
    job->run->fraction = info->elapsed_s < info->budget_seconds ? info->elapsed_s / info->budget_seconds : 1;
}

/* Search time for this attempt; 0: as the request says. */
static double seconds_of(const mg_jobs *jobs, const struct mg_job *job)
{
    double budget = job->info.budget_seconds;
    if (job->run->resumes)
        return budget - job->run->base_elapsed > 0.5 ? budget - job->run->base_elapsed : 0.5;
    return budget > 0 ? 0 : jobs->config.max_seconds;
}

/* When the worker's search time is over; one with evaluations alone has none. */
static uint64_t due_at(const mg_jobs *jobs, const struct mg_job *job)
{
    double left = seconds_of(jobs, job);
    if (job->info.budget_seconds <= 0 && job->info.budget_evaluations > 0)
        return 0;
    return uv_now(jobs->config.loop) + (uint64_t)((left > 0 ? left : job->info.budget_seconds) * 1000);
}

static void launch(mg_jobs *jobs, struct mg_job *job, const struct mg_store_result *work)
{
    struct mg_job_ref *ref = mg_job_ref_new(jobs, job);
    json_t *request = json_loads(work->text, 0, NULL);
    read_limits(job, request);
    json_decref(request);
    const struct mg_worker_config config = {.loop = jobs->config.loop,
                                            .executable = jobs->executable,
                                            .data_dir = jobs->data_dir,
                                            .memory_bytes = memory_bytes,
                                            .spool_bytes = spool_bytes,
                                            .request = work->text,
                                            .request_size = strlen(work->text),
                                            .graph = work->blob.data,
                                            .graph_size = work->blob.size,
                                            .starts = job->run->starts,
                                            .start_count = job->run->start_count,
                                            .seconds = seconds_of(jobs, job),
                                            .timings_fd = job->run->timings_fd};
    char why[MG_WORKER_WHY];
    job->run->worker = mg_worker_start(&config, on_worker, ref, why);
    free_starts(job->run);
    if (!job->run->worker) {
        free(ref);
        abandon(jobs, job, false, "worker-start", "the search worker could not be started", why);
        return;
    }
    jobs->stats.worker_starts++;
    job->run->due_at = due_at(jobs, job);
    if (jobs->draining || job->info.state == MG_JOB_CANCELLING)
        mg_run_stop(jobs, job);
}

static void on_start(void *ctx, const struct mg_store_result *result);

static void on_work(void *ctx, const struct mg_store_result *result)
{
    struct mg_job_ref *ref = ctx;
    mg_jobs *jobs = ref->jobs;
    struct mg_job *job = mg_jobs_find(jobs, ref->id);
    free(ref);
    if (!job || !job->run)
        return;
    if (result->code != MG_STORE_OK || !result->text)
        abandon_unread(jobs, job, "the job's graph could not be read", result);
    else
        launch(jobs, job, result);
}

/* A seconds job goes on from the plans of its earlier attempts: fetches the next one, at last the work. */
static void fetch(struct mg_run *run, struct mg_job_ref *ref)
{
    struct mg_store *store = ref->jobs->config.store;
    if (run->resumes && run->fetched < run->published_count)
        mg_store_get_plan(store, ref->id, run->published[run->fetched++].id, on_start, ref);
    else
        mg_store_get_work(store, ref->id, on_work, ref);
}

static void on_start(void *ctx, const struct mg_store_result *result)
{
    struct mg_job_ref *ref = ctx;
    struct mg_job *job = mg_jobs_find(ref->jobs, ref->id);
    if (!job || !job->run) {
        free(ref);
        return;
    }
    struct mg_run *run = job->run;
    if (result->code != MG_STORE_OK && !is_gone(result->code)) {
        abandon_unread(ref->jobs, job, "a plan of an earlier attempt could not be read", result);
        free(ref);
        return;
    }
    if (result->code == MG_STORE_OK && result->blob.size)
        run->starts[run->start_count++] =
            (struct mg_worker_start){mg_jobs_copy(result->blob.data, result->blob.size), result->blob.size};
    fetch(run, ref);
}

/* Points of an earlier attempt: they stand until covered. */
static void on_earlier(void *ctx, const struct mg_store_result *result)
{
    struct mg_job_ref *ref = ctx;
    mg_jobs *jobs = ref->jobs;
    struct mg_job *job = mg_jobs_find(jobs, ref->id);
    if (!job || !job->run) {
        free(ref);
        return;
    }
    if (result->code != MG_STORE_OK && !is_gone(result->code)) {
        abandon_unread(jobs, job, "the front of an earlier attempt could not be read", result);
        free(ref);
        return;
    }
    struct mg_run *run = job->run;
    for (size_t i = 0; i < result->n_points; i++) {
        const struct mg_store_point *point = &result->points[i];
        if (point->kind != MG_POINT_FRONT || !point->plan || run->published_count == MG_FRONT_MAX)
            continue;
        struct mg_front_point front = {.latency_s = point->latency_s,
                                       .peak_bytes = (uint64_t)point->peak,
                                       .arena_bytes = (uint64_t)point->arena,
                                       .host_bytes = (uint64_t)point->host};
        snprintf(front.id, sizeof front.id, "%s", point->plan);
        struct mg_known_point *known = mg_run_add_point(run, &front);
        known->earlier = known->sent = known->stored = true;
        run->published[run->published_count++] = front;
    }
    fetch(run, ref);
}

static void load(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_job_ref *ref = mg_job_ref_new(jobs, job);
    if (job->info.attempts > 1)
        mg_store_get_front(jobs->config.store, ref->id, on_earlier, ref);
    else
        mg_store_get_work(jobs->config.store, ref->id, on_work, ref);
}

static void on_claimed(void *ctx, const struct mg_store_result *result)
{
    struct mg_job_ref *ref = ctx;
    mg_jobs *jobs = ref->jobs;
    mg_jobs_take(jobs, result);
    struct mg_job *job = mg_jobs_find(jobs, ref->id);
    free(ref);
    if (!job || !job->run)
        return;
    if (result->code == MG_STORE_OK) {
        mg_timings_pin(jobs, job, load);
        return;
    }
    mg_run_free(jobs, job); /* the tick tries again */
}

void mg_run_start(mg_jobs *jobs, struct mg_job *job)
{
    job->run = calloc(1, sizeof *job->run);
    if (!job->run)
        abort();
    jobs->running++;
    job->run->number = ++jobs->runs;
    job->run->timings_fd = -1;
    set_base(job);
    job->run->started_at = job->run->saved_at = uv_now(jobs->config.loop);
    mg_store_claim(jobs->config.store, job->info.id, mg_clock_wall_ms() + 3600000, on_claimed,
                   mg_job_ref_new(jobs, job));
}

void mg_run_stop(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    if (!run || !run->worker)
        return;
    if (jobs->hurry)
        mg_worker_kill(run->worker);
    else if (!run->stopping && !run->finished)
        mg_worker_stop(run->worker, MG_STOP_GRACE_MS);
    run->stopping = true;
}
