/* Which windows of a list to take, and what a better order is (MAGIS section 5). */
#include "search/schedule.h"

#include <string.h>

/* What the search spends on a window: about as much as a hundred evaluations. */
enum { IMPROVE_SETS = 1000, IMPROVE_BEAM = 16, IMPROVE_REACH = 20 };

/* ---- intervals ---- */

/* Steps of the window that are independent of each one. */
static uint32_t *find_widths(const struct mg_ordering *o, struct mg_arena *scratch)
{
    struct mg_set *ancestors = MG_NEW_ARRAY(scratch, struct mg_set, o->count);
    struct mg_set *descendants = MG_NEW_ARRAY(scratch, struct mg_set, o->count);
    uint32_t *width = MG_NEW_ARRAY(scratch, uint32_t, o->count);
    mg_ordering_close(o, ancestors, descendants);
    for (uint32_t i = 0; i < o->count; i++) {
        uint32_t bound = 0;
        for (int w = 0; w < MG_SET_WORDS; w++)
            bound += (uint32_t)__builtin_popcountll(ancestors[i].word[w] | descendants[i].word[w]);
        width[i] = o->count - 1 - bound;
    }
    return width;
}

enum { WAIST_WIDE = 10, WAIST_NARROW = 4 };

/* Goes on while the waist is wide, or the next is narrow and it keeps shrinking. */
static bool goes_on(uint32_t here, uint32_t next)
{
    return here > WAIST_WIDE || (next < WAIST_NARROW && next < here);
}

void mg_schedule_interval(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                          const uint64_t *live, const struct mg_schedule_limits *limits, struct mg_arena *scratch,
                          uint32_t *from, uint32_t *to)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct mg_level level = mg_level_around(list, *from, false);
    uint32_t low = *from, high = *to, first = 0, last;
    struct mg_window w;
    for (uint32_t n = 0; n <= limits->reach && low > level.from; n++)
        low = mg_item_before(list, low);
    for (uint32_t n = 0; n <= limits->reach && high < level.to; n++)
        high = mg_item_end(list, high);
    if (mg_window_build(p, scheme, list, live, low, high, limits, scratch, &w) && w.ordering.count) {
        const uint32_t *width = find_widths(&w.ordering, scratch);
        while (w.first[first + 1] <= *from)
            first++;
        for (last = first; w.first[last + 1] < *to; last++)
            continue;
        for (uint32_t n = 0; n < limits->reach && first > 0 && goes_on(width[first], width[first - 1]); n++)
            first--;
        for (uint32_t n = 0; n < limits->reach && last + 1 < w.ordering.count && goes_on(width[last], width[last + 1]);
             n++)
            last++;
        *from = w.first[first];
        *to = w.first[last + 1];
    }
    mg_arena_rewind(scratch, mark);
}

/* ---- re-ordering ---- */

static void write_window(struct mg_list *list, const struct mg_window *w, const uint32_t *order,
                         struct mg_arena *scratch)
{
    uint32_t from = w->first[0], to = w->first[w->ordering.count], n = from;
    const mg_word *old = mg_arena_copy(scratch, &list->word[from], (to - from) * sizeof *old);
    for (uint32_t i = 0; i < w->ordering.count; i++)
        for (uint32_t j = w->first[order[i]]; j < w->first[order[i] + 1]; j++)
            list->word[n++] = old[j - from];
}

bool mg_schedule_window(const struct mg_problem *p, const struct mg_scheme *scheme, struct mg_list *list,
                        const uint64_t *live, uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                        struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct mg_window w;
    uint32_t order[MG_SET_MAX];
    bool better = false;
    if (mg_window_build(p, scheme, list, live, from, to, limits, scratch, &w) && w.ordering.count > 1) {
        better = mg_ordering_solve(&w.ordering, scratch, order, NULL);
        if (better)
            write_window(list, &w, order, scratch);
    }
    mg_arena_rewind(scratch, mark);
    return better;
}

static uint64_t most_live(const uint64_t *live, uint32_t from, uint32_t to)
{
    uint64_t most = 0;
    for (uint32_t i = from; i < to; i++)
        most = live[i] > most ? live[i] : most;
    return most;
}

/* Re-orders and keeps what the evaluator says is no worse. */
static bool try_window(struct mg_evaluator *e, const struct mg_scheme *scheme, struct mg_list *list, uint32_t from,
                       uint32_t to, const struct mg_schedule_limits *limits, struct mg_arena *scratch, uint64_t *peak)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    mg_word *old = mg_arena_copy(scratch, &list->word[from], (to - from) * sizeof *old);
    bool better = most_live(e->live_at, from, to) > limits->target &&
                  mg_schedule_window(e->p, scheme, list, e->live_at, from, to, limits, scratch);
    if (better) {
        uint64_t found = mg_evaluate(e, scheme, list).peak;
        if (found > *peak) {
            memcpy(&list->word[from], old, (to - from) * sizeof *old);
            mg_evaluate(e, scheme, list);
            better = false;
        } else {
            *peak = found;
        }
    }
    mg_arena_rewind(scratch, mark);
    return better;
}

