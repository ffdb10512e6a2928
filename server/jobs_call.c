/* Questions: tickets, deferred answers, waiting for the end of a job. */
#include <stdlib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/jobs_priv.h"

struct mg_call *mg_call_new(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context)
{
    struct mg_call *call = calloc(1, sizeof *call);
    if (!call)
        abort();
    call->jobs = jobs;
    call->ticket = ++jobs->next_ticket;
    call->done = done;
    call->context = context;
    call->created_status = 200;
    snprintf(call->id, sizeof call->id, "%s", id ? id : "");
    mg_reply_init(&call->reply);
    mg_reply_init(&call->taken);
    call->submission.body_fd = -1;
    call->next = jobs->calls;
    jobs->calls = call;
    return call;
}

static void free_call(struct mg_call *call)
{
    if (call->submission.body_fd >= 0)
        close(call->submission.body_fd);
    mg_reply_release(&call->reply);
    mg_reply_release(&call->taken);
    json_decref(call->meta);
    free(call->owner);
    free(call->submission.form);
    free(call->name);
    free(call->labels);
    free(call->plan_blob);
    free(call);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free_call(handle->data);
}

static void unlink_call(struct mg_call *call)
{
    struct mg_call **at = &call->jobs->calls;
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
}

void mg_call_finish(struct mg_call *call, struct mg_reply *reply)
{
    unlink_call(call);
    if (call->done)
        call->done(call->context, reply);
    mg_reply_release(reply);
    if (call->has_timer) {
        uv_timer_stop(&call->timer);
        uv_close((uv_handle_t *)&call->timer, on_timer_closed);
    } else {
        free_call(call);
    }
}

static void start_timer(struct mg_call *call, uv_timer_cb fire, uint64_t ms)
{
    if (!call->has_timer)
        uv_timer_init(call->jobs->config.loop, &call->timer);
    call->has_timer = true;
    call->timer.data = call;
    uv_timer_start(&call->timer, fire, ms, 0);
}

static void on_deferred(uv_timer_t *timer)
{
    struct mg_call *call = timer->data;
    struct mg_reply reply = call->reply;
    mg_reply_init(&call->reply);
    mg_call_finish(call, &reply);
}

void mg_call_later(struct mg_call *call, uv_timer_cb then)
{
    start_timer(call, then, 0);
}

void mg_call_defer(struct mg_call *call)
{
    start_timer(call, on_deferred, 0);
}

void mg_call_fail(struct mg_call *call, const char *problem, const char *detail)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    mg_reply_fail(&reply, problem, "", "%s", detail);
    mg_call_finish(call, &reply);
}

void mg_call_answer_job(struct mg_call *call, const struct mg_store_job *info)
{
    struct mg_reply reply;
    struct mg_writer w;
    mg_writer_init(&w);
    mg_job_write(&w, call->jobs, info);
    mg_reply_write(&reply, &w);
    reply.status = mg_job_state_ended(info->state) && call->waits_for[0] ? 200 : call->created_status;
    snprintf(reply.job, sizeof reply.job, "%s", info->id);
    snprintf(reply.etag, sizeof reply.etag, "%s-%lld", info->id, (long long)info->revision);
    mg_call_finish(call, &reply);
}

static void on_waited(uv_timer_t *timer)
{
    struct mg_call *call = timer->data;
    struct mg_job *job = mg_jobs_find(call->jobs, call->waits_for);
    call->waits_for[0] = '\0';
    if (job)
        mg_call_answer_job(call, &job->info);
    else
        mg_call_fail(call, "not-found", "there is no such job any more");
}

void mg_call_wait(struct mg_call *call, const char *id, double seconds)
{
    snprintf(call->waits_for, sizeof call->waits_for, "%s", id);
    start_timer(call, on_waited, (uint64_t)(seconds * 1000) + 1);
}

static struct mg_call *find_waiting(mg_jobs *jobs, const char *id)
{
    struct mg_call *call = jobs->calls;
    while (call && strcmp(call->waits_for, id) != 0)
        call = call->next;
    return call;
}

void mg_calls_job_ended(mg_jobs *jobs, const struct mg_store_job *info)
{
    struct mg_call *call;
    while ((call = find_waiting(jobs, info->id)))
        mg_call_answer_job(call, info);
}

void mg_jobs_forget(mg_jobs *jobs, mg_ticket ticket)
{
    if (mg_listeners_forget(jobs, ticket))
        return;
    for (struct mg_call *call = jobs->calls; call; call = call->next)
        if (call->ticket == ticket)
            call->done = NULL; /* it goes on, and nobody is told */
}
