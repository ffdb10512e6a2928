/* Normalisation. Every kind is the same computation over another grouping: a value belongs to a group, which
 * has a mean and a reciprocal deviation, and to a parameter, which has scale and shift. The gradients are
 *     t = dy * scale,  xh = (x - mean) rstd,  dx = rstd (t - avg(t) - xh avg(t xh)),
 *     dscale = sum dy xh,  dshift = sum dy,
 * with averages over the group (rms_norm: mean = 0 and no avg(t) term). */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

struct norm {
    int64_t count, groups, params;
    int64_t (*group_of)(const struct norm *n, int64_t i);
    int64_t (*param_of)(const struct norm *n, int64_t i);
    int64_t row;      /* layer norm: elements of a row */
    int64_t channels; /* channel kinds */
    int64_t spatial;  /* elements after the channel dimension */
    int64_t width;    /* channels of a group */
    bool centred;     /* rms_norm: false */
};

static int64_t group_row(const struct norm *n, int64_t i)
{
    return i / n->row;
}

static int64_t param_row(const struct norm *n, int64_t i)
{
    return i % n->row;
}

static int64_t channel_of(const struct norm *n, int64_t i)
{
    return i / n->spatial % n->channels;
}

static int64_t group_sample(const struct norm *n, int64_t i)
{
    return i / (n->spatial * n->width); /* samples and groups together: [n, groups] row-major */
}

static struct norm norm_rows(const struct mg_kernel *k, const struct mg_shape *x, bool centred)
{
    struct norm n = {.count = mg_shape_elements(x), .row = 1, .centred = centred};
    for (int64_t d = mg_kernel_int(k, MG_ATTR_AXIS); d < x->rank; d++)
        n.row *= x->dim[d];
    n.groups = n.count / n.row;
    n.params = n.row;
    n.group_of = group_row;
    n.param_of = param_row;
    return n;
}

/* groups = 0: over the whole batch (batch norm). */
static struct norm norm_channels(const struct mg_shape *x, int64_t groups)
{
    struct norm n = {.count = mg_shape_elements(x), .channels = x->dim[1], .params = x->dim[1], .centred = true};
    n.spatial = 1;
    for (uint32_t d = 2; d < x->rank; d++)
        n.spatial *= x->dim[d];
    n.width = groups ? x->dim[1] / groups : 1;
    n.groups = groups ? x->dim[0] * groups : x->dim[1];
    n.group_of = groups ? group_sample : channel_of;
    n.param_of = channel_of;
    return n;
}

static int64_t group_count(const struct mg_kernel *k, const struct mg_shape *x)
{
    bool instance = k->op->type == MG_OP_INSTANCE_NORM || k->op->type == MG_OP_INSTANCE_NORM_GRAD;
    return instance ? x->dim[1] : mg_kernel_int(k, MG_ATTR_NUM_GROUPS);
}

/* Elements of one group. */
static double group_size(const struct norm *n)
{
    int64_t size = n->groups ? n->count / n->groups : 0;
    return (double)size;
}

static void statistics(const struct norm *n, const double *x, double epsilon, double *mean, double *rstd)
{
    double size = group_size(n);
    for (int64_t i = 0; i < n->count && n->centred; i++)
        mean[n->group_of(n, i)] += x[i] / size;
    for (int64_t i = 0; i < n->count; i++) {
        double d = x[i] - (n->centred ? mean[n->group_of(n, i)] : 0);
        rstd[n->group_of(n, i)] += d * d / size;
    }
    for (int64_t g = 0; g < n->groups; g++)
        rstd[g] = 1 / sqrt(rstd[g] + epsilon);
}

static void apply(const struct norm *n, const double *x, const double *mean, const double *rstd, const double *scale,
                  const double *shift, double *y)
{
    for (int64_t i = 0; i < n->count; i++) {
        int64_t g = n->group_of(n, i), p = n->param_of(n, i);
        double xh = (x[i] - (mean ? mean[g] : 0)) * rstd[g];
        y[i] = xh * (scale ? scale[p] : 1) + (shift ? shift[p] : 0);
    }
}

static const double *optional(const struct mg_kernel *k, uint32_t operand)
{
    return operand < k->op->in_count ? k->in[operand] : NULL;
}

/* y, mean, rstd from x[, scale, shift] */
static enum mg_code forward(const struct mg_kernel *k, const struct norm *n)
{
    statistics(n, k->in[0], mg_kernel_float(k, MG_ATTR_EPSILON), k->out[1], k->out[2]);
    apply(n, k->in[0], k->out[1], k->out[2], optional(k, 1), optional(k, 2), k->out[0]);
    return MG_OK;
}

