#include "search/improve.h"

#include <string.h>

#include "search/expand.h"
#include "search/microbatch.h"
#include "search/restore.h"
#include "search/schedule.h"
#include "search/sublinear.h"

enum { IDLE_ROUNDS = 100 };

enum { SEEDS_MAX = 96 };

struct improver {
    struct mg_searcher *s;
    struct mg_front *front;
    struct mg_list list, spare;
    struct mg_frontier frontier;
    struct mg_target target[MG_TARGETS_MAX];
    uint32_t targets;
    double latency_cap; /* nothing slower is of interest */
    uint64_t floor;     /* nothing smaller is: the memory limit, or 0 */
    struct mg_state *seed[SEEDS_MAX];
    uint32_t seeds;
};

/* Step by step down from one seed, until the limit is met or no edit helps. */
static void ladder(struct improver *m, const struct mg_state *seed)
{
    struct mg_searcher *s = m->s;
    struct mg_descent d = {.scheme = seed->scheme, .list = &m->list, .latency_cap = m->latency_cap};
    mg_list_copy(&m->list, &seed->list);
    d.cost = seed->cost;
    for (uint32_t rung = 1; !s->stop && d.cost.peak > m->floor; rung++) {
        d.target = d.cost.peak - d.cost.peak / 20;
        d.target = d.target < m->floor ? m->floor : d.target;
        if (!mg_descend(s, &d))
            break;
        if (rung % 4 == 0)
            mg_polish(s, &d, d.cost.peak);
        mg_front_update(s, m->front);
    }
    mg_polish(s, &d, d.cost.peak > m->floor ? d.cost.peak : m->floor);
}

/* Evaluates m->list as a seed of the scheme. */
static void add_seed(struct improver *m, const struct mg_scheme *scheme)
{
    struct mg_searcher *s = m->s;
    if (s->stop || m->seeds == SEEDS_MAX)
        return;
    struct mg_cost cost = mg_searcher_try(s, scheme, &m->list);
    if (cost.latency <= m->latency_cap)
        m->seed[m->seeds++] = mg_pool_copy(&s->pool, scheme, &m->list, cost);
}

/* Is the rewritten seed faster, and not much larger? Joined weights outlive the parts: measured on bert and vit,
 * they cost the small peaks more than the time saved buys back. */
static bool pays(const struct mg_state *original, const struct mg_state *rewritten)
{
    return rewritten->cost.latency < original->cost.latency &&
           (double)rewritten->cost.peak <= 1.02 * (double)original->cost.peak;
}

/* Evaluates the same regions in each variant; the best one becomes a seed. */
static void add_plain_seed(struct improver *m, const struct mg_scheme *const *schemes)
{
    struct mg_searcher *s = m->s;
    uint32_t first = m->seeds;
    for (uint32_t v = 0; v < s->variant_count; v++) {
        struct mg_error why;
        if (!schemes[v] || s->stop)
            continue;
        mg_searcher_enter(s, schemes[v]->p);
        if (mg_list_from_scheme(s->p, schemes[v], NULL, s->scratch, &m->list, &why) == MG_OK)
            add_seed(m, schemes[v]);
        if (m->seeds < first + 2)
            continue;
        uint32_t worse = first + !pays(m->seed[first], m->seed[first + 1]);
        mg_pool_drop(&s->pool, m->seed[worse]);
        m->seed[first] = m->seed[2 * first + 1 - worse];
        m->seeds--;
    }
}

