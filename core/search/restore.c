/* The words of a list are the steps of its plan without what follows from them: frees of what was not stored,
 * slices, joins and accumulations of regions. The figures say whether nothing was lost on the way. */
#include "search/restore.h"

#include <math.h>
#include <string.h>

#include "search/variant.h"

struct reader {
    const struct mg_problem *p;
    const struct mg_plan *plan;
    struct mg_list *list;
    const uint32_t *region; /* per region of the plan: its number in the scheme */
    uint32_t *stored;       /* per storage: root + 1 once it was stored */
};

/* ---- the graph that it is about ---- */

static bool enter_variant(struct mg_searcher *s, const struct mg_plan *plan)
{
    for (uint32_t v = 0; v < s->variant_count; v++)
        if (mg_variant_has(s->variants[v].p, plan)) {
            mg_searcher_enter(s, s->variants[v].p);
            return true;
        }
    return false;
}

/* ---- regions ---- */

static bool same_region(const struct mg_region *a, const struct mg_region *b)
{
    return a->length == b->length && a->parts == b->parts && a->op_count == b->op_count &&
           !memcmp(a->ops, b->ops, a->op_count * sizeof *a->ops);
}

/* The scheme may have been built before, from the same regions in another order. */
static const uint32_t *number_regions(const struct mg_scheme *scheme, const struct mg_plan *plan,
                                      struct mg_arena *scratch)
{
    uint32_t *number = MG_NEW_ARRAY(scratch, uint32_t, plan->region_count + 1);
    for (size_t r = 0; r < plan->region_count; r++) {
        while (number[r] < scheme->region_count && !same_region(&scheme->specs[number[r]], &plan->regions[r]))
            number[r]++;
        if (number[r] == scheme->region_count)
            return NULL;
    }
    return number;
}

static bool regions_fit(const struct mg_problem *p, const struct mg_plan *plan)
{
    for (size_t r = 0; r < plan->region_count; r++)
        for (uint32_t i = 0; i < plan->regions[r].op_count; i++)
            if (plan->regions[r].ops[i].op >= p->op_count)
                return false;
    return true;
}

/* ---- steps ---- */

static bool put(struct reader *r, enum mg_word_kind kind, uint32_t index)
{
    if (r->list->count == r->list->capacity)
        return false;
    r->list->word[r->list->count++] = MG_WORD(kind, index);
    return true;
}

static bool put_copy(struct reader *r, enum mg_word_kind kind, uint32_t ref)
{
    const struct mg_instance *instance = &r->plan->instances[r->plan->refs[ref]];
    if (instance->value >= r->p->value_count)
        return false;
    uint32_t root = r->p->root[instance->value];
    if (kind == MG_WORD_STORE)
        r->stored[instance->storage] = root + 1;
    return put(r, kind, root);
}

static bool put_free(struct reader *r, uint32_t ref)
{
    uint32_t root = r->stored[r->plan->instances[r->plan->refs[ref]].storage];
    return root == 0 || put(r, MG_WORD_FREE, root - 1);
}

static bool put_step(struct reader *r, const struct mg_step *step)
{
    switch (step->kind) {
    case MG_STEP_COMPUTE:
        return step->op < r->p->op_count && r->p->computes[step->op] && put(r, MG_WORD_COMPUTE, step->op);
    case MG_STEP_STORE:
        return put_copy(r, MG_WORD_STORE, step->in);
    case MG_STEP_LOAD:
        return put_copy(r, MG_WORD_LOAD, step->out);
    case MG_STEP_FREE:
        return put_free(r, step->in);
    case MG_STEP_BEGIN:
        return put(r, MG_WORD_BEGIN, r->region[step->op]);
    case MG_STEP_END:
        return put(r, MG_WORD_END, r->region[step->op]);
    default:
        return true;
    }
}

static bool read_steps(struct reader *r)
{
    r->list->count = 0;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (!put_step(r, &r->plan->steps[i]))
            return false;
    return true;
}

/* ---- the state ---- */

static bool as_planned(struct mg_searcher *s, const struct mg_scheme *scheme, const struct mg_list *list,
                       const struct mg_figures *planned)
{
    struct mg_error why;
    if (mg_list_check(s->p, scheme, list, s->scratch, &why) != MG_OK)
        return false;
    struct mg_cost cost = mg_evaluate(&s->evaluator, scheme, list);
    return cost.peak == planned->peak_bytes && cost.host == planned->host_bytes &&
           fabs(cost.latency - planned->latency_s) <= 1e-9 * planned->latency_s;
}

bool mg_restore(struct mg_searcher *s, const struct mg_plan *plan, const struct mg_scheme **scheme,
                struct mg_list *list)
{
    if (!enter_variant(s, plan) || !regions_fit(s->p, plan))
        return false;
    struct mg_region *specs = mg_arena_copy(s->arena, plan->regions, plan->region_count * sizeof *specs);
    *scheme = mg_searcher_scheme(s, specs, (uint32_t)plan->region_count, NULL);
    if (!*scheme)
        return false;
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct reader r = {.p = s->p, .plan = plan, .list = list};
    r.region = number_regions(*scheme, plan, s->scratch);
    r.stored = MG_NEW_ARRAY(s->scratch, uint32_t, plan->storage_count + 1);
    bool ok = r.region && read_steps(&r) && as_planned(s, *scheme, list, &plan->figures);
    mg_arena_rewind(s->scratch, mark);
    return ok;
}

uint32_t mg_restore_starts(struct mg_searcher *s, struct mg_list *list)
{
    uint32_t restored = 0;
    for (uint32_t i = 0; i < s->options->start_count && mg_searcher_look(s); i++) {
        const struct mg_scheme *scheme;
        if (!mg_restore(s, s->options->starts[i], &scheme, list))
            continue;
        struct mg_cost cost = mg_evaluate(&s->evaluator, scheme, list);
        s->unshown += mg_archive_offer(&s->archive, &s->pool, scheme, list, cost);
        s->evaluations++;
        restored++;
    }
    return restored;
}
