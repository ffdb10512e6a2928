/* Numbers as a dtype holds them. */
#include <math.h>
#include <string.h>

#include "graph/graph.h"

struct format {
    int mantissa, least; /* bits after the point; exponent of the smallest normal number */
    double largest;
    bool saturates; /* what is larger becomes the largest number, else infinity */
};

static const struct format *format_of(enum mg_dtype dtype)
{
    static const struct format f16 = {10, -14, 0x1.ffcp15, false}, bf16 = {7, -126, 0x1.fep127, false};
    static const struct format f8e4m3 = {3, -6, 448, true}, f8e5m2 = {2, -14, 57344, true};
    switch (dtype) {
    case MG_DTYPE_F16:
        return &f16;
    case MG_DTYPE_BF16:
        return &bf16;
    case MG_DTYPE_F8E4M3:
        return &f8e4m3;
    case MG_DTYPE_F8E5M2:
        return &f8e5m2;
    default:
        return NULL;
    }
}

static double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double mg_dtype_round(enum mg_dtype dtype, double x)
{
    const double to_whole = 0x1.8p52; /* adding it drops the fraction, ties to even */
    const struct format *f = format_of(dtype);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (!f || x != x || x == 0)
        return dtype == MG_DTYPE_F32 ? (double)(float)x : x;
    bool negative = bits >> 63;
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    double size = negative ? -x : x;
    if (exponent <= 127) {
        double unit = power_of_two((exponent < f->least ? f->least : exponent) - f->mantissa);
        size = (size / unit + to_whole - to_whole) * unit;
    }
    if (size > f->largest)
        size = f->saturates ? f->largest : (double)INFINITY;
    return negative ? -size : size;
}
