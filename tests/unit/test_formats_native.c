/* Native JSON: round trips of every zoo network, all members, errors that point to the place; Graphviz. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/formats.h"
#include "graph/ops_priv.h"
#include "tests/unit/guard_util.h"
#include "zoo/zoo.h"

static char *written(const struct mg_graph *g, void (*write)(struct mg_writer *, const struct mg_graph *))
{
    struct mg_writer w;
    mg_writer_init(&w);
    write(&w, g);
    cr_assert(mg_writer_finish(&w));
    char *text = strdup(w.data);
    mg_writer_release(&w);
    return text;
}

static struct mg_graph *normalised(struct mg_arena *arena, const struct mg_graph *g)
{
    struct mg_graph *normal;
    struct mg_error err = {0};
    cr_assert_eq(mg_graph_normalise(g, arena, &normal, &err), MG_OK, "%s: %s %s", g->name, err.pointer, err.message);
    return normal;
}

static struct mg_graph *read_text(struct mg_arena *arena, const char *text)
{
    struct mg_graph *g;
    struct mg_training training;
    bool has_training;
    struct mg_error err = {0};
    cr_assert_eq(mg_graph_read(text, strlen(text), arena, &g, &training, &has_training, &err), MG_OK, "%s %s",
                 err.pointer, err.message);
    return g;
}

/* ---- round trips ---- */

static void round_trip(struct mg_arena *arena, const char *name, const struct mg_zoo_option *options, uint32_t count)
{
    struct mg_graph *built;
    struct mg_error err = {0};
    cr_assert_eq(mg_zoo_build(name, options, count, arena, &built, &err), MG_OK, "%s: %s", name, err.message);
    const struct mg_graph *normal = normalised(arena, built);
    char *text = written(built, mg_graph_write);
    const struct mg_graph *back = read_text(arena, text);
    cr_expect_str_eq(normalised(arena, back)->digest, normal->digest, "%s as built", name);
    char *again = written(back, mg_graph_write);
    cr_expect_str_eq(again, text, "%s as written twice", name);
    free(again);
    free(text);
    text = written(normal, mg_graph_write);
    cr_expect_str_eq(normalised(arena, read_text(arena, text))->digest, normal->digest, "%s as normalised", name);
    free(text);
}

static void round_trip_zoo(struct mg_arena *arena)
{
    static const struct mg_zoo_option paper[] = {{"variant", "paper"}};
    for (uint32_t i = 0; i < mg_zoo_count(); i++) {
        const struct mg_zoo_entry *entry = mg_zoo_at(i);
        struct mg_arena_mark mark = mg_arena_mark(arena);
        bool deep = strcmp(entry->name, "resnet-deep") == 0;
        static const struct mg_zoo_option fifty[] = {{"layers", "50"}};
        round_trip(arena, entry->name, fifty, deep);
        for (uint32_t p = 0; p < entry->parameter_count && !deep; p++)
            if (strcmp(entry->parameters[p].name, "variant") == 0)
                round_trip(arena, entry->name, paper, 1);
        mg_arena_rewind(arena, mark);
    }
}

Test(native, every_zoo_network_comes_back)
{
    guarded(round_trip_zoo);
}

/* Operators against their order, a declared result, an opaque operator with all its attributes, in place,
 * host weights, an update. */
