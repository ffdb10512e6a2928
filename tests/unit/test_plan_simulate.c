/* The simulator against the exact case of the paper's Figure 2, against a literal expansion of all
 * parts of all regions (R2's shortcut), and against a step-by-step count of memory (S3). */
#include <math.h>

#include "tests/unit/plan_util.h"

enum { MIB = 1 << 20 };

static const struct mg_plan *original_of(struct bench *b, const char *device)
{
    struct mg_plan *plan = NULL;
    cr_assert_eq(mg_plan_original(b->n, mg_device_builtin(device), &b->arena, &plan, &b->err), MG_OK, "%s",
                 b->err.message);
    return plan;
}

Test(plan_simulate, figure2_original)
{
    struct bench b;
    bench_open(&b);
    figure2(&b, 32, 32, 262144);
    const struct mg_plan *plan = original_of(&b, "rtx3090");
    cr_expect_eq(plan->figures.peak_bytes, 1056ull * MIB);
    cr_expect_eq(plan->figures.arena_bytes, 1056ull * MIB);
    cr_expect_eq(plan->figures.host_bytes, 0);
    bench_close(&b);
}

/* ---- Figure 2 by swapping alone ---- */
struct swapping {
    struct bench *b;
    struct mg_plan *plan;
};

/* Three tensors at a time: x_i goes out as soon as it is made and comes back one operator early. */
static enum mg_code build_swapping(void *context, struct mg_error *err)
{
    struct swapping *s = context;
    const struct mg_graph *g = s->b->n;
    struct mg_plan_builder *b = mg_plan_builder_new(g, mg_device_builtin("rtx3090"), &s->b->arena);
    uint32_t x[33], in[2], y;
    x[0] = mg_plan_builder_initial(b, mg_graph_find_value(g, "x0"));
    for (uint32_t i = 1; i <= 32; i++) {
        x[i] = MG_NONE;
        mg_plan_builder_compute(b, i - 1, &x[i - 1], &x[i]);
        if (i <= 30)
            mg_plan_builder_store(b, x[i]);
        if (i <= 31)
            mg_plan_builder_free(b, x[i - 1]);
    }
    for (uint32_t i = 31; i >= 1; i--) {
        in[0] = i == 31 ? x[32] : y;
        in[1] = x[i];
        y = MG_NONE;
        mg_plan_builder_compute(b, 32 + (31 - i), in, &y);
        mg_plan_builder_free(b, in[0]);
        mg_plan_builder_free(b, in[1]);
        if (i > 1)
            x[i - 1] = mg_plan_builder_load(b, x[i - 1]);
    }
    return mg_plan_builder_finish(b, NULL, &s->plan, err);
}

Test(plan_simulate, figure2_swapping)
{
    struct bench b;
    bench_open(&b);
    figure2(&b, 32, 32, 262144);
    struct swapping s = {&b, NULL};
    guarded(&b.arena, build_swapping, &s);
    cr_expect_eq(s.plan->figures.peak_bytes, 96ull * MIB, "%.2f MiB", (double)s.plan->figures.peak_bytes / MIB);
    cr_expect_eq(s.plan->figures.arena_bytes, 96ull * MIB);
    cr_expect_eq(s.plan->figures.host_bytes, 30 * 32ull * MIB);
    cr_expect_float_eq(s.plan->figures.latency_s, 0.1726, 0.0001, "%.5f", s.plan->figures.latency_s);
    bench_close(&b);
}

Test(plan_simulate, figure2_fission)
{
    struct bench b;
    bench_open(&b);
    figure2(&b, 32, 32, 262144);
    struct span span = {.from = 0, .to = (uint32_t)b.n->op_count, .parts = 32, .parent = MG_NONE, .length = 32};
    struct assembly s = {
        .g = b.n, .device = mg_device_builtin("rtx3090"), .arena = &b.arena, .spans = &span, .span_count = 1};
    guarded(&b.arena, assemble, &s);
    cr_expect_eq(s.plan->figures.peak_bytes, 97ull * MIB, "%.2f MiB", (double)s.plan->figures.peak_bytes / MIB);
    cr_expect_eq(s.plan->figures.arena_bytes, 97ull * MIB);
    cr_expect_float_eq(s.plan->figures.latency_s, 0.0167, 0.0001, "%.5f", s.plan->figures.latency_s);
    bench_close(&b);
}

