/* Order, in-place rules, views and copies, digest, statistics. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/digest.h"
#include "graph/normalise_priv.h"
#include "tests/unit/graph_util.h"

static mg_value named_input(struct bench *b, const char *name)
{
    return input(b, name, SHAPE(4, 6));
}

/* Declares a value that an operator added later makes. */
static mg_value later(struct bench *b, const char *name)
{
    return mg_graph_add_value(b->g, name, MG_KIND_COMPUTED, MG_DTYPE_F32, NULL);
}

static const char *order_of(struct bench *b)
{
    const char *text = "";
    for (mg_op op = 0; op < b->n->op_count; op++)
        text = mg_arena_printf(&b->arena, "%s%s ", text, b->n->ops[op].name);
    return text;
}

Test(graph_order, earliest_listed_that_is_ready)
{
    struct bench b;
    bench_open(&b);
    mg_value x = named_input(&b, "x"), u = later(&b, "u"), v = later(&b, "v");
    op1(&b, MG_OP_ADD, "late", VALUES(u, v), NO_ATTRS);
    op1(&b, MG_OP_RELU, "v", VALUES(u), NO_ATTRS);
    op1(&b, MG_OP_EXP, "free", VALUES(x), NO_ATTRS);
    op1(&b, MG_OP_TANH, "u", VALUES(x), NO_ATTRS);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_str_eq(order_of(&b), "free u v late ");
    cr_expect_str_eq(shape_str(&b, b.n, mg_graph_find_value(b.n, "late")), "[4, 6]");
    cr_expect_eq(b.n->values[mg_graph_find_value(b.n, "u")].reader_count, 2);
    bench_close(&b);
}

Test(graph_order, cycles_and_unmade_values)
{
    struct bench b;
    bench_open(&b);
    mg_value x = named_input(&b, "x"), u = later(&b, "u");
    mg_value v = op1(&b, MG_OP_ADD, "v", VALUES(u, x), NO_ATTRS);
    mg_value w = op1(&b, MG_OP_RELU, "w", VALUES(v), NO_ATTRS);
    op1(&b, MG_OP_RELU, "after", VALUES(w), NO_ATTRS);
    op1(&b, MG_OP_TANH, "u", VALUES(w), NO_ATTRS);
    cr_expect_not(normalise(&b));
    cr_expect(strstr(b.err.message, "cycle"), "%s", b.err.message);
    cr_expect(strcmp(b.err.pointer, "/ops/2") != 0, "'after' is not on the cycle");
    bench_close(&b);

    bench_open(&b);
    u = later(&b, "u");
    x = named_input(&b, "x");
    op1(&b, MG_OP_ADD, "a", VALUES(x, u), NO_ATTRS);
    cr_expect_not(normalise(&b));
    cr_expect_str_eq(b.err.pointer, "/ops/0/inputs/1");
    bench_close(&b);

    bench_open(&b);
    x = named_input(&b, "x"), u = later(&b, "u");
    op1(&b, MG_OP_CONCAT, "c", VALUES(x, u), ATTRS(INT_OF(AXIS, 1)));
    op1(&b, MG_OP_TRANSPOSE, "u", VALUES(x), NO_ATTRS);
    cr_expect_not(normalise(&b), "shapes are checked late, too");
    cr_expect_str_eq(b.err.pointer, "/ops/0/inputs");
    bench_close(&b);
}

