/* Operations on their way: queue, writer thread with group commit, reader thread, completion.
 *
 * The writer takes what is queued into one transaction, each operation under a savepoint of its own, for at most
 * MG_STORE_GROUP_MS; while it waits for the disk the next group gathers. A group that holds a promise is committed
 * with synchronous = FULL, one of progress alone with NORMAL (the setting can change only between transactions).
 * When the transaction as a whole is lost (disk full, commit failed), every operation of the group is run again in
 * a transaction of its own, so that one bad neighbour fails alone. Results are handed over only after the commit.
 *
 * A long operation of progress is done in pieces: what is not finished goes to the end of the queue again, so that a
 * promise waits for one piece of it at most. The write-ahead log is brought into the database when nothing has come
 * for QUIET_MS: nobody waits for that but who comes meanwhile. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/store_priv.h"

enum { GROUP_MAX = 512 };
enum { FOREVER = -1, QUIET_MS = 50 };
enum { LOG_PAGES = 1000, MANY_LOG_PAGES = 8000 }; /* brought into the database when it is quiet, or at once */

static const struct {
    const char *name;
    enum mg_op_class class;
    void (*run)(struct mg_op *op, struct mg_db *db);
} kinds[] = {
#define OP(name, class) {#name, MG_OP_##class, mg_op_run_##name},
#include "store/ops.def"
#undef OP
};

