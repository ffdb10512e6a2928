/* GETs: summaries from memory or the store, fronts from the store, plans and graphs through intake. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "server/jobs_priv.h"
#include "server/version.h"

static void finish_with(struct mg_call *call, struct mg_writer *w, const struct mg_store_job *info, const char *what)
{
    struct mg_reply reply;
    mg_reply_write(&reply, w);
    if (info) {
        snprintf(reply.job, sizeof reply.job, "%s", info->id);
        snprintf(reply.etag, sizeof reply.etag, "%s-%lld%s", info->id, (long long)info->revision, what);
    }
    mg_call_finish(call, &reply);
}

/* True if the result is a problem; the call is answered then. */
static bool refuse(struct mg_call *call, const struct mg_store_result *result)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    if (!mg_jobs_store_problem(call->jobs, result, &reply))
        return false;
    mg_call_finish(call, &reply);
    return true;
}

/* ---- one job ---- */

static void on_job(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    if (!refuse(call, result))
        mg_call_answer_job(call, result->job);
}

static void on_now(uv_timer_t *timer)
{
    struct mg_call *call = timer->data;
    struct mg_job *job = mg_jobs_find(call->jobs, call->id);
    if (job)
        mg_call_answer_job(call, &job->info);
    else
        mg_store_get_job(call->jobs->config.store, call->id, on_job, call);
}

mg_ticket mg_jobs_get(mg_jobs *jobs, const char *id, double wait_s, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    struct mg_job *job = mg_jobs_find(jobs, id);
    if (job && wait_s > 0 && !mg_job_state_ended(job->info.state)) {
        mg_call_wait(call, id, wait_s);
    } else if (job) {
        uv_timer_init(jobs->config.loop, &call->timer);
        call->has_timer = true;
        call->timer.data = call;
        uv_timer_start(&call->timer, on_now, 0, 0);
    } else {
        mg_store_get_job(jobs->config.store, id, on_job, call);
    }
    return ticket;
}

/* ---- the list ---- */

static void on_jobs(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_writer w;
    if (refuse(call, result))
        return;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_key(&w, "jobs");
    mg_write_begin_array(&w);
    for (size_t i = 0; i < result->n_jobs; i++)
        mg_job_write(&w, call->jobs, &result->jobs[i]);
    mg_write_end_array(&w);
    mg_write_key(&w, "next");
    if (result->next)
        mg_write_string(&w, result->next);
    else
        mg_write_null(&w);
    mg_write_end_object(&w);
    finish_with(call, &w, NULL, "");
}

static bool read_states(const char *text, uint32_t *mask)
{
    char copy[200], *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; (word = strsep(&rest, ","));) {
        int state = mg_job_state_parse(word);
        if (state < 0)
            return false;
        *mask |= 1u << state;
    }
    return true;
}

static bool read_query(const struct mg_job_query *query, struct mg_store_query *out, struct mg_store_label *labels,
                       char **texts)
{
    *out = (struct mg_store_query){.network = query->network,
                                   .device = query->device,
                                   .owner = query->owner,
                                   .q = query->q,
                                   .cursor = query->cursor,
                                   .labels = labels,
                                   .limit = (int)query->limit};
    int sort = query->sort ? mg_job_sort_parse(query->sort) : MG_SORT_CREATED;
    if (sort < 0 || (query->state && !read_states(query->state, &out->states)))
        return false;
    out->sort = (enum mg_job_sort)sort;
    for (size_t i = 0; i < query->label_count; i++) {
        texts[i] = strdup(query->labels[i]);
        char *colon = texts[i] ? strchr(texts[i], ':') : NULL;
        if (!colon)
            return false;
        *colon = '\0';
        labels[out->n_labels++] = (struct mg_store_label){texts[i], colon + 1};
    }
    return true;
}

mg_ticket mg_jobs_list(mg_jobs *jobs, const struct mg_job_query *query, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, "", done, context);
    mg_ticket ticket = call->ticket;
    struct mg_store_query store_query;
    struct mg_store_label *labels = calloc(query->label_count + 1, sizeof *labels);
    char **texts = calloc(query->label_count + 1, sizeof *texts);
    if (!labels || !texts)
        abort();
    if (read_query(query, &store_query, labels, texts)) {
        mg_store_list_jobs(jobs->config.store, &store_query, on_jobs, call);
    } else {
        mg_reply_fail(&call->reply, "bad-parameter", "",
                      "state is a list of states; sort is created, peak, saving or duration; label is key:value");
        mg_call_defer(call);
    }
    for (size_t i = 0; i < query->label_count; i++)
        free(texts[i]);
    free(texts);
    free(labels);
    return ticket;
}

/* ---- request and front ---- */

static void on_request(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_writer w;
    if (result->code == MG_STORE_CONFLICT) {
        mg_call_fail(call, "conflict", "the request is still being read");
        return;
    }
    if (refuse(call, result))
        return;
    mg_writer_init(&w);
    mg_write_raw(&w, result->blob.data, result->blob.size);
    finish_with(call, &w, NULL, "");
}

mg_ticket mg_jobs_request(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    mg_store_get_request(jobs->config.store, id, on_request, call);
    return ticket;
}

