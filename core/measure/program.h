/* A plan made ready for one engine: operators prepared, addresses resolved, copies and waits in order. It is executed
 * literally in one arena of the stated size (plan/MODEL.md), with guards on both sides. */
#ifndef MG_MEASURE_PROGRAM_H
#define MG_MEASURE_PROGRAM_H

#include "measure/measure.h"
#include "plan/plan.h"

struct mg_program;

/* MG_ERR_NOMEM where the arena does not fit, MG_ERR_UNSUPPORTED where the engine cannot run an operator,
 * MG_ERR_REJECTED where the plan's boxes are wrong. Graph and plan may go afterwards. */
enum mg_code mg_program_build(struct mg_engine *engine, const struct mg_graph *original, const struct mg_plan *plan,
                              uint64_t seed, struct mg_program **out, struct mg_error *err) MG_WARN_UNUSED;
void mg_program_free(struct mg_program *program);

/* Puts weights and inputs where the plan begins with them; given: by value of the original, dense (as for
 * mg_exec_graph). To be called before each run. */
enum mg_code mg_program_load(struct mg_program *program, double *const *given, struct mg_error *err) MG_WARN_UNUSED;
/* Executes it once; seconds from the first action to the last one's end. MG_ERR_REJECTED: it wrote outside its arena.
 */
enum mg_code mg_program_run(struct mg_program *program, double *seconds, struct mg_error *err) MG_WARN_UNUSED;
/* Arrays of every output and updated value (by value of the original, NULL elsewhere), memory from `arena`. */
enum mg_code mg_program_results(struct mg_program *program, double **results, struct mg_arena *arena,
                                struct mg_error *err) MG_WARN_UNUSED;

struct mg_program_facts {
    uint64_t peak_bytes;  /* most bytes of storages alive at once, counted as they were allocated and freed */
    uint64_t arena_bytes; /* up to the last byte of the last storage */
    uint64_t host_bytes;  /* of host copies that the plan stores */
    uint32_t operators;   /* distinct ones */
    uint64_t actions;
};
void mg_program_facts(const struct mg_program *program, struct mg_program_facts *out);
/* What the run takes by measured operators: each distinct one timed alone under `policy`, copies too, then summed along
 * the list as S4 says for a device whose copies are on the compute stream. Operators that cannot be timed are an error.
 * MG_ERR_CANCELLED: not all were timed by mg_measure_clock() `until` (INFINITY: no matter when); those that were are
 * not timed again. */
enum mg_code mg_program_predict(struct mg_program *program, const struct mg_time_policy *policy, double until,
                                double *seconds, struct mg_error *err) MG_WARN_UNUSED;

#endif
