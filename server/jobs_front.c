/* What a running job has found: points, baselines, the published front, progress.
 *
 * The front is kept here as the merger of what the worker lists and, where an earlier attempt left points, of those
 * that nothing covers yet. Every change is stored before listeners hear of it (they hear from the store's callback). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/limits.h"
#include "server/jobs_priv.h"

enum { SAVE_PROGRESS_MS = 3000 };

/* ---- points ---- */

static struct mg_known_point *find_known(struct mg_run *run, const char *id)
{
    for (size_t i = 0; i < run->known_count; i++)
        if (strcmp(run->known[i].point.id, id) == 0)
            return &run->known[i];
    return NULL;
}

struct mg_known_point *mg_run_add_point(struct mg_run *run, const struct mg_front_point *point)
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

void *mg_run_copy(const void *data, size_t size)
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
                                   .measured_share = point->measured_share,
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

void mg_run_save_original(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_store_point point = as_store_point(&event->point, MG_POINT_ORIGINAL, "[]", event->blob, event->blob_size);
    const struct mg_store_points points = {.points = &point, .n_points = 1};
    struct mg_run *run = job->run;
    run->limits.original_latency_s = event->point.latency_s;
    run->limits.original_peak = event->point.peak_bytes;
    if (run->latency_ratio > 0)
        run->limits.latency_s = run->latency_ratio * event->point.latency_s;
    if (run->memory_ratio > 0)
        run->limits.peak_bytes = mg_limits_share(run->memory_ratio, event->point.peak_bytes);
    mg_store_save_points(jobs->config.store, job->info.id, &points, mg_run_saved, jobs);
}

void mg_run_keep_baseline(struct mg_run *run, const struct mg_worker_event *event)
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
                            mg_run_copy(event->blob, event->blob_size), event->blob_size);
    point->plan = strdup(event->point.id);
    point->series = strdup(event->series);
}

void mg_run_free_baseline(struct mg_run *run)
{
    for (size_t i = 0; i < run->baseline_count; i++) {
        free((void *)(uintptr_t)run->baseline[i].plan);
        free((void *)(uintptr_t)run->baseline[i].series);
        free((void *)(uintptr_t)run->baseline[i].techniques);
        free((void *)(uintptr_t)run->baseline[i].blob.data);
    }
    run->baseline_count = 0;
}

void mg_run_save_baseline(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
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
        mg_store_save_points(jobs->config.store, job->info.id, &points, mg_run_saved, jobs);
    mg_run_free_baseline(run);
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

void mg_run_save_front(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event, bool keep_earlier)
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
        mg_store_save_points(jobs->config.store, job->info.id, &points, mg_run_saved, jobs);
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
    mg_store_save_points(jobs->config.store, job->info.id, &points, mg_run_saved, jobs);
}

void mg_run_progress(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
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
