/* Shape rules: movement. */
#include <string.h>

#include "graph/ops_priv.h"

static enum mg_code result(struct mg_infer *t, uint32_t slot, const struct mg_shape *shape)
{
    t->out[slot] = *shape;
    t->out_dtype[slot] = t->in_dtype[0];
    return MG_OK;
}

static enum mg_code too_deep(struct mg_infer *t, uint32_t rank)
{
    return mg_infer_fail(t, "/attrs", "rank %u of the result is over %d", rank, MG_MAX_RANK);
}

/* ---- reshape family ---- */

/* 0 copies the operand's size (unless allowzero), -1 takes what is left. */
static enum mg_code reshape_target(struct mg_infer *t, struct mg_shape *out)
{
    const struct mg_shape *in = &t->in[0];
    uint32_t count;
    const int64_t *dims = mg_infer_ints(t, MG_ATTR_SHAPE, &count);
    int64_t rest = MG_MAX_RANK, known = 1;
    if (count > MG_MAX_RANK)
        return too_deep(t, count);
    out->rank = count;
    for (uint32_t d = 0; d < count; d++) {
        out->dim[d] = dims[d];
        if (dims[d] == 0 && !mg_infer_int(t, MG_ATTR_ALLOWZERO))
            out->dim[d] = d < in->rank ? in->dim[d] : -2;
        if (out->dim[d] < -1 || (out->dim[d] == -1 && rest != MG_MAX_RANK))
            return mg_infer_fail(t, "/attrs/shape", "entry %u of the shape is invalid", d);
        if (out->dim[d] == -1)
            rest = d;
        else if (__builtin_mul_overflow(known, out->dim[d], &known))
            return mg_infer_fail(t, "/attrs/shape", "the shape overflows");
    }
    int64_t elements = mg_shape_elements(in);
    if (rest != MG_MAX_RANK)
        out->dim[rest] = known > 0 && elements % known == 0 ? elements / known : -1;
    else if (known != elements)
        out->rank = MG_MAX_RANK + 1;
    return MG_OK;
}

enum mg_code mg_shape_reshape(struct mg_infer *t)
{
    struct mg_shape out = {0};
    MG_TRY(reshape_target(t, &out));
    bool fits = out.rank <= MG_MAX_RANK;
    for (uint32_t d = 0; fits && d < out.rank; d++)
        fits = out.dim[d] >= 0;
    if (!fits)
        return mg_infer_fail(t, "/attrs/shape", "the %lld elements of %s do not fill the shape",
                             (long long)mg_shape_elements(&t->in[0]), mg_shape_text(t->arena, &t->in[0]));
    mg_infer_set_ints(t, MG_ATTR_SHAPE, out.dim, out.rank);
    mg_infer_attr(t, MG_ATTR_ALLOWZERO)->i = 1;
    return result(t, 0, &out);
}

/* Marks the axes of attribute `axes` (of a shape of this rank), none twice, and stores them ascending. */
static enum mg_code mark_axes(struct mg_infer *t, uint32_t rank, bool marked[MG_MAX_RANK])
{
    uint32_t count, n = 0;
    const int64_t *axes = mg_infer_ints(t, MG_ATTR_AXES, &count);
    int64_t list[MG_MAX_RANK];
    memset(marked, 0, MG_MAX_RANK * sizeof *marked);
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || marked[axis])
            return mg_infer_fail(t, "/attrs/axes", "axis %lld is outside rank %u or given twice", (long long)axes[i],
                                 rank);
        marked[axis] = true;
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (marked[d])
            list[n++] = d;
    }
    mg_infer_set_ints(t, MG_ATTR_AXES, list, n);
    return MG_OK;
}

