/* Plans executed literally in one arena give the numbers of their graph: originals, regions (also nested,
 * joined, accumulated), swaps, recomputation; and broken plans are caught. */
#include <math.h>

#include "exec/exec.h"
#include "region_util.h"
#include "zoo/zoo.h"

static double difference_of(const struct mg_graph *g, const struct mg_plan *plan, uint64_t seed, struct mg_arena *arena,
                            const char *label)
{
    struct mg_error err = {0};
    double difference = NAN;
    enum mg_code code = mg_exec_compare(g, plan, seed, 3, &difference, arena, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", label, err.pointer, err.message);
    return difference;
}

/* ---- zoo networks, small ---- */

struct small_net {
    const char *name;
    struct mg_zoo_option options[8];
    uint32_t count;
    enum mg_loss loss;
    enum mg_optimizer optimizer;
    bool whole; /* has batch norm: the batch cannot be cut */
};

static const struct small_net small_nets[] = {
    {"mlp",
     {{"batch", "6"}, {"variant", "paper"}, {"in", "5"}, {"hidden", "4"}, {"classes", "3"}},
     5,
     MG_LOSS_SQUARED,
     MG_OPTIMIZER_SGD,
     false},
    {"bert-base",
     {{"batch", "4"}, {"variant", "paper"}, {"seq_len", "3"}, {"layers", "2"}, {"hidden", "4"}, {"heads", "2"}},
     6,
     MG_LOSS_SQUARED,
     MG_OPTIMIZER_SGD,
     false},
    {"vit-base-16",
     {{"batch", "3"},
      {"variant", "paper"},
      {"image", "32"},
      {"layers", "1"},
      {"hidden", "8"},
      {"heads", "2"},
      {"classes", "5"}},
     7,
     MG_LOSS_MSE,
     MG_OPTIMIZER_ADAM,
     false},
    {"llama-tiny",
     {{"batch", "4"},
      {"seq_len", "3"},
      {"layers", "1"},
      {"hidden", "8"},
      {"heads", "2"},
      {"kv_heads", "1"},
      {"ffn", "6"},
      {"vocabulary", "7"}},
     8,
     MG_LOSS_CROSS_ENTROPY,
     MG_OPTIMIZER_ADAMW,
     false},
    {"nasnet-like",
     {{"batch", "3"}, {"variant", "paper"}, {"image", "8"}, {"filters", "2"}, {"cells", "1"}, {"classes", "3"}},
     6,
     MG_LOSS_SQUARED,
     MG_OPTIMIZER_MOMENTUM,
     false},
    {"nasnet-like",
     {{"batch", "3"}, {"image", "8"}, {"filters", "2"}, {"cells", "1"}, {"classes", "3"}},
     5,
     MG_LOSS_CROSS_ENTROPY,
     MG_OPTIMIZER_SGD,
     true},
    {"randwire",
     {{"batch", "3"},
      {"variant", "paper"},
      {"image", "32"},
      {"filters", "2"},
      {"nodes", "5"},
      {"neighbours", "2"},
      {"classes", "3"}},
     7,
     MG_LOSS_SQUARED,
     MG_OPTIMIZER_SGD,
     false},
};

enum { SMALL_NET_COUNT = sizeof small_nets / sizeof small_nets[0] };

static struct mg_graph *build_net(const struct small_net *net, struct mg_arena *arena)
{
    struct mg_error err = {0};
    struct mg_graph *forward, *raw, *g;
    struct mg_training training = {.loss = net->loss, .optimizer = net->optimizer};
    enum mg_code code = mg_zoo_build(net->name, net->options, net->count, arena, &forward, &err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, arena, &raw, &err);
    if (code == MG_OK)
        code = mg_graph_normalise(raw, arena, &g, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", net->name, err.pointer, err.message);
    return g;
}

static enum mg_code originals(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    for (int i = 0; i < SMALL_NET_COUNT; i++) {
        struct mg_graph *g = build_net(&small_nets[i], arena);
        struct mg_plan *plan;
        enum mg_code code = mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err);
        cr_assert_eq(code, MG_OK, "%s", err->message);
        cr_expect_eq(difference_of(g, plan, 3, arena, small_nets[i].name), 0, "%s", small_nets[i].name);
    }
    return MG_OK;
}

Test(exec_plan, originals_equal_their_graphs)
{
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    guarded(&arena, originals, &arena);
    mg_arena_release(&arena);
}

/* Normalisation says where every view lies in its base; there the numbers of its operator must stand. */
static enum mg_code views(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    size_t seen = 0;
    for (int i = 0; i < SMALL_NET_COUNT; i++) {
        struct mg_graph *g = build_net(&small_nets[i], arena);
        double **values = mg_exec_random_values(g, 11, 3, arena);
        cr_assert_eq(mg_exec_graph(g, 11, values, arena, err), MG_OK, "%s", err->message);
        for (size_t v = 0; v < g->value_count; v++) {
            const struct mg_value_info *info = &g->values[v];
            int64_t count = mg_shape_elements(&info->shape);
            struct mg_tensor view = {.data = values[info->base] + info->offset, .shape = info->shape};
            memcpy(view.stride, info->stride, sizeof view.stride);
            double *packed = MG_NEW_ARRAY(arena, double, count);
            mg_tensor_pack(&view, packed);
            cr_expect_arr_eq(packed, values[v], (size_t)count * sizeof *packed, "%s: %s", small_nets[i].name,
                             info->name);
            seen += info->base != v;
        }
    }
    cr_expect_gt(seen, 50, "only %zu views", seen);
    return MG_OK;
}

Test(exec_plan, views_lie_where_normalisation_says)
{
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    guarded(&arena, views, &arena);
    mg_arena_release(&arena);
}

/* ---- the batch in parts: every operator that carries it, in one region ---- */

static size_t count_steps(const struct mg_plan *plan, enum mg_step_kind kind)
{
    size_t count = 0;
    for (size_t s = 0; s < plan->step_count; s++)
        count += plan->steps[s].kind == kind;
    return count;
}

static struct region_tree micro_batch(const struct mg_graph *g, struct mg_arena *arena, uint32_t parts, bool swap)
{
    struct region_tree t = {.g = g, .arena = arena, .depth = 1, .swap_percent = swap ? 40 : 0};
    mg_rng_init(&t.rng, parts);
    start_level(&t, 0, parts);
    for (mg_value v = 0; v < g->value_count; v++)
        if (g->values[v].kind == MG_KIND_INPUT && g->values[v].shape.rank)
            t.level[0].use[v] = (struct carried){true, 0, 1};
    cr_assert(grow_level(&t, 0));
    guarded(arena, plan_of_tree, &t);
    return t;
}

static enum mg_code micro_batches(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    for (int i = 0; i < SMALL_NET_COUNT; i++)
        for (uint32_t parts = 2; parts <= 3; parts++)
            for (int swap = 0; swap < 2 && !small_nets[i].whole; swap++) {
                const struct mg_graph *g = build_net(&small_nets[i], arena);
                struct region_tree t = micro_batch(g, arena, parts, swap);
                double difference = difference_of(g, t.plan, 3, arena, small_nets[i].name);
                cr_expect(difference < 1e-9, "%s in %u parts: %g", small_nets[i].name, parts, difference);
                cr_expect_gt(count_steps(t.plan, MG_STEP_ACC), 0, "%s", small_nets[i].name);
                cr_expect_eq(count_steps(t.plan, MG_STEP_STORE) > 0, swap, "%s", small_nets[i].name);
                cr_expect(2 * t.level[0].op_count > g->op_count, "%s: only %u of %zu operators are in the region",
                          small_nets[i].name, t.level[0].op_count, g->op_count);
            }
    return MG_OK;
}

Test(exec_plan, micro_batches_equal_the_whole)
{
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    guarded(&arena, micro_batches, &arena);
    mg_arena_release(&arena);
}

/* ---- random graphs, regions and swaps ---- */

static void random_plan(uint64_t seed)
{
    struct bench b;
    struct mg_rng rng;
    bench_open(&b);
    mg_rng_init(&rng, seed);
    random_graph(&b, &rng, 12, 5, 4);
    uint32_t n = (uint32_t)b.n->op_count, from = (uint32_t)mg_rng_below(&rng, n / 2);
    uint32_t to = from + 3 + (uint32_t)mg_rng_below(&rng, n / 3);
    struct span spans[2] = {
        {.from = from, .to = to, .parts = 2 + (uint32_t)mg_rng_below(&rng, 2), .parent = MG_NONE, .length = 5},
        {.from = from + 1, .to = to - 1, .parts = 2, .parent = 0},
    };
    spans[1].length = (5 + spans[0].parts - 1) / spans[0].parts;
    uint32_t nested = spans[0].parts == 2 && to - from > 3; /* two thirds fit into neither 3 nor 2 rows */
    struct assembly s = {.g = b.n, .device = mg_device_builtin("rtx3090"), .arena = &b.arena, .spans = spans};
    s.span_count = 1 + nested;
    s.swap_percent = (uint32_t)mg_rng_below(&rng, 2) * 30;
    mg_rng_init(&s.rng, seed + 1);
    guarded(&b.arena, assemble, &s);
    double difference = difference_of(b.n, s.plan, seed, &b.arena, "random plan");
    cr_expect(difference < 1e-9, "seed %llu: %g", (unsigned long long)seed, difference);
    bench_close(&b);
}

Test(exec_plan, random_regions_and_swaps_change_no_number)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        random_plan(seed);
}

