/* What an operator costs on a device. Seconds, bytes, bytes per second. */
#ifndef MG_DEVICE_DEVICE_H
#define MG_DEVICE_DEVICE_H

#include "base/json.h"
#include "graph/graph.h"

struct mg_device {
    char name[64];
    int64_t sm_count;
    double peak_flops_f32, peak_flops_tf32, peak_flops_bf16, peak_flops_f16, peak_flops_f64, peak_flops_f8;
    double mem_bw, mem_eff;
    double launch_s;
    double link_bw_d2h, link_bw_h2d, link_latency_s;
    uint64_t memory_bytes;
    uint64_t align;         /* storages are rounded up to this; a power of two */
    uint64_t reserve_bytes; /* context and libraries */
    int copy_streams;       /* 2: separate D and H; 1: D = H; 0: D = H = C */
    char gpu_names[8][64];
    uint32_t gpu_name_count;
};

/* Built-in profiles: rtx3090, a100-80gb, h200. NULL after the last / if unknown. */
const struct mg_device *mg_device_builtin(const char *name);
const struct mg_device *mg_device_at(uint32_t index);
enum mg_code mg_device_read(const char *json, size_t size, struct mg_device *out, struct mg_error *err) MG_WARN_UNUSED;
void mg_device_write(struct mg_writer *w, const struct mg_device *device); /* canonical: sorted keys */

/* Seconds for one run of the operator on the compute stream; 0 for views. The formula stands in model.c;
 * no libm but ceil; bit-equal everywhere. */
double mg_device_latency(const struct mg_device *device, const struct mg_op_desc *op);
/* Explicit copies inside a plan (slice, join: one operand, one result of `bytes` each;
 * acc: two operands and one result), priced as elementwise over `elements`. */
double mg_device_copy_latency(const struct mg_device *device, uint64_t elements, uint64_t bytes);
double mg_device_acc_latency(const struct mg_device *device, uint64_t elements, uint64_t bytes);
double mg_device_store_latency(const struct mg_device *device, uint64_t bytes); /* device to host */
double mg_device_load_latency(const struct mg_device *device, uint64_t bytes);  /* host to device */

static inline uint64_t mg_device_storage(const struct mg_device *device, uint64_t bytes)
{
    return (bytes + device->align - 1) & ~(device->align - 1);
}

#endif
