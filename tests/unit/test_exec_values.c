/* Reference kernels against numbers that were computed by hand: operand values one after the other, then those of all
 * results. ONNX's node tests (test_onnx_nodes.c) do the same for what that format has in the same form. */
#include <math.h>

#include "base/digest.h"
#include "exec/exec.h"
#include "tests/unit/op_samples.h"

enum { MOST = 24 };
struct known {
    const char *sample;
    double in[MOST], out[MOST];
};

static const struct known known[] = {
    /* whole numbers are cut off and wrap around */
    {"add | u8:2 u8:2 | 1", {250, 3, 10, 4}, {4, 7}},
    {"sub | i8:2 i8:2 | 1", {-100, 5, 100, 6}, {56, -1}},
    {"div | i32:2 i32:2 | 1", {-7, 7, 2, 2}, {-3, 3}},
    {"floor_div | i32:2 i32:2 | 1", {-7, 7, 2, 2}, {-4, 3}},
    {"mod | i32:2 i32:2 | 1", {-7, 7, 3, -3}, {2, -2}},
    {"mod | i32:2 i32:2 | 1 | fmod=1", {-7, 7, 3, -3}, {-1, 1}},
    {"bit_shift | u8:2 u8:2 | 1 | direction=LEFT", {200, 3, 1, 2}, {144, 12}},
    {"bit_shift | u8:2 u8:2 | 1 | direction=RIGHT", {200, 3, 1, 2}, {100, 0}},
    {"bitwise_and | i32:2 i32:2 | 1", {6, -1, 3, 5}, {2, 5}},
    {"bitwise_or | i32:2 i32:2 | 1", {6, 8, 3, 1}, {7, 9}},
    {"bitwise_xor | i32:2 i32:2 | 1", {6, 8, 3, 8}, {5, 0}},
    {"bitwise_not | i8:2 | 1", {5, -1}, {-6, 0}},
    {"bitwise_not | u8:1 | 1", {5}, {250}},
    {"bitwise_not | bool:2 | 1", {1, 0}, {0, 1}},
    {"logical_xor | bool:4 bool:4 | 1", {0, 0, 1, 1, 0, 1, 0, 1}, {0, 1, 1, 0}},
    {"trunc | 2 | 1", {-1.7, 1.7}, {-1, 1}},
    {"sub | u16:2 u16:2 | 1", {1, 5, 2, 5}, {65535, 0}},
    {"add | u32:1 u32:1 | 1", {4294967295, 2}, {1}},
    {"mod | u32:1 u32:1 | 1", {4294967295, 10}, {5}},
    {"sub | u64:1 u64:1 | 1", {0, 4294967296}, {0x1p64 - 0x1p32}},
    {"bit_shift | u16:2 u16:2 | 1 | direction=LEFT", {40000, 3, 1, 2}, {14464, 12}},
    /* casts round to the nearest, ties to even */
    {"cast | 5 | 1 | to=f16", {0x1.002p0, 0x1.006p0, -65519, 1e-8, 0x1p-24}, {1, 0x1.008p0, -65504, 0, 0x1p-24}},
    {"cast | 4 | 1 | to=bf16", {0x1.01p0, 0x1.03p0, -0.1, 0x1p-140}, {1, 0x1.04p0, -0x1.9ap-4, 0}},
    {"cast | 6 | 1 | to=f8e4m3", {1.0625, 1.1875, 500, -1e300, 0.001, -17}, {1, 1.25, 448, -448, 0x1p-9, -16}},
    {"cast | 5 | 1 | to=f8e5m2", {1.125, 1.375, 1e9, 60000, 3e-5}, {1, 1.5, 57344, 57344, 0x1p-15}},
    {"cast | 2 | 1 | to=f64", {0.1, 1e300}, {0.1, 1e300}},
    /* functions */
    {"atan2 | 3 3 | 1", {1, 1, -1, 1, -1, -1}, {0.78539816339744831, 2.3561944901923449, -2.3561944901923449}},
    {"expm1 | 1 | 1", {1}, {1.7182818284590452}},
    {"log1p | 1 | 1", {1}, {0.69314718055994531}},
    {"log2 | 1 | 1", {8}, {3}},
    {"log10 | 1 | 1", {1000}, {3}},
    {"selu | 2 | 1", {1, -1}, {1.0507010221481323, -1.1113307412864784}},
    {"celu | 2 | 1 | alpha=2", {3, -1}, {3, -0.78693868057473315}},
    {"mish | 1 | 1", {1}, {0.8650983882673103}},
    {"softsign | 2 | 1", {-3, 1}, {-0.75, 0.5}},
    {"thresholded_relu | 3 | 1 | alpha=2", {1, 2, 3}, {0, 0, 3}},
    {"shrink | 3 | 1 | bias=0.5 lambd=1", {-2, 0.5, 3}, {-1.5, 0, 2.5}},
    {"prelu | 2,2 2 | 1", {-2, 3, 4, -4, 0.5, 0.25}, {-1, 3, 4, -1}},
    /* rows and reductions */
    {"reduce_l1 | 2,2 | 1 | axes=1 keepdims=0", {1, -2, 3, -4}, {3, 7}},
    {"reduce_l2 | 2,2 | 1 | axes=0 keepdims=0", {3, 5, 4, 12}, {5, 13}},
    {"reduce_sum_square | 3 | 1", {1, 2, 3}, {14}},
    {"reduce_log_sum_exp | 2 | 1", {1000, 1000}, {1000.69314718055995}},
    /* logits that swallow the logarithm of a sum */
    {"softmax | 4 | 1", {1e20, 1e20, 1e20, 1e20}, {0.25, 0.25, 0.25, 0.25}},
    {"log_softmax | 2 | 1", {1e20, 1e20}, {-0.69314718055994531, -0.69314718055994531}},
    {"cross_entropy | 1,2 i64:1 | 1", {1e20, 1e20, 1}, {0.69314718055994531}},
    {"cross_entropy_grad | s 1,2 i64:1 | 1", {1, 1e20, 1e20, 1}, {0.5, -0.5}},
    {"attention | 1,1,1,1 1,1,2,1 1,1,2,1 | 2", {1, 1e20, 1e20, 2, 4}, {3, 1e20}},
    {"attention_grad | 1,1,1,1 1,1,1,1 1,1,2,1 1,1,2,1 1,1,1,1 1,1,1,1 | 3",
     {1, 1, 1e20, 1e20, 2, 4, 3, 1e20},
     {0, -0.5, 0.5, 0.5, 0.5}},
    /* one of two equal keys: the other's share shows in the logarithm of the sum only */
    {"attention_grad | 1,1,1,1 1,1,1,1 1,1,1,1 1,1,1,1 1,1,1,1 1,1,1,1 | 3",
     {1, 1, 5, 2, 3, 5.6931471805599453},
     {-2.5, -0.5, 0.5}},
    {"reduce_max | i8:0 | 1 | keepdims=0", {0}, {-128}},
    {"arg_min | 4 | 1 | select_last_index=1", {3, 1, 2, 1}, {3}},
    {"hard_max | 2,3 | 1", {1, 3, 3, 5, 4, 2}, {0, 1, 0, 1, 0, 0}},
    {"lp_norm | 2 | 1", {3, 4}, {0.6, 0.8}},
    {"lp_norm | 2 | 1 | p=1", {-3, 1}, {-0.75, 0.25}},
    {"lrn | 1,3,1 | 1 | size=3 alpha=3 beta=1", {1, 2, 3}, {1.0 / 6, 2.0 / 15, 3.0 / 14}},
    {"mean_variance_norm | 2,2 | 1 | axes=1",
     {1, 3, 2, 6},
     {-1 / (1 + 1e-9), 1 / (1 + 1e-9), -2 / (2 + 1e-9), 2 / (2 + 1e-9)}},
    /* sums of products */
    {"einsum | 2,2 2,2 | 1 | equation=ij,jk", {1, 2, 3, 4, 5, 6, 7, 8}, {19, 22, 43, 50}},
    {"einsum | 2,2 | 1 | equation=ii->", {1, 2, 3, 4}, {5}},
    {"einsum | 2,2 | 1 | equation=ii->i", {1, 2, 3, 4}, {1, 4}},
    {"einsum | 2 3 | 1 | equation=i,j->ij", {1, 2, 3, 4, 5}, {3, 4, 5, 6, 8, 10}},
    {"einsum | 1,2,2 | 1 | equation=...ij->...ji", {1, 2, 3, 4}, {1, 3, 2, 4}},
    {"einsum | 2 2 2 | 1 | equation=i,i,i->", {1, 2, 3, 4, 5, 6}, {63}},
    {"matmul_integer | u8:1,2 u8:2,1 u8:s u8:s | 1", {3, 4, 5, 6, 1, 2}, {18}},
    {"qlinear_matmul | u8:1,2 s u8:s u8:2,1 s u8:s s u8:s | 1", {1, 2, 1, 0, 3, 4, 1, 0, 2, 1}, {7}},
    /* pooling, windows */
    {"lp_pool | 1,1,2 | 1 | kernel_shape=2", {3, 4}, {5}},
    {"avg_pool | 1,1,5 | 1 | kernel_shape=2 dilations=2", {1, 2, 3, 4, 5}, {2, 3, 4}},
    {"adaptive_avg_pool | 1,1,5 | 1 | spatial=3", {1, 2, 3, 4, 5}, {1.5, 3, 4.5}},
    {"im2col | 1,1,2,3 | 1 | kernel_shape=2,2", {1, 2, 3, 4, 5, 6}, {1, 2, 2, 3, 4, 5, 5, 6}},
    {"col2im | 1,2,2 | 1 | spatial=3 kernel_shape=2", {1, 2, 3, 4}, {1, 5, 4}},
    {"max_pool_indices | 1,1,4 | 2 | kernel_shape=2 strides=2", {1, 5, 7, 2}, {5, 7, 1, 2}},
    {"max_unpool | 1,1,2 i64:1,1,2 | 1 | spatial=4", {5, 7, 1, 2}, {0, 5, 7, 0}},
    {"resize | 1,1,2 | 1 | spatial=4 mode=linear coordinates=half_pixel", {1, 5}, {1, 2, 4, 5}},
    /* by index */
    {"top_k | 4 | 2 | k=2", {1, 3, 3, 2}, {3, 3, 1, 2}},
    {"one_hot | i64:2 2 | 1 | depth=3", {-1, 1, 0, 9}, {0, 0, 9, 0, 9, 0}},
    {"trilu | 2,3 | 1 | diagonal=1", {1, 2, 3, 4, 5, 6}, {0, 2, 3, 0, 0, 6}},
    {"trilu | 2,3 | 1 | upper=0", {1, 2, 3, 4, 5, 6}, {1, 0, 0, 4, 5, 0}},
    {"eye | | 1 | shape=2,3 to=f32 diagonal=1", {0}, {0, 1, 0, 0, 0, 1}},
    {"reverse | 2,2 | 1 | axes=0", {1, 2, 3, 4}, {3, 4, 1, 2}},
    {"roll | 2,3 | 1 | shifts=1 axes=1", {0, 1, 2, 3, 4, 5}, {2, 0, 1, 5, 3, 4}},
    {"reverse_sequence | 3,2 i64:2 | 1", {1, 2, 3, 4, 5, 6, 2, 3}, {3, 6, 1, 4, 5, 2}},
    {"gather_elements | 2,2 i64:2,1 | 1 | axis=1", {1, 2, 3, 4, 1, -2}, {2, 3}},
    {"scatter_elements | 3 i64:2 2 | 1 | reduction=add", {1, 2, 3, 2, 2, 10, 20}, {1, 2, 33}},
    {"gather_nd | 2,2 i64:2,2 | 1", {1, 2, 3, 4, 0, 1, 1, 0}, {2, 3}},
    {"scatter_nd | 3 i64:1,1 1 | 1 | reduction=max", {1, 2, 3, 1, 9}, {1, 9, 3}},
    /* quantized numbers */
    {"quantize_linear | 3 s u8:s | 1", {-10, 1.25, 300, 0.5, 1}, {0, 3, 255}},
    {"dequantize_linear | u8:2 s u8:s | 1", {3, 0, 0.5, 1}, {1, -0.5}},
    {"dynamic_quantize_linear | 2 | 3", {-1, 1}, {0, 255, 2.0 / 255, 128}},
};

