#include "search/fission.h"

#include <string.h>

/* ---- candidates ---- */

/* Roots alive at a step where the list is at its peak. */
static void find_hot(struct mg_searcher *s, const struct mg_scheme *scheme, const struct mg_list *list,
                     const uint64_t *live, uint8_t *hot)
{
    uint64_t peak = 0;
    mg_spans_build(&s->spans, s->p, scheme, list);
    for (uint32_t i = 0; i < list->count; i++)
        peak = live[i] > peak ? live[i] : peak;
    for (uint32_t v = 0; v < s->p->value_count; v++)
        for (uint32_t k = s->spans.head[v]; k != MG_NONE && !hot[v]; k = s->spans.span[k].next) {
            const struct mg_span *span = &s->spans.span[k];
            uint32_t last = span->last < list->count ? span->last : list->count - 1;
            for (uint32_t i = span->def == MG_NONE ? 0 : span->def; i <= last && !hot[v]; i++)
                hot[v] = live[i] == peak;
        }
}

struct flow_maker {
    struct mg_searcher *s;
    const uint8_t *hot;  /* per root */
    const uint32_t *ops; /* of the component, ascending */
    uint32_t count;
    uint32_t *node; /* per operator: its node, 0 if not in the component */
    struct mg_flow flow;
};

static void list_predecessors(struct flow_maker *m, struct mg_arena *arena)
{
    const struct mg_graph *g = m->s->p->g;
    uint32_t n = 0, total = 0;
    for (uint32_t i = 0; i < m->count; i++)
        total += g->ops[m->ops[i]].in_count;
    m->flow.pred.start = MG_NEW_ARRAY(arena, uint32_t, m->count + 2);
    m->flow.pred.item = MG_NEW_ARRAY(arena, uint32_t, total);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct mg_op_info *op = &g->ops[m->ops[i]];
        m->flow.pred.start[i + 1] = n;
        for (uint32_t k = 0; k < op->in_count; k++) {
            mg_op maker = g->values[op->in[k]].producer;
            if (maker != MG_NONE && m->node[maker])
                m->flow.pred.item[n++] = m->node[maker];
        }
    }
    m->flow.pred.start[m->count + 1] = n;
}

/* Sources are the roots that operators of the component read directly; views cost nothing. */
static void list_sources(struct flow_maker *m, struct mg_arena *arena)
{
    const struct mg_problem *p = m->s->p;
    uint32_t *number = MG_NEW_ARRAY(arena, uint32_t, p->value_count), *maker, *fill, sources = 0, total = 0;
    for (uint32_t i = 0; i < m->count; i++)
        total += p->g->ops[m->ops[i]].in_count;
    maker = MG_NEW_ARRAY(arena, uint32_t, total);
    uint64_t *cold = MG_NEW_ARRAY(arena, uint64_t, total);
    m->flow.readers.start = MG_NEW_ARRAY(arena, uint32_t, total + 2);
    m->flow.readers.item = MG_NEW_ARRAY(arena, uint32_t, total);
    fill = m->flow.readers.start;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < m->count; i++) {
            const struct mg_op_info *op = &p->g->ops[m->ops[i]];
            for (uint32_t k = 0; k < op->in_count; k++) {
                uint32_t v = op->in[k];
                if (p->root[v] != v || p->value_flags[v] & MG_VALUE_RESIDENT)
                    continue;
                if (number[v] == 0) {
                    mg_op made_by = p->g->values[v].producer;
                    number[v] = ++sources;
                    maker[sources - 1] = made_by != MG_NONE && m->node[made_by] ? m->node[made_by] : MG_NONE;
                    cold[sources - 1] = m->hot[v] ? 0 : p->bytes[v];
                }
                if (pass)
                    m->flow.readers.item[fill[number[v]]++] = i + 1;
                else
                    fill[number[v] + 1]++;
            }
        }
        for (uint32_t k = 0; !pass && k < sources; k++)
            fill[k + 2] += fill[k + 1];
    }
    m->flow.sources = sources;
    m->flow.maker = maker;
    m->flow.cold = cold;
}

