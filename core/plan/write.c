/* magis-plan/1 as canonical JSON: sorted keys, shortest round-trip numbers, nothing
 * that depends on time, host or job. Regions are numbered from 1, so that 0 is "no region". */
#include <inttypes.h>
#include <string.h>

#include "base/digest.h"
#include "plan/plan_priv.h"

static const char *const step_names[] = {
    [MG_STEP_COMPUTE] = "compute", [MG_STEP_STORE] = "store", [MG_STEP_LOAD] = "load",
    [MG_STEP_FREE] = "free",       [MG_STEP_BEGIN] = "begin", [MG_STEP_END] = "end",
    [MG_STEP_SLICE] = "slice",     [MG_STEP_JOIN] = "join",   [MG_STEP_ACC] = "acc",
};
static const char *const source_names[] = {
    [MG_PRICE_MODEL] = "model",
    [MG_PRICE_SCALED] = "scaled",
    [MG_PRICE_NEAR] = "near",
    [MG_PRICE_EXACT] = "exact",
};

const char *mg_step_name(enum mg_step_kind kind)
{
    return step_names[kind];
}

enum mg_step_kind mg_step_from_name(const char *name)
{
    uint32_t k = 0;
    while (k <= MG_STEP_ACC && strcmp(step_names[k], name) != 0)
        k++;
    return (enum mg_step_kind)k;
}

enum mg_price_source mg_price_source_from_name(const char *name)
{
    uint32_t k = 0;
    while (k <= MG_PRICE_EXACT && strcmp(source_names[k], name) != 0)
        k++;
    return (enum mg_price_source)k;
}

static void write_raw_member(struct mg_writer *w, const char *key, const char *json)
{
    mg_write_key(w, key);
    mg_write_raw(w, json, strlen(json));
}

static void write_edits(struct mg_writer *w, const struct mg_plan *plan)
{
    mg_write_key(w, "edits");
    mg_write_begin_array(w);
    for (size_t i = 0; i < plan->edit_count; i++) {
        const struct mg_edit *edit = &plan->edits[i];
        mg_write_begin_object(w);
        write_raw_member(w, "added", edit->added);
        write_raw_member(w, "binding", edit->binding);
        write_raw_member(w, "removed", edit->removed);
        mg_write_member_string(w, "rule", edit->rule);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static void write_figures(struct mg_writer *w, const char *key, const struct mg_figures *figures, bool host)
{
    mg_write_key(w, key);
    mg_write_begin_object(w);
    mg_write_member_uint(w, "arena_bytes", figures->arena_bytes);
    if (host)
        mg_write_member_uint(w, "host_bytes", figures->host_bytes);
    mg_write_member_double(w, "latency_s", figures->latency_s);
    mg_write_member_uint(w, "peak_bytes", figures->peak_bytes);
    mg_write_end_object(w);
}

static void write_ints(struct mg_writer *w, const char *key, const int64_t *ints, uint32_t count)
{
    mg_write_key(w, key);
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < count; i++)
        mg_write_int(w, ints[i]);
    mg_write_end_array(w);
}

static void write_instance(struct mg_writer *w, const struct mg_graph *g, const struct mg_instance *instance)
{
    const struct mg_value_info *value = &g->values[instance->value];
    mg_write_begin_object(w);
    mg_write_key(w, "made_by");
    if (instance->made_by == MG_NONE)
        mg_write_null(w);
    else
        mg_write_uint(w, instance->made_by);
    if (!mg_shape_equal(&instance->shape, &value->shape))
        write_ints(w, "shape", instance->shape.dim, instance->shape.rank);
    mg_write_member_uint(w, "storage", instance->storage);
    mg_write_member_string(w, "value", value->name);
    if (instance->view_of != MG_NONE) {
        mg_write_key(w, "view");
        mg_write_begin_object(w);
        mg_write_member_uint(w, "of", instance->view_of);
        mg_write_member_int(w, "offset", instance->offset);
        write_ints(w, "strides", instance->stride, instance->shape.rank);
        mg_write_end_object(w);
    }
    mg_write_end_object(w);
}

static void write_prices(struct mg_writer *w, const struct mg_plan *plan)
{
    mg_write_key(w, "prices");
    mg_write_begin_array(w);
    for (size_t i = 0; i < plan->price_count; i++) {
        const struct mg_price *price = &plan->prices[i];
        mg_write_begin_object(w);
        mg_write_member_string(w, "op", price->name);
        mg_write_member_double(w, "seconds", price->seconds);
        mg_write_member_string(w, "signature", price->signature);
        mg_write_member_string(w, "source", source_names[price->source]);
        mg_write_member_uint(w, "workspace", price->workspace);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static void write_region_op(struct mg_writer *w, const struct mg_graph *g, const struct mg_region_op *op)
{
    uint32_t count;
    mg_write_begin_object(w);
    mg_write_member_string(w, "axis", mg_op_axes(g, op->op, &count)[op->axis].name);
    mg_write_member_string(w, "op", g->ops[op->op].name);
    mg_write_member_int(w, "scale", op->scale);
    mg_write_end_object(w);
}

/* The bounds of a nested region's parts are those within part 0 of its parent. */
static void write_region(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan, uint32_t index)
{
    const struct mg_region *region = &plan->regions[index];
    mg_write_begin_object(w);
    mg_write_key(w, "bounds");
    mg_write_begin_array(w);
    mg_write_int(w, 0);
    for (uint32_t p = 0; p < region->parts; p++) {
        int64_t lo, hi;
        mg_part_bounds(region->length, region->parts, p, &lo, &hi);
        mg_write_int(w, hi);
    }
    mg_write_end_array(w);
    mg_write_member_uint(w, "id", index + 1);
    mg_write_member_int(w, "length", region->length);
    mg_write_key(w, "ops");
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < region->op_count; i++)
        write_region_op(w, g, &region->ops[i]);
    mg_write_end_array(w);
    mg_write_member_uint(w, "parent", region->parent == MG_NONE ? 0 : region->parent + 1);
    mg_write_end_object(w);
}

static void write_refs(struct mg_writer *w, const char *key, const uint32_t *refs, uint32_t count)
{
    mg_write_key(w, key);
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < count; i++)
        mg_write_uint(w, refs[i]);
    mg_write_end_array(w);
}

static bool names_one(enum mg_step_kind kind)
{
    return kind == MG_STEP_STORE || kind == MG_STEP_LOAD || kind == MG_STEP_FREE;
}

static bool bounds_region(enum mg_step_kind kind)
{
    return kind == MG_STEP_BEGIN || kind == MG_STEP_END;
}

static void write_step(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                       const struct mg_step *step)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "do", step_names[step->kind]);
    if (!names_one(step->kind) && !bounds_region(step->kind))
        write_refs(w, "in", plan->refs + step->in, step->in_count);
    if (names_one(step->kind) && step->in_count)
        mg_write_member_uint(w, "of", plan->refs[step->in]);
    if (step->kind == MG_STEP_COMPUTE)
        mg_write_member_string(w, "op", g->ops[step->op].name);
    if (step->out_count || step->kind == MG_STEP_COMPUTE)
        write_refs(w, "out", plan->refs + step->out, step->out_count);
    if (step->price_count)
        write_refs(w, "price", plan->refs + step->price, step->price_count);
    if (bounds_region(step->kind))
        mg_write_member_uint(w, "region", step->op + 1);
    mg_write_end_object(w);
}

