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

enum mg_code mg_cpu_movement(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct mg_moves *moves = MG_NEW(&p->arena, struct mg_moves);
    op->strided = mg_moves_of(p, moves);
    op->data = moves;
    op->run = op->strided ? run_moves : run_flat;
    bool flat = moves->count > 0 && p->op.type != MG_OP_PAD;
    return op->strided || flat ? MG_OK : mg_cpu_by_reference(p, op, err);
}

/* ---- rows by index: data[before, indices[i], after] <-> rows[before, i, after] ---- */

struct gather {
    int64_t before, size, picked, after;
    bool add;
};

static enum mg_code run_gather(const struct cpu_call *call)
{
    const struct gather *g = ((const struct cpu_op *)call->p->detail)->data;
    const int64_t *indices = call->in[1];
    const float *in = call->in[0];
    float *out = call->out[0];
    if (g->add)
        memset(out, 0, (size_t)(g->before * g->size * g->after) * sizeof *out);
    for (int64_t b = 0; b < g->before; b++)
        for (int64_t i = 0; i < g->picked; i++) {
            int64_t row = indices[i] < 0 ? indices[i] + g->size : indices[i];
            if (row < 0 || row >= g->size)
                return mg_fail(call->err, MG_ERR_INVALID, "", "an index of '%s' is out of range",
                               mg_op_type_name(call->p->op.type));
            const float *from = in + (g->add ? b * g->picked + i : b * g->size + row) * g->after;
            float *to = out + (g->add ? b * g->size + row : b * g->picked + i) * g->after;
            for (int64_t k = 0; k < g->after; k++)
                to[k] = g->add ? to[k] + from[k] : from[k];
        }
    return MG_OK;
}

enum mg_code mg_cpu_gather(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct gather *g = MG_NEW(&p->arena, struct gather);
    g->add = p->op.type == MG_OP_SCATTER_ADD;
    const struct mg_shape *data = g->add ? &p->op.out_shape[0] : &p->op.in_shape[0];
    int64_t axis = mg_prepared_int(p, MG_ATTR_AXIS);
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    *g = (struct gather){1, data->dim[axis], mg_shape_elements(&p->op.in_shape[1]), 1, g->add};
    for (uint32_t d = 0; d < data->rank; d++) {
        g->before *= d < axis ? data->dim[d] : 1;
        g->after *= d > axis ? data->dim[d] : 1;
    }
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
