/* What the back end has no kernel for runs in the reference executor, so that whole graphs can be executed: every
 * operator has one, but not for every dtype (sums of products, pooling, normalisation and losses are of reals, booleans
 * are moved and compared, not added up; quantized factors have 8 bits) nor for operands without elements. Its times say
 * nothing about the machine and are not measured. */
#include "measure/cpu_priv.h"

struct reference {
    uint64_t *in, *out; /* where in the scratch the operands are, as doubles */
};

static void move(const struct mg_shape *shape, const void *outside, enum mg_dtype dtype,
                 const struct mg_strides *strides, void *inside, bool enter)
{
    int64_t stride[MG_MAX_RANK];
    union {
        const void *from;
        void *to;
    } cast = {.from = outside};
    mg_shape_strides(shape, stride);
    struct cpu_side narrow = {cast.to, dtype, strides->at}, wide = {inside, MG_DTYPE_F64, stride};
    mg_cpu_move(shape, enter ? &wide : &narrow, enter ? &narrow : &wide);
}

struct execution {
    const struct cpu_call *call;
    struct mg_arena arena;
};

static enum mg_code execute(void *context, struct mg_error *err)
{
    struct execution *x = context;
    const struct cpu_call *call = x->call;
    const struct mg_prepared *p = call->p;
    const struct reference *r = ((const struct cpu_op *)p->detail)->data;
    struct mg_tensor *in = MG_NEW_ARRAY(&x->arena, struct mg_tensor, p->op.in_count);
    struct mg_tensor *out = MG_NEW_ARRAY(&x->arena, struct mg_tensor, p->op.out_count);
    for (uint32_t i = 0; i < p->op.in_count; i++) {
        in[i] = mg_tensor_dense((double *)(void *)(call->scratch + r->in[i]), &p->op.in_shape[i]);
        move(&p->op.in_shape[i], call->in[i], p->op.in_dtype[i], &p->in[i], in[i].data, true);
    }
    for (uint32_t i = 0; i < p->op.out_count; i++)
        out[i] = mg_tensor_dense((double *)(void *)(call->scratch + r->out[i]), &p->op.out_shape[i]);
    enum mg_code code = mg_exec_op(&p->op, in, out, call->origin, &x->arena, err);
    for (uint32_t i = 0; i < p->op.out_count && code == MG_OK; i++)
        move(&p->op.out_shape[i], call->out[i], p->op.out_dtype[i], &p->out[i], out[i].data, false);
    return code;
}

static enum mg_code run_reference(const struct cpu_call *call)
{
    struct execution x = {.call = call};
    mg_arena_init(&x.arena, SIZE_MAX);
    enum mg_code code = mg_arena_guard(&x.arena, execute, &x, call->err);
    mg_arena_release(&x.arena);
    return code;
}

enum mg_code mg_cpu_by_reference(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct reference *r = MG_NEW(&p->arena, struct reference);
    if (p->op.type == MG_OP_OPAQUE)
        return mg_prepared_refuse(p, err, "nobody but its author knows what it does");
    r->in = MG_NEW_ARRAY(&p->arena, uint64_t, p->op.in_count);
    r->out = MG_NEW_ARRAY(&p->arena, uint64_t, p->op.out_count);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        r->in[i] = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&p->op.in_shape[i]) * sizeof(double));
    for (uint32_t i = 0; i < p->op.out_count; i++)
        r->out[i] = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&p->op.out_shape[i]) * sizeof(double));
    p->unmeasurable = "it has no kernel there for such operands, only the reference executor runs it";
    op->strided = true;
    op->data = r;
    op->run = run_reference;
    return MG_OK;
}
