/* Requests: what is taken, what is refused and where the error points, and the form that is kept. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "server/request.h"

struct reading {
    const char *text;
    struct mg_request_rules rules;
    struct mg_arena arena;
    struct mg_job_request request;
};

static enum mg_code read_guarded(void *context, struct mg_error *err)
{
    struct reading *r = context;
    return mg_job_request_read(r->text, strlen(r->text), &r->rules, &r->arena, &r->request, err);
}

static enum mg_code read_text(struct reading *r, const char *text, struct mg_error *err)
{
    r->text = text;
    memset(err, 0, sizeof *err);
    mg_arena_init(&r->arena, 16 << 20);
    return mg_arena_guard(&r->arena, read_guarded, r, err);
}

Test(request, defaults)
{
    struct reading r = {.rules = {0}};
    struct mg_error err;
    cr_assert_eq(read_text(&r, "{\"zoo\": {\"model\": \"mlp\", \"batch\": 8, \"variant\": \"paper\"}}", &err), MG_OK);
    cr_assert_str_eq(r.request.model, "mlp");
    cr_assert_eq(r.request.option_count, 2);
    cr_assert_str_eq(r.request.options[0].value, "8");
    cr_assert_str_eq(r.request.device.name, "rtx3090");
    cr_assert_eq(r.request.reserve_bytes, 805306368);
    cr_assert_eq(r.request.seconds, 30);
    cr_assert_eq(r.request.seed, 1);
    cr_assert(mg_job_request_wants_baseline(&r.request, "microbatch"));
    mg_arena_release(&r.arena);
}

Test(request, search_options)
{
    struct reading r = {.rules = {0}};
    struct mg_error err;
    struct mg_search_options options;
    cr_assert_eq(read_text(&r,
                           "{\"zoo\":{\"model\":\"mlp\"},\"limit\":{\"memory_bytes\":8589934592,\"latency_ratio\":1.1},"
                           "\"budget\":{\"evaluations\":5,\"seed\":9},\"techniques\":{\"swap\":false},"
                           "\"constraints\":[{\"name\":\"enc.*\",\"forbid\":[\"remat\",\"swap\"]}]}",
                           &err),
                 MG_OK, "%s", err.message);
    mg_job_request_search_options(&r.request, &options);
    cr_assert_eq(options.memory_limit, 8589934592 - 805306368);
    cr_assert_eq(options.latency_ratio, 1.1);
    cr_assert_eq(options.max_evaluations, 5);
    cr_assert_eq(options.max_seconds, 0);
    cr_assert_not(options.techniques & MG_TECHNIQUE_SWAP);
    cr_assert(options.techniques & MG_TECHNIQUE_REMAT);
    cr_assert_eq(options.constraints[0].forbid, MG_TECHNIQUE_REMAT | MG_TECHNIQUE_SWAP);
    mg_arena_release(&r.arena);
}

Test(request, refusals)
{
    static const struct {
        const char *text;
        enum mg_code code;
        const char *pointer;
    } cases[] = {
        {"", MG_ERR_SYNTAX, ""},
        {"{\"zoo\":{\"model\":\"mlp\"}", MG_ERR_SYNTAX, NULL},
        {"{}", MG_ERR_INVALID, ""},
        {"{\"graph\":{},\"zoo\":{\"model\":\"mlp\"}}", MG_ERR_INVALID, "/zoo"},
        {"{\"zoo\":{}}", MG_ERR_INVALID, NULL},
        {"{\"zoo\":{\"model\":\"mlp\"},\"color\":1}", MG_ERR_INVALID, "/color"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"device\":\"none\"}", MG_ERR_INVALID, "/device"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"budget\":{\"seconds\":0}}", MG_ERR_INVALID, "/budget/seconds"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"budget\":{\"evaluations\":-1}}", MG_ERR_INVALID, "/budget/evaluations"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"budget\":{\"threads\":2}}", MG_ERR_UNSUPPORTED, "/budget/threads"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"budget\":{\"seconds\":601}}", MG_ERR_INVALID, "/budget/seconds"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"limit\":{\"memory_bytes\":1000}}", MG_ERR_INVALID, "/limit/memory_bytes"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"limit\":{\"memory_ratio\":0.5,\"memory_bytes\":9000000000}}", MG_ERR_INVALID,
         "/limit"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"gate\":{}}", MG_ERR_UNSUPPORTED, "/gate"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"symbols\":{\"n\":2}}", MG_ERR_INVALID, "/symbols"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"supersedes\":\"a:b\"}", MG_ERR_UNSUPPORTED, "/supersedes"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"require_measured\":true,\"timings\":\"model\"}", MG_ERR_INVALID,
         "/require_measured"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"accumulate\":\"f32\"}", MG_ERR_UNSUPPORTED, "/accumulate"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"baselines\":[\"dtr\"]}", MG_ERR_UNSUPPORTED, "/baselines/0"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"baselines\":[\"what\"]}", MG_ERR_INVALID, "/baselines/0"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"techniques\":{\"window_fission\":true}}", MG_ERR_UNSUPPORTED, NULL},
        {"{\"zoo\":{\"model\":\"mlp\"},\"techniques\":{\"magic\":true}}", MG_ERR_INVALID, "/techniques/magic"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"training\":{\"loss\":\"none\"}}", MG_ERR_INVALID, "/training/loss"},
        {"{\"zoo\":{\"model\":\"mlp\"},\"labels\":{\"a:b\":\"c\"}}", MG_ERR_INVALID, NULL},
        {"{\"zoo\":{\"model\":\"mlp\"},\"constraints\":[{\"name\":\"x\"}]}", MG_ERR_INVALID, NULL},
        {"{\"zoo\":{\"model\":\"mlp\"},\"priority\":\"high\"}", MG_ERR_INVALID, "/priority"},
        {"{\"zoo\":{\"model\":\"mlp\"}} x", MG_ERR_SYNTAX, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading r = {.rules = {.max_seconds = 600}};
        struct mg_error err;
        cr_expect_eq(read_text(&r, cases[i].text, &err), cases[i].code, "%s: %s", cases[i].text, err.message);
        if (cases[i].pointer)
            cr_expect_str_eq(err.pointer, cases[i].pointer, "%s", cases[i].text);
        cr_expect(err.message[0], "%s", cases[i].text);
        mg_arena_release(&r.arena);
    }
}

static char *write(const struct mg_job_request *request)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_job_request_write(&w, request);
    cr_assert(mg_writer_finish(&w));
    return w.data;
}

/* The kept form reads back to itself, with the graph beside it. */
static enum mg_code build_guarded(void *context, struct mg_error *err)
{
    struct reading *r = context;
    struct mg_graph *g;
    enum mg_code code = mg_job_request_read(r->text, strlen(r->text), &r->rules, &r->arena, &r->request, err);
    return code == MG_OK ? mg_job_request_graph(&r->request, &r->arena, &g, NULL, err) : code;
}

