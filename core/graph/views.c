/* Layouts of views: how strides and offset of an operand become those of a view operator's result. */
#include <string.h>

#include "graph/normalise_priv.h"

/* Reshaping without moving data (the rule NumPy uses): both shapes, without sizes of 1, are cut into
 * shortest segments of equal product; inside a segment of the old shape each dimension must step over
 * the next one exactly. */
static bool reshape_layout(const struct mg_shape *in, const int64_t *in_stride, const struct mg_shape *out,
                           int64_t *out_stride)
{
    if (mg_shape_elements(in) == 0) {
        mg_shape_strides(out, out_stride);
        return true;
    }
    struct mg_shape old = {0};
    int64_t stride[MG_MAX_RANK] = {0};
    for (uint32_t d = 0; d < in->rank; d++) {
        if (in->dim[d] != 1) {
            stride[old.rank] = in_stride[d];
            old.dim[old.rank++] = in->dim[d];
        }
    }
    uint32_t i = 0, k = 0;
    while (k < out->rank) {
        if (out->dim[k] == 1) {
            out_stride[k++] = 1;
            continue;
        }
        uint32_t i2 = i + 1, k2 = k + 1;
        for (int64_t p = old.dim[i], q = out->dim[k]; p != q;) {
            if (p < q)
                p *= old.dim[i2++];
            else
                q *= out->dim[k2++];
        }
        for (uint32_t d = i; d + 1 < i2; d++) {
            if (stride[d] != old.dim[d + 1] * stride[d + 1])
                return false;
        }
        int64_t next = stride[i2 - 1];
        for (uint32_t d = k2; d-- > k;) {
            out_stride[d] = next;
            next *= out->dim[d];
        }
        i = i2;
        k = k2;
    }
    return true;
}

static void expand_layout(const struct mg_shape *in, const int64_t *in_stride, const struct mg_shape *out,
                          int64_t *out_stride)
{
    for (uint32_t d = 0; d < out->rank; d++) {
        uint32_t own = d + in->rank - out->rank;
        bool absent = d + in->rank < out->rank || in->dim[own] != out->dim[d];
        out_stride[d] = absent ? 0 : in_stride[own];
    }
}

static int64_t before(const int64_t *parts, uint32_t slot)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < slot; i++)
        sum += parts[i];
    return sum;
}

bool mg_derive_layout(const struct mg_graph *g, mg_op op, uint32_t slot, const struct mg_layout_of *in,
                      struct mg_layout_of *out)
{
    const struct mg_op_info *info = &g->ops[op];
    const struct mg_shape *from = &g->values[info->in[0]].shape, *to = &g->values[info->out[slot]].shape;
    *out = (struct mg_layout_of){.offset = in->offset};
    switch (info->type) {
    case MG_OP_TRANSPOSE:
        for (uint32_t d = 0; d < to->rank; d++)
            out->stride[d] = in->stride[mg_op_attr(info, MG_ATTR_PERM)->ints[d]];
        return true;
    case MG_OP_EXPAND:
        expand_layout(from, in->stride, to, out->stride);
        return true;
    case MG_OP_SLICE:
        for (uint32_t d = 0; d < to->rank; d++) {
            out->offset += mg_op_attr(info, MG_ATTR_STARTS)->ints[d] * in->stride[d];
            out->stride[d] = mg_op_attr(info, MG_ATTR_STEPS)->ints[d] * in->stride[d];
        }
        return true;
    case MG_OP_SPLIT:
        memcpy(out->stride, in->stride, sizeof out->stride);
        out->offset +=
            before(mg_op_attr(info, MG_ATTR_SPLIT)->ints, slot) * in->stride[mg_op_attr_int(info, MG_ATTR_AXIS)];
        return true;
    case MG_OP_RESHAPE:
    case MG_OP_SQUEEZE:
    case MG_OP_UNSQUEEZE:
    case MG_OP_FLATTEN:
        return reshape_layout(from, in->stride, to, out->stride);
    default:
        return false;
    }
}

static bool made_by_view(const struct mg_graph *g, mg_value value)
{
    return g->values[value].producer != MG_NONE && g->ops[g->values[value].producer].is_view;
}

uint32_t mg_graph_view_chain(const struct mg_graph *g, mg_value value, mg_value base, struct mg_arena *arena,
                             const mg_op **chain)
{
    uint32_t count = 0;
    mg_value v = value;
    for (; v != base && made_by_view(g, v); count++)
        v = g->ops[g->values[v].producer].in[0];
    if (v != base)
        return 0;
    mg_op *ops = MG_NEW_ARRAY(arena, mg_op, count);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = g->values[value].producer;
        value = g->ops[ops[i]].in[0];
    }
    *chain = ops;
    return count;
}
