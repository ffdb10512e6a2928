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

static enum mg_code write_format(struct mg_writer *w, enum mg_export_format format, const struct mg_graph *g,
                                 const struct mg_plan *plan, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_writer text;
    struct mg_error why = {0};
    struct mg_arena_mark mark = mg_arena_mark(arena);
    mg_writer_init(&text);
    enum mg_code code = mg_export_write(format, &text, g, plan, NULL, arena, &why);
    mg_writer_release(&text);
    mg_arena_rewind(arena, mark);
    if (code != MG_OK && code != MG_ERR_UNSUPPORTED && code != MG_ERR_LIMIT)
        return mg_fail(err, code, why.pointer, "%s", why.message);
    mg_write_begin_object(w);
    mg_write_member_string(w, "format", mg_export_name(format));
    mg_write_member_string(w, "extension", mg_export_extension(format));
    mg_write_member_string(w, "media_type", mg_export_media_type(format));
    mg_write_member_bool(w, "available", code == MG_OK);
    mg_write_key(w, "reason");
    if (code == MG_OK)
        mg_write_null(w);
    else
        mg_write_string(w, why.message);
    mg_write_end_object(w);
    return MG_OK;
}

enum mg_code mg_export_write_formats(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                                     struct mg_arena *arena, struct mg_error *err)
{
    enum mg_code code = MG_OK;
    mg_write_begin_array(w);
    for (unsigned i = 0; i < MG_EXPORT_COUNT && code == MG_OK; i++)
        code = write_format(w, (enum mg_export_format)i, g, plan, arena, err);
    mg_write_end_array(w);
    return code;
}