static void on_front(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_writer w;
    if (refuse(call, result))
        return;
    mg_writer_init(&w);
    mg_front_write(&w, result);
    finish_with(call, &w, result->job, "-front");
}

mg_ticket mg_jobs_pareto(mg_jobs *jobs, const char *id, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    mg_store_get_front(jobs->config.store, id, on_front, call);
    return ticket;
}

/* ---- what intake renders ---- */

static void on_rendered(void *context, struct mg_reply *reply)
{
    struct mg_call *call = context;
    struct mg_reply out = *reply;
    mg_reply_init(reply);
    call->intake = 0;
    free(out.members);
    out.members = NULL;
    if (!out.problem) {
        enum mg_export_format format = mg_export_from_name(call->format);
        const char *extension = format < MG_EXPORT_COUNT ? mg_export_extension(format) : "json";
        char name[80];
        snprintf(out.etag, sizeof out.etag, "%s%s-%s", call->which[0] ? call->which : call->id,
                 call->kind == MG_INTAKE_TIMELINE  ? "-timeline"
                 : call->kind == MG_INTAKE_FORMATS ? "-formats-" MG_VERSION
                 : call->kind == MG_INTAKE_GRAPH   ? "-graph"
                                                   : "",
                 extension);
        /* How a plan is written as a program may change with ours, and so may what can be written. */
        out.immutable = call->immutable && call->kind != MG_INTAKE_FORMATS &&
                        (format == MG_EXPORT_JSON || format >= MG_EXPORT_COUNT);
        snprintf(name, sizeof name, "%s-%s.%s", call->id, call->which[0] ? call->which : "graph", extension);
        if (call->kind == MG_INTAKE_PLAN || call->kind == MG_INTAKE_GRAPH)
            out.filename = strdup(name);
    }
    mg_call_finish(call, &out);
}

static void on_work(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    char args[40];
    if (refuse(call, result))
        return;
    if (!result->text || !result->blob.size) {
        mg_call_fail(call, "not-found", "the job has no graph");
        return;
    }
    snprintf(args, sizeof args, "{\"format\":\"%s\"}", call->format);
    const struct mg_intake_question question = {.kind = call->kind,
                                                .body_fd = -1,
                                                .args = args,
                                                .part = {{result->text, strlen(result->text)},
                                                         {result->blob.data, result->blob.size},
                                                         {call->plan_blob, call->plan_size}}};
    call->intake = mg_intake_ask(call->jobs->config.intake, &question, on_rendered, call);
}

static void fail_replaced(struct mg_call *call, const char *by)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    mg_reply_fail(&reply, "plan-replaced", "", "a better plan took its place");
    json_t *members = json_object();
    json_object_set_new(members, "replaced_by", by && *by ? json_string(by) : json_null());
    reply.members = json_dumps(members, JSON_COMPACT);
    json_decref(members);
    mg_call_finish(call, &reply);
}

static void on_plan(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    if (result->code == MG_STORE_GONE) {
        fail_replaced(call, result->replaced_by);
        return;
    }
    if (result->code == MG_STORE_NOT_FOUND) {
        bool known = mg_jobs_find(call->jobs, call->id) || result->job;
        mg_call_fail(call, known ? "plan-not-found" : "not-found",
                     known ? "the job has no such plan" : "there is no such job, or it has no such plan");
        return;
    }
    if (refuse(call, result))
        return;
    call->immutable = result->text && strcmp(call->which, result->text) == 0;
    snprintf(call->which, sizeof call->which, "%s", result->text ? result->text : "");
    call->plan_size = result->blob.size;
    call->plan_blob = malloc(call->plan_size ? call->plan_size : 1);
    if (!call->plan_blob)
        abort();
    if (call->plan_size)
        memcpy(call->plan_blob, result->blob.data, call->plan_size);
    mg_store_get_work(call->jobs->config.store, call->id, on_work, call);
}

static mg_ticket ask_plan(mg_jobs *jobs, enum mg_intake_kind kind, const char *id, const char *plan, const char *format,
                          mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    call->kind = kind;
    snprintf(call->which, sizeof call->which, "%s", plan);
    snprintf(call->format, sizeof call->format, "%s", format);
    mg_store_get_plan(jobs->config.store, id, plan, on_plan, call);
    return ticket;
}

mg_ticket mg_jobs_plan(mg_jobs *jobs, const char *id, const char *plan, const char *format, mg_reply_cb done,
                       void *context)
{
    return ask_plan(jobs, MG_INTAKE_PLAN, id, plan, format, done, context);
}

mg_ticket mg_jobs_timeline(mg_jobs *jobs, const char *id, const char *plan, mg_reply_cb done, void *context)
{
    return ask_plan(jobs, MG_INTAKE_TIMELINE, id, plan, "json", done, context);
}

mg_ticket mg_jobs_formats(mg_jobs *jobs, const char *id, const char *plan, mg_reply_cb done, void *context)
{
    return ask_plan(jobs, MG_INTAKE_FORMATS, id, plan, "json", done, context);
}

mg_ticket mg_jobs_graph(mg_jobs *jobs, const char *id, const char *format, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    call->kind = MG_INTAKE_GRAPH;
    call->immutable = true;
    snprintf(call->format, sizeof call->format, "%s", format);
    mg_store_get_work(jobs->config.store, id, on_work, call);
    return ticket;
}
