/* Best fit in the order of begins, as an allocator does it that sees each buffer only when it is asked for: what
 * meets a buffer then is just what is alive. O(n log n) and the moves within the sorted list of gaps.
 *
 * The arena is a chain of segments, used or free, without two free ones side by side; the last one is free and has
 * no end. */
#include <stdlib.h>
#include <string.h>

#include "plan/place_priv.h"

struct segment {
    uint64_t offset, size;
    uint32_t before, after; /* MG_NONE at the ends */
    bool free;
};
struct gap { /* ascending by size, then by offset; the endless one is not among them */
    uint64_t size, offset;
    uint32_t segment;
};
struct online {
    struct segment *segment;
    uint32_t segments, last; /* last: the endless one */
    uint32_t *unused;        /* segments to be used again */
    size_t unused_count;
    struct gap *gap;
    size_t gaps;
};

/* The first gap that is not less than (size, offset). */
static size_t find_gap(const struct online *o, uint64_t size, uint64_t offset)
{
    size_t lo = 0, hi = o->gaps;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct gap *g = &o->gap[mid];
        if (g->size < size || (g->size == size && g->offset < offset))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void add_gap(struct online *o, uint32_t s)
{
    const struct segment *segment = &o->segment[s];
    size_t at = find_gap(o, segment->size, segment->offset);
    memmove(&o->gap[at + 1], &o->gap[at], (o->gaps++ - at) * sizeof *o->gap);
    o->gap[at] = (struct gap){segment->size, segment->offset, s};
}

static void drop_gap(struct online *o, uint32_t s)
{
    size_t at = find_gap(o, o->segment[s].size, o->segment[s].offset);
    memmove(&o->gap[at], &o->gap[at + 1], (--o->gaps - at) * sizeof *o->gap);
}

static uint32_t new_segment(struct online *o)
{
    return o->unused_count > 0 ? o->unused[--o->unused_count] : o->segments++;
}

/* A used segment of `size` at the beginning of the free one s, which shrinks and, if nothing is left, goes. */
static uint32_t take_front(struct online *o, uint32_t s, uint64_t size)
{
    struct segment *from = &o->segment[s];
    if (s != o->last && from->size == size) {
        from->free = false;
        return s;
    }
    uint32_t taken = new_segment(o);
    o->segment[taken] = (struct segment){from->offset, size, from->before, s, false};
    if (from->before != MG_NONE)
        o->segment[from->before].after = taken;
    from->before = taken;
    from->offset += size;
    from->size -= size;
    if (s != o->last)
        add_gap(o, s);
    return taken;
}

static uint32_t allocate(struct online *o, uint64_t size)
{
    size_t at = find_gap(o, size, 0);
    if (at == o->gaps)
        return take_front(o, o->last, size);
    uint32_t s = o->gap[at].segment;
    drop_gap(o, s);
    return take_front(o, s, size);
}

/* The segment s becomes part of the next one. */
static void join(struct online *o, uint32_t s, uint32_t next)
{
    struct segment *into = &o->segment[next], *from = &o->segment[s];
    into->offset = from->offset;
    into->size += from->size;
    into->before = from->before;
    if (from->before != MG_NONE)
        o->segment[from->before].after = next;
    o->unused[o->unused_count++] = s;
}

static void release(struct online *o, uint32_t s)
{
    uint32_t before = o->segment[s].before, after = o->segment[s].after;
    o->segment[s].free = true;
    if (before != MG_NONE && o->segment[before].free) {
        drop_gap(o, before);
        join(o, before, s);
    }
    if (o->segment[after].free) {
        if (after != o->last)
            drop_gap(o, after);
        join(o, s, after);
        s = after;
    }
    if (s != o->last)
        add_gap(o, s);
}

static uint32_t *sorted_by_end(const struct mg_placement *p, struct mg_arena *scratch)
{
    struct mg_place_key *keys = MG_NEW_ARRAY(scratch, struct mg_place_key, p->count);
    uint32_t *order = MG_NEW_ARRAY(scratch, uint32_t, p->count);
    for (uint32_t i = 0; i < p->count; i++)
        keys[i] = (struct mg_place_key){{-(double)p->items[i].upper, 0}, i};
    qsort(keys, p->count, sizeof *keys, mg_place_compare_keys);
    for (size_t i = 0; i < p->count; i++)
        order[i] = keys[i].item;
    return order;
}

uint64_t mg_place_online(struct mg_placement *p, const uint32_t *by_begin, struct mg_arena *scratch)
{
    const uint32_t *by_end = sorted_by_end(p, scratch);
    uint32_t *segment_of = MG_NEW_ARRAY(scratch, uint32_t, p->count);
    struct online o = {.segment = MG_NEW_ARRAY(scratch, struct segment, p->count + 1),
                       .unused = MG_NEW_ARRAY(scratch, uint32_t, p->count + 1),
                       .gap = MG_NEW_ARRAY(scratch, struct gap, p->count + 1)};
    uint64_t height = 0;
    o.last = o.segments++;
    o.segment[o.last] = (struct segment){0, UINT64_MAX, MG_NONE, MG_NONE, true};
    for (size_t i = 0, ended = 0; i < p->count; i++) {
        const struct mg_place_item *item = &p->items[by_begin[i]];
        while (p->items[by_end[ended]].upper <= item->lower)
            release(&o, segment_of[by_end[ended++]]);
        uint32_t s = segment_of[by_begin[i]] = allocate(&o, item->size);
        p->trial[by_begin[i]] = o.segment[s].offset;
        if (o.segment[s].offset + item->size > height)
            height = o.segment[s].offset + item->size;
    }
    return height;
}
