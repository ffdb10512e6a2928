/* For tests of the store: directories that vanish, operations that are waited for, results that outlive callbacks. */
#ifndef MG_TESTS_STORE_UTIL_H
#define MG_TESTS_STORE_UTIL_H

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"
#include "tests/unit/temp_util.h"

enum { GOT_MAX = 256 };

struct got_point {
    enum mg_point_kind kind;
    char series[32], plan[MG_PLAN_ID_LEN + 1], reason[64];
    double latency_s;
    int64_t peak;
    int k;
    double measured_share;
};
struct got_event {
    int64_t seq;
    char type[16], data[128];
};

/* A copy of a result. The job's texts that tests look at are copied apart. */
struct got {
    int calls;
    enum mg_store_code code;
    char message[256];
    bool has_job, replayed, has_next;
    struct mg_store_job job;
    char name[64], labels[128], error[512], reused_from[16];
    char ids[GOT_MAX][MG_JOB_ID_LEN + 1];
    int64_t numbers[GOT_MAX];
    enum mg_job_state states[GOT_MAX];
    size_t n_jobs;
    char next[64];
    struct got_point points[GOT_MAX];
    size_t n_points;
    struct got_event events[GOT_MAX];
    size_t n_events;
    char blob[4096];
    size_t blob_size;
    char text[256], replaced_by[32];
    struct mg_store_stats stats;
    int64_t count;
};

static inline void got_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static inline void got_job(struct got *got, const struct mg_store_job *job)
{
    got->has_job = job != NULL;
    if (job) {
        got->job = *job;
        got_text(got->name, sizeof got->name, job->name);
        got_text(got->labels, sizeof got->labels, job->labels);
        got_text(got->error, sizeof got->error, job->error);
        got_text(got->reused_from, sizeof got->reused_from, job->reused_from);
    }
}

static inline void got_arrays(struct got *got, const struct mg_store_result *result)
{
    for (size_t i = 0; i < result->n_jobs && i < GOT_MAX; i++) {
        got_text(got->ids[i], sizeof got->ids[i], result->jobs[i].id);
        got->numbers[i] = result->jobs[i].number;
        got->states[i] = result->jobs[i].state;
    }
    for (size_t i = 0; i < result->n_points && i < GOT_MAX; i++) {
        const struct mg_store_point *from = &result->points[i];
        struct got_point *to = &got->points[i];
        *to = (struct got_point){.kind = from->kind,
                                 .latency_s = from->latency_s,
                                 .peak = from->peak,
                                 .k = from->k,
                                 .measured_share = from->measured_share};
        got_text(to->series, sizeof to->series, from->series);
        got_text(to->plan, sizeof to->plan, from->plan);
        got_text(to->reason, sizeof to->reason, from->reason);
    }
    for (size_t i = 0; i < result->n_events && i < GOT_MAX; i++) {
        got->events[i].seq = result->events[i].seq;
        got_text(got->events[i].type, sizeof got->events[i].type, result->events[i].type);
        got_text(got->events[i].data, sizeof got->events[i].data, result->events[i].data);
    }
    got->n_jobs = result->n_jobs;
    got->n_points = result->n_points;
    got->n_events = result->n_events;
}

/* The callback: ctx is a struct got. */
static inline void got_cb(void *ctx, const struct mg_store_result *result)
{
    struct got *got = ctx;
    got->calls++;
    got->code = result->code;
    got->replayed = result->replayed;
    got_text(got->message, sizeof got->message, result->message);
    got_job(got, result->job);
    got_arrays(got, result);
    got->has_next = result->next != NULL;
    got_text(got->next, sizeof got->next, result->next);
    got_text(got->text, sizeof got->text, result->text);
    got_text(got->replaced_by, sizeof got->replaced_by, result->replaced_by);
    got->blob_size = result->blob.size;
    if (result->blob.size && result->blob.size <= sizeof got->blob) {
        memcpy(got->blob, result->blob.data, result->blob.size);
    }
    if (result->stats) {
        got->stats = *result->stats;
    }
    got->count = result->count;
}

