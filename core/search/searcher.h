/* What all parts of one search share: problem, evaluator, archive, budget. */
#ifndef MG_SEARCH_SEARCHER_H
#define MG_SEARCH_SEARCHER_H

#include "plan/plan.h"
#include "search/archive.h"
#include "search/dimension.h"
#include "search/edit.h"
#include "search/schemes.h"

enum { MG_NO_ORDER = 256 };

/* A graph that the search works on, and what is sized for it. */
enum { MG_VARIANTS_MAX = 3 }; /* the original; with folds; with folds and joins (variant.h) */
struct mg_variant {
    struct mg_problem *p;
    struct mg_dimensions *dimensions;
    struct mg_evaluator evaluator;
    struct mg_spans spans;
};

struct mg_searcher {
    const struct mg_search_options *options;
    const struct mg_observer *observer;
    const struct mg_graph *g; /* the original */
    struct mg_variant variants[MG_VARIANTS_MAX];
    uint32_t variant_count;
    /* of the variant entered last */
    struct mg_problem *p;
    struct mg_dimensions *dimensions;
    struct mg_evaluator evaluator;
    struct mg_spans spans;
    /* of all */
    struct mg_arena *arena;   /* lives as long as the search */
    struct mg_arena *scratch; /* rewound by whoever takes from it */
    struct mg_gap *gaps;
    struct mg_archive archive;
    struct mg_check_memo memo;
    struct mg_pool pool;
    struct mg_rng rng;
    struct mg_cost original;
    uint64_t original_arena;
    struct mg_cost *hand; /* what uniform micro-batching costs, by number of parts */
    uint32_t hand_count;
    uint64_t evaluations;
    uint32_t restored;    /* states that earlier plans gave */
    uint64_t next_look;   /* evaluations at which the clock is read again */
    uint32_t look_stride; /* evaluations between looks */
    double started, looked, stopped, last_report;
    uint32_t unshown;       /* states that came into the archive since the observer was last shown all it wants */
    uint32_t showings;      /* how often it was shown what is new, */
    uint32_t shown_last;    /* and how many points the last time */
    double prepared;        /* seconds from the start to the baselines */
    double publish_seconds; /* what publishing one plan takes: rises at once, falls slowly */
    bool stop;
    enum mg_stopped_by stopped_by;
    uint64_t *live; /* live bytes per step of the list that a descent stands on */
    struct mg_list trial, best;
    uint64_t *best_live;
    uint64_t no_order[MG_NO_ORDER]; /* hashes of surroundings of a peak that re-ordering did not help */
    struct mg_schemes schemes;
};

/* Builds problems, dimensions and scratch of a searcher whose options, observer, arena and scratch are
 * set; both arenas must be guarded. The search's seconds begin. The original is entered; what else there is to
 * enter is left out once the search stops. mg_searcher_release ends it. */
enum mg_code mg_searcher_init(struct mg_searcher *s, const struct mg_graph *g, struct mg_error *err) MG_WARN_UNUSED;
void mg_searcher_release(struct mg_searcher *s);

/* Makes this variant's problem the one that all below is about. States name theirs: scheme->p. */
void mg_searcher_enter(struct mg_searcher *s, const struct mg_problem *p);

/* Places copies, evaluates, offers to the archive. Counts one evaluation; once the search stops it does
 * nothing, and the cost is worse than any. */
struct mg_cost mg_searcher_try(struct mg_searcher *s, const struct mg_scheme *scheme, struct mg_list *list);

/* The scheme of these regions, built once; NULL if they are not legal (then *why says so, if given). */
const struct mg_scheme *mg_searcher_scheme(struct mg_searcher *s, const struct mg_region *specs, uint32_t count,
                                           struct mg_error *why);

/* Reads the clock, which only raises the flag: false once the search stops. mg_searcher_try looks by
 * itself; what takes longer than that between two evaluations calls it. */
bool mg_searcher_look(struct mg_searcher *s);

/* The same for what evaluates nothing: no budget of evaluations cuts it short, only time and who cancels. */
bool mg_searcher_has_time(struct mg_searcher *s);

/* The same, and if a limit in seconds is shared: does what takes `seconds` more end within that share of them? */
bool mg_searcher_fits(struct mg_searcher *s, double share, double seconds);

/* Tells the observer how far the search is (at most every quarter of a second). */
void mg_searcher_report(struct mg_searcher *s);

struct mg_list mg_list_new(struct mg_arena *arena, uint32_t capacity);
void mg_list_copy(struct mg_list *to, const struct mg_list *from);

/* ---- descent: edits that bring the peak of a list down to `target` (descend.c) ---- */
struct mg_descent {
    const struct mg_scheme *scheme;
    struct mg_list *list; /* in and out */
    struct mg_cost cost;  /* of list, in and out */
    uint64_t target;      /* bytes */
    double latency_cap;   /* give up beyond it */
    uint32_t noise;       /* 0: always the best of the tried edits; n: one of the best n + 1 */
};
/* True if the target was reached. Every list on the way is offered to the archive. */
bool mg_descend(struct mg_searcher *s, struct mg_descent *d);

/* May the root be swapped at all under this scheme? */
bool mg_may_swap(const struct mg_searcher *s, const struct mg_scheme *scheme, uint32_t root);

/* Takes back recomputations and swaps that the peak does not need: latency falls, the peak stays at
 * most `cap`. */
void mg_polish(struct mg_searcher *s, struct mg_descent *d, uint64_t cap);

#endif
