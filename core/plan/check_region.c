/* Regions: R1 on the operators listed, lengths within parents (R11), the distinct tuples of extents, and
 * where each step stands (R2).
 *
 * All operators of a region have, at every part of the regions around it, the same number of axis units:
 * so the bounds of a part are functions of the region alone, and two boxes cut by the same (region,
 * dimension, multiple) are the same box in every part. That is what later phases compare. Extents take
 * at most two values per level, so there are at most 2^depth tuples, depth <= 8. */
#include "plan/check_priv.h"

const struct mg_region_op *mg_check_entry(const struct mg_check *c, uint32_t place, mg_op op)
{
    const struct mg_region *region = &c->plan->regions[place - 1];
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

static const struct mg_axis *axis_of(const struct mg_check *c, const struct mg_region_op *entry)
{
    uint32_t count;
    return &mg_op_axes(c->g, entry->op, &count)[entry->axis];
}

static struct mg_check_use use_of(const struct mg_axis_use *use, int64_t scale)
{
    return (struct mg_check_use){use->dim, use->dim < 0 ? 0 : use->unit * scale};
}

struct mg_check_use mg_check_operand_use(const struct mg_check *c, uint32_t place, mg_op op, uint32_t slot)
{
    const struct mg_region_op *entry = mg_check_entry(c, place, op);
    return entry ? use_of(&axis_of(c, entry)->in[slot], entry->scale) : (struct mg_check_use){-1, 0};
}

struct mg_check_use mg_check_result_use(const struct mg_check *c, uint32_t place, mg_op op, uint32_t slot)
{
    const struct mg_region_op *entry = mg_check_entry(c, place, op);
    return entry ? use_of(&axis_of(c, entry)->out[slot], entry->scale) : (struct mg_check_use){-1, 0};
}

struct mg_shape mg_check_cut(const struct mg_shape *whole, const struct mg_check_use *box, uint32_t levels,
                             const struct mg_check_tuple *tuple)
{
    struct mg_shape shape = *whole;
    for (uint32_t j = 0; j < levels; j++)
        if (box[j].dim >= 0)
            shape.dim[box[j].dim] = tuple->extent[j] * box[j].mult;
    return shape;
}

uint32_t mg_check_common(const struct mg_check *c, uint32_t a, uint32_t b)
{
    const struct mg_check_place *x = &c->places[a], *y = &c->places[b];
    uint32_t n = x->depth < y->depth ? x->depth : y->depth, i = 0;
    while (i < n && x->chain[i] == y->chain[i])
        i++;
    return i;
}

/* ---- R1: the operators of a region ---- */

static bool same_dim(const struct mg_axis_use *a, const struct mg_axis_use *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a[i].dim >= 0 && a[i].dim == b[i].dim)
            return true;
    return false;
}

/* The operator is cut on one axis twice, or on two that share no dimension. */
static bool check_ancestors(struct mg_check *c, uint32_t place, const struct mg_region_op *entry)
{
    const struct mg_check_place *p = &c->places[place];
    const struct mg_op_info *op = &c->g->ops[entry->op];
    for (uint32_t j = 0; j + 1 < p->depth; j++) {
        const struct mg_region_op *outer = mg_check_entry(c, p->chain[j], entry->op);
        MG_CHECK(outer, c, MG_NONE, "region", "region %u: operator '%.60s' is not in the enclosing region", place,
                 op->name);
        const struct mg_axis *a = axis_of(c, outer), *b = axis_of(c, entry);
        MG_CHECK(outer->axis == entry->axis ||
                     !(same_dim(a->in, b->in, op->in_count) || same_dim(a->out, b->out, op->out_count)),
                 c, MG_NONE, "axis", "region %u: two axes of '%.60s' share a dimension", place, op->name);
    }
    return true;
}

