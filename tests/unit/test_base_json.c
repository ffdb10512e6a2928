#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* Red zones between allocations may cost one more block. */
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZER_SLACK = 1 << 21 };
#else
enum { SANITIZER_SLACK = 0 };
#endif

struct run {
    struct mg_arena *arena;
    const char *text;
    size_t size;
    bool (*read)(struct mg_json *json, void *context);
    void *context;
};

static enum mg_code run_reader(void *context, struct mg_error *err)
{
    struct run *run = context;
    struct mg_json json;
    mg_json_init(&json, run->arena, run->text, run->size);
    bool ok = run->read(&json, run->context) && mg_json_finish(&json);
    cr_assert_eq(ok, json.err.code == MG_OK);
    *err = json.err;
    return json.err.code;
}

static struct mg_error read_sized(const char *text, size_t size, bool (*read)(struct mg_json *, void *), void *context)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, SIZE_MAX);
    /* A copy without a NUL behind it: reading on would be seen by the sanitizer. */
    char *copy = malloc(size ? size : 1);
    if (size)
        memcpy(copy, text, size);
    struct run run = {&arena, copy, size, read, context};
    cr_assert_eq(mg_arena_guard(&arena, run_reader, &run, &err), err.code);
    mg_arena_release(&arena);
    free(copy);
    return err;
}

static struct mg_error read_text(const char *text, bool (*read)(struct mg_json *, void *), void *context)
{
    return read_sized(text, strlen(text), read, context);
}

static bool skip_all(struct mg_json *json, void *context)
{
    (void)context;
    return mg_json_skip(json, NULL, NULL);
}

/* Visits every value through the typed calls, as a real consumer does. */
static bool visit(struct mg_json *json, void *context)
{
    const char *text;
    size_t size;
    double number;
    bool truth;
    switch (mg_json_peek(json)) {
    case MG_JSON_OBJECT:
        mg_json_enter_object(json);
        while (mg_json_next_member(json, &text))
            visit(json, context);
        break;
    case MG_JSON_ARRAY:
        mg_json_enter_array(json);
        while (mg_json_next_element(json))
            visit(json, context);
        break;
    case MG_JSON_STRING:
        return mg_json_string(json, &text, &size);
    case MG_JSON_NUMBER:
        return mg_json_double(json, &number);
    case MG_JSON_BOOL:
        return mg_json_bool(json, &truth);
    case MG_JSON_NULL:
        return mg_json_null(json);
    case MG_JSON_END:
        break;
    }
    return !json->err.code;
}

Test(json_read, accepts_what_the_standard_allows)
{
    static const char *const good[] = {
        "0",
        "-0",
        " 1 ",
        "-1.5e+10",
        "1E-2",
        "0.0",
        "123456789012345678901234567890",
        "true",
        "false",
        "null",
        "\"\"",
        "\t[\r\n]",
        "{}",
        "[[],{}]",
        "[1,2,3]",
        "{\"\":1}",
        "{\"a\":{\"a\":{\"a\":1}}}",
        "[{\"a\":1},{\"a\":2}]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"",
        "\"\\ud834\\udd1e\"",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
        "\"\x7f\"",
        "\"\\u0000\"",
        "{\"a\":1,\"A\":2}",
        "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"",
        "{\"a\":[{\"b\":1},{\"b\":2}],\"b\":3}",
        "{\"a\":{\"b\":1},\"b\":2,\"c\":{\"a\":1,\"b\":{\"c\":1}}}",
        "1e-400",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct mg_error a = read_text(good[i], skip_all, NULL), b = read_text(good[i], visit, NULL);
        cr_assert_eq(a.code, MG_OK, "%s: %s", good[i], a.message);
        cr_assert_eq(b.code, MG_OK, "%s: %s", good[i], b.message);
    }
}

struct bad_text {
    const char *text, *pointer;
};

/* Skipping and visiting refuse alike, at the same place. */
static void expect_refused(const struct bad_text *bad, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mg_error a = read_text(bad[i].text, skip_all, NULL), b = read_text(bad[i].text, visit, NULL);
        cr_assert_eq(a.code, MG_ERR_SYNTAX, "skip accepted %s", bad[i].text);
        cr_assert_str_eq(a.pointer, bad[i].pointer, "%s: pointer '%s'", bad[i].text, a.pointer);
        cr_assert_eq(b.code, MG_ERR_SYNTAX, "visit accepted %s", bad[i].text);
        cr_assert_str_eq(b.pointer, bad[i].pointer, "%s: pointer '%s'", bad[i].text, b.pointer);
        cr_assert(strlen(a.message) > 0);
    }
}

