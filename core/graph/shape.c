/* Shape rules: elementwise, reductions, softmax, losses, updates, operators without operands. */
#include <stdio.h>
#include <string.h>

#include "graph/ops_priv.h"

static enum mg_code result(struct mg_infer *t, uint32_t slot, const struct mg_shape *shape, enum mg_dtype dtype)
{
    t->out[slot] = *shape;
    t->out_dtype[slot] = dtype;
    return MG_OK;
}

/* ---- elementwise ---- */

/* Right-aligned; sizes agree or one of them is 1. */
static enum mg_code broadcast(struct mg_infer *t, struct mg_shape *out)
{
    *out = t->in[0];
    for (uint32_t i = 1; i < t->in_count; i++) {
        const struct mg_shape *b = &t->in[i];
        struct mg_shape a = *out;
        out->rank = a.rank > b->rank ? a.rank : b->rank;
        for (uint32_t d = 0; d < out->rank; d++) {
            int64_t x = d + a.rank >= out->rank ? a.dim[d + a.rank - out->rank] : 1;
            int64_t y = d + b->rank >= out->rank ? b->dim[d + b->rank - out->rank] : 1;
            if (x != y && x != 1 && y != 1)
                return mg_infer_fail(t, "/inputs", "operand shapes %s and %s do not broadcast",
                                     mg_shape_text(t->arena, &a), mg_shape_text(t->arena, b));
            out->dim[d] = x == 1 ? y : x;
        }
    }
    return MG_OK;
}

static enum mg_code same_shapes(struct mg_infer *t)
{
    for (uint32_t i = 1; i < t->in_count; i++) {
        if (!mg_shape_equal(&t->in[0], &t->in[i]))
            return mg_infer_fail(t, "/inputs", "operand %u has shape %s where operand 0 has %s", i,
                                 mg_shape_text(t->arena, &t->in[i]), mg_shape_text(t->arena, &t->in[0]));
    }
    return MG_OK;
}

static enum mg_code check_gelu(struct mg_infer *t)
{
    static const char *const kinds[] = {"none", "tanh", NULL};
    return mg_infer_attr(t, MG_ATTR_APPROXIMATE) ? mg_infer_choice(t, MG_ATTR_APPROXIMATE, kinds) : MG_OK;
}

