/* Small sets of steps, as bits. */
#ifndef MG_SEARCH_STEP_SET_H
#define MG_SEARCH_STEP_SET_H

#include "graph/graph.h"

enum { MG_SET_WORDS = 4, MG_SET_MAX = 64 * MG_SET_WORDS };

struct mg_set { /* of steps or units */
    uint64_t word[MG_SET_WORDS];
};

static inline void mg_set_add(struct mg_set *s, uint32_t i)
{
    s->word[i / 64] |= UINT64_C(1) << i % 64;
}

static inline bool mg_set_has(const struct mg_set *s, uint32_t i)
{
    return s->word[i / 64] >> i % 64 & 1;
}

static inline bool mg_set_within(const struct mg_set *a, const struct mg_set *b)
{
    uint64_t outside = 0;
    for (int w = 0; w < MG_SET_WORDS; w++)
        outside |= a->word[w] & ~b->word[w];
    return outside == 0;
}

static inline void mg_set_unite(struct mg_set *to, const struct mg_set *from)
{
    for (int w = 0; w < MG_SET_WORDS; w++)
        to->word[w] |= from->word[w];
}

static inline bool mg_sets_meet(const struct mg_set *a, const struct mg_set *b)
{
    uint64_t common = 0;
    for (int w = 0; w < MG_SET_WORDS; w++)
        common |= a->word[w] & b->word[w];
    return common != 0;
}

/* Iterates over the members of a set: calls of next with *from = 0, then untouched; MG_NONE at the end. */
static inline uint32_t mg_set_next(const struct mg_set *s, uint32_t *from)
{
    for (uint32_t w = *from / 64; w < MG_SET_WORDS; w++) {
        uint64_t rest = s->word[w];
        if (w == *from / 64)
            rest &= ~UINT64_C(0) << *from % 64;
        if (rest) {
            uint32_t i = 64 * w + (uint32_t)__builtin_ctzll(rest);
            *from = i + 1;
            return i;
        }
    }
    *from = MG_SET_MAX;
    return MG_NONE;
}

#endif
