/* Plans executed literally in one arena give the numbers of their graph: originals, regions (also nested,
 * joined, accumulated), swaps, recomputation; and broken plans are caught. */
#include <math.h>

#include "exec/exec.h"
#include "plan_util.h"
#include "zoo/zoo.h"

static double difference_of(const struct mg_graph *g, const struct mg_plan *plan, uint64_t seed, struct mg_arena *arena,
                            const char *label)
{
    struct mg_error err = {0};
    double difference = NAN;
    enum mg_code code = mg_exec_compare(g, plan, seed, 3, &difference, arena, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", label, err.pointer, err.message);
    return difference;
}

/* ---- zoo networks, small ---- */

struct small_net {
    const char *name;
    struct mg_zoo_option options[8];
    uint32_t count;
    enum mg_loss loss;
    enum mg_optimizer optimizer;
};

static const struct small_net small_nets[] = {
    {"mlp",
     {{"batch", "6"}, {"variant", "paper"}, {"in", "5"}, {"hidden", "4"}, {"classes", "3"}},
     5,
     MG_LOSS_SQUARED,
     MG_OPTIMIZER_SGD},
    {"bert-base",
     {{"batch", "4"}, {"variant", "paper"}, {"seq_len", "3"}, {"layers", "2"}, {"hidden", "4"}, {"heads", "2"}},
     6,
     MG_LOSS_SQUARED,
     MG_OPTIMIZER_SGD},
    {"vit-base-16",
     {{"batch", "3"},
      {"variant", "paper"},
      {"image", "32"},
      {"layers", "1"},
      {"hidden", "8"},
      {"heads", "2"},
      {"classes", "5"}},
     7,
     MG_LOSS_MSE,
     MG_OPTIMIZER_ADAM},
};

enum { SMALL_NET_COUNT = sizeof small_nets / sizeof small_nets[0] };

static struct mg_graph *build_net(const struct small_net *net, struct mg_arena *arena)
{
    struct mg_error err = {0};
    struct mg_graph *forward, *raw, *g;
    struct mg_training training = {.loss = net->loss, .optimizer = net->optimizer};
    enum mg_code code = mg_zoo_build(net->name, net->options, net->count, arena, &forward, &err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, arena, &raw, &err);
    if (code == MG_OK)
        code = mg_graph_normalise(raw, arena, &g, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", net->name, err.pointer, err.message);
    return g;
}

static enum mg_code originals(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    for (int i = 0; i < SMALL_NET_COUNT; i++) {
        struct mg_graph *g = build_net(&small_nets[i], arena);
        struct mg_plan *plan;
        enum mg_code code = mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err);
        cr_assert_eq(code, MG_OK, "%s", err->message);
        cr_expect_eq(difference_of(g, plan, 3, arena, small_nets[i].name), 0, "%s", small_nets[i].name);
    }
    return MG_OK;
}

Test(exec_plan, originals_equal_their_graphs)
{
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    guarded(&arena, originals, &arena);
    mg_arena_release(&arena);
}

/* ---- the batch in parts: every operator that carries it, in one region ---- */

struct batch_use { /* how the batch lies in a value */
    bool there;
    int8_t dim;
    int64_t unit; /* elements of the dimension for each sample */
};
struct micro {
    const struct mg_graph *g;
    struct mg_arena *arena;
    uint32_t parts;
    int64_t batch;
    struct mg_region_op *ops;
    uint32_t op_count;
    bool *inside; /* by operator */
    struct batch_use *use;
    struct mg_plan_builder *b;
    uint32_t *current; /* by base value */
    uint32_t *slices;
    size_t slice_count, slice_capacity;
    bool swap; /* store what the body keeps for later, and load it before its last reader */
    struct mg_plan *plan;
};

/* The operator's axis along which some operand carries the batch. */
static bool batch_axis(struct micro *m, mg_op op, struct mg_region_op *out)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(m->g, op, &count);
    const struct mg_op_info *info = &m->g->ops[op];
    for (uint32_t i = 0; i < info->in_count; i++) {
        struct batch_use use = m->use[info->in[i]];
        for (uint32_t a = 0; use.there && a < count; a++)
            if (axes[a].in[i].dim == use.dim && use.unit % axes[a].in[i].unit == 0 && !axes[a].window) {
                *out = (struct mg_region_op){op, a, use.unit / axes[a].in[i].unit};
                return true;
            }
        cr_assert(!use.there, "%s reads the batch and has no axis for it", info->name);
    }
    return false;
}

