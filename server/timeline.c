/* A storage is live from the first step that makes an instance on it (or from the start) up to the
 * step that frees one; workspace is live for its step. Sums over a difference array per kind. */
#include "server/timeline.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 24 };

static const char *const kind_names[MG_MEMORY_KINDS] = {"weights", "activations", "gradients", "workspace", "other"};

/* Where the backward pass begins: known from autodiff; in a graph that was read, the first operator
 * that is a gradient by its type. */
static mg_op backward_start(const struct mg_graph *g)
{
    if (g->forward_ops < g->op_count)
        return g->forward_ops;
    for (mg_op op = 0; op < g->op_count; op++)
        if (strstr(mg_op_type_name(g->ops[op].type), "_grad"))
            return op;
    return (mg_op)g->op_count;
}

static enum mg_memory_kind kind_of(const struct mg_graph *g, mg_value value, mg_op backward)
{
    const struct mg_value_info *info = &g->values[value];
    switch (info->kind) {
    case MG_KIND_WEIGHT:
    case MG_KIND_STATE:
        return MG_MEMORY_WEIGHTS;
    case MG_KIND_COMPUTED:
        break;
    default:
        return MG_MEMORY_OTHER;
    }
    if (info->update_of != MG_NONE)
        return MG_MEMORY_WEIGHTS;
    return info->producer < backward ? MG_MEMORY_ACTIVATIONS : MG_MEMORY_GRADIENTS;
}

struct life {
    uint32_t from, to; /* live in [from, to) */
    uint32_t instance; /* the first that is no view */
};

static struct life *lives_of(const struct mg_plan *plan, struct mg_arena *arena)
{
    struct life *lives = MG_NEW_ARRAY(arena, struct life, plan->storage_count);
    for (size_t s = 0; s < plan->storage_count; s++)
        lives[s] = (struct life){MG_NONE, (uint32_t)plan->step_count, MG_NONE};
    for (uint32_t i = 0; i < plan->instance_count; i++) {
        const struct mg_instance *instance = &plan->instances[i];
        if (instance->view_of != MG_NONE || instance->storage >= plan->storage_count)
            continue;
        struct life *life = &lives[instance->storage];
        uint32_t from = instance->made_by == MG_NONE ? 0 : instance->made_by;
        if (life->instance == MG_NONE || from < life->from) {
            life->from = from;
            life->instance = i;
        }
    }
    for (uint32_t at = 0; at < plan->step_count; at++) {
        const struct mg_step *step = &plan->steps[at];
        if (step->kind == MG_STEP_FREE && step->in_count == 1) {
            uint32_t storage = plan->instances[plan->refs[step->in]].storage;
            if (storage < plan->storage_count)
                lives[storage].to = at;
        }
    }
    return lives;
}

