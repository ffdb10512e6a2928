/* Order, residency and meaning: one pass over the list.
 *
 * Every compute step names an operator of the original graph, so by induction over the list an instance
 * holds its value (or the part of it that its box names) if each operand is an instance of the operand's
 * value that is alive, is the newest version, is completely written, and holds exactly the box that the
 * operator, cut by the enclosing regions, reads. Recomputations and loads make further instances of the
 * same value by the same rule, which is all that edits "remat" and "swap" may do.
 *
 * Why one look at a body stands for all parts. A box is a list of (region, dimension, multiple); the
 * bounds of part p are functions of the region and of the parts around it (check_region.c), so equal
 * lists are equal boxes in every part, and a step that is right in part 0 is right in part p. What a
 * part leaves behind outside its body is written to region outputs and to updated weights only:
 *   - a direct write or join whose box has a use in every region between the buffer and the writer
 *     covers the buffer exactly once, because the parts of each of those regions partition its axis;
 *   - where some of these regions have no use, the result is partial; acc combines the partial results
 *     of all their parts, each once, since each runs the body once, and the first of them (part 0 of
 *     all, which comes before the others in the order of parts) writes instead;
 *   - an update covers the weight exactly once by the same partition, and a reader of the weight in the
 *     regions around the update reads, in each part, what the update overwrites in that part.
 * Inside, a buffer is read only in regions that agree on the box with its writer and after those that
 * do not have ended, so never before the data is there. All else is local to a part and is freed in it.
 *
 * Linear in the plan, times the depth of regions and the logarithm of their sizes. */
#include <string.h>

#include "plan/check_priv.h"

struct host_copy {
    uint32_t place; /* whose body stored it; MG_NONE: none */
    uint32_t instance;
};
struct read_note { /* a read of a resident value inside regions */
    uint32_t place, next;
    struct mg_check_use use[MG_CHECK_DEPTH];
};
struct walk {
    struct mg_check *c;
    uint32_t at, place;
    const struct mg_step *step;
    const struct mg_check_place *here;
    struct host_copy *host; /* by value */
    uint32_t *updated;      /* by value: the step that overwrote it */
    uint32_t *notes_of;     /* by value: the last note since the outermost region began */
    uint32_t *notes_in;     /* by value: that region's begin */
    struct read_note *notes;
    size_t note_count, note_capacity;
    uint32_t *locals, *unwritten; /* by place: living instances of the body; outputs not yet written */
    bool **done;                  /* by place: operators that have run, in the order of the region's list */
    mg_op last_impure;
    bool *ran; /* by operator, impure ones only */
};

#define REFUSE_UNLESS(condition, reason, ...) MG_CHECK(condition, w->c, w->at, reason, __VA_ARGS__)

static const char *value_name(const struct walk *w, uint32_t instance)
{
    return w->c->g->values[w->c->plan->instances[instance].value].name;
}

/* ---- operands ---- */

static bool check_alive(struct walk *w, uint32_t instance)
{
    const struct mg_check *c = w->c;
    const struct mg_check_instance *x = &c->instances[mg_check_base(c, instance)];
    const char *name = value_name(w, instance);
    REFUSE_UNLESS(x->life != MG_CHECK_UNBORN, "order", "instance %u of '%.60s' is not there yet", instance, name);
    REFUSE_UNLESS(x->life != MG_CHECK_FREED, "freed", "instance %u of '%.60s' is freed", instance, name);
    mg_value root = c->g->values[c->plan->instances[instance].value].base;
    REFUSE_UNLESS(x->life != MG_CHECK_OVERWRITTEN && w->updated[root] == MG_NONE, "version",
                  "instance %u of '%.60s' is an old version, overwritten", instance, name);
    uint32_t depth = c->places[x->home].depth;
    REFUSE_UNLESS(depth == 0 || (depth <= w->here->depth && w->here->chain[depth - 1] == x->home), "scope",
                  "instance %u of '%.60s' is local to another region", instance, name);
    return true;
}

static bool same_use(struct mg_check_use a, struct mg_check_use b)
{
    return a.dim == b.dim && a.mult == b.mult;
}

/* A buffer that regions around this step still fill: what they have written so far in this part. */
static bool check_filling(struct walk *w, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    uint32_t base = mg_check_base(c, instance);
    const struct mg_check_instance *x = &c->instances[base];
    REFUSE_UNLESS(x->written, "unwritten", "region output '%.60s' is not written yet", value_name(w, instance));
    uint32_t shared = mg_check_common(c, x->writer, w->place);
    for (uint32_t j = c->places[x->home].depth; j < shared; j++) {
        struct mg_check_use use = need[j];
        REFUSE_UNLESS(x->box[j].dim >= 0, "partial", "'%.60s' is read before all parts are summed",
                      value_name(w, instance));
        REFUSE_UNLESS(mg_check_use_of_base(c, w->here->chain[j], c->plan->instances[instance].value,
                                           c->plan->instances[base].value, &use) &&
                          same_use(use, x->box[j]),
                      "axis", "'%.60s' is read on another axis than it is made", value_name(w, instance));
    }
    return true;
}

