/* Normalisation, by the formulas at the head of exec/kernel_norm.c. Elements of one group lie in `blocks` runs of
 * `run` elements, `gap` apart; scale and shift belong to the place in a run (rows) or to a channel (its runs). */
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

struct norm {
    bool rows, centred;
    int64_t groups, blocks, gap, run;
    int64_t step;     /* between the first elements of neighbouring groups */
    int64_t channels; /* not rows: channels of a group; `run` is the elements of one */
    int64_t cycle;    /* not rows: groups of one sample: parameters begin anew after as many */
    double epsilon;
};

static struct norm *norm_rows(struct mg_prepared *p, const struct mg_shape *x, bool centred)
{
    struct norm *n = MG_NEW(&p->arena, struct norm);
    *n = (struct norm){.rows = true, .centred = centred, .blocks = 1, .run = 1, .channels = 1, .cycle = 1};
    for (int64_t d = mg_prepared_int(p, MG_ATTR_AXIS); d < x->rank; d++)
        n->run *= x->dim[d];
    n->groups = n->run ? mg_shape_elements(x) / n->run : 0;
    n->gap = n->step = n->run;
    n->epsilon = mg_prepared_float(p, MG_ATTR_EPSILON);
    return n;
}

/* groups of a sample; 0: one group for each channel of the whole batch. */
static struct norm *norm_channels(struct mg_prepared *p, const struct mg_shape *x, int64_t groups)
{
    struct norm *n = MG_NEW(&p->arena, struct norm);
    int64_t spatial = 1, channels = x->dim[1];
    for (uint32_t d = 2; d < x->rank; d++)
        spatial *= x->dim[d];
    *n = (struct norm){.centred = true, .run = spatial, .epsilon = mg_prepared_float(p, MG_ATTR_EPSILON)};
    n->channels = groups ? channels / groups : 1;
    n->groups = groups ? x->dim[0] * groups : channels;
    n->cycle = groups ? groups : channels;
    n->blocks = groups ? n->channels : x->dim[0];
    n->gap = groups ? spatial : channels * spatial;
    n->step = n->channels * spatial;
    return n;
}

static int64_t group_count(const struct mg_prepared *p, const struct mg_shape *x)
{
    bool instance = p->op.type == MG_OP_INSTANCE_NORM || p->op.type == MG_OP_INSTANCE_NORM_GRAD;
    return instance ? x->dim[1] : mg_prepared_int(p, MG_ATTR_NUM_GROUPS);
}

/* ---- runs ---- */

MG_WIDE static float run_sum(const float *x, int64_t n)
{
    float lane[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int64_t k = 0; k < 16; k++)
            lane[k] += x[i + k];
    for (; i < n; i++)
        lane[0] += x[i];
    for (int64_t k = 0; k < 16; k++)
        sum += lane[k];
    return sum;
}

/* The sum of (x - a) (y - b). */
MG_WIDE static float run_product(const float *x, float a, const float *y, float b, int64_t n)
{
    float lane[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int64_t k = 0; k < 16; k++)
            lane[k] += (x[i + k] - a) * (y[i + k] - b);
    for (; i < n; i++)
        lane[0] += (x[i] - a) * (y[i] - b);
    for (int64_t k = 0; k < 16; k++)
        sum += lane[k];
    return sum;
}

MG_WIDE static void run_affine(float *y, const float *x, int64_t n, float scale, float shift)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * scale + shift;
}

/* y = (x scale + shift) a + b, by place. */
MG_WIDE static void run_place(float *y, const float *x, int64_t n, float scale, float shift, const float *a,
                              const float *b)
{
    if (a && b)
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] * scale + shift) * a[i] + b[i];
    else if (a)
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] * scale + shift) * a[i];
    else
        run_affine(y, x, n, scale, shift);
}

/* ---- forward ---- */

static void statistics(const struct norm *n, const float *x, int64_t group, float *mean, float *rstd)
{
    double size = (double)(n->blocks * n->run), sum = 0, square = 0;
    const float *begin = x + group * n->step;
    for (int64_t b = 0; b < n->blocks && n->centred; b++)
        sum += (double)run_sum(begin + b * n->gap, n->run);
    *mean = (float)(sum / size);
    for (int64_t b = 0; b < n->blocks; b++)
        square += (double)run_product(begin + b * n->gap, *mean, begin + b * n->gap, *mean, n->run);
    *rstd = (float)(1 / sqrt(square / size + n->epsilon));
}

static void apply(const struct norm *n, const float *x, int64_t group, float mean, float rstd, const float *scale,
                  const float *shift, float *y)
{
    for (int64_t b = 0; b < n->blocks; b++) {
        int64_t at = group * n->step + b * n->gap;
        if (n->rows) {
            run_place(y + at, x + at, n->run, rstd, -mean * rstd, scale, shift);
            continue;
        }
        int64_t channel = group % n->cycle * n->channels + (n->channels > 1 ? b : 0);
        float a = scale ? scale[channel] * rstd : rstd;
        run_affine(y + at, x + at, n->run, a, (shift ? shift[channel] : 0) - mean * a);
    }
}

