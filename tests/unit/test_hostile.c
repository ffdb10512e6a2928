/* Hostile documents: each announces 63 MB, of which only the first MiB can be read at all (what is behind faults), and
 * is refused with at most 16 MiB allocated. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "formats/formats.h"
#include "plan/plan.h"
#include "tests/unit/graph_util.h"

enum { MIB = 1 << 20, ANNOUNCED = 63 * MIB };

struct hostile {
    const char *name, *before, *unit; /* the unit is repeated; '@' in it is a number that grows */
    const char *words;                /* of the refusal */
};

static char *readable; /* one MiB, and nothing behind it */

static void fill(const struct hostile *h)
{
    size_t at = strlen(h->before);
    char unit[256];
    readable = mmap(NULL, ANNOUNCED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(readable != MAP_FAILED && mprotect(readable, MIB, PROT_READ | PROT_WRITE) == 0);
    memset(readable, ' ', MIB);
    memcpy(readable, h->before, at);
    for (unsigned n = 0; *h->unit && at < MIB; n++) {
        const char *number = strchr(h->unit, '@');
        int size = number ? snprintf(unit, sizeof unit, "%.*s%u%s", (int)(number - h->unit), h->unit, n, number + 1)
                          : snprintf(unit, sizeof unit, "%s", h->unit);
        size_t room = MIB - at < (size_t)size ? MIB - at : (size_t)size;
        memcpy(readable + at, unit, room);
        at += room;
    }
}

typedef enum mg_code reader(const char *text, size_t size, struct mg_arena *arena, struct mg_error *err);

static void refused(const struct hostile *h, reader *read)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, SIZE_MAX);
    fill(h);
    enum mg_code code = read(readable, ANNOUNCED, &arena, &err);
    cr_expect(code == MG_ERR_SYNTAX || code == MG_ERR_INVALID || code == MG_ERR_LIMIT, "%s: %d", h->name, code);
    cr_expect(strstr(err.message, h->words), "%s: %s %s", h->name, err.pointer, err.message);
    cr_expect_leq(arena.peak, (size_t)16 * MIB, "%s: %zu bytes allocated", h->name, arena.peak);
    munmap(readable, ANNOUNCED);
    mg_arena_release(&arena);
}

static enum mg_code read_graph(const char *text, size_t size, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_graph *g;
    struct mg_training training;
    bool has_training;
    return mg_graph_read(text, size, arena, &g, &training, &has_training, err);
}

#define NATIVE "{\"format\":\"magis-graph/1\","
#define OP "\"ops\":[{\"name\":\"a\",\"op\":\"opaque\","

Test(hostile, native_json)
{
    static const struct hostile cases[] = {
        {"a list of empty objects", "[", "{},", "expected an object"},
        {"empty operators", NATIVE "\"ops\":[", "{},", "lacks the member"},
        {"empty values", NATIVE "\"values\":[", "{},", "lacks the member"},
        {"an unknown member", "{\"zzz\":[", "{},", "no member \"zzz\""},
        {"an unknown attribute", NATIVE OP "\"attrs\":{\"zz\":[", "{},", "no attribute"},
        {"nesting", NATIVE "\"ops\":", "[", "expected an object"},
        {"a long name", NATIVE "\"name\":\"", "a", "bytes"},
        {"a long member name", "{\"", "a", "bytes"},
        {"a long number", NATIVE "\"forward_ops\":", "1", "bytes"},
        {"a long shape", NATIVE "\"values\":[{\"name\":\"x\",\"shape\":[", "1,", "dimensions"},
        {"an overflow",
         NATIVE "\"values\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[4000000000000,4000000000000]},", "",
         "too large"},
        {"many operands", NATIVE OP "\"inputs\":[", "\"x\",", "65535"},
        {"many long operands", NATIVE OP "\"inputs\":[", "\"a name of some length, as exporters make them: @\",",
         "bytes"},
        {"many results", NATIVE OP "\"outputs\":[", "\"@\",", "65535"},
        {"a long attribute", NATIVE OP "\"attrs\":{\"axes\":[", "0,", "bytes"},
        {"many devices", NATIVE OP "\"attrs\":{\"latency\":{\"d\":1,", "\"@\":1,", "bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&cases[i], read_graph);
}

#define ATEN "{\"format\":\"magis-aten/1\","
#define NODE "\"nodes\":[{\"name\":\"a\",\"op\":\"aten.relu.default\","

Test(hostile, captured_steps)
{
    static const struct hostile cases[] = {
        {"empty nodes", ATEN "\"nodes\":[", "{},", "lacks the member"},
        {"empty lists", ATEN NODE "\"args\":[", "[],", "65535 arguments"},
        {"lists of one", ATEN NODE "\"args\":[", "[1],", "65535 arguments"},
        {"texts", ATEN NODE "\"args\":[", "{\"other\":\"\"},", "65535 arguments"},
        {"nesting", ATEN NODE "\"args\":[", "[", "nested deeper"},
        {"many keywords", ATEN NODE "\"kwargs\":{", "\"@\":1,", "65535 arguments"},
        {"many writes", ATEN NODE "\"writes\":[", "1,", "65535"},
        {"a long constant", ATEN NODE "\"value\":[", "1,", "bytes"},
        {"a wide constant", ATEN NODE "\"value\":{\"a\":1,", "\"@\":1,", "bytes"},
        {"empty outputs", ATEN "\"outputs\":[", "{},", "lacks the member"},
        {"a version that is a list", ATEN "\"torch\":[", "{},", "is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&cases[i], read_graph);
}

static const struct mg_graph *planned; /* the graph of the plans */

static enum mg_code read_plan(const char *text, size_t size, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_plan *plan;
    return mg_plan_read(planned, text, size, arena, &plan, err);
}

#define PLAN "{\"edits\":[],"

Test(hostile, plans)
{
    static const struct hostile cases[] = {
        {"empty steps before the edits", "{\"format\":\"magis-plan/1\",\"steps\":[", "{},", "among its first"},
        {"wide objects before the edits", "{\"program\":{", "\"@\":{},", "among its first"},
        {"empty steps", PLAN "\"steps\":[", "{},", "is missing"},
        {"empty prices", PLAN "\"prices\":[", "{},", "is missing"},
        {"empty storages", PLAN "\"storages\":[", "{},", "is missing"},
        {"empty instances", PLAN "\"instances\":[", "{},", "is missing"},
        {"empty regions", PLAN "\"regions\":[", "{},", "is missing"},
        {"empty edits", "{\"edits\":[", "{},", "is missing"},
        {"a nested edit", "{\"edits\":[{\"added\":", "[", "nested deeper"},
        {"a long edit", "{\"edits\":[{\"added\":[", "1,", "bytes"},
        {"many operands", PLAN "\"steps\":[{\"in\":[", "0,", "bytes"},
        {"many parts", PLAN "\"regions\":[{\"bounds\":[", "0,", "parts"},
        {"many operators", PLAN "\"regions\":[{\"ops\":[", "{\"op\":\"a\",\"axis\":\"d0\",\"scale\":1},", "order"},
        {"a long signature", PLAN "\"prices\":[{\"signature\":\"", "a", "bytes"},
        {"a long device", PLAN "\"device\":[", "{},", "bytes"},
    };
    struct bench b;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(64, 64));
    mg_graph_add_output(b.g, op1(&b, MG_OP_RELU, "a", VALUES(x), NO_ATTRS));
    cr_assert(normalise(&b));
    planned = b.n;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&cases[i], read_plan);
    bench_close(&b);
}
