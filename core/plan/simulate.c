/* The plan's simulator: memory by S3 and R3, time by S4, S6 and R2, as literally as they are written.
 * It is the slow, readable one that faster evaluations are held against.
 *
 * Memory is a function of the list alone: a storage is live from the first step that makes an instance
 * in it up to, not including, its free; a region's body counts once, with part 0's extents.
 *
 * Time walks the list with a clock for each stream. A region's part 0 is walked step by step. Of the
 * other parts one of each distinct extent is walked from a common start and its duration multiplied:
 * all that is local to a part is freed in its body, so by F nothing of a part reaches into the next,
 * and the first step of the body has waited for all that came before the region (R2). Nested regions
 * recurse. O(steps * 3^depth). */
#include "plan/plan_priv.h"

struct tuple_list {
    const struct mg_nest *nests;
    uint32_t count;
};

struct walk {
    const struct mg_graph *g;
    const struct mg_plan *plan;
    struct tuple_list *tuples; /* by region + 1 */
    uint32_t *fresh;           /* by storage: the step that first made it, MG_NONE = there before */
    uint32_t *end_of;          /* by region: position of its end */
    uint32_t *begun_by;        /* by instance: region whose begin allocated it, or MG_NONE */
    struct mg_nest nest;
    bool record;                        /* first visit of the steps: fills the timeline */
    double compute, to_host, to_device; /* ends of the streams */
    double freed;                       /* F */
    double latest;
    double *made;    /* by instance */
    double *touched; /* by storage */
    double *host;    /* by value: end of its store */
    struct mg_timeline_point *timeline;
};

static double max2(double a, double b)
{
    return a > b ? a : b;
}

static const uint32_t *step_in(const struct walk *w, const struct mg_step *step)
{
    return w->plan->refs + step->in;
}

static const uint32_t *step_out(const struct walk *w, const struct mg_step *step)
{
    return w->plan->refs + step->out;
}

static uint32_t innermost(const struct walk *w)
{
    return w->nest.depth ? w->nest.part[w->nest.depth - 1].region : MG_NONE;
}

static uint32_t tuple_index(const struct walk *w, uint32_t *count)
{
    uint32_t region = innermost(w);
    const struct tuple_list *list = &w->tuples[region == MG_NONE ? 0 : region + 1];
    uint32_t t = 0;
    *count = list->count;
    while (t + 1 < list->count && !mg_nest_same_tuple(&list->nests[t], &w->nest))
        t++;
    return t;
}

/* R6: part 0 of every region, from the innermost out to that which began `whole`, in which the
 * result has no axis. */
static bool first_part(const struct walk *w, uint32_t whole)
{
    const struct mg_value_info *info = &w->g->values[w->plan->instances[whole].value];
    for (uint32_t d = w->nest.depth; d-- > 0;) {
        const struct mg_part *part = &w->nest.part[d];
        if (part->index != 0 && mg_region_reduces(w->g, &w->plan->regions[part->region], info->producer, info->slot))
            return false;
        if (part->region == w->begun_by[whole])
            break;
    }
    return true;
}

/* The step's price at this place; 0 for an acc that a first part has no need of. */
static double step_seconds(const struct walk *w, const struct mg_step *step)
{
    uint32_t tuples, at = tuple_index(w, &tuples);
    if (!step->price_count)
        return 0;
    if (step->kind == MG_STEP_ACC && first_part(w, step_in(w, step)[1])) {
        if (step->price_count == tuples)
            return 0;
        at += tuples;
    }
    return w->plan->prices[w->plan->refs[step->price + at]].seconds;
}

static double *stream_of(struct walk *w, enum mg_step_kind kind)
{
    bool copy = kind == MG_STEP_STORE || kind == MG_STEP_LOAD;
    if (!copy || w->plan->device.copy_streams == 0)
        return &w->compute;
    return kind == MG_STEP_STORE || w->plan->device.copy_streams == 1 ? &w->to_host : &w->to_device;
}

