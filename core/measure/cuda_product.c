/* Matrix products by cuBLASLt, row-major: alpha a b + beta c. Batches are equally spaced or one; other layouts, and
 * addends that are repeated, have no kernel. */
#include <string.h>

#include "measure/cuda_priv.h"

enum { WORKSPACE = 32 << 20 };

struct matrix {
    int64_t rows, columns, ld, batch, step;
    bool transposed; /* stored column by column */
};

/* Batch dimensions as one: their number and distance. */
static bool join_batch(const struct mg_shape *shape, const int64_t *stride, struct matrix *m)
{
    m->batch = 1;
    m->step = 0;
    for (uint32_t d = 0; d + 2 < shape->rank; d++) {
        if (shape->dim[d] == 1)
            continue;
        if (m->batch > 1 && m->step != stride[d] * shape->dim[d])
            return false;
        m->batch *= shape->dim[d];
        m->step = stride[d];
    }
    return true;
}

static bool matrix_of(const struct mg_shape *shape, const struct mg_strides *strides, struct matrix *m)
{
    uint32_t r = shape->rank;
    if (r < 2 || !join_batch(shape, strides->at, m))
        return false;
    int64_t rows = shape->dim[r - 2], columns = shape->dim[r - 1];
    int64_t down = strides->at[r - 2], across = strides->at[r - 1];
    m->transposed = across != 1 && columns > 1;
    if (m->transposed ? down != 1 && rows > 1 : false)
        return false;
    m->rows = m->transposed ? columns : rows;
    m->columns = m->transposed ? rows : columns;
    m->ld = m->transposed ? across : down;
    m->ld = m->rows > 1 ? m->ld : m->columns;
    return m->ld >= m->columns;
}

static int type_of(enum mg_dtype dtype)
{
    return dtype == MG_DTYPE_F32    ? CUBLASLT_F32
           : dtype == MG_DTYPE_BF16 ? CUBLASLT_BF16
           : dtype == MG_DTYPE_F16  ? CUBLASLT_F16
                                    : -1;
}

static int make_layout(const struct cuda_blas *blas, const struct matrix *m, int type, int64_t batch, void **out)
{
    int order = CUBLASLT_ORDER_ROW, count = (int)batch;
    int64_t step = m->batch > 1 ? m->step : 0;
    int status = blas->layout_create(out, type, (uint64_t)m->rows, (uint64_t)m->columns, m->ld);
    if (status == 0)
        status = blas->layout_set(*out, CUBLASLT_LAYOUT_ORDER, &order, sizeof order);
    if (status == 0 && batch > 1)
        status = blas->layout_set(*out, CUBLASLT_LAYOUT_BATCH, &count, sizeof count);
    if (status == 0 && batch > 1)
        status = blas->layout_set(*out, CUBLASLT_LAYOUT_BATCH_STRIDE, &step, sizeof step);
    return status;
}

static int make_description(struct cuda *cuda, const struct mg_prepared *p, const struct matrix *a,
                            const struct matrix *b, struct cuda_op *op)
{
    const struct cuda_blas *blas = &cuda->calls.blas;
    bool tf32 = p->op.math == MG_MATH_TF32 && p->op.in_dtype[0] == MG_DTYPE_F32;
    int32_t trans_a = (mg_prepared_int(p, MG_ATTR_TRANS_A) != 0) != a->transposed;
    int32_t trans_b = (mg_prepared_int(p, MG_ATTR_TRANS_B) != 0) != b->transposed;
    int status = blas->desc_create(&op->desc, tf32 ? CUBLASLT_COMPUTE_TF32 : CUBLASLT_COMPUTE_F32, CUBLASLT_F32);
    if (status == 0)
        status = blas->desc_set(op->desc, CUBLASLT_DESC_TRANS_A, &trans_a, sizeof trans_a);
    return status ? status : blas->desc_set(op->desc, CUBLASLT_DESC_TRANS_B, &trans_b, sizeof trans_b);
}

