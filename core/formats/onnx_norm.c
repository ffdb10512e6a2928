/* ONNX rules: normalisation, pooling, resampling. */
#include <string.h>

#include "formats/onnx_rules.h"

/* ---- normalisation ---- */

static mg_value add_norm(struct onnx_call *c, enum mg_op_type type, const mg_value *in, uint32_t count,
                         const struct mg_attr *attrs, uint32_t attr_count, uint32_t results, mg_value *out)
{
    mg_value made[3];
    mg_onnx_add(c, type, in, count, attrs, attr_count, results, out ? out : made);
    return out ? out[0] : made[0];
}

static mg_value per_channel(struct onnx_call *c, mg_value statistic)
{
    const struct mg_shape shape = {.rank = 1, .dim = {mg_onnx_info(c, statistic)->shape.dim[1]}};
    return mg_onnx_reshape(c, statistic, &shape);
}

/* momentum old + (1 - momentum) new */
static mg_value running(struct onnx_call *c, uint32_t operand, mg_value fresh, double momentum)
{
    mg_value old = mg_onnx_affine(c, mg_onnx_constant(c, operand), momentum, 0);
    fresh = mg_onnx_cast(c, mg_onnx_affine(c, fresh, 1 - momentum, 0), mg_onnx_info(c, old)->dtype);
    return mg_onnx_binary(c, MG_OP_ADD, old, fresh);
}

static void batch_norm_training(struct onnx_call *c, double epsilon)
{
    double momentum = mg_onnx_real(c, "momentum", 0.9);
    mg_value in[] = {mg_onnx_in(c, 0), mg_onnx_weight(c, 1), mg_onnx_weight(c, 2)}, out[3];
    mg_onnx_add(c, MG_OP_BATCH_NORM, in, 3, ATTRS(A_REAL(EPSILON, epsilon)), 3, out);
    mg_onnx_result(c, 0, out[0]);
    if (c->out_count < 2)
        return;
    mg_value mean = per_channel(c, out[1]), rstd = per_channel(c, out[2]);
    mg_value variance =
        mg_onnx_affine(c, mg_onnx_unary(c, MG_OP_RECIPROCAL, mg_onnx_binary(c, MG_OP_MUL, rstd, rstd)), 1, -epsilon);
    mg_onnx_result(c, 1, running(c, 3, mean, momentum));
    mg_onnx_result(c, 2, running(c, 4, variance, momentum));
}

void onnx_rule_batch_norm(struct onnx_call *c, int which)
{
    (void)which;
    double epsilon = mg_onnx_real(c, "epsilon", 1e-5);
    if (mg_onnx_int(c, "spatial", 1) == 0 && mg_onnx_shape(c, 0)->rank > 2)
        mg_onnx_unsupported(c, "spatial = 0");
    if (c->opset >= 14 && mg_onnx_int(c, "training_mode", 0)) {
        batch_norm_training(c, epsilon);
        return;
    }
    if (mg_onnx_shape(c, 0)->rank < 2)
        mg_onnx_unsupported(c, "fewer than 2 dimensions");
    mg_value in[] = {mg_onnx_in(c, 0), mg_onnx_weight(c, 1), mg_onnx_weight(c, 2), mg_onnx_constant(c, 3),
                     mg_onnx_constant(c, 4)};
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_BATCH_NORM_INFERENCE, in, 5, ATTRS(A_REAL(EPSILON, epsilon)), 1, NULL);
}

void onnx_rule_instance_norm(struct onnx_call *c, int which)
{
    (void)which;
    mg_value in[] = {mg_onnx_in(c, 0), mg_onnx_weight(c, 1), mg_onnx_weight(c, 2)};
    mg_onnx_last(c);
    add_norm(c, MG_OP_INSTANCE_NORM, in, 3, ATTRS(A_REAL(EPSILON, mg_onnx_real(c, "epsilon", 1e-5))), 3, NULL);
}

