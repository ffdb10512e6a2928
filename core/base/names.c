/* Open addressing, at most half full. */
#include "base/names.h"

#include <string.h>

#include "base/digest.h"

static uint64_t hash_of(const char *name)
{
    return mg_hash_bytes(name, strlen(name), 0).lo;
}

static size_t slot_of(const struct mg_names *names, const char *name, uint64_t hash)
{
    size_t at = (size_t)hash & (names->capacity - 1);
    while (names->slot[at].name && (names->slot[at].hash != hash || strcmp(names->slot[at].name, name) != 0))
        at = (at + 1) & (names->capacity - 1);
    return at;
}

static void grow(struct mg_names *names, struct mg_arena *arena)
{
    struct mg_names old = *names;
    names->capacity = old.capacity ? old.capacity * 2 : 4;
    names->slot = MG_NEW_ARRAY(arena, struct mg_name_slot, names->capacity);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slot[i].name)
            names->slot[slot_of(names, old.slot[i].name, old.slot[i].hash)] = old.slot[i];
}

void **mg_names_at(struct mg_names *names, struct mg_arena *arena, const char *name)
{
    uint64_t hash = hash_of(name);
    if (names->count * 2 >= names->capacity)
        grow(names, arena);
    struct mg_name_slot *slot = &names->slot[slot_of(names, name, hash)];
    names->count += !slot->name;
    slot->name = name;
    slot->hash = hash;
    return &slot->what;
}

void *mg_names_find(const struct mg_names *names, const char *name)
{
    return names->capacity ? names->slot[slot_of(names, name, hash_of(name))].what : NULL;
}
