/* Exact figures of a list in two linear passes (plan/MODEL.md S3, S4, R2, R3).
 *
 * Memory runs backwards: the first reader met of a root makes it live (it is freed right after),
 * its maker ends it. Time runs forwards with three clocks and F; operands matter to it only while a
 * load is in flight; the later parts of a body with copies have clocks of their own and run beside
 * the first. O(steps + operands), no allocation; what most steps need takes no branch. */
#include "search/state.h"

#include <string.h>

void mg_evaluator_init(struct mg_evaluator *e, const struct mg_problem *p, struct mg_arena *arena,
                       uint32_t step_capacity)
{
    memset(e, 0, sizeof *e);
    e->p = p;
    e->due = MG_NEW_ARRAY(arena, uint64_t, p->value_count + 1);
    e->hosted = MG_NEW_ARRAY(arena, uint32_t, p->value_count);
    e->copied = MG_NEW_ARRAY(arena, uint8_t, p->op_count);
    for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
        e->ready[v] = MG_NEW_ARRAY(arena, double, p->value_count);
        e->host_end[v] = MG_NEW_ARRAY(arena, double, p->value_count);
    }
    e->flying = MG_NEW_ARRAY(arena, uint8_t, p->value_count + 1);
    e->loaded = MG_NEW_ARRAY(arena, uint32_t, step_capacity);
    e->live_at = MG_NEW_ARRAY(arena, uint64_t, step_capacity);
    e->start = MG_NEW_ARRAY(arena, double, step_capacity);
    e->step_capacity = step_capacity;
}

/* ---- memory ---- */

static inline uint64_t make_live(uint64_t *due, uint32_t root)
{
    uint64_t added = due[root];
    due[root] = 0;
    return added;
}

static uint64_t make_all_live(uint64_t *due, const uint32_t *root, uint32_t count)
{
    uint64_t added = 0;
    for (uint32_t i = 0; i < count; i++)
        added += make_live(due, root[i]);
    return added;
}

/* What a step changes, seen backwards: bytes that its operands add, bytes that end with its results, bytes live
 * during it alone, less those that it need not have of its own. */
struct touch {
    uint64_t added, ended, here;
};

/* Where a root is made it ends; nobody read what is still due. */
static inline void end_root(uint64_t *due, const uint64_t *bytes, uint32_t root, struct touch *t)
{
    t->ended += bytes[root] - due[root];
    t->here += due[root];
    due[root] = bytes[root];
}

static void end_all(uint64_t *due, const uint64_t *bytes, const uint32_t *root, uint32_t count, struct touch *t)
{
    for (uint32_t i = 0; i < count; i++)
        end_root(due, bytes, root[i], t);
}

/* The result takes the storage of the first operand that nobody reads later. */
static inline struct touch touch_step(uint64_t *due, const uint64_t *bytes, const struct mg_scheme_step *step,
                                      uint64_t in_place)
{
    uint64_t first = due[step->reuse[0]], second = due[step->reuse[1]];
    struct touch t = {0, 0, step->temp - ((first ? first : second) & in_place)};
    t.added = make_live(due, step->reads[0]);
    t.added += make_live(due, step->reads[1]);
    end_root(due, bytes, step->def, &t);
    return t;
}

/* The same by the rows, whatever their lengths. */
static struct touch touch_rows(uint64_t *due, const struct mg_scheme *scheme, uint32_t op, uint64_t in_place)
{
    const struct mg_rows *reads = &scheme->p->reads, *defs = &scheme->defs, *reuse = &scheme->reuse;
    uint64_t shared = 0;
    for (uint32_t i = reuse->start[op]; i < reuse->start[op + 1] && shared == 0; i++)
        shared = due[reuse->item[i]];
    struct touch t = {0, 0, scheme->steps[op].temp - (shared & in_place)};
    t.added = make_all_live(due, &reads->item[reads->start[op]], reads->start[op + 1] - reads->start[op]);
    end_all(due, scheme->bytes, &defs->item[defs->start[op]], defs->start[op + 1] - defs->start[op], &t);
    return t;
}

/* A store's or load's, or those of a region's bounds. */
static struct touch touch_other(struct mg_evaluator *e, const struct mg_scheme *scheme, mg_word word, bool *copied)
{
    struct touch t = {0, 0, 0};
    uint32_t x = mg_word_index(word);
    const struct mg_scheme_region *region = mg_word_kind(word) >= MG_WORD_BEGIN ? &scheme->regions[x] : NULL;
    switch (mg_word_kind(word)) {
    case MG_WORD_LOAD:
        *copied = true;
        end_root(e->due, scheme->bytes, x, &t);
        break;
    case MG_WORD_STORE:
        *copied = true;
        t.added = make_live(e->due, x);
        if (e->hosted[x] != e->host_round) {
            e->hosted[x] = e->host_round;
            e->host += scheme->host[x];
        }
        break;
    case MG_WORD_END:
        t.added = make_all_live(e->due, region->inputs, region->input_count);
        t.added += make_all_live(e->due, region->outputs, region->output_count);
        *copied = *copied && region->depth > 0;
        break;
    default:
        end_all(e->due, scheme->bytes, region->outputs, region->output_count, &t);
        e->copied[x] = *copied;
        break;
    }
    return t;
}

