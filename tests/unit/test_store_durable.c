/* What the store survives: kill -9 at every step of a transaction, faults at every step, old and damaged files, a
 * second daemon; and that it stays right under many writers and while lists are paged. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/measured.h"
#include "store/store_priv.h"
#include "store_util.h"

#define A "aaaaaaaaaaaa"
#define B "bbbbbbbbbbbb"
#define P0 "0000000000000000"
#define P1 "1111111111111111"
#define P2 "2222222222222222"

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_release(&f);
}

TestSuite(store_durable, .init = setup, .fini = teardown);

static void open_ok(void)
{
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

static void path_in(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", f.dir, name);
}

/* A connection beside the store's, for looking and for damage. */
static sqlite3 *raw_open(void)
{
    char path[128];
    sqlite3 *db;
    path_in(path, sizeof path, "store.db");
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 1000);
    return db;
}

static int64_t raw_int(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt;
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
    cr_assert_eq(sqlite3_step(stmt), SQLITE_ROW, "%s", sql);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

static void raw_exec(const char *sql)
{
    sqlite3 *db = raw_open();
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* ---- kill -9 ---- */

/* In the child: lets `left` steps pass, then says so on `fd` and stops for ever. */
struct stall {
    int left, fd;
};

static enum mg_store_code stall_at(void *ctx, const char *what)
{
    struct stall *stall = ctx;
    (void)what;
    if (__atomic_sub_fetch(&stall->left, 1, __ATOMIC_SEQ_CST) == 0) {
        if (write(stall->fd, "s", 1) != 1) {
            _exit(3);
        }
        for (;;) {
            pause();
        }
    }
    return MG_STORE_OK;
}

static void done_cb(void *ctx, const struct mg_store_result *result)
{
    int fd = *(int *)ctx;
    if (result->code != MG_STORE_OK || write(fd, "d", 1) != 1) {
        _exit(4);
    }
}

static void child_submit(struct fixture *child, const char *id)
{
    struct mg_store_submission s = any_submission(id);
    mg_store_submit(child->store, &s, got_cb, &child->got);
    fixture_wait(child);
    if (child->got.code != MG_STORE_OK) {
        _exit(5);
    }
}

/* Submits A, then stalls at the n-th step of submitting B; or says that B is done. */
static void child_stalls(int n, int fd)
{
    struct stall stall = {1 << 30, fd};
    f.fault = stall_at;
    f.fault_ctx = &stall;
    if (fixture_open(&f) != MG_STORE_OK) {
        _exit(2);
    }
    child_submit(&f, A);
    __atomic_store_n(&stall.left, n, __ATOMIC_SEQ_CST);
    struct mg_store_submission s = any_submission(B);
    mg_store_submit(f.store, &s, done_cb, &fd);
    for (;;) {
        if (mg_store_poll(f.store) == 0) {
            usleep(500);
        }
    }
}

/* What the child said before it was killed: 's' stalled, 'd' done. */
static char run_and_kill(int n)
{
    int fds[2];
    char said = 0;
    cr_assert_eq(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        child_stalls(n, fds[1]);
    }
    close(fds[1]);
    cr_assert_eq(read(fds[0], &said, 1), 1);
    kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, 0);
    cr_assert(WIFSIGNALED(status));
    close(fds[0]);
    return said;
}

Test(store_durable, kill_at_each_step_loses_nothing_that_was_promised)
{
    char said = 's';
    int n = 0;
    while (said == 's') {
        cr_assert_lt(n++, 60);
        said = run_and_kill(n);
        open_ok();
        cr_assert(f.store->unclean);
        cr_assert_eq(DO(&f, get_work, A)->code, MG_STORE_OK, "step %d", n);
        bool there = DO(&f, get_job, B)->code == MG_STORE_OK;
        cr_assert_eq(there, said == 'd', "step %d: B is %s", n, there ? "there" : "not there");
        sqlite3 *db = raw_open();
        int64_t jobs = there ? 2 : 1;
        cr_assert_eq(raw_int(db, "SELECT count(*) FROM jobs"), jobs);
        cr_assert_eq(raw_int(db, "SELECT count(*) FROM requests"), jobs);
        cr_assert_eq(raw_int(db, "SELECT count(*) FROM events"), jobs);
        cr_assert_eq(raw_int(db, "SELECT count(*) FROM labels"), jobs);
        sqlite3_close(db);
        cr_assert_eq(DO(&f, cancel, A)->code, MG_STORE_OK);
        cr_assert_eq(DO(&f, delete, A)->code, MG_STORE_OK);
        mg_store_close(f.store);
        f.store = NULL;
    }
    cr_assert_gt(n, 8);
}

static void number_cb(void *ctx, const struct mg_store_result *result)
{
    char line[MG_JOB_ID_LEN];
    if (result->code == MG_STORE_OK) {
        memcpy(line, result->job->id, sizeof line);
        if (write(*(int *)ctx, line, sizeof line) != (ssize_t)sizeof line) {
            _exit(3);
        }
    }
}

static void child_submits_for_ever(int fd)
{
    if (fixture_open(&f) != MG_STORE_OK) {
        _exit(2);
    }
    for (;;) {
        struct mg_store_submission s = any_submission(NULL);
        mg_store_submit(f.store, &s, number_cb, &fd);
        while (mg_store_pending(f.store) > 20) {
            mg_store_poll(f.store);
            usleep(200);
        }
    }
}

Test(store_durable, kill_under_load_loses_nothing_acknowledged)
{
    static char ids[300][MG_JOB_ID_LEN + 1];
    int fds[2], n = 0;
    cr_assert_eq(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        child_submits_for_ever(fds[1]);
    }
    close(fds[1]);
    while (n < 300 && read(fds[0], ids[n], MG_JOB_ID_LEN) == MG_JOB_ID_LEN) {
        n++;
        if (n == 250) {
            kill(pid, SIGKILL);
        }
    }
    waitpid(pid, NULL, 0);
    cr_assert_geq(n, 250);
    open_ok();
    for (int i = 0; i < n; i++) {
        cr_assert_eq(DO(&f, get_job, ids[i])->code, MG_STORE_OK, "%s", ids[i]);
    }
}

/* In a child: recovers, claims A if it is queued, dies. */
static void start_and_die(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (fixture_open(&f) != MG_STORE_OK) {
            _exit(2);
        }
        mg_store_recover(f.store, got_cb, &f.got);
        fixture_wait(&f);
        mg_store_claim(f.store, A, 0, got_cb, &f.got);
        fixture_wait(&f);
        raise(SIGKILL);
    }
    int status;
    waitpid(pid, &status, 0);
    cr_assert(WIFSIGNALED(status));
}

