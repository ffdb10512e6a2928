/* The graph with the algebraic rewrites that pay, as a further problem for the search. */
#ifndef MG_SEARCH_VARIANT_H
#define MG_SEARCH_VARIANT_H

#include "search/searcher.h"

/* Adds to the searcher's variants, behind the original, the graph with the rewrites that pay: without and with those
 * that trade memory for time. Neither where no rewrite is allowed, or none pays. Of the search's seconds they take a
 * share: a rewrite that has not been tried by then is passed over. A search that goes on from plans with rewrites has
 * theirs, untried: they were tried when these were made. */
enum mg_code mg_variants_build(struct mg_searcher *s, struct mg_error *err) MG_WARN_UNUSED;
/* Is the problem's graph the one that the plan's rewrites make? */
bool mg_variant_has(const struct mg_problem *p, const struct mg_plan *plan);

#endif
