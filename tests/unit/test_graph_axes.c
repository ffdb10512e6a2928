/* Iteration axes and splits: known answers, and the shape rule as a judge of every restricted operator. */
#include <criterion/criterion.h>

#include "base/digest.h"
#include "tests/unit/op_samples.h"

/* "n4(0,-)(0) c6+(1,1)(-)": name, length, combiner where absent, dimension (*unit) in operands and results. */
static const char *axis_text(struct bench *b, const struct mg_axis *axis, const struct mg_op_info *op)
{
    static const char *const combiners[] = {"", "+", "max", "min", "*"};
    const char *text = mg_arena_printf(&b->arena, "%s=%lld%s%s", axis->name, (long long)axis->length,
                                       combiners[axis->combiner], axis->window ? "w" : "");
    for (uint32_t i = 0; i < op->in_count + op->out_count; i++) {
        bool first = i == 0 || i == op->in_count;
        struct mg_axis_use use = i < op->in_count ? axis->in[i] : axis->out[i - op->in_count];
        text = mg_arena_printf(&b->arena, "%s%s", text, i == op->in_count ? ">" : first ? " " : ",");
        text = use.dim < 0     ? mg_arena_printf(&b->arena, "%s-", text)
               : use.unit == 1 ? mg_arena_printf(&b->arena, "%s%d", text, use.dim)
                               : mg_arena_printf(&b->arena, "%s%d*%lld", text, use.dim, (long long)use.unit);
    }
    return text;
}

static const char *axes_text(struct bench *b)
{
    uint32_t count;
    const char *text = "";
    const struct mg_axis *axes = mg_op_axes(b->n, 0, &count);
    for (uint32_t a = 0; a < count; a++)
        text = mg_arena_printf(&b->arena, "%s%s%s", text, a ? "; " : "", axis_text(b, &axes[a], &b->n->ops[0]));
    return text;
}

