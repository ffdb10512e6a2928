/* The constants in front of kernels.cu for one operator: parameters, layouts, what the family wants to know; and how
 * many threads have work. One function for each family (cuda_kernels.def). */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "measure/cuda_text.h"

__asm__(".section .rodata\n.globl mg_cuda_kernels\nmg_cuda_kernels:\n.incbin \"core/measure/kernels.cu\"\n.byte 0\n"
        ".previous");
extern const char mg_cuda_kernels[];

enum { SHORT_ROW = 64 };

struct family {
    struct cuda_text *t;
    struct mg_prepared *p;
    int64_t *threads;
    uint32_t count; /* kernels so far */
    bool by_thread; /* a row is one thread's work */
};
typedef bool write_fn(struct family *f);

static void define(struct family *f, const char *name, int64_t value)
{
    mg_cuda_print(f->t, "#define %s %" PRId64 "LL\n", name, value);
}

static void define_real(struct family *f, const char *name, double value)
{
    mg_cuda_print(f->t, "#define %s (%.17g)\n", name, value);
}

static void define_as(struct family *f, const char *name, const char *text)
{
    mg_cuda_print(f->t, "#define %s %s\n", name, text);
}

static int64_t integer(const struct family *f, enum mg_attr_key key)
{
    return mg_prepared_int(f->p, key);
}

/* One more kernel, with a thread for each of so many. */
static void threads(struct family *f, int64_t elements)
{
    f->threads[f->count++] = elements;
}

/* ... with a block, or a thread, for each of so many rows. */
static void rows(struct family *f, int64_t count, int64_t extent)
{
    f->by_thread = extent < SHORT_ROW;
    threads(f, f->by_thread ? count : count * CUDA_BLOCK);
}

/* ---- rows along an axis ---- */

static void define_rows(struct family *f, const struct mg_shape *shape, int64_t axis)
{
    int64_t inner = 1;
    for (int64_t d = axis + 1; d < shape->rank; d++)
        inner *= shape->dim[d];
    define(f, "EXTENT", shape->dim[axis]);
    define(f, "INNER", inner);
    define(f, "ROW_COUNT", shape->dim[axis] ? mg_shape_elements(shape) / shape->dim[axis] : 0);
}

static int64_t row_count(const struct mg_shape *shape, int64_t axis)
{
    return shape->dim[axis] ? mg_shape_elements(shape) / shape->dim[axis] : 0;
}

static bool along_axis(struct family *f, const char *name)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t axis = integer(f, MG_ATTR_AXIS);
    define(f, name, 1);
    define_rows(f, x, axis);
    rows(f, row_count(x, axis), x->dim[axis]);
    return true;
}

static bool softmax(struct family *f)
{
    define(f, "IS_LOG", f->p->op.type == MG_OP_LOG_SOFTMAX);
    return along_axis(f, "F_SOFTMAX");
}

static bool softmax_grad(struct family *f)
{
    define(f, "IS_LOG", f->p->op.type == MG_OP_LOG_SOFTMAX_GRAD);
    return along_axis(f, "F_SOFTMAX_GRAD");
}

static bool lp_norm(struct family *f)
{
    define(f, "SQUARE", integer(f, MG_ATTR_P) == 2);
    return along_axis(f, "F_LP_NORM");
}

/* Rows that only a thread each works on. */
static bool along_axis_alone(struct family *f, const char *name)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t axis = integer(f, MG_ATTR_AXIS);
    define(f, name, 1);
    define_rows(f, x, axis);
    threads(f, row_count(x, axis));
    return true;
}

static bool cumsum(struct family *f)
{
    define(f, "REVERSE", integer(f, MG_ATTR_REVERSE));
    define(f, "EXCLUSIVE", integer(f, MG_ATTR_EXCLUSIVE));
    return along_axis_alone(f, "F_CUMSUM");
}

static bool arg_max(struct family *f)
{
    define(f, "LAST", integer(f, MG_ATTR_SELECT_LAST_INDEX));
    define(f, "LEAST", f->p->op.type == MG_OP_ARG_MIN);
    if (f->p->op.type != MG_OP_ARG_MIN && f->p->op.type != MG_OP_ARG_MAX)
        define(f, "HARD", 1);
    return along_axis_alone(f, "F_ARG_MAX");
}

static bool top_k(struct family *f)
{
    define(f, "TAKEN", f->p->op.out_shape[0].dim[integer(f, MG_ATTR_AXIS)]);
    define(f, "LEAST", !integer(f, MG_ATTR_LARGEST));
    return along_axis_alone(f, "F_TOP_K");
}

/* ---- reductions ---- */

static bool is_reduced(const struct mg_prepared *p, uint32_t dim)
{
    for (uint32_t i = 0; i < MG_MAX_RANK; i++)
        if (mg_prepared_ints(p, MG_ATTR_AXES, i, -1) == dim)
            return true;
    return false;
}

