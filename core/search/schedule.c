/* Windows of lists as orderings, and which windows to take (MAGIS section 5).
 *
 * Inside a window each occurrence of an operator is an item of its own and reads the instance that was the
 * latest where the list has it. So a root's next instance waits for all readers of the one before, besides data
 * and in-place order. Loads keep their order, and so do stores: they share a link. A nested region is one item
 * that makes its outputs, ends its inputs and needs what its body has at most beside them. */
#include "search/schedule.h"

#include <string.h>

/* What the search spends on a window: about as much as a hundred evaluations. */
enum { IMPROVE_SETS = 1000, IMPROVE_BEAM = 16, IMPROVE_REACH = 20 };

/* ---- levels ---- */

struct mg_level mg_level_around(const struct mg_list *list, uint32_t step, bool outside)
{
    uint32_t open[MG_SCHEME_MAX_DEPTH], depth = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        enum mg_word_kind kind = mg_word_kind(list->word[i]);
        if (i >= step && kind == MG_WORD_END && depth > 0 && open[depth - 1] < step) {
            uint32_t begin = open[depth - 1];
            if (!outside && (i > step || mg_word_kind(list->word[step]) != MG_WORD_END))
                return (struct mg_level){begin + 1, i};
            outside = outside && i == step; /* the level of an `end` is the one around its body */
        }
        if (kind == MG_WORD_BEGIN)
            open[depth++] = i;
        else if (kind == MG_WORD_END)
            depth--;
    }
    return (struct mg_level){outside ? MG_NONE : 0, list->count};
}

/* The step after the item at i, and the first step of the item that ends before i. */
static uint32_t item_end(const struct mg_list *list, uint32_t i)
{
    if (mg_word_kind(list->word[i]) == MG_WORD_BEGIN) {
        mg_word end = MG_WORD(MG_WORD_END, mg_word_index(list->word[i]));
        while (list->word[i] != end)
            i++;
    }
    return i + 1;
}

static uint32_t item_before(const struct mg_list *list, uint32_t i)
{
    i--;
    if (mg_word_kind(list->word[i]) == MG_WORD_END) {
        mg_word begin = MG_WORD(MG_WORD_BEGIN, mg_word_index(list->word[i]));
        while (list->word[i] != begin)
            i--;
    }
    return i;
}

/* ---- building a window ---- */

struct instance {
    uint32_t maker; /* item or MG_NONE */
    struct mg_set readers;
};

struct window_builder {
    const struct mg_problem *p;
    const struct mg_scheme *l;
    const struct mg_list *list;
    const uint64_t *live;
    struct mg_arena *scratch;
    struct mg_ordering *o;
    const uint32_t *first;
    uint32_t *current; /* per root: latest instance + 1 */
    uint32_t *ran;     /* per operator: latest of its occurrences + 1 */
    struct occurrence {
        uint32_t item, earlier;
    } * occurrence;
    size_t occurrences, occurrence_capacity;
    struct instance *instance;
    size_t instances, instance_capacity;
    uint32_t *root; /* per instance */
    size_t roots, root_capacity;
    size_t make_count, make_capacity, read_count, read_capacity, reuse_count, reuse_capacity;
    uint32_t last_load, last_store; /* items + 1 */
};

static uint32_t new_instance(struct window_builder *b, uint32_t root, uint32_t maker)
{
    struct instance *n = MG_PUSH(b->scratch, b->instance, b->instances, b->instance_capacity);
    *n = (struct instance){.maker = maker};
    *MG_PUSH(b->scratch, b->root, b->roots, b->root_capacity) = root;
    b->current[root] = (uint32_t)b->instances;
    return (uint32_t)b->instances - 1;
}

static void read_root(struct window_builder *b, uint32_t item, uint32_t root)
{
    uint32_t x = b->current[root] ? b->current[root] - 1 : new_instance(b, root, MG_NONE);
    struct instance *n = &b->instance[x];
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): `current` names instances that exist */
    if (n->maker == item || mg_set_has(&n->readers, item))
        return;
    if (n->maker != MG_NONE)
        mg_set_add(&b->o->pred[item], n->maker);
    mg_set_add(&n->readers, item);
    *MG_PUSH(b->scratch, b->o->reads.item, b->read_count, b->read_capacity) = x;
}

