/* Shape rules: contractions, attention, recurrent layers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/ops_priv.h"

/* ---- matmul, gemm ---- */

/* Rows and columns of operand i as the product sees them. */
static void matrix(const struct mg_infer *t, uint32_t i, bool transposed, int64_t *rows, int64_t *cols)
{
    const struct mg_shape *s = &t->in[i];
    int64_t r = s->dim[s->rank - 2], c = s->dim[s->rank - 1];
    *rows = transposed ? c : r;
    *cols = transposed ? r : c;
}

static enum mg_code product(struct mg_infer *t, int64_t *m, int64_t *n)
{
    int64_t k, k2;
    matrix(t, 0, mg_infer_int(t, MG_ATTR_TRANS_A) != 0, m, &k);
    matrix(t, 1, mg_infer_int(t, MG_ATTR_TRANS_B) != 0, &k2, n);
    if (k == k2)
        return MG_OK;
    return mg_infer_fail(t, "/inputs", "shapes %s and %s do not multiply: depth %lld against %lld",
                         mg_shape_text(t->arena, &t->in[0]), mg_shape_text(t->arena, &t->in[1]), (long long)k,
                         (long long)k2);
}

/* Does operand 2, if there is one, broadcast to the result? */
static enum mg_code check_addend(struct mg_infer *t)
{
    if (t->in_count < 3)
        return MG_OK;
    const struct mg_shape *c = &t->in[2], *out = &t->out[0];
    bool fits = c->rank <= out->rank;
    for (uint32_t d = 0; fits && d < c->rank; d++)
        fits = c->dim[d] == 1 || c->dim[d] == out->dim[d + out->rank - c->rank];
    if (fits)
        return MG_OK;
    return mg_infer_fail(t, "/inputs/2", "shape %s does not broadcast to %s", mg_shape_text(t->arena, c),
                         mg_shape_text(t->arena, out));
}

enum mg_code mg_shape_matmul(struct mg_infer *t)
{
    const struct mg_shape *a = &t->in[0], *b = &t->in[1];
    struct mg_shape *out = &t->out[0];
    int64_t m, n;
    MG_TRY(mg_infer_rank(t, 0, 2, MG_MAX_RANK));
    MG_TRY(mg_infer_rank(t, 1, 2, MG_MAX_RANK));
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(product(t, &m, &n));
    *out = (struct mg_shape){.rank = a->rank > b->rank ? a->rank : b->rank};
    for (uint32_t d = 0; d + 2 < out->rank; d++) {
        int64_t x = d + a->rank >= out->rank ? a->dim[d + a->rank - out->rank] : 1;
        int64_t y = d + b->rank >= out->rank ? b->dim[d + b->rank - out->rank] : 1;
        if (x != y && x != 1 && y != 1)
            return mg_infer_fail(t, "/inputs", "batch dimensions of %s and %s do not broadcast",
                                 mg_shape_text(t->arena, a), mg_shape_text(t->arena, b));
        out->dim[d] = x == 1 ? y : x;
    }
    out->dim[out->rank - 2] = m;
    out->dim[out->rank - 1] = n;
    t->out_dtype[0] = t->in_dtype[0];
    return check_addend(t);
}

enum mg_code mg_shape_gemm(struct mg_infer *t)
{
    int64_t m, n;
    MG_TRY(mg_infer_rank(t, 0, 2, 2));
    MG_TRY(mg_infer_rank(t, 1, 2, 2));
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(product(t, &m, &n));
    t->out[0] = (struct mg_shape){.rank = 2, .dim = {m, n}};
    t->out_dtype[0] = t->in_dtype[0];
    return check_addend(t);
}

/* ---- convolution ---- */

struct window {
    uint32_t spatial;
    const int64_t *stride, *pad, *dilation;
};

static enum mg_code window_of(struct mg_infer *t, struct window *w)
{
    MG_TRY(mg_infer_rank(t, 0, 3, 5));
    w->spatial = t->in[0].rank - 2;
    w->stride = mg_infer_ints(t, MG_ATTR_STRIDES, NULL);
    w->pad = mg_infer_ints(t, MG_ATTR_PADS, NULL);
    w->dilation = mg_infer_ints(t, MG_ATTR_DILATIONS, NULL);
    for (uint32_t d = 0; d < w->spatial; d++) {
        if (w->stride[d] < 1 || w->dilation[d] < 1)
            return mg_infer_fail(t, "/attrs", "strides and dilations must be at least 1");
        if (w->stride[d] > INT32_MAX || w->dilation[d] > INT32_MAX || w->pad[d] > INT32_MAX ||
            w->pad[d + w->spatial] > INT32_MAX || w->pad[d] < 0 || w->pad[d + w->spatial] < 0)
            return mg_infer_fail(t, "/attrs", "strides, dilations or pads are out of range");
    }
    return MG_OK;
}