Test(store_durable, third_unclean_start_fails_the_job)
{
    open_ok();
    submit_any(&f, A);
    mg_store_close(f.store);
    for (int i = 1; i <= 3; i++) {
        start_and_die();
        open_ok();
        const struct got *got = DO0(&f, recover);
        cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
        cr_assert_eq(got->n_jobs, 1);
        got = DO(&f, get_job, A);
        cr_assert_eq(got->job.unclean_starts, i);
        cr_assert_eq(got->job.attempts, i);
        cr_assert_eq(got->job.state, i < 3 ? MG_JOB_QUEUED : MG_JOB_FAILED);
        mg_store_close(f.store);
        f.store = NULL;
    }
    open_ok();
    cr_assert_not_null(strstr(DO(&f, get_job, A)->error, "unclean-stops"));
    cr_assert_not_null(strstr(DO(&f, get_job, A)->error, "\"detail\":"), "it says what to do");
}

/* ---- faults ---- */

struct faults {
    int left;                /* steps that pass */
    bool once;               /* one step fails, not all from there on */
    const char *only;        /* count only statements that contain this */
    enum mg_store_code code; /* OK: off */
};

static enum mg_store_code fail_at(void *ctx, const char *what)
{
    struct faults *faults = ctx;
    if (faults->code == MG_STORE_OK || (faults->only && !strstr(what, faults->only))) {
        return MG_STORE_OK;
    }
    if (faults->left > 0) {
        faults->left--;
        return MG_STORE_OK;
    }
    enum mg_store_code code = faults->code;
    faults->code = faults->once ? MG_STORE_OK : code;
    return code;
}

static struct faults faults;

static void open_with_faults(void)
{
    faults = (struct faults){.code = MG_STORE_OK};
    f.fault = fail_at;
    f.fault_ctx = &faults;
    open_ok();
}

/* A hash of every row of every table. */
static uint64_t dump_hash(void)
{
    static const char *const tables[] = {"graphs", "jobs",  "labels", "requests",   "bodies",
                                         "points", "plans", "events", "idempotency"};
    sqlite3 *db = raw_open();
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[64];
        sqlite3_stmt *stmt;
        snprintf(sql, sizeof sql, "SELECT * FROM %s", tables[i]);
        cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            for (int c = 0; c < sqlite3_column_count(stmt); c++) {
                const unsigned char *text = sqlite3_column_blob(stmt, c);
                for (int k = 0; k < sqlite3_column_bytes(stmt, c); k++) {
                    hash = (hash ^ text[k]) * 1099511628211u;
                }
                hash = (hash ^ 255) * 1099511628211u;
            }
        }
        sqlite3_finalize(stmt);
    }
    sqlite3_close(db);
    return hash;
}