static void make_root(struct window_builder *b, uint32_t item, uint32_t root)
{
    if (b->current[root]) {
        const struct instance *old = &b->instance[b->current[root] - 1];
        for (int w = 0; w < MG_SET_WORDS; w++)
            b->o->pred[item].word[w] |= old->readers.word[w];
        b->o->pred[item].word[item / 64] &= ~(UINT64_C(1) << item % 64);
        if (old->maker != MG_NONE)
            mg_set_add(&b->o->pred[item], old->maker);
    }
    *MG_PUSH(b->scratch, b->o->makes.item, b->make_count, b->make_capacity) = new_instance(b, root, item);
}

/* The instance goes: after all that reads it. */
static void free_root(struct window_builder *b, uint32_t item, uint32_t root)
{
    read_root(b, item, root);
    const struct mg_set *readers = &b->instance[b->current[root] - 1].readers;
    for (int w = 0; w < MG_SET_WORDS; w++)
        b->o->pred[item].word[w] |= readers->word[w];
    b->o->pred[item].word[item / 64] &= ~(UINT64_C(1) << item % 64);
}

/* Graph edges to all occurrences listed earlier. */
static void depend_on_graph(struct window_builder *b, uint32_t item, uint32_t op)
{
    const struct mg_rows *pred = &b->p->pred;
    for (uint32_t k = pred->start[op]; k < pred->start[op + 1]; k++)
        for (uint32_t i = b->ran[pred->item[k]]; i; i = b->occurrence[i - 1].earlier)
            if (b->occurrence[i - 1].item != item)
                mg_set_add(&b->o->pred[item], b->occurrence[i - 1].item);
    *MG_PUSH(b->scratch, b->occurrence, b->occurrences, b->occurrence_capacity) = (struct occurrence){item, b->ran[op]};
    b->ran[op] = (uint32_t)b->occurrences;
}

static void add_compute(struct window_builder *b, uint32_t item, uint32_t op)
{
    const struct mg_rows *reads = &b->p->reads, *defs = &b->p->defs, *reuse = &b->l->reuse;
    depend_on_graph(b, item, op);
    for (uint32_t k = reads->start[op]; k < reads->start[op + 1]; k++)
        read_root(b, item, reads->item[k]);
    for (uint32_t k = reuse->start[op]; k < reuse->start[op + 1]; k++)
        *MG_PUSH(b->scratch, b->o->reuse.item, b->reuse_count, b->reuse_capacity) = b->current[reuse->item[k]] - 1;
    for (uint32_t k = defs->start[op]; k < defs->start[op + 1]; k++)
        make_root(b, item, defs->item[k]);
    b->o->extra[item] = b->l->steps[op].temp;
}

static void add_region(struct window_builder *b, uint32_t item, uint32_t from, uint32_t to)
{
    const struct mg_scheme_region *region = &b->l->regions[mg_word_index(b->list->word[from])];
    uint64_t most = b->live[from];
    for (uint32_t i = from + 1; i + 1 < to; i++) {
        if (mg_word_kind(b->list->word[i]) == MG_WORD_COMPUTE)
            depend_on_graph(b, item, mg_word_index(b->list->word[i]));
        most = b->live[i] > most ? b->live[i] : most;
    }
    for (uint32_t k = 0; k < region->input_count; k++)
        read_root(b, item, region->inputs[k]);
    for (uint32_t k = 0; k < region->output_count; k++)
        make_root(b, item, region->outputs[k]);
    b->o->extra[item] = most - b->live[from];
}

static void keep_order(struct window_builder *b, uint32_t item, uint32_t *last)
{
    if (*last)
        mg_set_add(&b->o->pred[item], *last - 1);
    *last = item + 1;
}

static void add_item(struct window_builder *b, uint32_t item)
{
    uint32_t from = b->first[item], x = mg_word_index(b->list->word[from]);
    b->o->makes.start[item] = (uint32_t)b->make_count;
    b->o->reads.start[item] = (uint32_t)b->read_count;
    b->o->reuse.start[item] = (uint32_t)b->reuse_count;
    switch (mg_word_kind(b->list->word[from])) {
    case MG_WORD_COMPUTE:
        add_compute(b, item, x);
        break;
    case MG_WORD_STORE:
        keep_order(b, item, &b->last_store);
        read_root(b, item, x);
        break;
    case MG_WORD_FREE:
        free_root(b, item, x);
        break;
    case MG_WORD_LOAD:
        keep_order(b, item, &b->last_load);
        make_root(b, item, x);
        break;
    default:
        add_region(b, item, from, b->first[item + 1]);
    }
}

