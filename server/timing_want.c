#include "server/timing_want.h"

#include "search/forecast.h"

void mg_timing_wants_of(const struct mg_graph *g, const struct mg_device *device, struct mg_arena *arena,
                        struct mg_timing_want **wants, size_t *count)
{
    struct mg_forecast *all;
    size_t n, whole = 0;
    mg_forecast_build(g, device, arena, &all, &n);
    while (whole < n && all[whole].whole)
        whole++;
    size_t most = whole > MG_TIMING_GRAPH_WANTS ? whole : MG_TIMING_GRAPH_WANTS;
    *count = n < most ? n : most;
    *wants = MG_NEW_ARRAY(arena, struct mg_timing_want, *count);
    for (size_t i = 0; i < *count; i++)
        (*wants)[i] = (struct mg_timing_want){all[i].op,    all[i].signature, all[i].key,
                                              all[i].value, all[i].seconds,   all[i].whole};
}
