/* What a step reads: instances that are alive, of the newest version, completely written, and hold exactly the box that
 * is read, laid out as the operator accepts it. */
#include <string.h>

#include "plan/check_walk.h"

bool mg_check_alive(struct mg_check_walk *w, uint32_t instance)
{
    const struct mg_check *c = w->c;
    const struct mg_check_instance *x = &c->instances[mg_check_base(c, instance)];
    const char *name = mg_check_name_of(w, instance);
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

/* A buffer that regions around this step still fill: what they have written so far in this part. */
static bool check_filling(struct mg_check_walk *w, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    uint32_t base = mg_check_base(c, instance);
    const struct mg_check_instance *x = &c->instances[base];
    REFUSE_UNLESS(x->written, "unwritten", "region output '%.60s' is not written yet", mg_check_name_of(w, instance));
    uint32_t shared = mg_check_common(c, x->writer, w->place);
    for (uint32_t j = c->places[x->home].depth; j < shared; j++) {
        struct mg_check_use use = need[j];
        REFUSE_UNLESS(x->box[j].dim >= 0, "partial", "'%.60s' is read before all parts are summed",
                      mg_check_name_of(w, instance));
        REFUSE_UNLESS(mg_check_use_of_base(c, w->here->chain[j], c->plan->instances[instance].value,
                                           c->plan->instances[base].value, &use) &&
                          mg_check_same_use(use, x->box[j]),
                      "axis", "'%.60s' is read on another axis than it is made", mg_check_name_of(w, instance));
    }
    return true;
}

/* `need`: the uses by which the enclosing regions cut what is read. */
bool mg_check_content(struct mg_check_walk *w, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    uint32_t base = mg_check_base(c, instance);
    const struct mg_check_instance *x = &c->instances[base];
    REFUSE_UNLESS(!x->partial, "partial", "'%.60s' is a partial sum", mg_check_name_of(w, instance));
    const struct mg_check_use *box = c->instances[instance].box;
    for (uint32_t j = 0; j < c->places[x->home].depth; j++)
        REFUSE_UNLESS(mg_check_same_use(need[j], box[j]), "axis", "'%.60s' is read on another axis than it is made",
                      mg_check_name_of(w, instance));
    REFUSE_UNLESS(!x->update || mg_check_common(c, x->writer, w->place) == 0, "version",
                  "the new version '%.60s' is read in a region that makes it", mg_check_name_of(w, instance));
    return !x->buffer || check_filling(w, instance, need);
}

void mg_check_strides(const struct mg_instance *instance, int64_t stride[MG_MAX_RANK])
{
    if (instance->view_of == MG_NONE)
        mg_shape_strides(&instance->shape, stride);
    else
        memcpy(stride, instance->stride, MG_MAX_RANK * sizeof *stride);
}

/* R4: decided on part 0's box. Outside regions normalisation has decided. */
static bool check_layout(struct mg_check_walk *w, uint32_t slot, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    int64_t stride[MG_MAX_RANK];
    mg_check_strides(&c->plan->instances[instance], stride);
    struct mg_shape box = mg_check_cut(&c->g->values[c->plan->instances[instance].value].shape, need, w->here->depth,
                                       &w->here->tuples[0]);
    REFUSE_UNLESS(mg_layout_contiguous(&box, stride) || mg_op_accepts_layout(c->g, w->step->op, slot, &box, stride),
                  "layout", "the part's box of '%.60s' needs a slice step", mg_check_name_of(w, instance));
    return true;
}

void mg_check_note_read(struct mg_check_walk *w, uint32_t instance, const struct mg_check_use *need)
{
    const struct mg_check *c = w->c;
    mg_value v = c->plan->instances[instance].value, root = c->g->values[v].base;
    if (c->g->values[root].updated_by == MG_NONE)
        return;
    uint32_t begin = c->places[w->here->chain[0]].begin;
    uint32_t next = w->notes_in[root] == begin ? w->notes_of[root] : MG_NONE;
    struct mg_check_note *note = MG_PUSH(c->arena, w->notes, w->note_count, w->note_capacity);
    *note = (struct mg_check_note){.place = w->place, .next = next};
    for (uint32_t j = 0; j < w->here->depth; j++) {
        note->use[j] = need[j];
        if (!mg_check_use_of_base(c, w->here->chain[j], v, root, &note->use[j]))
            note->use[j] = (struct mg_check_use){-1, 0};
    }
    w->notes_of[root] = (uint32_t)(w->note_count - 1);
    w->notes_in[root] = begin;
}

bool mg_check_operand(struct mg_check_walk *w, uint32_t slot)
{
    struct mg_check *c = w->c;
    uint32_t instance = mg_check_in(c, w->step)[slot];
    const struct mg_op_info *op = &c->g->ops[w->step->op];
    REFUSE_UNLESS(c->plan->instances[instance].value == op->in[slot], "value",
                  "operand %u of '%.60s' is '%.60s', not '%.60s'", slot, op->name, mg_check_name_of(w, instance),
                  c->g->values[op->in[slot]].name);
    if (!mg_check_alive(w, instance))
        return false;
    struct mg_check_use need[MG_CHECK_DEPTH];
    for (uint32_t j = 0; j < w->here->depth; j++)
        need[j] = mg_check_operand_use(c, w->here->chain[j], w->step->op, slot);
    if (!mg_check_content(w, instance, need))
        return false;
    if (w->here->depth == 0)
        return true;
    mg_check_note_read(w, instance, need);
    return check_layout(w, slot, instance, need);
}
