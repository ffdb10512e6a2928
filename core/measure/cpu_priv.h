/* The cpu back end: one file for each family of operators.
 *
 * A kernel is chosen by the operator table's kernel column (cpu_kernels.def). It sets cpu_op.run and, where it takes
 * only dense operands in the machine's own formats (f32 for reals, i64 for integers, one byte for booleans), leaves the
 * gathering and converting to the back end. */
#ifndef MG_MEASURE_CPU_PRIV_H
#define MG_MEASURE_CPU_PRIV_H

#include <oneapi/dnnl/dnnl.h>

#include "measure/measure_priv.h"

/* ---- oneDNN, opened at run time: a daemon that measures nothing does not load it ---- */
struct onednn {
#define MG_CALL(name) __typeof__(&dnnl_##name) name;
#include "measure/onednn_calls.def"
#undef MG_CALL
    void (*set_threads)(int threads); /* of its OpenMP; may be NULL */
};
enum mg_code mg_onednn_load(struct onednn *calls, struct mg_error *err);

struct cpu { /* the engine's detail */
    struct onednn dnn;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    char *scratch; /* of the operator that runs */
    uint64_t scratch_bytes;
};

/* ---- operators ---- */
struct cpu_call {
    struct mg_prepared *p;
    const void *const *in; /* as the kernel wants them */
    void *const *out;
    const struct mg_exec_origin *origin; /* never NULL */
    char *scratch;                       /* mg_cpu_reserve's offsets count from here */
    struct mg_error *err;
};
typedef enum mg_code cpu_run_fn(const struct cpu_call *call);
struct cpu_op { /* a prepared operator's detail */
    cpu_run_fn *run;
    bool strided;                 /* takes operands of any layout and dtype itself */
    void *data;                   /* the kernel's own */
    struct onednn_op *dnn;        /* released with the operator */
    uint64_t *pack_in, *pack_out; /* where in the scratch an operand is made dense; NO_PACK: it is */
};
#define MG_NO_PACK UINT64_MAX
typedef enum mg_code cpu_prepare_fn(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err);

/* Leaves the operator to the reference executor: runs, is not timed. */
enum mg_code mg_cpu_by_reference(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err);
/* Bytes of scratch memory; returns their offset, a multiple of 64. */
uint64_t mg_cpu_reserve(struct mg_prepared *p, uint64_t bytes);
/* The dtype in which a kernel that is not `strided` gets values of this dtype. */
enum mg_dtype mg_cpu_native(enum mg_dtype dtype);
int64_t mg_cpu_count(const struct mg_shape *shape);
enum mg_code mg_cpu_out_of_range(const struct cpu_call *call); /* an index among the operands */

/* An axis divides a dense tensor into outer x extent x inner; a row is the extent at fixed outer and inner. */
struct cpu_rows {
    int64_t outer, extent, inner;
};
struct cpu_rows mg_cpu_rows(const struct mg_shape *shape, int64_t axis);
int64_t mg_cpu_row_begin(const struct cpu_rows *rows, int64_t row);

/* ---- strided boxes (cpu_walk.c) ---- */
/* Several layouts over one shape; dimensions that continue one another in all of them are joined. */
enum { MG_WALK_SIDES = 4 };
struct cpu_walk {
    uint32_t rank, sides; /* rank: at least one */
    int64_t dim[MG_MAX_RANK + 1], stride[MG_WALK_SIDES][MG_MAX_RANK + 1];
};
void mg_cpu_walk_join(struct cpu_walk *walk, const struct mg_shape *shape, const int64_t *const *strides,
                      uint32_t sides);
/* To the next row (the innermost dimension is the caller's); false after the last, with index and at as at first. */
bool mg_cpu_walk_next(const struct cpu_walk *walk, int64_t *index, int64_t *at);
/* Copies elements between layouts and dtypes; strides in elements. */
struct cpu_side {
    void *data;
    enum mg_dtype dtype;
    const int64_t *stride;
};
void mg_cpu_move(const struct mg_shape *shape, const struct cpu_side *to, const struct cpu_side *from);
bool mg_cpu_dtype_known(enum mg_dtype dtype);
/* The strides of an operand inside the (right-aligned) result's shape: 0 where it is repeated. */
void mg_cpu_broadcast(const struct mg_shape *shape, const struct mg_strides *strides, const struct mg_shape *result,
                      int64_t out[MG_MAX_RANK]);