/* Parameters of the shape that they must have: broadcast ones are expanded. */
static mg_value shaped(struct onnx_call *c, mg_value x, const struct mg_shape *shape)
{
    if (c->code != MG_OK || mg_shape_equal(&mg_onnx_info(c, x)->shape, shape))
        return x;
    return mg_onnx_add(c, MG_OP_EXPAND, OPERANDS(x), ATTRS(A_INTS(SHAPE, shape->dim, shape->rank)), 1, NULL);
}

static struct mg_shape from_axis(const struct mg_shape *shape, uint32_t axis)
{
    struct mg_shape out = {.rank = shape->rank - axis};
    memcpy(out.dim, shape->dim + axis, out.rank * sizeof out.dim[0]);
    return out;
}

void onnx_rule_layer_norm(struct onnx_call *c, int which)
{
    (void)which;
    const struct mg_shape *x = mg_onnx_shape(c, 0);
    uint32_t axis = mg_onnx_axis(c, mg_onnx_int(c, "axis", -1), x->rank);
    struct mg_shape params = from_axis(x, axis);
    const struct mg_attr attrs[] = {A_INT(AXIS, axis), A_REAL(EPSILON, mg_onnx_real(c, "epsilon", 1e-5))};
    mg_value in[3] = {mg_onnx_in(c, 0), shaped(c, mg_onnx_weight(c, 1), &params)}, out[3];
    bool shift = mg_onnx_has(c, 2);
    if (shift)
        in[2] = shaped(c, mg_onnx_weight(c, 2), &params);
    c->last = shift;
    mg_onnx_add(c, MG_OP_LAYER_NORM, in, shift ? 3 : 1, attrs, 2, 3, out);
    if (shift)
        return;
    mg_onnx_result(c, 1, out[1]);
    mg_onnx_result(c, 2, out[2]);
    mg_value y = mg_onnx_binary(c, MG_OP_MUL, out[0], in[1]);
    mg_onnx_result(c, 0, y);
}

void onnx_rule_rms_norm(struct onnx_call *c, int which)
{
    (void)which;
    const struct mg_shape *x = mg_onnx_shape(c, 0);
    uint32_t axis = mg_onnx_axis(c, mg_onnx_int(c, "axis", -1), x->rank);
    struct mg_shape params = from_axis(x, axis);
    mg_value in[2] = {mg_onnx_in(c, 0), shaped(c, mg_onnx_weight(c, 1), &params)};
    mg_onnx_last(c);
    add_norm(c, MG_OP_RMS_NORM, in, 2, ATTRS(A_INT(AXIS, axis), A_REAL(EPSILON, mg_onnx_real(c, "epsilon", 1e-5))), 2,
             NULL);
}

/* Before opset 21 scale and shift are given for each group, then for each channel. */
static mg_value for_channels(struct onnx_call *c, uint32_t operand, int64_t groups, int64_t channels)
{
    mg_value x = mg_onnx_weight(c, operand);
    struct mg_shape column = {.rank = 2, .dim = {groups, 1}}, all = {.rank = 2, .dim = {groups, channels / groups}};
    struct mg_shape flat = {.rank = 1, .dim = {channels}};
    if (mg_onnx_shape(c, operand)->dim[0] == channels)
        return x;
    return mg_onnx_reshape(c, shaped(c, mg_onnx_reshape(c, x, &column), &all), &flat);
}

void onnx_rule_group_norm(struct onnx_call *c, int which)
{
    (void)which;
    const struct mg_shape *x = mg_onnx_shape(c, 0);
    int64_t groups = mg_onnx_int(c, "num_groups", 1);
    if (x->rank < 2 || groups < 1 || x->dim[1] % groups) {
        mg_onnx_invalid(c, "%lld groups do not divide the channels", (long long)groups);
        return;
    }
    mg_value in[] = {mg_onnx_in(c, 0), for_channels(c, 1, groups, x->dim[1]), for_channels(c, 2, groups, x->dim[1])};
    mg_onnx_last(c);
    add_norm(c, MG_OP_GROUP_NORM, in, 3,
             ATTRS(A_INT(NUM_GROUPS, groups), A_REAL(EPSILON, mg_onnx_real(c, "epsilon", 1e-5))), 3, NULL);
}

