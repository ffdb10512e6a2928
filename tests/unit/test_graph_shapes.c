/* Shapes of every kind of operator, and what is said when they do not fit. */
#include <criterion/criterion.h>

#include "tests/unit/graph_util.h"

#define EXPECT(b, value, text)                                                                                         \
    do {                                                                                                               \
        mg_value v_ = (value);                                                                                         \
        cr_expect_str_eq(shape_str(&(b), (b).g, v_), text);                                                            \
    } while (0)
#define FAILS(b, value, part, where)                                                                                   \
    do {                                                                                                               \
        cr_expect_eq((value), MG_NONE);                                                                                \
        cr_expect(strstr((b).err.message, part), "%s", (b).err.message);                                               \
        cr_expect_str_eq((b).err.pointer, where);                                                                      \
        cr_expect_eq((b).err.code, MG_ERR_INVALID);                                                                    \
    } while (0)

Test(graph_shapes, contractions)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(8, 1, 5, 7)), w = input(&b, "w", SHAPE(3, 7, 4)),
             wt = input(&b, "wt", SHAPE(4, 7));
    EXPECT(b, op1(&b, MG_OP_MATMUL, NULL, VALUES(x, w), NO_ATTRS), "[8, 3, 5, 4]");
    EXPECT(b, op1(&b, MG_OP_MATMUL, NULL, VALUES(x, wt), ATTRS(INT_OF(TRANS_B, 1))), "[8, 1, 5, 4]");
    mg_value bias = input(&b, "bias", SHAPE(4));
    mg_value rows = input(&b, "rows", SHAPE(6, 7));
    EXPECT(b, op1(&b, MG_OP_GEMM, NULL, VALUES(rows, wt, bias), ATTRS(INT_OF(TRANS_B, 1))), "[6, 4]");
    mg_value image = input(&b, "image", SHAPE(2, 6, 224, 225)), k = input(&b, "k", SHAPE(9, 2, 7, 3));
    struct mg_attr conv[] = {INT_OF(GROUP, 3), LIST_OF(STRIDES, 2, 1), LIST_OF(PADS, 3, 1, 3, 1)};
    mg_value y = op1(&b, MG_OP_CONV, NULL, VALUES(image, k), conv, 3);
    EXPECT(b, y, "[2, 9, 112, 225]");
    struct mg_attr back[] = {conv[0], conv[1], conv[2], LIST_OF(SPATIAL, 224, 225)};
    EXPECT(b, op1(&b, MG_OP_CONV_GRAD_INPUT, NULL, VALUES(y, k), back, 4), "[2, 6, 224, 225]");
    back[3] = LIST_OF(KERNEL_SHAPE, 7, 3);
    EXPECT(b, op1(&b, MG_OP_CONV_GRAD_WEIGHT, NULL, VALUES(y, image), back, 4), "[9, 2, 7, 3]");
    mg_value k3 = input(&b, "k3", SHAPE(6, 5, 3, 3));
    EXPECT(b,
           op1(&b, MG_OP_CONV_TRANSPOSE, NULL, VALUES(image, k3),
               ATTRS(LIST_OF(STRIDES, 2, 2), LIST_OF(PADS, 1, 1, 1, 1), LIST_OF(OUTPUT_PADDING, 1, 1))),
           "[2, 5, 448, 450]");
    mg_value q = input(&b, "q", SHAPE(2, 8, 5, 16)), kv = input(&b, "kv", SHAPE(2, 4, 9, 16)), out[3];
    cr_assert_eq(opn(&b, MG_OP_ATTENTION, VALUES(q, kv, kv), NO_ATTRS, 2, out), MG_OK);
    EXPECT(b, out[0], "[2, 8, 5, 16]");
    EXPECT(b, out[1], "[2, 8, 5, 1]");
    bench_close(&b);
}