static struct mg_store_point saved_points[3];

static void start_submit(void)
{
    struct mg_store_submission s = any_submission(B);
    s.idempotency_key = "key";
    mg_store_submit(f.store, &s, got_cb, &f.got);
}

static void start_validating(void)
{
    struct mg_store_submission s = any_submission(A);
    s.state = MG_JOB_VALIDATING;
    s.normal = NULL;
    s.body = (struct mg_blob){"body", 4};
    mg_store_submit(f.store, &s, got_cb, &f.got);
}

static void start_accept(void)
{
    mg_store_accept(f.store, A, &any_request, got_cb, &f.got);
}

static void start_claim(void)
{
    mg_store_claim(f.store, A, 0, got_cb, &f.got);
}

static void start_crash(void)
{
    mg_store_requeue(f.store, A, MG_REQUEUE_CRASH, "{}", got_cb, &f.got);
}

static void start_save(void)
{
    struct mg_store_points p = {.points = saved_points,
                                .n_points = 3,
                                .progress = &(struct mg_store_progress){.evaluations = 3, .best = P1},
                                .event = "{}"};
    mg_store_save_points(f.store, A, &p, got_cb, &f.got);
}

static void start_replace(void)
{
    struct mg_store_points p = {.replaced = &(struct mg_store_replacement){P1, P2}, .n_replaced = 1};
    mg_store_save_points(f.store, A, &p, got_cb, &f.got);
}

static void start_finish(void)
{
    struct mg_store_outcome end = {.state = MG_JOB_SUCCEEDED,
                                   .outcome = MG_JOB_OUTCOME_MET,
                                   .stopped_by = MG_STOP_SECONDS,
                                   .best = P2,
                                   .reproducible = true};
    mg_store_finish(f.store, A, &end, NULL, got_cb, &f.got);
}

static void start_patch(void)
{
    mg_store_patch(f.store, A, "new", "{\"a\":\"b\",\"c\":\"d\"}", got_cb, &f.got);
}

static void start_reuse(void)
{
    mg_store_reuse(f.store, B, A, got_cb, &f.got);
}

static void start_retry(void)
{
    mg_store_retry(f.store, A, "o", "t", got_cb, &f.got);
}

static void start_recover(void)
{
    mg_store_recover(f.store, got_cb, &f.got);
}

static void start_delete(void)
{
    mg_store_delete(f.store, A, got_cb, &f.got);
}

static void start_expire(void)
{
    mg_store_expire(f.store, -1, 1, 10, got_cb, &f.got);
}

/* One life of a job; each line works on what the lines before left. */
static void (*const life[])(void) = {start_validating, start_accept,  start_claim,   start_crash,  start_claim,
                                     start_save,       start_replace, start_finish,  start_submit, start_reuse,
                                     start_patch,      start_retry,   start_recover, start_delete, start_expire};

static const struct got *run(void (*start)(void))
{
    memset(&f.got, 0, sizeof f.got);
    start();
    return fixture_result(&f);
}

static void set_points(void)
{
    saved_points[0] = any_point(MG_POINT_ORIGINAL, P0, 1.0, 1000);
    saved_points[1] = any_point(MG_POINT_FRONT, P1, 1.1, 500);
    saved_points[2] = any_point(MG_POINT_FRONT, P2, 1.2, 300);
}

static void every_step_fails(enum mg_store_code code)
{
    set_points();
    open_with_faults();
    for (size_t i = 0; i < sizeof life / sizeof *life; i++) {
        uint64_t before = dump_hash();
        int n = 0;
        for (;; n++) {
            faults = (struct faults){.left = n, .code = code};
            enum mg_store_code got = run(life[i])->code;
            bool reached = faults.left == 0;
            faults.code = MG_STORE_OK;
            if (got == MG_STORE_OK) {
                cr_assert_not(reached && n == 0, "operation %zu: no step was asked", i);
                break;
            }
            cr_assert_eq(got, code, "operation %zu, step %d: %s", i, n, f.got.message);
            cr_assert_eq(f.got.calls, 1);
            cr_assert_not(f.got.has_job || f.got.n_events);
            cr_assert_eq(dump_hash(), before, "operation %zu, step %d left something", i, n);
            cr_assert_lt(n, 200);
        }
        cr_assert_gt(n, 2);
        if (life[i] != start_recover) {
            cr_assert_neq(dump_hash(), before, "operation %zu did nothing", i);
        }
    }
}

Test(store_durable, every_step_out_of_space)
{
    every_step_fails(MG_STORE_FULL);
}

Test(store_durable, every_step_failing_disk)
{
    every_step_fails(MG_STORE_IO);
}

Test(store_durable, every_step_an_error_that_keeps_the_transaction)
{
    every_step_fails(MG_STORE_INTERNAL);
}

