/* Exact figures of a list in two linear passes (plan/MODEL.md S3, S4, R2, R3).
 *
 * Memory runs backwards: the first reader met of a root makes it live (it is freed right after),
 * its maker ends it. Time runs forwards with three clocks and F; operands matter to it only once
 * something is loaded; the later parts of a body with copies have clocks of their own and run beside
 * the first. O(steps + operands), no allocation.
 *
 * This is the innermost loop of the search. Most steps take the straight way, with as few instructions
 * as can be; what few steps need stands aside, so that it takes neither time nor registers. */
#include "search/state.h"

#include <string.h>

#define NOT_INLINE __attribute__((noinline))

void mg_evaluator_init(struct mg_evaluator *e, const struct mg_problem *p, struct mg_arena *arena,
                       uint32_t step_capacity)
{
    memset(e, 0, sizeof *e);
    e->p = p;
    e->due = MG_NEW_ARRAY(arena, uint64_t, p->dense_count + 1);
    e->hosted = MG_NEW_ARRAY(arena, uint32_t, p->dense_count + 1);
    e->copied = MG_NEW_ARRAY(arena, uint8_t, p->op_count);
    for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
        e->ready[v] = MG_NEW_ARRAY(arena, double, p->dense_count + 1);
        e->host_end[v] = MG_NEW_ARRAY(arena, double, p->dense_count + 1);
    }
    e->is_loaded = MG_NEW_ARRAY(arena, uint8_t, p->dense_count + 1);
    e->loaded = MG_NEW_ARRAY(arena, uint32_t, step_capacity);
    e->live_at = MG_NEW_ARRAY(arena, uint64_t, step_capacity);
    e->step_capacity = step_capacity;
}

/* ---- memory ---- */

/* Roots go by their dense numbers here. */
static inline uint64_t make_live(uint64_t *due, uint32_t root)
{
    uint64_t added = due[root];
    due[root] = 0;
    return added;
}

/* Where a root is made it ends. Bytes that nobody reads: they are live during this step only. */
static inline uint64_t end_root(uint64_t *due, uint32_t root, uint64_t bytes)
{
    uint64_t unread = due[root];
    due[root] = bytes;
    return unread;
}

/* What one step changes, seen backwards: `live` becomes the bytes during it; what ends with it; and the bytes that its
 * result takes over from an operand that nobody reads later (such operands are all as large as the result). */
struct touch {
    uint64_t live, ended, shared;
};

static inline void touch_record(uint64_t *due, const struct mg_scheme_step *record, struct touch *t)
{
    uint64_t first = make_live(due, record->reads[0]), second = make_live(due, record->reads[1]);
    t->live += first + second + end_root(due, record->def, record->def_bytes);
    t->ended += record->def_bytes;
    if (record->special)
        t->shared |= (first & (uint64_t)record->reuse[0]) | (second & (uint64_t)record->reuse[1]);
}

/* The records after a step's first. */
static inline void touch_further(uint64_t *due, const struct mg_scheme *scheme, uint32_t op, struct touch *t)
{
    const struct mg_scheme_step *record = &scheme->further[scheme->further_of[op]];
    do
        touch_record(due, record, t);
    while (record++->more);
}

static uint64_t make_all_live(struct mg_evaluator *e, const uint32_t *root, uint32_t count)
{
    uint64_t added = 0;
    for (uint32_t i = 0; i < count; i++)
        added += make_live(e->due, e->p->dense[root[i]]);
    return added;
}

/* A region's bound. */
static NOT_INLINE struct touch touch_bound(struct mg_evaluator *e, const struct mg_scheme *scheme, mg_word word,
                                           uint64_t live)
{
    const struct mg_scheme_region *region = &scheme->regions[mg_word_index(word)];
    struct touch t = {.live = live};
    if (mg_word_kind(word) == MG_WORD_END) {
        t.live += make_all_live(e, region->inputs, region->input_count);
        t.live += make_all_live(e, region->outputs, region->output_count);
    } else {
        for (uint32_t i = 0; i < region->output_count; i++) {
            uint64_t bytes = scheme->bytes[region->outputs[i]];
            t.live += end_root(e->due, e->p->dense[region->outputs[i]], bytes);
            t.ended += bytes;
        }
    }
    return t;
}

/* A store or load. */
static inline struct touch touch_copy(struct mg_evaluator *e, const struct mg_scheme *scheme, mg_word word,
                                      uint64_t live)
{
    uint32_t x = mg_word_index(word), root = e->p->dense[x];
    if (mg_word_kind(word) == MG_WORD_LOAD) {
        uint64_t bytes = scheme->dense_bytes[root];
        return (struct touch){.live = live + end_root(e->due, root, bytes), .ended = bytes};
    }
    if (e->hosted[root] != e->host_round) {
        e->hosted[root] = e->host_round;
        e->host += scheme->host[x];
    }
    return (struct touch){.live = live + make_live(e->due, root)};
}

