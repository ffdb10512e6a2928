#include "server/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"

void mg_reply_init(struct mg_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    reply->status = 200;
    reply->media_type = "application/json";
    reply->body_fd = -1;
}

void mg_reply_release(struct mg_reply *reply)
{
    free(reply->members);
    free(reply->body);
    free(reply->filename);
    if (reply->body_fd >= 0)
        close(reply->body_fd);
    mg_reply_init(reply);
}

void mg_reply_fail(struct mg_reply *reply, const char *problem, const char *pointer, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    reply->problem = problem;
    snprintf(reply->pointer, sizeof reply->pointer, "%s", pointer ? pointer : "");
    vsnprintf(reply->detail, sizeof reply->detail, fmt, args);
    va_end(args);
}

void mg_reply_write(struct mg_reply *reply, struct mg_writer *w)
{
    mg_reply_init(reply);
    if (mg_writer_finish(w)) {
        reply->body = w->data;
        reply->body_size = w->size;
        w->data = NULL;
    } else {
        mg_reply_fail(reply, "internal", "", "out of memory");
    }
    mg_writer_release(w);
}