/* x / (bias + alpha mean of x^2 over `size` channels)^beta, zeros beyond the ends. */
void onnx_rule_lrn(struct onnx_call *c, int which)
{
    (void)which;
    const struct mg_shape *shape = mg_onnx_shape(c, 0);
    int64_t size = mg_onnx_int(c, "size", 1), inner = 1;
    if (shape->rank < 2 || size < 1 || size > INT32_MAX) {
        mg_onnx_invalid(c, "rank or size is out of range");
        return;
    }
    for (uint32_t d = 2; d < shape->rank; d++)
        inner *= shape->dim[d];
    struct mg_shape flat = {.rank = 4, .dim = {shape->dim[0], 1, shape->dim[1], inner}};
    const int64_t kernel[] = {size, 1}, stride[] = {1, 1}, pads[] = {(size - 1) / 2, 0, size - 1 - (size - 1) / 2, 0};
    mg_value x = mg_onnx_in(c, 0), square = mg_onnx_reshape(c, mg_onnx_binary(c, MG_OP_MUL, x, x), &flat);
    mg_value mean = mg_onnx_add(c, MG_OP_AVG_POOL, OPERANDS(square),
                                ATTRS(A_INTS(KERNEL_SHAPE, kernel, 2), A_INTS(STRIDES, stride, 2),
                                      A_INTS(PADS, pads, 4), A_INT(COUNT_INCLUDE_PAD, 1)),
                                1, NULL);
    mean = mg_onnx_affine(c, mean, mg_onnx_real(c, "alpha", 1e-4), mg_onnx_real(c, "bias", 1));
    mg_value beta = mg_onnx_scalar(c, mg_onnx_real(c, "beta", 0.75), mg_onnx_info(c, x)->dtype);
    mg_value power = mg_onnx_reshape(c, mg_onnx_binary(c, MG_OP_POW, mean, beta), shape);
    mg_onnx_last(c);
    mg_onnx_binary(c, MG_OP_DIV, x, power);
}

/* ---- pooling ---- */

static mg_value pooled(struct onnx_call *c, enum mg_op_type type, mg_value x, const struct onnx_window *w,
                       int64_t count_pads)
{
    bool up = mg_onnx_int(c, "ceil_mode", 0) != 0;
    if (type == MG_OP_MAX_POOL)
        return mg_onnx_add(c, type, OPERANDS(x),
                           ATTRS(A_INTS(KERNEL_SHAPE, w->kernel, w->rank), A_INTS(STRIDES, w->stride, w->rank),
                                 A_INTS(PADS, w->pad, 2 * w->rank), A_INTS(DILATIONS, w->dilation, w->rank),
                                 A_INT(CEIL_MODE, up)),
                           1, NULL);
    return mg_onnx_add(c, type, OPERANDS(x),
                       ATTRS(A_INTS(KERNEL_SHAPE, w->kernel, w->rank), A_INTS(STRIDES, w->stride, w->rank),
                             A_INTS(PADS, w->pad, 2 * w->rank), A_INTS(DILATIONS, w->dilation, w->rank),
                             A_INT(CEIL_MODE, up), A_INT(COUNT_INCLUDE_PAD, count_pads)),
                       1, NULL);
}

void onnx_rule_pool(struct onnx_call *c, int which)
{
    struct onnx_window w;
    mg_value x = mg_onnx_in(c, 0);
    onnx_window_of(c, mg_onnx_shape(c, 0), NULL, &w);
    mg_onnx_last(c);
    pooled(c, (enum mg_op_type)which, x, &w, mg_onnx_int(c, "count_include_pad", 0));
}

/* (sum |x|^p)^(1/p) */
static mg_value power(struct onnx_call *c, mg_value x, int64_t p)
{
    if (p != 1 && p != 2)
        mg_onnx_unsupported(c, "p = %lld", (long long)p);
    return p == 1 ? mg_onnx_unary(c, MG_OP_ABS, x) : mg_onnx_binary(c, MG_OP_MUL, x, x);
}

