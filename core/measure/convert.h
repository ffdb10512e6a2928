/* Numbers in the formats of a device's memory, as doubles and back. f16 and the f8 formats are not among them. */
#ifndef MG_MEASURE_CONVERT_H
#define MG_MEASURE_CONVERT_H

#include "graph/graph.h"

double mg_convert_load(const void *data, enum mg_dtype dtype, int64_t at);
/* Rounded to the nearest; integers towards zero, what is no number to 0. */
void mg_convert_save(void *data, enum mg_dtype dtype, int64_t at, double x);
void mg_convert_from_doubles(void *to, enum mg_dtype dtype, const double *from, int64_t count);
/* From a strided layout; strides in elements. */
void mg_convert_to_doubles(double *to, const void *from, enum mg_dtype dtype, const struct mg_shape *shape,
                           const int64_t *stride);

#endif
