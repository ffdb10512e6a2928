/* Rules of calls that read and write by index, order and turn round. */
#include <string.h>

#include "formats/aten_rules.h"

/* ---- slices ---- */

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

/* The shape that all indices of a list broadcast to; false where they do not, or are not the first of the list. */
static bool joint_shape(struct aten_builder *b, const struct aten_arg *list, struct mg_shape *shape)
{
    *shape = (struct mg_shape){0};
    for (size_t i = 0; i < list->count; i++) {
        mg_value index = aten_is_tensor(&list->item[i]) ? aten_read(b, list->item[i].node) : MG_NONE;
        if (!is_index(b, index))
            return false;
        const struct mg_shape a = *shape, *at = aten_shape(b, index);
        shape->rank = a.rank > at->rank ? a.rank : at->rank;
        for (uint32_t d = 0; d < shape->rank; d++) {
            int64_t x = d + a.rank >= shape->rank ? a.dim[d + a.rank - shape->rank] : 1;
            int64_t y = d + at->rank >= shape->rank ? at->dim[d + at->rank - shape->rank] : 1;
            if (x != y && x != 1 && y != 1)
                return false;
            shape->dim[d] = x == 1 ? y : x;
        }
    }
    return shape->rank < MG_MAX_RANK;
}

/* Several indices of the first dimensions as one tensor, whose rows name a place each. */
static mg_value rows_of(struct aten_builder *b, const struct aten_arg *list)
{
    struct mg_shape shape;
    if (!list || list->kind != ATEN_LIST || list->count < 2 || !joint_shape(b, list, &shape))
        return aten_decline(b);
    mg_value *columns = MG_NEW_ARRAY(b->arena, mg_value, list->count);
    struct mg_shape column = shape;
    column.dim[column.rank++] = 1;
    for (size_t i = 0; i < list->count; i++) {
        mg_value index = aten_cast(b, aten_read(b, list->item[i].node), MG_DTYPE_I64);
        columns[i] = aten_reshape(b, aten_expand(b, index, &shape), &column);
    }
    aten_set_int(b, MG_ATTR_AXIS, shape.rank);
    return aten_emit(b, MG_OP_CONCAT, columns, list->count, NULL, 1);
}

/* index(x, [index]) along one axis, index(x, [i, j, ...]) place by place */
mg_value aten_rule_index(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t axis = 0;
    const struct aten_arg *list = aten_argument(c->node, 1, "indices");
    mg_value x = aten_in(b, c->node, 0, NULL), index = only_index(b, list, &axis);
    return index != MG_NONE ? gather(b, x, index, axis) : aten_emit2(b, MG_OP_GATHER_ND, x, rows_of(b, list));
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

/* What several indices tell put where they say, or added there. */
static mg_value put_at_rows(struct aten_builder *b, mg_value x, const struct aten_arg *list, mg_value v, bool added)
{
    mg_value rows = rows_of(b, list);
    if (rows == MG_NONE)
        return aten_decline(b);
    struct mg_shape shape = *aten_shape(b, rows);
    shape.rank--;
    for (uint32_t d = list->count; d < aten_shape(b, x)->rank && shape.rank < MG_MAX_RANK; d++)
        shape.dim[shape.rank++] = aten_shape(b, x)->dim[d];
    const mg_value in[3] = {x, rows, aten_expand(b, v, &shape)};
    aten_set_text(b, MG_ATTR_REDUCTION, added ? "add" : "none");
    return aten_emit(b, MG_OP_SCATTER_ND, in, 3, NULL, 1);
}

/* index_put(x, [index], values, accumulate=True): x plus what is scattered; index_put(x, [mask], value);
 * index_put(x, [i, j, ...], values, accumulate) */
mg_value aten_rule_index_put(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t axis = 0;
    const struct aten_arg *list = aten_argument(c->node, 1, "indices");
    mg_value x = aten_in(b, c->node, 0, NULL), v = aten_in(b, c->node, 2, "values"), index = only_index(b, list, &axis);
    bool added = aten_int(c->node, 3, "accumulate", 0) != 0;
    if (x == MG_NONE || v == MG_NONE || axis >= aten_shape(b, x)->rank)
        return aten_decline(b);
    if (index == MG_NONE)
        return put_at_rows(b, x, list, v, added);
    if (!added)
        return axis == 0 ? put_where(b, x, index, v) : aten_decline(b);
    v = spread(b, v, x, index, axis);
    v = scatter_add(b, v, index, axis, aten_shape(b, x)->dim[axis]);
    return is_zeros(b, x) ? v : aten_emit2(b, MG_OP_ADD, x, v);
}

/* index_add(x, dim, index, source, alpha) */
mg_value aten_rule_index_add(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL), index = aten_in(b, c->node, 2, NULL);
    mg_value v = aten_affine(b, aten_in(b, c->node, 3, NULL), aten_real(c->node, 4, "alpha", 1), 0);
    uint32_t rank = aten_shape(b, x)->rank;
    int64_t axis = aten_axis(aten_int(c->node, 1, "dim", 0), rank);
    if (x == MG_NONE || v == MG_NONE || axis < 0 || axis >= rank || aten_shape(b, index)->rank != 1)
        return aten_decline(b);
    v = scatter_add(b, v, index, axis, aten_shape(b, x)->dim[axis]);
    return is_zeros(b, x) ? v : aten_emit2(b, MG_OP_ADD, x, v);
}

/* ---- element by element ---- */

