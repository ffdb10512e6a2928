/* Matrix products by oneDNN: alpha a b + beta c. */
#include <string.h>

#include "measure/cpu_priv.h"

struct product {
    struct mg_strides a, b, c, addend; /* as the kernel sees the operands */
    bool accumulate;                   /* the addend is put into the result first, then added to */
    struct onednn_op *dnn;
};
/* A matrix operand of the batch: sizes and strides in the rank of the result, rows and columns as multiplied. */
struct factor {
    int64_t dim[MG_MAX_RANK], stride[MG_MAX_RANK];
};

static bool readable(const struct mg_shape *shape, const struct mg_strides *strides)
{
    int64_t rows = strides->at[shape->rank - 2], columns = strides->at[shape->rank - 1];
    bool row_major = columns == 1 || shape->dim[shape->rank - 1] == 1;
    bool column_major = rows == 1 || shape->dim[shape->rank - 2] == 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (strides->at[d] == 0 && shape->dim[d] > 1)
            return false;
    return (row_major && rows >= shape->dim[shape->rank - 1]) ||
           (column_major && columns >= shape->dim[shape->rank - 2]);
}

static bool takes_layouts(const struct mg_prepared *p)
{
    for (uint32_t i = 0; i < p->op.in_count; i++)
        if (p->op.in_dtype[i] != MG_DTYPE_F32 || (i < 2 && !readable(&p->op.in_shape[i], &p->in[i])))
            return false;
    return p->op.out_dtype[0] == MG_DTYPE_F32 && readable(&p->op.out_shape[0], &p->out[0]) &&
           (p->out[0].at[p->op.out_shape[0].rank - 1] == 1 || p->op.out_shape[0].dim[p->op.out_shape[0].rank - 1] == 1);
}

static struct factor factor_of(const struct mg_shape *shape, const struct mg_strides *strides, uint32_t rank,
                               bool transposed)
{
    struct factor f = {{0}, {0}};
    uint32_t skip = rank - shape->rank;
    for (uint32_t d = 0; d < rank; d++) {
        f.dim[d] = d < skip ? 1 : shape->dim[d - skip];
        f.stride[d] = d < skip ? 0 : strides->at[d - skip];
    }
    if (transposed) {
        int64_t dim = f.dim[rank - 1], stride = f.stride[rank - 1];
        f.dim[rank - 1] = f.dim[rank - 2];
        f.stride[rank - 1] = f.stride[rank - 2];
        f.dim[rank - 2] = dim;
        f.stride[rank - 2] = stride;
    }
    return f;
}

/* Do the dimensions before the last step over each other exactly? */
static bool joins(const struct factor *f, uint32_t rank)
{
    for (uint32_t d = 0; d + 2 < rank; d++)
        if (f->dim[d] > 1 && f->stride[d] != f->stride[d + 1] * f->dim[d + 1])
            return false;
    return true;
}

static void join(struct factor *f, uint32_t rank)
{
    for (uint32_t d = 0; d + 2 < rank; d++) {
        f->dim[rank - 2] *= f->dim[d];
        f->dim[d] = 1;
    }
}

static bool is_single(const struct factor *f, uint32_t rank)
{
    for (uint32_t d = 0; d + 2 < rank; d++)
        if (f->dim[d] != 1)
            return false;
    return true;
}

/* An addend that is a row is oneDNN's bias; it is added before the scale. */
static bool is_bias(const struct mg_prepared *p, const struct product *product, double alpha, double beta)
{
    const struct mg_shape *shape = &p->op.in_shape[2], *out = &p->op.out_shape[0];
    if (alpha != 1 || beta != 1 || shape->rank == 0 || shape->dim[shape->rank - 1] != out->dim[out->rank - 1])
        return false;
    return mg_shape_elements(shape) == shape->dim[shape->rank - 1] &&
           (product->addend.at[shape->rank - 1] == 1 || shape->dim[shape->rank - 1] == 1);
}

static enum mg_code run_product(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct product *product = ((const struct cpu_op *)p->detail)->data;
    if (product->accumulate && call->in[2] != call->out[0]) {
        int64_t stride[MG_MAX_RANK];
        union {
            const void *from;
            void *to;
        } cast = {.from = call->in[2]};
        mg_cpu_broadcast(&p->op.in_shape[2], &product->addend, &p->op.out_shape[0], stride);
        mg_cpu_move(&p->op.out_shape[0], &(struct cpu_side){call->out[0], MG_DTYPE_F32, product->c.at},
                    &(struct cpu_side){cast.to, MG_DTYPE_F32, stride});
    }
    return mg_onednn_run(product->dnn, call, call->in, call->out);
}

static void choose_layouts(struct mg_prepared *p, struct cpu_op *op, struct product *product)
{
    op->strided = takes_layouts(p);
    if (op->strided) {
        product->a = p->in[0];
        product->b = p->in[1];
        product->c = p->out[0];
        if (p->op.in_count > 2)
            product->addend = p->in[2];
        return;
    }
    mg_shape_strides(&p->op.in_shape[0], product->a.at);
    mg_shape_strides(&p->op.in_shape[1], product->b.at);
    mg_shape_strides(&p->op.out_shape[0], product->c.at);
    if (p->op.in_count > 2)
        mg_shape_strides(&p->op.in_shape[2], product->addend.at);
}

