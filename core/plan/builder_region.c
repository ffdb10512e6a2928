/* The plan builder inside regions: outputs and how they are reached (R5, R6), operands from outside
 * and their slices (R4). Boxes are those of part 0, which is the largest. */
#include <stdlib.h>
#include <string.h>

#include "plan/builder_priv.h"

static int compare_region_ops(const void *a, const void *b)
{
    mg_op x = ((const struct mg_region_op *)a)->op, y = ((const struct mg_region_op *)b)->op;
    return (x > y) - (x < y);
}

static bool region_fits(struct mg_plan_builder *b, uint32_t parent, int64_t length, uint32_t parts,
                        const struct mg_region_op *ops, uint32_t op_count)
{
    uint32_t chain[MG_MAX_NEST];
    if (parent != MG_NONE && parent >= b->region_count)
        mg_builder_fail(b, "region %zu has no parent %u", b->region_count, parent);
    else if (parts < 2 || (int64_t)parts > length)
        mg_builder_fail(b, "%u parts do not fit a length of %lld", parts, (long long)length);
    else if (!op_count)
        mg_builder_fail(b, "a region without operators");
    else if (mg_region_chain(b->regions, parent, chain) >= MG_MAX_NEST)
        mg_builder_fail(b, "regions nest too deeply");
    for (uint32_t i = 0; i < op_count && !mg_builder_failed(b); i++) {
        uint32_t axis_count;
        (void)mg_op_axes(b->g, ops[i].op, &axis_count);
        if (ops[i].axis >= axis_count || ops[i].scale < 1)
            mg_builder_fail(b, "operator %s has no axis %u to split", b->g->ops[ops[i].op].name, ops[i].axis);
    }
    return !mg_builder_failed(b);
}

uint32_t mg_plan_builder_region(struct mg_plan_builder *b, uint32_t parent, int64_t length, uint32_t parts,
                                const struct mg_region_op *ops, uint32_t op_count)
{
    if (mg_builder_failed(b) || !region_fits(b, parent, length, parts, ops, op_count))
        return MG_NONE;
    struct mg_region_op *sorted = mg_arena_copy(b->arena, ops, op_count * sizeof *ops);
    qsort(sorted, op_count, sizeof *sorted, compare_region_ops);
    uint32_t region = (uint32_t)b->region_count;
    *MG_PUSH(b->arena, b->regions, b->region_count, b->region_capacity) =
        (struct mg_region){.parent = parent, .length = length, .parts = parts, .ops = sorted, .op_count = op_count};
    struct mg_tuples *tuples = MG_PUSH(b->arena, b->tuples, b->tuple_count, b->tuple_capacity);
    tuples->nests = mg_nest_tuples(b->regions, region, b->arena, &tuples->count);
    return region;
}

/* ---- outputs ---- */
static bool read_outside(const struct mg_graph *g, const struct mg_region *region, mg_value base)
{
    for (mg_value v = base; v < g->value_count; v++) {
        const struct mg_value_info *info = &g->values[v];
        if (info->base != base)
            continue;
        if (info->is_output)
            return true;
        for (uint32_t r = 0; r < info->reader_count; r++)
            if (!g->ops[info->readers[r]].is_view && !mg_region_find(region, info->readers[r]))
                return true;
    }
    return false;
}

uint32_t mg_plan_builder_region_outputs(struct mg_plan_builder *b, uint32_t region, const mg_value **values)
{
    *values = NULL;
    if (mg_builder_failed(b))
        return 0;
    const struct mg_region *r = &b->regions[region];
    mg_value *list = NULL;
    size_t count = 0, capacity = 0;
    for (uint32_t i = 0; i < r->op_count; i++) {
        const struct mg_op_info *op = &b->g->ops[r->ops[i].op];
        for (uint32_t o = 0; o < op->out_count; o++) {
            mg_value v = op->out[o];
            if (b->g->values[v].base != v || b->g->values[v].update_of != MG_NONE || !read_outside(b->g, r, v) ||
                (r->parent != MG_NONE && read_outside(b->g, &b->regions[r->parent], v)))
                continue;
            *MG_PUSH(b->arena, list, count, capacity) = v;
        }
    }
    *values = list;
    return (uint32_t)count;
}

