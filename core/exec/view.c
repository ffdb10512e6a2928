/* Layouts of view operators: how a result's strides and address follow from the operand's. Written for the
 * executor alone: the graph decides views at normalisation by code of its own, and the two are compared in tests. */
#include <string.h>

#include "exec/kernels.h"

static void view_transpose(const struct mg_kernel *k, struct mg_view *layout)
{
    struct mg_view from = *layout;
    for (uint32_t d = 0; d < from.shape.rank; d++)
        layout->stride[d] = from.stride[mg_kernel_ints(k, MG_ATTR_PERM, d, d)];
}

static void view_expand(const struct mg_kernel *k, struct mg_view *layout)
{
    struct mg_view from = *layout;
    uint32_t rank = k->op->out_shape[0].rank, added = rank - from.shape.rank;
    for (uint32_t d = 0; d < rank; d++)
        layout->stride[d] = d < added || from.shape.dim[d - added] == 1 ? 0 : from.stride[d - added];
}

static void view_slice(const struct mg_kernel *k, struct mg_view *layout)
{
    for (uint32_t d = 0; d < layout->shape.rank; d++) {
        layout->at += mg_kernel_ints(k, MG_ATTR_STARTS, d, 0) * layout->stride[d];
        layout->stride[d] *= mg_kernel_ints(k, MG_ATTR_STEPS, d, 1);
    }
}

static void view_split(const struct mg_kernel *k, uint32_t slot, struct mg_view *layout)
{
    int64_t axis = mg_kernel_int(k, MG_ATTR_AXIS);
    for (uint32_t i = 0; i < slot; i++)
        layout->at += k->op->out_shape[i].dim[axis] * layout->stride[axis];
}

/* Both shapes are walked from the inside: a run of operand dimensions whose strides continue one another is cut
 * into result dimensions; a result dimension that would cross a break is no view. */
static bool view_reshape(const struct mg_shape *to, struct mg_view *layout)
{
    struct mg_view from = *layout;
    uint32_t f = from.shape.rank;
    int64_t left = 1, step = 0; /* elements left in the current run, and the distance between them */
    if (mg_shape_elements(to) == 0)
        return true;
    for (uint32_t d = to->rank; d-- > 0;) {
        layout->stride[d] = step;
        if (to->dim[d] == 1)
            continue;
        while (left == 1 && f > 0) { /* open the next run */
            f--;
            left = from.shape.dim[f];
            step = from.stride[f];
        }
        while (left % to->dim[d] && f > 0) { /* extend it outward */
            f--;
            if (from.shape.dim[f] > 1 && from.stride[f] != step * left)
                return false;
            left *= from.shape.dim[f];
        }
        if (left % to->dim[d])
            return false;
        layout->stride[d] = step;
        left /= to->dim[d];
        step *= to->dim[d];
    }
    return true;
}

bool mg_exec_view(const struct mg_op_desc *op, uint32_t slot, struct mg_view *layout)
{
    struct mg_kernel k = {.op = op};
    bool is_view = true;
    switch (op->type) {
    case MG_OP_TRANSPOSE:
        view_transpose(&k, layout);
        break;
    case MG_OP_EXPAND:
        view_expand(&k, layout);
        break;
    case MG_OP_SLICE:
        view_slice(&k, layout);
        break;
    case MG_OP_SPLIT:
        view_split(&k, slot, layout);
        break;
    case MG_OP_RESHAPE:
    case MG_OP_SQUEEZE:
    case MG_OP_UNSQUEEZE:
    case MG_OP_FLATTEN:
        is_view = view_reshape(&op->out_shape[0], layout);
        break;
    default:
        is_view = false;
    }
    layout->shape = op->out_shape[slot];
    return is_view;
}