/* `need`: the uses by which the enclosing regions cut what is read. */
static bool check_content(struct walk *w, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    uint32_t base = mg_check_base(c, instance);
    const struct mg_check_instance *x = &c->instances[base];
    REFUSE_UNLESS(!x->partial, "partial", "'%.60s' is a partial sum", value_name(w, instance));
    const struct mg_check_use *box = c->instances[instance].box;
    for (uint32_t j = 0; j < c->places[x->home].depth; j++)
        REFUSE_UNLESS(same_use(need[j], box[j]), "axis", "'%.60s' is read on another axis than it is made",
                      value_name(w, instance));
    REFUSE_UNLESS(!x->update || mg_check_common(c, x->writer, w->place) == 0, "version",
                  "the new version '%.60s' is read in a region that makes it", value_name(w, instance));
    return !x->buffer || check_filling(w, instance, need);
}

static void strides_of(const struct mg_instance *instance, int64_t stride[MG_MAX_RANK])
{
    if (instance->view_of == MG_NONE)
        mg_shape_strides(&instance->shape, stride);
    else
        memcpy(stride, instance->stride, MG_MAX_RANK * sizeof *stride);
}

/* R4: decided on part 0's box. Outside regions normalisation has decided. */
static bool check_layout(struct walk *w, uint32_t slot, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    int64_t stride[MG_MAX_RANK];
    strides_of(&c->plan->instances[instance], stride);
    struct mg_shape box = mg_check_cut(&c->g->values[c->plan->instances[instance].value].shape, need, w->here->depth,
                                       &w->here->tuples[0]);
    REFUSE_UNLESS(mg_layout_contiguous(&box, stride) || mg_op_accepts_layout(c->g, w->step->op, slot, &box, stride),
                  "layout", "the part's box of '%.60s' needs a slice step", value_name(w, instance));
    return true;
}

static void note_read(struct walk *w, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    mg_value v = c->plan->instances[instance].value, root = c->g->values[v].base;
    if (c->g->values[root].updated_by == MG_NONE)
        return;
    uint32_t begin = c->places[w->here->chain[0]].begin;
    uint32_t next = w->notes_in[root] == begin ? w->notes_of[root] : MG_NONE;
    struct read_note *note = MG_PUSH(c->arena, w->notes, w->note_count, w->note_capacity);
    *note = (struct read_note){.place = w->place, .next = next};
    for (uint32_t j = 0; j < w->here->depth; j++) {
        note->use[j] = need[j];
        if (!mg_check_use_of_base(c, w->here->chain[j], v, root, &note->use[j]))
            note->use[j] = (struct mg_check_use){-1, 0};
    }
    w->notes_of[root] = (uint32_t)(w->note_count - 1);
    w->notes_in[root] = begin;
}

static bool check_operand(struct walk *w, uint32_t slot)
{
    struct mg_check *c = w->c;
    uint32_t instance = mg_check_in(c, w->step)[slot];
    const struct mg_op_info *op = &c->g->ops[w->step->op];
    REFUSE_UNLESS(c->plan->instances[instance].value == op->in[slot], "value",
                  "operand %u of '%.60s' is '%.60s', not '%.60s'", slot, op->name, value_name(w, instance),
                  c->g->values[op->in[slot]].name);
    if (!check_alive(w, instance))
        return false;
    struct mg_check_use need[MG_CHECK_DEPTH];
    for (uint32_t j = 0; j < w->here->depth; j++)
        need[j] = mg_check_operand_use(c, w->here->chain[j], w->step->op, slot);
    if (!check_content(w, instance, need))
        return false;
    if (w->here->depth == 0)
        return true;
    note_read(w, instance, need);
    return check_layout(w, slot, instance, need);
}

/* ---- birth ---- */

static bool check_shape(struct walk *w, uint32_t instance, uint32_t levels)
{
    const struct mg_check *c = w->c;
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_shape whole = c->g->values[stated->value].shape;
    struct mg_shape mine = mg_check_cut(&whole, c->instances[instance].box, levels, &w->here->tuples[0]);
    REFUSE_UNLESS(mg_shape_equal(&mine, &stated->shape), "shape", "instance %u of '%.60s' has another shape", instance,
                  value_name(w, instance));
    return true;
}

/* A new storage of the instance's own. */
static bool allocate(struct walk *w, uint32_t instance)
{
    struct mg_check *c = w->c;
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_check_storage *storage = &c->storages[stated->storage];
    REFUSE_UNLESS(storage->lower == MG_NONE, "storage", "storage %u is allocated twice", stated->storage);
    uint64_t bytes = (uint64_t)mg_shape_elements(&stated->shape) * mg_dtype_size(c->g->values[stated->value].dtype);
    REFUSE_UNLESS(c->plan->storages[stated->storage].bytes == mg_device_storage(&c->plan->device, bytes), "bytes",
                  "storage %u of '%.60s' has not %llu bytes, rounded up", stated->storage, value_name(w, instance),
                  (unsigned long long)bytes);
    storage->lower = w->at;
    storage->upper = MG_NONE;
    storage->owner = instance;
    return true;
}

static bool begin_life(struct walk *w, uint32_t instance, uint32_t home)
{
    struct mg_check *c = w->c;
    struct mg_check_instance *x = &c->instances[instance];
    REFUSE_UNLESS(c->plan->instances[instance].view_of == MG_NONE, "view", "instance %u is a view: no step makes it",
                  instance);
    REFUSE_UNLESS(x->life == MG_CHECK_UNBORN, "order", "instance %u of '%.60s' is made twice", instance,
                  value_name(w, instance));
    REFUSE_UNLESS(c->plan->instances[instance].made_by == w->at, "order", "instance %u of '%.60s' is made elsewhere",
                  instance, value_name(w, instance));
    x->life = MG_CHECK_ALIVE;
    x->born = w->at;
    x->home = home;
    x->writer = w->place;
    return true;
}

