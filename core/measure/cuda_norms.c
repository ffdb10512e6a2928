/* Families of kernels: normalisation. */
#include "measure/cuda_family.h"

/* ---- normalisation ---- */

int64_t mg_cuda_spatial_size(const struct mg_shape *shape)
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
    int64_t groups = group_count(f, x), spatial = mg_cuda_spatial_size(x);
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

bool mg_cuda_write_norm_forward(struct family *f)
{
    struct layout n = layout_of(f, &f->p->op.in_shape[0]);
    define(f, "F_NORM_FORWARD", 1);
    define_layout(f, &n);
    define_operand(f, "SCALE", 1, "1");
    define_operand(f, "SHIFT", is_centred(f->p->op.type) ? 2 : UINT32_MAX, "0");
    rows(f, n.groups, n.blocks * n.run);
    return true;
}

bool mg_cuda_write_norm_apply(struct family *f)
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

bool mg_cuda_write_norm_backward(struct family *f)
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

bool mg_cuda_write_stat_update(struct family *f)
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

/* ---- over neighbouring channels, over listed axes ---- */

bool mg_cuda_write_lrn(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    bool gradient = f->p->op.type == MG_OP_LRN_GRAD;
    define(f, "CHANNELS", x->dim[1]);
    define(f, "INNER", mg_cuda_spatial_size(x));
    define(f, "WINDOW", integer(f, MG_ATTR_SIZE));
    define_real(f, "ALPHA", mg_prepared_float(f->p, MG_ATTR_ALPHA));
    define_real(f, "BETA", mg_prepared_float(f->p, MG_ATTR_BETA));
    define_real(f, "BIAS", mg_prepared_float(f->p, MG_ATTR_BIAS));
    define_as(f, "LRN_X", gradient ? "IN1" : "IN0");
    if (gradient)
        define(f, "IS_GRADIENT", 1);
    return mg_cuda_everywhere(f, "F_LRN");
}

bool mg_cuda_write_mean_variance(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    uint32_t listed = 0, all = (1u << x->rank) - 1;
    int64_t strides[MG_MAX_RANK], extent = 1;
    mg_shape_strides(x, strides);
    for (uint32_t d = 0; d < x->rank; d++)
        if (mg_cuda_is_reduced(f->p, d)) {
            listed |= 1u << d;
            extent *= x->dim[d];
        }
    define(f, "F_MEAN_VARIANCE", 1);
    define(f, "EXTENT", extent);
    define(f, "ROW_COUNT", extent ? mg_shape_elements(x) / extent : 0);
    define_real(f, "EPSILON", mg_prepared_float(f->p, MG_ATTR_EPSILON));
    mg_cuda_define_walk(f, "base_of", x, strides, all & ~listed);
    mg_cuda_define_walk(f, "step_of", x, strides, listed);
    rows(f, extent ? mg_shape_elements(x) / extent : 0, extent);
    return true;
}

/* One thread for each matrix, which it keeps to itself. */
bool mg_cuda_write_det(struct family *f)
{
    enum { MOST = 16 };
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t size = x->dim[x->rank - 1];
    define(f, "SIZE", size);
    return size > 0 && size <= MOST && mg_cuda_everywhere(f, "F_DET");
}
