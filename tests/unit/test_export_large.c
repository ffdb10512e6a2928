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
