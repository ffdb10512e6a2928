/* Generators of well-known networks. */
#ifndef MG_ZOO_ZOO_H
#define MG_ZOO_ZOO_H

#include "graph/graph.h"

struct mg_zoo_option {
    const char *name;  /* "batch", "image", "seq_len", "variant", ... */
    const char *value; /* text as given */
};
struct mg_zoo_parameter { /* for listings */
    const char *name, *fallback, *help;
};
struct mg_zoo_entry {
    const char *name, *title;
    const struct mg_zoo_parameter *parameters;
    uint32_t parameter_count;
};
uint32_t mg_zoo_count(void);
const struct mg_zoo_entry *mg_zoo_at(uint32_t index);
/* The forward graph, not yet normalised; unknown names and options are errors that list what exists. */
enum mg_code mg_zoo_build(const char *name, const struct mg_zoo_option *options, uint32_t option_count,
                          struct mg_arena *arena, struct mg_graph **out, struct mg_error *err) MG_WARN_UNUSED;

#endif
