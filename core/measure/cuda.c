/* The cuda back end: a context, three streams, memory, kernels compiled at run time, products by cuBLASLt. */
#include "measure/cuda_priv.h"
#include "measure/cuda_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = CUDA_BLOCK, MOST_KERNELS = 64, MOST_GRID = 65535 };

enum mg_code mg_cuda_failed(const struct cuda *cuda, int status, const char *what, struct mg_error *err)
{
    const char *text = NULL;
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        return mg_fail(err, MG_ERR_NOMEM, "", "no device memory for %s", what);
    if (cuda->calls.driver.error_text(status, &text) != 0 || !text)
        text = "unknown error";
    return mg_fail(err, MG_ERR_INTERNAL, "", "CUDA: %s failed with %d: %.200s", what, status, text);
}

#define TRY(call, what)                                                                                                \
    do {                                                                                                               \
        int status_ = (call);                                                                                          \
        if (status_ != 0)                                                                                              \
            return mg_cuda_failed(cuda, status_, what, err);                                                           \
    } while (0)

/* ---- opening ---- */

static int attribute(const struct cuda *cuda, int id)
{
    int value = 0;
    return cuda->calls.driver.device_attribute(&value, id, cuda->device) == 0 ? value : 0;
}

static enum mg_code describe(struct mg_engine *engine, struct cuda *cuda, struct mg_error *err)
{
    struct mg_engine_properties *p = &engine->properties;
    const struct cuda_driver *driver = &cuda->calls.driver;
    int major = attribute(cuda, CUDA_ATTRIBUTE_MAJOR), minor = attribute(cuda, CUDA_ATTRIBUTE_MINOR), version = 0;
    size_t bytes = 0;
    snprintf(p->backend, sizeof p->backend, "cuda");
    snprintf(p->backend_version, sizeof p->backend_version, "6");
    TRY(driver->device_name(p->device, sizeof p->device, cuda->device), "the device's name");
    TRY(driver->device_memory(&bytes, cuda->device), "the device's memory");
    TRY(driver->driver_version(&version), "the driver's version");
    snprintf(p->compute, sizeof p->compute, "%d.%d", major, minor);
    snprintf(p->driver, sizeof p->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    if (cuda->calls.nvrtc.version(&major, &version) == 0)
        snprintf(p->runtime, sizeof p->runtime, "NVRTC %d.%d", major, version);
    snprintf(p->blas, sizeof p->blas, "%s", cuda->calls.blas_version);
    snprintf(p->dnn, sizeof p->dnn, "%s", cuda->calls.dnn_version);
    cuda->compute = attribute(cuda, CUDA_ATTRIBUTE_MAJOR) * 10 + minor;
    p->units = (uint32_t)attribute(cuda, CUDA_ATTRIBUTE_MULTIPROCESSORS);
    p->cache_bytes = (uint64_t)attribute(cuda, CUDA_ATTRIBUTE_CACHE_BYTES);
    p->memory_bytes = bytes;
    p->pinned = true;
    p->copy_streams = 2;
    mg_cuda_open_card(cuda, p);
    return MG_OK;
}

static enum mg_code make_streams(struct cuda *cuda, struct mg_error *err)
{
    const struct cuda_driver *driver = &cuda->calls.driver;
    for (int i = 0; i < 3; i++)
        TRY(driver->stream_create(&cuda->stream[i], CUDA_STREAM_NON_BLOCKING), "a stream");
    TRY(driver->event_create(&cuda->begin, 0), "an event");
    TRY(driver->event_create(&cuda->end, 0), "an event");
    return MG_OK;
}

enum mg_code mg_cuda_open(struct mg_engine *engine, const struct cuda_calls *calls, int ordinal, struct mg_error *err)
{
    struct cuda *cuda = calloc(1, sizeof *cuda);
    int count = 0;
    engine->detail = cuda;
    if (!cuda)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    cuda->calls = *calls;
    const struct cuda_driver *driver = &cuda->calls.driver;
    if (driver->init(0) != 0 || driver->device_count(&count) != 0 || count == 0)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "/device", "the driver finds no device");
    if (ordinal < 0 || ordinal >= count)
        return mg_fail(err, MG_ERR_INVALID, "/device", "there is no cuda:%d; the last is cuda:%d", ordinal, count - 1);
    TRY(driver->device_get(&cuda->device, ordinal), "the device");
    TRY(driver->context_retain(&cuda->context, cuda->device), "a context");
    TRY(driver->context_set(cuda->context), "a context");
    enum mg_code code = make_streams(cuda, err);
    if (code != MG_OK)
        return code;
    TRY(cuda->calls.blas.create(&cuda->blas), "cuBLASLt");
    if (cuda->calls.dnn.create)
        TRY(cuda->calls.dnn.create(&cuda->dnn), "cuDNN");
    if (cuda->dnn)
        TRY(cuda->calls.dnn.set_stream(cuda->dnn, cuda->stream[MG_STREAM_COMPUTE]), "cuDNN");
    return describe(engine, cuda, err);
}

