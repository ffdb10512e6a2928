/* Pooling over the spatial dimensions (from 2 on), sample and channel by channel. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

struct pool {
    struct mg_shape x, y, window; /* spatial sizes */
    int64_t planes;               /* samples * channels */
    int64_t stride[MG_MAX_RANK], pad[MG_MAX_RANK], pad_after[MG_MAX_RANK], dilation[MG_MAX_RANK];
};

static struct mg_shape spatial_of(const struct mg_shape *shape)
{
    struct mg_shape spatial = {.rank = shape->rank - 2};
    memcpy(spatial.dim, shape->dim + 2, spatial.rank * sizeof spatial.dim[0]);
    return spatial;
}

static void pool_init(struct pool *pool, const struct mg_kernel *k, const struct mg_shape *x, const struct mg_shape *y)
{
    *pool = (struct pool){.x = spatial_of(x), .y = spatial_of(y), .planes = x->dim[0] * x->dim[1]};
    uint32_t rank = pool->x.rank;
    pool->window.rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        pool->window.dim[d] = mg_kernel_ints(k, MG_ATTR_KERNEL_SHAPE, d, pool->x.dim[d]);
        pool->stride[d] = mg_kernel_ints(k, MG_ATTR_STRIDES, d, 1);
        pool->pad[d] = mg_kernel_ints(k, MG_ATTR_PADS, d, 0);
        pool->pad_after[d] = mg_kernel_ints(k, MG_ATTR_PADS, d + rank, 0);
        pool->dilation[d] = mg_kernel_ints(k, MG_ATTR_DILATIONS, d, 1);
    }
}

/* Position in the input plane of window element w of output y, or -1 outside. */
static int64_t pool_at(const struct pool *pool, const int64_t *y, const int64_t *w)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < pool->x.rank; d++) {
        int64_t x = y[d] * pool->stride[d] + w[d] * pool->dilation[d] - pool->pad[d];
        if (x < 0 || x >= pool->x.dim[d])
            return -1;
        at = at * pool->x.dim[d] + x;
    }
    return at;
}

/* Position of the first largest element of a window, or -1 if the window holds none. */
static int64_t pool_largest(const struct pool *pool, const double *plane, const int64_t *y)
{
    int64_t w[MG_MAX_RANK] = {0}, best = -1;
    do {
        int64_t at = pool_at(pool, y, w);
        if (at >= 0 && (best < 0 || plane[at] > plane[best]))
            best = at;
    } while (mg_walk_next(&pool->window, w));
    return best;
}

enum mg_code kernel_max_pool(const struct mg_kernel *k)
{
    struct pool pool;
    pool_init(&pool, k, &k->op->in_shape[0], &k->op->out_shape[0]);
    int64_t size = mg_shape_elements(&pool.x), y[MG_MAX_RANK] = {0}, i = 0;
    for (int64_t p = 0; p < pool.planes; p++) {
        const double *plane = k->in[0] + p * size;
        do {
            int64_t at = pool_largest(&pool, plane, y);
            k->out[0][i++] = at < 0 ? -INFINITY : plane[at];
        } while (mg_walk_next(&pool.y, y));
    }
    return MG_OK;
}

enum mg_code kernel_max_pool_grad(const struct mg_kernel *k)
{
    struct pool pool;
    pool_init(&pool, k, &k->op->in_shape[1], &k->op->in_shape[0]);
    int64_t size = mg_shape_elements(&pool.x), y[MG_MAX_RANK] = {0}, i = 0;
    for (int64_t p = 0; p < pool.planes; p++)
        do {
            int64_t at = pool_largest(&pool, k->in[1] + p * size, y);
            if (at >= 0)
                k->out[0][p * size + at] += k->in[0][i];
            i++;
        } while (mg_walk_next(&pool.y, y));
    return MG_OK;
}

/* By how much a window's sum is divided: its elements inside the (padded) input. */
static double window_count(const struct pool *pool, const int64_t *y, bool include_pad)
{
    double count = 1;
    for (uint32_t d = 0; d < pool->x.rank; d++) {
        int64_t first = include_pad ? -pool->pad[d] : 0, inside = 0;
        int64_t last = pool->x.dim[d] + (include_pad ? pool->pad_after[d] : 0);
        for (int64_t w = 0; w < pool->window.dim[d]; w++) {
            int64_t x = y[d] * pool->stride[d] + w * pool->dilation[d] - pool->pad[d];
            inside += x >= first && x < last;
        }
        count *= (double)inside;
    }
    return count;
}

