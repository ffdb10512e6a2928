/* Networks drawn from a seed: a small graph of single operators for the scheduler's tests, randomly wired
 * networks (Xie et al., "Exploring Randomly Wired Neural Networks for Image Recognition", 2019: a
 * Watts-Strogatz graph per stage), and networks of random cells like NASNet's (Zoph et al., 2018). */
#include "zoo/build.h"

#include "base/digest.h"

static void seed_from_option(struct net *net, struct mg_rng *rng)
{
    mg_rng_init(rng, (uint64_t)net_option(net, "seed", 0, INT64_MAX));
}

static const char *numbered(struct net *net, const char *prefix, int64_t number)
{
    return mg_arena_printf(net->arena, "%s%d", prefix, (int)number);
}

/* Adds up any number of values of one shape. */
static mg_value sum_of(struct net *net, const char *prefix, const mg_value *values, uint32_t count)
{
    mg_value sum = values[0];
    for (uint32_t i = 1; i < count; i++)
        sum = net_binary(net, numbered(net, prefix, i), MG_OP_ADD, sum, values[i]);
    return sum;
}

/* ---- random-dag ---- */

enum { MOST_NODES = 1024, WIDEST = 64 };

/* One operator: two operands are concatenated while they are narrow, one is squashed or projected. */
static mg_value random_node(struct net *net, struct mg_rng *rng, int64_t index, const mg_value *made)
{
    mg_value a = made[mg_rng_below(rng, (uint64_t)index)], b = made[mg_rng_below(rng, (uint64_t)index)];
    const char *name = numbered(net, "n", index);
    uint64_t kind = mg_rng_below(rng, 4), width = 1 + mg_rng_below(rng, WIDEST / 4);
    if (kind < 2 && a != b && net_dim(net, a, 1) + net_dim(net, b, 1) <= WIDEST)
        return net_concat(net, name, 1, 2, (mg_value[]){a, b});
    if (kind == 2)
        return net_linear(net, name, a, (int64_t)width, false);
    return net_unary(net, name, MG_OP_SIGMOID, a);
}

/* Values that nobody reads are the results, as one so that the graph can be trained. */
static mg_value join_unread(struct net *net, const mg_value *made, int64_t count)
{
    mg_value unread[MOST_NODES + 1];
    uint32_t found = 0;
    bool *read = MG_NEW_ARRAY(net->arena, bool, net->g->value_count);
    for (size_t i = 0; i < net->g->op_count; i++)
        for (uint32_t j = 0; j < net->g->ops[i].in_count; j++)
            read[net->g->ops[i].in[j]] = true;
    for (int64_t i = 0; i < count; i++)
        if (!read[made[i]])
            unread[found++] = made[i];
    return net_concat(net, "results", 1, found, unread);
}

static void build_dag(struct net *net, const void *context)
{
    (void)context;
    struct mg_rng rng;
    seed_from_option(net, &rng);
    mg_value made[MOST_NODES + 1];
    int64_t nodes = net_option(net, "nodes", 1, MOST_NODES), batch = net_option(net, "batch", 1, 1 << 24);
    made[0] = net_input(net, "x", net->dtype, DIMS(batch, 8));
    for (int64_t i = 1; i <= nodes; i++)
        made[i] = random_node(net, &rng, i, made);
    if (net->code == MG_OK)
        net_output(net, join_unread(net, made, nodes + 1));
}

/* ---- randwire ---- */

enum { MOST_WIRED = 64 };

struct wiring {
    int64_t nodes;
    bool edge[MOST_WIRED][MOST_WIRED]; /* from the smaller to the larger index */
};

static void connect(struct wiring *wiring, int64_t a, int64_t b)
{
    wiring->edge[a < b ? a : b][a < b ? b : a] = true;
}

static bool connected(const struct wiring *wiring, int64_t a, int64_t b)
{
    return wiring->edge[a < b ? a : b][a < b ? b : a];
}

/* Watts and Strogatz: a ring in which each node knows its next `reach` ones; with some probability an edge
 * goes to a random other node instead. */
static void draw_wiring(struct wiring *wiring, struct mg_rng *rng, int64_t reach, double rewire)
{
    for (int64_t distance = 1; distance <= reach; distance++)
        for (int64_t i = 0; i < wiring->nodes; i++) {
            int64_t to = (i + distance) % wiring->nodes;
            if (mg_rng_unit(rng) < rewire) {
                int64_t other = (int64_t)mg_rng_below(rng, (uint64_t)wiring->nodes);
                if (other != i && !connected(wiring, i, other))
                    to = other;
            }
            if (to != i)
                connect(wiring, i, to);
        }
}