/* ---- a literal simulator: every part of every region, one after the other ---- */
struct literal {
    const struct mg_graph *g;
    const struct mg_plan *plan;
    double clock[3], last, freed;
    double made[2000], touched[2000], host[2000], *slot[2000];
    bool exists[2000];        /* storage has been allocated before */
    uint32_t region_of[2000]; /* instance: begin region */
    uint32_t part[8], regions[8], depth;
    double extent_class;
};

static int64_t part_extent(const struct literal *l, uint32_t depth)
{
    int64_t length = l->plan->regions[l->regions[0]].length; /* one axis for all in these tests */
    for (uint32_t d = 0; d <= depth; d++) {
        int64_t lo, hi;
        mg_part_bounds(length, l->plan->regions[l->regions[d]].parts, l->part[d], &lo, &hi);
        length = hi - lo;
    }
    return length;
}

/* Index of the current tuple of extents among the distinct ones in order of occurrence, by listing all parts. */
static uint32_t literal_tuple(struct literal *l)
{
    if (!l->depth)
        return 0;
    struct literal probe = *l;
    int64_t want[8], seen[64][8];
    uint32_t count = 0;
    for (uint32_t d = 0; d < l->depth; d++)
        want[d] = part_extent(l, d);
    memset(probe.part, 0, sizeof probe.part);
    for (;;) {
        int64_t now[8];
        uint32_t found = 0;
        for (uint32_t d = 0; d < l->depth; d++)
            now[d] = part_extent(&probe, d);
        while (found < count && memcmp(seen[found], now, l->depth * sizeof *now) != 0)
            found++;
        if (found == count)
            memcpy(seen[count++], now, sizeof now);
        if (!memcmp(now, want, l->depth * sizeof *now))
            return found;
        uint32_t d = l->depth;
        while (d-- > 0) {
            if (++probe.part[d] < l->plan->regions[l->regions[d]].parts)
                break;
            probe.part[d] = 0;
        }
    }
}

static double literal_seconds(struct literal *l, const struct mg_step *step)
{
    uint32_t at = literal_tuple(l);
    if (step->kind == MG_STEP_ACC) {
        bool first = true;
        for (uint32_t d = l->depth; d-- > 0;) {
            first &= l->part[d] == 0; /* all accumulated results here lack the regions' one axis */
            if (l->regions[d] == l->region_of[l->plan->refs[step->in + 1]])
                break;
        }
        if (first)
            return 0;
    }
    return l->plan->prices[l->plan->refs[step->price + at]].seconds;
}

