/* The analytic device model (device-model.md).
 *
 * A contraction is an implicit GEMM: B batches of M x N outputs with depth K, priced as the best of
 * three tile sizes and five ways to split K, against the time to move its operands once. Everything
 * else moves bytes, at a bandwidth that falls with the number of threads it can occupy. Products of
 * dimensions are taken in float64: they are exact below 2^53, far above what fits any device. */
#include "device/device.h"

#include <math.h>
#include <string.h>

struct gemm {
    double batch, m, n, k;
};

static const enum mg_cost_class cost_class[] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, cost, ...) MG_COST_##cost,
#include "graph/ops.def"
#undef MG_OP
};

/* ---- attributes and shapes ---- */

static const struct mg_attr *find_attr(const struct mg_op_desc *op, enum mg_attr_key key)
{
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].key == key)
            return &op->attrs[i];
    return NULL;
}

static int64_t attr_int(const struct mg_op_desc *op, enum mg_attr_key key, int64_t fallback)
{
    const struct mg_attr *attr = find_attr(op, key);
    return attr ? attr->i : fallback;
}

static double product(const int64_t *dim, uint32_t count)
{
    double result = 1;
    for (uint32_t i = 0; i < count; i++)
        result *= (double)dim[i];
    return result;
}

static double elements(const struct mg_shape *shape)
{
    return product(shape->dim, shape->rank);
}

/* Sizes of the spatial dimensions, those from 2 on. */
static double spatial(const struct mg_shape *shape)
{
    return product(shape->dim + 2, shape->rank - 2);
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

static double gemm_seconds(const struct mg_device *device, const struct gemm *gemm, double peak)
{
    static const struct {
        double size, efficiency;
    } tiles[] = {{128, 0.90}, {64, 0.70}, {32, 0.45}};
    double sms = (double)device->sm_count;
    double best = INFINITY;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        double t = tiles[i].size;
        double blocks = gemm->batch * ceil(gemm->m / t) * ceil(gemm->n / t);
        for (double s = 1; s <= 16 && (s <= gemm->k || s < 2); s *= 2) {
            double waves = ceil(blocks * s / sms);
            double seconds = waves * 2 * t * t * ceil(gemm->k / s) * sms / (peak * tiles[i].efficiency);
            if (s > 1)
                seconds += 2 * s * gemm->batch * gemm->m * gemm->n * 4 / device->mem_bw;
            best = smaller(best, seconds);
        }
    }
    return best;
}

/* A batch dimension of one operand alone is a free axis: it counts in M or N. */
static struct gemm gemm_of_matmul(const struct mg_op_desc *op)
{
    const struct mg_shape *a = &op->in_shape[0], *b = &op->in_shape[1];
    bool trans_a = attr_int(op, MG_ATTR_TRANS_A, 0) != 0, trans_b = attr_int(op, MG_ATTR_TRANS_B, 0) != 0;
    uint32_t batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    struct gemm gemm = {1, 1, 1, 1};
    if (a->rank >= 2) {
        gemm.m = (double)a->dim[batch_a + trans_a];
        gemm.k = (double)a->dim[batch_a + !trans_a];
    } else if (a->rank == 1) {
        gemm.k = (double)a->dim[0];
    }
    if (b->rank >= 2)
        gemm.n = (double)b->dim[batch_b + !trans_b];
    for (uint32_t i = 1; i <= batch_a || i <= batch_b; i++) {
        int64_t da = i <= batch_a ? a->dim[batch_a - i] : 1, db = i <= batch_b ? b->dim[batch_b - i] : 1;
        if (da == db)
            gemm.batch *= (double)da;
        else if (db == 1)
            gemm.m *= (double)da;
        else
            gemm.n *= (double)db;
    }
    return gemm;
}

/* x [n, c, ...] * w [f, c/g, k...] -> y [n, f, ...] */
static struct gemm gemm_of_conv(const struct mg_op_desc *op)
{
    const struct mg_shape *x = &op->in_shape[0], *w = &op->in_shape[1], *y = &op->out_shape[0];
    double groups = (double)attr_int(op, MG_ATTR_GROUP, 1);
    return (struct gemm){groups, (double)x->dim[0] * spatial(y), floor((double)w->dim[0] / groups),
                         product(w->dim + 1, w->rank - 1)};
}

static double stride_product(const struct mg_op_desc *op)
{
    const struct mg_attr *strides = find_attr(op, MG_ATTR_STRIDES);
    return strides ? product(strides->ints, strides->count) : 1;
}

