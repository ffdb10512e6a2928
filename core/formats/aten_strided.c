/* Views that only their sizes, strides and offset describe (as_strided, and calls that no table knows), told by
 * operators that the graph knows.
 *
 * The whole is laid out in its memory's order and cut into dimensions such that each of the view's is a part of one:
 * by the view's own strides where each divides the next, else by the whole's dimensions, along which steps are allowed.
 * What neither can tell (a diagonal) is gathered by its places in memory. */
#include <string.h>

#include "formats/aten_priv.h"

struct strided {
    const struct aten_node *whole, *view;
    int64_t offset, elements;
    uint32_t order[MG_MAX_RANK]; /* the whole's dimensions, slowest first */
    struct mg_shape cut;         /* the whole in that order, cut anew */
    int64_t start[MG_MAX_RANK], end[MG_MAX_RANK], step[MG_MAX_RANK];
    int32_t at[MG_MAX_RANK]; /* of a view's dimension: which of `cut`; -1: it has no extent in memory */
    struct mg_shape solid;   /* the view, without what is repeated */
    bool gathered;
};

static void sort_by_stride(const struct mg_shape *strides, uint32_t *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && strides->dim[list[k - 1]] < strides->dim[list[k]]; k--) {
            uint32_t other = list[k];
            list[k] = list[k - 1];
            list[k - 1] = other;
        }
}

/* The order of the whole's dimensions in memory; false if it has gaps or repeats itself. */
static bool memory_order(struct strided *s)
{
    const struct aten_node *whole = s->whole;
    uint32_t rank = whole->shape.rank, count = 0;
    int64_t stride = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (whole->shape.dim[d] != 1)
            s->order[count++] = d;
    uint32_t large = count;
    sort_by_stride(&whole->strides, s->order, large);
    for (uint32_t d = 0; d < rank; d++)
        if (whole->shape.dim[d] == 1)
            s->order[count++] = d;
    for (uint32_t i = large; i-- > 0;) {
        if (whole->strides.dim[s->order[i]] != stride)
            return false;
        stride *= whole->shape.dim[s->order[i]];
    }
    return true;
}

static bool has_extent(const struct strided *s, uint32_t d)
{
    return s->view->shape.dim[d] > 1 && s->view->strides.dim[d] > 0;
}

static bool cut_by_view(struct strided *s)
{
    uint32_t list[MG_MAX_RANK], count = 0;
    int64_t left = s->elements, rest = s->offset;
    for (uint32_t d = 0; d < s->view->shape.rank; d++)
        if (has_extent(s, d))
            list[count++] = d;
    sort_by_stride(&s->view->strides, list, count);
    for (uint32_t i = 0; i < count; i++) {
        int64_t stride = s->view->strides.dim[list[i]], size = s->view->shape.dim[list[i]];
        if (left % stride != 0 || rest / stride + size > left / stride)
            return false;
        s->cut.dim[i] = left / stride;
        s->start[i] = rest / stride;
        s->end[i] = s->start[i] + size;
        s->step[i] = 1;
        s->at[list[i]] = (int32_t)i;
        left = stride;
        rest %= stride;
    }
    s->cut.rank = count;
    if (left == 1)
        return true;
    if (count == MG_MAX_RANK)
        return false;
    s->cut.dim[count] = left;
    s->start[count] = rest;
    s->end[count] = rest + 1;
    s->step[count] = 1;
    s->cut.rank++;
    return true;
}

/* The dimension of the whole along which a view's stride steps. */
static int32_t stepped_along(const struct strided *s, int64_t stride)
{
    for (uint32_t i = 0; i < s->cut.rank; i++) {
        int64_t own = s->whole->strides.dim[s->order[i]];
        if (s->cut.dim[i] > 1 && own <= stride)
            return stride % own == 0 ? (int32_t)i : -1;
    }
    return -1;
}

static bool cut_by_whole(struct strided *s)
{
    int64_t rest = s->offset;
    s->cut.rank = s->whole->shape.rank;
    for (uint32_t i = 0; i < s->cut.rank; i++) {
        int64_t own = s->whole->strides.dim[s->order[i]];
        s->cut.dim[i] = s->whole->shape.dim[s->order[i]];
        s->start[i] = s->cut.dim[i] > 1 ? rest / own : 0;
        s->end[i] = s->start[i] + 1;
        s->step[i] = 1;
        rest = s->cut.dim[i] > 1 ? rest % own : rest;
    }
    for (uint32_t d = 0; d < s->view->shape.rank; d++) {
        int32_t i = has_extent(s, d) ? stepped_along(s, s->view->strides.dim[d]) : -1;
        s->at[d] = i;
        if (!has_extent(s, d))
            continue;
        if (i < 0 || s->end[i] != s->start[i] + 1)
            return false;
        s->step[i] = s->view->strides.dim[d] / s->whole->strides.dim[s->order[i]];
        s->end[i] += (s->view->shape.dim[d] - 1) * s->step[i];
        if (s->end[i] > s->cut.dim[i])
            return false;
    }
    return true;
}

