/* Pooling, plane by plane, with up to three spatial dimensions (fewer: the outer ones have size 1). */
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

struct window { /* along one dimension */
    int64_t x, y, size, stride, dilation, before, after;
};
struct pool {
    int64_t planes;
    struct window w[3];
    bool include_pad, by_column; /* indices: counted with the first dimension fastest */
    float power;                 /* of a norm */
};

static struct pool *pool_of(struct mg_prepared *p, const struct mg_shape *x, const struct mg_shape *y)
{
    struct pool *pool = MG_NEW(&p->arena, struct pool);
    uint32_t spatial = x->rank - 2;
    pool->planes = x->dim[0] * x->dim[1];
    pool->include_pad = mg_prepared_int(p, MG_ATTR_COUNT_INCLUDE_PAD);
    pool->by_column = mg_prepared_int(p, MG_ATTR_STORAGE_ORDER);
    pool->power = (float)mg_prepared_int(p, MG_ATTR_P);
    for (uint32_t d = 0; d < 3; d++)
        pool->w[d] = (struct window){1, 1, 1, 1, 1, 0, 0};
    for (uint32_t d = 0; d < spatial; d++)
        pool->w[d + 3 - spatial] = (struct window){
            x->dim[d + 2],
            y->dim[d + 2],
            mg_prepared_ints(p, MG_ATTR_KERNEL_SHAPE, d, 1),
            mg_prepared_ints(p, MG_ATTR_STRIDES, d, 1),
            mg_prepared_ints(p, MG_ATTR_DILATIONS, d, 1),
            mg_prepared_ints(p, MG_ATTR_PADS, d, 0),
            mg_prepared_ints(p, MG_ATTR_PADS, d + spatial, 0),
        };
    return pool;
}

static int64_t plane_x(const struct pool *pool)
{
    return pool->w[0].x * pool->w[1].x * pool->w[2].x;
}

static int64_t plane_y(const struct pool *pool)
{
    return pool->w[0].y * pool->w[1].y * pool->w[2].y;
}

/* The window of output y: first index in x, and [lo, hi) of its elements that lie inside. */
struct range {
    int64_t first, lo, hi;
};
static struct range range_of(const struct window *w, int64_t y)
{
    struct range r = {y * w->stride - w->before, 0, w->size};
    while (r.lo < r.hi && r.first + r.lo * w->dilation < 0)
        r.lo++;
    while (r.hi > r.lo && r.first + (r.hi - 1) * w->dilation >= w->x)
        r.hi--;
    return r;
}

/* Elements of a window that count for its average. */
static double share_of(const struct window *w, int64_t y, bool include_pad)
{
    struct range r = range_of(w, y);
    int64_t count = 0;
    if (!include_pad)
        return (double)(r.hi - r.lo);
    for (int64_t i = 0; i < w->size; i++)
        count += r.first + i * w->dilation < w->x + w->after;
    return (double)count;
}

/* ---- one window ---- */

struct place {
    struct range r[3];
    double share;
};

/* Comparisons that select instead of branching, so that it takes as long whatever the numbers. */
static float most_of(const struct pool *pool, const float *plane, const struct place *at)
{
    const struct window *w = pool->w;
    float most = -INFINITY;
    for (int64_t i = at->r[0].lo; i < at->r[0].hi; i++)
        for (int64_t j = at->r[1].lo; j < at->r[1].hi; j++) {
            int64_t row = (at->r[0].first + i * w[0].dilation) * w[1].x + at->r[1].first + j * w[1].dilation;
            const float *from = plane + row * w[2].x + at->r[2].first;
            for (int64_t k = at->r[2].lo; k < at->r[2].hi; k++) {
                float x = from[k * w[2].dilation];
                most = x > most ? x : most;
            }
        }
    return most;
}

static int64_t largest_of(const struct pool *pool, const float *plane, const struct place *at)
{
    const struct window *w = pool->w;
    int64_t best = -1;
    for (int64_t i = at->r[0].lo; i < at->r[0].hi; i++)
        for (int64_t j = at->r[1].lo; j < at->r[1].hi; j++) {
            int64_t row = (at->r[0].first + i * w[0].dilation) * w[1].x + at->r[1].first + j * w[1].dilation;
            for (int64_t k = at->r[2].lo; k < at->r[2].hi; k++) {
                int64_t here = row * w[2].x + at->r[2].first + k * w[2].dilation;
                best = best < 0 || plane[here] > plane[best] ? here : best;
            }
        }
    return best;
}

