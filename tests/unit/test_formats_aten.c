/* Captured PyTorch steps: torchvision networks (tests/data/aten), and small documents whose aliasing and in-place calls
 * are executed and compared with what PyTorch's rules say. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "formats/aten_priv.h"
#include "graph/ops_priv.h"
#include "server/pack.h"

struct opened {
    struct mg_arena arena;
    struct mg_graph *built, *g;
    enum mg_code code;
    struct mg_error err;
    const char *text;
    size_t size;
};

static enum mg_code read_guarded(void *context, struct mg_error *err)
{
    struct opened *o = context;
    struct mg_training training;
    bool has_training;
    enum mg_code code = mg_graph_read(o->text, o->size, &o->arena, &o->built, &training, &has_training, err);
    return code == MG_OK ? mg_graph_normalise(o->built, &o->arena, &o->g, err) : code;
}

static void open_text(struct opened *o, const char *text, size_t size)
{
    memset(o, 0, sizeof *o);
    mg_arena_init(&o->arena, (size_t)1 << 30);
    o->text = text;
    o->size = size;
    o->code = mg_arena_guard(&o->arena, read_guarded, o, &o->err);
}

static void close_text(struct opened *o)
{
    mg_arena_release(&o->arena);
}

/* ---- whole networks ---- */

static char *unzipped(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    char *packed = malloc(1 << 20), *text;
    size_t got = fread(packed, 1, 1 << 20, file);
    fclose(file);
    cr_assert_eq(mg_gunzip(packed, got, 64 << 20, 200, &text, size), MG_GUNZIP_OK);
    free(packed);
    return text;
}

static uint32_t opaque_count(const struct mg_graph *g)
{
    uint32_t count = 0;
    for (mg_op op = 0; op < g->op_count; op++)
        count += g->ops[op].type == MG_OP_OPAQUE;
    return count;
}

static void check_round_trip(const struct mg_graph *g)
{
    struct mg_writer w;
    struct opened again;
    mg_writer_init(&w);
    mg_graph_write(&w, g);
    cr_assert(mg_writer_finish(&w));
    open_text(&again, w.data, w.size);
    cr_assert_eq(again.code, MG_OK, "%s %s", again.err.pointer, again.err.message);
    cr_expect_str_eq(again.g->digest, g->digest);
    cr_expect_str_eq(again.g->source, g->source);
    close_text(&again);
    mg_writer_release(&w);
}

static void check_network(const char *path)
{
    struct opened o;
    struct mg_plan *plan;
    size_t size;
    char *text = unzipped(path, &size);
    open_text(&o, text, size);
    cr_assert_eq(o.code, MG_OK, "%s: %s %s", path, o.err.pointer, o.err.message);
    cr_expect_eq(opaque_count(o.g), 0, "%s has calls that nobody knows", path);
    cr_expect_eq(strlen(o.g->source), 64);
    cr_expect(o.g->forward_ops > 20 && o.g->forward_ops < o.g->op_count, "%s: where is the backward pass?", path);
    uint32_t in_place = 0, modules = 0;
    for (mg_op op = 0; op < o.g->op_count; op++) {
        in_place += o.g->ops[op].in_place >= 0 && o.g->values[o.g->ops[op].out[0]].update_of == MG_NONE;
        modules += o.g->ops[op].module[0] != '\0';
    }
    cr_expect(modules * 10 > o.g->op_count * 8, "%s: %u of %zu operators know their module", path, modules,
              o.g->op_count);
    bool joined = strstr(path, "densenet121") != NULL; /* its batch norms read concatenations */
    cr_expect(joined ? in_place > 100 : in_place == 0, "%s: %u in place", path, in_place);
    cr_assert_eq(mg_plan_original(o.g, mg_device_builtin("rtx3090"), &o.arena, &plan, &o.err), MG_OK, "%s: %s", path,
                 o.err.message);
    cr_expect(plan->figures.peak_bytes > UINT64_C(8000000000), "%s: %.2f GB", path,
              (double)plan->figures.peak_bytes / 1e9);
    check_round_trip(o.g);
    close_text(&o);
    free(text);
}

