/* Walks a plan: which box of the arena each step reads and writes.
 *
 * Every instance knows which box of its value it holds and where; a reader computes the box it needs from the parts of
 * the regions around it and finds it inside the instance's box. Places are counted in elements of the value's dtype. */
#include "exec/walk_plan.h"

#include <stdio.h>
#include <string.h>

#include "exec/exec_priv.h"

enum { MAX_REGION_DEPTH = 16 };

/* A box of a value: where it begins in the whole value, and its extents. */
struct box {
    int64_t lo[MG_MAX_RANK];
    struct mg_shape shape;
};
struct holding { /* what an instance holds at this moment */
    bool alive;
    struct box box;
    uint32_t depth; /* regions open around it: in these its box is a part's */
    int64_t at;     /* of the first element */
    int64_t stride[MG_MAX_RANK];
};
struct host_copy {
    bool there;
    struct box box;
    uint32_t depth; /* regions open when it was stored: it ends with their part */
};
struct open_region {
    uint32_t region, part;
};
struct runner {
    const struct mg_graph *original;
    const struct mg_graph *g; /* the one that the steps are over */
    const struct mg_plan *plan;
    const struct mg_plan_visitor *visitor;
    mg_op *origin; /* by operator: the original's of that name, by which random numbers are drawn (R8) */
    uint64_t seed;
    struct mg_arena *arena;
    struct holding *holdings; /* by instance */
    struct host_copy *host;   /* by value */
    const uint32_t **member;  /* [region][op]: index into region->ops, or MG_NONE */
    struct open_region open[MAX_REGION_DEPTH];
    uint32_t depth;
    uint32_t step;
    struct mg_error *err;
};

static enum mg_code refuse(struct runner *run, const char *what)
{
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/steps/%u", run->step);
    return mg_fail(run->err, MG_ERR_REJECTED, pointer, "%s", what);
}

static uint32_t ref_in(const struct runner *run, const struct mg_step *step, uint32_t i)
{
    return run->plan->refs[step->in + i];
}

static uint32_t ref_out(const struct runner *run, const struct mg_step *step, uint32_t i)
{
    return run->plan->refs[step->out + i];
}

/* ---- boxes ---- */

/* The cuts of `op` under the first `depth` open regions that contain it. A region nested on the same
 * axis cuts the parent's extent further. */
static uint32_t cuts_of(const struct runner *run, mg_op op, uint32_t depth, struct mg_cut *cuts)
{
    uint32_t axis_count, count = 0;
    const struct mg_axis *axes = mg_op_axes(run->g, op, &axis_count);
    for (uint32_t i = 0; i < depth; i++) {
        const struct mg_region *region = &run->plan->regions[run->open[i].region];
        uint32_t at = run->member[run->open[i].region][op];
        if (at == MG_NONE)
            continue;
        const struct mg_region_op *use = &region->ops[at];
        uint32_t c = 0;
        while (c < count && cuts[c].axis != use->axis)
            c++;
        if (c == count)
            cuts[count++] = (struct mg_cut){use->axis, 0, axes[use->axis].length};
        int64_t lo, hi;
        mg_part_bounds((cuts[c].hi - cuts[c].lo) / use->scale, region->parts, run->open[i].part, &lo, &hi);
        cuts[c].hi = cuts[c].lo + hi * use->scale;
        cuts[c].lo += lo * use->scale;
    }
    return count;
}

static void box_whole(const struct runner *run, mg_value value, struct box *box)
{
    memset(box->lo, 0, sizeof box->lo);
    box->shape = run->g->values[value].shape;
}

static void box_cut(struct box *box, struct mg_axis_use use, const struct mg_cut *cut)
{
    if (use.dim < 0)
        return;
    box->lo[use.dim] = cut->lo * use.unit;
    box->shape.dim[use.dim] = (cut->hi - cut->lo) * use.unit;
}

