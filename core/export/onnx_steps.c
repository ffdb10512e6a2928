/* The steps of a plan as ONNX nodes, parts one by one.
 *
 * Tensors are never written again, so a part of a region's output is a tensor of its own; where the region ends, parts
 * are joined by Concat. What is summed (or combined otherwise) over parts is combined as soon as a part is there. */
#include <stdio.h>

#include "export/onnx_walk.h"

static enum mg_code refuse(const struct mg_onnx_walk *w, const char *what)
{
    return mg_fail(w->e->err, MG_ERR_INVALID, "", "%s", what);
}

/* ---- names and boxes ---- */

void mg_onnx_whole_box(const struct mg_graph *g, mg_value value, struct mg_onnx_box *box)
{
    *box = (struct mg_onnx_box){.shape = g->values[value].shape};
}

static bool same_box(const struct mg_onnx_box *a, const struct mg_onnx_box *b)
{
    return mg_shape_equal(&a->shape, &b->shape) && memcmp(a->lo, b->lo, a->shape.rank * sizeof a->lo[0]) == 0;
}

/* The first whole tensor of a value has its name, others one like it. */
static const char *new_name(struct mg_onnx_walk *w, mg_value value, bool whole)
{
    const char *name = w->name[value];
    if (!whole || w->named[value])
        return mg_emit_fresh(&w->sink, name);
    w->named[value] = true;
    return name;
}

static bool is_wanted(const struct mg_value_info *value)
{
    return value->reader_count || value->is_output;
}

static void box_of(const struct mg_onnx_walk *w, const struct mg_nest *nest, mg_op op, bool is_result, uint32_t slot,
                   struct mg_onnx_box *box)
{
    const struct mg_region *regions = w->e->plan->regions;
    if (is_result)
        mg_nest_out_box(w->e->g, regions, nest, op, slot, box->lo, &box->shape);
    else
        mg_nest_in_box(w->e->g, regions, nest, op, slot, box->lo, &box->shape);
}

static enum mg_code describe(const struct mg_onnx_walk *w, const struct mg_nest *nest, mg_op op,
                             struct mg_op_desc *desc)
{
    struct mg_cut cuts[MG_MAX_NEST];
    uint32_t count = mg_nest_cuts(w->e->plan->regions, nest, op, cuts);
    return mg_op_describe(w->e->g, op, cuts, count, w->e->arena, desc, w->e->err);
}

/* ---- reading ---- */

static const char *slice(struct mg_onnx_walk *w, const struct mg_onnx_held *held, const struct mg_onnx_box *box)
{
    int64_t from[MG_MAX_RANK], to[MG_MAX_RANK], axes[MG_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t d = 0; d < box->shape.rank; d++) {
        int64_t lo = box->lo[d] - held->box.lo[d];
        if (lo == 0 && box->shape.dim[d] == held->box.shape.dim[d])
            continue;
        axes[count] = d;
        from[count] = lo;
        to[count++] = lo + box->shape.dim[d];
    }
    const char *begins = mg_emit_ints(&w->sink, from, count), *ends = mg_emit_ints(&w->sink, to, count);
    const char *which = mg_emit_ints(&w->sink, axes, count);
    return mg_emit_one(&w->sink, mg_emit_fresh(&w->sink, held->name), "Slice", IN(held->name, begins, ends, which),
                       NULL);
}

/* A box of what is held. `cache`: the instance's. */
static const char *part_of(struct mg_onnx_walk *w, const struct mg_onnx_held *held, const struct mg_onnx_box *box,
                           struct mg_onnx_held *cache)
{
    if (same_box(&held->box, box))
        return held->name;
    if (cache->part_of != held->name || !same_box(&cache->part_box, box)) {
        cache->part = slice(w, held, box);
        cache->part_of = held->name;
        cache->part_box = *box;
    }
    return cache->part;
}

/* Every result of a view operator gets a name: what nobody has asked for yet may be read later. */
static const char *const *name_parts(struct mg_onnx_walk *w, const struct mg_op_info *op, bool whole)
{
    const char **out = MG_NEW_ARRAY(w->e->arena, const char *, op->out_count);
    for (uint32_t i = 0; i < op->out_count; i++)
        out[i] =
            is_wanted(&w->e->g->values[op->out[i]]) ? new_name(w, op->out[i], whole) : mg_emit_fresh(&w->sink, "t");
    return out;
}

