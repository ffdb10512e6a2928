/* The table of formats. */
#include "export/export_priv.h"

static enum mg_code write_dot(struct mg_export *e)
{
    mg_plan_write_dot(e->w, e->original, e->plan);
    return MG_OK;
}

static const struct {
    const char *name, *extension, *media_type;
    enum mg_code (*write)(struct mg_export *e);
} formats[] = {
#define MG_EXPORT(id, name, extension, media_type, write) {name, extension, media_type, write},
#include "export/formats.def"
#undef MG_EXPORT
};

const char *mg_export_name(enum mg_export_format format)
{
    return formats[format].name;
}

const char *mg_export_extension(enum mg_export_format format)
{
    return formats[format].extension;
}

const char *mg_export_media_type(enum mg_export_format format)
{
    return formats[format].media_type;
}

enum mg_export_format mg_export_from_name(const char *name)
{
    unsigned i = 0;
    while (i < MG_EXPORT_COUNT && strcmp(formats[i].name, name) != 0)
        i++;
    return (enum mg_export_format)i;
}

struct call {
    enum mg_export_format format;
    struct mg_export *e;
};

static enum mg_code write_guarded(void *context, struct mg_error *err)
{
    struct call *call = context;
    call->e->err = err;
    return formats[call->format].write(call->e);
}

enum mg_code mg_export_write(enum mg_export_format format, struct mg_writer *w, const struct mg_graph *g,
                             const struct mg_plan *plan, const struct mg_onnx_model *known, struct mg_arena *arena,
                             struct mg_error *err)
{
    struct mg_export e = {
        .original = g, .g = mg_plan_graph(g, plan), .plan = plan, .known = known, .arena = arena, .w = w};
    struct call call = {format, &e};
    mg_writer_init(&e.scratch);
    enum mg_code code = mg_arena_guard(arena, write_guarded, &call, err);
    mg_writer_release(&e.scratch);
    return code;
}