static bool in_place_result(const struct walk *w, uint32_t step, uint32_t instance)
{
    const struct mg_instance *out = &w->plan->instances[instance];
    return out->made_by == step && w->fresh[out->storage] != step;
}

/* When the instance was made; a view is made with its base. */
static double ready(const struct walk *w, uint32_t instance)
{
    uint32_t base = w->plan->instances[instance].view_of;
    return w->made[base == MG_NONE ? instance : base];
}

/* S4: the latest of all that the step waits for. */
static double start_of(struct walk *w, uint32_t at)
{
    const struct mg_step *step = &w->plan->steps[at];
    double start = max2(max2(*stream_of(w, step->kind), w->compute), w->freed);
    if (step->kind == MG_STEP_LOAD)
        return max2(start, w->host[w->plan->instances[*step_out(w, step)].value]);
    for (uint32_t i = 0; i < step->in_count; i++)
        start = max2(start, ready(w, step_in(w, step)[i]));
    for (uint32_t i = 0; i < step->out_count; i++) {
        uint32_t out = step_out(w, step)[i];
        if (in_place_result(w, at, out))
            start = max2(start, w->touched[w->plan->instances[out].storage]);
    }
    return start;
}

static void touch(struct walk *w, uint32_t instance, double end)
{
    double *touched = &w->touched[w->plan->instances[instance].storage];
    *touched = max2(*touched, end);
}

static void visit(struct walk *w, uint32_t at)
{
    const struct mg_step *step = &w->plan->steps[at];
    double start = start_of(w, at), end = start + step_seconds(w, step);
    *stream_of(w, step->kind) = end;
    w->latest = max2(w->latest, end);
    for (uint32_t i = 0; i < step->in_count && step->kind != MG_STEP_LOAD; i++)
        touch(w, step_in(w, step)[i], end);
    for (uint32_t i = 0; i < step->out_count; i++) {
        touch(w, step_out(w, step)[i], end);
        w->made[step_out(w, step)[i]] = end;
    }
    if (step->kind == MG_STEP_JOIN || step->kind == MG_STEP_ACC)
        w->made[step_in(w, step)[1]] = end;
    if (step->kind == MG_STEP_STORE)
        w->host[w->plan->instances[*step_in(w, step)].value] = end;
    if (w->record)
        w->timeline[at].start_s = start;
}

static void walk_steps(struct walk *w, uint32_t from, uint32_t to);

static void visit_free(struct walk *w, uint32_t at)
{
    const struct mg_step *step = &w->plan->steps[at];
    w->freed = max2(w->freed, w->touched[w->plan->instances[*step_in(w, step)].storage]);
    if (w->record)
        w->timeline[at].start_s = w->compute;
}

static void walk_part(struct walk *w, uint32_t region, uint32_t index, uint32_t begin)
{
    mg_nest_enter(w->plan->regions, &w->nest, region, index);
    walk_steps(w, begin + 1, w->end_of[region]);
    w->nest.depth--;
}

/* `count` parts alike, of which part `index` is one: one is walked, the others take as long. */
static void walk_alike(struct walk *w, uint32_t region, uint32_t index, uint32_t count, uint32_t begin)
{
    if (!count)
        return;
    bool record = w->record;
    double start = max2(w->compute, w->freed);
    w->record = false;
    w->compute = w->freed = start;
    walk_part(w, region, index, begin);
    double duration = max2(w->compute, w->freed) - start;
    w->compute = w->freed = start + (double)count * duration;
    w->latest = max2(w->latest, w->compute);
    w->record = record;
}

static void walk_region(struct walk *w, uint32_t region, uint32_t begin)
{
    uint32_t parts = w->plan->regions[region].parts;
    uint32_t second = mg_nest_second_class(w->plan->regions, &w->nest, region);
    if (w->record)
        w->timeline[begin].start_s = w->compute;
    walk_part(w, region, 0, begin);
    walk_alike(w, region, 1, second - 1, begin);
    walk_alike(w, region, second, parts - second, begin);
    if (w->record)
        w->timeline[w->end_of[region]].start_s = w->compute;
}

