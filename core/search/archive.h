/* States kept: a pool of fixed-size slots, and the Pareto archive of all that was evaluated. */
#ifndef MG_SEARCH_ARCHIVE_H
#define MG_SEARCH_ARCHIVE_H

#include "search/state.h"

/* A kept state. Slots live in a pool; `word` has room for the pool's capacity. */
struct mg_state {
    const struct mg_scheme *scheme;
    struct mg_cost cost;
    struct mg_hash128 hash;
    uint32_t users;               /* who holds it: archive, queues */
    uint32_t visits;              /* how often the search started from it */
    const struct mg_point *shown; /* what the observer was told of it, or NULL */
    struct mg_list list;
    struct mg_state *next_free, *next_made;
};

struct mg_pool {
    struct mg_arena *arena;
    struct mg_state *free, *all; /* slots without a user; slots that were made, by next_made */
    uint32_t capacity;           /* words of a list */
};
void mg_pool_init(struct mg_pool *pool, struct mg_arena *arena, uint32_t capacity);
struct mg_state *mg_pool_copy(struct mg_pool *pool, const struct mg_scheme *scheme, const struct mg_list *list,
                              struct mg_cost cost);              /* with one user */
void mg_pool_drop(struct mg_pool *pool, struct mg_state *state); /* one user less */

enum { MG_ARCHIVE_MAX = 1024 };
/* Ascending latency, strictly descending peak. A newcomer within 0.05 % of a point in both figures
 * is dropped, unless it has the smallest latency or peak of all. */
struct mg_archive {
    struct mg_state *state[MG_ARCHIVE_MAX + 1];
    uint32_t count;
};
/* True if the state entered; it then holds a copy. */
bool mg_archive_offer(struct mg_archive *archive, struct mg_pool *pool, const struct mg_scheme *scheme,
                      const struct mg_list *list, struct mg_cost cost);
/* Would a state of that cost enter? */
bool mg_archive_wants(const struct mg_archive *archive, struct mg_cost cost);
/* The point of smallest peak with latency at most `latency`; NULL if none. */
struct mg_state *mg_archive_within(const struct mg_archive *archive, double latency);
/* The point of smallest latency with peak at most `peak`; NULL if none. */
struct mg_state *mg_archive_under(const struct mg_archive *archive, uint64_t peak);

#endif