/* A fault that passes: the transaction is lost, the operation is run again and succeeds. */
Test(store_durable, one_lost_transaction_is_run_again)
{
    set_points();
    open_with_faults();
    for (size_t i = 0; i < sizeof life / sizeof *life; i++) {
        faults = (struct faults){.left = 3, .once = true, .code = MG_STORE_FULL};
        const struct got *got = run(life[i]);
        cr_assert_eq(got->code, MG_STORE_OK, "operation %zu: %s", i, got->message);
        cr_assert_eq(faults.code, MG_STORE_OK, "the fault struck");
    }
}

Test(store_durable, a_bad_neighbour_fails_alone)
{
    static struct got got[9];
    char id[32];
    open_with_faults();
    faults = (struct faults){.code = MG_STORE_FULL, .only = "INSERT INTO bodies"};
    memset(got, 0, sizeof got);
    for (int i = 0; i < 9; i++) {
        snprintf(id, sizeof id, "aaaaaaaaaaa%d", i);
        struct mg_store_submission s = any_submission(id);
        if (i == 4) {
            s.state = MG_JOB_VALIDATING;
            s.normal = NULL;
        }
        mg_store_submit(f.store, &s, got_cb, &got[i]);
    }
    fixture_wait(&f);
    for (int i = 0; i < 9; i++) {
        cr_assert_eq(got[i].calls, 1);
        cr_assert_eq(got[i].code, i == 4 ? MG_STORE_FULL : MG_STORE_OK, "%d: %s", i, got[i].message);
        cr_assert_eq(got[i].code != MG_STORE_OK || got[i].n_events == 1, true);
    }
    cr_assert_eq(DO0(&f, get_stats)->stats.jobs[MG_JOB_QUEUED], 8);
}

Test(store_durable, reads_fail_whole)
{
    open_with_faults();
    submit_any(&f, A);
    for (int n = 0; n < 2; n++) {
        faults = (struct faults){.left = n, .code = MG_STORE_IO};
        const struct got *got = DO(&f, get_job, A);
        cr_assert_eq(got->code, MG_STORE_IO);
        cr_assert_not(got->has_job);
    }
    faults.code = MG_STORE_OK;
    cr_assert_eq(DO(&f, get_job, A)->code, MG_STORE_OK);
}

/* ---- many ---- */

static void submit_many(int n)
{
    for (int i = 0; i < n; i++) {
        struct mg_store_submission s = any_submission(NULL);
        s.labels = NULL;
        mg_store_submit(f.store, &s, NULL, NULL);
    }
    fixture_wait(&f);
}

/* Pages through the list while jobs come in; returns how many of numbers 1..n were seen, each once. */
static int page_through(bool reverse, int64_t n, int64_t *others)
{
    struct mg_store_query q = {.limit = 200, .reverse = reverse};
    char cursor[64];
    int64_t last = reverse ? 0 : INT64_MAX;
    int seen = 0;
    *others = 0;
    for (;;) {
        const struct got *got = DO(&f, list_jobs, &q);
        cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
        for (size_t i = 0; i < got->n_jobs; i++) {
            cr_assert(reverse ? got->numbers[i] > last : got->numbers[i] < last);
            last = got->numbers[i];
            seen += last <= n;
            *others += last > n;
        }
        if (!got->has_next) {
            return seen;
        }
        snprintf(cursor, sizeof cursor, "%s", got->next);
        q.cursor = cursor;
        if (*others < 50) {
            submit_many(3);
        }
    }
}

Test(store_durable, paging_ten_thousand_jobs_is_stable_under_inserts)
{
    int64_t others;
    open_ok();
    submit_many(10000);
    cr_assert_eq(page_through(false, 10000, &others), 10000);
    cr_assert_eq(others, 0, "newer jobs lie before the first page");
    cr_assert_eq(page_through(true, 10000, &others), 10000);
    cr_assert_gt(others, 0, "newer jobs come last");
    struct mg_store_query q = {.limit = 200, .sort = MG_SORT_PEAK};
    cr_assert_eq(DO(&f, list_jobs, &q)->n_jobs, 200);
}

static void *submitter(void *arg)
{
    struct got *got = arg;
    for (int i = 0; i < 50; i++) {
        struct mg_store_submission s = any_submission(NULL);
        mg_store_submit(f.store, &s, got_cb, &got[i]);
    }
    return NULL;
}

