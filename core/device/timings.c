/* Linear probing over 32-byte slots: two to a cache line. An empty slot has no seconds. */
#include "device/timings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "MGTIMES1"

struct head {
    char magic[8];
    uint64_t size, slot_count, entry_count, sample_count, generation;
    char device_class[40];
};
struct slot {
    uint64_t lo, hi;
    double seconds;
    uint64_t workspace_source; /* workspace * 4 + source */
};
struct sample {
    uint64_t name, signature; /* offsets from the file's start */
    double seconds;
    uint64_t source;
};

static size_t slots_for(size_t entries)
{
    size_t count = 16;
    while (count < 2 * entries)
        count *= 2;
    return count;
}

static size_t samples_at(size_t slot_count)
{
    return sizeof(struct head) + slot_count * sizeof(struct slot);
}

/* ---- writing ---- */

size_t mg_timings_size(const struct mg_timings_content *content)
{
    size_t size = samples_at(slots_for(content->entry_count)) + content->sample_count * sizeof(struct sample);
    for (size_t i = 0; i < content->sample_count; i++)
        size += strlen(content->samples[i].name) + strlen(content->samples[i].signature) + 2;
    return size;
}

static void fill_slots(const struct mg_timings_content *content, struct slot *slots, size_t count)
{
    for (size_t i = 0; i < content->entry_count; i++) {
        const struct mg_timing_entry *e = &content->entries[i];
        size_t at = (size_t)e->key.lo & (count - 1);
        while (slots[at].seconds > 0)
            at = (at + 1) & (count - 1);
        slots[at] = (struct slot){e->key.lo, e->key.hi, e->seconds, e->workspace * 4 + (uint64_t)e->source};
    }
}

static int by_text(const void *a, const void *b)
{
    const struct mg_timing_sample *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    return order ? order : strcmp(p->signature, q->signature);
}

static uint64_t put_text(unsigned char *memory, size_t *at, const char *text)
{
    size_t size = strlen(text) + 1, start = *at;
    memcpy(memory + start, text, size);
    *at += size;
    return start;
}

static void fill_samples(struct mg_timings_content *content, unsigned char *memory, size_t at)
{
    size_t text_at = at + content->sample_count * sizeof(struct sample);
    if (content->sample_count)
        qsort(content->samples, content->sample_count, sizeof *content->samples, by_text);
    for (size_t i = 0; i < content->sample_count; i++) {
        const struct mg_timing_sample *s = &content->samples[i];
        struct sample out = {.seconds = s->seconds, .source = (uint64_t)s->source};
        out.name = put_text(memory, &text_at, s->name);
        out.signature = put_text(memory, &text_at, s->signature);
        memcpy(memory + at + i * sizeof out, &out, sizeof out);
    }
}

void mg_timings_fill(struct mg_timings_content *content, void *memory)
{
    unsigned char *bytes = memory;
    struct head head = {.magic = MAGIC,
                        .size = mg_timings_size(content),
                        .slot_count = slots_for(content->entry_count),
                        .entry_count = content->entry_count,
                        .sample_count = content->sample_count,
                        .generation = content->generation};
    snprintf(head.device_class, sizeof head.device_class, "%s", content->device_class);
    memcpy(bytes, &head, sizeof head);
    fill_slots(content, (struct slot *)(void *)(bytes + sizeof head), head.slot_count);
    fill_samples(content, bytes, samples_at(head.slot_count));
}

/* ---- reading ---- */

enum mg_code mg_timings_open(const void *memory, size_t size, struct mg_timings *out, struct mg_error *err)
{
    struct head head;
    memset(out, 0, sizeof *out);
    if (size < sizeof head)
        return mg_fail(err, MG_ERR_INVALID, "", "a snapshot of timings of %zu bytes is too short", size);
    memcpy(&head, memory, sizeof head);
    bool sound = memcmp(head.magic, MAGIC, sizeof head.magic) == 0 && head.size == size && head.slot_count > 0 &&
                 (head.slot_count & (head.slot_count - 1)) == 0 && head.slot_count < size / sizeof(struct slot) &&
                 head.entry_count <= head.slot_count / 2 && head.sample_count < size / sizeof(struct sample) &&
                 samples_at(head.slot_count) + head.sample_count * sizeof(struct sample) <= size &&
                 head.device_class[sizeof head.device_class - 1] == '\0';
    if (!sound)
        return mg_fail(err, MG_ERR_INVALID, "", "the snapshot of timings is damaged");
    *out = (struct mg_timings){memory,
                               size,
                               head.slot_count,
                               head.entry_count,
                               head.sample_count,
                               head.generation,
                               (const char *)memory + offsetof(struct head, device_class)};
    return MG_OK;
}

bool mg_timings_find(const struct mg_timings *timings, struct mg_hash128 key, struct mg_timing_entry *out)
{
    const struct slot *slots = (const struct slot *)(const void *)(timings->memory + sizeof(struct head));
    size_t mask = timings->slot_count - 1, at = (size_t)key.lo & mask;
    for (size_t probes = 0; probes <= mask && slots[at].seconds > 0; probes++, at = (at + 1) & mask)
        if (slots[at].lo == key.lo && slots[at].hi == key.hi) {
            *out = (struct mg_timing_entry){key, slots[at].seconds, slots[at].workspace_source >> 2,
                                            (enum mg_price_source)(slots[at].workspace_source & 3)};
            return true;
        }
    return false;
}

/* NULL unless a terminated text lies there. */
static const char *text_at(const struct mg_timings *timings, uint64_t at)
{
    if (at >= timings->size || !memchr(timings->memory + at, '\0', timings->size - at))
        return NULL;
    return (const char *)timings->memory + at;
}

bool mg_timings_sample(const struct mg_timings *timings, size_t index, struct mg_timing_sample *out)
{
    struct sample sample;
    if (index >= timings->sample_count)
        return false;
    memcpy(&sample, timings->memory + samples_at(timings->slot_count) + index * sizeof sample, sizeof sample);
    *out = (struct mg_timing_sample){text_at(timings, sample.name), text_at(timings, sample.signature), sample.seconds,
                                     (enum mg_price_source)(sample.source & 3)};
    return out->name && out->signature && out->seconds > 0;
}
