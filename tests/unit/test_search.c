/* The search: exact cases of the papers, the evaluator against the plan layer, limits, determinism. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/baseline.h"
#include "search/front.h"
#include "search/microbatch.h"
#include "search/publish.h"
#include "search/sublinear.h"
#include "search/tree.h"
#include "zoo/zoo.h"

static double now(void *context)
{
    (void)context;
    return 0; /* tests count evaluations, never seconds */
}

static const struct mg_observer quiet = {.now = now};

/* ---- the fission tree: MAGIS Figure 6 ---- */

static const uint8_t figure6_edges[][2] = {
    {0, 1},   {1, 2},   {2, 3},   {3, 4},   {4, 5},   {4, 6},   {5, 7},   {6, 7},   {4, 7},   {7, 8},
    {3, 8},   {8, 9},   {8, 17},  {2, 10},  {10, 11}, {11, 12}, {12, 13}, {13, 14}, {12, 14}, {14, 15},
    {10, 15}, {15, 16}, {15, 17}, {17, 18}, {2, 18},  {18, 19}, {1, 19},  {19, 20}, {19, 21}, {0, 21},
};
enum { EDGES = sizeof figure6_edges / sizeof *figure6_edges, NODES = 22 };

static struct mg_rows rows_of(struct mg_arena *arena, int key, int item)
{
    struct mg_rows rows = {MG_NEW_ARRAY(arena, uint32_t, NODES + 1), MG_NEW_ARRAY(arena, uint32_t, EDGES)};
    uint32_t n = 0;
    for (uint32_t v = 0; v < NODES; v++) {
        rows.start[v] = n;
        for (uint32_t e = 0; e < EDGES; e++)
            if (figure6_edges[e][key] == v)
                rows.item[n++] = figure6_edges[e][item];
    }
    rows.start[NODES] = n;
    return rows;
}

static enum mg_code figure6(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    static const uint8_t hot_nodes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14};
    uint64_t hot[NODES] = {0}, cold[NODES];
    uint32_t maker[NODES];
    (void)err;
    for (size_t i = 0; i < sizeof hot_nodes; i++)
        hot[hot_nodes[i]] = 1;
    for (uint32_t v = 0; v < NODES; v++) {
        cold[v] = 1 - hot[v];
        maker[v] = v;
    }
    struct mg_flow flow = {NODES, rows_of(arena, 1, 0), hot, NODES, maker, cold, rows_of(arena, 0, 1)};
    struct mg_dominators d;
    mg_dominators_build(&flow, arena, &d);
    static const struct {
        uint32_t node;
        double heat, score;
    } expected[] = {{0, 12, 6},  {1, 11, 5.5}, {2, 10, 5},   {3, 5, 2.5},
                    {4, 3, 1.5}, {10, 3, 1.5}, {11, 3, 0.5}, {12, 2, 1}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        cr_assert_eq(d.heat[expected[i].node], expected[i].heat, "heat of %u", expected[i].node);
        cr_assert_eq(d.score[expected[i].node], expected[i].score, "score of %u: %g", expected[i].node,
                     d.score[expected[i].node]);
    }
    static const uint32_t parents[NODES] = {MG_NONE, 0,  1,  2,  3,  4,  4, 4, 3, 8,  2,
                                            10,      11, 12, 12, 10, 15, 2, 2, 1, 19, 0};
    for (uint32_t v = 0; v < NODES; v++)
        cr_assert_eq(d.parent[v], parents[v], "dominator of %u is %u", v, d.parent[v]);
    uint8_t chosen[NODES];
    cr_assert_eq(mg_dominators_choose(&flow, &d, 5, arena, chosen), 5u);
    for (uint32_t v = 0; v < NODES; v++)
        cr_assert_eq(chosen[v], v == 0 || v == 2 || v == 3 || v == 4 || v == 10, "node %u", v);
    cr_assert(mg_dominators_under(&d, 4, 3) && mg_dominators_under(&d, 3, 2) && mg_dominators_under(&d, 10, 2));
    cr_assert_not(mg_dominators_under(&d, 10, 3));
    return MG_OK;
}

Test(search, figure_6_tree)
{
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, figure6, &arena, &err), MG_OK);
    mg_arena_release(&arena);
}

Test(search, figure_7_mutates_to_the_next_divisor)
{
    cr_assert_eq(mg_parts_next(12, 2, true), 3u);
    cr_assert_eq(mg_parts_next(12, 3, false), 2u);
    cr_assert_eq(mg_parts_next(12, 12, true), 12u);
}

/* ---- taking copies back ---- */

