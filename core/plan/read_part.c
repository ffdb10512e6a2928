/* Reading a plan: edits, regions, storages, instances, prices. */
#include <string.h>

#include "plan/read_priv.h"

enum { MOST_PARTS = 1 << 16 };

/* A value of any kind, written as a plan writes it: without white space, strings in one form. */
static bool copy_value(struct mg_json *j, struct mg_writer *w)
{
    const char *text;
    double number;
    bool truth;
    switch (mg_json_peek(j)) {
    case MG_JSON_OBJECT:
        mg_write_begin_object(w);
        for (bool ok = mg_json_enter_object(j); ok && mg_json_next_member(j, &text);) {
            mg_write_key(w, text);
            ok = copy_value(j, w);
        }
        mg_write_end_object(w);
        break;
    case MG_JSON_ARRAY:
        mg_write_begin_array(w);
        for (bool ok = mg_json_enter_array(j); ok && mg_json_next_element(j);)
            ok = copy_value(j, w);
        mg_write_end_array(w);
        break;
    case MG_JSON_STRING:
        if (mg_json_string(j, &text, NULL))
            mg_write_string(w, text);
        break;
    case MG_JSON_NUMBER:
        if (mg_json_double(j, &number))
            mg_write_double(w, number);
        break;
    case MG_JSON_BOOL:
        if (mg_json_bool(j, &truth))
            mg_write_bool(w, truth);
        break;
    default:
        if (mg_json_null(j))
            mg_write_null(w);
    }
    return j->err.code == MG_OK;
}

static bool read_text(struct mg_plan_reader *r, const char **out)
{
    mg_writer_release(r->text); /* and start anew */
    if (!copy_value(&r->json, r->text))
        return false;
    if (!mg_writer_finish(r->text))
        return mg_json_fail(&r->json, MG_ERR_NOMEM, "no memory for an edit");
    char *copy = mg_arena_alloc(r->arena, r->text->size + 1);
    memcpy(copy, r->text->data, r->text->size);
    *out = copy;
    return true;
}

bool mg_plan_read_edit(struct mg_plan_reader *r)
{
    static const char *const names[] = {"added", "binding", "removed", "rule", NULL};
    struct mg_edit edit = {0};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        const char **const targets[] = {&edit.added, &edit.binding, &edit.removed, &edit.rule};
        uint32_t k = mg_plan_which(key, names);
        if (!names[k])
            return mg_plan_unknown_member(&r->json, key);
        if (k == 3 ? !mg_json_string(&r->json, &edit.rule, NULL) : !read_text(r, targets[k]))
            return false;
        seen |= 1u << k;
    }
    *MG_PUSH(r->arena, r->plan->edits, r->plan->edit_count, r->edit_capacity) = edit;
    return mg_plan_require(&r->json, seen, 15, names);
}

static bool find_axis(struct mg_plan_reader *r, struct mg_region_op *op, const char *axis)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(r->g, op->op, &count);
    for (op->axis = 0; op->axis < count; op->axis++)
        if (!strcmp(axes[op->axis].name, axis))
            return true;
    return mg_json_fail(&r->json, MG_ERR_INVALID, "operator '%s' has no axis '%s'", r->g->ops[op->op].name, axis);
}

static bool read_region_op(struct mg_plan_reader *r, struct mg_region_op *op)
{
    static const char *const names[] = {"axis", "op", "scale", NULL};
    uint32_t seen = 0;
    const char *key, *axis = "";
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, names);
        bool ok = k == 0   ? mg_json_string(&r->json, &axis, NULL)
                  : k == 1 ? mg_plan_read_op(r, &op->op)
                  : k == 2 ? mg_json_int(&r->json, &op->scale)
                           : mg_plan_unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return mg_plan_require(&r->json, seen, 7, names) && find_axis(r, op, axis);
}

static bool read_region_ops(struct mg_plan_reader *r, struct mg_region *region)
{
    struct mg_region_op *ops = NULL;
    size_t count = 0, capacity = 0;
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json)) {
        struct mg_region_op op = {0};
        mg_json_begin_element(&r->json); /* a region may hold the whole graph */
        if (!read_region_op(r, &op))
            return false;
        if (count && ops[count - 1].op >= op.op)
            return mg_json_fail(&r->json, MG_ERR_INVALID, "operators of a region come in the graph's order");
        *MG_PUSH(r->arena, ops, count, capacity) = op;
    }
    region->ops = ops;
    region->op_count = (uint32_t)count;
    return r->json.err.code == MG_OK;
}

static bool read_bounds(struct mg_plan_reader *r)
{
    size_t capacity = 0;
    r->bounds = NULL;
    r->bound_count = 0;
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json)) {
        if (r->bound_count > MOST_PARTS)
            return mg_json_fail(&r->json, MG_ERR_LIMIT, "a region has at most %d parts", MOST_PARTS);
        if (!mg_json_int(&r->json, MG_PUSH(r->arena, r->bounds, r->bound_count, capacity)))
            return false;
    }
    if (r->bound_count < 3)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "a region has at least two parts");
    return true;
}

static bool bounds_fit(struct mg_plan_reader *r, struct mg_region *region)
{
    region->parts = (uint32_t)r->bound_count - 1;
    for (uint32_t p = 0; p < region->parts; p++) {
        int64_t lo, hi;
        mg_part_bounds(region->length, region->parts, p, &lo, &hi);
        if (r->bounds[p] != lo || r->bounds[p + 1] != hi)
            return mg_json_fail(&r->json, MG_ERR_INVALID, "the bounds of part %u should be %lld and %lld", p,
                                (long long)lo, (long long)hi);
    }
    return true;
}

