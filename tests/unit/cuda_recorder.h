/* NVIDIA's driver and libraries as fakes that only record: memory is the host's, copies are made at once, kernels and
 * products do nothing. */
#ifndef MG_CUDA_RECORDER_H
#define MG_CUDA_RECORDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/cuda_priv.h"

static struct {
    char source[65536], option[64], kernel[16];
    unsigned grid, block;
    uint64_t address[4];
    uint32_t launches, modules, programs, streams, events, memory, hosts, layouts, descs;
    void *recorded, *waiting, *waited_for;
    size_t copied;
    int fail_alloc, choices;
    int64_t ld, rows;
    float alpha, beta;
    int32_t trans[2];
    int tensors, algorithm, pad, math, tensor_type, compute, type; /* the last ones */
    uint32_t products[2][16];                                      /* chosen: plain or tf32, by cuBLASLt's type */
    size_t left;                                                   /* free memory */
    unsigned pids[3], pid_count, percent, sessions;
    bool no_uuid, is_part; /* is_part: the device is a MIG instance */
    unsigned long long slowed_by;
} log_;

/* ---- what is queued, in order; kept only where `keeps` ---- */

enum recorded_kind { RECORDED_RUN, RECORDED_LAUNCH, RECORDED_STORE, RECORDED_LOAD, RECORDED_EVENT, RECORDED_WAIT };
struct recorded {
    enum recorded_kind kind;
    void *stream, *event;
    uint64_t device, host; /* addresses; a run's device: of its first result */
    size_t bytes;
};
static struct {
    struct recorded *list;
    uint32_t count, capacity;
    bool keeps;
} queue_;

static void keep(struct recorded item)
{
    if (!queue_.keeps)
        return;
    if (queue_.count == queue_.capacity) {
        queue_.capacity = 2 * queue_.capacity + 1024;
        queue_.list = realloc(queue_.list, queue_.capacity * sizeof *queue_.list);
        cr_assert_not_null(queue_.list);
    }
    queue_.list[queue_.count++] = item;
}

