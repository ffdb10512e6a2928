/* Wishes that plans be measured as wholes, their leases and answers (measured.h). */
#include <stdio.h>
#include <string.h>

#include "store/store_priv.h"

static struct mg_measured *read_measured(struct mg_op *op, struct mg_db *db, sqlite3_stmt *stmt, size_t *n)
{
    struct mg_measured *list = NULL;
    size_t capacity = 0;
    *n = 0;
    while (mg_db_row(db, stmt)) {
        struct mg_measured *m = MG_PUSH(&op->arena, list, *n, capacity);
        const char **const texts[] = {&m->models,   &m->asked_by, &m->agent, &m->host,
                                      &m->class_id, &m->model,    &m->reason};
        *m = (struct mg_measured){.number = sqlite3_column_int64(stmt, 0), .asked_at = sqlite3_column_int64(stmt, 10)};
        memcpy(m->job, sqlite3_column_text(stmt, 1), MG_JOB_ID_LEN);
        memcpy(m->plan, sqlite3_column_text(stmt, 2), MG_PLAN_ID_LEN);
        for (int i = 0; i < 7; i++) {
            const char *text = mg_op_column(op, stmt, 3 + i);
            *texts[i] = text ? text : "";
        }
        m->state = (enum mg_measured_state)mg_measured_state_parse((const char *)sqlite3_column_text(stmt, 11));
        m->at = sqlite3_column_int64(stmt, 12);
        m->attempts = sqlite3_column_int(stmt, 13);
        m->runs = (uint32_t)sqlite3_column_int64(stmt, 14);
        m->latency_s = sqlite3_column_double(stmt, 15);
        m->mad_s = sqlite3_column_double(stmt, 16);
        m->operators_s = sqlite3_column_double(stmt, 17);
        m->peak = sqlite3_column_int64(stmt, 18);
        m->arena = sqlite3_column_int64(stmt, 19);
        m->host_bytes = sqlite3_column_int64(stmt, 20);
        m->busy = sqlite3_column_int(stmt, 21) != 0;
    }
    return list;
}

/* The wish as it is now, with its job, which `changed` with it. */
static void answer_with(struct mg_op *op, struct mg_db *db, int64_t number, bool changed)
{
    op->result.measured = read_measured(op, db, MG_BIND(db, MEASURED_BY_ID, mg_int(number)), &op->result.n_measured);
    if (op->result.n_measured == 0) {
        return;
    }
    struct mg_store_job *job = mg_job_find(op, db, op->result.measured[0].job);
    if (job) {
        if (changed) {
            MG_RUN(db, TOUCH_JOB, mg_int(job->number));
        }
        mg_job_result(op, db, job->number);
    }
}

/* ---- wishes ---- */

/* False, with the operation failed: it names a class, ["class:..."], of which nothing was ever heard. */
static bool is_known(struct mg_op *op, struct mg_db *db, const char *models)
{
    static const char begin[] = "[\"class:";
    char hash[17];
    if (strncmp(models, begin, sizeof begin - 1) != 0) {
        return true;
    }
    snprintf(hash, sizeof hash, "%.*s", (int)strcspn(models + sizeof begin - 1, "\""), models + sizeof begin - 1);
    if (mg_timing_number(db, MG_BIND(db, CLASS_BY_HASH, mg_text(hash)), 0)) {
        return true;
    }
    mg_op_fail(op, MG_STORE_INVALID, "no device class %s is known; GET /devices lists the classes that were measured",
               hash);
    return false;
}

void mg_op_run_want_measured(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job;
    const struct mg_store_point *point = mg_point_find(op, db, op->args.id, op->args.text, &job);
    op->result.job = job;
    if (!point || !mg_op_ok(op, db)) {
        return;
    }
    const char *models = op->args.name ? op->args.name : job->timings_models;
    if (op->args.name && !is_known(op, db, models)) {
        return;
    }
    struct mg_val number = mg_int(job->number), plan = mg_text(point->plan);
    op->result.count = mg_timing_number(db, MG_BIND(db, MEASURED_AGENTS, mg_text(models)), 0);
    int64_t same = mg_timing_number(db, MG_BIND(db, MEASURED_OPEN_SAME, number, plan, mg_text(models)), 0);
    if (same) {
        op->result.measured = read_measured(op, db, MG_BIND(db, MEASURED_BY_ID, mg_int(same)), &op->result.n_measured);
        return;
    }
    if (mg_timing_number(db, MG_BIND(db, MEASURED_OPEN_COUNT, number), 0) >= MG_MEASURED_OPEN) {
        mg_op_fail(op, MG_STORE_CONFLICT, "%d plans of the job wait to be measured", MG_MEASURED_OPEN);
        return;
    }
    sqlite3_stmt *stmt = MG_BIND(db, ADD_MEASURED, number, plan, mg_text(models),
                                 mg_text(op->args.token ? op->args.token : ""), mg_int(mg_store_now(op->store)));
    answer_with(op, db, mg_timing_number(db, stmt, 0), true);
}

/* ---- leases and answers ---- */

static bool next_open(struct mg_db *db, int64_t agent, int64_t class, int64_t now, int64_t *number, int64_t *attempts)
{
    sqlite3_stmt *stmt = MG_BIND(db, MEASURED_NEXT, mg_int(agent), mg_int(class), mg_int(now));
    bool found = mg_db_row(db, stmt);
    if (found) {
        *number = sqlite3_column_int64(stmt, 0);
        *attempts = sqlite3_column_int64(stmt, 1);
        mg_db_end(stmt);
    }
    return found;
}

