/* BERT encoders (Devlin et al., 2019; the small sizes by Turc et al., 2019). Real: embeddings, blocks with
 * normalisation last, and the masked-token head; paper: blocks with normalisation first, nothing else. */
#include "zoo/attention.h"

enum { POSITIONS = 512 };
static const double epsilon = 1e-12;

static mg_value embed(struct net *net, int64_t batch, int64_t seq_len, int64_t hidden, mg_value *table)
{
    mg_value ids = net_input(net, "input_ids", MG_DTYPE_I64, DIMS(batch, seq_len));
    mg_value types = net_input(net, "token_type_ids", MG_DTYPE_I64, DIMS(batch, seq_len));
    const char *outer = net_enter(net, "embeddings");
    mg_value x = net_embedding(net, "word", ids, net_option(net, "vocabulary", 1, 1 << 24), hidden, table);
    x = net_binary(net, "add1", MG_OP_ADD, x, net_embedding(net, "token_type", types, 2, hidden, NULL));
    x = net_binary(net, "add2", MG_OP_ADD, x, net_positions(net, "position", POSITIONS, seq_len, hidden));
    x = net_dropout(net, "dropout", net_layer_norm(net, "norm", x, epsilon));
    net_leave(net, outer);
    return x;
}

static mg_value norm_last_block(struct net *net, mg_value x, const struct block *block)
{
    mg_value y = net_dropout(net, "dropout1", net_attention(net, x, &block->attention));
    x = net_layer_norm(net, "norm1", net_binary(net, "add1", MG_OP_ADD, x, y), epsilon);
    y = net_dropout(net, "dropout2", net_mlp(net, x, block->ffn, MG_OP_GELU));
    return net_layer_norm(net, "norm2", net_binary(net, "add2", MG_OP_ADD, x, y), epsilon);
}

static mg_value predict_tokens(struct net *net, mg_value x, int64_t hidden, mg_value table)
{
    const char *outer = net_enter(net, "transform");
    x = net_unary(net, "act", MG_OP_GELU, net_linear(net, "dense", x, hidden, true));
    x = net_layer_norm(net, "norm", x, epsilon);
    net_leave(net, outer);
    return net_token_head(net, x, table, true);
}

static void build_bert(struct net *net, const void *context)
{
    (void)context;
    int64_t batch = net_option(net, "batch", 1, 1 << 20), seq_len = net_option(net, "seq_len", 1, 1 << 20);
    int64_t layers = net_option(net, "layers", 1, 10000), hidden = net_option(net, "hidden", 1, 1 << 20);
    struct block block = {.attention = {.heads = net_option(net, "heads", 1, 1 << 16),
                                        .qkv_bias = true,
                                        .out_bias = true,
                                        NO_ATTENTION_EXTRAS},
                          .ffn = 4 * hidden,
                          .epsilon = epsilon};
    mg_value x, table = MG_NONE;
    if (net->real) {
        x = embed(net, batch, seq_len, hidden, &table);
        block.attention.mask = net_input(net, "attention_mask", net->dtype, DIMS(batch, 1, 1, seq_len));
    } else {
        x = net_input(net, "x", net->dtype, DIMS(batch, seq_len, hidden));
    }
    for (int64_t i = 0; i < layers; i++) {
        const char *outer = net_enter(net, "encoder.%d", (int)i);
        x = net->real ? norm_last_block(net, x, &block) : net_block(net, x, &block);
        net_leave(net, outer);
    }
    net_output(net, net->real ? predict_tokens(net, x, hidden, table) : x);
}

#define BERT(name, title, layers, hidden, heads)                                                                       \
    ZOO_NETWORK(name, title, build_bert, NULL, ZOO_BATCH("32"), ZOO_SEQ_LEN("512"), {"layers", layers, "blocks"},      \
                {"hidden", hidden, "features of a token"}, {"heads", heads, "attention heads"},                        \
                ZOO_VOCABULARY("30522"), ZOO_DROPOUT("0.1"), ZOO_ATTENTION, ZOO_COMMON("f32"))

static const struct zoo_network networks[] = {
    BERT("bert-tiny", "BERT tiny", "2", "128", "2"),   BERT("bert-mini", "BERT mini", "4", "256", "4"),
    BERT("bert-small", "BERT small", "4", "512", "8"), BERT("bert-medium", "BERT medium", "8", "512", "8"),
    BERT("bert-base", "BERT base", "12", "768", "12"), BERT("bert-large", "BERT large", "24", "1024", "16"),
};
ZOO_FAMILY(bert);