void mg_plan_builder_begin(struct mg_plan_builder *b, uint32_t region, const mg_value *outputs, uint32_t count,
                           uint32_t *outs)
{
    if (!mg_builder_failed(b) && (region >= b->region_count || b->regions[region].parent != b->open))
        mg_builder_fail(b, "region %u cannot begin here", region);
    if (mg_builder_failed(b)) {
        memset(outs, 0xff, count * sizeof *outs);
        return;
    }
    struct mg_nest nest;
    mg_nest_first(b->regions, b->open, &nest);
    uint32_t made_by = (uint32_t)b->step_count;
    struct mg_step *step = mg_builder_push_step(b, MG_STEP_BEGIN, region);
    step->out_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct mg_value_info *info = &b->g->values[outputs[i]];
        struct mg_shape shape;
        int64_t lo[MG_MAX_RANK];
        mg_nest_out_box(b->g, b->regions, &nest, info->producer, info->slot, lo, &shape);
        outs[i] = mg_builder_new_instance(b, outputs[i], &shape, made_by, b->open);
        b->built[outs[i]].begun_by = region;
        b->open_output[outputs[i]] = outs[i];
        mg_builder_push_ref(b, outs[i]);
    }
    b->steps[made_by].price = (uint32_t)b->ref_count;
    b->open = region;
}

static void check_outputs_written(struct mg_plan_builder *b, uint32_t region)
{
    for (size_t i = b->instance_count; i-- > 0;)
        if (b->built[i].begun_by == region && !b->built[i].written && b->instances[i].view_of == MG_NONE)
            mg_builder_fail(b, "region %u never makes its output %s", region, b->g->values[b->instances[i].value].name);
}

void mg_plan_builder_end(struct mg_plan_builder *b, uint32_t region)
{
    if (mg_builder_failed(b))
        return;
    if (region != b->open) {
        mg_builder_fail(b, "region %u is not open", region);
        return;
    }
    check_outputs_written(b, region);
    mg_builder_push_step(b, MG_STEP_END, region);
    b->open = b->regions[region].parent;
}

/* Is the result without the axis of any region, from the innermost open one out to that which began it? */
static bool reduced(const struct mg_plan_builder *b, uint32_t whole)
{
    const struct mg_value_info *info = &b->g->values[b->instances[whole].value];
    uint32_t outermost = b->built[whole].begun_by;
    for (uint32_t r = b->open; r != MG_NONE; r = b->regions[r].parent) {
        if (mg_region_reduces(b->g, &b->regions[r], info->producer, info->slot))
            return true;
        if (r == outermost)
            break;
    }
    return false;
}

static void produced_box(const struct mg_plan_builder *b, const struct mg_nest *nest, mg_value value,
                         struct mg_shape *box)
{
    int64_t lo[MG_MAX_RANK];
    const struct mg_value_info *info = &b->g->values[value];
    mg_nest_out_box(b->g, b->regions, nest, info->producer, info->slot, lo, box);
}

static bool box_contiguous(const struct mg_plan_builder *b, uint32_t whole)
{
    struct mg_nest nest;
    struct mg_shape box;
    mg_nest_first(b->regions, b->open, &nest);
    produced_box(b, &nest, b->instances[whole].value, &box);
    return mg_layout_contiguous(&box, b->instances[whole].stride);
}

enum mg_output_mode mg_plan_builder_output_mode(struct mg_plan_builder *b, uint32_t whole)
{
    if (!mg_builder_usable(b, whole) || b->built[whole].begun_by == MG_NONE)
        return MG_OUTPUT_DIRECT;
    if (reduced(b, whole))
        return MG_OUTPUT_ACC;
    return box_contiguous(b, whole) ? MG_OUTPUT_DIRECT : MG_OUTPUT_JOIN;
}

static void push_box_prices(struct mg_plan_builder *b, const char *name, mg_value value)
{
    const struct mg_tuples *tuples = mg_builder_tuples(b);
    for (uint32_t t = 0; t < tuples->count; t++) {
        struct mg_shape box;
        produced_box(b, &tuples->nests[t], value, &box);
        mg_builder_push_ref(b, mg_price_copy(&b->table, &b->device, name, b->g->values[value].dtype, &box, b->arena));
    }
}

