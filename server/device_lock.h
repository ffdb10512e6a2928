/* One process at a time measures on a device: a file named by the device and locked for as long as its descriptor is
 * open. It lies in --lock-dir, else where everybody finds it: in /run/lock where all may write there, or in /tmp. Who
 * made the file does not matter, as long as we may read it. */
#ifndef MG_SERVER_DEVICE_LOCK_H
#define MG_SERVER_DEVICE_LOCK_H

#include <stdbool.h>

#include "measure/measure.h"

enum mg_lock {
    MG_LOCK_OURS,    /* *fd is to be closed */
    MG_LOCK_TAKEN,   /* another process measures on this device */
    MG_LOCK_REFUSED, /* the file cannot be opened; said on stderr */
};
/* dir: NULL where none is named. uuid: "" where the device has none; the back end names it then. The model is no
 * device, and has none to share. */
enum mg_lock mg_device_lock(const char *dir, const char *backend, const char *uuid, int *fd);
/* Waits until it is ours; who: a message on stderr that names whom we wait for begins with it. `stop`, asked now and
 * then, may be NULL: true gives up, MG_LOCK_TAKEN. */
enum mg_lock mg_device_lock_wait(const char *who, const char *dir, const struct mg_engine_properties *device,
                                 bool (*stop)(void *context), void *context, int *fd);

#endif