static enum mg_code cuda_open(struct mg_engine *engine, const char *rest, struct mg_error *err)
{
    struct cuda_calls calls = {0};
    char *end;
    long ordinal = strtol(*rest ? rest : "0", &end, 10);
    if (*end)
        return mg_fail(err, MG_ERR_INVALID, "/device", "\"cuda:%.40s\" is no device; the first is cuda:0", rest);
    enum mg_code code = mg_cuda_load(&calls, err);
    return code == MG_OK ? mg_cuda_open(engine, &calls, (int)ordinal, err) : code;
}

static void cuda_close(struct mg_engine *engine)
{
    struct cuda *cuda = engine->detail;
    if (!cuda)
        return;
    const struct cuda_driver *driver = &cuda->calls.driver;
    if (cuda->blas)
        cuda->calls.blas.destroy(cuda->blas);
    if (cuda->dnn)
        cuda->calls.dnn.destroy(cuda->dnn);
    if (cuda->scratch)
        driver->memory_free(cuda->scratch);
    for (uint32_t i = 0; i < cuda->mark_count; i++)
        driver->event_destroy(cuda->marks[i]);
    free(cuda->marks);
    for (int i = 0; i < 3; i++)
        if (cuda->stream[i])
            driver->stream_destroy(cuda->stream[i]);
    if (cuda->begin)
        driver->event_destroy(cuda->begin);
    if (cuda->end)
        driver->event_destroy(cuda->end);
    mg_cuda_close_card(cuda);
    if (cuda->context)
        driver->context_release(cuda->device);
    free(cuda);
}

/* ---- kernels ---- */

static enum mg_code compile(struct cuda *cuda, const struct mg_prepared *p, void *program, struct cuda_op *op,
                            struct mg_error *err)
{
    const struct cuda_nvrtc *nvrtc = &cuda->calls.nvrtc;
    char architecture[40], log[300] = "";
    size_t size = 0;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=compute_%d", cuda->compute);
    const char *const options[] = {architecture, "--std=c++14", "--fmad=true"};
    if (nvrtc->compile(program, 3, options) != 0) {
        if (nvrtc->log_size(program, &size) == 0 && size > 0 && size < sizeof log)
            nvrtc->log(program, log);
        return mg_fail(err, MG_ERR_INTERNAL, "", "the kernel of '%s' does not compile: %s", mg_op_type_name(p->op.type),
                       log);
    }
    if (nvrtc->image_size(program, &size) != 0 || size == 0)
        return mg_fail(err, MG_ERR_INTERNAL, "", "the kernel of '%s' has no image", mg_op_type_name(p->op.type));
    char *image = malloc(size);
    if (!image)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    int status = nvrtc->image(program, image);
    if (status == 0)
        status = cuda->calls.driver.module_load(&op->module, image);
    free(image);
    return status == 0 ? MG_OK : mg_cuda_failed(cuda, status, "loading a kernel", err);
}

static enum mg_code find_kernels(struct cuda *cuda, struct mg_prepared *p, const int64_t *elements, struct cuda_op *op,
                                 struct mg_error *err)
{
    op->launches = MG_NEW_ARRAY(&p->arena, struct cuda_launch, op->launch_count);
    for (uint32_t i = 0; i < op->launch_count; i++) {
        char name[16];
        int64_t blocks = (elements[i] + BLOCK - 1) / BLOCK;
        snprintf(name, sizeof name, "k%u", i);
        op->launches[i].block = BLOCK;
        op->launches[i].grid = (unsigned)(blocks < MOST_GRID ? blocks : MOST_GRID);
        TRY(cuda->calls.driver.module_function(&op->launches[i].function, op->module, name), "finding a kernel");
    }
    return MG_OK;
}