struct undo_case {
    mg_word before[6];
    uint32_t count, undone; /* steps, and the step to take back */
    mg_word after[6];
    uint32_t left;
};

enum { ROOT = 2 };
#define STORED MG_WORD(MG_WORD_STORE, ROOT)
#define FREED MG_WORD(MG_WORD_FREE, ROOT)
#define LOADED MG_WORD(MG_WORD_LOAD, ROOT)
#define BEGUN MG_WORD(MG_WORD_BEGIN, 0)
#define ENDED MG_WORD(MG_WORD_END, 0)

static const struct undo_case undo_cases[] = {
    {{BEGUN, 0, STORED, 1, LOADED, ENDED}, 6, 4, {BEGUN, 0, 1, ENDED}, 4},
    {{BEGUN, STORED, FREED, LOADED, LOADED, ENDED}, 6, 4, {BEGUN, STORED, FREED, LOADED, ENDED}, 5},
    {{BEGUN, STORED, FREED, LOADED, LOADED, ENDED}, 6, 3, {BEGUN, STORED, LOADED, ENDED}, 4},
    {{BEGUN, STORED, FREED, LOADED, ENDED}, 5, 3, {BEGUN, ENDED}, 2},
};

static void undo_one(const struct undo_case *c)
{
    struct mg_arena scratch;
    struct mg_problem p = {.value_count = ROOT + 1};
    uint8_t undo[6] = {0};
    mg_word words[6], result[6];
    struct mg_list list = {.word = words, .count = c->count, .capacity = 6}, out = {.word = result, .capacity = 6};
    mg_arena_init(&scratch, SIZE_MAX);
    memcpy(words, c->before, sizeof words);
    undo[c->undone] = 1;
    mg_edit_undo(&p, &list, undo, &scratch, &out);
    cr_expect_eq(out.count, c->left);
    cr_expect_arr_eq(result, c->after, c->left * sizeof *result);
    mg_arena_release(&scratch);
}

Test(search, undoing_a_load_takes_only_what_is_its_own)
{
    for (size_t i = 0; i < sizeof undo_cases / sizeof *undo_cases; i++)
        undo_one(&undo_cases[i]);
}

/* ---- networks ---- */

struct bench {
    struct mg_arena arena, scratch;
    struct mg_graph *g;
    struct mg_search_options options;
    struct mg_searcher s;
    uint64_t seed;
};

