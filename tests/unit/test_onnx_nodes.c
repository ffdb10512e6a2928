/* ONNX's own node tests (Debian's libonnx-testdata): each model whose operators are in our table goes through import
 * and reference executor and must give the outputs that the package states. tests/data/onnx/nodes.tsv explains those
 * that do not; a line there whose test passes is a mistake too. What passes is written as an ONNX model again, read and
 * executed, and must give the same; or the export says why not. */
#include <dirent.h>
#include <stdlib.h>

#include "onnx_util.h"

#define FOLDER "/usr/share/libonnx-testdata/data/node"
#define LIST "tests/data/onnx/nodes.tsv"
enum { MAX_TENSORS = 24, MAX_LINES = 400 };

struct tensors {
    const char *name[MAX_TENSORS];
    struct mg_onnx_data data[MAX_TENSORS];
    uint32_t count;
    bool unreadable; /* a sequence, texts, a dtype that we have not */
};
struct outcome {
    enum mg_code code;
    bool known;    /* every operator of the model is in the table */
    bool exported; /* and the model was written again */
    char why[600];
};

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *data = NULL;
    size_t room = 0;
    FILE *copy = open_memstream(&data, size);
    char buffer[65536];
    while ((room = fread(buffer, 1, sizeof buffer, file)) > 0)
        fwrite(buffer, 1, room, copy);
    fclose(copy);
    fclose(file);
    return data;
}

static void read_tensors(const char *test, const char *kind, struct mg_arena *arena, struct tensors *out)
{
    char path[1024];
    *out = (struct tensors){.count = 0};
    for (; out->count < MAX_TENSORS; out->count++) {
        size_t size;
        struct mg_error err;
        snprintf(path, sizeof path, FOLDER "/%s/test_data_set_0/%s_%u.pb", test, kind, out->count);
        char *data = read_file(path, &size);
        if (!data)
            return;
        struct mg_bytes_block block = {data, size};
        struct mg_bytes source = mg_bytes_from_block(&block);
        if (mg_onnx_read_tensor(&source, arena, &out->name[out->count], &out->data[out->count], &err) != MG_OK) {
            out->unreadable = true;
            out->name[out->count] = "";
        }
        free(data);
    }
}

static const struct mg_onnx_data *find(const struct tensors *t, const char *name)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (strcmp(t->name[i], name) == 0)
            return &t->data[i];
    return NULL;
}

static double **fill(const struct mg_graph *g, const struct mg_onnx_model *model, const struct tensors *in,
                     struct mg_arena *arena)
{
    double **values = MG_NEW_ARRAY(arena, double *, g->value_count);
    for (size_t v = 0; v < g->value_count; v++) {
        const struct mg_value_info *value = &g->values[v];
        if (value->kind == MG_KIND_COMPUTED)
            continue;
        const struct mg_onnx_data *data = find(in, value->name);
        data = data ? data : onnx_content(model, value->name);
        int64_t count = mg_shape_elements(&value->shape);
        values[v] = MG_NEW_ARRAY(arena, double, count + 1);
        for (int64_t i = 0; data && i < count; i++)
            values[v][i] = mg_onnx_data_at(data, i);
    }
    return values;
}

/* The tolerance of ONNX's own runner. */
static bool close(double got, double want)
{
    if (isnan(got) || isnan(want) || isinf(want))
        return (isnan(got) && isnan(want)) || got == want ||
               (isinf(want) && fabs(got) > 3e38 && (got > 0) == (want > 0));
    return fabs(got - want) <= 1e-7 + 1e-3 * fabs(want);
}

static void compare(const struct mg_graph *g, double **values, const struct tensors *want, struct outcome *out)
{
    for (uint32_t i = 0; i < want->count && out->code == MG_OK; i++) {
        mg_value v = mg_graph_find_value(g, want->name[i]);
        out->code = MG_ERR_REJECTED;
        if (v == MG_NONE) {
            snprintf(out->why, sizeof out->why, "output '%s' is missing", want->name[i]);
            return;
        }
        if (!mg_shape_equal(&g->values[v].shape, &want->data[i].shape) || g->values[v].dtype != want->data[i].dtype) {
            snprintf(out->why, sizeof out->why, "output '%s' has another shape or dtype", want->name[i]);
            return;
        }
        out->code = MG_OK;
        for (int64_t k = 0; k < mg_shape_elements(&want->data[i].shape) && out->code == MG_OK; k++)
            if (!close(values[v][k], mg_onnx_data_at(&want->data[i], k))) {
                out->code = MG_ERR_REJECTED;
                snprintf(out->why, sizeof out->why, "output '%s', element %lld: %.9g, must be %.9g", want->name[i],
                         (long long)k, values[v][k], mg_onnx_data_at(&want->data[i], k));
            }
    }
}

static bool is_random(const struct mg_graph *g)
{
    for (mg_op op = 0; op < g->op_count; op++)
        if (mg_op_purity(g, op) == MG_SEEDED)
            return true;
    return false;
}