static float sum_of(const struct pool *pool, const float *plane, const struct place *at)
{
    const struct window *w = pool->w;
    float sum = 0;
    for (int64_t i = at->r[0].lo; i < at->r[0].hi; i++)
        for (int64_t j = at->r[1].lo; j < at->r[1].hi; j++) {
            int64_t row = (at->r[0].first + i * w[0].dilation) * w[1].x + at->r[1].first + j * w[1].dilation;
            for (int64_t k = at->r[2].lo; k < at->r[2].hi; k++)
                sum += plane[row * w[2].x + at->r[2].first + k * w[2].dilation];
        }
    return sum;
}

static void spread(const struct pool *pool, float *plane, const struct place *at, float share)
{
    const struct window *w = pool->w;
    for (int64_t i = at->r[0].lo; i < at->r[0].hi; i++)
        for (int64_t j = at->r[1].lo; j < at->r[1].hi; j++) {
            int64_t row = (at->r[0].first + i * w[0].dilation) * w[1].x + at->r[1].first + j * w[1].dilation;
            for (int64_t k = at->r[2].lo; k < at->r[2].hi; k++)
                plane[row * w[2].x + at->r[2].first + k * w[2].dilation] += share;
        }
}

/* size^power, size not negative */
static float raised(float size, float power)
{
    return power == 1 ? size : power == 2 ? size * size : powf(size, power);
}

/* (sum |x|^p)^(1/p) */
static float norm_of(const struct pool *pool, const float *plane, const struct place *at)
{
    const struct window *w = pool->w;
    float sum = 0;
    for (int64_t i = at->r[0].lo; i < at->r[0].hi; i++)
        for (int64_t j = at->r[1].lo; j < at->r[1].hi; j++) {
            int64_t row = (at->r[0].first + i * w[0].dilation) * w[1].x + at->r[1].first + j * w[1].dilation;
            for (int64_t k = at->r[2].lo; k < at->r[2].hi; k++)
                sum += raised(fabsf(plane[row * w[2].x + at->r[2].first + k * w[2].dilation]), pool->power);
        }
    return pool->power == 1 ? sum : pool->power == 2 ? sqrtf(sum) : powf(sum, 1 / pool->power);
}

/* dx += dy sign(x) (|x| / y)^(p - 1) */
static void spread_norm(const struct pool *pool, const float *plane, float *out, const struct place *at, float dy)
{
    const struct window *w = pool->w;
    float scale = 1 / norm_of(pool, plane, at);
    for (int64_t i = at->r[0].lo; i < at->r[0].hi; i++)
        for (int64_t j = at->r[1].lo; j < at->r[1].hi; j++) {
            int64_t row = (at->r[0].first + i * w[0].dilation) * w[1].x + at->r[1].first + j * w[1].dilation;
            for (int64_t k = at->r[2].lo; k < at->r[2].hi; k++) {
                int64_t here = row * w[2].x + at->r[2].first + k * w[2].dilation;
                float x = plane[here];
                if (x != 0)
                    out[here] += copysignf(raised(fabsf(x) * scale, pool->power - 1), x) * dy;
            }
        }
}

/* ---- all windows ---- */

typedef void window_fn(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                       const struct place *at);

static void each_window(const struct cpu_call *call, window_fn *fn)
{
    const struct pool *pool = ((const struct cpu_op *)call->p->detail)->data;
    const struct window *w = pool->w;
    struct place at;
    for (int64_t p = 0; p < pool->planes; p++)
        for (int64_t i = 0, y = 0; i < w[0].y; i++) {
            at.r[0] = range_of(&w[0], i);
            double outer = share_of(&w[0], i, pool->include_pad);
            for (int64_t j = 0; j < w[1].y; j++) {
                at.r[1] = range_of(&w[1], j);
                double middle = outer * share_of(&w[1], j, pool->include_pad);
                for (int64_t k = 0; k < w[2].y; k++, y++) {
                    at.r[2] = range_of(&w[2], k);
                    at.share = middle * share_of(&w[2], k, pool->include_pad);
                    fn(pool, call, p, y, &at);
                }
            }
        }
}

static void window_max(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                       const struct place *at)
{
    const float *x = (const float *)call->in[0] + plane * plane_x(pool);
    ((float *)call->out[0])[plane * plane_y(pool) + y] = most_of(pool, x, at);
}