Test(store_durable, concurrent_submits)
{
    enum { THREADS = 8 };
    struct got *got = calloc(THREADS * 50, sizeof *got);
    pthread_t threads[THREADS];
    open_ok();
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, submitter, got + i * 50), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    fixture_wait(&f);
    for (int i = 0; i < THREADS * 50; i++) {
        cr_assert_eq(got[i].calls, 1);
        cr_assert_eq(got[i].code, MG_STORE_OK, "%s", got[i].message);
        cr_assert(i % 50 == 0 || got[i].job.number > got[i - 1].job.number, "a thread's order is kept");
    }
    cr_assert_eq(DO0(&f, get_stats)->stats.jobs[MG_JOB_QUEUED], THREADS * 50);
    free(got);
}

/* ---- files ---- */

Test(store_durable, promises_are_synced_and_progress_is_not)
{
    struct mg_store_points p = {.progress = &(struct mg_store_progress){.evaluations = 1}};
    open_ok();
    submit_any(&f, A);
    cr_assert(f.store->writer.synced);
    DO(&f, claim, A, 0);
    DO(&f, save_points, A, &p);
    cr_assert_not(f.store->writer.synced);
    cr_assert_eq(mg_db_pragma(&f.store->writer, "PRAGMA synchronous"), 1);
    DO(&f, cancel, A);
    cr_assert(f.store->writer.synced);
    cr_assert_eq(mg_db_pragma(&f.store->writer, "PRAGMA synchronous"), 2);
}

static long long size_of(const char *name)
{
    char path[128];
    struct stat st;
    path_in(path, sizeof path, name);
    return stat(path, &st) == 0 ? (long long)st.st_size : 0;
}

enum { BODY = 1 << 20 };

static void submit_bodies(int n)
{
    char *body = malloc(BODY);
    memset(body, 'x', BODY);
    for (int i = 0; i < n; i++) {
        struct mg_store_submission s = {
            .state = MG_JOB_VALIDATING, .priority = MG_PRIORITY_NORMAL, .body = {body, BODY}, .body_type = "x"};
        cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_OK);
    }
    free(body);
}

/* When nothing comes, a log of 1000 pages is folded in, and then it begins anew. */
Test(store_durable, the_log_is_folded_in_when_it_is_quiet)
{
    enum { BODIES = 6, ROUNDS = 4 };
    open_ok();
    for (int i = 1; i <= ROUNDS; i++) {
        submit_bodies(BODIES);
        while (size_of("store.db") < (long long)i * BODIES * BODY) {
            usleep(1000); /* the suite's time limit ends it */
        }
    }
    cr_assert_lt(size_of("store.db-wal"), 2LL * BODIES * BODY);
}

/* While there is always more, it is at 8000 pages. */
Test(store_durable, the_log_stays_small)
{
    open_ok();
    submit_bodies(80);
    cr_assert_lt(size_of("store.db-wal"), 40LL * BODY);
    cr_assert_gt(size_of("store.db"), 20LL * BODY);
}

Test(store_durable, file_is_set_up_as_meant)
{
    open_ok();
    sqlite3 *db = raw_open();
    cr_assert_eq(raw_int(db, "PRAGMA auto_vacuum"), 2);
    cr_assert_eq(raw_int(db, "PRAGMA application_id"), MG_STORE_APPLICATION_ID);
    cr_assert_eq(raw_int(db, "PRAGMA user_version"), mg_store_version);
    cr_assert_eq(raw_int(db, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%'"
                             " AND NOT strict"),
                 0);
    sqlite3_close(db);
    cr_assert_eq(mg_db_pragma(&f.store->writer, "PRAGMA foreign_keys"), 1);
    cr_assert_eq(mg_db_exec(&f.store->reader, "DELETE FROM jobs"), MG_STORE_IO, "the reader cannot write");
    mg_store_close(f.store);
    f.store = NULL;
    char path[128];
    struct stat st;
    path_in(path, sizeof path, "store.db-wal");
    cr_assert(stat(path, &st) != 0 || st.st_size == 0, "the log is folded in at a clean stop");
}

/* A fixture of its own over the same directory. */
static void open_beside(struct fixture *beside)
{
    fixture_init(beside);
    rmdir(beside->dir);
    snprintf(beside->dir, sizeof beside->dir, "%s", f.dir);
    beside->read_only = true;
    cr_assert_eq(fixture_open(beside), MG_STORE_OK, "%s", beside->got.message);
}

Test(store_durable, who_only_reads_may_be_a_second_one)
{
    struct fixture beside;
    struct mg_store_submission a = any_submission(A), b = any_submission(B);
    open_ok();
    DO(&f, submit, &a);
    open_beside(&beside);
    cr_expect_eq(DO(&beside, get_job, A)->code, MG_STORE_OK);
    cr_expect_eq(DO(&beside, submit, &b)->code, MG_STORE_CLOSED);
    cr_expect_eq(DO(&f, submit, &b)->code, MG_STORE_OK, "the owner goes on");
    cr_expect_eq(DO(&beside, get_job, B)->code, MG_STORE_OK);
    mg_store_close(beside.store);
    cr_expect_eq(DO(&f, cancel, B)->code, MG_STORE_OK);
}

