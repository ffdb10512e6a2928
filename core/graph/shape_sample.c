/* Shape rules: resizing, sampling by coordinates, regions of interest, windows as columns, determinants. */
#include <string.h>

#include "graph/ops_priv.h"

static enum mg_code misfit(struct mg_infer *t, uint32_t operand)
{
    return mg_infer_fail(t, "/inputs", "operand %u of shape %s does not fit %s", operand,
                         mg_shape_text(t->arena, &t->in[operand]), mg_shape_text(t->arena, &t->in[0]));
}

/* Where nearest_mode is not said, it follows from the coordinates. */
enum mg_code mg_shape_resize(struct mg_infer *t)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const coordinates[] = {
        "asymmetric",           "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners",
        "tf_half_pixel_for_nn", NULL};
    static const char *const roundings[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil", NULL};
    struct mg_attr *nearest = mg_infer_attr(t, MG_ATTR_NEAREST_MODE);
    MG_TRY(mg_infer_choice(t, MG_ATTR_MODE, modes));
    MG_TRY(mg_infer_choice(t, MG_ATTR_COORDINATES, coordinates));
    if (!nearest->string[0])
        nearest->string =
            strcmp(mg_infer_attr(t, MG_ATTR_COORDINATES)->string, "asymmetric") ? "round_prefer_floor" : "floor";
    MG_TRY(mg_infer_choice(t, MG_ATTR_NEAREST_MODE, roundings));
    for (enum mg_attr_key key = MG_ATTR_SCALES_D; key <= MG_ATTR_SCALES_W; key++) {
        if (!(mg_infer_attr(t, key)->f >= 0))
            return mg_infer_fail(t, "/attrs", "a scale is negative");
    }
    return mg_shape_spatial(t);
}

enum mg_code mg_shape_grid_sample(struct mg_infer *t)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    const struct mg_shape *x = &t->in[0], *grid = &t->in[1];
    MG_TRY(mg_infer_rank(t, 0, 3, 5));
    MG_TRY(mg_infer_choice(t, MG_ATTR_MODE, modes));
    MG_TRY(mg_infer_choice(t, MG_ATTR_PADDING, paddings));
    if (grid->rank != x->rank || grid->dim[0] != x->dim[0] || grid->dim[grid->rank - 1] != x->rank - 2)
        return misfit(t, 1);
    t->out[0] = *x;
    memcpy(t->out[0].dim + 2, grid->dim + 1, (x->rank - 2) * sizeof(int64_t));
    t->out_dtype[0] = t->in_dtype[0];
    return MG_OK;
}

enum mg_code mg_shape_roi_align(struct mg_infer *t)
{
    static const char *const modes[] = {"avg", "max", NULL};
    static const char *const coordinates[] = {"half_pixel", "output_half_pixel", NULL};
    const struct mg_shape *x = &t->in[0], *boxes = &t->in[1], *samples = &t->in[2];
    MG_TRY(mg_infer_rank(t, 0, 4, 4));
    MG_TRY(mg_infer_choice(t, MG_ATTR_MODE, modes));
    MG_TRY(mg_infer_choice(t, MG_ATTR_COORDINATES, coordinates));
    MG_TRY(mg_infer_list_size(t, MG_ATTR_SPATIAL, 2));
    if (boxes->rank != 2 || boxes->dim[1] != 4)
        return misfit(t, 1);
    if (samples->rank != 1 || samples->dim[0] != boxes->dim[0] || !mg_dtype_is_integer(t->in_dtype[2]))
        return misfit(t, 2);
    const int64_t *sizes = mg_infer_ints(t, MG_ATTR_SPATIAL, NULL);
    t->out[0] = (struct mg_shape){.rank = 4, .dim = {boxes->dim[0], x->dim[1], sizes[0], sizes[1]}};
    t->out_dtype[0] = t->in_dtype[0];
    return MG_OK;
}

/* ---- windows as columns ---- */

static enum mg_code fill_list(struct mg_infer *t, enum mg_attr_key key, uint32_t count, int64_t value)
{
    int64_t list[2 * MG_MAX_RANK];
    for (uint32_t i = 0; i < count; i++)
        list[i] = value;
    if (mg_infer_attr(t, key)->count == 0)
        mg_infer_set_ints(t, key, list, count);
    return mg_infer_list_size(t, key, count);
}

