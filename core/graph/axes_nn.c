/* Iteration axes of contractions, normalisation, pooling, attention and recurrent layers. */
#include "graph/ops_priv.h"

/* ---- matmul, gemm: batch axes, m, n, k ---- */

/* Axis over rows or columns of a matrix operand. */
static void matrix_in(struct mg_axes *t, uint32_t axis, uint32_t operand, bool transposed, bool column)
{
    int64_t rank = t->desc->in_shape[operand].rank;
    mg_axes_in(t, axis, operand, column != transposed ? rank - 1 : rank - 2, 1);
}

/* The addend, along every axis of the result over which it is not broadcast. */
static void addend_in(struct mg_axes *t)
{
    const struct mg_shape *c = &t->desc->in_shape[2];
    for (uint32_t a = 0; a < t->count; a++) {
        int64_t own = (int64_t)t->out[a][0].dim + c->rank - t->desc->out_shape[0].rank;
        if (own >= 0 && c->dim[own] == t->axis[a].length)
            mg_axes_in(t, a, 2, own, 1);
    }
}

void mg_axes_matmul(struct mg_axes *t)
{
    const struct mg_op_desc *desc = t->desc;
    const struct mg_shape *out = &desc->out_shape[0];
    bool ta = mg_desc_int(desc, MG_ATTR_TRANS_A) != 0, tb = mg_desc_int(desc, MG_ATTR_TRANS_B) != 0;
    for (uint32_t d = 0; d + 2 < out->rank; d++) {
        uint32_t a = mg_axes_open(t, "b", (int)d, out->dim[d], MG_COMBINE_NONE);
        for (uint32_t i = 0; i < 2; i++) {
            int64_t own = (int64_t)(d + desc->in_shape[i].rank) - out->rank;
            if (own >= 0 && desc->in_shape[i].dim[own] == out->dim[d])
                mg_axes_in(t, a, i, own, 1);
        }
        mg_axes_out(t, a, 0, d, 1);
    }
    uint32_t m = mg_axes_open(t, "m", -1, out->dim[out->rank - 2], MG_COMBINE_NONE);
    matrix_in(t, m, 0, ta, false);
    mg_axes_out(t, m, 0, out->rank - 2, 1);
    uint32_t n = mg_axes_open(t, "n", -1, out->dim[out->rank - 1], MG_COMBINE_NONE);
    matrix_in(t, n, 1, tb, true);
    mg_axes_out(t, n, 0, out->rank - 1, 1);
    if (desc->in_count > 2) { /* and no k: it would add the addend in every part */
        addend_in(t);
        return;
    }
    uint32_t rank = desc->in_shape[0].rank;
    uint32_t k = mg_axes_open(t, "k", -1, desc->in_shape[0].dim[ta ? rank - 2 : rank - 1], MG_COMBINE_SUM);
    matrix_in(t, k, 0, ta, true);
    matrix_in(t, k, 1, tb, false);
}

/* ---- convolution ----
 * All four operators relate an image x [n, c, ...], an output y [n, f, ...] and a weight
 * [f, c / group, ...]; `slot` says where each is: operand number, or 16 for the result. */
enum { RESULT = 16 };
struct conv {
    uint32_t x, y, w, bias, addend;
    const struct mg_shape *xs, *ys, *ws;
};

static void on(struct mg_axes *t, uint32_t axis, uint32_t slot, int64_t dim, int64_t unit)
{
    if (slot == RESULT)
        mg_axes_out(t, axis, 0, dim, unit);
    else
        mg_axes_in(t, axis, slot, dim, unit);
}

/* Spatial dimension s. With a kernel of 1 and no padding an output row is `stride` input rows: an ordinary axis if
 * that divides evenly. Else the axis is a window, over the output's positions. */