void mg_op_run_claim_measured(struct mg_op *op, struct mg_db *db)
{
    int64_t now = mg_store_now(op->store), agent, class, number, attempts;
    if (!mg_timing_agent_of(op, db, &agent, &class)) {
        return;
    }
    while (next_open(db, agent, class, now, &number, &attempts)) {
        if (attempts < MG_MEASURED_ATTEMPTS) {
            MG_RUN(db, LEASE_MEASURED, mg_int(number), mg_int(agent), mg_int(class),
                   mg_int(now + MG_MEASURED_LEASE_MS));
            answer_with(op, db, number, true);
            break;
        }
        int64_t job = mg_timing_number(db, MG_BIND(db, GIVE_UP_MEASURED, mg_int(number), mg_int(now)), 0);
        MG_RUN(db, TOUCH_JOB, mg_int(job));
    }
    MG_RUN(db, SEE_AGENT, mg_int(agent), mg_int(now));
}

void mg_op_run_add_measured(struct mg_op *op, struct mg_db *db)
{
    const struct mg_measured *m = op->args.measured;
    int64_t agent, class;
    if (!mg_timing_agent_of(op, db, &agent, &class)) {
        return;
    }
    sqlite3_stmt *stmt = MG_BIND(db, MEASURED_OWNER, mg_int(m->number));
    if (!mg_db_row(db, stmt)) {
        mg_op_fail(op, MG_STORE_NOT_FOUND, "no measurement %lld is wanted", (long long)m->number);
        return;
    }
    bool ours = sqlite3_column_type(stmt, 0) != SQLITE_NULL && sqlite3_column_int64(stmt, 0) == agent;
    bool open = strcmp((const char *)sqlite3_column_text(stmt, 1), "measuring") == 0;
    mg_db_end(stmt);
    if (!ours) {
        mg_op_fail(op, MG_STORE_CONFLICT, "measurement %lld is not leased to %s", (long long)m->number, op->args.name);
        return;
    }
    if (open && m->state == MG_MEASURED_WANTED) {
        MG_RUN(db, GIVE_BACK_MEASURED, mg_int(m->number));
    } else if (open) {
        MG_RUN(db, END_MEASURED, mg_int(m->number), mg_text(mg_measured_state_name(m->state)), mg_text(m->reason),
               mg_text(m->host), mg_int(mg_store_now(op->store)), mg_int(m->runs), mg_real(m->latency_s),
               mg_real(m->mad_s), mg_real(m->operators_s), mg_int(m->peak), mg_int(m->arena), mg_int(m->host_bytes),
               mg_int(m->busy));
    }
    answer_with(op, db, m->number, open);
}

/* ---- reads ---- */

const struct mg_measured *mg_measured_of(struct mg_op *op, struct mg_db *db, int64_t job, const char *plan, size_t *n)
{
    return read_measured(op, db, MG_BIND(db, MEASURED_OF_JOB, mg_int(job), mg_text(plan)), n);
}

void mg_op_run_list_measured(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_job *job;
    const struct mg_store_point *point = NULL;
    if (op->args.text) {
        point = mg_point_find(op, db, op->args.id, op->args.text, &job);
    } else {
        job = mg_job_find(op, db, op->args.id);
    }
    op->result.job = job;
    if (job && mg_op_ok(op, db)) {
        op->result.measured = mg_measured_of(op, db, job->number, point ? point->plan : NULL, &op->result.n_measured);
    }
}

/* ---- the face ---- */

static struct mg_op *op_of_agent(mg_store *store, enum mg_op_kind kind, const char *agent, const char *token,
                                 bool any_agent, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, kind, cb, ctx);
    op->args.name = mg_op_text(op, agent);
    op->args.token = mg_op_text(op, token);
    op->args.flag = any_agent;
    return op;
}

void mg_store_want_measured(mg_store *store, const char *id, const char *which, const char *models, const char *token,
                            mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_of_agent(store, MG_OP_want_measured, models, token, false, cb, ctx);
    op->args.id = mg_op_text(op, id);
    op->args.text = mg_op_text(op, which);
    mg_op_start(op);
}

void mg_store_claim_measured(mg_store *store, const char *agent, const char *token, bool any_agent, mg_store_cb *cb,
                             void *ctx)
{
    mg_op_start(op_of_agent(store, MG_OP_claim_measured, agent, token, any_agent, cb, ctx));
}

void mg_store_add_measured(mg_store *store, const char *agent, const char *token, bool any_agent,
                           const struct mg_measured *answer, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_of_agent(store, MG_OP_add_measured, agent, token, any_agent, cb, ctx);
    struct mg_measured *to = MG_NEW(&op->arena, struct mg_measured);
    *to = *answer;
    to->reason = mg_op_text(op, answer->reason ? answer->reason : "");
    to->host = mg_op_text(op, answer->host ? answer->host : "");
    op->args.measured = to;
    mg_op_start(op);
}

void mg_store_list_measured(mg_store *store, const char *id, const char *which, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_list_measured, cb, ctx);
    op->args.id = mg_op_text(op, id);
    op->args.text = mg_op_text(op, which);
    mg_op_start(op);
}
