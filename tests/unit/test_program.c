/* Plans executed on the processor in one arena: the numbers of the reference executor, the stated peak and arena. */
#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "exec/exec.h"
#include "measure/measure_priv.h"
#include "measure/program.h"
#include "program_util.h"

static struct mg_engine *engine;
static uint32_t regions, stores, plans, copies;

struct numbers {
    const struct mg_graph *g;
    double **given, **expected;
};

static struct numbers reference(const struct mg_graph *g, struct mg_arena *arena)
{
    struct mg_error err = {0};
    struct numbers n = {.g = g};
    n.expected = mg_exec_random_values(g, 3, 3, arena);
    for (size_t v = 0; v < g->value_count; v++)
        for (int64_t i = 0; n.expected[v] && i < mg_shape_elements(&g->values[v].shape); i++)
            n.expected[v][i] =
                g->values[v].dtype == MG_DTYPE_F32 ? (double)(float)(n.expected[v][i] / 4) : n.expected[v][i];
    n.given = mg_arena_copy(arena, n.expected, g->value_count * sizeof *n.given);
    cr_assert_eq(mg_exec_graph(g, 3, n.expected, arena, &err), MG_OK, "%s", err.message);
    return n;
}

static void compare(const struct numbers *n, double **results, const char *label)
{
    uint32_t seen = 0;
    for (size_t v = 0; v < n->g->value_count; v++) {
        double worst = 0, scale = 1;
        int64_t count = mg_shape_elements(&n->g->values[v].shape);
        if (!results[v])
            continue;
        for (int64_t i = 0; i < count; i++)
            scale = fmax(scale, fabs(n->expected[v][i]));
        for (int64_t i = 0; i < count; i++) {
            double d = fabs(results[v][i] - n->expected[v][i]) / scale;
            worst = d <= worst ? worst : d; /* NaN is the worst */
        }
        cr_expect(worst < 1e-4, "%s: '%s' differs by %g", label, n->g->values[v].name, worst);
        seen++;
    }
    cr_expect(seen > 0, "%s: no result", label);
}

static void execute(const struct numbers *n, const struct mg_plan *plan, struct mg_arena *arena, const char *label)
{
    struct mg_arena_mark mark = mg_arena_mark(arena);
    struct mg_error err = {0};
    struct mg_program *program;
    struct mg_program_facts facts;
    double seconds, **results = MG_NEW_ARRAY(arena, double *, n->g->value_count);
    enum mg_code code = mg_program_build(engine, n->g, plan, 3, &program, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", label, err.pointer, err.message);
    for (int run = 0; run < 2 && !code; run++) { /* a second run, given the same, gives the same */
        code = mg_program_load(program, n->given, &err);
        if (!code)
            code = mg_program_run(program, &seconds, &err);
        if (!code)
            code = mg_program_results(program, results, arena, &err);
        cr_assert_eq(code, MG_OK, "%s: %s %s", label, err.pointer, err.message);
        compare(n, results, label);
    }
    mg_program_facts(program, &facts);
    cr_expect_eq(facts.peak_bytes, plan->figures.peak_bytes, "%s: peak %llu, stated %llu", label,
                 (unsigned long long)facts.peak_bytes, (unsigned long long)plan->figures.peak_bytes);
    cr_expect_eq(facts.arena_bytes, plan->figures.arena_bytes, "%s", label);
    cr_expect_eq(facts.host_bytes, plan->figures.host_bytes, "%s: host %llu, stated %llu", label,
                 (unsigned long long)facts.host_bytes, (unsigned long long)plan->figures.host_bytes);
    plans++;
    regions += plan->region_count > 0;
    stores += plan->figures.host_bytes > 0;
    mg_program_free(program);
    mg_arena_rewind(arena, mark);
}

static void search_and_execute(const struct net *net, struct mg_arena *arena)
{
    struct mg_device device = tight_device();
    struct mg_graph *g = training_graph(net, arena);
    struct mg_search_result result = search_plans(g, &device, arena);
    struct numbers n = reference(g, arena);
    execute(&n, result.original.plan, arena, net->name);
    for (uint32_t i = 0; i < result.front_count; i++)
        execute(&n, result.front[i].plan, arena, net->name);
}

static enum mg_code run_all(void *context, struct mg_error *err)
{
    (void)err;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        search_and_execute(&nets[i], context);
    return MG_OK;
}

static void with_arena(enum mg_code (*fn)(void *context, struct mg_error *err))
{
    struct mg_arena arena;
    struct mg_error err = {0};
    cr_assert_eq(mg_engine_open("cpu", &engine, &err), MG_OK, "%s", err.message);
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, fn, &arena, &err), MG_OK, "%s", err.message);
    mg_arena_release(&arena);
    mg_engine_close(engine);
}

