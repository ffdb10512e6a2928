/* The zoo: every network builds and normalises in both variants, has the parameters of its original, and
 * says what is wrong with options. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/guard_util.h"
#include "zoo/zoo.h"

#define MANY(options) (options), sizeof(options) / sizeof *(options)

/* Normalised. */
static struct mg_graph *build(struct mg_arena *arena, const char *name, const struct mg_zoo_option *options,
                              uint32_t count)
{
    struct mg_graph *g, *normal;
    struct mg_error err = {0};
    cr_assert_eq(mg_zoo_build(name, options, count, arena, &g, &err), MG_OK, "%s: %s %s", name, err.pointer,
                 err.message);
    cr_assert_eq(mg_graph_normalise(g, arena, &normal, &err), MG_OK, "%s: %s %s", name, err.pointer, err.message);
    cr_assert_eq(mg_graph_check(normal, &err), MG_OK, "%s: %s %s", name, err.pointer, err.message);
    return normal;
}

static bool has_option(const struct mg_zoo_entry *entry, const char *name)
{
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        if (strcmp(entry->parameters[i].name, name) == 0)
            return true;
    return false;
}

static void check_all(struct mg_arena *arena)
{
    static const struct mg_zoo_option variants[] = {{"variant", "real"}, {"variant", "paper"}};
    for (uint32_t i = 0; i < mg_zoo_count(); i++) {
        const struct mg_zoo_entry *entry = mg_zoo_at(i);
        for (int v = 0; v < (has_option(entry, "variant") ? 2 : 1); v++) {
            struct mg_arena_mark mark = mg_arena_mark(arena);
            const struct mg_graph *g = build(arena, entry->name, variants + v, has_option(entry, "variant"));
            cr_expect_gt(g->op_count, 1, "%s", entry->name);
            cr_expect_gt(g->output_count, 0, "%s", entry->name);
            mg_arena_rewind(arena, mark);
        }
    }
    cr_expect_null(mg_zoo_at(mg_zoo_count()));
}

Test(zoo, every_network_builds_in_both_variants)
{
    guarded(check_all);
}

struct sized {
    const char *name, *options; /* "batch=4,image=64" */
};
static const struct sized sized[] = {
#define NETWORK(name, options) {name, options},
#define GRAPH NETWORK
#include "tests/bench/bench_device.def"
#undef GRAPH
#undef NETWORK
};

static void build_sized(struct mg_arena *arena, const struct sized *network)
{
    struct mg_arena_mark mark = mg_arena_mark(arena);
    struct mg_zoo_option options[12];
    char *rest, *text = mg_arena_strdup(arena, network->options);
    uint32_t count = 0;
    for (char *name = strtok_r(text, "=", &rest); name && count < 12; name = strtok_r(NULL, "=", &rest))
        options[count++] = (struct mg_zoo_option){name, strtok_r(NULL, ",", &rest)};
    build(arena, network->name, options, count);
    mg_arena_rewind(arena, mark);
}

static void check_sized(struct mg_arena *arena)
{
    const size_t count = sizeof sized / sizeof *sized;
    for (uint32_t i = 0; i < mg_zoo_count(); i++) {
        uint32_t found = 0;
        for (size_t k = 0; k < count; k++)
            found += strcmp(sized[k].name, mg_zoo_at(i)->name) == 0;
        cr_expect_eq(found, 1, "%s stands %u times in bench_device.def", mg_zoo_at(i)->name, found);
    }
    cr_expect_eq(count, mg_zoo_count());
    for (size_t k = 0; k < count; k++)
        build_sized(arena, &sized[k]);
}

/* The table of sizes at which one core measures them has each once, and no other, and each can be built so. */
Test(zoo, every_network_has_a_size_to_be_measured_at)
{
    guarded(check_sized);
}

static uint64_t parameters(struct mg_arena *arena, const char *name, const struct mg_zoo_option *options,
                           uint32_t count)
{
    struct mg_graph_stats stats;
    struct mg_arena_mark mark = mg_arena_mark(arena);
    mg_graph_stats(build(arena, name, options, count), &stats);
    mg_arena_rewind(arena, mark);
    return stats.parameters;
}

