/* The scheduler against brute force, random legal orders and the evaluator; incremental against from scratch. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "search/schedule.h"
#include "tests/unit/guard_util.h"
#include "zoo/zoo.h"

/* ---- small random problems ---- */

/* Steps with one or two results each, random operands, extra order edges, sources from outside, lent storage. */
static struct mg_ordering draw(struct mg_arena *a, struct mg_rng *rng, uint32_t n, uint64_t density)
{
    struct mg_ordering o = {.count = n, .base = mg_rng_below(rng, 50), .max_sets = 20000, .beam = 64};
    uint32_t most = 3 * n + 2, *maker = MG_NEW_ARRAY(a, uint32_t, most);
    o.pred = MG_NEW_ARRAY(a, struct mg_set, n);
    o.makes.start = MG_NEW_ARRAY(a, uint32_t, n + 1);
    o.reads.start = MG_NEW_ARRAY(a, uint32_t, n + 1);
    o.reuse.start = MG_NEW_ARRAY(a, uint32_t, n + 1);
    o.makes.item = MG_NEW_ARRAY(a, uint32_t, most);
    o.reads.item = MG_NEW_ARRAY(a, uint32_t, (size_t)n * most);
    o.reuse.item = MG_NEW_ARRAY(a, uint32_t, (size_t)n * most);
    o.extra = MG_NEW_ARRAY(a, uint64_t, n);
    o.bytes = MG_NEW_ARRAY(a, uint64_t, most);
    o.before = MG_NEW_ARRAY(a, uint8_t, most);
    o.after = MG_NEW_ARRAY(a, uint8_t, most);
    uint32_t reads = 0, makes = 0, reuses = 0;
    for (; o.instances < 2; o.instances++) {
        o.before[o.instances] = 1;
        o.after[o.instances] = o.instances == 1; /* one is read later, the other must be read here */
    }
    for (uint32_t i = 0; i < n; i++) {
        o.makes.start[i] = makes;
        o.reads.start[i] = reads;
        o.reuse.start[i] = reuses;
        for (uint32_t x = 0; x < o.instances; x++) {
            bool outside = o.before[x];
            if (!(outside && i == 0) && mg_rng_below(rng, 100) >= density)
                continue;
            o.reads.item[reads++] = x;
            if (!outside)
                mg_set_add(&o.pred[i], maker[x]);
            if (mg_rng_below(rng, 4) == 0)
                o.reuse.item[reuses++] = x;
        }
        for (uint32_t j = 0; j < i; j++)
            if (mg_rng_below(rng, 100) < 5)
                mg_set_add(&o.pred[i], j);
        for (uint64_t k = mg_rng_below(rng, 3); k < 3; k += 2) { /* two results in a third of the cases */
            maker[o.instances] = i;
            o.after[o.instances] = mg_rng_below(rng, 8) == 0;
            o.makes.item[makes++] = o.instances++;
        }
        o.extra[i] = mg_rng_below(rng, 4) == 0 ? mg_rng_below(rng, 20) : 0;
    }
    o.makes.start[n] = makes;
    o.reads.start[n] = reads;
    o.reuse.start[n] = reuses;
    uint64_t size = 1 + mg_rng_below(rng, 100); /* storage is lent only between results of equal size */
    for (uint32_t x = 0; x < o.instances; x++)
        o.bytes[x] = reuses ? size : 1 + mg_rng_below(rng, 100);
    return o;
}

struct brute {
    const struct mg_ordering *o;
    struct mg_arena *scratch;
    uint32_t order[16];
    uint64_t best;
    uint32_t orders;
};

static bool fits(const struct mg_ordering *o, const struct mg_set *done, uint32_t i)
{
    for (int w = 0; w < MG_SET_WORDS; w++)
        if (o->pred[i].word[w] & ~done->word[w])
            return false;
    return !mg_set_has(done, i);
}

static void enumerate(struct brute *b, uint32_t n, struct mg_set done)
{
    if (n == b->o->count) {
        uint64_t peak = mg_ordering_cost(b->o, b->order, b->scratch, NULL).peak;
        b->best = peak < b->best ? peak : b->best;
        b->orders++;
        return;
    }
    for (uint32_t i = 0; i < b->o->count; i++)
        if (fits(b->o, &done, i)) {
            struct mg_set next = done;
            mg_set_add(&next, i);
            b->order[n] = i;
            enumerate(b, n + 1, next);
        }
}

