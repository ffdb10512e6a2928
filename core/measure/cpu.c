/* The cpu back end: opening, choosing kernels, making operands dense for those that want them so. One processor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/cpu_priv.h"

/* ---- the device ---- */

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    switch (isa) {
    case dnnl_cpu_isa_sse41:
        return "sse41";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
        return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
    default:
        return "other";
    }
}

static void read_model_name(char *out, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "unknown processor");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(out, size, "%.60s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

/* Of the last level, within reason: beyond, it takes long to flush and no operator's operands fill it. */
static uint64_t last_cache(void)
{
    static const int levels[] = {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        long bytes = sysconf(levels[i]);
        if (bytes > 0)
            return bytes < 64 << 20 ? (uint64_t)bytes : 64 << 20;
    }
    return 8 << 20;
}

/* Whether mg_host_alloc()'s wish for huge pages is heard. */
static const char *kind_of_pages(void)
{
    char line[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    bool heard = file && fgets(line, sizeof line, file) && !strstr(line, "[never]");
    if (file)
        fclose(file);
    return heard ? "huge" : "small";
}

static void describe(struct mg_engine *engine, const struct onednn *dnn)
{
    struct mg_engine_properties *p = &engine->properties;
    const dnnl_version_t *version = dnn->version();
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    snprintf(p->backend, sizeof p->backend, "cpu");
    snprintf(p->backend_version, sizeof p->backend_version, "8");
    read_model_name(p->device, sizeof p->device);
    snprintf(p->compute, sizeof p->compute, "%s", isa_name(dnn->get_effective_cpu_isa()));
    snprintf(p->dnn, sizeof p->dnn, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    snprintf(p->pages, sizeof p->pages, "%s", kind_of_pages());
    p->units = 1;
    p->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    p->cache_bytes = last_cache();
}

static enum mg_code cpu_open(struct mg_engine *engine, const char *rest, struct mg_error *err)
{
    if (*rest)
        return mg_fail(err, MG_ERR_INVALID, "/device", "there is one cpu; leave out \":%.40s\"", rest);
    struct cpu *cpu = calloc(1, sizeof *cpu);
    engine->detail = cpu;
    if (!cpu)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    enum mg_code code = mg_onednn_load(&cpu->dnn, err);
    if (code != MG_OK)
        return code;
    if (cpu->dnn.set_threads)
        cpu->dnn.set_threads(1);
    if (cpu->dnn.engine_create(&cpu->engine, dnnl_cpu, 0) != dnnl_success ||
        cpu->dnn.stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags) != dnnl_success)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "/device", "oneDNN does not run on this processor");
    describe(engine, &cpu->dnn);
    return MG_OK;
}

static void cpu_close(struct mg_engine *engine)
{
    struct cpu *cpu = engine->detail;
    if (!cpu)
        return;
    if (cpu->stream)
        cpu->dnn.stream_destroy(cpu->stream);
    if (cpu->engine)
        cpu->dnn.engine_destroy(cpu->engine);
    free(cpu->scratch);
    free(cpu);
}

/* ---- preparing ---- */

/* NULL: there is none, as for opaque operators. */
static cpu_prepare_fn *kernel_named(const char *name)
{
    static const struct {
        const char *name;
        cpu_prepare_fn *prepare;
    } kernels[] = {
#define MG_CPU_KERNEL(kernel, function) {#kernel, function},
#include "measure/cpu_kernels.def"
#undef MG_CPU_KERNEL
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels[i].prepare;
    return NULL;
}

static const char *const kernel_names[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, ...) [MG_OP_##id] = #kernel,
#include "graph/ops.def"
#undef MG_OP
};

uint64_t mg_cpu_reserve(struct mg_prepared *p, uint64_t bytes)
{
    uint64_t at = p->workspace;
    p->workspace += (bytes + 63) / 64 * 64;
    return at;
}

enum mg_dtype mg_cpu_native(enum mg_dtype dtype)
{
    if (dtype == MG_DTYPE_BOOL)
        return MG_DTYPE_BOOL;
    return dtype >= MG_DTYPE_I64 ? MG_DTYPE_I64 : MG_DTYPE_F32;
}

int64_t mg_cpu_count(const struct mg_shape *shape)
{
    return mg_shape_elements(shape);
}

static uint64_t pack_place(struct mg_prepared *p, const struct mg_shape *shape, const struct mg_strides *strides,
                           enum mg_dtype dtype)
{
    if (dtype == mg_cpu_native(dtype) && mg_layout_contiguous(shape, strides->at))
        return MG_NO_PACK;
    return mg_cpu_reserve(p, (uint64_t)mg_cpu_count(shape) * mg_dtype_size(mg_cpu_native(dtype)));
}

static void place_operands(struct mg_prepared *p, struct cpu_op *op)
{
    op->pack_in = MG_NEW_ARRAY(&p->arena, uint64_t, p->op.in_count);
    op->pack_out = MG_NEW_ARRAY(&p->arena, uint64_t, p->op.out_count);
    for (uint32_t i = 0; i < p->op.in_count; i++)
        op->pack_in[i] = op->strided ? MG_NO_PACK : pack_place(p, &p->op.in_shape[i], &p->in[i], p->op.in_dtype[i]);
    for (uint32_t i = 0; i < p->op.out_count; i++)
        op->pack_out[i] = op->strided ? MG_NO_PACK : pack_place(p, &p->op.out_shape[i], &p->out[i], p->op.out_dtype[i]);
}

static bool dtypes_known(const struct mg_prepared *p)
{
    for (uint32_t i = 0; i < p->op.in_count; i++)
        if (!mg_cpu_dtype_known(p->op.in_dtype[i]))
            return false;
    for (uint32_t i = 0; i < p->op.out_count; i++)
        if (!mg_cpu_dtype_known(p->op.out_dtype[i]))
            return false;
    return true;
}

static enum mg_code grow_scratch(struct cpu *cpu, uint64_t bytes, struct mg_error *err)
{
    if (bytes <= cpu->scratch_bytes)
        return MG_OK;
    void *memory;
    enum mg_code code = mg_host_alloc(NULL, MG_PLACE_DEVICE, bytes, &memory, err);
    if (code != MG_OK)
        return code;
    free(cpu->scratch);
    cpu->scratch = memory;
    cpu->scratch_bytes = bytes;
    return MG_OK;
}

static enum mg_code cpu_prepare(struct mg_prepared *p, struct mg_error *err)
{
    struct cpu_op *op = MG_NEW(&p->arena, struct cpu_op);
    p->detail = op;
    cpu_prepare_fn *prepare = kernel_named(kernel_names[p->op.type]);
    if (!dtypes_known(p))
        return mg_prepared_refuse(p, err, "a dtype of its operands or results has no kernels");
    enum mg_code code = (prepare ? prepare : mg_cpu_by_reference)(p, op, err);
    if (code != MG_OK)
        return code;
    place_operands(p, op);
    return grow_scratch(p->engine->detail, p->workspace, err);
}

static void cpu_release(struct mg_prepared *p)
{
    struct cpu_op *op = p->detail;
    if (op)
        mg_onednn_release(op->dnn);
}

/* ---- running ---- */

static void move_operand(const struct mg_shape *shape, enum mg_dtype dtype, const struct mg_strides *strides,
                         void *given, void *dense, bool in)
{
    int64_t stride[MG_MAX_RANK];
    mg_shape_strides(shape, stride);
    struct cpu_side outside = {given, dtype, strides->at}, inside = {dense, mg_cpu_native(dtype), stride};
    mg_cpu_move(shape, in ? &inside : &outside, in ? &outside : &inside);
}

static enum mg_code run_dense(struct mg_prepared *p, const struct cpu_op *op, struct cpu_call *call,
                              const void *const *in, void *const *out)
{
    enum { MOST = 64 };
    const void *dense_in[MOST];
    void *dense_out[MOST];
    if (p->op.in_count > MOST || p->op.out_count > MOST)
        return mg_prepared_refuse(p, call->err, "it has too many operands");
    for (uint32_t i = 0; i < p->op.in_count; i++) {
        union {
            const void *from;
            void *to;
        } cast = {.from = in[i]};
        dense_in[i] = op->pack_in[i] == MG_NO_PACK ? in[i] : call->scratch + op->pack_in[i];
        if (dense_in[i] != in[i])
            move_operand(&p->op.in_shape[i], p->op.in_dtype[i], &p->in[i], cast.to, call->scratch + op->pack_in[i],
                         true);
    }
    for (uint32_t i = 0; i < p->op.out_count; i++)
        dense_out[i] = op->pack_out[i] == MG_NO_PACK ? out[i] : call->scratch + op->pack_out[i];
    call->in = dense_in;
    call->out = dense_out;
    enum mg_code code = op->run(call);
    for (uint32_t i = 0; i < p->op.out_count && code == MG_OK; i++)
        if (dense_out[i] != out[i])
            move_operand(&p->op.out_shape[i], p->op.out_dtype[i], &p->out[i], out[i], dense_out[i], false);
    return code;
}

static bool all_empty(const struct mg_op_desc *op)
{
    for (uint32_t i = 0; i < op->out_count; i++)
        if (mg_cpu_count(&op->out_shape[i]))
            return false;
    return true;
}

/* Numbers too small to be normal make processors dozens of times slower. Devices and frameworks flush them to zero; so
 * do we while an operator runs, or the time of a plan would depend on the numbers in it. */
static unsigned flush_denormals(void)
{
#if defined(__SSE2__)
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040);
    return before;
#else
    return 0;
#endif
}

static void restore_denormals(unsigned before)
{
#if defined(__SSE2__)
    __builtin_ia32_ldmxcsr(before);
#else
    (void)before;
#endif
}

static enum mg_code cpu_run(struct mg_prepared *p, const void *const *in, void *const *out,
                            const struct mg_exec_origin *origin, struct mg_error *err)
{
    static const struct mg_exec_origin nowhere;
    const struct cpu_op *op = p->detail;
    struct cpu *cpu = p->engine->detail;
    struct cpu_call call = {.p = p, .in = in, .out = out, .scratch = cpu->scratch, .err = err};
    call.origin = origin ? origin : &nowhere;
    if (all_empty(&p->op))
        return MG_OK;
    unsigned denormals = flush_denormals();
    enum mg_code code = op->strided ? op->run(&call) : run_dense(p, op, &call, in, out);
    restore_denormals(denormals);
    return code;
}

static double cpu_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* With what the cache of files would give up: without it, little is free wherever a machine has run for long. */
static uint64_t cpu_free_memory(struct mg_engine *engine)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    uint64_t kibibytes = 0;
    (void)engine;
    while (file && kibibytes == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kibibytes = strtoull(line + 13, NULL, 10);
    if (file)
        fclose(file);
    return kibibytes << 10;
}

/* Device memory is touched: the first touch takes longer than most operators. What the machine has no memory for would
 * end the process there. */
static enum mg_code cpu_alloc(struct mg_engine *engine, enum mg_place place, uint64_t bytes, void **out,
                              struct mg_error *err)
{
    uint64_t left = place == MG_PLACE_DEVICE ? cpu_free_memory(engine) : 0;
    if (left && bytes > left)
        return mg_fail(err, MG_ERR_NOMEM, "", "%llu bytes are more than the %llu that the machine has left",
                       (unsigned long long)bytes, (unsigned long long)left);
    enum mg_code code = mg_host_alloc(engine, place, bytes, out, err);
    if (!code && place == MG_PLACE_DEVICE)
        memset(*out, 0, bytes);
    return code;
}

const struct mg_backend mg_backend_cpu = {
    .name = "cpu",
    .now = cpu_now,
    .open = cpu_open,
    .close = cpu_close,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .run = cpu_run,
    .alloc = cpu_alloc,
    .free = mg_host_free,
    .copy = mg_host_copy,
    .free_memory = cpu_free_memory,
};
