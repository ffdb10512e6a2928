/* A job while it holds a worker: claim, load, start; what the worker says; the end.
 *
 * The published front is kept here as the merger of what the worker lists and, where an earlier
 * attempt left points, of those that nothing covers yet. Every change is stored before listeners hear
 * of it (they hear from the store's callback). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/jobs_priv.h"

enum { SAVE_PROGRESS_MS = 3000 };
static const uint64_t spool_bytes = 2ull << 30, memory_bytes = 4ull << 30;

/* Callbacks of writes carry the manager; the job is found by id, for it may be gone by then. */
static void on_saved(void *ctx, const struct mg_store_result *result)
{
    mg_jobs *jobs = ctx;
    mg_jobs_take(jobs, result);
    if (result->code != MG_STORE_OK && result->code != MG_STORE_CONFLICT)
        mg_jobs_say(jobs, "error", "store", "%s: %s", mg_store_code_name(result->code), result->message);
    mg_jobs_schedule(jobs);
}

/* ---- points ---- */

static struct mg_known_point *find_known(struct mg_run *run, const char *id)
{
    for (size_t i = 0; i < run->known_count; i++)
        if (strcmp(run->known[i].point.id, id) == 0)
            return &run->known[i];
    return NULL;
}

static struct mg_known_point *add_known(struct mg_run *run, const struct mg_front_point *point)
{
    struct mg_known_point *known = find_known(run, point->id);
    if (known)
        return known;
    if (run->known_count == run->known_capacity) {
        size_t capacity = run->known_capacity * 2 + 64;
        run->known = realloc(run->known, capacity * sizeof *run->known);
        if (!run->known)
            abort();
        run->known_capacity = capacity;
    }
    known = &run->known[run->known_count++];
    *known = (struct mg_known_point){.point = *point};
    return known;
}

static void *copy_blob(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static struct mg_store_point as_store_point(const struct mg_front_point *point, enum mg_point_kind kind,
                                            const char *techniques, const void *blob, size_t size)
{
    return (struct mg_store_point){.kind = kind,
                                   .plan = point->id,
                                   .latency_s = point->latency_s,
                                   .peak = (int64_t)point->peak_bytes,
                                   .arena = (int64_t)point->arena_bytes,
                                   .host = (int64_t)point->host_bytes,
                                   .techniques = techniques,
                                   .k = -1,
                                   .blob = {blob, size}};
}

static struct mg_store_progress progress_of(const struct mg_run *run, const char *best)
{
    return (struct mg_store_progress){.evaluations = (int64_t)run->evaluations,
                                      .accepted = (int64_t)run->accepted,
                                      .rejected = (int64_t)run->rejected,
                                      .elapsed_s = run->base_elapsed + run->elapsed_s,
                                      .best = best};
}

static void save_original(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_store_point point = as_store_point(&event->point, MG_POINT_ORIGINAL, "[]", event->blob, event->blob_size);
    const struct mg_store_points points = {.points = &point, .n_points = 1};
    struct mg_run *run = job->run;
    run->limits.original_latency_s = event->point.latency_s;
    run->limits.original_peak = event->point.peak_bytes;
    if (run->latency_ratio > 0)
        run->limits.latency_s = run->latency_ratio * event->point.latency_s;
    if (run->memory_ratio > 0)
        run->limits.peak_bytes = (uint64_t)(run->memory_ratio * (double)event->point.peak_bytes);
    mg_store_save_points(jobs->config.store, job->info.id, &points, on_saved, jobs);
}

static void keep_baseline_point(struct mg_run *run, const struct mg_worker_event *event)
{
    char techniques[MG_TECHNIQUES_TEXT];
    if (run->baseline_count == run->baseline_capacity) {
        run->baseline_capacity = run->baseline_capacity * 2 + 16;
        run->baseline = realloc(run->baseline, run->baseline_capacity * sizeof *run->baseline);
        if (!run->baseline)
            abort();
    }
    mg_answer_techniques(event->point.techniques, techniques);
    struct mg_store_point *point = &run->baseline[run->baseline_count++];
    *point = as_store_point(&event->point, MG_POINT_BASELINE, strdup(techniques),
                            copy_blob(event->blob, event->blob_size), event->blob_size);
    point->plan = strdup(event->point.id);
    point->series = strdup(event->series);
}

static void free_baseline(struct mg_run *run)
{
    for (size_t i = 0; i < run->baseline_count; i++) {
        free((void *)(uintptr_t)run->baseline[i].plan);
        free((void *)(uintptr_t)run->baseline[i].series);
        free((void *)(uintptr_t)run->baseline[i].techniques);
        free((void *)(uintptr_t)run->baseline[i].blob.data);
    }
    run->baseline_count = 0;
}

static void save_baseline(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    struct mg_store_point none = {
        .kind = MG_POINT_BASELINE, .series = event->name, .plan = NULL, .reason = event->reason, .k = -1};
    struct mg_store_points points = {.points = run->baseline, .n_points = run->baseline_count};
    if (event->reason) {
        points.points = &none;
        points.n_points = 1;
    }
    char text[300];
    snprintf(text, sizeof text, "{\"baseline\":true,\"points\":%zu}", run->baseline_count);
    points.event = text;
    if (points.n_points)
        mg_store_save_points(jobs->config.store, job->info.id, &points, on_saved, jobs);
    free_baseline(run);
}

/* ---- the front ---- */

static bool is_listed(const struct mg_worker_event *event, const char *id)
{
    for (size_t i = 0; i < event->id_count; i++)
        if (strcmp(event->ids[i], id) == 0)
            return true;
    return false;
}

static bool in_front(const struct mg_front_point *points, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(points[i].id, id) == 0)
            return true;
    return false;
}

