/* Edits of lists. Every function is linear in the number of steps (mg_edit_place_copies adds the
 * logarithm of the number of steps for each copy). */
#include "search/edit.h"

#include <string.h>

/* ---- spans ---- */

void mg_spans_init(struct mg_spans *s, const struct mg_problem *p, struct mg_arena *arena, uint32_t step_capacity)
{
    s->head = MG_NEW_ARRAY(arena, uint32_t, p->value_count);
    s->tail = MG_NEW_ARRAY(arena, uint32_t, p->value_count);
    s->capacity = p->value_count + 2 * step_capacity;
    s->span = MG_NEW_ARRAY(arena, struct mg_span, s->capacity);
    s->store = MG_NEW_ARRAY(arena, uint32_t, p->value_count);
    s->loaded = MG_NEW_ARRAY(arena, uint32_t, p->value_count);
    s->level = MG_NEW_ARRAY(arena, uint32_t, step_capacity);
    s->first = MG_NEW_ARRAY(arena, uint32_t, p->op_count);
}

static void open_span(struct mg_spans *s, uint32_t root, uint32_t def)
{
    if (s->count == s->capacity)
        return;
    s->span[s->count] = (struct mg_span){def, def == MG_NONE ? 0 : def, MG_NONE};
    if (s->head[root] == MG_NONE)
        s->head[root] = s->count;
    else
        s->span[s->tail[root]].next = s->count;
    s->tail[root] = s->count++;
}

static void touch(struct mg_spans *s, uint32_t root, uint32_t step)
{
    if (s->tail[root] != MG_NONE)
        s->span[s->tail[root]].last = step;
}

static void span_compute(struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme, uint32_t op,
                         uint32_t step)
{
    for (uint32_t i = p->reads.start[op]; i < p->reads.start[op + 1]; i++)
        touch(s, p->reads.item[i], step);
    for (uint32_t i = scheme->defs.start[op]; i < scheme->defs.start[op + 1]; i++)
        open_span(s, scheme->defs.item[i], step);
    if (s->first[op] == MG_NONE)
        s->first[op] = step;
}

void mg_spans_build(struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme,
                    const struct mg_list *list)
{
    uint32_t level = MG_NONE;
    s->count = 0;
    memset(s->head, 0xff, p->value_count * sizeof *s->head);
    memset(s->tail, 0xff, p->value_count * sizeof *s->tail);
    memset(s->store, 0xff, p->value_count * sizeof *s->store);
    memset(s->loaded, 0xff, p->value_count * sizeof *s->loaded);
    memset(s->first, 0xff, p->op_count * sizeof *s->first);
    for (uint32_t v = 0; v < p->value_count; v++)
        if (p->value_flags[v] & MG_VALUE_INPUT && p->root_readers.start[v] < p->root_readers.start[v + 1])
            open_span(s, v, MG_NONE);
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t x = mg_word_index(list->word[i]);
        s->level[i] = level;
        switch (mg_word_kind(list->word[i])) {
        case MG_WORD_COMPUTE:
            span_compute(s, p, scheme, x, i);
            break;
        case MG_WORD_LOAD:
            open_span(s, x, i);
            s->loaded[x] = i;
            break;
        case MG_WORD_STORE:
            s->store[x] = i;
            touch(s, x, i);
            break;
        case MG_WORD_FREE:
            s->loaded[x] = i;
            touch(s, x, i);
            break;
        case MG_WORD_BEGIN:
            for (uint32_t k = 0; k < scheme->regions[x].output_count; k++)
                open_span(s, scheme->regions[x].outputs[k], i);
            level = x;
            break;
        case MG_WORD_END:
            level = s->level[i] = scheme->regions[x].parent;
            for (uint32_t k = 0; k < scheme->regions[x].input_count; k++)
                touch(s, scheme->regions[x].inputs[k], i);
            for (uint32_t k = 0; k < scheme->regions[x].output_count; k++)
                touch(s, scheme->regions[x].outputs[k], i);
            break;
        }
    }
    for (uint32_t i = 0; i < p->output_count; i++)
        touch(s, p->outputs[i], list->count);
}