/* A function from a row-major number of the chosen dimensions to an offset. */
static void define_walk(struct family *f, const char *name, const struct mg_shape *shape, const int64_t *strides,
                        uint32_t chosen)
{
    mg_cuda_print(f->t, "__device__ long long %s(long long i) { long long at = 0;", name);
    for (uint32_t d = shape->rank; d-- > 0;)
        if (chosen >> d & 1 && shape->dim[d] != 1)
            mg_cuda_print(f->t, " at += i %% %" PRId64 "LL * %" PRId64 "LL; i /= %" PRId64 "LL;", shape->dim[d],
                          strides[d], shape->dim[d]);
    mg_cuda_print(f->t, " return at; }\n");
}

static void define_fold(struct family *f)
{
    const char *start = "0", *fold = "s + x", *join = "s + x", *end = "s";
    switch (f->p->op.type) {
    case MG_OP_REDUCE_MAX:
        start = "-INF", fold = join = "x > s ? x : s";
        break;
    case MG_OP_REDUCE_MIN:
        start = "INF", fold = join = "x < s ? x : s";
        break;
    case MG_OP_REDUCE_PROD:
        start = "1", fold = join = "x * s";
        break;
    case MG_OP_REDUCE_L1:
        fold = "s + FABS(x)";
        break;
    case MG_OP_REDUCE_L2:
        end = "SQRT(s)";
        fold = "s + x * x";
        break;
    case MG_OP_REDUCE_SUM_SQUARE:
        fold = "s + x * x";
        break;
    case MG_OP_REDUCE_LOG_SUM_EXP:
        fold = "s + EXP(x)";
        end = "LOG(s)";
        define(f, "BY_EXPONENTIALS", 1);
        break;
    case MG_OP_REDUCE_LOG_SUM:
        end = "LOG(s)";
        break;
    case MG_OP_REDUCE_MEAN:
        end = "s / (num)DIVISOR";
        define_real(f, "DIVISOR", mg_prepared_float(f->p, MG_ATTR_DIVISOR));
        break;
    default:
        break;
    }
    define_as(f, "START", start);
    define_as(f, "FOLD", fold);
    define_as(f, "JOIN", join);
    define_as(f, "END", end);
}

static bool reduce(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    uint32_t reduced = 0, all = (1u << x->rank) - 1, last = 0;
    int64_t extent = 1, count = mg_shape_elements(&f->p->op.out_shape[0]);
    for (uint32_t d = 0; d < x->rank; d++) {
        if (!is_reduced(f->p, d))
            continue;
        reduced |= 1u << d;
        extent *= x->dim[d];
        last = d;
    }
    define(f, "F_REDUCE", 1);
    define(f, "EXTENT", extent);
    define(f, "ROW_COUNT", count);
    define_fold(f);
    define_walk(f, "base_of", x, f->p->in[0].at, all & ~reduced);
    define_walk(f, "step_of", x, f->p->in[0].at, reduced);
    /* Where neighbours in memory belong to different results, a thread for each reads whole lines. */
    bool columns = reduced && f->p->in[0].at[last] != 1 && count >= 4096;
    rows(f, count, columns ? 1 : extent);
    return true;
}

/* ---- losses ---- */

static void define_loss(struct family *f, const struct mg_shape *logits)
{
    enum mg_op_type type = f->p->op.type;
    define_rows(f, logits, 1);
    define_real(f, "DIVISOR", mg_prepared_float(f->p, MG_ATTR_DIVISOR));
    define(f, "IGNORED", integer(f, MG_ATTR_IGNORE_INDEX));
    if (type == MG_OP_NLL_LOSS || type == MG_OP_NLL_LOSS_GRAD)
        define(f, "GIVEN_LOG", 1);
}

static bool loss(struct family *f)
{
    const struct mg_shape *logits = &f->p->op.in_shape[0];
    if (f->p->op.out_dtype[0] != MG_DTYPE_F32)
        return false;
    define(f, "F_LOSS", 1);
    define_loss(f, logits);
    threads(f, 1);
    rows(f, row_count(logits, 1), logits->dim[1]);
    threads(f, 1);
    return true;
}

static bool loss_grad(struct family *f)
{
    const struct mg_shape *logits = &f->p->op.in_shape[1];
    define(f, "F_LOSS_GRAD", 1);
    define_loss(f, logits);
    rows(f, row_count(logits, 1), mg_prepared_float(f->p, MG_ATTR_DIVISOR) == 0 ? SHORT_ROW : logits->dim[1]);
    return true;
}

/* ---- normalisation ---- */

static int64_t spatial_size(const struct mg_shape *shape)
{
    int64_t size = 1;
    for (uint32_t d = 2; d < shape->rank; d++)
        size *= shape->dim[d];
    return size;
}

static bool is_by_place(enum mg_op_type type)
{
    return type == MG_OP_LAYER_NORM || type == MG_OP_RMS_NORM || type == MG_OP_LAYER_NORM_GRAD ||
           type == MG_OP_RMS_NORM_GRAD;
}

static bool is_centred(enum mg_op_type type)
{
    return type != MG_OP_RMS_NORM && type != MG_OP_RMS_NORM_GRAD;
}

/* Groups of a sample; 0: a group is a channel of the whole batch. */
static int64_t group_count(const struct family *f, const struct mg_shape *x)
{
    switch (f->p->op.type) {
    case MG_OP_INSTANCE_NORM:
    case MG_OP_INSTANCE_NORM_GRAD:
        return x->dim[1];
    case MG_OP_GROUP_NORM:
    case MG_OP_GROUP_NORM_GRAD:
        return integer(f, MG_ATTR_NUM_GROUPS);
    default:
        return 0;
    }
}

