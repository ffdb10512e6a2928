/* The bodies behind store.h, for this folder and its tests: the connection (db.c), an operation and the two threads
 * that run them (thread.c), and what operations share (job.c). */
#ifndef MG_STORE_STORE_PRIV_H
#define MG_STORE_STORE_PRIV_H

#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

#include "base/arena.h"
#include "store/measured.h"
#include "store/store.h"
#include "store/timings.h"

#define MG_STORE_APPLICATION_ID 0x4d414753 /* "MAGS" */
#define MG_STORE_GROUP_MS 5                /* a transaction takes in operations for at most this long */

/* ---- schema.c ---- */
extern const char *const mg_store_migrations[];
extern const int mg_store_version;

/* ---- db.c: one connection and its statements ---- */

enum mg_stmt {
#define STMT(name, where, sql) MG_STMT_##name,
#include "store/statements.def"
#undef STMT
    MG_STMT_COUNT
};

enum { MG_DB_WRITER = 1, MG_DB_READER = 2, MG_DB_BOTH = 3 };

/* Errors stick: after a failed step `code` is set and every further call does nothing, until mg_db_clear(). So an
 * operation reads as a list of statements and is judged once, at its end. */
struct mg_db {
    sqlite3 *handle;
    sqlite3_stmt *stmts[MG_STMT_COUNT];
    int role;
    bool synced;   /* writer: synchronous is FULL */
    int log_pages; /* writer: in the write-ahead log, not yet known to be in the database */
    enum mg_store_code code;
    char message[256];
    enum mg_store_code (*fault)(void *ctx, const char *what);
    void *fault_ctx;
};

struct mg_val {
    enum { MG_VAL_NULL, MG_VAL_TEXT, MG_VAL_INT, MG_VAL_REAL, MG_VAL_BLOB } type;
    union {
        const char *text;
        int64_t integer;
        double real;
        struct mg_blob blob;
    } u;
};
static inline struct mg_val mg_text(const char *text) /* NULL binds NULL */
{
    return (struct mg_val){text ? MG_VAL_TEXT : MG_VAL_NULL, {.text = text}};
}
static inline struct mg_val mg_int(int64_t integer)
{
    return (struct mg_val){MG_VAL_INT, {.integer = integer}};
}
static inline struct mg_val mg_real(double real)
{
    return (struct mg_val){MG_VAL_REAL, {.real = real}};
}
static inline struct mg_val mg_bytes(struct mg_blob blob)
{
    return (struct mg_val){MG_VAL_BLOB, {.blob = blob}};
}
/* `none` stands for NULL. */
static inline struct mg_val mg_int_or_null(int64_t integer, int64_t none)
{
    return (struct mg_val){integer == none ? MG_VAL_NULL : MG_VAL_INT, {.integer = integer}};
}

enum mg_store_code mg_db_open(struct mg_db *db, const char *path, int role);
enum mg_store_code mg_db_prepare(struct mg_db *db);
void mg_db_close(struct mg_db *db);
void mg_db_clear(struct mg_db *db);
/* Maps an extended result code of SQLite; the one place where that is done. */
enum mg_store_code mg_db_map(int extended);
/* Sets db->code from the connection's last error. */
enum mg_store_code mg_db_fail(struct mg_db *db, int rc, const char *what);
/* Several statements without parameters, outside the cache. */
enum mg_store_code mg_db_exec(struct mg_db *db, const char *sql);
int64_t mg_db_pragma(struct mg_db *db, const char *sql);

/* Binds (by reference: the values must live until the end of the statement) and returns the statement. */
sqlite3_stmt *mg_db_bind(struct mg_db *db, enum mg_stmt id, const struct mg_val *values, size_t n);
/* True: a row. False: no more rows or an error; the statement is reset. */
bool mg_db_row(struct mg_db *db, sqlite3_stmt *stmt);
/* Ends a statement of which only the first rows were wanted. */
void mg_db_end(sqlite3_stmt *stmt);
/* Runs to the end; returns how many rows it changed. */
int64_t mg_db_run(struct mg_db *db, enum mg_stmt id, const struct mg_val *values, size_t n);
/* Resets what was left open; returns how many statements or transactions were. */
int mg_db_tidy(struct mg_db *db);
void mg_db_rollback(struct mg_db *db);
/* Brings the write-ahead log into the database, as far as no reader needs it. */
void mg_db_checkpoint(struct mg_db *db);

