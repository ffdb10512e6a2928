#include "search/schemes.h"

enum { FIRST_SLOTS = 256 };
#define MOST_BYTES ((size_t)64 << 20)

enum known { UNKNOWN, KEPT, REFUSED, FORGOTTEN };
struct mg_known_scheme {
    struct mg_hash128 hash;
    enum known what;
    uint32_t kept; /* KEPT: which */
};

struct mg_kept_scheme {
    struct mg_scheme *scheme;
    struct mg_arena arena;
    bool used; /* by a state; as the sweep finds it */
};

void mg_schemes_init(struct mg_schemes *all, struct mg_arena *arena)
{
    *all = (struct mg_schemes){.arena = arena, .room = MOST_BYTES};
}

void mg_schemes_release(struct mg_schemes *all)
{
    for (size_t i = 0; i < all->count; i++)
        mg_arena_release(&all->kept[i].arena);
    all->count = 0;
}

/* ---- what is known ---- */

/* The slot of a hash: the one that holds it, or the empty one where it belongs. */
static struct mg_known_scheme *slot_of(struct mg_known_scheme *known, size_t slots, struct mg_hash128 hash)
{
    size_t at = hash.lo & (slots - 1);
    while (known[at].what != UNKNOWN && (known[at].hash.lo != hash.lo || known[at].hash.hi != hash.hi))
        at = (at + 1) & (slots - 1);
    return &known[at];
}

static void grow(struct mg_schemes *all)
{
    size_t slots = all->known_slots ? 2 * all->known_slots : FIRST_SLOTS;
    struct mg_known_scheme *larger = MG_NEW_ARRAY(all->arena, struct mg_known_scheme, slots);
    for (size_t i = 0; i < all->known_slots; i++)
        if (all->known[i].what != UNKNOWN)
            *slot_of(larger, slots, all->known[i].hash) = all->known[i];
    all->known = larger;
    all->known_slots = slots;
}

static void remember(struct mg_schemes *all, struct mg_hash128 hash, enum known what, size_t kept)
{
    if (2 * (all->known_count + 1) > all->known_slots)
        grow(all);
    struct mg_known_scheme *slot = slot_of(all->known, all->known_slots, hash);
    all->known_count += slot->what == UNKNOWN;
    *slot = (struct mg_known_scheme){hash, what, (uint32_t)kept};
}

static struct mg_known_scheme recall(const struct mg_schemes *all, struct mg_hash128 hash)
{
    return all->known_slots ? *slot_of(all->known, all->known_slots, hash) : (struct mg_known_scheme){.what = UNKNOWN};
}

/* ---- schemes ---- */

/* Most are not legal: what is built in vain takes scratch memory only. */
static enum mg_code try_build(struct mg_problem *p, const struct mg_region *specs, uint32_t count,
                              struct mg_arena *scratch, struct mg_error *why)
{
    struct mg_scheme *ignored;
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    enum mg_code code = mg_scheme_build(p, specs, count, scratch, &ignored, why);
    mg_arena_rewind(scratch, mark);
    return code;
}

const struct mg_scheme *mg_schemes_get(struct mg_schemes *all, struct mg_problem *p, const struct mg_region *specs,
                                       uint32_t count, struct mg_arena *scratch, struct mg_error *why)
{
    struct mg_error ignored;
    struct mg_hash128 hash = mg_scheme_hash(p, specs, count);
    const struct mg_known_scheme known = recall(all, hash);
    if (known.what == KEPT)
        return all->kept[known.kept].scheme;
    if (known.what == REFUSED && !why)
        return NULL;
    if (try_build(p, specs, count, scratch, why ? why : &ignored) != MG_OK) {
        remember(all, hash, REFUSED, 0);
        return NULL;
    }
    struct mg_kept_scheme *kept = MG_PUSH(all->arena, all->kept, all->count, all->capacity);
    mg_arena_init_within(&kept->arena, all->arena);
    if (mg_scheme_build(p, specs, count, &kept->arena, &kept->scheme, why ? why : &ignored) != MG_OK) {
        mg_arena_release(&kept->arena);
        all->count--;
        return NULL;
    }
    all->bytes += kept->arena.used;
    remember(all, hash, KEPT, all->count - 1);
    return kept->scheme;
}

static void mark_used(struct mg_schemes *all, const struct mg_pool *pool)
{
    for (size_t i = 0; i < all->count; i++)
        all->kept[i].used = all->kept[i].scheme->region_count == 0;
    for (const struct mg_state *state = pool->all; state; state = state->next_made)
        for (size_t i = 0; i < all->count && state->users; i++)
            if (all->kept[i].scheme == state->scheme) {
                all->kept[i].used = true;
                break;
            }
}

void mg_schemes_sweep(struct mg_schemes *all, const struct mg_pool *pool)
{
    size_t left = 0;
    if (all->bytes <= all->room)
        return;
    mark_used(all, pool);
    all->bytes = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (all->kept[i].used) {
            all->bytes += all->kept[i].arena.used;
            remember(all, all->kept[i].scheme->hash, KEPT, left);
            all->kept[left++] = all->kept[i];
        } else {
            remember(all, all->kept[i].scheme->hash, FORGOTTEN, 0);
            mg_arena_release(&all->kept[i].arena);
        }
    }
    all->count = left;
    all->room = 2 * all->bytes > MOST_BYTES ? 2 * all->bytes : MOST_BYTES;
}
