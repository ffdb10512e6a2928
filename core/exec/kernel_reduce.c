/* Reductions, cumulative sums, softmax and cross entropy. A dimension `axis` divides a tensor into
 * outer x extent x inner; a row is the extent at fixed outer and inner. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

struct rows {
    int64_t outer, extent, inner;
};

static struct rows rows_of(const struct mg_shape *shape, int64_t axis)
{
    struct rows rows = {1, shape->dim[axis], 1};
    for (uint32_t d = 0; d < shape->rank; d++) {
        rows.outer *= d < axis ? shape->dim[d] : 1;
        rows.inner *= d > axis ? shape->dim[d] : 1;
    }
    return rows;
}

static int64_t row_begin(const struct rows *rows, int64_t row)
{
    return row / rows->inner * rows->extent * rows->inner + row % rows->inner;
}

static double reduce_step(enum mg_op_type type, double sum, double x)
{
    switch (type) {
    case MG_OP_REDUCE_MAX:
        return x > sum ? x : sum;
    case MG_OP_REDUCE_MIN:
        return x < sum ? x : sum;
    case MG_OP_REDUCE_PROD:
        return x * sum;
    case MG_OP_REDUCE_L1:
        return sum + fabs(x);
    case MG_OP_REDUCE_L2:
    case MG_OP_REDUCE_SUM_SQUARE:
        return sum + x * x;
    default:
        return x + sum;
    }
}

static double reduce_start(enum mg_op_type type)
{
    switch (type) {
    case MG_OP_REDUCE_MAX:
        return -INFINITY;
    case MG_OP_REDUCE_MIN:
        return INFINITY;
    case MG_OP_REDUCE_PROD:
        return 1;
    default:
        return 0;
    }
}

/* What is done to a sum when it is complete. */
static double reduce_end(const struct mg_kernel *k, double sum)
{
    switch (k->op->type) {
    case MG_OP_REDUCE_MEAN:
        return sum / mg_kernel_float(k, MG_ATTR_DIVISOR);
    case MG_OP_REDUCE_L2:
        return sqrt(sum);
    case MG_OP_REDUCE_LOG_SUM:
        return log(sum);
    default:
        return sum;
    }
}

static bool is_reduced(const struct mg_kernel *k, uint32_t dim)
{
    for (uint32_t i = 0; i < MG_MAX_RANK; i++)
        if (mg_kernel_ints(k, MG_ATTR_AXES, i, -1) == dim)
            return true;
    return false;
}

/* Position in the result of the operand's element at `index`. */
static int64_t reduced_at(const struct mg_kernel *k, const int64_t *index)
{
    const struct mg_shape *in = &k->op->in_shape[0];
    int64_t at = 0;
    for (uint32_t d = 0; d < in->rank; d++)
        at = is_reduced(k, d) ? at : at * in->dim[d] + index[d];
    return at;
}

/* The logarithm of a sum of exponentials, which are taken relative to the largest element. */
static enum mg_code reduce_exponentials(const struct mg_kernel *k)
{
    const struct mg_shape *in = &k->op->in_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(in), out_count = mg_kernel_out_count(k, 0);
    double *largest = MG_NEW_ARRAY(k->scratch, double, out_count);
    for (int64_t i = 0; i < out_count; i++)
        largest[i] = -INFINITY;
    for (int64_t i = 0; i < count; i++, mg_walk_next(in, index))
        largest[reduced_at(k, index)] = fmax(largest[reduced_at(k, index)], k->in[0][i]);
    for (int64_t i = 0; i < out_count; i++)
        largest[i] = isinf(largest[i]) ? 0 : largest[i];
    for (int64_t i = 0; i < count; i++, mg_walk_next(in, index))
        k->out[0][reduced_at(k, index)] += exp(k->in[0][i] - largest[reduced_at(k, index)]);
    for (int64_t i = 0; i < out_count; i++)
        k->out[0][i] = largest[i] + log(k->out[0][i]);
    return MG_OK;
}

