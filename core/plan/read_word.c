/* Reading a plan: names, numbers and lists of numbers. */
#include <string.h>

#include "base/digest.h"
#include "plan/read_priv.h"

static size_t slot_of(const struct mg_plan_reader *r, const char *name)
{
    size_t at = (size_t)mg_hash_bytes(name, strlen(name), 0).lo & (r->slot_count - 1);
    while (r->op_slots[at] != MG_NONE && strcmp(r->g->ops[r->op_slots[at]].name, name) != 0)
        at = (at + 1) & (r->slot_count - 1);
    return at;
}

void mg_plan_index_ops(struct mg_plan_reader *r)
{
    r->slot_count = 16;
    while (r->slot_count < 2 * r->g->op_count)
        r->slot_count *= 2;
    r->op_slots = MG_NEW_ARRAY(r->arena, mg_op, r->slot_count);
    memset(r->op_slots, 0xff, r->slot_count * sizeof *r->op_slots);
    for (mg_op op = 0; op < r->g->op_count; op++)
        r->op_slots[slot_of(r, r->g->ops[op].name)] = op;
}

bool mg_plan_read_index(struct mg_json *j, uint32_t *out)
{
    uint64_t value;
    if (!mg_json_uint(j, &value))
        return false;
    if (value >= MG_NONE)
        return mg_json_fail(j, MG_ERR_INVALID, "an index beyond all bounds");
    *out = (uint32_t)value;
    return true;
}

bool mg_plan_read_op(struct mg_plan_reader *r, mg_op *out)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *out = r->op_slots[slot_of(r, name)];
    return *out != MG_NONE || mg_json_fail(&r->json, MG_ERR_INVALID, "the graph has no operator '%s'", name);
}

bool mg_plan_read_value(struct mg_plan_reader *r, mg_value *out)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    *out = mg_graph_find_value(r->g, name);
    return *out != MG_NONE || mg_json_fail(&r->json, MG_ERR_INVALID, "the graph has no value '%s'", name);
}

bool mg_plan_read_dims(struct mg_json *j, int64_t dim[MG_MAX_RANK], uint32_t *rank)
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

bool mg_plan_read_refs(struct mg_plan_reader *r, uint32_t *first, uint32_t *count)
{
    struct mg_plan *plan = r->plan;
    *first = (uint32_t)plan->ref_count;
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json))
        if (!mg_plan_read_index(&r->json, MG_PUSH(r->arena, plan->refs, plan->ref_count, r->ref_capacity)))
            return false;
    *count = (uint32_t)plan->ref_count - *first;
    return r->json.err.code == MG_OK;
}

bool mg_plan_unknown_member(struct mg_json *j, const char *key)
{
    return mg_json_fail(j, MG_ERR_INVALID, "unknown member '%s'", key);
}

uint32_t mg_plan_which(const char *key, const char *const *names)
{
    uint32_t i = 0;
    while (names[i] && strcmp(names[i], key) != 0)
        i++;
    return i;
}

bool mg_plan_require(struct mg_json *j, uint32_t seen, uint32_t wanted, const char *const *names)
{
    if (j->err.code != MG_OK)
        return false;
    for (uint32_t i = 0; names[i]; i++)
        if ((wanted >> i & 1) && !(seen >> i & 1))
            return mg_json_fail(j, MG_ERR_INVALID, "member '%s' is missing", names[i]);
    return true;
}
