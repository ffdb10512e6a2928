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

/* ---- pooling ---- */

/* MaxPool with two results tells the places too. */
void onnx_rule_pool(struct onnx_call *c, int which)
{
    struct onnx_window w;
    mg_value x = mg_onnx_in(c, 0);
    bool places = which == MG_OP_MAX_POOL && c->out_count > 1 && *ONNX_NAME(c->node->outputs, 1);
    onnx_window_of(c, mg_onnx_shape(c, 0), NULL, &w);
    struct mg_attr attrs[6] = {A_INTS(KERNEL_SHAPE, w.kernel, w.rank), A_INTS(STRIDES, w.stride, w.rank),
                               A_INTS(PADS, w.pad, 2 * w.rank), A_INTS(DILATIONS, w.dilation, w.rank),
                               A_INT(CEIL_MODE, mg_onnx_int(c, "ceil_mode", 0) != 0)};
    uint32_t count = 5;
    if (which == MG_OP_AVG_POOL)
        attrs[count++] = (struct mg_attr)A_INT(COUNT_INCLUDE_PAD, mg_onnx_int(c, "count_include_pad", 0));
    else if (which == MG_OP_LP_POOL)
        attrs[count++] = (struct mg_attr)A_INT(P, mg_onnx_int(c, "p", 2));
    else if (places)
        attrs[count++] = (struct mg_attr)A_INT(STORAGE_ORDER, mg_onnx_int(c, "storage_order", 0));
    mg_onnx_last(c);
    mg_onnx_add(c, places ? MG_OP_MAX_POOL_INDICES : (enum mg_op_type)which, &x, 1, attrs, count, places ? 2 : 1, NULL);
}

/* Places count in the result that the windows give; an output_shape lengthens or shortens that at its end. */
void onnx_rule_max_unpool(struct onnx_call *c, int which)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    struct onnx_window w;
    int64_t size[MG_MAX_RANK] = {0}, pads[2 * MG_MAX_RANK] = {0};
    uint32_t count = 0;
    const int64_t *want = mg_onnx_has(c, 2) ? mg_onnx_known_ints(c, 2, &count) : NULL;
    bool longer = false;
    (void)which;
    onnx_window_of(c, in, NULL, &w);
    if (want && count != in->rank)
        mg_onnx_invalid(c, "output_shape has %u entries for %u dimensions", count, in->rank);
    for (uint32_t d = 0; d < w.rank && c->code == MG_OK; d++) {
        size[d] = (in->dim[d + 2] - 1) * w.stride[d] + w.kernel[d] - w.pad[d] - w.pad[d + w.rank];
        if (want && (want[d + 2] < 1 || want[d + 2] > INT32_MAX))
            mg_onnx_invalid(c, "output_shape has a dimension of %lld", (long long)want[d + 2]);
        else
            pads[in->rank + d + 2] = want ? want[d + 2] - size[d] : 0;
        longer = longer || pads[in->rank + d + 2] != 0;
    }
    mg_value x = mg_onnx_in(c, 0), places = mg_onnx_in(c, 1);
    c->last = !longer;
    x = mg_onnx_add(c, MG_OP_MAX_UNPOOL, OPERANDS(x, places), ATTRS(A_INTS(SPATIAL, size, w.rank)), 1, NULL);
    if (!longer)
        return;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_PAD, OPERANDS(x), ATTRS(A_INTS(PADS, pads, 2 * in->rank)), 1, NULL);
}

/* (sum |x|^p)^(1/p) */
static mg_value power(struct onnx_call *c, mg_value x, int64_t p)
{
    if (p != 1 && p != 2)
        mg_onnx_unsupported(c, "p = %lld", (long long)p);
    return p == 1 ? mg_onnx_unary(c, MG_OP_ABS, x) : mg_onnx_binary(c, MG_OP_MUL, x, x);
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
};

