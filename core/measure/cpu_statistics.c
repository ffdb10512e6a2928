/* Numbers of each group of elements along listed axes, collected in one walk over the operand or two, and what follows
 * from them: logarithms of sums of exponentials, p-norms, mean and variance. Running sums. */
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

struct groups {
    struct cpu_walk walk; /* a group's number (step 0 along the listed axes), the operand */
    int64_t count, size;
    uint64_t first, second; /* numbers of the groups, in the scratch */
};

/* ---- collecting: s is the number so far, x an element, m another number of its group ---- */

typedef void collect_fn(const float *x, int64_t n, const float *other, float *sum, int64_t step);

#define LANES 8
#define COLLECT(name, start, expression, merge)                                                                        \
    MG_WIDE static void name(const float *x_at, int64_t n, const float *other, float *sum, int64_t step)               \
    {                                                                                                                  \
        if (step) {                                                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const float x = x_at[i], s = sum[i], m = other[i];                                                     \
                (void)m;                                                                                               \
                sum[i] = (expression);                                                                                 \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        const float m = *other;                                                                                        \
        float lane[LANES];                                                                                             \
        int64_t i = 0;                                                                                                 \
        (void)m;                                                                                                       \
        for (int k = 0; k < LANES; k++)                                                                                \
            lane[k] = (start);                                                                                         \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int k = 0; k < LANES; k++) {                                                                          \
                const float x = x_at[i + k], s = lane[k];                                                              \
                lane[k] = (expression);                                                                                \
            }                                                                                                          \
        for (; i < n; i++) {                                                                                           \
            const float x = x_at[i], s = lane[0];                                                                      \
            lane[0] = (expression);                                                                                    \
        }                                                                                                              \
        for (int k = 0; k < LANES; k++) {                                                                              \
            const float x = lane[k], s = *sum;                                                                         \
            *sum = (merge);                                                                                            \
        }                                                                                                              \
    }
COLLECT(collect_sum, 0, s + x, s + x)
COLLECT(collect_sizes, 0, s + fabsf(x), s + x)
COLLECT(collect_squares, 0, s + (x - m) * (x - m), s + x)
COLLECT(collect_largest, -INFINITY, x > s ? x : s, x > s ? x : s)
COLLECT(collect_exponentials, 0, s + fast_exp(x - m), s + x)

static void collect(const struct cpu_call *call, collect_fn *fn, float start, const float *other, float *sum)
{
    const struct groups *g = ((const struct cpu_op *)call->p->detail)->data;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0}, last = g->walk.rank - 1;
    const float *x = call->in[0];
    for (int64_t i = 0; i < g->count; i++)
        sum[i] = start;
    do
        fn(x + at[1], g->walk.dim[last], other + at[0], sum + at[0], g->walk.stride[0][last]);
    while (mg_cpu_walk_next(&g->walk, index, at));
}

/* ---- using: y = (x - shift) * scale ---- */

MG_WIDE static void apply_row(const float *x, int64_t n, const float *shift, const float *scale, int64_t step, float *y)
{
    if (step)
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - shift[i]) * scale[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - *shift) * *scale;
}

static void apply(const struct cpu_call *call, const float *shift, const float *scale)
{
    const struct groups *g = ((const struct cpu_op *)call->p->detail)->data;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0}, last = g->walk.rank - 1;
    const float *x = call->in[0];
    float *y = call->out[0];
    do
        apply_row(x + at[1], g->walk.dim[last], shift + at[0], scale + at[0], g->walk.stride[0][last], y + at[1]);
    while (mg_cpu_walk_next(&g->walk, index, at));
}

/* ---- operators ---- */

static enum mg_code run_log_sum_exp(const struct cpu_call *call)
{
    const struct groups *g = ((const struct cpu_op *)call->p->detail)->data;
    float *largest = (float *)(void *)(call->scratch + g->first), *sum = call->out[0];
    collect(call, collect_largest, -INFINITY, largest, largest);
    for (int64_t i = 0; i < g->count; i++)
        largest[i] = isinf(largest[i]) ? 0 : largest[i];
    collect(call, collect_exponentials, 0, largest, sum);
    for (int64_t i = 0; i < g->count; i++)
        sum[i] = largest[i] + logf(sum[i]);
    return MG_OK;
}

