/* Vision transformers (Dosovitskiy et al., 2021). Real: patches by convolution, class token, positions,
 * head on the class token; paper: the patches as they are, and a linear layer on each of them. */
#include "zoo/attention.h"

struct grid {
    int64_t batch, side, patch, hidden;
};

static mg_value embed_patches(struct net *net, mg_value x, struct grid grid)
{
    int64_t count = grid.side * grid.side;
    struct conv conv = {.filters = grid.hidden, .kernel = grid.patch, .stride = grid.patch, .bias = true};
    x = net_conv(net, "patch_embed", x, conv);
    x = net_reshape(net, "patches", x, DIMS(grid.batch, grid.hidden, count));
    x = net_transpose(net, "tokens", x, DIMS(0, 2, 1));
    int64_t shape[3] = {grid.batch, 1, grid.hidden};
    struct mg_attr attr = net_ints(MG_ATTR_SHAPE, 3, shape);
    mg_value token = net_resident(net, "class_token.weight", MG_KIND_WEIGHT, DIMS(1, 1, grid.hidden));
    token = net_apply(net, "class_token", MG_OP_EXPAND, 1, &token, 1, &attr, 1, NULL);
    x = net_concat(net, "concat", 1, 2, (mg_value[]){token, x});
    mg_value positions = net_resident(net, "positions.weight", MG_KIND_WEIGHT, DIMS(1, count + 1, grid.hidden));
    return net_dropout(net, "dropout", net_binary(net, "positions", MG_OP_ADD, x, positions));
}

/* [n, 3, side p, side p] -> [n, side^2, 3 p^2]; projected only where that is not the hidden size. */
static mg_value cut_patches(struct net *net, mg_value x, struct grid grid)
{
    x = net_reshape(net, "grid", x, DIMS(grid.batch, 3, grid.side, grid.patch, grid.side, grid.patch));
    x = net_transpose(net, "order", x, DIMS(0, 2, 4, 1, 3, 5));
    x = net_reshape(net, "patches", x, DIMS(grid.batch, grid.side * grid.side, 3 * grid.patch * grid.patch));
    return 3 * grid.patch * grid.patch == grid.hidden ? x : net_linear(net, "patch_embed", x, grid.hidden, false);
}

static mg_value class_token(struct net *net, mg_value x, struct grid grid)
{
    x = net_slice(net, "class", net_layer_norm(net, "norm", x, 1e-6), 1, 0, 1);
    return net_reshape(net, "squeeze", x, DIMS(grid.batch, grid.hidden));
}

static void build_vit(struct net *net, const void *context)
{
    (void)context;
    int64_t image = net_option(net, "image", 1, 1 << 14), classes = net_option(net, "classes", 1, 1 << 24);
    int64_t layers = net_option(net, "layers", 1, 10000);
    struct grid grid = {.batch = net_option(net, "batch", 1, 1 << 20),
                        .patch = net_option(net, "patch", 1, 1 << 14),
                        .hidden = net_option(net, "hidden", 1, 1 << 20)};
    if (image % grid.patch != 0)
        net_fail(net, "/patch", "an image of %d pixels is no whole number of patches of %d", (int)image,
                 (int)grid.patch);
    grid.side = image / grid.patch;
    struct block block = {.attention = {.heads = net_option(net, "heads", 1, 1 << 16),
                                        .qkv_bias = true,
                                        .out_bias = true,
                                        NO_ATTENTION_EXTRAS},
                          .ffn = 4 * grid.hidden,
                          .activation = MG_OP_GELU,
                          .epsilon = 1e-6};
    mg_value x = net_input(net, "x", net->dtype, DIMS(grid.batch, 3, image, image));
    x = net->real ? embed_patches(net, x, grid) : cut_patches(net, x, grid);
    for (int64_t i = 0; i < layers; i++) {
        const char *outer = net_enter(net, "encoder.%d", (int)i);
        x = net_block(net, x, &block);
        net_leave(net, outer);
    }
    net_output(net, net_linear(net, "head", net->real ? class_token(net, x, grid) : x, classes, true));
}

#define VIT(name, title, patch, layers, hidden, heads)                                                                 \
    ZOO_NETWORK(name, title, build_vit, NULL, ZOO_BATCH("64"), ZOO_IMAGE("224"),                                       \
                {"patch", patch, "height and width of a patch"}, {"layers", layers, "blocks"},                         \
                {"hidden", hidden, "features of a patch"}, {"heads", heads, "attention heads"}, ZOO_CLASSES("1000"),   \
                ZOO_DROPOUT("0"), ZOO_ATTENTION, ZOO_COMMON("f32"))

static const struct zoo_network networks[] = {
    VIT("vit-tiny-16", "ViT-Ti/16", "16", "12", "192", "3"),   VIT("vit-small-16", "ViT-S/16", "16", "12", "384", "6"),
    VIT("vit-base-16", "ViT-B/16", "16", "12", "768", "12"),   VIT("vit-base-32", "ViT-B/32", "32", "12", "768", "12"),
    VIT("vit-large-16", "ViT-L/16", "16", "24", "1024", "16"), VIT("vit-huge-14", "ViT-H/14", "14", "32", "1280", "16"),
};
ZOO_FAMILY(vit);