static int fake_init(unsigned flags)
{
    return (int)flags;
}
static int fake_int(int *value)
{
    *value = 12040;
    return 0;
}
static int fake_count(int *count)
{
    *count = 1;
    return 0;
}
static int fake_get(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}
static int fake_name(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Recorder %d", device);
    return 0;
}
static int fake_attribute(int *value, int attribute, int device)
{
    *value = attribute == CUDA_ATTRIBUTE_MAJOR ? 9 : attribute == CUDA_ATTRIBUTE_MULTIPROCESSORS ? 132 : device;
    return 0;
}
static int fake_memory(size_t *bytes, int device)
{
    *bytes = 1u << 30;
    return device;
}
static int fake_retain(void **context, int device)
{
    *context = &log_;
    return device;
}
static int fake_release(int device)
{
    return device;
}
static int fake_set(void *context)
{
    return context == NULL;
}
static int fake_alloc(uint64_t *address, size_t bytes)
{
    if (log_.fail_alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = (uint64_t)(uintptr_t)malloc(bytes);
    log_.memory++;
    return 0;
}
static int fake_free(uint64_t address)
{
    free((void *)(uintptr_t)address);
    log_.memory--;
    return 0;
}
static int fake_host_alloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    log_.hosts++;
    return 0;
}
static int fake_host_free(void *memory)
{
    free(memory);
    log_.hosts--;
    return 0;
}
static int fake_to_device(uint64_t to, const void *from, size_t bytes, void *stream)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    log_.copied += bytes;
    keep((struct recorded){RECORDED_LOAD, stream, NULL, to, (uint64_t)(uintptr_t)from, bytes});
    return stream == NULL;
}
static int fake_to_host(void *to, uint64_t from, size_t bytes, void *stream)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    log_.copied += bytes;
    keep((struct recorded){RECORDED_STORE, stream, NULL, from, (uint64_t)(uintptr_t)to, bytes});
    return stream == NULL;
}
static int fake_on_device(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    log_.copied += bytes;
    return stream == NULL;
}
static int fake_stream(void **stream, unsigned flags)
{
    *stream = malloc(1);
    log_.streams++;
    return flags != CUDA_STREAM_NON_BLOCKING;
}
static int fake_stream_free(void *stream)
{
    free(stream);
    log_.streams--;
    return 0;
}
static int fake_stream_wait(void *stream)
{
    return stream == NULL;
}
static int fake_wait_event(void *stream, void *event, unsigned flags)
{
    log_.waiting = stream;
    log_.waited_for = event;
    keep((struct recorded){.kind = RECORDED_WAIT, .stream = stream, .event = event});
    return (int)flags;
}
static int fake_event(void **event, unsigned flags)
{
    *event = malloc(1);
    log_.events++;
    return flags & 1;
}
static int fake_event_free(void *event)
{
    free(event);
    log_.events--;
    return 0;
}
static int fake_record(void *event, void *stream)
{
    log_.recorded = event;
    keep((struct recorded){.kind = RECORDED_EVENT, .stream = stream, .event = event});
    return stream == NULL;
}
static int fake_event_wait(void *event)
{
    return event == NULL;
}
static int fake_elapsed(float *milliseconds, void *begin, void *end)
{
    *milliseconds = 1.5f;
    return begin == end;
}
static int fake_module(void **module, const void *image)
{
    *module = &log_.modules;
    log_.modules++;
    return strcmp(image, "image") != 0;
}
static int fake_unload(void *module)
{
    log_.modules--;
    return module != &log_.modules;
}
static int fake_function(void **function, void *module, const char *name)
{
    *function = module;
    snprintf(log_.kernel, sizeof log_.kernel, "%s", name);
    return 0;
}
static int fake_launch(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **parameters, void **extra)
{
    log_.grid = x;
    log_.block = bx;
    log_.launches++;
    keep((struct recorded){.kind = RECORDED_LAUNCH, .stream = stream});
    for (int i = 0; i < 2; i++)
        log_.address[i] = *(uint64_t *)parameters[i];
    return !function || y != 1 || z != 1 || by != 1 || bz != 1 || shared || !stream || extra;
}
static int fake_text(int status, const char **text)
{
    *text = status ? "an error" : "none";
    return 0;
}
static int fake_version(int *major, int *minor)
{
    *major = 12;
    *minor = 4;
    return 0;
}
static int fake_create(void **program, const char *source, const char *name, int headers, const char *const *texts,
                       const char *const *names)
{
    *program = &log_.source;
    log_.programs++;
    snprintf(log_.source, sizeof log_.source, "%s", source);
    return !name || headers || texts || names;
}
static int fake_compile(void *program, int count, const char *const *options)
{
    snprintf(log_.option, sizeof log_.option, "%s", options[0]);
    return program == NULL || count < 1;
}
static int fake_destroy_program(void **program)
{
    log_.programs--;
    *program = NULL;
    return 0;
}
static int fake_image_size(void *program, size_t *size)
{
    *size = sizeof "image";
    return program == NULL;
}
static int fake_image(void *program, char *text)
{
    strcpy(text, "image");
    return program == NULL;
}
static int fake_log_size(void *program, size_t *size)
{
    *size = 0;
    return program == NULL;
}
static int fake_blas(void **handle)
{
    *handle = &log_;
    return 0;
}
static int fake_blas_free(void *handle)
{
    return handle == NULL;
}
static int fake_desc(void **desc, int compute, int scale)
{
    *desc = &log_.descs;
    log_.descs++;
    log_.compute = compute;
    return scale != CUBLASLT_F32 || (compute != CUBLASLT_COMPUTE_F32 && compute != CUBLASLT_COMPUTE_TF32);
}
static int fake_desc_free(void *desc)
{
    log_.descs--;
    return desc == NULL;
}
static int fake_desc_set(void *desc, int attribute, const void *value, size_t size)
{
    memcpy(&log_.trans[attribute == CUBLASLT_DESC_TRANS_B], value, sizeof(int32_t));
    return !desc || size != sizeof(int32_t);
}
static int fake_layout(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    *layout = &log_.layouts;
    log_.layouts++;
    log_.rows = (int64_t)rows;
    log_.ld = ld;
    log_.type = type;
    return (type != CUBLASLT_F32 && type != CUBLASLT_BF16 && type != CUBLASLT_F16) || cols == 0 || ld < 1;
}
static int fake_layout_free(void *layout)
{
    log_.layouts--;
    return layout == NULL;
}
static int fake_layout_set(void *layout, int attribute, const void *value, size_t size)
{
    return !layout || !value || size == 0 || attribute == 0;
}
static int fake_heuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,
                          struct cublaslt_choice *choices, int *found)
{
    *found = log_.choices < wanted ? log_.choices : wanted;
    choices->workspace_bytes = 1024;
    log_.products[log_.compute == CUBLASLT_COMPUTE_TF32][log_.type]++;
    return !handle || !desc || !a || !b || !c || !d || !preference;
}
static int fake_matmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
                       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                       const void *algorithm, void *workspace, size_t bytes, void *stream)
{
    log_.alpha = *(const float *)alpha;
    log_.beta = *(const float *)beta;
    log_.launches++;
    keep((struct recorded){.kind = RECORDED_LAUNCH, .stream = stream});
    return !handle || !desc || !a || !a_layout || !b || !b_layout || !c || !c_layout || !d || !d_layout || !algorithm ||
           !workspace || bytes < 1024 || !stream;
}