/* Elementwise chains with transposes, broadcasts, products, reductions of all kinds, and normalisation: as many
 * ways as there are for a value to carry a dimension, lose it, or have it elsewhere than in front. */
static mg_value random_step(struct bench *b, struct mg_rng *rng, mg_value x, mg_value other)
{
    mg_value in[2] = {x, other}, out[3];
    int64_t perm[3] = {1, 0, 2};
    struct mg_attr axes = {.key = MG_ATTR_AXES, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = perm};
    static const enum mg_op_type reductions[] = {MG_OP_REDUCE_SUM, MG_OP_REDUCE_MEAN, MG_OP_REDUCE_MAX,
                                                 MG_OP_REDUCE_MIN, MG_OP_REDUCE_PROD};
    mg_value y;
    switch (mg_rng_below(rng, 8)) {
    case 0:
        perm[0] = (int64_t)mg_rng_below(rng, 2);
        return op1(b, reductions[mg_rng_below(rng, 5)], NULL, VALUES(x), &axes, 1);
    case 1:
        y = op1(b, MG_OP_TRANSPOSE, NULL, VALUES(x),
                ATTRS(((struct mg_attr){.key = MG_ATTR_PERM, .type = MG_ATTR_TYPE_INTS, .count = 3, .ints = perm})));
        return op1(b, MG_OP_TANH, NULL, VALUES(y), NO_ATTRS);
    case 2:
        return op1(b, MG_OP_SOFTMAX, NULL, VALUES(x), NO_ATTRS);
    case 3:
        cr_assert_eq(mg_graph_add_op(b->g, MG_OP_LAYER_NORM, NULL, in, 1, NULL, 0, NULL, 3, out, &b->err), MG_OK);
        return op1(b, MG_OP_ADD, NULL, VALUES(out[0], out[1]), NO_ATTRS);
    case 4:
        return op1(b, MG_OP_MATMUL, NULL, VALUES(x, mg_graph_find_value(b->g, "w")), NO_ATTRS);
    default:
        if (!mg_shape_equal(&b->g->values[x].shape, &b->g->values[other].shape))
            return op1(b, MG_OP_SIGMOID, NULL, VALUES(x), NO_ATTRS);
        return op1(b, MG_OP_ADD, NULL, VALUES(x, other), NO_ATTRS);
    }
}

