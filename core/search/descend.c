/* Greedy descent: while the peak is above the target, edit what is alive across the peak step.
 *
 * Each gap across the peak offers a recomputation and a swap. Their gain is the drop of the *excess*
 * (the area of live bytes above the target, over steps), their price the added latency. Both are
 * estimated for all gaps, and measured exactly for the few with the best estimates. */
#include <stdlib.h>
#include <string.h>

#include "search/schedule.h"

enum { TRIES = 4, TRIES_MAX = 12, CANDIDATES_MAX = 512 };
enum { STALE_MAX = 8 }; /* an edit may raise the peak, an order the excess: together they could go round for ever */

struct candidate {
    uint32_t gap;
    bool swaps;
    double score; /* estimated bytes * steps per second */
    double seconds;
    double worth; /* swaps: the link is scarce, so values that are dear to recompute go first */
};

static double excess_of(const uint64_t *live, uint32_t count, uint64_t target)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        if (live[i] > target)
            sum += (double)(live[i] - target);
    return sum;
}

/* What freeing `bytes` over the gap takes from the excess. */
static double gap_gain(const struct mg_searcher *s, const struct mg_descent *d, const struct mg_gap *gap)
{
    uint64_t bytes = d->scheme->bytes[gap->root];
    double sum = 0;
    for (uint32_t i = gap->before == MG_NONE ? 0 : gap->before + 1; i < gap->after; i++)
        if (s->live[i] > d->target) {
            uint64_t over = s->live[i] - d->target;
            sum += (double)(over < bytes ? over : bytes);
        }
    return sum;
}

/* Share of the link that the list leaves idle: copies are free as long as it lasts. */
static double link_slack(const struct mg_descent *d)
{
    const struct mg_scheme *scheme = d->scheme;
    double busy = 0;
    for (uint32_t i = 0; i < d->list->count; i++) {
        uint32_t x = mg_word_index(d->list->word[i]);
        if (mg_word_kind(d->list->word[i]) != MG_WORD_LOAD)
            continue;
        uint32_t parts = scheme->home[x] == MG_NONE ? 1 : scheme->regions[scheme->home[x]].parts;
        busy += parts * scheme->load_s[0][x];
    }
    double slack = d->cost.latency - busy;
    return slack > 0 ? slack : 0;
}

static double copy_seconds(const struct mg_descent *d, uint32_t root)
{
    const struct mg_scheme *scheme = d->scheme;
    uint32_t parts = scheme->home[root] == MG_NONE ? 1 : scheme->regions[scheme->home[root]].parts;
    return parts * (scheme->load_s[0][root] + scheme->store_s[0][root]);
}

static double swap_seconds(const struct mg_descent *d, uint32_t root, double slack)
{
    double copy = copy_seconds(d, root);
    return copy < slack ? 0.02 * copy : copy;
}

static double swap_worth(const struct mg_descent *d, uint32_t root, double recompute_seconds)
{
    double worth = recompute_seconds / copy_seconds(d, root);
    return worth < 0.05 ? 0.05 : worth > 2 ? 2 : worth;
}

bool mg_may_swap(const struct mg_searcher *s, const struct mg_scheme *scheme, uint32_t root)
{
    mg_op maker = s->p->g->values[root].producer;
    if (!(s->options->techniques & MG_TECHNIQUE_SWAP) || scheme->is_region_output[root])
        return false;
    if (scheme->home[root] != MG_NONE &&
        (scheme->regions[scheme->home[root]].depth > 0 || scheme->regions[scheme->home[root]].has_nested))
        return false; /* the evaluator times copies in plain outermost bodies only */
    return maker == MG_NONE || !(s->p->forbidden[maker] & MG_TECHNIQUE_SWAP);
}

static void add_candidate(struct candidate *list, uint32_t *count, struct candidate c)
{
    if (*count < CANDIDATES_MAX)
        list[(*count)++] = c;
}

static uint32_t find_candidates(struct mg_searcher *s, const struct mg_descent *d, uint32_t gaps,
                                struct candidate *list)
{
    const double floor_seconds = 1e-5 * s->original.latency;
    double slack = link_slack(d);
    uint32_t count = 0;
    for (uint32_t i = 0; i < gaps; i++) {
        double gain = gap_gain(s, d, &s->gaps[i]);
        struct mg_chain chain;
        if (gain <= 0)
            continue;
        bool repeats = s->options->techniques & MG_TECHNIQUE_REMAT &&
                       mg_chain_find(&s->spans, s->p, d->scheme, &s->gaps[i], &chain);
        if (repeats)
            add_candidate(list, &count,
                          (struct candidate){i, false, gain / (chain.seconds + floor_seconds), chain.seconds, 1});
        if (mg_may_swap(s, d->scheme, s->gaps[i].root)) {
            double seconds = swap_seconds(d, s->gaps[i].root, slack);
            double worth = repeats ? swap_worth(d, s->gaps[i].root, chain.seconds) : 2;
            add_candidate(list, &count,
                          (struct candidate){i, true, worth * gain / (seconds + floor_seconds), seconds, worth});
        }
    }
    return count;
}

