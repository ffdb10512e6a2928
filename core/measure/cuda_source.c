/* Kernels as text for the run-time compiler: elementwise operators from elementwise.def, movement from moves.h, the
 * rest from kernels.cu (cuda_families.c). Every
 * shape and stride is a constant in the text, so the compiler divides by multiplying. Kernel arguments are the results'
 * addresses, then the operands'. */
#include <float.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/cuda_priv.h"
#include "measure/cuda_text.h"
#include "measure/elementwise.h"
#include "measure/moves.h"

MG_PRINTF(2, 3) void mg_cuda_print(struct cuda_text *t, const char *format, ...)
{
    va_list args;
    for (;;) {
        size_t room = t->capacity - t->size;
        va_start(args, format);
        int n = vsnprintf(t->data ? t->data + t->size : NULL, room, format, args);
        va_end(args);
        if (n < 0 || t->failed)
            return;
        if ((size_t)n < room) {
            t->size += (size_t)n;
            return;
        }
        char *more = realloc(t->data, 2 * (t->capacity + (size_t)n + 256));
        t->failed = more == NULL;
        if (!more)
            return;
        t->data = more;
        t->capacity = 2 * (t->capacity + (size_t)n + 256);
    }
}

const char *mg_cuda_type(enum mg_dtype dtype)
{
    static const char *const names[MG_DTYPE_COUNT] = {
        [MG_DTYPE_F64] = "double",       [MG_DTYPE_F32] = "float",
        [MG_DTYPE_BF16] = "bf16",        [MG_DTYPE_F16] = "f16",
        [MG_DTYPE_I64] = "long long",    [MG_DTYPE_I32] = "int",
        [MG_DTYPE_I16] = "short",        [MG_DTYPE_I8] = "signed char",
        [MG_DTYPE_U8] = "unsigned char", [MG_DTYPE_U16] = "unsigned short",
        [MG_DTYPE_U32] = "unsigned",     [MG_DTYPE_U64] = "unsigned long long",
        [MG_DTYPE_BOOL] = "boolean",
    };
    return names[dtype];
}

/* Halves are converted by the device's instructions; elsewhere (tests) bit by bit, to the nearest, ties to even. No
 * header of the toolkit is needed. */
static const char prelude[] =
    "struct bf16 { unsigned short bits; };\n"
    "struct f16 { unsigned short bits; };\n"
    "struct boolean { unsigned char value; };\n"
    "template <class T> __device__ double get(T x) { return (double)x; }\n"
    "__device__ double get(bf16 x) { return (double)__int_as_float((int)x.bits << 16); }\n"
    "__device__ double get(boolean x) { return x.value; }\n"
    "#ifdef __CUDA_ARCH__\n"
    "__device__ double get(f16 x) { float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x.bits)); return "
    "(double)y; }\n"
    "__device__ void put(f16 *p, double y) { asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(p->bits) : \"f\"((float)y)); }\n"
    "#else\n"
    "__device__ double get(f16 x) { unsigned e = x.bits >> 10 & 31, m = x.bits & 1023;\n"
    "  float y = __int_as_float((int)((e == 31 ? 255u : e + 112) << 23 | m << 13));\n"
    "  y = e ? y : (float)m * 5.9604644775390625e-08f; return (double)(x.bits >> 15 ? -y : y); }\n"
    "__device__ void put(f16 *p, double y) { float x = (float)y; unsigned b = __float_as_uint(x), a = b & 0x7fffffff;\n"
    "  unsigned h = a > 0x7f800000 ? 0x7e00 : a >= 0x477ff000 ? 0x7c00\n"
    "    : a < 0x38800000 ? __float_as_uint(__int_as_float((int)a) + 0.5f) - 0x3f000000\n"
    "    : (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;\n"
    "  p->bits = (unsigned short)(b >> 16 & 0x8000 | h); }\n"
    "#endif\n"
    "template <class T> __device__ void put(T *p, double x) { *p = x == x ? (T)x : (T)0; }\n"
    "__device__ void put(double *p, double x) { *p = x; }\n"
    "__device__ void put(float *p, float x) { *p = x; }\n"
    "__device__ void put(boolean *p, double x) { p->value = x != 0; }\n"
    "__device__ void put(bf16 *p, double y) { float x = (float)y; unsigned b = __float_as_uint(x);\n"
    "  p->bits = x != x ? (unsigned short)(b >> 16 | 0x40) : (unsigned short)((b + 0x7fff + (b >> 16 & 1)) >> 16); }\n";

/* ---- walks ---- */

