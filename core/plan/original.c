/* The original: what an eager framework does (MODEL.md, The original). Operators in the order
 * of the graph, each storage freed right after its last reader, in place only where the graph says so. */
#include "plan/builder.h"

struct original {
    const struct mg_graph *g;
    struct mg_plan_builder *b;
    uint32_t *instance; /* by base value */
    uint32_t *last_use; /* by base value: operators that still hold its storage: last index + 1 */
    bool *kept;         /* by base value: resident or graph output, never freed */
};

static void note_use(struct original *o, mg_value value, mg_op op)
{
    mg_value base = o->g->values[value].base;
    if (o->last_use[base] < op + 1)
        o->last_use[base] = op + 1;
}

static void find_uses(struct original *o)
{
    const struct mg_graph *g = o->g;
    for (mg_op op = 0; op < g->op_count; op++) {
        if (g->ops[op].is_view)
            continue; /* no step, so no use either: the readers of its result are */
        for (uint32_t i = 0; i < g->ops[op].in_count; i++)
            note_use(o, g->ops[op].in[i], op);
        for (uint32_t i = 0; i < g->ops[op].out_count; i++)
            note_use(o, g->ops[op].out[i], op);
    }
    for (mg_value v = 0; v < g->value_count; v++) {
        const struct mg_value_info *info = &g->values[v];
        bool resident = info->kind != MG_KIND_COMPUTED && info->kind != MG_KIND_INPUT && info->home == MG_HOME_DEVICE;
        bool update = info->update_of != MG_NONE && g->values[info->update_of].home == MG_HOME_DEVICE;
        if (resident || update || info->is_output)
            o->kept[info->base] = true;
    }
}

/* Frees the bases among `values` whose last use this is and whose storage nobody else has taken. */
static void free_dead(struct original *o, const mg_value *values, uint32_t count, mg_op op)
{
    for (uint32_t i = 0; i < count; i++) {
        mg_value base = o->g->values[values[i]].base;
        if (o->instance[base] == MG_NONE || o->kept[base] || o->last_use[base] != op + 1)
            continue;
        mg_plan_builder_free(o->b, o->instance[base]);
        o->instance[base] = MG_NONE;
    }
}

static uint32_t operand(struct original *o, mg_value value)
{
    mg_value base = o->g->values[value].base;
    if (o->instance[base] == MG_NONE && o->g->values[base].home == MG_HOME_HOST)
        o->instance[base] = mg_plan_builder_load_home(o->b, base);
    return o->instance[base];
}

/* The storage of an operand that a result took in place is no longer the operand's to free. */
static void hand_over(struct original *o, const struct mg_op_info *info, uint32_t result)
{
    for (uint32_t i = 0; i < info->in_count; i++) {
        uint32_t *old = &o->instance[o->g->values[info->in[i]].base];
        if (*old != MG_NONE && *old != result && mg_plan_builder_same_storage(o->b, *old, result))
            *old = MG_NONE;
    }
}

static void run_op(struct original *o, mg_op op, struct mg_arena *arena)
{
    const struct mg_op_info *info = &o->g->ops[op];
    uint32_t *in = MG_NEW_ARRAY(arena, uint32_t, info->in_count), *out = MG_NEW_ARRAY(arena, uint32_t, info->out_count);
    for (uint32_t i = 0; i < info->in_count; i++)
        in[i] = operand(o, info->in[i]);
    for (uint32_t i = 0; i < info->out_count; i++)
        out[i] = MG_NONE;
    mg_plan_builder_compute(o->b, op, in, out);
    for (uint32_t i = 0; i < info->out_count; i++) {
        mg_value updates = o->g->values[info->out[i]].update_of;
        o->instance[info->out[i]] = out[i];
        hand_over(o, info, out[i]);
        if (updates != MG_NONE && o->g->values[updates].home == MG_HOME_HOST)
            mg_plan_builder_store(o->b, out[i]);
    }
    free_dead(o, info->in, info->in_count, op);
    free_dead(o, info->out, info->out_count, op);
}

struct building {
    const struct mg_graph *g;
    const struct mg_device *device;
    struct mg_pricer *pricer;
    struct mg_arena *arena;
    struct mg_plan **out;
};

static enum mg_code build(void *context, struct mg_error *err)
{
    struct building *c = context;
    size_t values = c->g->value_count;
    struct original o = {.g = c->g, .b = mg_plan_builder_new(c->g, c->device, c->arena)};
    o.instance = MG_NEW_ARRAY(c->arena, uint32_t, values);
    o.last_use = MG_NEW_ARRAY(c->arena, uint32_t, values);
    o.kept = MG_NEW_ARRAY(c->arena, bool, values);
    mg_plan_builder_set_pricer(o.b, c->pricer);
    find_uses(&o);
    for (mg_value v = 0; v < values; v++)
        o.instance[v] = mg_plan_builder_initial(o.b, v);
    for (mg_op op = 0; op < c->g->op_count; op++)
        if (!c->g->ops[op].is_view)
            run_op(&o, op, c->arena);
    return mg_plan_builder_finish(o.b, NULL, c->out, err);
}

enum mg_code mg_plan_original(const struct mg_graph *g, const struct mg_device *device, struct mg_arena *arena,
                              struct mg_plan **out, struct mg_error *err)
{
    return mg_plan_original_priced(g, device, NULL, arena, out, err);
}

enum mg_code mg_plan_original_priced(const struct mg_graph *g, const struct mg_device *device, struct mg_pricer *pricer,
                                     struct mg_arena *arena, struct mg_plan **out, struct mg_error *err)
{
    struct building context = {g, device, pricer, arena, out};
    return mg_arena_guard(arena, build, &context, err);
}
