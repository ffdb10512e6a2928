/* What `magisd measure` hands to a daemon, --server's or one of our own on --data, while it measures: what was taken is
 * there when the command is ended. Errors are said on stderr. */
#ifndef MG_SERVER_MEASURE_POST_H
#define MG_SERVER_MEASURE_POST_H

#include <stdbool.h>
#include <stddef.h>

#include "server/options.h"
#include "server/own_daemon.h"

struct mg_measure_post {
    const char *server, *token, *name; /* server NULL: nothing is posted; name: what the user calls it */
    struct mg_own_daemon own;
    char *text;            /* batches that were not taken yet */
    size_t size, waiting;  /* bytes, rows */
    double next_at, pause; /* not before then, after an answer that did not come; how long that was */
    long long added, suspect, unjudged;
};

/* Begins with zeros. False: options contradict each other, or the directory cannot be used. */
bool mg_measure_post_open(struct mg_measure_post *post, const struct mg_options *options);
/* Sends a batch's head alone: whether we may is known before anything is measured. */
bool mg_measure_post_ask(struct mg_measure_post *post, const char *head, size_t size);
/* A batch with its rows, which is sent. What a daemon that is away, busy or hanging did not take is kept; it is asked
 * again after a pause, each twice the last, and not waited for longer than a few seconds. False: it refuses. */
bool mg_measure_post_add(struct mg_measure_post *post, const char *batch, size_t size, size_t rows);
/* Sends what is left and says what came of all. */
bool mg_measure_post_end(struct mg_measure_post *post);
void mg_measure_post_release(struct mg_measure_post *post);

#endif
