/* One pass over the topological order finds immediate dominators of a DAG (the nearest common
 * ancestor of all predecessors); heats and cold inputs are summed up the tree.
 * O(edges * depth). Source: MAGIS, Algorithm 1. */
#include "search/tree.h"

#include <string.h>

static uint32_t common_ancestor(const uint32_t *parent, const uint32_t *depth, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (depth[a] >= depth[b])
            a = parent[a];
        else
            b = parent[b];
    }
    return a;
}

bool mg_dominators_under(const struct mg_dominators *d, uint32_t node, uint32_t above)
{
    for (node = d->parent[node]; node != MG_NONE; node = d->parent[node])
        if (node == above)
            return true;
    return false;
}

/* A source is an input of what lies under v if a reader lies under v and its maker does not: walk up
 * from each reader's parent to the first node that has the maker under it. */
static void charge_source(const struct mg_flow *flow, struct mg_dominators *d, uint32_t source, uint32_t *charged,
                          uint8_t *above_maker)
{
    uint32_t maker = flow->maker[source];
    if (maker != MG_NONE)
        for (uint32_t v = d->parent[maker]; v != MG_NONE; v = d->parent[v])
            above_maker[v] = 1;
    for (uint32_t i = flow->readers.start[source]; i < flow->readers.start[source + 1]; i++)
        for (uint32_t v = d->parent[flow->readers.item[i]]; v != MG_NONE && !above_maker[v]; v = d->parent[v]) {
            if (charged[v] == source + 1)
                break; /* this and all above are charged */
            charged[v] = source + 1;
            d->score[v] -= (double)flow->cold[source];
        }
    if (maker != MG_NONE)
        for (uint32_t v = d->parent[maker]; v != MG_NONE; v = d->parent[v])
            above_maker[v] = 0;
}

void mg_dominators_build(const struct mg_flow *flow, struct mg_arena *arena, struct mg_dominators *out)
{
    uint32_t n = flow->count;
    out->parent = MG_NEW_ARRAY(arena, uint32_t, n);
    out->heat = MG_NEW_ARRAY(arena, double, n);
    out->score = MG_NEW_ARRAY(arena, double, n);
    uint32_t *depth = MG_NEW_ARRAY(arena, uint32_t, n);
    uint32_t *charged = MG_NEW_ARRAY(arena, uint32_t, n);
    uint8_t *above = MG_NEW_ARRAY(arena, uint8_t, n);
    out->parent[0] = MG_NONE;
    for (uint32_t v = 1; v < n; v++) {
        uint32_t from = flow->pred.start[v], to = flow->pred.start[v + 1];
        uint32_t idom = from == to ? 0 : flow->pred.item[from];
        for (uint32_t i = from + 1; i < to; i++)
            idom = common_ancestor(out->parent, depth, idom, flow->pred.item[i]);
        out->parent[v] = idom;
        depth[v] = depth[idom] + 1;
    }
    for (uint32_t v = n; v-- > 1;)
        out->heat[out->parent[v]] += out->heat[v] + (double)flow->hot[v];
    for (uint32_t v = 0; v < n; v++)
        out->score[v] = out->heat[v] / 2;
    for (uint32_t s = 0; s < flow->sources; s++)
        if (flow->cold[s])
            charge_source(flow, out, s, charged, above);
}

/* Band of a score; 0: too small for a candidate. The best stands alone in band `bands`. */
static uint32_t band_of(double score, double best, uint32_t bands)
{
    if (score >= best)
        return bands;
    for (uint32_t i = bands - 1; i >= 1; i--)
        if (score * bands >= best * i)
            return i;
    return 0;
}

uint32_t mg_dominators_choose(const struct mg_flow *flow, const struct mg_dominators *d, uint32_t bands,
                              struct mg_arena *scratch, uint8_t *chosen)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    uint32_t n = flow->count, count = 0;
    uint32_t *below = MG_NEW_ARRAY(scratch, uint32_t, n); /* mask of bands strictly under a node */
    double best = 0;
    memset(chosen, 0, n);
    for (uint32_t v = 0; v < n; v++)
        best = d->score[v] > best ? d->score[v] : best;
    for (uint32_t v = n; best > 0 && v-- > 0;) {
        uint32_t band = band_of(d->score[v], best, bands);
        chosen[v] = band > 0 && !(below[v] & 1u << band);
        count += chosen[v];
        if (v > 0)
            below[d->parent[v]] |= below[v] | (band > 0 ? 1u << band : 0);
    }
    mg_arena_rewind(scratch, mark);
    return count;
}

/* Nobody runs a region in more parts; dimensions may be far longer. */
enum { MOST_PARTS = 1 << 16 };

uint32_t mg_part_counts(int64_t length, uint32_t counts[MG_PARTS_MAX])
{
    uint32_t n = 0;
    int64_t most = length < MOST_PARTS ? length : MOST_PARTS;
    for (int64_t c = 2; c <= most && n < MG_PARTS_MAX; c++) {
        bool small = c <= 8 || c == 10 || c == 12;
        int64_t odd = c;
        while (odd % 2 == 0)
            odd /= 2;
        if (small || (c >= 16 && (odd == 1 || odd == 3)) || length % c == 0)
            counts[n++] = (uint32_t)c;
    }
    return n;
}

uint32_t mg_parts_next(int64_t length, uint32_t parts, bool up)
{
    uint32_t counts[MG_PARTS_MAX], n = mg_part_counts(length, counts), next = parts;
    for (uint32_t i = 0; i < n; i++) {
        if (up && counts[i] > parts)
            return counts[i];
        if (!up && counts[i] < parts)
            next = counts[i];
    }
    return next;
}
