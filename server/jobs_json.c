/* Jobs and fronts as JSON (schemas.json: Job, JobList, Pareto). */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/jobs_priv.h"
#include "server/routes.h"
#include "store/measured.h"

static void write_time(struct mg_writer *w, const char *key, int64_t ms)
{
    char text[40];
    struct tm parts;
    time_t seconds = (time_t)(ms / 1000);
    mg_write_key(w, key);
    if (ms <= 0 || !gmtime_r(&seconds, &parts)) {
        mg_write_null(w);
        return;
    }
    size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + size, sizeof text - size, ".%03dZ", (int)(ms % 1000));
    mg_write_string(w, text);
}

static void write_text_or_null(struct mg_writer *w, const char *key, const char *text)
{
    mg_write_key(w, key);
    if (text && *text)
        mg_write_string(w, text);
    else
        mg_write_null(w);
}

static void write_json_or_null(struct mg_writer *w, const char *key, const char *json)
{
    mg_write_key(w, key);
    if (json && *json)
        mg_write_raw(w, json, strlen(json));
    else
        mg_write_null(w);
}

static void write_bytes_or_null(struct mg_writer *w, const char *key, int64_t bytes)
{
    mg_write_key(w, key);
    if (bytes >= 0)
        mg_write_int(w, bytes);
    else
        mg_write_null(w);
}

static struct mg_answer_original original_of(const struct mg_store_job *info)
{
    return (struct mg_answer_original){info->original_latency_s, (uint64_t)info->original_peak,
                                       (uint64_t)info->original_arena};
}

static void write_best(struct mg_writer *w, const struct mg_store_job *info)
{
    struct mg_answer_original original = original_of(info);
    struct mg_answer_point point = {.plan = info->best_plan,
                                    .latency_s = info->best_latency_s,
                                    .peak_bytes = (uint64_t)info->best_peak,
                                    .arena_bytes = (uint64_t)info->best_arena,
                                    .host_bytes = (uint64_t)info->best_host};
    mg_write_key(w, "original");
    if (info->has_original)
        mg_answer_write_original(w, &original);
    else
        mg_write_null(w);
    mg_write_key(w, "best");
    if (info->has_best)
        mg_answer_write_point(w, &point, &original);
    else
        mg_write_null(w);
}

static void write_queue(struct mg_writer *w, mg_jobs *jobs, const struct mg_job *job)
{
    mg_write_key(w, "queue");
    if (!job || job->info.state != MG_JOB_QUEUED || job->run) {
        mg_write_null(w);
        return;
    }
    unsigned position = mg_jobs_position(jobs, job);
    unsigned workers = jobs->config.workers ? jobs->config.workers : 1;
    double each = job->info.budget_seconds > 0 ? job->info.budget_seconds : 30;
    mg_write_begin_object(w);
    mg_write_member_uint(w, "position", position);
    mg_write_member_double(w, "eta_s", each * (double)(position / workers));
    mg_write_end_object(w);
}

static void write_progress(struct mg_writer *w, const struct mg_job *job, const struct mg_store_job *info)
{
    const struct mg_run *run = job ? job->run : NULL;
    mg_write_key(w, "progress");
    mg_write_begin_object(w);
    mg_write_member_uint(w, "evaluations", run ? run->evaluations : (uint64_t)info->evaluations);
    mg_write_member_double(w, "elapsed_s", run ? run->base_elapsed + run->elapsed_s : info->elapsed_s);
    mg_write_member_double(w, "fraction", run ? run->fraction : mg_job_state_ended(info->state) ? 1.0 : 0.0);
    mg_write_end_object(w);
}

static void write_checked(struct mg_writer *w, const struct mg_store_job *info)
{
    static const char *const sources[] = {"exact", "near", "scaled", "modelled"};
    mg_write_key(w, "checked");
    mg_write_begin_object(w);
    mg_write_member_int(w, "accepted", info->accepted);
    mg_write_member_int(w, "rejected", info->rejected);
    mg_write_end_object(w);
    mg_write_key(w, "prices");
    mg_write_begin_object(w);
    for (int i = 0; i < 4; i++)
        mg_write_member_double(w, sources[i], info->prices[i]);
    mg_write_end_object(w);
    mg_write_member_double(w, "measured_share", info->prices[0] + info->prices[1]);
    mg_write_member_int(w, "timings_generation", info->timings_generation);
    write_text_or_null(w, "timings_class", info->timings_class);
}

