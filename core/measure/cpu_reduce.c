/* Reductions, rows (softmax) and losses. */
#include <float.h>
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

/* ---- reductions: the result is walked with step 0 where it has no dimension ---- */

struct reduction {
    enum mg_op_type type;
    struct cpu_walk walk; /* result, operand */
    struct mg_strides out;
    double divisor;
};

static float start_of(enum mg_op_type type)
{
    if (type == MG_OP_REDUCE_MAX)
        return -INFINITY;
    return type == MG_OP_REDUCE_MIN ? INFINITY : type == MG_OP_REDUCE_PROD ? 1 : 0;
}

/* A row of operands into one number; eight sums at a time keep the pipelines busy and the error small. */
#define ROW(expression)                                                                                                \
    do {                                                                                                               \
        float lane[8] = {start, start, start, start, start, start, start, start};                                      \
        int64_t i = 0;                                                                                                 \
        for (; i + 8 <= n; i += 8)                                                                                     \
            for (int64_t k = 0; k < 8; k++) {                                                                          \
                const float x = in[(i + k) * step], s = lane[k];                                                       \
                lane[k] = (expression);                                                                                \
            }                                                                                                          \
        for (; i < n; i++) {                                                                                           \
            const float x = in[i * step], s = lane[0];                                                                 \
            lane[0] = (expression);                                                                                    \
        }                                                                                                              \
        float total = *out;                                                                                            \
        for (int64_t k = 0; k < 8; k++) {                                                                              \
            const float x = lane[k], s = total;                                                                        \
            total = (type == MG_OP_REDUCE_L1 || type == MG_OP_REDUCE_L2 || type == MG_OP_REDUCE_SUM_SQUARE)            \
                        ? s + x                                                                                        \
                        : (expression);                                                                                \
        }                                                                                                              \
        *out = total;                                                                                                  \
    } while (0)
#define COLUMN(expression)                                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const float x = in[i * step], s = out[i * out_step];                                                           \
        out[i * out_step] = (expression);                                                                              \
    }
#define BY_TYPE(how)                                                                                                   \
    switch (type) {                                                                                                    \
    case MG_OP_REDUCE_MAX:                                                                                             \
        how(x > s ? x : s);                                                                                            \
        break;                                                                                                         \
    case MG_OP_REDUCE_MIN:                                                                                             \
        how(x < s ? x : s);                                                                                            \
        break;                                                                                                         \
    case MG_OP_REDUCE_PROD:                                                                                            \
        how(x *s);                                                                                                     \
        break;                                                                                                         \
    case MG_OP_REDUCE_L1:                                                                                              \
        how(s + fabsf(x));                                                                                             \
        break;                                                                                                         \
    case MG_OP_REDUCE_L2:                                                                                              \
    case MG_OP_REDUCE_SUM_SQUARE:                                                                                      \
        how(s + x * x);                                                                                                \
        break;                                                                                                         \
    default:                                                                                                           \
        how(s + x);                                                                                                    \
    }

MG_WIDE static void reduce_row(enum mg_op_type type, const float *in, int64_t step, int64_t n, float *out)
{
    const float start = start_of(type);
    if (step == 1) {
        step = 1;
        BY_TYPE(ROW)
    } else
        BY_TYPE(ROW)
}

MG_WIDE static void reduce_columns(enum mg_op_type type, const float *in, int64_t step, int64_t n, float *out,
                                   int64_t out_step)
{
    BY_TYPE(COLUMN)
}

static float finished(const struct reduction *r, float sum)
{
    if (r->type == MG_OP_REDUCE_MEAN)
        return (float)((double)sum / r->divisor);
    if (r->type == MG_OP_REDUCE_L2)
        return sqrtf(sum);
    return r->type == MG_OP_REDUCE_LOG_SUM ? logf(sum) : sum;
}

/* Applies to every element of the strided result. */
static void each_result(const struct cpu_call *call, const struct reduction *r, bool begin)
{
    struct cpu_walk walk;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0};
    float *out = call->out[0];
    mg_cpu_walk_join(&walk, &call->p->op.out_shape[0], (const int64_t *const[]){r->out.at}, 1);
    int64_t n = walk.dim[walk.rank - 1], step = walk.stride[0][walk.rank - 1];
    do {
        for (int64_t i = 0; i < n; i++) {
            float *x = &out[at[0] + i * step];
            *x = begin ? start_of(r->type) : finished(r, *x);
        }
    } while (mg_cpu_walk_next(&walk, index, at));
}