static enum mg_code prepare_kernels(struct mg_prepared *p, struct cuda_op *op, struct mg_error *err)
{
    struct cuda *cuda = p->engine->detail;
    int64_t elements[MOST_KERNELS];
    void *program = NULL;
    char *source = mg_cuda_source(p, elements, MOST_KERNELS, &op->launch_count);
    if (!source)
        return mg_prepared_refuse(p, err, "there is no kernel for it");
    int status = cuda->calls.nvrtc.create(&program, source, "kernel.cu", 0, NULL, NULL);
    enum mg_code code = MG_OK;
    if (status != 0)
        code = mg_fail(err, MG_ERR_INTERNAL, "", "NVRTC: %d", status);
    else
        code = compile(cuda, p, program, op, err);
    if (program)
        cuda->calls.nvrtc.destroy(&program);
    free(source);
    return code == MG_OK ? find_kernels(cuda, p, elements, op, err) : code;
}

/* Libraries first; where they do not take the operands, kernels of our own stand in. */
static enum mg_code cuda_prepare(struct mg_prepared *p, struct mg_error *err)
{
    struct cuda_op *op = MG_NEW(&p->arena, struct cuda_op);
    enum mg_code code = MG_ERR_UNSUPPORTED;
    p->detail = op;
    if (p->op.type == MG_OP_MATMUL || p->op.type == MG_OP_GEMM)
        code = mg_cuda_prepare_product(p, op, err);
    else if (mg_cuda_is_conv(p->op.type))
        code = mg_cuda_prepare_conv(p, op, err);
    return code == MG_ERR_UNSUPPORTED ? prepare_kernels(p, op, err) : code;
}

static void cuda_release(struct mg_prepared *p)
{
    struct cuda *cuda = p->engine->detail;
    struct cuda_op *op = p->detail;
    if (!op)
        return;
    if (op->module)
        cuda->calls.driver.module_unload(op->module);
    mg_cuda_release_product(cuda, op);
    mg_cuda_release_conv(cuda, op);
}

enum { MOST_PARAMETERS = 64 };

/* Numbers behind the addresses: by which random numbers are drawn. */
static uint32_t origin_parameters(const struct mg_prepared *p, const struct mg_exec_origin *origin, uint64_t *numbers)
{
    const struct mg_shape *shape = &p->op.out_shape[0];
    uint32_t count = 0;
    if (!mg_cuda_is_random(p->op.type))
        return 0;
    numbers[count++] = origin ? origin->seed : 0;
    numbers[count++] = origin ? origin->op : 0;
    for (uint32_t d = 0; d < shape->rank; d++) {
        bool whole = origin && origin->whole.rank;
        numbers[count++] = (uint64_t)(origin ? origin->lo[d] : 0);
        numbers[count++] = (uint64_t)(whole ? origin->whole.dim[d] : shape->dim[d]);
    }
    return count;
}

static enum mg_code launch_all(struct cuda *cuda, const struct mg_prepared *p, const void *const *in, void *const *out,
                               const struct mg_exec_origin *origin, struct mg_error *err)
{
    const struct cuda_op *op = p->detail;
    uint64_t number[MOST_PARAMETERS + 2 * MG_MAX_RANK + 2];
    void *parameters[MOST_PARAMETERS + 2 * MG_MAX_RANK + 3] = {NULL};
    uint32_t count = p->op.out_count + p->op.in_count;
    if (count > MOST_PARAMETERS)
        return mg_prepared_refuse(p, err, "it has too many operands");
    for (uint32_t i = 0; i < count; i++) {
        const void *at = i < p->op.out_count ? out[i] : in[i - p->op.out_count];
        number[i] = (uint64_t)(uintptr_t)at;
    }
    count += origin_parameters(p, origin, number + count);
    for (uint32_t i = 0; i < count; i++)
        parameters[i] = &number[i];
    for (uint32_t i = 0; i < op->launch_count; i++)
        if (op->launches[i].grid > 0)
            TRY(cuda->calls.driver.launch(op->launches[i].function, op->launches[i].grid, 1, 1, op->launches[i].block,
                                          1, 1, 0, cuda->stream[MG_STREAM_COMPUTE], parameters, NULL),
                "a launch");
    return MG_OK;
}

static enum mg_code cuda_run(struct mg_prepared *p, const void *const *in, void *const *out,
                             const struct mg_exec_origin *origin, struct mg_error *err)
{
    struct cuda *cuda = p->engine->detail;
    const struct cuda_op *op = p->detail;
    if (op->conv)
        return mg_cuda_run_conv(p, in, out, err);
    return op->desc ? mg_cuda_run_product(p, in, out, err) : launch_all(cuda, p, in, out, origin, err);
}

