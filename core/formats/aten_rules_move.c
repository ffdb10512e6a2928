/* Rules of reductions and of calls that move data. */
#include <string.h>

#include "formats/aten_rules.h"

static int64_t wrapped(int64_t axis, uint32_t rank)
{
    return axis < 0 ? axis + rank : axis;
}

/* ---- reductions ---- */

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

/* argmax(x, dim, keepdim) and the like: one axis; cumsum(x, dim) */
mg_value aten_rule_axis(struct aten_builder *b, const struct aten_rule_call *c)
{
    const struct aten_arg *dim = aten_argument(c->node, 1, "dim");
    mg_value x = aten_in(b, c->node, 0, NULL);
    if (!dim || dim->kind != ATEN_INT || aten_shape(b, x)->rank == 0)
        return aten_decline(b);
    if (c->type != MG_OP_ARG_MAX)
        x = aten_cast(b, x, c->node->dtype);
    aten_set_int(b, MG_ATTR_AXIS, dim->i);
    if (c->type == MG_OP_ARG_MAX)
        aten_set_int(b, MG_ATTR_KEEPDIMS, aten_int(c->node, 2, "keepdim", 0));
    return aten_emit1(b, c->type, x);
}

/* (dy, y, dim, dtype) */
mg_value aten_rule_softmax_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value dy = aten_in(b, c->node, 0, NULL), y = aten_in(b, c->node, 1, NULL);
    aten_set_int(b, MG_ATTR_AXIS, aten_int(c->node, 2, "dim", -1));
    return aten_cast(b, aten_emit2(b, c->type, dy, y), c->node->dtype);
}

/* ---- joining and cutting ---- */

static mg_value concat(struct aten_builder *b, const mg_value *parts, uint32_t count, int64_t axis)
{
    if (count == 1)
        return aten_emit1(b, MG_OP_COPY, parts[0]);
    aten_set_int(b, MG_ATTR_AXIS, axis);
    return aten_emit(b, MG_OP_CONCAT, parts, count, NULL, 1);
}

/* cat(tensors, dim), stack(tensors, dim); cat takes empty vectors for nothing. */
mg_value aten_rule_cat(struct aten_builder *b, const struct aten_rule_call *c)
{
    const struct aten_arg *list = aten_argument(c->node, 0, "tensors");
    bool stack = strstr(c->node->op, "stack") != NULL;
    if (!list || list->kind != ATEN_LIST || !c->node->has_out || c->node->shape.rank == 0)
        return aten_decline(b);
    int64_t axis = wrapped(aten_int(c->node, 1, "dim", 0), c->node->shape.rank);
    mg_value *parts = MG_NEW_ARRAY(b->arena, mg_value, list->count);
    uint32_t count = 0;
    if (axis < 0 || axis >= c->node->shape.rank)
        return aten_decline(b);
    struct mg_shape one = c->node->shape;
    one.dim[axis] = 1;
    for (size_t i = 0; i < list->count; i++) {
        mg_value part = aten_is_tensor(&list->item[i]) ? aten_read(b, list->item[i].node) : aten_decline(b);
        if (!stack && aten_shape(b, part)->rank == 1 && aten_shape(b, part)->dim[0] == 0)
            continue;
        part = aten_cast(b, part, c->node->dtype);
        parts[count++] = stack ? aten_reshape(b, part, &one) : part;
    }
    return count ? concat(b, parts, count, axis) : aten_decline(b);
}

/* split(x, size, dim), split_with_sizes, chunk, unbind(x, dim): the pieces are views that `getitem` nodes name. */
mg_value aten_rule_split(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool unbind = strstr(c->node->op, "unbind") != NULL;
    const struct aten_arg *from = aten_argument(c->node, 0, NULL);
    if (!aten_is_tensor(from) || c->node->has_out || !b->document->nodes[from->node].has_out)
        return aten_decline(b);
    const struct mg_shape *shape = &b->document->nodes[from->node].shape;
    int64_t axis = wrapped(aten_int(c->node, unbind ? 1 : 2, "dim", 0), shape->rank);
    if (axis < 0 || axis >= shape->rank)
        return aten_decline(b);
    b->tensors[b->node].parent = from->node;
    b->tensors[b->node].axis = (int32_t)axis;
    return MG_NONE;
}