static int fake_dnn(void **handle)
{
    *handle = &log_.tensors;
    return 0;
}
static int fake_tensor(void **tensor)
{
    log_.tensors++;
    return fake_dnn(tensor);
}
static int fake_tensor_free(void *tensor)
{
    log_.tensors--;
    return tensor != &log_.tensors;
}
static int fake_dnn_stream(void *handle, void *stream)
{
    return !handle || !stream;
}
static bool is_dnn_type(int type)
{
    return type == CUDNN_FLOAT || type == CUDNN_BFLOAT16 || type == CUDNN_HALF;
}
static int fake_tensor_set(void *tensor, int type, int rank, const int *dims, const int *strides)
{
    log_.tensor_type = type;
    return !tensor || !is_dnn_type(type) || rank < 4 || dims[0] < 1 || strides[rank - 1] < 1;
}
static int fake_filter_set(void *filter, int type, int format, int rank, const int *dims)
{
    return !filter || !is_dnn_type(type) || format != CUDNN_TENSOR_NCHW || rank < 4 || dims[0] < 1;
}
static int fake_conv_set(void *conv, int rank, const int *pads, const int *strides, const int *dilations, int mode,
                         int type)
{
    log_.pad = pads[0];
    return !conv || rank < 2 || strides[0] < 1 || dilations[0] < 1 || mode != CUDNN_CROSS_CORRELATION ||
           type != CUDNN_FLOAT;
}
static int fake_conv_groups(void *conv, int groups)
{
    return !conv || groups < 1;
}
static int fake_conv_math(void *conv, int math)
{
    log_.math = math;
    return !conv || math < 0;
}
static int fake_find(int wanted, int *found, struct cudnn_choice *choices, int algorithm)
{
    choices[0] = (struct cudnn_choice){.algorithm = 1, .memory = (size_t)1 << 40}; /* more than is to be had */
    choices[1] = (struct cudnn_choice){.algorithm = algorithm, .memory = 4096};
    *found = 2;
    return wanted < 2;
}
static int fake_forward_find(void *handle, void *x, void *w, void *conv, void *y, int wanted, int *found,
                             struct cudnn_choice *choices)
{
    return !handle || !x || !w || !conv || !y || fake_find(wanted, found, choices, 7);
}
static int fake_weight_find(void *handle, void *x, void *dy, void *conv, void *dw, int wanted, int *found,
                            struct cudnn_choice *choices)
{
    return !handle || !x || !dy || !conv || !dw || fake_find(wanted, found, choices, 9);
}
static int fake_conv(void *handle, const void *alpha, void *x, const void *x_data, void *w, const void *w_data,
                     void *conv, int algorithm, void *workspace, size_t bytes, const void *beta, void *y, void *y_data)
{
    log_.algorithm = algorithm;
    log_.launches++;
    return !handle || *(const float *)alpha != 1 || !x || !x_data || !w || !w_data || !conv || !workspace ||
           bytes != 4096 || *(const float *)beta != 0 || !y || !y_data;
}
static int fake_add(void *handle, const void *alpha, void *a, const void *a_data, const void *beta, void *c,
                    void *c_data)
{
    log_.launches++;
    return !handle || *(const float *)alpha != 1 || !a || !a_data || *(const float *)beta != 1 || !c || !c_data;
}

