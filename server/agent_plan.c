/* A plan executed as a whole because somebody asked for it: claim, fetch graph and plan, run, answer.
 *
 * A plan is tried again where the canary says that others used the device; after that it is answered as measured on a
 * busy one. Whatever stands in the way is an answer too, so that nobody waits for it. The lease is renewed between
 * runs and between the operators that are timed after them, and a run that outlasts it is given up; an agent that is
 * told to stop gives the plan back; one that the plan ended (agent_guard.c) gets it back when it claims again, and
 * answers that it did not survive it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/formats.h"
#include "server/agent.h"
#include "server/device_run.h"
#include "server/fill.h"

enum { TRIES = 3, SEED = 1 };
static const double PATIENCE_S = 20, /* after so long it is not tried again */
    OPERATORS_S = 240,               /* and its operators are not timed any more */
    LEASE_SLACK_S = 30;              /* before the end of the lease the work ends */

struct work {
    struct mg_agent *agent;
    int64_t number;
    const char *job, *plan;
    char *texts[2]; /* graph, plan */
    size_t sizes[2];
    struct mg_arena arena;
    struct mg_device_run run;
    double lease_s, lease_until; /* the work is over by then, or the lease renewed */
    struct mg_engine *engine;
    int tries;
    double again_until;
    bool busy, unheard; /* unheard: the daemon did not answer when we told last that we live */
};

/* False: the daemon refuses us, or the time is over. `reason`: why there is nothing to measure, "" where there is. */
static bool fetch(struct work *w, char *reason, size_t room)
{
    char path[2][96];
    snprintf(path[0], sizeof path[0], "/jobs/%.20s/graph?format=json", w->job);
    snprintf(path[1], sizeof path[1], "/jobs/%.20s/plans/%.20s?format=json", w->job, w->plan);
    *reason = '\0';
    for (int i = 0; i < 2 && !*reason; i++) {
        int status = mg_agent_fetch(w->agent, path[i], &w->texts[i], &w->sizes[i]);
        if (status == 0 || status == 401 || status == 403)
            return false;
        if (status != 200)
            snprintf(reason, room, "%s", *w->texts[i] ? w->texts[i] : "the daemon does not give it");
    }
    return true;
}

static bool must_stop(void *context)
{
    const struct work *w = context;
    return mg_agent_over(w->agent) || mg_measure_clock() >= w->lease_until;
}

static void extend_lease(struct work *w)
{
    w->lease_until = mg_measure_clock() + w->lease_s - LEASE_SLACK_S;
}

/* That the agent lives renews its lease. */
static void renew(void *context)
{
    struct work *w = context;
    double told_at = w->agent->told_at;
    bool heard = mg_agent_beat(w->agent, "measuring");
    if (heard)
        extend_lease(w);
    if (w->agent->told_at > told_at) /* else it was not yet time to tell */
        w->unheard = !heard;
}

static void begin_try(struct work *w)
{
    struct mg_canary *canary = &w->agent->canary;
    double seconds;
    bool shared = mg_canary_is_shared(canary, w->engine);
    bool good = mg_canary_run(canary, w->engine, &seconds);
    w->busy = shared || !good || mg_canary_is_slow(canary, seconds);
    w->tries++;
}

/* After the runs: they are had again where others used the device meanwhile. */
static bool again(void *context)
{
    struct work *w = context;
    struct mg_canary *canary = &w->agent->canary;
    double seconds;
    bool good = mg_canary_run(canary, w->engine, &seconds);
    bool shared = mg_canary_is_shared(canary, w->engine);
    w->busy = w->busy || shared || !good || mg_canary_is_slow(canary, seconds);
    if (!w->busy || w->tries == TRIES || mg_measure_clock() >= w->again_until)
        return false;
    begin_try(w);
    return true;
}

static enum mg_code execute(struct work *w, const struct mg_graph *g, const struct mg_plan *plan, double *const *given,
                            struct mg_error *err)
{
    const struct mg_device_watch watch = {.stop = must_stop,
                                          .between = renew,
                                          .again = again,
                                          .context = w,
                                          .operators_until = mg_measure_clock() + OPERATORS_S};
    double **results = MG_NEW_ARRAY(&w->arena, double *, g->value_count);
    enum mg_code code = mg_engine_open(w->agent->device, &w->engine, err);
    if (code != MG_OK)
        return code;
    mg_engine_limit_memory(w->engine, MG_AGENT_MEMORY);
    w->again_until = mg_measure_clock() + PATIENCE_S;
    begin_try(w);
    code = mg_device_run(w->engine, g, plan, SEED, &watch, given, results, &w->arena, &w->run, err);
    mg_engine_close(w->engine);
    return code;
}