/* ReLU, depthwise convolution, pointwise convolution, batch norm. */
static mg_value separable(struct net *net, mg_value x, int64_t filters, int64_t kernel, int64_t stride)
{
    int64_t channels = net_dim(net, x, 1);
    x = net_unary(net, "relu", MG_OP_RELU, x);
    x = net_conv(
        net, "depthwise", x,
        (struct conv){.filters = channels, .kernel = kernel, .stride = stride, .pad = kernel / 2, .groups = channels});
    x = net_conv(net, "pointwise", x, (struct conv){.filters = filters, .kernel = 1});
    return net_batch_norm(net, "bn", x);
}

static mg_value wired_node(struct net *net, const struct wiring *wiring, int64_t index, const mg_value *made,
                           mg_value x, int64_t filters)
{
    mg_value in[MOST_WIRED];
    uint32_t count = 0;
    for (int64_t i = 0; i < index; i++)
        if (wiring->edge[i][index])
            in[count++] = made[i];
    const char *outer = net_enter(net, "node%d", (int)index);
    if (count)
        x = separable(net, sum_of(net, "add", in, count), filters, 3, 1);
    else
        x = separable(net, x, filters, 3, 2);
    net_leave(net, outer);
    return x;
}

static mg_value wired_stage(struct net *net, const struct wiring *wiring, mg_value x, int64_t filters)
{
    mg_value made[MOST_WIRED], sinks[MOST_WIRED] = {MG_NONE};
    uint32_t count = 0;
    for (int64_t i = 0; i < wiring->nodes; i++) {
        made[i] = wired_node(net, wiring, i, made, x, filters);
        bool sink = true;
        for (int64_t j = i + 1; j < wiring->nodes; j++)
            sink = sink && !wiring->edge[i][j];
        if (sink)
            sinks[count++] = made[i];
    }
    x = sum_of(net, "add", sinks, count);
    return count > 1 ? net_scale(net, "mean", x, 1.0 / count) : x;
}

static void build_randwire(struct net *net, const void *context)
{
    (void)context;
    struct mg_rng rng;
    seed_from_option(net, &rng);
    int64_t batch = net_option(net, "batch", 1, 1 << 20), image = net_option(net, "image", 1, 1 << 14);
    int64_t filters = net_option(net, "filters", 2, 1 << 14), nodes = net_option(net, "nodes", 2, MOST_WIRED);
    int64_t reach = net_option(net, "neighbours", 2, MOST_WIRED) / 2;
    double rewire = net_option_real(net, "rewire", 0, 1);
    mg_value x = net_input(net, "x", net->dtype, DIMS(batch, 3, image, image));
    x = net_conv(net, "conv1", x, (struct conv){.filters = filters / 2, .kernel = 3, .stride = 2, .pad = 1});
    const char *outer = net_enter(net, "conv2");
    x = separable(net, net_batch_norm(net, "bn1", x), filters, 3, 2);
    net_leave(net, outer);
    for (int i = 3; i <= 5; i++) {
        struct wiring wiring = {.nodes = nodes};
        draw_wiring(&wiring, &rng, reach, rewire);
        outer = net_enter(net, "conv%d", i);
        x = wired_stage(net, &wiring, x, filters << (i - 3));
        net_leave(net, outer);
    }
    outer = net_enter(net, "conv6");
    x = net_conv_bn_relu(net, "", x, (struct conv){.filters = 1280, .kernel = 1});
    net_leave(net, outer);
    net_output(net, net_classifier(net, "fc", x, net_option(net, "classes", 1, 1 << 24)));
}

/* ---- nasnet-like cells ---- */

enum { BLOCKS = 5, STATES = BLOCKS + 2, OPERATIONS = 5 };

struct cell {
    struct {
        uint32_t from, operation;
    } pairs[BLOCKS][2];
};

static struct cell draw_cell(struct mg_rng *rng)
{
    struct cell cell;
    for (uint32_t i = 0; i < BLOCKS; i++)
        for (int j = 0; j < 2; j++) {
            cell.pairs[i][j].from = (uint32_t)mg_rng_below(rng, i + 2);
            cell.pairs[i][j].operation = (uint32_t)mg_rng_below(rng, OPERATIONS);
        }
    return cell;
}

/* Stride 2 only where a reduction cell reads one of its two inputs. */
static mg_value cell_operation(struct net *net, const char *name, mg_value x, uint32_t operation, int64_t stride)
{
    const char *outer = net_enter(net, "%s", name);
    int64_t filters = net_dim(net, x, 1);
    switch (operation) {
    case 0:
        x = separable(net, x, filters, 3, stride);
        break;
    case 1:
        x = separable(net, x, filters, 5, stride);
        break;
    case 2:
        x = net_avg_pool(net, "avg", x, (struct pool){3, stride, 1});
        break;
    case 3:
        x = net_pool(net, "pool", x, (struct pool){3, stride, 1});
        break;
    default:
        if (stride > 1)
            x = net_conv(net, "skip", x, (struct conv){.filters = filters, .kernel = 1, .stride = stride});
    }
    net_leave(net, outer);
    return x;
}