static void describe(const struct onednn *dnn, struct onednn_arg *arg, int id, int operand, const struct factor *f,
                     uint32_t rank)
{
    *arg = (struct onednn_arg){.id = id, .operand = operand};
    mg_onednn_describe(dnn, &arg->user, rank, f->dim, f->stride);
}

enum mg_code mg_cpu_matmul(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct onednn *dnn = &((struct cpu *)p->engine->detail)->dnn;
    struct product *product = MG_NEW(&p->arena, struct product);
    const struct mg_shape *out = &p->op.out_shape[0];
    uint32_t rank = out->rank;
    double beta = p->op.type == MG_OP_GEMM ? mg_prepared_float(p, MG_ATTR_BETA) : 1;
    choose_layouts(p, op, product);
    struct factor a = factor_of(&p->op.in_shape[0], &product->a, rank, mg_prepared_int(p, MG_ATTR_TRANS_A));
    struct factor b = factor_of(&p->op.in_shape[1], &product->b, rank, mg_prepared_int(p, MG_ATTR_TRANS_B));
    struct factor c = factor_of(out, &product->c, rank, false);
    if (a.dim[rank - 1] == 0)
        return mg_prepared_refuse(p, err, "its products are empty");
    if (is_single(&b, rank) && joins(&a, rank) && joins(&c, rank)) {
        join(&a, rank);
        join(&c, rank);
    }
    struct onednn_recipe recipe = {.arg_count = 3, .scale = (float)mg_prepared_float(p, MG_ATTR_ALPHA)};
    describe(dnn, &recipe.args[0], DNNL_ARG_SRC, 0, &a, rank);
    describe(dnn, &recipe.args[1], DNNL_ARG_WEIGHTS, 1, &b, rank);
    describe(dnn, &recipe.args[2], DNNL_ARG_DST, ~0, &c, rank);
    const dnnl_memory_desc_t *bias = NULL;
    if (p->op.in_count > 2 && is_bias(p, product, recipe.scale, beta)) {
        struct factor row = {{0}, {0}};
        for (uint32_t d = 0; d < rank; d++)
            row.dim[d] = d + 1 < rank ? 1 : c.dim[d];
        row.stride[rank - 1] = 1;
        describe(dnn, &recipe.args[3], DNNL_ARG_BIAS, 2, &row, rank);
        bias = &recipe.args[recipe.arg_count++].user;
    } else if (p->op.in_count > 2) {
        product->accumulate = true;
        recipe.added = (float)beta;
        recipe.args[2].accumulated = true;
    }
    dnnl_matmul_desc_t descriptor;
    dnn->matmul_desc_init(&descriptor, &recipe.args[0].user, &recipe.args[1].user, bias, &recipe.args[2].user);
    recipe.descriptor = &descriptor;
    op->data = product;
    op->run = run_product;
    enum mg_code code = mg_onednn_build(p, &recipe, &product->dnn, err);
    op->dnn = product->dnn;
    return code;
}

/* ---- products inside other operators ---- */

enum mg_code mg_cpu_dense_product(struct mg_prepared *p, struct cpu_op *op, const struct cpu_product *product,
                                  struct onednn_op **out, struct mg_error *err)
{
    const struct onednn *dnn = &((struct cpu *)p->engine->detail)->dnn;
    int64_t m = product->m, n = product->n, k = product->k;
    struct factor a = {{product->batch, m, k}, {m * k, product->trans_a ? 1 : k, product->trans_a ? m : 1}};
    struct factor b = {{product->batch, k, n}, {k * n, product->trans_b ? 1 : n, product->trans_b ? k : 1}};
    struct factor c = {{product->batch, m, n}, {m * n, n, 1}};
    struct onednn_recipe recipe = {.arg_count = 3, .scale = 1};
    describe(dnn, &recipe.args[0], DNNL_ARG_SRC, 0, &a, 3);
    describe(dnn, &recipe.args[1], DNNL_ARG_WEIGHTS, 1, &b, 3);
    describe(dnn, &recipe.args[2], DNNL_ARG_DST, ~0, &c, 3);
    dnnl_matmul_desc_t descriptor;
    dnn->matmul_desc_init(&descriptor, &recipe.args[0].user, &recipe.args[1].user, NULL, &recipe.args[2].user);
    recipe.descriptor = &descriptor;
    enum mg_code code = mg_onednn_build(p, &recipe, out, err);
    (*out)->next = op->dnn;
    op->dnn = *out;
    return code;
}

enum mg_code mg_cpu_dense_product_run(const struct onednn_op *product, const struct cpu_call *call, const float *a,
                                      const float *b, float *c)
{
    return mg_onednn_run(product, call, (const void *const[]){a, b}, (void *const[]){c});
}
