/* How far back what a plan's instructions touch lies, counted by hand. */
#include <math.h>

#include "graph_util.h"
#include "measure/program_priv.h"

#include <criterion/criterion.h>

enum { MIB = 1 << 20 };

struct run {
    struct bench b;
    struct mg_program *program;
    struct mg_engine engine;
    struct mg_device device;
    uint64_t cache;
};

static mg_value exponential(struct run *r, mg_value x)
{
    mg_value made = op1(&r->b, MG_OP_EXP, NULL, VALUES(x), NO_ATTRS);
    cr_assert_neq(made, MG_NONE, "%s", r->b.err.message);
    mg_graph_add_output(r->b.g, made);
    return made;
}

static enum mg_code build(void *context, struct mg_error *err)
{
    struct run *r = context;
    struct mg_plan *plan;
    cr_assert(normalise(&r->b), "%s", r->b.err.message);
    enum mg_code code = mg_plan_original(r->b.n, &r->device, &r->b.arena, &plan, err);
    return code ? code : mg_program_build(&r->engine, r->b.n, plan, 1, &r->program, err);
}

/* The last instruction. */
static const struct instruction *last_of(struct run *r, uint64_t cache)
{
    struct mg_error err = {0};
    r->device = *mg_device_builtin("rtx3090");
    r->engine = (struct mg_engine){.backend = &mg_backend_model, .detail = &r->device};
    r->engine.properties.cache_bytes = cache;
    cr_assert_eq(mg_arena_guard(&r->b.arena, build, r, &err), MG_OK, "%s", err.message);
    return &r->program->items[r->program->count - 1];
}

static void end(struct run *r)
{
    mg_program_free(r->program);
    free(r->engine.allocations);
    bench_close(&r->b);
}

static void expect_shares(const struct instruction *item, double own, double near, double far)
{
    const double want[REUSES] = {own, near, far};
    for (int i = 0; i < REUSES; i++)
        cr_expect_float_eq(item->reuse[i], want[i], 1e-5, "share %d: %g, not %g", i, (double)item->reuse[i], want[i]);
}

/* x of 1 MiB, a = exp(x), six more in a chain, then the last one + a: all are outputs, so that each has its own
 * storage. */
static const struct instruction *chain(struct run *r, uint64_t cache)
{
    bench_open(&r->b);
    mg_value x = input(&r->b, "x", SHAPE(512, 512)), a = exponential(r, x), b = a;
    for (int i = 0; i < 6; i++)
        b = exponential(r, b);
    mg_graph_add_output(r->b.g, op1(&r->b, MG_OP_ADD, NULL, VALUES(b, a), NO_ATTRS));
    return last_of(r, cache);
}

/* The sum finds b just made, a behind six others, and its result never touched: 3 MiB are its own, and a is 7 MiB back,
 * itself included. */
Test(program_reuse, distances_are_the_bytes_touched_in_between)
{
    struct run r;
    double a = log(7.0 / 3) / log(14.0 / 3);
    expect_shares(chain(&r, 14 * MIB), (2 - a) / 3, 0, (1 + a) / 3);
    end(&r);
    a = log(7.0 / 3) / log(10.0 / 3);
    expect_shares(chain(&r, 80 * MIB), (2 - a) / 3, a / 3, 1.0 / 3);
    end(&r);
    expect_shares(chain(&r, 6 * MIB), 1.0 / 3, 0, 2.0 / 3);
    end(&r);
}

/* Its operands alone are more than the cache holds, or there is none. */
Test(program_reuse, operators_larger_than_the_cache_have_one_time)
{
    struct run r;
    for (uint64_t cache = 0; cache <= 3 * MIB; cache += 3 * MIB) {
        const struct instruction *item = chain(&r, cache);
        const bool *wanted = r.program->ops[item->op].wanted;
        expect_shares(item, 1, 0, 0);
        cr_expect(wanted[REUSE_OWN] && !wanted[REUSE_NEAR] && !wanted[REUSE_FAR]);
        end(&r);
    }
}

/* x of 64 rows of 32 KiB; then three others of 2 MiB; then the left half of x, then x: its left half lies at most 3 MiB
 * back, its right half 9 MiB (x, the others, what the left half gave). */
Test(program_reuse, rows_of_a_box_are_touched_alone)
{
    struct run r;
    bench_open(&r.b);
    mg_value x = input(&r.b, "x", SHAPE(64, 8192)), b = exponential(&r, x);
    for (int i = 0; i < 2; i++)
        b = exponential(&r, b);
    mg_value left = op1(&r.b, MG_OP_SLICE, NULL, VALUES(x), ATTRS(LIST_OF(STARTS, 0, 0), LIST_OF(ENDS, 64, 4096)));
    exponential(&r, left);
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_TANH, NULL, VALUES(x), NO_ATTRS));
    const struct instruction *item = last_of(&r, 16 * MIB);
    double right = log(9.0 / 4) / log(16.0 / 4);
    cr_expect_eq(r.program->count, 5, "the slice is a view");
    expect_shares(item, (1 + 1 - right) / 4, 0, (right + 2) / 4);
    end(&r);
}
