/* Recurrent networks of LSTM cells (Hochreiter and Schmidhuber, 1997), unrolled over the steps as in "Training Deep
 * Nets with Sublinear Memory Cost" (Chen et al., 2016), or one operator for each layer (which has no gradient). */
#include "zoo/build.h"

#include <string.h>

struct cell {
    mg_value input, recurrent, bias; /* weights of all four gates side by side: i, o, f, c */
    mg_value state, memory;          /* of the step before, MG_NONE (zero) at the first */
};

/* All gates' sums [batch, 4 h]. */
static mg_value gate_sums(struct net *net, const struct cell *cell, mg_value x)
{
    mg_value sum = net_matmul(net, "input", x, cell->input, false);
    if (cell->state != MG_NONE)
        sum = net_binary(net, "add", MG_OP_ADD, sum, net_matmul(net, "recurrent", cell->state, cell->recurrent, false));
    return net->real ? net_binary(net, "biased", MG_OP_ADD, sum, cell->bias) : sum;
}

/* c' = f c + i tanh(g), h' = o tanh(c') */
static mg_value cell_step(struct net *net, struct cell *cell, mg_value x)
{
    static const enum mg_op_type types[] = {MG_OP_SIGMOID, MG_OP_SIGMOID, MG_OP_SIGMOID, MG_OP_TANH};
    static const char *const names[] = {"i", "o", "f", "g"};
    mg_value part[4], gate[4];
    struct mg_attr axis = net_int(MG_ATTR_AXIS, 1);
    mg_value sums = gate_sums(net, cell, x);
    (void)net_apply(net, "gates", MG_OP_SPLIT, 1, &sums, 1, &axis, 4, part);
    for (int i = 0; i < 4 && net->code == MG_OK; i++)
        if (i != 2 || cell->memory != MG_NONE)
            gate[i] = net_unary(net, names[i], types[i], part[i]);
    if (net->code)
        return MG_NONE;
    mg_value memory = net_binary(net, "in", MG_OP_MUL, gate[0], gate[3]);
    if (cell->memory != MG_NONE)
        memory = net_binary(net, "c", MG_OP_ADD, net_binary(net, "kept", MG_OP_MUL, gate[2], cell->memory), memory);
    cell->memory = memory;
    cell->state = net_binary(net, "h", MG_OP_MUL, gate[1], net_unary(net, "shown", MG_OP_TANH, memory));
    return cell->state;
}

static void cell_init(struct net *net, struct cell *cell, int64_t layer, int64_t in, int64_t hidden)
{
    const char *outer = net_enter(net, "layers.%d", (int)layer);
    *cell = (struct cell){.bias = MG_NONE, .state = MG_NONE, .memory = MG_NONE};
    cell->input = net_resident(net, "input.weight", MG_KIND_WEIGHT, DIMS(in, 4 * hidden));
    cell->recurrent = net_resident(net, "recurrent.weight", MG_KIND_WEIGHT, DIMS(hidden, 4 * hidden));
    if (net->real)
        cell->bias = net_resident(net, "bias", MG_KIND_WEIGHT, DIMS(4 * hidden));
    net_leave(net, outer);
}

/* Step t of the input, [batch, in]. */
static mg_value input_at(struct net *net, mg_value x, int64_t t)
{
    mg_value step = net_slice(net, "x", x, 0, t, t + 1);
    return net_reshape(net, "row", step, DIMS(net_dim(net, step, 1), net_dim(net, step, 2)));
}

/* The top layer's states of all steps, [steps * batch, hidden]. */
static mg_value unrolled(struct net *net, mg_value x, int64_t layers, int64_t hidden)
{
    int64_t steps = net_dim(net, x, 0);
    struct cell *cells = MG_NEW_ARRAY(net->arena, struct cell, layers);
    mg_value *states = MG_NEW_ARRAY(net->arena, mg_value, steps);
    for (int64_t l = 0; l < layers; l++)
        cell_init(net, &cells[l], l, l ? hidden : net_dim(net, x, 2), hidden);
    for (int64_t t = 0; t < steps; t++) {
        const char *outer = net_enter(net, "step%d", (int)t);
        mg_value h = input_at(net, x, t);
        for (int64_t l = 0; l < layers; l++) {
            const char *layer = net_enter(net, "%d", (int)l);
            h = net_dropout(net, "dropout", cell_step(net, &cells[l], h));
            net_leave(net, layer);
        }
        states[t] = h;
        net_leave(net, outer);
    }
    return steps > 1 ? net_concat(net, "states", 0, (uint32_t)steps, states) : states[0];
}

static mg_value fused(struct net *net, mg_value x, int64_t layers, int64_t hidden)
{
    int64_t steps = net_dim(net, x, 0), batch = net_dim(net, x, 1);
    for (int64_t l = 0; l < layers; l++) {
        const char *outer = net_enter(net, "layers.%d", (int)l);
        struct mg_attr size = net_int(MG_ATTR_HIDDEN_SIZE, hidden);
        mg_value in[4] = {x, net_resident(net, "weight_ih", MG_KIND_WEIGHT, DIMS(1, 4 * hidden, net_dim(net, x, 2))),
                          net_resident(net, "weight_hh", MG_KIND_WEIGHT, DIMS(1, 4 * hidden, hidden)), MG_NONE};
        if (net->real)
            in[3] = net_resident(net, "bias", MG_KIND_WEIGHT, DIMS(1, 8 * hidden));
        mg_value out[3];
        x = net_apply(net, "", MG_OP_LSTM, net->real ? 4 : 3, in, 1, &size, 3, out);
        x = net_reshape(net, "y", x, DIMS(steps, batch, hidden));
        net_leave(net, outer);
    }
    return net_reshape(net, "states", x, DIMS(steps * batch, hidden));
}

static void build_lstm(struct net *net, const void *context)
{
    (void)context;
    int64_t batch = net_option(net, "batch", 1, 1 << 20), steps = net_option(net, "seq_len", 2, 1 << 14);
    int64_t layers = net_option(net, "layers", 1, 1000), hidden = net_option(net, "hidden", 1, 1 << 20);
    int64_t in = net_option(net, "in", 1, 1 << 20), classes = net_option(net, "classes", 1, 1 << 24);
    const char *cells = net_option_text(net, "cells");
    bool one = strcmp(cells, "fused") == 0;
    if (!one && strcmp(cells, "unrolled") != 0)
        net_fail(net, "/cells", "cells is unrolled or fused, not \"%s\"", cells);
    mg_value x = net_input(net, "x", net->dtype, DIMS(steps, batch, in));
    if (net->code)
        return;
    x = one ? fused(net, x, layers, hidden) : unrolled(net, x, layers, hidden);
    net_output(net, net_linear(net, "fc", x, classes, true));
}

static const struct zoo_network networks[] = {
    ZOO_NETWORK(
        "lstm", "LSTM", build_lstm, NULL, ZOO_BATCH("64"), {"seq_len", "64", "steps"},
        {"layers", "4", "layers of cells"}, {"hidden", "1024", "features of a cell's state"},
        {"in", "50", "features of a step's input"}, ZOO_CLASSES("5000"),
        {"cells", "unrolled", "unrolled: each step's operators; fused: one operator for a layer, not trainable"},
        ZOO_DROPOUT("0"), ZOO_COMMON("f32")),
};
ZOO_FAMILY(lstm);
