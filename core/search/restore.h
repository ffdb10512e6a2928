/* From plans back to states: a search goes on from what an earlier one published. */
#ifndef MG_SEARCH_RESTORE_H
#define MG_SEARCH_RESTORE_H

#include "search/searcher.h"

/* The state that the plan was published from, its variant entered; list->capacity bounds it. False: it is none of
 * this search: its rewrites are not those of a variant, a rule refuses its regions, or its steps say something else
 * than their words would. */
bool mg_restore(struct mg_searcher *s, const struct mg_plan *plan, const struct mg_scheme **scheme,
                struct mg_list *list);

/* Offers the starting plans of the options to the archive. Returns how many were states. */
uint32_t mg_restore_starts(struct mg_searcher *s, struct mg_list *list);

#endif
