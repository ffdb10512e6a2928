/* Where a step's operands lie, as Python expressions. Positions depend on the part that a loop is at, extents do not:
 * code is written once for each tuple of extents. */
#include "export/torch_priv.h"

/* A region nested on the same axis cuts the parent's extent further. */
uint32_t mg_torch_cuts(const struct mg_torch *t, mg_op op, uint32_t depth, struct mg_torch_cut cuts[MG_MAX_AXES])
{
    uint32_t axis_count, count = 0;
    const struct mg_axis *axes = mg_op_axes(t->e->g, op, &axis_count);
    for (uint32_t i = 0; i < depth; i++) {
        const struct mg_region *region = &t->e->plan->regions[t->open[i].region];
        const struct mg_region_op *use = mg_region_find(region, op);
        uint32_t c = 0;
        if (!use)
            continue;
        while (c < count && cuts[c].axis != use->axis)
            c++;
        if (c == count)
            cuts[count++] = (struct mg_torch_cut){.axis = use->axis, .extent = axes[use->axis].length};
        int64_t lo, hi;
        mg_part_bounds(cuts[c].extent / use->scale, region->parts, t->open[i].part, &lo, &hi);
        cuts[c].lo.factor[i] = use->scale;
        cuts[c].first += lo * use->scale;
        cuts[c].extent = (hi - lo) * use->scale;
    }
    return count;
}

int64_t mg_torch_length(const struct mg_torch *t, uint32_t region)
{
    const struct mg_region *r = &t->e->plan->regions[region];
    struct mg_torch_cut cuts[MG_MAX_AXES];
    for (uint32_t i = 0; i < r->op_count; i++) {
        uint32_t count = mg_torch_cuts(t, r->ops[i].op, t->depth, cuts);
        for (uint32_t c = 0; c < count; c++)
            if (cuts[c].axis == r->ops[i].axis)
                return cuts[c].extent / r->ops[i].scale;
    }
    return r->length;
}

void mg_torch_whole_box(const struct mg_torch *t, mg_value value, struct mg_torch_box *box)
{
    *box = (struct mg_torch_box){.shape = t->e->g->values[value].shape};
}

void mg_torch_box_of(const struct mg_torch *t, mg_op op, bool is_result, uint32_t slot, uint32_t depth,
                     struct mg_torch_box *box)
{
    struct mg_torch_cut cuts[MG_MAX_AXES];
    uint32_t axis_count, count = mg_torch_cuts(t, op, depth, cuts);
    const struct mg_axis *axes = mg_op_axes(t->e->g, op, &axis_count);
    const struct mg_op_info *info = &t->e->g->ops[op];
    mg_torch_whole_box(t, is_result ? info->out[slot] : info->in[slot], box);
    for (uint32_t c = 0; c < count; c++) {
        const struct mg_axis *axis = &axes[cuts[c].axis];
        struct mg_axis_use use = is_result ? axis->out[slot] : axis->in[slot];
        if (use.dim < 0)
            continue;
        for (uint32_t i = 0; i < depth; i++)
            box->lo[use.dim].factor[i] += cuts[c].lo.factor[i] * use.unit;
        box->shape.dim[use.dim] = cuts[c].extent * use.unit;
    }
}

enum mg_code mg_torch_describe(const struct mg_torch *t, mg_op op, uint32_t depth, struct mg_op_desc *desc)
{
    struct mg_torch_cut cuts[MG_MAX_AXES];
    struct mg_cut plain[MG_MAX_AXES];
    uint32_t count = mg_torch_cuts(t, op, depth, cuts);
    for (uint32_t c = 0; c < count; c++)
        plain[c] = (struct mg_cut){cuts[c].axis, cuts[c].first, cuts[c].first + cuts[c].extent};
    return mg_op_describe(t->e->g, op, plain, count, t->e->arena, desc, t->e->err);
}

const char *mg_torch_linear(const struct mg_torch *t, const struct mg_linear *linear)
{
    const char *text = "";
    for (uint32_t i = 0; i < t->depth; i++) {
        if (!linear->factor[i])
            continue;
        const char *plus = *text ? " + " : "";
        if (linear->factor[i] == 1)
            text = mg_arena_printf(t->e->arena, "%s%sp%u", text, plus, t->open[i].region);
        else
            text = mg_arena_printf(t->e->arena, "%s%sp%u * %lld", text, plus, t->open[i].region,
                                   (long long)linear->factor[i]);
    }
    return *text ? text : "0";
}

const char *mg_torch_tuple(struct mg_arena *arena, const int64_t *numbers, uint32_t count)
{
    const char *text = "(";
    for (uint32_t i = 0; i < count; i++)
        text = mg_arena_printf(arena, "%s%s%lld", text, i ? ", " : "", (long long)numbers[i]);
    return mg_arena_printf(arena, count == 1 ? "%s,)" : "%s)", text);
}

/* ---- parts ---- */

static bool is_zero(const struct mg_linear *linear)
{
    for (uint32_t i = 0; i < MG_TORCH_DEPTH; i++)
        if (linear->factor[i])
            return false;
    return true;
}

