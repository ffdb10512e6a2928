/* Softmax, its logarithm and their gradients by oneDNN, for dense f32 operands; others take the loops of
 * cpu_reduce.c. */
#include <string.h>

#include "measure/cpu_priv.h"

static void describe_dense(const struct onednn *dnn, const struct mg_shape *shape, dnnl_memory_desc_t *md)
{
    int64_t strides[MG_MAX_RANK];
    mg_shape_strides(shape, strides);
    mg_onednn_describe(dnn, md, shape->rank, shape->dim, strides);
}

static struct onednn_arg argument(const struct onednn *dnn, int id, int operand, const struct mg_shape *shape)
{
    struct onednn_arg arg = {.id = id, .operand = operand};
    describe_dense(dnn, shape, &arg.user);
    return arg;
}

static const struct onednn *library(const struct mg_prepared *p)
{
    return &((const struct cpu *)p->engine->detail)->dnn;
}

static enum mg_code run_primitive(const struct cpu_call *call)
{
    return mg_onednn_run(((const struct cpu_op *)call->p->detail)->dnn, call, call->in, call->out);
}

static enum mg_code build(struct mg_prepared *p, struct cpu_op *op, const struct onednn_recipe *recipe,
                          struct mg_error *err)
{
    enum mg_code code = mg_onednn_build(p, recipe, &op->dnn, err);
    if (code == MG_OK)
        op->run = run_primitive;
    return code;
}

enum mg_code mg_cpu_dnn_softmax(struct mg_prepared *p, struct cpu_op *op, int axis, struct mg_error *err)
{
    const struct onednn *dnn = library(p);
    bool is_log = p->op.type == MG_OP_LOG_SOFTMAX || p->op.type == MG_OP_LOG_SOFTMAX_GRAD;
    bool gradient = p->op.type == MG_OP_SOFTMAX_GRAD || p->op.type == MG_OP_LOG_SOFTMAX_GRAD;
    dnnl_alg_kind_t kind = is_log ? dnnl_softmax_log : dnnl_softmax_accurate;
    struct onednn_recipe recipe = {.scale = 1};
    struct onednn_arg *args = recipe.args;
    dnnl_softmax_v2_desc_t forward, backward;
    const struct mg_shape *shape = &p->op.out_shape[0];
    struct onednn_arg src = argument(dnn, DNNL_ARG_SRC, 0, shape), dst = argument(dnn, DNNL_ARG_DST, ~0, shape);
    dnn->softmax_v2_forward_desc_init(&forward, dnnl_forward_training, kind, &src.user, &dst.user, axis);
    recipe.descriptor = &forward;
    args[recipe.arg_count++] = src;
    args[recipe.arg_count++] = dst;
    if (gradient) {
        args[0] = argument(dnn, DNNL_ARG_DIFF_DST, 0, shape);
        args[1] = argument(dnn, DNNL_ARG_DST, 1, shape);
        args[recipe.arg_count++] = argument(dnn, DNNL_ARG_DIFF_SRC, ~0, shape);
        dnn->softmax_v2_backward_desc_init(&backward, kind, &args[2].user, &args[0].user, &args[1].user, axis);
        recipe.descriptor = &backward;
        recipe.forward = &forward;
    }
    return build(p, op, &recipe, err);
}