static void compare(struct bench *b, const struct known *k, struct mg_graph *g)
{
    double **values = MG_NEW_ARRAY(&b->arena, double *, g->value_count);
    uint32_t at = 0;
    for (mg_value v = 0; v < g->value_count; v++) {
        if (g->values[v].kind == MG_KIND_COMPUTED)
            continue;
        int64_t count = mg_shape_elements(&g->values[v].shape);
        values[v] = MG_NEW_ARRAY(&b->arena, double, count + 1);
        for (int64_t i = 0; i < count; i++)
            values[v][i] = k->in[at++];
    }
    cr_assert_leq(at, MOST);
    cr_assert_eq(mg_exec_graph(g, 1, values, &b->arena, &b->err), MG_OK, "%s: %s", k->sample, b->err.message);
    at = 0;
    for (size_t o = 0; o < g->output_count; o++) {
        mg_value v = g->outputs[o];
        for (int64_t i = 0; i < mg_shape_elements(&g->values[v].shape); i++, at++)
            cr_expect(fabs(values[v][i] - k->out[at]) <= 1e-12 * fmax(1, fabs(k->out[at])),
                      "%s: number %u is %.17g, must be %.17g", k->sample, at, values[v][i], k->out[at]);
    }
    cr_assert_leq(at, MOST);
}

