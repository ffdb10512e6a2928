/* What each kind of step does, region by region and part by part. */
#include "exec/walk_priv.h"

#include <string.h>

#include "exec/exec_priv.h"

static bool made_at_begin(const struct mg_runner *run, uint32_t instance)
{
    uint32_t maker = run->plan->instances[instance].made_by;
    return maker != MG_NONE && run->plan->steps[maker].kind == MG_STEP_BEGIN;
}

static bool last_parts(const struct mg_runner *run)
{
    for (uint32_t i = 0; i < run->depth; i++)
        if (run->open[i].part + 1 < run->plan->regions[run->open[i].region].parts)
            return false;
    return true;
}

/* The operand whose storage the first result takes, or MG_NONE. */
static uint32_t taken_operand(const struct mg_runner *run, const struct mg_step *step, uint32_t slot)
{
    int32_t in_place = run->g->ops[step->op].in_place;
    if (slot || in_place < 0 || (uint32_t)in_place >= step->in_count)
        return MG_NONE;
    uint32_t old = mg_run_in(run, step, (uint32_t)in_place), new = mg_run_out(run, step, 0);
    return run->plan->instances[old].storage == run->plan->instances[new].storage ? old : MG_NONE;
}

/* Takes over the old instance's storage. Inside a region an update does so slice by slice (R9): the
 * old version stays readable until the last part. */
static enum mg_code take_over(struct mg_runner *run, uint32_t old, uint32_t new)
{
    struct mg_holding held;
    const struct mg_instance *instances = run->plan->instances;
    enum mg_code code = mg_run_resolve(run, old, &held);
    if (code)
        return code;
    if (mg_run_element_size(run, instances[old].value) != mg_run_element_size(run, instances[new].value))
        return mg_run_refuse(run, "a result in place has elements of another size");
    uint32_t base = instances[old].view_of == MG_NONE ? old : instances[old].view_of;
    run->holdings[new] = held;
    if (instances[base].made_by != MG_NONE || last_parts(run))
        run->holdings[base].alive = false;
    return MG_OK;
}

static enum mg_code prepare_result(struct mg_runner *run, const struct mg_step *step, uint32_t slot,
                                   const struct mg_run_box *box)
{
    uint32_t instance = mg_run_out(run, step, slot), old = taken_operand(run, step, slot);
    if (run->plan->instances[instance].value != run->g->ops[step->op].out[slot])
        return mg_run_refuse(run, "a result's instance is of another value");
    if (made_at_begin(run, instance))
        return MG_OK;
    if (old == MG_NONE)
        return mg_run_allocate(run, instance, box);
    return take_over(run, old, instance);
}

static enum mg_code find_operands(struct mg_runner *run, const struct mg_step *step, struct mg_located *in)
{
    const struct mg_op_info *info = &run->g->ops[step->op];
    if (step->in_count != info->in_count || step->out_count != info->out_count)
        return mg_run_refuse(run, "a compute step's operands or results do not fit its operator");
    for (uint32_t i = 0; i < step->in_count; i++) {
        struct mg_run_box box;
        mg_run_box_of(run, step->op, false, i, run->depth, &box);
        if (run->plan->instances[mg_run_in(run, step, i)].value != info->in[i])
            return mg_run_refuse(run, "an operand's instance is of another value");
        enum mg_code code = mg_run_find_read(run, mg_run_in(run, step, i), &box, &in[i]);
        if (code)
            return code;
    }
    return MG_OK;
}

/* Is this part the first of every region from `outer` inwards in whose axis the value is summed (R6)?
 * Also finds the combiner. */
static bool first_to_accumulate(const struct mg_runner *run, mg_value value, uint32_t outer, enum mg_combiner *combiner)
{
    mg_op op = run->g->values[value].producer;
    uint32_t slot = run->g->values[value].slot, axis_count;
    const struct mg_axis *axes = mg_op_axes(run->g, op, &axis_count);
    bool first = true;
    *combiner = MG_COMBINE_NONE;
    for (uint32_t i = outer; i < run->depth; i++) {
        uint32_t at = run->member[run->open[i].region][op];
        if (at == MG_NONE)
            continue;
        const struct mg_axis *axis = &axes[run->plan->regions[run->open[i].region].ops[at].axis];
        if (axis->out[slot].dim >= 0)
            continue;
        *combiner = axis->combiner;
        first = first && run->open[i].part == 0;
    }
    return first;
}

/* How many regions were open around the begin that allocated the instance. */
static uint32_t depth_of_buffer(const struct mg_runner *run, uint32_t instance)
{
    uint32_t region = run->plan->steps[run->plan->instances[instance].made_by].op;
    for (uint32_t i = 0; i < run->depth; i++)
        if (run->open[i].region == region)
            return i;
    return run->depth;
}