/* dx[, dscale[, dshift]] */
static enum mg_code backward(const struct mg_kernel *k, const struct norm *n, const double *mean, const double *rstd,
                             const double *scale)
{
    const double *dy = k->in[0], *x = k->in[1];
    double *sum = MG_NEW_ARRAY(k->scratch, double, n->groups), *product = MG_NEW_ARRAY(k->scratch, double, n->groups);
    double *xh = MG_NEW_ARRAY(k->scratch, double, n->count), size = group_size(n);
    apply(n, x, mean, rstd, NULL, NULL, xh);
    for (int64_t i = 0; i < n->count; i++) {
        int64_t g = n->group_of(n, i), p = n->param_of(n, i);
        double t = dy[i] * (scale ? scale[p] : 1);
        sum[g] += n->centred ? t / size : 0;
        product[g] += t * xh[i] / size;
        if (k->op->out_count > 1)
            k->out[1][p] += dy[i] * xh[i];
        if (k->op->out_count > 2)
            k->out[2][p] += dy[i];
    }
    for (int64_t i = 0; i < n->count; i++) {
        int64_t g = n->group_of(n, i);
        double t = dy[i] * (scale ? scale[n->param_of(n, i)] : 1);
        k->out[0][i] = rstd[g] * (t - sum[g] - xh[i] * product[g]);
    }
    return MG_OK;
}

enum mg_code kernel_layer_norm(const struct mg_kernel *k)
{
    struct norm n = norm_rows(k, &k->op->in_shape[0], true);
    return forward(k, &n);
}

enum mg_code kernel_layer_norm_grad(const struct mg_kernel *k)
{
    struct norm n = norm_rows(k, &k->op->in_shape[1], true);
    return backward(k, &n, k->in[2], k->in[3], optional(k, 4));
}

enum mg_code kernel_rms_norm(const struct mg_kernel *k)
{
    struct norm n = norm_rows(k, &k->op->in_shape[0], false);
    statistics(&n, k->in[0], mg_kernel_float(k, MG_ATTR_EPSILON), NULL, k->out[1]);
    apply(&n, k->in[0], NULL, k->out[1], optional(k, 1), NULL, k->out[0]);
    return MG_OK;
}

enum mg_code kernel_rms_norm_grad(const struct mg_kernel *k)
{
    struct norm n = norm_rows(k, &k->op->in_shape[1], false);
    return backward(k, &n, NULL, k->in[2], optional(k, 3));
}

enum mg_code kernel_batch_norm(const struct mg_kernel *k)
{
    struct norm n = norm_channels(&k->op->in_shape[0], 0);
    return forward(k, &n);
}

enum mg_code kernel_batch_norm_grad(const struct mg_kernel *k)
{
    struct norm n = norm_channels(&k->op->in_shape[1], 0);
    return backward(k, &n, k->in[2], k->in[3], optional(k, 4));
}

enum mg_code kernel_bn_apply(const struct mg_kernel *k)
{
    struct norm n = norm_channels(&k->op->in_shape[0], 0);
    apply(&n, k->in[0], k->in[1], k->in[2], optional(k, 3), optional(k, 4), k->out[0]);
    return MG_OK;
}

enum mg_code kernel_batch_norm_inference(const struct mg_kernel *k)
{
    struct norm n = norm_channels(&k->op->in_shape[0], 0);
    double *rstd = MG_NEW_ARRAY(k->scratch, double, n.groups);
    for (int64_t g = 0; g < n.groups; g++)
        rstd[g] = 1 / sqrt(k->in[4][g] + mg_kernel_float(k, MG_ATTR_EPSILON));
    apply(&n, k->in[0], k->in[3], rstd, k->in[1], k->in[2], k->out[0]);
    return MG_OK;
}

enum mg_code kernel_group_norm(const struct mg_kernel *k)
{
    struct norm n = norm_channels(&k->op->in_shape[0], group_count(k, &k->op->in_shape[0]));
    return forward(k, &n);
}

enum mg_code kernel_group_norm_grad(const struct mg_kernel *k)
{
    struct norm n = norm_channels(&k->op->in_shape[1], group_count(k, &k->op->in_shape[1]));
    return backward(k, &n, k->in[2], k->in[3], optional(k, 4));
}

enum mg_code kernel_stat_update(const struct mg_kernel *k)
{
    double momentum = mg_kernel_float(k, MG_ATTR_MOMENTUM), count = (double)mg_kernel_int(k, MG_ATTR_ELEMENTS);
    for (int64_t c = 0; c < mg_kernel_out_count(k, 0); c++) {
        double s = k->in[1][c];
        if (mg_kernel_int(k, MG_ATTR_VARIANCE))
            s = (1 / (s * s) - mg_kernel_float(k, MG_ATTR_EPSILON)) * count / (count - 1);
        k->out[0][c] = (1 - momentum) * k->in[0][c] + momentum * s;
    }
    return MG_OK;
}