Test(aten, torchvision_networks_come_through_whole)
{
    unsigned count = 0;
    DIR *folder = opendir("tests/data/aten");
    cr_assert(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[512];
        if (!strstr(entry->d_name, ".json.gz"))
            continue;
        snprintf(path, sizeof path, "tests/data/aten/%s", entry->d_name);
        check_network(path);
        count++;
    }
    closedir(folder);
    cr_expect_eq(count, 10);
}

/* ---- the table, against that of operators ---- */

struct made {
    const char *name;
    enum mg_op_type type;
};
static const struct made made[] = {
#define ATEN(name, overloads, rule, type, arguments) {name, MG_OP_##type},
#include "formats/aten.def"
#undef ATEN
};
enum { MADE_COUNT = sizeof made / sizeof *made };

/* Names that operators have and the table lacks: views, of which aten_storage.c knows how they lie in their parents. */
static const char *const views =
    "view _unsafe_view _reshape_alias reshape squeeze unsqueeze flatten expand t transpose "
    "permute slice";

static bool has_rule(const char *name, size_t size, enum mg_op_type type)
{
    for (size_t i = 0; i < MADE_COUNT; i++)
        if (made[i].type == type && strlen(made[i].name) == size && strncmp(made[i].name, name, size) == 0)
            return true;
    return false;
}

Test(aten, operators_name_the_calls_that_they_are_made_of)
{
    for (size_t i = 0; i < MADE_COUNT; i++)
        cr_expect(aten_lists(mg_op_facts(made[i].type)->aten, made[i].name, strlen(made[i].name)),
                  "%s is made of %s and does not name it", mg_op_type_name(made[i].type), made[i].name);
    for (enum mg_op_type type = 0; type < MG_OP_COUNT; type++) {
        const char *word = mg_op_facts(type)->aten;
        for (size_t size; *(word += strspn(word, " ")); word += size) {
            size = strcspn(word, " ");
            bool view = mg_op_facts(type)->cost == MG_COST_VIEW && aten_lists(views, word, size);
            cr_expect(has_rule(word, size, type) != view, "%s names %.*s, of which no rule makes it",
                      mg_op_type_name(type), (int)size, word);
        }
    }
}

/* ---- small documents ---- */

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DOCUMENT(nodes, outputs)                                                                                       \
    "{\"format\":\"magis-aten/1\",\"name\":\"t\",\"digest\":\"" DIGEST "\",\"nodes\":[" nodes                          \
    "],\"outputs\":[" outputs "]}"
#define OUT(shape, storage) "\"out\":{\"shape\":" shape ",\"dtype\":\"f32\",\"storage\":" #storage "}"
#define GIVEN(name, kind, shape, storage)                                                                              \
    "{\"name\":\"" name "\",\"op\":\"placeholder\",\"kind\":\"" kind "\"," OUT(shape, storage) "}"
#define CALL(name, op, args, shape, storage)                                                                           \
    ",{\"name\":\"" name "\",\"op\":\"aten." op "\",\"args\":[" args "]," OUT(shape, storage) "}"
#define WRITE(name, op, args, shape, storage)                                                                          \
    ",{\"name\":\"" name "\",\"op\":\"aten." op "\",\"writes\":[0],\"args\":[" args "]," OUT(shape, storage) "}"
#define NODE(name) "{\"node\":\"" name "\"}"
#define SEVERAL(name, op, args) ",{\"name\":\"" name "\",\"op\":\"aten." op "\",\"args\":[" args "]}"
#define ITEM(name, of, at, shape, storage)                                                                             \
    ",{\"name\":\"" name "\",\"op\":\"getitem\",\"args\":[" NODE(of) "," #at "]," OUT(shape, storage) "}"

struct running {
    struct opened *o;
    double **values;
};
static enum mg_code run_guarded(void *context, struct mg_error *err)
{
    struct running *r = context;
    return mg_exec_graph(r->o->g, 1, r->values, &r->o->arena, err);
}
static enum mg_code run_graph(struct opened *o, double **values)
{
    struct running r = {o, values};
    return mg_arena_guard(&o->arena, run_guarded, &r, &o->err);
}