static void walk_steps(struct walk *w, uint32_t from, uint32_t to)
{
    for (uint32_t at = from; at < to; at++) {
        const struct mg_step *step = &w->plan->steps[at];
        if (step->kind == MG_STEP_FREE) {
            visit_free(w, at);
        } else if (step->kind == MG_STEP_BEGIN) {
            walk_region(w, step->op, at);
            at = w->end_of[step->op];
        } else {
            visit(w, at);
        }
    }
}

static struct walk *new_walk(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena)
{
    struct walk *w = MG_NEW(arena, struct walk);
    w->g = g;
    w->plan = plan;
    w->record = true;
    w->tuples = MG_NEW_ARRAY(arena, struct tuple_list, plan->region_count + 1);
    w->tuples[0].nests = mg_nest_tuples(plan->regions, MG_NONE, arena, &w->tuples[0].count);
    for (uint32_t r = 0; r < plan->region_count; r++)
        w->tuples[r + 1].nests = mg_nest_tuples(plan->regions, r, arena, &w->tuples[r + 1].count);
    w->fresh = MG_NEW_ARRAY(arena, uint32_t, plan->storage_count);
    w->end_of = MG_NEW_ARRAY(arena, uint32_t, plan->region_count);
    w->begun_by = MG_NEW_ARRAY(arena, uint32_t, plan->instance_count);
    w->made = MG_NEW_ARRAY(arena, double, plan->instance_count);
    w->touched = MG_NEW_ARRAY(arena, double, plan->storage_count);
    w->host = MG_NEW_ARRAY(arena, double, g->value_count);
    w->timeline = MG_NEW_ARRAY(arena, struct mg_timeline_point, plan->step_count);
    return w;
}

/* ---- memory ---- */
const struct mg_interval *mg_plan_intervals(const struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_interval *live = MG_NEW_ARRAY(arena, struct mg_interval, plan->storage_count);
    for (size_t s = 0; s < plan->storage_count; s++)
        live[s] = (struct mg_interval){MG_NONE, (uint32_t)plan->step_count, MG_NONE};
    for (size_t i = 0; i < plan->instance_count; i++) {
        struct mg_interval *at = &live[plan->instances[i].storage];
        uint32_t made_by = plan->instances[i].made_by;
        if (at->lower == MG_NONE || made_by == MG_NONE || (at->made_by != MG_NONE && made_by < at->made_by)) {
            at->made_by = made_by;
            at->lower = made_by == MG_NONE ? 0 : made_by;
        }
    }
    for (uint32_t s = 0; s < plan->step_count; s++)
        if (plan->steps[s].kind == MG_STEP_FREE)
            live[plan->instances[plan->refs[plan->steps[s].in]].storage].upper = s;
    return live;
}

uint64_t mg_step_workspace(const struct mg_plan *plan, const struct mg_step *step)
{
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < step->price_count; p++) {
        uint64_t need = plan->prices[plan->refs[step->price + p]].workspace;
        bytes = need > bytes ? need : bytes;
    }
    return mg_device_storage(&plan->device, bytes);
}

static uint64_t fill_live_bytes(const struct mg_plan *plan, const struct mg_interval *live,
                                struct mg_timeline_point *timeline, struct mg_arena *arena)
{
    uint64_t *change = MG_NEW_ARRAY(arena, uint64_t, plan->step_count + 1), now = 0, peak = 0;
    for (size_t s = 0; s < plan->storage_count; s++) {
        if (live[s].lower == MG_NONE)
            continue;
        change[live[s].lower] += plan->storages[s].bytes;
        change[live[s].upper] -= plan->storages[s].bytes; /* wraps and comes back in the prefix sum */
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        now += change[s];
        timeline[s].step = s;
        timeline[s].live_bytes = now + mg_step_workspace(plan, &plan->steps[s]);
        peak = timeline[s].live_bytes > peak ? timeline[s].live_bytes : peak;
    }
    return peak;
}

