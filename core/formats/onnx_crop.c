/* ONNX rules: Resize of a region of interest (tf_crop_and_resize).
 *
 * Output i of a dimension lies at start + i (end - start) / (size - 1), counted from 0 (first element) to 1 (last one);
 * what lies outside gets the extrapolation value. That is sampling on a grid that is known while the file is read. */
#include "formats/onnx_rules.h"

enum { MAX_GRID = 1 << 20 };

struct crop {
    uint32_t rank; /* spatial dimensions */
    struct mg_shape size;
    int64_t in[MG_MAX_RANK];
    double start[MG_MAX_RANK], end[MG_MAX_RANK];
};

static void read_region(struct onnx_call *c, struct crop *crop, const int64_t *size)
{
    const struct mg_onnx_data *roi = mg_onnx_known(c, 1);
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    *crop = (struct crop){.rank = in->rank - 2, .size = {.rank = in->rank - 2}};
    if (c->code == MG_OK && (!roi->real || mg_shape_elements(&roi->shape) != 2 * (int64_t)in->rank))
        mg_onnx_invalid(c, "roi must have two real numbers for each of %u dimensions", in->rank);
    for (uint32_t d = 0; d < in->rank && c->code == MG_OK; d++) {
        double start = mg_onnx_data_at(roi, d), end = mg_onnx_data_at(roi, d + in->rank);
        if (d < 2 && (start != 0 || end != 1))
            mg_onnx_unsupported(c, "a region of samples or channels");
        if (size[d] < 1)
            mg_onnx_invalid(c, "size %u is %lld", d, (long long)size[d]);
        if (d < 2)
            continue;
        crop->size.dim[d - 2] = size[d];
        crop->in[d - 2] = in->dim[d];
        crop->start[d - 2] = start;
        crop->end[d - 2] = end;
    }
}

static double position(const struct crop *crop, uint32_t d, int64_t i)
{
    if (crop->size.dim[d] == 1)
        return (crop->start[d] + crop->end[d]) / 2;
    return crop->start[d] + (double)i * (crop->end[d] - crop->start[d]) / (double)(crop->size.dim[d] - 1);
}

/* Coordinates from -1 to 1, the last dimension first; *inside: whether each output lies in the image. */
static mg_value grid_of(struct onnx_call *c, const struct crop *crop, mg_value *inside)
{
    int64_t plane = mg_shape_elements(&crop->size), samples = mg_onnx_shape(c, 0)->dim[0], index[MG_MAX_RANK] = {0};
    int64_t count = samples * plane * crop->rank, *in = MG_NEW_ARRAY(c->m->arena, int64_t, plane + 1);
    double *at = MG_NEW_ARRAY(c->m->arena, double, count + 1);
    for (int64_t i = 0; i < plane; i++) {
        in[i] = 1;
        for (uint32_t d = 0; d < crop->rank; d++) {
            double t = position(crop, d, index[d]);
            in[i] = in[i] && (crop->in[d] == 1 || (t >= 0 && t <= 1));
            for (int64_t n = 0; n < samples; n++)
                at[(n * plane + i) * crop->rank + crop->rank - 1 - d] = 2 * t - 1;
        }
        for (uint32_t d = crop->rank; d-- > 0 && ++index[d] == crop->size.dim[d];)
            index[d] = 0;
    }
    struct mg_onnx_data grid = {.dtype = mg_onnx_dtype_of(c, 0), .shape = {.rank = crop->rank + 2}, .real = at};
    struct mg_onnx_data mask = {.dtype = MG_DTYPE_BOOL, .shape = crop->size, .whole = in};
    grid.shape.dim[0] = samples;
    for (uint32_t d = 0; d < crop->rank; d++)
        grid.shape.dim[d + 1] = crop->size.dim[d];
    grid.shape.dim[crop->rank + 1] = crop->rank;
    *inside = onnx_contents(c, mg_arena_copy(c->m->arena, &mask, sizeof mask));
    return onnx_contents(c, mg_arena_copy(c->m->arena, &grid, sizeof grid));
}

void onnx_crop_and_resize(struct onnx_call *c, const int64_t *size)
{
    struct crop crop;
    mg_value inside, outside, x = mg_onnx_in(c, 0);
    read_region(c, &crop, size);
    double elements = c->code == MG_OK ? (double)mg_onnx_shape(c, 0)->dim[0] * crop.rank : 0;
    for (uint32_t d = 0; d < crop.rank; d++)
        elements *= (double)crop.size.dim[d];
    if (elements > MAX_GRID)
        mg_onnx_unsupported(c, "a region of more than %d elements", MAX_GRID);
    if (c->code != MG_OK)
        return;
    mg_value grid = grid_of(c, &crop, &inside);
    x = mg_onnx_add(c, MG_OP_GRID_SAMPLE, OPERANDS(x, grid), ATTRS(A_TEXT(PADDING, "border"), A_INT(ALIGN_CORNERS, 1)),
                    1, NULL);
    outside = mg_onnx_scalar(c, mg_onnx_real(c, "extrapolation_value", 0), mg_onnx_dtype_of(c, 0));
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_WHERE, OPERANDS(inside, x, outside), NO_ATTRS, 1, NULL);
}
