/* Rematerialization by segments (Chen, Xu, Zhang, Guestrin 2016): a baseline, and seeds
 * of the search. */
#ifndef MG_SEARCH_SUBLINEAR_H
#define MG_SEARCH_SUBLINEAR_H

#include "search/searcher.h"

/* Segments of about `budget` bytes of forward results; what crosses a border is kept, the rest is
 * recomputed segment by segment in the backward pass. Writes the list; *borders and *largest (may be
 * NULL) receive the bytes kept at borders and those of the largest segment, the last included. False:
 * the graph has no backward pass. */
bool mg_sublinear_segments(struct mg_searcher *s, uint64_t budget, struct mg_list *out, uint64_t *borders,
                           uint64_t *largest);
/* Keeps the results of contractions, recomputes only cheap operators (activations, normalisation, pooling). */
bool mg_sublinear_cheap(struct mg_searcher *s, struct mg_list *out);

/* The budgets that the authors' tool tries: three rounds of B = sqrt(kept * largest / 2) from B = 0, then
 * six steps from the smallest local size to sqrt(2) B. Returns how many. */
enum { MG_SUBLINEAR_BUDGETS = 9 };
uint32_t mg_sublinear_budgets(struct mg_searcher *s, struct mg_list *scratch, uint64_t out[MG_SUBLINEAR_BUDGETS]);

#endif