#define MG_VALS(...)                                                                                                   \
    (const struct mg_val[]){__VA_ARGS__}, sizeof((const struct mg_val[]){__VA_ARGS__}) / sizeof(struct mg_val)
#define MG_BIND(db, name, ...) mg_db_bind((db), MG_STMT_##name, MG_VALS(__VA_ARGS__))
#define MG_RUN(db, name, ...) mg_db_run((db), MG_STMT_##name, MG_VALS(__VA_ARGS__))

/* ---- operations (thread.c runs them, the op_*.c files are their bodies) ---- */

enum mg_op_class { MG_OP_PROMISE, MG_OP_PROGRESS, MG_OP_READ };
enum mg_op_kind {
#define OP(name, class) MG_OP_##name,
#include "store/ops.def"
#undef OP
    MG_OP_COUNT
};

struct mg_op;
#define OP(name, class) void mg_op_run_##name(struct mg_op *op, struct mg_db *db);
#include "store/ops.def"
#undef OP

/* Copies of the arguments, in the operation's arena; each kind uses some. */
struct mg_op_args {
    const char *id, *name, *labels, *owner, *token, *text;
    int64_t number, bytes;
    double real;
    int limit;
    bool flag, conditional;
    const int64_t *revisions; /* conditional: of the job */
    size_t n_revisions;
    int fd; /* a duplicate, or -1 */
    enum mg_requeue_cause cause;
    const struct mg_store_submission *submission;
    const struct mg_store_request *normal;
    const struct mg_store_outcome *outcome;
    const struct mg_store_points *points;
    const struct mg_store_query *query;
    const struct mg_timing_batch *batches;
    size_t n_batches;
    const struct mg_timing_agent *agent;
    const struct mg_timing_want *wants;
    int64_t *numbers; /* of their signatures: those of the pieces that are done */
    size_t n_wants;
    bool making_room; /* for them: signatures up to `swept` have been looked at */
    int64_t swept;
    const struct mg_timing_query *timing_query;
    const struct mg_measured *measured;
};

struct mg_op {
    struct mg_op *next;
    mg_store *store;
    struct mg_arena arena;
    struct mg_arena_mark args_end; /* what a run allocates lies after it */
    enum mg_op_kind kind;
    mg_store_cb *cb;
    void *ctx;
    double started; /* monotonic seconds */
    struct mg_op_args args;
    size_t size, at; /* of a long one: its parts, and the first that is not committed; it runs while at < size */
    size_t reached;  /* by this run, which may end early and is then run again from there */
    struct mg_store_result result;
    struct mg_store_event *events; /* appended by this run */
    size_t n_events, events_capacity;
};

struct mg_op *mg_op_new(mg_store *store, enum mg_op_kind kind, mg_store_cb *cb, void *ctx);
char *mg_op_text(struct mg_op *op, const char *text); /* copies; NULL stays */
/* The same for several: each text becomes a copy of itself. */
void mg_op_texts(struct mg_op *op, const char **const *texts, size_t n);
#define MG_OP_TEXTS(op, ...)                                                                                           \
    mg_op_texts((op), (const char **const[]){__VA_ARGS__},                                                             \
                sizeof((const char **const[]){__VA_ARGS__}) / sizeof(const char **))
struct mg_blob mg_op_blob(struct mg_op *op, struct mg_blob blob);
const struct mg_store_request *mg_op_request(struct mg_op *op, const struct mg_store_request *from);
const struct mg_store_points *mg_op_points(struct mg_op *op, const struct mg_store_points *from);
void mg_op_start(struct mg_op *op);
void mg_op_fail(struct mg_op *op, enum mg_store_code code, const char *fmt, ...) MG_PRINTF(3, 4);
static inline bool mg_op_ok(const struct mg_op *op, const struct mg_db *db)
{
    return op->result.code == MG_STORE_OK && db->code == MG_STORE_OK;
}

struct mg_queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct mg_op *first, **last;
    size_t promises; /* how many of them are promises */
    bool closing;
};

bool mg_op_is_promise(const struct mg_op *op);

void mg_queue_init(struct mg_queue *queue);
void mg_queue_release(struct mg_queue *queue);
/* False: the queue is closed. */
bool mg_queue_push(struct mg_queue *queue, struct mg_op *op);
/* For what was in it before; closed queues take it too. */
void mg_queue_push_again(struct mg_queue *queue, struct mg_op *op);
/* The next operation; NULL: none came within `wait_ms` (negative: none will come any more). Promises are left where
 * they are unless `promises`. */
