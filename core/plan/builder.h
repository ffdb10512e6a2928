/* Builds a struct mg_plan step by step: for the original, the baselines, the search and tests.
 *
 * The builder keeps a plan *well formed* (canonical instances, storages, prices and their
 * signatures, boxes of parts); whether it is *right* (order, versions, meaning) is the business of
 * the simulator's and above all the checker's eyes. Rules are those of MODEL.md.
 *
 * All memory comes from the arena, so every call except mg_plan_builder_finish must stand inside an
 * mg_arena_guard() on it. Errors are sticky: after the first one calls return MG_NONE or do nothing,
 * and mg_plan_builder_finish() reports it. Calls append to the list of steps in the order made.
 *
 *     struct mg_plan_builder *b = mg_plan_builder_new(g, device, arena);
 *     uint32_t x = mg_plan_builder_initial(b, value_x), h;
 *     mg_plan_builder_compute(b, op, &x, &h);
 *     mg_plan_builder_free(b, x);
 *     mg_plan_builder_finish(b, NULL, &plan, &err);    (simulates and places)
 *
 * Instances are named by index into plan->instances. Operands may be given as instances of the
 * operand's *base* value: the view that the operator reads is made (once) by the builder. */
#ifndef MG_PLAN_BUILDER_H
#define MG_PLAN_BUILDER_H

#include "plan/plan.h"

struct mg_plan_builder;

/* Resident values (home: device) and the graph inputs that somebody reads get their instances here,
 * in value order. Numerics: reassociate, unless set on the plan afterwards. */
struct mg_plan_builder *mg_plan_builder_new(const struct mg_graph *g, const struct mg_device *device,
                                            struct mg_arena *arena);
/* Prices operators from now on; NULL: by the model. It must outlive the builder. */
void mg_plan_builder_set_pricer(struct mg_plan_builder *b, struct mg_pricer *pricer);
/* The instance that is there before step 0, or MG_NONE (computed, unread, or at home on the host). */
uint32_t mg_plan_builder_initial(const struct mg_plan_builder *b, mg_value value);

/* ---- steps outside and inside regions ---- */
/* One instance per operand in `in`; `out` holds one entry per result: MG_NONE on entry makes a new
 * instance (in place where the graph says so: op.in_place, declared updates), an instance made by an
 * open region's begin is written directly (R5, R6 first parts aside). Results are returned in `out`. */
void mg_plan_builder_compute(struct mg_plan_builder *b, mg_op op, const uint32_t *in, uint32_t *out);
/* The same with an explicit choice: `in_place` is the operand whose storage the first result takes, or -1. */
void mg_plan_builder_compute_as(struct mg_plan_builder *b, mg_op op, const uint32_t *in, uint32_t *out,
                                int32_t in_place);
void mg_plan_builder_store(struct mg_plan_builder *b, uint32_t instance);
/* A new instance from the host copy that storing `stored` made. */
uint32_t mg_plan_builder_load(struct mg_plan_builder *b, uint32_t stored);
/* A new instance of a resident value whose home is the host. */
uint32_t mg_plan_builder_load_home(struct mg_plan_builder *b, mg_value value);
/* Ends the instance's storage. Never on a view. */
void mg_plan_builder_free(struct mg_plan_builder *b, uint32_t instance);

/* ---- regions ---- */
/* Declares a region (parents first); `ops` as struct mg_region wants them, copied. */
uint32_t mg_plan_builder_region(struct mg_plan_builder *b, uint32_t parent, int64_t length, uint32_t parts,
                                const struct mg_region_op *ops, uint32_t op_count);
/* The base values that operators of the region make and that someone outside reads, or that are graph
 * outputs (R5), by the graph alone; without those that are outputs of an enclosing region already and
 * without declared updates (R9). Returns the count; *values is in the arena. */
uint32_t mg_plan_builder_region_outputs(struct mg_plan_builder *b, uint32_t region, const mg_value **values);
/* Opens the region; `outs` receives the instances of its outputs, allocated whole (their box under
 * the regions enclosing this one). */
void mg_plan_builder_begin(struct mg_plan_builder *b, uint32_t region, const mg_value *outputs, uint32_t count,
                           uint32_t *outs);
void mg_plan_builder_end(struct mg_plan_builder *b, uint32_t region);

/* How a result of an operator reaches the region output `whole` (R5, R6). */
enum mg_output_mode {
    MG_OUTPUT_DIRECT, /* compute names `whole` as its result */
    MG_OUTPUT_JOIN,   /* compute into a new instance, then join */
    MG_OUTPUT_ACC,    /* compute into a new instance (the temporary), then acc, then free the temporary */
};
enum mg_output_mode mg_plan_builder_output_mode(struct mg_plan_builder *b, uint32_t whole);
void mg_plan_builder_join(struct mg_plan_builder *b, uint32_t local, uint32_t whole);
void mg_plan_builder_acc(struct mg_plan_builder *b, uint32_t temporary, uint32_t whole);
/* compute, and for every result that is a not yet written output of an open region whatever its mode
 * demands: written directly; or a local instance joined at once; or temporary, acc, free. `out`
 * receives the instance that later readers *in the body* name: the region output itself, or the local
 * one, which the caller frees after its last reader in the body (mg_plan_builder_is_local tells). */
void mg_plan_builder_run(struct mg_plan_builder *b, mg_op op, const uint32_t *in, uint32_t *out);
/* Operand `slot` of `op` in the open region, read from `instance`, which may come from outside: the
 * instance to name, after a `slice` step where R4 wants one (shared by readers of the same box while
 * the slice lives; the caller frees it after its last reader). */
uint32_t mg_plan_builder_operand(struct mg_plan_builder *b, mg_op op, uint32_t slot, uint32_t instance);
/* Was the (base of the) instance made in the body of the innermost open region, with a storage of its own? */
bool mg_plan_builder_is_local(const struct mg_plan_builder *b, uint32_t instance);
bool mg_plan_builder_same_storage(const struct mg_plan_builder *b, uint32_t a, uint32_t c);

/* ---- the rest ---- */
/* The builder's graph follows from `original` by these edits (their texts are copied), which become the plan's first
 * ones. Recomputations and swaps are listed behind them as their steps come. */
void mg_plan_builder_set_rewritten(struct mg_plan_builder *b, const struct mg_graph *original,
                                   const struct mg_edit *edits, size_t count);
void mg_plan_builder_set_numerics(struct mg_plan_builder *b, enum mg_numerics numerics);
/* Simulates and places: fills figures and offsets. `original` (may be NULL for the original itself)
 * becomes plan->original. The plan lives in the builder's arena. */
enum mg_code mg_plan_builder_finish(struct mg_plan_builder *b, const struct mg_figures *original, struct mg_plan **out,
                                    struct mg_error *err) MG_WARN_UNUSED;

#endif
