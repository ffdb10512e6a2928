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

double mg_convert_load(const void *data, enum mg_dtype dtype, int64_t at)
{
    switch (dtype) {
    case MG_DTYPE_F64:
        return ((const double *)data)[at];
    case MG_DTYPE_F32:
        return (double)((const float *)data)[at];
    case MG_DTYPE_BF16:
        return (double)from_bf16(((const uint16_t *)data)[at]);
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
