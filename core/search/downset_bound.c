/* What every order of a down-set must hold, whatever the scheduler does: the lower bound of its peak. */
#include <string.h>

#include "search/downset.h"

void mg_ordering_close(const struct mg_ordering *o, struct mg_set *ancestors, struct mg_set *descendants)
{
    memset(ancestors, 0, o->count * sizeof *ancestors);
    memset(descendants, 0, o->count * sizeof *descendants);
    for (uint32_t i = 0; i < o->count; i++)
        for (uint32_t at = 0, q = mg_set_next(&o->pred[i], &at); q != MG_NONE; q = mg_set_next(&o->pred[i], &at)) {
            mg_set_add(&ancestors[i], q);
            mg_set_unite(&ancestors[i], &ancestors[q]);
        }
    for (uint32_t i = o->count; i-- > 0;)
        for (uint32_t at = 0, q = mg_set_next(&o->pred[i], &at); q != MG_NONE; q = mg_set_next(&o->pred[i], &at)) {
            mg_set_add(&descendants[q], i);
            mg_set_unite(&descendants[q], &descendants[i]);
        }
}

struct bound {
    const struct mg_ordering *o;
    struct mg_set *ancestors, *descendants, *readers;
    uint32_t *maker; /* per instance; MG_NONE: from before */
};

static bool alive_in_every_order(const struct bound *b, uint32_t x, uint32_t step)
{
    bool began = b->maker[x] == MG_NONE || b->maker[x] == step || mg_set_has(&b->ancestors[step], b->maker[x]);
    return began && (b->o->after[x] || b->maker[x] == step || mg_set_has(&b->readers[x], step) ||
                     mg_sets_meet(&b->readers[x], &b->descendants[step]));
}

static uint64_t most_lent(const struct bound *b, uint32_t step)
{
    const struct mg_ordering *o = b->o;
    uint64_t most = 0;
    for (uint32_t k = o->reuse.start[step]; k < o->reuse.start[step + 1]; k++) {
        uint32_t x = o->reuse.item[k];
        if (!o->after[x] && !mg_sets_meet(&b->readers[x], &b->descendants[step]) && o->bytes[x] > most)
            most = o->bytes[x];
    }
    return most;
}

static void bound_init(struct bound *b, const struct mg_ordering *o, struct mg_arena *scratch)
{
    b->o = o;
    b->ancestors = MG_NEW_ARRAY(scratch, struct mg_set, o->count);
    b->descendants = MG_NEW_ARRAY(scratch, struct mg_set, o->count);
    b->readers = MG_NEW_ARRAY(scratch, struct mg_set, o->instances);
    b->maker = MG_NEW_ARRAY(scratch, uint32_t, o->instances);
    memset(b->maker, 0xff, o->instances * sizeof *b->maker);
    mg_ordering_close(o, b->ancestors, b->descendants);
    for (uint32_t i = 0; i < o->count; i++) {
        for (uint32_t k = o->makes.start[i]; k < o->makes.start[i + 1]; k++)
            b->maker[o->makes.item[k]] = i;
        for (uint32_t k = o->reads.start[i]; k < o->reads.start[i + 1]; k++)
            mg_set_add(&b->readers[o->reads.item[k]], i);
    }
}

uint64_t mg_ordering_bound(const struct mg_ordering *o, uint64_t enough, struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct bound b;
    uint64_t best = 0;
    bound_init(&b, o, scratch);
    for (uint32_t i = 0; i < o->count && best < enough; i++) {
        uint64_t here = o->base + o->extra[i] - most_lent(&b, i);
        for (uint32_t x = 0; x < o->instances; x++)
            if (alive_in_every_order(&b, x, i))
                here += o->bytes[x];
        if (here > best)
            best = here;
    }
    mg_arena_rewind(scratch, mark);
    return best;
}
