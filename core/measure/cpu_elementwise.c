/* Elementwise operators: operands are walked together, in pieces that stay in the first cache. A piece that lies
 * dense in memory, in the type that is computed in, is used where it lies, others are gathered. The loops over pieces
 * are made from the expressions of elementwise.def, in float, and in double where integers or f64 take part. */
#include <float.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"
#include "measure/elementwise.h"

enum { PIECE = 512, MOST = 3 };

struct elementwise {
    struct mg_expression numbers;
    struct cpu_walk walk; /* side 0 is the result */
    enum mg_dtype dtype[MOST + 1];
    bool wide; /* in double */
    void (*loop_float)(const struct mg_expression *e, int64_t n, float *out, const float *a, const float *b,
                       const float *c);
    void (*loop_double)(const struct mg_expression *e, int64_t n, double *out, const double *a, const double *b,
                        const double *c);
};

/* ---- loops ---- */

/* In place, a result's elements are read before they are written. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* a hint: loops that cannot take it stay as they are */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define NUMBERS(type)                                                                                                  \
    const type power = (type)e->power, by_tanh = (type)e->by_tanh, by_fmod = (type)e->by_fmod;                         \
    const type detect_negative = (type)e->detect_negative, detect_positive = (type)e->detect_positive;                 \
    const type correction1 = (type)e->correction1, correction2 = (type)e->correction2;                                 \
    const type alpha = (type)e->alpha, beta = (type)e->beta, gamma = (type)e->gamma, lambd = (type)e->lambd;           \
    const type bias = (type)e->bias, low = (type)fmax(e->low, -LARGEST), high = (type)fmin(e->high, LARGEST);          \
    const type ratio = (type)e->ratio, lr = (type)e->lr, decay = (type)e->decay, momentum = (type)e->momentum;         \
    const type epsilon = (type)e->epsilon;                                                                             \
    (void)power, (void)by_tanh, (void)by_fmod, (void)detect_negative, (void)detect_positive, (void)correction1;        \
    (void)correction2, (void)alpha, (void)beta, (void)gamma, (void)lambd, (void)bias, (void)low, (void)high;           \
    (void)ratio, (void)lr, (void)decay, (void)momentum, (void)epsilon
#define LOOP(type, name, expression)                                                                                   \
    MG_WIDE static void name(const struct mg_expression *e, int64_t n, type *out, const type *a, const type *b,        \
                             const type *c)                                                                            \
    {                                                                                                                  \
        NUMBERS(type);                                                                                                 \
        INDEPENDENT for (int64_t i = 0; i < n; i++)                                                                    \
        {                                                                                                              \
            const type x = a[i], y = b[i], z = c[i];                                                                   \
            (void)x, (void)y, (void)z;                                                                                 \
            out[i] = (type)(expression);                                                                               \
        }                                                                                                              \
    }
#define AT_LEAST(x, lo) ((x) < (lo) ? (lo) : (x))
#define CLAMP(x, lo, hi) (AT_LEAST(x, lo) > (hi) ? (hi) : AT_LEAST(x, lo))
#define GELU_TANH(x) (HALF * (x) * (1 + TANH(GELU_C * ((x) + GELU_A * (x) * (x) * (x)))))
#define GELU_ERF(x) (HALF * (x) * (1 + ERF((x)*SQRT_HALF)))
#define GELU_T(x) TANH(GELU_C *((x) + GELU_A * (x) * (x) * (x)))
#define GELU_TANH_SLOPE(x)                                                                                             \
    (HALF * (1 + GELU_T(x)) + HALF * (x) * (1 - GELU_T(x) * GELU_T(x)) * GELU_C * (1 + 3 * GELU_A * (x) * (x)))
#define GELU_ERF_SLOPE(x)                                                                                              \
    (HALF * (1 + ERF((x)*SQRT_HALF)) + (x)*EXP(-HALF * (x) * (x)) * HALF * TWO_BY_SQRT_PI * SQRT_HALF)

