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
enum { CUBLASLT_F32 = 0, CUBLASLT_F16 = 2, CUBLASLT_BF16 = 14 };
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

/* cuDNN: types, math, layouts; -1 in a dimension would be an error */
enum { CUDNN_FLOAT = 0, CUDNN_HALF = 2, CUDNN_BFLOAT16 = 9, CUDNN_CROSS_CORRELATION = 1, CUDNN_TENSOR_NCHW = 0 };
enum { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 };
struct cudnn_choice { /* cudnnConvolution*AlgoPerf_t */
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math;
    int reserved[3];
};

struct cuda_driver {
#define MG_DRIVER(name, symbol, parameters) int(*name) parameters;
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters)
#define MG_DNN(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
struct cuda_nvrtc {
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters) int(*name) parameters;
#define MG_BLAS(name, symbol, parameters)
#define MG_DNN(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
struct cuda_blas {
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters) int(*name) parameters;
#define MG_DNN(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
struct cuda_dnn { /* all NULL where there is no cuDNN */
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters)
#define MG_DNN(name, symbol, parameters) int(*name) parameters;
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
struct nvml_process { /* nvmlProcessInfo_v1_t */
    unsigned pid;
    unsigned long long memory;
};
struct nvml_utilisation { /* nvmlUtilization_t: percent */
    unsigned gpu, memory;
};
struct nvml_part { /* nvmlDeviceAttributes_t */
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, slices, compute_slices;
    unsigned long long memory_mib;
};
enum { NVML_CLOCK_SM = 1 };
enum { /* nvmlClocksThrottleReason... */
       NVML_SLOWED_BY_HARDWARE = 0x08,
       NVML_SLOWED_BY_HEAT = 0x20,
       NVML_SLOWED_BY_OVERHEATING = 0x40,
       NVML_SLOWED_BY_POWER_BRAKE = 0x80,
};
struct nvml { /* all NULL where the library is not there */
#define MG_NVML(name, symbol, parameters) int(*name) parameters;
#include "measure/nvml_calls.def"
#undef MG_NVML
};
struct cuda_calls {
    struct cuda_driver driver;
    struct cuda_nvrtc nvrtc;
    struct cuda_blas blas;
    struct cuda_dnn dnn;
    struct nvml nvml;
    char blas_version[32], dnn_version[32];
};
/* Opens the libraries; MG_ERR_UNSUPPORTED says which one is missing. */
enum mg_code mg_cuda_load(struct cuda_calls *calls, struct mg_error *err);
/* Opens device `ordinal` through these functions, which may be a test's. */
enum mg_code mg_cuda_open(struct mg_engine *engine, const struct cuda_calls *calls, int ordinal, struct mg_error *err);

struct cuda {
    struct cuda_calls calls;
    int device;
    void *context, *stream[3], *begin, *end; /* streams by enum mg_stream */
    void **marks;                            /* events */
    uint32_t mark_count;
    void *blas, *dnn;  /* dnn: NULL where there is none */
    void *card, *part; /* of the management library; part: what we may use of the card, all or a MIG instance */
    bool asks_nvml;    /* its session is open */
    int compute;       /* 90: sm_90 */
    uint64_t scratch;  /* device memory of the operator that runs */
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
    void *conv, *tensor[2], *filter, *addend[2]; /* convolution: x, y; operands that are added */
    int algorithm;
};
enum mg_code mg_cuda_failed(const struct cuda *cuda, int status, const char *what, struct mg_error *err);
/* Fills in what the management library knows of the card, and stays in touch with it (cuda_card.c). */
void mg_cuda_open_card(struct cuda *cuda, struct mg_engine_properties *p);
void mg_cuda_close_card(struct cuda *cuda);
void mg_cuda_state(struct mg_engine *engine, double *clock_mhz, bool *throttled);
/* Who else uses the card (cuda_busy.c). */
uint64_t mg_cuda_free_memory(struct mg_engine *engine);
bool mg_cuda_is_busy(struct mg_engine *engine, double idle_s, char *why, size_t room);
/* Products of matrices (cuda_product.c). */
enum mg_code mg_cuda_prepare_product(struct mg_prepared *p, struct cuda_op *op, struct mg_error *err);
enum mg_code mg_cuda_run_product(struct mg_prepared *p, const void *const *in, void *const *out, struct mg_error *err);
void mg_cuda_release_product(struct cuda *cuda, struct cuda_op *op);
enum mg_code mg_cuda_grow_scratch(struct cuda *cuda, uint64_t bytes, struct mg_error *err);
/* Convolutions and their gradients (cuda_conv.c). */
bool mg_cuda_is_conv(enum mg_op_type type);
enum mg_code mg_cuda_prepare_conv(struct mg_prepared *p, struct cuda_op *op, struct mg_error *err);
enum mg_code mg_cuda_run_conv(struct mg_prepared *p, const void *const *in, void *const *out, struct mg_error *err);
void mg_cuda_release_conv(struct cuda *cuda, struct cuda_op *op);
/* Source of the kernels k0, k1, ... of an operator; malloc'ed, NULL if there are none for it. `elements` receives for
 * each kernel how many threads have work (at most `most` kernels). */
char *mg_cuda_source(struct mg_prepared *p, int64_t *elements, uint32_t most, uint32_t *count);

#endif
