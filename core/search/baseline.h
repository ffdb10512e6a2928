/* What people do without a search: uniform micro-batching (microbatch.h) and sublinear memory (sublinear.h), as
 * checked points that a front is compared with. */
#ifndef MG_SEARCH_BASELINE_H
#define MG_SEARCH_BASELINE_H

#include "search/searcher.h"

/* Evaluates and publishes every baseline, tells the observer, and leaves in s->hand what micro-batching costs.
 * One that the graph does not allow says why, and so does one for which there is not time enough: of the seconds that
 * are left when the baselines begin, a point is begun only if it is likely to end in the first sixth (sublinear) or
 * third (micro-batching); where seconds only end the search, as long as there is time at all. */
void mg_baselines(struct mg_searcher *s, struct mg_search_result *out);

#endif
