/* What a running job has found: points, baselines, the published front, progress.
 *
 * The front is kept here as the merger of what the worker lists and, where an earlier attempt left points, of those
 * that nothing covers yet. Every change is stored (jobs_save.c) before listeners hear of it (they hear from the store's
 * callback). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/limits.h"
#include "server/jobs_priv.h"

enum { SAVE_PROGRESS_MS = 3000 };

/* ---- points ---- */

struct mg_known_point *mg_run_find_point(struct mg_run *run, const char *id)
{
    for (size_t i = 0; i < run->known_count; i++)
        if (strcmp(run->known[i].point.id, id) == 0)
            return &run->known[i];
    return NULL;
}

struct mg_known_point *mg_run_add_point(struct mg_run *run, const struct mg_front_point *point)
{
    struct mg_known_point *known = mg_run_find_point(run, point->id);
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

struct mg_store_point mg_run_store_point(const struct mg_front_point *point, enum mg_point_kind kind)
{
    return (struct mg_store_point){.kind = kind,
                                   .latency_s = point->latency_s,
                                   .peak = (int64_t)point->peak_bytes,
                                   .arena = (int64_t)point->arena_bytes,
                                   .host = (int64_t)point->host_bytes,
                                   .measured_share = point->measured_share,
                                   .k = -1};
}

/* ---- original and baselines ---- */

static struct mg_kept_point *new_kept(struct mg_run *run)
{
    if (run->kept_count == run->kept_capacity) {
        run->kept_capacity = run->kept_capacity * 2 + 16;
        run->kept = realloc(run->kept, run->kept_capacity * sizeof *run->kept);
        if (!run->kept)
            abort();
    }
    run->kept[run->kept_count] = (struct mg_kept_point){.open = false};
    return &run->kept[run->kept_count++];
}

static struct mg_kept_point *keep(struct mg_run *run, const struct mg_worker_event *event, enum mg_point_kind kind,
                                  const char *techniques)
{
    struct mg_kept_point *kept = new_kept(run);
    kept->point = mg_run_store_point(&event->point, kind);
    kept->point.plan = mg_jobs_copy_text(event->point.id);
    kept->point.techniques = mg_jobs_copy_text(techniques);
    kept->point.blob = (struct mg_blob){mg_jobs_copy(event->blob, event->blob_size), event->blob_size};
    return kept;
}

void mg_run_save_original(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    keep(run, event, MG_POINT_ORIGINAL, "[]");
    run->limits.original_latency_s = event->point.latency_s;
    run->limits.original_peak = event->point.peak_bytes;
    if (run->latency_ratio > 0)
        run->limits.latency_s = run->latency_ratio * event->point.latency_s;
    if (run->memory_ratio > 0)
        run->limits.peak_bytes = mg_limits_share(run->memory_ratio, event->point.peak_bytes);
    mg_run_save_points(jobs, job);
}

void mg_run_keep_baseline(struct mg_run *run, const struct mg_worker_event *event)
{
    char techniques[MG_TECHNIQUES_TEXT];
    mg_answer_techniques(event->point.techniques, techniques);
    struct mg_kept_point *kept = keep(run, event, MG_POINT_BASELINE, techniques);
    kept->point.series = mg_jobs_copy_text(event->series);
    kept->open = true;
}

/* One that does not apply has a reason instead of points. */
static void drop_open(struct mg_run *run)
{
    size_t left = 0;
    for (size_t i = 0; i < run->kept_count; i++) {
        if (run->kept[i].open)
            mg_run_free_point(&run->kept[i].point);
        else
            run->kept[left++] = run->kept[i];
    }
    run->kept_count = left;
}

void mg_run_save_baseline(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    if (event->reason) {
        drop_open(run);
        new_kept(run)->point = (struct mg_store_point){.kind = MG_POINT_BASELINE,
                                                       .series = mg_jobs_copy_text(event->name),
                                                       .reason = mg_jobs_copy_text(event->reason),
                                                       .k = -1};
    }
    for (size_t i = 0; i < run->kept_count; i++)
        run->kept[i].open = false;
    mg_run_save_points(jobs, job);
}

/* ---- the front ---- */

static bool is_listed(const struct mg_worker_event *event, const char *id)
{
    for (size_t i = 0; i < event->id_count; i++)
        if (strcmp(event->ids[i], id) == 0)
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
    count = mg_pareto_reduce(all, count, &run->limits);
    count = mg_pareto_thin(all, count, &run->limits, MG_FRONT_MAX);
    if (count > MG_FRONT_MAX)
        count = MG_FRONT_MAX;
    memcpy(out, all, count * sizeof *all);
    free(all);
    return count;
}

void mg_run_save_front(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event, bool keep_earlier)
{
    struct mg_front_point now[MG_FRONT_MAX];
    size_t count = merge(job->run, event, keep_earlier, now);
    if (!count)
        return;
    memcpy(job->run->published, now, count * sizeof *now);
    job->run->published_count = count;
    mg_run_save_points(jobs, job);
}

/* ---- progress ---- */

void mg_run_save_progress(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    uint64_t now = uv_now(jobs->config.loop);
    if (run->finished || now - run->saved_at < SAVE_PROGRESS_MS)
        return;
    struct mg_store_progress progress = mg_run_progress_of(run, NULL);
    const struct mg_store_points points = {.progress = &progress};
    run->saved_at = now;
    mg_store_save_points(jobs->config.store, job->info.id, &points, mg_jobs_written, jobs);
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
