/* Reads magis-plan/1. The text is checked in two steps: here member by member (types, names, ranges
 * that need no other member), then as a whole by mg_plan_well_formed (wellformed.c). A plan that was
 * read is safe to simulate, place and draw; whether it is right is the checker's business. */
#include <string.h>

#include "base/digest.h"
#include "plan/plan_priv.h"

struct reader {
    struct mg_json json;
    const struct mg_graph *g;        /* the one that steps are over */
    const struct mg_graph *original; /* the one that the plan is for */
    struct mg_arena *arena;
    struct mg_plan *plan;
    mg_op *op_slots; /* operators by name, open addressing */
    size_t slot_count;
    size_t edit_capacity, region_capacity, storage_capacity, instance_capacity, price_capacity, step_capacity,
        ref_capacity;
    int64_t *bounds; /* of the region being read */
    size_t bound_count;
    struct mg_writer *text; /* of the edit's member being read */
};

/* ---- operators by name ---- */
static size_t slot_of(const struct reader *r, const char *name)
{
    size_t at = (size_t)mg_hash_bytes(name, strlen(name), 0).lo & (r->slot_count - 1);
    while (r->op_slots[at] != MG_NONE && strcmp(r->g->ops[r->op_slots[at]].name, name) != 0)
        at = (at + 1) & (r->slot_count - 1);
    return at;
}

static void index_ops(struct reader *r)
{
    r->slot_count = 16;
    while (r->slot_count < 2 * r->g->op_count)
        r->slot_count *= 2;
    r->op_slots = MG_NEW_ARRAY(r->arena, mg_op, r->slot_count);
    memset(r->op_slots, 0xff, r->slot_count * sizeof *r->op_slots);
    for (mg_op op = 0; op < r->g->op_count; op++)
        r->op_slots[slot_of(r, r->g->ops[op].name)] = op;
}

/* ---- scalars ---- */
static bool read_index(struct mg_json *j, uint32_t *out)
{
    uint64_t value;
    if (!mg_json_uint(j, &value))
        return false;
    if (value >= MG_NONE)
        return mg_json_fail(j, MG_ERR_INVALID, "an index beyond all bounds");
    *out = (uint32_t)value;
    return true;
}

static bool read_op(struct reader *r, mg_op *out)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *out = r->op_slots[slot_of(r, name)];
    return *out != MG_NONE || mg_json_fail(&r->json, MG_ERR_INVALID, "the graph has no operator '%s'", name);
}

static bool read_value(struct reader *r, mg_value *out)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *out = mg_graph_find_value(r->g, name);
    return *out != MG_NONE || mg_json_fail(&r->json, MG_ERR_INVALID, "the graph has no value '%s'", name);
}

static bool read_dims(struct mg_json *j, int64_t dim[MG_MAX_RANK], uint32_t *rank)
{
    *rank = 0;
    if (!mg_json_enter_array(j))
        return false;
    while (mg_json_next_element(j)) {
        if (*rank == MG_MAX_RANK)
            return mg_json_fail(j, MG_ERR_LIMIT, "more than %d dimensions", MG_MAX_RANK);
        if (!mg_json_int(j, &dim[*rank]))
            return false;
        if (dim[*rank] < 0)
            return mg_json_fail(j, MG_ERR_INVALID, "a negative number");
        ++*rank;
    }
    return j->err.code == MG_OK;
}

/* Pushes the array's numbers as refs. */
static bool read_refs(struct reader *r, uint32_t *first, uint32_t *count)
{
    struct mg_plan *plan = r->plan;
    *first = (uint32_t)plan->ref_count;
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json))
        if (!read_index(&r->json, MG_PUSH(r->arena, plan->refs, plan->ref_count, r->ref_capacity)))
            return false;
    *count = (uint32_t)plan->ref_count - *first;
    return r->json.err.code == MG_OK;
}

static bool unknown_member(struct mg_json *j, const char *key)
{
    return mg_json_fail(j, MG_ERR_INVALID, "unknown member '%s'", key);
}

