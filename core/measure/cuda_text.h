/* What the writers of kernels share (cuda_source.c, cuda_families.c). */
#ifndef MG_MEASURE_CUDA_TEXT_H
#define MG_MEASURE_CUDA_TEXT_H

#include "measure/measure_priv.h"

struct cuda_text {
    char *data;
    size_t size, capacity;
    bool failed;
};
MG_PRINTF(2, 3) void mg_cuda_print(struct cuda_text *t, const char *format, ...);
/* As C++ spells it; NULL: no kernel takes it. */
const char *mg_cuda_type(enum mg_dtype dtype);
/* The type num and its functions, in float or in double. */
void mg_cuda_print_functions(struct cuda_text *t, bool wide);
/* Is an operand or result of it better computed with in double? */
bool mg_cuda_is_wide(enum mg_dtype dtype);

enum { CUDA_BLOCK = 256 };
/* Kernels of families (kernels.cu); false: the operator belongs to none, or not with these operands. `threads` receives
 * for each kernel k0, k1, ... how many have work. */
/* Do its kernels take the origin of random numbers behind the operands: seed, operator, and by dimension corner and
 * whole size? */
bool mg_cuda_is_random(enum mg_op_type type);
bool mg_cuda_family(struct cuda_text *t, struct mg_prepared *p, int64_t *threads, uint32_t *count);

#endif
