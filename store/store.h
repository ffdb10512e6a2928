/* The durable state of the daemon: jobs, requests, graphs, plans, fronts, events.
 *
 * The interface is asynchronous and made of whole operations; no SQL and no engine shows through, so that
 * another engine fits behind it. Every operation
 *   - copies its arguments before it returns (the caller may free them at once),
 *   - is one transaction: it happens whole or not at all, and what its callback reports is on disk,
 *   - ends in exactly one call of its callback (which may be NULL), made by mg_store_poll() or mg_store_close()
 *     on the thread that calls those. What the result points to lives until the callback returns.
 * Operations may be started from any thread. Writes happen in the order they were started; a read started after
 * the callback of a write sees that write. Reads and writes run side by side.
 *
 * The store's threads call config.notify(notify_ctx) when results are ready (a loop passes uv_async_send there);
 * the loop then calls mg_store_poll().
 *
 * Strings are UTF-8 and NUL-terminated; JSON arguments must be well formed. Times are milliseconds since the epoch;
 * 0 means "not yet" or "none". Blobs are opaque: what goes in comes out (callers compress). */
#ifndef MG_STORE_STORE_H
#define MG_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mg_store mg_store;

enum mg_store_code {
    MG_STORE_OK = 0,
    MG_STORE_NOT_FOUND, /* no such job or plan: 404 */
    MG_STORE_CONFLICT,  /* the job's state (or an equal id or key) forbids it: 409; result.job says what is there */
    MG_STORE_STALE,     /* the job has none of the revisions that were expected: 412 */
    MG_STORE_GONE,      /* a replaced plan (result.replaced_by) or a deleted job under an idempotency key: 410 */
    MG_STORE_INVALID,   /* an argument is wrong: a cursor of another query, malformed JSON: 400 */
    MG_STORE_BUSY,      /* try again: 503 */
    MG_STORE_FULL,      /* no space: 507, alarm */
    MG_STORE_IO,        /* the disk fails: 503, alarm */
    MG_STORE_CORRUPT,   /* the file is damaged: stop taking work */
    MG_STORE_LOCKED,    /* open: another process has DIR */
    MG_STORE_VERSION,   /* open: the file is of a newer program, or of another one */
    MG_STORE_NETWORK,   /* open: DIR is on a network file system */
    MG_STORE_CLOSED,    /* started after mg_store_close() */
    MG_STORE_INTERNAL,  /* our own bug, or no memory */
};

enum mg_job_state {
    MG_JOB_VALIDATING = 0,
    MG_JOB_QUEUED,
    MG_JOB_WAITING,
    MG_JOB_RUNNING,
    MG_JOB_CANCELLING,
    MG_JOB_SUCCEEDED,
    MG_JOB_FAILED,
    MG_JOB_CANCELLED,
    MG_JOB_STATES, /* how many */
};
enum mg_job_priority { MG_PRIORITY_INTERACTIVE = 0, MG_PRIORITY_NORMAL, MG_PRIORITY_BATCH };
enum mg_job_outcome {
    MG_JOB_OUTCOME_NONE = 0,
    MG_JOB_OUTCOME_MET,
    MG_JOB_OUTCOME_NOT_MET,
    MG_JOB_OUTCOME_INFEASIBLE,
    MG_JOB_OUTCOME_FRONT
};
enum mg_job_stop {
    MG_STOP_NONE = 0,
    MG_STOP_EVALUATIONS,
    MG_STOP_SECONDS,
    MG_STOP_EXHAUSTED,
    MG_STOP_CANCELLED,
    MG_STOP_DEADLINE
};
enum mg_point_kind { MG_POINT_ORIGINAL = 0, MG_POINT_FRONT, MG_POINT_BASELINE };
enum mg_job_sort { MG_SORT_CREATED = 0, MG_SORT_PEAK, MG_SORT_SAVING, MG_SORT_DURATION };
enum mg_requeue_cause {
    MG_REQUEUE_DRAIN, /* the worker stopped by no fault of its own: keeps its place in the queue, and what it has waited
                       */
    MG_REQUEUE_UNSTARTED, /* no worker was started: the same, and the claim was no attempt */
    MG_REQUEUE_CRASH      /* the worker died: end of the queue; the second time the job fails */
};

