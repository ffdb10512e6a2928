/* Search for a packing of a given height, in the spirit of MiniMalloc (Moffitt, ASPLOS 2023).
 *
 * Only *pushed-down* packings are looked for: every buffer lies on the bottom or on another one. Each
 * unplaced buffer has a floor, above all that was placed. Time is cut into sections in which the same
 * buffers live. In a section whose lowest floor is `low`, either one of its buffers with that floor rests there,
 * or that place stays empty and they all go higher. A node branches on the section with the fewest such ways
 * (fail first; one way is a forced move; without slack nothing may stay empty). Sections qualify only
 * if no unplaced buffer could still come to lie under their candidates, so that floors say it all. Pruned
 * is a node in which some section cannot hold its unplaced buffers above its lowest floor.
 * Where no unplaced buffer spans a point in time the two sides are solved one after the other, without
 * backtracking from one into the other. Several ranks of candidates take turns, shaken at random, with growing effort.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/place_priv.h"

enum { MAX_ITEMS = 1000, RANKS = 5, FIRST_GRANT = 1000000 };

struct section {
    uint64_t low, sum; /* of the unplaced items that live there: lowest floor, sizes */
    uint32_t count;    /* those at the lowest floor */
};

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
    uint64_t *floor;  /* by item: the lowest offset above all placed neighbours */
    uint64_t *lifted; /* by item, scratch */
    struct section *sections;
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
    x->sections = MG_NEW_ARRAY(x->scratch, struct section, count);
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
static void rank_items(struct exact *x, uint32_t attempt)
{
    uint32_t kind = attempt % RANKS;
    struct mg_rng rng;
    mg_rng_init(&rng, attempt);
    const struct mg_placement *p = x->p;
    struct mg_place_key *keys = MG_NEW_ARRAY(x->scratch, struct mg_place_key, p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        double size = (double)p->items[i].size, width = (double)(p->items[i].upper - p->items[i].lower);
        double total = size;
        for (uint32_t k = 0; k < x->neighbour_count[i]; k++)
            total += (double)p->items[x->neighbours[i][k]].size;
        double by[RANKS][2] = {
            {width, size * width}, {size * width, total}, {total, size * width}, {total, width}, {size, width}};
        double shake = attempt < RANKS ? 1 : 0.5 + mg_rng_unit(&rng);
        keys[i] = (struct mg_place_key){{by[kind][0] * shake, by[kind][1]}, i};
    }
    qsort(keys, p->count, sizeof *keys, mg_place_compare_keys);
    for (uint32_t i = 0; i < p->count; i++)
        x->rank[keys[i].item] = i;
}

/* ---- search ---- */
struct node {
    const uint32_t *items; /* unplaced, by lower */
    uint32_t count;
};
/* Where to branch: the items that may rest at the lowest free level of one section of time. */
struct choice {
    uint32_t section, count;
    uint64_t low, slack;
};

static uint64_t top_of(const struct exact *x, uint32_t item)
{
    return x->floor[item] + x->p->items[item].size;
}

/* Fills, for every section the node's items live in, the lowest of their floors, the sum of their sizes and how many
 * could rest at the lowest level. */
static void scan_sections(struct exact *x, const struct node *node, uint32_t *from, uint32_t *to)
{
    *from = UINT32_MAX;
    *to = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t item = node->items[i];
        *from = x->first[item] < *from ? x->first[item] : *from;
        *to = x->last[item] > *to ? x->last[item] : *to;
    }
    memset(x->sections + *from, 0, (*to - *from) * sizeof *x->sections);
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t item = node->items[i];
        uint64_t low = x->floor[item], size = x->p->items[item].size;
        for (uint32_t s = x->first[item]; s < x->last[item]; s++) {
            struct section *at = &x->sections[s];
            if (!at->sum || low < at->low) {
                at->low = low;
                at->count = 0;
            }
            at->count += low == at->low;
            at->sum += size;
        }
        x->effort -= x->last[item] - x->first[item];
    }
}

