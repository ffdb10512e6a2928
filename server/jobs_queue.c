/* Who is next: the highest priority, raised by one class for every ten minutes of waiting; within a
 * class whoever was put off least, then the owner whose workers ran least in the last hour; within an owner the queue's
 * order. */
#include <stdio.h>
#include <string.h>

#include "server/clock.h"
#include "server/jobs_priv.h"

static const uint64_t hour_ms = 3600000, minute_ms = 60000;
static const int64_t rise_ms = 600000;

void mg_jobs_note_time(mg_jobs *jobs, const struct mg_job *job)
{
    struct mg_worker_time *time = &jobs->times[jobs->time_at++ % MG_WORKER_TIMES];
    uint64_t now = uv_now(jobs->config.loop);
    snprintf(time->owner, sizeof time->owner, "%s", job->info.owner);
    time->ended_at = now;
    time->seconds = (double)(now - job->run->started_at) * 1e-3;
}

static double time_of_owner(const mg_jobs *jobs, const char *owner)
{
    uint64_t now = uv_now(jobs->config.loop);
    double sum = 0;
    for (unsigned i = 0; i < MG_WORKER_TIMES; i++) {
        const struct mg_worker_time *time = &jobs->times[i];
        if (time->ended_at && now - time->ended_at < hour_ms && strcmp(time->owner, owner) == 0)
            sum += time->seconds;
    }
    for (const struct mg_job *job = jobs->first; job; job = job->next)
        if (job->run && strcmp(job->info.owner, owner) == 0)
            sum += (double)(now - job->run->started_at) * 1e-3;
    return sum;
}

void mg_jobs_note_death(mg_jobs *jobs)
{
    uint64_t now = uv_now(jobs->config.loop);
    jobs->last_death = now;
    jobs->deaths[jobs->death_at++ % MG_DEATHS] = now;
    if (jobs->death_at < MG_DEATHS)
        return;
    uint64_t oldest = jobs->deaths[jobs->death_at % MG_DEATHS];
    if (now - oldest >= minute_ms || !jobs->stats.claiming)
        return;
    jobs->stats.claiming = false;
    mg_jobs_say(jobs, "error", "claiming-stopped",
                "%d workers died, or could not start, within a minute; one job is tried %g s after the last of them",
                MG_DEATHS, jobs->config.pause_seconds);
}

void mg_jobs_note_success(mg_jobs *jobs)
{
    if (jobs->stats.claiming)
        return;
    jobs->stats.claiming = true;
    jobs->death_at = 0;
    memset(jobs->deaths, 0, sizeof jobs->deaths);
    mg_jobs_say(jobs, "info", "claiming-resumed", "a worker did its job");
}

/* How many workers may run now. After too many deaths: none for a while, then one at a time. */
static unsigned most_workers(const mg_jobs *jobs)
{
    if (!jobs->opened || jobs->draining)
        return 0;
    if (jobs->stats.claiming)
        return jobs->config.workers;
    return (double)(uv_now(jobs->config.loop) - jobs->last_death) >= jobs->config.pause_seconds * 1000;
}

static int64_t class_of(const struct mg_job *job, int64_t now)
{
    int64_t waited = now - job->info.queued_at;
    return (int64_t)job->info.priority - (waited > 0 ? waited / rise_ms : 0);
}

static bool waits(const mg_jobs *jobs, const struct mg_job *job)
{
    return job->info.state == MG_JOB_QUEUED && !job->run && !job->held && !job->ending && mg_timings_ready(job) &&
           uv_now(jobs->config.loop) >= job->not_before;
}

/* Is a before b? Times are asked for only where they decide. */
static bool before(const mg_jobs *jobs, const struct mg_job *a, const struct mg_job *b, int64_t now)
{
    int64_t class_a = class_of(a, now), class_b = class_of(b, now);
    if (class_a != class_b)
        return class_a < class_b;
    if (a->put_off != b->put_off)
        return a->put_off < b->put_off;
    if (strcmp(a->info.owner, b->info.owner) != 0) {
        double time_a = time_of_owner(jobs, a->info.owner), time_b = time_of_owner(jobs, b->info.owner);
        if (time_a != time_b)
            return time_a < time_b;
    }
    if (a->info.queue_order != b->info.queue_order)
        return a->info.queue_order < b->info.queue_order;
    return a->info.number < b->info.number;
}

static struct mg_job *next_job(const mg_jobs *jobs)
{
    struct mg_job *best = NULL;
    int64_t now = mg_clock_wall_ms();
    for (struct mg_job *job = jobs->first; job; job = job->next)
        if (waits(jobs, job) && (!best || before(jobs, job, best, now)))
            best = job;
    return best;
}

void mg_jobs_schedule(mg_jobs *jobs)
{
    mg_timings_look(jobs);
    while (jobs->running < most_workers(jobs)) {
        struct mg_job *job = next_job(jobs);
        if (!job)
            return;
        mg_jobs_check_deadline(jobs, job, mg_clock_wall_ms());
        if (!job->ending)
            mg_run_start(jobs, job);
    }
}

unsigned mg_jobs_position(mg_jobs *jobs, const struct mg_job *job)
{
    unsigned ahead = 0;
    int64_t now = mg_clock_wall_ms();
    for (const struct mg_job *other = jobs->first; other; other = other->next)
        ahead += other != job && waits(jobs, other) && class_of(other, now) <= class_of(job, now) &&
                 before(jobs, other, job, now);
    return ahead + 1;
}

size_t mg_jobs_not_started(const mg_jobs *jobs, const char *owner)
{
    size_t count = 0;
    for (const struct mg_job *job = jobs->first; job; job = job->next)
        if (job->info.state < MG_JOB_RUNNING && (!owner || strcmp(job->info.owner, owner) == 0))
            count++;
    return count;
}
