/* Reading images between their elements: resizing, sampling at given coordinates, regions of interest. In each
 * dimension a position reads a few elements with weights (*taps*); in all dimensions, their products. Up to three
 * spatial dimensions (fewer: the outer ones have size 1). */
#include <math.h>
#include <string.h>

#include "measure/cpu_priv.h"

static int64_t nearest_in(int64_t x, int64_t size)
{
    return x < 0 ? 0 : x >= size ? size - 1 : x;
}

/* The sizes of the last three dimensions that are spatial. */
static void spatial_of(const struct mg_shape *shape, int64_t size[3])
{
    for (uint32_t d = 0; d < 3; d++)
        size[d] = shape->rank + d < 5 ? 1 : shape->dim[shape->rank + d - 3];
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

/* How wide a filter is, stretched by 1 / squeeze. */
struct filter {
    uint32_t count;
    double a, squeeze;
    bool cubic;
};

static struct filter filter_of(bool is_cubic, double a, double squeeze)
{
    return (struct filter){(uint32_t)ceil((is_cubic ? 2 : 1) / squeeze) * 2, a, squeeze, is_cubic};
}

static void tap(const struct filter *f, double x, int64_t *at, double *weight)
{
    int64_t first = (int64_t)floor(x) - f->count / 2 + 1;
    double sum = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        double distance = ((double)(first + i) - x) * f->squeeze;
        at[i] = first + i;
        weight[i] = f->cubic ? cubic(f->a, distance) : hat(distance);
        sum += weight[i];
    }
    for (uint32_t i = 0; i < f->count; i++)
        weight[i] /= sum;
}

/* ---- resize: each index of the large side reads elements of the small side, or adds to them ---- */

struct taps { /* of one dimension: [index of the large side][tap] */
    uint32_t count;
    const int32_t *at;
    const float *weight;
};
struct resize {
    int64_t planes, x[3], y[3];
    struct taps taps[3];
    bool transposed;
};

static double source_position(const struct mg_prepared *p, int64_t i, int64_t in, int64_t out, double scale)
{
    double reach = scale * (double)in, middle = ((double)i + 0.5) / scale - 0.5;
    if (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel"))
        return middle;
    if (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "pytorch_half_pixel"))
        return out > 1 ? middle : 0;
    if (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel_symmetric"))
        return middle + (double)in / 2 * (1 - (double)out / reach);
    if (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "tf_half_pixel_for_nn"))
        return middle + 0.5;
    if (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "align_corners"))
        return out > 1 ? (double)i * (double)(in - 1) / (reach - 1) : 0;
    return (double)i / scale;
}

static double nearest(const struct mg_prepared *p, double x)
{
    if (mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, "floor"))
        return floor(x);
    if (mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, "ceil"))
        return ceil(x);
    return mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, "round_prefer_floor") ? ceil(x - 0.5) : floor(x + 0.5);
}

/* Weights of elements outside vanish, the others make up for them. */
static void exclude_outside(uint32_t count, const int64_t *at, double *weight, int64_t size)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        weight[i] = at[i] < 0 || at[i] >= size ? 0 : weight[i];
        sum += weight[i];
    }
    for (uint32_t i = 0; i < count && sum != 0; i++)
        weight[i] /= sum;
}

/* Spatial dimension 2 - `back`. */
static struct taps taps_of(struct mg_prepared *p, uint32_t back, int64_t in, int64_t out)
{
    static const enum mg_attr_key keys[] = {MG_ATTR_SCALES_W, MG_ATTR_SCALES_H, MG_ATTR_SCALES_D};
    double scale = mg_prepared_float(p, keys[back]), a = mg_prepared_float(p, MG_ATTR_CUBIC_COEFF_A);
    scale = scale > 0 ? scale : (double)out / (double)in;
    bool single = mg_prepared_text_is(p, MG_ATTR_MODE, "nearest");
    struct filter f = filter_of(mg_prepared_text_is(p, MG_ATTR_MODE, "cubic"), a,
                                mg_prepared_int(p, MG_ATTR_ANTIALIAS) && scale < 1 ? scale : 1);
    const uint32_t count = single ? 1 : f.count;
    int32_t *all = MG_NEW_ARRAY(&p->arena, int32_t, out * count);
    float *weights = MG_NEW_ARRAY(&p->arena, float, out *count);
    int64_t *at = MG_NEW_ARRAY(&p->arena, int64_t, count);
    double *weight = MG_NEW_ARRAY(&p->arena, double, count);
    for (int64_t i = 0; i < out; i++) {
        double x = source_position(p, i, in, out, scale);
        *at = (int64_t)nearest(p, x);
        *weight = 1;
        if (!single)
            tap(&f, x, at, weight);
        if (!single && mg_prepared_int(p, MG_ATTR_EXCLUDE_OUTSIDE))
            exclude_outside(count, at, weight, in);
        for (uint32_t t = 0; t < count; t++) {
            all[i * count + t] = (int32_t)nearest_in(at[t], in);
            weights[i * count + t] = (float)weight[t];
        }
    }
    return (struct taps){count, all, weights};
}

