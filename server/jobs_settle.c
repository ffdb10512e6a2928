/* The end of a job on its way into the store. It is kept whole until the store has it: a result that the disk had no
 * room for is not searched for again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"

enum { SETTLE_TICKS = 10 };

struct mg_ending {
    bool requeues;
    enum mg_requeue_cause cause;
    struct mg_store_outcome outcome;
    char *error, *result;
    struct mg_change *last;       /* what goes along */
    struct mg_change *last_saved; /* ... if the save of points under way succeeds */
    bool awaits_save, sent;
    unsigned ticks; /* since it was sent */
};

void mg_ending_free(struct mg_ending *ending)
{
    if (!ending)
        return;
    free(ending->error);
    free(ending->result);
    mg_change_free(ending->last);
    mg_change_free(ending->last_saved);
    free(ending);
}

static void drop(struct mg_job *job)
{
    mg_ending_free(job->ending);
    job->ending = NULL;
}

/* An end that the store finds wrong goes without its points; one without is given up, and the job left to be settled.
 */
static void keep_or_drop(struct mg_job *job, enum mg_store_code code)
{
    struct mg_ending *ending = job->ending;
    bool wrong = code == MG_STORE_INVALID || code == MG_STORE_INTERNAL;
    ending->sent = false;
    ending->ticks = 0;
    if (code == MG_STORE_OK || code == MG_STORE_CONFLICT || code == MG_STORE_NOT_FOUND || (wrong && !ending->last)) {
        drop(job);
    } else if (wrong) {
        mg_change_free(ending->last);
        ending->last = NULL;
    }
}

static void on_ended(void *ctx, const struct mg_store_result *result)
{
    struct mg_job_ref *ref = ctx;
    mg_jobs *jobs = ref->jobs;
    struct mg_job *job = mg_jobs_find(jobs, ref->id);
    if (job && job->ending)
        keep_or_drop(job, result->code);
    free(ref);
    mg_jobs_written(jobs, result);
}

static void send_ending(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_ending *ending = job->ending;
    struct mg_job_ref *ref = mg_job_ref_new(jobs, job);
    ending->sent = true;
    if (ending->requeues)
        mg_store_requeue(jobs->config.store, ref->id, ending->cause, ending->error, on_ended, ref);
    else
        mg_store_finish(jobs->config.store, ref->id, &ending->outcome, ending->last ? &ending->last->points : NULL,
                        on_ended, ref);
}

static struct mg_ending *new_ending(struct mg_job *job, const char *error)
{
    struct mg_ending *ending = calloc(1, sizeof *ending);
    if (!ending)
        abort();
    ending->error = mg_jobs_copy_text(error);
    job->ending = ending;
    if (job->run)
        job->run->finished = true;
    return ending;
}

void mg_job_finish(mg_jobs *jobs, struct mg_job *job, const struct mg_store_outcome *outcome)
{
    if (job->ending)
        return;
    struct mg_ending *ending = new_ending(job, outcome->error);
    ending->result = mg_jobs_copy_text(outcome->result);
    ending->outcome = *outcome;
    ending->outcome.error = ending->error;
    ending->outcome.result = ending->result;
    ending->outcome.best = NULL;
    if (job->run) {
        ending->awaits_save = job->run->saving;
        ending->last_saved = job->run->saving ? mg_change_of(job, true) : NULL;
        ending->last = mg_change_of(job, false);
    }
    if (!ending->awaits_save)
        send_ending(jobs, job);
}

void mg_job_requeue(mg_jobs *jobs, struct mg_job *job, enum mg_requeue_cause cause, const char *error)
{
    if (job->ending)
        return;
    struct mg_ending *ending = new_ending(job, error);
    ending->requeues = true;
    ending->cause = cause;
    send_ending(jobs, job);
}

void mg_ending_saved(mg_jobs *jobs, struct mg_job *job, bool stored)
{
    struct mg_ending *ending = job->ending;
    if (!ending || !ending->awaits_save)
        return;
    ending->awaits_save = false;
    if (stored) {
        mg_change_free(ending->last);
        ending->last = ending->last_saved;
        ending->last_saved = NULL;
    }
    send_ending(jobs, job);
}

/* Nobody has it: its worker is gone, or intake's answer was lost. */
static void take_up(mg_jobs *jobs, struct mg_job *job)
{
    if (job->info.state == MG_JOB_VALIDATING) {
        mg_jobs_read_again(jobs, job);
    } else if (job->info.state == MG_JOB_RUNNING || job->info.state == MG_JOB_CANCELLING) {
        char *error = mg_problem_document(
            "store-failed", "the end of the search could not be stored; look at the daemon's log, then retry the job",
            "", NULL);
        mg_job_requeue(jobs, job, MG_REQUEUE_CRASH, error ? error : "{}");
        free(error);
    }
}

void mg_job_settle(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_ending *ending = job->ending;
    if (ending) {
        if (!ending->sent && !ending->awaits_save && ++ending->ticks >= SETTLE_TICKS)
            send_ending(jobs, job);
    } else if (!job->run && !jobs->draining && jobs->ticks % SETTLE_TICKS == 0) {
        take_up(jobs, job);
    }
}
