/* Elementwise kernels and updates. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

static double modulo(const struct mg_kernel *k, double a, double b)
{
    if (mg_kernel_int(k, MG_ATTR_FMOD))
        return fmod(a, b);
    return a - b * floor(a / b);
}

static double binary(const struct mg_kernel *k, double a, double b)
{
    switch (k->op->type) {
    case MG_OP_ADD:
        return a + b;
    case MG_OP_SUB:
        return a - b;
    case MG_OP_MUL:
        return a * b;
    case MG_OP_DIV:
        return a / b;
    case MG_OP_POW:
        return pow(a, b);
    case MG_OP_MAX:
        return a > b ? a : b;
    case MG_OP_MIN:
        return a < b ? a : b;
    case MG_OP_MOD:
        return modulo(k, a, b);
    case MG_OP_FLOOR_DIV:
        return floor(a / b);
    case MG_OP_ATAN2:
        return atan2(a, b);
    case MG_OP_PRELU:
        return a > 0 ? a : a * b;
    case MG_OP_LOGICAL_AND:
        return a != 0 && b != 0;
    case MG_OP_LOGICAL_OR:
        return a != 0 || b != 0;
    case MG_OP_LOGICAL_XOR:
        return (a != 0) != (b != 0);
    default: /* squared error */
        return (a - b) * (a - b);
    }
}

static double compare(const struct mg_kernel *k, double a, double b)
{
    switch (k->op->type) {
    case MG_OP_EQUAL:
        return a == b;
    case MG_OP_NOT_EQUAL:
        return a != b;
    case MG_OP_GREATER:
        return a > b;
    case MG_OP_GREATER_OR_EQUAL:
        return a >= b;
    case MG_OP_LESS:
        return a < b;
    default:
        return a <= b;
    }
}

static enum mg_code broadcast_binary(const struct mg_kernel *k,
                                     double (*fn)(const struct mg_kernel *k, double a, double b))
{
    const struct mg_shape *shape = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    for (int64_t i = 0; i < count; i++) {
        double a = k->in[0][mg_broadcast_at(&k->op->in_shape[0], index, shape->rank)];
        double b = k->in[1][mg_broadcast_at(&k->op->in_shape[1], index, shape->rank)];
        k->out[0][i] = fn(k, a, b);
        mg_walk_next(shape, index);
    }
    return MG_OK;
}

enum mg_code kernel_binary(const struct mg_kernel *k)
{
    return broadcast_binary(k, binary);
}

enum mg_code kernel_compare(const struct mg_kernel *k)
{
    return broadcast_binary(k, compare);
}

enum mg_code kernel_where(const struct mg_kernel *k)
{
    const struct mg_shape *shape = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    for (int64_t i = 0; i < count; i++) {
        bool condition = k->in[0][mg_broadcast_at(&k->op->in_shape[0], index, shape->rank)] != 0;
        uint32_t chosen = condition ? 1 : 2;
        k->out[0][i] = k->in[chosen][mg_broadcast_at(&k->op->in_shape[chosen], index, shape->rank)];
        mg_walk_next(shape, index);
    }
    return MG_OK;
}

/* (dy, x, slope) */
enum mg_code kernel_prelu_grad(const struct mg_kernel *k)
{
    const struct mg_shape *shape = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0};
    for (int64_t i = 0; i < mg_shape_elements(shape); i++) {
        double slope = k->in[2][mg_broadcast_at(&k->op->in_shape[2], index, shape->rank)];
        k->out[0][i] = k->in[1][i] > 0 ? k->in[0][i] : k->in[0][i] * slope;
        mg_walk_next(shape, index);
    }
    return MG_OK;
}

enum mg_code kernel_squared_error_grad(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = 2 * k->in[0][i] * (k->in[1][i] - k->in[2][i]);
    return MG_OK;
}

/* Trigonometric and hyperbolic functions, and the other exponentials and logarithms. */
static double transcendental(const struct mg_kernel *k, double x)
{
    switch (k->op->type) {
    case MG_OP_TAN:
        return tan(x);
    case MG_OP_ASIN:
        return asin(x);
    case MG_OP_ACOS:
        return acos(x);
    case MG_OP_ATAN:
        return atan(x);
    case MG_OP_SINH:
        return sinh(x);
    case MG_OP_COSH:
        return cosh(x);
    case MG_OP_ASINH:
        return asinh(x);
    case MG_OP_ACOSH:
        return acosh(x);
    case MG_OP_ATANH:
        return atanh(x);
    case MG_OP_EXPM1:
        return expm1(x);
    case MG_OP_LOG1P:
        return log1p(x);
    case MG_OP_LOG2:
        return log2(x);
    default:
        return log10(x);
    }
}