static bool describe(struct strided *s)
{
    const struct aten_node *whole = s->whole, *view = s->view;
    if (whole->strides.rank != whole->shape.rank || view->strides.rank != view->shape.rank ||
        view->dtype != whole->dtype || !memory_order(s))
        return false;
    if (whole->offset < 0 || view->offset < whole->offset)
        return false;
    s->offset = view->offset - whole->offset;
    s->elements = mg_shape_elements(&whole->shape);
    s->solid = view->shape;
    int64_t behind = s->elements - 1 - s->offset; /* elements behind the last that the view is known to reach */
    for (uint32_t d = 0; d < view->shape.rank; d++) {
        int64_t stride = view->strides.dim[d], more = view->shape.dim[d] - 1;
        if (more < 0 || stride < 0 || behind < 0 || (stride > 0 && more > behind / stride))
            return false;
        behind -= more * stride;
        if (stride == 0)
            s->solid.dim[d] = 1;
    }
    if (behind < 0)
        return false;
    memset(s->at, 0xff, sizeof s->at);
    s->gathered = !cut_by_view(s) && !cut_by_whole(s);
    return true;
}

bool aten_is_strided(const struct aten_node *whole, const struct aten_node *view)
{
    struct strided s = {.whole = whole, .view = view};
    return describe(&s);
}

static mg_value permuted(struct aten_builder *b, mg_value v, const int64_t *perm, bool back)
{
    int64_t inverse[MG_MAX_RANK];
    uint32_t rank = aten_shape(b, v)->rank;
    bool same = true;
    for (uint32_t d = 0; d < rank; d++) {
        same = same && perm[d] == d;
        inverse[perm[d]] = d;
    }
    if (v == MG_NONE || same)
        return v;
    aten_set_ints(b, MG_ATTR_PERM, back ? inverse : perm, rank);
    return aten_emit1(b, MG_OP_TRANSPOSE, v);
}

static void whole_order(const struct strided *s, int64_t perm[MG_MAX_RANK])
{
    for (uint32_t d = 0; d < s->whole->shape.rank; d++)
        perm[d] = s->order[d];
}

/* The cut dimensions as the view orders them, then those of which it has one element. */
static void view_order(const struct strided *s, int64_t perm[MG_MAX_RANK])
{
    uint32_t count = 0, taken = 0;
    for (uint32_t d = 0; d < s->view->shape.rank; d++)
        if (s->at[d] >= 0) {
            perm[count++] = s->at[d];
            taken |= 1U << s->at[d];
        }
    for (uint32_t i = 0; i < s->cut.rank; i++)
        if (!(taken & 1U << i))
            perm[count++] = i;
}

static bool is_all(const struct strided *s)
{
    for (uint32_t i = 0; i < s->cut.rank; i++)
        if (s->end[i] - s->start[i] != s->cut.dim[i] || s->step[i] != 1)
            return false;
    return true;
}

static void set_part(struct aten_builder *b, const struct strided *s)
{
    int64_t axes[MG_MAX_RANK];
    for (uint32_t i = 0; i < s->cut.rank; i++)
        axes[i] = i;
    aten_set_ints(b, MG_ATTR_STARTS, s->start, s->cut.rank);
    aten_set_ints(b, MG_ATTR_ENDS, s->end, s->cut.rank);
    aten_set_ints(b, MG_ATTR_AXES, axes, s->cut.rank);
    aten_set_ints(b, MG_ATTR_STEPS, s->step, s->cut.rank);
}

/* Where in memory each element of the view lies. */
static mg_value places(struct aten_builder *b, const struct strided *s)
{
    mg_value sum = MG_NONE;
    for (uint32_t d = 0; d < s->view->shape.rank; d++) {
        struct mg_shape along = {.rank = s->view->shape.rank};
        for (uint32_t k = 0; k < along.rank; k++)
            along.dim[k] = k == d ? s->solid.dim[k] : 1;
        aten_set_int(b, MG_ATTR_SIZE, s->solid.dim[d]);
        aten_set_text(b, MG_ATTR_TO, "i64");
        aten_set_real(b, MG_ATTR_START, d == 0 ? (double)s->offset : 0);
        aten_set_real(b, MG_ATTR_DELTA, (double)s->view->strides.dim[d]);
        mg_value one = aten_reshape(b, aten_emit(b, MG_OP_IOTA, NULL, 0, NULL, 1), &along);
        sum = d ? aten_emit2(b, MG_OP_ADD, sum, one) : one;
    }
    return sum;
}

