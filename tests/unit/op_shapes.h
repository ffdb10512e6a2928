/* Cases of operators in other shapes: sizes are drawn anew, one after another, and kept where the operator still takes
 * its operands. Equal sizes may be one and the same dimension, so several of them change together. */
#ifndef TESTS_OP_SHAPES_H
#define TESTS_OP_SHAPES_H

#include <string.h>

#include "op_cases.h"

enum { SHAPE_DRAWS = 120, SHAPE_CHANGES = 4, SHAPE_MOST = 1000 /* elements of an operand or result */ };

static inline uint64_t shape_random(uint64_t *state, uint64_t below)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

/* The places of a case that hold sizes: of operands, and in attributes. Ones broadcast, or say that a dimension is not
 * there: they stay. */
static inline uint32_t shape_places(struct op_case *c, int64_t **place, struct mg_arena *arena)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        for (uint32_t d = 0; d < c->in[i].rank; d++)
            if (c->in[i].dim[d] > 1)
                place[count++] = &c->in[i].dim[d];
    for (uint32_t i = 0; i < c->attr_count; i++) {
        struct mg_attr *attr = &c->attrs[i];
        bool sizes = attr->key == MG_ATTR_SHAPE || attr->key == MG_ATTR_SPATIAL || attr->key == MG_ATTR_SPLIT ||
                     attr->key == MG_ATTR_KERNEL_SHAPE || attr->key == MG_ATTR_ENDS;
        if (!sizes || attr->type != MG_ATTR_TYPE_INTS)
            continue;
        int64_t *list = mg_arena_copy(arena, attr->ints, attr->count * sizeof *list);
        attr->ints = list;
        for (uint32_t k = 0; k < attr->count; k++)
            if (list[k] > 1)
                place[count++] = &list[k];
    }
    return count;
}

/* Does the operator take it (indices within range too), and is it neither empty nor large? */
static inline bool shape_fits(const struct op_case *c, struct mg_arena *arena)
{
    struct mg_error err;
    struct mg_graph *raw, *g;
    struct mg_arena_mark mark = mg_arena_mark(arena);
    bool fits = case_graph(c, arena, &raw, &err) == MG_OK && mg_graph_normalise(raw, arena, &g, &err) == MG_OK;
    for (mg_value v = 0; fits && v < g->value_count; v++) {
        int64_t count = mg_shape_elements(&g->values[v].shape);
        fits = count > 0 && count <= SHAPE_MOST;
    }
    fits = fits && mg_exec_graph(g, 1, mg_exec_random_values(g, 1, 3, arena), arena, &err) == MG_OK;
    mg_arena_rewind(arena, mark);
    return fits;
}

/* Draws one size anew: of some, one at least, of the places that hold the same number. */
static inline bool shape_draw(struct op_case *c, int64_t **place, uint32_t count, bool grows, uint64_t *state,
                              struct mg_arena *arena)
{
    int64_t old = *place[shape_random(state, count)], least = grows ? old : 2;
    int64_t size = least + (int64_t)shape_random(state, (uint64_t)(old + 3 - least));
    uint64_t chosen = shape_random(state, 3) ? shape_random(state, (uint64_t)1 << 32) : UINT64_MAX;
    uint64_t changed = 0;
    for (uint32_t i = 0; i < count; i++)
        if (*place[i] == old && chosen >> i % 64 & 1) {
            changed |= (uint64_t)1 << i % 64;
            *place[i] = size;
        }
    if (size != old && changed && shape_fits(c, arena))
        return true;
    for (uint32_t i = 0; i < count; i++)
        if (changed >> i % 64 & 1)
            *place[i] = old;
    return false;
}

/* Another shape for the case, memory from `arena`; false if none was found. */
static inline bool case_reshape(struct op_case *c, uint64_t *state, struct mg_arena *arena)
{
    int64_t *place[64];
    bool grows = false; /* indices were drawn for the sizes that the case has */
    uint32_t count = shape_places(c, place, arena), changed = 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        grows = grows || c->in[i].fill == FILL_INDEX;
    for (uint32_t i = 0; i < SHAPE_DRAWS && count && changed < SHAPE_CHANGES; i++)
        changed += shape_draw(c, place, count, grows, state, arena);
    return changed > 0;
}

/* What a failure is to say of a case. */
static inline const char *case_label(const struct op_case *c, uint32_t index, uint64_t seed, struct mg_arena *arena)
{
    const char *text =
        mg_arena_printf(arena, "%s (case %u, seed %llu:", mg_op_type_name(c->type), index, (unsigned long long)seed);
    for (uint32_t i = 0; i < c->in_count; i++)
        for (uint32_t d = 0; d < c->in[i].rank; d++)
            text = mg_arena_printf(arena, "%s%s%lld", text, d ? "x" : " ", (long long)c->in[i].dim[d]);
    return mg_arena_printf(arena, "%s)", text);
}

#endif
