/* The executor takes what a correct plan may bring: values that are NaN or infinite, views of views of views. */
#include <math.h>

#include "exec/exec.h"
#include "tests/unit/plan_util.h"

static double compare_original(struct bench *b)
{
    struct mg_plan *plan;
    double difference = 1;
    cr_assert(normalise(b), "%s", b->err.message);
    cr_assert_eq(mg_plan_original(b->n, mg_device_builtin("rtx3090"), &b->arena, &plan, &b->err), MG_OK, "%s",
                 b->err.message);
    cr_assert_eq(mg_exec_compare(b->n, plan, 1, 3, &difference, &b->arena, &b->err), MG_OK, "%s: %s", b->err.pointer,
                 b->err.message);
    return difference;
}

Test(exec_edges, nan_and_infinity_are_values)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(7, 16));
    mg_value log = op1(&b, MG_OP_LOG, NULL, VALUES(x), NO_ATTRS); /* half of x is negative */
    mg_value zero = op1(&b, MG_OP_SUB, NULL, VALUES(log, log), NO_ATTRS);
    mg_graph_add_output(b.g, op1(&b, MG_OP_TANH, NULL, VALUES(log), NO_ATTRS));
    mg_graph_add_output(b.g, op1(&b, MG_OP_DIV, NULL, VALUES(x, zero), NO_ATTRS));
    cr_expect_lt(compare_original(&b), 1e-12);
    bench_close(&b);
}

Test(exec_edges, a_long_chain_of_views)
{
    struct bench b;
    bench_open(&b);
    mg_value v = input(&b, "x", SHAPE(4, 6));
    for (int i = 0; i < 101; i++)
        v = op1(&b, MG_OP_TRANSPOSE, NULL, VALUES(v), NO_ATTRS);
    mg_graph_add_output(b.g, op1(&b, MG_OP_RELU, NULL, VALUES(v), NO_ATTRS));
    cr_expect_lt(compare_original(&b), 1e-12);
    bench_close(&b);
}