Test(store_durable, reading_leaves_the_mark_of_an_unclean_stop)
{
    struct fixture beside;
    open_ok();
    mg_store_close(f.store);
    f.store = NULL;
    raw_exec("UPDATE meta SET value = '0' WHERE key = 'clean'");
    open_beside(&beside);
    mg_store_close(beside.store);
    sqlite3 *db = raw_open();
    cr_expect_eq(raw_int(db, "SELECT value FROM meta WHERE key = 'clean'"), 0);
    sqlite3_close(db);
    raw_exec("PRAGMA user_version = 1");
    beside.store = NULL;
    cr_expect_eq(fixture_open(&beside), MG_STORE_VERSION, "what is old is brought up to date by who writes");
    cr_expect(strstr(beside.got.message, "magisd serve") != NULL, "%s", beside.got.message);
    f.read_only = true;
    snprintf(beside.dir, sizeof beside.dir, "%.50s/none", f.dir);
    cr_expect_eq(fixture_open(&beside), MG_STORE_IO);
    cr_expect_neq(access(beside.dir, F_OK), 0, "nothing is made");
}

Test(store_durable, second_opener_is_refused)
{
    struct fixture second = f;
    open_ok();
    cr_assert_eq(fixture_open(&second), MG_STORE_LOCKED);
    char want[64];
    snprintf(want, sizeof want, "process %ld", (long)getpid());
    cr_assert_not_null(strstr(second.got.message, want), "%s", second.got.message);
}

static void close_and_exec(const char *sql)
{
    open_ok();
    mg_store_close(f.store);
    f.store = NULL;
    raw_exec(sql);
}

Test(store_durable, newer_file_is_refused)
{
    close_and_exec("PRAGMA user_version = 99");
    cr_assert_eq(fixture_open(&f), MG_STORE_VERSION);
    cr_assert_null(f.store);
    cr_assert_not_null(strstr(f.got.message, "99"), "%s", f.got.message);
}

Test(store_durable, foreign_file_is_refused)
{
    raw_exec("CREATE TABLE other (x)");
    cr_assert_eq(fixture_open(&f), MG_STORE_VERSION);
}

Test(store_durable, garbage_is_refused)
{
    char path[128], junk[5000];
    memset(junk, 'x', sizeof junk);
    path_in(path, sizeof path, "store.db");
    FILE *file = fopen(path, "w");
    cr_assert_eq(fwrite(junk, 1, sizeof junk, file), sizeof junk);
    fclose(file);
    cr_assert_eq(fixture_open(&f), MG_STORE_CORRUPT, "%s", f.got.message);
    cr_assert(strstr(f.got.message, "move it") && strstr(f.got.message, "/backup"), "%s", f.got.message);
}

Test(store_durable, an_emptied_file_is_refused)
{
    char path[128], spool[128];
    path_in(path, sizeof path, "store.db");
    path_in(spool, sizeof spool, "spool");
    open_ok();
    submit_any(&f, A);
    mg_store_close(f.store);
    f.store = NULL;
    cr_assert_eq(truncate(path, 0), 0);
    cr_assert_eq(mkdir(spool, 0700), 0);
    cr_expect_eq(fixture_open(&f), MG_STORE_CORRUPT);
    cr_expect(strstr(f.got.message, "is empty") && strstr(f.got.message, "/backup"), "%s", f.got.message);
    struct stat st;
    cr_expect(stat(path, &st) == 0 && st.st_size == 0, "it is left as it is");
    cr_assert_eq(rmdir(spool), 0); /* a first start that ended too soon */
    open_ok();
    cr_expect_eq(DO(&f, get_job, A)->code, MG_STORE_NOT_FOUND);
}

Test(store_durable, damage_is_found_after_an_unclean_stop)
{
    char path[128], junk[4096];
    open_ok();
    submit_many(200);
    mg_store_close(f.store);
    f.store = NULL;
    raw_exec("UPDATE meta SET value = '0' WHERE key = 'clean'");
    sqlite3 *db = raw_open();
    int64_t page = raw_int(db, "SELECT rootpage FROM sqlite_schema WHERE name = 'events'");
    sqlite3_close(db);
    memset(junk, 0x5a, sizeof junk);
    path_in(path, sizeof path, "store.db");
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, junk, sizeof junk, (page - 1) * 4096), sizeof junk);
    close(fd);
    cr_assert_eq(fixture_open(&f), MG_STORE_CORRUPT, "%s", f.got.message);
    cr_assert(strstr(f.got.message, "move it") && strstr(f.got.message, "/backup"), "%s", f.got.message);
}

