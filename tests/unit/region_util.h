/* Grows regions over a graph from a seed dimension and makes plans of them: what carries the dimension is in
 * the region, what it needs stands before, what needs it after. Up to three regions, each in the one before. */
#ifndef MG_TESTS_REGION_UTIL_H
#define MG_TESTS_REGION_UTIL_H

#include "plan_util.h"

enum { MOST_LEVELS = 3 };

struct carried { /* how a region's dimension lies in a value */
    bool there;
    int8_t dim;
    int64_t unit; /* elements of the dimension for each index of the region */
};
struct level {
    struct carried *use; /* by value */
    bool *inside;        /* by operator */
    bool *after;         /* by operator: not inside, but depends on the region */
    struct mg_region_op *ops;
    uint32_t op_count, parts, region;
    int64_t length;
    uint32_t *slices;
    size_t slice_count, slice_capacity;
};
struct region_tree {
    const struct mg_graph *g;
    struct mg_arena *arena;
    struct mg_rng rng;
    uint32_t depth; /* levels in use: 1 to MOST_LEVELS */
    struct level level[MOST_LEVELS];
    uint32_t swap_percent; /* of the part-local values that are read again: leave for the host meanwhile */
    /* running */
    struct mg_plan_builder *b;
    uint32_t *current, *whole, *begun, *stored; /* by base value */
    mg_op *order;
    size_t order_count;
    struct mg_plan *plan;
};

static inline void start_level(struct region_tree *t, uint32_t depth, uint32_t parts)
{
    struct level *l = &t->level[depth];
    *l = (struct level){.parts = parts};
    l->use = MG_NEW_ARRAY(t->arena, struct carried, t->g->value_count);
    l->inside = MG_NEW_ARRAY(t->arena, bool, t->g->op_count);
    l->after = MG_NEW_ARRAY(t->arena, bool, t->g->op_count);
    l->ops = MG_NEW_ARRAY(t->arena, struct mg_region_op, t->g->op_count);
}

static inline bool made_inside(const struct region_tree *t, const struct level *l, mg_value v)
{
    mg_op producer = t->g->values[v].producer;
    return producer != MG_NONE && l->inside[producer];
}

/* Does the value depend on the region through an operator that is not in it? */
static inline bool comes_after(const struct region_tree *t, const struct level *l, mg_value v)
{
    mg_op producer = t->g->values[v].producer;
    return producer != MG_NONE && l->after[producer];
}

static inline bool reads_region(const struct region_tree *t, const struct level *l, mg_op op)
{
    for (uint32_t i = 0; i < t->g->ops[op].in_count; i++)
        if (made_inside(t, l, t->g->ops[op].in[i]) || comes_after(t, l, t->g->ops[op].in[i]))
            return true;
    return false;
}

static inline bool axis_agrees(const struct region_tree *t, const struct level *l, mg_op op, const struct mg_axis *axis,
                               int64_t scale)
{
    const struct mg_op_info *info = &t->g->ops[op];
    for (uint32_t i = 0; i < info->in_count; i++) {
        struct carried use = l->use[info->in[i]];
        if (made_inside(t, l, info->in[i]) &&
            (!use.there || axis->in[i].dim != use.dim || axis->in[i].unit * scale != use.unit))
            return false;
        if (comes_after(t, l, info->in[i]))
            return false;
    }
    for (uint32_t i = 0; i < info->out_count; i++)
        if (axis->out[i].dim < 0 && axis->combiner == MG_COMBINE_NONE)
            return false;
    return !axis->window;
}

/* The axis on which the operator joins the region, if there is one. */
static inline bool find_entry(const struct region_tree *t, const struct level *l, mg_op op, struct mg_region_op *entry)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(t->g, op, &count);
    const struct mg_op_info *info = &t->g->ops[op];
    for (uint32_t i = 0; i < info->in_count; i++) {
        struct carried use = l->use[info->in[i]];
        for (uint32_t a = 0; use.there && a < count; a++) {
            if (axes[a].in[i].dim != use.dim || use.unit % axes[a].in[i].unit != 0)
                continue;
            *entry = (struct mg_region_op){op, a, use.unit / axes[a].in[i].unit};
            if (axis_agrees(t, l, op, &axes[a], entry->scale))
                return true;
        }
    }
    return false;
}

/* Length of the region's axis in operator `entry` under the first parts of the regions around it. */
static inline int64_t entry_length(const struct region_tree *t, uint32_t depth, const struct mg_region_op *entry,
                                   bool smallest)
{
    uint32_t count;
    int64_t length = mg_op_axes(t->g, entry->op, &count)[entry->axis].length;
    for (uint32_t d = 0; d < depth; d++)
        for (uint32_t i = 0; i < t->level[d].op_count; i++) {
            const struct mg_region_op *outer = &t->level[d].ops[i];
            if (outer->op != entry->op || outer->axis != entry->axis)
                continue;
            int64_t parts = t->level[d].parts, whole = length / outer->scale;
            length = (smallest ? whole / parts : (whole + parts - 1) / parts) * outer->scale;
        }
    return length / entry->scale;
}

