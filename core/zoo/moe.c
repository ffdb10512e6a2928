/* A decoder with mixtures of experts: in every k-th block a router sends each token to one of several feed-forward
 * networks (Fedus et al., "Switch Transformers", 2022). An expert takes up to `capacity` tokens of a sequence, a number
 * known beforehand; tokens beyond it pass by on the residual path. Tokens are moved by products with one-hot matrices,
 * as Lepikhin et al. ("GShard", 2021) do, or by index. */
#include "zoo/attention.h"

#include <math.h>
#include <string.h>

enum { POSITIONS = 1024 };

struct mixture {
    int64_t experts, capacity, ffn;
    bool by_index;
};

/* Where tokens go: for each token of [b, s] the expert and its place there. */
struct route {
    mg_value gate;   /* [b, s, 1] probability of the chosen expert */
    mg_value expert; /* [b, s, 1], i64 */
    mg_value chosen; /* [b, s, e], bool */
    mg_value place;  /* [b, s, 1], i64 */
};

/* ---- small parts ---- */

static mg_value with_axis(struct net *net, const char *name, enum mg_op_type type, mg_value x, int64_t axis)
{
    struct mg_attr attr = net_int(MG_ATTR_AXIS, axis);
    return net_apply(net, name, type, 1, &x, 1, &attr, 1, NULL);
}

static mg_value cast(struct net *net, const char *name, mg_value x, enum mg_dtype dtype)
{
    struct mg_attr to = net_text(MG_ATTR_TO, mg_dtype_name(dtype));
    return net_apply(net, name, MG_OP_CAST, 1, &x, 1, &to, 1, NULL);
}

static mg_value reduced(struct net *net, const char *name, enum mg_op_type type, mg_value x)
{
    int64_t last = -1;
    struct mg_attr axes = net_ints(MG_ATTR_AXES, 1, &last);
    return net_apply(net, name, type, 1, &x, 1, &axes, 1, NULL);
}

static mg_value count_up(struct net *net, const char *name, int64_t size, enum mg_dtype dtype)
{
    struct mg_attr attrs[] = {net_int(MG_ATTR_SIZE, size), net_text(MG_ATTR_TO, mg_dtype_name(dtype))};
    return net_apply(net, name, MG_OP_IOTA, 0, NULL, 2, attrs, 1, NULL);
}

static mg_value filled(struct net *net, const char *name, uint32_t rank, const int64_t *dim, enum mg_dtype dtype,
                       double value)
{
    struct mg_attr attrs[] = {net_ints(MG_ATTR_SHAPE, rank, dim), net_text(MG_ATTR_TO, mg_dtype_name(dtype)),
                              net_real(MG_ATTR_VALUE, value)};
    return net_apply(net, name, MG_OP_FILL, 0, NULL, 3, attrs, 1, NULL);
}

/* index [..., 1] as truth values over [..., depth]; indices beyond are false everywhere. */
static mg_value one_hot(struct net *net, const char *name, mg_value index, int64_t depth)
{
    const char *outer = net_enter(net, "%s", name);
    mg_value hot = net_binary(net, "equal", MG_OP_EQUAL, index, count_up(net, "numbers", depth, MG_DTYPE_I64));
    net_leave(net, outer);
    return hot;
}

/* ---- routing ---- */

static struct route choose(struct net *net, mg_value x, const struct mixture *m)
{
    struct route r;
    const char *outer = net_enter(net, "router");
    struct mg_attr before[] = {net_int(MG_ATTR_AXIS, 1), net_int(MG_ATTR_EXCLUSIVE, 1)};
    mg_value scores = net_softmax(net, "softmax", net_linear(net, "scores", x, m->experts, false));
    r.gate = reduced(net, "gate", MG_OP_REDUCE_MAX, scores);
    r.expert = with_axis(net, "expert", MG_OP_ARG_MAX, scores, -1);
    r.chosen = one_hot(net, "chosen", r.expert, m->experts);
    mg_value ones = cast(net, "ones", r.chosen, MG_DTYPE_I64); /* narrow floats cannot count */
    mg_value earlier = net_apply(net, "earlier", MG_OP_CUMSUM, 1, &ones, 2, before, 1, NULL);
    r.place = reduced(net, "place", MG_OP_REDUCE_SUM, net_binary(net, "own", MG_OP_MUL, earlier, ones));
    net_leave(net, outer);
    return r;
}

