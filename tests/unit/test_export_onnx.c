/* format=onnx: every operator of the table, whole and cut along each of its axes, survives the way into an ONNX model
 * and back, or is refused by name. */
#include "op_samples.h"

#include <unistd.h>

#include "check_util.h"
#include "export/export_priv.h"
#include "onnx_util.h"
#include "temp_util.h"

/* Attributes that opset 17 has not: these samples are refused although their operator can be written. */
static const char *const refused[] = {
    "avg_pool (with dilations",        "resize (antialias",           "scatter_nd (with reduction max",
    "scatter_nd (with batch_dims",     "mean_variance_norm (with",    "group_norm (whose statistics",
    "instance_norm (whose statistics", "adaptive_avg_pool (to sizes",
};

static uint32_t written, cuts, refusals;

static bool is_known_refusal(const char *message)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strstr(message, refused[i]))
            return true;
    return false;
}

static bool has_writer(enum mg_op_type type)
{
    static const bool known[MG_OP_COUNT] = {
#define MG_ONNX_OUT(id, writer, dtypes) [MG_OP_##id] = true,
#include "export/onnx_ops.def"
#undef MG_ONNX_OUT
    };
    return known[type];
}

static void expect_refusal(const struct bench *b, const char *label, const struct mg_error *err)
{
    const char *name = mg_op_type_name(b->n->ops[0].type);
    refusals++;
    cr_expect_eq(err->code, MG_ERR_UNSUPPORTED, "%s: %s", label, err->message);
    cr_expect(strstr(err->message, name) || strstr(err->message, "update"), "%s is not named: %s", label, err->message);
    cr_expect(!has_writer(b->n->ops[0].type) || is_known_refusal(err->message), "%s: %s", label, err->message);
}

static bool splits(const struct mg_graph *g, const struct mg_axis *axis)
{
    for (uint32_t i = 0; i < g->ops[0].out_count; i++)
        if (axis->out[i].dim < 0 && axis->combiner == MG_COMBINE_NONE)
            return false;
    return !axis->window && mg_op_purity(g, 0) != MG_IMPURE;
}

struct sample_call {
    struct bench *b;
    const char *label;
    double **values;
};

static void cut(struct sample_call *call, uint32_t axis, uint32_t parts)
{
    const struct mg_graph *g = call->b->n;
    uint32_t count;
    const struct mg_axis *use = &mg_op_axes(g, 0, &count)[axis];
    const struct mg_region_op entry = {0, axis, 1};
    struct span span = {.to = 1, .parts = parts, .parent = MG_NONE, .length = use->length, .ops = &entry};
    struct assembly s = {.g = g, .device = mg_device_builtin("rtx3090"), .arena = &call->b->arena};
    struct mg_error err = {0};
    s.spans = &span;
    s.span_count = 1;
    cr_assert_eq(assemble(&s, &err), MG_OK, "%s, axis %s: %s", call->label, use->name, err.message);
    const char *label = mg_arena_printf(&call->b->arena, "%s, axis %s in %u", call->label, use->name, parts);
    if (onnx_round_trip(g, s.plan, call->values, label, &call->b->arena, &err) != MG_OK)
        expect_refusal(call->b, label, &err);
    else
        cuts++;
}

static enum mg_code try_sample(void *context, struct mg_error *err)
{
    struct sample_call *call = context;
    struct bench *b = call->b;
    struct mg_plan *plan;
    uint32_t axis_count;
    for (mg_value v = 0; v < b->g->value_count; v++)
        if (b->g->values[v].kind == MG_KIND_COMPUTED)
            mg_graph_add_output(b->g, v);
    cr_assert(normalise(b), "%s: %s", call->label, b->err.message);
    call->values = mg_exec_random_values(b->n, 5, 2, &b->arena);
    cr_assert_eq(mg_exec_graph(b->n, 7, call->values, &b->arena, err), MG_OK, "%s: %s", call->label, err->message);
    cr_assert_eq(mg_plan_original(b->n, mg_device_builtin("rtx3090"), &b->arena, &plan, err), MG_OK);
    if (onnx_round_trip(b->n, plan, call->values, call->label, &b->arena, err) != MG_OK) {
        expect_refusal(b, call->label, err);
        return MG_OK;
    }
    written++;
    const struct mg_axis *axes = mg_op_axes(b->n, 0, &axis_count);
    for (uint32_t a = 0; a < axis_count && b->n->op_count == 1 && !b->n->ops[0].is_view; a++)
        for (uint32_t parts = 2; parts <= 3 && parts <= axes[a].length && splits(b->n, &axes[a]); parts++)
            cut(call, a, parts);
    return MG_OK;
}

/* ---- models that ONNX's own checker judges ---- */

struct judged {
    char path[200];
};

