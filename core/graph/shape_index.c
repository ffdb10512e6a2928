/* Shape rules: reading and writing by index, one_hot, top_k, triangles, reversals, random numbers. */
#include <string.h>

#include "graph/ops_priv.h"

static enum mg_code result(struct mg_infer *t, uint32_t slot, const struct mg_shape *shape, enum mg_dtype dtype)
{
    t->out[slot] = *shape;
    t->out_dtype[slot] = dtype;
    return MG_OK;
}

static enum mg_code check_indices(struct mg_infer *t)
{
    if (mg_dtype_is_integer(t->in_dtype[1]) && t->in_dtype[1] != MG_DTYPE_BOOL)
        return MG_OK;
    return mg_infer_fail(t, "/inputs/1", "indices are %s, must be integers", mg_dtype_name(t->in_dtype[1]));
}

static enum mg_code misfit(struct mg_infer *t, uint32_t operand, const struct mg_shape *other)
{
    return mg_infer_fail(t, "/inputs", "operand %u of shape %s does not fit %s", operand,
                         mg_shape_text(t->arena, &t->in[operand]), mg_shape_text(t->arena, other));
}

static enum mg_code check_reduction(struct mg_infer *t)
{
    static const char *const kinds[] = {"none", "add", "mul", "max", "min", NULL};
    return mg_infer_choice(t, MG_ATTR_REDUCTION, kinds);
}

/* ---- elements along an axis ---- */

/* Operand 0 and the indices have one rank; outside `axis` the indices do not reach over it. */
static enum mg_code check_elements(struct mg_infer *t)
{
    uint32_t axis;
    MG_TRY(check_indices(t));
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, t->in[0].rank, &axis));
    bool fits = t->in[0].rank == t->in[1].rank;
    for (uint32_t d = 0; fits && d < t->in[0].rank; d++)
        fits = d == axis || t->in[1].dim[d] <= t->in[0].dim[d];
    return fits ? MG_OK : misfit(t, 1, &t->in[0]);
}

enum mg_code mg_shape_gather_elements(struct mg_infer *t)
{
    MG_TRY(check_elements(t));
    return result(t, 0, &t->in[1], t->in_dtype[0]);
}

enum mg_code mg_shape_scatter_elements(struct mg_infer *t)
{
    MG_TRY(check_elements(t));
    MG_TRY(check_reduction(t));
    if (!mg_shape_equal(&t->in[1], &t->in[2]) || t->in_dtype[2] != t->in_dtype[0])
        return misfit(t, 2, &t->in[1]);
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

/* ---- slices by tuples of indices ---- */

/* The shape of the slices that indices [b..., i..., k] take from `data`. */
static enum mg_code sliced(struct mg_infer *t, struct mg_shape *out)
{
    const struct mg_shape *data = &t->in[0], *index = &t->in[1];
    int64_t batch = mg_infer_int(t, MG_ATTR_BATCH_DIMS);
    MG_TRY(check_indices(t));
    MG_TRY(mg_infer_rank(t, 1, 1, MG_MAX_RANK));
    int64_t count = index->dim[index->rank - 1];
    if (batch < 0 || batch >= index->rank || count < 1 || count > data->rank - batch)
        return misfit(t, 1, data);
    for (uint32_t d = 0; d < batch; d++) {
        if (data->dim[d] != index->dim[d])
            return misfit(t, 1, data);
    }
    *out = *index;
    out->rank--;
    for (uint32_t d = (uint32_t)(batch + count); d < data->rank; d++) {
        if (out->rank == MG_MAX_RANK)
            return mg_infer_fail(t, "/inputs", "the slices have a rank over %d", MG_MAX_RANK);
        out->dim[out->rank++] = data->dim[d];
    }
    return MG_OK;
}

enum mg_code mg_shape_gather_nd(struct mg_infer *t)
{
    struct mg_shape out;
    MG_TRY(sliced(t, &out));
    return result(t, 0, &out, t->in_dtype[0]);
}

enum mg_code mg_shape_scatter_nd(struct mg_infer *t)
{
    struct mg_shape want;
    MG_TRY(sliced(t, &want));
    MG_TRY(check_reduction(t));
    if (!mg_shape_equal(&t->in[2], &want) || t->in_dtype[2] != t->in_dtype[0])
        return misfit(t, 2, &want);
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

/* ---- one_hot, top_k ---- */

enum mg_code mg_shape_one_hot(struct mg_infer *t)
{
    const struct mg_shape *index = &t->in[0];
    int64_t depth = mg_infer_int(t, MG_ATTR_DEPTH);
    uint32_t axis, from = 0;
    if (index->rank == MG_MAX_RANK || depth < 1)
        return mg_infer_fail(t, "/attrs/depth", "the rank is over %d or the depth is not positive", MG_MAX_RANK);
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, index->rank + 1, &axis));
    if (t->in[1].rank != 1 || t->in[1].dim[0] != 2)
        return mg_infer_fail(t, "/inputs/1", "the values have shape %s, must be [2]: off and on",
                             mg_shape_text(t->arena, &t->in[1]));
    struct mg_shape out = {.rank = index->rank + 1};
    for (uint32_t d = 0; d < out.rank; d++)
        out.dim[d] = d == axis ? depth : index->dim[from++];
    return result(t, 0, &out, t->in_dtype[1]);
}