/* The tensors that the view operator makes of `in`: one node for all results, and for all who read one of them. */
static enum mg_code see(struct mg_onnx_walk *w, const struct mg_nest *nest, mg_op op, const char *in,
                        const char *const **out)
{
    struct mg_onnx_seen *seen = &w->seen[op];
    struct mg_op_desc desc;
    struct mg_onnx_box box;
    box_of(w, nest, op, true, 0, &box);
    if (seen->in != in || !same_box(&seen->box, &box)) {
        enum mg_code code = describe(w, nest, op, &desc);
        if (code != MG_OK)
            return code;
        *seen = (struct mg_onnx_seen){in, name_parts(w, &w->e->g->ops[op], nest->depth == 0), box};
        mg_emit_op(&(struct mg_emit){.s = &w->sink, .d = &desc, .in = &in, .out = seen->out});
    }
    *out = seen->out;
    return MG_OK;
}

static enum mg_code apply_view(struct mg_onnx_walk *w, mg_op op, mg_value result, struct mg_onnx_held *held,
                               struct mg_onnx_held *cache)
{
    struct mg_nest nest = w->nest;
    struct mg_onnx_box box;
    const char *const *out;
    uint32_t slot = w->e->g->values[result].slot;
    nest.depth = held->depth;
    box_of(w, &nest, op, false, 0, &box);
    enum mg_code code = see(w, &nest, op, part_of(w, held, &box, cache), &out);
    if (code != MG_OK)
        return code;
    held->name = out[slot];
    box_of(w, &nest, op, true, slot, &held->box);
    return MG_OK;
}

/* Turns what holds `base` into the view of it that is `value`. */
static enum mg_code apply_views(struct mg_onnx_walk *w, mg_value value, mg_value base, struct mg_onnx_held *held,
                                struct mg_onnx_held *cache)
{
    const mg_op *chain;
    uint32_t count = mg_graph_view_chain(w->e->g, value, base, w->e->arena, &chain);
    if (!count && value != base)
        return refuse(w, "a view of the plan does not lead to its base");
    for (uint32_t i = count; i-- > 0;) {
        mg_value result = i ? w->e->g->ops[chain[i - 1]].in[0] : value;
        enum mg_code code = apply_view(w, chain[i], result, held, cache);
        if (code != MG_OK)
            return code;
    }
    return MG_OK;
}

/* What the instance is; of a view, its base seen through the view operators, made once for each tensor of the base. */
static enum mg_code resolve(struct mg_onnx_walk *w, uint32_t instance, struct mg_onnx_held *out)
{
    const struct mg_instance *info = mg_instance_at(w->e, instance);
    struct mg_onnx_held *own = &w->held[instance];
    uint32_t base = info->view_of == MG_NONE ? instance : info->view_of;
    *out = w->held[base];
    if (!out->name)
        return refuse(w, "the plan reads an instance that is not alive");
    if (base == instance)
        return MG_OK;
    if (own->view_of == out->name) {
        out->name = own->name;
        out->box = own->box;
        return MG_OK;
    }
    const char *from = out->name;
    enum mg_code code = apply_views(w, info->value, mg_instance_at(w->e, base)->value, out, &w->held[base]);
    own->view_of = from;
    own->name = out->name;
    own->box = out->box;
    return code;
}

static enum mg_code read_box(struct mg_onnx_walk *w, uint32_t instance, const struct mg_onnx_box *box, const char **out)
{
    struct mg_onnx_held held;
    enum mg_code code = resolve(w, instance, &held);
    if (code == MG_OK)
        *out = part_of(w, &held, box ? box : &held.box, &w->held[instance]);
    return code;
}

static void hold(struct mg_onnx_walk *w, uint32_t instance, const char *name, const struct mg_onnx_box *box)
{
    w->held[instance].name = name;
    w->held[instance].box = *box;
    w->held[instance].depth = w->nest.depth;
}

static bool is_whole(const void *context, uint32_t instance)
{
    const struct mg_onnx_walk *w = context;
    const struct mg_shape *whole = &w->e->g->values[mg_instance_at(w->e, instance)->value].shape;
    return w->held[instance].name && mg_shape_equal(&w->held[instance].box.shape, whole);
}

const char *mg_onnx_final(struct mg_onnx_walk *w, mg_value value)
{
    mg_value base = w->e->g->values[value].base;
    if (!w->whole)
        w->whole = mg_index_instances(w->e, is_whole, w);
    uint32_t instance = w->whole[base];
    if (instance == MG_NONE)
        return NULL;
    struct mg_onnx_held held = w->held[instance];
    return apply_views(w, value, base, &held, &w->held[instance]) == MG_OK ? held.name : NULL;
}

/* ---- outputs of regions ---- */

static const char *combined(struct mg_onnx_walk *w, mg_value value, enum mg_combiner combiner, const char *a,
                            const char *b)
{
    static const char *const types[] = {[MG_COMBINE_NONE] = NULL,
                                        [MG_COMBINE_SUM] = "Add",
                                        [MG_COMBINE_MAX] = "Max",
                                        [MG_COMBINE_MIN] = "Min",
                                        [MG_COMBINE_PROD] = "Mul"};
    return types[combiner] ? mg_emit_one(&w->sink, new_name(w, value, false), types[combiner], IN(a, b), NULL) : NULL;
}

