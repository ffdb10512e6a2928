/* The graph as the search sees it: only operators that cost something, values by the storage they
 * share, dependencies as index lists. Built once per search, immutable afterwards except for the
 * price cache.
 *
 * A *root* is a value that owns storage: views and in-place results map to the root they share.
 * Resident roots (weights, state, constants) are always live and appear in no list. */
#ifndef MG_SEARCH_PROBLEM_H
#define MG_SEARCH_PROBLEM_H

#include "base/digest.h"
#include "search/search.h"

/* Rows of indices: row i is item[start[i] .. start[i + 1]). */
struct mg_rows {
    uint32_t *start;
    uint32_t *item;
};

enum mg_value_flag {
    MG_VALUE_RESIDENT = 1,
    MG_VALUE_INPUT = 2,
    MG_VALUE_OUTPUT = 4, /* a graph output lives in this storage: never freed */
    MG_VALUE_PINNED = 8, /* several values share it in place: neither recomputed nor swapped */
};

/* One way to cut an operator, and what it then costs. */
struct mg_cut_price {
    double seconds;
    uint64_t workspace;    /* bytes, unrounded */
    uint64_t out_bytes[4]; /* per result, unrounded; operators with more results use `more` */
    const uint64_t *more;
};

struct mg_problem {
    const struct mg_graph *g;
    /* Where g is no original: what it was made of (search/variant.h). */
    const struct mg_graph *original;
    const struct mg_edit *edits;
    uint32_t edit_count;
    uint32_t variant; /* number among the problems of one search; 0: the original */
    const struct mg_device *device;
    struct mg_pricer *pricer; /* or NULL: the model */
    struct mg_arena *arena;
    uint32_t op_count, value_count;
    uint32_t *root;       /* per value */
    uint32_t *dense;      /* per root that is not resident: its number among those, in graph order */
    uint32_t dense_count; /* also the number of no root: what is kept by number has a place for it */
    uint8_t *value_flags; /* per value (of roots) */
    uint64_t *bytes;      /* per root: storage bytes, rounded up */
    uint8_t *computes;    /* per operator: has a step (is no view) */
    uint8_t *repeatable;  /* per operator: may be recomputed */
    uint32_t *like;       /* per operator: the first that costs the same however it is cut, maybe itself */
    double *seconds;      /* per operator, whole */
    uint64_t *workspace;  /* per operator, whole: storage bytes while it runs */
    struct mg_rows reads; /* operator -> non-resident roots it reads, each once */
    struct mg_rows defs;  /* operator -> roots it makes */
    struct mg_rows pred;  /* operator -> operators that must stand before it (data, in-place order) */
    struct mg_rows succ;
    struct mg_rows updaters;     /* operator -> in-place updates of residents it reads: it must stand before them */
    struct mg_rows root_readers; /* root -> computing operators that read it */
    uint32_t *order;             /* computing operators in graph order */
    uint32_t order_count;
    uint32_t *forbidden;             /* per operator: mask of mg_technique */
    uint32_t *outputs, output_count; /* non-resident roots of graph outputs, each once */
    bool exact;                      /* numerics: reduced axes are not split */
    uint64_t resident_bytes;
    struct mg_cut_cache *cache;
};

/* In `arena`; takes from `scratch` what it gives back. */
enum mg_code mg_problem_build(const struct mg_graph *g, const struct mg_search_options *options, struct mg_arena *arena,
                              struct mg_arena *scratch, struct mg_problem **out, struct mg_error *err) MG_WARN_UNUSED;

/* Fills p->like (like.c). */
void mg_problem_find_likes(struct mg_problem *p, struct mg_arena *scratch);

/* Releases what lies outside the arena. */
void mg_problem_release(struct mg_problem *p);

/* Price and result sizes of an operator under cuts (seconds < 0: no such cut); cached by
 * (operator, axes, extents), where operators that differ in names and operands alone are one. */
const struct mg_cut_price *mg_problem_cut(struct mg_problem *p, mg_op op, const struct mg_cut *cuts, uint32_t count);

static inline uint64_t mg_cut_out_bytes(const struct mg_cut_price *price, uint32_t slot)
{
    return slot < 4 ? price->out_bytes[slot] : price->more[slot];
}

#endif
