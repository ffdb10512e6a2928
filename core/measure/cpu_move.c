/* Movement, and rows picked by index. */
#include <string.h>

#include "measure/cpu_priv.h"
#include "measure/moves.h"

/* ---- boxes ---- */

static enum mg_code run_moves(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_moves *moves = ((const struct cpu_op *)p->detail)->data;
    for (size_t i = 0; i < moves->count; i++) {
        const struct mg_move *move = &moves->items[i];
        enum mg_dtype to = p->op.out_dtype[move->to];
        struct cpu_side target = {(char *)call->out[move->to] + move->to_offset * mg_dtype_size(to), to,
                                  move->to_stride};
        double value = move->value;
        uint64_t bits;
        struct cpu_side source = {&bits, to, move->from_stride};
        if (move->from == MG_NONE) {
            mg_cpu_move(&(struct mg_shape){0}, &(struct cpu_side){&bits, to, NULL},
                        &(struct cpu_side){&value, MG_DTYPE_F64, NULL});
        } else {
            union {
                const void *from;
                char *to;
            } cast = {.from = call->in[move->from]};
            source.dtype = p->op.in_dtype[move->from];
            source.data = cast.to + move->from_offset * mg_dtype_size(source.dtype);
        }
        mg_cpu_move(&move->shape, &target, &source);
    }
    return MG_OK;
}

/* A reshape between two layouts that do not fit: both dense by now. */
static enum mg_code run_flat(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    memmove(call->out[0], call->in[0],
            (size_t)mg_shape_elements(&op->out_shape[0]) * mg_dtype_size(mg_cpu_native(op->out_dtype[0])));
    return MG_OK;
}

/* ---- padding with the operand's own elements: where each index of each dimension reads ---- */

struct padding {
    uint32_t bytes;
    int64_t *source[MG_MAX_RANK]; /* times the operand's step */
};

static int64_t pad_source(bool edge, int64_t i, int64_t size)
{
    if (i >= 0 && i < size)
        return i;
    if (edge)
        return i < 0 ? 0 : size - 1;
    return i < 0 ? -i : 2 * (size - 1) - i;
}

#define PAD_ROW(type)                                                                                                  \
    for (int64_t k = 0; k < n; k++)                                                                                    \
    ((type *)call->out[0])[to + k] = ((const type *)call->in[0])[from + row[k]]

static enum mg_code run_padding(const struct cpu_call *call)
{
    const struct padding *padding = ((const struct cpu_op *)call->p->detail)->data;
    const struct mg_shape *out = &call->p->op.out_shape[0];
    uint32_t last = out->rank - 1;
    int64_t index[MG_MAX_RANK] = {0}, n = out->dim[last], count = mg_shape_elements(out);
    const int64_t *row = padding->source[last];
    for (int64_t to = 0; to < count; to += n) {
        int64_t from = 0;
        for (uint32_t d = 0; d < last; d++)
            from += padding->source[d][index[d]];
        if (padding->bytes == 4)
            PAD_ROW(uint32_t);
        else if (padding->bytes == 8)
            PAD_ROW(uint64_t);
        else
            PAD_ROW(uint8_t);
        for (uint32_t d = last; d-- > 0 && ++index[d] == out->dim[d];)
            index[d] = 0;
    }
    return MG_OK;
}

static enum mg_code prepare_padding(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct padding *padding = MG_NEW(&p->arena, struct padding);
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    int64_t stride[MG_MAX_RANK];
    if (mg_shape_elements(in) == 0 || in->rank == 0)
        return mg_cpu_by_reference(p, op, err);
    mg_shape_strides(in, stride);
    padding->bytes = mg_dtype_size(mg_cpu_native(p->op.in_dtype[0]));
    for (uint32_t d = 0; d < out->rank; d++) {
        int64_t before = mg_prepared_ints(p, MG_ATTR_PADS, d, 0);
        padding->source[d] = MG_NEW_ARRAY(&p->arena, int64_t, out->dim[d]);
        for (int64_t i = 0; i < out->dim[d]; i++)
            padding->source[d][i] =
                pad_source(mg_prepared_text_is(p, MG_ATTR_MODE, "edge"), i - before, in->dim[d]) * stride[d];
    }
    op->data = padding;
    op->run = run_padding;
    return MG_OK;
}