static void window_max_grad(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                            const struct place *at)
{
    int64_t best = largest_of(pool, (const float *)call->in[1] + plane * plane_x(pool), at);
    if (best >= 0)
        ((float *)call->out[0])[plane * plane_x(pool) + best] +=
            ((const float *)call->in[0])[plane * plane_y(pool) + y];
}

static void window_average(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                           const struct place *at)
{
    float sum = sum_of(pool, (const float *)call->in[0] + plane * plane_x(pool), at);
    ((float *)call->out[0])[plane * plane_y(pool) + y] = (float)((double)sum / at->share);
}

static void window_average_grad(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                                const struct place *at)
{
    float share = (float)((double)((const float *)call->in[0])[plane * plane_y(pool) + y] / at->share);
    spread(pool, (float *)call->out[0] + plane * plane_x(pool), at, share);
}

static void window_norm(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                        const struct place *at)
{
    const float *x = (const float *)call->in[0] + plane * plane_x(pool);
    ((float *)call->out[0])[plane * plane_y(pool) + y] = norm_of(pool, x, at);
}

static void window_norm_grad(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                             const struct place *at)
{
    int64_t begin = plane * plane_x(pool);
    spread_norm(pool, (const float *)call->in[1] + begin, (float *)call->out[0] + begin, at,
                ((const float *)call->in[0])[plane * plane_y(pool) + y]);
}

/* A plane's position counted with the first dimension fastest. */
static int64_t by_column(const struct window *w, int64_t at)
{
    int64_t last = at % w[2].x, middle = at / w[2].x % w[1].x, first = at / w[2].x / w[1].x;
    return (last * w[1].x + middle) * w[0].x + first;
}

static void window_index(const struct pool *pool, const struct cpu_call *call, int64_t plane, int64_t y,
                         const struct place *at)
{
    int64_t begin = plane * plane_x(pool), to = plane * plane_y(pool) + y;
    const float *x = (const float *)call->in[0] + begin;
    int64_t best = largest_of(pool, x, at);
    ((float *)call->out[0])[to] = best < 0 ? -INFINITY : x[best];
    ((int64_t *)call->out[1])[to] = begin + (pool->by_column ? by_column(pool->w, best) : best);
}

static void clear_result(const struct cpu_call *call)
{
    memset(call->out[0], 0, (size_t)mg_shape_elements(&call->p->op.out_shape[0]) * sizeof(float));
}

static enum mg_code run_pool(const struct cpu_call *call)
{
    switch (call->p->op.type) {
    case MG_OP_MAX_POOL:
        each_window(call, window_max);
        break;
    case MG_OP_MAX_POOL_INDICES:
        each_window(call, window_index);
        break;
    case MG_OP_AVG_POOL:
        each_window(call, window_average);
        break;
    case MG_OP_LP_POOL:
        each_window(call, window_norm);
        break;
    case MG_OP_MAX_POOL_GRAD:
        clear_result(call);
        each_window(call, window_max_grad);
        break;
    case MG_OP_LP_POOL_GRAD:
        clear_result(call);
        each_window(call, window_norm_grad);
        break;
    default:
        clear_result(call);
        each_window(call, window_average_grad);
    }
    return MG_OK;
}

enum mg_code mg_cpu_pool(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    bool reals = mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32;
    if (!reals || in->rank > 5)
        return mg_cpu_by_reference(p, op, err);
    if (p->op.type == MG_OP_MAX_POOL_GRAD || p->op.type == MG_OP_LP_POOL_GRAD)
        op->data = pool_of(p, &p->op.in_shape[1], in);
    else if (p->op.type == MG_OP_AVG_POOL_GRAD)
        op->data = pool_of(p, out, in);
    else
        op->data = pool_of(p, in, out);
    op->run = run_pool;
    return MG_OK;
}

/* ---- whole planes ---- */

static int64_t plane_of(const struct mg_shape *shape)
{
    int64_t size = 1;
    for (uint32_t d = 2; d < shape->rank; d++)
        size *= shape->dim[d];
    return size;
}

static int64_t largest_at(const float *plane, int64_t size)
{
    int64_t best = 0;
    for (int64_t i = 1; i < size; i++)
        best = plane[i] > plane[best] ? i : best;
    return best;
}

static enum mg_code run_global(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    int64_t size = plane_of(&op->in_shape[0]), planes = op->in_shape[0].dim[0] * op->in_shape[0].dim[1];
    float *out = call->out[0];
    for (int64_t p = 0; p < planes; p++) {
        const float *plane = (const float *)call->in[0] + p * size;
        double sum = 0;
        for (int64_t i = 0; i < size && op->type == MG_OP_GLOBAL_AVG_POOL; i++)
            sum += (double)plane[i];
        out[p] = op->type == MG_OP_GLOBAL_MAX_POOL ? plane[largest_at(plane, size)] : (float)(sum / (double)size);
    }
    return MG_OK;
}

