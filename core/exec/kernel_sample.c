/* Reading images between their elements: resizing, sampling at given coordinates, regions of interest.
 *
 * In each dimension a position reads a few elements with weights (*taps*); in all dimensions, their products. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

struct taps {
    uint32_t count;
    const int64_t *at;
    double *weight;
};

static struct mg_shape spatial_of(const struct mg_shape *shape)
{
    struct mg_shape spatial = {.rank = shape->rank - 2};
    memcpy(spatial.dim, shape->dim + 2, spatial.rank * sizeof spatial.dim[0]);
    return spatial;
}

static bool is(const char *text, const char *what)
{
    return strcmp(text, what) == 0;
}

static int64_t clamp(int64_t x, int64_t size)
{
    return x < 0 ? 0 : x >= size ? size - 1 : x;
}

/* ---- filters: weight of an element at this distance ---- */

static double cubic(double a, double distance)
{
    double x = fabs(distance);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static double hat(double distance)
{
    return fabs(distance) < 1 ? 1 - fabs(distance) : 0;
}

/* Taps of a filter that reaches `reach` elements to both sides, stretched by 1 / squeeze. */
static struct taps filter(struct mg_arena *arena, double x, double reach, double squeeze, double a)
{
    int64_t first = (int64_t)(floor(x) + floor(-reach / squeeze)) + 1;
    uint32_t count = (uint32_t)((int64_t)floor(x) + 1 - first) * 2;
    int64_t *at = MG_NEW_ARRAY(arena, int64_t, count);
    struct taps taps = {.count = count, .at = at, .weight = MG_NEW_ARRAY(arena, double, count)};
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        double distance = ((double)(first + i) - x) * squeeze;
        at[i] = first + i;
        taps.weight[i] = reach > 1 ? cubic(a, distance) : hat(distance);
        sum += taps.weight[i];
    }
    for (uint32_t i = 0; i < count; i++)
        taps.weight[i] /= sum;
    return taps;
}

static struct taps single(struct mg_arena *arena, double x)
{
    int64_t *at = MG_NEW_ARRAY(arena, int64_t, 1);
    struct taps taps = {.count = 1, .at = at, .weight = MG_NEW_ARRAY(arena, double, 1)};
    *at = (int64_t)x;
    *taps.weight = 1;
    return taps;
}

/* ---- resize ---- */

static double source_position(const char *coordinates, int64_t i, int64_t in, int64_t out, double scale)
{
    double reach = scale * (double)in, middle = ((double)i + 0.5) / scale - 0.5;
    if (is(coordinates, "half_pixel"))
        return middle;
    if (is(coordinates, "pytorch_half_pixel"))
        return out > 1 ? middle : 0;
    if (is(coordinates, "half_pixel_symmetric"))
        return middle + (double)in / 2 * (1 - (double)out / reach);
    if (is(coordinates, "tf_half_pixel_for_nn"))
        return middle + 0.5;
    if (is(coordinates, "align_corners"))
        return out > 1 ? (double)i * (double)(in - 1) / (reach - 1) : 0;
    return (double)i / scale;
}

static double rounded(const char *mode, double x)
{
    if (is(mode, "floor"))
        return floor(x);
    if (is(mode, "ceil"))
        return ceil(x);
    return is(mode, "round_prefer_floor") ? ceil(x - 0.5) : floor(x + 0.5);
}

/* Weights of elements outside vanish, the others make up for them. */
static void exclude_outside(struct taps *taps, int64_t size)
{
    double sum = 0;
    for (uint32_t i = 0; i < taps->count; i++) {
        taps->weight[i] = taps->at[i] < 0 || taps->at[i] >= size ? 0 : taps->weight[i];
        sum += taps->weight[i];
    }
    for (uint32_t i = 0; i < taps->count && sum != 0; i++)
        taps->weight[i] /= sum;
}

/* Taps of output index i along the spatial dimension `d` of `rank`. */
static struct taps resize_taps(const struct mg_kernel *k, uint32_t d, uint32_t rank, int64_t i, int64_t in, int64_t out)
{
    static const enum mg_attr_key keys[] = {MG_ATTR_SCALES_W, MG_ATTR_SCALES_H, MG_ATTR_SCALES_D};
    double scale = mg_kernel_float(k, keys[rank - 1 - d]), a = mg_kernel_float(k, MG_ATTR_CUBIC_COEFF_A);
    scale = scale > 0 ? scale : (double)out / (double)in;
    double x = source_position(mg_kernel_text(k, MG_ATTR_COORDINATES), i, in, out, scale);
    if (is(mg_kernel_text(k, MG_ATTR_MODE), "nearest"))
        return single(k->scratch, rounded(mg_kernel_text(k, MG_ATTR_NEAREST_MODE), x));
    double squeeze = mg_kernel_int(k, MG_ATTR_ANTIALIAS) && scale < 1 ? scale : 1;
    struct taps taps = filter(k->scratch, x, is(mg_kernel_text(k, MG_ATTR_MODE), "cubic") ? 2 : 1, squeeze, a);
    if (mg_kernel_int(k, MG_ATTR_EXCLUDE_OUTSIDE))
        exclude_outside(&taps, in);
    return taps;
}