Test(graph_shapes, elementwise_and_reductions)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 1, 6)), y = input(&b, "y", SHAPE(5, 1)), out[2];
    EXPECT(b, op1(&b, MG_OP_ADD, NULL, VALUES(x, y), NO_ATTRS), "[4, 5, 6]");
    mg_value less = op1(&b, MG_OP_LESS, NULL, VALUES(x, y), NO_ATTRS);
    cr_expect_eq(b.g->values[less].dtype, MG_DTYPE_BOOL);
    EXPECT(b, op1(&b, MG_OP_WHERE, NULL, VALUES(less, x, y), NO_ATTRS), "[4, 5, 6]");
    mg_value mean = op1(&b, MG_OP_REDUCE_MEAN, NULL, VALUES(x), ATTRS(LIST_OF(AXES, -1, 0), INT_OF(KEEPDIMS, 0)));
    EXPECT(b, mean, "[1]");
    cr_expect_eq(mg_op_attr_float(&b.g->ops[b.g->values[mean].producer], MG_ATTR_DIVISOR), 24);
    EXPECT(b, op1(&b, MG_OP_REDUCE_SUM, NULL, VALUES(x), NO_ATTRS), "[1, 1, 1]");
    EXPECT(b, op1(&b, MG_OP_ARG_MAX, NULL, VALUES(x), ATTRS(INT_OF(AXIS, -1), INT_OF(KEEPDIMS, 0))), "[4, 1]");
    EXPECT(b, op1(&b, MG_OP_SOFTMAX, NULL, VALUES(x), NO_ATTRS), "[4, 1, 6]");
    cr_assert_eq(opn(&b, MG_OP_DROPOUT, VALUES(x), NO_ATTRS, 2, out), MG_OK);
    cr_expect_eq(b.g->values[out[1]].dtype, MG_DTYPE_BOOL);
    mg_value logits = input(&b, "logits", SHAPE(8, 10, 3)), t = typed(&b, "t", MG_DTYPE_I64, SHAPE(8, 3));
    mg_value loss = op1(&b, MG_OP_CROSS_ENTROPY, NULL, VALUES(logits, t), NO_ATTRS);
    EXPECT(b, loss, "[]");
    cr_expect_eq(mg_op_attr_float(&b.g->ops[b.g->values[loss].producer], MG_ATTR_DIVISOR), 24);
    EXPECT(b, op1(&b, MG_OP_CROSS_ENTROPY_GRAD, NULL, VALUES(loss, logits, t), NO_ATTRS), "[8, 10, 3]");
    EXPECT(b, op1(&b, MG_OP_FILL, NULL, NULL, 0, ATTRS(LIST_OF(SHAPE, 2, 3), TEXT_OF(TO, "bf16"))), "[2, 3]");
    mg_value cast = op1(&b, MG_OP_CAST, NULL, VALUES(x), ATTRS(TEXT_OF(TO, "f16")));
    cr_expect_eq(b.g->values[cast].dtype, MG_DTYPE_F16);
    bench_close(&b);
}

Test(graph_shapes, normalisation_and_pooling)
{
    struct bench b;
    bench_open(&b);
    mg_value x = mg_graph_add_value(b.g, "x", MG_KIND_INPUT, MG_DTYPE_BF16, SHAPE(4, 6, 9, 11));
    mg_value s = mg_graph_add_value(b.g, "s", MG_KIND_WEIGHT, MG_DTYPE_BF16, SHAPE(11)), out[3];
    cr_assert_eq(opn(&b, MG_OP_LAYER_NORM, VALUES(x, s, s), NO_ATTRS, 3, out), MG_OK);
    EXPECT(b, out[1], "[4, 6, 9, 1]");
    cr_expect_eq(b.g->values[out[1]].dtype, MG_DTYPE_F32);
    mg_value d[3];
    cr_assert_eq(opn(&b, MG_OP_LAYER_NORM_GRAD, VALUES(x, x, out[1], out[2], s), NO_ATTRS, 3, d), MG_OK);
    EXPECT(b, d[2], "[11]");
    cr_assert_eq(opn(&b, MG_OP_LAYER_NORM_GRAD, VALUES(x, x, out[1], out[2]), NO_ATTRS, 1, d), MG_OK);
    cr_assert_eq(opn(&b, MG_OP_BATCH_NORM, VALUES(x), NO_ATTRS, 3, out), MG_OK);
    EXPECT(b, out[2], "[1, 6, 1, 1]");
    EXPECT(b, op1(&b, MG_OP_BN_APPLY, NULL, VALUES(x, out[1], out[2]), NO_ATTRS), "[4, 6, 9, 11]");
    cr_assert_eq(opn(&b, MG_OP_GROUP_NORM, VALUES(x), ATTRS(INT_OF(NUM_GROUPS, 3)), 3, out), MG_OK);
    EXPECT(b, out[1], "[4, 3, 1, 1]");
    struct mg_attr pool[] = {LIST_OF(KERNEL_SHAPE, 3, 3), LIST_OF(STRIDES, 2, 2), LIST_OF(PADS, 1, 1, 1, 1),
                             INT_OF(CEIL_MODE, 0)};
    mg_value p = op1(&b, MG_OP_MAX_POOL, NULL, VALUES(x), pool, 4);
    EXPECT(b, p, "[4, 6, 5, 6]");
    EXPECT(b, op1(&b, MG_OP_MAX_POOL_GRAD, NULL, VALUES(p, x), pool, 4), "[4, 6, 9, 11]");
    EXPECT(b, op1(&b, MG_OP_AVG_POOL_GRAD, NULL, VALUES(p), ATTRS(pool[0], pool[1], pool[2], LIST_OF(SPATIAL, 9, 11))),
           "[4, 6, 9, 11]");
    EXPECT(b,
           op1(&b, MG_OP_AVG_POOL, NULL, VALUES(x),
               ATTRS(LIST_OF(KERNEL_SHAPE, 2, 2), LIST_OF(STRIDES, 2, 2), INT_OF(CEIL_MODE, 1))),
           "[4, 6, 5, 6]");
    EXPECT(b, op1(&b, MG_OP_GLOBAL_AVG_POOL, NULL, VALUES(x), NO_ATTRS), "[4, 6, 1, 1]");
    EXPECT(b, op1(&b, MG_OP_RESIZE, NULL, VALUES(x), ATTRS(LIST_OF(SPATIAL, 18, 22))), "[4, 6, 18, 22]");
    bench_close(&b);
}

