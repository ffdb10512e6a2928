/* Where boxes of values lie: in instances, through views, cut by the regions around a step. */
#include "exec/walk_priv.h"

#include <stdio.h>
#include <string.h>

#include "exec/exec_priv.h"

uint32_t mg_run_cuts_of(const struct mg_runner *run, mg_op op, uint32_t depth, struct mg_cut *cuts)
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

void mg_run_box_whole(const struct mg_runner *run, mg_value value, struct mg_run_box *box)
{
    memset(box->lo, 0, sizeof box->lo);
    box->shape = run->g->values[value].shape;
}

static void box_cut(struct mg_run_box *box, struct mg_axis_use use, const struct mg_cut *cut)
{
    if (use.dim < 0)
        return;
    box->lo[use.dim] = cut->lo * use.unit;
    box->shape.dim[use.dim] = (cut->hi - cut->lo) * use.unit;
}

void mg_run_box_of(const struct mg_runner *run, mg_op op, bool is_result, uint32_t slot, uint32_t depth,
                   struct mg_run_box *box)
{
    struct mg_cut cuts[MG_MAX_AXES];
    uint32_t axis_count, count = mg_run_cuts_of(run, op, depth, cuts);
    const struct mg_axis *axes = mg_op_axes(run->g, op, &axis_count);
    const struct mg_op_info *info = &run->g->ops[op];
    mg_run_box_whole(run, is_result ? info->out[slot] : info->in[slot], box);
    for (uint32_t c = 0; c < count; c++)
        box_cut(box, is_result ? axes[cuts[c].axis].out[slot] : axes[cuts[c].axis].in[slot], &cuts[c]);
}

uint32_t mg_run_element_size(const struct mg_runner *run, mg_value value)
{
    return mg_dtype_size(run->g->values[value].dtype);
}

/* Part of a holding: its place in elements, and its layout; false if the box is not inside. */
static bool locate(const struct mg_runner *run, mg_value value, const struct mg_holding *held,
                   const struct mg_run_box *box, struct mg_located *out)
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
    out->offset = (uint64_t)at * mg_run_element_size(run, value);
    return true;
}

enum mg_code mg_run_act(struct mg_runner *run, struct mg_action *action)
{
    action->step = run->step;
    return run->visitor->act(run->visitor->context, action, run->err);
}

enum mg_code mg_run_allocate(struct mg_runner *run, uint32_t instance, const struct mg_run_box *box)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    const struct mg_storage *storage = &run->plan->storages[info->storage];
    struct mg_holding *held = &run->holdings[instance];
    uint64_t size = mg_run_element_size(run, info->value);
    if (storage->offset % size || storage->offset + storage->bytes > run->plan->figures.arena_bytes)
        return mg_run_refuse(run, "a storage lies outside the arena");
    if ((uint64_t)mg_shape_elements(&box->shape) * size > storage->bytes)
        return mg_run_refuse(run, "an instance is larger than its storage");
    held->alive = true;
    held->box = *box;
    held->depth = run->depth;
    held->at = (int64_t)(storage->offset / size);
    mg_shape_strides(&box->shape, held->stride);
    struct mg_located place = {.offset = storage->offset};
    return mg_run_act(run, &(struct mg_action){.kind = MG_ACTION_ALLOCATE, .out = &place, .bytes = storage->bytes});
}

uint32_t mg_run_view_chain(const struct mg_runner *run, uint32_t instance, const mg_op **chain)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    return mg_graph_view_chain(run->g, info->value, run->plan->instances[info->view_of].value, run->arena, chain);
}

static bool first_parts(const struct mg_runner *run)
{
    for (uint32_t i = 0; i < run->depth; i++)
        if (run->open[i].part)
            return false;
    return true;
}

/* In first parts a view's stated offset, strides and shape must be what follows from its operators. */
static enum mg_code check_stated_view(struct mg_runner *run, uint32_t instance, const struct mg_holding *base,
                                      const struct mg_holding *held)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    if (!mg_shape_equal(&info->shape, &held->box.shape))
        return mg_run_refuse(run, "a view's stated shape is wrong");
    if (base->at + info->offset != held->at)
        return mg_run_refuse(run, "a view's stated offset is wrong");
    for (uint32_t d = 0; d < info->shape.rank; d++)
        if (info->shape.dim[d] > 1 && info->stride[d] != held->stride[d])
            return mg_run_refuse(run, "a view's stated strides are wrong");
    return MG_OK;
}