static uint32_t base_of(const struct mg_plan *plan, uint32_t instance)
{
    return plan->instances[instance].view_of == MG_NONE ? instance : plan->instances[instance].view_of;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void literal_step(struct literal *l, uint32_t at)
{
    const struct mg_plan *plan = l->plan;
    const struct mg_step *step = &plan->steps[at];
    const uint32_t *in = plan->refs + step->in, *out = plan->refs + step->out;
    if (step->kind == MG_STEP_FREE) {
        l->freed = later(l->freed, l->touched[plan->instances[in[0]].storage]);
        return;
    }
    int streams = plan->device.copy_streams, stream = 0;
    if (streams && (step->kind == MG_STEP_STORE || step->kind == MG_STEP_LOAD))
        stream = step->kind == MG_STEP_LOAD && streams == 2 ? 2 : 1;
    double start = later(later(l->clock[stream], l->clock[0]), l->freed);
    if (step->kind == MG_STEP_LOAD)
        start = later(start, l->host[plan->instances[out[0]].value]);
    else
        for (uint32_t i = 0; i < step->in_count; i++)
            start = later(start, l->made[base_of(plan, in[i])]);
    for (uint32_t i = 0; i < step->out_count; i++)
        for (uint32_t k = 0; k < step->in_count && step->kind == MG_STEP_COMPUTE; k++)
            if (plan->instances[in[k]].storage == plan->instances[out[i]].storage)
                start = later(start, l->touched[plan->instances[out[i]].storage]);
    double end = start + literal_seconds(l, step);
    l->clock[stream] = end;
    l->last = later(l->last, end);
    for (uint32_t i = 0; i < step->in_count && step->kind != MG_STEP_LOAD; i++) {
        double *touched = &l->touched[plan->instances[in[i]].storage];
        *touched = later(*touched, end);
    }
    for (uint32_t i = 0; i < step->out_count; i++) {
        double *touched = &l->touched[plan->instances[out[i]].storage];
        *touched = later(*touched, end);
        l->made[out[i]] = end;
    }
    if (step->kind == MG_STEP_JOIN || step->kind == MG_STEP_ACC)
        l->made[in[1]] = end;
    if (step->kind == MG_STEP_STORE)
        l->host[plan->instances[in[0]].value] = end;
}

static uint32_t literal_walk(struct literal *l, uint32_t from)
{
    const struct mg_plan *plan = l->plan;
    uint32_t at = from;
    for (; at < plan->step_count && plan->steps[at].kind != MG_STEP_END; at++) {
        const struct mg_step *step = &plan->steps[at];
        if (step->kind != MG_STEP_BEGIN) {
            literal_step(l, at);
            continue;
        }
        uint32_t end = at, depth = l->depth++;
        for (uint32_t i = 0; i < step->out_count; i++)
            l->region_of[plan->refs[step->out + i]] = step->op;
        l->regions[depth] = step->op;
        for (l->part[depth] = 0; l->part[depth] < plan->regions[step->op].parts; l->part[depth]++)
            end = literal_walk(l, at + 1);
        l->depth--;
        at = end;
    }
    return at;
}

static double literal_latency(const struct mg_graph *g, const struct mg_plan *plan)
{
    struct literal *l = calloc(1, sizeof *l);
    cr_assert(plan->instance_count < 2000 && g->value_count < 2000);
    l->g = g;
    l->plan = plan;
    literal_walk(l, 0);
    double last = l->last;
    free(l);
    return last;
}

/* S3 by looking at every storage at every step. */
static uint64_t counted_peak(const struct mg_plan *plan)
{
    bool live[2000] = {0};
    uint64_t peak = 0;
    for (size_t i = 0; i < plan->instance_count; i++)
        live[plan->instances[i].storage] |= plan->instances[i].made_by == MG_NONE;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        uint64_t now = 0;
        for (uint32_t i = 0; i < step->out_count; i++)
            live[plan->instances[plan->refs[step->out + i]].storage] = true;
        if (step->kind == MG_STEP_FREE)
            live[plan->instances[plan->refs[step->in]].storage] = false;
        for (size_t k = 0; k < plan->storage_count; k++)
            now += live[k] ? plan->storages[k].bytes : 0;
        peak = now > peak ? now : peak;
    }
    return peak;
}

/* ---- random plans ---- */
static uint32_t below(struct mg_rng *rng, uint32_t bound)
{
    return (uint32_t)mg_rng_below(rng, bound);
}

/* One region over a range of operators of [0, limit), often one or two nested in it. */
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

static void shuffle_prices(struct mg_plan *plan, struct mg_rng *rng)
{
    for (size_t p = 0; p < plan->price_count; p++)
        plan->prices[p].seconds = mg_rng_unit(rng) * (below(rng, 4) ? 1e-3 : 1e-2);
}

static void compare_with_literal(struct bench *b, struct assembly *s, const char *what, uint64_t seed)
{
    struct mg_simulation sim;
    cr_expect_eq(s->plan->figures.peak_bytes, counted_peak(s->plan), "%s %lu", what, seed);
    for (int streams = 0; streams <= 2; streams++) {
        s->plan->device.copy_streams = streams;
        shuffle_prices(s->plan, &s->rng);
        cr_assert_eq(mg_plan_simulate(b->n, s->plan, &b->arena, &sim, &b->err), MG_OK);
        double literal = literal_latency(b->n, s->plan);
        cr_assert_float_eq(sim.latency_s, literal, literal * 1e-11, "%s %lu, %d copy streams: %.12g, literally %.12g",
                           what, seed, streams, sim.latency_s, literal);
    }
}

Test(plan_simulate, random_plans_against_literal)
{
    uint32_t nested = 0, copies_inside = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct bench b;
        struct mg_rng rng;
        struct span spans[4];
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t rows = 2 + below(&rng, 14);
        random_graph(&b, &rng, 8 + (int)below(&rng, 10), rows, 64);
        struct assembly s = {.g = b.n, .device = mg_device_builtin("h200"), .arena = &b.arena, .spans = spans};
        s.span_count = random_spans(&rng, (uint32_t)b.n->op_count, rows, spans);
        s.swap_percent = below(&rng, 3) * 25;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        nested += s.span_count > 1;
        for (size_t i = 0, open = 0; i < s.plan->step_count; i++) {
            open += s.plan->steps[i].kind == MG_STEP_BEGIN;
            open -= s.plan->steps[i].kind == MG_STEP_END;
            copies_inside += open && s.plan->steps[i].kind == MG_STEP_LOAD;
        }
        compare_with_literal(&b, &s, "random graph", seed);
        bench_close(&b);
    }
    cr_expect_gt(nested, 50);
    cr_expect_gt(copies_inside, 300);
}

