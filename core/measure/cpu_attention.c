/* Scaled dot-product attention and its gradient, one query row at a time, by the formulas of
 * exec/kernel_attention.c. */
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

struct attention {
    int64_t heads, shared, queries, keys, dim, value_dim;
    struct mg_shape scores; /* [b..., heads, queries, keys], for the mask */
    int64_t mask_stride[MG_MAX_RANK];
    uint32_t first, mask; /* operands: q; mask, or MG_NONE */
    float scale;
    bool causal;
    uint64_t row; /* scratch */
};

static struct attention *attention_of(struct mg_prepared *p, uint32_t first, uint32_t mask)
{
    const struct mg_shape *q = &p->op.in_shape[first], *k = q + 1, *v = q + 2;
    struct attention *a = MG_NEW(&p->arena, struct attention);
    uint32_t r = q->rank;
    *a = (struct attention){.heads = 1, .queries = q->dim[r - 2], .keys = k->dim[r - 2], .dim = q->dim[r - 1]};
    for (uint32_t d = 0; d + 2 < r; d++)
        a->heads *= q->dim[d];
    a->shared = q->dim[r - 3] / k->dim[r - 3];
    a->value_dim = v->dim[r - 1];
    a->scores = *q;
    a->scores.dim[r - 1] = a->keys;
    a->first = first;
    a->mask = mask < p->op.in_count ? mask : MG_NONE;
    if (a->mask != MG_NONE) {
        struct mg_strides dense;
        mg_shape_strides(&p->op.in_shape[mask], dense.at);
        mg_cpu_broadcast(&p->op.in_shape[mask], &dense, &a->scores, a->mask_stride);
    }
    a->scale = (float)mg_prepared_float(p, MG_ATTR_SCALE);
    a->causal = mg_prepared_int(p, MG_ATTR_CAUSAL);
    a->row = mg_cpu_reserve(p, (uint64_t)a->keys * sizeof(float));
    return a;
}

MG_WIDE static float dot(const float *x, const float *y, int64_t n)
{
    float lane[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int64_t k = 0; k < 16; k++)
            lane[k] += x[i + k] * y[i + k];
    for (; i < n; i++)
        lane[0] += x[i] * y[i];
    for (int64_t k = 0; k < 16; k++)
        sum += lane[k];
    return sum;
}

MG_WIDE static void add_scaled(float *to, float scale, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += scale * x[i];
}

static const float *mask_row(const struct attention *a, const struct cpu_call *call, int64_t head, int64_t i)
{
    uint32_t r = a->scores.rank;
    const float *mask = (const float *)call->in[a->mask] + i * a->mask_stride[r - 2];
    for (uint32_t d = r - 2; d-- > 0; head /= a->scores.dim[d])
        mask += head % a->scores.dim[d] * a->mask_stride[d];
    return mask;
}

/* Keys that query i sees. */
static int64_t seen(const struct attention *a, int64_t i)
{
    return a->causal && i + 1 < a->keys ? i + 1 : a->keys;
}

static void score_row(const struct attention *a, const struct cpu_call *call, int64_t head, int64_t i, float *row)
{
    const float *q = (const float *)call->in[a->first] + (head * a->queries + i) * a->dim;
    const float *k = (const float *)call->in[a->first + 1] + head / a->shared * a->keys * a->dim;
    int64_t keys = seen(a, i);
    for (int64_t j = 0; j < keys; j++)
        row[j] = a->scale * dot(q, k + j * a->dim, a->dim);
    if (a->mask == MG_NONE)
        return;
    const float *mask = mask_row(a, call, head, i);
    for (int64_t j = 0; j < keys; j++)
        row[j] += mask[j * a->mask_stride[a->scores.rank - 1]];
}

static float largest_of(const float *row, int64_t n)
{
    float largest = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        largest = row[j] > largest ? row[j] : largest;
    return largest;
}

