#include "search/microbatch.h"

/* Operators of the batch component that have exactly one axis in it. */
static uint32_t batch_operators(struct mg_searcher *s, uint32_t component, mg_op *ops)
{
    const struct mg_dimensions *d = s->dimensions;
    uint32_t count = 0;
    for (uint32_t i = d->ops.start[component]; i < d->ops.start[component + 1]; i++)
        if (mg_dimensions_axis(d, d->ops.item[i], component) != MG_NONE)
            ops[count++] = d->ops.item[i];
    return count;
}

/* Keeps the largest connected part of the operators (R10). */
static uint32_t largest_part(struct mg_searcher *s, mg_op *ops, uint32_t count)
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    uint32_t *part = MG_NEW_ARRAY(s->scratch, uint32_t, count), *size = MG_NEW_ARRAY(s->scratch, uint32_t, count + 1);
    uint32_t parts = mg_connected_parts(s->p->g, ops, count, s->scratch, part), largest = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++)
        size[part[i]]++;
    for (uint32_t k = 1; k < parts; k++)
        largest = size[k] > size[largest] ? k : largest;
    for (uint32_t i = 0; i < count; i++)
        if (part[i] == largest)
            ops[kept++] = ops[i];
    mg_arena_rewind(s->scratch, mark);
    return kept;
}

bool mg_microbatch_region(struct mg_searcher *s, struct mg_region *out, struct mg_error *why)
{
    uint32_t component = mg_dimensions_batch(s->dimensions, s->p->g);
    if (component == MG_NONE) {
        (void)!mg_fail(why, MG_ERR_INVALID, "", "no input has a batch dimension");
        return false;
    }
    mg_op *ops = MG_NEW_ARRAY(s->arena, mg_op, s->p->op_count);
    uint32_t count = largest_part(s, ops, batch_operators(s, component, ops));
    if (!mg_dimensions_region(s->dimensions, s->p->g, component, ops, count, s->arena, out)) {
        (void)!mg_fail(why, MG_ERR_INVALID, "", "the batch dimension cannot be split");
        return false;
    }
    return mg_searcher_scheme(s, out, 1, why) != NULL;
}
