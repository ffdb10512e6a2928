#include "search/expand.h"

#include <string.h>

enum { QUEUE_MAX = 64, SEEN_BITS = 16, GAP_TRIES = 24, UNDO_TRIES = 12 };

struct mg_queue {
    struct mg_target target;
    struct mg_state *heap[QUEUE_MAX];
    uint32_t count;
    double best; /* value of the best state seen for the target */
};

/* Smaller is better: first as near the limit as it gets, then the other figure; both as ratios to the
 * original, so that the relaxation by 1.1 means the same for all targets. */
static double value_of(const struct mg_searcher *s, const struct mg_target *t, struct mg_cost cost)
{
    double latency = cost.latency / s->original.latency, peak = (double)cost.peak / (double)s->original.peak;
    if (t->peak) {
        double limit = (double)t->peak / (double)s->original.peak;
        return peak > limit ? 1000 * peak / limit : latency;
    }
    double limit = t->latency / s->original.latency;
    return latency > limit * (1 + 1e-12) ? 1000 * latency / limit : peak;
}

static bool better(const struct mg_searcher *s, const struct mg_queue *q, const struct mg_state *a,
                   const struct mg_state *b)
{
    double x = value_of(s, &q->target, a->cost), y = value_of(s, &q->target, b->cost);
    return x != y ? x < y : a->hash.lo < b->hash.lo;
}

static void sift_up(const struct mg_searcher *s, struct mg_queue *q, uint32_t i)
{
    for (; i > 0 && better(s, q, q->heap[i], q->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        struct mg_state *t = q->heap[i];
        q->heap[i] = q->heap[(i - 1) / 2];
        q->heap[(i - 1) / 2] = t;
    }
}

static struct mg_state *pop(const struct mg_searcher *s, struct mg_queue *q)
{
    struct mg_state *top = q->heap[0];
    q->heap[0] = q->heap[--q->count];
    for (uint32_t i = 0;;) {
        uint32_t child = 2 * i + 1;
        if (child >= q->count)
            break;
        if (child + 1 < q->count && better(s, q, q->heap[child + 1], q->heap[child]))
            child++;
        if (!better(s, q, q->heap[child], q->heap[i]))
            break;
        struct mg_state *t = q->heap[i];
        q->heap[i] = q->heap[child];
        q->heap[child] = t;
        i = child;
    }
    return top;
}

/* True if the hash was not there yet. */
static bool mark_seen(struct mg_frontier *f, struct mg_searcher *s, struct mg_hash128 hash)
{
    uint32_t mask = (1u << f->seen_bits) - 1, i = (uint32_t)hash.lo & mask;
    while (f->seen[2 * i] | f->seen[2 * i + 1]) {
        if (f->seen[2 * i] == hash.lo && f->seen[2 * i + 1] == hash.hi)
            return false;
        i = (i + 1) & mask;
    }
    f->seen[2 * i] = hash.lo;
    f->seen[2 * i + 1] = hash.hi;
    if (++f->seen_count * 2 > mask) {
        uint64_t *old = f->seen;
        uint32_t size = mask + 1;
        f->seen = MG_NEW_ARRAY(s->arena, uint64_t, (size_t)4 << f->seen_bits);
        f->seen_bits++;
        f->seen_count = 0;
        for (uint32_t k = 0; k < size; k++)
            if (old[2 * k] | old[2 * k + 1])
                mark_seen(f, s, (struct mg_hash128){old[2 * k], old[2 * k + 1]});
    }
    return true;
}

/* A full queue takes no more: measured against giving up its worst state, which finds worse fronts. */
static void offer(struct mg_searcher *s, struct mg_queue *q, const struct mg_scheme *scheme, struct mg_list *list)
{
    struct mg_cost cost = mg_searcher_try(s, scheme, list);
    double value = value_of(s, &q->target, cost);
    if (value >= q->best * 1.1 || q->count == QUEUE_MAX)
        return;
    if (value < q->best)
        q->best = value;
    q->heap[q->count] = mg_pool_copy(&s->pool, scheme, list, cost);
    sift_up(s, q, q->count++);
}

static void expand_gaps(struct mg_frontier *f, struct mg_searcher *s, struct mg_queue *q, const struct mg_state *x,
                        uint32_t peak_step)
{
    uint32_t gaps = mg_gaps_at(&s->spans, s->p, x->scheme, &x->list, peak_step, s->scratch, s->gaps);
    uint32_t skip = gaps > GAP_TRIES ? (uint32_t)mg_rng_below(&s->rng, gaps) : 0;
    for (uint32_t i = 0; i < gaps && i < GAP_TRIES && !s->stop; i++) {
        const struct mg_gap *gap = &s->gaps[(i + skip) % gaps];
        struct mg_chain chain;
        if (s->options->techniques & MG_TECHNIQUE_REMAT && mg_chain_find(&s->spans, s->p, x->scheme, gap, &chain) &&
            mg_edit_remat(&x->list, gap, &chain, &f->work))
            offer(s, q, x->scheme, &f->work);
        if (mg_may_swap(s, x->scheme, gap->root) && mg_edit_swap(&s->spans, &x->list, gap, false, &f->work))
            offer(s, q, x->scheme, &f->work);
    }
}

static void expand_undo(struct mg_frontier *f, struct mg_searcher *s, struct mg_queue *q, const struct mg_state *x)
{
    uint8_t *ran = MG_NEW_ARRAY(s->scratch, uint8_t, s->p->op_count);
    uint8_t *undo = MG_NEW_ARRAY(s->scratch, uint8_t, x->list.count);
    uint32_t *extra = MG_NEW_ARRAY(s->scratch, uint32_t, x->list.count), count = 0;
    struct mg_error why;
    for (uint32_t i = 0; i < x->list.count; i++) {
        mg_word word = x->list.word[i];
        bool again = mg_word_kind(word) == MG_WORD_COMPUTE && ran[mg_word_index(word)];
        if (mg_word_kind(word) == MG_WORD_COMPUTE)
            ran[mg_word_index(word)] = 1;
        if (again || mg_word_kind(word) == MG_WORD_LOAD)
            extra[count++] = i;
    }
    for (uint32_t n = 0; n < UNDO_TRIES && n < count && !s->stop; n++) {
        memset(undo, 0, x->list.count);
        undo[extra[mg_rng_below(&s->rng, count)]] = 1;
        mg_edit_undo(s->p, &x->list, undo, s->scratch, &f->work);
        if (mg_list_check(s->p, x->scheme, &f->work, s->scratch, &why) == MG_OK)
            offer(s, q, x->scheme, &f->work);
    }
}

static void expand_fission(struct mg_frontier *f, struct mg_searcher *s, struct mg_queue *q, const struct mg_state *x)
{
    struct mg_region candidate[MG_FISSION_MAX];
    const struct mg_scheme *scheme[MG_FISSION_MOVES_MAX];
    uint32_t count = mg_fission_candidates(s, x->scheme, &x->list, s->live, candidate);
    count = mg_fission_moves(s, x->scheme, candidate, count, scheme);
    for (uint32_t i = 0; i < count && !s->stop; i++)
        if (mg_fission_transplant(s, &x->list, scheme[i], &f->work))
            offer(s, q, scheme[i], &f->work);
}

static struct mg_state *next_state(struct mg_frontier *f, struct mg_searcher *s, struct mg_queue *q)
{
    while (q->count) {
        struct mg_state *x = pop(s, q);
        if (mark_seen(f, s, x->hash))
            return x;
        mg_pool_drop(&s->pool, x);
    }
    const struct mg_archive *a = &s->archive;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t at = q->target.peak ? i : a->count - 1 - i;
        struct mg_state *x = a->state[at];
        double value = value_of(s, &q->target, x->cost);
        if (value < q->best * 1.1 && mark_seen(f, s, x->hash)) {
            q->best = value < q->best ? value : q->best;
            x->users++;
            return x;
        }
    }
    return NULL;
}