Test(graph_axes, known_answers)
{
    static const char *const cases[][2] = {
        {"matmul | 6,5,7 7,4 | 1", "b0=6 0,->0; m=5 1,->1; n=4 -,1>2; k=7+ 2,0>-"},
        {"matmul | 3,1,7,5 4,9,7 | 1 | trans_a=1 trans_b=1",
         "b0=3 0,->0; b1=4 -,0>1; m=5 3,->2; n=9 -,1>3; k=7+ 2,2>-"},
        {"gemm | 6,7 7,4 4 | 1", "m=6 0,-,->0; n=4 -,1,0>1"},
        {"conv | 4,6,9,8 8,6,3,3 | 1 | pads=1,1,1,1 strides=2,1",
         "n=4 0,->0; f=8 -,0>1; c=6+ 1,1>-; s0=5w 2*2,->2; s1=8w 3,->3"},
        {"conv | 4,6,8 8,3,1 8 | 1 | group=2 strides=2", "n=4 0,-,->0; g=2 1*3,0*4,0*4>1*4; s0=4 2*2,-,->2"},
        {"conv | 4,6,8 8,6,1 8 | 1", "n=4 0,-,->0; f=8 -,0,0>1; s0=8 2,-,->2"},
        {"conv_grad_input | 4,8,5,4 8,6,1,1 | 1 | spatial=10,4 strides=2,1",
         "n=4 0,->0; f=8+ 1,0>-; c=6 -,1>1; s0=5 2,->2*2; s1=4 3,->3"},
        {"conv_grad_weight | 4,8,5,4 4,6,10,4 | 1 | kernel_shape=1,1 strides=2,1",
         "n=4+ 0,0>-; f=8 1,->0; c=6 -,1>1; s0=5+ 2,2*2>-; s1=4+ 3,3>-"},
        {"add | 4,1,6 5,1 | 1", "d0=4 0,->0; d1=5 -,0>1; d2=6 2,->2"},
        {"dropout | 4,6 | 2", "d0=4 0>0,0; d1=6 1>1,1"},
        {"reduce_sum | 4,5,6 | 1 | axes=0,2 keepdims=0", "d0=4+ 0>-; d1=5 1>0; d2=6+ 2>-"},
        {"reduce_mean | 4,5 | 1 | axes=1", "d0=4 0>0; d1=5+ 1>-"},
        {"reduce_max | 4,5 | 1 | axes=1", "d0=4 0>0; d1=5max 1>-"},
        {"arg_max | 4,5,6 | 1 | axis=1 keepdims=0", "d0=4 0>0; d2=6 2>1"},
        {"softmax_grad | 4,5,6 4,5,6 | 1 | axis=1", "d0=4 0,0>0; d2=6 2,2>2"},
        {"cross_entropy | 6,5,3 i64:6,3 | 1", "d0=6+ 0,0>-; d2=3+ 2,1>-"},
        {"cross_entropy | 6,5 i64:6 | 1 | ignore_index=-100", ""},
        {"cross_entropy_grad | s 6,5 i64:6 | 1", "d0=6 -,0,0>0"},
        {"layer_norm | 4,6,8 8 8 | 3", "d0=4+ 0,-,->0,0,0; d1=6+ 1,-,->1,1,1"},
        {"layer_norm_grad | 4,6,8 4,6,8 4,6,1 4,6,1 8 | 3", "d0=4+ 0,0,0,0,->0,-,-; d1=6+ 1,1,1,1,->1,-,-"},
        {"batch_norm | 4,6,5,5 6 6 | 3", "c=6 1,0,0>1,1,1"},
        {"bn_apply | 4,6,5 1,6,1 1,6,1 6 6 | 1", "c=6 1,1,1,0,0>1; d0=4 0,-,-,-,->0; d2=5 2,-,-,-,->2"},
        {"group_norm_grad | 4,6,5 4,6,5 4,3,1 4,3,1 6 | 3 | num_groups=3",
         "n=4+ 0,0,0,0,->0,-,-; g=3 1*2,1*2,1,1,0*2>1*2,0*2,0*2"},
        {"max_pool | 4,6,9 | 1 | kernel_shape=3 strides=2 pads=1,1", "n=4 0>0; c=6 1>1; s0=5w 2*2>2"},
        {"reshape | 4,6,10 | 1 | shape=24,10", "d0=4 0>0*6; d1=10 2>1"},
        {"reshape | 24,10 | 1 | shape=4,6,10", "d0=4 0*6>0; d1=10 1>2"},
        {"reshape | 12,10 | 1 | shape=8,15", "d0=4 0*3>0*2"},
        {"reshape | 1,4,6 | 1 | shape=4,1,2,3", "d0=4 1>0; d1=2 2*3>2"},
        {"reshape | 3,4 | 1 | shape=4,3", ""},
        {"transpose | 4,6,10 | 1 | perm=2,0,1", "d0=10 2>0; d1=4 0>1; d2=6 1>2"},
        {"slice | 4,6,10 | 1 | starts=1 ends=5 axes=1", "d0=4 0>0; d2=10 2>2"},
        {"concat | 4,6,10 4,1,10 | 1 | axis=1", "d0=4 0,0>0; d2=10 2,2>2"},
        {"split | 4,6 | 2 | axis=1", "d0=4 0>0,0"},
        {"pad | 4,6,10 | 1 | pads=0,1,0,0,2,0", "d0=4 0>0; d2=10 2>2"},
        {"gather | 9,5,4 i64:3,7 | 1 | axis=1", "d0=9 0,->0; d2=4 2,->3; i0=3 -,0>1; i1=7 -,1>2"},
        {"scatter_add | 4,6,8 i64:4,6 | 1 | size=9", "i0=4+ 0,0>-; i1=6+ 1,1>-; d2=8 2,->1"},
        {"attention | 2,8,5,4 2,4,7,4 2,4,7,4 5,7 | 2", "b0=2 0,0,0,->0,0; h=4 1*2,1,1,->1*2,1*2; m=5 2,-,-,0>2,2"},
        {"attention_grad | 2,4,5,4 2,4,5,4 2,4,5,4 2,4,5,4 2,4,5,4 2,4,5,1 | 3",
         "b0=2 0,0,0,0,0,0>0,0,0; h=4 1,1,1,1,1,1>1,1,1; m=5+ 2,2,-,-,2,2>2,-,-; k=5+ -,-,2,2,-,->-,2,2"},
        {"lstm | 5,4,6 1,32,6 1,32,8 | 3 | hidden_size=8", "n=4 1,-,->2,1,1"},
        {"sgd | 4,6 4,6 | 1", "d0=4 0,0>0; d1=6 1,1>1"},
        {"stat_update | 6 1,6,1,1 | 1", "c=6 0,1>0"},
        {"relu | 1,0 | 1", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench b;
        cr_assert(sample_build(&b, cases[i][0]), "%s: %s", cases[i][0], b.err.message);
        cr_assert(normalise(&b), "%s: %s", cases[i][0], b.err.message);
        cr_expect_str_eq(axes_text(&b), cases[i][1], "%s", cases[i][0]);
        bench_close(&b);
    }
}

Test(graph_axes, opaque_axes_are_those_declared)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 6)),
             y = mg_graph_add_value(b.g, "y", MG_KIND_COMPUTED, MG_DTYPE_F32, SHAPE(6));
    (void)y;
    cr_assert_neq(op1(&b, MG_OP_OPAQUE, "y", VALUES(x),
                      ATTRS(LIST_OF(AXES, MG_COMBINE_SUM, 0, -1, MG_COMBINE_NONE, 1, 0), TEXT_OF(PURITY, "pure"),
                            REAL_OF(FLOPS, 100), TEXT_OF(LATENCY, "{\"a\\\"b\": 0.25, \"h200\": 1}"))),
                  MG_NONE);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_expect_str_eq(axes_text(&b), "x0=4+ 0>-; x1=6 1>0");
    cr_expect_eq(mg_op_purity(b.n, 0), MG_PURE);
    struct mg_op_desc part;
    cr_assert_eq(mg_op_describe(b.n, 0, &(struct mg_cut){1, 0, 3}, 1, &b.arena, &part, &b.err), MG_OK);
    cr_expect_eq(mg_desc_float(&part, MG_ATTR_FLOPS), 50);
    const struct mg_attr *latency = mg_attr_find(part.attrs, part.attr_count, MG_ATTR_LATENCY);
    cr_expect_str_eq(latency->string, "{\"a\\\"b\":0.125,\"h200\":0.5}");
    bench_close(&b);
}