/* row = exp(row - shift); returns the sum. */
MG_WIDE static float exponentials(float *row, int64_t n, float shift)
{
    float sum = 0;
    for (int64_t j = 0; j < n; j++)
        row[j] = fast_exp(row[j] - shift);
    for (int64_t j = 0; j < n; j++)
        sum += row[j];
    return sum;
}

static enum mg_code run_attention(const struct cpu_call *call)
{
    const struct attention *a = ((const struct cpu_op *)call->p->detail)->data;
    float *row = (float *)(void *)(call->scratch + a->row), *lse = call->out[1];
    for (int64_t r = 0; r < a->heads * a->queries; r++) {
        int64_t head = r / a->queries, keys = seen(a, r % a->queries);
        const float *v = (const float *)call->in[a->first + 2] + head / a->shared * a->keys * a->value_dim;
        float *y = (float *)call->out[0] + r * a->value_dim;
        score_row(a, call, head, r % a->queries, row);
        float largest = largest_of(row, keys), sum = exponentials(row, keys, largest);
        lse[r] = largest + logf(sum);
        memset(y, 0, (size_t)a->value_dim * sizeof *y);
        for (int64_t j = 0; j < keys; j++)
            add_scaled(y, row[j] / sum, v + j * a->value_dim, a->value_dim);
    }
    return MG_OK;
}

/* row = the probabilities of its scores. In lse a huge score has swallowed the logarithm of the sum: where the keys are
 * all of the row, their own sum is taken; where they are a part of them, only lse knows the rest. */
static void probabilities(float *row, int64_t keys, float lse)
{
    float largest = largest_of(row, keys), sum = exponentials(row, keys, largest);
    float share = largest + logf(sum) == lse ? 1 / sum : fast_exp(largest - lse);
    for (int64_t j = 0; j < keys; j++)
        row[j] *= share;
}

static void row_grad(const struct attention *a, const struct cpu_call *call, int64_t r, float *row)
{
    int64_t head = r / a->queries, key_head = head / a->shared * a->keys, keys = seen(a, r % a->queries);
    const float *dy = (const float *)call->in[0] + r * a->value_dim, *y = (const float *)call->in[4] + r * a->value_dim;
    const float *k = (const float *)call->in[2] + key_head * a->dim;
    const float *v = (const float *)call->in[3] + key_head * a->value_dim;
    const float *q = (const float *)call->in[1] + r * a->dim;
    float *dq = (float *)call->out[0] + r * a->dim, *dk = (float *)call->out[1] + key_head * a->dim;
    float *dv = (float *)call->out[2] + key_head * a->value_dim, along = dot(dy, y, a->value_dim);
    score_row(a, call, head, r % a->queries, row);
    probabilities(row, keys, ((const float *)call->in[5])[r]);
    for (int64_t j = 0; j < keys; j++) {
        float p = row[j], ds = p * (dot(dy, v + j * a->value_dim, a->value_dim) - along) * a->scale;
        add_scaled(dv + j * a->value_dim, p, dy, a->value_dim);
        add_scaled(dq, ds, k + j * a->dim, a->dim);
        add_scaled(dk + j * a->dim, ds, q, a->dim);
    }
}

static enum mg_code run_attention_grad(const struct cpu_call *call)
{
    const struct attention *a = ((const struct cpu_op *)call->p->detail)->data;
    for (uint32_t i = 0; i < 3; i++)
        memset(call->out[i], 0, (size_t)mg_shape_elements(&call->p->op.out_shape[i]) * sizeof(float));
    for (int64_t r = 0; r < a->heads * a->queries; r++)
        row_grad(a, call, r, (float *)(void *)(call->scratch + a->row));
    return MG_OK;
}

/* A mask of booleans says who is seen: left to the reference executor. */
enum mg_code mg_cpu_attention(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    bool gradient = p->op.type == MG_OP_ATTENTION_GRAD;
    uint32_t mask = gradient ? 6 : 3;
    if (mask < p->op.in_count && mg_cpu_native(p->op.in_dtype[mask]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    op->data = attention_of(p, gradient ? 1 : 0, mask);
    op->run = gradient ? run_attention_grad : run_attention;
    return MG_OK;
}