Test(program, plans_give_the_references_numbers_in_the_stated_memory)
{
    with_arena(run_all);
    cr_expect(plans > 10 && regions > 3 && stores > 0, "%u plans, %u with regions, %u with stores", plans, regions,
              stores);
}

/* Parts add up to the sum, and their uses to the actions. */
static void check_parts(struct mg_program *program, const struct mg_program_prices *prices,
                        const struct mg_program_facts *facts, struct mg_arena *arena)
{
    struct mg_program_part *parts;
    struct mg_error err = {0};
    double alone = 0;
    uint64_t uses = 0;
    cr_assert_eq(mg_program_profile(program, &err), MG_OK, "%s", err.message);
    size_t count = mg_program_parts(program, prices, &parts, arena);
    for (size_t i = 0; i < count; i++) {
        alone += parts[i].alone_s;
        uses += parts[i].uses;
        cr_expect(*parts[i].name && *parts[i].text && parts[i].within_s > 0, "%s %s", parts[i].name, parts[i].text);
    }
    cr_expect_eq(uses, facts->actions);
    cr_expect_float_eq(alone, mg_program_latency(program, prices), 1e-9);
}

/* Programs of one engine take turns in one memory: what the one computed is gone once the other is loaded, which says
 * so, and no run of the one finds anything of the other's. */
static enum mg_code take_turns(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_graph *g = training_graph(&nets[0], arena);
    struct numbers n = reference(g, arena);
    struct mg_program *program[2];
    struct mg_plan *plan;
    double seconds, **results = MG_NEW_ARRAY(arena, double *, g->value_count);
    cr_assert_eq(mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err), MG_OK);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(mg_program_build(engine, g, plan, 3, &program[i], err), MG_OK);
    cr_expect_eq(mg_program_results(program[0], results, arena, err), MG_ERR_INVALID, "nothing has run");
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(mg_program_load(program[i % 2], n.given, err), MG_OK, "%s", err->message);
        cr_expect_eq(mg_program_results(program[(i + 1) % 2], results, arena, err), MG_ERR_INVALID, "turn %d", i);
        cr_assert_eq(mg_program_run(program[i % 2], &seconds, err), MG_OK, "%s", err->message);
        cr_assert_eq(mg_program_results(program[i % 2], results, arena, err), MG_OK, "%s", err->message);
        compare(&n, results, "one of two");
    }
    for (int i = 0; i < 2; i++)
        mg_program_free(program[i]);
    return MG_OK;
}

Test(program, programs_take_turns_in_one_memory)
{
    with_arena(take_turns);
}

static struct mg_program *original_of(const struct numbers *n, struct mg_arena *arena, struct mg_program_facts *facts)
{
    struct mg_error err = {0};
    struct mg_program *program;
    struct mg_plan *plan;
    cr_assert_eq(mg_plan_original(n->g, mg_device_builtin("rtx3090"), arena, &plan, &err), MG_OK);
    cr_assert_eq(mg_program_build(engine, n->g, plan, 3, &program, &err), MG_OK, "%s", err.message);
    mg_program_facts(program, facts);
    return program;
}

static enum mg_code load_and_run(struct mg_program *program, const struct numbers *n, struct mg_error *err)
{
    double seconds;
    enum mg_code code = mg_program_load(program, n->given, err);
    return code ? code : mg_program_run(program, &seconds, err);
}

/* One that needs more memory is built while another's results lie there, and again where there is no memory for it:
 * these are lost, and the other runs as before wherever it lies now. */
