/* Families of kernels: rows along an axis, reductions, losses. */
#include "measure/cuda_family.h"

/* ---- rows along an axis ---- */

void mg_cuda_define_rows(struct family *f, const struct mg_shape *shape, int64_t axis)
{
    int64_t inner = 1;
    for (int64_t d = axis + 1; d < shape->rank; d++)
        inner *= shape->dim[d];
    define(f, "EXTENT", shape->dim[axis]);
    define(f, "INNER", inner);
    define(f, "ROW_COUNT", shape->dim[axis] ? mg_shape_elements(shape) / shape->dim[axis] : 0);
}

int64_t mg_cuda_row_count(const struct mg_shape *shape, int64_t axis)
{
    return shape->dim[axis] ? mg_shape_elements(shape) / shape->dim[axis] : 0;
}

static bool along_axis(struct family *f, const char *name)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t axis = integer(f, MG_ATTR_AXIS);
    define(f, name, 1);
    mg_cuda_define_rows(f, x, axis);
    rows(f, mg_cuda_row_count(x, axis), x->dim[axis]);
    return true;
}

bool mg_cuda_write_softmax(struct family *f)
{
    define(f, "IS_LOG", f->p->op.type == MG_OP_LOG_SOFTMAX);
    return along_axis(f, "F_SOFTMAX");
}

bool mg_cuda_write_softmax_grad(struct family *f)
{
    define(f, "IS_LOG", f->p->op.type == MG_OP_LOG_SOFTMAX_GRAD);
    return along_axis(f, "F_SOFTMAX_GRAD");
}

bool mg_cuda_write_lp_norm(struct family *f)
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
    mg_cuda_define_rows(f, x, axis);
    threads(f, mg_cuda_row_count(x, axis));
    return true;
}

bool mg_cuda_write_cumsum(struct family *f)
{
    define(f, "REVERSE", integer(f, MG_ATTR_REVERSE));
    define(f, "EXCLUSIVE", integer(f, MG_ATTR_EXCLUSIVE));
    return along_axis_alone(f, "F_CUMSUM");
}

bool mg_cuda_write_arg_max(struct family *f)
{
    define(f, "LAST", integer(f, MG_ATTR_SELECT_LAST_INDEX));
    define(f, "LEAST", f->p->op.type == MG_OP_ARG_MIN);
    if (f->p->op.type != MG_OP_ARG_MIN && f->p->op.type != MG_OP_ARG_MAX)
        define(f, "HARD", 1);
    return along_axis_alone(f, "F_ARG_MAX");
}

bool mg_cuda_write_top_k(struct family *f)
{
    define(f, "TAKEN", f->p->op.out_shape[0].dim[integer(f, MG_ATTR_AXIS)]);
    define(f, "LEAST", !integer(f, MG_ATTR_LARGEST));
    return along_axis_alone(f, "F_TOP_K");
}

/* ---- reductions ---- */

bool mg_cuda_is_reduced(const struct mg_prepared *p, uint32_t dim)
{
    for (uint32_t i = 0; i < MG_MAX_RANK; i++)
        if (mg_prepared_ints(p, MG_ATTR_AXES, i, -1) == dim)
            return true;
    return false;
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

bool mg_cuda_write_reduce(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    uint32_t reduced = 0, all = (1u << x->rank) - 1, last = 0;
    int64_t extent = 1, count = mg_shape_elements(&f->p->op.out_shape[0]);
    for (uint32_t d = 0; d < x->rank; d++) {
        if (!mg_cuda_is_reduced(f->p, d))
            continue;
        reduced |= 1u << d;
        extent *= x->dim[d];
        last = d;
    }
    define(f, "F_REDUCE", 1);
    define(f, "EXTENT", extent);
    define(f, "ROW_COUNT", count);
    define_fold(f);
    mg_cuda_define_walk(f, "base_of", x, f->p->in[0].at, all & ~reduced);
    mg_cuda_define_walk(f, "step_of", x, f->p->in[0].at, reduced);
    /* Where neighbours in memory belong to different results, a thread for each reads whole lines. */
    bool columns = reduced && f->p->in[0].at[last] != 1 && count >= 4096;
    rows(f, count, columns ? 1 : extent);
    return true;
}

/* ---- losses ---- */

static void define_loss(struct family *f, const struct mg_shape *logits)
{
    enum mg_op_type type = f->p->op.type;
    mg_cuda_define_rows(f, logits, 1);
    define_real(f, "DIVISOR", mg_prepared_float(f->p, MG_ATTR_DIVISOR));
    define(f, "IGNORED", integer(f, MG_ATTR_IGNORE_INDEX));
    if (type == MG_OP_NLL_LOSS || type == MG_OP_NLL_LOSS_GRAD)
        define(f, "GIVEN_LOG", 1);
}

bool mg_cuda_write_loss(struct family *f)
{
    const struct mg_shape *logits = &f->p->op.in_shape[0];
    if (f->p->op.out_dtype[0] != MG_DTYPE_F32)
        return false;
    define(f, "F_LOSS", 1);
    define_loss(f, logits);
    threads(f, 1);
    rows(f, mg_cuda_row_count(logits, 1), logits->dim[1]);
    threads(f, 1);
    return true;
}

bool mg_cuda_write_loss_grad(struct family *f)
{
    const struct mg_shape *logits = &f->p->op.in_shape[1];
    define(f, "F_LOSS_GRAD", 1);
    define_loss(f, logits);
    rows(f, mg_cuda_row_count(logits, 1),
         mg_prepared_float(f->p, MG_ATTR_DIVISOR) == 0 ? CUDA_SHORT_ROW : logits->dim[1]);
    return true;
}
