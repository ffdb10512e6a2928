/* The state of a walk over a plan, and what its files share. Private to walk_*.c. */
#ifndef MG_EXEC_WALK_PRIV_H
#define MG_EXEC_WALK_PRIV_H

#include "exec/walk_plan.h"

enum { MG_RUN_DEPTH = 16 };

/* A box of a value: where it begins in the whole value, and its extents. */
struct mg_run_box {
    int64_t lo[MG_MAX_RANK];
    struct mg_shape shape;
};
struct mg_holding { /* what an instance holds at this moment */
    bool alive;
    struct mg_run_box box;
    uint32_t depth; /* regions open around it: in these its box is a part's */
    int64_t at;     /* of the first element */
    int64_t stride[MG_MAX_RANK];
};
struct mg_run_copy {
    bool there;
    struct mg_run_box box;
    uint32_t depth; /* regions open when it was stored: it ends with their part */
};
struct mg_open_region {
    uint32_t region, part;
};
struct mg_runner {
    const struct mg_graph *original;
    const struct mg_graph *g; /* the one that the steps are over */
    const struct mg_plan *plan;
    const struct mg_plan_visitor *visitor;
    mg_op *origin; /* by operator: the original's of that name, by which random numbers are drawn (R8) */
    uint64_t seed;
    struct mg_arena *arena;
    struct mg_holding *holdings; /* by instance */
    struct mg_run_copy *host;    /* by value */
    uint32_t *acc;               /* by instance: the acc step that combines it, or MG_NONE */
    const uint32_t **member;     /* [region][op]: index into region->ops, or MG_NONE */
    struct mg_open_region open[MG_RUN_DEPTH];
    uint32_t depth;
    uint32_t step;
    struct mg_error *err;
};

static inline uint32_t mg_run_in(const struct mg_runner *run, const struct mg_step *step, uint32_t i)
{
    return run->plan->refs[step->in + i];
}

static inline uint32_t mg_run_out(const struct mg_runner *run, const struct mg_step *step, uint32_t i)
{
    return run->plan->refs[step->out + i];
}

/* ---- boxes and instances (walk_box.c) ---- */
enum mg_code mg_run_refuse(struct mg_runner *run, const char *what);
/* The cuts of `op` under the first `depth` open regions that contain it. A region nested on the same
 * axis cuts the parent's extent further. */
uint32_t mg_run_cuts_of(const struct mg_runner *run, mg_op op, uint32_t depth, struct mg_cut *cuts);
void mg_run_box_whole(const struct mg_runner *run, mg_value value, struct mg_run_box *box);
/* The box of operand (or result) `slot` of `op` under the first `depth` open regions. */
void mg_run_box_of(const struct mg_runner *run, mg_op op, bool is_result, uint32_t slot, uint32_t depth,
                   struct mg_run_box *box);
uint32_t mg_run_element_size(const struct mg_runner *run, mg_value value);
enum mg_code mg_run_act(struct mg_runner *run, struct mg_action *action);
enum mg_code mg_run_allocate(struct mg_runner *run, uint32_t instance, const struct mg_run_box *box);
/* The instance's view operators from its base on, nearest to the base last. */
uint32_t mg_run_view_chain(const struct mg_runner *run, uint32_t instance, const mg_op **chain);
/* What the instance holds; for views, what follows from its base and the view operators, cut as the base is. */
enum mg_code mg_run_resolve(struct mg_runner *run, uint32_t instance, struct mg_holding *out);
/* The place of a box of an instance that is read. */
enum mg_code mg_run_find_read(struct mg_runner *run, uint32_t instance, const struct mg_run_box *box,
                              struct mg_located *out);
/* And of one that is written. */
enum mg_code mg_run_find_written(struct mg_runner *run, uint32_t instance, const struct mg_run_box *box,
                                 struct mg_located *out);
uint64_t mg_run_box_bytes(const struct mg_located *box);

/* ---- steps (walk_step.c) ---- */
enum mg_code mg_run_steps(struct mg_runner *run, uint32_t from, uint32_t to);

#endif
