/* The builder that all networks share: options, modules, values, single operators. */
#include "zoo/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failure and options ---- */

void net_fail(struct net *net, const char *pointer, const char *fmt, ...)
{
    if (net->code)
        return;
    char message[sizeof net->err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    net->code = mg_fail(net->err, MG_ERR_INVALID, pointer, "%s", message);
}

const char *net_option_text(struct net *net, const char *name)
{
    const struct mg_zoo_entry *entry = &net->network->entry;
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        if (strcmp(entry->parameters[i].name, name) == 0)
            return net->values[i];
    return "";
}

static void fail_option(struct net *net, const char *name, const char *should)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/%s", name);
    net_fail(net, pointer, "%s of %s must be %s, not \"%s\"", name, net->network->entry.name, should,
             net_option_text(net, name));
}

int64_t net_option(struct net *net, const char *name, int64_t lowest, int64_t highest)
{
    const char *text = net_option_text(net, name);
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*text == 0 || *end != 0 || value < lowest || value > highest) {
        char should[96];
        snprintf(should, sizeof should, "a whole number between %lld and %lld", (long long)lowest, (long long)highest);
        fail_option(net, name, should);
        return lowest;
    }
    return value;
}

double net_option_real(struct net *net, const char *name, double lowest, double highest)
{
    const char *text = net_option_text(net, name);
    char *end;
    double value = strtod(text, &end);
    if (*text == 0 || *end != 0 || !(value >= lowest && value <= highest)) {
        char should[96];
        snprintf(should, sizeof should, "a number between %g and %g", lowest, highest);
        fail_option(net, name, should);
        return lowest;
    }
    return value;
}

int64_t net_channels(struct net *net, int64_t published)
{
    int64_t channels = (int64_t)((double)published * net_option_real(net, "width", 0.001, 100) + 0.5);
    return channels > 1 ? channels : 1;
}

/* ---- modules ---- */

