/* What the store is to have of a run: its front, the original, the baselines. One save is under way at a time; the next
 * carries all that the store has not confirmed, so that a save that fails leaves nothing behind that later ones miss.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"

struct mg_store_progress mg_run_progress_of(const struct mg_run *run, const char *best)
{
    return (struct mg_store_progress){.evaluations = (int64_t)run->evaluations,
                                      .accepted = (int64_t)run->accepted,
                                      .rejected = (int64_t)run->rejected,
                                      .elapsed_s = run->base_elapsed + run->elapsed_s,
                                      .best = best};
}

/* ---- a change ---- */

static void free_const(const void *memory)
{
    free((void *)(uintptr_t)memory);
}

void mg_run_free_point(const struct mg_store_point *point)
{
    free_const(point->plan);
    free_const(point->series);
    free_const(point->reason);
    free_const(point->techniques);
    free_const(point->blob.data);
}

void mg_change_free(struct mg_change *change)
{
    if (!change)
        return;
    for (size_t i = 0; i < change->points.n_points; i++)
        mg_run_free_point(&change->points.points[i]);
    for (size_t i = 0; i < change->points.n_replaced; i++) {
        free_const(change->points.replaced[i].plan);
        free_const(change->points.replaced[i].by);
    }
    free_const(change->points.points);
    free_const(change->points.replaced);
    free_const(change->points.event);
    free_const(change->progress.best);
    free(change);
}

void mg_run_free_kept(struct mg_run *run)
{
    for (size_t i = 0; i < run->kept_count; i++)
        mg_run_free_point(&run->kept[i].point);
    free(run->kept);
}

struct building {
    struct mg_run *run;
    bool assume;
    struct mg_store_point *points;
    struct mg_store_replacement *replaced;
    size_t front, count, replaced_count;
    size_t baseline_rows, baseline_points; /* a row that says why a baseline does not apply is no point */
};

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory)
        abort();
    return memory;
}

/* Published points that the store lacks. One whose plan the spool does not give any more leaves the front. */
static void add_front(struct building *b)
{
    struct mg_run *run = b->run;
    size_t left = 0;
    for (size_t i = 0; i < run->published_count; i++) {
        const struct mg_front_point point = run->published[i];
        const struct mg_known_point *known = mg_run_find_point(run, point.id);
        if (!(b->assume && known->moving ? known->moving > 0 : known->stored)) {
            void *blob = run->worker ? mg_worker_read(run->worker, &known->spooled) : NULL;
            if (!blob)
                continue;
            char techniques[MG_TECHNIQUES_TEXT];
            mg_answer_techniques(point.techniques, techniques);
            struct mg_store_point *added = &b->points[b->count++];
            *added = mg_run_store_point(&point, MG_POINT_FRONT);
            added->plan = mg_jobs_copy_text(point.id);
            added->techniques = mg_jobs_copy_text(techniques);
            added->blob = (struct mg_blob){blob, known->spooled.length};
        }
        run->published[left++] = point;
    }
    run->published_count = left;
    b->front = b->count;
}

static void add_kept(struct building *b)
{
    for (size_t i = 0; i < b->run->kept_count; i++) {
        const struct mg_kept_point *kept = &b->run->kept[i];
        if (kept->open || (b->assume && kept->moving))
            continue;
        struct mg_store_point *added = &b->points[b->count++];
        *added = kept->point;
        b->baseline_rows += added->kind == MG_POINT_BASELINE;
        b->baseline_points += added->kind == MG_POINT_BASELINE && !added->reason;
        added->plan = mg_jobs_copy_text(added->plan);
        added->series = mg_jobs_copy_text(added->series);
        added->reason = mg_jobs_copy_text(added->reason);
        added->techniques = mg_jobs_copy_text(added->techniques);
        if (added->blob.data)
            added->blob.data = mg_jobs_copy(added->blob.data, added->blob.size);
    }
}

static bool is_published(const struct mg_run *run, const char *id)
{
    for (size_t i = 0; i < run->published_count; i++)
        if (strcmp(run->published[i].id, id) == 0)
            return true;
    return false;
}

static void add_replaced(struct building *b)
{
    const struct mg_run *run = b->run;
    for (size_t i = 0; i < run->known_count && run->published_count; i++) {
        const struct mg_known_point *known = &run->known[i];
        bool there = b->assume && known->moving ? known->moving > 0 : known->sent;
        if (!there || is_published(run, known->point.id))
            continue;
        size_t by = mg_pareto_replacement(run->published, run->published_count, &known->point);
        b->replaced[b->replaced_count++] =
            (struct mg_store_replacement){mg_jobs_copy_text(known->point.id), mg_jobs_copy_text(run->published[by].id)};
    }
}