static double monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t mg_store_now(const mg_store *store)
{
    if (store->config.now_ms) {
        return store->config.now_ms(store->config.now_ctx);
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- making operations ---- */

struct mg_op *mg_op_new(mg_store *store, enum mg_op_kind kind, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = calloc(1, sizeof *op);
    if (!op) {
        abort();
    }
    op->store = store;
    op->kind = kind;
    op->cb = cb;
    op->ctx = ctx;
    op->args.fd = -1;
    op->started = monotonic();
    mg_arena_init(&op->arena, SIZE_MAX);
    return op;
}

static void op_free(struct mg_op *op)
{
    mg_arena_release(&op->arena);
    if (op->args.fd >= 0) {
        close(op->args.fd);
    }
    free(op);
}

void mg_op_fail(struct mg_op *op, enum mg_store_code code, const char *fmt, ...)
{
    char text[256];
    va_list args;
    if (op->result.code != MG_STORE_OK) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    op->result.code = code;
    op->result.message = mg_arena_strdup(&op->arena, text);
}

/* ---- completion ---- */

static void count_op(mg_store *store, const struct mg_op *op)
{
    struct mg_counter *counter = &store->counters[op->kind];
    double seconds = monotonic() - op->started;
    counter->count++;
    counter->errors += op->result.code >= MG_STORE_BUSY;
    counter->seconds_sum += seconds;
    counter->seconds_max = seconds > counter->seconds_max ? seconds : counter->seconds_max;
}

static void complete(mg_store *store, struct mg_op *first)
{
    pthread_mutex_lock(&store->done_lock);
    while (first) {
        struct mg_op *op = first;
        first = op->next;
        op->next = NULL;
        count_op(store, op);
        *store->done_last = op;
        store->done_last = &op->next;
    }
    pthread_mutex_unlock(&store->done_lock);
    if (store->config.notify) {
        store->config.notify(store->config.notify_ctx);
    }
}

size_t mg_store_poll(mg_store *store)
{
    pthread_mutex_lock(&store->done_lock);
    struct mg_op *op = store->done_first;
    store->done_first = NULL;
    store->done_last = &store->done_first;
    pthread_mutex_unlock(&store->done_lock);
    size_t n = 0;
    while (op) {
        struct mg_op *next = op->next;
        if (op->cb) {
            op->cb(op->ctx, &op->result);
        }
        op_free(op);
        n++;
        op = next;
    }
    pthread_mutex_lock(&store->done_lock);
    store->pending -= n;
    pthread_mutex_unlock(&store->done_lock);
    return n;
}

size_t mg_store_pending(const mg_store *store)
{
    mg_store *self = (mg_store *)store; /* the lock is no part of what the caller sees */
    pthread_mutex_lock(&self->done_lock);
    size_t n = self->pending;
    pthread_mutex_unlock(&self->done_lock);
    return n;
}

size_t mg_store_op_counters(const mg_store *store, struct mg_store_op_stats *stats, size_t n)
{
    mg_store *self = (mg_store *)store;
    pthread_mutex_lock(&self->done_lock);
    for (size_t i = 0; i < n && i < MG_OP_COUNT; i++) {
        const struct mg_counter *from = &self->counters[i];
        stats[i] =
            (struct mg_store_op_stats){kinds[i].name, from->count, from->errors, from->seconds_sum, from->seconds_max};
    }
    pthread_mutex_unlock(&self->done_lock);
    return MG_OP_COUNT;
}

/* ---- on their way ---- */

bool mg_op_is_promise(const struct mg_op *op)
{
    return kinds[op->kind].class == MG_OP_PROMISE;
}

void mg_op_start(struct mg_op *op)
{
    mg_store *store = op->store;
    op->args_end = mg_arena_mark(&op->arena);
    op->result.message = "";
    pthread_mutex_lock(&store->done_lock);
    store->pending++;
    pthread_mutex_unlock(&store->done_lock);
    struct mg_queue *queue = kinds[op->kind].class == MG_OP_READ ? &store->reads : &store->writes;
    if (!mg_queue_push(queue, op)) {
        op->result.code = MG_STORE_CLOSED;
        op->result.message = store->config.read_only ? "the store is open for reading only" : "the store is closing";
        complete(store, op);
    }
}

/* ---- running one operation ---- */

struct run {
    struct mg_op *op;
    struct mg_db *db;
};

static enum mg_code run_guarded(void *context, struct mg_error *err)
{
    struct run *run = context;
    (void)err;
    kinds[run->op->kind].run(run->op, run->db);
    return MG_OK;
}

/* Runs the body; the operation's result is then its own verdict, or the connection's error. */
static void run_body(struct mg_op *op, struct mg_db *db)
{
    struct run run = {op, db};
    mg_arena_rewind(&op->arena, op->args_end);
    op->result = (struct mg_store_result){.message = ""};
    op->events = NULL;
    op->n_events = op->events_capacity = 0;
    op->reached = op->at;
    if (mg_arena_guard(&op->arena, run_guarded, &run, NULL) != MG_OK) {
        op->result = (struct mg_store_result){.code = MG_STORE_INTERNAL, .message = "out of memory"};
    }
    if (db->code != MG_STORE_OK) {
        op->result = (struct mg_store_result){.code = db->code};
        op->result.message = mg_arena_strdup(&op->arena, db->message);
    }
}

static void take_error(struct mg_op *op, const struct mg_db *db)
{
    op->result = (struct mg_store_result){.code = db->code};
    op->result.message = mg_arena_strdup(&op->arena, db->message);
}

/* ---- the writer ---- */

static bool step(struct mg_db *db, enum mg_stmt id)
{
    mg_db_run(db, id, NULL, 0);
    return db->code == MG_STORE_OK;
}

/* False: the transaction around it is lost. */
static bool run_in_savepoint(struct mg_op *op, struct mg_db *db)
{
    mg_db_clear(db);
    if (!step(db, MG_STMT_SAVEPOINT)) {
        take_error(op, db);
        return false;
    }
    run_body(op, db);
    mg_db_clear(db);
    if (sqlite3_get_autocommit(db->handle)) {
        return false;
    }
    if (op->result.code != MG_STORE_OK && !step(db, MG_STMT_UNDO)) {
        return false;
    }
    return step(db, MG_STMT_RELEASE);
}

static void run_alone(struct mg_op *op, struct mg_db *db)
{
    mg_db_clear(db);
    if (step(db, MG_STMT_BEGIN)) {
        run_body(op, db);
        if (op->result.code == MG_STORE_OK) {
            step(db, MG_STMT_COMMIT);
        }
    }
    if (db->code != MG_STORE_OK) {
        take_error(op, db);
    }
    mg_db_tidy(db);
}

static void set_synced(struct mg_db *db, bool full)
{
    mg_db_clear(db);
    if (db->synced != full &&
        mg_db_exec(db, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL") == MG_STORE_OK) {
        db->synced = full;
    }
}

/* Runs `first` and what follows it in one transaction; returns the list of those taken. */
static struct mg_op *run_group(mg_store *store, struct mg_op *first, bool *lost)
{
    struct mg_db *db = &store->writer;
    struct mg_op *list = first, **end = &first->next;
    double until = monotonic() + MG_STORE_GROUP_MS * 1e-3;
    bool full = mg_op_is_promise(first) || mg_queue_has_promise(&store->writes);
    set_synced(db, full);
    mg_db_clear(db);
    *lost = !step(db, MG_STMT_BEGIN);
    struct mg_op *op = *lost ? NULL : first;
    for (int n = 1; op; n++) {
        *lost = !run_in_savepoint(op, db);
        if (*lost || n >= GROUP_MAX || monotonic() >= until) {
            break;
        }
        op = *end = mg_queue_pop(&store->writes, 0, full);
        end = op ? &op->next : end;
    }
    *lost = *lost || !step(db, MG_STMT_COMMIT);
    mg_db_tidy(db);
    return list;
}

static bool removes(const struct mg_op *list)
{
    for (; list; list = list->next) {
        if (list->kind == MG_OP_delete || list->kind == MG_OP_expire) {
            return true;
        }
    }
    return false;
}

/* Gives some pages of removed jobs back to the file system; false: there are no more. */
static bool shrink(struct mg_db *db)
{
    mg_db_clear(db);
    mg_db_exec(db, "PRAGMA incremental_vacuum(1024)");
    return mg_db_pragma(db, "PRAGMA freelist_count") > 0 && db->code == MG_STORE_OK;
}

/* Puts what has more to do into the queue again; returns the rest. */
static struct mg_op *part_unfinished(mg_store *store, struct mg_op *list)
{
    struct mg_op *finished = NULL, **end = &finished;
    while (list) {
        struct mg_op *op = list;
        list = op->next;
        op->next = NULL;
        if (op->result.code == MG_STORE_OK && op->reached < op->size) {
            op->at = op->reached;
            mg_queue_push_again(&store->writes, op);
        } else {
            *end = op;
            end = &op->next;
        }
    }
    return finished;
}

/* True if jobs were removed. */
static bool run_list(mg_store *store, struct mg_op *first)
{
    bool lost;
    struct mg_op *list = run_group(store, first, &lost);
    if (lost) {
        set_synced(&store->writer, true);
        for (struct mg_op *op = list; op; op = op->next) {
            run_alone(op, &store->writer);
        }
    }
    bool removed = removes(list);
    list = part_unfinished(store, list);
    if (list) {
        complete(store, list);
    }
    return removed;
}

/* Idle work: the log into the database, and what removed jobs leave back to the file system. */
static void *writer_main(void *arg)
{
    mg_store *store = arg;
    struct mg_db *db = &store->writer;
    bool shrinking = false;
    for (;;) {
        bool full = db->log_pages >= LOG_PAGES, urgent = db->log_pages >= MANY_LOG_PAGES;
        long wait = shrinking ? 0 : full ? QUIET_MS : FOREVER;
        struct mg_op *first = urgent ? NULL : mg_queue_pop(&store->writes, wait, true);
        if (first) {
            shrinking = run_list(store, first) || shrinking;
        } else if (full) {
            mg_db_checkpoint(db);
        } else if (mg_queue_is_done(&store->writes)) {
            return NULL;
        } else {
            shrinking = shrink(db);
        }
    }
}

/* ---- the reader ---- */

static void *reader_main(void *arg)
{
    mg_store *store = arg;
    struct mg_db *db = &store->reader;
    struct mg_op *op;
    while ((op = mg_queue_pop(&store->reads, FOREVER, true)) != NULL) {
        mg_db_clear(db);
        if (step(db, MG_STMT_BEGIN_READ)) {
            run_body(op, db);
            mg_db_clear(db);
            step(db, MG_STMT_COMMIT);
        } else {
            take_error(op, db);
        }
        mg_db_tidy(db);
        complete(store, op);
    }
    return NULL;
}

/* ---- start and stop ---- */

static void join_writer(mg_store *store)
{
    if (store->writes_here) {
        pthread_join(store->writer_thread, NULL);
    }
}

enum mg_store_code mg_store_start_threads(mg_store *store)
{
    mg_queue_init(&store->writes);
    mg_queue_init(&store->reads);
    pthread_mutex_init(&store->done_lock, NULL);
    store->done_last = &store->done_first;
    store->writes_here = !store->config.read_only;
    if (!store->writes_here) {
        mg_queue_close(&store->writes);
    } else if (pthread_create(&store->writer_thread, NULL, writer_main, store) != 0) {
        return MG_STORE_INTERNAL;
    }
    if (pthread_create(&store->reader_thread, NULL, reader_main, store) != 0) {
        mg_queue_close(&store->writes);
        join_writer(store);
        return MG_STORE_INTERNAL;
    }
    store->threads = true;
    return MG_STORE_OK;
}

void mg_store_stop_threads(mg_store *store)
{
    if (!store->threads) {
        return;
    }
    mg_queue_close(&store->writes);
    mg_queue_close(&store->reads);
    join_writer(store);
    pthread_join(store->reader_thread, NULL);
    while (mg_store_poll(store)) {
    }
    mg_queue_release(&store->writes);
    mg_queue_release(&store->reads);
    pthread_mutex_destroy(&store->done_lock);
    store->threads = false;
}