/* The first output (or, failing that, the first updated value) of a document whose inputs hold 0, 1, 2, ... */
static const double *executed(struct opened *o, const char *text, int64_t *count)
{
    open_text(o, text, strlen(text));
    cr_assert_eq(o->code, MG_OK, "%s %s", o->err.pointer, o->err.message);
    double **values = calloc(o->g->value_count, sizeof *values);
    for (mg_value v = 0; v < o->g->value_count; v++) {
        int64_t n = mg_shape_elements(&o->g->values[v].shape);
        if (o->g->values[v].kind == MG_KIND_COMPUTED)
            continue;
        values[v] = calloc((size_t)n + 1, sizeof(double));
        for (int64_t i = 0; i < n; i++)
            values[v][i] = (double)i;
    }
    cr_assert_eq(run_graph(o, values), MG_OK, "%s", o->err.message);
    mg_value v = o->g->output_count ? o->g->outputs[0] : o->g->values[0].updated_by;
    *count = mg_shape_elements(&o->g->values[v].shape);
    const double *result = values[v];
    for (v = 0; v < o->g->value_count; v++)
        if (o->g->values[v].kind != MG_KIND_COMPUTED)
            free(values[v]);
    free(values);
    return result;
}

#define EXPECT(text, ...)                                                                                              \
    do {                                                                                                               \
        struct opened o;                                                                                               \
        int64_t count;                                                                                                 \
        const double want[] = {__VA_ARGS__}, *got = executed(&o, text, &count);                                        \
        cr_assert_eq((size_t)count, sizeof want / sizeof *want);                                                       \
        for (int64_t i_ = 0; i_ < count; i_++)                                                                         \
            cr_expect_float_eq(got[i_], want[i_], 1e-12, "element %lld: %g, not %g", (long long)i_, got[i_],           \
                               want[i_]);                                                                              \
        cr_expect_eq(opaque_count(o.g), 0);                                                                            \
        close_text(&o);                                                                                                \
    } while (0)

#define X GIVEN("x", "input", "[2,3]", 0)
#define DOUBLED CALL("y", "mul.Tensor", NODE("x") ",2", "[2,3]", 1)

/* Calls that PyTorch 1.13 does not have or takes apart: tests/e2e/torch_table.py executes the others. */
Test(aten, calls_of_later_versions_are_told_in_our_operators)
{
    EXPECT(DOCUMENT(X CALL("d", "sub.Tensor", NODE("x") ",2", "[2,3]", 1)
                        CALL("s", "full.default", "[1,3],-0.5", "[1,3]", 2)
                            CALL("z", "_prelu_kernel.default", NODE("d") "," NODE("s"), "[2,3]", 3),
                    NODE("z")),
           1, 0.5, 0, 1, 2, 3);
    EXPECT(DOCUMENT(X CALL("d", "sub.Tensor", NODE("x") ",2", "[2,3]", 1)
                        CALL("s", "full.default", "[1,3],-0.5", "[1,3]", 2)
                            SEVERAL("g", "_prelu_kernel_backward.default", NODE("x") "," NODE("d") "," NODE("s"))
                                ITEM("dx", "g", 0, "[2,3]", 3) ITEM("ds", "g", 1, "[2,3]", 4)
                                    CALL("z", "stack.default", "[" NODE("dx") "," NODE("ds") "]", "[2,2,3]", 5),
                    NODE("z")),
           0, -0.5, -1, 3, 4, 5, 0, -1, 0, 0, 0, 0);
    EXPECT(DOCUMENT(X CALL("d", "sub.Tensor", NODE("x") ",2", "[2,3]", 1)
                        CALL("z", "huber_loss.default", NODE("d") "," NODE("x") ",0,1.5", "[2,3]", 2),
                    NODE("z")),
           1.875, 1.875, 1.875, 1.875, 1.875, 1.875);
    EXPECT(DOCUMENT(X CALL("d", "sub.Tensor", NODE("x") ",2", "[2,3]", 1) CALL(
                        "z", "huber_loss_backward.default", NODE("x") "," NODE("d") "," NODE("x") ",0,1.5", "[2,3]", 2),
                    NODE("z")),
           0, -1.5, -3, -4.5, -6, -7.5);
    EXPECT(DOCUMENT(X CALL("z", "mish_backward.default", NODE("x") "," NODE("x"), "[2,3]", 1), NODE("z")), 0,
           1.0490362200997922, 2.1386358685589792, 3.0633207327883305, 4.017731507615, 5.004001124160414);
}

