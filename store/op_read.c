/* Reads of one job: itself, request, graph, plans, front, events; and the figures of the whole store. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/store_priv.h"

void mg_op_run_get_job(struct mg_op *op, struct mg_db *db)
{
    op->result.job = mg_job_find(op, db, op->args.id);
}

/* Copies one blob (and its text in column 1, if there is one); false: no row. */
static bool take_blob(struct mg_op *op, struct mg_db *db, sqlite3_stmt *stmt)
{
    if (!mg_db_row(db, stmt)) {
        return false;
    }
    op->result.blob = mg_op_column_blob(op, stmt, 0);
    if (sqlite3_column_count(stmt) > 1) {
        op->result.text = mg_op_column(op, stmt, 1);
    }
    mg_db_end(stmt);
    return true;
}

void mg_op_run_get_request(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job = op->result.job = mg_job_find(op, db, op->args.id);
    if (job && !take_blob(op, db, MG_BIND(db, GET_REQUEST, mg_int(job->number)))) {
        mg_op_fail(op, MG_STORE_CONFLICT, "the request of job %s was never normalised", job->id);
    }
}

void mg_op_run_get_body(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job = op->result.job = mg_job_find(op, db, op->args.id);
    if (job && !take_blob(op, db, MG_BIND(db, GET_BODY, mg_int(job->number)))) {
        mg_op_fail(op, MG_STORE_CONFLICT, "job %s is %s", job->id, mg_job_state_name(job->state));
    }
}

void mg_op_run_get_work(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job = op->result.job = mg_job_find(op, db, op->args.id);
    if (!job) {
        return;
    }
    if (!take_blob(op, db, MG_BIND(db, GET_GRAPH, mg_text(job->graph_digest)))) {
        mg_op_fail(op, MG_STORE_CONFLICT, "job %s has no valid graph", job->id);
        return;
    }
    sqlite3_stmt *stmt = MG_BIND(db, GET_REQUEST, mg_int(job->number));
    if (mg_db_row(db, stmt)) {
        op->result.text = mg_op_column(op, stmt, 0);
        mg_db_end(stmt);
    }
}

static void read_point(struct mg_op *op, sqlite3_stmt *stmt, struct mg_store_point *point)
{
    *point = (struct mg_store_point){
        .kind = (enum mg_point_kind)mg_point_kind_parse((const char *)sqlite3_column_text(stmt, 0)),
        .series = mg_op_column(op, stmt, 1),
        .plan = mg_op_column(op, stmt, 2),
        .reason = mg_op_column(op, stmt, 3),
        .latency_s = sqlite3_column_double(stmt, 4),
        .peak = sqlite3_column_int64(stmt, 5),
        .arena = sqlite3_column_int64(stmt, 6),
        .host = sqlite3_column_int64(stmt, 7),
        .techniques = mg_op_column(op, stmt, 8),
        .replaced_by = mg_op_column(op, stmt, 9),
        .k = sqlite3_column_type(stmt, 10) == SQLITE_NULL ? -1 : sqlite3_column_int(stmt, 10),
        .measured_share = sqlite3_column_type(stmt, 11) == SQLITE_NULL ? -1 : sqlite3_column_double(stmt, 11),
    };
}

static struct mg_store_point *read_points(struct mg_op *op, struct mg_db *db, sqlite3_stmt *stmt, size_t *n)
{
    struct mg_store_point *points = NULL;
    size_t capacity = 0;
    *n = 0;
    while (mg_db_row(db, stmt)) {
        read_point(op, stmt, MG_PUSH(&op->arena, points, *n, capacity));
    }
    return points;
}

static bool is_ordinal(const char *which)
{
    size_t n = strlen(which);
    return n > 0 && n <= 6 && strspn(which, "0123456789") == n;
}

static sqlite3_stmt *point_named(struct mg_db *db, const struct mg_store_job *job, const char *which)
{
    struct mg_val number = mg_int(job->number);
    if (strcmp(which, "original") == 0) {
        return MG_BIND(db, POINT_ORIGINAL, number);
    }
    if (is_ordinal(which)) {
        return MG_BIND(db, POINT_BY_K, number, mg_int(strtol(which, NULL, 10)));
    }
    return MG_BIND(db, POINT_BY_PLAN, number, mg_text(strcmp(which, "best") == 0 ? job->best_plan : which));
}