/* Which of the names (NULL-terminated) the key is; their number if none. */
static uint32_t which(const char *key, const char *const *names)
{
    uint32_t i = 0;
    while (names[i] && strcmp(names[i], key) != 0)
        i++;
    return i;
}

static bool require(struct mg_json *j, uint32_t seen, uint32_t wanted, const char *const *names)
{
    if (j->err.code != MG_OK)
        return false;
    for (uint32_t i = 0; names[i]; i++)
        if ((wanted >> i & 1) && !(seen >> i & 1))
            return mg_json_fail(j, MG_ERR_INVALID, "member '%s' is missing", names[i]);
    return true;
}

/* ---- the lists' elements ---- */
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

static bool read_text(struct reader *r, const char **out)
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

static bool read_edit(struct reader *r)
{
    static const char *const names[] = {"added", "binding", "removed", "rule", NULL};
    struct mg_edit edit = {0};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        const char **const targets[] = {&edit.added, &edit.binding, &edit.removed, &edit.rule};
        uint32_t k = which(key, names);
        if (!names[k])
            return unknown_member(&r->json, key);
        if (k == 3 ? !mg_json_string(&r->json, &edit.rule, NULL) : !read_text(r, targets[k]))
            return false;
        seen |= 1u << k;
    }
    *MG_PUSH(r->arena, r->plan->edits, r->plan->edit_count, r->edit_capacity) = edit;
    return require(&r->json, seen, 15, names);
}

static bool find_axis(struct reader *r, struct mg_region_op *op, const char *axis)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(r->g, op->op, &count);
    for (op->axis = 0; op->axis < count; op->axis++)
        if (!strcmp(axes[op->axis].name, axis))
            return true;
    return mg_json_fail(&r->json, MG_ERR_INVALID, "operator '%s' has no axis '%s'", r->g->ops[op->op].name, axis);
}

static bool read_region_op(struct reader *r, struct mg_region_op *op)
{
    static const char *const names[] = {"axis", "op", "scale", NULL};
    uint32_t seen = 0;
    const char *key, *axis = "";
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, names);
        bool ok = k == 0   ? mg_json_string(&r->json, &axis, NULL)
                  : k == 1 ? read_op(r, &op->op)
                  : k == 2 ? mg_json_int(&r->json, &op->scale)
                           : unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return require(&r->json, seen, 7, names) && find_axis(r, op, axis);
}

static bool read_region_ops(struct reader *r, struct mg_region *region)
{
    struct mg_region_op *ops = NULL;
    size_t count = 0, capacity = 0;
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json)) {
        struct mg_region_op op = {0};
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

static bool read_bounds(struct reader *r)
{
    size_t capacity = 0;
    r->bounds = NULL;
    r->bound_count = 0;
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json))
        if (!mg_json_int(&r->json, MG_PUSH(r->arena, r->bounds, r->bound_count, capacity)))
            return false;
    if (r->bound_count < 3 || r->bound_count >= UINT32_MAX)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "a region has at least two parts");
    return true;
}

static bool bounds_fit(struct reader *r, struct mg_region *region)
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

static bool read_region(struct reader *r)
{
    static const char *const names[] = {"bounds", "id", "length", "ops", "parent", NULL};
    struct mg_region region = {0};
    uint32_t seen = 0, id = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, names);
        bool ok = k == 0   ? read_bounds(r)
                  : k == 1 ? read_index(&r->json, &id)
                  : k == 2 ? mg_json_int(&r->json, &region.length)
                  : k == 3 ? read_region_ops(r, &region)
                  : k == 4 ? read_index(&r->json, &region.parent)
                           : unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    if (!require(&r->json, seen, 31, names))
        return false;
    if (id != r->plan->region_count + 1 || region.parent >= id)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "regions are numbered from 1, parents before children");
    if (!bounds_fit(r, &region))
        return false;
    region.parent = region.parent ? region.parent - 1 : MG_NONE;
    *MG_PUSH(r->arena, r->plan->regions, r->plan->region_count, r->region_capacity) = region;
    return true;
}

