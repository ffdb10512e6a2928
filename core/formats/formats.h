/* Reading and writing graphs. */
#ifndef MG_FORMATS_FORMATS_H
#define MG_FORMATS_FORMATS_H

#include "base/json.h"
#include "graph/graph.h"

/* Native JSON, magis-graph/1, or a captured PyTorch step, magis-aten/1: a built, not yet normalised
 * graph. Calls of a captured step that have no counterpart become opaque operators; the graph's `source` is the
 * document's digest. Also sets *training if the document asks for one (else training->loss is unset and *has_training
 * false). */
enum mg_code mg_graph_read(const char *json, size_t size, struct mg_arena *arena, struct mg_graph **out,
                           struct mg_training *training, bool *has_training, struct mg_error *err) MG_WARN_UNUSED;
/* Beside the published members, a training step carries what autodiff knew, so that nothing is lost on
 * the way to another process: "gradient_of" (a forward operator's name) on operators, and
 * "forward_ops", how many of the listed operators go forward. Both are read back. */
void mg_graph_write(struct mg_writer *w, const struct mg_graph *g);
void mg_graph_write_dot(struct mg_writer *w, const struct mg_graph *g);

#endif
