/* The face of timings.h: each function copies its arguments into an operation and starts it. */
#include "store_priv.h"

static struct mg_timing_class copy_class(struct mg_op *op, const struct mg_timing_class *from)
{
    return (struct mg_timing_class){mg_op_text(op, from->id), mg_op_text(op, from->model), mg_op_text(op, from->key)};
}

static const struct mg_timing_row *copy_rows(struct mg_op *op, const struct mg_timing_row *from, size_t n)
{
    struct mg_timing_row *to = MG_NEW_ARRAY(&op->arena, struct mg_timing_row, n);
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        MG_OP_TEXTS(op, &to[i].op, &to[i].signature);
    }
    return to;
}

void mg_store_add_timings(mg_store *store, const struct mg_timing_batch *batches, size_t n, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_add_timings, cb, ctx);
    struct mg_timing_batch *to = MG_NEW_ARRAY(&op->arena, struct mg_timing_batch, n);
    for (size_t i = 0; i < n; i++) {
        to[i] = batches[i];
        MG_OP_TEXTS(op, &to[i].agent, &to[i].host, &to[i].version, &to[i].batch, &to[i].token);
        to[i].class = copy_class(op, &batches[i].class);
        to[i].rows = copy_rows(op, batches[i].rows, batches[i].n_rows);
    }
    op->args.batches = to;
    op->args.n_batches = n;
    mg_op_start(op);
}

void mg_store_put_agent(mg_store *store, const struct mg_timing_agent *agent, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_put_agent, cb, ctx);
    struct mg_timing_agent *to = MG_NEW(&op->arena, struct mg_timing_agent);
    *to = *agent;
    MG_OP_TEXTS(op, &to->name, &to->host, &to->version, &to->uuid, &to->state, &to->token);
    to->class = copy_class(op, &agent->class);
    op->args.agent = to;
    mg_op_start(op);
}

void mg_store_claim_timings(mg_store *store, const char *agent, const char *token, bool any_agent, int max,
                            double seconds, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_claim_timings, cb, ctx);
    op->args.name = mg_op_text(op, agent);
    op->args.token = mg_op_text(op, token);
    op->args.flag = any_agent;
    op->args.limit = max;
    op->args.real = seconds;
    mg_op_start(op);
}

void mg_store_revoke_timings(mg_store *store, const char *by, const char *name, int64_t since, mg_store_cb *cb,
                             void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_revoke_timings, cb, ctx);
    op->args.text = mg_op_text(op, by);
    op->args.name = mg_op_text(op, name);
    op->args.number = since;
    mg_op_start(op);
}

void mg_store_add_wants(mg_store *store, const char *graph_digest, const char *models,
                        const struct mg_timing_want *wants, size_t n, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_add_wants, cb, ctx);
    struct mg_timing_want *to = MG_NEW_ARRAY(&op->arena, struct mg_timing_want, n);
    for (size_t i = 0; i < n; i++) {
        to[i] = wants[i];
        MG_OP_TEXTS(op, &to[i].op, &to[i].signature);
    }
    op->args.id = mg_op_text(op, graph_digest);
    op->args.text = mg_op_text(op, models);
    op->args.wants = to;
    op->args.numbers = MG_NEW_ARRAY(&op->arena, int64_t, n);
    op->args.n_wants = op->size = n;
    mg_op_start(op);
}

static struct mg_op *op_with(mg_store *store, enum mg_op_kind kind, const char *id, const char *text, int64_t number,
                             mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, kind, cb, ctx);
    op->args.id = mg_op_text(op, id);
    op->args.text = mg_op_text(op, text);
    op->args.number = number;
    return op;
}

void mg_store_set_timings(mg_store *store, const char *id, const char *class_id, int64_t generation, mg_store_cb *cb,
                          void *ctx)
{
    mg_op_start(op_with(store, MG_OP_set_timings, id, class_id, generation, cb, ctx));
}

void mg_store_list_timings(mg_store *store, const struct mg_timing_query *query, mg_store_cb *cb, void *ctx)
{
    struct mg_op *op = mg_op_new(store, MG_OP_list_timings, cb, ctx);
    struct mg_timing_query *to = MG_NEW(&op->arena, struct mg_timing_query);
    *to = *query;
    MG_OP_TEXTS(op, &to->class_id, &to->model, &to->op, &to->agent);
    op->args.timing_query = to;
    mg_op_start(op);
}

void mg_store_list_classes(mg_store *store, mg_store_cb *cb, void *ctx)
{
    mg_op_start(mg_op_new(store, MG_OP_list_classes, cb, ctx));
}

void mg_store_list_agents(mg_store *store, mg_store_cb *cb, void *ctx)
{
    mg_op_start(mg_op_new(store, MG_OP_list_agents, cb, ctx));
}

void mg_store_list_missing(mg_store *store, const char *class_id, const char *model, int limit, mg_store_cb *cb,
                           void *ctx)
{
    struct mg_op *op = op_with(store, MG_OP_list_missing, class_id, NULL, 0, cb, ctx);
    op->args.name = mg_op_text(op, model);
    op->args.limit = limit;
    mg_op_start(op);
}

void mg_store_pick_class(mg_store *store, const char *graph_digest, const char *models, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_with(store, MG_OP_pick_class, graph_digest, models, 0, cb, ctx));
}

void mg_store_snapshot(mg_store *store, const char *class_id, int64_t generation, mg_store_cb *cb, void *ctx)
{
    mg_op_start(op_with(store, MG_OP_snapshot, class_id, NULL, generation, cb, ctx));
}
