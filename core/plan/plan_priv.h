/* Geometry of parts, shared by builder, simulator and the plan's reader (not by the checker). */
#ifndef MG_PLAN_PRIV_H
#define MG_PLAN_PRIV_H

#include "plan/plan.h"

enum { MG_MAX_NEST = 8 };

/* One part of one region: its index, its bounds (in units of the region's length, absolute where an
 * enclosing region splits the same axis), and whether it has the larger extent (0) or the smaller (1). */
struct mg_part {
    uint32_t region, index, size_class;
    int64_t lo, hi;
};
/* A place inside regions: one part for each enclosing region, outermost first. */
struct mg_nest {
    uint32_t depth;
    struct mg_part part[MG_MAX_NEST];
};

/* The operator's entry in the region, or NULL. Entries ascend by operator. */
const struct mg_region_op *mg_region_find(const struct mg_region *region, mg_op op);
/* Regions enclosing `region` and itself, outermost first; returns how many (MG_MAX_NEST + 1: too deep). */
uint32_t mg_region_chain(const struct mg_region *regions, uint32_t region, uint32_t chain[MG_MAX_NEST]);
/* The region's length at this place (R11: within the parent's part). */
int64_t mg_nest_length(const struct mg_region *regions, const struct mg_nest *nest, uint32_t region);
/* Enters part `index` of `region`, the parent of which is the innermost of the nest. */
void mg_nest_enter(const struct mg_region *regions, struct mg_nest *nest, uint32_t region, uint32_t index);
/* First part of the class with the smaller extent, or the number of parts if all are equal. */
uint32_t mg_nest_second_class(const struct mg_region *regions, const struct mg_nest *nest, uint32_t region);
/* One nest for each distinct tuple of extents under `region` and those enclosing it, in order of first
 * occurrence; MG_NONE gives the one empty nest. The array is in the arena. */
const struct mg_nest *mg_nest_tuples(const struct mg_region *regions, uint32_t region, struct mg_arena *arena,
                                     uint32_t *count);
bool mg_nest_same_tuple(const struct mg_nest *a, const struct mg_nest *b);

/* How the operator is cut at this place: at most one cut for each axis (inner regions win). */
uint32_t mg_nest_cuts(const struct mg_region *regions, const struct mg_nest *nest, mg_op op,
                      struct mg_cut cuts[MG_MAX_NEST]);
/* The box of result (or operand) `slot` of the operator at this place. */
void mg_nest_out_box(const struct mg_graph *g, const struct mg_region *regions, const struct mg_nest *nest, mg_op op,
                     uint32_t slot, int64_t lo[MG_MAX_RANK], struct mg_shape *shape);
void mg_nest_in_box(const struct mg_graph *g, const struct mg_region *regions, const struct mg_nest *nest, mg_op op,
                    uint32_t slot, int64_t lo[MG_MAX_RANK], struct mg_shape *shape);
/* Part 0 of the region and of all that enclose it. */
void mg_nest_first(const struct mg_region *regions, uint32_t region, struct mg_nest *nest);

/* Is result `slot` of the operator without the region's axis (R6)? */
bool mg_region_reduces(const struct mg_graph *g, const struct mg_region *region, mg_op op, uint32_t slot);

/* ---- memory by position in the list (S3), for simulator and placement ---- */
struct mg_interval {
    uint32_t lower, upper; /* live at steps [lower, upper); lower is MG_NONE for a storage without instance */
    uint32_t made_by;      /* MG_NONE: there before step 0 */
};
const struct mg_interval *mg_plan_intervals(const struct mg_plan *plan, struct mg_arena *arena); /* by storage */
uint64_t mg_step_workspace(const struct mg_plan *plan, const struct mg_step *step);

/* ---- reading and writing ---- */
const char *mg_step_name(enum mg_step_kind kind);
enum mg_step_kind mg_step_from_name(const char *name);            /* MG_STEP_ACC + 1 if unknown */
enum mg_price_source mg_price_source_from_name(const char *name); /* MG_PRICE_EXACT + 1 if unknown */
/* Indices, counts and nesting: what simulator and placement take for granted (inside a guard). */
enum mg_code mg_plan_well_formed(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                                 struct mg_error *err) MG_WARN_UNUSED;

/* ---- prices: each distinct (name, signature) once (price.c) ---- */
struct mg_price_table {
    struct mg_price *prices;
    size_t count, capacity;
    uint32_t *slots; /* open addressing, MG_NONE = empty */
    size_t slot_count;
    char *text; /* the signature under construction */
    size_t size, text_capacity;
};
struct mg_pricing {
    const struct mg_graph *g;
    const struct mg_device *device;
    struct mg_pricer *pricer; /* or NULL: the model */
};
/* Each returns the index of the price. mg_price_op fails only if the operator cannot be cut so. */
uint32_t mg_price_op(struct mg_price_table *table, const struct mg_pricing *pricing, mg_op op,
                     const struct mg_cut *cuts, uint32_t cut_count, struct mg_arena *arena, struct mg_error *err);
/* name: "store", "load", "slice", "join" or "acc". */
uint32_t mg_price_copy(struct mg_price_table *table, const struct mg_device *device, const char *name,
                       enum mg_dtype dtype, const struct mg_shape *shape, struct mg_arena *arena);

#endif