bool mg_spans_alive(const struct mg_spans *s, uint32_t root, uint32_t step)
{
    for (uint32_t i = s->head[root]; i != MG_NONE; i = s->span[i].next)
        if ((s->span[i].def == MG_NONE || s->span[i].def < step) && s->span[i].last >= step)
            return true;
    return false;
}

/* ---- gaps ---- */

struct gap_scan {
    uint32_t *before, *after; /* per root */
    uint8_t *locked;          /* per root: bound to a region around the step */
};

static void scan_before(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                        uint32_t step, struct gap_scan *g)
{
    for (uint32_t i = 0; i <= step; i++) {
        uint32_t x = mg_word_index(list->word[i]);
        switch (mg_word_kind(list->word[i])) {
        case MG_WORD_COMPUTE:
            for (uint32_t k = p->reads.start[x]; k < p->reads.start[x + 1]; k++)
                g->before[p->reads.item[k]] = i;
            for (uint32_t k = scheme->defs.start[x]; k < scheme->defs.start[x + 1]; k++)
                g->before[scheme->defs.item[k]] = i;
            break;
        case MG_WORD_BEGIN:
            for (uint32_t k = 0; k < scheme->regions[x].output_count; k++)
                g->locked[scheme->regions[x].outputs[k]]++;
            for (uint32_t k = 0; k < scheme->regions[x].input_count; k++)
                g->locked[scheme->regions[x].inputs[k]]++;
            break;
        case MG_WORD_END:
            for (uint32_t k = 0; k < scheme->regions[x].output_count; k++) {
                g->before[scheme->regions[x].outputs[k]] = i;
                g->locked[scheme->regions[x].outputs[k]]--;
            }
            for (uint32_t k = 0; k < scheme->regions[x].input_count; k++) {
                g->before[scheme->regions[x].inputs[k]] = i;
                g->locked[scheme->regions[x].inputs[k]]--;
            }
            break;
        default:
            g->before[x] = i;
            break;
        }
    }
}

/* Backwards: makers forget, readers remember; what a body reads is wanted at its begin. */
static void scan_after(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                       uint32_t step, struct gap_scan *g)
{
    for (uint32_t i = list->count; i-- > step + 1;) {
        uint32_t x = mg_word_index(list->word[i]);
        switch (mg_word_kind(list->word[i])) {
        case MG_WORD_COMPUTE:
            for (uint32_t k = scheme->defs.start[x]; k < scheme->defs.start[x + 1]; k++)
                g->after[scheme->defs.item[k]] = MG_NONE;
            for (uint32_t k = p->reads.start[x]; k < p->reads.start[x + 1]; k++)
                g->after[p->reads.item[k]] = i;
            break;
        case MG_WORD_BEGIN:
            for (uint32_t k = 0; k < scheme->regions[x].output_count; k++)
                g->after[scheme->regions[x].outputs[k]] = MG_NONE;
            for (uint32_t k = 0; k < scheme->regions[x].input_count; k++)
                g->after[scheme->regions[x].inputs[k]] = i;
            break;
        case MG_WORD_END:
            for (uint32_t k = 0; k < scheme->regions[x].input_count; k++)
                g->after[scheme->regions[x].inputs[k]] = i;
            break;
        case MG_WORD_LOAD:
            g->after[x] = MG_NONE;
            break;
        case MG_WORD_FREE:
            g->after[x] = MG_NONE; /* an instance that waits for its store's end: no gap of a new edit */
            g->locked[x] = 1;
            break;
        case MG_WORD_STORE:
            g->after[x] = i;
            break;
        }
    }
}

