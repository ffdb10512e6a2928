/* Intake, seen from the daemon: child processes that parse, validate, normalise and hash what is
 * posted, and render what GETs ask for. The daemon itself parses no graph and no plan.
 *
 * Bodies and results travel as memfds beside small datagrams on a socketpair, one request at a
 * time in each child, under limits of memory and processor time. A child that dies on a body costs
 * that request "parser-failed" (the body is kept under DIR/crash) and is replaced. */
#ifndef MG_SERVER_INTAKE_H
#define MG_SERVER_INTAKE_H

#include <uv.h>

#include "server/reply.h"

enum mg_intake_kind {
    MG_INTAKE_SUBMIT,   /* body: a request document; result: see mg_intake_result */
    MG_INTAKE_ESTIMATE, /* body: a request document; result: JSON, what POST /estimate answers */
    MG_INTAKE_PLAN,     /* body: request + graph + plan blob; result: the plan, args.format json or dot */
    MG_INTAKE_TIMELINE, /* body: the same; result: JSON, memory over time by kind */
    MG_INTAKE_FORMATS,  /* body: the same; result: JSON, the formats in which the plan is to be had */
    MG_INTAKE_GRAPH,    /* body: request + graph; result: the graph, args.format json or dot */
    MG_INTAKE_TIMINGS,  /* body: timings, args.lines 1: as lines; result: mg_timing_pack_batches() */
    MG_INTAKE_WANTS,    /* body: request + graph; result: mg_timing_pack_wants() */
    MG_INTAKE_REPRICE,  /* body: request + graph + a pack (reprice.h); args: its head; result: JSON */
};

/* A plan's or graph's parts as the store keeps them; empty ones have size 0. */
struct mg_intake_part {
    const void *data;
    size_t size;
};
enum { MG_INTAKE_PARTS = 3 };

struct mg_intake_question {
    enum mg_intake_kind kind;
    int body_fd; /* the posted body (taken over), or -1 */
    size_t body_size;
    bool gzip;                                   /* Content-Encoding of the body */
    const char *args;                            /* a small JSON object, or NULL */
    struct mg_intake_part part[MG_INTAKE_PARTS]; /* copied at once */
};

struct mg_intake_config {
    uv_loop_t *loop;
    const char *executable; /* of magisd itself */
    const char *data_dir;   /* DIR; crash/ lies in it. NULL: bodies are not kept */
    unsigned processes;
    uint64_t memory_bytes;
    unsigned cpu_seconds;
    size_t max_body;   /* after decoding */
    size_t max_queued; /* questions waiting; beyond that "queue-full" */
    /* A request names a class of devices: mg_intake_class_found() is to be called, not from within. NULL: there are
     * none. */
    void (*find_class)(void *context, const char *class_id, mg_ticket ticket);
    void *class_context;
    void (*log)(void *context, const char *level, const char *event, const char *detail);
    void *log_context;
};

struct mg_intake_stats {
    unsigned alive, busy;
    size_t queued;
    uint64_t answered, failed, deaths;
};

typedef struct mg_intake mg_intake;

/* 0, or a negative libuv error. */
int mg_intake_open(mg_intake **out, const struct mg_intake_config *config);
mg_ticket mg_intake_ask(mg_intake *intake, const struct mg_intake_question *question, mg_reply_cb done, void *context);
void mg_intake_forget(mg_intake *intake, mg_ticket ticket);
/* The name of the class's device; NULL: there is no such class, or the store had the problem (or NULL). Nothing happens
 * where the question is gone. */
void mg_intake_class_found(mg_intake *intake, mg_ticket ticket, const char *model, const char *problem);
void mg_intake_stats(const mg_intake *intake, struct mg_intake_stats *out);
/* Unanswered questions end as "draining"; `closed` is called when the children are gone. */
void mg_intake_close(mg_intake *intake, void (*closed)(void *context), void *context);

#endif
