/* Windows of images as columns, and columns added up in the image: columns are [plane, element of the window, window].
 * Up to three spatial dimensions (fewer: the outer ones have size 1). */
#include <string.h>

#include "measure/cpu_priv.h"

void mg_cpu_columns_init(struct cpu_columns *c, const struct mg_prepared *p, const struct mg_shape *image,
                         const int64_t *kernel)
{
    uint32_t spatial = image->rank - 2;
    c->size = c->elements = c->windows = 1;
    for (uint32_t d = 0; d < 3; d++)
        c->w[d] = (struct cpu_column){1, 1, 1, 1, 1, 0};
    for (uint32_t d = 0; d < spatial; d++) {
        struct cpu_column *w = &c->w[d + 3 - spatial];
        int64_t pads = mg_prepared_ints(p, MG_ATTR_PADS, d, 0) + mg_prepared_ints(p, MG_ATTR_PADS, d + spatial, 0);
        w->x = image->dim[d + 2];
        w->kernel = kernel[d];
        w->stride = mg_prepared_ints(p, MG_ATTR_STRIDES, d, 1);
        w->dilation = mg_prepared_ints(p, MG_ATTR_DILATIONS, d, 1);
        w->before = mg_prepared_ints(p, MG_ATTR_PADS, d, 0);
        w->windows = (w->x + pads - w->dilation * (w->kernel - 1) - 1) / w->stride + 1;
    }
    for (uint32_t d = 0; d < 3; d++) {
        c->size *= c->w[d].x;
        c->elements *= c->w[d].kernel;
        c->windows *= c->w[d].windows;
    }
}

/* The windows [lo, hi) whose element `at` lies inside. */
static void inside(const struct cpu_column *w, int64_t at, int64_t *lo, int64_t *hi)
{
    int64_t first = at * w->dilation - w->before; /* of window 0 */
    *lo = first < 0 ? (-first + w->stride - 1) / w->stride : 0;
    *lo = *lo < w->windows ? *lo : w->windows;
    *hi = w->x > first ? (w->x - first + w->stride - 1) / w->stride : 0;
    *hi = *hi < w->windows ? *hi : w->windows;
    *hi = *hi > *lo ? *hi : *lo;
}

/* Where the last dimension's row of windows (i, j) reads: a row of the plane, or -1 in the padding. */
static int64_t row_at(const struct cpu_columns *c, int64_t element, int64_t i, int64_t j)
{
    const struct cpu_column *w = c->w;
    int64_t a = element / w[2].kernel / w[1].kernel, b = element / w[2].kernel % w[1].kernel;
    int64_t y = i * w[0].stride + a * w[0].dilation - w[0].before;
    int64_t x = j * w[1].stride + b * w[1].dilation - w[1].before;
    return y < 0 || y >= w[0].x || x < 0 || x >= w[1].x ? -1 : y * w[1].x + x;
}

void mg_cpu_columns_of(const struct cpu_columns *c, const float *plane, float *columns)
{
    const struct cpu_column *w = c->w;
    int64_t lo, hi;
    for (int64_t e = 0; e < c->elements; e++) {
        int64_t first = e % w[2].kernel * w[2].dilation - w[2].before;
        inside(&w[2], e % w[2].kernel, &lo, &hi);
        for (int64_t r = 0; r < w[0].windows * w[1].windows; r++, columns += w[2].windows) {
            int64_t row = row_at(c, e, r / w[1].windows, r % w[1].windows), end = row < 0 ? 0 : hi;
            const float *from = plane + row * w[2].x + first;
            for (int64_t k = 0; k < (row < 0 ? 0 : lo); k++)
                columns[k] = 0;
            for (int64_t k = lo; k < end; k++)
                columns[k] = from[k * w[2].stride];
            for (int64_t k = end; k < w[2].windows; k++)
                columns[k] = 0;
        }
    }
}

static void add_columns(const struct cpu_columns *c, float *plane, const float *columns)
{
    const struct cpu_column *w = c->w;
    int64_t lo, hi;
    for (int64_t e = 0; e < c->elements; e++) {
        int64_t first = e % w[2].kernel * w[2].dilation - w[2].before;
        inside(&w[2], e % w[2].kernel, &lo, &hi);
        for (int64_t r = 0; r < w[0].windows * w[1].windows; r++, columns += w[2].windows) {
            int64_t row = row_at(c, e, r / w[1].windows, r % w[1].windows);
            float *to = plane + row * w[2].x + first;
            for (int64_t k = lo; k < hi && row >= 0; k++)
                to[k * w[2].stride] += columns[k];
        }
    }
}

static enum mg_code run_columns(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    const struct cpu_columns *c = ((const struct cpu_op *)call->p->detail)->data;
    bool add = op->type == MG_OP_COL2IM;
    const struct mg_shape *image = add ? &op->out_shape[0] : &op->in_shape[0];
    int64_t length = c->elements * c->windows;
    if (add)
        memset(call->out[0], 0, (size_t)mg_shape_elements(image) * sizeof(float));
    for (int64_t p = 0; p < image->dim[0] * image->dim[1]; p++)
        if (add)
            add_columns(c, (float *)call->out[0] + p * c->size, (const float *)call->in[0] + p * length);
        else
            mg_cpu_columns_of(c, (const float *)call->in[0] + p * c->size, (float *)call->out[0] + p * length);
    return MG_OK;
}

enum mg_code mg_cpu_columns(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct cpu_columns *c = MG_NEW(&p->arena, struct cpu_columns);
    const struct mg_shape *image = p->op.type == MG_OP_COL2IM ? &p->op.out_shape[0] : &p->op.in_shape[0];
    int64_t kernel[MG_MAX_RANK];
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32 || image->rank > 5)
        return mg_cpu_by_reference(p, op, err);
    for (uint32_t d = 0; d < MG_MAX_RANK; d++)
        kernel[d] = mg_prepared_ints(p, MG_ATTR_KERNEL_SHAPE, d, 1);
    mg_cpu_columns_init(c, p, image, kernel);
    op->data = c;
    op->run = run_columns;
    return MG_OK;
}
