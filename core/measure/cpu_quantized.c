/* Quantized numbers: real = (x - zero point) * scale. Sums of products are exact whole numbers, rounded once: they are
 * made in f32, as many at a time as stay below 2^24 for factors of 9 bits, and added up as integers. */
#include <math.h>
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

/* Rounded to the nearest whole number (of two, the even one) that the dtype holds. */
static int64_t saturated(double x, enum mg_dtype dtype)
{
    double span = ldexp(1, (int)(8 * mg_dtype_size(dtype))), least = mg_dtype_is_unsigned(dtype) ? 0 : -span / 2;
    x = nearbyint(x);
    return (int64_t)(x < least ? least : x > least + span - 1 ? least + span - 1 : x);
}

/* ---- to quantized numbers and back: scales and zero points are one number or one for each index of an axis ---- */

struct parameters {
    struct cpu_rows rows;
    bool many_scales, many_zeros, has_zeros;
};

static struct parameters *parameters_of(struct mg_prepared *p)
{
    struct parameters *q = MG_NEW(&p->arena, struct parameters);
    const struct mg_shape *x = &p->op.in_shape[0];
    q->has_zeros = p->op.in_count > 2;
    q->many_scales = mg_shape_elements(&p->op.in_shape[1]) != 1;
    q->many_zeros = q->has_zeros && mg_shape_elements(&p->op.in_shape[2]) != 1;
    bool many = q->many_scales || q->many_zeros;
    q->rows = many ? mg_cpu_rows(x, mg_prepared_int(p, MG_ATTR_AXIS)) : (struct cpu_rows){1, 1, mg_shape_elements(x)};
    return q;
}

MG_WIDE static void quantize_row(const float *x, int64_t n, float scale, float zero, float least, float most,
                                 int64_t *y)
{
    for (int64_t i = 0; i < n; i++) {
        float whole = nearbyintf(x[i] / scale) + zero;
        whole = whole < least ? least : whole;
        whole = whole > most ? most : whole;
        y[i] = (int64_t)whole;
    }
}

MG_WIDE static void dequantize_row(const int64_t *x, int64_t n, int64_t zero, float scale, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(x[i] - zero) * scale;
}

static enum mg_code run_quantize(const struct cpu_call *call)
{
    const struct parameters *q = ((const struct cpu_op *)call->p->detail)->data;
    const float *scales = call->in[1];
    const int64_t *zeros = q->has_zeros ? call->in[2] : NULL;
    enum mg_dtype dtype = call->p->op.out_dtype[0];
    float least = (float)saturated(-INFINITY, dtype), most = (float)saturated(INFINITY, dtype);
    for (int64_t r = 0; r < q->rows.outer * q->rows.extent; r++) {
        int64_t at = r % q->rows.extent, zero = zeros ? zeros[q->many_zeros ? at : 0] : 0, n = q->rows.inner;
        float scale = scales[q->many_scales ? at : 0];
        if (call->p->op.type == MG_OP_QUANTIZE_LINEAR)
            quantize_row((const float *)call->in[0] + r * n, n, scale, (float)zero, least, most,
                         (int64_t *)call->out[0] + r * n);
        else
            dequantize_row((const int64_t *)call->in[0] + r * n, n, zero, scale, (float *)call->out[0] + r * n);
    }
    return MG_OK;
}

/* In f32 whole numbers of 32 bits would not all be there. */
enum mg_code mg_cpu_quantize(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    bool to = p->op.type == MG_OP_QUANTIZE_LINEAR;
    if (mg_cpu_native(p->op.in_dtype[to ? 0 : 1]) != MG_DTYPE_F32 || (to && mg_dtype_size(p->op.out_dtype[0]) > 2))
        return mg_cpu_by_reference(p, op, err);
    op->data = parameters_of(p);
    op->run = run_quantize;
    return MG_OK;
}

/* The range from the least to the largest element, widened to hold zero, on 0 to 255. */
MG_WIDE static void range_of(const float *x, int64_t n, float *least, float *most)
{
    float low[16] = {0}, high[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) {
            low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
            high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
        }
    for (; i < n; i++) {
        low[0] = x[i] < low[0] ? x[i] : low[0];
        high[0] = x[i] > high[0] ? x[i] : high[0];
    }
    *least = *most = 0;
    for (int k = 0; k < 16; k++) {
        *least = low[k] < *least ? low[k] : *least;
        *most = high[k] > *most ? high[k] : *most;
    }
}

