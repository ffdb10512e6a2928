/* The promised figures after a fixed number of evaluations: the same on any machine, so that a change
 * which makes the search worse is seen at once. `make accept` measures what 20 seconds give. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>

#include "figures.h"

static double no_clock(void *context)
{
    (void)context;
    return 0;
}

/* The sanitizers look at code, not at figures: a twentieth of the work is enough for them. */
#ifdef __SANITIZE_ADDRESS__
enum { SHARE = 20 };
#else
enum { SHARE = 1 };
#endif

static void check(const struct figure_network *network)
{
    struct mg_arena arena;
    struct mg_graph *g;
    struct mg_error err;
    struct mg_search_result result;
    const struct mg_search_options options = {.device = mg_device_builtin("rtx3090"),
                                              .max_evaluations = figure_evaluations / SHARE,
                                              .seed = 1,
                                              .techniques = MG_TECHNIQUE_ALL};
    const struct mg_observer observer = {.now = no_clock};
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(figure_graph(network, &arena, &g, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_search(g, &options, &observer, &arena, &result, &err), MG_OK, "%s", err.message);
    bool reached = figures_print(network, &network->counted, &result);
    cr_expect_eq(result.evaluations, options.max_evaluations);
    cr_expect_eq(result.rejected, 0u);
    cr_expect_geq(result.accepted, (uint64_t)result.front_count);
    cr_expect_float_eq((double)result.original.figures.peak_bytes / 1e9, network->original_gb, 0.0006);
    cr_expect_float_eq(result.original.figures.latency_s, network->original_s, 0.00006);
    cr_expect(reached || SHARE > 1, "%s misses a floor of figures.def", network->name);
    mg_arena_release(&arena);
}

/* Each network in a process of its own; pointers do not travel there. */
ParameterizedTestParameters(figures, after_counted_evaluations)
{
    static uint32_t index[16];
    cr_assert_leq(figure_network_count, 16u);
    for (uint32_t i = 0; i < figure_network_count; i++)
        index[i] = i;
    return cr_make_param_array(uint32_t, index, figure_network_count, NULL);
}

ParameterizedTest(const uint32_t *index, figures, after_counted_evaluations)
{
    check(&figure_networks[*index]);
}
