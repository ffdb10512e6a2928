/* Rules of pooling, resampling and windows. */
#include <string.h>

#include "formats/aten_rules.h"

/* ---- pooling ---- */

static void set_pool(struct aten_builder *b, const struct aten_node *node, size_t at, uint32_t spatial)
{
    int64_t kernel[MG_MAX_RANK], strides[MG_MAX_RANK], pads[2 * MG_MAX_RANK] = {0};
    const struct aten_arg *stride = aten_argument(node, at + 1, "stride");
    bool own = stride && (stride->kind == ATEN_INT || (stride->kind == ATEN_LIST && stride->count > 0));
    uint32_t count = aten_ints(node, at, "kernel_size", spatial, kernel);
    aten_set_ints(b, MG_ATTR_KERNEL_SHAPE, kernel, count);
    if (own)
        aten_set_ints(b, MG_ATTR_STRIDES, strides, aten_ints(node, at + 1, "stride", spatial, strides));
    else
        aten_set_ints(b, MG_ATTR_STRIDES, kernel, count);
    aten_ints(node, at + 2, "padding", spatial, pads);
    for (uint32_t d = 0; d < spatial; d++)
        pads[spatial + d] = pads[d];
    aten_set_ints(b, MG_ATTR_PADS, pads, 2 * spatial);
}

/* max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil) -> y, indices; its gradient (dy, x, ...). Ours
 * finds the largest again and keeps no indices. */
mg_value aten_rule_max_pool(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_MAX_POOL_GRAD;
    int64_t dilations[MG_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    mg_value dy = grad ? aten_in(b, c->node, 0, NULL) : MG_NONE, x = aten_in(b, c->node, grad, NULL);
    uint32_t spatial = strstr(c->node->op, "3d") ? 3 : 2;
    if (aten_shape(b, x)->rank != 2 + spatial)
        return aten_decline(b);
    set_pool(b, c->node, 1 + (size_t)grad, spatial);
    aten_ints(c->node, 4 + (size_t)grad, "dilation", spatial, dilations);
    aten_set_ints(b, MG_ATTR_DILATIONS, dilations, spatial);
    aten_set_int(b, MG_ATTR_CEIL_MODE, aten_int(c->node, 5 + (size_t)grad, "ceil_mode", 0));
    if (grad)
        return aten_emit2(b, c->type, dy, x);
    mg_value out[2] = {aten_emit1(b, c->type, x), MG_NONE};
    aten_give(b, out, 2);
    return out[0];
}

/* avg_pool2d([dy, ]x, kernel, stride, padding, ceil, count_include_pad, divisor) */
mg_value aten_rule_avg_pool(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_AVG_POOL_GRAD;
    mg_value a = aten_in(b, c->node, 0, NULL);
    size_t at = 1 + (size_t)grad;
    uint32_t spatial = strstr(c->node->op, "3d") ? 3 : 2;
    if (!c->node->has_out || c->node->shape.rank != 2 + spatial)
        return aten_decline(b);
    if (grad)
        aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, spatial);
    set_pool(b, c->node, at, spatial);
    aten_set_int(b, MG_ATTR_CEIL_MODE, aten_int(c->node, at + 3, "ceil_mode", 0));
    aten_set_int(b, MG_ATTR_COUNT_INCLUDE_PAD, aten_int(c->node, at + 4, "count_include_pad", 1));
    return aten_emit1(b, c->type, a);
}

/* _adaptive_avg_pool2d(x, sizes), and its gradient (dy, x); of one element it is a global pool. */
mg_value aten_rule_adaptive_pool(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_ADAPTIVE_AVG_POOL_GRAD;
    mg_value a = aten_in(b, c->node, 0, NULL);
    uint32_t spatial = strstr(c->node->op, "3d") ? 3 : 2;
    if (!c->node->has_out || a == MG_NONE || aten_shape(b, a)->rank != 2 + spatial ||
        c->node->shape.rank != 2 + spatial)
        return aten_decline(b);
    bool global = true;
    for (uint32_t d = 2; d < 2 + spatial; d++)
        global = global && (grad ? aten_shape(b, a) : &c->node->shape)->dim[d] == 1;
    if (grad || !global)
        aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, spatial);
    if (global)
        return aten_emit1(b, grad ? MG_OP_GLOBAL_AVG_POOL_GRAD : MG_OP_GLOBAL_AVG_POOL, a);
    return aten_emit1(b, c->type, a);
}

/* ---- resampling ---- */

/* The scale of a dimension as it was asked for; 0: that of the sizes. It stands behind the others, for each dimension
 * or as a list. */
static double scale_of_dimension(const struct aten_node *node, size_t at, uint32_t d)
{
    const struct aten_arg *arg = aten_argument(node, at, "scale_factors");
    if (arg && arg->kind == ATEN_LIST)
        return d < arg->count ? arg->item[d].f : 0;
    return aten_real(node, at + d, NULL, 0);
}

/* Does torch come to the same places by a scale as by the two sizes? It computes in single precision, but for f64. */
static bool is_of_sizes(double scale, int64_t from, int64_t to, enum mg_dtype dtype)
{
    if (!(scale > 0) || 1 / scale == (double)from / (double)to)
        return true;
    return dtype != MG_DTYPE_F64 && (float)(1 / scale) == (float)from / (float)to;
}

