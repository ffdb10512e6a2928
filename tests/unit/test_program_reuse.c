/* How far back what a plan's instructions touch lies, counted by hand. */
#include <math.h>

#include "graph_util.h"
#include "measure/program_priv.h"
#include "program_util.h"

#include <criterion/criterion.h>

enum { MIB = 1 << 20 };

struct run {
    struct bench b;
    struct mg_program *program;
    struct mg_engine engine;
    struct mg_device device;
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
    cr_assert_eq(mg_program_follow_reuse(r->program, &err), MG_OK, "%s", err.message);
    return &r->program->items[r->program->count - 1];
}

static void end(struct run *r)
{
    mg_program_free(r->program);
    mg_engine_free(&r->engine, MG_PLACE_DEVICE, r->engine.pool);
    free(r->engine.allocations);
    bench_close(&r->b);
}

static void expect_shares(const struct instruction *item, double own, double near, double middle, double edge,
                          double far)
{
    const double want[REUSES] = {own, near, middle, edge, far};
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
 * itself included. The result moves twice. */
Test(program_reuse, distances_are_the_bytes_touched_in_between)
{
    struct run r = {0};
    double edge = log(7.0 / 5) / log(10.0 / 5), near = log(7.0 / 3) / log(10.0 / 3), far = log(7.0 / 3) / log(12.0 / 3);
    expect_shares(chain(&r, 20 * MIB), 1.0 / 4, 0, (1 - edge) / 4, edge / 4, 2.0 / 4);
    end(&r);
    expect_shares(chain(&r, 160 * MIB), (2 - near) / 4, near / 4, 0, 0, 2.0 / 4);
    end(&r);
    expect_shares(chain(&r, 6 * MIB), (2 - far) / 4, 0, 0, 0, (2 + far) / 4);
    end(&r);
    expect_shares(chain(&r, 3 * MIB), 1.0 / 4, 0, 0, 0, 3.0 / 4);
    end(&r);
}

/* a = exp(x), six more in a chain, then a + the last one on a's storage: 2 MiB are its own, and a, which moves twice,
 * is 7 MiB back. */
Test(program_reuse, results_in_place_are_their_operand)
{
    struct run r = {0};
    bench_open(&r.b);
    mg_value x = input(&r.b, "x", SHAPE(512, 512)), a = op1(&r.b, MG_OP_EXP, NULL, VALUES(x), NO_ATTRS), b = a;
    for (int i = 0; i < 6; i++)
        b = exponential(&r, b);
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_ADD, NULL, VALUES(a, b), NO_ATTRS));
    mg_graph_set_in_place(r.b.g, (mg_op)(r.b.g->op_count - 1), 0);
    const struct instruction *item = last_of(&r, 16 * MIB);
    double edge = log(7.0 / 4) / log(8.0 / 4);
    cr_expect_eq(r.program->ops[item->op].in_place, 1);
    expect_shares(item, 1.0 / 3, 0, 2 * (1 - edge) / 3, 2 * edge / 3, 0);
    cr_expect_eq(r.program->ops[r.program->items[1].op].in_place, 0);
    end(&r);
}

/* Its operands alone are twice what the cache holds, or there is none. */
Test(program_reuse, operators_much_larger_than_the_cache_have_one_time)
{
    struct run r = {0};
    for (uint64_t cache = 0; cache <= 3 * MIB / 2; cache += 3 * MIB / 2) {
        const struct instruction *item = chain(&r, cache);
        const bool *wanted = r.program->ops[item->op].wanted;
        expect_shares(item, 1, 0, 0, 0, 0);
        for (int k = 0; k < REUSES; k++)
            cr_expect_eq(wanted[k], k == REUSE_OWN);
        end(&r);
    }
}

/* x of 64 rows of 32 KiB; then three others of 2 MiB; then the left quarter of x, then x: its left quarter lies within
 * the operator's own 4 MiB, the rest 8.5 MiB back (x, the others, what the quarter gave). */
Test(program_reuse, rows_of_a_box_are_touched_alone)
{
    struct run r = {0};
    bench_open(&r.b);
    mg_value x = input(&r.b, "x", SHAPE(64, 8192)), b = exponential(&r, x);
    for (int i = 0; i < 2; i++)
        b = exponential(&r, b);
    mg_value left = op1(&r.b, MG_OP_SLICE, NULL, VALUES(x), ATTRS(LIST_OF(STARTS, 0, 0), LIST_OF(ENDS, 64, 2048)));
    exponential(&r, left);
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_TANH, NULL, VALUES(x), NO_ATTRS));
    const struct instruction *item = last_of(&r, 16 * MIB);
    double rest = log(8.5 / 8) / log(32.0 / 8);
    cr_expect_eq(r.program->count, 5, "the slice is a view");
    expect_shares(item, 0.5 / 6, 0, 0, 1.5 * (1 - rest) / 6, (1.5 * rest + 4) / 6);
    end(&r);
}

