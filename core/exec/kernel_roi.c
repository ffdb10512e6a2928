/* Regions of interest: each bin of a box is the average or the maximum of points between the elements (He et al., "Mask
 * R-CNN", 2017). */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

struct roi {
    double y, x;                /* where the box begins */
    double bin_h, bin_w;        /* size of a bin */
    int64_t points_h, points_w; /* in a bin */
};

static void roi_init(struct roi *roi, const struct mg_kernel *k, const double *box)
{
    const struct mg_shape *out = &k->op->out_shape[0];
    bool half = strcmp(mg_kernel_text(k, MG_ATTR_COORDINATES), "half_pixel") == 0;
    double scale = mg_kernel_float(k, MG_ATTR_SPATIAL_SCALE), offset = half ? 0.5 : 0;
    double h = (box[3] - box[1]) * scale, w = (box[2] - box[0]) * scale;
    int64_t ratio = mg_kernel_int(k, MG_ATTR_SAMPLING_RATIO);
    if (!half) {
        h = fmax(h, 1);
        w = fmax(w, 1);
    }
    roi->x = box[0] * scale - offset;
    roi->y = box[1] * scale - offset;
    roi->bin_h = h / (double)out->dim[2];
    roi->bin_w = w / (double)out->dim[3];
    roi->points_h = ratio > 0 ? ratio : (int64_t)ceil(roi->bin_h);
    roi->points_w = ratio > 0 ? ratio : (int64_t)ceil(roi->bin_w);
}

/* The two elements around x and how far it is from the first. */
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

/* A point's four elements with their weights, added or the largest of them. */
static double point(const double *plane, int64_t height, int64_t width, double y, double x, bool largest)
{
    int64_t row[2], column[2];
    double best = -INFINITY, sum = 0;
    if (y < -1 || y > (double)height || x < -1 || x > (double)width)
        return 0;
    double down = around(y, height, row), right = around(x, width, column);
    for (int i = 0; i < 4; i++) {
        double weight = (i / 2 ? down : 1 - down) * (i % 2 ? right : 1 - right);
        double part = weight * plane[row[i / 2] * width + column[i % 2]];
        best = fmax(best, part);
        sum += part;
    }
    return largest ? best : sum;
}

static double bin(const struct roi *roi, const double *plane, const struct mg_shape *x, int64_t i, int64_t j,
                  bool largest)
{
    double result = largest ? -INFINITY : 0;
    int64_t count = roi->points_h * roi->points_w;
    for (int64_t p = 0; p < count; p++) {
        double down = ((double)(p / roi->points_w) + 0.5) / (double)roi->points_h;
        double right = ((double)(p % roi->points_w) + 0.5) / (double)roi->points_w;
        double value = point(plane, x->dim[2], x->dim[3], roi->y + ((double)i + down) * roi->bin_h,
                             roi->x + ((double)j + right) * roi->bin_w, largest);
        result = largest ? fmax(result, value) : result + value / (double)count;
    }
    return isinf(result) ? 0 : result;
}

enum mg_code kernel_roi_align(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0], *out = &k->op->out_shape[0];
    bool largest = strcmp(mg_kernel_text(k, MG_ATTR_MODE), "max") == 0;
    int64_t index[MG_MAX_RANK] = {0}, size = x->dim[2] * x->dim[3];
    for (int64_t i = 0; i < mg_shape_elements(out); i++, mg_walk_next(out, index)) {
        struct roi roi;
        int64_t sample = (int64_t)k->in[2][index[0]];
        if (sample < 0 || sample >= x->dim[0])
            return mg_fail(k->err, MG_ERR_INVALID, "", "a box of 'roi_align' is of no sample");
        roi_init(&roi, k, k->in[1] + 4 * index[0]);
        k->out[0][i] = bin(&roi, k->in[0] + (sample * x->dim[1] + index[1]) * size, x, index[2], index[3], largest);
    }
    return MG_OK;
}