/* float */
#define LARGEST FLT_MAX
#define HALF 0.5f
#define SQRT_HALF 0.70710678f
#define TWO_BY_SQRT_PI 1.12837917f
#define GELU_C 0.79788456f
#define GELU_A 0.044715f
#define EXP(x) fast_exp(x)
#define TANH(x) fast_tanh(x)
#define SIGMOID(x) fast_sigmoid(x)
#define ERF(x) fast_erf(x)
#define SOFTPLUS(x) ((x) > 30 ? (x) : log1pf(fast_exp(x)))
#define FABS fabsf
#define FLOOR floorf
#define CEIL ceilf
#define NEARBYINT nearbyintf
#define TRUNC truncf
#define SQRT sqrtf
#define LOG logf
#define POW powf
#define FMOD fmodf
#define ATAN2 atan2f
#define SIN sinf
#define COS cosf
#define TAN tanf
#define ASIN asinf
#define ACOS acosf
#define ATAN atanf
#define SINH sinhf
#define COSH coshf
#define ASINH asinhf
#define ACOSH acoshf
#define ATANH atanhf
#define EXPM1 expm1f
#define LOG1P log1pf
#define LOG2 log2f
#define LOG10 log10f
#define MG_EXPR(id, expression) LOOP(float, float_##id, expression)
#include "measure/elementwise.def"
#undef MG_EXPR

/* double */
#undef LARGEST
#undef HALF
#undef SQRT_HALF
#undef TWO_BY_SQRT_PI
#undef GELU_C
#undef GELU_A
#undef EXP
#undef TANH
#undef SIGMOID
#undef ERF
#undef SOFTPLUS
#undef FABS
#undef FLOOR
#undef CEIL
#undef NEARBYINT
#undef TRUNC
#undef SQRT
#undef LOG
#undef POW
#undef FMOD
#undef ATAN2
#undef SIN
#undef COS
#undef TAN
#undef ASIN
#undef ACOS
#undef ATAN
#undef SINH
#undef COSH
#undef ASINH
#undef ACOSH
#undef ATANH
#undef EXPM1
#undef LOG1P
#undef LOG2
#undef LOG10
#define LARGEST DBL_MAX
#define HALF 0.5
#define SQRT_HALF 0.70710678118654752440
#define TWO_BY_SQRT_PI 1.12837916709551257390
#define GELU_C 0.79788456080286535588
#define GELU_A 0.044715
#define EXP exp
#define TANH tanh
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#define ERF erf
#define SOFTPLUS(x) ((x) > 30 ? (x) : log1p(exp(x)))
#define FABS fabs
#define FLOOR floor
#define CEIL ceil
#define NEARBYINT nearbyint
#define TRUNC trunc
#define SQRT sqrt
#define LOG log
#define POW pow
#define FMOD fmod
#define ATAN2 atan2
#define SIN sin
#define COS cos
#define TAN tan
#define ASIN asin
#define ACOS acos
#define ATAN atan
#define SINH sinh
#define COSH cosh
#define ASINH asinh
#define ACOSH acosh
#define ATANH atanh
#define EXPM1 expm1
#define LOG1P log1p
#define LOG2 log2
#define LOG10 log10
#define MG_EXPR(id, expression) LOOP(double, double_##id, expression)
#include "measure/elementwise.def"
#undef MG_EXPR

static void choose_loops(struct elementwise *e, enum mg_op_type type)
{
    switch (type) {
#define MG_EXPR(id, expression)                                                                                        \
    case MG_OP_##id:                                                                                                   \
        e->loop_float = float_##id;                                                                                    \
        e->loop_double = double_##id;                                                                                  \
        break;
#include "measure/elementwise.def"
#undef MG_EXPR
    default:
        break;
    }
}

/* ---- pieces ---- */

/* The type of a piece, and where it is gathered if it does not lie ready. */
struct piece {
    enum mg_dtype type;
    int64_t dense;
    char *room;
};