mg_value aten_strided_part(struct aten_builder *b, uint32_t whole, uint32_t view, mg_value contents)
{
    struct strided s = {.whole = &b->document->nodes[whole], .view = &b->document->nodes[view]};
    int64_t perm[MG_MAX_RANK];
    if (!describe(&s) || contents == MG_NONE)
        return aten_decline(b);
    whole_order(&s, perm);
    mg_value v = permuted(b, contents, perm, false);
    if (s.gathered) {
        v = aten_reshape(b, v, &(struct mg_shape){.rank = 1, .dim = {s.elements}});
        mg_value index = places(b, &s);
        aten_set_int(b, MG_ATTR_AXIS, 0);
        return aten_expand(b, aten_emit2(b, MG_OP_GATHER, v, index), &s.view->shape);
    }
    v = aten_reshape(b, v, &s.cut);
    if (!is_all(&s)) {
        set_part(b, &s);
        v = aten_emit1(b, MG_OP_SLICE, v);
    }
    view_order(&s, perm);
    return aten_expand(b, aten_reshape(b, permuted(b, v, perm, false), &s.solid), &s.view->shape);
}

static mg_value scattered(struct aten_builder *b, const struct strided *s, mg_value v)
{
    mg_value index = places(b, s);
    aten_set_int(b, MG_ATTR_AXIS, 0);
    aten_set_int(b, MG_ATTR_SIZE, s->elements);
    return aten_emit2(b, MG_OP_SCATTER_ADD, v, index);
}

static mg_value spread(struct aten_builder *b, const struct strided *s, mg_value v)
{
    aten_set_ints(b, MG_ATTR_SHAPE, s->cut.dim, s->cut.rank);
    set_part(b, s);
    return aten_emit1(b, MG_OP_SLICE_GRAD, v);
}

/* The part laid out as `cut` is. */
static mg_value cut_part(struct aten_builder *b, const struct strided *s, mg_value part)
{
    int64_t perm[MG_MAX_RANK];
    struct mg_shape ordered = {.rank = s->cut.rank};
    view_order(s, perm);
    for (uint32_t i = 0; i < s->cut.rank; i++)
        ordered.dim[i] = (s->end[perm[i]] - s->start[perm[i]] + s->step[perm[i]] - 1) / s->step[perm[i]];
    return permuted(b, aten_reshape(b, part, &ordered), perm, true);
}

mg_value aten_strided_put(struct aten_builder *b, uint32_t whole, uint32_t view, mg_value contents, mg_value part)
{
    struct strided s = {.whole = &b->document->nodes[whole], .view = &b->document->nodes[view]};
    struct mg_shape ordered = {.rank = s.whole->shape.rank};
    int64_t perm[MG_MAX_RANK];
    if (contents == MG_NONE || part == MG_NONE || !describe(&s) || !mg_shape_equal(&s.solid, &s.view->shape))
        return aten_decline(b);
    whole_order(&s, perm);
    for (uint32_t d = 0; d < ordered.rank; d++)
        ordered.dim[d] = s.whole->shape.dim[perm[d]];
    const struct mg_shape flat = {.rank = 1, .dim = {s.elements}}, *laid = s.gathered ? &flat : &s.cut;
    mg_value result;
    if (!s.gathered && is_all(&s)) {
        result = cut_part(b, &s, part);
    } else {
        mg_value old = aten_reshape(b, permuted(b, contents, perm, false), laid), mask, fresh;
        if (s.gathered) {
            mask = aten_cast(b, scattered(b, &s, aten_fill(b, &s.solid, MG_DTYPE_F32, 1)), MG_DTYPE_BOOL);
            fresh = scattered(b, &s, part);
        } else {
            part = cut_part(b, &s, part);
            mask = spread(b, &s, aten_fill(b, aten_shape(b, part), MG_DTYPE_BOOL, 1));
            fresh = spread(b, &s, part);
        }
        const mg_value in[3] = {mask, fresh, old};
        result = aten_emit(b, MG_OP_WHERE, in, 3, NULL, 1);
    }
    return permuted(b, aten_reshape(b, result, &ordered), perm, true);
}
