/* Lists of steps: made from a scheme, checked, hashed. */
#include <string.h>

#include "search/state.h"

/* ---- from a scheme ---- */

/* One level (the top, or a region's body) is ordered at a time: its items are the operators that
 * stand directly in it and the regions nested in it (Kahn's algorithm with a heap by rank). Items
 * are numbered: operators by themselves, region r as op_count + r. */
struct sorter {
    const struct mg_problem *p;
    const struct mg_scheme *scheme;
    const uint32_t *rank; /* per operator */
    uint32_t *item_rank;  /* per item */
    uint32_t *waiting;    /* per item: predecessors not yet listed */
    uint32_t *heap, heap_count;
    struct mg_list *out;
};

static uint32_t item_count(const struct sorter *s)
{
    return s->p->op_count + s->scheme->region_count;
}

/* The item that stands for an operator at a level, or MG_NONE if it is not in that level. */
static uint32_t item_at(const struct sorter *s, uint32_t op, uint32_t level)
{
    uint32_t item = op;
    for (uint32_t r = s->scheme->region_of[op]; r != level; r = s->scheme->regions[r].parent) {
        if (r == MG_NONE)
            return MG_NONE;
        item = s->p->op_count + r;
    }
    return item;
}

static void heap_push(struct sorter *s, uint32_t item)
{
    uint32_t i = s->heap_count++;
    while (i > 0 && s->item_rank[s->heap[(i - 1) / 2]] > s->item_rank[item]) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = item;
}

static uint32_t heap_pop(struct sorter *s)
{
    uint32_t top = s->heap[0], last = s->heap[--s->heap_count], i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count && s->item_rank[s->heap[child + 1]] < s->item_rank[s->heap[child]])
            child++;
        if (s->item_rank[s->heap[child]] >= s->item_rank[last])
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* Calls visit for the operators of an item. */
static void append(struct sorter *s, mg_word word)
{
    s->out->word[s->out->count++] = word;
}

static enum mg_code sort_level(struct sorter *s, uint32_t level, const uint32_t *ops, uint32_t count,
                               struct mg_arena *scratch, struct mg_error *why);

static enum mg_code emit_item(struct sorter *s, uint32_t item, struct mg_arena *scratch, struct mg_error *why)
{
    if (item < s->p->op_count) {
        append(s, MG_WORD(MG_WORD_COMPUTE, item));
        return MG_OK;
    }
    uint32_t r = item - s->p->op_count, n = 0;
    const struct mg_scheme_region *region = &s->scheme->regions[r];
    uint32_t *ops = MG_NEW_ARRAY(scratch, uint32_t, region->op_count);
    for (uint32_t i = 0; i < region->op_count; i++)
        if (s->p->computes[region->ops[i].op])
            ops[n++] = region->ops[i].op;
    append(s, MG_WORD(MG_WORD_BEGIN, r));
    uint32_t *outer_heap = s->heap, outer_count = s->heap_count;
    s->heap = MG_NEW_ARRAY(scratch, uint32_t, n + s->scheme->region_count + 1);
    s->heap_count = 0;
    enum mg_code code = sort_level(s, r, ops, n, scratch, why);
    s->heap = outer_heap;
    s->heap_count = outer_count;
    append(s, MG_WORD(MG_WORD_END, r));
    return code;
}

/* One more predecessor listed for each successor of the item's operators outside it. */
static void release_successors(struct sorter *s, uint32_t item, uint32_t level)
{
    const struct mg_rows *succ = &s->p->succ;
    uint32_t count = 1;
    struct mg_region_op single = {item, 0, 0};
    const struct mg_region_op *ops = &single;
    if (item >= s->p->op_count) {
        ops = s->scheme->regions[item - s->p->op_count].ops;
        count = s->scheme->regions[item - s->p->op_count].op_count;
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = succ->start[ops[i].op]; j < succ->start[ops[i].op + 1]; j++) {
            uint32_t next = item_at(s, succ->item[j], level);
            if (next != MG_NONE && next != item && --s->waiting[next] == 0)
                heap_push(s, next);
        }
}