/* The names used in JSON ("not_met"); the _parse functions return -1 for an unknown name. */
const char *mg_job_state_name(enum mg_job_state state);
int mg_job_state_parse(const char *name);
const char *mg_job_priority_name(enum mg_job_priority priority);
int mg_job_priority_parse(const char *name);
const char *mg_job_outcome_name(enum mg_job_outcome outcome); /* NULL for NONE */
int mg_job_outcome_parse(const char *name);
const char *mg_job_stop_name(enum mg_job_stop stop); /* NULL for NONE */
int mg_job_stop_parse(const char *name);
int mg_job_sort_parse(const char *name);
const char *mg_store_code_name(enum mg_store_code code);
static inline bool mg_job_state_ended(enum mg_job_state state)
{
    return state >= MG_JOB_SUCCEEDED;
}

struct mg_blob {
    const void *data;
    size_t size;
};

#define MG_JOB_ID_LEN 12
#define MG_PLAN_ID_LEN 16

/* What is known once a request is normalised. Strings may be NULL where that is said. */
struct mg_store_request {
    const char *request;        /* normalised request, JSON, without the graph */
    const char *request_digest; /* hex; compared for idempotency */
    struct mg_blob graph;       /* normalised graph, compressed */
    const char *graph_digest;   /* hex; equal digests share one stored graph */
    const char *network;        /* for filters: the graph's or zoo model's name; may be NULL */
    const char *device;         /* profile name; may be NULL */
    const char *reuse_key;      /* digest of all that must be equal to reuse a front; may be NULL */
    const char *gate;           /* JSON; may be NULL */
    const char *timings_models; /* names of devices whose timings may be used, JSON array; NULL: the model only */
    bool require_measured;      /* waits until every operator is measured */
    double seconds;             /* budget, 0: none */
    int64_t evaluations;        /* budget, 0: none */
};

struct mg_store_submission {
    const char *id;          /* MG_JOB_ID_LEN characters [0-9a-z]; NULL: the store makes one (result.job->id) */
    enum mg_job_state state; /* VALIDATING (then `body` is kept) or QUEUED (then `normal` is set) */
    const char *name;        /* may be NULL */
    const char *labels;      /* JSON object of strings; NULL: {} */
    const char *owner;       /* whom the job belongs to; NULL: nobody */
    const char *token;       /* name of the token used; may be NULL */
    enum mg_job_priority priority;
    int64_t deadline_at;         /* 0: none */
    const char *idempotency_key; /* NULL: none; scope is `token` */
    struct mg_blob body;         /* VALIDATING: what intake will read again after a restart */
    int body_fd;           /* with body.size > 0 and body.data NULL: a file or memfd that holds it; the store duplicates
                              the descriptor at once and reads on its own thread */
    const char *body_type; /* its media type; may be NULL */
    const struct mg_store_request *normal;
};

/* Everything about a job but its request, graph and plans. Pointers are never NULL except where said. */
struct mg_store_job {
    int64_t number; /* grows with each submission */
    char id[MG_JOB_ID_LEN + 1];
    enum mg_job_state state;
    enum mg_job_outcome outcome;
    enum mg_job_stop stopped_by;
    enum mg_job_priority priority;
    int64_t revision; /* raised by every change */
    const char *name, *labels, *owner, *token;
    const char *network, *device, *graph_digest, *request_digest;
    const char *gate, *error, *result, *reused_from; /* NULL: none; error: problem document; result: JSON */
    int64_t created_at, queued_at, started_at, ended_at, deadline_at, lease_until;
    int64_t queue_order; /* among queued jobs of one priority: the lowest is next */
    int attempts, crashes, unclean_starts;
    bool pinned, reproducible, resumed;
    int64_t timings_generation;
    double budget_seconds;
    int64_t budget_evaluations;
    int64_t evaluations, accepted, rejected;
    double elapsed_s; /* search time so far, over all attempts */
    bool has_original, has_best;
    double original_latency_s, best_latency_s;
    int64_t original_peak, original_arena, best_peak, best_arena, best_host;
    char best_plan[MG_PLAN_ID_LEN + 1];         /* "" if none */
    int64_t lower_bound, smallest_found;        /* bytes; -1: unknown */
    double prices[4];                           /* operators by price source: exact, near, scaled, modelled */
    const char *timings_models, *timings_class; /* as asked; the class whose timings are used, "" */
    bool require_measured;
    int64_t last_event; /* sequence number of the newest event, 0: none */
};

