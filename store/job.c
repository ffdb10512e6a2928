/* What operations share: reading a row of jobs, events, labels, points, removal. */
#include <stdio.h>
#include <string.h>

#include "store/store_priv.h"

const char *mg_op_column(struct mg_op *op, sqlite3_stmt *stmt, int column)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    return text ? mg_arena_strdup(&op->arena, text) : NULL;
}

struct mg_blob mg_op_column_blob(struct mg_op *op, sqlite3_stmt *stmt, int column)
{
    const void *data = sqlite3_column_blob(stmt, column);
    size_t size = (size_t)sqlite3_column_bytes(stmt, column);
    return (struct mg_blob){size ? mg_arena_copy(&op->arena, data, size) : "", size};
}

/* Reads columns from left to right. */
struct cursor {
    struct mg_op *op;
    sqlite3_stmt *stmt;
    int at;
};

static const char *next_text(struct cursor *c)
{
    return mg_op_column(c->op, c->stmt, c->at++);
}

static const char *next_string(struct cursor *c)
{
    const char *text = next_text(c);
    return text ? text : "";
}

static int64_t next_int(struct cursor *c)
{
    return sqlite3_column_int64(c->stmt, c->at++);
}

static int64_t next_int_or(struct cursor *c, int64_t none)
{
    bool null = sqlite3_column_type(c->stmt, c->at) == SQLITE_NULL;
    int64_t value = next_int(c);
    return null ? none : value;
}

static double next_real(struct cursor *c)
{
    return sqlite3_column_double(c->stmt, c->at++);
}

static int next_enum(struct cursor *c, int (*parse)(const char *name))
{
    int value = parse((const char *)sqlite3_column_text(c->stmt, c->at++));
    return value < 0 ? 0 : value;
}

static void next_id(struct cursor *c, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(c->stmt, c->at++);
    snprintf(out, size, "%s", text ? text : "");
}

static void read_texts(struct cursor *c, struct mg_store_job *job)
{
    job->name = next_string(c);
    job->labels = next_string(c);
    job->owner = next_string(c);
    job->token = next_string(c);
    job->network = next_string(c);
    job->device = next_string(c);
    job->graph_digest = next_string(c);
    job->request_digest = next_string(c);
    job->gate = next_text(c);
    job->error = next_text(c);
    job->result = next_text(c);
    job->reused_from = next_text(c);
}

static void read_times(struct cursor *c, struct mg_store_job *job)
{
    job->created_at = next_int(c);
    job->queued_at = next_int(c);
    job->started_at = next_int(c);
    job->ended_at = next_int(c);
    job->deadline_at = next_int(c);
    job->lease_until = next_int(c);
    job->queue_order = next_int(c);
    job->attempts = (int)next_int(c);
    job->crashes = (int)next_int(c);
    job->unclean_starts = (int)next_int(c);
    job->pinned = next_int(c) != 0;
    job->reproducible = next_int(c) != 0;
    job->resumed = next_int(c) != 0;
    job->timings_generation = next_int(c);
    job->budget_seconds = next_real(c);
    job->budget_evaluations = next_int(c);
}

static void read_figures(struct cursor *c, struct mg_store_job *job)
{
    job->evaluations = next_int(c);
    job->accepted = next_int(c);
    job->rejected = next_int(c);
    job->elapsed_s = next_real(c);
    job->has_original = sqlite3_column_type(c->stmt, c->at) != SQLITE_NULL;
    job->original_latency_s = next_real(c);
    job->original_peak = next_int(c);
    job->original_arena = next_int(c);
    next_id(c, job->best_plan, sizeof job->best_plan);
    job->has_best = job->best_plan[0] != 0;
    job->best_latency_s = next_real(c);
    job->best_peak = next_int(c);
    job->best_arena = next_int(c);
    job->best_host = next_int(c);
    job->lower_bound = next_int_or(c, -1);
    job->smallest_found = next_int_or(c, -1);
    for (int i = 0; i < 4; i++) {
        job->prices[i] = next_real(c);
    }
    job->last_event = next_int(c);
    job->timings_models = next_string(c);
    job->timings_class = next_string(c);
    job->require_measured = next_int(c) != 0;
}

