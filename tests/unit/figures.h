/* The figures of figures.def: how their networks are built and what a front is worth. For test_figures,
 * `make accept` and benchmarks. */
#ifndef MG_TESTS_FIGURES_H
#define MG_TESTS_FIGURES_H

#include "search/search.h"

struct figure_floors {
    double peak_110, peak_105; /* GB at latency ratio <= 1.10, <= 1.05 */
    double ratio;              /* of latency, at the peak of figure_network.at_peak */
    double worst;              /* peak / best uniform micro-batching, at any of its points */
};
struct figure_network {
    const char *name, *options; /* "key=value,..." beside variant=paper */
    double original_gb, original_s;
    double at_peak; /* GB */
    double rate;    /* evaluations per second of processor time, at least; 0: none */
    struct figure_floors timed, counted;
};
extern const struct figure_network figure_networks[];
extern const uint32_t figure_network_count;
extern const uint64_t figure_evaluations; /* after which `counted` holds */

struct figures {
    struct figure_floors found;
    double worst_at;               /* latency ratio at which found.worst is */
    double hand_110, hand_105;     /* GB, uniform micro-batching */
    double original_gb, latency_s; /* of the original */
};

/* NULL if there is none of that name. */
const struct figure_network *figure_network_find(const char *name);
/* The normalised training step: squared loss, SGD. */
enum mg_code figure_graph(const struct figure_network *network, struct mg_arena *arena, struct mg_graph **out,
                          struct mg_error *err) MG_WARN_UNUSED;
struct figures figures_of(const struct figure_network *network, const struct mg_search_result *result);
/* One line with found and floors on stdout; true if all hold and the checker refused nothing. */
bool figures_print(const struct figure_network *network, const struct figure_floors *floors,
                   const struct mg_search_result *result);

#endif