/* clang-format off: a call to a line */
#define RMS_NORM                                                                                                       \
    X CALL("w", "full.default", "[3],2", "[3]", 1)                                                                     \
        SEVERAL("n", "_fused_rms_norm.default", NODE("x") ",[3]," NODE("w") ",1") ITEM("y", "n", 0, "[2,3]", 2)        \
            ITEM("r", "n", 1, "[2,1]", 3)                                                                              \
                SEVERAL("g", "_fused_rms_norm_backward.default",                                                       \
                        NODE("x") "," NODE("x") ",[3]," NODE("r") "," NODE("w") ",[true,true]")                        \
                    ITEM("dx", "g", 0, "[2,3]", 4) ITEM("ds", "g", 1, "[3]", 5)
/* clang-format on */

Test(aten, fused_rms_norms_are_known)
{
    EXPECT(DOCUMENT(RMS_NORM, NODE("y")), 0, 1.22474487139159, 2.44948974278318, 1.42749285429266, 1.90332380572355,
           2.37915475715443);
    EXPECT(DOCUMENT(RMS_NORM, NODE("dx")), 0, 0.459279326771846, 0.918558653543692, 0.0808014823184527,
           0.107735309757937, 0.134669137197421);
    EXPECT(DOCUMENT(RMS_NORM, NODE("ds")), 2.14123928143899, 4.41902004714289, 8.39737663566926);
}

Test(aten, in_place_calls_are_seen_through_views_taken_before)
{
    EXPECT(DOCUMENT(X DOUBLED CALL("v", "view.default", NODE("y") ",[6]", "[6]", 1)
                        WRITE("a", "add_.Tensor", NODE("y") ",1", "[2,3]", 1)
                            CALL("z", "mul.Tensor", NODE("v") ",10", "[6]", 2),
                    NODE("z")),
           10, 30, 50, 70, 90, 110);
}

Test(aten, in_place_calls_on_views_reach_their_base)
{
    EXPECT(DOCUMENT(X DOUBLED CALL("t", "t.default", NODE("y"), "[3,2]", 1)
                        CALL("v", "view.default", NODE("t") ",[3,2]", "[3,2]", 1)
                            WRITE("a", "relu_.default", NODE("v"), "[3,2]", 1)
                                WRITE("b", "sub_.Tensor", NODE("t") ",5", "[3,2]", 1)
                                    CALL("z", "neg.default", NODE("y"), "[2,3]", 2),
                    NODE("z")),
           5, 3, 1, -1, -3, -5);
}

Test(aten, writing_to_a_part_leaves_the_rest)
{
    EXPECT(DOCUMENT(X DOUBLED CALL("s", "slice.Tensor", NODE("y") ",1,0,9223372036854775807,2", "[2,2]", 1)
                        WRITE("f", "fill_.Scalar", NODE("s") ",7", "[2,2]", 1)
                            CALL("r", "select.int", NODE("y") ",0,-1", "[3]", 1)
                                WRITE("m", "mul_.Tensor", NODE("r") "," NODE("r"), "[3]", 1)
                                    CALL("z", "clone.default", NODE("y"), "[2,3]", 2),
                    NODE("z")),
           7, 2, 7, 49, 64, 49);
}

/* clang-format off: a call to a line */
Test(aten, pieces_of_a_split_are_views)
{
    EXPECT(DOCUMENT(X DOUBLED SEVERAL("p", "split_with_sizes.default", NODE("y") ",[1,2],1")
                        ITEM("p0", "p", 0, "[2,1]", 1) ITEM("p1", "p", 1, "[2,2]", 1)
                            WRITE("f", "zero_.default", NODE("p1"), "[2,2]", 1)
                                WRITE("g", "add_.Tensor", NODE("y") ",1", "[2,3]", 1)
                                    CALL("z", "add.Tensor", NODE("p0") "," NODE("p1"), "[2,2]", 2),
                    NODE("z")),
           2, 2, 8, 8);
}
/* clang-format on */

/* Views by sizes, strides and offset. */
#define LAID(shape, strides, offset, storage)                                                                          \
    "\"out\":{\"shape\":" shape ",\"dtype\":\"f32\",\"strides\":" strides ",\"offset\":" #offset                       \
    ",\"storage\":" #storage "}"
