/* A border stands between two forward operators; values made before and read by forward operators
 * after it are kept. In the backward pass the operators of a segment whose dropped results are wanted
 * run once more, in order, before the first reader. O(operators * reads). */
#include "search/sublinear.h"

#include <math.h>
#include <string.h>

struct segmenter {
    const struct mg_problem *p;
    struct mg_arena *scratch;
    uint32_t forward;  /* operators below it are the forward pass */
    uint32_t *segment; /* per forward operator */
    uint8_t *dropped;  /* per root: not kept over the turn */
    uint8_t *repeat;   /* per operator: runs again */
    uint32_t *wanted;  /* per segment: first backward operator that reads a dropped root */
    uint32_t segments;
};

static bool begin(struct mg_searcher *s, struct segmenter *m)
{
    const struct mg_problem *p = s->p;
    *m = (struct segmenter){.p = p, .scratch = s->scratch, .forward = p->g->forward_ops};
    if (m->forward == MG_NONE || m->forward >= p->op_count)
        return false;
    m->segment = MG_NEW_ARRAY(s->scratch, uint32_t, p->op_count);
    m->dropped = MG_NEW_ARRAY(s->scratch, uint8_t, p->value_count);
    m->repeat = MG_NEW_ARRAY(s->scratch, uint8_t, p->op_count);
    m->wanted = MG_NEW_ARRAY(s->scratch, uint32_t, p->op_count + 1);
    memset(m->wanted, 0xff, (p->op_count + 1) * sizeof *m->wanted);
    return true;
}

static uint64_t result_bytes(const struct mg_problem *p, mg_op op)
{
    uint64_t bytes = 0;
    for (uint32_t i = p->defs.start[op]; i < p->defs.start[op + 1]; i++)
        bytes += p->bytes[p->defs.item[i]];
    return bytes;
}

static uint64_t cut_segments(struct segmenter *m, uint64_t budget)
{
    uint64_t sum = 0, largest = 0;
    for (uint32_t i = 0; i < m->p->order_count && m->p->order[i] < m->forward; i++) {
        mg_op op = m->p->order[i];
        m->segment[op] = m->segments;
        sum += result_bytes(m->p, op);
        largest = sum > largest ? sum : largest;
        if (sum > budget) {
            m->segments++;
            sum = 0;
        }
    }
    m->segments++;
    return largest;
}

/* Roots read by a forward operator of a later segment are kept. Returns their bytes. */
static uint64_t find_dropped(struct segmenter *m)
{
    const struct mg_problem *p = m->p;
    uint64_t kept = 0;
    for (uint32_t i = 0; i < p->order_count && p->order[i] < m->forward; i++) {
        mg_op op = p->order[i];
        for (uint32_t k = p->defs.start[op]; k < p->defs.start[op + 1]; k++) {
            uint32_t root = p->defs.item[k];
            bool crosses = (p->value_flags[root] & MG_VALUE_OUTPUT) != 0;
            for (uint32_t j = p->root_readers.start[root]; j < p->root_readers.start[root + 1]; j++) {
                mg_op reader = p->root_readers.item[j];
                crosses |= reader < m->forward && m->segment[reader] != m->segment[op];
            }
            m->dropped[root] = !crosses && p->repeatable[op] && m->segment[op] + 1 < m->segments;
            kept += crosses ? p->bytes[root] : 0;
        }
    }
    return kept;
}

/* Backwards over the forward pass: an operator repeats if a dropped result of it is read in the backward
 * pass or by another that repeats. */
static void find_repeats(struct segmenter *m)
{
    const struct mg_problem *p = m->p;
    for (uint32_t op = m->forward; op-- > 0;)
        for (uint32_t k = p->defs.start[op]; p->computes[op] && k < p->defs.start[op + 1]; k++) {
            uint32_t root = p->defs.item[k];
            for (uint32_t j = p->root_readers.start[root]; m->dropped[root] && j < p->root_readers.start[root + 1];
                 j++) {
                mg_op reader = p->root_readers.item[j];
                if (reader >= m->forward) {
                    m->repeat[op] = 1;
                    uint32_t *wanted = &m->wanted[m->segment[op]];
                    *wanted = reader < *wanted ? reader : *wanted;
                } else if (m->repeat[reader]) {
                    m->repeat[op] = 1;
                }
            }
        }
}

