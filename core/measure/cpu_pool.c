/* Pooling and resampling, plane by plane, with up to three spatial dimensions (fewer: the outer ones have size 1). */
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

struct window { /* along one dimension */
    int64_t x, y, size, stride, dilation, before, after;
};
struct pool {
    int64_t planes;
    struct window w[3];
    bool include_pad;
};

static struct pool *pool_of(struct mg_prepared *p, const struct mg_shape *x, const struct mg_shape *y)
{
    struct pool *pool = MG_NEW(&p->arena, struct pool);
    uint32_t spatial = x->rank - 2;
    pool->planes = x->dim[0] * x->dim[1];
    pool->include_pad = mg_prepared_int(p, MG_ATTR_COUNT_INCLUDE_PAD);
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

static void clear_result(const struct cpu_call *call)
{
    memset(call->out[0], 0, (size_t)mg_shape_elements(&call->p->op.out_shape[0]) * sizeof(float));
}

static enum mg_code run_pool(const struct cpu_call *call)
{
    bool gradient = call->p->op.type == MG_OP_MAX_POOL_GRAD || call->p->op.type == MG_OP_AVG_POOL_GRAD;
    bool largest = call->p->op.type == MG_OP_MAX_POOL_GRAD || call->p->op.type == MG_OP_MAX_POOL;
    if (gradient)
        clear_result(call);
    if (gradient)
        each_window(call, largest ? window_max_grad : window_average_grad);
    else
        each_window(call, largest ? window_max : window_average);
    return MG_OK;
}

enum mg_code mg_cpu_pool(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    bool reals = mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32;
    if (!reals || in->rank > 5)
        return mg_cpu_by_reference(p, op, err);
    if (p->op.type == MG_OP_MAX_POOL_GRAD)
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

/* ---- resize: each index of the large side reads one or two of the small side ---- */

struct taps {
    int32_t at[2];
    float weight[2];
};
struct resize {
    int64_t planes, x[3], y[3];
    struct taps *taps[3];
    bool transposed;
};

static double source_position(const struct mg_prepared *p, int64_t i, int64_t in, int64_t out)
{
    if (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel"))
        return ((double)i + 0.5) * (double)in / (double)out - 0.5;
    if (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "align_corners"))
        return out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
    return (double)i * (double)in / (double)out;
}

static int32_t inside(double x, int64_t size)
{
    return (int32_t)(x < 0 ? 0 : x > (double)(size - 1) ? (double)(size - 1) : x);
}

static double nearest(const struct mg_prepared *p, double x)
{
    if (mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, "floor"))
        return floor(x);
    if (mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, "ceil"))
        return ceil(x);
    return mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, "round_prefer_floor") ? ceil(x - 0.5) : floor(x + 0.5);
}

static struct taps taps_of(const struct mg_prepared *p, int64_t i, int64_t in, int64_t out)
{
    double x = source_position(p, i, in, out), low = floor(x);
    if (!mg_prepared_text_is(p, MG_ATTR_MODE, "linear"))
        return (struct taps){{inside(nearest(p, x), in), 0}, {1, 0}};
    return (struct taps){{inside(low, in), inside(low + 1, in)}, {(float)(1 - (x - low)), (float)(x - low)}};
}

/* The common kinds; others run in the reference executor. */
static bool is_common(const struct mg_prepared *p)
{
    bool mode = mg_prepared_text_is(p, MG_ATTR_MODE, "linear") || mg_prepared_text_is(p, MG_ATTR_MODE, "nearest");
    bool place = mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel") ||
                 mg_prepared_text_is(p, MG_ATTR_COORDINATES, "align_corners") ||
                 mg_prepared_text_is(p, MG_ATTR_COORDINATES, "asymmetric");
    bool scaled = mg_prepared_float(p, MG_ATTR_SCALES_D) > 0 || mg_prepared_float(p, MG_ATTR_SCALES_H) > 0 ||
                  mg_prepared_float(p, MG_ATTR_SCALES_W) > 0;
    return mode && place && !scaled && !mg_prepared_int(p, MG_ATTR_ANTIALIAS) &&
           !mg_prepared_int(p, MG_ATTR_EXCLUDE_OUTSIDE) && mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32 &&
           p->op.in_shape[0].rank <= 5;
}

/* One row of the large side against one row of the small side. */
static void resize_row(const struct resize *r, const float *from, float *to, float weight)
{
    const struct taps *taps = r->taps[2];
    for (int64_t k = 0; k < r->y[2]; k++) {
        const struct taps *t = &taps[k];
        if (r->transposed) {
            to[t->at[0]] += weight * t->weight[0] * from[k];
            to[t->at[1]] += weight * t->weight[1] * from[k];
        } else
            to[k] += weight * (t->weight[0] * from[t->at[0]] + t->weight[1] * from[t->at[1]]);
    }
}

static void resize_plane(const struct resize *r, const float *in, float *out)
{
    for (int64_t i = 0; i < r->y[0]; i++)
        for (int64_t j = 0; j < r->y[1]; j++)
            for (int tap = 0; tap < 4; tap++) {
                const struct taps *a = &r->taps[0][i], *b = &r->taps[1][j];
                float weight = a->weight[tap / 2] * b->weight[tap % 2];
                int64_t small = (a->at[tap / 2] * r->x[1] + b->at[tap % 2]) * r->x[2];
                int64_t large = (i * r->y[1] + j) * r->y[2];
                if (weight != 0)
                    resize_row(r, in + (r->transposed ? large : small), out + (r->transposed ? small : large), weight);
            }
}

static enum mg_code run_resize(const struct cpu_call *call)
{
    const struct resize *r = ((const struct cpu_op *)call->p->detail)->data;
    int64_t x = r->x[0] * r->x[1] * r->x[2], y = r->y[0] * r->y[1] * r->y[2];
    clear_result(call);
    for (int64_t p = 0; p < r->planes; p++)
        resize_plane(r, (const float *)call->in[0] + p * (r->transposed ? y : x),
                     (float *)call->out[0] + p * (r->transposed ? x : y));
    return MG_OK;
}

enum mg_code mg_cpu_resize(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct resize *r = MG_NEW(&p->arena, struct resize);
    r->transposed = p->op.type == MG_OP_RESIZE_GRAD;
    const struct mg_shape *x = r->transposed ? &p->op.out_shape[0] : &p->op.in_shape[0];
    const struct mg_shape *y = r->transposed ? &p->op.in_shape[0] : &p->op.out_shape[0];
    if (!is_common(p))
        return mg_cpu_by_reference(p, op, err);
    r->planes = x->dim[0] * x->dim[1];
    for (uint32_t d = 0; d < 3; d++) {
        uint32_t from = x->rank + d < 3 ? 0 : x->rank + d - 3;
        r->x[d] = from < 2 ? 1 : x->dim[from];
        r->y[d] = from < 2 ? 1 : y->dim[from];
        r->taps[d] = MG_NEW_ARRAY(&p->arena, struct taps, r->y[d]);
        for (int64_t i = 0; i < r->y[d]; i++)
            r->taps[d][i] = from < 2 ? (struct taps){{0, 0}, {1, 0}} : taps_of(p, i, r->x[d], r->y[d]);
    }
    op->data = r;
    op->run = run_resize;
    return MG_OK;
}
