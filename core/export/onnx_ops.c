/* Our operators as ONNX nodes: the table, what writers share, elementwise operators and reductions. */
#include <float.h>
#include <stdarg.h>
#include <stdio.h>

#include "export/onnx_emit.h"

static mg_emit_writer *const writers[MG_OP_COUNT] = {
#define MG_ONNX_OUT(id, writer, dtypes) [MG_OP_##id] = mg_emit_##writer,
#include "export/onnx_ops.def"
#undef MG_ONNX_OUT
};

static const char *const admitted[MG_OP_COUNT] = {
#define MG_ONNX_OUT(id, writer, dtypes) [MG_OP_##id] = dtypes,
#include "export/onnx_ops.def"
#undef MG_ONNX_OUT
};

static const char *const names[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, cost, purity, in_place,        \
              layout, onnx, aten)                                                                                      \
    [MG_OP_##id] = onnx,
#include "graph/ops.def"
#undef MG_OP
};

void mg_emit_refuse(const struct mg_emit *e, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mg_emit_reason(e->s, mg_arena_printf(e->s->arena, "%s (%s)", mg_op_type_name(e->d->type), text));
}

static bool has_types(const struct mg_emit *e)
{
    static const char letters[MG_DTYPE_COUNT] = {
        [MG_DTYPE_F64] = 'd', [MG_DTYPE_F32] = 's', [MG_DTYPE_F16] = 'h', [MG_DTYPE_BF16] = 'b', [MG_DTYPE_I64] = 'l',
        [MG_DTYPE_I32] = 'i', [MG_DTYPE_I16] = 'w', [MG_DTYPE_I8] = 'c',  [MG_DTYPE_U8] = 'u',   [MG_DTYPE_U16] = 'W',
        [MG_DTYPE_U32] = 'I', [MG_DTYPE_U64] = 'L', [MG_DTYPE_BOOL] = '?'};
    const struct mg_op_desc *d = e->d;
    bool second = d->type == MG_OP_WHERE || d->type == MG_OP_ONE_HOT;
    enum mg_dtype judged = second ? d->in_dtype[1] : mg_emit_dtype(e);
    for (uint32_t i = 0; i < d->in_count + d->out_count; i++) {
        enum mg_dtype dtype = i < d->in_count ? d->in_dtype[i] : d->out_dtype[i - d->in_count];
        if (mg_onnx_elem_type(dtype))
            continue;
        mg_emit_refuse(e, "%s, which opset %d has not", mg_dtype_name(dtype), MG_ONNX_OPSET);
        return false;
    }
    if (strchr(admitted[d->type], letters[judged]))
        return true;
    mg_emit_refuse(e, "of %s, which opset %d does not admit", mg_dtype_name(judged), MG_ONNX_OPSET);
    return false;
}

bool mg_emit_knows(enum mg_op_type type)
{
    return writers[type] != NULL;
}

void mg_emit_op(const struct mg_emit *e)
{
    if (!writers[e->d->type])
        mg_emit_reason(e->s, mg_op_type_name(e->d->type));
    else if (has_types(e))
        writers[e->d->type](e, names[e->d->type]);
}

/* ---- what writers share ---- */

static const struct mg_attr *attr_of(const struct mg_emit *e, enum mg_attr_key key)
{
    return mg_attr_find(e->d->attrs, e->d->attr_count, key);
}

int64_t mg_emit_int(const struct mg_emit *e, enum mg_attr_key key)
{
    const struct mg_attr *attr = attr_of(e, key);
    return attr ? attr->i : 0;
}

double mg_emit_real(const struct mg_emit *e, enum mg_attr_key key)
{
    const struct mg_attr *attr = attr_of(e, key);
    return attr ? attr->f : 0;
}

const char *mg_emit_text(const struct mg_emit *e, enum mg_attr_key key)
{
    const struct mg_attr *attr = attr_of(e, key);
    return attr ? attr->string : "";
}

const int64_t *mg_emit_list(const struct mg_emit *e, enum mg_attr_key key, uint32_t *count)
{
    const struct mg_attr *attr = attr_of(e, key);
    *count = attr ? attr->count : 0;
    return attr ? attr->ints : NULL;
}

bool mg_emit_list_is(const struct mg_emit *e, enum mg_attr_key key, int64_t value)
{
    uint32_t count;
    const int64_t *list = mg_emit_list(e, key, &count);
    for (uint32_t i = 0; i < count; i++)
        if (list[i] != value)
            return false;
    return true;
}

