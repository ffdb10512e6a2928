/* How a running job ends: its worker's result, an error, its worker's death; or it goes back to the queue. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/jobs_priv.h"

static const uint64_t first_pause_ms = 10000, longest_pause_ms = 60000;

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

/* What the search found, for the attempt that goes on from it. */
static void keep_found(mg_jobs *jobs, struct mg_job *job)
{
    job->run->saved_at = 0;
    mg_run_save_progress(jobs, job);
    mg_run_save_now(jobs, job);
}

void mg_run_fail(mg_jobs *jobs, struct mg_job *job, char *error)
{
    const struct mg_run *run = job->run;
    const struct mg_store_outcome outcome = {.state = MG_JOB_FAILED,
                                             .stopped_by = run->deadline ? MG_STOP_DEADLINE : MG_STOP_NONE,
                                             .error = error ? error : "{}",
                                             .evaluations = (int64_t)run->evaluations,
                                             .lower_bound = -1,
                                             .smallest_found = -1,
                                             .elapsed_s = run->base_elapsed + run->elapsed_s};
    mg_job_finish(jobs, job, &outcome);
    free(error);
}

void mg_run_put_off(mg_jobs *jobs, struct mg_job *job, enum mg_requeue_cause cause, const char *problem,
                    const char *detail)
{
    uint64_t pause = ++job->put_off < 4 ? first_pause_ms << (job->put_off - 1) : longest_pause_ms;
    bool overdue = job->deadline_at > 0 && mg_clock_wall_ms() >= job->deadline_at;
    job->not_before = uv_now(jobs->config.loop) + pause;
    jobs->stats.put_off++;
    if (job->info.state == MG_JOB_RUNNING && (overdue || job->put_off >= MG_PUT_OFF_MAX)) {
        job->run->deadline |= overdue;
        mg_run_fail(jobs, job, mg_problem_document(problem, detail, "", NULL));
    } else if (job->info.state == MG_JOB_RUNNING || job->info.state == MG_JOB_CANCELLING) {
        mg_job_requeue(jobs, job, cause, NULL);
    }
}

static void finish(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    bool cancelled = job->info.state == MG_JOB_CANCELLING;
    enum mg_job_stop stop = cancelled ? MG_STOP_CANCELLED : stop_of(job, event);
    bool told = event->kind == MG_WORKER_END;
    char *result = told ? result_json(event) : NULL;
    const struct mg_front_point *last = run->published_count ? &run->published[run->published_count - 1] : NULL;
    struct mg_store_outcome outcome = {.state = cancelled ? MG_JOB_CANCELLED : MG_JOB_SUCCEEDED,
                                       .outcome = outcome_of(run, event),
                                       .stopped_by = stop,
                                       .result = result,
                                       .evaluations = (int64_t)event->evaluations,
                                       .accepted = (int64_t)event->accepted,
                                       .rejected = (int64_t)event->rejected,
                                       .elapsed_s = run->base_elapsed + event->elapsed_s,
                                       .lower_bound = told ? (int64_t)event->lower_bound_bytes : -1,
                                       .smallest_found = last ? (int64_t)last->peak_bytes : -1,
                                       .reproducible =
                                           !run->resumes && (stop == MG_STOP_EVALUATIONS || stop == MG_STOP_EXHAUSTED)};
    memcpy(outcome.prices, event->prices, sizeof outcome.prices);
    mg_jobs_say(jobs, "info", "job-ended", "job %s: %s by %s after %.1f s, %llu states, %zu plans", job->info.id,
                mg_job_state_name(outcome.state), stop ? mg_job_stop_name(stop) : "itself", outcome.elapsed_s,
                (unsigned long long)event->evaluations, run->published_count);
    mg_job_finish(jobs, job, &outcome);
    free(result);
}

void mg_run_end(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
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
        keep_found(jobs, job);
        mg_job_requeue(jobs, job, MG_REQUEUE_DRAIN, NULL);
    } else {
        finish(jobs, job, event);
    }
}

