/* U-Net (Ronneberger et al., 2015), UNet++ (Zhou et al., 2018) and UNet 3+ (Huang et al., 2020). */
#include "zoo/build.h"

enum { LEVELS = 5 };

static int64_t width_of(struct net *net, int level)
{
    static const int64_t channels[LEVELS] = {64, 128, 256, 512, 1024};
    return net_channels(net, channels[level]);
}

static mg_value image_input(struct net *net)
{
    int64_t batch = net_option(net, "batch", 1, 1 << 20), image = net_option(net, "image", 16, 1 << 14);
    int64_t in = net_option(net, "in_channels", 1, 1 << 16);
    if (image % (1 << (LEVELS - 1)) != 0)
        net_fail(net, "/image", "image must be a multiple of 16, for it is halved four times, not %d", (int)image);
    return net_input(net, "x", net->dtype, DIMS(batch, in, image, image));
}

static mg_value conv3(struct net *net, const char *suffix, mg_value x, int64_t filters)
{
    return net_conv_bn_relu(net, suffix, x, (struct conv){.filters = filters, .kernel = 3, .pad = 1});
}

static mg_value double_conv(struct net *net, mg_value x, int64_t filters)
{
    return conv3(net, "2", conv3(net, "1", x, filters), filters);
}

static mg_value down(struct net *net, mg_value x, int level)
{
    const char *outer = net_enter(net, "down%d", level);
    if (level > 0)
        x = net_pool(net, "pool", x, (struct pool){2, 2, 0});
    x = double_conv(net, x, width_of(net, level));
    net_leave(net, outer);
    return x;
}

/* Real: a transposed convolution that halves the channels; paper: nearest neighbours. */
static mg_value up(struct net *net, mg_value x, mg_value skip, int level)
{
    const char *outer = net_enter(net, "up%d", LEVELS - 1 - level);
    if (net->real)
        x = net_conv_transpose(net, "up", x,
                               (struct conv){.filters = width_of(net, level), .kernel = 2, .stride = 2, .bias = true});
    else
        x = net_resize(net, "up", x, 2, "nearest");
    x = net_concat(net, "concat", 1, 2, (mg_value[]){skip, x});
    x = double_conv(net, x, width_of(net, level));
    net_leave(net, outer);
    return x;
}

static void build_unet(struct net *net, const void *context)
{
    (void)context;
    int64_t classes = net_option(net, "classes", 1, 1 << 16);
    mg_value skips[LEVELS], x = image_input(net);
    for (int i = 0; i < LEVELS; i++)
        x = skips[i] = down(net, x, i);
    for (int i = LEVELS - 2; i >= 0; i--)
        x = up(net, x, skips[i], i);
    if (!net->real)
        x = net_unary(net, "relu", MG_OP_RELU,
                      net_conv(net, "conv", x, (struct conv){.filters = 2, .kernel = 3, .pad = 1}));
    x = net_conv(net, "outc", x, (struct conv){.filters = classes, .kernel = 1, .bias = true});
    net_output(net, net_unary(net, "sigmoid", MG_OP_SIGMOID, x));
}

/* ---- UNet++: X(i, j) on diagonal i, column j, at level i - j ---- */

static mg_value nested_node(struct net *net, mg_value x, int64_t filters)
{
    x = conv3(net, "1", x, filters);
    return net->real ? conv3(net, "2", x, filters) : x;
}

static mg_value nested_up(struct net *net, mg_value nodes[LEVELS][LEVELS], int i, int j)
{
    mg_value parts[LEVELS + 1];
    uint32_t count = 0;
    const char *outer = net_enter(net, "x%d_%d", i - 1 - j, j + 1);
    parts[count++] = net_resize(net, "up", nodes[i][j], 2, "nearest");
    for (int t = 0; t <= j; t++)
        parts[count++] = nodes[i - 1 - j + t][t];
    mg_value x = nested_node(net, net_concat(net, "concat", 1, count, parts), width_of(net, i - 1 - j));
    net_leave(net, outer);
    return x;
}

static void build_nested(struct net *net, const void *context)
{
    (void)context;
    int64_t classes = net_option(net, "classes", 1, 1 << 16);
    mg_value nodes[LEVELS][LEVELS], x = image_input(net);
    for (int i = 0; i < LEVELS; i++) {
        const char *outer = net_enter(net, "x%d_0", i);
        if (i > 0)
            x = net_pool(net, "pool", nodes[i - 1][0], (struct pool){2, 2, 0});
        nodes[i][0] = nested_node(net, x, width_of(net, i));
        net_leave(net, outer);
        for (int j = 0; j < i; j++)
            nodes[i][j + 1] = nested_up(net, nodes, i, j);
    }
    x = net_conv(net, "outc", nodes[LEVELS - 1][LEVELS - 1],
                 (struct conv){.filters = classes, .kernel = 1, .bias = true});
    net_output(net, net_unary(net, "sigmoid", MG_OP_SIGMOID, x));
}

/* ---- UNet 3+: each decoder reads all scales, 64 channels of each ---- */

/* A map of level `from` brought to `to`: pooled, taken as it is, or resized; then 64 channels. */
static mg_value gather_scale(struct net *net, mg_value x, int from, int to)
{
    const char *outer = net_enter(net, "from%d", from);
    int64_t factor = (int64_t)1 << (from < to ? to - from : from - to);
    if (from < to)
        x = net_pool(net, "pool", x, (struct pool){factor, factor, 0});
    else if (from > to)
        x = net_resize(net, "up", x, factor, net->real ? "linear" : "nearest");
    x = conv3(net, "", x, width_of(net, 0));
    net_leave(net, outer);
    return x;
}

static mg_value full_scale_node(struct net *net, const mg_value *encoders, const mg_value *decoders, int level)
{
    mg_value parts[LEVELS];
    const char *outer = net_enter(net, "decoder%d", level);
    for (int from = 0; from < LEVELS; from++)
        parts[from] = gather_scale(net, from <= level ? encoders[from] : decoders[from], from, level);
    mg_value x = conv3(net, "", net_concat(net, "concat", 1, LEVELS, parts), LEVELS * width_of(net, 0));
    net_leave(net, outer);
    return x;
}

static void build_full_scale(struct net *net, const void *context)
{
    (void)context;
    int64_t classes = net_option(net, "classes", 1, 1 << 16);
    mg_value encoders[LEVELS], decoders[LEVELS], x = image_input(net);
    for (int i = 0; i < LEVELS; i++)
        x = encoders[i] = down(net, x, i);
    decoders[LEVELS - 1] = x;
    for (int i = LEVELS - 2; i >= 0; i--)
        decoders[i] = full_scale_node(net, encoders, decoders, i);
    x = net_conv(net, "outc", decoders[0], (struct conv){.filters = classes, .kernel = 3, .pad = 1, .bias = true});
    net_output(net, net_unary(net, "sigmoid", MG_OP_SIGMOID, x));
}

#define UNET(name, title, build, batch)                                                                                \
    ZOO_NETWORK(name, title, build, NULL, ZOO_BATCH(batch), ZOO_IMAGE("256"),                                          \
                {"in_channels", "1", "channels of the images"}, {"classes", "1", "channels of the result"}, ZOO_WIDTH, \
                ZOO_COMMON("f32"))

static const struct zoo_network networks[] = {
    UNET("unet", "U-Net", build_unet, "32"),
    UNET("unet++", "UNet++", build_nested, "16"),
    UNET("unet3+", "UNet 3+", build_full_scale, "8"),
};
ZOO_FAMILY(unet);
