/* Every plan that a search publishes, executed literally, gives the numbers of its graph. */
#include <criterion/criterion.h>

#include "exec/exec.h"
#include "search/search.h"
#include "zoo/zoo.h"

struct net {
    const char *name;
    struct mg_zoo_option options[8];
    uint32_t count;
};
static const struct net nets[] = {
    {"bert-base",
     {{"batch", "12"}, {"variant", "paper"}, {"seq_len", "4"}, {"layers", "2"}, {"hidden", "4"}, {"heads", "2"}},
     6},
    {"nasnet-like",
     {{"batch", "4"}, {"variant", "paper"}, {"image", "8"}, {"filters", "2"}, {"cells", "1"}, {"classes", "3"}},
     6},
    {"mlp", {{"batch", "48"}, {"variant", "paper"}, {"in", "6"}, {"hidden", "5"}, {"classes", "3"}}, 5},
};

/* A device on which small tensors take time and are not all rounded up to the same size. */
static struct mg_device small_device(void)
{
    struct mg_device device = *mg_device_builtin("rtx3090");
    device.align = 8;
    device.reserve_bytes = 0;
    device.mem_bw = 1e6;
    device.link_bw_d2h = device.link_bw_h2d = 1e6;
    device.launch_s = 1e-7;
    device.link_latency_s = 1e-7;
    return device;
}

static double clock_of(void *context)
{
    double *now = context;
    return *now += 1e-6;
}

struct rejection {
    double now;
    uint32_t count;
};

static void note_rejected(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict)
{
    struct rejection *seen = context;
    (void)plan;
    seen->count++;
    cr_expect_fail("the checker refused a plan of the search at step %u: %s (%s)", verdict->step, verdict->message,
                   verdict->reason);
}

static uint32_t execute(const struct mg_graph *g, const struct mg_point *point, struct mg_arena *arena,
                        const char *label)
{
    struct mg_arena_mark mark = mg_arena_mark(arena);
    struct mg_error err = {0};
    double difference = 0;
    enum mg_code code = mg_exec_compare(g, point->plan, 3, 3, &difference, arena, &err);
    cr_expect_eq(code, MG_OK, "%s: %s %s", label, err.pointer, err.message);
    cr_expect(difference < 1e-9, "%s: %g", label, difference);
    mg_arena_rewind(arena, mark);
    return (uint32_t)(point->plan->region_count > 0);
}

static struct mg_graph *training_graph(const struct net *net, struct mg_arena *arena)
{
    struct mg_graph *forward, *raw, *g;
    struct mg_error err = {0};
    struct mg_training training = {.loss = MG_LOSS_SQUARED, .optimizer = MG_OPTIMIZER_SGD};
    enum mg_code code = mg_zoo_build(net->name, net->options, net->count, arena, &forward, &err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, arena, &raw, &err);
    if (code == MG_OK)
        code = mg_graph_normalise(raw, arena, &g, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", net->name, err.pointer, err.message);
    return g;
}

static void search_and_execute(const struct net *net, struct mg_arena *arena)
{
    struct mg_device device = small_device();
    struct mg_graph *g = training_graph(net, arena);
    struct rejection seen = {0};
    struct mg_observer observer = {.context = &seen, .now = clock_of, .rejected = note_rejected};
    struct mg_search_options options = {.device = &device, .max_evaluations = 1500, .seed = 1};
    struct mg_search_result result;
    struct mg_error err = {0};
    uint32_t with_regions = 0;
    options.techniques = MG_TECHNIQUE_ALL & ~(uint32_t)MG_TECHNIQUE_WINDOW_FISSION;
    enum mg_code code = mg_search(g, &options, &observer, arena, &result, &err);
    cr_assert_eq(code, MG_OK, "%s: %s", net->name, err.message);
    for (uint32_t i = 0; i < result.front_count; i++)
        with_regions += execute(g, &result.front[i], arena, net->name);
    for (uint32_t b = 0; b < result.baseline_count; b++)
        for (uint32_t i = 0; i < result.baselines[b].point_count; i++)
            execute(g, &result.baselines[b].points[i], arena, result.baselines[b].name);
    cr_expect_gt(result.front_count, 2, "%s: only %u points", net->name, result.front_count);
    cr_expect_gt(with_regions, 0, "%s: no plan with regions", net->name);
}

static enum mg_code run_all(void *context, struct mg_error *err)
{
    (void)err;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        search_and_execute(&nets[i], context);
    return MG_OK;
}

Test(exec_search, published_plans_give_the_graphs_numbers)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, run_all, &arena, &err), MG_OK, "%s", err.message);
    mg_arena_release(&arena);
}
