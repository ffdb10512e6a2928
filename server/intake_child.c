/* Intake's children, each with at most one question. A child that dies takes its question with it, unless it was killed
 * from outside (SIGKILL): then the question is asked once more. Children are replaced at once, or after a pause when
 * they die young. The body that a child died of is kept. */
#include "export/export.h"
#include "server/intake_priv.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/file.h"
#include "server/spawn.h"

enum { MAX_META = 4 << 20, PATIENCE_MS = 60000, YOUNG_MS = 1000, PAUSE_MS = 300 };

static void say(const mg_intake *intake, const char *level, const char *event, const char *detail)
{
    if (intake->config.log)
        intake->config.log(intake->config.log_context, level, event, detail);
}

/* ---- answers ---- */

/* Problems travel by name; replies want one of our own constants. */
static const char *known_problem(const char *name)
{
    static const char *const names[] = {"invalid-json", "invalid-request", "invalid-graph",   "unsupported",
                                        "too-large",    "too-costly",      "too-much-memory", "bad-encoding",
                                        "internal",     "class-wanted"};
    for (size_t i = 0; name && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return names[i];
    return "internal";
}

static void read_problem(struct mg_reply *reply, const char *meta, size_t size)
{
    json_t *root = json_loadb(meta, size, 0, NULL);
    const char *problem = NULL, *pointer = "", *detail = "intake gave no reason";
    json_unpack(root, "{s?s, s?s, s?s}", "problem", &problem, "pointer", &pointer, "detail", &detail);
    mg_reply_fail(reply, known_problem(problem), pointer, "%s", detail);
    json_decref(root);
}

/* Of what is drawn or written down on demand; the rest is JSON. */
static void set_media_type(struct mg_reply *reply, const struct mg_ask *ask)
{
    bool rendered = ask->question.kind == MG_INTAKE_PLAN || ask->question.kind == MG_INTAKE_GRAPH;
    for (unsigned i = 0; i < MG_EXPORT_COUNT && rendered; i++) {
        char quoted[32];
        snprintf(quoted, sizeof quoted, "\"%s\"", mg_export_name((enum mg_export_format)i));
        if (i != MG_EXPORT_JSON && strstr(ask->question.args, quoted))
            reply->media_type = mg_export_media_type((enum mg_export_format)i);
    }
}

static void read_answer(struct mg_ask *ask, const struct mg_wire_answer *answer, struct mg_reply *reply)
{
    char *meta = answer->meta_size <= MAX_META ? malloc(answer->meta_size + 1) : NULL;
    ssize_t got = meta ? pread(ask->out, meta, answer->meta_size, (off_t)answer->body_size) : -1;
    mg_reply_init(reply);
    if (got < 0 || (uint64_t)got != answer->meta_size) {
        mg_reply_fail(reply, "internal", "", "the answer of intake cannot be read");
        free(meta);
        return;
    }
    meta[got] = '\0';
    if (answer->failed) {
        read_problem(reply, meta, (size_t)got);
        free(meta);
        return;
    }
    reply->members = meta;
    reply->body_fd = ask->out;
    reply->body_size = answer->body_size;
    ask->out = -1;
    set_media_type(reply, ask);
}

/* True if an answer was taken from the child's socket. */
static bool take_answer(struct mg_intake_child *child)
{
    struct mg_wire_answer answer;
    ssize_t got = recv(child->socket, &answer, sizeof answer, MSG_DONTWAIT);
    struct mg_ask *ask = child->current;
    if (got != (ssize_t)sizeof answer || !ask || answer.id != ask->question.id)
        return false;
    struct mg_reply reply;
    child->current = NULL;
    uv_timer_stop(&child->timer);
    read_answer(ask, &answer, &reply);
    if (reply.problem && strcmp(reply.problem, "class-wanted") == 0) {
        mg_intake_look_up(child->intake, ask, reply.detail);
        mg_reply_release(&reply);
    } else {
        mg_intake_conclude(child->intake, ask, &reply);
    }
    return true;
}

/* ---- crashes ---- */

struct keep {
    uv_work_t work;
    int fd;
    char path[4096];
};

static void keep_body(uv_work_t *work)
{
    struct keep *keep = work->data;
    char buffer[1 << 16];
    off_t at = 0;
    ssize_t got;
    int out = open(keep->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    while (out >= 0 && (got = pread(keep->fd, buffer, sizeof buffer, at)) > 0) {
        if (!mg_write_all(out, buffer, (size_t)got))
            break;
        at += got;
    }
    if (out >= 0)
        close(out);
    close(keep->fd);
}

static void kept_body(uv_work_t *work, int status)
{
    (void)status;
    free(work->data);
}

static void save_body(mg_intake *intake, const struct mg_ask *ask)
{
    struct keep *keep = intake->data_dir && ask->in >= 0 ? calloc(1, sizeof *keep) : NULL;
    if (!keep)
        return;
    keep->work.data = keep;
    keep->fd = fcntl(ask->in, F_DUPFD_CLOEXEC, 3);
    snprintf(keep->path, sizeof keep->path, "%s/crash", intake->data_dir);
    mkdir(keep->path, 0700);
    snprintf(keep->path, sizeof keep->path, "%s/crash/%lld-%llu.%s", intake->data_dir, (long long)time(NULL),
             (unsigned long long)ask->question.id, ask->question.gzip ? "gz" : "body");
    say(intake, "error", "intake-crash-body", keep->path);
    if (keep->fd < 0 || uv_queue_work(intake->config.loop, &keep->work, keep_body, kept_body) != 0)
        free(keep);
}

static void blame(mg_intake *intake, struct mg_ask *ask, int number)
{
    if (intake->closing) {
        mg_intake_conclude_problem(intake, ask, "draining", "the daemon is stopping");
    } else if (number == SIGKILL && !ask->asked_again) {
        ask->asked_again = true;
        mg_intake_put_back(intake, ask);
    } else if (number == SIGXCPU) {
        mg_intake_conclude_problem(intake, ask, "too-costly",
                                   "reading the body took more processor time than is allowed");
    } else {
        save_body(intake, ask);
        mg_intake_conclude_problem(intake, ask, "parser-failed", "the process that read the body died");
    }
}

/* ---- children ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct mg_intake_child *child = handle->data;
    mg_intake *intake = child->intake;
    if (--intake->open_handles > 0 || !intake->closing)
        return;
    void (*closed)(void *context) = intake->closed;
    void *context = intake->closed_context;
    free(intake->executable);
    free(intake->data_dir);
    free(intake);
    closed(context);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct mg_intake_child *child = handle->data;
    close(child->socket);
    child->socket = -1;
    on_handle_closed(handle);
}

static void close_poll(struct mg_intake_child *child)
{
    if (!child->poll_open)
        return;
    child->poll_open = false;
    uv_poll_stop(&child->poll);
    uv_close((uv_handle_t *)&child->poll, on_poll_closed);
}

static void start_child(struct mg_intake_child *child);

static void on_pause_over(uv_timer_t *timer)
{
    start_child(timer->data);
}

static void on_process_closed(uv_handle_t *handle)
{
    struct mg_intake_child *child = handle->data;
    mg_intake *intake = child->intake;
    bool young = uv_now(intake->config.loop) - child->born < YOUNG_MS;
    if (!intake->closing)
        uv_timer_start(&child->timer, on_pause_over, young ? PAUSE_MS : 1, 0);
    on_handle_closed(handle);
}

static void on_ended(uv_process_t *process, int64_t status, int number)
{
    struct mg_intake_child *child = process->data;
    mg_intake *intake = child->intake;
    char text[128];
    while (take_answer(child))
        ;
    child->alive = false;
    uv_timer_stop(&child->timer);
    if (!intake->closing) {
        intake->deaths++;
        snprintf(text, sizeof text, "process %d ended with status %lld, signal %d", process->pid, (long long)status,
                 number);
        say(intake, "error", "intake-died", text);
    }
    struct mg_ask *ask = child->current;
    child->current = NULL;
    if (ask)
        blame(intake, ask, number);
    close_poll(child);
    uv_close((uv_handle_t *)process, on_process_closed);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct mg_intake_child *child = poll->data;
    (void)events;
    if (status == 0 && take_answer(child)) {
        mg_intake_dispatch(child->intake);
        return;
    }
    uv_poll_stop(poll); /* the child is going: its exit follows */
}

static void on_impatience(uv_timer_t *timer)
{
    struct mg_intake_child *child = timer->data;
    if (child->alive)
        uv_process_kill(&child->process, SIGXCPU);
}

static int spawn_child(struct mg_intake_child *child, int theirs)
{
    mg_intake *intake = child->intake;
    char parent[24], memory[24], seconds[24], devices[4096] = "";
    const char *arguments[] = {"intake", parent, memory, seconds, devices, NULL};
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)intake->config.memory_bytes);
    snprintf(seconds, sizeof seconds, "%u", intake->config.cpu_seconds);
    if (intake->data_dir)
        snprintf(devices, sizeof devices, "%s/devices", intake->data_dir);
    const struct mg_spawn what = {.loop = intake->config.loop,
                                  .executable = intake->executable,
                                  .arguments = arguments,
                                  .fds = &theirs,
                                  .fd_count = 1,
                                  .exited = on_ended};
    return mg_spawn(&child->process, &what);
}

