/* Matrix products and convolutions. One loop over (sample, output position, kernel position) serves the
 * convolution and both its gradients: they are the same sum of products with another factor as target. */
#include <string.h>

#include "exec/kernels.h"

/* c[m,n] += a b for one batch element; a is [m,k] or [k,m], b is [k,n] or [n,k]. */
struct product {
    int64_t m, n, k;
    bool trans_a, trans_b;
};

static void multiply(const struct product *p, const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t x = 0; x < p->k; x++)
                sum += a[p->trans_a ? x * p->m + i : i * p->k + x] * b[p->trans_b ? j * p->k + x : x * p->n + j];
            c[i * p->n + j] += sum;
        }
}

static struct mg_shape batch_shape(const struct mg_shape *shape)
{
    struct mg_shape batch = *shape;
    batch.rank = shape->rank - 2;
    return batch;
}

static void multiply_batches(const struct mg_kernel *k)
{
    const struct mg_shape *a = &k->op->in_shape[0], *b = &k->op->in_shape[1], *c = &k->op->out_shape[0];
    struct product p = {.trans_a = mg_kernel_int(k, MG_ATTR_TRANS_A), .trans_b = mg_kernel_int(k, MG_ATTR_TRANS_B)};
    p.m = c->dim[c->rank - 2];
    p.n = c->dim[c->rank - 1];
    p.k = a->dim[p.trans_a ? a->rank - 2 : a->rank - 1];
    struct mg_shape batch_a = batch_shape(a), batch_b = batch_shape(b), batch = batch_shape(c);
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(&batch);
    for (int64_t i = 0; i < count; i++) {
        multiply(&p, k->in[0] + mg_broadcast_at(&batch_a, index, batch.rank) * p.m * p.k,
                 k->in[1] + mg_broadcast_at(&batch_b, index, batch.rank) * p.k * p.n, k->out[0] + i * p.m * p.n);
        mg_walk_next(&batch, index);
    }
}

/* matmul and gemm: alpha a b + beta c. */
enum mg_code kernel_gemm(const struct mg_kernel *k)
{
    const struct mg_shape *out = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0};
    double alpha = mg_kernel_float(k, MG_ATTR_ALPHA);
    double beta = k->op->type == MG_OP_GEMM ? mg_kernel_float(k, MG_ATTR_BETA) : 1;
    multiply_batches(k);
    for (int64_t i = 0; i < mg_shape_elements(out); i++) {
        k->out[0][i] *= alpha;
        if (k->op->in_count > 2)
            k->out[0][i] += beta * k->in[2][mg_broadcast_at(&k->op->in_shape[2], index, out->rank)];
        mg_walk_next(out, index);
    }
    return MG_OK;
}

/* ---- convolutions ---- */

enum conv_target { CONV_Y, CONV_X, CONV_W };

struct conv {
    int64_t n, group, f, c;  /* samples, groups, output and input channels per group */
    struct mg_shape x, y, w; /* spatial sizes only: input, output, kernel */
    int64_t stride[MG_MAX_RANK], pad[MG_MAX_RANK], dilation[MG_MAX_RANK];
    enum conv_target target; /* which of the three is summed into */
    double *px, *py, *pw;
};

static struct mg_shape spatial_of(const struct mg_shape *shape)
{
    struct mg_shape spatial = {.rank = shape->rank - 2};
    memcpy(spatial.dim, shape->dim + 2, spatial.rank * sizeof spatial.dim[0]);
    return spatial;
}

static int64_t flat(const struct mg_shape *shape, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < shape->rank; d++)
        at = at * shape->dim[d] + index[d];
    return at;
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
    for (uint32_t d = 0; d < conv->x.rank; d++) {
        conv->stride[d] = mg_kernel_ints(k, MG_ATTR_STRIDES, d, 1);
        conv->pad[d] = mg_kernel_ints(k, MG_ATTR_PADS, d, 0);
        conv->dilation[d] = mg_kernel_ints(k, MG_ATTR_DILATIONS, d, 1);
    }
}

/* The products of all channels at one output and one kernel position. */
static void conv_channels(const struct conv *conv, int64_t n, int64_t at_x, int64_t at_y, int64_t at_w)
{
    int64_t size_x = mg_shape_elements(&conv->x), size_y = mg_shape_elements(&conv->y);
    int64_t size_w = mg_shape_elements(&conv->w);
    for (int64_t gf = 0; gf < conv->group * conv->f; gf++)
        for (int64_t c = 0; c < conv->c; c++) {
            int64_t channel = gf / conv->f * conv->c + c;
            double *x = conv->px + (n * conv->group * conv->c + channel) * size_x + at_x;
            double *y = conv->py + (n * conv->group * conv->f + gf) * size_y + at_y;
            double *w = conv->pw + (gf * conv->c + c) * size_w + at_w;
            if (conv->target == CONV_Y)
                *y += *x * *w;
            else if (conv->target == CONV_X)
                *x += *y * *w;
            else
                *w += *y * *x;
        }
}

static bool conv_position(const struct conv *conv, const int64_t *y, const int64_t *w, int64_t *x)
{
    for (uint32_t d = 0; d < conv->x.rank; d++) {
        x[d] = y[d] * conv->stride[d] + w[d] * conv->dilation[d] - conv->pad[d];
        if (x[d] < 0 || x[d] >= conv->x.dim[d])
            return false;
    }
    return true;
}

static enum mg_code conv_run(const struct conv *conv)
{
    int64_t y[MG_MAX_RANK] = {0}, x[MG_MAX_RANK];
    for (int64_t n = 0; n < conv->n; n++)
        for (int64_t i = 0; i < mg_shape_elements(&conv->y); i++, mg_walk_next(&conv->y, y)) {
            int64_t w[MG_MAX_RANK] = {0};
            for (int64_t j = 0; j < mg_shape_elements(&conv->w); j++, mg_walk_next(&conv->w, w))
                if (conv_position(conv, y, w, x))
                    conv_channels(conv, n, flat(&conv->x, x), i, j);
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
    enum mg_code code = conv_run(&conv);
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
    enum mg_code code = conv_run(&conv);
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
    return conv_run(&conv);
}
