/* format=onnx: an inference plan as an ONNX model whose nodes stand in the plan's order, parts and recomputations
 * written out. Weights are inputs by their names, or initializers where the caller knows their contents. */
#include "export/onnx_walk.h"

enum { MODEL_BYTES = 2000000000, MARGIN = 1000 }; /* a message of protocol buffers ends at 2 GiB */

static const char about[] =
    "A plan of magisd: run the nodes one after the other, in this order, and drop each tensor after its last reader.\n"
    "Weights without contents are inputs: give them by name, or add the initializers of these names to the model.\n"
    "Parts of a region's output are joined by Concat, which for a moment holds both; a plan's peak does not count "
    "that.";

/* ---- what cannot be ---- */

/* Of many values the first is named. */
static void note(struct mg_onnx_walk *w, const char *what, mg_value first, uint32_t count)
{
    const char *more = count > 1 ? mg_arena_printf(w->e->arena, " and %u more", count - 1) : "";
    if (count)
        mg_emit_reason(&w->sink, mg_arena_printf(w->e->arena, "%s of '%s'%s", what, w->e->g->values[first].name, more));
}

static void note_swaps(struct mg_onnx_walk *w)
{
    const struct mg_plan *plan = w->e->plan;
    bool *seen = MG_NEW_ARRAY(w->e->arena, bool, w->e->g->value_count);
    mg_value first = MG_NONE;
    uint32_t count = 0;
    for (size_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        if (step->kind != MG_STEP_STORE && step->kind != MG_STEP_LOAD)
            continue;
        mg_value value = plan->instances[plan->refs[step->kind == MG_STEP_STORE ? step->in : step->out]].value;
        first = count ? first : value;
        count += !seen[value];
        seen[value] = true;
    }
    note(w, "the swap", first, count);
}

static void note_state(struct mg_onnx_walk *w)
{
    mg_value first = MG_NONE;
    uint32_t count = 0;
    for (mg_value v = 0; v < w->e->g->value_count; v++) {
        const struct mg_value_info *value = &w->e->g->values[v];
        if (value->update_of != MG_NONE && count++ == 0)
            first = value->update_of;
        if (value->kind != MG_KIND_COMPUTED && !mg_onnx_elem_type(value->dtype))
            mg_emit_reason(&w->sink,
                           mg_arena_printf(w->e->arena, "'%s' of %s", value->name, mg_dtype_name(value->dtype)));
    }
    note(w, "the update", first, count);
}

static enum mg_code unsupported(const struct mg_onnx_walk *w)
{
    struct mg_error *err = w->e->err;
    const char *list = "";
    size_t i = 0;
    for (; i < w->sink.reason_count && strlen(list) + strlen(w->sink.reasons[i].text) < sizeof err->message - 80; i++) {
        const struct mg_emit_reason *reason = &w->sink.reasons[i];
        list = mg_arena_printf(w->e->arena, "%s%s%s", list, i ? ", " : "", reason->text);
        if (reason->count > 1)
            list = mg_arena_printf(w->e->arena, "%s x %u", list, reason->count);
    }
    if (i < w->sink.reason_count)
        list = mg_arena_printf(w->e->arena, "%s and %zu more", list, w->sink.reason_count - i);
    return mg_fail(err, MG_ERR_UNSUPPORTED, "", "an ONNX model cannot hold: %s", list);
}

/* Lists every operator without a writer before anything is written. */
static bool is_possible(struct mg_onnx_walk *w)
{
    note_swaps(w);
    note_state(w);
    if (!w->sink.reason_count)
        return true;
    for (size_t s = 0; s < w->e->plan->step_count; s++) {
        const struct mg_step *step = &w->e->plan->steps[s];
        if (step->kind == MG_STEP_COMPUTE && !mg_emit_knows(w->e->g->ops[step->op].type))
            mg_emit_reason(&w->sink, mg_op_type_name(w->e->g->ops[step->op].type));
    }
    return false;
}

/* ---- the model ---- */

