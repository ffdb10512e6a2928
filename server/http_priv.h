/* The bodies of the HTTP side; for server/http_*.c only. */
#ifndef MG_SERVER_HTTP_PRIV_H
#define MG_SERVER_HTTP_PRIV_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "server/devices.h"
#include "server/http.h"
#include "server/media.h"
#include "server/tokens.h"

enum { MG_MAX_PARTS = 4, MG_MAX_REPLY_HEADERS = 12, MG_SMALL_BODY = 64 << 10 };

enum mg_body_kind { MG_BODY_NONE, MG_BODY_SMALL, MG_BODY_LARGE };

/* ---- routes (http_route.c) ---- */
struct mg_route {
    const char *method, *pattern;
    enum mg_role role;
    enum mg_body_kind body;
    const char *query; /* names of parameters, separated by spaces */
    void (*handler)(struct mg_request *req);
    const char *request, *answer; /* schemas */
    const char *summary;
};
extern const struct mg_route mg_routes[];
extern const size_t mg_route_count;
/* Finds the route of (method, path); fills the parts (pointers into `path`, which is cut up). NULL: none, and then
 * `allow` (size bytes) lists the methods of the path, "" for no such path. */
const struct mg_route *mg_route_find(const char *method, char *path, const char **part, char *allow, size_t size);
/* The OpenAPI document. */
bool mg_route_describe(struct mg_writer *w);

/* ---- connections (http_peer.c) ---- */
struct mg_peer {
    struct mg_peer *next, *prev; /* oldest first */
    struct mg_http *http;
    struct mg_request *request; /* the one in progress, or NULL */
    int fd;
    uint64_t since; /* ms: opened, or the last request ended */
    struct in6_addr address;
    bool has_address, doomed;
};
enum MHD_Result mg_peer_admit(void *context, const struct sockaddr *address, socklen_t size);
void mg_peer_notify(void *context, struct MHD_Connection *connection, void **slot,
                    enum MHD_ConnectionNotificationCode code);
/* Closes what is too slow; called about once a second. */
void mg_peer_sweep(struct mg_http *http);

/* ---- requests (http_request.c) ---- */
enum mg_phase { MG_PHASE_HEADERS, MG_PHASE_BODY, MG_PHASE_HANDLING, MG_PHASE_REPLYING };

struct mg_request {
    struct mg_http *http;
    struct mg_peer *peer;
    struct MHD_Connection *connection;
    enum mg_phase phase;
    uint64_t started_ns, started_ms;
    char id[65];
    char *uri; /* as sent, for the log */
    char *method;
    char *path;      /* decoded, cut up by the router */
    char *authority; /* of a target that names the host, "http://HOST/path"; else NULL */
    bool secure;     /* that target is https */
    const char *part[MG_MAX_PARTS];
    const struct mg_route *route;
    char peer_text[INET6_ADDRSTRLEN];
    struct mg_caller caller;

    int body_fd; /* LARGE: a memfd; else -1 */
    char *body;  /* SMALL */
    size_t body_size, body_capacity, body_counted;
    bool gzip, has_body;
    enum mg_media media;

    struct MHD_Response *response; /* set by the reply */
    unsigned status;
    const char *problem;
    char *header[MG_MAX_REPLY_HEADERS][2];
    unsigned header_count;
    char etag[80];
    bool immutable, head, suspended, handled, replied, is_stream, page;
    bool waits;       /* it asked to wait for its answer */
    mg_ticket ticket; /* what the handler waits for; 0 = nothing */
    void *state;
    void (*release_state)(void *state);
};
/* The handler is not to answer any more: its question is forgotten, its state released. */
void mg_request_forget(struct mg_request *req);
/* No query parameters but those of the route: false after a problem was replied. */
bool mg_request_known_query(struct mg_request *req);
void *mg_request_begin(void *context, const char *uri, struct MHD_Connection *connection);
enum MHD_Result mg_request_access(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **slot);
void mg_request_completed(void *context, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode code);

