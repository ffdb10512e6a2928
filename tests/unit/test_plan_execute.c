/* Plans of the builder executed on real numbers against the original, in the reference executor: random
 * graphs, regions over random axes (slices, joins, accumulations, views, nesting) with random swaps. */
#include "exec/exec.h"
#include "tests/unit/plan_util.h"

/* Values of rank 3 through matmul, softmax, reductions, transposes, reshapes and elementwise operators. */
static void varied_graph(struct bench *b, struct mg_rng *rng)
{
    int64_t n = 2 + (int64_t)mg_rng_below(rng, 4), s = 2 + (int64_t)mg_rng_below(rng, 4), h = 4;
    mg_value pool[40], w = value_of(b, MG_KIND_WEIGHT, "w", SHAPE(h, h));
    mg_value mix = value_of(b, MG_KIND_WEIGHT, "mix", SHAPE(s, s, 1, 1));
    uint32_t count = 0;
    pool[count++] = input(b, "x", SHAPE(n, s, h));
    while (count < 16) {
        mg_value a = pool[count - 1], c = pool[mg_rng_below(rng, count)], t;
        switch (mg_rng_below(rng, 9)) {
        case 0:
            pool[count++] = op1(b, MG_OP_MATMUL, NULL, VALUES(a, w), NO_ATTRS);
            break;
        case 1:
            pool[count++] = op1(b, MG_OP_SOFTMAX, NULL, VALUES(a), ATTRS(INT_OF(AXIS, -1)));
            break;
        case 2: /* there and back: one of the two may need a copy */
            t = op1(b, MG_OP_TRANSPOSE, NULL, VALUES(a), ATTRS(LIST_OF(PERM, 1, 0, 2)));
            t = op1(b, MG_OP_TANH, NULL, VALUES(t), NO_ATTRS);
            pool[count++] = op1(b, MG_OP_TRANSPOSE, NULL, VALUES(t), ATTRS(LIST_OF(PERM, 1, 0, 2)));
            break;
        case 3:
            t = op1(b, MG_OP_RESHAPE, NULL, VALUES(a), ATTRS(LIST_OF(SHAPE, n * s, h)));
            t = op1(b, MG_OP_TANH, NULL, VALUES(t), NO_ATTRS);
            pool[count++] = op1(b, MG_OP_RESHAPE, NULL, VALUES(t), ATTRS(LIST_OF(SHAPE, n, s, h)));
            break;
        case 4:
            t = op1(b, MG_OP_REDUCE_SUM, NULL, VALUES(a), ATTRS(LIST_OF(AXES, 1), INT_OF(KEEPDIMS, 1)));
            pool[count++] = op1(b, MG_OP_ADD, NULL, VALUES(c, t), NO_ATTRS);
            break;
        case 5:
            pool[count++] = op1(b, MG_OP_TANH, NULL, VALUES(a), NO_ATTRS);
            break;
        case 6: /* wants each sample dense: split along its image, its operand is sliced */
            t = op1(b, MG_OP_RESHAPE, NULL, VALUES(a), ATTRS(LIST_OF(SHAPE, n, s, 2, h / 2)));
            t = op1(b, MG_OP_CONV, NULL, VALUES(t, mix), NO_ATTRS);
            pool[count++] = op1(b, MG_OP_RESHAPE, NULL, VALUES(t), ATTRS(LIST_OF(SHAPE, n, s, h)));
            break;
        default:
            pool[count++] = op1(b, MG_OP_ADD, NULL, VALUES(a, c), NO_ATTRS);
        }
        cr_assert_neq(pool[count - 1], MG_NONE, "%s", b->err.message);
    }
    mg_graph_add_output(b->g, pool[count - 1]);
    mg_graph_add_output(b->g, pool[count / 2]);
    mg_graph_add_output(b->g, op1(b, MG_OP_REDUCE_SUM, NULL, VALUES(pool[count - 2]), ATTRS(LIST_OF(AXES, 0))));
    cr_assert(normalise(b), "%s", b->err.message);
}

static uint32_t below(struct mg_rng *rng, uint32_t bound)
{
    return (uint32_t)mg_rng_below(rng, bound);
}

