/* Convolutions and their gradients. The inputs that a range of output positions reads are gathered into columns, one
 * row for each channel and kernel position; then the convolution and both gradients are one matrix product each, with
 * another factor as target. */
#include <string.h>

#include "exec/kernels.h"

enum { COLUMN_ELEMENTS = 1 << 17 }; /* of columns, about: what a cache holds */

enum conv_target { CONV_Y, CONV_X, CONV_W };

struct conv {
    int64_t n, group, f, c;  /* samples, groups, output and input channels per group */
    struct mg_shape x, y, w; /* spatial sizes only: input, output, kernel */
    int64_t stride[MG_MAX_RANK], pad[MG_MAX_RANK], dilation[MG_MAX_RANK];
    enum conv_target target; /* which of the three is summed into */
    double *px, *py, *pw;
    int64_t size_x, size_y, size_w; /* elements of a plane */
    /* The output positions [first, first + count) are worked at. */
    int64_t first, count;
    int64_t *at;     /* [kernel position][position]: the element of a plane of x, or -1 in the padding */
    double *columns; /* [channel, kernel position][position] */
};

static struct mg_shape spatial_of(const struct mg_shape *shape)
{
    struct mg_shape spatial = {.rank = shape->rank - 2};
    memcpy(spatial.dim, shape->dim + 2, spatial.rank * sizeof spatial.dim[0]);
    return spatial;
}

static void conv_init(struct conv *conv, const struct mg_kernel *k, const struct mg_shape *x, const struct mg_shape *w,
                      const struct mg_shape *y)
{
    *conv = (struct conv){.n = x->dim[0], .group = mg_kernel_int(k, MG_ATTR_GROUP)};
    conv->f = y->dim[1] / conv->group;
    conv->c = x->dim[1] / conv->group;
    conv->x = spatial_of(x);
    conv->y = spatial_of(y);
    conv->w = spatial_of(w);
    conv->size_x = mg_shape_elements(&conv->x);
    conv->size_y = mg_shape_elements(&conv->y);
    conv->size_w = mg_shape_elements(&conv->w);
    for (uint32_t d = 0; d < conv->x.rank; d++) {
        conv->stride[d] = mg_kernel_ints(k, MG_ATTR_STRIDES, d, 1);
        conv->pad[d] = mg_kernel_ints(k, MG_ATTR_PADS, d, 0);
        conv->dilation[d] = mg_kernel_ints(k, MG_ATTR_DILATIONS, d, 1);
    }
}

/* The element of a plane of x that output position y reads at kernel position w, or -1 in the padding. */
static int64_t conv_position(const struct conv *conv, const int64_t *y, const int64_t *w)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < conv->x.rank; d++) {
        int64_t x = y[d] * conv->stride[d] + w[d] * conv->dilation[d] - conv->pad[d];
        if (x < 0 || x >= conv->x.dim[d])
            return -1;
        at = at * conv->x.dim[d] + x;
    }
    return at;
}

/* Moves to the next range of output positions; y is where it begins, then where it ends. */
static void conv_locate(struct conv *conv, int64_t *y)
{
    for (int64_t p = 0; p < conv->count; p++, mg_walk_next(&conv->y, y)) {
        int64_t w[MG_MAX_RANK] = {0};
        for (int64_t j = 0; j < conv->size_w; j++, mg_walk_next(&conv->w, w))
            conv->at[j * conv->count + p] = conv_position(conv, y, w);
    }
}

static void gather_columns(const struct conv *conv, const double *x)
{
    double *column = conv->columns;
    for (int64_t c = 0; c < conv->c; c++, x += conv->size_x)
        for (int64_t i = 0; i < conv->size_w * conv->count; i++)
            *column++ = conv->at[i] < 0 ? 0 : x[conv->at[i]];
}

static void scatter_columns(const struct conv *conv, double *x)
{
    const double *column = conv->columns;
    for (int64_t c = 0; c < conv->c; c++, x += conv->size_x)
        for (int64_t i = 0; i < conv->size_w * conv->count; i++, column++)
            if (conv->at[i] >= 0)
                x[conv->at[i]] += *column;
}

