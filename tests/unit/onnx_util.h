/* Plans as ONNX models: written, read again, executed on the same numbers. */
#ifndef MG_TESTS_ONNX_UTIL_H
#define MG_TESTS_ONNX_UTIL_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/exec.h"
#include "export/export.h"

static inline const struct mg_onnx_data *onnx_content(const struct mg_onnx_model *model, const char *name)
{
    for (size_t i = 0; i < model->content_count; i++)
        if (strcmp(model->contents[i].value, name) == 0)
            return model->contents[i].data;
    return NULL;
}

/* Numbers for the graph that was read: by name those of the graph that was written, else what the file holds. */
static inline double **onnx_values(const struct mg_graph *back, const struct mg_onnx_model *model,
                                   const struct mg_graph *g, double *const *given, struct mg_arena *arena)
{
    double **values = MG_NEW_ARRAY(arena, double *, back->value_count);
    for (mg_value v = 0; v < back->value_count; v++) {
        const struct mg_value_info *info = &back->values[v];
        int64_t count = mg_shape_elements(&info->shape);
        mg_value same = mg_graph_find_value(g, info->name);
        const struct mg_onnx_data *data = onnx_content(model, info->name);
        if (info->kind == MG_KIND_COMPUTED)
            continue;
        cr_assert(data || (same != MG_NONE && given[same]), "'%s' is unknown", info->name);
        values[v] = MG_NEW_ARRAY(arena, double, count + 1);
        for (int64_t i = 0; i < count; i++)
            values[v][i] = data ? mg_onnx_data_at(data, i) : given[same][i];
    }
    return values;
}

static inline void onnx_compare(const struct mg_graph *g, mg_value v, const double *want, const double *got,
                                const char *label)
{
    double largest = 0, worst = 0;
    int64_t count = mg_shape_elements(&g->values[v].shape);
    for (int64_t i = 0; i < count; i++) {
        cr_assert_eq(isnan(want[i]), isnan(got[i]), "%s: '%s' at %lld: %g, must be %g", label, g->values[v].name,
                     (long long)i, got[i], want[i]);
        if (!isfinite(want[i]) || want[i] == got[i])
            continue;
        largest = fmax(largest, fabs(want[i]));
        worst = fmax(worst, fabs(want[i] - got[i]));
    }
    cr_assert(worst <= 2e-6 * fmax(1, largest), "%s: '%s' differs by %g of %g", label, g->values[v].name, worst,
              largest);
}

/* Models also go to this file, if it is open: label, size, a newline, the bytes. */
static FILE *onnx_models;

static inline void onnx_store(const char *label, const struct mg_writer *w)
{
    if (!onnx_models)
        return;
    fprintf(onnx_models, "%zu %s\n", w->size, label);
    cr_assert_eq(fwrite(w->data, 1, w->size, onnx_models), w->size);
}

/* `values`: all of the graph's. MG_ERR_UNSUPPORTED and a sentence where the plan cannot be exported. */
static inline enum mg_code onnx_round_trip(const struct mg_graph *g, const struct mg_plan *plan, double *const *values,
                                           const char *label, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_writer w;
    struct mg_onnx_model model;
    struct mg_graph *back;
    mg_writer_init(&w);
    enum mg_code code = mg_export_write(MG_EXPORT_ONNX, &w, g, plan, NULL, arena, err);
    cr_assert(code != MG_OK || mg_writer_finish(&w));
    if (code != MG_OK) {
        mg_writer_release(&w);
        return code;
    }
    onnx_store(label, &w);
    struct mg_bytes_block block = {w.data, w.size};
    struct mg_bytes source = mg_bytes_from_block(&block);
    code = mg_onnx_read(&source, &(struct mg_onnx_options){.keep_data = true}, arena, &model, err);
    mg_writer_release(&w);
    if (code == MG_OK)
        code = mg_graph_normalise(model.graph, arena, &back, err);
    cr_assert_eq(code, MG_OK, "%s is not read again: %s %s", label, err->pointer, err->message);
    double **again = onnx_values(back, &model, g, values, arena);
    code = mg_exec_graph(back, 7, again, arena, err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", label, err->pointer, err->message);
    for (size_t i = 0; i < g->output_count; i++) {
        mg_value v = g->outputs[i], other = mg_graph_find_value(back, g->values[v].name);
        cr_assert(other != MG_NONE && back->values[other].is_output, "%s: no output '%s'", label, g->values[v].name);
        cr_assert(mg_shape_equal(&back->values[other].shape, &g->values[v].shape), "%s: another shape", label);
        cr_assert_eq(back->values[other].dtype, g->values[v].dtype, "%s: another dtype", label);
        onnx_compare(g, v, values[v], again[other], label);
    }
    return MG_OK;
}

#endif