static bool check_views(struct walk *w, uint32_t instance)
{
    for (uint32_t v = w->c->instances[instance].first_view; v != MG_NONE; v = w->c->instances[v].next_view)
        if (!mg_check_view(w->c, w->at, v))
            return false;
    return true;
}

static bool check_initial(struct walk *w, uint32_t instance, bool *there)
{
    struct mg_check *c = w->c;
    mg_value v = c->plan->instances[instance].value;
    const struct mg_value_info *info = &c->g->values[v];
    MG_CHECK(info->kind != MG_KIND_COMPUTED, c, MG_NONE, "order", "instance %u of '%.60s' is made by no step", instance,
             info->name);
    MG_CHECK(info->kind == MG_KIND_INPUT || info->home == MG_HOME_DEVICE, c, MG_NONE, "residency",
             "'%.60s' is at home on the host", info->name);
    MG_CHECK(!there[v], c, MG_NONE, "residency", "'%.60s' is there twice", info->name);
    MG_CHECK(info->kind != MG_KIND_INPUT || info->reader_count || info->is_output, c, MG_NONE, "residency",
             "input '%.60s' is read by nobody", info->name);
    there[v] = true;
    c->instances[instance].life = MG_CHECK_ALIVE;
    c->instances[instance].born = MG_NONE;
    w->locals[0]++;
    return check_shape(w, instance, 0) && allocate(w, instance) && check_views(w, instance);
}

/* By value: read by a computing operator, itself or through views, or a graph output. */
static bool *find_read(const struct mg_check *c)
{
    bool *read = MG_NEW_ARRAY(c->arena, bool, c->g->value_count);
    for (mg_op op = 0; op < c->g->op_count; op++)
        for (uint32_t i = 0; i < c->g->ops[op].in_count && !c->g->ops[op].is_view; i++)
            read[c->g->values[c->g->ops[op].in[i]].base] = true;
    for (size_t i = 0; i < c->g->output_count; i++)
        read[c->g->values[c->g->outputs[i]].base] = true;
    return read;
}

static bool check_all_initial(struct walk *w)
{
    struct mg_check *c = w->c;
    bool *there = MG_NEW_ARRAY(c->arena, bool, c->g->value_count), *read = find_read(c);
    for (uint32_t i = 0; i < c->plan->instance_count; i++) {
        const struct mg_instance *instance = &c->plan->instances[i];
        if (instance->made_by == MG_NONE && instance->view_of == MG_NONE && !check_initial(w, i, there))
            return false;
    }
    for (mg_value v = 0; v < c->g->value_count; v++) {
        const struct mg_value_info *info = &c->g->values[v];
        bool wanted =
            info->kind == MG_KIND_INPUT ? read[v] : info->kind != MG_KIND_COMPUTED && info->home == MG_HOME_DEVICE;
        MG_CHECK(there[v] || !wanted, c, MG_NONE, "residency", "'%.60s' is not there before the first step",
                 info->name);
    }
    return true;
}

/* ---- results ---- */

/* Result boxes; false where an axis is absent and cannot be combined. */
static bool result_box(struct walk *w, uint32_t slot, struct mg_check_instance *x)
{
    struct mg_check *c = w->c;
    struct mg_check_use *box = MG_NEW_ARRAY(c->arena, struct mg_check_use, w->here->depth);
    for (uint32_t j = 0; j < w->here->depth; j++) {
        uint32_t count;
        const struct mg_region_op *entry = mg_check_entry(c, w->here->chain[j], w->step->op);
        box[j] = mg_check_result_use(c, w->here->chain[j], w->step->op, slot);
        if (box[j].dim >= 0)
            continue;
        x->partial = true;
        REFUSE_UNLESS(mg_op_axes(c->g, w->step->op, &count)[entry->axis].combiner != MG_COMBINE_NONE, "combiner",
                      "parts of '%.60s' cannot be combined", c->g->ops[w->step->op].name);
    }
    x->box = box;
    return true;
}

/* Levels below the buffer's home that lack a use. */
static uint32_t absent_levels(const struct walk *w, const struct mg_check_instance *buffer)
{
    uint32_t count = 0;
    for (uint32_t j = w->c->places[buffer->home].depth; j < w->here->depth; j++)
        count += buffer->box[j].dim < 0;
    return count;
}

/* The step writes (this part's box of) a buffer; `box` is what it writes. */
static bool write_buffer(struct walk *w, uint32_t buffer, const struct mg_check_use *box)
{
    struct mg_check *c = w->c;
    struct mg_check_instance *x = &c->instances[buffer];
    uint32_t depth = c->places[x->home].depth, region = c->plan->steps[x->born].op + 1;
    REFUSE_UNLESS(x->buffer && x->life == MG_CHECK_ALIVE, "output", "instance %u is no output of an open region",
                  buffer);
    REFUSE_UNLESS(depth < w->here->depth && w->here->chain[depth] == region, "output",
                  "the region of output '%.60s' is not open", value_name(w, buffer));
    REFUSE_UNLESS(!x->written, "output", "region output '%.60s' is written twice", value_name(w, buffer));
    for (uint32_t j = 0; j < depth; j++) {
        REFUSE_UNLESS(same_use(box[j], x->box[j]), "axis", "'%.60s' is written on another axis", value_name(w, buffer));
        x->partial = x->partial || box[j].dim < 0;
    }
    x->box = box;
    x->written = true;
    x->writer = w->place;
    w->unwritten[region]--;
    return true;
}