/* What stands now: the worker's list with the earlier points that it does not cover. */
static size_t merge(struct mg_run *run, const struct mg_worker_event *event, bool keep_earlier,
                    struct mg_front_point *out)
{
    struct mg_front_point *all = malloc((run->known_count + 1) * sizeof *all);
    size_t count = 0;
    if (!all)
        abort();
    for (size_t i = 0; i < run->known_count; i++)
        if (is_listed(event, run->known[i].point.id) || (keep_earlier && run->known[i].earlier))
            all[count++] = run->known[i].point;
    count = mg_pareto_reduce(all, count);
    count = mg_pareto_thin(all, count, &run->limits, MG_FRONT_MAX);
    if (count > MG_FRONT_MAX)
        count = MG_FRONT_MAX;
    memcpy(out, all, count * sizeof *all);
    free(all);
    return count;
}

struct change {
    struct mg_front_point now[MG_FRONT_MAX];
    size_t count;
    struct mg_store_point added[MG_FRONT_MAX];
    char techniques[MG_FRONT_MAX][MG_TECHNIQUES_TEXT];
    size_t added_count;
    struct mg_store_replacement replaced[MG_FRONT_MAX];
    size_t replaced_count;
    const char *best;
};

static void find_change(struct mg_run *run, struct change *change)
{
    for (size_t i = 0; i < change->count; i++) {
        if (in_front(run->published, run->published_count, change->now[i].id))
            continue;
        struct mg_known_point *known = find_known(run, change->now[i].id);
        size_t at = change->added_count++;
        mg_answer_techniques(change->now[i].techniques, change->techniques[at]);
        void *blob = mg_worker_read(run->worker, &known->spooled);
        change->added[at] = as_store_point(&change->now[i], MG_POINT_FRONT, change->techniques[at], blob,
                                           blob ? known->spooled.length : 0);
    }
    for (size_t i = 0; i < run->published_count && change->count; i++)
        if (!in_front(change->now, change->count, run->published[i].id)) {
            size_t by = mg_pareto_replacement(change->now, change->count, &run->published[i]);
            change->replaced[change->replaced_count++] =
                (struct mg_store_replacement){run->published[i].id, change->now[by].id};
        }
    if (change->count)
        change->best = change->now[mg_pareto_best(change->now, change->count, &run->limits)].id;
}

/* The event that the page follows the front by. */
static void write_change(struct mg_writer *w, const struct mg_job *job, const struct change *change)
{
    mg_write_begin_object(w);
    mg_write_key(w, "added");
    mg_write_begin_array(w);
    struct mg_store_job info = job->info;
    info.original_latency_s = job->run->limits.original_latency_s;
    info.original_peak = (int64_t)job->run->limits.original_peak;
    for (size_t i = 0; i < change->added_count; i++)
        mg_job_point_write(w, &info, &change->added[i], true);
    mg_write_end_array(w);
    mg_write_key(w, "removed");
    mg_write_begin_array(w);
    for (size_t i = 0; i < change->replaced_count; i++)
        mg_write_string(w, change->replaced[i].plan);
    mg_write_end_array(w);
    mg_write_member_string(w, "best", change->best);
    mg_write_end_object(w);
}