void mg_job_read(struct mg_op *op, sqlite3_stmt *stmt, struct mg_store_job *job)
{
    struct cursor c = {op, stmt, 0};
    job->number = next_int(&c);
    next_id(&c, job->id, sizeof job->id);
    job->state = (enum mg_job_state)next_enum(&c, mg_job_state_parse);
    job->outcome = (enum mg_job_outcome)next_enum(&c, mg_job_outcome_parse);
    job->stopped_by = (enum mg_job_stop)next_enum(&c, mg_job_stop_parse);
    job->priority = (enum mg_job_priority)next_enum(&c, mg_job_priority_parse);
    job->revision = next_int(&c);
    read_texts(&c, job);
    read_times(&c, job);
    read_figures(&c, job);
}

static struct mg_store_job *read_one(struct mg_op *op, struct mg_db *db, sqlite3_stmt *stmt)
{
    struct mg_store_job *job = NULL;
    if (mg_db_row(db, stmt)) {
        job = MG_NEW(&op->arena, struct mg_store_job);
        mg_job_read(op, stmt, job);
        mg_db_end(stmt);
    }
    return job;
}

static bool is_expected(const struct mg_op *op, const struct mg_store_job *job)
{
    size_t i = 0;
    while (i < op->args.n_revisions && op->args.revisions[i] != job->revision) {
        i++;
    }
    return !op->args.conditional || i < op->args.n_revisions;
}

struct mg_store_job *mg_job_find(struct mg_op *op, struct mg_db *db, const char *id)
{
    struct mg_store_job *job = read_one(op, db, MG_BIND(db, JOB_BY_ID, mg_text(id ? id : "")));
    if (!job && db->code == MG_STORE_OK) {
        mg_op_fail(op, MG_STORE_NOT_FOUND, "no job %s", id ? id : "");
    }
    if (job && !is_expected(op, job)) {
        mg_op_fail(op, MG_STORE_STALE, "job %s is at revision %lld", job->id, (long long)job->revision);
        return NULL;
    }
    return job;
}

void mg_job_result(struct mg_op *op, struct mg_db *db, int64_t number)
{
    op->result.job = read_one(op, db, MG_BIND(db, JOB_BY_NUMBER, mg_int(number)));
    op->result.events = op->events;
    op->result.n_events = op->n_events;
}

void mg_job_event(struct mg_op *op, struct mg_db *db, int64_t number, const char *type, const char *data)
{
    sqlite3_stmt *stmt = MG_BIND(db, NEXT_EVENT, mg_int(number));
    int64_t seq = 0, now = mg_store_now(op->store);
    while (mg_db_row(db, stmt)) {
        seq = sqlite3_column_int64(stmt, 0);
    }
    MG_RUN(db, ADD_EVENT, mg_int(number), mg_int(seq), mg_text(type), mg_text(data), mg_int(now));
    if (db->code == MG_STORE_OK) {
        *MG_PUSH(&op->arena, op->events, op->n_events, op->events_capacity) =
            (struct mg_store_event){seq, type, data, now};
    }
}

static const char *quoted(struct mg_op *op, const char *name)
{
    return name ? mg_arena_printf(&op->arena, "\"%s\"", name) : "null";
}

void mg_job_state_events(struct mg_op *op, struct mg_db *db, const struct mg_store_job *job)
{
    const char *state = mg_job_state_name(job->state);
    mg_job_event(op, db, job->number, "state", mg_arena_printf(&op->arena, "{\"state\":\"%s\"}", state));
    if (mg_job_state_ended(job->state)) {
        mg_job_event(op, db, job->number, "end",
                     mg_arena_printf(&op->arena, "{\"state\":\"%s\",\"outcome\":%s,\"stopped_by\":%s}", state,
                                     quoted(op, mg_job_outcome_name(job->outcome)),
                                     quoted(op, mg_job_stop_name(job->stopped_by))));
    }
}

