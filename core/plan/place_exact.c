/* Search for a packing of a given height (after Moffitt and others, MiniMalloc, ASPLOS 2023).
 *
 * Depth first over *canonical* packings: buffers are placed in the order of their offsets (ties by
 * rank), each as low as what is placed allows. Every packing can be pushed down into a canonical one,
 * so nothing is lost. Pruned are
 * - nodes at which some section of time cannot hold its unplaced buffers above their lowest floor,
 * - candidates above which another unplaced buffer would fit whole (it could be placed first).
 * Where no unplaced buffer spans a point in time the two sides are solved one after the other, without
 * backtracking from one into the other. Several static ranks take turns, with growing effort each. */
#include <stdlib.h>
#include <string.h>

#include "plan/place_priv.h"

enum { MAX_ITEMS = 1000, RANKS = 5 };

struct exact {
    const struct mg_placement *p;
    struct mg_arena *scratch;
    uint64_t cap;
    int64_t effort;
    uint32_t *rank;         /* by item, distinct */
    uint32_t *first, *last; /* by item: its sections [first, last) */
    uint32_t **neighbours;  /* by item: those it meets */
    uint32_t *neighbour_count;
    bool *placed;
    uint64_t *floor; /* by item: the lowest offset above all placed neighbours */
    uint64_t *section_low, *section_sum;
};

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t find_section(const uint32_t *bounds, uint32_t count, uint32_t at)
{
    uint32_t lo = 0, hi = count;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (bounds[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void make_sections(struct exact *x)
{
    const struct mg_placement *p = x->p;
    uint32_t *bounds = MG_NEW_ARRAY(x->scratch, uint32_t, 2 * p->count), count = 0;
    for (size_t i = 0; i < p->count; i++) {
        bounds[2 * i] = p->items[i].lower;
        bounds[2 * i + 1] = p->items[i].upper;
    }
    qsort(bounds, 2 * p->count, sizeof *bounds, compare_u32);
    for (size_t i = 0; i < 2 * p->count; i++)
        if (!count || bounds[count - 1] != bounds[i])
            bounds[count++] = bounds[i];
    for (size_t i = 0; i < p->count; i++) {
        x->first[i] = find_section(bounds, count, p->items[i].lower);
        x->last[i] = find_section(bounds, count, p->items[i].upper);
    }
    x->section_low = MG_NEW_ARRAY(x->scratch, uint64_t, count);
    x->section_sum = MG_NEW_ARRAY(x->scratch, uint64_t, count);
}

static void make_neighbours(struct exact *x)
{
    size_t n = x->p->count;
    uint32_t *list = MG_NEW_ARRAY(x->scratch, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < n; j++)
            if (i != j && x->first[i] < x->last[j] && x->first[j] < x->last[i])
                list[count++] = j;
        x->neighbours[i] = mg_arena_copy(x->scratch, list, count * sizeof *list);
        x->neighbour_count[i] = count;
    }
}

/* ---- ranks ---- */
static void rank_items(struct exact *x, int kind)
{
    const struct mg_placement *p = x->p;
    struct mg_place_key *keys = MG_NEW_ARRAY(x->scratch, struct mg_place_key, p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        double size = (double)p->items[i].size, width = (double)(p->items[i].upper - p->items[i].lower);
        double total = size;
        for (uint32_t k = 0; k < x->neighbour_count[i]; k++)
            total += (double)p->items[x->neighbours[i][k]].size;
        double by[RANKS][2] = {
            {width, size * width}, {size * width, total}, {total, size * width}, {total, width}, {size, width}};
        keys[i] = (struct mg_place_key){{by[kind][0], by[kind][1]}, i};
    }
    qsort(keys, p->count, sizeof *keys, mg_place_compare_keys);
    for (uint32_t i = 0; i < p->count; i++)
        x->rank[keys[i].item] = i;
}

/* ---- search ---- */
struct node {
    const uint32_t *items; /* unplaced, by lower */
    uint32_t count;
    uint64_t at;        /* offset of the last placed: no later one is below it */
    uint32_t last_rank; /* its rank */
};

static uint64_t low_of(const struct exact *x, const struct node *node, uint32_t item)
{
    return x->floor[item] > node->at ? x->floor[item] : node->at;
}

/* Can every section of time hold its unplaced items above the lowest of their floors? */
static bool sections_fit(struct exact *x, const struct node *node)
{
    uint32_t from = UINT32_MAX, to = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t item = node->items[i];
        from = x->first[item] < from ? x->first[item] : from;
        to = x->last[item] > to ? x->last[item] : to;
    }
    memset(x->section_low + from, 0xff, (to - from) * sizeof *x->section_low);
    memset(x->section_sum + from, 0, (to - from) * sizeof *x->section_sum);
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t item = node->items[i];
        uint64_t low = low_of(x, node, item), size = x->p->items[item].size;
        for (uint32_t s = x->first[item]; s < x->last[item]; s++) {
            x->section_low[s] = low < x->section_low[s] ? low : x->section_low[s];
            x->section_sum[s] += size;
        }
        x->effort -= x->last[item] - x->first[item];
    }
    for (uint32_t s = from; s < to; s++)
        if (x->section_sum[s] && x->section_low[s] + x->section_sum[s] > x->cap)
            return false;
    return true;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct mg_place_item *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->lower < y->lower ? -1 : 1; /* lower: the rank, here */
}