static uint64_t memory_pass(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list)
{
    const struct mg_scheme_step *steps = scheme->steps;
    const uint64_t *bytes = scheme->bytes;
    uint64_t *due = e->due, *live_at = e->live_at, in_place = e->keep_apart ? 0 : UINT64_MAX, peak = 0;
    uint32_t peak_step = 0;
    bool copied = false;
    memcpy(due, bytes, (e->p->value_count + 1) * sizeof *due);
    uint64_t live = e->p->resident_bytes + make_all_live(due, e->p->outputs, e->p->output_count);
    e->host = 0;
    e->host_round++;
    for (uint32_t i = list->count; i-- > 0;) {
        mg_word word = list->word[i];
        enum mg_word_kind kind = mg_word_kind(word);
        struct touch t;
        if (kind == MG_WORD_COMPUTE) {
            t = steps[word].more ? touch_rows(due, scheme, word, in_place)
                                 : touch_step(due, bytes, &steps[word], in_place);
        } else if (kind == MG_WORD_FREE) {
            /* live up to, not including, this step */
            live_at[i] = live;
            live += make_live(due, mg_word_index(word));
            continue;
        } else {
            t = touch_other(e, scheme, word, &copied);
        }
        live += t.added;
        live_at[i] = live + t.here;
        peak_step = live + t.here >= peak ? i : peak_step;
        peak = live + t.here >= peak ? live + t.here : peak;
        live -= t.ended;
    }
    e->peak_step = peak_step;
    return peak;
}

/* ---- time ---- */

/* Of one part: of the first (and of what stands outside regions), or of a later one. */
struct clocks {
    double c, d, h, f;
};

