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

/* Columns 0 to 15 of 1024: 4096 rows of one line, of which 32 lie side by side with a line between them. */
Test(rows, columns_touch_a_line_of_each_row)
{
    struct mg_rows r = rows(SHAPE(4096, 16), (struct mg_strides){{1024, 1}});
    cr_expect(r.count == 4096 && r.rank == 1 && r.dim[0] == 4096 && r.step[0] == 4096 && r.bytes == 64);
    cr_expect(r.span == 4095 * 4096 + 64 && r.held == 4096 * 64);
    cr_expect(mg_rows_fit(&r) == 32 && r.pitch == 128);
    r = rows(SHAPE(4096, 17), (struct mg_strides){{1024, 1}});
    cr_expect(mg_rows_fit(&r) == 32 && r.pitch == 128 && r.held == 4096 * 128);
}

/* Rows of 4000 bytes: one of 64 begins at any fourth byte of a line, and touches 1 + 15/16 lines on average. */
Test(rows, rows_between_lines_touch_two)
{
    struct mg_rows r = rows(SHAPE(4096, 16), (struct mg_strides){{1000, 1}});
    cr_expect(r.held == 4096 * (64 + 60) && r.pitch == 128);
    cr_expect_eq(mg_rows_fit(&r), 31);
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

Test(rows, dimensions_may_be_named_in_any_order)
{
    struct mg_rows r = rows(SHAPE(64, 128), (struct mg_strides){{1, 64}});
    cr_expect(r.count == 1 && r.bytes == 64 * 128 * 4 && r.held == r.bytes && mg_rows_fit(&r) == 1);
    r = rows(SHAPE(16, 4096), (struct mg_strides){{1, 1024}});
    cr_expect(r.count == 4096 && r.bytes == 64 && r.held == 4096 * 64 && mg_rows_fit(&r) == 32);
}

/* Every second element. */
Test(rows, what_has_no_rows_touches_all_that_it_spans)
{
    struct mg_rows r = rows(SHAPE(1000), (struct mg_strides){{2}});
    cr_expect(r.count == 1000 && r.bytes == 4 && r.span == 999 * 8 + 4 && r.held == r.span);
    cr_expect_eq(mg_rows_fit(&r), 1);
}

Test(rows, empty_boxes_hold_nothing)
{
    struct mg_rows r = rows(SHAPE(4, 0, 2), (struct mg_strides){{0, 2, 1}});
    cr_expect(r.count == 0 && r.bytes == 0 && r.span == 0 && r.held == 0);
    cr_expect_eq(mg_rows_fit(&r), 1);
}