static void write_times(struct mg_writer *w, mg_jobs *jobs, const struct mg_store_job *info)
{
    int64_t keep_ms = (int64_t)jobs->config.keep_days * 86400000;
    write_time(w, "created_at", info->created_at);
    write_time(w, "queued_at", info->queued_at);
    write_time(w, "started_at", info->started_at);
    write_time(w, "ended_at", info->ended_at);
    write_time(w, "deadline_at", info->deadline_at);
    write_time(w, "expires_at", info->ended_at > 0 && keep_ms > 0 && !info->pinned ? info->ended_at + keep_ms : 0);
}

static void write_budget(struct mg_writer *w, const struct mg_store_job *info)
{
    mg_write_key(w, "budget");
    mg_write_begin_object(w);
    mg_write_key(w, "seconds");
    if (info->budget_seconds > 0)
        mg_write_double(w, info->budget_seconds);
    else
        mg_write_null(w);
    mg_write_key(w, "evaluations");
    if (info->budget_evaluations > 0)
        mg_write_int(w, info->budget_evaluations);
    else
        mg_write_null(w);
    mg_write_end_object(w);
}

static void write_links(struct mg_writer *w, mg_jobs *jobs, const char *id)
{
    char page[64], url[1024];
    snprintf(page, sizeof page, MG_JOB_PAGE, id);
    snprintf(url, sizeof url, "%s%s", jobs->public_url, page);
    mg_write_member_string(w, "html_url", url);
    snprintf(url, sizeof url, "%s/jobs/%s", jobs->public_url, id);
    mg_write_member_string(w, "url", url);
}

static void write_identity(struct mg_writer *w, const struct mg_store_job *info)
{
    mg_write_member_string(w, "id", info->id);
    write_text_or_null(w, "name", info->name);
    write_json_or_null(w, "labels", *info->labels ? info->labels : "{}");
    mg_write_member_string(w, "owner", info->owner);
    mg_write_member_string(w, "state", mg_job_state_name(info->state));
    write_text_or_null(w, "outcome", mg_job_outcome_name(info->outcome));
    write_text_or_null(w, "stopped_by", mg_job_stop_name(info->stopped_by));
    write_json_or_null(w, "error", info->error);
    mg_write_member_string(w, "priority", mg_job_priority_name(info->priority));
    write_text_or_null(w, "network", info->network);
    write_text_or_null(w, "device", info->device);
    /* Stored with a digest of the names behind it (intake). */
    mg_write_key(w, "graph_digest");
    if (strlen(info->graph_digest) >= 64) {
        char digest[65];
        snprintf(digest, sizeof digest, "%.64s", info->graph_digest);
        mg_write_string(w, digest);
    } else {
        mg_write_null(w);
    }
}

void mg_job_write(struct mg_writer *w, mg_jobs *jobs, const struct mg_store_job *info)
{
    struct mg_job *job = mg_jobs_find(jobs, info->id);
    mg_write_begin_object(w);
    write_identity(w, info);
    write_budget(w, info);
    write_queue(w, jobs, job);
    write_progress(w, job, info);
    write_best(w, info);
    write_bytes_or_null(w, "smallest_found", info->smallest_found);
    write_bytes_or_null(w, "lower_bound_bytes", info->lower_bound);
    write_json_or_null(w, "result", info->result);
    write_checked(w, info);
    mg_write_member_bool(w, "reproducible", info->reproducible);
    mg_write_member_bool(w, "pinned", info->pinned);
    write_text_or_null(w, "reused_from", info->reused_from);
    mg_write_member_int(w, "attempts", info->attempts);
    mg_write_member_int(w, "revision", info->revision);
    write_times(w, jobs, info);
    write_links(w, jobs, info->id);
    mg_write_end_object(w);
}

/* ---- fronts ---- */

static struct mg_answer_point answer_of(const struct mg_store_point *point, bool techniques)
{
    return (struct mg_answer_point){.plan = point->plan,
                                    .latency_s = point->latency_s,
                                    .peak_bytes = (uint64_t)point->peak,
                                    .arena_bytes = (uint64_t)point->arena,
                                    .host_bytes = (uint64_t)point->host,
                                    .techniques = techniques ? (point->techniques ? point->techniques : "[]") : NULL,
                                    .has_k = true,
                                    .k = point->k};
}

