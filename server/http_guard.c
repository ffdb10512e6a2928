/* Who may ask at all: framing that no proxy can read in two ways, a Host that is ours (a page of a
 * name that was rebound to this address is not), an Origin that is ours. */
#include "server/http_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct header_count {
    const char *name;
    unsigned count;
};

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct header_count *header = context;
    (void)kind;
    (void)value;
    header->count += !strcasecmp(name, header->name);
    return MHD_YES;
}

static unsigned headers_named(const struct mg_request *req, const char *name)
{
    struct header_count header = {name, 0};
    MHD_get_connection_values(req->connection, MHD_HEADER_KIND, count_header, &header);
    return header.count;
}

static enum MHD_Result check_name(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    bool *odd = context;
    (void)kind;
    (void)value;
    *odd = *odd || !*name || strpbrk(name, " \t\r\n\v\f") != NULL;
    return MHD_YES;
}

/* "Content-Length : 5" is no Content-Length to the library, but may be one to a proxy (RFC 9112, 5.1). */
static bool has_odd_name(const struct mg_request *req)
{
    bool odd = false;
    MHD_get_connection_values(req->connection, MHD_HEADER_KIND, check_name, &odd);
    return odd;
}

bool mg_guard_framing(struct mg_request *req)
{
    unsigned lengths = headers_named(req, "Content-Length");
    unsigned encodings = headers_named(req, "Transfer-Encoding");
    unsigned hosts = headers_named(req, "Host");
    const char *coding = mg_request_header(req, "Transfer-Encoding");
    const char *length = mg_request_header(req, "Content-Length"), *why = NULL;
    bool odd = has_odd_name(req);
    req->has_body = odd || encodings > 0 || lengths > 1 || (length && strcmp(length, "0") != 0);
    if (odd)
        why = "blanks in the name of a header";
    else if (lengths > 1)
        why = "more than one Content-Length";
    else if (lengths && encodings)
        why = "both Content-Length and Transfer-Encoding";
    else if (encodings > 1 || (coding && strcasecmp(coding, "chunked") != 0))
        why = "a Transfer-Encoding other than chunked";
    else if (hosts != 1)
        why = hosts ? "more than one Host" : "no Host";
    if (why)
        mg_reply_problem(req, "bad-framing", NULL, "the request has %s", why);
    return !why;
}

static bool is_port(const char *text)
{
    return !*text || (text[0] == ':' && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1));
}

static bool is_local_host(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t length = strlen(names[k]);
        if (!strncasecmp(host, names[k], length) && is_port(host + length))
            return true;
    }
    return false;
}

static bool is_own_host(const struct mg_http *http, const char *host)
{
    return is_local_host(host) || (*http->public_host && !strcasecmp(host, http->public_host));
}

/* The port at the end of "HOST:PORT", or "". */
static const char *port_of(const char *host)
{
    const char *colon = strrchr(host, ':');
    return colon && !strchr(colon, ']') ? colon + 1 : "";
}

/* A target with scheme and host is meant for that server, of which this may be the proxy: unlike Host, which may come
 * through a forwarded port, it must name our own, if any. */
static bool is_own_target(const struct mg_request *req)
{
    const struct mg_http *http = req->http;
    const char *port = port_of(req->authority);
    if (*http->public_host && !strcasecmp(req->authority, http->public_host))
        return !req->secure || !strncasecmp(http->public_url, "https:", 6);
    return !req->secure && is_local_host(req->authority) && (!*port || !strcmp(port, port_of(http->address)));
}

bool mg_guard_host(struct mg_request *req)
{
    const char *host = mg_request_header(req, "Host"), *wrong = NULL;
    if (!host || !is_own_host(req->http, host))
        wrong = "Host header";
    else if (req->authority && !is_own_target(req))
        wrong = "target of the request";
    if (wrong)
        mg_reply_problem(req, "wrong-host", NULL, "the %s names another server", wrong);
    return !wrong;
}

static bool is_own_origin(const struct mg_request *req, const char *origin)
{
    const char *host = mg_request_header(req, "Host");
    const struct mg_http *http = req->http;
    if (*http->public_origin && !strcasecmp(origin, http->public_origin))
        return true;
    return !strncasecmp(origin, "http://", 7) && is_local_host(host) && !strcasecmp(origin + 7, host);
}

static bool is_admitted_origin(const struct mg_http *http, const char *origin)
{
    size_t length = strlen(origin);
    for (const char *at = http->cors_origins; *at; at += strspn(at, ", ")) {
        size_t word = strcspn(at, ", ");
        if (word == length && !strncasecmp(at, origin, word))
            return true;
        at += word;
    }
    return false;
}

static bool is_page_navigation(const struct mg_request *req)
{
    const char *mode = mg_request_header(req, "Sec-Fetch-Mode");
    if (!mode || strcmp(mode, "navigate") != 0 || (strcmp(req->method, "GET") != 0 && !req->head))
        return false;
    return !strcmp(req->path, "/") || !strncmp(req->path, "/ui", 3) ||
           (!strncmp(req->path, "/jobs/", 6) && !strchr(req->path + 6, '/'));
}

