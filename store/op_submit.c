/* How a job comes in: submit, accept, retry, reuse. */
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "store/store_priv.h"

enum { ID_TRIES = 4 };

/* 12 characters of [0-9a-z]: 62 bits, by rejection so that all are equally likely. */
static bool make_id(char id[MG_JOB_ID_LEN + 1])
{
    int n = 0;
    memset(id, 0, MG_JOB_ID_LEN + 1);
    while (n < MG_JOB_ID_LEN) {
        uint8_t bytes[32];
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
            return false;
        }
        for (size_t i = 0; i < sizeof bytes && n < MG_JOB_ID_LEN; i++) {
            if (bytes[i] < 252) {
                id[n++] = "0123456789abcdefghijklmnopqrstuvwxyz"[bytes[i] % 36];
            }
        }
    }
    return true;
}

static bool id_is_free(struct mg_db *db, const char *id)
{
    sqlite3_stmt *stmt = MG_BIND(db, JOB_BY_ID, mg_text(id));
    bool taken = mg_db_row(db, stmt);
    if (taken) {
        mg_db_end(stmt);
    }
    return !taken;
}

/* The caller's id if it is good and free, or a new one. */
static const char *choose_id(struct mg_op *op, struct mg_db *db, const char *wanted)
{
    char *id = mg_arena_alloc(&op->arena, MG_JOB_ID_LEN + 1);
    if (wanted) {
        if (strlen(wanted) != MG_JOB_ID_LEN ||
            strspn(wanted, "0123456789abcdefghijklmnopqrstuvwxyz") != MG_JOB_ID_LEN) {
            mg_op_fail(op, MG_STORE_INVALID, "a job's id is %d characters of 0-9a-z", MG_JOB_ID_LEN);
        } else if (!id_is_free(db, wanted)) {
            mg_op_fail(op, MG_STORE_CONFLICT, "there is a job %s", wanted);
        }
        return wanted;
    }
    for (int i = 0; i < ID_TRIES && make_id(id); i++) {
        if (id_is_free(db, id)) {
            return id;
        }
    }
    mg_op_fail(op, MG_STORE_INTERNAL, "no random identifier to be had");
    return id;
}

