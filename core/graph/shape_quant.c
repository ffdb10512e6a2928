/* Shape rules: quantized numbers, and sums of products of them. */
#include <stdio.h>

#include "graph/ops_priv.h"

static enum mg_code result(struct mg_infer *t, uint32_t slot, const struct mg_shape *shape, enum mg_dtype dtype)
{
    t->out[slot] = *shape;
    t->out_dtype[slot] = dtype;
    return MG_OK;
}

static enum mg_code want_small(struct mg_infer *t, uint32_t operand)
{
    char part[32];
    enum mg_dtype dtype = t->in_dtype[operand];
    if (mg_dtype_is_integer(dtype) && dtype != MG_DTYPE_BOOL && dtype != MG_DTYPE_I64)
        return MG_OK;
    snprintf(part, sizeof part, "/inputs/%u", operand);
    return mg_infer_fail(t, part, "operand %u is %s, must be quantized: u8, i8, i16 or i32", operand,
                         mg_dtype_name(dtype));
}

/* A scale or zero point: one number, or a vector of `size`. */
static enum mg_code want_parameter(struct mg_infer *t, uint32_t operand, int64_t size)
{
    char part[32];
    if (operand >= t->in_count || mg_shape_elements(&t->in[operand]) == 1)
        return MG_OK;
    if (t->in[operand].rank == 1 && t->in[operand].dim[0] == size)
        return MG_OK;
    snprintf(part, sizeof part, "/inputs/%u", operand);
    return mg_infer_fail(t, part, "operand %u has shape %s, must be one number or [%lld]", operand,
                         mg_shape_text(t->arena, &t->in[operand]), (long long)size);
}

/* ---- to quantized numbers and back ---- */

/* Parameters run along `axis` where they are no scalars. */
static enum mg_code check_parameters(struct mg_infer *t)
{
    uint32_t axis = 0;
    int64_t size = 1;
    if (mg_shape_elements(&t->in[1]) != 1) {
        MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, t->in[0].rank, &axis));
        size = t->in[0].dim[axis];
    }
    MG_TRY(want_parameter(t, 1, size));
    if (t->in_count < 3 || mg_shape_equal(&t->in[1], &t->in[2]))
        return MG_OK;
    return mg_infer_fail(t, "/inputs/2", "scale and zero point have different shapes");
}

enum mg_code mg_shape_quantize(struct mg_infer *t)
{
    const char *name = mg_infer_attr(t, MG_ATTR_TO)->string;
    enum mg_dtype dtype = t->in_count > 2 ? t->in_dtype[2] : mg_dtype_from_name(name);
    MG_TRY(check_parameters(t));
    if (!mg_dtype_is_integer(dtype) || dtype == MG_DTYPE_BOOL || dtype == MG_DTYPE_COUNT)
        return mg_infer_fail(t, "/attrs/to", "'%.40s' is no dtype of whole numbers",
                             t->in_count > 2 ? mg_dtype_name(dtype) : name);
    mg_infer_attr(t, MG_ATTR_TO)->string = mg_dtype_name(dtype);
    return result(t, 0, &t->in[0], dtype);
}

enum mg_code mg_shape_dequantize(struct mg_infer *t)
{
    MG_TRY(want_small(t, 0));
    MG_TRY(check_parameters(t));
    return result(t, 0, &t->in[0], t->in_dtype[1]);
}

enum mg_code mg_shape_dynamic_quantize(struct mg_infer *t)
{
    result(t, 0, &t->in[0], MG_DTYPE_U8);
    result(t, 1, &(struct mg_shape){0}, t->in_dtype[0]);
    return result(t, 2, &(struct mg_shape){0}, MG_DTYPE_U8);
}

/* ---- sums of products ---- */

/* Runs the rule of the same operator on real numbers, with operands a and b alone. */
static enum mg_code as_real(struct mg_infer *t, uint32_t b, mg_shape_rule *rule)
{
    struct mg_shape in[2] = {t->in[0], t->in[b]};
    enum mg_dtype dtypes[2] = {MG_DTYPE_F32, MG_DTYPE_F32};
    struct mg_infer real = *t;
    MG_TRY(want_small(t, 0));
    MG_TRY(want_small(t, b));
    real.in = in;
    real.in_dtype = dtypes;
    real.in_count = 2;
    MG_TRY(rule(&real));
    t->out_dtype[0] = MG_DTYPE_I32;
    return MG_OK;
}

static int64_t rows_of(const struct mg_shape *out)
{
    return out->dim[out->rank - 2];
}

static int64_t columns_of(const struct mg_shape *out)
{
    return out->dim[out->rank - 1];
}

enum mg_code mg_shape_matmul_integer(struct mg_infer *t)
{
    MG_TRY(as_real(t, 1, mg_shape_matmul));
    MG_TRY(want_parameter(t, 2, rows_of(&t->out[0])));
    return want_parameter(t, 3, columns_of(&t->out[0]));
}

enum mg_code mg_shape_qlinear_matmul(struct mg_infer *t)
{
    MG_TRY(as_real(t, 3, mg_shape_matmul));
    for (uint32_t i = 1; i < 3; i++)
        MG_TRY(want_parameter(t, i, rows_of(&t->out[0])));
    for (uint32_t i = 4; i < 6; i++)
        MG_TRY(want_parameter(t, i, columns_of(&t->out[0])));
    for (uint32_t i = 6; i < 8; i++)
        MG_TRY(want_parameter(t, i, 1));
    MG_TRY(want_small(t, 7));
    t->out_dtype[0] = t->in_dtype[7];
    return MG_OK;
}

enum mg_code mg_shape_conv_integer(struct mg_infer *t)
{
    MG_TRY(as_real(t, 1, mg_shape_conv));
    MG_TRY(want_parameter(t, 2, 1));
    return want_parameter(t, 3, t->out[0].dim[1]);
}

enum mg_code mg_shape_qlinear_conv(struct mg_infer *t)
{
    MG_TRY(as_real(t, 3, mg_shape_conv));
    int64_t features = t->out[0].dim[1];
    for (uint32_t i = 1; i < 9; i++) {
        if (i != 3)
            MG_TRY(want_parameter(t, i, i == 4 || i == 5 || i == 8 ? features : 1));
    }
    if (t->in_count > 8 && (t->in[8].rank != 1 || t->in[8].dim[0] != features))
        return mg_infer_fail(t, "/inputs/8", "the bias has shape %s, must be [%lld]",
                             mg_shape_text(t->arena, &t->in[8]), (long long)features);
    MG_TRY(want_small(t, 7));
    t->out_dtype[0] = t->in_dtype[7];
    return MG_OK;
}