static enum mg_code run_global_grad(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    int64_t size = plane_of(&op->out_shape[0]), planes = op->out_shape[0].dim[0] * op->out_shape[0].dim[1];
    const float *dy = call->in[0];
    float *out = call->out[0];
    if (op->type == MG_OP_GLOBAL_MAX_POOL_GRAD)
        clear_result(call);
    for (int64_t p = 0; p < planes; p++) {
        float share = dy[p] / (float)size;
        if (op->type == MG_OP_GLOBAL_MAX_POOL_GRAD)
            out[p * size + largest_at((const float *)call->in[1] + p * size, size)] = dy[p];
        else
            for (int64_t i = 0; i < size; i++)
                out[p * size + i] = share;
    }
    return MG_OK;
}

enum mg_code mg_cpu_global_pool(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    bool gradient = p->op.type == MG_OP_GLOBAL_AVG_POOL_GRAD || p->op.type == MG_OP_GLOBAL_MAX_POOL_GRAD;
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    op->run = gradient ? run_global_grad : run_global;
    return MG_OK;
}

/* ---- windows that share a plane out: [floor(i x / y), ceil((i + 1) x / y)) ---- */

struct adaptive {
    int64_t planes, x[3], y[3];
};

static float adaptive_sum(const float *plane, const int64_t *x, const int64_t *lo, const int64_t *hi)
{
    float sum = 0;
    for (int64_t i = lo[0]; i < hi[0]; i++)
        for (int64_t j = lo[1]; j < hi[1]; j++)
            for (int64_t k = lo[2]; k < hi[2]; k++)
                sum += plane[(i * x[1] + j) * x[2] + k];
    return sum;
}

static void adaptive_spread(float *plane, const int64_t *x, const int64_t *lo, const int64_t *hi, float share)
{
    for (int64_t i = lo[0]; i < hi[0]; i++)
        for (int64_t j = lo[1]; j < hi[1]; j++)
            for (int64_t k = lo[2]; k < hi[2]; k++)
                plane[(i * x[1] + j) * x[2] + k] += share;
}

static enum mg_code run_adaptive(const struct cpu_call *call)
{
    const struct adaptive *a = ((const struct cpu_op *)call->p->detail)->data;
    bool gradient = call->p->op.type == MG_OP_ADAPTIVE_AVG_POOL_GRAD;
    int64_t size_x = a->x[0] * a->x[1] * a->x[2], size_y = a->y[0] * a->y[1] * a->y[2];
    const float *in = call->in[0];
    float *out = call->out[0];
    if (gradient)
        clear_result(call);
    for (int64_t w = 0; w < a->planes * size_y; w++) {
        int64_t at = w % size_y, index[3] = {at / a->y[2] / a->y[1], at / a->y[2] % a->y[1], at % a->y[2]};
        int64_t lo[3], hi[3], count = 1, begin = w / size_y * size_x;
        for (uint32_t d = 0; d < 3; d++) {
            lo[d] = index[d] * a->x[d] / a->y[d];
            hi[d] = ((index[d] + 1) * a->x[d] + a->y[d] - 1) / a->y[d];
            count *= hi[d] - lo[d];
        }
        if (gradient)
            adaptive_spread(out + begin, a->x, lo, hi, in[w] / (float)count);
        else
            out[w] = adaptive_sum(in + begin, a->x, lo, hi) / (float)count;
    }
    return MG_OK;
}

enum mg_code mg_cpu_adaptive(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct adaptive *a = MG_NEW(&p->arena, struct adaptive);
    bool gradient = p->op.type == MG_OP_ADAPTIVE_AVG_POOL_GRAD;
    const struct mg_shape *x = gradient ? &p->op.out_shape[0] : &p->op.in_shape[0];
    const struct mg_shape *y = gradient ? &p->op.in_shape[0] : &p->op.out_shape[0];
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    *a = (struct adaptive){x->dim[0] * x->dim[1], {1, 1, 1}, {1, 1, 1}};
    for (uint32_t d = 2; d < x->rank; d++) {
        a->x[d + 3 - x->rank] = x->dim[d];
        a->y[d + 3 - x->rank] = y->dim[d];
    }
    op->data = a;
    op->run = run_adaptive;
    return MG_OK;
}
