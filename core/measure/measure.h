/* Measuring back ends: operators on real devices, timed and executed.
 *
 * An engine is an opened device: "cpu" (oneDNN and compiled loops, on one processor), "cuda:N" (driver and
 * libraries opened at run time) or "model:PROFILE" (no hardware: the times that the device model states). An operator
 * is prepared once for its shapes and layouts, then run or timed as often as wanted. Nothing of this is linked into the
 * search; this folder alone of the core reads a clock and asks for memory outside arenas. One thread per engine. */
#ifndef MG_MEASURE_MEASURE_H
#define MG_MEASURE_MEASURE_H

#include "device/device.h"
#include "exec/exec.h"
#include "graph/graph.h"

struct mg_engine;
struct mg_prepared;

/* Everything about the device and its software that can change a time. "" or 0: does not apply. */
struct mg_engine_properties {
    char backend[16], backend_version[32];
    char device[64];  /* the driver's name of the card; the processor's model */
    char compute[64]; /* compute capability "9.0"; the instruction set that oneDNN uses */
    char partition[64], link[64], uuid[64];
    char driver[32], runtime[32], dnn[32], blas[32];
    char pages[16]; /* of a processor's large memory: "huge" or "small" */
    uint32_t units; /* streaming multiprocessors; processors used */
    uint64_t memory_bytes;
    uint64_t cache_bytes;  /* the last level: what an operator may find of those before it */
    uint32_t copy_streams; /* beside the one of computation: 0 where copies keep it from computing */
    bool pinned;           /* host memory of copies */
};

/* Elements between neighbours of each dimension; 0 repeats an element (operands only). */
struct mg_strides {
    int64_t at[MG_MAX_RANK];
};

/* Opens a device by its name. MG_ERR_UNSUPPORTED, with a sentence, where it or its libraries are not there. */
enum mg_code mg_engine_open(const char *name, struct mg_engine **out, struct mg_error *err) MG_WARN_UNUSED;
void mg_engine_close(struct mg_engine *engine);
const struct mg_engine_properties *mg_engine_properties(const struct mg_engine *engine);

/* Makes an operator ready. `in`, `out`: strides of each operand and result, or NULL where all are dense. The
 * description is copied. MG_ERR_UNSUPPORTED names an operator, dtype or layout that this back end has no kernel for. */
enum mg_code mg_engine_prepare(struct mg_engine *engine, const struct mg_op_desc *op, const struct mg_strides *in,
                               const struct mg_strides *out, struct mg_prepared **prepared,
                               struct mg_error *err) MG_WARN_UNUSED;
void mg_prepared_free(struct mg_prepared *prepared);
/* Bytes of memory that a run uses beside operands and results; the engine provides it. */
uint64_t mg_prepared_workspace(const struct mg_prepared *prepared);

/* Runs it on device memory, in[i] and out[i] the address of each first element (no alignment beyond the element's).
 * Where the operator may be in place (graph.h), a result may be its operand. On a device this only queues the work.
 * `origin` (may be NULL): by which random numbers are drawn. Bad data (an index out of range) is MG_ERR_INVALID. */
enum mg_code mg_prepared_run(struct mg_prepared *prepared, const void *const *in, void *const *out,
                             const struct mg_exec_origin *origin, struct mg_error *err) MG_WARN_UNUSED;

/* ---- timing ---- */
struct mg_time_policy {
    uint32_t warm_up, repeats; /* runs before, runs that count: at least one */
    double seconds;            /* stop repeating after as many, with what there is (at least 3 runs); 0: never */
    uint64_t apart; /* bytes between two uses of an operand, its own operator's included, by the lines of a cache that
                       operands touch; 0: no others. MG_WHOLE_CACHE: as many as the device's last one holds, which so
                       has lost most of it, as is the rule when a plan comes to an operator */
    bool made;      /* not so the first operand, which as a rule the operator before has just made */
    /* 1 + the operand whose storage the first result takes, 0: none. A run then finds there the result of the last one
     * on the same operands. */
    uint32_t in_place;
};
#define MG_WHOLE_CACHE UINT64_MAX
struct mg_timing {
    uint32_t n;                    /* runs that count */
    double median_s, mad_s, min_s; /* mad: median of the absolute deviations from the median */
    uint64_t workspace_bytes;
    double clock_mhz; /* of the device just after; 0: not known */
    bool throttled;   /* it was slower than it could be, for heat or want of power */
};
extern const struct mg_time_policy mg_time_policy_default;
/* On operands of its own, filled with random numbers, where programs (program.h) had theirs. Out of memory, also for as
 * many operands as lie `apart`, is MG_ERR_NOMEM, a result and not a crash; MG_ERR_UNSUPPORTED: the operator runs, but
 * by a stand-in whose time says nothing about the device. */