static enum mg_code measure(void *context, struct mg_error *err)
{
    struct work *w = context;
    struct mg_graph *g;
    struct mg_plan *plan;
    struct mg_training training;
    bool has_training;
    enum mg_code code = mg_graph_read(w->texts[0], w->sizes[0], &w->arena, &g, &training, &has_training, err);
    if (code == MG_OK)
        code = mg_graph_normalise(g, &w->arena, &g, err);
    if (code == MG_OK)
        code = mg_plan_read(g, w->texts[1], w->sizes[1], &w->arena, &plan, err);
    if (code != MG_OK)
        return code;
    return execute(w, g, plan, mg_fill_values(g, NULL, MG_FILL_SPREAD, SEED, &w->arena), err);
}

/* How many bytes of `text` are whole characters, at most `most`. */
static size_t text_length(const char *text, size_t most)
{
    size_t size = strnlen(text, most), length = 0, one = 0;
    while (length < size && (one = mg_utf8_length(text + length, size - length)) > 0)
        length += one;
    return length;
}

/* Somebody else may have it at once. */
static json_t *refusal_of(const struct work *w)
{
    return json_pack("{s:s, s:I, s:s}", "agent", w->agent->name, "number", (json_int_t)w->number, "state", "wanted");
}

static json_t *answer_of(const struct work *w, const char *reason)
{
    const struct mg_device_run *run = &w->run;
    json_t *root = json_pack("{s:s, s:s, s:I, s:s}", "agent", w->agent->name, "host", w->agent->host, "number",
                             (json_int_t)w->number, "state", reason ? "failed" : "done");
    if (reason) {
        json_object_set_new(root, "reason", json_stringn(reason, text_length(reason, 200)));
        return root;
    }
    json_object_set_new(root, "runs", json_integer(run->timing.n));
    json_object_set_new(root, "latency_s", json_real(run->seconds));
    json_object_set_new(root, "mad_s", json_real(run->timing.mad_s));
    if (isfinite(run->predicted_s))
        json_object_set_new(root, "sum_of_operators_s", json_real(run->predicted_s));
    json_object_set_new(root, "peak_bytes", json_integer((json_int_t)run->facts.peak_bytes));
    json_object_set_new(root, "arena_bytes", json_integer((json_int_t)run->facts.arena_bytes));
    json_object_set_new(root, "host_bytes", json_integer((json_int_t)run->facts.host_bytes));
    json_object_set_new(root, "busy", json_boolean(w->busy));
    return root;
}

/* "" where the plan was executed. */
static void explain(const struct work *w, const struct mg_error *err, char *reason, size_t room)
{
    if (err->code == MG_ERR_CANCELLED)
        snprintf(reason, room, "one run takes longer than an agent may hold a plan, %.0f s", w->lease_s);
    else
        snprintf(reason, room, "%s", *err->message ? err->message : "out of memory");
}

/* Given back: what ended the work was that we were told to stop, or that the lease ran out without the daemon, not that
 * the plan takes long. */
static bool is_given_back(const struct work *w, enum mg_code code)
{
    return code == MG_ERR_CANCELLED && (mg_agent_over(w->agent) || w->unheard || w->lease_s <= 0);
}

/* An answer that nobody waits for any more, the lease or the job being gone, is dropped. */
static enum mg_agent_turn work_on(struct work *w)
{
    struct mg_error err = {0};
    char reason[sizeof err.message];
    json_t *answer;
    if (!fetch(w, reason, sizeof reason))
        return MG_TURN_END;
    if (w->agent->note->plan == w->number)
        snprintf(reason, sizeof reason, "the agent did not survive executing it");
    w->agent->note->plan = w->number;
    mg_arena_init(&w->arena, SIZE_MAX);
    if (!*reason && mg_arena_guard(&w->arena, measure, w, &err) != MG_OK)
        explain(w, &err, reason, sizeof reason);
    mg_arena_release(&w->arena);
    bool returned = is_given_back(w, err.code);
    int status = mg_agent_ask(w->agent, "/measurements",
                              returned ? refusal_of(w) : answer_of(w, *reason ? reason : NULL), &answer);
    w->agent->note->plan = 0;
    w->agent->note->crashes = status == 200 && !*reason ? 0 : w->agent->note->crashes;
    w->agent->note->plans += status == 200 && !*reason;
    json_decref(answer);
    if (status == 0 || status == 401 || status == 403)
        return MG_TURN_END;
    return returned ? MG_TURN_LATER : MG_TURN_WORKED;
}

enum mg_agent_turn mg_agent_plan(struct mg_agent *a)
{
    json_t *answer;
    enum mg_agent_turn turn = mg_agent_claim(a, "/measurements/claims", json_pack("{s:s}", "agent", a->name), &answer);
    const json_t *wish = json_object_get(answer, "measurement");
    struct work w = {.agent = a,
                     .number = json_integer_value(json_object_get(wish, "number")),
                     .job = json_string_value(json_object_get(wish, "job")),
                     .plan = json_string_value(json_object_get(wish, "plan")),
                     .lease_s = json_number_value(json_object_get(answer, "lease_s"))};
    extend_lease(&w);
    if (turn == MG_TURN_WORKED)
        turn = w.job && w.plan ? work_on(&w) : MG_TURN_NOTHING;
    free(w.texts[0]);
    free(w.texts[1]);
    json_decref(answer);
    return turn;
}
