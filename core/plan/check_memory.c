/* Figures of memory: S3 and R3 by positions in the list, with the extents of part 0; the placement. */
#include <string.h>

#include "plan/check_priv.h"

static uint64_t workspace_of(const struct mg_check *c, const struct mg_step *step)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < step->price_count; i++) {
        uint64_t one = c->plan->prices[c->plan->refs[step->price + i]].workspace;
        most = one > most ? one : most;
    }
    return most;
}

/* Storages without an instance are the workspaces, in the order of the steps that need one. */
static bool find_workspaces(struct mg_check *c)
{
    uint32_t next = 0, count = (uint32_t)c->plan->storage_count;
    for (uint32_t s = 0; s < c->plan->step_count; s++) {
        uint64_t bytes = workspace_of(c, &c->plan->steps[s]);
        if (bytes == 0)
            continue;
        while (next < count && c->storages[next].lower != MG_NONE)
            next++;
        MG_CHECK(next < count && c->plan->storages[next].bytes == mg_device_storage(&c->plan->device, bytes), c, s,
                 "workspace", "the step's workspace of %llu bytes has no storage", (unsigned long long)bytes);
        c->storages[next] = (struct mg_check_storage){s, s + 1, MG_NONE};
    }
    while (next < count && c->storages[next].lower != MG_NONE)
        next++;
    MG_CHECK(next == count, c, MG_NONE, "storage", "storage %u is never used", next);
    return true;
}

/* ---- events: storages by the step at which they begin and end ---- */
struct events {
    uint32_t *begin, *end; /* by step: first storage of a list */
    uint32_t *next_begin, *next_end;
};

static void push(uint32_t *heads, uint32_t *next, uint32_t at, uint32_t storage)
{
    next[storage] = heads[at];
    heads[at] = storage;
}

static void list_events(const struct mg_check *c, struct events *e)
{
    uint32_t steps = (uint32_t)c->plan->step_count, count = (uint32_t)c->plan->storage_count;
    e->begin = MG_NEW_ARRAY(c->arena, uint32_t, steps + 1);
    e->end = MG_NEW_ARRAY(c->arena, uint32_t, steps + 1);
    e->next_begin = MG_NEW_ARRAY(c->arena, uint32_t, count);
    e->next_end = MG_NEW_ARRAY(c->arena, uint32_t, count);
    for (uint32_t s = 0; s <= steps; s++)
        e->begin[s] = e->end[s] = MG_NONE;
    for (uint32_t k = 0; k < count; k++) {
        push(e->begin, e->next_begin, c->storages[k].lower, k);
        if (c->storages[k].upper <= steps)
            push(e->end, e->next_end, c->storages[k].upper, k);
    }
}

static void sum_peak(struct mg_check *c, const struct events *e)
{
    uint64_t live = 0, peak = 0;
    for (uint32_t s = 0; s < c->plan->step_count; s++) {
        for (uint32_t k = e->end[s]; k != MG_NONE; k = e->next_end[k])
            live -= c->plan->storages[k].bytes;
        for (uint32_t k = e->begin[s]; k != MG_NONE; k = e->next_begin[k])
            live += c->plan->storages[k].bytes;
        peak = live > peak ? live : peak;
    }
    c->verdict->figures.peak_bytes = peak;
}

/* ---- placement: the living storages, ascending by offset ---- */
struct living {
    uint32_t *sorted;
    size_t count;
};

static size_t position(const struct mg_check *c, const struct living *l, uint64_t offset)
{
    size_t lo = 0, hi = l->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->plan->storages[l->sorted[mid]].offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool insert(struct mg_check *c, struct living *l, uint32_t step, uint32_t k)
{
    const struct mg_storage *all = c->plan->storages, *s = &all[k];
    if (s->bytes == 0)
        return true;
    size_t at = position(c, l, s->offset);
    bool below = at == 0 || all[l->sorted[at - 1]].offset + all[l->sorted[at - 1]].bytes <= s->offset;
    bool above = at == l->count || s->offset + s->bytes <= all[l->sorted[at]].offset;
    MG_CHECK(below && above, c, step, "overlap", "storages %u and %u overlap in the arena", k,
             l->sorted[below ? at : at - 1]);
    memmove(l->sorted + at + 1, l->sorted + at, (l->count - at) * sizeof *l->sorted);
    l->sorted[at] = k;
    l->count++;
    return true;
}

static void erase(const struct mg_check *c, struct living *l, uint32_t k)
{
    if (c->plan->storages[k].bytes == 0)
        return;
    size_t at = position(c, l, c->plan->storages[k].offset);
    memmove(l->sorted + at, l->sorted + at + 1, (l->count - at - 1) * sizeof *l->sorted);
    l->count--;
}

static bool check_overlaps(struct mg_check *c, const struct events *e)
{
    struct living l = {MG_NEW_ARRAY(c->arena, uint32_t, c->plan->storage_count), 0};
    for (uint32_t s = 0; s <= c->plan->step_count; s++) {
        for (uint32_t k = e->end[s]; k != MG_NONE; k = e->next_end[k])
            erase(c, &l, k);
        for (uint32_t k = e->begin[s]; k != MG_NONE; k = e->next_begin[k])
            if (!insert(c, &l, s, k))
                return false;
    }
    return true;
}

static bool check_offsets(struct mg_check *c)
{
    uint64_t end = 0;
    for (uint32_t k = 0; k < c->plan->storage_count; k++) {
        const struct mg_storage *s = &c->plan->storages[k];
        MG_CHECK(s->offset % c->plan->device.align == 0, c, c->storages[k].lower, "align",
                 "storage %u stands at %llu, not a multiple of %llu", k, (unsigned long long)s->offset,
                 (unsigned long long)c->plan->device.align);
        MG_CHECK(s->bytes == 0 || s->offset + s->bytes <= c->plan->figures.arena_bytes, c, c->storages[k].lower,
                 "arena", "storage %u ends beyond the arena", k);
        if (s->bytes && s->offset + s->bytes > end)
            end = s->offset + s->bytes;
    }
    c->verdict->figures.arena_bytes = end;
    return true;
}

bool mg_check_memory(struct mg_check *c)
{
    struct events e;
    if (!find_workspaces(c))
        return false;
    list_events(c, &e);
    sum_peak(c, &e);
    return check_offsets(c) && check_overlaps(c, &e);
}
