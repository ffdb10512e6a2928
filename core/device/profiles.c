/* The built-in device profiles, one line each in profiles.def. */
#include "device/device.h"

#include <string.h>

static const struct mg_device builtin[] = {
#define MG_PROFILE(name_, sm, f32, tf32, bf16, f16, bw, launch, link, latency, memory, ...)                            \
    {.name = name_,                                                                                                    \
     .sm_count = sm,                                                                                                   \
     .peak_flops_f32 = f32,                                                                                            \
     .peak_flops_tf32 = tf32,                                                                                          \
     .peak_flops_bf16 = bf16,                                                                                          \
     .peak_flops_f16 = f16,                                                                                            \
     .mem_bw = bw,                                                                                                     \
     .mem_eff = 0.85,                                                                                                  \
     .launch_s = launch,                                                                                               \
     .link_bw_d2h = link,                                                                                              \
     .link_bw_h2d = link,                                                                                              \
     .link_latency_s = latency,                                                                                        \
     .memory_bytes = memory,                                                                                           \
     .align = 512,                                                                                                     \
     .reserve_bytes = 805306368,                                                                                       \
     .copy_streams = 2,                                                                                                \
     .gpu_names = {__VA_ARGS__},                                                                                       \
     .gpu_name_count = sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)},
#include "device/profiles.def"
#undef MG_PROFILE
};

const struct mg_device *mg_device_at(uint32_t index)
{
    return index < sizeof builtin / sizeof builtin[0] ? &builtin[index] : NULL;
}

const struct mg_device *mg_device_builtin(const char *name)
{
    for (uint32_t i = 0; i < sizeof builtin / sizeof builtin[0]; i++)
        if (strcmp(builtin[i].name, name) == 0)
            return &builtin[i];
    return NULL;
}