static int by_score(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    if (x->gap != y->gap)
        return x->gap < y->gap ? -1 : 1;
    return (int)x->swaps - (int)y->swaps;
}

static bool make_edit(struct mg_searcher *s, const struct mg_descent *d, const struct candidate *c, bool now,
                      struct mg_list *out)
{
    const struct mg_gap *gap = &s->gaps[c->gap];
    struct mg_chain chain;
    if (c->swaps)
        return mg_edit_swap(&s->spans, d->list, gap, now, out);
    return mg_chain_find(&s->spans, s->p, d->scheme, gap, &chain) && mg_edit_remat(d->list, gap, &chain, out);
}

/* The best edit measured so far; its list is s->best, its live bytes s->best_live. */
struct choice {
    double score, excess;
    struct mg_cost cost;
    uint32_t useful; /* measured edits that took something from the excess */
};

static void measure(struct mg_searcher *s, const struct mg_descent *d, const struct candidate *c, double excess,
                    struct choice *best)
{
    const double floor_seconds = 1e-5 * s->original.latency;
    struct mg_cost cost = mg_searcher_try(s, d->scheme, &s->trial);
    double left = excess_of(s->evaluator.live_at, s->trial.count, d->target);
    double added = cost.latency - d->cost.latency;
    double score = c->worth * (excess - left) / ((added > 0 ? added : 0) + floor_seconds);
    if (cost.latency > d->latency_cap || left >= excess)
        return;
    if (d->noise)
        score *= 1.0 - 0.3 * mg_rng_unit(&s->rng);
    best->useful++;
    if (score <= best->score)
        return;
    best->score = score;
    best->excess = left;
    best->cost = cost;
    mg_list_copy(&s->best, &s->trial);
    memcpy(s->best_live, s->evaluator.live_at, s->trial.count * sizeof *s->best_live);
}

/* A few of each kind, more where none of them helps. */
static void measure_best(struct mg_searcher *s, const struct mg_descent *d, const struct candidate *list,
                         uint32_t count, double excess, struct choice *best)
{
    uint32_t tries[2] = {0, 0}, skip = d->noise ? (uint32_t)mg_rng_below(&s->rng, d->noise + 1) : 0;
    for (uint32_t i = 0; i < count && !s->stop; i++) {
        bool enough = tries[list[i].swaps] >= (best->useful ? TRIES + skip : TRIES_MAX);
        if (enough || !make_edit(s, d, &list[i], false, &s->trial))
            continue;
        tries[list[i].swaps]++;
        measure(s, d, &list[i], excess, best);
    }
    /* the link is too slow for copies beside the computation: let it wait for them */
    for (uint32_t i = 0, waits = 0; i < count && !best->useful && waits < TRIES_MAX && !s->stop; i++)
        if (list[i].swaps && make_edit(s, d, &list[i], true, &s->trial)) {
            waits++;
            measure(s, d, &list[i], excess, best);
        }
}

/* Measures the best candidates exactly and steps to the best of them. */
static bool step(struct mg_searcher *s, struct mg_descent *d, double *excess)
{
    struct candidate list[CANDIDATES_MAX];
    struct choice best = {0};
    uint32_t peak_step = 0;
    mg_spans_build(&s->spans, s->p, d->scheme, d->list);
    for (uint32_t i = 0; i < d->list->count; i++)
        if (s->live[i] > s->live[peak_step])
            peak_step = i;
    uint32_t gaps = mg_gaps_at(&s->spans, s->p, d->scheme, d->list, peak_step, s->scratch, s->gaps);
    uint32_t count = find_candidates(s, d, gaps, list);
    qsort(list, count, sizeof *list, by_score);
    measure_best(s, d, list, count, *excess, &best);
    if (!best.useful)
        return false;
    mg_list_copy(d->list, &s->best);
    memcpy(s->live, s->best_live, s->best.count * sizeof *s->live);
    d->cost = best.cost;
    *excess = best.excess;
    return true;
}