Test(plan_simulate, training_steps_against_literal)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t batch = 2 + below(&rng, 14);
        training_step(&b, 3, batch, 64);
        struct span spans[4] = {{0, 14, 2 + below(&rng, (uint32_t)batch - 1), MG_NONE, batch, 0, NULL}};
        struct assembly s = {.g = b.n, .device = mg_device_builtin("h200"), .arena = &b.arena, .spans = spans};
        s.span_count = 1;
        int64_t least = batch / spans[0].parts, inner = (batch + spans[0].parts - 1) / spans[0].parts;
        if (least >= 2)
            spans[s.span_count++] = (struct span){6, 14, 2, 0, inner, 0, NULL};
        s.swap_percent = below(&rng, 2) * 30;
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        compare_with_literal(&b, &s, "training step", seed);
        bench_close(&b);
    }
}

/* ---- the original ---- */
Test(plan_simulate, original_frees_after_last_reader)
{
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(256, 256)), unread = input(&b, "unread", SHAPE(1000, 1000));
    mg_value w = value_of(&b, MG_KIND_WEIGHT, "w", SHAPE(256, 256));
    mg_value h = op1(&b, MG_OP_MATMUL, "h", VALUES(x, w), NO_ATTRS);
    mg_value t = op1(&b, MG_OP_TRANSPOSE, "t", VALUES(h), ATTRS(LIST_OF(PERM, 1, 0)));
    mg_value y = op1(&b, MG_OP_MATMUL, "y", VALUES(t, w), NO_ATTRS);
    mg_value u = op1(&b, MG_OP_SGD, "w2", VALUES(w, y), ATTRS(REAL_OF(LR, 0.5)));
    mg_graph_add_update(b.g, w, u);
    mg_graph_add_output(b.g, h);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_assert_neq(unread, MG_NONE);
    const struct mg_plan *plan = original_of(&b, "rtx3090");
    struct mg_simulation sim;
    cr_assert_eq(mg_plan_simulate(b.n, plan, &b.arena, &sim, &b.err), MG_OK);
    uint64_t one = 256 * 256 * 4;
    /* h = x w; free x; y = t w; w2 = sgd(w, y); free y */
    enum mg_step_kind kinds[] = {MG_STEP_COMPUTE, MG_STEP_FREE, MG_STEP_COMPUTE, MG_STEP_COMPUTE, MG_STEP_FREE};
    uint64_t live[] = {3 * one, 2 * one, 3 * one, 3 * one, 2 * one};
    cr_assert_eq(plan->step_count, 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(plan->steps[i].kind, kinds[i], "step %d", i);
        cr_expect_eq(sim.timeline[i].live_bytes, live[i], "step %d", i);
    }
    cr_expect_eq(plan->figures.peak_bytes, 3 * one);
    cr_expect_eq(sim.hot_count, 5); /* x, w, h; y; and w's new version */
    bench_close(&b);
}

Test(plan_simulate, clocks_of_streams)
{
    struct bench b;
    bench_open(&b);
    figure2(&b, 4, 32, 262144);
    struct assembly s = {.g = b.n, .device = mg_device_builtin("rtx3090"), .arena = &b.arena, .swap_percent = 100};
    mg_rng_init(&s.rng, 3);
    guarded(&b.arena, assemble, &s);
    double latency[3];
    for (int streams = 0; streams <= 2; streams++) {
        struct mg_simulation sim;
        s.plan->device.copy_streams = streams;
        cr_assert_eq(mg_plan_simulate(b.n, s.plan, &b.arena, &sim, &b.err), MG_OK);
        latency[streams] = sim.latency_s;
    }
    double sum = 0;
    for (size_t i = 0; i < s.plan->step_count; i++)
        for (uint32_t p = 0; p < s.plan->steps[i].price_count; p++)
            sum += s.plan->prices[s.plan->refs[s.plan->steps[i].price + p]].seconds;
    cr_expect_float_eq(latency[0], sum, sum * 1e-12);
    cr_expect(latency[1] < latency[0]);
    cr_expect(latency[2] <= latency[1]);
    bench_close(&b);
}
