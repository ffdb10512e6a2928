/* Runs one operator: gathers operands into dense arrays, calls the kernel that the operator table
 * names, scatters the results. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

static mg_kernel_fn *const kernels[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, ...) [MG_OP_##id] = kernel,
#include "graph/ops.def"
#undef MG_OP
};

static const struct mg_attr *find_attr(const struct mg_kernel *k, enum mg_attr_key key)
{
    for (uint32_t i = 0; i < k->op->attr_count; i++)
        if (k->op->attrs[i].key == key)
            return &k->op->attrs[i];
    return NULL;
}

int64_t mg_kernel_int(const struct mg_kernel *k, enum mg_attr_key key)
{
    const struct mg_attr *attr = find_attr(k, key);
    return attr ? attr->i : 0;
}

double mg_kernel_float(const struct mg_kernel *k, enum mg_attr_key key)
{
    const struct mg_attr *attr = find_attr(k, key);
    return attr ? attr->f : 0;
}

int64_t mg_kernel_ints(const struct mg_kernel *k, enum mg_attr_key key, uint32_t at, int64_t fallback)
{
    const struct mg_attr *attr = find_attr(k, key);
    return attr && at < attr->count ? attr->ints[at] : fallback;
}

const char *mg_kernel_text(const struct mg_kernel *k, enum mg_attr_key key)
{
    const struct mg_attr *attr = find_attr(k, key);
    return attr ? attr->string : "";
}

int64_t mg_kernel_in_count(const struct mg_kernel *k, uint32_t i)
{
    return mg_shape_elements(&k->op->in_shape[i]);
}

int64_t mg_kernel_out_count(const struct mg_kernel *k, uint32_t i)
{
    return mg_shape_elements(&k->op->out_shape[i]);
}

int64_t mg_broadcast_at(const struct mg_shape *shape, const int64_t *index, uint32_t rank)
{
    int64_t at = 0;
    uint32_t skip = rank - shape->rank;
    for (uint32_t d = 0; d < shape->rank; d++)
        at = at * shape->dim[d] + (shape->dim[d] == 1 ? 0 : index[d + skip]);
    return at;
}

/* Whole numbers as their dtype holds them: fractions dropped, wrapped around where narrower than 64 bits; infinities
 * become the extremes. Of truths all but 0 is 1. */
static void fit(enum mg_dtype dtype, double *data, int64_t count)
{
    for (int64_t i = 0; i < count && dtype == MG_DTYPE_BOOL; i++)
        data[i] = data[i] != 0;
    if (dtype < MG_DTYPE_I64 || dtype == MG_DTYPE_BOOL)
        return;
    double span = ldexp(1, (int)(8 * mg_dtype_size(dtype))), least = mg_dtype_is_unsigned(dtype) ? 0 : -span / 2;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(data[i])) {
            data[i] = isnan(data[i]) ? 0 : data[i] < 0 ? least : least + (span - 1);
            continue;
        }
        data[i] = trunc(data[i]);
        if (dtype != MG_DTYPE_I64 && !(data[i] >= least && data[i] < least + span))
            data[i] -= span * floor((data[i] - least) / span);
    }
}

static bool all_empty(const struct mg_op_desc *op)
{
    for (uint32_t i = 0; i < op->out_count; i++)
        if (mg_shape_elements(&op->out_shape[i]))
            return false;
    return true;
}

enum mg_code mg_exec_op(const struct mg_op_desc *op, const struct mg_tensor *in, const struct mg_tensor *out,
                        const struct mg_exec_origin *origin, struct mg_arena *scratch, struct mg_error *err)
{
    static const struct mg_exec_origin nowhere;
    double **ins = MG_NEW_ARRAY(scratch, double *, op->in_count);
    double **outs = MG_NEW_ARRAY(scratch, double *, op->out_count);
    if (!kernels[op->type])
        return mg_fail(err, MG_ERR_UNSUPPORTED, "", "operator '%s' has no reference kernel", mg_op_type_name(op->type));
    for (uint32_t i = 0; i < op->in_count; i++) {
        ins[i] = MG_NEW_ARRAY(scratch, double, mg_shape_elements(&op->in_shape[i]));
        if (!mg_shape_equal(&in[i].shape, &op->in_shape[i]))
            return mg_fail(err, MG_ERR_INTERNAL, "", "operand %u of '%s' has not the shape that is described", i,
                           mg_op_type_name(op->type));
        mg_tensor_pack(&in[i], ins[i]);
    }
    for (uint32_t i = 0; i < op->out_count; i++)
        outs[i] = MG_NEW_ARRAY(scratch, double, mg_shape_elements(&op->out_shape[i]));
    struct mg_kernel kernel = {.op = op, .in = (const double *const *)ins, .out = outs, .scratch = scratch, .err = err};
    kernel.origin = origin ? origin : &nowhere;
    enum mg_code code = all_empty(op) ? MG_OK : kernels[op->type](&kernel);
    for (uint32_t i = 0; i < op->out_count && !code; i++) {
        fit(op->out_dtype[i], outs[i], mg_shape_elements(&op->out_shape[i]));
        mg_tensor_unpack(&out[i], outs[i]);
    }
    return code;
}