/* The box of operand (or result) `slot` of `op` under the first `depth` open regions. */
static void box_of(const struct runner *run, mg_op op, bool is_result, uint32_t slot, uint32_t depth, struct box *box)
{
    struct mg_cut cuts[MG_MAX_AXES];
    uint32_t axis_count, count = cuts_of(run, op, depth, cuts);
    const struct mg_axis *axes = mg_op_axes(run->g, op, &axis_count);
    const struct mg_op_info *info = &run->g->ops[op];
    box_whole(run, is_result ? info->out[slot] : info->in[slot], box);
    for (uint32_t c = 0; c < count; c++)
        box_cut(box, is_result ? axes[cuts[c].axis].out[slot] : axes[cuts[c].axis].in[slot], &cuts[c]);
}

static uint32_t element_size(const struct runner *run, mg_value value)
{
    return mg_dtype_size(run->g->values[value].dtype);
}

/* Part of a holding: its place in elements, and its layout; false if the box is not inside. */
static bool locate(const struct runner *run, mg_value value, const struct holding *held, const struct box *box,
                   struct mg_located *out)
{
    int64_t at = held->at;
    *out = (struct mg_located){.dtype = run->g->values[value].dtype, .shape = box->shape};
    for (uint32_t d = 0; d < box->shape.rank; d++) {
        int64_t lo = box->lo[d] - held->box.lo[d];
        if (lo < 0 || lo + box->shape.dim[d] > held->box.shape.dim[d])
            return false;
        at += lo * held->stride[d];
        out->stride[d] = held->stride[d];
    }
    out->offset = (uint64_t)at * element_size(run, value);
    return true;
}

/* ---- instances ---- */

static enum mg_code act(struct runner *run, struct mg_action *action)
{
    action->step = run->step;
    return run->visitor->act(run->visitor->context, action, run->err);
}

static enum mg_code allocate(struct runner *run, uint32_t instance, const struct box *box)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    const struct mg_storage *storage = &run->plan->storages[info->storage];
    struct holding *held = &run->holdings[instance];
    uint64_t size = element_size(run, info->value);
    if (storage->offset % size || storage->offset + storage->bytes > run->plan->figures.arena_bytes)
        return refuse(run, "a storage lies outside the arena");
    if ((uint64_t)mg_shape_elements(&box->shape) * size > storage->bytes)
        return refuse(run, "an instance is larger than its storage");
    held->alive = true;
    held->box = *box;
    held->depth = run->depth;
    held->at = (int64_t)(storage->offset / size);
    mg_shape_strides(&box->shape, held->stride);
    struct mg_located place = {.offset = storage->offset};
    return act(run, &(struct mg_action){.kind = MG_ACTION_ALLOCATE, .out = &place, .bytes = storage->bytes});
}

/* The instance's view operators from its base on, nearest to the base last. */
static uint32_t view_chain(const struct runner *run, uint32_t instance, mg_op *chain)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    mg_value value = info->value, base = run->plan->instances[info->view_of].value;
    uint32_t count = 0;
    while (value != base && count < MG_MAX_AXES * 4 && run->g->values[value].producer != MG_NONE) {
        chain[count++] = run->g->values[value].producer;
        value = run->g->ops[chain[count - 1]].in[0];
    }
    return value == base ? count : 0;
}

static bool first_parts(const struct runner *run)
{
    for (uint32_t i = 0; i < run->depth; i++)
        if (run->open[i].part)
            return false;
    return true;
}

/* In first parts a view's stated offset, strides and shape must be what follows from its operators. */
static enum mg_code check_stated_view(struct runner *run, uint32_t instance, const struct holding *base,
                                      const struct holding *held)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    if (!mg_shape_equal(&info->shape, &held->box.shape))
        return refuse(run, "a view's stated shape is wrong");
    if (base->at + info->offset != held->at)
        return refuse(run, "a view's stated offset is wrong");
    for (uint32_t d = 0; d < info->shape.rank; d++)
        if (info->shape.dim[d] > 1 && info->stride[d] != held->stride[d])
            return refuse(run, "a view's stated strides are wrong");
    return MG_OK;
}

