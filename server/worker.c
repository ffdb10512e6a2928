/* Lines come in pieces; each complete one becomes an event. The process has ended for us when its
 * exit was seen and both pipes have run dry. */
#include "server/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "server/file.h"
#include "server/spawn.h"

enum { STDERR_TAIL = 2000, MAX_BLOB = 64 << 20, MAX_IDS = 256 };

struct mg_worker {
    mg_worker_cb event;
    void *context;
    uv_process_t process;
    uv_pipe_t out, err;
    uv_timer_t grace;
    int spool;
    char line[MG_WORKER_LINE + 1];
    size_t line_size;
    char read_room[1 << 14];
    char errors[STDERR_TAIL + 1];
    size_t errors_size;
    unsigned pending; /* exit, stdout, stderr */
    unsigned open_handles;
    bool ended, protocol_error;
    bool attempted, spawned; /* uv_spawn was called, and went well */
    bool gone;               /* its process id may be another's */
    int64_t exit_status;
    int signal;
};

/* ---- control lines ---- */

static void protocol_error(mg_worker *worker)
{
    if (!worker->protocol_error)
        mg_worker_kill(worker);
    worker->protocol_error = true;
}

static uint64_t get_uint(const json_t *line, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(line, key));
    return value > 0 ? (uint64_t)value : 0;
}

static double get_number(const json_t *line, const char *key)
{
    return json_number_value(json_object_get(line, key));
}

static const char *get_text(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

void *mg_worker_read(mg_worker *worker, const struct mg_spooled *where)
{
    void *blob = where->length && where->length <= MAX_BLOB ? malloc(where->length) : NULL;
    if (!blob)
        return NULL;
    ssize_t got = pread(worker->spool, blob, where->length, (off_t)where->offset);
    if (got == (ssize_t)where->length && crc32(0, blob, (uInt)where->length) == where->crc)
        return blob;
    free(blob);
    return NULL;
}

static bool tell_point(mg_worker *worker, const json_t *line, bool original)
{
    struct mg_worker_event event = {.kind = MG_WORKER_POINT, .original = original, .series = get_text(line, "series")};
    const char *id = get_text(line, "plan");
    if (!id || strlen(id) != 16)
        return false;
    memcpy(event.point.id, id, 17);
    event.point.latency_s = get_number(line, "latency_s");
    event.point.peak_bytes = get_uint(line, "peak_bytes");
    event.point.arena_bytes = get_uint(line, "arena_bytes");
    event.point.host_bytes = get_uint(line, "host_bytes");
    event.point.techniques = (uint32_t)get_uint(line, "techniques");
    event.point.measured_share = get_number(line, "measured_share");
    event.spooled = (struct mg_spooled){get_uint(line, "offset"), get_uint(line, "length"), get_uint(line, "crc")};
    void *blob = mg_worker_read(worker, &event.spooled);
    if (!blob)
        return false;
    event.blob = blob;
    event.blob_size = event.spooled.length;
    worker->event(worker->context, &event);
    free(blob);
    return true;
}

static bool tell_front(mg_worker *worker, const json_t *line)
{
    char ids[MAX_IDS][17];
    struct mg_worker_event event = {.kind = MG_WORKER_FRONT, .ids = ids};
    const json_t *list = json_object_get(line, "ids");
    event.final = json_is_true(json_object_get(line, "final"));
    if (json_array_size(list) > MAX_IDS)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *id = json_string_value(json_array_get(list, i));
        if (!id || strlen(id) != 16)
            return false;
        memcpy(ids[event.id_count++], id, 17);
    }
    worker->event(worker->context, &event);
    return true;
}

static bool tell_progress(mg_worker *worker, const json_t *line)
{
    struct mg_worker_event event = {.kind = MG_WORKER_PROGRESS,
                                    .evaluations = get_uint(line, "evaluations"),
                                    .elapsed_s = get_number(line, "elapsed_s"),
                                    .fraction = get_number(line, "fraction")};
    event.point.latency_s = get_number(line, "latency_s");
    event.point.peak_bytes = get_uint(line, "peak_bytes");
    worker->event(worker->context, &event);
    return true;
}

