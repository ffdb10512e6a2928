/* Rules of reductions. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "formats/aten_rules.h"

/* sum(x), sum(x, dims, keepdim): all dimensions where none are listed. */
mg_value aten_rule_reduce(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t axes[MG_MAX_RANK];
    mg_value x = aten_in(b, c->node, 0, NULL);
    if (!c->node->has_out || x == MG_NONE)
        return aten_decline(b); /* values with indices */
    x = aten_cast(b, x, c->node->dtype);
    uint32_t rank = aten_shape(b, x)->rank, count = 0;
    const struct aten_arg *dims = aten_argument(c->node, 1, "dim");
    if (dims && dims->kind != ATEN_NULL)
        count = aten_ints(c->node, 1, "dim", 1, axes);
    if (rank == 0)
        return x;
    for (uint32_t d = 0; count == 0 && d < rank; d++)
        axes[d] = d;
    count = count ? count : rank;
    aten_set_ints(b, MG_ATTR_AXES, axes, count);
    aten_set_int(b, MG_ATTR_KEEPDIMS, aten_int(c->node, 2, "keepdim", 0));
    return aten_emit1(b, c->type, x);
}

/* argmax(x, dim, keepdim) and the like: one axis, or all elements where none is told; cumsum(x, dim) */
mg_value aten_rule_axis(struct aten_builder *b, const struct aten_rule_call *c)
{
    const struct aten_arg *dim = aten_argument(c->node, 1, "dim");
    bool argument = c->type == MG_OP_ARG_MAX || c->type == MG_OP_ARG_MIN, whole = !dim || dim->kind == ATEN_NULL;
    mg_value x = aten_in(b, c->node, 0, NULL);
    if (!c->node->has_out || x == MG_NONE || aten_shape(b, x)->rank == 0 || (whole ? !argument : dim->kind != ATEN_INT))
        return aten_decline(b);
    if (!argument)
        x = aten_cast(b, x, c->node->dtype);
    if (whole)
        x = aten_reshape(b, x, &(struct mg_shape){.rank = 1, .dim = {mg_shape_elements(aten_shape(b, x))}});
    aten_set_int(b, MG_ATTR_AXIS, whole ? 0 : dim->i);
    if (argument)
        aten_set_int(b, MG_ATTR_KEEPDIMS, aten_int(c->node, 2, "keepdim", 0));
    x = aten_emit1(b, c->type, x);
    return whole ? aten_reshape(b, x, &c->node->shape) : x;
}

/* (dy, y, dim, dtype) */
mg_value aten_rule_softmax_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value dy = aten_in(b, c->node, 0, NULL), y = aten_in(b, c->node, 1, NULL);
    aten_set_int(b, MG_ATTR_AXIS, aten_int(c->node, 2, "dim", -1));
    return aten_cast(b, aten_emit2(b, c->type, dy, y), c->node->dtype);
}

/* ---- reductions that are put together ---- */

/* The axes of `dims`, all where it lists none. */
static uint32_t axes_of(const struct aten_arg *dims, uint32_t rank, int64_t axes[MG_MAX_RANK])
{
    uint32_t count = 0;
    if (dims && dims->kind == ATEN_INT)
        axes[count++] = dims->i;
    for (uint32_t i = 0; dims && dims->kind == ATEN_LIST && i < dims->count && i < MG_MAX_RANK; i++)
        axes[count++] = dims->item[i].i;
    for (uint32_t d = 0; d < rank && (!dims || dims->kind == ATEN_NULL || (dims->kind == ATEN_LIST && !dims->count));
         d++)
        axes[count++] = d;
    return count;
}

static mg_value over(struct aten_builder *b, enum mg_op_type type, mg_value x, const struct aten_arg *dims, bool keep)
{
    int64_t axes[MG_MAX_RANK];
    aten_set_ints(b, MG_ATTR_AXES, axes, axes_of(dims, aten_shape(b, x)->rank, axes));
    aten_set_int(b, MG_ATTR_KEEPDIMS, keep);
    return aten_emit1(b, type, x);
}

/* Narrow numbers are summed up in single precision. */
static mg_value wide(struct aten_builder *b, mg_value x)
{
    bool narrow = aten_dtype(b, x) > MG_DTYPE_F32 && aten_dtype(b, x) < MG_DTYPE_I64;
    return narrow ? aten_cast(b, x, MG_DTYPE_F32) : x;
}

