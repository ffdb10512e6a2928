/* The job manager with a real store whose statements fail where a test says so, and with a worker and an intake of the
 * test's own. The clock's ticks are called, not waited for. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/jobs_priv.h"
#include "server/spawn.h"
#include "tests/unit/temp_util.h"

/* ---- worker and intake of the test's own ---- */

struct mg_worker {
    mg_worker_cb event;
    void *context;
    unsigned stopped, killed;
};

static struct {
    mg_worker worker; /* the one that runs */
    unsigned started;
    size_t start_count; /* plans that the last one was handed */
    bool refused;
    mg_reply_cb answer;
    void *asker;
    unsigned asked;
    const char *fault; /* part of the statements that fail */
    unsigned faults;   /* how many of them */
    enum mg_store_code code;
} self;

mg_worker *mg_worker_start(const struct mg_worker_config *config, mg_worker_cb event, void *context,
                           char why[static MG_WORKER_WHY])
{
    self.started++;
    self.start_count = config->start_count;
    if (self.refused) {
        snprintf(why, MG_WORKER_WHY, "%s/spool: not a directory", config->data_dir);
        return NULL;
    }
    self.worker = (struct mg_worker){.event = event, .context = context};
    return &self.worker;
}

void mg_worker_stop(mg_worker *worker, unsigned grace_ms)
{
    worker->stopped += grace_ms > 0;
}

void mg_worker_kill(mg_worker *worker)
{
    worker->killed++;
}

void *mg_worker_read(mg_worker *worker, const struct mg_spooled *where)
{
    (void)worker;
    return where->length ? calloc(1, where->length) : NULL;
}

mg_ticket mg_intake_ask(mg_intake *intake, const struct mg_intake_question *question, mg_reply_cb done, void *context)
{
    (void)intake;
    if (question->body_fd >= 0)
        close(question->body_fd);
    self.answer = done;
    self.asker = context;
    return ++self.asked;
}

void mg_intake_forget(mg_intake *intake, mg_ticket ticket)
{
    (void)intake;
    (void)ticket;
    self.answer = NULL;
}

/* ---- a daemon without a network ---- */

struct bench {
    char dir[200];
    uv_loop_t loop;
    uv_async_t results;
    mg_store *store;
    mg_jobs *jobs;
    char id[16];
};

static void on_results(uv_async_t *async)
{
    mg_store_poll(((struct bench *)async->data)->store);
}

static void notify(void *ctx)
{
    uv_async_send(ctx);
}

static enum mg_store_code fault(void *ctx, const char *what)
{
    (void)ctx;
    if (!self.fault || !strstr(what, self.fault) || !self.faults)
        return MG_STORE_OK;
    self.faults--;
    return self.code;
}

static void fail_at(const char *what, enum mg_store_code code)
{
    self.code = code;
    self.faults = UINT_MAX;
    self.fault = what;
}

static void fail_once(const char *what, enum mg_store_code code)
{
    fail_at(what, code);
    self.faults = 1;
}

/* Until the store has answered all, and nobody has a question that follows from an answer. */
static void settle(struct bench *b)
{
    for (unsigned quiet = 0; quiet < 3; quiet = mg_store_pending(b->store) ? 0 : quiet + 1) {
        uv_run(&b->loop, UV_RUN_NOWAIT);
        usleep(200);
    }
}

static void tick(struct bench *b, unsigned count)
{
    while (count--) {
        mg_jobs_tick(b->jobs);
        settle(b);
    }
}

static void on_ready(void *context, int status)
{
    (void)context;
    cr_assert_eq(status, 0);
}

static void open_store(struct bench *b)
{
    char message[200];
    memset(&self, 0, sizeof self);
    temp_name(b->dir, sizeof b->dir, "jobs");
    cr_assert(mkdtemp(b->dir));
    uv_loop_init(&b->loop);
    uv_async_init(&b->loop, &b->results, on_results);
    b->results.data = b;
    const struct mg_store_config config = {.dir = b->dir, .notify = notify, .notify_ctx = &b->results, .fault = fault};
    cr_assert_eq(mg_store_open(&b->store, &config, message, sizeof message), MG_STORE_OK, "%s", message);
}