bool mg_check_box_contiguous(const struct mg_check *c, uint32_t buffer)
{
    const struct mg_instance *whole = &c->plan->instances[buffer];
    const struct mg_check_place *p = &c->places[c->instances[buffer].writer];
    int64_t stride[MG_MAX_RANK];
    mg_shape_strides(&whole->shape, stride);
    struct mg_shape box =
        mg_check_cut(&c->g->values[whole->value].shape, c->instances[buffer].box, p->depth, &p->tuples[0]);
    return mg_layout_contiguous(&box, stride);
}

static bool write_directly(struct walk *w, uint32_t slot, uint32_t buffer)
{
    struct mg_check *c = w->c;
    struct mg_check_instance result = {0};
    if (!result_box(w, slot, &result) || !write_buffer(w, buffer, result.box))
        return false;
    REFUSE_UNLESS(absent_levels(w, &c->instances[buffer]) == 0, "acc", "the parts of '%.60s' overwrite one another",
                  value_name(w, buffer));
    REFUSE_UNLESS(mg_check_box_contiguous(c, buffer), "join", "the part's box of '%.60s' is not contiguous",
                  value_name(w, buffer));
    return true;
}

/* Does every element of result 0 depend on that element of the operand alone (and not on the operand's others)? Yes
 * where each of their dimensions is an axis: cut to single elements, the operator still gives the same. */
static bool pointwise(const struct mg_graph *g, mg_op op, uint32_t slot)
{
    const struct mg_op_info *info = &g->ops[op];
    const struct mg_value_info *a = &g->values[info->in[slot]], *b = &g->values[info->out[0]];
    if (info->in_place == (int32_t)slot)
        return true;
    if (info->type == MG_OP_OPAQUE || mg_dtype_size(a->dtype) != mg_dtype_size(b->dtype) ||
        !mg_shape_equal(&a->shape, &b->shape))
        return false;
    if (mg_op_is_addend(g, op, slot))
        return true;
    uint32_t count, covered = 0, wanted = 0;
    const struct mg_axis *axes = mg_op_axes(g, op, &count);
    for (uint32_t k = 0; k < count; k++) {
        const struct mg_axis_use *in = &axes[k].in[slot], *out = &axes[k].out[0];
        if (!axes[k].window && in->dim >= 0 && in->dim == out->dim && in->unit == 1 && out->unit == 1)
            covered |= 1u << in->dim;
    }
    for (uint32_t d = 0; d < a->shape.rank; d++)
        wanted |= a->shape.dim[d] > 1 ? 1u << d : 0;
    return covered == wanted;
}

/* The operand whose storage the result takes: all operands on that storage are the same instance. */
static bool find_overwritten(struct walk *w, uint32_t storage, uint32_t *slot)
{
    const struct mg_check *c = w->c;
    const uint32_t *in = mg_check_in(c, w->step);
    *slot = MG_NONE;
    for (uint32_t i = 0; i < w->step->in_count; i++) {
        if (c->plan->instances[in[i]].storage != storage)
            continue;
        REFUSE_UNLESS(*slot == MG_NONE || in[*slot] == in[i], "in-place",
                      "a storage that is read in two ways is overwritten");
        if (*slot == MG_NONE || pointwise(c->g, w->step->op, i))
            *slot = i;
    }
    REFUSE_UNLESS(*slot != MG_NONE, "storage", "storage %u is allocated twice", storage);
    return true;
}

static bool check_readers_of_old(struct walk *w, mg_value weight, const struct mg_check_use *box)
{
    const struct mg_check *c = w->c;
    if (w->here->depth == 0 || w->notes_in[weight] != c->places[w->here->chain[0]].begin)
        return true;
    for (uint32_t n = w->notes_of[weight]; n != MG_NONE; n = w->notes[n].next) {
        uint32_t shared = mg_check_common(c, w->notes[n].place, w->place);
        for (uint32_t j = 0; j < shared; j++)
            REFUSE_UNLESS(same_use(w->notes[n].use[j], box[j]), "version",
                          "'%.60s' is read in the region other than through the slice that is updated",
                          c->g->values[weight].name);
    }
    return true;
}

/* R9, and updates outside regions. */
static bool check_update(struct walk *w, uint32_t slot, uint32_t instance)
{
    struct mg_check *c = w->c;
    struct mg_check_instance *x = &c->instances[instance];
    mg_value weight = c->g->values[c->plan->instances[instance].value].update_of;
    uint32_t old = mg_check_in(c, w->step)[slot];
    REFUSE_UNLESS(c->plan->instances[old].value == weight && c->instances[old].home == 0, "in-place",
                  "'%.60s' does not overwrite the value that it updates", value_name(w, instance));
    for (uint32_t j = 0; j < w->here->depth; j++)
        REFUSE_UNLESS(x->box[j].dim >= 0 &&
                          same_use(x->box[j], mg_check_operand_use(c, w->here->chain[j], w->step->op, slot)),
                      "axis", "the update '%.60s' does not carry the region's axis", value_name(w, instance));
    if (!check_readers_of_old(w, weight, x->box))
        return false;
    w->updated[weight] = w->at;
    x->home = 0;
    x->update = true;
    return check_shape(w, instance, 0);
}

