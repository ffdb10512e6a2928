#include "measure/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/signature.h"

/* ---- the class ---- */

static void text(struct mg_writer *w, const char *key, const char *value)
{
    if (*value)
        mg_write_member_string(w, key, value);
}

static void number(struct mg_writer *w, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    if (value)
        mg_write_member_string(w, key, digits);
}

void mg_engine_write_class(struct mg_writer *w, const struct mg_engine *engine, const struct mg_time_policy *policy)
{
    const struct mg_engine_properties *p = mg_engine_properties(engine);
    char measuring[64], device[96];
    snprintf(device, sizeof device, "%s%s", strcmp(p->backend, "model") ? "" : "model:", p->device);
    snprintf(measuring, sizeof measuring, "%u+%u %s", policy->warm_up, policy->repeats,
             policy->apart ? "cold" : "warm");
    mg_write_begin_object(w);
    text(w, "backend", p->backend);
    text(w, "backend_version", p->backend_version);
    text(w, "blas", p->blas);
    number(w, "cache_bytes", p->cache_bytes);
    text(w, "compute", p->compute);
    text(w, "device", device);
    text(w, "dnn", p->dnn);
    text(w, "driver", p->driver);
    text(w, "host_memory", p->pinned ? "pinned" : "pageable");
    text(w, "link", p->link);
    number(w, "memory_bytes", p->memory_bytes);
    text(w, "pages", p->pages);
    text(w, "partition", p->partition);
    text(w, "policy", measuring);
    text(w, "runtime", p->runtime);
    number(w, "units", p->units);
    mg_write_end_object(w);
}

/* ---- operators by their text ---- */

/* Enough for the operators of this file. */
struct simple {
    struct mg_shape shape[3];
    enum mg_dtype dtype[3];
    struct mg_attr attrs[3];
    struct mg_op_desc op;
};

static void make_simple(struct simple *s, enum mg_op_type type, enum mg_dtype dtype, const struct mg_shape *shape)
{
    uint32_t count = type == MG_OP_COPY ? 1 : 2;
    for (uint32_t i = 0; i < 3; i++) {
        s->shape[i] = *shape;
        s->dtype[i] = dtype;
    }
    s->op = (struct mg_op_desc){.type = type,
                                .in_count = count,
                                .out_count = 1,
                                .in_shape = s->shape,
                                .out_shape = s->shape + 2,
                                .in_dtype = s->dtype,
                                .out_dtype = s->dtype + 2};
}

static void make_product(struct simple *s, enum mg_dtype dtype, enum mg_math math, int64_t size)
{
    make_simple(s, MG_OP_MATMUL, dtype, &(struct mg_shape){2, {size, size}});
    s->op.math = math;
    s->attrs[0] = (struct mg_attr){.key = MG_ATTR_TRANS_A, .type = MG_ATTR_TYPE_INT};
    s->attrs[1] = (struct mg_attr){.key = MG_ATTR_TRANS_B, .type = MG_ATTR_TYPE_INT};
    s->attrs[2] = (struct mg_attr){.key = MG_ATTR_ALPHA, .type = MG_ATTR_TYPE_FLOAT, .f = 1};
    s->op.attrs = s->attrs;
    s->op.attr_count = 3;
}

struct reading {
    struct mg_arena arena;
    const char *name, *signature;
    struct mg_op_desc op;
};

static enum mg_code read_signature(void *context, struct mg_error *err)
{
    struct reading *r = context;
    return mg_signature_read(r->name, r->signature, &r->arena, &r->op, err);
}

/* A plan's copies have the signature "f32[2,3]" alone: read as what makes or adds such a value. */
static bool is_copy(const char *name)
{
    return strcmp(name, "slice") == 0 || strcmp(name, "join") == 0 || strcmp(name, "acc") == 0;
}

enum mg_code mg_engine_time_signature(struct mg_engine *engine, const char *name, const char *signature,
                                      const struct mg_time_policy *policy, struct mg_timing *out, struct mg_error *err)
{
    struct reading r = {.name = name, .signature = signature};
    bool copy = is_copy(name) && strchr(signature, '>') == NULL, sum = copy && strcmp(name, "acc") == 0;
    char whole[256];
    if (copy) {
        int size = snprintf(whole, sizeof whole, sum ? "f32;%s,%s->%s" : "f32;%s->%s", signature, signature, signature);
        if (size < 0 || (size_t)size >= sizeof whole)
            return mg_fail(err, MG_ERR_INVALID, "/signature", "a signature that is too long");
        r.name = sum ? "add" : "copy";
        r.signature = whole;
    }
    mg_arena_init(&r.arena, SIZE_MAX);
    enum mg_code code = mg_arena_guard(&r.arena, read_signature, &r, err);
    if (code == MG_OK)
        code = mg_engine_time_op(engine, &r.op, NULL, NULL, policy, out, err);
    mg_arena_release(&r.arena);
    return code;
}

