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
 * Here stand the walk and what every kind of step does; what steps read is judged in check_read.c, what they
 * write in check_write.c and check_in_place.c, how storages begin and what must be there at the ends in
 * check_life.c.
 *
 * Linear in the plan, times the depth of regions and the logarithm of their sizes. */
#include <string.h>

#include "plan/check_walk.h"

/* ---- steps ---- */

static bool check_membership(struct mg_check_walk *w)
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

static bool walk_compute(struct mg_check_walk *w)
{
    if (!check_membership(w))
        return false;
    for (uint32_t i = 0; i < w->step->in_count; i++)
        if (!mg_check_operand(w, i))
            return false;
    for (uint32_t i = 0; i < w->step->out_count; i++)
        if (!mg_check_result(w, i))
            return false;
    return true;
}

/* The instance, no view, lives in the body in which the step stands. */
static bool check_own(struct mg_check_walk *w, uint32_t instance)
{
    const struct mg_check *c = w->c;
    REFUSE_UNLESS(c->plan->instances[instance].view_of == MG_NONE, "view", "instance %u is a view", instance);
    if (!mg_check_alive(w, instance))
        return false;
    REFUSE_UNLESS(c->instances[instance].home == w->place, "scope", "'%.60s' is not local to the region's body",
                  mg_check_name_of(w, instance));
    return true;
}

static bool check_complete(struct mg_check_walk *w, uint32_t instance)
{
    const struct mg_check_instance *x = &w->c->instances[instance];
    REFUSE_UNLESS(!x->partial, "partial", "'%.60s' is a partial sum", mg_check_name_of(w, instance));
    REFUSE_UNLESS(!x->buffer || x->written, "unwritten", "'%.60s' is not written", mg_check_name_of(w, instance));
    return true;
}

/* Both live in the body in which the step stands. */
static bool same_box(const struct mg_check_walk *w, uint32_t a, uint32_t b)
{
    const struct mg_check_instance *all = w->c->instances;
    for (uint32_t j = 0; j < w->here->depth; j++)
        if (!mg_check_same_use(all[a].box[j], all[b].box[j]))
            return false;
    return true;
}

static bool walk_store(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    uint32_t instance = mg_check_in(c, w->step)[0];
    if (!check_own(w, instance) || !check_complete(w, instance))
        return false;
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_check_copy *copy = &w->host[stated->value];
    /* S5 counts a stored value once: it must be clear with which extents. */
    REFUSE_UNLESS(copy->place == MG_NONE || (copy->place == w->place && same_box(w, copy->instance, instance)), "store",
                  "different parts of '%.60s' are stored", mg_check_name_of(w, instance));
    if (copy->place == MG_NONE)
        c->verdict->figures.host_bytes +=
            (uint64_t)mg_shape_elements(&stated->shape) * mg_dtype_size(c->g->values[stated->value].dtype);
    *copy = (struct mg_check_copy){w->place, instance};
    c->instances[instance].stored = true;
    return true;
}

/* From its home, or from the host copy that an earlier store in the same body has made. */
static bool walk_load(struct mg_check_walk *w)
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
    return mg_check_begin_life(w, instance, w->place) && mg_check_shape(w, instance, w->here->depth) &&
           mg_check_allocate(w, instance) && mg_check_views(w, instance);
}

static bool walk_free(struct mg_check_walk *w)
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

static bool walk_begin(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    uint32_t place = w->step->op + 1;
    for (uint32_t i = 0; i < w->step->out_count; i++) {
        uint32_t instance = mg_check_out(c, w->step)[i];
        const struct mg_value_info *v = &c->g->values[c->plan->instances[instance].value];
        REFUSE_UNLESS(v->producer != MG_NONE && mg_check_entry(c, place, v->producer) && v->update_of == MG_NONE &&
                          !c->g->ops[v->producer].is_view,
                      "output", "'%.60s' is not made in the region", v->name);
        if (!mg_check_begin_life(w, instance, w->place))
            return false;
        struct mg_check_use *box = MG_NEW_ARRAY(c->arena, struct mg_check_use, w->here->depth);
        for (uint32_t j = 0; j < w->here->depth; j++)
            box[j] = mg_check_result_use(c, w->here->chain[j], v->producer, v->slot);
        c->instances[instance].box = box;
        c->instances[instance].buffer = true;
        w->locals[w->place]++;
        w->unwritten[place]++;
        if (!mg_check_shape(w, instance, w->here->depth) || !mg_check_allocate(w, instance) ||
            !mg_check_views(w, instance))
            return false;
    }
    w->done[place] = MG_NEW_ARRAY(c->arena, bool, c->plan->regions[place - 1].op_count);
    return true;
}