static void admit(struct mg_request *req, const char *origin)
{
    mg_reply_header(req, "Access-Control-Allow-Origin", "%s", origin);
    mg_reply_header(req, "Vary", "Origin");
    mg_reply_header(req, "Access-Control-Expose-Headers", "Location, ETag, Link, Retry-After, X-Request-Id");
    if (strcmp(req->method, "OPTIONS") != 0)
        return;
    mg_reply_header(req, "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE");
    mg_reply_header(req, "Access-Control-Allow-Headers",
                    "Authorization, Content-Type, Content-Encoding, Prefer, "
                    "Last-Event-ID, If-Match, If-None-Match, Idempotency-Key");
}

bool mg_guard_origin(struct mg_request *req)
{
    const char *origin = mg_request_header(req, "Origin");
    const char *site = mg_request_header(req, "Sec-Fetch-Site");
    if (origin && is_admitted_origin(req->http, origin)) {
        admit(req, origin);
        return true;
    }
    bool foreign = (origin && !is_own_origin(req, origin)) ||
                   (site && (!strcmp(site, "cross-site") || !strcmp(site, "same-site")));
    if (!foreign || (!origin && is_page_navigation(req)))
        return true;
    mg_reply_problem(req, "cross-origin", NULL, "the request comes from a page of another origin");
    return false;
}

/* The token of `Authorization: Bearer TOKEN`, or NULL. */
static const char *bearer_of(const struct mg_request *req)
{
    const char *text = mg_request_header(req, "Authorization");
    if (!text || strncasecmp(text, "Bearer ", 7) != 0)
        return NULL;
    return text + 7 + strspn(text + 7, " ");
}

static void refuse_token(struct mg_request *req, const char *why, bool given)
{
    mg_reply_header(req, "WWW-Authenticate", "Bearer realm=\"magisd\"%s", given ? ", error=\"invalid_token\"" : "");
    mg_reply_problem(req, "unauthorized", NULL, "%s", why);
}

/* Revoking the last token must not open the daemon to everybody: only --insecure, which says so, does. */
static bool is_open(struct mg_http *http)
{
    return http->config.insecure ? !mg_tokens_valid(http->tokens) : http->local && !mg_tokens_exist(http->tokens);
}

/* NULL, and who asks; or why the token is refused. */
static const char *identify(const struct mg_request *req, struct mg_caller *caller)
{
    struct mg_http *http = req->http;
    const char *token = bearer_of(req);
    *caller = (struct mg_caller){.role = MG_ROLE_ADMIN, .if_match = mg_request_header(req, "If-Match")};
    if (is_open(http))
        return NULL;
    if (!mg_tokens_valid(http->tokens))
        return "there is no valid token: all were revoked or have expired, or none was made";
    return token ? mg_tokens_check(http->tokens, token, caller) : "the request carries no token";
}

bool mg_guard_role(struct mg_request *req)
{
    enum mg_role needs = req->route->role;
    if (needs == MG_ROLE_PUBLIC)
        return true;
    const char *why = identify(req, &req->caller);
    if (why) {
        refuse_token(req, why, bearer_of(req) != NULL);
        return false;
    }
    if (mg_role_allows(req->caller.role, needs))
        return true;
    mg_reply_problem(req, "forbidden", NULL, "%s has the role %s; this takes %s", req->caller.name,
                     mg_role_name(req->caller.role), mg_role_name(needs));
    return false;
}

/* Still the one that it was let in for? */
static bool is_admitted(const struct mg_request *req)
{
    struct mg_caller now;
    return !req->route || req->route->role == MG_ROLE_PUBLIC ||
           (!identify(req, &now) && mg_role_allows(now.role, req->route->role));
}

/* A change that is under way is answered as it ends; who waits, or reads on, does so no longer. */
static void dismiss(struct mg_request *req)
{
    if (req->is_stream) {
        mg_stream_end_of(req);
    } else if (req->suspended && !req->replied && (req->waits || !strcmp(req->method, "GET") || req->head)) {
        mg_request_forget(req);
        mg_guard_role(req);
    }
}

void mg_guard_sweep(struct mg_http *http)
{
    uint64_t state = mg_tokens_state(http->tokens);
    if (state == http->tokens_state)
        return;
    http->tokens_state = state;
    for (struct mg_peer *peer = http->peers; peer; peer = peer->next)
        if (peer->request && !is_admitted(peer->request))
            dismiss(peer->request);
}

void mg_guard_decorate(struct mg_request *req, struct MHD_Response *response)
{
    const char *policy = req->page ? "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                                     "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
                                     "frame-ancestors 'none'"
                                   : "default-src 'none'; frame-ancestors 'none'";
    MHD_add_response_header(response, "X-Request-Id", req->id);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Content-Security-Policy", policy);
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
}