static void check_order(const struct mg_ordering *o, const uint32_t *order)
{
    struct mg_set done = {{0}};
    for (uint32_t i = 0; i < o->count; i++) {
        cr_assert(order[i] < o->count && fits(o, &done, order[i]), "step %u stands too early", order[i]);
        mg_set_add(&done, order[i]);
    }
}

static void check_against_brute_force(struct mg_arena *arena)
{
    struct mg_rng rng;
    uint32_t better = 0, enumerated = 0;
    mg_rng_init(&rng, 1);
    for (uint32_t round = 0; round < 1500; round++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        uint32_t n = 1 + (uint32_t)mg_rng_below(&rng, 8), order[16];
        struct mg_ordering o = draw(arena, &rng, n, 10 + mg_rng_below(&rng, 30));
        struct brute b = {.o = &o, .scratch = arena, .best = UINT64_MAX};
        bool exact;
        enumerate(&b, 0, (struct mg_set){{0}});
        uint64_t given = mg_ordering_cost(&o, NULL, arena, NULL).peak;
        bool found = mg_ordering_solve(&o, arena, order, &exact);
        check_order(&o, order);
        uint64_t peak = mg_ordering_cost(&o, order, arena, NULL).peak;
        cr_assert(exact);
        cr_assert_eq(peak, b.best, "round %u: %lu, the best of %u orders is %lu", round, peak, b.orders, b.best);
        cr_assert_leq(mg_ordering_bound(&o, UINT64_MAX, arena), b.best, "round %u", round);
        cr_assert(found || peak == given);
        better += peak < given;
        enumerated += b.orders;
        mg_arena_rewind(arena, mark);
    }
    cr_assert_gt(better, 300);
    cr_assert_gt(enumerated, 100000);
}

Test(schedule, finds_the_least_peak_of_all_orders)
{
    guarded(check_against_brute_force);
}

/* With a target, what matters is to get below it. */
static void check_targets(struct mg_arena *arena)
{
    struct mg_rng rng;
    mg_rng_init(&rng, 2);
    for (uint32_t round = 0; round < 300; round++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        uint32_t order[16];
        struct mg_ordering o = draw(arena, &rng, 7, 20);
        struct brute b = {.o = &o, .scratch = arena, .best = UINT64_MAX};
        enumerate(&b, 0, (struct mg_set){{0}});
        o.target = b.best + mg_rng_below(&rng, 60);
        bool found = mg_ordering_solve(&o, arena, order, NULL);
        uint64_t given = mg_ordering_cost(&o, NULL, arena, NULL).peak;
        uint64_t peak = mg_ordering_cost(&o, order, arena, NULL).peak;
        cr_assert(peak <= o.target || peak == b.best);
        cr_assert(!found || given > o.target);
        mg_arena_rewind(arena, mark);
    }
}

Test(schedule, reaches_a_target_that_can_be_reached)
{
    guarded(check_targets);
}

/* ---- larger ones ---- */

static uint64_t random_order(const struct mg_ordering *o, struct mg_rng *rng, struct mg_arena *arena)
{
    uint32_t order[MG_SET_MAX], ready[MG_SET_MAX];
    struct mg_set done = {{0}};
    for (uint32_t n = 0; n < o->count; n++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < o->count; i++)
            if (fits(o, &done, i))
                ready[count++] = i;
        order[n] = ready[mg_rng_below(rng, count)];
        mg_set_add(&done, order[n]);
    }
    return mg_ordering_cost(o, order, arena, NULL).peak;
}

static void check_against_random(struct mg_arena *arena)
{
    struct mg_rng rng;
    mg_rng_init(&rng, 3);
    for (uint32_t round = 0; round < 40; round++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        uint32_t n = 10 + (uint32_t)mg_rng_below(&rng, 30), order[MG_SET_MAX];
        struct mg_ordering o = draw(arena, &rng, n, 200 / n);
        bool exact;
        mg_ordering_solve(&o, arena, order, &exact);
        check_order(&o, order);
        uint64_t peak = mg_ordering_cost(&o, order, arena, NULL).peak;
        for (uint32_t i = 0; exact && i < 100; i++)
            cr_assert_leq(peak, random_order(&o, &rng, arena), "round %u", round);
        cr_assert_leq(peak, mg_ordering_cost(&o, NULL, arena, NULL).peak);
        mg_arena_rewind(arena, mark);
    }
}

Test(schedule, is_never_beaten_by_random_orders)
{
    guarded(check_against_random);
}