void mg_frontier_init(struct mg_frontier *f, struct mg_searcher *s, const struct mg_target *targets, uint32_t count)
{
    f->queue = MG_NEW_ARRAY(s->arena, struct mg_queue, count);
    f->count = count;
    for (uint32_t i = 0; i < count; i++) {
        f->queue[i].target = targets[i];
        f->queue[i].best = 1e300;
    }
    f->seen_bits = SEEN_BITS;
    f->seen = MG_NEW_ARRAY(s->arena, uint64_t, (size_t)2 << SEEN_BITS);
    f->work = mg_list_new(s->arena, s->pool.capacity);
}

bool mg_frontier_expand(struct mg_frontier *f, struct mg_searcher *s, uint32_t target)
{
    struct mg_queue *q = &f->queue[target];
    struct mg_state *x = next_state(f, s, q);
    if (!x)
        return false;
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    mg_searcher_enter(s, x->scheme->p);
    uint64_t peak = mg_evaluate(&s->evaluator, x->scheme, &x->list).peak;
    memcpy(s->live, s->evaluator.live_at, x->list.count * sizeof *s->live);
    uint32_t peak_step = mg_peak_step(&s->evaluator, &x->list, peak);
    mg_spans_build(&s->spans, s->p, x->scheme, &x->list);
    expand_gaps(f, s, q, x, peak_step);
    expand_undo(f, s, q, x);
    if (s->options->techniques & MG_TECHNIQUE_FISSION)
        expand_fission(f, s, q, x);
    mg_arena_rewind(s->scratch, mark);
    mg_pool_drop(&s->pool, x);
    return true;
}