static enum mg_code apply_view(struct runner *run, mg_op op, mg_value result, struct holding *held)
{
    struct mg_cut cuts[MG_MAX_AXES];
    struct mg_op_desc desc;
    struct box box;
    struct mg_located place;
    uint32_t count = cuts_of(run, op, held->depth, cuts);
    box_of(run, op, false, 0, held->depth, &box);
    if (!locate(run, result, held, &box, &place))
        return refuse(run, "a view reads outside the box that its base holds");
    enum mg_code code = mg_op_describe(run->g, op, cuts, count, run->arena, &desc, run->err);
    if (code)
        return code;
    uint32_t slot = run->g->values[result].slot;
    struct mg_view view = {.at = (int64_t)(place.offset / element_size(run, result)), .shape = place.shape};
    memcpy(view.stride, place.stride, sizeof view.stride);
    if (!mg_exec_view(&desc, slot, &view))
        return refuse(run, "a view operator's part is no view of this layout");
    box_of(run, op, true, slot, held->depth, &held->box);
    held->at = view.at;
    memcpy(held->stride, view.stride, sizeof held->stride);
    return MG_OK;
}

/* What the instance holds; for views, what follows from its base and the view operators, cut as the base is. */
static enum mg_code resolve(struct runner *run, uint32_t instance, struct holding *out)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    uint32_t base = info->view_of == MG_NONE ? instance : info->view_of;
    *out = run->holdings[base];
    if (!out->alive)
        return refuse(run, "an operand is not alive");
    if (base == instance)
        return MG_OK;
    mg_op chain[MG_MAX_AXES * 4];
    uint32_t count = view_chain(run, instance, chain);
    if (!count)
        return refuse(run, "a view does not lead to its base");
    for (uint32_t i = count; i-- > 0;) {
        mg_value result = i ? run->g->ops[chain[i - 1]].in[0] : info->value;
        enum mg_code code = apply_view(run, chain[i], result, out);
        if (code)
            return code;
    }
    return first_parts(run) ? check_stated_view(run, instance, &run->holdings[base], out) : MG_OK;
}

/* The place of a box of an instance that is read. */
static enum mg_code find_read(struct runner *run, uint32_t instance, const struct box *box, struct mg_located *out)
{
    struct holding held;
    enum mg_code code = resolve(run, instance, &held);
    if (code)
        return code;
    if (!locate(run, run->plan->instances[instance].value, &held, box, out))
        return refuse(run, "a step reads outside the box that an instance holds");
    return MG_OK;
}

/* And of one that is written. */
static enum mg_code find_written(struct runner *run, uint32_t instance, const struct box *box, struct mg_located *out)
{
    const struct holding *held = &run->holdings[instance];
    if (!held->alive)
        return refuse(run, "a result is not alive");
    if (!locate(run, run->plan->instances[instance].value, held, box, out))
        return refuse(run, "a step writes outside the box that an instance holds");
    return MG_OK;
}

enum mg_code mg_action_refuse(const struct mg_action *action, struct mg_error *err, const char *what)
{
    char pointer[32] = "";
    if (action->step != MG_NONE)
        snprintf(pointer, sizeof pointer, "/steps/%u", action->step);
    return mg_fail(err, MG_ERR_REJECTED, pointer, "%s", what);
}

static uint64_t box_bytes(const struct mg_located *box)
{
    return (uint64_t)mg_shape_elements(&box->shape) * mg_dtype_size(box->dtype);
}

/* ---- steps ---- */

static bool made_at_begin(const struct runner *run, uint32_t instance)
{
    uint32_t maker = run->plan->instances[instance].made_by;
    return maker != MG_NONE && run->plan->steps[maker].kind == MG_STEP_BEGIN;
}

static bool last_parts(const struct runner *run)
{
    for (uint32_t i = 0; i < run->depth; i++)
        if (run->open[i].part + 1 < run->plan->regions[run->open[i].region].parts)
            return false;
    return true;
}

