/* Convolutions and their gradients by oneDNN, which lays operands out as it likes them. */
#include <string.h>

#include "measure/cpu_priv.h"

struct conv {
    struct onednn_op *dnn;
    bool accumulate; /* an addend is put into the result, then added to */
    uint64_t bare;   /* gradient to the input with addends: where the primitive's result goes; MG_NO_PACK: none */
    struct mg_shape x, w, y;
    dnnl_dims_t stride, dilation, before, after;
    uint32_t spatial;
};

/* ---- geometry ---- */

/* What is padded behind follows from the sizes. */
static void read_windows(const struct mg_prepared *p, struct conv *c)
{
    c->spatial = c->x.rank - 2;
    for (uint32_t d = 0; d < c->spatial; d++) {
        int64_t dilation = mg_prepared_ints(p, MG_ATTR_DILATIONS, d, 1);
        int64_t reach = (c->w.dim[d + 2] - 1) * dilation + 1;
        c->stride[d] = mg_prepared_ints(p, MG_ATTR_STRIDES, d, 1);
        c->dilation[d] = dilation - 1;
        c->before[d] = mg_prepared_ints(p, MG_ATTR_PADS, d, 0);
        c->after[d] = (c->y.dim[d + 2] - 1) * c->stride[d] + reach - c->x.dim[d + 2] - c->before[d];
    }
}

static dnnl_memory_desc_t describe(const struct onednn *dnn, const struct mg_shape *shape, const int64_t *strides)
{
    dnnl_memory_desc_t md;
    mg_onednn_describe(dnn, &md, shape->rank, shape->dim, strides);
    return md;
}

/* [f, c, k...] as [g, f / g, c, k...]. */
static dnnl_memory_desc_t describe_weights(const struct onednn *dnn, const struct mg_shape *shape,
                                           const int64_t *strides, int64_t groups)
{
    int64_t dim[MG_MAX_RANK + 1] = {groups, shape->dim[0] / groups}, stride[MG_MAX_RANK + 1];
    dnnl_memory_desc_t md;
    if (groups == 1)
        return describe(dnn, shape, strides);
    stride[0] = strides[0] * dim[1];
    stride[1] = strides[0];
    for (uint32_t d = 1; d < shape->rank; d++) {
        dim[d + 1] = shape->dim[d];
        stride[d + 1] = strides[d];
    }
    mg_onednn_describe(dnn, &md, shape->rank + 1, dim, stride);
    return md;
}

static bool takes_layout(const struct mg_shape *shape, const struct mg_strides *strides, enum mg_dtype dtype)
{
    for (uint32_t d = 0; d < shape->rank; d++)
        if (strides->at[d] == 0 && shape->dim[d] > 1)
            return false;
    return dtype == MG_DTYPE_F32;
}

static bool takes_layouts(const struct mg_prepared *p)
{
    bool good = takes_layout(&p->op.out_shape[0], &p->out[0], p->op.out_dtype[0]);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        good = good && takes_layout(&p->op.in_shape[i], &p->in[i], p->op.in_dtype[i]);
    return good;
}

/* Where the kernel finds operand i; dense where the back end packs. */
static const int64_t *strides_in(struct mg_prepared *p, const struct cpu_op *op, uint32_t i)
{
    struct mg_strides *dense = MG_NEW(&p->arena, struct mg_strides);
    mg_shape_strides(&p->op.in_shape[i], dense->at);
    return op->strided ? p->in[i].at : dense->at;
}

static const int64_t *strides_out(struct mg_prepared *p, const struct cpu_op *op)
{
    struct mg_strides *dense = MG_NEW(&p->arena, struct mg_strides);
    mg_shape_strides(&p->op.out_shape[0], dense->at);
    return op->strided ? p->out[0].at : dense->at;
}

static struct onednn_arg argument(int id, int operand, dnnl_memory_desc_t user)
{
    return (struct onednn_arg){.id = id, .operand = operand, .user = user};
}

static struct conv *begin(struct mg_prepared *p, struct cpu_op *op, const struct mg_shape *x, const struct mg_shape *w,
                          const struct mg_shape *y)
{
    struct conv *c = MG_NEW(&p->arena, struct conv);
    *c = (struct conv){.x = *x, .w = *w, .y = *y, .bare = MG_NO_PACK};
    read_windows(p, c);
    op->strided = takes_layouts(p);
    op->data = c;
    return c;
}

static enum mg_code build(struct mg_prepared *p, struct cpu_op *op, const struct onednn_recipe *recipe,
                          struct mg_error *err)
{
    struct conv *c = op->data;
    enum mg_code code = mg_onednn_build(p, recipe, &c->dnn, err);
    op->dnn = c->dnn;
    return code;
}