static bool check_in_place(struct walk *w, uint32_t slot, uint32_t instance)
{
    struct mg_check *c = w->c;
    uint32_t operand = mg_check_in(c, w->step)[slot];
    const struct mg_instance *old = &c->plan->instances[operand];
    const struct mg_check_instance *base = &c->instances[mg_check_base(c, operand)];
    const char *name = value_name(w, operand);
    REFUSE_UNLESS(c->g->values[c->plan->instances[mg_check_base(c, operand)].value].kind == MG_KIND_COMPUTED,
                  "in-place", "'%.60s' is not to be overwritten", name);
    REFUSE_UNLESS(base->home == w->place, "in-place", "'%.60s' is from outside the region", name);
    REFUSE_UNLESS(pointwise(c->g, w->step->op, slot), "in-place", "'%.60s' is not elementwise on '%.60s'",
                  c->g->ops[w->step->op].name, name);
    int64_t stride[MG_MAX_RANK];
    strides_of(old, stride);
    uint64_t bytes = (uint64_t)mg_shape_elements(&old->shape) * mg_dtype_size(c->g->values[old->value].dtype);
    REFUSE_UNLESS((old->view_of == MG_NONE || old->offset == 0) && mg_layout_contiguous(&old->shape, stride) &&
                      mg_device_storage(&c->plan->device, bytes) == c->plan->storages[old->storage].bytes,
                  "in-place", "'%.60s' is a part of its storage", name);
    return check_shape(w, instance, w->here->depth);
}

static bool take_storage(struct walk *w, uint32_t result, uint32_t instance)
{
    struct mg_check *c = w->c;
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_check_storage *storage = &c->storages[stated->storage];
    uint32_t slot;
    if (!find_overwritten(w, stated->storage, &slot))
        return false;
    REFUSE_UNLESS(result == 0, "in-place", "only the first result may be in place");
    bool update = c->g->values[stated->value].update_of != MG_NONE;
    if (!(update ? check_update(w, slot, instance) : check_in_place(w, slot, instance)))
        return false;
    c->instances[storage->owner].life = MG_CHECK_OVERWRITTEN;
    storage->owner = instance;
    return true;
}

static bool check_result(struct walk *w, uint32_t slot)
{
    struct mg_check *c = w->c;
    const struct mg_op_info *op = &c->g->ops[w->step->op];
    uint32_t instance = mg_check_out(c, w->step)[slot];
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_check_instance *x = &c->instances[instance];
    REFUSE_UNLESS(stated->value == op->out[slot], "value", "result %u of '%.60s' is '%.60s', not '%.60s'", slot,
                  op->name, value_name(w, instance), c->g->values[op->out[slot]].name);
    if (x->life != MG_CHECK_UNBORN && x->buffer)
        return write_directly(w, slot, instance);
    if (!begin_life(w, instance, w->place) || !result_box(w, slot, x))
        return false;
    if (c->storages[stated->storage].lower != MG_NONE)
        return take_storage(w, slot, instance) && check_views(w, instance);
    REFUSE_UNLESS(c->g->values[stated->value].update_of == MG_NONE, "in-place",
                  "'%.60s' does not overwrite the value that it updates", value_name(w, instance));
    w->locals[w->place]++;
    return check_shape(w, instance, w->here->depth) && allocate(w, instance) && check_views(w, instance);
}

/* ---- steps ---- */

static bool check_membership(struct walk *w)
{
    struct mg_check *c = w->c;
    const struct mg_op_info *op = &c->g->ops[w->step->op];
    for (uint32_t j = 0; j < w->here->depth; j++) {
        uint32_t place = w->here->chain[j];
        const struct mg_region_op *entry = mg_check_entry(c, place, w->step->op);
        REFUSE_UNLESS(entry, "region", "'%.60s' is no operator of the region", op->name);
        w->done[place][entry - c->plan->regions[place - 1].ops] = true;
    }
    if (mg_op_purity(c->g, w->step->op) != MG_IMPURE)
        return true;
    REFUSE_UNLESS(!w->ran[w->step->op], "impure", "'%.60s' is impure and runs twice", op->name);
    REFUSE_UNLESS(w->last_impure == MG_NONE || w->last_impure < w->step->op, "impure",
                  "'%.60s' is impure and runs out of order", op->name);
    w->ran[w->step->op] = true;
    w->last_impure = w->step->op;
    return true;
}

static bool walk_compute(struct walk *w)
{
    if (!check_membership(w))
        return false;
    for (uint32_t i = 0; i < w->step->in_count; i++)
        if (!check_operand(w, i))
            return false;
    for (uint32_t i = 0; i < w->step->out_count; i++)
        if (!check_result(w, i))
            return false;
    return true;
}

/* The instance, no view, lives in the body in which the step stands. */
static bool check_own(struct walk *w, uint32_t instance)
{
    const struct mg_check *c = w->c;
    REFUSE_UNLESS(c->plan->instances[instance].view_of == MG_NONE, "view", "instance %u is a view", instance);
    if (!check_alive(w, instance))
        return false;
    REFUSE_UNLESS(c->instances[instance].home == w->place, "scope", "'%.60s' is not local to the region's body",
                  value_name(w, instance));
    return true;
}