static bool tell_end(mg_worker *worker, const json_t *line)
{
    struct mg_worker_event event = {.kind = MG_WORKER_END,
                                    .outcome = get_text(line, "outcome"),
                                    .stopped_by = get_text(line, "stopped_by"),
                                    .lower_bound_operator = get_text(line, "lower_bound_operator"),
                                    .lower_bound_bytes = get_uint(line, "lower_bound_bytes"),
                                    .evaluations = get_uint(line, "evaluations"),
                                    .accepted = get_uint(line, "accepted"),
                                    .restored = get_uint(line, "restored"),
                                    .rejected = get_uint(line, "rejected"),
                                    .operators = get_uint(line, "operators"),
                                    .elapsed_s = get_number(line, "elapsed_s")};
    const json_t *prices = json_object_get(line, "prices");
    for (size_t i = 0; i < 4; i++)
        event.prices[i] = json_number_value(json_array_get(prices, i));
    if (!event.outcome || !event.stopped_by)
        return false;
    worker->ended = true;
    worker->event(worker->context, &event);
    return true;
}

static bool tell_words(mg_worker *worker, const json_t *line, enum mg_worker_event_kind kind)
{
    struct mg_worker_event event = {.kind = kind,
                                    .name = get_text(line, "name"),
                                    .reason = get_text(line, "reason"),
                                    .code = get_text(line, "code"),
                                    .pointer = get_text(line, "pointer"),
                                    .message = get_text(line, "message")};
    if (kind == MG_WORKER_BASELINE ? !event.name : !event.code || !event.message)
        return false;
    worker->ended |= kind == MG_WORKER_ERROR;
    worker->event(worker->context, &event);
    return true;
}

static bool tell(mg_worker *worker, const json_t *line)
{
    const char *type = get_text(line, "t");
    if (!type || worker->ended)
        return false;
    if (strcmp(type, "point") == 0 || strcmp(type, "original") == 0)
        return tell_point(worker, line, *type == 'o');
    if (strcmp(type, "front") == 0)
        return tell_front(worker, line);
    if (strcmp(type, "progress") == 0)
        return tell_progress(worker, line);
    if (strcmp(type, "alive") == 0) {
        worker->event(worker->context, &(struct mg_worker_event){.kind = MG_WORKER_ALIVE});
        return true;
    }
    if (strcmp(type, "baseline") == 0)
        return tell_words(worker, line, MG_WORKER_BASELINE);
    if (strcmp(type, "rejected") == 0)
        return tell_words(worker, line, MG_WORKER_REJECTED);
    if (strcmp(type, "error") == 0)
        return tell_words(worker, line, MG_WORKER_ERROR);
    return strcmp(type, "end") == 0 && tell_end(worker, line);
}

static void on_line(mg_worker *worker)
{
    json_t *line = json_loadb(worker->line, worker->line_size, 0, NULL);
    if (!line || !tell(worker, line))
        protocol_error(worker);
    json_decref(line);
    worker->line_size = 0;
}

static void take_output(mg_worker *worker, const char *data, size_t size)
{
    for (size_t i = 0; i < size && !worker->protocol_error; i++) {
        if (data[i] == '\n')
            on_line(worker);
        else if (worker->line_size < MG_WORKER_LINE)
            worker->line[worker->line_size++] = data[i];
        else
            protocol_error(worker);
    }
}

static void take_errors(mg_worker *worker, const char *data, size_t size)
{
    if (size > STDERR_TAIL) {
        data += size - STDERR_TAIL;
        size = STDERR_TAIL;
    }
    size_t over = worker->errors_size + size > STDERR_TAIL ? worker->errors_size + size - STDERR_TAIL : 0;
    memmove(worker->errors, worker->errors + over, worker->errors_size - over);
    worker->errors_size -= over;
    memcpy(worker->errors + worker->errors_size, data, size);
    worker->errors_size += size;
    worker->errors[worker->errors_size] = '\0';
}

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle)
{
    mg_worker *worker = handle->data;
    if (--worker->open_handles > 0)
        return;
    if (worker->spawned) { /* the spool can still be read */
        struct mg_worker_event event = {.kind = MG_WORKER_EXIT,
                                        .exit_status = (int)worker->exit_status,
                                        .signal = worker->signal,
                                        .ended = worker->ended,
                                        .protocol_error = worker->protocol_error,
                                        .errors = worker->errors};
        worker->event(worker->context, &event);
    }
    if (worker->spool >= 0)
        close(worker->spool);
    free(worker);
}

static void close_all(mg_worker *worker)
{
    if (worker->attempted)
        uv_close((uv_handle_t *)&worker->process, on_closed);
    else
        worker->open_handles--;
    uv_close((uv_handle_t *)&worker->out, on_closed);
    uv_close((uv_handle_t *)&worker->err, on_closed);
    uv_close((uv_handle_t *)&worker->grace, on_closed);
}

static void one_less(mg_worker *worker)
{
    if (--worker->pending == 0)
        close_all(worker);
}