static struct judged begin_models(void)
{
    struct judged judged;
    temp_name(judged.path, sizeof judged.path, "onnx");
    int fd = mkstemp(judged.path);
    cr_assert_geq(fd, 0);
    onnx_models = fdopen(fd, "wb");
    return judged;
}

static void expect_valid(const struct judged *judged, uint32_t count)
{
    char command[300];
    cr_assert_eq(fclose(onnx_models), 0);
    snprintf(command, sizeof command, "/usr/bin/python3 tests/e2e/libcheckonnx.py %s %u", judged->path, count);
    int status = system(command);
    unlink(judged->path);
    cr_expect_eq(status, 0, "%s: status %d", command, status);
}

Test(export_onnx, every_operator)
{
    bool listed[MG_OP_COUNT] = {false};
    struct judged judged = begin_models();
    for (int i = 0; i < OP_SAMPLES; i++) {
        struct bench b;
        cr_assert(sample_build(&b, op_samples[i]), "%s: %s", op_samples[i], b.err.message);
        struct sample_call call = {&b, op_samples[i], NULL};
        listed[b.g->ops[0].type] = true;
        guarded(&b.arena, try_sample, &call);
        bench_close(&b);
    }
    for (int type = 0; type < MG_OP_COUNT; type++)
        cr_expect(listed[type] || !has_writer((enum mg_op_type)type), "no sample of %s",
                  mg_op_type_name((enum mg_op_type)type));
    printf("ONNX models: %u samples written, %u in parts, %u refused\n", written, cuts, refusals);
    cr_expect_geq(written, 150);
    cr_expect_geq(cuts, 250);
    expect_valid(&judged, written + cuts);
}

static enum mg_code write_sample(void *context, struct mg_error *err)
{
    struct sample_call *call = context;
    struct bench *b = call->b;
    struct mg_plan *plan;
    struct mg_writer w;
    mg_graph_add_output(b->g, b->g->ops[0].out[0]);
    if (!normalise(b))
        return MG_OK;
    cr_assert_eq(mg_plan_original(b->n, mg_device_builtin("rtx3090"), &b->arena, &plan, err), MG_OK);
    mg_writer_init(&w);
    if (mg_export_write(MG_EXPORT_ONNX, &w, b->n, plan, NULL, &b->arena, err) == MG_OK) {
        onnx_store(mg_arena_printf(&b->arena, "%s of %s", call->label, mg_dtype_name(sample_dtype)), &w);
        written++;
    } else {
        cr_expect_eq(err->code, MG_ERR_UNSUPPORTED, "%s: %s", call->label, err->message);
    }
    mg_writer_release(&w);
    return MG_OK;
}

/* What an operator of ours takes, ONNX's may not: that is refused too. */
Test(export_onnx, every_dtype)
{
    static const enum mg_dtype dtypes[] = {MG_DTYPE_F64, MG_DTYPE_F16, MG_DTYPE_BF16, MG_DTYPE_I64,
                                           MG_DTYPE_I32, MG_DTYPE_I8,  MG_DTYPE_U8,   MG_DTYPE_BOOL};
    struct judged judged = begin_models();
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (int i = 0; i < OP_SAMPLES; i++) {
            struct bench b;
            sample_dtype = dtypes[d];
            struct sample_call call = {&b, op_samples[i], NULL};
            if (sample_build(&b, op_samples[i]))
                guarded(&b.arena, write_sample, &call);
            bench_close(&b);
        }
    cr_expect_geq(written, 600);
    expect_valid(&judged, written);
}

/* ---- regions in regions ---- */

struct network_call {
    struct bench *b;
    struct mg_rng rng;
    uint32_t depth; /* of the plan that was exported, 0: none */
};

static uint32_t depth_of(const struct mg_plan *plan)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < plan->region_count; r++) {
        uint32_t depth = 1;
        for (uint32_t at = plan->regions[r].parent; at != MG_NONE; at = plan->regions[at].parent)
            depth++;
        most = depth > most ? depth : most;
    }
    return most;
}

static enum mg_code try_network(void *context, struct mg_error *err)
{
    struct network_call *call = context;
    struct bench *b = call->b;
    random_network(b, &call->rng);
    struct mg_plan *plan = random_tree(b, &call->rng);
    double **values = mg_exec_random_values(b->n, 5, 2, &b->arena);
    cr_assert_eq(mg_exec_graph(b->n, 7, values, &b->arena, err), MG_OK, "%s", err->message);
    if (!plan)
        return MG_OK;
    if (onnx_round_trip(b->n, plan, values, "network", &b->arena, err) == MG_OK)
        call->depth = depth_of(plan);
    else
        cr_expect(strstr(err->message, "dropout") || strstr(err->message, "the swap of"), "%s", err->message);
    return MG_OK;
}

