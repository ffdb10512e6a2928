/* The HTTP side against a job manager of the test's own: routes, streams to slow and to fair
 * readers, long polling, and stopping with requests under way. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http_priv.h"
#include "server/jobs.h"
#include "server/log.h"
#include "zoo/zoo.h"

/* ---- a job manager that answers as the job's id says ---- */

struct mg_jobs {
    uv_loop_t *loop;
    uv_timer_t timer;
    mg_reply_cb done;
    mg_event_cb event;
    void *context;
    const char *kind; /* "flood", "steps", "once", "silent", or how it fails: "failed" at once, "cut" after an event */
    uint64_t sent, until;
    unsigned asked, forgotten;
};

static void finish(struct mg_jobs *jobs)
{
    uv_timer_stop(&jobs->timer);
    jobs->event = NULL;
}

static void on_event_timer(uv_timer_t *timer)
{
    static char text[4001];
    struct mg_jobs *jobs = timer->data;
    bool flood = !strcmp(jobs->kind, "flood");
    struct mg_event event = {.job = "job", .data = text};
    mg_event_cb deliver = jobs->event;
    if (flood)
        memset(text, '1', sizeof text - 1);
    else
        snprintf(text, sizeof text, "{\"n\":%llu}", (unsigned long long)jobs->sent);
    event.sequence = jobs->sent++;
    event.type = !event.sequence ? "snapshot" : event.sequence < jobs->until ? "front" : "end";
    if (event.sequence == jobs->until && (!strcmp(jobs->kind, "failed") || !strcmp(jobs->kind, "cut")))
        event.type = "failed";
    event.size = strlen(text);
    event.last = event.sequence == jobs->until;
    if (event.last)
        finish(jobs);
    if (!strcmp(jobs->kind, "once"))
        uv_timer_stop(&jobs->timer);
    deliver(jobs->context, &event);
}

mg_ticket mg_jobs_listen(mg_jobs *jobs, const char *const *ids, size_t count, int64_t since, mg_event_cb event,
                         void *context)
{
    (void)count;
    jobs->kind = ids[0];
    jobs->event = event;
    jobs->context = context;
    jobs->sent = since > 0 ? (uint64_t)since + 1 : 0;
    jobs->until = !strcmp(jobs->kind, "flood")    ? 1u << 30
                  : !strcmp(jobs->kind, "failed") ? 0
                  : !strcmp(jobs->kind, "cut")    ? 1
                                                  : 5;
    if (strcmp(jobs->kind, "silent") != 0)
        uv_timer_start(&jobs->timer, on_event_timer, 2, 1);
    return ++jobs->asked;
}

void mg_jobs_forget(mg_jobs *jobs, mg_ticket ticket)
{
    cr_assert(ticket > 0 && ticket <= jobs->asked);
    jobs->forgotten++;
    finish(jobs);
}

/* Never answers: what waits must be ended by others. */
mg_ticket mg_jobs_get(mg_jobs *jobs, const char *id, double wait_s, mg_reply_cb done, void *context)
{
    (void)id;
    (void)wait_s;
    (void)done;
    (void)context;
    return ++jobs->asked;
}