Test(json_read, refuses_brackets_and_commas)
{
    static const struct bad_text bad[] = {
        {"", ""},
        {" ", ""},
        {"[", ""},
        {"]", ""},
        {"{", ""},
        {"}", ""},
        {"[1", "/0"},
        {"[1,", "/1"},
        {"[1,]", "/1"},
        {"[,1]", "/0"},
        {"[1 2]", "/0"},
        {"{\"a\"}", "/a"},
        {"{\"a\":}", "/a"},
        {"{\"a\":1,}", "/a"},
        {"{a:1}", ""},
        {"{'a':1}", ""},
        {"{\"a\":1 \"b\":2}", "/a"},
        {"{1:1}", ""},
        {"{,}", ""},
        {"[}", "/0"},
        {"{]", ""},
        {"[1}", "/0"},
        {"1 1", ""},
        {"[] []", ""},
    };
    expect_refused(bad, sizeof bad / sizeof *bad);
}

Test(json_read, refuses_words_and_numbers)
{
    static const struct bad_text bad[] = {
        {"nul", ""},      {"nulll", ""},     {"True", ""}, {"tru", ""},   {"falsy", ""}, {"NaN", ""},
        {"Infinity", ""}, {"-Infinity", ""}, {"+1", ""},   {"01", ""},    {"-01", ""},   {"00", ""},
        {".5", ""},       {"1.", ""},        {"1.e1", ""}, {"1e", ""},    {"1e+", ""},   {"-", ""},
        {"0x10", ""},     {"1e5.5", ""},     {"--1", ""},  {"1,000", ""},
    };
    expect_refused(bad, sizeof bad / sizeof *bad);
}

Test(json_read, refuses_strings)
{
    static const struct bad_text bad[] = {
        {"\"", ""},
        {"\"abc", ""},
        {"\"\\", ""},
        {"\"\\\"", ""},
        {"\"\\a\"", ""},
        {"\"\\u12\"", ""},
        {"\"\\u12g4\"", ""},
        {"\"\\U0041\"", ""},
        {"\"\\ud834\"", ""},
        {"\"\\ud834\\n\"", ""},
        {"\"\\ud834\\u0041\"", ""},
        {"\"\\udd1e\"", ""},
        {"\"\\ud834\\ud834\"", ""},
        {"\"\n\"", ""},
        {"\"\t\"", ""},
        {"\"\x1f\"", ""},
        {"\"\x80\"", ""},
        {"\"\xc0\x80\"", ""},
        {"\"\xc1\xbf\"", ""},
        {"\"\xc3\"", ""},
        {"\"\xe0\x9f\xbf\"", ""},
        {"\"\xed\xa0\x80\"", ""},
        {"\"\xf0\x8f\xbf\xbf\"", ""},
        {"\"\xf4\x90\x80\x80\"", ""},
        {"\"\xf5\x80\x80\x80\"", ""},
        {"\"\xe2\x82\"", ""},
        {"\"\xf0\x9f\x98\"", ""},
        {"\"\xff\"", ""},
    };
    expect_refused(bad, sizeof bad / sizeof *bad);
}

Test(json_read, refuses_what_is_no_json)
{
    static const struct bad_text bad[] = {
        {"\xef\xbb\xbf{}", ""},
        {"/**/1", ""},
        {"[1]//", ""},
        {"\x0c"
         "1",
         ""},
    };
    expect_refused(bad, sizeof bad / sizeof *bad);
}

Test(json_read, refuses_members_twice_and_deep_places)
{
    static const struct bad_text bad[] = {
        {"{\"a\":1,\"a\":2}", "/a"},
        {"{\"a\":1,\"\\u0061\":2}", "/a"},
        {"{\"x\":[0,{\"k\":{\"k\":1},\"k\":2}]}", "/x/1/k"},
        {"{\"a\":{\"b\":{\"a\":0},\"c\":{\"a\":0}},\"a\":1}", "/a"},
        {"{\"a\":[{\"a\":{\"a\":1},\"a\":1}]}", "/a/0/a"},
        {"{\"\\u0000\":1}", ""},
        {"{\"a/b\":{\"~\":[1,x]}}", "/a~1b/~0/1"},
        {"[[1],[2,[3,!]]]", "/1/1/1"},
        {"{\"a\":[1,2],\"b\":tru}", "/b"},
        {"{\"a\":[1,2]", "/a"},
        {"[{}", "/0"},
    };
    expect_refused(bad, sizeof bad / sizeof *bad);
}