static uint64_t workspace_of(const struct mg_plan *plan, const struct mg_step *step)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < step->price_count; i++) {
        uint64_t bytes = plan->prices[plan->refs[step->price + i]].workspace;
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t *mg_timeline_by_kind(const struct mg_graph *original, const struct mg_plan *plan, struct mg_arena *arena)
{
    const struct mg_graph *g = mg_plan_graph(original, plan);
    size_t steps = plan->step_count;
    uint64_t *live = MG_NEW_ARRAY(arena, uint64_t, (steps + 1) * MG_MEMORY_KINDS);
    struct life *lives = lives_of(plan, arena);
    mg_op backward = backward_start(g);
    for (size_t s = 0; s < plan->storage_count; s++) {
        if (lives[s].instance == MG_NONE || lives[s].from >= lives[s].to)
            continue;
        enum mg_memory_kind kind = kind_of(g, plan->instances[lives[s].instance].value, backward);
        live[lives[s].from * MG_MEMORY_KINDS + kind] += plan->storages[s].bytes;
        live[lives[s].to * MG_MEMORY_KINDS + kind] -= plan->storages[s].bytes; /* wraps, and back in the sum */
    }
    for (size_t at = MG_MEMORY_KINDS; at < steps * MG_MEMORY_KINDS; at++)
        live[at] += live[at - MG_MEMORY_KINDS];
    for (size_t at = 0; at < steps; at++)
        live[at * MG_MEMORY_KINDS + MG_MEMORY_WORKSPACE] += workspace_of(plan, &plan->steps[at]);
    return live;
}

/* ---- hot spots ---- */

struct hot {
    uint64_t bytes;
    uint32_t instance;
};

static int by_bytes(const void *a, const void *b)
{
    const struct hot *p = a, *q = b;
    if (p->bytes != q->bytes)
        return p->bytes > q->bytes ? -1 : 1;
    return p->instance < q->instance ? -1 : 1;
}

static void write_shape(struct mg_writer *w, const struct mg_shape *shape)
{
    mg_write_key(w, "shape");
    mg_write_begin_array(w);
    for (uint32_t d = 0; d < shape->rank; d++)
        mg_write_int(w, shape->dim[d]);
    mg_write_end_array(w);
}

/* NULL where it is given. */
static const struct mg_op_info *producer_of(const struct mg_graph *g, mg_value value)
{
    mg_op producer = g->values[value].producer;
    return producer == MG_NONE ? NULL : &g->ops[producer];
}

/* What computes it, and in which module. */
static void write_place(struct mg_writer *w, const struct mg_op_info *op)
{
    mg_write_member_string(w, "op", op ? mg_op_type_name(op->type) : "");
    mg_write_member_string(w, "module", op ? op->module : "");
}

static void write_hot_value(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                            const struct hot *hot, mg_op backward)
{
    const struct mg_instance *instance = &plan->instances[hot->instance];
    const struct mg_value_info *info = &g->values[instance->value];
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", info->name);
    mg_write_member_string(w, "kind", kind_names[kind_of(g, instance->value, backward)]);
    mg_write_member_uint(w, "bytes", hot->bytes);
    write_shape(w, &instance->shape);
    mg_write_member_string(w, "dtype", mg_dtype_name(info->dtype));
    const struct mg_op_info *op = producer_of(g, instance->value);
    if (op) {
        mg_write_member_string(w, "producer", op->name);
        write_place(w, op);
    }
    mg_write_end_object(w);
}

/* Values of one kind that one type of operator makes in modules whose paths differ in numbers only; where the graph
 * names no module, values whose names do: "layer.*.attention". */
struct group {
    const char *pattern; /* numbers as * */
    const char *shown;   /* the pattern, or with its numbers what all have in common */
    const char *op;      /* "": grouped by names */
    enum mg_memory_kind kind;
    uint64_t bytes;
    uint32_t count;
};

static const char *pattern_of(const char *name, struct mg_arena *scratch)
{
    char *out = mg_arena_alloc(scratch, strlen(name) + 1), *to = out;
    for (const char *at = name; *at; at++) {
        bool digit = *at >= '0' && *at <= '9';
        if (!digit)
            *to++ = *at;
        else if (to == out || to[-1] != '*')
            *to++ = '*';
    }
    *to = '\0';
    return out;
}

static struct group group_of(const struct mg_graph *g, mg_value value, uint64_t bytes, mg_op backward,
                             struct mg_arena *scratch)
{
    const struct mg_op_info *op = producer_of(g, value);
    bool has_module = op && *op->module;
    const char *name = has_module ? op->module : g->values[value].name;
    return (struct group){.pattern = pattern_of(name, scratch),
                          .shown = name,
                          .op = has_module ? mg_op_type_name(op->type) : "",
                          .kind = kind_of(g, value, backward),
                          .bytes = bytes,
                          .count = 1};
}

static int by_group(const void *a, const void *b)
{
    const struct group *p = a, *q = b;
    int order = strcmp(p->pattern, q->pattern);
    order = order ? order : strcmp(p->op, q->op);
    return order ? order : (int)p->kind - (int)q->kind;
}

static int by_group_bytes(const void *a, const void *b)
{
    const struct group *p = a, *q = b;
    if (p->bytes != q->bytes)
        return p->bytes > q->bytes ? -1 : 1;
    return by_group(a, b);
}

static size_t merge_groups(struct group *groups, size_t count)
{
    size_t kept = 0;
    qsort(groups, count, sizeof *groups, by_group);
    for (size_t i = 0; i < count; i++) {
        struct group *last = kept ? &groups[kept - 1] : NULL;
        if (last && by_group(last, &groups[i]) == 0) {
            last->shown = strcmp(last->shown, groups[i].shown) == 0 ? last->shown : last->pattern;
            last->bytes += groups[i].bytes;
            last->count++;
        } else {
            groups[kept++] = groups[i];
        }
    }
    qsort(groups, kept, sizeof *groups, by_group_bytes);
    return kept;
}

static void write_groups(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                         const struct hot *hot, size_t count, struct mg_arena *scratch)
{
    struct group *groups = MG_NEW_ARRAY(scratch, struct group, count + 1);
    mg_op backward = backward_start(g);
    for (size_t i = 0; i < count; i++)
        groups[i] = group_of(g, plan->instances[hot[i].instance].value, hot[i].bytes, backward, scratch);
    size_t kept = merge_groups(groups, count);
    mg_write_key(w, "hot_groups");
    mg_write_begin_array(w);
    for (size_t i = 0; i < kept && i < MAX_GROUPS; i++) {
        mg_write_begin_object(w);
        mg_write_member_string(w, "name", groups[i].shown);
        mg_write_member_string(w, "module", *groups[i].op ? groups[i].shown : "");
        mg_write_member_string(w, "op", groups[i].op);
        mg_write_member_string(w, "kind", kind_names[groups[i].kind]);
        mg_write_member_uint(w, "count", groups[i].count);
        mg_write_member_uint(w, "bytes", groups[i].bytes);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static size_t collect_hot(const struct mg_plan *plan, const struct mg_simulation *simulation, struct hot *hot,
                          struct mg_arena *scratch)
{
    bool *seen = MG_NEW_ARRAY(scratch, bool, plan->storage_count);
    size_t count = 0;
    for (size_t i = 0; i < simulation->hot_count; i++) {
        const struct mg_instance *instance = &plan->instances[simulation->hot[i]];
        if (instance->storage >= plan->storage_count || seen[instance->storage] || instance->view_of != MG_NONE)
            continue;
        seen[instance->storage] = true;
        hot[count++] = (struct hot){plan->storages[instance->storage].bytes, simulation->hot[i]};
    }
    if (count)
        qsort(hot, count, sizeof *hot, by_bytes);
    return count;
}

void mg_timeline_write_hot(struct mg_writer *w, const struct mg_graph *original, const struct mg_plan *plan,
                           const struct mg_simulation *simulation, size_t most, struct mg_arena *scratch)
{
    const struct mg_graph *g = mg_plan_graph(original, plan);
    struct hot *hot = MG_NEW_ARRAY(scratch, struct hot, simulation->hot_count + 1);
    size_t count = collect_hot(plan, simulation, hot, scratch);
    mg_op backward = backward_start(g);
    mg_write_member_uint(w, "hot_count", count);
    mg_write_key(w, "hot");
    mg_write_begin_array(w);
    for (size_t i = 0; i < count && i < most; i++)
        write_hot_value(w, g, plan, &hot[i], backward);
    mg_write_end_array(w);
    write_groups(w, g, plan, hot, count, scratch);
}

/* ---- what the plan does ---- */

/* The moment after a free is shown by the step that follows it. */
static bool is_point(const struct mg_plan *plan, size_t at)
{
    return plan->steps[at].kind != MG_STEP_FREE || at + 1 == plan->step_count;
}

struct span {
    size_t from, to;
};

/* The points of each region's begin and end: a page draws the body between them once for each part. */
static const struct span *region_spans(const struct mg_plan *plan, struct mg_arena *scratch)
{
    struct span *spans = MG_NEW_ARRAY(scratch, struct span, plan->region_count + 1);
    size_t points = 0;
    for (size_t at = 0; at < plan->step_count; at++) {
        const struct mg_step *step = &plan->steps[at];
        if (step->kind == MG_STEP_BEGIN)
            spans[step->op].from = points;
        if (step->kind == MG_STEP_END)
            spans[step->op].to = points;
        points += is_point(plan, at);
    }
    return spans;
}

static void write_regions(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                          struct mg_arena *scratch)
{
    const struct span *spans = region_spans(plan, scratch);
    mg_write_key(w, "regions");
    mg_write_begin_array(w);
    for (size_t i = 0; i < plan->region_count; i++) {
        const struct mg_region *region = &plan->regions[i];
        mg_write_begin_object(w);
        mg_write_member_uint(w, "id", i);
        mg_write_key(w, "parent");
        if (region->parent == MG_NONE)
            mg_write_null(w);
        else
            mg_write_uint(w, region->parent);
        mg_write_member_uint(w, "parts", region->parts);
        mg_write_member_int(w, "length", region->length);
        mg_write_member_uint(w, "operators", region->op_count);
        mg_write_member_uint(w, "from_point", spans[i].from);
        mg_write_member_uint(w, "to_point", spans[i].to);
        if (region->op_count) {
            const struct mg_region_op *first = &region->ops[0], *last = &region->ops[region->op_count - 1];
            uint32_t axes = 0;
            const struct mg_axis *axis = mg_op_axes(g, first->op, &axes);
            mg_write_member_string(w, "first", g->ops[first->op].name);
            mg_write_member_string(w, "first_module", g->ops[first->op].module);
            mg_write_member_string(w, "last", g->ops[last->op].name);
            mg_write_member_string(w, "last_module", g->ops[last->op].module);
            mg_write_member_string(w, "axis", first->axis < axes ? axis[first->axis].name : "");
        }
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static void write_count_entry(struct mg_writer *w, const char *name, const struct mg_op_info *op, uint32_t times,
                              uint64_t bytes)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", name);
    write_place(w, op);
    mg_write_member_uint(w, "times", times);
    mg_write_member_uint(w, "bytes", bytes);
    mg_write_end_object(w);
}

/* Operators that stand in the list more than once. */
static void write_recomputed(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                             struct mg_arena *scratch)
{
    uint32_t *times = MG_NEW_ARRAY(scratch, uint32_t, g->op_count);
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == MG_STEP_COMPUTE && plan->steps[i].op < g->op_count)
            times[plan->steps[i].op]++;
    mg_write_key(w, "recomputed");
    mg_write_begin_array(w);
    for (mg_op op = 0; op < g->op_count; op++)
        if (times[op] > 1) {
            uint64_t bytes = 0;
            for (uint32_t k = 0; k < g->ops[op].out_count; k++)
                bytes += g->values[g->ops[op].out[k]].bytes;
            write_count_entry(w, g->ops[op].name, &g->ops[op], times[op] - 1, bytes);
        }
    mg_write_end_array(w);
}

static void write_swapped(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                          struct mg_arena *scratch)
{
    uint32_t *loads = MG_NEW_ARRAY(scratch, uint32_t, g->value_count);
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct mg_step *step = &plan->steps[i];
        if (step->kind == MG_STEP_LOAD && step->out_count == 1)
            loads[plan->instances[plan->refs[step->out]].value]++;
    }
    mg_write_key(w, "swapped");
    mg_write_begin_array(w);
    for (mg_value value = 0; value < g->value_count; value++)
        if (loads[value])
            write_count_entry(w, g->values[value].name, producer_of(g, value), loads[value], g->values[value].bytes);
    mg_write_end_array(w);
}

/* ---- the whole ---- */

static void write_points(struct mg_writer *w, const struct mg_plan *plan, const struct mg_simulation *simulation,
                         const uint64_t *live)
{
    mg_write_key(w, "kinds");
    mg_write_begin_array(w);
    for (unsigned kind = 0; kind < MG_MEMORY_KINDS; kind++)
        mg_write_string(w, kind_names[kind]);
    mg_write_end_array(w);
    mg_write_key(w, "points");
    mg_write_begin_array(w);
    for (size_t at = 0; at < plan->step_count; at++) {
        if (!is_point(plan, at))
            continue;
        mg_write_begin_array(w);
        mg_write_double(w, simulation->timeline[at].start_s);
        for (unsigned kind = 0; kind < MG_MEMORY_KINDS; kind++)
            mg_write_uint(w, live[at * MG_MEMORY_KINDS + kind]);
        mg_write_end_array(w);
    }
    mg_write_end_array(w);
}

static void write_peak(struct mg_writer *w, const struct mg_plan *plan, const struct mg_simulation *simulation)
{
    size_t at = 0;
    while (at < plan->step_count && simulation->timeline[at].live_bytes != simulation->peak_bytes)
        at++;
    if (at == plan->step_count)
        return;
    mg_write_key(w, "peak");
    mg_write_begin_object(w);
    mg_write_member_double(w, "at_s", simulation->timeline[at].start_s);
    mg_write_member_uint(w, "step", at);
    mg_write_end_object(w);
}

enum mg_code mg_timeline_write(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                               struct mg_arena *scratch, struct mg_error *err)
{
    struct mg_simulation simulation;
    enum mg_code code = mg_plan_simulate(g, plan, scratch, &simulation, err);
    if (code != MG_OK)
        return code;
    const uint64_t *live = mg_timeline_by_kind(g, plan, scratch);
    mg_write_begin_object(w);
    mg_write_member_uint(w, "peak_bytes", simulation.peak_bytes);
    mg_write_member_double(w, "latency_s", simulation.latency_s);
    mg_write_member_uint(w, "host_bytes", simulation.host_bytes);
    mg_write_member_uint(w, "steps", plan->step_count);
    write_peak(w, plan, &simulation);
    write_points(w, plan, &simulation, live);
    mg_timeline_write_hot(w, g, plan, &simulation, 200, scratch);
    g = mg_plan_graph(g, plan);
    write_regions(w, g, plan, scratch);
    write_recomputed(w, g, plan, scratch);
    write_swapped(w, g, plan, scratch);
    mg_write_end_object(w);
    return MG_OK;
}
