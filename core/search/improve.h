/* The moves of a whole run: descents from every seed, then ruin and rebuild around the front. */
#ifndef MG_SEARCH_IMPROVE_H
#define MG_SEARCH_IMPROVE_H

#include "search/front.h"

/* Runs until s->stop. Publishes the front as it grows. */
void mg_improve(struct mg_searcher *s, struct mg_front *front);

#endif