static enum mg_code run_reduction(const struct cpu_call *call)
{
    const struct reduction *r = ((const struct cpu_op *)call->p->detail)->data;
    const struct cpu_walk *walk = &r->walk;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0}, last = walk->rank - 1;
    const float *in = call->in[0];
    float *out = call->out[0];
    each_result(call, r, true);
    do {
        if (walk->stride[0][last] == 0)
            reduce_row(r->type, in + at[1], walk->stride[1][last], walk->dim[last], out + at[0]);
        else
            reduce_columns(r->type, in + at[1], walk->stride[1][last], walk->dim[last], out + at[0],
                           walk->stride[0][last]);
    } while (mg_cpu_walk_next(walk, index, at));
    each_result(call, r, false);
    return MG_OK;
}

static bool is_reduced(const struct mg_prepared *p, uint32_t dim)
{
    for (uint32_t i = 0; i < MG_MAX_RANK; i++)
        if (mg_prepared_ints(p, MG_ATTR_AXES, i, -1) == dim)
            return true;
    return false;
}

enum mg_code mg_cpu_reduce(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct mg_shape *in = &p->op.in_shape[0];
    struct reduction *r = MG_NEW(&p->arena, struct reduction);
    struct mg_strides from = p->in[0];
    int64_t out_stride[MG_MAX_RANK] = {0};
    bool keep = mg_prepared_int(p, MG_ATTR_KEEPDIMS);
    bool reals = mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32 && mg_cpu_native(p->op.out_dtype[0]) == MG_DTYPE_F32;
    uint32_t at = 0;
    if (mg_shape_elements(in) == 0)
        return mg_cpu_by_reference(p, op, err);
    if (p->op.type == MG_OP_REDUCE_LOG_SUM_EXP || !reals)
        return mg_cpu_over_axes(p, op, err);
    *r = (struct reduction){.type = p->op.type, .divisor = mg_prepared_float(p, MG_ATTR_DIVISOR), .out = p->out[0]};
    op->strided = p->op.in_dtype[0] == MG_DTYPE_F32 && p->op.out_dtype[0] == MG_DTYPE_F32;
    if (!op->strided) { /* converted, and dense by then */
        mg_shape_strides(in, from.at);
        mg_shape_strides(&p->op.out_shape[0], r->out.at);
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        bool reduced = is_reduced(p, d);
        out_stride[d] = reduced ? 0 : r->out.at[at];
        at += keep || !reduced;
    }
    mg_cpu_walk_join(&r->walk, in, (const int64_t *const[]){out_stride, from.at}, 2);
    op->data = r;
    op->run = run_reduction;
    return MG_OK;
}

/* ---- rows along one axis, dense operands ---- */

struct cpu_rows mg_cpu_rows(const struct mg_shape *shape, int64_t axis)
{
    struct cpu_rows rows = {1, shape->dim[axis], 1};
    for (uint32_t d = 0; d < shape->rank; d++) {
        rows.outer *= d < axis ? shape->dim[d] : 1;
        rows.inner *= d > axis ? shape->dim[d] : 1;
    }
    return rows;
}

int64_t mg_cpu_row_begin(const struct cpu_rows *rows, int64_t row)
{
    return row / rows->inner * rows->extent * rows->inner + row % rows->inner;
}

struct rows {
    int64_t outer, extent, inner;
    enum mg_op_type type;
    double divisor; /* losses */
    int64_t ignored;
    uint64_t buffer; /* a row of each operand, where the axis is not the last */
};

static struct rows *rows_of(struct mg_prepared *p, const struct mg_shape *shape, int64_t axis)
{
    struct rows *rows = MG_NEW(&p->arena, struct rows);
    struct cpu_rows along = mg_cpu_rows(shape, axis);
    *rows = (struct rows){along.outer, along.extent, along.inner, .type = p->op.type};
    rows->buffer = mg_cpu_reserve(p, 3 * (uint64_t)rows->extent * sizeof(float));
    return rows;
}

static int64_t row_begin(const struct rows *rows, int64_t row)
{
    return mg_cpu_row_begin(&(struct cpu_rows){rows->outer, rows->extent, rows->inner}, row);
}

static const float *row_in(const struct rows *rows, const float *data, int64_t row, float *buffer)
{
    const float *begin = data + row_begin(rows, row);
    if (rows->inner == 1)
        return begin;
    for (int64_t i = 0; i < rows->extent; i++)
        buffer[i] = begin[i * rows->inner];
    return buffer;
}

static void row_out(const struct rows *rows, float *data, int64_t row, const float *y)
{
    float *begin = data + row_begin(rows, row);
    for (int64_t i = 0; i < rows->extent && begin != y; i++)
        begin[i * rows->inner] = y[i];
}

