/* The daemon's life: open store -> intake -> jobs (recover) -> HTTP; on SIGTERM the same backwards:
 * drain jobs, close HTTP, jobs, intake, store. Each step starts from the callback of the one before. */
#include "server/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/intake.h"
#include "server/jobs.h"
#include "server/log.h"
#include "store/store.h"
#include "store/timings.h"

struct daemon {
    struct mg_serve_config config;
    uv_loop_t loop;
    uv_async_t store_ready;
    uv_signal_t term, interrupt, hangup;
    mg_store *store;
    mg_intake *intake;
    mg_jobs *jobs;
    struct mg_http *http;
    char executable[4096];
    unsigned signals;
    int exit_code;
    bool drained;
};

static void log_part(void *context, const char *level, const char *event, const char *detail)
{
    (void)context;
    mg_log(*level == 'e' ? MG_LOG_ERROR : *level == 'w' ? MG_LOG_WARN : MG_LOG_INFO, event, "%s", detail);
}

/* ---- down ---- */

static void close_handles(struct daemon *d)
{
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    uv_close((uv_handle_t *)&d->hangup, NULL);
    uv_close((uv_handle_t *)&d->store_ready, NULL);
}

static void on_intake_closed(void *context)
{
    struct daemon *d = context;
    d->intake = NULL; /* it is freed; what the store still answers finds none */
    mg_store_close(d->store);
    d->store = NULL;
    close_handles(d);
    mg_log(MG_LOG_INFO, "stopped", "%s", d->exit_code == 0 ? "all is stored" : "it could not serve");
}

static void on_http_closed(void *context)
{
    struct daemon *d = context;
    if (d->jobs)
        mg_jobs_close(d->jobs);
    d->jobs = NULL;
    mg_intake_close(d->intake, on_intake_closed, d);
}

static void on_drained(void *context)
{
    struct daemon *d = context;
    d->drained = true;
    if (d->http)
        mg_http_close(d->http, on_http_closed, d);
    else
        on_http_closed(d);
    d->http = NULL;
}

static void stop(struct daemon *d)
{
    if (d->drained)
        return;
    if (d->http)
        mg_http_drain(d->http);
    mg_jobs_drain(d->jobs, on_drained, d);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;
    d->signals++;
    mg_log(MG_LOG_INFO, "stopping", "signal %d, %s", number, d->signals > 1 ? "hurrying" : "draining");
    stop(d);
}

/* ---- up ---- */

static bool write_port_file(const struct daemon *d)
{
    char beside[4096];
    const char *path = d->config.port_file;
    if (!path)
        return true;
    snprintf(beside, sizeof beside, "%s.new", path);
    FILE *file = fopen(beside, "we");
    bool fine = file && fprintf(file, "%s\n", mg_http_address(d->http)) > 0;
    fine = file && fclose(file) == 0 && fine && rename(beside, path) == 0;
    if (!fine)
        fprintf(stderr, "magisd: %s: %s\n", path, strerror(errno));
    return fine;
}

static bool open_http(struct daemon *d)
{
    struct mg_http_config config = d->config.http;
    struct mg_error err = {0};
    config.loop = &d->loop;
    config.jobs = d->jobs;
    config.intake = d->intake;
    config.store = d->store;
    config.data_dir = d->config.data_dir;
    config.only_timings = d->config.only_timings;
    if (mg_http_open(&d->http, &config, &err) != MG_OK) {
        fprintf(stderr, "magisd: %s\n", err.message);
        return false;
    }
    if (!write_port_file(d))
        return false;
    printf("magisd listens on %s%s\n", strncmp(mg_http_address(d->http), "unix:", 5) ? "http://" : "",
           mg_http_address(d->http));
    fflush(stdout);
    mg_log(MG_LOG_INFO, "listening", "%s", mg_http_address(d->http));
    return true;
}

static void on_jobs_ready(void *context, int status)
{
    struct daemon *d = context;
    if (status == 0 && (d->signals || open_http(d)))
        return;
    if (status != 0)
        fprintf(stderr, "magisd: the jobs cannot be read: %s\n", uv_strerror(status));
    d->exit_code = 1;
    stop(d);
}

static void on_store_notify(void *context)
{
    uv_async_send(context);
}

static void on_store_ready(uv_async_t *handle)
{
    struct daemon *d = handle->data;
    if (d->store)
        mg_store_poll(d->store);
}

static bool open_store(struct daemon *d)
{
    char message[512];
    struct mg_store_config config = {.dir = d->config.data_dir,
                                     .leave_mark = d->config.only_timings,
                                     .notify = on_store_notify,
                                     .notify_ctx = &d->store_ready};
    if (mg_store_open(&d->store, &config, message, sizeof message) == MG_STORE_OK)
        return true;
    fprintf(stderr, "magisd: %s: %s\n", d->config.data_dir, message);
    return false;
}

/* ---- device classes: intake asks, the store knows ---- */

