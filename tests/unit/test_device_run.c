/* What is asked and told while a plan is executed, and when. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "exec/exec.h"
#include "measure/calibrate.h"
#include "server/device_run.h"
#include "zoo/zoo.h"

/* r: between runs or operators, a: after all runs, which are had again so often; a canary is taken there, in the memory
 * that the plan had. */
struct course {
    struct mg_engine *engine;
    char at[4096];
    size_t length, tries, stop_after; /* told to stop after so many letters */
};

static void keep(struct course *c, char letter)
{
    cr_assert_lt(c->length, sizeof c->at - 1);
    c->at[c->length++] = letter;
}

static bool stop(void *context)
{
    const struct course *c = context;
    return c->length >= c->stop_after;
}

static void between(void *context)
{
    keep(context, 'r');
}

static bool again(void *context)
{
    struct course *c = context;
    struct mg_error err = {0};
    double seconds;
    cr_assert_eq(mg_engine_canary(c->engine, &seconds, &err), MG_OK, "%s", err.message);
    keep(c, 'a');
    return --c->tries > 0;
}

static struct mg_device_run run(struct course *c, enum mg_code *code)
{
    struct mg_arena arena;
    struct mg_engine *engine;
    struct mg_plan *plan;
    struct mg_error err = {0};
    struct mg_device_run out;
    mg_arena_init(&arena, SIZE_MAX);
    struct mg_graph *forward, *g;
    cr_assert_eq(
        mg_zoo_build("mlp", (struct mg_zoo_option[]){{"batch", "4"}, {"hidden", "8"}}, 2, &arena, &forward, &err),
        MG_OK);
    cr_assert_eq(mg_graph_normalise(forward, &arena, &g, &err), MG_OK);
    const struct mg_device_watch watch = {
        .stop = stop, .between = between, .again = again, .context = c, .operators_until = INFINITY};
    cr_assert_eq(mg_engine_open("cpu", &engine, &err), MG_OK);
    c->engine = engine;
    cr_assert_eq(mg_plan_original(g, mg_device_builtin("rtx3090"), &arena, &plan, &err), MG_OK);
    double **results = MG_NEW_ARRAY(&arena, double *, g->value_count);
    *code =
        mg_device_run(engine, g, plan, 3, &watch, mg_exec_random_values(g, 3, 3, &arena), results, &arena, &out, &err);
    cr_expect_eq(*code, MG_OK, "%s", err.message);
    mg_engine_close(engine);
    mg_arena_release(&arena);
    return out;
}

/* The operators are timed once, after the last of the runs, and between them it is told that we live. */
Test(device_run, prices_come_last)
{
    struct course c = {.tries = 3, .stop_after = SIZE_MAX};
    enum mg_code code;
    struct mg_device_run out = run(&c, &code);
    cr_assert_eq(code, MG_OK);
    size_t runs = 0, tries = 0;
    const char *at = c.at;
    for (; strchr(at, 'a'); at = strchr(at, 'a') + 1, tries++)
        runs += strcspn(at, "a");
    cr_expect_eq(tries, 3u, "%s", c.at);
    cr_expect_eq(runs, (size_t)3 * out.timing.n, "%s", c.at);
    cr_expect_geq(strlen(at), 5u, "%s: too few operators", c.at);
    cr_expect(out.predicted_s > 0);
}

/* Told to stop after the runs, it answers what they took, without a prediction. */
Test(device_run, stopped_while_operators_are_timed)
{
    struct course all = {.tries = 1, .stop_after = SIZE_MAX};
    enum mg_code code;
    run(&all, &code);
    struct course c = {.tries = 1, .stop_after = (size_t)(strchr(all.at, 'a') - all.at) + 3};
    struct mg_device_run out = run(&c, &code);
    cr_expect_eq(code, MG_OK);
    cr_expect(isnan(out.predicted_s) && out.seconds > 0 && out.facts.peak_bytes > 0);
    cr_expect_eq(c.length, c.stop_after, "%s: it went on", c.at);
}