/* Is part 0 of the instance's value, in all regions that are open, dense within the buffer? */
static bool is_dense_part(struct mg_runner *run, uint32_t buffer)
{
    const struct mg_instance *info = &run->plan->instances[buffer];
    struct mg_open_region open[MG_RUN_DEPTH];
    struct mg_run_box box;
    memcpy(open, run->open, sizeof open);
    for (uint32_t i = 0; i < run->depth; i++)
        run->open[i].part = 0;
    mg_run_box_of(run, run->g->values[info->value].producer, true, run->g->values[info->value].slot, run->depth, &box);
    memcpy(run->open, open, sizeof open);
    return mg_layout_contiguous(&box.shape, info->stride);
}

/* The instance in whose storage a result is written: its own, or, by the first part of what is summed up, the buffer
 * (R6). */
static uint32_t written_instance(struct mg_runner *run, uint32_t instance)
{
    enum mg_combiner ignored;
    if (run->acc[instance] == MG_NONE)
        return instance;
    uint32_t into = mg_run_in(run, &run->plan->steps[run->acc[instance]], 1);
    bool first = made_at_begin(run, into) &&
                 first_to_accumulate(run, run->plan->instances[into].value, depth_of_buffer(run, into), &ignored);
    return first && is_dense_part(run, into) ? into : instance;
}

static enum mg_code find_results(struct mg_runner *run, const struct mg_step *step, struct mg_located *out)
{
    for (uint32_t i = 0; i < step->out_count; i++) {
        struct mg_run_box box;
        mg_run_box_of(run, step->op, true, i, run->depth, &box);
        enum mg_code code = prepare_result(run, step, i, &box);
        if (!code)
            code = mg_run_find_written(run, written_instance(run, mg_run_out(run, step, i)), &box, &out[i]);
        if (code)
            return code;
    }
    return MG_OK;
}

static enum mg_code do_compute(struct mg_runner *run, const struct mg_step *step)
{
    struct mg_cut cuts[MG_MAX_AXES];
    struct mg_op_desc desc;
    struct mg_located *in = MG_NEW_ARRAY(run->arena, struct mg_located, step->in_count);
    struct mg_located *out = MG_NEW_ARRAY(run->arena, struct mg_located, step->out_count);
    enum mg_code code = find_operands(run, step, in);
    if (code)
        return code;
    uint32_t count = mg_run_cuts_of(run, step->op, run->depth, cuts);
    code = mg_op_describe(run->g, step->op, cuts, count, run->arena, &desc, run->err);
    if (!code)
        code = find_results(run, step, out);
    if (code)
        return code;
    struct mg_run_box first;
    struct mg_action action = {.kind = MG_ACTION_COMPUTE, .op = &desc, .in = in, .out = out};
    mg_run_box_of(run, step->op, true, 0, run->depth, &first);
    action.origin = (struct mg_exec_origin){.seed = run->seed, .op = run->origin[step->op]};
    action.origin.whole = run->g->values[run->g->ops[step->op].out[0]].shape;
    memcpy(action.origin.lo, first.lo, sizeof first.lo);
    return mg_run_act(run, &action);
}

static enum mg_code do_store(struct mg_runner *run, const struct mg_step *step)
{
    uint32_t instance = mg_run_in(run, step, 0);
    mg_value value = run->plan->instances[instance].value;
    struct mg_holding held;
    struct mg_located from;
    enum mg_code code = mg_run_resolve(run, instance, &held);
    if (!code)
        code = mg_run_find_read(run, instance, &held.box, &from);
    if (code)
        return code;
    if (!mg_layout_contiguous(&from.shape, from.stride))
        return mg_run_refuse(run, "a store of an instance that is not dense");
    run->host[value] = (struct mg_run_copy){true, held.box, run->depth};
    return mg_run_act(run, &(struct mg_action){
                               .kind = MG_ACTION_STORE, .in = &from, .copy = value, .bytes = mg_run_box_bytes(&from)});
}

static enum mg_code do_load(struct mg_runner *run, const struct mg_step *step)
{
    uint32_t instance = mg_run_out(run, step, 0);
    mg_value value = run->plan->instances[instance].value;
    const struct mg_run_copy *copy = &run->host[value];
    struct mg_located to;
    if (!copy->there)
        return mg_run_refuse(run, "a load without a host copy");
    enum mg_code code = mg_run_allocate(run, instance, &copy->box);
    if (!code)
        code = mg_run_find_written(run, instance, &copy->box, &to);
    if (code)
        return code;
    return mg_run_act(
        run, &(struct mg_action){.kind = MG_ACTION_LOAD, .out = &to, .copy = value, .bytes = mg_run_box_bytes(&to)});
}