#define STRIDED(name, of, shape, strides, offset)                                                                      \
    ",{\"name\":\"" name                                                                                               \
    "\",\"op\":\"aten.as_strided.default\",\"args\":[" NODE(of) "]," LAID(shape, strides, offset, 1) "}"
#define LAID_OUT                                                                                                       \
    ",{\"name\":\"y\",\"op\":\"aten.mul.Tensor\",\"args\":[" NODE("x") ",2]," LAID("[2,3]", "[3,1]", 0, 1) "}"
#define THEN(nodes) DOCUMENT(X LAID_OUT nodes CALL("z", "clone.default", NODE("y"), "[2,3]", 2), NODE("z"))

Test(aten, views_by_strides_are_parts_of_their_whole)
{
    EXPECT(THEN(STRIDED("v", "y", "[2]", "[3]", 1) WRITE("f", "fill_.Scalar", NODE("v") ",7", "[2]", 1)), 0, 7, 4, 6, 7,
           10);
    EXPECT(THEN(STRIDED("v", "y", "[2,2]", "[2,3]", 0) WRITE("f", "mul_.Tensor", NODE("v") ",10", "[2,2]", 1)), 0, 2,
           40, 60, 8, 100);
    EXPECT(DOCUMENT(X LAID_OUT STRIDED("v", "y", "[2,1,3]", "[0,5,1]", 3)
                        CALL("z", "neg.default", NODE("v"), "[2,1,3]", 2),
                    NODE("z")),
           -6, -8, -10, -6, -8, -10);
}

Test(aten, views_that_are_no_boxes_are_gathered)
{
    EXPECT(THEN(STRIDED("v", "y", "[2]", "[4]", 0) WRITE("f", "add_.Tensor", NODE("v") ",100", "[2]", 1)), 100, 2, 4, 6,
           108, 10);
    EXPECT(DOCUMENT(X LAID_OUT STRIDED("v", "y", "[2,2,2]", "[3,1,1]", 0)
                        CALL("z", "clone.default", NODE("v"), "[2,2,2]", 2),
                    NODE("z")),
           0, 2, 2, 4, 6, 8, 8, 10);
}

Test(aten, fresh_storages_take_what_is_written_to_them)
{
    EXPECT(DOCUMENT(X CALL("e", "empty_like.default", NODE("x"), "[2,3]", 1)
                        WRITE("c", "copy_.default", NODE("e") "," NODE("x"), "[2,3]", 1)
                            WRITE("a", "add_.Tensor", NODE("e") ",1", "[2,3]", 1)
                                CALL("z", "sub.Tensor", NODE("c") "," NODE("x"), "[2,3]", 2),
                    NODE("z")),
           1, 1, 1, 1, 1, 1);
}

Test(aten, what_is_left_in_a_weight_is_its_update)
{
    EXPECT(DOCUMENT(GIVEN("w", "weight", "[3]", 0) CALL("d", "detach.default", NODE("w"), "[3]", 0)
                        WRITE("a", "mul_.Tensor", NODE("d") ",0.5", "[3]", 0)
                            WRITE("b", "add_.Tensor", NODE("w") ",1", "[3]", 0),
                    ""),
           1, 1.5, 2);
}

Test(aten, a_step_of_sgd_needs_no_memory_of_its_own)
{
    struct opened o;
    const char *text = DOCUMENT(
        GIVEN("w", "weight", "[3]", 0) "," GIVEN(
            "g", "input", "[3]", 1) ",{\"name\":\"a\",\"op\":\"aten.add_.Tensor\",\"writes\":[0],\"args\":"
                                    "[" NODE("w") "," NODE("g") "],\"kwargs\":{\"alpha\":-0.1}," OUT("[3]", 0) "}",
        "");
    open_text(&o, text, strlen(text));
    cr_assert_eq(o.code, MG_OK, "%s %s", o.err.pointer, o.err.message);
    cr_assert_eq(o.g->op_count, 1);
    cr_expect_eq(o.g->ops[0].type, MG_OP_SGD);
    cr_expect_eq(o.g->ops[0].in_place, 0);
    cr_expect_eq(o.g->values[0].updated_by, o.g->ops[0].out[0]);
    close_text(&o);
}