enum mg_code mg_shape_squeeze(struct mg_infer *t)
{
    const struct mg_shape *in = &t->in[0];
    struct mg_shape out = {0};
    bool gone[MG_MAX_RANK];
    if (mg_infer_attr(t, MG_ATTR_AXES)->count == 0) {
        int64_t ones[MG_MAX_RANK];
        uint32_t n = 0;
        for (uint32_t d = 0; d < in->rank; d++) {
            if (in->dim[d] == 1)
                ones[n++] = d;
        }
        mg_infer_set_ints(t, MG_ATTR_AXES, ones, n);
    }
    MG_TRY(mark_axes(t, in->rank, gone));
    for (uint32_t d = 0; d < in->rank; d++) {
        if (gone[d] && in->dim[d] != 1)
            return mg_infer_fail(t, "/attrs/axes", "dimension %u of %s is not 1", d, mg_shape_text(t->arena, in));
        if (!gone[d])
            out.dim[out.rank++] = in->dim[d];
    }
    return result(t, 0, &out);
}

enum mg_code mg_shape_unsqueeze(struct mg_infer *t)
{
    const struct mg_shape *in = &t->in[0];
    uint32_t rank = in->rank + mg_infer_attr(t, MG_ATTR_AXES)->count, from = 0;
    bool added[MG_MAX_RANK];
    if (rank > MG_MAX_RANK)
        return too_deep(t, rank);
    MG_TRY(mark_axes(t, rank, added));
    struct mg_shape out = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++)
        out.dim[d] = added[d] ? 1 : in->dim[from++];
    return result(t, 0, &out);
}

enum mg_code mg_shape_flatten(struct mg_infer *t)
{
    const struct mg_shape *in = &t->in[0];
    struct mg_attr *attr = mg_infer_attr(t, MG_ATTR_AXIS);
    int64_t axis = attr->i < 0 ? attr->i + in->rank : attr->i;
    if (axis < 0 || axis > in->rank)
        return mg_infer_fail(t, "/attrs/axis", "attribute 'axis' is %lld, outside rank %u", (long long)attr->i,
                             in->rank);
    attr->i = axis;
    struct mg_shape out = {.rank = 2, .dim = {1, 1}};
    for (uint32_t d = 0; d < in->rank; d++)
        out.dim[d < axis ? 0 : 1] *= in->dim[d];
    return result(t, 0, &out);
}

enum mg_code mg_shape_expand(struct mg_infer *t)
{
    const struct mg_shape *in = &t->in[0];
    uint32_t count;
    const int64_t *dims = mg_infer_ints(t, MG_ATTR_SHAPE, &count);
    if (count > MG_MAX_RANK)
        return too_deep(t, count);
    struct mg_shape out = {.rank = count > in->rank ? count : in->rank};
    for (uint32_t d = 0; d < out.rank; d++) {
        int64_t have = d + in->rank >= out.rank ? in->dim[d + in->rank - out.rank] : 1;
        int64_t want = d + count >= out.rank ? dims[d + count - out.rank] : 1;
        if (want < 0 || (have != want && have != 1 && want != 1))
            return mg_infer_fail(t, "/attrs/shape", "%s does not expand to entry %u of the shape",
                                 mg_shape_text(t->arena, in), d);
        out.dim[d] = have == 1 ? want : have;
    }
    mg_infer_set_ints(t, MG_ATTR_SHAPE, out.dim, out.rank);
    return result(t, 0, &out);
}

enum mg_code mg_shape_transpose(struct mg_infer *t)
{
    const struct mg_shape *in = &t->in[0];
    int64_t perm[MG_MAX_RANK];
    bool seen[MG_MAX_RANK] = {0};
    if (mg_infer_attr(t, MG_ATTR_PERM)->count == 0) {
        for (uint32_t d = 0; d < in->rank; d++)
            perm[d] = in->rank - 1 - d;
        mg_infer_set_ints(t, MG_ATTR_PERM, perm, in->rank);
    }
    MG_TRY(mg_infer_list_size(t, MG_ATTR_PERM, in->rank));
    const int64_t *given = mg_infer_ints(t, MG_ATTR_PERM, NULL);
    struct mg_shape out = {.rank = in->rank};
    for (uint32_t d = 0; d < in->rank; d++) {
        perm[d] = given[d] < 0 ? given[d] + in->rank : given[d];
        if (perm[d] < 0 || perm[d] >= in->rank || seen[perm[d]])
            return mg_infer_fail(t, "/attrs/perm", "entry %u makes no permutation", d);
        seen[perm[d]] = true;
        out.dim[d] = in->dim[perm[d]];
    }
    mg_infer_set_ints(t, MG_ATTR_PERM, perm, in->rank);
    return result(t, 0, &out);
}

