/* Control lines (worker.h): a search never waits for its daemon to read them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/worker.h"
#include "server/worker_priv.h"

enum { OUT_ROOM = 1 << 16 };

void mg_worker_flush_some(struct mg_worker_run *run)
{
    while (run->out_size && !run->broken) {
        ssize_t done = write(STDOUT_FILENO, run->out, run->out_size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EAGAIN)
            return;
        if (done <= 0) {
            run->broken = true;
            return;
        }
        run->out_size -= (size_t)done;
        memmove(run->out, run->out + done, run->out_size);
    }
}

void mg_worker_flush(struct mg_worker_run *run)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    fcntl(STDOUT_FILENO, F_SETFL, flags & ~O_NONBLOCK);
    mg_worker_flush_some(run);
}

static void queue(struct mg_worker_run *run, const char *line, size_t size)
{
    if (run->out_size + size > run->out_capacity) {
        size_t capacity = (run->out_size + size) * 2 + OUT_ROOM;
        char *larger = realloc(run->out, capacity);
        if (!larger) {
            run->broken = true;
            return;
        }
        run->out = larger;
        run->out_capacity = capacity;
    }
    memcpy(run->out + run->out_size, line, size);
    run->out_size += size;
}

void mg_worker_begin_line(struct mg_writer *w, const char *type)
{
    mg_writer_init(w);
    mg_write_begin_object(w);
    mg_write_member_string(w, "t", type);
}

void mg_worker_end_line(struct mg_worker_run *run, struct mg_writer *w)
{
    mg_write_end_object(w);
    mg_write_text(w, "\n");
    if (!mg_writer_finish(w) || w->size > MG_WORKER_LINE)
        run->broken = true;
    else
        queue(run, w->data, w->size);
    run->said_at = mg_clock_seconds();
    mg_writer_release(w);
    mg_worker_flush_some(run);
}

/* At most `most` bytes of a text, cut at a character. */
void mg_worker_write_cut(struct mg_writer *w, const char *key, const char *text, size_t most)
{
    char cut[800];
    size_t size = strlen(text) < most ? strlen(text) : most;
    while (size && size < strlen(text) && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
    snprintf(cut, sizeof cut, "%.*s", (int)size, text);
    mg_write_member_string(w, key, cut);
}

void mg_worker_send_error(struct mg_worker_run *run, const char *code, const struct mg_error *err)
{
    struct mg_writer w;
    mg_worker_begin_line(&w, "error");
    mg_write_member_string(&w, "code", code);
    mg_worker_write_cut(&w, "pointer", err->pointer, 255);
    mg_worker_write_cut(&w, "message", err->message, 511);
    mg_worker_end_line(run, &w);
    mg_worker_flush(run);
}

void mg_worker_send_why(struct mg_worker_run *run)
{
    run->broken = false; /* the pipe is not */
    mg_worker_send_error(run, run->why_code, &run->why);
    run->broken = true;
}