static void plan_gone(struct mg_op *op, struct mg_db *db, const struct mg_store_job *job,
                      const struct mg_store_point *point)
{
    sqlite3_stmt *stmt = MG_BIND(db, SUCCESSOR, mg_int(job->number), mg_text(point->replaced_by));
    mg_op_fail(op, MG_STORE_GONE, "plan %s was replaced", point->plan);
    while (mg_db_row(db, stmt)) {
        op->result.replaced_by = mg_op_column(op, stmt, 0);
    }
}

const struct mg_store_point *mg_point_find(struct mg_op *op, struct mg_db *db, const char *id, const char *which,
                                           const struct mg_store_job **job)
{
    size_t n;
    which = which ? which : "";
    *job = mg_job_find(op, db, id);
    if (!*job) {
        return NULL;
    }
    const struct mg_store_point *point = read_points(op, db, point_named(db, *job, which), &n);
    if (n == 0 || !point->plan[0]) {
        mg_op_fail(op, MG_STORE_NOT_FOUND, "job %s has no plan %s", (*job)->id, which);
        return NULL;
    }
    if (point->replaced_by) {
        plan_gone(op, db, *job, point);
    }
    return point;
}

void mg_op_run_get_plan(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job;
    const struct mg_store_point *point = mg_point_find(op, db, op->args.id, op->args.text, &job);
    if (!point) {
        return;
    }
    op->result.job = job;
    op->result.points = point;
    op->result.n_points = 1;
    if (mg_op_ok(op, db) && !take_blob(op, db, MG_BIND(db, GET_PLAN, mg_int(job->number), mg_text(point->plan)))) {
        mg_op_fail(op, MG_STORE_NOT_FOUND, "plan %s is not stored", point->plan);
    }
    op->result.text = point->plan;
}

void mg_op_run_get_front(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job = op->result.job = mg_job_find(op, db, op->args.id);
    if (job) {
        op->result.points = read_points(op, db, MG_BIND(db, FRONT, mg_int(job->number)), &op->result.n_points);
        op->result.measured = mg_measured_of(op, db, job->number, NULL, &op->result.n_measured);
    }
}

void mg_op_run_get_events(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job = op->result.job = mg_job_find(op, db, op->args.id);
    if (!job) {
        return;
    }
    sqlite3_stmt *stmt = MG_BIND(db, EVENTS, mg_int(job->number), mg_int(op->args.number), mg_int(op->args.limit));
    while (mg_db_row(db, stmt)) {
        struct mg_store_event event = {sqlite3_column_int64(stmt, 0), mg_op_column(op, stmt, 1),
                                       mg_op_column(op, stmt, 2), sqlite3_column_int64(stmt, 3)};
        *MG_PUSH(&op->arena, op->events, op->n_events, op->events_capacity) = event;
    }
    op->result.events = op->events;
    op->result.n_events = op->n_events;
}

void mg_op_run_find_reusable(struct mg_op *op, struct mg_db *db)
{
    sqlite3_stmt *stmt = MG_BIND(db, REUSABLE, mg_text(op->args.text), mg_real(op->args.real), mg_text(op->args.name));
    if (mg_db_row(db, stmt)) {
        struct mg_store_job *job = MG_NEW(&op->arena, struct mg_store_job);
        mg_job_read(op, stmt, job);
        op->result.job = job;
        mg_db_end(stmt);
    } else {
        mg_op_fail(op, MG_STORE_NOT_FOUND, "nothing to reuse");
    }
}

static int64_t file_bytes(struct mg_op *op, const char *suffix)
{
    struct stat st;
    const char *path = mg_arena_printf(&op->arena, "%s%s", op->store->path, suffix);
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

void mg_op_run_get_stats(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_stats *stats = MG_NEW(&op->arena, struct mg_store_stats);
    sqlite3_stmt *stmt = mg_db_bind(db, MG_STMT_COUNT_STATES, NULL, 0);
    while (mg_db_row(db, stmt)) {
        int state = mg_job_state_parse((const char *)sqlite3_column_text(stmt, 0));
        if (state >= 0) {
            stats->jobs[state] = sqlite3_column_int64(stmt, 1);
        }
    }
    stmt = mg_db_bind(db, MG_STMT_COUNT_ROWS, NULL, 0);
    while (mg_db_row(db, stmt)) {
        stats->plans = sqlite3_column_int64(stmt, 0);
        stats->graphs = sqlite3_column_int64(stmt, 1);
        stats->events = sqlite3_column_int64(stmt, 2);
        stats->free_bytes = sqlite3_column_int64(stmt, 3);
    }
    stats->file_bytes = file_bytes(op, "");
    stats->wal_bytes = file_bytes(op, "-wal");
    op->result.stats = stats;
}
