/* Attention (Vaswani et al., "Attention Is All You Need", 2017), with grouped heads (Ainslie et al., 2023)
 * and rotary positions (Su et al., 2021) where asked for. */
#include "zoo/attention.h"

#include <math.h>
#include <string.h>

bool net_wants_fused_attention(struct net *net)
{
    const char *text = net_option_text(net, "attention");
    if (strcmp(text, "explicit") != 0 && strcmp(text, "fused") != 0 && *text)
        net_fail(net, "/attention", "attention is explicit or fused, not \"%s\"", text);
    return net->real && strcmp(text, "fused") == 0;
}

mg_value net_causal_mask(struct net *net, int64_t seq_len)
{
    if (!net->real || net_wants_fused_attention(net))
        return MG_NONE;
    return net_resident(net, "causal_mask", MG_KIND_CONSTANT, DIMS(seq_len, seq_len));
}

/* [b, s, h] -> [b, heads, s, d], or [b, groups, each, s, d] where each > 0 heads share a key. */
static mg_value split_heads(struct net *net, const char *name, mg_value x, int64_t groups, int64_t each)
{
    struct mg_shape shape = net_shape(net, x);
    const char *outer = net_enter(net, "%s", name);
    if (each == 0) {
        x = net_reshape(net, "split", x, DIMS(shape.dim[0], shape.dim[1], groups, shape.dim[2] / groups));
        x = net_transpose(net, "heads", x, DIMS(0, 2, 1, 3));
    } else {
        int64_t size = shape.dim[2] / (groups * each);
        x = net_reshape(net, "split", x, DIMS(shape.dim[0], shape.dim[1], groups, each, size));
        x = net_transpose(net, "heads", x, DIMS(0, 2, 3, 1, 4));
    }
    net_leave(net, outer);
    return x;
}

/* x cos + rotate(x) sin, where rotate swaps the halves and negates what was the second. */
static mg_value rotate(struct net *net, const char *name, mg_value x, const struct attention *attention)
{
    struct mg_shape shape = net_shape(net, x);
    if (attention->cosine == MG_NONE || net->code)
        return x;
    const char *outer = net_enter(net, "%s", name);
    int64_t axis = shape.rank - 1, size = shape.dim[axis];
    mg_value second = net_unary(net, "neg", MG_OP_NEG, net_slice(net, "second", x, axis, size / 2, size));
    mg_value halves[2] = {second, net_slice(net, "first", x, axis, 0, size / 2)};
    mg_value turned = net_binary(net, "sine", MG_OP_MUL, net_concat(net, "turned", axis, 2, halves), attention->sine);
    x = net_binary(net, "add", MG_OP_ADD, net_binary(net, "cosine", MG_OP_MUL, x, attention->cosine), turned);
    net_leave(net, outer);
    return x;
}

static mg_value explicit_attention(struct net *net, mg_value q, mg_value k, mg_value v,
                                   const struct attention *attention)
{
    struct mg_shape shape = net_shape(net, q);
    double size = shape.rank ? (double)shape.dim[shape.rank - 1] : 1;
    mg_value scores = net_matmul(net, "scores", q, k, true);
    if (!(attention->unscaled && net->real))
        scores = net_scale(net, "div", scores, 1 / sqrt(size));
    if (attention->mask != MG_NONE)
        scores = net_binary(net, "mask", MG_OP_ADD, scores, attention->mask);
    scores = net_dropout(net, "dropout", net_softmax(net, "softmax", scores));
    return net_matmul(net, "values", scores, v, false);
}

static mg_value fused_attention(struct net *net, mg_value q, mg_value k, mg_value v, const struct attention *attention)
{
    mg_value in[4] = {q, k, v, attention->mask}, out[2];
    struct mg_attr attrs[] = {net_real(MG_ATTR_SCALE, attention->unscaled ? 1 : 0),
                              net_int(MG_ATTR_CAUSAL, attention->causal)};
    return net_apply(net, "attention", MG_OP_ATTENTION, attention->mask == MG_NONE ? 3 : 4, in, 2, attrs, 2, out);
}

/* [b, heads..., s, d] -> [b, s, h] */
static mg_value merge_heads(struct net *net, mg_value x, int64_t hidden)
{
    struct mg_shape shape = net_shape(net, x);
    if (shape.rank == 5)
        x = net_transpose(net, "merge", x, DIMS(0, 3, 1, 2, 4));
    else
        x = net_transpose(net, "merge", x, DIMS(0, 2, 1, 3));
    return net_reshape(net, "merged", x, DIMS(shape.dim[0], shape.dim[shape.rank == 5 ? 3 : 2], hidden));
}

