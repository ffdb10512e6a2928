/* magis-plan/1: round trips byte for byte, errors with pointers, damaged texts never crash; DOT. */
#include "tests/unit/plan_util.h"

static char *text_of(struct bench *b, const struct mg_plan *plan, size_t *size)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_plan_write(&w, b->n, plan);
    cr_assert(mg_writer_finish(&w));
    char *text = mg_arena_strdup(&b->arena, w.data);
    *size = w.size;
    mg_writer_release(&w);
    return text;
}

/* A plan with everything in it: nested regions, slices, joins, acc, copies, views, edits. */
static struct mg_plan *rich_plan(struct bench *b, struct assembly *s)
{
    static struct span spans[2];
    bench_open(b);
    training_step(b, 3, 7, 64);
    spans[0] = (struct span){0, 14, 3, MG_NONE, 7, 0, NULL};
    spans[1] = (struct span){6, 14, 2, 0, 3, 0, NULL};
    *s = (struct assembly){.g = b->n,
                           .device = mg_device_builtin("rtx3090"),
                           .arena = &b->arena,
                           .spans = spans,
                           .span_count = 2,
                           .swap_percent = 50};
    mg_rng_init(&s->rng, 5);
    guarded(&b->arena, assemble, s);
    static struct mg_edit edit = {"swap", "{\"value\":\"h\"}", "[]", "[\"h@load1\"]"};
    s->plan->edits = &edit;
    s->plan->edit_count = 1;
    return s->plan;
}

Test(plan_json, round_trip)
{
    struct bench b;
    struct assembly s;
    struct mg_plan *plan = rich_plan(&b, &s), *again = NULL;
    size_t size, size_again;
    char *text = text_of(&b, plan, &size), id[17], id_again[17];
    cr_assert_eq(mg_plan_read(b.n, text, size, &b.arena, &again, &b.err), MG_OK, "%s: %s", b.err.pointer,
                 b.err.message);
    char *text_again = text_of(&b, again, &size_again);
    cr_expect_str_eq(text, text_again);
    cr_expect_eq(mg_plan_id(b.n, plan, id, &b.err), MG_OK);
    cr_expect_eq(mg_plan_id(b.n, again, id_again, &b.err), MG_OK);
    cr_expect_str_eq(id, id_again);
    cr_expect_eq(strlen(id), 16);
    struct mg_simulation sim;
    cr_assert_eq(mg_plan_simulate(b.n, again, &b.arena, &sim, &b.err), MG_OK);
    cr_expect_eq(sim.latency_s, plan->figures.latency_s);
    cr_expect_eq(sim.peak_bytes, plan->figures.peak_bytes);
    bench_close(&b);
}

/* What reads and checks as it was written, though one operator's signature is longer than a text of JSON may be. */
Test(plan_json, an_operator_of_thousands_of_operands)
{
    enum { OPERANDS = 8000 };
    struct bench b;
    struct mg_plan *plan, *again = NULL;
    struct mg_verdict verdict;
    static mg_value in[OPERANDS];
    size_t size;
    bench_open(&b);
    for (int i = 0; i < OPERANDS; i++)
        in[i] = input(&b, NULL, SHAPE(1 + i % 3, 4));
    mg_value all = op1(&b, MG_OP_CONCAT, NULL, in, OPERANDS, ATTRS(INT_OF(AXIS, 0)));
    cr_assert_neq(all, MG_NONE, "%s", b.err.message);
    mg_graph_add_output(b.g, all);
    cr_assert(normalise(&b), "%s", b.err.message);
    cr_assert_eq(mg_plan_original(b.n, mg_device_builtin("rtx3090"), &b.arena, &plan, &b.err), MG_OK);
    plan->original = plan->figures;
    char *text = text_of(&b, plan, &size), *hash = strstr(text, "sha256:");
    cr_assert_not_null(hash);
    for (int damaged = 0; damaged < 2; damaged++) {
        hash[10] = (char)(damaged ? hash[10] ^ 1 : hash[10]);
        cr_assert_eq(mg_plan_read(b.n, text, size, &b.arena, &again, &b.err), MG_OK, "%s: %s", b.err.pointer,
                     b.err.message);
        cr_assert_eq(mg_plan_check(b.n, again, &b.arena, &verdict, &b.err), MG_OK, "%s", b.err.message);
        cr_expect_eq(verdict.accepted, !damaged, "%s", verdict.message);
    }
    bench_close(&b);
}

