/* Reading a plan: steps. */
#include <string.h>

#include "plan/read_priv.h"

static const char *const step_members[] = {"do", "in", "of", "op", "out", "price", "region", NULL};

static bool read_kind(struct mg_plan_reader *r, enum mg_step_kind *kind)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *kind = mg_step_from_name(name);
    return *kind <= MG_STEP_ACC || mg_json_fail(&r->json, MG_ERR_INVALID, "unknown step '%s'", name);
}

static bool read_region_id(struct mg_plan_reader *r, uint32_t *region)
{
    if (!mg_plan_read_index(&r->json, region))
        return false;
    return (*region)-- > 0 || mg_json_fail(&r->json, MG_ERR_INVALID, "regions are numbered from 1");
}

static bool read_of(struct mg_plan_reader *r, struct mg_step *step)
{
    step->in = (uint32_t)r->plan->ref_count;
    step->in_count = 1;
    return mg_plan_read_index(&r->json, MG_PUSH(r->arena, r->plan->refs, r->plan->ref_count, r->ref_capacity));
}

static bool read_step_member(struct mg_plan_reader *r, struct mg_step *step, uint32_t member, const char *key)
{
    switch (member) {
    case 0:
        return read_kind(r, &step->kind);
    case 1:
        return mg_plan_read_refs(r, &step->in, &step->in_count);
    case 2:
        return read_of(r, step);
    case 3:
        return mg_plan_read_op(r, &step->op);
    case 4:
        return mg_plan_read_refs(r, &step->out, &step->out_count);
    case 5:
        return mg_plan_read_refs(r, &step->price, &step->price_count);
    case 6:
        return read_region_id(r, &step->op);
    default:
        return mg_plan_unknown_member(&r->json, key);
    }
}

/* Members that a step must and may have, as bits of step_members. */
static bool members_fit(struct mg_plan_reader *r, const struct mg_step *step, uint32_t seen)
{
    static const struct {
        uint32_t must, may;
    } rules[] = {
        [MG_STEP_COMPUTE] = {1 | 2 | 8 | 16 | 32, 0},
        [MG_STEP_STORE] = {1 | 4 | 32, 0},
        [MG_STEP_LOAD] = {1 | 16 | 32, 4},
        [MG_STEP_FREE] = {1 | 4, 0},
        [MG_STEP_BEGIN] = {1 | 64, 16},
        [MG_STEP_END] = {1 | 64, 0},
        [MG_STEP_SLICE] = {1 | 2 | 16 | 32, 0},
        [MG_STEP_JOIN] = {1 | 2 | 32, 16},
        [MG_STEP_ACC] = {1 | 2 | 32, 16},
    };
    if (!mg_plan_require(&r->json, seen, rules[step->kind].must, step_members))
        return false;
    for (uint32_t i = 0; step_members[i]; i++)
        if ((seen >> i & 1) && !((rules[step->kind].must | rules[step->kind].may) >> i & 1))
            return mg_json_fail(&r->json, MG_ERR_INVALID, "a %s step has no '%s'", mg_step_name(step->kind),
                                step_members[i]);
    return true;
}

bool mg_plan_read_step(struct mg_plan_reader *r)
{
    struct mg_step step = {.op = MG_NONE};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, step_members);
        if (!read_step_member(r, &step, k, key))
            return false;
        seen |= 1u << k;
    }
    if (!mg_plan_require(&r->json, seen, 1, step_members) || !members_fit(r, &step, seen))
        return false;
    *MG_PUSH(r->arena, r->plan->steps, r->plan->step_count, r->step_capacity) = step;
    return true;
}
