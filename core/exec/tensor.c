/* Strided boxes of doubles. */
#include "exec/exec_priv.h"

struct mg_tensor mg_tensor_dense(double *data, const struct mg_shape *shape)
{
    struct mg_tensor tensor = {.data = data, .shape = *shape};
    int64_t step = 1;
    for (uint32_t d = shape->rank; d-- > 0;) {
        tensor.stride[d] = step;
        step *= shape->dim[d];
    }
    return tensor;
}

bool mg_walk_next(const struct mg_shape *shape, int64_t *index)
{
    for (uint32_t d = shape->rank; d-- > 0;) {
        if (++index[d] < shape->dim[d])
            return true;
        index[d] = 0;
    }
    return false;
}

int64_t mg_walk_at(const int64_t *index, const int64_t *stride, uint32_t rank)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < rank; d++)
        at += index[d] * stride[d];
    return at;
}

/* Rows: what lies along the last dimension. */
static struct mg_shape rows_of(const struct mg_tensor *tensor, int64_t *length, int64_t *step)
{
    struct mg_shape rows = tensor->shape;
    *length = *step = 1;
    if (rows.rank) {
        *length = rows.dim[--rows.rank];
        *step = tensor->stride[rows.rank];
    }
    return rows;
}

void mg_tensor_pack(const struct mg_tensor *tensor, double *dense)
{
    int64_t index[MG_MAX_RANK] = {0}, length, step;
    struct mg_shape rows = rows_of(tensor, &length, &step);
    int64_t count = mg_shape_elements(&rows);
    for (int64_t r = 0; r < count; r++, dense += length) {
        const double *from = tensor->data + mg_walk_at(index, tensor->stride, rows.rank);
        for (int64_t i = 0; i < length; i++)
            dense[i] = from[i * step];
        mg_walk_next(&rows, index);
    }
}

void mg_tensor_unpack(const struct mg_tensor *tensor, const double *dense)
{
    int64_t index[MG_MAX_RANK] = {0}, length, step;
    struct mg_shape rows = rows_of(tensor, &length, &step);
    int64_t count = mg_shape_elements(&rows);
    for (int64_t r = 0; r < count; r++, dense += length) {
        double *to = tensor->data + mg_walk_at(index, tensor->stride, rows.rank);
        for (int64_t i = 0; i < length; i++)
            to[i * step] = dense[i];
        mg_walk_next(&rows, index);
    }
}
