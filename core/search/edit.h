/* Edits of a list: recomputing a root after a gap, swapping it over a gap, taking either back, and
 * bringing the copies of a list to their best places (plan/MODEL.md S8).
 *
 * A *gap* of a root is a stretch of steps between two neighbouring touches of one instance; an edit
 * acts for all readers after the gap: moving one of several would cost time and save nothing. */
#ifndef MG_SEARCH_EDIT_H
#define MG_SEARCH_EDIT_H

#include "search/state.h"

/* Where every instance of a list begins and is read last: built in one pass, valid until the list changes. */
struct mg_span {
    uint32_t def;  /* step that makes it; MG_NONE: there from the start */
    uint32_t last; /* last step that reads it (a region's `end` for what its body reads) */
    uint32_t next; /* next span of the same root, later in the list, or MG_NONE */
};
struct mg_spans {
    uint32_t *head; /* per root: first span or MG_NONE */
    uint32_t *tail; /* per root */
    struct mg_span *span;
    uint32_t count, capacity;
    uint32_t *store;  /* per root: its store, or MG_NONE */
    uint32_t *loaded; /* per root: its last load (or free, if that comes later), or MG_NONE */
    uint32_t *level;  /* per step: innermost region around it; a begin or end belongs outside */
    uint32_t *first;  /* per operator: step that runs it first */
};
void mg_spans_init(struct mg_spans *s, const struct mg_problem *p, struct mg_arena *arena, uint32_t step_capacity);
void mg_spans_build(struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme,
                    const struct mg_list *list);
/* Is an instance of the root alive just before `step` (and still read at or after it)? */
bool mg_spans_alive(const struct mg_spans *s, uint32_t root, uint32_t step);

/* A root that stays alive across a step without being touched there. */
struct mg_gap {
    uint32_t root;
    uint32_t before; /* last touch at or before the step; MG_NONE: there from the start */
    uint32_t after;  /* next reader; a region's `begin` where its body reads the root */
};
/* The gaps across `step`, of roots that may be moved there. Returns how many; `gaps` holds value_count. */
uint32_t mg_gaps_at(const struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme,
                    const struct mg_list *list, uint32_t step, struct mg_arena *scratch, struct mg_gap *gaps);

enum { MG_CHAIN_MAX = 48 };
struct mg_chain {
    mg_op op[MG_CHAIN_MAX]; /* in the order to run them */
    uint32_t count;
    double seconds; /* all parts together */
};
/* The operators to run again before gap->after so that the root need not stay alive over the gap:
 * itself and, recursively, makers of operands that are not alive there. False: impossible, or too long. */
bool mg_chain_find(const struct mg_spans *s, const struct mg_problem *p, const struct mg_scheme *scheme,
                   const struct mg_gap *gap, struct mg_chain *out);

/* Edits write a whole new list to `out` (capacity checked; false: does not fit or not possible). */
bool mg_edit_remat(const struct mg_list *list, const struct mg_gap *gap, const struct mg_chain *chain,
                   struct mg_list *out);
/* `now`: with free and load that do not move (MG_WORD_NOW). */
bool mg_edit_swap(const struct mg_spans *s, const struct mg_list *list, const struct mg_gap *gap, bool now,
                  struct mg_list *out);
/* Takes back the marked recomputations and the swaps whose loads are marked. `undo`: one byte per
 * step, overwritten. The result may be illegal (mg_list_check). */
void mg_edit_undo(const struct mg_problem *p, const struct mg_list *list, uint8_t *undo, struct mg_arena *scratch,
                  struct mg_list *out);

/* Moves every free of a stored instance and every load to its place by S8, in the time of a run
 * that never waits. Scratch memory is rewound. */
void mg_edit_place_copies(const struct mg_evaluator *e, const struct mg_scheme *scheme, struct mg_list *list,
                          struct mg_arena *scratch);

#endif
