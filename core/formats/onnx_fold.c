/* Arithmetic on constants while a file is read: what exporters write around shapes. Small tensors only; anything else
 * is left to the graph. Integers are exact, real numbers are doubles. */
#include <math.h>
#include <string.h>

#include "formats/onnx_fold.h"

enum { MAX_FOLDED = 1 << 16 };

static bool is_real(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_I64;
}

struct mg_onnx_data *onnx_folding_new(struct onnx_call *c, enum mg_dtype dtype, const struct mg_shape *shape,
                                      double **real, int64_t **whole)
{
    struct mg_onnx_data *data = MG_NEW(c->m->arena, struct mg_onnx_data);
    int64_t count = mg_shape_elements(shape);
    c->m->folded += (uint64_t)count;
    *data = (struct mg_onnx_data){.dtype = dtype, .shape = *shape};
    *real = is_real(dtype) ? MG_NEW_ARRAY(c->m->arena, double, count + 1) : NULL;
    *whole = *real ? NULL : MG_NEW_ARRAY(c->m->arena, int64_t, count + 1);
    data->real = *real;
    data->whole = *whole;
    return data;
}

bool onnx_folding_small(const struct mg_shape *shape)
{
    return mg_shape_elements(shape) <= MAX_FOLDED;
}

/* Arithmetic here is of signed numbers. */
static bool too_wide(const struct onnx_call *c)
{
    return c->in[0]->dtype == MG_DTYPE_U64;
}

void onnx_folding_copy(const struct mg_onnx_data *in, int64_t from, double *real, int64_t *whole, int64_t to)
{
    if (real)
        real[to] = mg_onnx_data_at(in, from);
    else
        whole[to] = onnx_folding_whole(in, from);
}

void onnx_folding_advance(const struct mg_shape *shape, int64_t *index)
{
    for (uint32_t d = shape->rank; d-- > 0;) {
        if (++index[d] < shape->dim[d])
            return;
        index[d] = 0;
    }
}

int64_t onnx_folding_at(const struct mg_shape *shape, const int64_t *index, uint32_t rank)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < shape->rank; d++)
        at = at * shape->dim[d] + (shape->dim[d] == 1 ? 0 : index[d + rank - shape->rank]);
    return at;
}

static bool broadcast(const struct mg_shape *a, const struct mg_shape *b, struct mg_shape *out)
{
    struct mg_shape made = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (uint32_t d = 0; d < made.rank; d++) {
        int64_t x = d + a->rank >= made.rank ? a->dim[d + a->rank - made.rank] : 1;
        int64_t y = d + b->rank >= made.rank ? b->dim[d + b->rank - made.rank] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        made.dim[d] = x == 1 ? y : x;
    }
    *out = made;
    return onnx_folding_small(out);
}

/* ---- one operand ---- */

static double real_unary(int which, double x)
{
    switch (which) {
    case FOLD_ABS:
        return x < 0 ? -x : x;
    case FOLD_CEIL:
        return ceil(x);
    case FOLD_FLOOR:
        return floor(x);
    case FOLD_NEG:
        return -x;
    case FOLD_RECIPROCAL:
        return 1 / x;
    case FOLD_RELU:
        return x < 0 ? 0 : x;
    default:
        return sqrt(x);
    }
}

static int64_t whole_unary(int which, int64_t x)
{
    switch (which) {
    case FOLD_ABS:
        return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    case FOLD_NEG:
        return (int64_t)(0 - (uint64_t)x);
    case FOLD_NOT:
        return !x;
    case FOLD_RELU:
        return x < 0 ? 0 : x;
    default:
        return x;
    }
}

