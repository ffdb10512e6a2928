/* What the parts of `magisd agent` share. */
#ifndef MG_SERVER_AGENT_H
#define MG_SERVER_AGENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "measure/measure.h"

struct mg_agent {
    const char *server, *token, *device;
    char name[128], host[128], version[32];
    char *class_key;
    char backend[16], uuid[64];
    bool once;
    double stop_at, duty; /* monotonic, 0: never; percent */
    int from_hour, to_hour;
    double best_canary, told_at;
    unsigned long measured, discarded, plans;
    unsigned bad_batches; /* in a row */
};

/* Told to stop, or the time is over. */
bool mg_agent_over(const struct mg_agent *a);
bool mg_agent_open(const struct mg_agent *a, struct mg_engine **engine);
/* Seconds of the canary kernel; 0: it cannot be timed. Keeps the best. */
double mg_agent_canary(struct mg_agent *a, struct mg_engine *engine);
bool mg_agent_is_slow(const struct mg_agent *a, double canary_s);

/* GET and POST are tried again until they are answered. They return the status, 0 where the time is over before.
 * *text (malloc'ed) is the body of a 200, else what the daemon said. */
int mg_agent_fetch(const struct mg_agent *a, const char *path, char **text, size_t *size);
/* Takes `root`; *answer, NULL unless 200, may be freed by json_decref. */
int mg_agent_ask(const struct mg_agent *a, const char *path, json_t *root, json_t **answer);
/* The same. False: refused, or the time is over. */
bool mg_agent_post(const struct mg_agent *a, const char *path, json_t *root, json_t **answer);

/* ---- agent_plan.c ---- */
/* Claims, executes and answers one plan. False: the daemon refuses us. *worked: there was one. */
bool mg_agent_plan(struct mg_agent *a, bool *worked);

#endif
