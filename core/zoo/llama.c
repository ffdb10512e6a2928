/* Llama-like decoders (Touvron et al., 2023): RMS norm first, rotary positions, grouped heads, SwiGLU. */
#include "zoo/attention.h"

static mg_value rms_norm(struct net *net, const char *name, mg_value x)
{
    const char *outer = net_enter(net, "%s", name);
    mg_value in[2] = {x, MG_NONE}, out[2];
    if (net->real)
        in[1] = net_resident(net, "weight", MG_KIND_WEIGHT, DIMS(net_dim(net, x, 2)));
    x = net_apply(net, "", MG_OP_RMS_NORM, net->real ? 2 : 1, in, 0, NULL, 2, out);
    net_leave(net, outer);
    return x;
}

static mg_value swiglu(struct net *net, mg_value x, int64_t ffn)
{
    const char *outer = net_enter(net, "mlp");
    int64_t hidden = net_dim(net, x, 2);
    mg_value gate = net_activation(net, "act", net_linear(net, "gate", x, ffn, false), MG_OP_SILU);
    x = net_binary(net, "mul", MG_OP_MUL, gate, net_linear(net, "up", x, ffn, false));
    x = net_linear(net, "down", x, hidden, false);
    net_leave(net, outer);
    return x;
}

static mg_value decoder_layer(struct net *net, mg_value x, const struct attention *attention, int64_t ffn)
{
    mg_value y = net_attention(net, rms_norm(net, "norm1", x), attention);
    x = net_binary(net, "add1", MG_OP_ADD, x, y);
    y = swiglu(net, rms_norm(net, "norm2", x), ffn);
    return net_binary(net, "add2", MG_OP_ADD, x, y);
}

static struct attention read_attention(struct net *net, int64_t seq_len, int64_t hidden)
{
    struct attention attention = {.heads = net_option(net, "heads", 1, 1 << 16),
                                  .kv_heads = net_option(net, "kv_heads", 1, 1 << 16),
                                  .causal = true,
                                  NO_ATTENTION_EXTRAS};
    int64_t size = hidden / attention.heads;
    if (size % 2 != 0)
        net_fail(net, "/heads", "rotary positions need heads of an even size, not %d", (int)size);
    attention.mask = net_causal_mask(net, seq_len);
    const char *outer = net_enter(net, "rotary");
    attention.cosine = net_resident(net, "cosine", MG_KIND_CONSTANT, DIMS(seq_len, size));
    attention.sine = net_resident(net, "sine", MG_KIND_CONSTANT, DIMS(seq_len, size));
    net_leave(net, outer);
    return attention;
}

static void build_llama(struct net *net, const void *context)
{
    (void)context;
    int64_t batch = net_option(net, "batch", 1, 1 << 20), seq_len = net_option(net, "seq_len", 1, 1 << 20);
    int64_t layers = net_option(net, "layers", 1, 10000), hidden = net_option(net, "hidden", 1, 1 << 20);
    int64_t ffn = net_option(net, "ffn", 1, 1 << 22), vocabulary = net_option(net, "vocabulary", 1, 1 << 24);
    mg_value x, table = MG_NONE;
    if (net->real) {
        x = net_input(net, "input_ids", MG_DTYPE_I64, DIMS(batch, seq_len));
        x = net_embedding(net, "embed", x, vocabulary, hidden, &table);
    } else {
        x = net_input(net, "x", net->dtype, DIMS(batch, seq_len, hidden));
    }
    struct attention attention = read_attention(net, seq_len, hidden);
    for (int64_t i = 0; i < layers; i++) {
        const char *outer = net_enter(net, "layers.%d", (int)i);
        x = decoder_layer(net, x, &attention, ffn);
        net_leave(net, outer);
    }
    if (net->real)
        x = net_token_head(net, rms_norm(net, "norm", x), table, false);
    net_output(net, x);
}

#define LLAMA(name, title, batch, seq_len, layers, hidden, heads, kv_heads, ffn, vocabulary)                           \
    ZOO_NETWORK(name, title, build_llama, NULL, ZOO_BATCH(batch), ZOO_SEQ_LEN(seq_len), {"layers", layers, "blocks"},  \
                {"hidden", hidden, "features of a token"}, {"heads", heads, "attention heads"},                        \
                {"kv_heads", kv_heads, "heads of keys and values; a divisor of heads"},                                \
                {"ffn", ffn, "features inside the feed-forward layers"}, ZOO_VOCABULARY(vocabulary), ZOO_ATTENTION,    \
                ZOO_COMMON("bf16"))

static const struct zoo_network networks[] = {
    LLAMA("llama-tiny", "Llama-like decoder, 15M parameters", "32", "256", "6", "288", "6", "2", "768", "32000"),
    LLAMA("llama-1b", "Llama-like decoder, 1.2B parameters", "8", "1024", "16", "2048", "32", "8", "8192", "128256"),
    LLAMA("llama-7b", "Llama-like decoder, 6.6B parameters", "1", "2048", "32", "4096", "32", "32", "11008", "32000"),
};
ZOO_FAMILY(llama);