enum after { AFTER_UNKNOWN, AFTER_READ, AFTER_MADE };

static void note(uint8_t *after, const uint32_t *root, uint32_t count, enum after what)
{
    for (uint32_t k = 0; k < count; k++)
        if (after[root[k]] == AFTER_UNKNOWN)
            after[root[k]] = (uint8_t)what;
}

/* What happens first to each root from `step` on. */
static uint8_t *find_after(const struct window_builder *b, uint32_t step)
{
    const struct mg_problem *p = b->p;
    const struct mg_scheme *l = b->l;
    uint8_t *after = MG_NEW_ARRAY(b->scratch, uint8_t, p->value_count);
    for (uint32_t i = step; i < b->list->count; i++) {
        uint32_t x = mg_word_index(b->list->word[i]);
        switch (mg_word_kind(b->list->word[i])) {
        case MG_WORD_COMPUTE:
            note(after, &p->reads.item[p->reads.start[x]], p->reads.start[x + 1] - p->reads.start[x], AFTER_READ);
            note(after, &l->defs.item[l->defs.start[x]], l->defs.start[x + 1] - l->defs.start[x], AFTER_MADE);
            break;
        case MG_WORD_STORE:
        case MG_WORD_FREE:
            note(after, &x, 1, AFTER_READ);
            break;
        case MG_WORD_LOAD:
            note(after, &x, 1, AFTER_MADE);
            break;
        case MG_WORD_BEGIN:
            note(after, l->regions[x].outputs, l->regions[x].output_count, AFTER_MADE);
            break;
        case MG_WORD_END:
            note(after, l->regions[x].inputs, l->regions[x].input_count, AFTER_READ);
            note(after, l->regions[x].outputs, l->regions[x].output_count, AFTER_READ);
            break;
        }
    }
    note(after, p->outputs, p->output_count, AFTER_READ);
    return after;
}

/* Bytes and lifetimes. A region output has its buffer from the region's begin on: made in the body it costs
 * nothing. */
static void finish_instances(struct window_builder *b, uint32_t to)
{
    struct mg_ordering *o = b->o;
    const uint8_t *after = find_after(b, to);
    o->instances = (uint32_t)b->instances;
    o->bytes = MG_NEW_ARRAY(b->scratch, uint64_t, o->instances);
    o->before = MG_NEW_ARRAY(b->scratch, uint8_t, o->instances);
    o->after = MG_NEW_ARRAY(b->scratch, uint8_t, o->instances);
    for (uint32_t x = 0; x < o->instances; x++) {
        uint32_t root = b->root[x];
        enum mg_word_kind kind = MG_WORD_LOAD;
        if (b->instance[x].maker != MG_NONE)
            kind = mg_word_kind(b->list->word[b->first[b->instance[x].maker]]);
        bool buffer = kind == MG_WORD_COMPUTE && b->l->is_region_output[root];
        o->bytes[x] = buffer ? 0 : b->l->bytes[root];
        o->before[x] = b->instance[x].maker == MG_NONE;
        o->after[x] = b->current[root] == x + 1 && after[root] == AFTER_READ;
    }
}

/* An operator of the window whose results only one update reads, and that reads nothing else of it. */
static uint32_t updated_by(const struct mg_problem *p, uint32_t op)
{
    uint32_t update = MG_NONE;
    for (uint32_t k = p->defs.start[op]; k < p->defs.start[op + 1]; k++) {
        const uint32_t *reader = &p->root_readers.item[p->root_readers.start[p->defs.item[k]]];
        uint32_t readers = p->root_readers.start[p->defs.item[k] + 1] - p->root_readers.start[p->defs.item[k]];
        if (readers != 1 || p->value_flags[p->defs.item[k]] & MG_VALUE_OUTPUT ||
            (update != MG_NONE && *reader != update))
            return MG_NONE;
        update = *reader;
    }
    return update != MG_NONE && p->g->ops[update].in_place >= 0 ? update : MG_NONE;
}