bool mg_plan_read_region(struct mg_plan_reader *r)
{
    static const char *const names[] = {"bounds", "id", "length", "ops", "parent", NULL};
    struct mg_region region = {0};
    uint32_t seen = 0, id = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, names);
        bool ok = k == 0   ? read_bounds(r)
                  : k == 1 ? mg_plan_read_index(&r->json, &id)
                  : k == 2 ? mg_json_int(&r->json, &region.length)
                  : k == 3 ? read_region_ops(r, &region)
                  : k == 4 ? mg_plan_read_index(&r->json, &region.parent)
                           : mg_plan_unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    if (!mg_plan_require(&r->json, seen, 31, names))
        return false;
    if (id != r->plan->region_count + 1 || region.parent >= id)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "regions are numbered from 1, parents before children");
    if (!bounds_fit(r, &region))
        return false;
    region.parent = region.parent ? region.parent - 1 : MG_NONE;
    *MG_PUSH(r->arena, r->plan->regions, r->plan->region_count, r->region_capacity) = region;
    return true;
}

bool mg_plan_read_storage(struct mg_plan_reader *r)
{
    static const char *const names[] = {"bytes", "offset", NULL};
    struct mg_storage storage = {0};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, names);
        if (!names[k])
            return mg_plan_unknown_member(&r->json, key);
        if (!mg_json_uint(&r->json, k == 0 ? &storage.bytes : &storage.offset))
            return false;
        seen |= 1u << k;
    }
    *MG_PUSH(r->arena, r->plan->storages, r->plan->storage_count, r->storage_capacity) = storage;
    return mg_plan_require(&r->json, seen, 3, names);
}

static bool read_view(struct mg_plan_reader *r, struct mg_instance *instance, uint32_t *strides)
{
    static const char *const names[] = {"of", "offset", "strides", NULL};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, names);
        bool ok = k == 0   ? mg_plan_read_index(&r->json, &instance->view_of)
                  : k == 1 ? mg_json_int(&r->json, &instance->offset)
                  : k == 2 ? mg_plan_read_dims(&r->json, instance->stride, strides)
                           : mg_plan_unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return mg_plan_require(&r->json, seen, 7, names);
}

static bool read_made_by(struct mg_plan_reader *r, uint32_t *made_by)
{
    *made_by = MG_NONE;
    return mg_json_peek(&r->json) == MG_JSON_NULL ? mg_json_null(&r->json) : mg_plan_read_index(&r->json, made_by);
}

static bool finish_instance(struct mg_plan_reader *r, struct mg_instance *instance, bool shaped, uint32_t strides)
{
    const struct mg_value_info *value = &r->g->values[instance->value];
    if (!shaped)
        instance->shape = value->shape;
    if (instance->shape.rank != value->shape.rank)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "the shape has not the rank of '%s'", value->name);
    for (uint32_t d = 0; d < value->shape.rank; d++)
        if (instance->shape.dim[d] > value->shape.dim[d])
            return mg_json_fail(&r->json, MG_ERR_INVALID, "the shape exceeds that of '%s'", value->name);
    if (instance->view_of == MG_NONE)
        mg_shape_strides(&instance->shape, instance->stride);
    else if (strides != value->shape.rank)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "a view has one stride for each dimension");
    *MG_PUSH(r->arena, r->plan->instances, r->plan->instance_count, r->instance_capacity) = *instance;
    return true;
}

bool mg_plan_read_instance(struct mg_plan_reader *r)
{
    static const char *const names[] = {"made_by", "shape", "storage", "value", "view", NULL};
    struct mg_instance instance = {.view_of = MG_NONE};
    uint32_t seen = 0, strides = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, names);
        bool ok = k == 0   ? read_made_by(r, &instance.made_by)
                  : k == 1 ? mg_plan_read_dims(&r->json, instance.shape.dim, &instance.shape.rank)
                  : k == 2 ? mg_plan_read_index(&r->json, &instance.storage)
                  : k == 3 ? mg_plan_read_value(r, &instance.value)
                  : k == 4 ? read_view(r, &instance, &strides)
                           : mg_plan_unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return mg_plan_require(&r->json, seen, 13, names) && finish_instance(r, &instance, seen >> 1 & 1, strides);
}

static bool read_source(struct mg_plan_reader *r, enum mg_price_source *source)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *source = mg_price_source_from_name(name);
    return *source <= MG_PRICE_EXACT || mg_json_fail(&r->json, MG_ERR_INVALID, "unknown source '%s'", name);
}

static bool read_price_name(struct mg_plan_reader *r, struct mg_price *price)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    if (strlen(name) >= sizeof price->name)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "no operator has so long a name");
    memcpy(price->name, name, strlen(name) + 1);
    return true;
}

bool mg_plan_read_seconds(struct mg_plan_reader *r, double *seconds)
{
    return mg_json_double(&r->json, seconds) &&
           (*seconds >= 0 || mg_json_fail(&r->json, MG_ERR_INVALID, "a negative time"));
}

bool mg_plan_read_price(struct mg_plan_reader *r)
{
    static const char *const names[] = {"op", "seconds", "signature", "source", "workspace", NULL};
    struct mg_price price = {0};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, names);
        bool ok = k == 0   ? read_price_name(r, &price)
                  : k == 1 ? mg_plan_read_seconds(r, &price.seconds)
                  : k == 2 ? mg_json_string(&r->json, &price.signature, NULL)
                  : k == 3 ? read_source(r, &price.source)
                  : k == 4 ? mg_json_uint(&r->json, &price.workspace)
                           : mg_plan_unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    *MG_PUSH(r->arena, r->plan->prices, r->plan->price_count, r->price_capacity) = price;
    return mg_plan_require(&r->json, seen, 31, names);
}
