/* Snapshots of measured timings, and prices from them: exact before near before scaled before modelled; a search with
 * measured prices and workspaces publishes plans that the checker accepts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "device/signature.h"
#include "search/search.h"
#include "zoo/zoo.h"

struct fixture {
    struct mg_arena arena;
    struct mg_graph *g;
    struct mg_timings timings;
    struct mg_timings_content content;
    void *memory;
};

static void take_snapshot(struct fixture *f)
{
    struct mg_error err = {0};
    size_t size = mg_timings_size(&f->content);
    f->content.device_class = "0123456789abcdef";
    free(f->memory);
    f->memory = calloc(1, size);
    mg_timings_fill(&f->content, f->memory);
    cr_assert_eq(mg_timings_open(f->memory, size, &f->timings, &err), MG_OK, "%s", err.message);
}

/* ---- the file ---- */

Test(timings, finds_all_and_nothing_else)
{
    enum { N = 20000 };
    struct fixture f = {.memory = NULL};
    struct mg_timing_entry *entries = calloc(N, sizeof *entries), found;
    struct mg_rng rng;
    mg_rng_init(&rng, 7);
    for (size_t i = 0; i < N; i++)
        entries[i] = (struct mg_timing_entry){{mg_rng_next(&rng) & 0xffff, mg_rng_next(&rng)}, /* many collisions */
                                              1e-6 * (double)(i + 1),
                                              i * 1000003,
                                              i % 3 ? MG_PRICE_EXACT : MG_PRICE_NEAR};
    f.content = (struct mg_timings_content){.entries = entries, .entry_count = N, .generation = 42};
    take_snapshot(&f);
    cr_expect(f.timings.entry_count == N && f.timings.generation == 42);
    cr_expect_str_eq(f.timings.device_class, "0123456789abcdef");
    for (size_t i = 0; i < N; i++) {
        cr_assert(mg_timings_find(&f.timings, entries[i].key, &found));
        cr_expect(found.seconds == entries[i].seconds && found.workspace == entries[i].workspace &&
                  found.source == entries[i].source);
        cr_expect_not(mg_timings_find(&f.timings, (struct mg_hash128){entries[i].key.lo, ~entries[i].key.hi}, &found));
    }
    free(entries);
    free(f.memory);
}

Test(timings, refuses_damage)
{
    struct fixture f = {.memory = NULL};
    struct mg_timing_sample sample = {"add", "f32;f32[2],f32[2]->f32[2]", 1e-6, MG_PRICE_EXACT}, read;
    struct mg_timings t;
    struct mg_error err;
    f.content = (struct mg_timings_content){.samples = &sample, .sample_count = 1};
    take_snapshot(&f);
    size_t size = f.timings.size;
    cr_expect(mg_timings_sample(&f.timings, 0, &read) && !strcmp(read.signature, sample.signature));
    cr_expect_not(mg_timings_sample(&f.timings, 1, &read));
    for (size_t cut = 0; cut < size; cut += 7)
        cr_expect_eq(mg_timings_open(f.memory, cut, &t, &err), MG_ERR_INVALID);
    unsigned char *bytes = f.memory;
    for (size_t at = 0; at < size; at++) { /* never beyond the end, whatever a byte says: ASan looks */
        bytes[at] ^= 0x5a;
        if (mg_timings_open(f.memory, size, &t, &err) == MG_OK) {
            struct mg_timing_entry entry;
            (void)mg_timings_find(&t, (struct mg_hash128){at, at}, &entry);
            (void)mg_timings_sample(&t, 0, &read);
        }
        bytes[at] ^= 0x5a;
    }
    free(f.memory);
}

/* ---- prices ---- */