/* The event that the page follows the front by. */
static char *event_of(const struct building *b, const struct mg_job *job, const char *best)
{
    struct mg_writer w;
    struct mg_store_job info = job->info;
    info.original_latency_s = b->run->limits.original_latency_s;
    info.original_peak = (int64_t)b->run->limits.original_peak;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    if (b->baseline_rows) {
        mg_write_member_bool(&w, "baseline", true);
        mg_write_member_uint(&w, "points", b->baseline_points);
    }
    if (b->front || b->replaced_count) {
        mg_write_key(&w, "added");
        mg_write_begin_array(&w);
        for (size_t i = 0; i < b->front; i++)
            mg_job_point_write(&w, &info, &b->points[i], true);
        mg_write_end_array(&w);
        mg_write_key(&w, "removed");
        mg_write_begin_array(&w);
        for (size_t i = 0; i < b->replaced_count; i++)
            mg_write_string(&w, b->replaced[i].plan);
        mg_write_end_array(&w);
        mg_write_member_string(&w, "best", best);
    }
    mg_write_end_object(&w);
    char *text = mg_writer_finish(&w) ? strdup(w.data) : NULL;
    mg_writer_release(&w);
    return text;
}

struct mg_change *mg_change_of(struct mg_job *job, bool assume)
{
    struct mg_run *run = job->run;
    struct building b = {.run = run,
                         .assume = assume,
                         .points = room(run->published_count + run->kept_count, sizeof *b.points),
                         .replaced = room(run->known_count, sizeof *b.replaced)};
    struct mg_change *change = room(1, sizeof *change);
    const char *best = NULL;
    add_front(&b);
    add_kept(&b);
    add_replaced(&b);
    if (run->published_count && (b.front || b.replaced_count))
        best = mg_jobs_copy_text(run->published[mg_pareto_best(run->published, run->published_count, &run->limits)].id);
    change->progress = mg_run_progress_of(run, best);
    change->points = (struct mg_store_points){.points = b.points,
                                              .n_points = b.count,
                                              .replaced = b.replaced,
                                              .n_replaced = b.replaced_count,
                                              .progress = &change->progress};
    if (!b.count && !b.replaced_count) {
        mg_change_free(change);
        return NULL;
    }
    if (b.front || b.replaced_count || b.baseline_rows)
        change->points.event = event_of(&b, job, best);
    return change;
}

/* ---- its way into the store ---- */

static void set_moving(struct mg_run *run, const struct mg_change *change)
{
    for (size_t i = 0; i < change->points.n_points; i++)
        if (change->points.points[i].kind == MG_POINT_FRONT) {
            struct mg_known_point *known = mg_run_find_point(run, change->points.points[i].plan);
            known->moving = 1;
            known->sent = true;
        }
    for (size_t i = 0; i < change->points.n_replaced; i++)
        mg_run_find_point(run, change->points.replaced[i].plan)->moving = -1;
    for (size_t i = 0; i < run->kept_count; i++)
        run->kept[i].moving = !run->kept[i].open;
}

static void settle_moving(struct mg_run *run, bool stored)
{
    size_t left = 0;
    for (size_t i = 0; i < run->known_count; i++) {
        struct mg_known_point *known = &run->known[i];
        if (stored && known->moving)
            known->sent = known->stored = known->moving > 0;
        known->moving = 0;
    }
    for (size_t i = 0; i < run->kept_count; i++) {
        if (stored && run->kept[i].moving) {
            mg_run_free_point(&run->kept[i].point);
        } else {
            run->kept[left] = run->kept[i];
            run->kept[left++].moving = false;
        }
    }
    run->kept_count = left;
}

static void on_saved(void *ctx, const struct mg_store_result *result)
{
    struct mg_job_ref *ref = ctx;
    mg_jobs *jobs = ref->jobs;
    bool stored = result->code == MG_STORE_OK;
    mg_jobs_written(jobs, result);
    struct mg_job *job = mg_jobs_find(jobs, ref->id);
    struct mg_run *run = job ? job->run : NULL;
    if (run && run->number == ref->run) {
        run->saving = false;
        run->unsaved = !stored;
        settle_moving(run, stored);
        if (stored && run->more && !run->finished)
            mg_run_save_points(jobs, job);
    }
    if (job)
        mg_ending_saved(jobs, job, stored);
    free(ref);
}

void mg_run_save_now(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    struct mg_change *change = mg_change_of(job, false);
    run->more = run->unsaved = false;
    if (!change)
        return;
    set_moving(run, change);
    run->saving = true;
    run->saved_at = uv_now(jobs->config.loop);
    mg_store_save_points(jobs->config.store, job->info.id, &change->points, on_saved, mg_job_ref_new(jobs, job));
    mg_change_free(change);
}

void mg_run_save_points(mg_jobs *jobs, struct mg_job *job)
{
    if (job->run->saving)
        job->run->more = true;
    else
        mg_run_save_now(jobs, job);
}