static bool read_storage(struct reader *r)
{
    static const char *const names[] = {"bytes", "offset", NULL};
    struct mg_storage storage = {0};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, names);
        if (!names[k])
            return unknown_member(&r->json, key);
        if (!mg_json_uint(&r->json, k == 0 ? &storage.bytes : &storage.offset))
            return false;
        seen |= 1u << k;
    }
    *MG_PUSH(r->arena, r->plan->storages, r->plan->storage_count, r->storage_capacity) = storage;
    return require(&r->json, seen, 3, names);
}

static bool read_view(struct reader *r, struct mg_instance *instance, uint32_t *strides)
{
    static const char *const names[] = {"of", "offset", "strides", NULL};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, names);
        bool ok = k == 0   ? read_index(&r->json, &instance->view_of)
                  : k == 1 ? mg_json_int(&r->json, &instance->offset)
                  : k == 2 ? read_dims(&r->json, instance->stride, strides)
                           : unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return require(&r->json, seen, 7, names);
}

static bool read_made_by(struct reader *r, uint32_t *made_by)
{
    *made_by = MG_NONE;
    return mg_json_peek(&r->json) == MG_JSON_NULL ? mg_json_null(&r->json) : read_index(&r->json, made_by);
}

static bool finish_instance(struct reader *r, struct mg_instance *instance, bool shaped, uint32_t strides)
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

static bool read_instance(struct reader *r)
{
    static const char *const names[] = {"made_by", "shape", "storage", "value", "view", NULL};
    struct mg_instance instance = {.view_of = MG_NONE};
    uint32_t seen = 0, strides = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, names);
        bool ok = k == 0   ? read_made_by(r, &instance.made_by)
                  : k == 1 ? read_dims(&r->json, instance.shape.dim, &instance.shape.rank)
                  : k == 2 ? read_index(&r->json, &instance.storage)
                  : k == 3 ? read_value(r, &instance.value)
                  : k == 4 ? read_view(r, &instance, &strides)
                           : unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return require(&r->json, seen, 13, names) && finish_instance(r, &instance, seen >> 1 & 1, strides);
}

static bool read_source(struct reader *r, enum mg_price_source *source)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *source = mg_price_source_from_name(name);
    return *source <= MG_PRICE_EXACT || mg_json_fail(&r->json, MG_ERR_INVALID, "unknown source '%s'", name);
}

static bool read_price_name(struct reader *r, struct mg_price *price)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    if (strlen(name) >= sizeof price->name)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "no operator has so long a name");
    memcpy(price->name, name, strlen(name) + 1);
    return true;
}

static bool read_seconds(struct reader *r, double *seconds)
{
    return mg_json_double(&r->json, seconds) &&
           (*seconds >= 0 || mg_json_fail(&r->json, MG_ERR_INVALID, "a negative time"));
}

static bool read_price(struct reader *r)
{
    static const char *const names[] = {"op", "seconds", "signature", "source", "workspace", NULL};
    struct mg_price price = {0};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, names);
        bool ok = k == 0   ? read_price_name(r, &price)
                  : k == 1 ? read_seconds(r, &price.seconds)
                  : k == 2 ? mg_json_string(&r->json, &price.signature, NULL)
                  : k == 3 ? read_source(r, &price.source)
                  : k == 4 ? mg_json_uint(&r->json, &price.workspace)
                           : unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    *MG_PUSH(r->arena, r->plan->prices, r->plan->price_count, r->price_capacity) = price;
    return require(&r->json, seen, 31, names);
}

static bool read_kind(struct reader *r, enum mg_step_kind *kind)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *kind = mg_step_from_name(name);
    return *kind <= MG_STEP_ACC || mg_json_fail(&r->json, MG_ERR_INVALID, "unknown step '%s'", name);
}

static bool read_region_id(struct reader *r, uint32_t *region)
{
    if (!read_index(&r->json, region))
        return false;
    return (*region)-- > 0 || mg_json_fail(&r->json, MG_ERR_INVALID, "regions are numbered from 1");
}

static bool read_of(struct reader *r, struct mg_step *step)
{
    step->in = (uint32_t)r->plan->ref_count;
    step->in_count = 1;
    return read_index(&r->json, MG_PUSH(r->arena, r->plan->refs, r->plan->ref_count, r->ref_capacity));
}