static void make_flow(struct flow_maker *m, struct mg_arena *arena)
{
    const struct mg_problem *p = m->s->p;
    m->node = MG_NEW_ARRAY(arena, uint32_t, p->op_count);
    for (uint32_t i = 0; i < m->count; i++)
        m->node[m->ops[i]] = i + 1;
    m->flow.count = m->count + 1;
    uint64_t *hot = MG_NEW_ARRAY(arena, uint64_t, m->flow.count);
    for (uint32_t i = 0; i < m->count; i++)
        for (uint32_t k = p->defs.start[m->ops[i]]; k < p->defs.start[m->ops[i] + 1]; k++)
            hot[i + 1] += m->hot[p->defs.item[k]] ? p->bytes[p->defs.item[k]] : 0;
    m->flow.hot = hot;
    list_predecessors(m, arena);
    list_sources(m, arena);
}

/* Each connected part is a candidate (R10), kept if its operators have one axis each and the region is
 * legal by itself. */
static void add_candidate(struct mg_searcher *s, struct flow_maker *m, const struct mg_dominators *d, uint32_t v,
                          uint32_t component, struct mg_region *out, uint32_t *count)
{
    struct mg_region region;
    mg_op *ops = MG_NEW_ARRAY(s->scratch, mg_op, m->count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (mg_dominators_under(d, i + 1, v))
            ops[n++] = m->ops[i];
    if (n == 0)
        return;
    uint32_t *part = MG_NEW_ARRAY(s->scratch, uint32_t, n), *labels = MG_NEW_ARRAY(s->scratch, uint32_t, n);
    uint32_t parts = mg_connected_parts(s->p->g, ops, n, s->scratch, labels);
    for (uint32_t k = 0; k < parts && *count < MG_FISSION_MAX; k++) {
        uint32_t size = 0;
        for (uint32_t i = 0; i < n; i++)
            if (labels[i] == k)
                part[size++] = ops[i];
        if (!mg_dimensions_region(s->dimensions, s->p->g, component, part, size, s->scratch, &region))
            continue;
        const struct mg_scheme *scheme = mg_searcher_scheme(s, &region, 1, NULL);
        if (scheme)
            out[(*count)++] = scheme->specs[0];
    }
}

static void component_candidates(struct mg_searcher *s, const uint8_t *hot, uint32_t component, struct mg_region *out,
                                 uint32_t *count)
{
    const struct mg_rows *rows = &s->dimensions->ops;
    struct flow_maker m = {.s = s, .hot = hot, .ops = &rows->item[rows->start[component]]};
    struct mg_dominators d;
    m.count = rows->start[component + 1] - rows->start[component];
    if (m.count < 2)
        return;
    make_flow(&m, s->scratch);
    mg_dominators_build(&m.flow, s->scratch, &d);
    uint8_t *chosen = MG_NEW_ARRAY(s->scratch, uint8_t, m.flow.count);
    if (mg_dominators_choose(&m.flow, &d, MG_FISSION_BANDS, s->scratch, chosen) == 0)
        return;
    for (uint32_t v = 0; v < m.flow.count && *count < MG_FISSION_MAX; v++)
        if (chosen[v] && mg_searcher_look(s))
            add_candidate(s, &m, &d, v, component, out, count);
}

uint32_t mg_fission_candidates(struct mg_searcher *s, const struct mg_scheme *scheme, const struct mg_list *list,
                               const uint64_t *live, struct mg_region out[MG_FISSION_MAX])
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    uint8_t *hot = MG_NEW_ARRAY(s->scratch, uint8_t, s->p->value_count);
    uint32_t count = 0;
    find_hot(s, scheme, list, live, hot);
    for (uint32_t c = 0; c < s->dimensions->count && count < MG_FISSION_MAX && mg_searcher_look(s); c++) {
        struct mg_arena_mark inner = mg_arena_mark(s->scratch);
        component_candidates(s, hot, c, out, &count);
        mg_arena_rewind(s->scratch, inner);
    }
    mg_arena_rewind(s->scratch, mark);
    return count;
}

/* ---- moves ---- */

static bool covers(const struct mg_region *outer, const struct mg_region *inner, uint8_t *mark)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < outer->op_count; i++)
        mark[outer->ops[i].op] = 1;
    for (uint32_t i = 0; i < inner->op_count; i++)
        found += mark[inner->ops[i].op];
    for (uint32_t i = 0; i < outer->op_count; i++)
        mark[outer->ops[i].op] = 0;
    return found == inner->op_count;
}

