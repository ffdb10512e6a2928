/* Rules of calls that join, cut and fill up tensors. */
#include <string.h>

#include "formats/aten_rules.h"

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
    int64_t axis = aten_axis(aten_int(c->node, 1, "dim", 0), c->node->shape.rank);
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
    int64_t axis = aten_axis(aten_int(c->node, unbind ? 1 : 2, "dim", 0), shape->rank);
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
        uint32_t axis = rank - 1 - (uint32_t)(i / 2);
        int64_t by = list->item[i].i, size = aten_shape(b, x)->dim[axis];
        pads[axis + (i % 2 ? rank : 0)] = by > 0 ? by : 0;
        any = any || by > 0;
        if (by < 0 && by >= -size)
            x = aten_slice(b, x, axis, i % 2 ? 0 : -by, i % 2 ? size + by : size, 1);
        else if (by < 0)
            return aten_decline(b);
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

/* slice_backward(dy, sizes, dim, start, end, step), select_backward(dy, sizes, dim, index) */
mg_value aten_rule_slice_backward(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool select = strstr(c->node->op, "select") != NULL;
    mg_value dy = aten_in(b, c->node, 0, NULL);
    struct mg_shape whole = c->node->shape, part = whole;
    int64_t axis = aten_axis(aten_int(c->node, 2, "dim", 0), whole.rank);
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
