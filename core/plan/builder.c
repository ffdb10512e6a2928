/* The plan builder: instances, storages, refs and steps outside the rules of regions
 * (builder_region.c). Everything is an append to an array in the arena; prices are interned by
 * signature, views are made once for each instance, so equal calls give equal plans. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan/builder_priv.h"

bool mg_builder_failed(const struct mg_plan_builder *b)
{
    return b->err.code != MG_OK;
}

void mg_builder_fail(struct mg_plan_builder *b, const char *fmt, ...)
{
    char text[sizeof b->err.message];
    if (mg_builder_failed(b))
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    enum mg_code code = mg_fail(&b->err, MG_ERR_INVALID, "", "step %zu: %s", b->step_count, text);
    b->err.code = code;
}

uint32_t mg_builder_push_ref(struct mg_plan_builder *b, uint32_t ref)
{
    *MG_PUSH(b->arena, b->refs, b->ref_count, b->ref_capacity) = ref;
    return (uint32_t)(b->ref_count - 1);
}

struct mg_step *mg_builder_push_step(struct mg_plan_builder *b, enum mg_step_kind kind, uint32_t op)
{
    struct mg_step *step = MG_PUSH(b->arena, b->steps, b->step_count, b->step_capacity);
    uint32_t at = (uint32_t)b->ref_count;
    *step = (struct mg_step){.kind = kind, .op = op, .in = at, .out = at, .price = at};
    return step;
}

const struct mg_tuples *mg_builder_tuples(const struct mg_plan_builder *b)
{
    return &b->tuples[b->open == MG_NONE ? 0 : b->open + 1];
}

/* ---- instances ---- */
static uint32_t push_instance(struct mg_plan_builder *b, const struct mg_instance *instance, uint32_t scope)
{
    *MG_PUSH(b->arena, b->instances, b->instance_count, b->instance_capacity) = *instance;
    *MG_PUSH(b->arena, b->built, b->built_count, b->built_capacity) =
        (struct mg_built){.scope = scope, .begun_by = MG_NONE, .views = MG_NONE, .next_view = MG_NONE};
    return (uint32_t)(b->instance_count - 1);
}

static uint32_t push_storage(struct mg_plan_builder *b, uint64_t bytes)
{
    *MG_PUSH(b->arena, b->storages, b->storage_count, b->storage_capacity) =
        (struct mg_storage){.bytes = mg_device_storage(&b->device, bytes)};
    *MG_PUSH(b->arena, b->freed, b->freed_count, b->freed_capacity) = false;
    return (uint32_t)(b->storage_count - 1);
}

uint32_t mg_builder_new_instance(struct mg_plan_builder *b, mg_value value, const struct mg_shape *shape,
                                 uint32_t made_by, uint32_t scope)
{
    struct mg_instance instance = {.value = value, .made_by = made_by, .view_of = MG_NONE, .shape = *shape};
    uint64_t elements = (uint64_t)mg_shape_elements(shape);
    instance.storage = push_storage(b, elements * mg_dtype_size(b->g->values[value].dtype));
    mg_shape_strides(shape, instance.stride);
    return push_instance(b, &instance, scope);
}

bool mg_builder_usable(struct mg_plan_builder *b, uint32_t instance)
{
    if (mg_builder_failed(b))
        return false;
    if (instance >= b->instance_count)
        mg_builder_fail(b, "there is no instance %u", instance);
    else if (b->freed[b->instances[instance].storage])
        mg_builder_fail(b, "instance %u (%s) is freed already", instance,
                        b->g->values[b->instances[instance].value].name);
    return !mg_builder_failed(b);
}

/* The number `elements` of steps through the dense whole base, as steps through the part's dense base. */
static int64_t map_elements(const struct mg_shape *whole, const struct mg_shape *part, int64_t elements)
{
    int64_t from[MG_MAX_RANK], to[MG_MAX_RANK], mapped = 0;
    mg_shape_strides(whole, from);
    mg_shape_strides(part, to);
    for (uint32_t d = 0; d < whole->rank; d++) {
        mapped += elements / from[d] * to[d];
        elements %= from[d];
    }
    return mapped;
}