/* A producer that only its update reads is placed with it, unless something stands between them. */
static void fold_updates(struct window_builder *b)
{
    struct mg_ordering *o = b->o;
    struct mg_set *ancestors = MG_NEW_ARRAY(b->scratch, struct mg_set, o->count);
    struct mg_set *descendants = MG_NEW_ARRAY(b->scratch, struct mg_set, o->count);
    bool closed = false;
    o->unit = MG_NEW_ARRAY(b->scratch, uint32_t, o->count);
    for (uint32_t i = 0; i < o->count; i++)
        o->unit[i] = i;
    for (uint32_t i = 0; i < o->count; i++) {
        mg_word word = b->list->word[b->first[i]];
        uint32_t update = mg_word_kind(word) == MG_WORD_COMPUTE ? updated_by(b->p, mg_word_index(word)) : MG_NONE;
        uint32_t at = update != MG_NONE ? b->ran[update] : 0;
        if (!at || b->occurrence[at - 1].item <= i)
            continue;
        uint32_t j = b->occurrence[at - 1].item;
        if (!closed)
            mg_ordering_close(o, ancestors, descendants);
        closed = true;
        uint64_t between = 0;
        for (int w = 0; w < MG_SET_WORDS; w++)
            between |= descendants[i].word[w] & ancestors[j].word[w];
        if (!between && mg_word_kind(b->list->word[b->first[j]]) == MG_WORD_COMPUTE)
            o->unit[i] = j;
    }
}

static bool find_items(const struct mg_list *list, uint32_t from, uint32_t to, struct mg_arena *scratch,
                       struct mg_window *out)
{
    uint32_t n = 0;
    out->first = MG_NEW_ARRAY(scratch, uint32_t, MG_SET_MAX + 1);
    for (uint32_t i = from; i < to; i = item_end(list, i)) {
        if (n == MG_SET_MAX)
            return false;
        out->first[n++] = i;
    }
    out->first[n] = to;
    out->ordering.count = n;
    return true;
}

/* What is alive all along, from the first step whose live bytes say it all (those of a `free` do not). */
static uint64_t find_base(const struct window_builder *b, const struct mg_ordering *o)
{
    uint64_t *here = MG_NEW_ARRAY(b->scratch, uint64_t, o->count);
    mg_ordering_cost(o, NULL, b->scratch, here);
    for (uint32_t i = 0; i < o->count; i++) {
        enum mg_word_kind kind = mg_word_kind(b->list->word[b->first[i]]);
        if (kind != MG_WORD_FREE)
            return b->live[b->first[i]] + (kind == MG_WORD_BEGIN ? o->extra[i] : 0) - here[i];
    }
    return 0;
}

bool mg_window_build(const struct mg_problem *p, const struct mg_scheme *l, const struct mg_list *list,
                     const uint64_t *live, uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                     struct mg_arena *scratch, struct mg_window *out)
{
    struct window_builder b = {.p = p, .l = l, .list = list, .live = live, .scratch = scratch, .o = &out->ordering};
    struct mg_ordering *o = &out->ordering;
    memset(out, 0, sizeof *out);
    if (!find_items(list, from, to, scratch, out))
        return false;
    b.first = out->first;
    b.current = MG_NEW_ARRAY(scratch, uint32_t, p->value_count);
    b.ran = MG_NEW_ARRAY(scratch, uint32_t, p->op_count);
    o->pred = MG_NEW_ARRAY(scratch, struct mg_set, o->count);
    o->makes.start = MG_NEW_ARRAY(scratch, uint32_t, o->count + 1);
    o->reads.start = MG_NEW_ARRAY(scratch, uint32_t, o->count + 1);
    o->reuse.start = MG_NEW_ARRAY(scratch, uint32_t, o->count + 1);
    o->extra = MG_NEW_ARRAY(scratch, uint64_t, o->count);
    o->max_sets = limits->max_sets;
    o->beam = limits->beam;
    for (uint32_t i = 0; i < o->count; i++)
        add_item(&b, i);
    o->makes.start[o->count] = (uint32_t)b.make_count;
    o->reads.start[o->count] = (uint32_t)b.read_count;
    o->reuse.start[o->count] = (uint32_t)b.reuse_count;
    finish_instances(&b, to);
    fold_updates(&b);
    o->base = find_base(&b, o);
    o->target = limits->target;
    return true;
}

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

