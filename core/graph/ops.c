/* The operator table made data, and its lookups. */
#include <float.h>
#include <string.h>

#include "graph/ops_priv.h"

#define INT(key, value) {MG_ATTR_##key, MG_ATTR_TYPE_INT, MG_ATTR_DEFAULTED, value, 0, NULL},
#define FLAG(key, value) {MG_ATTR_##key, MG_ATTR_TYPE_INT, MG_ATTR_FLAG, value, 0, NULL},
#define NEED_INT(key) {MG_ATTR_##key, MG_ATTR_TYPE_INT, MG_ATTR_NEEDED, 0, 0, NULL},
#define REAL(key, value) {MG_ATTR_##key, MG_ATTR_TYPE_FLOAT, MG_ATTR_DEFAULTED, 0, value, NULL},
#define NEED_REAL(key) {MG_ATTR_##key, MG_ATTR_TYPE_FLOAT, MG_ATTR_NEEDED, 0, 0, NULL},
#define TEXT(key, value) {MG_ATTR_##key, MG_ATTR_TYPE_STRING, MG_ATTR_DEFAULTED, 0, 0, value},
#define NEED_TEXT(key) {MG_ATTR_##key, MG_ATTR_TYPE_STRING, MG_ATTR_NEEDED, 0, 0, NULL},
#define NEED_INTS(key) {MG_ATTR_##key, MG_ATTR_TYPE_INTS, MG_ATTR_NEEDED, 0, 0, NULL},
#define LIST(key) {MG_ATTR_##key, MG_ATTR_TYPE_INTS, MG_ATTR_LISTED, 0, 0, NULL},
#define SPATIAL(key, fill) {MG_ATTR_##key, MG_ATTR_TYPE_INTS, MG_ATTR_PER_SPATIAL, fill, 0, NULL},
#define PAIRS(key, fill) {MG_ATTR_##key, MG_ATTR_TYPE_INTS, MG_ATTR_PER_SIDE, fill, 0, NULL},
#define UNWRAP(...) __VA_ARGS__
#define END                                                                                                            \
    {                                                                                                                  \
        MG_ATTR_COUNT, MG_ATTR_TYPE_INT, MG_ATTR_NEEDED, 0, 0, NULL                                                    \
    }

#define MG_OP(id, name, min_in, max_in, n_out, attrs, ...)                                                             \
    static const struct mg_attr_rule schema_##id[] = {UNWRAP attrs END};
#include "graph/ops.def"
#undef MG_OP

static const struct mg_op_facts facts[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, cost, purity, in_place,        \
              layout, onnx, aten)                                                                                      \
    [MG_OP_##id] = {name,           min_in,      max_in,                                                               \
                    n_out,          schema_##id, sizeof schema_##id / sizeof schema_##id[0] - 1,                       \
                    mg_##shape,     mg_##axes,   mg_##split,                                                           \
                    MG_COST_##cost, MG_##purity, in_place,                                                             \
                    layout,         onnx,        aten},
#include "graph/ops.def"
#undef MG_OP
};

/* The names of a table differ early: most are told apart without a call. */
static bool same(const char *a, const char *b)
{
    return a[0] == b[0] && strcmp(a, b) == 0;
}

const struct mg_op_facts *mg_op_facts(enum mg_op_type type)
{
    return &facts[type];
}

const char *mg_op_type_name(enum mg_op_type type)
{
    return type < MG_OP_COUNT ? facts[type].name : "?";
}

enum mg_op_type mg_op_type_from_name(const char *name)
{
    unsigned type = 0;
    while (type < MG_OP_COUNT && !same(facts[type].name, name))
        type++;
    return (enum mg_op_type)type;
}

enum mg_cost_class mg_op_cost(enum mg_op_type type)
{
    return facts[type].cost;
}

bool mg_op_is_pointwise(enum mg_op_type type)
{
    const struct mg_op_facts *op = &facts[type];
    return op->cost == MG_COST_ELEMENTWISE && (op->axes == mg_axes_elementwise || type == MG_OP_STAT_UPDATE ||
                                               type == MG_OP_BN_APPLY || type == MG_OP_BATCH_NORM_INFERENCE);
}

int32_t mg_op_in_place(enum mg_op_type type)
{
    return facts[type].in_place;
}

enum mg_purity mg_op_purity(const struct mg_graph *g, mg_op op)
{
    const struct mg_op_info *info = &g->ops[op];
    if (info->type != MG_OP_OPAQUE)
        return facts[info->type].purity;
    const char *purity = mg_op_attr(info, MG_ATTR_PURITY)->string;
    return strcmp(purity, "pure") == 0 ? MG_PURE : strcmp(purity, "seeded") == 0 ? MG_SEEDED : MG_IMPURE;
}