/* max(x, dim, keepdim) -> values, indices */
mg_value aten_rule_extreme(struct aten_builder *b, const struct aten_rule_call *c)
{
    const struct aten_arg *dim = aten_argument(c->node, 1, "dim");
    bool keep = aten_int(c->node, 2, "keepdim", 0) != 0;
    mg_value x = aten_in(b, c->node, 0, NULL), out[2];
    if (!dim || dim->kind != ATEN_INT || x == MG_NONE || aten_shape(b, x)->rank == 0)
        return aten_decline(b);
    out[0] = over(b, c->type, x, dim, keep);
    if (aten_dtype(b, x) == MG_DTYPE_BOOL) /* of which no place is looked for */
        x = aten_cast(b, x, MG_DTYPE_U8);
    aten_set_int(b, MG_ATTR_AXIS, dim->i);
    aten_set_int(b, MG_ATTR_KEEPDIMS, keep);
    out[1] = aten_emit1(b, c->type == MG_OP_REDUCE_MAX ? MG_OP_ARG_MAX : MG_OP_ARG_MIN, x);
    aten_give(b, out, 2);
    return MG_NONE;
}

/* norm(x, p, dims, keepdim), linalg_vector_norm: of p = 1, 2 and infinity. */
mg_value aten_rule_norm(struct aten_builder *b, const struct aten_rule_call *c)
{
    double p = aten_real(c->node, 1, strstr(c->node->op, "linalg") ? "ord" : "p", 2);
    const struct aten_arg *dims = aten_argument(c->node, 2, "dim");
    bool keep = aten_int(c->node, 3, "keepdim", 0) != 0;
    mg_value x = aten_in(b, c->node, 0, NULL);
    if (!c->node->has_out || c->node->dtype >= MG_DTYPE_I64 || x == MG_NONE)
        return aten_decline(b);
    x = wide(b, aten_cast(b, x, c->node->dtype));
    bool endless = fabs(p) >= DBL_MAX;
    if (!endless && p != 1 && p != 2)
        return aten_decline(b);
    if (endless || aten_shape(b, x)->rank == 0)
        x = aten_emit1(b, MG_OP_ABS, x);
    enum mg_op_type largest = p > 0 ? MG_OP_REDUCE_MAX : MG_OP_REDUCE_MIN;
    if (aten_shape(b, x)->rank)
        x = over(b, endless ? largest : p == 1 ? MG_OP_REDUCE_L1 : MG_OP_REDUCE_L2, x, dims, keep);
    return aten_cast(b, x, c->node->dtype);
}

/* Elements that each result of a reduction comes from. */
static double reduced_count(const struct aten_builder *b, mg_value x, const struct aten_arg *dims)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t rank = aten_shape(b, x)->rank, count = axes_of(dims, rank, axes);
    double n = 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = aten_axis(axes[i], rank);
        n *= axis >= 0 && axis < rank ? (double)aten_shape(b, x)->dim[axis] : 0;
    }
    return n;
}

/* var(x, dims, correction, keepdim) and std, alone or with the mean behind it: the squares of what is left without the
 * mean, summed up and divided by their number less the correction. */
mg_value aten_rule_variance(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool keep = aten_int(c->node, 3, "keepdim", 0) != 0, with_mean = strstr(c->node->op, "_mean") != NULL;
    const struct aten_arg *dims = aten_argument(c->node, 1, "dim");
    mg_value x = aten_in(b, c->node, 0, NULL), out[2];
    enum mg_dtype dtype = aten_dtype(b, x);
    double count = reduced_count(b, x, dims) - aten_real(c->node, 2, "correction", 1);
    if (x == MG_NONE || dtype >= MG_DTYPE_I64 || aten_shape(b, x)->rank == 0 || !(count > 0))
        return aten_decline(b);
    x = wide(b, x);
    mg_value mean = over(b, MG_OP_REDUCE_MEAN, x, dims, true);
    mg_value v = over(b, MG_OP_REDUCE_SUM_SQUARE, aten_emit2(b, MG_OP_SUB, x, mean), dims, keep);
    v = aten_affine(b, v, 1 / count, 0);
    if (c->type == MG_OP_SQRT)
        v = aten_emit1(b, MG_OP_SQRT, v);
    out[0] = aten_cast(b, v, dtype);
    if (!with_mean)
        return out[0];
    out[1] = aten_cast(b, aten_reshape(b, mean, aten_shape(b, v)), dtype);
    aten_give(b, out, 2);
    return MG_NONE;
}
