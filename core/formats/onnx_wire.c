#include "formats/onnx_wire.h"

#include <string.h>

void mg_wire_open(struct onnx_wire *w, const struct mg_bytes *source)
{
    *w = (struct onnx_wire){.source = *source};
}

uint64_t mg_wire_position(const struct onnx_wire *w)
{
    return w->passed - (uint64_t)(w->end - w->at);
}

/* Makes at least one byte available. */
static bool refill(struct onnx_wire *w)
{
    while (w->at == w->end && !w->broken) {
        const uint8_t *data = NULL;
        size_t size = 0;
        w->broken = !w->source.next(w->source.context, &data, &size);
        if (w->broken || size == 0)
            return false;
        w->at = data;
        w->end = data + size;
        w->passed += size;
    }
    return w->at != w->end;
}

bool mg_wire_at_end(struct onnx_wire *w)
{
    return !refill(w);
}

bool mg_wire_varint(struct onnx_wire *w, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (!refill(w))
            return false;
        uint8_t byte = *w->at++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

bool mg_wire_take(struct onnx_wire *w, void *out, uint64_t size)
{
    uint8_t *to = out;
    while (size > 0) {
        if (!refill(w))
            return false;
        uint64_t here = (uint64_t)(w->end - w->at), count = size < here ? size : here;
        memcpy(to, w->at, count);
        to += count;
        w->at += count;
        size -= count;
    }
    return true;
}

bool mg_wire_skip(struct onnx_wire *w, uint64_t size)
{
    while (size > 0) {
        if (!refill(w))
            return false;
        uint64_t here = (uint64_t)(w->end - w->at), count = size < here ? size : here;
        w->at += count;
        w->skipped += count;
        size -= count;
    }
    return true;
}

static bool next_of_block(void *context, const uint8_t **data, size_t *size)
{
    struct mg_bytes_block *block = context;
    *data = block->data;
    *size = block->size;
    block->size = 0;
    return true;
}

struct mg_bytes mg_bytes_from_block(struct mg_bytes_block *block)
{
    return (struct mg_bytes){next_of_block, block};
}
