/* The HTTP side of the daemon: libmicrohttpd on its epoll descriptor inside the libuv loop.
 *
 * A request is collected whole (body included), checked against the table of routes, and given to
 * its handler; the handler replies at once or promises to reply later, on the loop's thread. Until
 * the reply the connection is suspended. Nothing here blocks. */
#ifndef MG_SERVER_HTTP_H
#define MG_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "server/metrics.h"
#include "server/reply.h"

struct mg_http;
struct mg_request;
struct mg_jobs;
struct mg_intake;
struct mg_store;
struct mg_caller;

struct mg_http_limits {
    uint64_t body_bytes;    /* of one request, as it arrives */
    uint64_t uploads_bytes; /* of all requests that are being received */
    uint32_t header_bytes;  /* of one request */
    uint32_t connections;   /* all together */
    uint32_t per_address;   /* from one address */
    uint32_t idle_s;        /* without a byte */
    uint32_t request_s;     /* until a request has arrived whole */
    uint32_t stream_bytes;  /* a listener this far behind is closed */
};

struct mg_http_config {
    uv_loop_t *loop;
    const char *listen;       /* HOST:PORT, [V6]:PORT or unix:PATH */
    const char *public_url;   /* "" = none */
    const char *cors_origins; /* separated by commas; "" = none */
    const char *web_dir;      /* NULL = the embedded files */
    bool insecure;            /* any address without a token */
    bool quiet;               /* no line in the log for each request */
    bool trusted_proxy;       /* believe X-Forwarded-For */
    bool only_timings;        /* anything else is not found */
    struct mg_http_limits limits;
    struct mg_jobs *jobs;
    struct mg_intake *intake;
    struct mg_store *store; /* for its counters; may be NULL */
    const char *data_dir;
};

/* Whether `listen` is an address at all; nothing is bound. */
enum mg_code mg_http_check_listen(const char *listen, struct mg_error *err);
/* Binds and listens; requests are served as soon as the loop runs. */
enum mg_code mg_http_open(struct mg_http **out, const struct mg_http_config *config, struct mg_error *err);
/* The address in use, as "127.0.0.1:43211" or "unix:PATH". */
const char *mg_http_address(const struct mg_http *http);
/* Answers /readyz with 503 and ends event streams. Requests are still answered. */
void mg_http_drain(struct mg_http *http);
/* Ends what is left (waiting requests get 503) and frees; `closed` is called from the loop. */
void mg_http_close(struct mg_http *http, void (*closed)(void *context), void *context);
struct mg_metrics *mg_http_metrics(struct mg_http *http);

/* ---- what a handler sees ---- */

/* The k-th {part} of the route's pattern. */
const char *mg_request_part(const struct mg_request *req, unsigned k);
/* A query parameter, or NULL. */
const char *mg_request_query(const struct mg_request *req, const char *name);
/* All values of a repeatable one; returns how many, fills at most n. */
size_t mg_request_query_all(const struct mg_request *req, const char *name, const char **values, size_t n);
const char *mg_request_header(const struct mg_request *req, const char *name);
bool mg_request_accepts(const struct mg_request *req, const char *media_type);
const struct mg_http_config *mg_request_config(const struct mg_request *req);
struct mg_http *mg_request_http(const struct mg_request *req);
const char *mg_request_id(const struct mg_request *req);
const struct mg_caller *mg_request_caller(const struct mg_request *req);
/* A small body (SMALL routes), NUL-terminated. */
const char *mg_request_body(const struct mg_request *req, size_t *size);
/* A large body (LARGE routes): a memfd, which now belongs to the caller. */
int mg_request_take_body(struct mg_request *req, size_t *size, bool *gzip);
/* What intake must know about a large body beside its bytes (Content-Type, query): a JSON object, or "" for plain JSON;
 * malloc'ed, NULL: out of memory. */
char *mg_request_form(struct mg_request *req);
/* Seconds to wait: ?wait= or Prefer: wait=; false after having answered 400. */
bool mg_request_wait(struct mg_request *req, double *seconds);
/* A parameter that must be a whole number in lo..hi; false after having answered 400. */
bool mg_request_integer(struct mg_request *req, const char *name, int64_t lo, int64_t hi, int64_t *value);

/* ---- how it answers: exactly one of these, once ---- */

/* `data` is malloc'ed and taken over. */
void mg_reply_data(struct mg_request *req, unsigned status, const char *media_type, char *data, size_t size);
void mg_reply_static(struct mg_request *req, unsigned status, const char *media_type, const void *data, size_t size);
/* Finishes and takes over what was written. */
void mg_reply_json(struct mg_request *req, unsigned status, struct mg_writer *w);
void mg_reply_empty(struct mg_request *req, unsigned status);
void mg_reply_redirect(struct mg_request *req, const char *path);
/* A problem document; `problem` is a name of errors.def, `pointer` may be NULL. */
void mg_reply_problem(struct mg_request *req, const char *problem, const char *pointer, const char *format, ...)
    MG_PRINTF(4, 5);
/* The answer of another part of the daemon. */
void mg_reply_forward(struct mg_request *req, struct mg_reply *reply);

/* Before the reply: a header of it; ETag and If-None-Match (304) are seen to by the reply. */
void mg_reply_header(struct mg_request *req, const char *name, const char *format, ...) MG_PRINTF(3, 4);
void mg_reply_etag(struct mg_request *req, const char *tag, bool immutable);
/* A link to a path of ours, as seen from outside; malloc'ed. */
char *mg_http_link(const struct mg_http *http, const char *path);

/* ---- streams of server-sent events ---- */

typedef uint64_t mg_stream_id;
/* Replies with an event stream. `closed` is called once when the peer has gone or the stream has ended. */
mg_stream_id mg_stream_open(struct mg_request *req, void (*closed)(void *context), void *context);
/* False when the stream is no more (or has just been closed because its reader is too slow). */
bool mg_stream_write(struct mg_http *http, mg_stream_id id, const char *data, size_t size);
/* What was written is sent, then the stream closes. */
void mg_stream_end(struct mg_http *http, mg_stream_id id);

/* Gives the request the answer to a question put to mg_jobs: call it with the ticket, having passed
 * mg_request_answer and the request as callback and context. If the peer goes, the question is forgotten. */
void mg_request_await(struct mg_request *req, mg_ticket ticket);
void mg_request_answer(void *context, struct mg_reply *reply);
/* The handler's own state; `release` is called when the request ends, or before: when it is not to be answered by
 * its handler any more. With NULL the handler has taken it back. */
void mg_request_keep(struct mg_request *req, void *state, void (*release)(void *state));

#endif
