/* magis-plan/1. The plan of a captured step carries its program (program.c); mg_plan_read passes over it, since it
 * follows from graph, edits and regions. */
#include "export/export_priv.h"

enum mg_code mg_write_json(struct mg_export *e)
{
    struct mg_writer text, program;
    if (!e->original->source) {
        mg_plan_write(e->w, e->original, e->plan);
        return MG_OK;
    }
    mg_writer_init(&text);
    mg_writer_init(&program);
    mg_plan_write(&text, e->original, e->plan);
    enum mg_code code = mg_write_program(e, &program);
    if (code == MG_OK && mg_writer_finish(&text) && mg_writer_finish(&program))
        mg_write_text(e->w, "%.*s,\"program\":%s}", (int)text.size - 1, text.data, program.data);
    else if (code == MG_OK)
        e->w->failed = true;
    mg_writer_release(&text);
    mg_writer_release(&program);
    return code;
}
