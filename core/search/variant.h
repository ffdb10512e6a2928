/* The graph with the algebraic rewrites that pay, as a further problem for the search. */
#ifndef MG_SEARCH_VARIANT_H
#define MG_SEARCH_VARIANT_H

#include "search/problem.h"

/* *out stays NULL where no rewrite is allowed, or none pays. `original` is the original's problem. With `joins` those
 * rewrites too that trade memory for time; *out stays NULL where none of them pays. */
enum mg_code mg_variant_build(const struct mg_problem *original, const struct mg_search_options *options, bool joins,
                              struct mg_arena *arena, struct mg_problem **out, struct mg_error *err) MG_WARN_UNUSED;

#endif
