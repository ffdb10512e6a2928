/* What the rules of single operators are written with. */
#include <stdio.h>
#include <string.h>

#include "formats/onnx_priv.h"

enum { MAX_LIST = 1 << 16 };

/* ---- names ---- */

const char *mg_onnx_unique(struct mg_names *names, struct mg_arena *arena, const char *name)
{
    void **slot = mg_names_at(names, arena, name);
    uintptr_t used = (uintptr_t)*slot;
    if (!used) {
        *slot = (void *)(uintptr_t)1;
        return name;
    }
    const char *other;
    do
        other = mg_arena_printf(arena, "%s_%zu", name, (size_t)++used);
    while (mg_names_find(names, other));
    *mg_names_at(names, arena, name) = (void *)used;
    *mg_names_at(names, arena, other) = (void *)(uintptr_t)1;
    return other;
}

/* ---- failures ---- */

static void fail(struct onnx_call *c, enum mg_code code, const char *text)
{
    if (c->code != MG_OK)
        return;
    c->code = code;
    if (code == MG_ERR_UNSUPPORTED)
        mg_onnx_add_reason(c->m, mg_arena_printf(c->m->arena, "%s (%s)", c->node->op_type, text));
    else
        mg_fail(c->m->err, code, "", "node '%.100s' (%.60s): %s", c->name, c->node->op_type, text);
}

void mg_onnx_unsupported(struct onnx_call *c, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fail(c, MG_ERR_UNSUPPORTED, text);
}

void mg_onnx_invalid(struct onnx_call *c, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fail(c, MG_ERR_INVALID, text);
}

/* ---- attributes ---- */

static const struct onnx_attribute *find_attribute(const struct onnx_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct onnx_attribute *attribute = ONNX_AT(*list, struct onnx_attribute, i);
        if (attribute->name && strcmp(attribute->name, name) == 0)
            return attribute;
    }
    return NULL;
}

/* A reference stands for the attribute of the call, or for the function's default. */
static const struct onnx_attribute *resolve(const struct onnx_scope *s, const struct onnx_node *node, const char *name)
{
    const struct onnx_attribute *found = find_attribute(&node->attributes, name);
    while (found && found->reference && *found->reference) {
        while (s && !s->call)
            s = s->outer;
        if (!s)
            return NULL;
        name = found->reference;
        found = find_attribute(&s->call->attributes, name);
        if (!found)
            return find_attribute(&s->body->defaults, name);
        s = s->caller;
    }
    return found;
}

const struct onnx_attribute *mg_onnx_attr(const struct onnx_call *c, const char *name)
{
    return resolve(c->s, c->node, name);
}

int64_t mg_onnx_int(const struct onnx_call *c, const char *name, int64_t otherwise)
{
    const struct onnx_attribute *attribute = mg_onnx_attr(c, name);
    return attribute ? attribute->i.value : otherwise;
}

double mg_onnx_real(const struct onnx_call *c, const char *name, double otherwise)
{
    const struct onnx_attribute *attribute = mg_onnx_attr(c, name);
    return attribute ? (double)attribute->f : otherwise;
}

const char *mg_onnx_text(const struct onnx_call *c, const char *name, const char *otherwise)
{
    const struct onnx_attribute *attribute = mg_onnx_attr(c, name);
    return attribute && attribute->text ? attribute->text : otherwise;
}

const int64_t *mg_onnx_ints(const struct onnx_call *c, const char *name, uint32_t *count)
{
    const struct onnx_attribute *attribute = mg_onnx_attr(c, name);
    *count = attribute ? attribute->ints.count : 0;
    if (!attribute)
        return NULL;
    return *count ? attribute->ints.items : MG_NEW_ARRAY(c->m->arena, int64_t, 1);
}

/* ---- operands ---- */

bool mg_onnx_has(const struct onnx_call *c, uint32_t i)
{
    return i < c->in_count && c->in[i];
}

static struct onnx_value *operand(struct onnx_call *c, uint32_t i)
{
    if (mg_onnx_has(c, i))
        return c->in[i];
    mg_onnx_invalid(c, "operand %u is missing", i);
    return NULL;
}

static mg_value take(struct onnx_call *c, uint32_t i, enum mg_kind kind)
{
    struct onnx_value *value = c->code == MG_OK ? operand(c, i) : NULL;
    return value ? mg_onnx_materialise(c->m, value, kind) : MG_NONE;
}

static bool is_real(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_I64;
}

mg_value mg_onnx_in(struct onnx_call *c, uint32_t i)
{
    const struct onnx_value *value = mg_onnx_has(c, i) ? c->in[i] : NULL;
    bool weight =
        value && value->origin == ONNX_INITIALIZER && is_real(value->dtype) && mg_shape_elements(&value->shape) > 1;
    return take(c, i, weight ? MG_KIND_WEIGHT : MG_KIND_CONSTANT);
}