const char *const *mg_emit_all(const struct mg_emit *e)
{
    const char **out = MG_NEW_ARRAY(e->s->arena, const char *, e->d->out_count + 1);
    for (uint32_t i = 0; i < e->d->out_count; i++)
        out[i] = e->out[i] ? e->out[i] : mg_emit_fresh(e->s, "t");
    return out;
}

enum mg_dtype mg_emit_dtype(const struct mg_emit *e)
{
    return e->d->in_count ? e->d->in_dtype[0] : e->d->out_dtype[0];
}

const char *mg_emit_unary(const struct mg_emit *e, const char *out, const char *type, const char *x)
{
    return mg_emit_one(e->s, out, type, IN(x), NULL);
}

const char *mg_emit_binary(const struct mg_emit *e, const char *out, const char *type, const char *x, const char *y)
{
    return mg_emit_one(e->s, out, type, IN(x, y), NULL);
}

const char *mg_emit_by(const struct mg_emit *e, const char *out, const char *type, const char *x, double number)
{
    return mg_emit_binary(e, out, type, x, mg_emit_number(e->s, mg_emit_dtype(e), number));
}

const char *mg_emit_reshape(const struct mg_emit *e, const char *out, const char *x, const struct mg_shape *shape)
{
    bool zero = mg_shape_elements(shape) == 0;
    const char *size = mg_emit_ints(e->s, shape->dim, shape->rank);
    return mg_emit_one(e->s, out, "Reshape", IN(x, size), zero ? FIELDS(F_INT("allowzero", 1)) : NULL);
}

const char *mg_emit_reduce(const struct mg_emit *e, const char *out, const char *type, const char *x,
                           const int64_t *axes, uint32_t count, bool keep)
{
    if (strcmp(type, "ReduceSum") == 0)
        return mg_emit_one(e->s, out, type, IN(x, mg_emit_ints(e->s, axes, count)), FIELDS(F_INT("keepdims", keep)));
    if (!count)
        return mg_emit_one(e->s, out, type, IN(x), FIELDS(F_INT("keepdims", keep)));
    return mg_emit_one(e->s, out, type, IN(x), FIELDS(F_INTS("axes", axes, count), F_INT("keepdims", keep)));
}

const char *mg_emit_filled(const struct mg_emit *e, const char *out, const struct mg_shape *shape, enum mg_dtype dtype,
                           double value)
{
    const struct mg_field field = {.name = "value", .kind = MG_FIELD_TENSOR, .dtype = dtype, .f = value};
    const char *size = mg_emit_ints(e->s, shape->dim, shape->rank);
    if (dtype == MG_DTYPE_BF16)
        return mg_emit_one(e->s, out, "Expand", IN(mg_emit_number(e->s, dtype, value), size), NULL);
    return mg_emit_one(e->s, out, "ConstantOfShape", IN(size), FIELDS(field));
}

static struct mg_field field_of(const struct mg_attr *attr)
{
    struct mg_field field = {.name = mg_attr_name(attr->key)};
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        field.kind = MG_FIELD_INT;
        field.i = attr->i;
        break;
    case MG_ATTR_TYPE_FLOAT:
        field.kind = MG_FIELD_REAL;
        field.f = attr->f;
        break;
    case MG_ATTR_TYPE_INTS:
        field.kind = MG_FIELD_INTS;
        field.ints = attr->ints;
        field.count = attr->count;
        break;
    case MG_ATTR_TYPE_STRING:
        field.kind = MG_FIELD_TEXT;
        field.text = attr->string;
    }
    return field;
}

void mg_emit_direct(const struct mg_emit *e, const char *name)
{
    struct mg_field *fields = MG_NEW_ARRAY(e->s->arena, struct mg_field, e->d->attr_count + 1);
    for (uint32_t i = 0; i < e->d->attr_count; i++)
        fields[i] = field_of(&e->d->attrs[i]);
    mg_emit_node(e->s, name, e->in, e->d->in_count, e->out, e->d->out_count, fields);
}

/* ---- two operands ---- */

static bool is_real(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_I64;
}

