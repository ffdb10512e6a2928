/* Progress, labels, pins, removal and retention. */
#include "store_priv.h"

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

void mg_op_run_append_event(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = mg_job_find(op, db, op->args.id);
    if (job) {
        mg_job_event(op, db, job->number, op->args.type, op->args.text);
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

/* The next job to go among those that ended before `before`; false: none. */
static bool oldest(struct mg_op *op, struct mg_db *db, enum mg_stmt which, int64_t before, struct mg_store_job *job)
{
    struct mg_val value = mg_int(before);
    sqlite3_stmt *stmt = mg_db_bind(db, which, &value, 1);
    if (!mg_db_row(db, stmt)) {
        return false;
    }
    mg_job_read(op, stmt, job);
    mg_db_end(stmt);
    return true;
}

static bool next_to_go(struct mg_op *op, struct mg_db *db, struct mg_store_job *job)
{
    int64_t now = mg_store_now(op->store);
    if (oldest(op, db, MG_STMT_OLDEST, now - (int64_t)(op->args.real * (double)DAY_MS), job)) {
        return true;
    }
    if (op->args.bytes <= 0 || used_bytes(db) <= op->args.bytes) {
        return false;
    }
    return oldest(op, db, MG_STMT_OLDEST, INT64_MAX, job) || oldest(op, db, MG_STMT_OLDEST_SHARED, INT64_MAX, job);
}

void mg_op_run_expire(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *jobs = NULL, job;
    size_t n = 0, capacity = 0;
    while (n < (size_t)op->args.limit && next_to_go(op, db, &job) && mg_op_ok(op, db)) {
        mg_job_remove(op, db, &job);
        *MG_PUSH(&op->arena, jobs, n, capacity) = job;
    }
    MG_RUN(db, DROP_KEYS, mg_int(mg_store_now(op->store) - DAY_MS));
    op->result.jobs = jobs;
    op->result.n_jobs = n;
    op->result.count = (int64_t)n;
}