Test(graph_shapes, movement)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 6, 10)), out[3];
    EXPECT(b, op1(&b, MG_OP_RESHAPE, NULL, VALUES(x), ATTRS(LIST_OF(SHAPE, 0, -1, 5))), "[4, 12, 5]");
    EXPECT(b, op1(&b, MG_OP_FLATTEN, NULL, VALUES(x), ATTRS(INT_OF(AXIS, 2))), "[24, 10]");
    EXPECT(b, op1(&b, MG_OP_UNSQUEEZE, NULL, VALUES(x), ATTRS(LIST_OF(AXES, 0, -1))), "[1, 4, 6, 10, 1]");
    EXPECT(b, op1(&b, MG_OP_TRANSPOSE, NULL, VALUES(x), ATTRS(LIST_OF(PERM, 1, 2, 0))), "[6, 10, 4]");
    EXPECT(b, op1(&b, MG_OP_EXPAND, NULL, VALUES(x), ATTRS(LIST_OF(SHAPE, 3, 1, 6, 1))), "[3, 4, 6, 10]");
    EXPECT(b,
           op1(&b, MG_OP_SLICE, NULL, VALUES(x),
               ATTRS(LIST_OF(STARTS, 1, -100), LIST_OF(ENDS, 100, -1), LIST_OF(AXES, 2, 1), LIST_OF(STEPS, 4, 2))),
           "[4, 3, 3]");
    EXPECT(b, op1(&b, MG_OP_CONCAT, NULL, VALUES(x, x, x), ATTRS(INT_OF(AXIS, -2))), "[4, 18, 10]");
    cr_assert_eq(opn(&b, MG_OP_SPLIT, VALUES(x), ATTRS(INT_OF(AXIS, 1)), 3, out), MG_OK);
    EXPECT(b, out[2], "[4, 2, 10]");
    EXPECT(b, op1(&b, MG_OP_PAD, NULL, VALUES(x), ATTRS(LIST_OF(PADS, 0, 1, -2, 0, 2, 0))), "[4, 9, 8]");
    EXPECT(b, op1(&b, MG_OP_TILE, NULL, VALUES(x), ATTRS(LIST_OF(REPEATS, 1, 2, 3))), "[4, 12, 30]");
    mg_value i = typed(&b, "i", MG_DTYPE_I64, SHAPE(7, 8)), g;
    EXPECT(b, g = op1(&b, MG_OP_GATHER, NULL, VALUES(x, i), ATTRS(INT_OF(AXIS, 1))), "[4, 7, 8, 10]");
    g = (mg_value)(b.g->value_count - 1);
    EXPECT(b, op1(&b, MG_OP_SCATTER_ADD, NULL, VALUES(g, i), ATTRS(INT_OF(AXIS, 1), INT_OF(SIZE, 6))), "[4, 6, 10]");
    bench_close(&b);
}

