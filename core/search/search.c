/* The search, in the order in which it happens: original, baselines, seeds with their descents, then
 * improvement around the front until the budget ends; at last the front is published and checked. */
#include "search/search.h"

#include <string.h>

#include "search/baseline.h"
#include "search/front.h"
#include "search/improve.h"
#include "search/searcher.h"

enum { PROGRESS_MS = 250 };

struct search_call {
    struct mg_searcher s;
    const struct mg_graph *g;
    struct mg_search_result *out;
    struct mg_front front;
};

void mg_searcher_report(struct mg_searcher *s)
{
    const struct mg_observer *o = s->observer;
    double now = o->now(o->context) - s->started;
    if (!o->progress || s->archive.count == 0 || now - s->last_report < PROGRESS_MS / 1000.0)
        return;
    s->last_report = now;
    struct mg_progress p = {.evaluations = s->evaluations, .seconds = now, .front_count = s->archive.count};
    const struct mg_state *best = mg_front_best(s);
    p.original = (struct mg_figures){s->original.latency, s->original.peak, s->original.peak, 0};
    p.best = (struct mg_figures){best->cost.latency, best->cost.peak, best->cost.peak, best->cost.host};
    double by_count = s->options->max_evaluations ? (double)s->evaluations / (double)s->options->max_evaluations : 0;
    double by_time = s->options->max_seconds > 0 ? now / s->options->max_seconds : 0;
    p.fraction = by_count > by_time ? by_count : by_time;
    o->progress(o->context, &p);
}

/* The original as the plan layer states it, and as the first state of the search. */
static enum mg_code start_from_original(struct search_call *c, struct mg_error *err)
{
    struct mg_searcher *s = &c->s;
    struct mg_plan *plan;
    double before = s->observer->now(s->observer->context);
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    enum mg_code code = mg_plan_original_priced(c->g, s->options->device, s->options->pricer, s->scratch, &plan, err);
    if (code == MG_OK) {
        plan = mg_plan_copy(plan, s->arena); /* building takes several times its size */
        code = mg_front_point(s, plan, 0, &c->out->original, err);
    }
    mg_arena_rewind(s->scratch, mark);
    if (code != MG_OK)
        return code;
    s->publish_seconds = s->observer->now(s->observer->context) - before;
    const struct mg_scheme *none = mg_searcher_scheme(s, NULL, 0, err);
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    code = mg_list_from_scheme(s->p, none, NULL, s->scratch, &list, err);
    if (code != MG_OK)
        return code;
    s->evaluator.keep_apart = true;
    s->original = mg_evaluate(&s->evaluator, none, &list);
    s->evaluator.keep_apart = false;
    s->original_arena = plan->figures.arena_bytes;
    mg_searcher_try(s, none, &list);
    if (s->archive.count == 0) /* the search has stopped already: this is its result */
        mg_archive_offer(&s->archive, &s->pool, none, &list, mg_evaluate(&s->evaluator, none, &list));
    if (s->observer->plan)
        s->observer->plan(s->observer->context, &c->out->original);
    return MG_OK;
}

static void decide_outcome(struct search_call *c)
{
    struct mg_search_result *out = c->out;
    const struct mg_search_options *o = c->s.options;
    bool limited = o->memory_limit || o->memory_ratio > 0 || o->latency_limit > 0 || o->latency_ratio > 0;
    if (!limited)
        out->outcome = MG_OUTCOME_FRONT;
    else if (mg_front_meets(&c->s, &out->front[out->best].figures))
        out->outcome = MG_OUTCOME_MET;
    else
        out->outcome =
            o->memory_limit && o->memory_limit < out->lower_bound_bytes ? MG_OUTCOME_INFEASIBLE : MG_OUTCOME_NOT_MET;
}

static enum mg_code run(void *context, struct mg_error *err)
{
    struct search_call *c = context;
    struct mg_searcher *s = &c->s;
    enum mg_code code = mg_searcher_init(s, c->g, err);
    if (code == MG_OK)
        code = start_from_original(c, err);
    if (code != MG_OK)
        return code;
    c->out->lower_bound_bytes = mg_search_lower_bound(c->g, s->options, &c->out->lower_bound_op);
    mg_baselines(s, c->out);
    mg_improve(s, &c->front);
    mg_front_finish(s, &c->front, c->out);
    c->out->seconds = s->observer->now(s->observer->context) - s->started;
    c->out->evaluations = s->evaluations;
    c->out->restored = s->restored;
    c->out->stopped_by = s->stopped_by;
    decide_outcome(c);
    return MG_OK;
}

static enum mg_code run_with_scratch(void *context, struct mg_error *err)
{
    struct search_call *c = context;
    return mg_arena_guard(c->s.scratch, run, c, err);
}

enum mg_code mg_search(const struct mg_graph *g, const struct mg_search_options *options,
                       const struct mg_observer *observer, struct mg_arena *arena, struct mg_search_result *out,
                       struct mg_error *err)
{
    struct mg_arena scratch;
    memset(out, 0, sizeof *out);
    mg_arena_init(&scratch, SIZE_MAX);
    struct search_call c = {.g = g, .out = out};
    c.s.options = options;
    c.s.observer = observer;
    c.s.arena = arena;
    c.s.scratch = &scratch;
    c.s.memo.arena = arena;
    c.s.stopped_by = MG_STOPPED_EXHAUSTED;
    enum mg_code code = mg_arena_guard(arena, run_with_scratch, &c, err);
    mg_searcher_release(&c.s);
    mg_arena_release(&scratch);
    return code;
}
