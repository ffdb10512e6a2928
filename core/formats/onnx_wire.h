/* The wire format of protocol buffers, read from chunks of bytes. Private to core/formats.
 *
 * Source: the published description of the encoding (varints, fixed 32 and 64 bits, length-delimited
 * fields; the deprecated groups are refused). Nothing is looked at twice and what is skipped is not
 * touched, so a file that is mapped or arrives as a stream is never whole in memory. */
#ifndef MG_FORMATS_ONNX_WIRE_H
#define MG_FORMATS_ONNX_WIRE_H

#include "formats/onnx.h"

struct onnx_wire {
    const uint8_t *at, *end; /* what is left of the current chunk */
    uint64_t passed;         /* bytes before `end` */
    uint64_t skipped;        /* bytes that nobody looked at */
    struct mg_bytes source;
    bool broken; /* the source failed, rather than ended */
};

void mg_wire_open(struct onnx_wire *w, const struct mg_bytes *source);
/* Offset of the next byte. */
uint64_t mg_wire_position(const struct onnx_wire *w);
/* True at the end of the source. */
bool mg_wire_at_end(struct onnx_wire *w);
/* All return false if the bytes end before, or are not well-formed. */
bool mg_wire_varint(struct onnx_wire *w, uint64_t *out);
bool mg_wire_take(struct onnx_wire *w, void *out, uint64_t size);
bool mg_wire_skip(struct onnx_wire *w, uint64_t size);

#endif
