/* What the families of networks share: options, module paths, layers. Private to core/zoo.
 *
 * A family is a file with a table of networks; each has a function that builds it with the layers
 * below. Failure is sticky: after the first one every call returns at once, so that networks read
 * like their definitions. `real` layers have what the original has (bias, batch norm, dropout);
 * in the `paper` variant those layers are the identity. */
#ifndef MG_ZOO_BUILD_H
#define MG_ZOO_BUILD_H

#include <stdbool.h>

#include "zoo/zoo.h"

struct net;
struct zoo_network {
    struct mg_zoo_entry entry;
    void (*build)(struct net *net, const void *config);
    const void *config; /* the family's own struct */
};
struct zoo_family {
    const struct zoo_network *networks;
    uint32_t count;
};

/* All families, as listed by mg_zoo_at. */
extern const struct zoo_family zoo_resnet, zoo_bert, zoo_gpt, zoo_llama, zoo_vit, zoo_unet, zoo_densenet, zoo_plain,
    zoo_mobile, zoo_moe, zoo_lstm, zoo_random, zoo_figures;

#define ZOO_NETWORK(name, title, build, config, ...)                                                                   \
    {                                                                                                                  \
        {name, title, (const struct mg_zoo_parameter[]){__VA_ARGS__},                                                  \
         sizeof((const struct mg_zoo_parameter[]){__VA_ARGS__}) / sizeof(struct mg_zoo_parameter)},                    \
            build, config                                                                                              \
    }
#define ZOO_FAMILY(family) const struct zoo_family zoo_##family = {networks, sizeof networks / sizeof networks[0]}

/* Options that most networks have; net_start reads variant, dtype and math. */
#define ZOO_BATCH(fallback)                                                                                            \
    {                                                                                                                  \
        "batch", fallback, "samples in a batch"                                                                        \
    }
#define ZOO_IMAGE(fallback)                                                                                            \
    {                                                                                                                  \
        "image", fallback, "height and width of the images"                                                            \
    }
#define ZOO_WIDTH                                                                                                      \
    {                                                                                                                  \
        "width", "1", "channels relative to the published ones"                                                        \
    }
#define ZOO_SEQ_LEN(fallback)                                                                                          \
    {                                                                                                                  \
        "seq_len", fallback, "tokens in a sequence"                                                                    \
    }
#define ZOO_CLASSES(fallback)                                                                                          \
    {                                                                                                                  \
        "classes", fallback, "outputs of the classifier"                                                               \
    }
#define ZOO_DROPOUT(fallback)                                                                                          \
    {                                                                                                                  \
        "dropout", fallback, "probability of dropping (real variant); 0: none"                                         \
    }
#define ZOO_COMMON(dtype)                                                                                              \
    {"variant", "real", "real: as published; paper: without bias, batch norm, dropout and embeddings"},                \
        {"dtype", dtype, "element type: f32, bf16, f16 or f64"},                                                       \
    {                                                                                                                  \
        "math", "tf32", "arithmetic of f32 contractions: f32 or tf32"                                                  \
    }

struct net {
    struct mg_graph *g;
    struct mg_arena *arena;
    const struct zoo_network *network;
    const char **values; /* of the network's parameters, in their order */
    bool real;
    enum mg_dtype dtype;
    double dropout;
    int64_t dropouts; /* so far: each has its own seed */
    const char *path; /* of the current module, "" at the top */
    enum mg_code code;
    struct mg_error *err;
};

/* ---- options: values between bounds; wrong ones fail the net, pointing at /name ---- */
int64_t net_option(struct net *net, const char *name, int64_t lowest, int64_t highest);
double net_option_real(struct net *net, const char *name, double lowest, double highest);
const char *net_option_text(struct net *net, const char *name);
/* That many channels, times the option `width` (ZOO_WIDTH), at least 1. */
int64_t net_channels(struct net *net, int64_t published);
void net_fail(struct net *net, const char *pointer, const char *fmt, ...) MG_PRINTF(3, 4);

/* ---- modules: everything between enter and leave has this dotted path ---- */
const char *net_enter(struct net *net, const char *fmt, ...) MG_PRINTF(2, 3); /* returns the path to leave to */
void net_leave(struct net *net, const char *path);

