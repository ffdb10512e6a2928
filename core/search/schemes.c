#include "search/schemes.h"

#define MOST_BYTES ((size_t)64 << 20)

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

static bool are_equal(struct mg_hash128 a, struct mg_hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

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
    for (size_t i = 0; i < all->count; i++)
        if (are_equal(all->kept[i].scheme->hash, hash))
            return all->kept[i].scheme;
    for (size_t i = 0; i < all->refused_count && !why; i++)
        if (are_equal(all->refused[i], hash))
            return NULL;
    if (try_build(p, specs, count, scratch, why ? why : &ignored) != MG_OK) {
        *MG_PUSH(all->arena, all->refused, all->refused_count, all->refused_capacity) = hash;
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
            all->kept[left++] = all->kept[i];
        } else {
            mg_arena_release(&all->kept[i].arena);
        }
    }
    all->count = left;
    all->room = 2 * all->bytes > MOST_BYTES ? 2 * all->bytes : MOST_BYTES;
}