const char *mg_torch_part_of(const struct mg_torch *t, const struct mg_torch_held *held, const struct mg_torch_box *box)
{
    const char *text = held->expr;
    for (uint32_t d = 0; d < box->shape.rank; d++) {
        struct mg_linear lo = box->lo[d];
        for (uint32_t i = 0; i < MG_TORCH_DEPTH; i++)
            lo.factor[i] -= held->box.lo[d].factor[i];
        if (is_zero(&lo) && box->shape.dim[d] == held->box.shape.dim[d])
            continue;
        text = mg_arena_printf(t->e->arena, "%s.narrow(%u, %s, %lld)", text, d, mg_torch_linear(t, &lo),
                               (long long)box->shape.dim[d]);
    }
    return text;
}

/* ---- views ---- */

static int64_t list_at(const struct mg_op_desc *desc, enum mg_attr_key key, uint32_t at, int64_t fallback)
{
    const struct mg_attr *attr = mg_attr_find(desc->attrs, desc->attr_count, key);
    return attr && at < attr->count ? attr->ints[at] : fallback;
}

static const char *sliced(const struct mg_torch *t, const struct mg_op_desc *desc, const char *text)
{
    text = mg_arena_printf(t->e->arena, "%s[", text);
    for (uint32_t d = 0; d < desc->in_shape[0].rank; d++)
        text = mg_arena_printf(t->e->arena, "%s%s%lld:%lld:%lld", text, d ? ", " : "",
                               (long long)list_at(desc, MG_ATTR_STARTS, d, 0),
                               (long long)list_at(desc, MG_ATTR_ENDS, d, desc->in_shape[0].dim[d]),
                               (long long)list_at(desc, MG_ATTR_STEPS, d, 1));
    return mg_arena_printf(t->e->arena, "%s]", text);
}

static const char *piece(const struct mg_torch *t, const struct mg_op_desc *desc, uint32_t slot, const char *text)
{
    const struct mg_attr *axis = mg_attr_find(desc->attrs, desc->attr_count, MG_ATTR_AXIS);
    int64_t lo = 0;
    for (uint32_t i = 0; i < slot; i++)
        lo += desc->out_shape[i].dim[axis->i];
    return mg_arena_printf(t->e->arena, "%s.narrow(%lld, %lld, %lld)", text, (long long)axis->i, (long long)lo,
                           (long long)desc->out_shape[slot].dim[axis->i]);
}

/* The view operator applied to an expression. */
static const char *viewed(const struct mg_torch *t, const struct mg_op_desc *desc, uint32_t slot, const char *text)
{
    struct mg_arena *arena = t->e->arena;
    const struct mg_shape *shape = &desc->out_shape[slot];
    const struct mg_attr *perm;
    switch (desc->type) {
    case MG_OP_TRANSPOSE:
        perm = mg_attr_find(desc->attrs, desc->attr_count, MG_ATTR_PERM);
        return mg_arena_printf(arena, "%s.permute(%s)", text, mg_torch_tuple(arena, perm->ints, perm->count));
    case MG_OP_EXPAND:
        return mg_arena_printf(arena, "%s.expand(%s)", text, mg_torch_tuple(arena, shape->dim, shape->rank));
    case MG_OP_SLICE:
        return sliced(t, desc, text);
    case MG_OP_SPLIT:
        return piece(t, desc, slot, text);
    default:
        return mg_arena_printf(arena, "%s.view(%s)", text, mg_torch_tuple(arena, shape->dim, shape->rank));
    }
}

static enum mg_code apply_view(const struct mg_torch *t, mg_op op, mg_value result, struct mg_torch_held *held)
{
    struct mg_op_desc desc;
    struct mg_torch_box box;
    uint32_t slot = t->e->g->values[result].slot;
    mg_torch_box_of(t, op, false, 0, held->depth, &box);
    enum mg_code code = mg_torch_describe(t, op, held->depth, &desc);
    if (code != MG_OK)
        return code;
    held->expr = viewed(t, &desc, slot, mg_torch_part_of(t, held, &box));
    mg_torch_box_of(t, op, true, slot, held->depth, &held->box);
    return MG_OK;
}

enum mg_code mg_torch_view(const struct mg_torch *t, mg_value value, mg_value base, struct mg_torch_held *held)
{
    const mg_op *chain;
    uint32_t count = mg_graph_view_chain(t->e->g, value, base, t->e->arena, &chain);
    if (!count && value != base)
        return mg_fail(t->e->err, MG_ERR_INVALID, "", "a view of the plan does not lead to its base");
    for (uint32_t i = count; i-- > 0;) {
        mg_value result = i ? t->e->g->ops[chain[i - 1]].in[0] : value;
        enum mg_code code = apply_view(t, chain[i], result, held);
        if (code != MG_OK)
            return code;
    }
    return MG_OK;
}

enum mg_code mg_torch_resolve(const struct mg_torch *t, uint32_t instance, struct mg_torch_held *out)
{
    const struct mg_instance *info = &t->e->plan->instances[instance];
    uint32_t base = info->view_of == MG_NONE ? instance : info->view_of;
    *out = t->held[base];
    if (!out->alive)
        return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan reads an instance that is not alive");
    return mg_torch_view(t, info->value, t->e->plan->instances[base].value, out);
}
