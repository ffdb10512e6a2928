/* ONNX rules of domain com.microsoft: what ONNX Runtime's optimiser makes of transformers. */
#include <string.h>

#include "formats/onnx_rules.h"

/* tanh's approximation of gelu, of x + bias. */
void onnx_rule_fast_gelu(struct onnx_call *c, int which)
{
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    if (mg_onnx_has(c, 1))
        x = mg_onnx_binary(c, MG_OP_ADD, x, mg_onnx_weight(c, 1));
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_GELU, OPERANDS(x), ATTRS(A_TEXT(APPROXIMATE, "tanh")), 1, NULL);
}

/* Over the last dimension; scale and shift are operands, the shift may be missing. Results: y, mean, rstd. */
static void layer_norm(struct onnx_call *c, mg_value x, uint32_t scale, uint32_t shift, mg_value *out)
{
    const struct mg_attr attrs[] = {A_INT(AXIS, -1), A_REAL(EPSILON, mg_onnx_real(c, "epsilon", 1e-12))};
    bool shifted = mg_onnx_has(c, shift);
    mg_value in[3] = {x, mg_onnx_weight(c, scale), MG_NONE};
    if (shifted)
        in[2] = mg_onnx_weight(c, shift);
    mg_onnx_add(c, MG_OP_LAYER_NORM, in, shifted ? 3 : 1, attrs, 2, 3, out);
    if (!shifted)
        out[0] = mg_onnx_binary(c, MG_OP_MUL, out[0], in[1]);
}

/* (x, skip, scale[, shift[, bias]]) -> y, mean, rstd, x + skip + bias */
void onnx_rule_skip_layer_norm(struct onnx_call *c, int which)
{
    mg_value out[3], sum = mg_onnx_binary(c, MG_OP_ADD, mg_onnx_in(c, 0), mg_onnx_in(c, 1));
    (void)which;
    if (mg_onnx_has(c, 4))
        sum = mg_onnx_binary(c, MG_OP_ADD, sum, mg_onnx_weight(c, 4));
    layer_norm(c, sum, 2, 3, out);
    for (uint32_t i = 0; i < 3 && c->code == MG_OK; i++)
        mg_onnx_result(c, i, out[i]);
    mg_onnx_result(c, 3, sum);
}

static mg_value rows_of(struct onnx_call *c, uint32_t table, uint32_t indices)
{
    return mg_onnx_add(c, MG_OP_GATHER, OPERANDS(mg_onnx_weight(c, table), mg_onnx_in(c, indices)),
                       ATTRS(A_INT(AXIS, 0)), 1, NULL);
}

static mg_value piece(struct onnx_call *c, mg_value x, int64_t axis, int64_t begin, int64_t end)
{
    return mg_onnx_add(c, MG_OP_SLICE, OPERANDS(x),
                       ATTRS(A_INTS(STARTS, &begin, 1), A_INTS(ENDS, &end, 1), A_INTS(AXES, &axis, 1)), 1, NULL);
}

/* (tokens, segments, their tables and that of positions between, scale, shift, mask, positions) -> y, -, sum */
void onnx_rule_embed_layer_norm(struct onnx_call *c, int which)
{
    const struct mg_shape *tokens = mg_onnx_shape(c, 0);
    mg_value out[3], sum = rows_of(c, 2, 0);
    (void)which;
    if (tokens->rank != 2)
        mg_onnx_invalid(c, "tokens must have rank 2");
    mg_value place = mg_onnx_has(c, 8) ? rows_of(c, 3, 8) : piece(c, mg_onnx_weight(c, 3), 0, 0, tokens->dim[1]);
    sum = mg_onnx_binary(c, MG_OP_ADD, sum, place);
    if (mg_onnx_has(c, 1) && mg_onnx_has(c, 4))
        sum = mg_onnx_binary(c, MG_OP_ADD, sum, rows_of(c, 4, 1));
    layer_norm(c, sum, 5, 6, out);
    mg_onnx_result(c, 0, out[0]);
    mg_onnx_result(c, 2, sum);
}

/* ---- attention ---- */

struct heads {
    int64_t batch, queries, past, heads, dim;
    enum mg_dtype dtype;
};

static mg_value head_part(struct onnx_call *c, const struct heads *h, mg_value all, int64_t which)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    int64_t width = h->heads * h->dim;
    const struct mg_shape shape = {.rank = 4, .dim = {h->batch, h->queries, h->heads, h->dim}};
    mg_value x = piece(c, all, 2, which * width, (which + 1) * width);
    return mg_onnx_permute(c, mg_onnx_reshape(c, x, &shape), perm);
}

/* Keys (0) or values (1): those of the past before the new ones. */
static mg_value with_past(struct onnx_call *c, const struct heads *h, mg_value fresh, int64_t which)
{
    const struct mg_shape shape = {.rank = 4, .dim = {h->batch, h->heads, h->past, h->dim}};
    if (!mg_onnx_has(c, 4))
        return fresh;
    mg_value past = mg_onnx_reshape(c, piece(c, mg_onnx_in(c, 4), 0, which, which + 1), &shape);
    return mg_onnx_add(c, MG_OP_CONCAT, OPERANDS(past, fresh), ATTRS(A_INT(AXIS, 2)), 1, NULL);
}