/* Size of the convolution's output along spatial dimension d. */
static int64_t conv_size(const struct window *w, uint32_t d, int64_t in, int64_t kernel)
{
    int64_t room = in + w->pad[d] + w->pad[d + w->spatial] - (w->dilation[d] * (kernel - 1) + 1);
    return room < 0 ? -1 : room / w->stride[d] + 1;
}

static enum mg_code bad_window(struct mg_infer *t, uint32_t d)
{
    return mg_infer_fail(t, "/inputs", "spatial dimension %u does not fit kernel, strides and pads", d);
}

/* Weight [f, c / group, kernel...] against input channels c and output channels f. */
static enum mg_code check_weight(struct mg_infer *t, const struct mg_shape *w, int64_t c, int64_t f)
{
    int64_t group = mg_infer_int(t, MG_ATTR_GROUP);
    if (group < 1 || c % group != 0 || f % group != 0)
        return mg_infer_fail(t, "/attrs/group", "group %lld does not divide %lld and %lld channels", (long long)group,
                             (long long)c, (long long)f);
    if (w->rank != t->in[0].rank || w->dim[0] != f || w->dim[1] != c / group)
        return mg_infer_fail(t, "/inputs", "weight %s does not fit %lld input channels in %lld groups",
                             mg_shape_text(t->arena, w), (long long)c, (long long)group);
    for (uint32_t d = 2; d < w->rank; d++) {
        if (w->dim[d] < 1 || w->dim[d] > INT32_MAX)
            return bad_window(t, d - 2);
    }
    return MG_OK;
}

static enum mg_code check_bias(struct mg_infer *t, int64_t channels)
{
    if (t->in[2].rank == 1 && t->in[2].dim[0] == channels)
        return MG_OK;
    return mg_infer_fail(t, "/inputs/2", "bias has shape %s, must be [%lld]", mg_shape_text(t->arena, &t->in[2]),
                         (long long)channels);
}

/* Operands from `from` on: an addend of the result's shape, if any. */
static enum mg_code check_image_addend(struct mg_infer *t, uint32_t from)
{
    if (t->in_count == from || (t->in_count == from + 1 && mg_shape_equal(&t->in[from], &t->out[0])))
        return MG_OK;
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/inputs/%u", from);
    return mg_infer_fail(t, pointer, "addend has shape %s, must be %s", mg_shape_text(t->arena, &t->in[from]),
                         mg_shape_text(t->arena, &t->out[0]));
}

/* x, w, optionally a bias (one dimension), optionally an addend. */
enum mg_code mg_shape_conv(struct mg_infer *t)
{
    struct window win;
    const struct mg_shape *x = &t->in[0], *w = &t->in[1];
    MG_TRY(window_of(t, &win));
    MG_TRY(mg_infer_rank(t, 1, x->rank, x->rank));
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(check_weight(t, w, x->dim[1], w->dim[0]));
    bool biased = t->in_count > 2 && (t->in_count == 4 || t->in[2].rank != x->rank);
    if (biased)
        MG_TRY(check_bias(t, w->dim[0]));
    t->out[0] = (struct mg_shape){.rank = x->rank, .dim = {x->dim[0], w->dim[0]}};
    t->out_dtype[0] = t->in_dtype[0];
    for (uint32_t d = 0; d < win.spatial; d++) {
        t->out[0].dim[d + 2] = conv_size(&win, d, x->dim[d + 2], w->dim[d + 2]);
        if (t->out[0].dim[d + 2] < 0)
            return bad_window(t, d);
    }
    return check_image_addend(t, biased ? 3 : 2);
}

/* x [n, c, ...], weight [c, f / group, kernel...]. */
enum mg_code mg_shape_conv_transpose(struct mg_infer *t)
{
    struct window win;
    const struct mg_shape *x = &t->in[0], *w = &t->in[1];
    MG_TRY(window_of(t, &win));
    MG_TRY(mg_infer_rank(t, 1, x->rank, x->rank));
    MG_TRY(mg_infer_same_dtype(t));
    int64_t group = mg_infer_int(t, MG_ATTR_GROUP);
    if (group < 1 || group > INT32_MAX || w->dim[1] > INT32_MAX)
        return mg_infer_fail(t, "/attrs/group", "group is out of range");
    MG_TRY(check_weight(t, w, w->dim[1] * group, x->dim[1]));
    if (t->in_count > 2)
        MG_TRY(check_bias(t, w->dim[1] * group));
    const int64_t *extra = mg_infer_ints(t, MG_ATTR_OUTPUT_PADDING, NULL);
    t->out[0] = (struct mg_shape){.rank = x->rank, .dim = {x->dim[0], w->dim[1] * group}};
    t->out_dtype[0] = t->in_dtype[0];
    for (uint32_t d = 0; d < win.spatial; d++) {
        if (x->dim[d + 2] < 1 || x->dim[d + 2] > INT32_MAX || extra[d] < 0 || extra[d] > INT32_MAX)
            return bad_window(t, d);
        t->out[0].dim[d + 2] = (x->dim[d + 2] - 1) * win.stride[d] + win.dilation[d] * (w->dim[d + 2] - 1) + 1 +
                               extra[d] - win.pad[d] - win.pad[d + win.spatial];
    }
    return MG_OK;
}