static void open_poll(struct mg_intake_child *child, int ours)
{
    child->socket = ours;
    child->poll_open = uv_poll_init(child->intake->config.loop, &child->poll, ours) == 0;
    child->poll.data = child;
    if (child->poll_open) {
        child->intake->open_handles++;
        uv_poll_start(&child->poll, UV_READABLE, on_readable);
    }
}

static void start_child(struct mg_intake_child *child)
{
    mg_intake *intake = child->intake;
    int ends[2] = {-1, -1}, room = 1 << 18;
    child->born = uv_now(intake->config.loop);
    child->process.data = child;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        uv_timer_start(&child->timer, on_pause_over, PAUSE_MS, 0);
        return;
    }
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    int status = spawn_child(child, ends[1]);
    close(ends[1]);
    intake->open_handles++;
    if (status != 0) {
        say(intake, "error", "intake-start", uv_strerror(status));
        close(ends[0]);
        uv_close((uv_handle_t *)&child->process, on_process_closed);
        return;
    }
    child->alive = true;
    open_poll(child, ends[0]);
    mg_intake_dispatch(intake);
}

bool mg_intake_child_ask(struct mg_intake_child *child, struct mg_ask *ask)
{
    int fds[2] = {ask->in, ask->out};
    if (!child->alive || child->current || !child->poll_open || !mg_wire_ask(child->socket, &ask->question, fds))
        return false;
    child->current = ask;
    uv_timer_start(&child->timer, on_impatience, PATIENCE_MS, 0);
    return true;
}

void mg_intake_child_open(mg_intake *intake, struct mg_intake_child *child)
{
    child->intake = intake;
    child->socket = -1;
    uv_timer_init(intake->config.loop, &child->timer);
    child->timer.data = child;
    intake->open_handles++;
    start_child(child);
}

void mg_intake_child_close(struct mg_intake_child *child)
{
    uv_timer_stop(&child->timer);
    uv_close((uv_handle_t *)&child->timer, on_handle_closed);
    if (child->alive)
        uv_process_kill(&child->process, SIGKILL);
}
