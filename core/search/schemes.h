/* The schemes that a search has built: one stays for as long as a state goes by it, the others while there is room. A
 * scheme is built again as it was, so what is given back changes no result. */
#ifndef MG_SEARCH_SCHEMES_H
#define MG_SEARCH_SCHEMES_H

#include "search/archive.h"
#include "search/scheme.h"

struct mg_kept_scheme;
struct mg_known_scheme;

struct mg_schemes {
    struct mg_arena *arena; /* of the lists; pays for the schemes, each of which has an arena of its own */
    struct mg_kept_scheme *kept;
    size_t count, capacity;
    struct mg_known_scheme *known; /* a hash table of all that were asked for, those that are not legal too */
    size_t known_count, known_slots;
    size_t bytes, room; /* of all that are kept; beyond the room a sweep gives some back */
};

void mg_schemes_init(struct mg_schemes *all, struct mg_arena *arena);
void mg_schemes_release(struct mg_schemes *all);

/* The scheme of these regions, built once; NULL if they are not legal (then *why says so, if given). Scratch is
 * rewound. Memory that runs out unwinds to the guards of the arenas. */
const struct mg_scheme *mg_schemes_get(struct mg_schemes *all, struct mg_problem *p, const struct mg_region *specs,
                                       uint32_t count, struct mg_arena *scratch, struct mg_error *why);

/* Where nothing but states of the pool holds schemes: gives back what none of them goes by, if room is short. Schemes
 * without regions always stay. */
void mg_schemes_sweep(struct mg_schemes *all, const struct mg_pool *pool);

#endif