/* The loop over `count` elements and the place of each in every side. */
static void open_loop(struct cuda_text *t, const struct mg_shape *shape, const int64_t *const *strides, uint32_t sides)
{
    mg_cuda_print(t,
                  "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < %" PRId64
                  "LL; i += (long long)gridDim.x * blockDim.x) {\n    long long r = i, q;\n    long long ",
                  mg_shape_elements(shape));
    for (uint32_t s = 0; s < sides; s++)
        mg_cuda_print(t, "%sp%u = 0", s ? ", " : "", s);
    mg_cuda_print(t, ";\n");
    for (uint32_t d = shape->rank; d-- > 0;) {
        if (shape->dim[d] == 1)
            continue;
        mg_cuda_print(t, "    q = r %% %" PRId64 "LL; r /= %" PRId64 "LL;", shape->dim[d], shape->dim[d]);
        for (uint32_t s = 0; s < sides; s++)
            if (strides[s][d])
                mg_cuda_print(t, " p%u += q * %" PRId64 "LL;", s, strides[s][d]);
        mg_cuda_print(t, "\n");
    }
}

static void open_kernel(struct cuda_text *t, const struct mg_prepared *p, uint32_t number)
{
    mg_cuda_print(t, "extern \"C\" __global__ void k%u(", number);
    for (uint32_t i = 0; i < p->op.out_count; i++)
        mg_cuda_print(t, "%s%s *o%u", i ? ", " : "", mg_cuda_type(p->op.out_dtype[i]), i);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        mg_cuda_print(t, ", const %s *a%u", mg_cuda_type(p->op.in_dtype[i]), i);
    mg_cuda_print(t, ") {\n");
}

/* ---- elementwise ---- */

static const char *expression_of(enum mg_op_type type)
{
    switch (type) {
#define MG_EXPR(id, expression)                                                                                        \
    case MG_OP_##id:                                                                                                   \
        return #expression;
#include "measure/elementwise.def"
#undef MG_EXPR
    default:
        return NULL;
    }
}

static const char functions_float[] =
    "typedef float num;\n#define LARGEST 3.402823466e38f\n#define EXP expf\n#define TANH tanhf\n#define ERF erff\n"
    "#define FABS fabsf\n#define FLOOR floorf\n#define CEIL ceilf\n#define NEARBYINT nearbyintf\n#define TRUNC truncf\n"
    "#define SQRT sqrtf\n#define LOG logf\n#define POW powf\n#define FMOD fmodf\n#define ATAN2 atan2f\n#define SIN "
    "sinf\n"
    "#define COS cosf\n#define TAN tanf\n#define ASIN asinf\n#define ACOS acosf\n#define ATAN atanf\n#define SINH "
    "sinhf\n"
    "#define COSH coshf\n#define ASINH asinhf\n#define ACOSH acoshf\n#define ATANH atanhf\n#define EXPM1 expm1f\n"
    "#define LOG1P log1pf\n#define LOG2 log2f\n#define LOG10 log10f\n";
static const char functions_double[] =
    "typedef double num;\n#define LARGEST 1.7976931348623157e308\n#define EXP exp\n#define TANH tanh\n#define ERF erf\n"
    "#define FABS fabs\n#define FLOOR floor\n#define CEIL ceil\n#define NEARBYINT nearbyint\n#define TRUNC trunc\n"
    "#define SQRT sqrt\n#define LOG log\n#define POW pow\n#define FMOD fmod\n#define ATAN2 atan2\n#define SIN sin\n"
    "#define COS cos\n#define TAN tan\n#define ASIN asin\n#define ACOS acos\n#define ATAN atan\n#define SINH sinh\n"
    "#define COSH cosh\n#define ASINH asinh\n#define ACOSH acosh\n#define ATANH atanh\n#define EXPM1 expm1\n"
    "#define LOG1P log1p\n#define LOG2 log2\n#define LOG10 log10\n";
static const char functions_common[] =
    "#define TWO_BY_SQRT_PI ((num)1.12837916709551257390)\n"
    "__device__ num CLAMP(num x, num lo, num hi) { x = x < lo ? lo : x; return x > hi ? hi : x; }\n"
    "__device__ num SIGMOID(num x) { return 1 / (1 + EXP(-x)); }\n"
    "__device__ num SOFTPLUS(num x) { return x > 30 ? x : LOG1P(EXP(x)); }\n"
    "__device__ num GELU_T(num x) { return TANH((num)0.79788456080286535588 * (x + (num)0.044715 * x * x * x)); }\n"
    "__device__ num GELU_TANH(num x) { return (num)0.5 * x * (1 + GELU_T(x)); }\n"
    "__device__ num GELU_ERF(num x) { return (num)0.5 * x * (1 + ERF(x * (num)0.70710678118654752440)); }\n"
    "__device__ num GELU_TANH_SLOPE(num x) { num t = GELU_T(x); return (num)0.5 * (1 + t) + (num)0.5 * x * (1 - t * "
    "t)\n"
    "  * (num)0.79788456080286535588 * (1 + (num)0.134145 * x * x); }\n"
    "__device__ num GELU_ERF_SLOPE(num x) { return (num)0.5 * (1 + ERF(x * (num)0.70710678118654752440)) +\n"
    "  x * EXP((num)-0.5 * x * x) * (num)0.39894228040143267794; }\n";

