/* What an agent should measure for a graph. */
#ifndef MG_SERVER_TIMING_WANT_H
#define MG_SERVER_TIMING_WANT_H

#include "device/device.h"
#include "store/timing_types.h"

/* The most valuable first, whole operators before parts; at most MG_TIMING_GRAPH_WANTS parts and wholes together, but
 * every whole one. Inside a guard; the graph is normalised. */
void mg_timing_wants_of(const struct mg_graph *g, const struct mg_device *device, struct mg_arena *arena,
                        struct mg_timing_want **wants, size_t *count);

#endif