void mg_run_error(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    bool full = strcmp(event->code, MG_WORKER_SPOOL_FULL) == 0;
    bool input = strcmp(event->code, "invalid") == 0 || strcmp(event->code, "limit") == 0;
    const char *name = strcmp(event->code, "unsupported") == 0 ? "unsupported"
                       : input                                 ? "invalid-graph"
                       : full                                  ? "no-space"
                       : strcmp(event->code, "nomem") == 0     ? "worker-memory"
                                                               : "internal";
    mg_jobs_say(jobs, "error", "worker-error", "job %s: %s: %s", job->info.id, event->code, event->message);
    if (strcmp(event->code, MG_WORKER_NO_SPOOL) == 0) {
        mg_jobs_note_death(jobs);
        keep_found(jobs, job);
        mg_run_put_off(jobs, job, MG_REQUEUE_DRAIN, "no-space", event->message);
        return;
    }
    mg_run_fail(jobs, job, mg_problem_document(name, event->message, event->pointer, NULL));
}

#define SECOND "; it was the second worker of this job to be lost"

static char *death_document(const struct mg_worker_event *event, bool hung)
{
    char detail[400];
    if (hung)
        snprintf(detail, sizeof detail,
                 "the search worker neither ended nor showed progress and was killed" SECOND
                 "; retry the job, and if it fails again report it with its graph; a machine that is much too busy "
                 "wants fewer workers (--workers) or more patience (--silence-seconds)");
    else if (event->signal == SIGKILL)
        snprintf(detail, sizeof detail,
                 "the search worker was killed (signal %d), as the kernel does when memory runs out" SECOND
                 "; free memory or run fewer workers (--workers), then retry the job",
                 event->signal);
    else if (event->signal)
        snprintf(detail, sizeof detail,
                 "the search worker was ended by signal %d (%s)" SECOND
                 "; retry the job, and if it fails again report it with its graph",
                 event->signal, strsignal(event->signal));
    else
        snprintf(detail, sizeof detail,
                 "the search worker ended with status %d before its result" SECOND "; the member stderr may say why",
                 event->exit_status);
    json_t *members = json_object();
    json_object_set_new(members, "signal", json_integer(event->signal));
    json_object_set_new(members, "exit_status", json_integer(event->exit_status));
    json_t *checked = json_string(event->errors); /* NULL if it is no UTF-8 */
    json_object_set_new(members, "stderr", checked ? checked : json_string("(not text)"));
    return mg_problem_document("worker-died", detail, "", members);
}

/* Stopped at its deadline, it did not hand over its front in time: what it had told of is the result. */
static void end_late(mg_jobs *jobs, struct mg_job *job)
{
    const struct mg_run *run = job->run;
    const struct mg_worker_event end = {.kind = MG_WORKER_EXIT,
                                        .outcome = "front",
                                        .stopped_by = "cancelled",
                                        .evaluations = run->evaluations,
                                        .elapsed_s = run->elapsed_s};
    if (run->published_count)
        finish(jobs, job, &end);
    else
        mg_run_fail(
            jobs, job,
            mg_problem_document("deadline", "the deadline passed before the search had found a plan", "", NULL));
}

void mg_run_death(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event)
{
    struct mg_run *run = job->run;
    /* It took too long to hand over its front, or had not begun to listen when it was told to stop. */
    bool ours = run->stopping && (event->signal == SIGKILL || event->signal == SIGTERM);
    if (!run->hung)
        mg_jobs_say(jobs, ours ? "warn" : "error", ours ? "worker-killed" : "worker-died",
                    "job %s: status %d, signal %d: %s", job->info.id, event->exit_status, event->signal, event->errors);
    if (ours && job->info.state == MG_JOB_RUNNING && jobs->draining) {
        mg_run_save_now(jobs, job);
        mg_job_requeue(jobs, job, MG_REQUEUE_DRAIN, NULL);
        return;
    }
    if (ours && run->deadline && job->info.state == MG_JOB_RUNNING) {
        end_late(jobs, job);
        return;
    }
    if (!run->stopping) {
        jobs->stats.worker_deaths++;
        mg_jobs_note_death(jobs);
    }
    if (event->protocol_error) {
        mg_run_fail(jobs, job, mg_problem_document("internal", "the search worker wrote what it must not", "", NULL));
        return;
    }
    char *error = death_document(event, run->hung);
    mg_run_save_now(jobs, job);
    mg_job_requeue(jobs, job, MG_REQUEUE_CRASH, error ? error : "{}");
    free(error);
}