Test(json_read, refuses_a_raw_nul)
{
    cr_assert_eq(read_sized("\"a\0b\"", 5, skip_all, NULL).code, MG_ERR_SYNTAX);
    cr_assert_eq(read_sized("1\0", 2, skip_all, NULL).code, MG_ERR_SYNTAX);
    cr_assert_eq(read_sized("\0", 1, skip_all, NULL).code, MG_ERR_SYNTAX);
}

Test(json_read, every_prefix_of_a_document_fails)
{
    const char *text = "{\"a\": [1.5e3, true, null, {\"b\\n\": \"\\ud834\\udd1e\xc3\xa9\"}], \"c\": false}";
    cr_assert_eq(read_text(text, visit, NULL).code, MG_OK);
    for (size_t size = 0; size < strlen(text); size++) {
        cr_assert_eq(read_sized(text, size, visit, NULL).code, MG_ERR_SYNTAX, "prefix of %zu", size);
        cr_assert_eq(read_sized(text, size, skip_all, NULL).code, MG_ERR_SYNTAX, "prefix of %zu", size);
    }
}

static bool read_string(struct mg_json *json, void *context)
{
    const char *text;
    if (!mg_json_string(json, &text, NULL))
        return false;
    snprintf(context, 64, "%s", text);
    return true;
}

Test(json_read, decodes_strings)
{
    char out[64];
    cr_assert_eq(read_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83d\\ude00!\"", read_string, out).code,
                 MG_OK);
    cr_assert_str_eq(out, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80!");
    struct mg_error err = read_text("\"a\\u0000b\"", read_string, out);
    cr_assert_eq(err.code, MG_ERR_INVALID);
    err = read_text("[1]", read_string, out);
    cr_assert_eq(err.code, MG_ERR_INVALID);
    cr_assert_str_eq(err.message, "expected a string, found an array");
}

static bool read_int(struct mg_json *json, void *context)
{
    return mg_json_int(json, context);
}

static bool read_uint(struct mg_json *json, void *context)
{
    return mg_json_uint(json, context);
}

Test(json_read, integers_are_exact)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-7", -7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"9007199254740993", 9007199254740993},
        {"1e3", 1000},
        {"2.0", 2},
        {"2.50e1", 25},
        {"1000e-3", 1},
        {"0e5", 0},
        {"0.0000001e7", 1},
        {"9223372036854775807.000", INT64_MAX},
        {"922337203685477580.7e1", INT64_MAX},
        {"100000000000000000000e-2", 1000000000000000000},
        {"0.000e-99", 0},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 1;
        struct mg_error err = read_text(good[i].text, read_int, &value);
        cr_assert_eq(err.code, MG_OK, "%s: %s", good[i].text, err.message);
        cr_assert_eq(value, good[i].value, "%s", good[i].text);
    }
    static const char *const bad[] = {
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "1.5",
        "1e19",
        "1e-1",
        "1e400",
        "1e999999999999",
        "99999999999999999999999",
        "0.1",
        "9223372036854775807.5",
        "1e-999999999",
        "\"1\"",
        "null",
        "true",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value;
        cr_assert_eq(read_text(bad[i], read_int, &value).code, MG_ERR_INVALID, "accepted %s", bad[i]);
    }
}

Test(json_read, unsigned_integers)
{
    uint64_t value = 1;
    cr_assert_eq(read_text("18446744073709551615", read_uint, &value).code, MG_OK);
    cr_assert_eq(value, UINT64_MAX);
    cr_assert_eq(read_text("-0", read_uint, &value).code, MG_OK);
    cr_assert_eq(value, 0);
    cr_assert_eq(read_text("-1", read_uint, &value).code, MG_ERR_INVALID);
    cr_assert_eq(read_text("18446744073709551616", read_uint, &value).code, MG_ERR_INVALID);
}

static bool read_double(struct mg_json *json, void *context)
{
    return mg_json_double(json, context);
}