static bool check_complete(struct walk *w, uint32_t instance)
{
    const struct mg_check_instance *x = &w->c->instances[instance];
    REFUSE_UNLESS(!x->partial, "partial", "'%.60s' is a partial sum", value_name(w, instance));
    REFUSE_UNLESS(!x->buffer || x->written, "unwritten", "'%.60s' is not written", value_name(w, instance));
    return true;
}

/* Both live in the body in which the step stands. */
static bool same_box(const struct walk *w, uint32_t a, uint32_t b)
{
    const struct mg_check_instance *all = w->c->instances;
    for (uint32_t j = 0; j < w->here->depth; j++)
        if (!same_use(all[a].box[j], all[b].box[j]))
            return false;
    return true;
}

static bool walk_store(struct walk *w)
{
    struct mg_check *c = w->c;
    uint32_t instance = mg_check_in(c, w->step)[0];
    if (!check_own(w, instance) || !check_complete(w, instance))
        return false;
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct host_copy *copy = &w->host[stated->value];
    /* S5 counts a stored value once: it must be clear with which extents. */
    REFUSE_UNLESS(copy->place == MG_NONE || (copy->place == w->place && same_box(w, copy->instance, instance)), "store",
                  "different parts of '%.60s' are stored", value_name(w, instance));
    if (copy->place == MG_NONE)
        c->verdict->figures.host_bytes +=
            (uint64_t)mg_shape_elements(&stated->shape) * mg_dtype_size(c->g->values[stated->value].dtype);
    *copy = (struct host_copy){w->place, instance};
    c->instances[instance].stored = true;
    return true;
}

/* From its home, or from the host copy that an earlier store in the same body has made. */
static bool walk_load(struct walk *w)
{
    struct mg_check *c = w->c;
    uint32_t instance = mg_check_out(c, w->step)[0];
    struct mg_check_instance *x = &c->instances[instance];
    mg_value v = c->plan->instances[instance].value;
    const struct mg_value_info *info = &c->g->values[v];
    if (w->step->in_count == 0) {
        REFUSE_UNLESS(info->kind != MG_KIND_COMPUTED && info->kind != MG_KIND_INPUT && info->home == MG_HOME_HOST,
                      "load", "'%.60s' is not at home on the host", info->name);
        REFUSE_UNLESS(w->place == 0, "scope", "'%.60s' is loaded inside a region", info->name);
    } else {
        uint32_t from = mg_check_in(c, w->step)[0];
        REFUSE_UNLESS(c->plan->instances[from].value == v, "value", "'%.60s' is loaded from a copy of another value",
                      info->name);
        REFUSE_UNLESS(c->instances[from].stored && w->host[v].place == w->place, "load",
                      "'%.60s' was not stored before, in the same body", info->name);
        x->box = c->instances[from].box;
    }
    REFUSE_UNLESS(w->updated[v] == MG_NONE, "version", "an old version of '%.60s' is loaded", info->name);
    w->locals[w->place]++;
    return begin_life(w, instance, w->place) && check_shape(w, instance, w->here->depth) && allocate(w, instance) &&
           check_views(w, instance);
}

static bool walk_free(struct walk *w)
{
    struct mg_check *c = w->c;
    uint32_t instance = mg_check_in(c, w->step)[0];
    if (!check_own(w, instance))
        return false;
    struct mg_check_storage *storage = &c->storages[c->plan->instances[instance].storage];
    storage->upper = w->at;
    c->instances[instance].life = MG_CHECK_FREED;
    w->locals[w->place]--;
    return true;
}

static bool walk_begin(struct walk *w)
{
    struct mg_check *c = w->c;
    uint32_t place = w->step->op + 1;
    for (uint32_t i = 0; i < w->step->out_count; i++) {
        uint32_t instance = mg_check_out(c, w->step)[i];
        const struct mg_value_info *v = &c->g->values[c->plan->instances[instance].value];
        REFUSE_UNLESS(v->producer != MG_NONE && mg_check_entry(c, place, v->producer) && v->update_of == MG_NONE &&
                          !c->g->ops[v->producer].is_view,
                      "output", "'%.60s' is not made in the region", v->name);
        if (!begin_life(w, instance, w->place))
            return false;
        struct mg_check_use *box = MG_NEW_ARRAY(c->arena, struct mg_check_use, w->here->depth);
        for (uint32_t j = 0; j < w->here->depth; j++)
            box[j] = mg_check_result_use(c, w->here->chain[j], v->producer, v->slot);
        c->instances[instance].box = box;
        c->instances[instance].buffer = true;
        w->locals[w->place]++;
        w->unwritten[place]++;
        if (!check_shape(w, instance, w->here->depth) || !allocate(w, instance) || !check_views(w, instance))
            return false;
    }
    w->done[place] = MG_NEW_ARRAY(c->arena, bool, c->plan->regions[place - 1].op_count);
    return true;
}

static bool walk_end(struct walk *w)
{
    struct mg_check *c = w->c;
    const struct mg_region *region = &c->plan->regions[w->step->op];
    uint32_t place = w->step->op + 1;
    REFUSE_UNLESS(w->locals[place] == 0, "leak", "something local to a part outlives it");
    REFUSE_UNLESS(w->unwritten[place] == 0, "unwritten", "an output of region %u is not written", place);
    for (uint32_t i = 0; i < region->op_count; i++)
        REFUSE_UNLESS(w->done[place][i] || c->g->ops[region->ops[i].op].is_view, "region",
                      "operator '%.60s' does not run in region %u", c->g->ops[region->ops[i].op].name, place);
    return true;
}

