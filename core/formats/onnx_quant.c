/* ONNX rules: quantized operators, as the real arithmetic that they stand for. */
#include <string.h>

#include "formats/onnx_rules.h"

/* A scale or zero point for one axis, so that it broadcasts. */
static mg_value along(struct onnx_call *c, mg_value x, int64_t axis, uint32_t rank)
{
    const struct mg_shape *shape = &mg_onnx_info(c, x)->shape;
    struct mg_shape wide = {.rank = rank};
    if (c->code != MG_OK || shape->rank != 1)
        return x;
    uint32_t at = rank ? mg_onnx_axis(c, axis, rank) : 0;
    for (uint32_t d = 0; d < rank; d++)
        wide.dim[d] = d == at ? shape->dim[0] : 1;
    if (shape->dim[0] == 1)
        wide.rank = 0;
    return mg_onnx_reshape(c, x, &wide);
}

/* (x - zero) scale, without a zero point x scale. */
static mg_value real_of(struct onnx_call *c, mg_value x, uint32_t scale, uint32_t zero, int64_t axis)
{
    uint32_t rank = mg_onnx_info(c, x)->shape.rank;
    bool last = c->last;
    c->last = false;
    mg_value by = along(c, mg_onnx_constant(c, scale), axis, rank);
    enum mg_dtype dtype = mg_onnx_info(c, by)->dtype;
    x = mg_onnx_cast(c, x, dtype);
    if (mg_onnx_has(c, zero))
        x = mg_onnx_binary(c, MG_OP_SUB, x, mg_onnx_cast(c, along(c, mg_onnx_constant(c, zero), axis, rank), dtype));
    c->last = last;
    return mg_onnx_binary(c, MG_OP_MUL, x, by);
}

static void bounds(enum mg_dtype dtype, double *low, double *high)
{
    *low = dtype == MG_DTYPE_I8 ? -128 : dtype == MG_DTYPE_I16 ? -32768 : dtype == MG_DTYPE_I32 ? -2147483648.0 : 0;
    *high = dtype == MG_DTYPE_I8 ? 127 : dtype == MG_DTYPE_I16 ? 32767 : dtype == MG_DTYPE_I32 ? 2147483647.0 : 255;
}

/* clip(round(x) + zero) as an integer; the node's result. */
static void whole_of(struct onnx_call *c, mg_value x, mg_value zero, enum mg_dtype dtype)
{
    double low, high;
    bounds(dtype, &low, &high);
    x = mg_onnx_unary(c, MG_OP_ROUND, x);
    if (zero != MG_NONE)
        x = mg_onnx_binary(c, MG_OP_ADD, x, mg_onnx_cast(c, zero, mg_onnx_info(c, x)->dtype));
    x = mg_onnx_add(c, MG_OP_CLIP, OPERANDS(x), ATTRS(A_REAL(MIN, low), A_REAL(MAX, high)), 1, NULL);
    mg_onnx_last(c);
    mg_onnx_cast(c, x, dtype);
}

static bool is_whole(enum mg_dtype dtype)
{
    return dtype == MG_DTYPE_I8 || dtype == MG_DTYPE_U8 || dtype == MG_DTYPE_I16 || dtype == MG_DTYPE_I32;
}

void onnx_rule_quantize(struct onnx_call *c, int which)
{
    enum mg_dtype dtype = mg_onnx_has(c, 2) ? mg_onnx_dtype_of(c, 2) : MG_DTYPE_U8;
    int64_t axis = mg_onnx_int(c, "axis", 1), to = mg_onnx_int(c, "output_dtype", 0);
    uint32_t rank = mg_onnx_shape(c, 0)->rank;
    (void)which;
    if (to && !mg_onnx_has(c, 2) && !mg_onnx_dtype(to, &dtype))
        mg_onnx_unsupported(c, "to %s", mg_onnx_dtype_text(to));
    if (mg_onnx_int(c, "block_size", 0) || !is_whole(dtype))
        mg_onnx_unsupported(c, "blocks, or to %s", mg_dtype_name(dtype));
    mg_value x = mg_onnx_in(c, 0), by = along(c, mg_onnx_constant(c, 1), axis, rank);
    x = mg_onnx_binary(c, MG_OP_DIV, mg_onnx_cast(c, x, mg_onnx_info(c, by)->dtype), by);
    whole_of(c, x, mg_onnx_has(c, 2) ? along(c, mg_onnx_constant(c, 2), axis, rank) : MG_NONE, dtype);
}

void onnx_rule_dequantize(struct onnx_call *c, int which)
{
    (void)which;
    if (mg_onnx_int(c, "block_size", 0) || !is_whole(mg_onnx_dtype_of(c, 0)))
        mg_onnx_unsupported(c, "blocks, or of %s", mg_dtype_name(mg_onnx_dtype_of(c, 0)));
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    real_of(c, x, 1, 2, mg_onnx_int(c, "axis", 1));
}

