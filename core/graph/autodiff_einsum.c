/* Gradient rules: einsum, and windows as columns. */
#include <string.h>

#include "graph/autodiff_priv.h"
#include "graph/einsum.h"

static bool has_letter_twice(const struct mg_einsum *e)
{
    for (uint32_t i = 0; i <= e->operands; i++)
        for (const char *c = e->letters[i]; *c; c++)
            if (mg_einsum_at(c + 1, *c) >= 0)
                return true;
    return false;
}

static bool occurs_elsewhere(const struct mg_einsum *e, uint32_t operand, char letter)
{
    for (uint32_t i = 0; i <= e->operands; i++)
        if (i != operand && mg_einsum_at(e->letters[i], letter) >= 0)
            return true;
    return false;
}

/* Operand i's gradient: dy and the other operands summed to those of i's letters that they have; along the others, over
 * which operand i alone was summed, it is constant. */
static void give_einsum(struct mg_grad *d, const struct mg_einsum *e, uint32_t operand)
{
    mg_value in[MG_EINSUM_OPERANDS], sum;
    char kept[MG_MAX_RANK + 1] = "";
    struct mg_shape whole = *mg_grad_shape(d, mg_grad_in(d, operand)), present = whole;
    const char *equation = MG_EINSUM_RESULT(e), *letters = e->letters[operand];
    uint32_t count = 0, length = 0;
    in[count++] = mg_grad_dy(d, 0);
    for (uint32_t i = 0; i < e->operands; i++) {
        if (i == operand)
            continue;
        in[count++] = mg_grad_in(d, i);
        equation = mg_arena_printf(d->arena, "%s,%s", equation, e->letters[i]);
    }
    for (uint32_t l = 0; letters[l]; l++) {
        if (occurs_elsewhere(e, operand, letters[l]))
            kept[length++] = letters[l];
        else
            present.dim[l] = 1;
    }
    struct mg_attr attr[] = {mg_grad_text(MG_ATTR_EQUATION, mg_arena_printf(d->arena, "%s->%s", equation, kept))};
    mg_grad_emit(d, MG_OP_EINSUM, in, count, attr, 1, &sum, 1);
    if (length < whole.rank) {
        const struct mg_shape *got = mg_grad_shape(d, sum);
        for (uint32_t l = 0, k = 0; letters[l]; l++)
            if (k < got->rank && mg_einsum_at(kept, letters[l]) >= 0)
                present.dim[l] = got->dim[k++];
        sum = mg_grad_reshape(d, sum, &present);
        for (uint32_t l = 0; l < whole.rank; l++)
            whole.dim[l] = present.dim[l] > whole.dim[l] ? present.dim[l] : whole.dim[l];
        sum = mg_grad_expand(d, sum, &whole);
    }
    mg_grad_give(d, operand, sum);
}

void grad_einsum(struct mg_grad *d)
{
    struct mg_einsum e;
    mg_einsum_parse(mg_grad_attr(d, MG_ATTR_EQUATION)->string, &e);
    if (has_letter_twice(&e)) {
        mg_grad_fail(d, "has a letter twice in a term, and is not differentiable so");
        return;
    }
    for (uint32_t i = 0; i < e.operands; i++)
        if (mg_grad_wants(d, i))
            give_einsum(d, &e, i);
}

void grad_im2col(struct mg_grad *d)
{
    const struct mg_shape *x = mg_grad_shape(d, mg_grad_in(d, 0));
    mg_value dy = mg_grad_dy(d, 0), out;
    struct mg_attr sizes[] = {mg_grad_ints(d, MG_ATTR_SPATIAL, x->dim + 2, x->rank - 2)};
    mg_grad_emit_like(d, MG_OP_COL2IM, &dy, 1, sizes, 1, &out, 1);
    mg_grad_give(d, 0, out);
}

void grad_col2im(struct mg_grad *d)
{
    mg_value dy = mg_grad_dy(d, 0), out;
    mg_grad_emit_like(d, MG_OP_IM2COL, &dy, 1, NULL, 0, &out, 1);
    mg_grad_give(d, 0, out);
}
