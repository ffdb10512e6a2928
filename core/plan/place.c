/* Placement of buffers in one arena (dynamic storage allocation with known lifetimes; NP-hard).
 *
 * 1. Buffers that live all the time are stacked at the bottom, which loses nothing.
 * 2. Best fit in several fixed orders (size, size * lifetime, begin, lifetime): each buffer goes into the smallest
 *    gap between the placed buffers it meets, else on top of them.
 * 3. Improvement: the buffer that reaches the arena's top is moved to the front half of the order and everything is
 *    placed again (the "blocking" buffer first); better or equal results are kept.
 * 4. While effort is left: place_exact.c searches for a packing at the lower bound, the largest sum of
 *    live bytes.
 * Everything stops at the lower bound. Effort is counted in comparisons, never in seconds. One placement
 * is O(n * placed), so of very many buffers there is one only, by place_online.c. */
#include <stdlib.h>
#include <string.h>

#include "plan/place_priv.h"

/* ---- setting up ---- */
static int compare_events(const void *a, const void *b)
{
    const struct mg_place_event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->bytes > 0) - (y->bytes > 0); /* ends before begins */
}

static uint64_t max_live(const struct mg_placement *p, struct mg_arena *scratch)
{
    struct mg_place_event *events = MG_NEW_ARRAY(scratch, struct mg_place_event, 2 * p->count);
    for (size_t i = 0; i < p->count; i++) {
        events[2 * i] = (struct mg_place_event){p->items[i].lower, (int64_t)p->items[i].size};
        events[2 * i + 1] = (struct mg_place_event){p->items[i].upper, -(int64_t)p->items[i].size};
    }
    qsort(events, 2 * p->count, sizeof *events, compare_events);
    int64_t now = 0, most = 0;
    for (size_t i = 0; i < 2 * p->count; i++) {
        now += events[i].bytes;
        most = now > most ? now : most;
    }
    return (uint64_t)most;
}

static void life_span(const struct mg_buffer *buffers, size_t count, uint32_t *lower, uint32_t *upper)
{
    *lower = UINT32_MAX;
    *upper = 0;
    for (size_t i = 0; i < count; i++) {
        *lower = buffers[i].lower < *lower ? buffers[i].lower : *lower;
        *upper = buffers[i].upper > *upper ? buffers[i].upper : *upper;
    }
}

/* Stacks what lives all the time, makes items of the rest; returns the bytes stacked or UINT64_MAX. */
static uint64_t take_items(struct mg_placement *p, struct mg_buffer *buffers, size_t count, uint64_t align)
{
    uint32_t lower, upper;
    uint64_t base = 0, total = 0;
    life_span(buffers, count, &lower, &upper);
    for (size_t i = 0; i < count; i++) {
        struct mg_buffer *b = &buffers[i];
        uint64_t size = (b->bytes + align - 1) / align * align;
        if (size < b->bytes || size > INT64_MAX - total)
            return UINT64_MAX;
        total += size;
        b->offset = 0;
        if (!size || b->upper <= b->lower)
            continue;
        if (b->lower == lower && b->upper == upper) {
            b->offset = base;
            base += size;
            continue;
        }
        p->items[p->count++] = (struct mg_place_item){.size = size, .lower = b->lower, .upper = b->upper, .buffer = i};
    }
    return base;
}

/* ---- best fit ---- */
static bool meet(const struct mg_place_item *a, const struct mg_place_item *b)
{
    return a->lower < b->upper && b->lower < a->upper;
}

/* The smallest gap among `placed` (ascending offsets) that holds the item; its offset. */
static uint64_t best_fit(const struct mg_placement *p, const struct mg_place_item *item, size_t placed)
{
    uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (size_t i = 0; i < placed; i++) {
        const struct mg_place_item *other = &p->stack[i];
        if (!meet(item, other))
            continue;
        if (other->offset > top) {
            uint64_t gap = other->offset - top;
            if (gap >= item->size && gap < best_gap) {
                best = top;
                best_gap = gap;
            }
        }
        if (other->offset + other->size > top)
            top = other->offset + other->size;
    }
    return best == UINT64_MAX ? top : best;
}