/* A random graph listed in random order: the order is topological, and at every position the earliest ready. */
Test(graph_order, random_graphs_against_the_definition)
{
    struct mg_rng rng;
    mg_rng_init(&rng, 7);
    for (int round = 0; round < 50; round++) {
        struct bench b;
        bench_open(&b);
        enum { N = 24 };
        mg_value made[N + 1] = {named_input(&b, "x")};
        int place[N];
        for (int i = 0; i < N; i++)
            made[i + 1] = mg_graph_add_value(b.g, NULL, MG_KIND_COMPUTED, MG_DTYPE_F32, SHAPE(4, 6)), place[i] = i;
        for (int i = N - 1; i > 0; i--) {
            int k = (int)mg_rng_below(&rng, (uint64_t)i + 1), t = place[i];
            place[i] = place[k], place[k] = t;
        }
        for (int i = 0; i < N; i++) {
            int p = place[i];
            mg_value in[2] = {made[mg_rng_below(&rng, (uint64_t)p + 1)], made[mg_rng_below(&rng, (uint64_t)p + 1)]};
            const char *out = b.g->values[made[p + 1]].name;
            char name[16];
            snprintf(name, sizeof name, "%d", i);
            cr_assert_eq(mg_graph_add_op(b.g, MG_OP_ADD, name, in, 2, NULL, 0, &out, 1, NULL, &b.err), MG_OK);
        }
        cr_assert(normalise(&b), "%s", b.err.message);
        bool done[N] = {0};
        for (mg_op op = 0; op < N; op++) {
            int first = 0;
            for (; first < N; first++) { /* the earliest listed operator that is ready */
                bool ready = !done[first];
                for (uint32_t k = 0; k < 2; k++) {
                    mg_op maker = b.g->values[b.g->ops[first].in[k]].producer;
                    ready = ready && (maker == MG_NONE || done[maker]);
                }
                if (ready)
                    break;
            }
            cr_assert_eq(first, atoi(b.n->ops[op].name));
            done[first] = true;
        }
        bench_close(&b);
    }
}

/* ---- in place ---- */

Test(graph_in_place, readers_of_the_old_version_come_first)
{
    struct bench b;
    bench_open(&b);
    mg_value x = named_input(&b, "x"), w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(4, 6));
    mg_value g = op1(&b, MG_OP_MUL, "g", VALUES(x, w), NO_ATTRS);
    mg_value w2 = op1(&b, MG_OP_SGD, "update", VALUES(w, g), NO_ATTRS);
    mg_value t = op1(&b, MG_OP_TRANSPOSE, "t", VALUES(w), NO_ATTRS);
    op1(&b, MG_OP_RELU, "reader", VALUES(t), NO_ATTRS);
    mg_graph_add_update(b.g, w, w2);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_str_eq(order_of(&b), "g t reader update ");
    mg_op update = op_named(b.n, "update");
    cr_expect_eq(b.n->ops[update].in_place, 0);
    mg_value nw = mg_graph_find_value(b.n, "w");
    cr_expect_eq(b.n->values[b.n->values[nw].updated_by].producer, update);
    cr_expect_eq(b.n->values[b.n->values[nw].updated_by].update_of, nw);
    bench_close(&b);
}

Test(graph_in_place, reading_an_old_version_after_its_update_is_a_cycle)
{
    struct bench b;
    bench_open(&b);
    mg_value w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(4, 6)), g = named_input(&b, "g");
    mg_value w2 = op1(&b, MG_OP_SGD, "update", VALUES(w, g), NO_ATTRS);
    op1(&b, MG_OP_ADD, "both", VALUES(w2, w), NO_ATTRS);
    mg_graph_add_update(b.g, w, w2);
    cr_expect_not(normalise(&b));
    cr_expect(strstr(b.err.message, "old version"), "%s", b.err.message);
    bench_close(&b);
}

Test(graph_in_place, any_elementwise_operator_may_update)
{
    struct bench b;
    bench_open(&b);
    mg_value w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(4, 6)), g = named_input(&b, "g");
    mg_value w2 = op1(&b, MG_OP_SUB, "update", VALUES(w, g), NO_ATTRS);
    mg_graph_add_update(b.g, w, w2);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_eq(b.n->ops[0].in_place, 0);
    bench_close(&b);

    bench_open(&b);
    w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(6, 6)), g = input(&b, "g", SHAPE(6, 6));
    w2 = op1(&b, MG_OP_MATMUL, "update", VALUES(w, g), NO_ATTRS);
    mg_graph_add_update(b.g, w, w2);
    cr_expect_not(normalise(&b));
    cr_expect(strstr(b.err.message, "not elementwise"), "%s", b.err.message);
    bench_close(&b);
}

