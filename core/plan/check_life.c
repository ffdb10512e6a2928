/* How instances and storages begin, and what must be there before the first step and after the last. */
#include "plan/check_walk.h"

bool mg_check_shape(struct mg_check_walk *w, uint32_t instance, uint32_t levels)
{
    const struct mg_check *c = w->c;
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_shape whole = c->g->values[stated->value].shape;
    struct mg_shape mine = mg_check_cut(&whole, c->instances[instance].box, levels, &w->here->tuples[0]);
    REFUSE_UNLESS(mg_shape_equal(&mine, &stated->shape), "shape", "instance %u of '%.60s' has another shape", instance,
                  mg_check_name_of(w, instance));
    return true;
}

/* A new storage of the instance's own. */
bool mg_check_allocate(struct mg_check_walk *w, uint32_t instance)
{
    struct mg_check *c = w->c;
    const struct mg_instance *stated = &c->plan->instances[instance];
    struct mg_check_storage *storage = &c->storages[stated->storage];
    REFUSE_UNLESS(storage->lower == MG_NONE, "storage", "storage %u is allocated twice", stated->storage);
    uint64_t bytes = (uint64_t)mg_shape_elements(&stated->shape) * mg_dtype_size(c->g->values[stated->value].dtype);
    REFUSE_UNLESS(c->plan->storages[stated->storage].bytes == mg_device_storage(&c->plan->device, bytes), "bytes",
                  "storage %u of '%.60s' has not %llu bytes, rounded up", stated->storage,
                  mg_check_name_of(w, instance), (unsigned long long)bytes);
    storage->lower = w->at;
    storage->upper = MG_NONE;
    storage->owner = instance;
    return true;
}

bool mg_check_begin_life(struct mg_check_walk *w, uint32_t instance, uint32_t home)
{
    struct mg_check *c = w->c;
    struct mg_check_instance *x = &c->instances[instance];
    REFUSE_UNLESS(c->plan->instances[instance].view_of == MG_NONE, "view", "instance %u is a view: no step makes it",
                  instance);
    REFUSE_UNLESS(x->life == MG_CHECK_UNBORN, "order", "instance %u of '%.60s' is made twice", instance,
                  mg_check_name_of(w, instance));
    REFUSE_UNLESS(c->plan->instances[instance].made_by == w->at, "order", "instance %u of '%.60s' is made elsewhere",
                  instance, mg_check_name_of(w, instance));
    x->life = MG_CHECK_ALIVE;
    x->born = w->at;
    x->home = home;
    x->writer = w->place;
    return true;
}

bool mg_check_views(struct mg_check_walk *w, uint32_t instance)
{
    for (uint32_t v = w->c->instances[instance].first_view; v != MG_NONE; v = w->c->instances[v].next_view)
        if (!mg_check_view(w->c, w->at, v))
            return false;
    return true;
}

static bool check_initial(struct mg_check_walk *w, uint32_t instance, const bool *read, bool *there)
{
    struct mg_check *c = w->c;
    mg_value v = c->plan->instances[instance].value;
    const struct mg_value_info *info = &c->g->values[v];
    MG_CHECK(info->kind != MG_KIND_COMPUTED, c, MG_NONE, "order", "instance %u of '%.60s' is made by no step", instance,
             info->name);
    MG_CHECK(info->kind == MG_KIND_INPUT || info->home == MG_HOME_DEVICE, c, MG_NONE, "residency",
             "'%.60s' is at home on the host", info->name);
    MG_CHECK(!there[v], c, MG_NONE, "residency", "'%.60s' is there twice", info->name);
    MG_CHECK(info->kind != MG_KIND_INPUT || read[v], c, MG_NONE, "residency", "input '%.60s' is read by nobody",
             info->name);
    there[v] = true;
    c->instances[instance].life = MG_CHECK_ALIVE;
    c->instances[instance].born = MG_NONE;
    w->locals[0]++;
    return mg_check_shape(w, instance, 0) && mg_check_allocate(w, instance) && mg_check_views(w, instance);
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

bool mg_check_before(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    bool *there = MG_NEW_ARRAY(c->arena, bool, c->g->value_count), *read = find_read(c);
    for (uint32_t i = 0; i < c->plan->instance_count; i++) {
        const struct mg_instance *instance = &c->plan->instances[i];
        if (instance->made_by == MG_NONE && instance->view_of == MG_NONE && !check_initial(w, i, read, there))
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

bool mg_check_after(struct mg_check_walk *w)
{
    struct mg_check *c = w->c;
    bool *there = present(c);
    for (uint32_t i = 0; i < c->plan->instance_count; i++)
        MG_CHECK(c->instances[mg_check_base(c, i)].life != MG_CHECK_UNBORN, c, MG_NONE, "order",
                 "instance %u of '%.60s' is never made", i, mg_check_name_of(w, i));
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