static bool meets(const struct mg_region *a, const struct mg_region *b, uint8_t *mark)
{
    bool meet = false;
    for (uint32_t i = 0; i < a->op_count; i++)
        mark[a->ops[i].op] = 1;
    for (uint32_t i = 0; i < b->op_count; i++)
        meet |= mark[b->ops[i].op];
    for (uint32_t i = 0; i < a->op_count; i++)
        mark[a->ops[i].op] = 0;
    return meet;
}

struct mover {
    struct mg_searcher *s;
    const struct mg_scheme **out;
    uint32_t count;
    uint8_t *mark;
};

/* A region nested along the axis of its parent has the length of the parent's first part. */
static bool fit_nested(struct mg_region *specs, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        struct mg_region *inner = &specs[r];
        if (inner->parent == MG_NONE)
            continue;
        const struct mg_region *outer = &specs[inner->parent];
        const struct mg_region_op *op = &inner->ops[0], *same = NULL;
        for (uint32_t i = 0; i < outer->op_count && !same; i++)
            same = outer->ops[i].op == op->op ? &outer->ops[i] : NULL;
        if (!same || same->axis != op->axis)
            continue;
        int64_t extent = (outer->length + outer->parts - 1) / outer->parts * same->scale;
        inner->length = extent / op->scale;
        if (inner->length < 2 || extent % op->scale)
            return false;
        if (inner->parts > inner->length)
            inner->parts = (uint32_t)inner->length;
    }
    return true;
}

static void add_scheme(struct mover *m, struct mg_region *specs, uint32_t count)
{
    if (!fit_nested(specs, count))
        return;
    const struct mg_scheme *scheme = mg_searcher_scheme(m->s, specs, count, NULL);
    if (scheme && m->count < MG_FISSION_MOVES_MAX)
        m->out[m->count++] = scheme;
}

static void mutate(struct mover *m, const struct mg_scheme *scheme, struct mg_region *specs)
{
    for (uint32_t r = 0; r < scheme->region_count; r++)
        for (int up = 0; up < 2; up++) {
            memcpy(specs, scheme->specs, scheme->region_count * sizeof *specs);
            specs[r].parts = mg_parts_next(specs[r].length, specs[r].parts, up == 1);
            if (specs[r].parts != scheme->specs[r].parts)
                add_scheme(m, specs, scheme->region_count);
        }
}

/* Without region r (which has no child); with `instead` in its place if given. */
static void replace(struct mover *m, const struct mg_scheme *scheme, uint32_t r, const struct mg_region *instead,
                    struct mg_region *specs)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < scheme->region_count; k++) {
        if (k == r)
            continue;
        specs[n] = scheme->specs[k];
        if (specs[n].parent != MG_NONE && specs[n].parent > r)
            specs[n].parent--;
        n++;
    }
    if (instead)
        specs[n++] = *instead;
    add_scheme(m, specs, n);
}

static bool has_child(const struct mg_scheme *scheme, uint32_t r)
{
    for (uint32_t k = 0; k < scheme->region_count; k++)
        if (scheme->specs[k].parent == r)
            return true;
    return false;
}

static void disable(struct mover *m, const struct mg_scheme *scheme, struct mg_region *specs)
{
    for (uint32_t r = 0; r < scheme->region_count; r++)
        if (!has_child(scheme, r))
            replace(m, scheme, r, NULL, specs);
}

/* A candidate apart from all applied regions, or inside one, is enabled; one that covers a single
 * outermost region takes its place (lift). */
static void enable_or_lift(struct mover *m, const struct mg_scheme *scheme, const struct mg_region *candidate,
                           struct mg_region *specs)
{
    uint32_t inside = MG_NONE, covered = MG_NONE, others = 0;
    for (uint32_t r = 0; r < scheme->region_count; r++) {
        if (!meets(&scheme->specs[r], candidate, m->mark))
            continue;
        if (covers(&scheme->specs[r], candidate, m->mark) && scheme->specs[r].op_count > candidate->op_count)
            inside = r; /* parents stand before children: the last is the innermost */
        else if (covers(candidate, &scheme->specs[r], m->mark) && candidate->op_count > scheme->specs[r].op_count &&
                 scheme->specs[r].parent == MG_NONE && !has_child(scheme, r) && covered == MG_NONE)
            covered = r;
        else
            others++;
    }
    if (others)
        return;
    if (covered != MG_NONE) {
        if (inside == MG_NONE)
            replace(m, scheme, covered, candidate, specs);
        return;
    }
    memcpy(specs, scheme->specs, scheme->region_count * sizeof *specs);
    specs[scheme->region_count] = *candidate;
    specs[scheme->region_count].parent = inside;
    add_scheme(m, specs, scheme->region_count + 1);
}