Test(graph_in_place, without_a_declared_update_the_default_is_dropped)
{
    struct bench b;
    bench_open(&b);
    mg_value w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(4, 6)), g = named_input(&b, "g");
    op1(&b, MG_OP_SGD, "update", VALUES(w, g), NO_ATTRS);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_eq(b.n->ops[0].in_place, -1);
    bench_close(&b);
}

Test(graph_in_place, what_was_asked_for_and_is_impossible_is_an_error)
{
    static const char *const reasons[] = {"graph input", "declared update", "graph output", "shape or dtype",
                                          "part of a storage"};
    for (int k = 0; k < 5; k++) {
        struct bench b;
        bench_open(&b);
        mg_value x = named_input(&b, "x"), w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(4, 6));
        mg_value h = op1(&b, MG_OP_TANH, "h", VALUES(x), NO_ATTRS);
        mg_value part = op1(&b, MG_OP_SLICE, "part", VALUES(h), ATTRS(LIST_OF(STARTS, 1), LIST_OF(ENDS, 2)));
        mg_value operand = k == 0 ? x : k == 1 ? w : k == 4 ? part : h;
        mg_op op = (mg_op)b.g->op_count;
        if (k == 2)
            mg_graph_add_output(b.g, h);
        if (k == 3)
            op1(&b, MG_OP_GREATER, "act", VALUES(operand, operand), NO_ATTRS);
        else
            op1(&b, MG_OP_RELU, "act", VALUES(operand), NO_ATTRS);
        mg_graph_set_in_place(b.g, op, 0);
        cr_expect_not(normalise(&b));
        cr_expect(strstr(b.err.message, reasons[k]), "%d: %s", k, b.err.message);
        cr_expect_str_eq(b.err.pointer, "/ops/2/in_place");
        bench_close(&b);
    }
}

Test(graph_in_place, not_where_the_storage_is_also_read_through_a_view)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(6, 6));
    mg_value h = op1(&b, MG_OP_TANH, "h", VALUES(x), NO_ATTRS);
    mg_value t = op1(&b, MG_OP_TRANSPOSE, "t", VALUES(h), NO_ATTRS);
    op1(&b, MG_OP_ADD, "sum", VALUES(h, t), NO_ATTRS);
    mg_graph_set_in_place(b.g, 2, 0);
    cr_expect_not(normalise(&b));
    cr_expect(strstr(b.err.message, "through a view"), "%s", b.err.message);
    bench_close(&b);
}

/* ---- views ---- */

static const struct mg_value_info *info(struct bench *b, const char *name)
{
    mg_value v = mg_graph_find_value(b->n, name);
    cr_assert_neq(v, MG_NONE, "no value %s", name);
    return &b->n->values[v];
}

static const char *base_name(struct bench *b, const char *name)
{
    return b->n->values[info(b, name)->base].name;
}

Test(graph_views, chains_resolve_to_one_base)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(2, 12, 8));
    mg_value h = op1(&b, MG_OP_RELU, "h", VALUES(x), NO_ATTRS);
    mg_value r = op1(&b, MG_OP_RESHAPE, "r", VALUES(h), ATTRS(LIST_OF(SHAPE, 2, 12, 4, 2)));
    mg_value t = op1(&b, MG_OP_TRANSPOSE, "t", VALUES(r), ATTRS(LIST_OF(PERM, 0, 2, 1, 3)));
    mg_value s = op1(&b, MG_OP_SLICE, "s", VALUES(t),
                     ATTRS(LIST_OF(STARTS, 1, 2), LIST_OF(ENDS, 3, 12), LIST_OF(AXES, 1, 2), LIST_OF(STEPS, 1, 5)));
    op1(&b, MG_OP_EXP, "e", VALUES(s), NO_ATTRS);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_str_eq(base_name(&b, "s"), "h");
    const struct mg_value_info *v = info(&b, "s");
    cr_expect_str_eq(shape_str(&b, b.n, mg_graph_find_value(b.n, "s")), "[2, 2, 2, 2]");
    cr_expect_eq(v->offset, 2 + 2 * 8);
    int64_t want[] = {96, 2, 40, 1};
    cr_expect_arr_eq(v->stride, want, sizeof want);
    cr_expect(b.n->ops[v->producer].is_view);
    cr_expect_eq(b.n->op_count, 5, "no copy");
    bench_close(&b);
}

