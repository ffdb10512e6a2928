/* A scheme: a set of applied fission regions, compiled into the flat tables that the evaluator
 * reads. Scheme 0 has no regions. Schemes are shared by all states with the same regions.
 *
 * Time comes in three variants of the outermost part that a step runs in: 0 = the first part,
 * 1 = a later part of the larger extent, 2 = a part of the smaller extent. Outside regions only
 * variant 0 exists. (plan/MODEL.md R1-R6; a level of nesting is collapsed into `rest`.) */
#ifndef MG_SEARCH_SCHEME_H
#define MG_SEARCH_SCHEME_H

#include "plan/builder.h"
#include "search/problem.h"

enum { MG_SCHEME_VARIANTS = 3, MG_SCHEME_MAX_DEPTH = 2 };

struct mg_scheme_region {
    uint32_t parent, depth; /* depth 0: outermost */
    uint32_t parts;
    int64_t length;
    const struct mg_region_op *ops;
    uint32_t op_count;
    uint32_t *outputs, output_count; /* roots allocated at this region's begin */
    uint32_t *inputs, input_count;   /* roots from outside that its body reads */
    bool has_nested;
    uint32_t repeat[MG_SCHEME_VARIANTS]; /* outermost regions: parts of each variant; [0] = 1 */
};

/* What the evaluator asks about a step, side by side in half a cache line. Roots go by their dense numbers
 * (problem.h); an unused place holds the number of none. The few steps with more operands or results go on in further
 * records, until one says that no more follow. */
enum { MG_STEP_READS = 2 };
struct mg_scheme_step {
    uint32_t reads[MG_STEP_READS];
    uint32_t def;
    int8_t reuse[MG_STEP_READS]; /* masks: -1 if the result may take the storage of that operand (S6), else 0 */
    bool special;                /* has such an operand or goes on: one test spares most steps both questions */
    bool more;                   /* goes on */
    uint64_t def_bytes;          /* storage bytes of the result's instance (part 0), 0 for none */
    uint64_t temp; /* bytes live during the step only (acc temporaries, workspace); 0 in further records */
};

struct mg_scheme {
    struct mg_hash128 hash;
    struct mg_problem *p; /* whose operators and values it speaks of */
    struct mg_scheme_region *regions;
    uint32_t region_count;
    uint32_t *region_of;            /* per operator: innermost region or MG_NONE */
    uint32_t *home;                 /* per root: region in whose body it is allocated and freed, or MG_NONE */
    uint8_t *mode;                  /* per root that is a region output: mg_output_mode */
    uint8_t *is_region_output;      /* per root */
    uint64_t *bytes;                /* per root: storage bytes of its instance (part 0) */
    uint64_t *dense_bytes;          /* the same by dense number; none has 0 */
    struct mg_rows defs;            /* operator -> roots allocated at its step (region outputs are not) */
    struct mg_rows reuse;           /* operator -> operands whose storage its result may take where they end (S6) */
    struct mg_scheme_step *steps;   /* per operator */
    struct mg_scheme_step *further; /* where steps go on, one's records behind the other's */
    uint32_t *further_of;           /* per operator whose step goes on: the first of its further records */
    double *seconds[MG_SCHEME_VARIANTS]; /* per operator: in the first part of a nested region, acc included */
    double *rest[MG_SCHEME_VARIANTS];    /* per operator: in the other parts of a nested region */
    double *others;                      /* per operator: all later parts of the outermost region together */
    double *store_s[MG_SCHEME_VARIANTS], *load_s[MG_SCHEME_VARIANTS]; /* per root */
    uint64_t *host;                                                   /* per root: bytes in host memory when stored */
    const struct mg_region *specs;                                    /* what it was built from */
};

/* Compiles regions (parents before children). On MG_ERR_INVALID *why says which rule refuses. */
enum mg_code mg_scheme_build(struct mg_problem *p, const struct mg_region *specs, uint32_t count,
                             struct mg_arena *arena, struct mg_scheme **out, struct mg_error *why) MG_WARN_UNUSED;

/* The identity of a set of regions of that problem, whatever their order (hash of the scheme built from them). */
struct mg_hash128 mg_scheme_hash(const struct mg_problem *p, const struct mg_region *specs, uint32_t count);

#endif
