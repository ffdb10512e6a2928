/* For the tests of the checker: verdicts, and plans whose stated original is right. */
#ifndef MG_TESTS_CHECK_UTIL_H
#define MG_TESTS_CHECK_UTIL_H

#include "tests/unit/region_util.h"

static inline struct mg_verdict verdict_of(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_verdict verdict;
    struct mg_error err = {0};
    cr_assert_eq(mg_plan_check(g, plan, arena, &verdict, &err), MG_OK, "%s", err.message);
    return verdict;
}

/* The assemblers let a plan be its own original. */
static inline void state_original(const struct mg_graph *g, struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_plan *original;
    struct mg_error err = {0};
    cr_assert_eq(mg_plan_original(g, &plan->device, arena, &original, &err), MG_OK, "%s", err.message);
    plan->original = original->figures;
    plan->original.host_bytes = 0;
}

static inline void expect_accepted(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                                   const char *what, uint64_t seed)
{
    struct mg_verdict v = verdict_of(g, plan, arena);
    cr_assert(v.accepted, "%s %lu: step %u: %s: %s", what, seed, v.step, v.reason, v.message);
    cr_expect_eq(v.figures.peak_bytes, plan->figures.peak_bytes);
    cr_expect_eq(v.figures.arena_bytes, plan->figures.arena_bytes);
    cr_expect_eq(v.figures.host_bytes, plan->figures.host_bytes);
    cr_expect_float_eq(v.figures.latency_s, plan->figures.latency_s, 1e-9 * plan->figures.latency_s);
}

static inline uint32_t below(struct mg_rng *rng, uint32_t bound)
{
    return (uint32_t)mg_rng_below(rng, bound);
}

/* ---- random networks: transposes, broadcasts, products, reductions, normalisation ---- */

static inline mg_value network_step(struct bench *b, struct mg_rng *rng, mg_value x, mg_value other)
{
    int64_t swapped[3] = {1, 0, 2}, dim[1] = {below(rng, 2)};
    mg_value in[1] = {x}, out[3];
    struct mg_attr perm = {.key = MG_ATTR_PERM, .type = MG_ATTR_TYPE_INTS, .count = 3, .ints = swapped};
    struct mg_attr axes = {.key = MG_ATTR_AXES, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = dim};
    mg_value w = mg_graph_find_value(b->g, "w");
    switch (below(rng, 8)) {
    case 0:
        return op1(b, below(rng, 2) ? MG_OP_REDUCE_SUM : MG_OP_REDUCE_MAX, NULL, VALUES(x), &axes, 1);
    case 1:
        return op1(b, MG_OP_TANH, NULL, VALUES(op1(b, MG_OP_TRANSPOSE, NULL, VALUES(x), &perm, 1)), NO_ATTRS);
    case 2:
        return op1(b, MG_OP_SOFTMAX, NULL, VALUES(x), NO_ATTRS);
    case 3:
        cr_assert_eq(mg_graph_add_op(b->g, MG_OP_LAYER_NORM, NULL, in, 1, NULL, 0, NULL, 3, out, &b->err), MG_OK);
        return op1(b, MG_OP_MUL, NULL, VALUES(out[0], out[2]), NO_ATTRS);
    case 4:
        return op1(b, MG_OP_MATMUL, NULL, VALUES(x, w), NO_ATTRS);
    case 5:
        cr_assert_eq(mg_graph_add_op(b->g, MG_OP_DROPOUT, NULL, in, 1, NULL, 0, NULL, 2, out, &b->err), MG_OK);
        return out[0];
    default:
        if (!mg_shape_equal(&b->g->values[x].shape, &b->g->values[other].shape))
            return op1(b, MG_OP_SIGMOID, NULL, VALUES(x), NO_ATTRS);
        return op1(b, MG_OP_ADD, NULL, VALUES(x, other), NO_ATTRS);
    }
}

static inline void random_network(struct bench *b, struct mg_rng *rng)
{
    mg_value pool[40];
    uint32_t count = 1;
    pool[0] = input(b, "x", SHAPE(5, 4, 3));
    value_of(b, MG_KIND_WEIGHT, "w", SHAPE(3, 3));
    while (count < 12) {
        mg_value x = pool[below(rng, 3) ? count - 1 : below(rng, count)];
        pool[count] = network_step(b, rng, x, pool[below(rng, count)]);
        cr_assert_neq(pool[count], MG_NONE, "%s", b->err.message);
        count++;
    }
    for (uint32_t i = 5; i < count; i += 3)
        mg_graph_add_output(b->g, pool[i]);
    cr_assert(normalise(b), "%s", b->err.message);
}

/* Up to three nested regions grown from random dimensions; NULL if none would grow. */
static inline struct mg_plan *random_tree(struct bench *b, struct mg_rng *rng)
{
    struct region_tree t = {.g = b->n, .arena = &b->arena, .swap_percent = below(rng, 2) * 25};
    uint32_t wanted = 1 + below(rng, MOST_LEVELS);
    mg_rng_init(&t.rng, mg_rng_next(rng));
    for (uint32_t tries = 0; tries < 12 && t.depth < wanted; tries++) {
        mg_value seed = below(rng, (uint32_t)b->n->value_count);
        start_level(&t, t.depth, 2 + below(rng, 2));
        t.level[t.depth].use[seed] = (struct carried){true, (int8_t)below(rng, b->n->values[seed].shape.rank), 1};
        t.depth += grow_level(&t, t.depth);
    }
    if (!t.depth)
        return NULL;
    guarded(&b->arena, plan_of_tree, &t);
    state_original(b->n, t.plan, &b->arena);
    return t.plan;
}

#endif
