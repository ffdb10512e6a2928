/* What a step writes: results with storages of their own, and region outputs part by part. */
#include "plan/check_walk.h"

/* Result boxes; false where an axis is absent and cannot be combined. */
static bool result_box(struct mg_check_walk *w, uint32_t slot, struct mg_check_instance *x)
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
uint32_t mg_check_absent_levels(const struct mg_check_walk *w, const struct mg_check_instance *buffer)
{
    uint32_t count = 0;
    for (uint32_t j = w->c->places[buffer->home].depth; j < w->here->depth; j++)
        count += buffer->box[j].dim < 0;
    return count;
}

/* The step writes (this part's box of) a buffer; `box` is what it writes. */
bool mg_check_write_buffer(struct mg_check_walk *w, uint32_t buffer, const struct mg_check_use *box)
{
    struct mg_check *c = w->c;
    struct mg_check_instance *x = &c->instances[buffer];
    uint32_t depth = c->places[x->home].depth, region = c->plan->steps[x->born].op + 1;
    REFUSE_UNLESS(x->buffer && x->life == MG_CHECK_ALIVE, "output", "instance %u is no output of an open region",
                  buffer);
    REFUSE_UNLESS(depth < w->here->depth && w->here->chain[depth] == region, "output",
                  "the region of output '%.60s' is not open", mg_check_name_of(w, buffer));
    REFUSE_UNLESS(!x->written, "output", "region output '%.60s' is written twice", mg_check_name_of(w, buffer));
    for (uint32_t j = 0; j < depth; j++) {
        REFUSE_UNLESS(mg_check_same_use(box[j], x->box[j]), "axis", "'%.60s' is written on another axis",
                      mg_check_name_of(w, buffer));
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

static bool write_directly(struct mg_check_walk *w, uint32_t slot, uint32_t buffer)
{
    struct mg_check *c = w->c;
    struct mg_check_instance result = {0};
    if (!result_box(w, slot, &result) || !mg_check_write_buffer(w, buffer, result.box))
        return false;
    REFUSE_UNLESS(mg_check_absent_levels(w, &c->instances[buffer]) == 0, "acc",
                  "the parts of '%.60s' overwrite one another", mg_check_name_of(w, buffer));
    REFUSE_UNLESS(mg_check_box_contiguous(c, buffer), "join", "the part's box of '%.60s' is not contiguous",
                  mg_check_name_of(w, buffer));
    return true;
}

bool mg_check_result(struct mg_check_walk *w, uint32_t slot)
{
    struct mg_check *c = w->c;
    const struct mg_op_info *op = &c->g->ops[w->step->op];
    uint32_t instance = mg_check_out(c, w->step)[slot];
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_check_instance *x = &c->instances[instance];
    REFUSE_UNLESS(stated->value == op->out[slot], "value", "result %u of '%.60s' is '%.60s', not '%.60s'", slot,
                  op->name, mg_check_name_of(w, instance), c->g->values[op->out[slot]].name);
    if (x->life != MG_CHECK_UNBORN && x->buffer)
        return write_directly(w, slot, instance);
    if (!mg_check_begin_life(w, instance, w->place) || !result_box(w, slot, x))
        return false;
    if (c->storages[stated->storage].lower != MG_NONE)
        return mg_check_take_storage(w, slot, instance) && mg_check_views(w, instance);
    REFUSE_UNLESS(c->g->values[stated->value].update_of == MG_NONE, "in-place",
                  "'%.60s' does not overwrite the value that it updates", mg_check_name_of(w, instance));
    w->locals[w->place]++;
    return mg_check_shape(w, instance, w->here->depth) && mg_check_allocate(w, instance) && mg_check_views(w, instance);
}
