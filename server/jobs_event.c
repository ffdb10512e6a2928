/* Listeners. Each first gets a snapshot (job and front as stored), then what was stored since, then
 * what happens; between snapshot and present it reads the store until it has caught up, so that
 * nothing is missed and nothing comes twice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"

enum { PAGE = 500 };

static void catch_up(struct mg_listener *listener);

static void free_listener(struct mg_listener *listener)
{
    struct mg_listener **at = &listener->jobs->listeners;
    while (*at && *at != listener)
        at = &(*at)->next;
    if (*at) {
        *at = listener->next;
        listener->jobs->stats.listeners--;
    }
    if (--listener->group->left == 0)
        free(listener->group);
    free(listener);
}

static void deliver(struct mg_listener *listener, const char *type, int64_t sequence, const char *data, bool last)
{
    const struct mg_event event = {.type = type,
                                   .job = listener->id,
                                   .sequence = sequence > 0 ? (uint64_t)sequence : 0,
                                   .data = data,
                                   .size = strlen(data),
                                   .last = last && listener->group->left == 1};
    if (sequence > listener->sent)
        listener->sent = sequence;
    if (listener->event)
        listener->event(listener->context, &event);
}

/* Ends the listener with a word, where nobody else of its group is left to speak. */
static void deliver_lone(struct mg_listener *listener, const char *type)
{
    if (listener->group->left == 1)
        deliver(listener, type, 0, "{}", true);
    free_listener(listener);
}

/* Ends the whole group, also where it has had events, so that it is noticed: whoever asks again goes on from the last
 * one. */
static void deliver_failure(struct mg_listener *listener, const struct mg_store_result *result)
{
    mg_jobs *jobs = listener->jobs;
    const struct mg_event failed = {.type = "failed", .job = listener->id, .data = "{}", .size = 2, .last = true};
    if (result->code == MG_STORE_NOT_FOUND) {
        deliver_lone(listener, "missing");
        return;
    }
    mg_jobs_say(jobs, "error", "store", "%s: %s", mg_store_code_name(result->code), result->message);
    listener->event(listener->context, &failed);
    mg_listeners_forget(jobs, listener->ticket);
    free_listener(listener);
}

/* True if that was the end, and the listener is gone. */
static bool deliver_stored(struct mg_listener *listener, const struct mg_store_event *event)
{
    bool end = strcmp(event->type, "end") == 0;
    if (event->seq <= listener->sent)
        return false;
    deliver(listener, event->type, event->seq, event->data, end);
    if (end)
        free_listener(listener);
    return end;
}

static void on_events(void *ctx, const struct mg_store_result *result)
{
    struct mg_listener *listener = ctx;
    mg_jobs *jobs = listener->jobs;
    if (!listener->event) {
        free_listener(listener);
        return;
    }
    if (result->code != MG_STORE_OK) {
        deliver_failure(listener, result);
        return;
    }
    for (size_t i = 0; i < result->n_events; i++)
        if (deliver_stored(listener, &result->events[i]))
            return;
    if (!listener->event) { /* forgotten from within */
        free_listener(listener);
        return;
    }
    struct mg_job *job = mg_jobs_find(jobs, listener->id);
    int64_t newest = job ? job->info.last_event : result->job->last_event;
    if (newest > listener->sent && (job || result->n_events > 0))
        catch_up(listener);
    else
        listener->live = true;
}

static void catch_up(struct mg_listener *listener)
{
    mg_store_get_events(listener->jobs->config.store, listener->id, listener->sent, PAGE, on_events, listener);
}

static void send_snapshot(struct mg_listener *listener, const struct mg_store_result *result)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_key(&w, "job");
    mg_job_write(&w, listener->jobs, result->job);
    mg_write_key(&w, "pareto");
    mg_front_write(&w, result);
    mg_write_member_int(&w, "last_event", result->job->last_event);
    mg_write_end_object(&w);
    if (mg_writer_finish(&w))
        deliver(listener, "snapshot", 0, w.data, false);
    mg_writer_release(&w);
}

static void on_snapshot(void *ctx, const struct mg_store_result *result)
{
    struct mg_listener *listener = ctx;
    if (!listener->event) {
        free_listener(listener);
        return;
    }
    if (result->code != MG_STORE_OK || !result->job) {
        deliver_failure(listener, result);
        return;
    }
    bool ended = mg_job_state_ended(result->job->state);
    int64_t newest = result->job->last_event;
    if (ended && listener->since >= newest) {
        deliver_lone(listener, "nothing");
        return;
    }
    send_snapshot(listener, result);
    bool resumes = listener->since >= 0 && listener->since < newest;
    listener->sent = resumes ? listener->since : ended ? newest - 1 : newest;
    catch_up(listener);
}

mg_ticket mg_jobs_listen(mg_jobs *jobs, const char *const *ids, size_t count, int64_t since, mg_event_cb event,
                         void *context)
{
    mg_ticket ticket = ++jobs->next_ticket;
    struct mg_listener_group *group = calloc(1, sizeof *group);
    if (!group)
        abort();
    group->left = count;
    for (size_t i = 0; i < count; i++) {
        struct mg_listener *listener = calloc(1, sizeof *listener);
        if (!listener)
            abort();
        *listener = (struct mg_listener){.jobs = jobs,
                                         .ticket = ticket,
                                         .event = event,
                                         .context = context,
                                         .group = group,
                                         .since = since,
                                         .next = jobs->listeners};
        snprintf(listener->id, sizeof listener->id, "%s", ids[i]);
        jobs->listeners = listener;
        jobs->stats.listeners++;
        mg_store_get_front(jobs->config.store, listener->id, on_snapshot, listener);
    }
    return ticket;
}

/* Frees who was forgotten while listeners were told. */
static void sweep(mg_jobs *jobs)
{
    struct mg_listener *next;
    for (struct mg_listener *listener = jobs->listeners; listener; listener = next) {
        next = listener->next;
        if (listener->live && !listener->event)
            free_listener(listener);
    }
}

void mg_listeners_tell(mg_jobs *jobs, const char *id, const char *type, int64_t sequence, const char *data)
{
    const struct mg_store_event event = {.seq = sequence, .type = type, .data = data};
    struct mg_listener *next;
    jobs->telling++;
    for (struct mg_listener *listener = jobs->listeners; listener; listener = next) {
        next = listener->next;
        if (!listener->live || !listener->event || strcmp(listener->id, id) != 0)
            continue;
        if (sequence == 0)
            deliver(listener, type, 0, data, false);
        else
            deliver_stored(listener, &event);
    }
    if (--jobs->telling == 0)
        sweep(jobs);
}

bool mg_listeners_forget(mg_jobs *jobs, mg_ticket ticket)
{
    bool found = false;
    for (struct mg_listener *listener = jobs->listeners; listener; listener = listener->next)
        if (listener->ticket == ticket) {
            found = true;
            listener->event = NULL;
        }
    if (found && jobs->telling == 0)
        sweep(jobs); /* those not live are freed by the store's answer that they wait for */
    return found;
}

void mg_listeners_drop_all(mg_jobs *jobs)
{
    while (jobs->listeners)
        free_listener(jobs->listeners);
}
