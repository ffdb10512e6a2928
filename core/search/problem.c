/* Builds the search's view of a graph, and prices operators under cuts. */
#include "search/problem.h"

#include <string.h>

enum { CACHE_BUCKETS_LOG2 = 14 };

struct cut_entry {
    uint64_t key[2];
    struct mg_cut_price price;
    struct cut_entry *next;
};
struct mg_cut_cache {
    struct cut_entry *bucket[1u << CACHE_BUCKETS_LOG2];
    struct mg_arena scratch;
};

/* Rows under construction: (row, item) pairs, duplicates dropped. */
struct pairs {
    uint64_t *pair;
    size_t count, capacity;
};

static void pairs_add(struct mg_arena *arena, struct pairs *pairs, uint32_t row, uint32_t item)
{
    *MG_PUSH(arena, pairs->pair, pairs->count, pairs->capacity) = (uint64_t)row << 32 | item;
}

/* Counting sort by row; keeps the order within a row and drops repeated items of a row. */
static struct mg_rows pairs_to_rows(struct mg_arena *arena, struct mg_arena *scratch, const struct pairs *pairs,
                                    uint32_t rows, uint32_t items)
{
    struct mg_rows out = {MG_NEW_ARRAY(arena, uint32_t, rows + 1), MG_NEW_ARRAY(arena, uint32_t, pairs->count)};
    uint32_t *fill = MG_NEW_ARRAY(scratch, uint32_t, rows + 1);
    uint32_t *seen = MG_NEW_ARRAY(scratch, uint32_t, items + 1);
    uint32_t *sorted = MG_NEW_ARRAY(scratch, uint32_t, pairs->count);
    for (size_t i = 0; i < pairs->count; i++)
        fill[(pairs->pair[i] >> 32) + 1]++;
    for (uint32_t r = 0; r < rows; r++)
        fill[r + 1] += fill[r];
    uint32_t *at = mg_arena_copy(scratch, fill, (rows + 1) * sizeof *fill);
    for (size_t i = 0; i < pairs->count; i++)
        sorted[at[pairs->pair[i] >> 32]++] = (uint32_t)pairs->pair[i];
    uint32_t n = 0;
    for (uint32_t r = 0; r < rows; r++) {
        out.start[r] = n;
        for (uint32_t i = fill[r]; i < fill[r + 1]; i++)
            if (seen[sorted[i]] != r + 1) {
                seen[sorted[i]] = r + 1;
                out.item[n++] = sorted[i];
            }
    }
    out.start[rows] = n;
    return out;
}

/* Storage owners: views share their base's, an in-place result its operand's. */
static void find_roots(struct mg_problem *p)
{
    const struct mg_graph *g = p->g;
    for (uint32_t v = 0; v < p->value_count; v++)
        p->root[v] = v;
    for (uint32_t o = 0; o < p->op_count; o++) {
        const struct mg_op_info *op = &g->ops[o];
        for (uint32_t k = 0; k < op->out_count; k++) {
            uint32_t v = op->out[k], base = g->values[v].base;
            p->root[v] = base == v ? v : p->root[base];
        }
        if (op->in_place >= 0) {
            uint32_t root = p->root[op->in[op->in_place]];
            p->root[op->out[0]] = root;
            p->value_flags[root] |= MG_VALUE_PINNED;
        }
    }
}

static void find_flags(struct mg_problem *p)
{
    const struct mg_graph *g = p->g;
    for (uint32_t v = 0; v < p->value_count; v++) {
        const struct mg_value_info *value = &g->values[v];
        uint32_t r = p->root[v];
        if (v == r &&
            (value->kind == MG_KIND_WEIGHT || value->kind == MG_KIND_STATE || value->kind == MG_KIND_CONSTANT))
            p->value_flags[v] |= MG_VALUE_RESIDENT;
        if (v == r && value->kind == MG_KIND_INPUT)
            p->value_flags[v] |= MG_VALUE_INPUT;
        if (value->is_output)
            p->value_flags[r] |= MG_VALUE_OUTPUT;
        if (v == r)
            p->bytes[v] = mg_device_storage(p->device, value->bytes);
    }
    p->outputs = MG_NEW_ARRAY(p->arena, uint32_t, p->value_count);
    p->dense = MG_NEW_ARRAY(p->arena, uint32_t, p->value_count);
    for (uint32_t v = 0; v < p->value_count; v++)
        p->dense[v] = p->root[v] == v && !(p->value_flags[v] & MG_VALUE_RESIDENT) ? p->dense_count++ : MG_NONE;
    for (uint32_t v = 0; v < p->value_count; v++) {
        if (p->root[v] == v && p->value_flags[v] & MG_VALUE_RESIDENT)
            p->resident_bytes += p->bytes[v];
        else if (p->root[v] == v && p->value_flags[v] & MG_VALUE_OUTPUT)
            p->outputs[p->output_count++] = v;
    }
}

