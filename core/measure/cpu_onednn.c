/* One primitive of oneDNN with the reorders around it: where the fastest implementation wants a layout other than the
 * operand's, the operand is copied into the scratch memory first, and a result out of it afterwards. */
#include <string.h>

#include "measure/cpu_priv.h"

static enum mg_code failed(const struct mg_prepared *p, dnnl_status_t status, const char *what, struct mg_error *err)
{
    if (status == dnnl_out_of_memory)
        return mg_fail(err, MG_ERR_NOMEM, "", "no memory for '%s'", mg_op_type_name(p->op.type));
    if (status == dnnl_unimplemented || status == dnnl_invalid_arguments)
        return mg_prepared_refuse(p, err, "oneDNN has no such primitive");
    return mg_fail(err, MG_ERR_INTERNAL, "", "oneDNN: %s of '%s' failed with status %d", what,
                   mg_op_type_name(p->op.type), (int)status);
}

void mg_onednn_describe(const struct onednn *dnn, dnnl_memory_desc_t *md, uint32_t rank, const int64_t *dims,
                        const int64_t *strides)
{
    dnnl_dims_t size = {0}, step = {0};
    int64_t next = 1;
    for (uint32_t d = rank; d-- > 0;) {
        size[d] = dims[d];
        step[d] = dims[d] == 1 ? next : strides[d];
        next = step[d] * dims[d];
    }
    dnn->memory_desc_init_by_strides(md, (int)rank, size, dnnl_f32, step);
}

dnnl_memory_desc_t mg_onednn_any(const dnnl_memory_desc_t *md)
{
    dnnl_memory_desc_t any = {.ndims = md->ndims, .data_type = md->data_type, .format_kind = dnnl_format_kind_any};
    memcpy(any.dims, md->dims, sizeof any.dims);
    memcpy(any.padded_dims, md->dims, sizeof any.padded_dims);
    return any;
}

/* ---- building ---- */

static dnnl_status_t make_attributes(const struct onednn *dnn, const struct onednn_recipe *recipe,
                                     dnnl_primitive_attr_t *attr)
{
    dnnl_status_t status = dnn->primitive_attr_create(attr);
    if (status == dnnl_success)
        status = dnn->primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && recipe->scale != 1)
        status = dnn->primitive_attr_set_output_scales(*attr, 1, 0, &recipe->scale);
    if (status != dnnl_success || recipe->added == 0)
        return status;
    dnnl_post_ops_t post;
    status = dnn->post_ops_create(&post);
    if (status == dnnl_success) {
        status = dnn->post_ops_append_sum(post, recipe->added);
        if (status == dnnl_success)
            status = dnn->primitive_attr_set_post_ops(*attr, post);
        dnn->post_ops_destroy(post);
    }
    return status;
}

static dnnl_status_t make_description(struct cpu *cpu, const struct onednn_recipe *recipe, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_status_t status = make_attributes(&cpu->dnn, recipe, &attr);
    if (status == dnnl_success && recipe->forward)
        status = cpu->dnn.primitive_desc_create(&forward, recipe->forward, NULL, cpu->engine, NULL);
    if (status == dnnl_success)
        status = cpu->dnn.primitive_desc_create(out, recipe->descriptor, attr, cpu->engine, forward);
    if (forward)
        cpu->dnn.primitive_desc_destroy(forward);
    if (attr)
        cpu->dnn.primitive_attr_destroy(attr);
    return status;
}

static dnnl_status_t make_reorder(struct cpu *cpu, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                                  dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t description;
    dnnl_status_t status =
        cpu->dnn.reorder_primitive_desc_create(&description, from, cpu->engine, to, cpu->engine, NULL);
    if (status != dnnl_success)
        return status;
    status = cpu->dnn.primitive_create(out, description);
    cpu->dnn.primitive_desc_destroy(description);
    return status;
}

static dnnl_status_t bind(struct mg_prepared *p, struct onednn_op *op, dnnl_primitive_desc_t description,
                          struct onednn_arg *arg)
{
    struct cpu *cpu = op->cpu;
    const dnnl_memory_desc_t *native = cpu->dnn.primitive_desc_query_md(description, dnnl_query_exec_arg_md, arg->id);
    dnnl_status_t status = cpu->dnn.memory_create(&arg->user_memory, &arg->user, cpu->engine, DNNL_MEMORY_NONE);
    if (status != dnnl_success || cpu->dnn.memory_desc_equal(native, &arg->user))
        return status;
    arg->at = mg_cpu_reserve(p, cpu->dnn.memory_desc_get_size(native));
    status = cpu->dnn.memory_create(&arg->native_memory, native, cpu->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success && (arg->operand >= 0 || arg->accumulated))
        status = make_reorder(cpu, &arg->user, native, &arg->before);
    if (status == dnnl_success && arg->operand < 0)
        status = make_reorder(cpu, native, &arg->user, &arg->after);
    return status;
}

