/* Training steps of the zoo: parameters, contractions and their work against figures counted apart from this program
 * (paper variant, squared error, SGD), and every network differentiates in the form people train. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/unit/guard_util.h"
#include "zoo/zoo.h"

static const struct mg_graph *training_step(struct mg_arena *arena, const char *name,
                                            const struct mg_zoo_option *options, uint32_t count, enum mg_loss loss)
{
    struct mg_graph *forward, *step, *normal;
    struct mg_error err = {0};
    struct mg_training training = {.loss = loss, .optimizer = MG_OPTIMIZER_SGD};
    cr_assert_eq(mg_zoo_build(name, options, count, arena, &forward, &err), MG_OK, "%s: %s", name, err.message);
    cr_assert_eq(mg_graph_differentiate(forward, &training, arena, &step, &err), MG_OK, "%s: %s %s", name, err.pointer,
                 err.message);
    cr_assert_eq(mg_graph_normalise(step, arena, &normal, &err), MG_OK, "%s: %s %s", name, err.pointer, err.message);
    cr_assert_eq(mg_graph_check(normal, &err), MG_OK, "%s: %s %s", name, err.pointer, err.message);
    return normal;
}

static void check_table(struct mg_arena *arena)
{
    static const struct {
        const char *name;
        uint64_t parameters, contractions;
        double flops; /* seven digits */
    } table[] = {
        {"resnet50", 25502912, 161, 1.555141e12},    {"bert-base", 84934656, 285, 9.219147e12},
        {"vit-base-16", 85702656, 288, 6.677836e12}, {"unet", 31372994, 59, 1.068805e13},
        {"unet++", 19907200, 47, 9.743804e12},       {"gpt-neo-1.3b", 1207959552, 573, 1.232827e14},
        {"btlm-3b", 2516582400, 765, 2.549922e14},
    };
    static const struct mg_zoo_option paper = {"variant", "paper"};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct mg_graph_stats stats;
        struct mg_arena_mark mark = mg_arena_mark(arena);
        mg_graph_stats(training_step(arena, table[i].name, &paper, 1, MG_LOSS_SQUARED), &stats);
        cr_expect_eq(stats.parameters, table[i].parameters, "%s: %llu parameters", table[i].name,
                     (unsigned long long)stats.parameters);
        cr_expect_eq(stats.contractions, table[i].contractions, "%s: %llu contractions", table[i].name,
                     (unsigned long long)stats.contractions);
        cr_expect(fabs(stats.contraction_flops / table[i].flops - 1) < 1e-6, "%s: %.9e FLOPs", table[i].name,
                  stats.contraction_flops);
        mg_arena_rewind(arena, mark);
    }
}

Test(zoo_training, the_table_of_workloads)
{
    guarded(check_table);
}

static bool has_weights(const struct mg_graph *g)
{
    for (size_t i = 0; i < g->value_count; i++)
        if (g->values[i].kind == MG_KIND_WEIGHT)
            return true;
    return false;
}

/* All weights are updated, so the graph that was built has no dead ends. */
static void check_every_network(struct mg_arena *arena)
{
    static const struct mg_zoo_option shallow = {"layers", "50"};
    for (uint32_t i = 0; i < mg_zoo_count(); i++) {
        const char *name = mg_zoo_at(i)->name;
        struct mg_arena_mark mark = mg_arena_mark(arena);
        struct mg_graph *forward;
        struct mg_error err = {0};
        bool deep = strcmp(name, "resnet-deep") == 0;
        cr_assert_eq(mg_zoo_build(name, &shallow, deep, arena, &forward, &err), MG_OK);
        if (has_weights(forward)) {
            const struct mg_graph *g = training_step(arena, name, &shallow, deep, MG_LOSS_SUM);
            for (size_t v = 0; v < g->value_count; v++)
                cr_expect(g->values[v].kind != MG_KIND_WEIGHT || g->values[v].updated_by != MG_NONE,
                          "%s: %s is never updated", name, g->values[v].name);
        }
        mg_arena_rewind(arena, mark);
    }
}

Test(zoo_training, every_network_trains)
{
    guarded(check_every_network);
}

/* Classifiers and language models end in scores [samples, classes], as cross entropy wants them. */
static void check_cross_entropy(struct mg_arena *arena)
{
    static const char *const names[] = {
        "mlp",          "resnet18",           "vgg16",           "densenet121", "vit-tiny-16",
        "bert-tiny",    "gpt-neo-125m",       "btlm-3b",         "llama-tiny",  "nasnet-like",
        "mobilenet-v2", "mobilenet-v3-small", "efficientnet-b0", "moe-gpt",     "lstm"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        const struct mg_graph *g = training_step(arena, names[i], NULL, 0, MG_LOSS_CROSS_ENTROPY);
        cr_expect_gt(g->op_count, g->forward_ops, "%s", names[i]);
        mg_arena_rewind(arena, mark);
    }
}

Test(zoo_training, classifiers_take_cross_entropy)
{
    guarded(check_cross_entropy);
}