enum mg_code mg_shape_unary(struct mg_infer *t)
{
    MG_TRY(check_gelu(t));
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

enum mg_code mg_shape_binary(struct mg_infer *t)
{
    struct mg_shape out;
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(broadcast(t, &out));
    return result(t, 0, &out, t->in_dtype[0]);
}

enum mg_code mg_shape_compare(struct mg_infer *t)
{
    MG_TRY(mg_shape_binary(t));
    t->out_dtype[0] = MG_DTYPE_BOOL;
    return MG_OK;
}

/* A question about each element. */
enum mg_code mg_shape_test(struct mg_infer *t)
{
    return result(t, 0, &t->in[0], MG_DTYPE_BOOL);
}

enum mg_code mg_shape_bits(struct mg_infer *t)
{
    static const char *const directions[] = {"LEFT", "RIGHT", NULL};
    if (!mg_dtype_is_integer(t->in_dtype[0]))
        return mg_infer_fail(t, "/inputs/0", "the operand is %s, must be whole numbers", mg_dtype_name(t->in_dtype[0]));
    if (t->type == MG_OP_BIT_SHIFT)
        MG_TRY(mg_infer_choice(t, MG_ATTR_DIRECTION, directions));
    return mg_shape_binary(t);
}

/* All operands broadcast to the shape of operand 0. */
static enum mg_code broadcast_to_first(struct mg_infer *t)
{
    MG_TRY(mg_shape_binary(t));
    if (mg_shape_equal(&t->out[0], &t->in[0]))
        return MG_OK;
    return mg_infer_fail(t, "/inputs", "operands do not broadcast to the shape %s of operand 0",
                         mg_shape_text(t->arena, &t->in[0]));
}

enum mg_code mg_shape_prelu(struct mg_infer *t)
{
    return broadcast_to_first(t);
}

enum mg_code mg_shape_prelu_grad(struct mg_infer *t)
{
    if (!mg_shape_equal(&t->in[0], &t->in[1]))
        return mg_infer_fail(t, "/inputs", "dy has shape %s where x has %s", mg_shape_text(t->arena, &t->in[0]),
                             mg_shape_text(t->arena, &t->in[1]));
    return broadcast_to_first(t);
}

enum mg_code mg_shape_where(struct mg_infer *t)
{
    struct mg_shape out;
    if (t->in_dtype[0] != MG_DTYPE_BOOL)
        return mg_infer_fail(t, "/inputs/0", "the condition is %s, must be bool", mg_dtype_name(t->in_dtype[0]));
    if (t->in_dtype[1] != t->in_dtype[2])
        return mg_infer_fail(t, "/inputs/2", "operand 2 is %s where operand 1 is %s", mg_dtype_name(t->in_dtype[2]),
                             mg_dtype_name(t->in_dtype[1]));
    MG_TRY(broadcast(t, &out));
    return result(t, 0, &out, t->in_dtype[1]);
}

enum mg_code mg_shape_same(struct mg_infer *t)
{
    MG_TRY(check_gelu(t));
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(same_shapes(t));
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

/* Updates: state may be wider than the gradient. */
enum mg_code mg_shape_update(struct mg_infer *t)
{
    int64_t power = t->type == MG_OP_MOMENT ? mg_infer_int(t, MG_ATTR_POWER) : 1;
    if (power != 1 && power != 2)
        return mg_infer_fail(t, "/attrs/power", "attribute 'power' is %lld, must be 1 or 2", (long long)power);
    MG_TRY(same_shapes(t));
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

enum mg_code mg_shape_masked(struct mg_infer *t)
{
    MG_TRY(same_shapes(t));
    if (t->in_dtype[1] != MG_DTYPE_BOOL)
        return mg_infer_fail(t, "/inputs/1", "the mask is %s, must be bool", mg_dtype_name(t->in_dtype[1]));
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

enum mg_code mg_shape_dropout(struct mg_infer *t)
{
    double ratio = mg_infer_attr(t, MG_ATTR_RATIO)->f;
    if (!(ratio >= 0 && ratio < 1))
        return mg_infer_fail(t, "/attrs/ratio", "attribute 'ratio' is %g, must be in [0, 1)", ratio);
    result(t, 1, &t->in[0], MG_DTYPE_BOOL);
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

static enum mg_code dtype_attr(struct mg_infer *t, enum mg_dtype *dtype)
{
    const char *name = mg_infer_attr(t, MG_ATTR_TO)->string;
    *dtype = mg_dtype_from_name(name);
    if (*dtype == MG_DTYPE_COUNT)
        return mg_infer_fail(t, "/attrs/to", "'%.40s' is no dtype", name);
    return MG_OK;
}

enum mg_code mg_shape_cast(struct mg_infer *t)
{
    enum mg_dtype dtype;
    MG_TRY(dtype_attr(t, &dtype));
    return result(t, 0, &t->in[0], dtype);
}

/* ---- reductions ---- */

/* Ascending, non-negative, unique; an empty list means all. */
static enum mg_code resolve_axes(struct mg_infer *t, bool reduced[MG_MAX_RANK])
{
    uint32_t count, rank = t->in[0].rank, kept = 0;
    const int64_t *axes = mg_infer_ints(t, MG_ATTR_AXES, &count);
    int64_t list[MG_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        reduced[d] = count == 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || reduced[axis])
            return mg_infer_fail(t, "/attrs/axes", "axis %lld is outside rank %u or given twice", (long long)axes[i],
                                 rank);
        reduced[axis] = true;
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (reduced[d])
            list[kept++] = d;
    }
    mg_infer_set_ints(t, MG_ATTR_AXES, list, kept);
    return MG_OK;
}

static void drop(const struct mg_shape *in, const bool *reduced, bool keep, struct mg_shape *out)
{
    *out = (struct mg_shape){0};
    for (uint32_t d = 0; d < in->rank; d++) {
        if (!reduced[d])
            out->dim[out->rank++] = in->dim[d];
        else if (keep)
            out->dim[out->rank++] = 1;
    }
}

enum mg_code mg_shape_reduce(struct mg_infer *t)
{
    bool reduced[MG_MAX_RANK] = {0};
    struct mg_shape out;
    MG_TRY(resolve_axes(t, reduced));
    drop(&t->in[0], reduced, mg_infer_int(t, MG_ATTR_KEEPDIMS) != 0, &out);
    struct mg_attr *divisor = mg_infer_attr(t, MG_ATTR_DIVISOR);
    if (divisor && divisor->f == 0) {
        divisor->f = 1;
        for (uint32_t d = 0; d < t->in[0].rank; d++)
            divisor->f *= reduced[d] ? (double)t->in[0].dim[d] : 1;
    }
    return result(t, 0, &out, t->in_dtype[0]);
}

/* Over listed axes, shape kept. */
enum mg_code mg_shape_over_axes(struct mg_infer *t)
{
    bool over[MG_MAX_RANK] = {0};
    MG_TRY(resolve_axes(t, over));
    return mg_shape_same(t);
}

enum mg_code mg_shape_arg_max(struct mg_infer *t)
{
    bool reduced[MG_MAX_RANK] = {0};
    struct mg_shape out;
    uint32_t axis;
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, t->in[0].rank, &axis));
    reduced[axis] = true;
    drop(&t->in[0], reduced, mg_infer_int(t, MG_ATTR_KEEPDIMS) != 0, &out);
    return result(t, 0, &out, MG_DTYPE_I64);
}

/* Along one axis, shape kept: softmax, cumsum and gradients. */
enum mg_code mg_shape_rows(struct mg_infer *t)
{
    uint32_t axis;
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, t->in[0].rank, &axis));
    return mg_shape_same(t);
}