static enum mg_code outgrow(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct numbers small = reference(training_graph(&nets[2], arena), arena),
                   large = reference(training_graph(&nets[0], arena), arena);
    struct mg_program_facts few, many;
    double **results = MG_NEW_ARRAY(arena, double *, small.g->value_count + large.g->value_count);
    struct mg_program *a = original_of(&small, arena, &few);
    cr_assert_eq(mg_program_load(a, small.given, err), MG_OK, "%s", err->message);
    cr_expect_eq(mg_program_results(a, results, arena, err), MG_ERR_INVALID, "it was not executed");
    cr_assert_eq(load_and_run(a, &small, err), MG_OK, "%s", err->message);
    struct mg_program *b = original_of(&large, arena, &many);
    cr_assert_gt(many.arena_bytes, few.arena_bytes);
    cr_expect_eq(mg_program_results(a, results, arena, err), MG_ERR_INVALID);
    for (int turn = 0; turn < 4; turn++) {
        cr_assert_eq(load_and_run(a, &small, err), MG_OK, "%s", err->message);
        cr_assert_eq(mg_program_results(a, results, arena, err), MG_OK, "%s", err->message);
        compare(&small, results, "the small one");
        cr_assert_eq(load_and_run(b, &large, err), MG_OK, "%s", err->message);
        cr_assert_eq(mg_program_results(b, results, arena, err), MG_OK, "%s", err->message);
        compare(&large, results, "the large one");
    }
    mg_program_free(b);
    mg_program_free(a);
    cr_expect_eq(engine->pool_holders, 0u);
    return MG_OK;
}

Test(program, programs_of_other_sizes_move)
{
    with_arena(outgrow);
}

/* Two plans that share all their operators have one price, and the second need not be timed; copies are priced too. */
static enum mg_code share_prices(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_graph *g = training_graph(&nets[2], arena);
    struct mg_time_policy policy = {.warm_up = 1, .repeats = 3};
    struct mg_program *program[2];
    struct mg_plan *plan;
    struct mg_program_prices *prices = mg_program_prices_new(engine);
    cr_assert_eq(mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err), MG_OK);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(mg_program_build(engine, g, plan, 1, &program[i], err), MG_OK);
    cr_assert_eq(mg_program_price(program[0], prices, 1, &policy, INFINITY, err), MG_OK, "%s", err->message);
    cr_expect_eq(mg_program_price(program[1], prices, 1, &policy, 0, err), MG_OK, "no time is left, none is needed");
    cr_expect_eq(mg_program_latency(program[0], prices), mg_program_latency(program[1], prices));
    for (int i = 0; i < 2; i++)
        mg_program_free(program[i]);
    mg_program_prices_free(prices);
    return MG_OK;
}

Test(program, plans_share_the_prices_of_their_operators)
{
    with_arena(share_prices);
}

static bool stop_later(void *context)
{
    unsigned *left = context;
    return (*left)-- == 0;
}

/* Asked now and then, not before each operator: of a network that has enough of them, and small ones. */
static enum mg_code stop_and_go_on(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_graph *g = training_graph(&nets[1], arena);
    struct mg_time_policy policy = {.warm_up = 1, .repeats = 3};
    struct mg_program *program;
    struct mg_plan *plan;
    struct mg_program_facts facts;
    double seconds;
    unsigned left = 1, asked = 1000;
    cr_assert_eq(mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err), MG_OK);
    cr_assert_eq(mg_program_build(engine, g, plan, 1, &program, err), MG_OK, "%s", err->message);
    mg_program_stop_when(program, stop_later, &left);
    cr_expect_eq(mg_program_run(program, &seconds, err), MG_ERR_CANCELLED);
    cr_expect_eq(left, UINT_MAX, "asked no more");
    left = 1;
    cr_expect_eq(mg_program_predict(program, &policy, INFINITY, &seconds, err), MG_ERR_CANCELLED);
    mg_program_stop_when(program, stop_later, &asked);
    cr_expect_eq(mg_program_run(program, &seconds, err), MG_OK, "%s", err->message);
    mg_program_facts(program, &facts);
    cr_expect(1000 - asked >= 2 && 1000 - asked < facts.actions / 32, "%u times", 1000 - asked);
    mg_program_stop_when(program, NULL, NULL);
    cr_expect_eq(mg_program_run(program, &seconds, err), MG_OK, "%s", err->message);
    mg_program_free(program);
    return MG_OK;
}