static bool check_op(struct mg_check *c, uint32_t place, uint32_t i)
{
    const struct mg_region *region = &c->plan->regions[place - 1];
    const struct mg_region_op *entry = &region->ops[i];
    MG_CHECK(entry->op < c->g->op_count, c, MG_NONE, "form", "region %u: there is no such operator", place);
    MG_CHECK(i == 0 || region->ops[i - 1].op < entry->op, c, MG_NONE, "region",
             "region %u: operators are listed once each, ascending", place);
    const struct mg_op_info *op = &c->g->ops[entry->op];
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(c->g, entry->op, &count);
    MG_CHECK(entry->axis < count, c, MG_NONE, "axis", "region %u: '%.60s' has no such axis", place, op->name);
    MG_CHECK(!axes[entry->axis].window, c, MG_NONE, "axis", "region %u: an axis of '%.60s' is a sliding window", place,
             op->name);
    MG_CHECK(entry->scale >= 1 && entry->scale <= axes[entry->axis].length, c, MG_NONE, "axis",
             "region %u: the scale of '%.60s' is impossible", place, op->name);
    MG_CHECK(mg_op_purity(c->g, entry->op) != MG_IMPURE, c, MG_NONE, "impure",
             "region %u: '%.60s' is impure and may be in no region", place, op->name);
    return check_ancestors(c, place, entry);
}

/* ---- lengths and tuples ---- */

/* Units of the region's axis for one operator at a tuple of the parent; 0 if that is no whole number. */
static int64_t length_for(const struct mg_check *c, uint32_t place, const struct mg_region_op *entry,
                          const struct mg_check_tuple *outer)
{
    const struct mg_check_place *p = &c->places[place];
    int64_t units = axis_of(c, entry)->length;
    for (uint32_t j = p->depth - 1; j-- > 0;) {
        const struct mg_region_op *around = mg_check_entry(c, p->chain[j], entry->op);
        if (around->axis == entry->axis) {
            units = outer->extent[j] * around->scale;
            break;
        }
    }
    return units % entry->scale ? 0 : units / entry->scale;
}

static bool check_length(struct mg_check *c, uint32_t place, const struct mg_check_tuple *outer, bool first,
                         int64_t *length)
{
    const struct mg_region *region = &c->plan->regions[place - 1];
    *length = length_for(c, place, &region->ops[0], outer);
    for (uint32_t i = 1; i < region->op_count; i++)
        MG_CHECK(length_for(c, place, &region->ops[i], outer) == *length, c, MG_NONE, "length",
                 "region %u: the axis of '%.60s' has another length", place, c->g->ops[region->ops[i].op].name);
    MG_CHECK(!first || *length == region->length, c, MG_NONE, "length", "region %u: the length is %lld, not %lld",
             place, (long long)*length, (long long)region->length);
    MG_CHECK(region->parts >= 2 && *length >= (int64_t)region->parts, c, MG_NONE, "parts",
             "region %u: %u parts do not fit a length of %lld", place, region->parts, (long long)*length);
    return true;
}

static bool make_tuples(struct mg_check *c, uint32_t place)
{
    struct mg_check_place *p = &c->places[place];
    uint32_t parent = p->depth > 1 ? p->chain[p->depth - 2] : 0, n = c->places[parent].tuple_count;
    int64_t parts = c->plan->regions[place - 1].parts, length;
    p->tuples = MG_NEW_ARRAY(c->arena, struct mg_check_tuple, 2 * n);
    p->first = MG_NEW_ARRAY(c->arena, uint32_t, n);
    p->parts_large = MG_NEW_ARRAY(c->arena, uint32_t, n);
    p->parts_small = MG_NEW_ARRAY(c->arena, uint32_t, n);
    for (uint32_t t = 0; t < n; t++) {
        const struct mg_check_tuple *outer = &c->places[parent].tuples[t];
        if (!check_length(c, place, outer, t == 0, &length))
            return false;
        int64_t longer = length % parts;
        p->first[t] = p->tuple_count;
        p->parts_large[t] = (uint32_t)(longer ? longer : parts);
        p->parts_small[t] = (uint32_t)(parts - p->parts_large[t]);
        for (uint32_t k = 0; k < (p->parts_small[t] ? 2u : 1u); k++) {
            struct mg_check_tuple *tuple = &p->tuples[p->tuple_count++];
            *tuple = *outer;
            tuple->extent[p->depth - 1] = length / parts + (longer && k == 0 ? 1 : 0);
            tuple->lo[p->depth - 1] = k == 0 ? 0 : (length / parts + 1) * longer;
        }
    }
    return true;
}