Test(graph_shapes, errors_name_the_place)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 6)), w = input(&b, "w", SHAPE(5, 3)),
             h = typed(&b, "h", MG_DTYPE_F16, SHAPE(6, 3));
    FAILS(b, op1(&b, MG_OP_MATMUL, "fc", VALUES(x, w), NO_ATTRS), "operator 'fc' (matmul): shapes [4, 6] and [5, 3]",
          "/ops/0/inputs");
    bench_close(&b);
    bench_open(&b);
    x = input(&b, "x", SHAPE(4, 6)), h = typed(&b, "h", MG_DTYPE_F16, SHAPE(6, 3));
    FAILS(b, op1(&b, MG_OP_MATMUL, "fc", VALUES(x, h), NO_ATTRS), "operand 1 is f16", "/ops/0/inputs/1");
    FAILS(b, op1(&b, MG_OP_RELU, "r", VALUES(x), ATTRS(INT_OF(AXIS, 1))), "'axis' is not one of", "/ops/1/attrs/axis");
    FAILS(b, op1(&b, MG_OP_SOFTMAX, "s", VALUES(x), ATTRS(INT_OF(AXIS, 2))), "outside rank 2", "/ops/2/attrs/axis");
    FAILS(b, op1(&b, MG_OP_SOFTMAX, "s2", VALUES(x), ATTRS(REAL_OF(AXIS, 1))), "must be an integer",
          "/ops/3/attrs/axis");
    FAILS(b, op1(&b, MG_OP_CONCAT, "c", VALUES(x), NO_ATTRS), "'axis' is missing", "/ops/4/attrs/axis");
    FAILS(b, op1(&b, MG_OP_ADD, "a", VALUES(x), NO_ATTRS), "needs at least 2", "/ops/5/inputs");
    FAILS(b, op1(&b, MG_OP_RESHAPE, "rs", VALUES(x), ATTRS(LIST_OF(SHAPE, 5, -1))), "24 elements of [4, 6]",
          "/ops/6/attrs/shape");
    FAILS(b, op1(&b, MG_OP_GELU, "ge", VALUES(x), ATTRS(TEXT_OF(APPROXIMATE, "erf"))), "not one of none, tanh",
          "/ops/7/attrs/approximate");
    FAILS(b, op1(&b, MG_OP_RELU, "x", VALUES(x), NO_ATTRS), "already a value called x", "/ops/8/outputs");
    FAILS(b, op1(&b, MG_OP_TILE, "big", VALUES(x), ATTRS(LIST_OF(REPEATS, 1 << 30, 1 << 30))), "overflowing",
          "/ops/8/outputs/0");
    bench_close(&b);
}

Test(graph_shapes, attributes_take_only_their_values)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 6)), w = input(&b, "w", SHAPE(6, 4)), image = input(&b, "i", SHAPE(1, 2, 8));
    FAILS(b, op1(&b, MG_OP_MATMUL, "m", VALUES(x, w), ATTRS(INT_OF(TRANS_B, 7))), "'trans_b' is 7, must be 0 or 1",
          "/ops/0/attrs/trans_b");
    FAILS(b, op1(&b, MG_OP_REDUCE_SUM, "s", VALUES(x), ATTRS(INT_OF(KEEPDIMS, -1))), "'keepdims' is -1, must be 0 or 1",
          "/ops/1/attrs/keepdims");
    FAILS(b, op1(&b, MG_OP_MOMENT, "v", VALUES(x, x), ATTRS(INT_OF(POWER, 3))), "'power' is 3, must be 1 or 2",
          "/ops/2/attrs/power");
    FAILS(b, op1(&b, MG_OP_LP_NORM, "n", VALUES(x), ATTRS(INT_OF(P, 0))), "'p' is 0, must be 1 or 2", "/ops/3/attrs/p");
    FAILS(b, op1(&b, MG_OP_LP_POOL, "l", VALUES(image), ATTRS(LIST_OF(KERNEL_SHAPE, 2), INT_OF(P, 0))),
          "'p' is 0, must be at least 1", "/ops/4/attrs/p");
    bench_close(&b);
}

Test(graph_shapes, declared_results_must_agree)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 6));
    value_of(&b, MG_KIND_COMPUTED, "y", SHAPE(4, 6));
    value_of(&b, MG_KIND_COMPUTED, "z", SHAPE(6, 4));
    mg_value y = op1(&b, MG_OP_RELU, "y", VALUES(x), NO_ATTRS);
    cr_assert_neq(y, MG_NONE);
    FAILS(b, op1(&b, MG_OP_RELU, "z", VALUES(y), NO_ATTRS), "declared as f32 [6, 4], but is f32 [4, 6]",
          "/ops/1/outputs");
    bench_close(&b);
}

Test(graph_shapes, sizes_that_do_not_fit)
{
    cr_expect(mg_shape_fits(SHAPE(1 << 20, 1 << 20), MG_DTYPE_F64));
    cr_expect_not(mg_shape_fits(SHAPE(1 << 30, 1 << 30), MG_DTYPE_U8));
    cr_expect_not(mg_shape_fits(SHAPE(0, INT64_MAX, 2), MG_DTYPE_U8));
    cr_expect_not(mg_shape_fits(SHAPE(-1), MG_DTYPE_U8));
    cr_expect(mg_shape_fits(SHAPE(0, 3), MG_DTYPE_F32));
}