/* A small budget gives a legal order, no worse than the given one, and says that it is not sure. */
static void check_beam(struct mg_arena *arena)
{
    struct mg_rng rng;
    uint32_t unsure = 0;
    mg_rng_init(&rng, 4);
    for (uint32_t round = 0; round < 40; round++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        uint32_t order[MG_SET_MAX], again[MG_SET_MAX];
        struct mg_ordering o = draw(arena, &rng, 60 + round * 4, 2);
        bool exact;
        o.max_sets = 100;
        o.beam = 8;
        mg_ordering_solve(&o, arena, order, &exact);
        mg_ordering_solve(&o, arena, again, NULL);
        check_order(&o, order);
        cr_assert_eq(memcmp(order, again, o.count * sizeof *order), 0);
        cr_assert_leq(mg_ordering_cost(&o, order, arena, NULL).peak, mg_ordering_cost(&o, NULL, arena, NULL).peak);
        unsure += !exact;
        mg_arena_rewind(arena, mark);
    }
    cr_assert_gt(unsure, 10);
}

Test(schedule, becomes_a_beam_when_the_budget_is_spent)
{
    guarded(check_beam);
}

/* ---- lists ---- */

struct network {
    struct mg_problem *p;
    struct mg_scheme *scheme;
    struct mg_evaluator e;
    struct mg_spans spans;
    struct mg_list list, edited, work;
    struct mg_arena *arena;
};

static const struct mg_search_options options = {.techniques = MG_TECHNIQUE_ALL};

static struct mg_list new_list(struct mg_arena *arena, uint32_t capacity)
{
    return (struct mg_list){MG_NEW_ARRAY(arena, mg_word, capacity), 0, capacity};
}

static void copy_list(struct mg_list *to, const struct mg_list *from)
{
    memcpy(to->word, from->word, from->count * sizeof *to->word);
    to->count = from->count;
}

