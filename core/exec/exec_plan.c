/* Executes a plan literally in one arena (exec/walk_plan.h; plan/MODEL.md: S1-S6, R1-R9).
 *
 * The arena is an array of slots, one for each `unit` bytes, where unit is the common divisor of the
 * dtypes' sizes; an element of size s fills s / unit slots: the first holds the number, the others
 * poison. So byte offsets and sizes are taken at their word and any overlap of live storages destroys
 * numbers. Poison is one NaN, told by its bits from those that operators make: nothing is computed of
 * it, so none of these has its payload. Guards stand before and after the arena and must be untouched at the end. */
#include <math.h>
#include <string.h>

#include "exec/exec_priv.h"
#include "exec/walk_plan.h"

enum { GUARD_SLOTS = 64 };

struct numbers {
    struct mg_arena *arena;
    uint64_t unit;
    double *slots;
    uint64_t slot_count;
    double **host; /* copies by value of the plan's graph */
    double *const *given;
    double **results;
};

static const uint64_t poison_bits = UINT64_C(0x7ff8dead5107a6e0);

static double poison(void)
{
    double slot;
    memcpy(&slot, &poison_bits, sizeof slot);
    return slot;
}

static bool is_poison(const double *slot)
{
    uint64_t bits;
    memcpy(&bits, slot, sizeof bits);
    return bits == poison_bits;
}

static struct mg_tensor tensor_at(const struct numbers *n, const struct mg_located *box)
{
    struct mg_tensor tensor = {.data = n->slots + box->offset / n->unit, .shape = box->shape};
    int64_t slots = (int64_t)(mg_dtype_size(box->dtype) / n->unit);
    for (uint32_t d = 0; d < box->shape.rank; d++)
        tensor.stride[d] = box->stride[d] * slots;
    return tensor;
}

/* A dense copy of a box. */
static enum mg_code read_box(const struct numbers *n, const struct mg_action *action, const struct mg_located *box,
                             double **out, struct mg_error *err)
{
    int64_t count = mg_shape_elements(&box->shape);
    struct mg_tensor tensor = tensor_at(n, box);
    *out = MG_NEW_ARRAY(n->arena, double, count);
    mg_tensor_pack(&tensor, *out);
    for (int64_t i = 0; i < count; i++)
        if (is_poison(&(*out)[i]))
            return mg_action_refuse(action, err, "a step reads freed or unwritten memory");
    return MG_OK;
}

static void write_box(const struct numbers *n, const struct mg_located *box, const double *dense)
{
    struct mg_tensor tensor = tensor_at(n, box);
    int64_t slots = (int64_t)(mg_dtype_size(box->dtype) / n->unit);
    int64_t count = mg_shape_elements(&box->shape), index[MG_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        double *slot = tensor.data + mg_walk_at(index, tensor.stride, tensor.shape.rank);
        slot[0] = dense[i];
        for (int64_t s = 1; s < slots; s++)
            slot[s] = poison();
        mg_walk_next(&box->shape, index);
    }
}

static enum mg_code compute(struct numbers *n, const struct mg_action *action, struct mg_error *err)
{
    const struct mg_op_desc *op = action->op;
    struct mg_tensor *in = MG_NEW_ARRAY(n->arena, struct mg_tensor, op->in_count);
    struct mg_tensor *out = MG_NEW_ARRAY(n->arena, struct mg_tensor, op->out_count);
    for (uint32_t i = 0; i < op->in_count; i++) {
        double *dense;
        enum mg_code code = read_box(n, action, &action->in[i], &dense, err);
        if (code)
            return code;
        in[i] = mg_tensor_dense(dense, &action->in[i].shape);
    }
    for (uint32_t i = 0; i < op->out_count; i++)
        out[i] =
            mg_tensor_dense(MG_NEW_ARRAY(n->arena, double, mg_shape_elements(&op->out_shape[i])), &op->out_shape[i]);
    enum mg_code code = mg_exec_op(op, in, out, &action->origin, n->arena, err);
    for (uint32_t i = 0; i < op->out_count && !code; i++)
        write_box(n, &action->out[i], out[i].data);
    return code;
}

static enum mg_code result(struct numbers *n, const struct mg_action *action)
{
    if (!action->in) {
        n->results[action->value] = n->host[action->copy];
        return MG_OK;
    }
    struct mg_tensor tensor = tensor_at(n, action->in);
    n->results[action->value] = MG_NEW_ARRAY(n->arena, double, mg_shape_elements(&tensor.shape));
    mg_tensor_pack(&tensor, n->results[action->value]);
    return MG_OK;
}

