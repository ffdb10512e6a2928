/* An application of a rule as the texts of an edit. */
#include <string.h>

#include "base/json.h"
#include "graph/rewrite_priv.h"

static void write_ops(struct mg_writer *w, const struct mg_graph *g, const mg_op *ops, uint32_t count)
{
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < count; i++)
        mg_write_string(w, g->ops[ops[i]].name);
    mg_write_end_array(w);
}

static void write_binding(struct mg_writer *w, const struct mg_graph *g, const struct mg_rewrite_app *app)
{
    mg_write_begin_object(w);
    mg_write_key(w, "ops");
    write_ops(w, g, app->ops, app->op_count);
    mg_write_end_object(w);
}

static void write_removed(struct mg_writer *w, const struct mg_graph *g, const struct mg_rewrite_app *app)
{
    write_ops(w, g, app->removed, app->removed_count);
}

static void write_added(struct mg_writer *w, const struct mg_graph *g, const struct mg_rewrite_app *app)
{
    (void)g;
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < app->added_count; i++)
        mg_write_string(w, app->added[i]);
    mg_write_end_array(w);
}

typedef void writer_of(struct mg_writer *w, const struct mg_graph *g, const struct mg_rewrite_app *app);

/* The text's size; the text itself into `room`, if given. 0: no memory. */
static size_t write_text(const struct mg_graph *g, const struct mg_rewrite_app *app, writer_of *write, char *room)
{
    struct mg_writer w;
    mg_writer_init(&w);
    write(&w, g, app);
    size_t size = mg_writer_finish(&w) ? w.size : 0;
    if (size && room)
        memcpy(room, w.data, size);
    mg_writer_release(&w);
    return size;
}

/* Written twice, so that no allocation of the arena's can jump past a writer. */
static const char *text_of(struct mg_rewrite_source *s, const struct mg_rewrite_app *app, writer_of *write)
{
    size_t size = write_text(s->g, app, write, NULL);
    char *text = mg_arena_alloc(s->arena, size + 1);
    return size && write_text(s->g, app, write, text) == size ? text : NULL;
}

enum mg_code mg_rewrite_record(struct mg_rewrite_source *s, const struct mg_rewrite_app *app, struct mg_edit *out,
                               struct mg_error *err)
{
    out->rule = app->rule->name;
    out->binding = text_of(s, app, write_binding);
    out->removed = text_of(s, app, write_removed);
    out->added = text_of(s, app, write_added);
    return out->binding && out->removed && out->added ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "no memory for an edit");
}
