/* Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2016), their wide form
 * (Zagoruyko and Komodakis, 2016), and the deep ones of "Training Deep Nets with Sublinear Memory
 * Cost" (Chen et al., 2016). */
#include "zoo/build.h"

struct resnet {
    int64_t blocks[4];
    bool bottleneck;
    int64_t width; /* of the 3x3 convolution in a bottleneck, relative to the block's planes */
};

/* The identity, or a 1x1 projection where the shape changes. */
static mg_value shortcut(struct net *net, mg_value x, int64_t channels, int64_t stride)
{
    if (stride == 1 && net_dim(net, x, 1) == channels)
        return x;
    const char *outer = net_enter(net, "downsample");
    x = net_conv(net, "0", x, (struct conv){.filters = channels, .kernel = 1, .stride = stride});
    x = net_batch_norm(net, "1", x);
    net_leave(net, outer);
    return x;
}

static mg_value basic_block(struct net *net, mg_value x, int64_t planes, int64_t stride)
{
    mg_value y =
        net_conv_bn_relu(net, "1", x, (struct conv){.filters = planes, .kernel = 3, .stride = stride, .pad = 1});
    y = net_conv(net, "conv2", y, (struct conv){.filters = planes, .kernel = 3, .pad = 1});
    y = net_batch_norm(net, "bn2", y);
    y = net_binary(net, "add", MG_OP_ADD, y, shortcut(net, x, planes, stride));
    return net_unary(net, "relu", MG_OP_RELU, y);
}

static mg_value bottleneck_block(struct net *net, mg_value x, int64_t planes, int64_t width, int64_t stride)
{
    mg_value y = net_conv_bn_relu(net, "1", x, (struct conv){.filters = width, .kernel = 1});
    y = net_conv_bn_relu(net, "2", y, (struct conv){.filters = width, .kernel = 3, .stride = stride, .pad = 1});
    y = net_conv(net, "conv3", y, (struct conv){.filters = 4 * planes, .kernel = 1});
    y = net_batch_norm(net, "bn3", y);
    y = net_binary(net, "add", MG_OP_ADD, y, shortcut(net, x, 4 * planes, stride));
    return net_unary(net, "relu", MG_OP_RELU, y);
}

static mg_value stage(struct net *net, mg_value x, const struct resnet *config, int index)
{
    const char *outer = net_enter(net, "layer%d", index + 1);
    int64_t planes = net_channels(net, (int64_t)64 << index);
    for (int64_t i = 0; i < config->blocks[index]; i++) {
        const char *layer = net_enter(net, "%d", (int)i);
        int64_t stride = i == 0 && index > 0 ? 2 : 1;
        x = config->bottleneck ? bottleneck_block(net, x, planes, planes * config->width, stride)
                               : basic_block(net, x, planes, stride);
        net_leave(net, layer);
    }
    net_leave(net, outer);
    return x;
}

static void build_resnet(struct net *net, const void *context)
{
    int64_t batch = net_option(net, "batch", 1, 1 << 20), image = net_option(net, "image", 1, 1 << 14);
    int64_t classes = net_option(net, "classes", 1, 1 << 24);
    mg_value x = net_input(net, "x", net->dtype, DIMS(batch, 3, image, image));
    x = net_conv_bn_relu(net, "1", x,
                         (struct conv){.filters = net_channels(net, 64), .kernel = 7, .stride = 2, .pad = 3});
    x = net_pool(net, "pool", x, (struct pool){3, 2, 1});
    for (int i = 0; i < 4; i++)
        x = stage(net, x, context, i);
    net_output(net, net_classifier(net, "fc", x, classes));
}

/* Bottlenecks, three layers each; the first and the last stage keep three of them, the others share the
 * rest as 2 : 3. This gives the published [3, 4, 6, 3] for 50 layers and [3, 24, 36, 3] for 200. */
static void build_deep(struct net *net, const void *context)
{
    (void)context;
    int64_t layers = net_option(net, "layers", 26, 100000), inner = (layers - 2) / 3 - 6;
    struct resnet config = {{3, inner * 2 / 5, inner - inner * 2 / 5, 3}, true, 1};
    build_resnet(net, &config);
}

#define RESNET(name, title, ...)                                                                                       \
    ZOO_NETWORK(name, title, build_resnet, (&(const struct resnet)__VA_ARGS__), ZOO_BATCH("64"), ZOO_IMAGE("224"),     \
                ZOO_CLASSES("1000"), ZOO_WIDTH, ZOO_COMMON("f32"))

static const struct zoo_network networks[] = {
    RESNET("resnet18", "ResNet-18", {{2, 2, 2, 2}, false, 1}),
    RESNET("resnet34", "ResNet-34", {{3, 4, 6, 3}, false, 1}),
    RESNET("resnet50", "ResNet-50", {{3, 4, 6, 3}, true, 1}),
    RESNET("resnet101", "ResNet-101", {{3, 4, 23, 3}, true, 1}),
    RESNET("resnet152", "ResNet-152", {{3, 8, 36, 3}, true, 1}),
    RESNET("wide_resnet50", "Wide ResNet-50-2", {{3, 4, 6, 3}, true, 2}),
    ZOO_NETWORK("resnet-deep", "Residual network of any depth", build_deep, NULL,
                {"layers", "1000", "convolutions and the last linear layer"}, ZOO_BATCH("32"), ZOO_IMAGE("224"),
                ZOO_CLASSES("1000"), ZOO_WIDTH, ZOO_COMMON("f32")),
};
ZOO_FAMILY(resnet);