/* The channels of one group of one sample at the output positions of the range. */
static void conv_group(const struct conv *conv, int64_t n, int64_t g)
{
    double *x = conv->px + (n * conv->group + g) * conv->c * conv->size_x;
    double *y = conv->py + (n * conv->group + g) * conv->f * conv->size_y + conv->first;
    int64_t rows = conv->c * conv->size_w;
    double *w = conv->pw + g * conv->f * rows;
    if (conv->target != CONV_X)
        gather_columns(conv, x);
    switch (conv->target) {
    case CONV_Y: /* y[f, p] += w[f, row] columns[row, p] */
        mg_multiply_add(&(struct mg_product){conv->f, conv->count, rows, rows, 1, conv->count, 1, conv->size_y}, w,
                        conv->columns, y);
        break;
    case CONV_W: /* w[f, row] += y[f, p] columns[row, p] */
        mg_multiply_add(&(struct mg_product){conv->f, rows, conv->count, conv->size_y, 1, 1, conv->count, rows}, y,
                        conv->columns, w);
        break;
    case CONV_X: /* columns[row, p] = w[f, row] y[f, p] */
        memset(conv->columns, 0, (size_t)(rows * conv->count) * sizeof *conv->columns);
        mg_multiply_add(&(struct mg_product){rows, conv->count, conv->f, 1, rows, conv->size_y, 1, conv->count}, w, y,
                        conv->columns);
        scatter_columns(conv, x);
        break;
    }
}

static enum mg_code conv_run(struct conv *conv, struct mg_arena *scratch)
{
    int64_t y[MG_MAX_RANK] = {0}, rows = conv->c * conv->size_w;
    int64_t most = rows < COLUMN_ELEMENTS / 16 ? COLUMN_ELEMENTS / (rows + 1) : 16;
    most = most < conv->size_y ? most : conv->size_y;
    conv->at = MG_NEW_ARRAY(scratch, int64_t, conv->size_w * most);
    conv->columns = MG_NEW_ARRAY(scratch, double, rows *most);
    for (conv->first = 0; conv->first < conv->size_y; conv->first += conv->count) {
        conv->count = conv->size_y - conv->first < most ? conv->size_y - conv->first : most;
        conv_locate(conv, y);
        for (int64_t i = 0; i < conv->n * conv->group; i++)
            conv_group(conv, i / conv->group, i % conv->group);
    }
    return MG_OK;
}

/* Adds operands from 2 on: a bias for each channel, an addend of the result's shape. */
static void add_operands(const struct mg_kernel *k)
{
    const struct mg_shape *y = &k->op->out_shape[0];
    struct mg_shape spatial = spatial_of(y);
    int64_t size = mg_shape_elements(&spatial), count = mg_shape_elements(y);
    for (uint32_t slot = 2; slot < k->op->in_count; slot++)
        for (int64_t i = 0; i < count; i++)
            k->out[0][i] += k->in[slot][k->op->in_shape[slot].rank == 1 ? i / size % y->dim[1] : i];
}

/* Operands are only read unless they are the target, so dropping const is sound. */
static double *writable(const double *data)
{
    union {
        const double *from;
        double *to;
    } cast = {.from = data};
    return cast.to;
}

enum mg_code kernel_conv(const struct mg_kernel *k)
{
    struct conv conv;
    conv_init(&conv, k, &k->op->in_shape[0], &k->op->in_shape[1], &k->op->out_shape[0]);
    conv.target = CONV_Y;
    conv.px = writable(k->in[0]);
    conv.pw = writable(k->in[1]);
    conv.py = k->out[0];
    enum mg_code code = conv_run(&conv, k->scratch);
    add_operands(k);
    return code;
}

enum mg_code kernel_conv_grad_input(const struct mg_kernel *k)
{
    struct conv conv;
    conv_init(&conv, k, &k->op->out_shape[0], &k->op->in_shape[1], &k->op->in_shape[0]);
    conv.target = CONV_X;
    conv.px = k->out[0];
    conv.pw = writable(k->in[1]);
    conv.py = writable(k->in[0]);
    enum mg_code code = conv_run(&conv, k->scratch);
    add_operands(k);
    return code;
}

enum mg_code kernel_conv_transpose(const struct mg_kernel *k)
{
    return kernel_conv_grad_input(k);
}

enum mg_code kernel_conv_grad_weight(const struct mg_kernel *k)
{
    struct conv conv;
    conv_init(&conv, k, &k->op->in_shape[1], &k->op->out_shape[0], &k->op->in_shape[0]);
    conv.target = CONV_W;
    conv.px = writable(k->in[1]);
    conv.pw = k->out[0];
    conv.py = writable(k->in[0]);
    return conv_run(&conv, k->scratch);
}