/* What these tests do not ask. */
#define UNASKED __attribute__((unused))
#define NEVER(name, ...)                                                                                               \
    mg_ticket name(UNASKED mg_jobs *jobs, __VA_ARGS__, UNASKED mg_reply_cb done, UNASKED void *context)                \
    {                                                                                                                  \
        cr_assert_fail(#name " is not for this test");                                                                 \
        return 0;                                                                                                      \
    }
#define TEXT(name) UNASKED const char *name
#define CALLER UNASKED const struct mg_caller *caller
NEVER(mg_jobs_submit, UNASKED const struct mg_submission *submission)
NEVER(mg_jobs_estimate, UNASKED const struct mg_submission *submission)
NEVER(mg_jobs_list, UNASKED const struct mg_job_query *query)
NEVER(mg_jobs_request, TEXT(id))
NEVER(mg_jobs_pareto, TEXT(id))
NEVER(mg_jobs_plan, TEXT(id), TEXT(plan), TEXT(format))
NEVER(mg_jobs_timeline, TEXT(id), TEXT(plan))
NEVER(mg_jobs_formats, TEXT(id), TEXT(plan))
NEVER(mg_jobs_graph, TEXT(id), TEXT(format))
NEVER(mg_jobs_measure, CALLER, TEXT(id), TEXT(plan), TEXT(device))
NEVER(mg_jobs_measurements, TEXT(id), TEXT(plan))
NEVER(mg_jobs_measure_claim, CALLER, TEXT(agent))
NEVER(mg_jobs_measure_answer, CALLER, TEXT(agent), UNASKED const struct mg_measured *answer)
NEVER(mg_jobs_reprice, TEXT(id))
NEVER(mg_jobs_cancel, CALLER, TEXT(id))
NEVER(mg_jobs_retry, CALLER, TEXT(id))
NEVER(mg_jobs_delete, CALLER, TEXT(id))
NEVER(mg_jobs_pin, CALLER, TEXT(id), UNASKED bool pinned)
NEVER(mg_jobs_patch, CALLER, TEXT(id), TEXT(json), UNASKED size_t size)

void mg_jobs_stats(const mg_jobs *jobs, struct mg_jobs_stats *out)
{
    (void)jobs;
    *out = (struct mg_jobs_stats){.claiming = true, .store_ok = true};
}
mg_ticket mg_intake_ask(UNASKED mg_intake *intake, UNASKED const struct mg_intake_question *question,
                        UNASKED mg_reply_cb done, UNASKED void *context)
{
    abort(); /* there is no store here: nothing asks */
}
void mg_intake_stats(const mg_intake *intake, struct mg_intake_stats *out)
{
    (void)intake;
    *out = (struct mg_intake_stats){0};
}

uint32_t mg_zoo_count(void)
{
    return 0;
}
const struct mg_zoo_entry *mg_zoo_at(uint32_t index)
{
    cr_assert_fail("there is no network %u", index);
    return NULL;
}

/* ---- a server on a loop that the test turns by hand ---- */

struct fixture {
    uv_loop_t loop;
    struct mg_jobs jobs;
    struct mg_http *http;
    bool closed;
};

static void open_fixture(struct fixture *f)
{
    struct mg_http_config config = {.loop = &f->loop, .listen = "127.0.0.1:0", .jobs = &f->jobs};
    struct mg_error err = {0};
    memset(f, 0, sizeof *f);
    uv_loop_init(&f->loop);
    f->jobs.loop = &f->loop;
    uv_timer_init(&f->loop, &f->jobs.timer);
    f->jobs.timer.data = &f->jobs;
    config.limits = (struct mg_http_limits){1 << 20, 1 << 24, 32 << 10, 50, 50, 30, 60, 64 << 10};
    cr_assert(mg_http_open(&f->http, &config, &err) == MG_OK, "%s", err.message);
}

static void turn(struct fixture *f, unsigned ms)
{
    for (uint64_t end = uv_hrtime() + ms * 1000000ull; uv_hrtime() < end; usleep(200))
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void on_closed(void *context)
{
    *(bool *)context = true;
}

static void close_fixture(struct fixture *f)
{
    mg_http_close(f->http, on_closed, &f->closed);
    uv_close((uv_handle_t *)&f->jobs.timer, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    cr_assert(f->closed);
    cr_assert(uv_loop_close(&f->loop) == 0, "no handle is left");
}

static int ask(struct fixture *f, const char *path, const char *more)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int small = 4096, fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[512];
    address.sin_port = htons((uint16_t)atoi(strrchr(mg_http_address(f->http), ':') + 1));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    cr_assert(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, more);
    cr_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* What came until `text` was among it or the other side closed; at most 5 s. */
static char *take(struct fixture *f, int fd, const char *text, bool *closed)
{
    static char got[1 << 20];
    size_t size = 0;
    *closed = false;
    *got = 0;
    for (uint64_t end = uv_hrtime() + 5000000000ull; uv_hrtime() < end && !*closed && !(text && strstr(got, text));) {
        turn(f, 1);
        ssize_t count = read(fd, got + size, sizeof got - 1 - size);
        if (count > 0)
            size += (size_t)count;
        *closed = count == 0 || size == sizeof got - 1;
        got[size] = 0;
    }
    return got;
}

static double metric(struct fixture *f, enum mg_metric which)
{
    return mg_http_metrics(f->http)->value[which];
}

Test(http, a_stream_delivers_in_order_and_ends)
{
    struct fixture f;
    bool closed;
    open_fixture(&f);
    int fd = ask(&f, "/jobs/steps/events", "Connection: close\r\n");
    const char *text = take(&f, fd, NULL, &closed);
    cr_assert(strstr(text, "HTTP/1.1 200"));
    cr_assert(strstr(text, "retry: 2000\nevent: snapshot\ndata: {\"n\":0}\n\n"));
    for (int k = 1; k <= 4; k++) {
        char want[80];
        snprintf(want, sizeof want, "id: %d\nevent: front\ndata: {\"n\":%d}\n\n", k, k);
        cr_assert(strstr(text, want), "%s", text);
    }
    cr_assert(strstr(text, "id: 5\nevent: end\n"));
    cr_assert(closed);
    cr_assert_eq(f.jobs.forgotten, 0, "the last event ended the listener");
    cr_assert_eq(metric(&f, MG_METRIC_HTTP_STREAMS), 0);
    close(fd);
    close_fixture(&f);
}

Test(http, a_stream_resumes_after_the_last_event_id)
{
    struct fixture f;
    bool closed;
    open_fixture(&f);
    int fd = ask(&f, "/jobs/steps/events", "Last-Event-ID: 3\r\nConnection: close\r\n");
    const char *text = take(&f, fd, NULL, &closed);
    cr_assert(!strstr(text, "id: 3\n") && strstr(text, "id: 4\n") && strstr(text, "id: 5\n"), "%s", text);
    close(fd);
    close_fixture(&f);
}

Test(http, a_quiet_stream_is_probed_with_comments)
{
    struct fixture f;
    bool closed;
    open_fixture(&f);
    int fd = ask(&f, "/jobs/once/events", "");
    take(&f, fd, "snapshot", &closed);
    cr_assert(f.http->streams);
    f.http->streams->written_ms -= 15000;
    mg_stream_sweep(f.http);
    cr_assert(strstr(take(&f, fd, ":\n\n", &closed), "3\r\n:\n\n\r\n")); /* a chunk of three bytes */
    mg_stream_sweep(f.http);
    turn(&f, 50);
    cr_assert(read(fd, &(char){0}, 1) < 0, "one comment is enough for 15 s");
    close(fd);
    close_fixture(&f);
}

Test(http, a_slow_listener_is_closed_and_forgotten)
{
    struct fixture f;
    bool closed;
    open_fixture(&f);
    int fd = ask(&f, "/jobs/flood/events", "");
    for (int k = 0; k < 400 && !f.jobs.forgotten; k++)
        turn(&f, 20);
    cr_assert_eq(f.jobs.forgotten, 1);
    cr_assert_eq(metric(&f, MG_METRIC_HTTP_STREAMS_DROPPED), 1);
    cr_assert_eq(metric(&f, MG_METRIC_HTTP_STREAMS), 0);
    take(&f, fd, NULL, &closed);
    cr_assert(closed);
    close(fd);
    for (int k = 0; k < 250 && metric(&f, MG_METRIC_HTTP_CONNECTIONS) > 0; k++)
        turn(&f, 20);
    cr_assert_eq(metric(&f, MG_METRIC_HTTP_CONNECTIONS), 0);
    close_fixture(&f);
}

Test(http, a_listener_that_leaves_is_forgotten)
{
    struct fixture f;
    bool closed;
    open_fixture(&f);
    int fd = ask(&f, "/jobs/flood/events", "");
    cr_assert(strstr(take(&f, fd, "snapshot", &closed), "snapshot"));
    close(fd);
    for (int k = 0; k < 500 && !f.jobs.forgotten; k++)
        turn(&f, 10);
    cr_assert_eq(f.jobs.forgotten, 1);
    cr_assert_eq(metric(&f, MG_METRIC_HTTP_STREAMS_DROPPED), 0);
    close_fixture(&f);
}

Test(http, long_polling_gathers_what_is_there)
{
    struct fixture f;
    bool closed;
    open_fixture(&f);
    int fd = ask(&f, "/jobs/steps/events?since=2&wait=5", "Accept: application/json\r\nConnection: close\r\n");
    const char *text = take(&f, fd, NULL, &closed);
    cr_assert(strstr(text, "{\"events\":[{\"id\":3,\"type\":\"front\",\"job\":\"job\",\"data\":{\"n\":3}}"), "%s",
              text);
    cr_assert(strstr(text, "\"next\":5}"), "%s", text);
    close(fd);
    close_fixture(&f);
}

Test(http, events_that_cannot_be_read_are_told)
{
    struct fixture f;
    bool closed;
    open_fixture(&f);
    int fd = ask(&f, "/jobs/failed/events", "Connection: close\r\n");
    const char *text = take(&f, fd, NULL, &closed);
    cr_assert(strstr(text, "HTTP/1.1 503") && strstr(text, "/errors/store-failed"), "%s", text);
    close(fd);
    fd = ask(&f, "/jobs/failed/events?wait=5", "Accept: application/json\r\nConnection: close\r\n");
    text = take(&f, fd, NULL, &closed);
    cr_assert(strstr(text, "HTTP/1.1 503") && strstr(text, "/errors/store-failed"), "%s", text);
    close(fd);
    fd = ask(&f, "/jobs/cut/events", "Connection: close\r\n");
    text = take(&f, fd, NULL, &closed);
    cr_assert(closed && strstr(text, "event: snapshot") && !strstr(text, "failed"), "%s", text);
    close(fd);
    close_fixture(&f);
}

Test(http, stopping_answers_what_waits)
{
    struct fixture f;
    bool closed;
    char text[2048] = "";
    open_fixture(&f);
    int waiting = ask(&f, "/jobs/abc?wait=100", "");
    int polling = ask(&f, "/jobs/silent/events?wait=100", "Accept: application/json\r\n");
    turn(&f, 30);
    int stream = ask(&f, "/jobs/flood/events", ""); /* from now on the one that gets the events */
    cr_assert(strstr(take(&f, stream, "snapshot", &closed), "snapshot"));
    finish(&f.jobs);
    close_fixture(&f);
    cr_assert(read(waiting, text, sizeof text - 1) > 0);
    cr_assert(strstr(text, "HTTP/1.1 503") && strstr(text, "Retry-After"), "%s", text);
    cr_assert(read(polling, text, sizeof text - 1) > 0);
    cr_assert(strstr(text, "HTTP/1.1 503"), "%s", text);
    cr_assert_eq(f.jobs.forgotten, 3);
    close(waiting);
    close(stream);
    close(polling);
}

Test(http, routes_are_found_and_cut)
{
    const char *part[MG_MAX_PARTS] = {0};
    char allow[128], path[] = "/jobs/abc/plans/best/timeline", wrong[] = "/jobs/abc", none[] = "/jobs//cancel",
                     file[] = "/ui/a/b.js";
    const struct mg_route *route = mg_route_find("GET", path, part, allow, sizeof allow);
    cr_assert(route && !strcmp(route->pattern, "/jobs/{id}/plans/{plan}/timeline"));
    cr_assert_str_eq(part[0], "abc");
    cr_assert_str_eq(part[1], "best");
    cr_assert_null(mg_route_find("POST", wrong, part, allow, sizeof allow));
    cr_assert_str_eq(allow, "GET, HEAD, PATCH, DELETE, OPTIONS");
    cr_assert_null(mg_route_find("POST", none, part, allow, sizeof allow));
    cr_assert_str_eq(allow, "");
    route = mg_route_find("GET", file, part, allow, sizeof allow);
    cr_assert(route);
    cr_assert_str_eq(part[0], "a/b.js");
}

Test(http, log_lines_are_escaped_and_bounded)
{
    struct mg_log_line line;
    static char large[8000];
    memset(large, '"', sizeof large - 1);
    mg_log_begin(&line, MG_LOG_WARN, "x");
    mg_log_string(&line, "text", "a\"b\\c\n\x1b[31m\xff");
    mg_log_string(&line, "large", large);
    mg_log_int(&line, "n", -5);
    mg_log_ms(&line, "ms", 1.5);
    line.text[line.size] = 0;
    cr_assert(strstr(line.text, ",\"text\":\"a\\\"b\\\\c\\u000a\\u001b[31m\\u00ff\""), "%s", line.text);
    cr_assert(!strstr(line.text, "large"));
    cr_assert(strstr(line.text, ",\"n\":-5,\"ms\":1.500"));
}
