#include "search/improve.h"

#include <string.h>

#include "search/expand.h"
#include "search/microbatch.h"
#include "search/sublinear.h"

enum { IDLE_ROUNDS = 100 };

struct improver {
    struct mg_searcher *s;
    struct mg_front *front;
    struct mg_list list, spare;
    struct mg_frontier frontier;
    struct mg_target target[MG_TARGETS_MAX];
    uint32_t targets;
    double latency_cap; /* nothing slower is of interest */
};

/* Step by step down from one seed, until no edit helps. */
static void ladder(struct improver *m, const struct mg_scheme *scheme, uint32_t noise)
{
    struct mg_searcher *s = m->s;
    struct mg_descent d = {.scheme = scheme, .list = &m->list, .latency_cap = m->latency_cap, .noise = noise};
    d.cost = mg_searcher_try(s, scheme, &m->list);
    for (uint32_t rung = 1; !s->stop; rung++) {
        d.target = d.cost.peak - d.cost.peak / 20;
        if (!mg_descend(s, &d))
            break;
        if (rung % 4 == 0)
            mg_polish(s, &d, d.cost.peak);
        mg_front_update(s, m->front);
    }
    mg_polish(s, &d, d.cost.peak);
}

static bool seed_list(struct improver *m, const struct mg_scheme *scheme)
{
    struct mg_error why;
    return mg_list_from_scheme(m->s->p, scheme, NULL, m->s->scratch, &m->list, &why) == MG_OK;
}

static void descend_from_seeds(struct improver *m)
{
    struct mg_searcher *s = m->s;
    struct mg_region region;
    struct mg_error why;
    const struct mg_scheme *none = mg_searcher_scheme(s, NULL, 0, NULL);
    if (s->options->techniques & MG_TECHNIQUE_FISSION && mg_microbatch_region(s, &region, &why)) {
        uint32_t counts[MG_PARTS_MAX], n = mg_part_counts(region.length, counts);
        for (uint32_t i = 0; i < n && !s->stop; i++) {
            region.parts = counts[i];
            const struct mg_scheme *scheme = mg_searcher_scheme(s, &region, 1, NULL);
            if (!scheme || !seed_list(m, scheme))
                continue;
            struct mg_cost cost = mg_searcher_try(s, scheme, &m->list);
            if (cost.latency > m->latency_cap)
                break;
            ladder(m, scheme, 0);
        }
    }
    uint64_t budget[MG_SUBLINEAR_BUDGETS];
    uint32_t n = s->options->techniques & MG_TECHNIQUE_REMAT ? mg_sublinear_budgets(s, &m->spare, budget) : 0;
    for (uint32_t i = 0; i < n && !s->stop; i++)
        if (mg_sublinear_segments(s, budget[i], &m->list, NULL, NULL))
            ladder(m, none, 0);
    if (n && !s->stop && mg_sublinear_cheap(s, &m->list))
        ladder(m, none, 0);
    if (!s->stop && seed_list(m, none))
        ladder(m, none, 0);
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

static struct mg_state *pick(struct improver *m, const struct mg_target *target)
{
    struct mg_archive *a = &m->s->archive;
    struct mg_state *best =
        target->latency > 0 ? mg_archive_within(a, target->latency) : mg_archive_under(a, target->peak);
    if (!best)
        return a->state[a->count - 1];
    uint32_t at = 0, spread = (uint32_t)mg_rng_below(&m->s->rng, 8);
    while (a->state[at] != best)
        at++;
    if (spread > 4) /* sometimes a neighbour */
        at = target->latency > 0 ? (at > spread ? at - spread : 0) : (at + spread < a->count ? at + spread : at);
    return a->state[at];
}

static void improve_once(struct improver *m, const struct mg_target *target)
{
    struct mg_searcher *s = m->s;
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    const struct mg_state *from = pick(m, target);
    const struct mg_scheme *scheme = from->scheme;
    struct mg_cost before = from->cost;
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
    m.latency_cap = 2.5 * s->original.latency;
    for (uint32_t i = 0; i < s->hand_count; i++)
        if (s->hand[i].latency > m.latency_cap)
            m.latency_cap = s->hand[i].latency;
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
        idle = s->evaluations == before ? idle + 1 : 0;
    }
}