static dnnl_status_t make_primitive(struct mg_prepared *p, struct onednn_op *op, dnnl_primitive_desc_t description)
{
    struct cpu *cpu = op->cpu;
    dnnl_status_t status = cpu->dnn.primitive_create(&op->primitive, description);
    for (uint32_t i = 0; i < op->arg_count && status == dnnl_success; i++)
        status = bind(p, op, description, &op->args[i]);
    const dnnl_memory_desc_t *pad = cpu->dnn.primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    if (status == dnnl_success && pad && pad->ndims > 0) {
        op->scratchpad_at = mg_cpu_reserve(p, cpu->dnn.memory_desc_get_size(pad));
        status = cpu->dnn.memory_create(&op->scratchpad, pad, cpu->engine, DNNL_MEMORY_NONE);
    }
    return status;
}

enum mg_code mg_onednn_build(struct mg_prepared *p, const struct onednn_recipe *recipe, struct onednn_op **out,
                             struct mg_error *err)
{
    struct cpu *cpu = p->engine->detail;
    dnnl_primitive_desc_t description = NULL;
    struct onednn_op *op = MG_NEW(&p->arena, struct onednn_op);
    *out = op;
    op->cpu = cpu;
    memcpy(op->args, recipe->args, sizeof op->args);
    op->arg_count = recipe->arg_count;
    dnnl_status_t status = make_description(cpu, recipe, &description);
    if (status != dnnl_success)
        return failed(p, status, "description", err);
    status = make_primitive(p, op, description);
    cpu->dnn.primitive_desc_destroy(description);
    return status == dnnl_success ? MG_OK : failed(p, status, "preparation", err);
}

void mg_onednn_release(struct onednn_op *op)
{
    if (!op)
        return;
    mg_onednn_release(op->next);
    const struct onednn *dnn = &op->cpu->dnn;
    for (uint32_t i = 0; i < op->arg_count; i++) {
        dnn->memory_destroy(op->args[i].user_memory);
        dnn->memory_destroy(op->args[i].native_memory);
        dnn->primitive_destroy(op->args[i].before);
        dnn->primitive_destroy(op->args[i].after);
    }
    dnn->memory_destroy(op->scratchpad);
    dnn->primitive_destroy(op->primitive);
}

/* ---- running ---- */

static dnnl_status_t reorder(const struct cpu *cpu, dnnl_primitive_t primitive, dnnl_memory_t from, dnnl_memory_t to)
{
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return primitive ? cpu->dnn.primitive_execute(primitive, cpu->stream, 2, args) : dnnl_success;
}

/* Operands are only read, so dropping const is sound. */
static void *address_of(const struct onednn_arg *arg, const void *const *in, void *const *out)
{
    union {
        const void *from;
        void *to;
    } cast;
    if (arg->operand < 0)
        return out[~arg->operand];
    cast.from = in[arg->operand];
    return cast.to;
}

static dnnl_status_t enter(const struct onednn_op *op, const struct onednn_arg *arg, const struct cpu_call *call,
                           void *address, dnnl_exec_arg_t *out)
{
    const struct cpu *cpu = op->cpu;
    dnnl_status_t status = cpu->dnn.memory_set_data_handle(arg->user_memory, address);
    *out = (dnnl_exec_arg_t){arg->id, arg->native_memory ? arg->native_memory : arg->user_memory};
    if (status != dnnl_success || !arg->native_memory)
        return status;
    status = cpu->dnn.memory_set_data_handle(arg->native_memory, call->scratch + arg->at);
    return status == dnnl_success ? reorder(cpu, arg->before, arg->user_memory, arg->native_memory) : status;
}

enum mg_code mg_onednn_run(const struct onednn_op *op, const struct cpu_call *call, const void *const *in,
                           void *const *out)
{
    const struct cpu *cpu = op->cpu;
    dnnl_exec_arg_t args[MG_ONEDNN_ARGS + 1];
    int count = 0;
    dnnl_status_t status = dnnl_success;
    for (uint32_t i = 0; i < op->arg_count && status == dnnl_success; i++)
        status = enter(op, &op->args[i], call, address_of(&op->args[i], in, out), &args[count++]);
    if (op->scratchpad && status == dnnl_success) {
        status = cpu->dnn.memory_set_data_handle(op->scratchpad, call->scratch + op->scratchpad_at);
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, op->scratchpad};
    }
    if (status == dnnl_success)
        status = cpu->dnn.primitive_execute(op->primitive, cpu->stream, count, args);
    for (uint32_t i = 0; i < op->arg_count && status == dnnl_success; i++)
        status = reorder(cpu, op->args[i].after, op->args[i].native_memory, op->args[i].user_memory);
    if (status == dnnl_success)
        status = cpu->dnn.stream_wait(cpu->stream);
    return status == dnnl_success ? MG_OK : failed(call->p, status, "execution", call->err);
}
