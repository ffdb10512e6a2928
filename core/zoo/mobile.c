/* Networks for small devices: MobileNetV2 (Sandler et al., 2018), MobileNetV3 (Howard et al., "Searching for
 * MobileNetV3", 2019) and EfficientNet (Tan and Le, 2019), which widens and deepens one network. Their blocks widen,
 * filter each channel by itself, weigh the channels by their averages (squeeze and excitation) and narrow. Stochastic
 * depth is left out. */
#include "zoo/build.h"

#include <math.h>

struct stage {
    int64_t kernel, expand, filters, repeats, stride; /* expand: times the input's channels, or (v3) the width itself */
    bool excite;
    enum mg_op_type activation;
};
struct family {
    enum mg_op_type activation, gate; /* of stem and head; of the excitation */
    bool absolute;                    /* expand is a width */
    int64_t stem, head, hidden;       /* hidden: a linear layer before the last one, or 0 */
    uint32_t stages;
    struct stage stage[15];
};

/* ---- layers ---- */

/* MG_OP_CLIP stands for the ReLU that ends at 6. */
static mg_value activate(struct net *net, const char *name, mg_value x, enum mg_op_type type)
{
    struct mg_attr clip[] = {net_real(MG_ATTR_MIN, 0), net_real(MG_ATTR_MAX, 6)};
    struct mg_attr sixth[] = {net_real(MG_ATTR_ALPHA, 1.0 / 6)};
    if (!net->real || (type != MG_OP_CLIP && type != MG_OP_HARD_SIGMOID))
        return net_activation(net, name, x, type);
    if (type == MG_OP_CLIP)
        return net_apply(net, name, type, 1, &x, 2, clip, 1, NULL);
    return net_apply(net, name, type, 1, &x, 1, sixth, 1, NULL);
}

/* Convolution, batch norm, activation (MG_OP_COUNT: none): 0, 1 and 2 of a module. */
static mg_value filter(struct net *net, const char *name, mg_value x, struct conv conv, enum mg_op_type activation)
{
    const char *outer = net_enter(net, "%s", name);
    x = net_batch_norm(net, "1", net_conv(net, "0", x, conv));
    if (activation != MG_OP_COUNT)
        x = activate(net, "2", x, activation);
    net_leave(net, outer);
    return x;
}

/* The nearest multiple of 8 that is not more than a tenth below. */
static int64_t eighths(double width)
{
    int64_t rounded = (int64_t)floor(width + 4) / 8 * 8;
    rounded = rounded < 8 ? 8 : rounded;
    return (double)rounded < 0.9 * width ? rounded + 8 : rounded;
}

static mg_value excite(struct net *net, mg_value x, int64_t squeezed, const struct family *family)
{
    const char *outer = net_enter(net, "se");
    int64_t channels = net_dim(net, x, 1);
    bool hard = family->gate == MG_OP_HARD_SIGMOID;
    mg_value weight = net_unary(net, "avgpool", MG_OP_GLOBAL_AVG_POOL, x);
    weight = net_conv(net, "fc1", weight, (struct conv){.filters = squeezed, .kernel = 1, .bias = true});
    weight = activate(net, "activation", weight, hard ? MG_OP_RELU : MG_OP_SILU);
    weight = net_conv(net, "fc2", weight, (struct conv){.filters = channels, .kernel = 1, .bias = true});
    weight = activate(net, "scale_activation", weight, family->gate);
    x = net_binary(net, "mul", MG_OP_MUL, x, weight);
    net_leave(net, outer);
    return x;
}

static mg_value block(struct net *net, mg_value x, const struct family *family, const struct stage *s, double width,
                      int64_t stride)
{
    int64_t in = net_dim(net, x, 1), wide = family->absolute ? eighths((double)s->expand * width) : in * s->expand;
    int64_t filters = eighths((double)s->filters * width);
    int64_t squeezed = family->gate == MG_OP_HARD_SIGMOID ? eighths((double)wide / 4) : in > 4 ? in / 4 : 1;
    mg_value y = x;
    if (wide != in)
        y = filter(net, "expand", y, (struct conv){.filters = wide, .kernel = 1}, s->activation);
    struct conv each = {.filters = wide, .kernel = s->kernel, .stride = stride, .pad = s->kernel / 2, .groups = wide};
    y = filter(net, "depthwise", y, each, s->activation);
    if (s->excite)
        y = excite(net, y, squeezed, family);
    y = filter(net, "project", y, (struct conv){.filters = filters, .kernel = 1}, MG_OP_COUNT);
    return stride == 1 && in == filters ? net_binary(net, "add", MG_OP_ADD, y, x) : y;
}

