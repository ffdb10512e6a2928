/* The graph with the algebraic rewrites that pay, as a further problem for the search. */
#ifndef MG_SEARCH_VARIANT_H
#define MG_SEARCH_VARIANT_H

#include "graph/rewrite.h"
#include "search/searcher.h"

struct mg_variant_input {
    const struct mg_graph *g;
    const struct mg_device *device;
    struct mg_pricer *pricer;       /* or NULL: the model alone */
    const uint32_t *forbidden;      /* per operator: not 0 if a constraint names it; or NULL */
    bool (*goes_on)(void *context); /* asked before each rewrite is tried; or NULL */
    void *context;
};
/* The edits that pay, in `arena`. *count stays 0 where none does, or where `goes_on` said no before it was known. With
 * `joins` those rewrites too that trade memory for time; *count stays 0 where none of them pays. */
enum mg_code mg_variant_choose(const struct mg_variant_input *in, bool joins, struct mg_arena *arena,
                               struct mg_edit **edits, uint32_t *count, struct mg_error *err) MG_WARN_UNUSED;

/* Of the searcher's original, by mg_variant_choose. *out stays NULL where no rewrite is allowed, or none is chosen. */
enum mg_code mg_variant_build(struct mg_searcher *s, bool joins, struct mg_problem **out,
                              struct mg_error *err) MG_WARN_UNUSED;

#endif