/* Elements of a window and number of windows over an image of these sizes. */
static enum mg_code count_windows(struct mg_infer *t, uint32_t spatial, const int64_t *sizes, int64_t *window,
                                  int64_t *windows)
{
    const int64_t *kernel = mg_infer_ints(t, MG_ATTR_KERNEL_SHAPE, NULL);
    const int64_t *stride = mg_infer_ints(t, MG_ATTR_STRIDES, NULL), *pad = mg_infer_ints(t, MG_ATTR_PADS, NULL);
    const int64_t *dilation = mg_infer_ints(t, MG_ATTR_DILATIONS, NULL);
    *window = *windows = 1;
    for (uint32_t d = 0; d < spatial; d++) {
        bool fits = kernel[d] >= 1 && stride[d] >= 1 && dilation[d] >= 1 && pad[d] >= 0 && pad[d + spatial] >= 0 &&
                    kernel[d] <= INT32_MAX && stride[d] <= INT32_MAX && dilation[d] <= INT32_MAX &&
                    pad[d] <= INT32_MAX && pad[d + spatial] <= INT32_MAX && sizes[d] >= 0 && sizes[d] <= INT32_MAX;
        int64_t room = fits ? sizes[d] + pad[d] + pad[d + spatial] - (dilation[d] * (kernel[d] - 1) + 1) : -1;
        if (room < 0 || __builtin_mul_overflow(*window, kernel[d], window) ||
            __builtin_mul_overflow(*windows, room / stride[d] + 1, windows))
            return mg_infer_fail(t, "/attrs", "spatial dimension %u does not fit kernel, strides and pads", d);
    }
    return MG_OK;
}

enum mg_code mg_shape_im2col(struct mg_infer *t)
{
    int64_t window, windows;
    const struct mg_shape *x = &t->in[0];
    MG_TRY(mg_infer_rank(t, 0, 3, 5));
    MG_TRY(mg_infer_list_size(t, MG_ATTR_KERNEL_SHAPE, x->rank - 2));
    MG_TRY(count_windows(t, x->rank - 2, x->dim + 2, &window, &windows));
    t->out[0] = (struct mg_shape){.rank = 3, .dim = {x->dim[0], 0, windows}};
    t->out_dtype[0] = t->in_dtype[0];
    if (__builtin_mul_overflow(x->dim[1], window, &t->out[0].dim[1]))
        return misfit(t, 0);
    return MG_OK;
}

enum mg_code mg_shape_col2im(struct mg_infer *t)
{
    uint32_t spatial;
    int64_t window, windows;
    const struct mg_shape *x = &t->in[0];
    const int64_t *sizes = mg_infer_ints(t, MG_ATTR_SPATIAL, &spatial);
    MG_TRY(mg_infer_rank(t, 0, 3, 3));
    if (spatial < 1 || spatial > 3)
        return mg_infer_fail(t, "/attrs/spatial", "there must be 1 to 3 spatial sizes");
    MG_TRY(mg_infer_list_size(t, MG_ATTR_KERNEL_SHAPE, spatial));
    MG_TRY(fill_list(t, MG_ATTR_STRIDES, spatial, 1));
    MG_TRY(fill_list(t, MG_ATTR_PADS, 2 * spatial, 0));
    MG_TRY(fill_list(t, MG_ATTR_DILATIONS, spatial, 1));
    MG_TRY(count_windows(t, spatial, sizes, &window, &windows));
    if (x->dim[2] != windows || x->dim[1] % window != 0)
        return mg_infer_fail(t, "/inputs/0", "columns of shape %s do not fit %lld windows of %lld",
                             mg_shape_text(t->arena, x), (long long)windows, (long long)window);
    t->out[0] = (struct mg_shape){.rank = spatial + 2, .dim = {x->dim[0], x->dim[1] / window}};
    memcpy(t->out[0].dim + 2, sizes, spatial * sizeof *sizes);
    t->out_dtype[0] = t->in_dtype[0];
    return MG_OK;
}

enum mg_code mg_shape_det(struct mg_infer *t)
{
    MG_TRY(mg_infer_rank(t, 0, 2, MG_MAX_RANK));
    t->out[0] = t->in[0];
    t->out[0].rank -= 2;
    t->out_dtype[0] = t->in_dtype[0];
    return t->in[0].dim[t->out[0].rank] == t->in[0].dim[t->out[0].rank + 1] ? MG_OK : misfit(t, 0);
}