enum mg_code mg_shape_top_k(struct mg_infer *t)
{
    uint32_t axis;
    struct mg_shape out = t->in[0];
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, out.rank, &axis));
    int64_t k = mg_infer_int(t, MG_ATTR_K);
    if (k < 0 || k > out.dim[axis])
        return mg_infer_fail(t, "/attrs/k", "attribute 'k' is %lld, outside 0 to %lld", (long long)k,
                             (long long)out.dim[axis]);
    out.dim[axis] = k;
    result(t, 1, &out, MG_DTYPE_I64);
    return result(t, 0, &out, t->in_dtype[0]);
}

/* ---- triangles and reversals ---- */

enum mg_code mg_shape_trilu(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 2, MG_MAX_RANK));
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

enum mg_code mg_shape_eye(struct mg_infer *t)
{
    MG_TRY(mg_infer_list_size(t, MG_ATTR_SHAPE, 2));
    return mg_shape_fill(t);
}

/* Makes every entry of `axes` non-negative; none is listed twice. */
static enum mg_code resolve_axes(struct mg_infer *t)
{
    uint32_t count, rank = t->in[0].rank;
    const int64_t *axes = mg_infer_ints(t, MG_ATTR_AXES, &count);
    int64_t list[MG_MAX_RANK];
    bool seen[MG_MAX_RANK] = {0};
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || seen[axis])
            return mg_infer_fail(t, "/attrs/axes", "axis %lld is outside rank %u or given twice", (long long)axes[i],
                                 rank);
        seen[axis] = true;
        list[i] = axis;
    }
    mg_infer_set_ints(t, MG_ATTR_AXES, list, count);
    return MG_OK;
}

enum mg_code mg_shape_reverse(struct mg_infer *t)
{
    MG_TRY(resolve_axes(t));
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

enum mg_code mg_shape_roll(struct mg_infer *t)
{
    MG_TRY(mg_infer_list_size(t, MG_ATTR_SHIFTS, mg_infer_attr(t, MG_ATTR_AXES)->count));
    return mg_shape_reverse(t);
}

enum mg_code mg_shape_reverse_sequence(struct mg_infer *t)
{
    uint32_t batch, time;
    MG_TRY(mg_infer_axis(t, MG_ATTR_BATCH_AXIS, t->in[0].rank, &batch));
    MG_TRY(mg_infer_axis(t, MG_ATTR_TIME_AXIS, t->in[0].rank, &time));
    MG_TRY(check_indices(t));
    if (batch == time || t->in[1].rank != 1 || t->in[1].dim[0] != t->in[0].dim[batch])
        return misfit(t, 1, &t->in[0]);
    return result(t, 0, &t->in[0], t->in_dtype[0]);
}

/* ---- random numbers ---- */

static enum mg_code dtype_or(struct mg_infer *t, enum mg_dtype fallback, enum mg_dtype *dtype)
{
    const char *name = mg_infer_attr(t, MG_ATTR_TO)->string;
    *dtype = *name ? mg_dtype_from_name(name) : fallback;
    if (*dtype == MG_DTYPE_COUNT)
        return mg_infer_fail(t, "/attrs/to", "'%.40s' is no dtype", name);
    return MG_OK;
}

enum mg_code mg_shape_bernoulli(struct mg_infer *t)
{
    enum mg_dtype dtype;
    MG_TRY(dtype_or(t, t->in_dtype[0], &dtype));
    return result(t, 0, &t->in[0], dtype);
}

enum mg_code mg_shape_multinomial(struct mg_infer *t)
{
    enum mg_dtype dtype;
    MG_TRY(mg_infer_rank(t, 0, 2, 2));
    MG_TRY(dtype_or(t, MG_DTYPE_I32, &dtype));
    struct mg_shape out = {.rank = 2, .dim = {t->in[0].dim[0], mg_infer_int(t, MG_ATTR_SAMPLE_SIZE)}};
    return result(t, 0, &out, dtype);
}