/* The box is that of the first reader, as cut by the regions around this step; all others must agree. */
static bool walk_slice(struct walk *w)
{
    struct mg_check *c = w->c;
    uint32_t from = mg_check_in(c, w->step)[0], to = mg_check_out(c, w->step)[0];
    struct mg_check_instance *x = &c->instances[to];
    REFUSE_UNLESS(w->place != 0, "slice", "a slice step stands inside a region");
    REFUSE_UNLESS(c->plan->instances[from].value == c->plan->instances[to].value, "value",
                  "a slice of '%.60s' is called '%.60s'", value_name(w, from), value_name(w, to));
    if (!check_alive(w, from))
        return false;
    REFUSE_UNLESS(c->instances[mg_check_base(c, from)].home != w->place, "slice", "'%.60s' is local to the body",
                  value_name(w, from));
    REFUSE_UNLESS(x->reader != MG_NONE, "slice", "the slice of '%.60s' is never read", value_name(w, to));
    struct mg_check_use *box = MG_NEW_ARRAY(c->arena, struct mg_check_use, w->here->depth);
    mg_value read = c->plan->instances[x->reader_as].value;
    for (uint32_t j = 0; j < w->here->depth; j++) {
        struct mg_check_use use =
            mg_check_operand_use(c, w->here->chain[j], c->plan->steps[x->reader].op, x->reader_slot);
        bool whole = use.dim < 0;
        bool carried = mg_check_use_of_base(c, w->here->chain[j], read, c->plan->instances[to].value, &use);
        REFUSE_UNLESS(carried || whole, "axis", "views of the slice of '%.60s' do not carry the region's axis",
                      value_name(w, to));
        box[j] = carried ? use : (struct mg_check_use){-1, 0};
    }
    if (!check_content(w, from, box))
        return false;
    note_read(w, from, box);
    x->box = box;
    w->locals[w->place]++;
    return begin_life(w, to, w->place) && check_shape(w, to, w->here->depth) && allocate(w, to) && check_views(w, to);
}

static bool check_pair(struct walk *w)
{
    struct mg_check *c = w->c;
    const uint32_t *in = mg_check_in(c, w->step);
    REFUSE_UNLESS(w->place != 0, "output", "no region is open");
    REFUSE_UNLESS(c->plan->instances[in[0]].value == c->plan->instances[in[1]].value, "value",
                  "a part of '%.60s' is written to '%.60s'", value_name(w, in[0]), value_name(w, in[1]));
    REFUSE_UNLESS(c->plan->instances[in[1]].view_of == MG_NONE && c->instances[in[1]].buffer, "output",
                  "instance %u is no region output", in[1]);
    return check_own(w, in[0]) && write_buffer(w, in[1], c->instances[in[0]].box);
}

static bool walk_join(struct walk *w)
{
    struct mg_check *c = w->c;
    uint32_t local = mg_check_in(c, w->step)[0], buffer = mg_check_in(c, w->step)[1];
    if (!check_pair(w) || !check_complete(w, local))
        return false;
    REFUSE_UNLESS(absent_levels(w, &c->instances[buffer]) == 0, "acc", "the parts of '%.60s' overwrite one another",
                  value_name(w, buffer));
    return true;
}

static bool check_combiner(struct walk *w, mg_value value, const struct mg_check_instance *buffer)
{
    const struct mg_check *c = w->c;
    mg_op op = c->g->values[value].producer;
    enum mg_combiner combiner = MG_COMBINE_NONE;
    for (uint32_t j = c->places[buffer->home].depth; j < w->here->depth; j++) {
        uint32_t count;
        if (buffer->box[j].dim >= 0)
            continue;
        uint32_t axis = mg_check_entry(c, w->here->chain[j], op)->axis;
        enum mg_combiner here = mg_op_axes(c->g, op, &count)[axis].combiner;
        REFUSE_UNLESS(here != MG_COMBINE_NONE && (combiner == MG_COMBINE_NONE || combiner == here), "combiner",
                      "parts of '%.60s' cannot be combined", c->g->values[value].name);
        combiner = here;
    }
    return true;
}

static bool walk_acc(struct walk *w)
{
    struct mg_check *c = w->c;
    uint32_t local = mg_check_in(c, w->step)[0], buffer = mg_check_in(c, w->step)[1];
    if (!check_pair(w))
        return false;
    REFUSE_UNLESS(c->plan->numerics != MG_NUMERICS_EXACT, "numerics", "exact numerics forbid splitting a sum");
    REFUSE_UNLESS(c->instances[local].partial && !c->instances[local].buffer &&
                      absent_levels(w, &c->instances[buffer]) > 0,
                  "acc", "'%.60s' is no partial sum", value_name(w, local));
    const struct mg_step *next = w->at + 1 < c->plan->step_count ? &c->plan->steps[w->at + 1] : NULL;
    REFUSE_UNLESS(next && next->kind == MG_STEP_FREE && mg_check_in(c, next)[0] == local, "acc",
                  "the temporary '%.60s' is not freed right after", value_name(w, local));
    return check_combiner(w, c->plan->instances[local].value, &c->instances[buffer]);
}

