/* Cancel, retry, delete, pin, patch: one store operation each, then the table follows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"
#include "server/small_json.h"

/* ---- whose job is it? ---- */

static void act_if_owner(struct mg_call *call, const char *owner)
{
    if (strcmp(call->caller, owner) == 0)
        call->act(call);
    else
        mg_call_fail(call, "forbidden", "the job belongs to another token");
}

static void on_owner(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_reply reply;
    mg_reply_init(&reply);
    if (mg_jobs_store_problem(call->jobs, result, &reply))
        mg_call_finish(call, &reply);
    else
        act_if_owner(call, result->job->owner);
}

static void on_look(uv_timer_t *timer)
{
    struct mg_call *call = timer->data;
    struct mg_job *job = mg_jobs_find(call->jobs, call->id);
    if (job)
        act_if_owner(call, job->info.owner);
    else
        mg_store_get_job(call->jobs->config.store, call->id, on_owner, call);
}

static mg_ticket act_as(struct mg_call *call, const struct mg_caller *caller, void (*act)(struct mg_call *call))
{
    mg_ticket ticket = call->ticket;
    snprintf(call->caller, sizeof call->caller, "%s", caller->name);
    call->act = act;
    if (!mg_call_match(call, caller->if_match))
        mg_call_defer(call);
    else if (caller->role == MG_ROLE_ADMIN)
        act(call);
    else
        mg_call_later(call, on_look);
    return ticket;
}

/* ---- the changes ---- */

/* The store to be asked for the change. */
static mg_store *store_for(struct mg_call *call)
{
    mg_store *store = call->jobs->config.store;
    if (call->conditional)
        mg_store_expect(store, call->revisions, call->revision_count);
    return store;
}

/* True if the result is a problem; the call is answered then. */
static bool refuse(struct mg_call *call, const struct mg_store_result *result, const char *conflict, const char *detail)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    if (result->code == MG_STORE_CONFLICT)
        mg_reply_fail(&reply, conflict, "", "%s", detail);
    else if (result->code == MG_STORE_STALE)
        mg_reply_fail(&reply, "precondition-failed", "", "no tag of If-Match is the job's ETag");
    else if (!mg_jobs_store_problem(call->jobs, result, &reply))
        return false;
    mg_call_finish(call, &reply);
    return true;
}

static void on_cancelled(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    mg_jobs *jobs = call->jobs;
    mg_jobs_take(jobs, result);
    struct mg_job *job = mg_jobs_find(jobs, call->id);
    if (job && job->run && job->info.state == MG_JOB_CANCELLING)
        mg_run_stop(jobs, job);
    if (!refuse(call, result, "already-ended", "the job has already ended"))
        mg_call_answer_job(call, result->job);
}

static void cancel(struct mg_call *call)
{
    mg_store_cancel(store_for(call), call->id, on_cancelled, call);
}

mg_ticket mg_jobs_cancel(mg_jobs *jobs, const struct mg_caller *caller, const char *id, mg_reply_cb done, void *context)
{
    return act_as(mg_call_new(jobs, id, done, context), caller, cancel);
}

static void on_retried(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    mg_jobs *jobs = call->jobs;
    if (refuse(call, result, "not-ended", "the job has not ended, or its request was never read"))
        return;
    struct mg_job *job = mg_jobs_update(jobs, result->job);
    jobs->stats.submitted++;
    call->created_status = 202;
    mg_call_answer_job(call, &job->info);
    mg_jobs_schedule(jobs);
}

mg_ticket mg_jobs_retry(mg_jobs *jobs, const struct mg_caller *caller, const char *id, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    if (!mg_call_match(call, caller->if_match))
        mg_call_defer(call);
    else if (!mg_call_refused(call, caller->name))
        mg_store_retry(store_for(call), id, caller->name, caller->name, on_retried, call);
    return ticket;
}

static void on_deleted(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_reply reply;
    if (refuse(call, result, "not-ended", "the job has not ended: cancel it first"))
        return;
    mg_jobs_drop(call->jobs, call->id);
    mg_reply_init(&reply);
    reply.status = 204;
    mg_call_finish(call, &reply);
}

static void delete_job(struct mg_call *call)
{
    mg_store_delete(store_for(call), call->id, on_deleted, call);
}

mg_ticket mg_jobs_delete(mg_jobs *jobs, const struct mg_caller *caller, const char *id, mg_reply_cb done, void *context)
{
    return act_as(mg_call_new(jobs, id, done, context), caller, delete_job);
}

static void on_changed(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    if (refuse(call, result, "conflict", "the state of the job forbids this"))
        return;
    if (mg_jobs_find(call->jobs, call->id))
        mg_jobs_update(call->jobs, result->job);
    mg_call_answer_job(call, result->job);
}

static void pin(struct mg_call *call)
{
    mg_store_pin(store_for(call), call->id, call->pinned, on_changed, call);
}

mg_ticket mg_jobs_pin(mg_jobs *jobs, const struct mg_caller *caller, const char *id, bool pinned, mg_reply_cb done,
                      void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    call->pinned = pinned;
    return act_as(call, caller, pin);
}

/* ---- PATCH ---- */

static bool labels_are_fine(const json_t *labels)
{
    const char *key;
    json_t *value;
    if (!json_is_object(labels) || json_object_size(labels) > 32)
        return false;
    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        if (!*key || strlen(key) > 60 || strchr(key, ':') || !json_is_string(value) ||
            json_string_length(value) > 200 || strlen(json_string_value(value)) != json_string_length(value))
            return false;
    }
    return true;
}

/* Sets the call's problem if the document is not right. */
static void check_patch(struct mg_call *call, const json_t *root)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        bool name = strcmp(key, "name") == 0, labels = strcmp(key, "labels") == 0;
        char pointer[80];
        snprintf(pointer, sizeof pointer, "/%.70s", key);
        if (!name && !labels)
            mg_reply_fail(&call->reply, "invalid-request", pointer, "unknown member; known: name, labels");
        else if (name && !json_is_null(value) &&
                 (!json_is_string(value) || json_string_length(value) > 200 ||
                  strlen(json_string_value(value)) != json_string_length(value)))
            mg_reply_fail(&call->reply, "invalid-request", pointer,
                          "a text of at most 200 bytes, or null, is expected");
        else if (labels && !labels_are_fine(value))
            mg_reply_fail(&call->reply, "invalid-request", pointer, "at most 32 labels, names without colon, texts");
    }
}

static void patch(struct mg_call *call)
{
    mg_store_patch(store_for(call), call->id, call->name, call->labels, on_changed, call);
}

mg_ticket mg_jobs_patch(mg_jobs *jobs, const struct mg_caller *caller, const char *id, const char *json, size_t size,
                        mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    struct mg_error err = {.code = MG_OK};
    json_t *root = mg_small_json_read(json, size, &err);
    if (root)
        check_patch(call, root);
    else
        mg_reply_fail(&call->reply, "invalid-json", err.pointer, "%s", err.message);
    if (call->reply.problem) {
        mg_call_defer(call);
    } else {
        json_t *labels = json_object_get(root, "labels"), *name = json_object_get(root, "name");
        call->labels = labels ? json_dumps(labels, JSON_COMPACT) : NULL;
        call->name = !name ? NULL : strdup(json_is_null(name) ? "" : json_string_value(name)); /* "": it has none */
        act_as(call, caller, patch);
    }
    json_decref(root);
    return ticket;
}