/* ---- slices ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Completes starts, ends, axes, steps to all dimensions of `whole`; sizes of the slice into *out. */
static enum mg_code resolve_slice(struct mg_infer *t, const struct mg_shape *whole, struct mg_shape *out)
{
    uint32_t count, axes_count, step_count;
    const int64_t *starts = mg_infer_ints(t, MG_ATTR_STARTS, &count);
    const int64_t *axes = mg_infer_ints(t, MG_ATTR_AXES, &axes_count);
    const int64_t *steps = mg_infer_ints(t, MG_ATTR_STEPS, &step_count);
    MG_TRY(mg_infer_list_size(t, MG_ATTR_ENDS, count));
    const int64_t *ends = mg_infer_ints(t, MG_ATTR_ENDS, NULL);
    if ((axes_count && axes_count != count) || (step_count && step_count != count) || count > whole->rank)
        return mg_infer_fail(t, "/attrs", "starts, ends, axes and steps do not fit together");
    int64_t full[4][MG_MAX_RANK];
    bool seen[MG_MAX_RANK] = {0};
    for (uint32_t d = 0; d < whole->rank; d++) {
        full[0][d] = 0, full[1][d] = whole->dim[d], full[2][d] = d, full[3][d] = 1;
        out->dim[d] = whole->dim[d];
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t a = axes_count ? axes[i] : i, step = step_count ? steps[i] : 1;
        a = a < 0 ? a + whole->rank : a;
        if (a < 0 || a >= whole->rank || seen[a])
            return mg_infer_fail(t, "/attrs/axes", "entry %u is outside rank %u or given twice", i, whole->rank);
        if (step < 1)
            return mg_infer_fail(t, "/attrs/steps", "entry %u is %lld, must be positive", i, (long long)step);
        int64_t size = whole->dim[a];
        int64_t from = clamp(starts[i] < 0 ? starts[i] + size : starts[i], 0, size);
        int64_t to = clamp(ends[i] < 0 ? ends[i] + size : ends[i], from, size);
        seen[a] = true;
        full[0][a] = from, full[1][a] = to, full[3][a] = step;
        out->dim[a] = to == from ? 0 : (to - from - 1) / step + 1;
    }
    static const enum mg_attr_key keys[] = {MG_ATTR_STARTS, MG_ATTR_ENDS, MG_ATTR_AXES, MG_ATTR_STEPS};
    for (uint32_t k = 0; k < 4; k++)
        mg_infer_set_ints(t, keys[k], full[k], whole->rank);
    out->rank = whole->rank;
    return MG_OK;
}

enum mg_code mg_shape_slice(struct mg_infer *t)
{
    struct mg_shape out;
    MG_TRY(resolve_slice(t, &t->in[0], &out));
    return result(t, 0, &out);
}

enum mg_code mg_shape_slice_grad(struct mg_infer *t)
{
    struct mg_shape whole = {0}, part;
    const int64_t *dims = mg_infer_ints(t, MG_ATTR_SHAPE, &whole.rank);
    if (whole.rank > MG_MAX_RANK)
        return too_deep(t, whole.rank);
    memcpy(whole.dim, dims, whole.rank * sizeof *dims);
    if (!mg_shape_fits(&whole, t->in_dtype[0]))
        return mg_infer_fail(t, "/attrs/shape", "the shape has a negative or overflowing size");
    MG_TRY(resolve_slice(t, &whole, &part));
    if (!mg_shape_equal(&part, &t->in[0]))
        return mg_infer_fail(t, "/inputs/0", "dy has shape %s, must be %s", mg_shape_text(t->arena, &t->in[0]),
                             mg_shape_text(t->arena, &part));
    return result(t, 0, &whole);
}

/* ---- split, concat, pad, tile ---- */

