/* The face of store.h: each function copies its arguments into an operation and starts it. */
#include <fcntl.h>

#include "store/store_priv.h"

char *mg_op_text(struct mg_op *op, const char *text)
{
    return text ? mg_arena_strdup(&op->arena, text) : NULL;
}

void mg_op_texts(struct mg_op *op, const char **const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *texts[i] = mg_op_text(op, *texts[i]);
    }
}

struct mg_blob mg_op_blob(struct mg_op *op, struct mg_blob blob)
{
    return (struct mg_blob){blob.size ? mg_arena_copy(&op->arena, blob.data, blob.size) : "", blob.size};
}

const struct mg_store_request *mg_op_request(struct mg_op *op, const struct mg_store_request *from)
{
    if (!from) {
        return NULL;
    }
    struct mg_store_request *to = MG_NEW(&op->arena, struct mg_store_request);
    *to = *from;
    MG_OP_TEXTS(op, &to->request, &to->request_digest);
    to->graph = mg_op_blob(op, from->graph);
    MG_OP_TEXTS(op, &to->graph_digest, &to->network, &to->device, &to->reuse_key, &to->gate, &to->timings_models);
    return to;
}

static const struct mg_store_submission *copy_submission(struct mg_op *op, const struct mg_store_submission *from)
{
    struct mg_store_submission *to = MG_NEW(&op->arena, struct mg_store_submission);
    *to = *from;
    MG_OP_TEXTS(op, &to->id, &to->name, &to->labels, &to->owner, &to->token, &to->idempotency_key);
    if (from->body.data || !from->body.size) {
        to->body = mg_op_blob(op, from->body);
    } else {
        op->args.fd = fcntl(from->body_fd, F_DUPFD_CLOEXEC, 3);
    }
    to->body_type = mg_op_text(op, from->body_type);
    to->normal = mg_op_request(op, from->normal);
    return to;
}

static const struct mg_store_point *copy_points(struct mg_op *op, const struct mg_store_point *from, size_t n)
{
    struct mg_store_point *to = MG_NEW_ARRAY(&op->arena, struct mg_store_point, n);
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        MG_OP_TEXTS(op, &to[i].series, &to[i].plan, &to[i].reason, &to[i].techniques);
        to[i].replaced_by = NULL;
        to[i].blob = mg_op_blob(op, from[i].blob);
    }
    return to;
}

static const struct mg_store_progress *copy_progress(struct mg_op *op, const struct mg_store_progress *from)
{
    if (!from) {
        return NULL;
    }
    struct mg_store_progress *to = MG_NEW(&op->arena, struct mg_store_progress);
    *to = *from;
    to->best = mg_op_text(op, from->best);
    return to;
}

const struct mg_store_points *mg_op_points(struct mg_op *op, const struct mg_store_points *from)
{
    if (!from) {
        return NULL;
    }
    struct mg_store_points *to = MG_NEW(&op->arena, struct mg_store_points);
    struct mg_store_replacement *replaced = MG_NEW_ARRAY(&op->arena, struct mg_store_replacement, from->n_replaced);
    for (size_t i = 0; i < from->n_replaced; i++) {
        replaced[i].plan = mg_op_text(op, from->replaced[i].plan);
        replaced[i].by = mg_op_text(op, from->replaced[i].by);
    }
    *to = *from;
    to->points = copy_points(op, from->points, from->n_points);
    to->replaced = replaced;
    to->progress = copy_progress(op, from->progress);
    to->event = mg_op_text(op, from->event);
    return to;
}

static struct mg_op *op_on(mg_store *store, enum mg_op_kind kind, const char *id, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, kind, cb, ctx);
    op->args.id = mg_op_text(op, id);
    if (store->expects) {
        int64_t *copy = MG_NEW_ARRAY(&op->arena, int64_t, store->n_expected + 1);
        for (size_t i = 0; i < store->n_expected; i++) {
            copy[i] = store->expected[i];
        }
        op->args.revisions = copy;
        op->args.n_revisions = store->n_expected;
        op->args.conditional = true;
        store->expects = false;
    }
    return op;
}

void mg_store_expect(mg_store *store, const int64_t *revisions, size_t n)
{
    store->expected = revisions;
    store->n_expected = n;
    store->expects = true;
}

void mg_store_submit(mg_store *store, const struct mg_store_submission *submission, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_submit, cb, ctx);
    op->args.submission = copy_submission(op, submission);
    mg_op_start(op);
}

void mg_store_accept(mg_store *store, const char *id, const struct mg_store_request *normal, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_accept, id, cb, ctx);
    op->args.normal = mg_op_request(op, normal);
    mg_op_start(op);
}

void mg_store_claim(mg_store *store, const char *id, int64_t lease_until, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_claim, id, cb, ctx);
    op->args.number = lease_until;
    mg_op_start(op);
}

void mg_store_set_waiting(mg_store *store, const char *id, bool waiting, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_set_waiting, id, cb, ctx);
    op->args.flag = waiting;
    mg_op_start(op);
}

