/* Convolutions and their gradients by cuDNN: two and three spatial dimensions (one is seen as two), padded alike on
 * both sides, kernels dense. Others have kernels of our own that stand in. */
#include <stdlib.h>
#include <string.h>

#include "measure/cuda_priv.h"

enum { MOST_SPATIAL = 3, MOST_RANK = MOST_SPATIAL + 2, WORKSPACE = 256 << 20, MOST_CHOICES = 8 };

bool mg_cuda_is_conv(enum mg_op_type type)
{
    return type == MG_OP_CONV || type == MG_OP_CONV_TRANSPOSE || type == MG_OP_CONV_GRAD_INPUT ||
           type == MG_OP_CONV_GRAD_WEIGHT;
}

struct parts { /* which operand or result is what: i, or ~i for a result */
    int x, y, w;
};

static struct parts parts_of(enum mg_op_type type)
{
    if (type == MG_OP_CONV)
        return (struct parts){.x = 0, .w = 1, .y = ~0};
    if (type == MG_OP_CONV_GRAD_WEIGHT)
        return (struct parts){.y = 0, .x = 1, .w = ~0};
    return (struct parts){.y = 0, .w = 1, .x = ~0};
}

static const struct mg_shape *shape_of(const struct mg_prepared *p, int part)
{
    return part >= 0 ? &p->op.in_shape[part] : &p->op.out_shape[~part];
}

static const int64_t *strides_of(const struct mg_prepared *p, int part)
{
    return part >= 0 ? p->in[part].at : p->out[~part].at;
}

static int type_of(enum mg_dtype dtype)
{
    return dtype == MG_DTYPE_F32    ? CUDNN_FLOAT
           : dtype == MG_DTYPE_BF16 ? CUDNN_BFLOAT16
           : dtype == MG_DTYPE_F16  ? CUDNN_HALF
                                    : -1;
}

/* Sizes and strides with at least two spatial dimensions; false: too large for an int. */
static bool widen(const struct mg_shape *shape, const int64_t *strides, int *rank, int dims[MOST_RANK],
                  int steps[MOST_RANK])
{
    uint32_t gap = shape->rank == 3, at = 0;
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (gap && d == 2) {
            if (shape->dim[2] < 1 || shape->dim[2] > INT32_MAX || strides[2] > INT32_MAX / shape->dim[2])
                return false;
            dims[at] = 1;
            steps[at++] = (int)(shape->dim[2] * strides[2]);
        }
        if (shape->dim[d] > INT32_MAX || strides[d] > INT32_MAX)
            return false;
        dims[at] = (int)shape->dim[d];
        steps[at++] = (int)strides[d];
    }
    *rank = (int)at;
    return true;
}

static bool is_dense(const struct mg_shape *shape, const int64_t *strides)
{
    int64_t dense[MG_MAX_RANK];
    mg_shape_strides(shape, dense);
    for (uint32_t d = 0; d < shape->rank; d++)
        if (shape->dim[d] > 1 && strides[d] != dense[d])
            return false;
    return true;
}

static bool fits(const struct mg_prepared *p, const struct parts *parts)
{
    const struct mg_shape *x = shape_of(p, parts->x);
    uint32_t spatial = x->rank - 2;
    if (x->rank < 3 || spatial > MOST_SPATIAL || type_of(p->op.out_dtype[0]) < 0)
        return false;
    for (uint32_t i = 0; i < p->op.in_count; i++)
        if (p->op.in_dtype[i] != p->op.out_dtype[0] || (i >= 2 && !is_dense(&p->op.in_shape[i], p->in[i].at)))
            return false;
    for (uint32_t d = 0; d < spatial; d++)
        if (mg_prepared_ints(p, MG_ATTR_PADS, d, 0) != mg_prepared_ints(p, MG_ATTR_PADS, d + spatial, 0))
            return false;
    return is_dense(shape_of(p, parts->w), strides_of(p, parts->w));
}