static enum mg_code even_parts(struct mg_infer *t, int64_t size)
{
    int64_t n = t->out_count, chunk = n ? (size + n - 1) / n : 0;
    int64_t *parts = MG_NEW_ARRAY(t->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        parts[i] = clamp(size - i * chunk, 0, chunk);
    mg_infer_set_ints(t, MG_ATTR_SPLIT, parts, t->out_count);
    return MG_OK;
}

enum mg_code mg_shape_split(struct mg_infer *t)
{
    uint32_t axis;
    int64_t left;
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, t->in[0].rank, &axis));
    if (mg_infer_attr(t, MG_ATTR_SPLIT)->count == 0)
        MG_TRY(even_parts(t, t->in[0].dim[axis]));
    MG_TRY(mg_infer_list_size(t, MG_ATTR_SPLIT, t->out_count));
    const int64_t *parts = mg_infer_ints(t, MG_ATTR_SPLIT, NULL);
    left = t->in[0].dim[axis];
    for (uint32_t i = 0; i < t->out_count; i++) {
        if (parts[i] < 0 || parts[i] > left)
            return mg_infer_fail(t, "/attrs/split", "part %u does not fit", i);
        left -= parts[i];
        struct mg_shape out = t->in[0];
        out.dim[axis] = parts[i];
        result(t, i, &out);
    }
    if (left != 0)
        return mg_infer_fail(t, "/attrs/split", "the parts leave %lld of dimension %u over", (long long)left, axis);
    return MG_OK;
}

enum mg_code mg_shape_concat(struct mg_infer *t)
{
    struct mg_shape out = t->in[0];
    uint32_t axis;
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, out.rank, &axis));
    MG_TRY(mg_infer_same_dtype(t));
    for (uint32_t i = 1; i < t->in_count; i++) {
        struct mg_shape same = t->in[i];
        if (same.rank == out.rank)
            same.dim[axis] = out.dim[axis];
        if (!mg_shape_equal(&same, &out))
            return mg_infer_fail(t, "/inputs", "operand %u has shape %s, does not join %s along dimension %u", i,
                                 mg_shape_text(t->arena, &t->in[i]), mg_shape_text(t->arena, &t->in[0]), axis);
        if (__builtin_add_overflow(out.dim[axis], t->in[i].dim[axis], &out.dim[axis]))
            return mg_infer_fail(t, "/inputs", "dimension %u overflows", axis);
    }
    return result(t, 0, &out);
}

enum mg_code mg_shape_pad(struct mg_infer *t)
{
    struct mg_shape out = t->in[0];
    const char *mode = mg_infer_attr(t, MG_ATTR_MODE)->string;
    static const char *const modes[] = {"constant", "reflect", "edge", NULL};
    MG_TRY(mg_infer_choice(t, MG_ATTR_MODE, modes));
    MG_TRY(mg_infer_list_size(t, MG_ATTR_PADS, 2 * out.rank));
    const int64_t *pads = mg_infer_ints(t, MG_ATTR_PADS, NULL);
    for (uint32_t d = 0; d < out.rank; d++) {
        int64_t begin = pads[d], end = pads[d + out.rank], limit = INT64_C(1) << 50;
        if (begin < -limit || begin > limit || end < -limit || end > limit || out.dim[d] + begin + end < 0)
            return mg_infer_fail(t, "/attrs/pads", "pads of dimension %u are out of range", d);
        if (strcmp(mode, "reflect") == 0 && (begin >= out.dim[d] || end >= out.dim[d]) && (begin > 0 || end > 0))
            return mg_infer_fail(t, "/attrs/pads", "dimension %u is too small to reflect", d);
        out.dim[d] += begin + end;
    }
    return result(t, 0, &out);
}

enum mg_code mg_shape_tile(struct mg_infer *t)
{
    struct mg_shape out = t->in[0];
    MG_TRY(mg_infer_list_size(t, MG_ATTR_REPEATS, out.rank));
    const int64_t *repeats = mg_infer_ints(t, MG_ATTR_REPEATS, NULL);
    for (uint32_t d = 0; d < out.rank; d++) {
        if (repeats[d] < 0 || __builtin_mul_overflow(out.dim[d], repeats[d], &out.dim[d]))
            return mg_infer_fail(t, "/attrs/repeats", "entry %u is out of range", d);
    }
    return result(t, 0, &out);
}