struct layout {
    int64_t groups, blocks, gap, run, step, channels, cycle;
};

static struct layout layout_of(const struct family *f, const struct mg_shape *x)
{
    struct layout n = {.blocks = 1, .run = 1, .channels = 1, .cycle = 1};
    int64_t groups = group_count(f, x), spatial = spatial_size(x);
    if (is_by_place(f->p->op.type)) {
        for (int64_t d = integer(f, MG_ATTR_AXIS); d < x->rank; d++)
            n.run *= x->dim[d];
        n.groups = n.run ? mg_shape_elements(x) / n.run : 0;
        n.gap = n.step = n.run;
        return n;
    }
    n.run = spatial;
    n.channels = groups ? x->dim[1] / groups : 1;
    n.groups = groups ? x->dim[0] * groups : x->dim[1];
    n.cycle = groups ? groups : x->dim[1];
    n.blocks = groups ? n.channels : x->dim[0];
    n.gap = groups ? spatial : x->dim[1] * spatial;
    n.step = n.channels * spatial;
    return n;
}

static void define_layout(struct family *f, const struct layout *n)
{
    define(f, "F_NORM", 1);
    define(f, "GROUPS", n->groups);
    define(f, "BLOCKS", n->blocks);
    define(f, "NORM_GAP", n->gap);
    define(f, "RUN", n->run);
    define(f, "NORM_STEP", n->step);
    define(f, "CHANNELS", n->channels);
    define(f, "CYCLE", n->cycle);
    define(f, "BY_PLACE", is_by_place(f->p->op.type));
    define_real(f, "EPSILON", mg_prepared_float(f->p, MG_ATTR_EPSILON));
    if (is_centred(f->p->op.type))
        define(f, "CENTRED", 1);
}

/* Operand `i` as a function of an index, or a constant where there is none. */
static void define_operand(struct family *f, const char *name, uint32_t i, const char *otherwise)
{
    if (i < f->p->op.in_count)
        mg_cuda_print(f->t, "#define %s(c) IN%u(c)\n", name, i);
    else
        mg_cuda_print(f->t, "#define %s(c) ((num)%s)\n", name, otherwise);
}

static bool norm_forward(struct family *f)
{
    struct layout n = layout_of(f, &f->p->op.in_shape[0]);
    define(f, "F_NORM_FORWARD", 1);
    define_layout(f, &n);
    define_operand(f, "SCALE", 1, "1");
    define_operand(f, "SHIFT", is_centred(f->p->op.type) ? 2 : UINT32_MAX, "0");
    rows(f, n.groups, n.blocks * n.run);
    return true;
}

static bool norm_apply(struct family *f)
{
    struct layout n = layout_of(f, &f->p->op.in_shape[0]);
    bool inference = f->p->op.type == MG_OP_BATCH_NORM_INFERENCE;
    define(f, "F_NORM_APPLY", 1);
    define_layout(f, &n);
    define(f, "COUNT", mg_shape_elements(&f->p->op.out_shape[0]));
    define_operand(f, "MEAN", inference ? 3 : 1, "0");
    if (inference)
        define_as(f, "RSTD(c)", "(1 / SQRT(IN4(c) + (num)EPSILON))");
    else
        define_operand(f, "RSTD", 2, "1");
    define_operand(f, "SCALE", inference ? 1 : 3, "1");
    define_operand(f, "SHIFT", inference ? 2 : 4, "0");
    threads(f, mg_shape_elements(&f->p->op.out_shape[0]));
    return true;
}

static bool norm_backward(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[1];
    struct layout n = layout_of(f, x);
    bool centred = is_centred(f->p->op.type), by_place = is_by_place(f->p->op.type);
    define(f, "F_NORM_BACKWARD", 1);
    define_layout(f, &n);
    define_operand(f, "MEAN", centred ? 2 : UINT32_MAX, "0");
    define_operand(f, "RSTD", centred ? 3 : 2, "1");
    define_operand(f, "SCALE", centred ? 4 : 3, "1");
    rows(f, n.groups, n.blocks * n.run);
    if (f->p->op.out_count == 1)
        return true;
    int64_t parameters = by_place ? n.run : x->dim[1], each = parameters ? mg_shape_elements(x) / parameters : 0;
    define(f, "HAS_PARAMETERS", 1);
    define(f, "PARAMETERS", parameters);
    define(f, "PER_PARAMETER", each);
    define(f, "WHOLE_BATCH", group_count(f, x) == 0);
    threads(f, f->by_thread ? parameters : parameters * CUDA_BLOCK);
    return true;
}

static bool stat_update(struct family *f)
{
    int64_t count = mg_shape_elements(&f->p->op.out_shape[0]);
    define(f, "F_STAT_UPDATE", 1);
    define(f, "COUNT", count);
    define(f, "VARIANCE", integer(f, MG_ATTR_VARIANCE));
    define(f, "ELEMENTS", integer(f, MG_ATTR_ELEMENTS));
    define_real(f, "EPSILON", mg_prepared_float(f->p, MG_ATTR_EPSILON));
    define_real(f, "MOMENTUM", mg_prepared_float(f->p, MG_ATTR_MOMENTUM));
    threads(f, count);
    return true;
}