void onnx_rule_lp_pool(struct onnx_call *c, int which)
{
    (void)which;
    struct onnx_window w;
    int64_t p = mg_onnx_int(c, "p", 2), count = 1;
    onnx_window_of(c, mg_onnx_shape(c, 0), NULL, &w);
    for (uint32_t d = 0; d < w.rank; d++)
        count *= w.kernel[d] > 0 && w.kernel[d] < INT16_MAX ? w.kernel[d] : 1;
    mg_value mean = pooled(c, MG_OP_AVG_POOL, power(c, mg_onnx_in(c, 0), p), &w, 1);
    c->last = p == 1;
    mean = mg_onnx_affine(c, mean, (double)count, 0);
    if (p == 1)
        return;
    mg_onnx_last(c);
    mg_onnx_unary(c, MG_OP_SQRT, mean);
}

void onnx_rule_global_pool(struct onnx_call *c, int which)
{
    const struct mg_shape *shape = mg_onnx_shape(c, 0);
    bool lp = which == MG_OP_REDUCE_SUM;
    int64_t p = lp ? mg_onnx_int(c, "p", 2) : 1, axes[MG_MAX_RANK];
    mg_value x = mg_onnx_in(c, 0);
    for (uint32_t d = 2; d < shape->rank; d++)
        axes[d - 2] = d;
    if (shape->rank < 3)
        mg_onnx_unsupported(c, "fewer than 3 dimensions");
    if (!lp && shape->rank <= 5) {
        mg_onnx_last(c);
        mg_onnx_unary(c, which == MG_OP_REDUCE_MEAN ? MG_OP_GLOBAL_AVG_POOL : MG_OP_GLOBAL_MAX_POOL, x);
        return;
    }
    x = lp ? power(c, x, p) : x;
    c->last = p == 1;
    x = onnx_reduce(c, (enum mg_op_type)which, x, axes, shape->rank - 2, true);
    if (p == 1)
        return;
    mg_onnx_last(c);
    mg_onnx_unary(c, MG_OP_SQRT, x);
}

/* ---- resize ---- */

struct resize {
    const struct mg_shape *in;
    int64_t size[MG_MAX_RANK];
    double scale[MG_MAX_RANK];
    bool exact; /* scale is size / in everywhere */
};

static void sizes_from_scales(struct onnx_call *c, struct resize *r, uint32_t operand)
{
    const struct onnx_attribute *attribute = mg_onnx_attr(c, "scales");
    const struct mg_onnx_data *data = mg_onnx_has(c, operand) ? mg_onnx_known(c, operand) : NULL;
    uint32_t have = data ? (uint32_t)mg_shape_elements(&data->shape) : attribute ? attribute->floats.count : 0;
    if (c->code == MG_OK && have != r->in->rank)
        mg_onnx_invalid(c, "%u scales for %u dimensions", have, r->in->rank);
    for (uint32_t d = 0; d < r->in->rank && c->code == MG_OK; d++) {
        r->scale[d] = data ? mg_onnx_data_at(data, d) : (double)*ONNX_AT(attribute->floats, float, d);
        double size = (double)r->in->dim[d] * r->scale[d];
        if (!(size >= 0 && size < 1e12))
            mg_onnx_invalid(c, "scale %u is out of range", d);
        else
            r->size[d] = (int64_t)(size + 1e-9);
    }
}

