/* The job manager: everything between a posted request and its stored result.
 *
 * It owns the queue, the workers, the summaries of unfinished and recent jobs and the listeners of
 * their events, and is the only part of the daemon that changes a job. All functions are called on
 * the loop's thread; answers come as mg_reply (reply.h), JSON bodies as schemas.json describes them. Every
 * state change is stored before anyone is told of it. */
#ifndef MG_SERVER_JOBS_H
#define MG_SERVER_JOBS_H

#include <uv.h>

#include "server/intake.h"
#include "server/reply.h"
#include "server/tokens.h"

struct mg_store;

struct mg_jobs_config {
    uv_loop_t *loop;
    struct mg_store *store;
    mg_intake *intake;
    const char *executable; /* of magisd itself */
    const char *data_dir;   /* DIR */
    const char *public_url; /* prefix of links, "" for relative ones */
    bool at_rest;           /* no job is recovered, run, changed, removed or taken */
    unsigned workers;
    double max_seconds;     /* --max-seconds */
    double pause_seconds;   /* --pause-seconds */
    double silence_seconds; /* --silence-seconds */
    size_t max_queued;      /* --max-queued */
    size_t max_queued_per_owner;
    uint64_t min_free_bytes;  /* below: no new jobs (507) */
    unsigned keep_days;       /* --keep-days; 0: for ever */
    uint64_t max_store_bytes; /* --max-store; 0: no limit */
    void (*log)(void *context, const char *level, const char *event, const char *detail);
    void *log_context;
};

typedef struct mg_jobs mg_jobs;

/* Loads unfinished jobs from the store (those that were running go back to the queue), then calls
 * `ready` with 0 or a negative error; questions are answered from then on. */
int mg_jobs_open(mg_jobs **out, const struct mg_jobs_config *config, void (*ready)(void *context, int status),
                 void *context);
/* No new jobs; running ones hand over their fronts within 5 s and go back to the queue. A second
 * call hurries. `drained` is called once, when no worker is left and all is stored. */
void mg_jobs_drain(mg_jobs *jobs, void (*drained)(void *context), void *context);
/* After drained. */
void mg_jobs_close(mg_jobs *jobs);

/* ---- submitting ---- */
struct mg_submission {
    int body_fd; /* memfd with the body as posted (taken over) */
    size_t body_size;
    bool gzip;
    char *form;                  /* mg_request_form, taken over */
    const char *owner;           /* token's name, or "" */
    const char *request_id;      /* X-Request-Id */
    const char *idempotency_key; /* NULL */
    double wait_s;               /* Prefer: wait=N; 0 = do not wait */
};
/* 202 (queued, or `validating` when intake takes over 2 s) or 200 (ended while waiting), the job. */
mg_ticket mg_jobs_submit(mg_jobs *jobs, const struct mg_submission *submission, mg_reply_cb done, void *context);
/* POST /estimate: 200. Takes body_fd over. */
mg_ticket mg_jobs_estimate(mg_jobs *jobs, const struct mg_submission *submission, mg_reply_cb done, void *context);

/* ---- reading ---- */
/* GET /jobs/{id}; etag = revision. With wait_s the answer comes when the job has ended or after that time. */
mg_ticket mg_jobs_get(mg_jobs *jobs, const char *id, double wait_s, mg_reply_cb done, void *context);
struct mg_job_query {
    const char *state, *network, *device, *owner, *q; /* NULL = any */
    const char *const *labels;                        /* "key:value" */
    size_t label_count;
    const char *sort; /* created (NULL), peak, saving, duration */
    const char *cursor;
    unsigned limit; /* 1..200 */
};
/* GET /jobs: {"jobs": [...], "next": cursor or null}. */
mg_ticket mg_jobs_list(mg_jobs *jobs, const struct mg_job_query *query, mg_reply_cb done, void *context);
mg_ticket mg_jobs_request(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context);
mg_ticket mg_jobs_pareto(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context);
/* GET /jobs/{id}/repricing: the front by the newest timings (reprice.h); "no-timings" where there are none. */
mg_ticket mg_jobs_reprice(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context);
/* plan: an id, k, "original" or "best"; format: a name of export/formats.def, for graphs "json" or "dot" */
mg_ticket mg_jobs_plan(mg_jobs *jobs, const char *id, const char *plan, const char *format, mg_reply_cb done,
                       void *context);