static void random_network(struct bench *b, struct mg_rng *rng)
{
    mg_value pool[40];
    uint32_t count = 1;
    pool[0] = input(b, "x", SHAPE(5, 4, 3));
    value_of(b, MG_KIND_WEIGHT, "w", SHAPE(3, 3));
    while (count < 12) {
        mg_value x = pool[mg_rng_below(rng, 3) ? count - 1 : mg_rng_below(rng, count)];
        pool[count] = random_step(b, rng, x, pool[mg_rng_below(rng, count)]);
        count++;
    }
    for (uint32_t i = 5; i < count; i += 3)
        mg_graph_add_output(b->g, pool[i]);
    cr_assert(normalise(b), "%s", b->err.message);
}

struct tally {
    uint32_t plans, nested, joins, accs, slices;
};

static void try_tree(struct bench *b, struct mg_rng *rng, struct tally *tally)
{
    struct region_tree t = {.g = b->n, .arena = &b->arena, .swap_percent = (uint32_t)mg_rng_below(rng, 2) * 25};
    uint32_t wanted = 1 + (uint32_t)mg_rng_below(rng, MOST_LEVELS);
    mg_rng_init(&t.rng, mg_rng_next(rng));
    for (uint32_t tries = 0; tries < 12 && t.depth < wanted; tries++) {
        mg_value seed = (mg_value)mg_rng_below(rng, b->n->value_count);
        int8_t dim = (int8_t)mg_rng_below(rng, b->n->values[seed].shape.rank);
        start_level(&t, t.depth, 2 + (uint32_t)mg_rng_below(rng, 2));
        t.level[t.depth].use[seed] = (struct carried){true, dim, 1};
        t.depth += grow_level(&t, t.depth);
    }
    if (!t.depth)
        return;
    guarded(&b->arena, plan_of_tree, &t);
    double difference = difference_of(b->n, t.plan, 7, &b->arena, "region tree");
    cr_expect(difference < 1e-9, "a tree of %u regions: %g", t.depth, difference);
    tally->plans++;
    tally->nested += t.depth > 1;
    tally->joins += count_steps(t.plan, MG_STEP_JOIN) > 0;
    tally->accs += count_steps(t.plan, MG_STEP_ACC) > 0;
    tally->slices += count_steps(t.plan, MG_STEP_SLICE) > 0;
}