enum mg_code kernel_avg_pool(const struct mg_kernel *k)
{
    struct pool pool;
    pool_init(&pool, k, &k->op->in_shape[0], &k->op->out_shape[0]);
    bool include_pad = mg_kernel_int(k, MG_ATTR_COUNT_INCLUDE_PAD);
    int64_t size = mg_shape_elements(&pool.x), y[MG_MAX_RANK] = {0}, i = 0;
    for (int64_t p = 0; p < pool.planes; p++)
        do {
            int64_t w[MG_MAX_RANK] = {0};
            do {
                int64_t at = pool_at(&pool, y, w);
                k->out[0][i] += at < 0 ? 0 : k->in[0][p * size + at];
            } while (mg_walk_next(&pool.window, w));
            k->out[0][i++] /= window_count(&pool, y, include_pad);
        } while (mg_walk_next(&pool.y, y));
    return MG_OK;
}

enum mg_code kernel_avg_pool_grad(const struct mg_kernel *k)
{
    struct pool pool;
    pool_init(&pool, k, &k->op->out_shape[0], &k->op->in_shape[0]);
    bool include_pad = mg_kernel_int(k, MG_ATTR_COUNT_INCLUDE_PAD);
    int64_t size = mg_shape_elements(&pool.x), y[MG_MAX_RANK] = {0}, i = 0;
    for (int64_t p = 0; p < pool.planes; p++)
        do {
            int64_t w[MG_MAX_RANK] = {0};
            double share = k->in[0][i++] / window_count(&pool, y, include_pad);
            do {
                int64_t at = pool_at(&pool, y, w);
                if (at >= 0)
                    k->out[0][p * size + at] += share;
            } while (mg_walk_next(&pool.window, w));
        } while (mg_walk_next(&pool.y, y));
    return MG_OK;
}

/* ---- norms of windows ---- */

/* y_i = (sum |x|^p)^(1/p) */
static double window_norm(const struct pool *pool, const double *plane, const int64_t *y, double p)
{
    int64_t w[MG_MAX_RANK] = {0};
    double sum = 0;
    do {
        int64_t at = pool_at(pool, y, w);
        sum += at < 0 ? 0 : pow(fabs(plane[at]), p);
    } while (mg_walk_next(&pool->window, w));
    return pow(sum, 1 / p);
}

enum mg_code kernel_lp_pool(const struct mg_kernel *k)
{
    struct pool pool;
    pool_init(&pool, k, &k->op->in_shape[0], &k->op->out_shape[0]);
    int64_t size = mg_shape_elements(&pool.x), y[MG_MAX_RANK] = {0}, i = 0;
    for (int64_t p = 0; p < pool.planes; p++)
        do
            k->out[0][i++] = window_norm(&pool, k->in[0] + p * size, y, (double)mg_kernel_int(k, MG_ATTR_P));
        while (mg_walk_next(&pool.y, y));
    return MG_OK;
}

/* dx += dy sign(x) (|x| / y)^(p - 1) */
enum mg_code kernel_lp_pool_grad(const struct mg_kernel *k)
{
    struct pool pool;
    pool_init(&pool, k, &k->op->in_shape[1], &k->op->in_shape[0]);
    int64_t size = mg_shape_elements(&pool.x), y[MG_MAX_RANK] = {0}, i = 0;
    double power = (double)mg_kernel_int(k, MG_ATTR_P);
    for (int64_t p = 0; p < pool.planes; p++)
        do {
            const double *plane = k->in[1] + p * size;
            double norm = window_norm(&pool, plane, y, power), dy = k->in[0][i++];
            int64_t w[MG_MAX_RANK] = {0};
            do {
                int64_t at = pool_at(&pool, y, w);
                if (at >= 0 && plane[at] != 0)
                    k->out[0][p * size + at] += copysign(pow(fabs(plane[at]) / norm, power - 1), plane[at]) * dy;
            } while (mg_walk_next(&pool.window, w));
        } while (mg_walk_next(&pool.y, y));
    return MG_OK;
}

/* ---- positions of the largest ---- */

/* A plane's position counted with the first dimension fastest. */
static int64_t column_major(const struct mg_shape *plane, int64_t at)
{
    int64_t result = 0;
    for (uint32_t d = plane->rank; d-- > 0;) {
        int64_t faster = 1;
        for (uint32_t e = 0; e < d; e++)
            faster *= plane->dim[e];
        result += at % plane->dim[d] * faster;
        at /= plane->dim[d];
    }
    return result;
}

