/* Pooling and resampling over the spatial dimensions (from 2 on), sample and channel by channel. */
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
        int64_t lo = y[d] * pool->stride[d] - pool->pad[d], hi = lo + pool->window.dim[d];
        int64_t first = include_pad ? -pool->pad[d] : 0;
        int64_t last = pool->x.dim[d] + (include_pad ? pool->pad_after[d] : 0);
        count *= (double)((hi < last ? hi : last) - (lo > first ? lo : first));
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

/* ---- resize ---- */

/* Where an output index of one dimension reads: one or two input indices with weights. */
struct taps {
    int64_t at[2];
    double weight[2];
};

static double source_position(const char *coordinates, int64_t i, int64_t in, int64_t out)
{
    if (strcmp(coordinates, "half_pixel") == 0)
        return ((double)i + 0.5) * (double)in / (double)out - 0.5;
    if (strcmp(coordinates, "align_corners") == 0)
        return out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
    return (double)i * (double)in / (double)out;
}

static int64_t clamp_index(double x, int64_t size)
{
    return x < 0 ? 0 : x > (double)(size - 1) ? size - 1 : (int64_t)x;
}

static struct taps taps_of(const struct mg_kernel *k, int64_t i, int64_t in, int64_t out)
{
    const char *coordinates = mg_kernel_text(k, MG_ATTR_COORDINATES);
    double x = source_position(coordinates, i, in, out);
    if (strcmp(mg_kernel_text(k, MG_ATTR_MODE), "linear") != 0) {
        double nearest = strcmp(coordinates, "asymmetric") != 0 ? ceil(x - 0.5) : floor(x);
        return (struct taps){{clamp_index(nearest, in), 0}, {1, 0}};
    }
    x = x < 0 ? 0 : x > (double)(in - 1) ? (double)(in - 1) : x;
    int64_t lo = (int64_t)floor(x);
    return (struct taps){{lo, lo + 1 < in ? lo + 1 : lo}, {1 - (x - (double)lo), x - (double)lo}};
}

/* y = R x for every plane, or x += R^T y. */
static enum mg_code resample(const struct mg_kernel *k, const struct mg_shape *small, const struct mg_shape *large,
                             bool transposed)
{
    struct mg_shape x = spatial_of(small), y = spatial_of(large), choice = {.rank = x.rank};
    int64_t size_x = mg_shape_elements(&x), planes = small->dim[0] * small->dim[1], index[MG_MAX_RANK] = {0}, i = 0;
    for (uint32_t d = 0; d < x.rank; d++)
        choice.dim[d] = 2;
    for (int64_t p = 0; p < planes; p++)
        do {
            int64_t tap[MG_MAX_RANK] = {0};
            do {
                int64_t at = 0;
                double weight = 1;
                for (uint32_t d = 0; d < x.rank; d++) {
                    struct taps taps = taps_of(k, index[d], x.dim[d], y.dim[d]);
                    at = at * x.dim[d] + taps.at[tap[d]];
                    weight *= taps.weight[tap[d]];
                }
                if (transposed)
                    k->out[0][p * size_x + at] += weight * k->in[0][i];
                else
                    k->out[0][i] += weight * k->in[0][p * size_x + at];
            } while (mg_walk_next(&choice, tap));
            i++;
        } while (mg_walk_next(&y, index));
    return MG_OK;
}

enum mg_code kernel_resize(const struct mg_kernel *k)
{
    return resample(k, &k->op->in_shape[0], &k->op->out_shape[0], false);
}

enum mg_code kernel_resize_grad(const struct mg_kernel *k)
{
    return resample(k, &k->op->out_shape[0], &k->op->in_shape[0], true);
}