static void add_microbatch_seeds(struct improver *m)
{
    struct mg_searcher *s = m->s;
    struct mg_region region[MG_VARIANTS_MAX];
    struct mg_error why;
    uint32_t counts[MG_PARTS_MAX], n = 0;
    bool splits[MG_VARIANTS_MAX] = {false};
    bool wanted = (s->options->techniques & MG_TECHNIQUE_FISSION) != 0;
    for (uint32_t v = 0; v < s->variant_count && wanted && mg_searcher_look(s); v++) {
        mg_searcher_enter(s, s->variants[v].p);
        splits[v] = mg_microbatch_region(s, &region[v], &why);
        n = splits[v] ? mg_part_counts(region[v].length, counts) : n;
    }
    for (uint32_t i = 0; i < n && mg_searcher_look(s); i++) {
        const struct mg_scheme *schemes[MG_VARIANTS_MAX] = {NULL};
        for (uint32_t v = 0; v < s->variant_count; v++) {
            if (!splits[v])
                continue;
            mg_searcher_enter(s, s->variants[v].p);
            region[v].parts = counts[i];
            schemes[v] = mg_searcher_scheme(s, &region[v], 1, NULL);
        }
        add_plain_seed(m, schemes);
        mg_schemes_sweep(&s->schemes, &s->pool); /* only one of them is a seed */
    }
}

/* In the variant of the scheme, which has no regions. */
static void add_sublinear_seeds(struct improver *m, const struct mg_scheme *none)
{
    struct mg_searcher *s = m->s;
    uint64_t budget[MG_SUBLINEAR_BUDGETS];
    if (!(s->options->techniques & MG_TECHNIQUE_REMAT) || !mg_searcher_look(s))
        return;
    mg_searcher_enter(s, none->p);
    uint32_t n = mg_sublinear_budgets(s, &m->spare, budget);
    for (uint32_t i = 0; i < n && mg_searcher_look(s); i++)
        if (mg_sublinear_segments(s, budget[i], &m->list, NULL, NULL))
            add_seed(m, none);
    if (n && !s->stop && mg_sublinear_cheap(s, &m->list))
        add_seed(m, none);
}

static double work_of(const struct mg_problem *p)
{
    double seconds = 0;
    for (uint32_t i = 0; i < p->order_count; i++)
        seconds += p->seconds[p->order[i]];
    return seconds;
}

/* A search that goes on has descended from its seeds before: what they gave is restored. */
static bool is_covered(const struct mg_searcher *s, const struct mg_state *seed)
{
    const struct mg_state *best = s->restored ? mg_archive_within(&s->archive, 1.05 * seed->cost.latency) : NULL;
    return best && (double)best->cost.peak < 0.95 * (double)seed->cost.peak;
}

/* All seeds are measured before any is descended from; those nearest to a memory limit come first. */
static void descend_from_seeds(struct improver *m)
{
    struct mg_searcher *s = m->s;
    const struct mg_scheme *none[MG_VARIANTS_MAX];
    uint32_t faster = 0;
    for (uint32_t v = 0; v < s->variant_count; v++) {
        mg_searcher_enter(s, s->variants[v].p);
        none[v] = mg_searcher_scheme(s, NULL, 0, NULL);
        faster = work_of(s->p) < work_of(s->variants[faster].p) ? v : faster;
    }
    add_microbatch_seeds(m);
    add_sublinear_seeds(m, none[faster]);
    add_plain_seed(m, none);
    for (uint32_t i = 0; m->floor && i < m->seeds; i++)
        for (uint32_t k = i; k > 0 && m->seed[k]->cost.peak < m->seed[k - 1]->cost.peak; k--) {
            struct mg_state *t = m->seed[k];
            m->seed[k] = m->seed[k - 1];
            m->seed[k - 1] = t;
        }
    for (uint32_t i = 0; i < m->seeds; i++) {
        mg_searcher_enter(s, m->seed[i]->scheme->p);
        if (!s->stop && !is_covered(s, m->seed[i]))
            ladder(m, m->seed[i]);
        mg_pool_drop(&s->pool, m->seed[i]);
    }
}

/* ---- ruin and rebuild ---- */

