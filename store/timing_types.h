/* What a timing is: the types that store, intake and agents share (timings.h says what the store does with them). */
#ifndef MG_STORE_TIMING_TYPES_H
#define MG_STORE_TIMING_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/digest.h"

enum {
    MG_TIMING_LEASE_MS = 120000,
    MG_TIMING_LATEST = 5,         /* agents whose newest rows are combined */
    MG_TIMING_GRAPH_WANTS = 5000, /* signatures wanted for one graph */
    MG_TIMING_WANTS = 200000,     /* ... and in all */
    MG_TIMING_FAILURE_DAYS = 30,  /* "unsupported" is not asked again for so long; "out of memory", which may pass with
                                     what else is on the device, for an hour (MG_FAILED in statements.def) */
    MG_TIMING_CANARY_DAYS = 30,   /* so long it is known how fast the canary kernel was on a card */
    MG_TIMING_PAGE = 2000,        /* rows of one mg_store_list_timings() */
};

/* The state of an agent that says that it is gone. */
#define MG_TIMING_ENDED "ended"

/* A class of devices: equal in all that can change a time. */
struct mg_timing_class {
    const char *id;    /* 16 hex digits of the digest of `key` */
    const char *model; /* the device's name, which profiles list in gpu_names */
    const char *key;   /* JSON object of texts, canonical */
};

enum mg_timing_status { MG_TIMING_OK = 0, MG_TIMING_UNSUPPORTED, MG_TIMING_NOMEM };
const char *mg_timing_status_name(enum mg_timing_status status); /* ok, unsupported, out_of_memory */
int mg_timing_status_parse(const char *name);

struct mg_timing_row {
    uint32_t row; /* number within the batch */
    const char *op, *signature;
    struct mg_hash128 key; /* of both */
    enum mg_timing_status status;
    uint32_t n;
    double median_s, mad_s, min_s;
    uint64_t workspace;
    double clock_mhz;
    bool throttled;
    double model_s; /* what the analytic model says; 0: no profile names this device */
    double floor_s; /* faster than this no such device can be; 0: unknown */
};
struct mg_timing_batch {
    const char *agent, *host, *version, *batch;
    const char *token; /* who posted it; "" where no token is needed */
    bool any_agent;    /* may speak for agents that belong to other tokens */
    struct mg_timing_class class;
    int64_t at; /* when it was measured; 0: now */
    double canary_before_s, canary_after_s, canary_best_s;
    bool busy; /* somebody else used the device */
    const struct mg_timing_row *rows;
    size_t n_rows;
};
struct mg_timing_want {
    const char *op, *signature;
    struct mg_hash128 key;
    double value;   /* time x uses: what measuring it is worth */
    double seconds; /* by the model */
    bool whole;     /* an operator of the graph itself, not a part of one */
};

#endif