/* ---- forward ---- */

static void move_in(const struct cpu_call *call, uint32_t operand, const int64_t *from, const int64_t *to)
{
    union {
        const void *from;
        void *to;
    } cast = {.from = call->in[operand]};
    mg_cpu_move(&call->p->op.out_shape[0], &(struct cpu_side){call->out[0], MG_DTYPE_F32, to},
                &(struct cpu_side){cast.to, MG_DTYPE_F32, from});
}

static enum mg_code run_forward(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct cpu_op *op = p->detail;
    const struct conv *c = op->data;
    uint32_t addend = p->op.in_count - 1;
    if (c->accumulate && call->in[addend] != call->out[0]) {
        struct mg_strides dense;
        mg_shape_strides(&p->op.out_shape[0], dense.at);
        move_in(call, addend, op->strided ? p->in[addend].at : dense.at, op->strided ? p->out[0].at : dense.at);
    }
    return mg_onednn_run(c->dnn, call, call->in, call->out);
}

/* The operand that is a bias, and the one of the result's shape; MG_NONE: there is none. */
static void find_addends(const struct mg_prepared *p, uint32_t *bias, uint32_t *addend)
{
    *bias = *addend = MG_NONE;
    for (uint32_t i = 2; i < p->op.in_count; i++)
        *(p->op.in_shape[i].rank == 1 ? bias : addend) = i;
}

enum mg_code mg_cpu_conv(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct onednn *dnn = &((struct cpu *)p->engine->detail)->dnn;
    struct conv *c = begin(p, op, &p->op.in_shape[0], &p->op.in_shape[1], &p->op.out_shape[0]);
    struct onednn_recipe recipe = {.arg_count = 3, .scale = 1};
    uint32_t bias, addend;
    find_addends(p, &bias, &addend);
    recipe.args[0] = argument(DNNL_ARG_SRC, 0, describe(dnn, &c->x, strides_in(p, op, 0)));
    recipe.args[1] = argument(DNNL_ARG_WEIGHTS, 1,
                              describe_weights(dnn, &c->w, strides_in(p, op, 1), mg_prepared_int(p, MG_ATTR_GROUP)));
    recipe.args[2] = argument(DNNL_ARG_DST, ~0, describe(dnn, &c->y, strides_out(p, op)));
    dnnl_memory_desc_t src = mg_onednn_any(&recipe.args[0].user), weights = mg_onednn_any(&recipe.args[1].user);
    dnnl_memory_desc_t dst = mg_onednn_any(&recipe.args[2].user), *bias_desc = NULL;
    if (bias != MG_NONE) {
        recipe.args[3] =
            argument(DNNL_ARG_BIAS, (int)bias, describe(dnn, &p->op.in_shape[bias], strides_in(p, op, bias)));
        bias_desc = &recipe.args[recipe.arg_count++].user;
    }
    if (addend != MG_NONE) {
        c->accumulate = recipe.args[2].accumulated = true;
        recipe.added = 1;
    }
    dnnl_convolution_desc_t descriptor;
    dnn->dilated_convolution_forward_desc_init(&descriptor, dnnl_forward_training, dnnl_convolution_direct, &src,
                                               &weights, bias_desc, &dst, c->stride, c->dilation, c->before, c->after);
    recipe.descriptor = &descriptor;
    op->run = run_forward;
    return build(p, op, &recipe, err);
}

/* ---- gradients ---- */

static void forward_hint(const struct onednn *dnn, const struct conv *c, const dnnl_memory_desc_t *src,
                         const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *dst,
                         dnnl_convolution_desc_t *hint)
{
    dnn->dilated_convolution_forward_desc_init(hint, dnnl_forward_training, dnnl_convolution_direct, src, weights, NULL,
                                               dst, c->stride, c->dilation, c->before, c->after);
}

/* out = base + operand i, which may be one number for each channel; base is out itself, or dense. */
static void add_operand(const struct cpu_call *call, uint32_t i, const float *base)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *shape = &p->op.out_shape[0], *given = &p->op.in_shape[i];
    struct mg_strides out, dense, addend = {{0}};
    mg_shape_strides(shape, dense.at);
    out = ((const struct cpu_op *)p->detail)->strided ? p->out[0] : dense;
    if (given->rank == 1)
        addend.at[1] = ((const struct cpu_op *)p->detail)->strided ? p->in[i].at[0] : 1;
    else
        addend = ((const struct cpu_op *)p->detail)->strided ? p->in[i] : dense;
    struct cpu_walk walk;
    int64_t index[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0};
    const float *more = call->in[i];
    float *to = call->out[0];
    mg_cpu_walk_join(&walk, shape, (const int64_t *const[]){out.at, base ? dense.at : out.at, addend.at}, 3);
    base = base ? base : to;
    const int64_t last = walk.rank - 1, s0 = walk.stride[0][last], s1 = walk.stride[1][last], s2 = walk.stride[2][last];
    do {
        for (int64_t k = 0; k < walk.dim[last]; k++)
            to[at[0] + k * s0] = base[at[1] + k * s1] + more[at[2] + k * s2];
    } while (mg_cpu_walk_next(&walk, index, at));
}