static enum mg_code act(void *context, const struct mg_action *action, struct mg_error *err)
{
    struct numbers *n = context;
    switch (action->kind) {
    case MG_ACTION_GIVEN:
        if (action->out)
            write_box(n, action->out, n->given[action->value]);
        else
            n->host[action->copy] = n->given[action->value];
        return MG_OK;
    case MG_ACTION_ALLOCATE:
        return MG_OK;
    case MG_ACTION_COMPUTE:
        return compute(n, action, err);
    case MG_ACTION_STORE:
        return read_box(n, action, action->in, &n->host[action->copy], err);
    case MG_ACTION_LOAD:
        write_box(n, action->out, n->host[action->copy]);
        return MG_OK;
    case MG_ACTION_FREE:
        for (uint64_t s = action->out->offset / n->unit; s < (action->out->offset + action->bytes) / n->unit; s++)
            n->slots[s] = poison();
        return MG_OK;
    case MG_ACTION_RESULT:
        return result(n, action);
    }
    return mg_action_refuse(action, err, "an action that nobody knows");
}

static uint64_t common_size(const struct mg_graph *g)
{
    uint64_t unit = 8;
    for (size_t v = 0; v < g->value_count; v++)
        while (mg_dtype_size(g->values[v].dtype) % unit)
            unit /= 2;
    return unit;
}

/* The arena's slots, poisoned, between two guards. */
static void make_arena(struct numbers *n)
{
    double *all = MG_NEW_ARRAY(n->arena, double, n->slot_count + 2 * GUARD_SLOTS);
    for (uint64_t s = 0; s < n->slot_count + 2 * GUARD_SLOTS; s++)
        all[s] = s < GUARD_SLOTS || s >= n->slot_count + GUARD_SLOTS ? (double)s : poison();
    n->slots = all + GUARD_SLOTS;
}

static enum mg_code check_guards(const struct numbers *n, struct mg_error *err)
{
    const double *before = n->slots - GUARD_SLOTS, *after = n->slots + n->slot_count;
    for (uint64_t s = 0; s < GUARD_SLOTS; s++)
        if (before[s] != (double)s || after[s] != (double)(s + n->slot_count + GUARD_SLOTS))
            return mg_fail(err, MG_ERR_REJECTED, "", "the plan writes outside of its arena");
    return MG_OK;
}

enum mg_code mg_exec_plan(const struct mg_graph *original, const struct mg_plan *plan, uint64_t seed,
                          double *const *given, double **results, struct mg_arena *arena, struct mg_error *err)
{
    const struct mg_graph *g = mg_plan_graph(original, plan);
    struct numbers n = {.arena = arena, .given = given, .results = results};
    struct mg_plan_visitor visitor = {&n, act};
    n.unit = common_size(g);
    n.slot_count = plan->figures.arena_bytes / n.unit;
    make_arena(&n);
    n.host = MG_NEW_ARRAY(arena, double *, g->value_count);
    for (size_t v = 0; v < original->value_count; v++)
        results[v] = NULL;
    enum mg_code code = mg_exec_walk(original, plan, seed, &visitor, arena, err);
    return code ? code : check_guards(&n, err);
}

static double largest_difference(const double *a, const double *b, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
            continue; /* infinities and NaN alike */
        double difference = fabs(a[i] - b[i]) / fmax(1, fabs(a[i]));
        worst = difference <= worst ? worst : difference; /* NaN is the worst */
    }
    return worst;
}

enum mg_code mg_exec_compare(const struct mg_graph *g, const struct mg_plan *plan, uint64_t seed, int64_t classes,
                             double *difference, struct mg_arena *arena, struct mg_error *err)
{
    double **values = mg_exec_random_values(g, seed, classes, arena);
    double **given = mg_arena_copy(arena, values, g->value_count * sizeof *values);
    double **results = MG_NEW_ARRAY(arena, double *, g->value_count);
    enum mg_code code = mg_exec_graph(g, seed, values, arena, err);
    if (!code)
        code = mg_exec_plan(g, plan, seed, given, results, arena, err);
    *difference = 0;
    for (size_t v = 0; v < g->value_count && !code; v++) {
        if (!results[v])
            continue;
        double d = largest_difference(values[v], results[v], mg_shape_elements(&g->values[v].shape));
        *difference = d <= *difference ? *difference : d;
    }
    return code;
}
