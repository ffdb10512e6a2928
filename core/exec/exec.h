/* The reference executor: operators, graphs and plans on real numbers.
 *
 * Everything is computed in double precision whatever the dtype says (integers and booleans are
 * doubles with whole values; casts to real dtypes narrower than f32 round), slowly and readably: the oracle that
 * gradients, iteration axes and plans are tested against. Kernels and this folder may use libm; nothing else of the
 * core may. */
#ifndef MG_EXEC_EXEC_H
#define MG_EXEC_EXEC_H

#include "graph/graph.h"
#include "plan/plan.h"

/* A strided box of doubles; element (i0, i1, ...) lies at data[i0 * stride[0] + i1 * stride[1] + ...]. */
struct mg_tensor {
    double *data;
    struct mg_shape shape;
    int64_t stride[MG_MAX_RANK];
};
/* A dense row-major tensor over `data`. */
struct mg_tensor mg_tensor_dense(double *data, const struct mg_shape *shape);
/* Gathers a tensor into a dense row-major array, and the reverse. */
void mg_tensor_pack(const struct mg_tensor *tensor, double *dense);
void mg_tensor_unpack(const struct mg_tensor *tensor, const double *dense);

/* Where the first result of a call lies in the whole operator's result: random numbers are indexed
 * by (seed, origin operator, index in the unsplit output), rule R8. */
struct mg_exec_origin {
    uint64_t seed;
    mg_op op;
    struct mg_shape whole;
    int64_t lo[MG_MAX_RANK];
};

/* Runs one operator. in / out: in_count and out_count tensors of the shapes that `op` states.
 * Operands are read completely before a result is written, so they may share memory. */
enum mg_code mg_exec_op(const struct mg_op_desc *op, const struct mg_tensor *in, const struct mg_tensor *out,
                        const struct mg_exec_origin *origin, struct mg_arena *scratch,
                        struct mg_error *err) MG_WARN_UNUSED;

/* Runs a normalised graph operator by operator, every value in an array of its own (nothing in
 * place, no views). values[v]: dense array of value v; the caller sets those of inputs, weights,
 * states and constants, the call sets all computed ones (memory from `arena`). */
enum mg_code mg_exec_graph(const struct mg_graph *g, uint64_t seed, double **values, struct mg_arena *arena,
                           struct mg_error *err) MG_WARN_UNUSED;

/* Arrays for every value that is not computed, filled with reproducible numbers: reals in
 * [0.5, 1.5) with a random sign for inputs and weights, positive for states, small non-negative
 * whole numbers below `classes` for integer values. */
double **mg_exec_random_values(const struct mg_graph *g, uint64_t seed, int64_t classes, struct mg_arena *arena);

/* Executes a plan literally: one arena of the stated size (one slot for each byte, divided by the
 * dtypes' common size), the stated offsets, regions part by part, host copies for stores. Fresh and
 * freed storage holds poison, the arena is guarded at both ends; reading poison, an instance that is not alive, or a
 * box that an instance does not hold fails with MG_ERR_REJECTED and names the step. `given`: as for mg_exec_graph,
 * computed values are ignored. results[v] receives the final array of every graph output and of every updated weight
 * and state, NULL elsewhere. */
enum mg_code mg_exec_plan(const struct mg_graph *g, const struct mg_plan *plan, uint64_t seed, double *const *given,
                          double **results, struct mg_arena *arena, struct mg_error *err) MG_WARN_UNUSED;

/* Runs graph and plan on the same random numbers and compares all outputs and updated values.
 * *difference: the largest |a - b| / max(1, |a|). */
enum mg_code mg_exec_compare(const struct mg_graph *g, const struct mg_plan *plan, uint64_t seed, int64_t classes,
                             double *difference, struct mg_arena *arena, struct mg_error *err) MG_WARN_UNUSED;

#endif