/* The axis of region `level` in the operator that makes the value. */
static const struct mg_axis *axis_at(const struct mg_onnx_walk *w, mg_value value, uint32_t region)
{
    mg_op op = w->e->g->values[value].producer;
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(w->e->g, op, &count);
    const struct mg_region_op *entry = mg_region_find(&w->e->plan->regions[region], op);
    return entry && entry->axis < count ? &axes[entry->axis] : NULL;
}

/* Adds a part to what the innermost open region has of the output. */
static enum mg_code add_part(struct mg_onnx_walk *w, uint32_t instance, const char *name, const struct mg_onnx_box *box)
{
    struct mg_onnx_joined *joined = w->joined[instance];
    mg_value value = mg_instance_at(w->e, instance)->value;
    uint32_t depth = w->nest.depth;
    hold(w, instance, name, box);
    if (!joined || depth <= joined->depth)
        return refuse(w, "the plan writes a region's output outside of the region");
    const struct mg_axis *axis = axis_at(w, value, w->nest.part[depth - 1].region);
    if (!axis)
        return refuse(w, "the plan has a region output that its region does not make");
    if (axis->out[w->e->g->values[value].slot].dim < 0 && joined->level[depth].count) {
        const char **sum = &joined->level[depth].part[0];
        *sum = combined(w, value, axis->combiner, *sum, name);
        return *sum ? MG_OK : refuse(w, "the plan accumulates what cannot be combined");
    }
    *MG_PUSH(w->e->arena, joined->level[depth].part, joined->level[depth].count, joined->level[depth].capacity) = name;
    return MG_OK;
}

/* All parts of a region are there (it is closed already). */
static enum mg_code join_parts(struct mg_onnx_walk *w, uint32_t instance, uint32_t region)
{
    struct mg_onnx_joined *joined = w->joined[instance];
    mg_value value = mg_instance_at(w->e, instance)->value;
    const struct mg_value_info *info = &w->e->g->values[value];
    uint32_t depth = w->nest.depth, level = depth + 1;
    struct mg_onnx_box box;
    if (!joined || depth < joined->depth || !joined->level[level].count)
        return MG_OK;
    const char *name = joined->level[level].part[0];
    const struct mg_axis *axis = axis_at(w, value, region);
    if (joined->level[level].count > 1 && axis) {
        const struct mg_field *fields = FIELDS(F_INT("axis", axis->out[info->slot].dim));
        name = mg_emit_one(&w->sink, new_name(w, value, depth == 0), "Concat", joined->level[level].part,
                           (uint32_t)joined->level[level].count, fields);
    }
    joined->level[level].count = 0;
    box_of(w, &w->nest, info->producer, true, info->slot, &box);
    if (depth > joined->depth)
        return add_part(w, instance, name, &box);
    hold(w, instance, name, &box);
    return MG_OK;
}

/* ---- steps ---- */

/* Names of the results; whole ones that are no region's output keep the values' names. */
static const char **name_results(struct mg_onnx_walk *w, const struct mg_step *step)
{
    const struct mg_op_info *info = &w->e->g->ops[step->op];
    const char **out = MG_NEW_ARRAY(w->e->arena, const char *, info->out_count);
    for (uint32_t i = 0; i < info->out_count; i++)
        if (i == 0 || is_wanted(&w->e->g->values[info->out[i]]))
            out[i] = new_name(w, info->out[i], w->nest.depth == 0);
    return out;
}

static enum mg_code keep_results(struct mg_onnx_walk *w, const struct mg_step *step, const char *const *out)
{
    for (uint32_t i = 0; i < step->out_count; i++) {
        uint32_t instance = mg_step_out(w->e, step, i), maker = mg_instance_at(w->e, instance)->made_by;
        struct mg_onnx_box box;
        box_of(w, &w->nest, step->op, true, i, &box);
        enum mg_code code = MG_OK;
        if (maker != MG_NONE && w->e->plan->steps[maker].kind == MG_STEP_BEGIN)
            code = add_part(w, instance, out[i], &box);
        else
            hold(w, instance, out[i], &box);
        if (code != MG_OK)
            return code;
    }
    return MG_OK;
}

static enum mg_code do_compute(struct mg_onnx_walk *w, const struct mg_step *step)
{
    struct mg_op_desc desc;
    const char **in = MG_NEW_ARRAY(w->e->arena, const char *, step->in_count);
    if (step->in_count != w->e->g->ops[step->op].in_count || step->out_count != w->e->g->ops[step->op].out_count)
        return refuse(w, "a step's operands or results do not fit its operator");
    for (uint32_t i = 0; i < step->in_count; i++) {
        struct mg_onnx_box box;
        box_of(w, &w->nest, step->op, false, i, &box);
        enum mg_code code = read_box(w, mg_step_in(w->e, step, i), &box, &in[i]);
        if (code != MG_OK)
            return code;
    }
    enum mg_code code = describe(w, &w->nest, step->op, &desc);
    if (code != MG_OK)
        return code;
    const char **out = name_results(w, step);
    mg_emit_op(&(struct mg_emit){.s = &w->sink, .d = &desc, .in = in, .out = out});
    return keep_results(w, step, out);
}

