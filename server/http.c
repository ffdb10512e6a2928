/* libmicrohttpd in external epoll mode inside one libuv loop.
 *
 * The library's epoll descriptor sits in a uv_poll; that alone is not enough, for half-read
 * connections wait in user space and the descriptor does not signal them. So after each run the
 * library is asked for its timeout: run again while it is 0 (a bounded number of times, other
 * handles want their turn), else arm a timer of 1 ms to 1 s. The upper bound is a heartbeat: at the
 * connection limit the listening socket comes back only at a later run. A resumed connection does
 * not wake the loop either: mg_http_wake() does. */
#include "server/http_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "server/log.h"

enum { RUNS_AT_ONCE = 32, HEARTBEAT_MS = 1000, SPARE_CONNECTIONS = 64 };

void *mg_must(void *memory)
{
    if (!memory) {
        mg_log(MG_LOG_ERROR, "out-of-memory", "allocation failed; aborting");
        abort();
    }
    return memory;
}

static void on_pump_timer(uv_timer_t *timer);

static void pump(struct mg_http *http)
{
    MHD_UNSIGNED_LONG_LONG timeout = 0;
    if (http->stopping)
        return;
    for (int run = 0; run < RUNS_AT_ONCE; run++) {
        MHD_run(http->daemon);
        if (MHD_get_timeout(http->daemon, &timeout) != MHD_YES)
            timeout = HEARTBEAT_MS;
        if (timeout > 0)
            break;
    }
    /* not 0: libuv before 1.48 spins on a 0 ms timer that its own callback arms again */
    uint64_t pause = timeout < 1 ? 1 : timeout > HEARTBEAT_MS ? HEARTBEAT_MS : timeout;
    uv_timer_start(&http->pump_timer, on_pump_timer, pause, 0);
}

static void on_pump_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    pump(poll->data);
}

static void on_wake(uv_async_t *wake)
{
    pump(wake->data);
}

void mg_http_wake(struct mg_http *http)
{
    uv_async_send(&http->wake);
}

static void measure_lag(struct mg_http *http)
{
    uint64_t now = uv_now(http->config.loop);
    uint64_t lag = now > http->tick_due_ms ? now - http->tick_due_ms : 0;
    if (now - http->lag_since_ms > 60000) {
        http->lag_since_ms = now;
        http->lag_ms = 0;
    }
    if (lag > http->lag_ms)
        http->lag_ms = lag;
    http->tick_due_ms = now + HEARTBEAT_MS;
    mg_metric_set(&http->metrics, MG_METRIC_LOOP_LAG, (double)http->lag_ms / 1000);
}

static void on_tick(uv_timer_t *timer)
{
    struct mg_http *http = timer->data;
    measure_lag(http);
    mg_peer_sweep(http);
    mg_guard_sweep(http);
    mg_stream_sweep(http);
    pump(http);
}

static void log_library(void *context, const char *format, va_list args)
{
    char text[512];
    (void)context;
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    mg_log(MG_LOG_WARN, "http-library", "%s", text);
}

static struct MHD_Daemon *start_library(struct mg_http *http)
{
    const struct mg_http_limits *limits = &http->config.limits;
    /* Above our own limit: at ours, we choose whom to close. */
    unsigned connections = limits->connections + SPARE_CONNECTIONS;
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, mg_peer_admit, http,
                            mg_request_access, http, MHD_OPTION_EXTERNAL_LOGGER, log_library, http,
                            MHD_OPTION_LISTEN_SOCKET, http->listen_fd, MHD_OPTION_CONNECTION_LIMIT, connections,
                            MHD_OPTION_CONNECTION_TIMEOUT, limits->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)limits->header_bytes, MHD_OPTION_NOTIFY_CONNECTION, mg_peer_notify, http,
                            MHD_OPTION_URI_LOG_CALLBACK, mg_request_begin, http, MHD_OPTION_NOTIFY_COMPLETED,
                            mg_request_completed, http, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