static void conv_spatial(struct mg_axes *t, const struct conv *c, uint32_t s)
{
    uint32_t d = s + 2, spatial = c->xs->rank - 2;
    const int64_t *pads = mg_desc_ints(t->desc, MG_ATTR_PADS, NULL);
    int64_t stride = mg_desc_ints(t->desc, MG_ATTR_STRIDES, NULL)[s], out = c->ys->dim[d];
    bool plain = c->ws->dim[d] == 1 && pads[s] == 0 && pads[s + spatial] == 0 && c->xs->dim[d] == out * stride;
    if (!plain && c->addend != MG_NONE && c->x == RESULT) /* parts overlap: they would add it twice */
        return;
    uint32_t a = mg_axes_open(t, "s", (int)s, out, c->w == RESULT ? MG_COMBINE_SUM : MG_COMBINE_NONE);
    if (a == MG_NONE)
        return;
    on(t, a, c->x, d, stride);
    on(t, a, c->y, d, 1);
    if (c->addend != MG_NONE)
        mg_axes_in(t, a, c->addend, d, c->x == RESULT ? stride : 1);
    if (plain)
        return;
    struct mg_axis *axis = &t->axis[a];
    axis->window = true;
    axis->kernel = c->ws->dim[d];
    axis->stride = stride;
    axis->dilation = mg_desc_ints(t->desc, MG_ATTR_DILATIONS, NULL)[s];
    axis->pad_before = pads[s];
    axis->pad_after = pads[s + spatial];
}

static void conv_axes(struct mg_axes *t, const struct conv *c)
{
    int64_t group = mg_desc_int(t->desc, MG_ATTR_GROUP), image = c->xs->dim[1], features = c->ys->dim[1];
    bool bias_adds = c->bias != MG_NONE, adds = bias_adds || c->addend != MG_NONE;
    uint32_t a = mg_axes_open(t, "n", -1, c->xs->dim[0], c->w == RESULT ? MG_COMBINE_SUM : MG_COMBINE_NONE);
    on(t, a, c->x, 0, 1);
    on(t, a, c->y, 0, 1);
    if (group > 1) {
        a = mg_axes_open(t, "g", -1, group, MG_COMBINE_NONE);
        on(t, a, c->x, 1, image / group);
        on(t, a, c->y, 1, features / group);
        on(t, a, c->w, 0, features / group);
        if (bias_adds)
            on(t, a, c->bias, 0, t->desc->out_shape[0].dim[1] / group);
    } else {
        bool sums = c->x == RESULT; /* over which of the two channels the operator sums */
        if (!(sums && adds)) {
            a = mg_axes_open(t, "f", -1, features, sums ? MG_COMBINE_SUM : MG_COMBINE_NONE);
            on(t, a, c->y, 1, 1);
            on(t, a, c->w, 0, 1);
            if (bias_adds)
                on(t, a, c->bias, 0, 1);
        }
        sums = c->y == RESULT;
        if (!(sums && adds)) {
            a = mg_axes_open(t, "c", -1, image, sums ? MG_COMBINE_SUM : MG_COMBINE_NONE);
            on(t, a, c->x, 1, 1);
            on(t, a, c->w, 1, 1);
            if (bias_adds)
                on(t, a, c->bias, 0, 1);
        }
    }
    for (uint32_t k = 0; c->addend != MG_NONE && k < t->count; k++)
        mg_axes_in(t, k, c->addend, t->out[k][0].dim, t->out[k][0].unit);
    for (uint32_t s = 0; s + 2 < c->xs->rank; s++)
        conv_spatial(t, c, s);
}

/* The last operand, if it has the result's rank. */
static uint32_t image_addend(const struct mg_op_desc *desc)
{
    bool given = desc->in_count > 2 && desc->in_shape[desc->in_count - 1].rank == desc->out_shape[0].rank;
    return given ? desc->in_count - 1 : MG_NONE;
}

static uint32_t bias_of(const struct mg_op_desc *desc)
{
    return desc->in_count > 2 && desc->in_shape[2].rank == 1 ? 2 : MG_NONE;
}

void mg_axes_conv(struct mg_axes *t)
{
    const struct mg_shape *in = t->desc->in_shape, *out = t->desc->out_shape;
    struct conv c = {.x = 0, .w = 1, .y = RESULT, .bias = bias_of(t->desc), .addend = image_addend(t->desc)};
    c.xs = &in[0], c.ws = &in[1], c.ys = &out[0];
    conv_axes(t, &c);
}

