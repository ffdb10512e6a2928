/* What rules are written in: the arguments of a call, operators made for it, and those that many rules need. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "formats/aten_priv.h"

/* ---- arguments ---- */

const struct aten_arg *aten_argument(const struct aten_node *node, size_t at, const char *key)
{
    if (at < node->args.count)
        return &node->args.item[at];
    for (size_t i = 0; key && i < node->kwargs.count; i++)
        if (strcmp(node->kwargs.item[i].key, key) == 0)
            return &node->kwargs.item[i];
    return NULL;
}

static bool is_number(const struct aten_arg *arg)
{
    return arg && (arg->kind == ATEN_INT || arg->kind == ATEN_FLOAT || arg->kind == ATEN_BOOL);
}

mg_value aten_in(struct aten_builder *b, const struct aten_node *node, size_t at, const char *key)
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    return aten_is_tensor(arg) ? aten_read(b, arg->node) : MG_NONE;
}

int64_t aten_int(const struct aten_node *node, size_t at, const char *key, int64_t otherwise)
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    return arg && (arg->kind == ATEN_INT || arg->kind == ATEN_BOOL) ? arg->i : otherwise;
}

double aten_real(const struct aten_node *node, size_t at, const char *key, double otherwise)
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    return is_number(arg) ? arg->f : otherwise;
}

uint32_t aten_ints(const struct aten_node *node, size_t at, const char *key, uint32_t repeat, int64_t out[MG_MAX_RANK])
{
    const struct aten_arg *arg = aten_argument(node, at, key);
    if (!arg)
        return 0;
    uint32_t count = 0;
    bool list = arg->kind == ATEN_LIST && arg->count != 1;
    const struct aten_arg *one = arg->kind == ATEN_LIST ? arg->item : arg;
    for (size_t i = 0; list && i < arg->count && i < MG_MAX_RANK; i++)
        out[count++] = arg->item[i].i;
    for (uint32_t i = 0; !list && i < repeat && i < MG_MAX_RANK; i++)
        out[count++] = one->i;
    return count;
}

/* ---- operators ---- */

static struct mg_attr *next_attr(struct aten_builder *b, enum mg_attr_key key, enum mg_attr_type type)
{
    struct mg_attr *attr = &b->attrs[b->attr_count++ % ATEN_MAX_ATTRS];
    *attr = (struct mg_attr){.key = key, .type = type};
    return attr;
}

void aten_set_int(struct aten_builder *b, enum mg_attr_key key, int64_t value)
{
    next_attr(b, key, MG_ATTR_TYPE_INT)->i = value;
}

void aten_set_real(struct aten_builder *b, enum mg_attr_key key, double value)
{
    next_attr(b, key, MG_ATTR_TYPE_FLOAT)->f = value;
}

void aten_set_ints(struct aten_builder *b, enum mg_attr_key key, const int64_t *values, uint32_t count)
{
    struct mg_attr *attr = next_attr(b, key, MG_ATTR_TYPE_INTS);
    attr->ints = mg_arena_copy(b->arena, values, count * sizeof *values);
    attr->count = count;
}

void aten_set_text(struct aten_builder *b, enum mg_attr_key key, const char *text)
{
    next_attr(b, key, MG_ATTR_TYPE_STRING)->string = text;
}

/* The name of the node for the first operator made for it, then with a number. An opaque call always has the node's: by
 * that it is found again where a plan is run. */
static const char *next_name(struct aten_builder *b)
{
    const char *name = b->document->nodes[b->node].name;
    unsigned n = b->emitted++;
    return n ? mg_arena_printf(b->arena, "%s.%u", name, n) : name;
}

static mg_value *emit(struct aten_builder *b, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                      const char *const *names, uint32_t out_count, const char *name)
{
    mg_value *made = MG_NEW_ARRAY(b->arena, mg_value, out_count);
    uint32_t attr_count = b->attr_count;
    b->attr_count = 0;
    for (uint32_t i = 0; i < in_count; i++)
        if (in[i] == MG_NONE)
            b->declined = true;
    if (b->code || b->declined)
        return NULL;
    if (mg_graph_add_op(b->g, type, name, in, in_count, b->attrs, attr_count, names, out_count, made, NULL) != MG_OK) {
        b->declined = true;
        return NULL;
    }
    const char *module = b->document->nodes[b->node].module;
    if (module)
        mg_graph_set_module(b->g, (mg_op)(b->g->op_count - 1), module);
    return made;
}

mg_value aten_emit(struct aten_builder *b, enum mg_op_type type, const mg_value *in, uint32_t in_count, mg_value *out,
                   uint32_t out_count)
{
    const char *name = next_name(b);
    const char **names = MG_NEW_ARRAY(b->arena, const char *, out_count);
    for (uint32_t i = 0; i < out_count; i++)
        names[i] = i ? mg_arena_printf(b->arena, "%s:%u", name, i) : name;
    mg_value *made = emit(b, type, in, in_count, names, out_count, name);
    for (uint32_t i = 0; out && i < out_count; i++)
        out[i] = made ? made[i] : MG_NONE;
    return made && out_count ? made[0] : MG_NONE;
}