static const float *operand(const struct cpu_call *call, uint32_t i)
{
    return i < call->p->op.in_count ? call->in[i] : NULL;
}

/* y, mean, rstd from x[, scale, shift]; rms_norm: y, rstd from x[, scale]. */
static enum mg_code run_forward(const struct cpu_call *call)
{
    const struct norm *n = ((const struct cpu_op *)call->p->detail)->data;
    const float *x = call->in[0], *shift = n->centred ? operand(call, 2) : NULL;
    float *means = n->centred ? call->out[1] : NULL, *rstds = call->out[n->centred ? 2 : 1];
    for (int64_t g = 0; g < n->groups; g++) {
        float mean;
        statistics(n, x, g, &mean, &rstds[g]);
        if (means)
            means[g] = mean;
        apply(n, x, g, mean, rstds[g], operand(call, 1), shift, call->out[0]);
    }
    return MG_OK;
}

static enum mg_code run_apply(const struct cpu_call *call)
{
    const struct norm *n = ((const struct cpu_op *)call->p->detail)->data;
    const float *mean = call->in[1], *rstd = call->in[2];
    for (int64_t g = 0; g < n->groups; g++)
        apply(n, call->in[0], g, mean[g], rstd[g], operand(call, 3), operand(call, 4), call->out[0]);
    return MG_OK;
}

static enum mg_code run_inference(const struct cpu_call *call)
{
    const struct norm *n = ((const struct cpu_op *)call->p->detail)->data;
    const float *mean = call->in[3], *variance = call->in[4];
    for (int64_t g = 0; g < n->groups; g++) {
        float rstd = (float)(1 / sqrt((double)variance[g] + n->epsilon));
        apply(n, call->in[0], g, mean[g], rstd, call->in[1], call->in[2], call->out[0]);
    }
    return MG_OK;
}

/* ---- backward ---- */

struct backward {
    const float *dy, *x, *rstd, *scale;
    float *dx, *dscale, *dshift; /* the last two may be NULL */
};

/* A row's share of the parameters' gradients, and the sums of t and of t xh, t = dy scale. */
MG_WIDE static void row_sums(const struct backward *b, int64_t at, int64_t n, float mean, float rstd, float *t_sum,
                             float *product)
{
    float lane[8] = {0}, more[8] = {0};
    const float *dy = b->dy + at, *x = b->x + at, *scale = b->scale;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t k = 0; k < 8; k++) {
            float t = scale ? dy[i + k] * scale[i + k] : dy[i + k];
            lane[k] += t;
            more[k] += t * (x[i + k] - mean) * rstd;
        }
    for (; i < n; i++) {
        float t = scale ? dy[i] * scale[i] : dy[i];
        lane[0] += t;
        more[0] += t * (x[i] - mean) * rstd;
    }
    for (int64_t k = 0; k < 8; k++) {
        *t_sum += lane[k];
        *product += more[k];
    }
    for (i = 0; i < n && b->dscale; i++)
        b->dscale[i] += dy[i] * (x[i] - mean) * rstd;
    for (i = 0; i < n && b->dshift; i++)
        b->dshift[i] += dy[i];
}

MG_WIDE static void row_grad(const struct backward *b, int64_t at, int64_t n, float mean, float rstd, float t_mean,
                             float p_mean)
{
    const float *dy = b->dy + at, *x = b->x + at, *scale = b->scale;
    float *dx = b->dx + at;
    if (scale)
        for (int64_t i = 0; i < n; i++)
            dx[i] = rstd * (dy[i] * scale[i] - t_mean - (x[i] - mean) * rstd * p_mean);
    else
        for (int64_t i = 0; i < n; i++)
            dx[i] = rstd * (dy[i] - t_mean - (x[i] - mean) * rstd * p_mean);
}

static void backward_row(const struct norm *n, const struct backward *b, int64_t group, float mean)
{
    float rstd = b->rstd[group], t = 0, product = 0;
    int64_t at = group * n->step;
    row_sums(b, at, n->run, mean, rstd, &t, &product);
    row_grad(b, at, n->run, mean, rstd, n->centred ? t / (float)n->run : 0, product / (float)n->run);
}

/* dx = a dy + c x + d for a run of one channel. */
MG_WIDE static void channel_grad(float *dx, const float *dy, const float *x, int64_t n, float a, float c, float d)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * a + x[i] * c + d;
}