/* The range always holds 0: scale = (max - min) / 255, zero = round(-min / scale). */
void onnx_rule_dynamic_quantize(struct onnx_call *c, int which)
{
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    mg_value none = mg_onnx_scalar(c, 0, mg_onnx_info(c, x)->dtype);
    mg_value most = mg_onnx_binary(c, MG_OP_MAX, onnx_reduce(c, MG_OP_REDUCE_MAX, x, NULL, 0, false), none);
    mg_value least = mg_onnx_binary(c, MG_OP_MIN, onnx_reduce(c, MG_OP_REDUCE_MIN, x, NULL, 0, false), none);
    mg_value scale = mg_onnx_affine(c, mg_onnx_binary(c, MG_OP_SUB, most, least), 1 / 255.0, 0);
    mg_value zero =
        mg_onnx_unary(c, MG_OP_ROUND, mg_onnx_binary(c, MG_OP_DIV, mg_onnx_unary(c, MG_OP_NEG, least), scale));
    zero = mg_onnx_add(c, MG_OP_CLIP, OPERANDS(zero), ATTRS(A_REAL(MIN, 0), A_REAL(MAX, 255)), 1, NULL);
    mg_onnx_result(c, 1, scale);
    mg_value whole = mg_onnx_cast(c, zero, MG_DTYPE_U8);
    mg_onnx_result(c, 2, whole);
    uint32_t results = c->out_count;
    c->out_count = results ? 1 : 0;
    whole_of(c, mg_onnx_binary(c, MG_OP_DIV, x, scale), zero, MG_DTYPE_U8);
    c->out_count = results;
}

/* An integer operand less its zero point, in arithmetic that is exact for sums of products of bytes. */
static mg_value exact(struct onnx_call *c, uint32_t operand, uint32_t zero, int64_t axis)
{
    mg_value x = mg_onnx_cast(c, mg_onnx_in(c, operand), MG_DTYPE_F64);
    if (!mg_onnx_has(c, zero))
        return x;
    mg_value by = along(c, mg_onnx_constant(c, zero), axis, mg_onnx_info(c, x)->shape.rank);
    return mg_onnx_binary(c, MG_OP_SUB, x, mg_onnx_cast(c, by, MG_DTYPE_F64));
}

void onnx_rule_matmul_integer(struct onnx_call *c, int which)
{
    mg_value a = exact(c, 0, 2, -2), b = exact(c, 1, 3, -1);
    (void)which;
    mg_value y = mg_onnx_binary(c, MG_OP_MATMUL, a, b);
    mg_onnx_last(c);
    mg_onnx_cast(c, y, MG_DTYPE_I32);
}

void onnx_rule_conv_integer(struct onnx_call *c, int which)
{
    struct onnx_window w;
    mg_value in[] = {exact(c, 0, 2, 1), exact(c, 1, 3, 0)};
    (void)which;
    onnx_window_of(c, mg_onnx_shape(c, 0), mg_onnx_shape(c, 1)->dim + 2, &w);
    mg_value y = onnx_convolve(c, &w, in, 2);
    mg_onnx_last(c);
    mg_onnx_cast(c, y, MG_DTYPE_I32);
}

/* y (a_scale b_scale / y_scale), rounded. Operands: a, its scale and zero point, b, ..., y's scale and zero point. */
static void requantize(struct onnx_call *c, mg_value y, int64_t axis)
{
    uint32_t rank = mg_onnx_info(c, y)->shape.rank;
    mg_value a = mg_onnx_cast(c, along(c, mg_onnx_constant(c, 1), -2, rank), MG_DTYPE_F64);
    mg_value b = mg_onnx_cast(c, along(c, mg_onnx_constant(c, 4), axis, rank), MG_DTYPE_F64);
    mg_value by = mg_onnx_cast(c, along(c, mg_onnx_constant(c, 6), -2, rank), MG_DTYPE_F64);
    mg_value scale = mg_onnx_binary(c, MG_OP_DIV, mg_onnx_binary(c, MG_OP_MUL, a, b), by);
    whole_of(c, mg_onnx_binary(c, MG_OP_MUL, y, scale), along(c, mg_onnx_constant(c, 7), -2, rank),
             mg_onnx_dtype_of(c, 7));
}

void onnx_rule_qlinear_matmul(struct onnx_call *c, int which)
{
    mg_value a = exact(c, 0, 2, -2), b = exact(c, 3, 5, -1);
    (void)which;
    requantize(c, mg_onnx_binary(c, MG_OP_MATMUL, a, b), -1);
}

void onnx_rule_qlinear_conv(struct onnx_call *c, int which)
{
    struct onnx_window w;
    mg_value in[3] = {exact(c, 0, 2, 1), exact(c, 3, 5, 0)};
    (void)which;
    if (mg_onnx_has(c, 8))
        in[2] = mg_onnx_cast(c, mg_onnx_in(c, 8), MG_DTYPE_F64);
    onnx_window_of(c, mg_onnx_shape(c, 0), mg_onnx_shape(c, 3)->dim + 2, &w);
    requantize(c, onnx_convolve(c, &w, in, mg_onnx_has(c, 8) ? 3 : 2), 1);
}