static void open_jobs(struct bench *b)
{
    const struct mg_jobs_config config = {.loop = &b->loop,
                                          .store = b->store,
                                          .executable = "magisd",
                                          .data_dir = b->dir,
                                          .workers = 1,
                                          .max_seconds = 100,
                                          .pause_seconds = 100,
                                          .silence_seconds = 100,
                                          .max_queued = 10,
                                          .max_queued_per_owner = 10};
    cr_assert_eq(mg_jobs_open(&b->jobs, &config, on_ready, NULL), 0);
    settle(b);
}

static void set_up(struct bench *b)
{
    open_store(b);
    open_jobs(b);
}

static void on_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void tear_down(struct bench *b)
{
    char command[300];
    self.fault = NULL;
    mg_jobs_close(b->jobs);
    uv_run(&b->loop, UV_RUN_NOWAIT);
    mg_store_close(b->store);
    uv_walk(&b->loop, on_handle, NULL);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&b->loop), 0);
    snprintf(command, sizeof command, "rm -r '%s'", b->dir);
    cr_assert_eq(system(command), 0);
}

/* ---- jobs ---- */

/* Intake's answer to what it was asked last. */
static void intake_answers(struct bench *b, const char *more)
{
    char meta[500];
    struct mg_reply reply;
    snprintf(meta, sizeof meta,
             "{\"request\": {}, \"labels\": {}, \"timings_models\": [], \"request_digest\": \"r\", \"graph_digest\": "
             "\"g\", \"seconds\": 50, \"priority\": \"normal\"%s}",
             more);
    mg_reply_init(&reply);
    reply.members = strdup(meta);
    reply.body_fd = mg_memfd("graph");
    reply.body_size = 5;
    cr_assert_eq(write(reply.body_fd, "graph", 5), 5);
    cr_assert(self.answer, "intake was asked nothing");
    mg_reply_cb answer = self.answer;
    self.answer = NULL;
    answer(self.asker, &reply);
    mg_reply_release(&reply);
    settle(b);
}

static void on_submitted(void *context, struct mg_reply *reply)
{
    struct bench *b = context;
    snprintf(b->id, sizeof b->id, "%s", reply->job);
    cr_expect_null(reply->problem, "%s: %s", reply->problem, reply->detail);
}

static void submit(struct bench *b, const char *more)
{
    const struct mg_submission submission = {.body_fd = mg_memfd("body"), .body_size = 0, .form = strdup("")};
    mg_jobs_submit(b->jobs, &submission, on_submitted, b);
    intake_answers(b, more);
    if (!b->id[0]) /* whoever does not say which job it is has the newest */
        snprintf(b->id, sizeof b->id, "%s", b->jobs->first->info.id);
}

static struct mg_job *the_job(struct bench *b)
{
    struct mg_job *job = mg_jobs_find(b->jobs, b->id);
    cr_assert(job);
    return job;
}

/* ---- what the worker says ---- */

static void say(struct bench *b, struct mg_worker_event event)
{
    self.worker.event(self.worker.context, &event);
    (void)b;
}

static struct mg_front_point point(char name)
{
    struct mg_front_point p = {.latency_s = name - 'A' + 1, .peak_bytes = (uint64_t)(100 - name), .arena_bytes = 1};
    memset(p.id, name, 16);
    return p;
}

static void say_point(struct bench *b, char name)
{
    say(b, (struct mg_worker_event){.kind = MG_WORKER_POINT,
                                    .original = name == 'O',
                                    .point = point(name),
                                    .blob = "blob",
                                    .blob_size = 4,
                                    .spooled = {0, 4, 0}});
}

static void say_front(struct bench *b, const char *names)
{
    char ids[8][17] = {{0}};
    struct mg_worker_event event = {.kind = MG_WORKER_FRONT, .ids = ids, .final = true};
    for (; *names; names++)
        memset(ids[event.id_count++], *names, 16);
    say(b, event);
}

