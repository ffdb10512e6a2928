/* Who is next in the queue: priority, waiting, fair shares, order. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"

struct queue {
    uv_loop_t loop;
    mg_jobs *jobs;
    int64_t now;
};

static void open_queue(struct queue *q)
{
    uv_timeval64_t time;
    uv_gettimeofday(&time);
    q->now = time.tv_sec * 1000;
    uv_loop_init(&q->loop);
    q->jobs = calloc(1, sizeof *q->jobs);
    q->jobs->config.loop = &q->loop;
}

static void close_queue(struct queue *q)
{
    while (q->jobs->first) {
        struct mg_job *next = q->jobs->first->next;
        free(q->jobs->first);
        q->jobs->first = next;
    }
    free(q->jobs);
    uv_loop_close(&q->loop);
}

static struct mg_job *add(struct queue *q, const char *id, enum mg_job_priority priority, const char *owner,
                          int64_t order, int64_t waited_s)
{
    struct mg_job *job = calloc(1, sizeof *job);
    snprintf(job->info.id, sizeof job->info.id, "%s", id);
    job->info.state = MG_JOB_QUEUED;
    job->info.priority = priority;
    job->info.owner = owner;
    job->info.queue_order = order;
    job->info.number = order;
    job->info.queued_at = q->now - waited_s * 1000;
    job->next = q->jobs->first;
    q->jobs->first = job;
    return job;
}

static void ran(struct queue *q, const char *owner, double seconds)
{
    struct mg_worker_time *time = &q->jobs->times[q->jobs->time_at++ % MG_WORKER_TIMES];
    snprintf(time->owner, sizeof time->owner, "%s", owner);
    time->ended_at = uv_now(&q->loop);
    time->seconds = seconds;
}

Test(queue, order_within_a_class)
{
    struct queue q;
    open_queue(&q);
    struct mg_job *second = add(&q, "b", MG_PRIORITY_NORMAL, "", 2, 5);
    struct mg_job *first = add(&q, "a", MG_PRIORITY_NORMAL, "", 1, 5);
    struct mg_job *third = add(&q, "c", MG_PRIORITY_NORMAL, "", 3, 5);
    cr_assert_eq(mg_jobs_position(q.jobs, first), 1);
    cr_assert_eq(mg_jobs_position(q.jobs, second), 2);
    cr_assert_eq(mg_jobs_position(q.jobs, third), 3);
    third->info.state = MG_JOB_RUNNING;
    first->info.state = MG_JOB_CANCELLED;
    cr_assert_eq(mg_jobs_position(q.jobs, second), 1, "only waiting jobs count");
    close_queue(&q);
}

Test(queue, priorities)
{
    struct queue q;
    open_queue(&q);
    struct mg_job *batch = add(&q, "a", MG_PRIORITY_BATCH, "", 1, 60);
    struct mg_job *normal = add(&q, "b", MG_PRIORITY_NORMAL, "", 2, 5);
    struct mg_job *interactive = add(&q, "c", MG_PRIORITY_INTERACTIVE, "", 3, 0);
    cr_assert_eq(mg_jobs_position(q.jobs, interactive), 1);
    cr_assert_eq(mg_jobs_position(q.jobs, normal), 2);
    cr_assert_eq(mg_jobs_position(q.jobs, batch), 3);
    close_queue(&q);
}

Test(queue, waiting_jobs_rise)
{
    struct queue q;
    open_queue(&q);
    struct mg_job *old_batch = add(&q, "a", MG_PRIORITY_BATCH, "", 1, 1900);
    struct mg_job *normal = add(&q, "b", MG_PRIORITY_NORMAL, "", 2, 5);
    struct mg_job *young_batch = add(&q, "c", MG_PRIORITY_BATCH, "", 3, 500);
    cr_assert_eq(mg_jobs_position(q.jobs, old_batch), 1);
    cr_assert_eq(mg_jobs_position(q.jobs, normal), 2);
    cr_assert_eq(mg_jobs_position(q.jobs, young_batch), 3);
    close_queue(&q);
}

Test(queue, fair_shares)
{
    struct queue q;
    open_queue(&q);
    struct mg_job *greedy = add(&q, "a", MG_PRIORITY_NORMAL, "greedy", 1, 50);
    struct mg_job *modest = add(&q, "b", MG_PRIORITY_NORMAL, "modest", 2, 5);
    cr_assert_eq(mg_jobs_position(q.jobs, greedy), 1, "nobody has run yet");
    ran(&q, "greedy", 100);
    ran(&q, "modest", 10);
    cr_assert_eq(mg_jobs_position(q.jobs, modest), 1);
    cr_assert_eq(mg_jobs_position(q.jobs, greedy), 2);
    ran(&q, "modest", 200);
    cr_assert_eq(mg_jobs_position(q.jobs, greedy), 1);
    greedy->put_off = 1;
    cr_assert_eq(mg_jobs_position(q.jobs, greedy), 2, "one that could not start lets others go first");
    greedy->put_off = 0;
    modest->info.priority = MG_PRIORITY_INTERACTIVE;
    cr_assert_eq(mg_jobs_position(q.jobs, modest), 1, "a priority goes before a share");
    close_queue(&q);
}

Test(queue, deaths_stop_claiming)
{
    struct queue q;
    open_queue(&q);
    q.jobs->stats.claiming = true;
    for (unsigned i = 0; i < 4; i++)
        mg_jobs_note_death(q.jobs);
    cr_assert(q.jobs->stats.claiming);
    mg_jobs_note_death(q.jobs);
    cr_assert_not(q.jobs->stats.claiming);
    close_queue(&q);
}

Test(queue, unfinished_by_owner)
{
    struct queue q;
    open_queue(&q);
    add(&q, "a", MG_PRIORITY_NORMAL, "x", 1, 0);
    add(&q, "b", MG_PRIORITY_NORMAL, "y", 2, 0)->info.state = MG_JOB_VALIDATING;
    add(&q, "c", MG_PRIORITY_NORMAL, "x", 3, 0)->info.state = MG_JOB_RUNNING;
    cr_assert_eq(mg_jobs_not_started(q.jobs, NULL), 2);
    cr_assert_eq(mg_jobs_not_started(q.jobs, "x"), 1);
    cr_assert_eq(mg_jobs_not_started(q.jobs, "z"), 0);
    close_queue(&q);
}