static bool view_geometry(struct mg_plan_builder *b, uint32_t base, mg_value value, struct mg_instance *view)
{
    const struct mg_value_info *info = &b->g->values[value];
    const struct mg_instance *of = &b->instances[base];
    const struct mg_shape *whole = &b->g->values[info->base].shape;
    view->shape = info->shape;
    view->offset = info->offset;
    memcpy(view->stride, info->stride, sizeof view->stride);
    if (mg_shape_equal(whole, &of->shape) || mg_shape_elements(whole) == 0)
        return true;
    struct mg_nest nest;
    int64_t lo[MG_MAX_RANK];
    mg_nest_first(b->regions, b->built[base].scope, &nest);
    mg_nest_out_box(b->g, b->regions, &nest, info->producer, info->slot, lo, &view->shape);
    view->offset = map_elements(whole, &of->shape, info->offset);
    for (uint32_t d = 0; d < info->shape.rank; d++)
        view->stride[d] = map_elements(whole, &of->shape, info->stride[d]);
    if (mg_shape_equal(&view->shape, &info->shape))
        mg_builder_fail(b, "view %s of a part is not in the region", info->name);
    return !mg_builder_failed(b);
}

static uint32_t make_view(struct mg_plan_builder *b, uint32_t base, mg_value value)
{
    for (uint32_t v = b->built[base].views; v != MG_NONE; v = b->built[v].next_view)
        if (b->instances[v].value == value)
            return v;
    struct mg_instance view = b->instances[base];
    view.value = value;
    view.view_of = base;
    if (!view_geometry(b, base, value, &view))
        return MG_NONE;
    uint32_t made = push_instance(b, &view, b->built[base].scope);
    b->built[made].next_view = b->built[base].views;
    b->built[base].views = made;
    return made;
}

uint32_t mg_builder_resolve(struct mg_plan_builder *b, uint32_t instance, mg_value value)
{
    if (!mg_builder_usable(b, instance))
        return MG_NONE;
    mg_value has = b->instances[instance].value;
    if (has == value)
        return instance;
    if (b->g->values[value].base == has && b->instances[instance].view_of == MG_NONE)
        return make_view(b, instance, value);
    mg_builder_fail(b, "instance %u is %s where %s is read", instance, b->g->values[has].name,
                    b->g->values[value].name);
    return MG_NONE;
}

/* ---- life ---- */
static bool initially_there(const struct mg_graph *g, mg_value value)
{
    const struct mg_value_info *info = &g->values[value];
    if (info->kind == MG_KIND_INPUT)
        return info->is_read;
    return info->kind != MG_KIND_COMPUTED && info->home == MG_HOME_DEVICE;
}

void mg_plan_builder_set_pricer(struct mg_plan_builder *b, struct mg_pricer *pricer)
{
    b->pricer = pricer;
}

struct mg_plan_builder *mg_plan_builder_new(const struct mg_graph *g, const struct mg_device *device,
                                            struct mg_arena *arena)
{
    struct mg_plan_builder *b = MG_NEW(arena, struct mg_plan_builder);
    b->g = b->original = g;
    b->device = *device;
    b->arena = arena;
    b->open = MG_NONE;
    b->computed = MG_NEW_ARRAY(arena, bool, g->op_count);
    b->initial = MG_NEW_ARRAY(arena, uint32_t, g->value_count);
    b->open_output = MG_NEW_ARRAY(arena, uint32_t, g->value_count);
    struct mg_tuples *outside = MG_PUSH(arena, b->tuples, b->tuple_count, b->tuple_capacity);
    outside->nests = mg_nest_tuples(NULL, MG_NONE, arena, &outside->count);
    for (mg_value v = 0; v < g->value_count; v++) {
        b->open_output[v] = b->initial[v] = MG_NONE;
        if (initially_there(g, v))
            b->initial[v] = mg_builder_new_instance(b, v, &g->values[v].shape, MG_NONE, MG_NONE);
    }
    return b;
}

uint32_t mg_plan_builder_initial(const struct mg_plan_builder *b, mg_value value)
{
    return b->initial[value];
}