enum mg_code mg_prepared_time(struct mg_prepared *prepared, const struct mg_time_policy *policy, struct mg_timing *out,
                              struct mg_error *err) MG_WARN_UNUSED;
/* Prepares, times and frees. */
enum mg_code mg_engine_time_op(struct mg_engine *engine, const struct mg_op_desc *op, const struct mg_strides *in,
                               const struct mg_strides *out, const struct mg_time_policy *policy,
                               struct mg_timing *timing, struct mg_error *err) MG_WARN_UNUSED;
/* Median, deviation and minimum of samples, which are sorted. */
void mg_timing_of(double *samples, uint32_t count, struct mg_timing *out);
/* Monotonic seconds. */
double mg_measure_clock(void);
/* Seconds by which runs are timed. On the processor, where the calling thread does all the work, that thread's own
 * time: what others do on the machine meanwhile does not count, so that whole runs and single operators can be
 * compared. */
double mg_engine_clock(const struct mg_engine *engine);

/* ---- sharing the device ---- */
/* From now on mg_engine_alloc() gives out at most this share of the device memory that is free now; what is beyond is
 * MG_ERR_NOMEM. Nothing where the device does not tell what is free. */
void mg_engine_limit_memory(struct mg_engine *engine, double share);
/* Does somebody else use the device? `why` says how that shows. False where nobody can tell. `idle_s`: seconds since
 * the caller's own last work on the device, INFINITY where there was none; how much a device was used its driver tells
 * of the last second or so, and not by whom. */
bool mg_engine_is_busy(struct mg_engine *engine, double idle_s, char why[128]);

/* ---- memory and copies, for plans as wholes ---- */
enum mg_place { MG_PLACE_DEVICE, MG_PLACE_HOST };
enum mg_stream { MG_STREAM_COMPUTE, MG_STREAM_STORE, MG_STREAM_LOAD }; /* S4: C, D, H */
enum mg_code mg_engine_alloc(struct mg_engine *engine, enum mg_place place, uint64_t bytes, void **out,
                             struct mg_error *err) MG_WARN_UNUSED;
void mg_engine_free(struct mg_engine *engine, enum mg_place place, void *memory);
/* Between host and device, queued on the stream; direction by the stream (compute: device to device). */
enum mg_code mg_engine_copy(struct mg_engine *engine, enum mg_stream stream, void *to, const void *from, uint64_t bytes,
                            struct mg_error *err) MG_WARN_UNUSED;
/* True where the engine says how long such a copy takes (the model's do); else it is to be made and timed. */
bool mg_engine_knows_copy(const struct mg_engine *engine, enum mg_stream stream, uint64_t bytes, double *seconds);
/* Sets the mark (a small number) behind all that is queued on the stream so far. */
enum mg_code mg_engine_mark(struct mg_engine *engine, enum mg_stream stream, uint32_t mark,
                            struct mg_error *err) MG_WARN_UNUSED;
/* What is queued on the stream from now on waits for what was before the mark when it was last set; setting it again
 * later changes nothing in that. */
enum mg_code mg_engine_await(struct mg_engine *engine, enum mg_stream stream, uint32_t mark,
                             struct mg_error *err) MG_WARN_UNUSED;
/* Waits until all streams are idle. */
enum mg_code mg_engine_wait(struct mg_engine *engine, struct mg_error *err) MG_WARN_UNUSED;

#endif