uint32_t mg_fission_moves(struct mg_searcher *s, const struct mg_scheme *scheme, const struct mg_region *candidates,
                          uint32_t count, const struct mg_scheme *out[MG_FISSION_MOVES_MAX])
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct mover m = {s, out, 0, MG_NEW_ARRAY(s->scratch, uint8_t, s->p->op_count)};
    struct mg_region *specs = MG_NEW_ARRAY(s->scratch, struct mg_region, scheme->region_count + 1);
    mutate(&m, scheme, specs);
    disable(&m, scheme, specs);
    for (uint32_t i = 0; i < count; i++)
        enable_or_lift(&m, scheme, &candidates[i], specs);
    mg_arena_rewind(s->scratch, mark);
    return m.count;
}

/* ---- transplanting ---- */

/* Each edit of the old list is tied to the first run of an operator after it in the same body. */
struct graft {
    mg_word word;
    uint32_t next; /* graft + 1 */
};

static uint32_t home_of(const struct mg_scheme *scheme, mg_word word)
{
    return mg_word_kind(word) == MG_WORD_COMPUTE ? scheme->region_of[mg_word_index(word)]
                                                 : scheme->home[mg_word_index(word)];
}

static void collect_grafts(struct mg_searcher *s, const struct mg_list *list, const struct mg_scheme *to,
                           struct graft *graft, uint32_t *head)
{
    const struct mg_problem *p = s->p;
    uint8_t *ran = MG_NEW_ARRAY(s->scratch, uint8_t, p->op_count);
    uint8_t *extra = MG_NEW_ARRAY(s->scratch, uint8_t, list->count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        enum mg_word_kind kind = mg_word_kind(list->word[i]);
        uint32_t x = mg_word_index(list->word[i]);
        if (kind == MG_WORD_COMPUTE) {
            extra[i] = ran[x];
            ran[x] = 1;
        } else {
            extra[i] = kind <= MG_WORD_FREE;
        }
    }
    for (uint32_t i = list->count; i-- > 0;) {
        if (!extra[i])
            continue;
        uint32_t home = home_of(to, list->word[i]);
        for (uint32_t j = i + 1; j < list->count; j++) {
            uint32_t op = mg_word_index(list->word[j]);
            if (mg_word_kind(list->word[j]) != MG_WORD_COMPUTE || extra[j] || to->region_of[op] != home)
                continue;
            graft[count] = (struct graft){list->word[i], head[op]};
            head[op] = ++count;
            break;
        }
    }
}

bool mg_fission_transplant(struct mg_searcher *s, const struct mg_list *list, const struct mg_scheme *to,
                           struct mg_list *out)
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct mg_list plain = mg_list_new(s->scratch, out->capacity);
    uint32_t *rank = MG_NEW_ARRAY(s->scratch, uint32_t, s->p->op_count);
    uint32_t *head = MG_NEW_ARRAY(s->scratch, uint32_t, s->p->op_count);
    struct graft *graft = MG_NEW_ARRAY(s->scratch, struct graft, list->count);
    struct mg_error why;
    memset(rank, 0xff, s->p->op_count * sizeof *rank);
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t x = mg_word_index(list->word[i]);
        if (mg_word_kind(list->word[i]) == MG_WORD_COMPUTE && rank[x] == MG_NONE)
            rank[x] = i;
    }
    bool ok = mg_list_from_scheme(s->p, to, rank, s->scratch, &plain, &why) == MG_OK;
    if (ok) {
        collect_grafts(s, list, to, graft, head);
        out->count = 0;
        for (uint32_t i = 0; i < plain.count; i++) {
            uint32_t x = mg_word_index(plain.word[i]);
            if (mg_word_kind(plain.word[i]) == MG_WORD_COMPUTE)
                for (uint32_t k = head[x]; k && out->count + plain.count - i < out->capacity; k = graft[k - 1].next)
                    out->word[out->count++] = graft[k - 1].word;
            out->word[out->count++] = plain.word[i];
        }
        if (mg_list_check(s->p, to, out, s->scratch, &why) != MG_OK)
            mg_list_copy(out, &plain);
    }
    mg_arena_rewind(s->scratch, mark);
    return ok;
}
