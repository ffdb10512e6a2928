/* A plan made ready for one engine: operators prepared, addresses resolved, copies and waits in order. It is executed
 * literally in one arena of the stated size (plan/MODEL.md), with guards on both sides. */
#ifndef MG_MEASURE_PROGRAM_H
#define MG_MEASURE_PROGRAM_H

#include "measure/measure.h"
#include "plan/plan.h"

struct mg_program;

/* All programs of an engine, and the operators that are timed on it, take turns in one memory: what one computed is
 * gone when another is built, loaded, run or timed. MG_ERR_NOMEM where the arena does not fit, which may be so later
 * too, where others took the device's memory: loading, running and timing say so. MG_ERR_UNSUPPORTED where the engine
 * cannot run an operator, MG_ERR_REJECTED where the plan's boxes are wrong. Graph and plan may go afterwards. */
enum mg_code mg_program_build(struct mg_engine *engine, const struct mg_graph *original, const struct mg_plan *plan,
                              uint64_t seed, struct mg_program **out, struct mg_error *err) MG_WARN_UNUSED;
void mg_program_free(struct mg_program *program);

/* Puts weights and inputs where the plan begins with them; given: by value of the original, dense (as for
 * mg_exec_graph). To be called before each run. */
enum mg_code mg_program_load(struct mg_program *program, double *const *given, struct mg_error *err) MG_WARN_UNUSED;
/* From now on running and pricing ask now and then, between actions, whether to give up, and do where `stop` says so
 * (MG_ERR_CANCELLED). NULL: nobody is asked. */
void mg_program_stop_when(struct mg_program *program, bool (*stop)(void *context), void *context);
/* Executes it once, on what lies there where nothing was loaded; seconds from the first action to the last one's end.
 * MG_ERR_REJECTED: it wrote outside its arena.
 */
enum mg_code mg_program_run(struct mg_program *program, double *seconds, struct mg_error *err) MG_WARN_UNUSED;
/* Of the run just made; MG_ERR_INVALID where something else was loaded or timed since. Arrays of every output and
 * updated value (by value of the original, NULL elsewhere), memory from `arena`. */
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
/* Times of operators (with their layouts) and of copies, measured alone on one engine, for all programs on it: plans
 * can be compared only by one price of what they share. What a plan has just made or read its device's cache still
 * holds: an operator has up to five times, with operands that it used just before, that lie a sixteenth, a quarter
 * or half of the cache back, and that left the cache, and each use a price between these, by how far back in the plan's
 * course its operands were used (program_reuse.c). Where its result takes an operand's storage it has times of its own.
 */
struct mg_program_prices;
struct mg_program_prices *mg_program_prices_new(struct mg_engine *engine); /* NULL: out of memory */
void mg_program_prices_free(struct mg_program_prices *prices);
/* Times under `policy`, but for its `apart`, `made` and `in_place`, what has fewer than `times` times: the median
 * counts. Operators that cannot be timed are an error. MG_ERR_CANCELLED: it was not done by mg_measure_clock() `until`
 * (INFINITY: no matter when); what was done stays. */
enum mg_code mg_program_price(struct mg_program *program, struct mg_program_prices *prices, uint32_t times,
                              const struct mg_time_policy *policy, double until, struct mg_error *err) MG_WARN_UNUSED;
/* After mg_program_price() of this program. What the run takes by these prices: as many streams as the engine's device
 * has, simulated as S4 says. What has no price takes no time; what lacks one distance goes by the others. */
double mg_program_latency(const struct mg_program *program, const struct mg_program_prices *prices);
/* Both, for one program alone. */
enum mg_code mg_program_predict(struct mg_program *program, const struct mg_time_policy *policy, double until,
                                double *seconds, struct mg_error *err) MG_WARN_UNUSED;

/* ---- where the time goes ---- */
struct mg_program_part {
    const char *name, *text; /* operator ("store", "load") and signature; they live as long as the program */
    uint32_t uses;
    double alone_s, within_s; /* all its uses in one run: by the prices, and in the plan's course */
};
/* Runs once with a reading of the clock around each action. */
enum mg_code mg_program_profile(struct mg_program *program, struct mg_error *err) MG_WARN_UNUSED;
/* One for each distinct operator and copy; within_s is a mean over the profiled runs. Memory from `arena`. */
size_t mg_program_parts(const struct mg_program *program, const struct mg_program_prices *prices,
                        struct mg_program_part **out, struct mg_arena *arena);

#endif