/* Splits --public-url into what Host, Origin and links are held against. */
static enum mg_code split_public_url(struct mg_http *http, struct mg_error *err)
{
    const char *url = http->public_url, *host, *path;
    size_t length = strlen(url);
    if (!length)
        return MG_OK;
    if (url[length - 1] == '/')
        http->public_url[length - 1] = 0;
    host = strstr(url, "://");
    if (!host || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) || !host[3])
        return mg_fail(err, MG_ERR_INVALID, "", "--public-url must begin with http:// or https:// and name a host");
    host += 3;
    path = host + strcspn(host, "/");
    if ((size_t)(path - host) >= sizeof http->public_host || strlen(path) >= sizeof http->base_path)
        return mg_fail(err, MG_ERR_INVALID, "", "--public-url is too long");
    snprintf(http->public_host, sizeof http->public_host, "%.*s", (int)(path - host), host);
    snprintf(http->public_origin, sizeof http->public_origin, "%.*s", (int)(path - url), url);
    snprintf(http->base_path, sizeof http->base_path, "%s", path);
    return MG_OK;
}

static void copy_config(struct mg_http *http, const struct mg_http_config *config)
{
    http->config = *config;
    http->config.listen = http->listen = mg_must(strdup(config->listen));
    http->config.public_url = http->public_url = mg_must(strdup(config->public_url ? config->public_url : ""));
    http->config.cors_origins = http->cors_origins = mg_must(strdup(config->cors_origins ? config->cors_origins : ""));
    if (config->web_dir)
        http->config.web_dir = http->web_dir = mg_must(strdup(config->web_dir));
    if (config->data_dir)
        http->config.data_dir = http->data_dir = mg_must(strdup(config->data_dir));
}

static void free_http(struct mg_http *http)
{
    free(http->listen);
    free(http->public_url);
    free(http->cors_origins);
    free(http->web_dir);
    free(http->data_dir);
    free(http->description);
    mg_tokens_close(http->tokens);
    if (http->devices)
        mg_devices_free(http->devices);
    if (http->unix_path)
        unlink(http->unix_path);
    free(http->unix_path);
    free(http);
}

static void start_handles(struct mg_http *http)
{
    uv_loop_t *loop = http->config.loop;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    uv_poll_init(loop, &http->poll, info->epoll_fd);
    uv_timer_init(loop, &http->pump_timer);
    uv_timer_init(loop, &http->tick);
    uv_async_init(loop, &http->wake, on_wake);
    http->poll.data = http->pump_timer.data = http->tick.data = http->wake.data = http;
    http->open_handles = 4;
    http->tick_due_ms = uv_now(loop) + HEARTBEAT_MS;
    http->lag_since_ms = uv_now(loop);
    uv_poll_start(&http->poll, UV_READABLE, on_poll);
    uv_timer_start(&http->tick, on_tick, HEARTBEAT_MS, HEARTBEAT_MS);
    uv_timer_start(&http->pump_timer, on_pump_timer, 1, 0);
}

static enum mg_code describe(struct mg_http *http, struct mg_error *err)
{
    struct mg_writer w;
    mg_writer_init(&w);
    if (!mg_route_describe(&w) || !mg_writer_finish(&w)) {
        mg_writer_release(&w);
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    }
    http->description = w.data;
    http->description_size = w.size;
    return MG_OK;
}

/* http://HOST[:PORT] or https://HOST[:PORT], nothing behind it. */
static bool is_origin(const char *word, size_t length)
{
    size_t scheme = !strncasecmp(word, "http://", 7) ? 7 : !strncasecmp(word, "https://", 8) ? 8 : 0;
    return scheme && length > scheme && strcspn(word + scheme, "/*?#@, ") == length - scheme;
}