Test(exec_plan, random_region_trees_change_no_number)
{
    struct tally tally = {0};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        random_network(&b, &rng);
        for (int i = 0; i < 3; i++)
            try_tree(&b, &rng, &tally);
        bench_close(&b);
    }
    cr_expect(tally.plans > 500 && tally.nested > 200 && tally.joins > 200 && tally.accs > 100 && tally.slices > 25,
              "too few plans: %u, nested %u, with joins %u, accs %u, slices %u", tally.plans, tally.nested, tally.joins,
              tally.accs, tally.slices);
}

/* ---- updates inside a region (R9) ---- */

/* The weight gradient of layer 0 and its update, in parts along the weight's rows: x^T is cut along its columns. */
static struct region_tree update_region(struct bench *b, uint32_t parts)
{
    struct region_tree t = {.g = b->n, .arena = &b->arena, .depth = 1};
    mg_rng_init(&t.rng, parts);
    start_level(&t, 0, parts);
    t.level[0].use[mg_graph_find_value(b->n, "x")] = (struct carried){true, 1, 1};
    cr_assert(grow_level(&t, 0));
    guarded(&b->arena, plan_of_tree, &t);
    return t;
}

Test(exec_plan, an_update_in_parts_is_the_update)
{
    for (uint32_t parts = 2; parts <= 4; parts++) {
        struct bench b;
        bench_open(&b);
        mg_value x = input(&b, "x", SHAPE(6, 7)), dy = input(&b, "dy", SHAPE(6, 3));
        mg_value w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(7, 3));
        mg_value dw = op1(&b, MG_OP_MATMUL, "dw", VALUES(x, dy), ATTRS(INT_OF(TRANS_A, 1)));
        mg_value new_w = op1(&b, MG_OP_SGD, "sgd", VALUES(w, dw), ATTRS(REAL_OF(LR, 0.1)));
        mg_graph_add_update(b.g, w, new_w);
        mg_graph_add_output(b.g, op1(&b, MG_OP_RELU, "y", VALUES(dy), NO_ATTRS));
        cr_assert(normalise(&b), "%s", b.err.message);
        struct region_tree t = update_region(&b, parts);
        cr_expect_eq(t.level[0].op_count, 2, "the product and the update are in the region");
        cr_expect_eq(difference_of(b.n, t.plan, 5, &b.arena, "update"), 0);
        bench_close(&b);
    }
}

/* ---- recomputation ---- */

struct recomputation {
    struct bench *b;
    struct mg_plan *plan;
};