/* ---- windows ---- */

static void define_sizes(struct family *f, const char *letter, const struct mg_shape *shape)
{
    char name[8];
    for (uint32_t d = 0; d < 3; d++) {
        uint32_t from = shape->rank + d < 3 ? 0 : shape->rank + d - 3;
        snprintf(name, sizeof name, "%s%u", letter, d);
        define(f, name, from < 2 ? 1 : shape->dim[from]);
    }
}

/* Attribute of each of up to three spatial dimensions, from the last on. */
static void define_each(struct family *f, const char *letter, enum mg_attr_key key, uint32_t spatial, uint32_t skip,
                        int64_t fallback, int64_t absent)
{
    char name[8];
    for (uint32_t d = 0; d < 3; d++) {
        bool there = d + spatial >= 3;
        snprintf(name, sizeof name, "%s%u", letter, d);
        define(f, name, there ? mg_prepared_ints(f->p, key, d + spatial - 3 + skip, fallback) : absent);
    }
}

static bool define_windows(struct family *f, const struct mg_shape *x, const struct mg_shape *y)
{
    uint32_t spatial = x->rank - 2;
    if (x->rank < 3 || x->rank > 5)
        return false;
    define(f, "F_POOL", 1);
    define_sizes(f, "X", x);
    define_sizes(f, "Y", y);
    define_each(f, "S", MG_ATTR_STRIDES, spatial, 0, 1, 1);
    define_each(f, "D", MG_ATTR_DILATIONS, spatial, 0, 1, 1);
    define_each(f, "P", MG_ATTR_PADS, spatial, 0, 0, 0);
    define_each(f, "Q", MG_ATTR_PADS, spatial, spatial, 0, 0);
    define(f, "INCLUDE_PAD", integer(f, MG_ATTR_COUNT_INCLUDE_PAD));
    return true;
}

static bool pool(struct family *f)
{
    static const struct {
        enum mg_op_type type;
        const char *name;
    } kinds[] = {{MG_OP_MAX_POOL, "F_MAX_POOL"},
                 {MG_OP_MAX_POOL_GRAD, "F_MAX_POOL_GRAD"},
                 {MG_OP_AVG_POOL, "F_AVG_POOL"},
                 {MG_OP_AVG_POOL_GRAD, "F_AVG_POOL_GRAD"},
                 {MG_OP_LP_POOL, "F_LP_POOL"}};
    enum mg_op_type type = f->p->op.type;
    const struct mg_shape *in = &f->p->op.in_shape[0], *out = &f->p->op.out_shape[0];
    bool gradient = type == MG_OP_MAX_POOL_GRAD || type == MG_OP_AVG_POOL_GRAD;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].type == type)
            define(f, kinds[i].name, 1);
    if (!define_windows(f, gradient ? out : in, gradient ? in : out))
        return false;
    define_each(f, "W", MG_ATTR_KERNEL_SHAPE, in->rank - 2, 0, 1, 1);
    define(f, "PLANES", in->dim[0] * in->dim[1]);
    define(f, "POWER", integer(f, MG_ATTR_P));
    threads(f, mg_shape_elements(out));
    return true;
}

static bool global_pool(struct family *f)
{
    enum mg_op_type type = f->p->op.type;
    bool gradient = type == MG_OP_GLOBAL_AVG_POOL_GRAD || type == MG_OP_GLOBAL_MAX_POOL_GRAD;
    const struct mg_shape *x = gradient ? &f->p->op.out_shape[0] : &f->p->op.in_shape[0];
    int64_t planes = x->dim[0] * x->dim[1];
    define(f, gradient ? "F_GLOBAL_POOL_GRAD" : "F_GLOBAL_POOL", 1);
    define(f, "ROW_COUNT", planes);
    define(f, "EXTENT", spatial_size(x));
    if (type == MG_OP_GLOBAL_MAX_POOL_GRAD || !gradient)
        define(f, "TAKES_LARGEST", type != MG_OP_GLOBAL_AVG_POOL);
    if (gradient)
        threads(f, planes);
    else
        rows(f, planes, spatial_size(x));
    return true;
}

static bool adaptive(struct family *f)
{
    bool gradient = f->p->op.type == MG_OP_ADAPTIVE_AVG_POOL_GRAD;
    const struct mg_shape *in = &f->p->op.in_shape[0], *out = &f->p->op.out_shape[0];
    if (in->rank > 5)
        return false;
    define(f, "F_ADAPTIVE", 1);
    define_sizes(f, "X", gradient ? out : in);
    define_sizes(f, "Y", gradient ? in : out);
    define(f, "PLANES", in->dim[0] * in->dim[1]);
    if (gradient)
        define(f, "SPREADS", 1);
    threads(f, mg_shape_elements(out));
    return true;
}

/* ---- resampling: the common kinds ---- */

