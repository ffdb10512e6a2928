/* Best-first search: pop the best state of a target, apply every move, keep what is
 * better or nearly so. */
#ifndef MG_SEARCH_EXPAND_H
#define MG_SEARCH_EXPAND_H

#include "search/fission.h"
#include "search/front.h"

struct mg_queue; /* of one target */

struct mg_frontier {
    struct mg_queue *queue;
    uint32_t count;
    uint64_t *seen; /* hash table of visited states: pairs of words, 0 = empty */
    uint32_t seen_bits, seen_count;
    struct mg_list work;
};
void mg_frontier_init(struct mg_frontier *f, struct mg_searcher *s, const struct mg_target *targets, uint32_t count);

/* Pops and expands one state of the target's queue; refills an empty one from the archive.
 * False: nothing left that was not seen before. */
bool mg_frontier_expand(struct mg_frontier *f, struct mg_searcher *s, uint32_t target);

#endif
