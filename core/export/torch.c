/* format=torch: the module around the steps. */
#include "export/torch_priv.h"

/* ---- what the module begins with ---- */

static const char usage[] =
    "#\n"
    "# step(inputs, weights) runs it. Both are dicts from names to tensors: the graph's inputs; its weights, "
    "optimizer\n"
    "# states and constants. Each input is taken out of its dict, so that its memory can end where the plan says.\n"
    "# Updated weights and states are changed in place; the outputs come back as a dict. To compute in another\n"
    "# precision change DTYPE beforehand. Give `graph`, the digest of the graph that you mean, to be refused if it is\n"
    "# another one. INPUTS, WEIGHTS and OUTPUTS say what is called so: of each name, what it is to the captured step.\n"
    "# With CUDA, copies to the host run in streams of their own, into pinned memory.\n";
static const char randomness[] =
    "#\n"
    "# Random operators draw from `seed` (give another one at each step), operator and part, and draw the same again\n"
    "# where they are recomputed. These are not the numbers that the unsplit network would draw.\n";
static const char head[] = "import json\nimport math\n\nimport torch\nimport torch.nn.functional as F\n\n";
static const char tables[] =
    "DTYPE = {\"f64\": torch.float64, \"f32\": torch.float32, \"f16\": torch.float16, \"bf16\": torch.bfloat16,\n"
    "         \"f8e4m3\": getattr(torch, \"float8_e4m3fn\", None), \"f8e5m2\": getattr(torch, \"float8_e5m2\", None),\n"
    "         \"u16\": getattr(torch, \"uint16\", None), \"u32\": getattr(torch, \"uint32\", None),\n"
    "         \"u64\": getattr(torch, \"uint64\", None),\n"
    "         \"i64\": torch.int64, \"i32\": torch.int32, \"i16\": torch.int16, \"i8\": torch.int8, \"u8\": "
    "torch.uint8,\n"
    "         \"bool\": torch.bool}\n"
    "STREAMS = {}\n";

static bool is_random(const struct mg_graph *g)
{
    for (mg_op op = 0; op < g->op_count; op++)
        if (mg_op_purity(g, op) == MG_SEEDED)
            return true;
    return false;
}

struct table {
    const char *name;
    bool (*holds)(const struct mg_value_info *);
};
static bool is_input(const struct mg_value_info *value)
{
    return value->kind == MG_KIND_INPUT;
}
static bool is_weight(const struct mg_value_info *value)
{
    return value->kind != MG_KIND_INPUT && value->kind != MG_KIND_COMPUTED;
}
static bool is_output(const struct mg_value_info *value)
{
    return value->is_output;
}

static const char *label_of(const struct mg_value_info *value)
{
    return value->label ? value->label : value->name;
}

/* Names, and whose they are; where nothing is known of that, the name again. */
static void write_tables(struct mg_torch *t)
{
    static const struct table list[] = {{"INPUTS", is_input}, {"WEIGHTS", is_weight}, {"OUTPUTS", is_output}};
    const struct mg_graph *g = t->e->original;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        const char *comma = "";
        mg_write_text(t->e->w, "%s = {", list[k].name);
        for (mg_value v = 0; v < g->value_count; v++) {
            if (!list[k].holds(&g->values[v]))
                continue;
            mg_write_text(t->e->w, "%sNAMES[%zu]: NAMES[%zu]", comma, mg_torch_name(t, g->values[v].name),
                          mg_torch_name(t, label_of(&g->values[v])));
            comma = ",\n    ";
        }
        mg_write_text(t->e->w, "}\n");
    }
}

static void name_ends(struct mg_torch *t)
{
    const struct mg_graph *g = t->e->original;
    for (mg_value v = 0; v < g->value_count; v++)
        if (g->values[v].kind != MG_KIND_COMPUTED || g->values[v].is_output) {
            mg_torch_name(t, g->values[v].name);
            mg_torch_name(t, label_of(&g->values[v]));
        }
}

static void write_head(struct mg_torch *t)
{
    struct mg_writer *w = t->e->w;
    const struct mg_figures *figures = &t->e->plan->figures;
    mg_write_text(
        w,
        "# A plan for PyTorch (1.13 and later), written by magisd. On the device that it was made for it needs\n"
        "# %llu bytes at its peak by the plan; the allocator's slack and what PyTorch's own kernels hold come on "
        "top.\n%s%s\n%s",
        (unsigned long long)figures->peak_bytes, usage, is_random(t->e->g) ? randomness : "", head);
    mg_write_text(w, "GRAPH = \"%s\"\n", t->e->original->digest);
    name_ends(t);
    mg_write_text(w, "NAMES = ");
    mg_write_python_list(w, t->names, t->name_count);
    mg_write_text(w, "\n");
    write_tables(t);
    mg_write_text(w, "%s", tables);
}