/* A graph is passed over at first; the place of an error in it is still that in the whole document. */
Test(request, broken_graphs_are_found_where_they_break)
{
    static const struct {
        const char *text, *pointer, *message;
    } cases[] = {
        {"{\"name\":\"x\",\n\"graph\":{\"format\":\"magis-graph/1\",\n\"ops\":[,]}}", "/graph/ops/0",
         "(line 3, column 8)"},
        {"{\"graph\":{\"ops\":[1},\"device\":\"rtx3090\"]}}", "/graph/ops/0", "expected ',' or ']'"},
        {"{\"graph\":{\"name\":\"a\",\"name\":\"b\"}}", "/graph/name", "duplicate member"},
        {"{\"graph\":{\"name\":\"\\x\"}}", "/graph/name", "invalid escape"},
        {"{\"graph\":{\"a\":1}", "/graph", "expected ',' or '}'"},
        {"{\"graph\":{\"a\":[1}", "/graph/a/0", "expected ',' or ']'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r = {.text = cases[i].text};
        struct mg_error err = {0};
        mg_arena_init(&r.arena, 16 << 20);
        cr_assert_eq(mg_arena_guard(&r.arena, build_guarded, &r, &err), MG_ERR_SYNTAX, "%s: %s", r.text, err.message);
        cr_assert(strstr(err.message, cases[i].message), "%s: %s", r.text, err.message);
        cr_expect(strcmp(err.pointer, cases[i].pointer) == 0, "%s: %s", r.text, err.pointer);
        mg_arena_release(&r.arena);
    }
}

Test(request, kept_form_is_stable)
{
    static const char *const texts[] = {
        "{\"zoo\":{\"model\":\"mlp\",\"batch\":8}}",
        "{\"name\":\"n\",\"labels\":{\"branch\":\"main\"},\"graph\":{\"format\":\"magis-graph/1\"},"
        "\"training\":{\"loss\":\"cross_entropy\",\"optimizer\":\"adam\",\"trainable\":[\"w\",\"v\"]},"
        "\"device\":\"h200\",\"limit\":{\"memory_ratio\":0.37,\"latency_ratio\":1.05},\"host_memory_bytes\":17,"
        "\"reserve_bytes\":0,\"budget\":{\"seconds\":0.1,\"evaluations\":7,\"seed\":3,\"deadline_s\":100},"
        "\"techniques\":{\"swap\":false,\"reorder\":false},\"numerics\":\"exact\",\"baselines\":[],"
        "\"constraints\":[{\"name\":\"a?\",\"forbid\":[\"fission\"]}],\"priority\":\"batch\",\"fresh\":true}"};
    for (size_t i = 0; i < 2; i++) {
        struct reading first = {.rules = {0}}, second = {.rules = {.detached = true}};
        struct mg_error err;
        cr_assert_eq(read_text(&first, texts[i], &err), MG_OK, "%s", err.message);
        char *kept = write(&first.request);
        cr_assert_eq(read_text(&second, kept, &err), MG_OK, "%s: %s", kept, err.message);
        char *again = write(&second.request);
        cr_assert_str_eq(kept, again);
        free(kept);
        free(again);
        mg_arena_release(&first.arena);
        mg_arena_release(&second.arena);
    }
}

static void digest(const char *text, char out[65])
{
    struct reading r = {.rules = {0}};
    struct mg_error err;
    cr_assert_eq(read_text(&r, text, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_job_request_digest(&r.request, out, &err), MG_OK);
    mg_arena_release(&r.arena);
}

Test(request, digest_of_what_steers)
{
    char plain[65], other[65];
    digest("{\"zoo\":{\"model\":\"mlp\"}}", plain);
    static const char *const same[] = {"{\"zoo\":{\"model\":\"mlp\"},\"name\":\"n\",\"labels\":{\"a\":\"b\"}}",
                                       "{\"zoo\":{\"model\":\"mlp\"},\"priority\":\"batch\",\"fresh\":true}",
                                       "{\"zoo\":{\"model\":\"mlp\"},\"budget\":{\"seconds\":77,\"deadline_s\":5}}"};
    static const char *const different[] = {"{\"zoo\":{\"model\":\"mlp\"},\"budget\":{\"seed\":2}}",
                                            "{\"zoo\":{\"model\":\"mlp\"},\"budget\":{\"evaluations\":2}}",
                                            "{\"zoo\":{\"model\":\"mlp\"},\"device\":\"h200\"}",
                                            "{\"zoo\":{\"model\":\"mlp\"},\"limit\":{\"latency_ratio\":1.1}}",
                                            "{\"zoo\":{\"model\":\"mlp\"},\"techniques\":{\"swap\":false}}",
                                            "{\"zoo\":{\"model\":\"mlp\"},\"numerics\":\"exact\"}",
                                            "{\"zoo\":{\"model\":\"mlp\"},\"host_memory_bytes\":5}",
                                            "{\"zoo\":{\"model\":\"mlp\"},\"baselines\":[]}"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        digest(same[i], other);
        cr_expect_str_eq(plain, other, "%s", same[i]);
    }
    for (size_t i = 0; i < sizeof different / sizeof different[0]; i++) {
        digest(different[i], other);
        cr_expect_str_neq(plain, other, "%s", different[i]);
    }
}