enum mg_code kernel_max_pool_indices(const struct mg_kernel *k)
{
    struct pool pool;
    pool_init(&pool, k, &k->op->in_shape[0], &k->op->out_shape[0]);
    int64_t size = mg_shape_elements(&pool.x), y[MG_MAX_RANK] = {0}, i = 0;
    for (int64_t p = 0; p < pool.planes; p++)
        do {
            int64_t at = pool_largest(&pool, k->in[0] + p * size, y);
            k->out[0][i] = at < 0 ? -INFINITY : k->in[0][p * size + at];
            if (mg_kernel_int(k, MG_ATTR_STORAGE_ORDER))
                at = column_major(&pool.x, at);
            k->out[1][i++] = (double)(p * size + at);
        } while (mg_walk_next(&pool.y, y));
    return MG_OK;
}

enum mg_code kernel_max_unpool(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_in_count(k, 0); i++) {
        int64_t at = (int64_t)k->in[1][i];
        if (at < 0 || at >= mg_kernel_out_count(k, 0))
            return mg_fail(k->err, MG_ERR_INVALID, "", "an index of 'max_unpool' is out of range");
        k->out[0][at] = k->in[0][i];
    }
    return MG_OK;
}

/* ---- adaptive ---- */

/* Window i of `parts` over `size` elements: [floor(i size / parts), ceil((i + 1) size / parts)). */
static bool adaptive_holds(int64_t i, int64_t parts, int64_t size, int64_t x)
{
    return x >= i * size / parts && x < ((i + 1) * size + parts - 1) / parts;
}

/* Adds average windows of planes of shape `x` up into planes of shape `y`, or spreads them. */
static enum mg_code adaptive(const struct mg_kernel *k, const struct mg_shape *whole, const struct mg_shape *parts,
                             bool spread)
{
    struct mg_shape x = spatial_of(whole), y = spatial_of(parts);
    int64_t size_x = mg_shape_elements(&x), size_y = mg_shape_elements(&y), planes = whole->dim[0] * whole->dim[1];
    int64_t at[MG_MAX_RANK] = {0}, window[MG_MAX_RANK] = {0};
    for (int64_t j = 0; j < size_y; j++, mg_walk_next(&y, window)) {
        double count = 1;
        for (uint32_t d = 0; d < y.rank; d++)
            count *= (double)(((window[d] + 1) * x.dim[d] + y.dim[d] - 1) / y.dim[d] - window[d] * x.dim[d] / y.dim[d]);
        for (int64_t i = 0; i < size_x; i++, mg_walk_next(&x, at)) {
            bool inside = true;
            for (uint32_t d = 0; d < x.rank; d++)
                inside = inside && adaptive_holds(window[d], y.dim[d], x.dim[d], at[d]);
            for (int64_t p = 0; p < planes && inside; p++) {
                if (spread)
                    k->out[0][p * size_x + i] += k->in[0][p * size_y + j] / count;
                else
                    k->out[0][p * size_y + j] += k->in[0][p * size_x + i] / count;
            }
        }
    }
    return MG_OK;
}

enum mg_code kernel_adaptive_avg_pool(const struct mg_kernel *k)
{
    return adaptive(k, &k->op->in_shape[0], &k->op->out_shape[0], false);
}

enum mg_code kernel_adaptive_avg_pool_grad(const struct mg_kernel *k)
{
    return adaptive(k, &k->op->out_shape[0], &k->op->in_shape[0], true);
}

/* ---- whole planes ---- */

static int64_t plane_size(const struct mg_shape *shape)
{
    struct mg_shape spatial = spatial_of(shape);
    return mg_shape_elements(&spatial);
}

static int64_t largest_at(const double *plane, int64_t size)
{
    int64_t best = 0;
    for (int64_t i = 1; i < size; i++)
        best = plane[i] > plane[best] ? i : best;
    return best;
}

enum mg_code kernel_global_pool(const struct mg_kernel *k)
{
    int64_t size = plane_size(&k->op->in_shape[0]);
    for (int64_t p = 0; p < mg_kernel_out_count(k, 0); p++) {
        const double *plane = k->in[0] + p * size;
        double sum = 0;
        for (int64_t i = 0; i < size; i++)
            sum += plane[i];
        k->out[0][p] = k->op->type == MG_OP_GLOBAL_MAX_POOL ? plane[largest_at(plane, size)] : sum / (double)size;
    }
    return MG_OK;
}

enum mg_code kernel_global_avg_pool_grad(const struct mg_kernel *k)
{
    int64_t size = plane_size(&k->op->out_shape[0]);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = k->in[0][i / size] / (double)size;
    return MG_OK;
}

enum mg_code kernel_global_max_pool_grad(const struct mg_kernel *k)
{
    int64_t size = plane_size(&k->op->out_shape[0]);
    for (int64_t p = 0; p < mg_kernel_in_count(k, 0); p++)
        k->out[0][p * size + largest_at(k->in[1] + p * size, size)] = k->in[0][p];
    return MG_OK;
}