enum mg_code kernel_reduce(const struct mg_kernel *k)
{
    const struct mg_shape *in = &k->op->in_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(in), out_count = mg_kernel_out_count(k, 0);
    if (k->op->type == MG_OP_REDUCE_LOG_SUM_EXP)
        return reduce_exponentials(k);
    for (int64_t i = 0; i < out_count; i++)
        k->out[0][i] = reduce_start(k->op->type);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = reduced_at(k, index);
        k->out[0][at] = reduce_step(k->op->type, k->out[0][at], k->in[0][i]);
        mg_walk_next(in, index);
    }
    for (int64_t i = 0; i < out_count; i++)
        k->out[0][i] = reduce_end(k, k->out[0][i]);
    return MG_OK;
}

/* Index of a row's extreme element: the first of equals, or the last. */
static int64_t extreme_of(const double *row, const struct rows *rows, bool least, bool last)
{
    int64_t best = 0;
    for (int64_t i = 1; i < rows->extent; i++) {
        double x = row[i * rows->inner], y = row[best * rows->inner];
        if (x == y ? last : least ? x < y : x > y)
            best = i;
    }
    return best;
}

enum mg_code kernel_arg_max(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[0], mg_kernel_int(k, MG_ATTR_AXIS));
    bool last = mg_kernel_int(k, MG_ATTR_SELECT_LAST_INDEX), least = k->op->type == MG_OP_ARG_MIN;
    for (int64_t r = 0; r < rows.outer * rows.inner; r++)
        k->out[0][r] = (double)extreme_of(k->in[0] + row_begin(&rows, r), &rows, least, last);
    return MG_OK;
}

enum mg_code kernel_hard_max(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[0], mg_kernel_int(k, MG_ATTR_AXIS));
    for (int64_t r = 0; r < rows.outer * rows.inner; r++) {
        int64_t begin = row_begin(&rows, r);
        k->out[0][begin + extreme_of(k->in[0] + begin, &rows, false, false) * rows.inner] = 1;
    }
    return MG_OK;
}

/* A row of zeros stays. */
enum mg_code kernel_lp_norm(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[0], mg_kernel_int(k, MG_ATTR_AXIS));
    bool square = mg_kernel_int(k, MG_ATTR_P) == 2;
    for (int64_t r = 0; r < rows.outer * rows.inner; r++) {
        int64_t begin = row_begin(&rows, r);
        const double *x = k->in[0] + begin;
        double sum = 0;
        for (int64_t i = 0; i < rows.extent; i++)
            sum += square ? x[i * rows.inner] * x[i * rows.inner] : fabs(x[i * rows.inner]);
        double norm = square ? sqrt(sum) : sum;
        for (int64_t i = 0; i < rows.extent; i++)
            k->out[0][begin + i * rows.inner] = norm > 0 ? x[i * rows.inner] / norm : 0;
    }
    return MG_OK;
}

enum mg_code kernel_cumsum(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[0], mg_kernel_int(k, MG_ATTR_AXIS));
    bool reverse = mg_kernel_int(k, MG_ATTR_REVERSE), exclusive = mg_kernel_int(k, MG_ATTR_EXCLUSIVE);
    for (int64_t r = 0; r < rows.outer * rows.inner; r++) {
        double sum = 0;
        for (int64_t i = 0; i < rows.extent; i++) {
            int64_t at = row_begin(&rows, r) + (reverse ? rows.extent - 1 - i : i) * rows.inner;
            k->out[0][at] = exclusive ? sum : sum + k->in[0][at];
            sum += k->in[0][at];
        }
    }
    return MG_OK;
}

/* The logarithm of the sum of a row's exponentials is largest + rest; added up, a large `largest` would swallow the
 * rest. */
struct norm {
    double largest, rest;
};

/* Of a row with the given distance between elements. */
static struct norm norm_of(const double *x, int64_t extent, int64_t step)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < extent; i++)
        largest = x[i * step] > largest ? x[i * step] : largest;
    for (int64_t i = 0; i < extent; i++)
        sum += exp(x[i * step] - largest);
    /* cppcheck-suppress invalidFunctionArg ; minus infinity where the row is empty */
    return (struct norm){largest, log(sum)};
}

