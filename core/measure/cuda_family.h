/* What the writers of families of kernels share: each puts the constants of one operator in front of kernels.cu. */
#ifndef MG_MEASURE_CUDA_FAMILY_H
#define MG_MEASURE_CUDA_FAMILY_H

#include <inttypes.h>

#include "measure/cuda_text.h"

enum { CUDA_SHORT_ROW = 64 };

struct family {
    struct cuda_text *t;
    struct mg_prepared *p;
    int64_t *threads;
    uint32_t count; /* kernels so far */
    bool by_thread; /* a row is one thread's work */
};
/* mg_cuda_write_NAME, one for each family of cuda_kernels.def; false: not with these operands. */
#define MG_CUDA_KERNEL(kernel, function) bool mg_cuda_write_##function(struct family *f);
#include "measure/cuda_kernels.def"
#undef MG_CUDA_KERNEL

static inline void define(struct family *f, const char *name, int64_t value)
{
    mg_cuda_print(f->t, "#define %s %" PRId64 "LL\n", name, value);
}

static inline void define_real(struct family *f, const char *name, double value)
{
    mg_cuda_print(f->t, "#define %s (%.17g)\n", name, value);
}

static inline void define_as(struct family *f, const char *name, const char *text)
{
    mg_cuda_print(f->t, "#define %s %s\n", name, text);
}

static inline int64_t integer(const struct family *f, enum mg_attr_key key)
{
    return mg_prepared_int(f->p, key);
}

/* One more kernel, with a thread for each of so many. */
static inline void threads(struct family *f, int64_t elements)
{
    f->threads[f->count++] = elements;
}

/* ... with a block, or a thread, for each of so many rows. */
static inline void rows(struct family *f, int64_t count, int64_t extent)
{
    f->by_thread = extent < CUDA_SHORT_ROW;
    threads(f, f->by_thread ? count : count * CUDA_BLOCK);
}

/* EXTENT, INNER and ROW_COUNT of rows along an axis. */
void mg_cuda_define_rows(struct family *f, const struct mg_shape *shape, int64_t axis);
int64_t mg_cuda_row_count(const struct mg_shape *shape, int64_t axis);
/* A function from a row-major number of the chosen dimensions to an offset. */
void mg_cuda_define_walk(struct family *f, const char *name, const struct mg_shape *shape, const int64_t *strides,
                         uint32_t chosen);
/* The row-major number of a broadcast operand's element. */
void mg_cuda_define_broadcast(struct family *f, const char *name, uint32_t operand, const struct mg_shape *out);
/* Is the dimension among attribute `axes`? */
bool mg_cuda_is_reduced(const struct mg_prepared *p, uint32_t dim);
/* A kernel for each element of the first result. */
bool mg_cuda_everywhere(struct family *f, const char *name);
int64_t mg_cuda_spatial_size(const struct mg_shape *shape);
/* LETTER0 ... LETTER2: the sizes of up to three spatial dimensions, 1 where there are fewer. */
void mg_cuda_define_sizes(struct family *f, const char *letter, const struct mg_shape *shape);
/* Attribute of each of up to three spatial dimensions, from the last on. */
void mg_cuda_define_each(struct family *f, const char *letter, enum mg_attr_key key, uint32_t spatial, uint32_t skip,
                         int64_t fallback, int64_t absent);
/* Windows over planes of x that make planes of y; not their sizes W. */
bool mg_cuda_define_windows(struct family *f, const struct mg_shape *x, const struct mg_shape *y);
/* A function from the row-major number of a batch to that of an operand's batch, whose last two dimensions are a
 * matrix. */
void mg_cuda_define_batch(struct family *f, const char *name, uint32_t operand, const struct mg_shape *batch);
/* LEAST and MOST of a quantized dtype. */
void mg_cuda_define_limits(struct family *f, enum mg_dtype dtype);
/* The kernels are right, and not timed. */
void mg_cuda_only_stand_in(struct family *f);

#endif