/* ONNX has the remainder of real numbers only as C rounds: x - floor(x / y) y. */
void mg_emit_mod(const struct mg_emit *e, const char *name)
{
    bool fmod = mg_emit_int(e, MG_ATTR_FMOD);
    if (fmod || !is_real(mg_emit_dtype(e))) {
        mg_emit_one(e->s, e->out[0], name, e->in, 2, FIELDS(F_INT("fmod", fmod)));
        return;
    }
    const char *times = mg_emit_unary(e, NULL, "Floor", mg_emit_binary(e, NULL, "Div", e->in[0], e->in[1]));
    mg_emit_binary(e, e->out[0], "Sub", e->in[0], mg_emit_binary(e, NULL, "Mul", times, e->in[1]));
}

void mg_emit_floor_div(const struct mg_emit *e, const char *name)
{
    (void)name;
    if (is_real(mg_emit_dtype(e))) {
        mg_emit_unary(e, e->out[0], "Floor", mg_emit_binary(e, NULL, "Div", e->in[0], e->in[1]));
        return;
    }
    const char *rest = mg_emit_binary(e, NULL, "Mod", e->in[0], e->in[1]);
    mg_emit_binary(e, e->out[0], "Div", mg_emit_binary(e, NULL, "Sub", e->in[0], rest), e->in[1]);
}

void mg_emit_not_equal(const struct mg_emit *e, const char *name)
{
    (void)name;
    mg_emit_unary(e, e->out[0], "Not", mg_emit_binary(e, NULL, "Equal", e->in[0], e->in[1]));
}

void mg_emit_squared_error(const struct mg_emit *e, const char *name)
{
    (void)name;
    const char *difference = mg_emit_binary(e, NULL, "Sub", e->in[0], e->in[1]);
    mg_emit_binary(e, e->out[0], "Mul", difference, difference);
}

/* ---- one operand ---- */

void mg_emit_affine(const struct mg_emit *e, const char *name)
{
    double alpha = mg_emit_real(e, MG_ATTR_ALPHA), beta = mg_emit_real(e, MG_ATTR_BETA);
    const char *x = e->in[0];
    (void)name;
    if (!is_real(mg_emit_dtype(e)) && (alpha != (double)(int32_t)alpha || beta != (double)(int32_t)beta)) {
        mg_emit_refuse(e, "of whole numbers by fractions");
        return;
    }
    if (alpha != 1 || beta == 0)
        x = mg_emit_by(e, beta == 0 ? e->out[0] : NULL, "Mul", x, alpha);
    if (beta != 0)
        mg_emit_by(e, e->out[0], "Add", x, beta);
}

/* Functions that opset 17 has no operator for. */
void mg_emit_composed(const struct mg_emit *e, const char *name)
{
    const char *x = e->in[0], *out = e->out[0], *sign;
    (void)name;
    switch (e->d->type) {
    case MG_OP_TRUNC:
        sign = mg_emit_unary(e, NULL, "Sign", x);
        mg_emit_binary(e, out, "Mul", sign, mg_emit_unary(e, NULL, "Floor", mg_emit_unary(e, NULL, "Abs", x)));
        break;
    case MG_OP_RSQRT:
        mg_emit_unary(e, out, "Reciprocal", mg_emit_unary(e, NULL, "Sqrt", x));
        break;
    case MG_OP_EXPM1:
        mg_emit_by(e, out, "Sub", mg_emit_unary(e, NULL, "Exp", x), 1);
        break;
    case MG_OP_LOG1P:
        mg_emit_unary(e, out, "Log", mg_emit_by(e, NULL, "Add", x, 1));
        break;
    case MG_OP_LOG2:
        mg_emit_by(e, out, "Mul", mg_emit_unary(e, NULL, "Log", x), 1.4426950408889634);
        break;
    case MG_OP_LOG10:
        mg_emit_by(e, out, "Mul", mg_emit_unary(e, NULL, "Log", x), 0.4342944819032518);
        break;
    case MG_OP_SILU:
        mg_emit_binary(e, out, "Mul", x, mg_emit_unary(e, NULL, "Sigmoid", x));
        break;
    default: /* mish */
        mg_emit_binary(e, out, "Mul", x, mg_emit_unary(e, NULL, "Tanh", mg_emit_unary(e, NULL, "Softplus", x)));
    }
}

