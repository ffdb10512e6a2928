/* Progress, labels, pins, removal and retention. */
#include "store/store_priv.h"

static const int64_t DAY_MS = 24 * 3600 * 1000;

static struct mg_store_job *find_ended(struct mg_op *op, struct mg_db *db, bool ended)
{
    struct mg_store_job *job = mg_job_find(op, db, op->args.id);
    if (job && mg_job_state_ended(job->state) != ended) {
        op->result.job = job;
        mg_op_fail(op, MG_STORE_CONFLICT, "job %s is %s", job->id, mg_job_state_name(job->state));
        return NULL;
    }
    return job;
}

void mg_op_run_save_points(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = find_ended(op, db, false);
    if (job) {
        mg_points_save(op, db, job->number, op->args.points);
        MG_RUN(db, TOUCH, mg_int(job->number));
        mg_job_result(op, db, job->number);
    }
}

void mg_op_run_patch(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = mg_job_find(op, db, op->args.id);
    if (!job) {
        return;
    }
    MG_RUN(db, PATCH, mg_int(job->number), mg_text(op->args.name), mg_text(op->args.labels));
    if (op->args.labels) {
        mg_job_labels(db, job->number, op->args.labels);
    }
    mg_job_result(op, db, job->number);
}

void mg_op_run_pin(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = mg_job_find(op, db, op->args.id);
    if (job) {
        MG_RUN(db, PIN, mg_int(job->number), mg_int(op->args.flag));
        mg_job_result(op, db, job->number);
    }
}

void mg_op_run_delete(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = find_ended(op, db, true);
    if (job) {
        mg_job_remove(op, db, job);
        op->result.job = job;
    }
}

static int64_t used_bytes(struct mg_db *db)
{
    sqlite3_stmt *stmt = mg_db_bind(db, MG_STMT_USED_BYTES, NULL, 0);
    int64_t bytes = 0;
    while (mg_db_row(db, stmt)) {
        bytes = sqlite3_column_int64(stmt, 0);
    }
    return bytes;
}

/* What one call removes. */
struct removal {
    struct mg_store_job *jobs;
    size_t n, capacity;
};

/* Up to op->args.limit jobs in all. That a job is the newest of a label does not change when older ones go, so one
 * look finds them all. */
static size_t find_old(struct mg_op *op, struct mg_db *db, enum mg_stmt which, int64_t before, struct removal *removal)
{
    const struct mg_val values[] = {mg_int(before), mg_int(op->args.limit - (int64_t)removal->n)};
    sqlite3_stmt *stmt = mg_db_bind(db, which, values, 2);
    size_t n = removal->n;
    while (mg_db_row(db, stmt)) {
        mg_job_read(op, stmt, MG_PUSH(&op->arena, removal->jobs, n, removal->capacity));
    }
    return n;
}

/* Removes what ended before `before`, oldest first, while more than `bytes` are used (-1: in any case). */
static void remove_old(struct mg_op *op, struct mg_db *db, enum mg_stmt which, int64_t before, int64_t bytes,
                       struct removal *removal)
{
    if (bytes >= 0 && used_bytes(db) <= bytes) {
        return;
    }
    size_t n = find_old(op, db, which, before, removal);
    while (removal->n < n && (bytes < 0 || used_bytes(db) > bytes) && mg_op_ok(op, db)) {
        mg_job_remove(op, db, &removal->jobs[removal->n++]);
    }
}

void mg_op_run_expire(struct mg_op *op, struct mg_db *db)
{
    struct removal removal = {0};
    int64_t now = mg_store_now(op->store);
    remove_old(op, db, MG_STMT_OLDEST, now - (int64_t)(op->args.real * (double)DAY_MS), -1, &removal);
    if (op->args.bytes > 0) {
        remove_old(op, db, MG_STMT_OLDEST, INT64_MAX, op->args.bytes, &removal);
        remove_old(op, db, MG_STMT_OLDEST_SHARED, INT64_MAX, op->args.bytes, &removal);
    }
    MG_RUN(db, DROP_KEYS, mg_int(now - DAY_MS));
    op->result.jobs = removal.jobs;
    op->result.n_jobs = removal.n;
    op->result.count = (int64_t)removal.n;
}