static enum mg_code sort_level(struct sorter *s, uint32_t level, const uint32_t *ops, uint32_t count,
                               struct mg_arena *scratch, struct mg_error *why)
{
    uint32_t *item = MG_NEW_ARRAY(scratch, uint32_t, count), items = 0, done = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t it = item_at(s, ops[i], level);
        if (s->item_rank[it] == MG_NONE) {
            item[items++] = it;
            s->waiting[it] = 0;
        }
        if (s->rank[ops[i]] < s->item_rank[it])
            s->item_rank[it] = s->rank[ops[i]];
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t it = item_at(s, ops[i], level);
        for (uint32_t j = s->p->pred.start[ops[i]]; j < s->p->pred.start[ops[i] + 1]; j++) {
            uint32_t from = item_at(s, s->p->pred.item[j], level);
            if (from != MG_NONE && from != it)
                s->waiting[it]++;
        }
    }
    for (uint32_t i = 0; i < items; i++)
        if (s->waiting[item[i]] == 0)
            heap_push(s, item[i]);
    while (s->heap_count) {
        uint32_t it = heap_pop(s);
        enum mg_code code = emit_item(s, it, scratch, why);
        if (code != MG_OK)
            return code;
        done++;
        release_successors(s, it, level);
    }
    if (done != items)
        return mg_fail(why, MG_ERR_INVALID, "", "regions wait for each other (R10)");
    return MG_OK;
}

enum mg_code mg_list_from_scheme(const struct mg_problem *p, const struct mg_scheme *scheme, const uint32_t *rank,
                                 struct mg_arena *scratch, struct mg_list *out, struct mg_error *why)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct sorter s = {.p = p, .scheme = scheme, .rank = rank, .out = out};
    uint32_t items = item_count(&s);
    s.item_rank = MG_NEW_ARRAY(scratch, uint32_t, items + 1);
    memset(s.item_rank, 0xff, items * sizeof *s.item_rank);
    s.waiting = MG_NEW_ARRAY(scratch, uint32_t, items + 1);
    s.heap = MG_NEW_ARRAY(scratch, uint32_t, items + 1);
    if (!rank) {
        uint32_t *graph_order = MG_NEW_ARRAY(scratch, uint32_t, p->op_count);
        for (uint32_t o = 0; o < p->op_count; o++)
            graph_order[o] = o;
        s.rank = graph_order;
    }
    out->count = 0;
    enum mg_code code = mg_fail(why, MG_ERR_LIMIT, "", "list too long");
    if (out->capacity >= p->order_count + 2 * scheme->region_count)
        code = sort_level(&s, MG_NONE, p->order, p->order_count, scratch, why);
    mg_arena_rewind(scratch, mark);
    return code;
}

/* ---- checking ---- */

struct list_check {
    const struct mg_problem *p;
    const struct mg_scheme *scheme;
    uint8_t *made;    /* per root: an instance is alive */
    uint8_t *stored;  /* per root: a host copy exists */
    uint8_t *storing; /* per root: stored and not freed yet */
    uint8_t *updated; /* per operator: has run once */
    uint32_t open[MG_SCHEME_MAX_DEPTH], depth;
};

static const char *check_compute(struct list_check *c, uint32_t op)
{
    const struct mg_problem *p = c->p;
    uint32_t inside = c->depth ? c->open[c->depth - 1] : MG_NONE;
    if (c->scheme->region_of[op] != inside)
        return "stands outside its region";
    if (c->updated[op] && !p->repeatable[op])
        return "may not be repeated";
    for (uint32_t i = p->reads.start[op]; i < p->reads.start[op + 1]; i++)
        if (!c->made[p->reads.item[i]])
            return "reads what is not there";
    for (uint32_t i = p->updaters.start[op]; i < p->updaters.start[op + 1]; i++)
        if (c->updated[p->updaters.item[i]])
            return "reads an old version after its update";
    for (uint32_t i = p->defs.start[op]; i < p->defs.start[op + 1]; i++) {
        if (c->updated[op] && c->scheme->is_region_output[p->defs.item[i]])
            return "writes a region output twice";
        if (c->storing[p->defs.item[i]])
            return "takes the place of a stored instance before its free";
        c->made[p->defs.item[i]] = 1;
    }
    c->updated[op] = 1;
    return NULL;
}