/* ValueInfoProto. */
static void put_value(struct mg_onnx_walk *w, struct mg_writer *graph, uint32_t field, mg_value value)
{
    const struct mg_value_info *info = &w->e->g->values[value];
    struct mg_writer *inner = w->sink.inner, list;
    mg_writer_init(&list);
    for (uint32_t d = 0; d < info->shape.rank; d++) {
        mg_wire_put_int(&inner[0], 1, info->shape.dim[d]);
        mg_wire_put_message(&list, 1, &inner[0]);
    }
    mg_wire_put_int(&inner[0], 1, mg_onnx_elem_type(info->dtype));
    mg_wire_put_message(&inner[0], 2, &list);
    mg_wire_put_message(&inner[1], 1, &inner[0]);
    mg_wire_put_text(&inner[2], 1, w->name[value]);
    mg_wire_put_message(&inner[2], 2, &inner[1]);
    mg_wire_put_message(graph, field, &inner[2]);
    mg_writer_release(&list);
}

/* What the model has so far; `graph`: its inputs and outputs. */
static uint64_t model_bytes(const struct mg_onnx_walk *w, const struct mg_writer *graph)
{
    return mg_onnx_written(w) + graph->size + sizeof about + strlen(w->e->original->name) + MARGIN;
}

static bool put_contents(struct mg_onnx_walk *w, const struct mg_writer *graph, mg_value v)
{
    const struct mg_value_info *value = &w->e->g->values[v];
    const struct mg_onnx_data *data = w->contents[v];
    if (!data || model_bytes(w, graph) + strlen(w->name[v]) + value->bytes > w->most)
        return false;
    struct mg_arena_mark mark = mg_arena_mark(w->e->arena);
    int64_t count = mg_shape_elements(&value->shape);
    double *numbers = MG_NEW_ARRAY(w->e->arena, double, count + 1);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = mg_onnx_data_at(data, i);
    mg_emit_initializer(&w->sink, w->name[v], value->dtype, &value->shape,
                        mg_onnx_encode(value->dtype, numbers, count, w->e->arena));
    mg_arena_rewind(w->e->arena, mark);
    return true;
}

/* Inputs first, then what is resident. */
static void put_given(struct mg_onnx_walk *w, struct mg_writer *graph)
{
    for (int pass = 0; pass < 2; pass++)
        for (mg_value v = 0; v < w->e->g->value_count; v++) {
            const struct mg_value_info *value = &w->e->g->values[v];
            if (value->kind == MG_KIND_COMPUTED || (value->kind == MG_KIND_INPUT) != (pass == 0))
                continue;
            if (pass == 0 || !put_contents(w, graph, v))
                put_value(w, graph, 11, v);
        }
}

static enum mg_code put_outputs(struct mg_onnx_walk *w, struct mg_writer *graph)
{
    const struct mg_graph *original = w->e->original;
    for (size_t i = 0; i < original->output_count; i++) {
        const char *name = original->values[original->outputs[i]].name;
        mg_value value = mg_graph_find_value(w->e->g, name);
        const char *have = value == MG_NONE ? NULL : w->named[value] ? w->name[value] : mg_onnx_final(w, value);
        if (!have)
            return mg_fail(w->e->err, MG_ERR_INVALID, "", "the plan does not hold an output at its end");
        if (!w->named[value])
            mg_emit_one(&w->sink, w->name[value], "Identity", IN(have), NULL);
        w->named[value] = true;
        put_value(w, graph, 12, value);
    }
    return MG_OK;
}

static void put_property(struct mg_onnx_walk *w, const char *key, const char *value)
{
    struct mg_writer *entry = &w->sink.inner[0];
    mg_wire_put_text(entry, 1, key);
    mg_wire_put_text(entry, 2, value);
    mg_wire_put_message(w->e->w, 14, entry);
}

