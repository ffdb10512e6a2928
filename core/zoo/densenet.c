/* Densely connected networks (Huang et al., "Densely Connected Convolutional Networks", 2017): every
 * layer reads the concatenation of all earlier ones of its block. */
#include "zoo/build.h"

enum { BOTTLENECK = 4, MOST_LAYERS = 64 };

struct densenet {
    int64_t growth, stem;
    int64_t layers[4];
};

static mg_value norm_relu(struct net *net, const char *suffix, mg_value x)
{
    x = net_batch_norm(net, mg_arena_printf(net->arena, "norm%s", suffix), x);
    return net_unary(net, mg_arena_printf(net->arena, "relu%s", suffix), MG_OP_RELU, x);
}

static mg_value dense_layer(struct net *net, const mg_value *features, uint32_t count, int64_t growth)
{
    mg_value x = count > 1 ? net_concat(net, "concat", 1, count, features) : features[0];
    x = net_conv(net, "conv1", norm_relu(net, "1", x), (struct conv){.filters = BOTTLENECK * growth, .kernel = 1});
    return net_conv(net, "conv2", norm_relu(net, "2", x), (struct conv){.filters = growth, .kernel = 3, .pad = 1});
}

static mg_value dense_block(struct net *net, mg_value x, int64_t layers, int64_t growth)
{
    mg_value features[MOST_LAYERS + 1] = {x};
    uint32_t count = 1;
    for (int64_t i = 0; i < layers; i++) {
        const char *outer = net_enter(net, "denselayer%d", (int)i + 1);
        mg_value made = dense_layer(net, features, count, growth);
        features[count++] = made;
        net_leave(net, outer);
    }
    return net_concat(net, "concat", 1, count, features);
}

static mg_value transition(struct net *net, mg_value x)
{
    int64_t channels = net_dim(net, x, 1);
    x = net_conv(net, "conv", norm_relu(net, "", x),
                 (struct conv){.filters = channels > 1 ? channels / 2 : 1, .kernel = 1});
    return net_avg_pool(net, "pool", x, (struct pool){2, 2, 0});
}

static mg_value features_of(struct net *net, mg_value x, const struct densenet *config)
{
    x = net_conv_bn_relu(net, "0", x,
                         (struct conv){.filters = net_channels(net, config->stem), .kernel = 7, .stride = 2, .pad = 3});
    x = net_pool(net, "pool0", x, (struct pool){3, 2, 1});
    for (int i = 0; i < 4; i++) {
        const char *outer = net_enter(net, "denseblock%d", i + 1);
        x = dense_block(net, x, config->layers[i], net_channels(net, config->growth));
        net_leave(net, outer);
        if (i == 3)
            break;
        outer = net_enter(net, "transition%d", i + 1);
        x = transition(net, x);
        net_leave(net, outer);
    }
    return norm_relu(net, "5", x);
}

static void build_densenet(struct net *net, const void *context)
{
    int64_t batch = net_option(net, "batch", 1, 1 << 20), image = net_option(net, "image", 1, 1 << 14);
    int64_t classes = net_option(net, "classes", 1, 1 << 24);
    mg_value x = net_input(net, "x", net->dtype, DIMS(batch, 3, image, image));
    const char *outer = net_enter(net, "features");
    x = features_of(net, x, context);
    net_leave(net, outer);
    net_output(net, net_classifier(net, "classifier", x, classes));
}

#define DENSENET(name, title, ...)                                                                                     \
    ZOO_NETWORK(name, title, build_densenet, (&(const struct densenet)__VA_ARGS__), ZOO_BATCH("64"), ZOO_IMAGE("224"), \
                ZOO_CLASSES("1000"), ZOO_WIDTH, ZOO_COMMON("f32"))

static const struct zoo_network networks[] = {
    DENSENET("densenet121", "DenseNet-121", {32, 64, {6, 12, 24, 16}}),
    DENSENET("densenet161", "DenseNet-161", {48, 96, {6, 12, 36, 24}}),
    DENSENET("densenet169", "DenseNet-169", {32, 64, {6, 12, 32, 32}}),
    DENSENET("densenet201", "DenseNet-201", {32, 64, {6, 12, 48, 32}}),
};
ZOO_FAMILY(densenet);
