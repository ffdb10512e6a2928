/* Jobs and measured timings: what their graphs need is queued for the agents; a job that demands measured prices waits
 * until they are there; a job that starts pins class and generation.
 *
 * Callbacks carry the job's id: the job may be gone when they come. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"
#include "server/timing_pack.h"
#include "store/timings.h"

enum { LOOK_AGAIN_MS = 1500 };

struct mg_timing_question {
    struct mg_timing_question *next; /* while intake has it */
    mg_ticket intake;
    mg_jobs *jobs;
    char id[16];
    void (*then)(mg_jobs *jobs, struct mg_job *job);
};

static struct mg_timing_question *new_question(mg_jobs *jobs, const struct mg_job *job)
{
    struct mg_timing_question *q = calloc(1, sizeof *q);
    if (!q)
        abort();
    q->jobs = jobs;
    snprintf(q->id, sizeof q->id, "%s", job->info.id);
    return q;
}

static bool uses_timings(const struct mg_job *job)
{
    return strcmp(job->info.timings_models, "[]") != 0;
}

bool mg_timings_ready(const struct mg_job *job)
{
    return !job->info.require_measured || job->measured == MG_TIMINGS_THERE;
}

/* ---- what is wanted ---- */

static void end_look(struct mg_timing_question *q, bool there)
{
    struct mg_job *job = mg_jobs_find(q->jobs, q->id);
    if (job) {
        job->measured = there ? MG_TIMINGS_THERE : MG_TIMINGS_MISSING;
        job->look_at = uv_now(q->jobs->config.loop) + LOOK_AGAIN_MS;
    }
    free(q);
}

static void on_wants_stored(void *ctx, const struct mg_store_result *result)
{
    struct mg_timing_question *q = ctx;
    if (result->code != MG_STORE_OK)
        mg_jobs_say(q->jobs, "error", "store", "%s: %s", mg_store_code_name(result->code), result->message);
    end_look(q, false);
}

static void unlink_question(struct mg_timing_question *q)
{
    struct mg_timing_question **at = &q->jobs->timing_questions;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
}

void mg_timings_drop_all(mg_jobs *jobs)
{
    while (jobs->timing_questions) {
        struct mg_timing_question *q = jobs->timing_questions;
        mg_intake_forget(jobs->config.intake, q->intake);
        unlink_question(q);
        free(q);
    }
}

static void on_wants(void *context, struct mg_reply *reply)
{
    struct mg_timing_question *q = context;
    unlink_question(q);
    struct mg_packed_wants wants;
    struct mg_job *job = mg_jobs_find(q->jobs, q->id);
    if (!job || reply->problem || !mg_timing_unpack_wants(reply->body_fd, reply->body_size, &wants)) {
        end_look(q, false);
        return;
    }
    mg_store_add_wants(q->jobs->config.store, job->info.graph_digest, job->info.timings_models, wants.wants,
                       wants.count, on_wants_stored, q);
    free(wants.memory);
}

static void on_graph(void *ctx, const struct mg_store_result *result)
{
    struct mg_timing_question *q = ctx;
    if (result->code != MG_STORE_OK || !result->text) {
        end_look(q, false);
        return;
    }
    const struct mg_intake_question question = {
        .kind = MG_INTAKE_WANTS,
        .body_fd = -1,
        .part = {{result->text, strlen(result->text)}, {result->blob.data, result->blob.size}}};
    q->next = q->jobs->timing_questions;
    q->jobs->timing_questions = q;
    q->intake = mg_intake_ask(q->jobs->config.intake, &question, on_wants, q);
}

static void on_moved(void *ctx, const struct mg_store_result *result)
{
    mg_jobs *jobs = ctx;
    mg_jobs_take(jobs, result);
    mg_jobs_schedule(jobs);
}

/* Only a job that demands measured prices waits for them. */
static void move(mg_jobs *jobs, struct mg_job *job, bool there)
{
    if (!job->info.require_measured || job->run)
        return;
    if (there && job->info.state == MG_JOB_WAITING)
        mg_store_set_waiting(jobs->config.store, job->info.id, false, on_moved, jobs);
    else if (!there && job->info.state == MG_JOB_QUEUED)
        mg_store_set_waiting(jobs->config.store, job->info.id, true, on_moved, jobs);
    else if (there)
        mg_jobs_schedule(jobs);
}

