/* How an asynchronous question to the daemon's parts ends: a problem or an answer.
 *
 * Every call that takes an mg_reply_cb calls it exactly once, later, on the loop's thread, never
 * before the call has returned; unless the ticket is forgotten first. The receiver may take `body`
 * or `body_fd` over (and set them to NULL / -1); what is left is released after the callback. */
#ifndef MG_SERVER_REPLY_H
#define MG_SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mg_reply {
    /* NULL: all is well. Else a name of errors.def: "invalid-json", "invalid-request", "invalid-graph",
     * "unsupported", "unsupported-media", "too-large", "parser-failed", "too-costly", "not-found",
     * "plan-not-found", "plan-replaced", "not-ended", "already-ended", "queue-full", "no-space",
     * "draining", "store-failed", "internal". */
    const char *problem;
    char pointer[256]; /* RFC 6901, or "" */
    char detail[512];
    char *members;          /* further members of the problem document: a JSON object, or NULL */
    unsigned retry_after_s; /* 0: no such header */

    int status; /* 200, 202, 204, 304 when `problem` is NULL */
    const char *media_type;
    char *body; /* malloc'ed, or NULL */
    size_t body_size;
    int body_fd;    /* instead of body: a memfd of body_size bytes from offset 0; else -1 */
    char etag[72];  /* without quotes, or "" */
    bool immutable; /* may be cached for ever */
    char job[16];   /* the job this is about, or "" */
    char *filename; /* suggested name of a download, or NULL */
};
typedef void (*mg_reply_cb)(void *context, struct mg_reply *reply);

/* Names a question that is under way; 0 names none. */
typedef uint64_t mg_ticket;

void mg_reply_init(struct mg_reply *reply);
void mg_reply_release(struct mg_reply *reply);
/* Turns the reply into a problem. */
void mg_reply_fail(struct mg_reply *reply, const char *problem, const char *pointer, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A new reply of what was written, whose text it takes. */
struct mg_writer;
void mg_reply_write(struct mg_reply *reply, struct mg_writer *w);

#endif
