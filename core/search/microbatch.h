/* Uniform micro-batching: the whole training step cut along the batch, the parts run one after the
 * other, gradients accumulated. What people do by hand: a baseline, and the first seeds of the search. */
#ifndef MG_SEARCH_MICROBATCH_H
#define MG_SEARCH_MICROBATCH_H

#include "search/searcher.h"
#include "search/tree.h"

/* The region of all operators that carry the batch axis, parts = 2. False: *why names the operator
 * that forbids it. */
bool mg_microbatch_region(struct mg_searcher *s, struct mg_region *out, struct mg_error *why);

#endif