/* ---- whole networks ---- */

static mg_value classify(struct net *net, mg_value x, const struct family *family, double width, int64_t classes)
{
    struct mg_attr axis = net_int(MG_ATTR_AXIS, 1);
    if (!net->real)
        return net_classifier(net, "classifier", x, classes);
    x = net_unary(net, "avgpool", MG_OP_GLOBAL_AVG_POOL, x);
    x = net_apply(net, "flatten", MG_OP_FLATTEN, 1, &x, 1, &axis, 1, NULL);
    const char *outer = net_enter(net, "classifier");
    if (family->hidden) {
        x = net_linear(net, "0", x, eighths((double)family->hidden * width), true);
        x = activate(net, "1", x, family->activation);
    }
    x = net_linear(net, "3", net_dropout(net, "2", x), classes, true);
    net_leave(net, outer);
    return x;
}

/* `width` multiplies channels, `depth` repeats. */
static void build_scaled(struct net *net, const struct family *family, double width, double depth)
{
    int64_t batch = net_option(net, "batch", 1, 1 << 20), image = net_option(net, "image", 1, 1 << 14), index = 1;
    int64_t classes = net_option(net, "classes", 1, 1 << 24);
    width *= net_option_real(net, "width", 0.001, 100);
    mg_value x = net_input(net, "x", net->dtype, DIMS(batch, 3, image, image));
    struct conv stem = {.filters = eighths((double)family->stem * width), .kernel = 3, .stride = 2, .pad = 1};
    const char *outer = net_enter(net, "features");
    x = filter(net, "0", x, stem, family->activation);
    for (uint32_t s = 0; s < family->stages; s++) {
        const struct stage *stage = &family->stage[s];
        int64_t repeats = (int64_t)ceil((double)stage->repeats * depth);
        for (int64_t i = 0; i < repeats; i++, index++) {
            const char *inner = net_enter(net, "%d", (int)index);
            x = block(net, x, family, stage, width, i ? 1 : stage->stride);
            net_leave(net, inner);
        }
    }
    int64_t head = family->absolute ? eighths((double)family->head * width)
                                    : family->head * eighths((double)family->stage[6].filters * width);
    x = filter(net, mg_arena_printf(net->arena, "%d", (int)index), x, (struct conv){.filters = head, .kernel = 1},
               family->activation);
    net_leave(net, outer);
    net_output(net, classify(net, x, family, width, classes));
}

static void build_mobile(struct net *net, const void *context)
{
    build_scaled(net, context, 1, 1);
}

#define RE MG_OP_RELU
#define HS MG_OP_HARD_SWISH
static const struct family v2 = {MG_OP_CLIP,
                                 MG_OP_SIGMOID,
                                 false,
                                 32,
                                 4,
                                 0,
                                 7,
                                 {{3, 1, 16, 1, 1, false, MG_OP_CLIP},
                                  {3, 6, 24, 2, 2, false, MG_OP_CLIP},
                                  {3, 6, 32, 3, 2, false, MG_OP_CLIP},
                                  {3, 6, 64, 4, 2, false, MG_OP_CLIP},
                                  {3, 6, 96, 3, 1, false, MG_OP_CLIP},
                                  {3, 6, 160, 3, 2, false, MG_OP_CLIP},
                                  {3, 6, 320, 1, 1, false, MG_OP_CLIP}}};
