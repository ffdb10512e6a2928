/* A search state: a scheme and a list of steps. Nothing else: instances and frees are implied.
 *
 * A step is a 32-bit word: three bits of kind, the rest an index. Reading a root means reading its
 * latest instance; `compute` again makes a new instance (rematerialization); store .. free .. load
 * is a swap. Every instance is freed after its last reader, except a stored one, whose explicit
 * `free` says where (its place decides what waits for the copy: plan/MODEL.md S4, S8). */
#ifndef MG_SEARCH_STATE_H
#define MG_SEARCH_STATE_H

#include "base/digest.h"
#include "search/scheme.h"

typedef uint32_t mg_word;

enum mg_word_kind { MG_WORD_COMPUTE, MG_WORD_STORE, MG_WORD_LOAD, MG_WORD_FREE, MG_WORD_BEGIN, MG_WORD_END };
enum { MG_WORD_SHIFT = 29 };
/* On a free or load: stays at the last touch, right before the reader, whatever it makes wait. Where the
 * link is the bottleneck only this frees memory in time. */
#define MG_WORD_NOW (1u << 28)
#define MG_WORD(kind, index) (((mg_word)(kind) << MG_WORD_SHIFT) | (mg_word)(index))
static inline enum mg_word_kind mg_word_kind(mg_word w)
{
    return (enum mg_word_kind)(w >> MG_WORD_SHIFT);
}
static inline uint32_t mg_word_index(mg_word w)
{
    return w & (MG_WORD_NOW - 1);
}

struct mg_list { /* steps; the owner of `word` fixes the capacity */
    mg_word *word;
    uint32_t count, capacity;
};

struct mg_cost {
    double latency;
    uint64_t peak;
    uint64_t host;
};

/* Scratch of the evaluator: sized for one problem, reused for ever. What is kept per root goes by dense numbers
 * (problem.h) and has a place for none, too. */
struct mg_evaluator {
    const struct mg_problem *p;
    uint64_t *due;                        /* per root: the bytes that making it live would add: 0 where it is */
    uint64_t *live_at;                    /* per step of the list last evaluated (capacity steps) */
    double *ready[MG_SCHEME_VARIANTS];    /* per root: end of its last load, 0 before */
    double *host_end[MG_SCHEME_VARIANTS]; /* per root: end of its store */
    uint8_t *is_loaded;                   /* per root: has been loaded */
    uint32_t *loaded, loaded_count;       /* those roots: their `ready` is to be cleared */
    uint8_t *copied;                      /* per region, outermost ones: its body has copies */
    uint32_t *hosted;                     /* per root: the round in which its host bytes were counted */
    uint32_t host_round;
    uint64_t host;   /* bytes of distinct stored roots; a region's body counts once, with part 0's extents (S5) */
    bool keep_apart; /* nothing in place beyond what the graph says (what people do by hand) */
    uint32_t step_capacity;
};
void mg_evaluator_init(struct mg_evaluator *e, const struct mg_problem *p, struct mg_arena *arena,
                       uint32_t step_capacity);

/* Exact figures of a list (S3, S4, R2, R3), two linear passes. Fills e->live_at. */
struct mg_cost mg_evaluate(struct mg_evaluator *e, const struct mg_scheme *scheme, const struct mg_list *list);

/* The first step at the peak of the list last evaluated. (No free is: what it frees lives up to it.) */
uint32_t mg_peak_step(const struct mg_evaluator *e, const struct mg_list *list, uint64_t peak);

/* Is every read preceded by an instance, every body whole and contiguous, every old weight read
 * before its update? For debug builds and tests; `why` names the step. */
enum mg_code mg_list_check(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                           struct mg_arena *scratch, struct mg_error *why) MG_WARN_UNUSED;

/* The list of a scheme without recomputation and swaps, in the order of `order` (operators by
 * rank; NULL: graph order) as far as the regions allow. MG_ERR_INVALID: the regions wait for each
 * other (R10). */
enum mg_code mg_list_from_scheme(const struct mg_problem *p, const struct mg_scheme *scheme, const uint32_t *rank,
                                 struct mg_arena *scratch, struct mg_list *out, struct mg_error *why) MG_WARN_UNUSED;

struct mg_hash128 mg_list_hash(const struct mg_scheme *scheme, const struct mg_list *list);

#endif
