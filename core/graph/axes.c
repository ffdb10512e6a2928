/* Iteration axes (MAGIS section 4.1): the frame, and the rules of elementwise operators, reductions,
 * movement and losses.
 *
 * An axis runs over at most one dimension of each operand and result, in blocks of `unit`
 * elements. Axes shorter than 2 are left out: there is nothing to split. */
#include <string.h>

#include "graph/ops_priv.h"

/* A short word, and a number of at most two digits unless it is negative; axes are many, and printf is slow. */
static void set_name(char *out, size_t size, const char *word, int number)
{
    size_t room = number < 0 ? size - 1 : size - 3, used = 0;
    for (; used < room && word[used]; used++)
        out[used] = word[used];
    if (number >= 10)
        out[used++] = (char)('0' + number / 10 % 10);
    if (number >= 0)
        out[used++] = (char)('0' + number % 10);
    out[used] = 0;
}

uint32_t mg_axes_open(struct mg_axes *t, const char *name, int number, int64_t length, enum mg_combiner combiner)
{
    if (length < 2 || t->count == MG_MAX_AXES)
        return MG_NONE;
    uint32_t a = t->count++;
    t->axis[a] = (struct mg_axis){.length = length, .combiner = combiner};
    set_name(t->axis[a].name, sizeof t->axis[a].name, name, number);
    t->axis[a].in = t->in[a] = MG_NEW_ARRAY(t->arena, struct mg_axis_use, t->desc->in_count);
    t->axis[a].out = t->out[a] = MG_NEW_ARRAY(t->arena, struct mg_axis_use, t->desc->out_count);
    for (uint32_t i = 0; i < t->desc->in_count; i++)
        t->in[a][i].dim = -1;
    for (uint32_t i = 0; i < t->desc->out_count; i++)
        t->out[a][i].dim = -1;
    return a;
}

static struct mg_axis_use use(int64_t dim, int64_t unit)
{
    return (struct mg_axis_use){.dim = (int8_t)(dim < 0 ? -1 : dim), .unit = dim < 0 ? 0 : unit};
}

void mg_axes_in(struct mg_axes *t, uint32_t axis, uint32_t operand, int64_t dim, int64_t unit)
{
    if (axis != MG_NONE && operand < t->desc->in_count)
        t->in[axis][operand] = use(dim, unit);
}

void mg_axes_out(struct mg_axes *t, uint32_t axis, uint32_t result, int64_t dim, int64_t unit)
{
    if (axis != MG_NONE && result < t->desc->out_count)
        t->out[axis][result] = use(dim, unit);
}

const struct mg_axis *mg_axes_of(const struct mg_op_desc *desc, struct mg_arena *arena, uint32_t *count)
{
    struct mg_axes t = {.arena = arena, .desc = desc};
    bool empty = false;
    for (uint32_t i = 0; i < desc->in_count; i++)
        empty = empty || mg_shape_elements(&desc->in_shape[i]) == 0;
    for (uint32_t i = 0; i < desc->out_count; i++)
        empty = empty || mg_shape_elements(&desc->out_shape[i]) == 0;
    if (!empty)
        mg_op_facts(desc->type)->axes(&t);
    *count = t.count;
    return mg_arena_copy(arena, t.axis, t.count * sizeof *t.axis);
}

/* ---- elementwise: one axis for each dimension of the result ---- */

/* Dimension of a right-aligned operand of `shape` under dimension d of a result of this rank and size; -1 if it
 * is broadcast. */
static int64_t aligned(const struct mg_shape *shape, uint32_t rank, uint32_t d, int64_t size)
{
    if (d + shape->rank < rank)
        return -1;
    uint32_t own = d + shape->rank - rank;
    return shape->dim[own] == size ? (int64_t)own : -1;
}

void mg_axes_elementwise(struct mg_axes *t)
{
    const struct mg_shape *out = &t->desc->out_shape[0];
    for (uint32_t d = 0; d < out->rank; d++) {
        uint32_t a = mg_axes_open(t, "d", (int)d, out->dim[d], MG_COMBINE_NONE);
        for (uint32_t i = 0; i < t->desc->in_count; i++)
            mg_axes_in(t, a, i, aligned(&t->desc->in_shape[i], out->rank, d, out->dim[d]), 1);
        for (uint32_t i = 0; i < t->desc->out_count; i++)
            mg_axes_out(t, a, i, d, 1);
    }
}

void mg_axes_fill(struct mg_axes *t)
{
    mg_axes_elementwise(t);
}

/* ---- reductions and rows ---- */

static bool listed(const struct mg_op_desc *desc, enum mg_attr_key key, int64_t value)
{
    uint32_t count;
    const int64_t *list = mg_desc_ints(desc, key, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == value)
            return true;
    }
    return false;
}

