/* What a file holds that somebody named as a graph or a plan. */
#ifndef MG_SERVER_GRAPH_FILE_H
#define MG_SERVER_GRAPH_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

enum mg_held {
    MG_HELD_NOTHING, /* it is empty */
    MG_HELD_BYTES,   /* no text: an ONNX model, or what else it may be */
    MG_HELD_TEXT,    /* no JSON: err says why and where */
    MG_HELD_JSON,    /* neither graph nor plan */
    MG_HELD_GRAPH,
    MG_HELD_PLAN
};

/* Text as opposed to an ONNX model, which has control characters at its very beginning. */
bool mg_graph_file_is_text(const char *data, size_t size);
/* By its beginning, at most a MiB: for when something is wrong with it. Within a guard of the arena. */
enum mg_held mg_graph_file_holds(const char *data, size_t size, struct mg_arena *arena, struct mg_error *err);

#endif