/* Nothing unplaced can come to lie under the item where it is now. */
static bool rests_safely(struct exact *x, uint32_t item)
{
    x->effort -= x->neighbour_count[item];
    for (uint32_t k = 0; k < x->neighbour_count[item]; k++) {
        uint32_t other = x->neighbours[item][k];
        if (!x->placed[other] && top_of(x, other) <= x->floor[item])
            return false;
    }
    return true;
}

static bool rests_in(const struct exact *x, uint32_t item, uint32_t section, uint64_t low)
{
    return x->first[item] <= section && section < x->last[item] && x->floor[item] == low;
}

static bool all_rest_safely(struct exact *x, const struct node *node, uint32_t section, uint64_t low)
{
    for (uint32_t i = 0; i < node->count; i++)
        if (rests_in(x, node->items[i], section, low) && !rests_safely(x, node->items[i]))
            return false;
    return true;
}

static bool better_choice(const struct choice *a, const struct choice *b)
{
    uint32_t branches_a = a->count + (a->slack > 0), branches_b = b->count + (b->slack > 0);
    if (branches_a != branches_b)
        return branches_a < branches_b;
    return a->slack != b->slack ? a->slack < b->slack : a->low < b->low;
}

/* The section with the fewest ways on; false if some section cannot hold its items any more. */
static bool choose_section(struct exact *x, const struct node *node, struct choice *best)
{
    uint32_t from, to;
    scan_sections(x, node, &from, &to);
    for (uint32_t s = from; s < to; s++)
        if (x->sections[s].sum && x->sections[s].low + x->sections[s].sum > x->cap)
            return false;
    best->count = UINT32_MAX - 1;
    best->slack = UINT64_MAX;
    for (uint32_t s = from; s < to; s++) {
        const struct section *at = &x->sections[s];
        struct choice choice = {s, at->count, at->low, x->cap - at->low - at->sum};
        bool repeats = s > from && at->sum == at[-1].sum && at->low == at[-1].low && at->count == at[-1].count;
        if (at->sum && !repeats && better_choice(&choice, best) && all_rest_safely(x, node, s, at->low))
            *best = choice;
    }
    return true;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct mg_place_key *x = a, *y = b;
    return x->by[0] < y->by[0] ? -1 : 1;
}

/* The items that may rest in the chosen place, by rank. */
static uint32_t find_candidates(const struct exact *x, const struct node *node, const struct choice *choice,
                                struct mg_place_key *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->count; i++)
        if (rests_in(x, node->items[i], choice->section, choice->low))
            list[count++] = (struct mg_place_key){{x->rank[node->items[i]], 0}, node->items[i]};
    qsort(list, count, sizeof *list, compare_candidates);
    return count;
}

static bool solve(struct exact *x, const struct node *node);

/* Places `item` at its floor and solves the rest; undone unless that succeeds. */
static bool place_item(struct exact *x, const struct node *node, uint32_t item)
{
    uint32_t n = x->neighbour_count[item], rest_count = 0;
    uint64_t *saved = MG_NEW_ARRAY(x->scratch, uint64_t, n), top = top_of(x, item);
    uint32_t *rest = MG_NEW_ARRAY(x->scratch, uint32_t, node->count);
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
    struct node next = {rest, rest_count};
    if (solve(x, &next))
        return true;
    x->placed[item] = false;
    for (uint32_t k = 0; k < n; k++)
        x->floor[x->neighbours[item][k]] = saved[k];
    return false;
}

/* The item does not rest at its floor: then on another unplaced one. False if there is none. */
static bool lift(struct exact *x, uint32_t item)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t k = 0; k < x->neighbour_count[item]; k++) {
        uint32_t other = x->neighbours[item][k];
        if (!x->placed[other] && top_of(x, other) < lowest)
            lowest = top_of(x, other);
    }
    if (lowest == UINT64_MAX)
        return false;
    x->lifted[item] = lowest > x->floor[item] ? lowest : x->floor[item] + 1;
    return true;
}

