/* Plans measured as wholes: wishes, and what agents answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"
#include "store/measured.h"

static void write_figures(struct mg_writer *w, const struct mg_measured *m)
{
    mg_write_member_uint(w, "runs", m->runs);
    mg_write_member_double(w, "latency_s", m->latency_s);
    mg_write_member_double(w, "mad_s", m->mad_s);
    mg_write_key(w, "sum_of_operators_s");
    if (m->operators_s > 0)
        mg_write_double(w, m->operators_s);
    else
        mg_write_null(w);
    mg_write_member_int(w, "peak_bytes", m->peak);
    mg_write_member_int(w, "arena_bytes", m->arena);
    mg_write_member_int(w, "host_bytes", m->host_bytes);
    mg_write_member_bool(w, "busy", m->busy);
}

static void write_members(struct mg_writer *w, const struct mg_measured *m)
{
    mg_write_member_int(w, "number", m->number);
    mg_write_member_string(w, "job", m->job);
    mg_write_member_string(w, "plan", m->plan);
    mg_write_member_string(w, "state", mg_measured_state_name(m->state));
    mg_write_key(w, "devices");
    mg_write_raw(w, m->models, strlen(m->models));
    mg_write_member_string(w, "asked_by", m->asked_by);
    mg_write_member_int(w, "asked_at", m->asked_at);
    mg_write_member_string(w, "agent", m->agent);
    mg_write_member_string(w, "host", m->host);
    mg_write_member_string(w, "device", m->model);
    mg_write_member_string(w, "class", m->class_id);
    mg_write_member_int(w, "at", m->at);
    if (m->state == MG_MEASURED_FAILED)
        mg_write_member_string(w, "reason", m->reason);
    if (m->state == MG_MEASURED_DONE)
        write_figures(w, m);
}

void mg_measured_write(struct mg_writer *w, const struct mg_measured *m)
{
    mg_write_begin_object(w);
    write_members(w, m);
    mg_write_end_object(w);
}

/* ---- answers ---- */

static void fail(struct mg_call *call, const struct mg_store_result *result)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    if (result->code == MG_STORE_NOT_FOUND)
        mg_reply_fail(&reply, call->which[0] && result->job ? "plan-not-found" : "not-found", "", "%s",
                      result->message);
    else if (result->code == MG_STORE_INVALID)
        mg_reply_fail(&reply, "invalid-request", "/device", "%s", result->message);
    else if (result->code == MG_STORE_GONE) {
        char members[64];
        snprintf(members, sizeof members, "{\"replaced_by\":\"%.16s\"}",
                 result->replaced_by ? result->replaced_by : "");
        mg_reply_fail(&reply, "plan-replaced", "", "a better plan took its place");
        reply.members = result->replaced_by ? strdup(members) : NULL;
    } else
        mg_jobs_store_problem(call->jobs, result, &reply);
    mg_call_finish(call, &reply);
}

static void finish(struct mg_call *call, struct mg_writer *w)
{
    struct mg_reply reply;
    mg_reply_write(&reply, w);
    reply.status = call->created_status;
    mg_call_finish(call, &reply);
}

/* Jobs that ended long ago are not in the table. */
static void take_job(mg_jobs *jobs, const struct mg_store_result *result)
{
    if (result->job && mg_jobs_find(jobs, result->job->id))
        mg_jobs_take(jobs, result);
}

/* False: there is no wish to answer with, and the call has failed. */
static bool begin_answer(struct mg_call *call, const struct mg_store_result *result, struct mg_writer *w)
{
    if (result->code != MG_STORE_OK || result->n_measured == 0) {
        fail(call, result);
        return false;
    }
    take_job(call->jobs, result);
    mg_writer_init(w);
    return true;
}

static void on_one(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_writer w;
    if (!begin_answer(call, result, &w))
        return;
    mg_measured_write(&w, &result->measured[0]);
    finish(call, &w);
}

/* A wish that nobody there can fulfil is kept: an agent may come. */
static void on_wanted(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_writer w;
    if (!begin_answer(call, result, &w))
        return;
    mg_write_begin_object(&w);
    write_members(&w, &result->measured[0]);
    mg_write_member_int(&w, "agents", result->count);
    if (result->count == 0)
        mg_write_member_string(
            &w, "note",
            "no agent with such a device is known; the plan is measured when one comes (magisd agent "
            "--server URL on its machine)");
    mg_write_end_object(&w);
    finish(call, &w);
}

static void on_list(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_writer w;
    if (result->code != MG_STORE_OK) {
        fail(call, result);
        return;
    }
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_key(&w, "measurements");
    mg_write_begin_array(&w);
    for (size_t i = 0; i < result->n_measured; i++)
        mg_measured_write(&w, &result->measured[i]);
    mg_write_end_array(&w);
    mg_write_end_object(&w);
    finish(call, &w);
}

static void on_claimed(void *ctx, const struct mg_store_result *result)
{
    struct mg_call *call = ctx;
    struct mg_writer w;
    if (result->code != MG_STORE_OK) {
        fail(call, result);
        return;
    }
    take_job(call->jobs, result);
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_int(&w, "lease_s", MG_MEASURED_LEASE_MS / 1000);
    mg_write_key(&w, "measurement");
    if (result->n_measured)
        mg_measured_write(&w, &result->measured[0]);
    else
        mg_write_null(&w);
    mg_write_end_object(&w);
    finish(call, &w);
}

/* ---- questions ---- */

/* As JSON array; malloc'ed. */
static char *models_of(const char *device)
{
    json_t *array = json_array();
    if (strcmp(device, "any") != 0)
        json_array_append_new(array, json_string(device));
    char *text = json_dumps(array, JSON_COMPACT);
    json_decref(array);
    if (!text)
        abort();
    return text;
}

mg_ticket mg_jobs_measure(mg_jobs *jobs, const struct mg_caller *caller, const char *id, const char *plan,
                          const char *device, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    char *models = device ? models_of(device) : NULL;
    snprintf(call->which, sizeof call->which, "%s", plan);
    call->created_status = 202;
    mg_store_want_measured(jobs->config.store, id, plan, models, caller->name, on_wanted, call);
    free(models);
    return ticket;
}

mg_ticket mg_jobs_measurements(mg_jobs *jobs, const char *id, const char *plan, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, id, done, context);
    mg_ticket ticket = call->ticket;
    snprintf(call->which, sizeof call->which, "%s", plan);
    mg_store_list_measured(jobs->config.store, id, plan, on_list, call);
    return ticket;
}

mg_ticket mg_jobs_measure_claim(mg_jobs *jobs, const struct mg_caller *caller, const char *agent, mg_reply_cb done,
                                void *context)
{
    struct mg_call *call = mg_call_new(jobs, "", done, context);
    mg_ticket ticket = call->ticket;
    mg_store_claim_measured(jobs->config.store, agent, caller->name, caller->role == MG_ROLE_ADMIN, on_claimed, call);
    return ticket;
}

mg_ticket mg_jobs_measure_answer(mg_jobs *jobs, const struct mg_caller *caller, const char *agent,
                                 const struct mg_measured *answer, mg_reply_cb done, void *context)
{
    struct mg_call *call = mg_call_new(jobs, "", done, context);
    mg_ticket ticket = call->ticket;
    mg_store_add_measured(jobs->config.store, agent, caller->name, caller->role == MG_ROLE_ADMIN, answer, on_one, call);
    return ticket;
}