bool onnx_fold_unary(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data;
    double *real;
    int64_t *whole;
    if (!onnx_folding_small(&in->shape) || too_wide(c))
        return false;
    struct mg_onnx_data *out = onnx_folding_new(c, in->dtype, &in->shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&in->shape); i++) {
        if (real)
            real[i] = real_unary(which, mg_onnx_data_at(in, i));
        else
            whole[i] = whole_unary(which, onnx_folding_whole(in, i));
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

static int64_t narrow(enum mg_dtype dtype, int64_t x)
{
    switch (dtype) {
    case MG_DTYPE_I32:
        return (int32_t)x;
    case MG_DTYPE_I16:
        return (int16_t)x;
    case MG_DTYPE_I8:
        return (int8_t)x;
    case MG_DTYPE_U8:
        return (uint8_t)x;
    case MG_DTYPE_U16:
        return (uint16_t)x;
    case MG_DTYPE_U32:
        return (uint32_t)x;
    case MG_DTYPE_BOOL:
        return x != 0;
    default:
        return x;
    }
}

static int64_t whole_of_real(double x)
{
    if (!(x > -9.2e18))
        return INT64_MIN;
    return x < 9.2e18 ? (int64_t)x : INT64_MAX;
}

bool onnx_fold_cast(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data;
    enum mg_dtype dtype;
    double *real;
    int64_t *whole;
    (void)which;
    if (!onnx_folding_small(&in->shape) || !mg_onnx_dtype(mg_onnx_int(c, "to", 0), &dtype))
        return false;
    struct mg_onnx_data *out = onnx_folding_new(c, dtype, &in->shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&in->shape); i++) {
        if (real)
            real[i] = mg_dtype_round(dtype, mg_onnx_data_at(in, i));
        else if (dtype == MG_DTYPE_BOOL)
            whole[i] = mg_onnx_data_at(in, i) != 0;
        else
            whole[i] = narrow(dtype, in->whole ? onnx_folding_whole(in, i) : whole_of_real(mg_onnx_data_at(in, i)));
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

/* ---- two operands ---- */

static double real_binary(int which, double x, double y)
{
    switch (which) {
    case FOLD_ADD:
        return x + y;
    case FOLD_SUB:
        return x - y;
    case FOLD_MUL:
        return x * y;
    case FOLD_DIV:
        return x / y;
    case FOLD_MOD:
        return x - y * floor(x / y);
    case FOLD_MAX:
        return x > y ? x : y;
    default:
        return x < y ? x : y;
    }
}

static int64_t divide(int64_t x, int64_t y)
{
    return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static int64_t whole_binary(int which, int64_t x, int64_t y, bool truncated)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    int64_t rest = y == 0 || y == -1 ? 0 : x % y;
    switch (which) {
    case FOLD_ADD:
        return (int64_t)(a + b);
    case FOLD_SUB:
        return (int64_t)(a - b);
    case FOLD_MUL:
        return (int64_t)(a * b);
    case FOLD_DIV:
        return divide(x, y);
    case FOLD_MOD:
        return !truncated && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    case FOLD_AND:
        return x && y;
    case FOLD_OR:
        return x || y;
    case FOLD_MAX:
        return x > y ? x : y;
    default:
        return x < y ? x : y;
    }
}

bool onnx_fold_binary(struct onnx_call *c, int which)
{
    struct mg_shape shape;
    double *real;
    int64_t *whole, index[MG_MAX_RANK] = {0};
    bool truncated = mg_onnx_int(c, "fmod", 0) != 0;
    if (c->in_count != 2 || !c->in[0] || !c->in[1] || too_wide(c) || c->in[0]->dtype != c->in[1]->dtype ||
        !broadcast(&c->in[0]->shape, &c->in[1]->shape, &shape) || (truncated && is_real(c->in[0]->dtype)))
        return false;
    const struct mg_onnx_data *a = c->in[0]->data, *b = c->in[1]->data;
    struct mg_onnx_data *out = onnx_folding_new(c, a->dtype, &shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&shape); i++) {
        int64_t x = onnx_folding_at(&a->shape, index, shape.rank), y = onnx_folding_at(&b->shape, index, shape.rank);
        if (real)
            real[i] = real_binary(which, mg_onnx_data_at(a, x), mg_onnx_data_at(b, y));
        else
            whole[i] =
                narrow(a->dtype, whole_binary(which, onnx_folding_whole(a, x), onnx_folding_whole(b, y), truncated));
        onnx_folding_advance(&shape, index);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

static bool compared(int which, int order)
{
    switch (which) {
    case FOLD_EQUAL:
        return order == 0;
    case FOLD_NOT_EQUAL:
        return order != 0;
    case FOLD_GREATER:
        return order > 0;
    case FOLD_GREATER_OR_EQUAL:
        return order >= 0;
    case FOLD_LESS:
        return order < 0;
    default:
        return order <= 0;
    }
}

bool onnx_fold_compare(struct onnx_call *c, int which)
{
    struct mg_shape shape;
    double *real;
    int64_t *whole, index[MG_MAX_RANK] = {0};
    if (is_real(c->in[0]->dtype) || too_wide(c) || c->in[0]->dtype != c->in[1]->dtype ||
        !broadcast(&c->in[0]->shape, &c->in[1]->shape, &shape))
        return false;
    const struct mg_onnx_data *a = c->in[0]->data, *b = c->in[1]->data;
    struct mg_onnx_data *out = onnx_folding_new(c, MG_DTYPE_BOOL, &shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&shape); i++) {
        int64_t x = onnx_folding_whole(a, onnx_folding_at(&a->shape, index, shape.rank));
        int64_t y = onnx_folding_whole(b, onnx_folding_at(&b->shape, index, shape.rank));
        whole[i] = compared(which, (x > y) - (x < y));
        onnx_folding_advance(&shape, index);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

bool onnx_fold_where(struct onnx_call *c, int which)
{
    struct mg_shape shape;
    double *real;
    int64_t *whole, index[MG_MAX_RANK] = {0};
    (void)which;
    if (c->in[1]->dtype != c->in[2]->dtype || is_real(c->in[0]->dtype) ||
        !broadcast(&c->in[1]->shape, &c->in[2]->shape, &shape) || !broadcast(&shape, &c->in[0]->shape, &shape))
        return false;
    const struct mg_onnx_data *condition = c->in[0]->data;
    struct mg_onnx_data *out = onnx_folding_new(c, c->in[1]->dtype, &shape, &real, &whole);
    for (int64_t i = 0; i < mg_shape_elements(&shape); i++) {
        bool yes = onnx_folding_whole(condition, onnx_folding_at(&condition->shape, index, shape.rank)) != 0;
        const struct mg_onnx_data *from = c->in[yes ? 1 : 2]->data;
        onnx_folding_copy(from, onnx_folding_at(&from->shape, index, shape.rank), real, whole, i);
        onnx_folding_advance(&shape, index);
    }
    mg_onnx_fold(c, 0, out);
    return true;
}

/* Over all elements: what products and sums of shapes need. */
bool onnx_fold_reduce(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = c->in[0]->data;
    uint32_t count;
    const int64_t *axes = mg_onnx_list(c, 1, "axes", &count);
    bool keep = mg_onnx_int(c, "keepdims", 1) != 0;
    double *real;
    int64_t *whole, total = mg_shape_elements(&in->shape);
    (void)axes;
    if (c->code != MG_OK || !onnx_folding_small(&in->shape) || in->shape.rank > 1 || total < 1 ||
        in->dtype == MG_DTYPE_BOOL || too_wide(c) || (count == 0 && mg_onnx_int(c, "noop_with_empty_axes", 0)))
        return false;
    struct mg_shape shape = {.rank = keep ? in->shape.rank : 0, .dim = {1}};
    struct mg_onnx_data *out = onnx_folding_new(c, in->dtype, &shape, &real, &whole);
    onnx_folding_copy(in, 0, real, whole, 0);
    for (int64_t i = 1; i < total; i++) {
        if (real)
            real[0] = real_binary(which, real[0], mg_onnx_data_at(in, i));
        else
            whole[0] = narrow(in->dtype, whole_binary(which, whole[0], onnx_folding_whole(in, i), false));
    }
    mg_onnx_fold(c, 0, out);
    return true;
}