/* Leaves the chosen place empty: all that could rest there goes higher. */
static bool waste_place(struct exact *x, const struct node *node, const struct mg_place_key *list, uint32_t count)
{
    uint64_t *saved = MG_NEW_ARRAY(x->scratch, uint64_t, count);
    for (uint32_t c = 0; c < count; c++)
        if (!lift(x, list[c].item))
            return false;
    for (uint32_t c = 0; c < count; c++) {
        saved[c] = x->floor[list[c].item];
        x->floor[list[c].item] = x->lifted[list[c].item];
    }
    if (solve(x, node))
        return true;
    for (uint32_t c = 0; c < count; c++)
        x->floor[list[c].item] = saved[c];
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
    struct node part = {node->items + from, to - from};
    struct choice choice = {0};
    if (x->effort <= 0 || !choose_section(x, &part, &choice))
        return false;
    struct mg_place_key *list = MG_NEW_ARRAY(x->scratch, struct mg_place_key, choice.count);
    uint32_t count = find_candidates(x, &part, &choice, list);
    bool solved = false;
    for (uint32_t c = 0; c <= count && x->effort > 0 && !solved; c++) {
        struct mg_arena_mark mark = mg_arena_mark(x->scratch);
        if (c < count)
            solved = place_item(x, &part, list[c].item);
        else if (choice.slack)
            solved = waste_place(x, &part, list, count);
        mg_arena_rewind(x->scratch, mark);
    }
    return solved;
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
    x->lifted = MG_NEW_ARRAY(x->scratch, uint64_t, n);
    make_sections(x);
    make_neighbours(x);
}

static bool attempt(struct exact *x, uint32_t number, uint32_t *items, int64_t effort)
{
    size_t n = x->p->count;
    struct node root = {items, (uint32_t)n};
    rank_items(x, number);
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

static void take(struct mg_placement *p, const struct exact *x)
{
    p->height = 0;
    for (size_t i = 0; i < p->count; i++) {
        p->best[i] = x->floor[i];
        if (top_of(x, (uint32_t)i) > p->height)
            p->height = top_of(x, (uint32_t)i);
    }
}

/* Tries to pack below `cap` with at most `effort`, in attempts that grow. */
static bool search_height(struct mg_placement *p, struct exact *x, uint32_t *items, uint64_t cap, int64_t effort)
{
    int64_t grant = FIRST_GRANT;
    x->cap = cap;
    for (uint32_t number = 0; effort > 0; number++) {
        struct mg_arena_mark mark = mg_arena_mark(x->scratch);
        int64_t granted = grant < effort ? grant : effort;
        bool solved = attempt(x, number, items, granted);
        mg_arena_rewind(x->scratch, mark);
        effort -= granted - x->effort;
        p->effort -= granted - x->effort;
        if (solved)
            take(p, x);
        if (solved || x->effort > 0) /* found, or searched to the end: there is no such packing */
            return solved;
        grant += number % RANKS == RANKS - 1 ? grant / 8 : 0;
    }
    return false;
}

void mg_place_exact(struct mg_placement *p, int64_t effort, struct mg_arena *scratch)
{
    struct exact x = {.p = p, .scratch = scratch};
    if (p->count > MAX_ITEMS || p->height <= p->bound || effort <= 0)
        return;
    init_exact(&x);
    uint32_t *items = items_by_lower(&x);
    if (search_height(p, &x, items, p->bound, effort / 2))
        return;
    uint64_t failed = p->bound;
    for (int round = 0; round < 8 && p->height - failed > p->bound / 512; round++) {
        uint64_t cap = failed + (p->height - failed) / 2;
        if (!search_height(p, &x, items, cap, effort / 16))
            failed = cap;
    }
}