bool mg_op_is_addend(const struct mg_graph *g, mg_op op, uint32_t slot)
{
    const struct mg_op_info *info = &g->ops[op];
    const struct mg_shape *in = &g->values[info->in[slot]].shape, *out = &g->values[info->out[0]].shape;
    switch (info->type) {
    case MG_OP_MATMUL:
    case MG_OP_GEMM:
        return slot == 2;
    case MG_OP_CONV:
    case MG_OP_CONV_GRAD_INPUT:
        return slot >= 2 && in->rank == out->rank;
    default:
        return false;
    }
}

bool mg_op_may_reuse(const struct mg_graph *g, mg_op op, uint32_t slot)
{
    const struct mg_op_info *info = &g->ops[op];
    const struct mg_op_facts *f = &facts[info->type];
    const struct mg_value_info *in = &g->values[info->in[slot]], *out = &g->values[info->out[0]];
    bool elementwise = f->axes == mg_axes_elementwise && f->cost == MG_COST_ELEMENTWISE;
    if (!(elementwise || mg_op_is_addend(g, op, slot)) || f->purity != MG_PURE || info->out_count != 1)
        return false;
    if (!mg_shape_equal(&in->shape, &out->shape) || mg_dtype_size(in->dtype) != mg_dtype_size(out->dtype))
        return false;
    for (uint32_t k = 0; k < info->in_count; k++)
        if (k != slot && g->values[info->in[k]].base == in->base)
            return false;
    return in->base == info->in[slot] && in->kind == MG_KIND_COMPUTED && info->in_place < 0;
}

/* ---- attributes ---- */

static const char *const attr_names[MG_ATTR_COUNT] = {
#define MG_ATTR(id, name) [MG_ATTR_##id] = name,
#include "graph/attrs.def"
#undef MG_ATTR
};

const char *mg_attr_name(enum mg_attr_key key)
{
    return key < MG_ATTR_COUNT ? attr_names[key] : "?";
}

enum mg_attr_key mg_attr_from_name(const char *name)
{
    unsigned key = 0;
    while (key < MG_ATTR_COUNT && !same(attr_names[key], name))
        key++;
    return (enum mg_attr_key)key;
}

bool mg_attr_equal(const struct mg_attr *a, const struct mg_attr *b)
{
    if (a->key != b->key || a->type != b->type)
        return false;
    switch (a->type) {
    case MG_ATTR_TYPE_INT:
        return a->i == b->i;
    case MG_ATTR_TYPE_FLOAT:
        return a->f == b->f;
    case MG_ATTR_TYPE_INTS:
        return a->count == b->count && memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0;
    default:
        return a->string && b->string ? strcmp(a->string, b->string) == 0 : a->string == b->string;
    }
}

const struct mg_attr *mg_attr_find(const struct mg_attr *attrs, uint32_t count, enum mg_attr_key key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (attrs[i].key == key)
            return &attrs[i];
    }
    return NULL;
}

bool mg_op_attr_type(enum mg_op_type type, enum mg_attr_key key, enum mg_attr_type *out)
{
    for (uint32_t i = 0; i < facts[type].schema_count; i++) {
        if (facts[type].schema[i].key == key) {
            *out = facts[type].schema[i].type;
            return true;
        }
    }
    return false;
}

const struct mg_attr *mg_op_attr(const struct mg_op_info *op, enum mg_attr_key key)
{
    return mg_attr_find(op->attrs, op->attr_count, key);
}

int64_t mg_op_attr_int(const struct mg_op_info *op, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_op_attr(op, key);
    return attr ? attr->i : 0;
}

double mg_op_attr_float(const struct mg_op_info *op, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_op_attr(op, key);
    return attr ? attr->f : 0;
}

int64_t mg_desc_int(const struct mg_op_desc *desc, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_attr_find(desc->attrs, desc->attr_count, key);
    return attr ? attr->i : 0;
}

double mg_desc_float(const struct mg_op_desc *desc, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_attr_find(desc->attrs, desc->attr_count, key);
    return attr ? attr->f : 0;
}

const int64_t *mg_desc_ints(const struct mg_op_desc *desc, enum mg_attr_key key, uint32_t *count)
{
    const struct mg_attr *attr = mg_attr_find(desc->attrs, desc->attr_count, key);
    if (count)
        *count = attr ? attr->count : 0;
    return attr ? attr->ints : NULL;
}

/* ---- dtypes ---- */