static enum mg_code do_free(struct mg_runner *run, const struct mg_step *step)
{
    uint32_t instance = mg_run_in(run, step, 0);
    const struct mg_instance *info = &run->plan->instances[instance];
    const struct mg_storage *storage = &run->plan->storages[info->storage];
    if (info->view_of != MG_NONE)
        return mg_run_refuse(run, "a free of a view");
    if (!run->holdings[instance].alive)
        return mg_run_refuse(run, "a free of an instance that is not alive");
    run->holdings[instance].alive = false;
    struct mg_located place = {.offset = storage->offset};
    return mg_run_act(run, &(struct mg_action){.kind = MG_ACTION_FREE, .out = &place, .bytes = storage->bytes});
}

static uint32_t body_end(const struct mg_runner *run, uint32_t step)
{
    uint32_t depth = 1;
    for (uint32_t s = step + 1; s < run->plan->step_count; s++) {
        depth += run->plan->steps[s].kind == MG_STEP_BEGIN;
        depth -= run->plan->steps[s].kind == MG_STEP_END;
        if (!depth)
            return s;
    }
    return MG_NONE;
}

/* The operator and operand slot that first reads `instance` (or a view of it) after this step. */
static bool first_reader(const struct mg_runner *run, uint32_t instance, mg_op *op, uint32_t *slot)
{
    uint32_t end = body_end(run, run->step);
    for (uint32_t s = run->step + 1; s < end && s < run->plan->step_count; s++) {
        const struct mg_step *step = &run->plan->steps[s];
        for (uint32_t i = 0; step->kind == MG_STEP_COMPUTE && i < step->in_count; i++) {
            uint32_t read = mg_run_in(run, step, i);
            const mg_op *chain;
            *op = step->op;
            *slot = i;
            if (read == instance)
                return true;
            if (run->plan->instances[read].view_of != instance)
                continue;
            uint32_t count = mg_run_view_chain(run, read, &chain);
            *slot = 0;
            *op = count ? chain[count - 1] : step->op;
            return count > 0;
        }
    }
    return false;
}

/* One operand or two of one shape, by an operator without attributes. */
static enum mg_code act_simple(struct mg_runner *run, enum mg_op_type type, const struct mg_located *in,
                               const struct mg_located *out)
{
    const struct mg_shape shapes[2] = {out->shape, out->shape};
    const enum mg_dtype dtypes[2] = {out->dtype, out->dtype};
    uint32_t count = type == MG_OP_COPY ? 1 : 2;
    struct mg_op_desc desc = {.type = type,
                              .in_count = count,
                              .out_count = 1,
                              .in_shape = shapes,
                              .out_shape = shapes,
                              .in_dtype = dtypes,
                              .out_dtype = dtypes};
    return mg_run_act(
        run,
        &(struct mg_action){.kind = MG_ACTION_COMPUTE, .op = &desc, .in = in, .out = out, .accumulates = count == 2});
}

static enum mg_code do_slice(struct mg_runner *run, const struct mg_step *step)
{
    uint32_t instance = mg_run_out(run, step, 0), slot;
    mg_op reader;
    struct mg_run_box box;
    struct mg_located from, to;
    if (!first_reader(run, instance, &reader, &slot))
        return mg_run_refuse(run, "a slice that nobody reads");
    mg_run_box_of(run, reader, false, slot, run->depth, &box);
    enum mg_code code = mg_run_find_read(run, mg_run_in(run, step, 0), &box, &from);
    if (!code)
        code = mg_run_allocate(run, instance, &box);
    if (!code)
        code = mg_run_find_written(run, instance, &box, &to);
    return code ? code : act_simple(run, MG_OP_COPY, &from, &to);
}

/* What a part has made, and where it belongs in the region's output. */
static enum mg_code find_both(struct mg_runner *run, const struct mg_step *step, struct mg_located *from,
                              struct mg_located *to)
{
    struct mg_holding held;
    enum mg_code code = mg_run_resolve(run, mg_run_in(run, step, 0), &held);
    if (!code)
        code = mg_run_find_read(run, mg_run_in(run, step, 0), &held.box, from);
    return code ? code : mg_run_find_written(run, mg_run_in(run, step, 1), &held.box, to);
}

static enum mg_code do_join(struct mg_runner *run, const struct mg_step *step)
{
    struct mg_located from, to;
    enum mg_code code = find_both(run, step, &from, &to);
    return code ? code : act_simple(run, MG_OP_COPY, &from, &to);
}