static bool is_common_resize(const struct mg_prepared *p)
{
    static const enum mg_attr_key rare[] = {MG_ATTR_ANTIALIAS, MG_ATTR_EXCLUDE_OUTSIDE};
    static const enum mg_attr_key scales[] = {MG_ATTR_SCALES_D, MG_ATTR_SCALES_H, MG_ATTR_SCALES_W};
    bool common = mg_prepared_text_is(p, MG_ATTR_MODE, "linear") || mg_prepared_text_is(p, MG_ATTR_MODE, "nearest");
    common = common && (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel") ||
                        mg_prepared_text_is(p, MG_ATTR_COORDINATES, "align_corners") ||
                        mg_prepared_text_is(p, MG_ATTR_COORDINATES, "asymmetric"));
    for (int i = 0; i < 2; i++)
        common = common && !mg_prepared_int(p, rare[i]);
    for (int i = 0; i < 3; i++)
        common = common && mg_prepared_float(p, scales[i]) <= 0;
    return common && p->op.in_shape[0].rank <= 5;
}

static bool resize(struct family *f)
{
    static const char *const roundings[] = {"floor", "ceil", "round_prefer_floor"};
    const struct mg_prepared *p = f->p;
    bool gradient = p->op.type == MG_OP_RESIZE_GRAD;
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    int64_t rounding = 3;
    if (!is_common_resize(p) || (gradient && p->op.out_dtype[0] != MG_DTYPE_F32))
        return false;
    for (int i = 0; i < 3; i++)
        rounding = mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, roundings[i]) ? i : rounding;
    define(f, "F_RESIZE", 1);
    define_sizes(f, "X", gradient ? out : in);
    define_sizes(f, "Y", gradient ? in : out);
    define(f, "PLANES", in->dim[0] * in->dim[1]);
    define(f, "HALF_PIXEL", mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel"));
    define(f, "ALIGN_CORNERS", mg_prepared_text_is(p, MG_ATTR_COORDINATES, "align_corners"));
    define(f, "IS_LINEAR", mg_prepared_text_is(p, MG_ATTR_MODE, "linear"));
    define(f, "NEAREST", rounding);
    if (gradient)
        define(f, "SPREADS", 1);
    threads(f, mg_shape_elements(out));
    if (gradient)
        threads(f, mg_shape_elements(in));
    return true;
}

/* ---- by index, by place ---- */

static bool gather(struct family *f)
{
    bool spreads = f->p->op.type == MG_OP_SCATTER_ADD;
    const struct mg_shape *data = spreads ? &f->p->op.out_shape[0] : &f->p->op.in_shape[0];
    int64_t axis = integer(f, MG_ATTR_AXIS), before = 1, after = 1, picked = mg_shape_elements(&f->p->op.in_shape[1]);
    if (spreads && f->p->op.out_dtype[0] != MG_DTYPE_F32)
        return false;
    for (uint32_t d = 0; d < data->rank; d++) {
        before *= d < axis ? data->dim[d] : 1;
        after *= d > axis ? data->dim[d] : 1;
    }
    define(f, "F_GATHER", 1);
    define(f, "BEFORE", before);
    define(f, "EXTENT", data->dim[axis]);
    define(f, "AFTER", after);
    define(f, "PICKED", picked);
    if (spreads)
        define(f, "SPREADS", 1);
    if (spreads)
        threads(f, mg_shape_elements(data));
    threads(f, before * picked * after);
    return true;
}

static bool gather_elements(struct family *f)
{
    const struct mg_shape *data = &f->p->op.in_shape[0], *index = &f->p->op.in_shape[1];
    int64_t axis = integer(f, MG_ATTR_AXIS), strides[MG_MAX_RANK];
    mg_shape_strides(data, strides);
    define(f, "F_GATHER_ELEMENTS", 1);
    define(f, "COUNT", mg_shape_elements(index));
    define(f, "EXTENT", data->dim[axis]);
    define(f, "INNER", strides[axis]);
    strides[axis] = 0;
    define_walk(f, "there_of", index, strides, (1u << index->rank) - 1);
    threads(f, mg_shape_elements(index));
    return true;
}

static bool one_hot(struct family *f)
{
    const struct mg_shape *out = &f->p->op.out_shape[0];
    int64_t axis = integer(f, MG_ATTR_AXIS), inner = 1;
    for (int64_t d = axis + 1; d < out->rank; d++)
        inner *= out->dim[d];
    define(f, "F_ONE_HOT", 1);
    define(f, "COUNT", mg_shape_elements(out));
    define(f, "EXTENT", out->dim[axis]);
    define(f, "INNER", inner);
    threads(f, mg_shape_elements(out));
    return true;
}

static bool everywhere(struct family *f, const char *name)
{
    define(f, name, 1);
    define(f, "COUNT", mg_shape_elements(&f->p->op.out_shape[0]));
    threads(f, mg_shape_elements(&f->p->op.out_shape[0]));
    return true;
}

static bool flat(struct family *f)
{
    return everywhere(f, "F_FLAT");
}

static bool triangle(struct family *f)
{
    const struct mg_shape *out = &f->p->op.out_shape[0];
    define(f, "ROWS", out->dim[out->rank - 2]);
    define(f, "COLUMNS", out->dim[out->rank - 1]);
    define(f, "DIAGONAL", integer(f, MG_ATTR_DIAGONAL));
    define(f, "UPPER", integer(f, MG_ATTR_UPPER));
    if (f->p->op.type == MG_OP_EYE)
        define(f, "IS_EYE", 1);
    return everywhere(f, "F_TRIANGLE");
}

