/* ONNX's own node tests (Debian's libonnx-testdata): each model whose operators (by name, with those of subgraphs) are
 * all in our table goes through import and reference executor and must give the outputs that the package states.
 * tests/data/onnx/nodes.tsv explains every one that does not; a line there whose test passes, or is none of these, is a
 * mistake too. What passes is written as an ONNX model again, read and executed, and must give the same; or the export
 * says why not. */
#include <dirent.h>
#include <stdlib.h>

#include "formats/onnx_proto.h"
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
    bool old;      /* the model is of an opset before 7, which the import refuses */
    bool exported; /* the model was written again */
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

/* ---- what the model itself says ---- */

static bool all_known(const struct onnx_graph *graph)
{
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const struct onnx_node *node = ONNX_AT(graph->nodes, struct onnx_node, i);
        bool ours = !node->domain || !*node->domain || strcmp(node->domain, "ai.onnx") == 0;
        if (!ours || !mg_onnx_knows(node->op_type))
            return false;
        for (uint32_t k = 0; k < node->attributes.count; k++) {
            const struct onnx_graph *inner = ONNX_AT(node->attributes, struct onnx_attribute, k)->graph;
            if (inner && !all_known(inner))
                return false;
        }
    }
    return true;
}

static int64_t declared_type(const struct onnx_list *infos, const char *name)
{
    for (uint32_t i = 0; i < infos->count; i++) {
        const struct onnx_value_info *info = ONNX_AT(*infos, struct onnx_value_info, i);
        if (info->name && strcmp(info->name, name) == 0 && info->type && info->type->tensor)
            return info->type->tensor->elem_type.value;
    }
    return 0;
}

/* The package states bfloat16 as the 16 bits of each number. */
static void as_declared(struct tensors *t, const struct onnx_list *infos, struct mg_arena *arena)
{
    for (uint32_t i = 0; i < t->count; i++) {
        struct mg_onnx_data *data = &t->data[i];
        if (declared_type(infos, t->name[i]) != 16 || !data->whole || data->dtype != MG_DTYPE_U16)
            continue;
        int64_t count = mg_shape_elements(&data->shape);
        double *real = MG_NEW_ARRAY(arena, double, count + 1);
        for (int64_t k = 0; k < count; k++) {
            uint32_t bits = (uint32_t)data->whole[k] << 16;
            float number;
            memcpy(&number, &bits, sizeof number);
            real[k] = (double)number;
        }
        *data = (struct mg_onnx_data){.dtype = MG_DTYPE_BF16, .shape = data->shape, .real = real};
    }
}

static void read_declarations(struct mg_bytes *source, struct tensors *in, struct tensors *want, struct mg_arena *arena,
                              struct outcome *out)
{
    struct mg_error err;
    struct onnx_model model;
    struct onnx_parse how = {.arena = arena, .err = &err, .keep_data = false};
    cr_assert_eq(mg_onnx_parse_model(source, &how, &model), MG_OK, "%s", err.message);
    out->known = all_known(model.graph);
    for (uint32_t i = 0; i < model.opsets.count; i++) {
        const struct onnx_opset *opset = ONNX_AT(model.opsets, struct onnx_opset, i);
        out->old = out->old || ((!opset->domain || !*opset->domain) && opset->version.value < 7);
    }
    as_declared(in, &model.graph->inputs, arena);
    as_declared(want, &model.graph->outputs, arena);
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
        int64_t given = !data ? 0 : data->uniform ? count : mg_shape_elements(&data->shape);
        values[v] = MG_NEW_ARRAY(arena, double, count + 1);
        for (int64_t i = 0; i < count && i < given;
             i++) /* of CastLike's second operand there is less than is declared */
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
    snprintf(path, sizeof path, FOLDER "/%s/model.onnx", job->test);
    char *text = read_file(path, &size);
    cr_assert(text, "%s", path);
    struct mg_bytes_block block = {text, size};
    struct mg_bytes_block again = block;
    struct mg_bytes source = mg_bytes_from_block(&block), first = mg_bytes_from_block(&again);
    read_declarations(&first, &in, &want, arena, job->out);
    for (uint32_t i = 0; i < in.count; i++)
        given[i] = (struct mg_onnx_given){in.name[i], &in.data[i]};
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

struct counts {
    unsigned known, old, passed, exported, wrong;
};

/* Whether the outcome is as the list says. */
static void judge(const struct list *list, const char *name, const struct outcome *out, struct counts *n)
{
    bool passed = out->known && out->code == MG_OK, explained = listed(list, name);
    n->known += out->known;
    n->old += out->known && out->old;
    n->passed += passed;
    n->exported += passed && out->exported;
    if (getenv("MAGIS_VERBOSE") && out->known && out->why[0])
        printf("%s\t%s\n", name, out->why);
    if (out->known && !passed && !explained)
        printf("FAILED: %s: %s\n", name, out->why);
    else if (explained && (passed || !out->known))
        printf("FAILED: %s is listed and %s\n", name, passed ? "passes" : "has operators that the table lacks");
    else
        return;
    n->wrong++;
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
    struct counts n = {0};
    uint32_t found = 0;
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
        judge(&list, names[i], &out, &n);
        found += listed(&list, names[i]);
        free(names[i]);
    }
    unsigned taken = n.known - n.old;
    printf("node tests: %zu, all operators in the table: %u, of these of opset 7 or later: %u, passed: %u (%.1f %%)\n",
           count, n.known, taken, n.passed, 100.0 * n.passed / taken);
    printf("written as ONNX models and read again: %u\n", n.exported);
    cr_assert_eq(n.wrong, 0, "%u tests are not as %s says", n.wrong, LIST);
    cr_assert_eq(found, list.count, "%u lines of %s name no test", list.count - found, LIST);
    cr_assert_geq(n.passed * 100, taken * 95);
    cr_assert_geq(n.exported * 100, n.passed * 80);
}
