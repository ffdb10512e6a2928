/* The timing cache of a directory, for a search on the command line; a daemon may be at work on it. */
#ifndef MG_SERVER_LOCAL_TIMINGS_H
#define MG_SERVER_LOCAL_TIMINGS_H

#include "device/device.h"
#include "device/timings.h"
#include "server/file.h"

struct mg_local_timings {
    struct mg_file snapshot; /* without data: nothing was measured on such a device */
    struct mg_timings timings;
};
/* Of the classes that the device's gpu_names name, by "class:ID" or else by the device's name or the profile's own, the
 * one in which most was measured; that nothing was is said. False after saying why the directory cannot be read.
 * Release in either case. */
bool mg_local_timings_open(struct mg_local_timings *local, const char *dir, const struct mg_device *device);
/* The name of the class's device (size bytes). False after saying why it cannot be told. */
bool mg_local_timings_class(const char *dir, const char *class_id, char *model, size_t size);
void mg_local_timings_release(struct mg_local_timings *local);

#endif
