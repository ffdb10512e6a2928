/* The builder's body, for builder.c and builder_region.c. */
#ifndef MG_PLAN_BUILDER_PRIV_H
#define MG_PLAN_BUILDER_PRIV_H

#include "plan/builder.h"
#include "plan/plan_priv.h"

/* What the builder knows of an instance beyond the plan. */
struct mg_built {
    uint32_t scope;    /* innermost region in whose body it lives, MG_NONE outside all */
    uint32_t begun_by; /* region whose begin allocated it, or MG_NONE */
    bool written;      /* region outputs: has its producer been listed? */
    uint32_t views;    /* first view of it, MG_NONE if none; views chain through next_view */
    uint32_t next_view;
};
struct mg_built_slice {
    uint32_t from, region, local;
    int64_t lo[MG_MAX_RANK];
    struct mg_shape shape;
};
struct mg_tuples {
    const struct mg_nest *nests;
    uint32_t count;
};

struct mg_plan_builder {
    const struct mg_graph *g, *original;
    struct mg_device device;
    struct mg_pricer *pricer; /* or NULL: the model */
    struct mg_arena *arena;
    struct mg_error err; /* sticky */
    enum mg_numerics numerics;
    struct mg_price_table table;
    struct mg_edit *edits;
    size_t edit_count, edit_capacity;
    struct mg_region *regions;
    size_t region_count, region_capacity;
    struct mg_storage *storages;
    size_t storage_count, storage_capacity;
    bool *freed; /* by storage */
    size_t freed_count, freed_capacity;
    struct mg_instance *instances;
    size_t instance_count, instance_capacity;
    struct mg_built *built; /* by instance */
    size_t built_count, built_capacity;
    struct mg_step *steps;
    size_t step_count, step_capacity;
    uint32_t *refs;
    size_t ref_count, ref_capacity;
    bool *computed;           /* by operator: a step has run it */
    uint32_t *initial;        /* by value */
    uint32_t *open_output;    /* by value: a region output that waits for its producer, or MG_NONE */
    struct mg_tuples *tuples; /* by region + 1 */
    size_t tuple_count, tuple_capacity;
    struct mg_built_slice *slices;
    size_t slice_count, slice_capacity;
    uint32_t open; /* innermost open region, or MG_NONE */
};

bool mg_builder_failed(const struct mg_plan_builder *b);
void mg_builder_fail(struct mg_plan_builder *b, const char *fmt, ...) MG_PRINTF(2, 3);
uint32_t mg_builder_push_ref(struct mg_plan_builder *b, uint32_t ref);
/* Appends a step without operands; the caller pushes refs and fills the ranges. */
struct mg_step *mg_builder_push_step(struct mg_plan_builder *b, enum mg_step_kind kind, uint32_t op);
/* A new instance with a storage of its own, dense over `shape`. */
uint32_t mg_builder_new_instance(struct mg_plan_builder *b, mg_value value, const struct mg_shape *shape,
                                 uint32_t made_by, uint32_t scope);
/* Checks that the instance may be named by a step now. */
bool mg_builder_usable(struct mg_plan_builder *b, uint32_t instance);
/* `instance` itself, or its view that is the value `value`; MG_NONE after a failure. */
uint32_t mg_builder_resolve(struct mg_plan_builder *b, uint32_t instance, mg_value value);
/* A step that runs `op`, or stores an instance of `value`, comes next: its edit, if it is one (builder_edit.c). */
void mg_builder_list_compute(struct mg_plan_builder *b, mg_op op);
void mg_builder_list_store(struct mg_plan_builder *b, mg_value value);
const struct mg_tuples *mg_builder_tuples(const struct mg_plan_builder *b);

#endif