static void save_front(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event, bool keep_earlier)
{
    struct mg_run *run = job->run;
    struct change *change = calloc(1, sizeof *change);
    struct mg_writer w;
    if (!change)
        abort();
    change->count = merge(run, event, keep_earlier, change->now);
    find_change(run, change);
    if (change->count && (change->added_count || change->replaced_count)) {
        mg_writer_init(&w);
        write_change(&w, job, change);
        struct mg_store_progress progress = progress_of(run, change->best);
        const struct mg_store_points points = {.points = change->added,
                                               .n_points = change->added_count,
                                               .replaced = change->replaced,
                                               .n_replaced = change->replaced_count,
                                               .progress = &progress,
                                               .event = mg_writer_finish(&w) ? w.data : NULL};
        mg_store_save_points(jobs->config.store, job->info.id, &points, on_saved, jobs);
        mg_writer_release(&w);
        memcpy(run->published, change->now, sizeof run->published);
        run->published_count = change->count;
        run->saved_at = uv_now(jobs->config.loop);
    }
    for (size_t i = 0; i < change->added_count; i++)
        free((void *)(uintptr_t)change->added[i].blob.data);
    free(change);
}

/* ---- progress ---- */

void mg_run_save_progress(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    uint64_t now = uv_now(jobs->config.loop);
    if (run->finished || now - run->saved_at < SAVE_PROGRESS_MS)
        return;
    struct mg_store_progress progress = progress_of(run, NULL);
    const struct mg_store_points points = {.progress = &progress};
    run->saved_at = now;
    mg_store_save_points(jobs->config.store, job->info.id, &points, on_saved, jobs);
}

static void on_progress(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    char text[300];
    run->evaluations = event->evaluations;
    run->elapsed_s = event->elapsed_s;
    run->fraction = event->fraction;
    if (run->resumes)
        run->fraction = (run->base_elapsed + run->elapsed_s) / job->info.budget_seconds;
    mg_run_save_progress(jobs, job);
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_uint(&w, "evaluations", run->evaluations);
    mg_write_member_double(&w, "elapsed_s", run->base_elapsed + run->elapsed_s);
    mg_write_member_double(&w, "fraction", run->fraction);
    mg_write_member_double(&w, "best_latency_s", event->point.latency_s);
    mg_write_member_uint(&w, "best_peak_bytes", event->point.peak_bytes);
    mg_write_end_object(&w);
    if (mg_writer_finish(&w) && snprintf(text, sizeof text, "%s", w.data) > 0)
        mg_listeners_tell(jobs, job->info.id, "progress", 0, text);
    mg_writer_release(&w);
}

/* ---- the end ---- */

static void count_end(mg_jobs *jobs, const struct mg_worker_event *event)
{
    jobs->stats.evaluations += event->evaluations;
    jobs->stats.plans_accepted += event->accepted;
    jobs->stats.plans_rejected += event->rejected;
    jobs->stats.search_seconds += event->elapsed_s;
}

static enum mg_job_outcome outcome_of(const struct mg_run *run, const struct mg_worker_event *event)
{
    if (!run->limited)
        return MG_JOB_OUTCOME_FRONT;
    for (size_t i = 0; i < run->published_count; i++)
        if (mg_pareto_meets(&run->published[i], &run->limits))
            return MG_JOB_OUTCOME_MET;
    return strcmp(event->outcome, "infeasible") == 0 ? MG_JOB_OUTCOME_INFEASIBLE : MG_JOB_OUTCOME_NOT_MET;
}

static enum mg_job_stop stop_of(const struct mg_job *job, const struct mg_worker_event *event)
{
    if (job->run->deadline)
        return MG_STOP_DEADLINE;
    int stop = mg_job_stop_parse(event->stopped_by);
    return stop < 0 ? MG_STOP_NONE : (enum mg_job_stop)stop;
}

