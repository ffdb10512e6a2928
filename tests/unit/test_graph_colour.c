/* Colours: layers of a chain are alike away from its ends, and only there. */
#include <criterion/criterion.h>

#include "graph/colour.h"
#include "tests/unit/graph_util.h"

enum { LAYERS = 12, RADIUS = 3 };

/* matmul, relu, matmul, relu, ... over square weights; layer `odd` (if any) has tanh instead. */
static uint64_t *chain(struct bench *b, int odd, uint32_t radius)
{
    bench_open(b);
    mg_value v = input(b, "x", SHAPE(8, 8));
    for (int i = 0; i < LAYERS; i++) {
        mg_value w = value_of(b, MG_KIND_WEIGHT, NULL, SHAPE(8, 8));
        v = op1(b, MG_OP_MATMUL, NULL, VALUES(v, w), NO_ATTRS);
        v = op1(b, i == odd ? MG_OP_TANH : MG_OP_RELU, NULL, VALUES(v), NO_ATTRS);
    }
    mg_graph_add_output(b->g, v);
    cr_assert(normalise(b), "%s", b->err.message);
    uint64_t *colour = MG_NEW_ARRAY(&b->arena, uint64_t, b->n->op_count);
    cr_assert_eq(mg_graph_colours(b->n, radius, &b->arena, colour, &b->err), MG_OK);
    return colour;
}

Test(graph_colour, layers_are_alike_away_from_the_ends)
{
    struct bench b;
    uint64_t *colour = chain(&b, -1, RADIUS);
    for (int op = RADIUS + 1; op + RADIUS + 1 < 2 * LAYERS; op++) {
        cr_expect_eq(colour[op], colour[RADIUS + 1 + (op + RADIUS + 1) % 2], "operator %d", op);
        cr_expect_neq(colour[op], colour[op - 1]);
    }
    for (int op = 0; op + 2 < RADIUS; op++)
        cr_expect_neq(colour[op], colour[op + 2], "the distance from the beginning shows");
    cr_expect_neq(colour[2 * LAYERS - 1], colour[2 * LAYERS - 3], "so does that from the end");
    bench_close(&b);
}

Test(graph_colour, a_difference_is_seen_up_to_the_radius)
{
    struct bench a, b;
    uint64_t *same = chain(&a, -1, RADIUS), *odd = chain(&b, 6, RADIUS);
    for (int op = 0; op < 2 * LAYERS; op++) {
        int distance = op > 13 ? op - 13 : 13 - op;
        cr_expect_eq(same[op] == odd[op], distance > RADIUS, "operator %d", op);
    }
    bench_close(&a);
    bench_close(&b);
}

Test(graph_colour, radius_0_sees_type_attributes_and_shapes)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 6)), y = input(&b, "y", SHAPE(4, 5)), out[2];
    op1(&b, MG_OP_SOFTMAX, NULL, VALUES(x), ATTRS(INT_OF(AXIS, 0)));
    op1(&b, MG_OP_SOFTMAX, NULL, VALUES(x), ATTRS(INT_OF(AXIS, 1)));
    op1(&b, MG_OP_SOFTMAX, NULL, VALUES(y), ATTRS(INT_OF(AXIS, 1)));
    op1(&b, MG_OP_SOFTMAX, NULL, VALUES(x), ATTRS(INT_OF(AXIS, -1)));
    cr_assert_eq(opn(&b, MG_OP_DROPOUT, VALUES(x), ATTRS(INT_OF(SEED, 1)), 2, out), MG_OK);
    cr_assert_eq(opn(&b, MG_OP_DROPOUT, VALUES(x), ATTRS(INT_OF(SEED, 2)), 2, out), MG_OK);
    cr_assert(normalise(&b), "%s", b.err.message);
    uint64_t colour[6];
    cr_assert_eq(mg_graph_colours(b.n, 0, &b.arena, colour, &b.err), MG_OK);
    cr_expect_neq(colour[0], colour[1]);
    cr_expect_neq(colour[1], colour[2]);
    cr_expect_eq(colour[1], colour[3]);
    cr_expect_eq(colour[4], colour[5], "the seed does not matter");
    bench_close(&b);
}