/* Counts as published (torchvision, transformers, milesial's U-Net with one channel in and out). */
static void check_real_parameters(struct mg_arena *arena)
{
    static const struct {
        const char *name;
        uint64_t parameters;
    } known[] = {
        {"resnet18", 11689512},
        {"resnet34", 21797672},
        {"resnet50", 25557032},
        {"resnet101", 44549160},
        {"resnet152", 60192808},
        {"wide_resnet50", 68883240},
        {"vgg16", 138357544},
        {"densenet121", 7978856},
        {"densenet161", 28681000},
        {"densenet169", 14149480},
        {"densenet201", 20013928},
        {"vit-base-16", 86567656},
        {"vit-base-32", 88224232},
        {"vit-large-16", 304326632},
        {"bert-base", 109514298},
        {"gpt-neo-1.3b", 1315575808},
        {"gpt-neo-125m", 125198592},
        {"llama-1b", 1235814400},
        {"unet", 31036481},
        {"mobilenet-v2", 3504872},
        {"mobilenet-v3-small", 2542856},
        {"mobilenet-v3-large", 5483032},
        {"efficientnet-b0", 5288548},
        {"efficientnet-b1", 7794184},
        {"efficientnet-b2", 9109994},
        {"efficientnet-b3", 12233232},
        {"efficientnet-b4", 19341616},
        {"efficientnet-b5", 30389784},
        {"efficientnet-b6", 43040704},
        {"efficientnet-b7", 66347960},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t got = parameters(arena, known[i].name, NULL, 0);
        cr_expect_eq(got, known[i].parameters, "%s has %llu parameters, not %llu", known[i].name,
                     (unsigned long long)got, (unsigned long long)known[i].parameters);
    }
}

Test(zoo, parameters_of_the_originals)
{
    guarded(check_real_parameters);
}

