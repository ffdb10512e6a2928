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

/* What the evaluator asks about the memory of a step, side by side and without a loop: most steps have no
 * more operands than this. Unused places hold the root `value_count`, which has no bytes. */
enum { MG_STEP_READS = 2, MG_STEP_REUSE = 2 };
struct mg_scheme_step {
    uint32_t reads[MG_STEP_READS];
    uint32_t def;
    uint32_t reuse[MG_STEP_REUSE];
    bool more;     /* it has more of them than places: the rows have them all */
    uint64_t temp; /* bytes live during the step only (acc temporaries, workspace) */
};

struct mg_scheme {
    struct mg_hash128 hash;
    struct mg_problem *p; /* whose operators and values it speaks of */
    struct mg_scheme_region *regions;
    uint32_t region_count;
    uint32_t *region_of;          /* per operator: innermost region or MG_NONE */
    uint32_t *home;               /* per root: region in whose body it is allocated and freed, or MG_NONE */
    uint8_t *mode;                /* per root that is a region output: mg_output_mode */
    uint8_t *is_region_output;    /* per root */
    uint64_t *bytes;              /* per root, and 0 for none: storage bytes of its instance (part 0) */
    struct mg_rows defs;          /* operator -> roots allocated at its step (region outputs are not) */
    struct mg_rows reuse;         /* operator -> operands whose storage its result may take where they end (S6) */
    struct mg_scheme_step *steps; /* per operator */
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
