/* The numbers that operands hold while their operator is timed. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "device/signature.h"
#include "measure/calibrate.h"
#include "graph_util.h"
#include "measure/operands.h"

struct reading {
    struct mg_arena arena;
    const char *name, *signature;
    struct mg_op_desc op;
};

static enum mg_code read_signature(void *context, struct mg_error *err)
{
    struct reading *r = context;
    return mg_signature_read(r->name, r->signature, &r->arena, &r->op, err);
}

static void open_reading(struct reading *r, const char *name, const char *signature)
{
    struct mg_error err;
    *r = (struct reading){.name = name, .signature = signature};
    mg_arena_init(&r->arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&r->arena, read_signature, r, &err), MG_OK, "%s: %s", name, err.message);
}

/* Of dense operand i; returns how many. */
static uint64_t fill(const struct reading *r, uint32_t i, void *memory)
{
    struct mg_strides strides;
    const struct mg_shape *shape = &r->op.in_shape[i];
    mg_shape_strides(shape, strides.at);
    return mg_operand_fill(&r->op, i, &strides, memory, (uint64_t)mg_shape_elements(shape));
}

/* An axis of size 1 has index 0 alone. */
Test(operands, axes_of_one_element_are_timed)
{
    static const char *const list[][2] = {
        {"gather", "f32;axis=0;f32[1,4],i64[6]->f32[6,4]"},
        {"gather_elements", "f32;axis=1;f32[5,1],i64[5,3]->f32[5,3]"},
        {"scatter_elements", "f32;axis=1;reduction=none;f32[5,1],i64[5,3],f32[5,3]->f32[5,1]"},
        {"gather_nd", "f32;batch_dims=0;f32[1,4],i64[6,1]->f32[6,4]"},
        {"scatter_add", "f32;axis=0;size=1;f32[6,4],i64[6]->f32[1,4]"},
        {"cross_entropy", "f32;divisor=8;ignore_index=-100;f32[8,1],i64[8]->f32[]"},
        {"nll_loss_grad", "f32;divisor=8;ignore_index=-100;f32[],f32[8,1],i64[8]->f32[8,1]"},
        {"roi_align", "f32;spatial=7,7;mode=avg;coordinates=half_pixel;sampling_ratio=0;spatial_scale=1;"
                      "f32[1,4,9,9],f32[8,4],i64[8]->f32[8,4,7,7]"},
        {"max_unpool", "f32;spatial=1,1;f32[1,1,1,1],i64[1,1,1,1]->f32[1,1,1,1]"},
        {"reverse_sequence", "f32;batch_axis=1;time_axis=0;f32[1,3,2],i64[3]->f32[1,3,2]"},
    };
    const struct mg_time_policy policy = {.warm_up = 1, .repeats = 1};
    struct mg_engine *engine;
    struct mg_timing timing;
    struct mg_error err;
    cr_assert_eq(mg_engine_open("cpu", &engine, &err), MG_OK, "%s", err.message);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        cr_expect_eq(mg_engine_time_signature(engine, list[i][0], list[i][1], &policy, &timing, &err), MG_OK, "%s: %s",
                     list[i][0], err.message);
    mg_engine_close(engine);
}

static void expect_spread(const char *name, const char *signature, uint32_t i, int64_t below)
{
    struct reading r;
    int64_t numbers[1000], least = INT64_MAX, most = INT64_MIN;
    open_reading(&r, name, signature);
    uint64_t count = fill(&r, i, numbers);
    cr_assert_eq(count, 1000);
    for (uint64_t k = 0; k < count; k++) {
        least = numbers[k] < least ? numbers[k] : least;
        most = numbers[k] > most ? numbers[k] : most;
    }
    cr_expect(least >= 0 && least < below / 10 && most < below && most > below - below / 10, "%s: %lld to %lld", name,
              (long long)least, (long long)most);
    mg_arena_release(&r.arena);
}

Test(operands, indices_are_spread_over_their_axis)
{
    expect_spread("gather", "f32;axis=1;f32[2,300],i64[1000]->f32[2,1000]", 1, 300);
    expect_spread("scatter_add", "f32;axis=0;size=300;f32[1000],i64[1000]->f32[300]", 1, 300);
    expect_spread("one_hot", "f32;depth=50;axis=1;i64[1000],f32[2]->f32[1000,50]", 0, 50);
    expect_spread("cross_entropy", "f32;divisor=8;ignore_index=-100;f32[1000,70],i64[1000]->f32[]", 1, 70);
    expect_spread("cross_entropy_grad", "f32;divisor=8;ignore_index=-100;f32[],f32[1000,70],i64[1000]->f32[1000,70]", 2,
                  70);
    expect_spread("max_unpool", "f32;spatial=40,100;f32[1,1,20,50],i64[1,1,20,50]->f32[1,1,40,100]", 1, 4000);
}

/* Each number of a tuple within its own axis; the narrowest whole numbers hold no more than they can. */
Test(operands, tuples_and_narrow_indices_stay_in_range)
{
    struct reading r;
    int64_t pairs[200], most[2] = {0};
    int8_t narrow[100];
    open_reading(&r, "gather_nd", "f32;batch_dims=0;f32[3,500],i64[100,2]->f32[100]");
    cr_assert_eq(fill(&r, 1, pairs), 200);
    for (int k = 0; k < 200; k++) {
        cr_expect(pairs[k] >= 0 && pairs[k] < (k % 2 ? 500 : 3), "%d: %lld", k, (long long)pairs[k]);
        most[k % 2] = pairs[k] > most[k % 2] ? pairs[k] : most[k % 2];
    }
    cr_expect(most[0] == 2 && most[1] > 400);
    mg_arena_release(&r.arena);
    open_reading(&r, "gather", "f32;axis=0;f32[500],i8[100]->f32[100]");
    fill(&r, 1, narrow);
    for (int k = 0; k < 100; k++)
        cr_expect_geq(narrow[k], 0);
    mg_arena_release(&r.arena);
}