/* Grows the region of this level from its seeds; false if it is empty or its lengths do not fit. */
static inline bool grow_level(struct region_tree *t, uint32_t depth)
{
    struct level *l = &t->level[depth];
    for (mg_op op = 0; op < t->g->op_count; op++) {
        struct mg_region_op entry;
        uint32_t count;
        if ((depth > 0 && !t->level[depth - 1].inside[op]) || !find_entry(t, l, op, &entry)) {
            l->after[op] = reads_region(t, l, op);
            continue;
        }
        const struct mg_axis *axis = &mg_op_axes(t->g, op, &count)[entry.axis];
        int64_t length = entry_length(t, depth, &entry, false);
        if ((l->op_count && length != l->length) || entry_length(t, depth, &entry, true) < l->parts)
            return false;
        l->length = length;
        l->ops[l->op_count++] = entry;
        l->inside[op] = true;
        for (uint32_t i = 0; i < t->g->ops[op].out_count; i++)
            if (axis->out[i].dim >= 0)
                l->use[t->g->ops[op].out[i]] =
                    (struct carried){true, axis->out[i].dim, axis->out[i].unit * entry.scale};
    }
    return l->op_count > 0;
}

/* ---- the order: what stands before a region, the region, what stands after it ---- */

static inline void order_level(struct region_tree *t, uint32_t depth, bool outer_only_after)
{
    const struct level *here = depth ? &t->level[depth - 1] : NULL;
    const struct level *inner = depth < t->depth ? &t->level[depth] : NULL;
    for (mg_op op = 0; op < t->g->op_count; op++) {
        if ((here && !here->inside[op]) || (inner && inner->inside[op]))
            continue;
        bool after = inner && inner->after[op];
        if (after == outer_only_after)
            t->order[t->order_count++] = op;
    }
}

static inline void order_all(struct region_tree *t, uint32_t depth)
{
    order_level(t, depth, false);
    if (depth == t->depth)
        return;
    order_all(t, depth + 1);
    order_level(t, depth, true);
}

/* ---- emission ---- */

static inline bool read_later(const struct region_tree *t, mg_value base, size_t from, uint32_t depth)
{
    for (size_t p = from; p < t->order_count; p++) {
        const struct mg_op_info *info = &t->g->ops[t->order[p]];
        if (info->is_view || (depth && !t->level[depth - 1].inside[t->order[p]]))
            continue;
        for (uint32_t i = 0; i < info->in_count; i++)
            if (t->g->values[info->in[i]].base == base)
                return true;
    }
    return false;
}

static inline bool is_kept(const struct mg_graph *g, mg_value base)
{
    for (mg_value v = 0; v < g->value_count; v++)
        if (g->values[v].base == base && g->values[v].is_output)
            return true;
    return g->values[base].kind > MG_KIND_INPUT || g->values[base].update_of != MG_NONE;
}

/* Frees instances of the open body (outside: all but what stays) after their last reader; sends others away. */
static inline void settle_values(struct region_tree *t, size_t position, uint32_t depth)
{
    for (mg_value v = 0; v < t->g->value_count; v++) {
        uint32_t instance = t->current[v];
        if (t->g->values[v].base != v || instance == MG_NONE || (depth == 0 && is_kept(t->g, v)) ||
            (depth > 0 && !mg_plan_builder_is_local(t->b, instance)))
            continue;
        if (!read_later(t, v, position, depth)) {
            mg_plan_builder_free(t->b, instance);
            t->current[v] = MG_NONE;
        } else if (t->stored[v] == MG_NONE && mg_rng_below(&t->rng, 100) < t->swap_percent) {
            mg_plan_builder_store(t->b, instance);
            mg_plan_builder_free(t->b, instance);
            t->stored[v] = instance;
            t->current[v] = MG_NONE;
        }
    }
}

static inline uint32_t operand_of(struct region_tree *t, mg_op op, uint32_t slot, uint32_t depth)
{
    mg_value base = t->g->values[t->g->ops[op].in[slot]].base;
    uint32_t have = t->current[base], got = mg_plan_builder_operand(t->b, op, slot, have);
    if (!depth || got == have || !mg_plan_builder_is_local(t->b, got) || mg_plan_builder_is_local(t->b, have))
        return got;
    struct level *l = &t->level[depth - 1];
    for (size_t k = 0; k < l->slice_count; k++)
        if (l->slices[k] == got)
            return got;
    *MG_PUSH(t->arena, l->slices, l->slice_count, l->slice_capacity) = got;
    return got;
}