static const char rich[] =
    "{\"outputs\": [\"y\", \"z\"], \"ops\": ["
    "{\"name\": \"last\", \"op\": \"add\", \"inputs\": [\"a\", \"a\"], \"outputs\": [\"y\"], \"in_place\": 0},"
    "{\"name\": \"first\", \"module\": \"net.0\", \"op\": \"matmul\", \"inputs\": [\"x\", \"w\"],"
    " \"outputs\": [\"a\"], \"attrs\": {\"trans_b\": true}},"
    "{\"op\": \"opaque\", \"inputs\": [\"x\", \"s\"], \"outputs\": [\"z\"], \"name\": \"magic\","
    " \"attrs\": {\"flops\": 1e9, \"bytes\": 12, \"purity\": \"pure\", \"target\": \"lib.f\","
    " \"latency\": {\"rtx3090\": 0.001, \"h200\": 1}, \"axes\": [{\"in\": [0, null], \"out\": [1],"
    " \"combiner\": \"sum\"}, {\"in\": [1, 0], \"out\": [0]}]}},"
    "{\"name\": \"upd\", \"op\": \"sgd\", \"inputs\": [\"w\", \"g\"], \"outputs\": [\"w2\"], \"attrs\": {\"lr\": 1}}],"
    "\"values\": [{\"name\": \"x\", \"shape\": [4, 8], \"dtype\": \"f32\", \"kind\": \"input\"},"
    "{\"name\": \"w\", \"shape\": [16, 8], \"dtype\": \"f32\", \"kind\": \"weight\", \"home\": \"host\"},"
    "{\"name\": \"g\", \"shape\": [16, 8], \"dtype\": \"f32\", \"kind\": \"input\"},"
    "{\"name\": \"s\", \"shape\": [8], \"dtype\": \"i64\", \"kind\": \"constant\"},"
    "{\"name\": \"y\", \"shape\": [4, 16], \"dtype\": \"f32\"},"
    "{\"name\": \"z\", \"shape\": [8, 4], \"dtype\": \"bf16\"}],"
    "\"updates\": [{\"weight\": \"w\", \"value\": \"w2\"}],"
    "\"math\": \"tf32\", \"name\": \"rich\", \"format\": \"magis-graph/1\"}";

static void read_rich(struct mg_arena *arena)
{
    const struct mg_graph *built = read_text(arena, rich), *g = normalised(arena, built);
    cr_expect_str_eq(g->name, "rich");
    cr_expect_eq(g->math, MG_MATH_TF32);
    cr_expect_str_eq(g->ops[0].name, "first");
    cr_expect_str_eq(g->ops[0].module, "net.0");
    cr_expect_eq(mg_op_attr_int(&g->ops[0], MG_ATTR_TRANS_B), 1);
    cr_expect_str_eq(g->ops[1].name, "last");
    cr_expect_eq(g->ops[1].in_place, 0);
    const struct mg_op_info *opaque = &built->ops[2];
    cr_expect_float_eq(mg_op_attr_float(opaque, MG_ATTR_FLOPS), 1e9, 0);
    cr_expect_float_eq(mg_op_attr_float(opaque, MG_ATTR_BYTES), 12, 0);
    const struct mg_attr *axes = mg_op_attr(opaque, MG_ATTR_AXES);
    static const int64_t flat[] = {1, 0, -1, 1, 0, 1, 0, 0};
    cr_assert_eq(axes->count, 8);
    cr_expect_arr_eq(axes->ints, flat, sizeof flat);
    mg_value w = mg_graph_find_value(g, "w");
    cr_expect_eq(g->values[w].home, MG_HOME_HOST);
    cr_expect_eq(g->values[w].updated_by, mg_graph_find_value(g, "w2"));
    char *text = written(built, mg_graph_write);
    cr_expect_not_null(strstr(text, "\"latency\":{\"rtx3090\": 0.001, \"h200\": 1}"));
    cr_expect_str_eq(normalised(arena, read_text(arena, text))->digest, g->digest);
    free(text);
}

Test(native, all_members)
{
    guarded(read_rich);
}

#define SMALL(more)                                                                                                    \
    "{\"format\":\"magis-graph/1\",\"values\":[{\"name\":\"x\",\"shape\":[4],\"dtype\":\"f32\",\"kind\":\"weight\"}]," \
    "\"ops\":[{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}],\"outputs\":[\"y\"]" more "}"

static void read_training(struct mg_arena *arena)
{
    struct mg_graph *g;
    struct mg_training training = {0};
    bool has_training = true;
    struct mg_error err = {0};
    const char *none = SMALL("");
    cr_assert_eq(mg_graph_read(none, strlen(none), arena, &g, &training, &has_training, &err), MG_OK);
    cr_expect_not(has_training);
    const char *some =
        SMALL(",\"training\":{\"loss\":\"cross_entropy\",\"optimizer\":\"adamw\",\"trainable\":[\"x\"]}");
    cr_assert_eq(mg_graph_read(some, strlen(some), arena, &g, &training, &has_training, &err), MG_OK);
    cr_expect(has_training);
    cr_expect_eq(training.loss, MG_LOSS_CROSS_ENTROPY);
    cr_expect_eq(training.optimizer, MG_OPTIMIZER_ADAMW);
    cr_assert_eq(training.trainable_count, 1);
    cr_expect_str_eq(training.trainable[0], "x");
    const char *all = SMALL(",\"training\":{\"loss\":\"sum\",\"optimizer\":\"none\",\"trainable\":\"all\"}");
    cr_assert_eq(mg_graph_read(all, strlen(all), arena, &g, &training, &has_training, &err), MG_OK);
    cr_expect_eq(training.loss, MG_LOSS_SUM);
    cr_expect_null(training.trainable);
}

