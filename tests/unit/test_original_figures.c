/* The originals of the training steps of the zoo: peak and latency on the rtx3090 model, against figures that
 * were worked out apart from this program (GB = 10^9 bytes). */
#include <criterion/criterion.h>
#include <math.h>

#include "plan/plan.h"
#include "zoo/zoo.h"

struct figures {
    const char *name;
    double peak_gb, latency_s;
};
static const struct figures expected[] = {
    {"resnet50", 2.70, 0.0888}, {"bert-base", 12.93, 0.4202}, {"vit-base-16", 7.67, 0.2863},   {"unet", 8.58, 0.4345},
    {"unet++", 11.01, 0.4044},  {"btlm-3b", 55.18, 4.5027},   {"gpt-neo-1.3b", 28.79, 2.1460},
};

/* The expected latencies hold no copies: those which turning heads back into hidden vectors takes (the attention's
 * result and the gradients of q, k and v of each block) come on top. */
static double copies_s(const struct mg_graph *g, const struct mg_device *device)
{
    double sum = 0;
    for (mg_op op = 0; op < g->op_count; op++) {
        const struct mg_value_info *out = &g->values[g->ops[op].out[0]];
        if (g->ops[op].type == MG_OP_COPY)
            sum += mg_device_copy_latency(device, (uint64_t)mg_shape_elements(&out->shape), out->bytes);
    }
    return sum;
}

static void check_network(const struct figures *want, struct mg_arena *arena, struct mg_error *err)
{
    static const struct mg_zoo_option paper = {"variant", "paper"};
    const struct mg_device *device = mg_device_builtin("rtx3090");
    struct mg_training training = {.loss = MG_LOSS_SQUARED, .optimizer = MG_OPTIMIZER_SGD};
    struct mg_graph *forward, *step, *g;
    struct mg_plan *plan;
    cr_assert_eq(mg_zoo_build(want->name, &paper, 1, arena, &forward, err), MG_OK, "%s", err->message);
    cr_assert_eq(mg_graph_differentiate(forward, &training, arena, &step, err), MG_OK, "%s", err->message);
    cr_assert_eq(mg_graph_normalise(step, arena, &g, err), MG_OK, "%s", err->message);
    cr_assert_eq(mg_plan_original(g, device, arena, &plan, err), MG_OK, "%s", err->message);
    double peak = (double)plan->figures.peak_bytes / 1e9, latency = plan->figures.latency_s - copies_s(g, device);
    cr_expect(fabs(peak / want->peak_gb - 1) < 0.002, "%s: peak %.3f GB, want %.2f", want->name, peak, want->peak_gb);
    cr_expect(fabs(latency / want->latency_s - 1) < 0.005, "%s: %.4f s without copies, want %.4f", want->name, latency,
              want->latency_s);
    cr_expect_leq(plan->figures.latency_s, 1.02 * want->latency_s, "%s: %.4f s", want->name, plan->figures.latency_s);
}

static enum mg_code check_all(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        check_network(&expected[i], arena, err);
        mg_arena_rewind(arena, mark);
    }
    return MG_OK;
}

Test(original_figures, of_the_paper_variants)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, (size_t)1 << 30);
    cr_assert_eq(mg_arena_guard(&arena, check_all, &arena, &err), MG_OK, "%s", err.message);
    mg_arena_release(&arena);
}
