/* Matrix products, in blocks: a block of the right factor is copied so that its rows are dense, and each row of the
 * result runs along it. Every element of the result is one sum in ascending order, whatever the blocks. */
#include "exec/kernels.h"

enum { BLOCK_ROWS = 64, BLOCK_COLUMNS = 128, UNROLL = 4 };

/* c[0 .. n) += a[0] b[0] + a[1] b[1] + ... */
static void add_rows(double *restrict c, const double *a, int64_t a_step, const double (*b)[BLOCK_COLUMNS], int64_t k,
                     int64_t n)
{
    int64_t x = 0;
    for (; x + UNROLL <= k; x += UNROLL) {
        double a0 = a[x * a_step], a1 = a[(x + 1) * a_step], a2 = a[(x + 2) * a_step], a3 = a[(x + 3) * a_step];
        for (int64_t j = 0; j < n; j++)
            c[j] = c[j] + a0 * b[x][j] + a1 * b[x + 1][j] + a2 * b[x + 2][j] + a3 * b[x + 3][j];
    }
    for (; x < k; x++)
        for (int64_t j = 0; j < n; j++)
            c[j] += a[x * a_step] * b[x][j];
}

void mg_multiply_add(const struct mg_product *p, const double *a, const double *b, double *c)
{
    double block[BLOCK_ROWS][BLOCK_COLUMNS];
    for (int64_t j = 0; j < p->n; j += BLOCK_COLUMNS)
        for (int64_t x = 0; x < p->k; x += BLOCK_ROWS) {
            int64_t columns = p->n - j < BLOCK_COLUMNS ? p->n - j : BLOCK_COLUMNS;
            int64_t rows = p->k - x < BLOCK_ROWS ? p->k - x : BLOCK_ROWS;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t q = 0; q < columns; q++)
                    block[r][q] = b[(x + r) * p->b_row + (j + q) * p->b_column];
            for (int64_t i = 0; i < p->m; i++)
                add_rows(c + i * p->c_row + j, a + i * p->a_row + x * p->a_column, p->a_column, block, rows, columns);
        }
}

static struct mg_shape batch_shape(const struct mg_shape *shape)
{
    struct mg_shape batch = *shape;
    batch.rank = shape->rank - 2;
    return batch;
}

static void multiply_batches(const struct mg_kernel *k)
{
    const struct mg_shape *a = &k->op->in_shape[0], *b = &k->op->in_shape[1], *c = &k->op->out_shape[0];
    bool trans_a = mg_kernel_int(k, MG_ATTR_TRANS_A), trans_b = mg_kernel_int(k, MG_ATTR_TRANS_B);
    struct mg_product p = {.m = c->dim[c->rank - 2], .n = c->dim[c->rank - 1], .c_row = c->dim[c->rank - 1]};
    p.k = a->dim[trans_a ? a->rank - 2 : a->rank - 1];
    p.a_row = trans_a ? 1 : p.k;
    p.a_column = trans_a ? p.m : 1;
    p.b_row = trans_b ? 1 : p.n;
    p.b_column = trans_b ? p.k : 1;
    struct mg_shape batch_a = batch_shape(a), batch_b = batch_shape(b), batch = batch_shape(c);
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(&batch);
    for (int64_t i = 0; i < count; i++) {
        mg_multiply_add(&p, k->in[0] + mg_broadcast_at(&batch_a, index, batch.rank) * p.m * p.k,
                        k->in[1] + mg_broadcast_at(&batch_b, index, batch.rank) * p.k * p.n, k->out[0] + i * p.m * p.n);
        mg_walk_next(&batch, index);
    }
}

/* matmul and gemm: alpha a b + beta c. */
enum mg_code kernel_gemm(const struct mg_kernel *k)
{
    const struct mg_shape *out = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0};
    double alpha = mg_kernel_float(k, MG_ATTR_ALPHA);
    double beta = k->op->type == MG_OP_GEMM ? mg_kernel_float(k, MG_ATTR_BETA) : 1;
    multiply_batches(k);
    for (int64_t i = 0; i < mg_shape_elements(out); i++) {
        k->out[0][i] *= alpha;
        if (k->op->in_count > 2)
            k->out[0][i] += beta * k->in[2][mg_broadcast_at(&k->op->in_shape[2], index, out->rank)];
        mg_walk_next(out, index);
    }
    return MG_OK;
}
