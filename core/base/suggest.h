/* Which of several names was perhaps meant by a misspelled one. */
#ifndef MG_BASE_SUGGEST_H
#define MG_BASE_SUGGEST_H

/* Begins with {.text = ...}; then every name that there is; `best` is NULL where none is near. */
struct mg_suggestion {
    const char *text;
    const char *best;
    unsigned distance; /* of `best`, in letters changed, left out, added or swapped with their neighbour */
};
void mg_suggestion_consider(struct mg_suggestion *s, const char *name);

#endif
