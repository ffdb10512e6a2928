/* The job manager's insides, shared by jobs*.c. */
#ifndef MG_SERVER_JOBS_PRIV_H
#define MG_SERVER_JOBS_PRIV_H

#include <jansson.h>

#include "base/json.h"
#include "server/answer.h"
#include "server/pareto.h"
#include "server/jobs.h"
#include "server/worker.h"
#include "store/store.h"

#define MG_STORE_LOST "was removed or replaced under the running daemon: stop it, put the file back, start it again"

enum { MG_RECENT_JOBS = 256, MG_STOP_GRACE_MS = 5000 };

/* A point that a running job knows: reported by its worker, or from an earlier attempt. */
struct mg_known_point {
    struct mg_front_point point;
    bool earlier;              /* of an earlier attempt: stays until covered */
    bool sent, stored;         /* the store may have it in the front; it has */
    int moving;                /* a save under way adds it (1) or takes it out (-1) */
    struct mg_spooled spooled; /* length 0: the store has the plan */
};

/* The original or a baseline's point, texts and blob owned, until the store has it. */
struct mg_kept_point {
    struct mg_store_point point;
    bool open;   /* its baseline is not complete */
    bool moving; /* a save under way carries it */
};

/* A job while it holds a worker. */
struct mg_run {
    mg_worker *worker; /* NULL: being claimed or loaded */
    struct mg_front_limits limits;
    bool limited;                                /* the request has a limit */
    double latency_ratio, memory_ratio;          /* limits relative to an original not known yet; 0: none */
    bool resumes;                                /* a seconds job that continues */
    double base_elapsed;                         /* search time of earlier attempts */
    struct mg_worker_start starts[MG_FRONT_MAX]; /* their plans, owned, while they are fetched for the worker */
    size_t start_count, fetched;                 /* fetched: published points whose plan was asked for */
    struct mg_known_point *known;
    size_t known_count, known_capacity;
    struct mg_front_point published[MG_FRONT_MAX]; /* the front as it is to be in the store */
    size_t published_count;
    struct mg_kept_point *kept;
    size_t kept_count, kept_capacity;
    unsigned number;            /* of this run, among all */
    bool saving, more, unsaved; /* a save of points is under way; there is more since; the last one failed */
    uint64_t evaluations, accepted, rejected;
    double elapsed_s, fraction;
    uint64_t saved_at;   /* loop time of the last save of progress */
    uint64_t started_at; /* loop time */
    uint64_t due_at;     /* loop time at which the search time of its worker is over; 0: it has evaluations */
    unsigned silent;     /* ticks beyond it, or after its end, in which the worker said nothing */
    bool hung;           /* it was silent for too long, and was killed */
    bool finished;       /* its end was given to the store, or it goes back to the queue */
    bool deadline;       /* stopped by its deadline */
    bool stopping;
    int timings_fd; /* the snapshot, or -1 */
};

struct mg_job {
    struct mg_job *next;
    struct mg_store_job info; /* texts owned */
    struct mg_run *run;       /* NULL unless it holds a place of a worker */
    enum { MG_TIMINGS_UNASKED, MG_TIMINGS_ASKING, MG_TIMINGS_MISSING, MG_TIMINGS_THERE } measured; /* its operators */
    uint64_t look_at; /* loop time of the next look at them */
    int64_t deadline_at;
    bool held;                /* queued, but another job's result is being copied to it */
    unsigned put_off;         /* how often it went back to the queue by the fault of what is around it */
    uint64_t not_before;      /* loop time from which it may start again */
    struct mg_ending *ending; /* its end, while the store has not taken it (jobs_settle.c) */
};

