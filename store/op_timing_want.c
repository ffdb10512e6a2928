/* What is wanted and who is at it: wants of graphs, leases, revocation, the pinning of a job's prices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_priv.h"

static const int64_t DAY_MS = 24 * 3600 * 1000;
enum { WANTS_AT_ONCE = 100, SWEPT_AT_ONCE = 500, DROPPED_AT_ONCE = 1000 }; /* some milliseconds each */
static const double RUNS_EACH = 20;                                        /* warm-up and repeats, about */

int64_t mg_timing_generation(struct mg_db *db)
{
    sqlite3_stmt *stmt = MG_BIND(db, GET_META, mg_text("timings_generation"));
    int64_t value = 0;
    if (mg_db_row(db, stmt)) {
        value = strtoll((const char *)sqlite3_column_text(stmt, 0), NULL, 10);
        mg_db_end(stmt);
    }
    return value;
}

void mg_timing_set_generation(struct mg_op *op, struct mg_db *db, int64_t generation)
{
    MG_RUN(db, SET_META, mg_text("timings_generation"),
           mg_text(mg_arena_printf(&op->arena, "%lld", (long long)generation)));
}

/* ---- wants ---- */

/* Where they are too many, those go first that are settled, then those worth least, in pieces, until a tenth is free.
 * A graph that comes again and lacks some of its own has all of them wanted anew: mg_op_run_pick_class(). False: there
 * is more to do. */
static bool make_room(struct mg_op *op, struct mg_db *db)
{
    struct mg_op_args *args = &op->args;
    int64_t room = mg_timing_number(
        db, MG_BIND(db, ROOM_FOR_WANTS, mg_text(args->text), mg_int(MG_TIMING_WANTS), mg_int(WANTS_AT_ONCE)), 0);
    args->making_room = room < (args->making_room ? MG_TIMING_WANTS / 10 : 0);
    if (!args->making_room) {
        return true;
    }
    if (args->swept >= mg_timing_number(db, mg_db_bind(db, MG_STMT_LAST_SIGNATURE, NULL, 0), 0)) {
        return MG_RUN(db, DROP_LEAST_WANTS, mg_int(DROPPED_AT_ONCE)) == 0;
    }
    MG_RUN(db, DROP_SETTLED_WANTS, mg_int(args->swept), mg_int(args->swept + SWEPT_AT_ONCE),
           mg_int(mg_store_now(op->store) - MG_TIMING_FAILURE_DAYS * DAY_MS));
    args->swept += SWEPT_AT_ONCE;
    return false;
}

/* Only a graph all of whose wants went in counts as known. */
static void set_graph(struct mg_op *op, struct mg_db *db)
{
    const struct mg_op_args *args = &op->args;
    int64_t *whole = MG_NEW_ARRAY(&op->arena, int64_t, args->n_wants);
    size_t n = 0;
    for (size_t i = 0; i < args->n_wants; i++) {
        if (args->wants[i].whole) {
            whole[n++] = args->numbers[i];
        }
    }
    MG_RUN(db, SET_GRAPH, mg_text(args->id), mg_text(args->text), mg_bytes((struct mg_blob){whole, n * sizeof *whole}));
}

/* Thousands of rows, in pieces. */
void mg_op_run_add_wants(struct mg_op *op, struct mg_db *db)
{
    const struct mg_op_args *args = &op->args;
    if (op->at < op->size && !make_room(op, db)) {
        return;
    }
    size_t end = args->n_wants - op->at > WANTS_AT_ONCE ? op->at + WANTS_AT_ONCE : args->n_wants;
    for (; op->reached < end && mg_op_ok(op, db); op->reached++) {
        const struct mg_timing_want *want = &args->wants[op->reached];
        bool fresh;
        int64_t id = mg_timing_signature_number(db, want->key, want->op, want->signature, &fresh);
        MG_RUN(db, ADD_WANT, mg_text(args->text), mg_int(id), mg_real(want->value), mg_real(want->seconds));
        args->numbers[op->reached] = id;
    }
    if (op->reached == args->n_wants) {
        set_graph(op, db);
    }
}

/* ---- leases ---- */

struct want_row {
    int64_t signature;
    struct mg_timing_want want;
};

static void read_want(struct mg_op *op, sqlite3_stmt *stmt, struct mg_timing_want *want)
{
    want->op = mg_op_column(op, stmt, 1);
    want->signature = mg_op_column(op, stmt, 2);
    want->value = sqlite3_column_double(stmt, 3);
    want->seconds = sqlite3_column_double(stmt, 4);
}

struct claim {
    struct want_row *rows;
    size_t count, capacity;
    double left; /* seconds to spend */
};

static bool is_full(const struct mg_op *op, const struct claim *claim)
{
    return claim->count >= (size_t)op->args.limit || (op->args.real > 0 && claim->left <= 0);
}

/* At least one is handed out. */
static void take(struct mg_op *op, struct mg_db *db, sqlite3_stmt *stmt, struct claim *claim)
{
    while (mg_db_row(db, stmt)) {
        struct want_row *row = MG_PUSH(&op->arena, claim->rows, claim->count, claim->capacity);
        row->signature = sqlite3_column_int64(stmt, 0);
        read_want(op, stmt, &row->want);
        claim->left -= RUNS_EACH * row->want.seconds;
        if (is_full(op, claim)) {
            mg_db_end(stmt);
            return;
        }
    }
}