/* Items that may come next, lowest first. */
static uint32_t find_candidates(const struct exact *x, const struct node *node, struct mg_place_item *list)
{
    uint64_t lowest_top = UINT64_MAX;
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        uint64_t top = low_of(x, node, node->items[i]) + x->p->items[node->items[i]].size;
        lowest_top = top < lowest_top ? top : lowest_top;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t item = node->items[i];
        uint64_t at = x->floor[item];
        if (at < node->at || at >= lowest_top || (at == node->at && x->rank[item] < node->last_rank))
            continue;
        list[count++] = (struct mg_place_item){.offset = at, .lower = x->rank[item], .buffer = item};
    }
    qsort(list, count, sizeof *list, compare_candidates);
    return count;
}

static bool solve(struct exact *x, const struct node *node);

/* Places `item` at its floor and solves the rest; undone unless that succeeds. */
static bool place_item(struct exact *x, const struct node *node, uint32_t item)
{
    uint32_t n = x->neighbour_count[item], rest_count = 0;
    uint64_t *saved = MG_NEW_ARRAY(x->scratch, uint64_t, n);
    uint32_t *rest = MG_NEW_ARRAY(x->scratch, uint32_t, node->count);
    uint64_t top = x->floor[item] + x->p->items[item].size;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t *floor = &x->floor[x->neighbours[item][k]];
        saved[k] = *floor;
        if (!x->placed[x->neighbours[item][k]] && *floor < top)
            *floor = top;
    }
    for (uint32_t i = 0; i < node->count; i++)
        if (node->items[i] != item)
            rest[rest_count++] = node->items[i];
    x->placed[item] = true;
    struct node next = {rest, rest_count, x->floor[item], x->rank[item]};
    if (solve(x, &next))
        return true;
    x->placed[item] = false;
    for (uint32_t k = 0; k < n; k++)
        x->floor[x->neighbours[item][k]] = saved[k];
    return false;
}

/* Items placed in a component that was solved before another one failed become unplaced again. */
static void unplace(struct exact *x, const uint32_t *items, const uint64_t *floors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        x->placed[items[i]] = false;
        x->floor[items[i]] = floors[i];
    }
}

/* Solves the items of `node` from `from` to `to`; all other unplaced items are elsewhere in time. */
static bool solve_component(struct exact *x, const struct node *node, uint32_t from, uint32_t to)
{
    struct node part = {node->items + from, to - from, node->at, node->last_rank};
    if (!sections_fit(x, &part))
        return false;
    struct mg_place_item *list = MG_NEW_ARRAY(x->scratch, struct mg_place_item, part.count);
    uint32_t count = find_candidates(x, &part, list);
    for (uint32_t c = 0; c < count && x->effort > 0; c++) {
        struct mg_arena_mark mark = mg_arena_mark(x->scratch);
        bool solved = place_item(x, &part, (uint32_t)list[c].buffer);
        mg_arena_rewind(x->scratch, mark);
        if (solved)
            return true;
    }
    return false;
}

