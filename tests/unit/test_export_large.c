/* Exports of graphs with very many inputs, weights, updates and outputs: work that grows with their square would take
 * hours here. */
#include <criterion/criterion.h>

#include "export/export.h"
#include "graph_util.h"

#ifdef __SANITIZE_ADDRESS__ /* poisons what arenas hand back, byte by byte */
enum { PAIRS = 5000 };
#else
enum { PAIRS = 100000 };
#endif

struct large {
    struct bench bench;
    struct mg_onnx_content contents[PAIRS];
};

/* For each pair y = x + w; `training`: and w is updated by x. */
static struct mg_plan *build(struct large *l, bool training)
{
    static const double numbers[] = {1, 2};
    static const struct mg_onnx_data data = {.dtype = MG_DTYPE_F32, .shape = {1, {2}}, .real = numbers};
    struct bench *b = &l->bench;
    struct mg_plan *plan;
    bench_open(b);
    for (int i = 0; i < PAIRS; i++) {
        const char *weight = mg_arena_printf(&b->arena, "weight%d", i);
        mg_value in[] = {
            mg_graph_add_value(b->g, mg_arena_printf(&b->arena, "w%d", i), MG_KIND_WEIGHT, MG_DTYPE_F32, SHAPE(2)),
            mg_graph_add_value(b->g, mg_arena_printf(&b->arena, "x%d", i), MG_KIND_INPUT, MG_DTYPE_F32, SHAPE(2))};
        mg_value y, updated;
        l->contents[i] = (struct mg_onnx_content){b->g->values[in[0]].name, &data};
        cr_assert_eq(mg_graph_add_op(b->g, MG_OP_ADD, mg_arena_printf(&b->arena, "add%d", i), in, 2, NULL, 0, NULL, 1,
                                     &y, &b->err),
                     MG_OK);
        mg_graph_add_output(b->g, y);
        if (!training)
            continue;
        cr_assert_eq(mg_graph_add_op(b->g, MG_OP_SGD, weight, in, 2, NULL, 0, NULL, 1, &updated, &b->err), MG_OK);
        mg_graph_add_update(b->g, in[0], updated);
    }
    cr_assert(normalise(b), "%s", b->err.message);
    cr_assert_eq(mg_plan_original(b->n, mg_device_builtin("rtx3090"), &b->arena, &plan, &b->err), MG_OK, "%s",
                 b->err.message);
    return plan;
}

static size_t count(const char *text, const char *what)
{
    size_t found = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        found++;
    return found;
}

static struct large large;

Test(export_large, torch)
{
    struct mg_writer w;
    const struct mg_plan *plan = build(&large, true);
    mg_writer_init(&w);
    cr_assert_eq(mg_export_write(MG_EXPORT_TORCH, &w, large.bench.n, plan, NULL, &large.bench.arena, &large.bench.err),
                 MG_OK, "%s", large.bench.err.message);
    cr_assert(mg_writer_finish(&w));
    cr_expect_eq(count(w.data, "\n    outputs[NAMES["), PAIRS);
    cr_expect_eq(count(w.data, " = taken(inputs, NAMES["), PAIRS);
    cr_expect_eq(count(w.data, " = held(weights, NAMES["), PAIRS);
    mg_writer_release(&w);
    bench_close(&large.bench);
}

Test(export_large, onnx)
{
    struct mg_writer w;
    struct mg_onnx_model back;
    const struct mg_plan *plan = build(&large, false);
    const struct mg_onnx_model known = {.contents = large.contents, .content_count = PAIRS};
    mg_writer_init(&w);
    cr_assert_eq(mg_export_write(MG_EXPORT_ONNX, &w, large.bench.n, plan, &known, &large.bench.arena, &large.bench.err),
                 MG_OK, "%s", large.bench.err.message);
    cr_assert(mg_writer_finish(&w));
    struct mg_bytes_block block = {w.data, w.size};
    struct mg_bytes source = mg_bytes_from_block(&block);
    cr_assert_eq(mg_onnx_read(&source, &(struct mg_onnx_options){.keep_data = true}, &large.bench.arena, &back,
                              &large.bench.err),
                 MG_OK, "%s", large.bench.err.message);
    cr_expect_eq(back.graph->op_count, PAIRS);
    cr_expect_eq(back.graph->output_count, PAIRS);
    cr_expect_eq(back.content_count, PAIRS);
    mg_writer_release(&w);
    bench_close(&large.bench);
}