/* ---- gather, scatter_add ---- */

static enum mg_code check_indices(struct mg_infer *t)
{
    if (mg_dtype_is_integer(t->in_dtype[1]) && t->in_dtype[1] != MG_DTYPE_BOOL)
        return MG_OK;
    return mg_infer_fail(t, "/inputs/1", "indices are %s, must be integers", mg_dtype_name(t->in_dtype[1]));
}

enum mg_code mg_shape_gather(struct mg_infer *t)
{
    const struct mg_shape *data = &t->in[0], *index = &t->in[1];
    struct mg_shape out = {0};
    uint32_t axis;
    MG_TRY(check_indices(t));
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, data->rank, &axis));
    if (data->rank - 1 + index->rank > MG_MAX_RANK)
        return too_deep(t, data->rank - 1 + index->rank);
    for (uint32_t d = 0; d < axis; d++)
        out.dim[out.rank++] = data->dim[d];
    for (uint32_t d = 0; d < index->rank; d++)
        out.dim[out.rank++] = index->dim[d];
    for (uint32_t d = axis + 1; d < data->rank; d++)
        out.dim[out.rank++] = data->dim[d];
    return result(t, 0, &out);
}

enum mg_code mg_shape_scatter_add(struct mg_infer *t)
{
    const struct mg_shape *from = &t->in[0], *index = &t->in[1];
    struct mg_shape out = {0};
    uint32_t axis;
    MG_TRY(check_indices(t));
    MG_TRY(mg_infer_rank(t, 0, index->rank, MG_MAX_RANK));
    MG_TRY(mg_infer_axis(t, MG_ATTR_AXIS, from->rank - index->rank + 1, &axis));
    bool fits = true;
    for (uint32_t d = 0; d < axis; d++)
        out.dim[out.rank++] = from->dim[d];
    for (uint32_t d = 0; d < index->rank; d++)
        fits = fits && from->dim[axis + d] == index->dim[d];
    out.dim[out.rank++] = mg_infer_int(t, MG_ATTR_SIZE);
    for (uint32_t d = axis + index->rank; d < from->rank; d++)
        out.dim[out.rank++] = from->dim[d];
    if (!fits)
        return mg_infer_fail(t, "/inputs", "updates %s do not fit indices %s at dimension %u",
                             mg_shape_text(t->arena, from), mg_shape_text(t->arena, index), axis);
    return result(t, 0, &out);
}

/* ---- depth_to_space ---- */

static enum mg_code block(struct mg_infer *t, int64_t *size)
{
    static const char *const modes[] = {"DCR", "CRD", NULL};
    MG_TRY(mg_infer_rank(t, 0, 4, 4));
    MG_TRY(mg_infer_choice(t, MG_ATTR_MODE, modes));
    *size = mg_infer_int(t, MG_ATTR_BLOCKSIZE);
    if (*size < 1 || *size > INT16_MAX)
        return mg_infer_fail(t, "/attrs/blocksize", "blocksize is out of range");
    return MG_OK;
}

enum mg_code mg_shape_depth_to_space(struct mg_infer *t)
{
    int64_t b;
    MG_TRY(block(t, &b));
    struct mg_shape out = t->in[0];
    if (out.dim[1] % (b * b) != 0)
        return mg_infer_fail(t, "/inputs/0", "%lld channels are no multiple of blocksize squared",
                             (long long)out.dim[1]);
    out.dim[1] /= b * b;
    out.dim[2] *= b;
    out.dim[3] *= b;
    return result(t, 0, &out);
}

enum mg_code mg_shape_space_to_depth(struct mg_infer *t)
{
    int64_t b;
    MG_TRY(block(t, &b));
    struct mg_shape out = t->in[0];
    if (out.dim[2] % b != 0 || out.dim[3] % b != 0)
        return mg_infer_fail(t, "/inputs/0", "spatial sizes are no multiples of blocksize");
    out.dim[1] *= b * b;
    out.dim[2] /= b;
    out.dim[3] /= b;
    return result(t, 0, &out);
}