MG_WIDE static float row_largest(const float *x, int64_t n)
{
    float lane[8], largest;
    int64_t i = 0;
    for (int64_t k = 0; k < 8; k++)
        lane[k] = -INFINITY;
    for (; i + 8 <= n; i += 8)
        for (int64_t k = 0; k < 8; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    largest = lane[0];
    for (int64_t k = 1; k < 8; k++)
        largest = lane[k] > largest ? lane[k] : largest;
    return largest;
}

enum { PIECE = 256 };

static int64_t piece_size(int64_t n, int64_t begin)
{
    return n - begin < PIECE ? n - begin : PIECE;
}

/* y = exp(x - shift); adds to the sum. */
MG_WIDE static void piece_exp(const float *x, int64_t n, float shift, float *y, float *sum)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fast_exp(x[i] - shift);
    reduce_row(MG_OP_REDUCE_SUM, y, 1, n, sum);
}

static float row_exp(const float *x, int64_t n, float shift, float *y)
{
    float sum = 0;
    for (int64_t begin = 0; begin < n; begin += PIECE)
        piece_exp(x + begin, piece_size(n, begin), shift, y + begin, &sum);
    return sum;
}

/* The logarithm of the sum of a row's exponentials, less the row's largest element: a large one would swallow it. */
static float log_sum_exp(const float *x, int64_t n, float *largest)
{
    float sum = 0, piece[PIECE];
    *largest = row_largest(x, n);
    if (*largest == -INFINITY) /* less itself it is no number */
        return 0;
    for (int64_t begin = 0; begin < n; begin += PIECE)
        piece_exp(x + begin, piece_size(n, begin), *largest, piece, &sum);
    return logf(sum);
}

MG_WIDE static void row_affine(float *y, const float *x, int64_t n, float scale, float shift)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * scale + shift;
}

static void softmax_row(const struct rows *rows, const float *x, float *y)
{
    if (rows->type == MG_OP_LOG_SOFTMAX) {
        float largest, rest = log_sum_exp(x, rows->extent, &largest);
        row_affine(y, x, rows->extent, 1, -largest);
        row_affine(y, y, rows->extent, 1, -rest);
        return;
    }
    float sum = row_exp(x, rows->extent, row_largest(x, rows->extent), y);
    row_affine(y, y, rows->extent, 1 / sum, 0);
}

static enum mg_code run_softmax(const struct cpu_call *call)
{
    const struct rows *rows = ((const struct cpu_op *)call->p->detail)->data;
    float *buffer = (float *)(void *)(call->scratch + rows->buffer), *out = call->out[0];
    for (int64_t r = 0; r < rows->outer * rows->inner; r++) {
        float *y = rows->inner == 1 ? out + r * rows->extent : buffer;
        softmax_row(rows, row_in(rows, call->in[0], r, buffer + rows->extent), y);
        row_out(rows, out, r, y);
    }
    return MG_OK;
}

MG_WIDE static float row_dot(const float *a, const float *b, int64_t n)
{
    float lane[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t k = 0; k < 8; k++)
            lane[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        lane[0] += a[i] * b[i];
    for (int64_t k = 0; k < 8; k++)
        sum += lane[k];
    return sum;
}

MG_WIDE static void softmax_grad_row(const float *dy, const float *y, int64_t n, float sum, bool is_log, float *dx)
{
    if (is_log)
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i] - fast_exp(y[i]) * sum;
    else
        for (int64_t i = 0; i < n; i++)
            dx[i] = y[i] * (dy[i] - sum);
}

static enum mg_code run_softmax_grad(const struct cpu_call *call)
{
    const struct rows *rows = ((const struct cpu_op *)call->p->detail)->data;
    float *buffer = (float *)(void *)(call->scratch + rows->buffer), *out = call->out[0];
    bool is_log = rows->type == MG_OP_LOG_SOFTMAX_GRAD;
    for (int64_t r = 0; r < rows->outer * rows->inner; r++) {
        const float *dy = row_in(rows, call->in[0], r, buffer + rows->extent);
        const float *y = row_in(rows, call->in[1], r, buffer + 2 * rows->extent);
        float sum = 0, *dx = rows->inner == 1 ? out + r * rows->extent : buffer;
        if (is_log)
            reduce_row(MG_OP_REDUCE_SUM, dy, 1, rows->extent, &sum);
        else
            sum = row_dot(dy, y, rows->extent);
        softmax_grad_row(dy, y, rows->extent, sum, is_log, dx);
        row_out(rows, out, r, dx);
    }
    return MG_OK;
}

