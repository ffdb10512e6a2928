/* Scaled dot-product attention with its gradient, and the recurrent layers (ONNX semantics).
 * q, k, v are [b..., heads, seq, dim]; several query heads may share one key head. Causal: query i sees
 * keys up to i. lse is the logarithm of each row's sum of exponentials, from which the gradient rebuilds
 * the probabilities. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

struct attention {
    int64_t heads, shared; /* all query heads of the batch; query heads per key head */
    int64_t queries, keys, dim, value_dim;
    struct mg_shape scores; /* [b..., heads, queries, keys], for the mask */
    const struct mg_shape *mask_shape;
    const double *q, *k, *v, *mask;
    double scale;
    bool causal;
};

static void attention_init(struct attention *a, const struct mg_kernel *k, uint32_t first, uint32_t mask)
{
    const struct mg_shape *q = &k->op->in_shape[first], *key = q + 1, *v = q + 2;
    uint32_t r = q->rank;
    *a = (struct attention){.heads = 1, .queries = q->dim[r - 2], .keys = key->dim[r - 2], .dim = q->dim[r - 1]};
    for (uint32_t d = 0; d + 2 < r; d++)
        a->heads *= q->dim[d];
    a->shared = q->dim[r - 3] / key->dim[r - 3];
    a->value_dim = v->dim[r - 1];
    a->scores = *q;
    a->scores.dim[r - 1] = a->keys;
    a->q = k->in[first];
    a->k = k->in[first + 1];
    a->v = k->in[first + 2];
    if (mask < k->op->in_count) {
        a->mask = k->in[mask];
        a->mask_shape = &k->op->in_shape[mask];
    }
    a->scale = mg_kernel_float(k, MG_ATTR_SCALE);
    a->causal = mg_kernel_int(k, MG_ATTR_CAUSAL);
}

static double mask_at(const struct attention *a, int64_t head, int64_t i, int64_t j)
{
    int64_t index[MG_MAX_RANK];
    uint32_t r = a->scores.rank;
    if (!a->mask)
        return 0;
    index[r - 1] = j;
    index[r - 2] = i;
    for (uint32_t d = r - 2; d-- > 0; head /= a->scores.dim[d])
        index[d] = head % a->scores.dim[d];
    return a->mask[mg_broadcast_at(a->mask_shape, index, r)];
}

static double score(const struct attention *a, int64_t head, int64_t i, int64_t j)
{
    const double *q = a->q + (head * a->queries + i) * a->dim;
    const double *k = a->k + (head / a->shared * a->keys + j) * a->dim;
    double sum = 0;
    if (a->causal && j > i)
        return -INFINITY;
    for (int64_t d = 0; d < a->dim; d++)
        sum += q[d] * k[d];
    return a->scale * sum + mask_at(a, head, i, j);
}

/* Scores of one row, less the largest of them; returns the logarithm of the sum of their exponentials. */
static double score_row(const struct attention *a, int64_t head, int64_t i, double *row, double *largest_score)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->keys; j++) {
        row[j] = score(a, head, i, j);
        largest = row[j] > largest ? row[j] : largest;
    }
    for (int64_t j = 0; j < a->keys; j++) {
        row[j] -= largest;
        sum += exp(row[j]);
    }
    *largest_score = largest;
    /* cppcheck-suppress invalidFunctionArg ; minus infinity where the row is empty */
    return log(sum);
}

enum mg_code kernel_attention(const struct mg_kernel *k)
{
    struct attention a;
    attention_init(&a, k, 0, 3);
    double *row = MG_NEW_ARRAY(k->scratch, double, a.keys);
    for (int64_t r = 0; r < a.heads * a.queries; r++) {
        int64_t head = r / a.queries;
        double largest, norm = score_row(&a, head, r % a.queries, row, &largest);
        k->out[1][r] = largest + norm;
        for (int64_t j = 0; j < a.keys; j++)
            for (int64_t d = 0; d < a.value_dim; d++)
                k->out[0][r * a.value_dim + d] +=
                    exp(row[j] - norm) * a.v[(head / a.shared * a.keys + j) * a.value_dim + d];
    }
    return MG_OK;
}

/* What to take from scores that are less their largest. Where the keys are all of the row, its lse is theirs, and the
 * norm, which a huge logit has swallowed in lse, is at hand; where they are a part of them, only lse knows the rest. */
static double shift_of(double largest, double norm, double lse)
{
    return largest + norm == lse ? norm : lse - largest;
}

/* Gradients of one row: p = exp(s - lse), dp = dy v^T, ds = p (dp - dy . y). */
static void attention_row_grad(const struct attention *a, const struct mg_kernel *k, int64_t r, double *row)
{
    int64_t head = r / a->queries, key_head = head / a->shared;
    const double *dy = k->in[0] + r * a->value_dim, *y = k->in[4] + r * a->value_dim;
    double dot = 0, largest, norm = score_row(a, head, r % a->queries, row, &largest);
    double shift = shift_of(largest, norm, k->in[5][r]);
    for (int64_t d = 0; d < a->value_dim; d++)
        dot += dy[d] * y[d];
    for (int64_t j = 0; j < a->keys; j++) {
        int64_t key = key_head * a->keys + j;
        double p = exp(row[j] - shift), dp = 0;
        for (int64_t d = 0; d < a->value_dim; d++) {
            dp += dy[d] * a->v[key * a->value_dim + d];
            k->out[2][key * a->value_dim + d] += p * dy[d];
        }
        double ds = p * (dp - dot) * a->scale;
        for (int64_t d = 0; d < a->dim; d++) {
            k->out[0][r * a->dim + d] += ds * a->k[key * a->dim + d];
            k->out[1][key * a->dim + d] += ds * a->q[r * a->dim + d];
        }
    }
}

enum mg_code kernel_attention_grad(const struct mg_kernel *k)
{
    struct attention a;
    attention_init(&a, k, 1, 6);
    double *row = MG_NEW_ARRAY(k->scratch, double, a.keys);
    for (int64_t r = 0; r < a.heads * a.queries; r++)
        attention_row_grad(&a, k, r, row);
    return MG_OK;
}
