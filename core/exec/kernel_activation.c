/* Activations and their gradients. */
#include <math.h>
#include <string.h>

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

static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

static double clamp(double x, double lo, double hi)
{
    double least = x < lo ? lo : x; /* where the limits cross, the upper one counts */
    return least > hi ? hi : least;
}

/* Activations that few networks have. */
static double rare(const struct mg_kernel *k, double x)
{
    double alpha = mg_kernel_float(k, MG_ATTR_ALPHA), gamma = mg_kernel_float(k, MG_ATTR_GAMMA);
    double lambd = mg_kernel_float(k, MG_ATTR_LAMBD), bias = mg_kernel_float(k, MG_ATTR_BIAS);
    switch (k->op->type) {
    case MG_OP_SOFTSIGN:
        return x / (1 + fabs(x));
    case MG_OP_SELU:
        return gamma * (x > 0 ? x : alpha * expm1(x));
    case MG_OP_CELU:
        return x > 0 ? x : alpha * expm1(x / alpha);
    case MG_OP_MISH:
        return x * tanh(softplus(x));
    case MG_OP_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    default: /* shrink */
        return x > lambd ? x - bias : x < -lambd ? x + bias : 0;
    }
}

static double rare_slope(const struct mg_kernel *k, double dy, double b)
{
    double alpha = mg_kernel_float(k, MG_ATTR_ALPHA), t = tanh(softplus(b));
    switch (k->op->type) {
    case MG_OP_SOFTSIGN_GRAD:
        return dy / ((1 + fabs(b)) * (1 + fabs(b)));
    case MG_OP_SELU_GRAD:
        return dy * (b > 0 ? mg_kernel_float(k, MG_ATTR_GAMMA) : b + alpha * mg_kernel_float(k, MG_ATTR_GAMMA));
    case MG_OP_CELU_GRAD:
        return b > 0 ? dy : dy * (b / alpha + 1);
    case MG_OP_MISH_GRAD:
        return dy * (t + b * sigmoid(b) * (1 - t * t));
    case MG_OP_THRESHOLDED_RELU_GRAD:
        return b > alpha ? dy : 0;
    default: /* shrink */
        return fabs(b) > mg_kernel_float(k, MG_ATTR_LAMBD) ? dy : 0;
    }
}

/* The gradient operators: dy is the incoming gradient, b the forward output or input. */
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
    case MG_OP_CLIP_GRAD:
        return b > mg_kernel_float(k, MG_ATTR_MIN) && b < mg_kernel_float(k, MG_ATTR_MAX) ? dy : 0;
    default:
        return rare_slope(k, dy, b);
    }
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
        return softplus(x);
    case MG_OP_CLIP:
        return clamp(x, mg_kernel_float(k, MG_ATTR_MIN), mg_kernel_float(k, MG_ATTR_MAX));
    case MG_OP_AFFINE:
        return alpha * x + beta;
    default:
        return rare(k, x);
    }
}

enum mg_code kernel_activation(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = activation(k, k->in[0][i]);
    return MG_OK;
}

/* (dy, forward result or operand) */
enum mg_code kernel_activation_grad(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = gradient(k, k->in[0][i], k->in[1][i]);
    return MG_OK;
}