/* Heads of attention: [b, s, h d] to [b, h, s, d] and back. Products take the transposed view; joining the heads
 * again needs a copy. */
Test(graph_views, attention_copies_once)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(2, 12, 8)), k = input(&b, "k", SHAPE(2, 4, 12, 2));
    mg_value r = op1(&b, MG_OP_RESHAPE, "r", VALUES(x), ATTRS(LIST_OF(SHAPE, 2, 12, 4, 2)));
    mg_value q = op1(&b, MG_OP_TRANSPOSE, "q", VALUES(r), ATTRS(LIST_OF(PERM, 0, 2, 1, 3)));
    mg_value p = op1(&b, MG_OP_MATMUL, "scores", VALUES(q, k), ATTRS(INT_OF(TRANS_B, 1)));
    mg_value y = op1(&b, MG_OP_MATMUL, "y", VALUES(p, k), NO_ATTRS);
    mg_value back = op1(&b, MG_OP_TRANSPOSE, "back", VALUES(y), ATTRS(LIST_OF(PERM, 0, 2, 1, 3)));
    mg_value out = op1(&b, MG_OP_RESHAPE, "joined", VALUES(back), ATTRS(LIST_OF(SHAPE, 2, 12, 8)));
    mg_graph_set_module(b.g, b.g->values[back].producer, "layer.0");
    op1(&b, MG_OP_RELU, "end", VALUES(out), NO_ATTRS);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_str_eq(order_of(&b), "r q scores y back back.copy joined end ");
    cr_expect_str_eq(base_name(&b, "q"), "x");
    cr_expect_str_eq(base_name(&b, "joined"), "back.copy");
    cr_expect_str_eq(b.n->ops[op_named(b.n, "back.copy")].module, "layer.0");
    struct mg_graph *again;
    cr_assert_eq(mg_graph_normalise(b.n, &b.arena, &again, &b.err), MG_OK);
    cr_expect_str_eq(again->digest, b.n->digest, "normalising is idempotent");
    bench_close(&b);
}

Test(graph_views, one_reader_that_refuses_makes_all_read_the_copy)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(3, 4, 5, 5)), w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(2, 3, 1, 1));
    mg_value t = op1(&b, MG_OP_TRANSPOSE, "t", VALUES(x), ATTRS(LIST_OF(PERM, 1, 0, 2, 3)));
    op1(&b, MG_OP_CONV, "conv", VALUES(t, w), NO_ATTRS);
    op1(&b, MG_OP_RELU, "relu", VALUES(t), NO_ATTRS);
    mg_graph_add_output(b.g, t);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_str_eq(order_of(&b), "t t.copy conv relu ");
    cr_expect_str_eq(b.n->values[b.n->ops[op_named(b.n, "relu")].in[0]].name, "t.copy");
    cr_expect_str_eq(b.n->values[b.n->outputs[0]].name, "t");
    bench_close(&b);
}

Test(graph_views, batch_slices_suit_convolutions)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(8, 3, 5, 5)), w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(2, 3, 1, 1));
    mg_value parts[2];
    cr_assert_eq(opn(&b, MG_OP_SPLIT, VALUES(x), ATTRS(INT_OF(AXIS, 0)), 2, parts), MG_OK);
    op1(&b, MG_OP_CONV, "c0", VALUES(parts[0], w), NO_ATTRS);
    op1(&b, MG_OP_CONV, "c1", VALUES(parts[1], w), NO_ATTRS);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_eq(b.n->op_count, 3);
    cr_expect_eq(b.n->values[b.n->ops[2].in[0]].offset, 4 * 75);
    bench_close(&b);
}