Test(aten, in_place_calls_pin_nothing_and_dead_ones_vanish)
{
    struct opened o;
    const char *text =
        DOCUMENT(X DOUBLED CALL("dead", "exp.default", NODE("y"), "[2,3]", 2)
                     WRITE("r", "relu_.default", NODE("y"), "[2,3]", 1) CALL("z", "sum.default", NODE("y"), "[]", 3),
                 NODE("z"));
    open_text(&o, text, strlen(text));
    cr_assert_eq(o.code, MG_OK, "%s %s", o.err.pointer, o.err.message);
    cr_assert_eq(o.g->op_count, 3);
    cr_expect_eq(o.g->ops[1].type, MG_OP_RELU);
    cr_expect_eq(o.g->ops[1].in_place, -1);
    close_text(&o);
}

/* What is copied only to be overwritten needs no copy in a graph. */
Test(aten, copies_of_what_is_overwritten_are_left_out)
{
    struct opened o;
    const char *text = DOCUMENT(X DOUBLED CALL("kept", "clone.default", NODE("y"), "[2,3]", 2)
                                    WRITE("r", "silu_.default", NODE("y"), "[2,3]", 1)
                                        CALL("z", "mul.Tensor", NODE("r") "," NODE("kept"), "[2,3]", 3)
                                            CALL("copy", "clone.default", NODE("z"), "[2,3]", 4),
                                NODE("copy"));
    open_text(&o, text, strlen(text));
    cr_assert_eq(o.code, MG_OK, "%s %s", o.err.pointer, o.err.message);
    cr_assert_eq(o.g->op_count, 4);
    cr_expect_eq(o.g->ops[1].type, MG_OP_SILU);
    cr_expect_eq(o.g->ops[2].type, MG_OP_MUL);
    cr_expect_eq(o.g->ops[2].in[0], o.g->ops[1].out[0]);
    cr_expect_eq(o.g->ops[2].in[1], o.g->ops[0].out[0]);
    cr_expect_eq(o.g->ops[3].type, MG_OP_COPY);
    close_text(&o);
}

/* dy (s(y) (1 + y (1 - s(y)))): how capturing takes silu's gradient apart. */
Test(aten, gradients_of_silu_are_put_together_again)
{
    struct opened o;
    const char *text =
        DOCUMENT(X DOUBLED CALL("s", "sigmoid.default", NODE("y"), "[2,3]", 2)
                     CALL("e", "empty_like.default", NODE("s"), "[2,3]", 3)
                         WRITE("one", "fill_.Scalar", NODE("e") ",1", "[2,3]", 3)
                             WRITE("rest", "sub_.Tensor", NODE("one") "," NODE("s"), "[2,3]", 3)
                                 CALL("t", "mul.Tensor", NODE("y") "," NODE("rest"), "[2,3]", 4)
                                     CALL("plus", "add.Scalar", NODE("t") ",1", "[2,3]", 5)
                                         CALL("slope", "mul.Tensor", NODE("s") "," NODE("plus"), "[2,3]", 6)
                                             CALL("g", "mul.Tensor", NODE("x") "," NODE("slope"), "[2,3]", 7),
                 NODE("g"));
    open_text(&o, text, strlen(text));
    cr_assert_eq(o.code, MG_OK, "%s %s", o.err.pointer, o.err.message);
    cr_assert_eq(o.g->op_count, 2);
    cr_expect_eq(o.g->ops[1].type, MG_OP_SILU_GRAD);
    cr_expect_eq(o.g->ops[1].in[1], o.g->ops[0].out[0]);
    close_text(&o);
}

/* clang-format off */
#define UNKNOWN DOCUMENT(X DOUBLED                                                  \
                         WRITE("u", "frobnicate_.default", NODE("y"), "[2,3]", 1)   \
                         SEVERAL("two", "twin.default", "[" NODE("y") "]")          \
                         ITEM("t1", "two", 1, "[4]", 2)                             \
                         CALL("z", "cat.default", "[" NODE("t1") "," NODE("t1") "],0", "[8]", 3), \
                         NODE("z") "," NODE("u"))
