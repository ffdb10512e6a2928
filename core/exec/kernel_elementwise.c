/* Elementwise kernels, dropout and updates. */
#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "exec/kernels.h"

static const double sqrt_half = 0.70710678118654752440;
static const double two_by_sqrt_pi = 1.12837916709551257390;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Slope of gelu at x. */
static double gelu_slope(double x, bool by_tanh)
{
    if (!by_tanh)
        return 0.5 * (1 + erf(x * sqrt_half)) + x * exp(-0.5 * x * x) * 0.5 * two_by_sqrt_pi * sqrt_half;
    double c = two_by_sqrt_pi * sqrt_half, t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static double gelu(double x, bool by_tanh)
{
    if (!by_tanh)
        return 0.5 * x * (1 + erf(x * sqrt_half));
    return 0.5 * x * (1 + tanh(two_by_sqrt_pi * sqrt_half * (x + 0.044715 * x * x * x)));
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* The gradient operators: a is the incoming gradient, b the forward output or input. */
static double gradient(const struct mg_kernel *k, double dy, double b)
{
    double alpha = mg_kernel_float(k, MG_ATTR_ALPHA), s = sigmoid(b);
    switch (k->op->type) {
    case MG_OP_RELU_GRAD:
        return b > 0 ? dy : 0;
    case MG_OP_LEAKY_RELU_GRAD:
        return b > 0 ? dy : alpha * dy;
    case MG_OP_ELU_GRAD:
        return b > 0 ? dy : dy * (b + alpha);
    case MG_OP_SIGMOID_GRAD:
        return dy * b * (1 - b);
    case MG_OP_TANH_GRAD:
        return dy * (1 - b * b);
    case MG_OP_ERF_GRAD:
        return dy * two_by_sqrt_pi * exp(-b * b);
    case MG_OP_SILU_GRAD:
        return dy * s * (1 + b * (1 - s));
    case MG_OP_GELU_GRAD:
        return dy * gelu_slope(b, strcmp(mg_kernel_text(k, MG_ATTR_APPROXIMATE), "tanh") == 0);
    case MG_OP_HARD_SWISH_GRAD:
        return b <= -3 ? 0 : b >= 3 ? dy : dy * (2 * b + 3) / 6;
    case MG_OP_HARD_SIGMOID_GRAD:
        return alpha * b + mg_kernel_float(k, MG_ATTR_BETA) > 0 && alpha * b + mg_kernel_float(k, MG_ATTR_BETA) < 1
                   ? alpha * dy
                   : 0;
    case MG_OP_SOFTPLUS_GRAD:
        return dy * s;
    default: /* clip */
        return b >= mg_kernel_float(k, MG_ATTR_MIN) && b <= mg_kernel_float(k, MG_ATTR_MAX) ? dy : 0;
    }
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
    case MG_OP_LOGICAL_AND:
        return a != 0 && b != 0;
    case MG_OP_LOGICAL_OR:
        return a != 0 || b != 0;
    case MG_OP_SQUARED_ERROR:
        return (a - b) * (a - b);
    default:
        return gradient(k, a, b);
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

enum mg_code kernel_squared_error_grad(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = 2 * k->in[0][i] * (k->in[1][i] - k->in[2][i]);
    return MG_OK;
}

static double activation(const struct mg_kernel *k, double x)
{
    double alpha = mg_kernel_float(k, MG_ATTR_ALPHA), beta = mg_kernel_float(k, MG_ATTR_BETA);
    switch (k->op->type) {
    case MG_OP_TANH:
        return tanh(x);
    case MG_OP_SIGMOID:
        return sigmoid(x);
    case MG_OP_RELU:
        return x > 0 ? x : 0;
    case MG_OP_LEAKY_RELU:
        return x > 0 ? x : alpha * x;
    case MG_OP_ELU:
        return x > 0 ? x : alpha * (exp(x) - 1);
    case MG_OP_SILU:
        return x * sigmoid(x);
    case MG_OP_GELU:
        return gelu(x, strcmp(mg_kernel_text(k, MG_ATTR_APPROXIMATE), "tanh") == 0);
    case MG_OP_HARD_SWISH:
        return x * clamp(x + 3, 0, 6) / 6;
    case MG_OP_HARD_SIGMOID:
        return clamp(alpha * x + beta, 0, 1);
    case MG_OP_SOFTPLUS:
        return x > 30 ? x : log1p(exp(x));
    case MG_OP_CLIP:
        return clamp(x, mg_kernel_float(k, MG_ATTR_MIN), mg_kernel_float(k, MG_ATTR_MAX));
    default: /* affine */
        return alpha * x + beta;
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
    default:
        return activation(k, x);
    }
}

enum mg_code kernel_unary(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = unary(k, k->in[0][i]);
    return MG_OK;
}

enum mg_code kernel_cast(const struct mg_kernel *k)
{
    enum mg_dtype to = k->op->out_dtype[0];
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++) {
        double x = k->in[0][i];
        k->out[0][i] = to == MG_DTYPE_BOOL ? x != 0 : to >= MG_DTYPE_I64 ? trunc(x) : x;
    }
    return MG_OK;
}

enum mg_code kernel_copy(const struct mg_kernel *k)
{
    memcpy(k->out[0], k->in[0], (size_t)mg_kernel_out_count(k, 0) * sizeof(double));
    return MG_OK;
}

/* Uniform in [0, 1), by seeds, operator and position in the unsplit result (R8). */
static double draw(const struct mg_kernel *k, const int64_t *index)
{
    int64_t at = 0;
    const struct mg_exec_origin *origin = k->origin;
    for (uint32_t d = 0; d < k->op->out_shape[0].rank; d++) {
        int64_t extent = origin->whole.rank ? origin->whole.dim[d] : k->op->out_shape[0].dim[d];
        at = at * extent + index[d] + origin->lo[d];
    }
    uint64_t words[4] = {origin->seed, (uint64_t)mg_kernel_int(k, MG_ATTR_SEED), origin->op, (uint64_t)at};
    return (double)(mg_hash_words(words, 4).lo >> 11) * 0x1p-53;
}

enum mg_code kernel_dropout(const struct mg_kernel *k)
{
    const struct mg_shape *shape = &k->op->out_shape[0];
    double ratio = mg_kernel_float(k, MG_ATTR_RATIO);
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    for (int64_t i = 0; i < count; i++) {
        bool keep = draw(k, index) >= ratio;
        k->out[0][i] = keep ? k->in[0][i] / (1 - ratio) : 0;
        k->out[1][i] = keep;
        mg_walk_next(shape, index);
    }
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