Test(graph_axes, every_operator_has_a_sample)
{
    bool seen[MG_OP_COUNT] = {[MG_OP_OPAQUE] = true};
    for (size_t i = 0; i < OP_SAMPLES; i++) {
        struct bench b;
        cr_assert(sample_build(&b, op_samples[i]), "%s: %s", op_samples[i], b.err.message);
        seen[b.g->ops[0].type] = true;
        bench_close(&b);
    }
    for (unsigned type = 0; type < MG_OP_COUNT; type++)
        cr_expect(seen[type], "%s", mg_op_type_name((enum mg_op_type)type));
}

/* Runs the shape rule of a described operator: do its shapes and attributes fit together? */
static void judge(struct bench *b, const struct mg_op_desc *desc, const char *sample)
{
    struct mg_shape out[8];
    enum mg_dtype out_dtype[8];
    struct mg_infer t = {.arena = &b->arena,
                         .type = desc->type,
                         .name = sample,
                         .in_count = desc->in_count,
                         .out_count = desc->out_count,
                         .in = desc->in_shape,
                         .in_dtype = desc->in_dtype,
                         .out = out,
                         .out_dtype = out_dtype,
                         .err = &b->err};
    cr_assert_eq(mg_infer_run(&t, desc->attrs, desc->attr_count), MG_OK, "%s: %s", sample, b->err.message);
    for (uint32_t i = 0; i < desc->out_count; i++)
        cr_expect(mg_shape_equal(&out[i], &desc->out_shape[i]), "%s: result %u is %s, described as %s", sample, i,
                  mg_shape_text(&b->arena, &out[i]), mg_shape_text(&b->arena, &desc->out_shape[i]));
    for (uint32_t i = 0; i < desc->attr_count; i++) {
        const struct mg_attr *a = &t.attrs[i], *d = &desc->attrs[i];
        cr_expect(a->type != MG_ATTR_TYPE_FLOAT || a->f == d->f, "%s: %s changed", sample, mg_attr_name(a->key));
        cr_expect(a->type != MG_ATTR_TYPE_INT || a->i == d->i, "%s: %s changed", sample, mg_attr_name(a->key));
        cr_expect(a->type != MG_ATTR_TYPE_INTS || !memcmp(a->ints, d->ints, a->count * sizeof(int64_t)),
                  "%s: %s changed", sample, mg_attr_name(a->key));
    }
}

