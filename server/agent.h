/* What the parts of `magisd agent` share. */
#ifndef MG_SERVER_AGENT_H
#define MG_SERVER_AGENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "device/signature.h"
#include "server/batch.h"

/* Of the device memory that is free, what an agent may use: others live there too. */
#define MG_AGENT_MEMORY 0.25

/* What an agent is at, in memory that it shares with the process that watches it: who goes on after it knows which
 * operator or plan it was that ended it, or made the device fail for good. */
struct mg_agent_note {
    char op[64], signature[MG_SIGNATURE_MAX + 1]; /* "": none */
    int64_t plan;                                 /* its number; 0: none */
    unsigned crashes;                             /* in a row */
    unsigned long measured, discarded, plans;
};

struct mg_agent {
    const char *server, *token, *device, *lock_dir; /* lock_dir: NULL, the common one */
    char name[128], host[128], version[32];
    char *class_key;
    char class_id[40]; /* as the daemon names it */
    char backend[16], uuid[64];
    char place[96]; /* BOOT/DEVICE: stands in for the uuid of a device that has none */
    bool once;
    double stop_at, duty; /* monotonic, 0: never; percent */
    int from_hour, to_hour;
    struct mg_canary canary;
    char who[128];
    double told_at;
    struct mg_agent_note *note;
    unsigned bad_batches, failures, lost; /* in a row; failures: of the device */
    char idle[400];                       /* why there was nothing to do, as it was said last; "" while there is */
    double explained_at;
};

/* What one round of work came to. */
enum mg_agent_turn {
    MG_TURN_WORKED,
    MG_TURN_NOTHING, /* there is nothing to do */
    MG_TURN_LATER,   /* not now: what was done is lost, or the agent had to be made known again */
    MG_TURN_END,     /* the daemon refuses us, the time is over, or the device is gone */
};

/* Told to stop, or the time is over. */
bool mg_agent_over(const struct mg_agent *a);

/* ---- agent_guard.c ---- */
/* Splits the process, before any device is opened. True: this is the one that works, for the first time or after
 * another that was ended by what it measured. False: this is the one that watched them; *code is the exit status of the
 * last. a->note is shared by all: in it each finds what ended the one before. */
bool mg_agent_guard(struct mg_agent *a, int *code);

/* ---- agent_talk.c ---- */
/* In steps, so that a signal or the end of the time is seen; tells meanwhile that the agent lives. */
void mg_agent_rest(struct mg_agent *a, const char *state, double seconds);
/* GET and POST are tried again until they are answered, each pause twice the last. They return the status, 0 where the
 * time is over before. *text (malloc'ed) is the body of a 200, else what the daemon said. */
int mg_agent_fetch(struct mg_agent *a, const char *path, char **text, size_t *size);
int mg_agent_post(struct mg_agent *a, const char *path, const char *type, const char *body, size_t size, char **text);
/* Takes `root`; *answer, NULL unless 200, may be freed by json_decref. */
int mg_agent_ask(struct mg_agent *a, const char *path, json_t *root, json_t **answer);
/* GET, once; NULL where it is not answered. */
json_t *mg_agent_look(const struct mg_agent *a, const char *path);
/* Makes the agent known, or tells that it lives; the status. The canary's best begins with what the daemon knows of
 * this card. */
int mg_agent_tell(struct mg_agent *a, const char *state);
/* The same where the last time is a while ago, once and in a few seconds; true: it was told. */
bool mg_agent_beat(struct mg_agent *a, const char *state);
/* Its name is free from now on. */
void mg_agent_leave(struct mg_agent *a);
/* Asks for work; 200 is MG_TURN_WORKED. A daemon that does not know the agent any more is told of it: MG_TURN_LATER. */
enum mg_agent_turn mg_agent_claim(struct mg_agent *a, const char *path, json_t *root, json_t **answer);

/* ---- agent_idle.c ---- */
/* Says why there is nothing to do, where that has not been said last. */
void mg_agent_say_idle(struct mg_agent *a, const char *reason);
/* ... after finding out, now and then, what the daemon knows of this device. */
void mg_agent_explain_idle(struct mg_agent *a);

/* ---- agent_plan.c ---- */
/* Claims, executes and answers one plan. */
enum mg_agent_turn mg_agent_plan(struct mg_agent *a);

#endif