struct mg_op *mg_queue_pop(struct mg_queue *queue, long wait_ms, bool promises);
bool mg_queue_has_promise(struct mg_queue *queue);
/* Closed and empty. */
bool mg_queue_is_done(struct mg_queue *queue);
void mg_queue_close(struct mg_queue *queue);

struct mg_counter {
    uint64_t count, errors;
    double seconds_sum, seconds_max;
};

enum { MG_STORE_FILES = 2 }; /* the database, its write-ahead log */
struct mg_store_file {
    dev_t device;
    ino_t inode; /* 0: it was not there */
};

struct mg_store {
    struct mg_store_config config;
    char *dir, *path;
    int lock_fd;
    struct mg_store_file files[MG_STORE_FILES]; /* those that were opened, which others may replace */
    bool unclean;
    struct mg_db writer, reader;
    struct mg_queue writes, reads;
    pthread_t writer_thread, reader_thread;
    bool threads, writes_here;
    pthread_mutex_t done_lock; /* guards what follows */
    struct mg_op *done_first, **done_last;
    size_t pending;
    struct mg_counter counters[MG_OP_COUNT];
    const int64_t *expected; /* the revisions for the next operation, as expects says */
    size_t n_expected;
    bool expects;
};

enum mg_store_code mg_store_start_threads(mg_store *store);
void mg_store_stop_threads(mg_store *store);
int64_t mg_store_now(const mg_store *store);

/* ---- open.c ---- */
/* Applies steps[version..n) to the file, each in its own transaction; a copy goes to `backup` first (NULL: none). */
enum mg_store_code mg_store_migrate(struct mg_db *db, const char *const *steps, int n, const char *backup);
bool mg_store_fs_is_network(long type, const char *fuse_type);

/* ---- job.c: shared by operations; all work on the copy that the transaction sees ---- */
void mg_job_read(struct mg_op *op, sqlite3_stmt *stmt, struct mg_store_job *job);
/* NULL, with the operation failed as NOT_FOUND, if there is none, or as STALE. */
struct mg_store_job *mg_job_find(struct mg_op *op, struct mg_db *db, const char *id);
/* Reads the job again into result.job; hands over the appended events. */
void mg_job_result(struct mg_op *op, struct mg_db *db, int64_t number);
void mg_job_event(struct mg_op *op, struct mg_db *db, int64_t number, const char *type, const char *data);
/* The events of a state that was just set. */
void mg_job_state_events(struct mg_op *op, struct mg_db *db, const struct mg_store_job *job);
void mg_job_labels(struct mg_db *db, int64_t number, const char *labels);
void mg_job_remove(struct mg_op *op, struct mg_db *db, const struct mg_store_job *job);
void mg_points_save(struct mg_op *op, struct mg_db *db, int64_t number, const struct mg_store_points *points);
/* The point of a job that `which` names (as mg_store_get_plan says), and the job; fails as NOT_FOUND or GONE. */
const struct mg_store_point *mg_point_find(struct mg_op *op, struct mg_db *db, const char *id, const char *which,
                                           const struct mg_store_job **job);
/* plan NULL: of all */
const struct mg_measured *mg_measured_of(struct mg_op *op, struct mg_db *db, int64_t job, const char *plan, size_t *n);
/* ---- timings: shared by op_timing_*.c ---- */
/* The agent args.name as number, and its class; false, with the operation failed, if there is none or it belongs to
 * another token than args.token (args.flag: may be anybody's). */
bool mg_timing_agent_of(struct mg_op *op, struct mg_db *db, int64_t *agent, int64_t *class);
/* The first column of the only row, or `none`. */
int64_t mg_timing_number(struct mg_db *db, sqlite3_stmt *stmt, int64_t none);
int64_t mg_timing_class_number(struct mg_op *op, struct mg_db *db, const struct mg_timing_class *class);
/* *fresh: it was added just now. */
int64_t mg_timing_signature_number(struct mg_db *db, struct mg_hash128 key, const char *name, const char *text,
                                   bool *fresh);
/* The generation of the newest change; 0: nothing was ever measured. */
int64_t mg_timing_generation(struct mg_db *db);
void mg_timing_set_generation(struct mg_op *op, struct mg_db *db, int64_t generation);

const char *mg_op_column(struct mg_op *op, sqlite3_stmt *stmt, int column); /* NULL stays */
struct mg_blob mg_op_column_blob(struct mg_op *op, sqlite3_stmt *stmt, int column);
const char *mg_point_kind_name(enum mg_point_kind kind);
int mg_point_kind_parse(const char *name);

#endif
