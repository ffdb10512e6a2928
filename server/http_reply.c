/* Replies: data, problem documents (RFC 9457), conditional answers, and the access log. */
#include "server/http_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/log.h"

static const struct problem {
    const char *name;
    unsigned status;
    const char *title, *hint;
} problems[] = {
#define PROBLEM(name, status, title, hint) {name, status, title, hint},
#include "server/errors.def"
#undef PROBLEM
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static const struct problem *find_problem(const char *name)
{
    for (int k = 0; k < PROBLEMS; k++)
        if (!strcmp(problems[k].name, name))
            return &problems[k];
    return NULL;
}

void mg_reply_header(struct mg_request *req, const char *name, const char *format, ...)
{
    char value[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (req->header_count == MG_MAX_REPLY_HEADERS || strpbrk(value, "\r\n"))
        return;
    req->header[req->header_count][0] = mg_must(strdup(name));
    req->header[req->header_count++][1] = mg_must(strdup(value));
}

void mg_reply_etag(struct mg_request *req, const char *tag, bool immutable)
{
    snprintf(req->etag, sizeof req->etag, "\"%s\"", tag);
    req->immutable = immutable;
}

/* If-None-Match: "*", or a list with the tag in it; W/ makes no difference here (RFC 9110). */
static bool is_known_to_peer(const struct mg_request *req)
{
    const char *known = *req->etag ? mg_request_header(req, "If-None-Match") : NULL;
    if (!known || (strcmp(req->method, "GET") != 0 && !req->head))
        return false;
    return !strcmp(known, "*") || strstr(known, req->etag);
}

static void decorate(struct mg_request *req)
{
    mg_guard_decorate(req, req->response);
    for (unsigned k = 0; k < req->header_count; k++)
        MHD_add_response_header(req->response, req->header[k][0], req->header[k][1]);
    if (*req->etag)
        MHD_add_response_header(req->response, "ETag", req->etag);
    if (!req->is_stream) {
        const char *cache = req->immutable ? "private, max-age=31536000, immutable"
                            : *req->etag   ? "no-cache"
                                           : "no-store";
        MHD_add_response_header(req->response, "Cache-Control", cache);
    }
}

/* The end of every reply: hand it over, and wake the connection that waits for it. */
static void settle(struct mg_request *req, unsigned status, const char *media_type)
{
    req->status = status;
    req->replied = true;
    if (media_type)
        MHD_add_response_header(req->response, "Content-Type", media_type);
    decorate(req);
    if (req->suspended) {
        req->suspended = false;
        MHD_resume_connection(req->connection);
        mg_http_wake(req->http);
    }
}

void mg_reply_response(struct mg_request *req, unsigned status, const char *media_type, struct MHD_Response *response)
{
    req->response = mg_must(response);
    settle(req, status, media_type);
}

static bool reply_not_modified(struct mg_request *req)
{
    if (!is_known_to_peer(req))
        return false;
    mg_reply_response(req, 304, NULL, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
    return true;
}

void mg_reply_data(struct mg_request *req, unsigned status, const char *media_type, char *data, size_t size)
{
    if (status == 200 && reply_not_modified(req)) {
        free(data);
        return;
    }
    mg_metric_add(&req->http->metrics, MG_METRIC_HTTP_SENT, (double)size);
    mg_reply_response(req, status, media_type, MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE));
}

void mg_reply_static(struct mg_request *req, unsigned status, const char *media_type, const void *data, size_t size)
{
    if (status == 200 && reply_not_modified(req))
        return;
    mg_metric_add(&req->http->metrics, MG_METRIC_HTTP_SENT, (double)size);
    mg_reply_response(req, status, media_type,
                      MHD_create_response_from_buffer(size, (void *)(uintptr_t)data, MHD_RESPMEM_PERSISTENT));
}

void mg_reply_json(struct mg_request *req, unsigned status, struct mg_writer *w)
{
    bool fine = mg_writer_finish(w);
    char *data = w->data;
    size_t size = w->size;
    mg_must(fine ? data : NULL);
    memset(w, 0, sizeof *w);
    mg_reply_data(req, status, "application/json", data, size);
}

void mg_reply_empty(struct mg_request *req, unsigned status)
{
    mg_reply_response(req, status, NULL, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

void mg_reply_redirect(struct mg_request *req, const char *path)
{
    char *link = mg_http_link(req->http, path);
    mg_reply_header(req, "Location", "%s", link);
    free(link);
    mg_reply_empty(req, 303);
}

char *mg_http_link(const struct mg_http *http, const char *path)
{
    size_t size = strlen(http->public_url) + strlen(path) + 1;
    char *link = mg_must(malloc(size));
    snprintf(link, size, "%s%s", http->public_url, path);
    return link;
}

/* ---- problems ---- */

/* `members` is the text of a JSON object; its members join the document. */
static void join_members(struct mg_writer *w, const char *members)
{
    const char *open = strchr(members, '{'), *close = strrchr(members, '}');
    if (!open || !close || strspn(open + 1, " \t\r\n") >= (size_t)(close - open - 1))
        return;
    size_t inner = (size_t)(close - open - 1), size = w->size - 1 + 1 + inner + 1;
    char *data = mg_must(malloc(size + 1));
    snprintf(data, size + 1, "%.*s,%.*s}", (int)(w->size - 1), w->data, (int)inner, open + 1);
    free(w->data);
    w->data = data;
    w->size = size;
}

static void send_problem(struct mg_request *req, const char *name, const char *pointer, const char *detail,
                         const char *members)
{
    const struct problem *problem = find_problem(name);
    struct mg_writer w;
    char type[96];
    if (!problem) {
        mg_log(MG_LOG_ERROR, "unknown-problem", "%s: %s", name, detail);
        problem = find_problem("internal");
    }
    req->problem = problem->name;
    snprintf(type, sizeof type, "/errors/%s", problem->name);
    char *link = mg_http_link(req->http, type);
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "type", link);
    free(link);
    mg_write_member_string(&w, "title", problem->title);
    mg_write_member_int(&w, "status", problem->status);
    mg_write_member_string(&w, "detail", detail);
    if (pointer && *pointer)
        mg_write_member_string(&w, "pointer", pointer);
    mg_write_member_string(&w, "hint", problem->hint);
    mg_write_member_string(&w, "request_id", req->id);
    mg_write_end_object(&w);
    mg_must(mg_writer_finish(&w) ? w.data : NULL);
    if (members)
        join_members(&w, members);
    *req->etag = 0;
    mg_reply_data(req, problem->status, "application/problem+json", w.data, w.size);
}

void mg_reply_problem(struct mg_request *req, const char *problem, const char *pointer, const char *format, ...)
{
    char detail[600];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    send_problem(req, problem, pointer, detail, NULL);
}

bool mg_problem_describe(struct mg_writer *w, const char *name)
{
    const struct problem *problem = find_problem(name);
    if (!problem)
        return false;
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", problem->name);
    mg_write_member_int(w, "status", problem->status);
    mg_write_member_string(w, "title", problem->title);
    mg_write_member_string(w, "what_to_do", problem->hint);
    mg_write_end_object(w);
    return true;
}

void mg_problem_list(struct mg_writer *w)
{
    mg_write_begin_array(w);
    for (int k = 0; k < PROBLEMS; k++)
        mg_write_string(w, problems[k].name);
    mg_write_end_array(w);
}

/* ---- answers of other parts ---- */

static void forward_body(struct mg_request *req, struct mg_reply *reply)
{
    const char *media = reply->media_type ? reply->media_type : "application/json";
    unsigned status = (unsigned)reply->status;
    if (reply->body_fd >= 0) {
        /* regular 304 handling needs no data; the library reads the memfd with sendfile and closes it */
        if (status == 200 && reply_not_modified(req))
            return;
        mg_metric_add(&req->http->metrics, MG_METRIC_HTTP_SENT, (double)reply->body_size);
        struct MHD_Response *response = MHD_create_response_from_fd64(reply->body_size, reply->body_fd);
        reply->body_fd = -1;
        mg_reply_response(req, status, media, response);
    } else if (reply->body) {
        char *body = reply->body;
        reply->body = NULL;
        mg_reply_data(req, status, media, body, reply->body_size);
    } else {
        mg_reply_empty(req, status);
    }
}

static void forward_problem(struct mg_request *req, struct mg_reply *reply)
{
    const struct problem *problem = find_problem(reply->problem);
    unsigned pause = reply->retry_after_s;
    if (!pause && problem && (problem->status == 503 || problem->status == 429))
        pause = 5;
    if (pause)
        mg_reply_header(req, "Retry-After", "%u", pause);
    send_problem(req, reply->problem, reply->pointer, reply->detail, reply->members);
}

void mg_reply_forward(struct mg_request *req, struct mg_reply *reply)
{
    if (reply->problem) {
        forward_problem(req, reply);
        return;
    }
    if (*reply->etag)
        mg_reply_etag(req, reply->etag, reply->immutable);
    if (reply->filename && !strpbrk(reply->filename, "\"\\/\r\n"))
        mg_reply_header(req, "Content-Disposition", "attachment; filename=\"%s\"", reply->filename);
    if (reply->retry_after_s)
        mg_reply_header(req, "Retry-After", "%u", reply->retry_after_s);
    forward_body(req, reply);
}

/* ---- sending ---- */

enum MHD_Result mg_reply_queue(struct mg_request *req)
{
    req->phase = MG_PHASE_REPLYING;
    if (req->peer)
        req->peer->since = uv_now(req->http->config.loop);
    if (req->http->stopping)
        MHD_add_response_header(req->response, "Connection", "close");
    return MHD_queue_response(req->connection, req->status, req->response);
}

static enum mg_metric class_of(unsigned status)
{
    return status < 300   ? MG_METRIC_HTTP_2XX
           : status < 400 ? MG_METRIC_HTTP_3XX
           : status < 500 ? MG_METRIC_HTTP_4XX
                          : MG_METRIC_HTTP_5XX;
}

void mg_reply_access_log(struct mg_request *req, enum MHD_RequestTerminationCode code)
{
    struct mg_log_line line;
    double ms = (double)(uv_hrtime() - req->started_ns) / 1e6;
    if (req->status)
        mg_metric_add(&req->http->metrics, class_of(req->status), 1);
    mg_metric_add(&req->http->metrics, MG_METRIC_HTTP_SECONDS, ms / 1000);
    if (req->http->config.quiet)
        return;
    req->uri[strcspn(req->uri, "?")] = 0; /* a query may hold what a log must not */
    mg_log_begin(&line, req->status >= 500 && req->status != 503 ? MG_LOG_ERROR : MG_LOG_INFO, "request");
    mg_log_string(&line, "request_id", req->id);
    mg_log_string(&line, "peer", *req->peer_text ? req->peer_text : NULL);
    mg_log_string(&line, "method", req->method);
    mg_log_string(&line, "path", req->uri);
    mg_log_int(&line, "status", req->status);
    mg_log_string(&line, "problem", req->problem);
    mg_log_int(&line, "received", (int64_t)req->body_size);
    mg_log_ms(&line, "ms", ms);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        mg_log_string(&line, "end", code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED ? "timeout" : "aborted");
    mg_log_end(&line);
}
