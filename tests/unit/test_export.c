/* Hostile names: graphs whose names are made of quotes, newlines, braces and the like, rendered as Python and DOT, and
 * judged by a Python program that admits only an allow-list of syntax (tests/e2e/libnames.py). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/digest.h"
#include "export/export.h"
#include "formats/formats.h"
#include "temp_util.h"

enum { GRAPHS = 1000, NAMES = 8 };

static const char *const pieces[] = {"\"",
                                     "'",
                                     "\\",
                                     "\n",
                                     "\r",
                                     "\t",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "<",
                                     ">",
                                     "#",
                                     "*/",
                                     "/*",
                                     "//",
                                     "\"\"\"",
                                     "'''",
                                     "\xe2\x80\xa8",
                                     "\xc2\x85",
                                     "\xef\xbb\xbf",
                                     "\x7f",
                                     "\x01",
                                     "\x1b[31m",
                                     "%s",
                                     "%n",
                                     "$(x)",
                                     "`x`",
                                     ";",
                                     ",",
                                     "->",
                                     "=",
                                     "(",
                                     ")",
                                     ":",
                                     "\\N{DIGIT ONE}",
                                     "\\u0022",
                                     "\\x22",
                                     "&quot;",
                                     "\xc3\xa9",
                                     "\xe6\xbc\xa2",
                                     "\xf0\x9f\x98\x80",
                                     "\xe2\x80\xae",
                                     "import os",
                                     "__import__('os')",
                                     "eval(",
                                     "exit()",
                                     "\nimport os\n",
                                     "\\\n",
                                     "\\\"",
                                     "\"]\")\nimport os\n",
                                     "lambda",
                                     "a",
                                     "0",
                                     " ",
                                     "digraph",
                                     "\"]; x [label=\"",
                                     "</script>",
                                     "label",
                                     "."};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

static const char *hostile(struct mg_rng *rng, struct mg_arena *arena)
{
    const char *name = "";
    for (uint64_t i = 1 + mg_rng_below(rng, 6); i > 0; i--)
        name = mg_arena_printf(arena, "%s%s", name, pieces[mg_rng_below(rng, PIECES)]);
    return name;
}

static void distinct(struct mg_rng *rng, struct mg_arena *arena, const char **names)
{
    for (int i = 0; i < NAMES; i++) {
        bool taken = true;
        while (taken) {
            names[i] = hostile(rng, arena);
            taken = false;
            for (int k = 0; k < i; k++)
                taken = taken || strcmp(names[i], names[k]) == 0;
        }
    }
}

/* y = relu(x w), and an update of w; names: of x, w, three results and three operators. */
static struct mg_graph *build(const char *const *names, struct mg_rng *rng, struct mg_arena *arena)
{
    struct mg_graph *g = mg_graph_new(arena, hostile(rng, arena)), *normalised;
    struct mg_error err = {0};
    mg_value x = mg_graph_add_value(g, names[0], MG_KIND_INPUT, MG_DTYPE_F32, &(struct mg_shape){2, {4, 3}});
    mg_value w = mg_graph_add_value(g, names[1], MG_KIND_WEIGHT, MG_DTYPE_F32, &(struct mg_shape){2, {3, 3}}), h, y, n;
    enum mg_code code =
        mg_graph_add_op(g, MG_OP_MATMUL, names[5], (mg_value[]){x, w}, 2, NULL, 0, names + 2, 1, &h, &err);
    if (code == MG_OK)
        code = mg_graph_add_op(g, MG_OP_RELU, names[6], &h, 1, NULL, 0, names + 3, 1, &y, &err);
    if (code == MG_OK)
        code = mg_graph_add_op(g, MG_OP_SGD, names[7], (mg_value[]){w, w}, 2, NULL, 0, names + 4, 1, &n, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    mg_graph_set_module(g, 0, hostile(rng, arena));
    mg_graph_set_module(g, 1, hostile(rng, arena));
    mg_graph_add_output(g, y);
    mg_graph_add_update(g, w, n);
    cr_assert_eq(mg_graph_normalise(g, arena, &normalised, &err), MG_OK, "%s", err.message);
    return normalised;
}

static void write_rendered(struct mg_writer *line, const char *key, struct mg_writer *text)
{
    cr_assert(mg_writer_finish(text));
    mg_write_member_string(line, key, text->data);
    mg_writer_release(text);
}

/* Not a plan any more, but enough of one for advice: that says nothing where nothing is done twice. */
static void compute_again(struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_step *steps = MG_NEW_ARRAY(arena, struct mg_step, plan->step_count + 1);
    size_t at = 0;
    memcpy(steps, plan->steps, plan->step_count * sizeof *steps);
    while (steps[at].kind != MG_STEP_COMPUTE)
        at++;
    steps[plan->step_count++] = steps[at];
    plan->steps = steps;
}

static void render(struct mg_writer *line, const struct mg_graph *g, struct mg_arena *arena)
{
    static const enum mg_export_format formats[] = {MG_EXPORT_TORCH, MG_EXPORT_DOT, MG_EXPORT_CHECKPOINT};
    struct mg_plan *plan;
    struct mg_writer text;
    struct mg_error err = {0};
    cr_assert_eq(mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, &err), MG_OK, "%s", err.message);
    for (int i = 0; i < 3; i++) {
        if (formats[i] == MG_EXPORT_CHECKPOINT)
            compute_again(plan, arena);
        mg_writer_init(&text);
        cr_assert_eq(mg_export_write(formats[i], &text, g, plan, NULL, arena, &err), MG_OK, "%s", err.message);
        write_rendered(line, mg_export_name(formats[i]), &text);
    }
    mg_writer_init(&text);
    mg_graph_write_dot(&text, g);
    write_rendered(line, "graph", &text);
}

static void write_graph(FILE *file, uint64_t seed, struct mg_arena *arena)
{
    const char *names[NAMES];
    struct mg_rng rng;
    struct mg_writer line;
    mg_rng_init(&rng, seed);
    distinct(&rng, arena, names);
    mg_writer_init(&line);
    mg_write_begin_object(&line);
    mg_write_key(&line, "names"); /* those that a caller must know: x, w, y */
    mg_write_begin_array(&line);
    mg_write_string(&line, names[0]);
    mg_write_string(&line, names[1]);
    mg_write_string(&line, names[3]);
    mg_write_end_array(&line);
    render(&line, build(names, &rng, arena), arena);
    mg_write_end_object(&line);
    cr_assert(mg_writer_finish(&line));
    cr_assert(fprintf(file, "%s\n", line.data) > 0);
    mg_writer_release(&line);
}

struct graph_call {
    FILE *file;
    uint64_t seed;
    struct mg_arena arena;
};

static enum mg_code write_guarded(void *context, struct mg_error *err)
{
    struct graph_call *call = context;
    (void)err;
    write_graph(call->file, call->seed, &call->arena);
    return MG_OK;
}

Test(export, hostile_names_stay_text)
{
    char path[200], command[300];
    temp_name(path, sizeof path, "names");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    FILE *file = fdopen(fd, "w");
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        struct graph_call call = {.file = file, .seed = seed};
        mg_arena_init(&call.arena, SIZE_MAX);
        cr_assert_eq(mg_arena_guard(&call.arena, write_guarded, &call, NULL), MG_OK);
        mg_arena_release(&call.arena);
    }
    cr_assert_eq(fclose(file), 0);
    snprintf(command, sizeof command, "python3 tests/e2e/libnames.py %s %d", path, GRAPHS);
    int status = system(command);
    unlink(path);
    cr_expect_eq(status, 0, "%s: status %d", command, status);
}