static bool solve(struct exact *x, const struct node *node)
{
    uint64_t *floors = MG_NEW_ARRAY(x->scratch, uint64_t, node->count);
    uint32_t from = 0, reach = 0;
    x->effort -= node->count;
    for (uint32_t i = 0; i < node->count; i++)
        floors[i] = x->floor[node->items[i]];
    for (uint32_t i = 0; i <= node->count; i++) {
        if (i == node->count || (i > from && x->first[node->items[i]] >= reach)) {
            if (i > from && !solve_component(x, node, from, i)) {
                unplace(x, node->items, floors, from);
                return false;
            }
            from = i;
        }
        if (i < node->count && (i == from || x->last[node->items[i]] > reach))
            reach = x->last[node->items[i]];
    }
    return true;
}

/* ---- driver ---- */
static void init_exact(struct exact *x)
{
    size_t n = x->p->count;
    x->rank = MG_NEW_ARRAY(x->scratch, uint32_t, n);
    x->first = MG_NEW_ARRAY(x->scratch, uint32_t, n);
    x->last = MG_NEW_ARRAY(x->scratch, uint32_t, n);
    x->neighbours = MG_NEW_ARRAY(x->scratch, uint32_t *, n);
    x->neighbour_count = MG_NEW_ARRAY(x->scratch, uint32_t, n);
    x->placed = MG_NEW_ARRAY(x->scratch, bool, n);
    x->floor = MG_NEW_ARRAY(x->scratch, uint64_t, n);
    make_sections(x);
    make_neighbours(x);
}

static bool attempt(struct exact *x, int kind, uint32_t *items, int64_t effort)
{
    size_t n = x->p->count;
    struct node root = {items, (uint32_t)n, 0, 0};
    rank_items(x, kind);
    memset(x->placed, 0, n * sizeof *x->placed);
    memset(x->floor, 0, n * sizeof *x->floor);
    x->effort = effort;
    return solve(x, &root);
}

/* Items by lower, so that components are runs. */
static uint32_t *items_by_lower(const struct exact *x)
{
    size_t n = x->p->count;
    struct mg_place_key *keys = MG_NEW_ARRAY(x->scratch, struct mg_place_key, n);
    uint32_t *items = MG_NEW_ARRAY(x->scratch, uint32_t, n);
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (struct mg_place_key){{-(double)x->first[i], 0}, i};
    qsort(keys, n, sizeof *keys, mg_place_compare_keys);
    for (uint32_t i = 0; i < n; i++)
        items[i] = keys[i].item;
    return items;
}

static bool try_height(struct mg_placement *p, struct exact *x, uint32_t *items, int64_t effort)
{
    for (int kind = 0; kind < RANKS && p->effort > 0; kind++) {
        struct mg_arena_mark mark = mg_arena_mark(x->scratch);
        int64_t granted = effort < p->effort ? effort : p->effort;
        bool solved = attempt(x, kind, items, granted);
        mg_arena_rewind(x->scratch, mark);
        p->effort -= granted - x->effort;
        if (solved) {
            memcpy(p->best, x->floor, p->count * sizeof *p->best);
            p->height = x->cap;
            return true;
        }
        if (x->effort > 0)
            return false; /* searched to the end: there is no such packing */
    }
    return false;
}

void mg_place_exact(struct mg_placement *p, uint64_t align, struct mg_arena *scratch)
{
    struct exact x = {.p = p, .scratch = scratch};
    (void)align;
    if (p->count > MAX_ITEMS || p->height <= p->bound || p->effort <= 0)
        return;
    init_exact(&x);
    uint32_t *items = items_by_lower(&x);
    for (int64_t effort = 1000000; p->effort > 0 && p->height > p->bound; effort *= 2) {
        x.cap = p->bound;
        if (try_height(p, &x, items, effort))
            return;
    }
}