/* ---- what step() begins with ---- */

static const char *shape_of(const struct mg_torch *t, mg_value value)
{
    const struct mg_shape *shape = &t->e->g->values[value].shape;
    return mg_torch_tuple(t->e->arena, shape->dim, shape->rank);
}

static void write_given(struct mg_torch *t, uint32_t instance)
{
    mg_value v = t->e->plan->instances[instance].value;
    const struct mg_value_info *value = &t->e->g->values[v];
    struct mg_torch_held *held = &t->held[instance];
    *held = (struct mg_torch_held){.alive = true, .expr = mg_arena_printf(t->e->arena, "v%u", instance)};
    held->root = held->expr;
    mg_torch_whole_box(t, v, &held->box);
    if (value->kind == MG_KIND_INPUT)
        mg_torch_line(t, "%s = taken(inputs, NAMES[%zu], %s, \"%s\", device)", held->expr,
                      mg_torch_name(t, value->name), shape_of(t, v), mg_dtype_name(value->dtype));
    else
        mg_torch_line(t, "%s = held(weights, NAMES[%zu], %s, \"%s\")", held->expr, mg_torch_name(t, value->name),
                      shape_of(t, v), mg_dtype_name(value->dtype));
}

static void write_givens(struct mg_torch *t)
{
    const struct mg_plan *plan = t->e->plan;
    for (uint32_t i = 0; i < plan->instance_count; i++)
        if (mg_instance_given(t->e, i))
            write_given(t, i);
    for (mg_value v = 0; v < t->e->g->value_count; v++) {
        const struct mg_value_info *value = &t->e->g->values[v];
        if (value->kind == MG_KIND_COMPUTED || value->home != MG_HOME_HOST)
            continue;
        mg_torch_line(t, "w%u = held(weights, NAMES[%zu], %s, \"%s\")", v, mg_torch_name(t, value->name),
                      shape_of(t, v), mg_dtype_name(value->dtype));
        t->host[v].alive = true;
        t->host[v].expr = mg_arena_printf(t->e->arena, "(w%u, None)", v);
        mg_torch_whole_box(t, v, &t->host[v].box);
    }
}

/* ---- what step() ends with ---- */

static bool is_whole(const void *context, uint32_t instance)
{
    const struct mg_torch *t = context;
    const struct mg_shape *whole = &t->e->g->values[mg_instance_at(t->e, instance)->value].shape;
    return t->held[instance].alive && mg_shape_equal(&t->held[instance].box.shape, whole);
}

/* The value as it is at the end: `whole` has the instances that hold all of a base. False if there is none. */
static bool find_value(const struct mg_torch *t, const uint32_t *whole, mg_value value, struct mg_torch_held *out)
{
    mg_value base = t->e->g->values[value].base;
    if (whole[base] == MG_NONE)
        return false;
    *out = t->held[whole[base]];
    return mg_torch_view(t, value, base, out) == MG_OK;
}

static bool is_given(const void *context, uint32_t instance)
{
    const struct mg_torch *t = context;
    return mg_instance_given(t->e, instance);
}

/* Updates end in the tensors of the caller. As a rule they were computed there. */
static void write_updates(struct mg_torch *t, const uint32_t *whole)
{
    const uint32_t *given = mg_index_instances(t->e, is_given, t);
    bool parked = false;
    for (mg_value v = 0; v < t->e->g->value_count; v++) {
        struct mg_torch_held held;
        mg_value weight = t->e->g->values[v].update_of;
        if (weight == MG_NONE)
            continue;
        parked = parked || t->e->g->values[weight].home == MG_HOME_HOST;
        if (given[weight] != MG_NONE && find_value(t, whole, v, &held) &&
            strcmp(t->held[given[weight]].root, held.root) != 0)
            mg_torch_line(t, "%s.copy_(%s)", t->held[given[weight]].root, held.expr);
    }
    if (parked)
        mg_torch_line(t, "finish(device)");
}

static enum mg_code write_outputs(struct mg_torch *t)
{
    const struct mg_graph *original = t->e->original;
    const uint32_t *whole = mg_index_instances(t->e, is_whole, t);
    write_updates(t, whole);
    mg_torch_line(t, "outputs = {}");
    for (size_t i = 0; i < original->output_count; i++) {
        struct mg_torch_held held;
        const char *name = original->values[original->outputs[i]].name;
        mg_value value = mg_graph_find_value(t->e->g, name);
        if (value == MG_NONE || !find_value(t, whole, value, &held))
            return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan does not hold an output at its end");
        mg_torch_line(t, "outputs[NAMES[%zu]] = %s", mg_torch_name(t, name), held.expr);
    }
    mg_torch_line(t, "return outputs");
    return MG_OK;
}

/* ---- set-up ---- */

