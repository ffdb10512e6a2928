/* The checker accepts what is right: originals, and plans with regions, swaps and recomputation made by
 * the builder, which shares no code with it. */
#include "exec/exec.h"
#include "search/search.h"
#include "tests/unit/check_util.h"
#include "zoo/zoo.h"

/* One region over a range of operators of [0, limit), often another nested in it. */
static uint32_t random_spans(struct mg_rng *rng, uint32_t limit, int64_t rows, struct span spans[4])
{
    uint32_t count = 0, from = below(rng, limit - 3), to = from + 3 + below(rng, limit - from - 2);
    uint32_t parts = 2 + below(rng, (uint32_t)rows - 1);
    spans[count++] = (struct span){from, to, parts, MG_NONE, rows, 0, NULL};
    int64_t inner = (rows + parts - 1) / parts, least = rows / parts;
    if (least >= 2 && to - from >= 4 && below(rng, 2)) {
        uint32_t first = from + below(rng, to - from - 2), last = first + 2 + below(rng, to - first - 1);
        parts = 2 + below(rng, (uint32_t)least - 1);
        if (last - first < to - from)
            spans[count++] = (struct span){first, last, parts, 0, inner, 0, NULL};
    }
    return count;
}

/* Copies that take anything between a tenth of an operator's time and a hundred operators', on 0 to 2 streams. */
static struct mg_device random_device(struct mg_rng *rng)
{
    static const double latencies[] = {3e-7, 3e-6, 3e-5, 3e-4};
    struct mg_device device = *mg_device_builtin("h200");
    device.copy_streams = (int)below(rng, 3);
    device.link_latency_s = latencies[below(rng, 4)];
    return device;
}

Test(check, random_plans)
{
    uint32_t unconnected = 0, accepted = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct bench b;
        struct mg_rng rng;
        struct span spans[4];
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t rows = 2 + below(&rng, 14);
        random_graph(&b, &rng, 8 + (int)below(&rng, 10), rows, 64);
        struct mg_device device = random_device(&rng);
        struct assembly s = {.g = b.n, .device = &device, .arena = &b.arena, .spans = spans};
        s.span_count = random_spans(&rng, (uint32_t)b.n->op_count, rows, spans);
        s.swap_percent = below(&rng, 3) * 25;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        state_original(b.n, s.plan, &b.arena);
        struct mg_verdict verdict = verdict_of(b.n, s.plan, &b.arena);
        if (!verdict.accepted && strcmp(verdict.reason, "connected") == 0)
            unconnected++; /* the ranges are chosen blindly */
        else
            expect_accepted(b.n, s.plan, &b.arena, "random graph", seed);
        accepted += verdict.accepted;
        bench_close(&b);
    }
    cr_expect_gt(accepted, 300, "%u accepted, %u not connected", accepted, unconnected);
}

Test(check, training_steps)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t batch = 2 + below(&rng, 14);
        training_step(&b, 3, batch, 64);
        struct span spans[4] = {{0, 14, 2 + below(&rng, (uint32_t)batch - 1), MG_NONE, batch, 0, NULL}};
        struct mg_device device = random_device(&rng);
        struct assembly s = {.g = b.n, .device = &device, .arena = &b.arena, .spans = spans};
        s.span_count = 1;
        int64_t least = batch / spans[0].parts, inner = (batch + spans[0].parts - 1) / spans[0].parts;
        if (least >= 2)
            spans[s.span_count++] = (struct span){6, 14, 2, 0, inner, 0, NULL};
        s.swap_percent = below(&rng, 2) * 30;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        state_original(b.n, s.plan, &b.arena);
        expect_accepted(b.n, s.plan, &b.arena, "training step", seed);
        bench_close(&b);
    }
}

static double no_time(void *context)
{
    (void)context;
    return 0;
}

/* x is read; so, if there are `dead` views, are intermediates and another input, but by these alone. */
static void chain_with_views(struct bench *b, bool dead)
{
    bench_open(b);
    mg_value x = input(b, "x", SHAPE(7, 16)), unread = input(b, "unread", SHAPE(64, 64));
    mg_value p = op1(b, MG_OP_EXP, NULL, VALUES(x), NO_ATTRS), q = op1(b, MG_OP_TANH, NULL, VALUES(p), NO_ATTRS);
    mg_value r = op1(b, MG_OP_SIN, NULL, VALUES(q), NO_ATTRS);
    for (int i = 0; dead && i < 2; i++) {
        mg_value view = op1(b, MG_OP_TRANSPOSE, NULL, VALUES(i ? p : unread), NO_ATTRS);
        op1(b, MG_OP_UNSQUEEZE, NULL, VALUES(view), ATTRS(LIST_OF(AXES, 0)));
    }
    mg_graph_add_output(b->g, op1(b, MG_OP_COS, NULL, VALUES(r), NO_ATTRS));
    cr_assert(normalise(b), "%s", b->err.message);
}