/* A question that has not been answered. */
struct mg_call {
    struct mg_call *next;
    mg_jobs *jobs;
    mg_ticket ticket;
    mg_reply_cb done; /* NULL: forgotten */
    void *context;
    char id[16];        /* the job it is about */
    char waits_for[16]; /* the job whose end it waits for, or "" */
    int created_status; /* status of the answer: 200, or 202 */
    uv_timer_t timer;
    bool has_timer;
    struct mg_reply reply; /* of a deferred answer */
    mg_ticket intake;      /* what intake was asked, or 0 */
    /* submit */
    struct mg_submission submission; /* texts not owned, but for `owner` */
    char *owner;
    json_t *meta;          /* what intake says about the request */
    struct mg_reply taken; /* intake's answer */
    char reuse[16];
    /* changes: what is to be done once the caller is known to be allowed it */
    void (*act)(struct mg_call *call);
    char caller[MG_TOKEN_NAME], *name, *labels;
    bool pinned, conditional;
    int64_t revisions[16]; /* conditional: those of the job that it may meet */
    size_t revision_count;
    /* plan, timeline, graph */
    enum mg_intake_kind kind;
    char which[24], format[16];
    void *plan_blob;
    size_t plan_size;
    bool immutable;
};

struct mg_listener {
    struct mg_listener *next;
    mg_jobs *jobs;
    mg_ticket ticket;
    mg_event_cb event; /* NULL: forgotten */
    void *context;
    struct mg_listener_group *group;
    char id[16];
    int64_t since; /* as asked; < 0: from now */
    int64_t sent;  /* the newest sequence sent */
    bool live;     /* caught up: broadcasts go through */
};
/* The listeners of one mg_jobs_listen: they end together. */
struct mg_listener_group {
    size_t left;
};

struct mg_worker_time {
    char owner[64];
    uint64_t ended_at; /* loop time */
    double seconds;
};
enum { MG_WORKER_TIMES = 512, MG_DEATHS = 5 };

struct mg_jobs {
    struct mg_jobs_config config;
    char *executable, *data_dir, *public_url;
    struct mg_job *first;
    struct mg_call *calls;
    struct mg_listener *listeners;
    struct mg_pending *pendings;                 /* bodies that intake has (jobs_submit.c) */
    struct mg_timing_question *timing_questions; /* graphs that intake has (jobs_timing.c) */
    unsigned telling;                            /* listeners are being told: none is freed meanwhile */
    uint64_t next_ticket;
    unsigned running;                             /* jobs with a run */
    unsigned runs;                                /* so far */
    struct mg_worker_time times[MG_WORKER_TIMES]; /* a ring */
    unsigned time_at;
    uint64_t deaths[MG_DEATHS]; /* loop times, a ring */
    unsigned death_at;
    uint64_t last_death; /* loop time */
    struct mg_jobs_stats stats;
    uv_timer_t tick;
    unsigned ticks, drained_from; /* since the start; when draining began */
    bool draining, hurry, opened, store_failing, store_lost;
    void (*drained)(void *context);
    void *drained_context;
    void (*ready)(void *context, int status);
    void *ready_context;
};

void mg_jobs_say(const mg_jobs *jobs, const char *level, const char *event, const char *fmt, ...) MG_PRINTF(4, 5);

/* ---- jobs.c: the table ---- */
/* Stops the job, or fails it where it never ran, if its deadline has passed. */
void mg_jobs_check_deadline(mg_jobs *jobs, struct mg_job *job, int64_t now);
/* What is due once a second. */
void mg_jobs_tick(mg_jobs *jobs);
struct mg_job *mg_jobs_find(mg_jobs *jobs, const char *id);
/* The table's job brought to what the store says: made if missing, waiters told at its end. Others may be forgotten,
 * but not this one. */
struct mg_job *mg_jobs_update(mg_jobs *jobs, const struct mg_store_job *info);
void mg_jobs_drop(mg_jobs *jobs, const char *id);
/* What every write's callback begins with: job and events of the result, and whether the store works. */
void mg_jobs_take(mg_jobs *jobs, const struct mg_store_result *result);
/* The callback of writes that nobody waits for; what failed is logged, and jobs start that now may. */
void mg_jobs_written(void *jobs, const struct mg_store_result *result);
/* Fills a problem for a store's code; true if it was one. */
bool mg_jobs_store_problem(mg_jobs *jobs, const struct mg_store_result *result, struct mg_reply *reply);
char *mg_problem_document(const char *name, const char *detail, const char *pointer, json_t *members);
/* What callbacks carry: the job is found by id, for it may be gone by then. */
struct mg_job_ref {
    mg_jobs *jobs;
    char id[16];
    unsigned run; /* the number of its run when it was made, or 0 */
};
struct mg_job_ref *mg_job_ref_new(mg_jobs *jobs, const struct mg_job *job);
void *mg_jobs_copy(const void *data, size_t size);
char *mg_jobs_copy_text(const char *text); /* NULL: NULL */

