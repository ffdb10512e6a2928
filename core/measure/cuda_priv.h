/* The cuda back end: NVIDIA's driver, run-time compiler and matrix products, all opened at run time. No CUDA header is
 * needed: the functions and numbers below are those of the public documentation, which promises that they stay. */
#ifndef MG_MEASURE_CUDA_PRIV_H
#define MG_MEASURE_CUDA_PRIV_H

#include "measure/measure_priv.h"

/* cuDeviceGetAttribute */
enum {
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_CACHE_BYTES = 38,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
};
enum { CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2 };
/* cuBLASLt: types, descriptions, layouts, preferences */
enum { CUBLASLT_F32 = 0, CUBLASLT_BF16 = 14 };
enum { CUBLASLT_COMPUTE_F32 = 68, CUBLASLT_COMPUTE_TF32 = 77 };
enum { CUBLASLT_DESC_TRANS_A = 3, CUBLASLT_DESC_TRANS_B = 4 };
enum { CUBLASLT_LAYOUT_BATCH = 5, CUBLASLT_LAYOUT_BATCH_STRIDE = 6, CUBLASLT_LAYOUT_ORDER = 1 };
enum { CUBLASLT_ORDER_ROW = 1 };
enum { CUBLASLT_PREFERENCE_WORKSPACE = 1 };

struct cublaslt_choice { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

struct cuda_driver {
#define MG_DRIVER(name, symbol, parameters) int(*name) parameters;
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
};
struct cuda_nvrtc {
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters) int(*name) parameters;
#define MG_BLAS(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
};
struct cuda_blas {
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters) int(*name) parameters;
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
};
struct cuda_calls {
    struct cuda_driver driver;
    struct cuda_nvrtc nvrtc;
    struct cuda_blas blas;
    char blas_version[32];
};
/* Opens the libraries; MG_ERR_UNSUPPORTED says which one is missing. */
enum mg_code mg_cuda_load(struct cuda_calls *calls, struct mg_error *err);
/* Opens device `ordinal` through these functions, which may be a test's. */
enum mg_code mg_cuda_open(struct mg_engine *engine, const struct cuda_calls *calls, int ordinal, struct mg_error *err);

struct cuda {
    struct cuda_calls calls;
    int device;
    void *context, *stream[3], *event[3], *begin, *end; /* streams by enum mg_stream */
    void *blas;
    int compute;      /* 90: sm_90 */
    uint64_t scratch; /* device memory of the operator that runs */
    uint64_t scratch_bytes;
};

/* A prepared operator: kernels in one module, launched in order, or a product. */
struct cuda_launch {
    void *function;
    unsigned grid, block;
};
struct cuda_op {
    void *module;
    struct cuda_launch *launches;
    uint32_t launch_count;
    void *desc, *layout[3]; /* product: a, b, result */
    struct cublaslt_choice choice;
    float alpha, beta;
};
enum mg_code mg_cuda_failed(const struct cuda *cuda, int status, const char *what, struct mg_error *err);
/* Products of matrices (cuda_product.c). */
enum mg_code mg_cuda_prepare_product(struct mg_prepared *p, struct cuda_op *op, struct mg_error *err);
enum mg_code mg_cuda_run_product(struct mg_prepared *p, const void *const *in, void *const *out, struct mg_error *err);
void mg_cuda_release_product(struct cuda *cuda, struct cuda_op *op);
/* Source of the kernels k0, k1, ... of an operator that is elementwise or moves elements; malloc'ed, NULL if it is
 * neither. `elements` receives for each kernel how many threads have work (at most `most` kernels). */
char *mg_cuda_source(struct mg_prepared *p, int64_t *elements, uint32_t most, uint32_t *count);

#endif
