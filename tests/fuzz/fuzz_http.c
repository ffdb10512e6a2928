/* Any bytes on a connection: the HTTP side must answer or close without harm. The job manager behind
 * it knows no job. One server serves all inputs, as the daemon does. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "server/http.h"
#include "server/jobs.h"
#include "zoo/zoo.h"

#define UNUSED __attribute__((unused))

enum { PENDING = 64 };

struct mg_jobs {
    struct {
        mg_ticket ticket;
        mg_reply_cb done;
        mg_event_cb event;
        void *context;
    } pending[PENDING];
    mg_ticket last;
};

static mg_ticket remember_either(mg_jobs *jobs, mg_reply_cb done, mg_event_cb event, void *context)
{
    unsigned slot = 0;
    while (slot < PENDING - 1 && jobs->pending[slot].ticket)
        slot++;
    jobs->pending[slot].ticket = ++jobs->last;
    jobs->pending[slot].done = done;
    jobs->pending[slot].event = event;
    jobs->pending[slot].context = context;
    return jobs->last;
}

static mg_ticket remember(mg_jobs *jobs, mg_reply_cb done, void *context)
{
    return remember_either(jobs, done, NULL, context);
}

void mg_jobs_forget(mg_jobs *jobs, mg_ticket ticket)
{
    for (unsigned k = 0; k < PENDING; k++)
        if (jobs->pending[k].ticket == ticket)
            jobs->pending[k].ticket = 0;
}

static void answer_all(mg_jobs *jobs)
{
    const struct mg_event missing = {.type = "missing", .job = "", .data = "", .last = true};
    for (unsigned k = 0; k < PENDING; k++) {
        struct mg_reply reply;
        if (!jobs->pending[k].ticket)
            continue;
        jobs->pending[k].ticket = 0;
        if (jobs->pending[k].event) {
            jobs->pending[k].event(jobs->pending[k].context, &missing);
            continue;
        }
        mg_reply_init(&reply);
        mg_reply_fail(&reply, "not-found", "", "there is no such job");
        jobs->pending[k].done(jobs->pending[k].context, &reply);
        mg_reply_release(&reply);
    }
}

#define UNKNOWN(name, ...)                                                                                             \
    mg_ticket name(mg_jobs *jobs, __VA_ARGS__, mg_reply_cb done, void *context)                                        \
    {                                                                                                                  \
        return remember(jobs, done, context);                                                                          \
    }
#define TEXT(name) UNUSED const char *name
UNKNOWN(mg_jobs_get, TEXT(id), UNUSED double wait_s)
UNKNOWN(mg_jobs_list, UNUSED const struct mg_job_query *query)
UNKNOWN(mg_jobs_request, TEXT(id))
UNKNOWN(mg_jobs_pareto, TEXT(id))
UNKNOWN(mg_jobs_plan, TEXT(id), TEXT(plan), TEXT(format))
UNKNOWN(mg_jobs_timeline, TEXT(id), TEXT(plan))
UNKNOWN(mg_jobs_formats, TEXT(id), TEXT(plan))
UNKNOWN(mg_jobs_graph, TEXT(id), TEXT(format))
UNKNOWN(mg_jobs_reprice, TEXT(id))
UNKNOWN(mg_jobs_cancel, UNUSED const struct mg_caller *caller, TEXT(id))
UNKNOWN(mg_jobs_retry, UNUSED const struct mg_caller *caller, TEXT(id))
UNKNOWN(mg_jobs_delete, UNUSED const struct mg_caller *caller, TEXT(id))
UNKNOWN(mg_jobs_pin, UNUSED const struct mg_caller *caller, TEXT(id), UNUSED bool pinned)
UNKNOWN(mg_jobs_measure, UNUSED const struct mg_caller *caller, TEXT(id), TEXT(plan), TEXT(device))
UNKNOWN(mg_jobs_measurements, TEXT(id), TEXT(plan))
UNKNOWN(mg_jobs_measure_claim, UNUSED const struct mg_caller *caller, TEXT(agent))
UNKNOWN(mg_jobs_measure_answer, UNUSED const struct mg_caller *caller, TEXT(agent),
        UNUSED const struct mg_measured *answer)
UNKNOWN(mg_jobs_patch, UNUSED const struct mg_caller *caller, TEXT(id), TEXT(json), UNUSED size_t size)

mg_ticket mg_jobs_submit(mg_jobs *jobs, const struct mg_submission *submission, mg_reply_cb done, void *context)
{
    close(submission->body_fd);
    free(submission->form);
    return remember(jobs, done, context);
}
mg_ticket mg_jobs_estimate(mg_jobs *jobs, const struct mg_submission *submission, mg_reply_cb done, void *context)
{
    return mg_jobs_submit(jobs, submission, done, context);
}
mg_ticket mg_jobs_listen(mg_jobs *jobs, UNUSED const char *const *ids, UNUSED size_t count, UNUSED int64_t since,
                         mg_event_cb event, void *context)
{
    return remember_either(jobs, NULL, event, context);
}
void mg_jobs_stats(UNUSED const mg_jobs *jobs, struct mg_jobs_stats *out)
{
    *out = (struct mg_jobs_stats){.claiming = true, .store_ok = true};
}
mg_ticket mg_intake_ask(UNUSED mg_intake *intake, UNUSED const struct mg_intake_question *question,
                        UNUSED mg_reply_cb done, UNUSED void *context)
{
    abort(); /* there is no store here: nothing asks */
}
void mg_intake_stats(UNUSED const mg_intake *intake, struct mg_intake_stats *out)
{
    *out = (struct mg_intake_stats){0};
}
uint32_t mg_zoo_count(void)
{
    return 0;
}
const struct mg_zoo_entry *mg_zoo_at(UNUSED uint32_t index)
{
    return NULL;
}