/* One row of the large side against one row of the small side, with `count` taps. */
static inline void row_of(const struct resize *r, const uint32_t count, const float *from, float *to, float weight)
{
    for (int64_t k = 0; k < r->y[2]; k++) {
        const int32_t *at = r->taps[2].at + k * count;
        const float *w = r->taps[2].weight + k * count;
        float sum = 0;
        for (uint32_t t = 0; t < count && r->transposed; t++)
            to[at[t]] += weight * w[t] * from[k];
        for (uint32_t t = 0; t < count && !r->transposed; t++)
            sum += w[t] * from[at[t]];
        if (!r->transposed)
            to[k] += weight * sum;
    }
}

/* The common numbers of taps get loops of their own. */
static void resize_row(const struct resize *r, const float *from, float *to, float weight)
{
    if (r->taps[2].count == 1)
        row_of(r, 1, from, to, weight);
    else if (r->taps[2].count == 2)
        row_of(r, 2, from, to, weight);
    else
        row_of(r, r->taps[2].count, from, to, weight);
}

static void resize_plane(const struct resize *r, const float *in, float *out)
{
    const struct taps *a = &r->taps[0], *b = &r->taps[1];
    for (int64_t i = 0; i < r->y[0]; i++)
        for (int64_t j = 0; j < r->y[1]; j++)
            for (uint32_t t = 0; t < a->count * b->count; t++) {
                int64_t ta = i * a->count + t / b->count, tb = j * b->count + t % b->count;
                float weight = a->weight[ta] * b->weight[tb];
                int64_t small = (a->at[ta] * r->x[1] + b->at[tb]) * r->x[2], large = (i * r->y[1] + j) * r->y[2];
                if (weight != 0)
                    resize_row(r, in + (r->transposed ? large : small), out + (r->transposed ? small : large), weight);
            }
}

static enum mg_code run_resize(const struct cpu_call *call)
{
    const struct resize *r = ((const struct cpu_op *)call->p->detail)->data;
    int64_t x = r->x[0] * r->x[1] * r->x[2], y = r->y[0] * r->y[1] * r->y[2];
    memset(call->out[0], 0, (size_t)mg_shape_elements(&call->p->op.out_shape[0]) * sizeof(float));
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
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    r->planes = x->dim[0] * x->dim[1];
    spatial_of(x, r->x);
    spatial_of(y, r->y);
    static const int32_t here = 0;
    static const float whole = 1;
    for (uint32_t d = 0; d < 3; d++)
        r->taps[d] = x->rank + d < 5 ? (struct taps){1, &here, &whole} : taps_of(p, 2 - d, r->x[d], r->y[d]);
    op->data = r;
    op->run = run_resize;
    return MG_OK;
}

/* ---- grid_sample ---- */

enum { MOST_TAPS = 64 };
enum padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

struct grid {
    int64_t x[3], size_x, size_y, channels;
    uint32_t rank;
    struct filter filter;
    enum padding padding;
    bool corners, single;
};
struct point { /* what a point of the grid reads */
    uint32_t count;
    int64_t at[MOST_TAPS];
    float weight[MOST_TAPS];
};

/* The element that stands for index i, or -1 for zero. */
static int64_t padded(const struct grid *g, int64_t i, int64_t size)
{
    if (i >= 0 && i < size)
        return i;
    if (g->padding == PAD_ZEROS)
        return -1;
    if (g->padding == PAD_BORDER || size == 1)
        return nearest_in(i, size);
    int64_t period = g->corners ? 2 * (size - 1) : 2 * size, m = (i % period + period) % period;
    return m < size ? m : g->corners ? period - m : period - 1 - m;
}

