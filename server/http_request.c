/* A request's life: begin (its first line is there) -> headers: checks -> body -> handler -> reply
 * -> completed. A question put to the job manager is forgotten when the request goes first.
 *
 * The library wants answers in the second call of the access handler (one queued in the first call
 * ends keep-alive), except where the peer waits for 100-continue with a body that nobody wants. */
#include "server/http_priv.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "server/jobs.h"

static void make_id(char *id)
{
    unsigned char random[8] = {0};
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random)
        memcpy(random, &(uint64_t){uv_hrtime()}, sizeof random);
    for (int k = 0; k < 8; k++)
        snprintf(id + 2 * k, 3, "%02x", random[k]);
}

void *mg_request_begin(void *context, const char *uri, struct MHD_Connection *connection)
{
    struct mg_http *http = context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct mg_request *req = mg_must(calloc(1, sizeof *req));
    req->http = http;
    req->connection = connection;
    req->peer = info ? info->socket_context : NULL;
    req->started_ns = uv_hrtime();
    req->started_ms = uv_now(http->config.loop);
    req->body_fd = -1;
    req->uri = mg_must(strdup(uri));
    if (req->peer) {
        req->peer->request = req;
        req->peer->since = req->started_ms;
    }
    make_id(req->id);
    return req;
}

static bool is_plain_id(const char *id)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(id);
    return length >= 1 && length <= 64 && strspn(id, allowed) == length;
}

static void remember_peer(struct mg_request *req)
{
    const char *forwarded = mg_request_header(req, "X-Forwarded-For");
    if (req->http->config.trusted_proxy && forwarded) {
        const char *last = strrchr(forwarded, ','); /* the one that our own proxy added */
        last = last ? last + 1 : forwarded;
        last += strspn(last, " ");
        snprintf(req->peer_text, sizeof req->peer_text, "%.*s", (int)strcspn(last, " "), last);
    } else if (req->peer && req->peer->has_address) {
        const struct in6_addr *address = &req->peer->address;
        if (IN6_IS_ADDR_V4MAPPED(address))
            inet_ntop(AF_INET, &address->s6_addr[12], req->peer_text, sizeof req->peer_text);
        else
            inet_ntop(AF_INET6, address, req->peer_text, sizeof req->peer_text);
    }
}

/* The path without the prefix under which a proxy may show us, and without /v1. */
static const char *inner_path(const struct mg_http *http, const char *url)
{
    size_t base = strlen(http->base_path);
    if (base && !strncmp(url, http->base_path, base) && url[base] == '/')
        url += base;
    if (!strncmp(url, "/v1/", 4))
        url += 3;
    return url;
}

/* "http://HOST/path" (RFC 9112, 3.2.2): scheme and host apart, the path is what follows. */
static const char *split_target(struct mg_request *req, const char *url)
{
    size_t scheme = !strncasecmp(url, "http://", 7) ? 7 : !strncasecmp(url, "https://", 8) ? 8 : 0;
    if (!scheme)
        return url;
    size_t length = strcspn(url + scheme, "/");
    req->authority = mg_must(strndup(url + scheme, length));
    req->secure = scheme == 8;
    return url[scheme + length] ? url + scheme + length : "/";
}

static void fill(struct mg_request *req, const char *url, const char *method)
{
    const char *id = mg_request_header(req, "X-Request-Id");
    if (id && is_plain_id(id))
        snprintf(req->id, sizeof req->id, "%s", id);
    req->method = mg_must(strdup(method));
    req->head = !strcmp(method, "HEAD");
    req->path = mg_must(strdup(inner_path(req->http, split_target(req, url))));
    remember_peer(req);
}

static bool find_route(struct mg_request *req)
{
    char allow[128];
    const char *method = req->head ? "GET" : req->method;
    if (strstr(req->uri, "%00")) {
        mg_reply_problem(req, "bad-request", NULL, "the URL holds a NUL byte");
        return false;
    }
    if (!strcmp(req->path, "*") && !strcmp(req->method, "OPTIONS")) { /* of the server as a whole (RFC 9110, 9.3.7) */
        mg_reply_header(req, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        mg_reply_empty(req, 204);
        return false;
    }
    req->route = mg_route_find(method, req->path, req->part, allow, sizeof allow);
    if (req->route)
        return true;
    if (!*allow) {
        mg_reply_problem(req, "not-found", NULL, "there is no such path");
        return false;
    }
    mg_reply_header(req, "Allow", "%s", allow);
    if (!strcmp(req->method, "OPTIONS"))
        mg_reply_empty(req, 204);
    else
        mg_reply_problem(req, "method-not-allowed", NULL, "%s is not among: %s", req->method, allow);
    return false;
}

struct query_check {
    struct mg_request *req;
    const char *unknown;
    bool token;
};

static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && !strncmp(at, name, word))
            return true;
        at += word;
    }
    return false;
}