mg_value net_attention(struct net *net, mg_value x, const struct attention *attention)
{
    const char *outer = net_enter(net, "attention");
    int64_t heads = attention->heads, groups = attention->kv_heads ? attention->kv_heads : heads;
    int64_t hidden = net_dim(net, x, 2);
    bool fused = net_wants_fused_attention(net), grouped = groups != heads && !fused;
    if (hidden % heads != 0 || heads % groups != 0)
        net_fail(net, "/heads", "%d features do not divide into %d heads in %d groups", (int)hidden, (int)heads,
                 (int)groups);
    int64_t shared = net->code ? 1 : hidden / heads * groups;
    mg_value q = net_linear(net, "q", x, hidden, attention->qkv_bias);
    mg_value k = net_linear(net, "k", x, shared, attention->qkv_bias);
    mg_value v = net_linear(net, "v", x, shared, attention->qkv_bias);
    q = grouped ? split_heads(net, "q", q, groups, heads / groups) : split_heads(net, "q", q, heads, 0);
    k = rotate(net, "k", split_heads(net, "k", k, groups, grouped), attention);
    v = split_heads(net, "v", v, groups, grouped);
    q = rotate(net, "q", q, attention);
    x = fused ? fused_attention(net, q, k, v, attention) : explicit_attention(net, q, k, v, attention);
    x = net_linear(net, "out", merge_heads(net, x, hidden), hidden, attention->out_bias);
    net_leave(net, outer);
    return x;
}

/* ---- blocks ---- */

mg_value net_mlp(struct net *net, mg_value x, int64_t ffn, enum mg_op_type activation)
{
    const char *outer = net_enter(net, "mlp");
    int64_t hidden = net_dim(net, x, 2);
    x = net_activation(net, "act", net_linear(net, "fc1", x, ffn, true), activation);
    x = net_linear(net, "fc2", x, hidden, true);
    net_leave(net, outer);
    return x;
}

static mg_value gated_mlp(struct net *net, mg_value x, int64_t ffn)
{
    const char *outer = net_enter(net, "mlp");
    int64_t hidden = net_dim(net, x, 2);
    mg_value gate = net_unary(net, "act", MG_OP_SILU, net_linear(net, "gate", x, ffn, true));
    x = net_binary(net, "mul", MG_OP_MUL, gate, net_linear(net, "up", x, ffn, true));
    x = net_linear(net, "down", x, hidden, true);
    net_leave(net, outer);
    return x;
}

mg_value net_block(struct net *net, mg_value x, const struct block *block)
{
    mg_value y = net_attention(net, net_layer_norm(net, "norm1", x, block->epsilon), &block->attention);
    x = net_binary(net, "add1", MG_OP_ADD, x, net_dropout(net, "dropout1", y));
    y = net_layer_norm(net, "norm2", x, block->epsilon);
    y = block->gated && net->real ? gated_mlp(net, y, block->ffn) : net_mlp(net, y, block->ffn, block->activation);
    return net_binary(net, "add2", MG_OP_ADD, x, net_dropout(net, "dropout2", y));
}

/* ---- embeddings ---- */

mg_value net_embedding(struct net *net, const char *name, mg_value indices, int64_t rows, int64_t features,
                       mg_value *table)
{
    const char *outer = net_enter(net, "%s", name);
    mg_value weight = net_resident(net, "weight", MG_KIND_WEIGHT, DIMS(rows, features));
    if (table)
        *table = weight;
    mg_value x = net_gather(net, "", weight, indices);
    net_leave(net, outer);
    return x;
}

mg_value net_positions(struct net *net, const char *name, int64_t rows, int64_t seq_len, int64_t features)
{
    const char *outer = net_enter(net, "%s", name);
    rows = rows > seq_len ? rows : seq_len;
    mg_value x = net_resident(net, "weight", MG_KIND_WEIGHT, DIMS(rows, features));
    if (rows > seq_len)
        x = net_slice(net, "", x, 0, 0, seq_len);
    net_leave(net, outer);
    return x;
}

mg_value net_token_head(struct net *net, mg_value x, mg_value table, bool bias)
{
    const char *outer = net_enter(net, "head");
    int64_t tokens = net_dim(net, x, 0) * net_dim(net, x, 1), vocabulary = net_dim(net, table, 0);
    x = net_matmul(net, "logits", x, table, true);
    if (bias)
        x = net_binary(net, "add", MG_OP_ADD, x, net_resident(net, "bias", MG_KIND_WEIGHT, DIMS(vocabulary)));
    x = net_reshape(net, "flat", x, DIMS(tokens, vocabulary));
    net_leave(net, outer);
    return x;
}
