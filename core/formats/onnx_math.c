/* ONNX rules: elementwise operators. */
#include <float.h>
#include <string.h>

#include "formats/onnx_rules.h"

static bool is_real(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_I64;
}

static mg_value one(struct onnx_call *c, enum mg_op_type type, mg_value x)
{
    return mg_onnx_unary(c, type, x);
}

static mg_value two(struct onnx_call *c, enum mg_op_type type, mg_value x, mg_value y)
{
    return mg_onnx_binary(c, type, x, y);
}

/* ---- one operand ---- */

void onnx_rule_unary(struct onnx_call *c, int which)
{
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    one(c, (enum mg_op_type)which, x);
}

/* Attributes of the same name, as our operator's schema lists them. */
static uint32_t same_attributes(struct onnx_call *c, enum mg_op_type type, struct mg_attr *attrs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->node->attributes.count; i++) {
        const char *name = ONNX_AT(c->node->attributes, struct onnx_attribute, i)->name;
        const struct onnx_attribute *given = name ? mg_onnx_attr(c, name) : NULL;
        struct mg_attr *attr = &attrs[count];
        *attr = (struct mg_attr){.key = name ? mg_attr_from_name(name) : MG_ATTR_COUNT};
        if (!given)
            continue;
        if (attr->key == MG_ATTR_COUNT || !mg_op_attr_type(type, attr->key, &attr->type))
            mg_onnx_unsupported(c, "attribute '%.60s'", name);
        else if (attr->type == MG_ATTR_TYPE_FLOAT)
            attr->f = (double)given->f;
        else if (attr->type == MG_ATTR_TYPE_INT)
            attr->i = given->i.value;
        else if (attr->type == MG_ATTR_TYPE_STRING)
            attr->string = given->text ? given->text : "";
        else
            attr->ints = mg_onnx_ints(c, name, &attr->count);
        count++;
    }
    return count;
}

void onnx_rule_direct(struct onnx_call *c, int which)
{
    mg_value *in = MG_NEW_ARRAY(c->m->arena, mg_value, c->in_count + 1);
    struct mg_attr *attrs = MG_NEW_ARRAY(c->m->arena, struct mg_attr, c->node->attributes.count + 1);
    uint32_t count = same_attributes(c, (enum mg_op_type)which, attrs);
    for (uint32_t i = 0; i < c->in_count; i++)
        in[i] = mg_onnx_in(c, i);
    mg_onnx_last(c);
    mg_onnx_add(c, (enum mg_op_type)which, in, c->in_count, attrs, count, 1, NULL);
}

void onnx_rule_swish(struct onnx_call *c, int which)
{
    (void)which;
    double alpha = mg_onnx_real(c, "alpha", 1);
    mg_value x = mg_onnx_in(c, 0);
    mg_value gate = alpha == 1 ? MG_NONE : one(c, MG_OP_SIGMOID, mg_onnx_affine(c, x, alpha, 0));
    mg_onnx_last(c);
    if (alpha == 1)
        one(c, MG_OP_SILU, x);
    else
        two(c, MG_OP_MUL, x, gate);
}

/* The last operator on two values that were made before. */
static void finish(struct onnx_call *c, enum mg_op_type type, mg_value x, mg_value y)
{
    mg_onnx_last(c);
    two(c, type, x, y);
}

/* ---- casts ---- */

static void cast_to(struct onnx_call *c, enum mg_dtype dtype)
{
    if (c->code == MG_OK && mg_onnx_dtype_of(c, 0) == dtype) {
        mg_onnx_alias(c, 0, c->in[0]);
        return;
    }
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_cast(c, x, dtype);
}

void onnx_rule_cast(struct onnx_call *c, int which)
{
    enum mg_dtype dtype;
    int64_t to = mg_onnx_int(c, "to", 0);
    bool known = mg_onnx_dtype(to, &dtype);
    (void)which;
    bool byte = known && mg_dtype_size(dtype) == 1 && is_real(dtype);
    if (byte && !mg_onnx_int(c, "saturate", 1))
        mg_onnx_unsupported(c, "to %s without saturation", mg_onnx_dtype_text(to));
    else if (known)
        cast_to(c, dtype);
    else
        mg_onnx_unsupported(c, "to %s", mg_onnx_dtype_text(to));
}

void onnx_rule_cast_like(struct onnx_call *c, int which)
{
    (void)which;
    cast_to(c, mg_onnx_dtype_of(c, 1));
}

void onnx_rule_identity(struct onnx_call *c, int which)
{
    (void)which;
    mg_onnx_alias(c, 0, c->in[0]);
}

/* ---- clip ---- */

static bool bound_known(const struct onnx_call *c, uint32_t i)
{
    return !mg_onnx_has(c, i) || (c->in[i]->data && mg_shape_elements(&c->in[i]->shape) == 1);
}