static enum MHD_Result check_parameter(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct query_check *check = context;
    (void)kind;
    (void)value;
    if (!strcmp(name, "token") || !strcmp(name, "access_token"))
        check->token = true;
    else if (!is_listed(check->req->route->query, name) && !check->unknown)
        check->unknown = name;
    return MHD_YES;
}

static bool check_query(struct mg_request *req)
{
    struct query_check check = {.req = req};
    MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, check_parameter, &check);
    bool unknown = check.unknown && !is_listed(req->route->query, "*");
    if (check.token)
        mg_reply_problem(req, "token-in-url", NULL, "a token stands in the query string");
    else if (unknown)
        mg_reply_problem(req, "bad-parameter", NULL, "the parameter %.60s is not known here", check.unknown);
    return !check.token && !unknown;
}

bool mg_request_known_query(struct mg_request *req)
{
    struct query_check check = {.req = req};
    MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, check_parameter, &check);
    if (check.unknown)
        mg_reply_problem(req, "bad-parameter", NULL, "the parameter %.60s is not known here", check.unknown);
    return !check.unknown;
}

struct query_text {
    const struct mg_request *req;
    struct mg_writer *w;
};

static enum MHD_Result write_parameter(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    const struct query_text *text = context;
    (void)kind;
    if (!is_listed(text->req->route->query, name))
        mg_write_member_string(text->w, name, value ? value : "");
    return MHD_YES;
}

char *mg_request_form(struct mg_request *req)
{
    struct mg_writer query, form;
    const char *type = mg_request_header(req, "Content-Type"), *boundary = type ? strstr(type, "boundary=") : NULL;
    struct query_text text = {req, &query};
    if (req->media == MG_MEDIA_JSON)
        return strdup("");
    mg_writer_init(&query);
    mg_writer_init(&form);
    mg_write_begin_object(&query);
    if (req->media == MG_MEDIA_ONNX)
        MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, write_parameter, &text);
    mg_write_end_object(&query);
    mg_write_begin_object(&form);
    mg_write_member_string(&form, "media", mg_media_name(req->media));
    if (boundary) {
        char value[80];
        bool quoted = boundary[9] == '"';
        snprintf(value, sizeof value, "%.*s", (int)strcspn(boundary + 9 + quoted, quoted ? "\"" : "; ,"),
                 boundary + 9 + quoted);
        mg_write_member_string(&form, "boundary", value);
    }
    if (mg_writer_finish(&query))
        mg_write_member_string(&form, "query", query.data);
    mg_write_end_object(&form);
    char *out = mg_writer_finish(&form) ? strdup(form.data) : NULL;
    mg_writer_release(&query);
    mg_writer_release(&form);
    return out;
}

/* One peer behind a proxy must not take all the room. */
static bool check_share(struct mg_request *req)
{
    uint32_t count = 0;
    const struct mg_http *http = req->http;
    if (!http->config.trusted_proxy || !*req->peer_text)
        return true;
    for (const struct mg_peer *peer = http->peers; peer; peer = peer->next)
        count += peer->request && !strcmp(peer->request->peer_text, req->peer_text);
    if (count <= http->config.limits.per_address)
        return true;
    mg_reply_header(req, "Retry-After", "1");
    mg_reply_problem(req, "too-many-requests", NULL, "%u requests at once from %s", count, req->peer_text);
    return false;
}

static bool check_served(struct mg_request *req)
{
    const char *pattern = req->route->pattern;
    if (!req->http->config.only_timings || strncmp(pattern, "/timings", 8) == 0 || strcmp(pattern, "/devices") == 0)
        return true;
    mg_reply_problem(req, "not-found", NULL, "a command is at work on this directory: only timings are served");
    return false;
}

static bool check_head(struct mg_request *req)
{
    return mg_guard_framing(req) && mg_guard_host(req) && mg_guard_origin(req) && check_share(req) && find_route(req) &&
           check_served(req) && check_query(req) && mg_guard_role(req) && mg_body_begin(req);
}

static enum MHD_Result on_headers(struct mg_request *req, const char *url, const char *method)
{
    fill(req, url, method);
    req->phase = MG_PHASE_BODY;
    bool fine = check_head(req);
    if (!fine && req->has_body)
        return mg_reply_queue(req); /* before the peer sends what is not wanted */
    return MHD_YES;
}

static enum MHD_Result on_end(struct mg_request *req)
{
    if (!req->handled && !req->replied) {
        req->handled = true;
        req->phase = MG_PHASE_HANDLING;
        req->route->handler(req);
    }
    if (!req->replied && req->http->stopping)
        mg_reply_problem(req, "draining", NULL, "the daemon is stopping");
    if (req->replied)
        return mg_reply_queue(req);
    req->suspended = true;
    MHD_suspend_connection(req->connection);
    return MHD_YES;
}