/* The operand whose storage the first result takes, or MG_NONE. */
static uint32_t taken_operand(const struct runner *run, const struct mg_step *step, uint32_t slot)
{
    int32_t in_place = run->g->ops[step->op].in_place;
    if (slot || in_place < 0 || (uint32_t)in_place >= step->in_count)
        return MG_NONE;
    uint32_t old = ref_in(run, step, (uint32_t)in_place), new = ref_out(run, step, 0);
    return run->plan->instances[old].storage == run->plan->instances[new].storage ? old : MG_NONE;
}

/* Takes over the old instance's storage. Inside a region an update does so slice by slice (R9): the
 * old version stays readable until the last part. */
static enum mg_code take_over(struct runner *run, uint32_t old, uint32_t new)
{
    struct holding held;
    const struct mg_instance *instances = run->plan->instances;
    enum mg_code code = resolve(run, old, &held);
    if (code)
        return code;
    if (element_size(run, instances[old].value) != element_size(run, instances[new].value))
        return refuse(run, "a result in place has elements of another size");
    uint32_t base = instances[old].view_of == MG_NONE ? old : instances[old].view_of;
    run->holdings[new] = held;
    if (instances[base].made_by != MG_NONE || last_parts(run))
        run->holdings[base].alive = false;
    return MG_OK;
}

static enum mg_code prepare_result(struct runner *run, const struct mg_step *step, uint32_t slot, const struct box *box)
{
    uint32_t instance = ref_out(run, step, slot), old = taken_operand(run, step, slot);
    if (run->plan->instances[instance].value != run->g->ops[step->op].out[slot])
        return refuse(run, "a result's instance is of another value");
    if (made_at_begin(run, instance))
        return MG_OK;
    if (old == MG_NONE)
        return allocate(run, instance, box);
    return take_over(run, old, instance);
}

static enum mg_code find_operands(struct runner *run, const struct mg_step *step, struct mg_located *in)
{
    const struct mg_op_info *info = &run->g->ops[step->op];
    if (step->in_count != info->in_count || step->out_count != info->out_count)
        return refuse(run, "a compute step's operands or results do not fit its operator");
    for (uint32_t i = 0; i < step->in_count; i++) {
        struct box box;
        box_of(run, step->op, false, i, run->depth, &box);
        if (run->plan->instances[ref_in(run, step, i)].value != info->in[i])
            return refuse(run, "an operand's instance is of another value");
        enum mg_code code = find_read(run, ref_in(run, step, i), &box, &in[i]);
        if (code)
            return code;
    }
    return MG_OK;
}

static enum mg_code find_results(struct runner *run, const struct mg_step *step, struct mg_located *out)
{
    for (uint32_t i = 0; i < step->out_count; i++) {
        struct box box;
        box_of(run, step->op, true, i, run->depth, &box);
        enum mg_code code = prepare_result(run, step, i, &box);
        if (!code)
            code = find_written(run, ref_out(run, step, i), &box, &out[i]);
        if (code)
            return code;
    }
    return MG_OK;
}

static enum mg_code do_compute(struct runner *run, const struct mg_step *step)
{
    struct mg_cut cuts[MG_MAX_AXES];
    struct mg_op_desc desc;
    struct mg_located *in = MG_NEW_ARRAY(run->arena, struct mg_located, step->in_count);
    struct mg_located *out = MG_NEW_ARRAY(run->arena, struct mg_located, step->out_count);
    enum mg_code code = find_operands(run, step, in);
    if (code)
        return code;
    uint32_t count = cuts_of(run, step->op, run->depth, cuts);
    code = mg_op_describe(run->g, step->op, cuts, count, run->arena, &desc, run->err);
    if (!code)
        code = find_results(run, step, out);
    if (code)
        return code;
    struct box first;
    struct mg_action action = {.kind = MG_ACTION_COMPUTE, .op = &desc, .in = in, .out = out};
    box_of(run, step->op, true, 0, run->depth, &first);
    action.origin = (struct mg_exec_origin){.seed = run->seed, .op = run->origin[step->op]};
    action.origin.whole = run->g->values[run->g->ops[step->op].out[0]].shape;
    memcpy(action.origin.lo, first.lo, sizeof first.lo);
    return act(run, &action);
}