static enum mg_code check_cors_origins(const struct mg_http *http, struct mg_error *err)
{
    for (const char *at = http->cors_origins; *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", ");
        if (!is_origin(at, length))
            return mg_fail(
                err, MG_ERR_INVALID, "",
                "--cors-origin: \"%.*s\" is no origin such as https://plans.example.org; pages that may call "
                "are named one by one",
                (int)length, at);
        at += length;
    }
    return MG_OK;
}

static enum mg_code check_web_dir(const struct mg_http *http, struct mg_error *err)
{
    char path[4096];
    if (!http->web_dir)
        return MG_OK;
    snprintf(path, sizeof path, "%s/index.html", http->web_dir);
    if (access(path, R_OK) == 0)
        return MG_OK;
    return mg_fail(err, MG_ERR_INVALID, "", "--web %s: %s: %s", http->web_dir, path, strerror(errno));
}

static enum mg_code open_parts(struct mg_http *http, struct mg_error *err)
{
    enum mg_code code = split_public_url(http, err);
    if (code == MG_OK)
        code = check_cors_origins(http, err);
    if (code == MG_OK)
        code = check_web_dir(http, err);
    if (code == MG_OK)
        code = describe(http, err);
    if (code != MG_OK)
        return code;
    http->tokens = mg_tokens_open(http->data_dir);
    http->listen_fd = mg_listen_open(http, err);
    if (http->listen_fd < 0)
        return err->code;
    http->daemon = start_library(http);
    if (!http->daemon) {
        close(http->listen_fd);
        return mg_fail(err, MG_ERR_INVALID, "", "the HTTP library did not start (see the log)");
    }
    return MG_OK;
}

enum mg_code mg_http_open(struct mg_http **out, const struct mg_http_config *config, struct mg_error *err)
{
    struct mg_http *http = mg_must(calloc(1, sizeof *http));
    copy_config(http, config);
    enum mg_code code = open_parts(http, err);
    if (code != MG_OK) {
        free_http(http);
        return code;
    }
    http->devices = mg_devices_load(http->data_dir);
    start_handles(http);
    mg_metric_set(&http->metrics, MG_METRIC_UP, (double)time(NULL));
    *out = http;
    return MG_OK;
}

const char *mg_http_address(const struct mg_http *http)
{
    return http->address;
}

struct mg_metrics *mg_http_metrics(struct mg_http *http)
{
    return &http->metrics;
}

void mg_http_drain(struct mg_http *http)
{
    http->draining = true;
    for (struct mg_stream *stream = http->streams; stream; stream = stream->next)
        mg_stream_end(http, stream->id);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct mg_http *http = handle->data;
    if (--http->open_handles)
        return;
    void (*closed)(void *) = http->closed;
    void *context = http->closed_context;
    free_http(http);
    if (closed)
        closed(context);
}

/* The library aborts when it is stopped with suspended connections: each is resumed first, answers
 * 503 where it has nothing better, and gets a few runs to be sent. */
static void stop_library(struct mg_http *http)
{
    http->draining = http->stopping = true;
    for (struct mg_peer *peer = http->peers; peer; peer = peer->next) {
        struct mg_request *req = peer->request;
        if (!req || !req->suspended || req->replied)
            continue;
        mg_request_forget(req);
        mg_reply_header(req, "Retry-After", "10");
        mg_reply_problem(req, "draining", NULL, "the daemon is stopping");
    }
    mg_stream_resume_all(http);
    for (int run = 0; run < RUNS_AT_ONCE; run++)
        MHD_run(http->daemon);
    MHD_stop_daemon(http->daemon);
}

void mg_http_close(struct mg_http *http, void (*closed)(void *context), void *context)
{
    http->closed = closed;
    http->closed_context = context;
    uv_poll_stop(&http->poll);
    stop_library(http);
    uv_close((uv_handle_t *)&http->poll, on_handle_closed);
    uv_close((uv_handle_t *)&http->pump_timer, on_handle_closed);
    uv_close((uv_handle_t *)&http->tick, on_handle_closed);
    uv_close((uv_handle_t *)&http->wake, on_handle_closed);
}