static int fake_info(size_t *left, size_t *whole)
{
    *left = log_.left;
    *whole = (size_t)8 << 30;
    return 0;
}
static int fake_uuid(unsigned char *uuid, int device)
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(i + 16 * device);
    return log_.no_uuid;
}
static int fake_nvml(void)
{
    log_.sessions++;
    return 0;
}
static int fake_nvml_end(void)
{
    log_.sessions--;
    return 0;
}
static int fake_by_uuid(const char *uuid, void **device)
{
    *device = log_.is_part ? (void *)&log_.pids : (void *)&log_.sessions;
    return strcmp(uuid, log_.is_part ? "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f"
                                     : "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") != 0;
}
static bool is_asked_of(const void *device)
{
    return log_.sessions && device == (log_.is_part ? (const void *)&log_.pids : (const void *)&log_.sessions);
}
static bool is_card(const void *device)
{
    return log_.sessions && device == &log_.sessions;
}
static int fake_driver_version(char *version, unsigned size)
{
    snprintf(version, size, "555.42.06");
    return log_.sessions == 0;
}
static int fake_link(void *device, unsigned *generation)
{
    *generation = 5;
    return !is_card(device);
}
static int fake_lanes(void *device, unsigned *lanes)
{
    *lanes = 16;
    return !is_card(device);
}
static int fake_card_of(void *part, void **device)
{
    *device = &log_.sessions;
    return !log_.is_part || part != &log_.pids;
}
static int fake_part(void *part, struct nvml_part *size)
{
    *size = (struct nvml_part){.slices = 2, .compute_slices = 1, .memory_mib = 9984};
    return !log_.is_part || part != &log_.pids;
}
static int fake_clock(void *device, int type, unsigned *mhz)
{
    *mhz = 1755;
    return !is_card(device) || type != NVML_CLOCK_SM;
}
static int fake_slowed(void *device, unsigned long long *reasons)
{
    *reasons = log_.slowed_by;
    return !is_card(device);
}
static int fake_processes(void *device, unsigned *count, struct nvml_process *list)
{
    cr_expect_geq(*count, 3u);
    for (unsigned i = 0; i < log_.pid_count; i++)
        list[i].pid = log_.pids[i];
    *count = log_.pid_count;
    return !is_asked_of(device);
}
static int fake_utilisation(void *device, struct nvml_utilisation *rates)
{
    *rates = (struct nvml_utilisation){log_.percent, 0};
    return !is_asked_of(device);
}

static struct cuda_calls recorder(void)
{
    struct cuda_calls calls = {
        .driver = {fake_init,        fake_int,         fake_count,      fake_get,     fake_name,       fake_attribute,
                   fake_memory,      fake_retain,      fake_release,    fake_set,     fake_alloc,      fake_free,
                   fake_host_alloc,  fake_host_free,   fake_to_device,  fake_to_host, fake_on_device,  fake_stream,
                   fake_stream_free, fake_stream_wait, fake_wait_event, fake_event,   fake_event_free, fake_record,
                   fake_event_wait,  fake_elapsed,     fake_module,     fake_unload,  fake_function,   fake_launch,
                   fake_text,        fake_info,        fake_uuid,       fake_uuid},
        .nvrtc = {fake_version, fake_create, fake_compile, fake_destroy_program, fake_image_size, fake_image,
                  fake_log_size, fake_image},
        .blas = {fake_blas, fake_blas_free, fake_desc, fake_desc_free, fake_desc_set, fake_layout, fake_layout_free,
                 fake_layout_set, fake_blas, fake_blas_free, fake_layout_set, fake_heuristic, fake_matmul},
        .dnn = {fake_dnn,          fake_blas_free,   fake_dnn_stream,  fake_tensor,     fake_tensor_free,
                fake_tensor_set,   fake_tensor,      fake_tensor_free, fake_filter_set, fake_dnn,
                fake_blas_free,    fake_conv_set,    fake_conv_groups, fake_conv_math,  fake_forward_find,
                fake_forward_find, fake_weight_find, fake_conv,        fake_conv,       fake_conv,
                fake_add},
        .nvml = {fake_nvml, fake_nvml_end, fake_by_uuid, fake_processes, fake_utilisation, fake_driver_version,
                 fake_link, fake_lanes, fake_card_of, fake_part, fake_clock, fake_slowed},
        .blas_version = "cuBLASLt 1",
        .dnn_version = "cuDNN 1"};
    return calls;
}

#endif