/* A row of zeros stays. */
static enum mg_code run_lp_norm(const struct cpu_call *call)
{
    const struct groups *g = ((const struct cpu_op *)call->p->detail)->data;
    float *zero = (float *)(void *)(call->scratch + g->first), *scale = (float *)(void *)(call->scratch + g->second);
    bool square = mg_prepared_int(call->p, MG_ATTR_P) == 2;
    memset(zero, 0, (size_t)g->count * sizeof *zero);
    collect(call, square ? collect_squares : collect_sizes, 0, zero, scale);
    for (int64_t i = 0; i < g->count; i++)
        scale[i] = scale[i] > 0 ? 1 / (square ? sqrtf(scale[i]) : scale[i]) : 0;
    apply(call, zero, scale);
    return MG_OK;
}

static enum mg_code run_mean_variance(const struct cpu_call *call)
{
    const struct groups *g = ((const struct cpu_op *)call->p->detail)->data;
    float *mean = (float *)(void *)(call->scratch + g->first), *scale = (float *)(void *)(call->scratch + g->second);
    float epsilon = (float)mg_prepared_float(call->p, MG_ATTR_EPSILON), size = (float)g->size;
    collect(call, collect_sum, 0, mean, mean);
    for (int64_t i = 0; i < g->count; i++)
        mean[i] /= size;
    collect(call, collect_squares, 0, mean, scale);
    for (int64_t i = 0; i < g->count; i++)
        scale[i] = 1 / (sqrtf(scale[i] / size) + epsilon);
    apply(call, mean, scale);
    return MG_OK;
}

/* ---- whole numbers and booleans ---- */

#define WHOLE_ROW(type, expression)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const type x = in[at[1] + i], s = out[at[0] + i * step];                                                       \
        out[at[0] + i * step] = (type)(expression);                                                                    \
    }
#define WHOLE(type, least, most)                                                                                       \
    static void whole_##type(const struct groups *g, enum mg_op_type how, const type *in, type *out)                   \
    {                                                                                                                  \
        const int64_t last = g->walk.rank - 1, n = g->walk.dim[last], step = g->walk.stride[0][last];                  \
        int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0};                                                 \
        const type start = how == MG_OP_REDUCE_MAX ? (least) : how == MG_OP_REDUCE_MIN ? (most) : 0;                   \
        for (int64_t i = 0; i < g->count; i++)                                                                         \
            out[i] = how == MG_OP_REDUCE_PROD ? 1 : start;                                                             \
        do                                                                                                             \
            if (how == MG_OP_REDUCE_MAX)                                                                               \
                WHOLE_ROW(type, x > s ? x : s)                                                                         \
            else if (how == MG_OP_REDUCE_MIN)                                                                          \
                WHOLE_ROW(type, x < s ? x : s)                                                                         \
            else if (how == MG_OP_REDUCE_PROD)                                                                         \
                WHOLE_ROW(type, x *s)                                                                                  \
            else                                                                                                       \
                WHOLE_ROW(type, x + s)                                                                                 \
        while (mg_cpu_walk_next(&g->walk, index, at));                                                                 \
    }
WHOLE(int64_t, INT64_MIN, INT64_MAX)
WHOLE(uint8_t, 0, 1)

static enum mg_code run_whole(const struct cpu_call *call)
{
    const struct groups *g = ((const struct cpu_op *)call->p->detail)->data;
    if (mg_cpu_native(call->p->op.in_dtype[0]) == MG_DTYPE_BOOL)
        whole_uint8_t(g, call->p->op.type, call->in[0], call->out[0]);
    else
        whole_int64_t(g, call->p->op.type, call->in[0], call->out[0]);
    return MG_OK;
}

/* Of whole numbers, what stays one; of booleans, any and all. */
static bool is_whole(const struct mg_prepared *p)
{
    enum mg_dtype native = mg_cpu_native(p->op.in_dtype[0]);
    bool extreme = p->op.type == MG_OP_REDUCE_MAX || p->op.type == MG_OP_REDUCE_MIN;
    bool sum = p->op.type == MG_OP_REDUCE_SUM || p->op.type == MG_OP_REDUCE_PROD;
    return native == mg_cpu_native(p->op.out_dtype[0]) && native != MG_DTYPE_F32 &&
           (extreme || (sum && native == MG_DTYPE_I64));
}

static cpu_run_fn *run_of(const struct mg_prepared *p)
{
    if (is_whole(p))
        return run_whole;
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return NULL;
    return p->op.type == MG_OP_LP_NORM              ? run_lp_norm
           : p->op.type == MG_OP_REDUCE_LOG_SUM_EXP ? run_log_sum_exp
           : p->op.type == MG_OP_MEAN_VARIANCE_NORM ? run_mean_variance
                                                    : NULL;
}