/* constant_pad_nd(x, pads from the last dimension on, value); negative pads cut. */
mg_value aten_rule_pad(struct aten_builder *b, const struct aten_rule_call *c)
{
    const struct aten_arg *list = aten_argument(c->node, 1, "pad");
    mg_value x = aten_in(b, c->node, 0, NULL);
    uint32_t rank = aten_shape(b, x)->rank;
    int64_t pads[2 * MG_MAX_RANK] = {0};
    bool any = false;
    if (!list || list->kind != ATEN_LIST || list->count > 2 * (size_t)rank || x == MG_NONE)
        return aten_decline(b);
    for (size_t i = 0; i < list->count; i++) {
        if (list->item[i].i < 0)
            return aten_decline(b);
        pads[rank - 1 - i / 2 + (i % 2 ? rank : 0)] = list->item[i].i;
        any = any || list->item[i].i > 0;
    }
    if (!any)
        return aten_emit1(b, MG_OP_COPY, x);
    aten_set_ints(b, MG_ATTR_PADS, pads, 2 * rank);
    aten_set_real(b, MG_ATTR_VALUE, aten_real(c->node, 2, "value", 0));
    return aten_emit1(b, MG_OP_PAD, x);
}

mg_value aten_rule_repeat(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t repeats[MG_MAX_RANK];
    mg_value x = aten_in(b, c->node, 0, NULL);
    uint32_t count = aten_ints(c->node, 1, "repeats", 1, repeats);
    struct mg_shape shape = {.rank = count};
    uint32_t rank = aten_shape(b, x)->rank;
    if (count < rank || x == MG_NONE)
        return aten_decline(b);
    for (uint32_t d = 0; d < count; d++)
        shape.dim[d] = d + rank < count ? 1 : aten_shape(b, x)->dim[d + rank - count];
    x = aten_reshape(b, x, &shape);
    aten_set_ints(b, MG_ATTR_REPEATS, repeats, count);
    return aten_emit1(b, MG_OP_TILE, x);
}

/* roll(x, shifts, dims): the last elements of each dimension come first. */
mg_value aten_rule_roll(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t shifts[MG_MAX_RANK], dims[MG_MAX_RANK];
    mg_value x = aten_in(b, c->node, 0, NULL);
    uint32_t count = aten_ints(c->node, 1, "shifts", 1, shifts), rank = aten_shape(b, x)->rank;
    if (x == MG_NONE || count == 0 || aten_ints(c->node, 2, "dims", 1, dims) != count)
        return aten_decline(b);
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = wrapped(dims[i], rank);
        int64_t size = axis >= 0 && axis < rank ? aten_shape(b, x)->dim[axis] : 0;
        if (size == 0)
            return aten_decline(b);
        int64_t cut = size - ((shifts[i] % size) + size) % size;
        if (cut == size)
            continue;
        const mg_value parts[2] = {aten_slice(b, x, axis, cut, size, 1), aten_slice(b, x, axis, 0, cut, 1)};
        x = concat(b, parts, 2, axis);
    }
    return x == aten_in(b, c->node, 0, NULL) ? aten_emit1(b, MG_OP_COPY, x) : x;
}

/* slice_backward(dy, sizes, dim, start, end, step), select_backward(dy, sizes, dim, index) */
mg_value aten_rule_slice_backward(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool select = strstr(c->node->op, "select") != NULL;
    mg_value dy = aten_in(b, c->node, 0, NULL);
    struct mg_shape whole = c->node->shape, part = whole;
    int64_t axis = wrapped(aten_int(c->node, 2, "dim", 0), whole.rank);
    if (axis < 0 || axis >= whole.rank || dy == MG_NONE)
        return aten_decline(b);
    int64_t size = whole.dim[axis], start = aten_int(c->node, 3, select ? "index" : "start", 0);
    int64_t end = select ? 0 : aten_int(c->node, 4, "end", size), step = select ? 1 : aten_int(c->node, 5, "step", 1);
    start += start < 0 ? size : 0;
    end = select ? start + 1 : end < 0 ? end + size : end > size ? size : end;
    if (step < 1 || start < 0 || end < start)
        return aten_decline(b);
    part.dim[axis] = (end - start + step - 1) / step;
    dy = aten_reshape(b, dy, &part);
    if (start == 0 && end == size && step == 1)
        return aten_emit1(b, MG_OP_COPY, dy);
    aten_set_ints(b, MG_ATTR_SHAPE, whole.dim, whole.rank);
    aten_set_ints(b, MG_ATTR_STARTS, &start, 1);
    aten_set_ints(b, MG_ATTR_ENDS, &end, 1);
    aten_set_ints(b, MG_ATTR_AXES, &axis, 1);
    aten_set_ints(b, MG_ATTR_STEPS, &step, 1);
    return aten_emit1(b, MG_OP_SLICE_GRAD, dy);
}

/* ---- by index ---- */

static bool is_index(const struct aten_builder *b, mg_value v)
{
    return v != MG_NONE && aten_dtype(b, v) >= MG_DTYPE_I64 && aten_dtype(b, v) <= MG_DTYPE_I8;
}

static mg_value gather(struct aten_builder *b, mg_value x, mg_value index, int64_t axis)
{
    if (!is_index(b, index))
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_AXIS, axis);
    return aten_emit2(b, MG_OP_GATHER, x, index);
}

