/* The fission tree (MAGIS section 4.2, Algorithm 1): which sets of operators are worth
 * splitting, from the dominator tree of one dimension's subgraph and the values alive at the peak. */
#ifndef MG_SEARCH_TREE_H
#define MG_SEARCH_TREE_H

#include "base/arena.h"
#include "search/problem.h"

/* A subgraph in topological order, as the algorithm sees it. Node 0 is the entry (the input tensor,
 * or a virtual root over several). */
struct mg_flow {
    uint32_t count;
    struct mg_rows pred; /* node -> nodes before it; a node without any hangs under the entry */
    const uint64_t *hot; /* per node: bytes of its results that are alive at the peak */
    /* what nodes read: source s is made by node maker[s] (MG_NONE: outside), and costs `cold[s]` bytes
     * to hold where it is not alive at the peak anyway (0 if it is) */
    uint32_t sources;
    const uint32_t *maker;
    const uint64_t *cold;
    struct mg_rows readers; /* source -> nodes that read it */
};

struct mg_dominators {
    uint32_t *parent; /* immediate dominator; MG_NONE for the entry */
    double *heat;     /* bytes alive at the peak strictly under the node */
    double *score;    /* heat / 2 - cold inputs of what is strictly under it */
};
void mg_dominators_build(const struct mg_flow *flow, struct mg_arena *arena, struct mg_dominators *out);

/* Marks the nodes whose strict descendants become candidates: in each of the bands
 * i / bands <= score / best < (i + 1) / bands, i >= 1, those without another of the band below them;
 * the best is a band of its own. Returns how many. */
uint32_t mg_dominators_choose(const struct mg_flow *flow, const struct mg_dominators *d, uint32_t bands,
                              struct mg_arena *scratch, uint8_t *chosen);
/* Is `node` strictly under `above`? */
bool mg_dominators_under(const struct mg_dominators *d, uint32_t node, uint32_t above);

/* The next part count in the list of mg_part_counts for that length (`up`: larger); `parts` itself if
 * there is none. */
uint32_t mg_parts_next(int64_t length, uint32_t parts, bool up);
/* The list itself: divisors of the length together with 2..8, 10, 12, 16, 24, 32, ..., ascending. */
enum { MG_PARTS_MAX = 64 };
uint32_t mg_part_counts(int64_t length, uint32_t counts[MG_PARTS_MAX]);

#endif