mg_value mg_onnx_weight(struct onnx_call *c, uint32_t i)
{
    return take(c, i, mg_onnx_has(c, i) && is_real(c->in[i]->dtype) ? MG_KIND_WEIGHT : MG_KIND_CONSTANT);
}

mg_value mg_onnx_constant(struct onnx_call *c, uint32_t i)
{
    return take(c, i, MG_KIND_CONSTANT);
}

const struct mg_shape *mg_onnx_shape(struct onnx_call *c, uint32_t i)
{
    static const struct mg_shape scalar;
    struct onnx_value *value = operand(c, i);
    return value ? &value->shape : &scalar;
}

enum mg_dtype mg_onnx_dtype_of(struct onnx_call *c, uint32_t i)
{
    struct onnx_value *value = operand(c, i);
    return value ? value->dtype : MG_DTYPE_F32;
}

const struct mg_onnx_data *mg_onnx_known(struct onnx_call *c, uint32_t i)
{
    struct onnx_value *value = operand(c, i);
    if (value && !value->data)
        mg_onnx_unsupported(c, "operand %u is known only at run time", i);
    return c->code == MG_OK && value ? value->data : NULL;
}

const int64_t *mg_onnx_known_ints(struct onnx_call *c, uint32_t i, uint32_t *count)
{
    const struct mg_onnx_data *data = mg_onnx_known(c, i);
    *count = 0;
    if (data && !data->whole)
        mg_onnx_invalid(c, "operand %u must be of integers", i);
    int64_t elements = data ? mg_shape_elements(&data->shape) : 0;
    if (elements > MAX_LIST)
        mg_onnx_unsupported(c, "operand %u is a list of %lld numbers", i, (long long)elements);
    if (c->code != MG_OK || !data || !data->whole)
        return NULL;
    *count = (uint32_t)elements;
    if (!data->uniform)
        return data->whole;
    int64_t *list = MG_NEW_ARRAY(c->m->arena, int64_t, *count + 1);
    for (uint32_t k = 0; k < *count; k++)
        list[k] = data->whole[data->uniform ? 0 : k];
    return list;
}

double mg_onnx_known_scalar(struct onnx_call *c, uint32_t i, double otherwise)
{
    if (!mg_onnx_has(c, i))
        return otherwise;
    const struct mg_onnx_data *data = mg_onnx_known(c, i);
    if (data && mg_shape_elements(&data->shape) != 1)
        mg_onnx_invalid(c, "operand %u must be one number", i);
    return c->code == MG_OK ? mg_onnx_data_at(data, 0) : otherwise;
}

int64_t mg_onnx_known_integer(struct onnx_call *c, uint32_t i, int64_t otherwise)
{
    double value = mg_onnx_known_scalar(c, i, (double)otherwise);
    if (value >= -ONNX_EXACT && value <= ONNX_EXACT)
        return (int64_t)value;
    mg_onnx_unsupported(c, "operand %u is %g", i, value);
    return otherwise;
}

const int64_t *mg_onnx_list(struct onnx_call *c, uint32_t i, const char *attr, uint32_t *count)
{
    if (mg_onnx_has(c, i))
        return mg_onnx_known_ints(c, i, count);
    return mg_onnx_ints(c, attr, count);
}

uint32_t mg_onnx_axis(struct onnx_call *c, int64_t axis, uint32_t rank)
{
    int64_t at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank)
        return (uint32_t)at;
    mg_onnx_invalid(c, "axis %lld is outside rank %u", (long long)axis, rank);
    return 0;
}

const struct mg_value_info *mg_onnx_info(const struct onnx_call *c, mg_value value)
{
    static const struct mg_value_info nothing;
    return value == MG_NONE ? &nothing : &c->m->g->values[value];
}

/* ---- adding operators ---- */

/* A name that no operator has yet. */
static const char *op_name(struct onnx_call *c)
{
    const char *name = c->last ? c->name : mg_arena_printf(c->m->arena, "%s.%u", c->name, ++c->made);
    return mg_onnx_unique(&c->m->op_names, c->m->arena, name);
}

static const char *value_name(struct onnx_call *c, const char *op, uint32_t slot)
{
    const char *name;
    if (c->last && slot < c->node->outputs.count && *ONNX_NAME(c->node->outputs, slot))
        name = mg_arena_printf(c->m->arena, "%s%s", c->s->prefix, ONNX_NAME(c->node->outputs, slot));
    else
        name = mg_arena_printf(c->m->arena, "%s:%u", op, slot);
    return mg_onnx_unique(&c->m->value_names, c->m->arena, name);
}

void mg_onnx_last(struct onnx_call *c)
{
    c->last = true;
}