static enum mg_code do_store(struct runner *run, const struct mg_step *step)
{
    uint32_t instance = ref_in(run, step, 0);
    mg_value value = run->plan->instances[instance].value;
    struct holding held;
    struct mg_located from;
    enum mg_code code = resolve(run, instance, &held);
    if (!code)
        code = find_read(run, instance, &held.box, &from);
    if (code)
        return code;
    if (!mg_layout_contiguous(&from.shape, from.stride))
        return refuse(run, "a store of an instance that is not dense");
    run->host[value] = (struct host_copy){true, held.box, run->depth};
    return act(run,
               &(struct mg_action){.kind = MG_ACTION_STORE, .in = &from, .copy = value, .bytes = box_bytes(&from)});
}

static enum mg_code do_load(struct runner *run, const struct mg_step *step)
{
    uint32_t instance = ref_out(run, step, 0);
    mg_value value = run->plan->instances[instance].value;
    const struct host_copy *copy = &run->host[value];
    struct mg_located to;
    if (!copy->there)
        return refuse(run, "a load without a host copy");
    enum mg_code code = allocate(run, instance, &copy->box);
    if (!code)
        code = find_written(run, instance, &copy->box, &to);
    if (code)
        return code;
    return act(run, &(struct mg_action){.kind = MG_ACTION_LOAD, .out = &to, .copy = value, .bytes = box_bytes(&to)});
}

static enum mg_code do_free(struct runner *run, const struct mg_step *step)
{
    uint32_t instance = ref_in(run, step, 0);
    const struct mg_instance *info = &run->plan->instances[instance];
    const struct mg_storage *storage = &run->plan->storages[info->storage];
    if (info->view_of != MG_NONE)
        return refuse(run, "a free of a view");
    if (!run->holdings[instance].alive)
        return refuse(run, "a free of an instance that is not alive");
    run->holdings[instance].alive = false;
    struct mg_located place = {.offset = storage->offset};
    return act(run, &(struct mg_action){.kind = MG_ACTION_FREE, .out = &place, .bytes = storage->bytes});
}

static uint32_t body_end(const struct runner *run, uint32_t step)
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
static bool first_reader(const struct runner *run, uint32_t instance, mg_op *op, uint32_t *slot)
{
    uint32_t end = body_end(run, run->step);
    for (uint32_t s = run->step + 1; s < end && s < run->plan->step_count; s++) {
        const struct mg_step *step = &run->plan->steps[s];
        for (uint32_t i = 0; step->kind == MG_STEP_COMPUTE && i < step->in_count; i++) {
            uint32_t read = ref_in(run, step, i);
            mg_op chain[MG_MAX_AXES * 4];
            *op = step->op;
            *slot = i;
            if (read == instance)
                return true;
            if (run->plan->instances[read].view_of != instance)
                continue;
            uint32_t count = view_chain(run, read, chain);
            *slot = 0;
            *op = count ? chain[count - 1] : step->op;
            return count > 0;
        }
    }
    return false;
}

/* One operand or two of one shape, by an operator without attributes. */
static enum mg_code act_simple(struct runner *run, enum mg_op_type type, const struct mg_located *in,
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
    return act(run, &(struct mg_action){
                        .kind = MG_ACTION_COMPUTE, .op = &desc, .in = in, .out = out, .accumulates = count == 2});
}

static enum mg_code do_slice(struct runner *run, const struct mg_step *step)
{
    uint32_t instance = ref_out(run, step, 0), slot;
    mg_op reader;
    struct box box;
    struct mg_located from, to;
    if (!first_reader(run, instance, &reader, &slot))
        return refuse(run, "a slice that nobody reads");
    box_of(run, reader, false, slot, run->depth, &box);
    enum mg_code code = find_read(run, ref_in(run, step, 0), &box, &from);
    if (!code)
        code = allocate(run, instance, &box);
    if (!code)
        code = find_written(run, instance, &box, &to);
    return code ? code : act_simple(run, MG_OP_COPY, &from, &to);
}