static bool iota(struct family *f)
{
    define_real(f, "START", mg_prepared_float(f->p, MG_ATTR_START));
    define_real(f, "DELTA", mg_prepared_float(f->p, MG_ATTR_DELTA));
    return everywhere(f, "F_IOTA");
}

/* source_of() dimension by dimension: `index` is the result's, `at` becomes the operand's. */
static void open_source(struct family *f)
{
    mg_cuda_print(f->t, "__device__ long long source_of(long long i) { long long at = 0, index;");
}

static bool roll(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t strides[MG_MAX_RANK], shift[MG_MAX_RANK] = {0}, axis;
    mg_shape_strides(x, strides);
    for (uint32_t a = 0; (axis = mg_prepared_ints(f->p, MG_ATTR_AXES, a, -1)) >= 0; a++)
        shift[axis] = mg_prepared_ints(f->p, MG_ATTR_SHIFTS, a, 0) % x->dim[axis];
    open_source(f);
    for (uint32_t d = x->rank; d-- > 0;)
        mg_cuda_print(f->t,
                      " index = (i %% %" PRId64 "LL + %" PRId64 "LL) %% %" PRId64 "LL; i /= %" PRId64
                      "LL; at += index * %" PRId64 "LL;",
                      x->dim[d], x->dim[d] - shift[d], x->dim[d], x->dim[d], strides[d]);
    mg_cuda_print(f->t, " return at; }\n");
    return everywhere(f, "F_SOURCE");
}

/* Modes reflect and edge; constant ones are moves. */
static bool pad(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0], *y = &f->p->op.out_shape[0];
    bool edge = mg_prepared_text_is(f->p, MG_ATTR_MODE, "edge");
    int64_t strides[MG_MAX_RANK];
    if (!edge && !mg_prepared_text_is(f->p, MG_ATTR_MODE, "reflect"))
        return false;
    mg_shape_strides(x, strides);
    open_source(f);
    for (uint32_t d = x->rank; d-- > 0;) {
        int64_t last = x->dim[d] - 1;
        mg_cuda_print(f->t, " index = i %% %" PRId64 "LL - %" PRId64 "LL; i /= %" PRId64 "LL;", y->dim[d],
                      mg_prepared_ints(f->p, MG_ATTR_PADS, d, 0), y->dim[d]);
        if (edge)
            mg_cuda_print(f->t, " index = index < 0 ? 0 : index > %" PRId64 "LL ? %" PRId64 "LL : index;", last, last);
        else
            mg_cuda_print(f->t, " index = index < 0 ? -index : index > %" PRId64 "LL ? %" PRId64 "LL - index : index;",
                          last, 2 * last);
        mg_cuda_print(f->t, " at += index * %" PRId64 "LL;", strides[d]);
    }
    mg_cuda_print(f->t, " return at; }\n");
    return everywhere(f, "F_SOURCE");
}

/* The row-major number of a broadcast operand's element. */
static void define_broadcast(struct family *f, const char *name, uint32_t operand, const struct mg_shape *out)
{
    const struct mg_shape *in = &f->p->op.in_shape[operand];
    int64_t dense[MG_MAX_RANK], strides[MG_MAX_RANK];
    uint32_t skip = out->rank - in->rank;
    mg_shape_strides(in, dense);
    for (uint32_t d = 0; d < out->rank; d++)
        strides[d] = d < skip || in->dim[d - skip] == 1 ? 0 : dense[d - skip];
    define_walk(f, name, out, strides, (1u << out->rank) - 1);
}

static bool bits(struct family *f)
{
    const struct mg_shape *out = &f->p->op.out_shape[0];
    bool left = mg_prepared_text_is(f->p, MG_ATTR_DIRECTION, "LEFT"), unary = f->p->op.in_count == 1;
    const char *text = "x ^ y";
    if (f->p->op.type == MG_OP_BITWISE_AND)
        text = "x & y";
    else if (f->p->op.type == MG_OP_BITWISE_OR)
        text = "x | y";
    else if (f->p->op.type == MG_OP_BITWISE_NOT)
        text = "-1 - x";
    else if (f->p->op.type == MG_OP_BIT_SHIFT)
        text = left ? "y < 0 || y > 63 ? 0LL : (long long)((unsigned long long)x << y)"
                    : "y < 0 || y > 63 ? 0LL : (long long)((unsigned long long)x >> y)";
    define_as(f, "BITS", text);
    define(f, "IS_NOT_BOOL", unary && f->p->op.in_dtype[0] == MG_DTYPE_BOOL);
    define_broadcast(f, "left_of", 0, out);
    define_as(f, "LEFT(o)", "IX0(left_of(o))");
    if (!unary)
        define_broadcast(f, "right_of", 1, out);
    define_as(f, "RIGHT(o)", unary ? "0" : "IX1(right_of(o))");
    return everywhere(f, "F_BITS");
}

/* ---- random numbers ---- */

bool mg_cuda_is_random(enum mg_op_type type)
{
    return type == MG_OP_DROPOUT || type == MG_OP_RANDOM_NORMAL || type == MG_OP_RANDOM_UNIFORM ||
           type == MG_OP_BERNOULLI;
}

