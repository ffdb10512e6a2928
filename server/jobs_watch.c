/* What nobody reports is looked for once a tick: workers that hang, saves that the store did not take, a store whose
 * file is another one.
 *
 * A worker gives a sign every few seconds, and leaves soon after its end. Silence is counted in ticks, so that a daemon
 * that was stopped itself suspects nobody, and allowed for longer where more processes want to run than there are
 * processors: workers come last. */
#include "server/jobs_priv.h"

enum { LEAVE_SECONDS = 10 };

static double load_of_machine(void)
{
    double load[3], processors = uv_available_parallelism();
    uv_loadavg(load);
    return load[0] > processors ? load[0] / processors : 1;
}

static bool is_silent(const mg_jobs *jobs, const struct mg_run *run)
{
    double most = run->finished ? LEAVE_SECONDS : jobs->config.silence_seconds;
    double seconds = run->silent * (MG_TICK_MS * 1e-3);
    return seconds > most && seconds > most * load_of_machine();
}

static void watch_worker(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    bool due = run->finished || (!run->stopping && uv_now(jobs->config.loop) >= run->due_at);
    if (run->hung || !due)
        return;
    run->silent++;
    if (!is_silent(jobs, run))
        return;
    run->hung = true;
    mg_jobs_say(jobs, "error", "worker-killed", "job %s: %sno sign of its worker for %.0f s", job->info.id,
                run->finished ? "it has ended, and there was "
                : run->due_at ? "its search time is over, and there was "
                              : "",
                run->silent * (MG_TICK_MS * 1e-3));
    mg_worker_kill(run->worker);
}

void mg_run_watch(mg_jobs *jobs, struct mg_job *job)
{
    struct mg_run *run = job->run;
    if (!run || !run->worker)
        return;
    watch_worker(jobs, job);
    if (run->unsaved && !run->saving && !run->finished)
        mg_run_save_points(jobs, job);
}

void mg_jobs_watch_store(mg_jobs *jobs)
{
    bool lost = !mg_store_in_place(jobs->config.store);
    if (lost != jobs->store_lost)
        mg_jobs_say(jobs, lost ? "error" : "info", lost ? "store-lost" : "store-back", "%s/store.db %s", jobs->data_dir,
                    lost ? MG_STORE_LOST : "is the file that this daemon writes");
    jobs->store_lost = lost;
}