mg_value aten_rule_gather(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL), index = aten_in(b, c->node, 2, NULL);
    aten_set_int(b, MG_ATTR_AXIS, aten_int(c->node, 1, "dim", 0));
    return aten_emit2(b, c->type, x, index);
}

/* Our word for how what is scattered is combined with what is there; NULL: in no way of ours. */
static const char *combination(const struct aten_node *node)
{
    static const char *const words[][2] = {{"add", "add"},  {"sum", "add"},  {"multiply", "mul"},
                                           {"prod", "mul"}, {"amax", "max"}, {"amin", "min"}};
    const struct aten_arg *word = aten_argument(node, 4, "reduce");
    if (!word)
        return strstr(node->op, "scatter_add") ? "add" : "none";
    for (size_t i = 0; word->kind == ATEN_TEXT && i < sizeof words / sizeof *words; i++)
        if (strcmp(word->text, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

/* scatter(x, dim, index, source or number[, how]): of the source only what lies under the index counts. */
mg_value aten_rule_scatter(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL), index = aten_in(b, c->node, 2, NULL);
    const char *how = combination(c->node);
    if (!how || x == MG_NONE || index == MG_NONE)
        return aten_decline(b);
    const struct mg_shape shape = *aten_shape(b, index);
    mg_value v = aten_is_tensor(aten_argument(c->node, 3, "src"))
                     ? aten_in(b, c->node, 3, "src")
                     : aten_fill(b, &shape, aten_dtype(b, x), aten_real(c->node, 3, "value", 0));
    if (v == MG_NONE || aten_shape(b, v)->rank != shape.rank)
        return aten_decline(b);
    for (uint32_t d = 0; d < shape.rank; d++)
        v = aten_slice(b, v, d, 0, shape.dim[d], 1);
    const mg_value in[3] = {x, index, v};
    aten_set_int(b, MG_ATTR_AXIS, aten_int(c->node, 1, "dim", 0));
    aten_set_text(b, MG_ATTR_REDUCTION, how);
    return aten_emit(b, c->type, in, 3, NULL, 1);
}

/* ---- by size and by place ---- */

static mg_value top(struct aten_builder *b, mg_value x, int64_t k, int64_t axis, bool largest)
{
    mg_value out[2];
    aten_set_int(b, MG_ATTR_K, k);
    aten_set_int(b, MG_ATTR_AXIS, axis);
    aten_set_int(b, MG_ATTR_LARGEST, largest);
    aten_emit(b, MG_OP_TOP_K, &x, 1, out, 2);
    aten_give(b, out, 2);
    return MG_NONE;
}

/* topk(x, k, dim, largest, sorted) -> values, indices */
mg_value aten_rule_topk(struct aten_builder *b, const struct aten_rule_call *c)
{
    return top(b, aten_in(b, c->node, 0, NULL), aten_int(c->node, 1, "k", 0), aten_int(c->node, 2, "dim", -1),
               aten_int(c->node, 3, "largest", 1) != 0);
}

/* sort(x, dim, descending), sort(x, *, stable, dim, descending) -> values, indices: all elements are the largest */
mg_value aten_rule_sort(struct aten_builder *b, const struct aten_rule_call *c)
{
    size_t at = strstr(c->node->op, ".stable") ? 2 : 1;
    mg_value x = aten_in(b, c->node, 0, NULL);
    uint32_t rank = aten_shape(b, x)->rank;
    int64_t axis = aten_axis(aten_int(c->node, at, "dim", -1), rank);
    if (x == MG_NONE || axis < 0 || axis >= rank)
        return aten_decline(b);
    return top(b, x, aten_shape(b, x)->dim[axis], axis, aten_int(c->node, at + 1, "descending", 0) != 0);
}

/* tril(x, diagonal), triu(x, diagonal) */
mg_value aten_rule_triangle(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL);
    aten_set_int(b, MG_ATTR_UPPER, strstr(c->node->op, "triu") != NULL);
    aten_set_int(b, MG_ATTR_DIAGONAL, aten_int(c->node, 1, "diagonal", 0));
    return aten_emit1(b, c->type, x);
}

mg_value aten_rule_flip(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t axes[MG_MAX_RANK];
    mg_value x = aten_in(b, c->node, 0, NULL);
    uint32_t count = aten_ints(c->node, 1, "dims", 1, axes);
    if (count == 0)
        return aten_emit1(b, MG_OP_COPY, x);
    aten_set_ints(b, MG_ATTR_AXES, axes, count);
    return aten_emit1(b, c->type, x);
}

/* roll(x, shifts, dims): of all elements in a row where no dimension is listed */
mg_value aten_rule_roll(struct aten_builder *b, const struct aten_rule_call *c)
{
    int64_t shifts[MG_MAX_RANK], axes[MG_MAX_RANK] = {0};
    mg_value x = aten_in(b, c->node, 0, NULL);
    const struct mg_shape shape = *aten_shape(b, x);
    uint32_t count = aten_ints(c->node, 1, "shifts", 1, shifts), listed = aten_ints(c->node, 2, "dims", 1, axes);
    if (x == MG_NONE || count == 0 || (listed ? listed : 1) != count || mg_shape_elements(&shape) == 0)
        return aten_decline(b);
    if (!listed)
        x = aten_reshape(b, x, &(struct mg_shape){.rank = 1, .dim = {mg_shape_elements(&shape)}});
    aten_set_ints(b, MG_ATTR_SHIFTS, shifts, count);
    aten_set_ints(b, MG_ATTR_AXES, axes, count);
    return aten_reshape(b, aten_emit1(b, c->type, x), &shape);
}