static enum mg_op_type operator_of(enum mg_combiner combiner)
{
    switch (combiner) {
    case MG_COMBINE_SUM:
        return MG_OP_ADD;
    case MG_COMBINE_MAX:
        return MG_OP_MAX;
    case MG_COMBINE_MIN:
        return MG_OP_MIN;
    case MG_COMBINE_PROD:
        return MG_OP_MUL;
    case MG_COMBINE_NONE:
        break;
    }
    return MG_OP_COUNT;
}

static enum mg_code do_acc(struct mg_runner *run, const struct mg_step *step)
{
    uint32_t into = mg_run_in(run, step, 1);
    enum mg_combiner combiner;
    struct mg_located from, operands[2];
    if (!made_at_begin(run, into))
        return mg_run_refuse(run, "an acc into something that is no region output");
    enum mg_code code = find_both(run, step, &from, &operands[0]);
    if (code)
        return code;
    operands[1] = from;
    if (written_instance(run, mg_run_in(run, step, 0)) == into)
        return MG_OK;
    if (first_to_accumulate(run, run->plan->instances[into].value, depth_of_buffer(run, into), &combiner))
        return act_simple(run, MG_OP_COPY, &from, &operands[0]);
    enum mg_op_type type = operator_of(combiner);
    if (type == MG_OP_COUNT)
        return mg_run_refuse(run, "an acc of what cannot be combined");
    return act_simple(run, type, operands, &operands[0]);
}

static enum mg_code begin_outputs(struct mg_runner *run, const struct mg_step *step)
{
    for (uint32_t i = 0; i < step->out_count; i++) {
        uint32_t instance = mg_run_out(run, step, i);
        const struct mg_value_info *value = &run->g->values[run->plan->instances[instance].value];
        struct mg_run_box box;
        if (value->producer == MG_NONE)
            return mg_run_refuse(run, "a region output that no operator makes");
        mg_run_box_of(run, value->producer, true, value->slot, run->depth, &box);
        enum mg_code code = mg_run_allocate(run, instance, &box);
        if (code)
            return code;
    }
    return MG_OK;
}

static void drop_part_copies(struct mg_runner *run)
{
    for (size_t v = 0; v < run->g->value_count; v++)
        if (run->host[v].depth >= run->depth)
            run->host[v].there = false;
}

static enum mg_code do_region(struct mg_runner *run, uint32_t begin, uint32_t end)
{
    uint32_t region = run->plan->steps[begin].op;
    enum mg_code code = begin_outputs(run, &run->plan->steps[begin]);
    if (code)
        return code;
    if (end == MG_NONE || region >= run->plan->region_count || run->depth == MG_RUN_DEPTH)
        return mg_run_refuse(run, "a region that does not end, is unknown or too deep");
    for (uint32_t part = 0; part < run->plan->regions[region].parts && !code; part++) {
        run->open[run->depth++] = (struct mg_open_region){region, part};
        code = mg_run_steps(run, begin + 1, end);
        drop_part_copies(run);
        run->depth--;
    }
    return code;
}

static enum mg_code do_step(struct mg_runner *run, const struct mg_step *step)
{
    switch (step->kind) {
    case MG_STEP_COMPUTE:
        return do_compute(run, step);
    case MG_STEP_STORE:
        return do_store(run, step);
    case MG_STEP_LOAD:
        return do_load(run, step);
    case MG_STEP_FREE:
        return do_free(run, step);
    case MG_STEP_SLICE:
        return do_slice(run, step);
    case MG_STEP_JOIN:
        return do_join(run, step);
    case MG_STEP_ACC:
        return do_acc(run, step);
    case MG_STEP_BEGIN:
    case MG_STEP_END:
        break;
    }
    return mg_run_refuse(run, "an end without a begin");
}

enum mg_code mg_run_steps(struct mg_runner *run, uint32_t from, uint32_t to)
{
    for (uint32_t s = from; s < to; s++) {
        struct mg_arena_mark mark = mg_arena_mark(run->arena);
        const struct mg_step *step = &run->plan->steps[s];
        enum mg_code code;
        run->step = s;
        if (step->kind == MG_STEP_BEGIN) {
            uint32_t end = body_end(run, s);
            code = do_region(run, s, end);
            s = end;
        } else {
            code = do_step(run, step);
            if (step->kind != MG_STEP_STORE) /* host copies live on */
                mg_arena_rewind(run->arena, mark);
        }
        if (code)
            return code;
    }
    return MG_OK;
}