static uint64_t memory_pass(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list)
{
    const struct mg_scheme_step *steps = scheme->steps;
    const mg_word *words = list->word;
    uint64_t *due = e->due, *live_at = e->live_at, in_place = e->keep_apart ? 0 : UINT64_MAX, peak = 0;
    bool copied = false;
    memcpy(due, scheme->dense_bytes, (e->p->dense_count + 1) * sizeof *due);
    uint64_t live = e->p->resident_bytes + make_all_live(e, e->p->outputs, e->p->output_count);
    e->host = 0;
    e->host_round++;
    for (int64_t i = (int64_t)list->count - 1; i >= 0; i--) {
        mg_word word = words[i];
        enum mg_word_kind kind = mg_word_kind(word);
        struct touch t = {.live = live};
        uint64_t here = 0;
        if (kind == MG_WORD_COMPUTE) {
            const struct mg_scheme_step *step = &steps[word];
            here = step->temp;
            touch_record(due, step, &t);
            if (step->special) {
                if (step->more)
                    touch_further(due, scheme, word, &t);
                here -= t.shared & in_place;
            }
        } else if (kind == MG_WORD_FREE) {
            /* live up to, not including, this step */
            live_at[i] = live;
            live += make_live(due, e->p->dense[mg_word_index(word)]);
            continue;
        } else if (kind < MG_WORD_BEGIN) {
            copied = true;
            t = touch_copy(e, scheme, word, live);
        } else {
            t = touch_bound(e, scheme, word, live);
            if (kind == MG_WORD_BEGIN)
                e->copied[mg_word_index(word)] = copied;
            else if (scheme->regions[mg_word_index(word)].depth == 0)
                copied = false;
        }
        here += t.live;
        live_at[i] = here;
        peak = here > peak ? here : peak;
        live = t.live - t.ended;
    }
    return peak;
}

uint32_t mg_peak_step(const struct mg_evaluator *e, const struct mg_list *list, uint64_t peak)
{
    uint32_t i = 0;
    while (i + 1 < list->count && (e->live_at[i] != peak || mg_word_kind(list->word[i]) == MG_WORD_FREE))
        i++;
    return i;
}

/* ---- time ---- */

/* Of one part: of the first (and of what stands outside regions), or of a later one. F is part of C: whatever starts
 * waits for both. */
struct clocks {
    double c, d, h;
};

static inline double later(double a, double b)
{
    return a > b ? a : b;
}

static inline void wait_for_record(const struct mg_evaluator *e, const struct mg_scheme_step *record, struct clocks *k,
                                   uint32_t variants)
{
    for (uint32_t v = 0; v < variants; v++)
        k[v].c = later(k[v].c, later(e->ready[v][record->reads[0]], e->ready[v][record->reads[1]]));
}

/* The parts' clocks k[0 .. variants) wait for the loads that made what op reads. Only the first reader has to; that
 * the others ask too costs less than to know. */
static inline void wait_for_loads(const struct mg_evaluator *e, const struct mg_scheme *scheme, struct clocks *k,
                                  uint32_t variants, uint32_t op)
{
    const struct mg_scheme_step *record = &scheme->steps[op];
    wait_for_record(e, record, k, variants);
    if (!record->more)
        return;
    record = &scheme->further[scheme->further_of[op]];
    do
        wait_for_record(e, record, k, variants);
    while (record++->more);
}

/* Does op read what has been loaded? Asked where several parts run side by side and would all have to wait. */
static inline bool reads_loaded(const struct mg_evaluator *e, const struct mg_scheme *scheme, uint32_t op)
{
    const struct mg_scheme_step *record = &scheme->steps[op];
    int loaded = e->is_loaded[record->reads[0]] | e->is_loaded[record->reads[1]];
    if (!record->more)
        return loaded;
    record = &scheme->further[scheme->further_of[op]];
    do
        loaded |= e->is_loaded[record->reads[0]] | e->is_loaded[record->reads[1]];
    while (record++->more);
    return loaded;
}

/* A store, load or free in the parts of k[0 .. variants). With one copy stream D = H, with none D = H = C. */
static inline void time_copy(struct mg_evaluator *e, const struct mg_scheme *scheme, struct clocks *k,
                             uint32_t variants, mg_word word)
{
    uint32_t x = mg_word_index(word), root = e->p->dense[x];
    int streams = e->p->device->copy_streams;
    switch (mg_word_kind(word)) {
    case MG_WORD_STORE:
        for (uint32_t v = 0; v < variants; v++) {
            k[v].d = later(later(k[v].d, k[v].c), e->ready[v][root]) + scheme->store_s[v][x];
            e->host_end[v][root] = k[v].d;
        }
        break;
    case MG_WORD_LOAD:
        e->is_loaded[root] = 1;
        e->loaded[e->loaded_count++] = root;
        for (uint32_t v = 0; v < variants; v++) {
            k[v].h = later(later(k[v].h, k[v].c), e->host_end[v][root]) + scheme->load_s[v][x];
            e->ready[v][root] = k[v].h;
        }
        break;
    default:
        for (uint32_t v = 0; v < variants; v++)
            k[v].c = later(k[v].c, later(e->host_end[v][root], e->ready[v][root]));
        break;
    }
    if (streams >= 2)
        return;
    for (uint32_t v = 0; v < variants; v++) {
        k[v].d = k[v].h = later(k[v].d, k[v].h);
        if (streams < 1)
            k[v].c = k[v].d = k[v].h = later(k[v].c, k[v].d);
    }
}