static void check_paper_parameters(struct mg_arena *arena)
{
    static const struct {
        const char *name;
        uint64_t parameters;
    } known[] = {
        {"resnet50", 25502912}, {"bert-base", 84934656},      {"vit-base-16", 85702656}, {"unet", 31372994},
        {"unet++", 19907200},   {"gpt-neo-1.3b", 1207959552}, {"btlm-3b", 2516582400},
    };
    static const struct mg_zoo_option paper[] = {{"variant", "paper"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t got = parameters(arena, known[i].name, MANY(paper));
        cr_expect_eq(got, known[i].parameters, "%s has %llu parameters, not %llu", known[i].name,
                     (unsigned long long)got, (unsigned long long)known[i].parameters);
    }
}

Test(zoo, parameters_of_the_paper)
{
    guarded(check_paper_parameters);
}

/* Mixtures of experts and recurrent layers against their formulas. */
static void check_counted_parameters(struct mg_arena *arena)
{
    uint64_t h = 768, e = 8, attention = 4 * h * h + 4 * h, norms = 4 * h, dense = 8 * h * h + 5 * h;
    uint64_t experts = h * e + e * 8 * h * h, table = 50257 * h + 1024 * h;
    cr_expect_eq(parameters(arena, "moe-gpt", NULL, 0),
                 table + 12 * (attention + norms) + 6 * (dense + experts) + 2 * h);
    static const struct mg_zoo_option index[] = {{"dispatch", "index"}}, fused[] = {{"cells", "fused"}};
    cr_expect_eq(parameters(arena, "moe-gpt", MANY(index)), parameters(arena, "moe-gpt", NULL, 0));
    uint64_t s = 1024, cells = 4 * s * (50 + 3 * s) + 4 * 4 * s * s + 4 * 4 * s;
    cr_expect_eq(parameters(arena, "lstm", NULL, 0), cells + s * 5000 + 5000);
    cr_expect_eq(parameters(arena, "lstm", MANY(fused)), cells + 4 * 4 * s + s * 5000 + 5000); /* two biases */
}

Test(zoo, parameters_by_formula)
{
    guarded(check_counted_parameters);
}

static void check_deep(struct mg_arena *arena)
{
    static const struct mg_zoo_option fifty[] = {{"layers", "50"}}, two_hundred[] = {{"layers", "200"}};
    cr_expect_eq(parameters(arena, "resnet-deep", MANY(fifty)), 25557032);
    cr_expect_eq(parameters(arena, "resnet-deep", MANY(two_hundred)), 64673832);
}

Test(zoo, deep_residual_networks_contain_the_published_ones)
{
    guarded(check_deep);
}

static void check_options(struct mg_arena *arena)
{
    static const struct mg_zoo_option options[] = {{"batch", "3"},   {"seq_len", "17"}, {"layers", "2"},
                                                   {"dtype", "f16"}, {"math", "f32"},   {"variant", "paper"}};
    const struct mg_graph *g = build(arena, "bert-base", MANY(options));
    const struct mg_value_info *x = &g->values[mg_graph_find_value(g, "x")];
    cr_expect(mg_shape_equal(&x->shape, &(struct mg_shape){3, {3, 17, 768}}));
    cr_expect_eq(x->dtype, MG_DTYPE_F16);
    cr_expect_eq(g->math, MG_MATH_F32);
    cr_expect_neq(mg_graph_find_value(g, "encoder.1.mlp.fc2"), MG_NONE);
    cr_expect_eq(mg_graph_find_value(g, "encoder.2.mlp.fc2"), MG_NONE);
}

Test(zoo, options_are_heeded)
{
    guarded(check_options);
}

static const struct mg_op_info *find_op(const struct mg_graph *g, const char *name)
{
    for (size_t i = 0; i < g->op_count; i++)
        if (strcmp(g->ops[i].name, name) == 0)
            return &g->ops[i];
    return NULL;
}

static void check_modules(struct mg_arena *arena)
{
    static const struct mg_zoo_option small[] = {{"batch", "2"}, {"image", "64"}};
    const struct mg_graph *g = build(arena, "resnet50", MANY(small));
    const struct mg_op_info *op = find_op(g, "layer3.0.conv2");
    cr_assert_not_null(op);
    cr_expect_str_eq(op->module, "layer3.0.conv2");
    cr_expect_eq(op->type, MG_OP_CONV);
    cr_assert_not_null(find_op(g, "layer3.0.add"));
    cr_expect_str_eq(find_op(g, "layer3.0.add")->module, "layer3.0");
    g = build(arena, "bert-base", NULL, 0);
    cr_assert_not_null(find_op(g, "encoder.5.attention.scores"));
    cr_expect_str_eq(find_op(g, "encoder.5.attention.scores")->module, "encoder.5.attention");
}

Test(zoo, operators_know_their_modules)
{
    guarded(check_modules);
}

static void check_attention(struct mg_arena *arena)
{
    static const struct mg_zoo_option fused[] = {{"attention", "fused"}, {"batch", "2"}, {"seq_len", "64"}};
    static const char *const names[] = {"bert-tiny", "gpt-neo-125m", "btlm-3b", "llama-tiny"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct mg_graph *g = build(arena, names[i], MANY(fused));
        uint32_t found = 0, softmax = 0;
        for (size_t op = 0; op < g->op_count; op++) {
            found += g->ops[op].type == MG_OP_ATTENTION;
            softmax += g->ops[op].type == MG_OP_SOFTMAX;
        }
        cr_expect_geq(found, 2, "%s", names[i]);
        cr_expect_eq(softmax, 0, "%s", names[i]);
        uint64_t explicit_parameters = parameters(arena, names[i], fused + 1, 2);
        cr_expect_eq(parameters(arena, names[i], MANY(fused)), explicit_parameters, "%s", names[i]);
    }
}

Test(zoo, attention_may_be_one_operator)
{
    guarded(check_attention);
}

/* ---- figures of the MAGIS paper ---- */

static void check_figure2(struct mg_arena *arena)
{
    const struct mg_graph *g = build(arena, "figure2", NULL, 0);
    cr_expect_eq(g->op_count, 32 + 31);
    for (size_t v = 0; v < g->value_count; v++)
        cr_expect_eq(g->values[v].bytes, 32U << 20);
    cr_expect_str_eq(g->values[g->outputs[0]].name, "y1");
}

Test(zoo, figure2_as_in_the_paper)
{
    guarded(check_figure2);
}

static void check_figure6(struct mg_arena *arena)
{
    const struct mg_graph *g = build(arena, "figure6", NULL, 0);
    uint32_t edges = 0;
    cr_expect_eq(g->value_count, 22);
    cr_expect_eq(g->op_count, 21);
    for (size_t op = 0; op < g->op_count; op++)
        edges += g->ops[op].in_count;
    cr_expect_eq(edges, 30);
    cr_expect_eq(g->output_count, 4); /* 9, 16, 20, 21 */
}

Test(zoo, figure6_as_in_the_paper)
{
    guarded(check_figure6);
}

/* ---- seeds ---- */

static void check_seeds(struct mg_arena *arena)
{
    static const char *const names[] = {"random-dag", "randwire", "nasnet-like"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char first[65] = "";
        uint32_t same = 0;
        for (int seed = 0; seed < 5; seed++) {
            char text[8];
            snprintf(text, sizeof text, "%d", seed);
            struct mg_zoo_option option = {"seed", text};
            const struct mg_graph *g = build(arena, names[i], &option, 1), *again = build(arena, names[i], &option, 1);
            cr_expect_str_eq(g->digest, again->digest, "%s %d", names[i], seed);
            same += strcmp(first, g->digest) == 0;
            if (seed == 0)
                memcpy(first, g->digest, sizeof first);
        }
        cr_expect_eq(same, 0, "%s: every seed must give another graph", names[i]);
    }
}

Test(zoo, seeds_decide_random_graphs)
{
    guarded(check_seeds);
}

/* ---- errors ---- */

Test(zoo, wrong_requests_are_explained)
{
    static const struct {
        const char *network, *option, *value, *pointer, *word;
    } bad[] = {
        {"resnet5", NULL, NULL, "/model", "resnet50"},
        {"bert-base", "image", "224", "/image", "seq_len"},
        {"bert-base", "batch", "0", "/batch", "between"},
        {"bert-base", "batch", "many", "/batch", "whole number"},
        {"bert-base", "batch", "", "/batch", "whole number"},
        {"bert-base", "batch", "99999999999999999999", "/batch", "whole number"},
        {"bert-base", "variant", "fast", "/variant", "paper"},
        {"bert-base", "dtype", "f31", "/dtype", "bf16"},
        {"bert-base", "math", "f16", "/math", "tf32"},
        {"bert-base", "dropout", "1.5", "/dropout", "between"},
        {"bert-base", "heads", "7", "/heads", "divide"},
        {"bert-base", "attention", "flash", "/attention", "fused"},
        {"vit-base-16", "patch", "15", "/patch", "patches"},
        {"unet", "image", "100", "/image", "16"},
        {"moe-gpt", "dispatch", "mail", "/dispatch", "onehot"},
        {"moe-gpt", "capacity", "0", "/capacity", "between"},
        {"lstm", "cells", "rolled", "/cells", "fused"},
        {"llama-tiny", "kv_heads", "4", "/heads", "divide"},
    };
    struct mg_arena arena;
    mg_arena_init(&arena, (size_t)1 << 28);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mg_graph *g;
        struct mg_error err = {0};
        struct mg_zoo_option option = {bad[i].option, bad[i].value};
        enum mg_code code = mg_zoo_build(bad[i].network, &option, bad[i].option != NULL, &arena, &g, &err);
        cr_expect_eq(code, MG_ERR_INVALID, "%s %s", bad[i].network, bad[i].value);
        cr_expect_str_eq(err.pointer, bad[i].pointer, "%s", err.message);
        cr_expect_not_null(strstr(err.message, bad[i].word), "%s", err.message);
    }
    mg_arena_release(&arena);
}

Test(zoo, running_out_of_memory_is_reported)
{
    for (size_t limit = 1 << 12; limit < 1 << 20; limit *= 4) {
        struct mg_arena arena;
        struct mg_graph *g;
        struct mg_error err = {0};
        mg_arena_init(&arena, limit);
        cr_expect_eq(mg_zoo_build("resnet50", NULL, 0, &arena, &g, &err), MG_ERR_NOMEM);
        mg_arena_release(&arena);
    }
}