/* ---- compute ---- */
/* The operand whose storage result `slot` takes, or -1 (S6): never, declared updates apart, that of an
 * input, a resident value, or an instance from outside the open region. */
static int32_t in_place_operand(const struct mg_plan_builder *b, mg_op op, uint32_t slot, const uint32_t *in,
                                int32_t in_place)
{
    const struct mg_op_info *info = &b->g->ops[op];
    mg_value updates = b->g->values[info->out[slot]].update_of;
    for (uint32_t i = 0; updates != MG_NONE && i < info->in_count; i++)
        if (info->in[i] == updates)
            return (int32_t)i;
    if (slot != 0 || in_place < 0 || b->built[in[in_place]].scope != b->open)
        return -1;
    return b->g->values[b->g->values[info->in[in_place]].base].kind == MG_KIND_COMPUTED ? in_place : -1;
}

static uint32_t new_in_place(struct mg_plan_builder *b, mg_value value, uint32_t old)
{
    struct mg_instance instance = b->instances[old];
    instance.value = value;
    instance.made_by = (uint32_t)b->step_count;
    instance.view_of = MG_NONE;
    return push_instance(b, &instance, b->built[old].scope);
}

static uint32_t new_result(struct mg_plan_builder *b, mg_op op, uint32_t slot)
{
    struct mg_nest nest;
    struct mg_shape shape;
    int64_t lo[MG_MAX_RANK];
    mg_nest_first(b->regions, b->open, &nest);
    mg_nest_out_box(b->g, b->regions, &nest, op, slot, lo, &shape);
    return mg_builder_new_instance(b, b->g->ops[op].out[slot], &shape, (uint32_t)b->step_count, b->open);
}

static uint32_t make_result(struct mg_plan_builder *b, mg_op op, uint32_t slot, uint32_t given, const uint32_t *in,
                            int32_t in_place)
{
    mg_value value = b->g->ops[op].out[slot];
    if (given == MG_NONE) {
        int32_t operand = in_place_operand(b, op, slot, in, in_place);
        return operand >= 0 ? new_in_place(b, value, in[operand]) : new_result(b, op, slot);
    }
    if (!mg_builder_usable(b, given))
        return MG_NONE;
    if (b->instances[given].value != value || b->built[given].begun_by == MG_NONE) {
        mg_builder_fail(b, "instance %u cannot receive %s", given, b->g->values[value].name);
        return MG_NONE;
    }
    b->built[given].written = true;
    b->open_output[value] = MG_NONE;
    return given;
}

static bool push_op_prices(struct mg_plan_builder *b, mg_op op)
{
    const struct mg_tuples *tuples = mg_builder_tuples(b);
    const struct mg_pricing pricing = {b->g, &b->device, b->pricer};
    for (uint32_t t = 0; t < tuples->count; t++) {
        struct mg_cut cuts[MG_MAX_NEST];
        uint32_t count = mg_nest_cuts(b->regions, &tuples->nests[t], op, cuts);
        uint32_t price = mg_price_op(&b->table, &pricing, op, cuts, count, b->arena, &b->err);
        if (price == MG_NONE)
            return false;
        mg_builder_push_ref(b, price);
    }
    return true;
}

void mg_plan_builder_compute_as(struct mg_plan_builder *b, mg_op op, const uint32_t *in, uint32_t *out,
                                int32_t in_place)
{
    const struct mg_op_info *info = &b->g->ops[op];
    uint32_t first = (uint32_t)b->ref_count;
    for (uint32_t i = 0; i < info->in_count; i++)
        mg_builder_push_ref(b, mg_builder_resolve(b, in[i], info->in[i]));
    if (mg_builder_failed(b)) {
        memset(out, 0xff, info->out_count * sizeof *out);
        return;
    }
    for (uint32_t i = 0; i < info->out_count; i++) {
        out[i] = make_result(b, op, i, out[i], &b->refs[first], in_place);
        mg_builder_push_ref(b, out[i]);
    }
    mg_builder_list_compute(b, op);
    struct mg_step *step = mg_builder_push_step(b, MG_STEP_COMPUTE, op);
    step->in = first;
    step->in_count = info->in_count;
    step->out = first + info->in_count;
    step->out_count = info->out_count;
    if (push_op_prices(b, op))
        step->price_count = (uint32_t)b->ref_count - step->price;
}

