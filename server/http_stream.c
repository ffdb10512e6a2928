/* Event streams. A stream that has nothing to send is suspended (returning 0 alone would spin) and
 * resumed by its id, never by a kept pointer. The library does not notice that the peer of a
 * suspended connection has left, so a comment every 15 s probes it. */
#include "server/http_priv.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16 << 10, COMMENT_MS = 15000 };

static struct mg_stream *find_stream(const struct mg_http *http, mg_stream_id id)
{
    for (struct mg_stream *stream = http->streams; stream; stream = stream->next)
        if (stream->id == id)
            return stream;
    return NULL;
}

static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t size)
{
    struct mg_stream *stream = context;
    size_t left = stream->size - stream->at;
    (void)position;
    if (stream->failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (left) {
        size_t count = left < size ? left : size;
        memcpy(buffer, stream->data + stream->at, count);
        stream->at += count;
        if (stream->at == stream->size)
            stream->at = stream->size = 0;
        return (ssize_t)count;
    }
    if (stream->ended || stream->http->stopping)
        return MHD_CONTENT_READER_END_OF_STREAM;
    stream->suspended = true;
    MHD_suspend_connection(stream->connection);
    return 0;
}

static void count_streams(struct mg_http *http)
{
    double count = 0;
    for (struct mg_stream *stream = http->streams; stream; stream = stream->next)
        count++;
    mg_metric_set(&http->metrics, MG_METRIC_HTTP_STREAMS, count);
}

static void free_stream(void *context)
{
    struct mg_stream *stream = context, **at = &stream->http->streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
    count_streams(stream->http);
    if (stream->closed)
        stream->closed(stream->context);
    free(stream->data);
    free(stream);
}

mg_stream_id mg_stream_open(struct mg_request *req, void (*closed)(void *context), void *context)
{
    struct mg_http *http = req->http;
    struct mg_stream *stream = mg_must(calloc(1, sizeof *stream));
    mg_stream_id id = ++http->next_stream;
    stream->http = http;
    stream->id = id;
    stream->connection = req->connection;
    stream->fd = req->peer ? req->peer->fd : -1;
    stream->closed = closed;
    stream->context = context;
    stream->written_ms = uv_now(http->config.loop);
    stream->next = http->streams;
    http->streams = stream;
    count_streams(http);
    req->is_stream = true;
    mg_reply_header(req, "Cache-Control", "no-store");
    mg_reply_header(req, "X-Accel-Buffering", "no");
    mg_reply_response(req, 200, "text/event-stream; charset=utf-8",
                      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, free_stream));
    return id;
}

static void resume(struct mg_stream *stream)
{
    if (!stream->suspended)
        return;
    stream->suspended = false;
    MHD_resume_connection(stream->connection);
    mg_http_wake(stream->http);
}

static void append(struct mg_stream *stream, const char *data, size_t size)
{
    if (stream->at) {
        memmove(stream->data, stream->data + stream->at, stream->size - stream->at);
        stream->size -= stream->at;
        stream->at = 0;
    }
    if (stream->size + size > stream->capacity) {
        stream->capacity = 2 * (stream->size + size);
        stream->data = mg_must(realloc(stream->data, stream->capacity));
    }
    memcpy(stream->data + stream->size, data, size);
    stream->size += size;
}

static void drop_slow(struct mg_stream *stream)
{
    stream->failed = true;
    mg_metric_add(&stream->http->metrics, MG_METRIC_HTTP_STREAMS_DROPPED, 1);
    if (stream->fd >= 0)
        shutdown(stream->fd, SHUT_RDWR);
    resume(stream);
}

bool mg_stream_write(struct mg_http *http, mg_stream_id id, const char *data, size_t size)
{
    struct mg_stream *stream = find_stream(http, id);
    if (!stream || stream->ended || stream->failed)
        return false;
    if (stream->size - stream->at > http->config.limits.stream_bytes) {
        drop_slow(stream);
        return false;
    }
    append(stream, data, size);
    stream->written_ms = uv_now(http->config.loop);
    resume(stream);
    return true;
}

void mg_stream_end(struct mg_http *http, mg_stream_id id)
{
    struct mg_stream *stream = find_stream(http, id);
    if (!stream)
        return;
    stream->ended = true;
    resume(stream);
}

void mg_stream_end_of(struct mg_request *req)
{
    for (struct mg_stream *stream = req->http->streams; stream; stream = stream->next)
        if (stream->connection == req->connection) {
            mg_stream_end(req->http, stream->id);
            return;
        }
}

void mg_stream_sweep(struct mg_http *http)
{
    uint64_t now = uv_now(http->config.loop);
    for (struct mg_stream *stream = http->streams, *next; stream; stream = next) {
        next = stream->next;
        if (now - stream->written_ms >= COMMENT_MS)
            mg_stream_write(http, stream->id, ":\n\n", 3);
    }
}

void mg_stream_resume_all(struct mg_http *http)
{
    for (struct mg_stream *stream = http->streams; stream; stream = stream->next)
        resume(stream);
}