static int choose(struct cuda *cuda, struct cuda_op *op)
{
    const struct cuda_blas *blas = &cuda->calls.blas;
    void *preference = NULL;
    uint64_t workspace = WORKSPACE;
    int found = 0, status = blas->preference_create(&preference);
    if (status == 0)
        status = blas->preference_set(preference, CUBLASLT_PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
    if (status == 0)
        status = blas->heuristic(cuda->blas, op->desc, op->layout[0], op->layout[1], op->layout[2], op->layout[2],
                                 preference, 1, &op->choice, &found);
    if (preference)
        blas->preference_destroy(preference);
    return status == 0 && found == 0 ? -1 : status;
}

enum mg_code mg_cuda_grow_scratch(struct cuda *cuda, uint64_t bytes, struct mg_error *err)
{
    uint64_t address = 0;
    if (bytes <= cuda->scratch_bytes)
        return MG_OK;
    int status = cuda->calls.driver.memory_alloc(&address, bytes);
    if (status != 0)
        return mg_cuda_failed(cuda, status, "a workspace", err);
    if (cuda->scratch)
        cuda->calls.driver.memory_free(cuda->scratch);
    cuda->scratch = address;
    cuda->scratch_bytes = bytes;
    return MG_OK;
}

enum mg_code mg_cuda_prepare_product(struct mg_prepared *p, struct cuda_op *op, struct mg_error *err)
{
    struct cuda *cuda = p->engine->detail;
    struct matrix m[3];
    const struct mg_shape *out = &p->op.out_shape[0];
    int type = type_of(p->op.out_dtype[0]);
    bool good = type >= 0 && matrix_of(&p->op.in_shape[0], &p->in[0], &m[0]) &&
                matrix_of(&p->op.in_shape[1], &p->in[1], &m[1]) && matrix_of(out, &p->out[0], &m[2]);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        good = good && p->op.in_dtype[i] == p->op.out_dtype[0];
    for (int i = 0; i < 2 && good; i++)
        good = m[i].batch == 1 || m[i].batch == m[2].batch;
    if (p->op.in_count > 2)
        good = good && mg_shape_equal(&p->op.in_shape[2], out) &&
               memcmp(p->in[2].at, p->out[0].at, out->rank * sizeof *p->in[2].at) == 0;
    if (!good || m[2].transposed)
        return mg_prepared_refuse(p, err, "cuBLASLt takes other layouts or dtypes");
    op->alpha = (float)mg_prepared_float(p, MG_ATTR_ALPHA);
    op->beta = p->op.in_count < 3 ? 0 : p->op.type == MG_OP_GEMM ? (float)mg_prepared_float(p, MG_ATTR_BETA) : 1;
    int status = make_description(cuda, p, &m[0], &m[1], op);
    for (int i = 0; i < 3 && status == 0; i++)
        status = make_layout(&cuda->calls.blas, &m[i], type, m[2].batch, &op->layout[i]);
    if (status == 0)
        status = choose(cuda, op);
    if (status != 0) {
        mg_cuda_release_product(cuda, op);
        return mg_prepared_refuse(p, err, "cuBLASLt has no such product");
    }
    p->workspace = op->choice.workspace_bytes;
    return mg_cuda_grow_scratch(cuda, p->workspace, err);
}

void mg_cuda_release_product(struct cuda *cuda, struct cuda_op *op)
{
    for (int i = 0; i < 3; i++)
        if (op->layout[i])
            cuda->calls.blas.layout_destroy(op->layout[i]);
    if (op->desc)
        cuda->calls.blas.desc_destroy(op->desc);
    memset(op->layout, 0, sizeof op->layout);
    op->desc = NULL;
}

enum mg_code mg_cuda_run_product(struct mg_prepared *p, const void *const *in, void *const *out, struct mg_error *err)
{
    struct cuda *cuda = p->engine->detail;
    const struct cuda_op *op = p->detail;
    const void *addend = p->op.in_count > 2 ? in[2] : out[0];
    int status =
        cuda->calls.blas.matmul(cuda->blas, op->desc, &op->alpha, in[0], op->layout[0], in[1], op->layout[1], &op->beta,
                                addend, op->layout[2], out[0], op->layout[2], op->choice.algorithm,
                                (void *)(uintptr_t)cuda->scratch, cuda->scratch_bytes, cuda->stream[MG_STREAM_COMPUTE]);
    return status == 0 ? MG_OK : mg_fail(err, MG_ERR_INTERNAL, "", "cuBLASLt: a product failed with %d", status);
}