/* a = tanh x, c = exp a, free a; a again, y = a c */
static enum mg_code recompute(void *context, struct mg_error *err)
{
    struct recomputation *r = context;
    struct mg_plan_builder *b = mg_plan_builder_new(r->b->n, mg_device_builtin("rtx3090"), &r->b->arena);
    uint32_t x = mg_plan_builder_initial(b, 0), a = MG_NONE, again = MG_NONE, c = MG_NONE, y = MG_NONE;
    mg_plan_builder_compute(b, 0, &x, &a);
    mg_plan_builder_compute(b, 1, &a, &c);
    mg_plan_builder_free(b, a);
    mg_plan_builder_compute(b, 0, &x, &again);
    mg_plan_builder_free(b, x);
    uint32_t in[2] = {again, c};
    mg_plan_builder_compute(b, 2, in, &y);
    mg_plan_builder_free(b, again);
    mg_plan_builder_free(b, c);
    return mg_plan_builder_finish(b, NULL, &r->plan, err);
}

static struct recomputation recomputed_plan(struct bench *b)
{
    bench_open(b);
    mg_value x = input(b, "x", SHAPE(8, 64));
    mg_value a = op1(b, MG_OP_TANH, "a", VALUES(x), NO_ATTRS), c = op1(b, MG_OP_EXP, "c", VALUES(a), NO_ATTRS);
    mg_graph_add_output(b->g, op1(b, MG_OP_MUL, "y", VALUES(a, c), NO_ATTRS));
    cr_assert(normalise(b), "%s", b->err.message);
    struct recomputation r = {.b = b};
    guarded(&b->arena, recompute, &r);
    return r;
}

Test(exec_plan, a_recomputed_value_is_the_same)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    cr_expect_eq(difference_of(b.n, r.plan, 3, &b.arena, "recomputed"), 0);
    bench_close(&b);
}

/* ---- broken plans ---- */

struct attempt {
    struct bench *b;
    struct mg_plan *plan;
    double difference;
    enum mg_code code;
    struct mg_error err;
};

static enum mg_code attempt(void *context, struct mg_error *err)
{
    struct attempt *t = context;
    (void)err;
    t->code = mg_exec_compare(t->b->n, t->plan, 3, 3, &t->difference, &t->b->arena, &t->err);
    return MG_OK;
}

static struct attempt try_plan(struct bench *b, struct mg_plan *plan)
{
    struct attempt t = {.b = b, .plan = plan};
    guarded(&b->arena, attempt, &t);
    return t;
}

Test(exec_plan, reading_freed_memory_is_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    uint32_t in = r.plan->steps[5].in; /* y reads the second a: let it read the freed one */
    cr_assert_eq(r.plan->steps[5].op, 2);
    r.plan->refs[in] = r.plan->refs[r.plan->steps[0].out];
    struct attempt t = try_plan(&b, r.plan);
    cr_expect_eq(t.code, MG_ERR_REJECTED);
    cr_expect_str_eq(t.err.pointer, "/steps/5");
    bench_close(&b);
}

Test(exec_plan, overlapping_storages_are_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    const struct mg_step *last = &r.plan->steps[5];
    uint32_t c = r.plan->instances[r.plan->refs[last->in + 1]].storage;
    uint32_t y = r.plan->instances[r.plan->refs[last->out]].storage;
    uint32_t a = r.plan->instances[r.plan->refs[last->in]].storage;
    cr_assert_neq(c, y);
    r.plan->storages[c].offset = r.plan->storages[a].offset;
    struct attempt t = try_plan(&b, r.plan);
    cr_expect(t.code == MG_ERR_REJECTED || t.difference > 1e-3, "code %d, difference %g", t.code, t.difference);
    bench_close(&b);
}

Test(exec_plan, an_arena_that_is_too_small_is_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    r.plan->figures.arena_bytes -= 512;
    cr_expect_eq(try_plan(&b, r.plan).code, MG_ERR_REJECTED);
    bench_close(&b);
}

Test(exec_plan, a_load_without_a_store_is_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    r.plan->steps[3].kind = MG_STEP_LOAD; /* instead of computing a again */
    struct attempt t = try_plan(&b, r.plan);
    cr_expect_eq(t.code, MG_ERR_REJECTED);
    cr_expect_str_eq(t.err.pointer, "/steps/3");
    bench_close(&b);
}