/* A small network and its training step. */
static void open_network(struct fixture *f)
{
    struct mg_zoo_option options[] = {{"batch", "12"}, {"variant", "paper"}, {"seq_len", "4"},
                                      {"layers", "2"}, {"hidden", "4"},      {"heads", "2"}};
    struct mg_training training = {MG_LOSS_SQUARED, MG_OPTIMIZER_SGD, NULL, 0};
    struct mg_graph *g;
    struct mg_error err = {0};
    memset(f, 0, sizeof *f);
    mg_arena_init(&f->arena, SIZE_MAX);
    cr_assert_eq(mg_zoo_build("bert-base", options, 6, &f->arena, &g, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_differentiate(g, &training, &f->arena, &g, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_normalise(g, &f->arena, &f->g, &err), MG_OK, "%s", err.message);
}

static void close_network(struct fixture *f)
{
    mg_arena_release(&f->arena);
    free(f->memory);
}

static struct mg_op_desc whole_of(struct fixture *f, mg_op op)
{
    struct mg_op_desc desc;
    cr_assert_eq(mg_op_describe(f->g, op, NULL, 0, &f->arena, &desc, NULL), MG_OK);
    return desc;
}

static char *text_of(struct fixture *f, const struct mg_op_desc *desc)
{
    char *text =
        mg_arena_alloc(&f->arena, mg_signature_bound(desc->attrs, desc->attr_count, desc->in_count + desc->out_count));
    mg_signature_print(desc, text);
    return text;
}

static struct mg_timing_entry entry_of(struct fixture *f, const struct mg_op_desc *desc, double seconds,
                                       enum mg_price_source source)
{
    return (struct mg_timing_entry){mg_signature_key(mg_op_type_name(desc->type), text_of(f, desc)), seconds, 0,
                                    source};
}

static mg_op find_op(const struct fixture *f, enum mg_op_type type)
{
    for (mg_op op = 0; op < f->g->op_count; op++)
        if (f->g->ops[op].type == type)
            return op;
    cr_assert_fail("no %s", mg_op_type_name(type));
    return 0;
}

static enum mg_code price_in_order(void *context, struct mg_error *err)
{
    struct fixture *f = context;
    const struct mg_device *device = mg_device_builtin("rtx3090");
    mg_op op = find_op(f, MG_OP_MATMUL);
    struct mg_op_desc whole = whole_of(f, op), part, other;
    struct mg_cut cut = {0, 0, 3};
    cr_assert_eq(mg_op_describe(f->g, op, &cut, 1, &f->arena, &part, err), MG_OK);
    double model_whole = mg_device_latency(device, &whole), model_part = mg_device_latency(device, &part);
    struct mg_timing_entry entries[2] = {entry_of(f, &whole, 3 * model_whole, MG_PRICE_NEAR)};
    entries[0].workspace = 100;
    f->content = (struct mg_timings_content){.entries = entries, .entry_count = 1};
    take_snapshot(f);

    struct mg_pricer *p = mg_pricer_new(device, &f->timings, MG_TIMINGS_NEAR);
    struct mg_quote q = mg_pricer_quote(p, device, &whole, NULL);
    cr_expect(q.source == MG_PRICE_NEAR && q.seconds == 3 * model_whole && q.workspace == 100);
    q = mg_pricer_quote(p, device, &part, &whole);
    cr_expect(q.source == MG_PRICE_SCALED && q.workspace == 100);
    cr_expect_float_eq(q.seconds, 3 * model_part, 1e-18);
    mg_pricer_free(p);

    p = mg_pricer_new(device, &f->timings, MG_TIMINGS_EXACT); /* what is near does not count */
    q = mg_pricer_quote(p, device, &part, &whole);
    cr_expect(q.source == MG_PRICE_MODEL && q.seconds == model_part);
    mg_pricer_free(p);

    p = mg_pricer_new(device, &f->timings, MG_TIMINGS_MODEL);
    cr_expect_not(mg_pricer_measures(p));
    q = mg_pricer_quote(p, device, &whole, NULL);
    cr_expect(q.source == MG_PRICE_MODEL && q.seconds == model_whole);
    mg_pricer_free(p);

    entries[1] = entry_of(f, &part, 7e-3, MG_PRICE_EXACT); /* a part that was measured itself */
    f->content.entry_count = 2;
    take_snapshot(f);
    p = mg_pricer_new(device, &f->timings, MG_TIMINGS_NEAR);
    q = mg_pricer_quote(p, device, &part, &whole);
    cr_expect(q.source == MG_PRICE_EXACT && q.seconds == 7e-3);
    other = whole_of(f, find_op(f, MG_OP_SGD));
    q = mg_pricer_quote(p, device, &other, NULL);
    cr_expect(q.source == MG_PRICE_MODEL && q.seconds == mg_device_latency(device, &other));
    mg_pricer_free(p);
    return MG_OK;
}

Test(timings, pricing_order)
{
    struct fixture f;
    struct mg_error err;
    open_network(&f);
    cr_assert_eq(mg_arena_guard(&f.arena, price_in_order, &f, &err), MG_OK);
    close_network(&f);
}

/* Three ratios of a kind are enough, two are not; the lower median of four is the second. */
static enum mg_code price_by_kind(void *context, struct mg_error *err)
{
    static const char *const texts[] = {"f32;f32[100],f32[100]->f32[100]", "f32;f32[4096],f32[4096]->f32[4096]",
                                        "f32;f32[9],f32[9]->f32[9]", "f32;f32[70,3],f32[70,3]->f32[70,3]"};
    static const double factors[] = {5, 2, 3, 9};
    struct fixture *f = context;
    const struct mg_device *device = mg_device_builtin("h200");
    struct mg_op_desc asked, desc;
    cr_assert_eq(mg_signature_read("add", "f32;f32[5,5],f32[5,5]->f32[5,5]", &f->arena, &asked, err), MG_OK);
    double model = mg_device_latency(device, &asked);
    for (size_t n = 2; n <= 4; n++) {
        struct mg_timing_sample samples[4];
        for (size_t i = 0; i < n; i++) {
            cr_assert_eq(mg_signature_read("add", texts[i], &f->arena, &desc, err), MG_OK);
            samples[i] = (struct mg_timing_sample){"add", texts[i], factors[i] * mg_device_latency(device, &desc),
                                                   MG_PRICE_EXACT};
        }
        f->content = (struct mg_timings_content){.samples = samples, .sample_count = n};
        take_snapshot(f);
        struct mg_pricer *p = mg_pricer_new(device, &f->timings, MG_TIMINGS_NEAR);
        struct mg_quote q = mg_pricer_quote(p, device, &asked, NULL);
        cr_expect_eq(q.source, n < 3 ? MG_PRICE_MODEL : MG_PRICE_SCALED);
        cr_expect_float_eq(q.seconds, n < 3 ? model : 3 * model, 1e-15);
        mg_pricer_free(p);
    }
    return MG_OK;
}

Test(timings, scaled_by_kind)
{
    struct fixture f = {.memory = NULL};
    struct mg_error err;
    mg_arena_init(&f.arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&f.arena, price_by_kind, &f, &err), MG_OK, "%s", err.message);
    close_network(&f);
}

/* ---- a search with measured prices ---- */

static double stand_still(void *context)
{
    (void)context;
    return 0;
}

static void note_rejected(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict)
{
    (void)context;
    (void)plan;
    cr_expect_fail("the checker refused step %u: %s (%s)", verdict->step, verdict->message, verdict->reason);
}

/* Every second operator is measured, at odd times and with workspaces that decide the peak. */
static enum mg_code measure_half(void *context, struct mg_error *err)
{
    struct fixture *f = context;
    struct mg_timing_entry *entries = MG_NEW_ARRAY(&f->arena, struct mg_timing_entry, f->g->op_count);
    size_t n = 0;
    (void)err;
    for (mg_op op = 0; op < f->g->op_count; op += 2) {
        struct mg_op_desc desc = whole_of(f, op);
        struct mg_timing_entry e = entry_of(f, &desc, 1e-5 * (1 + op % 7), MG_PRICE_EXACT);
        bool known = f->g->ops[op].is_view;
        for (size_t i = 0; i < n; i++)
            known |= entries[i].key.lo == e.key.lo;
        e.workspace = op % 3 * 1000;
        if (!known)
            entries[n++] = e;
    }
    f->content = (struct mg_timings_content){.entries = entries, .entry_count = n};
    take_snapshot(f);
    return MG_OK;
}

/* A finished plan by the model, then by what is measured again: as it was. */
static void price_anew(struct fixture *f, const struct mg_plan *made)
{
    const struct mg_device *device = mg_device_builtin("rtx3090");
    struct mg_pricer *measured = mg_pricer_new(device, &f->timings, MG_TIMINGS_NEAR);
    struct mg_pricer *modelled = mg_pricer_new(device, NULL, MG_TIMINGS_NEAR);
    struct mg_plan plan = *made;
    struct mg_error err = {0};
    double before[MG_PRICE_SOURCES], shares[MG_PRICE_SOURCES];
    plan.prices = mg_arena_copy(&f->arena, made->prices, made->price_count * sizeof *made->prices);
    uint64_t operators = mg_plan_price_shares(made, before);
    cr_expect(operators > 0 && fabs(before[0] + before[1] + before[2] + before[3] - 1) < 1e-12);
    cr_expect(before[MG_PRICE_EXACT] > 0 && before[MG_PRICE_EXACT] < 1, "%g", before[MG_PRICE_EXACT]);
    cr_assert_eq(mg_plan_reprice(f->g, &plan, modelled, &f->arena, &err), MG_OK, "%s", err.message);
    cr_expect_eq(mg_plan_price_shares(&plan, shares), operators);
    cr_expect_eq(shares[MG_PRICE_MODEL], 1.0);
    cr_expect_neq(plan.figures.latency_s, made->figures.latency_s);
    cr_expect(plan.figures.peak_bytes == made->figures.peak_bytes, "memory stays");
    cr_assert_eq(mg_plan_reprice(f->g, &plan, measured, &f->arena, &err), MG_OK, "%s", err.message);
    mg_plan_price_shares(&plan, shares);
    cr_expect_arr_eq(shares, before, sizeof shares);
    cr_expect_float_eq(plan.figures.latency_s / made->figures.latency_s, 1, 1e-9);
    cr_expect_float_eq(plan.original.latency_s / made->original.latency_s, 1, 1e-9);
    mg_pricer_free(measured);
    mg_pricer_free(modelled);
}

Test(timings, search_with_measured_prices)
{
    struct fixture f;
    struct mg_error err = {0};
    struct mg_search_result result[2];
    const struct mg_observer observer = {.now = stand_still, .rejected = note_rejected};
    open_network(&f);
    cr_assert_eq(mg_arena_guard(&f.arena, measure_half, &f, &err), MG_OK);
    for (int again = 0; again < 2; again++) {
        const struct mg_device *device = mg_device_builtin("rtx3090");
        struct mg_pricer *pricer = mg_pricer_new(device, &f.timings, MG_TIMINGS_NEAR);
        struct mg_search_options options = {.device = device,
                                            .pricer = pricer,
                                            .max_evaluations = 3000,
                                            .seed = 5,
                                            .techniques = MG_TECHNIQUE_ALL & ~MG_TECHNIQUE_WINDOW_FISSION};
        cr_assert_eq(mg_search(f.g, &options, &observer, &f.arena, &result[again], &err), MG_OK, "%s", err.message);
        mg_pricer_free(pricer);
    }
    cr_expect(result[0].rejected == 0 && result[0].accepted > 0 && result[0].front_count > 1);
    cr_assert_eq(result[0].front_count, result[1].front_count);
    uint32_t sources[4] = {0};
    uint64_t workspace = 0;
    for (uint32_t i = 0; i < result[0].front_count; i++) {
        const struct mg_plan *plan = result[0].front[i].plan;
        cr_expect_str_eq(result[0].front[i].id, result[1].front[i].id); /* reproducible */
        for (size_t k = 0; k < plan->price_count; k++) {
            sources[plan->prices[k].source]++;
            workspace = plan->prices[k].workspace > workspace ? plan->prices[k].workspace : workspace;
        }
        price_anew(&f, plan);
    }
    cr_expect(sources[MG_PRICE_EXACT] > 0 && sources[MG_PRICE_MODEL] > 0, "%u exact, %u modelled",
              sources[MG_PRICE_EXACT], sources[MG_PRICE_MODEL]);
    cr_expect(workspace > 0);
    close_network(&f);
}