static bool is_listed(const struct mg_prepared *p, uint32_t dim)
{
    if (p->op.type == MG_OP_LP_NORM)
        return mg_prepared_int(p, MG_ATTR_AXIS) == dim;
    for (uint32_t i = 0; i < MG_MAX_RANK; i++)
        if (mg_prepared_ints(p, MG_ATTR_AXES, i, -1) == dim)
            return true;
    return false;
}

enum mg_code mg_cpu_over_axes(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct groups *g = MG_NEW(&p->arena, struct groups);
    const struct mg_shape *x = &p->op.in_shape[0];
    int64_t dense[MG_MAX_RANK], stride[MG_MAX_RANK] = {0};
    op->run = run_of(p);
    if (!op->run || mg_shape_elements(x) == 0)
        return mg_cpu_by_reference(p, op, err);
    mg_shape_strides(x, dense);
    g->count = g->size = 1;
    for (uint32_t d = x->rank; d-- > 0;) {
        bool listed = is_listed(p, d);
        stride[d] = listed ? 0 : g->count;
        g->count *= listed ? 1 : x->dim[d];
        g->size *= listed ? x->dim[d] : 1;
    }
    mg_cpu_walk_join(&g->walk, x, (const int64_t *const[]){stride, dense}, 2);
    g->first = mg_cpu_reserve(p, (uint64_t)g->count * sizeof(float));
    g->second = mg_cpu_reserve(p, (uint64_t)g->count * sizeof(float));
    op->data = g;
    return MG_OK;
}

/* ---- running sums ---- */

