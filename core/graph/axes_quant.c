/* Iteration axes of operators on quantized numbers, of columns and of determinants. */
#include "graph/ops_priv.h"

/* A vector of parameters of `length` entries goes along with the axis; a single number does not. */
static void parameter_in(struct mg_axes *t, uint32_t axis, uint32_t operand, int64_t length)
{
    if (operand < t->desc->in_count && mg_shape_elements(&t->desc->in_shape[operand]) == length)
        mg_axes_in(t, axis, operand, 0, 1);
}

void mg_axes_quantize(struct mg_axes *t)
{
    const struct mg_shape *x = &t->desc->in_shape[0];
    bool vectors = mg_shape_elements(&t->desc->in_shape[1]) != 1;
    for (uint32_t d = 0; d < x->rank; d++) {
        uint32_t a = mg_axes_open(t, "d", (int)d, x->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        mg_axes_out(t, a, 0, d, 1);
        for (uint32_t i = 1; i < 3 && vectors && d == mg_desc_int(t->desc, MG_ATTR_AXIS); i++)
            parameter_in(t, a, i, x->dim[d]);
    }
}

/* Batches, rows and columns; the depth adds up where nothing is rounded afterwards. */
void mg_axes_quantized_matmul(struct mg_axes *t)
{
    const struct mg_op_desc *desc = t->desc;
    const struct mg_shape *out = &desc->out_shape[0];
    bool rounds = desc->type == MG_OP_QLINEAR_MATMUL;
    uint32_t operands[2] = {0, rounds ? 3 : 1};
    for (uint32_t d = 0; d + 2 < out->rank; d++) {
        uint32_t a = mg_axes_open(t, "b", (int)d, out->dim[d], MG_COMBINE_NONE);
        for (uint32_t i = 0; i < 2; i++) {
            const struct mg_shape *in = &desc->in_shape[operands[i]];
            int64_t own = (int64_t)d + in->rank - out->rank;
            if (own >= 0 && in->dim[own] == out->dim[d])
                mg_axes_in(t, a, operands[i], own, 1);
        }
        mg_axes_out(t, a, 0, d, 1);
    }
    for (uint32_t i = 0; i < 2; i++) { /* rows of a, columns of b */
        const struct mg_shape *in = &desc->in_shape[operands[i]];
        uint32_t a = mg_axes_open(t, i ? "n" : "m", -1, out->dim[out->rank - 2 + i], MG_COMBINE_NONE);
        mg_axes_in(t, a, operands[i], (int64_t)in->rank - 2 + i, 1);
        mg_axes_out(t, a, 0, (int64_t)out->rank - 2 + i, 1);
        for (uint32_t p = 0; p < (rounds ? 2 : 1); p++)
            parameter_in(t, a, rounds ? operands[i] + 1 + p : 2 + i, out->dim[out->rank - 2 + i]);
    }
    if (rounds)
        return;
    const struct mg_shape *a = &desc->in_shape[0], *b = &desc->in_shape[1];
    uint32_t k = mg_axes_open(t, "k", -1, a->dim[a->rank - 1], MG_COMBINE_SUM);
    mg_axes_in(t, k, 0, (int64_t)a->rank - 1, 1);
    mg_axes_in(t, k, 1, (int64_t)b->rank - 2, 1);
}

/* Samples, and without groups the features. */
void mg_axes_quantized_conv(struct mg_axes *t)
{
    const struct mg_op_desc *desc = t->desc;
    bool rounds = desc->type == MG_OP_QLINEAR_CONV;
    int64_t features = desc->out_shape[0].dim[1];
    uint32_t w = rounds ? 3 : 1, a = mg_axes_open(t, "n", -1, desc->in_shape[0].dim[0], MG_COMBINE_NONE);
    mg_axes_in(t, a, 0, 0, 1);
    mg_axes_out(t, a, 0, 0, 1);
    if (mg_desc_int(desc, MG_ATTR_GROUP) != 1)
        return;
    a = mg_axes_open(t, "f", -1, features, MG_COMBINE_NONE);
    mg_axes_in(t, a, w, 0, 1);
    mg_axes_out(t, a, 0, 1, 1);
    parameter_in(t, a, rounds ? 4 : 3, features);
    parameter_in(t, a, rounds ? 5 : MG_ANY, features);
    parameter_in(t, a, rounds ? 8 : MG_ANY, features);
}

void mg_axes_det(struct mg_axes *t)
{
    const struct mg_shape *out = &t->desc->out_shape[0];
    for (uint32_t d = 0; d < out->rank; d++) {
        uint32_t a = mg_axes_open(t, "d", (int)d, out->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        mg_axes_out(t, a, 0, d, 1);
    }
}