/* Reshape of random strided views: the layout, when there is one, addresses the same elements in order. */
Test(graph_views, reshape_layouts_address_the_same_elements)
{
    static const int64_t targets[][4] = {{24, 6, 1, 1}, {4, 6, 6, 1},  {2, 2, 36, 1}, {144, 1, 1, 1},
                                         {4, 3, 2, 6},  {8, 18, 1, 1}, {2, 12, 3, 2}};
    static const int64_t perms[][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {2, 0, 1}, {1, 2, 0}};
    for (size_t p = 0; p < 6; p++) {
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            struct bench b;
            bench_open(&b);
            mg_value x = input(&b, "x", SHAPE(4, 6, 6));
            mg_value v =
                op1(&b, MG_OP_TRANSPOSE, "v", VALUES(x), ATTRS(LIST_OF(PERM, perms[p][0], perms[p][1], perms[p][2])));
            mg_value r = op1(&b, MG_OP_RESHAPE, "r", VALUES(v),
                             ATTRS(LIST_OF(SHAPE, targets[t][0], targets[t][1], targets[t][2], targets[t][3])));
            struct mg_layout_of in = {0}, out;
            int64_t dense[MG_MAX_RANK];
            mg_shape_strides(SHAPE(4, 6, 6), dense);
            for (int d = 0; d < 3; d++)
                in.stride[d] = dense[perms[p][d]];
            bool ok = mg_derive_layout(b.g, b.g->values[r].producer, 0, &in, &out);
            cr_expect(ok || p != 0);
            const struct mg_shape *from = &b.g->values[v].shape, *to = &b.g->values[r].shape;
            for (int64_t i = 0; ok && i < 144; i++) {
                int64_t a = 0, c = 0, rest = i;
                for (uint32_t d = from->rank; d-- > 0; rest /= from->dim[d])
                    a += rest % from->dim[d] * in.stride[d];
                rest = i;
                for (uint32_t d = to->rank; d-- > 0; rest /= to->dim[d])
                    c += rest % to->dim[d] * out.stride[d];
                cr_assert_eq(a, c);
            }
            bench_close(&b);
        }
    }
}

/* ---- digest ---- */

static void mlp(struct bench *b, const char *const *names, bool swap, double lr)
{
    bench_open(b);
    mg_value x = input(b, names[0], SHAPE(64, 784)), w = value_of(b, MG_KIND_WEIGHT, names[1], SHAPE(784, 512));
    mg_value g = input(b, names[2], SHAPE(784, 512));
    mg_value h = op1(b, MG_OP_MATMUL, names[3], VALUES(x, w), NO_ATTRS);
    mg_value y = op1(b, swap ? MG_OP_TANH : MG_OP_RELU, names[4], VALUES(h), NO_ATTRS);
    mg_value w2 = op1(b, MG_OP_SGD, names[5], VALUES(w, g), ATTRS(REAL_OF(LR, lr)));
    mg_graph_add_output(b->g, y);
    mg_graph_add_update(b->g, w, w2);
    cr_assert(normalise(b), "%s", b->err.message);
}

Test(graph_digest, names_do_not_matter_and_everything_else_does)
{
    static const char *const a[] = {"x", "w0", "g0", "h0", "y", "w0_new"};
    static const char *const c[] = {"data", "a.b", "ü", "q", "0", "z z"};
    struct bench one, two, three, four;
    mlp(&one, a, false, 0.1);
    mlp(&two, c, false, 0.1);
    mlp(&three, a, true, 0.1);
    mlp(&four, a, false, 0.2);
    cr_expect_eq(strlen(one.n->digest), 64);
    cr_expect_str_eq(one.n->digest, two.n->digest);
    cr_expect_str_neq(one.n->digest, three.n->digest);
    cr_expect_str_neq(one.n->digest, four.n->digest);
    two.g->math = MG_MATH_TF32;
    cr_assert(normalise(&two));
    cr_expect_str_neq(one.n->digest, two.n->digest);
    bench_close(&one);
    bench_close(&two);
    bench_close(&three);
    bench_close(&four);
}

