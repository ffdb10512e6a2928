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

/* GET: the body, malloc'ed; NULL: *why (malloc'ed) says what the daemon said, *status is 0 where it said nothing. */
char *mg_agent_fetch(const struct mg_agent *a, const char *path, size_t *size, int *status, char **why);
/* POST until it is answered. False: refused, or the time is over. Takes `root`; *answer may be freed by json_decref. */
bool mg_agent_post(const struct mg_agent *a, const char *path, json_t *root, json_t **answer);

/* ---- agent_plan.c ---- */
/* Claims, executes and answers one plan. False: the daemon refuses us. *worked: there was one. */
bool mg_agent_plan(struct mg_agent *a, bool *worked);

#endif