/* What is wanted; then what is measured again: each day another hundredth of what is known. */
static void find_claims(struct mg_op *op, struct mg_db *db, int64_t class, int64_t agent, struct claim *claim)
{
    int64_t now = mg_store_now(op->store);
    take(op, db,
         MG_BIND(db, OPEN_WANTS, mg_int(class), mg_int(now), mg_int(now - MG_TIMING_FAILURE_DAYS * DAY_MS),
                 mg_int(agent), mg_int(now - DAY_MS), mg_int(op->args.limit)),
         claim);
    if (!is_full(op, claim)) {
        take(op, db, MG_BIND(db, AGAIN, mg_int(class), mg_int(now - DAY_MS), mg_int(now / DAY_MS), mg_int(now)), claim);
    }
}

/* `out` may be NULL. */
static bool find_agent(struct mg_op *op, struct mg_db *db, int64_t *agent, int64_t *class, struct mg_timing_class *out)
{
    sqlite3_stmt *stmt = MG_BIND(db, AGENT_BY_NAME, mg_text(op->args.name));
    if (!mg_db_row(db, stmt)) {
        mg_op_fail(op, MG_STORE_NOT_FOUND, "no agent %s", op->args.name);
        return false;
    }
    const char *token = (const char *)sqlite3_column_text(stmt, 1);
    bool ours = op->args.flag || !token || !*token || strcmp(token, op->args.token ? op->args.token : "") == 0;
    *agent = sqlite3_column_int64(stmt, 0);
    *class = sqlite3_column_int64(stmt, 2);
    if (out) {
        *out =
            (struct mg_timing_class){mg_op_column(op, stmt, 3), mg_op_column(op, stmt, 4), mg_op_column(op, stmt, 5)};
    }
    mg_db_end(stmt);
    if (!ours) {
        mg_op_fail(op, MG_STORE_CONFLICT, "the agent %s belongs to another token", op->args.name);
    }
    return ours;
}

bool mg_timing_agent_of(struct mg_op *op, struct mg_db *db, int64_t *agent, int64_t *class)
{
    return find_agent(op, db, agent, class, NULL);
}

void mg_op_run_claim_timings(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_timings *answer = MG_NEW(&op->arena, struct mg_store_timings);
    int64_t now = mg_store_now(op->store), agent, class;
    op->result.timings = answer;
    if (!find_agent(op, db, &agent, &class, &answer->class)) {
        return;
    }
    struct claim claim = {.left = op->args.real};
    find_claims(op, db, class, agent, &claim);
    size_t n = claim.count;
    struct mg_timing_want *wants = MG_NEW_ARRAY(&op->arena, struct mg_timing_want, n);
    for (size_t i = 0; i < n && mg_op_ok(op, db); i++) {
        wants[i] = claim.rows[i].want;
        MG_RUN(db, ADD_LEASE, mg_int(class), mg_int(claim.rows[i].signature), mg_int(agent),
               mg_int(now + MG_TIMING_LEASE_MS));
    }
    MG_RUN(db, SEE_AGENT, mg_int(agent), mg_int(now));
    answer->wants = wants;
    answer->n_wants = n;
}

/* ---- revocation ---- */

/* Jobs that may have used rows of the class since `from`. */
static void find_users(struct mg_op *op, struct mg_db *db, int64_t class, int64_t from, const char ***jobs, size_t *n,
                       size_t *capacity)
{
    sqlite3_stmt *stmt = MG_BIND(db, USERS, mg_int(class), mg_int(from));
    while (mg_db_row(db, stmt)) {
        *MG_PUSH(&op->arena, *jobs, *n, *capacity) = mg_op_column(op, stmt, 0);
    }
}

struct touched {
    int64_t class, from, rows;
};

void mg_op_run_revoke_timings(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_timings *answer = MG_NEW(&op->arena, struct mg_store_timings);
    struct touched *touched = NULL;
    const char **jobs = NULL;
    size_t n = 0, capacity = 0, n_jobs = 0, jobs_capacity = 0;
    enum mg_stmt find = strcmp(op->args.text, "agent") == 0   ? MG_STMT_ROWS_BY_AGENT
                        : strcmp(op->args.text, "token") == 0 ? MG_STMT_ROWS_BY_TOKEN
                                                              : MG_STMT_ROWS_BY_HOST;
    const struct mg_val by[] = {mg_text(op->args.name), mg_int(op->args.number)};
    sqlite3_stmt *stmt = mg_db_bind(db, find, by, 2);
    while (mg_db_row(db, stmt)) {
        *MG_PUSH(&op->arena, touched, n, capacity) = (struct touched){
            sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 2)};
    }
    int64_t generation = mg_timing_generation(db) + (n > 0);
    for (size_t i = 0; i < n && mg_op_ok(op, db); i++) {
        find_users(op, db, touched[i].class, touched[i].from, &jobs, &n_jobs, &jobs_capacity);
        answer->added += touched[i].rows;
        MG_RUN(db, SET_CLASS_GENERATION, mg_int(touched[i].class), mg_int(generation));
        MG_RUN(db, DROP_RATIOS, mg_int(touched[i].class));
    }
    const enum mg_stmt end = find + 1; /* each is followed by the statement that ends the rows it finds */
    const struct mg_val ending[] = {by[0], by[1], mg_int(generation)};
    mg_db_run(db, end, ending, 3);
    if (n > 0) {
        mg_timing_set_generation(op, db, generation);
    }
    answer->generation = generation;
    answer->jobs = jobs;
    answer->n_jobs = n_jobs;
    op->result.timings = answer;
}

/* ---- jobs ---- */

void mg_op_run_set_timings(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = mg_job_find(op, db, op->args.id);
    if (job) {
        MG_RUN(db, SET_TIMINGS, mg_int(job->number), mg_text(op->args.text), mg_int(op->args.number));
        mg_job_result(op, db, job->number);
    }
}
