/* Numbers for the weights and inputs of a graph that is to be executed. */
#ifndef MG_SERVER_FILL_H
#define MG_SERVER_FILL_H

#include "formats/onnx.h"
#include "graph/graph.h"

enum mg_fill { MG_FILL_NORMAL, MG_FILL_LCG, MG_FILL_ZEROS, MG_FILL_SPREAD };
int mg_fill_parse(const char *name); /* normal, lcg, zeros, spread; else -1 */
/* By value, NULL where it is computed. Normal: reals of the normal distribution, whole numbers 0 and 1. Spread: the
 * same, but indices lie anywhere in what they choose from, as is due where a run is timed. `model` may be NULL:
 * initialisers have its data. Inside a guard on `arena`. */
double **mg_fill_values(const struct mg_graph *g, const struct mg_onnx_model *model, enum mg_fill fill, uint64_t seed,
                        struct mg_arena *arena);

#endif