enum MHD_Result mg_request_access(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **slot)
{
    struct mg_request *req = *slot;
    (void)context;
    (void)connection;
    (void)version;
    if (!req)
        return MHD_NO;
    if (req->phase == MG_PHASE_HEADERS)
        return on_headers(req, url, method);
    if (*size == 0)
        return on_end(req);
    if (!mg_body_add(req, data, *size))
        return MHD_NO;
    *size = 0;
    return MHD_YES;
}

static void free_request(struct mg_request *req)
{
    if (req->response)
        MHD_destroy_response(req->response);
    for (unsigned k = 0; k < req->header_count; k++) {
        free(req->header[k][0]);
        free(req->header[k][1]);
    }
    free(req->uri);
    free(req->method);
    free(req->path);
    free(req->authority);
    free(req);
}

void mg_request_completed(void *context, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode code)
{
    struct mg_request *req = *slot;
    (void)context;
    (void)connection;
    if (!req)
        return;
    *slot = NULL;
    mg_reply_access_log(req, code);
    if (req->peer) {
        req->peer->request = NULL;
        req->peer->since = uv_now(req->http->config.loop);
    }
    mg_request_forget(req);
    mg_body_release(req);
    free_request(req);
}

void mg_request_forget(struct mg_request *req)
{
    if (req->ticket)
        mg_jobs_forget(req->http->config.jobs, req->ticket);
    req->ticket = 0;
    if (req->state)
        req->release_state(req->state);
    req->state = NULL;
}

void mg_request_keep(struct mg_request *req, void *state, void (*release)(void *state))
{
    req->state = state;
    req->release_state = release;
}

void mg_request_await(struct mg_request *req, mg_ticket ticket)
{
    req->ticket = ticket;
}

void mg_request_answer(void *context, struct mg_reply *reply)
{
    struct mg_request *req = context;
    req->ticket = 0;
    mg_reply_forward(req, reply);
}

/* ---- what a handler sees ---- */

const char *mg_request_part(const struct mg_request *req, unsigned k)
{
    return req->part[k];
}

const char *mg_request_query(const struct mg_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->connection, MHD_GET_ARGUMENT_KIND, name);
}

struct query_all {
    const char *name, **values;
    size_t n, count;
};

static enum MHD_Result collect(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct query_all *all = context;
    (void)kind;
    if (!strcmp(name, all->name) && all->count++ < all->n)
        all->values[all->count - 1] = value ? value : "";
    return MHD_YES;
}

size_t mg_request_query_all(const struct mg_request *req, const char *name, const char **values, size_t n)
{
    struct query_all all = {name, values, n, 0};
    MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, collect, &all);
    return all.count;
}

const char *mg_request_header(const struct mg_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->connection, MHD_HEADER_KIND, name);
}

bool mg_request_accepts(const struct mg_request *req, const char *media_type)
{
    const char *accept = mg_request_header(req, "Accept");
    return accept && strstr(accept, media_type);
}

const struct mg_http_config *mg_request_config(const struct mg_request *req)
{
    return &req->http->config;
}

struct mg_http *mg_request_http(const struct mg_request *req)
{
    return req->http;
}

const struct mg_caller *mg_request_caller(const struct mg_request *req)
{
    return &req->caller;
}

const char *mg_request_id(const struct mg_request *req)
{
    return req->id;
}

static bool parse_integer(const char *text, int64_t lo, int64_t hi, int64_t *value)
{
    char *end;
    if (!*text || strspn(text, "-0123456789") != strlen(text) || strlen(text) > 18)
        return false;
    *value = strtoll(text, &end, 10);
    return !*end && *value >= lo && *value <= hi;
}

bool mg_request_integer(struct mg_request *req, const char *name, int64_t lo, int64_t hi, int64_t *value)
{
    const char *text = mg_request_query(req, name);
    if (!text || parse_integer(text, lo, hi, value))
        return true;
    mg_reply_problem(req, "bad-parameter", NULL, "%s must be a whole number in %lld..%lld", name, (long long)lo,
                     (long long)hi);
    return false;
}

/* A preference is advice: what cannot be followed is left aside (RFC 7240). */
static double preferred_wait(const struct mg_request *req)
{
    const char *prefer = mg_request_header(req, "Prefer");
    const char *wait = prefer ? strstr(prefer, "wait=") : NULL;
    char *end;
    if (!wait || (wait != prefer && !strchr(" ,;", wait[-1])))
        return 0;
    long seconds = strtol(wait + 5, &end, 10);
    return end == wait + 5 || seconds < 0 ? 0 : seconds > 300 ? 300 : (double)seconds;
}

bool mg_request_wait(struct mg_request *req, double *seconds)
{
    int64_t value = -1;
    if (!mg_request_integer(req, "wait", 0, 300, &value))
        return false;
    *seconds = value >= 0 ? (double)value : preferred_wait(req);
    req->waits = *seconds > 0;
    if (value < 0 && *seconds > 0)
        mg_reply_header(req, "Preference-Applied", "wait=%.0f", *seconds);
    return true;
}