/* ---- values ---- */
mg_value net_input(struct net *net, const char *name, enum mg_dtype dtype, uint32_t rank, const int64_t *dim);
mg_value net_resident(struct net *net, const char *name, enum mg_kind kind, uint32_t rank, const int64_t *dim);
struct mg_shape net_shape(const struct net *net, mg_value value);
int64_t net_dim(const struct net *net, mg_value value, uint32_t dim);
void net_output(struct net *net, mg_value value);
#define DIMS(...)                                                                                                      \
    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[])                                        \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* ---- operators ---- */
struct mg_attr net_int(enum mg_attr_key key, int64_t value);
struct mg_attr net_real(enum mg_attr_key key, double value);
struct mg_attr net_text(enum mg_attr_key key, const char *value);
struct mg_attr net_ints(enum mg_attr_key key, uint32_t count, const int64_t *values); /* not copied */
/* Any operator: named path.name (or path itself for the name ""), its result likewise; further results get
 * names of their own. Returns the first result; out (may be NULL) receives all out_count. */
mg_value net_apply(struct net *net, const char *name, enum mg_op_type type, uint32_t in_count, const mg_value *in,
                   uint32_t attr_count, const struct mg_attr *attrs, uint32_t out_count, mg_value *out);
mg_value net_unary(struct net *net, const char *name, enum mg_op_type type, mg_value x);
mg_value net_binary(struct net *net, const char *name, enum mg_op_type type, mg_value a, mg_value b);
mg_value net_reshape(struct net *net, const char *name, mg_value x, uint32_t rank, const int64_t *dim);
mg_value net_transpose(struct net *net, const char *name, mg_value x, uint32_t rank, const int64_t *perm);
mg_value net_slice(struct net *net, const char *name, mg_value x, int64_t axis, int64_t start, int64_t end);
mg_value net_concat(struct net *net, const char *name, int64_t axis, uint32_t count, const mg_value *values);
mg_value net_matmul(struct net *net, const char *name, mg_value a, mg_value b, bool trans_b);
mg_value net_scale(struct net *net, const char *name, mg_value x, double factor);
mg_value net_softmax(struct net *net, const char *name, mg_value x); /* over the last dimension */
mg_value net_gather(struct net *net, const char *name, mg_value table, mg_value indices);

/* ---- layers: modules with weights of their own ---- */
mg_value net_linear(struct net *net, const char *name, mg_value x, int64_t features, bool bias); /* [..., in] */
struct conv {
    int64_t filters, kernel, stride, pad; /* 0 for stride: 1 */
    int64_t groups;                       /* 0: 1 */
    bool bias;                            /* in the real variant */
};
mg_value net_conv(struct net *net, const char *name, mg_value x, struct conv conv);
mg_value net_conv_transpose(struct net *net, const char *name, mg_value x, struct conv conv);
mg_value net_batch_norm(struct net *net, const char *name, mg_value x); /* paper: x */
/* conv, batch norm, ReLU: named conv<suffix>, bn<suffix>, relu<suffix> */
mg_value net_conv_bn_relu(struct net *net, const char *suffix, mg_value x, struct conv conv);
mg_value net_layer_norm(struct net *net, const char *name, mg_value x, double epsilon); /* over the last dimension */
mg_value net_activation(struct net *net, const char *name, mg_value x, enum mg_op_type type); /* paper: ReLU */
mg_value net_dropout(struct net *net, const char *name, mg_value x);                          /* paper: x */
struct pool {
    int64_t kernel, stride, pad;
};
mg_value net_pool(struct net *net, const char *name, mg_value x, struct pool pool); /* real: max, paper: average */
mg_value net_avg_pool(struct net *net, const char *name, mg_value x, struct pool pool);
mg_value net_resize(struct net *net, const char *name, mg_value x, int64_t factor, const char *mode);
/* Global average pooling and a linear layer (paper: a 1x1 convolution) on [n, c, h, w]. */
mg_value net_classifier(struct net *net, const char *name, mg_value x, int64_t classes);

#endif