static void spread_batch(struct micro *m)
{
    for (mg_value v = 0; v < m->g->value_count; v++)
        if (m->g->values[v].kind == MG_KIND_INPUT && m->g->values[v].shape.rank)
            m->use[v] = (struct batch_use){true, 0, 1};
    for (mg_op op = 0; op < m->g->op_count; op++) {
        struct mg_region_op entry;
        uint32_t count;
        if (!batch_axis(m, op, &entry))
            continue;
        const struct mg_axis *axis = &mg_op_axes(m->g, op, &count)[entry.axis];
        m->ops[m->op_count++] = entry;
        m->inside[op] = true;
        for (uint32_t i = 0; i < m->g->ops[op].out_count; i++)
            if (axis->out[i].dim >= 0)
                m->use[m->g->ops[op].out[i]] =
                    (struct batch_use){true, axis->out[i].dim, axis->out[i].unit * entry.scale};
    }
}

static void micro_op(struct micro *m, mg_op op)
{
    const struct mg_op_info *info = &m->g->ops[op];
    uint32_t in[8], out[8];
    for (uint32_t i = 0; i < info->in_count; i++) {
        uint32_t have = m->current[m->g->values[info->in[i]].base];
        in[i] = mg_plan_builder_operand(m->b, op, i, have);
        bool sliced = in[i] != have && m->inside[op] && mg_plan_builder_is_local(m->b, in[i]) &&
                      !mg_plan_builder_is_local(m->b, have);
        for (size_t k = 0; k < m->slice_count && sliced; k++)
            sliced = m->slices[k] != in[i];
        if (sliced)
            *MG_PUSH(m->arena, m->slices, m->slice_count, m->slice_capacity) = in[i];
    }
    mg_plan_builder_run(m->b, op, in, out);
    for (uint32_t i = 0; i < info->out_count; i++)
        m->current[info->out[i]] = out[i];
}

static mg_op last_inner_reader(const struct micro *m, mg_value base, mg_op from)
{
    mg_op last = MG_NONE;
    for (mg_op op = from; op < m->g->op_count; op++)
        for (uint32_t i = 0; i < m->g->ops[op].in_count && m->inside[op] && !m->g->ops[op].is_view; i++)
            if (m->g->values[m->g->ops[op].in[i]].base == base)
                last = op;
    return last;
}

/* Frees part-local instances after their last reader in the body; with `swap`, others leave and come back. */
static void settle_body(struct micro *m, mg_op op, uint32_t *stored)
{
    for (mg_value v = 0; v < m->g->value_count; v++) {
        if (m->g->values[v].base != v || m->current[v] == MG_NONE || !mg_plan_builder_is_local(m->b, m->current[v]))
            continue;
        if (last_inner_reader(m, v, op + 1) == MG_NONE) {
            mg_plan_builder_free(m->b, m->current[v]);
            m->current[v] = MG_NONE;
        } else if (m->swap && op < m->g->forward_ops && op + 2 >= m->g->forward_ops && stored[v] == MG_NONE) {
            stored[v] = m->current[v];
            mg_plan_builder_store(m->b, m->current[v]);
            mg_plan_builder_free(m->b, m->current[v]);
            m->current[v] = MG_NONE;
        }
    }
}

static void load_operands(struct micro *m, mg_op op, uint32_t *stored)
{
    for (uint32_t i = 0; i < m->g->ops[op].in_count; i++) {
        mg_value base = m->g->values[m->g->ops[op].in[i]].base;
        if (m->current[base] == MG_NONE && stored[base] != MG_NONE)
            m->current[base] = mg_plan_builder_load(m->b, stored[base]);
    }
}

static void micro_body(struct micro *m, uint32_t region)
{
    const mg_value *outputs;
    uint32_t *stored = MG_NEW_ARRAY(m->arena, uint32_t, m->g->value_count);
    uint32_t count = mg_plan_builder_region_outputs(m->b, region, &outputs);
    uint32_t *outs = MG_NEW_ARRAY(m->arena, uint32_t, count);
    memset(stored, 0xff, m->g->value_count * sizeof *stored);
    mg_plan_builder_begin(m->b, region, outputs, count, outs);
    for (mg_op op = 0; op < m->g->op_count; op++) {
        if (!m->inside[op] || m->g->ops[op].is_view)
            continue;
        load_operands(m, op, stored);
        micro_op(m, op);
        settle_body(m, op, stored);
    }
    for (size_t k = 0; k < m->slice_count; k++)
        mg_plan_builder_free(m->b, m->slices[k]);
    mg_plan_builder_end(m->b, region);
    for (uint32_t i = 0; i < count; i++)
        m->current[outputs[i]] = outs[i];
}