static double unary(const struct mg_kernel *k, double x)
{
    switch (k->op->type) {
    case MG_OP_NEG:
        return -x;
    case MG_OP_ABS:
        return fabs(x);
    case MG_OP_SIGN:
        return (x > 0) - (x < 0);
    case MG_OP_FLOOR:
        return floor(x);
    case MG_OP_CEIL:
        return ceil(x);
    case MG_OP_ROUND:
        return nearbyint(x);
    case MG_OP_TRUNC:
        return trunc(x);
    case MG_OP_LOGICAL_NOT:
        return x == 0;
    case MG_OP_EXP:
        return exp(x);
    case MG_OP_LOG:
        return log(x);
    case MG_OP_SQRT:
        return sqrt(x);
    case MG_OP_RSQRT:
        return 1 / sqrt(x);
    case MG_OP_RECIPROCAL:
        return 1 / x;
    case MG_OP_ERF:
        return erf(x);
    case MG_OP_SIN:
        return sin(x);
    case MG_OP_COS:
        return cos(x);
    case MG_OP_IS_NAN:
        return isnan(x);
    case MG_OP_IS_INF:
        return isinf(x) && mg_kernel_int(k, x < 0 ? MG_ATTR_DETECT_NEGATIVE : MG_ATTR_DETECT_POSITIVE);
    default:
        return transcendental(k, x);
    }
}

enum mg_code kernel_unary(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = unary(k, k->in[0][i]);
    return MG_OK;
}

/* ---- bits ---- */

/* A whole number as 64 bits and back. Values are exact below 2^53. */
static int64_t to_bits(double x)
{
    return x >= 0x1p63 ? (int64_t)(uint64_t)x : (int64_t)x;
}

static uint64_t shifted(const struct mg_kernel *k, int64_t a, int64_t b)
{
    if (b < 0 || b > 63)
        return 0;
    bool left = strcmp(mg_kernel_text(k, MG_ATTR_DIRECTION), "LEFT") == 0;
    return left ? (uint64_t)a << b : (uint64_t)a >> b;
}

static double bits(const struct mg_kernel *k, double x, double y)
{
    int64_t a = to_bits(x), b = to_bits(y);
    switch (k->op->type) {
    case MG_OP_BITWISE_AND:
        return (double)(a & b);
    case MG_OP_BITWISE_OR:
        return (double)(a | b);
    case MG_OP_BITWISE_XOR:
        return (double)(a ^ b);
    default:
        return (double)shifted(k, a, b);
    }
}

enum mg_code kernel_bits(const struct mg_kernel *k)
{
    if (k->op->type != MG_OP_BITWISE_NOT)
        return broadcast_binary(k, bits);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = k->op->in_dtype[0] == MG_DTYPE_BOOL ? k->in[0][i] == 0 : -1 - k->in[0][i];
    return MG_OK;
}

/* Real numbers narrower than f32 are rounded; f32 and f64 are both doubles here. */
enum mg_code kernel_cast(const struct mg_kernel *k)
{
    enum mg_dtype to = k->op->out_dtype[0];
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++) {
        double x = k->in[0][i];
        if (to >= MG_DTYPE_I64)
            k->out[0][i] = to == MG_DTYPE_BOOL ? x != 0 : trunc(x);
        else
            k->out[0][i] = to == MG_DTYPE_F32 ? x : mg_dtype_round(to, x);
    }
    return MG_OK;
}

enum mg_code kernel_copy(const struct mg_kernel *k)
{
    memcpy(k->out[0], k->in[0], (size_t)mg_kernel_out_count(k, 0) * sizeof(double));
    return MG_OK;
}

enum mg_code kernel_dropout_grad(const struct mg_kernel *k)
{
    double ratio = mg_kernel_float(k, MG_ATTR_RATIO);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = k->in[1][i] != 0 ? k->in[0][i] / (1 - ratio) : 0;
    return MG_OK;
}

static double adam(const struct mg_kernel *k, double w, double m, double v)
{
    double step = (double)mg_kernel_int(k, MG_ATTR_STEP), lr = mg_kernel_float(k, MG_ATTR_LR);
    double mh = m / (1 - pow(mg_kernel_float(k, MG_ATTR_BETA1), step));
    double vh = v / (1 - pow(mg_kernel_float(k, MG_ATTR_BETA2), step));
    if (k->op->type == MG_OP_ADAMW)
        w *= 1 - lr * mg_kernel_float(k, MG_ATTR_WEIGHT_DECAY);
    return w - lr * mh / (sqrt(vh) + mg_kernel_float(k, MG_ATTR_EPSILON));
}

static double update(const struct mg_kernel *k, int64_t i)
{
    double w = k->in[0][i], g = k->in[1][i], beta = mg_kernel_float(k, MG_ATTR_BETA);
    switch (k->op->type) {
    case MG_OP_SGD:
        return w - mg_kernel_float(k, MG_ATTR_LR) * (g + mg_kernel_float(k, MG_ATTR_WEIGHT_DECAY) * w);
    case MG_OP_MOMENTUM:
        return mg_kernel_float(k, MG_ATTR_MOMENTUM) * w + g;
    case MG_OP_MOMENT:
        return beta * w + (1 - beta) * (mg_kernel_int(k, MG_ATTR_POWER) == 2 ? g * g : g);
    case MG_OP_ASSIGN:
        return g;
    default:
        return adam(k, w, g, k->in[2][i]);
    }
}

enum mg_code kernel_update(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = update(k, i);
    return MG_OK;
}
