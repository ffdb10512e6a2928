/* Layers: modules with weights of their own, named like their PyTorch counterparts. */
#include "zoo/build.h"

mg_value net_linear(struct net *net, const char *name, mg_value x, int64_t features, bool bias)
{
    const char *outer = net_enter(net, "%s", name);
    struct mg_shape shape = net_shape(net, x);
    int64_t in = shape.rank ? shape.dim[shape.rank - 1] : 1;
    mg_value y = net_matmul(net, "", x, net_resident(net, "weight", MG_KIND_WEIGHT, DIMS(in, features)), false);
    if (bias && net->real)
        y = net_binary(net, "add", MG_OP_ADD, y, net_resident(net, "bias", MG_KIND_WEIGHT, DIMS(features)));
    net_leave(net, outer);
    return y;
}

static mg_value convolve(struct net *net, const char *name, mg_value x, struct conv conv, bool transposed)
{
    const char *outer = net_enter(net, "%s", name);
    int64_t groups = conv.groups ? conv.groups : 1, stride = conv.stride ? conv.stride : 1;
    int64_t strides[2] = {stride, stride}, pads[4] = {conv.pad, conv.pad, conv.pad, conv.pad};
    int64_t channels = net_dim(net, x, 1), rows = conv.filters, columns = channels / groups;
    if (transposed) {
        rows = channels;
        columns = conv.filters / groups;
    }
    mg_value in[3] = {x, net_resident(net, "weight", MG_KIND_WEIGHT, DIMS(rows, columns, conv.kernel, conv.kernel))};
    uint32_t count = 2;
    if (conv.bias && net->real)
        in[count++] = net_resident(net, "bias", MG_KIND_WEIGHT, DIMS(conv.filters));
    struct mg_attr attrs[] = {net_int(MG_ATTR_GROUP, groups), net_ints(MG_ATTR_STRIDES, 2, strides),
                              net_ints(MG_ATTR_PADS, 4, pads)};
    mg_value y = net_apply(net, "", transposed ? MG_OP_CONV_TRANSPOSE : MG_OP_CONV, count, in, 3, attrs, 1, NULL);
    net_leave(net, outer);
    return y;
}

mg_value net_conv(struct net *net, const char *name, mg_value x, struct conv conv)
{
    return convolve(net, name, x, conv, false);
}

mg_value net_conv_transpose(struct net *net, const char *name, mg_value x, struct conv conv)
{
    return convolve(net, name, x, conv, true);
}

/* A running statistic: a buffer, brought up to date in place from this batch's. */
static void track_statistic(struct net *net, const char *name, mg_value statistic, const struct mg_shape *x,
                            bool variance)
{
    const char *outer = net_enter(net, "%s", name);
    mg_value buffer = net_resident(net, "buffer", MG_KIND_STATE, DIMS(x->dim[1]));
    int64_t count = mg_shape_elements(x) / x->dim[1];
    struct mg_attr attrs[] = {net_int(MG_ATTR_VARIANCE, variance), net_int(MG_ATTR_ELEMENTS, count)};
    mg_value updated = net_apply(net, "", MG_OP_STAT_UPDATE, 2, (mg_value[]){buffer, statistic}, 2, attrs, 1, NULL);
    if (net->code == MG_OK)
        mg_graph_add_update(net->g, buffer, updated);
    net_leave(net, outer);
}

mg_value net_batch_norm(struct net *net, const char *name, mg_value x)
{
    if (!net->real || net->code)
        return x;
    const char *outer = net_enter(net, "%s", name);
    struct mg_shape shape = net_shape(net, x);
    mg_value out[3] = {MG_NONE, MG_NONE, MG_NONE};
    mg_value in[3] = {x, net_resident(net, "weight", MG_KIND_WEIGHT, DIMS(shape.dim[1])),
                      net_resident(net, "bias", MG_KIND_WEIGHT, DIMS(shape.dim[1]))};
    net_apply(net, "", MG_OP_BATCH_NORM, 3, in, 0, NULL, 3, out);
    track_statistic(net, "running_mean", out[1], &shape, false);
    track_statistic(net, "running_var", out[2], &shape, true);
    net_leave(net, outer);
    return out[0];
}

