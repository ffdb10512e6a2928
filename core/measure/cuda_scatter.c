/* Families of kernels: slices and lines by index, read and written. What several indices write goes in their order, as
 * one thread follows each line. */
#include "measure/cuda_family.h"

#include <string.h>

static void define_reduction(struct family *f)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    int64_t reduction = 0;
    for (int i = 0; i < 5; i++)
        reduction = mg_prepared_text_is(f->p, MG_ATTR_REDUCTION, names[i]) ? i : reduction;
    define(f, "F_REDUCTION", 1);
    define(f, "REDUCTION", reduction);
}

static int64_t extent_of(const struct mg_shape *shape, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t d = from; d < to; d++)
        n *= shape->dim[d];
    return n;
}

/* Returns the number of lines: batches x elements of a slice. */
static int64_t define_slices(struct family *f)
{
    const struct mg_shape *data = &f->p->op.in_shape[0], *index = &f->p->op.in_shape[1];
    uint32_t batch = (uint32_t)integer(f, MG_ATTR_BATCH_DIMS), tuple = (uint32_t)index->dim[index->rank - 1];
    int64_t slice = extent_of(data, batch + tuple, data->rank), batches = extent_of(index, 0, batch);
    define(f, "F_SLICES", 1);
    define(f, "TUPLE", tuple);
    define(f, "SLICE", slice);
    define(f, "BATCHES", batches);
    define(f, "PER_BATCH", extent_of(index, batch, index->rank - 1));
    mg_cuda_print(f->t, "__device__ long long size_of(int c) {");
    for (uint32_t c = 0; c < tuple; c++)
        mg_cuda_print(f->t, " if (c == %u) return %" PRId64 "LL;", c, data->dim[batch + c]);
    mg_cuda_print(f->t, " return 1; }\n");
    return batches * slice;
}

bool mg_cuda_write_gather_nd(struct family *f)
{
    define_slices(f);
    return mg_cuda_everywhere(f, "F_GATHER_ND");
}

bool mg_cuda_write_scatter_nd(struct family *f)
{
    define_reduction(f);
    int64_t lines = define_slices(f);
    mg_cuda_everywhere(f, "F_SCATTER_ND");
    threads(f, lines);
    return true;
}

/* A line is all indices that differ along the axis only. */
bool mg_cuda_write_scatter_elements(struct family *f)
{
    const struct mg_shape *data = &f->p->op.in_shape[0], *index = &f->p->op.in_shape[1];
    int64_t axis = integer(f, MG_ATTR_AXIS), there[MG_MAX_RANK], here[MG_MAX_RANK];
    uint32_t others = ((1u << data->rank) - 1) & ~(1u << axis);
    mg_shape_strides(data, there);
    mg_shape_strides(index, here);
    int64_t lines = index->dim[axis] ? mg_shape_elements(index) / index->dim[axis] : 0;
    define_reduction(f);
    define(f, "LINES", lines);
    define(f, "PICKED", index->dim[axis]);
    define(f, "INDEX_STEP", here[axis]);
    define(f, "EXTENT", data->dim[axis]);
    define(f, "INNER", there[axis]);
    mg_cuda_define_walk(f, "index_of", index, here, others);
    mg_cuda_define_walk(f, "there_of", index, there, others);
    mg_cuda_everywhere(f, "F_SCATTER_ELEMENTS");
    threads(f, lines);
    return true;
}

bool mg_cuda_write_reverse_sequence(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t strides[MG_MAX_RANK], time = integer(f, MG_ATTR_TIME_AXIS), batch = integer(f, MG_ATTR_BATCH_AXIS);
    mg_shape_strides(x, strides);
    define(f, "TIMES", x->dim[time]);
    define(f, "TIME_STEP", strides[time]);
    define(f, "BATCHES", x->dim[batch]);
    define(f, "BATCH_STEP", strides[batch]);
    return mg_cuda_everywhere(f, "F_REVERSE_SEQUENCE");
}