/* All experts on their tokens, [b, e c, h] -> [b, e c, h]. */
static mg_value work(struct net *net, mg_value tokens, const struct mixture *m)
{
    int64_t batch = net_dim(net, tokens, 0), hidden = net_dim(net, tokens, 2);
    const char *outer = net_enter(net, "experts");
    mg_value x = net_reshape(net, "sorted", tokens, DIMS(batch, m->experts, m->capacity, hidden));
    mg_value w1 = net_resident(net, "fc1.weight", MG_KIND_WEIGHT, DIMS(m->experts, hidden, m->ffn));
    mg_value w2 = net_resident(net, "fc2.weight", MG_KIND_WEIGHT, DIMS(m->experts, m->ffn, hidden));
    x = net_activation(net, "act", net_matmul(net, "fc1", x, w1, false), MG_OP_GELU);
    x = net_matmul(net, "fc2", x, w2, false);
    x = net_reshape(net, "joined", x, DIMS(batch, m->experts * m->capacity, hidden));
    net_leave(net, outer);
    return x;
}

/* One-hot matrices [b, s, e c] carry tokens there and back. */
static mg_value by_products(struct net *net, mg_value x, const struct route *r, const struct mixture *m)
{
    int64_t batch = net_dim(net, x, 0), seq_len = net_dim(net, x, 1), slots = m->experts * m->capacity;
    struct mg_attr trans = net_int(MG_ATTR_TRANS_A, 1);
    mg_value places = cast(net, "place", one_hot(net, "places", r->place, m->capacity), net->dtype);
    mg_value rows =
        net_reshape(net, "rows", cast(net, "chosen", r->chosen, net->dtype), DIMS(batch, seq_len, m->experts, 1));
    mg_value columns = net_reshape(net, "columns", places, DIMS(batch, seq_len, 1, m->capacity));
    mg_value sent =
        net_reshape(net, "sent", net_binary(net, "slots", MG_OP_MUL, rows, columns), DIMS(batch, seq_len, slots));
    mg_value tokens = net_apply(net, "dispatch", MG_OP_MATMUL, 2, (mg_value[]){sent, x}, 1, &trans, 1, NULL);
    mg_value back = net_binary(net, "weighted", MG_OP_MUL, sent, r->gate);
    return net_matmul(net, "combine", back, work(net, tokens, m), false);
}

/* The slot of each token [b, s, 1]: expert * capacity + place, or the one behind all others where that is full. */
static mg_value slot_of(struct net *net, const struct route *r, const struct mixture *m)
{
    const char *outer = net_enter(net, "slot");
    struct mg_attr times[] = {net_real(MG_ATTR_ALPHA, (double)m->capacity)};
    mg_value first = net_apply(net, "first", MG_OP_AFFINE, 1, &r->expert, 1, times, 1, NULL);
    mg_value free = net_binary(net, "free", MG_OP_LESS, r->place,
                               filled(net, "capacity", DIMS(1), MG_DTYPE_I64, (double)m->capacity));
    mg_value in[3] = {free, net_binary(net, "taken", MG_OP_ADD, first, r->place),
                      filled(net, "last", DIMS(1), MG_DTYPE_I64, (double)(m->experts * m->capacity))};
    mg_value slot = net_apply(net, "", MG_OP_WHERE, 3, in, 0, NULL, 1, NULL);
    net_leave(net, outer);
    return slot;
}

static mg_value gather_rows(struct net *net, const char *name, mg_value rows, mg_value indices)
{
    struct mg_attr batch = net_int(MG_ATTR_BATCH_DIMS, 1);
    return net_apply(net, name, MG_OP_GATHER_ND, 2, (mg_value[]){rows, indices}, 1, &batch, 1, NULL);
}

/* The token of each slot is written down, tokens are read by it, and results by the slot of each token. */
static mg_value by_index(struct net *net, mg_value x, const struct route *r, const struct mixture *m)
{
    int64_t batch = net_dim(net, x, 0), seq_len = net_dim(net, x, 1), hidden = net_dim(net, x, 2);
    int64_t slots = m->experts * m->capacity;
    struct mg_attr axis = net_int(MG_ATTR_AXIS, 1);
    struct mg_attr whole = net_ints(MG_ATTR_SHAPE, DIMS(batch, seq_len));
    mg_value slot = slot_of(net, r, m), numbers = count_up(net, "numbers", seq_len, MG_DTYPE_I64);
    mg_value in[3] = {filled(net, "nobody", DIMS(batch, slots + 1), MG_DTYPE_I64, 0),
                      net_reshape(net, "to", slot, DIMS(batch, seq_len)),
                      net_apply(net, "from", MG_OP_EXPAND, 1, &numbers, 1, &whole, 1, NULL)};
    mg_value token = net_apply(net, "token", MG_OP_SCATTER_ELEMENTS, 3, in, 1, &axis, 1, NULL);
    token = net_slice(net, "tokens", token, 1, 0, slots);
    mg_value y = work(net, gather_rows(net, "dispatch", x, net_reshape(net, "rows", token, DIMS(batch, slots, 1))), m);
    mg_value rows[2] = {y, filled(net, "none", DIMS(batch, 1, hidden), net->dtype, 0)};
    y = gather_rows(net, "combine", net_concat(net, "results", 1, 2, rows), slot);
    return net_binary(net, "weighted", MG_OP_MUL, y, r->gate);
}

