/* Functions of f32 written so that the compiler makes vectors of them; their error is some units in the last place of
 * numbers near one (erf: 2e-7). */
#ifndef MG_MEASURE_CPU_MATH_H
#define MG_MEASURE_CPU_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Two machine widths; the loader chooses. Results are the same: nothing is contracted. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MG_WIDE __attribute__((target_clones("default", "avx2", "arch=skylake-avx512")))
#else
#define MG_WIDE
#endif

static inline float power_of_two(int32_t n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n by the exponent's bits, the rest by a polynomial on [-ln2 / 2, ln2 / 2]; no branch, so that it becomes a vector
 * and takes as long whatever the number (two comparisons in a row would become branches again). In two halves, 2^n
 * overflows and vanishes where the result does. A number this size has its ones in the lowest bit: adding it rounds,
 * and, other than a conversion to an integer, takes what is no number, which the polynomial then hands on. */
static inline float fast_exp(float x)
{
    const float rounder = 12582912.0f; /* 3 * 2^22 */
    float size = fabsf(x);
    size = size > 110.0f ? 110.0f : size;
    float t = copysignf(size, x), sum = t * 1.44269504f + rounder, whole = sum - rounder;
    int32_t n, zero;
    memcpy(&n, &sum, sizeof n);
    memcpy(&zero, &rounder, sizeof zero);
    n -= zero;
    float r = t - whole * 0.693359375f + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1;
    int32_t half = n >> 1;
    return p * power_of_two(half) * power_of_two(n - half);
}

static inline float fast_sigmoid(float x)
{
    return 1 / (1 + fast_exp(-x));
}

static inline float fast_tanh(float x)
{
    float t = fast_exp(-2 * fabsf(x)), y = (1 - t) / (1 + t);
    return copysignf(y, x);
}

/* Abramowitz and Stegun, 7.1.26. */
static inline float fast_erf(float x)
{
    float a = fabsf(x), t = 1 / (1 + 0.3275911f * a);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float y = 1 - p * t * fast_exp(-a * a);
    return copysignf(y, x);
}

#endif
