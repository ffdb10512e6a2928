/* What a plan holds in memory over time, by kind, and what it does: JSON for the page. */
#ifndef MG_SERVER_TIMELINE_H
#define MG_SERVER_TIMELINE_H

#include "plan/plan.h"

/* {"peak_bytes", "latency_s", "steps", "kinds": [names], "points": [[start_s, bytes of each kind ...], ...],
 *  "peak": {"at_s", "step"}, "hot": [{"name", "kind", "bytes", "shape", "dtype", "producer", "op", "module"}, ...],
 *  "hot_count", "hot_groups": [{"name", "module", "op", "kind", "count", "bytes"}, ...], "regions": [{..., "first",
 *  "first_module", "last", "last_module"}], "recomputed": [{"name", "op", "module", "times", "bytes"}],
 *  "swapped": [the same of values]}. "module" is the path of the module that the operator is in, "" where the graph
 * tells none. A group is what one type of operator makes in such modules, called by their path; elsewhere it is called
 * by its values, and "module" and "op" are "". Numbers in which its members differ are *.
 * Inside an mg_arena_guard() on `scratch`. */
enum mg_code mg_timeline_write(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                               struct mg_arena *scratch, struct mg_error *err) MG_WARN_UNUSED;
/* The members "hot_count", "hot" and "hot_groups" alone: values alive at the peak of a simulated plan, largest first,
 * at most `most`. */
void mg_timeline_write_hot(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                           const struct mg_simulation *simulation, size_t most, struct mg_arena *scratch);

enum mg_memory_kind {
    MG_MEMORY_WEIGHTS,
    MG_MEMORY_ACTIVATIONS,
    MG_MEMORY_GRADIENTS,
    MG_MEMORY_WORKSPACE,
    MG_MEMORY_OTHER,
    MG_MEMORY_KINDS
};
/* For every step the live bytes of each kind: an array of step_count * MG_MEMORY_KINDS. */
uint64_t *mg_timeline_by_kind(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena);

#endif