Test(native, training_is_handed_out)
{
    guarded(read_training);
}

/* ---- errors ---- */

#define GRAPH(values, ops, rest) "{\"format\":\"magis-graph/1\",\"values\":[" values "],\"ops\":[" ops "]," rest "}"
#define X "{\"name\":\"x\",\"shape\":[4,8],\"dtype\":\"f32\",\"kind\":\"input\"}"
#define W "{\"name\":\"w\",\"shape\":[8,3],\"dtype\":\"f32\",\"kind\":\"weight\"}"
#define RELU "{\"name\":\"r\",\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}"
#define OUT "\"outputs\":[\"y\"]"
#define G "{\"name\":\"g\",\"shape\":[8,3],\"dtype\":\"f32\",\"kind\":\"input\"}"
#define SGD "{\"op\":\"sgd\",\"inputs\":[\"w\",\"g\"],\"outputs\":[\"w2\"]}"
#define OPAQUE(attrs)                                                                                                  \
    GRAPH(X ",{\"name\":\"y\",\"shape\":[4,8],\"dtype\":\"f32\"}",                                                     \
          "{\"op\":\"opaque\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{" attrs "}}", OUT)

static const struct {
    const char *text, *pointer, *word;
} bad[] = {
    {"", "", "empty"},
    {"[]", "", "object"},
    {"{\"format\":\"magis-graph/1\"", "/format", ""},
    {"{\"format\":\"magis-graph/2\"}", "/format", "magis-graph/1"},
    {"{\"formt\":\"magis-graph/1\"}", "/formt", "no member"},
    {"{\"format\":\"magis-graph/1\",\"values\":[],\"ops\":[]}", "", "outputs"},
    {GRAPH(X, RELU, OUT ",\"math\":\"f16\""), "/math", "tf32"},
    {GRAPH("{\"name\":\"x\",\"shape\":[4,-8],\"dtype\":\"f32\"}", RELU, OUT), "/values/0/shape/1", "negative"},
    {GRAPH("{\"name\":\"x\",\"shape\":[1,2,3,4,5,6,7,8,9],\"dtype\":\"f32\"}", RELU, OUT), "/values/0/shape/8",
     "at most"},
    {GRAPH("{\"name\":\"x\",\"shape\":[4611686018427387904,8],\"dtype\":\"f32\"}", RELU, OUT), "/values/0", "large"},
    {GRAPH("{\"name\":\"x\",\"shape\":[4.5],\"dtype\":\"f32\"}", RELU, OUT), "/values/0/shape/0", ""},
    {GRAPH("{\"name\":\"x\",\"shape\":[4],\"dtype\":\"f31\"}", RELU, OUT), "/values/0/dtype", "bf16"},
    {GRAPH("{\"name\":\"x\",\"shape\":[4],\"dtype\":\"f32\",\"kind\":\"data\"}", RELU, OUT), "/values/0/kind", "input"},
    {GRAPH("{\"name\":\"x\",\"shape\":[4],\"kind\":\"input\"}", RELU, OUT), "/values/0", "dtype"},
    {GRAPH("{\"name\":\"x\",\"shape\":[4],\"dtype\":\"f32\",\"kind\":\"input\",\"home\":\"host\"}", RELU, OUT),
     "/values/0", "home"},
    {GRAPH(X "," X, RELU, OUT), "/values/1/name", "twice"},
    {GRAPH(X ",{\"name\":\"q\",\"shape\":[4],\"dtype\":\"f32\"}", RELU, OUT), "/values/1", "kind"},
    {GRAPH(X, "{\"op\":\"relo\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/op", "relo"},
    {GRAPH(X, "{\"op\":\"relo\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/op", "did you mean \"relu\"?"},
    {GRAPH(X, "{\"op\":\"LayerNrom\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/op", "\"layer_norm\"?"},
    {GRAPH(X, "{\"op\":\"Relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/op", "\"relu\"?"},
    {GRAPH(X, "{\"op\":\"wonder\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/op", "FORMAT.md"},
    {GRAPH(X, "{\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0", "\"op\""},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attr\":{}}", OUT), "/ops/0/attr", "no member"},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"spped\":1}}", OUT),
     "/ops/0/attrs/spped", "spped"},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"lr\":1}}", OUT), "/ops/0/attrs/lr",
     "lr"},
    {GRAPH(X, "{\"op\":\"softmax\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"axis\":\"last\"}}", OUT),
     "/ops/0/attrs/axis", "integer"},
    {GRAPH(X, "{\"op\":\"softmax\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"axis\":2}}", OUT),
     "/ops/0/attrs/axis", "rank"},
    {GRAPH(X, RELU ",{\"op\":\"relu\",\"inputs\":[\"h\"],\"outputs\":[\"z\"]}", OUT), "/ops/1/inputs/0", "h"},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"x\"]}", OUT), "/ops/0/outputs/0", "kind"},
    {GRAPH(X, RELU ",{\"op\":\"neg\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/1/outputs/0", "twice"},
    {GRAPH(X, RELU ",{\"name\":\"r\",\"op\":\"neg\",\"inputs\":[\"x\"],\"outputs\":[\"z\"]}", OUT), "/ops/1/name",
     "two"},
    {GRAPH(X "," W, "{\"op\":\"matmul\",\"inputs\":[\"w\",\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/inputs", "depth"},
    {GRAPH(X "," W, "{\"op\":\"matmul\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/inputs", ""},
    {GRAPH(X ",{\"name\":\"y\",\"shape\":[4,9],\"dtype\":\"f32\"}", RELU, OUT), "/ops/0/outputs", "declared"},
    {GRAPH(X, "{\"op\":\"opaque\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}", OUT), "/ops/0/outputs", "declared"},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"in_place\":1}", OUT), "/ops/0/in_place",
     "operand"},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"in_place\":-1}", OUT), "/ops/0/in_place",
     "operand"},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"in_place\":0}", OUT), "/ops/0/in_place",
     "input"},
    {GRAPH(X,
           "{\"op\":\"neg\",\"inputs\":[\"z\"],\"outputs\":[\"y\"]},{\"op\":\"neg\",\"inputs\":[\"y\"],"
           "\"outputs\":[\"z\"]}",
           OUT),
     "/ops/0", "cycle"},
    {GRAPH(X ",{\"name\":\"y\",\"shape\":[4,8],\"dtype\":\"f32\"}",
           "{\"op\":\"opaque\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"axes\":[{\"in\":[0],\"out\":[]}]}}",
           OUT),
     "/ops/0/attrs/axes", "each"},
    {GRAPH(X ",{\"name\":\"y\",\"shape\":[4,8],\"dtype\":\"f32\"}",
           "{\"op\":\"opaque\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"axes\":[{\"in\":[0],\"out\":[0],"
           "\"combiner\":\"mean\"}]}}",
           OUT),
     "/ops/0/attrs/axes/0/combiner", "sum"},
    {GRAPH(X ",{\"name\":\"y\",\"shape\":[4,8],\"dtype\":\"f32\"}",
           "{\"op\":\"opaque\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"axes\":[{\"in\":[0],\"out\":[1]}]}}",
           OUT),
     "/ops/0/attrs/axes", "lengths"},
    {GRAPH(X ",{\"name\":\"y\",\"shape\":[4,8],\"dtype\":\"f32\"}",
           "{\"op\":\"opaque\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"attrs\":{\"latency\":3}}", OUT),
     "/ops/0/attrs/latency", "device"},
    {OPAQUE("\"latency\":{\"h200\":-1}"), "/ops/0/attrs/latency/h200", "from 0"},
    {OPAQUE("\"latency\":{\"h200\":1e300}"), "/ops/0/attrs/latency/h200", "100000"},
    {OPAQUE("\"flops\":-1"), "/ops/0/attrs/flops", "from 0"},
    {OPAQUE("\"flops\":1e300"), "/ops/0/attrs/flops", "1e18"},
    {OPAQUE("\"bytes\":-1000000000"), "/ops/0/attrs/bytes", "from 0"},
    {OPAQUE("\"bytes\":1e300"), "/ops/0/attrs/bytes", "1e18"},
    {GRAPH(X, RELU, "\"outputs\":[\"z\"]"), "/outputs/0", "z"},
    {GRAPH(W "," G, SGD, "\"outputs\":[\"w2\",\"w\"],\"updates\":[{\"weight\":\"w\",\"value\":\"w2\"}]"), "/outputs/1",
     "old version"},
    {GRAPH(W "," G, SGD ",{\"op\":\"transpose\",\"inputs\":[\"w\"],\"outputs\":[\"t\"]}",
           "\"outputs\":[\"t\"],\"updates\":[{\"weight\":\"w\",\"value\":\"w2\"}]"),
     "/outputs/0", "old version"},
    {GRAPH(X, RELU, "\"outputs\":[\"y\",\"y\"]"), "/outputs/1", "twice"},
    {GRAPH(X, RELU, OUT ",\"updates\":[{\"weight\":\"x\",\"value\":\"y\"}]"), "/updates/0/weight", "weight"},
    {GRAPH(X "," W, RELU, OUT ",\"updates\":[{\"weight\":\"w\",\"value\":\"x\"}]"), "/updates/0/value", "operator"},
    {GRAPH(X, RELU, OUT ",\"updates\":[{\"weight\":\"x\"}]"), "/updates/0", "value"},
    {GRAPH(X, RELU, OUT ",\"forward_ops\":2"), "/forward_ops", "1 operators"},
    {GRAPH(X, "{\"op\":\"relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"gradient_of\":\"q\"}", OUT),
     "/ops/0/gradient_of", "no operator"},
    {GRAPH(X, RELU, OUT ",\"training\":{\"loss\":\"l2\"}"), "/training/loss", "squared"},
    {GRAPH(X, RELU, OUT ",\"training\":{\"loss\":\"sum\",\"optimizer\":\"sgd\",\"trainable\":[\"x\"]}"),
     "/training/trainable/0", "weight"},
    {GRAPH(X, RELU, OUT) "x", "", ""},
};