void mg_job_point_write(struct mg_writer *w, const struct mg_store_job *info, const struct mg_store_point *point,
                        bool techniques)
{
    struct mg_answer_original original = original_of(info);
    struct mg_answer_point answer = answer_of(point, techniques);
    mg_answer_write_point(w, &answer, &original);
}

struct front_point {
    const struct mg_store_result *front;
    const struct mg_store_point *point;
};

/* What is known of the point's time, the best first: the plan ran as a whole; its operators were measured; neither. */
static const char *basis_of(const struct mg_store_result *front, const struct mg_store_point *point,
                            const struct mg_measured *done)
{
    if (done)
        return "measured";
    if (point->measured_share >= 0)
        return point->measured_share > 0 ? "operators" : "model";
    /* a plan from before its own share was kept: its job's */
    return front->job->prices[0] + front->job->prices[1] > 0 ? "operators" : "model";
}

static void write_basis(struct mg_writer *w, const void *context)
{
    const struct front_point *p = context;
    const struct mg_measured *done = NULL, *newest = NULL;
    for (size_t i = 0; i < p->front->n_measured; i++) {
        const struct mg_measured *m = &p->front->measured[i];
        if (strcmp(m->plan, p->point->plan) != 0)
            continue;
        done = m->state == MG_MEASURED_DONE ? m : done;
        newest = m;
    }
    mg_write_member_string(w, "basis", basis_of(p->front, p->point, done));
    mg_write_key(w, "measured_share");
    if (p->point->measured_share >= 0)
        mg_write_double(w, p->point->measured_share);
    else
        mg_write_null(w);
    mg_write_key(w, "measured");
    if (done)
        mg_measured_write(w, done);
    else
        mg_write_null(w);
    write_text_or_null(w, "measuring", newest && newest != done ? mg_measured_state_name(newest->state) : NULL);
}

static void write_front_point(struct mg_writer *w, const struct mg_store_result *front,
                              const struct mg_store_point *point, bool techniques)
{
    const struct front_point context = {front, point};
    struct mg_answer_original original = original_of(front->job);
    struct mg_answer_point answer = answer_of(point, techniques);
    answer.more = write_basis;
    answer.context = &context;
    mg_answer_write_point(w, &answer, &original);
}

static size_t write_baseline(struct mg_writer *w, const struct mg_store_result *front, size_t begin)
{
    const struct mg_store_point *points = front->points + begin;
    size_t end = 0, count = front->n_points - begin;
    const char *reason = NULL;
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", points[0].series);
    mg_write_key(w, "points");
    mg_write_begin_array(w);
    for (; end < count && strcmp(points[end].series, points[0].series) == 0; end++) {
        if (points[end].reason)
            reason = points[end].reason;
        else
            write_front_point(w, front, &points[end], false);
    }
    mg_write_end_array(w);
    write_text_or_null(w, "not_applicable", reason);
    mg_write_end_object(w);
    return end;
}

static void write_original(struct mg_writer *w, const struct mg_store_result *front)
{
    mg_write_key(w, "original");
    for (size_t i = 0; i < front->n_points; i++)
        if (front->points[i].kind == MG_POINT_ORIGINAL) {
            write_front_point(w, front, &front->points[i], false);
            return;
        }
    mg_write_null(w);
}

void mg_front_write(struct mg_writer *w, const struct mg_store_result *front)
{
    mg_write_begin_object(w);
    write_original(w, front);
    mg_write_key(w, "pareto");
    mg_write_begin_array(w);
    for (size_t i = 0; i < front->n_points; i++)
        if (front->points[i].kind == MG_POINT_FRONT)
            write_front_point(w, front, &front->points[i], true);
    mg_write_end_array(w);
    mg_write_key(w, "baselines");
    mg_write_begin_array(w);
    for (size_t i = 0; i < front->n_points;)
        i += front->points[i].kind == MG_POINT_BASELINE ? write_baseline(w, front, i) : 1;
    mg_write_end_array(w);
    write_text_or_null(w, "best", front->job->best_plan);
    mg_write_end_object(w);
}