Test(graph_digest, attributes_given_or_defaulted_are_the_same)
{
    struct bench a, b;
    bench_open(&a);
    op1(&a, MG_OP_SOFTMAX, "y", VALUES(named_input(&a, "x")), NO_ATTRS);
    bench_open(&b);
    op1(&b, MG_OP_SOFTMAX, "y", VALUES(named_input(&b, "x")), ATTRS(INT_OF(AXIS, 1)));
    cr_assert(normalise(&a) && normalise(&b));
    cr_expect_str_eq(a.n->digest, b.n->digest);
    bench_close(&a);
    bench_close(&b);
}

/* ---- statistics, memory ---- */

Test(graph_stats, parameters_and_work)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(2, 6, 8, 8)), w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(4, 6, 3, 3));
    struct mg_attr attrs[] = {LIST_OF(STRIDES, 2, 2), LIST_OF(PADS, 1, 1, 1, 1), LIST_OF(SPATIAL, 8, 8)};
    mg_value y = op1(&b, MG_OP_CONV, "y", VALUES(x, w), attrs, 2);
    op1(&b, MG_OP_CONV_GRAD_INPUT, "dx", VALUES(y, w), attrs, 3);
    attrs[2] = LIST_OF(KERNEL_SHAPE, 3, 3);
    op1(&b, MG_OP_CONV_GRAD_WEIGHT, "dw", VALUES(y, x), attrs, 3);
    cr_assert(normalise(&b), "%s", b.err.message);
    struct mg_graph_stats stats;
    mg_graph_stats(b.n, &stats);
    cr_expect_eq(stats.parameters, 216);
    cr_expect_eq(stats.resident_bytes, 864);
    cr_expect_eq(stats.contractions, 3);
    double forward = 2.0 * (2 * 16) * 4 * 54, weight = forward, back = 2.0 * (2 * 64) * 6 * 9;
    cr_expect_eq(stats.contraction_flops, forward + weight + back);
    bench_close(&b);
}

Test(graph_normalise, runs_out_of_memory_cleanly)
{
    struct bench b;
    static const char *const names[] = {"x", "w0", "g0", "h0", "y", "w0_new"};
    mlp(&b, names, false, 0.1);
    int failures = 0;
    for (size_t limit = 0; limit < 200000; limit += 4096) {
        struct mg_arena small;
        struct mg_graph *n = NULL;
        struct mg_error err;
        mg_arena_init(&small, limit);
        enum mg_code code = mg_graph_normalise(b.g, &small, &n, &err);
        cr_expect(code == MG_OK || code == MG_ERR_NOMEM);
        failures += code != MG_OK;
        mg_arena_release(&small);
    }
    cr_expect(failures > 0 && failures < 48);
    bench_close(&b);
}

/* ---- taking back ---- */

/* Names are found again however they shared the table with those that were taken back. */
Test(graph_order, what_was_taken_back_is_forgotten)
{
    struct bench b;
    bench_open(&b);
    char name[16];
    for (int round = 0; round < 4; round++) {
        size_t values = b.g->value_count, kept = values + 50;
        for (int i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "n%d.%d", round, i);
            named_input(&b, name);
        }
        mg_graph_truncate(b.g, 0, kept);
        cr_expect_eq(b.g->value_count, kept);
        for (int i = 0; i < 300 + 50 * round; i++) {
            snprintf(name, sizeof name, "n%d.%d", i < 300 ? round : (i - 300) / 50, i < 300 ? i : (i - 300) % 50);
            mg_value v = mg_graph_find_value(b.g, name);
            cr_expect(v == (i < 50 ? values + (size_t)i : i < 300 ? MG_NONE : (size_t)(i - 300)), "%s: %u", name, v);
        }
    }
    bench_close(&b);
}