/* Multiplies what is read so far by the taps of one more dimension. */
static void widen(const struct grid *g, struct point *point, double coordinate, int64_t size)
{
    struct point old = *point;
    int64_t at[4];
    double weight[4] = {1}, whole = (double)size;
    double x = g->corners ? (coordinate + 1) / 2 * (whole - 1) : ((coordinate + 1) * whole - 1) / 2;
    *at = (int64_t)nearbyint(x);
    if (!g->single)
        tap(&g->filter, x, at, weight);
    point->count = 0;
    for (uint32_t i = 0; i < old.count; i++)
        for (uint32_t t = 0; t < (g->single ? 1 : g->filter.count); t++) {
            int64_t here = padded(g, at[t], size);
            if (here < 0)
                continue;
            point->at[point->count] = old.at[i] * size + here;
            point->weight[point->count++] = old.weight[i] * (float)weight[t];
        }
}

static enum mg_code run_grid(const struct cpu_call *call)
{
    const struct grid *g = ((const struct cpu_op *)call->p->detail)->data;
    const float *grid = call->in[1];
    int64_t samples = call->p->op.in_shape[0].dim[0];
    for (int64_t i = 0; i < samples * g->size_y; i++, grid += g->rank) {
        struct point point = {1, {0}, {1}};
        for (uint32_t d = 0; d < g->rank; d++) /* the grid names the last dimension first */
            widen(g, &point, (double)grid[g->rank - 1 - d], g->x[3 - g->rank + d]);
        int64_t n = i / g->size_y * g->channels;
        const float *plane = (const float *)call->in[0] + n * g->size_x;
        float *out = (float *)call->out[0] + n * g->size_y + i % g->size_y;
        for (int64_t c = 0; c < g->channels; c++, plane += g->size_x) {
            float sum = 0;
            for (uint32_t t = 0; t < point.count; t++)
                sum += point.weight[t] * plane[point.at[t]];
            out[c * g->size_y] = sum;
        }
    }
    return MG_OK;
}

enum mg_code mg_cpu_grid_sample(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct grid *g = MG_NEW(&p->arena, struct grid);
    const struct mg_shape *x = &p->op.in_shape[0], *y = &p->op.out_shape[0];
    int64_t size[3];
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    spatial_of(x, g->x);
    spatial_of(y, size);
    g->size_x = g->x[0] * g->x[1] * g->x[2];
    g->size_y = size[0] * size[1] * size[2];
    g->channels = x->dim[1];
    g->rank = x->rank - 2;
    g->filter = filter_of(mg_prepared_text_is(p, MG_ATTR_MODE, "cubic"), -0.75, 1);
    g->single = mg_prepared_text_is(p, MG_ATTR_MODE, "nearest");
    g->corners = mg_prepared_int(p, MG_ATTR_ALIGN_CORNERS);
    g->padding = mg_prepared_text_is(p, MG_ATTR_PADDING, "zeros")    ? PAD_ZEROS
                 : mg_prepared_text_is(p, MG_ATTR_PADDING, "border") ? PAD_BORDER
                                                                     : PAD_REFLECTION;
    op->data = g;
    op->run = run_grid;
    return MG_OK;
}

/* ---- regions of interest: bins are averages, or the largest, of points (He et al., "Mask R-CNN", 2017) ---- */

struct roi {
    double y, x;                /* where the box begins */
    double bin_h, bin_w;        /* size of a bin */
    int64_t points_h, points_w; /* in a bin */
};
struct corners { /* the four elements around a point; count 0: the point is outside */
    uint32_t count;
    int64_t at[4];
    float weight[4];
};

static struct roi roi_of(const struct mg_prepared *p, const float *box)
{
    const struct mg_shape *out = &p->op.out_shape[0];
    bool half = mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel");
    double scale = mg_prepared_float(p, MG_ATTR_SPATIAL_SCALE), offset = half ? 0.5 : 0;
    double h = ((double)box[3] - (double)box[1]) * scale, w = ((double)box[2] - (double)box[0]) * scale;
    int64_t ratio = mg_prepared_int(p, MG_ATTR_SAMPLING_RATIO);
    struct roi roi = {.y = (double)box[1] * scale - offset, .x = (double)box[0] * scale - offset};
    roi.bin_h = (half ? h : fmax(h, 1)) / (double)out->dim[2];
    roi.bin_w = (half ? w : fmax(w, 1)) / (double)out->dim[3];
    roi.points_h = ratio > 0 ? ratio : (int64_t)ceil(roi.bin_h);
    roi.points_w = ratio > 0 ? ratio : (int64_t)ceil(roi.bin_w);
    return roi;
}

