/* The checker accepts what is right: originals, and plans with regions, swaps and recomputation made by
 * the builder, which shares no code with it. */
#include "tests/unit/plan_util.h"

static void expect_accepted(struct bench *b, const struct mg_plan *plan, const char *what, uint64_t seed)
{
    struct mg_verdict verdict;
    cr_assert_eq(mg_plan_check(b->n, plan, &b->arena, &verdict, &b->err), MG_OK, "%s", b->err.message);
    cr_assert(verdict.accepted, "%s %lu: step %u: %s: %s", what, seed, verdict.step, verdict.reason, verdict.message);
    cr_expect_eq(verdict.figures.peak_bytes, plan->figures.peak_bytes);
    cr_expect_eq(verdict.figures.arena_bytes, plan->figures.arena_bytes);
    cr_expect_eq(verdict.figures.host_bytes, plan->figures.host_bytes);
    cr_expect_float_eq(verdict.figures.latency_s, plan->figures.latency_s, 1e-9 * plan->figures.latency_s);
}

static uint32_t below(struct mg_rng *rng, uint32_t bound)
{
    return (uint32_t)mg_rng_below(rng, bound);
}

/* One region over a range of operators of [0, limit), often another nested in it. */
static uint32_t random_spans(struct mg_rng *rng, uint32_t limit, int64_t rows, struct span spans[4])
{
    uint32_t count = 0, from = below(rng, limit - 3), to = from + 3 + below(rng, limit - from - 2);
    uint32_t parts = 2 + below(rng, (uint32_t)rows - 1);
    spans[count++] = (struct span){from, to, parts, MG_NONE, rows, 0};
    int64_t inner = (rows + parts - 1) / parts, least = rows / parts;
    if (least >= 2 && to - from >= 4 && below(rng, 2)) {
        uint32_t first = from + below(rng, to - from - 2), last = first + 2 + below(rng, to - first - 1);
        parts = 2 + below(rng, (uint32_t)least - 1);
        if (last - first < to - from)
            spans[count++] = (struct span){first, last, parts, 0, inner, 0};
    }
    return count;
}

Test(check, random_plans)
{
    uint32_t unconnected = 0, accepted = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct bench b;
        struct mg_rng rng;
        struct span spans[4];
        struct mg_verdict verdict;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t rows = 2 + below(&rng, 14);
        random_graph(&b, &rng, 8 + (int)below(&rng, 10), rows, 64);
        struct assembly s = {.g = b.n, .device = mg_device_builtin("h200"), .arena = &b.arena, .spans = spans};
        s.span_count = random_spans(&rng, (uint32_t)b.n->op_count, rows, spans);
        s.swap_percent = below(&rng, 3) * 25;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        cr_assert_eq(mg_plan_check(b.n, s.plan, &b.arena, &verdict, &b.err), MG_OK);
        if (!verdict.accepted && strcmp(verdict.reason, "connected") == 0)
            unconnected++; /* the ranges are chosen blindly */
        else
            expect_accepted(&b, s.plan, "random graph", seed);
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
        struct span spans[4] = {{0, 14, 2 + below(&rng, (uint32_t)batch - 1), MG_NONE, batch, 0}};
        struct assembly s = {.g = b.n, .device = mg_device_builtin("h200"), .arena = &b.arena, .spans = spans};
        s.span_count = 1;
        int64_t least = batch / spans[0].parts, inner = (batch + spans[0].parts - 1) / spans[0].parts;
        if (least >= 2)
            spans[s.span_count++] = (struct span){6, 14, 2, 0, inner, 0};
        s.swap_percent = below(&rng, 2) * 30;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        expect_accepted(&b, s.plan, "training step", seed);
        bench_close(&b);
    }
}
