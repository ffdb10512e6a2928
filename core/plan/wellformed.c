/* Is a plan well formed: do all indices point somewhere, have steps as many operands, results and prices
 * as their kind wants, do regions nest? What this accepts can be simulated, placed and drawn safely.
 * Order, versions and meaning are the checker's business. */
#include <stdio.h>

#include "plan/plan_priv.h"

struct form {
    const struct mg_graph *g;
    const struct mg_plan *plan;
    uint32_t *tuples; /* by region + 1 */
    uint32_t open;
    bool *begun;
    struct mg_error *err;
};

static enum mg_code blame(const struct form *f, const char *list, size_t index, const char *why)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/%s/%zu", list, index);
    return mg_fail(f->err, MG_ERR_INVALID, pointer, "%s", why);
}

static bool axis_fits(const struct mg_graph *g, const struct mg_region *region, const struct mg_region_op *op)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(g, op->op, &count);
    return op->axis < count && op->scale >= 1 && region->length <= axes[op->axis].length / op->scale;
}

static enum mg_code check_region(struct form *f, uint32_t index, struct mg_arena *arena)
{
    const struct mg_region *region = &f->plan->regions[index];
    uint32_t chain[MG_MAX_NEST];
    struct mg_nest nest = {0};
    if (mg_region_chain(f->plan->regions, index, chain) > MG_MAX_NEST)
        return blame(f, "regions", index, "regions nest too deeply");
    if (!region->op_count || region->parts < 2 || (int64_t)region->parts > region->length)
        return blame(f, "regions", index, "the parts do not fit the length");
    for (uint32_t i = 0; i < region->op_count; i++)
        if (!axis_fits(f->g, region, &region->ops[i]))
            return blame(f, "regions", index, "the length exceeds that of an operator's axis");
    if (region->parent != MG_NONE)
        mg_nest_first(f->plan->regions, region->parent, &nest);
    if (mg_nest_length(f->plan->regions, &nest, index) != region->length)
        return blame(f, "regions", index, "the length is not that within the parent's part");
    (void)mg_nest_tuples(f->plan->regions, index, arena, &f->tuples[index + 1]);
    return MG_OK;
}

static enum mg_code check_regions(struct form *f, struct mg_arena *arena)
{
    f->tuples[0] = 1;
    for (uint32_t r = 0; r < f->plan->region_count; r++) {
        enum mg_code code = check_region(f, r, arena);
        if (code != MG_OK)
            return code;
    }
    return MG_OK;
}

static enum mg_code check_instances(struct form *f)
{
    const struct mg_plan *plan = f->plan;
    for (size_t i = 0; i < plan->instance_count; i++) {
        const struct mg_instance *instance = &plan->instances[i];
        uint32_t base = instance->view_of;
        if (instance->storage >= plan->storage_count)
            return blame(f, "instances", i, "there is no such storage");
        if (instance->made_by != MG_NONE && instance->made_by >= plan->step_count)
            return blame(f, "instances", i, "there is no such step");
        if (base == MG_NONE)
            continue;
        if (base >= plan->instance_count || plan->instances[base].view_of != MG_NONE ||
            plan->instances[base].storage != instance->storage)
            return blame(f, "instances", i, "a view is a view of an instance of its storage");
    }
    return MG_OK;
}

static bool refs_below(const struct mg_plan *plan, uint32_t first, uint32_t count, size_t bound)
{
    for (uint32_t i = 0; i < count; i++)
        if (plan->refs[first + i] >= bound)
            return false;
    return true;
}

static bool operands_fit(const struct form *f, const struct mg_step *step)
{
    switch (step->kind) {
    case MG_STEP_COMPUTE:
        return step->in_count == f->g->ops[step->op].in_count && step->out_count == f->g->ops[step->op].out_count &&
               !f->g->ops[step->op].is_view;
    case MG_STEP_STORE:
    case MG_STEP_FREE:
        return step->in_count == 1 && step->out_count == 0;
    case MG_STEP_LOAD:
        return step->in_count <= 1 && step->out_count == 1;
    case MG_STEP_SLICE:
        return step->in_count == 1 && step->out_count == 1;
    case MG_STEP_JOIN:
    case MG_STEP_ACC:
        return step->in_count == 2 && step->out_count == 0;
    case MG_STEP_BEGIN:
    case MG_STEP_END:
        return step->in_count == 0;
    }
    return false;
}