struct server {
    uv_loop_t loop;
    struct mg_jobs jobs;
    struct mg_http *http;
};

static struct server *open_server(void)
{
    struct server *s = calloc(1, sizeof *s);
    struct mg_error err = {0};
    if (!s || uv_loop_init(&s->loop) != 0)
        abort();
    const struct mg_http_config config = {
        .loop = &s->loop,
        .listen = "127.0.0.1:0",
        .public_url = "https://plans.example/magis",
        .cors_origins = "https://a.example",
        .quiet = true,
        .jobs = &s->jobs,
        .limits = {1 << 16, 1 << 20, 32 << 10, 50, 50, 30, 60, 64 << 10},
    };
    if (mg_http_open(&s->http, &config, &err) != MG_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return s;
}

/* A connection from one of many addresses, or -1. Ports would run out: no TIME_WAIT here, and where the server closes
 * first it is spread over the addresses. */
static int try_to_connect(const struct sockaddr_in *to, uint32_t from)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + from % 128)}};
    const struct linger abrupt = {1, 0};
    const int port_later = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &port_later, sizeof port_later);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        connect(fd, (const struct sockaddr *)to, sizeof *to) == 0)
        return fd;
    close(fd);
    return -1;
}

/* A signal may interrupt, and another program may hold the ports of one address: that is no fault of the server. */
static int connect_to(const struct server *s)
{
    static uint32_t connections;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    address.sin_port = htons((uint16_t)strtol(strrchr(mg_http_address(s->http), ':') + 1, NULL, 10));
    for (int tries = 0; tries < 1000; tries++) {
        int fd = try_to_connect(&address, ++connections);
        if (fd >= 0) {
            fcntl(fd, F_SETFL, O_NONBLOCK);
            return fd;
        }
        usleep(10000);
    }
    perror("connect");
    abort();
}

/* True when the other side has closed. */
static bool turn(struct server *s, int fd)
{
    char sink[16384];
    uv_run(&s->loop, UV_RUN_NOWAIT);
    answer_all(&s->jobs);
    return fd >= 0 && read(fd, sink, sizeof sink) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct server *s;
    if (!s)
        s = open_server();
    int fd = connect_to(s);
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, data + at, size - at, MSG_NOSIGNAL);
        at += sent > 0 ? (size_t)sent : 0;
        if (turn(s, fd))
            break;
    }
    shutdown(fd, SHUT_WR);
    for (int k = 0; k < 8 && !turn(s, fd); k++)
        continue;
    close(fd);
    turn(s, -1);
    return 0;
}