/* ---- jobs_call.c ---- */
struct mg_call *mg_call_new(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context);
void mg_call_finish(struct mg_call *call, struct mg_reply *reply);
/* The same from the loop, for calls that are decided at once. */
void mg_call_defer(struct mg_call *call);
/* `then` from the loop; its timer's data is the call. */
void mg_call_later(struct mg_call *call, uv_timer_cb then);
void mg_call_fail(struct mg_call *call, const char *problem, const char *detail);
/* Answers with the job's summary. */
void mg_call_answer_job(struct mg_call *call, const struct mg_store_job *info);
/* Answers when the job ends, or after `seconds` with what it is then. */
void mg_call_wait(struct mg_call *call, const char *id, double seconds);
void mg_calls_job_ended(mg_jobs *jobs, const struct mg_store_job *info);

/* ---- jobs_json.c ---- */
void mg_job_write(struct mg_writer *w, mg_jobs *jobs, const struct mg_store_job *info);
/* Of a result of mg_store_get_front: points, and what was measured of them as wholes. */
void mg_front_write(struct mg_writer *w, const struct mg_store_result *front);
void mg_job_point_write(struct mg_writer *w, const struct mg_store_job *info, const struct mg_store_point *point,
                        bool techniques);
/* ---- jobs_measure.c ---- */
void mg_measured_write(struct mg_writer *w, const struct mg_measured *m);

/* ---- jobs_event.c ---- */
void mg_listeners_tell(mg_jobs *jobs, const char *id, const char *type, int64_t sequence, const char *data);
bool mg_listeners_forget(mg_jobs *jobs, mg_ticket ticket);
void mg_listeners_drop_all(mg_jobs *jobs);

/* ---- jobs_queue.c ---- */
/* Starts what may start now. */
void mg_jobs_schedule(mg_jobs *jobs);
unsigned mg_jobs_position(mg_jobs *jobs, const struct mg_job *job);
/* How many jobs no worker has been given yet: they are read, wait for timings, or are queued. owner NULL: all. */
size_t mg_jobs_not_started(const mg_jobs *jobs, const char *owner);
void mg_jobs_note_time(mg_jobs *jobs, const struct mg_job *job);
/* A worker died or could not start: five within a minute stop claiming. */
void mg_jobs_note_death(mg_jobs *jobs);
/* A worker ended as it should: claiming goes on if it had stopped. */
void mg_jobs_note_success(mg_jobs *jobs);

/* ---- jobs_run.c ---- */
void mg_run_start(mg_jobs *jobs, struct mg_job *job);
void mg_run_stop(mg_jobs *jobs, struct mg_job *job);
void mg_run_free(mg_jobs *jobs, struct mg_job *job);

/* ---- jobs_watch.c: once a tick ---- */
enum { MG_TICK_MS = 1000 };
/* Kills the job's worker if it hangs; saves again what the store did not take. */
void mg_run_watch(mg_jobs *jobs, struct mg_job *job);
/* Notices that the store's file was removed or replaced. */
void mg_jobs_watch_store(mg_jobs *jobs);

/* ---- jobs_settle.c ---- */
/* The job's end, or its way back to the queue, is kept whole and given to the store until that takes it; what of its
 * run the store does not have goes along with an end. Nothing happens if its end is under way already. */
void mg_job_finish(mg_jobs *jobs, struct mg_job *job, const struct mg_store_outcome *outcome);
void mg_job_requeue(mg_jobs *jobs, struct mg_job *job, enum mg_requeue_cause cause, const char *error);
void mg_ending_free(struct mg_ending *ending);
/* A save of points was answered that an end may wait for. */
void mg_ending_saved(mg_jobs *jobs, struct mg_job *job, bool stored);
/* Once a tick: ends that the store did not take, and jobs that nobody takes care of any more. */
void mg_job_settle(mg_jobs *jobs, struct mg_job *job);

