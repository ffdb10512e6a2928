/* Shape rules: resizing, sampling by coordinates, regions of interest. */
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