mg_value mg_onnx_add(struct onnx_call *c, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                     const struct mg_attr *attrs, uint32_t attr_count, uint32_t out_count, mg_value *results)
{
    mg_value *made = results ? results : MG_NEW_ARRAY(c->m->arena, mg_value, out_count + 1);
    const char **names = MG_NEW_ARRAY(c->m->arena, const char *, out_count + 1);
    for (uint32_t i = 0; i < out_count; i++)
        made[i] = MG_NONE;
    if (c->code != MG_OK)
        return MG_NONE;
    const char *name = op_name(c);
    for (uint32_t i = 0; i < out_count; i++)
        names[i] = value_name(c, name, i);
    mg_op op = (mg_op)c->m->g->op_count;
    struct mg_error err;
    enum mg_code code =
        mg_graph_add_op(c->m->g, type, name, in, in_count, attrs, attr_count, names, out_count, made, &err);
    if (code != MG_OK) {
        for (uint32_t i = 0; i < out_count; i++)
            made[i] = MG_NONE;
        c->code = mg_fail(c->m->err, code, "", "node '%.100s' (%.60s): %s", c->name, c->node->op_type, err.message);
        return MG_NONE;
    }
    if (c->module)
        mg_graph_set_module(c->m->g, op, c->module);
    for (uint32_t i = 0; c->last && i < out_count && i < c->out_count; i++)
        mg_onnx_result(c, i, made[i]);
    c->last = false;
    return out_count ? made[0] : MG_NONE;
}

void mg_onnx_alias(struct onnx_call *c, uint32_t slot, struct onnx_value *value)
{
    if (slot < c->out_count)
        c->out[slot] = value;
}

void mg_onnx_fold(struct onnx_call *c, uint32_t slot, const struct mg_onnx_data *data)
{
    if (slot >= c->out_count || c->code != MG_OK)
        return;
    struct onnx_value *value = MG_NEW(c->m->arena, struct onnx_value);
    *value = (struct onnx_value){.name = ONNX_NAME(c->node->outputs, slot),
                                 .dtype = data->dtype,
                                 .shape = data->shape,
                                 .origin = ONNX_FOLDED,
                                 .value = MG_NONE,
                                 .data = data,
                                 .constant = true};
    if (*c->s->prefix)
        value->name = mg_arena_printf(c->m->arena, "%s%s", c->s->prefix, value->name);
    c->out[slot] = value;
}

void mg_onnx_result(struct onnx_call *c, uint32_t slot, mg_value value)
{
    if (slot >= c->out_count || c->code != MG_OK)
        return;
    const struct mg_value_info *info = &c->m->g->values[value];
    struct onnx_value *result = MG_NEW(c->m->arena, struct onnx_value);
    *result = (struct onnx_value){.name = info->name, .dtype = info->dtype, .shape = info->shape, .value = value};
    c->out[slot] = result;
}

/* ---- common operators ---- */

mg_value mg_onnx_unary(struct onnx_call *c, enum mg_op_type type, mg_value x)
{
    return mg_onnx_add(c, type, OPERANDS(x), NO_ATTRS, 1, NULL);
}

mg_value mg_onnx_binary(struct onnx_call *c, enum mg_op_type type, mg_value x, mg_value y)
{
    return mg_onnx_add(c, type, OPERANDS(x, y), NO_ATTRS, 1, NULL);
}

mg_value mg_onnx_affine(struct onnx_call *c, mg_value x, double alpha, double beta)
{
    return mg_onnx_add(c, MG_OP_AFFINE, OPERANDS(x), ATTRS(A_REAL(ALPHA, alpha), A_REAL(BETA, beta)), 1, NULL);
}

mg_value mg_onnx_reshape(struct onnx_call *c, mg_value x, const struct mg_shape *shape)
{
    bool same = !c->last && c->code == MG_OK && mg_shape_equal(shape, &c->m->g->values[x].shape);
    if (same)
        return x;
    return mg_onnx_add(c, MG_OP_RESHAPE, OPERANDS(x),
                       ATTRS(A_INTS(SHAPE, shape->dim, shape->rank), A_INT(ALLOWZERO, 1)), 1, NULL);
}

mg_value mg_onnx_permute(struct onnx_call *c, mg_value x, const int64_t *perm)
{
    uint32_t rank = mg_onnx_info(c, x)->shape.rank;
    return mg_onnx_add(c, MG_OP_TRANSPOSE, OPERANDS(x), ATTRS(A_INTS(PERM, perm, rank)), 1, NULL);
}

mg_value mg_onnx_cast(struct onnx_call *c, mg_value x, enum mg_dtype dtype)
{
    if (c->code != MG_OK || (!c->last && c->m->g->values[x].dtype == dtype))
        return x;
    return mg_onnx_add(c, MG_OP_CAST, OPERANDS(x), ATTRS(A_TEXT(TO, mg_dtype_name(dtype))), 1, NULL);
}

mg_value mg_onnx_scalar(struct onnx_call *c, double value, enum mg_dtype dtype)
{
    static const int64_t nothing[1];
    return mg_onnx_add(c, MG_OP_FILL, NULL, 0,
                       ATTRS(A_INTS(SHAPE, nothing, 0), A_TEXT(TO, mg_dtype_name(dtype)), A_REAL(VALUE, value)), 1,
                       NULL);
}