static void on_looked(void *ctx, const struct mg_store_result *result)
{
    struct mg_timing_question *q = ctx;
    mg_jobs *jobs = q->jobs;
    struct mg_job *job = mg_jobs_find(jobs, q->id);
    const struct mg_store_timings *t = result->timings;
    if (!job || result->code != MG_STORE_OK) {
        end_look(q, false);
    } else if (!t->graph_known) {
        move(jobs, job, false);
        mg_store_get_work(jobs->config.store, q->id, on_graph, q);
    } else {
        bool there = t->covered + t->settled >= t->total;
        end_look(q, there);
        move(jobs, job, there);
    }
}

/* What a graph needs on some models is worked out once, however many jobs of both come meanwhile. */
static bool is_asked_for(const mg_jobs *jobs, const struct mg_job *asking)
{
    for (const struct mg_job *job = jobs->first; job; job = job->next)
        if (job->measured == MG_TIMINGS_ASKING && strcmp(job->info.graph_digest, asking->info.graph_digest) == 0 &&
            strcmp(job->info.timings_models, asking->info.timings_models) == 0)
            return true;
    return false;
}

static bool should_look(const mg_jobs *jobs, const struct mg_job *job)
{
    bool open = job->info.state == MG_JOB_QUEUED || job->info.state == MG_JOB_WAITING;
    if (!open || job->held || !uses_timings(job) || jobs->draining)
        return false;
    return job->measured == MG_TIMINGS_UNASKED || (job->measured == MG_TIMINGS_MISSING && job->info.require_measured &&
                                                   uv_now(jobs->config.loop) >= job->look_at);
}

void mg_timings_look(mg_jobs *jobs)
{
    for (struct mg_job *job = jobs->first; job; job = job->next)
        if (should_look(jobs, job) && !is_asked_for(jobs, job)) {
            job->measured = MG_TIMINGS_ASKING;
            mg_store_pick_class(jobs->config.store, job->info.graph_digest, job->info.timings_models, on_looked,
                                new_question(jobs, job));
        }
}

/* ---- what is used ---- */

/* What demands measured prices does not run without: it waits a while in the queue. */
static void give_back(mg_jobs *jobs, struct mg_job *job)
{
    mg_jobs_say(jobs, "error", "timings", "job %s waits: its measured prices cannot be read", job->info.id);
    mg_run_put_off(jobs, job, MG_REQUEUE_UNSTARTED, "store-failed",
                   "the measured prices that the job demands could not be read; the daemon's log says why");
    job->measured = MG_TIMINGS_MISSING;
    job->look_at = job->not_before;
    mg_run_free(jobs, job);
}

/* Goes on with the job, unless it has gone. */
static void proceed(struct mg_timing_question *q)
{
    struct mg_job *job = mg_jobs_find(q->jobs, q->id);
    bool there = job && job->run;
    if (there && job->info.require_measured && job->run->timings_fd < 0)
        give_back(q->jobs, job);
    else if (there)
        q->then(q->jobs, job);
    free(q);
}

static void on_snapshot(void *ctx, const struct mg_store_result *result)
{
    struct mg_timing_question *q = ctx;
    struct mg_job *job = mg_jobs_find(q->jobs, q->id);
    if (result->code != MG_STORE_OK)
        mg_jobs_say(q->jobs, "error", "timings", "job %s has no measured prices: %s", q->id, result->message);
    else if (job && job->run)
        job->run->timings_fd = fcntl(result->fd, F_DUPFD_CLOEXEC, 3);
    proceed(q);
}

static void take_snapshot(struct mg_timing_question *q, const struct mg_job *job)
{
    mg_store_snapshot(q->jobs->config.store, job->info.timings_class, job->info.timings_generation, on_snapshot, q);
}

static void on_pinned(void *ctx, const struct mg_store_result *result)
{
    struct mg_timing_question *q = ctx;
    mg_jobs_take(q->jobs, result);
    struct mg_job *job = mg_jobs_find(q->jobs, q->id);
    if (job && result->code == MG_STORE_OK)
        take_snapshot(q, job);
    else
        proceed(q);
}

static void on_picked(void *ctx, const struct mg_store_result *result)
{
    struct mg_timing_question *q = ctx;
    const struct mg_store_timings *t = result->timings;
    if (result->code == MG_STORE_OK && t->class.id && t->generation > 0)
        mg_store_set_timings(q->jobs->config.store, q->id, t->class.id, t->generation, on_pinned, q);
    else
        proceed(q);
}

void mg_timings_pin(mg_jobs *jobs, struct mg_job *job, void (*then)(mg_jobs *jobs, struct mg_job *job))
{
    struct mg_timing_question *q = new_question(jobs, job);
    q->then = then;
    if (!uses_timings(job))
        proceed(q);
    else if (*job->info.timings_class)
        take_snapshot(q, job);
    else
        mg_store_pick_class(jobs->config.store, job->info.graph_digest, job->info.timings_models, on_picked, q);
}
