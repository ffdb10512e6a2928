/* One small example at least for every operator of the table, for tests that run over all of them. */
#ifndef TESTS_OP_CASES_H
#define TESTS_OP_CASES_H

#include <float.h>

#include "exec/exec.h"
#include "graph/graph.h"

enum fill {
    FILL_WEIGHT,   /* reals of either sign, at least 0.5 from zero: differentiated */
    FILL_POSITIVE, /* positive reals: differentiated */
    FILL_INPUT,    /* reals of either sign: not differentiated */
    FILL_ABOVE,    /* positive reals: not differentiated */
    FILL_INDEX,    /* i64 below 3 */
    FILL_BOOL,
    FILL_STATE,     /* positive, of kind state */
    FILL_QUANTIZED, /* i8 below 3 */
    FILL_SMALL,     /* reals in (-0.75, 0.75): differentiated */
    FILL_LARGE,     /* reals of 1.25 to 2.25: differentiated */
};
struct operand {
    enum fill fill;
    uint32_t rank;
    int64_t dim[MG_MAX_RANK];
};
struct op_case {
    enum mg_op_type type;
    uint32_t in_count;
    struct operand in[9];
    uint32_t out_count;
    uint32_t attr_count;
    struct mg_attr attrs[6];
};

#define DIMS(...)                                                                                                      \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                                                \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define W(...)                                                                                                         \
    {                                                                                                                  \
        FILL_WEIGHT, DIMS(__VA_ARGS__)                                                                                 \
    }
#define P(...)                                                                                                         \
    {                                                                                                                  \
        FILL_POSITIVE, DIMS(__VA_ARGS__)                                                                               \
    }
#define X(...)                                                                                                         \
    {                                                                                                                  \
        FILL_INPUT, DIMS(__VA_ARGS__)                                                                                  \
    }
#define A(...)                                                                                                         \
    {                                                                                                                  \
        FILL_ABOVE, DIMS(__VA_ARGS__)                                                                                  \
    }
#define N(...)                                                                                                         \
    {                                                                                                                  \
        FILL_INDEX, DIMS(__VA_ARGS__)                                                                                  \
    }
#define B(...)                                                                                                         \
    {                                                                                                                  \
        FILL_BOOL, DIMS(__VA_ARGS__)                                                                                   \
    }
#define S(...)                                                                                                         \
    {                                                                                                                  \
        FILL_STATE, DIMS(__VA_ARGS__)                                                                                  \
    }
#define U(...)                                                                                                         \
    {                                                                                                                  \
        FILL_SMALL, DIMS(__VA_ARGS__)                                                                                  \
    }
#define V(...)                                                                                                         \
    {                                                                                                                  \
        FILL_LARGE, DIMS(__VA_ARGS__)                                                                                  \
    }
#define Q(...)                                                                                                         \
    {                                                                                                                  \
        FILL_QUANTIZED, DIMS(__VA_ARGS__)                                                                              \
    }
#define SCALAR(f)                                                                                                      \
    {                                                                                                                  \
        f, 0,                                                                                                          \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }
#define INT(k, v)                                                                                                      \
    {                                                                                                                  \
        .key = MG_ATTR_##k, .type = MG_ATTR_TYPE_INT, .i = v                                                           \
    }
#define REAL(k, v)                                                                                                     \
    {                                                                                                                  \
        .key = MG_ATTR_##k, .type = MG_ATTR_TYPE_FLOAT, .f = v                                                         \
    }
#define TEXT(k, v)                                                                                                     \
    {                                                                                                                  \
        .key = MG_ATTR_##k, .type = MG_ATTR_TYPE_STRING, .string = v                                                   \
    }