static bool walk_step(struct walk *w)
{
    switch (w->step->kind) {
    case MG_STEP_COMPUTE:
        return walk_compute(w);
    case MG_STEP_STORE:
        return walk_store(w);
    case MG_STEP_LOAD:
        return walk_load(w);
    case MG_STEP_FREE:
        return walk_free(w);
    case MG_STEP_BEGIN:
        return walk_begin(w);
    case MG_STEP_END:
        return walk_end(w);
    case MG_STEP_SLICE:
        return walk_slice(w);
    case MG_STEP_JOIN:
        return walk_join(w);
    case MG_STEP_ACC:
        return walk_acc(w);
    }
    return false;
}

/* ---- before and after ---- */

static void find_readers(struct mg_check *c)
{
    for (uint32_t s = 0; s < c->plan->step_count; s++) {
        const struct mg_step *step = &c->plan->steps[s];
        if (step->kind != MG_STEP_COMPUTE)
            continue;
        for (uint32_t i = 0; i < step->in_count; i++) {
            uint32_t instance = mg_check_in(c, step)[i];
            struct mg_check_instance *x = &c->instances[mg_check_base(c, instance)];
            if (x->reader != MG_NONE)
                continue;
            x->reader = s;
            x->reader_slot = i;
            x->reader_as = instance;
        }
    }
}

/* By value: an instance of it that is alive and complete outside regions. */
static bool *present(const struct mg_check *c)
{
    bool *there = MG_NEW_ARRAY(c->arena, bool, c->g->value_count);
    for (uint32_t i = 0; i < c->plan->instance_count; i++) {
        const struct mg_check_instance *x = &c->instances[i];
        if (c->plan->instances[i].view_of == MG_NONE && x->life == MG_CHECK_ALIVE && x->home == 0)
            there[c->plan->instances[i].value] = true;
    }
    return there;
}

static bool check_ends(struct walk *w)
{
    struct mg_check *c = w->c;
    bool *there = present(c);
    for (uint32_t i = 0; i < c->plan->instance_count; i++)
        MG_CHECK(c->instances[mg_check_base(c, i)].life != MG_CHECK_UNBORN, c, MG_NONE, "order",
                 "instance %u of '%.60s' is never made", i, value_name(w, i));
    for (size_t i = 0; i < c->g->output_count; i++) {
        mg_value base = c->g->values[c->g->outputs[i]].base;
        MG_CHECK(there[base], c, MG_NONE, "output", "graph output '%.60s' is not there at the end",
                 c->g->values[c->g->outputs[i]].name);
    }
    for (mg_value v = 0; v < c->g->value_count; v++) {
        const struct mg_value_info *info = &c->g->values[v];
        if (info->kind == MG_KIND_COMPUTED || info->kind == MG_KIND_INPUT)
            continue;
        mg_value latest = info->updated_by == MG_NONE ? v : info->updated_by;
        MG_CHECK(latest == v || w->updated[v] != MG_NONE, c, MG_NONE, "output", "'%.60s' is not updated", info->name);
        bool kept = info->home == MG_HOME_DEVICE ? there[latest] : latest == v || w->host[latest].place == 0;
        MG_CHECK(kept, c, MG_NONE, "residency", "the latest version of '%.60s' is not at home at the end", info->name);
    }
    for (mg_op op = 0; op < c->g->op_count; op++)
        MG_CHECK(w->ran[op] || mg_op_purity(c->g, op) != MG_IMPURE, c, MG_NONE, "impure", "'%.60s' never runs",
                 c->g->ops[op].name);
    return true;
}

static uint32_t *none(const struct mg_check *c, size_t count)
{
    uint32_t *array = MG_NEW_ARRAY(c->arena, uint32_t, count);
    memset(array, 0xff, count * sizeof *array);
    return array;
}

static void start(struct walk *w)
{
    struct mg_check *c = w->c;
    size_t values = c->g->value_count, places = c->plan->region_count + 1;
    w->host = MG_NEW_ARRAY(c->arena, struct host_copy, values);
    for (size_t v = 0; v < values; v++)
        w->host[v].place = MG_NONE;
    w->updated = none(c, values);
    w->notes_of = none(c, values);
    w->notes_in = none(c, values);
    w->locals = MG_NEW_ARRAY(c->arena, uint32_t, places);
    w->unwritten = MG_NEW_ARRAY(c->arena, uint32_t, places);
    w->done = MG_NEW_ARRAY(c->arena, bool *, places);
    w->ran = MG_NEW_ARRAY(c->arena, bool, c->g->op_count);
    w->last_impure = MG_NONE;
    c->storages = MG_NEW_ARRAY(c->arena, struct mg_check_storage, c->plan->storage_count);
    for (size_t s = 0; s < c->plan->storage_count; s++)
        c->storages[s].lower = MG_NONE;
}

bool mg_check_walk(struct mg_check *c)
{
    struct walk w = {.c = c, .here = &c->places[0]};
    start(&w);
    find_readers(c);
    if (!check_all_initial(&w))
        return false;
    for (w.at = 0; w.at < c->plan->step_count; w.at++) {
        w.step = &c->plan->steps[w.at];
        w.place = c->home[w.at];
        if (w.step->kind == MG_STEP_END)
            w.place = 0; /* not used: an end names its region */
        w.here = &c->places[w.place];
        if (!walk_step(&w))
            return false;
    }
    return check_ends(&w);
}
