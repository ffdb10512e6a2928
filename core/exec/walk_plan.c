/* Walks a plan: which box of the arena each step reads and writes.
 *
 * Every instance knows which box of its value it holds and where; a reader computes the box it needs from the parts of
 * the regions around it and finds it inside the instance's box. Places are counted in elements of the value's dtype. */
#include "exec/walk_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "exec/exec_priv.h"

static void index_members(struct mg_runner *run)
{
    run->member = MG_NEW_ARRAY(run->arena, const uint32_t *, run->plan->region_count);
    for (size_t r = 0; r < run->plan->region_count; r++) {
        uint32_t *member = MG_NEW_ARRAY(run->arena, uint32_t, run->g->op_count);
        memset(member, 0xff, run->g->op_count * sizeof *member);
        for (uint32_t i = 0; i < run->plan->regions[r].op_count; i++)
            member[run->plan->regions[r].ops[i].op] = i;
        run->member[r] = member;
    }
}

static void index_accs(struct mg_runner *run)
{
    run->acc = MG_NEW_ARRAY(run->arena, uint32_t, run->plan->instance_count);
    memset(run->acc, 0xff, run->plan->instance_count * sizeof *run->acc);
    for (uint32_t s = 0; s < run->plan->step_count; s++)
        if (run->plan->steps[s].kind == MG_STEP_ACC)
            run->acc[mg_run_in(run, &run->plan->steps[s], 0)] = s;
}

/* Operators that a rewrite adds are not in the original; none of them is random. */
static void find_origins(struct mg_runner *run)
{
    run->origin = MG_NEW_ARRAY(run->arena, mg_op, run->g->op_count);
    struct mg_names index = {0}; /* numbers of operators, counted from 1 */
    for (mg_op op = 0; op < run->original->op_count; op++)
        *mg_names_at(&index, run->arena, run->original->ops[op].name) = (void *)((uintptr_t)op + 1);
    for (mg_op op = 0; op < run->g->op_count; op++) {
        uintptr_t number = (uintptr_t)mg_names_find(&index, run->g->ops[op].name);
        run->origin[op] = number ? (mg_op)(number - 1) : (mg_op)run->original->op_count;
    }
}

static mg_value original_of(const struct mg_runner *run, mg_value value)
{
    return run->g == run->original ? value : mg_graph_find_value(run->original, run->g->values[value].name);
}

/* As numbers of the original; what steps make is none. */
static enum mg_code find_given(struct mg_runner *run, uint32_t instance, mg_value *out)
{
    mg_value value = run->plan->instances[instance].value;
    char pointer[32];
    *out = original_of(run, value);
    if (*out != MG_NONE && run->original->values[*out].kind != MG_KIND_COMPUTED)
        return MG_OK;
    snprintf(pointer, sizeof pointer, "/instances/%u", instance);
    return mg_fail(run->err, MG_ERR_REJECTED, pointer, "'%.60s' is not given, and made by no step",
                   run->g->values[value].name);
}

static enum mg_code place_given(struct mg_runner *run)
{
    for (uint32_t i = 0; i < run->plan->instance_count; i++) {
        const struct mg_instance *info = &run->plan->instances[i];
        struct mg_run_box box;
        struct mg_located to;
        mg_value value;
        if (info->made_by != MG_NONE || info->view_of != MG_NONE)
            continue;
        mg_run_box_whole(run, info->value, &box);
        enum mg_code code = find_given(run, i, &value);
        if (!code)
            code = mg_run_allocate(run, i, &box);
        if (!code)
            code = mg_run_find_written(run, i, &box, &to);
        if (!code)
            code = mg_run_act(run,
                              &(struct mg_action){
                                  .kind = MG_ACTION_GIVEN, .out = &to, .bytes = mg_run_box_bytes(&to), .value = value});
        if (code)
            return code;
    }
    return MG_OK;
}

static enum mg_code place_on_host(struct mg_runner *run)
{
    enum mg_code code = MG_OK;
    for (mg_value v = 0; v < run->g->value_count && !code; v++) {
        if (run->g->values[v].kind == MG_KIND_COMPUTED || run->g->values[v].home != MG_HOME_HOST)
            continue;
        run->host[v].there = true;
        mg_run_box_whole(run, v, &run->host[v].box);
        code = mg_run_act(run, &(struct mg_action){.kind = MG_ACTION_GIVEN,
                                                   .copy = v,
                                                   .value = original_of(run, v),
                                                   .bytes = run->g->values[v].bytes});
    }
    return code;
}

static bool is_result(const struct mg_graph *g, mg_value value)
{
    return g->values[value].is_output || g->values[value].update_of != MG_NONE;
}

/* A live instance of the value's base that holds it whole, or MG_NONE. */
static uint32_t final_instance(const struct mg_runner *run, mg_value base)
{
    for (uint32_t i = 0; i < run->plan->instance_count; i++) {
        const struct mg_holding *held = &run->holdings[i];
        const struct mg_instance *info = &run->plan->instances[i];
        if (held->alive && info->value == base && info->view_of == MG_NONE &&
            mg_shape_equal(&held->box.shape, &run->g->values[base].shape))
            return i;
    }
    return MG_NONE;
}

static enum mg_code report_result(struct mg_runner *run, mg_value of_original)
{
    const char *name = run->original->values[of_original].name;
    mg_value value = run->g == run->original ? of_original : mg_graph_find_value(run->g, name);
    const struct mg_value_info *info = value == MG_NONE ? NULL : &run->g->values[value];
    uint32_t instance = info ? final_instance(run, info->base) : MG_NONE;
    struct mg_action action = {.kind = MG_ACTION_RESULT, .value = of_original, .copy = value};
    struct mg_located place;
    if (instance != MG_NONE) {
        uint32_t size = mg_run_element_size(run, value);
        place = (struct mg_located){.dtype = info->dtype, .shape = info->shape};
        place.offset = (uint64_t)(run->holdings[instance].at + info->offset) * size;
        memcpy(place.stride, info->stride, sizeof place.stride);
        action.in = &place;
        action.bytes = mg_run_box_bytes(&place);
    } else if (!info || !run->host[value].there)
        return mg_fail(run->err, MG_ERR_REJECTED, "", "the result '%s' is not there at the end", name);
    else
        action.bytes = info->bytes;
    return mg_run_act(run, &action);
}

static enum mg_code report_results(struct mg_runner *run)
{
    enum mg_code code = MG_OK;
    for (mg_value v = 0; v < run->original->value_count && !code; v++)
        if (is_result(run->original, v))
            code = report_result(run, v);
    return code;
}

enum mg_code mg_exec_walk(const struct mg_graph *original, const struct mg_plan *plan, uint64_t seed,
                          const struct mg_plan_visitor *visitor, struct mg_arena *arena, struct mg_error *err)
{
    const struct mg_graph *g = mg_plan_graph(original, plan);
    struct mg_runner run = {.original = original, .g = g, .plan = plan, .seed = seed, .arena = arena, .err = err};
    run.visitor = visitor;
    run.step = MG_NONE;
    run.holdings = MG_NEW_ARRAY(arena, struct mg_holding, plan->instance_count);
    run.host = MG_NEW_ARRAY(arena, struct mg_run_copy, g->value_count);
    index_members(&run);
    index_accs(&run);
    find_origins(&run);
    enum mg_code code = place_given(&run);
    if (!code)
        code = place_on_host(&run);
    if (!code)
        code = mg_run_steps(&run, 0, (uint32_t)plan->step_count);
    run.step = MG_NONE;
    return code ? code : report_results(&run);
}