enum mg_code mg_shape_lp_norm(struct mg_infer *t)
{
    int64_t p = mg_infer_int(t, MG_ATTR_P);
    if (p != 1 && p != 2)
        return mg_infer_fail(t, "/attrs/p", "attribute 'p' is %lld, must be 1 or 2", (long long)p);
    return mg_shape_rows(t);
}

/* ---- cross entropy ---- */

static enum mg_code check_targets(struct mg_infer *t, uint32_t logits)
{
    const struct mg_shape *x = &t->in[logits], *y = &t->in[logits + 1];
    MG_TRY(mg_infer_rank(t, logits, 2, MG_MAX_RANK));
    bool fits = y->rank + 1 == x->rank && y->dim[0] == x->dim[0];
    for (uint32_t d = 1; fits && d < y->rank; d++)
        fits = y->dim[d] == x->dim[d + 1];
    if (!fits)
        return mg_infer_fail(t, "/inputs", "targets %s do not fit logits %s (class dimension 1)",
                             mg_shape_text(t->arena, y), mg_shape_text(t->arena, x));
    if (!mg_dtype_is_integer(t->in_dtype[logits + 1]) || t->in_dtype[logits + 1] == MG_DTYPE_BOOL)
        return mg_infer_fail(t, "/inputs", "targets are %s, must be class indices",
                             mg_dtype_name(t->in_dtype[logits + 1]));
    struct mg_attr *divisor = mg_infer_attr(t, MG_ATTR_DIVISOR);
    if (divisor->f == 0 && mg_infer_int(t, MG_ATTR_IGNORE_INDEX) == MG_IGNORE_NONE)
        divisor->f = (double)mg_shape_elements(y);
    return MG_OK;
}

enum mg_code mg_shape_cross_entropy(struct mg_infer *t)
{
    MG_TRY(check_targets(t, 0));
    return result(t, 0, &(struct mg_shape){0}, t->in_dtype[0]);
}

enum mg_code mg_shape_cross_entropy_grad(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 0, 0));
    MG_TRY(check_targets(t, 1));
    return result(t, 0, &t->in[1], t->in_dtype[1]);
}

/* ---- no operands ---- */