void mg_plan_builder_compute(struct mg_plan_builder *b, mg_op op, const uint32_t *in, uint32_t *out)
{
    mg_plan_builder_compute_as(b, op, in, out, b->g->ops[op].in_place);
}

/* ---- copies and frees ---- */
/* The instance's box in tuple t: part 0's shape with the extents of the part. */
static void copied_shape(const struct mg_plan_builder *b, uint32_t instance, uint32_t t, struct mg_shape *shape)
{
    const struct mg_value_info *info = &b->g->values[b->instances[instance].value];
    int64_t lo[MG_MAX_RANK];
    *shape = info->shape;
    if (b->open != MG_NONE && info->producer != MG_NONE)
        mg_nest_out_box(b->g, b->regions, &mg_builder_tuples(b)->nests[t], info->producer, info->slot, lo, shape);
}

static void push_copy_prices(struct mg_plan_builder *b, const char *name, uint32_t instance)
{
    enum mg_dtype dtype = b->g->values[b->instances[instance].value].dtype;
    for (uint32_t t = 0; t < mg_builder_tuples(b)->count; t++) {
        struct mg_shape shape;
        copied_shape(b, instance, t, &shape);
        mg_builder_push_ref(b, mg_price_copy(&b->table, &b->device, name, dtype, &shape, b->arena));
    }
}

static bool movable(struct mg_plan_builder *b, uint32_t instance, const char *what)
{
    if (instance >= b->instance_count)
        mg_builder_fail(b, "there is no instance %u to %s", instance, what);
    else if (b->instances[instance].view_of != MG_NONE)
        mg_builder_fail(b, "instance %u is a view: %s its base", instance, what);
    else if (b->built[instance].scope != b->open)
        mg_builder_fail(b, "instance %u is not of this region's body: cannot %s it here", instance, what);
    return !mg_builder_failed(b);
}

void mg_plan_builder_store(struct mg_plan_builder *b, uint32_t instance)
{
    if (!mg_builder_usable(b, instance) || !movable(b, instance, "store"))
        return;
    mg_builder_list_store(b, b->instances[instance].value);
    struct mg_step *step = mg_builder_push_step(b, MG_STEP_STORE, MG_NONE);
    step->in = mg_builder_push_ref(b, instance);
    step->in_count = 1;
    step->out = step->price = (uint32_t)b->ref_count;
    push_copy_prices(b, "store", instance);
    step->price_count = (uint32_t)b->ref_count - step->price;
}

static uint32_t push_load(struct mg_plan_builder *b, uint32_t stored, mg_value value, const struct mg_shape *shape)
{
    uint32_t made = mg_builder_new_instance(b, value, shape, (uint32_t)b->step_count, b->open);
    struct mg_step *step = mg_builder_push_step(b, MG_STEP_LOAD, MG_NONE);
    if (stored != MG_NONE)
        mg_builder_push_ref(b, stored);
    step->in_count = stored != MG_NONE;
    step->out = mg_builder_push_ref(b, made);
    step->out_count = 1;
    step->price = (uint32_t)b->ref_count;
    push_copy_prices(b, "load", made);
    step->price_count = (uint32_t)b->ref_count - step->price;
    return made;
}

uint32_t mg_plan_builder_load(struct mg_plan_builder *b, uint32_t stored)
{
    if (mg_builder_failed(b) || !movable(b, stored, "load"))
        return MG_NONE;
    struct mg_shape shape = b->instances[stored].shape;
    return push_load(b, stored, b->instances[stored].value, &shape);
}

uint32_t mg_plan_builder_load_home(struct mg_plan_builder *b, mg_value value)
{
    const struct mg_value_info *info = &b->g->values[value];
    if (info->kind == MG_KIND_COMPUTED || info->home != MG_HOME_HOST || b->open != MG_NONE)
        mg_builder_fail(b, "%s is not at home on the host", info->name);
    return mg_builder_failed(b) ? MG_NONE : push_load(b, MG_NONE, value, &info->shape);
}