/* x of 16 MiB in 4096 rows; exp of 16 columns, of 256 KiB as its result; then tanh of these or of the next ones. Its
 * own are half a MiB, as much as has passed since exp came to the same columns; from x to the others it is x, the first
 * ones and their result. */
Test(program_reuse, columns_are_counted_by_the_lines_that_they_touch)
{
    for (int64_t first = 0; first <= 16; first += 16) {
        struct run r = {0};
        bench_open(&r.b);
        mg_value x = input(&r.b, "x", SHAPE(4096, 1024));
        exponential(&r, op1(&r.b, MG_OP_SLICE, NULL, VALUES(x), ATTRS(LIST_OF(STARTS, 0, 0), LIST_OF(ENDS, 4096, 16))));
        mg_value next =
            op1(&r.b, MG_OP_SLICE, NULL, VALUES(x), ATTRS(LIST_OF(STARTS, 0, first), LIST_OF(ENDS, 4096, first + 16)));
        mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_TANH, NULL, VALUES(next), NO_ATTRS));
        const struct instruction *item = last_of(&r, 16 * MIB);
        double far = log(16.5 / 8) / log(32.0 / 8);
        if (first == 0)
            expect_shares(item, 1.0 / 3, 0, 0, 0, 2.0 / 3);
        else
            expect_shares(item, 0, 0, 0, (1 - far) / 3, (2 + far) / 3);
        end(&r);
    }
}

static mg_value left_columns(struct run *r, mg_value x)
{
    return op1(&r->b, MG_OP_SLICE, NULL, VALUES(x), ATTRS(LIST_OF(STARTS, 0, 0), LIST_OF(ENDS, 4096, 16)));
}

/* Columns of a were read, then all of a was written: they are as far back as that, which is 16 MiB. */
Test(program_reuse, columns_written_since_are_as_far_back_as_that)
{
    struct run r = {0};
    bench_open(&r.b);
    mg_value a = op1(&r.b, MG_OP_EXP, NULL, VALUES(input(&r.b, "x", SHAPE(4096, 1024))), NO_ATTRS);
    exponential(&r, left_columns(&r, a));
    mg_value b = op1(&r.b, MG_OP_TANH, NULL, VALUES(a), NO_ATTRS);
    mg_graph_set_in_place(r.b.g, (mg_op)(r.b.g->op_count - 1), 0);
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_TANH, NULL, VALUES(left_columns(&r, b)), NO_ATTRS));
    const struct instruction *item = last_of(&r, 16 * MIB);
    cr_expect_eq(r.program->count, 4);
    cr_expect_eq(r.program->ops[r.program->items[2].op].in_place, 1);
    expect_shares(item, 0, 0, 0, 0.5 / 3, 2.5 / 3);
    end(&r);
}

/* More touches than the tree has times for lie between two uses of the same columns, of few bytes. */
Test(program_reuse, long_courses_keep_columns)
{
    struct run r = {0};
    bench_open(&r.b);
    mg_value x = input(&r.b, "x", SHAPE(4096, 1024)), y = input(&r.b, "y", SHAPE(16));
    exponential(&r, left_columns(&r, x));
    for (int i = 0; i < 5000; i++)
        y = op1(&r.b, i % 2 ? MG_OP_EXP : MG_OP_TANH, NULL, VALUES(y), NO_ATTRS);
    mg_graph_add_output(r.b.g, y);
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_TANH, NULL, VALUES(left_columns(&r, x)), NO_ATTRS));
    const struct instruction *item = last_of(&r, 16 * MIB);
    cr_expect_float_eq(item->reuse[REUSE_OWN], 1.0 / 3, 1e-3); /* what is between is next to nothing */
    cr_expect_float_eq(item->reuse[REUSE_FAR], 2.0 / 3, 1e-3);
    end(&r);
}

/* A mask of 4 KiB stands for all rows of a sum: 4 MiB and no more are its own, so that x lies 8 MiB back. */
Test(program_reuse, what_is_repeated_is_touched_once)
{
    struct run r = {0};
    bench_open(&r.b);
    mg_value x = input(&r.b, "x", SHAPE(512, 1024)), mask = input(&r.b, "mask", SHAPE(1, 1024)), b = x;
    for (int i = 0; i < 3; i++)
        b = exponential(&r, b);
    mg_value wide = op1(&r.b, MG_OP_EXPAND, NULL, VALUES(mask), ATTRS(LIST_OF(SHAPE, 512, 1024)));
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_ADD, NULL, VALUES(x, wide), NO_ATTRS));
    const struct instruction *item = last_of(&r, 20 * MIB);
    double moved = 6 + 1.0 / 256, edge = log(8.0 / 5) / log(10.0 / 5);
    cr_expect_float_eq(item->reuse[REUSE_MIDDLE], 2 * (1 - edge) / moved, 1e-3);
    cr_expect_float_eq(item->reuse[REUSE_EDGE], 2 * edge / moved, 1e-3);
    cr_expect_float_eq(item->reuse[REUSE_FAR], 4 / moved, 1e-3);
    end(&r);
}

