#!/bin/bash
# The numbers and structures that the cuda back end takes from documentation, held against the headers where they are.
set -u
home=${CUDA_HOME:-/usr/local/cuda}
if [ ! -f "$home/include/cuda.h" ] || [ ! -f "$home/include/cublasLt.h" ]; then
    echo "SKIPPED: no CUDA headers in $home (CUDA_HOME)" >&2
    echo "0 passed, 0 failed"
    exit 0
fi
source=$(mktemp "${MAGIS_TMP:-/tmp}/magisd-headers-XXXXXX.c")
trap 'rm -f "$source" "$source.o"' EXIT
{
    echo '#include <cuda.h>'
    echo '#include <cublasLt.h>'
    [ -f "$home/include/cudnn.h" ] && echo '#include <cudnn.h>'
    [ -f "$home/include/nvml.h" ] && echo '#include <nvml.h>'
    # the back end's own numbers carry other names than the headers': an enum each, under a prefix
    sed -e 's/\<CU[DB][A-Z]*_[A-Z0-9_]*\>/MG_&/g; s/\<NVML_[A-Z0-9_]*\>/MG_&/g' core/measure/cuda_priv.h | sed -n '/^enum {/,/};/p; /^struct cublaslt_choice/,/^};/p; /^struct cudnn_choice/,/^};/p; /^struct nvml_part/,/^};/p'
    cat <<'C'
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(MG_CUDA_ATTRIBUTE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(MG_CUDA_ATTRIBUTE_CACHE_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(MG_CUDA_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(MG_CUDA_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(MG_CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(MG_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(MG_CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(MG_CUBLASLT_F32, CUDA_R_32F);
SAME(MG_CUBLASLT_BF16, CUDA_R_16BF);
SAME(MG_CUBLASLT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(MG_CUBLASLT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(MG_CUBLASLT_DESC_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(MG_CUBLASLT_DESC_TRANS_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(MG_CUBLASLT_LAYOUT_BATCH, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(MG_CUBLASLT_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(MG_CUBLASLT_LAYOUT_ORDER, CUBLASLT_MATRIX_LAYOUT_ORDER);
SAME(MG_CUBLASLT_ORDER_ROW, CUBLASLT_ORDER_ROW);
SAME(MG_CUBLASLT_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(sizeof(struct cublaslt_choice), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(struct cublaslt_choice, workspace_bytes), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
#ifdef CUDNN_H_
SAME(MG_CUDNN_FLOAT, CUDNN_DATA_FLOAT);
SAME(MG_CUDNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME(MG_CUDNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(MG_CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NCHW);
SAME(MG_CUDNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(MG_CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME(MG_CUDNN_FMA_MATH, CUDNN_FMA_MATH);
SAME(sizeof(struct cudnn_choice), sizeof(cudnnConvolutionFwdAlgoPerf_t));
SAME(offsetof(struct cudnn_choice, memory), offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
SAME(offsetof(struct cudnn_choice, math), offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));
#endif
#ifdef __nvml_nvml_h__
SAME(MG_NVML_CLOCK_SM, NVML_CLOCK_SM);
SAME(MG_NVML_SLOWED_BY_HARDWARE, nvmlClocksThrottleReasonHwSlowdown);
SAME(MG_NVML_SLOWED_BY_HEAT, nvmlClocksThrottleReasonSwThermalSlowdown);
SAME(MG_NVML_SLOWED_BY_OVERHEATING, nvmlClocksThrottleReasonHwThermalSlowdown);
SAME(MG_NVML_SLOWED_BY_POWER_BRAKE, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
SAME(sizeof(struct nvml_part), sizeof(nvmlDeviceAttributes_t));
SAME(offsetof(struct nvml_part, slices), offsetof(nvmlDeviceAttributes_t, gpuInstanceSliceCount));
SAME(offsetof(struct nvml_part, memory_mib), offsetof(nvmlDeviceAttributes_t, memorySizeMB));
#endif
C
} > "$source"
sed -i '1i #include <stddef.h>\n#include <stdint.h>' "$source"
if ${CC:-cc} -std=c17 -w -I"$home/include" -c -o "$source.o" "$source"; then
    echo "1 passed, 0 failed"
else
    echo "FAILED: the back end's numbers are not those of the headers"
    echo "0 passed, 1 failed"
    exit 1
fi