/* ---- jobs_save.c ---- */
struct mg_change {
    struct mg_store_points points; /* all owned */
    struct mg_store_progress progress;
};
/* What the store does not have of the run's points; NULL: nothing. `assume`: the save under way succeeds. */
struct mg_change *mg_change_of(struct mg_job *job, bool assume);
void mg_change_free(struct mg_change *change);
/* Saves it; where a save is under way, after that. */
void mg_run_save_points(mg_jobs *jobs, struct mg_job *job);
/* Saves it now, beside what is under way: where the worker is about to go. */
void mg_run_save_now(mg_jobs *jobs, struct mg_job *job);
struct mg_store_progress mg_run_progress_of(const struct mg_run *run, const char *best);
void mg_run_free_point(const struct mg_store_point *point);
void mg_run_free_kept(struct mg_run *run);

/* ---- jobs_front.c ---- */
struct mg_known_point *mg_run_find_point(struct mg_run *run, const char *id);
struct mg_known_point *mg_run_add_point(struct mg_run *run, const struct mg_front_point *point);
struct mg_store_point mg_run_store_point(const struct mg_front_point *point, enum mg_point_kind kind);
void mg_run_save_original(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event);
void mg_run_keep_baseline(struct mg_run *run, const struct mg_worker_event *event);
void mg_run_save_baseline(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event);
void mg_run_save_front(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event, bool keep_earlier);
void mg_run_save_progress(mg_jobs *jobs, struct mg_job *job);
void mg_run_progress(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event);

/* ---- jobs_end.c ---- */
void mg_run_end(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event);
void mg_run_error(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event);
/* The worker is gone without a result. */
void mg_run_death(mg_jobs *jobs, struct mg_job *job, const struct mg_worker_event *event);
/* Ends a job that has a run; takes `error` over. */
void mg_run_fail(mg_jobs *jobs, struct mg_job *job, char *error);
/* Not the job's fault, but that of what is around it: no place, no process, a store that does not answer. Back to its
 * place in the queue, where others go first, and after a pause it is tried again; past its deadline, or when it was put
 * off MG_PUT_OFF_MAX times (about an hour), it fails with this problem. */
enum { MG_PUT_OFF_MAX = 60 };
void mg_run_put_off(mg_jobs *jobs, struct mg_job *job, enum mg_requeue_cause cause, const char *problem,
                    const char *detail);

/* ---- jobs_timing.c ---- */
void mg_timings_drop_all(mg_jobs *jobs);
/* Whether the job may start: it need not be measured, or is. */
bool mg_timings_ready(const struct mg_job *job);
/* Asks what is measured of the jobs that wait, and queues what is missing for the agents. */
void mg_timings_look(mg_jobs *jobs);
/* Pins the timings of a job that was claimed and opens their snapshot (run->timings_fd); then `then` is called, with
 * the job, if it is still there. */
void mg_timings_pin(mg_jobs *jobs, struct mg_job *job, void (*then)(mg_jobs *jobs, struct mg_job *job));

/* ---- jobs_match.c ---- */
/* False: if_match (NULL: none) cannot be read; the call's reply says so. */
bool mg_call_match(struct mg_call *call, const char *if_match);

/* ---- jobs_admit.c ---- */
/* True if no job of this owner may come in now: the call is answered with the reason. */
bool mg_call_refused(struct mg_call *call, const char *owner);
/* The data directory's disk has less room than a new job must find (--min-free). */
bool mg_jobs_disk_is_full(const mg_jobs *jobs);

/* ---- jobs_submit.c ---- */
/* Has intake read the body of a validating job, unless it does: after a restart, or where something failed. */
void mg_jobs_read_again(mg_jobs *jobs, struct mg_job *job);
void mg_pendings_drop_all(mg_jobs *jobs);

#endif