/* The operators that run again, by segment and in order: those of segment g are item[start[g] .. start[g + 1]). */
static struct mg_rows group_repeats(const struct segmenter *m)
{
    const struct mg_problem *p = m->p;
    struct mg_rows rows = {MG_NEW_ARRAY(m->scratch, uint32_t, m->segments + 1),
                           MG_NEW_ARRAY(m->scratch, uint32_t, p->order_count)};
    for (uint32_t i = 0; i < p->order_count && p->order[i] < m->forward; i++)
        rows.start[m->segment[p->order[i]] + 1] += m->repeat[p->order[i]];
    for (uint32_t g = 0; g < m->segments; g++)
        rows.start[g + 1] += rows.start[g];
    uint32_t *at = mg_arena_copy(m->scratch, rows.start, (m->segments + 1) * sizeof *at);
    for (uint32_t i = 0; i < p->order_count && p->order[i] < m->forward; i++)
        if (m->repeat[p->order[i]])
            rows.item[at[m->segment[p->order[i]]]++] = p->order[i];
    return rows;
}

/* A segment's repeated operators stand before the first backward operator that wants one of them. */
static bool write_list(struct segmenter *m, struct mg_list *out)
{
    const struct mg_problem *p = m->p;
    struct mg_rows repeats = group_repeats(m);
    uint32_t *first = MG_NEW_ARRAY(m->scratch, uint32_t, p->op_count); /* per operator: last segment + 1 it wants ... */
    uint32_t *next = MG_NEW_ARRAY(m->scratch, uint32_t, m->segments);  /* ... and per segment the one before */
    for (uint32_t g = 0; g < m->segments; g++)
        if (m->wanted[g] != MG_NONE) {
            next[g] = first[m->wanted[g]];
            first[m->wanted[g]] = g + 1;
        }
    out->count = 0;
    for (uint32_t i = 0; i < p->order_count; i++) {
        for (uint32_t g = first[p->order[i]]; g > 0; g = next[g - 1])
            for (uint32_t k = repeats.start[g - 1]; k < repeats.start[g] && out->count < out->capacity; k++)
                out->word[out->count++] = MG_WORD(MG_WORD_COMPUTE, repeats.item[k]);
        if (out->count == out->capacity)
            return false;
        out->word[out->count++] = MG_WORD(MG_WORD_COMPUTE, p->order[i]);
    }
    return true;
}

static bool finish(struct mg_searcher *s, struct segmenter *m, struct mg_list *out)
{
    struct mg_error why;
    find_repeats(m);
    return write_list(m, out) &&
           mg_list_check(s->p, mg_searcher_scheme(s, NULL, 0, NULL), out, s->scratch, &why) == MG_OK;
}

bool mg_sublinear_segments(struct mg_searcher *s, uint64_t budget, struct mg_list *out, uint64_t *borders,
                           uint64_t *largest)
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct segmenter m;
    bool ok = begin(s, &m);
    if (ok) {
        uint64_t widest = cut_segments(&m, budget), kept = find_dropped(&m);
        if (borders)
            *borders = kept;
        if (largest)
            *largest = widest;
        ok = finish(s, &m, out);
    }
    mg_arena_rewind(s->scratch, mark);
    return ok;
}

bool mg_sublinear_cheap(struct mg_searcher *s, struct mg_list *out)
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct segmenter m;
    bool ok = begin(s, &m);
    if (ok) {
        const struct mg_problem *p = s->p;
        for (uint32_t op = 0; op < m.forward; op++) {
            m.segment[op] = op; /* each operator stands alone: recomputed right before it is wanted */
            bool cheap = p->computes[op] && p->repeatable[op] && mg_op_cost(p->g->ops[op].type) != MG_COST_CONTRACTION;
            for (uint32_t k = p->defs.start[op]; cheap && k < p->defs.start[op + 1]; k++)
                m.dropped[p->defs.item[k]] = !(p->value_flags[p->defs.item[k]] & MG_VALUE_OUTPUT);
        }
        m.segments = m.forward;
        ok = finish(s, &m, out);
    }
    mg_arena_rewind(s->scratch, mark);
    return ok;
}

uint32_t mg_sublinear_budgets(struct mg_searcher *s, struct mg_list *scratch, uint64_t out[MG_SUBLINEAR_BUDGETS])
{
    uint64_t budget = 0, kept = 0, largest = 0, smallest = UINT64_MAX;
    uint32_t n = 0;
    for (int round = 0; round < 3; round++) {
        mg_sublinear_segments(s, budget, scratch, &kept, &largest);
        if (round > 0)
            out[n++] = budget;
        budget = (uint64_t)sqrt((double)kept * (double)largest / 2);
    }
    out[n++] = budget;
    for (uint32_t i = 0; i < s->p->order_count && s->p->order[i] < s->p->g->forward_ops; i++) {
        uint64_t bytes = result_bytes(s->p, s->p->order[i]);
        smallest = bytes && bytes < smallest ? bytes : smallest;
    }
    double top = 1.4142135623730951 * (double)budget;
    for (int i = 0; i < 6 && smallest != UINT64_MAX; i++)
        out[n++] = (uint64_t)((double)smallest + (top - (double)smallest) * i / 5);
    return n;
}