Test(program, stops_in_the_midst_when_told)
{
    with_arena(stop_and_go_on);
}

/* The prediction counts every action of the list. */
static enum mg_code predict_all(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_graph *g = training_graph(&nets[2], arena);
    struct mg_time_policy policy = {.warm_up = 1, .repeats = 3};
    struct mg_program *program;
    struct mg_plan *plan;
    struct mg_program_facts facts;
    double seconds = 0, again = 0;
    enum mg_code code = mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err);
    if (!code)
        code = mg_program_build(engine, g, plan, 1, &program, err);
    cr_assert_eq(code, MG_OK);
    mg_program_facts(program, &facts);
    cr_expect(facts.operators > 3 && facts.operators <= facts.actions);
    cr_expect_eq(mg_program_predict(program, &policy, 0, &seconds, err), MG_ERR_CANCELLED, "the time is over");
    cr_assert_eq(mg_program_predict(program, &policy, INFINITY, &seconds, err), MG_OK, "%s", err->message);
    cr_expect(seconds > 0);
    struct mg_program_prices *prices = mg_program_prices_new(engine);
    cr_expect_eq(mg_program_latency(program, prices), 0, "nothing has a price yet");
    cr_assert_eq(mg_program_price(program, prices, 2, &policy, INFINITY, err), MG_OK);
    seconds = mg_program_latency(program, prices);
    cr_assert_eq(mg_program_price(program, prices, 2, &policy, 0, err), MG_OK, "nothing is left to be timed");
    again = mg_program_latency(program, prices);
    cr_expect(seconds > 0 && again == seconds, "operators are timed as often as asked: %g, %g", seconds, again);
    check_parts(program, prices, &facts, arena);
    mg_program_prices_free(prices);
    mg_program_free(program);
    return MG_OK;
}

Test(program, predictions_are_sums_of_measured_operators)
{
    with_arena(predict_all);
}

/* A clock that only reading it and copies move: by 1 us and 3 us. */
static double told;

static double slow_clock(void)
{
    return told += 1e-6;
}

static enum mg_code quick_copy(struct mg_engine *on, enum mg_stream stream, void *to, const void *from, uint64_t bytes,
                               struct mg_error *err)
{
    told += 3e-6;
    return mg_host_copy(on, stream, to, from, bytes, err);
}

static void expect_copies_of(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_time_policy policy = {.warm_up = 1, .repeats = 3};
    struct mg_program_prices *prices = mg_program_prices_new(engine);
    struct mg_program_part *parts;
    struct mg_program *program;
    struct mg_error err = {0};
    cr_assert_eq(mg_program_build(engine, g, plan, 1, &program, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_program_price(program, prices, 1, &policy, INFINITY, &err), MG_OK, "%s", err.message);
    size_t count = mg_program_parts(program, prices, &parts, arena);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(parts[i].name, "store") || !strcmp(parts[i].name, "load")) {
            double each = parts[i].alone_s / parts[i].uses;
            cr_expect(fabs(each / 3e-6 - 1) < 0.01, "%s %s takes %g s", parts[i].name, parts[i].text, each);
            copies++;
        }
    mg_program_prices_free(prices);
    mg_program_free(program);
}

static enum mg_code price_copies(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_backend slow = mg_backend_cpu;
    (void)err;
    slow.now = slow_clock;
    slow.copy = quick_copy;
    engine->backend = &slow;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        struct mg_device device = tight_device();
        struct mg_graph *g = training_graph(&nets[i], arena);
        struct mg_search_result result = search_plans(g, &device, arena);
        for (uint32_t k = 0; k < result.front_count; k++)
            if (result.front[k].plan->figures.host_bytes > 0)
                expect_copies_of(g, result.front[k].plan, arena);
    }
    engine->backend = &mg_backend_cpu;
    return MG_OK;
}

