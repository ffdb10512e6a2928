/* Strided boxes: copies between layouts and dtypes. Dimensions that continue one another are joined first, so that
 * the innermost loop is as long as can be; transpositions go in blocks that fit the first cache. */
#include <string.h>

#include "measure/cpu_priv.h"

struct walk { /* two layouts over one shape, joined */
    uint32_t rank;
    int64_t dim[MG_MAX_RANK + 1], to[MG_MAX_RANK + 1], from[MG_MAX_RANK + 1];
};

/* ---- one row of elements ---- */

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

static double load(const void *data, enum mg_dtype dtype, int64_t at)
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
    default:
        return ((const uint8_t *)data)[at];
    }
}

static void store(void *data, enum mg_dtype dtype, int64_t at, double x)
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
        ((int64_t *)data)[at] = (int64_t)x;
        break;
    case MG_DTYPE_I32:
        ((int32_t *)data)[at] = (int32_t)x;
        break;
    case MG_DTYPE_I16:
        ((int16_t *)data)[at] = (int16_t)x;
        break;
    case MG_DTYPE_I8:
        ((int8_t *)data)[at] = (int8_t)x;
        break;
    case MG_DTYPE_BOOL:
        ((uint8_t *)data)[at] = x != 0;
        break;
    default:
        ((uint8_t *)data)[at] = (uint8_t)x;
    }
}

bool mg_cpu_dtype_known(enum mg_dtype dtype)
{
    return dtype != MG_DTYPE_F16 && dtype != MG_DTYPE_F8E4M3 && dtype != MG_DTYPE_F8E5M2;
}

#define COPY_ROW(type)                                                                                                 \
    do {                                                                                                               \
        type *restrict t = to;                                                                                         \
        const type *restrict f = from;                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            t[i * to_step] = f[i * from_step];                                                                         \
    } while (0)

static void copy_row(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t count, uint32_t size)
{
    if (to_step == 1 && from_step == 1)
        memmove(to, from, (size_t)count * size);
    else if (size == 4)
        COPY_ROW(uint32_t);
    else if (size == 8)
        COPY_ROW(uint64_t);
    else if (size == 2)
        COPY_ROW(uint16_t);
    else
        COPY_ROW(uint8_t);
}

static void convert_row(const struct cpu_side *to, void *t, int64_t to_step, const struct cpu_side *from, const void *f,
                        int64_t from_step, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        store(t, to->dtype, i * to_step, load(f, from->dtype, i * from_step));
}

/* ---- boxes ---- */

static void join(const struct mg_shape *shape, const struct cpu_side *to, const struct cpu_side *from,
                 struct walk *walk)
{
    *walk = (struct walk){.rank = 0};
    for (uint32_t d = 0; d < shape->rank; d++) {
        uint32_t last = walk->rank - 1;
        if (shape->dim[d] == 1)
            continue;
        if (walk->rank > 0 && walk->to[last] == to->stride[d] * shape->dim[d] &&
            walk->from[last] == from->stride[d] * shape->dim[d]) {
            walk->dim[last] *= shape->dim[d];
            walk->to[last] = to->stride[d];
            walk->from[last] = from->stride[d];
            continue;
        }
        walk->dim[walk->rank] = shape->dim[d];
        walk->to[walk->rank] = to->stride[d];
        walk->from[walk->rank++] = from->stride[d];
    }
    if (walk->rank == 0) {
        walk->dim[0] = walk->to[0] = walk->from[0] = 1;
        walk->rank = 1;
    }
}

/* Splits a transposition into blocks: the dimension in which the source is dense is cut, its blocks walked outside. */
static void cut_in_blocks(struct walk *walk)
{
    enum { BLOCK = 32 };
    uint32_t inner = walk->rank - 1, dense = inner;
    for (uint32_t d = 0; d < inner; d++)
        if (walk->from[d] == 1)
            dense = d;
    if (dense == inner || walk->from[inner] <= 1 || walk->dim[dense] % BLOCK || walk->rank > MG_MAX_RANK)
        return;
    for (uint32_t d = walk->rank; d > dense; d--) {
        walk->dim[d] = walk->dim[d - 1];
        walk->to[d] = walk->to[d - 1];
        walk->from[d] = walk->from[d - 1];
    }
    walk->rank++;
    walk->dim[dense] /= BLOCK;
    walk->to[dense] *= BLOCK;
    walk->from[dense] *= BLOCK;
    /* the block itself innermost: it reads whole cache lines of the source */
    for (uint32_t d = dense + 1; d + 1 < walk->rank; d++) {
        walk->dim[d] = walk->dim[d + 1];
        int64_t to = walk->to[d], from = walk->from[d];
        walk->to[d] = walk->to[d + 1];
        walk->from[d] = walk->from[d + 1];
        walk->to[d + 1] = to;
        walk->from[d + 1] = from;
    }
    walk->dim[walk->rank - 1] = BLOCK;
}

void mg_cpu_move(const struct mg_shape *shape, const struct cpu_side *to, const struct cpu_side *from)
{
    struct walk walk;
    int64_t index[MG_MAX_RANK + 1] = {0}, at_to = 0, at_from = 0;
    uint32_t to_size = mg_dtype_size(to->dtype), from_size = mg_dtype_size(from->dtype);
    if (mg_shape_elements(shape) == 0)
        return;
    join(shape, to, from, &walk);
    cut_in_blocks(&walk);
    uint32_t inner = walk.rank - 1;
    for (;;) {
        char *t = (char *)to->data + at_to * to_size, *f = (char *)from->data + at_from * from_size;
        if (to->dtype == from->dtype)
            copy_row(t, walk.to[inner], f, walk.from[inner], walk.dim[inner], to_size);
        else
            convert_row(to, t, walk.to[inner], from, f, walk.from[inner], walk.dim[inner]);
        uint32_t d = inner;
        while (d-- > 0) {
            at_to += walk.to[d];
            at_from += walk.from[d];
            if (++index[d] < walk.dim[d])
                break;
            at_to -= walk.to[d] * walk.dim[d];
            at_from -= walk.from[d] * walk.dim[d];
            index[d] = 0;
        }
        if (d == UINT32_MAX)
            return;
    }
}

void mg_cpu_add(float *to, const float *a, const float *b, float scale, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = a[i] + scale * b[i];
}

void mg_cpu_broadcast(const struct mg_shape *shape, const struct mg_strides *strides, const struct mg_shape *result,
                      int64_t out[MG_MAX_RANK])
{
    uint32_t skip = result->rank - shape->rank;
    for (uint32_t d = 0; d < result->rank; d++)
        out[d] = d < skip || shape->dim[d - skip] == 1 ? 0 : strides->at[d - skip];
}
