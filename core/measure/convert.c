#include "measure/convert.h"

#include <string.h>

static float from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

/* To the nearest, ties to even. */
static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_f16(uint16_t half)
{
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    uint32_t bits = (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    float x;
    memcpy(&x, &bits, sizeof x);
    x = exponent ? x : (float)fraction * 0x1p-24f;
    return half >> 15 ? -x : x;
}

/* To the nearest, ties to even; what is too large becomes infinite. */
static uint16_t to_f16(float x)
{
    uint32_t bits, half;
    memcpy(&bits, &x, sizeof bits);
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        half = 0x7e00;
    else if (size >= 0x477ff000)
        half = 0x7c00;
    else if (size >= 0x38800000)
        half = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    else { /* a multiple of 2^-24, which adding 1/2 rounds to */
        float sum = (x < 0 ? -x : x) + 0.5f;
        memcpy(&half, &sum, sizeof half);
        half -= 0x3f000000;
    }
    return (uint16_t)((bits >> 16 & 0x8000) | half);
}

double mg_convert_load(const void *data, enum mg_dtype dtype, int64_t at)
{
    switch (dtype) {
    case MG_DTYPE_F64:
        return ((const double *)data)[at];
    case MG_DTYPE_F32:
        return (double)((const float *)data)[at];
    case MG_DTYPE_BF16:
        return (double)from_bf16(((const uint16_t *)data)[at]);
    case MG_DTYPE_F16:
        return (double)from_f16(((const uint16_t *)data)[at]);
    case MG_DTYPE_I64:
        return (double)((const int64_t *)data)[at];
    case MG_DTYPE_I32:
        return ((const int32_t *)data)[at];
    case MG_DTYPE_I16:
        return ((const int16_t *)data)[at];
    case MG_DTYPE_I8:
        return ((const int8_t *)data)[at];
    case MG_DTYPE_U16:
        return ((const uint16_t *)data)[at];
    case MG_DTYPE_U32:
        return ((const uint32_t *)data)[at];
    case MG_DTYPE_U64:
        return (double)((const uint64_t *)data)[at];
    default:
        return ((const uint8_t *)data)[at];
    }
}

/* What is no number is stored as 0. */
static int64_t whole(double x)
{
    return x == x ? (int64_t)x : 0;
}

void mg_convert_save(void *data, enum mg_dtype dtype, int64_t at, double x)
{
    switch (dtype) {
    case MG_DTYPE_F64:
        ((double *)data)[at] = x;
        break;
    case MG_DTYPE_F32:
        ((float *)data)[at] = (float)x;
        break;
    case MG_DTYPE_BF16:
        ((uint16_t *)data)[at] = to_bf16((float)x);
        break;
    case MG_DTYPE_F16:
        ((uint16_t *)data)[at] = to_f16((float)x);
        break;
    case MG_DTYPE_I64:
        ((int64_t *)data)[at] = (int64_t)whole(x);
        break;
    case MG_DTYPE_I32:
        ((int32_t *)data)[at] = (int32_t)whole(x);
        break;
    case MG_DTYPE_I16:
        ((int16_t *)data)[at] = (int16_t)whole(x);
        break;
    case MG_DTYPE_I8:
        ((int8_t *)data)[at] = (int8_t)whole(x);
        break;
    case MG_DTYPE_U16:
        ((uint16_t *)data)[at] = (uint16_t)whole(x);
        break;
    case MG_DTYPE_U32:
        ((uint32_t *)data)[at] = (uint32_t)whole(x);
        break;
    case MG_DTYPE_U64:
        ((uint64_t *)data)[at] = (uint64_t)whole(x);
        break;
    case MG_DTYPE_BOOL:
        ((uint8_t *)data)[at] = x != 0;
        break;
    default:
        ((uint8_t *)data)[at] = (uint8_t)whole(x);
    }
}

void mg_convert_from_doubles(void *to, enum mg_dtype dtype, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        mg_convert_save(to, dtype, i, from[i]);
}

void mg_convert_to_doubles(double *to, const void *from, enum mg_dtype dtype, const struct mg_shape *shape,
                           const int64_t *stride)
{
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < shape->rank; d++)
            at += index[d] * stride[d];
        to[i] = mg_convert_load(from, dtype, at);
        for (uint32_t d = shape->rank; d-- > 0 && ++index[d] == shape->dim[d];)
            index[d] = 0;
    }
}