mg_value aten_emit1(struct aten_builder *b, enum mg_op_type type, mg_value a)
{
    return aten_emit(b, type, &a, 1, NULL, 1);
}

mg_value aten_emit2(struct aten_builder *b, enum mg_op_type type, mg_value a, mg_value c)
{
    const mg_value in[2] = {a, c};
    return aten_emit(b, type, in, 2, NULL, 1);
}

void aten_opaque(struct aten_builder *b, const char *target, const char *purity, const char *arguments,
                 const mg_value *in, uint32_t in_count, const struct mg_shape *shapes, const enum mg_dtype *dtypes,
                 mg_value *out, uint32_t out_count)
{
    const char *name = b->document->nodes[b->node].name;
    const char **names = MG_NEW_ARRAY(b->arena, const char *, out_count);
    double bytes = 0;
    for (uint32_t i = 0; i < in_count; i++)
        bytes += in[i] == MG_NONE
                     ? 0
                     : (double)mg_shape_elements(aten_shape(b, in[i])) * mg_dtype_size(aten_dtype(b, in[i]));
    for (uint32_t i = 0; i < out_count; i++) {
        names[i] = i ? mg_arena_printf(b->arena, "%s:%u", name, i) : name;
        bytes += (double)mg_shape_elements(&shapes[i]) * mg_dtype_size(dtypes[i]);
        if (mg_graph_add_value(b->g, names[i], MG_KIND_COMPUTED, dtypes[i], &shapes[i]) == MG_NONE && !b->code)
            b->code = mg_fail(b->err, MG_ERR_INVALID, "", "the name '%.100s' is taken twice", names[i]);
    }
    b->attr_count = 0;
    aten_set_text(b, MG_ATTR_TARGET, target);
    aten_set_text(b, MG_ATTR_PURITY, purity);
    aten_set_real(b, MG_ATTR_BYTES, bytes);
    aten_set_text(b, MG_ATTR_ARGUMENTS, arguments);
    mg_value *made = emit(b, MG_OP_OPAQUE, in, in_count, names, out_count, name);
    for (uint32_t i = 0; i < out_count; i++)
        out[i] = made ? made[i] : MG_NONE;
}

mg_value aten_decline(struct aten_builder *b)
{
    b->declined = true;
    return MG_NONE;
}

struct aten_mark aten_try(struct aten_builder *b)
{
    b->change_count = 0;
    return (struct aten_mark){b->g->op_count, b->g->value_count};
}

void aten_note(struct aten_builder *b, uint32_t node)
{
    *MG_PUSH(b->arena, b->changes, b->change_count, b->change_capacity) =
        (struct aten_change){node, b->tensors[node].version, b->tensors[node].value};
}

void aten_take_back(struct aten_builder *b, struct aten_mark mark)
{
    while (b->change_count > 0) {
        const struct aten_change *change = &b->changes[--b->change_count];
        b->tensors[change->node].value = change->value;
        b->tensors[change->node].version = change->version;
    }
    mg_graph_truncate(b->g, mark.ops, mark.values);
    b->tensors[b->node].results = NULL;
    b->tensors[b->node].result_count = 0;
    b->declined = false;
    b->attr_count = 0;
}

void aten_give(struct aten_builder *b, const mg_value *results, uint32_t count)
{
    b->tensors[b->node].results = mg_arena_copy(b->arena, results, count * sizeof *results);
    b->tensors[b->node].result_count = count;
}

const struct mg_shape *aten_shape(const struct aten_builder *b, mg_value v)
{
    static const struct mg_shape scalar = {0};
    return v == MG_NONE ? &scalar : &b->g->values[v].shape;
}

enum mg_dtype aten_dtype(const struct aten_builder *b, mg_value v)
{
    return v == MG_NONE ? MG_DTYPE_F32 : b->g->values[v].dtype;
}

/* ---- operators that many rules need ---- */

mg_value aten_reshape(struct aten_builder *b, mg_value v, const struct mg_shape *shape)
{
    if (v == MG_NONE || mg_shape_equal(aten_shape(b, v), shape))
        return v;
    if (mg_shape_elements(shape) != mg_shape_elements(aten_shape(b, v)))
        return aten_decline(b);
    mg_op maker = b->g->values[v].producer; /* there and back is nothing */
    if (maker != MG_NONE && b->g->ops[maker].type == MG_OP_RESHAPE &&
        mg_shape_equal(aten_shape(b, b->g->ops[maker].in[0]), shape))
        return b->g->ops[maker].in[0];
    aten_set_ints(b, MG_ATTR_SHAPE, shape->dim, shape->rank);
    aten_set_int(b, MG_ATTR_ALLOWZERO, 1);
    return aten_emit1(b, MG_OP_RESHAPE, v);
}

