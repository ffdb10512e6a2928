/* Which operators a search of a graph will ask prices for, before it has been run: what measuring would help. */
#ifndef MG_SEARCH_FORECAST_H
#define MG_SEARCH_FORECAST_H

#include "base/digest.h"
#include "device/device.h"

struct mg_forecast {
    const char *op, *signature; /* signature.h */
    struct mg_hash128 key;
    double value;   /* seconds x uses: what measuring it is worth */
    double seconds; /* by the model */
    bool whole;     /* an operator of the graph itself; else a part of one, or what a rewrite makes of some */
};

/* Each signature once, whole ones first, among equals the most valuable first. In the graph, and in what rewrites
 * make of it, every operator and its parts: of each axis in the numbers of parts up to 64 that the search
 * moves through; of those that do not divide the axis, both extents, where few do. What is found until the room of 256
 * MiB of scratch runs out is enough. Inside a guard; the graph is normalised. */
void mg_forecast_build(const struct mg_graph *g, const struct mg_device *device, struct mg_arena *arena,
                       struct mg_forecast **out, size_t *count);

#endif
