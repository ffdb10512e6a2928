/* Events of jobs: as a stream of server-sent events, or by long polling.
 *
 * The stream opens with the first event, since only then is it known whether there is anything to
 * stream (404, 204). Until then the request owns the listener, afterwards the stream does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_priv.h"
#include "server/jobs.h"
#include "server/routes.h"

enum { MAX_JOBS = 100, GATHER_MS = 30 };

struct listener {
    struct mg_http *http;
    struct mg_request *req; /* until it is answered */
    mg_ticket ticket;       /* 0 when the last event has come */
    mg_stream_id stream;
    bool single, polling;
    /* long polling */
    uv_timer_t timer;
    struct mg_writer events;
    int64_t next;
};

static void forget(struct listener *listener)
{
    if (listener->ticket)
        mg_jobs_forget(listener->http->config.jobs, listener->ticket);
    listener->ticket = 0;
}

static void release_listener(void *state)
{
    struct listener *listener = state;
    forget(listener);
    free(listener);
}

/* ---- the stream ---- */

/* `retry` goes out once, with the first event. */
static void send_event(struct listener *listener, const struct mg_event *event, bool first)
{
    struct mg_writer w;
    mg_writer_init(&w);
    if (first)
        mg_write_text(&w, "retry: 2000\n");
    if (event->sequence && listener->single)
        mg_write_text(&w, "id: %llu\n", (unsigned long long)event->sequence);
    mg_write_text(&w, "event: %s\ndata: ", event->type);
    if (listener->single)
        mg_write_text(&w, "%.*s\n\n", (int)event->size, event->data);
    else
        mg_write_text(&w, "{\"job\":\"%s\",\"data\":%.*s}\n\n", event->job, (int)event->size, event->data);
    mg_must(mg_writer_finish(&w) ? w.data : NULL);
    mg_stream_write(listener->http, listener->stream, w.data, w.size);
    mg_writer_release(&w);
}

static void open_stream(struct listener *listener)
{
    struct mg_request *req = listener->req;
    listener->req = NULL;
    mg_request_keep(req, NULL, NULL);
    listener->stream = mg_stream_open(req, release_listener, listener);
}

/* No event, but what became of them. */
static bool is_word(const struct mg_event *event)
{
    return !strcmp(event->type, "missing") || !strcmp(event->type, "failed") || !strcmp(event->type, "nothing");
}

/* A single event that says that there is nothing to stream. */
static bool answer_without_stream(struct listener *listener, const struct mg_event *event)
{
    struct mg_request *req = listener->req;
    bool missing = !strcmp(event->type, "missing"), failed = !strcmp(event->type, "failed");
    if (!is_word(event))
        return false;
    listener->ticket = 0;
    if (listener->polling)
        uv_timer_stop(&listener->timer);
    if (missing)
        mg_reply_problem(req, "not-found", NULL, "there is no such job");
    else if (failed)
        mg_reply_problem(req, "store-failed", NULL, "the events cannot be read");
    else
        mg_reply_empty(req, 204);
    return true;
}

static void on_event(void *context, const struct mg_event *event)
{
    struct listener *listener = context;
    bool first = listener->req != NULL;
    if (first && answer_without_stream(listener, event))
        return;
    if (first)
        open_stream(listener);
    if (!is_word(event))
        send_event(listener, event, first);
    if (event->last) {
        listener->ticket = 0;
        mg_stream_end(listener->http, listener->stream);
    }
}