/* A point of the plane of latency and peak: the original, the front's, or a baseline's. */
struct mg_store_point {
    enum mg_point_kind kind;
    const char *series; /* baselines: its name ("sublinear"); else NULL or "" */
    const char *plan;   /* plan id; NULL or "" only for a baseline without plan */
    const char *reason; /* a baseline that does not apply: why (then no figures); else NULL */
    double latency_s;
    int64_t peak, arena, host;
    const char *techniques;  /* JSON array or object, the caller's; NULL: none */
    double measured_share;   /* of its plan's operators: those whose price is measured; < 0 (read only): unknown */
    const char *replaced_by; /* read only: the plan that took its place; NULL: it stands */
    int k;                   /* read only: ordinal once the job has ended, else -1; 0: the original */
    struct mg_blob blob;     /* write only: the plan, compressed; a known plan may leave it empty */
};
/* `plan` left the front because `by` is as good or better (or stands for it after thinning). One that is not in the
 * front, for it left already or was never saved, is left out. */
struct mg_store_replacement {
    const char *plan, *by;
};

struct mg_store_progress {
    int64_t evaluations, accepted, rejected;
    double elapsed_s;
    const char *best; /* plan id of the best point so far; NULL: leave it */
};

struct mg_store_outcome {
    enum mg_job_state state; /* SUCCEEDED, FAILED or CANCELLED */
    enum mg_job_outcome outcome;
    enum mg_job_stop stopped_by;
    const char *error;  /* problem document; exactly when FAILED */
    const char *result; /* more figures, JSON object, the caller's; NULL: none */
    const char *best;   /* plan id; NULL: as saved last */
    int64_t evaluations, accepted, rejected;
    double elapsed_s;
    int64_t lower_bound, smallest_found; /* -1: unknown */
    double prices[4];
    bool reproducible;
};

struct mg_store_event {
    int64_t seq;      /* 1, 2, ... within the job */
    const char *type; /* "state", "front", "end" or the caller's */
    const char *data; /* JSON */
    int64_t at;
};

struct mg_store_label {
    const char *key, *value;
};
struct mg_store_query {
    uint32_t states; /* bit 1u << state; 0: all */
    const struct mg_store_label *labels;
    size_t n_labels;                      /* all must match */
    const char *network, *device, *owner; /* exact; NULL: any */
    const char *q;                        /* part of name, id, network or a label's value, without case; NULL */
    enum mg_job_sort sort; /* created: newest first; peak: smallest; saving: largest; duration: longest first */
    bool reverse;
    int limit;          /* 1-200 */
    const char *cursor; /* result.next of the page before, same filters and sort; NULL: the first page */
};

struct mg_store_stats {
    int64_t jobs[MG_JOB_STATES];
    int64_t file_bytes, wal_bytes, free_bytes; /* database, its log, reusable inside the database */
    int64_t plans, graphs, events;
};
/* Counters of this process; readable at any time, from any thread. */
struct mg_store_op_stats {
    const char *name; /* "submit", ... */
    uint64_t count, errors;
    double seconds_sum, seconds_max; /* from start of the operation to its result */
};

struct mg_store_timings; /* timings.h */
struct mg_measured;      /* measured.h */

struct mg_store_result {
    enum mg_store_code code;
    const char *message;             /* one sentence for the log, "" when OK */
    const struct mg_store_job *job;  /* the job after the operation (see each); else NULL */
    bool replayed;                   /* submit: an earlier job under the same key and digest */
    const struct mg_store_job *jobs; /* list, recover, expire */
    size_t n_jobs;
    const char *next; /* list: cursor of the next page; NULL: the last one */
    const struct mg_store_point *points;
    size_t n_points;
    const struct mg_store_event *events; /* read; and by writes: the events they appended */
    size_t n_events;
    struct mg_blob blob;     /* request, body, graph, plan */
    int fd;                  /* snapshot: open for reading until the callback returns; to be duplicated */
    const char *text;        /* what belongs to the blob: media type, graph digest, plan id */
    const char *replaced_by; /* GONE: the standing plan in its place; NULL: none */
    const struct mg_store_stats *stats;
    int64_t count;                          /* expire: jobs removed */
    const struct mg_store_timings *timings; /* operations of timings.h */
    const struct mg_measured *measured;     /* get_front and operations of measured.h */
    size_t n_measured;
};
typedef void mg_store_cb(void *ctx, const struct mg_store_result *result);

