/* The analytic device model.
 *
 * A contraction is an implicit GEMM: B batches of M x N outputs with depth K, priced as the best of
 * three tile sizes and five ways to split K, against the time to move its operands once. Everything
 * else moves bytes, at a bandwidth that falls with the number of threads it can occupy. Products of
 * dimensions are taken in float64: they are exact below 2^53, far above what fits any device. */
#include "device/floor.h"

#include <math.h>
#include <string.h>

static double elements(const struct mg_shape *shape)
{
    double result = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        result *= (double)shape->dim[i];
    return result;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- contractions ---- */

static double peak_of(const struct mg_device *device, enum mg_dtype dtype, enum mg_math math)
{
    double f32 = device->peak_flops_f32;
    double bf16 = device->peak_flops_bf16 > 0 ? device->peak_flops_bf16 : f32;
    switch (dtype) {
    case MG_DTYPE_F64:
        return device->peak_flops_f64 > 0 ? device->peak_flops_f64 : f32 / 32;
    case MG_DTYPE_F32:
        return math == MG_MATH_TF32 && device->peak_flops_tf32 > 0 ? device->peak_flops_tf32 : f32;
    case MG_DTYPE_F16:
        return device->peak_flops_f16 > 0 ? device->peak_flops_f16 : f32;
    case MG_DTYPE_BF16:
        return bf16;
    case MG_DTYPE_F8E4M3:
    case MG_DTYPE_F8E5M2:
        return device->peak_flops_f8 > 0 ? device->peak_flops_f8 : 2 * bf16;
    default:
        return f32;
    }
}

static double gemm_seconds(const struct mg_device *device, const struct mg_gemm *gemm, double peak)
{
    static const struct {
        double size, efficiency;
    } tiles[] = {{128, 0.90}, {64, 0.70}, {32, 0.45}};
    double sms = (double)device->sm_count;
    double b = (double)gemm->b, m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
    double best = INFINITY;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        double t = tiles[i].size;
        double blocks = b * ceil(m / t) * ceil(n / t);
        for (double s = 1; s <= 16 && (s <= k || s < 2); s *= 2) {
            double waves = ceil(blocks * s / sms);
            double seconds = waves * 2 * t * t * ceil(k / s) * sms / (peak * tiles[i].efficiency);
            if (s > 1)
                seconds += 2 * s * b * m * n * 4 / device->mem_bw;
            best = smaller(best, seconds);
        }
    }
    return best;
}

/* The hidden state's product of a recurrent layer waits for the step before: it is paid step by step. */
static double recurrent_seconds(const struct mg_device *device, const struct mg_op_desc *op, struct mg_gemm *gemm,
                                double peak)
{
    int64_t steps = op->in_shape[0].dim[0];
    if (steps > 0)
        gemm[1].m /= steps;
    return gemm_seconds(device, &gemm[0], peak) + (double)steps * gemm_seconds(device, &gemm[1], peak);
}

static double compute_seconds(const struct mg_device *device, const struct mg_op_desc *op)
{
    struct mg_gemm gemm[MG_MAX_GEMMS];
    double peak = peak_of(device, op->in_dtype[0], op->math), seconds = 0;
    uint32_t count = mg_op_gemms(op, gemm);
    if (op->type == MG_OP_LSTM || op->type == MG_OP_GRU || op->type == MG_OP_RNN)
        return recurrent_seconds(device, op, gemm, peak);
    for (uint32_t i = 0; i < count; i++)
        seconds += gemm_seconds(device, &gemm[i], peak);
    return seconds;
}

/* ---- memory ---- */

struct traffic {
    double bytes;
    double largest; /* elements of the largest single operand or result */
};

static void add_traffic(struct traffic *traffic, double count, enum mg_dtype dtype)
{
    traffic->bytes += count * mg_dtype_size(dtype);
    traffic->largest = larger(traffic->largest, count);
}

/* Of a gather's table and of a scatter's result only the rows that the other side has are touched. */
static struct traffic traffic_of(const struct mg_op_desc *op)
{
    struct traffic traffic = {0, 0};
    bool rows = mg_op_cost(op->type) == MG_COST_ROWS;
    for (uint32_t i = 0; i < op->in_count; i++) {
        double count = elements(&op->in_shape[i]);
        if (rows && i == 0)
            count = smaller(count, elements(&op->out_shape[0]));
        add_traffic(&traffic, count, op->in_dtype[i]);
    }
    for (uint32_t i = 0; i < op->out_count; i++) {
        double count = elements(&op->out_shape[i]);
        if (rows)
            count = smaller(count, elements(&op->in_shape[0]));
        add_traffic(&traffic, count, op->out_dtype[i]);
    }
    return traffic;
}