static enum mg_combiner reducer(enum mg_op_type type)
{
    switch (type) {
    case MG_OP_REDUCE_MAX:
        return MG_COMBINE_MAX;
    case MG_OP_REDUCE_MIN:
        return MG_COMBINE_MIN;
    case MG_OP_REDUCE_PROD:
        return MG_COMBINE_PROD;
    case MG_OP_REDUCE_L2:
    case MG_OP_REDUCE_LOG_SUM:
    case MG_OP_REDUCE_LOG_SUM_EXP: /* partial results do not add up */
        return MG_COMBINE_NONE;
    default: /* a mean's divisor is fixed */
        return MG_COMBINE_SUM;
    }
}

void mg_axes_reduce(struct mg_axes *t)
{
    const struct mg_shape *in = &t->desc->in_shape[0];
    bool keep = mg_desc_int(t->desc, MG_ATTR_KEEPDIMS) != 0;
    int64_t to = 0;
    for (uint32_t d = 0; d < in->rank; d++) {
        bool reduced = listed(t->desc, MG_ATTR_AXES, d);
        enum mg_combiner combiner = reduced ? reducer(t->desc->type) : MG_COMBINE_NONE;
        if (!reduced || combiner != MG_COMBINE_NONE) {
            uint32_t a = mg_axes_open(t, "d", (int)d, in->dim[d], combiner);
            mg_axes_in(t, a, 0, d, 1);
            if (!reduced)
                mg_axes_out(t, a, 0, to, 1);
        }
        to += !reduced || keep;
    }
}

/* Every dimension but attribute `axis`, which the result may have lost. */
void mg_axes_one_absent(struct mg_axes *t)
{
    const struct mg_shape *in = &t->desc->in_shape[0];
    int64_t axis = mg_desc_int(t->desc, MG_ATTR_AXIS), lost = in->rank - t->desc->out_shape[0].rank;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (d == axis)
            continue;
        uint32_t a = mg_axes_open(t, "d", (int)d, in->dim[d], MG_COMBINE_NONE);
        for (uint32_t i = 0; i < t->desc->in_count; i++)
            mg_axes_in(t, a, i, d, 1);
        mg_axes_out(t, a, 0, d > axis ? d - lost : d, 1);
    }
}

void mg_axes_rows(struct mg_axes *t)
{
    mg_axes_one_absent(t);
}

/* Operands [c] or [n, c, d...]; the loss adds up over all but the classes. A divisor that is still 0 counts the
 * targets at run time: nothing can be split (R7). */
void mg_axes_cross_entropy(struct mg_axes *t)
{
    uint32_t logits = t->desc->in_count - 2; /* gradients have the loss's gradient in front */
    const struct mg_shape *x = &t->desc->in_shape[logits];
    if (mg_desc_float(t->desc, MG_ATTR_DIVISOR) == 0)
        return;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (d == 1)
            continue;
        uint32_t a = mg_axes_open(t, "d", (int)d, x->dim[d], logits ? MG_COMBINE_NONE : MG_COMBINE_SUM);
        mg_axes_in(t, a, logits, d, 1);
        mg_axes_in(t, a, logits + 1, d ? d - 1 : 0, 1);
        if (logits)
            mg_axes_out(t, a, 0, d, 1);
    }
}

/* ---- reshape: a kept dimension, or the outermost factor of those that are split or merged ---- */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The shapes are cut into shortest segments [i, i2) and [k, k2) of equal product; each gives one axis. */
void mg_axes_reshape(struct mg_axes *t)
{
    const struct mg_shape *in = &t->desc->in_shape[0], *out = &t->desc->out_shape[0];
    uint32_t i = 0, k = 0;
    int number = 0;
    while (i < in->rank && k < out->rank) {
        if (in->dim[i] == 1 || out->dim[k] == 1) {
            (void)(in->dim[i] == 1 ? i++ : k++);
            continue;
        }
        int64_t length = gcd(in->dim[i], out->dim[k]);
        uint32_t a = mg_axes_open(t, "d", number++, length, MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, i, in->dim[i] / length);
        mg_axes_out(t, a, 0, k, out->dim[k] / length);
        int64_t p = in->dim[i++], q = out->dim[k++];
        while (p != q) {
            if (p < q)
                p *= in->dim[i++];
            else
                q *= out->dim[k++];
        }
    }
}

void mg_axes_transpose(struct mg_axes *t)
{
    const int64_t *perm = mg_desc_ints(t->desc, MG_ATTR_PERM, NULL);
    const struct mg_shape *out = &t->desc->out_shape[0];
    for (uint32_t d = 0; d < out->rank; d++) {
        uint32_t a = mg_axes_open(t, "d", (int)d, out->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, perm[d], 1);
        mg_axes_out(t, a, 0, d, 1);
    }
}

/* ---- the dimensions that are left alone ---- */

