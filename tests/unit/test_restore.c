/* Plans of one search as the start of another: the states are the same, bit for bit, and nothing is lost. */
#include <criterion/criterion.h>
#include <string.h>

#include "search/restore.h"
#include "search/search.h"
#include "zoo/zoo.h"

static double no_clock(void *context)
{
    (void)context;
    return 0;
}

static const struct mg_observer quiet = {.now = no_clock};

static struct mg_graph *network(const char *name, const struct mg_zoo_option *options, uint32_t count,
                                struct mg_arena *arena)
{
    struct mg_graph *forward, *g;
    struct mg_error err;
    struct mg_training training = {.loss = MG_LOSS_SQUARED, .optimizer = MG_OPTIMIZER_SGD};
    cr_assert_eq(mg_zoo_build(name, options, count, arena, &forward, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_differentiate(forward, &training, arena, &forward, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_normalise(forward, arena, &g, &err), MG_OK, "%s", err.message);
    return g;
}

/* Of a front with more than 64 points only some are published: `step` lies between them. */
static bool is_covered(const struct mg_search_result *r, const struct mg_figures *figures, double step)
{
    for (uint32_t i = 0; i < r->front_count; i++)
        if (r->front[i].figures.latency_s <= figures->latency_s * (1 + step) &&
            (double)r->front[i].figures.peak_bytes <= (double)figures->peak_bytes * (1 + step))
            return true;
    return false;
}

static bool has_plan(const struct mg_search_result *r, const char *id)
{
    for (uint32_t i = 0; i < r->front_count; i++)
        if (!strcmp(r->front[i].id, id))
            return true;
    return false;
}

/* Searches, then goes on from the front with hardly an evaluation, then with many. */
static uint32_t go_on(const struct mg_graph *g, uint64_t evaluations, struct mg_arena *arena)
{
    struct mg_error err;
    struct mg_search_result first, short_one, long_one;
    struct mg_search_options options = {.device = mg_device_builtin("rtx3090"),
                                        .max_evaluations = evaluations,
                                        .seed = 1,
                                        .techniques = MG_TECHNIQUE_ALL};
    cr_assert_eq(mg_search(g, &options, &quiet, arena, &first, &err), MG_OK, "%s", err.message);
    cr_assert_gt(first.front_count, 5u);
    const struct mg_plan *starts[64];
    for (uint32_t i = 0; i < first.front_count; i++)
        starts[i] = first.front[i].plan;
    options.starts = starts;
    options.start_count = first.front_count;
    options.seed = 2;
    options.max_evaluations = first.front_count + 2;
    cr_assert_eq(mg_search(g, &options, &quiet, arena, &short_one, &err), MG_OK, "%s", err.message);
    cr_assert_eq(short_one.restored, first.front_count);
    cr_assert_eq(short_one.rejected, 0u);
    uint32_t same = 0;
    for (uint32_t i = 0; i < first.front_count; i++) {
        cr_assert(is_covered(&short_one, &first.front[i].figures, 0), "point %u is lost", i);
        same += has_plan(&short_one, first.front[i].id);
    }
    cr_assert_geq(same + 1, first.front_count, "they are the same plans: %u of %u", same, first.front_count);
    options.max_evaluations = 2 * evaluations;
    cr_assert_eq(mg_search(g, &options, &quiet, arena, &long_one, &err), MG_OK, "%s", err.message);
    for (uint32_t i = 0; i < first.front_count; i++)
        cr_assert(is_covered(&long_one, &first.front[i].figures, 0.03), "point %u is lost", i);
    cr_assert_gt(long_one.evaluations, short_one.evaluations);
    uint32_t techniques = 0;
    for (uint32_t i = 0; i < first.front_count; i++)
        techniques |= first.front[i].techniques;
    return techniques;
}

Test(restore, plans_of_bert_with_all_techniques)
{
    static const struct mg_zoo_option options[] = {{"variant", "paper"}, {"batch", "12"}, {"seq_len", "128"}};
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    uint32_t techniques = go_on(network("bert-mini", options, 3, &arena), 3000, &arena);
    cr_assert(techniques & MG_TECHNIQUE_FISSION);
    cr_assert(techniques & MG_TECHNIQUE_REMAT);
    cr_assert(techniques & MG_TECHNIQUE_SWAP);
    cr_assert(techniques & MG_TECHNIQUE_REWRITE);
    mg_arena_release(&arena);
}

Test(restore, plans_of_a_convolutional_network)
{
    static const struct mg_zoo_option options[] = {{"variant", "paper"}, {"batch", "6"}, {"image", "64"}};
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    go_on(network("unet", options, 3, &arena), 3000, &arena);
    mg_arena_release(&arena);
}

struct resumed {
    struct mg_searcher s;
    const struct mg_graph *g;
    struct mg_arena scratch;
};

static enum mg_code restore_twice(void *context, struct mg_error *err)
{
    struct resumed *r = context;
    cr_assert_eq(mg_searcher_init(&r->s, r->g, err), MG_OK);
    struct mg_list list = mg_list_new(r->s.arena, r->s.pool.capacity);
    for (int times = 0; times < 2; times++) {
        cr_assert_eq(mg_restore_starts(&r->s, &list), r->s.options->start_count);
        cr_assert_eq(r->s.unshown, r->s.archive.count, "%u of %u", r->s.unshown, r->s.archive.count);
    }
    return MG_OK;
}

static enum mg_code restore_with_scratch(void *context, struct mg_error *err)
{
    return mg_arena_guard(((struct resumed *)context)->s.scratch, restore_twice, context, err);
}

Test(restore, what_came_into_the_archive_is_still_to_be_shown)
{
    static const struct mg_zoo_option options[] = {{"layers", "2"}};
    struct mg_arena arena;
    struct mg_error err;
    struct mg_search_result first;
    struct mg_search_options settings = {
        .device = mg_device_builtin("rtx3090"), .max_evaluations = 400, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    mg_arena_init(&arena, SIZE_MAX);
    struct resumed r = {.g = network("bert-tiny", options, 1, &arena)};
    cr_assert_eq(mg_search(r.g, &settings, &quiet, &arena, &first, &err), MG_OK, "%s", err.message);
    cr_assert_gt(first.front_count, 1u);
    const struct mg_plan *starts[64];
    for (uint32_t i = 0; i < first.front_count; i++)
        starts[i] = first.front[i].plan;
    settings.starts = starts;
    settings.start_count = first.front_count;
    mg_arena_init(&r.scratch, SIZE_MAX);
    r.s.options = &settings;
    r.s.observer = &quiet;
    r.s.arena = &arena;
    r.s.scratch = &r.scratch;
    r.s.memo.arena = &arena;
    cr_assert_eq(mg_arena_guard(&arena, restore_with_scratch, &r, &err), MG_OK, "%s", err.message);
    mg_searcher_release(&r.s);
    mg_arena_release(&r.scratch);
    mg_arena_release(&arena);
}

/* A second for each of the first ten looks: the share of the seconds in which rewrites are tried is soon over. */
static double hurried_clock(void *context)
{
    double *now = context;
    return *now += *now < 10 ? 1 : 1e-4;
}

Test(restore, rewrites_are_taken_from_the_plans_where_no_time_is_left_to_try_them)
{
    static const struct mg_zoo_option options[] = {{"variant", "paper"}, {"batch", "12"}, {"layers", "2"}};
    struct mg_arena arena;
    struct mg_error err;
    struct mg_search_result first, second;
    double now = 0;
    const struct mg_observer hurried = {.now = hurried_clock, .context = &now};
    struct mg_search_options settings = {
        .device = mg_device_builtin("rtx3090"), .max_evaluations = 1500, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    mg_arena_init(&arena, SIZE_MAX);
    const struct mg_graph *g = network("bert-mini", options, 3, &arena);
    cr_assert_eq(mg_search(g, &settings, &quiet, &arena, &first, &err), MG_OK, "%s", err.message);
    const struct mg_plan *starts[64];
    uint32_t rewritten = 0;
    cr_assert_leq(first.front_count, 64u);
    for (uint32_t i = 0; i < first.front_count; i++) {
        starts[i] = first.front[i].plan;
        rewritten += (first.front[i].techniques & MG_TECHNIQUE_REWRITE) != 0;
    }
    cr_assert_gt(rewritten, 2u);
    settings.starts = starts;
    settings.start_count = first.front_count;
    settings.max_evaluations = 0;
    settings.max_seconds = 20;
    cr_assert_eq(mg_search(g, &settings, &hurried, &arena, &second, &err), MG_OK, "%s", err.message);
    cr_expect_eq(second.restored, first.front_count, "%u of %u", second.restored, first.front_count);
    mg_arena_release(&arena);
}

Test(restore, a_plan_of_another_graph_is_passed_over)
{
    static const struct mg_zoo_option small[] = {{"layers", "2"}}, large[] = {{"layers", "4"}};
    struct mg_arena arena;
    struct mg_error err;
    struct mg_search_result of_large, of_small;
    struct mg_search_options options = {
        .device = mg_device_builtin("rtx3090"), .max_evaluations = 200, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    mg_arena_init(&arena, SIZE_MAX);
    const struct mg_graph *g = network("bert-tiny", large, 1, &arena);
    cr_assert_eq(mg_search(g, &options, &quiet, &arena, &of_large, &err), MG_OK, "%s", err.message);
    const struct mg_plan *starts[64];
    for (uint32_t i = 0; i < of_large.front_count; i++)
        starts[i] = of_large.front[i].plan;
    options.starts = starts;
    options.start_count = of_large.front_count;
    g = network("bert-tiny", small, 1, &arena);
    cr_assert_eq(mg_search(g, &options, &quiet, &arena, &of_small, &err), MG_OK, "%s", err.message);
    cr_assert_eq(of_small.restored, 0u);
    cr_assert_eq(of_small.rejected, 0u);
    mg_arena_release(&arena);
}