/* How the open regions cut the operator, as text. */
static const char *partition_of(const struct mg_torch *t, const uint32_t *open, uint32_t depth, mg_op op)
{
    const char *text = "";
    for (uint32_t i = 0; i < depth; i++) {
        const struct mg_region *region = &t->e->plan->regions[open[i]];
        const struct mg_region_op *use = mg_region_find(region, op);
        if (use)
            text = mg_arena_printf(t->e->arena, "%s/%u:%lld:%lld:%u", text, use->axis, (long long)use->scale,
                                   (long long)region->length, region->parts);
    }
    return text;
}

/* A random operator that is recomputed in other parts than before must draw as a whole and take its part. */
static enum mg_code find_whole_draws(struct mg_torch *t)
{
    const struct mg_plan *plan = t->e->plan;
    const char **seen = MG_NEW_ARRAY(t->e->arena, const char *, t->e->g->op_count);
    uint32_t open[MG_TORCH_DEPTH], depth = 0;
    t->whole_draw = MG_NEW_ARRAY(t->e->arena, bool, t->e->g->op_count);
    for (size_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        if (step->kind == MG_STEP_BEGIN && depth == MG_TORCH_DEPTH)
            return mg_fail(t->e->err, MG_ERR_LIMIT, "", "regions nested deeper than %d", MG_TORCH_DEPTH);
        if (step->kind == MG_STEP_BEGIN)
            open[depth++] = step->op;
        depth -= step->kind == MG_STEP_END && depth;
        if (step->kind != MG_STEP_COMPUTE || mg_op_purity(t->e->g, step->op) != MG_SEEDED)
            continue;
        const char *partition = partition_of(t, open, depth, step->op);
        t->whole_draw[step->op] = t->whole_draw[step->op] || (seen[step->op] && strcmp(seen[step->op], partition) != 0);
        seen[step->op] = partition;
    }
    return MG_OK;
}

static const char *listed(struct mg_torch *t, const char *list, const char *name)
{
    return mg_arena_printf(t->e->arena, "%s%s%s", list, *list ? ", " : "", name);
}

/* Names every operator without a function at once; of captured calls each, with its module. */
static enum mg_code check_operators(struct mg_torch *t)
{
    bool seen[MG_OP_COUNT] = {false}, *known = MG_NEW_ARRAY(t->e->arena, bool, t->e->g->op_count);
    const char *missing = "";
    for (size_t s = 0; s < t->e->plan->step_count; s++) {
        const struct mg_step *step = &t->e->plan->steps[s];
        if (step->kind != MG_STEP_COMPUTE)
            continue;
        const struct mg_op_info *op = &t->e->g->ops[step->op];
        const char *name = mg_op_type_name(op->type);
        if (op->type == MG_OP_OPAQUE) {
            if (!known[step->op] && !mg_torch_can_call(op))
                missing = listed(t, missing, mg_torch_call_name(t, op));
            known[step->op] = true;
            continue;
        }
        if (seen[op->type])
            continue;
        seen[op->type] = true;
        if (mg_torch_has_function(mg_arena_printf(t->e->arena, "op_%s", name)))
            continue;
        missing = listed(t, missing, name);
    }
    if (*missing)
        return mg_fail(t->e->err, MG_ERR_UNSUPPORTED, "", "no PyTorch code is known for these operators: %s", missing);
    return MG_OK;
}

static const char prologue[] = "@torch.no_grad()\n"
                               "def step(inputs, weights, *, seed=0, device=None, graph=None):\n"
                               "    if graph is not None and graph != GRAPH:\n"
                               "        raise ValueError(\"this plan is for another graph\")\n"
                               "    device = device_of(inputs, weights) if device is None else torch.device(device)\n";

static enum mg_code write_step_function(struct mg_torch *t)
{
    mg_write_text(t->body, "%s", prologue);
    t->indent = 1;
    write_givens(t);
    enum mg_code code = mg_torch_write_steps(t, 0, (uint32_t)t->e->plan->step_count);
    return code == MG_OK ? write_outputs(t) : code;
}

enum mg_code mg_write_torch(struct mg_export *e)
{
    struct mg_torch t = {.e = e, .body = &e->scratch};
    t.held = MG_NEW_ARRAY(e->arena, struct mg_torch_held, e->plan->instance_count);
    t.host = MG_NEW_ARRAY(e->arena, struct mg_torch_held, e->g->value_count);
    enum mg_code code = check_operators(&t);
    if (code == MG_OK)
        code = find_whole_draws(&t);
    if (code == MG_OK)
        code = write_step_function(&t);
    if (code != MG_OK)
        return code;
    if (!mg_writer_finish(t.body))
        return mg_fail(e->err, MG_ERR_NOMEM, "", "out of memory");
    write_head(&t);
    mg_torch_write_functions(e->w, t.body->data, e->arena);
    mg_write_text(e->w, "\n\n%s", t.body->data);
    return MG_OK;
}