void mg_cuda_print_functions(struct cuda_text *t, bool wide)
{
    mg_cuda_print(t, "%s%s", wide ? functions_double : functions_float, functions_common);
}

bool mg_cuda_is_wide(enum mg_dtype dtype)
{
    return dtype == MG_DTYPE_F64 || dtype == MG_DTYPE_I64 || dtype == MG_DTYPE_I32;
}

static void constant(struct cuda_text *t, const char *name, double value, double largest)
{
    value = value > largest ? largest : value < -largest ? -largest : value;
    mg_cuda_print(t, "  const num %s = (num)%.17g; (void)%s;\n", name, value, name);
}

static void constants(struct cuda_text *t, const struct mg_expression *e, double largest)
{
#define MG_PARAMETER(name, key) constant(t, #name, e->name, largest);
#include "measure/parameters.def"
#undef MG_PARAMETER
    constant(t, "power", e->power, largest);
    constant(t, "by_tanh", e->by_tanh, largest);
    constant(t, "by_fmod", e->by_fmod, largest);
    constant(t, "detect_negative", e->detect_negative, largest);
    constant(t, "detect_positive", e->detect_positive, largest);
    constant(t, "correction1", e->correction1, largest);
    constant(t, "correction2", e->correction2, largest);
}

static void elementwise(struct cuda_text *t, const struct mg_prepared *p)
{
    const struct mg_shape *shape = &p->op.out_shape[0];
    int64_t strides[4][MG_MAX_RANK];
    const int64_t *sides[4] = {p->out[0].at};
    bool wide = mg_cuda_is_wide(p->op.out_dtype[0]);
    struct mg_expression numbers;
    for (uint32_t i = 0; i < p->op.in_count; i++) {
        const struct mg_shape *in = &p->op.in_shape[i];
        uint32_t skip = shape->rank - in->rank;
        for (uint32_t d = 0; d < shape->rank; d++)
            strides[i + 1][d] = d < skip || in->dim[d - skip] == 1 ? 0 : p->in[i].at[d - skip];
        sides[i + 1] = strides[i + 1];
        wide = wide || mg_cuda_is_wide(p->op.in_dtype[i]);
    }
    mg_expression_of(p, &numbers);
    mg_cuda_print_functions(t, wide);
    open_kernel(t, p, 0);
    constants(t, &numbers, wide ? DBL_MAX : (double)FLT_MAX);
    open_loop(t, shape, sides, p->op.in_count + 1);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        mg_cuda_print(t, "    const num %c = (num)get(a%u[p%u]);\n", "xyz"[i], i, i + 1);
    mg_cuda_print(t, "    put(o0 + p0, (num)(%s));\n  }\n}\n", expression_of(p->op.type));
}

/* ---- movement ---- */

static void movement(struct cuda_text *t, const struct mg_prepared *p, const struct mg_move *move, uint32_t number)
{
    const int64_t *const sides[2] = {move->to_stride, move->from_stride};
    open_kernel(t, p, number);
    open_loop(t, &move->shape, sides, move->from == MG_NONE ? 1 : 2);
    mg_cuda_print(t, "    put(o%u + p0 + %" PRId64 "LL, ", move->to, move->to_offset);
    if (move->from == MG_NONE)
        mg_cuda_print(t, "%.17g);\n  }\n}\n", move->value);
    else
        mg_cuda_print(t, "get(a%u[p1 + %" PRId64 "LL]));\n  }\n}\n", move->from, move->from_offset);
}

static bool dtypes_known(const struct mg_prepared *p)
{
    for (uint32_t i = 0; i < p->op.in_count; i++)
        if (!mg_cuda_type(p->op.in_dtype[i]))
            return false;
    for (uint32_t i = 0; i < p->op.out_count; i++)
        if (!mg_cuda_type(p->op.out_dtype[i]))
            return false;
    return true;
}

char *mg_cuda_source(struct mg_prepared *p, int64_t *elements, uint32_t most, uint32_t *count)
{
    struct cuda_text t = {.data = NULL};
    struct mg_moves moves;
    *count = 0;
    if (!dtypes_known(p))
        return NULL;
    mg_cuda_print(&t, "%s", prelude);
    if (expression_of(p->op.type) && p->op.in_count <= 3) {
        elements[(*count)++] = mg_shape_elements(&p->op.out_shape[0]);
        elementwise(&t, p);
    } else if (mg_moves_of(p, &moves) && moves.count <= most) {
        for (size_t i = 0; i < moves.count; i++) {
            elements[(*count)++] = mg_shape_elements(&moves.items[i].shape);
            movement(&t, p, &moves.items[i], (uint32_t)i);
        }
    } else if (!mg_cuda_family(&t, p, elements, count)) {
        *count = 0;
    }
    if (t.failed || *count == 0) {
        free(t.data);
        return NULL;
    }
    return t.data;
}