const char *net_enter(struct net *net, const char *fmt, ...)
{
    char name[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    const char *outer = net->path;
    net->path = *outer ? mg_arena_printf(net->arena, "%s.%s", outer, name) : mg_arena_strdup(net->arena, name);
    return outer;
}

void net_leave(struct net *net, const char *path)
{
    net->path = path;
}

static const char *full_name(const struct net *net, const char *name)
{
    if (*net->path == 0)
        return name;
    return *name ? mg_arena_printf(net->arena, "%s.%s", net->path, name) : net->path;
}

/* ---- values ---- */

static mg_value add_value(struct net *net, const char *name, enum mg_kind kind, enum mg_dtype dtype, uint32_t rank,
                          const int64_t *dim)
{
    if (net->code)
        return MG_NONE;
    struct mg_shape shape = {.rank = rank};
    memcpy(shape.dim, dim, rank * sizeof *dim);
    mg_value value = mg_graph_add_value(net->g, name, kind, dtype, &shape);
    if (value == MG_NONE)
        net->code =
            mg_fail(net->err, MG_ERR_INTERNAL, "", "the value %s of %s exists twice", name, net->network->entry.name);
    return value;
}

mg_value net_input(struct net *net, const char *name, enum mg_dtype dtype, uint32_t rank, const int64_t *dim)
{
    return add_value(net, name, MG_KIND_INPUT, dtype, rank, dim);
}

mg_value net_resident(struct net *net, const char *name, enum mg_kind kind, uint32_t rank, const int64_t *dim)
{
    return add_value(net, full_name(net, name), kind, net->dtype, rank, dim);
}

struct mg_shape net_shape(const struct net *net, mg_value value)
{
    static const struct mg_shape none = {.rank = 0};
    return net->code ? none : net->g->values[value].shape;
}

int64_t net_dim(const struct net *net, mg_value value, uint32_t dim)
{
    return net->code ? 1 : net->g->values[value].shape.dim[dim];
}

void net_output(struct net *net, mg_value value)
{
    if (net->code == MG_OK)
        mg_graph_add_output(net->g, value);
}

/* ---- operators ---- */

struct mg_attr net_int(enum mg_attr_key key, int64_t value)
{
    return (struct mg_attr){.key = key, .type = MG_ATTR_TYPE_INT, .i = value};
}

struct mg_attr net_real(enum mg_attr_key key, double value)
{
    return (struct mg_attr){.key = key, .type = MG_ATTR_TYPE_FLOAT, .f = value};
}

struct mg_attr net_text(enum mg_attr_key key, const char *value)
{
    return (struct mg_attr){.key = key, .type = MG_ATTR_TYPE_STRING, .string = value};
}

struct mg_attr net_ints(enum mg_attr_key key, uint32_t count, const int64_t *values)
{
    return (struct mg_attr){.key = key, .type = MG_ATTR_TYPE_INTS, .count = count, .ints = values};
}

mg_value net_apply(struct net *net, const char *name, enum mg_op_type type, uint32_t in_count, const mg_value *in,
                   uint32_t attr_count, const struct mg_attr *attrs, uint32_t out_count, mg_value *out)
{
    enum { MOST = 4 };
    mg_value results[MOST];
    const char *names[MOST] = {full_name(net, name)};
    if (net->code)
        return MG_NONE;
    for (uint32_t i = 1; i < out_count; i++)
        names[i] = mg_arena_printf(net->arena, "%s#%u", names[0], i);
    net->code =
        mg_graph_add_op(net->g, type, names[0], in, in_count, attrs, attr_count, names, out_count, results, net->err);
    if (net->code)
        return MG_NONE;
    net->g->ops[net->g->op_count - 1].module = net->path;
    if (out)
        memcpy(out, results, out_count * sizeof *out);
    return results[0];
}

mg_value net_unary(struct net *net, const char *name, enum mg_op_type type, mg_value x)
{
    return net_apply(net, name, type, 1, &x, 0, NULL, 1, NULL);
}

mg_value net_binary(struct net *net, const char *name, enum mg_op_type type, mg_value a, mg_value b)
{
    return net_apply(net, name, type, 2, (mg_value[]){a, b}, 0, NULL, 1, NULL);
}

mg_value net_reshape(struct net *net, const char *name, mg_value x, uint32_t rank, const int64_t *dim)
{
    struct mg_attr shape = net_ints(MG_ATTR_SHAPE, rank, dim);
    return net_apply(net, name, MG_OP_RESHAPE, 1, &x, 1, &shape, 1, NULL);
}

mg_value net_transpose(struct net *net, const char *name, mg_value x, uint32_t rank, const int64_t *perm)
{
    struct mg_attr attr = net_ints(MG_ATTR_PERM, rank, perm);
    return net_apply(net, name, MG_OP_TRANSPOSE, 1, &x, 1, &attr, 1, NULL);
}

mg_value net_slice(struct net *net, const char *name, mg_value x, int64_t axis, int64_t start, int64_t end)
{
    struct mg_attr attrs[] = {net_ints(MG_ATTR_STARTS, 1, &start), net_ints(MG_ATTR_ENDS, 1, &end),
                              net_ints(MG_ATTR_AXES, 1, &axis)};
    return net_apply(net, name, MG_OP_SLICE, 1, &x, 3, attrs, 1, NULL);
}

mg_value net_concat(struct net *net, const char *name, int64_t axis, uint32_t count, const mg_value *values)
{
    struct mg_attr attr = net_int(MG_ATTR_AXIS, axis);
    return net_apply(net, name, MG_OP_CONCAT, count, values, 1, &attr, 1, NULL);
}

mg_value net_matmul(struct net *net, const char *name, mg_value a, mg_value b, bool trans_b)
{
    struct mg_attr attr = net_int(MG_ATTR_TRANS_B, trans_b);
    return net_apply(net, name, MG_OP_MATMUL, 2, (mg_value[]){a, b}, 1, &attr, 1, NULL);
}

mg_value net_scale(struct net *net, const char *name, mg_value x, double factor)
{
    struct mg_attr attr = net_real(MG_ATTR_ALPHA, factor);
    return net_apply(net, name, MG_OP_AFFINE, 1, &x, 1, &attr, 1, NULL);
}

mg_value net_softmax(struct net *net, const char *name, mg_value x)
{
    struct mg_attr attr = net_int(MG_ATTR_AXIS, -1);
    return net_apply(net, name, MG_OP_SOFTMAX, 1, &x, 1, &attr, 1, NULL);
}

mg_value net_gather(struct net *net, const char *name, mg_value table, mg_value indices)
{
    struct mg_attr attr = net_int(MG_ATTR_AXIS, 0);
    return net_apply(net, name, MG_OP_GATHER, 2, (mg_value[]){table, indices}, 1, &attr, 1, NULL);
}