struct mg_store_config {
    const char *dir; /* made if missing (its parent must exist) */
    bool read_only;  /* beside whoever has it open: no lock, no writes (they end as CLOSED), nothing is made */
    bool leave_mark; /* not a daemon's: whether the last one stopped cleanly is still known afterwards */
    void (*notify)(void *ctx); /* called from the store's threads; may be NULL */
    void *notify_ctx;
    int64_t (*now_ms)(void *ctx); /* NULL: the clock; tests replace it */
    void *now_ctx;
    /* Tests: asked before each step of a statement on the store's threads; a code other than OK makes that step
     * fail as if the engine had said so. NULL: never. */
    enum mg_store_code (*fault)(void *ctx, const char *what);
    void *fault_ctx;
};

/* Opens (or makes) DIR/store.db: takes DIR/lock, checks the file after an unclean stop, copies it to DIR/backup/
 * before a migration, migrates, starts the threads. Blocks; call it before the loop runs. On failure *store is NULL
 * and `message` (size bytes, always terminated) says why. */
enum mg_store_code mg_store_open(mg_store **store, const struct mg_store_config *config, char *message, size_t size);
/* Ends every operation started, runs their callbacks, checkpoints, marks the stop as clean (but for leave_mark), frees.
 * NULL is fine.
 * No other thread may start operations any more. */
void mg_store_close(mg_store *store);
/* Runs the callbacks of what is complete; returns how many. */
size_t mg_store_poll(mg_store *store);
/* Operations started whose callback has not run yet. */
size_t mg_store_pending(const mg_store *store);
/* False: another file, or none, lies where the open one was; what is written goes to the one that is open. */
bool mg_store_in_place(const mg_store *store);
/* Fills up to `n` counters, returns how many kinds of operation there are. */
size_t mg_store_op_counters(const mg_store *store, struct mg_store_op_stats *stats, size_t n);

/* ---- writes that are promises (on disk, synced, before the callback) ----
 * All give result.job, the job after the operation (CONFLICT: as it stands), and result.events, what they appended:
 * every change of state appends `state` {"state": ...}, an end also `end` {"state", "outcome", "stopped_by"}. */

/* Key known: same digest -> OK, replayed; other digest, or the first one still validating -> CONFLICT;
 * its job deleted -> GONE. */
void mg_store_submit(mg_store *store, const struct mg_store_submission *submission, mg_store_cb *cb, void *ctx);
/* validating -> queued; the body is dropped. */
void mg_store_accept(mg_store *store, const char *id, const struct mg_store_request *normal, mg_store_cb *cb,
                     void *ctx);
/* queued or waiting -> running, attempts + 1. lease_until 0: none. */
void mg_store_claim(mg_store *store, const char *id, int64_t lease_until, mg_store_cb *cb, void *ctx);
/* What is asked next, of a job, is done only if that has one of these revisions; else STALE. They are copied then. */
void mg_store_expect(mg_store *store, const int64_t *revisions, size_t n);
/* queued -> waiting, and back. */
void mg_store_set_waiting(mg_store *store, const char *id, bool waiting, mg_store_cb *cb, void *ctx);
/* running -> queued (UNSTARTED: attempts - 1); after a second CRASH -> failed with `error` (problem document; needed
 * with CRASH).
 * cancelling -> cancelled, whatever the cause. */
void mg_store_requeue(mg_store *store, const char *id, enum mg_requeue_cause cause, const char *error, mg_store_cb *cb,
                      void *ctx);
/* validating, queued, waiting -> cancelled; running -> cancelling; cancelling: OK, unchanged; ended: CONFLICT. */
void mg_store_cancel(mg_store *store, const char *id, mg_store_cb *cb, void *ctx);
/* Any state that has not ended -> outcome.state, and ordinals are given to the points. `last` (may be NULL) is saved
 * in the same transaction, as by mg_store_save_points. SUCCEEDED only from running or cancelling. */
struct mg_store_points;
void mg_store_finish(mg_store *store, const char *id, const struct mg_store_outcome *outcome,
                     const struct mg_store_points *last, mg_store_cb *cb, void *ctx);