/* What a part has made, and where it belongs in the region's output. */
static enum mg_code find_both(struct runner *run, const struct mg_step *step, struct mg_located *from,
                              struct mg_located *to)
{
    struct holding held;
    enum mg_code code = resolve(run, ref_in(run, step, 0), &held);
    if (!code)
        code = find_read(run, ref_in(run, step, 0), &held.box, from);
    return code ? code : find_written(run, ref_in(run, step, 1), &held.box, to);
}

static enum mg_code do_join(struct runner *run, const struct mg_step *step)
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

/* Is this part the first of every region from `outer` inwards in whose axis the value is summed (R6)?
 * Also finds the combiner. */
static bool first_to_accumulate(const struct runner *run, mg_value value, uint32_t outer, enum mg_combiner *combiner)
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
static uint32_t depth_of_buffer(const struct runner *run, uint32_t instance)
{
    uint32_t region = run->plan->steps[run->plan->instances[instance].made_by].op;
    for (uint32_t i = 0; i < run->depth; i++)
        if (run->open[i].region == region)
            return i;
    return run->depth;
}

static enum mg_code do_acc(struct runner *run, const struct mg_step *step)
{
    uint32_t into = ref_in(run, step, 1);
    enum mg_combiner combiner;
    struct mg_located from, operands[2];
    if (!made_at_begin(run, into))
        return refuse(run, "an acc into something that is no region output");
    enum mg_code code = find_both(run, step, &from, &operands[0]);
    if (code)
        return code;
    operands[1] = from;
    if (first_to_accumulate(run, run->plan->instances[into].value, depth_of_buffer(run, into), &combiner))
        return act_simple(run, MG_OP_COPY, &from, &operands[0]);
    enum mg_op_type type = operator_of(combiner);
    if (type == MG_OP_COUNT)
        return refuse(run, "an acc of what cannot be combined");
    return act_simple(run, type, operands, &operands[0]);
}

static enum mg_code begin_outputs(struct runner *run, const struct mg_step *step)
{
    for (uint32_t i = 0; i < step->out_count; i++) {
        uint32_t instance = ref_out(run, step, i);
        const struct mg_value_info *value = &run->g->values[run->plan->instances[instance].value];
        struct box box;
        if (value->producer == MG_NONE)
            return refuse(run, "a region output that no operator makes");
        box_of(run, value->producer, true, value->slot, run->depth, &box);
        enum mg_code code = allocate(run, instance, &box);
        if (code)
            return code;
    }
    return MG_OK;
}

static void drop_part_copies(struct runner *run)
{
    for (size_t v = 0; v < run->g->value_count; v++)
        if (run->host[v].depth >= run->depth)
            run->host[v].there = false;
}

static enum mg_code run_steps(struct runner *run, uint32_t from, uint32_t to);

static enum mg_code do_region(struct runner *run, uint32_t begin, uint32_t end)
{
    uint32_t region = run->plan->steps[begin].op;
    enum mg_code code = begin_outputs(run, &run->plan->steps[begin]);
    if (code)
        return code;
    if (end == MG_NONE || region >= run->plan->region_count || run->depth == MAX_REGION_DEPTH)
        return refuse(run, "a region that does not end, is unknown or too deep");
    for (uint32_t part = 0; part < run->plan->regions[region].parts && !code; part++) {
        run->open[run->depth++] = (struct open_region){region, part};
        code = run_steps(run, begin + 1, end);
        drop_part_copies(run);
        run->depth--;
    }
    return code;
}

static enum mg_code do_step(struct runner *run, const struct mg_step *step)
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
    return refuse(run, "an end without a begin");
}

static enum mg_code run_steps(struct runner *run, uint32_t from, uint32_t to)
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

/* ---- before and after ---- */

static void index_members(struct runner *run)
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

static mg_op op_named(const struct mg_graph *g, const char *name)
{
    mg_op op = 0;
    while (op < g->op_count && strcmp(g->ops[op].name, name) != 0)
        op++;
    return op;
}