enum mg_code mg_shape_conv_grad_input(struct mg_infer *t)
{
    struct window win;
    const struct mg_shape *dy = &t->in[0], *w = &t->in[1];
    MG_TRY(window_of(t, &win));
    MG_TRY(mg_infer_rank(t, 1, dy->rank, dy->rank));
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(mg_infer_list_size(t, MG_ATTR_SPATIAL, win.spatial));
    int64_t group = mg_infer_int(t, MG_ATTR_GROUP);
    if (group < 1 || group > INT32_MAX || w->dim[1] > INT32_MAX)
        return mg_infer_fail(t, "/attrs/group", "group is out of range");
    MG_TRY(check_weight(t, w, w->dim[1] * group, dy->dim[1]));
    const int64_t *spatial = mg_infer_ints(t, MG_ATTR_SPATIAL, NULL);
    t->out[0] = (struct mg_shape){.rank = dy->rank, .dim = {dy->dim[0], w->dim[1] * group}};
    t->out_dtype[0] = t->in_dtype[0];
    for (uint32_t d = 0; d < win.spatial; d++) {
        t->out[0].dim[d + 2] = spatial[d];
        if (spatial[d] < 0 || conv_size(&win, d, spatial[d], w->dim[d + 2]) != dy->dim[d + 2])
            return bad_window(t, d);
    }
    return check_image_addend(t, 2);
}

enum mg_code mg_shape_conv_grad_weight(struct mg_infer *t)
{
    struct window win;
    const struct mg_shape *dy = &t->in[0], *x = &t->in[1];
    MG_TRY(window_of(t, &win));
    MG_TRY(mg_infer_rank(t, 1, dy->rank, dy->rank));
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(mg_infer_list_size(t, MG_ATTR_KERNEL_SHAPE, win.spatial));
    int64_t group = mg_infer_int(t, MG_ATTR_GROUP);
    if (group < 1)
        return mg_infer_fail(t, "/attrs/group", "group is out of range");
    struct mg_shape w = {.rank = x->rank, .dim = {dy->dim[1], x->dim[1] / group}};
    memcpy(w.dim + 2, mg_infer_ints(t, MG_ATTR_KERNEL_SHAPE, NULL), win.spatial * sizeof(int64_t));
    MG_TRY(check_weight(t, &w, x->dim[1], dy->dim[1]));
    if (dy->dim[0] != x->dim[0])
        return mg_infer_fail(t, "/inputs", "batch sizes %lld and %lld differ", (long long)dy->dim[0],
                             (long long)x->dim[0]);
    for (uint32_t d = 0; d < win.spatial; d++) {
        if (conv_size(&win, d, x->dim[d + 2], w.dim[d + 2]) != dy->dim[d + 2])
            return bad_window(t, d);
    }
    t->out[0] = w;
    t->out_dtype[0] = t->in_dtype[0];
    return MG_OK;
}

/* ---- attention: [b..., heads, seq, dim] ---- */