static bool check_region(struct mg_check *c, uint32_t place)
{
    const struct mg_region *region = &c->plan->regions[place - 1];
    struct mg_check_place *p = &c->places[place];
    uint32_t parent = region->parent == MG_NONE ? 0 : region->parent + 1;
    MG_CHECK(region->parent == MG_NONE || parent < place, c, MG_NONE, "nesting", "region %u: parents come first",
             place);
    *p = c->places[parent];
    MG_CHECK(p->depth < MG_CHECK_DEPTH, c, MG_NONE, "nesting", "region %u: regions nest too deeply", place);
    p->chain[p->depth++] = place;
    p->tuple_count = 0;
    p->begin = p->end = MG_NONE;
    MG_CHECK(region->op_count > 0 && region->op_count <= c->g->op_count && region->ops, c, MG_NONE, "region",
             "region %u has no operators, or too many", place);
    for (uint32_t i = 0; i < region->op_count; i++)
        if (!check_op(c, place, i))
            return false;
    return make_tuples(c, place);
}

/* ---- R10: weakly connected ---- */

static uint32_t find(uint32_t *parent, uint32_t x)
{
    while (parent[x] != x)
        x = parent[x] = parent[parent[x]];
    return x;
}

/* Operators of the region are joined where one reads what the other makes. `parent` is indexed by position in the
 * region's list. */
static bool check_connected(struct mg_check *c, uint32_t place)
{
    const struct mg_region *region = &c->plan->regions[place - 1];
    uint32_t *parent = MG_NEW_ARRAY(c->arena, uint32_t, region->op_count), trees = region->op_count;
    for (uint32_t i = 0; i < region->op_count; i++)
        parent[i] = i;
    for (uint32_t i = 0; i < region->op_count; i++) {
        const struct mg_op_info *op = &c->g->ops[region->ops[i].op];
        for (uint32_t k = 0; k < op->in_count; k++) {
            mg_op producer = c->g->values[op->in[k]].producer;
            const struct mg_region_op *entry = producer == MG_NONE ? NULL : mg_check_entry(c, place, producer);
            if (!entry)
                continue;
            uint32_t a = find(parent, i), b = find(parent, (uint32_t)(entry - region->ops));
            trees -= a != b;
            parent[a] = b;
        }
    }
    MG_CHECK(trees == 1, c, MG_NONE, "connected", "region %u: its operators are not connected", place);
    return true;
}

/* ---- where steps stand ---- */

static bool check_nesting(struct mg_check *c)
{
    uint32_t now = 0;
    for (uint32_t s = 0; s < c->plan->step_count; s++) {
        const struct mg_step *step = &c->plan->steps[s];
        c->home[s] = now;
        if (step->kind == MG_STEP_BEGIN) {
            const struct mg_region *region = &c->plan->regions[step->op];
            struct mg_check_place *p = &c->places[step->op + 1];
            MG_CHECK((region->parent == MG_NONE ? 0 : region->parent + 1) == now && p->begin == MG_NONE, c, s,
                     "nesting", "the region cannot begin here");
            p->begin = s;
            now = step->op + 1;
        } else if (step->kind == MG_STEP_END) {
            MG_CHECK(now == step->op + 1, c, s, "nesting", "the region is not open");
            c->places[now].end = s;
            now = c->plan->regions[step->op].parent == MG_NONE ? 0 : c->plan->regions[step->op].parent + 1;
        }
    }
    MG_CHECK(now == 0, c, MG_NONE, "nesting", "region %u is not ended", now);
    for (uint32_t r = 0; r < c->plan->region_count; r++)
        MG_CHECK(c->places[r + 1].begin != MG_NONE, c, MG_NONE, "nesting", "region %u never begins", r + 1);
    return true;
}

bool mg_check_regions(struct mg_check *c)
{
    c->places = MG_NEW_ARRAY(c->arena, struct mg_check_place, c->plan->region_count + 1);
    c->home = MG_NEW_ARRAY(c->arena, uint32_t, c->plan->step_count);
    c->places[0] = (struct mg_check_place){.tuple_count = 1, .begin = MG_NONE, .end = MG_NONE};
    c->places[0].tuples = MG_NEW(c->arena, struct mg_check_tuple);
    for (uint32_t r = 1; r <= c->plan->region_count; r++)
        if (!check_region(c, r) || !check_connected(c, r))
            return false;
    return check_nesting(c);
}