static void *gather(const struct piece *piece, char *at, enum mg_dtype dtype, int64_t stride, int64_t n)
{
    struct mg_shape row = {1, {n}};
    if (dtype == piece->type && stride == 1)
        return at;
    mg_cpu_move(&row, &(struct cpu_side){piece->room, piece->type, &piece->dense},
                &(struct cpu_side){at, dtype, &stride});
    return piece->room;
}

static void run_piece(const struct elementwise *e, char *const *at, int64_t n)
{
    static const int64_t one = 1;
    char room[MOST + 1][PIECE * sizeof(double)];
    void *side[MOST + 1];
    enum mg_dtype type = e->wide ? MG_DTYPE_F64 : MG_DTYPE_F32;
    uint32_t inner = e->walk.rank - 1;
    for (uint32_t i = 0; i <= MOST; i++) {
        struct piece piece = {type, one, room[i]};
        if (i >= e->walk.sides)
            side[i] = side[1 < e->walk.sides ? 1 : 0];
        else if (i > 0)
            side[i] = gather(&piece, at[i], e->dtype[i], e->walk.stride[i][inner], n);
        else
            side[i] = e->dtype[0] == type && e->walk.stride[0][inner] == 1 ? (void *)at[0] : (void *)room[0];
    }
    if (e->wide)
        e->loop_double(&e->numbers, n, side[0], side[1], side[2], side[3]);
    else
        e->loop_float(&e->numbers, n, side[0], side[1], side[2], side[3]);
    if (side[0] != at[0])
        mg_cpu_move(&(struct mg_shape){1, {n}}, &(struct cpu_side){at[0], e->dtype[0], &e->walk.stride[0][inner]},
                    &(struct cpu_side){side[0], type, &one});
}

static enum mg_code run_elementwise(const struct cpu_call *call)
{
    const struct elementwise *e = ((const struct cpu_op *)call->p->detail)->data;
    const struct cpu_walk *walk = &e->walk;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0}, row = walk->dim[walk->rank - 1];
    uint32_t inner = walk->rank - 1;
    do {
        for (int64_t begin = 0; begin < row; begin += PIECE) {
            char *address[MOST + 1] = {NULL};
            for (uint32_t i = 0; i < walk->sides; i++) {
                union {
                    const void *from;
                    char *to;
                } cast = {.from = i ? call->in[i - 1] : call->out[0]};
                address[i] = cast.to + (at[i] + begin * walk->stride[i][inner]) * mg_dtype_size(e->dtype[i]);
            }
            run_piece(e, address, row - begin < PIECE ? row - begin : PIECE);
        }
    } while (mg_cpu_walk_next(walk, index, at));
    return MG_OK;
}

static bool needs_double(enum mg_dtype dtype)
{
    return dtype == MG_DTYPE_F64 || dtype == MG_DTYPE_I64 || dtype == MG_DTYPE_I32;
}

enum mg_code mg_cpu_elementwise(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct elementwise *e = MG_NEW(&p->arena, struct elementwise);
    int64_t strides[MOST + 1][MG_MAX_RANK];
    const int64_t *sides[MOST + 1] = {p->out[0].at};
    choose_loops(e, p->op.type);
    if (!e->loop_float || p->op.in_count > MOST)
        return mg_cpu_by_reference(p, op, err);
    e->dtype[0] = p->op.out_dtype[0];
    e->wide = needs_double(e->dtype[0]);
    for (uint32_t i = 0; i < p->op.in_count; i++) {
        mg_cpu_broadcast(&p->op.in_shape[i], &p->in[i], &p->op.out_shape[0], strides[i + 1]);
        sides[i + 1] = strides[i + 1];
        e->dtype[i + 1] = p->op.in_dtype[i];
        e->wide = e->wide || needs_double(p->op.in_dtype[i]);
    }
    mg_cpu_walk_join(&e->walk, &p->op.out_shape[0], sides, p->op.in_count + 1);
    mg_expression_of(p, &e->numbers);
    op->strided = true;
    op->data = e;
    op->run = run_elementwise;
    return MG_OK;
}