/* queued or waiting -> succeeded with the front, plans and figures of `source`, a job that succeeded. */
void mg_store_reuse(mg_store *store, const char *id, const char *source, mg_store_cb *cb, void *ctx);
/* A new queued job with the request and graph of an ended one. CONFLICT: it has not ended, or has no graph. */
void mg_store_retry(mg_store *store, const char *id, const char *owner, const char *token, mg_store_cb *cb, void *ctx);
/* name, labels: NULL leaves as is; name "": none. */
void mg_store_patch(mg_store *store, const char *id, const char *name, const char *labels, mg_store_cb *cb, void *ctx);
void mg_store_pin(mg_store *store, const char *id, bool pinned, mg_store_cb *cb, void *ctx);
/* Removes an ended job with all that is only its own; result.job: as it was. Not ended: CONFLICT. */
void mg_store_delete(mg_store *store, const char *id, mg_store_cb *cb, void *ctx);
/* Once, at start: running jobs go back to the queue (at the third unclean start they fail), cancelling ones end as
 * cancelled. result.jobs: every job that has not ended, in order of the queue, and those that failed just now. */
void mg_store_recover(mg_store *store, mg_store_cb *cb, void *ctx);
/* Removes ended jobs that ended before now - keep_days, then the oldest while the file holds more than max_bytes
 * (0: no such limit); pinned jobs and the newest of each label stay (where space is short: of each label that more
 * than one job carries, for a commit's label is on one job only and would keep it for ever). At most `limit` jobs a
 * call; result.jobs: those removed; result.count: how many. Call again while count == limit. */
void mg_store_expire(mg_store *store, double keep_days, int64_t max_bytes, int limit, mg_store_cb *cb, void *ctx);

/* ---- writes that are progress (whole, but the last moments may be lost when the power fails) ---- */

struct mg_store_points {
    const struct mg_store_point *points; /* new or better known ones; kind, series and plan name a point */
    size_t n_points;
    const struct mg_store_replacement *replaced; /* their blobs are dropped */
    size_t n_replaced;
    const struct mg_store_progress *progress; /* NULL: unchanged */
    const char *event;                        /* JSON: appended as an event `front`; NULL: none */
};
/* Saves original, baselines and front points of a job that has not ended. An evaluations job that starts over keeps
 * its old front until points of the new one replace it. */
void mg_store_save_points(mg_store *store, const char *id, const struct mg_store_points *points, mg_store_cb *cb,
                          void *ctx);

/* ---- reads ---- */

void mg_store_get_job(mg_store *store, const char *id, mg_store_cb *cb, void *ctx);
void mg_store_list_jobs(mg_store *store, const struct mg_store_query *query, mg_store_cb *cb, void *ctx);
/* result.job, result.blob (JSON text), text NULL. Still validating: CONFLICT. */
void mg_store_get_request(mg_store *store, const char *id, mg_store_cb *cb, void *ctx);
/* What was posted, while the job is validating; text: media type. */
void mg_store_get_body(mg_store *store, const char *id, mg_store_cb *cb, void *ctx);
/* Request and graph at once, for a worker: blob is the graph, text the request. */
void mg_store_get_work(mg_store *store, const char *id, mg_store_cb *cb, void *ctx);
/* which: a plan id, "original", "best", or (ended jobs) an ordinal. result.blob, text: plan id, points[0]: figures. */
void mg_store_get_plan(mg_store *store, const char *id, const char *which, mg_store_cb *cb, void *ctx);
/* result.job and result.points: the original, then the front by latency, then baselines by name; replaced ones not. */
void mg_store_get_front(mg_store *store, const char *id, mg_store_cb *cb, void *ctx);
/* Events with seq > since, at most `limit`; result.job too. */
void mg_store_get_events(mg_store *store, const char *id, int64_t since, int limit, mg_store_cb *cb, void *ctx);
/* The newest succeeded job with this reuse key whose seconds budget is at least `seconds`; NOT_FOUND: none. */
/* ... and priced from the present generation of the timings of these models (JSON array). */
void mg_store_find_reusable(mg_store *store, const char *reuse_key, double seconds, const char *timings_models,
                            mg_store_cb *cb, void *ctx);
void mg_store_get_stats(mg_store *store, mg_store_cb *cb, void *ctx);

#endif