/* ---- oneDNN primitives (cpu_onednn.c) ---- */
struct onednn_arg {
    int id;           /* DNNL_ARG_... */
    int operand;      /* index into in, or ~index into out */
    bool accumulated; /* a result that is added to: its old value counts */
    dnnl_memory_desc_t user;
    /* private */
    dnnl_memory_t user_memory, native_memory;
    dnnl_primitive_t before, after; /* reorders, where the primitive wants another layout */
    uint64_t at;
};
enum { MG_ONEDNN_ARGS = 6 };
struct onednn_op {
    struct cpu *cpu;
    dnnl_primitive_t primitive;
    struct onednn_arg args[MG_ONEDNN_ARGS];
    uint32_t arg_count;
    dnnl_memory_t scratchpad;
    uint64_t scratchpad_at;
    struct onednn_op *next; /* released with it */
};
/* A memory description; sizes of 1 get the stride that a dense layout would have. */
void mg_onednn_describe(const struct onednn *dnn, dnnl_memory_desc_t *md, uint32_t rank, const int64_t *dims,
                        const int64_t *strides);
/* The same with the layout left to oneDNN. */
dnnl_memory_desc_t mg_onednn_any(const dnnl_memory_desc_t *md);
struct onednn_recipe {
    const void *descriptor; /* dnnl_*_desc_t */
    const void *forward;    /* of the forward operator, where a gradient wants it as a hint; or NULL */
    struct onednn_arg args[MG_ONEDNN_ARGS];
    uint32_t arg_count;
    float scale; /* of the result; 1 */
    float added; /* by which the result's old value is scaled before it is added; 0: not added */
};
enum mg_code mg_onednn_build(struct mg_prepared *p, const struct onednn_recipe *recipe, struct onednn_op **out,
                             struct mg_error *err);
/* Softmax and its gradient for dense f32 (cpu_softmax.c). MG_ERR_UNSUPPORTED: oneDNN has none for it. */
enum mg_code mg_cpu_dnn_softmax(struct mg_prepared *p, struct cpu_op *op, int axis, struct mg_error *err);
enum mg_code mg_onednn_run(const struct onednn_op *op, const struct cpu_call *call, const void *const *in,
                           void *const *out);
void mg_onednn_release(struct onednn_op *op);

/* c = a b for dense f32 (cpu_matmul.c): a is [batch, m, k], transposed [batch, k, m]; b likewise [batch, k, n].
 * Released with the operator. */
struct cpu_product {
    int64_t batch, m, n, k;
    bool trans_a, trans_b;
};
enum mg_code mg_cpu_dense_product(struct mg_prepared *p, struct cpu_op *op, const struct cpu_product *product,
                                  struct onednn_op **out, struct mg_error *err);
enum mg_code mg_cpu_dense_product_run(const struct onednn_op *product, const struct cpu_call *call, const float *a,
                                      const float *b, float *c);

/* ---- windows as columns (cpu_columns.c) ---- */
struct cpu_column { /* along one dimension */
    int64_t x, kernel, windows, stride, dilation, before;
};
struct cpu_columns {
    struct cpu_column w[3];
    int64_t size, elements, windows; /* of a plane, of a window, and how many windows */
};
/* Strides, padding and dilation are the operator's attributes. */
void mg_cpu_columns_init(struct cpu_columns *c, const struct mg_prepared *p, const struct mg_shape *image,
                         const int64_t *kernel);
/* One plane's columns: [elements, windows], zero in the padding. */
void mg_cpu_columns_of(const struct cpu_columns *c, const float *plane, float *columns);

/* ---- kernels ---- */
#define MG_CPU_KERNEL(name, function) cpu_prepare_fn function;
#include "measure/cpu_kernels.def"
#undef MG_CPU_KERNEL

#endif
