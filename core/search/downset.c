/* Dynamic programming over downward-closed sets (Ahn et al., "Ordering Chaos: Memory-Aware Scheduling of
 * Irregularly Wired Neural Networks for Edge Devices", MLSys 2020).
 *
 * After a down-set has run, what is alive depends on the set alone, so of all orders of a set only the one with
 * the least peak matters. Level k holds the reachable sets of k units. Three things keep levels small:
 * - no set with a peak above that of the given order is kept, and peaks below a lower bound count as the bound;
 * - a unit that ends with no more bytes than it began with, and fits under the peak so far, is placed at once:
 *   a later place of it is never better, because what it frees only grows with the set;
 * - a level with a single set is a waist: the work on both sides is independent, and the budget of sets starts
 *   anew. When the budget is spent, the level is cut to a beam.
 * A set costs O(ready units * their operands); everything is deterministic: ties go to the unit that comes first. */
#include "search/downset.h"

#include <stdlib.h>
#include <string.h>

/* ---- units ---- */

struct solver {
    const struct mg_ordering *o;
    struct mg_arena *scratch;
    uint32_t units;
    uint32_t *member, *member_start; /* unit -> steps */
    uint32_t *unit_of;               /* per step */
    struct mg_set *pred;             /* per unit */
    struct mg_rows succ;             /* unit -> units */
    struct mg_set *readers;          /* per instance: units that read it */
    uint8_t *final;                  /* per entry of o->reads: the unit's last reading of the instance */
    uint64_t floor, limit;           /* peaks below are alike, peaks above useless */
};

static void assign_units(struct solver *s, bool together)
{
    const struct mg_ordering *o = s->o;
    uint32_t *name = MG_NEW_ARRAY(s->scratch, uint32_t, o->count), n = 0;
    s->unit_of = MG_NEW_ARRAY(s->scratch, uint32_t, o->count);
    s->member = MG_NEW_ARRAY(s->scratch, uint32_t, o->count);
    s->member_start = MG_NEW_ARRAY(s->scratch, uint32_t, o->count + 1);
    memset(name, 0xff, o->count * sizeof *name);
    s->units = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        uint32_t *unit = &name[together ? o->unit[i] : i];
        if (*unit == MG_NONE)
            *unit = s->units++;
        s->unit_of[i] = *unit;
    }
    for (uint32_t u = 0; u < s->units; u++) {
        s->member_start[u] = n;
        for (uint32_t i = 0; i < o->count; i++) /* units are few: a counting sort would be longer */
            if (s->unit_of[i] == u)
                s->member[n++] = i;
    }
    s->member_start[s->units] = n;
}

static void find_unit_preds(struct solver *s)
{
    const struct mg_ordering *o = s->o;
    uint32_t edges = 0, n = 0;
    s->pred = MG_NEW_ARRAY(s->scratch, struct mg_set, s->units);
    for (uint32_t i = 0; i < o->count; i++)
        for (uint32_t at = 0, q = mg_set_next(&o->pred[i], &at); q != MG_NONE; q = mg_set_next(&o->pred[i], &at))
            if (s->unit_of[q] != s->unit_of[i])
                mg_set_add(&s->pred[s->unit_of[i]], s->unit_of[q]);
    s->succ.start = MG_NEW_ARRAY(s->scratch, uint32_t, s->units + 2);
    for (uint32_t u = 0; u < s->units; u++)
        for (uint32_t at = 0, q = mg_set_next(&s->pred[u], &at); q != MG_NONE; q = mg_set_next(&s->pred[u], &at)) {
            s->succ.start[q + 2]++;
            edges++;
        }
    for (uint32_t u = 0; u <= s->units; u++) {
        n += s->succ.start[u + 1];
        s->succ.start[u + 1] = n;
    }
    s->succ.item = MG_NEW_ARRAY(s->scratch, uint32_t, edges);
    for (uint32_t u = 0; u < s->units; u++)
        for (uint32_t at = 0, q = mg_set_next(&s->pred[u], &at); q != MG_NONE; q = mg_set_next(&s->pred[u], &at))
            s->succ.item[s->succ.start[q + 1]++] = u;
}

static bool has_cycle(const struct solver *s)
{
    struct mg_set done = {{0}};
    uint32_t placed = 0, before = UINT32_MAX;
    while (placed != before) {
        before = placed;
        for (uint32_t u = 0; u < s->units; u++)
            if (!mg_set_has(&done, u) && mg_set_within(&s->pred[u], &done)) {
                mg_set_add(&done, u);
                placed++;
            }
    }
    return placed != s->units;
}