struct class_question {
    struct daemon *daemon;
    mg_ticket ticket;
};

static void on_class(void *context, const struct mg_store_result *result)
{
    struct class_question *q = context;
    const struct mg_store_timings *t = result->timings;
    bool found = result->code == MG_STORE_OK && t && t->class.id;
    const char *problem = result->code == MG_STORE_OK         ? NULL
                          : result->code == MG_STORE_FULL     ? "no-space"
                          : result->code == MG_STORE_INTERNAL ? "internal"
                                                              : "store-failed";
    if (problem)
        mg_log(MG_LOG_ERROR, "store", "%s: %s", mg_store_code_name(result->code), result->message);
    if (q->daemon->intake)
        mg_intake_class_found(q->daemon->intake, q->ticket, found ? t->class.model : NULL, problem);
    free(q);
}

static void find_class(void *context, const char *class_id, mg_ticket ticket)
{
    struct class_question *q = malloc(sizeof *q);
    char models[64];
    if (!q)
        abort();
    *q = (struct class_question){context, ticket};
    snprintf(models, sizeof models, "[\"class:%.16s\"]", class_id);
    mg_store_pick_class(q->daemon->store, "", models, on_class, q);
}

static bool open_intake(struct daemon *d)
{
    struct mg_intake_config config = {
        .loop = &d->loop,
        .executable = d->executable,
        .data_dir = d->config.data_dir,
        .processes = d->config.intakes,
        .memory_bytes = d->config.intake_memory_bytes,
        .cpu_seconds = d->config.intake_cpu_seconds,
        .max_body = d->config.http.limits.body_bytes,
        .max_queued = 256,
        .find_class = find_class,
        .class_context = d,
        .log = log_part,
    };
    int status = mg_intake_open(&d->intake, &config);
    if (status != 0)
        fprintf(stderr, "magisd: intake does not start: %s\n", uv_strerror(status));
    return status == 0;
}

static bool open_jobs(struct daemon *d)
{
    struct mg_jobs_config config = {
        .loop = &d->loop,
        .store = d->store,
        .intake = d->intake,
        .executable = d->executable,
        .data_dir = d->config.data_dir,
        .public_url = d->config.http.public_url ? d->config.http.public_url : "",
        .at_rest = d->config.only_timings,
        .workers = d->config.workers,
        .max_seconds = d->config.max_seconds,
        .pause_seconds = d->config.pause_seconds,
        .silence_seconds = d->config.silence_seconds,
        .max_queued = d->config.max_queued,
        .max_queued_per_owner = d->config.max_queued_per_owner,
        .min_free_bytes = d->config.min_free_bytes,
        .keep_days = (unsigned)d->config.keep_days,
        .max_store_bytes = d->config.max_store_bytes,
        .log = log_part,
    };
    int status = mg_jobs_open(&d->jobs, &config, on_jobs_ready, d);
    if (status != 0)
        fprintf(stderr, "magisd: the job manager does not start: %s\n", uv_strerror(status));
    return status == 0;
}

/* A connection, a body and a worker's pipes each take descriptors. */
static void raise_descriptors(const struct daemon *d)
{
    struct rlimit limit;
    rlim_t need = 2 * (rlim_t)d->config.http.limits.connections + 512;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < need)
        mg_log(MG_LOG_WARN, "descriptors", "%llu open files are allowed, %llu may be needed",
               (unsigned long long)limit.rlim_cur, (unsigned long long)need);
}

static void start_handles(struct daemon *d)
{
    struct sigaction hangup;
    uv_async_init(&d->loop, &d->store_ready, on_store_ready);
    uv_signal_init(&d->loop, &d->term);
    uv_signal_init(&d->loop, &d->interrupt);
    uv_signal_init(&d->loop, &d->hangup);
    d->store_ready.data = d->term.data = d->interrupt.data = d->hangup.data = d;
    uv_signal_start(&d->term, on_signal, SIGTERM);
    uv_signal_start(&d->interrupt, on_signal, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN) /* nohup ignores it */
        uv_signal_start(&d->hangup, on_signal, SIGHUP);
}

/* Undoes a start that did not come as far as the job manager. */
static void abandon(struct daemon *d)
{
    d->exit_code = 1;
    if (d->intake)
        mg_intake_close(d->intake, on_intake_closed, d);
    else
        on_intake_closed(d);
}

int mg_serve(const struct mg_serve_config *config)
{
    struct daemon d = {.config = *config};
    ssize_t length = readlink("/proc/self/exe", d.executable, sizeof d.executable - 1);
    if (length <= 0 || uv_loop_init(&d.loop) != 0) {
        fprintf(stderr, "magisd: no event loop, or no /proc\n");
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    raise_descriptors(&d);
    start_handles(&d);
    if (!open_store(&d) || !open_intake(&d) || !open_jobs(&d))
        abandon(&d);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    uv_loop_close(&d.loop);
    return d.exit_code;
}
