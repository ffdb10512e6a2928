/* Decoders: GPT-Neo (Black et al., 2021; its local attention differs from the global one only in the mask)
 * and BTLM (Dey et al., "BTLM-3B-8K", 2023: linear position biases, gated feed-forward layers). */
#include "zoo/attention.h"

struct gpt {
    int64_t positions; /* learned; 0: linear biases on the scores instead (ALiBi) */
    bool gated, qkv_bias, unscaled;
};

static mg_value embed(struct net *net, const struct gpt *config, int64_t batch, int64_t seq_len, int64_t hidden,
                      mg_value *table)
{
    mg_value ids = net_input(net, "input_ids", MG_DTYPE_I64, DIMS(batch, seq_len));
    mg_value x = net_embedding(net, "wte", ids, net_option(net, "vocabulary", 1, 1 << 24), hidden, table);
    if (config->positions)
        x = net_binary(net, "add", MG_OP_ADD, x, net_positions(net, "wpe", config->positions, seq_len, hidden));
    return net_dropout(net, "dropout", x);
}

/* What is added to the scores: hides later tokens, and where positions are not learned tells distances. */
static mg_value score_mask(struct net *net, const struct gpt *config, int64_t heads, int64_t seq_len)
{
    if (config->positions)
        return net_causal_mask(net, seq_len);
    return net->real ? net_resident(net, "alibi", MG_KIND_CONSTANT, DIMS(heads, seq_len, seq_len)) : MG_NONE;
}

static void build_gpt(struct net *net, const void *context)
{
    const struct gpt *config = context;
    int64_t batch = net_option(net, "batch", 1, 1 << 20), seq_len = net_option(net, "seq_len", 1, 1 << 20);
    int64_t layers = net_option(net, "layers", 1, 10000), hidden = net_option(net, "hidden", 1, 1 << 20);
    int64_t heads = net_option(net, "heads", 1, 1 << 16);
    struct block block = {.attention = {.heads = heads,
                                        .qkv_bias = config->qkv_bias,
                                        .out_bias = true,
                                        .causal = true,
                                        .unscaled = config->unscaled,
                                        NO_ATTENTION_EXTRAS},
                          .ffn = config->gated && net->real ? hidden * 8 / 3 : 4 * hidden,
                          .gated = config->gated,
                          .activation = MG_OP_GELU,
                          .epsilon = 1e-5};
    mg_value table = MG_NONE;
    mg_value x = net->real ? embed(net, config, batch, seq_len, hidden, &table)
                           : net_input(net, "x", net->dtype, DIMS(batch, seq_len, hidden));
    block.attention.mask = score_mask(net, config, heads, seq_len);
    for (int64_t i = 0; i < layers; i++) {
        const char *outer = net_enter(net, "h.%d", (int)i);
        x = net_block(net, x, &block);
        net_leave(net, outer);
    }
    if (net->real)
        x = net_token_head(net, net_layer_norm(net, "ln_f", x, 1e-5), table, false);
    net_output(net, x);
}

#define GPT(name, title, layers, hidden, heads, ...)                                                                   \
    ZOO_NETWORK(name, title, build_gpt, (&(const struct gpt)__VA_ARGS__), ZOO_BATCH("32"), ZOO_SEQ_LEN("512"),         \
                {"layers", layers, "blocks"}, {"hidden", hidden, "features of a token"},                               \
                {"heads", heads, "attention heads"}, ZOO_VOCABULARY("50257"), ZOO_DROPOUT("0"), ZOO_ATTENTION,         \
                ZOO_COMMON("bf16"))

static const struct zoo_network networks[] = {
    GPT("gpt-neo-125m", "GPT-Neo 125M", "12", "768", "12", {2048, false, false, true}),
    GPT("gpt-neo-1.3b", "GPT-Neo 1.3B", "24", "2048", "16", {2048, false, false, true}),
    GPT("gpt-neo-2.7b", "GPT-Neo 2.7B", "32", "2560", "20", {2048, false, false, true}),
    GPT("btlm-3b", "BTLM 3B", "32", "2560", "32", {0, true, true, false}),
};
ZOO_FAMILY(gpt);