static void say_baseline(struct bench *b)
{
    say(b, (struct mg_worker_event){.kind = MG_WORKER_BASELINE, .name = "sublinear", .reason = "it has no parts"});
}

static void say_end(struct bench *b)
{
    say(b, (struct mg_worker_event){
               .kind = MG_WORKER_END, .outcome = "front", .stopped_by = "seconds", .evaluations = 7, .operators = 1});
}

static void say_exit(struct bench *b, int number)
{
    say(b, (struct mg_worker_event){.kind = MG_WORKER_EXIT, .signal = number, .errors = ""});
    settle(b);
}

/* ---- what is in the store ---- */

struct stored {
    char front[9], others[9]; /* first letters, sorted by the store */
    enum mg_job_state state;
    enum mg_job_stop stopped_by;
    int attempts;
    char error[300], best[20];
};

static void on_front(void *ctx, const struct mg_store_result *result)
{
    struct stored *stored = ctx;
    cr_assert_eq(result->code, MG_STORE_OK);
    for (size_t i = 0; i < result->n_points; i++) {
        bool front = result->points[i].kind == MG_POINT_FRONT;
        char *text = front ? stored->front : stored->others;
        const char *name = result->points[i].plan;
        text[strlen(text)] = name && *name ? *name : 'b';
    }
    stored->state = result->job->state;
    stored->stopped_by = result->job->stopped_by;
    stored->attempts = result->job->attempts;
    snprintf(stored->error, sizeof stored->error, "%s", result->job->error ? result->job->error : "");
    snprintf(stored->best, sizeof stored->best, "%s", result->job->best_plan);
}

static struct stored look(struct bench *b)
{
    struct stored stored = {{0}, {0}, MG_JOB_VALIDATING, MG_STOP_NONE, 0, {0}, {0}};
    mg_store_get_front(b->store, b->id, on_front, &stored);
    settle(b);
    return stored;
}

/* ---- points ---- */

Test(jobs, what_a_save_lost_comes_with_the_next)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    cr_assert_eq(self.started, 1);
    fail_at("INTO points", MG_STORE_FULL);
    say_point(&b, 'O');
    say_baseline(&b);
    say_point(&b, 'A');
    say_point(&b, 'B');
    say_front(&b, "AB");
    settle(&b);
    cr_expect_str_eq(look(&b).front, "");
    fail_at(NULL, MG_STORE_OK);
    say_point(&b, 'C');
    say_front(&b, "AC"); /* B was never stored, and is not */
    settle(&b);
    struct stored stored = look(&b);
    cr_expect_str_eq(stored.front, "AC");
    cr_expect_str_eq(stored.others, "Ob");
    say_front(&b, "CB");
    say_end(&b);
    say_exit(&b, 0);
    stored = look(&b);
    cr_expect_str_eq(stored.front, "BC");
    cr_expect_eq(stored.state, MG_JOB_SUCCEEDED);
    tear_down(&b);
}

Test(jobs, a_save_that_failed_is_made_again_without_news)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    fail_at("INTO points", MG_STORE_BUSY);
    say_point(&b, 'A');
    say_front(&b, "A");
    settle(&b);
    fail_at(NULL, MG_STORE_OK);
    tick(&b, 1);
    cr_expect_str_eq(look(&b).front, "A");
    tear_down(&b);
}

Test(jobs, an_end_takes_along_what_the_last_save_lost)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    say_point(&b, 'O');
    say_point(&b, 'A');
    say_front(&b, "A");
    settle(&b);
    fail_at("INTO points", MG_STORE_FULL);
    say_point(&b, 'B');
    say_front(&b, "B");
    say_end(&b);
    say_exit(&b, 0);
    cr_expect_eq(look(&b).state, MG_JOB_RUNNING);
    fail_at(NULL, MG_STORE_OK);
    tick(&b, 12);
    struct stored stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_SUCCEEDED);
    cr_expect_str_eq(stored.front, "B");
    cr_expect_str_eq(stored.best, "BBBBBBBBBBBBBBBB");
    cr_expect_eq(self.started, 1);
    tear_down(&b);
}

