/* Advice on modules: which rows there are, which of them have lines of code, and what is said of the others. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "formats/formats.h"
#include "graph/graph.h"
#include "plan/plan.h"

/* A chain of activations of two in each block, all of which a backward pass reads; "" is the model itself. The second
 * of a block is its output, the first is inside. LAST is a leaf: nothing is inside. */
enum { ROOT, A_IN, A_OUT, B_IN, B_OUT, C_IN, C_OUT, LAST, FORWARD };
static const char *const modules[FORWARD] = {"", "h.0.act", "h.0", "h.1.a", "h.1.b", "tail.a", "tail.b", "d"};

static struct mg_arena arena;
static const struct mg_graph *graph;
static struct mg_plan *plan;

static void start(void)
{
    struct mg_error err = {0};
    struct mg_graph *g, *normalised;
    mg_arena_init(&arena, SIZE_MAX);
    g = mg_graph_new(&arena, "chain");
    mg_value at = mg_graph_add_value(g, "x", MG_KIND_INPUT, MG_DTYPE_F32, &(struct mg_shape){2, {4, 3}});
    mg_value made[FORWARD];
    for (mg_op op = 0; op < 2 * FORWARD; op++) {
        const char *name = mg_arena_printf(&arena, "act%u", op);
        const char *result = mg_arena_printf(&arena, "y%u", op);
        mg_value *from = op < FORWARD ? &at : &made[2 * FORWARD - 1 - op];
        cr_assert_eq(mg_graph_add_op(g, MG_OP_RELU, name, from, 1, NULL, 0, &result, 1, &at, &err), MG_OK, "%s",
                     err.message);
        mg_graph_set_module(g, op, modules[op < FORWARD ? op : 2 * FORWARD - 1 - op]);
        if (op < FORWARD)
            made[op] = at;
        else
            mg_graph_add_output(g, at);
    }
    g->forward_ops = FORWARD;
    cr_assert_eq(mg_graph_normalise(g, &arena, &normalised, &err), MG_OK, "%s", err.message);
    graph = normalised;
    cr_assert_eq(mg_plan_original(graph, mg_device_builtin("rtx3090"), &arena, &plan, &err), MG_OK, "%s", err.message);
}

static void end(void)
{
    mg_arena_release(&arena);
}

TestSuite(advice, .init = start, .fini = end);

/* ---- what is done to a plan: it is none any more then, but enough of one for advice ---- */

static void add_step(struct mg_step step)
{
    struct mg_step *steps = MG_NEW_ARRAY(&arena, struct mg_step, plan->step_count + 1);
    memcpy(steps, plan->steps, plan->step_count * sizeof *steps);
    steps[plan->step_count++] = step;
    plan->steps = steps;
}

static void recompute(mg_op op)
{
    add_step((struct mg_step){.kind = MG_STEP_COMPUTE, .op = op});
}

static void offload(mg_op op)
{
    uint32_t *refs = MG_NEW_ARRAY(&arena, uint32_t, plan->ref_count + 1);
    uint32_t instance = 0;
    memcpy(refs, plan->refs, plan->ref_count * sizeof *refs);
    while (plan->instances[instance].value != graph->ops[op].out[0])
        instance++;
    refs[plan->ref_count] = instance;
    plan->refs = refs;
    add_step((struct mg_step){.kind = MG_STEP_STORE, .op = MG_NONE, .in = (uint32_t)plan->ref_count++, .in_count = 1});
}

static void split(mg_op op, uint32_t parts)
{
    struct mg_region_op *member = MG_NEW(&arena, struct mg_region_op);
    member->op = op;
    plan->regions = MG_NEW(&arena, struct mg_region);
    plan->regions[0] = (struct mg_region){.parent = MG_NONE, .length = 4, .parts = parts, .ops = member, .op_count = 1};
    plan->region_count = 1;
}

static const char *advice(void)
{
    struct mg_writer text;
    struct mg_error err = {0};
    mg_writer_init(&text);
    cr_assert_eq(mg_export_write(MG_EXPORT_CHECKPOINT, &text, graph, plan, NULL, &arena, &err), MG_OK, "%s",
                 err.message);
    cr_assert(mg_writer_finish(&text));
    const char *kept = mg_arena_printf(&arena, "%s", text.data);
    mg_writer_release(&text);
    return kept;
}