Test(export_onnx, nested_regions)
{
    uint32_t exported[MOST_LEVELS + 1] = {0};
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct bench b;
        struct network_call call = {.b = &b};
        bench_open(&b);
        mg_rng_init(&call.rng, seed);
        guarded(&b.arena, try_network, &call);
        exported[call.depth]++;
        bench_close(&b);
    }
    printf("ONNX models of plans with regions: %u, in another %u, in two others %u\n", exported[1], exported[2],
           exported[3]);
    cr_expect(exported[1] >= 50 && exported[2] >= 50 && exported[3] >= 5);
}

/* ---- names and sizes ---- */

/* y = x w, for an x and a result of these names. */
static struct mg_plan *product(struct bench *b, const char *x, const char *y)
{
    struct mg_plan *plan;
    struct mg_error err = {0};
    mg_value in[] = {mg_graph_add_value(b->g, x, MG_KIND_INPUT, MG_DTYPE_F32, SHAPE(4, 16)),
                     mg_graph_add_value(b->g, "w", MG_KIND_WEIGHT, MG_DTYPE_F32, SHAPE(16, 32))};
    mg_value out;
    cr_assert_eq(mg_graph_add_op(b->g, MG_OP_MATMUL, "m", in, 2, NULL, 0, &y, 1, &out, &err), MG_OK, "%s", err.message);
    mg_graph_add_output(b->g, out);
    cr_assert(normalise(b), "%s", b->err.message);
    cr_assert_eq(mg_plan_original(b->n, mg_device_builtin("rtx3090"), &b->arena, &plan, &err), MG_OK);
    return plan;
}

/* To ONNX an empty name is none: the value gets another. */
Test(export_onnx, empty_names)
{
    static const char *const names[][2] = {{"", "y"}, {"x", ""}};
    for (int i = 0; i < 2; i++) {
        struct bench b;
        struct mg_writer w;
        struct mg_onnx_model model;
        struct mg_error err = {0};
        bench_open(&b);
        const struct mg_plan *plan = product(&b, names[i][0], names[i][1]);
        mg_writer_init(&w);
        cr_assert_eq(mg_export_write(MG_EXPORT_ONNX, &w, b.n, plan, NULL, &b.arena, &err), MG_OK, "%s", err.message);
        cr_assert(mg_writer_finish(&w));
        struct mg_bytes_block block = {w.data, w.size};
        struct mg_bytes source = mg_bytes_from_block(&block);
        cr_assert_eq(mg_onnx_read(&source, &(struct mg_onnx_options){0}, &b.arena, &model, &err), MG_OK, "%s",
                     err.message);
        cr_expect_eq(model.graph->op_count, 1);
        cr_expect_eq(model.graph->output_count, 1);
        cr_expect_eq(mg_graph_find_value(model.graph, ""), MG_NONE);
        mg_writer_release(&w);
        bench_close(&b);
    }
}

struct sized {
    struct mg_export e;
    uint64_t most;
    size_t size;
};

static enum mg_code write_sized(void *context, struct mg_error *err)
{
    struct sized *sized = context;
    struct mg_writer w;
    mg_writer_init(&w);
    mg_writer_init(&sized->e.scratch);
    sized->e.w = &w;
    sized->e.err = err;
    enum mg_code code = mg_write_onnx_within(&sized->e, sized->most);
    cr_assert(code != MG_OK || mg_writer_finish(&w));
    sized->size = w.size;
    mg_writer_release(&sized->e.scratch);
    mg_writer_release(&w);
    return code;
}

/* Contents of a weight are left out where they find no room; what does not fit without them is refused. */
Test(export_onnx, no_model_is_too_large)
{
    struct bench b;
    struct mg_error err = {0};
    static const double numbers[16 * 32];
    const struct mg_onnx_data data = {.dtype = MG_DTYPE_F32, .shape = *SHAPE(16, 32), .real = numbers};
    struct mg_onnx_content content = {"w", &data};
    const struct mg_onnx_model known = {.contents = &content, .content_count = 1};
    bench_open(&b);
    const struct mg_plan *plan = product(&b, "x", "y");
    struct sized s = {.e = {.original = b.n, .g = b.n, .plan = plan, .known = &known, .arena = &b.arena}, .most = 5000};
    cr_expect_eq(mg_arena_guard(&b.arena, write_sized, &s, &err), MG_OK, "%s", err.message);
    cr_expect(s.size > sizeof(float[16 * 32]) && s.size <= s.most, "%zu bytes", s.size);
    s.most = 3000;
    cr_expect_eq(mg_arena_guard(&b.arena, write_sized, &s, &err), MG_OK, "%s", err.message);
    cr_expect_lt(s.size, sizeof(float[16 * 32]));
    for (s.most = 0; s.most < 1400; s.most += 10) {
        cr_expect_eq(mg_arena_guard(&b.arena, write_sized, &s, &err), MG_ERR_LIMIT, "within %llu bytes",
                     (unsigned long long)s.most);
        cr_expect(strstr(err.message, "bytes"), "%s", err.message);
    }
    bench_close(&b);
}