/* Between two events on the stream, so that the host's part does not count. */
static enum mg_code cuda_time(struct mg_prepared *p, const void *const *in, void *const *out, double *seconds,
                              struct mg_error *err)
{
    struct cuda *cuda = p->engine->detail;
    const struct cuda_driver *driver = &cuda->calls.driver;
    float milliseconds = 0;
    TRY(driver->event_record(cuda->begin, cuda->stream[MG_STREAM_COMPUTE]), "timing");
    enum mg_code code = cuda_run(p, in, out, NULL, err);
    if (code != MG_OK)
        return code;
    TRY(driver->event_record(cuda->end, cuda->stream[MG_STREAM_COMPUTE]), "timing");
    TRY(driver->event_wait(cuda->end), "an operator");
    TRY(driver->event_elapsed(&milliseconds, cuda->begin, cuda->end), "timing");
    *seconds = (double)milliseconds * 1e-3;
    return MG_OK;
}

/* ---- memory, copies, order ---- */

static enum mg_code cuda_alloc(struct mg_engine *engine, enum mg_place place, uint64_t bytes, void **out,
                               struct mg_error *err)
{
    struct cuda *cuda = engine->detail;
    uint64_t address = 0;
    if (place == MG_PLACE_HOST) {
        TRY(cuda->calls.driver.host_alloc(out, bytes ? bytes : 1), "host memory");
        return MG_OK;
    }
    TRY(cuda->calls.driver.memory_alloc(&address, bytes ? bytes : 1), "memory");
    *out = (void *)(uintptr_t)address;
    return MG_OK;
}

static void cuda_free(struct mg_engine *engine, enum mg_place place, void *memory)
{
    struct cuda *cuda = engine->detail;
    if (place == MG_PLACE_HOST)
        cuda->calls.driver.host_free(memory);
    else
        cuda->calls.driver.memory_free((uint64_t)(uintptr_t)memory);
}

static enum mg_code cuda_copy(struct mg_engine *engine, enum mg_stream stream, void *to, const void *from,
                              uint64_t bytes, struct mg_error *err)
{
    struct cuda *cuda = engine->detail;
    const struct cuda_driver *driver = &cuda->calls.driver;
    void *queue = cuda->stream[stream];
    if (stream == MG_STREAM_LOAD)
        TRY(driver->copy_to_device((uint64_t)(uintptr_t)to, from, bytes, queue), "a copy to the device");
    else if (stream == MG_STREAM_STORE)
        TRY(driver->copy_to_host(to, (uint64_t)(uintptr_t)from, bytes, queue), "a copy to the host");
    else
        TRY(driver->copy_on_device((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, queue), "a copy");
    return MG_OK;
}

static enum mg_code make_marks(struct cuda *cuda, uint32_t count, struct mg_error *err)
{
    void **larger = realloc(cuda->marks, count * sizeof *larger);
    if (!larger)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    cuda->marks = larger;
    for (; cuda->mark_count < count; cuda->mark_count++)
        TRY(cuda->calls.driver.event_create(&cuda->marks[cuda->mark_count], CUDA_EVENT_NO_TIMING), "an event");
    return MG_OK;
}

static enum mg_code cuda_mark(struct mg_engine *engine, enum mg_stream stream, uint32_t mark, struct mg_error *err)
{
    struct cuda *cuda = engine->detail;
    enum mg_code code = mark < cuda->mark_count ? MG_OK : make_marks(cuda, mark + 1, err);
    if (code != MG_OK)
        return code;
    TRY(cuda->calls.driver.event_record(cuda->marks[mark], cuda->stream[stream]), "an event");
    return MG_OK;
}

/* A mark that was never set has nothing before it. */
static enum mg_code cuda_await(struct mg_engine *engine, enum mg_stream stream, uint32_t mark, struct mg_error *err)
{
    struct cuda *cuda = engine->detail;
    if (mark < cuda->mark_count)
        TRY(cuda->calls.driver.stream_wait_event(cuda->stream[stream], cuda->marks[mark], 0), "a wait");
    return MG_OK;
}

static enum mg_code cuda_wait(struct mg_engine *engine, struct mg_error *err)
{
    struct cuda *cuda = engine->detail;
    for (int i = 0; i < 3; i++)
        TRY(cuda->calls.driver.stream_wait(cuda->stream[i]), "waiting");
    return MG_OK;
}

const struct mg_backend mg_backend_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .prepare = cuda_prepare,
    .release = cuda_release,
    .run = cuda_run,
    .time_run = cuda_time,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = cuda_copy,
    .mark = cuda_mark,
    .await = cuda_await,
    .wait = cuda_wait,
    .free_memory = mg_cuda_free_memory,
    .is_busy = mg_cuda_is_busy,
    .state = mg_cuda_state,
};