/* One axis for dimension d of all operands and results. */
static void untouched(struct mg_axes *t, uint32_t d)
{
    uint32_t a = mg_axes_open(t, "d", (int)d, t->desc->out_shape[0].dim[d], MG_COMBINE_NONE);
    for (uint32_t i = 0; i < t->desc->in_count; i++)
        mg_axes_in(t, a, i, d, 1);
    for (uint32_t i = 0; i < t->desc->out_count; i++)
        mg_axes_out(t, a, i, d, 1);
}

void mg_axes_slice(struct mg_axes *t)
{
    const struct mg_shape *in = &t->desc->in_shape[0], *out = &t->desc->out_shape[0];
    for (uint32_t d = 0; d < out->rank; d++) {
        if (in->dim[d] == out->dim[d]) /* then start is 0 and step 1, or the size is 1 */
            untouched(t, d);
    }
}

void mg_axes_concat(struct mg_axes *t)
{
    int64_t axis = mg_desc_int(t->desc, MG_ATTR_AXIS);
    for (uint32_t d = 0; d < t->desc->in_shape[0].rank; d++) {
        if (d != axis)
            untouched(t, d);
    }
}

void mg_axes_pad(struct mg_axes *t)
{
    const int64_t *pads = mg_desc_ints(t->desc, MG_ATTR_PADS, NULL);
    uint32_t rank = t->desc->in_shape[0].rank;
    for (uint32_t d = 0; d < rank; d++) {
        if (pads[d] == 0 && pads[d + rank] == 0)
            untouched(t, d);
    }
}

void mg_axes_tile(struct mg_axes *t)
{
    const int64_t *repeats = mg_desc_ints(t->desc, MG_ATTR_REPEATS, NULL);
    for (uint32_t d = 0; d < t->desc->in_shape[0].rank; d++) {
        if (repeats[d] == 1)
            untouched(t, d);
    }
}

void mg_axes_batch_only(struct mg_axes *t)
{
    untouched(t, 0);
}

/* ---- gather: data dimensions but the gathered one, then the indices' ---- */

void mg_axes_gather(struct mg_axes *t)
{
    const struct mg_shape *data = &t->desc->in_shape[0], *index = &t->desc->in_shape[1];
    int64_t axis = mg_desc_int(t->desc, MG_ATTR_AXIS);
    for (uint32_t d = 0; d < data->rank; d++) {
        if (d == axis)
            continue;
        uint32_t a = mg_axes_open(t, "d", (int)d, data->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        mg_axes_out(t, a, 0, d < axis ? (int64_t)d : (int64_t)(d + index->rank) - 1, 1);
    }
    for (uint32_t d = 0; d < index->rank; d++) {
        uint32_t a = mg_axes_open(t, "i", (int)d, index->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 1, d, 1);
        mg_axes_out(t, a, 0, axis + d, 1);
    }
}

void mg_axes_scatter_add(struct mg_axes *t)
{
    const struct mg_shape *from = &t->desc->in_shape[0], *index = &t->desc->in_shape[1];
    int64_t axis = mg_desc_int(t->desc, MG_ATTR_AXIS), end = axis + index->rank;
    for (uint32_t d = 0; d < from->rank; d++) {
        bool indexed = d >= axis && d < end;
        uint32_t a =
            mg_axes_open(t, indexed ? "i" : "d", (int)d, from->dim[d], indexed ? MG_COMBINE_SUM : MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        if (indexed)
            mg_axes_in(t, a, 1, d - axis, 1);
        else
            mg_axes_out(t, a, 0, d < axis ? (int64_t)d : (int64_t)(d - index->rank) + 1, 1);
    }
}

/* ---- opaque: as declared ---- */

void mg_axes_opaque(struct mg_axes *t)
{
    const struct mg_op_desc *desc = t->desc;
    uint32_t count, width = 1 + desc->in_count + desc->out_count;
    const int64_t *list = mg_desc_ints(desc, MG_ATTR_AXES, &count);
    for (uint32_t n = 0; n < count / width; n++) {
        const int64_t *row = list + (size_t)n * width;
        int64_t length = 0;
        for (uint32_t i = 0; i < desc->in_count && !length; i++)
            length = row[1 + i] >= 0 ? desc->in_shape[i].dim[row[1 + i]] : 0;
        for (uint32_t i = 0; i < desc->out_count && !length; i++)
            length = row[1 + desc->in_count + i] >= 0 ? desc->out_shape[i].dim[row[1 + desc->in_count + i]] : 0;
        uint32_t a = mg_axes_open(t, "x", (int)n, length, (enum mg_combiner)row[0]);
        for (uint32_t i = 0; i < desc->in_count; i++)
            mg_axes_in(t, a, i, row[1 + i], 1);
        for (uint32_t i = 0; i < desc->out_count; i++)
            mg_axes_out(t, a, i, row[1 + desc->in_count + i], 1);
    }
}
