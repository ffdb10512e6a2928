#include "search/baseline.h"

#include "search/front.h"
#include "search/microbatch.h"
#include "search/sublinear.h"

/* Of the seconds of a search from here on, so that most are left for what people do not do. */
static const double SUBLINEAR_SHARE = 1.0 / 6, SHARE = 1.0 / 3;

/* Does one more point fit? */
static bool goes_on(struct mg_searcher *s, double share)
{
    double most = s->options->max_seconds, from = most > 0 ? s->prepared / most : 0;
    return mg_searcher_fits(s, from + share * (1 - from), s->publish_seconds);
}

static void say_cut_short(struct mg_baseline_result *out)
{
    out->not_applicable = out->point_count ? "cut short, there was no time for all points" : "there was no time for it";
}

/* The observer keeps nothing: a plan that it has seen may go. */
static void publish(struct mg_searcher *s, struct mg_baseline_result *out, const struct mg_state *state,
                    bool keep_apart)
{
    struct mg_error err;
    struct mg_point *point = &out->points[out->point_count];
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct mg_arena *arena = s->arena;
    bool shown = s->observer->baseline_point != NULL;
    s->arena = shown ? s->scratch : arena;
    bool ok = mg_front_publish(s, state, keep_apart, point, &err) == MG_OK;
    s->arena = arena;
    if (ok && shown)
        s->observer->baseline_point(s->observer->context, point);
    if (shown)
        point->plan = NULL;
    out->point_count += ok;
    mg_arena_rewind(s->scratch, mark);
}

static void microbatch_baseline(struct mg_searcher *s, struct mg_baseline_result *out)
{
    struct mg_region region;
    struct mg_error why;
    out->name = "microbatch";
    if (!goes_on(s, SHARE)) {
        say_cut_short(out);
        return;
    }
    if (!mg_microbatch_region(s, &region, &why)) {
        out->not_applicable = mg_arena_strdup(s->arena, why.message);
        return;
    }
    uint32_t counts[MG_PARTS_MAX], n = mg_part_counts(region.length, counts);
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    out->points = MG_NEW_ARRAY(s->arena, struct mg_point, n);
    s->hand = MG_NEW_ARRAY(s->arena, struct mg_cost, n);
    bool whole = true;
    for (uint32_t i = 0; i < n && (whole = goes_on(s, SHARE)); i++) {
        region.parts = counts[i];
        const struct mg_scheme *scheme = mg_searcher_scheme(s, &region, 1, &why);
        struct mg_error err;
        uint32_t before = out->point_count;
        if (!scheme || mg_list_from_scheme(s->p, scheme, NULL, s->scratch, &list, &err) != MG_OK)
            continue;
        struct mg_state state = {.scheme = scheme, .list = list};
        s->evaluator.keep_apart = true;
        struct mg_cost cost = mg_evaluate(&s->evaluator, scheme, &list);
        s->evaluator.keep_apart = false;
        state.cost = cost;
        publish(s, out, &state, true);
        if (out->point_count > before)
            s->hand[s->hand_count++] = cost;
        mg_schemes_sweep(&s->schemes, &s->pool);
    }
    if (!whole)
        say_cut_short(out);
    mg_front_sort(out->points, out->point_count);
}

static void add_point(struct mg_searcher *s, struct mg_baseline_result *out, const struct mg_list *list)
{
    struct mg_state state = {.scheme = mg_searcher_scheme(s, NULL, 0, NULL), .list = *list};
    if (!state.scheme)
        return;
    state.cost = mg_evaluate(&s->evaluator, state.scheme, list);
    publish(s, out, &state, false);
}

/* Of points by latency, those with a smaller peak than all before. */
static void keep_pareto(struct mg_baseline_result *out)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->point_count; i++)
        if (kept == 0 || out->points[i].figures.peak_bytes < out->points[kept - 1].figures.peak_bytes)
            out->points[kept++] = out->points[i];
    out->point_count = kept;
}

static void sublinear_baseline(struct mg_searcher *s, struct mg_baseline_result *out)
{
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    uint64_t budget[MG_SUBLINEAR_BUDGETS];
    out->name = "sublinear";
    if (s->p->g->forward_ops == MG_NONE || s->p->g->forward_ops >= s->p->op_count) {
        out->not_applicable = "the graph has no backward pass";
        return;
    }
    bool whole = goes_on(s, SUBLINEAR_SHARE);
    uint32_t n = whole ? mg_sublinear_budgets(s, &list, budget) : 0;
    out->points = MG_NEW_ARRAY(s->arena, struct mg_point, n + 1);
    for (uint32_t i = 0; i < n && (whole = goes_on(s, SUBLINEAR_SHARE)); i++)
        if (mg_sublinear_segments(s, budget[i], &list, NULL, NULL))
            add_point(s, out, &list);
    whole = whole && goes_on(s, SUBLINEAR_SHARE);
    if (whole && mg_sublinear_cheap(s, &list))
        add_point(s, out, &list);
    if (!whole)
        say_cut_short(out);
    mg_front_sort(out->points, out->point_count);
    keep_pareto(out);
}

void mg_baselines(struct mg_searcher *s, struct mg_search_result *out)
{
    out->baselines = MG_NEW_ARRAY(s->arena, struct mg_baseline_result, 2);
    s->prepared = s->observer->now(s->observer->context) - s->started;
    sublinear_baseline(s, &out->baselines[out->baseline_count++]);
    microbatch_baseline(s, &out->baselines[out->baseline_count++]);
    for (uint32_t i = 0; i < out->baseline_count && s->observer->baseline; i++)
        s->observer->baseline(s->observer->context, &out->baselines[i]);
}