static enum mg_code run_dynamic(const struct cpu_call *call)
{
    int64_t count = mg_shape_elements(&call->p->op.in_shape[0]);
    float least, most;
    range_of(call->in[0], count, &least, &most);
    double scale = ((double)most - (double)least) / 255;
    scale = scale > 0 ? scale : 1;
    int64_t zero = saturated(-(double)least / scale, MG_DTYPE_U8);
    quantize_row(call->in[0], count, (float)scale, (float)zero, 0, 255, call->out[0]);
    *(float *)call->out[1] = (float)scale;
    *(int64_t *)call->out[2] = zero;
    return MG_OK;
}

enum mg_code mg_cpu_dynamic_quantize(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    op->run = run_dynamic;
    return MG_OK;
}

/* ---- sums of products ---- */

enum { BLOCK_ROWS = 4, BLOCK_COLUMNS = 64, BLOCK_DEPTH = 256 }; /* 256 * 255 * 255 < 2^24 */

MG_WIDE static void multiply_block(const float *a, int64_t k, const float *b, int64_t n, int64_t rows, int64_t columns,
                                   int64_t depth, int64_t *c)
{
    float sum[BLOCK_ROWS][BLOCK_COLUMNS] = {{0}};
    for (int64_t d = 0; d < depth; d++)
        for (int64_t r = 0; r < rows; r++) {
            const float x = a[r * k + d];
            for (int64_t j = 0; j < columns; j++)
                sum[r][j] += x * b[d * n + j];
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++)
            c[r * n + j] += (int64_t)sum[r][j];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* c[m, n] = a[m, k] b[k, n] */
static void multiply(const float *a, const float *b, int64_t m, int64_t n, int64_t k, int64_t *c)
{
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t d = 0; d < k; d += BLOCK_DEPTH)
        for (int64_t j = 0; j < n; j += BLOCK_COLUMNS)
            for (int64_t i = 0; i < m; i += BLOCK_ROWS)
                multiply_block(a + i * k + d, k, b + d * n + j, n, least(m - i, BLOCK_ROWS),
                               least(n - j, BLOCK_COLUMNS), least(k - d, BLOCK_DEPTH), c + i * n + j);
}

/* Where operands stand. With scales of its own an operator has three for each tensor. */
struct sums {
    bool rounds;
    uint32_t b, zero_a, zero_b;
    uint64_t centred_a, centred_b, whole, columns; /* in the scratch */
    struct cpu_columns windows;                    /* convolutions */
};

static struct sums *sums_of(struct mg_prepared *p)
{
    struct sums *s = MG_NEW(&p->arena, struct sums);
    s->rounds = p->op.type == MG_OP_QLINEAR_MATMUL || p->op.type == MG_OP_QLINEAR_CONV;
    s->b = s->rounds ? 3 : 1;
    s->zero_a = 2;
    s->zero_b = s->rounds ? 5 : 3;
    s->centred_a = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&p->op.in_shape[0]) * sizeof(float));
    s->centred_b = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&p->op.in_shape[s->b]) * sizeof(float));
    s->whole = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&p->op.out_shape[0]) * sizeof(int64_t));
    return s;
}

/* An operand less its zero points: a number, or one for each index of a dimension. */
static const float *centred(const struct cpu_call *call, uint32_t operand, uint32_t zero, int64_t dim, uint64_t at)
{
    const struct mg_op_desc *op = &call->p->op;
    struct cpu_rows rows = mg_cpu_rows(&op->in_shape[operand], dim);
    const int64_t *x = call->in[operand], *points = zero < op->in_count ? call->in[zero] : NULL;
    bool many = points && mg_shape_elements(&op->in_shape[zero]) != 1;
    float *out = (float *)(void *)(call->scratch + at);
    for (int64_t r = 0; r < rows.outer * rows.extent; r++)
        dequantize_row(x + r * rows.inner, rows.inner, points ? points[many ? r % rows.extent : 0] : 0, 1,
                       out + r * rows.inner);
    return out;
}

static double entry(const struct cpu_call *call, uint32_t operand, int64_t at)
{
    return (double)((const float *)call->in[operand])[mg_shape_elements(&call->p->op.in_shape[operand]) == 1 ? 0 : at];
}

/* The whole sums in the result's scale. `row` and `column` of position i choose among vectors of scales. */
static void requantize(const struct cpu_call *call, const int64_t *whole, int64_t rows, int64_t row_step,
                       int64_t columns, int64_t column_step)
{
    const struct mg_op_desc *op = &call->p->op;
    double scale_out = entry(call, 6, 0), zero = (double)*(const int64_t *)call->in[7];
    const int64_t *bias = op->in_count > 8 ? call->in[8] : NULL;
    int64_t *out = call->out[0];
    for (int64_t i = 0; i < mg_shape_elements(&op->out_shape[0]); i++) {
        int64_t row = i / row_step % rows, column = i / column_step % columns;
        double sum = (double)(whole[i] + (bias ? bias[column] : 0));
        double scale = entry(call, 1, row) * entry(call, 4, column) / scale_out;
        out[i] = saturated(nearbyint(sum * scale) + zero, op->out_dtype[0]);
    }
}