enum mg_code mg_shape_fill(struct mg_infer *t)
{
    struct mg_shape out = {0};
    enum mg_dtype dtype;
    const int64_t *dims = mg_infer_ints(t, MG_ATTR_SHAPE, &out.rank);
    MG_TRY(dtype_attr(t, &dtype));
    if (out.rank > MG_MAX_RANK)
        return mg_infer_fail(t, "/attrs/shape", "rank %u is over %d", out.rank, MG_MAX_RANK);
    memcpy(out.dim, dims, out.rank * sizeof *dims);
    return result(t, 0, &out, dtype);
}

enum mg_code mg_shape_iota(struct mg_infer *t)
{
    struct mg_shape out = {.rank = 1, .dim = {mg_infer_int(t, MG_ATTR_SIZE)}};
    enum mg_dtype dtype;
    MG_TRY(dtype_attr(t, &dtype));
    return result(t, 0, &out, dtype);
}

/* ---- opaque ---- */

/* All dimensions that an axis runs over have one length. */
static bool opaque_axis_agrees(const struct mg_infer *t, const int64_t *row)
{
    int64_t length = -1;
    for (uint32_t i = 0; i < t->in_count + t->out_count; i++) {
        const struct mg_shape *shape = i < t->in_count ? &t->in[i] : &t->out[i - t->in_count];
        if (row[1 + i] < 0)
            continue;
        if (length >= 0 && shape->dim[row[1 + i]] != length)
            return false;
        length = shape->dim[row[1 + i]];
    }
    return true;
}

/* No earlier axis runs over one of its dimensions. */
static bool opaque_axis_is_apart(const int64_t *axes, uint32_t at, uint32_t width)
{
    for (uint32_t other = 0; other < at; other += width) {
        for (uint32_t i = 1; i < width; i++) {
            if (axes[at + i] >= 0 && axes[at + i] == axes[other + i])
                return false;
        }
    }
    return true;
}

/* Such that figures summed over a graph stay numbers that a plan may state. */
static enum mg_code check_amount(struct mg_infer *t, enum mg_attr_key key)
{
    char part[32];
    double amount = mg_infer_attr(t, key)->f;
    snprintf(part, sizeof part, "/attrs/%s", mg_attr_name(key));
    if (amount >= 0 && amount <= 1e18)
        return MG_OK;
    return mg_infer_fail(t, part, "%s is %g, must be from 0 to 1e18", mg_attr_name(key), amount);
}

enum mg_code mg_shape_opaque(struct mg_infer *t)
{
    uint32_t count, width = 1 + t->in_count + t->out_count;
    const int64_t *axes = mg_infer_ints(t, MG_ATTR_AXES, &count);
    static const char *const purities[] = {"pure", "seeded", "impure", NULL};
    MG_TRY(mg_infer_choice(t, MG_ATTR_PURITY, purities));
    MG_TRY(check_amount(t, MG_ATTR_FLOPS));
    MG_TRY(check_amount(t, MG_ATTR_BYTES));
    if (count % width != 0 || count / width > MG_MAX_AXES)
        return mg_infer_fail(t, "/attrs/axes", "has %u entries, must have %u for each of at most %d axes", count, width,
                             MG_MAX_AXES);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = i % width;
        int64_t most = k == 0             ? MG_COMBINE_PROD
                       : k <= t->in_count ? (int64_t)t->in[k - 1].rank - 1
                                          : (int64_t)t->out[k - 1 - t->in_count].rank - 1;
        if (axes[i] < (k ? -1 : 0) || axes[i] > most)
            return mg_infer_fail(t, "/attrs/axes", "entry %u is %lld, outside its range", i, (long long)axes[i]);
    }
    for (uint32_t at = 0; at < count; at += width) {
        if (!opaque_axis_agrees(t, axes + at) || !opaque_axis_is_apart(axes, at, width))
            return mg_infer_fail(t, "/attrs/axes",
                                 "axis %u joins dimensions of different lengths, or one that another "
                                 "axis has",
                                 at / width);
    }
    return MG_OK;
}