static int make_tensor(const struct cuda_dnn *dnn, const struct mg_prepared *p, int part, void **tensor)
{
    int rank, dims[MOST_RANK], steps[MOST_RANK];
    if (!widen(shape_of(p, part), strides_of(p, part), &rank, dims, steps))
        return -1;
    int status = dnn->tensor_create(tensor);
    return status ? status : dnn->tensor_set(*tensor, type_of(p->op.out_dtype[0]), rank, dims, steps);
}

/* What is added: a number for each channel, or all of the result's shape. */
static int make_addend(const struct cuda_dnn *dnn, const struct mg_prepared *p, uint32_t i, void **tensor)
{
    if (p->op.in_shape[i].rank > 1)
        return make_tensor(dnn, p, (int)i, tensor);
    if (p->op.in_shape[i].dim[0] > INT32_MAX)
        return -1;
    int rank = p->op.out_shape[0].rank < 4 ? 4 : (int)p->op.out_shape[0].rank, dims[MOST_RANK], steps[MOST_RANK];
    for (int d = 0; d < MOST_RANK; d++) {
        dims[d] = d == 1 ? (int)p->op.in_shape[i].dim[0] : 1;
        steps[d] = d == 0 ? (int)p->op.in_shape[i].dim[0] : 1;
    }
    int status = dnn->tensor_create(tensor);
    return status ? status : dnn->tensor_set(*tensor, type_of(p->op.out_dtype[0]), rank, dims, steps);
}

static int make_filter(const struct cuda_dnn *dnn, const struct mg_prepared *p, int part, void **filter)
{
    int rank, dims[MOST_RANK], steps[MOST_RANK];
    if (!widen(shape_of(p, part), strides_of(p, part), &rank, dims, steps))
        return -1;
    int status = dnn->filter_create(filter);
    return status ? status : dnn->filter_set(*filter, type_of(p->op.out_dtype[0]), CUDNN_TENSOR_NCHW, rank, dims);
}