/* ---- ends ---- */

Test(jobs, a_result_that_was_not_stored_is_not_searched_again)
{
    struct bench b = {0};
    struct mg_jobs_stats stats;
    set_up(&b);
    submit(&b, "");
    say_point(&b, 'A');
    say_front(&b, "A");
    settle(&b);
    fail_at("ended_at = ?3", MG_STORE_FULL);
    say_end(&b);
    say_exit(&b, 0);
    tick(&b, 3);
    mg_jobs_stats(b.jobs, &stats);
    cr_expect_not(stats.store_ok);
    cr_expect_eq(look(&b).state, MG_JOB_RUNNING);
    fail_at(NULL, MG_STORE_OK);
    tick(&b, 12);
    mg_jobs_stats(b.jobs, &stats);
    cr_expect(stats.store_ok);
    struct stored stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_SUCCEEDED);
    cr_expect_eq(stored.stopped_by, MG_STOP_SECONDS);
    cr_expect_eq(stored.attempts, 1);
    cr_expect_eq(self.started, 1);
    cr_expect_eq(the_job(&b)->info.evaluations, 7);
    tear_down(&b);
}

Test(jobs, killed_at_its_deadline)
{
    for (int with_front = 0; with_front < 2; with_front++) {
        struct bench b = {0};
        set_up(&b);
        submit(&b, "");
        if (with_front) {
            say_point(&b, 'A');
            say_front(&b, "A");
        }
        the_job(&b)->deadline_at = 1;
        tick(&b, 1);
        cr_expect_eq(self.worker.stopped, 1);
        say_exit(&b, 9);
        struct stored stored = look(&b);
        cr_expect_eq(stored.state, with_front ? MG_JOB_SUCCEEDED : MG_JOB_FAILED);
        cr_expect_eq(stored.stopped_by, MG_STOP_DEADLINE);
        cr_expect_eq(stored.attempts, 1);
        cr_expect(with_front || strstr(stored.error, "/errors/deadline"), "%s", stored.error);
        tear_down(&b);
    }
}

Test(jobs, overdue_while_the_store_fails)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    b.id[0] = '\0';
    submit(&b, ""); /* waits behind the other */
    snprintf(b.id, sizeof b.id, "%s", b.jobs->first->info.id);
    the_job(&b)->deadline_at = 1;
    fail_at("ended_at = ?3", MG_STORE_BUSY);
    tick(&b, 2);
    cr_expect_eq(look(&b).state, MG_JOB_QUEUED);
    fail_at(NULL, MG_STORE_OK);
    tick(&b, 12);
    struct stored stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_FAILED);
    cr_expect(strstr(stored.error, "/errors/deadline"), "%s", stored.error);
    tear_down(&b);
}

Test(jobs, a_worker_that_does_not_leave)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    say_end(&b);
    settle(&b);
    for (unsigned i = 0; i < 5000 && !self.worker.killed; i++) /* the busier the machine, the longer */
        mg_jobs_tick(b.jobs);
    cr_expect_eq(self.worker.killed, 1);
    say_exit(&b, 9);
    cr_expect_eq(look(&b).state, MG_JOB_SUCCEEDED);
    tear_down(&b);
}

Test(jobs, a_worker_that_lives_is_left_alone)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, ", \"seconds\": 0, \"evaluations\": 5");
    for (unsigned i = 0; i < 1000; i++) {
        mg_jobs_tick(b.jobs);
        if (i % 50 == 0)
            say(&b, (struct mg_worker_event){.kind = MG_WORKER_ALIVE});
    }
    cr_expect_eq(self.worker.killed, 0);
    for (unsigned i = 0; i < 50000 && !self.worker.killed; i++)
        mg_jobs_tick(b.jobs);
    cr_expect_eq(self.worker.killed, 1, "one that is silent is not");
    say_exit(&b, 9);
    tear_down(&b);
}

