/* Bits of whole numbers, in the operands' own dtype and layout. */
#include "measure/cpu_priv.h"

struct bits {
    enum mg_op_type which;
    bool left;
    struct cpu_walk walk; /* result, operands */
};

/* One row; x and y are elements, 64 bits wide, with their sign. */
#define EACH(type, expression)                                                                                         \
    do {                                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const uint64_t x = (uint64_t)a[i * sa], y = (uint64_t)b[i * sb];                                           \
            (void)y;                                                                                                   \
            to[i * st] = (type)(expression);                                                                           \
        }                                                                                                              \
    } while (0)
#define BITS(type)                                                                                                     \
    static void row_##type(const struct bits *bits, void *out, const void *in, const void *other)                      \
    {                                                                                                                  \
        const int64_t last = bits->walk.rank - 1, n = bits->walk.dim[last], st = bits->walk.stride[0][last];           \
        const int64_t sa = bits->walk.stride[1][last], sb = bits->walk.stride[2][last];                                \
        const type *a = in, *b = other;                                                                                \
        type *to = out;                                                                                                \
        if (bits->which == MG_OP_BITWISE_AND)                                                                          \
            EACH(type, x &y);                                                                                          \
        else if (bits->which == MG_OP_BITWISE_OR)                                                                      \
            EACH(type, x | y);                                                                                         \
        else if (bits->which == MG_OP_BITWISE_XOR)                                                                     \
            EACH(type, x ^ y);                                                                                         \
        else if (bits->which == MG_OP_BITWISE_NOT)                                                                     \
            EACH(type, ~x);                                                                                            \
        else if (bits->left)                                                                                           \
            EACH(type, y > 63 ? 0 : x << y);                                                                           \
        else                                                                                                           \
            EACH(type, y > 63 ? 0 : x >> y);                                                                           \
    }
BITS(int64_t)
BITS(int32_t)
BITS(int16_t)
BITS(int8_t)
BITS(uint64_t)
BITS(uint32_t)
BITS(uint16_t)
BITS(uint8_t)

static void row_bool(const struct bits *bits, void *out, const void *in, const void *other)
{
    const int64_t last = bits->walk.rank - 1, n = bits->walk.dim[last], st = bits->walk.stride[0][last];
    const uint8_t *a = in;
    uint8_t *to = out;
    if (bits->which != MG_OP_BITWISE_NOT)
        row_uint8_t(bits, out, in, other);
    else
        for (int64_t i = 0; i < n; i++)
            to[i * st] = !a[i * bits->walk.stride[1][last]];
}

typedef void row_fn(const struct bits *bits, void *out, const void *in, const void *other);
static row_fn *row_of(enum mg_dtype dtype)
{
    static row_fn *const rows[MG_DTYPE_COUNT] = {
        [MG_DTYPE_I64] = row_int64_t,  [MG_DTYPE_I32] = row_int32_t,  [MG_DTYPE_I16] = row_int16_t,
        [MG_DTYPE_I8] = row_int8_t,    [MG_DTYPE_U64] = row_uint64_t, [MG_DTYPE_U32] = row_uint32_t,
        [MG_DTYPE_U16] = row_uint16_t, [MG_DTYPE_U8] = row_uint8_t,   [MG_DTYPE_BOOL] = row_bool,
    };
    return rows[dtype];
}

static enum mg_code run_bits(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    const struct bits *bits = ((const struct cpu_op *)call->p->detail)->data;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0}, size = mg_dtype_size(op->in_dtype[0]);
    row_fn *row = row_of(op->in_dtype[0]);
    const char *a = call->in[0], *b = call->in[op->in_count - 1];
    char *out = call->out[0];
    do
        row(bits, out + at[0] * size, a + at[1] * size, b + at[2] * size);
    while (mg_cpu_walk_next(&bits->walk, index, at));
    return MG_OK;
}

enum mg_code mg_cpu_bits(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct bits *bits = MG_NEW(&p->arena, struct bits);
    const struct mg_shape *out = &p->op.out_shape[0];
    uint32_t other = p->op.in_count - 1;
    int64_t a[MG_MAX_RANK], b[MG_MAX_RANK];
    if (p->op.type == MG_OP_BIT_SHIFT && p->op.in_dtype[0] == MG_DTYPE_BOOL)
        return mg_cpu_by_reference(p, op, err);
    *bits = (struct bits){.which = p->op.type, .left = mg_prepared_text_is(p, MG_ATTR_DIRECTION, "LEFT")};
    mg_cpu_broadcast(&p->op.in_shape[0], &p->in[0], out, a);
    mg_cpu_broadcast(&p->op.in_shape[other], &p->in[other], out, b);
    mg_cpu_walk_join(&bits->walk, out, (const int64_t *const[]){p->out[0].at, a, b}, 3);
    op->strided = true;
    op->data = bits;
    op->run = run_bits;
    return MG_OK;
}