static bool can_combine(struct mg_plan_builder *b, uint32_t local, uint32_t whole)
{
    if (!mg_builder_usable(b, local) || !mg_builder_usable(b, whole))
        return false;
    if (b->built[whole].begun_by == MG_NONE || b->instances[local].value != b->instances[whole].value ||
        b->built[local].scope != b->open)
        mg_builder_fail(b, "instance %u cannot be put into instance %u", local, whole);
    return !mg_builder_failed(b);
}

static void push_combine(struct mg_plan_builder *b, enum mg_step_kind kind, uint32_t local, uint32_t whole)
{
    mg_value value = b->instances[whole].value;
    struct mg_step *step = mg_builder_push_step(b, kind, MG_NONE);
    step->in = mg_builder_push_ref(b, local);
    mg_builder_push_ref(b, whole);
    step->in_count = 2;
    step->out = step->price = (uint32_t)b->ref_count;
    push_box_prices(b, kind == MG_STEP_ACC ? "acc" : "join", value);
    if (kind == MG_STEP_ACC && !box_contiguous(b, whole))
        push_box_prices(b, "join", value);
    step->price_count = (uint32_t)b->ref_count - step->price;
    b->built[whole].written = true;
    b->open_output[value] = MG_NONE;
}

void mg_plan_builder_join(struct mg_plan_builder *b, uint32_t local, uint32_t whole)
{
    if (can_combine(b, local, whole))
        push_combine(b, MG_STEP_JOIN, local, whole);
}

void mg_plan_builder_acc(struct mg_plan_builder *b, uint32_t temporary, uint32_t whole)
{
    if (can_combine(b, temporary, whole))
        push_combine(b, MG_STEP_ACC, temporary, whole);
}

/* ---- running an operator ---- */
static void deliver(struct mg_plan_builder *b, enum mg_output_mode mode, uint32_t whole, uint32_t *out)
{
    if (mode == MG_OUTPUT_JOIN)
        mg_plan_builder_join(b, *out, whole);
    if (mode != MG_OUTPUT_ACC)
        return;
    mg_plan_builder_acc(b, *out, whole);
    mg_plan_builder_free(b, *out);
    *out = whole;
}

void mg_plan_builder_run(struct mg_plan_builder *b, mg_op op, const uint32_t *in, uint32_t *out)
{
    const struct mg_op_info *info = &b->g->ops[op];
    uint32_t *whole = MG_NEW_ARRAY(b->arena, uint32_t, info->out_count);
    enum mg_output_mode *mode = MG_NEW_ARRAY(b->arena, enum mg_output_mode, info->out_count);
    for (uint32_t i = 0; i < info->out_count; i++) {
        whole[i] = b->open_output[info->out[i]];
        mode[i] = whole[i] == MG_NONE ? MG_OUTPUT_DIRECT : mg_plan_builder_output_mode(b, whole[i]);
        out[i] = mode[i] == MG_OUTPUT_DIRECT ? whole[i] : MG_NONE;
    }
    mg_plan_builder_compute(b, op, in, out);
    for (uint32_t i = 0; i < info->out_count && !mg_builder_failed(b); i++)
        deliver(b, mode[i], whole[i], &out[i]);
}

/* ---- operands from outside ---- */
static bool in_nested_region(const struct mg_plan_builder *b, mg_op op)
{
    for (uint32_t r = 0; r < b->region_count; r++)
        if (b->regions[r].parent == b->open && mg_region_find(&b->regions[r], op))
            return true;
    return false;
}

static bool same_box(const int64_t *lo_a, const struct mg_shape *a, const int64_t *lo_b, const struct mg_shape *b)
{
    return mg_shape_equal(a, b) && !memcmp(lo_a, lo_b, a->rank * sizeof *lo_a);
}

/* Do all readers, in this body, of the same box of the value accept it strided (R4)? */
static bool readers_accept(const struct mg_plan_builder *b, const struct mg_nest *nest, uint32_t instance,
                           const int64_t *lo, const struct mg_shape *box)
{
    const struct mg_instance *from = &b->instances[instance];
    const struct mg_value_info *info = &b->g->values[from->value];
    for (uint32_t r = 0; r < info->reader_count; r++) {
        mg_op reader = info->readers[r];
        const struct mg_op_info *op = &b->g->ops[reader];
        if (op->is_view || !mg_region_find(&b->regions[b->open], reader) || in_nested_region(b, reader))
            continue;
        for (uint32_t i = 0; i < op->in_count; i++) {
            struct mg_shape other;
            int64_t at[MG_MAX_RANK];
            if (op->in[i] != from->value)
                continue;
            mg_nest_in_box(b->g, b->regions, nest, reader, i, at, &other);
            if (same_box(lo, box, at, &other) && !mg_op_accepts_layout(b->g, reader, i, box, from->stride))
                return false;
        }
    }
    return true;
}