static const struct family v3_small = {HS,
                                       MG_OP_HARD_SIGMOID,
                                       true,
                                       16,
                                       576,
                                       1024,
                                       11,
                                       {{3, 16, 16, 1, 2, true, RE},
                                        {3, 72, 24, 1, 2, false, RE},
                                        {3, 88, 24, 1, 1, false, RE},
                                        {5, 96, 40, 1, 2, true, HS},
                                        {5, 240, 40, 1, 1, true, HS},
                                        {5, 240, 40, 1, 1, true, HS},
                                        {5, 120, 48, 1, 1, true, HS},
                                        {5, 144, 48, 1, 1, true, HS},
                                        {5, 288, 96, 1, 2, true, HS},
                                        {5, 576, 96, 1, 1, true, HS},
                                        {5, 576, 96, 1, 1, true, HS}}};
static const struct family v3_large = {HS,
                                       MG_OP_HARD_SIGMOID,
                                       true,
                                       16,
                                       960,
                                       1280,
                                       15,
                                       {{3, 16, 16, 1, 1, false, RE},
                                        {3, 64, 24, 1, 2, false, RE},
                                        {3, 72, 24, 1, 1, false, RE},
                                        {5, 72, 40, 1, 2, true, RE},
                                        {5, 120, 40, 1, 1, true, RE},
                                        {5, 120, 40, 1, 1, true, RE},
                                        {3, 240, 80, 1, 2, false, HS},
                                        {3, 200, 80, 1, 1, false, HS},
                                        {3, 184, 80, 1, 1, false, HS},
                                        {3, 184, 80, 1, 1, false, HS},
                                        {3, 480, 112, 1, 1, true, HS},
                                        {3, 672, 112, 1, 1, true, HS},
                                        {5, 672, 160, 1, 2, true, HS},
                                        {5, 960, 160, 1, 1, true, HS},
                                        {5, 960, 160, 1, 1, true, HS}}};
static const struct family efficient = {MG_OP_SILU,
                                        MG_OP_SIGMOID,
                                        false,
                                        32,
                                        4,
                                        0,
                                        7,
                                        {{3, 1, 16, 1, 1, true, MG_OP_SILU},
                                         {3, 6, 24, 2, 2, true, MG_OP_SILU},
                                         {5, 6, 40, 2, 2, true, MG_OP_SILU},
                                         {3, 6, 80, 3, 2, true, MG_OP_SILU},
                                         {5, 6, 112, 3, 1, true, MG_OP_SILU},
                                         {5, 6, 192, 4, 2, true, MG_OP_SILU},
                                         {3, 6, 320, 1, 1, true, MG_OP_SILU}}};

struct scaling {
    double width, depth;
};

static void build_efficient(struct net *net, const void *context)
{
    const struct scaling *scaling = context;
    build_scaled(net, &efficient, scaling->width, scaling->depth);
}

#define MOBILE(name, title, image, dropout, build, config)                                                             \
    ZOO_NETWORK(name, title, build, config, ZOO_BATCH("64"), ZOO_IMAGE(image), ZOO_CLASSES("1000"), ZOO_WIDTH,         \
                ZOO_DROPOUT(dropout), ZOO_COMMON("f32"))
#define EFFICIENT(n, image, dropout, ...)                                                                              \
    MOBILE("efficientnet-" n, "EfficientNet " n, image, dropout, build_efficient, (&(const struct scaling)__VA_ARGS__))

static const struct zoo_network networks[] = {
    MOBILE("mobilenet-v2", "MobileNetV2", "224", "0.2", build_mobile, &v2),
    MOBILE("mobilenet-v3-small", "MobileNetV3, small", "224", "0.2", build_mobile, &v3_small),
    MOBILE("mobilenet-v3-large", "MobileNetV3, large", "224", "0.2", build_mobile, &v3_large),
    EFFICIENT("b0", "224", "0.2", {1.0, 1.0}),
    EFFICIENT("b1", "240", "0.2", {1.0, 1.1}),
    EFFICIENT("b2", "260", "0.3", {1.1, 1.2}),
    EFFICIENT("b3", "300", "0.3", {1.2, 1.4}),
    EFFICIENT("b4", "380", "0.4", {1.4, 1.8}),
    EFFICIENT("b5", "456", "0.4", {1.6, 2.2}),
    EFFICIENT("b6", "528", "0.5", {1.8, 2.6}),
    EFFICIENT("b7", "600", "0.5", {2.0, 3.1}),
};
ZOO_FAMILY(mobile);