void mg_plan_builder_free(struct mg_plan_builder *b, uint32_t instance)
{
    if (!mg_builder_usable(b, instance) || !movable(b, instance, "free"))
        return;
    struct mg_step *step = mg_builder_push_step(b, MG_STEP_FREE, MG_NONE);
    step->in = mg_builder_push_ref(b, instance);
    step->in_count = 1;
    step->out = step->price = (uint32_t)b->ref_count;
    b->freed[b->instances[instance].storage] = true;
}

/* ---- the rest ---- */
bool mg_plan_builder_same_storage(const struct mg_plan_builder *b, uint32_t a, uint32_t c)
{
    return a < b->instance_count && c < b->instance_count && b->instances[a].storage == b->instances[c].storage;
}

void mg_plan_builder_set_numerics(struct mg_plan_builder *b, enum mg_numerics numerics)
{
    b->numerics = numerics;
}

/* Workspaces are storages without an instance, in the order of the steps that need one. */
static void add_workspaces(struct mg_plan_builder *b)
{
    for (size_t s = 0; s < b->step_count; s++) {
        struct mg_plan so_far = {.device = b->device, .refs = b->refs, .prices = b->table.prices};
        uint64_t bytes = mg_step_workspace(&so_far, &b->steps[s]);
        if (bytes)
            push_storage(b, bytes);
    }
}

static struct mg_plan *collect(struct mg_plan_builder *b)
{
    struct mg_plan *plan = MG_NEW(b->arena, struct mg_plan);
    memcpy(plan->graph_digest, b->original->digest, sizeof plan->graph_digest);
    plan->edited = b->g == b->original ? NULL : b->g;
    plan->device = b->device;
    plan->numerics = b->numerics;
    plan->edits = b->edits;
    plan->edit_count = b->edit_count;
    plan->regions = b->regions;
    plan->region_count = b->region_count;
    plan->storages = b->storages;
    plan->storage_count = b->storage_count;
    plan->instances = b->instances;
    plan->instance_count = b->instance_count;
    plan->prices = b->table.prices;
    plan->price_count = b->table.count;
    plan->steps = b->steps;
    plan->step_count = b->step_count;
    plan->refs = b->refs;
    plan->ref_count = b->ref_count;
    return plan;
}

static enum mg_code fill_figures(const struct mg_graph *g, struct mg_plan *plan, const struct mg_figures *original,
                                 struct mg_arena *arena, struct mg_error *err)
{
    struct mg_simulation simulation;
    struct mg_arena_mark mark = mg_arena_mark(arena);
    enum mg_code code = mg_plan_simulate(g, plan, arena, &simulation, err);
    if (code == MG_OK)
        code = mg_plan_place(plan, arena, err);
    mg_arena_rewind(arena, mark);
    if (code != MG_OK)
        return code;
    plan->figures.latency_s = simulation.latency_s;
    plan->figures.peak_bytes = simulation.peak_bytes;
    plan->figures.host_bytes = simulation.host_bytes;
    plan->original = original ? *original : plan->figures;
    return MG_OK;
}

struct finishing {
    struct mg_plan_builder *b;
    const struct mg_figures *original;
    struct mg_plan **out;
};

static enum mg_code finish(void *context, struct mg_error *err)
{
    struct finishing *f = context;
    struct mg_plan_builder *b = f->b;
    if (b->open != MG_NONE)
        mg_builder_fail(b, "region %u is not ended", b->open);
    if (mg_builder_failed(b)) {
        *err = b->err;
        return b->err.code;
    }
    add_workspaces(b);
    *f->out = collect(b);
    return fill_figures(b->g, *f->out, f->original, b->arena, err);
}

enum mg_code mg_plan_builder_finish(struct mg_plan_builder *b, const struct mg_figures *original, struct mg_plan **out,
                                    struct mg_error *err)
{
    struct mg_error unused;
    struct finishing context = {b, original, out};
    return mg_arena_guard(b->arena, finish, &context, err ? err : &unused);
}