void onnx_rule_clip(struct onnx_call *c, int which)
{
    (void)which;
    mg_value x = mg_onnx_in(c, 0);
    if (!bound_known(c, 1) || !bound_known(c, 2)) {
        mg_value low = mg_onnx_has(c, 1) ? mg_onnx_in(c, 1) : MG_NONE;
        mg_value high = mg_onnx_has(c, 2) ? mg_onnx_in(c, 2) : MG_NONE;
        if (low != MG_NONE && high != MG_NONE)
            x = two(c, MG_OP_MAX, x, low);
        finish(c, high != MG_NONE ? MG_OP_MIN : MG_OP_MAX, x, high != MG_NONE ? high : low);
        return;
    }
    double low = mg_onnx_known_scalar(c, 1, mg_onnx_real(c, "min", -DBL_MAX));
    double high = mg_onnx_known_scalar(c, 2, mg_onnx_real(c, "max", DBL_MAX));
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_CLIP, OPERANDS(x),
                ATTRS(A_REAL(MIN, low < -DBL_MAX ? -DBL_MAX : low), A_REAL(MAX, high > DBL_MAX ? DBL_MAX : high)), 1,
                NULL);
}

/* ---- dropout ---- */

static void all_true(struct onnx_call *c, uint32_t slot)
{
    static const int64_t yes[] = {1};
    struct mg_onnx_data *data = MG_NEW(c->m->arena, struct mg_onnx_data);
    *data = (struct mg_onnx_data){MG_DTYPE_BOOL, *mg_onnx_shape(c, 0), true, NULL, yes};
    mg_onnx_fold(c, slot, data);
}

/* Inference unless the file says otherwise. */
void onnx_rule_dropout(struct onnx_call *c, int which)
{
    (void)which;
    bool trains = mg_onnx_has(c, 2) && mg_onnx_known_scalar(c, 2, 0) != 0;
    double ratio = trains ? mg_onnx_known_scalar(c, 1, 0.5) : 0;
    if (ratio == 0) {
        mg_onnx_alias(c, 0, c->in[0]);
        if (c->out_count > 1)
            all_true(c, 1);
        return;
    }
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_DROPOUT, OPERANDS(x),
                ATTRS(A_REAL(RATIO, ratio), A_INT(SEED, mg_onnx_int(c, "seed", 0) & INT32_MAX)), 2, NULL);
}

/* ---- two operands ---- */

/* A constant number that does not widen the other operand's shape. */
static bool is_number(const struct onnx_call *c, uint32_t i)
{
    const struct onnx_value *value = c->in[i], *other = c->in[1 - i];
    return value->constant && is_real(value->dtype) && value->dtype == other->dtype &&
           mg_shape_elements(&value->shape) == 1 && value->shape.rank <= other->shape.rank;
}

/* An operation with a number is one on a single operand: alpha x + beta, or a bound. */
static bool by_number(struct onnx_call *c, int which)
{
    uint32_t at = is_number(c, 1) ? 1 : 0;
    if (!is_number(c, at) || (at == 0 && which == MG_OP_DIV))
        return false;
    double number = mg_onnx_data_at(c->in[at]->data, 0);
    bool bad = !(number >= -DBL_MAX && number <= DBL_MAX) || (which == MG_OP_DIV && number == 0);
    if (bad || (which != MG_OP_ADD && which != MG_OP_SUB && which != MG_OP_MUL && which != MG_OP_DIV))
        return false;
    mg_value x = mg_onnx_in(c, 1 - at);
    mg_onnx_last(c);
    if (which == MG_OP_ADD)
        mg_onnx_affine(c, x, 1, number);
    else if (which == MG_OP_SUB)
        mg_onnx_affine(c, x, at == 1 ? 1 : -1, at == 1 ? -number : number);
    else
        mg_onnx_affine(c, x, which == MG_OP_MUL ? number : 1 / number, 0);
    return true;
}

void onnx_rule_binary(struct onnx_call *c, int which)
{
    if (by_number(c, which))
        return;
    mg_value x = mg_onnx_in(c, 0), y = mg_onnx_in(c, 1);
    finish(c, (enum mg_op_type)which, x, y);
}

void onnx_rule_pow(struct onnx_call *c, int which)
{
    (void)which;
    enum mg_dtype dtype = mg_onnx_dtype_of(c, 0), work = is_real(dtype) ? dtype : MG_DTYPE_F64;
    mg_value x = mg_onnx_cast(c, mg_onnx_in(c, 0), work), y = mg_onnx_cast(c, mg_onnx_in(c, 1), work);
    if (work == dtype) {
        finish(c, MG_OP_POW, x, y);
        return;
    }
    x = two(c, MG_OP_POW, x, y);
    mg_onnx_last(c);
    mg_onnx_cast(c, x, dtype);
}

static mg_value chain(struct onnx_call *c, enum mg_op_type type, bool last)
{
    mg_value sum = mg_onnx_in(c, 0);
    for (uint32_t i = 1; i < c->in_count; i++) {
        mg_value next = mg_onnx_in(c, i);
        c->last = last && i + 1 == c->in_count;
        sum = two(c, type, sum, next);
    }
    return sum;
}

void onnx_rule_variadic(struct onnx_call *c, int which)
{
    if (c->in_count == 1)
        mg_onnx_alias(c, 0, c->in[0]);
    else
        chain(c, (enum mg_op_type)which, true);
}

void onnx_rule_mean(struct onnx_call *c, int which)
{
    (void)which;
    mg_value sum = chain(c, MG_OP_ADD, false);
    mg_onnx_last(c);
    mg_onnx_affine(c, sum, 1.0 / c->in_count, 0);
}

void onnx_rule_where(struct onnx_call *c, int which)
{
    (void)which;
    mg_value condition = mg_onnx_in(c, 0), x = mg_onnx_in(c, 1), y = mg_onnx_in(c, 2);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_WHERE, OPERANDS(condition, x, y), NO_ATTRS, 1, NULL);
}