static void open_network(struct network *n, struct mg_arena *arena, const char *name, const struct mg_zoo_option *zoo,
                         uint32_t count, bool train)
{
    struct mg_graph *forward, *step, *g;
    struct mg_error err = {0};
    struct mg_training training = {.loss = MG_LOSS_SQUARED, .optimizer = MG_OPTIMIZER_SGD};
    static struct mg_search_options with_device;
    memset(n, 0, sizeof *n);
    n->arena = arena;
    cr_assert_eq(mg_zoo_build(name, zoo, count, arena, &forward, &err), MG_OK, "%s: %s", name, err.message);
    step = forward;
    if (train)
        cr_assert_eq(mg_graph_differentiate(forward, &training, arena, &step, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_normalise(step, arena, &g, &err), MG_OK, "%s", err.message);
    with_device = options;
    with_device.device = mg_device_builtin("rtx3090");
    struct mg_arena scratch;
    mg_arena_init_within(&scratch, arena);
    cr_assert_eq(mg_problem_build(g, &with_device, arena, &scratch, &n->p, &err), MG_OK, "%s", err.message);
    mg_arena_release(&scratch);
    cr_assert_eq(mg_scheme_build(n->p, NULL, 0, arena, &n->scheme, &err), MG_OK, "%s", err.message);
    uint32_t capacity = 4 * n->p->order_count + 256;
    n->list = new_list(arena, capacity);
    n->edited = new_list(arena, capacity);
    n->work = new_list(arena, capacity);
    mg_evaluator_init(&n->e, n->p, arena, capacity);
    mg_spans_init(&n->spans, n->p, arena, capacity);
    cr_assert_eq(mg_list_from_scheme(n->p, n->scheme, NULL, arena, &n->list, &err), MG_OK, "%s", err.message);
}

static void check_list(struct network *n, const struct mg_list *list)
{
    struct mg_error why = {0};
    cr_assert_eq(mg_list_check(n->p, n->scheme, list, n->arena, &why), MG_OK, "%s", why.message);
}

/* Splits everything that the batch dimension runs through, if that is legal. */
static bool split_batch(struct network *n, uint32_t parts)
{
    struct mg_dimensions *d = mg_dimensions_build(n->p->g, n->arena);
    uint32_t component = mg_dimensions_batch(d, n->p->g), count = 0;
    struct mg_region region;
    struct mg_error why;
    if (component == MG_NONE)
        return false;
    mg_op *ops = MG_NEW_ARRAY(n->arena, mg_op, n->p->op_count);
    for (uint32_t i = d->ops.start[component]; i < d->ops.start[component + 1]; i++)
        if (mg_dimensions_axis(d, d->ops.item[i], component) != MG_NONE)
            ops[count++] = d->ops.item[i];
    if (!mg_dimensions_region(d, n->p->g, component, ops, count, n->arena, &region))
        return false;
    region.parts = parts;
    return mg_scheme_build(n->p, &region, 1, n->arena, &n->scheme, &why) == MG_OK &&
           mg_list_from_scheme(n->p, n->scheme, NULL, n->arena, &n->list, &why) == MG_OK;
}

/* Recomputes or swaps something that is alive across a random step; true if the list changed. */
static bool edit_at_random(struct network *n, struct mg_rng *rng, const struct mg_list *from, struct mg_list *to,
                           uint64_t swaps)
{
    struct mg_arena_mark mark = mg_arena_mark(n->arena);
    struct mg_gap *gaps = MG_NEW_ARRAY(n->arena, struct mg_gap, n->p->value_count);
    bool done = false;
    for (int tries = 0; tries < 2000 && !done; tries++) {
        struct mg_chain chain;
        mg_spans_build(&n->spans, n->p, n->scheme, from);
        uint32_t step = (uint32_t)mg_rng_below(rng, from->count);
        uint32_t count = mg_gaps_at(&n->spans, n->p, n->scheme, from, step, n->arena, gaps);
        if (count == 0)
            continue;
        const struct mg_gap *gap = &gaps[mg_rng_below(rng, count)];
        if (mg_rng_below(rng, 100) < swaps)
            done = mg_edit_swap(&n->spans, from, gap, mg_rng_below(rng, 2) == 0, to);
        else
            done = mg_chain_find(&n->spans, n->p, n->scheme, gap, &chain) && mg_edit_remat(from, gap, &chain, to);
    }
    mg_arena_rewind(n->arena, mark);
    return done;
}

static uint32_t window_end(const struct mg_list *list, uint32_t from, uint32_t items)
{
    struct mg_level level = mg_level_around(list, from, false);
    uint32_t to = from;
    for (; items > 0 && to < level.to; items--) {
        uint32_t depth = 0;
        do {
            depth += mg_word_kind(list->word[to]) == MG_WORD_BEGIN;
            depth -= mg_word_kind(list->word[to++]) == MG_WORD_END;
        } while (depth > 0);
    }
    return to;
}

/* Live bytes of every window as the evaluator has them, whatever edits made of the list. */
static void check_windows(struct network *n, struct mg_rng *rng, uint32_t edits)
{
    copy_list(&n->work, &n->list);
    for (uint32_t i = 0; i < edits; i++)
        if (edit_at_random(n, rng, &n->work, &n->edited, 40))
            copy_list(&n->work, &n->edited);
    check_list(n, &n->work);
    struct mg_schedule_limits limits = mg_schedule_limits();
    limits.max_sets = 300;
    limits.beam = 4;
    for (int i = 0; i < 30; i++) {
        struct mg_arena_mark mark = mg_arena_mark(n->arena);
        uint32_t from = (uint32_t)mg_rng_below(rng, n->work.count);
        uint32_t to, order[MG_SET_MAX];
        uint64_t here[MG_SET_MAX];
        struct mg_window w;
        if (mg_word_kind(n->work.word[from]) == MG_WORD_END)
            continue;
        to = window_end(&n->work, from, 1 + (uint32_t)mg_rng_below(rng, 60));
        mg_evaluate(&n->e, n->scheme, &n->work);
        cr_assert(mg_window_build(n->p, n->scheme, &n->work, n->e.live_at, from, to, &limits, n->arena, &w));
        mg_ordering_cost(&w.ordering, NULL, n->arena, here);
        for (uint32_t k = 0; k < w.ordering.count; k++)
            if (mg_word_kind(n->work.word[w.first[k]]) == MG_WORD_COMPUTE)
                cr_assert_eq(here[k], n->e.live_at[w.first[k]], "step %u of [%u, %u): %lu, not %lu", w.first[k], from,
                             to, here[k], n->e.live_at[w.first[k]]);
        bool better = mg_ordering_solve(&w.ordering, n->arena, order, NULL);
        uint64_t expected = mg_ordering_cost(&w.ordering, order, n->arena, NULL).peak;
        uint64_t peak = 0;
        cr_assert_eq(mg_schedule_window(n->p, n->scheme, &n->work, n->e.live_at, from, to, &limits, n->arena), better);
        check_list(n, &n->work);
        mg_evaluate(&n->e, n->scheme, &n->work);
        for (uint32_t k = from; k < to; k++)
            if (mg_word_kind(n->work.word[k]) == MG_WORD_COMPUTE)
                peak = n->e.live_at[k] > peak ? n->e.live_at[k] : peak;
        cr_assert_leq(peak, expected);
        mg_arena_rewind(n->arena, mark);
    }
}

static void check_lists(struct mg_arena *arena)
{
    static const char *const names[] = {"bert-tiny", "unet", "randwire", "nasnet-like", "random-dag", "gpt-neo-125m"};
    struct mg_rng rng;
    uint32_t split = 0;
    mg_rng_init(&rng, 5);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        struct network n;
        open_network(&n, arena, names[i], NULL, 0, true);
        for (uint32_t edits = 0; edits <= 40; edits += 20)
            check_windows(&n, &rng, edits);
        for (uint32_t edits = 0; edits <= 40 && split_batch(&n, 4); edits += 20, split++)
            check_windows(&n, &rng, edits);
        mg_problem_release(n.p);
        mg_arena_rewind(arena, mark);
    }
    cr_assert_geq(split, 9);
}