enum mg_code mg_engine_canary(struct mg_engine *engine, double *seconds, struct mg_error *err)
{
    static const struct mg_time_policy policy = {.warm_up = 2, .repeats = 7};
    struct simple s;
    struct mg_timing timing;
    make_product(&s, MG_DTYPE_F32, MG_MATH_F32, 384);
    enum mg_code code = mg_engine_time_op(engine, &s.op, NULL, NULL, &policy, &timing, err);
    *seconds = timing.median_s;
    return code;
}

/* ---- the profile ---- */

static const struct mg_time_policy calm = {.warm_up = 2, .repeats = 9, .seconds = 3};
/* The share of the bandwidth that the model grants. */
static const double bandwidth_share = 0.85;

struct fit {
    struct mg_engine *engine;
    bool (*must_stop)(void *context);
    void *context;
};

/* Asked before each operator and each copy. */
static enum mg_code go_on(const struct fit *f, struct mg_error *err)
{
    return f->must_stop && f->must_stop(f->context) ? mg_fail(err, MG_ERR_CANCELLED, "", "stopped") : MG_OK;
}

static enum mg_code time_calmly(const struct fit *f, const struct mg_op_desc *op, struct mg_timing *timing,
                                struct mg_error *err)
{
    enum mg_code code = go_on(f, err);
    *timing = (struct mg_timing){0};
    return code ? code : mg_engine_time_op(f->engine, op, NULL, NULL, &calm, timing, err);
}

static enum mg_code time_sum(const struct fit *f, int64_t elements, double *out, struct mg_error *err)
{
    struct simple s;
    struct mg_timing timing;
    make_simple(&s, MG_OP_ADD, MG_DTYPE_F32, &(struct mg_shape){1, {elements}});
    enum mg_code code = time_calmly(f, &s.op, &timing, err);
    *out = timing.median_s;
    return code;
}

/* Seconds of one copy, waited for. */
static enum mg_code run_copy(struct mg_engine *engine, enum mg_stream stream, void *host, void *device, uint64_t bytes,
                             double *seconds, struct mg_error *err)
{
    bool store = stream == MG_STREAM_STORE;
    double begin = mg_engine_clock(engine);
    enum mg_code code = mg_engine_copy(engine, stream, store ? host : device, store ? device : host, bytes, err);
    if (code == MG_OK)
        code = mg_engine_wait(engine, err);
    *seconds = mg_engine_clock(engine) - begin;
    return code;
}

static enum mg_code time_copy(const struct fit *f, enum mg_stream stream, uint64_t bytes, double *out,
                              struct mg_error *err)
{
    enum { WARM_UP = 2, REPEATS = 9 };
    struct mg_engine *engine = f->engine;
    double samples[REPEATS], ignored;
    struct mg_timing timing = {0};
    void *host = NULL, *device = NULL;
    if (mg_engine_knows_copy(engine, stream, bytes, out))
        return MG_OK;
    enum mg_code code = mg_engine_alloc(engine, MG_PLACE_HOST, bytes, &host, err);
    if (code == MG_OK)
        code = mg_engine_alloc(engine, MG_PLACE_DEVICE, bytes, &device, err);
    if (code == MG_OK)
        memset(host, 0, bytes);
    for (int i = 0; i < WARM_UP + REPEATS && code == MG_OK; i++) {
        code = go_on(f, err);
        code = code
                   ? code
                   : run_copy(engine, stream, host, device, bytes, i < WARM_UP ? &ignored : &samples[i - WARM_UP], err);
    }
    mg_engine_free(engine, MG_PLACE_DEVICE, device);
    mg_engine_free(engine, MG_PLACE_HOST, host);
    if (code == MG_OK)
        mg_timing_of(samples, REPEATS, &timing);
    *out = timing.median_s;
    return code;
}

/* Latency and bandwidth through two points. */
static enum mg_code fit_link(const struct fit *f, enum mg_stream stream, double *latency, double *bandwidth,
                             struct mg_error *err)
{
    const uint64_t small = 4096, large = 64 << 20;
    double a, b;
    enum mg_code code = time_copy(f, stream, small, &a, err);
    if (code == MG_OK)
        code = time_copy(f, stream, large, &b, err);
    if (code != MG_OK)
        return code;
    *bandwidth = (double)(large - small) / fmax(b - a, 1e-9);
    *latency = fmax(a - (double)small / *bandwidth, 0);
    return MG_OK;
}

