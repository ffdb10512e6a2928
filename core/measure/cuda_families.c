/* The constants in front of kernels.cu and contractions.cu for one operator: parameters, layouts, what the family wants
 * to know; and how many threads have work. One function for each family (cuda_kernels.def). */
#include <stdio.h>
#include <string.h>

#include "measure/cuda_family.h"

__asm__(".section .rodata\n.globl mg_cuda_kernels\nmg_cuda_kernels:\n.incbin \"core/measure/kernels.cu\"\n"
        ".incbin \"core/measure/contractions.cu\"\n.byte 0\n.previous");
extern const char mg_cuda_kernels[];

typedef bool write_fn(struct family *f);

/* ---- what families share ---- */

/* A function from a row-major number of the chosen dimensions to an offset. */
void mg_cuda_define_walk(struct family *f, const char *name, const struct mg_shape *shape, const int64_t *strides,
                         uint32_t chosen)
{
    mg_cuda_print(f->t, "__device__ long long %s(long long i) { long long at = 0;", name);
    for (uint32_t d = shape->rank; d-- > 0;)
        if (chosen >> d & 1 && shape->dim[d] != 1)
            mg_cuda_print(f->t, " at += i %% %" PRId64 "LL * %" PRId64 "LL; i /= %" PRId64 "LL;", shape->dim[d],
                          strides[d], shape->dim[d]);
    mg_cuda_print(f->t, " return at; }\n");
}

/* The row-major number of a broadcast operand's element. */
void mg_cuda_define_broadcast(struct family *f, const char *name, uint32_t operand, const struct mg_shape *out)
{
    const struct mg_shape *in = &f->p->op.in_shape[operand];
    int64_t dense[MG_MAX_RANK], strides[MG_MAX_RANK];
    uint32_t skip = out->rank - in->rank;
    mg_shape_strides(in, dense);
    for (uint32_t d = 0; d < out->rank; d++)
        strides[d] = d < skip || in->dim[d - skip] == 1 ? 0 : dense[d - skip];
    mg_cuda_define_walk(f, name, out, strides, (1u << out->rank) - 1);
}

bool mg_cuda_everywhere(struct family *f, const char *name)
{
    define(f, name, 1);
    define(f, "COUNT", mg_shape_elements(&f->p->op.out_shape[0]));
    threads(f, mg_shape_elements(&f->p->op.out_shape[0]));
    return true;
}

void mg_cuda_only_stand_in(struct family *f)
{
    f->p->unmeasurable = "no library takes these operands: its time would say nothing";
}

/* ---- together ---- */

static write_fn *family_of(enum mg_op_type type)
{
    static const struct {
        const char *kernel;
        write_fn *write;
    } families[] = {
#define MG_CUDA_KERNEL(kernel, function) {#kernel, mg_cuda_write_##function},
#include "measure/cuda_kernels.def"
#undef MG_CUDA_KERNEL
    };
    static const char *const kernels[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, ...) [MG_OP_##id] = #kernel,
#include "graph/ops.def"
#undef MG_OP
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (kernels[type] && strcmp(families[i].kernel, kernels[type]) == 0)
            return families[i].write;
    return NULL;
}

/* at_NAME(i): where element i of a strided box lies. */
static void define_layout_of(struct family *f, char side, uint32_t i, const struct mg_shape *shape,
                             const struct mg_strides *strides)
{
    int64_t dense[MG_MAX_RANK];
    char name[16];
    mg_shape_strides(shape, dense);
    snprintf(name, sizeof name, "at_%c%u", side, i);
    bool is_dense = true;
    for (uint32_t d = 0; d < shape->rank; d++)
        is_dense = is_dense && (shape->dim[d] == 1 || strides->at[d] == dense[d]);
    if (is_dense)
        mg_cuda_print(f->t, "__device__ long long %s(long long i) { return i; }\n", name);
    else
        mg_cuda_define_walk(f, name, shape, strides->at, (1u << shape->rank) - 1);
}

static void define_parameters(struct family *f)
{
    const struct mg_op_desc *op = &f->p->op;
    mg_cuda_print(f->t, "#define OPERANDS ");
    for (uint32_t i = 0; i < op->out_count; i++)
        mg_cuda_print(f->t, "%s%s *o%u", i ? ", " : "", mg_cuda_type(op->out_dtype[i]), i);
    for (uint32_t i = 0; i < op->in_count; i++)
        mg_cuda_print(f->t, ", const %s *a%u", mg_cuda_type(op->in_dtype[i]), i);
    mg_cuda_print(f->t, "\n#define PARAMS OPERANDS");
    if (mg_cuda_is_random(op->type)) {
        mg_cuda_print(f->t, ", unsigned long long seed, unsigned long long op");
        for (uint32_t d = 0; d < op->out_shape[0].rank; d++)
            mg_cuda_print(f->t, ", long long lo%u, long long whole%u", d, d);
    }
    mg_cuda_print(f->t, "\n#define ARGUMENTS ");
    for (uint32_t i = 0; i < op->out_count; i++)
        mg_cuda_print(f->t, "%so%u", i ? ", " : "", i);
    for (uint32_t i = 0; i < op->in_count; i++)
        mg_cuda_print(f->t, ", a%u", i);
    mg_cuda_print(f->t, "\n");
}

static void define_access(struct family *f)
{
    const struct mg_op_desc *op = &f->p->op;
    for (uint32_t i = 0; i < op->out_count; i++) {
        define_layout_of(f, 'o', i, &op->out_shape[i], &f->p->out[i]);
        mg_cuda_print(f->t, "#define OUT%u(i, x) put(o%u + at_o%u(i), (num)(x))\n", i, i, i);
        mg_cuda_print(f->t, "#define R%u(i) ((num)get(o%u[at_o%u(i)]))\n", i, i, i);
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        define_layout_of(f, 'a', i, &op->in_shape[i], &f->p->in[i]);
        mg_cuda_print(f->t, "#define IN%u(i) ((num)get(a%u[at_a%u(i)]))\n", i, i, i);
        mg_cuda_print(f->t, "#define IX%u(i) ((long long)get(a%u[at_a%u(i)]))\n", i, i, i);
    }
}

bool mg_cuda_family(struct cuda_text *t, struct mg_prepared *p, int64_t *work, uint32_t *count)
{
    struct family f = {.t = t, .p = p, .threads = work};
    write_fn *write = family_of(p->op.type);
    bool wide = false;
    if (!write)
        return false;
    for (uint32_t i = 0; i < p->op.out_count; i++)
        wide = wide || mg_cuda_is_wide(p->op.out_dtype[i]);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        wide = wide || p->op.in_dtype[i] == MG_DTYPE_F64 || (i == 0 && mg_cuda_is_wide(p->op.in_dtype[i]));
    mg_cuda_print_functions(t, wide);
    mg_cuda_print(t, "#define BLOCK %d\n#define INF ((num)__int_as_float(0x7f800000))\n", CUDA_BLOCK);
    define_parameters(&f);
    define_access(&f);
    if (!write(&f))
        return false;
    if (f.by_thread)
        define(&f, "BY_THREAD", 1);
    mg_cuda_print(t, "%s", mg_cuda_kernels);
    *count = f.count;
    return true;
}
