/* Gradient rules: movement. Those of views are views wherever the values allow it. */
#include <string.h>

#include "graph/autodiff_priv.h"

void grad_reshape(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_reshape(d, mg_grad_dy(d, 0), mg_grad_shape(d, mg_grad_in(d, 0))));
}

/* mg_grad_give sums over what was broadcast. */
void grad_expand(struct mg_grad *d)
{
    mg_grad_give(d, 0, mg_grad_dy(d, 0));
}

void grad_transpose(struct mg_grad *d)
{
    const struct mg_attr *perm = mg_grad_attr(d, MG_ATTR_PERM);
    int64_t inverse[MG_MAX_RANK];
    for (uint32_t i = 0; i < perm->count; i++)
        inverse[perm->ints[i]] = i;
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_PERM, inverse, perm->count)};
    mg_grad_give(d, 0, mg_grad_unary_with(d, MG_OP_TRANSPOSE, mg_grad_dy(d, 0), attrs, 1));
}

void grad_slice(struct mg_grad *d)
{
    const struct mg_shape *whole = mg_grad_shape(d, mg_grad_in(d, 0));
    mg_value dy = mg_grad_dy(d, 0), out;
    struct mg_attr shape[] = {mg_grad_ints(d, MG_ATTR_SHAPE, whole->dim, whole->rank)};
    mg_grad_emit_like(d, MG_OP_SLICE_GRAD, &dy, 1, shape, 1, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_slice_grad(struct mg_grad *d)
{
    mg_value dy = mg_grad_dy(d, 0), out;
    mg_grad_emit_like(d, MG_OP_SLICE, &dy, 1, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_split(struct mg_grad *d)
{
    uint32_t count = d->g->ops[d->op].out_count;
    mg_value *parts = MG_NEW_ARRAY(d->arena, mg_value, count), out;
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = mg_grad_dy(d, i);
        if (parts[i] == MG_NONE)
            parts[i] = mg_grad_zeros(d, mg_grad_out(d, i));
    }
    mg_grad_emit_like(d, MG_OP_CONCAT, parts, count, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
}

/* dy[lo, hi) along one axis */
static mg_value piece(struct mg_grad *d, mg_value dy, int64_t axis, int64_t lo, int64_t hi)
{
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_STARTS, &lo, 1), mg_grad_ints(d, MG_ATTR_ENDS, &hi, 1),
                              mg_grad_ints(d, MG_ATTR_AXES, &axis, 1)};
    return mg_grad_unary_with(d, MG_OP_SLICE, dy, attrs, 3);
}

void grad_concat(struct mg_grad *d)
{
    int64_t axis = mg_grad_attr(d, MG_ATTR_AXIS)->i, lo = 0;
    for (uint32_t i = 0; i < mg_grad_in_count(d); i++) {
        int64_t extent = mg_grad_shape(d, mg_grad_in(d, i))->dim[axis];
        if (mg_grad_wants(d, i))
            mg_grad_give(d, i, piece(d, mg_grad_dy(d, 0), axis, lo, lo + extent));
        lo += extent;
    }
}

/* Constant padding: the gradient is dy without the pads; negative pads (crops) become pads of zeros. */
void grad_pad(struct mg_grad *d)
{
    const struct mg_attr *pads = mg_grad_attr(d, MG_ATTR_PADS);
    int64_t back[2 * MG_MAX_RANK];
    if (strcmp(mg_grad_attr(d, MG_ATTR_MODE)->string, "constant") != 0) {
        mg_grad_fail(d, "is differentiable in mode constant only");
        return;
    }
    for (uint32_t i = 0; i < pads->count; i++)
        back[i] = -pads->ints[i];
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_PADS, back, pads->count)};
    mg_grad_give(d, 0, mg_grad_unary_with(d, MG_OP_PAD, mg_grad_dy(d, 0), attrs, 1));
}

/* Each repeated dimension is folded to [repeats, size] and summed over the repeats. */
void grad_tile(struct mg_grad *d)
{
    struct mg_shape folded = {0}, whole = *mg_grad_shape(d, mg_grad_in(d, 0));
    const int64_t *repeats = mg_grad_attr(d, MG_ATTR_REPEATS)->ints;
    int64_t axes[MG_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < whole.rank; i++) {
        if (folded.rank + 1 + (repeats[i] != 1) > MG_MAX_RANK) {
            mg_grad_fail(d, "repeats too many dimensions to be differentiated");
            return;
        }
        if (repeats[i] != 1) {
            axes[count++] = folded.rank;
            folded.dim[folded.rank++] = repeats[i];
        }
        folded.dim[folded.rank++] = whole.dim[i];
    }
    mg_grad_give(d, 0, mg_grad_sum(d, mg_grad_reshape(d, mg_grad_dy(d, 0), &folded), axes, count, false));
}

void grad_gather(struct mg_grad *d)
{
    int64_t axis = mg_grad_attr(d, MG_ATTR_AXIS)->i;
    struct mg_attr size[] = {mg_grad_int(MG_ATTR_SIZE, mg_grad_shape(d, mg_grad_in(d, 0))->dim[axis])};
    mg_value in[2] = {mg_grad_dy(d, 0), mg_grad_in(d, 1)}, out;
    mg_grad_emit_like(d, MG_OP_SCATTER_ADD, in, 2, size, 1, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_scatter_add(struct mg_grad *d)
{
    mg_value in[2] = {mg_grad_dy(d, 0), mg_grad_in(d, 1)}, out;
    mg_grad_emit_like(d, MG_OP_GATHER, in, 2, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
}

static void give_moved(struct mg_grad *d, enum mg_op_type type)
{
    mg_value dy = mg_grad_dy(d, 0), out;
    mg_grad_emit_like(d, type, &dy, 1, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_depth_to_space(struct mg_grad *d)
{
    give_moved(d, MG_OP_SPACE_TO_DEPTH);
}

void grad_space_to_depth(struct mg_grad *d)
{
    give_moved(d, MG_OP_DEPTH_TO_SPACE);
}