/* Batches broadcast. */
static enum mg_code run_matmul(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    const struct sums *s = ((const struct cpu_op *)call->p->detail)->data;
    const struct mg_shape *a = &op->in_shape[0], *b = &op->in_shape[s->b], *out = &op->out_shape[0];
    int64_t m = out->dim[out->rank - 2], n = out->dim[out->rank - 1], k = a->dim[a->rank - 1];
    const float *left = centred(call, 0, s->zero_a, a->rank - 2, s->centred_a);
    const float *right = centred(call, s->b, s->zero_b, b->rank - 1, s->centred_b);
    int64_t *whole = s->rounds ? (int64_t *)(void *)(call->scratch + s->whole) : call->out[0], *c = whole;
    int64_t index[MG_MAX_RANK] = {0}, batches = mg_shape_elements(out) / (m * n);
    for (int64_t i = 0; i < batches; i++, c += m * n) {
        int64_t at_a = 0, at_b = 0;
        for (uint32_t d = 0; d + 2 < out->rank; d++) {
            uint32_t skip_a = out->rank - a->rank, skip_b = out->rank - b->rank;
            if (d >= skip_a)
                at_a = at_a * a->dim[d - skip_a] + (a->dim[d - skip_a] == 1 ? 0 : index[d]);
            if (d >= skip_b)
                at_b = at_b * b->dim[d - skip_b] + (b->dim[d - skip_b] == 1 ? 0 : index[d]);
        }
        multiply(left + at_a * m * k, right + at_b * k * n, m, n, k, c);
        for (uint32_t d = out->rank - 2; d-- > 0 && ++index[d] == out->dim[d];)
            index[d] = 0;
    }
    if (s->rounds)
        requantize(call, whole, m, n, n, 1);
    return MG_OK;
}

static bool is_narrow(const struct mg_prepared *p, const struct sums *s)
{
    return mg_dtype_size(p->op.in_dtype[0]) == 1 && mg_dtype_size(p->op.in_dtype[s->b]) == 1;
}

enum mg_code mg_cpu_quantized_matmul(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct sums *s = sums_of(p);
    if (!is_narrow(p, s) || p->op.in_shape[0].rank < 2 || p->op.in_shape[s->b].rank < 2)
        return mg_cpu_by_reference(p, op, err);
    op->data = s;
    op->run = run_matmul;
    return MG_OK;
}

/* Sample by sample and group by group, the windows as columns. Padding is the zero point, which is centred to zero. */
static enum mg_code run_conv(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    const struct sums *s = ((const struct cpu_op *)call->p->detail)->data;
    const struct mg_shape *x = &op->in_shape[0], *w = &op->in_shape[s->b];
    int64_t groups = mg_prepared_int(call->p, MG_ATTR_GROUP), channels = w->dim[1], filters = w->dim[0] / groups;
    int64_t depth = channels * s->windows.elements, windows = s->windows.windows;
    const float *image = centred(call, 0, s->zero_a, 0, s->centred_a);
    const float *weights = centred(call, s->b, s->zero_b, 0, s->centred_b);
    float *columns = (float *)(void *)(call->scratch + s->columns);
    int64_t *whole = s->rounds ? (int64_t *)(void *)(call->scratch + s->whole) : call->out[0], *y = whole;
    for (int64_t i = 0; i < x->dim[0] * groups; i++, y += filters * windows) {
        for (int64_t c = 0; c < channels; c++, image += s->windows.size)
            mg_cpu_columns_of(&s->windows, image, columns + c * s->windows.elements * windows);
        multiply(weights + i % groups * filters * depth, columns, filters, windows, depth, y);
    }
    if (s->rounds)
        requantize(call, whole, 1, 1, w->dim[0], windows);
    return MG_OK;
}

enum mg_code mg_cpu_quantized_conv(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct sums *s = sums_of(p);
    const struct mg_shape *w = &p->op.in_shape[s->b];
    if (!is_narrow(p, s) || w->rank > 5)
        return mg_cpu_by_reference(p, op, err);
    mg_cpu_columns_init(&s->windows, p, &p->op.in_shape[0], w->dim + 2);
    s->columns = mg_cpu_reserve(p, (uint64_t)(w->dim[1] * s->windows.elements * s->windows.windows) * sizeof(float));
    op->data = s;
    op->run = run_conv;
    return MG_OK;
}