/* ---- long polling ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    mg_writer_release(&listener->events);
    free(listener);
}

static void release_poll(void *state)
{
    struct listener *listener = state;
    forget(listener);
    uv_close((uv_handle_t *)&listener->timer, on_timer_closed);
}

static void answer_poll(uv_timer_t *timer)
{
    struct listener *listener = timer->data;
    struct mg_writer w;
    uv_timer_stop(timer);
    forget(listener);
    mg_write_end_array(&listener->events);
    mg_must(mg_writer_finish(&listener->events) ? listener->events.data : NULL);
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_key(&w, "events");
    mg_write_raw(&w, listener->events.data, listener->events.size);
    mg_write_member_int(&w, "next", listener->next);
    mg_write_end_object(&w);
    mg_reply_json(listener->req, 200, &w);
}

static void gather(struct listener *listener, const struct mg_event *event)
{
    struct mg_writer *w = &listener->events;
    mg_write_begin_object(w);
    if (event->sequence)
        mg_write_member_uint(w, "id", event->sequence);
    mg_write_member_string(w, "type", event->type);
    mg_write_member_string(w, "job", event->job);
    mg_write_key(w, "data");
    mg_write_raw(w, event->data, event->size);
    mg_write_end_object(w);
    if ((int64_t)event->sequence > listener->next)
        listener->next = (int64_t)event->sequence;
}

/* What comes in one burst goes out in one answer. The snapshot alone is no news when `since` was given. */
static void on_polled(void *context, const struct mg_event *event)
{
    struct listener *listener = context;
    if (answer_without_stream(listener, event))
        return;
    gather(listener, event);
    if (event->last)
        listener->ticket = 0;
    if (event->sequence || event->last || listener->next < 0)
        uv_timer_start(&listener->timer, answer_poll, GATHER_MS, 0);
}

static bool begin_poll(struct listener *listener, int64_t since)
{
    double wait = 0;
    if (!mg_request_wait(listener->req, &wait))
        return false;
    listener->next = since;
    mg_writer_init(&listener->events);
    mg_write_begin_array(&listener->events);
    uv_timer_init(listener->http->config.loop, &listener->timer);
    listener->timer.data = listener;
    uv_timer_start(&listener->timer, answer_poll, (uint64_t)(wait * 1000), 0);
    listener->polling = true;
    return true;
}

/* ---- both ---- */

static bool read_since(struct mg_request *req, int64_t *since)
{
    const char *last = mg_request_header(req, "Last-Event-ID");
    *since = -1;
    if (!mg_request_integer(req, "since", 0, INT64_MAX, since))
        return false;
    if (*since >= 0 || !last || !*last)
        return true;
    if (strspn(last, "0123456789") != strlen(last) || strlen(last) > 18) {
        mg_reply_problem(req, "bad-request", NULL, "Last-Event-ID must be the id of an event of this job");
        return false;
    }
    *since = strtoll(last, NULL, 10);
    return true;
}

static void listen_to(struct mg_request *req, const char *const *ids, size_t count)
{
    int64_t since;
    bool poll = mg_request_accepts(req, "application/json") && !mg_request_accepts(req, "text/event-stream");
    if (!read_since(req, &since))
        return;
    struct listener *listener = mg_must(calloc(1, sizeof *listener));
    listener->http = mg_request_http(req);
    listener->req = req;
    listener->single = count == 1;
    if (poll && !begin_poll(listener, since)) {
        free(listener);
        return;
    }
    mg_request_keep(req, listener, poll ? release_poll : release_listener);
    listener->ticket =
        mg_jobs_listen(listener->http->config.jobs, ids, count, since, poll ? on_polled : on_event, listener);
}

void mg_route_job_events(struct mg_request *req)
{
    const char *id = mg_request_part(req, 0);
    listen_to(req, &id, 1);
}

static bool is_job_id(const char *text, size_t length)
{
    return length == 12 && strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz") >= length;
}

static size_t split_ids(const char *text, char (*ids)[16], const char **list)
{
    size_t count = 0;
    while (*text && count < MAX_JOBS) {
        size_t word = strcspn(text, ",");
        if (!is_job_id(text, word))
            return 0;
        snprintf(ids[count], sizeof ids[count], "%.*s", (int)word, text);
        list[count] = ids[count];
        count++;
        text += word;
        text += *text == ',';
    }
    return *text ? 0 : count;
}

void mg_route_events(struct mg_request *req)
{
    char ids[MAX_JOBS][16];
    const char *list[MAX_JOBS];
    const char *text = mg_request_query(req, "jobs");
    size_t count = split_ids(text ? text : "", ids, list);
    if (count)
        listen_to(req, list, count);
    else
        mg_reply_problem(req, "bad-parameter", NULL, "jobs must list 1 to %d ids of jobs, separated by commas",
                         MAX_JOBS);
}