static bool walk_end(struct mg_check_walk *w)
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
static bool walk_slice(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    uint32_t from = mg_check_in(c, w->step)[0], to = mg_check_out(c, w->step)[0];
    struct mg_check_instance *x = &c->instances[to];
    REFUSE_UNLESS(w->place != 0, "slice", "a slice step stands inside a region");
    REFUSE_UNLESS(c->plan->instances[from].value == c->plan->instances[to].value, "value",
                  "a slice of '%.60s' is called '%.60s'", mg_check_name_of(w, from), mg_check_name_of(w, to));
    if (!mg_check_alive(w, from))
        return false;
    REFUSE_UNLESS(c->instances[mg_check_base(c, from)].home != w->place, "slice", "'%.60s' is local to the body",
                  mg_check_name_of(w, from));
    REFUSE_UNLESS(x->reader != MG_NONE, "slice", "the slice of '%.60s' is never read", mg_check_name_of(w, to));
    struct mg_check_use *box = MG_NEW_ARRAY(c->arena, struct mg_check_use, w->here->depth);
    mg_value read = c->plan->instances[x->reader_as].value;
    for (uint32_t j = 0; j < w->here->depth; j++) {
        struct mg_check_use use =
            mg_check_operand_use(c, w->here->chain[j], c->plan->steps[x->reader].op, x->reader_slot);
        bool whole = use.dim < 0;
        bool carried = mg_check_use_of_base(c, w->here->chain[j], read, c->plan->instances[to].value, &use);
        REFUSE_UNLESS(carried || whole, "axis", "views of the slice of '%.60s' do not carry the region's axis",
                      mg_check_name_of(w, to));
        box[j] = carried ? use : (struct mg_check_use){-1, 0};
    }
    if (!mg_check_content(w, from, box))
        return false;
    mg_check_note_read(w, from, box);
    x->box = box;
    w->locals[w->place]++;
    return mg_check_begin_life(w, to, w->place) && mg_check_shape(w, to, w->here->depth) && mg_check_allocate(w, to) &&
           mg_check_views(w, to);
}

static bool check_pair(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    const uint32_t *in = mg_check_in(c, w->step);
    REFUSE_UNLESS(w->place != 0, "output", "no region is open");
    REFUSE_UNLESS(c->plan->instances[in[0]].value == c->plan->instances[in[1]].value, "value",
                  "a part of '%.60s' is written to '%.60s'", mg_check_name_of(w, in[0]), mg_check_name_of(w, in[1]));
    REFUSE_UNLESS(c->plan->instances[in[1]].view_of == MG_NONE && c->instances[in[1]].buffer, "output",
                  "instance %u is no region output", in[1]);
    return check_own(w, in[0]) && mg_check_write_buffer(w, in[1], c->instances[in[0]].box);
}

static bool walk_join(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    uint32_t local = mg_check_in(c, w->step)[0], buffer = mg_check_in(c, w->step)[1];
    if (!check_pair(w) || !check_complete(w, local))
        return false;
    REFUSE_UNLESS(mg_check_absent_levels(w, &c->instances[buffer]) == 0, "acc",
                  "the parts of '%.60s' overwrite one another", mg_check_name_of(w, buffer));
    return true;
}

static bool check_combiner(struct mg_check_walk *w, mg_value value, const struct mg_check_instance *buffer)
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

static bool walk_acc(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    uint32_t local = mg_check_in(c, w->step)[0], buffer = mg_check_in(c, w->step)[1];
    if (!check_pair(w))
        return false;
    REFUSE_UNLESS(c->plan->numerics != MG_NUMERICS_EXACT, "numerics", "exact numerics forbid splitting a sum");
    REFUSE_UNLESS(c->instances[local].partial && !c->instances[local].buffer &&
                      mg_check_absent_levels(w, &c->instances[buffer]) > 0,
                  "acc", "'%.60s' is no partial sum", mg_check_name_of(w, local));
    const struct mg_step *next = w->at + 1 < c->plan->step_count ? &c->plan->steps[w->at + 1] : NULL;
    REFUSE_UNLESS(next && next->kind == MG_STEP_FREE && mg_check_in(c, next)[0] == local, "acc",
                  "the temporary '%.60s' is not freed right after", mg_check_name_of(w, local));
    return check_combiner(w, c->plan->instances[local].value, &c->instances[buffer]);
}

static bool walk_step(struct mg_check_walk *w)
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

/* ---- the walk ---- */

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

static uint32_t *none(const struct mg_check *c, size_t count)
{
    uint32_t *array = MG_NEW_ARRAY(c->arena, uint32_t, count);
    memset(array, 0xff, count * sizeof *array);
    return array;
}

static void start(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    size_t values = c->g->value_count, places = c->plan->region_count + 1;
    w->host = MG_NEW_ARRAY(c->arena, struct mg_check_copy, values);
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
    struct mg_check_walk w = {.c = c, .here = &c->places[0]};
    start(&w);
    find_readers(c);
    if (!mg_check_before(&w))
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
    return mg_check_after(&w);
}
