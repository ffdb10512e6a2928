/* The graphs of the MAGIS paper's Figures 2 and 6 (Chen et al., ASPLOS 2024). */
#include "zoo/build.h"

/* x_i = relu(x_(i-1)) down to the last one, then the sum of all but x_0 from the last to the first: all of
 * them live at once in the middle. */
static void build_figure2(struct net *net, const void *context)
{
    enum { MOST = 4096 };
    (void)context;
    mg_value x[MOST + 1];
    int64_t length = net_option(net, "length", 2, MOST);
    int64_t rows = net_option(net, "rows", 1, 1 << 24), columns = net_option(net, "columns", 1, 1 << 24);
    x[0] = net_input(net, "x0", net->dtype, DIMS(rows, columns));
    for (int64_t i = 1; i <= length; i++)
        x[i] = net_unary(net, mg_arena_printf(net->arena, "x%d", (int)i), MG_OP_RELU, x[i - 1]);
    mg_value y = x[length];
    for (int64_t i = length - 1; i >= 1; i--)
        y = net_binary(net, mg_arena_printf(net->arena, "y%d", (int)i), MG_OP_ADD, y, x[i]);
    net_output(net, y);
}

enum { FIGURE6_NODES = 22, FIGURE6_EDGES = 30 };
static const uint8_t figure6_edges[FIGURE6_EDGES][2] = {
    {0, 1},   {1, 2},   {2, 3},   {3, 4},   {4, 5},   {4, 6},   {5, 7},   {6, 7},   {4, 7},   {7, 8},
    {3, 8},   {8, 9},   {8, 17},  {2, 10},  {10, 11}, {11, 12}, {12, 13}, {13, 14}, {12, 14}, {14, 15},
    {10, 15}, {15, 16}, {15, 17}, {17, 18}, {2, 18},  {18, 19}, {1, 19},  {19, 20}, {19, 21}, {0, 21},
};

static mg_value figure6_node(struct net *net, uint32_t node, const mg_value *in, uint32_t count)
{
    static const enum mg_op_type types[] = {MG_OP_RELU, MG_OP_ADD, MG_OP_SQUARED_ERROR_GRAD};
    return net_apply(net, mg_arena_printf(net->arena, "n%u", node), types[count - 1], count, in, 0, NULL, 1, NULL);
}

/* Node 0 is the input; one to three operands of one shape, elementwise, so that the one dimension runs
 * through all of them. */
static void build_figure6(struct net *net, const void *context)
{
    (void)context;
    mg_value nodes[FIGURE6_NODES];
    bool read[FIGURE6_NODES] = {false};
    nodes[0] = net_input(net, "n0", net->dtype, DIMS(net_option(net, "size", 1, 1 << 30)));
    for (uint32_t node = 1; node < FIGURE6_NODES; node++) {
        mg_value in[3];
        uint32_t count = 0;
        for (uint32_t i = 0; i < FIGURE6_EDGES; i++)
            if (figure6_edges[i][1] == node) {
                in[count++] = nodes[figure6_edges[i][0]];
                read[figure6_edges[i][0]] = true;
            }
        nodes[node] = figure6_node(net, node, in, count);
    }
    for (uint32_t node = 0; node < FIGURE6_NODES; node++)
        if (!read[node])
            net_output(net, nodes[node]);
}

static const struct zoo_network networks[] = {
    ZOO_NETWORK("figure2", "Skip graph of the MAGIS paper's Figure 2", build_figure2, NULL,
                {"length", "32", "tensors after the input"}, {"rows", "32", "rows of a tensor"},
                {"columns", "262144", "columns of a tensor"}),
    ZOO_NETWORK("figure6", "Graph of the MAGIS paper's Figure 6", build_figure6, NULL,
                {"size", "262144", "elements of a tensor"}),
};
ZOO_FAMILY(figures);