/* A region from a random operator over a random axis of it; 0 operators if none fits. */
static uint32_t random_region(struct bench *b, struct mg_rng *rng, mg_op from, mg_op limit, struct span *span,
                              struct mg_region_op *ops)
{
    uint32_t axes;
    int64_t length;
    (void)mg_op_axes(b->n, from, &axes);
    uint32_t count = axes ? grow_region(b->n, from, below(rng, axes), limit, ops, &length) : 0;
    if (count > 2)
        count -= below(rng, count / 2);
    if (!count)
        return 0;
    *span = (struct span){from, from + count, 2 + below(rng, (uint32_t)length - 1), MG_NONE, length, 0, ops};
    return count;
}

/* Nests a region over other axes, or over the same: then its length is the extent of the parent's part 0. */
static bool random_nested(struct bench *b, struct mg_rng *rng, struct span spans[2], struct mg_region_op *ops)
{
    mg_op from = spans[0].from + below(rng, spans[0].to - spans[0].from);
    if (!random_region(b, rng, from, spans[0].to, &spans[1], ops))
        return false;
    spans[1].parent = 0;
    const struct mg_region_op *outer = &spans[0].ops[from - spans[0].from];
    if (ops[0].axis == outer->axis) {
        int64_t least = spans[0].length / spans[0].parts;
        if (least * outer->scale < 2)
            return false;
        spans[1].length = (spans[0].length + spans[0].parts - 1) / spans[0].parts * outer->scale;
        spans[1].parts = 2;
    }
    return spans[1].to - spans[1].from < spans[0].to - spans[0].from;
}

struct counts {
    uint32_t slices, joins, accs, mixed_accs, views, copies, nested;
};

static void count_steps(const struct mg_plan *plan, struct counts *c)
{
    uint32_t open = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        enum mg_step_kind kind = plan->steps[i].kind;
        open += kind == MG_STEP_BEGIN;
        open -= kind == MG_STEP_END;
        c->slices += kind == MG_STEP_SLICE;
        c->joins += kind == MG_STEP_JOIN;
        c->accs += kind == MG_STEP_ACC;
        if (kind == MG_STEP_ACC) /* first parts join */
            c->mixed_accs +=
                !strcmp(plan->prices[plan->refs[plan->steps[i].price + plan->steps[i].price_count - 1]].name, "join");
        c->copies += open && kind == MG_STEP_LOAD;
    }
    for (size_t i = 0; i < plan->instance_count; i++)
        c->views += plan->instances[i].view_of != MG_NONE;
    c->nested += plan->region_count > 1;
}

static void compare(struct bench *b, struct assembly *s, uint64_t seed)
{
    double difference = 1;
    enum mg_code code = mg_exec_compare(b->n, s->plan, seed, 4, &difference, &b->arena, &b->err);
    cr_assert_eq(code, MG_OK, "seed %lu: %s", seed, b->err.message);
    struct mg_verdict verdict;
    struct mg_plan *original;
    cr_assert_eq(mg_plan_original(b->n, &s->plan->device, &b->arena, &original, &b->err), MG_OK);
    s->plan->original = original->figures;
    cr_assert_eq(mg_plan_check(b->n, s->plan, &b->arena, &verdict, &b->err), MG_OK, "%s", b->err.message);
    cr_assert(verdict.accepted, "seed %lu, step %u: %s: %s", seed, verdict.step, verdict.reason, verdict.message);
    cr_assert_leq(difference, 1e-9, "seed %lu: outputs differ by %g", seed, difference);
}

Test(plan_execute, random_regions)
{
    struct counts counts = {0};
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        struct bench b;
        struct mg_rng rng;
        struct span spans[2];
        struct mg_region_op ops[2][128];
        bench_open(&b);
        mg_rng_init(&rng, seed);
        varied_graph(&b, &rng);
        struct assembly s = {.g = b.n, .device = mg_device_builtin("rtx3090"), .arena = &b.arena, .spans = spans};
        uint32_t last = (uint32_t)b.n->op_count;
        if (random_region(&b, &rng, below(&rng, last), last, &spans[0], ops[0]))
            s.span_count = 1;
        if (s.span_count && random_nested(&b, &rng, spans, ops[1]))
            s.span_count = 2;
        s.swap_percent = below(&rng, 3) * 25;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        count_steps(s.plan, &counts);
        compare(&b, &s, seed);
        bench_close(&b);
    }
    cr_expect(counts.slices > 30 && counts.joins > 100 && counts.accs > 100 && counts.views > 1000);
    cr_expect(counts.copies > 100 && counts.nested > 100 && counts.mixed_accs > 10, "%u", counts.mixed_accs);
}