/* Data dependencies, and for every in-place operator all earlier readers of what it overwrites. */
static void find_dependencies(struct mg_problem *p, struct mg_arena *scratch)
{
    const struct mg_graph *g = p->g;
    struct mg_arena *a = p->arena, *t = scratch;
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct pairs reads = {0}, defs = {0}, pred = {0}, succ = {0}, updaters = {0}, readers = {0}, touch = {0};
    for (uint32_t o = 0; o < p->op_count; o++) {
        const struct mg_op_info *op = &g->ops[o];
        if (!p->computes[o])
            continue;
        for (uint32_t k = 0; k < op->in_count; k++) {
            uint32_t r = p->root[op->in[k]];
            pairs_add(t, &touch, r, o);
            if (p->value_flags[r] & MG_VALUE_RESIDENT)
                continue;
            pairs_add(t, &reads, o, r);
            pairs_add(t, &readers, r, o);
        }
        for (uint32_t k = 0; k < op->out_count; k++)
            if (p->root[op->out[k]] == op->out[k])
                pairs_add(t, &defs, o, op->out[k]);
    }
    struct mg_rows touching = pairs_to_rows(t, t, &touch, p->value_count, p->op_count);
    uint32_t *writer = MG_NEW_ARRAY(t, uint32_t, p->value_count); /* operator that made a root's present content, + 1 */
    for (uint32_t o = 0; o < p->op_count; o++) {
        const struct mg_op_info *op = &g->ops[o];
        if (!p->computes[o])
            continue;
        for (uint32_t k = 0; k < op->in_count; k++) {
            uint32_t w = writer[p->root[op->in[k]]];
            if (w != 0)
                pairs_add(t, &pred, o, w - 1);
        }
        if (op->in_place >= 0) {
            uint32_t r = p->root[op->in[op->in_place]];
            for (uint32_t i = touching.start[r]; i < touching.start[r + 1]; i++)
                if (touching.item[i] < o) {
                    pairs_add(t, &pred, o, touching.item[i]);
                    pairs_add(t, &updaters, touching.item[i], o);
                }
            writer[r] = o + 1;
        }
        for (uint32_t k = 0; k < op->out_count; k++)
            if (p->root[op->out[k]] == op->out[k])
                writer[op->out[k]] = o + 1;
    }
    p->reads = pairs_to_rows(a, t, &reads, p->op_count, p->value_count);
    p->defs = pairs_to_rows(a, t, &defs, p->op_count, p->value_count);
    p->root_readers = pairs_to_rows(a, t, &readers, p->value_count, p->op_count);
    p->updaters = pairs_to_rows(a, t, &updaters, p->op_count, p->op_count);
    p->pred = pairs_to_rows(a, t, &pred, p->op_count, p->op_count);
    for (uint32_t o = 0; o < p->op_count; o++)
        for (uint32_t i = p->pred.start[o]; i < p->pred.start[o + 1]; i++)
            pairs_add(t, &succ, p->pred.item[i], o);
    p->succ = pairs_to_rows(a, t, &succ, p->op_count, p->op_count);
    mg_arena_rewind(scratch, mark);
}

/* Shell-style match with * and ?. */
static bool pattern_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static void find_constraints(struct mg_problem *p, const struct mg_search_options *options)
{
    for (uint32_t o = 0; o < p->op_count; o++) {
        const struct mg_op_info *op = &p->g->ops[o];
        for (uint32_t c = 0; c < options->constraint_count; c++)
            if (pattern_matches(options->constraints[c].pattern, op->name) ||
                pattern_matches(options->constraints[c].pattern, op->module))
                p->forbidden[o] |= options->constraints[c].forbid;
        bool pinned = op->in_place >= 0;
        for (uint32_t k = 0; k < op->out_count; k++)
            pinned |= (p->value_flags[p->root[op->out[k]]] & MG_VALUE_PINNED) != 0;
        p->repeatable[o] =
            p->computes[o] && !pinned && mg_op_purity(p->g, o) != MG_IMPURE && !(p->forbidden[o] & MG_TECHNIQUE_REMAT);
    }
}

struct build_context {
    const struct mg_graph *g;
    const struct mg_search_options *options;
    struct mg_arena *scratch;
    struct mg_problem *p;
};

