/* What `magisd measure` hands to a daemon, --server's or one of our own on --data, while it measures: what was taken is
 * there when the command is ended. Errors are said on stderr. */
#ifndef MG_SERVER_MEASURE_POST_H
#define MG_SERVER_MEASURE_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "server/options.h"
#include "server/own_daemon.h"

struct mg_measure_post {
    const char *server, *token, *name; /* server NULL: nothing is posted; name: what the user calls it */
    struct mg_own_daemon own;
    char *batch; /* its line, which each piece begins with */
    FILE *rows;  /* not taken yet; into `text` */
    char *text;
    size_t size, waiting; /* bytes, rows */
    double sent_at;
    long long added, suspect, unjudged;
};

/* Begins with zeros. False: options contradict each other, or the directory cannot be used. */
bool mg_measure_post_open(struct mg_measure_post *post, const struct mg_options *options);
/* One line; the first is the batch's, and sent at once: whether we may is known before anything is measured. Rows are
 * sent every few seconds. A daemon that does not answer is asked again then; false: it does not take them. */
bool mg_measure_post_add(struct mg_measure_post *post, const char *line, size_t size);
/* Sends what is left and says what came of all. */
bool mg_measure_post_end(struct mg_measure_post *post);
void mg_measure_post_release(struct mg_measure_post *post);

#endif