static double around(double x, int64_t size, int64_t at[2])
{
    x = fmax(x, 0);
    at[0] = (int64_t)x;
    at[1] = at[0] + 1;
    if (at[0] >= size - 1) {
        at[0] = at[1] = size - 1;
        return 0;
    }
    return x - (double)at[0];
}

static struct corners corners_of(const struct mg_shape *image, double y, double x)
{
    int64_t row[2], column[2], height = image->dim[2], width = image->dim[3];
    struct corners c = {0};
    if (y < -1 || y > (double)height || x < -1 || x > (double)width)
        return c;
    double down = around(y, height, row), right = around(x, width, column);
    for (; c.count < 4; c.count++) {
        c.at[c.count] = row[c.count / 2] * width + column[c.count % 2];
        c.weight[c.count] = (float)((c.count / 2 ? down : 1 - down) * (c.count % 2 ? right : 1 - right));
    }
    return c;
}

static float read_corners(const struct corners *c, const float *plane, bool largest)
{
    float sum = 0, best = c->count ? -INFINITY : 0;
    for (uint32_t i = 0; i < c->count; i++) {
        float part = c->weight[i] * plane[c->at[i]];
        best = part > best ? part : best;
        sum += part;
    }
    return largest ? best : sum;
}

/* One bin of all channels. */
static void fill_bin(const struct cpu_call *call, const struct roi *roi, const float *image, int64_t bin, float *out)
{
    const struct mg_shape *x = &call->p->op.in_shape[0], *y = &call->p->op.out_shape[0];
    bool largest = mg_prepared_text_is(call->p, MG_ATTR_MODE, "max");
    int64_t count = roi->points_h * roi->points_w, size = x->dim[2] * x->dim[3], step = y->dim[2] * y->dim[3];
    for (int64_t c = 0; c < x->dim[1]; c++)
        out[c * step] = largest ? -INFINITY : 0;
    for (int64_t p = 0; p < count; p++) {
        double down = ((double)(p / roi->points_w) + 0.5) / (double)roi->points_h;
        double right = ((double)(p % roi->points_w) + 0.5) / (double)roi->points_w;
        struct corners corners = corners_of(x, roi->y + ((double)(bin / y->dim[3]) + down) * roi->bin_h,
                                            roi->x + ((double)(bin % y->dim[3]) + right) * roi->bin_w);
        for (int64_t c = 0; c < x->dim[1]; c++) {
            float value = read_corners(&corners, image + c * size, largest), *to = &out[c * step];
            *to = !largest ? *to + value / (float)count : value > *to ? value : *to;
        }
    }
    for (int64_t c = 0; c < x->dim[1]; c++)
        out[c * step] = isinf(out[c * step]) ? 0 : out[c * step];
}

static enum mg_code run_roi(const struct cpu_call *call)
{
    const struct mg_shape *x = &call->p->op.in_shape[0], *out = &call->p->op.out_shape[0];
    int64_t bins = out->dim[2] * out->dim[3];
    for (int64_t r = 0; r < out->dim[0]; r++) {
        int64_t sample = ((const int64_t *)call->in[2])[r];
        if (sample < 0 || sample >= x->dim[0])
            return mg_fail(call->err, MG_ERR_INVALID, "", "a box of 'roi_align' is of no sample");
        struct roi roi = roi_of(call->p, (const float *)call->in[1] + 4 * r);
        const float *image = (const float *)call->in[0] + sample * x->dim[1] * x->dim[2] * x->dim[3];
        for (int64_t bin = 0; bin < bins; bin++)
            fill_bin(call, &roi, image, bin, (float *)call->out[0] + r * x->dim[1] * bins + bin);
    }
    return MG_OK;
}

enum mg_code mg_cpu_roi_align(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    op->run = run_roi;
    return MG_OK;
}