/* A store, its directory, its clock, and the signal that results are there. */
struct fixture {
    char dir[64];
    mg_store *store;
    pthread_mutex_t lock;
    pthread_cond_t ready;
    bool notified, read_only;
    int64_t now;
    enum mg_store_code (*fault)(void *ctx, const char *what);
    void *fault_ctx;
    struct got got;
};

static inline void fixture_notify(void *ctx)
{
    struct fixture *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->notified = true;
    pthread_cond_signal(&f->ready);
    pthread_mutex_unlock(&f->lock);
}

static inline int64_t fixture_now(void *ctx)
{
    struct fixture *f = ctx;
    return __atomic_load_n(&f->now, __ATOMIC_RELAXED);
}

static inline void fixture_set_now(struct fixture *f, int64_t now)
{
    __atomic_store_n(&f->now, now, __ATOMIC_RELAXED);
}

static inline enum mg_store_code fixture_open(struct fixture *f)
{
    struct mg_store_config config = {.dir = f->dir,
                                     .read_only = f->read_only,
                                     .notify = fixture_notify,
                                     .notify_ctx = f,
                                     .now_ms = fixture_now,
                                     .now_ctx = f,
                                     .fault = f->fault,
                                     .fault_ctx = f->fault_ctx};
    return mg_store_open(&f->store, &config, f->got.message, sizeof f->got.message);
}

static inline void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->ready, NULL);
    f->now = 1000000000000;
    temp_name(f->dir, sizeof f->dir, "store");
    if (!mkdtemp(f->dir)) {
        abort();
    }
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void fixture_release(struct fixture *f)
{
    mg_store_close(f->store);
    f->store = NULL;
    nftw(f->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->ready);
}

/* Runs callbacks until nothing is pending; gives up (abort) after 20 s. */
static inline void fixture_wait(struct fixture *f)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    while (mg_store_pending(f->store)) {
        pthread_mutex_lock(&f->lock);
        while (!f->notified) {
            if (pthread_cond_timedwait(&f->ready, &f->lock, &until) == ETIMEDOUT) {
                abort();
            }
        }
        f->notified = false;
        pthread_mutex_unlock(&f->lock);
        mg_store_poll(f->store);
    }
}

static inline const struct got *fixture_result(struct fixture *f)
{
    fixture_wait(f);
    return &f->got;
}

static inline struct got *fixture_clear(struct fixture *f)
{
    memset(&f->got, 0, sizeof f->got);
    return &f->got;
}

/* DO(f, claim, "id", 0): starts, waits, and yields the result. */
#define DO(f, op, ...) (mg_store_##op((f)->store, __VA_ARGS__, got_cb, fixture_clear(f)), fixture_result(f))
#define DO0(f, op) (mg_store_##op((f)->store, got_cb, fixture_clear(f)), fixture_result(f))

#define GRAPH_TEXT "the graph, compressed"
static const struct mg_store_request any_request = {
    .request = "{\"device\":\"rtx3090\"}",
    .request_digest = "d1",
    .graph = {GRAPH_TEXT, sizeof GRAPH_TEXT - 1},
    .graph_digest = "g1",
    .network = "bert-base",
    .device = "rtx3090",
    .reuse_key = "r1",
    .seconds = 30,
};
/* A queued job of that request; change members of the copy as needed. */
static inline struct mg_store_submission any_submission(const char *id)
{
    return (struct mg_store_submission){.id = id,
                                        .state = MG_JOB_QUEUED,
                                        .name = "nightly",
                                        .labels = "{\"branch\":\"main\"}",
                                        .owner = "ci",
                                        .token = "ci",
                                        .priority = MG_PRIORITY_NORMAL,
                                        .normal = &any_request};
}
static inline const struct got *submit_any(struct fixture *f, const char *id)
{
    struct mg_store_submission s = any_submission(id);
    return DO(f, submit, &s);
}
static inline struct mg_store_point any_point(enum mg_point_kind kind, const char *plan, double latency_s, int64_t peak)
{
    return (struct mg_store_point){.kind = kind,
                                   .plan = plan,
                                   .latency_s = latency_s,
                                   .peak = peak,
                                   .arena = peak + 1,
                                   .blob = {plan, strlen(plan)}};
}

#endif