enum mg_code mg_cpu_movement(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct mg_moves *moves = MG_NEW(&p->arena, struct mg_moves);
    op->strided = mg_moves_of(p, moves);
    if (!op->strided && p->op.type == MG_OP_PAD)
        return prepare_padding(p, op, err);
    op->data = moves;
    op->run = op->strided ? run_moves : run_flat;
    return MG_OK;
}

/* ---- rows by index: data[before, indices[i], after] <-> rows[before, i, after] ---- */

struct gather {
    int64_t before, size, picked, after;
    uint32_t bytes;
    bool add, real;
};

#define ADD_ROW(type)                                                                                                  \
    for (int64_t k = 0; k < n; k++)                                                                                    \
    ((type *)to)[k] += ((const type *)from)[k]

static void gather_row(const struct gather *g, void *to, const void *from)
{
    int64_t n = g->after;
    if (!g->add)
        memcpy(to, from, (size_t)n * g->bytes);
    else if (g->real)
        ADD_ROW(float);
    else
        ADD_ROW(int64_t);
}

static enum mg_code run_gather(const struct cpu_call *call)
{
    const struct gather *g = ((const struct cpu_op *)call->p->detail)->data;
    const int64_t *indices = call->in[1];
    const char *in = call->in[0];
    char *out = call->out[0];
    size_t bytes = (size_t)g->after * g->bytes;
    if (g->add)
        memset(out, 0, (size_t)(g->before * g->size) * bytes);
    for (int64_t b = 0; b < g->before; b++)
        for (int64_t i = 0; i < g->picked; i++) {
            int64_t row = indices[i] < 0 ? indices[i] + g->size : indices[i];
            if (row < 0 || row >= g->size)
                return mg_cpu_out_of_range(call);
            gather_row(g, out + (size_t)(g->add ? b * g->size + row : b * g->picked + i) * bytes,
                       in + (size_t)(g->add ? b * g->picked + i : b * g->size + row) * bytes);
        }
    return MG_OK;
}

enum mg_code mg_cpu_gather(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct gather *g = MG_NEW(&p->arena, struct gather);
    g->add = p->op.type == MG_OP_SCATTER_ADD;
    const struct mg_shape *data = g->add ? &p->op.out_shape[0] : &p->op.in_shape[0];
    int64_t axis = mg_prepared_int(p, MG_ATTR_AXIS);
    enum mg_dtype native = mg_cpu_native(p->op.in_dtype[0]);
    if (g->add && native == MG_DTYPE_BOOL)
        return mg_cpu_by_reference(p, op, err);
    struct cpu_rows rows = mg_cpu_rows(data, axis);
    g->before = rows.outer;
    g->size = rows.extent;
    g->picked = mg_shape_elements(&p->op.in_shape[1]);
    g->after = rows.inner;
    g->bytes = mg_dtype_size(native);
    g->real = native == MG_DTYPE_F32;
    op->data = g;
    op->run = run_gather;
    return MG_OK;
}

/* ---- counting ---- */

static enum mg_code run_iota(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    double start = mg_prepared_float(p, MG_ATTR_START), delta = mg_prepared_float(p, MG_ATTR_DELTA);
    enum mg_dtype dtype = p->op.out_dtype[0];
    for (int64_t i = 0; i < p->op.out_shape[0].dim[0]; i++) {
        double x = start + (double)i * delta;
        mg_cpu_move(&(struct mg_shape){0},
                    &(struct cpu_side){(char *)call->out[0] + i * p->out[0].at[0] * mg_dtype_size(dtype), dtype, NULL},
                    &(struct cpu_side){&x, MG_DTYPE_F64, NULL});
    }
    return MG_OK;
}

enum mg_code mg_cpu_iota(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    (void)p;
    (void)err;
    op->strided = true;
    op->run = run_iota;
    return MG_OK;
}