/* The place in the whole result: sizes and corner come with each launch. */
static void define_place(struct family *f)
{
    const struct mg_shape *shape = &f->p->op.out_shape[0];
    mg_cuda_print(f->t, "__device__ long long place_of(");
    for (uint32_t d = 0; d < shape->rank; d++)
        mg_cuda_print(f->t, "long long lo%u, long long whole%u, ", d, d);
    mg_cuda_print(f->t, "long long i) { long long at = 0, step = 1;");
    for (uint32_t d = shape->rank; d-- > 0;)
        mg_cuda_print(f->t, " at += (i %% %" PRId64 "LL + lo%u) * step; i /= %" PRId64 "LL; step *= whole%u;",
                      shape->dim[d] ? shape->dim[d] : 1, d, shape->dim[d] ? shape->dim[d] : 1, d);
    mg_cuda_print(f->t, " return at; }\n#define ORIGIN_ARGUMENTS ");
    for (uint32_t d = 0; d < shape->rank; d++)
        mg_cuda_print(f->t, "%slo%u, whole%u", d ? ", " : "", d, d);
    mg_cuda_print(f->t, "\n");
}

static bool random_numbers(struct family *f)
{
    enum mg_op_type type = f->p->op.type;
    if (f->p->op.out_shape[0].rank == 0)
        return false;
    define(f,
           type == MG_OP_DROPOUT          ? "IS_DROPOUT"
           : type == MG_OP_RANDOM_NORMAL  ? "IS_NORMAL"
           : type == MG_OP_RANDOM_UNIFORM ? "IS_UNIFORM"
                                          : "IS_BERNOULLI",
           1);
    define(f, "OWN_SEED", integer(f, MG_ATTR_SEED));
    define_real(f, "RATIO", mg_prepared_float(f->p, MG_ATTR_RATIO));
    define_real(f, "LOW", mg_prepared_float(f->p, MG_ATTR_LOW));
    define_real(f, "HIGH", mg_prepared_float(f->p, MG_ATTR_HIGH));
    define_real(f, "MEAN_VALUE", mg_prepared_float(f->p, MG_ATTR_MEAN));
    define_real(f, "DEVIATION", mg_prepared_float(f->p, MG_ATTR_SCALE));
    define_place(f);
    return everywhere(f, "F_RANDOM");
}

/* ---- products, convolutions: stand-ins for layouts that libraries do not take ---- */

static void only_stand_in(struct family *f)
{
    f->p->unmeasurable = "no library takes these operands: its time would say nothing";
}

static bool product(struct family *f)
{
    const struct mg_prepared *p = f->p;
    const struct mg_shape *a = &p->op.in_shape[0], *c = &p->op.out_shape[0];
    bool trans_a = integer(f, MG_ATTR_TRANS_A);
    struct mg_shape batch = *c, whole;
    const char *const names[] = {"batch_a", "batch_b"};
    batch.rank = c->rank - 2;
    for (uint32_t i = 0; i < 2; i++) {
        whole = p->op.in_shape[i];
        int64_t step = 1, strides[MG_MAX_RANK] = {0};
        uint32_t skip = c->rank - whole.rank;
        for (uint32_t d = batch.rank; d-- > skip;) {
            strides[d] = whole.dim[d - skip] == 1 ? 0 : step;
            step *= whole.dim[d - skip];
        }
        define_walk(f, names[i], &batch, strides, (1u << batch.rank) - 1);
    }
    define(f, "M", c->dim[c->rank - 2]);
    define(f, "N", c->dim[c->rank - 1]);
    define(f, "K", a->dim[trans_a ? a->rank - 2 : a->rank - 1]);
    define(f, "TRANS_A", trans_a);
    define(f, "TRANS_B", integer(f, MG_ATTR_TRANS_B));
    define_real(f, "ALPHA", mg_prepared_float(p, MG_ATTR_ALPHA));
    define_real(f, "BETA", p->op.type == MG_OP_GEMM ? mg_prepared_float(p, MG_ATTR_BETA) : 1);
    if (p->op.in_count > 2)
        define_broadcast(f, "addend_of", 2, c);
    define_as(f, "ADDEND(o)", p->op.in_count > 2 ? "(num)BETA * IN2(addend_of(o))" : "0");
    only_stand_in(f);
    return everywhere(f, "F_PRODUCT");
}

static void define_addends(struct family *f)
{
    mg_cuda_print(f->t, "#define ADDENDS(o, c) (0");
    for (uint32_t i = 2; i < f->p->op.in_count; i++)
        mg_cuda_print(f->t, " + IN%u(%s)", i, f->p->op.in_shape[i].rank == 1 ? "c" : "o");
    mg_cuda_print(f->t, ")\n");
}