/* Operators that a rewrite adds are not in the original; none of them is random. */
static void find_origins(struct runner *run)
{
    run->origin = MG_NEW_ARRAY(run->arena, mg_op, run->g->op_count);
    for (mg_op op = 0; op < run->g->op_count; op++)
        run->origin[op] = run->g == run->original ? op : op_named(run->original, run->g->ops[op].name);
}

static mg_value original_of(const struct runner *run, mg_value value)
{
    return run->g == run->original ? value : mg_graph_find_value(run->original, run->g->values[value].name);
}

static enum mg_code place_given(struct runner *run)
{
    for (uint32_t i = 0; i < run->plan->instance_count; i++) {
        const struct mg_instance *info = &run->plan->instances[i];
        struct box box;
        struct mg_located to;
        if (info->made_by != MG_NONE || info->view_of != MG_NONE)
            continue;
        box_whole(run, info->value, &box);
        enum mg_code code = allocate(run, i, &box);
        if (!code)
            code = find_written(run, i, &box, &to);
        if (!code)
            code = act(run, &(struct mg_action){.kind = MG_ACTION_GIVEN,
                                                .out = &to,
                                                .bytes = box_bytes(&to),
                                                .value = original_of(run, info->value)});
        if (code)
            return code;
    }
    return MG_OK;
}

static enum mg_code place_on_host(struct runner *run)
{
    enum mg_code code = MG_OK;
    for (mg_value v = 0; v < run->g->value_count && !code; v++) {
        if (run->g->values[v].kind == MG_KIND_COMPUTED || run->g->values[v].home != MG_HOME_HOST)
            continue;
        run->host[v].there = true;
        box_whole(run, v, &run->host[v].box);
        code = act(run, &(struct mg_action){.kind = MG_ACTION_GIVEN,
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
static uint32_t final_instance(const struct runner *run, mg_value base)
{
    for (uint32_t i = 0; i < run->plan->instance_count; i++) {
        const struct holding *held = &run->holdings[i];
        const struct mg_instance *info = &run->plan->instances[i];
        if (held->alive && info->value == base && info->view_of == MG_NONE &&
            mg_shape_equal(&held->box.shape, &run->g->values[base].shape))
            return i;
    }
    return MG_NONE;
}

static enum mg_code report_result(struct runner *run, mg_value of_original)
{
    const char *name = run->original->values[of_original].name;
    mg_value value = run->g == run->original ? of_original : mg_graph_find_value(run->g, name);
    const struct mg_value_info *info = value == MG_NONE ? NULL : &run->g->values[value];
    uint32_t instance = info ? final_instance(run, info->base) : MG_NONE;
    struct mg_action action = {.kind = MG_ACTION_RESULT, .value = of_original, .copy = value};
    struct mg_located place;
    if (instance != MG_NONE) {
        uint32_t size = element_size(run, value);
        place = (struct mg_located){.dtype = info->dtype, .shape = info->shape};
        place.offset = (uint64_t)(run->holdings[instance].at + info->offset) * size;
        memcpy(place.stride, info->stride, sizeof place.stride);
        action.in = &place;
        action.bytes = box_bytes(&place);
    } else if (!info || !run->host[value].there)
        return mg_fail(run->err, MG_ERR_REJECTED, "", "the result '%s' is not there at the end", name);
    else
        action.bytes = info->bytes;
    return act(run, &action);
}

static enum mg_code report_results(struct runner *run)
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
    struct runner run = {.original = original, .g = g, .plan = plan, .seed = seed, .arena = arena, .err = err};
    run.visitor = visitor;
    run.step = MG_NONE;
    run.holdings = MG_NEW_ARRAY(arena, struct holding, plan->instance_count);
    run.host = MG_NEW_ARRAY(arena, struct host_copy, g->value_count);
    index_members(&run);
    find_origins(&run);
    enum mg_code code = place_given(&run);
    if (!code)
        code = place_on_host(&run);
    if (!code)
        code = run_steps(&run, 0, (uint32_t)plan->step_count);
    run.step = MG_NONE;
    return code ? code : report_results(&run);
}
