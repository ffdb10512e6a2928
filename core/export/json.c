/* magis-plan/1. The plan of a captured step carries its program, {"graph", "shapes"}: the edited graph as
 * magis-graph/1, whose `source` is the digest of the captured step, and the shape of each value. magis_apply.py runs a
 * plan with nothing else; mg_plan_read passes over it, since it follows from graph and edits. */
#include "export/export_priv.h"
#include "formats/formats.h"

static void write_shapes(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_begin_object(w);
    for (size_t v = 0; v < g->value_count; v++) {
        mg_write_key(w, g->values[v].name);
        mg_write_begin_array(w);
        for (uint32_t d = 0; d < g->values[v].shape.rank; d++)
            mg_write_int(w, g->values[v].shape.dim[d]);
        mg_write_end_array(w);
    }
    mg_write_end_object(w);
}

enum mg_code mg_write_json(struct mg_export *e)
{
    struct mg_writer text, program;
    struct mg_graph shown = *e->g;
    if (!e->original->source) {
        mg_plan_write(e->w, e->original, e->plan);
        return MG_OK;
    }
    shown.source = e->original->source;
    mg_writer_init(&text);
    mg_writer_init(&program);
    mg_plan_write(&text, e->original, e->plan);
    mg_write_begin_object(&program);
    mg_write_key(&program, "graph");
    mg_graph_write(&program, &shown);
    mg_write_key(&program, "shapes");
    write_shapes(&program, &shown);
    mg_write_end_object(&program);
    if (mg_writer_finish(&text) && mg_writer_finish(&program))
        mg_write_text(e->w, "%.*s,\"program\":%s}", (int)text.size - 1, text.data, program.data);
    else
        e->w->failed = true;
    mg_writer_release(&text);
    mg_writer_release(&program);
    return MG_OK;
}
