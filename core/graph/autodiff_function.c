/* Gradient rules: trigonometric and hyperbolic functions, exponentials and logarithms. */
#include "graph/autodiff_priv.h"

static const double ln2 = 0.69314718055994530942, ln10 = 2.30258509299404568402;

/* dy times (or divided by) a slope */
static void give_times(struct mg_grad *d, mg_value slope)
{
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_MUL, mg_grad_dy(d, 0), slope));
}

static void give_over(struct mg_grad *d, mg_value slope)
{
    mg_grad_give(d, 0, mg_grad_binary(d, MG_OP_DIV, mg_grad_dy(d, 0), slope));
}

/* a v^2 + b */
static mg_value quadratic(struct mg_grad *d, mg_value v, double a, double b)
{
    return mg_grad_affine(d, mg_grad_binary(d, MG_OP_MUL, v, v), a, b);
}

static mg_value root(struct mg_grad *d, mg_value v)
{
    return mg_grad_unary(d, MG_OP_SQRT, v);
}

void grad_exp(struct mg_grad *d)
{
    give_times(d, mg_grad_out(d, 0));
}

void grad_expm1(struct mg_grad *d)
{
    give_times(d, mg_grad_affine(d, mg_grad_out(d, 0), 1, 1));
}

void grad_log(struct mg_grad *d)
{
    give_over(d, mg_grad_in(d, 0));
}

void grad_log1p(struct mg_grad *d)
{
    give_over(d, mg_grad_affine(d, mg_grad_in(d, 0), 1, 1));
}

void grad_log2(struct mg_grad *d)
{
    give_over(d, mg_grad_affine(d, mg_grad_in(d, 0), ln2, 0));
}

void grad_log10(struct mg_grad *d)
{
    give_over(d, mg_grad_affine(d, mg_grad_in(d, 0), ln10, 0));
}

void grad_sin(struct mg_grad *d)
{
    give_times(d, mg_grad_unary(d, MG_OP_COS, mg_grad_in(d, 0)));
}

void grad_cos(struct mg_grad *d)
{
    give_times(d, mg_grad_affine(d, mg_grad_unary(d, MG_OP_SIN, mg_grad_in(d, 0)), -1, 0));
}

void grad_tan(struct mg_grad *d)
{
    give_times(d, quadratic(d, mg_grad_out(d, 0), 1, 1));
}

void grad_asin(struct mg_grad *d)
{
    give_over(d, root(d, quadratic(d, mg_grad_in(d, 0), -1, 1)));
}

void grad_acos(struct mg_grad *d)
{
    give_over(d, mg_grad_affine(d, root(d, quadratic(d, mg_grad_in(d, 0), -1, 1)), -1, 0));
}

void grad_atan(struct mg_grad *d)
{
    give_over(d, quadratic(d, mg_grad_in(d, 0), 1, 1));
}

void grad_sinh(struct mg_grad *d)
{
    give_times(d, mg_grad_unary(d, MG_OP_COSH, mg_grad_in(d, 0)));
}

void grad_cosh(struct mg_grad *d)
{
    give_times(d, mg_grad_unary(d, MG_OP_SINH, mg_grad_in(d, 0)));
}

void grad_asinh(struct mg_grad *d)
{
    give_over(d, root(d, quadratic(d, mg_grad_in(d, 0), 1, 1)));
}

void grad_acosh(struct mg_grad *d)
{
    give_over(d, root(d, quadratic(d, mg_grad_in(d, 0), 1, -1)));
}

void grad_atanh(struct mg_grad *d)
{
    give_over(d, quadratic(d, mg_grad_in(d, 0), -1, 1));
}