Test(jobs, the_job_that_was_updated_is_not_forgotten)
{
    struct bench b = {0};
    struct mg_store_job info = {.state = MG_JOB_RUNNING};
    set_up(&b);
    strcpy(info.id, "oldest");
    mg_jobs_update(b.jobs, &info);
    info.state = MG_JOB_SUCCEEDED;
    for (unsigned i = 0; i < MG_RECENT_JOBS + 2; i++) {
        snprintf(info.id, sizeof info.id, "%u", i);
        mg_jobs_update(b.jobs, &info);
    }
    cr_expect_null(mg_jobs_find(b.jobs, "0"));
    strcpy(info.id, "oldest");
    const struct mg_job *job = mg_jobs_update(b.jobs, &info);
    cr_expect_eq(job, mg_jobs_find(b.jobs, "oldest"));
    tear_down(&b);
}

static void on_drained(void *context)
{
    (void)context;
}

Test(jobs, hurry_kills_workers_that_have_ended)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    say_end(&b);
    settle(&b);
    mg_jobs_drain(b.jobs, on_drained, NULL);
    cr_expect_eq(self.worker.killed, 0);
    mg_jobs_drain(b.jobs, on_drained, NULL);
    cr_expect_eq(self.worker.killed, 1);
    say_exit(&b, 9);
    tear_down(&b);
}

/* ---- what is around a job fails it ---- */

/* Its pause is over. */
static void try_again(struct bench *b)
{
    the_job(b)->not_before = 0;
    b->jobs->last_death = 0;
    tick(b, 1);
}

Test(jobs, a_worker_that_cannot_be_started)
{
    struct bench b = {0};
    struct mg_jobs_stats stats;
    set_up(&b);
    self.refused = true;
    submit(&b, "");
    tick(&b, 5);
    struct stored stored = look(&b);
    cr_expect_eq(self.started, 1, "not at once again");
    cr_expect_eq(stored.state, MG_JOB_QUEUED);
    cr_expect_eq(stored.attempts, 0);
    for (unsigned i = 0; i < 9; i++)
        try_again(&b);
    cr_expect_eq(self.started, 10);
    mg_jobs_stats(b.jobs, &stats);
    cr_expect_eq(stats.put_off, 10);
    cr_expect_eq(stats.worker_deaths, 0);
    cr_expect_not(stats.claiming);
    self.refused = false;
    try_again(&b);
    say_end(&b);
    say_exit(&b, 0);
    stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_SUCCEEDED);
    cr_expect_eq(stored.attempts, 1);
    tear_down(&b);
}

Test(jobs, one_that_never_starts_ends)
{
    for (int with_deadline = 0; with_deadline < 2; with_deadline++) {
        struct bench b = {0};
        set_up(&b);
        self.refused = true;
        submit(&b, "");
        if (with_deadline) {
            the_job(&b)->deadline_at = 1;
            tick(&b, 1);
        } else {
            for (unsigned i = 1; i < MG_PUT_OFF_MAX; i++) {
                cr_assert_eq(the_job(&b)->info.state, MG_JOB_QUEUED);
                try_again(&b);
            }
            cr_expect_eq(self.started, MG_PUT_OFF_MAX);
        }
        struct stored stored = look(&b);
        cr_expect_eq(stored.state, MG_JOB_FAILED);
        cr_expect_eq(stored.stopped_by, with_deadline ? MG_STOP_DEADLINE : MG_STOP_NONE);
        cr_expect(strstr(stored.error, with_deadline ? "could be started" : "/spool: not a directory"), "%s",
                  stored.error);
        tear_down(&b);
    }
}

/* One whose start fails does not stand in the way of others. */
Test(jobs, others_go_first)
{
    struct bench b = {0};
    char second[16];
    set_up(&b);
    self.refused = true;
    submit(&b, "");
    snprintf(second, sizeof second, "%s", b.id);
    self.refused = false;
    b.id[0] = '\0';
    submit(&b, "");
    cr_expect_eq(look(&b).state, MG_JOB_RUNNING);
    say_end(&b);
    say_exit(&b, 0);
    snprintf(b.id, sizeof b.id, "%s", second);
    tick(&b, 2);
    cr_expect_eq(look(&b).state, MG_JOB_QUEUED, "its pause is not over");
    try_again(&b);
    cr_expect_eq(look(&b).state, MG_JOB_RUNNING);
    tear_down(&b);
}