static int make_conv(const struct cuda_dnn *dnn, const struct mg_prepared *p, uint32_t spatial, void **conv)
{
    int pads[MOST_SPATIAL] = {0}, strides[MOST_SPATIAL] = {1, 1, 1}, dilations[MOST_SPATIAL] = {1, 1, 1};
    uint32_t gap = spatial == 1;
    bool tf32 = p->op.math == MG_MATH_TF32 || p->op.out_dtype[0] != MG_DTYPE_F32;
    for (uint32_t d = 0; d < spatial; d++) {
        pads[d + gap] = (int)mg_prepared_ints(p, MG_ATTR_PADS, d, 0);
        strides[d + gap] = (int)mg_prepared_ints(p, MG_ATTR_STRIDES, d, 1);
        dilations[d + gap] = (int)mg_prepared_ints(p, MG_ATTR_DILATIONS, d, 1);
    }
    int status = dnn->conv_create(conv);
    if (status == 0)
        status =
            dnn->conv_set(*conv, (int)(spatial + gap), pads, strides, dilations, CUDNN_CROSS_CORRELATION, CUDNN_FLOAT);
    if (status == 0)
        status = dnn->conv_groups(*conv, (int)mg_prepared_int(p, MG_ATTR_GROUP));
    return status ? status : dnn->conv_math(*conv, tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
}

/* The first choice whose workspace is not too large. */
static int choose(struct cuda *cuda, struct mg_prepared *p, struct cuda_op *op)
{
    const struct cuda_dnn *dnn = &cuda->calls.dnn;
    struct cudnn_choice choices[MOST_CHOICES];
    void *x = op->tensor[0], *y = op->tensor[1];
    int found = 0, status;
    if (p->op.type == MG_OP_CONV)
        status = dnn->forward_find(cuda->dnn, x, op->filter, op->conv, y, MOST_CHOICES, &found, choices);
    else if (p->op.type == MG_OP_CONV_GRAD_WEIGHT)
        status = dnn->weight_find(cuda->dnn, x, y, op->conv, op->filter, MOST_CHOICES, &found, choices);
    else
        status = dnn->input_find(cuda->dnn, op->filter, y, op->conv, x, MOST_CHOICES, &found, choices);
    for (int i = 0; i < found && status == 0; i++)
        if (choices[i].status == 0 && choices[i].memory <= WORKSPACE) {
            op->algorithm = choices[i].algorithm;
            p->workspace = choices[i].memory;
            bool tf32 = p->op.math == MG_MATH_TF32 || p->op.out_dtype[0] != MG_DTYPE_F32;
            return tf32 ? dnn->conv_math(op->conv, choices[i].math) : 0;
        }
    return -1;
}

enum mg_code mg_cuda_prepare_conv(struct mg_prepared *p, struct cuda_op *op, struct mg_error *err)
{
    struct cuda *cuda = p->engine->detail;
    const struct cuda_dnn *dnn = &cuda->calls.dnn;
    struct parts parts = parts_of(p->op.type);
    if (!cuda->dnn || !fits(p, &parts))
        return mg_prepared_refuse(p, err, "cuDNN is not there, or takes other layouts or dtypes");
    int status = make_tensor(dnn, p, parts.x, &op->tensor[0]);
    if (status == 0)
        status = make_tensor(dnn, p, parts.y, &op->tensor[1]);
    if (status == 0)
        status = make_filter(dnn, p, parts.w, &op->filter);
    for (uint32_t i = 2; i < p->op.in_count && status == 0; i++)
        status = make_addend(dnn, p, i, &op->addend[i - 2]);
    if (status == 0)
        status = make_conv(dnn, p, shape_of(p, parts.x)->rank - 2, &op->conv);
    if (status == 0)
        status = choose(cuda, p, op);
    if (status == 0)
        return mg_cuda_grow_scratch(cuda, p->workspace, err);
    mg_cuda_release_conv(cuda, op);
    p->workspace = 0;
    return mg_prepared_refuse(p, err, "cuDNN has no such convolution");
}

enum mg_code mg_cuda_run_conv(struct mg_prepared *p, const void *const *in, void *const *out, struct mg_error *err)
{
    struct cuda *cuda = p->engine->detail;
    const struct cuda_dnn *dnn = &cuda->calls.dnn;
    const struct cuda_op *op = p->detail;
    const float one = 1, zero = 0;
    void *scratch = (void *)(uintptr_t)cuda->scratch, *x = op->tensor[0], *y = op->tensor[1];
    int status;
    if (p->op.type == MG_OP_CONV)
        status = dnn->forward(cuda->dnn, &one, x, in[0], op->filter, in[1], op->conv, op->algorithm, scratch,
                              p->workspace, &zero, y, out[0]);
    else if (p->op.type == MG_OP_CONV_GRAD_WEIGHT)
        status = dnn->weight(cuda->dnn, &one, x, in[1], y, in[0], op->conv, op->algorithm, scratch, p->workspace, &zero,
                             op->filter, out[0]);
    else
        status = dnn->input(cuda->dnn, &one, op->filter, in[1], y, in[0], op->conv, op->algorithm, scratch,
                            p->workspace, &zero, x, out[0]);
    for (uint32_t i = 2; i < p->op.in_count && status == 0; i++)
        status = dnn->add(cuda->dnn, &one, op->addend[i - 2], in[i], &one, p->op.type == MG_OP_CONV ? y : x, out[0]);
    return status == 0 ? MG_OK : mg_fail(err, MG_ERR_INTERNAL, "", "cuDNN: a convolution failed with %d", status);
}

void mg_cuda_release_conv(struct cuda *cuda, struct cuda_op *op)
{
    const struct cuda_dnn *dnn = &cuda->calls.dnn;
    for (int i = 0; i < 2; i++) {
        if (op->tensor[i])
            dnn->tensor_destroy(op->tensor[i]);
        if (op->addend[i])
            dnn->tensor_destroy(op->addend[i]);
        op->tensor[i] = op->addend[i] = NULL;
    }
    if (op->filter)
        dnn->filter_destroy(op->filter);
    if (op->conv)
        dnn->conv_destroy(op->conv);
    op->filter = op->conv = NULL;
}