static void sizes_from_scales(struct onnx_call *c, struct resize *r, uint32_t operand)
{
    const struct onnx_attribute *attribute = mg_onnx_attr(c, "scales");
    const struct mg_onnx_data *data = mg_onnx_has(c, operand) ? mg_onnx_known(c, operand) : NULL;
    uint32_t have = data ? (uint32_t)mg_shape_elements(&data->shape) : attribute ? attribute->floats.count : 0;
    if (c->code == MG_OK && have != r->in->rank)
        mg_onnx_invalid(c, "%u scales for %u dimensions", have, r->in->rank);
    for (uint32_t d = 0; (data || attribute) && d < r->in->rank && c->code == MG_OK; d++) {
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

/* What the size does not tell is given too: scales that are no quotients of sizes. */
static double scale_attr(const struct resize *r, uint32_t from_last)
{
    uint32_t d = r->in->rank - 1 - from_last;
    double error = r->scale[d] * (double)r->in->dim[d] - (double)r->size[d];
    bool whole = error < 1e-6 * (double)r->size[d] && error > -1e-6 * (double)r->size[d];
    return d < 2 || whole ? 0 : r->scale[d];
}

void onnx_rule_resize(struct onnx_call *c, int upsample)
{
    struct resize r = {.in = mg_onnx_shape(c, 0)};
    const char *mode = mg_onnx_text(c, "mode", "nearest");
    const char *coordinates =
        mg_onnx_text(c, "coordinate_transformation_mode", upsample || c->opset < 11 ? "asymmetric" : "half_pixel");
    const char *nearest = mg_onnx_text(c, "nearest_mode", upsample || c->opset < 11 ? "floor" : "round_prefer_floor");
    bool linear = strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0;
    if (!upsample && mg_onnx_has(c, 3) && mg_shape_elements(mg_onnx_shape(c, 3)) > 0)
        sizes_given(c, &r, 3);
    else
        sizes_from_scales(c, &r, upsample || c->opset < 11 ? 1 : 2);
    bool crop = strcmp(coordinates, "tf_crop_and_resize") == 0;
    if (mg_onnx_attr(c, "axes") && (crop || !mg_onnx_has(c, 3)))
        mg_onnx_unsupported(c, "scales or a region for some axes");
    else if (crop && !linear)
        mg_onnx_unsupported(c, "a region in mode %.30s", mode);
    else if (r.in->rank < 3 || r.in->rank > 5 || r.size[0] != r.in->dim[0] || r.size[1] != r.in->dim[1])
        mg_onnx_unsupported(c, "of other than 1 to 3 spatial dimensions");
    if (c->code == MG_OK && crop)
        onnx_crop_and_resize(c, r.size);
    if (c->code != MG_OK || crop)
        return;
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_RESIZE, OPERANDS(x),
                ATTRS(A_INTS(SPATIAL, r.size + 2, r.in->rank - 2), A_TEXT(MODE, linear ? "linear" : mode),
                      A_TEXT(COORDINATES, coordinates), A_TEXT(NEAREST_MODE, nearest),
                      A_REAL(CUBIC_COEFF_A, mg_onnx_real(c, "cubic_coeff_a", -0.75)),
                      A_INT(EXCLUDE_OUTSIDE, mg_onnx_int(c, "exclude_outside", 0)),
                      A_INT(ANTIALIAS, mg_onnx_int(c, "antialias", 0)), A_REAL(SCALES_D, scale_attr(&r, 2)),
                      A_REAL(SCALES_H, scale_attr(&r, 1)), A_REAL(SCALES_W, scale_attr(&r, 0))),
                1, NULL);
}

void onnx_rule_grid_sample(struct onnx_call *c, int which)
{
    const char *mode = mg_onnx_text(c, "mode", "linear");
    mg_value x = mg_onnx_in(c, 0), grid = mg_onnx_in(c, 1);
    (void)which;
    if (strcmp(mode, "bilinear") == 0)
        mode = "linear";
    else if (strcmp(mode, "bicubic") == 0)
        mode = "cubic";
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_GRID_SAMPLE, OPERANDS(x, grid),
                ATTRS(A_TEXT(MODE, mode), A_TEXT(PADDING, mg_onnx_text(c, "padding_mode", "zeros")),
                      A_INT(ALIGN_CORNERS, mg_onnx_int(c, "align_corners", 0))),
                1, NULL);
}

void onnx_rule_roi_align(struct onnx_call *c, int which)
{
    const int64_t size[] = {mg_onnx_int(c, "output_height", 1), mg_onnx_int(c, "output_width", 1)};
    const char *usual = c->opset < 16 ? "output_half_pixel" : "half_pixel";
    mg_value in[] = {mg_onnx_in(c, 0), mg_onnx_in(c, 1), mg_onnx_in(c, 2)};
    (void)which;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_ROI_ALIGN, in, 3,
                ATTRS(A_INTS(SPATIAL, size, 2), A_TEXT(MODE, mg_onnx_text(c, "mode", "avg")),
                      A_TEXT(COORDINATES, mg_onnx_text(c, "coordinate_transformation_mode", usual)),
                      A_INT(SAMPLING_RATIO, mg_onnx_int(c, "sampling_ratio", 0)),
                      A_REAL(SPATIAL_SCALE, mg_onnx_real(c, "spatial_scale", 1))),
                1, NULL);
}
