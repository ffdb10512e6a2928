/* GRAPH as for check; PLAN is JSON, or the word "original": the operators in the graph's order. */
#include <stdio.h>
#include <string.h>

#include "export/export.h"
#include "server/source.h"

struct export
{
    const struct mg_options *options;
    enum mg_export_format format;
    struct mg_source source;
    struct mg_file plan_file; /* empty for the original */
};

static enum mg_code read_plan(struct export *x, struct mg_plan **plan, struct mg_error *err)
{
    struct mg_arena *arena = &x->source.arena;
    const struct mg_graph *g = x->source.graph;
    if (!x->plan_file.data)
        return mg_plan_original(g, &x->source.request.device, arena, plan, err);
    return mg_plan_read(g, x->plan_file.data, x->plan_file.size, arena, plan, err);
}

static int export(void *context)
{
    struct export *x = context;
    struct mg_arena *arena = &x->source.arena;
    struct mg_plan *plan;
    struct mg_writer w;
    struct mg_error err;
    if (read_plan(x, &plan, &err) != MG_OK)
        return mg_source_complain_plan(&x->source, x->options->argument[1], x->plan_file.data, x->plan_file.size, &err);
    const char *path = x->options->value[MG_OPTION_OUTPUT];
    mg_writer_init(&w);
    int code = MG_EXIT_FAILED;
    if (mg_export_write(x->format, &w, x->source.graph, plan, &x->source.model, arena, &err) != MG_OK)
        code = mg_source_complain(mg_export_name(x->format), &err);
    else if (mg_writer_finish(&w) && mg_file_write(path ? path : "-", w.data, w.size))
        code = MG_EXIT_DONE;
    mg_writer_release(&w);
    return code;
}

static bool read_format(const char *text, enum mg_export_format *format)
{
    *format = text ? mg_export_from_name(text) : MG_EXPORT_JSON;
    if (*format < MG_EXPORT_COUNT)
        return true;
    fprintf(stderr, "magisd export: --format is one of");
    for (unsigned i = 0; i < MG_EXPORT_COUNT; i++)
        fprintf(stderr, "%s %s", i ? "," : "", mg_export_name((enum mg_export_format)i));
    fprintf(stderr, "\n");
    return false;
}

static int export_files(struct export *x)
{
    const struct mg_options *options = x->options;
    bool original = strcmp(options->argument[1], "original") == 0;
    if (!read_format(options->value[MG_OPTION_FORMAT], &x->format) ||
        (!original && !mg_file_open(&x->plan_file, options->argument[1])))
        return MG_EXIT_USAGE;
    x->source.keep_contents = x->format == MG_EXPORT_ONNX;
    int code = mg_source_open(&x->source, options, options->argument[0]);
    if (code == MG_EXIT_DONE)
        code = mg_source_guard(&x->source.arena, export, x);
    mg_source_release(&x->source);
    mg_file_close(&x->plan_file);
    return code;
}

int mg_cmd_export(int argc, char **argv)
{
    struct mg_options options;
    struct export x = {.options = &options};
    int code;
    if (mg_options_parse(&options, MG_COMMAND_EXPORT, argc, argv, &code))
        code = export_files(&x);
    mg_options_release(&options);
    return code;
}
