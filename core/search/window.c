/* Windows of lists as orderings (MAGIS section 5).
 *
 * Inside a window each occurrence of an operator is an item of its own and reads the instance that was the
 * latest where the list has it. So a root's next instance waits for all readers of the one before, besides data
 * and in-place order. Loads keep their order, and so do stores: they share a link. A nested region is one item
 * that makes its outputs, ends its inputs and needs what its body has at most beside them. */
#include "search/window.h"

#include <string.h>

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

uint32_t mg_item_end(const struct mg_list *list, uint32_t i)
{
    if (mg_word_kind(list->word[i]) == MG_WORD_BEGIN) {
        mg_word end = MG_WORD(MG_WORD_END, mg_word_index(list->word[i]));
        while (list->word[i] != end)
            i++;
    }
    return i + 1;
}

uint32_t mg_item_before(const struct mg_list *list, uint32_t i)
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
    const struct mg_scheme *scheme;
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
    const struct mg_rows *reads = &b->p->reads, *defs = &b->p->defs, *reuse = &b->scheme->reuse;
    depend_on_graph(b, item, op);
    for (uint32_t k = reads->start[op]; k < reads->start[op + 1]; k++)
        read_root(b, item, reads->item[k]);
    for (uint32_t k = reuse->start[op]; k < reuse->start[op + 1]; k++)
        *MG_PUSH(b->scratch, b->o->reuse.item, b->reuse_count, b->reuse_capacity) = b->current[reuse->item[k]] - 1;
    for (uint32_t k = defs->start[op]; k < defs->start[op + 1]; k++)
        make_root(b, item, defs->item[k]);
    b->o->extra[item] = b->scheme->steps[op].temp;
}

static void add_region(struct window_builder *b, uint32_t item, uint32_t from, uint32_t to)
{
    const struct mg_scheme_region *region = &b->scheme->regions[mg_word_index(b->list->word[from])];
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
    const struct mg_scheme *scheme = b->scheme;
    uint8_t *after = MG_NEW_ARRAY(b->scratch, uint8_t, p->value_count);
    for (uint32_t i = step; i < b->list->count; i++) {
        uint32_t x = mg_word_index(b->list->word[i]);
        switch (mg_word_kind(b->list->word[i])) {
        case MG_WORD_COMPUTE:
            note(after, &p->reads.item[p->reads.start[x]], p->reads.start[x + 1] - p->reads.start[x], AFTER_READ);
            note(after, &scheme->defs.item[scheme->defs.start[x]], scheme->defs.start[x + 1] - scheme->defs.start[x],
                 AFTER_MADE);
            break;
        case MG_WORD_STORE:
        case MG_WORD_FREE:
            note(after, &x, 1, AFTER_READ);
            break;
        case MG_WORD_LOAD:
            note(after, &x, 1, AFTER_MADE);
            break;
        case MG_WORD_BEGIN:
            note(after, scheme->regions[x].outputs, scheme->regions[x].output_count, AFTER_MADE);
            break;
        case MG_WORD_END:
            note(after, scheme->regions[x].inputs, scheme->regions[x].input_count, AFTER_READ);
            note(after, scheme->regions[x].outputs, scheme->regions[x].output_count, AFTER_READ);
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
        bool buffer = kind == MG_WORD_COMPUTE && b->scheme->is_region_output[root];
        o->bytes[x] = buffer ? 0 : b->scheme->bytes[root];
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
    for (uint32_t i = from; i < to; i = mg_item_end(list, i)) {
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

bool mg_window_build(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                     const uint64_t *live, uint32_t from, uint32_t to, const struct mg_schedule_limits *limits,
                     struct mg_arena *scratch, struct mg_window *out)
{
    struct window_builder b = {
        .p = p, .scheme = scheme, .list = list, .live = live, .scratch = scratch, .o = &out->ordering};
    struct mg_ordering *o = &out->ordering;
    memset(out, 0, sizeof *out);
    if (!find_items(list, from, to, scratch, out))
        return false;
    b.first = out->first;
    b.current = MG_NEW_ARRAY(scratch, uint32_t, p->value_count);
    b.ran = MG_NEW_ARRAY(scratch, uint32_t, p->op_count);
    b.occurrence_capacity = o->count + 1;
    b.occurrence = MG_NEW_ARRAY(scratch, struct occurrence, b.occurrence_capacity);
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
