/* The graph with the algebraic rewrites that pay, as a further problem for the search. */
#ifndef MG_SEARCH_VARIANT_H
#define MG_SEARCH_VARIANT_H

#include "search/searcher.h"

/* Of the searcher's original. *out stays NULL where no rewrite is allowed, or none pays, or the search stops before it
 * is known. With `joins` those rewrites too that trade memory for time; *out stays NULL where none of them pays. */
enum mg_code mg_variant_build(struct mg_searcher *s, bool joins, struct mg_problem **out,
                              struct mg_error *err) MG_WARN_UNUSED;

#endif