enum mg_code kernel_softmax(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[0], mg_kernel_int(k, MG_ATTR_AXIS));
    for (int64_t r = 0; r < rows.outer * rows.inner; r++) {
        int64_t begin = row_begin(&rows, r);
        struct norm norm = norm_of(k->in[0] + begin, rows.extent, rows.inner);
        for (int64_t i = 0; i < rows.extent; i++) {
            double y = k->in[0][begin + i * rows.inner] - norm.largest - norm.rest;
            k->out[0][begin + i * rows.inner] = k->op->type == MG_OP_LOG_SOFTMAX ? y : exp(y);
        }
    }
    return MG_OK;
}

enum mg_code kernel_softmax_grad(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[0], mg_kernel_int(k, MG_ATTR_AXIS));
    bool is_log = k->op->type == MG_OP_LOG_SOFTMAX_GRAD;
    for (int64_t r = 0; r < rows.outer * rows.inner; r++) {
        int64_t begin = row_begin(&rows, r);
        double sum = 0;
        for (int64_t i = 0; i < rows.extent; i++) {
            int64_t at = begin + i * rows.inner;
            sum += is_log ? k->in[0][at] : k->in[0][at] * k->in[1][at];
        }
        for (int64_t i = 0; i < rows.extent; i++) {
            int64_t at = begin + i * rows.inner;
            double dy = k->in[0][at], y = k->in[1][at];
            k->out[0][at] = is_log ? dy - exp(y) * sum : y * (dy - sum);
        }
    }
    return MG_OK;
}

/* What the sum is divided by; 0 in the attribute: the number of targets that count. */
static double target_divisor(const struct mg_kernel *k, const double *target, int64_t count)
{
    double divisor = mg_kernel_float(k, MG_ATTR_DIVISOR);
    for (int64_t i = 0; i < count && mg_kernel_float(k, MG_ATTR_DIVISOR) == 0; i++)
        divisor += (int64_t)target[i] != mg_kernel_int(k, MG_ATTR_IGNORE_INDEX);
    return divisor;
}

static bool target_valid(const struct rows *rows, double target)
{
    return target >= 0 && target < (double)rows->extent;
}

enum mg_code kernel_cross_entropy(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[0], 1);
    double sum = 0, divisor = target_divisor(k, k->in[1], rows.outer * rows.inner);
    for (int64_t r = 0; r < rows.outer * rows.inner; r++) {
        const double *x = k->in[0] + row_begin(&rows, r);
        if ((int64_t)k->in[1][r] == mg_kernel_int(k, MG_ATTR_IGNORE_INDEX))
            continue;
        if (!target_valid(&rows, k->in[1][r]))
            return mg_fail(k->err, MG_ERR_INVALID, "", "a target is no class index");
        struct norm norm = {0};
        if (k->op->type != MG_OP_NLL_LOSS)
            norm = norm_of(x, rows.extent, rows.inner);
        sum += norm.largest - x[(int64_t)k->in[1][r] * rows.inner] + norm.rest;
    }
    k->out[0][0] = sum / divisor;
    return MG_OK;
}

enum mg_code kernel_cross_entropy_grad(const struct mg_kernel *k)
{
    struct rows rows = rows_of(&k->op->in_shape[1], 1);
    double scale = k->in[0][0] / target_divisor(k, k->in[2], rows.outer * rows.inner);
    for (int64_t r = 0; r < rows.outer * rows.inner; r++) {
        int64_t begin = row_begin(&rows, r), class = (int64_t)k->in[2][r];
        if (class == mg_kernel_int(k, MG_ATTR_IGNORE_INDEX))
            continue;
        if (!target_valid(&rows, k->in[2][r]))
            return mg_fail(k->err, MG_ERR_INVALID, "", "a target is no class index");
        k->out[0][begin + class * rows.inner] = -scale;
        if (k->op->type == MG_OP_NLL_LOSS_GRAD)
            continue;
        struct norm norm = norm_of(k->in[1] + begin, rows.extent, rows.inner);
        for (int64_t i = 0; i < rows.extent; i++) {
            int64_t at = begin + i * rows.inner;
            k->out[0][at] += scale * exp(k->in[1][at] - norm.largest - norm.rest);
        }
    }
    return MG_OK;
}