static void backward_channels(const struct norm *n, const struct backward *b, int64_t group, float mean)
{
    float rstd = b->rstd[group];
    double t = 0, product = 0, size = (double)(n->blocks * n->run);
    int64_t first = group % n->cycle * n->channels;
    for (int64_t k = 0; k < n->blocks; k++) {
        int64_t at = group * n->step + k * n->gap, channel = first + (n->channels > 1 ? k : 0);
        double sum = (double)run_sum(b->dy + at, n->run), scale = b->scale ? (double)b->scale[channel] : 1;
        double dot = (double)(run_product(b->dy + at, 0, b->x + at, mean, n->run) * rstd);
        t += sum * scale;
        product += dot * scale;
        if (b->dscale)
            b->dscale[channel] += (float)dot;
        if (b->dshift)
            b->dshift[channel] += (float)sum;
    }
    float t_mean = (float)(t / size), p_mean = (float)(product / size);
    for (int64_t k = 0; k < n->blocks; k++) {
        int64_t at = group * n->step + k * n->gap, channel = first + (n->channels > 1 ? k : 0);
        float a = rstd * (b->scale ? b->scale[channel] : 1), c = -rstd * rstd * p_mean;
        channel_grad(b->dx + at, b->dy + at, b->x + at, n->run, a, c, -rstd * t_mean - c * mean);
    }
}

static enum mg_code run_backward(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct norm *n = ((const struct cpu_op *)p->detail)->data;
    uint32_t at = n->centred ? 3 : 2;
    const float *mean = n->centred ? call->in[2] : NULL;
    struct backward b = {.dy = call->in[0], .x = call->in[1], .rstd = call->in[at], .scale = operand(call, at + 1)};
    b.dx = call->out[0];
    b.dscale = p->op.out_count > 1 ? call->out[1] : NULL;
    b.dshift = p->op.out_count > 2 ? call->out[2] : NULL;
    for (uint32_t i = 1; i < p->op.out_count; i++)
        memset(call->out[i], 0, (size_t)mg_shape_elements(&p->op.out_shape[i]) * sizeof(float));
    for (int64_t g = 0; g < n->groups; g++)
        (n->rows ? backward_row : backward_channels)(n, &b, g, mean ? mean[g] : 0);
    return MG_OK;
}

static enum mg_code run_stat_update(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    double momentum = mg_prepared_float(p, MG_ATTR_MOMENTUM), count = (double)mg_prepared_int(p, MG_ATTR_ELEMENTS);
    double epsilon = mg_prepared_float(p, MG_ATTR_EPSILON);
    bool variance = mg_prepared_int(p, MG_ATTR_VARIANCE);
    const float *old = call->in[0], *statistic = call->in[1];
    float *new = call->out[0];
    for (int64_t c = 0; c < mg_shape_elements(&p->op.out_shape[0]); c++) {
        double s = (double)statistic[c];
        s = variance ? (1 / (s * s) - epsilon) * count / (count - 1) : s;
        new[c] = (float)((1 - momentum) * (double)old[c] + momentum * s);
    }
    return MG_OK;
}

/* ---- preparing ---- */

static enum mg_code prepared(struct cpu_op *op, struct norm *n, cpu_run_fn *run)
{
    op->data = n;
    op->run = run;
    return MG_OK;
}

enum mg_code mg_cpu_norm(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct mg_shape *x = &p->op.in_shape[0]; /* of a gradient: dy, which has x's shape */
    switch (p->op.type) {
    case MG_OP_LAYER_NORM:
    case MG_OP_RMS_NORM:
        return prepared(op, norm_rows(p, x, p->op.type == MG_OP_LAYER_NORM), run_forward);
    case MG_OP_LAYER_NORM_GRAD:
    case MG_OP_RMS_NORM_GRAD:
        return prepared(op, norm_rows(p, x, p->op.type == MG_OP_LAYER_NORM_GRAD), run_backward);
    case MG_OP_BATCH_NORM:
        return prepared(op, norm_channels(p, x, 0), run_forward);
    case MG_OP_BATCH_NORM_GRAD:
        return prepared(op, norm_channels(p, x, 0), run_backward);
    case MG_OP_BN_APPLY:
        return prepared(op, norm_channels(p, x, 0), run_apply);
    case MG_OP_BATCH_NORM_INFERENCE:
        return prepared(op, norm_channels(p, x, 0), run_inference);
    case MG_OP_GROUP_NORM:
    case MG_OP_INSTANCE_NORM:
        return prepared(op, norm_channels(p, x, group_count(p, x)), run_forward);
    case MG_OP_GROUP_NORM_GRAD:
    case MG_OP_INSTANCE_NORM_GRAD:
        return prepared(op, norm_channels(p, x, group_count(p, x)), run_backward);
    case MG_OP_STAT_UPDATE:
        return prepared(op, NULL, run_stat_update);
    default:
        return mg_cpu_by_reference(p, op, err);
    }
}