Test(jobs, work_that_cannot_be_read)
{
    struct bench b = {0};
    set_up(&b);
    fail_at("FROM graphs", MG_STORE_IO);
    submit(&b, "");
    tick(&b, 5);
    for (unsigned i = 0; i < 3; i++)
        try_again(&b);
    cr_expect_eq(self.started, 0);
    struct stored stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_QUEUED);
    cr_expect_eq(stored.attempts, 0);
    fail_at(NULL, MG_STORE_OK);
    try_again(&b);
    cr_expect_eq(look(&b).state, MG_JOB_RUNNING);
    tear_down(&b);
}

Test(jobs, work_that_is_damaged)
{
    struct bench b = {0};
    set_up(&b);
    fail_at("FROM graphs", MG_STORE_CORRUPT);
    submit(&b, "");
    cr_expect_eq(self.started, 0);
    struct stored stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_FAILED);
    cr_expect(strstr(stored.error, "/errors/store-failed"), "%s", stored.error);
    tear_down(&b);
}

static void say_error(struct bench *b, const char *code)
{
    say(b, (struct mg_worker_event){.kind = MG_WORKER_ERROR, .code = code, .pointer = "", .message = "No space left"});
}

Test(jobs, no_place_for_what_is_found)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    say_point(&b, 'A');
    say_front(&b, "A");
    say_error(&b, MG_WORKER_NO_SPOOL);
    say_exit(&b, 0);
    tick(&b, 3);
    struct stored stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_QUEUED);
    cr_expect_str_eq(stored.front, "A");
    cr_expect_eq(self.started, 1);
    try_again(&b);
    cr_assert_eq(self.started, 2);
    say_error(&b, MG_WORKER_SPOOL_FULL);
    say_exit(&b, 0);
    stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_FAILED, "where the job takes too much, that is its fault");
    cr_expect_eq(stored.attempts, 2);
    cr_expect(strstr(stored.error, "/errors/no-space"), "%s", stored.error);
    tear_down(&b);
}

/* Its points and plans are not forgotten where they cannot be read for once. */
Test(jobs, an_earlier_attempt_that_cannot_be_read)
{
    static const char *const reads[] = {"ORDER BY CASE p.kind", "SELECT data FROM plans"};
    for (unsigned i = 0; i < 2; i++) {
        struct bench b = {0};
        set_up(&b);
        submit(&b, "");
        say(&b, (struct mg_worker_event){.kind = MG_WORKER_PROGRESS, .elapsed_s = 2});
        say_point(&b, 'B');
        say_front(&b, "B");
        settle(&b);
        fail_once(reads[i], MG_STORE_IO);
        say_exit(&b, 9);
        cr_assert_eq(self.started, 1, "it does not start without");
        cr_expect_eq(self.faults, 0);
        try_again(&b);
        cr_assert_eq(self.started, 2);
        cr_expect_eq(self.start_count, 1);
        say_point(&b, 'A');
        say_front(&b, "A");
        settle(&b);
        cr_expect_str_eq(look(&b).front, "AB");
        cr_expect_eq(look(&b).attempts, 2);
        say_exit(&b, 9);
        tear_down(&b);
    }
}

/* ---- coming in ---- */

static void on_validating(void *ctx, const struct mg_store_result *result)
{
    struct bench *b = ctx;
    cr_assert_eq(result->code, MG_STORE_OK);
    snprintf(b->id, sizeof b->id, "%s", result->job->id);
}