/* x / 2 (1 + erf(x / sqrt(2))), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) for erf. */
void mg_emit_gelu(const struct mg_emit *e, const char *name)
{
    const char *x = e->in[0], *inner;
    (void)name;
    if (strcmp(mg_emit_text(e, MG_ATTR_APPROXIMATE), "tanh") == 0) {
        const char *square = mg_emit_binary(e, NULL, "Mul", x, x);
        const char *factor = mg_emit_by(e, NULL, "Add", mg_emit_by(e, NULL, "Mul", square, 0.044715), 1);
        inner = mg_emit_by(e, NULL, "Mul", mg_emit_binary(e, NULL, "Mul", x, factor), 0.7978845608028654);
        inner = mg_emit_unary(e, NULL, "Tanh", inner);
    } else {
        inner = mg_emit_unary(e, NULL, "Erf", mg_emit_by(e, NULL, "Mul", x, 0.7071067811865476));
    }
    const char *half = mg_emit_by(e, NULL, "Mul", x, 0.5);
    mg_emit_binary(e, e->out[0], "Mul", half, mg_emit_by(e, NULL, "Add", inner, 1));
}

void mg_emit_clip(const struct mg_emit *e, const char *name)
{
    double low = mg_emit_real(e, MG_ATTR_MIN), high = mg_emit_real(e, MG_ATTR_MAX);
    enum mg_dtype dtype = mg_emit_dtype(e);
    const char *least = low > -DBL_MAX ? mg_emit_number(e->s, dtype, low) : "";
    const char *most = high < DBL_MAX ? mg_emit_number(e->s, dtype, high) : "";
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], least, most), NULL);
}

void mg_emit_cast(const struct mg_emit *e, const char *name)
{
    mg_emit_one(e->s, e->out[0], name, e->in, 1, FIELDS(F_INT("to", mg_onnx_elem_type(e->d->out_dtype[0]))));
}

/* ---- reductions ---- */

void mg_emit_reduction(const struct mg_emit *e, const char *name)
{
    uint32_t count;
    const int64_t *axes = mg_emit_list(e, MG_ATTR_AXES, &count);
    mg_emit_reduce(e, e->out[0], name, e->in[0], axes, count, mg_emit_int(e, MG_ATTR_KEEPDIMS));
}

/* A part's mean is its share of the whole one: the divisor is fixed. */
void mg_emit_reduce_mean(const struct mg_emit *e, const char *name)
{
    uint32_t count;
    const int64_t *axes = mg_emit_list(e, MG_ATTR_AXES, &count);
    bool keep = mg_emit_int(e, MG_ATTR_KEEPDIMS);
    double divisor = mg_emit_real(e, MG_ATTR_DIVISOR), own = 1;
    for (uint32_t i = 0; i < count; i++)
        own *= (double)e->d->in_shape[0].dim[axes[i]];
    if (own == divisor)
        mg_emit_reduce(e, e->out[0], name, e->in[0], axes, count, keep);
    else
        mg_emit_by(e, e->out[0], "Mul", mg_emit_reduce(e, NULL, "ReduceSum", e->in[0], axes, count, keep), 1 / divisor);
}

void mg_emit_cumsum(const struct mg_emit *e, const char *name)
{
    const char *axis = mg_emit_number(e->s, MG_DTYPE_I64, (double)mg_emit_int(e, MG_ATTR_AXIS));
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], axis),
                FIELDS(F_INT("exclusive", mg_emit_int(e, MG_ATTR_EXCLUSIVE)),
                       F_INT("reverse", mg_emit_int(e, MG_ATTR_REVERSE))));
}

void mg_emit_loss(const struct mg_emit *e, const char *name)
{
    int64_t ignored = mg_emit_int(e, MG_ATTR_IGNORE_INDEX);
    double divisor = mg_emit_real(e, MG_ATTR_DIVISOR);
    bool mean = divisor == 0; /* by the number of targets that are not ignored */
    const char *type = e->d->type == MG_OP_NLL_LOSS ? name : "SoftmaxCrossEntropyLoss";
    const char *reduction = mean ? "mean" : "sum", *out = mean ? e->out[0] : NULL;
    const char *loss = ignored == MG_IGNORE_NONE
                           ? mg_emit_one(e->s, out, type, e->in, 2, FIELDS(F_TEXT("reduction", reduction)))
                           : mg_emit_one(e->s, out, type, e->in, 2,
                                         FIELDS(F_TEXT("reduction", reduction), F_INT("ignore_index", ignored)));
    if (!mean)
        mg_emit_by(e, e->out[0], "Mul", loss, 1 / divisor);
}
