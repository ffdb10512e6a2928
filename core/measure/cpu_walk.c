/* Strided boxes: copies between layouts and dtypes. Dimensions that continue one another are joined first, so that
 * the innermost loop is as long as can be; transpositions go in blocks that fit the first cache. */
#include <string.h>

#include "measure/convert.h"
#include "measure/cpu_priv.h"

/* ---- one row of elements ---- */

bool mg_cpu_dtype_known(enum mg_dtype dtype)
{
    return dtype != MG_DTYPE_F8E4M3 && dtype != MG_DTYPE_F8E5M2;
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

/* The conversions that training steps do most, in loops that become vectors and take as long whatever the numbers. */
#define CONVERT_ROW(to_type, from_type, expression)                                                                    \
    do {                                                                                                               \
        to_type *restrict t_ = t;                                                                                      \
        const from_type *restrict f_ = f;                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const from_type x = f_[i * from_step];                                                                     \
            t_[i * to_step] = (expression);                                                                            \
        }                                                                                                              \
        return true;                                                                                                   \
    } while (0)

static bool convert_common(enum mg_dtype to, void *t, int64_t to_step, enum mg_dtype from, const void *f,
                           int64_t from_step, int64_t count)
{
    bool bytes = from == MG_DTYPE_BOOL || from == MG_DTYPE_U8;
    if (to == MG_DTYPE_F32 && bytes)
        CONVERT_ROW(float, uint8_t, (float)x);
    if (to == MG_DTYPE_F32 && from == MG_DTYPE_F64)
        CONVERT_ROW(float, double, (float)x);
    if (to == MG_DTYPE_F64 && from == MG_DTYPE_F32)
        CONVERT_ROW(double, float, (double)x);
    if (to == MG_DTYPE_BOOL && from == MG_DTYPE_F32)
        CONVERT_ROW(uint8_t, float, x != 0);
    if (to == MG_DTYPE_I64 && from == MG_DTYPE_I32)
        CONVERT_ROW(int64_t, int32_t, x);
    if (to == MG_DTYPE_I64 && from == MG_DTYPE_I8)
        CONVERT_ROW(int64_t, int8_t, (int64_t)(int)x);
    if (to == MG_DTYPE_I64 && from == MG_DTYPE_U8)
        CONVERT_ROW(int64_t, uint8_t, x);
    if (to == MG_DTYPE_I32 && from == MG_DTYPE_I64)
        CONVERT_ROW(int32_t, int64_t, (int32_t)x);
    if (from == MG_DTYPE_I64 && (to == MG_DTYPE_I8 || to == MG_DTYPE_U8))
        CONVERT_ROW(uint8_t, int64_t, (uint8_t)x);
    return false;
}

static void convert_row(const struct cpu_side *to, void *t, int64_t to_step, const struct cpu_side *from, const void *f,
                        int64_t from_step, int64_t count)
{
    if (convert_common(to->dtype, t, to_step, from->dtype, f, from_step, count))
        return;
    for (int64_t i = 0; i < count; i++)
        mg_convert_save(t, to->dtype, i * to_step, mg_convert_load(f, from->dtype, i * from_step));
}

/* ---- boxes ---- */

void mg_cpu_walk_join(struct cpu_walk *walk, const struct mg_shape *shape, const int64_t *const *strides,
                      uint32_t sides)
{
    *walk = (struct cpu_walk){.sides = sides};
    for (uint32_t d = 0; d < shape->rank; d++) {
        bool goes_on = walk->rank > 0;
        if (shape->dim[d] == 1)
            continue;
        for (uint32_t s = 0; s < sides && goes_on; s++)
            goes_on = walk->stride[s][walk->rank - 1] == strides[s][d] * shape->dim[d];
        if (!goes_on)
            walk->dim[walk->rank++] = 1;
        walk->dim[walk->rank - 1] *= shape->dim[d];
        for (uint32_t s = 0; s < sides; s++)
            walk->stride[s][walk->rank - 1] = strides[s][d];
    }
    if (walk->rank > 0)
        return;
    walk->dim[0] = walk->rank = 1;
    for (uint32_t s = 0; s < sides; s++)
        walk->stride[s][0] = 1;
}

bool mg_cpu_walk_next(const struct cpu_walk *walk, int64_t *index, int64_t *at)
{
    for (uint32_t d = walk->rank - 1; d-- > 0;) {
        bool inside = ++index[d] < walk->dim[d];
        for (uint32_t s = 0; s < walk->sides; s++)
            at[s] += inside ? walk->stride[s][d] : -walk->stride[s][d] * (walk->dim[d] - 1);
        if (inside)
            return true;
        index[d] = 0;
    }
    return false;
}

enum { TO, FROM, BLOCK = 32 };

/* Splits a transposition into blocks: the dimension in which the source is dense is cut, a block of it goes innermost
 * and so reads whole cache lines. */
static void cut_in_blocks(struct cpu_walk *walk)
{
    uint32_t inner = walk->rank - 1, dense = 0;
    while (dense < inner && walk->stride[FROM][dense] != 1)
        dense++;
    if (dense == inner || walk->stride[FROM][inner] <= 1 || walk->dim[dense] % BLOCK || walk->dim[dense] == BLOCK)
        return;
    walk->dim[walk->rank] = BLOCK;
    walk->dim[dense] /= BLOCK;
    for (uint32_t s = 0; s < walk->sides; s++) {
        walk->stride[s][walk->rank] = walk->stride[s][dense];
        walk->stride[s][dense] *= BLOCK;
    }
    walk->rank++;
}

void mg_cpu_move(const struct mg_shape *shape, const struct cpu_side *to, const struct cpu_side *from)
{
    struct cpu_walk walk;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0};
    uint32_t to_size = mg_dtype_size(to->dtype), from_size = mg_dtype_size(from->dtype);
    if (mg_shape_elements(shape) == 0)
        return;
    mg_cpu_walk_join(&walk, shape, (const int64_t *const[]){to->stride, from->stride}, 2);
    cut_in_blocks(&walk);
    int64_t row = walk.dim[walk.rank - 1], to_step = walk.stride[TO][walk.rank - 1];
    int64_t from_step = walk.stride[FROM][walk.rank - 1];
    do {
        char *t = (char *)to->data + at[TO] * to_size, *f = (char *)from->data + at[FROM] * from_size;
        if (to->dtype == from->dtype)
            copy_row(t, to_step, f, from_step, row, to_size);
        else
            convert_row(to, t, to_step, from, f, from_step, row);
    } while (mg_cpu_walk_next(&walk, index, at));
}

void mg_cpu_broadcast(const struct mg_shape *shape, const struct mg_strides *strides, const struct mg_shape *result,
                      int64_t out[MG_MAX_RANK])
{
    uint32_t skip = result->rank - shape->rank;
    for (uint32_t d = 0; d < result->rank; d++)
        out[d] = d < skip || shape->dim[d - skip] == 1 ? 0 : strides->at[d - skip];
}