/* ---- over neighbouring channels ---- */

struct neighbours {
    int64_t planes, channels, inner, size; /* [planes, channels, inner] */
    double alpha, beta, bias;
};

static struct neighbours neighbours_of(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    struct neighbours n = {.planes = x->dim[0], .channels = x->dim[1], .size = mg_kernel_int(k, MG_ATTR_SIZE)};
    n.inner = mg_shape_elements(x) / (n.planes * n.channels);
    n.alpha = mg_kernel_float(k, MG_ATTR_ALPHA);
    n.beta = mg_kernel_float(k, MG_ATTR_BETA);
    n.bias = mg_kernel_float(k, MG_ATTR_BIAS);
    return n;
}

/* Does the window of channel c hold channel i? It reaches one further up where its size is even. */
static bool in_window(const struct neighbours *n, int64_t c, int64_t i)
{
    return i >= c - (n->size - 1) / 2 && i <= c + n->size / 2;
}

/* What channel c at flat position `at` is divided by, before its power. */
static double local_scale(const struct neighbours *n, const double *x, int64_t at)
{
    int64_t c = at / n->inner % n->channels;
    double sum = 0;
    for (int64_t i = 0; i < n->channels; i++) {
        double value = x[at + (i - c) * n->inner];
        sum += in_window(n, c, i) ? value * value : 0;
    }
    return n->bias + n->alpha / (double)n->size * sum;
}

enum mg_code kernel_lrn(const struct mg_kernel *k)
{
    struct neighbours n = neighbours_of(k);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = k->in[0][i] * pow(local_scale(&n, k->in[0], i), -n.beta);
    return MG_OK;
}

/* dx_i = dy_i s_i^-beta - 2 alpha beta / size x_i (sum over windows c that hold i: dy_c x_c s_c^(-beta - 1)) */
enum mg_code kernel_lrn_grad(const struct mg_kernel *k)
{
    struct neighbours n = neighbours_of(k);
    const double *dy = k->in[0], *x = k->in[1];
    for (int64_t at = 0; at < mg_kernel_out_count(k, 0); at++) {
        int64_t own = at / n.inner % n.channels;
        double sum = 0;
        for (int64_t c = 0; c < n.channels; c++) {
            int64_t there = at + (c - own) * n.inner;
            if (in_window(&n, c, own))
                sum += dy[there] * x[there] * pow(local_scale(&n, x, there), -n.beta - 1);
        }
        k->out[0][at] =
            dy[at] * pow(local_scale(&n, x, at), -n.beta) - 2 * n.alpha * n.beta / (double)n.size * x[at] * sum;
    }
    return MG_OK;
}

/* ---- over listed axes ---- */

/* Number of the group of elements that are normalised together, among those of `index`. */
static int64_t group_at(const struct mg_kernel *k, const int64_t *index)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    int64_t at = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        bool listed = false;
        for (uint32_t i = 0; i < x->rank; i++)
            listed = listed || mg_kernel_ints(k, MG_ATTR_AXES, i, -1) == d;
        at = listed ? at : at * x->dim[d] + index[d];
    }
    return at;
}

enum mg_code kernel_mean_variance_norm(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    int64_t count = mg_shape_elements(x), index[MG_MAX_RANK] = {0};
    double *mean = MG_NEW_ARRAY(k->scratch, double, count), *square = MG_NEW_ARRAY(k->scratch, double, count);
    double *size = MG_NEW_ARRAY(k->scratch, double, count);
    for (int64_t i = 0; i < count; i++, mg_walk_next(x, index)) {
        mean[group_at(k, index)] += k->in[0][i];
        size[group_at(k, index)] += 1;
    }
    for (int64_t g = 0; g < count && size[g] > 0; g++)
        mean[g] /= size[g];
    for (int64_t i = 0; i < count; i++, mg_walk_next(x, index)) {
        int64_t g = group_at(k, index);
        square[g] += (k->in[0][i] - mean[g]) * (k->in[0][i] - mean[g]) / size[g];
    }
    for (int64_t i = 0; i < count; i++, mg_walk_next(x, index)) {
        int64_t g = group_at(k, index);
        k->out[0][i] = (k->in[0][i] - mean[g]) / (sqrt(square[g]) + mg_kernel_float(k, MG_ATTR_EPSILON));
    }
    return MG_OK;
}