Test(exec_values, kernels_give_numbers_computed_by_hand)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct bench b;
        struct mg_graph *g;
        cr_assert(sample_build(&b, known[i].sample), "%s: %s", known[i].sample, b.err.message);
        for (uint32_t o = 0; o < b.g->ops[0].out_count; o++)
            mg_graph_add_output(b.g, b.g->ops[0].out[o]);
        cr_assert_eq(mg_graph_normalise(b.g, &b.arena, &g, &b.err), MG_OK, "%s: %s", known[i].sample, b.err.message);
        compare(&b, &known[i], g);
        bench_close(&b);
    }
}

/* The one result of a sample whose operands are these. */
static const double *result_of(struct bench *b, const char *sample, double *first, double *second)
{
    struct mg_graph *g;
    cr_assert(sample_build(b, sample), "%s: %s", sample, b->err.message);
    mg_value out = b->g->ops[0].out[0];
    mg_graph_add_output(b->g, out);
    cr_assert_eq(mg_graph_normalise(b->g, &b->arena, &g, &b->err), MG_OK, "%s: %s", sample, b->err.message);
    double **values = MG_NEW_ARRAY(&b->arena, double *, g->value_count);
    values[g->ops[0].in[0]] = first;
    values[g->ops[0].in[1]] = second;
    cr_assert_eq(mg_exec_graph(g, 1, values, &b->arena, &b->err), MG_OK, "%s: %s", sample, b->err.message);
    return values[g->outputs[0]];
}