static void sizes_given(struct onnx_call *c, struct resize *r, uint32_t operand)
{
    uint32_t count, axis_count;
    const int64_t *sizes = mg_onnx_known_ints(c, operand, &count);
    const int64_t *axes = mg_onnx_ints(c, "axes", &axis_count);
    if (strcmp(mg_onnx_text(c, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        mg_onnx_unsupported(c, "keep_aspect_ratio_policy");
    if (c->code == MG_OK && count != (axes ? axis_count : r->in->rank))
        mg_onnx_invalid(c, "%u sizes for %u dimensions", count, r->in->rank);
    for (uint32_t d = 0; d < r->in->rank; d++)
        r->size[d] = r->in->dim[d];
    for (uint32_t i = 0; i < count && c->code == MG_OK; i++)
        r->size[axes ? mg_onnx_axis(c, axes[i], r->in->rank) : i] = sizes[i];
    for (uint32_t d = 0; d < r->in->rank; d++)
        r->scale[d] = r->in->dim[d] ? (double)r->size[d] / (double)r->in->dim[d] : 1;
}

/* Our operator's names for how coordinates and the nearest element are found; NULL: it has none. */
static const char *coordinates_of(struct onnx_call *c, const struct resize *r, bool linear, bool upsample)
{
    const char *mode = mg_onnx_text(c, "coordinate_transformation_mode", c->opset < 11 ? "asymmetric" : "half_pixel");
    const char *nearest = mg_onnx_text(c, "nearest_mode", c->opset < 11 ? "floor" : "round_prefer_floor");
    bool many = true;
    for (uint32_t d = 2; d < r->in->rank; d++)
        many = many && r->size[d] > 1;
    if (upsample)
        return "asymmetric";
    if (strcmp(mode, "pytorch_half_pixel") == 0 && many)
        mode = "half_pixel";
    if (strcmp(mode, "half_pixel_symmetric") == 0 && r->exact)
        mode = "half_pixel";
    if (strcmp(mode, "asymmetric") != 0 && strcmp(mode, "half_pixel") != 0 && strcmp(mode, "align_corners") != 0)
        return NULL;
    if (linear)
        return mode;
    return strcmp(nearest, strcmp(mode, "asymmetric") == 0 ? "floor" : "round_prefer_floor") == 0 ? mode : NULL;
}

void onnx_rule_resize(struct onnx_call *c, int upsample)
{
    struct resize r = {.in = mg_onnx_shape(c, 0), .exact = true};
    const char *mode = mg_onnx_text(c, "mode", "nearest");
    bool linear = strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0;
    uint32_t scales = upsample || c->opset < 11 ? 1 : 2;
    if (!upsample && mg_onnx_has(c, 3) && mg_shape_elements(mg_onnx_shape(c, 3)) > 0)
        sizes_given(c, &r, 3);
    else
        sizes_from_scales(c, &r, scales);
    if (c->code != MG_OK)
        return;
    for (uint32_t d = 0; d < r.in->rank; d++) {
        double error = r.scale[d] * (double)r.in->dim[d] - (double)r.size[d];
        r.exact = r.exact && error < 1e-6 * (double)r.size[d] && error > -1e-6 * (double)r.size[d];
    }
    const char *coordinates = coordinates_of(c, &r, linear, upsample != 0);
    if (!linear && strcmp(mode, "nearest") != 0)
        mg_onnx_unsupported(c, "mode %.20s", mode);
    else if (!coordinates || mg_onnx_int(c, "antialias", 0) || mg_onnx_attr(c, "axes"))
        mg_onnx_unsupported(c, "coordinates %.30s, nearest %.30s",
                            mg_onnx_text(c, "coordinate_transformation_mode", "half_pixel"),
                            mg_onnx_text(c, "nearest_mode", "round_prefer_floor"));
    else if (r.in->rank < 3 || r.in->rank > 5 || r.size[0] != r.in->dim[0] || r.size[1] != r.in->dim[1])
        mg_onnx_unsupported(c, "of other than 1 to 3 spatial dimensions");
    else if (!r.exact)
        mg_onnx_unsupported(c, "scales that give no whole sizes");
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_RESIZE, OPERANDS(x),
                ATTRS(A_INTS(SPATIAL, r.size + 2, r.in->rank - 2), A_TEXT(MODE, linear ? "linear" : "nearest"),
                      A_TEXT(COORDINATES, coordinates ? coordinates : "asymmetric")),
                1, NULL);
}