static enum mg_code apply_view(struct mg_runner *run, mg_op op, mg_value result, struct mg_holding *held)
{
    struct mg_cut cuts[MG_MAX_AXES];
    struct mg_op_desc desc;
    struct mg_run_box box;
    struct mg_located place;
    uint32_t count = mg_run_cuts_of(run, op, held->depth, cuts);
    mg_run_box_of(run, op, false, 0, held->depth, &box);
    if (!locate(run, result, held, &box, &place))
        return mg_run_refuse(run, "a view reads outside the box that its base holds");
    enum mg_code code = mg_op_describe(run->g, op, cuts, count, run->arena, &desc, run->err);
    if (code)
        return code;
    uint32_t slot = run->g->values[result].slot;
    struct mg_view view = {.at = (int64_t)(place.offset / mg_run_element_size(run, result)), .shape = place.shape};
    memcpy(view.stride, place.stride, sizeof view.stride);
    if (!mg_exec_view(&desc, slot, &view))
        return mg_run_refuse(run, "a view operator's part is no view of this layout");
    mg_run_box_of(run, op, true, slot, held->depth, &held->box);
    held->at = view.at;
    memcpy(held->stride, view.stride, sizeof held->stride);
    return MG_OK;
}

enum mg_code mg_run_resolve(struct mg_runner *run, uint32_t instance, struct mg_holding *out)
{
    const struct mg_instance *info = &run->plan->instances[instance];
    uint32_t base = info->view_of == MG_NONE ? instance : info->view_of;
    *out = run->holdings[base];
    if (!out->alive)
        return mg_run_refuse(run, "an operand is not alive");
    if (base == instance)
        return MG_OK;
    const mg_op *chain;
    uint32_t count = mg_run_view_chain(run, instance, &chain);
    if (!count)
        return mg_run_refuse(run, "a view does not lead to its base");
    for (uint32_t i = count; i-- > 0;) {
        mg_value result = i ? run->g->ops[chain[i - 1]].in[0] : info->value;
        enum mg_code code = apply_view(run, chain[i], result, out);
        if (code)
            return code;
    }
    return first_parts(run) ? check_stated_view(run, instance, &run->holdings[base], out) : MG_OK;
}

enum mg_code mg_run_find_read(struct mg_runner *run, uint32_t instance, const struct mg_run_box *box,
                              struct mg_located *out)
{
    struct mg_holding held;
    enum mg_code code = mg_run_resolve(run, instance, &held);
    if (code)
        return code;
    if (!locate(run, run->plan->instances[instance].value, &held, box, out))
        return mg_run_refuse(run, "a step reads outside the box that an instance holds");
    return MG_OK;
}

enum mg_code mg_run_find_written(struct mg_runner *run, uint32_t instance, const struct mg_run_box *box,
                                 struct mg_located *out)
{
    const struct mg_holding *held = &run->holdings[instance];
    if (!held->alive)
        return mg_run_refuse(run, "a result is not alive");
    if (!locate(run, run->plan->instances[instance].value, held, box, out))
        return mg_run_refuse(run, "a step writes outside the box that an instance holds");
    return MG_OK;
}

enum mg_code mg_action_refuse(const struct mg_action *action, struct mg_error *err, const char *what)
{
    char pointer[32] = "";
    if (action->step != MG_NONE)
        snprintf(pointer, sizeof pointer, "/steps/%u", action->step);
    return mg_fail(err, MG_ERR_REJECTED, pointer, "%s", what);
}

uint64_t mg_run_box_bytes(const struct mg_located *box)
{
    return (uint64_t)mg_shape_elements(&box->shape) * mg_dtype_size(box->dtype);
}

enum mg_code mg_run_refuse(struct mg_runner *run, const char *what)
{
    char pointer[32] = "";
    if (run->step != MG_NONE)
        snprintf(pointer, sizeof pointer, "/steps/%u", run->step);
    return mg_fail(run->err, MG_ERR_REJECTED, pointer, "%s", what);
}
