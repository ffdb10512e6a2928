/* What the writers of formats share. */
#ifndef MG_EXPORT_EXPORT_PRIV_H
#define MG_EXPORT_EXPORT_PRIV_H

#include <string.h>

#include "export/export.h"

struct mg_export {
    const struct mg_graph *original, *g; /* g: the one that the plan's steps are over */
    const struct mg_plan *plan;
    struct mg_arena *arena;
    struct mg_writer *w;
    struct mg_writer scratch; /* released by whoever calls the writer */
    struct mg_error *err;
};

enum mg_code mg_write_torch(struct mg_export *e);

#endif