/* The only tensor of a list of indices, and where it stands; MG_NONE if there are more. */
static mg_value only_index(struct aten_builder *b, const struct aten_arg *list, int64_t *axis)
{
    mg_value index = MG_NONE;
    for (size_t i = 0; list && list->kind == ATEN_LIST && i < list->count; i++) {
        if (!aten_is_tensor(&list->item[i]))
            continue;
        if (index != MG_NONE)
            return MG_NONE;
        index = aten_read(b, list->item[i].node);
        *axis = (int64_t)i;
    }
    return index;
}

mg_value aten_rule_embedding(struct aten_builder *b, const struct aten_rule_call *c)
{
    return gather(b, aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), 0);
}

mg_value aten_rule_index_select(struct aten_builder *b, const struct aten_rule_call *c)
{
    return gather(b, aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 2, NULL), aten_int(c->node, 1, "dim", 0));
}

mg_value aten_rule_index(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t axis = 0;
    mg_value index = only_index(b, aten_argument(c->node, 1, "indices"), &axis);
    return gather(b, aten_in(b, c->node, 0, NULL), index, axis);
}

static mg_value scatter_add(struct aten_builder *b, mg_value updates, mg_value index, int64_t axis, int64_t size)
{
    if (!is_index(b, index))
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_AXIS, axis);
    aten_set_int(b, MG_ATTR_SIZE, size);
    return aten_emit2(b, MG_OP_SCATTER_ADD, updates, index);
}

/* (dy, indices, rows, padding_idx, scale_by_freq) */
mg_value aten_rule_embedding_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    if (aten_int(c->node, 3, "padding_idx", -1) >= 0)
        return aten_decline(b);
    return scatter_add(b, aten_in(b, c->node, 0, NULL), aten_in(b, c->node, 1, NULL), 0,
                       aten_int(c->node, 2, "num_weights", 0));
}

static bool is_zeros(const struct aten_builder *b, mg_value v)
{
    mg_op maker = v == MG_NONE ? MG_NONE : b->g->values[v].producer;
    return maker != MG_NONE && b->g->ops[maker].type == MG_OP_FILL &&
           mg_op_attr_float(&b->g->ops[maker], MG_ATTR_VALUE) == 0;
}

/* One value wherever a mask of x's shape is true. */
static mg_value put_where(struct aten_builder *b, mg_value x, mg_value mask, mg_value v)
{
    if (mask == MG_NONE || aten_dtype(b, mask) != MG_DTYPE_BOOL || mg_shape_elements(aten_shape(b, v)) != 1 ||
        !mg_shape_equal(aten_shape(b, mask), aten_shape(b, x)))
        return aten_decline(b);
    const mg_value in[3] = {mask, v, x};
    return aten_emit(b, MG_OP_WHERE, in, 3, NULL, 1);
}

/* What is put at an index along an axis of x has this shape. */
static mg_value spread(struct aten_builder *b, mg_value v, mg_value x, mg_value index, int64_t axis)
{
    const struct mg_shape *whole = aten_shape(b, x), *at = aten_shape(b, index);
    struct mg_shape shape = {0};
    if (whole->rank + at->rank > MG_MAX_RANK)
        return aten_decline(b);
    for (uint32_t d = 0; d < whole->rank; d++) {
        for (uint32_t i = 0; d == axis && i < at->rank; i++)
            shape.dim[shape.rank++] = at->dim[i];
        if (d != axis)
            shape.dim[shape.rank++] = whole->dim[d];
    }
    return aten_expand(b, v, &shape);
}

/* index_put(x, [index], values, accumulate=True): x plus what is scattered; index_put(x, [mask], value) */
mg_value aten_rule_index_put(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t axis = 0;
    mg_value x = aten_in(b, c->node, 0, NULL), v = aten_in(b, c->node, 2, "values");
    mg_value index = only_index(b, aten_argument(c->node, 1, "indices"), &axis);
    if (x == MG_NONE || v == MG_NONE || index == MG_NONE || axis >= aten_shape(b, x)->rank)
        return aten_decline(b);
    if (!aten_int(c->node, 3, "accumulate", 0))
        return axis == 0 ? put_where(b, x, index, v) : aten_decline(b);
    v = spread(b, v, x, index, axis);
    v = scatter_add(b, v, index, axis, aten_shape(b, x)->dim[axis]);
    return is_zeros(b, x) ? v : aten_emit2(b, MG_OP_ADD, x, v);
}

mg_value aten_rule_pixel_shuffle(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL);
    aten_set_int(b, MG_ATTR_BLOCKSIZE, aten_int(c->node, 1, "upscale_factor", 1));
    aten_set_text(b, MG_ATTR_MODE, "CRD");
    return aten_emit1(b, c->type, x);
}