/* What is added to the scores: a large negative number where a key is masked or lies in the future. */
static mg_value attention_mask(struct onnx_call *c, const struct heads *h)
{
    double never = mg_onnx_real(c, "mask_filter_value", -10000);
    int64_t keys = h->past + h->queries;
    mg_value mask = MG_NONE;
    if (mg_onnx_has(c, 3)) {
        const struct mg_shape *own = mg_onnx_shape(c, 3);
        const struct mg_shape shape = {.rank = 4, .dim = {h->batch, 1, own->rank == 3 ? h->queries : 1, keys}};
        if (own->rank < 2 || own->rank > 3 || mg_shape_elements(own) != mg_shape_elements(&shape))
            mg_onnx_unsupported(c, "a mask that has not an entry for each key");
        mg_value zero = mg_onnx_scalar(c, 0, mg_onnx_dtype_of(c, 3));
        mask = mg_onnx_cast(c, mg_onnx_binary(c, MG_OP_GREATER, mg_onnx_in(c, 3), zero), h->dtype);
        mask = mg_onnx_affine(c, mg_onnx_reshape(c, mask, &shape), -never, never);
    }
    if (!mg_onnx_int(c, "unidirectional", 0) || h->queries == 1)
        return mask;
    const int64_t plane[] = {h->queries, keys};
    mg_value future =
        mg_onnx_add(c, MG_OP_FILL, NULL, 0,
                    ATTRS(A_INTS(SHAPE, plane, 2), A_TEXT(TO, mg_dtype_name(h->dtype)), A_REAL(VALUE, never)), 1, NULL);
    future =
        mg_onnx_add(c, MG_OP_TRILU, OPERANDS(future), ATTRS(A_INT(UPPER, 1), A_INT(DIAGONAL, h->past + 1)), 1, NULL);
    return mask == MG_NONE ? future : mg_onnx_binary(c, MG_OP_ADD, mask, future);
}

static bool read_heads(struct onnx_call *c, struct heads *h)
{
    const struct mg_shape *x = mg_onnx_shape(c, 0), *w = mg_onnx_shape(c, 1);
    h->heads = mg_onnx_int(c, "num_heads", 0);
    h->dtype = mg_onnx_dtype_of(c, 0);
    if (mg_onnx_attr(c, "qkv_hidden_sizes") || mg_onnx_int(c, "do_rotary", 0) || mg_onnx_has(c, 5) ||
        mg_onnx_int(c, "past_present_share_buffer", 0))
        mg_onnx_unsupported(c, "hidden sizes, rotary positions, a bias of scores, or a shared buffer");
    if (x->rank != 3 || w->rank != 2 || h->heads < 1 || w->dim[1] % (3 * h->heads))
        mg_onnx_invalid(c, "%lld heads do not divide its weights", (long long)h->heads);
    if (mg_onnx_has(c, 4) && mg_onnx_shape(c, 4)->rank != 5)
        mg_onnx_invalid(c, "its past must have rank 5");
    if (c->code != MG_OK)
        return false;
    h->batch = x->dim[0];
    h->queries = x->dim[1];
    h->dim = w->dim[1] / 3 / h->heads;
    h->past = mg_onnx_has(c, 4) ? mg_onnx_shape(c, 4)->dim[3] : 0;
    return true;
}

/* (x, weights of queries, keys and values[, their bias, mask, past]) -> y, present */
void onnx_rule_microsoft_attention(struct onnx_call *c, int which)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    struct heads h = {.past = 0};
    (void)which;
    if (!read_heads(c, &h))
        return;
    mg_value all = mg_onnx_binary(c, MG_OP_MATMUL, mg_onnx_in(c, 0), mg_onnx_weight(c, 1));
    if (mg_onnx_has(c, 2))
        all = mg_onnx_binary(c, MG_OP_ADD, all, mg_onnx_weight(c, 2));
    mg_value in[4] = {head_part(c, &h, all, 0), with_past(c, &h, head_part(c, &h, all, 1), 0),
                      with_past(c, &h, head_part(c, &h, all, 2), 1), attention_mask(c, &h)};
    mg_value out[2];
    mg_onnx_add(c, MG_OP_ATTENTION, in, in[3] == MG_NONE ? 3 : 4, ATTRS(A_REAL(SCALE, mg_onnx_real(c, "scale", 0))), 2,
                out);
    const struct mg_shape flat = {.rank = 3, .dim = {h.batch, h.queries, h.heads * h.dim}};
    mg_onnx_result(c, 0, mg_onnx_reshape(c, mg_onnx_permute(c, out[0], perm), &flat));
    if (c->out_count < 2)
        return;
    const struct mg_shape one = {.rank = 5, .dim = {1, h.batch, h.heads, h.past + h.queries, h.dim}};
    mg_value keys = mg_onnx_reshape(c, in[1], &one), values = mg_onnx_reshape(c, in[2], &one);
    mg_onnx_result(c, 1, mg_onnx_add(c, MG_OP_CONCAT, OPERANDS(keys, values), ATTRS(A_INT(AXIS, 0)), 1, NULL));
}