/* Errors of the whole way to a normalised graph: shapes of results are inferred there. */
static enum mg_code read_and_normalise(const char *text, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_graph *g, *normal;
    struct mg_training training;
    bool has_training;
    enum mg_code code = mg_graph_read(text, strlen(text), arena, &g, &training, &has_training, err);
    return code ? code : mg_graph_normalise(g, arena, &normal, err);
}

Test(native, errors_point_at_the_place)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mg_arena arena;
        struct mg_error err = {0};
        mg_arena_init(&arena, (size_t)1 << 24);
        cr_expect_neq(read_and_normalise(bad[i].text, &arena, &err), MG_OK, "%s", bad[i].text);
        cr_expect_str_eq(err.pointer, bad[i].pointer, "%s: %s", bad[i].text, err.message);
        cr_expect_not_null(strstr(err.message, bad[i].word), "%s: %s", bad[i].text, err.message);
        mg_arena_release(&arena);
    }
}

/* ---- core/formats/FORMAT.md ---- */

static char *read_document(void)
{
    static char document[1 << 16];
    FILE *file = fopen("core/formats/FORMAT.md", "r");
    cr_assert_not_null(file);
    cr_assert_lt(fread(document, 1, sizeof document - 1, file), sizeof document - 1);
    fclose(file);
    return document;
}