const struct mg_op_info *aten_made_by(const struct aten_builder *b, mg_value v, enum mg_op_type type)
{
    mg_op op = v == MG_NONE ? MG_NONE : b->g->values[v].producer;
    return op != MG_NONE && b->g->ops[op].type == type ? &b->g->ops[op] : NULL;
}

mg_value aten_cast(struct aten_builder *b, mg_value v, enum mg_dtype dtype)
{
    if (v == MG_NONE || aten_dtype(b, v) == dtype)
        return v;
    aten_set_text(b, MG_ATTR_TO, mg_dtype_name(dtype));
    return aten_emit1(b, MG_OP_CAST, v);
}

bool aten_holds(enum mg_dtype dtype, double value)
{
    if (dtype < MG_DTYPE_I64)
        return true;
    bool only_positive = mg_dtype_is_unsigned(dtype) || dtype == MG_DTYPE_BOOL;
    int bits = dtype == MG_DTYPE_BOOL ? 1 : (int)(8 * mg_dtype_size(dtype)) - !only_positive;
    double limit = bits > 53 ? 9007199254740991.0 : (double)((UINT64_C(1) << bits) - 1);
    double least = only_positive ? 0 : -limit;
    return value >= least && value <= limit && value == floor(value);
}

mg_value aten_fill(struct aten_builder *b, const struct mg_shape *shape, enum mg_dtype dtype, double value)
{
    if (!aten_holds(dtype, value))
        return aten_decline(b);
    aten_set_ints(b, MG_ATTR_SHAPE, shape->dim, shape->rank);
    aten_set_text(b, MG_ATTR_TO, mg_dtype_name(dtype));
    aten_set_real(b, MG_ATTR_VALUE, value);
    return aten_emit(b, MG_OP_FILL, NULL, 0, NULL, 1);
}

mg_value aten_affine(struct aten_builder *b, mg_value v, double alpha, double beta)
{
    if (alpha == 1 && beta == 0)
        return v;
    if (fabs(alpha) >= DBL_MAX || fabs(beta) >= DBL_MAX) /* infinity is no factor in every type */
        return aten_decline(b);
    if (!aten_holds(aten_dtype(b, v), alpha) || !aten_holds(aten_dtype(b, v), beta))
        return aten_decline(b);
    aten_set_real(b, MG_ATTR_ALPHA, alpha);
    aten_set_real(b, MG_ATTR_BETA, beta);
    return aten_emit1(b, MG_OP_AFFINE, v);
}

mg_value aten_expand(struct aten_builder *b, mg_value v, const struct mg_shape *shape)
{
    if (v == MG_NONE || mg_shape_equal(aten_shape(b, v), shape))
        return v;
    aten_set_ints(b, MG_ATTR_SHAPE, shape->dim, shape->rank);
    return aten_emit1(b, MG_OP_EXPAND, v);
}

mg_value aten_slice(struct aten_builder *b, mg_value v, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    if (v == MG_NONE || (start == 0 && step == 1 && end == aten_shape(b, v)->dim[axis]))
        return v;
    aten_set_ints(b, MG_ATTR_STARTS, &start, 1);
    aten_set_ints(b, MG_ATTR_ENDS, &end, 1);
    aten_set_ints(b, MG_ATTR_AXES, &axis, 1);
    aten_set_ints(b, MG_ATTR_STEPS, &step, 1);
    return aten_emit1(b, MG_OP_SLICE, v);
}

static mg_value slice_grad(struct aten_builder *b, mg_value v, const struct mg_shape *whole, const int64_t at[4])
{
    aten_set_ints(b, MG_ATTR_SHAPE, whole->dim, whole->rank);
    aten_set_ints(b, MG_ATTR_STARTS, &at[1], 1);
    aten_set_ints(b, MG_ATTR_ENDS, &at[2], 1);
    aten_set_ints(b, MG_ATTR_AXES, &at[0], 1);
    aten_set_ints(b, MG_ATTR_STEPS, &at[3], 1);
    return aten_emit1(b, MG_OP_SLICE_GRAD, v);
}

mg_value aten_put(struct aten_builder *b, mg_value whole, mg_value part, int64_t axis, int64_t start, int64_t end,
                  int64_t step)
{
    const int64_t at[4] = {axis, start, end, step};
    const struct mg_shape shape = *aten_shape(b, whole);
    if (whole == MG_NONE || part == MG_NONE)
        return aten_decline(b);
    mg_value mask = slice_grad(b, aten_fill(b, aten_shape(b, part), MG_DTYPE_BOOL, 1), &shape, at);
    const mg_value in[3] = {mask, slice_grad(b, part, &shape, at), whole};
    return aten_emit(b, MG_OP_WHERE, in, 3, NULL, 1);
}
