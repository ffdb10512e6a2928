/* Newer timings for a finished front: the plans stay, intake tells what they take by what has been measured since. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/file.h"
#include "server/jobs_priv.h"
#include "server/reprice.h"
#include "store/timings.h"

/* On its way from one answer of the store to the next; the call may be forgotten meanwhile, it ends all the same. */
struct repricing {
    struct mg_call *call;
    struct mg_reprice_pack pack;
    char (*ids)[17]; /* the original, then the front */
    size_t count, at;
    char priced_class[64], class[64], *graph_digest, *models;
    int64_t priced_generation, generation;
};

static void end(struct repricing *r)
{
    mg_reprice_release(&r->pack);
    free(r->ids);
    free(r->graph_digest);
    free(r->models);
    free(r);
}

static void refuse(struct repricing *r, const char *problem, const char *detail)
{
    mg_call_fail(r->call, problem, detail);
    end(r);
}

/* False: the answer is no good, and has been passed on. */
static bool is_good(struct repricing *r, const struct mg_store_result *result)
{
    struct mg_reply reply;
    if (result->code == MG_STORE_OK)
        return true;
    if (result->code == MG_STORE_NOT_FOUND || result->code == MG_STORE_GONE) {
        refuse(r, "not-found", "the job or one of its plans is gone");
        return false;
    }
    mg_reply_init(&reply);
    mg_jobs_store_problem(r->call->jobs, result, &reply);
    mg_call_finish(r->call, &reply);
    end(r);
    return false;
}

static void on_priced(void *context, struct mg_reply *reply)
{
    struct mg_call *call = context;
    struct mg_reply out = *reply;
    mg_reply_init(reply);
    call->intake = 0;
    mg_call_finish(call, &out);
}

static void on_work(void *ctx, const struct mg_store_result *result)
{
    struct repricing *r = ctx;
    struct mg_call *call = r->call;
    struct mg_writer args;
    if (!is_good(r, result))
        return;
    if (!result->text || !result->blob.size) {
        refuse(r, "not-found", "the job has no graph");
        return;
    }
    mg_writer_init(&args);
    mg_write_begin_object(&args);
    mg_write_member_string(&args, "class", r->class);
    mg_write_member_int(&args, "generation", r->generation);
    mg_write_member_string(&args, "priced_class", r->priced_class);
    mg_write_member_int(&args, "priced_generation", r->priced_generation);
    mg_write_end_object(&args);
    const struct mg_intake_question question = {.kind = MG_INTAKE_REPRICE,
                                                .body_fd = -1,
                                                .args = mg_writer_finish(&args) ? args.data : "{}",
                                                .part = {{result->text, strlen(result->text)},
                                                         {result->blob.data, result->blob.size},
                                                         {r->pack.data, r->pack.size}}};
    call->intake = mg_intake_ask(call->jobs->config.intake, &question, on_priced, call);
    mg_writer_release(&args);
    end(r);
}

static void next_plan(struct repricing *r);

static void on_plan(void *ctx, const struct mg_store_result *result)
{
    struct repricing *r = ctx;
    if (!is_good(r, result))
        return;
    if (!mg_reprice_add(&r->pack, r->ids[r->at++], result->blob.data, result->blob.size))
        abort();
    next_plan(r);
}

static void next_plan(struct repricing *r)
{
    mg_store *store = r->call->jobs->config.store;
    if (r->at < r->count)
        mg_store_get_plan(store, r->call->id, r->ids[r->at], on_plan, r);
    else
        mg_store_get_work(store, r->call->id, on_work, r);
}

static void on_snapshot(void *ctx, const struct mg_store_result *result)
{
    struct repricing *r = ctx;
    struct mg_file file;
    if (!is_good(r, result))
        return;
    if (!mg_file_map(&file, result->fd)) {
        refuse(r, "store-failed", "the timings cannot be read");
        return;
    }
    if (!mg_reprice_begin(&r->pack, file.data, file.size))
        abort();
    mg_file_close(&file);
    next_plan(r);
}

static void on_picked(void *ctx, const struct mg_store_result *result)
{
    struct repricing *r = ctx;
    if (!is_good(r, result))
        return;
    const struct mg_store_timings *t = result->timings;
    if (!t->class.id || t->generation == 0) {
        refuse(r, "no-timings", "nothing was measured on the devices of this job");
        return;
    }
    snprintf(r->class, sizeof r->class, "%s", t->class.id);
    r->generation = t->generation;
    mg_store_snapshot(r->call->jobs->config.store, r->class, r->generation, on_snapshot, r);
}

static void take_front(struct repricing *r, const struct mg_store_result *front)
{
    r->ids = calloc(front->n_points + 1, sizeof *r->ids);
    r->graph_digest = strdup(front->job->graph_digest);
    r->models = strdup(front->job->timings_models);
    if (!r->ids || !r->graph_digest || !r->models)
        abort();
    for (int kind = MG_POINT_ORIGINAL; kind <= MG_POINT_FRONT; kind++)
        for (size_t i = 0; i < front->n_points; i++)
            if (front->points[i].kind == (enum mg_point_kind)kind && front->points[i].plan && *front->points[i].plan)
                snprintf(r->ids[r->count++], sizeof *r->ids, "%s", front->points[i].plan);
    snprintf(r->priced_class, sizeof r->priced_class, "%s", front->job->timings_class);
    r->priced_generation = front->job->timings_generation;
}

static void on_front(void *ctx, const struct mg_store_result *result)
{
    struct repricing *r = ctx;
    if (!is_good(r, result))
        return;
    if (!mg_job_state_ended(result->job->state) || result->n_points == 0) {
        refuse(r, "conflict", "a front is priced anew once its job has ended");
        return;
    }
    take_front(r, result);
    mg_store_pick_class(r->call->jobs->config.store, r->graph_digest, r->models, on_picked, r);
}

mg_ticket mg_jobs_reprice(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    struct repricing *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->call = call;
    mg_store_get_front(jobs->config.store, id, on_front, r);
    return ticket;
}