static const char *const step_members[] = {"do", "in", "of", "op", "out", "price", "region", NULL};

static bool read_step_member(struct reader *r, struct mg_step *step, uint32_t member, const char *key)
{
    switch (member) {
    case 0:
        return read_kind(r, &step->kind);
    case 1:
        return read_refs(r, &step->in, &step->in_count);
    case 2:
        return read_of(r, step);
    case 3:
        return read_op(r, &step->op);
    case 4:
        return read_refs(r, &step->out, &step->out_count);
    case 5:
        return read_refs(r, &step->price, &step->price_count);
    case 6:
        return read_region_id(r, &step->op);
    default:
        return unknown_member(&r->json, key);
    }
}

/* Members that a step must and may have, as bits of step_members. */
static bool members_fit(struct reader *r, const struct mg_step *step, uint32_t seen)
{
    static const struct {
        uint32_t must, may;
    } rules[] = {
        [MG_STEP_COMPUTE] = {1 | 2 | 8 | 16 | 32, 0},
        [MG_STEP_STORE] = {1 | 4 | 32, 0},
        [MG_STEP_LOAD] = {1 | 16 | 32, 4},
        [MG_STEP_FREE] = {1 | 4, 0},
        [MG_STEP_BEGIN] = {1 | 64, 16},
        [MG_STEP_END] = {1 | 64, 0},
        [MG_STEP_SLICE] = {1 | 2 | 16 | 32, 0},
        [MG_STEP_JOIN] = {1 | 2 | 32, 16},
        [MG_STEP_ACC] = {1 | 2 | 32, 16},
    };
    if (!require(&r->json, seen, rules[step->kind].must, step_members))
        return false;
    for (uint32_t i = 0; step_members[i]; i++)
        if ((seen >> i & 1) && !((rules[step->kind].must | rules[step->kind].may) >> i & 1))
            return mg_json_fail(&r->json, MG_ERR_INVALID, "a %s step has no '%s'", mg_step_name(step->kind),
                                step_members[i]);
    return true;
}

static bool read_step(struct reader *r)
{
    struct mg_step step = {.op = MG_NONE};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, step_members);
        if (!read_step_member(r, &step, k, key))
            return false;
        seen |= 1u << k;
    }
    if (!require(&r->json, seen, 1, step_members) || !members_fit(r, &step, seen))
        return false;
    *MG_PUSH(r->arena, r->plan->steps, r->plan->step_count, r->step_capacity) = step;
    return true;
}

/* ---- the plan's members ---- */
static bool read_list(struct reader *r, bool (*element)(struct reader *r))
{
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json))
        if (!element(r))
            return false;
    return r->json.err.code == MG_OK;
}

static bool read_figures(struct reader *r, struct mg_figures *figures, bool host)
{
    static const char *const names[] = {"arena_bytes", "host_bytes", "latency_s", "peak_bytes", NULL};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, names);
        bool ok = k == 0           ? mg_json_uint(&r->json, &figures->arena_bytes)
                  : k == 1 && host ? mg_json_uint(&r->json, &figures->host_bytes)
                  : k == 2         ? read_seconds(r, &figures->latency_s)
                  : k == 3         ? mg_json_uint(&r->json, &figures->peak_bytes)
                                   : unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return require(&r->json, seen, host ? 15 : 13, names);
}

static bool read_device(struct reader *r)
{
    const char *text;
    size_t size;
    struct mg_error err = {0};
    char at[200];
    if (!mg_json_skip(&r->json, &text, &size))
        return false;
    if (mg_device_read(text, size, &r->plan->device, &err) == MG_OK)
        return true;
    memcpy(at, err.pointer, sizeof at - 1);
    at[sizeof at - 1] = '\0';
    return mg_json_fail(&r->json, err.code, "%s%s%s", at, at[0] ? ": " : "", err.message);
}

static bool read_digest(struct reader *r)
{
    const char *digest;
    if (!mg_json_string(&r->json, &digest, NULL))
        return false;
    if (strcmp(digest, r->original->digest) != 0)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "the plan is for another graph");
    memcpy(r->plan->graph_digest, r->original->digest, sizeof r->plan->graph_digest);
    return true;
}