static const char *range_text(char *to, size_t room, uint32_t least, uint32_t most)
{
    bool any = most == MG_ANY;
    if (any)
        snprintf(to, room, least ? "%u or more" : "any", least);
    else
        snprintf(to, room, least == most ? "%u" : "%u to %u", least, most);
    return to;
}

/* A row tells numbers of operands and results, and names each attribute, those that are needed in bold. */
static void expect_documented(const char *document, enum mg_op_type type)
{
    const struct mg_op_facts *facts = mg_op_facts(type);
    char start[120], in[32], out[32], row[512], attr[64];
    snprintf(start, sizeof start, "\n| `%s` | %s | %s | ", facts->name,
             range_text(in, sizeof in, facts->min_in, facts->max_in),
             range_text(out, sizeof out, facts->n_out == MG_ANY ? 0 : facts->n_out, facts->n_out));
    const char *at = strstr(document, start);
    cr_assert_not_null(at, "core/formats/FORMAT.md has no row \"%s\"", start + 1);
    snprintf(row, sizeof row, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    for (uint32_t i = 0; i < facts->schema_count; i++) {
        bool needed = facts->schema[i].presence == MG_ATTR_NEEDED;
        snprintf(attr, sizeof attr, needed ? "**`%s`**" : " `%s`: ", mg_attr_name(facts->schema[i].key));
        cr_expect_not_null(strstr(row, attr), "%s: %s is not in \"%s\"", facts->name, attr, row);
    }
}

Test(native, the_document_has_every_operator_and_no_other)
{
    const char *document = read_document();
    for (unsigned type = 0; type < MG_OP_COUNT; type++)
        expect_documented(document, (enum mg_op_type)type);
    unsigned rows = 0;
    for (const char *at = document; (at = strstr(at, "\n| `")); at++)
        rows++;
    cr_expect_eq(rows, MG_OP_COUNT);
}

Test(native, the_example_of_the_document_is_a_graph)
{
    char *document = read_document();
    char *text = strstr(document, "```json\n") + strlen("```json\n");
    *strstr(text, "```") = '\0';
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, (size_t)1 << 24);
    cr_expect_eq(read_and_normalise(text, &arena, &err), MG_OK, "%s %s", err.pointer, err.message);
    mg_arena_release(&arena);
}