/* Re-ordering around the first step at the peak. */
static bool reorder(struct mg_searcher *s, struct mg_descent *d, bool again, double *excess)
{
    uint32_t peak_step = 0;
    if (!(s->options->techniques & MG_TECHNIQUE_REORDER))
        return false;
    for (uint32_t i = 0; i < d->list->count; i++)
        if (s->live[i] > s->live[peak_step])
            peak_step = i;
    struct mg_reorder r = {d->scheme, d->list, peak_step, d->target, d->latency_cap, again, d->cost};
    if (!mg_schedule_improve(s, &r))
        return false;
    d->cost = r.cost;
    memcpy(s->live, s->evaluator.live_at, d->list->count * sizeof *s->live);
    *excess = excess_of(s->live, d->list->count, d->target);
    return true;
}

/* Re-ordering costs no time, so it comes before the edits; where they are stuck it is tried once more. */
static bool come_down(struct mg_searcher *s, struct mg_descent *d, double *excess)
{
    return reorder(s, d, false, excess) || step(s, d, excess) || reorder(s, d, true, excess);
}

bool mg_descend(struct mg_searcher *s, struct mg_descent *d)
{
    d->cost = mg_evaluate(&s->evaluator, d->scheme, d->list);
    memcpy(s->live, s->evaluator.live_at, d->list->count * sizeof *s->live);
    double excess = excess_of(s->live, d->list->count, d->target), least_excess = excess;
    uint64_t least_peak = d->cost.peak;
    uint32_t stale = 0;
    while (d->cost.peak > d->target && !s->stop && stale < STALE_MAX) {
        if (!come_down(s, d, &excess))
            return false;
        stale = d->cost.peak < least_peak || excess < least_excess ? 0 : stale + 1;
        least_peak = d->cost.peak < least_peak ? d->cost.peak : least_peak;
        least_excess = excess < least_excess ? excess : least_excess;
    }
    return d->cost.peak <= d->target;
}

/* ---- taking back ---- */

struct undoable {
    uint32_t step;
    double seconds;
};

static int by_seconds(const void *a, const void *b)
{
    const struct undoable *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return x->step < y->step ? 1 : -1;
}

static uint32_t find_undoable(struct mg_searcher *s, const struct mg_descent *d, struct undoable *list)
{
    const struct mg_scheme *scheme = d->scheme;
    uint8_t *ran = MG_NEW_ARRAY(s->scratch, uint8_t, s->p->op_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->list->count; i++) {
        uint32_t x = mg_word_index(d->list->word[i]);
        if (mg_word_kind(d->list->word[i]) == MG_WORD_COMPUTE) {
            if (ran[x])
                list[count++] = (struct undoable){i, scheme->seconds[0][x] + scheme->rest[0][x] + scheme->others[x]};
            ran[x] = 1;
        } else if (mg_word_kind(d->list->word[i]) == MG_WORD_LOAD) {
            list[count++] = (struct undoable){i, 0};
        }
    }
    return count;
}

void mg_polish(struct mg_searcher *s, struct mg_descent *d, uint64_t cap)
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct undoable *list = MG_NEW_ARRAY(s->scratch, struct undoable, d->list->count);
    uint8_t *undo = MG_NEW_ARRAY(s->scratch, uint8_t, d->list->count);
    uint32_t count = find_undoable(s, d, list), from = 0;
    struct mg_error why;
    qsort(list, count, sizeof *list, by_seconds);
    while (from < count && !s->stop) {
        uint32_t undone = MG_NONE;
        memset(undo, 0, d->list->count);
        undo[list[from].step] = 1;
        mg_edit_undo(s->p, d->list, undo, s->scratch, &s->trial);
        if (mg_list_check(s->p, d->scheme, &s->trial, s->scratch, &why) == MG_OK) {
            struct mg_cost cost = mg_searcher_try(s, d->scheme, &s->trial);
            bool taken_back = s->trial.count < d->list->count; /* else the same edit could be undone for ever */
            if (taken_back && cost.peak <= cap && cost.latency <= d->cost.latency) {
                d->cost = cost;
                mg_list_copy(d->list, &s->trial);
                undone = from;
            }
        }
        from++;
        if (undone != MG_NONE) { /* steps have moved: list the rest anew, keep the place in the ranking */
            count = find_undoable(s, d, list);
            qsort(list, count, sizeof *list, by_seconds);
            from = from > 1 ? from - 1 : 0;
        }
    }
    mg_arena_rewind(s->scratch, mark);
}