static double elementwise_seconds(const struct mg_device *device, const struct traffic *traffic)
{
    double occupancy = smaller(1, traffic->largest / ((double)device->sm_count * 2048));
    return device->launch_s + traffic->bytes / (device->mem_bw * device->mem_eff * larger(occupancy, 1.0 / 64));
}

/* ---- opaque operators say themselves what they cost ---- */

struct lookup {
    struct mg_arena *arena;
    const char *text, *device;
    double seconds; /* -1 where the device is not listed */
};

static enum mg_code look_up_latency(void *context, struct mg_error *err)
{
    struct lookup *lookup = context;
    struct mg_json json;
    const char *key;
    double seconds;
    mg_json_init(&json, lookup->arena, lookup->text, strlen(lookup->text));
    if (mg_json_enter_object(&json))
        while (mg_json_next_member(&json, &key) && mg_json_double(&json, &seconds))
            if (strcmp(key, lookup->device) == 0)
                lookup->seconds = seconds;
    return json.err.code ? mg_fail(err, json.err.code, json.err.pointer, "%s", json.err.message) : MG_OK;
}

/* The latency declared for this device, or -1. */
static double declared_latency(const struct mg_device *device, const struct mg_op_desc *op)
{
    const struct mg_attr *latency = mg_attr_find(op->attrs, op->attr_count, MG_ATTR_LATENCY);
    if (latency == NULL || latency->string == NULL || latency->string[0] == 0)
        return -1;
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    struct lookup lookup = {&arena, latency->string, device->name, -1};
    enum mg_code code = mg_arena_guard(&arena, look_up_latency, &lookup, NULL);
    mg_arena_release(&arena);
    return code == MG_OK ? lookup.seconds : -1;
}

static double opaque_seconds(const struct mg_device *device, const struct mg_op_desc *op)
{
    double declared = declared_latency(device, op);
    if (declared >= 0)
        return declared;
    const struct mg_attr *flops = mg_attr_find(op->attrs, op->attr_count, MG_ATTR_FLOPS);
    const struct mg_attr *bytes = mg_attr_find(op->attrs, op->attr_count, MG_ATTR_BYTES);
    enum mg_dtype dtype = op->in_count > 0 ? op->in_dtype[0] : MG_DTYPE_F32;
    struct traffic traffic = traffic_of(op);
    if (bytes && bytes->f > 0)
        traffic.bytes = bytes->f;
    double memory = elementwise_seconds(device, &traffic);
    double compute = flops ? device->launch_s + flops->f / peak_of(device, dtype, op->math) : 0;
    return larger(compute, memory);
}

/* ---- the prices ---- */

double mg_device_latency(const struct mg_device *device, const struct mg_op_desc *op)
{
    if (op->type == MG_OP_OPAQUE)
        return opaque_seconds(device, op);
    if (mg_op_cost(op->type) == MG_COST_VIEW)
        return 0;
    struct traffic traffic = traffic_of(op);
    if (mg_op_cost(op->type) != MG_COST_CONTRACTION)
        return elementwise_seconds(device, &traffic);
    double memory = traffic.bytes / (device->mem_bw * device->mem_eff);
    return device->launch_s + larger(compute_seconds(device, op), memory);
}

/* Four times the last level cache of the largest of these devices (50 MB). */
static const double CACHED_BYTES = 200e6;

double mg_device_floor(const struct mg_device *device, const struct mg_op_desc *op)
{
    struct mg_gemm gemm[MG_MAX_GEMMS];
    uint32_t count = op->in_count ? mg_op_gemms(op, gemm) : 0;
    double flops = 0, bytes = traffic_of(op).bytes;
    for (uint32_t i = 0; i < count; i++)
        flops += 2 * (double)gemm[i].b * (double)gemm[i].m * (double)gemm[i].n * (double)gemm[i].k;
    double compute = count ? flops / peak_of(device, op->in_dtype[0], op->math) : 0;
    return larger(compute, bytes > CACHED_BYTES ? bytes / device->mem_bw : 0);
}

double mg_device_copy_latency(const struct mg_device *device, uint64_t elements_moved, uint64_t bytes)
{
    struct traffic traffic = {2 * (double)bytes, (double)elements_moved};
    return elementwise_seconds(device, &traffic);
}

double mg_device_acc_latency(const struct mg_device *device, uint64_t elements_moved, uint64_t bytes)
{
    struct traffic traffic = {3 * (double)bytes, (double)elements_moved};
    return elementwise_seconds(device, &traffic);
}

double mg_device_store_latency(const struct mg_device *device, uint64_t bytes)
{
    return device->link_latency_s + (double)bytes / device->link_bw_d2h;
}

double mg_device_load_latency(const struct mg_device *device, uint64_t bytes)
{
    return device->link_latency_s + (double)bytes / device->link_bw_h2d;
}
