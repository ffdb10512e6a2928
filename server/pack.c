#include "server/pack.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

enum { HEADER = 12, LEVEL = 2 /* a graph is packed while its client waits */ };
static const char magic[4] = {'M', 'G', 'Z', '1'};

bool mg_pack(const void *data, size_t size, unsigned char **out, size_t *out_size)
{
    uLongf room = compressBound(size);
    unsigned char *blob = malloc(HEADER + room);
    if (!blob || compress2(blob + HEADER, &room, data, size, LEVEL) != Z_OK) {
        free(blob);
        return false;
    }
    memcpy(blob, magic, sizeof magic);
    for (unsigned i = 0; i < 8; i++)
        blob[4 + i] = (unsigned char)((uint64_t)size >> (8 * i));
    *out = blob;
    *out_size = HEADER + room;
    return true;
}

bool mg_unpack(const void *data, size_t size, size_t limit, char **out, size_t *out_size)
{
    const unsigned char *blob = data;
    uint64_t plain = 0;
    if (size < HEADER || memcmp(blob, magic, sizeof magic) != 0)
        return false;
    for (unsigned i = 0; i < 8; i++)
        plain |= (uint64_t)blob[4 + i] << (8 * i);
    if (plain > limit)
        return false;
    char *text = malloc(plain + 1);
    uLongf room = plain;
    if (!text || uncompress((Bytef *)text, &room, blob + HEADER, size - HEADER) != Z_OK || room != plain) {
        free(text);
        return false;
    }
    text[plain] = '\0';
    *out = text;
    *out_size = plain;
    return true;
}

struct growing {
    char *data;
    size_t size, capacity;
};

static bool make_room(struct growing *g, size_t limit)
{
    if (g->size < g->capacity)
        return true;
    size_t capacity = g->capacity ? g->capacity * 2 : 1 << 16;
    if (capacity > limit + 1)
        capacity = limit + 1; /* one more than allowed, to notice */
    char *larger = realloc(g->data, capacity + 1);
    if (!larger)
        return false;
    g->data = larger;
    g->capacity = capacity;
    return true;
}

/* What came out is compared with what went in so far: a bomb is found out at its beginning, however long it is. */
static enum mg_gunzip inflate_all(z_stream *z, size_t limit, size_t input, size_t ratio, struct growing *g)
{
    for (;;) {
        if (g->size > limit || (g->size > (1 << 20) && g->size / ratio > input - z->avail_in))
            return MG_GUNZIP_TOO_LARGE;
        if (!make_room(g, limit))
            return MG_GUNZIP_NOMEM;
        size_t room = g->capacity - g->size;
        z->next_out = (Bytef *)g->data + g->size;
        z->avail_out = room > UINT_MAX ? UINT_MAX : (uInt)room;
        uInt before = z->avail_out;
        int rc = inflate(z, Z_NO_FLUSH);
        g->size += before - z->avail_out;
        if (rc == Z_STREAM_END && z->avail_in > 0 && inflateReset(z) == Z_OK)
            continue;
        if (rc == Z_STREAM_END)
            return g->size > limit ? MG_GUNZIP_TOO_LARGE : MG_GUNZIP_OK;
        if (rc == Z_MEM_ERROR)
            return MG_GUNZIP_NOMEM;
        if (rc != Z_OK || (z->avail_in == 0 && z->avail_out > 0))
            return MG_GUNZIP_DAMAGED;
    }
}

enum mg_gunzip mg_gunzip(const void *data, size_t size, size_t limit, size_t ratio, char **out, size_t *out_size)
{
    z_stream z = {.next_in = (z_const Bytef *)data, .avail_in = (uInt)size};
    struct growing g = {NULL, 0, 0};
    if (size > UINT_MAX || inflateInit2(&z, 15 + 16) != Z_OK)
        return size > UINT_MAX ? MG_GUNZIP_TOO_LARGE : MG_GUNZIP_NOMEM;
    enum mg_gunzip result = inflate_all(&z, limit, size, ratio, &g);
    inflateEnd(&z);
    if (result != MG_GUNZIP_OK) {
        free(g.data);
        return result;
    }
    g.data[g.size] = '\0';
    *out = g.data;
    *out_size = g.size;
    return MG_GUNZIP_OK;
}