void mg_schedule_interval(const struct mg_problem *p, const struct mg_scheme *l, const struct mg_list *list,
                          const uint64_t *live, const struct mg_schedule_limits *limits, struct mg_arena *scratch,
                          uint32_t *from, uint32_t *to)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct mg_level level = mg_level_around(list, *from, false);
    uint32_t low = *from, high = *to, first = 0, last;
    struct mg_window w;
    for (uint32_t n = 0; n <= limits->reach && low > level.from; n++)
        low = item_before(list, low);
    for (uint32_t n = 0; n <= limits->reach && high < level.to; n++)
        high = item_end(list, high);
    if (mg_window_build(p, l, list, live, low, high, limits, scratch, &w) && w.ordering.count) {
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

bool mg_schedule_window(const struct mg_problem *p, const struct mg_scheme *l, struct mg_list *list,
                        const uint64_t *live, uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                        struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct mg_window w;
    uint32_t order[MG_SET_MAX];
    bool better = false;
    if (mg_window_build(p, l, list, live, from, to, limits, scratch, &w) && w.ordering.count > 1) {
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
static bool try_window(struct mg_evaluator *e, const struct mg_scheme *l, struct mg_list *list, uint32_t from,
                       uint32_t to, const struct mg_schedule_limits *limits, struct mg_arena *scratch, uint64_t *peak)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    mg_word *old = mg_arena_copy(scratch, &list->word[from], (to - from) * sizeof *old);
    bool better = most_live(e->live_at, from, to) > limits->target &&
                  mg_schedule_window(e->p, l, list, e->live_at, from, to, limits, scratch);
    if (better) {
        uint64_t found = mg_evaluate(e, l, list).peak;
        if (found > *peak) {
            memcpy(&list->word[from], old, (to - from) * sizeof *old);
            mg_evaluate(e, l, list);
            better = false;
        } else {
            *peak = found;
        }
    }
    mg_arena_rewind(scratch, mark);
    return better;
}

/* The end of the window from `from`: all that is left, or the narrowest place in its second half. */
static uint32_t window_end(const struct mg_evaluator *e, const struct mg_scheme *l, const struct mg_list *list,
                           uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                           struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    uint32_t end = from, n = 0;
    struct mg_window w;
    for (; n < MG_SET_MAX && end < to; n++)
        end = item_end(list, end);
    if (end < to && mg_window_build(e->p, l, list, e->live_at, from, end, limits, scratch, &w)) {
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

static bool schedule_level(struct mg_evaluator *e, const struct mg_scheme *l, struct mg_list *list,
                           struct mg_level level, const struct mg_schedule_limits *limits, struct mg_arena *scratch,
                           uint64_t *peak)
{
    bool better = false;
    for (uint32_t from = level.from; from < level.to;) {
        uint32_t to = window_end(e, l, list, from, level.to, limits, scratch);
        better |= try_window(e, l, list, from, to, limits, scratch, peak);
        from = to;
    }
    return better;
}

bool mg_schedule_all(struct mg_evaluator *e, const struct mg_scheme *l, struct mg_list *list,
                     const struct mg_schedule_limits *limits, struct mg_arena *scratch)
{
    uint64_t peak = mg_evaluate(e, l, list).peak;
    uint32_t open[MG_SCHEME_MAX_DEPTH], depth = 0;
    bool better = false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (mg_word_kind(list->word[i]) == MG_WORD_BEGIN)
            open[depth++] = i + 1;
        else if (mg_word_kind(list->word[i]) == MG_WORD_END)
            better |= schedule_level(e, l, list, (struct mg_level){open[--depth], i}, limits, scratch, &peak);
    }
    return schedule_level(e, l, list, (struct mg_level){0, list->count}, limits, scratch, &peak) || better;
}

bool mg_schedule_changed(struct mg_evaluator *e, const struct mg_scheme *l, struct mg_list *list, uint32_t from,
                         uint32_t to, const struct mg_schedule_limits *limits, struct mg_arena *scratch)
{
    uint64_t peak = mg_evaluate(e, l, list).peak;
    mg_schedule_interval(e->p, l, list, e->live_at, limits, scratch, &from, &to);
    return try_window(e, l, list, from, to, limits, scratch, &peak);
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
            step = item_before(r->list, step + 1);
        uint32_t from = step, to = item_end(r->list, step);
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
