/* Questions about a plan's steps and instances. */
#include "export/steps.h"

bool mg_instance_given(const struct mg_export *e, uint32_t instance)
{
    return mg_instance_at(e, instance)->made_by == MG_NONE && mg_instance_at(e, instance)->view_of == MG_NONE;
}

uint32_t mg_step_body_end(const struct mg_export *e, uint32_t begin)
{
    uint32_t depth = 1;
    for (uint32_t s = begin + 1; s < e->plan->step_count; s++) {
        depth += e->plan->steps[s].kind == MG_STEP_BEGIN;
        depth -= e->plan->steps[s].kind == MG_STEP_END;
        if (!depth)
            return s;
    }
    return (uint32_t)e->plan->step_count;
}

bool mg_first_reader(const struct mg_export *e, uint32_t begin, uint32_t instance, mg_op *op, uint32_t *slot)
{
    uint32_t end = mg_step_body_end(e, begin);
    for (uint32_t s = begin + 1; s < end; s++) {
        const struct mg_step *step = &e->plan->steps[s];
        for (uint32_t i = 0; step->kind == MG_STEP_COMPUTE && i < step->in_count; i++) {
            const mg_op *chain;
            uint32_t read = mg_step_in(e, step, i);
            *op = step->op;
            *slot = i;
            if (read == instance)
                return true;
            if (mg_instance_at(e, read)->view_of != instance)
                continue;
            uint32_t count = mg_graph_view_chain(e->g, mg_instance_at(e, read)->value,
                                                 mg_instance_at(e, instance)->value, e->arena, &chain);
            *slot = 0;
            *op = count ? chain[count - 1] : step->op;
            return count > 0;
        }
    }
    return false;
}

const uint32_t *mg_index_instances(const struct mg_export *e, bool (*holds)(const void *context, uint32_t instance),
                                   const void *context)
{
    uint32_t *index = MG_NEW_ARRAY(e->arena, uint32_t, e->g->value_count);
    memset(index, 0xff, e->g->value_count * sizeof *index);
    for (uint32_t i = (uint32_t)e->plan->instance_count; i-- > 0;)
        if (mg_instance_at(e, i)->view_of == MG_NONE && holds(context, i))
            index[mg_instance_at(e, i)->value] = i;
    return index;
}
