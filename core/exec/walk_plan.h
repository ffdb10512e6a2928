/* A plan as what it does, literally (plan/MODEL.md: S1-S6, R1-R9): each step, part by part, with the box of the arena
 * that every operand and result is. Whoever executes plans, on numbers or on a device, is a visitor of this walk; the
 * walk itself touches no memory but finds what is wrong with a plan's boxes: MG_ERR_REJECTED names the step. */
#ifndef MG_EXEC_WALK_PLAN_H
#define MG_EXEC_WALK_PLAN_H

#include "exec/exec.h"

/* A box in the arena. */
struct mg_located {
    enum mg_dtype dtype;
    struct mg_shape shape;
    uint64_t offset;             /* bytes, of the first element */
    int64_t stride[MG_MAX_RANK]; /* elements */
};
enum mg_action_kind {
    MG_ACTION_GIVEN,    /* `value` of the original is in out[0] from the start, or (no out) in the host's copy `copy` */
    MG_ACTION_ALLOCATE, /* [out[0].offset, + bytes) is a storage from here on */
    MG_ACTION_COMPUTE,  /* op on in, to out; slices and joins are `copy` operators, an acc is the combiner's operator */
    MG_ACTION_STORE,    /* in[0], dense, to the host's copy `copy` */
    MG_ACTION_LOAD,     /* the host's copy `copy` to out[0], dense */
    MG_ACTION_FREE,     /* [out[0].offset, + bytes) holds nothing any more */
    MG_ACTION_RESULT,   /* at the end: `value` of the original is in in[0], or (no in) in the host's copy `copy` */
};
struct mg_action {
    enum mg_action_kind kind;
    uint32_t step;    /* MG_NONE: none */
    bool accumulates; /* an acc step's addition */
    const struct mg_op_desc *op;
    const struct mg_located *in, *out; /* as many as the operator's; else as said above */
    struct mg_exec_origin origin;      /* COMPUTE */
    uint64_t bytes; /* ALLOCATE, FREE: of the storage; GIVEN, STORE, LOAD, RESULT: of the value's box */
    mg_value value, copy;
};
struct mg_plan_visitor {
    void *context;
    enum mg_code (*act)(void *context, const struct mg_action *action, struct mg_error *err);
};
/* Walks the plan inside a guard of `arena`. What is allocated there during an action other than STORE is gone after
 * its step. `original`: the graph that the plan is of; `seed`: of random numbers. */
enum mg_code mg_exec_walk(const struct mg_graph *original, const struct mg_plan *plan, uint64_t seed,
                          const struct mg_plan_visitor *visitor, struct mg_arena *arena,
                          struct mg_error *err) MG_WARN_UNUSED;
/* A refusal that points at the action's step. */
enum mg_code mg_action_refuse(const struct mg_action *action, struct mg_error *err, const char *what);

#endif