Test(plan_json, keys_are_sorted)
{
    struct bench b;
    struct assembly s;
    size_t size;
    char *text = text_of(&b, rich_plan(&b, &s), &size);
    const char *keys[] = {"{\"device\":", "\"edits\":",     "\"figures\":",  "\"format\":\"magis-plan/1\"",
                          "\"graph\":",   "\"instances\":", "\"numerics\":", "\"original\":",
                          "\"prices\":",  "\"regions\":",   "\"steps\":",    "\"storages\":"};
    const char *at = text;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        at = strstr(at, keys[i]);
        cr_assert_not_null(at, "%s", keys[i]);
    }
    cr_expect_not_null(strstr(text, "\"bounds\":[0,3,5,7],\"id\":1,\"length\":7"));
    cr_expect_not_null(strstr(text, "{\"do\":\"begin\","));
    cr_expect_not_null(strstr(text, "\"acc\""));
    bench_close(&b);
}

/* ---- errors ---- */
static char *replaced(struct bench *b, const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    cr_assert_not_null(at, "%s", old);
    return mg_arena_printf(&b->arena, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static void refuse(struct bench *b, const char *text, const char *pointer, const char *part)
{
    struct mg_plan *plan = NULL;
    struct mg_error err = {0};
    cr_expect_neq(mg_plan_read(b->n, text, strlen(text), &b->arena, &plan, &err), MG_OK, "%s", part);
    cr_expect(!strncmp(err.pointer, pointer, strlen(pointer)), "%s: pointer %s", part, err.pointer);
    cr_expect_not_null(strstr(err.message, part), "%s: %s", part, err.message);
}

Test(plan_json, errors_name_the_place)
{
    struct bench b;
    struct assembly s;
    size_t size;
    const char *text = text_of(&b, rich_plan(&b, &s), &size);
    refuse(&b, replaced(&b, text, "magis-plan/1", "magis-plan/9"), "/format", "magis-plan/1");
    refuse(&b, replaced(&b, text, "\"graph\":\"", "\"graph\":\"0"), "/graph", "another graph");
    refuse(&b, replaced(&b, text, "\"numerics\":\"reassociate\"", "\"numerics\":\"fast\""), "/numerics", "exact");
    refuse(&b, replaced(&b, text, "[0,3,5,7]", "[0,2,5,7]"), "/regions/0", "bounds of part 0");
    refuse(&b, replaced(&b, text, "\"parent\":1", "\"parent\":2"), "/regions/1", "parents before");
    refuse(&b, replaced(&b, text, "\"steps\":[", "\"steps\":[{\"do\":\"jump\"},"), "/steps/0/do", "unknown step");
    refuse(&b, replaced(&b, text, "\"steps\":[", "\"steps\":[{\"do\":\"free\",\"of\":99999},"), "/steps/0",
           "no such instance");
    refuse(&b, replaced(&b, text, "\"steps\":[", "\"steps\":[{\"do\":\"free\",\"of\":0,\"price\":[0]},"), "/steps/0",
           "has no 'price'");
    refuse(&b, replaced(&b, text, "\"steps\":[", "\"steps\":[{\"do\":\"end\",\"region\":1},"), "/steps/0", "not open");
    refuse(&b, replaced(&b, text, "\"steps\":[", "\"steps\":[{\"do\":\"store\",\"of\":0,\"price\":[]},"), "/steps/0",
           "one price");
    refuse(&b, replaced(&b, text, "\"storage\":0,", "\"storage\":40000,"), "/instances/0", "no such storage");
    refuse(&b, replaced(&b, text, "\"value\":\"w0\"", "\"value\":\"nobody\""), "/instances/", "no value 'nobody'");
    refuse(&b, replaced(&b, text, "\"seconds\":", "\"seconds\":-"), "/prices/0/seconds", "negative");
    refuse(&b, replaced(&b, text, "\"workspace\":0", "\"workspac\":0"), "/prices/0", "unknown member");
    refuse(&b, replaced(&b, text, "\"source\":\"model\"", "\"source\":\"guess\""), "/prices/0/source",
           "unknown source");
    refuse(&b, replaced(&b, text, "\"align\":512", "\"align\":511"), "/device", "align");
    refuse(&b, replaced(&b, text, "\"format\":\"magis-plan/1\",", ""), "", "'format' is missing");
    bench_close(&b);
}

/* Whatever a damaged text says, it is refused or gives a plan that simulates, places and draws. */
Test(plan_json, damaged_texts_never_crash)
{
    struct bench b;
    struct assembly s;
    size_t size;
    const char *text = text_of(&b, rich_plan(&b, &s), &size);
    struct mg_rng rng;
    uint32_t accepted = 0;
    mg_rng_init(&rng, 11);
    for (int i = 0; i < 3000; i++) {
        struct mg_arena_mark mark = mg_arena_mark(&b.arena);
        struct mg_error err = {0};
        struct mg_plan *plan = NULL;
        struct mg_simulation sim;
        char *copy = mg_arena_copy(&b.arena, text, size + 1);
        static const char bytes[] = "0123456789,[]{}\"-e";
        for (uint64_t k = mg_rng_below(&rng, 3) + 1; k > 0; k--) {
            size_t at = mg_rng_below(&rng, size);
            if (copy[at] >= '0' && copy[at] <= '9')
                copy[at] = (char)('0' + mg_rng_below(&rng, 10));
            else if (mg_rng_below(&rng, 4) == 0)
                copy[at] = bytes[mg_rng_below(&rng, sizeof bytes - 1)];
        }
        if (mg_plan_read(b.n, copy, size, &b.arena, &plan, &err) == MG_OK) {
            struct mg_writer w;
            accepted++;
            cr_expect_eq(mg_plan_simulate(b.n, plan, &b.arena, &sim, &err), MG_OK);
            enum mg_code code = mg_plan_place(plan, &b.arena, &err);
            cr_expect(code == MG_OK || code == MG_ERR_LIMIT);
            mg_writer_init(&w);
            mg_plan_write_dot(&w, b.n, plan);
            cr_expect(mg_writer_finish(&w));
            mg_writer_release(&w);
        }
        mg_arena_rewind(&b.arena, mark);
    }
    cr_expect_gt(accepted, 100);
    bench_close(&b);
}

Test(plan_json, dot_quotes_labels)
{
    struct bench b;
    struct mg_plan *plan = NULL;
    struct mg_writer w;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 4));
    mg_graph_add_output(b.g, op1(&b, MG_OP_RELU, "a \"b\" \\c", VALUES(x), NO_ATTRS));
    cr_assert(normalise(&b));
    cr_assert_eq(mg_plan_original(b.n, mg_device_builtin("h200"), &b.arena, &plan, &b.err), MG_OK);
    mg_writer_init(&w);
    mg_plan_write_dot(&w, b.n, plan);
    cr_assert(mg_writer_finish(&w));
    cr_expect_not_null(strstr(w.data, "relu\\na \\\"b\\\" \\\\c"), "%s", w.data);
    cr_expect_eq(strncmp(w.data, "digraph plan {", 14), 0);
    mg_writer_release(&w);
    bench_close(&b);
}