/* A split into `parts`, each of them read by an operator of its own and asked for. */
static const struct mg_plan *build_split(struct bench *b, uint32_t parts)
{
    struct mg_plan *plan;
    bench_open(b);
    mg_value x = mg_graph_add_value(b->g, "x", MG_KIND_INPUT, MG_DTYPE_F32, SHAPE(parts));
    mg_value *part = MG_NEW_ARRAY(&b->arena, mg_value, parts), y;
    const char **names = MG_NEW_ARRAY(&b->arena, const char *, parts);
    int64_t *sizes = MG_NEW_ARRAY(&b->arena, int64_t, parts);
    for (uint32_t i = 0; i < parts; i++) {
        names[i] = mg_arena_printf(&b->arena, "part%u", i);
        sizes[i] = 1;
    }
    const struct mg_attr attrs[] = {INT_OF(AXIS, 0),
                                    {.key = MG_ATTR_SPLIT, .type = MG_ATTR_TYPE_INTS, .count = parts, .ints = sizes}};
    cr_assert_eq(mg_graph_add_op(b->g, MG_OP_SPLIT, "split", &x, 1, attrs, 2, names, parts, part, &b->err), MG_OK, "%s",
                 b->err.message);
    for (uint32_t i = 0; i < parts; i++) {
        const char *name = mg_arena_printf(&b->arena, "relu%u", i);
        cr_assert_eq(mg_graph_add_op(b->g, MG_OP_RELU, name, &part[i], 1, NULL, 0, NULL, 1, &y, &b->err), MG_OK);
        mg_graph_add_output(b->g, i % 2 ? y : part[i]);
        mg_graph_add_output(b->g, y);
    }
    cr_assert(normalise(b), "%s", b->err.message);
    cr_assert_eq(mg_plan_original(b->n, mg_device_builtin("rtx3090"), &b->arena, &plan, &b->err), MG_OK, "%s",
                 b->err.message);
    return plan;
}

static uint32_t count_bytes(const struct mg_writer *w, const char *what)
{
    const char *at = w->data, *end = at + w->size;
    uint32_t found = 0;
    while ((at = memmem(at, (size_t)(end - at), what, strlen(what)))) {
        found++;
        at++;
    }
    return found;
}

/* One node splits for all who read a part. */
Test(export_large, onnx_split)
{
    static const uint32_t parts[] = {3, 5000};
    for (int i = 0; i < 2; i++) {
        struct bench b;
        struct mg_writer w;
        const struct mg_plan *plan = build_split(&b, parts[i]);
        mg_writer_init(&w);
        cr_assert_eq(mg_export_write(MG_EXPORT_ONNX, &w, b.n, plan, NULL, &b.arena, &b.err), MG_OK, "%s",
                     b.err.message);
        cr_assert(mg_writer_finish(&w));
        cr_expect_eq(count_bytes(&w, "Split"), 1, "%u parts: %u nodes", parts[i], count_bytes(&w, "Split"));
        cr_expect_eq(count_bytes(&w, "Relu"), parts[i]);
        cr_expect_lt(w.size, 2000 + 200 * (size_t)parts[i]);
        cr_expect_lt(b.arena.peak, (1 << 20) + 16384 * (size_t)parts[i]);
        mg_writer_release(&w);
        bench_close(&b);
    }
}

Test(export_large, a_long_chain_of_views)
{
    static const enum mg_export_format formats[] = {MG_EXPORT_TORCH, MG_EXPORT_ONNX};
    struct bench b;
    struct mg_plan *plan;
    bench_open(&b);
    mg_value v = input(&b, "x", SHAPE(4, 6));
    for (int i = 0; i < 101; i++)
        v = op1(&b, MG_OP_TRANSPOSE, NULL, VALUES(v), NO_ATTRS);
    mg_graph_add_output(b.g, op1(&b, MG_OP_RELU, NULL, VALUES(v), NO_ATTRS));
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_assert_eq(mg_plan_original(b.n, mg_device_builtin("rtx3090"), &b.arena, &plan, &b.err), MG_OK);
    for (int i = 0; i < 2; i++) {
        struct mg_writer w;
        mg_writer_init(&w);
        cr_assert_eq(mg_export_write(formats[i], &w, b.n, plan, NULL, &b.arena, &b.err), MG_OK, "%s", b.err.message);
        cr_assert(mg_writer_finish(&w));
        cr_expect_eq(count_bytes(&w, i ? "Transpose" : ".permute("), 101);
        mg_writer_release(&w);
    }
    bench_close(&b);
}
