/* What nobody reports is looked for once a tick: workers that hang, ends that the store did not take, a store whose
 * file is another one.
 *
 * A worker tells of its progress twice a second. Silence is counted in ticks, so that a daemon that was stopped itself
 * suspects nobody, and allowed for longer where more processes want to run than there are processors: workers come
 * last. */
#include <stdlib.h>

#include "server/jobs_priv.h"

enum { SETTLE_TICKS = 10 };

static double load_of_machine(void)
{
    double load[3], processors = uv_available_parallelism();
    uv_loadavg(load);
    return load[0] > processors ? load[0] / processors : 1;
}

void mg_run_watch(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    if (!run || !run->worker || run->finished || run->stopping || run->hung || uv_now(jobs->config.loop) < run->due_at)
        return;
    run->silent++;
    double seconds = run->silent * (MG_TICK_MS * 1e-3);
    if (seconds <= jobs->config.silence_seconds || seconds <= jobs->config.silence_seconds * load_of_machine())
        return;
    run->hung = true;
    mg_jobs_say(jobs, "error", "worker-killed", "job %s: %sno sign of its worker for %.0f s", job->info.id,
                run->due_at ? "its search time is over, and there was " : "", seconds);
    mg_worker_kill(run->worker);
}

/* The end of a run is written while the run is still there or just after: what is then running without a run was left
 * behind by a write that failed. If that is yet to come, what is written here is refused. */
void mg_run_settle(mg_jobs *jobs, struct mg_job *job)
{
    bool runs = job->info.state == MG_JOB_RUNNING || job->info.state == MG_JOB_CANCELLING;
    if (!runs || job->run || jobs->ticks % SETTLE_TICKS != 0)
        return;
    if (job->unsaved_error) {
        const struct mg_store_outcome outcome = {
            .state = MG_JOB_FAILED, .error = job->unsaved_error, .lower_bound = -1, .smallest_found = -1};
        mg_store_finish(jobs->config.store, job->info.id, &outcome, NULL, mg_run_saved, jobs);
        return;
    }
    char *error = mg_problem_document(
        "store-failed", "the end of the search could not be stored twice; free space on the disk, then retry the job",
        "", NULL);
    mg_store_requeue(jobs->config.store, job->info.id, MG_REQUEUE_CRASH, error ? error : "{}", mg_run_saved, jobs);
    free(error);
}

void mg_jobs_watch_store(mg_jobs *jobs)
{
    bool lost = !mg_store_in_place(jobs->config.store);
    if (lost != jobs->store_lost)
        mg_jobs_say(jobs, lost ? "error" : "info", lost ? "store-lost" : "store-back", "%s/store.db %s", jobs->data_dir,
                    lost ? MG_STORE_LOST : "is the file that this daemon writes");
    jobs->store_lost = lost;
}
