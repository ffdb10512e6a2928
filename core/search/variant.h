/* The graph with all algebraic rewrites that pay (search.md 5), as a second problem for the search. */
#ifndef MG_SEARCH_VARIANT_H
#define MG_SEARCH_VARIANT_H

#include "search/problem.h"

/* *out stays NULL where no rewrite is allowed, or none pays. `original` is the original's problem. */
enum mg_code mg_variant_build(const struct mg_problem *original, const struct mg_search_options *options,
                              struct mg_arena *arena, struct mg_problem **out, struct mg_error *err) MG_WARN_UNUSED;

#endif