static void open_network(struct bench *b, const char *name, const struct mg_zoo_option *options, uint32_t count,
                         bool train)
{
    struct mg_graph *forward;
    struct mg_error err;
    struct mg_training training = {MG_LOSS_SQUARED, MG_OPTIMIZER_SGD, NULL, 0};
    memset(b, 0, sizeof *b);
    mg_arena_init(&b->arena, SIZE_MAX);
    mg_arena_init(&b->scratch, SIZE_MAX);
    cr_assert_eq(mg_zoo_build(name, options, count, &b->arena, &forward, &err), MG_OK, "%s", err.message);
    if (train)
        cr_assert_eq(mg_graph_differentiate(forward, &training, &b->arena, &forward, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_normalise(forward, &b->arena, &b->g, &err), MG_OK, "%s", err.message);
    b->options = (struct mg_search_options){
        .device = mg_device_builtin("rtx3090"), .max_evaluations = 2000, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
}

static void close_network(struct bench *b)
{
    mg_arena_release(&b->arena);
    mg_arena_release(&b->scratch);
}

static const struct mg_zoo_option paper[] = {{"variant", "paper"}, {"batch", "6"}, {"seq_len", "32"}};
static const struct mg_zoo_option small_image[] = {{"variant", "paper"}, {"batch", "5"}, {"image", "64"}};

/* ---- evaluator against simulator and checker, on random edits ---- */

static void random_edit(struct bench *b, const struct mg_scheme *scheme, struct mg_list *list, struct mg_list *spare)
{
    struct mg_searcher *s = &b->s;
    uint32_t at = (uint32_t)mg_rng_below(&s->rng, list->count);
    mg_spans_build(&s->spans, s->p, scheme, list);
    uint32_t gaps = mg_gaps_at(&s->spans, s->p, scheme, list, at, s->scratch, s->gaps);
    if (gaps == 0)
        return;
    const struct mg_gap *gap = &s->gaps[mg_rng_below(&s->rng, gaps)];
    struct mg_chain chain;
    struct mg_error why;
    bool done = mg_rng_below(&s->rng, 2)
                    ? mg_may_swap(s, scheme, gap->root) &&
                          mg_edit_swap(&s->spans, list, gap, mg_rng_below(&s->rng, 4) == 0, spare)
                    : mg_chain_find(&s->spans, s->p, scheme, gap, &chain) && mg_edit_remat(list, gap, &chain, spare);
    if (!done)
        return;
    cr_assert_eq(mg_list_check(s->p, scheme, spare, s->scratch, &why), MG_OK, "%s", why.message);
    mg_list_copy(list, spare);
    mg_edit_place_copies(&s->evaluator, scheme, list, s->scratch);
    cr_assert_eq(mg_list_check(s->p, scheme, list, s->scratch, &why), MG_OK, "after placing: %s", why.message);
}

static void compare(struct bench *b, const struct mg_scheme *scheme, const struct mg_list *list)
{
    struct mg_searcher *s = &b->s;
    struct mg_plan *plan;
    struct mg_error err;
    struct mg_verdict verdict;
    struct mg_cost cost = mg_evaluate(&s->evaluator, scheme, list);
    struct mg_figures original = {s->original.latency, s->original.peak, s->original_arena, 0};
    cr_assert_eq(mg_publish(s->p, scheme, list, MG_NUMERICS_REASSOCIATE, false, &original, s->arena, &plan, &err),
                 MG_OK, "%s", err.message);
    cr_assert_eq(plan->figures.peak_bytes, cost.peak);
    cr_assert_eq(plan->figures.host_bytes, cost.host);
    cr_assert_float_eq(plan->figures.latency_s, cost.latency, 1e-9 * cost.latency);
    cr_assert_eq(mg_plan_check(b->g, plan, s->arena, &verdict, &err), MG_OK);
    cr_assert(verdict.accepted, "step %u: %s: %s", verdict.step, verdict.reason, verdict.message);
}

static void random_walk(struct bench *b, const struct mg_scheme *scheme, uint32_t edits)
{
    struct mg_searcher *s = &b->s;
    struct mg_error why;
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity), spare = mg_list_new(s->arena, s->pool.capacity);
    cr_assert_eq(mg_list_from_scheme(s->p, scheme, NULL, s->scratch, &list, &why), MG_OK, "%s", why.message);
    for (uint32_t i = 0; i < edits; i++) {
        random_edit(b, scheme, &list, &spare);
        if (i % 8 == 7)
            compare(b, scheme, &list);
    }
}

static enum mg_code walk_inside(void *context, struct mg_error *err)
{
    struct bench *b = context;
    struct mg_searcher *s = &b->s;
    struct mg_region region;
    struct mg_plan *plan;
    cr_assert_eq(mg_searcher_init(s, b->g, err), MG_OK);
    mg_rng_init(&s->rng, b->seed);
    cr_assert_eq(mg_plan_original(b->g, b->options.device, s->arena, &plan, err), MG_OK);
    const struct mg_scheme *none = mg_searcher_scheme(s, NULL, 0, err);
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    cr_assert_eq(mg_list_from_scheme(s->p, none, NULL, s->scratch, &list, err), MG_OK);
    s->evaluator.keep_apart = true;
    s->original = mg_evaluate(&s->evaluator, none, &list);
    s->evaluator.keep_apart = false;
    s->original_arena = plan->figures.arena_bytes;
    cr_assert_eq(s->original.peak, plan->figures.peak_bytes);
    cr_assert_float_eq(s->original.latency, plan->figures.latency_s, 1e-12);
    random_walk(b, none, 48);
    cr_assert(mg_microbatch_region(s, &region, err), "%s", err->message);
    for (uint32_t parts = 2; parts <= 4; parts++) {
        region.parts = parts;
        const struct mg_scheme *scheme = mg_searcher_scheme(s, &region, 1, err);
        cr_assert_not_null(scheme, "%s", err->message);
        random_walk(b, scheme, 48);
    }
    /* a region of views alone would have no step: it is refused */
    for (uint32_t i = 0; i < region.op_count; i++) {
        struct mg_region view = region;
        view.ops = &region.ops[i];
        view.op_count = 1;
        if (!s->p->computes[region.ops[i].op])
            cr_assert_null(mg_searcher_scheme(s, &view, 1, err));
    }
    mg_searcher_release(s);
    return MG_OK;
}

static enum mg_code walk(void *context, struct mg_error *err)
{
    struct bench *b = context;
    return mg_arena_guard(&b->scratch, walk_inside, b, err);
}

static void walk_network(const char *name, const struct mg_zoo_option *options, uint32_t count, uint64_t seed)
{
    struct bench b;
    struct mg_error err;
    open_network(&b, name, options, count, true);
    b.s = (struct mg_searcher){.options = &b.options, .observer = &quiet, .arena = &b.arena, .scratch = &b.scratch};
    b.seed = seed;
    cr_assert_eq(mg_arena_guard(&b.arena, walk, &b, &err), MG_OK, "%s", err.message);
    close_network(&b);
}

Test(search, evaluator_agrees_with_the_plan_on_bert)
{
    walk_network("bert-tiny", paper, 3, 1);
    walk_network("bert-tiny", paper, 3, 2);
}

Test(search, evaluator_agrees_with_the_plan_on_resnet)
{
    walk_network("resnet18", small_image, 3, 3);
}

Test(search, evaluator_agrees_with_the_plan_on_unet)
{
    walk_network("unet", small_image, 3, 4);
}

/* ---- limits: the graph of MAGIS Figure 2 ---- */

static double figure2_latency(uint32_t techniques)
{
    struct bench b;
    struct mg_search_result r;
    struct mg_error err;
    open_network(&b, "figure2", NULL, 0, false);
    b.options.techniques = techniques;
    b.options.memory_limit = 100u << 20;
    b.options.max_evaluations = 4000;
    cr_assert_eq(mg_search(b.g, &b.options, &quiet, &b.arena, &r, &err), MG_OK, "%s", err.message);
    cr_assert_eq(r.original.figures.peak_bytes, UINT64_C(1056) << 20);
    cr_assert_eq(r.outcome, MG_OUTCOME_MET, "techniques %x: smallest %llu", techniques,
                 (unsigned long long)r.front[r.front_count - 1].figures.peak_bytes);
    cr_assert_leq(r.front[r.best].figures.arena_bytes, UINT64_C(100) << 20);
    cr_assert_eq(r.rejected, 0u);
    double latency = r.front[r.best].figures.latency_s;
    close_network(&b);
    return latency;
}

Test(search, figure_2_fits_by_fission_by_swapping_and_by_both)
{
    double fission = figure2_latency(MG_TECHNIQUE_FISSION), swap = figure2_latency(MG_TECHNIQUE_SWAP);
    double both = figure2_latency(MG_TECHNIQUE_FISSION | MG_TECHNIQUE_SWAP), all = figure2_latency(MG_TECHNIQUE_ALL);
    double better = fission < swap ? fission : swap;
    cr_assert_leq(both, better * (1 + 1e-9), "fission %g swap %g both %g all %g", fission, swap, both, all);
    cr_assert_leq(all, better * (1 + 1e-9));
}

/* ---- determinism ---- */

Test(search, the_same_evaluations_and_seed_give_the_same_plans)
{
    char first[64][17];
    uint32_t count = 0;
    for (int run = 0; run < 2; run++) {
        struct bench b;
        struct mg_search_result r;
        struct mg_error err;
        open_network(&b, "bert-tiny", paper, 3, true);
        cr_assert_eq(mg_search(b.g, &b.options, &quiet, &b.arena, &r, &err), MG_OK, "%s", err.message);
        cr_assert_eq(r.stopped_by, MG_STOPPED_EVALUATIONS);
        cr_assert_gt(r.front_count, 3u);
        cr_assert_eq(r.rejected, 0u);
        if (run == 1)
            cr_assert_eq(r.front_count, count);
        count = r.front_count;
        for (uint32_t i = 0; i < count; i++) {
            if (run == 1)
                cr_assert_str_eq(first[i], r.front[i].id);
            memcpy(first[i], r.front[i].id, 17);
        }
        close_network(&b);
    }
}

/* ---- budgets ---- */

Test(search, a_budget_of_evaluations_is_never_exceeded)
{
    for (uint64_t budget = 1; budget < 1500; budget += 1 + budget / 3) {
        struct bench b;
        struct mg_search_result r;
        struct mg_error err;
        open_network(&b, "bert-tiny", paper, 3, true);
        b.options.max_evaluations = budget;
        cr_assert_eq(mg_search(b.g, &b.options, &quiet, &b.arena, &r, &err), MG_OK, "%s", err.message);
        cr_assert_eq(r.evaluations, budget);
        cr_assert_eq(r.stopped_by, MG_STOPPED_EVALUATIONS);
        close_network(&b);
    }
}

static double slow_clock(void *context)
{
    double *time = context;
    return *time += 0.03;
}

static bool reaches(const struct mg_search_result *r, const struct mg_figures *figures)
{
    for (uint32_t i = 0; i < r->front_count; i++)
        if (r->front[i].figures.latency_s <= figures->latency_s &&
            r->front[i].figures.peak_bytes <= figures->peak_bytes)
            return true;
    return false;
}

Test(search, a_front_is_nowhere_worse_than_the_baselines)
{
    struct bench b;
    struct mg_search_result result;
    struct mg_error err;
    open_network(&b, "bert-tiny", paper, 3, true);
    b.options.max_evaluations = 1;
    cr_assert_eq(mg_search(b.g, &b.options, &quiet, &b.arena, &result, &err), MG_OK, "%s", err.message);
    cr_assert_gt(result.baselines[1].point_count, 2);
    for (uint32_t k = 0; k < result.baseline_count; k++)
        for (uint32_t i = 0; i < result.baselines[k].point_count; i++)
            cr_expect(reaches(&result, &result.baselines[k].points[i].figures), "%s %u", result.baselines[k].name, i);
    for (uint32_t i = 1; i < result.front_count; i++)
        cr_expect_lt(result.front[i].figures.peak_bytes, result.front[i - 1].figures.peak_bytes);
    close_network(&b);
}

Test(search, the_clock_changes_nothing_before_it_ends_the_search)
{
    double time = 0;
    const struct mg_observer slow = {.now = slow_clock, .context = &time};
    const struct mg_observer *const observers[] = {&quiet, &slow};
    struct mg_search_result r[2];
    struct bench b[2];
    for (int run = 0; run < 2; run++) {
        struct mg_error err;
        open_network(&b[run], "bert-tiny", paper, 3, true);
        b[run].options.max_seconds = 1e6;
        cr_assert_eq(mg_search(b[run].g, &b[run].options, observers[run], &b[run].arena, &r[run], &err), MG_OK);
    }
    cr_assert_gt(time, 30.0, "it is looked at far more often where evaluations are slow: %g s", time);
    cr_assert_eq(r[0].front_count, r[1].front_count);
    for (uint32_t i = 0; i < r[0].front_count; i++)
        cr_assert_str_eq(r[0].front[i].id, r[1].front[i].id);
    close_network(&b[0]);
    close_network(&b[1]);
}

static double read_time(void *context)
{
    return *(double *)context;
}

/* How far beyond its seconds a search runs whose evaluations take `fast` seconds at first, then `slow`. */
static double overshoot(struct mg_searcher *s, double *time, double fast, double slow)
{
    struct mg_error why;
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    const struct mg_scheme *none = mg_searcher_scheme(s, NULL, 0, &why);
    cr_assert_eq(mg_list_from_scheme(s->p, none, NULL, s->scratch, &list, &why), MG_OK);
    s->stop = false;
    s->started = s->looked = *time;
    while (!s->stop) {
        mg_searcher_try(s, none, &list);
        *time += *time - s->started < s->options->max_seconds / 2 ? fast : slow;
    }
    return *time - s->started - s->options->max_seconds;
}

static enum mg_code watch_clock(void *context, struct mg_error *err)
{
    struct bench *b = context;
    struct mg_searcher *s = &b->s;
    double *time = s->observer->context;
    cr_assert_eq(mg_searcher_init(s, b->g, err), MG_OK);
    cr_assert_leq(overshoot(s, time, 1e-5, 1e-5), 0.021);
    cr_assert_leq(overshoot(s, time, 1e-3, 1e-3), 0.021);
    cr_assert_leq(overshoot(s, time, 1e-4, 4e-3), 0.021, "slower than before");
    cr_assert_leq(overshoot(s, time, 0.05, 0.05), 0.051, "one evaluation at a time");
    cr_assert_leq(overshoot(s, time, 1, 1e-3), 0.021, "faster than before");
    mg_searcher_release(s);
    return MG_OK;
}

struct timed {
    struct bench b;
    enum mg_code (*work)(void *context, struct mg_error *err);
};

static enum mg_code within_scratch(void *context, struct mg_error *err)
{
    struct timed *t = context;
    return mg_arena_guard(&t->b.scratch, t->work, &t->b, err);
}

/* Hands a searcher of 8 seconds, whose clock only the work moves, to the work. */
static void in_own_time(enum mg_code (*work)(void *context, struct mg_error *err), double memory_ratio)
{
    struct timed t = {.work = work};
    struct mg_error err;
    double time = 100;
    const struct mg_observer observer = {.now = read_time, .context = &time};
    struct bench *b = &t.b;
    open_network(b, "bert-tiny", paper, 3, true);
    b->options.max_evaluations = 0;
    b->options.max_seconds = 8;
    b->options.memory_ratio = memory_ratio;
    b->s =
        (struct mg_searcher){.options = &b->options, .observer = &observer, .arena = &b->arena, .scratch = &b->scratch};
    b->s.memo.arena = &b->arena;
    cr_assert_eq(mg_arena_guard(&b->arena, within_scratch, &t, &err), MG_OK, "%s", err.message);
    close_network(b);
}

Test(search, seconds_are_overshot_by_little_whatever_an_evaluation_takes)
{
    in_own_time(watch_clock, 0);
}

/* Where a search that has been told to stop leaves off: what it has done by then fits what it was let do. */
static void check_stopped(struct bench *b, const struct mg_search_result *r, uint32_t looks)
{
    uint32_t points = 0;
    struct mg_verdict verdict;
    struct mg_error err;
    for (uint32_t i = 0; i < r->baseline_count; i++) {
        points += r->baselines[i].point_count;
        cr_assert(r->baselines[i].point_count || r->baselines[i].not_applicable, "%s", r->baselines[i].name);
    }
    cr_assert_leq(points, looks, "baselines");
    cr_assert_leq(r->evaluations, (uint64_t)64 * looks);
    cr_assert_eq(r->rejected, 0u);
    cr_assert_geq(r->front_count, 1u);
    cr_assert_eq(mg_plan_check(b->g, r->front[r->best].plan, &b->scratch, &verdict, &err), MG_OK);
    cr_assert(verdict.accepted, "%s", verdict.message);
}

/* Says to stop from some question on. */
static bool out_of_patience(void *context)
{
    uint32_t *patience = context;
    return *patience == 0 || --*patience == 0;
}

Test(search, whoever_cancels_is_heard_in_every_phase)
{
    for (uint32_t looks = 1; looks < 300; looks += 1 + looks / 4) {
        uint32_t patience = looks;
        const struct mg_observer observer = {.now = now, .cancelled = out_of_patience, .context = &patience};
        struct bench b;
        struct mg_search_result r;
        struct mg_error err;
        open_network(&b, "bert-tiny", paper, 3, true);
        b.options.max_evaluations = 0;
        cr_assert_eq(mg_search(b.g, &b.options, &observer, &b.arena, &r, &err), MG_OK, "%s", err.message);
        cr_assert_eq(r.stopped_by, MG_STOPPED_CANCELLED);
        check_stopped(&b, &r, looks - 1);
        close_network(&b);
    }
}

static double clock_by_looks(void *context)
{
    double *time = context;
    return *time += 1;
}

Test(search, seconds_end_in_every_phase)
{
    for (uint32_t seconds = 1; seconds < 1000; seconds += 1 + seconds / 4) {
        double time = 0;
        const struct mg_observer observer = {.now = clock_by_looks, .context = &time};
        struct bench b;
        struct mg_search_result r;
        struct mg_error err;
        open_network(&b, "bert-tiny", paper, 3, true);
        b.options.max_evaluations = 0;
        b.options.max_seconds = seconds;
        cr_assert_eq(mg_search(b.g, &b.options, &observer, &b.arena, &r, &err), MG_OK, "%s", err.message);
        cr_assert_eq(r.stopped_by, MG_STOPPED_SECONDS);
        check_stopped(&b, &r, seconds - 1);
        close_network(&b);
    }
}

/* Each kind of rewrite is tried on the whole graph. */
Test(search, trying_rewrites_leaves_time_for_the_rest)
{
    static const struct mg_zoo_option deep[] = {
        {"variant", "paper"}, {"batch", "2"}, {"seq_len", "8"}, {"layers", "24"}};
    double time = 0;
    const struct mg_observer observer = {.now = clock_by_looks, .context = &time};
    struct bench b;
    struct mg_search_result r;
    struct mg_error err;
    open_network(&b, "bert-tiny", deep, 4, true);
    b.options.max_evaluations = 0;
    b.options.max_seconds = 100;
    cr_assert_eq(mg_search(b.g, &b.options, &observer, &b.arena, &r, &err), MG_OK, "%s", err.message);
    cr_assert_gt(r.baselines[0].point_count + r.baselines[1].point_count, 0u, "%s, %s", r.baselines[0].not_applicable,
                 r.baselines[1].not_applicable);
    cr_assert_gt(r.evaluations, 0u);
    close_network(&b);
}

Test(search, a_bound_in_seconds_changes_nothing_before_it_ends_the_search)
{
    double time = 0;
    const struct mg_observer looks = {.now = clock_by_looks, .context = &time};
    const struct mg_observer *const observers[] = {&quiet, &looks};
    struct mg_search_result r[2];
    struct bench b[2];
    for (int run = 0; run < 2; run++) {
        struct mg_error err;
        open_network(&b[run], "bert-tiny", paper, 3, true);
        b[run].options.max_evaluations = 1;
        b[run].options.max_seconds = 140;
        b[run].options.seconds_only_end = true;
        cr_assert_eq(mg_search(b[run].g, &b[run].options, observers[run], &b[run].arena, &r[run], &err), MG_OK);
        cr_assert_eq(r[run].stopped_by, MG_STOPPED_EVALUATIONS, "after %g s", time);
    }
    for (uint32_t k = 0; k < 2; k++)
        cr_assert_eq(r[0].baselines[k].point_count, r[1].baselines[k].point_count);
    cr_assert_eq(r[0].front_count, r[1].front_count);
    for (uint32_t i = 0; i < r[0].front_count; i++)
        cr_assert_str_eq(r[0].front[i].id, r[1].front[i].id);
    close_network(&b[0]);
    close_network(&b[1]);
}

static uint32_t baseline_points(struct mg_searcher *s, double publish_seconds)
{
    struct mg_search_result r = {0};
    s->publish_seconds = publish_seconds;
    mg_baselines(s, &r);
    return r.baselines[0].point_count + r.baselines[1].point_count;
}

/* The original, and parts of it by hand. */
static void fill_archive(struct mg_searcher *s)
{
    struct mg_region region;
    struct mg_error why;
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    cr_assert(mg_microbatch_region(s, &region, &why), "%s", why.message);
    for (uint32_t parts = 1; parts <= 6; parts++) {
        region.parts = parts;
        const struct mg_scheme *scheme = mg_searcher_scheme(s, &region, parts > 1, &why);
        cr_assert_eq(mg_list_from_scheme(s->p, scheme, NULL, s->scratch, &list, &why), MG_OK, "%s", why.message);
        mg_searcher_try(s, scheme, &list);
    }
    cr_assert_geq(s->archive.count, 3u, "%u", s->archive.count);
}

static enum mg_code publish_late(void *context, struct mg_error *err)
{
    struct bench *b = context;
    struct mg_searcher *s = &b->s;
    struct mg_front front = {0};
    struct mg_search_result r = {0};
    struct mg_plan *plan;
    double *time = s->observer->context;
    cr_assert_eq(mg_searcher_init(s, b->g, err), MG_OK);
    cr_assert_eq(mg_plan_original(b->g, b->options.device, s->arena, &plan, err), MG_OK);
    cr_assert_eq(mg_front_point(s, plan, 0, &r.original, err), MG_OK);
    s->original = (struct mg_cost){.latency = plan->figures.latency_s, .peak = plan->figures.peak_bytes};
    s->original_arena = plan->figures.arena_bytes;
    cr_assert_eq(baseline_points(s, 3), 0u, "a third of 8 seconds is less than 3");
    cr_assert_gt(baseline_points(s, 1e-3), 3u);
    fill_archive(s);
    s->stop = true;
    s->stopped_by = MG_STOPPED_SECONDS;
    *time += s->options->max_seconds - 1;
    s->publish_seconds = 2;
    mg_front_finish(s, &front, &r);
    cr_assert_eq(front.accepted, 1u, "the answer alone");
    cr_assert_eq(r.front_count, 2u, "and the original, which was checked before");
    cr_assert_eq(r.front[0].figures.latency_s, s->original.latency);
    cr_assert_not_null(r.front[r.best].plan);
    mg_searcher_release(s);
    return MG_OK;
}

Test(search, nothing_is_published_that_would_not_end_in_time)
{
    in_own_time(publish_late, 0.5);
}

/* ---- memory ---- */

static bool same_desc(const struct mg_op_desc *a, const struct mg_op_desc *b)
{
    bool same = a->type == b->type && a->in_count == b->in_count && a->out_count == b->out_count &&
                a->attr_count == b->attr_count;
    for (uint32_t i = 0; same && i < a->attr_count; i++)
        same = mg_attr_equal(&a->attrs[i], &b->attrs[i]);
    for (uint32_t i = 0; same && i < a->in_count; i++)
        same = a->in_dtype[i] == b->in_dtype[i] && mg_shape_equal(&a->in_shape[i], &b->in_shape[i]);
    for (uint32_t i = 0; same && i < a->out_count; i++)
        same = a->out_dtype[i] == b->out_dtype[i] && mg_shape_equal(&a->out_shape[i], &b->out_shape[i]);
    return same;
}

/* Both operators whole, and in parts along each axis. */
static void expect_alike(struct bench *b, mg_op x, mg_op y)
{
    uint32_t axes[2];
    const struct mg_axis *axis = mg_op_axes(b->g, x, &axes[0]);
    mg_op_axes(b->g, y, &axes[1]);
    cr_assert_eq(axes[0], axes[1]);
    for (uint32_t a = 0; a <= axes[0]; a++) {
        struct mg_cut cut = {a, 0, a < axes[0] ? (axis[a].length + 1) / 2 : 0};
        struct mg_op_desc desc[2];
        struct mg_error err;
        enum mg_code code = mg_op_describe(b->g, x, &cut, a < axes[0], &b->scratch, &desc[0], &err);
        cr_assert_eq(mg_op_describe(b->g, y, &cut, a < axes[0], &b->scratch, &desc[1], &err), code);
        cr_assert(code != MG_OK || same_desc(&desc[0], &desc[1]), "%s is not like %s", b->g->ops[x].name,
                  b->g->ops[y].name);
    }
}

static enum mg_code compare_likes(void *context, struct mg_error *err)
{
    struct bench *b = context;
    uint32_t different = 0;
    cr_assert_eq(mg_searcher_init(&b->s, b->g, err), MG_OK);
    const struct mg_problem *p = b->s.variants[0].p;
    for (mg_op op = 0; op < p->op_count; op++) {
        different += p->like[op] == op;
        if (p->like[op] != op)
            expect_alike(b, op, p->like[op]);
    }
    cr_assert_lt(different, p->op_count / 2, "%u of %u", different, p->op_count);
    mg_searcher_release(&b->s);
    return MG_OK;
}

static enum mg_code compare_likes_guarded(void *context, struct mg_error *err)
{
    struct bench *b = context;
    return mg_arena_guard(&b->scratch, compare_likes, b, err);
}

Test(search, operators_that_share_a_price_are_the_same_but_for_names)
{
    static const char *const networks[] = {"bert-small", "resnet50", "mobilenet-v2", "llama-tiny"};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct bench b;
        struct mg_error err;
        open_network(&b, networks[i], NULL, 0, true);
        b.s = (struct mg_searcher){.options = &b.options, .observer = &quiet, .arena = &b.arena, .scratch = &b.scratch};
        cr_assert_eq(mg_arena_guard(&b.arena, compare_likes_guarded, &b, &err), MG_OK, "%s", err.message);
        close_network(&b);
    }
}