static const char *check_copy(struct list_check *c, enum mg_word_kind kind, uint32_t root)
{
    uint32_t inside = c->depth ? c->open[c->depth - 1] : MG_NONE;
    if (c->p->value_flags[root] & (MG_VALUE_RESIDENT | MG_VALUE_PINNED) || c->scheme->home[root] != inside)
        return "copies what lives elsewhere";
    if (inside != MG_NONE && (c->scheme->regions[inside].depth > 0 || c->scheme->regions[inside].has_nested))
        return "copies in a body with nested regions";
    if (kind == MG_WORD_STORE ? !c->made[root] : kind == MG_WORD_FREE ? !c->made[root] : !c->stored[root])
        return "copies what is not there";
    if (kind == MG_WORD_STORE)
        c->stored[root] = 1;
    else
        c->made[root] = kind == MG_WORD_LOAD;
    c->storing[root] = kind == MG_WORD_STORE;
    return NULL;
}

static const char *check_word(struct list_check *c, mg_word word)
{
    uint32_t x = mg_word_index(word);
    switch (mg_word_kind(word)) {
    case MG_WORD_COMPUTE:
        return check_compute(c, x);
    case MG_WORD_BEGIN:
        if (c->depth == MG_SCHEME_MAX_DEPTH ||
            c->scheme->regions[x].parent != (c->depth ? c->open[c->depth - 1] : MG_NONE))
            return "opens a region in the wrong place";
        for (uint32_t i = 0; i < c->scheme->regions[x].input_count; i++)
            if (!c->made[c->scheme->regions[x].inputs[i]])
                return "opens a region before its inputs are there";
        c->open[c->depth++] = x;
        return NULL;
    case MG_WORD_END:
        if (c->depth == 0 || c->open[c->depth - 1] != x)
            return "closes a region that is not open";
        c->depth--;
        return NULL;
    default:
        return check_copy(c, mg_word_kind(word), x);
    }
}

enum mg_code mg_list_check(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                           struct mg_arena *scratch, struct mg_error *why)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct list_check c = {.p = p, .scheme = scheme};
    c.made = MG_NEW_ARRAY(scratch, uint8_t, p->value_count);
    c.stored = MG_NEW_ARRAY(scratch, uint8_t, p->value_count);
    c.storing = MG_NEW_ARRAY(scratch, uint8_t, p->value_count);
    c.updated = MG_NEW_ARRAY(scratch, uint8_t, p->op_count);
    for (uint32_t v = 0; v < p->value_count; v++)
        c.made[v] = (p->value_flags[v] & MG_VALUE_INPUT) != 0;
    enum mg_code code = MG_OK;
    for (uint32_t i = 0; i < list->count && code == MG_OK; i++) {
        const char *fault = check_word(&c, list->word[i]);
        if (fault)
            code = mg_fail(why, MG_ERR_INTERNAL, "", "step %u (kind %u, index %u) %s", i,
                           (unsigned)mg_word_kind(list->word[i]), mg_word_index(list->word[i]), fault);
    }
    for (uint32_t v = 0; v < p->value_count && code == MG_OK; v++)
        if (c.storing[v])
            code = mg_fail(why, MG_ERR_INTERNAL, "", "%s is stored and never freed", p->g->values[v].name);
    for (uint32_t i = 0; i < p->order_count && code == MG_OK; i++)
        if (!c.updated[p->order[i]])
            code = mg_fail(why, MG_ERR_INTERNAL, "", "%s is missing", p->g->ops[p->order[i]].name);
    mg_arena_rewind(scratch, mark);
    return code;
}

/* ---- hashing ---- */

/* Sum over neighbouring pairs of steps: an edit changes as many terms as it changes neighbours. */
struct mg_hash128 mg_list_hash(const struct mg_scheme *scheme, const struct mg_list *list)
{
    struct mg_hash128 sum = scheme->hash;
    uint64_t before = UINT32_MAX;
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t pair = before << 32 | list->word[i];
        uint64_t a = (pair ^ pair >> 32) * UINT64_C(0xd6e8feb86659fd93);
        a = (a ^ a >> 32) * UINT64_C(0xd6e8feb86659fd93);
        uint64_t b = (pair ^ UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
        b = (b ^ b >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
        sum = mg_hash_add(sum, (struct mg_hash128){a ^ a >> 32, b ^ b >> 33});
        before = list->word[i];
    }
    return sum;
}
