/* Plans as JSON for one small graph: whatever is read can be simulated, placed, checked, drawn, and is written
 * back in a form that reads back equal; of what the checker accepts the simulator finds the same figures. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "plan/plan.h"

/* y = relu(x w) + x, w updated by a gradient from outside. */
static struct mg_graph *small_graph(struct mg_arena *arena)
{
    struct mg_error err;
    struct mg_graph *g = mg_graph_new(arena, "fuzz"), *n = NULL;
    struct mg_shape rows = {2, {6, 4}}, square = {2, {4, 4}};
    mg_value x = mg_graph_add_value(g, "x", MG_KIND_INPUT, MG_DTYPE_F32, &rows), h, y, z, u;
    mg_value w = mg_graph_add_value(g, "w", MG_KIND_WEIGHT, MG_DTYPE_F32, &square);
    mg_value d = mg_graph_add_value(g, "d", MG_KIND_INPUT, MG_DTYPE_F32, &square);
    if (mg_graph_add_op(g, MG_OP_MATMUL, "h", (mg_value[]){x, w}, 2, NULL, 0, (const char *[]){"h"}, 1, &h, &err) ||
        mg_graph_add_op(g, MG_OP_RELU, "y", &h, 1, NULL, 0, (const char *[]){"y"}, 1, &y, &err) ||
        mg_graph_add_op(g, MG_OP_ADD, "z", (mg_value[]){y, x}, 2, NULL, 0, (const char *[]){"z"}, 1, &z, &err) ||
        mg_graph_add_op(g, MG_OP_SGD, "u", (mg_value[]){w, d}, 2,
                        &(struct mg_attr){.key = MG_ATTR_LR, .type = MG_ATTR_TYPE_FLOAT, .f = 0.5}, 1,
                        (const char *[]){"u"}, 1, &u, &err))
        abort();
    mg_graph_add_output(g, z);
    mg_graph_add_update(g, w, u);
    if (mg_graph_normalise(g, arena, &n, &err) != MG_OK)
        abort();
    return n;
}

static void write_twice(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_writer first, second;
    struct mg_plan *again = NULL;
    struct mg_error err;
    mg_writer_init(&first);
    mg_writer_init(&second);
    mg_plan_write(&first, g, plan);
    if (!mg_writer_finish(&first) || mg_plan_read(g, first.data, first.size, arena, &again, &err) != MG_OK)
        abort();
    mg_plan_write(&second, g, again);
    if (!mg_writer_finish(&second) || first.size != second.size || memcmp(first.data, second.data, first.size) != 0)
        abort();
    mg_writer_release(&second);
    mg_writer_release(&first);
}

static void use(const struct mg_graph *g, struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_simulation simulation;
    struct mg_verdict verdict;
    struct mg_writer dot;
    struct mg_error err;
    enum mg_code checked = mg_plan_check(g, plan, arena, &verdict, &err);
    enum mg_code simulated = mg_plan_simulate(g, plan, arena, &simulation, &err);
    if (checked == MG_OK && verdict.accepted && simulated != MG_ERR_NOMEM &&
        (simulated != MG_OK || simulation.peak_bytes != plan->figures.peak_bytes ||
         simulation.host_bytes != plan->figures.host_bytes ||
         fabs(simulation.latency_s - plan->figures.latency_s) > 2e-9 * simulation.latency_s))
        abort();
    mg_writer_init(&dot);
    mg_plan_write_dot(&dot, g, plan);
    mg_writer_release(&dot);
    write_twice(g, plan, arena);
    (void)!mg_plan_place(plan, arena, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mg_arena arena;
    struct mg_plan *plan = NULL;
    struct mg_error err;
    mg_arena_init(&arena, (size_t)256 << 20);
    const struct mg_graph *g = small_graph(&arena);
    enum mg_code code = mg_plan_read(g, (const char *)data, size, &arena, &plan, &err);
    require(arena.peak <= frugal(size), "reading takes little memory", &err);
    if (code == MG_OK)
        use(g, plan, &arena);
    mg_arena_release(&arena);
    return 0;
}
