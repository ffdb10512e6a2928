/* Parts of regions: bounds, extents, and what they cut out of operators and values (R1, R2, R11). */
#include "plan/plan_priv.h"

void mg_part_bounds(int64_t length, uint32_t parts, uint32_t part, int64_t *lo, int64_t *hi)
{
    int64_t small = length / (int64_t)parts, larger = length % (int64_t)parts, p = (int64_t)part;
    *lo = p * small + (p < larger ? p : larger);
    *hi = *lo + small + (p < larger ? 1 : 0);
}

const struct mg_region_op *mg_region_find(const struct mg_region *region, mg_op op)
{
    uint32_t lo = 0, hi = region->op_count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (region->ops[mid].op < op)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < region->op_count && region->ops[lo].op == op ? &region->ops[lo] : NULL;
}

uint32_t mg_region_chain(const struct mg_region *regions, uint32_t region, uint32_t chain[MG_MAX_NEST])
{
    uint32_t depth = 0;
    for (uint32_t r = region; r != MG_NONE; r = regions[r].parent)
        if (++depth > MG_MAX_NEST)
            return depth;
    uint32_t at = depth;
    for (uint32_t r = region; r != MG_NONE; r = regions[r].parent)
        chain[--at] = r;
    return depth;
}

/* Index in the nest of the innermost region that splits the axis which `entry` names; -1 if none does. */
static int find_axis(const struct mg_region *regions, const struct mg_nest *nest, const struct mg_region_op *entry,
                     int64_t *scale)
{
    for (int d = (int)nest->depth - 1; d >= 0; d--) {
        const struct mg_region_op *outer = mg_region_find(&regions[nest->part[d].region], entry->op);
        if (outer && outer->axis == entry->axis) {
            *scale = outer->scale;
            return d;
        }
    }
    return -1;
}

/* First index (*lo) and length of the region's axis at this place. */
static void nest_range(const struct mg_region *regions, const struct mg_nest *nest, uint32_t region, int64_t *lo,
                       int64_t *length)
{
    const struct mg_region *r = &regions[region];
    int64_t scale = 1;
    int d = r->op_count ? find_axis(regions, nest, &r->ops[0], &scale) : -1;
    *lo = 0;
    *length = r->length;
    if (d >= 0) {
        *lo = nest->part[d].lo * scale / r->ops[0].scale;
        *length = (nest->part[d].hi - nest->part[d].lo) * scale / r->ops[0].scale;
    }
}

int64_t mg_nest_length(const struct mg_region *regions, const struct mg_nest *nest, uint32_t region)
{
    int64_t lo, length;
    nest_range(regions, nest, region, &lo, &length);
    return length;
}

uint32_t mg_nest_second_class(const struct mg_region *regions, const struct mg_nest *nest, uint32_t region)
{
    int64_t rest = mg_nest_length(regions, nest, region) % (int64_t)regions[region].parts;
    return rest ? (uint32_t)rest : regions[region].parts;
}

void mg_nest_enter(const struct mg_region *regions, struct mg_nest *nest, uint32_t region, uint32_t index)
{
    int64_t base, length;
    nest_range(regions, nest, region, &base, &length);
    struct mg_part part = {.region = region, .index = index};
    part.size_class = index >= mg_nest_second_class(regions, nest, region);
    mg_part_bounds(length, regions[region].parts, index, &part.lo, &part.hi);
    part.lo += base;
    part.hi += base;
    nest->part[nest->depth++] = part;
}

void mg_nest_first(const struct mg_region *regions, uint32_t region, struct mg_nest *nest)
{
    uint32_t chain[MG_MAX_NEST], depth = mg_region_chain(regions, region, chain);
    nest->depth = 0;
    for (uint32_t d = 0; d < depth; d++)
        mg_nest_enter(regions, nest, chain[d], 0);
}