/* Whatever allocation fails, the answer is an error and nothing leaks. */
Test(native, running_out_of_memory_is_reported)
{
    bool ended = false;
    for (size_t limit = 1024; !ended; limit += 4096) {
        struct mg_arena arena;
        struct mg_error err = {0};
        mg_arena_init(&arena, limit);
        enum mg_code code = read_and_normalise(rich, &arena, &err);
        cr_assert(code == MG_OK || code == MG_ERR_NOMEM, "%s", err.message);
        ended = code == MG_OK;
        mg_arena_release(&arena);
    }
}

/* ---- training steps ---- */

static struct mg_graph *training_step(struct mg_arena *arena, const char *name, enum mg_optimizer optimizer)
{
    struct mg_graph *forward, *step;
    struct mg_error err = {0};
    struct mg_training training = {.loss = MG_LOSS_CROSS_ENTROPY, .optimizer = optimizer};
    cr_assert_eq(mg_zoo_build(name, NULL, 0, arena, &forward, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_differentiate(forward, &training, arena, &step, &err), MG_OK, "%s", err.message);
    return normalised(arena, step);
}

static void training_comes_back(struct mg_arena *arena)
{
    static const char *const names[] = {"bert-tiny", "resnet18", "llama-tiny"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct mg_graph *g = training_step(arena, names[i], MG_OPTIMIZER_ADAMW);
        char *text = written(g, mg_graph_write);
        const struct mg_graph *back = normalised(arena, read_text(arena, text));
        cr_expect_str_eq(back->digest, g->digest, "%s", names[i]);
        cr_expect_lt(g->forward_ops, g->op_count);
        cr_expect_eq(back->forward_ops, g->forward_ops, "%s", names[i]);
        for (size_t op = 0; op < g->op_count; op++) {
            cr_expect_str_eq(back->ops[op].name, g->ops[op].name);
            cr_expect_str_eq(back->ops[op].module, g->ops[op].module);
            cr_expect_eq(back->ops[op].forward_of, g->ops[op].forward_of, "%s", g->ops[op].name);
            cr_expect_eq(back->ops[op].in_place, g->ops[op].in_place, "%s", g->ops[op].name);
        }
        free(text);
    }
}

Test(native, training_steps_come_back)
{
    guarded(training_comes_back);
}

/* ---- speed and Graphviz ---- */

static void time_bert(struct mg_arena *arena)
{
    char *text = written(training_step(arena, "bert-base", MG_OPTIMIZER_ADAMW), mg_graph_write);
    struct timespec start, end;
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct mg_arena_mark mark = mg_arena_mark(arena);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
        normalised(arena, read_text(arena, text));
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        best = seconds < best ? seconds : best;
        mg_arena_rewind(arena, mark);
    }
    printf("%zu bytes read and normalised in %.2f ms\n", strlen(text), best * 1e3);
    cr_expect_lt(best, 0.5); /* no benchmark, only no quadratic surprise */
    free(text);
}

Test(native, large_graphs_are_read_in_linear_time)
{
    guarded(time_bert);
}

static void draw(struct mg_arena *arena)
{
    char *text = written(read_text(arena, rich), mg_graph_write_dot);
    cr_expect_eq(strncmp(text, "digraph \"rich\" {", 16), 0);
    cr_expect_not_null(strstr(text, "label=\"magic\""));
    cr_expect_not_null(strstr(text, "op1 -> op0 [label=\"f32 ["));
    cr_expect_str_eq(text + strlen(text) - 2, "}\n");
    free(text);
}

Test(native, graphviz)
{
    guarded(draw);
}
