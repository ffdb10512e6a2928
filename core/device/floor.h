/* A bound from below: no run of the operator on such a device can be faster. */
#ifndef MG_DEVICE_FLOOR_H
#define MG_DEVICE_FLOOR_H

#include "device/device.h"

/* Seconds: flops at the peak rate; and where the bytes exceed what caches hold, bytes at the full bandwidth. */
double mg_device_floor(const struct mg_device *device, const struct mg_op_desc *op);

#endif
