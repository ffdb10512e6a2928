/* What the files that compile a scheme share. */
#ifndef MG_SEARCH_SCHEME_PRIV_H
#define MG_SEARCH_SCHEME_PRIV_H

#include "search/scheme.h"

/* The last step of mg_scheme_build: which roots a step allocates and which operands it may take over, and with them
 * its records. Regions, modes, homes, bytes and the steps' `temp` must be known. */
void mg_scheme_fill_steps(const struct mg_problem *p, struct mg_scheme *scheme, struct mg_arena *arena);

#endif