/* The gradient of a convolution to its input, seen from the other side: operand 0 is y, the result x. */
void mg_axes_conv_transpose(struct mg_axes *t)
{
    const struct mg_shape *in = t->desc->in_shape, *out = t->desc->out_shape;
    struct conv c = {.y = 0, .w = 1, .x = RESULT, .bias = bias_of(t->desc), .addend = image_addend(t->desc)};
    c.ys = &in[0], c.ws = &in[1], c.xs = &out[0];
    conv_axes(t, &c);
}

void mg_axes_conv_grad_input(struct mg_axes *t)
{
    mg_axes_conv_transpose(t);
}

void mg_axes_conv_grad_weight(struct mg_axes *t)
{
    const struct mg_shape *in = t->desc->in_shape, *out = t->desc->out_shape;
    struct conv c = {.y = 0, .x = 1, .w = RESULT, .bias = MG_NONE, .addend = MG_NONE};
    c.ys = &in[0], c.xs = &in[1], c.ws = &out[0];
    conv_axes(t, &c);
}

/* ---- normalisation ---- */

/* Dimension d of every operand and result of the full rank; others (scale, shift, their gradients) add up. */
static void full_rank(struct mg_axes *t, uint32_t axis, uint32_t rank, uint32_t d)
{
    const struct mg_op_desc *desc = t->desc;
    for (uint32_t i = 0; i < desc->in_count; i++) {
        if (desc->in_shape[i].rank == rank)
            mg_axes_in(t, axis, i, d, 1);
    }
    for (uint32_t i = 0; i < desc->out_count; i++) {
        if (desc->out_shape[i].rank == rank)
            mg_axes_out(t, axis, i, d, 1);
    }
}

/* Rows; gradients of scale and shift sum over them. Scale has a smaller rank whenever there is a row dimension. */
void mg_axes_layer_norm(struct mg_axes *t)
{
    const struct mg_shape *x = &t->desc->in_shape[0];
    for (uint32_t d = 0; d < mg_desc_int(t->desc, MG_ATTR_AXIS); d++)
        full_rank(t, mg_axes_open(t, "d", (int)d, x->dim[d], MG_COMBINE_SUM), x->rank, d);
}

/* Channel axis: dimension 1 of the full rank, dimension 0 of vectors. */
static uint32_t channel_axis(struct mg_axes *t, uint32_t rank, int64_t length)
{
    const struct mg_op_desc *desc = t->desc;
    uint32_t a = mg_axes_open(t, "c", -1, length, MG_COMBINE_NONE);
    for (uint32_t i = 0; i < desc->in_count; i++)
        mg_axes_in(t, a, i, desc->in_shape[i].rank == rank ? 1 : 0, 1);
    for (uint32_t i = 0; i < desc->out_count; i++)
        mg_axes_out(t, a, i, desc->out_shape[i].rank == rank ? 1 : 0, 1);
    return a;
}

/* Statistics run over the batch: only channels can be split. */
void mg_axes_batch_norm(struct mg_axes *t)
{
    channel_axis(t, t->desc->in_shape[0].rank, t->desc->in_shape[0].dim[1]);
}