/* Takes back the edits that a coin or a window picks. */
static void ruin(struct improver *m, const struct mg_scheme *scheme)
{
    struct mg_searcher *s = m->s;
    struct mg_error why;
    bool window = mg_rng_below(&s->rng, 2) == 0;
    uint32_t width = m->list.count / 20 + (uint32_t)mg_rng_below(&s->rng, m->list.count / 5 + 1);
    uint32_t from = (uint32_t)mg_rng_below(&s->rng, m->list.count), to = from + width;
    double share = 0.05 + 0.3 * mg_rng_unit(&s->rng);
    uint8_t *ran = MG_NEW_ARRAY(s->scratch, uint8_t, s->p->op_count);
    uint8_t *undo = MG_NEW_ARRAY(s->scratch, uint8_t, m->list.count);
    for (uint32_t i = 0; i < m->list.count; i++) {
        uint32_t x = mg_word_index(m->list.word[i]);
        enum mg_word_kind kind = mg_word_kind(m->list.word[i]);
        bool extra = kind == MG_WORD_LOAD || (kind == MG_WORD_COMPUTE && ran[x]);
        if (kind == MG_WORD_COMPUTE)
            ran[x] = 1;
        undo[i] = extra && (window ? i >= from && i < to : mg_rng_unit(&s->rng) < share);
    }
    mg_edit_undo(s->p, &m->list, undo, s->scratch, &m->spare);
    if (mg_list_check(s->p, scheme, &m->spare, s->scratch, &why) == MG_OK)
        mg_list_copy(&m->list, &m->spare);
}

/* The same edits under a neighbouring scheme: one tree move away. */
static const struct mg_scheme *change_scheme(struct improver *m, const struct mg_scheme *scheme)
{
    struct mg_searcher *s = m->s;
    struct mg_region candidate[MG_FISSION_MAX];
    const struct mg_scheme *moved[MG_FISSION_MOVES_MAX];
    mg_evaluate(&s->evaluator, scheme, &m->list);
    uint32_t count = mg_fission_candidates(s, scheme, &m->list, s->evaluator.live_at, candidate);
    count = mg_fission_moves(s, scheme, candidate, count, moved);
    if (count == 0)
        return scheme;
    const struct mg_scheme *to = moved[mg_rng_below(&s->rng, count)];
    if (!mg_fission_transplant(s, &m->list, to, &m->spare))
        return scheme;
    mg_list_copy(&m->list, &m->spare);
    return to;
}

/* Every window above the target in a better order. */
static void reorder(struct improver *m, const struct mg_scheme *scheme, uint64_t target)
{
    const struct mg_schedule_limits limits = {.max_sets = 1000, .beam = 16, .target = target};
    if (m->s->options->techniques & MG_TECHNIQUE_REORDER)
        mg_schedule_all(&m->s->evaluator, scheme, &m->list, &limits, m->s->scratch);
}

/* ---- what a round aims at ---- */

static struct mg_state *best_of(struct mg_archive *a, const struct mg_target *target)
{
    return target->latency > 0 ? mg_archive_within(a, target->latency) : mg_archive_under(a, target->peak);
}

/* The same wish from its other side: instead of the smallest within a latency, the fastest that needs a little less
 * than that; instead of the fastest under a peak, the smallest that is a little faster. */
static struct mg_target other_side(struct improver *m, const struct mg_target *target)
{
    const struct mg_state *best = best_of(&m->s->archive, target);
    double share = 1 - 0.05 * mg_rng_unit(&m->s->rng);
    if (!best)
        return *target;
    if (target->latency > 0)
        return (struct mg_target){0, (uint64_t)(share * (double)best->cost.peak)};
    return (struct mg_target){share * best->cost.latency, 0};
}

/* A lower latency, more often near the wish than far from it. */
static struct mg_target faster(struct improver *m, const struct mg_target *target)
{
    const struct mg_archive *a = &m->s->archive;
    double unit = mg_rng_unit(&m->s->rng);
    double latency = target->latency > 0 ? target->latency : other_side(m, target).latency;
    if (latency <= 0) /* nothing fits the memory yet */
        return *target;
    return (struct mg_target){latency - (latency - a->state[0]->cost.latency) * unit * unit, 0};
}

/* Aiming at nothing but a limit gets stuck in what lies around the best state: half of the rounds improve what is
 * faster than it, for that becomes what meets the limit later; others come at the limit from its other side. */