Test(schedule, windows_have_the_evaluators_bytes_and_lists_stay_legal)
{
    guarded(check_lists);
}

/* ---- incremental against from scratch (MAGIS 7.3) ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void changed_steps(const struct mg_list *a, const struct mg_list *b, uint32_t *from, uint32_t *to)
{
    uint32_t front = 0, back = 0;
    while (front < a->count && front < b->count && a->word[front] == b->word[front])
        front++;
    while (back < a->count - front && back < b->count - front &&
           a->word[a->count - 1 - back] == b->word[b->count - 1 - back])
        back++;
    *from = front;
    *to = b->count - back > front ? b->count - back : front + 1;
}

/* Re-orders only the interval around the changed steps. */
static void schedule_around(struct network *n, struct mg_list *list, uint32_t from, uint32_t to,
                            const struct mg_schedule_limits *limits)
{
    mg_evaluate(&n->e, n->scheme, list);
    mg_schedule_interval(n->p, n->scheme, list, n->e.live_at, limits, n->arena, &from, &to);
    mg_schedule_window(n->p, n->scheme, list, n->e.live_at, from, to, limits, n->arena);
}

struct comparison {
    uint32_t cases, same;
    double scratch_s, changed_s, ratio_sum;
};

static void compare(struct network *n, struct mg_rng *rng, struct comparison *c)
{
    struct mg_schedule_limits limits = mg_schedule_limits();
    mg_schedule_all(&n->e, n->scheme, &n->list, &limits, n->arena);
    check_list(n, &n->list);
    for (int i = 0; i < 10; i++) {
        uint32_t from, to;
        cr_assert(edit_at_random(n, rng, &n->list, &n->edited, 0));
        changed_steps(&n->list, &n->edited, &from, &to);
        copy_list(&n->work, &n->edited);
        double start = now();
        mg_schedule_all(&n->e, n->scheme, &n->work, &limits, n->arena);
        double middle = now();
        schedule_around(n, &n->edited, from, to, &limits);
        double end = now();
        check_list(n, &n->work);
        check_list(n, &n->edited);
        uint64_t whole = mg_evaluate(&n->e, n->scheme, &n->work).peak;
        uint64_t part = mg_evaluate(&n->e, n->scheme, &n->edited).peak;
        c->cases++;
        c->same += part <= whole;
        c->scratch_s += middle - start;
        c->changed_s += end - middle;
        c->ratio_sum += (middle - start) / (end - middle);
        copy_list(&n->list, &n->edited);
    }
}

static void check_incremental(struct mg_arena *arena)
{
    struct comparison c = {0};
    struct mg_rng rng;
    mg_rng_init(&rng, 6);
    for (int i = 0; i < 10; i++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        struct mg_zoo_option zoo[] = {{"seed", mg_arena_printf(arena, "%d", i + 1)},
                                      {i % 2 ? "cells" : "nodes", i % 2 ? "2" : "24"}};
        struct network n;
        open_network(&n, arena, i % 2 ? "nasnet-like" : "randwire", zoo, 2, false);
        compare(&n, &rng, &c);
        mg_problem_release(n.p);
        mg_arena_rewind(arena, mark);
    }
    printf("incremental scheduling: same peak in %u of %u cases, %.1f times faster on average (%.1f in all)\n", c.same,
           c.cases, c.ratio_sum / c.cases, c.scratch_s / c.changed_s);
    cr_assert_eq(c.cases, 100);
    cr_assert_geq(c.same, 94);
}

Test(schedule, incremental_finds_the_peak_of_from_scratch)
{
    guarded(check_incremental);
}