static enum mg_code export_again(const struct mg_graph *g, double *const *values, const char *test,
                                 struct mg_arena *arena, struct outcome *out, struct mg_error *err)
{
    struct mg_plan *plan;
    enum mg_code code = mg_plan_original(g, mg_device_builtin("rtx3090"), arena, &plan, err);
    if (code == MG_OK)
        code = onnx_round_trip(g, plan, values, test, arena, err);
    out->exported = code == MG_OK;
    if (code != MG_OK)
        snprintf(out->why, sizeof out->why, "not exported: %s", err->message);
    return code == MG_ERR_UNSUPPORTED ? MG_OK : code;
}

struct job {
    const char *test;
    struct mg_arena arena;
    struct outcome *out;
};

static enum mg_code run_guarded(void *context, struct mg_error *err)
{
    struct job *job = context;
    struct mg_arena *arena = &job->arena;
    struct tensors in, want;
    struct mg_onnx_given given[MAX_TENSORS];
    char path[1024];
    size_t size;
    read_tensors(job->test, "input", arena, &in);
    read_tensors(job->test, "output", arena, &want);
    for (uint32_t i = 0; i < in.count; i++)
        given[i] = (struct mg_onnx_given){in.name[i], &in.data[i]};
    snprintf(path, sizeof path, FOLDER "/%s/model.onnx", job->test);
    char *text = read_file(path, &size);
    cr_assert(text, "%s", path);
    struct mg_bytes_block block = {text, size};
    struct mg_bytes source = mg_bytes_from_block(&block);
    struct mg_onnx_options options = {.given = given, .given_count = in.count, .keep_data = true};
    struct mg_onnx_model model;
    struct mg_graph *g;
    enum mg_code code = mg_onnx_read(&source, &options, arena, &model, err);
    free(text);
    if (code == MG_OK)
        code = mg_graph_normalise(model.graph, arena, &g, err);
    if (code != MG_OK)
        return code;
    if (in.unreadable || want.unreadable)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "", "unreadable data");
    double **values = fill(g, &model, &in, arena);
    code = mg_exec_graph(g, 1, values, arena, err);
    if (code == MG_OK)
        compare(g, values, &want, job->out);
    if (code == MG_OK && job->out->code == MG_OK && !is_random(g))
        code = export_again(g, values, job->test, arena, job->out, err);
    return code;
}

static struct outcome run_test(const char *test)
{
    struct outcome out = {.code = MG_OK};
    struct job job = {.test = test, .out = &out};
    struct mg_error err = {0};
    mg_arena_init(&job.arena, (size_t)1 << 30);
    enum mg_code code = mg_arena_guard(&job.arena, run_guarded, &job, &err);
    mg_arena_release(&job.arena);
    out.known = code != MG_ERR_UNSUPPORTED;
    if (code != MG_OK) {
        out.code = code;
        snprintf(out.why, sizeof out.why, "%s: %s", mg_code_name(code), err.message);
    }
    return out;
}

/* ---- the list ---- */

struct list {
    char name[MAX_LINES][128];
    uint32_t count;
};

static void read_list(struct list *list)
{
    char line[1024];
    FILE *file = fopen(LIST, "r");
    cr_assert(file, "%s", LIST);
    while (fgets(line, sizeof line, file)) {
        char *tab = strchr(line, '\t');
        if (line[0] == '#' || !tab)
            continue;
        cr_assert_lt(list->count, MAX_LINES);
        cr_assert_gt(strlen(tab), 10, "%s is not explained", line);
        snprintf(list->name[list->count++], sizeof list->name[0], "%.*s", (int)(tab - line), line);
    }
    fclose(file);
}

static bool listed(const struct list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->name[i], name) == 0)
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

Test(onnx_nodes, stated_outputs)
{
    struct list list = {.count = 0};
    struct dirent *entry;
    char *names[2000];
    size_t count = 0;
    unsigned known = 0, passed = 0, exported = 0, wrong = 0;
    DIR *folder = opendir(FOLDER);
    if (!folder)
        cr_skip("libonnx-testdata is not installed: ONNX's node tests are left out (make deps)");
    read_list(&list);
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.' && count < 2000)
            names[count++] = strdup(entry->d_name);
    closedir(folder);
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++) {
        struct outcome out = run_test(names[i]);
        bool expected = out.code == MG_OK || !out.known || listed(&list, names[i]);
        known += out.known;
        passed += out.known && out.code == MG_OK;
        exported += out.exported;
        if (getenv("MAGIS_VERBOSE") && out.why[0])
            printf("%s\t%s\n", names[i], out.why);
        if (!expected)
            printf("FAILED: %s: %s\n", names[i], out.why);
        if (out.code == MG_OK && listed(&list, names[i])) {
            printf("FAILED: %s passes, but is listed as failing\n", names[i]);
            expected = false;
        }
        wrong += !expected;
        free(names[i]);
    }
    printf("node tests: %zu, operators in the table: %u, of these passed: %u (%.1f %%)\n", count, known, passed,
           100.0 * passed / known);
    printf("written as ONNX models and read again: %u\n", exported);
    cr_assert_eq(wrong, 0, "%u tests fail without an explanation in %s", wrong, LIST);
    cr_assert_geq(passed * 100, known * 95);
    cr_assert_geq(exported * 100, passed * 80);
}