static double inner(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void fill(struct mg_rng *rng, double *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = mg_rng_unit(rng) - 0.5;
}

enum { SIDE = 200, PLANE = SIDE * SIDE, INS = 3, OUTS = 4 };

/* y[f, row, column] of a 3 x 3 convolution with a padding of 1, as it is defined. */
static double convolved(const double *x, const double *w, int64_t f, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t c = 0; c < INS; c++)
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 3; j++) {
                int64_t r = row + i - 1, q = column + j - 1;
                if (r >= 0 && r < SIDE && q >= 0 && q < SIDE)
                    sum += x[c * PLANE + r * SIDE + q] * w[(f * INS + c) * 9 + i * 3 + j];
            }
    return sum;
}

/* Large enough for many ranges of output positions; <conv(x, w), dy> is linear in x and in w. */
Test(exec_values, a_large_convolution_and_its_gradients_agree)
{
    static double x[INS * PLANE], w[OUTS * INS * 9], dy[OUTS * PLANE];
    struct bench forward, to_x, to_w;
    struct mg_rng rng;
    mg_rng_init(&rng, 1);
    fill(&rng, x, INS * PLANE);
    fill(&rng, w, OUTS * INS * 9);
    fill(&rng, dy, OUTS * PLANE);
    const double *y = result_of(&forward, "conv | 1,3,200,200 4,3,3,3 | 1 | pads=1,1,1,1", x, w);
    for (int64_t f = 0; f < OUTS; f++)
        for (int64_t at = 0; at < PLANE; at += 97)
            cr_expect_float_eq(y[f * PLANE + at], convolved(x, w, f, at / SIDE, at % SIDE), 1e-12);
    const double *dx =
        result_of(&to_x, "conv_grad_input | 1,4,200,200 4,3,3,3 | 1 | spatial=200,200 pads=1,1,1,1", dy, w);
    const double *dw =
        result_of(&to_w, "conv_grad_weight | 1,4,200,200 1,3,200,200 | 1 | kernel_shape=3,3 pads=1,1,1,1", dy, x);
    double sum = inner(y, dy, OUTS * PLANE);
    cr_expect_float_eq(inner(dx, x, INS * PLANE), sum, 1e-9);
    cr_expect_float_eq(inner(dw, w, OUTS * INS * 9), sum, 1e-9);
    bench_close(&forward);
    bench_close(&to_x);
    bench_close(&to_w);
}
