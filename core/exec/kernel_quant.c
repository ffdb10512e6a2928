/* Quantized numbers: real = (x - zero point) * scale. Sums of products are exact whole numbers, rounded once. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

/* Rounded to the nearest whole number (of two, the even one) that the dtype holds. */
static double saturate(double x, enum mg_dtype dtype)
{
    double span = ldexp(1, (int)(8 * mg_dtype_size(dtype))), least = mg_dtype_is_unsigned(dtype) ? 0 : -span / 2;
    x = nearbyint(x);
    return x < least ? least : x > least + span - 1 ? least + span - 1 : x;
}

/* ---- to quantized numbers and back ---- */

/* Entry of a parameter for flat position i: it is one number, or one for each index of attribute `axis`. */
static double parameter(const struct mg_kernel *k, uint32_t operand, int64_t i)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    if (operand >= k->op->in_count)
        return 0;
    if (mg_kernel_in_count(k, operand) == 1)
        return k->in[operand][0];
    int64_t axis = mg_kernel_int(k, MG_ATTR_AXIS), inner = 1;
    for (uint32_t d = (uint32_t)axis + 1; d < x->rank; d++)
        inner *= x->dim[d];
    return k->in[operand][i / inner % x->dim[axis]];
}

enum mg_code kernel_quantize(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++) {
        double whole = nearbyint(k->in[0][i] / parameter(k, 1, i));
        k->out[0][i] = saturate(whole + parameter(k, 2, i), k->op->out_dtype[0]);
    }
    return MG_OK;
}

enum mg_code kernel_dequantize(const struct mg_kernel *k)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = (k->in[0][i] - parameter(k, 2, i)) * parameter(k, 1, i);
    return MG_OK;
}

/* The range from the least to the largest element, widened to hold zero, on 0 to 255. */
enum mg_code kernel_dynamic_quantize(const struct mg_kernel *k)
{
    double least = 0, largest = 0;
    for (int64_t i = 0; i < mg_kernel_in_count(k, 0); i++) {
        least = fmin(least, k->in[0][i]);
        largest = fmax(largest, k->in[0][i]);
    }
    double scale = (largest - least) / 255;
    scale = scale > 0 ? scale : 1;
    double zero = saturate(-least / scale, MG_DTYPE_U8);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++)
        k->out[0][i] = saturate(nearbyint(k->in[0][i] / scale) + zero, MG_DTYPE_U8);
    k->out[1][0] = scale;
    k->out[2][0] = zero;
    return MG_OK;
}

/* ---- sums of products ---- */

/* Operand less its zero points: a number, or one for each index of dimension `dim`. */
static double *centred(const struct mg_kernel *k, uint32_t operand, uint32_t zero, uint32_t dim)
{
    const struct mg_shape *x = &k->op->in_shape[operand];
    int64_t count = mg_shape_elements(x), inner = 1;
    double *out = MG_NEW_ARRAY(k->scratch, double, count);
    for (uint32_t d = dim + 1; d < x->rank; d++)
        inner *= x->dim[d];
    for (int64_t i = 0; i < count; i++) {
        bool vector = zero < k->op->in_count && mg_kernel_in_count(k, zero) != 1;
        double point = zero >= k->op->in_count ? 0 : k->in[zero][vector ? i / inner % x->dim[dim] : 0];
        out[i] = k->in[operand][i] - point;
    }
    return out;
}

/* Where operands stand. With scales of its own an operator has three for each tensor. */
struct places {
    bool rounds;
    uint32_t b, zero_a, zero_b;
};

static struct places places_of(const struct mg_kernel *k)
{
    bool rounds = k->op->type == MG_OP_QLINEAR_MATMUL || k->op->type == MG_OP_QLINEAR_CONV;
    return (struct places){rounds, rounds ? 3 : 1, 2, rounds ? 5 : 3};
}

static double entry(const struct mg_kernel *k, uint32_t operand, int64_t at)
{
    return k->in[operand][mg_kernel_in_count(k, operand) == 1 ? 0 : at];
}

/* The whole sums in the result's scale. `row` and `column` of position i choose among vectors of scales. */
static void requantize(const struct mg_kernel *k, int64_t rows, int64_t row_step, int64_t columns, int64_t column_step)
{
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++) {
        int64_t row = i / row_step % rows, column = i / column_step % columns;
        double sum = k->out[0][i] + (k->op->in_count > 8 ? k->in[8][column] : 0);
        double scale = entry(k, 1, row) * entry(k, 4, column) / k->in[6][0];
        k->out[0][i] = saturate(nearbyint(sum * scale) + k->in[7][0], k->op->out_dtype[0]);
    }
}

/* Runs the kernel of the same operator on real numbers. */
static enum mg_code run_real(const struct mg_kernel *k, enum mg_op_type type, mg_kernel_fn *kernel,
                             const struct places *p, double *a, double *b)
{
    struct mg_attr attrs[8] = {{.key = MG_ATTR_ALPHA, .type = MG_ATTR_TYPE_FLOAT, .f = 1}};
    struct mg_shape in_shape[2] = {k->op->in_shape[0], k->op->in_shape[p->b]};
    const double *in[2] = {a, b};
    struct mg_op_desc desc = *k->op;
    struct mg_kernel real = *k;
    memcpy(attrs + 1, k->op->attrs, k->op->attr_count * sizeof *attrs);
    desc.type = type;
    desc.attrs = attrs;
    desc.attr_count = k->op->attr_count + 1;
    desc.in_count = 2;
    desc.in_shape = in_shape;
    real.op = &desc;
    real.in = in;
    return kernel(&real);
}

enum mg_code kernel_quantized_matmul(const struct mg_kernel *k)
{
    struct places p = places_of(k);
    const struct mg_shape *out = &k->op->out_shape[0];
    double *a = centred(k, 0, p.zero_a, k->op->in_shape[0].rank - 2);
    double *b = centred(k, p.b, p.zero_b, k->op->in_shape[p.b].rank - 1);
    int64_t rows = out->dim[out->rank - 2], columns = out->dim[out->rank - 1];
    enum mg_code code = run_real(k, MG_OP_GEMM, kernel_gemm, &p, a, b);
    if (p.rounds)
        requantize(k, rows, columns, columns, 1);
    return code;
}

enum mg_code kernel_quantized_conv(const struct mg_kernel *k)
{
    struct places p = places_of(k);
    const struct mg_shape *out = &k->op->out_shape[0];
    int64_t plane = 1;
    for (uint32_t d = 2; d < out->rank; d++)
        plane *= out->dim[d];
    enum mg_code code =
        run_real(k, MG_OP_CONV, kernel_conv, &p, centred(k, 0, p.zero_a, 0), centred(k, p.b, p.zero_b, 0));
    if (p.rounds)
        requantize(k, 1, 1, out->dim[1], plane);
    return code;
}