uint32_t mg_gaps_at(const struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme,
                    const struct mg_list *list, uint32_t step, struct mg_arena *scratch, struct mg_gap *gaps)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct gap_scan g = {MG_NEW_ARRAY(scratch, uint32_t, p->value_count),
                         MG_NEW_ARRAY(scratch, uint32_t, p->value_count),
                         MG_NEW_ARRAY(scratch, uint8_t, p->value_count)};
    uint32_t count = 0;
    memset(g.before, 0xff, p->value_count * sizeof *g.before);
    memset(g.after, 0xff, p->value_count * sizeof *g.after);
    scan_before(p, scheme, list, step, &g);
    scan_after(p, scheme, list, step, &g);
    for (uint32_t v = 0; v < p->value_count; v++) {
        if (g.after[v] == MG_NONE || g.locked[v] || g.before[v] == step ||
            p->value_flags[v] & (MG_VALUE_RESIDENT | MG_VALUE_PINNED))
            continue;
        if (g.before[v] == MG_NONE && !(p->value_flags[v] & MG_VALUE_INPUT))
            continue;
        if (mg_word_kind(list->word[g.after[v]]) == MG_WORD_STORE ||
            mg_word_kind(list->word[g.after[v]]) == MG_WORD_END)
            continue;
        if (s->level[g.after[v]] != scheme->home[v])
            continue;
        gaps[count++] = (struct mg_gap){v, g.before[v], g.after[v]};
    }
    mg_arena_rewind(scratch, mark);
    return count;
}

/* ---- recomputation ---- */

static bool updates_follow(const struct mg_spans *s, const struct mg_problem *p, mg_op op, uint32_t step)
{
    for (uint32_t i = p->updaters.start[op]; i < p->updaters.start[op + 1]; i++)
        if (s->first[p->updaters.item[i]] < step)
            return false;
    return true;
}

static bool chain_has(const struct mg_chain *chain, mg_op op)
{
    for (uint32_t i = 0; i < chain->count; i++)
        if (chain->op[i] == op)
            return true;
    return false;
}

/* Between its store and its last load a root is the link's business: nothing recomputes it there. */
static bool is_swapped_around(const struct mg_spans *s, uint32_t root, uint32_t step)
{
    return s->store[root] != MG_NONE && s->store[root] < step && s->loaded[root] != MG_NONE && s->loaded[root] >= step;
}

static bool chain_add(const struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme,
                      uint32_t root, uint32_t home, uint32_t step, struct mg_chain *chain)
{
    mg_op op = p->g->values[root].producer;
    if (op == MG_NONE || scheme->region_of[op] != home || !p->repeatable[op] || scheme->is_region_output[root])
        return false;
    if (chain_has(chain, op))
        return true;
    if (!updates_follow(s, p, op, step))
        return false;
    for (uint32_t i = p->defs.start[op]; i < p->defs.start[op + 1]; i++)
        if (scheme->is_region_output[p->defs.item[i]] || is_swapped_around(s, p->defs.item[i], step))
            return false;
    for (uint32_t i = p->reads.start[op]; i < p->reads.start[op + 1]; i++) {
        uint32_t operand = p->reads.item[i];
        if (scheme->home[operand] != home || mg_spans_alive(s, operand, step))
            continue; /* from outside the body: alive all through it */
        if (!chain_add(s, p, scheme, operand, home, step, chain))
            return false;
    }
    if (chain->count == MG_CHAIN_MAX)
        return false;
    chain->op[chain->count++] = op;
    chain->seconds += scheme->seconds[0][op] + scheme->rest[0][op] + scheme->others[op];
    return true;
}

bool mg_chain_find(const struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme,
                   const struct mg_gap *gap, struct mg_chain *out)
{
    out->count = 0;
    out->seconds = 0;
    return chain_add(s, p, scheme, gap->root, scheme->home[gap->root], gap->after, out);
}