/* Brings an earlier cell's output to this cell's channels and size. */
static mg_value fit(struct net *net, const char *name, mg_value x, int64_t filters, int64_t size)
{
    const char *outer = net_enter(net, "%s", name);
    int64_t stride = net_dim(net, x, 2) > size ? 2 : 1;
    x = net_unary(net, "relu", MG_OP_RELU, x);
    x = net_conv(net, "conv", x, (struct conv){.filters = filters, .kernel = 1, .stride = stride});
    x = net_batch_norm(net, "bn", x);
    net_leave(net, outer);
    return x;
}

static mg_value build_cell(struct net *net, const struct cell *cell, mg_value previous, mg_value before,
                           int64_t filters, int64_t stride)
{
    mg_value states[STATES], unread[STATES];
    bool read[STATES] = {true, true};
    uint32_t count = 0;
    int64_t size = net_dim(net, previous, 2);
    states[0] = fit(net, "before", before, filters, size);
    states[1] = fit(net, "previous", previous, filters, size);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        mg_value parts[2];
        for (int j = 0; j < 2; j++) {
            uint32_t from = cell->pairs[i][j].from;
            parts[j] = cell_operation(net, mg_arena_printf(net->arena, "block%u.%d", i, j), states[from],
                                      cell->pairs[i][j].operation, from < 2 ? stride : 1);
            read[from] = true;
        }
        states[i + 2] = net_binary(net, mg_arena_printf(net->arena, "block%u", i), MG_OP_ADD, parts[0], parts[1]);
    }
    for (uint32_t i = 2; i < STATES; i++)
        if (!read[i])
            unread[count++] = states[i];
    return net_concat(net, "concat", 1, count, unread);
}

static void build_nasnet(struct net *net, const void *context)
{
    (void)context;
    struct mg_rng rng;
    seed_from_option(net, &rng);
    int64_t batch = net_option(net, "batch", 1, 1 << 20), image = net_option(net, "image", 4, 1 << 14);
    int64_t filters = net_option(net, "filters", 1, 1 << 14), cells = net_option(net, "cells", 1, 1000);
    struct cell normal = draw_cell(&rng), reduction = draw_cell(&rng);
    mg_value x = net_input(net, "x", net->dtype, DIMS(batch, 3, image, image));
    x = net_batch_norm(net, "bn", net_conv(net, "stem", x, (struct conv){.filters = filters, .kernel = 3, .pad = 1}));
    mg_value before = x;
    for (int64_t i = 0; i < 3 * cells + 2; i++) {
        bool reduce = i == cells || i == 2 * cells + 1;
        filters *= reduce ? 2 : 1;
        const char *outer = net_enter(net, "cell%d", (int)i);
        mg_value y = build_cell(net, reduce ? &reduction : &normal, x, before, filters, reduce ? 2 : 1);
        net_leave(net, outer);
        before = x;
        x = y;
    }
    x = net_unary(net, "relu", MG_OP_RELU, x);
    net_output(net, net_classifier(net, "fc", x, net_option(net, "classes", 1, 1 << 24)));
}

#define SEED                                                                                                           \
    {                                                                                                                  \
        "seed", "1", "what the graph is drawn from"                                                                    \
    }

static const struct zoo_network networks[] = {
    ZOO_NETWORK("random-dag", "Random graph of single operators", build_dag, NULL, SEED, {"nodes", "20", "operators"},
                ZOO_BATCH("64")),
    ZOO_NETWORK("randwire", "Randomly wired network", build_randwire, NULL, SEED, ZOO_BATCH("64"), ZOO_IMAGE("224"),
                {"filters", "78", "channels of the first random stage"}, {"nodes", "32", "nodes of a stage"},
                {"neighbours", "4", "neighbours of a node in the ring"}, {"rewire", "0.75", "probability of rewiring"},
                ZOO_CLASSES("1000"), ZOO_COMMON("f32")),
    ZOO_NETWORK("nasnet-like", "Random cells like NASNet's", build_nasnet, NULL, SEED, ZOO_BATCH("64"), ZOO_IMAGE("32"),
                {"filters", "32", "channels of the first cells"},
                {"cells", "6", "normal cells in each of three stages"}, ZOO_CLASSES("10"), ZOO_COMMON("f32")),
};
ZOO_FAMILY(random);
