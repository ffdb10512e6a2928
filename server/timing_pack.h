/* What intake hands to the daemon about timings: arrays of the store's own structs whose pointers are offsets, then
 * texts. Both ends are the same binary; offsets are checked before they become pointers. */
#ifndef MG_SERVER_TIMING_PACK_H
#define MG_SERVER_TIMING_PACK_H

#include <stdbool.h>

#include "base/arena.h"
#include "store/timing_types.h"

struct mg_packed_batches {
    struct mg_timing_batch *batches; /* rows and texts point into `memory` */
    size_t count;
    void *memory;
};
struct mg_packed_wants {
    struct mg_timing_want *wants;
    size_t count;
    void *memory;
};

/* *out is malloc'ed; NULL: out of memory. */
bool mg_timing_pack_batches(const struct mg_timing_batch *batches, size_t count, unsigned char **out, size_t *size);
bool mg_timing_pack_wants(const struct mg_timing_want *wants, size_t count, unsigned char **out, size_t *size);
/* From a descriptor of `size` bytes; free(memory) afterwards. False: damaged. */
bool mg_timing_unpack_batches(int fd, size_t size, struct mg_packed_batches *out);
bool mg_timing_unpack_wants(int fd, size_t size, struct mg_packed_wants *out);

#endif