static void find_readers(struct solver *s)
{
    const struct mg_ordering *o = s->o;
    uint32_t *last = MG_NEW_ARRAY(s->scratch, uint32_t, o->instances); /* entry of o->reads, + 1 */
    s->readers = MG_NEW_ARRAY(s->scratch, struct mg_set, o->instances);
    s->final = MG_NEW_ARRAY(s->scratch, uint8_t, o->reads.start[o->count]);
    for (uint32_t u = 0; u < s->units; u++)
        for (uint32_t m = s->member_start[u]; m < s->member_start[u + 1]; m++)
            for (uint32_t k = o->reads.start[s->member[m]]; k < o->reads.start[s->member[m] + 1]; k++) {
                uint32_t x = o->reads.item[k];
                if (mg_set_has(&s->readers[x], u))
                    s->final[last[x] - 1] = 0;
                mg_set_add(&s->readers[x], u);
                s->final[k] = 1;
                last[x] = k + 1;
            }
}

/* ---- placing a unit ---- */

struct placed {
    uint64_t peak, excess, live;
};

static bool ends(const struct solver *s, uint32_t instance, const struct mg_set *done)
{
    return !s->o->after[instance] && mg_set_within(&s->readers[instance], done);
}

/* Does the step's reading of x end it? */
static bool ends_at(const struct solver *s, uint32_t step, uint32_t x, const struct mg_set *done)
{
    for (uint32_t k = s->o->reads.start[step]; k < s->o->reads.start[step + 1]; k++)
        if (s->o->reads.item[k] == x)
            return s->final[k] && ends(s, x, done);
    return false;
}

static uint64_t lent_bytes(const struct solver *s, uint32_t step, const struct mg_set *done)
{
    const struct mg_rows *reuse = &s->o->reuse;
    for (uint32_t k = reuse->start[step]; k < reuse->start[step + 1]; k++)
        if (ends_at(s, step, reuse->item[k], done))
            return s->o->bytes[reuse->item[k]];
    return 0;
}

/* One step more; `done` includes its unit. */
static void run_step(const struct solver *s, uint32_t step, const struct mg_set *done, struct placed *p)
{
    const struct mg_ordering *o = s->o;
    uint64_t made = 0, dead = 0;
    for (uint32_t k = o->makes.start[step]; k < o->makes.start[step + 1]; k++) {
        uint32_t x = o->makes.item[k];
        bool unread = !o->after[x] && mg_set_within(&s->readers[x], &(struct mg_set){{0}});
        *(unread ? &dead : &made) += o->bytes[x];
    }
    uint64_t here = p->live + made + dead + o->extra[step];
    if (o->reuse.start[step] < o->reuse.start[step + 1])
        here -= lent_bytes(s, step, done);
    p->live += made;
    for (uint32_t k = o->reads.start[step]; k < o->reads.start[step + 1]; k++)
        if (s->final[k] && ends(s, o->reads.item[k], done))
            p->live -= o->bytes[o->reads.item[k]];
    if (here > p->peak)
        p->peak = here;
    if (here > o->target)
        p->excess += here - o->target;
}

static uint64_t live_at_begin(const struct mg_ordering *o)
{
    uint64_t live = o->base;
    for (uint32_t i = 0; i < o->instances; i++)
        if (o->before[i])
            live += o->bytes[i];
    return live;
}

struct mg_order_cost mg_ordering_cost(const struct mg_ordering *o, const uint32_t *order, struct mg_arena *scratch,
                                      uint64_t *live)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct solver s = {.o = o, .scratch = scratch};
    struct mg_set done = {{0}};
    struct placed p = {0, 0, live_at_begin(o)};
    assign_units(&s, false);
    find_readers(&s);
    for (uint32_t i = 0; i < o->count; i++) {
        uint32_t step = order ? order[i] : i;
        uint64_t peak = p.peak;
        mg_set_add(&done, step);
        p.peak = 0;
        run_step(&s, step, &done, &p);
        if (live)
            live[i] = p.peak;
        p.peak = p.peak > peak ? p.peak : peak;
    }
    mg_arena_rewind(scratch, mark);
    return (struct mg_order_cost){p.peak, p.excess};
}

/* ---- levels ---- */

struct state {
    struct mg_set done, ready;
    struct placed at;
    uint32_t parent, unit;
};