static void write_storages(struct mg_writer *w, const struct mg_plan *plan)
{
    mg_write_key(w, "storages");
    mg_write_begin_array(w);
    for (size_t i = 0; i < plan->storage_count; i++) {
        mg_write_begin_object(w);
        mg_write_member_uint(w, "bytes", plan->storages[i].bytes);
        mg_write_member_uint(w, "offset", plan->storages[i].offset);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static void write_lists(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan)
{
    mg_write_key(w, "regions");
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < plan->region_count; i++)
        write_region(w, g, plan, i);
    mg_write_end_array(w);
    mg_write_key(w, "steps");
    mg_write_begin_array(w);
    for (size_t i = 0; i < plan->step_count; i++)
        write_step(w, g, plan, &plan->steps[i]);
    mg_write_end_array(w);
    write_storages(w, plan);
}

void mg_plan_write(struct mg_writer *w, const struct mg_graph *original, const struct mg_plan *plan)
{
    const struct mg_graph *g = mg_plan_graph(original, plan);
    mg_write_begin_object(w);
    mg_write_key(w, "device");
    mg_device_write(w, &plan->device);
    write_edits(w, plan);
    write_figures(w, "figures", &plan->figures, true);
    mg_write_member_string(w, "format", "magis-plan/1");
    mg_write_member_string(w, "graph", plan->graph_digest);
    mg_write_key(w, "instances");
    mg_write_begin_array(w);
    for (size_t i = 0; i < plan->instance_count; i++)
        write_instance(w, g, &plan->instances[i]);
    mg_write_end_array(w);
    mg_write_member_string(w, "numerics", plan->numerics == MG_NUMERICS_EXACT ? "exact" : "reassociate");
    write_figures(w, "original", &plan->original, false);
    write_prices(w, plan);
    write_lists(w, g, plan);
    mg_write_end_object(w);
}

enum mg_code mg_plan_id(const struct mg_graph *g, const struct mg_plan *plan, char id[17], struct mg_error *err)
{
    struct mg_writer w;
    char hex[65];
    mg_writer_init(&w);
    mg_plan_write(&w, g, plan);
    if (!mg_writer_finish(&w)) {
        mg_writer_release(&w);
        return mg_fail(err, MG_ERR_NOMEM, "", "no memory for the plan's JSON");
    }
    mg_sha256_hex(w.data, w.size, hex);
    mg_writer_release(&w);
    memcpy(id, hex, 16);
    id[16] = '\0';
    return MG_OK;
}
