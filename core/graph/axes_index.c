/* Iteration axes of operators that read and write by index or coordinate, of triangles and of reversals. */
#include "graph/ops_priv.h"

/* For operators whose every result depends on all of every operand. */
void mg_axes_none(struct mg_axes *t)
{
    (void)t;
}

/* Dimension d of every operand and result of this rank. */
static void along(struct mg_axes *t, uint32_t d, uint32_t rank)
{
    const struct mg_op_desc *desc = t->desc;
    uint32_t a = mg_axes_open(t, "d", (int)d, desc->in_shape[0].dim[d], MG_COMBINE_NONE);
    for (uint32_t i = 0; i < desc->in_count; i++)
        mg_axes_in(t, a, i, desc->in_shape[i].rank == rank ? (int64_t)d : -1, 1);
    for (uint32_t i = 0; i < desc->out_count; i++)
        mg_axes_out(t, a, i, d, 1);
}

/* Every dimension but attribute `axis`, in every operand and result. */
void mg_axes_but_axis(struct mg_axes *t)
{
    uint32_t rank = t->desc->in_shape[0].rank;
    for (uint32_t d = 0; d < rank; d++) {
        if (d != mg_desc_int(t->desc, MG_ATTR_AXIS))
            along(t, d, rank);
    }
}

/* Every dimension but the channels. */
void mg_axes_but_channels(struct mg_axes *t)
{
    uint32_t rank = t->desc->in_shape[0].rank;
    for (uint32_t d = 0; d < rank; d++) {
        if (d != 1)
            along(t, d, rank);
    }
}

/* All but the last two dimensions. */
void mg_axes_matrices(struct mg_axes *t)
{
    uint32_t rank = t->desc->in_shape[0].rank;
    for (uint32_t d = 0; d + 2 < rank; d++)
        along(t, d, rank);
}

/* Every dimension that attribute `axes` does not list. */
void mg_axes_unlisted(struct mg_axes *t)
{
    uint32_t count, rank = t->desc->in_shape[0].rank;
    const int64_t *axes = mg_desc_ints(t->desc, MG_ATTR_AXES, &count);
    bool listed[MG_MAX_RANK] = {0};
    for (uint32_t i = 0; i < count; i++)
        listed[axes[i]] = true;
    for (uint32_t d = 0; d < rank; d++) {
        if (!listed[d])
            along(t, d, rank);
    }
}

/* Where indices reach as far as the data, a dimension is one of both; along `axis` the indices alone are cut. */
void mg_axes_gather_elements(struct mg_axes *t)
{
    const struct mg_shape *data = &t->desc->in_shape[0], *index = &t->desc->in_shape[1];
    int64_t axis = mg_desc_int(t->desc, MG_ATTR_AXIS);
    for (uint32_t d = 0; d < data->rank; d++) {
        if (d != axis && data->dim[d] != index->dim[d])
            continue;
        uint32_t a = mg_axes_open(t, d == axis ? "i" : "d", (int)d, index->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d == axis ? -1 : (int64_t)d, 1);
        mg_axes_in(t, a, 1, d, 1);
        mg_axes_out(t, a, 0, d, 1);
    }
}

void mg_axes_scatter_elements(struct mg_axes *t)
{
    const struct mg_shape *data = &t->desc->in_shape[0], *index = &t->desc->in_shape[1];
    for (uint32_t d = 0; d < data->rank; d++) {
        if (d != mg_desc_int(t->desc, MG_ATTR_AXIS) && data->dim[d] == index->dim[d])
            along(t, d, data->rank);
    }
}

/* Batch dimensions, the indices' own (the data is read whole: only where the result has them), the slices'. */
static void slices(struct mg_axes *t, bool scatter)
{
    const struct mg_shape *data = &t->desc->in_shape[0], *index = &t->desc->in_shape[1];
    int64_t batch = mg_desc_int(t->desc, MG_ATTR_BATCH_DIMS), count = index->dim[index->rank - 1];
    uint32_t outer = index->rank - 1; /* dimensions of the slices' shape before the slice itself */
    for (uint32_t d = 0; d < outer; d++) {
        bool shared = d < batch;
        if (scatter && !shared)
            continue;
        uint32_t a = mg_axes_open(t, shared ? "b" : "i", (int)d, index->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, shared ? (int64_t)d : -1, 1);
        mg_axes_in(t, a, 1, d, 1);
        mg_axes_in(t, a, 2, d, 1);
        mg_axes_out(t, a, 0, d, 1);
    }
    for (int64_t d = batch + count; d < data->rank; d++) {
        int64_t there = outer + d - batch - count;
        uint32_t a = mg_axes_open(t, "d", (int)d, data->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        mg_axes_in(t, a, 2, there, 1);
        mg_axes_out(t, a, 0, scatter ? d : there, 1);
    }
}

void mg_axes_gather_nd(struct mg_axes *t)
{
    slices(t, false);
}

void mg_axes_scatter_nd(struct mg_axes *t)
{
    slices(t, true);
}

void mg_axes_one_hot(struct mg_axes *t)
{
    const struct mg_shape *index = &t->desc->in_shape[0];
    for (uint32_t d = 0; d < index->rank; d++) {
        uint32_t a = mg_axes_open(t, "d", (int)d, index->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        mg_axes_out(t, a, 0, d < mg_desc_int(t->desc, MG_ATTR_AXIS) ? d : d + 1, 1);
    }
}

void mg_axes_reverse_sequence(struct mg_axes *t)
{
    const struct mg_shape *x = &t->desc->in_shape[0];
    for (uint32_t d = 0; d < x->rank; d++) {
        if (d == mg_desc_int(t->desc, MG_ATTR_TIME_AXIS))
            continue;
        uint32_t a = mg_axes_open(t, "d", (int)d, x->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d, 1);
        mg_axes_in(t, a, 1, d == mg_desc_int(t->desc, MG_ATTR_BATCH_AXIS) ? 0 : -1, 1);
        mg_axes_out(t, a, 0, d, 1);
    }
}

/* Samples, channels (the grid has none), positions (x is read whole). */
void mg_axes_grid_sample(struct mg_axes *t)
{
    const struct mg_shape *out = &t->desc->out_shape[0];
    for (uint32_t d = 0; d < out->rank; d++) {
        uint32_t a = mg_axes_open(t, "d", (int)d, out->dim[d], MG_COMBINE_NONE);
        mg_axes_in(t, a, 0, d < 2 ? (int64_t)d : -1, 1);
        mg_axes_in(t, a, 1, d == 0 ? 0 : d == 1 ? -1 : (int64_t)d - 1, 1);
        mg_axes_out(t, a, 0, d, 1);
    }
}

/* Boxes, channels. */
void mg_axes_roi_align(struct mg_axes *t)
{
    uint32_t a = mg_axes_open(t, "r", -1, t->desc->in_shape[1].dim[0], MG_COMBINE_NONE);
    mg_axes_in(t, a, 1, 0, 1);
    mg_axes_in(t, a, 2, 0, 1);
    mg_axes_out(t, a, 0, 0, 1);
    a = mg_axes_open(t, "c", -1, t->desc->in_shape[0].dim[1], MG_COMBINE_NONE);
    mg_axes_in(t, a, 0, 1, 1);
    mg_axes_out(t, a, 0, 1, 1);
}
