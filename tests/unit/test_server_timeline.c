/* The timeline by kind adds up to what the simulator says, step by step. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/timeline.h"
#include "zoo/zoo.h"

struct sample {
    const char *network;
    struct mg_arena arena;
    struct mg_graph *graph;
    struct mg_plan *plan;
    struct mg_simulation simulation;
    uint64_t *live;
    struct mg_writer text;
};

static enum mg_code build(void *context, struct mg_error *err)
{
    struct sample *s = context;
    struct mg_graph *built, *step;
    struct mg_zoo_option options[] = {{"batch", "2"}, {"variant", "paper"}};
    struct mg_training training = {.loss = MG_LOSS_SQUARED, .optimizer = MG_OPTIMIZER_SGD};
    uint32_t count = strcmp(s->network, "mlp") == 0 ? 1 : 2;
    enum mg_code code = mg_zoo_build(s->network, options, count, &s->arena, &built, err);
    if (code == MG_OK)
        code = mg_graph_differentiate(built, &training, &s->arena, &step, err);
    if (code == MG_OK)
        code = mg_graph_normalise(step, &s->arena, &s->graph, err);
    if (code == MG_OK)
        code = mg_plan_original(s->graph, mg_device_builtin("rtx3090"), &s->arena, &s->plan, err);
    if (code == MG_OK)
        code = mg_plan_simulate(s->graph, s->plan, &s->arena, &s->simulation, err);
    if (code != MG_OK)
        return code;
    s->live = mg_timeline_by_kind(s->graph, s->plan, &s->arena);
    return mg_timeline_write(&s->text, s->graph, s->plan, &s->arena, err);
}

static void open_sample(struct sample *s, const char *network)
{
    struct mg_error err = {0};
    memset(s, 0, sizeof *s);
    s->network = network;
    mg_arena_init(&s->arena, SIZE_MAX);
    mg_writer_init(&s->text);
    cr_assert_eq(mg_arena_guard(&s->arena, build, s, &err), MG_OK, "%s", err.message);
}

static void close_sample(struct sample *s)
{
    mg_writer_release(&s->text);
    mg_arena_release(&s->arena);
}

Test(timeline, kinds_add_up)
{
    static const char *const networks[] = {"mlp", "bert-base", "unet"};
    for (size_t n = 0; n < 3; n++) {
        struct sample s;
        uint64_t seen[MG_MEMORY_KINDS] = {0};
        open_sample(&s, networks[n]);
        for (size_t at = 0; at < s.plan->step_count; at++) {
            uint64_t sum = 0;
            for (unsigned kind = 0; kind < MG_MEMORY_KINDS; kind++) {
                sum += s.live[at * MG_MEMORY_KINDS + kind];
                seen[kind] |= s.live[at * MG_MEMORY_KINDS + kind];
            }
            cr_assert_eq(sum, s.simulation.timeline[at].live_bytes, "%s, step %zu", networks[n], at);
        }
        cr_expect(seen[MG_MEMORY_WEIGHTS] && seen[MG_MEMORY_ACTIVATIONS] && seen[MG_MEMORY_GRADIENTS]);
        close_sample(&s);
    }
}

Test(timeline, names_what_holds_the_peak)
{
    struct sample s;
    json_int_t sum = 0, last = INT64_MAX;
    open_sample(&s, "mlp");
    cr_assert(mg_writer_finish(&s.text));
    json_t *root = json_loadb(s.text.data, s.text.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(root, "well-formed JSON");
    json_t *hot = json_object_get(root, "hot");
    cr_assert_gt(json_array_size(hot), 0);
    for (size_t i = 0; i < json_array_size(hot); i++) {
        json_int_t bytes = json_integer_value(json_object_get(json_array_get(hot, i), "bytes"));
        cr_assert_leq(bytes, last, "largest first");
        last = bytes;
        sum += bytes;
    }
    json_int_t peak = json_integer_value(json_object_get(root, "peak_bytes"));
    cr_assert_eq((uint64_t)peak, s.simulation.peak_bytes);
    cr_assert_geq(sum, peak, "the union over the steps at the peak holds it all");
    cr_assert_gt(json_array_size(json_object_get(root, "points")), s.graph->op_count);
    json_decref(root);
    close_sample(&s);
}

/* Four layers of one product each, whose modules' paths differ in a number; the last is called otherwise. */
static enum mg_code build_layers(void *context, struct mg_error *err)
{
    static const char *const modules[] = {"h.0.fc", "h.1.fc", "h.12.fc", "head"};
    struct sample *s = context;
    struct mg_graph *built = mg_graph_new(&s->arena, "layers");
    mg_value at = mg_graph_add_value(built, "x", MG_KIND_INPUT, MG_DTYPE_F32, &(struct mg_shape){2, {16, 16}});
    for (mg_op op = 0; op < 4; op++) {
        const char *name = mg_arena_printf(&s->arena, "mm_%u", op);
        mg_value in[] = {at, mg_graph_add_value(built, mg_arena_printf(&s->arena, "w.%u", op), MG_KIND_WEIGHT,
                                                MG_DTYPE_F32, &(struct mg_shape){2, {16, 16}})};
        enum mg_code code = mg_graph_add_op(built, MG_OP_MATMUL, name, in, 2, NULL, 0, &name, 1, &at, err);
        if (code != MG_OK)
            return code;
        mg_graph_set_module(built, op, modules[op]);
        mg_graph_add_output(built, at);
    }
    enum mg_code code = mg_graph_normalise(built, &s->arena, &s->graph, err);
    if (code == MG_OK)
        code = mg_plan_original(s->graph, mg_device_builtin("rtx3090"), &s->arena, &s->plan, err);
    return code == MG_OK ? mg_timeline_write(&s->text, s->graph, s->plan, &s->arena, err) : code;
}

static void expect_group(const json_t *groups, const char *name, const char *module, const char *op, const char *kind,
                         json_int_t count)
{
    size_t i;
    json_t *group;
    json_array_foreach(groups, i, group)
    {
        if (strcmp(json_string_value(json_object_get(group, "name")), name) != 0)
            continue;
        cr_expect_str_eq(json_string_value(json_object_get(group, "module")), module, "%s", name);
        cr_expect_str_eq(json_string_value(json_object_get(group, "op")), op, "%s", name);
        cr_expect_str_eq(json_string_value(json_object_get(group, "kind")), kind, "%s", name);
        cr_expect_eq(json_integer_value(json_object_get(group, "count")), count, "%s", name);
        cr_expect_eq(json_integer_value(json_object_get(group, "bytes")), count * 16 * 16 * 4, "%s", name);
        return;
    }
    cr_expect_fail("no group is called %s", name);
}

Test(timeline, groups_by_module)
{
    struct sample s;
    struct mg_error err = {0};
    memset(&s, 0, sizeof s);
    mg_arena_init(&s.arena, SIZE_MAX);
    mg_writer_init(&s.text);
    cr_assert_eq(mg_arena_guard(&s.arena, build_layers, &s, &err), MG_OK, "%s", err.message);
    cr_assert(mg_writer_finish(&s.text));
    json_t *root = json_loadb(s.text.data, s.text.size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *groups = json_object_get(root, "hot_groups");
    cr_expect_eq(json_array_size(groups), 3, "the input is freed before");
    expect_group(groups, "h.*.fc", "h.*.fc", "matmul", "activations", 3);
    expect_group(groups, "head", "head", "matmul", "activations", 1);
    expect_group(groups, "w.*", "", "", "weights", 4);
    json_decref(root);
    close_sample(&s);
}