/* The first writes to an argument that it was not given, the second hands out a new tensor beside its writing. */
#define UNKNOWN_RESULTS DOCUMENT(X DOUBLED                                                  \
                                 WRITE("odd", "frobnicate_.default", "3", "[2,3]", 4)       \
                                 WRITE("new", "frobnicate.default", NODE("y"), "[5]", 5),   \
                                 NODE("odd") "," NODE("new") "," NODE("y"))
/* clang-format on */

Test(aten, unknown_calls_are_opaque_and_keep_their_writes)
{
    struct opened o;
    open_text(&o, UNKNOWN, strlen(UNKNOWN));
    cr_assert_eq(o.code, MG_OK, "%s %s", o.err.pointer, o.err.message);
    cr_expect_eq(opaque_count(o.g), 2);
    const struct mg_op_info *writer = &o.g->ops[1], *twin = &o.g->ops[2];
    cr_expect_str_eq(mg_op_attr(writer, MG_ATTR_TARGET)->string, "aten.frobnicate_.default");
    cr_expect_eq(twin->in[0], writer->out[0], "the call behind it reads what it wrote");
    cr_expect_float_eq(mg_op_attr_float(writer, MG_ATTR_BYTES), 48, 0);
    close_text(&o);
}

Test(aten, results_of_unknown_calls_are_told_from_what_they_write)
{
    struct opened o;
    open_text(&o, UNKNOWN_RESULTS, strlen(UNKNOWN_RESULTS));
    cr_assert_eq(o.code, MG_OK, "%s %s", o.err.pointer, o.err.message);
    cr_assert_eq(opaque_count(o.g), 2);
    cr_assert_eq(o.g->op_count, 3);
    const struct mg_op_info *odd = &o.g->ops[1], *both = &o.g->ops[2];
    cr_expect_eq(odd->out_count, 1);
    cr_expect(o.g->values[odd->out[0]].is_output);
    cr_assert_eq(both->out_count, 2);
    cr_expect_eq(o.g->values[both->out[0]].shape.rank, 1);
    cr_expect_eq(o.g->values[both->out[1]].shape.rank, 2);
    cr_expect(o.g->values[both->out[1]].is_output, "y as it was written");
    close_text(&o);
}

struct refused {
    const char *text, *pointer;
    enum mg_code code;
};

Test(aten, damaged_documents_are_refused_at_their_place)
{
    static const struct refused cases[] = {
        {DOCUMENT(X CALL("y", "neg.default", NODE("nobody"), "[2,3]", 1), ""), "/nodes/1/args/0/node", MG_ERR_INVALID},
        {DOCUMENT(X CALL("x", "neg.default", NODE("x"), "[2,3]", 1), ""), "/nodes/1/name", MG_ERR_INVALID},
        {DOCUMENT(X, NODE("y")), "/outputs/0/node", MG_ERR_INVALID},
        {DOCUMENT("{\"name\":\"x\",\"op\":\"placeholder\"}", ""), "/nodes/0", MG_ERR_INVALID},
        {DOCUMENT(GIVEN("x", "input", "[1099511627776,1099511627776]", 0), ""), "/nodes/0/out", MG_ERR_LIMIT},
        {DOCUMENT(X CALL("v", "unfold.default", NODE("x") ",0,1,1", "[2,3,1]", 0)
                      WRITE("w", "add_.Tensor", NODE("x") ",1", "[2,3]", 0),
                  NODE("v")),
         "/nodes/2", MG_ERR_UNSUPPORTED},
        {DOCUMENT(X LAID_OUT STRIDED("v", "y", "[2,3]", "[3,1]", 1)
                      WRITE("w", "add_.Tensor", NODE("y") ",1", "[2,3]", 1),
                  NODE("v")),
         "/nodes/3", MG_ERR_UNSUPPORTED}, /* reaches behind its whole */
        {"{\"format\":\"magis-aten/1\",\"digest\":\"short\",\"nodes\":[],\"outputs\":[]}", "/digest", MG_ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        open_text(&o, cases[i].text, strlen(cases[i].text));
        cr_expect_eq(o.code, cases[i].code, "case %zu: code %d, %s", i, o.code, o.err.message);
        cr_expect_str_eq(o.err.pointer, cases[i].pointer, "case %zu: %s: %s", i, o.err.pointer, o.err.message);
        close_text(&o);
    }
}