static void expect_extent(const struct mg_op_desc *desc, const struct mg_axis *axis, int64_t extent)
{
    for (uint32_t i = 0; i < desc->in_count; i++)
        cr_expect(axis->in[i].dim < 0 || desc->in_shape[i].dim[axis->in[i].dim] == extent * axis->in[i].unit);
    for (uint32_t i = 0; i < desc->out_count; i++)
        cr_expect(axis->out[i].dim < 0 || desc->out_shape[i].dim[axis->out[i].dim] == extent * axis->out[i].unit);
}

Test(graph_axes, restricted_operators_pass_their_own_shape_rule)
{
    struct mg_rng rng;
    mg_rng_init(&rng, 1);
    for (size_t i = 0; i < OP_SAMPLES; i++) {
        struct bench b;
        struct mg_op_desc desc;
        uint32_t count;
        cr_assert(sample_build(&b, op_samples[i]) && normalise(&b), "%s: %s", op_samples[i], b.err.message);
        const struct mg_axis *axes = mg_op_axes(b.n, 0, &count);
        for (int round = 0; round < 20; round++) {
            struct mg_cut cuts[MG_MAX_AXES];
            uint32_t n = 0;
            for (uint32_t a = 0; a < count; a++) {
                int64_t lo = (int64_t)mg_rng_below(&rng, (uint64_t)axes[a].length);
                int64_t hi = lo + 1 + (int64_t)mg_rng_below(&rng, (uint64_t)(axes[a].length - lo));
                if (!axes[a].window && (mg_rng_below(&rng, 2) || n == 0))
                    cuts[n++] = (struct mg_cut){a, lo, hi};
            }
            cr_assert_eq(mg_op_describe(b.n, 0, cuts, n, &b.arena, &desc, &b.err), MG_OK, "%s", b.err.message);
            for (uint32_t k = 0; k < n; k++)
                expect_extent(&desc, &axes[cuts[k].axis], cuts[k].hi - cuts[k].lo);
            judge(&b, &desc, op_samples[i]);
        }
        bench_close(&b);
    }
}

Test(graph_axes, impossible_cuts_are_refused)
{
    struct bench b;
    struct mg_op_desc desc;
    cr_assert(sample_build(&b, "conv | 4,6,9,9 8,6,3,3 | 1") && normalise(&b));
    static const struct mg_cut bad[] = {{9, 0, 1}, {0, -1, 2}, {0, 2, 2}, {0, 3, 5}, {3, 0, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_neq(mg_op_describe(b.n, 0, &bad[i], 1, &b.arena, &desc, &b.err), MG_OK);
    cr_expect_eq(b.err.code, MG_ERR_UNSUPPORTED, "the last one is a window");
    struct mg_cut twice[] = {{0, 0, 1}, {0, 1, 2}};
    cr_expect_eq(mg_op_describe(b.n, 0, twice, 2, &b.arena, &desc, &b.err), MG_ERR_INVALID);
    bench_close(&b);
}
