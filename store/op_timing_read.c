/* Reads of the timing cache: rows, classes, agents, what is missing, which class fits a graph. */
#include <string.h>

#include "store_priv.h"

static const int64_t DAY_MS = 24 * 3600 * 1000;
_Static_assert((MG_TIMING_FAILURE_DAYS * 24 - 1) * 3600LL * 1000 == 2588400000, "MG_FAILED of statements.def");

static const char *const statuses[] = {"ok", "unsupported", "out_of_memory"};

const char *mg_timing_status_name(enum mg_timing_status status)
{
    return statuses[status];
}

int mg_timing_status_parse(const char *name)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(statuses[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static struct mg_store_timings *answer_of(struct mg_op *op)
{
    struct mg_store_timings *answer = MG_NEW(&op->arena, struct mg_store_timings);
    op->result.timings = answer;
    return answer;
}

static struct mg_timing_class read_class(struct mg_op *op, sqlite3_stmt *stmt, int at)
{
    return (struct mg_timing_class){mg_op_column(op, stmt, at), mg_op_column(op, stmt, at + 1),
                                    mg_op_column(op, stmt, at + 2)};
}

/* ---- rows ---- */

static void read_measured(struct mg_op *op, sqlite3_stmt *stmt, struct mg_timing_row *row)
{
    row->row = (uint32_t)sqlite3_column_int64(stmt, 9);
    row->op = mg_op_column(op, stmt, 10);
    row->signature = mg_op_column(op, stmt, 11);
    row->status = (enum mg_timing_status)sqlite3_column_int(stmt, 12);
    row->n = (uint32_t)sqlite3_column_int64(stmt, 13);
    row->median_s = sqlite3_column_double(stmt, 14);
    row->mad_s = sqlite3_column_double(stmt, 15);
    row->min_s = sqlite3_column_double(stmt, 16);
    row->workspace = (uint64_t)sqlite3_column_int64(stmt, 17);
    row->clock_mhz = sqlite3_column_double(stmt, 18);
    row->throttled = sqlite3_column_int(stmt, 19) != 0;
}

static void read_listed(struct mg_op *op, sqlite3_stmt *stmt, struct mg_timing_listed *out)
{
    out->number = sqlite3_column_int64(stmt, 0);
    out->agent = mg_op_column(op, stmt, 1);
    out->host = mg_op_column(op, stmt, 2);
    out->batch = mg_op_column(op, stmt, 3);
    out->token = mg_op_column(op, stmt, 4);
    out->version = mg_op_column(op, stmt, 5);
    out->class = read_class(op, stmt, 6);
    read_measured(op, stmt, &out->row);
    out->at = sqlite3_column_int64(stmt, 20);
    out->canary_before_s = sqlite3_column_double(stmt, 21);
    out->canary_after_s = sqlite3_column_double(stmt, 22);
    out->canary_best_s = sqlite3_column_double(stmt, 23);
    out->busy = sqlite3_column_int(stmt, 24) != 0;
    out->suspect = sqlite3_column_type(stmt, 25) == SQLITE_NULL;
    out->revoked = sqlite3_column_type(stmt, 26) != SQLITE_NULL;
    out->drifts = sqlite3_column_int(stmt, 27) != 0;
    out->row.model_s = sqlite3_column_double(stmt, 28);
}

void mg_op_run_list_timings(struct mg_op *op, struct mg_db *db)
{
    const struct mg_timing_query *q = op->args.timing_query;
    struct mg_store_timings *answer = answer_of(op);
    struct mg_timing_listed *rows = NULL;
    size_t n = 0, capacity = 0;
    int limit = q->limit < 1 || q->limit > MG_TIMING_PAGE ? MG_TIMING_PAGE : q->limit;
    sqlite3_stmt *stmt = MG_BIND(db, LIST_TIMINGS, mg_int(q->after), mg_text(q->class_id), mg_text(q->model),
                                 mg_text(q->op), mg_text(q->agent), mg_int(q->suspect), mg_int(limit));
    while (mg_db_row(db, stmt)) {
        read_listed(op, stmt, MG_PUSH(&op->arena, rows, n, capacity));
    }
    answer->rows = rows;
    answer->n_rows = n;
    answer->next = n == (size_t)limit ? rows[n - 1].number : 0;
    answer->generation = mg_timing_generation(db);
}

/* ---- classes and agents ---- */

void mg_op_run_list_classes(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_timings *answer = answer_of(op);
    struct mg_timing_class_stats *classes = NULL;
    size_t n = 0, capacity = 0;
    sqlite3_stmt *stmt = MG_BIND(db, CLASSES, mg_int(mg_store_now(op->store) - MG_TIMING_FAILURE_DAYS * DAY_MS));
    while (mg_db_row(db, stmt)) {
        struct mg_timing_class_stats *c = MG_PUSH(&op->arena, classes, n, capacity);
        int64_t *const figures[] = {&c->generation, &c->rows,     &c->signatures, &c->suspects,  &c->drifting,
                                    &c->settled,    &c->failures, &c->wanted,     &c->oldest_at, &c->newest_at};
        c->class = read_class(op, stmt, 0);
        for (int i = 0; i < 10; i++) {
            *figures[i] = sqlite3_column_int64(stmt, 3 + i);
        }
    }
    answer->classes = classes;
    answer->n_classes = n;
    answer->generation = mg_timing_generation(db);
}

void mg_op_run_list_agents(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_timings *answer = answer_of(op);
    struct mg_timing_agent *agents = NULL;
    size_t n = 0, capacity = 0;
    sqlite3_stmt *stmt = mg_db_bind(db, MG_STMT_AGENTS, NULL, 0);
    while (mg_db_row(db, stmt)) {
        struct mg_timing_agent *a = MG_PUSH(&op->arena, agents, n, capacity);
        const char **const texts[] = {&a->name, &a->host, &a->version, &a->uuid, &a->state, &a->token};
        for (int i = 0; i < 6; i++) {
            *texts[i] = mg_op_column(op, stmt, i);
        }
        a->class = read_class(op, stmt, 6);
        a->registered_at = sqlite3_column_int64(stmt, 9);
        a->seen_at = sqlite3_column_int64(stmt, 10);
        a->batches = sqlite3_column_int64(stmt, 11);
        a->rows = sqlite3_column_int64(stmt, 12);
        a->canary_s = sqlite3_column_double(stmt, 13);
    }
    answer->agents = agents;
    answer->n_agents = n;
}

/* ---- what is missing ---- */

void mg_op_run_list_missing(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_timings *answer = answer_of(op);
    struct mg_timing_want *wants = NULL;
    size_t n = 0, capacity = 0;
    int64_t failed_since = mg_store_now(op->store) - MG_TIMING_FAILURE_DAYS * DAY_MS;
    sqlite3_stmt *stmt =
        op->args.id
            ? MG_BIND(db, MISSING_IN_CLASS, mg_text(op->args.id), mg_int(failed_since), mg_int(op->args.limit))
            : MG_BIND(db, MISSING_IN_MODEL, mg_text(op->args.name), mg_int(failed_since), mg_int(op->args.limit));
    while (mg_db_row(db, stmt)) {
        struct mg_timing_want *want = MG_PUSH(&op->arena, wants, n, capacity);
        want->op = mg_op_column(op, stmt, 1);
        want->signature = mg_op_column(op, stmt, 2);
        want->value = sqlite3_column_double(stmt, 3);
        want->seconds = sqlite3_column_double(stmt, 4);
    }
    answer->wants = wants;
    answer->n_wants = n;
}

/* ---- which class fits a graph ---- */

struct candidate {
    int64_t id, family;
    struct mg_timing_class class;
    int64_t covered, settled;
};

static void count_covered(struct mg_op *op, struct mg_db *db, struct candidate *c, const int64_t *signatures, size_t n)
{
    int64_t failed_since = mg_store_now(op->store) - MG_TIMING_FAILURE_DAYS * DAY_MS;
    for (size_t i = 0; i < n && mg_op_ok(op, db); i++) {
        sqlite3_stmt *stmt =
            MG_BIND(db, MEASURED, mg_int(c->family), mg_int(signatures[i]), mg_int(c->id), mg_int(failed_since));
        if (mg_db_row(db, stmt)) {
            c->covered += sqlite3_column_int(stmt, 0) != 0;
            c->settled += sqlite3_column_int(stmt, 0) == 0 && sqlite3_column_int(stmt, 1) != 0;
            mg_db_end(stmt);
        }
    }
}

/* Whether something that the graph needs in the class is neither known nor wanted: it had to make room. */
static bool lacks_wants(struct mg_op *op, struct mg_db *db, const struct candidate *c, const int64_t *signatures,
                        size_t n)
{
    int64_t failed_since = mg_store_now(op->store) - MG_TIMING_FAILURE_DAYS * DAY_MS;
    bool lost = false;
    for (size_t i = 0; i < n && !lost && mg_op_ok(op, db); i++) {
        lost =
            mg_timing_number(db, MG_BIND(db, IS_LOST, mg_int(c->id), mg_int(signatures[i]), mg_int(failed_since)), 0);
    }
    return lost;
}

static int64_t *graph_signatures(struct mg_op *op, struct mg_db *db, size_t *n, bool *known)
{
    int64_t *signatures = NULL;
    sqlite3_stmt *stmt = MG_BIND(db, GET_TIMING_GRAPH, mg_text(op->args.id), mg_text(op->args.text));
    *n = 0;
    *known = false;
    if (mg_db_row(db, stmt)) {
        *known = sqlite3_column_int(stmt, 1) != 0;
        struct mg_blob blob = mg_op_column_blob(op, stmt, 0);
        *n = blob.size / sizeof *signatures;
        signatures = MG_NEW_ARRAY(&op->arena, int64_t, *n);
        memcpy(signatures, blob.data, *n * sizeof *signatures);
        mg_db_end(stmt);
    }
    return signatures;
}

void mg_op_run_pick_class(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_timings *answer = answer_of(op);
    struct candidate *list = NULL, *best = NULL;
    size_t n = 0, capacity = 0, total;
    int64_t *signatures = graph_signatures(op, db, &total, &answer->graph_known);
    sqlite3_stmt *stmt = MG_BIND(db, CLASSES_OF_MODELS, mg_text(op->args.text));
    while (mg_db_row(db, stmt)) {
        struct candidate *c = MG_PUSH(&op->arena, list, n, capacity);
        *c = (struct candidate){.id = sqlite3_column_int64(stmt, 3),
                                .family = sqlite3_column_int64(stmt, 4),
                                .class = read_class(op, stmt, 0)};
        int64_t generation = sqlite3_column_int64(stmt, 5);
        answer->generation = generation > answer->generation ? generation : answer->generation;
    }
    for (size_t i = 0; i < n && mg_op_ok(op, db); i++) {
        count_covered(op, db, &list[i], signatures, total);
        if (!best || list[i].covered > best->covered) {
            best = &list[i];
        }
    }
    answer->total = (int64_t)total;
    if (best) {
        answer->class = best->class;
        answer->covered = best->covered;
        answer->settled = best->settled;
        if (answer->covered + answer->settled < answer->total && lacks_wants(op, db, best, signatures, total)) {
            answer->graph_known = false;
        }
    }
}
