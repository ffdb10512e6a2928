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

/* 2^k by the exponent's bits, the rest by a polynomial on [-ln2 / 2, ln2 / 2]. */
static inline float fast_exp(float x)
{
    float t = x < -87.0f ? -87.0f : x > 88.7f ? 88.7f : x;
    float k = t * 1.44269504f;
    int32_t n = (int32_t)(k + (k < 0 ? -0.5f : 0.5f));
    float r = t - (float)n * 0.693359375f + (float)n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1;
    int32_t bits = (n + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    float y = p * scale;
    return x < -87.3f ? 0 : x > 88.72f ? INFINITY : y;
}

static inline float fast_sigmoid(float x)
{
    return 1 / (1 + fast_exp(-x));
}

static inline float fast_tanh(float x)
{
    float t = fast_exp(-2 * fabsf(x)), y = (1 - t) / (1 + t);
    return x < 0 ? -y : y;
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
    return x < 0 ? -y : y;
}

#endif