static bool read_format(struct reader *r)
{
    const char *format;
    if (!mg_json_string(&r->json, &format, NULL))
        return false;
    return !strcmp(format, "magis-plan/1") || mg_json_fail(&r->json, MG_ERR_UNSUPPORTED, "not 'magis-plan/1'");
}

static bool read_numerics(struct reader *r)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    r->plan->numerics = !strcmp(name, "exact") ? MG_NUMERICS_EXACT : MG_NUMERICS_REASSOCIATE;
    return r->plan->numerics == MG_NUMERICS_EXACT || !strcmp(name, "reassociate") ||
           mg_json_fail(&r->json, MG_ERR_INVALID, "numerics are 'reassociate' or 'exact'");
}

static const char *const plan_members[] = {"device",    "edits",    "figures",  "format", "graph",
                                           "instances", "numerics", "original", "prices", "regions",
                                           "steps",     "storages", "program",  NULL};

static bool read_member(struct reader *r, uint32_t member, const char *key)
{
    static bool (*const lists[])(struct reader * r) = {
        [5] = read_instance, [8] = read_price, [9] = read_region, [10] = read_step, [11] = read_storage,
    };
    switch (member) {
    case 0:
        return read_device(r);
    case 1:
        return mg_json_skip(&r->json, NULL, NULL); /* read by read_edits */
    case 2:
        return read_figures(r, &r->plan->figures, true);
    case 3:
        return read_format(r);
    case 4:
        return read_digest(r);
    case 6:
        return read_numerics(r);
    case 7:
        return read_figures(r, &r->plan->original, false);
    case 12: /* the graph that goes with the plan of a captured step: follows from graph and edits */
        return mg_json_skip(&r->json, NULL, NULL);
    case 13:
        return unknown_member(&r->json, key);
    default:
        return read_list(r, lists[member]);
    }
}

/* Edits come first, wherever they stand: from them follows which graph names are looked up in. */
static bool read_edits(struct reader *r)
{
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key))
        if (strcmp(key, "edits") == 0 ? !read_list(r, read_edit) : !mg_json_skip(&r->json, NULL, NULL))
            return false;
    return r->json.err.code == MG_OK;
}

static bool read_plan(struct reader *r)
{
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = which(key, plan_members);
        if (!read_member(r, k, key))
            return false;
        seen |= 1u << k;
    }
    return require(&r->json, seen, (1u << 12) - 1, plan_members) && mg_json_finish(&r->json);
}

struct reading {
    const struct mg_graph *g;
    const char *text;
    size_t size;
    struct mg_arena *arena;
    struct mg_plan **out;
    struct mg_writer writer;
};

static enum mg_code fail_as(const struct reader *r, struct mg_error *err)
{
    if (err)
        *err = r->json.err;
    return r->json.err.code;
}

static enum mg_code read_all(void *context, struct mg_error *err)
{
    struct reading *c = context;
    struct reader r = {
        .original = c->g, .arena = c->arena, .plan = MG_NEW(c->arena, struct mg_plan), .text = &c->writer};
    mg_json_init(&r.json, c->arena, c->text, c->size);
    if (!read_edits(&r))
        return fail_as(&r, err);
    enum mg_code code = mg_plan_derive(c->g, r.plan, c->arena, err);
    if (code != MG_OK)
        return code;
    r.g = mg_plan_graph(c->g, r.plan);
    mg_json_init(&r.json, c->arena, c->text, c->size);
    index_ops(&r);
    if (!read_plan(&r))
        return fail_as(&r, err);
    *c->out = r.plan;
    return mg_plan_well_formed(r.g, r.plan, c->arena, err);
}

enum mg_code mg_plan_read(const struct mg_graph *g, const char *json, size_t size, struct mg_arena *arena,
                          struct mg_plan **out, struct mg_error *err)
{
    struct reading context = {.g = g, .text = json, .size = size, .arena = arena, .out = out};
    mg_writer_init(&context.writer);
    enum mg_code code = mg_arena_guard(arena, read_all, &context, err);
    mg_writer_release(&context.writer);
    return code;
}