/* The end of the window from `from`: all that is left, or the narrowest place in its second half. */
static uint32_t window_end(const struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list,
                           uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                           struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    uint32_t end = from, n = 0;
    struct mg_window w;
    for (; n < MG_SET_MAX && end < to; n++)
        end = mg_item_end(list, end);
    if (end < to && mg_window_build(e->p, scheme, list, e->live_at, from, end, limits, scratch, &w)) {
        const uint32_t *width = find_widths(&w.ordering, scratch);
        uint32_t best = n / 2;
        for (uint32_t i = n / 2; i + 1 < n; i++)
            if (width[i] <= width[best])
                best = i;
        end = w.first[best + 1];
    }
    mg_arena_rewind(scratch, mark);
    return end;
}

static bool schedule_level(struct mg_evaluator *e, const struct mg_scheme *scheme, struct mg_list *list,
                           struct mg_level level, const struct mg_schedule_limits *limits, struct mg_arena *scratch,
                           uint64_t *peak)
{
    bool better = false;
    for (uint32_t from = level.from; from < level.to;) {
        uint32_t to = window_end(e, scheme, list, from, level.to, limits, scratch);
        better |= try_window(e, scheme, list, from, to, limits, scratch, peak);
        from = to;
    }
    return better;
}

bool mg_schedule_all(struct mg_evaluator *e, const struct mg_scheme *scheme, struct mg_list *list,
                     const struct mg_schedule_limits *limits, struct mg_arena *scratch)
{
    uint64_t peak = mg_evaluate(e, scheme, list).peak;
    uint32_t open[MG_SCHEME_MAX_DEPTH], depth = 0;
    bool better = false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (mg_word_kind(list->word[i]) == MG_WORD_BEGIN)
            open[depth++] = i + 1;
        else if (mg_word_kind(list->word[i]) == MG_WORD_END)
            better |= schedule_level(e, scheme, list, (struct mg_level){open[--depth], i}, limits, scratch, &peak);
    }
    return schedule_level(e, scheme, list, (struct mg_level){0, list->count}, limits, scratch, &peak) || better;
}

/* ---- for the search ---- */

static struct mg_order_cost cost_of(const uint64_t *live, uint32_t count, uint64_t target)
{
    struct mg_order_cost cost = {target, 0};
    for (uint32_t i = 0; i < count; i++)
        if (live[i] > target) {
            cost.peak = live[i] > cost.peak ? live[i] : cost.peak;
            cost.excess += live[i] - target;
        }
    return cost;
}

/* The list is better as re-ordered within [from, to), and not too slow. */
static bool improve_window(struct mg_searcher *s, struct mg_reorder *r, uint32_t from, uint32_t to,
                           const struct mg_schedule_limits *limits)
{
    mg_list_copy(&s->trial, r->list);
    if (!mg_schedule_window(s->p, r->scheme, &s->trial, s->live, from, to, limits, s->scratch))
        return false;
    struct mg_cost found = mg_searcher_try(s, r->scheme, &s->trial);
    struct mg_order_cost before = cost_of(s->live, r->list->count, r->target);
    struct mg_order_cost after = cost_of(s->evaluator.live_at, s->trial.count, r->target);
    if (found.latency > r->latency_cap || after.peak > before.peak ||
        (after.peak == before.peak && after.excess >= before.excess))
        return false;
    mg_list_copy(r->list, &s->trial);
    r->cost = found;
    return true;
}

/* The steps around: what is alive there may differ where they are the same, but rarely helps. */
static uint64_t hash_surroundings(const struct mg_list *list, uint32_t step)
{
    uint32_t from = step > IMPROVE_REACH ? step - IMPROVE_REACH : 0;
    uint32_t to = list->count - step > IMPROVE_REACH ? step + IMPROVE_REACH : list->count;
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = from; i < to; i++)
        h = (h ^ list->word[i] ^ h >> 29) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

bool mg_schedule_improve(struct mg_searcher *s, struct mg_reorder *r)
{
    const struct mg_schedule_limits limits = {IMPROVE_SETS, IMPROVE_BEAM, IMPROVE_REACH, r->target};
    uint64_t hash = hash_surroundings(r->list, r->around_step), *known = &s->no_order[hash % MG_NO_ORDER];
    uint32_t step = r->around_step;
    if (*known == hash && !r->again)
        return false;
    for (;;) {
        if (mg_word_kind(r->list->word[step]) == MG_WORD_END)
            step = mg_item_before(r->list, step + 1);
        uint32_t from = step, to = mg_item_end(r->list, step);
        mg_schedule_interval(s->p, r->scheme, r->list, s->live, &limits, s->scratch, &from, &to);
        if (improve_window(s, r, from, to, &limits))
            return true;
        uint32_t begin = mg_level_around(r->list, step, false).from;
        if (begin == 0)
            break;
        step = begin - 1;
    }
    *known = hash;
    return false;
}