Test(json_read, doubles_round_like_strtod)
{
    static const char *const texts[] = {
        "0",
        "0.1",
        "0.2",
        "0.3",
        "1e22",
        "1e23",
        "123456789012345678",
        "9007199254740993",
        "9007199254740992",
        "9007199254740993.00000000000000000000000000000001",
        "1.7976931348623157e308",
        "5e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.2250738585072011e-308",
        "1e-400",
        "0.000001",
        "1e+5",
        "-1.25",
        "179769313486231570e291",
        "6.02214076e23",
        "0.5",
        "1000000000000000000000000",
        "4.35",
        "8.41e-21",
        "3.14159265358979323846264338327950288",
        "7.2057594037927933e16",
        "0e400",
        "0.1e-6",
        "1e-22",
        "1e-23",
        "0e999999999",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double value = 77, expected = strtod(texts[i], NULL);
        struct mg_error err = read_text(texts[i], read_double, &value);
        cr_assert_eq(err.code, MG_OK, "%s: %s", texts[i], err.message);
        cr_assert(memcmp(&value, &expected, sizeof value) == 0, "%s gave %.17g", texts[i], value);
    }
    double value;
    cr_assert_eq(read_text("-0", read_double, &value).code, MG_OK);
    cr_assert(value == 0 && signbit(value));
    static const char *const bad[] = {"1e309", "-1e309", "1e999999999999", "1.7976931348623159e308"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(read_text(bad[i], read_double, &value).code, MG_ERR_INVALID, "%s", bad[i]);
}

/* Zeros and exponents that cancel far out of the fast path's sight. */
Test(json_read, very_long_numbers)
{
    static char text[MG_JSON_MAX_SCALAR + 100];
    double value;
    memset(text, '0', sizeof text - 1);
    text[1] = '.';
    snprintf(text + 60001, 40, "1e60000");
    cr_assert_eq(read_text(text, read_double, &value).code, MG_OK);
    cr_assert_eq(value, 1);
    memset(text, '0', sizeof text - 1);
    text[0] = '1';
    snprintf(text + 60001, 40, "e-60000");
    cr_assert_eq(read_text(text, read_double, &value).code, MG_OK);
    cr_assert_eq(value, 1);
    memset(text, '7', sizeof text - 1);
    snprintf(text + 60000, 40, "e-60000");
    cr_assert_eq(read_text(text, read_double, &value).code, MG_OK);
    cr_assert_float_eq(value, 0.77777777777777777, 1e-16);
    memset(text, '7', sizeof text - 1);
    cr_assert_eq(read_text(text, read_double, &value).code, MG_ERR_LIMIT);
    cr_assert_eq(read_text(text, skip_all, NULL).code, MG_ERR_LIMIT);
}

Test(json_read, strings_are_limited)
{
    static char text[2 * MG_JSON_MAX_SCALAR];
    for (size_t size = MG_JSON_MAX_SCALAR - 3; size < MG_JSON_MAX_SCALAR + 3; size++) {
        enum mg_code expected = size < MG_JSON_MAX_SCALAR ? MG_OK : MG_ERR_LIMIT;
        memset(text, 'a', size);
        text[0] = '"';
        snprintf(text + size, 40, "\"");
        cr_assert_eq(read_text(text, skip_all, NULL).code, expected, "%zu bytes", size);
        text[0] = '{';
        text[1] = '"';
        snprintf(text + size, 40, "b\":1}");
        cr_assert_eq(read_text(text, skip_all, NULL).code, expected, "a name of %zu bytes", size);
    }
}

static bool read_pointers(struct mg_json *json, void *context)
{
    const char *key;
    char *out = context;
    char pointer[64];
    mg_json_pointer(json, pointer, sizeof pointer);
    strcat(strcat(out, pointer), ";");
    mg_json_enter_object(json);
    while (mg_json_next_member(json, &key)) {
        mg_json_enter_array(json);
        while (mg_json_next_element(json)) {
            mg_json_pointer(json, pointer, sizeof pointer);
            strcat(strcat(out, pointer), ";");
            mg_json_skip(json, NULL, NULL);
        }
        mg_json_pointer(json, pointer, sizeof pointer);
        strcat(strcat(out, pointer), ";");
    }
    char tiny[5];
    mg_json_pointer(json, tiny, sizeof tiny);
    return mg_json_fail(json, MG_ERR_UNSUPPORTED, "no %s", "thanks");
}

Test(json_read, knows_where_it_is)
{
    char out[512] = "";
    struct mg_error err = read_text("{\"a/b~c\":[1,[2]],\"\":[{}]}", read_pointers, out);
    cr_assert_str_eq(out, ";/a~1b~0c/0;/a~1b~0c/1;/a~1b~0c;//0;/;");
    cr_assert_eq(err.code, MG_ERR_UNSUPPORTED);
    cr_assert_str_eq(err.pointer, "");
    cr_assert_str_eq(err.message, "no thanks");
}

static bool misuse_without_consuming(struct mg_json *json, void *context)
{
    (void)context;
    const char *key;
    mg_json_enter_object(json);
    mg_json_next_member(json, &key);
    return mg_json_next_member(json, &key);
}

static bool misuse_by_stopping(struct mg_json *json, void *context)
{
    (void)context;
    return mg_json_enter_object(json);
}

static bool keep_failing(struct mg_json *json, void *context)
{
    double value;
    const char *text;
    int any = mg_json_double(json, &value);
    mg_json_fail(json, MG_ERR_INTERNAL, "later");
    any += mg_json_string(json, &text, NULL) + mg_json_skip(json, NULL, NULL) + mg_json_enter_object(json);
    any += mg_json_next_element(json) + mg_json_next_member(json, &text) + (mg_json_peek(json) != MG_JSON_END);
    *(bool *)context = any > 0;
    return false;
}

Test(json_read, errors_stick_and_misuse_is_reported)
{
    cr_assert_eq(read_text("{\"a\":1}", misuse_without_consuming, NULL).code, MG_ERR_INTERNAL);
    cr_assert_eq(read_text("{\"a\":1}", misuse_by_stopping, NULL).code, MG_ERR_INTERNAL);
    bool any = true;
    struct mg_error err = read_text("\"x\"", keep_failing, &any);
    cr_assert_not(any);
    cr_assert_eq(err.code, MG_ERR_INVALID);
    cr_assert_str_eq(err.message, "expected a number, found a string");
}

static bool read_raw(struct mg_json *json, void *context)
{
    const char *text;
    size_t size;
    mg_json_enter_array(json);
    while (mg_json_next_element(json))
        if (mg_json_skip(json, &text, &size))
            snprintf(context, 64, "%.*s", (int)size, text);
    return !json->err.code;
}

Test(json_read, skipping_tells_the_extent)
{
    char out[64];
    cr_assert_eq(read_text("[1,  {\"a\": [1, \"]\"]}  ]", read_raw, out).code, MG_OK);
    cr_assert_str_eq(out, "{\"a\": [1, \"]\"]}");
}

static bool both_extents(struct mg_json *json, void *context)
{
    const char *text, *quick_text;
    size_t size, quick_size;
    (void)context;
    struct mg_json quick;
    mg_json_init(&quick, json->arena, json->start, (size_t)(json->end - json->start));
    cr_assert(mg_json_extent(&quick, &quick_text, &quick_size));
    cr_assert(mg_json_skip(json, &text, &size), "%s", json->err.message);
    cr_assert(quick_text == text && quick_size == size && quick.at == json->at, "%.*s", (int)size, text);
    return true;
}

Test(json_read, brackets_and_strings_tell_the_extent)
{
    static const char *const texts[] = {
        "{}",
        " [ ]",
        "[1,[2,{\"a\":[]}],\"]\"]",
        "{\"}\":\"{\",\"\\\"}\":[\"\\\\\"]}",
        "[\"long enough to be judged eight at once, with an umlaut: \xc3\xa4 and \\u005d\"]",
        "\"[\"",
        "12.5e3",
        "null",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert_eq(read_text(texts[i], both_extents, NULL).code, MG_OK, "%s", texts[i]);
}

static bool extent_only(struct mg_json *json, void *context)
{
    const char *text;
    size_t size;
    (void)context;
    return mg_json_extent(json, &text, &size);
}

Test(json_read, an_extent_needs_an_end)
{
    static const char *const texts[] = {"", "[", "{\"a\":[1]", "[\"]", "[\"\\\"]", "[\"\\", "\"abc"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert_eq(read_text(texts[i], extent_only, NULL).code, MG_ERR_SYNTAX, "%s", texts[i]);
}

static bool write_again(struct mg_json *json, void *context)
{
    struct mg_writer *w = context;
    const char *key;
    int64_t number;
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        if (!mg_json_enter_object(json))
            return false;
        while (mg_json_next_member(json, &key)) {
            mg_write_text(w, "%s ", key);
            if (!mg_json_int(json, &number))
                return false;
        }
    }
    return json->err.code == MG_OK;
}

/* The next name is guessed from what came last time: other orders, spellings and names that begin alike must not
 * mislead it. */
Test(json_read, member_names_in_any_order)
{
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"[{\"a\":1,\"b\":2},{\"a\":1,\"b\":2},{\"b\":1,\"a\":2},{\"a\":1}]", "a b a b b a a "},
        {"[{\"a\":1,\"b\":2},{\"a\":1,\"bb\":2},{\"a\":1,\"b\":2},{\"a\":1,\"\\u0062\":2}]", "a b a bb a b a b "},
        {"[{\"a\\\\\":1},{\"a\\\\\":1},{\"a\\\"\":1},{\"a\":1}]", "a\\ a\\ a\" a "},
        {"[{\"\":1},{\"\":1},{},{\"\":1}]", "   "},
    };
    struct mg_writer w;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mg_writer_init(&w);
        cr_assert_eq(read_text(cases[i].text, write_again, &w).code, MG_OK, "%s", cases[i].text);
        cr_assert(mg_writer_finish(&w));
        cr_assert_str_eq(w.data, cases[i].names);
        mg_writer_release(&w);
    }
    struct mg_error err = read_text("[{\"a\":1,\"b\":2},{\"a\":1,\"b\":2,\"a\":3}]", skip_all, NULL);
    cr_assert_eq(err.code, MG_ERR_SYNTAX);
    cr_assert_str_eq(err.pointer, "/1/a");
}