/* The result without addends goes to the scratch: an addend may lie where the result shall be. */
static enum mg_code run_grad_input(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct cpu_op *op = p->detail;
    const struct conv *c = op->data;
    void *bare = call->scratch + c->bare;
    if (c->bare == MG_NO_PACK)
        return mg_onednn_run(c->dnn, call, call->in, call->out);
    enum mg_code code = mg_onednn_run(c->dnn, call, call->in, &bare);
    for (uint32_t i = 2; i < p->op.in_count && code == MG_OK; i++)
        add_operand(call, i, i == 2 ? bare : NULL);
    return code;
}

enum mg_code mg_cpu_conv_grad_input(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct onednn *dnn = &((struct cpu *)p->engine->detail)->dnn;
    struct conv *c = begin(p, op, &p->op.out_shape[0], &p->op.in_shape[1], &p->op.in_shape[0]);
    struct onednn_recipe recipe = {.arg_count = 3, .scale = 1};
    struct mg_strides dense;
    mg_shape_strides(&c->x, dense.at);
    if (p->op.in_count > 2)
        c->bare = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&c->x) * sizeof(float));
    recipe.args[0] = argument(DNNL_ARG_DIFF_DST, 0, describe(dnn, &c->y, strides_in(p, op, 0)));
    recipe.args[1] = argument(DNNL_ARG_WEIGHTS, 1,
                              describe_weights(dnn, &c->w, strides_in(p, op, 1), mg_prepared_int(p, MG_ATTR_GROUP)));
    recipe.args[2] =
        argument(DNNL_ARG_DIFF_SRC, ~0, describe(dnn, &c->x, c->bare == MG_NO_PACK ? strides_out(p, op) : dense.at));
    dnnl_memory_desc_t dst = mg_onednn_any(&recipe.args[0].user), weights = mg_onednn_any(&recipe.args[1].user);
    dnnl_memory_desc_t src = mg_onednn_any(&recipe.args[2].user);
    dnnl_convolution_desc_t descriptor, hint;
    forward_hint(dnn, c, &src, &weights, &dst, &hint);
    dnn->dilated_convolution_backward_data_desc_init(&descriptor, dnnl_convolution_direct, &src, &weights, &dst,
                                                     c->stride, c->dilation, c->before, c->after);
    recipe.descriptor = &descriptor;
    recipe.forward = &hint;
    op->run = run_grad_input;
    return build(p, op, &recipe, err);
}

enum mg_code mg_cpu_conv_grad_weight(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct onednn *dnn = &((struct cpu *)p->engine->detail)->dnn;
    struct conv *c = begin(p, op, &p->op.in_shape[1], &p->op.out_shape[0], &p->op.in_shape[0]);
    struct onednn_recipe recipe = {.arg_count = 3, .scale = 1};
    recipe.args[0] = argument(DNNL_ARG_DIFF_DST, 0, describe(dnn, &c->y, strides_in(p, op, 0)));
    recipe.args[1] = argument(DNNL_ARG_SRC, 1, describe(dnn, &c->x, strides_in(p, op, 1)));
    recipe.args[2] = argument(DNNL_ARG_DIFF_WEIGHTS, ~0,
                              describe_weights(dnn, &c->w, strides_out(p, op), mg_prepared_int(p, MG_ATTR_GROUP)));
    dnnl_memory_desc_t dst = mg_onednn_any(&recipe.args[0].user), src = mg_onednn_any(&recipe.args[1].user);
    dnnl_memory_desc_t weights = mg_onednn_any(&recipe.args[2].user);
    dnnl_convolution_desc_t descriptor, hint;
    forward_hint(dnn, c, &src, &weights, &dst, &hint);
    dnn->dilated_convolution_backward_weights_desc_init(&descriptor, dnnl_convolution_direct, &src, &weights, NULL,
                                                        &dst, c->stride, c->dilation, c->before, c->after);
    recipe.descriptor = &descriptor;
    recipe.forward = &hint;
    op->run = run_forward;
    return build(p, op, &recipe, err);
}