/* dy [n, f, ...] * w [f, c/g, k...] -> dx [n, c, ...]; a transposed convolution is the same. */
static struct gemm gemm_of_conv_grad_input(const struct mg_op_desc *op)
{
    const struct mg_shape *w = &op->in_shape[1], *dx = &op->out_shape[0];
    double groups = (double)attr_int(op, MG_ATTR_GROUP, 1);
    double depth = floor((double)w->dim[0] / groups) * spatial(w);
    return (struct gemm){groups, (double)dx->dim[0] * spatial(dx), (double)w->dim[1],
                         larger(floor(depth / stride_product(op)), 1)};
}

/* dy [n, f, ...], x [n, c, ...] -> dw [f, c/g, k...] */
static struct gemm gemm_of_conv_grad_weight(const struct mg_op_desc *op)
{
    const struct mg_shape *dy = &op->in_shape[0], *dw = &op->out_shape[0];
    double groups = (double)attr_int(op, MG_ATTR_GROUP, 1);
    return (struct gemm){groups, floor((double)dw->dim[0] / groups), product(dw->dim + 1, dw->rank - 1),
                         (double)dy->dim[0] * spatial(dy)};
}

/* Scores and their product with the values; backward both gradients of each, and the scores again. */
static double attention_seconds(const struct mg_device *device, const struct mg_op_desc *op, double peak)
{
    uint32_t first = op->type == MG_OP_ATTENTION_GRAD ? 1 : 0;
    const struct mg_shape *q = &op->in_shape[first], *k = &op->in_shape[first + 1], *v = &op->in_shape[first + 2];
    double batch = product(q->dim, q->rank - 2);
    double s = (double)q->dim[q->rank - 2], d = (double)q->dim[q->rank - 1];
    double t = (double)k->dim[k->rank - 2], e = (double)v->dim[v->rank - 1];
    struct gemm scores = {batch, s, t, d}, values = {batch, s, e, t};
    if (first == 0)
        return gemm_seconds(device, &scores, peak) + gemm_seconds(device, &values, peak);
    struct gemm dp = {batch, s, t, e}, dv = {batch, t, e, s}, dq = {batch, s, d, t}, dk = {batch, t, d, s};
    return gemm_seconds(device, &scores, peak) + gemm_seconds(device, &dp, peak) + gemm_seconds(device, &dv, peak) +
           gemm_seconds(device, &dq, peak) + gemm_seconds(device, &dk, peak);
}

/* One contraction for the inputs of all steps, then one a step for the hidden state. */
static double recurrent_seconds(const struct mg_device *device, const struct mg_op_desc *op, double peak)
{
    const struct mg_shape *x = &op->in_shape[0], *w = &op->in_shape[1], *r = &op->in_shape[2];
    double steps = (double)x->dim[0], samples = (double)x->dim[1], gates = (double)w->dim[1];
    struct gemm input = {1, steps * samples, gates, (double)x->dim[2]};
    struct gemm hidden = {1, samples, gates, (double)r->dim[2]};
    return gemm_seconds(device, &input, peak) + steps * gemm_seconds(device, &hidden, peak);
}

static double compute_seconds(const struct mg_device *device, const struct mg_op_desc *op)
{
    double peak = peak_of(device, op->in_dtype[0], op->math);
    struct gemm gemm;
    switch (op->type) {
    case MG_OP_CONV:
        gemm = gemm_of_conv(op);
        break;
    case MG_OP_CONV_TRANSPOSE:
    case MG_OP_CONV_GRAD_INPUT:
        gemm = gemm_of_conv_grad_input(op);
        break;
    case MG_OP_CONV_GRAD_WEIGHT:
        gemm = gemm_of_conv_grad_weight(op);
        break;
    case MG_OP_ATTENTION:
    case MG_OP_ATTENTION_GRAD:
        return attention_seconds(device, op, peak);
    case MG_OP_LSTM:
    case MG_OP_GRU:
        return recurrent_seconds(device, op, peak);
    default:
        gemm = gemm_of_matmul(op);
    }
    return gemm_seconds(device, &gemm, peak);
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
    bool rows = cost_class[op->type] == MG_COST_ROWS;
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
    const struct mg_attr *latency = find_attr(op, MG_ATTR_LATENCY);
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
    const struct mg_attr *flops = find_attr(op, MG_ATTR_FLOPS), *bytes = find_attr(op, MG_ATTR_BYTES);
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
    if (cost_class[op->type] == MG_COST_VIEW)
        return 0;
    struct traffic traffic = traffic_of(op);
    if (cost_class[op->type] != MG_COST_CONTRACTION)
        return elementwise_seconds(device, &traffic);
    double memory = traffic.bytes / (device->mem_bw * device->mem_eff);
    return device->launch_s + larger(compute_seconds(device, op), memory);
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