/* The instance's last step: that before its storage's free, or the one that overwrites it in place. */
static uint32_t *last_steps(const struct mg_plan *plan, const struct mg_interval *live, struct mg_arena *arena)
{
    uint32_t *last = MG_NEW_ARRAY(arena, uint32_t, plan->instance_count);
    uint32_t *newest = MG_NEW_ARRAY(arena, uint32_t, plan->storage_count);
    for (size_t s = 0; s < plan->storage_count; s++)
        newest[s] = MG_NONE;
    for (uint32_t i = 0; i < plan->instance_count; i++) {
        const struct mg_instance *instance = &plan->instances[i];
        last[i] = live[instance->storage].upper;
        if (instance->view_of != MG_NONE)
            continue;
        if (newest[instance->storage] != MG_NONE)
            last[newest[instance->storage]] = instance->made_by + 1;
        newest[instance->storage] = i;
    }
    return last;
}

static void fill_hot(const struct mg_plan *plan, const struct mg_interval *live, struct mg_simulation *out,
                     struct mg_arena *arena)
{
    uint32_t *hot_before = MG_NEW_ARRAY(arena, uint32_t, plan->step_count + 1);
    const uint32_t *last = last_steps(plan, live, arena);
    for (size_t s = 0; s < plan->step_count; s++)
        hot_before[s + 1] = hot_before[s] + (out->timeline[s].live_bytes == out->peak_bytes);
    out->hot = MG_NEW_ARRAY(arena, uint32_t, plan->instance_count);
    for (uint32_t i = 0; i < plan->instance_count; i++) {
        const struct mg_instance *instance = &plan->instances[i];
        uint32_t from = instance->made_by == MG_NONE ? 0 : instance->made_by;
        if (instance->view_of == MG_NONE && from < last[i] && hot_before[last[i]] > hot_before[from])
            out->hot[out->hot_count++] = i;
    }
}

/* S5: distinct stored values, unrounded, with part 0's extents. */
static uint64_t host_bytes(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena)
{
    bool *stored = MG_NEW_ARRAY(arena, bool, g->value_count);
    uint64_t bytes = 0;
    for (size_t s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].kind != MG_STEP_STORE)
            continue;
        const struct mg_instance *of = &plan->instances[plan->refs[plan->steps[s].in]];
        if (!stored[of->value])
            bytes += (uint64_t)mg_shape_elements(&of->shape) * mg_dtype_size(g->values[of->value].dtype);
        stored[of->value] = true;
    }
    return bytes;
}

struct simulating {
    const struct mg_graph *g;
    const struct mg_plan *plan;
    struct mg_arena *arena;
    struct mg_simulation *out;
};

static void index_plan(struct walk *w, const struct mg_interval *live)
{
    const struct mg_plan *plan = w->plan;
    for (size_t s = 0; s < plan->storage_count; s++)
        w->fresh[s] = live[s].made_by;
    for (size_t i = 0; i < plan->instance_count; i++)
        w->begun_by[i] = MG_NONE;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        if (step->kind == MG_STEP_END)
            w->end_of[step->op] = s;
        for (uint32_t i = 0; i < step->out_count && step->kind == MG_STEP_BEGIN; i++)
            w->begun_by[step_out(w, step)[i]] = step->op;
    }
}

static enum mg_code simulate(void *context, struct mg_error *err)
{
    struct simulating *s = context;
    const struct mg_interval *live = mg_plan_intervals(s->plan, s->arena);
    struct walk *w = new_walk(s->g, s->plan, s->arena);
    (void)err;
    index_plan(w, live);
    walk_steps(w, 0, (uint32_t)s->plan->step_count);
    *s->out = (struct mg_simulation){.latency_s = w->latest, .timeline = w->timeline};
    s->out->peak_bytes = fill_live_bytes(s->plan, live, w->timeline, s->arena);
    s->out->host_bytes = host_bytes(s->g, s->plan, s->arena);
    fill_hot(s->plan, live, s->out, s->arena);
    return MG_OK;
}

enum mg_code mg_plan_simulate(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                              struct mg_simulation *out, struct mg_error *err)
{
    struct simulating context = {mg_plan_graph(g, plan), plan, arena, out};
    return mg_arena_guard(arena, simulate, &context, err);
}