static const char boxes[] = "f32;spatial=7,7;mode=avg;coordinates=half_pixel;sampling_ratio=0;"
                            "spatial_scale=0.5;f32[1,4,20,30],f32[8,4],i64[8]->f32[8,4,7,7]";

/* Also where they are columns of a wider matrix, whose last row is not whole; what follows repeats whole rows. */
Test(operands, boxes_are_as_wide_as_their_image)
{
    static const float want[] = {0, 0, 60, 40};
    const struct mg_strides wide = {{6, 1}}, turned = {{1, 8}};
    float memory[46];
    struct reading r;
    open_reading(&r, "roi_align", boxes);
    cr_assert_eq(fill(&r, 1, memory), 32);
    for (int k = 0; k < 32; k++)
        cr_expect_eq(memory[k], want[k % 4], "%d: %g", k, (double)memory[k]);
    cr_assert_eq(mg_operand_fill(&r.op, 1, &wide, memory, 46), 42);
    for (int k = 0; k < 42; k++)
        cr_expect(k % 6 > 3 || memory[k] == want[k % 6], "%d: %g", k, (double)memory[k]);
    cr_expect_eq(mg_operand_fill(&r.op, 1, &turned, memory, 32), 32);
    mg_arena_release(&r.arena);
}

Test(operands, sequences_and_grids_reach_everywhere)
{
    struct reading r;
    int32_t lengths[3];
    float grid[200], least = INFINITY, most = -INFINITY;
    open_reading(&r, "reverse_sequence", "f32;batch_axis=1;time_axis=0;f32[9,3,2],i32[3]->f32[9,3,2]");
    fill(&r, 1, lengths);
    cr_expect(lengths[0] == 9 && lengths[1] == 9 && lengths[2] == 9);
    mg_arena_release(&r.arena);
    open_reading(&r, "grid_sample",
                 "f32;mode=linear;padding=zeros;align_corners=0;f32[1,2,9,9],f32[1,10,10,2]->f32[1,2,10,10]");
    fill(&r, 1, grid);
    for (int k = 0; k < 200; k++) {
        least = fminf(least, grid[k]);
        most = fmaxf(most, grid[k]);
    }
    cr_expect(least >= -1 && least < -0.9F && most <= 1 && most > 0.9F);
    mg_arena_release(&r.arena);
}

/* The largest of an input's 1000 numbers, all 1 before. */
static double spread_most(struct bench *b, mg_value made)
{
    mg_graph_add_output(b->g, made);
    cr_assert(normalise(b), "%s", b->err.message);
    double **values = MG_NEW_ARRAY(&b->arena, double *, b->n->value_count), most = 0;
    for (size_t v = 0; v < b->n->value_count; v++) {
        if (b->n->values[v].kind == MG_KIND_COMPUTED)
            continue;
        values[v] = MG_NEW_ARRAY(&b->arena, double, mg_shape_elements(&b->n->values[v].shape));
        for (int64_t i = 0; i < mg_shape_elements(&b->n->values[v].shape); i++)
            values[v][i] = 1;
    }
    mg_operand_spread(b->n, values, 1, &b->arena);
    for (size_t v = 0; v < b->n->value_count; v++)
        for (int i = 0; strcmp(b->n->values[v].name, "ids") == 0 && i < 1000; i++)
            most = fmax(most, values[v][i]);
    bench_close(b);
    return most;
}

static mg_value rows_of(struct bench *b, const char *name, int64_t size, mg_value ids)
{
    mg_value table = value_of(b, MG_KIND_WEIGHT, name, SHAPE(size, 2));
    mg_value made = op1(b, MG_OP_GATHER, NULL, VALUES(table, ids), ATTRS(INT_OF(AXIS, 0)));
    mg_graph_add_output(b->g, made);
    return made;
}

/* Below every table that they choose from, also where parts of them do; what is computed with stays as it was. */
Test(operands, inputs_of_a_graph_are_spread_below_what_they_choose_from)
{
    struct bench b;
    mg_value half[2];
    bench_open(&b);
    mg_value ids = typed(&b, "ids", MG_DTYPE_I64, SHAPE(1000));
    cr_expect_gt(spread_most(&b, rows_of(&b, "a", 300, ids)), 250);
    bench_open(&b);
    ids = typed(&b, "ids", MG_DTYPE_I64, SHAPE(1000));
    cr_assert_eq(opn(&b, MG_OP_SPLIT, VALUES(ids), ATTRS(INT_OF(AXIS, 0), LIST_OF(SPLIT, 500, 500)), 2, half), MG_OK,
                 "%s", b.err.message);
    rows_of(&b, "a", 300, half[0]);
    double most = spread_most(&b, rows_of(&b, "b", 10, half[1]));
    cr_expect(most > 7 && most < 10, "%g", most);
    bench_open(&b);
    ids = typed(&b, "ids", MG_DTYPE_I64, SHAPE(1000));
    rows_of(&b, "a", 300, ids);
    cr_expect_eq(spread_most(&b, rows_of(&b, "b", 10, op1(&b, MG_OP_MUL, NULL, VALUES(ids, ids), NO_ATTRS))), 1);
    bench_open(&b);
    ids = typed(&b, "ids", MG_DTYPE_I64, SHAPE(1000));
    cr_expect_eq(spread_most(&b, op1(&b, MG_OP_NEG, NULL, VALUES(ids), NO_ATTRS)), 1, "no index");
}