Test(store_durable, missing_parent_is_an_error)
{
    struct fixture g = f;
    snprintf(g.dir, sizeof g.dir, "/nonexistent/magisd/data");
    cr_assert_eq(fixture_open(&g), MG_STORE_IO);
}

Test(store_durable, network_file_systems_are_known)
{
    cr_assert(mg_store_fs_is_network(0x6969, ""));
    cr_assert(mg_store_fs_is_network(0xff534d42, "cifs"));
    cr_assert(mg_store_fs_is_network((int)0xff534d42, "cifs"), "sign-extended on 32-bit longs");
    cr_assert(mg_store_fs_is_network(0x65735546, "fuse.sshfs"));
    cr_assert_not(mg_store_fs_is_network(0x65735546, "fuse.ext2"));
    cr_assert_not(mg_store_fs_is_network(0xef53, "ext4"));
}

Test(store_durable, codes_are_mapped)
{
    static const struct {
        int sqlite;
        enum mg_store_code code;
    } cases[] = {{SQLITE_OK, MG_STORE_OK},
                 {SQLITE_BUSY_SNAPSHOT, MG_STORE_BUSY},
                 {SQLITE_FULL, MG_STORE_FULL},
                 {SQLITE_IOERR_FSYNC, MG_STORE_IO},
                 {SQLITE_CORRUPT_INDEX, MG_STORE_CORRUPT},
                 {SQLITE_NOTADB, MG_STORE_CORRUPT},
                 {SQLITE_CONSTRAINT_UNIQUE, MG_STORE_CONFLICT},
                 {SQLITE_CONSTRAINT_CHECK, MG_STORE_INVALID},
                 {SQLITE_NOMEM, MG_STORE_INTERNAL},
                 {SQLITE_MISUSE, MG_STORE_INTERNAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(mg_db_map(cases[i].sqlite), cases[i].code, "%d", cases[i].sqlite);
    }
}

Test(store_durable, what_the_machine_did_is_said_in_words)
{
    char path[300];
    struct mg_db db = {0};
    snprintf(path, sizeof path, "%s/store.db", f.dir);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK);
    cr_assert_eq(mg_db_open(&db, path, MG_DB_READER), MG_STORE_OK);
    mg_db_exec(&db, "PRAGMA query_only = 0");
    cr_expect_eq(mg_db_exec(&db, "CREATE TABLE t (x)"), MG_STORE_IO);
    cr_expect(strstr(db.message, "read-only") && !strstr(db.message, "CREATE"), "%s", db.message);
    mg_db_clear(&db);
    cr_expect_eq(mg_db_exec(&db, "no words of SQL"), MG_STORE_INTERNAL);
    cr_expect(strstr(db.message, "no words of SQL"), "a bug is told with its statement: %s", db.message);
    mg_db_close(&db);
}

Test(store_durable, a_file_that_was_replaced_is_noticed)
{
    char path[300], away[300];
    snprintf(path, sizeof path, "%s/store.db", f.dir);
    snprintf(away, sizeof away, "%s/away.db", f.dir);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK);
    cr_expect(mg_store_in_place(f.store));
    cr_assert_eq(rename(path, away), 0);
    cr_expect_not(mg_store_in_place(f.store));
    FILE *other = fopen(path, "w");
    cr_assert(other && fclose(other) == 0);
    cr_expect_not(mg_store_in_place(f.store));
    cr_assert_eq(rename(away, path), 0);
    cr_expect(mg_store_in_place(f.store));
}

static void copy_file(const char *from, const char *to)
{
    char buffer[8192];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    size_t n;
    cr_assert(in && out, "%s", from);
    while ((n = fread(buffer, 1, sizeof buffer, in)) > 0) {
        cr_assert_eq(fwrite(buffer, 1, n, out), n);
    }
    fclose(in);
    fclose(out);
}

/* tests/data/store/README.md says what is in it. */
Test(store_durable, file_of_version_1_opens)
{
    char path[128];
    path_in(path, sizeof path, "store.db");
    copy_file("tests/data/store/v1.db", path);
    open_ok();
    const struct got *got = DO0(&f, recover);
    cr_assert_eq(got->n_jobs, 2);
    got = DO(&f, get_job, A);
    cr_assert_eq(got->job.state, MG_JOB_SUCCEEDED);
    cr_assert_eq(got->job.best_peak, 300);
    cr_assert_eq(got->job.outcome, MG_JOB_OUTCOME_MET);
    cr_assert_str_eq(got->labels, "{\"branch\":\"main\"}");
    cr_assert_eq(DO(&f, get_plan, A, "2")->code, MG_STORE_OK);
    cr_assert_eq(memcmp(f.got.blob, P2, 16), 0);
    cr_assert_eq(DO(&f, get_work, A)->blob_size, sizeof GRAPH_TEXT - 1);
    cr_assert_eq(DO(&f, get_events, A, (int64_t)0, 100)->n_events, 5);
    cr_assert_eq(DO(&f, claim, B, 0)->code, MG_STORE_OK);
}