/* Every combination of one tap for each dimension: position in the plane and weight. */
static void combine_taps(const struct taps *const *taps, const struct mg_shape *x, const int64_t *tap, int64_t *at,
                         double *weight)
{
    *at = 0;
    *weight = 1;
    for (uint32_t d = 0; d < x->rank; d++) {
        *at = *at * x->dim[d] + clamp(taps[d]->at[tap[d]], x->dim[d]);
        *weight *= taps[d]->weight[tap[d]];
    }
}

/* y = R x for every plane, or x += R^T y. */
static enum mg_code resample(const struct mg_kernel *k, const struct mg_shape *small, const struct mg_shape *large,
                             bool transposed)
{
    struct mg_shape x = spatial_of(small), y = spatial_of(large), choice = {.rank = x.rank};
    int64_t size_x = mg_shape_elements(&x), size_y = mg_shape_elements(&y), planes = small->dim[0] * small->dim[1];
    int64_t index[MG_MAX_RANK] = {0};
    struct taps *all[3];
    for (uint32_t d = 0; d < x.rank; d++) {
        all[d] = MG_NEW_ARRAY(k->scratch, struct taps, y.dim[d]);
        for (int64_t i = 0; i < y.dim[d]; i++)
            all[d][i] = resize_taps(k, d, x.rank, i, x.dim[d], y.dim[d]);
    }
    for (int64_t i = 0; i < size_y; i++, mg_walk_next(&y, index)) {
        const struct taps *taps[3];
        int64_t tap[MG_MAX_RANK] = {0}, at;
        double weight;
        for (uint32_t d = 0; d < x.rank; d++) {
            taps[d] = &all[d][index[d]];
            choice.dim[d] = taps[d]->count;
        }
        do {
            combine_taps(taps, &x, tap, &at, &weight);
            for (int64_t p = 0; p < planes; p++) {
                if (transposed)
                    k->out[0][p * size_x + at] += weight * k->in[0][p * size_y + i];
                else
                    k->out[0][p * size_y + i] += weight * k->in[0][p * size_x + at];
            }
        } while (mg_walk_next(&choice, tap));
    }
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

/* ---- grid_sample ---- */

/* The element that stands for index i outside of [0, size), or -1 for zero. */
static int64_t padded(const char *padding, int64_t i, int64_t size, bool corners)
{
    if (i >= 0 && i < size)
        return i;
    if (is(padding, "zeros"))
        return -1;
    if (is(padding, "border") || size == 1)
        return clamp(i, size);
    int64_t period = corners ? 2 * (size - 1) : 2 * size, m = (i % period + period) % period;
    return m < size ? m : corners ? period - m : period - 1 - m;
}

static struct taps grid_taps(const struct mg_kernel *k, double g, int64_t size)
{
    const char *mode = mg_kernel_text(k, MG_ATTR_MODE);
    bool corners = mg_kernel_int(k, MG_ATTR_ALIGN_CORNERS) != 0;
    double x = corners ? (g + 1) / 2 * (double)(size - 1) : ((g + 1) * (double)size - 1) / 2;
    if (is(mode, "nearest"))
        return single(k->scratch, nearbyint(x));
    return filter(k->scratch, x, is(mode, "cubic") ? 2 : 1, 1, -0.75);
}

/* Value of a plane at the combination `tap` of taps, with its weight. */
static double tapped(const struct mg_kernel *k, const struct taps *taps, const struct mg_shape *x, const double *plane,
                     const int64_t *tap)
{
    const char *padding = mg_kernel_text(k, MG_ATTR_PADDING);
    double weight = 1;
    int64_t at = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t i = padded(padding, taps[d].at[tap[d]], x->dim[d], mg_kernel_int(k, MG_ATTR_ALIGN_CORNERS) != 0);
        if (i < 0)
            return 0;
        at = at * x->dim[d] + i;
        weight *= taps[d].weight[tap[d]];
    }
    return weight * plane[at];
}

enum mg_code kernel_grid_sample(const struct mg_kernel *k)
{
    struct mg_shape x = spatial_of(&k->op->in_shape[0]), y = spatial_of(&k->op->out_shape[0]),
                    choice = {.rank = x.rank};
    int64_t size_x = mg_shape_elements(&x), size_y = mg_shape_elements(&y);
    int64_t samples = k->op->in_shape[0].dim[0], channels = k->op->in_shape[0].dim[1];
    for (int64_t i = 0; i < samples * size_y; i++) {
        struct mg_arena_mark mark = mg_arena_mark(k->scratch);
        struct taps taps[3];
        int64_t tap[MG_MAX_RANK] = {0}, n = i / size_y;
        for (uint32_t d = 0; d < x.rank; d++) { /* the grid names the last dimension first */
            taps[d] = grid_taps(k, k->in[1][i * x.rank + x.rank - 1 - d], x.dim[d]);
            choice.dim[d] = taps[d].count;
        }
        do
            for (int64_t c = n * channels; c < (n + 1) * channels; c++)
                k->out[0][c * size_y + i % size_y] += tapped(k, taps, &x, k->in[0] + c * size_x, tap);
        while (mg_walk_next(&choice, tap));
        mg_arena_rewind(k->scratch, mark);
    }
    return MG_OK;
}
