/* A search worker, seen from the daemon: one process for one job.
 *
 * fd 3: a sealed memfd with head, request, packed graph and the packed plans to go on from, each behind its size; fd 4:
 * the spool, an unlinked file to which packed plans are appended; fd 5: the timing snapshot (empty: none); stdout:
 * control lines of at most MG_WORKER_LINE bytes; anything else is a protocol error and ends the job. */
#ifndef MG_SERVER_WORKER_H
#define MG_SERVER_WORKER_H

#include <uv.h>

#include "server/pareto.h"

enum { MG_WORKER_LINE = 4096, MG_WORKER_WHY = 1200, MG_WORKER_IN = 3, MG_WORKER_SPOOL = 4, MG_WORKER_TIMINGS = 5 };

struct mg_worker_head {
    char magic[8]; /* "MGWORK1" */
    uint64_t request_size, graph_size, start_count;
    double seconds; /* what is left of the search time; 0: as the request says */
};

/* Control lines are JSON objects; "t" says what they are:
 * original, point {plan, latency_s, peak_bytes, arena_bytes, host_bytes, techniques, measured_share, offset,
 *   length, crc}
 *   point also: series (a baseline's name) - figures of a baseline; without: a candidate of the front
 * baseline {name, points, reason}: all points of this series have been sent
 * front {ids, final}: the published front from now on; all its points have been sent
 * progress {evaluations, elapsed_s, fraction, latency_s, peak_bytes}
 * alive: nothing else was said for a while
 * rejected {code, message}: the checker refused a plan
 * end {outcome, stopped_by, lower_bound_bytes, lower_bound_operator, evaluations, accepted, rejected,
 *   restored, elapsed_s, prices: [4], operators}
 * error {code, pointer, message}
 *   the code is one of mg_code_name, or: */
#define MG_WORKER_NO_SPOOL "spool"        /* the disk does not take what was found */
#define MG_WORKER_SPOOL_FULL "spool-full" /* it found more than the spool may hold */

enum mg_worker_event_kind {
    MG_WORKER_POINT,
    MG_WORKER_BASELINE,
    MG_WORKER_FRONT,
    MG_WORKER_PROGRESS,
    MG_WORKER_ALIVE,
    MG_WORKER_REJECTED,
    MG_WORKER_END,   /* the last but EXIT when all went well */
    MG_WORKER_ERROR, /* the worker says why it cannot do the job */
    MG_WORKER_EXIT,  /* always the last */
};
struct mg_spooled {
    uint64_t offset, length, crc;
};
struct mg_worker_event {
    enum mg_worker_event_kind kind;
    /* POINT */
    bool original;
    const char *series; /* NULL: the front */
    struct mg_front_point point;
    const void *blob; /* read back from the spool, checked; valid during the call */
    size_t blob_size;
    struct mg_spooled spooled; /* where it lies, for mg_worker_read */
    /* BASELINE */
    const char *name, *reason;
    /* FRONT */
    const char (*ids)[17];
    size_t id_count;
    bool final; /* the search has ended */
    /* PROGRESS, END */
    uint64_t evaluations;
    double elapsed_s, fraction; /* END: no fraction */
    /* END */
    uint64_t accepted, rejected;
    const char *outcome, *stopped_by, *lower_bound_operator;
    uint64_t lower_bound_bytes, restored; /* restored: plans of an earlier attempt that it went on from */
    double prices[4];
    uint64_t operators; /* that have a price */
    /* ERROR, REJECTED */
    const char *code, *pointer, *message;
    /* EXIT */
    int exit_status, signal;
    bool ended;          /* END or ERROR came before */
    bool protocol_error; /* it wrote something else; it was killed */
    const char *errors;  /* the last of its stderr */
};

struct mg_worker_start { /* a packed plan of an earlier attempt */
    const void *data;
    size_t size;
};
struct mg_worker_config {
    uv_loop_t *loop;
    const char *executable;
    const char *data_dir; /* the spool lies in DIR/spool */
    uint64_t memory_bytes, spool_bytes;
    const void *request, *graph; /* copied */
    size_t request_size, graph_size;
    const struct mg_worker_start *starts; /* copied */
    size_t start_count;
    double seconds;
    int timings_fd; /* -1: none */
};

typedef struct mg_worker mg_worker;
typedef void (*mg_worker_cb)(void *context, const struct mg_worker_event *event);

/* NULL: `why` says what failed. The worker is freed after EXIT was reported. */
mg_worker *mg_worker_start(const struct mg_worker_config *config, mg_worker_cb event, void *context,
                           char why[static MG_WORKER_WHY]);
/* Hand over the front and end (SIGTERM); killed if that takes more than `grace_ms`. */
void mg_worker_stop(mg_worker *worker, unsigned grace_ms);
void mg_worker_kill(mg_worker *worker);
/* A packed plan from the spool, malloc'ed; NULL if it is damaged. */
void *mg_worker_read(mg_worker *worker, const struct mg_spooled *where);

#endif