/* Rows that lie across one another side by side: each element from the one before it. */
#define RUNNING_SUMS(type)                                                                                             \
    static void row_sums_##type(int64_t n, int64_t step, bool exclusive, const type *x, type *y)                       \
    {                                                                                                                  \
        type sum = 0;                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type more = x[i * step];                                                                             \
            y[i * step] = exclusive ? sum : sum + more;                                                                \
            sum += more;                                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void sums_##type(const struct cpu_rows *rows, bool reverse, bool exclusive, const type *x, type *y)         \
    {                                                                                                                  \
        const int64_t n = rows->inner, step = reverse ? -n : n, size = rows->extent * n;                               \
        const int64_t first = reverse ? size - n : 0;                                                                  \
        for (int64_t at = first; at < rows->outer * size; at += size) {                                                \
            if (n == 1) {                                                                                              \
                row_sums_##type(rows->extent, step, exclusive, x + at, y + at);                                        \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t j = 0; j < n; j++)                                                                            \
                y[at + j] = exclusive ? 0 : x[at + j];                                                                 \
            for (int64_t i = 1; i < rows->extent; i++) {                                                               \
                const type *more = x + at + (exclusive ? i - 1 : i) * step;                                            \
                for (int64_t j = 0; j < n; j++)                                                                        \
                    y[at + i * step + j] = y[at + (i - 1) * step + j] + more[j];                                       \
            }                                                                                                          \
        }                                                                                                              \
    }
RUNNING_SUMS(float)
RUNNING_SUMS(int64_t)

static enum mg_code run_cumsum(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    struct cpu_rows rows = mg_cpu_rows(&p->op.in_shape[0], mg_prepared_int(p, MG_ATTR_AXIS));
    bool reverse = mg_prepared_int(p, MG_ATTR_REVERSE), exclusive = mg_prepared_int(p, MG_ATTR_EXCLUSIVE);
    if (mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32)
        sums_float(&rows, reverse, exclusive, call->in[0], call->out[0]);
    else
        sums_int64_t(&rows, reverse, exclusive, call->in[0], call->out[0]);
    return MG_OK;
}

enum mg_code mg_cpu_cumsum(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    if (mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_BOOL || mg_shape_elements(&p->op.in_shape[0]) == 0)
        return mg_cpu_by_reference(p, op, err);
    op->run = run_cumsum;
    return MG_OK;
}

/* ---- over neighbouring channels: x [planes, channels, inner] ---- */

struct neighbours {
    int64_t planes, channels, inner, before, after; /* channels that the window of one reaches */
    float alpha, beta, bias;
    uint64_t scale, weighted; /* a piece of all channels, in the scratch */
};
enum { PIECE = 256 };

/* out[c] = the sum of in[i] over c - before <= i <= c + after; channels lie `step` apart. */
MG_WIDE static void add_neighbours(int64_t channels, int64_t before, int64_t after, const float *in, float *out,
                                   int64_t n)
{
    for (int64_t c = 0; c < channels; c++) {
        int64_t first = c > before ? c - before : 0, last = c + after < channels ? c + after : channels - 1;
        for (int64_t i = 0; i < n; i++)
            out[c * PIECE + i] = in[first * PIECE + i];
        for (int64_t other = first + 1; other <= last; other++)
            for (int64_t i = 0; i < n; i++)
                out[c * PIECE + i] += in[other * PIECE + i];
    }
}

/* scale = bias + alpha (sum of squares of the neighbours) of a piece of every channel; `buffer` is as large. */
static void scale_piece(const struct neighbours *l, const float *x, int64_t n, float *buffer, float *scale)
{
    for (int64_t c = 0; c < l->channels; c++)
        for (int64_t i = 0; i < n; i++)
            buffer[c * PIECE + i] = x[c * l->inner + i] * x[c * l->inner + i];
    add_neighbours(l->channels, l->before, l->after, buffer, scale, n);
    for (int64_t i = 0; i < l->channels * PIECE; i++)
        scale[i] = l->bias + l->alpha * scale[i];
}

static void lrn_piece(const struct neighbours *l, const float *x, int64_t n, const float *scale, float *y)
{
    for (int64_t c = 0; c < l->channels; c++)
        for (int64_t i = 0; i < n; i++)
            y[c * l->inner + i] = x[c * l->inner + i] * powf(scale[c * PIECE + i], -l->beta);
}

/* dx_i = dy_i s_i^-beta - 2 alpha beta x_i (sum over windows c that hold i: dy_c x_c s_c^(-beta - 1)) */
static void lrn_grad_piece(const struct neighbours *l, const float *dy, const float *x, int64_t n, float *buffer,
                           float *scale, float *dx)
{
    for (int64_t c = 0; c < l->channels; c++)
        for (int64_t i = 0; i < n; i++) {
            float s = scale[c * PIECE + i], power = powf(s, -l->beta) * dy[c * l->inner + i];
            dx[c * l->inner + i] = power;
            buffer[c * PIECE + i] = power / s * x[c * l->inner + i];
        }
    add_neighbours(l->channels, l->after, l->before, buffer, scale, n);
    for (int64_t c = 0; c < l->channels; c++)
        for (int64_t i = 0; i < n; i++)
            dx[c * l->inner + i] -= 2 * l->alpha * l->beta * x[c * l->inner + i] * scale[c * PIECE + i];
}

static enum mg_code run_lrn(const struct cpu_call *call)
{
    const struct neighbours *l = ((const struct cpu_op *)call->p->detail)->data;
    float *scale = (float *)(void *)(call->scratch + l->scale), *out = call->out[0];
    float *buffer = (float *)(void *)(call->scratch + l->weighted);
    bool gradient = call->p->op.type == MG_OP_LRN_GRAD;
    const float *x = call->in[gradient], *dy = call->in[0];
    memset(scale, 0, (size_t)(l->channels * PIECE) * sizeof *scale);
    for (int64_t p = 0; p < l->planes; p++)
        for (int64_t i = 0; i < l->inner; i += PIECE) {
            int64_t n = l->inner - i < PIECE ? l->inner - i : PIECE, at = p * l->channels * l->inner + i;
            scale_piece(l, x + at, n, buffer, scale);
            if (gradient)
                lrn_grad_piece(l, dy + at, x + at, n, buffer, scale, out + at);
            else
                lrn_piece(l, x + at, n, scale, out + at);
        }
    return MG_OK;
}

enum mg_code mg_cpu_lrn(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct neighbours *l = MG_NEW(&p->arena, struct neighbours);
    const struct mg_shape *x = &p->op.in_shape[0];
    int64_t size = mg_prepared_int(p, MG_ATTR_SIZE), count = mg_shape_elements(x);
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32 || count == 0)
        return mg_cpu_by_reference(p, op, err);
    *l = (struct neighbours){x->dim[0], x->dim[1], .before = (size - 1) / 2, .after = size / 2};
    l->inner = count / (l->planes * l->channels);
    l->alpha = (float)(mg_prepared_float(p, MG_ATTR_ALPHA) / (double)size);
    l->beta = (float)mg_prepared_float(p, MG_ATTR_BETA);
    l->bias = (float)mg_prepared_float(p, MG_ATTR_BIAS);
    l->scale = mg_cpu_reserve(p, (uint64_t)(l->channels * PIECE) * sizeof(float));
    l->weighted = mg_cpu_reserve(p, (uint64_t)(l->channels * PIECE) * sizeof(float));
    op->data = l;
    op->run = run_lrn;
    return MG_OK;
}