/* Steps from i on in the parts of k[0 .. variants), up to a region's bound or the list's end; without `waits`, for as
 * long as nothing has been loaded, behind the first load too. Inlined for each use. */
static inline uint32_t run_steps(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list,
                                 uint32_t i, struct clocks *k, const uint32_t variants, const bool waits)
{
    const double *seconds[MG_SCHEME_VARIANTS] = {scheme->seconds[0], scheme->seconds[1], scheme->seconds[2]};
    const mg_word *words = list->word;
    struct clocks at[MG_SCHEME_VARIANTS]; /* in registers: a chain through memory costs more than all else */
    uint32_t count = list->count;
    bool stop = false;
    for (uint32_t v = 0; v < variants; v++)
        at[v] = k[v];
    for (; i < count && !stop; i++) {
        mg_word word = words[i];
        enum mg_word_kind kind = mg_word_kind(word);
        if (kind == MG_WORD_COMPUTE) {
            if (waits && (variants == 1 || reads_loaded(e, scheme, word)))
                wait_for_loads(e, scheme, at, variants, word);
            for (uint32_t v = 0; v < variants; v++)
                at[v].c += seconds[v][word];
        } else if (kind < MG_WORD_BEGIN) {
            time_copy(e, scheme, at, variants, word);
            stop = !waits && kind == MG_WORD_LOAD;
        } else {
            break;
        }
    }
    for (uint32_t v = 0; v < variants; v++)
        k[v] = at[v];
    return i;
}

/* A body without copies from its first step on, all its parts; its end. */
static inline uint32_t run_body(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list,
                                uint32_t i, mg_word last, struct clocks *k, const bool waits)
{
    const double *seconds = scheme->seconds[0], *rest = scheme->rest[0];
    struct clocks at = *k;
    double others = 0, nested = 0;
    for (; list->word[i] != last; i++) {
        mg_word word = list->word[i];
        enum mg_word_kind kind = mg_word_kind(word);
        if (kind == MG_WORD_COMPUTE) {
            if (waits)
                wait_for_loads(e, scheme, &at, 1, word);
            at.c += seconds[word];
            nested += rest[word];
            others += scheme->others[word];
        } else {
            at.c += kind == MG_WORD_END ? nested : 0;
            nested = 0;
        }
    }
    at.c += others;
    *k = at;
    return i;
}

/* The same where copies run beside, in which no region is nested: the first part goes on from what is in flight, a
 * part of either later extent starts from rest, since everything local ends in it. */
static uint32_t run_parts(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list,
                          uint32_t i, const struct mg_scheme_region *region, struct clocks *first)
{
    struct clocks k[MG_SCHEME_VARIANTS] = {*first};
    i = region->repeat[2] ? run_steps(e, scheme, list, i, k, 3, true) : run_steps(e, scheme, list, i, k, 2, true);
    *first = k[0];
    for (uint32_t v = 1; v < MG_SCHEME_VARIANTS; v++)
        if (region->repeat[v])
            first->c += region->repeat[v] * later(k[v].c, later(k[v].d, k[v].h));
    return i;
}

/* From a region's begin to its end. */
static uint32_t run_region(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list,
                           uint32_t i, struct clocks *k)
{
    uint32_t region = mg_word_index(list->word[i]);
    mg_word last = MG_WORD(MG_WORD_END, region);
    if (e->copied[region])
        return run_parts(e, scheme, list, i + 1, &scheme->regions[region], k);
    if (e->loaded_count)
        return run_body(e, scheme, list, i + 1, last, k, true);
    return run_body(e, scheme, list, i + 1, last, k, false);
}

static void forget_loads(struct mg_evaluator *e)
{
    for (uint32_t i = 0; i < e->loaded_count; i++) {
        e->is_loaded[e->loaded[i]] = 0;
        for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++)
            e->ready[v][e->loaded[i]] = 0;
    }
    e->loaded_count = 0;
}

static double time_pass(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list)
{
    struct clocks k = {0};
    forget_loads(e);
    for (uint32_t i = 0; i < list->count;) {
        if (mg_word_kind(list->word[i]) == MG_WORD_BEGIN)
            i = run_region(e, scheme, list, i, &k) + 1;
        else if (mg_word_kind(list->word[i]) == MG_WORD_END)
            i++; /* nothing was begun: whoever wrote such a list is told by the checker, not by a loop */
        else if (e->loaded_count)
            i = run_steps(e, scheme, list, i, &k, 1, true);
        else
            i = run_steps(e, scheme, list, i, &k, 1, false);
    }
    return later(later(k.c, k.d), k.h);
}

struct mg_cost mg_evaluate(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list)
{
    struct mg_cost cost;
    cost.peak = memory_pass(e, scheme, list);
    cost.latency = time_pass(e, scheme, list);
    cost.host = e->host;
    return cost;
}
