/* Gradients against central differences: operator by operator, each in several random shapes, and on small whole
 * networks. MAGIS_SEED=N draws other shapes and numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op_shapes.h"

static const bool has_rule[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, ...) [MG_OP_##id] = #grad[0] != '0',
#include "graph/ops.def"
#undef MG_OP
};

static struct mg_arena arena;
static struct mg_error err;
static enum mg_code guarded_result;

static enum mg_code call_body(void *context, struct mg_error *e)
{
    (void)e;
    void (*body)(void) = *(void (**)(void))context;
    body();
    return MG_OK;
}

/* Runs a test body inside a guard on a fresh arena. */
static void with_arena(void (*body)(void))
{
    mg_arena_init(&arena, SIZE_MAX);
    guarded_result = mg_arena_guard(&arena, call_body, &body, &err);
    cr_assert_eq(guarded_result, MG_OK, "%s", err.message);
    mg_arena_release(&arena);
}

/* The training graph with plain SGD of rate 1, so that old minus new weight is the gradient. */
static struct mg_graph *training_graph(const struct mg_graph *forward, enum mg_loss loss, const char *label)
{
    struct mg_training training = {.loss = loss, .optimizer = MG_OPTIMIZER_SGD};
    struct mg_graph *raw, *g;
    enum mg_code code = mg_graph_differentiate(forward, &training, &arena, &raw, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", label, err.pointer, err.message);
    for (size_t op = 0; op < raw->op_count; op++)
        if (raw->ops[op].type == MG_OP_SGD)
            for (uint32_t i = 0; i < raw->ops[op].attr_count; i++)
                if (raw->ops[op].attrs[i].key == MG_ATTR_LR) {
                    struct mg_attr *attrs =
                        mg_arena_copy(&arena, raw->ops[op].attrs, raw->ops[op].attr_count * sizeof *attrs);
                    attrs[i].f = 1;
                    raw->ops[op].attrs = attrs;
                }
    code = mg_graph_normalise(raw, &arena, &g, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", label, err.pointer, err.message);
    return g;
}

/* sum of loss * loss_grad */
static double objective(const struct mg_graph *g, double **values, double **scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(&arena);
    memcpy(scratch, values, g->value_count * sizeof *values);
    enum mg_code code = mg_exec_graph(g, 1, scratch, &arena, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    mg_value loss = g->outputs[0], seed = mg_graph_find_value(g, "loss_grad");
    double sum = 0;
    for (int64_t i = 0; i < mg_shape_elements(&g->values[loss].shape); i++)
        sum += scratch[loss][i] * values[seed][i];
    mg_arena_rewind(&arena, mark);
    return sum;
}

static uint32_t compared_elements, kinks;

/* The derivative from above and the one from below differ: there is none. */
static bool at_kink(const struct mg_graph *g, double *x, double h, double **values, double **scratch)
{
    double old = *x, here = objective(g, values, scratch);
    *x = old + h;
    double above = (objective(g, values, scratch) - here) / h;
    *x = old - h;
    double below = (here - objective(g, values, scratch)) / h;
    *x = old;
    return fabs(above - below) > 1e-2 * fmax(1, fabs(above) + fabs(below));
}

static void compare_weight(const struct mg_graph *g, mg_value w, double **values, double **scratch,
                           const double *updated, const char *label)
{
    int64_t count = mg_shape_elements(&g->values[w].shape), step = count / 24 + 1;
    for (int64_t i = 0; i < count; i += step) {
        double old = values[w][i], h = 1e-5, exact = old - updated[i];
        values[w][i] = old + h;
        double above = objective(g, values, scratch);
        values[w][i] = old - h;
        double below = objective(g, values, scratch);
        values[w][i] = old;
        double difference = (above - below) / (2 * h);
        bool agrees = fabs(exact - difference) <= 1e-6 * fmax(1, fabs(difference));
        compared_elements++;
        if (!agrees && at_kink(g, &values[w][i], h, values, scratch)) {
            kinks++;
            continue;
        }
        cr_expect(agrees, "%s: d/d%s[%lld] is %.12g, central difference %.12g", label, g->values[w].name, (long long)i,
                  exact, difference);
    }
}

/* Compares the gradients of all weights; returns how many weights were updated. */
static uint32_t compare_gradients(const struct mg_graph *g, double **values, const char *label)
{
    double **scratch = MG_NEW_ARRAY(&arena, double *, g->value_count);
    uint32_t compared = 0;
    memcpy(scratch, values, g->value_count * sizeof *values);
    enum mg_code code = mg_exec_graph(g, 1, scratch, &arena, &err);
    cr_assert_eq(code, MG_OK, "%s: %s", label, err.message);
    double **first = mg_arena_copy(&arena, scratch, g->value_count * sizeof *scratch);
    for (mg_value w = 0; w < g->value_count; w++) {
        if (g->values[w].kind != MG_KIND_WEIGHT || g->values[w].updated_by == MG_NONE)
            continue;
        compare_weight(g, w, values, scratch, first[g->values[w].updated_by], label);
        compared++;
    }
    return compared;
}

static uint32_t count_weights(const struct op_case *c)
{
    uint32_t weights = 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        weights += case_kind(c->in[i].fill) == MG_KIND_WEIGHT;
    return weights;
}

/* No output may be a view of a weight that is updated: the loss gets a storage of its own, other results are no
 * outputs. */
static void give_own_storage(struct mg_graph *g)
{
    mg_value negated;
    enum mg_code code = mg_graph_add_op(g, MG_OP_NEG, "own", g->outputs, 1, NULL, 0, NULL, 1, &negated, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    g->outputs[0] = negated;
    g->output_count = 1;
}

/* The loss is the first result; splits are joined so that every result counts. */
static struct mg_graph *forward_of_case(const struct op_case *c)
{
    struct mg_graph *g;
    enum mg_code code = case_graph(c, &arena, &g, &err);
    cr_assert_eq(code, MG_OK, "%s: %s", mg_op_type_name(c->type), err.message);
    if (mg_op_cost(c->type) == MG_COST_VIEW && c->type != MG_OP_SPLIT)
        give_own_storage(g);
    if (c->type != MG_OP_SPLIT)
        return g;
    mg_value parts[2] = {g->outputs[2], g->outputs[0]}, joined;
    struct mg_attr axis = {.key = MG_ATTR_AXIS, .type = MG_ATTR_TYPE_INT, .i = 1};
    code = mg_graph_add_op(g, MG_OP_CONCAT, "join", parts, 2, &axis, 1, NULL, 1, &joined, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    g->outputs[0] = joined;
    g->output_count = 1;
    return g;
}

static uint32_t differentiated_cases[MG_OP_COUNT], reshaped_cases[MG_OP_COUNT];

static void check_numbers(const struct op_case *c, const struct mg_graph *g, uint64_t seed, const char *label)
{
    double **values = mg_exec_random_values(g, seed + 100, 3, &arena), **own;
    struct mg_graph *plain;
    cr_assert_eq(case_graph(c, &arena, &plain, &err), MG_OK);
    own = MG_NEW_ARRAY(&arena, double *, plain->value_count);
    case_fill(c, plain, seed, own, &arena);
    for (uint32_t i = 0; i < c->in_count; i++)
        values[mg_graph_find_value(g, plain->values[i].name)] = own[i];
    cr_expect_eq(compare_gradients(g, values, label), count_weights(c), "%s: a weight has no gradient", label);
}

enum { SHAPES = 4 }; /* of each case, its own one first */

static void check_case(uint32_t index, uint64_t seed)
{
    for (uint32_t round = 0; round < SHAPES; round++) {
        struct op_case c = op_cases[index];
        uint64_t numbers = seed + round + 1, state = (seed << 20) + index * SHAPES + round;
        if (round && !case_reshape(&c, &state, &arena))
            continue;
        const char *label = case_label(&c, index, seed, &arena);
        check_numbers(&c, training_graph(forward_of_case(&c), MG_LOSS_OUTPUT, label), numbers, label);
        reshaped_cases[c.type] += round > 0;
    }
    differentiated_cases[op_cases[index].type]++;
}

static void all_cases(void)
{
    const char *given = getenv("MAGIS_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 0;
    printf("gradients: MAGIS_SEED=%llu\n", (unsigned long long)seed);
    for (uint32_t i = 0; i < OP_CASE_COUNT; i++)
        if (has_rule[op_cases[i].type] && count_weights(&op_cases[i])) {
            struct mg_arena_mark mark = mg_arena_mark(&arena);
            check_case(i, seed);
            mg_arena_rewind(&arena, mark);
        }
    for (uint32_t type = 0; type < MG_OP_COUNT; type++) {
        cr_expect(!has_rule[type] || differentiated_cases[type], "%s is differentiable and has no case",
                  mg_op_type_name(type));
        cr_expect(!has_rule[type] || reshaped_cases[type], "%s was checked in one shape only", mg_op_type_name(type));
    }
    printf("gradients: %u elements compared, %u at a kink\n", compared_elements, kinks);
    cr_expect_leq(kinks * 500, compared_elements);
}

Test(gradients, every_operator_agrees_with_central_differences)
{
    with_arena(all_cases);
}

/* ---- small networks ---- */

static struct mg_graph *net;

static mg_value leaf(const char *name, enum mg_kind kind, enum mg_dtype dtype, uint32_t rank, const int64_t *dim)
{
    struct mg_shape shape = {.rank = rank};
    memcpy(shape.dim, dim, rank * sizeof *dim);
    return mg_graph_add_value(net, name, kind, dtype, &shape);
}
#define LEAF(name, kind, ...)                                                                                          \
    leaf(name, MG_KIND_##kind, MG_DTYPE_F32, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                       \
         (const int64_t[]){__VA_ARGS__})

static mg_value apply(enum mg_op_type type, uint32_t in_count, const mg_value *in, uint32_t attr_count,
                      const struct mg_attr *attrs, uint32_t results)
{
    mg_value out[3];
    enum mg_code code = mg_graph_add_op(net, type, NULL, in, in_count, attrs, attr_count, NULL, results, out, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    return out[0];
}
#define APPLY(type, ...)                                                                                               \
    apply(MG_OP_##type, sizeof((mg_value[]){__VA_ARGS__}) / sizeof(mg_value), (const mg_value[]){__VA_ARGS__}, 0,      \
          NULL, 1)
#define ATTR_INTS(k, ...)                                                                                              \
    (struct mg_attr)                                                                                                   \
    {                                                                                                                  \
        .key = MG_ATTR_##k, .type = MG_ATTR_TYPE_INTS, .count = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),    \
        .ints = (const int64_t[])                                                                                      \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define ATTR_INT(k, v)                                                                                                 \
    (struct mg_attr)                                                                                                   \
    {                                                                                                                  \
        .key = MG_ATTR_##k, .type = MG_ATTR_TYPE_INT, .i = v                                                           \
    }

static mg_value with_attr(enum mg_op_type type, mg_value x, struct mg_attr attr)
{
    return apply(type, 1, &x, 1, &attr, 1);
}

static uint32_t check_net(mg_value y, enum mg_loss loss, const char *label, struct mg_graph **out)
{
    mg_graph_add_output(net, y);
    struct mg_graph *g = training_graph(net, loss, label);
    double **values = mg_exec_random_values(g, 5, 3, &arena);
    for (mg_value v = 0; v < g->value_count; v++) /* tame: many layers multiply up */
        for (int64_t i = 0; g->values[v].kind == MG_KIND_WEIGHT && i < mg_shape_elements(&g->values[v].shape); i++)
            values[v][i] *= 0.5;
    *out = g;
    return compare_gradients(g, values, label);
}

/* A transformer block: linear layers on [b, s, h], two heads, a residual read three times. */
static mg_value block(void)
{
    mg_value x = LEAF("x", INPUT, 2, 3, 4), q, k, v, scores;
    mg_value wx = LEAF("wx", WEIGHT, 4, 4), wq = LEAF("wq", WEIGHT, 4, 4), wk = LEAF("wk", WEIGHT, 4, 4);
    mg_value wv = LEAF("wv", WEIGHT, 4, 4), w1 = LEAF("w1", WEIGHT, 4, 8), w2 = LEAF("w2", WEIGHT, 8, 4);
    x = APPLY(MATMUL, x, wx);
    mg_value h = apply(MG_OP_LAYER_NORM, 1, &x, 0, NULL, 3);
    q = with_attr(MG_OP_RESHAPE, APPLY(MATMUL, h, wq), ATTR_INTS(SHAPE, 2, 3, 2, 2));
    k = with_attr(MG_OP_RESHAPE, APPLY(MATMUL, h, wk), ATTR_INTS(SHAPE, 2, 3, 2, 2));
    v = with_attr(MG_OP_RESHAPE, APPLY(MATMUL, h, wv), ATTR_INTS(SHAPE, 2, 3, 2, 2));
    q = with_attr(MG_OP_TRANSPOSE, q, ATTR_INTS(PERM, 0, 2, 1, 3));
    k = with_attr(MG_OP_TRANSPOSE, k, ATTR_INTS(PERM, 0, 2, 3, 1));
    v = with_attr(MG_OP_TRANSPOSE, v, ATTR_INTS(PERM, 0, 2, 1, 3));
    scores = APPLY(SOFTMAX, APPLY(MATMUL, q, k));
    h = with_attr(MG_OP_TRANSPOSE, APPLY(MATMUL, scores, v), ATTR_INTS(PERM, 0, 2, 1, 3));
    x = APPLY(ADD, x, with_attr(MG_OP_RESHAPE, h, ATTR_INTS(SHAPE, 2, 3, 4)));
    return APPLY(ADD, x, APPLY(MATMUL, APPLY(SIGMOID, APPLY(MATMUL, x, w1)), w2));
}

static size_t count_ops(const struct mg_graph *g, enum mg_op_type type)
{
    size_t count = 0;
    for (size_t op = 0; op < g->op_count; op++)
        count += g->ops[op].type == type;
    return count;
}

static void transformer(void)
{
    struct mg_graph *g;
    net = mg_graph_new(&arena, "block");
    cr_expect_eq(check_net(block(), MG_LOSS_SQUARED, "transformer block", &g), 6);
    /* 8 products forward; backward two for each, less the gradient to the data x */
    cr_expect_eq(count_ops(g, MG_OP_MATMUL), 8 + 16 - 1);
    struct mg_graph_stats stats;
    mg_graph_stats(g, &stats);
    cr_expect_eq(stats.contractions, 23);
}

Test(gradients, transformer_block)
{
    with_arena(transformer);
}

static void transformer_mean(void)
{
    struct mg_graph *g;
    net = mg_graph_new(&arena, "block");
    cr_expect_eq(check_net(block(), MG_LOSS_MSE, "transformer block, mean squared error", &g), 6);
    cr_expect_eq(g->values[g->outputs[0]].shape.rank, 0);
}

Test(gradients, mean_squared_error)
{
    with_arena(transformer_mean);
}

/* conv, batch norm, relu, pool, a concatenated skip, resize, global pool, linear, cross entropy */
static void convnet(void)
{
    struct mg_graph *g;
    net = mg_graph_new(&arena, "convnet");
    mg_value x = LEAF("x", INPUT, 2, 2, 4, 4), w1 = LEAF("w1", WEIGHT, 3, 2, 3, 3), b1 = LEAF("b1", WEIGHT, 3);
    mg_value scale = LEAF("scale", WEIGHT, 3), shift = LEAF("shift", WEIGHT, 3), w2 = LEAF("w2", WEIGHT, 3, 3, 1, 1);
    mg_value w3 = LEAF("w3", WEIGHT, 6, 3), b3 = LEAF("b3", WEIGHT, 3);
    struct mg_attr pads = ATTR_INTS(PADS, 1, 1, 1, 1), axis = ATTR_INT(AXIS, 1);
    struct mg_attr pool[] = {ATTR_INTS(KERNEL_SHAPE, 2, 2), ATTR_INTS(STRIDES, 2, 2)};
    mg_value h = apply(MG_OP_CONV, 3, (mg_value[]){x, w1, b1}, 1, &pads, 1);
    h = APPLY(SILU, apply(MG_OP_BATCH_NORM, 3, (mg_value[]){h, scale, shift}, 0, NULL, 3));
    mg_value down = APPLY(CONV, apply(MG_OP_AVG_POOL, 1, &h, 2, pool, 1), w2);
    mg_value up = with_attr(MG_OP_RESIZE, down, ATTR_INTS(SPATIAL, 4, 4));
    h = apply(MG_OP_CONCAT, 2, (mg_value[]){h, up}, 1, &axis, 1);
    h = with_attr(MG_OP_FLATTEN, APPLY(GLOBAL_AVG_POOL, h), ATTR_INT(AXIS, 1));
    cr_expect_eq(check_net(APPLY(GEMM, h, w3, b3), MG_LOSS_CROSS_ENTROPY, "convnet", &g), 7);
    cr_expect_eq(g->values[mg_graph_find_value(g, "target")].dtype, MG_DTYPE_I64);
}

Test(gradients, convolutional_network_with_cross_entropy)
{
    with_arena(convnet);
}

/* An embedding shared by two places, and a weight used through two views. */
static void shared(void)
{
    struct mg_graph *g;
    net = mg_graph_new(&arena, "shared");
    mg_value ids = leaf("ids", MG_KIND_INPUT, MG_DTYPE_I64, 2, (const int64_t[]){2, 3});
    mg_value table = LEAF("table", WEIGHT, 3, 4), w = LEAF("w", WEIGHT, 4, 4);
    mg_value turned = with_attr(MG_OP_TRANSPOSE, w, ATTR_INTS(PERM, 1, 0));
    mg_value h = APPLY(TANH, APPLY(MATMUL, APPLY(MATMUL, APPLY(GATHER, table, ids), w), turned));
    struct mg_attr trans = ATTR_INT(TRANS_B, 1);
    h = apply(MG_OP_MATMUL, 2, (mg_value[]){h, table}, 1, &trans, 1);
    cr_expect_eq(check_net(h, MG_LOSS_SUM, "shared weights", &g), 2);
}

Test(gradients, shared_weights_sum_their_gradients)
{
    with_arena(shared);
}

/* ---- structure of the training graph ---- */

static mg_value mlp(void)
{
    mg_value x = LEAF("x", INPUT, 4, 3), w0 = LEAF("w0", WEIGHT, 3, 5), w1 = LEAF("w1", WEIGHT, 5, 2);
    mg_value h = APPLY(RELU, APPLY(MATMUL, x, w0));
    mg_value y = APPLY(MATMUL, h, w1);
    mg_graph_add_output(net, y);
    return y;
}

static struct mg_graph *differentiate(struct mg_training training)
{
    struct mg_graph *g;
    enum mg_code code = mg_graph_differentiate(net, &training, &arena, &g, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    return g;
}

static void updates_follow(void)
{
    static const enum mg_op_type want[] = {
        MG_OP_MATMUL, MG_OP_RELU,   MG_OP_MATMUL, MG_OP_SQUARED_ERROR, MG_OP_SQUARED_ERROR_GRAD,
        MG_OP_MATMUL, MG_OP_MATMUL, MG_OP_SGD,    MG_OP_RELU_GRAD,     MG_OP_MATMUL,
        MG_OP_SGD};
    net = mg_graph_new(&arena, "mlp");
    mlp();
    struct mg_graph *g = differentiate((struct mg_training){.optimizer = MG_OPTIMIZER_SGD});
    cr_assert_eq(g->op_count, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < g->op_count; i++)
        cr_expect_eq(g->ops[i].type, want[i], "operator %zu is %s", i, mg_op_type_name(g->ops[i].type));
    cr_expect_eq(g->forward_ops, 4);
    cr_expect_eq(g->ops[8].forward_of, 1, "relu_grad belongs to relu");
    cr_expect_eq(g->ops[8].in[1], g->ops[1].out[0], "relu_grad reads relu's result");
    cr_expect_eq(g->output_count, 1);
    cr_expect_eq(g->ops[10].in[0], mg_graph_find_value(g, "w0"));
    cr_expect_eq(g->values[g->ops[10].in[0]].updated_by, g->ops[10].out[0]);
}

Test(training, each_update_follows_its_gradient)
{
    with_arena(updates_follow);
}

static void optimizers(void)
{
    static const size_t states[] = {0, 0, 2, 4, 4};
    for (enum mg_optimizer o = MG_OPTIMIZER_NONE; o <= MG_OPTIMIZER_ADAMW; o++) {
        struct mg_graph *g;
        size_t found = 0, updated = 0;
        net = mg_graph_new(&arena, "mlp");
        mlp();
        cr_assert_eq(mg_graph_normalise(differentiate((struct mg_training){.optimizer = o}), &arena, &g, &err), MG_OK,
                     "%s", err.message);
        for (size_t v = 0; v < g->value_count; v++) {
            found += g->values[v].kind == MG_KIND_STATE;
            updated += g->values[v].updated_by != MG_NONE;
        }
        cr_expect_eq(found, states[o]);
        cr_expect_eq(updated, o == MG_OPTIMIZER_NONE ? 0 : 2 + states[o]);
        cr_expect_eq(g->output_count, o == MG_OPTIMIZER_NONE ? 3 : 1);
    }
}

Test(training, optimizers_have_their_states)
{
    with_arena(optimizers);
}

static void some_weights(void)
{
    const char *only_w1[] = {"w1"}, *unknown[] = {"w7"};
    struct mg_graph *g;
    net = mg_graph_new(&arena, "mlp");
    mlp();
    g = differentiate((struct mg_training){.optimizer = MG_OPTIMIZER_SGD, .trainable = only_w1, .trainable_count = 1});
    cr_expect_eq(count_ops(g, MG_OP_SGD), 1);
    cr_expect_eq(count_ops(g, MG_OP_RELU_GRAD), 0, "nothing below w1 is trained");
    struct mg_training bad = {.trainable = unknown, .trainable_count = 1};
    cr_expect_eq(mg_graph_differentiate(net, &bad, &arena, &g, &err), MG_ERR_INVALID);
    cr_expect(strstr(err.message, "w7"));
}

Test(training, only_named_weights_are_trained)
{
    with_arena(some_weights);
}

static void refused(void)
{
    struct mg_graph *g;
    struct mg_training training = {.loss = MG_LOSS_SUM};
    net = mg_graph_new(&arena, "no rule");
    mg_value x = LEAF("x", INPUT, 3, 2, 4), w = LEAF("w", WEIGHT, 1, 12, 4), r = LEAF("r", WEIGHT, 1, 12, 3);
    struct mg_attr hidden = ATTR_INT(HIDDEN_SIZE, 3);
    mg_graph_add_output(net, apply(MG_OP_LSTM, 3, (mg_value[]){x, w, r}, 1, &hidden, 3));
    cr_expect_eq(mg_graph_differentiate(net, &training, &arena, &g, &err), MG_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.pointer, "/ops/0");
    net = mg_graph_new(&arena, "nothing to train");
    mg_graph_add_output(net, APPLY(RELU, LEAF("x", INPUT, 3)));
    cr_expect_eq(mg_graph_differentiate(net, &training, &arena, &g, &err), MG_ERR_INVALID);
}

Test(training, what_cannot_be_trained_is_refused)
{
    with_arena(refused);
}

/* y = relu(h) listed before h = x w: h is declared first. */
static void out_of_order(void)
{
    struct mg_graph *g;
    net = mg_graph_new(&arena, "unordered");
    mg_value x = LEAF("x", INPUT, 4, 3), w = LEAF("w", WEIGHT, 3, 5);
    mg_value h = mg_graph_add_value(net, "h", MG_KIND_COMPUTED, MG_DTYPE_F32, NULL);
    mg_value in[2] = {x, w};
    const char *name = "h";
    mg_graph_add_output(net, APPLY(RELU, h));
    cr_assert_eq(mg_graph_add_op(net, MG_OP_MATMUL, "late", in, 2, NULL, 0, &name, 1, NULL, &err), MG_OK);
    g = differentiate((struct mg_training){.optimizer = MG_OPTIMIZER_SGD});
    cr_expect_eq(g->ops[0].type, MG_OP_MATMUL);
    cr_expect_eq(g->ops[1].type, MG_OP_RELU);
    cr_expect_eq(count_ops(g, MG_OP_SGD), 1);
    struct mg_training sum = {.loss = MG_LOSS_SUM};
    net = mg_graph_new(&arena, "dangling");
    h = mg_graph_add_value(net, "h", MG_KIND_COMPUTED, MG_DTYPE_F32, NULL);
    mg_graph_add_output(net, APPLY(RELU, h));
    cr_expect_eq(mg_graph_differentiate(net, &sum, &arena, &g, &err), MG_ERR_INVALID);
}

Test(training, operators_may_be_listed_in_any_order)
{
    with_arena(out_of_order);
}