static enum mg_code build(void *context, struct mg_error *err)
{
    struct build_context *c = context;
    struct mg_problem *p = c->p;
    struct mg_arena *a = p->arena;
    (void)err;
    p->g = c->g;
    p->device = c->options->device;
    p->pricer = c->options->pricer;
    p->exact = c->options->numerics == MG_NUMERICS_EXACT;
    p->op_count = (uint32_t)c->g->op_count;
    p->value_count = (uint32_t)c->g->value_count;
    p->root = MG_NEW_ARRAY(a, uint32_t, p->value_count);
    p->value_flags = MG_NEW_ARRAY(a, uint8_t, p->value_count);
    p->bytes = MG_NEW_ARRAY(a, uint64_t, p->value_count);
    p->computes = MG_NEW_ARRAY(a, uint8_t, p->op_count);
    p->repeatable = MG_NEW_ARRAY(a, uint8_t, p->op_count);
    p->forbidden = MG_NEW_ARRAY(a, uint32_t, p->op_count);
    p->like = MG_NEW_ARRAY(a, uint32_t, p->op_count);
    p->seconds = MG_NEW_ARRAY(a, double, p->op_count);
    p->workspace = MG_NEW_ARRAY(a, uint64_t, p->op_count);
    p->order = MG_NEW_ARRAY(a, uint32_t, p->op_count);
    p->cache = MG_NEW(a, struct mg_cut_cache);
    mg_arena_init(&p->cache->scratch, SIZE_MAX);
    for (uint32_t o = 0; o < p->op_count; o++)
        if (!c->g->ops[o].is_view) {
            p->computes[o] = 1;
            p->order[p->order_count++] = o;
        }
    find_roots(p);
    find_flags(p);
    find_dependencies(p, c->scratch);
    mg_problem_find_likes(p, c->scratch);
    find_constraints(p, c->options);
    for (uint32_t i = 0; i < p->order_count; i++) {
        const struct mg_cut_price *price = mg_problem_cut(p, p->order[i], NULL, 0);
        p->seconds[p->order[i]] = price->seconds;
        p->workspace[p->order[i]] = mg_device_storage(p->device, price->workspace);
    }
    return MG_OK;
}

enum mg_code mg_problem_build(const struct mg_graph *g, const struct mg_search_options *options, struct mg_arena *arena,
                              struct mg_arena *scratch, struct mg_problem **out, struct mg_error *err)
{
    struct build_context c = {g, options, scratch, MG_NEW(arena, struct mg_problem)};
    c.p->arena = arena;
    *out = c.p;
    return build(&c, err);
}

void mg_problem_release(struct mg_problem *p)
{
    if (p && p->cache)
        mg_arena_release(&p->cache->scratch);
}

struct describe_context {
    struct mg_problem *p;
    mg_op op;
    const struct mg_cut *cuts;
    uint32_t count;
    struct mg_cut_price *price;
};

static enum mg_code describe(void *context, struct mg_error *err)
{
    struct describe_context *c = context;
    struct mg_op_desc desc, whole;
    struct mg_problem *p = c->p;
    bool part = c->count > 0 && mg_pricer_measures(p->pricer);
    enum mg_code code = mg_op_describe(p->g, c->op, c->cuts, c->count, &p->cache->scratch, &desc, err);
    if (code == MG_OK && part)
        code = mg_op_describe(p->g, c->op, NULL, 0, &p->cache->scratch, &whole, err);
    if (code != MG_OK)
        return code;
    struct mg_quote quote = mg_pricer_quote(p->pricer, p->device, &desc, part ? &whole : NULL);
    c->price->seconds = quote.seconds;
    c->price->workspace = quote.workspace;
    uint64_t *more = desc.out_count > 4 ? MG_NEW_ARRAY(c->p->arena, uint64_t, desc.out_count) : NULL;
    for (uint32_t k = 0; k < desc.out_count; k++) {
        uint64_t bytes = (uint64_t)mg_shape_elements(&desc.out_shape[k]) * mg_dtype_size(desc.out_dtype[k]);
        if (k < 4)
            c->price->out_bytes[k] = bytes;
        if (more)
            more[k] = bytes;
    }
    c->price->more = more;
    return MG_OK;
}

const struct mg_cut_price *mg_problem_cut(struct mg_problem *p, mg_op op, const struct mg_cut *cuts, uint32_t count)
{
    op = p->like[op];
    uint64_t words[2 + 2 * MG_MAX_AXES] = {op, count};
    for (uint32_t i = 0; i < count; i++) {
        words[2 + 2 * i] = cuts[i].axis;
        words[3 + 2 * i] = (uint64_t)(cuts[i].hi - cuts[i].lo);
    }
    struct mg_hash128 h = mg_hash_words(words, 2 + 2 * (size_t)count);
    struct cut_entry **head = &p->cache->bucket[h.lo >> (64 - CACHE_BUCKETS_LOG2)];
    for (struct cut_entry *e = *head; e; e = e->next)
        if (e->key[0] == h.lo && e->key[1] == h.hi)
            return &e->price;
    struct cut_entry *e = MG_NEW(p->arena, struct cut_entry);
    struct describe_context c = {p, op, cuts, count, &e->price};
    struct mg_arena_mark mark = mg_arena_mark(&p->cache->scratch);
    struct mg_error ignored;
    if (mg_arena_guard(&p->cache->scratch, describe, &c, &ignored) != MG_OK)
        e->price.seconds = -1.0; /* this cut does not exist */
    mg_arena_rewind(&p->cache->scratch, mark);
    e->key[0] = h.lo;
    e->key[1] = h.hi;
    e->next = *head;
    *head = e;
    return &e->price;
}