static void search_few(struct bench *b, struct mg_search_result *result)
{
    struct mg_search_options wanted = {
        .device = mg_device_builtin("rtx3090"), .max_evaluations = 20, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    struct mg_observer observer = {.now = no_time};
    cr_assert_eq(mg_search(b->n, &wanted, &observer, &b->arena, result, &b->err), MG_OK, "%s", b->err.message);
    cr_expect_eq(result->rejected, 0);
}

Test(check, dead_views_keep_nothing_alive)
{
    struct bench without, with;
    struct mg_search_result one, other;
    chain_with_views(&without, false);
    chain_with_views(&with, true);
    search_few(&without, &one);
    search_few(&with, &other);
    cr_expect_eq(one.original.figures.peak_bytes, 1024);
    cr_expect_eq(other.original.figures.peak_bytes, 1024);
    cr_expect_eq(other.lower_bound_bytes, one.lower_bound_bytes);
    bench_close(&without);
    bench_close(&with);
}

Test(check, a_verdict_names_the_step_if_there_is_one)
{
    char place[40];
    cr_expect_str_eq(mg_verdict_place(&(struct mg_verdict){.step = 7}, place), "step 7 of the plan");
    cr_expect_str_eq(mg_verdict_place(&(struct mg_verdict){.step = MG_NONE}, place), "the plan");
}

static uint32_t with_step(const struct mg_plan *plan, enum mg_step_kind kind)
{
    for (size_t s = 0; s < plan->step_count; s++)
        if (plan->steps[s].kind == kind)
            return 1;
    return 0;
}

/* Nested regions on any dimensions: views of parts, slices, joins, sums, results that nobody reads. */
Test(check, random_trees)
{
    uint32_t careless = 0, accepted = 0, slices = 0, joins = 0, accs = 0;
    for (uint64_t seed = 1; seed <= 250; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        random_network(&b, &rng);
        for (int i = 0; i < 3; i++) {
            const struct mg_plan *plan = random_tree(&b, &rng);
            if (!plan)
                continue;
            struct mg_verdict verdict = verdict_of(b.n, plan, &b.arena);
            if (!verdict.accepted &&
                (strcmp(verdict.reason, "connected") == 0 || strcmp(verdict.reason, "store") == 0)) {
                careless++; /* grown blindly; stored as a part and as a whole */
                continue;
            }
            expect_accepted(b.n, plan, &b.arena, "tree", seed);
            accepted++;
            slices += with_step(plan, MG_STEP_SLICE);
            joins += with_step(plan, MG_STEP_JOIN);
            accs += with_step(plan, MG_STEP_ACC);
        }
        bench_close(&b);
    }
    cr_expect(accepted > 300 && slices > 10 && joins > 100 && accs > 50,
              "%u accepted, %u careless, slices in %u, joins in %u, accs in %u", accepted, careless, slices, joins,
              accs);
}

/* ---- plans of the search ---- */

/* So small that copies are worth while. */
static struct mg_device small_device(void)
{
    struct mg_device device = *mg_device_builtin("rtx3090");
    device.launch_s = 1e-12;
    device.link_latency_s = 1e-10;
    device.align = 64;
    return device;
}

Test(check, plans_of_the_search)
{
    static const struct mg_zoo_option options[] = {{"batch", "4"},  {"variant", "paper"}, {"seq_len", "3"},
                                                   {"layers", "2"}, {"hidden", "4"},      {"heads", "2"}};
    struct mg_training training = {MG_LOSS_SQUARED, MG_OPTIMIZER_SGD, NULL, 0};
    struct mg_graph *forward, *step, *g;
    struct mg_error err = {0};
    struct mg_arena arena;
    struct mg_search_result result;
    struct mg_device device = small_device();
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_zoo_build("bert-base", options, 6, &arena, &forward, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_differentiate(forward, &training, &arena, &step, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_normalise(step, &arena, &g, &err), MG_OK, "%s", err.message);
    struct mg_search_options wanted = {
        .device = &device, .max_evaluations = 500, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    struct mg_observer observer = {.now = no_time};
    cr_assert_eq(mg_search(g, &wanted, &observer, &arena, &result, &err), MG_OK, "%s", err.message);
    cr_expect_eq(result.rejected, 0);
    cr_expect_gt(result.front_count, 2);
    for (uint32_t i = 0; i < result.front_count; i++) {
        double difference = 1;
        expect_accepted(g, result.front[i].plan, &arena, "search", i);
        cr_assert_eq(mg_exec_compare(g, result.front[i].plan, 5, 3, &difference, &arena, &err), MG_OK, "%s",
                     err.message);
        cr_expect_lt(difference, 1e-9);
    }
    mg_arena_release(&arena);
}