static char *result_json(const struct mg_worker_event *event)
{
    json_t *root =
        json_pack("{s:s, s:I}", "lower_bound_operator", event->lower_bound_operator ? event->lower_bound_operator : "",
                  "operators", (json_int_t)event->operators);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static void give_back(mg_jobs *jobs, struct mg_job *job)
{
    job->run->finished = true;
    mg_store_requeue(jobs->config.store, job->info.id, MG_REQUEUE_DRAIN, NULL, on_saved, jobs);
}

static void finish(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    bool cancelled = job->info.state == MG_JOB_CANCELLING;
    enum mg_job_stop stop = cancelled ? MG_STOP_CANCELLED : stop_of(job, event);
    char *result = result_json(event);
    const struct mg_front_point *last = run->published_count ? &run->published[run->published_count - 1] : NULL;
    struct mg_store_outcome outcome = {.state = cancelled ? MG_JOB_CANCELLED : MG_JOB_SUCCEEDED,
                                       .outcome = outcome_of(run, event),
                                       .stopped_by = stop,
                                       .result = result,
                                       .evaluations = (int64_t)event->evaluations,
                                       .accepted = (int64_t)event->accepted,
                                       .rejected = (int64_t)event->rejected,
                                       .elapsed_s = run->base_elapsed + event->elapsed_s,
                                       .lower_bound = (int64_t)event->lower_bound_bytes,
                                       .smallest_found = last ? (int64_t)last->peak_bytes : -1,
                                       .reproducible =
                                           !run->resumes && (stop == MG_STOP_EVALUATIONS || stop == MG_STOP_EXHAUSTED)};
    memcpy(outcome.prices, event->prices, sizeof outcome.prices);
    run->finished = true;
    mg_store_finish(jobs->config.store, job->info.id, &outcome, NULL, on_saved, jobs);
    free(result);
}

static void on_end(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    run->evaluations = event->evaluations;
    run->accepted = event->accepted;
    run->rejected = event->rejected;
    run->elapsed_s = event->elapsed_s;
    count_end(jobs, event);
    mg_jobs_note_success(jobs);
    if (run->resumes)
        mg_jobs_say(jobs, "info", "resumed", "job %s: went on from %llu of %zu plans", job->info.id,
                    (unsigned long long)event->restored, run->fetched);
    bool told = strcmp(event->stopped_by, "cancelled") == 0;
    if (told && jobs->draining && !run->deadline && job->info.state == MG_JOB_RUNNING) {
        run->saved_at = 0;
        mg_run_save_progress(jobs, job);
        give_back(jobs, job);
    } else {
        finish(jobs, job, event);
    }
}

static void fail(mg_jobs *jobs, struct mg_job *job, char *error)
{
    const struct mg_store_outcome outcome = {.state = MG_JOB_FAILED,
                                             .error = error ? error : "{}",
                                             .lower_bound = -1,
                                             .smallest_found = -1,
                                             .elapsed_s = job->run->base_elapsed + job->run->elapsed_s};
    job->run->finished = true;
    mg_store_finish(jobs->config.store, job->info.id, &outcome, NULL, on_saved, jobs);
    free(error);
}

static void on_error(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    bool input = strcmp(event->code, "invalid") == 0 || strcmp(event->code, "limit") == 0;
    const char *name = strcmp(event->code, "unsupported") == 0 ? "unsupported"
                       : input                                 ? "invalid-graph"
                       : strcmp(event->code, "nomem") == 0     ? "worker-memory"
                                                               : "internal";
    mg_jobs_say(jobs, "error", "worker-error", "job %s: %s: %s", job->info.id, event->code, event->message);
    fail(jobs, job, mg_problem_document(name, event->message, event->pointer, NULL));
}

static char *death_document(const struct mg_worker_event *event)
{
    char detail[400];
    if (event->signal == SIGKILL)
        snprintf(detail, sizeof detail,
                 "the search worker was killed (signal %d) twice, as the kernel does when memory runs out; free memory "
                 "or run fewer workers (--workers), then retry the job",
                 event->signal);
    else if (event->signal)
        snprintf(detail, sizeof detail,
                 "the search worker was ended by signal %d (%s) twice; retry the job, and if it fails again report it "
                 "with its graph",
                 event->signal, strsignal(event->signal));
    else
        snprintf(detail, sizeof detail,
                 "the search worker ended with status %d before its result twice; the member stderr may say why",
                 event->exit_status);
    json_t *members = json_object();
    json_object_set_new(members, "signal", json_integer(event->signal));
    json_object_set_new(members, "exit_status", json_integer(event->exit_status));
    json_t *checked = json_string(event->errors); /* NULL if it is no UTF-8 */
    json_object_set_new(members, "stderr", checked ? checked : json_string("(not text)"));
    return mg_problem_document("worker-died", detail, "", members);
}

static void on_death(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    mg_jobs_say(jobs, "error", "worker-died", "job %s: status %d, signal %d: %s", job->info.id, event->exit_status,
                event->signal, event->errors);
    if (run->stopping && event->signal == SIGKILL && job->info.state == MG_JOB_RUNNING && jobs->draining) {
        give_back(jobs, job); /* too slow to hand over its front */
        return;
    }
    if (!run->stopping)
        mg_jobs_note_death(jobs);
    if (event->protocol_error) {
        fail(jobs, job, mg_problem_document("internal", "the search worker wrote what it must not", "", NULL));
        return;
    }
    char *error = death_document(event);
    run->finished = true;
    mg_store_requeue(jobs->config.store, job->info.id, MG_REQUEUE_CRASH, error, on_saved, jobs);
    free(error);
}

/* ---- what the worker says ---- */

static void on_point(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    if (event->series) {
        keep_baseline_point(job->run, event);
        return;
    }
    if (event->original)
        save_original(jobs, job, event);
    add_known(job->run, &event->point)->spooled = event->spooled;
}

static void on_exit_seen(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    job->run->worker = NULL;
    if (!job->run->finished)
        on_death(jobs, job, event);
    mg_run_free(jobs, job);
    mg_jobs_schedule(jobs);
}

struct owner {
    mg_jobs *jobs;
    char id[16];
};

/* An evaluations job's result must not depend on what came before the restart. */
static bool keeps_earlier(const struct mg_job *job)
{
    return job->info.budget_evaluations == 0;
}

static void on_worker(void *context, const struct mg_worker_event *event)
{
    struct owner *owner = context;
    mg_jobs *jobs = owner->jobs;
    struct mg_job *job = mg_jobs_find(jobs, owner->id);
    bool exits = event->kind == MG_WORKER_EXIT;
    if (exits)
        free(owner);
    if (!job || !job->run || (job->run->finished && !exits))
        return;
    switch (event->kind) {
    case MG_WORKER_POINT:
        on_point(jobs, job, event);
        break;
    case MG_WORKER_BASELINE:
        save_baseline(jobs, job, event);
        break;
    case MG_WORKER_FRONT:
        save_front(jobs, job, event, keeps_earlier(job) || !event->final);
        break;
    case MG_WORKER_PROGRESS:
        on_progress(jobs, job, event);
        break;
    case MG_WORKER_REJECTED:
        mg_jobs_say(jobs, "error", "plan-rejected", "job %s: %s: %s", job->info.id, event->code, event->message);
        break;
    case MG_WORKER_END:
        on_end(jobs, job, event);
        break;
    case MG_WORKER_ERROR:
        on_error(jobs, job, event);
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
    free_baseline(run);
    free_starts(run);
    free(run->baseline);
    free(run->known);
    if (run->timings_fd >= 0)
        close(run->timings_fd);
    free(run);
    job->run = NULL;
    jobs->running--;
}

/* Nothing was started: the job goes back to where it was. */
static void abandon(mg_jobs *jobs, struct mg_job *job, const char *why)
{
    mg_jobs_say(jobs, "error", "worker-start", "job %s: %s", job->info.id, why);
    if (job->info.state == MG_JOB_RUNNING || job->info.state == MG_JOB_CANCELLING)
        give_back(jobs, job);
    mg_run_free(jobs, job);
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

static void launch(mg_jobs *jobs, struct mg_job *job, const struct mg_store_result *work)
{
    struct owner *owner = calloc(1, sizeof *owner);
    json_t *request = json_loads(work->text, 0, NULL);
    if (!owner)
        abort();
    read_limits(job, request);
    json_decref(request);
    owner->jobs = jobs;
    snprintf(owner->id, sizeof owner->id, "%s", job->info.id);
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
    int status = mg_worker_start(&job->run->worker, &config, on_worker, owner);
    free_starts(job->run);
    if (status != 0) {
        free(owner);
        job->run->worker = NULL;
        abandon(jobs, job, uv_strerror(status));
        return;
    }
    jobs->stats.worker_starts++;
    if (jobs->draining || job->info.state == MG_JOB_CANCELLING)
        mg_run_stop(jobs, job);
}

static void on_start(void *ctx, const struct mg_store_result *result);

static void on_work(void *ctx, const struct mg_store_result *result)
{
    struct owner *owner = ctx;
    mg_jobs *jobs = owner->jobs;
    struct mg_job *job = mg_jobs_find(jobs, owner->id);
    free(owner);
    if (!job || !job->run)
        return;
    if (result->code != MG_STORE_OK || !result->text)
        abandon(jobs, job, result->message);
    else
        launch(jobs, job, result);
}

/* A seconds job goes on from the plans of its earlier attempts: fetches the next one, at last the work. */
static void fetch(struct mg_run *run, struct owner *owner)
{
    struct mg_store *store = owner->jobs->config.store;
    if (run->resumes && run->fetched < run->published_count)
        mg_store_get_plan(store, owner->id, run->published[run->fetched++].id, on_start, owner);
    else
        mg_store_get_work(store, owner->id, on_work, owner);
}

static void on_start(void *ctx, const struct mg_store_result *result)
{
    struct owner *owner = ctx;
    struct mg_job *job = mg_jobs_find(owner->jobs, owner->id);
    if (!job || !job->run) {
        free(owner);
        return;
    }
    struct mg_run *run = job->run;
    if (result->code == MG_STORE_OK && result->blob.size)
        run->starts[run->start_count++] =
            (struct mg_worker_start){copy_blob(result->blob.data, result->blob.size), result->blob.size};
    fetch(run, owner);
}

/* Points of an earlier attempt: they stand until covered. */
static void on_earlier(void *ctx, const struct mg_store_result *result)
{
    struct owner *owner = ctx;
    mg_jobs *jobs = owner->jobs;
    struct mg_job *job = mg_jobs_find(jobs, owner->id);
    if (!job || !job->run) {
        free(owner);
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
        add_known(run, &front)->earlier = true;
        run->published[run->published_count++] = front;
    }
    fetch(run, owner);
}

static void load(mg_jobs *jobs, struct mg_job *job)
{
    struct owner *owner = calloc(1, sizeof *owner);
    if (!owner)
        abort();
    owner->jobs = jobs;
    snprintf(owner->id, sizeof owner->id, "%s", job->info.id);
    if (job->info.attempts > 1)
        mg_store_get_front(jobs->config.store, owner->id, on_earlier, owner);
    else
        mg_store_get_work(jobs->config.store, owner->id, on_work, owner);
}

static void on_claimed(void *ctx, const struct mg_store_result *result)
{
    struct owner *owner = ctx;
    mg_jobs *jobs = owner->jobs;
    mg_jobs_take(jobs, result);
    struct mg_job *job = mg_jobs_find(jobs, owner->id);
    free(owner);
    if (!job || !job->run)
        return;
    if (result->code == MG_STORE_OK) {
        mg_timings_pin(jobs, job, load);
        return;
    }
    if (result->code != MG_STORE_CONFLICT)
        jobs->store_failing = true; /* the tick tries again */
    mg_run_free(jobs, job);
}

void mg_run_start(mg_jobs *jobs, struct mg_job *job)
{
    struct owner *owner = calloc(1, sizeof *owner);
    job->run = calloc(1, sizeof *job->run);
    if (!owner || !job->run)
        abort();
    jobs->running++;
    job->run->timings_fd = -1;
    set_base(job);
    job->run->started_at = job->run->saved_at = uv_now(jobs->config.loop);
    owner->jobs = jobs;
    snprintf(owner->id, sizeof owner->id, "%s", job->info.id);
    mg_store_claim(jobs->config.store, job->info.id, mg_clock_wall_ms() + 3600000, on_claimed, owner);
}

void mg_run_stop(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    if (!run || !run->worker || run->finished)
        return;
    if (jobs->hurry)
        mg_worker_kill(run->worker);
    else if (!run->stopping)
        mg_worker_stop(run->worker, MG_STOP_GRACE_MS);
    run->stopping = true;
}