static struct mg_target aim(struct improver *m, const struct mg_target *wish)
{
    struct mg_target target = *wish;
    if (m->targets > 1)
        return target;
    if (mg_rng_below(&m->s->rng, 2))
        target = faster(m, &target);
    return mg_rng_below(&m->s->rng, 4) ? target : other_side(m, &target);
}

static struct mg_state *pick(struct improver *m, const struct mg_target *target)
{
    struct mg_archive *a = &m->s->archive;
    struct mg_state *best = best_of(a, target);
    if (!best)
        return a->state[a->count - 1];
    uint32_t at = 0, spread = (uint32_t)mg_rng_below(&m->s->rng, 8);
    while (a->state[at] != best)
        at++;
    if (spread > 4) /* sometimes a neighbour */
        at = target->latency > 0 ? (at > spread ? at - spread : 0) : (at + spread < a->count ? at + spread : at);
    return a->state[at];
}

static void improve_once(struct improver *m, const struct mg_target *wish)
{
    struct mg_searcher *s = m->s;
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    const struct mg_target aimed = aim(m, wish), *target = &aimed;
    const struct mg_state *from = pick(m, target);
    const struct mg_scheme *scheme = from->scheme;
    struct mg_cost before = from->cost;
    mg_searcher_enter(s, scheme->p);
    mg_list_copy(&m->list, &from->list);
    uint64_t dice = mg_rng_below(&s->rng, 6);
    if (dice < 2 && s->options->techniques & MG_TECHNIQUE_FISSION)
        scheme = change_scheme(m, scheme);
    if (dice != 0)
        ruin(m, scheme);
    struct mg_descent d = {.scheme = scheme, .list = &m->list, .noise = 2};
    d.target = target->latency > 0 ? before.peak - before.peak / 200
                                   : (target->peak < before.peak ? target->peak : before.peak);
    d.latency_cap = target->latency > 0 ? target->latency : m->latency_cap;
    if (d.latency_cap < before.latency)
        d.latency_cap = before.latency;
    if (dice == 0 || dice == 5)
        reorder(m, scheme, d.target);
    if (mg_descend(s, &d))
        mg_polish(s, &d, d.target);
    mg_arena_rewind(s->scratch, mark);
}

void mg_improve(struct mg_searcher *s, struct mg_front *front)
{
    struct improver m = {.s = s, .front = front};
    m.list = mg_list_new(s->arena, s->pool.capacity);
    m.spare = mg_list_new(s->arena, s->pool.capacity);
    uint32_t fixed;
    m.targets = mg_targets(s, m.target, &fixed);
    bool memory_steers = s->options->memory_limit || s->options->memory_ratio > 0;
    m.latency_cap = memory_steers ? 1e300 : 2.5 * s->original.latency;
    for (uint32_t i = 0; i < s->hand_count; i++)
        if (s->hand[i].latency > m.latency_cap)
            m.latency_cap = s->hand[i].latency;
    m.floor = memory_steers ? m.target[0].peak : 0;
    s->restored = mg_restore_starts(s, &m.list);
    descend_from_seeds(&m);
    mg_frontier_init(&m.frontier, s, m.target, m.targets);
    uint32_t idle = 0; /* rounds in a row that found nothing to evaluate: the space is exhausted */
    for (uint32_t round = 0; !s->stop && idle < IDLE_ROUNDS * m.targets; round++) {
        /* every other round for the fixed targets, the others for what is done by hand */
        bool by_hand = fixed < m.targets && round % 2;
        uint32_t target = by_hand ? fixed + round / 2 % (m.targets - fixed) : round / 2 % fixed;
        uint64_t before = s->evaluations;
        if (round / 2 / fixed % 4 == 3)
            mg_frontier_expand(&m.frontier, s, target);
        else
            improve_once(&m, &m.target[target]);
        mg_front_update(s, front);
        mg_schemes_sweep(&s->schemes, &s->pool);
        idle = s->evaluations == before ? idle + 1 : 0;
    }
}
