/* Boxes in memory as rows, counted by hand. */
#include "graph_util.h"
#include "measure/measure.h"
#include "measure/rows.h"

#include <criterion/criterion.h>

static struct mg_rows rows(const struct mg_shape *shape, struct mg_strides strides)
{
    return mg_rows_of(shape, strides.at, 4);
}

Test(rows, dense_boxes_are_one_row)
{
    struct mg_rows r = rows(SHAPE(3, 5, 7), (struct mg_strides){{35, 7, 1}});
    cr_expect(r.count == 1 && r.rank == 0 && r.bytes == 420 && r.span == 420 && r.held == 420);
    cr_expect_eq(mg_rows_fit(&r), 1);
    r = rows(SHAPE(1, 1), (struct mg_strides){{99, 99}});
    cr_expect(r.count == 1 && r.bytes == 4 && r.span == 4, "strides of dimensions of 1 say nothing");
}

/* Columns 0 to 15 of 1024: 4096 rows of one line, of which 64 lie side by side. */
Test(rows, columns_touch_a_line_of_each_row)
{
    struct mg_rows r = rows(SHAPE(4096, 16), (struct mg_strides){{1024, 1}});
    cr_expect(r.count == 4096 && r.rank == 1 && r.dim[0] == 4096 && r.step[0] == 4096 && r.bytes == 64);
    cr_expect(r.span == 4095 * 4096 + 64 && r.held == 4096 * 64);
    cr_expect(mg_rows_fit(&r) == 64 && mg_rows_pitch(&r) == 64);
    r = rows(SHAPE(4096, 17), (struct mg_strides){{1024, 1}});
    cr_expect(mg_rows_fit(&r) == 32 && mg_rows_pitch(&r) == 128 && r.held == 4096 * 128);
}

/* Two of eight channels of three images: 3 rows, in whose gaps 4 such boxes lie. */
Test(rows, channels_of_images_are_long_rows)
{
    struct mg_rows r = rows(SHAPE(3, 2, 16, 16), (struct mg_strides){{2048, 256, 16, 1}});
    cr_expect(r.count == 3 && r.bytes == 2048 && r.step[0] == 8192 && r.held == 3 * 2048);
    cr_expect_eq(mg_rows_fit(&r), 4);
}

Test(rows, what_is_repeated_lies_there_once)
{
    struct mg_rows r = rows(SHAPE(512, 1024), (struct mg_strides){{0, 1}});
    cr_expect(r.count == 1 && r.bytes == 4096 && r.span == 4096 && r.held == 4096);
}

Test(rows, transposed_boxes_touch_all_that_they_span)
{
    struct mg_rows r = rows(SHAPE(64, 128), (struct mg_strides){{1, 64}});
    cr_expect(r.count == 64 * 128 && r.bytes == 4 && r.span == 64 * 128 * 4 && r.held == r.span);
    cr_expect_eq(mg_rows_fit(&r), 1);
}

Test(rows, empty_boxes_hold_nothing)
{
    struct mg_rows r = rows(SHAPE(4, 0, 2), (struct mg_strides){{0, 2, 1}});
    cr_expect(r.count == 0 && r.bytes == 0 && r.span == 0 && r.held == 0);
    cr_expect_eq(mg_rows_fit(&r), 1);
}