static void put_model(struct mg_onnx_walk *w, struct mg_writer *graph)
{
    struct mg_writer *out = w->e->w;
    const struct mg_figures *figures = &w->e->plan->figures;
    const char *name = w->e->original->name;
    mg_wire_put_int(out, 1, MG_ONNX_IR);
    mg_wire_put_text(out, 2, "magisd");
    mg_wire_put_text(out, 6, about);
    mg_write_bytes(graph, w->sink.nodes.data, w->sink.nodes.size);
    mg_wire_put_text(graph, 2, *name ? name : "graph");
    mg_write_bytes(graph, w->sink.initializers.data, w->sink.initializers.size);
    graph->failed = graph->failed || w->sink.nodes.failed || w->sink.initializers.failed;
    mg_wire_put_message(out, 7, graph);
    mg_wire_put_text(&w->sink.inner[0], 1, "");
    mg_wire_put_int(&w->sink.inner[0], 2, MG_ONNX_OPSET);
    mg_wire_put_message(out, 8, &w->sink.inner[0]);
    put_property(w, "magis_graph", w->e->original->digest);
    put_property(w, "magis_peak_bytes", mg_arena_printf(w->e->arena, "%llu", (unsigned long long)figures->peak_bytes));
}

/* In ONNX an empty name says that nothing is there. */
static void name_values(struct mg_onnx_walk *w)
{
    const struct mg_graph *g = w->e->g;
    const struct mg_onnx_model *known = w->e->known;
    w->name = MG_NEW_ARRAY(w->e->arena, const char *, g->value_count);
    w->contents = MG_NEW_ARRAY(w->e->arena, const struct mg_onnx_data *, g->value_count);
    for (mg_value v = 0; v < g->value_count; v++)
        w->name[v] = *g->values[v].name ? g->values[v].name : mg_emit_fresh(&w->sink, "value");
    for (size_t i = 0; known && i < known->content_count; i++) {
        mg_value v = mg_graph_find_value(g, known->contents[i].value);
        if (v != MG_NONE)
            w->contents[v] = known->contents[i].data;
    }
}

static void begin(struct mg_onnx_walk *w)
{
    const struct mg_plan *plan = w->e->plan;
    w->held = MG_NEW_ARRAY(w->e->arena, struct mg_onnx_held, plan->instance_count);
    w->joined = MG_NEW_ARRAY(w->e->arena, struct mg_onnx_joined *, plan->instance_count);
    w->seen = MG_NEW_ARRAY(w->e->arena, struct mg_onnx_seen, w->e->g->op_count);
    w->named = MG_NEW_ARRAY(w->e->arena, bool, w->e->g->value_count);
    name_values(w);
    for (mg_value v = 0; v < w->e->g->value_count; v++)
        w->named[v] = w->e->g->values[v].kind != MG_KIND_COMPUTED;
    for (uint32_t i = 0; i < plan->instance_count; i++) {
        if (!mg_instance_given(w->e, i))
            continue;
        w->held[i].name = w->name[plan->instances[i].value];
        mg_onnx_whole_box(w->e->g, plan->instances[i].value, &w->held[i].box);
    }
}

static enum mg_code write_model(struct mg_onnx_walk *w)
{
    struct mg_writer *graph = &w->e->scratch;
    if (!is_possible(w))
        return unsupported(w);
    begin(w);
    enum mg_code code = mg_onnx_walk_steps(w, 0, (uint32_t)w->e->plan->step_count);
    if (code == MG_OK)
        code = put_outputs(w, graph);
    if (code == MG_OK && w->sink.reason_count)
        code = unsupported(w);
    if (code != MG_OK)
        return code;
    put_given(w, graph); /* last: contents take the room that is left */
    if (model_bytes(w, graph) > w->most)
        return mg_onnx_too_large(w);
    put_model(w, graph);
    return MG_OK;
}

static enum mg_code write_guarded(void *context, struct mg_error *err)
{
    (void)err;
    return write_model(context);
}

enum mg_code mg_write_onnx(struct mg_export *e)
{
    return mg_write_onnx_within(e, MODEL_BYTES);
}

enum mg_code mg_write_onnx_within(struct mg_export *e, uint64_t most)
{
    struct mg_onnx_walk *w = MG_NEW(e->arena, struct mg_onnx_walk);
    w->e = e;
    w->most = most;
    mg_sink_init(&w->sink, e->g, e->arena);
    enum mg_code code = mg_arena_guard(e->arena, write_guarded, w, e->err); /* its buffers are not the arena's */
    mg_sink_release(&w->sink);
    return code;
}
