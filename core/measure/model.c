/* The back end without hardware: a run does nothing, and takes as long as the device model says. */
#include <string.h>

#include "measure/measure_priv.h"

static enum mg_code model_open(struct mg_engine *engine, const char *rest, struct mg_error *err)
{
    const struct mg_device *device = mg_device_builtin(*rest ? rest : "rtx3090");
    if (!device)
        return mg_fail(err, MG_ERR_INVALID, "/device", "no device profile is called \"%.60s\"", rest);
    struct mg_engine_properties *p = &engine->properties;
    memcpy(p->backend, "model", sizeof "model");
    memcpy(p->backend_version, "1", sizeof "1");
    memcpy(p->device, device->name, sizeof p->device);
    p->units = (uint32_t)device->sm_count;
    p->memory_bytes = device->memory_bytes;
    p->copy_streams = (uint32_t)device->copy_streams;
    union {
        const struct mg_device *from;
        void *to;
    } cast = {.from = device};
    engine->detail = cast.to;
    return MG_OK;
}

static enum mg_code model_prepare(struct mg_prepared *prepared, struct mg_error *err)
{
    (void)prepared;
    (void)err;
    return MG_OK;
}

static enum mg_code model_run(struct mg_prepared *prepared, const void *const *in, void *const *out,
                              const struct mg_exec_origin *origin, struct mg_error *err)
{
    (void)in;
    (void)out;
    (void)origin;
    return mg_prepared_refuse(prepared, err, "the model has no numbers, only times");
}

static enum mg_code model_time(struct mg_prepared *prepared, const void *const *in, void *const *out, double *seconds,
                               struct mg_error *err)
{
    (void)in;
    (void)out;
    (void)err;
    *seconds = mg_device_latency(prepared->engine->detail, &prepared->op);
    return MG_OK;
}

static double model_copy_seconds(const struct mg_engine *engine, enum mg_stream stream, uint64_t bytes)
{
    return stream == MG_STREAM_STORE ? mg_device_store_latency(engine->detail, bytes)
                                     : mg_device_load_latency(engine->detail, bytes);
}

const struct mg_backend mg_backend_model = {
    .name = "model",
    .only_times = true,
    .open = model_open,
    .prepare = model_prepare,
    .run = model_run,
    .time_run = model_time,
    .alloc = mg_host_alloc,
    .free = mg_host_free,
    .copy = mg_host_copy,
    .copy_seconds = model_copy_seconds,
};