mg_value net_conv_bn_relu(struct net *net, const char *suffix, mg_value x, struct conv conv)
{
    x = net_conv(net, mg_arena_printf(net->arena, "conv%s", suffix), x, conv);
    x = net_batch_norm(net, mg_arena_printf(net->arena, "bn%s", suffix), x);
    return net_unary(net, mg_arena_printf(net->arena, "relu%s", suffix), MG_OP_RELU, x);
}

mg_value net_layer_norm(struct net *net, const char *name, mg_value x, double epsilon)
{
    const char *outer = net_enter(net, "%s", name);
    struct mg_shape shape = net_shape(net, x);
    mg_value in[3] = {x}, out[3];
    uint32_t count = 1;
    if (net->real && net->code == MG_OK) {
        in[count++] = net_resident(net, "weight", MG_KIND_WEIGHT, DIMS(shape.dim[shape.rank - 1]));
        in[count++] = net_resident(net, "bias", MG_KIND_WEIGHT, DIMS(shape.dim[shape.rank - 1]));
    }
    struct mg_attr attrs[] = {net_int(MG_ATTR_AXIS, -1), net_real(MG_ATTR_EPSILON, epsilon)};
    mg_value y = net_apply(net, "", MG_OP_LAYER_NORM, count, in, 2, attrs, 3, out);
    net_leave(net, outer);
    return y;
}

mg_value net_activation(struct net *net, const char *name, mg_value x, enum mg_op_type type)
{
    return net_unary(net, name, net->real ? type : MG_OP_RELU, x);
}

mg_value net_dropout(struct net *net, const char *name, mg_value x)
{
    mg_value out[2];
    if (!net->real || !(net->dropout > 0))
        return x;
    struct mg_attr attrs[] = {net_real(MG_ATTR_RATIO, net->dropout), net_int(MG_ATTR_SEED, ++net->dropouts)};
    return net_apply(net, name, MG_OP_DROPOUT, 1, &x, 2, attrs, 2, out);
}

static mg_value pool_by(struct net *net, const char *name, mg_value x, struct pool pool, enum mg_op_type type)
{
    int64_t kernel[2] = {pool.kernel, pool.kernel}, strides[2] = {pool.stride, pool.stride};
    int64_t pads[4] = {pool.pad, pool.pad, pool.pad, pool.pad};
    struct mg_attr attrs[] = {net_ints(MG_ATTR_KERNEL_SHAPE, 2, kernel), net_ints(MG_ATTR_STRIDES, 2, strides),
                              net_ints(MG_ATTR_PADS, 4, pads)};
    return net_apply(net, name, type, 1, &x, 3, attrs, 1, NULL);
}

mg_value net_pool(struct net *net, const char *name, mg_value x, struct pool pool)
{
    return pool_by(net, name, x, pool, net->real ? MG_OP_MAX_POOL : MG_OP_AVG_POOL);
}

mg_value net_avg_pool(struct net *net, const char *name, mg_value x, struct pool pool)
{
    return pool_by(net, name, x, pool, MG_OP_AVG_POOL);
}

mg_value net_resize(struct net *net, const char *name, mg_value x, int64_t factor, const char *mode)
{
    int64_t sizes[2] = {net_dim(net, x, 2) * factor, net_dim(net, x, 3) * factor};
    struct mg_attr attrs[] = {net_ints(MG_ATTR_SPATIAL, 2, sizes), net_text(MG_ATTR_MODE, mode)};
    return net_apply(net, name, MG_OP_RESIZE, 1, &x, 2, attrs, 1, NULL);
}

mg_value net_classifier(struct net *net, const char *name, mg_value x, int64_t classes)
{
    x = net_unary(net, "avgpool", MG_OP_GLOBAL_AVG_POOL, x);
    if (!net->real)
        return net_conv(net, name, x, (struct conv){.filters = classes, .kernel = 1});
    struct mg_attr axis = net_int(MG_ATTR_AXIS, 1);
    x = net_apply(net, "flatten", MG_OP_FLATTEN, 1, &x, 1, &axis, 1, NULL);
    return net_linear(net, name, x, classes, true);
}