static mg_value mix(struct net *net, mg_value x, const struct mixture *m)
{
    const char *outer = net_enter(net, "moe");
    struct route route = choose(net, x, m);
    if (net->code == MG_OK)
        x = m->by_index ? by_index(net, x, &route, m) : by_products(net, x, &route, m);
    net_leave(net, outer);
    return x;
}

/* ---- the decoder ---- */

/* A block with its feed-forward layer replaced. */
static mg_value mixture_block(struct net *net, mg_value x, const struct block *block, const struct mixture *m)
{
    mg_value y = net_attention(net, net_layer_norm(net, "norm1", x, block->epsilon), &block->attention);
    x = net_binary(net, "add1", MG_OP_ADD, x, net_dropout(net, "dropout1", y));
    y = mix(net, net_layer_norm(net, "norm2", x, block->epsilon), m);
    return net_binary(net, "add2", MG_OP_ADD, x, net_dropout(net, "dropout2", y));
}

static struct mixture read_mixture(struct net *net, int64_t seq_len, int64_t hidden)
{
    struct mixture m = {.experts = net_option(net, "experts", 1, 1 << 16), .ffn = 4 * hidden};
    double factor = net_option_real(net, "capacity", 0.01, 1000);
    const char *dispatch = net_option_text(net, "dispatch");
    m.capacity = (int64_t)ceil((double)seq_len / (double)m.experts * factor);
    m.capacity = m.capacity > seq_len ? seq_len : m.capacity;
    m.by_index = strcmp(dispatch, "index") == 0;
    if (!m.by_index && strcmp(dispatch, "onehot") != 0)
        net_fail(net, "/dispatch", "dispatch is onehot or index, not \"%s\"", dispatch);
    return m;
}

static mg_value embed(struct net *net, int64_t batch, int64_t seq_len, int64_t hidden, mg_value *table)
{
    mg_value ids = net_input(net, "input_ids", MG_DTYPE_I64, DIMS(batch, seq_len));
    mg_value x = net_embedding(net, "wte", ids, net_option(net, "vocabulary", 1, 1 << 24), hidden, table);
    x = net_binary(net, "add", MG_OP_ADD, x, net_positions(net, "wpe", POSITIONS, seq_len, hidden));
    return net_dropout(net, "dropout", x);
}

static void build_moe(struct net *net, const void *context)
{
    (void)context;
    int64_t batch = net_option(net, "batch", 1, 1 << 20), seq_len = net_option(net, "seq_len", 2, 1 << 20);
    int64_t layers = net_option(net, "layers", 1, 10000), hidden = net_option(net, "hidden", 1, 1 << 20);
    int64_t every = net_option(net, "every", 1, 10000);
    struct mixture m = read_mixture(net, seq_len, hidden);
    struct block block = {.attention = {.heads = net_option(net, "heads", 1, 1 << 16),
                                        .qkv_bias = true,
                                        .out_bias = true,
                                        .causal = true,
                                        NO_ATTENTION_EXTRAS},
                          .ffn = 4 * hidden,
                          .activation = MG_OP_GELU,
                          .epsilon = 1e-5};
    mg_value table = MG_NONE;
    mg_value x = net->real ? embed(net, batch, seq_len, hidden, &table)
                           : net_input(net, "x", net->dtype, DIMS(batch, seq_len, hidden));
    block.attention.mask = net_causal_mask(net, seq_len);
    for (int64_t i = 0; i < layers && net->code == MG_OK; i++) {
        const char *outer = net_enter(net, "h.%d", (int)i);
        x = i % every == every - 1 ? mixture_block(net, x, &block, &m) : net_block(net, x, &block);
        net_leave(net, outer);
    }
    if (net->real)
        x = net_token_head(net, net_layer_norm(net, "ln_f", x, 1e-5), table, false);
    net_output(net, x);
}

static const struct zoo_network networks[] = {
    ZOO_NETWORK("moe-gpt", "Decoder with mixtures of experts", build_moe, NULL, ZOO_BATCH("32"), ZOO_SEQ_LEN("512"),
                {"layers", "12", "blocks"}, {"hidden", "768", "features of a token"},
                {"heads", "12", "attention heads"}, {"experts", "8", "feed-forward networks to choose from"},
                {"every", "2", "every how manyth block has experts"},
                {"capacity", "1.25", "tokens of a sequence that an expert takes, relative to an even share"},
                {"dispatch", "onehot", "how tokens are moved: onehot (by products) or index"}, ZOO_VOCABULARY("50257"),
                ZOO_DROPOUT("0"), ZOO_ATTENTION, ZOO_COMMON("bf16")),
};
ZOO_FAMILY(moe);