bool mg_edit_remat(const struct mg_list *list, const struct mg_gap *gap, const struct mg_chain *chain,
                   struct mg_list *out)
{
    if (list->count + chain->count > out->capacity)
        return false;
    memcpy(out->word, list->word, gap->after * sizeof *out->word);
    for (uint32_t i = 0; i < chain->count; i++)
        out->word[gap->after + i] = MG_WORD(MG_WORD_COMPUTE, chain->op[i]);
    memcpy(&out->word[gap->after + chain->count], &list->word[gap->after],
           (list->count - gap->after) * sizeof *out->word);
    out->count = list->count + chain->count;
    return true;
}

/* ---- swapping ---- */

static bool is_stored_before(const struct mg_list *list, uint32_t root, uint32_t step)
{
    for (uint32_t i = 0; i < step; i++)
        if (list->word[i] == MG_WORD(MG_WORD_STORE, root))
            return true;
    return false;
}

/* The store goes right behind the step that made the instance, so that it starts early. */
static uint32_t store_place(const struct mg_spans *s, const struct mg_gap *gap)
{
    for (uint32_t i = s->head[gap->root]; i != MG_NONE; i = s->span[i].next)
        if ((s->span[i].def == MG_NONE || s->span[i].def < gap->after) && s->span[i].last >= gap->after)
            return s->span[i].def == MG_NONE ? 0 : s->span[i].def + 1;
    return MG_NONE;
}

bool mg_edit_swap(const struct mg_spans *s, const struct mg_list *list, const struct mg_gap *gap, bool now,
                  struct mg_list *out)
{
    const mg_word flag = now ? MG_WORD_NOW : 0;
    uint32_t at = store_place(s, gap), before = gap->before == MG_NONE ? 0 : gap->before + 1, n = 0;
    bool stored = is_stored_before(list, gap->root, gap->after);
    if (list->count + 3 > out->capacity || at == MG_NONE)
        return false;
    if (at > 0 && mg_word_kind(list->word[at - 1]) == MG_WORD_BEGIN) { /* a region output: after the region */
        uint32_t region = mg_word_index(list->word[at - 1]);
        while (list->word[at - 1] != MG_WORD(MG_WORD_END, region))
            at++;
        before = before < at ? at : before;
    }
    for (uint32_t i = 0; i <= list->count; i++) {
        if (i == at && !stored)
            out->word[n++] = MG_WORD(MG_WORD_STORE, gap->root);
        if (i == before)
            out->word[n++] = MG_WORD(MG_WORD_FREE, gap->root) | flag;
        if (i == gap->after)
            out->word[n++] = MG_WORD(MG_WORD_LOAD, gap->root) | flag;
        if (i < list->count)
            out->word[n++] = list->word[i];
    }
    out->count = n;
    return true;
}

/* A load takes the free before it along, and the store too when no load of it is left. */
void mg_edit_undo(const struct mg_problem *p, const struct mg_list *list, uint8_t *undo, struct mg_arena *scratch,
                  struct mg_list *out)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    uint32_t *free_before = MG_NEW_ARRAY(scratch, uint32_t, p->value_count); /* its step + 1; 0: none of this load */
    uint32_t *kept = MG_NEW_ARRAY(scratch, uint32_t, p->value_count);
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t root = mg_word_index(list->word[i]);
        if (mg_word_kind(list->word[i]) == MG_WORD_FREE) {
            free_before[root] = i + 1;
        } else if (mg_word_kind(list->word[i]) == MG_WORD_LOAD) {
            kept[root] += !undo[i];
            if (undo[i] && free_before[root])
                undo[free_before[root] - 1] = 1;
            free_before[root] = 0;
        }
    }
    out->count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        mg_word word = list->word[i];
        if (!undo[i] && (mg_word_kind(word) != MG_WORD_STORE || kept[mg_word_index(word)]))
            out->word[out->count++] = word;
    }
    mg_arena_rewind(scratch, mark);
}