/* ---- checks (http_guard.c): false after a problem was replied ---- */
bool mg_guard_framing(struct mg_request *req);
bool mg_guard_host(struct mg_request *req);
bool mg_guard_origin(struct mg_request *req);
/* Token and role, against the route. */
bool mg_guard_role(struct mg_request *req);
/* Ends the streams and waits of callers who are no longer let in; called about once a second. */
void mg_guard_sweep(struct mg_http *http);
/* Headers that every answer carries. */
void mg_guard_decorate(struct mg_request *req, struct MHD_Response *response);

/* ---- bodies (http_body.c) ---- */
/* By the headers: false after a problem was replied. */
bool mg_body_begin(struct mg_request *req);
/* False: close the connection at once. */
bool mg_body_add(struct mg_request *req, const char *data, size_t size);
void mg_body_release(struct mg_request *req);

/* ---- replies (http_reply.c) ---- */
enum MHD_Result mg_reply_queue(struct mg_request *req);
/* For replies built elsewhere (streams). */
void mg_reply_response(struct mg_request *req, unsigned status, const char *media_type, struct MHD_Response *response);
void mg_reply_access_log(struct mg_request *req, enum MHD_RequestTerminationCode code);
/* The problem document of `name`, for GET /errors/{name}: false if there is none. */
bool mg_problem_describe(struct mg_writer *w, const char *name);
void mg_problem_list(struct mg_writer *w);

/* ---- streams (http_stream.c) ---- */
struct mg_stream {
    struct mg_stream *next;
    struct mg_http *http;
    struct MHD_Connection *connection;
    mg_stream_id id;
    int fd;
    char *data;
    size_t at, size, capacity;
    uint64_t written_ms;
    bool suspended, ended, failed;
    void (*closed)(void *context);
    void *context;
};
void mg_stream_sweep(struct mg_http *http); /* comments on idle streams */
void mg_stream_resume_all(struct mg_http *http);
void mg_stream_end_of(struct mg_request *req); /* the stream that it is answered with */

/* ---- pages (http_page.c) ---- */
struct mg_web_file {
    const char *name;
    const unsigned char *data, *end;
};
extern const struct mg_web_file mg_web_files[];
extern const size_t mg_web_file_count;
extern const char mg_schemas[]; /* schemas.json */
/* NULL if there is none of that name. */
const struct mg_web_file *mg_web_file_find(const char *name);
void mg_page_serve(struct mg_request *req, const char *name);

/* ---- the whole (http.c) ---- */
struct mg_http {
    struct mg_http_config config;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t pump_timer, tick;
    uv_async_t wake;
    unsigned open_handles;
    int listen_fd;
    char address[160];
    char *listen, *public_url, *cors_origins, *web_dir, *data_dir, *unix_path;
    char public_host[256], public_origin[280], base_path[256];
    struct mg_peer *peers, *last_peer;
    uint32_t peer_count;
    struct mg_stream *streams;
    mg_stream_id next_stream;
    uint64_t uploads_bytes;
    struct mg_metrics metrics;
    uint64_t tick_due_ms, lag_ms, lag_since_ms;
    struct mg_devices *devices;
    struct mg_tokens *tokens;
    uint64_t tokens_state; /* by which everybody here was let in */
    bool local;            /* bound to this machine alone */
    char *description;     /* GET /openapi.json */
    size_t description_size;
    bool draining, stopping;
    void (*closed)(void *context);
    void *closed_context;
};
/* Something can go on: pump soon. */
void mg_http_wake(struct mg_http *http);
void *mg_must(void *memory); /* aborts when malloc failed: the daemon has a restart policy, half-states it has not */

/* ---- listening (http_listen.c) ---- */
/* A listening socket; fills address; -1 with *err. */
int mg_listen_open(struct mg_http *http, struct mg_error *err);

#endif