static enum mg_code rows_kernel(struct mg_prepared *p, struct cpu_op *op, cpu_run_fn *run, struct mg_error *err)
{
    int64_t axis = mg_prepared_int(p, MG_ATTR_AXIS);
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    op->data = rows_of(p, &p->op.in_shape[0], axis < 0 ? axis + p->op.in_shape[0].rank : axis);
    op->run = run;
    return MG_OK;
}

/* oneDNN's primitive where there is one for the sizes, else `run`. */
static enum mg_code softmax_kernel(struct mg_prepared *p, struct cpu_op *op, cpu_run_fn *run, struct mg_error *err)
{
    int64_t axis = mg_prepared_int(p, MG_ATTR_AXIS);
    axis += axis < 0 ? p->op.in_shape[0].rank : 0;
    if (mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32 && mg_cpu_dnn_softmax(p, op, (int)axis, err) == MG_OK)
        return MG_OK;
    return rows_kernel(p, op, run, err);
}

enum mg_code mg_cpu_softmax(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    return softmax_kernel(p, op, run_softmax, err);
}

enum mg_code mg_cpu_softmax_grad(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    return softmax_kernel(p, op, run_softmax_grad, err);
}

/* ---- losses ---- */

static double divisor_of(const struct rows *rows, const int64_t *target)
{
    double count = 0;
    if (rows->divisor != 0)
        return rows->divisor;
    for (int64_t i = 0; i < rows->outer * rows->inner; i++)
        count += target[i] != rows->ignored;
    return count;
}

static enum mg_code no_class(const struct cpu_call *call)
{
    return mg_fail(call->err, MG_ERR_INVALID, "", "a target of '%s' is no class index",
                   mg_op_type_name(call->p->op.type));
}

static enum mg_code run_loss(const struct cpu_call *call)
{
    const struct rows *rows = ((const struct cpu_op *)call->p->detail)->data;
    const int64_t *target = call->in[1];
    float *buffer = (float *)(void *)(call->scratch + rows->buffer);
    double sum = 0;
    for (int64_t r = 0; r < rows->outer * rows->inner; r++) {
        if (target[r] == rows->ignored)
            continue;
        if (target[r] < 0 || target[r] >= rows->extent)
            return no_class(call);
        const float *x = row_in(rows, call->in[0], r, buffer);
        float largest = 0, rest = rows->type == MG_OP_NLL_LOSS ? 0 : log_sum_exp(x, rows->extent, &largest);
        sum += (double)(largest - x[target[r]]) + (double)rest;
    }
    *(float *)call->out[0] = (float)(sum / divisor_of(rows, target));
    return MG_OK;
}

static enum mg_code run_loss_grad(const struct cpu_call *call)
{
    const struct rows *rows = ((const struct cpu_op *)call->p->detail)->data;
    const int64_t *target = call->in[2];
    float *buffer = (float *)(void *)(call->scratch + rows->buffer), *out = call->out[0];
    float scale = (float)((double)*(const float *)call->in[0] / divisor_of(rows, target));
    for (int64_t r = 0; r < rows->outer * rows->inner; r++) {
        float *dx = rows->inner == 1 ? out + r * rows->extent : buffer;
        bool counts = target[r] != rows->ignored;
        if (counts && (target[r] < 0 || target[r] >= rows->extent))
            return no_class(call);
        if (counts && rows->type != MG_OP_NLL_LOSS_GRAD) {
            const float *x = row_in(rows, call->in[1], r, buffer + rows->extent);
            float sum = row_exp(x, rows->extent, row_largest(x, rows->extent), dx);
            row_affine(dx, dx, rows->extent, scale / sum, 0);
        } else
            memset(dx, 0, (size_t)rows->extent * sizeof *dx);
        if (counts)
            dx[target[r]] -= scale;
        row_out(rows, out, r, dx);
    }
    return MG_OK;
}

static enum mg_code loss(struct mg_prepared *p, struct cpu_op *op, uint32_t logits, cpu_run_fn *run,
                         struct mg_error *err)
{
    if (mg_cpu_native(p->op.in_dtype[logits]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    struct rows *rows = rows_of(p, &p->op.in_shape[logits], 1);
    rows->divisor = mg_prepared_float(p, MG_ATTR_DIVISOR);
    rows->ignored = mg_prepared_int(p, MG_ATTR_IGNORE_INDEX);
    op->data = rows;
    op->run = run;
    return MG_OK;
}

enum mg_code mg_cpu_loss(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    return loss(p, op, 0, run_loss, err);
}

enum mg_code mg_cpu_loss_grad(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    return loss(p, op, 1, run_loss_grad, err);
}
