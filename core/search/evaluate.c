/* Exact figures of a list in two linear passes (plan/MODEL.md S3, S4, R2, R3).
 *
 * Memory runs backwards: the first reader met of a root makes it live (it is freed right after),
 * its maker ends it. Time runs forwards with three clocks and F; operands matter to it only while a
 * load is in flight. O(steps + operands), no allocation. */
#include "search/state.h"

#include <string.h>

void mg_evaluator_init(struct mg_evaluator *e, const struct mg_problem *p, struct mg_arena *arena,
                       uint32_t step_capacity)
{
    memset(e, 0, sizeof *e);
    e->p = p;
    e->live = MG_NEW_ARRAY(arena, uint8_t, p->value_count);
    e->ready = MG_NEW_ARRAY(arena, double, p->value_count);
    e->host_end = MG_NEW_ARRAY(arena, double, p->value_count);
    e->hosted = MG_NEW_ARRAY(arena, uint32_t, p->value_count);
    e->live_at = MG_NEW_ARRAY(arena, uint64_t, step_capacity);
    e->start = MG_NEW_ARRAY(arena, double, step_capacity);
    e->step_capacity = step_capacity;
}

/* ---- memory ---- */

static uint64_t make_live(struct mg_evaluator *e, const struct mg_scheme *l, const uint32_t *root, uint32_t count)
{
    uint64_t added = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!e->live[root[i]]) {
            e->live[root[i]] = 1;
            added += l->bytes[root[i]];
        }
    return added;
}

/* Ends the roots made here; *dead receives the bytes of those that nobody reads. */
static uint64_t end_roots(struct mg_evaluator *e, const struct mg_scheme *l, const uint32_t *root, uint32_t count,
                          uint64_t *dead)
{
    uint64_t ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (e->live[root[i]]) {
            e->live[root[i]] = 0;
            ended += l->bytes[root[i]];
        } else {
            *dead += l->bytes[root[i]];
        }
    }
    return ended;
}

/* Bytes that the result of `op` need not have of its own: it takes the storage of an operand that nobody
 * reads later (called before its operands are made live). */
static uint64_t reused_bytes(const struct mg_evaluator *e, const struct mg_scheme *l, uint32_t op)
{
    for (uint32_t i = l->reuse.start[op]; i < l->reuse.start[op + 1]; i++)
        if (!e->live[l->reuse.item[i]])
            return l->bytes[l->reuse.item[i]];
    return 0;
}

static uint64_t live_at_start(struct mg_evaluator *e, const struct mg_scheme *l)
{
    const struct mg_problem *p = e->p;
    uint64_t live = p->resident_bytes;
    memset(e->live, 0, p->value_count);
    for (uint32_t i = 0; i < p->output_count; i++) {
        uint32_t root = p->outputs[i];
        e->live[root] = 1;
        live += l->bytes[root];
    }
    return live;
}

static uint64_t memory_pass(struct mg_evaluator *e, const struct mg_scheme *l, const struct mg_list *list)
{
    const struct mg_problem *p = e->p;
    const uint32_t *read_start = p->reads.start, *read_item = p->reads.item;
    const uint32_t *def_start = l->defs.start, *def_item = l->defs.item;
    uint64_t live = live_at_start(e, l), peak = 0;
    for (uint32_t i = list->count; i-- > 0;) {
        uint32_t x = mg_word_index(list->word[i]);
        uint64_t here = 0, ended = 0, shared = 0;
        switch (mg_word_kind(list->word[i])) {
        case MG_WORD_COMPUTE:
            shared = e->keep_apart ? 0 : reused_bytes(e, l, x);
            live += make_live(e, l, &read_item[read_start[x]], read_start[x + 1] - read_start[x]);
            ended = end_roots(e, l, &def_item[def_start[x]], def_start[x + 1] - def_start[x], &here);
            here += l->temp[x] - shared;
            break;
        case MG_WORD_LOAD:
            ended = end_roots(e, l, &x, 1, &here);
            break;
        case MG_WORD_STORE:
            live += make_live(e, l, &x, 1);
            break;
        case MG_WORD_FREE:
            /* live up to, not including, this step */
            e->live_at[i] = live;
            live += make_live(e, l, &x, 1);
            continue;
        case MG_WORD_BEGIN:
            ended = end_roots(e, l, l->regions[x].outputs, l->regions[x].output_count, &here);
            break;
        case MG_WORD_END:
            live += make_live(e, l, l->regions[x].inputs, l->regions[x].input_count);
            live += make_live(e, l, l->regions[x].outputs, l->regions[x].output_count);
            break;
        }
        here += live;
        e->live_at[i] = here;
        live -= ended;
        if (here >= peak) {
            peak = here;
            e->peak_step = i;
        }
    }
    return peak;
}

/* ---- time ---- */

struct clocks {
    double c, d, h, f;
    uint32_t flying; /* loaded instances that no compute step has waited for yet */
    bool copied;     /* a copy ran since this was cleared */
};

static inline double later(double a, double b)
{
    return a > b ? a : b;
}

/* With one copy stream D = H, with none D = H = C. */
static inline void join_streams(struct clocks *k, int streams)
{
    if (streams < 2)
        k->d = k->h = later(k->d, k->h);
    if (streams < 1)
        k->c = k->d = k->h = later(k->c, k->d);
}

