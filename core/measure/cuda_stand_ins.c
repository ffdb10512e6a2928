/* Families of kernels: matrix products and convolutions of real numbers, which libraries run (cuda_product.c,
 * cuda_conv.c); here for the layouts that those do not take. */
#include "measure/cuda_family.h"

void mg_cuda_define_batch(struct family *f, const char *name, uint32_t operand, const struct mg_shape *batch)
{
    const struct mg_shape *whole = &f->p->op.in_shape[operand];
    int64_t step = 1, strides[MG_MAX_RANK] = {0};
    uint32_t skip = batch->rank + 2 - whole->rank;
    for (uint32_t d = batch->rank; d-- > skip;) {
        strides[d] = whole->dim[d - skip] == 1 ? 0 : step;
        step *= whole->dim[d - skip];
    }
    mg_cuda_define_walk(f, name, batch, strides, (1u << batch->rank) - 1);
}

bool mg_cuda_write_product(struct family *f)
{
    const struct mg_prepared *p = f->p;
    const struct mg_shape *a = &p->op.in_shape[0], *c = &p->op.out_shape[0];
    bool trans_a = integer(f, MG_ATTR_TRANS_A);
    struct mg_shape batch = *c;
    batch.rank = c->rank - 2;
    mg_cuda_define_batch(f, "batch_a", 0, &batch);
    mg_cuda_define_batch(f, "batch_b", 1, &batch);
    define(f, "M", c->dim[c->rank - 2]);
    define(f, "N", c->dim[c->rank - 1]);
    define(f, "K", a->dim[trans_a ? a->rank - 2 : a->rank - 1]);
    define(f, "TRANS_A", trans_a);
    define(f, "TRANS_B", integer(f, MG_ATTR_TRANS_B));
    define_real(f, "ALPHA", mg_prepared_float(p, MG_ATTR_ALPHA));
    define_real(f, "BETA", p->op.type == MG_OP_GEMM ? mg_prepared_float(p, MG_ATTR_BETA) : 1);
    if (p->op.in_count > 2)
        mg_cuda_define_broadcast(f, "addend_of", 2, c);
    define_as(f, "ADDEND(o)", p->op.in_count > 2 ? "(num)BETA * IN2(addend_of(o))" : "0");
    mg_cuda_only_stand_in(f);
    return mg_cuda_everywhere(f, "F_PRODUCT");
}

static void define_addends(struct family *f)
{
    mg_cuda_print(f->t, "#define ADDENDS(o, c) (0");
    for (uint32_t i = 2; i < f->p->op.in_count; i++)
        mg_cuda_print(f->t, " + IN%u(%s)", i, f->p->op.in_shape[i].rank == 1 ? "c" : "o");
    mg_cuda_print(f->t, ")\n");
}

bool mg_cuda_write_conv(struct family *f)
{
    const struct mg_op_desc *op = &f->p->op;
    bool by_weight = op->type == MG_OP_CONV_GRAD_WEIGHT, forward = op->type == MG_OP_CONV;
    const struct mg_shape *x = forward ? &op->in_shape[0] : by_weight ? &op->in_shape[1] : &op->out_shape[0];
    const struct mg_shape *y = forward ? &op->out_shape[0] : &op->in_shape[0];
    const struct mg_shape *w = by_weight ? &op->out_shape[0] : &op->in_shape[1];
    int64_t group = integer(f, MG_ATTR_GROUP);
    define(f, "F_CONV", 1);
    define(f, forward ? "F_CONV_Y" : by_weight ? "F_CONV_W" : "F_CONV_X", 1);
    if (!mg_cuda_define_windows(f, x, y))
        return false;
    mg_cuda_define_sizes(f, "W", w);
    define(f, "SAMPLES", x->dim[0]);
    define(f, "GROUP", group);
    define(f, "PER_X", x->dim[1] / group);
    define(f, "PER_Y", y->dim[1] / group);
    define(f, "COUNT", mg_shape_elements(&op->out_shape[0]));
    define_addends(f);
    threads(f, mg_shape_elements(&op->out_shape[0]));
    mg_cuda_only_stand_in(f);
    return true;
}