Test(jobs, a_body_is_read_again_until_its_job_is_stored)
{
    struct bench b = {0};
    const struct mg_store_submission submission = {
        .state = MG_JOB_VALIDATING, .body = {"{}", 2}, .body_type = "application/json"};
    open_store(&b);
    mg_store_submit(b.store, &submission, on_validating, &b);
    settle(&b);
    open_jobs(&b);
    cr_assert_eq(self.asked, 1);
    tick(&b, 12);
    cr_expect_eq(self.asked, 1, "while intake has it, it is not asked again");
    fail_at("state = 'queued', revision", MG_STORE_BUSY);
    intake_answers(&b, "");
    fail_at(NULL, MG_STORE_OK);
    cr_expect_eq(look(&b).state, MG_JOB_VALIDATING);
    tick(&b, 12);
    cr_assert_eq(self.asked, 2);
    intake_answers(&b, "");
    cr_expect_eq(look(&b).state, MG_JOB_RUNNING);
    tear_down(&b);
}

Test(jobs, a_result_that_cannot_be_copied_is_searched_for)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, ", \"reuse_key\": \"k\"");
    say_point(&b, 'A');
    say_front(&b, "A");
    say_end(&b);
    say_exit(&b, 0);
    cr_assert_eq(look(&b).state, MG_JOB_SUCCEEDED);
    b.id[0] = '\0';
    fail_at("INTO points (job, kind, series, plan, reason, latency_s, peak, arena, host, techniques, replaced_by",
            MG_STORE_FULL);
    submit(&b, ", \"reuse_key\": \"k\"");
    cr_assert_not_null(mg_jobs_find(b.jobs, b.id));
    fail_at(NULL, MG_STORE_OK);
    settle(&b);
    cr_expect_eq(look(&b).state, MG_JOB_RUNNING);
    cr_expect_eq(self.started, 2);
    b.id[0] = '\0';
    submit(&b, ", \"reuse_key\": \"k\"");
    cr_expect_eq(look(&b).state, MG_JOB_SUCCEEDED, "where it can, it is copied");
    say_end(&b);
    say_exit(&b, 0);
    tear_down(&b);
}

/* ---- timings, events, what was waited ---- */

Test(jobs, measured_prices_that_cannot_be_read)
{
    struct bench b = {0};
    set_up(&b);
    fail_at("timing_classes", MG_STORE_IO);
    submit(&b, ", \"timings_models\": [\"m\"], \"require_measured\": true");
    struct mg_job *job = the_job(&b);
    job->measured = MG_TIMINGS_THERE;
    mg_jobs_schedule(b.jobs);
    settle(&b);
    tick(&b, 3);
    fail_at(NULL, MG_STORE_OK);
    cr_expect_eq(self.started, 0, "not by the model");
    struct stored stored = look(&b);
    cr_expect_eq(stored.attempts, 0, "no worker: no attempt");
    cr_expect_eq(stored.state, MG_JOB_QUEUED);
    cr_expect_eq(job->put_off, 1, "not at once either");
    job->deadline_at = 1;
    tick(&b, 1);
    stored = look(&b);
    cr_expect_eq(stored.state, MG_JOB_FAILED);
    cr_expect_eq(stored.stopped_by, MG_STOP_DEADLINE);
    tear_down(&b);
}

struct heard {
    char types[200], front[2000]; /* front: data of the newest event of this kind */
    unsigned last;
};

static void on_event(void *context, const struct mg_event *event)
{
    struct heard *heard = context;
    snprintf(heard->types + strlen(heard->types), 20, "%s ", event->type);
    heard->last += event->last;
    if (strcmp(event->type, "front") == 0)
        snprintf(heard->front, sizeof heard->front, "%s", event->data);
}

static void say_baseline_point(struct bench *b, char name)
{
    say(b, (struct mg_worker_event){.kind = MG_WORKER_POINT,
                                    .series = "dtr",
                                    .point = point(name),
                                    .blob = "blob",
                                    .blob_size = 4,
                                    .spooled = {0, 4, 0}});
}