static bool reads_inside(const struct micro *m, mg_op op)
{
    for (uint32_t i = 0; i < m->g->ops[op].in_count; i++) {
        mg_op producer = m->g->values[m->g->ops[op].in[i]].producer;
        if (producer != MG_NONE && (m->inside[producer] || reads_inside(m, producer)))
            return true;
    }
    return false;
}

static enum mg_code build_micro(void *context, struct mg_error *err)
{
    struct micro *m = context;
    size_t values = m->g->value_count, ops = m->g->op_count;
    m->ops = MG_NEW_ARRAY(m->arena, struct mg_region_op, ops);
    m->inside = MG_NEW_ARRAY(m->arena, bool, ops);
    m->use = MG_NEW_ARRAY(m->arena, struct batch_use, values);
    m->current = MG_NEW_ARRAY(m->arena, uint32_t, values);
    spread_batch(m);
    m->b = mg_plan_builder_new(m->g, mg_device_builtin("rtx3090"), m->arena);
    for (mg_value v = 0; v < values; v++)
        m->current[v] = mg_plan_builder_initial(m->b, v);
    uint32_t region = mg_plan_builder_region(m->b, MG_NONE, m->batch, m->parts, m->ops, m->op_count);
    for (mg_op op = 0; op < ops; op++)
        if (!m->inside[op] && !m->g->ops[op].is_view && !reads_inside(m, op))
            micro_op(m, op);
    micro_body(m, region);
    for (mg_op op = 0; op < ops; op++)
        if (!m->inside[op] && !m->g->ops[op].is_view && reads_inside(m, op))
            micro_op(m, op);
    return mg_plan_builder_finish(m->b, NULL, &m->plan, err);
}

static size_t count_steps(const struct mg_plan *plan, enum mg_step_kind kind)
{
    size_t count = 0;
    for (size_t s = 0; s < plan->step_count; s++)
        count += plan->steps[s].kind == kind;
    return count;
}

static enum mg_code micro_batches(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    for (int i = 0; i < SMALL_NET_COUNT; i++)
        for (uint32_t parts = 2; parts <= 3; parts++)
            for (int swap = 0; swap < 2; swap++) {
                const struct mg_graph *g = build_net(&small_nets[i], arena);
                struct micro m = {.g = g, .arena = arena, .parts = parts, .swap = swap};
                m.batch = atoll(small_nets[i].options[0].value);
                guarded(arena, build_micro, &m);
                double difference = difference_of(g, m.plan, 3, arena, small_nets[i].name);
                cr_expect(difference < 1e-9, "%s in %u parts: %g", small_nets[i].name, parts, difference);
                cr_expect_gt(count_steps(m.plan, MG_STEP_ACC), 0, "%s", small_nets[i].name);
                cr_expect_eq(count_steps(m.plan, MG_STEP_STORE) > 0, swap, "%s", small_nets[i].name);
            }
    return MG_OK;
}

Test(exec_plan, micro_batches_equal_the_whole)
{
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    guarded(&arena, micro_batches, &arena);
    mg_arena_release(&arena);
}

/* ---- random graphs, regions and swaps ---- */

static void random_plan(uint64_t seed)
{
    struct bench b;
    struct mg_rng rng;
    bench_open(&b);
    mg_rng_init(&rng, seed);
    random_graph(&b, &rng, 12, 5, 4);
    uint32_t n = (uint32_t)b.n->op_count, from = (uint32_t)mg_rng_below(&rng, n / 2);
    uint32_t to = from + 3 + (uint32_t)mg_rng_below(&rng, n / 3);
    struct span spans[2] = {
        {from, to, 2 + (uint32_t)mg_rng_below(&rng, 2), MG_NONE, 5, 0},
        {from + 1, to - 1, 2, 0, 0, 0},
    };
    spans[1].length = (5 + spans[0].parts - 1) / spans[0].parts;
    uint32_t nested = spans[0].parts == 2 && to - from > 3; /* two thirds fit into neither 3 nor 2 rows */
    struct assembly s = {.g = b.n, .device = mg_device_builtin("rtx3090"), .arena = &b.arena, .spans = spans};
    s.span_count = 1 + nested;
    s.swap_percent = (uint32_t)mg_rng_below(&rng, 2) * 30;
    mg_rng_init(&s.rng, seed + 1);
    guarded(&b.arena, assemble, &s);
    double difference = difference_of(b.n, s.plan, seed, &b.arena, "random plan");
    cr_expect(difference < 1e-9, "seed %llu: %g", (unsigned long long)seed, difference);
    bench_close(&b);
}

