/* Compressed blobs: four bytes "MGZ1", the plain size (little-endian, 8 bytes), a zlib stream. */
#ifndef MG_SERVER_PACK_H
#define MG_SERVER_PACK_H

#include <stdbool.h>
#include <stddef.h>

/* *out is malloc'ed. False: out of memory. */
bool mg_pack(const void *data, size_t size, unsigned char **out, size_t *out_size);
/* *out is malloc'ed and NUL-terminated beyond *out_size. False: damaged, or plain size over `limit`. */
bool mg_unpack(const void *data, size_t size, size_t limit, char **out, size_t *out_size);

enum mg_gunzip { MG_GUNZIP_OK, MG_GUNZIP_DAMAGED, MG_GUNZIP_TOO_LARGE, MG_GUNZIP_NOMEM };
/* A gzip file of any number of members. TOO_LARGE beyond `limit` bytes, or beyond `ratio` times as
 * much of the input as was read for it (after a first mebibyte): a bomb is refused while it is still small. */
enum mg_gunzip mg_gunzip(const void *data, size_t size, size_t limit, size_t ratio, char **out, size_t *out_size);

#endif
