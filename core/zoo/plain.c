/* Networks without branches: multilayer perceptrons and VGG (Simonyan and Zisserman, 2015). */
#include "zoo/build.h"

static void build_mlp(struct net *net, const void *context)
{
    (void)context;
    int64_t batch = net_option(net, "batch", 1, 1 << 24), in = net_option(net, "in", 1, 1 << 24);
    int64_t hidden = net_option(net, "hidden", 1, 1 << 24), layers = net_option(net, "layers", 1, 10000);
    int64_t classes = net_option(net, "classes", 1, 1 << 24);
    mg_value x = net_input(net, "x", net->dtype, DIMS(batch, in));
    for (int64_t i = 0; i < layers; i++) {
        bool last = i == layers - 1;
        x = net_linear(net, mg_arena_printf(net->arena, "fc%d", (int)i), x, last ? classes : hidden, true);
        if (!last)
            x = net_unary(net, mg_arena_printf(net->arena, "relu%d", (int)i), MG_OP_RELU, x);
    }
    net_output(net, x);
}

static mg_value vgg_features(struct net *net, mg_value x)
{
    static const int64_t layout[] = {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0};
    const char *outer = net_enter(net, "features");
    int index = 0;
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++) {
        const char *name = mg_arena_printf(net->arena, "%d", index++);
        if (layout[i] == 0) {
            x = net_pool(net, name, x, (struct pool){2, 2, 0});
            continue;
        }
        x = net_conv(net, name, x,
                     (struct conv){.filters = net_channels(net, layout[i]), .kernel = 3, .pad = 1, .bias = true});
        x = net_unary(net, mg_arena_printf(net->arena, "%d", index++), MG_OP_RELU, x);
    }
    net_leave(net, outer);
    return x;
}

static void build_vgg(struct net *net, const void *context)
{
    (void)context;
    int64_t batch = net_option(net, "batch", 1, 1 << 20), image = net_option(net, "image", 32, 1 << 14);
    int64_t classes = net_option(net, "classes", 1, 1 << 24), hidden = net_channels(net, 4096);
    mg_value x = vgg_features(net, net_input(net, "x", net->dtype, DIMS(batch, 3, image, image)));
    struct mg_attr axis = net_int(MG_ATTR_AXIS, 1);
    x = net_apply(net, "flatten", MG_OP_FLATTEN, 1, &x, 1, &axis, 1, NULL);
    const char *outer = net_enter(net, "classifier");
    x = net_unary(net, "1", MG_OP_RELU, net_linear(net, "0", x, hidden, true));
    x = net_linear(net, "3", net_dropout(net, "2", x), hidden, true);
    x = net_unary(net, "4", MG_OP_RELU, x);
    x = net_linear(net, "6", net_dropout(net, "5", x), classes, true);
    net_leave(net, outer);
    net_output(net, x);
}

static const struct zoo_network networks[] = {
    ZOO_NETWORK("mlp", "Multilayer perceptron", build_mlp, NULL, ZOO_BATCH("64"), {"in", "784", "input features"},
                {"hidden", "512", "features of the hidden layers"}, {"layers", "3", "linear layers"}, ZOO_CLASSES("10"),
                ZOO_COMMON("f32")),
    ZOO_NETWORK("vgg16", "VGG-16", build_vgg, NULL, ZOO_BATCH("64"), ZOO_IMAGE("224"), ZOO_CLASSES("1000"), ZOO_WIDTH,
                ZOO_DROPOUT("0.5"), ZOO_COMMON("f32")),
};
ZOO_FAMILY(plain);