static enum mg_code check_attention(struct mg_infer *t, uint32_t first, uint32_t mask)
{
    const struct mg_shape *q = &t->in[first], *k = &t->in[first + 1], *v = &t->in[first + 2];
    MG_TRY(mg_infer_rank(t, first, 3, MG_MAX_RANK));
    MG_TRY(mg_infer_rank(t, first + 1, q->rank, q->rank));
    MG_TRY(mg_infer_rank(t, first + 2, q->rank, q->rank));
    uint32_t r = q->rank;
    bool fits = q->dim[r - 1] == k->dim[r - 1] && k->dim[r - 2] == v->dim[r - 2] && k->dim[r - 3] == v->dim[r - 3] &&
                k->dim[r - 3] > 0 && q->dim[r - 3] % k->dim[r - 3] == 0;
    for (uint32_t d = 0; d + 3 < r; d++)
        fits = fits && q->dim[d] == k->dim[d] && q->dim[d] == v->dim[d];
    if (!fits)
        return mg_infer_fail(t, "/inputs", "q %s, k %s and v %s do not fit", mg_shape_text(t->arena, q),
                             mg_shape_text(t->arena, k), mg_shape_text(t->arena, v));
    if (mask < t->in_count) {
        struct mg_shape scores = *q;
        scores.dim[r - 1] = k->dim[r - 2];
        fits = t->in[mask].rank <= r;
        for (uint32_t d = 0; fits && d < t->in[mask].rank; d++)
            fits = t->in[mask].dim[d] == 1 || t->in[mask].dim[d] == scores.dim[d + r - t->in[mask].rank];
        if (!fits)
            return mg_infer_fail(t, "/inputs", "mask %s does not broadcast to the scores %s",
                                 mg_shape_text(t->arena, &t->in[mask]), mg_shape_text(t->arena, &scores));
    }
    struct mg_attr *scale = mg_infer_attr(t, MG_ATTR_SCALE);
    if (scale->f == 0)
        scale->f = 1 / sqrt((double)q->dim[r - 1]);
    return MG_OK;
}

enum mg_code mg_shape_attention(struct mg_infer *t)
{
    MG_TRY(check_attention(t, 0, 3));
    uint32_t r = t->in[0].rank;
    t->out[0] = t->out[1] = t->in[0];
    t->out[0].dim[r - 1] = t->in[2].dim[r - 1];
    t->out[1].dim[r - 1] = 1;
    t->out_dtype[0] = t->in_dtype[0];
    t->out_dtype[1] = mg_dtype_of_statistics(t->in_dtype[0]);
    return MG_OK;
}

enum mg_code mg_shape_attention_grad(struct mg_infer *t)
{
    MG_TRY(check_attention(t, 1, 6));
    struct mg_shape y = t->in[1], lse = t->in[1];
    y.dim[y.rank - 1] = t->in[3].dim[y.rank - 1];
    lse.dim[y.rank - 1] = 1;
    if (!mg_shape_equal(&t->in[0], &y) || !mg_shape_equal(&t->in[4], &y) || !mg_shape_equal(&t->in[5], &lse))
        return mg_infer_fail(t, "/inputs", "dy, y or lse do not have the shapes that attention gives");
    for (uint32_t i = 0; i < 3; i++) {
        t->out[i] = t->in[i + 1];
        t->out_dtype[i] = t->in_dtype[i + 1];
    }
    return MG_OK;
}

/* ---- lstm, gru, rnn ---- */

static enum mg_code check_part(struct mg_infer *t, uint32_t operand, uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    struct mg_shape want = {.rank = rank, .dim = {a, b, c}};
    if (operand >= t->in_count || mg_shape_equal(&t->in[operand], &want))
        return MG_OK;
    return mg_infer_fail(t, "/inputs", "operand %u has shape %s, must be %s", operand,
                         mg_shape_text(t->arena, &t->in[operand]), mg_shape_text(t->arena, &want));
}

enum mg_code mg_shape_recurrent(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 3, 3));
    MG_TRY(mg_infer_same_dtype(t));
    const struct mg_shape *x = &t->in[0];
    int64_t h = mg_infer_int(t, MG_ATTR_HIDDEN_SIZE), gates = t->type == MG_OP_LSTM ? 4 : t->type == MG_OP_GRU ? 3 : 1;
    if (h < 1 || h > INT32_MAX)
        return mg_infer_fail(t, "/attrs/hidden_size", "hidden_size is out of range");
    MG_TRY(check_part(t, 1, 3, 1, gates * h, x->dim[2]));
    MG_TRY(check_part(t, 2, 3, 1, gates * h, h));
    MG_TRY(check_part(t, 3, 2, 1, 2 * gates * h, 0));
    MG_TRY(check_part(t, 4, 3, 1, x->dim[1], h));
    MG_TRY(check_part(t, 5, 3, 1, x->dim[1], h));
    MG_TRY(check_part(t, 6, 2, 1, 3 * h, 0));
    static const char *const activations[] = {"tanh", "relu", NULL};
    if (t->type == MG_OP_RNN)
        MG_TRY(mg_infer_choice(t, MG_ATTR_ACTIVATION, activations));
    t->out[0] = (struct mg_shape){.rank = 4, .dim = {x->dim[0], 1, x->dim[1], h}};
    for (uint32_t i = 1; i < t->out_count; i++)
        t->out[i] = (struct mg_shape){.rank = 3, .dim = {1, x->dim[1], h}};
    for (uint32_t i = 0; i < t->out_count; i++)
        t->out_dtype[i] = t->in_dtype[0];
    return MG_OK;
}