void mg_store_requeue(mg_store *store, const char *id, enum mg_requeue_cause cause, const char *error, mg_store_cb *cb,
                      void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_requeue, id, cb, ctx);
    op->args.cause = cause;
    op->args.text = mg_op_text(op, error);
    mg_op_start(op);
}

void mg_store_cancel(mg_store *store, const char *id, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_on(store, MG_OP_cancel, id, cb, ctx));
}

void mg_store_finish(mg_store *store, const char *id, const struct mg_store_outcome *outcome,
                     const struct mg_store_points *last, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_finish, id, cb, ctx);
    struct mg_store_outcome *copy = MG_NEW(&op->arena, struct mg_store_outcome);
    *copy = *outcome;
    copy->error = mg_op_text(op, outcome->error);
    copy->result = mg_op_text(op, outcome->result);
    copy->best = mg_op_text(op, outcome->best);
    op->args.outcome = copy;
    op->args.points = mg_op_points(op, last);
    mg_op_start(op);
}

void mg_store_reuse(mg_store *store, const char *id, const char *source, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_reuse, id, cb, ctx);
    op->args.text = mg_op_text(op, source);
    mg_op_start(op);
}

void mg_store_retry(mg_store *store, const char *id, const char *owner, const char *token, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_retry, id, cb, ctx);
    op->args.owner = mg_op_text(op, owner);
    op->args.token = mg_op_text(op, token);
    mg_op_start(op);
}

void mg_store_patch(mg_store *store, const char *id, const char *name, const char *labels, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_patch, id, cb, ctx);
    op->args.name = mg_op_text(op, name);
    op->args.labels = mg_op_text(op, labels);
    mg_op_start(op);
}

void mg_store_pin(mg_store *store, const char *id, bool pinned, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_pin, id, cb, ctx);
    op->args.flag = pinned;
    mg_op_start(op);
}

void mg_store_delete(mg_store *store, const char *id, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_on(store, MG_OP_delete, id, cb, ctx));
}

void mg_store_recover(mg_store *store, mg_store_cb *cb, void *ctx)
{
    mg_op_start(mg_op_new(store, MG_OP_recover, cb, ctx));
}

void mg_store_expire(mg_store *store, double keep_days, int64_t max_bytes, int limit, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_expire, cb, ctx);
    op->args.real = keep_days;
    op->args.bytes = max_bytes;
    op->args.limit = limit;
    mg_op_start(op);
}

void mg_store_save_points(mg_store *store, const char *id, const struct mg_store_points *points, mg_store_cb *cb,
                          void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_save_points, id, cb, ctx);
    op->args.points = mg_op_points(op, points);
    mg_op_start(op);
}

void mg_store_get_job(mg_store *store, const char *id, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_on(store, MG_OP_get_job, id, cb, ctx));
}

void mg_store_list_jobs(mg_store *store, const struct mg_store_query *query, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_list_jobs, cb, ctx);
    struct mg_store_query *copy = MG_NEW(&op->arena, struct mg_store_query);
    struct mg_store_label *labels = MG_NEW_ARRAY(&op->arena, struct mg_store_label, query->n_labels);
    *copy = *query;
    for (size_t i = 0; i < query->n_labels; i++) {
        labels[i].key = mg_op_text(op, query->labels[i].key);
        labels[i].value = mg_op_text(op, query->labels[i].value);
    }
    copy->labels = labels;
    copy->network = mg_op_text(op, query->network);
    copy->device = mg_op_text(op, query->device);
    copy->owner = mg_op_text(op, query->owner);
    copy->q = mg_op_text(op, query->q);
    copy->cursor = mg_op_text(op, query->cursor);
    op->args.query = copy;
    mg_op_start(op);
}

void mg_store_get_request(mg_store *store, const char *id, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_on(store, MG_OP_get_request, id, cb, ctx));
}

void mg_store_get_body(mg_store *store, const char *id, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_on(store, MG_OP_get_body, id, cb, ctx));
}

void mg_store_get_work(mg_store *store, const char *id, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_on(store, MG_OP_get_work, id, cb, ctx));
}

void mg_store_get_plan(mg_store *store, const char *id, const char *which, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_get_plan, id, cb, ctx);
    op->args.text = mg_op_text(op, which);
    mg_op_start(op);
}

void mg_store_get_front(mg_store *store, const char *id, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_on(store, MG_OP_get_front, id, cb, ctx));
}

void mg_store_get_events(mg_store *store, const char *id, int64_t since, int limit, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = op_on(store, MG_OP_get_events, id, cb, ctx);
    op->args.number = since;
    op->args.limit = limit;
    mg_op_start(op);
}

void mg_store_find_reusable(mg_store *store, const char *reuse_key, double seconds, const char *timings_models,
                            mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_find_reusable, cb, ctx);
    op->args.text = mg_op_text(op, reuse_key);
    op->args.real = seconds;
    op->args.name = mg_op_text(op, timings_models);
    mg_op_start(op);
}

void mg_store_get_stats(mg_store *store, mg_store_cb *cb, void *ctx)
{
    mg_op_start(mg_op_new(store, MG_OP_get_stats, cb, ctx));
}
