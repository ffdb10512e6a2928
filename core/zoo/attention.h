/* What transformers share: attention with its projections, and the block with normalisation first.
 * Private to core/zoo. */
#ifndef MG_ZOO_ATTENTION_H
#define MG_ZOO_ATTENTION_H

#include "zoo/build.h"

#define ZOO_VOCABULARY(fallback)                                                                                       \
    {                                                                                                                  \
        "vocabulary", fallback, "different tokens"                                                                     \
    }
#define ZOO_ATTENTION                                                                                                  \
    {                                                                                                                  \
        "attention", "explicit", "explicit: scores, softmax and product apart; fused: one operator (real variant)"     \
    }

struct attention {
    int64_t heads;
    int64_t kv_heads; /* 0: as many as heads; else a divisor of it */
    bool qkv_bias, out_bias;
    bool causal;
    bool unscaled;         /* scores are not divided by sqrt(head size) (real variant) */
    mg_value mask;         /* added to the scores, or MG_NONE */
    mg_value cosine, sine; /* rotary embedding [seq, head size], or MG_NONE */
};
#define NO_ATTENTION_EXTRAS .mask = MG_NONE, .cosine = MG_NONE, .sine = MG_NONE

/* x [b, s, h] -> [b, s, h]; linear layers q, k, v, out. */
mg_value net_attention(struct net *net, mg_value x, const struct attention *attention);
/* The constant [s, s] that hides later tokens, MG_NONE where fused attention does so itself. */
mg_value net_causal_mask(struct net *net, int64_t seq_len);
bool net_wants_fused_attention(struct net *net);

struct block {
    struct attention attention;
    int64_t ffn;
    enum mg_op_type activation; /* paper: ReLU */
    bool gated;                 /* real variant: silu(gate(x)) * up(x), then down */
    double epsilon;
};
/* x + attention(norm(x)), then x + mlp(norm(x)). */
mg_value net_block(struct net *net, mg_value x, const struct block *block);
/* Linear, activation, linear back. */
mg_value net_mlp(struct net *net, mg_value x, int64_t ffn, enum mg_op_type activation);

/* A table [rows, features] looked up with integer indices. */
mg_value net_embedding(struct net *net, const char *name, mg_value indices, int64_t rows, int64_t features,
                       mg_value *table);
/* The first seq_len rows of a table of learned positions, [seq_len, features]. */
mg_value net_positions(struct net *net, const char *name, int64_t rows, int64_t seq_len, int64_t features);
/* Scores of all tokens [b * s, vocabulary] from x [b, s, h] and the table of the input embedding. */
mg_value net_token_head(struct net *net, mg_value x, mg_value table, bool bias);

#endif