static void push_slice_prices(struct mg_plan_builder *b, mg_op op, uint32_t slot)
{
    const struct mg_tuples *tuples = mg_builder_tuples(b);
    enum mg_dtype dtype = b->g->values[b->g->ops[op].in[slot]].dtype;
    for (uint32_t t = 0; t < tuples->count; t++) {
        struct mg_shape box;
        int64_t lo[MG_MAX_RANK];
        mg_nest_in_box(b->g, b->regions, &tuples->nests[t], op, slot, lo, &box);
        mg_builder_push_ref(b, mg_price_copy(&b->table, &b->device, "slice", dtype, &box, b->arena));
    }
}

static uint32_t push_slice(struct mg_plan_builder *b, mg_op op, uint32_t slot, uint32_t from, const int64_t *lo,
                           const struct mg_shape *box)
{
    mg_value value = b->instances[from].value;
    uint32_t local = mg_builder_new_instance(b, value, box, (uint32_t)b->step_count, b->open);
    struct mg_step *step = mg_builder_push_step(b, MG_STEP_SLICE, MG_NONE);
    step->in = mg_builder_push_ref(b, from);
    step->out = mg_builder_push_ref(b, local);
    step->in_count = step->out_count = 1;
    step->price = (uint32_t)b->ref_count;
    push_slice_prices(b, op, slot);
    step->price_count = (uint32_t)b->ref_count - step->price;
    struct mg_built_slice *slice = MG_PUSH(b->arena, b->slices, b->slice_count, b->slice_capacity);
    *slice = (struct mg_built_slice){.from = from, .region = b->open, .local = local, .shape = *box};
    memcpy(slice->lo, lo, sizeof slice->lo);
    return local;
}

static uint32_t find_slice(const struct mg_plan_builder *b, uint32_t from, const int64_t *lo,
                           const struct mg_shape *box)
{
    for (size_t i = b->slice_count; i-- > 0;) {
        const struct mg_built_slice *s = &b->slices[i];
        if (s->from == from && s->region == b->open && !b->freed[b->instances[s->local].storage] &&
            same_box(lo, box, s->lo, &s->shape))
            return s->local;
    }
    return MG_NONE;
}

/* R9: a declared update writes the slice of the resident storage itself. */
static bool updates_operand(const struct mg_graph *g, mg_op op, mg_value value)
{
    for (uint32_t i = 0; i < g->ops[op].out_count; i++)
        if (g->values[g->ops[op].out[i]].update_of == value)
            return true;
    return false;
}

uint32_t mg_plan_builder_operand(struct mg_plan_builder *b, mg_op op, uint32_t slot, uint32_t instance)
{
    mg_value value = b->g->ops[op].in[slot];
    uint32_t from = mg_builder_resolve(b, instance, value);
    if (from == MG_NONE || b->open == MG_NONE || b->built[from].scope == b->open || updates_operand(b->g, op, value))
        return from;
    struct mg_nest nest;
    struct mg_shape box;
    int64_t lo[MG_MAX_RANK];
    mg_nest_first(b->regions, b->open, &nest);
    mg_nest_in_box(b->g, b->regions, &nest, op, slot, lo, &box);
    if (mg_shape_equal(&box, &b->instances[from].shape) || mg_layout_contiguous(&box, b->instances[from].stride) ||
        readers_accept(b, &nest, from, lo, &box))
        return from;
    uint32_t shared = find_slice(b, from, lo, &box);
    return shared != MG_NONE ? shared : push_slice(b, op, slot, from, lo, &box);
}

bool mg_plan_builder_is_local(const struct mg_plan_builder *b, uint32_t instance)
{
    return instance < b->instance_count && b->open != MG_NONE && b->built[instance].scope == b->open;
}