/* Of a table of 64 MiB only the rows that are chosen are read: it does not drive out what lies before it. */
Test(program_reuse, tables_are_read_where_they_are_chosen)
{
    struct run r = {0};
    bench_open(&r.b);
    mg_value table = value_of(&r.b, MG_KIND_WEIGHT, "table", SHAPE(16384, 1024));
    mg_value x = input(&r.b, "x", SHAPE(512, 1024));
    mg_value ids = mg_graph_add_value(r.b.g, "ids", MG_KIND_WEIGHT, MG_DTYPE_I64, SHAPE(512));
    mg_value a = exponential(&r, x), rows = op1(&r.b, MG_OP_GATHER, NULL, VALUES(table, ids), ATTRS(INT_OF(AXIS, 0)));
    mg_graph_add_output(r.b.g, rows);
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_TANH, NULL, VALUES(a), NO_ATTRS));
    const struct instruction *item = last_of(&r, 16 * MIB);
    double edge = log((6 + 1.0 / 256) / 4) / log(8.0 / 4); /* a, the rows and where they come from, ids */
    expect_shares(item, (1 - edge) / 3, 0, 0, edge / 3, 2.0 / 3);
    end(&r);
}

/* Many more touches than the tree has times for: the pattern stays the same. */
Test(program_reuse, long_courses_are_counted_as_short_ones)
{
    struct run r = {0};
    bench_open(&r.b);
    mg_value x = input(&r.b, "x", SHAPE(512, 512)), a = op1(&r.b, MG_OP_EXP, NULL, VALUES(x), NO_ATTRS);
    for (int i = 0; i < 5000; i++)
        a = op1(&r.b, i % 2 ? MG_OP_EXP : MG_OP_TANH, NULL, VALUES(a), NO_ATTRS);
    mg_graph_add_output(r.b.g, op1(&r.b, MG_OP_ADD, NULL, VALUES(a, x), NO_ATTRS));
    last_of(&r, 80 * MIB);
    for (size_t i = 10; i < r.program->count - 1; i++)
        for (int k = 0; k < REUSES; k++)
            cr_assert_eq(r.program->items[i].reuse[k], r.program->items[10].reuse[k], "%zu", i);
    cr_expect_float_eq(r.program->items[10].reuse[REUSE_OWN], 1, 1e-6);
    end(&r);
}

/* Loads of plans that park values on the host. Where copies are the processor's own, what was stored is found again,
 * and only the place that it goes to may be new. */
static void expect_loads(const struct mg_program *program, bool own, uint32_t *loads)
{
    for (size_t k = 0; k < program->count; k++) {
        const struct instruction *item = &program->items[k];
        if (item->kind != KIND_LOAD)
            continue;
        ++*loads;
        if (own)
            cr_expect_geq(item->reuse[REUSE_OWN] + item->reuse[REUSE_NEAR], 0.5F);
        else
            expect_shares(item, 0, 0, 0, 0, 1);
    }
}

static enum mg_code follow_copies(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    struct mg_device device = tight_device();
    struct mg_graph *g = training_graph(&nets[2], arena);
    struct mg_search_result found = search_plans(g, &device, arena);
    uint32_t loads = 0;
    for (uint32_t i = 0; i < 2 * found.front_count; i++) {
        struct mg_engine with = {.backend = &mg_backend_model, .detail = &device};
        struct mg_program *program;
        with.properties.copy_streams = i % 2 ? 2 : 0;
        with.properties.cache_bytes = 1 << 30;
        cr_assert_eq(mg_program_build(&with, g, found.front[i / 2].plan, 1, &program, err), MG_OK, "%s", err->message);
        cr_assert_eq(mg_program_follow_reuse(program, err), MG_OK, "%s", err->message);
        expect_loads(program, i % 2 == 0, &loads);
        mg_program_free(program);
        mg_engine_free(&with, MG_PLACE_DEVICE, with.pool);
        free(with.allocations);
    }
    cr_expect_gt(loads, 4u, "%u", loads);
    return MG_OK;
}

Test(program_reuse, copies_of_the_processors_own_are_in_its_cache)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, follow_copies, &arena, &err), MG_OK, "%s", err.message);
    mg_arena_release(&arena);
}