/* Statistics are given: elementwise. */
void mg_axes_bn_apply(struct mg_axes *t)
{
    const struct mg_shape *x = &t->desc->in_shape[0];
    channel_axis(t, x->rank, x->dim[1]);
    for (uint32_t d = 0; d < x->rank; d++) {
        if (d == 1)
            continue;
        uint32_t a = mg_axes_open(t, "d", (int)d, x->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        mg_axes_out(t, a, 0, d, 1);
    }
}

void mg_axes_stat_update(struct mg_axes *t)
{
    channel_axis(t, t->desc->in_shape[1].rank, t->desc->in_shape[0].dim[0]);
}

/* Samples (gradients of scale and shift sum over them) and groups of channels. */
void mg_axes_group_norm(struct mg_axes *t)
{
    const struct mg_op_desc *desc = t->desc;
    bool backward = desc->type == MG_OP_GROUP_NORM_GRAD || desc->type == MG_OP_INSTANCE_NORM_GRAD;
    const struct mg_shape *x = &desc->in_shape[0];
    const struct mg_shape *stat = backward ? &desc->in_shape[2] : &desc->out_shape[1];
    int64_t groups = stat->dim[1], width = x->dim[1] / groups;
    full_rank(t, mg_axes_open(t, "n", -1, x->dim[0], MG_COMBINE_SUM), x->rank, 0);
    uint32_t a = mg_axes_open(t, "g", -1, groups, MG_COMBINE_NONE);
    for (uint32_t i = 0; i < desc->in_count; i++) {
        bool statistic = backward && (i == 2 || i == 3);
        mg_axes_in(t, a, i, desc->in_shape[i].rank == x->rank ? 1 : 0, statistic ? 1 : width);
    }
    for (uint32_t i = 0; i < desc->out_count; i++)
        mg_axes_out(t, a, i, desc->out_shape[i].rank == x->rank ? 1 : 0, !backward && i > 0 ? 1 : width);
}

/* ---- pooling, resize: samples and channels; pooling's spatial axes are windows ---- */

static void pool_window(struct mg_axes *t, uint32_t s, uint32_t x, uint32_t y)
{
    const struct mg_op_desc *desc = t->desc;
    const struct mg_shape *ys = y == RESULT ? &desc->out_shape[0] : &desc->in_shape[y];
    const int64_t *dilations = mg_desc_ints(desc, MG_ATTR_DILATIONS, NULL);
    const int64_t *pads = mg_desc_ints(desc, MG_ATTR_PADS, NULL);
    uint32_t a = mg_axes_open(t, "s", (int)s, ys->dim[s + 2], MG_COMBINE_NONE);
    if (a == MG_NONE)
        return;
    struct mg_axis *axis = &t->axis[a];
    axis->window = true;
    axis->kernel = mg_desc_ints(desc, MG_ATTR_KERNEL_SHAPE, NULL)[s];
    axis->stride = mg_desc_ints(desc, MG_ATTR_STRIDES, NULL)[s];
    axis->dilation = dilations ? dilations[s] : 1;
    axis->pad_before = pads[s];
    axis->pad_after = pads[s + ys->rank - 2];
    on(t, a, x, s + 2, axis->stride);
    on(t, a, y, s + 2, 1);
    if (desc->in_count > 1)
        mg_axes_in(t, a, 1, s + 2, axis->stride);
}

void mg_axes_pool(struct mg_axes *t)
{
    const struct mg_shape *x = &t->desc->in_shape[0];
    static const char *const names[] = {"n", "c"};
    for (uint32_t d = 0; d < 2; d++)
        full_rank(t, mg_axes_open(t, names[d], -1, x->dim[d], MG_COMBINE_NONE), x->rank, d);
    bool backward = t->desc->type == MG_OP_MAX_POOL_GRAD || t->desc->type == MG_OP_AVG_POOL_GRAD ||
                    t->desc->type == MG_OP_LP_POOL_GRAD;
    if (!mg_desc_ints(t->desc, MG_ATTR_KERNEL_SHAPE, NULL))
        return;
    for (uint32_t s = 0; s + 2 < x->rank; s++)
        pool_window(t, s, backward ? RESULT : 0, backward ? 0 : RESULT);
}

/* ---- attention ---- */

struct heads {
    bool backward;
    uint32_t q, mask; /* operand numbers; k and v follow q */
    int64_t rank;
};

/* Dimension d (counted in the full rank) of the mask, if it is not broadcast there. */
static void mask_in(struct mg_axes *t, const struct heads *h, uint32_t axis, int64_t d)
{
    if (axis == MG_NONE || h->mask >= t->desc->in_count)
        return;
    const struct mg_shape *mask = &t->desc->in_shape[h->mask];
    int64_t own = d + mask->rank - h->rank;
    if (own >= 0 && mask->dim[own] > 1)
        mg_axes_in(t, axis, h->mask, own, 1);
}

/* dy, q, y, lse and dq or y, lse run over query rows and query heads; k, v, dk, dv over their own. */
static void query_side(struct mg_axes *t, const struct heads *h, uint32_t axis, int64_t d, int64_t unit)
{
    mg_axes_in(t, axis, h->q, d, unit);
    if (h->backward) {
        mg_axes_in(t, axis, 0, d, unit);
        mg_axes_in(t, axis, 4, d, unit);
        mg_axes_in(t, axis, 5, d, unit);
        mg_axes_out(t, axis, 0, d, unit);
    } else {
        mg_axes_out(t, axis, 0, d, unit);
        mg_axes_out(t, axis, 1, d, unit);
    }
}

static void key_side(struct mg_axes *t, const struct heads *h, uint32_t axis, int64_t d)
{
    mg_axes_in(t, axis, h->q + 1, d, 1);
    mg_axes_in(t, axis, h->q + 2, d, 1);
    if (h->backward) {
        mg_axes_out(t, axis, 1, d, 1);
        mg_axes_out(t, axis, 2, d, 1);
    }
}

void mg_axes_attention(struct mg_axes *t)
{
    struct heads h = {.backward = t->desc->type == MG_OP_ATTENTION_GRAD};
    h.q = h.backward ? 1 : 0;
    h.mask = h.backward ? 6 : 3;
    const struct mg_shape *q = &t->desc->in_shape[h.q], *k = &t->desc->in_shape[h.q + 1];
    h.rank = q->rank;
    for (int64_t d = 0; d + 3 < h.rank; d++) {
        uint32_t a = mg_axes_open(t, "b", (int)d, q->dim[d], MG_COMBINE_NONE);
        query_side(t, &h, a, d, 1);
        key_side(t, &h, a, d);
        mask_in(t, &h, a, d);
    }
    int64_t group = q->dim[h.rank - 3] / k->dim[h.rank - 3];
    const struct mg_shape *mask = h.mask < t->desc->in_count ? &t->desc->in_shape[h.mask] : NULL;
    bool mask_by_head = mask && mask->rank >= 3 && mask->dim[mask->rank - 3] > 1;
    uint32_t heads = mg_axes_open(t, "h", -1, k->dim[h.rank - 3], MG_COMBINE_NONE);
    query_side(t, &h, heads, h.rank - 3, group);
    key_side(t, &h, heads, h.rank - 3);
    if (mask_by_head)
        mg_axes_in(t, heads, h.mask, (int64_t)mask->rank - 3, group);
    if (mg_desc_int(t->desc, MG_ATTR_CAUSAL)) /* positions matter */
        return;
    uint32_t rows = mg_axes_open(t, "m", -1, q->dim[h.rank - 2], h.backward ? MG_COMBINE_SUM : MG_COMBINE_NONE);
    query_side(t, &h, rows, h.rank - 2, 1);
    mask_in(t, &h, rows, h.rank - 2);
    if (!h.backward) /* keys would need the softmax to be combined */
        return;
    uint32_t keys = mg_axes_open(t, "k", -1, k->dim[h.rank - 2], MG_COMBINE_SUM);
    key_side(t, &h, keys, h.rank - 2);
    mask_in(t, &h, keys, h.rank - 1);
}

/* ---- lstm, gru, rnn: only the batch ---- */

void mg_axes_recurrent(struct mg_axes *t)
{
    uint32_t a = mg_axes_open(t, "n", -1, t->desc->in_shape[0].dim[1], MG_COMBINE_NONE);
    mg_axes_in(t, a, 0, 1, 1);
    mg_axes_in(t, a, 4, 1, 1);
    mg_axes_in(t, a, 5, 1, 1);
    mg_axes_out(t, a, 0, 2, 1);
    mg_axes_out(t, a, 1, 1, 1);
    mg_axes_out(t, a, 2, 1, 1);
}