/* Does torch, which multiplies in single precision, find the same nearest neighbours as we, who divide in double? */
static bool rounds_alike(int64_t from, int64_t to)
{
    enum { MOST = 1 << 16 };
    float step = (float)from / (float)to;
    for (int64_t i = 0; i < to && i < MOST; i++)
        if ((int64_t)((float)i * step) != (int64_t)((double)i / ((double)to / (double)from)))
            return false;
    return to <= MOST || from == to;
}

/* Sets the scales that differ from those of the sizes; false where the operator cannot tell them: rounding would have
 * to be torch's own. */
static bool set_scales(struct aten_builder *b, const struct aten_node *node, size_t at, mg_value x, bool linear)
{
    const struct mg_shape *given = aten_shape(b, x);
    uint32_t spatial = node->shape.rank - 2;
    bool grad = strstr(node->op, "backward") != NULL;
    for (uint32_t d = 0; d < spatial; d++) {
        int64_t from = grad ? node->shape.dim[2 + d] : given->dim[2 + d];
        int64_t to = grad ? given->dim[2 + d] : node->shape.dim[2 + d];
        double scale = scale_of_dimension(node, at, d);
        bool plain = is_of_sizes(scale, from, to, node->dtype);
        if (!linear && !(plain && rounds_alike(from, to)))
            return false;
        if (!plain)
            aten_set_real(b, (enum mg_attr_key)(MG_ATTR_SCALES_W - (int)(spatial - 1 - d)), scale);
    }
    return true;
}

/* upsample_*(x, size, [align_corners, ]scales), upsample_*_backward(dy, sizes, sizes, ...): the sizes are the result's;
 * aligned corners need no scale */
mg_value aten_rule_resize(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool grad = c->type == MG_OP_RESIZE_GRAD, cubic = strstr(c->node->op, "cubic") != NULL;
    bool linear = cubic || strstr(c->node->op, "linear");
    mg_value x = aten_in(b, c->node, 0, NULL);
    size_t at = grad ? 3 : 2;
    bool corners = linear && aten_int(c->node, at, "align_corners", 0) != 0;
    if (!c->node->has_out || c->node->shape.rank < 3 || c->node->shape.rank != aten_shape(b, x)->rank ||
        (!corners && !set_scales(b, c->node, at + linear, x, linear)))
        return aten_decline(b);
    aten_set_ints(b, MG_ATTR_SPATIAL, c->node->shape.dim + 2, c->node->shape.rank - 2);
    aten_set_text(b, MG_ATTR_MODE, cubic ? "cubic" : linear ? "linear" : "nearest");
    aten_set_text(b, MG_ATTR_COORDINATES, !linear ? "asymmetric" : corners ? "align_corners" : "half_pixel");
    return aten_emit1(b, c->type, x);
}

/* grid_sampler(x, grid, mode, padding, align_corners) */
mg_value aten_rule_grid_sample(struct aten_builder *b, const struct aten_rule_call *c)
{
    static const char *const modes[] = {"linear", "nearest", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                            "reflection"};
    int64_t mode = aten_int(c->node, 2, "interpolation_mode", -1), padding = aten_int(c->node, 3, "padding_mode", -1);
    mg_value x = aten_in(b, c->node, 0, NULL), grid = aten_in(b, c->node, 1, NULL);
    if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
        return aten_decline(b);
    aten_set_text(b, MG_ATTR_MODE, modes[mode]);
    aten_set_text(b, MG_ATTR_PADDING, paddings[padding]);
    aten_set_int(b, MG_ATTR_ALIGN_CORNERS, aten_int(c->node, 4, "align_corners", 0));
    return aten_emit2(b, c->type, x, grid);
}

/* ---- windows as columns ---- */

/* kernel, dilation, padding, stride from position `at` on */
static void set_columns(struct aten_builder *b, const struct aten_node *node, size_t at)
{
    int64_t ints[MG_MAX_RANK], pads[2 * MG_MAX_RANK];
    aten_set_ints(b, MG_ATTR_KERNEL_SHAPE, ints, aten_ints(node, at, "kernel_size", 2, ints));
    aten_set_ints(b, MG_ATTR_DILATIONS, ints, aten_ints(node, at + 1, "dilation", 2, ints));
    aten_set_ints(b, MG_ATTR_STRIDES, ints, aten_ints(node, at + 3, "stride", 2, ints));
    uint32_t count = aten_ints(node, at + 2, "padding", 2, pads);
    for (uint32_t d = 0; d < count; d++)
        pads[count + d] = pads[d];
    aten_set_ints(b, MG_ATTR_PADS, pads, 2 * count);
}

/* im2col(x, kernel, dilation, padding, stride), col2im(x, sizes, ...), of batches */
mg_value aten_rule_columns(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool back = c->type == MG_OP_COL2IM;
    int64_t sizes[MG_MAX_RANK];
    mg_value x = aten_in(b, c->node, 0, NULL);
    if (!c->node->has_out || x == MG_NONE || aten_shape(b, x)->rank != (back ? 3 : 4))
        return aten_decline(b);
    if (back)
        aten_set_ints(b, MG_ATTR_SPATIAL, sizes, aten_ints(c->node, 1, "output_size", 2, sizes));
    set_columns(b, c->node, 1 + (size_t)back);
    return aten_emit1(b, c->type, x);
}

/* pixel_shuffle(x, factor), pixel_unshuffle(x, factor) */
mg_value aten_rule_pixel_shuffle(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL);
    aten_set_int(b, MG_ATTR_BLOCKSIZE, aten_int(c->node, 1, NULL, 1));
    aten_set_text(b, MG_ATTR_MODE, "CRD");
    return aten_emit1(b, c->type, x);
}