static void describe(const struct mg_engine *engine, struct mg_device *out)
{
    const struct mg_engine_properties *p = mg_engine_properties(engine);
    bool cpu = strcmp(p->backend, "cpu") == 0;
    *out = (struct mg_device){.sm_count = p->units ? p->units : 1, .mem_eff = bandwidth_share};
    snprintf(out->name, sizeof out->name, "%s", cpu ? "cpu" : p->device);
    snprintf(out->gpu_names[0], sizeof out->gpu_names[0], "%s", p->device);
    out->gpu_name_count = 1;
    out->memory_bytes = p->memory_bytes;
    out->align = cpu ? 64 : 512;
    out->copy_streams = (int)p->copy_streams;
    out->reserve_bytes = cpu ? 0 : 805306368;
}

/* Launch and bandwidth through a tiny sum and a large one, whose weights are what the model makes of one byte a second.
 */
static enum mg_code fit_memory(const struct fit *f, struct mg_device *out, struct mg_error *err)
{
    const int64_t tiny = 1, large = 32 << 20;
    struct mg_device unit = *out;
    double a, b;
    unit.mem_bw = 1;
    enum mg_code code = time_sum(f, tiny, &a, err);
    if (code == MG_OK)
        code = time_sum(f, large, &b, err);
    if (code != MG_OK)
        return code;
    out->launch_s = a;
    out->mem_bw = mg_device_acc_latency(&unit, (uint64_t)large, 4 * (uint64_t)large) / fmax(b - a, 1e-9);
    return MG_OK;
}

/* The peak by which the model gives a large product the time that it takes: where computing is what takes it, time goes
 * with its inverse, and a second step mends what else there is. 0 where there is no such product. */
static enum mg_code fit_peak(const struct fit *f, const struct mg_device *device, enum mg_dtype dtype,
                             enum mg_math math, double *out, struct mg_error *err)
{
    struct simple s;
    struct mg_timing timing;
    struct mg_device guess = *device;
    double size = device->sm_count > 8 ? 8192 : 1024, peak;
    make_product(&s, dtype, math, (int64_t)size);
    enum mg_code code = time_calmly(f, &s.op, &timing, err);
    *out = 0;
    if (code != MG_OK || timing.median_s <= 0)
        return code == MG_ERR_UNSUPPORTED ? MG_OK : code;
    double seconds = fmax(timing.median_s - device->launch_s, timing.median_s / 2);
    peak = 2 * size * size * size / seconds;
    for (int step = 0; step < 2; step++) {
        guess.peak_flops_f32 = guess.peak_flops_tf32 = guess.peak_flops_bf16 = guess.peak_flops_f16 = peak;
        peak *= (mg_device_latency(&guess, &s.op) - device->launch_s) / seconds;
    }
    *out = peak;
    return MG_OK;
}

/* A peak that is not there stays out of the profile. The processor computes f32 in one way. */
static enum mg_code fit_peaks(const struct fit *f, struct mg_device *out, struct mg_error *err)
{
    bool cpu = strcmp(mg_engine_properties(f->engine)->backend, "cpu") == 0;
    enum mg_code code = fit_peak(f, out, MG_DTYPE_F32, MG_MATH_F32, &out->peak_flops_f32, err);
    if (code == MG_OK && !cpu)
        code = fit_peak(f, out, MG_DTYPE_F32, MG_MATH_TF32, &out->peak_flops_tf32, err);
    if (code == MG_OK)
        code = fit_peak(f, out, MG_DTYPE_BF16, MG_MATH_F32, &out->peak_flops_bf16, err);
    if (code == MG_OK)
        code = fit_peak(f, out, MG_DTYPE_F16, MG_MATH_F32, &out->peak_flops_f16, err);
    return code;
}

enum mg_code mg_engine_calibrate(struct mg_engine *engine, bool (*must_stop)(void *context), void *context,
                                 struct mg_device *out, struct mg_error *err)
{
    const struct fit fit = {engine, must_stop, context};
    double back = 0;
    describe(engine, out);
    enum mg_code code = fit_memory(&fit, out, err);
    if (code == MG_OK)
        code = fit_peaks(&fit, out, err);
    if (code == MG_OK)
        code = fit_link(&fit, MG_STREAM_STORE, &back, &out->link_bw_d2h, err);
    if (code == MG_OK)
        code = fit_link(&fit, MG_STREAM_LOAD, &out->link_latency_s, &out->link_bw_h2d, err);
    out->link_latency_s = fmax(out->link_latency_s, back);
    return code;
}