#define INTS(k, ...)                                                                                                   \
    {                                                                                                                  \
        .key = MG_ATTR_##k, .type = MG_ATTR_TYPE_INTS, .count = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),    \
        .ints = (const int64_t[])                                                                                      \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
/* CASE(type, operands, results, attributes) */
#define COUNT(type, ...) (sizeof((type[]){__VA_ARGS__}) / sizeof(type))
#define UNWRAP(...) __VA_ARGS__
#define CASE(id, ins, outs, attributes)                                                                                \
    {MG_OP_##id, COUNT(struct operand, UNWRAP ins),        {UNWRAP ins},                                               \
     outs,       COUNT(struct mg_attr, UNWRAP attributes), {UNWRAP attributes}},
#define PLAIN(id, ins, outs) {MG_OP_##id, COUNT(struct operand, UNWRAP ins), {UNWRAP ins}, outs, 0, {{0}}},
#define UNARY(id) PLAIN(id, (W(3, 4)), 1)
#define BINARY(id) PLAIN(id, (W(3, 4), W(3, 4)), 1) PLAIN(id, (W(2, 3, 4), W(4)), 1) PLAIN(id, (W(3, 1), W(2, 1, 4)), 1)
#define GRADIENT(id) PLAIN(id, (X(3, 4), X(3, 4)), 1)

/* clang-format off */
static const struct op_case op_cases[] = {
    PLAIN(MATMUL, (W(3, 4), W(4, 2)), 1)
    PLAIN(MATMUL, (W(2, 3, 4), W(4, 5)), 1)
    CASE(MATMUL, (W(2, 3, 4), W(5, 4)), 1, (INT(TRANS_B, 1)))
    CASE(MATMUL, (W(2, 4, 3), W(4, 5)), 1, (INT(TRANS_A, 1)))
    CASE(MATMUL, (W(2, 2, 4, 3), W(2, 2, 5, 4)), 1, (INT(TRANS_A, 1), INT(TRANS_B, 1)))
    PLAIN(MATMUL, (W(2, 1, 3, 4), W(3, 4, 2)), 1)
    PLAIN(MATMUL, (W(3, 4), W(2, 4, 5)), 1)
    PLAIN(MATMUL, (W(2, 3, 4), W(4, 5), W(2, 3, 5)), 1)
    CASE(MATMUL, (W(2, 3, 4), W(4, 5), W(3, 1)), 1, (REAL(ALPHA, 0.5)))
    CASE(GEMM, (W(3, 4), W(4, 2), W(2)), 1, (REAL(ALPHA, 0.5), REAL(BETA, 2)))
    CASE(GEMM, (W(4, 3), W(2, 4), W(3, 1)), 1, (INT(TRANS_A, 1), INT(TRANS_B, 1)))
    PLAIN(GEMM, (W(3, 4), W(4, 2)), 1)
    PLAIN(CONV, (W(2, 3, 5), W(4, 3, 3), W(2, 4, 3)), 1)
    PLAIN(CONV, (W(2, 3, 5), W(4, 3, 1), W(4), W(2, 4, 5)), 1)
    PLAIN(CONV, (W(2, 3, 5), W(4, 3, 3), W(4)), 1)
    CASE(CONV, (W(2, 4, 5, 6), W(6, 2, 3, 2)), 1,
         (INT(GROUP, 2), INTS(STRIDES, 2, 1), INTS(PADS, 1, 0, 1, 1), INTS(DILATIONS, 1, 2)))
    CASE(CONV, (W(1, 2, 3, 4, 3), W(2, 2, 2, 2, 2)), 1, (INTS(STRIDES, 1, 2, 1)))
    PLAIN(CONV, (W(2, 4, 3, 3), W(6, 4, 1, 1)), 1)
    CASE(CONV_TRANSPOSE, (W(2, 4, 3, 4), W(4, 3, 3, 2), W(6)), 1,
         (INT(GROUP, 2), INTS(STRIDES, 2, 2), INTS(PADS, 1, 0, 0, 1), INTS(OUTPUT_PADDING, 1, 0)))
    CASE(CONV_GRAD_INPUT, (W(2, 4, 3, 4), W(4, 3, 1, 1), W(2, 3, 3, 4)), 1, (INTS(SPATIAL, 3, 4)))
    CASE(CONV_GRAD_INPUT, (W(2, 4, 3), W(4, 3, 3), W(2, 3, 5)), 1, (INTS(SPATIAL, 5)))
    CASE(CONV_GRAD_INPUT, (W(2, 4, 3, 4), W(4, 3, 3, 2)), 1,
         (INTS(SPATIAL, 6, 5), INT(GROUP, 2), INTS(STRIDES, 2, 1), INTS(PADS, 1, 0, 0, 0)))
    CASE(CONV_GRAD_WEIGHT, (W(2, 4, 3, 4), W(2, 6, 6, 5)), 1,
         (INTS(KERNEL_SHAPE, 3, 2), INT(GROUP, 2), INTS(STRIDES, 2, 1), INTS(PADS, 1, 0, 0, 0)))
    CASE(EINSUM, (W(2, 3, 4), W(2, 4, 5)), 1, (TEXT(EQUATION, "bij,bjk->bik")))
    CASE(EINSUM, (W(2, 3, 4), W(4, 5)), 1, (TEXT(EQUATION, "...j , jk")))
    CASE(EINSUM, (W(3, 4), W(4), W(2, 3)), 1, (TEXT(EQUATION, "ij,j,ki->k")))
    CASE(EINSUM, (W(2, 3, 4), W(3)), 1, (TEXT(EQUATION, "abc,b->a"))) CASE(EINSUM, (W(3, 4)), 1, (TEXT(EQUATION, "ab->ba")))
    CASE(EINSUM, (X(3, 3, 4)), 1, (TEXT(EQUATION, "iik->ik"))) CASE(EINSUM, (W(1, 3, 4), W(2, 4, 3)), 1, (TEXT(EQUATION, "...ij,...ji->...i")))
    CASE(IM2COL, (W(2, 2, 5, 4)), 1, (INTS(KERNEL_SHAPE, 3, 2), INTS(STRIDES, 2, 1), INTS(PADS, 1, 0, 1, 0)))
    CASE(COL2IM, (W(2, 8, 4)), 1, (INTS(SPATIAL, 5, 3), INTS(KERNEL_SHAPE, 2, 2), INTS(STRIDES, 3, 2), INTS(PADS, 0, 0, 0, 1)))
    PLAIN(DET, (X(4, 3, 3)), 1)
    PLAIN(QUANTIZE_LINEAR, (X(2, 3, 4), A(3), Q(3)), 1) CASE(QUANTIZE_LINEAR, (X(2, 3), SCALAR(FILL_ABOVE)), 1, (TEXT(TO, "i8")))
    PLAIN(DEQUANTIZE_LINEAR, (Q(2, 3, 4), A(3), Q(3)), 1) PLAIN(DEQUANTIZE_LINEAR, (Q(2, 3), SCALAR(FILL_ABOVE)), 1)
    PLAIN(DYNAMIC_QUANTIZE_LINEAR, (X(3, 4)), 3)
    PLAIN(MATMUL_INTEGER, (Q(2, 3, 4), Q(4, 5)), 1) PLAIN(MATMUL_INTEGER, (Q(3, 4), Q(2, 4, 5), Q(3), Q(5)), 1)
    PLAIN(QLINEAR_MATMUL, (Q(3, 4), A(3), Q(3), Q(4, 5), A(5), Q(5), SCALAR(FILL_ABOVE), SCALAR(FILL_QUANTIZED)), 1)
    CASE(CONV_INTEGER, (Q(2, 3, 5), Q(4, 3, 3), SCALAR(FILL_QUANTIZED)), 1, (INTS(PADS, 1, 1)))
    PLAIN(CONV_INTEGER, (Q(2, 3, 5), Q(4, 3, 3), SCALAR(FILL_QUANTIZED), Q(4)), 1)
    PLAIN(QLINEAR_CONV, (Q(2, 3, 5), SCALAR(FILL_ABOVE), SCALAR(FILL_QUANTIZED), Q(4, 3, 3), A(4), Q(4), SCALAR(FILL_ABOVE), SCALAR(FILL_QUANTIZED), N(4)), 1)
    CASE(QLINEAR_CONV, (Q(2, 4, 5), SCALAR(FILL_ABOVE), SCALAR(FILL_QUANTIZED), Q(4, 2, 3), SCALAR(FILL_ABOVE), SCALAR(FILL_QUANTIZED), SCALAR(FILL_ABOVE), SCALAR(FILL_QUANTIZED)), 1, (INT(GROUP, 2)))
    BINARY(ADD) BINARY(SUB) BINARY(MUL) BINARY(DIV) BINARY(MAX) BINARY(MIN)
    PLAIN(POW, (P(3, 4), W(3, 4)), 1) PLAIN(POW, (P(2, 3, 4), W(3, 1)), 1)
    BINARY(MOD) CASE(MOD, (W(3, 4), W(4)), 1, (INT(FMOD, 1))) PLAIN(MOD, (N(3, 4), N(4)), 1)
    BINARY(FLOOR_DIV) BINARY(ATAN2)
    PLAIN(PRELU, (W(2, 3, 4), W(3, 1)), 1) PLAIN(PRELU, (W(3, 4), W(3, 4)), 1) PLAIN(PRELU, (W(3, 4), SCALAR(FILL_WEIGHT)), 1)
    PLAIN(PRELU_GRAD, (X(2, 3, 4), X(2, 3, 4), X(3, 1)), 1)
    PLAIN(LOGICAL_XOR, (B(3, 4), B(4)), 1)
    PLAIN(BITWISE_AND, (N(3, 4), N(4)), 1) PLAIN(BITWISE_OR, (N(3, 4), N(3, 4)), 1)
    PLAIN(BITWISE_XOR, (N(3, 4), N(3, 1)), 1) PLAIN(BITWISE_NOT, (N(3, 4)), 1)
    CASE(BIT_SHIFT, (N(3, 4), N(4)), 1, (TEXT(DIRECTION, "LEFT")))
    UNARY(TRUNC) UNARY(IS_NAN) UNARY(IS_INF)
    UNARY(TAN) UNARY(ATAN) UNARY(SINH) UNARY(COSH) UNARY(ASINH) UNARY(EXPM1)
    PLAIN(ASIN, (U(3, 4)), 1) PLAIN(ACOS, (U(3, 4)), 1) PLAIN(ATANH, (U(3, 4)), 1) PLAIN(ACOSH, (V(3, 4)), 1)
    PLAIN(LOG1P, (P(3, 4)), 1) PLAIN(LOG2, (P(3, 4)), 1) PLAIN(LOG10, (P(3, 4)), 1)
    UNARY(SOFTSIGN) UNARY(SELU) UNARY(CELU) CASE(CELU, (W(3, 4)), 1, (REAL(ALPHA, 0.6))) UNARY(MISH)
    CASE(THRESHOLDED_RELU, (W(3, 4)), 1, (REAL(ALPHA, 0.9)))
    CASE(SHRINK, (W(3, 4)), 1, (REAL(BIAS, 0.2), REAL(LAMBD, 0.8)))
    GRADIENT(SOFTSIGN_GRAD) GRADIENT(SELU_GRAD) GRADIENT(CELU_GRAD) GRADIENT(MISH_GRAD)
    GRADIENT(THRESHOLDED_RELU_GRAD) GRADIENT(SHRINK_GRAD)
    CASE(REDUCE_L1, (W(2, 3, 4)), 1, (INTS(AXES, 1)))
    CASE(REDUCE_L2, (W(2, 3, 4)), 1, (INTS(AXES, 0, 2), INT(KEEPDIMS, 0)))
    CASE(REDUCE_SUM_SQUARE, (W(2, 3, 4)), 1, (INTS(AXES, -1)))
    CASE(REDUCE_LOG_SUM, (P(2, 3, 4)), 1, (INTS(AXES, 1), INT(KEEPDIMS, 0)))
    CASE(REDUCE_LOG_SUM_EXP, (W(2, 3, 4)), 1, (INTS(AXES, 0, 1)))
    CASE(ARG_MIN, (X(2, 3, 4)), 1, (INT(AXIS, 1)))
    CASE(HARD_MAX, (X(2, 3, 4)), 1, (INT(AXIS, 1)))
    PLAIN(LP_NORM, (W(2, 3, 4)), 1) CASE(LP_NORM, (W(2, 3, 4)), 1, (INT(AXIS, 1), INT(P, 1)))
    BINARY(EQUAL) BINARY(NOT_EQUAL) BINARY(GREATER) BINARY(GREATER_OR_EQUAL) BINARY(LESS) BINARY(LESS_OR_EQUAL)
    PLAIN(LOGICAL_AND, (B(3, 4), B(4)), 1) PLAIN(LOGICAL_OR, (B(3, 4), B(3, 4)), 1)
    PLAIN(WHERE, (B(3, 4), W(3, 4), W(3, 4)), 1) PLAIN(WHERE, (B(3, 1), W(4), W(2, 1, 1)), 1)
    PLAIN(SQUARED_ERROR, (W(3, 4), W(3, 4)), 1)
    PLAIN(SQUARED_ERROR_GRAD, (X(3, 4), X(3, 4), X(3, 4)), 1)
    CASE(AFFINE, (W(3, 4)), 1, (REAL(ALPHA, -2), REAL(BETA, 0.25)))
    UNARY(NEG) UNARY(ABS) UNARY(SIGN) UNARY(FLOOR) UNARY(CEIL) UNARY(ROUND)
    PLAIN(LOGICAL_NOT, (B(3, 4)), 1)
    UNARY(EXP) UNARY(RECIPROCAL) UNARY(ERF) UNARY(SIN) UNARY(COS) UNARY(TANH) UNARY(SIGMOID) UNARY(RELU)
    PLAIN(LOG, (P(3, 4)), 1) PLAIN(SQRT, (P(3, 4)), 1) PLAIN(RSQRT, (P(3, 4)), 1)
    UNARY(LEAKY_RELU) UNARY(ELU) UNARY(SILU) UNARY(GELU)
    CASE(ELU, (W(3, 4)), 1, (REAL(ALPHA, 0.7)))
    CASE(GELU, (W(3, 4)), 1, (TEXT(APPROXIMATE, "tanh")))
    UNARY(HARD_SWISH) UNARY(HARD_SIGMOID) UNARY(SOFTPLUS)
    CASE(CLIP, (W(3, 4)), 1, (REAL(MIN, -1.03), REAL(MAX, 0.87)))
    CASE(CAST, (W(3, 4)), 1, (TEXT(TO, "f64")))
    CASE(CAST, (X(3, 4)), 1, (TEXT(TO, "i32")))
    UNARY(COPY)
    CASE(DROPOUT, (W(4, 6)), 2, (REAL(RATIO, 0.4), INT(SEED, 7)))
    GRADIENT(RELU_GRAD) GRADIENT(LEAKY_RELU_GRAD) GRADIENT(ELU_GRAD) GRADIENT(SIGMOID_GRAD) GRADIENT(TANH_GRAD)
    GRADIENT(ERF_GRAD) GRADIENT(SILU_GRAD) GRADIENT(GELU_GRAD) GRADIENT(HARD_SWISH_GRAD) GRADIENT(HARD_SIGMOID_GRAD)
    GRADIENT(SOFTPLUS_GRAD) GRADIENT(CLIP_GRAD)
    PLAIN(DROPOUT_GRAD, (X(3, 4), B(3, 4)), 1)
    CASE(REDUCE_SUM, (W(2, 3, 4)), 1, (INTS(AXES, 1)))
    CASE(REDUCE_SUM, (W(2, 3, 4)), 1, (INTS(AXES, 0, 2), INT(KEEPDIMS, 0)))
    CASE(REDUCE_MEAN, (W(2, 3, 4)), 1, (INTS(AXES, -1), INT(KEEPDIMS, 0)))
    PLAIN(REDUCE_MEAN, (W(2, 3, 4)), 1)
    CASE(REDUCE_MAX, (W(2, 3, 4)), 1, (INTS(AXES, 1)))
    CASE(REDUCE_MIN, (W(2, 3, 4)), 1, (INTS(AXES, 0, 1), INT(KEEPDIMS, 0)))
    CASE(REDUCE_PROD, (W(2, 3, 4)), 1, (INTS(AXES, 1, 2), INT(KEEPDIMS, 0)))
    CASE(ARG_MAX, (X(2, 3, 4)), 1, (INT(AXIS, 1), INT(KEEPDIMS, 0)))
    CASE(CUMSUM, (W(2, 3, 4)), 1, (INT(AXIS, 1)))
    CASE(CUMSUM, (W(2, 3, 4)), 1, (INT(AXIS, -1), INT(EXCLUSIVE, 1), INT(REVERSE, 1)))
    PLAIN(SOFTMAX, (W(2, 3, 4)), 1) CASE(SOFTMAX, (W(2, 3, 4)), 1, (INT(AXIS, 1)))
    PLAIN(LOG_SOFTMAX, (W(2, 3, 4)), 1)
    PLAIN(SOFTMAX_GRAD, (X(2, 3, 4), X(2, 3, 4)), 1) PLAIN(LOG_SOFTMAX_GRAD, (X(2, 3, 4), X(2, 3, 4)), 1)
    PLAIN(CROSS_ENTROPY, (W(4, 3), N(4)), 1) PLAIN(CROSS_ENTROPY, (W(4, 3, 2), N(4, 2)), 1)
    CASE(CROSS_ENTROPY, (W(5, 3), N(5)), 1, (INT(IGNORE_INDEX, 1)))
    PLAIN(NLL_LOSS, (W(4, 3, 2), N(4, 2)), 1) CASE(NLL_LOSS, (W(5, 3), N(5)), 1, (INT(IGNORE_INDEX, 1)))
    PLAIN(NLL_LOSS_GRAD, (SCALAR(FILL_INPUT), X(4, 3), N(4)), 1)
    PLAIN(CROSS_ENTROPY_GRAD, (SCALAR(FILL_INPUT), X(4, 3), N(4)), 1)
    PLAIN(LAYER_NORM, (W(2, 3, 4)), 3) CASE(LAYER_NORM, (W(2, 3, 4), W(3, 4), W(3, 4)), 3, (INT(AXIS, 1)))
    PLAIN(LAYER_NORM_GRAD, (X(2, 3, 4), X(2, 3, 4), X(2, 3, 1), A(2, 3, 1)), 1)
    PLAIN(LAYER_NORM_GRAD, (X(2, 3, 4), X(2, 3, 4), X(2, 3, 1), A(2, 3, 1), X(4)), 3)
    PLAIN(RMS_NORM, (W(2, 3, 4), W(4)), 2) PLAIN(RMS_NORM, (W(2, 3, 4)), 2)
    PLAIN(RMS_NORM_GRAD, (X(2, 3, 4), X(2, 3, 4), A(2, 3, 1), X(4)), 2)
    PLAIN(BATCH_NORM, (W(3, 2, 4), W(2), W(2)), 3) PLAIN(BATCH_NORM, (W(3, 2, 2, 2)), 3)
    PLAIN(BATCH_NORM_GRAD, (X(3, 2, 4), X(3, 2, 4), X(1, 2, 1), A(1, 2, 1), X(2)), 3)
    PLAIN(BN_APPLY, (X(3, 2, 4), X(1, 2, 1), A(1, 2, 1), X(2), X(2)), 1)
    PLAIN(BATCH_NORM_INFERENCE, (W(3, 2, 4), W(2), W(2), X(2), A(2)), 1)
    PLAIN(STAT_UPDATE, (S(4), X(1, 4, 1)), 1)
    CASE(STAT_UPDATE, (S(4), A(1, 4, 1)), 1, (INT(VARIANCE, 1), INT(ELEMENTS, 6)))
    CASE(GROUP_NORM, (W(2, 4, 3), W(4), W(4)), 3, (INT(NUM_GROUPS, 2)))
    CASE(GROUP_NORM_GRAD, (X(2, 4, 3), X(2, 4, 3), X(2, 2, 1), A(2, 2, 1), X(4)), 3, (INT(NUM_GROUPS, 2)))
    PLAIN(INSTANCE_NORM, (W(2, 4, 3), W(4), W(4)), 3)
    PLAIN(INSTANCE_NORM_GRAD, (X(2, 4, 3), X(2, 4, 3), X(2, 4, 1), A(2, 4, 1), X(4)), 3)
    CASE(MAX_POOL, (W(2, 2, 5, 6)), 1, (INTS(KERNEL_SHAPE, 3, 2), INTS(STRIDES, 2, 2), INTS(PADS, 1, 0, 1, 0)))
    CASE(MAX_POOL_GRAD, (X(2, 2, 3, 3), X(2, 2, 5, 6)), 1,
         (INTS(KERNEL_SHAPE, 3, 2), INTS(STRIDES, 2, 2), INTS(PADS, 1, 0, 1, 0)))
    CASE(AVG_POOL, (W(2, 2, 5, 6)), 1, (INTS(KERNEL_SHAPE, 3, 2), INTS(STRIDES, 2, 2), INTS(PADS, 1, 0, 1, 0)))
    CASE(AVG_POOL, (W(1, 2, 5)), 1,
         (INTS(KERNEL_SHAPE, 3), INTS(STRIDES, 2), INTS(PADS, 1, 0), INT(COUNT_INCLUDE_PAD, 0), INT(CEIL_MODE, 1)))
    CASE(AVG_POOL_GRAD, (X(2, 2, 3, 3)), 1,
         (INTS(SPATIAL, 5, 6), INTS(KERNEL_SHAPE, 3, 2), INTS(STRIDES, 2, 2), INTS(PADS, 1, 0, 1, 0)))
    CASE(LRN, (W(2, 5, 3)), 1, (INT(SIZE, 3), REAL(ALPHA, 0.5))) CASE(LRN, (W(2, 5, 3)), 1, (INT(SIZE, 4), REAL(ALPHA, 2)))
    CASE(LRN_GRAD, (X(2, 5, 3), X(2, 5, 3)), 1, (INT(SIZE, 3), REAL(ALPHA, 0.5)))
    CASE(MEAN_VARIANCE_NORM, (W(2, 3, 4, 2)), 1, (INTS(AXES, 0, 2, 3))) CASE(MEAN_VARIANCE_NORM, (W(3, 4)), 1, (INTS(AXES, -1)))
    CASE(LP_POOL, (W(2, 2, 5, 6)), 1, (INTS(KERNEL_SHAPE, 3, 2), INTS(STRIDES, 2, 2), INTS(PADS, 1, 0, 1, 0)))
    CASE(LP_POOL, (W(1, 2, 5)), 1, (INTS(KERNEL_SHAPE, 2), INTS(DILATIONS, 2), INT(P, 3)))
    CASE(LP_POOL_GRAD, (X(2, 2, 4), X(2, 2, 5)), 1, (INTS(KERNEL_SHAPE, 2)))
    CASE(AVG_POOL, (W(2, 2, 7)), 1, (INTS(KERNEL_SHAPE, 3), INTS(DILATIONS, 2), INTS(PADS, 1, 1), INT(COUNT_INCLUDE_PAD, 0)))
    CASE(MAX_POOL_INDICES, (W(2, 2, 4, 6)), 2, (INTS(KERNEL_SHAPE, 2, 3), INTS(STRIDES, 2, 3)))
    CASE(MAX_UNPOOL, (W(1, 1, 1, 1), N(1, 1, 1, 1)), 1, (INTS(SPATIAL, 2, 2)))
    CASE(ADAPTIVE_AVG_POOL, (W(2, 3, 7, 4)), 1, (INTS(SPATIAL, 3, 2)))
    CASE(ADAPTIVE_AVG_POOL_GRAD, (X(2, 3, 3, 2)), 1, (INTS(SPATIAL, 7, 4)))
    CASE(RESIZE, (W(2, 2, 4, 5)), 1, (INTS(SPATIAL, 7, 3), TEXT(MODE, "cubic"), TEXT(COORDINATES, "half_pixel")))
    CASE(RESIZE, (W(1, 2, 6)), 1, (INTS(SPATIAL, 3), TEXT(MODE, "linear"), TEXT(COORDINATES, "pytorch_half_pixel"), INT(ANTIALIAS, 1), REAL(SCALES_W, 0.6)))
    CASE(RESIZE, (W(1, 2, 4)), 1, (INTS(SPATIAL, 9), TEXT(MODE, "cubic"), TEXT(COORDINATES, "half_pixel_symmetric"), INT(EXCLUDE_OUTSIDE, 1)))
    PLAIN(GRID_SAMPLE, (X(2, 3, 4, 5), X(2, 3, 2, 2)), 1)
    CASE(GRID_SAMPLE, (X(2, 3, 4), X(2, 6, 1)), 1, (TEXT(MODE, "nearest"), TEXT(PADDING, "border"), INT(ALIGN_CORNERS, 1)))
    CASE(GRID_SAMPLE, (X(2, 3, 4, 5), X(2, 3, 2, 2)), 1, (TEXT(MODE, "cubic"), TEXT(PADDING, "reflection")))
    CASE(ROI_ALIGN, (X(3, 2, 5, 6), A(4, 4), N(4)), 1, (INTS(SPATIAL, 2, 3), REAL(SPATIAL_SCALE, 2)))
    CASE(ROI_ALIGN, (X(3, 2, 5, 6), A(4, 4), N(4)), 1, (INTS(SPATIAL, 2, 2), TEXT(MODE, "max"), TEXT(COORDINATES, "output_half_pixel"), INT(SAMPLING_RATIO, 2)))
    PLAIN(GLOBAL_AVG_POOL, (W(2, 3, 2, 4)), 1) PLAIN(GLOBAL_MAX_POOL, (W(2, 3, 2, 4)), 1)
    CASE(GLOBAL_AVG_POOL_GRAD, (X(2, 3, 1, 1)), 1, (INTS(SPATIAL, 2, 4)))
    PLAIN(GLOBAL_MAX_POOL_GRAD, (X(2, 3, 1, 1), X(2, 3, 2, 4)), 1)
    CASE(RESIZE, (W(2, 2, 3, 2)), 1, (INTS(SPATIAL, 6, 4)))
    CASE(RESIZE, (W(2, 2, 3, 2)), 1, (INTS(SPATIAL, 7, 3), TEXT(MODE, "linear"), TEXT(COORDINATES, "half_pixel")))
    CASE(RESIZE, (W(1, 2, 4)), 1, (INTS(SPATIAL, 7), TEXT(MODE, "linear"), TEXT(COORDINATES, "align_corners")))
    CASE(RESIZE_GRAD, (X(2, 2, 6, 4)), 1, (INTS(SPATIAL, 3, 2)))
    CASE(RESHAPE, (W(4, 3, 2)), 1, (INTS(SHAPE, 4, 6))) CASE(RESHAPE, (W(4, 6)), 1, (INTS(SHAPE, 2, 2, -1)))
    CASE(RESHAPE, (W(2, 3, 4)), 1, (INTS(SHAPE, 6, 4)))
    PLAIN(SQUEEZE, (W(3, 1, 4, 1)), 1) CASE(UNSQUEEZE, (W(3, 4)), 1, (INTS(AXES, 0, 2)))
    CASE(FLATTEN, (W(2, 3, 4)), 1, (INT(AXIS, 2))) PLAIN(FLATTEN, (W(2, 3, 4)), 1)
    CASE(EXPAND, (W(3, 1)), 1, (INTS(SHAPE, 2, 3, 4)))
    CASE(TRANSPOSE, (W(2, 3, 4)), 1, (INTS(PERM, 1, 2, 0))) PLAIN(TRANSPOSE, (W(2, 3)), 1)
    CASE(SLICE, (W(4, 6)), 1, (INTS(STARTS, 1), INTS(ENDS, 6), INTS(AXES, 1), INTS(STEPS, 2)))
    CASE(SLICE_GRAD, (W(4, 3)), 1,
         (INTS(SHAPE, 4, 6), INTS(STARTS, 1), INTS(ENDS, 6), INTS(AXES, 1), INTS(STEPS, 2)))
    CASE(SPLIT, (W(4, 6)), 3, (INT(AXIS, 1), INTS(SPLIT, 1, 3, 2)))
    CASE(CONCAT, (W(4, 1), W(4, 3), W(4, 2)), 1, (INT(AXIS, 1)))
    CASE(PAD, (W(3, 4)), 1, (INTS(PADS, 1, 0, 0, 2), REAL(VALUE, 0.3)))
    CASE(PAD, (W(3, 4)), 1, (INTS(PADS, 0, -1, 0, 2)))
    CASE(PAD, (X(3, 4)), 1, (INTS(PADS, 0, 2, 0, 3), TEXT(MODE, "reflect")))
    CASE(PAD, (X(3, 4)), 1, (INTS(PADS, 0, 2, 0, 3), TEXT(MODE, "edge")))
    CASE(TILE, (W(3, 2, 2)), 1, (INTS(REPEATS, 2, 1, 3)))
    PLAIN(GATHER, (W(3, 4), N(2, 5)), 1) CASE(GATHER, (W(2, 3, 4), N(5)), 1, (INT(AXIS, 1)))
    CASE(SCATTER_ADD, (W(5, 4), N(5)), 1, (INT(SIZE, 3)))
    CASE(SCATTER_ADD, (W(2, 5, 4), N(5)), 1, (INT(AXIS, 1), INT(SIZE, 3)))
    CASE(GATHER_ELEMENTS, (W(2, 3, 4), N(2, 3, 5)), 1, (INT(AXIS, -1)))
    PLAIN(GATHER_ELEMENTS, (W(3, 4), N(2, 4)), 1) PLAIN(GATHER_ELEMENTS, (W(3, 4), N(2, 3)), 1)
    CASE(SCATTER_ELEMENTS, (W(4, 3), N(2, 3), W(2, 3)), 1, (TEXT(REDUCTION, "add")))
    CASE(SCATTER_ELEMENTS, (X(2, 3, 4), N(2, 3, 3), X(2, 3, 3)), 1, (INT(AXIS, 2), TEXT(REDUCTION, "mul")))
    CASE(SCATTER_ELEMENTS, (X(2, 3, 4), N(2, 3, 3), X(2, 3, 3)), 1, (INT(AXIS, 2), TEXT(REDUCTION, "max")))
    CASE(SCATTER_ELEMENTS, (W(2, 4), N(2, 1), W(2, 1)), 1, (INT(AXIS, 1)))
    PLAIN(GATHER_ND, (W(3, 4, 2), N(2, 5, 1)), 1) PLAIN(GATHER_ND, (W(3, 3, 2), N(5, 2)), 1)
    CASE(GATHER_ND, (W(2, 3, 4), N(2, 5, 1)), 1, (INT(BATCH_DIMS, 1)))
    CASE(SCATTER_ND, (W(3, 4, 2), N(5, 1), W(5, 4, 2)), 1, (TEXT(REDUCTION, "add")))
    CASE(SCATTER_ND, (W(2, 3, 4), N(2, 1, 1), W(2, 1, 4)), 1, (INT(BATCH_DIMS, 1)))
    CASE(ONE_HOT, (N(2, 3), X(2)), 1, (INT(DEPTH, 4), INT(AXIS, 1)))
    CASE(TOP_K, (W(2, 5, 3)), 2, (INT(K, 2), INT(AXIS, 1))) CASE(TOP_K, (W(2, 4)), 2, (INT(K, 4), INT(LARGEST, 0)))
    CASE(TRILU, (W(2, 3, 4)), 1, (INT(DIAGONAL, 1))) CASE(TRILU, (W(2, 3, 4)), 1, (INT(UPPER, 0), INT(DIAGONAL, -1)))
    CASE(REVERSE, (W(2, 3, 4)), 1, (INTS(AXES, 0, 2)))
    CASE(ROLL, (W(2, 3, 4)), 1, (INTS(SHIFTS, 1, -6), INTS(AXES, 1, -1)))
    PLAIN(REVERSE_SEQUENCE, (W(3, 2, 4), N(2)), 1)
    CASE(REVERSE_SEQUENCE, (W(2, 3, 4), N(2)), 1, (INT(BATCH_AXIS, 0), INT(TIME_AXIS, 1)))
    CASE(BERNOULLI, (A(3, 4)), 1, (INT(SEED, 3))) CASE(MULTINOMIAL, (X(3, 4)), 1, (INT(SAMPLE_SIZE, 6)))
    {MG_OP_EYE, 0, {{0}}, 1, 3, {INTS(SHAPE, 4, 3), TEXT(TO, "f32"), INT(DIAGONAL, -1)}},
    {MG_OP_RANDOM_NORMAL, 0, {{0}}, 1, 4, {INTS(SHAPE, 4, 3), TEXT(TO, "f32"), REAL(MEAN, 1), INT(SEED, 2)}},
    {MG_OP_RANDOM_UNIFORM, 0, {{0}}, 1, 4, {INTS(SHAPE, 4, 3), TEXT(TO, "f32"), REAL(LOW, -2), REAL(HIGH, 3)}},
    CASE(DEPTH_TO_SPACE, (W(2, 8, 2, 3)), 1, (INT(BLOCKSIZE, 2)))
    CASE(DEPTH_TO_SPACE, (W(2, 8, 2, 3)), 1, (INT(BLOCKSIZE, 2), TEXT(MODE, "CRD")))
    CASE(SPACE_TO_DEPTH, (W(2, 2, 4, 6)), 1, (INT(BLOCKSIZE, 2)))
    CASE(SPACE_TO_DEPTH, (W(2, 2, 4, 6)), 1, (INT(BLOCKSIZE, 2), TEXT(MODE, "CRD")))
    {MG_OP_FILL, 0, {{0}}, 1, 3, {INTS(SHAPE, 4, 3), TEXT(TO, "f32"), REAL(VALUE, 2.5)}},
    {MG_OP_IOTA, 0, {{0}}, 1, 4, {INT(SIZE, 7), TEXT(TO, "f32"), REAL(START, 1), REAL(DELTA, 0.5)}},
    PLAIN(ATTENTION, (W(2, 2, 3, 4), W(2, 2, 3, 4), W(2, 2, 3, 5)), 2)
    CASE(ATTENTION, (W(2, 4, 3, 2), W(2, 2, 3, 2), W(2, 2, 3, 2)), 2, (INT(CAUSAL, 1)))
    PLAIN(ATTENTION, (W(2, 2, 3, 4), W(2, 2, 5, 4), W(2, 2, 5, 4), X(3, 5)), 2)
    PLAIN(ATTENTION, (W(2, 2, 3, 4), W(2, 2, 5, 4), W(2, 2, 5, 4), X(2, 1, 1, 5)), 2)
    PLAIN(ATTENTION_GRAD,
          (X(2, 2, 3, 4), X(2, 2, 3, 4), X(2, 2, 3, 4), X(2, 2, 3, 4), X(2, 2, 3, 4), A(2, 2, 3, 1)), 3)
    CASE(ATTENTION_GRAD,
         (X(2, 4, 3, 2), X(2, 4, 3, 2), X(2, 2, 3, 2), X(2, 2, 3, 2), X(2, 4, 3, 2), A(2, 4, 3, 1)), 3,
         (INT(CAUSAL, 1)))
    CASE(LSTM, (X(3, 2, 4), X(1, 12, 4), X(1, 12, 3), X(1, 24), X(1, 2, 3), X(1, 2, 3)), 3, (INT(HIDDEN_SIZE, 3)))
    CASE(LSTM, (X(3, 2, 4), X(1, 12, 4), X(1, 12, 3)), 3, (INT(HIDDEN_SIZE, 3), INT(REVERSE, 1)))
    CASE(LSTM, (X(3, 2, 4), X(1, 12, 4), X(1, 12, 3), X(1, 24), X(1, 2, 3), X(1, 2, 3), X(1, 9)), 3, (INT(HIDDEN_SIZE, 3)))
    CASE(GRU, (X(3, 2, 4), X(1, 9, 4), X(1, 9, 3), X(1, 18)), 2, (INT(HIDDEN_SIZE, 3), INT(LINEAR_BEFORE_RESET, 1)))
    CASE(RNN, (X(3, 2, 4), X(1, 3, 4), X(1, 3, 3), X(1, 6), X(1, 2, 3)), 2, (INT(HIDDEN_SIZE, 3)))
    CASE(RNN, (X(3, 2, 4), X(1, 3, 4), X(1, 3, 3)), 2, (INT(HIDDEN_SIZE, 3), INT(REVERSE, 1), TEXT(ACTIVATION, "relu")))
    CASE(GRU, (X(3, 2, 4), X(1, 9, 4), X(1, 9, 3), X(1, 18), X(1, 2, 3)), 2, (INT(HIDDEN_SIZE, 3)))
    CASE(SGD, (S(3, 4), X(3, 4)), 1, (REAL(LR, 0.1), REAL(WEIGHT_DECAY, 0.2)))
    PLAIN(MOMENTUM, (S(3, 4), X(3, 4)), 1)
    PLAIN(ASSIGN, (S(3, 4), X(3, 4)), 1) PLAIN(MOMENT, (S(3, 4), X(3, 4)), 1) CASE(MOMENT, (S(3, 4), X(3, 4)), 1, (INT(POWER, 2)))
    CASE(ADAM, (S(3, 4), X(3, 4), A(3, 4)), 1, (INT(STEP, 3)))
    CASE(ADAMW, (S(3, 4), X(3, 4), A(3, 4)), 1, (INT(STEP, 3)))
};
/* clang-format on */
enum { OP_CASE_COUNT = sizeof op_cases / sizeof op_cases[0] };

static enum mg_kind case_kind(enum fill fill)
{
    switch (fill) {
    case FILL_WEIGHT:
    case FILL_POSITIVE:
    case FILL_SMALL:
    case FILL_LARGE:
        return MG_KIND_WEIGHT;
    case FILL_STATE:
        return MG_KIND_STATE;
    default:
        return MG_KIND_INPUT;
    }
}

static enum mg_dtype case_dtype(enum fill fill)
{
    switch (fill) {
    case FILL_INDEX:
        return MG_DTYPE_I64;
    case FILL_QUANTIZED:
        return MG_DTYPE_I8;
    case FILL_BOOL:
        return MG_DTYPE_BOOL;
    default:
        return MG_DTYPE_F32;
    }
}

/* A graph of the one operator, every result an output. The operands are the values 0, 1, ... */
static inline enum mg_code case_graph(const struct op_case *c, struct mg_arena *arena, struct mg_graph **out,
                                      struct mg_error *err)
{
    struct mg_graph *g = mg_graph_new(arena, "case");
    mg_value in[9], results[3];
    for (uint32_t i = 0; i < c->in_count; i++) {
        struct mg_shape shape = {.rank = c->in[i].rank};
        for (uint32_t d = 0; d < shape.rank; d++)
            shape.dim[d] = c->in[i].dim[d];
        in[i] = mg_graph_add_value(g, NULL, case_kind(c->in[i].fill), case_dtype(c->in[i].fill), &shape);
    }
    enum mg_code code =
        mg_graph_add_op(g, c->type, "op", in, c->in_count, c->attrs, c->attr_count, NULL, c->out_count, results, err);
    for (uint32_t i = 0; i < c->out_count && !code; i++)
        mg_graph_add_output(g, results[i]);
    if (!code && g->ops[0].in_place == 0)
        mg_graph_add_update(g, in[0], results[0]);
    *out = g;
    return code;
}

/* A random number of magnitude 0.5 to 1.5, brought into the operand's range. */
static inline double case_number(enum fill fill, double x)
{
    double size = x < 0 ? -x : x;
    if (fill == FILL_SMALL)
        return x / 2;
    return fill == FILL_LARGE ? size + 0.75 : fill == FILL_POSITIVE || fill == FILL_ABOVE ? size : x;
}

/* Fresh numbers for the case's operands. */
static inline void case_fill(const struct op_case *c, const struct mg_graph *g, uint64_t seed, double **values,
                             struct mg_arena *arena)
{
    double **random = mg_exec_random_values(g, seed, 3, arena);
    for (uint32_t i = 0; i < c->in_count; i++) {
        values[i] = random[i];
        for (int64_t e = 0; e < mg_shape_elements(&g->values[i].shape); e++)
            values[i][e] = case_number(c->in[i].fill, values[i][e]);
    }
}

#undef INT
#undef REAL
#undef TEXT
#undef INTS
#undef W
#undef P
#undef X
#undef A
#undef N
#undef B
#undef S
#undef U
#undef Q
#undef V
#undef UNWRAP
#endif