/* What the parts have in common: how many loads are in flight, and whether F moved since a step waited for it. */
struct pending {
    uint32_t loads;
    bool freed;
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

static inline bool reads_flying(const struct mg_evaluator *e, const struct mg_scheme_step *step)
{
    return e->flying[step->reads[0]] || e->flying[step->reads[1]] || step->more;
}

/* The parts' clocks k[0 .. variants) wait for the loads that op reads. */
static void wait_for_loads(struct mg_evaluator *e, struct clocks *k, uint32_t variants, uint32_t op,
                           struct pending *pending)
{
    const struct mg_rows *reads = &e->p->reads;
    for (uint32_t j = reads->start[op]; j < reads->start[op + 1]; j++) {
        uint32_t root = reads->item[j];
        if (!e->flying[root])
            continue;
        e->flying[root] = 0;
        pending->loads--;
        for (uint32_t v = 0; v < variants; v++)
            k[v].c = later(k[v].c, e->ready[v][root]);
    }
}

/* What a compute step waits for before it starts. */
static inline void wait_for_copies(struct mg_evaluator *e, const struct mg_scheme *scheme, struct clocks *k,
                                   uint32_t variants, uint32_t op, struct pending *pending)
{
    if (pending->loads && reads_flying(e, &scheme->steps[op]))
        wait_for_loads(e, k, variants, op, pending);
    if (pending->freed)
        for (uint32_t v = 0; v < variants; v++)
            k[v].c = later(k[v].c, k[v].f);
    pending->freed = false;
}

static void time_copy(struct mg_evaluator *e, const struct mg_scheme *scheme, struct clocks *k, uint32_t variant,
                      enum mg_word_kind kind, uint32_t root)
{
    double *ready = &e->ready[variant][root], *host_end = &e->host_end[variant][root];
    join_streams(k, e->p->device->copy_streams);
    if (kind == MG_WORD_STORE) {
        k->d = later(later(k->d, k->c), later(k->f, *ready)) + scheme->store_s[variant][root];
        *host_end = k->d;
    } else if (kind == MG_WORD_LOAD) {
        k->h = later(later(k->h, k->c), later(k->f, *host_end)) + scheme->load_s[variant][root];
        *ready = k->h;
    } else {
        k->f = later(k->f, later(*host_end, *ready));
    }
    join_streams(k, e->p->device->copy_streams);
}

/* A copy or free in the parts of k[0 .. variants). */
static void time_copies(struct mg_evaluator *e, const struct mg_scheme *scheme, struct clocks *k, uint32_t variants,
                        mg_word word, struct pending *pending)
{
    uint32_t root = mg_word_index(word);
    enum mg_word_kind kind = mg_word_kind(word);
    for (uint32_t v = 0; v < variants; v++)
        time_copy(e, scheme, &k[v], v, kind, root);
    if (kind == MG_WORD_LOAD) {
        e->loaded[e->loaded_count++] = root;
        pending->loads += !e->flying[root];
        e->flying[root] = 1;
    }
    pending->freed |= kind == MG_WORD_FREE;
}

/* Steps outside regions from i on; where a region begins or the list ends. */
static uint32_t run_outside(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list,
                            uint32_t i, struct clocks *k, struct pending *pending)
{
    const double *seconds = scheme->seconds[0];
    double *start = e->start, c = k->c; /* in a register: a chain through memory costs more than all else */
    for (; i < list->count; i++) {
        mg_word word = list->word[i];
        enum mg_word_kind kind = mg_word_kind(word);
        if (kind == MG_WORD_COMPUTE && !pending->loads && !pending->freed) {
            start[i] = c;
            c += seconds[word];
            continue;
        }
        if (kind == MG_WORD_BEGIN)
            break;
        k->c = c;
        if (kind == MG_WORD_COMPUTE) {
            wait_for_copies(e, scheme, k, 1, word, pending);
            start[i] = k->c;
            k->c += seconds[word];
        } else {
            start[i] = c;
            time_copies(e, scheme, k, 1, word, pending);
        }
        c = k->c;
    }
    k->c = c;
    return i;
}

/* A body without copies from its first step on, all its parts; its end. */
static uint32_t run_body(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list, uint32_t i,
                         mg_word last, struct clocks *k, struct pending *pending)
{
    const double *seconds = scheme->seconds[0], *rest = scheme->rest[0];
    double others = 0, nested = 0;
    for (; list->word[i] != last; i++) {
        mg_word word = list->word[i];
        enum mg_word_kind kind = mg_word_kind(word);
        if (kind == MG_WORD_COMPUTE) {
            wait_for_copies(e, scheme, k, 1, word, pending);
            e->start[i] = k->c;
            k->c += seconds[word];
            nested += rest[word];
            others += scheme->others[word];
        } else {
            e->start[i] = k->c;
            k->c += kind == MG_WORD_END ? nested : 0;
            nested = 0;
        }
    }
    k->c += others;
    return i;
}

/* The same where copies run beside: the first part goes on from what is in flight, a part of either later extent
 * starts from rest, since everything local ends in it. */
static uint32_t run_parts(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list,
                          uint32_t i, mg_word last, struct clocks *first, struct pending *pending)
{
    const struct mg_scheme_region *region = &scheme->regions[mg_word_index(last)];
    struct clocks k[MG_SCHEME_VARIANTS] = {*first};
    double nested[MG_SCHEME_VARIANTS] = {0};
    for (; list->word[i] != last; i++) {
        mg_word word = list->word[i];
        enum mg_word_kind kind = mg_word_kind(word);
        if (kind == MG_WORD_COMPUTE) {
            wait_for_copies(e, scheme, k, MG_SCHEME_VARIANTS, word, pending);
            e->start[i] = k[0].c;
            for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
                k[v].c += scheme->seconds[v][word];
                nested[v] += scheme->rest[v][word];
            }
        } else if (kind <= MG_WORD_FREE) {
            e->start[i] = k[0].c;
            time_copies(e, scheme, k, MG_SCHEME_VARIANTS, word, pending);
        } else {
            e->start[i] = k[0].c;
            for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
                k[v].c += kind == MG_WORD_END ? nested[v] : 0;
                nested[v] = 0;
            }
        }
    }
    *first = k[0];
    first->c = later(first->c, first->f);
    for (uint32_t v = 1; v < MG_SCHEME_VARIANTS; v++)
        if (region->repeat[v])
            first->c += region->repeat[v] * later(later(k[v].c, k[v].f), later(k[v].d, k[v].h));
    first->f = first->c;
    return i;
}

static void forget_loads(struct mg_evaluator *e)
{
    for (uint32_t i = 0; i < e->loaded_count; i++) {
        e->flying[e->loaded[i]] = 0;
        for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++)
            e->ready[v][e->loaded[i]] = 0;
    }
    e->loaded_count = 0;
}

static double time_pass(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list)
{
    struct clocks k = {0};
    struct pending pending = {0};
    forget_loads(e);
    for (uint32_t i = 0;; i++) {
        i = run_outside(e, scheme, list, i, &k, &pending);
        if (i == list->count)
            break;
        uint32_t region = mg_word_index(list->word[i]);
        mg_word last = MG_WORD(MG_WORD_END, region);
        e->start[i] = k.c;
        i = e->copied[region] ? run_parts(e, scheme, list, i + 1, last, &k, &pending)
                              : run_body(e, scheme, list, i + 1, last, &k, &pending);
        e->start[i] = k.c;
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