#define SAYS(text, words) cr_expect(strstr(text, words), "lacks \"%s\":\n%s", words, text)
#define SAYS_NOT(text, words) cr_expect_null(strstr(text, words), "has \"%s\":\n%s", words, text)

/* ---- what is said then ---- */

Test(advice, what_is_split_only_has_no_lines)
{
    split(ROOT, 2);
    const char *text = advice();
    SAYS(text, "\n# chunk     (the model itself): 1 of 1 operators, 48 bytes, in 2 parts; by hand\n");
    SAYS(text, "There are no lines to paste");
    SAYS(text, "# The whole plan: peak ");
    SAYS_NOT(text, "\"\"");
    SAYS_NOT(text, "import ");
    SAYS_NOT(text, "RECOMPUTE");
    SAYS_NOT(text, "OFFLOAD");
}

Test(advice, a_block_whose_inside_is_computed_again_has_lines)
{
    recompute(A_IN);
    const char *text = advice();
    SAYS(text, "\n# recompute \"h.0.act\": 1 of 1 operators, 48 bytes\n");
    SAYS(text, "\nRECOMPUTE = json.loads(\"[\\\"h.0\\\"]\")\n");
    SAYS(text, "import torch.utils.checkpoint\n");
    SAYS(text, "of 384 bytes of results that wait for the backward pass they drop 48\n");
    SAYS_NOT(text, "OFFLOAD");
    SAYS_NOT(text, "save_on_cpu");
    SAYS_NOT(text, "_BatchNorm");
    SAYS_NOT(text, "There are no lines to paste");
}

Test(advice, what_a_module_gives_is_not_inside)
{
    recompute(A_OUT); /* a checkpoint of h.0 keeps nothing less than the plan does: its output waits all the same */
    recompute(LAST);
    const char *text = advice();
    SAYS(text, "\n# recompute \"h.0\": 1 of 1 operators, 48 bytes; by hand\n");
    SAYS(text, "\n# recompute \"d\": 1 of 1 operators, 48 bytes; by hand\n");
    SAYS(text, "There are no lines to paste for it: of no module");
    SAYS_NOT(text, "import ");
}

Test(advice, blocks_are_taken_and_no_list_of_them)
{
    recompute(A_IN);
    recompute(A_OUT);
    recompute(B_IN);
    recompute(C_IN);
    SAYS(advice(), "\nRECOMPUTE = json.loads(\"[\\\"h.0\\\", \\\"h.1\\\", \\\"tail\\\"]\")\n");
}

Test(advice, a_block_whose_inside_is_parked_is_parked)
{
    offload(C_IN);
    const char *text = advice();
    SAYS(text, "\n# offload   \"tail.a\": 1 of 1 operators, 48 bytes\n");
    SAYS(text, "\nOFFLOAD = json.loads(\"[\\\"tail\\\"]\")\n");
    SAYS(text, "what autograd saves in it");
    SAYS(text, "\n# and park 48,");
    SAYS(text, "does not see");
    SAYS_NOT(text, "RECOMPUTE");
    SAYS_NOT(text, "functools");
}

Test(advice, rows_that_differ_in_a_number_are_one)
{
    recompute(A_OUT);
    recompute(B_OUT); /* "h.0", "h.1.b": not alike */
    SAYS(advice(), "\n# recompute \"h.1.b\": 1 of 1 operators, 48 bytes; by hand\n");
    recompute(B_IN);
    SAYS(advice(), "\n# recompute \"h.0\": 1 of 1 operators, 48 bytes; by hand\n# recompute \"h.1\": 2 of 2");
    recompute(A_IN);
    SAYS(advice(), "\n# recompute \"h.{0-1}\": 4 of 4 operators, 192 bytes\n");
}

Test(advice, of_the_model_itself_nothing_is_done_by_lines)
{
    recompute(ROOT);
    recompute(C_IN);
    const char *text = advice();
    SAYS(text, "\n# recompute (the model itself): 1 of 1 operators, 48 bytes; by hand\n");
    SAYS(text, "\nRECOMPUTE = json.loads(\"[\\\"tail\\\"]\")\n");
}