struct levels {
    struct solver *s;
    struct state *state;
    size_t count, capacity;
    size_t from, to;   /* the level that is expanded; the one that grows lies behind */
    size_t piece_from; /* first state after the last waist */
    uint32_t *table;   /* hash of a set -> state of the growing level; what lies before it is stale */
    uint32_t mask;
    bool narrow, exact;
};

static uint64_t clip(const struct solver *s, uint64_t peak)
{
    return peak > s->floor ? peak : s->floor;
}

static bool is_better(const struct solver *s, const struct placed *a, const struct placed *b)
{
    uint64_t x = clip(s, a->peak), y = clip(s, b->peak);
    return x != y ? x < y : a->excess < b->excess;
}

static uint32_t set_hash(const struct mg_set *set)
{
    uint64_t h = 0;
    for (int w = 0; w < MG_SET_WORDS; w++)
        h = (h ^ set->word[w] ^ h >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

static void find_ready(const struct solver *s, const struct state *from, struct state *to)
{
    to->ready = from->ready;
    to->ready.word[to->unit / 64] &= ~(UINT64_C(1) << to->unit % 64);
    for (uint32_t k = s->succ.start[to->unit]; k < s->succ.start[to->unit + 1]; k++)
        if (mg_set_within(&s->pred[s->succ.item[k]], &to->done))
            mg_set_add(&to->ready, s->succ.item[k]);
}

static void keep(struct levels *v, uint32_t parent, uint32_t unit, const struct mg_set *done, const struct placed *at)
{
    uint32_t slot = set_hash(done) & v->mask;
    for (; v->table[slot] >= v->to && v->table[slot] < v->count; slot = (slot + 1) & v->mask) {
        struct state *old = &v->state[v->table[slot]];
        if (memcmp(&old->done, done, sizeof *done) != 0)
            continue;
        if (is_better(v->s, at, &old->at)) {
            old->at = *at;
            old->parent = parent;
            old->unit = unit;
        }
        return;
    }
    v->table[slot] = (uint32_t)v->count;
    struct state *n = MG_PUSH(v->s->scratch, v->state, v->count, v->capacity);
    *n = (struct state){.done = *done, .at = *at, .parent = parent, .unit = unit};
    find_ready(v->s, &v->state[parent], n);
}

static struct placed place(const struct solver *s, const struct state *from, uint32_t unit, struct mg_set *done)
{
    struct placed p = from->at;
    *done = from->done;
    mg_set_add(done, unit);
    for (uint32_t m = s->member_start[unit]; m < s->member_start[unit + 1]; m++)
        run_step(s, s->member[m], done, &p);
    return p;
}

/* A unit to place at once, or every one that is ready. */
static void expand_state(struct levels *v, uint32_t i)
{
    struct placed at[MG_SET_MAX];
    uint32_t unit[MG_SET_MAX], n = 0, from = 0;
    const struct solver *s = v->s;
    struct mg_set done;
    struct mg_set ready = v->state[i].ready;
    for (uint32_t u = mg_set_next(&ready, &from); u != MG_NONE; u = mg_set_next(&ready, &from)) {
        struct placed p = place(s, &v->state[i], u, &done);
        if (p.live <= v->state[i].at.live && clip(s, p.peak) == clip(s, v->state[i].at.peak)) {
            keep(v, i, u, &done, &p);
            return;
        }
        if (p.peak <= s->limit) {
            unit[n] = u;
            at[n++] = p;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        done = v->state[i].done;
        mg_set_add(&done, unit[k]);
        keep(v, i, unit[k], &done, &at[k]);
    }
}

struct ranked {
    uint64_t peak, live, excess;
    uint32_t index;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->peak != y->peak)
        return x->peak < y->peak ? -1 : 1;
    if (x->live != y->live)
        return x->live < y->live ? -1 : 1;
    if (x->excess != y->excess)
        return x->excess < y->excess ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Cuts the level [from, to) to the beam; what lay behind it is dropped. */
static void narrow_level(struct levels *v)
{
    size_t n = v->to - v->from, beam = v->s->o->beam;
    if (v->count > v->to || n > beam) /* states will move or go: forget where they were */
        memset(v->table, 0xff, ((size_t)v->mask + 1) * sizeof *v->table);
    v->count = v->to;
    v->narrow = true;
    v->exact = false;
    if (n <= beam)
        return;
    struct ranked *rank = MG_NEW_ARRAY(v->s->scratch, struct ranked, n);
    struct state *best = MG_NEW_ARRAY(v->s->scratch, struct state, beam);
    for (size_t i = 0; i < n; i++) {
        const struct placed *at = &v->state[v->from + i].at;
        rank[i] = (struct ranked){clip(v->s, at->peak), at->live, at->excess, (uint32_t)(v->from + i)};
    }
    qsort(rank, n, sizeof *rank, by_rank);
    for (size_t i = 0; i < beam; i++)
        best[i] = v->state[rank[i].index];
    memcpy(&v->state[v->from], best, beam * sizeof *best);
    v->count = v->to = v->from + beam;
}

/* From one level to the next; false: no set of it is worth keeping. */
static bool expand_level(struct levels *v)
{
    if (v->narrow)
        narrow_level(v);
    for (size_t i = v->from; i < v->to; i++) {
        expand_state(v, (uint32_t)i);
        if (!v->narrow && v->count - v->piece_from > v->s->o->max_sets) {
            narrow_level(v);
            i = v->from - 1; /* once more, the beam alone */
        }
    }
    v->from = v->to;
    v->to = v->count;
    if (v->to - v->from == 1) {
        v->piece_from = v->from;
        v->narrow = false;
    }
    return v->to > v->from;
}

static void begin_levels(struct levels *v, struct solver *s)
{
    const struct mg_ordering *o = s->o;
    uint64_t most = o->max_sets + 1 > (uint64_t)o->beam * s->units ? o->max_sets + 1 : (uint64_t)o->beam * s->units;
    most += s->units; /* one expansion may exceed the budget */
    memset(v, 0, sizeof *v);
    v->s = s;
    v->exact = true;
    for (v->mask = 64; v->mask < 2 * most; v->mask *= 2)
        continue;
    v->table = MG_NEW_ARRAY(s->scratch, uint32_t, v->mask--);
    memset(v->table, 0xff, ((size_t)v->mask + 1) * sizeof *v->table);
    struct state *first = MG_PUSH(s->scratch, v->state, v->count, v->capacity);
    *first = (struct state){.parent = MG_NONE, .unit = MG_NONE, .at = {0, 0, live_at_begin(o)}};
    for (uint32_t u = 0; u < s->units; u++)
        if (mg_set_within(&s->pred[u], &first->done))
            mg_set_add(&first->ready, u);
    v->to = 1;
}

static void write_order(const struct levels *v, uint32_t *order)
{
    const struct solver *s = v->s;
    uint32_t n = s->o->count;
    for (uint32_t i = (uint32_t)v->from; v->state[i].parent != MG_NONE; i = v->state[i].parent) {
        uint32_t unit = v->state[i].unit;
        for (uint32_t m = s->member_start[unit + 1]; m-- > s->member_start[unit];)
            order[--n] = s->member[m];
    }
}

static bool search_levels(struct solver *s, const struct mg_order_cost *given, uint32_t *order, bool *exact)
{
    struct levels v;
    begin_levels(&v, s);
    for (uint32_t level = 0; level < s->units; level++)
        if (!expand_level(&v)) {
            *exact = v.exact; /* the limit is the given order's peak: nothing reaches it */
            return false;
        }
    const struct placed *best = &v.state[v.from].at;
    struct placed old = {.peak = given->peak, .excess = given->excess};
    *exact = v.exact;
    if (!is_better(s, best, &old))
        return false;
    write_order(&v, order);
    return true;
}

bool mg_ordering_solve(const struct mg_ordering *o, struct mg_arena *scratch, uint32_t *order, bool *exact)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct mg_order_cost given = mg_ordering_cost(o, NULL, scratch, NULL);
    struct solver s = {.o = o, .scratch = scratch, .limit = given.peak};
    uint64_t bound = mg_ordering_bound(o, given.peak, scratch);
    bool sure = true, better = false;
    s.floor = bound > o->target ? bound : o->target;
    for (uint32_t i = 0; i < o->count; i++)
        order[i] = i;
    if (s.floor < given.peak) {
        assign_units(&s, o->unit != NULL);
        find_unit_preds(&s);
        if (o->unit && has_cycle(&s)) {
            assign_units(&s, false);
            find_unit_preds(&s);
        }
        find_readers(&s);
        better = search_levels(&s, &given, order, &sure);
    }
    if (exact)
        *exact = sure;
    mg_arena_rewind(scratch, mark);
    return better;
}