static bool prices_fit(const struct form *f, const struct mg_step *step)
{
    uint32_t tuples = f->tuples[f->open == MG_NONE ? 0 : f->open + 1];
    if (step->kind == MG_STEP_FREE || step->kind == MG_STEP_BEGIN || step->kind == MG_STEP_END)
        return step->price_count == 0;
    return step->price_count == tuples || (step->kind == MG_STEP_ACC && step->price_count == 2 * tuples);
}

/* join and acc name a region output: made by an operator, allocated by a begin. */
static bool output_fits(const struct form *f, const struct mg_step *step)
{
    const struct mg_plan *plan = f->plan;
    if (step->kind == MG_STEP_BEGIN) {
        for (uint32_t i = 0; i < step->out_count; i++)
            if (f->g->values[plan->instances[plan->refs[step->out + i]].value].producer == MG_NONE)
                return false;
        return true;
    }
    if (step->kind != MG_STEP_JOIN && step->kind != MG_STEP_ACC)
        return true;
    return f->open != MG_NONE && f->g->values[plan->instances[plan->refs[step->in + 1]].value].producer != MG_NONE;
}

static enum mg_code check_nesting(struct form *f, size_t at)
{
    const struct mg_step *step = &f->plan->steps[at];
    if (step->op >= f->plan->region_count)
        return blame(f, "steps", at, "there is no such region");
    if (step->kind == MG_STEP_BEGIN) {
        if (f->plan->regions[step->op].parent != f->open || f->begun[step->op])
            return blame(f, "steps", at, "the region cannot begin here");
        f->begun[step->op] = true;
        f->open = step->op;
        return MG_OK;
    }
    if (step->op != f->open)
        return blame(f, "steps", at, "the region is not open");
    f->open = f->plan->regions[step->op].parent;
    return MG_OK;
}

static enum mg_code check_step(struct form *f, size_t at)
{
    const struct mg_plan *plan = f->plan;
    const struct mg_step *step = &plan->steps[at];
    if (!operands_fit(f, step))
        return blame(f, "steps", at, "the number of operands or results does not fit");
    if (!refs_below(plan, step->in, step->in_count, plan->instance_count) ||
        !refs_below(plan, step->out, step->out_count, plan->instance_count))
        return blame(f, "steps", at, "there is no such instance");
    if (!refs_below(plan, step->price, step->price_count, plan->price_count))
        return blame(f, "steps", at, "there is no such price");
    if (!prices_fit(f, step))
        return blame(f, "steps", at, "one price is listed for each distinct tuple of extents");
    if (!output_fits(f, step))
        return blame(f, "steps", at, "that is no region's output");
    if (step->kind == MG_STEP_BEGIN || step->kind == MG_STEP_END)
        return check_nesting(f, at);
    return MG_OK;
}

enum mg_code mg_plan_well_formed(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                                 struct mg_error *err)
{
    struct form f = {.g = g, .plan = plan, .open = MG_NONE, .err = err};
    f.tuples = MG_NEW_ARRAY(arena, uint32_t, plan->region_count + 1);
    f.begun = MG_NEW_ARRAY(arena, bool, plan->region_count);
    enum mg_code code = check_regions(&f, arena);
    if (code == MG_OK)
        code = check_instances(&f);
    for (size_t s = 0; code == MG_OK && s < plan->step_count; s++)
        code = check_step(&f, s);
    if (code == MG_OK && f.open != MG_NONE)
        return mg_fail(err, MG_ERR_INVALID, "/steps", "region %u is not ended", f.open + 1);
    for (size_t r = 0; code == MG_OK && r < plan->region_count; r++)
        if (!f.begun[r])
            code = blame(&f, "regions", r, "the region has no begin");
    return code;
}