Test(program, copies_are_priced_without_the_clock)
{
    with_arena(price_copies);
    cr_expect(copies > 3, "%u copies", copies);
}

/* Prices of the device model, so that what the program takes is what the simulator says of the plan: operators one by
 * one and parts one by one, where the simulator multiplies. */
static void compare_latency(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                            const char *label)
{
    struct mg_device device = plan->device;
    struct mg_engine model = {.backend = &mg_backend_model, .detail = &device};
    struct mg_error err = {0};
    struct mg_program *program;
    struct mg_simulation simulated;
    double seconds;
    model.properties.copy_streams = (uint32_t)device.copy_streams;
    cr_assert_eq(mg_plan_simulate(g, plan, arena, &simulated, &err), MG_OK, "%s: %s", label, err.message);
    cr_assert_eq(mg_program_build(&model, g, plan, 3, &program, &err), MG_OK, "%s: %s", label, err.message);
    cr_assert_eq(mg_program_predict(program, &(struct mg_time_policy){.repeats = 1}, INFINITY, &seconds, &err), MG_OK);
    cr_expect(fabs(seconds / simulated.latency_s - 1) < 1e-9, "%s, %d streams of copies: %.12g, simulated %.12g", label,
              device.copy_streams, seconds, simulated.latency_s);
    mg_program_free(program);
    mg_engine_free(&model, MG_PLACE_DEVICE, model.pool);
    free(model.allocations);
    plans++;
    regions += plan->region_count > 0;
    stores += plan->figures.host_bytes > 0;
}

static enum mg_code compare_latencies(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        for (int streams = 0; streams <= 2; streams++) {
            struct mg_arena_mark mark = mg_arena_mark(arena);
            struct mg_device device = tight_device();
            device.copy_streams = streams;
            device.link_bw_d2h = device.link_bw_h2d = 4e6;
            struct mg_graph *g = training_graph(&nets[i], arena);
            struct mg_search_result result = search_plans(g, &device, arena);
            compare_latency(g, result.original.plan, arena, nets[i].name);
            for (uint32_t k = 0; k < result.front_count; k++)
                compare_latency(g, result.front[k].plan, arena, nets[i].name);
            mg_arena_rewind(arena, mark);
        }
    return MG_OK;
}

Test(program, takes_what_the_simulator_says_by_the_same_prices)
{
    with_arena(compare_latencies);
    cr_expect(plans > 30 && regions > 9 && stores > 9, "%u plans, %u with regions, %u with stores", plans, regions,
              stores);
}

/* An arena smaller than the plan's storages. */
static enum mg_code refuse_small(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_graph *g = training_graph(&nets[2], arena);
    struct mg_program *program;
    struct mg_plan *plan;
    cr_assert_eq(mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err), MG_OK);
    plan->figures.arena_bytes -= plan->device.align;
    cr_expect_eq(mg_program_build(engine, g, plan, 1, &program, err), MG_ERR_REJECTED);
    cr_expect_null(program);
    return MG_OK;
}

Test(program, an_arena_that_is_too_small_is_refused)
{
    with_arena(refuse_small);
}

/* Each instance that a step makes said to be made by none, in turn: a plan that begins with what nobody gives. */
static enum mg_code refuse_orphans(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_graph *g = training_graph(&nets[0], arena);
    struct mg_program *program;
    struct mg_plan *plan;
    uint32_t orphans = 0;
    cr_assert_eq(mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err), MG_OK);
    for (uint32_t i = 0; i < plan->instance_count; i++) {
        struct mg_instance *instance = &plan->instances[i];
        uint32_t made_by = instance->made_by;
        if (made_by == MG_NONE || instance->view_of != MG_NONE)
            continue;
        instance->made_by = MG_NONE;
        cr_expect_eq(mg_program_build(engine, g, plan, 1, &program, err), MG_ERR_REJECTED, "instance %u", i);
        cr_expect(!program && strstr(err->message, "made by no step"), "%s", err->message);
        instance->made_by = made_by;
        orphans++;
    }
    cr_expect_gt(orphans, 5u);
    return MG_OK;
}

Test(program, what_nobody_gives_is_refused)
{
    with_arena(refuse_orphans);
}
