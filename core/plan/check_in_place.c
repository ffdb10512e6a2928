/* Results that take an operand's storage: elementwise operators, and updates of resident values (R9). */
#include "plan/check_walk.h"

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
        wanted |= a->shape.dim[d] != 1 ? 1u << d : 0;
    return covered == wanted;
}

/* The operand whose storage the result takes: all operands on that storage are the same instance. */
static bool find_overwritten(struct mg_check_walk *w, uint32_t storage, uint32_t *slot)
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

static bool check_readers_of_old(struct mg_check_walk *w, mg_value weight, const struct mg_check_use *box)
{
    const struct mg_check *c = w->c;
    if (w->here->depth == 0 || w->notes_in[weight] != c->places[w->here->chain[0]].begin)
        return true;
    for (uint32_t n = w->notes_of[weight]; n != MG_NONE; n = w->notes[n].next) {
        uint32_t shared = mg_check_common(c, w->notes[n].place, w->place);
        for (uint32_t j = 0; j < shared; j++)
            REFUSE_UNLESS(mg_check_same_use(w->notes[n].use[j], box[j]), "version",
                          "'%.60s' is read in the region other than through the slice that is updated",
                          c->g->values[weight].name);
    }
    return true;
}

/* R9, and updates outside regions. */
static bool check_update(struct mg_check_walk *w, uint32_t slot, uint32_t instance)
{
    struct mg_check *c = w->c;
    struct mg_check_instance *x = &c->instances[instance];
    mg_value weight = c->g->values[c->plan->instances[instance].value].update_of;
    uint32_t old = mg_check_in(c, w->step)[slot];
    REFUSE_UNLESS(c->plan->instances[old].value == weight && c->instances[old].home == 0, "in-place",
                  "'%.60s' does not overwrite the value that it updates", mg_check_name_of(w, instance));
    for (uint32_t j = 0; j < w->here->depth; j++)
        REFUSE_UNLESS(x->box[j].dim >= 0 &&
                          mg_check_same_use(x->box[j], mg_check_operand_use(c, w->here->chain[j], w->step->op, slot)),
                      "axis", "the update '%.60s' does not carry the region's axis", mg_check_name_of(w, instance));
    if (!check_readers_of_old(w, weight, x->box))
        return false;
    w->updated[weight] = w->at;
    x->home = 0;
    x->update = true;
    return mg_check_shape(w, instance, 0);
}

static bool check_in_place(struct mg_check_walk *w, uint32_t slot, uint32_t instance)
{
    struct mg_check *c = w->c;
    uint32_t operand = mg_check_in(c, w->step)[slot];
    const struct mg_instance *old = &c->plan->instances[operand];
    const struct mg_check_instance *base = &c->instances[mg_check_base(c, operand)];
    const char *name = mg_check_name_of(w, operand);
    REFUSE_UNLESS(c->g->values[c->plan->instances[mg_check_base(c, operand)].value].kind == MG_KIND_COMPUTED,
                  "in-place", "'%.60s' is not to be overwritten", name);
    REFUSE_UNLESS(base->home == w->place, "in-place", "'%.60s' is from outside the region", name);
    REFUSE_UNLESS(pointwise(c->g, w->step->op, slot), "in-place", "'%.60s' is not elementwise on '%.60s'",
                  c->g->ops[w->step->op].name, name);
    int64_t stride[MG_MAX_RANK];
    mg_check_strides(old, stride);
    uint64_t bytes = (uint64_t)mg_shape_elements(&old->shape) * mg_dtype_size(c->g->values[old->value].dtype);
    REFUSE_UNLESS((old->view_of == MG_NONE || old->offset == 0) && mg_layout_contiguous(&old->shape, stride) &&
                      mg_device_storage(&c->plan->device, bytes) == c->plan->storages[old->storage].bytes,
                  "in-place", "'%.60s' is a part of its storage", name);
    return mg_check_shape(w, instance, w->here->depth);
}

bool mg_check_take_storage(struct mg_check_walk *w, uint32_t result, uint32_t instance)
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
