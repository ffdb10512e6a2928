/* What computes constants while a file is read. Private to core/formats. */
#ifndef MG_FORMATS_ONNX_FOLD_H
#define MG_FORMATS_ONNX_FOLD_H

#include "formats/onnx_rules.h"

/* Room for contents; exactly one of *real and *whole is set. */
struct mg_onnx_data *onnx_folding_new(struct onnx_call *c, enum mg_dtype dtype, const struct mg_shape *shape,
                                      double **real, int64_t **whole);
/* Few enough elements to be computed here. */
bool onnx_folding_small(const struct mg_shape *shape);
/* Copies element `from` of `in` to element `to`. */
void onnx_folding_copy(const struct mg_onnx_data *in, int64_t from, double *real, int64_t *whole, int64_t to);
/* Odometer over a shape. */
void onnx_folding_advance(const struct mg_shape *shape, int64_t *index);
/* Position in a right-aligned, broadcasting shape. */
int64_t onnx_folding_at(const struct mg_shape *shape, const int64_t *index, uint32_t rank);

static inline int64_t onnx_folding_whole(const struct mg_onnx_data *data, int64_t i)
{
    return data->whole[data->uniform ? 0 : i];
}

#endif
