/* Small networks and plans of theirs with all that plans can hold, for tests that execute them on devices. */
#ifndef MG_PROGRAM_UTIL_H
#define MG_PROGRAM_UTIL_H

#include <criterion/criterion.h>

#include "search/search.h"
#include "zoo/zoo.h"

struct net {
    const char *name;
    struct mg_zoo_option options[8];
    uint32_t count;
    enum mg_loss loss;
};
static const struct net nets[] = {
    {"bert-base",
     {{"batch", "8"}, {"variant", "paper"}, {"seq_len", "6"}, {"layers", "1"}, {"hidden", "8"}, {"heads", "2"}},
     6,
     MG_LOSS_MSE},
    {"nasnet-like",
     {{"batch", "4"}, {"variant", "paper"}, {"image", "8"}, {"filters", "2"}, {"cells", "1"}, {"classes", "3"}},
     6,
     MG_LOSS_MSE},
    {"mlp",
     {{"batch", "48"}, {"variant", "paper"}, {"in", "6"}, {"hidden", "5"}, {"classes", "3"}},
     5,
     MG_LOSS_SQUARED},
};

/* A device on which copies, recomputation and regions pay. */
static struct mg_device tight_device(void)
{
    struct mg_device device = *mg_device_builtin("rtx3090");
    device.align = 8; /* operands lie anywhere */
    device.reserve_bytes = 0;
    device.mem_bw = device.link_bw_d2h = device.link_bw_h2d = 1e6;
    device.launch_s = device.link_latency_s = 1e-7;
    return device;
}

static double clock_of(void *context)
{
    double *now = context;
    return *now += 1e-6;
}

static struct mg_graph *training_graph(const struct net *net, struct mg_arena *arena)
{
    struct mg_graph *forward, *raw, *g;
    struct mg_error err = {0};
    struct mg_training training = {.loss = net->loss, .optimizer = MG_OPTIMIZER_SGD};
    enum mg_code code = mg_zoo_build(net->name, net->options, net->count, arena, &forward, &err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, arena, &raw, &err);
    if (code == MG_OK)
        code = mg_graph_normalise(raw, arena, &g, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", net->name, err.pointer, err.message);
    return g;
}

static struct mg_search_result search_plans(const struct mg_graph *g, const struct mg_device *device,
                                            struct mg_arena *arena)
{
    double now = 0;
    struct mg_observer observer = {.context = &now, .now = clock_of};
    struct mg_search_options options = {
        .device = device, .max_evaluations = 400, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    struct mg_search_result result;
    struct mg_error err = {0};
    cr_assert_eq(mg_search(g, &options, &observer, arena, &result, &err), MG_OK, "%s", err.message);
    return result;
}

#endif