static inline void wait_for_loads(struct mg_evaluator *e, struct clocks *k, uint32_t op)
{
    const struct mg_rows *reads = &e->p->reads;
    for (uint32_t j = reads->start[op]; j < reads->start[op + 1]; j++) {
        uint32_t root = reads->item[j];
        if (e->ready[root] > 0) {
            k->c = later(k->c, e->ready[root]);
            e->ready[root] = 0;
            k->flying--;
        }
    }
}

static void time_copy(struct mg_evaluator *e, const struct mg_scheme *l, struct clocks *k, enum mg_word_kind kind,
                      uint32_t root, uint32_t variant)
{
    k->copied = true;
    join_streams(k, e->p->device->copy_streams);
    if (kind == MG_WORD_STORE) {
        k->d = later(later(k->d, k->c), later(k->f, e->ready[root])) + l->store_s[variant][root];
        e->host_end[root] = k->d;
    } else if (kind == MG_WORD_LOAD) {
        k->h = later(later(k->h, k->c), later(k->f, e->host_end[root])) + l->load_s[variant][root];
        k->flying += e->ready[root] == 0;
        e->ready[root] = k->h;
    } else {
        k->f = later(k->f, later(e->host_end[root], e->ready[root]));
    }
    join_streams(k, e->p->device->copy_streams);
}

/* Steps [from, to) in one variant; `start` (may be NULL) receives start times; the other parts of
 * nested regions follow at their end. Returns the sum of `others` over the compute steps. */
static double run_steps(struct mg_evaluator *e, const struct mg_scheme *l, const mg_word *word, uint32_t from,
                        uint32_t to, uint32_t variant, struct clocks *k, double *start)
{
    const double *seconds = l->seconds[variant], *rest = l->rest[variant];
    double others = 0, nested = 0;
    for (uint32_t i = from; i < to; i++) {
        uint32_t x = mg_word_index(word[i]);
        enum mg_word_kind kind = mg_word_kind(word[i]);
        if (kind == MG_WORD_COMPUTE) {
            if (k->flying)
                wait_for_loads(e, k, x);
            k->c = later(k->c, k->f);
            if (start)
                start[i] = k->c;
            k->c += seconds[x];
            nested += rest[x];
            others += l->others[x];
        } else if (kind <= MG_WORD_FREE) {
            if (start)
                start[i] = k->c;
            time_copy(e, l, k, kind, x, variant);
        } else {
            if (start)
                start[i] = k->c;
            if (kind == MG_WORD_END)
                k->c += nested;
            nested = 0;
        }
    }
    return others;
}

/* A later part of a body with copies: everything local ends in it, so it starts from rest. */
static double part_seconds(struct mg_evaluator *e, const struct mg_scheme *l, const mg_word *word, uint32_t from,
                           uint32_t to, uint32_t variant)
{
    struct clocks k = {0};
    run_steps(e, l, word, from, to, variant, &k, NULL);
    return later(later(k.c, k.f), later(k.d, k.h));
}

static void run_region(struct mg_evaluator *e, const struct mg_scheme *l, const struct mg_list *list, uint32_t begin,
                       uint32_t end, struct clocks *k)
{
    const struct mg_scheme_region *region = &l->regions[mg_word_index(list->word[begin])];
    k->copied = false;
    double others = run_steps(e, l, list->word, begin + 1, end, 0, k, e->start);
    if (!k->copied) {
        k->c += others;
        return;
    }
    k->c = later(k->c, k->f);
    for (uint32_t v = 1; v < MG_SCHEME_VARIANTS; v++)
        if (region->repeat[v])
            k->c += region->repeat[v] * part_seconds(e, l, list->word, begin + 1, end, v);
    k->f = k->c;
}

static double time_pass(struct mg_evaluator *e, const struct mg_scheme *l, const struct mg_list *list)
{
    struct clocks k = {0};
    uint32_t i = 0;
    memset(e->ready, 0, e->p->value_count * sizeof *e->ready);
    while (i < list->count) {
        uint32_t j = i;
        while (j < list->count && mg_word_kind(list->word[j]) != MG_WORD_BEGIN)
            j++;
        run_steps(e, l, list->word, i, j, 0, &k, e->start);
        if (j == list->count)
            break;
        uint32_t end = j + 1;
        while (list->word[end] != MG_WORD(MG_WORD_END, mg_word_index(list->word[j])))
            end++;
        e->start[j] = k.c;
        run_region(e, l, list, j, end, &k);
        e->start[end] = k.c;
        i = end + 1;
    }
    return later(later(k.c, k.d), k.h);
}

/* Distinct stored roots; a region's body counts once, with part 0's extents (S5). */
static uint64_t host_bytes(struct mg_evaluator *e, const struct mg_scheme *l, const struct mg_list *list)
{
    uint64_t sum = 0;
    e->host_round++;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t x = mg_word_index(list->word[i]);
        if (mg_word_kind(list->word[i]) == MG_WORD_STORE && e->hosted[x] != e->host_round) {
            e->hosted[x] = e->host_round;
            sum += l->host[x];
        }
    }
    return sum;
}

struct mg_cost mg_evaluate(struct mg_evaluator *e, const struct mg_scheme *l, const struct mg_list *list)
{
    struct mg_cost cost;
    cost.peak = memory_pass(e, l, list);
    cost.latency = time_pass(e, l, list);
    cost.host = host_bytes(e, l, list);
    return cost;
}
