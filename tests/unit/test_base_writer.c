#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/json.h"

Test(json_write, puts_commas_and_colons)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "s", "x");
    mg_write_member_int(&w, "i", INT64_MIN);
    mg_write_member_uint(&w, "u", UINT64_MAX);
    mg_write_member_double(&w, "d", 0.1);
    mg_write_member_bool(&w, "b", false);
    mg_write_key(&w, "a");
    mg_write_begin_array(&w);
    mg_write_null(&w);
    mg_write_begin_array(&w);
    mg_write_end_array(&w);
    mg_write_begin_object(&w);
    mg_write_end_object(&w);
    mg_write_bool(&w, true);
    mg_write_raw(&w, "[1,2]", 5);
    mg_write_int(&w, 0);
    mg_write_end_array(&w);
    mg_write_key(&w, "z");
    mg_write_string(&w, "");
    mg_write_end_object(&w);
    cr_assert(mg_writer_finish(&w));
    cr_assert_str_eq(w.data, "{\"s\":\"x\",\"i\":-9223372036854775808,\"u\":18446744073709551615,\"d\":0.1,\"b\":false,"
                             "\"a\":[null,[],{},true,[1,2],0],\"z\":\"\"}");
    cr_assert_eq(w.size, strlen(w.data));
    mg_writer_release(&w);
    cr_assert_null(w.data);
}

Test(json_write, escapes_strings)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_string(&w, "\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\xf0\x9f\x98\x80|\xff|\xed\xa0\x80|\xc3");
    cr_assert(mg_writer_finish(&w));
    cr_assert_str_eq(w.data, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\xf0\x9f\x98\x80|\xef\xbf\xbd|"
                             "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\"");
    mg_writer_release(&w);
}

Test(json_write, text_and_misuse)
{
    struct mg_writer w;
    mg_writer_init(&w);
    for (int i = 0; i < 1000; i++)
        mg_write_text(&w, "n%04d;", i);
    cr_assert(mg_writer_finish(&w));
    cr_assert_eq(w.size, 6000);
    cr_assert(!strcmp(w.data + 5994, "n0999;"));
    mg_writer_release(&w);
    mg_writer_init(&w);
    mg_write_begin_array(&w);
    cr_assert_not(mg_writer_finish(&w), "an open array is no document");
    mg_writer_release(&w);
    mg_writer_init(&w);
    for (int i = 0; i <= MG_JSON_MAX_DEPTH; i++)
        mg_write_begin_array(&w);
    cr_assert(w.failed);
    cr_assert_not(mg_writer_finish(&w));
    mg_writer_release(&w);
}

static void expect_double(double value, const char *text)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_double(&w, value);
    cr_assert(mg_writer_finish(&w));
    cr_assert_str_eq(w.data, text);
    mg_writer_release(&w);
}

Test(json_write, doubles_are_short)
{
    expect_double(0, "0");
    expect_double(-0.0, "-0");
    expect_double(0.1, "0.1");
    expect_double(0.1 + 0.2, "0.30000000000000004");
    expect_double(1.0 / 3, "0.3333333333333333");
    expect_double(100, "100");
    expect_double(-2.5, "-2.5");
    expect_double(123456789012345, "123456789012345");
    expect_double(1e22, "1e+22");
    expect_double(5e-324, "5e-324");
    expect_double(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_double(NAN, "null");
    expect_double(-INFINITY, "null");
}

struct pair {
    struct mg_arena *arena;
    double value;
};

static enum mg_code round_trip(void *context, struct mg_error *err)
{
    struct pair *pair = context;
    struct mg_writer w;
    struct mg_json json;
    double back;
    mg_writer_init(&w);
    mg_write_double(&w, pair->value);
    cr_assert(mg_writer_finish(&w));
    mg_json_init(&json, pair->arena, w.data, w.size);
    cr_assert(mg_json_double(&json, &back) && mg_json_finish(&json), "%s: %s", w.data, json.err.message);
    cr_assert(memcmp(&back, &pair->value, sizeof back) == 0, "%.17g became %s", pair->value, w.data);
    mg_writer_release(&w);
    (void)err;
    return MG_OK;
}

Test(json_write, numbers_come_back)
{
    struct mg_rng rng;
    struct mg_arena arena;
    struct mg_error err;
    mg_rng_init(&rng, 1);
    mg_arena_init(&arena, SIZE_MAX);
    for (int i = 0; i < 60000; i++) {
        uint64_t bits = mg_rng_next(&rng);
        struct pair pair = {.arena = &arena};
        memcpy(&pair.value, &bits, sizeof bits);
        if (i % 3 == 1)
            pair.value = (double)(bits >> 40) / 1000;
        if (i % 3 == 2)
            pair.value = (double)(int64_t)(bits >> (bits & 63));
        if (!isfinite(pair.value))
            continue;
        struct mg_arena_mark mark = mg_arena_mark(&arena);
        cr_assert_eq(mg_arena_guard(&arena, round_trip, &pair, &err), MG_OK);
        mg_arena_rewind(&arena, mark);
    }
    mg_arena_release(&arena);
}
