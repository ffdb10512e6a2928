/* Families of kernels: to quantized numbers and back. */
#include "measure/cuda_family.h"

/* A parameter is one number, one for each index of attribute `axis`, or not there. */
static void define_parameter(struct family *f, uint32_t operand)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    if (operand >= f->p->op.in_count) {
        mg_cuda_print(f->t, "#define BY_AXIS%u(i) ((num)0)\n", operand);
        return;
    }
    int64_t axis = integer(f, MG_ATTR_AXIS), inner = 1;
    if (mg_shape_elements(&f->p->op.in_shape[operand]) == 1) {
        mg_cuda_print(f->t, "#define BY_AXIS%u(i) IN%u(0)\n", operand, operand);
        return;
    }
    for (uint32_t d = (uint32_t)axis + 1; d < x->rank; d++)
        inner *= x->dim[d];
    mg_cuda_print(f->t, "#define BY_AXIS%u(i) IN%u((i) / %" PRId64 "LL %% %" PRId64 "LL)\n", operand, operand, inner,
                  x->dim[axis]);
}

bool mg_cuda_write_quantize(struct family *f)
{
    mg_cuda_define_limits(f, f->p->op.out_dtype[0]);
    define_parameter(f, 1);
    define_parameter(f, 2);
    return mg_cuda_everywhere(f, "F_QUANTIZE");
}

bool mg_cuda_write_dequantize(struct family *f)
{
    define_parameter(f, 1);
    define_parameter(f, 2);
    return mg_cuda_everywhere(f, "F_DEQUANTIZE");
}

bool mg_cuda_write_dynamic_quantize(struct family *f)
{
    int64_t count = mg_shape_elements(&f->p->op.in_shape[0]);
    mg_cuda_define_limits(f, MG_DTYPE_U8);
    rows(f, 1, count);
    return mg_cuda_everywhere(f, "F_DYNAMIC_QUANTIZE");
}