struct audience {
    uint32_t points, plans;
};

static void see_plan(void *context, const struct mg_point *point)
{
    struct audience *seen = context;
    seen->plans += point->plan != NULL;
}

static void see_baseline_point(void *context, const struct mg_point *point)
{
    struct audience *seen = context;
    cr_assert_not_null(point->plan);
    seen->points++;
}

/* What a search of a deep network holds for each operator, beside one who keeps its plans. */
Test(search, plans_that_were_seen_and_schemes_of_no_state_are_given_back)
{
    static const struct mg_zoo_option deep[] = {
        {"variant", "paper"}, {"batch", "32"}, {"seq_len", "8"}, {"layers", "160"}};
    struct audience seen = {0};
    const struct mg_observer keeper = {
        .now = now, .context = &seen, .plan = see_plan, .baseline_point = see_baseline_point};
    struct mg_search_result r;
    struct bench b;
    struct mg_error err;
    open_network(&b, "bert-tiny", deep, 4, true);
    size_t before = b.arena.used;
    b.options.max_evaluations = 40;
    cr_assert_eq(mg_search(b.g, &b.options, &keeper, &b.arena, &r, &err), MG_OK, "%s", err.message);
    size_t bytes = (b.arena.peak - before) / b.g->op_count;
    for (uint32_t k = 0; k < r.baseline_count; k++)
        for (uint32_t i = 0; i < r.baselines[k].point_count; i++)
            cr_assert_null(r.baselines[k].points[i].plan);
    cr_assert_gt(seen.points, 10u);
    cr_assert_gt(seen.plans, 1u);
    cr_assert_lt(bytes, 12500u, "%zu bytes an operator", bytes);
    close_network(&b);
}

/* ---- numerics ---- */

Test(search, exact_numerics_offer_nothing_that_the_checker_refuses)
{
    struct bench b;
    struct mg_search_result r;
    struct mg_error err;
    open_network(&b, "bert-tiny", paper, 3, true);
    b.options.numerics = MG_NUMERICS_EXACT;
    cr_assert_eq(mg_search(b.g, &b.options, &quiet, &b.arena, &r, &err), MG_OK, "%s", err.message);
    cr_assert_eq(r.rejected, 0u);
    cr_assert_gt(r.front_count, 1u);
    for (uint32_t i = 0; i < r.baseline_count; i++)
        if (!strcmp(r.baselines[i].name, "microbatch"))
            cr_assert_not_null(r.baselines[i].not_applicable, "weight gradients are sums over the batch");
    close_network(&b);
}