static enum mg_code do_slice(struct mg_onnx_walk *w, uint32_t at)
{
    const struct mg_step *step = &w->e->plan->steps[at];
    struct mg_onnx_box box;
    mg_op reader;
    uint32_t slot;
    const char *name;
    if (!mg_first_reader(w->e, at, mg_step_out(w->e, step, 0), &reader, &slot))
        return refuse(w, "the plan has a slice that nobody reads");
    box_of(w, &w->nest, reader, false, slot, &box);
    enum mg_code code = read_box(w, mg_step_in(w->e, step, 0), &box, &name);
    if (code == MG_OK)
        hold(w, mg_step_out(w->e, step, 0), name, &box);
    return code;
}

/* Joins and accumulations alike: whether parts are joined or combined follows from the value's axes. */
static enum mg_code do_join(struct mg_onnx_walk *w, const struct mg_step *step)
{
    struct mg_onnx_held held;
    enum mg_code code = resolve(w, mg_step_in(w->e, step, 0), &held);
    return code == MG_OK ? add_part(w, mg_step_in(w->e, step, 1), held.name, &held.box) : code;
}

static enum mg_code do_region(struct mg_onnx_walk *w, uint32_t begin, uint32_t end)
{
    const struct mg_step *step = &w->e->plan->steps[begin];
    uint32_t depth = w->nest.depth;
    if (depth == MG_MAX_NEST)
        return mg_fail(w->e->err, MG_ERR_LIMIT, "", "regions nested deeper than %d", MG_MAX_NEST);
    for (uint32_t i = 0; i < step->out_count; i++) {
        struct mg_onnx_joined *joined = MG_NEW(w->e->arena, struct mg_onnx_joined);
        joined->depth = depth;
        w->joined[mg_step_out(w->e, step, i)] = joined;
        w->held[mg_step_out(w->e, step, i)].name = NULL;
    }
    w->begin[depth] = begin;
    for (uint32_t part = 0; part < w->e->plan->regions[step->op].parts; part++) {
        mg_nest_enter(w->e->plan->regions, &w->nest, step->op, part);
        enum mg_code code = mg_onnx_walk_steps(w, begin + 1, end);
        w->nest.depth--;
        if (code != MG_OK)
            return code;
    }
    for (uint32_t d = 0; d <= depth; d++) {
        const struct mg_step *outer = &w->e->plan->steps[w->begin[d]];
        for (uint32_t i = 0; i < outer->out_count; i++) {
            enum mg_code code = join_parts(w, mg_step_out(w->e, outer, i), step->op);
            if (code != MG_OK)
                return code;
        }
    }
    return MG_OK;
}

static enum mg_code do_step(struct mg_onnx_walk *w, uint32_t at)
{
    const struct mg_step *step = &w->e->plan->steps[at];
    switch (step->kind) {
    case MG_STEP_COMPUTE:
        return do_compute(w, step);
    case MG_STEP_FREE:
        w->held[mg_step_in(w->e, step, 0)].name = NULL;
        return MG_OK;
    case MG_STEP_SLICE:
        return do_slice(w, at);
    case MG_STEP_JOIN:
    case MG_STEP_ACC:
        return do_join(w, step);
    default: /* copies to the host are refused beforehand */
        return refuse(w, "the plan has a step that is not expected here");
    }
}

enum mg_code mg_onnx_too_large(const struct mg_onnx_walk *w)
{
    return mg_fail(w->e->err, MG_ERR_LIMIT, "", "the model would have more than %llu bytes",
                   (unsigned long long)w->most);
}

enum mg_code mg_onnx_walk_steps(struct mg_onnx_walk *w, uint32_t from, uint32_t to)
{
    for (uint32_t s = from; s < to; s++) {
        enum mg_code code;
        if (w->e->plan->steps[s].kind == MG_STEP_BEGIN) {
            uint32_t end = mg_step_body_end(w->e, s);
            code = do_region(w, s, end);
            s = end;
        } else {
            code = do_step(w, s);
        }
        if (code != MG_OK)
            return code;
        if (w->sink.node_count > MG_ONNX_MAX_NODES)
            return mg_fail(w->e->err, MG_ERR_LIMIT, "", "the model would have more than %d nodes", MG_ONNX_MAX_NODES);
        if (mg_onnx_written(w) > w->most)
            return mg_onnx_too_large(w);
    }
    return MG_OK;
}