Test(jobs, points_of_baselines_are_told_apart)
{
    struct bench b = {0};
    struct heard heard = {{0}, {0}, 0};
    set_up(&b);
    submit(&b, "");
    const char *id = b.id;
    mg_jobs_listen(b.jobs, &id, 1, -1, on_event, &heard);
    settle(&b);
    fail_at("INTO points", MG_STORE_BUSY);
    say_point(&b, 'O');
    say_point(&b, 'A');
    settle(&b);
    fail_at(NULL, MG_STORE_OK);
    say_front(&b, "A"); /* goes with the original */
    settle(&b);
    cr_expect(strstr(heard.front, "\"added\"") && !strstr(heard.front, "\"baseline\""), "%s", heard.front);
    fail_at("INTO points", MG_STORE_BUSY);
    say_baseline(&b); /* without points */
    say_baseline_point(&b, 'C');
    say_baseline_point(&b, 'D');
    settle(&b);
    fail_at(NULL, MG_STORE_OK);
    say(&b, (struct mg_worker_event){.kind = MG_WORKER_BASELINE, .name = "dtr"});
    settle(&b);
    cr_expect_str_eq(heard.front, "{\"baseline\":true,\"points\":2}");
    tear_down(&b);
}

Test(jobs, events_that_cannot_be_read)
{
    struct bench b = {0};
    struct heard heard = {{0}, {0}, 0};
    set_up(&b);
    submit(&b, "");
    const char *id = b.id;
    fail_at("FROM points", MG_STORE_IO);
    mg_jobs_listen(b.jobs, &id, 1, -1, on_event, &heard);
    settle(&b);
    cr_expect_str_eq(heard.types, "failed ");
    cr_expect_eq(heard.last, 1);
    memset(&heard, 0, sizeof heard);
    fail_at("FROM events", MG_STORE_IO);
    mg_jobs_listen(b.jobs, &id, 1, 0, on_event, &heard);
    settle(&b);
    cr_expect_str_eq(heard.types, "snapshot failed ");
    cr_expect_eq(heard.last, 1);
    fail_at(NULL, MG_STORE_OK);
    memset(&heard, 0, sizeof heard);
    id = "nosuchjob000";
    mg_jobs_listen(b.jobs, &id, 1, 0, on_event, &heard);
    settle(&b);
    cr_expect_str_eq(heard.types, "missing ");
    tear_down(&b);
}

/* Of several jobs: whoever follows them is not left with the others' events as if all were well. */
Test(jobs, events_of_one_that_cannot_be_read)
{
    struct bench b = {0};
    struct heard heard = {{0}, {0}, 0};
    char first[16];
    set_up(&b);
    submit(&b, "");
    snprintf(first, sizeof first, "%s", b.id);
    b.id[0] = '\0';
    submit(&b, ""); /* waits behind it */
    const char *ids[] = {first, b.id};
    struct mg_jobs_stats stats;
    fail_once("FROM events", MG_STORE_IO);
    mg_jobs_listen(b.jobs, ids, 2, -1, on_event, &heard);
    settle(&b);
    cr_expect(strstr(heard.types, " failed ") && !strstr(heard.types, "failed s"), "%s", heard.types);
    cr_expect_eq(heard.last, 1);
    mg_jobs_stats(b.jobs, &stats);
    cr_expect_eq(stats.listeners, 0);
    memset(&heard, 0, sizeof heard);
    mg_jobs_listen(b.jobs, ids, 2, -1, on_event, &heard);
    settle(&b);
    cr_expect_str_eq(heard.types, "snapshot snapshot ", "%s", heard.types);
    tear_down(&b);
}

Test(jobs, what_was_waited_counts_after_a_stop)
{
    struct bench b = {0};
    set_up(&b);
    submit(&b, "");
    int64_t since = the_job(&b)->info.queued_at;
    mg_jobs_drain(b.jobs, on_drained, NULL);
    usleep(5000);
    say(&b, (struct mg_worker_event){.kind = MG_WORKER_END, .outcome = "front", .stopped_by = "cancelled"});
    say_exit(&b, 0);
    cr_expect_eq(look(&b).state, MG_JOB_QUEUED);
    cr_expect_eq(the_job(&b)->info.queued_at, since);
    tear_down(&b);
}
