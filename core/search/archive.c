#include "search/archive.h"

#include <string.h>

void mg_pool_init(struct mg_pool *pool, struct mg_arena *arena, uint32_t capacity)
{
    *pool = (struct mg_pool){.arena = arena, .capacity = capacity};
}

struct mg_state *mg_pool_copy(struct mg_pool *pool, const struct mg_scheme *scheme, const struct mg_list *list,
                              struct mg_cost cost)
{
    struct mg_state *s = pool->free;
    if (s) {
        pool->free = s->next_free;
    } else {
        s = MG_NEW(pool->arena, struct mg_state);
        s->list.word = MG_NEW_ARRAY(pool->arena, mg_word, pool->capacity);
        s->list.capacity = pool->capacity;
        s->next_made = pool->all;
        pool->all = s;
    }
    s->scheme = scheme;
    s->cost = cost;
    s->hash = mg_list_hash(scheme, list);
    s->users = 1;
    s->visits = 0;
    s->shown = NULL;
    s->list.count = list->count;
    memcpy(s->list.word, list->word, list->count * sizeof *list->word);
    return s;
}

void mg_pool_drop(struct mg_pool *pool, struct mg_state *state)
{
    if (--state->users == 0) {
        state->next_free = pool->free;
        pool->free = state;
    }
}

/* First point whose latency is greater. */
static uint32_t upper_bound(const struct mg_archive *a, double latency)
{
    uint32_t lo = 0, hi = a->count;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (a->state[mid]->cost.latency > latency)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static bool near(struct mg_cost a, struct mg_cost b)
{
    const double slack = 5e-4;
    double peak_a = (double)a.peak, peak_b = (double)b.peak;
    return a.latency >= b.latency * (1 - slack) && peak_a >= peak_b * (1 - slack);
}

bool mg_archive_wants(const struct mg_archive *a, struct mg_cost cost)
{
    uint32_t i = upper_bound(a, cost.latency);
    if (i > 0 && a->state[i - 1]->cost.peak <= cost.peak)
        return false;
    if (i == 0 || i == a->count)
        return true;
    return !near(cost, a->state[i]->cost) && !near(cost, a->state[i - 1]->cost);
}

bool mg_archive_offer(struct mg_archive *a, struct mg_pool *pool, const struct mg_scheme *scheme,
                      const struct mg_list *list, struct mg_cost cost)
{
    if (!mg_archive_wants(a, cost))
        return false;
    uint32_t i = upper_bound(a, cost.latency), first = i, last = i;
    while (first > 0 && a->state[first - 1]->cost.latency == cost.latency)
        first--;
    while (last < a->count && a->state[last]->cost.peak >= cost.peak)
        last++;
    if (a->count - (last - first) >= MG_ARCHIVE_MAX)
        return false;
    struct mg_state *s = mg_pool_copy(pool, scheme, list, cost);
    for (uint32_t k = first; k < last; k++)
        mg_pool_drop(pool, a->state[k]);
    memmove(&a->state[first + 1], &a->state[last], (a->count - last) * sizeof *a->state);
    a->state[first] = s;
    a->count = a->count - (last - first) + 1;
    return true;
}

struct mg_state *mg_archive_within(const struct mg_archive *a, double latency)
{
    uint32_t i = upper_bound(a, latency);
    return i ? a->state[i - 1] : NULL;
}

struct mg_state *mg_archive_under(const struct mg_archive *a, uint64_t peak)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->state[i]->cost.peak <= peak)
            return a->state[i];
    return NULL;
}
