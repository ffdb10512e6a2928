/* Gradient rules: reading and writing by index, triangles, reversals. */
#include <string.h>

#include "graph/autodiff_priv.h"

/* The forward operator's kind with other operands. */
static mg_value same_kind(struct mg_grad *d, mg_value a, mg_value b, const struct mg_attr *attrs, uint32_t count)
{
    mg_value in[2] = {a, b}, out;
    mg_grad_emit_like(d, d->g->ops[d->op].type, in, b == MG_NONE ? 1 : 2, attrs, count, &out, 1);
    return out;
}

/* Zeros of operand 0's shape with dy added where it was read. */
static void give_added(struct mg_grad *d, enum mg_op_type scatter, mg_value indices)
{
    struct mg_attr add[] = {mg_grad_text(MG_ATTR_REDUCTION, "add")};
    mg_value in[3] = {mg_grad_zeros(d, mg_grad_in(d, 0)), indices, mg_grad_dy(d, 0)}, out;
    mg_grad_emit_like(d, scatter, in, 3, add, 1, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_gather_elements(struct mg_grad *d)
{
    give_added(d, MG_OP_SCATTER_ELEMENTS, mg_grad_in(d, 1));
}

void grad_gather_nd(struct mg_grad *d)
{
    give_added(d, MG_OP_SCATTER_ND, mg_grad_in(d, 1));
}

void grad_top_k(struct mg_grad *d)
{
    give_added(d, MG_OP_SCATTER_ELEMENTS, mg_grad_out(d, 1));
}

/* The data's gradient is dy, less what was overwritten; the updates' is read at the indices (which must differ where
 * they overwrite). */
static void give_scatter(struct mg_grad *d, enum mg_op_type scatter, enum mg_op_type gather)
{
    const char *reduction = mg_grad_attr(d, MG_ATTR_REDUCTION)->string;
    mg_value dy = mg_grad_dy(d, 0), indices = mg_grad_in(d, 1), out;
    bool adds = strcmp(reduction, "add") == 0;
    if (!adds && strcmp(reduction, "none") != 0) {
        mg_grad_fail(d, "is differentiable with reduction none or add only");
        return;
    }
    if (mg_grad_wants(d, 0) && !adds) {
        mg_value in[3] = {dy, indices, mg_grad_zeros(d, mg_grad_in(d, 2))};
        mg_grad_emit_like(d, scatter, in, 3, NULL, 0, &out, 1);
        mg_grad_give(d, 0, out);
    } else {
        mg_grad_give(d, 0, dy);
    }
    if (mg_grad_wants(d, 2)) {
        mg_value in[2] = {dy, indices};
        mg_grad_emit_like(d, gather, in, 2, NULL, 0, &out, 1);
        mg_grad_give(d, 2, out);
    }
}

void grad_scatter_elements(struct mg_grad *d)
{
    give_scatter(d, MG_OP_SCATTER_ELEMENTS, MG_OP_GATHER_ELEMENTS);
}

void grad_scatter_nd(struct mg_grad *d)
{
    give_scatter(d, MG_OP_SCATTER_ND, MG_OP_GATHER_ND);
}

void grad_trilu(struct mg_grad *d)
{
    mg_grad_give(d, 0, same_kind(d, mg_grad_dy(d, 0), MG_NONE, NULL, 0));
}

void grad_reverse(struct mg_grad *d)
{
    mg_grad_give(d, 0, same_kind(d, mg_grad_dy(d, 0), MG_NONE, NULL, 0));
}

void grad_roll(struct mg_grad *d)
{
    const struct mg_attr *shifts = mg_grad_attr(d, MG_ATTR_SHIFTS);
    int64_t back[MG_MAX_RANK];
    for (uint32_t i = 0; i < shifts->count; i++)
        back[i] = -shifts->ints[i];
    struct mg_attr attrs[] = {mg_grad_ints(d, MG_ATTR_SHIFTS, back, shifts->count)};
    mg_grad_give(d, 0, same_kind(d, mg_grad_dy(d, 0), MG_NONE, attrs, 1));
}

void grad_reverse_sequence(struct mg_grad *d)
{
    mg_grad_give(d, 0, same_kind(d, mg_grad_dy(d, 0), mg_grad_in(d, 1), NULL, 0));
}
