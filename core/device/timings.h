/* Measured timings of one device class as a worker maps them: a snapshot, immutable, looked up by one hash probe.
 *
 * Layout, in the byte order of the machine (the file never leaves it): head; slots of an open-addressing table whose
 * count is a power of two, at most half full; samples, sorted by operator name, with their texts, from which the
 * ratio measured / model of a kind of operator is taken. */
#ifndef MG_DEVICE_TIMINGS_H
#define MG_DEVICE_TIMINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"

/* Where a price comes from, the weakest first. */
enum mg_price_source { MG_PRICE_MODEL, MG_PRICE_SCALED, MG_PRICE_NEAR, MG_PRICE_EXACT, MG_PRICE_SOURCES };

enum { MG_TIMINGS_SAMPLES = 1001 }; /* at most so many for each kind of operator */

struct mg_timing_entry {
    struct mg_hash128 key;       /* mg_signature_key() */
    double seconds;              /* > 0 */
    uint64_t workspace;          /* bytes, < 2^60 */
    enum mg_price_source source; /* MG_PRICE_EXACT or MG_PRICE_NEAR */
};
struct mg_timing_sample {
    const char *name, *signature;
    double seconds;
    enum mg_price_source source;
};

/* ---- writing ---- */
struct mg_timings_content {
    const struct mg_timing_entry *entries; /* keys differ */
    size_t entry_count;
    struct mg_timing_sample *samples; /* sorted in place */
    size_t sample_count;
    uint64_t generation;
    const char *device_class; /* at most 32 characters */
};
/* Bytes that the snapshot takes. */
size_t mg_timings_size(const struct mg_timings_content *content);
/* Fills `memory`, mg_timings_size() bytes, zeroed. */
void mg_timings_fill(struct mg_timings_content *content, void *memory);

/* ---- reading ---- */
struct mg_timings {
    const unsigned char *memory;
    size_t size, slot_count, entry_count, sample_count;
    uint64_t generation;
    const char *device_class;
};
/* `memory` must outlive the timings. Constant time: what lies inside is checked where it is used. */
enum mg_code mg_timings_open(const void *memory, size_t size, struct mg_timings *out,
                             struct mg_error *err) MG_WARN_UNUSED;
bool mg_timings_find(const struct mg_timings *timings, struct mg_hash128 key, struct mg_timing_entry *out);
/* Sample `index`; false if there is none or the file is damaged. */
bool mg_timings_sample(const struct mg_timings *timings, size_t index, struct mg_timing_sample *out);

#endif