Test(plan_execute, training_steps)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t batch = 2 + below(&rng, 8);
        training_step(&b, 3, batch, 4);
        struct span spans[2] = {{0, 14, 2 + below(&rng, (uint32_t)batch - 1), MG_NONE, batch, 0, NULL}};
        struct assembly s = {.g = b.n, .device = mg_device_builtin("h200"), .arena = &b.arena, .spans = spans};
        s.span_count = 1;
        if (batch / spans[0].parts >= 2)
            spans[s.span_count++] = (struct span){6, 14, 2, 0, (batch + spans[0].parts - 1) / spans[0].parts, 0, NULL};
        s.swap_percent = below(&rng, 2) * 30;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        compare(&b, &s, seed);
        bench_close(&b);
    }
}

Test(plan_execute, originals)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct bench b;
        struct mg_rng rng;
        struct assembly s = {0};
        bench_open(&b);
        mg_rng_init(&rng, seed);
        varied_graph(&b, &rng);
        cr_assert_eq(mg_plan_original(b.n, mg_device_builtin("rtx3090"), &b.arena, &s.plan, &b.err), MG_OK);
        compare(&b, &s, seed);
        bench_close(&b);
    }
}

/* R9: an update inside a region writes slices of the resident storage itself. */
Test(plan_execute, update_inside_a_region)
{
    for (int dim = 0; dim < 2; dim++) {
        struct bench b;
        bench_open(&b);
        mg_value d = input(&b, "d", SHAPE(6, 6)), e = input(&b, "e", SHAPE(6, 6)), x = input(&b, "x", SHAPE(4, 6));
        mg_value w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(6, 6));
        mg_graph_add_output(b.g, op1(&b, MG_OP_MATMUL, NULL, VALUES(x, w), NO_ATTRS));
        mg_value g = op1(&b, MG_OP_MUL, NULL, VALUES(d, e), NO_ATTRS);
        mg_graph_add_update(b.g, w, op1(&b, MG_OP_SGD, NULL, VALUES(w, g), ATTRS(REAL_OF(LR, 0.25))));
        cr_assert(normalise(&b), "%s", b.err.message);
        struct mg_region_op ops[2] = {{1, axis_of_dim0(b.n, 1, dim), 1}, {2, axis_of_dim0(b.n, 2, dim), 1}};
        struct span span = {1, 3, 4, MG_NONE, 6, 0, ops};
        struct assembly s = {
            .g = b.n, .device = mg_device_builtin("h200"), .arena = &b.arena, .spans = &span, .span_count = 1};
        guarded(&b.arena, assemble, &s);
        cr_expect_eq(s.plan->steps[s.plan->instances[s.plan->instance_count - 1].made_by].kind, MG_STEP_COMPUTE);
        compare(&b, &s, 7);
        bench_close(&b);
    }
}

/* A weight at home on the host is loaded before its use, and stored after its update. */
Test(plan_execute, weight_at_home_on_the_host)
{
    struct bench b;
    struct assembly s = {0};
    bench_open(&b);
    training_step(&b, 2, 4, 8);
    struct mg_graph *n = b.n;
    n->values[mg_graph_find_value(n, "w1")].home = MG_HOME_HOST;
    cr_assert_eq(mg_plan_original(n, mg_device_builtin("rtx3090"), &b.arena, &s.plan, &b.err), MG_OK, "%s",
                 b.err.message);
    uint32_t loads = 0, stores = 0;
    for (size_t i = 0; i < s.plan->step_count; i++) {
        loads += s.plan->steps[i].kind == MG_STEP_LOAD && s.plan->steps[i].in_count == 0;
        stores += s.plan->steps[i].kind == MG_STEP_STORE;
    }
    cr_expect(loads == 1 && stores == 1);
    cr_expect_eq(s.plan->figures.host_bytes, 8 * 8 * 4);
    compare(&b, &s, 1);
    bench_close(&b);
}