/* Loads what a body (or the whole) needs and has sent away. */
static inline void load_values(struct region_tree *t, mg_op op)
{
    for (uint32_t i = 0; i < t->g->ops[op].in_count; i++) {
        mg_value base = t->g->values[t->g->ops[op].in[i]].base;
        if (t->current[base] == MG_NONE && t->stored[base] != MG_NONE)
            t->current[base] = mg_plan_builder_load(t->b, t->stored[base]);
    }
}

static inline void emit_one(struct region_tree *t, mg_op op, uint32_t depth)
{
    const struct mg_op_info *info = &t->g->ops[op];
    uint32_t in[64], out[64];
    if (info->in_count > 64 || info->out_count > 64)
        abort();
    load_values(t, op);
    for (uint32_t i = 0; i < info->in_count; i++)
        in[i] = operand_of(t, op, i, depth);
    mg_plan_builder_run(t->b, op, in, out);
    for (uint32_t i = 0; i < info->out_count; i++) {
        mg_value old = t->g->values[info->out[i]].update_of;
        t->current[info->out[i]] = out[i];
        if (old != MG_NONE)
            t->current[old] = MG_NONE;
    }
}

static inline size_t emit_body(struct region_tree *t, size_t position, uint32_t depth);

static inline void open_region(struct region_tree *t, size_t position, uint32_t depth)
{
    struct level *l = &t->level[depth];
    const mg_value *outputs;
    uint32_t count = mg_plan_builder_region_outputs(t->b, l->region, &outputs);
    uint32_t *outs = MG_NEW_ARRAY(t->arena, uint32_t, count);
    for (size_t p = position; p < t->order_count; p++)
        if (l->inside[t->order[p]])
            for (uint32_t i = 0; i < t->g->ops[t->order[p]].in_count; i++)
                load_values(t, t->order[p]);
    mg_plan_builder_begin(t->b, l->region, outputs, count, outs);
    for (uint32_t i = 0; i < count; i++) {
        t->whole[outputs[i]] = outs[i];
        t->begun[outputs[i]] = depth;
    }
}

static inline void close_region(struct region_tree *t, uint32_t depth)
{
    struct level *l = &t->level[depth];
    for (size_t k = 0; k < l->slice_count; k++)
        mg_plan_builder_free(t->b, l->slices[k]);
    mg_plan_builder_end(t->b, l->region);
    for (mg_value v = 0; v < t->g->value_count; v++)
        if (made_inside(t, l, v) && t->g->values[v].base == v && t->g->values[v].update_of == MG_NONE) {
            t->current[v] = t->whole[v];
            t->stored[v] = MG_NONE;
            if (t->whole[v] != MG_NONE && t->begun[v] == depth)
                t->whole[v] = MG_NONE;
        }
}

static inline size_t emit_body(struct region_tree *t, size_t position, uint32_t depth)
{
    while (position < t->order_count && (!depth || t->level[depth - 1].inside[t->order[position]])) {
        mg_op op = t->order[position];
        if (depth < t->depth && t->level[depth].inside[op]) {
            open_region(t, position, depth);
            position = emit_body(t, position, depth + 1);
            close_region(t, depth);
        } else {
            if (!t->g->ops[op].is_view)
                emit_one(t, op, depth);
            position++;
        }
        settle_values(t, position, depth);
    }
    return position;
}

static inline enum mg_code plan_of_tree(void *context, struct mg_error *err)
{
    struct region_tree *t = context;
    uint32_t **arrays[] = {&t->current, &t->whole, &t->begun, &t->stored}, parent = MG_NONE;
    for (int i = 0; i < 4; i++) {
        *arrays[i] = MG_NEW_ARRAY(t->arena, uint32_t, t->g->value_count);
        memset(*arrays[i], 0xff, t->g->value_count * sizeof(uint32_t));
    }
    t->order = MG_NEW_ARRAY(t->arena, mg_op, t->g->op_count);
    order_all(t, 0);
    t->b = mg_plan_builder_new(t->g, mg_device_builtin("rtx3090"), t->arena);
    for (mg_value v = 0; v < t->g->value_count; v++)
        t->current[v] = mg_plan_builder_initial(t->b, v);
    for (uint32_t d = 0; d < t->depth; d++) {
        struct level *l = &t->level[d];
        l->region = parent = mg_plan_builder_region(t->b, parent, l->length, l->parts, l->ops, l->op_count);
    }
    emit_body(t, 0, 0);
    return mg_plan_builder_finish(t->b, NULL, &t->plan, err);
}

#endif
