/* What a search of a graph asks prices for was foreseen. */
#include <criterion/criterion.h>
#include <string.h>

#include "search/forecast.h"
#include "search/search.h"
#include "zoo/zoo.h"

static bool is_foreseen(const struct mg_forecast *list, size_t count, const struct mg_price *price)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].op, price->name) == 0 && strcmp(list[i].signature, price->signature) == 0)
            return true;
    return false;
}

static bool is_copy(const struct mg_price *price)
{
    static const char *const names[] = {"store", "load", "slice", "join", "acc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], price->name) == 0)
            return true;
    return false;
}

/* Outside regions that are nested: cuts along two axes at once are too many to foresee. */
static bool is_nested(const struct mg_plan *plan)
{
    for (size_t r = 0; r < plan->region_count; r++)
        if (plan->regions[r].parent != MG_NONE)
            return true;
    return false;
}

static double still(void *context)
{
    (void)context;
    return 0;
}

static size_t check_front(const struct mg_search_result *r, const struct mg_forecast *list, size_t count)
{
    size_t rewritten = 0;
    for (uint32_t i = 0; i < r->front_count; i++) {
        const struct mg_plan *plan = r->front[i].plan;
        if (is_nested(plan))
            continue;
        rewritten += plan->edited != NULL;
        for (size_t k = 0; k < plan->price_count; k++)
            cr_expect(is_copy(&plan->prices[k]) || is_foreseen(list, count, &plan->prices[k]), "%s %s",
                      plan->prices[k].name, plan->prices[k].signature);
    }
    return rewritten;
}

/* A batch that most numbers of parts divide unevenly; a front in which rewrites pay. */
Test(forecast, has_uneven_parts_and_what_rewrites_make)
{
    static const struct mg_zoo_option options[] = {{"variant", "paper"}, {"batch", "13"}, {"seq_len", "32"}};
    static const struct mg_observer quiet = {.now = still};
    struct mg_training training = {MG_LOSS_SQUARED, MG_OPTIMIZER_SGD, NULL, 0};
    struct mg_arena arena;
    struct mg_graph *g;
    struct mg_forecast *list;
    struct mg_search_result r;
    struct mg_error err;
    size_t count;
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_zoo_build("bert-tiny", options, 3, &arena, &g, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_differentiate(g, &training, &arena, &g, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_normalise(g, &arena, &g, &err), MG_OK, "%s", err.message);
    const struct mg_search_options search = {
        .device = mg_device_builtin("rtx3090"), .max_evaluations = 4000, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    mg_forecast_build(g, search.device, &arena, &list, &count);
    cr_assert_eq(mg_search(g, &search, &quiet, &arena, &r, &err), MG_OK, "%s", err.message);
    cr_expect_gt(check_front(&r, list, count), 0u, "no plan of this front rewrites: choose another network");
    for (size_t i = 1; i < count; i++)
        cr_expect(list[i - 1].whole > list[i].whole ||
                      (list[i - 1].whole == list[i].whole && list[i - 1].value >= list[i].value),
                  "%zu is worth more than what is before it", i);
    mg_arena_release(&arena);
}