static bool conv(struct family *f)
{
    const struct mg_op_desc *op = &f->p->op;
    bool by_weight = op->type == MG_OP_CONV_GRAD_WEIGHT, forward = op->type == MG_OP_CONV;
    const struct mg_shape *x = forward ? &op->in_shape[0] : by_weight ? &op->in_shape[1] : &op->out_shape[0];
    const struct mg_shape *y = forward ? &op->out_shape[0] : &op->in_shape[0];
    const struct mg_shape *w = by_weight ? &op->out_shape[0] : &op->in_shape[1];
    int64_t group = integer(f, MG_ATTR_GROUP);
    define(f, "F_CONV", 1);
    define(f, forward ? "F_CONV_Y" : by_weight ? "F_CONV_W" : "F_CONV_X", 1);
    if (!define_windows(f, x, y))
        return false;
    define_sizes(f, "W", w);
    define(f, "SAMPLES", x->dim[0]);
    define(f, "GROUP", group);
    define(f, "PER_X", x->dim[1] / group);
    define(f, "PER_Y", y->dim[1] / group);
    define(f, "COUNT", mg_shape_elements(&op->out_shape[0]));
    define_addends(f);
    threads(f, mg_shape_elements(&op->out_shape[0]));
    only_stand_in(f);
    return true;
}

/* ---- together ---- */

static write_fn *family_of(enum mg_op_type type)
{
    static const struct {
        const char *kernel;
        write_fn *write;
    } families[] = {
#define MG_CUDA_KERNEL(kernel, function) {#kernel, function},
#include "measure/cuda_kernels.def"
#undef MG_CUDA_KERNEL
    };
    static const char *const kernels[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, ...) [MG_OP_##id] = #kernel,
#include "graph/ops.def"
#undef MG_OP
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (kernels[type] && strcmp(families[i].kernel, kernels[type]) == 0)
            return families[i].write;
    return NULL;
}

/* at_NAME(i): where element i of a strided box lies. */
static void define_layout_of(struct family *f, char side, uint32_t i, const struct mg_shape *shape,
                             const struct mg_strides *strides)
{
    int64_t dense[MG_MAX_RANK];
    char name[16];
    mg_shape_strides(shape, dense);
    snprintf(name, sizeof name, "at_%c%u", side, i);
    bool is_dense = true;
    for (uint32_t d = 0; d < shape->rank; d++)
        is_dense = is_dense && (shape->dim[d] == 1 || strides->at[d] == dense[d]);
    if (is_dense)
        mg_cuda_print(f->t, "__device__ long long %s(long long i) { return i; }\n", name);
    else
        define_walk(f, name, shape, strides->at, (1u << shape->rank) - 1);
}

static void define_parameters(struct family *f)
{
    const struct mg_op_desc *op = &f->p->op;
    mg_cuda_print(f->t, "#define PARAMS ");
    for (uint32_t i = 0; i < op->out_count; i++)
        mg_cuda_print(f->t, "%s%s *o%u", i ? ", " : "", mg_cuda_type(op->out_dtype[i]), i);
    for (uint32_t i = 0; i < op->in_count; i++)
        mg_cuda_print(f->t, ", const %s *a%u", mg_cuda_type(op->in_dtype[i]), i);
    if (mg_cuda_is_random(op->type)) {
        mg_cuda_print(f->t, ", unsigned long long seed, unsigned long long op");
        for (uint32_t d = 0; d < op->out_shape[0].rank; d++)
            mg_cuda_print(f->t, ", long long lo%u, long long whole%u", d, d);
    }
    mg_cuda_print(f->t, "\n#define ARGUMENTS ");
    for (uint32_t i = 0; i < op->out_count; i++)
        mg_cuda_print(f->t, "%so%u", i ? ", " : "", i);
    for (uint32_t i = 0; i < op->in_count; i++)
        mg_cuda_print(f->t, ", a%u", i);
    mg_cuda_print(f->t, "\n");
}

static void define_access(struct family *f)
{
    const struct mg_op_desc *op = &f->p->op;
    for (uint32_t i = 0; i < op->out_count; i++) {
        define_layout_of(f, 'o', i, &op->out_shape[i], &f->p->out[i]);
        mg_cuda_print(f->t, "#define OUT%u(i, x) put(o%u + at_o%u(i), (num)(x))\n", i, i, i);
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        define_layout_of(f, 'a', i, &op->in_shape[i], &f->p->in[i]);
        mg_cuda_print(f->t, "#define IN%u(i) ((num)get(a%u[at_a%u(i)]))\n", i, i, i);
        mg_cuda_print(f->t, "#define IX%u(i) ((long long)get(a%u[at_a%u(i)]))\n", i, i, i);
    }
}

bool mg_cuda_family(struct cuda_text *t, struct mg_prepared *p, int64_t *work, uint32_t *count)
{
    struct family f = {.t = t, .p = p, .threads = work};
    write_fn *write = family_of(p->op.type);
    bool wide = false;
    if (!write)
        return false;
    for (uint32_t i = 0; i < p->op.out_count; i++)
        wide = wide || mg_cuda_is_wide(p->op.out_dtype[i]);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        wide = wide || p->op.in_dtype[i] == MG_DTYPE_F64 || (i == 0 && mg_cuda_is_wide(p->op.in_dtype[i]));
    mg_cuda_print_functions(t, wide);
    mg_cuda_print(t, "#define BLOCK %d\n#define INF ((num)__int_as_float(0x7f800000))\n", CUDA_BLOCK);
    define_parameters(&f);
    define_access(&f);
    if (!write(&f))
        return false;
    if (f.by_thread)
        define(&f, "BY_THREAD", 1);
    mg_cuda_print(t, "%s", mg_cuda_kernels);
    *count = f.count;
    return true;
}