/* Two jobs of version 1, and six timings measured by the agent "fixture". */
Test(store_durable, file_of_version_2_opens)
{
    char path[128];
    struct mg_db db;
    path_in(path, sizeof path, "store.db");
    copy_file("tests/data/store/v2.db", path);
    open_ok();
    cr_assert_eq(DO(&f, get_job, A)->job.best_peak, 300);
    cr_assert_eq(DO(&f, want_measured, A, "best", "[\"model:rtx3090\"]", "me")->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, claim_measured, "fixture", "", false)->code, MG_STORE_OK);
    mg_store_close(f.store);
    f.store = NULL;
    memset(&db, 0, sizeof db);
    cr_assert_eq(mg_db_open(&db, path, MG_DB_WRITER), MG_STORE_OK);
    cr_expect_eq(mg_db_pragma(&db, "PRAGMA user_version"), mg_store_version);
    cr_expect_eq(mg_db_pragma(&db, "SELECT count(*) FROM timing_rows WHERE valid_from = 1"), 6);
    cr_expect_eq(mg_db_pragma(&db, "SELECT count(*) FROM measured WHERE state = 'measuring'"), 1);
    mg_db_close(&db);
}

/* The same, from when nobody kept what a point's own operators are priced by. */
Test(store_durable, file_of_version_3_opens)
{
    char path[128];
    path_in(path, sizeof path, "store.db");
    copy_file("tests/data/store/v3.db", path);
    open_ok();
    cr_assert_eq(DO(&f, get_front, A)->n_points, 3);
    for (size_t i = 0; i < f.got.n_points; i++)
        cr_expect(f.got.points[i].measured_share < 0, "unknown, not none");
}

static void keep_graph(void *ctx, const struct mg_store_result *result)
{
    struct mg_store_timings *got = ctx;
    cr_assert_eq(result->code, MG_STORE_OK, "%s", result->message);
    *got = *result->timings;
}

/* From when what a graph needs was wanted for the first list of models only. */
Test(store_durable, file_of_version_4_opens)
{
    char path[128];
    struct mg_store_timings got = {0};
    path_in(path, sizeof path, "store.db");
    copy_file("tests/data/store/v4.db", path);
    open_ok();
    mg_store_pick_class(f.store, "fixture", "[\"class:7543426534bdbf34\"]", keep_graph, &got);
    fixture_wait(&f);
    cr_expect_eq(got.total, 6);
    cr_expect_eq(got.covered, 6);
    cr_expect(!got.graph_known, "to be wanted for each");
}

static void open_db(struct mg_db *db, const char *path)
{
    memset(db, 0, sizeof *db);
    cr_assert_eq(mg_db_open(db, path, MG_DB_WRITER), MG_STORE_OK);
}

Test(store_durable, migration_copies_first_and_is_whole)
{
    char path[128], backup[128];
    struct mg_db db;
    const char *const steps[] = {mg_store_migrations[0], "ALTER TABLE jobs ADD COLUMN extra TEXT",
                                 "CREATE TABLE half (x INTEGER) STRICT; INSERT INTO nowhere VALUES (1)"};
    path_in(path, sizeof path, "store.db");
    path_in(backup, sizeof backup, "copy.db");
    copy_file("tests/data/store/v1.db", path);
    open_db(&db, path);
    cr_assert_eq(mg_store_migrate(&db, steps, 2, backup), MG_STORE_OK, "%s", db.message);
    cr_assert_eq(mg_db_pragma(&db, "PRAGMA user_version"), 2);
    cr_assert_eq(mg_db_pragma(&db, "SELECT count(extra IS NULL) FROM jobs"), 3);
    cr_assert_neq(mg_store_migrate(&db, steps, 3, NULL), MG_STORE_OK);
    mg_db_clear(&db);
    cr_assert_eq(mg_db_pragma(&db, "PRAGMA user_version"), 2);
    cr_assert_eq(mg_db_pragma(&db, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"), 0);
    mg_db_close(&db);
    open_db(&db, backup);
    cr_assert_eq(mg_db_pragma(&db, "PRAGMA user_version"), 1);
    cr_assert_eq(mg_db_pragma(&db, "SELECT count(*) FROM jobs"), 3);
    cr_assert_eq(mg_store_migrate(&db, steps, 1, path), MG_STORE_OK, "nothing to do, nothing copied");
    mg_db_close(&db);
}
