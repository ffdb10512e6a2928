/* What the writers of formats share. */
#ifndef MG_EXPORT_EXPORT_PRIV_H
#define MG_EXPORT_EXPORT_PRIV_H

#include <string.h>

#include "export/export.h"

struct mg_export {
    const struct mg_graph *original, *g; /* g: the one that the plan's steps are over */
    const struct mg_plan *plan;
    const struct mg_onnx_model *known; /* or NULL */
    struct mg_arena *arena;
    struct mg_writer *w;
    struct mg_writer scratch; /* released by whoever calls the writer */
    struct mg_error *err;
};

/* What a plan of a captured step is run by (program.c). */
enum mg_code mg_write_program(struct mg_export *e, struct mg_writer *w);
enum mg_code mg_write_json(struct mg_export *e);
enum mg_code mg_write_torch(struct mg_export *e);
enum mg_code mg_write_checkpoint(struct mg_export *e);
enum mg_code mg_write_onnx(struct mg_export *e);
/* A model of at most that many bytes: contents of weights that find no room are left out, their values are inputs. */
enum mg_code mg_write_onnx_within(struct mg_export *e, uint64_t most);

/* The inside of a JSON string: all but letters, digits and a few signs becomes `escape`uXXXX, where `escape` is a
 * backslash, or two of them inside another string. */
void mg_write_ascii(struct mg_writer *w, const char *text, const char *escape);
/* A list of texts as a Python expression: json.loads("[...]"). */
void mg_write_python_list(struct mg_writer *w, const char *const *texts, size_t count);

#endif
