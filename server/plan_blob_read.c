#include <stdlib.h>
#include <string.h>

#include "server/pack.h"
#include "server/plan_blob.h"

enum { MAX_PLAIN = 1 << 28 };

struct in {
    const unsigned char *at, *end;
    struct mg_arena *arena;
    bool failed;
};

static bool broken(struct in *in)
{
    in->failed = true;
    in->at = in->end;
    return false;
}

static uint64_t get_uint(struct in *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end)
            break;
        unsigned char byte = *in->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return value;
    }
    broken(in);
    return 0;
}

static int64_t get_int(struct in *in)
{
    uint64_t value = get_uint(in);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static uint32_t get_below(struct in *in, uint64_t bound)
{
    uint64_t value = get_uint(in);
    if (value >= bound || value >= MG_NONE)
        broken(in);
    return in->failed ? 0 : (uint32_t)value;
}

static uint32_t get_index(struct in *in, uint64_t bound)
{
    uint64_t value = get_uint(in);
    if (value > bound || value >= MG_NONE)
        broken(in);
    return in->failed || value == 0 ? MG_NONE : (uint32_t)(value - 1);
}

/* Each element takes at least one byte, so a false count cannot make us allocate much. */
static uint32_t get_count(struct in *in)
{
    uint64_t count = get_uint(in);
    if (count > (uint64_t)(in->end - in->at))
        broken(in);
    return in->failed ? 0 : (uint32_t)count;
}

static double get_double(struct in *in)
{
    uint64_t bits = 0;
    double value;
    if (in->end - in->at < 8)
        return (double)broken(in);
    for (unsigned i = 0; i < 8; i++)
        bits |= (uint64_t)*in->at++ << (8 * i);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static const char *get_text(struct in *in)
{
    uint32_t size = get_count(in);
    char *text = mg_arena_alloc(in->arena, (size_t)size + 1);
    if (!in->failed && size)
        memcpy(text, in->at, size);
    in->at += in->failed ? 0 : size;
    return text;
}

static void get_fixed_text(struct in *in, char *out, size_t room)
{
    const char *text = get_text(in);
    if (strlen(text) >= room)
        broken(in);
    else
        memcpy(out, text, strlen(text) + 1);
}

static void get_device(struct in *in, struct mg_device *device)
{
    struct mg_error err;
    const char *text = get_text(in);
    if (!in->failed && mg_device_read(text, strlen(text), device, &err) != MG_OK)
        broken(in);
}

static void get_figures(struct in *in, struct mg_figures *figures)
{
    figures->latency_s = get_double(in);
    figures->peak_bytes = get_uint(in);
    figures->arena_bytes = get_uint(in);
    figures->host_bytes = get_uint(in);
}

static void get_edits(struct in *in, struct mg_plan *plan)
{
    plan->edit_count = get_count(in);
    plan->edits = MG_NEW_ARRAY(in->arena, struct mg_edit, plan->edit_count);
    for (size_t i = 0; i < plan->edit_count; i++) {
        plan->edits[i].rule = get_text(in);
        plan->edits[i].binding = get_text(in);
        plan->edits[i].removed = get_text(in);
        plan->edits[i].added = get_text(in);
    }
}

static void get_region(struct in *in, struct mg_region *region, uint32_t index)
{
    region->parent = get_index(in, index);
    region->length = get_int(in);
    region->parts = get_below(in, MG_NONE);
    region->op_count = get_count(in);
    struct mg_region_op *ops = MG_NEW_ARRAY(in->arena, struct mg_region_op, region->op_count);
    for (uint32_t k = 0; k < region->op_count; k++) {
        ops[k].op = get_below(in, MG_NONE);
        ops[k].axis = get_below(in, MG_MAX_AXES);
        ops[k].scale = get_int(in);
    }
    region->ops = ops;
}

static void get_regions(struct in *in, struct mg_plan *plan)
{
    plan->region_count = get_count(in);
    plan->regions = MG_NEW_ARRAY(in->arena, struct mg_region, plan->region_count);
    for (size_t i = 0; i < plan->region_count && !in->failed; i++)
        get_region(in, &plan->regions[i], (uint32_t)i);
}

static void get_storages(struct in *in, struct mg_plan *plan)
{
    plan->storage_count = get_count(in);
    plan->storages = MG_NEW_ARRAY(in->arena, struct mg_storage, plan->storage_count);
    for (size_t i = 0; i < plan->storage_count; i++) {
        plan->storages[i].bytes = get_uint(in);
        plan->storages[i].offset = get_uint(in);
    }
}

static void get_instance(struct in *in, struct mg_instance *instance, const struct mg_plan *plan)
{
    instance->value = get_below(in, MG_NONE);
    instance->storage = get_index(in, plan->storage_count);
    instance->made_by = get_index(in, MG_NONE - 1);
    instance->view_of = get_index(in, plan->instance_count);
    instance->shape.rank = get_below(in, MG_MAX_RANK + 1);
    for (uint32_t d = 0; d < instance->shape.rank; d++)
        instance->shape.dim[d] = get_int(in);
    instance->offset = get_int(in);
    for (uint32_t d = 0; d < instance->shape.rank; d++)
        instance->stride[d] = get_int(in);
}

static void get_instances(struct in *in, struct mg_plan *plan)
{
    plan->instance_count = get_count(in);
    plan->instances = MG_NEW_ARRAY(in->arena, struct mg_instance, plan->instance_count);
    for (size_t i = 0; i < plan->instance_count && !in->failed; i++)
        get_instance(in, &plan->instances[i], plan);
}

static void get_prices(struct in *in, struct mg_plan *plan)
{
    plan->price_count = get_count(in);
    plan->prices = MG_NEW_ARRAY(in->arena, struct mg_price, plan->price_count);
    for (size_t i = 0; i < plan->price_count && !in->failed; i++) {
        struct mg_price *price = &plan->prices[i];
        get_fixed_text(in, price->name, sizeof price->name);
        price->signature = get_text(in);
        price->seconds = get_double(in);
        price->workspace = get_uint(in);
        price->source = (enum mg_price_source)get_below(in, MG_PRICE_EXACT + 1);
    }
}

static void get_range(struct in *in, uint32_t *start, uint32_t *count, uint32_t *expected)
{
    *count = get_below(in, MG_NONE);
    *start = 0;
    if (*count == 0)
        return;
    int64_t distance = get_int(in);
    if (distance < -(int64_t)UINT32_MAX || distance > (int64_t)UINT32_MAX) {
        broken(in);
        return;
    }
    int64_t at = distance + (int64_t)*expected;
    if (at < 0 || at + *count >= MG_NONE) {
        broken(in);
        return;
    }
    *start = (uint32_t)at;
    *expected = *start + *count;
}

static bool range_fits(const struct mg_plan *plan, uint32_t start, uint32_t count, size_t bound)
{
    if (count == 0)
        return true;
    if ((uint64_t)start + count > plan->ref_count)
        return false;
    for (uint32_t i = start; i < start + count; i++)
        if (plan->refs[i] >= bound)
            return false;
    return true;
}

static bool step_fits(const struct mg_plan *plan, const struct mg_step *step)
{
    return range_fits(plan, step->in, step->in_count, plan->instance_count) &&
           range_fits(plan, step->out, step->out_count, plan->instance_count) &&
           range_fits(plan, step->price, step->price_count, plan->price_count);
}

static void get_refs(struct in *in, struct mg_plan *plan)
{
    plan->ref_count = get_count(in);
    plan->refs = MG_NEW_ARRAY(in->arena, uint32_t, plan->ref_count);
    for (size_t i = 0; i < plan->ref_count; i++)
        plan->refs[i] = get_below(in, MG_NONE);
    for (size_t i = 0; i < plan->step_count && !in->failed; i++)
        if (!step_fits(plan, &plan->steps[i]))
            broken(in);
    for (size_t i = 0; i < plan->instance_count && !in->failed; i++)
        if (plan->instances[i].made_by != MG_NONE && plan->instances[i].made_by >= plan->step_count)
            broken(in);
}

static void get_steps(struct in *in, struct mg_plan *plan)
{
    uint32_t expected = 0;
    plan->step_count = get_count(in);
    plan->steps = MG_NEW_ARRAY(in->arena, struct mg_step, plan->step_count);
    for (size_t i = 0; i < plan->step_count && !in->failed; i++) {
        struct mg_step *step = &plan->steps[i];
        step->kind = (enum mg_step_kind)get_below(in, MG_STEP_ACC + 1);
        bool region = step->kind == MG_STEP_BEGIN || step->kind == MG_STEP_END;
        step->op = get_index(in, region ? plan->region_count : MG_NONE - 1);
        get_range(in, &step->in, &step->in_count, &expected);
        get_range(in, &step->out, &step->out_count, &expected);
        get_range(in, &step->price, &step->price_count, &expected);
    }
    get_refs(in, plan);
}

static bool get_plan(struct in *in, struct mg_plan *plan)
{
    if (in->end - in->at < 4 || memcmp(in->at, "MGP", 3) != 0 || in->at[3] != MG_PLAN_BLOB_VERSION)
        return broken(in);
    in->at += 4;
    get_fixed_text(in, plan->graph_digest, sizeof plan->graph_digest);
    get_device(in, &plan->device);
    plan->numerics = (enum mg_numerics)get_below(in, MG_NUMERICS_EXACT + 1);
    get_edits(in, plan);
    get_regions(in, plan);
    get_storages(in, plan);
    get_instances(in, plan);
    get_prices(in, plan);
    get_steps(in, plan);
    get_figures(in, &plan->figures);
    get_figures(in, &plan->original);
    return !in->failed && in->at == in->end;
}

struct unpack_call {
    struct in in;
    struct mg_plan *plan;
};

static enum mg_code unpack_guarded(void *context, struct mg_error *err)
{
    struct unpack_call *call = context;
    call->plan = MG_NEW(call->in.arena, struct mg_plan);
    return get_plan(&call->in, call->plan) ? MG_OK : mg_fail(err, MG_ERR_SYNTAX, "", "the stored plan is damaged");
}

enum mg_code mg_plan_unpack(const void *blob, size_t size, struct mg_arena *arena, struct mg_plan **out,
                            struct mg_error *err)
{
    char *plain;
    size_t plain_size;
    if (!mg_unpack(blob, size, MAX_PLAIN, &plain, &plain_size))
        return mg_fail(err, MG_ERR_SYNTAX, "", "the stored plan is damaged");
    const unsigned char *start = (const unsigned char *)plain;
    struct unpack_call call = {{start, start + plain_size, arena, false}, NULL};
    enum mg_code code = mg_arena_guard(arena, unpack_guarded, &call, err);
    free(plain);
    *out = call.plan;
    return code;
}