Test(exec_plan, random_regions_and_swaps_change_no_number)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        random_plan(seed);
}

/* ---- recomputation ---- */

struct recomputation {
    struct bench *b;
    struct mg_plan *plan;
};

/* a = tanh x, c = exp a, free a; a again, y = a c */
static enum mg_code recompute(void *context, struct mg_error *err)
{
    struct recomputation *r = context;
    struct mg_plan_builder *b = mg_plan_builder_new(r->b->n, mg_device_builtin("rtx3090"), &r->b->arena);
    uint32_t x = mg_plan_builder_initial(b, 0), a = MG_NONE, again = MG_NONE, c = MG_NONE, y = MG_NONE;
    mg_plan_builder_compute(b, 0, &x, &a);
    mg_plan_builder_compute(b, 1, &a, &c);
    mg_plan_builder_free(b, a);
    mg_plan_builder_compute(b, 0, &x, &again);
    mg_plan_builder_free(b, x);
    uint32_t in[2] = {again, c};
    mg_plan_builder_compute(b, 2, in, &y);
    mg_plan_builder_free(b, again);
    mg_plan_builder_free(b, c);
    return mg_plan_builder_finish(b, NULL, &r->plan, err);
}

static struct recomputation recomputed_plan(struct bench *b)
{
    bench_open(b);
    mg_value x = input(b, "x", SHAPE(8, 64));
    mg_value a = op1(b, MG_OP_TANH, "a", VALUES(x), NO_ATTRS), c = op1(b, MG_OP_EXP, "c", VALUES(a), NO_ATTRS);
    mg_graph_add_output(b->g, op1(b, MG_OP_MUL, "y", VALUES(a, c), NO_ATTRS));
    cr_assert(normalise(b), "%s", b->err.message);
    struct recomputation r = {.b = b};
    guarded(&b->arena, recompute, &r);
    return r;
}

Test(exec_plan, a_recomputed_value_is_the_same)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    cr_expect_eq(difference_of(b.n, r.plan, 3, &b.arena, "recomputed"), 0);
    bench_close(&b);
}

/* ---- broken plans ---- */

struct attempt {
    struct bench *b;
    struct mg_plan *plan;
    double difference;
    enum mg_code code;
    struct mg_error err;
};

static enum mg_code attempt(void *context, struct mg_error *err)
{
    struct attempt *t = context;
    (void)err;
    t->code = mg_exec_compare(t->b->n, t->plan, 3, 3, &t->difference, &t->b->arena, &t->err);
    return MG_OK;
}

static struct attempt try_plan(struct bench *b, struct mg_plan *plan)
{
    struct attempt t = {.b = b, .plan = plan};
    guarded(&b->arena, attempt, &t);
    return t;
}

Test(exec_plan, reading_freed_memory_is_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    uint32_t in = r.plan->steps[5].in; /* y reads the second a: let it read the freed one */
    cr_assert_eq(r.plan->steps[5].op, 2);
    r.plan->refs[in] = r.plan->refs[r.plan->steps[0].out];
    struct attempt t = try_plan(&b, r.plan);
    cr_expect_eq(t.code, MG_ERR_REJECTED);
    cr_expect_str_eq(t.err.pointer, "/steps/5");
    bench_close(&b);
}

Test(exec_plan, overlapping_storages_are_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    const struct mg_step *last = &r.plan->steps[5];
    uint32_t c = r.plan->instances[r.plan->refs[last->in + 1]].storage;
    uint32_t y = r.plan->instances[r.plan->refs[last->out]].storage;
    uint32_t a = r.plan->instances[r.plan->refs[last->in]].storage;
    cr_assert_neq(c, y);
    r.plan->storages[c].offset = r.plan->storages[a].offset;
    struct attempt t = try_plan(&b, r.plan);
    cr_expect(t.code == MG_ERR_REJECTED || t.difference > 1e-3, "code %d, difference %g", t.code, t.difference);
    bench_close(&b);
}

Test(exec_plan, an_arena_that_is_too_small_is_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    r.plan->figures.arena_bytes -= 512;
    cr_expect_eq(try_plan(&b, r.plan).code, MG_ERR_REJECTED);
    bench_close(&b);
}

Test(exec_plan, a_load_without_a_store_is_caught)
{
    struct bench b;
    struct recomputation r = recomputed_plan(&b);
    r.plan->steps[3].kind = MG_STEP_LOAD; /* instead of computing a again */
    struct attempt t = try_plan(&b, r.plan);
    cr_expect_eq(t.code, MG_ERR_REJECTED);
    cr_expect_str_eq(t.err.pointer, "/steps/3");
    bench_close(&b);
}