void mg_job_labels(struct mg_db *db, int64_t number, const char *labels)
{
    MG_RUN(db, DROP_LABELS, mg_int(number));
    MG_RUN(db, ADD_LABELS, mg_int(number), mg_text(labels));
}

void mg_job_remove(struct mg_op *op, struct mg_db *db, const struct mg_store_job *job)
{
    (void)op;
    MG_RUN(db, DROP_JOB, mg_int(job->number));
    if (job->graph_digest[0]) {
        MG_RUN(db, DROP_GRAPH, mg_text(job->graph_digest));
    }
}

/* ---- points ---- */

static bool has(struct mg_db *db, sqlite3_stmt *stmt)
{
    bool found = mg_db_row(db, stmt);
    if (found) {
        mg_db_end(stmt);
    }
    return found;
}

static void save_point(struct mg_op *op, struct mg_db *db, int64_t number, const struct mg_store_point *point)
{
    const char *plan = point->plan ? point->plan : "", *series = point->series ? point->series : "";
    struct mg_val job = mg_int(number);
    if (plan[0] && point->blob.size) {
        MG_RUN(db, ADD_PLAN, job, mg_text(plan), mg_bytes(point->blob));
    } else if (plan[0] && !has(db, MG_BIND(db, HAS_PLAN, job, mg_text(plan)))) {
        mg_op_fail(op, MG_STORE_INVALID, "plan %s is not known and comes without its blob", plan);
    } else if (!plan[0] && point->kind != MG_POINT_BASELINE) {
        mg_op_fail(op, MG_STORE_INVALID, "a point of the front has no plan");
    }
    MG_RUN(db, ADD_POINT, job, mg_text(mg_point_kind_name(point->kind)), mg_text(series), mg_text(plan),
           mg_text(point->reason), mg_real(point->latency_s), mg_int(point->peak), mg_int(point->arena),
           mg_int(point->host), mg_text(point->techniques), mg_real(point->measured_share));
    if (point->kind == MG_POINT_ORIGINAL) {
        MG_RUN(db, SET_ORIGINAL, job, mg_real(point->latency_s), mg_int(point->peak), mg_int(point->arena));
    }
}

static void replace_point(struct mg_op *op, struct mg_db *db, int64_t number, const struct mg_store_replacement *r)
{
    struct mg_val job = mg_int(number);
    if (strcmp(r->plan, r->by) == 0 || !has(db, MG_BIND(db, STANDS, job, mg_text(r->by)))) {
        mg_op_fail(op, MG_STORE_INVALID, "plan %s cannot stand for %s", r->by, r->plan);
        return;
    }
    MG_RUN(db, REPLACE_POINT, job, mg_text(r->plan), mg_text(r->by));
    MG_RUN(db, DROP_PLAN, job, mg_text(r->plan));
}

static void save_progress(struct mg_op *op, struct mg_db *db, int64_t number, const struct mg_store_progress *progress)
{
    MG_RUN(db, SET_PROGRESS, mg_int(number), mg_int(progress->evaluations), mg_int(progress->accepted),
           mg_int(progress->rejected), mg_real(progress->elapsed_s));
    if (progress->best && MG_RUN(db, SET_BEST, mg_int(number), mg_text(progress->best)) == 0) {
        mg_op_fail(op, MG_STORE_INVALID, "the best plan %s is not in the front", progress->best);
    }
}

void mg_points_save(struct mg_op *op, struct mg_db *db, int64_t number, const struct mg_store_points *points)
{
    for (size_t i = 0; i < points->n_points && mg_op_ok(op, db); i++) {
        save_point(op, db, number, &points->points[i]);
    }
    for (size_t i = 0; i < points->n_replaced && mg_op_ok(op, db); i++) {
        replace_point(op, db, number, &points->replaced[i]);
    }
    if (points->progress && mg_op_ok(op, db)) {
        save_progress(op, db, number, points->progress);
    }
    if (points->event) {
        mg_job_event(op, db, number, "front", points->event);
    }
}