const struct mg_nest *mg_nest_tuples(const struct mg_region *regions, uint32_t region, struct mg_arena *arena,
                                     uint32_t *count)
{
    uint32_t chain[MG_MAX_NEST], depth = mg_region_chain(regions, region, chain);
    struct mg_nest *list = MG_NEW_ARRAY(arena, struct mg_nest, 1);
    *count = 1;
    for (uint32_t d = 0; d < depth; d++) {
        struct mg_nest *next = MG_NEW_ARRAY(arena, struct mg_nest, 2 * (size_t)*count);
        uint32_t made = 0;
        for (uint32_t i = 0; i < *count; i++) {
            uint32_t second = mg_nest_second_class(regions, &list[i], chain[d]);
            next[made] = list[i];
            mg_nest_enter(regions, &next[made++], chain[d], 0);
            if (second == regions[chain[d]].parts)
                continue;
            next[made] = list[i];
            mg_nest_enter(regions, &next[made++], chain[d], second);
        }
        list = next;
        *count = made;
    }
    return list;
}

bool mg_nest_same_tuple(const struct mg_nest *a, const struct mg_nest *b)
{
    for (uint32_t d = 0; d < a->depth; d++)
        if (a->part[d].size_class != b->part[d].size_class)
            return false;
    return a->depth == b->depth;
}

uint32_t mg_nest_cuts(const struct mg_region *regions, const struct mg_nest *nest, mg_op op,
                      struct mg_cut cuts[MG_MAX_NEST])
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < nest->depth; d++) {
        const struct mg_part *part = &nest->part[d];
        const struct mg_region_op *entry = mg_region_find(&regions[part->region], op);
        if (!entry)
            continue;
        uint32_t at = 0;
        while (at < count && cuts[at].axis != entry->axis)
            at++;
        cuts[at] = (struct mg_cut){entry->axis, part->lo * entry->scale, part->hi * entry->scale};
        count += at == count;
    }
    return count;
}

static void cut_box(const struct mg_axis_use *use, const struct mg_cut *cut, int64_t lo[MG_MAX_RANK],
                    struct mg_shape *shape)
{
    if (use->dim < 0)
        return;
    lo[use->dim] = cut->lo * use->unit;
    shape->dim[use->dim] = (cut->hi - cut->lo) * use->unit;
}

/* The box of a value that the operator makes (reads) as its result (operand) `slot`. */
static void nest_box(const struct mg_graph *g, const struct mg_region *regions, const struct mg_nest *nest, mg_op op,
                     bool out, uint32_t slot, int64_t lo[MG_MAX_RANK], struct mg_shape *shape)
{
    struct mg_cut cuts[MG_MAX_NEST];
    uint32_t axis_count, count = mg_nest_cuts(regions, nest, op, cuts);
    const struct mg_axis *axes = mg_op_axes(g, op, &axis_count);
    *shape = g->values[out ? g->ops[op].out[slot] : g->ops[op].in[slot]].shape;
    for (uint32_t d = 0; d < MG_MAX_RANK; d++)
        lo[d] = 0;
    for (uint32_t c = 0; c < count; c++) {
        const struct mg_axis *axis = &axes[cuts[c].axis];
        cut_box(out ? &axis->out[slot] : &axis->in[slot], &cuts[c], lo, shape);
    }
}

void mg_nest_out_box(const struct mg_graph *g, const struct mg_region *regions, const struct mg_nest *nest, mg_op op,
                     uint32_t slot, int64_t lo[MG_MAX_RANK], struct mg_shape *shape)
{
    nest_box(g, regions, nest, op, true, slot, lo, shape);
}

void mg_nest_in_box(const struct mg_graph *g, const struct mg_region *regions, const struct mg_nest *nest, mg_op op,
                    uint32_t slot, int64_t lo[MG_MAX_RANK], struct mg_shape *shape)
{
    nest_box(g, regions, nest, op, false, slot, lo, shape);
}

bool mg_region_reduces(const struct mg_graph *g, const struct mg_region *region, mg_op op, uint32_t slot)
{
    const struct mg_region_op *entry = mg_region_find(region, op);
    uint32_t axis_count;
    const struct mg_axis *axes = mg_op_axes(g, op, &axis_count);
    return entry && entry->axis < axis_count && axes[entry->axis].out[slot].dim < 0;
}