static void on_ended(uv_process_t *process, int64_t status, int number)
{
    mg_worker *worker = process->data;
    worker->gone = true;
    worker->exit_status = status;
    worker->signal = number;
    one_less(worker);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    mg_worker *worker = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(worker->read_room, sizeof worker->read_room);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    mg_worker *worker = stream->data;
    if (size > 0 && stream == (uv_stream_t *)&worker->out) {
        take_output(worker, buffer->base, (size_t)size);
    } else if (size > 0) {
        take_errors(worker, buffer->base, (size_t)size);
    } else if (size < 0) {
        uv_read_stop(stream);
        one_less(worker);
    }
}

static void on_grace_over(uv_timer_t *timer)
{
    mg_worker_kill(timer->data);
}

void mg_worker_kill(mg_worker *worker)
{
    if (!worker->gone)
        uv_process_kill(&worker->process, SIGKILL);
}

void mg_worker_stop(mg_worker *worker, unsigned grace_ms)
{
    if (!worker->gone)
        uv_process_kill(&worker->process, SIGTERM);
    uv_timer_start(&worker->grace, on_grace_over, grace_ms, 0);
}

/* ---- the start ---- */

static bool write_starts(int fd, const struct mg_worker_config *config)
{
    for (size_t i = 0; i < config->start_count; i++) {
        uint64_t size = config->starts[i].size;
        if (!mg_write_all(fd, &size, sizeof size) || !mg_write_all(fd, config->starts[i].data, size))
            return false;
    }
    return true;
}

/* A descriptor or -errno. */
static int make_input(const struct mg_worker_config *config)
{
    struct mg_worker_head head = {.magic = "MGWORK1",
                                  .request_size = config->request_size,
                                  .graph_size = config->graph_size,
                                  .start_count = config->start_count,
                                  .seconds = config->seconds};
    int fd = mg_memfd("job");
    if (fd < 0)
        return -errno;
    if (mg_write_all(fd, &head, sizeof head) && mg_write_all(fd, config->request, config->request_size) &&
        mg_write_all(fd, config->graph, config->graph_size) && write_starts(fd, config) && mg_memfd_seal(fd))
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

static void init_handles(mg_worker *worker, uv_loop_t *loop)
{
    uv_pipe_init(loop, &worker->out, 0);
    uv_pipe_init(loop, &worker->err, 0);
    uv_timer_init(loop, &worker->grace);
    worker->process.data = worker->out.data = worker->err.data = worker->grace.data = worker;
    worker->open_handles = 4;
    worker->pending = 3;
}

static int spawn_worker(mg_worker *worker, const struct mg_worker_config *config, int input, int timings)
{
    char parent[24], memory[24], spool[24];
    const char *arguments[] = {"worker", parent, memory, spool, NULL};
    const int fds[] = {input, worker->spool, timings};
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)config->memory_bytes);
    snprintf(spool, sizeof spool, "%llu", (unsigned long long)config->spool_bytes);
    const struct mg_spawn what = {.loop = config->loop,
                                  .executable = config->executable,
                                  .arguments = arguments,
                                  .out = &worker->out,
                                  .err = &worker->err,
                                  .fds = fds,
                                  .fd_count = 3,
                                  .exited = on_ended};
    return mg_spawn(&worker->process, &what);
}

/* 0, or a negative error that `why` tells with what it befell. */
static int begin(mg_worker *worker, const struct mg_worker_config *config, char *why)
{
    const char *dir = "", *what = "the job for the worker";
    int input = make_input(config), status = input;
    int timings = config->timings_fd >= 0 ? config->timings_fd : mg_memfd("no-timings");
    if (status >= 0 && timings < 0)
        status = -errno;
    if (status >= 0) {
        dir = config->data_dir;
        what = "/spool";
        status = worker->spool = mg_spool_open(config->data_dir);
    }
    if (status >= 0) {
        dir = "";
        what = config->executable;
        worker->attempted = true;
        status = spawn_worker(worker, config, input, timings);
    }
    if (status < 0)
        snprintf(why, MG_WORKER_WHY, "%s%s: %s", dir, what, uv_strerror(status));
    if (input >= 0)
        close(input);
    if (timings >= 0 && timings != config->timings_fd)
        close(timings);
    return status;
}

mg_worker *mg_worker_start(const struct mg_worker_config *config, mg_worker_cb event, void *context,
                           char why[static MG_WORKER_WHY])
{
    mg_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        abort();
    worker->event = event;
    worker->context = context;
    worker->spool = -1;
    init_handles(worker, config->loop);
    worker->spawned = begin(worker, config, why) == 0;
    if (!worker->spawned) {
        close_all(worker);
        return NULL;
    }
    uv_read_start((uv_stream_t *)&worker->out, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&worker->err, on_alloc, on_read);
    return worker;
}
