/* A hash table from texts (kept by the caller) to pointers. */
#ifndef MG_BASE_NAMES_H
#define MG_BASE_NAMES_H

#include "base/arena.h"

struct mg_names {
    struct mg_name_slot {
        const char *name;
        void *what;
        uint64_t hash;
    } * slot;
    size_t capacity, count;
};
/* What a name stands for, NULL at first; the name is added if it is not there. Valid until the next one is added. */
void **mg_names_at(struct mg_names *names, struct mg_arena *arena, const char *name);
void *mg_names_find(const struct mg_names *names, const char *name); /* NULL if unknown */

#endif