mg_ticket mg_jobs_timeline(mg_jobs *jobs, const char *id, const char *plan, mg_reply_cb done, void *context);
/* {"formats": [...]}: mg_export_write_formats() */
mg_ticket mg_jobs_formats(mg_jobs *jobs, const char *id, const char *plan, mg_reply_cb done, void *context);
mg_ticket mg_jobs_graph(mg_jobs *jobs, const char *id, const char *format, mg_reply_cb done, void *context);

/* ---- plans measured as wholes (store/measured.h) ---- */
struct mg_measured;
/* device: a device's name, "class:<id>", "any"; NULL: those of the job's profile. 202, the measurement. */
mg_ticket mg_jobs_measure(mg_jobs *jobs, const struct mg_caller *caller, const char *id, const char *plan,
                          const char *device, mg_reply_cb done, void *context);
/* {"measurements": [...]} */
mg_ticket mg_jobs_measurements(mg_jobs *jobs, const char *id, const char *plan, mg_reply_cb done, void *context);
/* For agents: {"lease_s", "measurement": what to measure or null}. */
mg_ticket mg_jobs_measure_claim(mg_jobs *jobs, const struct mg_caller *caller, const char *agent, mg_reply_cb done,
                                void *context);
/* ... and the answer: number, state, reason, host and figures are read. 200, the measurement. */
mg_ticket mg_jobs_measure_answer(mg_jobs *jobs, const struct mg_caller *caller, const char *agent,
                                 const struct mg_measured *answer, mg_reply_cb done, void *context);

/* ---- changing ---- */
/* Only the job's owner and administrators may; others get "forbidden". A retry belongs to who asks for it. */
mg_ticket mg_jobs_cancel(mg_jobs *jobs, const struct mg_caller *caller, const char *id, mg_reply_cb done,
                         void *context);
mg_ticket mg_jobs_retry(mg_jobs *jobs, const struct mg_caller *caller, const char *id, mg_reply_cb done,
                        void *context); /* 202, a new job */
mg_ticket mg_jobs_delete(mg_jobs *jobs, const struct mg_caller *caller, const char *id, mg_reply_cb done,
                         void *context); /* 204 */
mg_ticket mg_jobs_pin(mg_jobs *jobs, const struct mg_caller *caller, const char *id, bool pinned, mg_reply_cb done,
                      void *context);
/* PATCH: a JSON object with `name` and/or `labels`. */
mg_ticket mg_jobs_patch(mg_jobs *jobs, const struct mg_caller *caller, const char *id, const char *json, size_t size,
                        mg_reply_cb done, void *context);

/* The asker has gone: its callback will not be called. The question's effect stays. */
void mg_jobs_forget(mg_jobs *jobs, mg_ticket ticket);

/* ---- events ---- */
struct mg_event {
    const char *type; /* "snapshot", "state", "front", "progress", "end"; or, alone: "missing" (no such
                         job: 404), "nothing" (ended, and nothing after `since`: 204), "failed" (the store: 503);
                         "failed" may also end what has begun, for all its jobs: there is more, but it cannot be
                         read */
    const char *job;
    uint64_t sequence; /* the id; 0: not stored, has none */
    const char *data;  /* JSON on one line */
    size_t size;
    bool last; /* the listener is gone after this one */
};
typedef void (*mg_event_cb)(void *context, const struct mg_event *event);
/* `since` < 0: from now (after the snapshot). One listener may follow several jobs; it ends with the last. */
mg_ticket mg_jobs_listen(mg_jobs *jobs, const char *const *ids, size_t count, int64_t since, mg_event_cb event,
                         void *context);

/* ---- numbers ---- */
struct mg_jobs_stats {
    uint64_t validating, queued, running, cancelling;         /* now */
    uint64_t submitted, reused, succeeded, failed, cancelled; /* since the start */
    uint64_t evaluations, plans_accepted, plans_rejected;
    uint64_t worker_starts, worker_deaths, put_off;
    unsigned workers, workers_busy;
    size_t listeners;
    double search_seconds;
    bool claiming; /* false after five workers that died or could not start in a minute, until one has done its job:
                      /readyz says 503 */
    bool draining;
    bool store_ok, store_lost;
    bool disk_full; /* no new jobs: /readyz says 503 */
};
void mg_jobs_stats(const mg_jobs *jobs, struct mg_jobs_stats *out);

#endif