Test(json_read, reports_line_and_column)
{
    struct mg_error err = read_text("{\n  \"a\": 1,\n  \"b\": ?\n}", skip_all, NULL);
    cr_assert(strstr(err.message, "line 3, column 8"), "%s", err.message);
}

Test(json_read, nesting_is_limited)
{
    static char text[200001];
    for (size_t depth = 60; depth <= 100000; depth += depth < 70 ? 1 : 33310) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        enum mg_code expected = depth <= MG_JSON_MAX_DEPTH ? MG_OK : MG_ERR_LIMIT;
        cr_assert_eq(read_sized(text, 2 * depth, skip_all, NULL).code, expected);
        cr_assert_eq(read_sized(text, 2 * depth, visit, NULL).code, expected);
    }
    char *at = text;
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, "{\"a\":");
    struct mg_error err = read_text(text, skip_all, NULL);
    cr_assert_eq(err.code, MG_ERR_LIMIT);
    cr_assert(!strncmp(err.pointer, "/a/a/a", 6));
}

/* 100,000 distinct members: quadratic work would take minutes. */
Test(json_read, wide_objects_are_frugal)
{
    enum { COUNT = 100000 };
    char *text = malloc(COUNT * 20), *at = text;
    *at++ = '{';
    for (int i = 0; i < COUNT; i++)
        at += sprintf(at, "\"k%d\":%d,", i, i);
    at[-1] = '}';
    size_t size = (size_t)(at - text);
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, 4 * size + SANITIZER_SLACK);
    struct run run = {&arena, text, size, skip_all, NULL};
    cr_assert_eq(mg_arena_guard(&arena, run_reader, &run, &err), MG_OK, "%s", err.message);
    mg_arena_release(&arena);
    sprintf(at - 1, ",\"k5\":1}");
    err = read_sized(text, strlen(text), skip_all, NULL);
    cr_assert_eq(err.code, MG_ERR_SYNTAX);
    cr_assert_str_eq(err.pointer, "/k5");
    free(text);
}

Test(json_read, a_small_budget_is_an_error_not_a_crash)
{
    const char *text = "{\"a\":[\"bcdefghijklmnopqrstuvwxyz\",{\"x\":1}]}";
    int failures = 0;
    for (size_t limit = 0; limit < 40000; limit += 500) {
        struct mg_arena arena;
        struct mg_error err = {0};
        mg_arena_init(&arena, limit);
        struct run run = {&arena, text, strlen(text), visit, NULL};
        enum mg_code code = mg_arena_guard(&arena, run_reader, &run, &err);
        cr_assert(code == MG_OK || code == MG_ERR_NOMEM);
        failures += code != MG_OK;
        mg_arena_release(&arena);
    }
    cr_assert(failures > 0 && failures < 60, "%d", failures);
}