static const struct {
    const char *name;
    uint32_t size;
} dtypes[MG_DTYPE_COUNT] = {
    [MG_DTYPE_F64] = {"f64", 8},   [MG_DTYPE_F32] = {"f32", 4},       [MG_DTYPE_F16] = {"f16", 2},
    [MG_DTYPE_BF16] = {"bf16", 2}, [MG_DTYPE_F8E4M3] = {"f8e4m3", 1}, [MG_DTYPE_F8E5M2] = {"f8e5m2", 1},
    [MG_DTYPE_I64] = {"i64", 8},   [MG_DTYPE_I32] = {"i32", 4},       [MG_DTYPE_I16] = {"i16", 2},
    [MG_DTYPE_I8] = {"i8", 1},     [MG_DTYPE_U8] = {"u8", 1},         [MG_DTYPE_U16] = {"u16", 2},
    [MG_DTYPE_U32] = {"u32", 4},   [MG_DTYPE_U64] = {"u64", 8},       [MG_DTYPE_BOOL] = {"bool", 1},
};

uint32_t mg_dtype_size(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *mg_dtype_name(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

enum mg_dtype mg_dtype_from_name(const char *name)
{
    unsigned dtype = 0;
    while (dtype < MG_DTYPE_COUNT && !same(dtypes[dtype].name, name))
        dtype++;
    return (enum mg_dtype)dtype;
}

bool mg_dtype_is_integer(enum mg_dtype dtype)
{
    return dtype >= MG_DTYPE_I64;
}

bool mg_dtype_is_unsigned(enum mg_dtype dtype)
{
    return dtype >= MG_DTYPE_U8 && dtype <= MG_DTYPE_U64;
}

enum mg_dtype mg_dtype_of_statistics(enum mg_dtype dtype)
{
    return dtype == MG_DTYPE_F64 ? MG_DTYPE_F64 : MG_DTYPE_F32;
}

/* ---- shapes ---- */

int64_t mg_shape_elements(const struct mg_shape *shape)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        n *= shape->dim[d];
    return n;
}

bool mg_shape_equal(const struct mg_shape *a, const struct mg_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++) {
        if (a->dim[d] != b->dim[d])
            return false;
    }
    return true;
}

bool mg_shape_fits(const struct mg_shape *shape, enum mg_dtype dtype)
{
    if (shape->rank > MG_MAX_RANK || dtype >= MG_DTYPE_COUNT)
        return false;
    int64_t room = (INT64_C(1) << 50) / mg_dtype_size(dtype);
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (shape->dim[d] < 0)
            return false;
        if (shape->dim[d] > 0)
            room /= shape->dim[d]; /* zero sizes do not excuse huge ones: strides must fit, too */
    }
    return room > 0;
}

void mg_shape_strides(const struct mg_shape *shape, int64_t stride[MG_MAX_RANK])
{
    int64_t next = 1;
    for (uint32_t d = MG_MAX_RANK; d-- > shape->rank;)
        stride[d] = 0;
    for (uint32_t d = shape->rank; d-- > 0;) {
        stride[d] = next;
        next *= shape->dim[d];
    }
}

/* ---- layouts ---- */

/* Dimensions [from, rank) lie dense; strides of single elements do not matter. */
static bool dense_from(const struct mg_shape *shape, const int64_t *stride, uint32_t from)
{
    int64_t want = 1;
    for (uint32_t d = shape->rank; d-- > from;) {
        if (shape->dim[d] != 1 && stride[d] != want)
            return false;
        want *= shape->dim[d];
    }
    return true;
}

bool mg_layout_contiguous(const struct mg_shape *shape, const int64_t *stride)
{
    return mg_shape_elements(shape) == 0 || dense_from(shape, stride, 0);
}

/* One of the last two dimensions has stride 1 and the other steps over it, as a GEMM library wants. */
static bool matrix_layout(const struct mg_shape *shape, const int64_t *stride)
{
    if (shape->rank < 2)
        return mg_layout_contiguous(shape, stride);
    uint32_t row = shape->rank - 2, col = shape->rank - 1;
    int64_t rows = shape->dim[row], cols = shape->dim[col];
    bool by_row = (cols == 1 || stride[col] == 1) && (rows == 1 || stride[row] >= cols);
    bool by_col = (rows == 1 || stride[row] == 1) && (cols == 1 || stride[col] >= rows);
    return by_row || by_col;
}

bool mg_op_accepts_layout(const struct mg_graph *g, mg_op op, uint32_t slot, const struct mg_shape *shape,
                          const int64_t *stride)
{
    const char *flags = facts[g->ops[op].type].layout;
    size_t last = strlen(flags) - 1;
    if (mg_shape_elements(shape) == 0)
        return true;
    switch (flags[slot < last ? slot : last]) {
    case 'a':
        return true;
    case 'o':
        return dense_from(shape, stride, 1);
    case 'm':
        return matrix_layout(shape, stride);
    default:
        return dense_from(shape, stride, 0);
    }
}