static void add_graph(struct mg_op *op, struct mg_db *db, const struct mg_store_request *normal)
{
    if (!normal->request || !normal->graph_digest || !normal->graph.size) {
        mg_op_fail(op, MG_STORE_INVALID, "a normalised request has a graph with a digest");
        return;
    }
    MG_RUN(db, ADD_GRAPH, mg_text(normal->graph_digest), mg_bytes(normal->graph), mg_int(mg_store_now(op->store)));
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static int64_t add_job(struct mg_op *op, struct mg_db *db, const char *id)
{
    static const struct mg_store_request nothing;
    const struct mg_store_submission *s = op->args.submission;
    const struct mg_store_request *r = s->normal ? s->normal : &nothing;
    int64_t now = mg_store_now(op->store), number = 0;
    sqlite3_stmt *stmt = MG_BIND(
        db, ADD_JOB, mg_text(id), mg_text(mg_job_state_name(s->state)), mg_text(mg_job_priority_name(s->priority)),
        mg_text(or_empty(s->name)), mg_text(s->labels ? s->labels : "{}"), mg_text(or_empty(s->owner)),
        mg_text(or_empty(s->token)), mg_int(now), mg_int_or_null(s->deadline_at, 0),
        mg_int_or_null(s->normal ? now : 0, 0), mg_text(or_empty(r->network)), mg_text(or_empty(r->device)),
        mg_text(r->graph_digest), mg_text(r->request_digest), mg_text(r->reuse_key), mg_text(r->gate), mg_int(0),
        mg_real(r->seconds), mg_int(r->evaluations), mg_text(r->timings_models ? r->timings_models : "[]"),
        mg_int(r->require_measured));
    while (mg_db_row(db, stmt)) {
        number = sqlite3_column_int64(stmt, 0);
    }
    return number;
}

/* The body may lie in a file: then it is mapped for as long as the statement needs it. */
static void add_body(struct mg_op *op, struct mg_db *db, int64_t number)
{
    const struct mg_store_submission *s = op->args.submission;
    struct mg_blob body = s->body;
    struct stat st;
    void *map = NULL;
    if (body.size && !body.data) {
        bool whole = fstat(op->args.fd, &st) == 0 && (uint64_t)st.st_size >= body.size;
        map = whole ? mmap(NULL, body.size, PROT_READ, MAP_PRIVATE, op->args.fd, 0) : MAP_FAILED;
        if (map == MAP_FAILED) {
            mg_op_fail(op, MG_STORE_INVALID, "the body cannot be read from its file");
            return;
        }
        body.data = map;
    }
    MG_RUN(db, ADD_BODY, mg_int(number), mg_text(or_empty(s->body_type)), mg_bytes(body));
    if (map) {
        munmap(map, body.size);
    }
}

/* True if the key was used before: the operation has its result. */
static bool replay(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_submission *s = op->args.submission;
    sqlite3_stmt *stmt = MG_BIND(db, GET_KEY, mg_text(or_empty(s->token)), mg_text(s->idempotency_key));
    if (!mg_db_row(db, stmt)) {
        return false;
    }
    const char *id = mg_op_column(op, stmt, 0), *digest = mg_op_column(op, stmt, 1);
    mg_db_end(stmt);
    struct mg_store_job *job = mg_job_find(op, db, id);
    if (!job) {
        op->result.code = MG_STORE_OK;
        mg_op_fail(op, MG_STORE_GONE, "the job of this key was deleted");
        return true;
    }
    op->result.job = job;
    const char *mine = s->normal ? s->normal->request_digest : NULL;
    if (digest && mine ? strcmp(digest, mine) == 0 : !digest && mg_job_state_ended(job->state)) {
        op->result.replayed = true;
    } else {
        mg_op_fail(op, MG_STORE_CONFLICT, "the key belongs to job %s", id);
    }
    return true;
}

void mg_op_run_submit(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_submission *s = op->args.submission;
    if (s->state == MG_JOB_VALIDATING ? s->normal != NULL : s->state != MG_JOB_QUEUED || !s->normal) {
        mg_op_fail(op, MG_STORE_INVALID, "a queued job has a normalised request, a validating one has not");
        return;
    }
    if (s->idempotency_key && replay(op, db)) {
        return;
    }
    const char *id = choose_id(op, db, s->id);
    if (s->normal && mg_op_ok(op, db)) {
        add_graph(op, db, s->normal);
    }
    if (!mg_op_ok(op, db)) {
        return;
    }
    int64_t number = add_job(op, db, id);
    if (s->normal) {
        MG_RUN(db, ADD_REQUEST, mg_int(number), mg_text(s->normal->request));
    } else {
        add_body(op, db, number);
    }
    mg_job_labels(db, number, s->labels ? s->labels : "{}");
    if (s->idempotency_key) {
        MG_RUN(db, ADD_KEY, mg_text(or_empty(s->token)), mg_text(s->idempotency_key), mg_text(id),
               mg_text(s->normal ? s->normal->request_digest : NULL), mg_int(mg_store_now(op->store)));
    }
    mg_job_result(op, db, number);
    if (op->result.job) {
        mg_job_state_events(op, db, op->result.job);
        mg_job_result(op, db, number);
    }
}

void mg_op_run_accept(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_request *r = op->args.normal;
    struct mg_store_job *job = mg_job_find(op, db, op->args.id);
    if (!job) {
        return;
    }
    if (job->state != MG_JOB_VALIDATING) {
        op->result.job = job;
        mg_op_fail(op, MG_STORE_CONFLICT, "job %s is %s", job->id, mg_job_state_name(job->state));
        return;
    }
    add_graph(op, db, r);
    if (!mg_op_ok(op, db)) {
        return;
    }
    MG_RUN(db, ACCEPT, mg_int(job->number), mg_int(mg_store_now(op->store)), mg_text(or_empty(r->network)),
           mg_text(or_empty(r->device)), mg_text(r->graph_digest), mg_text(r->request_digest), mg_text(r->reuse_key),
           mg_text(r->gate), mg_int(0), mg_real(r->seconds), mg_int(r->evaluations),
           mg_text(r->timings_models ? r->timings_models : "[]"), mg_int(r->require_measured));
    MG_RUN(db, ADD_REQUEST, mg_int(job->number), mg_text(r->request));
    MG_RUN(db, DROP_BODY, mg_int(job->number));
    MG_RUN(db, SET_KEY_DIGEST, mg_text(job->id), mg_text(r->request_digest));
    job->state = MG_JOB_QUEUED;
    mg_job_state_events(op, db, job);
    mg_job_result(op, db, job->number);
}

void mg_op_run_retry(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *old = mg_job_find(op, db, op->args.id);
    if (!old) {
        return;
    }
    if (!mg_job_state_ended(old->state) || !old->graph_digest[0]) {
        op->result.job = old;
        mg_op_fail(op, MG_STORE_CONFLICT, "job %s %s", old->id,
                   mg_job_state_ended(old->state) ? "never had a valid graph" : "has not ended");
        return;
    }
    const char *id = choose_id(op, db, NULL);
    int64_t number = 0;
    sqlite3_stmt *stmt = MG_BIND(db, RETRY_JOB, mg_int(old->number), mg_text(id), mg_text(or_empty(op->args.owner)),
                                 mg_text(or_empty(op->args.token)), mg_int(mg_store_now(op->store)));
    while (mg_db_row(db, stmt)) {
        number = sqlite3_column_int64(stmt, 0);
    }
    MG_RUN(db, COPY_REQUEST, mg_int(number), mg_int(old->number));
    mg_job_labels(db, number, old->labels);
    mg_job_result(op, db, number);
    if (op->result.job) {
        mg_job_state_events(op, db, op->result.job);
        mg_job_result(op, db, number);
    }
}

void mg_op_run_reuse(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = mg_job_find(op, db, op->args.id), *source = NULL;
    if (job) {
        op->result.job = job;
        source = mg_job_find(op, db, op->args.text);
    }
    if (!source) {
        return;
    }
    if ((job->state != MG_JOB_QUEUED && job->state != MG_JOB_WAITING) || source->state != MG_JOB_SUCCEEDED) {
        op->result.job = job;
        mg_op_fail(op, MG_STORE_CONFLICT, "job %s is %s, job %s is %s", job->id, mg_job_state_name(job->state),
                   source->id, mg_job_state_name(source->state));
        return;
    }
    struct mg_val to = mg_int(job->number), from = mg_int(source->number);
    MG_RUN(db, REUSE_PLANS, to, from);
    MG_RUN(db, REUSE_POINTS, to, from);
    MG_RUN(db, REUSE_MEASURED, to, from);
    job->state = MG_JOB_SUCCEEDED;
    job->outcome = source->outcome;
    job->stopped_by = source->stopped_by;
    MG_RUN(db, END, to, mg_text("succeeded"), mg_int(mg_store_now(op->store)),
           mg_text(mg_job_outcome_name(source->outcome)), mg_text(mg_job_stop_name(source->stopped_by)), mg_text(NULL));
    MG_RUN(db, REUSE_JOB, to, from);
    mg_job_state_events(op, db, job);
    mg_job_result(op, db, job->number);
}
