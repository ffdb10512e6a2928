/* What a back end implements. */
#ifndef MG_MEASURE_PRIV_H
#define MG_MEASURE_PRIV_H

#include "measure/measure.h"

/* An operator made ready. Back ends allocate what they add in its arena (inside the guard of prepare). */
struct mg_prepared {
    struct mg_arena arena;
    struct mg_engine *engine;
    struct mg_op_desc op; /* deep copy */
    struct mg_strides *in, *out;
    uint64_t workspace;
    const char *unmeasurable; /* why its time would say nothing; NULL: it can be timed */
    void *detail;             /* the back end's own */
};

/* Those that open, prepare, run, allocate, free and copy are there; others may be NULL: they do nothing and succeed. */
struct mg_backend {
    const char *name; /* "cpu"; a device of the back end is NAME or NAME:REST */
    bool only_times;  /* nothing is executed: its memory need not hold anything */
    enum mg_code (*open)(struct mg_engine *engine, const char *rest, struct mg_error *err);
    void (*close)(struct mg_engine *engine);
    enum mg_code (*prepare)(struct mg_prepared *prepared, struct mg_error *err); /* inside a guard */
    void (*release)(struct mg_prepared *prepared); /* also after a failed prepare; detail may be NULL */
    enum mg_code (*run)(struct mg_prepared *prepared, const void *const *in, void *const *out,
                        const struct mg_exec_origin *origin, struct mg_error *err);
    double (*now)(void); /* where NULL: mg_measure_clock() */
    /* One timed run, seconds; where NULL: run and wait between two readings of the clock. */
    enum mg_code (*time_run)(struct mg_prepared *prepared, const void *const *in, void *const *out, double *seconds,
                             struct mg_error *err);
    enum mg_code (*alloc)(struct mg_engine *engine, enum mg_place place, uint64_t bytes, void **out,
                          struct mg_error *err);
    void (*free)(struct mg_engine *engine, enum mg_place place, void *memory);
    enum mg_code (*copy)(struct mg_engine *engine, enum mg_stream stream, void *to, const void *from, uint64_t bytes,
                         struct mg_error *err);
    /* Seconds of a copy that need not be made; where NULL: it is timed. */
    double (*copy_seconds)(const struct mg_engine *engine, enum mg_stream stream, uint64_t bytes);
    enum mg_code (*mark)(struct mg_engine *engine, enum mg_stream stream, uint32_t mark, struct mg_error *err);
    enum mg_code (*await)(struct mg_engine *engine, enum mg_stream stream, uint32_t mark, struct mg_error *err);
    enum mg_code (*wait)(struct mg_engine *engine, struct mg_error *err);
    uint64_t (*free_memory)(struct mg_engine *engine); /* of the device, bytes; 0: unknown */
    /* How the device runs just now; what it does not tell is left as it is. */
    void (*state)(struct mg_engine *engine, double *clock_mhz, bool *throttled);
    bool (*is_busy)(struct mg_engine *engine, double idle_s, char *why, size_t room); /* NULL: never */
};
struct mg_allocation {
    const void *memory;
    uint64_t bytes;
};
struct mg_engine {
    const struct mg_backend *backend;
    struct mg_engine_properties properties;
    struct mg_allocation *allocations; /* of device memory */
    size_t allocation_count, allocation_capacity;
    void *pool; /* pool.c */
    uint64_t pool_bytes, pool_turn, pool_held;
    uint32_t pool_holders;
    uint64_t used_bytes, most_bytes; /* of device memory: by these; most_bytes 0: no limit */
    void *detail;
};

extern const struct mg_backend mg_backend_model, mg_backend_cpu, mg_backend_cuda;

/* Device memory that timed operators and programs take turns in: what was written lasts until the next one takes it, or
 * it grows; `pool_turn` differs then. There is as much as the largest needs, and it is kept: fresh memory costs more
 * than most runs. Each turn has another place in it if there is room: memory is not equally fast everywhere, and what
 * always lay at one place would take longer than another for no reason of its own. MG_ERR_NOMEM: there is none then. */
enum mg_code mg_pool_take(struct mg_engine *engine, uint64_t bytes, void **out, struct mg_error *err);
/* So much is kept until it is let go, for those that take it again and again. On failure nothing is held. */
enum mg_code mg_pool_hold(struct mg_engine *engine, uint64_t bytes, struct mg_error *err);
void mg_pool_let_go(struct mg_engine *engine);
/* Gives it back where it is more than anybody holds and than a few times the cache. */
void mg_pool_trim(struct mg_engine *engine);

/* For samples by mg_engine_clock(): the seconds that reading it takes; how many runs, each of so many seconds, make one
 * sample; the seconds of a run in one that took so long. */
double mg_engine_clock_cost(const struct mg_engine *engine);
uint32_t mg_timing_runs(double seconds);
double mg_timing_sample(double taken, double clock_s, uint32_t runs);

/* Attributes of a description; the schema guarantees their presence. */
int64_t mg_prepared_int(const struct mg_prepared *p, enum mg_attr_key key);
double mg_prepared_float(const struct mg_prepared *p, enum mg_attr_key key);
int64_t mg_prepared_ints(const struct mg_prepared *p, enum mg_attr_key key, uint32_t at, int64_t fallback);
bool mg_prepared_text_is(const struct mg_prepared *p, enum mg_attr_key key, const char *text);
/* Refuses an operator, saying why. */
enum mg_code mg_prepared_refuse(const struct mg_prepared *p, struct mg_error *err, const char *why);

/* Host memory for back ends on the host, aligned to 64 bytes. */
enum mg_code mg_host_alloc(struct mg_engine *engine, enum mg_place place, uint64_t bytes, void **out,
                           struct mg_error *err);
void mg_host_free(struct mg_engine *engine, enum mg_place place, void *memory);
enum mg_code mg_host_copy(struct mg_engine *engine, enum mg_stream stream, void *to, const void *from, uint64_t bytes,
                          struct mg_error *err);

#endif