static void insert_sorted(struct mg_placement *p, const struct mg_place_item *item, size_t placed)
{
    size_t lo = 0, hi = placed;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (p->stack[mid].offset <= item->offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(&p->stack[lo + 1], &p->stack[lo], (placed - lo) * sizeof *p->stack);
    p->stack[lo] = *item;
}

/* Places all items in `order`; fills p->trial; *blocker is the position of the one that reaches the top.
 * Gives up (UINT64_MAX) as soon as the height exceeds `limit`. */
static uint64_t place_in_order(struct mg_placement *p, const uint32_t *order, uint64_t limit, size_t *blocker)
{
    uint64_t height = 0;
    for (size_t i = 0; i < p->count; i++) {
        struct mg_place_item item = p->items[order[i]];
        item.offset = best_fit(p, &item, i);
        p->trial[order[i]] = item.offset;
        insert_sorted(p, &item, i);
        p->effort -= (int64_t)i;
        if (item.offset + item.size > height) {
            height = item.offset + item.size;
            *blocker = i;
        }
        if (height > limit)
            return UINT64_MAX;
    }
    return height;
}

static void keep(struct mg_placement *p, uint64_t height)
{
    p->height = height;
    memcpy(p->best, p->trial, p->count * sizeof *p->best);
}

/* ---- orders ---- */
static const struct mg_place_key *key_of(const void *a)
{
    return a;
}

int mg_place_compare_keys(const void *a, const void *b)
{
    for (int i = 0; i < 2; i++)
        if (key_of(a)->by[i] != key_of(b)->by[i])
            return key_of(a)->by[i] > key_of(b)->by[i] ? -1 : 1;
    return key_of(a)->item < key_of(b)->item ? -1 : 1;
}

enum order_kind { BY_SIZE, BY_AREA, BY_BEGIN, BY_LIFE, ORDERS };

static void make_order(const struct mg_placement *p, enum order_kind kind, uint32_t *order, struct mg_arena *scratch)
{
    struct mg_place_key *keys = MG_NEW_ARRAY(scratch, struct mg_place_key, p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct mg_place_item *item = &p->items[i];
        double size = (double)item->size, life = (double)(item->upper - item->lower);
        double by[][2] = {[BY_SIZE] = {size, life},
                          [BY_AREA] = {size * life, size},
                          [BY_BEGIN] = {-(double)item->lower, size},
                          [BY_LIFE] = {life, size}};
        keys[i] = (struct mg_place_key){{by[kind][0], by[kind][1]}, i};
    }
    qsort(keys, p->count, sizeof *keys, mg_place_compare_keys);
    for (size_t i = 0; i < p->count; i++)
        order[i] = keys[i].item;
}

/* One placement by comparisons would take longer than all that a caller may ask for. */
static bool is_large(const struct mg_placement *p)
{
    return (uint64_t)p->count * p->count / 2 > MG_PLACE_EFFORT;
}

static void try_orders(struct mg_placement *p, struct mg_arena *scratch)
{
    uint32_t *order = MG_NEW_ARRAY(scratch, uint32_t, p->count);
    size_t blocker = 0;
    if (is_large(p)) {
        make_order(p, BY_BEGIN, order, scratch);
        keep(p, mg_place_online(p, order, scratch));
        p->effort = 0;
        return;
    }
    for (enum order_kind kind = 0; kind < ORDERS && p->height > p->bound; kind++) {
        if (kind > 0 && p->effort < 0)
            return;
        make_order(p, kind, order, scratch);
        uint64_t height = place_in_order(p, order, p->height - 1, &blocker);
        if (height >= p->height)
            continue;
        keep(p, height);
        memcpy(p->order, order, p->count * sizeof *order);
    }
}

/* Moves the order's entry at `from` forward to `to`. */
static void move_forward(uint32_t *order, size_t from, size_t to)
{
    uint32_t item = order[from];
    memmove(&order[to + 1], &order[to], (from - to) * sizeof *order);
    order[to] = item;
}

static void improve(struct mg_placement *p, struct mg_arena *scratch)
{
    struct mg_rng rng;
    uint32_t *order = MG_NEW_ARRAY(scratch, uint32_t, p->count);
    size_t blocker = 0;
    if (p->height <= p->bound || p->effort <= 0)
        return;
    mg_rng_init(&rng, p->count);
    memcpy(order, p->order, p->count * sizeof *order);
    (void)place_in_order(p, order, UINT64_MAX - 1, &blocker);
    while (p->height > p->bound && p->effort > 0) {
        size_t to = blocker ? (size_t)mg_rng_below(&rng, blocker) : 0;
        move_forward(order, blocker, to);
        uint64_t height = place_in_order(p, order, UINT64_MAX - 1, &blocker);
        if (height <= p->height) {
            if (height < p->height)
                keep(p, height);
            memcpy(p->order, order, p->count * sizeof *order);
        } else if (mg_rng_below(&rng, 16) == 0) {
            memcpy(order, p->order, p->count * sizeof *order);
            (void)place_in_order(p, order, UINT64_MAX - 1, &blocker);
        }
    }
}

/* ---- entry ---- */
struct placing {
    struct mg_buffer *buffers;
    size_t count;
    uint64_t align, *arena_bytes, effort;
    struct mg_arena *scratch;
};

static void init_placement(struct mg_placement *p, size_t count, uint64_t effort, struct mg_arena *scratch)
{
    memset(p, 0, sizeof *p);
    p->effort = effort > INT64_MAX ? INT64_MAX : (int64_t)effort;
    p->items = MG_NEW_ARRAY(scratch, struct mg_place_item, count);
    p->stack = MG_NEW_ARRAY(scratch, struct mg_place_item, count + 1);
    p->trial = MG_NEW_ARRAY(scratch, uint64_t, count);
    p->best = MG_NEW_ARRAY(scratch, uint64_t, count);
    p->order = MG_NEW_ARRAY(scratch, uint32_t, count);
    p->height = UINT64_MAX;
}

static enum mg_code place(void *context, struct mg_error *err)
{
    struct placing *c = context;
    struct mg_placement p;
    init_placement(&p, c->count, c->effort, c->scratch);
    uint64_t base = take_items(&p, c->buffers, c->count, c->align);
    if (base == UINT64_MAX)
        return mg_fail(err, MG_ERR_LIMIT, "", "the buffers' sizes overflow");
    *c->arena_bytes = base;
    if (!p.count)
        return MG_OK;
    p.bound = max_live(&p, c->scratch);
    try_orders(&p, c->scratch);
    mg_place_exact(&p, p.effort / 2, c->scratch);
    improve(&p, c->scratch);
    for (size_t i = 0; i < p.count; i++)
        c->buffers[p.items[i].buffer].offset = base + p.best[i];
    *c->arena_bytes = base + p.height;
    return MG_OK;
}

enum mg_code mg_place_with(struct mg_buffer *buffers, size_t count, uint64_t align, uint64_t effort,
                           uint64_t *arena_bytes, struct mg_arena *scratch, struct mg_error *err)
{
    struct placing context = {buffers, count, align ? align : 1, arena_bytes, effort, scratch};
    return mg_arena_guard(scratch, place, &context, err);
}

enum mg_code mg_place(struct mg_buffer *buffers, size_t count, uint64_t align, uint64_t *arena_bytes,
                      struct mg_arena *scratch, struct mg_error *err)
{
    return mg_place_with(buffers, count, align, MG_PLACE_EFFORT, arena_bytes, scratch, err);
}

/* ---- plans ---- */
static void fill_buffers(const struct mg_plan *plan, struct mg_buffer *buffers, struct mg_arena *scratch)
{
    const struct mg_interval *live = mg_plan_intervals(plan, scratch);
    uint32_t step = 0, steps = (uint32_t)plan->step_count;
    for (size_t s = 0; s < plan->storage_count; s++) {
        buffers[s] = (struct mg_buffer){plan->storages[s].bytes, live[s].lower, live[s].upper, 0};
        if (live[s].lower != MG_NONE) {
            if (live[s].upper <= live[s].lower)
                buffers[s].upper = live[s].lower + 1;
            continue;
        }
        while (step < steps && !mg_step_workspace(plan, &plan->steps[step]))
            step++;
        buffers[s].lower = step;
        buffers[s].upper = ++step;
    }
}

/* A search publishes some hundred plans: a few milliseconds for each. */
#define PLAN_EFFORT (MG_PLACE_EFFORT / 8)

struct plan_placing {
    struct mg_plan *plan;
    struct mg_arena *scratch;
};

static enum mg_code place_plan(void *context, struct mg_error *err)
{
    struct plan_placing *c = context;
    struct mg_buffer *buffers = MG_NEW_ARRAY(c->scratch, struct mg_buffer, c->plan->storage_count);
    fill_buffers(c->plan, buffers, c->scratch);
    enum mg_code code = mg_place_with(buffers, c->plan->storage_count, c->plan->device.align, PLAN_EFFORT,
                                      &c->plan->figures.arena_bytes, c->scratch, err);
    for (size_t s = 0; code == MG_OK && s < c->plan->storage_count; s++)
        c->plan->storages[s].offset = buffers[s].offset;
    return code;
}

enum mg_code mg_plan_place(struct mg_plan *plan, struct mg_arena *scratch, struct mg_error *err)
{
    struct plan_placing context = {plan, scratch};
    return mg_arena_guard(scratch, place_plan, &context, err);
}
