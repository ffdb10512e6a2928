/* Fission as moves: candidates from the fission tree of every dimension, and what enable, lift,
 * disable and mutate make of a state's regions (MAGIS section 4.2). */
#ifndef MG_SEARCH_FISSION_H
#define MG_SEARCH_FISSION_H

#include "search/searcher.h"
#include "search/tree.h"

enum { MG_FISSION_BANDS = 4, MG_FISSION_MAX = 64 };

/* Candidate regions (parts = 2) for a list whose live bytes per step are `live`; all legal alone.
 * Regions live in s->arena and are remembered by their operators, so that asking again is cheap. */
uint32_t mg_fission_candidates(struct mg_searcher *s, const struct mg_scheme *scheme, const struct mg_list *list,
                               const uint64_t *live, struct mg_region out[MG_FISSION_MAX]);

/* The schemes one tree move away from `scheme`, from small steps (mutate) to large ones (lift). */
enum { MG_FISSION_MOVES_MAX = 4 * MG_FISSION_MAX };
uint32_t mg_fission_moves(struct mg_searcher *s, const struct mg_scheme *scheme, const struct mg_region *candidates,
                          uint32_t count, const struct mg_scheme *out[MG_FISSION_MOVES_MAX]);

/* The list of `to` in the order of `list` (of another scheme), with those recomputations and swaps
 * that still have a place; without any if they do not fit together. False: regions wait for each other. */
bool mg_fission_transplant(struct mg_searcher *s, const struct mg_list *list, const struct mg_scheme *to,
                           struct mg_list *out);

#endif
