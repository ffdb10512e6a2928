/* Every operator as a PyTorch module beside what the reference executor computes: op_modules SEED FOLDER
 *
 * For sample N of tests/unit/op_samples.h, FOLDER/N.py is the exported module and FOLDER/N.json tells
 * {"sample", "op", "seeded", "inputs": {name: {"dtype", "shape", "data"}}, "outputs": {name: {"shape", "data"}}}; no
 * N.py: there is no function for that operator. FOLDER/N.plan is the plan as it were of a captured step. */
#include <stdio.h>
#include <stdlib.h>

#include "../unit/op_samples.h"
#include "exec/exec.h"
#include "export/export.h"

enum { CLASSES = 3 };

struct sample_run {
    struct bench *b;
    uint64_t seed;
    double **values;
    struct mg_plan *plan;
};

/* Whole numbers are not divided by zero. */
static void avoid_zero(const struct mg_graph *g, double **values)
{
    const struct mg_op_info *op = &g->ops[0];
    bool divides = op->type == MG_OP_MOD || op->type == MG_OP_FLOOR_DIV || op->type == MG_OP_DIV;
    for (int64_t e = 0; divides && e < mg_shape_elements(&g->values[op->in[1]].shape); e++)
        if (values[op->in[1]][e] == 0)
            values[op->in[1]][e] = 1;
}

static enum mg_code run_sample(void *context, struct mg_error *err)
{
    struct sample_run *run = context;
    struct mg_graph *g = run->b->g;
    for (uint32_t i = 0; i < g->ops[0].out_count; i++)
        mg_graph_add_output(g, g->ops[0].out[i]);
    enum mg_code code = mg_graph_normalise(g, &run->b->arena, &run->b->n, err);
    if (code != MG_OK)
        return code;
    run->values = mg_exec_random_values(run->b->n, run->seed, CLASSES, &run->b->arena);
    avoid_zero(run->b->n, run->values);
    code = mg_exec_graph(run->b->n, run->seed, run->values, &run->b->arena, err);
    return code == MG_OK ? mg_plan_original(run->b->n, mg_device_builtin("rtx3090"), &run->b->arena, &run->plan, err)
                         : code;
}

static void write_value(struct mg_writer *w, const struct mg_value_info *value, const double *data)
{
    mg_write_key(w, value->name);
    mg_write_begin_object(w);
    mg_write_member_string(w, "dtype", mg_dtype_name(value->dtype));
    mg_write_key(w, "shape");
    mg_write_begin_array(w);
    for (uint32_t d = 0; d < value->shape.rank; d++)
        mg_write_int(w, value->shape.dim[d]);
    mg_write_end_array(w);
    mg_write_key(w, "data");
    mg_write_begin_array(w);
    for (int64_t e = 0; e < mg_shape_elements(&value->shape); e++)
        mg_write_double(w, data[e]);
    mg_write_end_array(w);
    mg_write_end_object(w);
}

static void write_values(struct mg_writer *w, const char *key, const struct sample_run *run, bool outputs)
{
    const struct mg_graph *g = run->b->n;
    mg_write_key(w, key);
    mg_write_begin_object(w);
    for (mg_value v = 0; v < g->value_count; v++)
        if (outputs ? g->values[v].is_output : g->values[v].kind == MG_KIND_INPUT)
            write_value(w, &g->values[v], run->values[v]);
    mg_write_end_object(w);
}

static bool save(const char *folder, int n, const char *extension, struct mg_writer *w)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.%s", folder, n, extension);
    FILE *file = mg_writer_finish(w) ? fopen(path, "wb") : NULL;
    bool written = file && fwrite(w->data, 1, w->size, file) == w->size;
    if (file)
        written = fclose(file) == 0 && written;
    mg_writer_release(w);
    return written;
}

static bool write_as(enum mg_export_format format, const char *extension, const struct sample_run *run, int n,
                     const char *folder)
{
    struct mg_writer w;
    struct mg_error err = {0};
    mg_writer_init(&w);
    if (mg_export_write(format, &w, run->b->n, run->plan, NULL, &run->b->arena, &err) == MG_OK)
        return save(folder, n, extension, &w);
    mg_writer_release(&w);
    return err.code == MG_ERR_UNSUPPORTED;
}

static bool write_sample(const struct sample_run *run, const char *sample, int n, const char *folder)
{
    struct mg_writer w;
    enum mg_op_type type = run->b->g->ops[0].type;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "sample", sample);
    mg_write_member_string(&w, "op", mg_op_type_name(type));
    mg_write_key(&w, "seeded");
    mg_write_bool(&w, mg_op_purity(run->b->g, 0) == MG_SEEDED);
    write_values(&w, "inputs", run, false);
    write_values(&w, "outputs", run, true);
    mg_write_end_object(&w);
    if (!save(folder, n, "json", &w) || !write_as(MG_EXPORT_TORCH, "py", run, n, folder))
        return false;
    run->b->n->source = "of no step";
    return write_as(MG_EXPORT_JSON, "plan", run, n, folder);
}

int main(int argc, char **argv)
{
    int count = (int)(sizeof op_samples / sizeof op_samples[0]), failed = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: op_modules SEED FOLDER\n");
        return 2;
    }
    uint64_t seed = strtoull(argv[1], NULL, 10);
    for (int n = 0; n < count; n++) {
        struct bench b;
        struct mg_error err = {0};
        struct sample_run run = {.b = &b, .seed = seed++};
        bool built = sample_build(&b, op_samples[n]);
        if (!built || mg_arena_guard(&b.arena, run_sample, &run, &err) != MG_OK ||
            !write_sample(&run, op_samples[n], n, argv[2])) {
            fprintf(stderr, "op_modules: %s: %s\n", op_samples[n], built ? err.message : b.err.message);
            failed++;
        }
        bench_close(&b);
    }
    return failed > 0;
}
