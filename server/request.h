/* A request for a plan (the body of POST /optimize): JSON to struct, with every error pointing to its
 * member. Used by the command line, intake and the workers; the daemon only passes the text on. */
#ifndef MG_SERVER_REQUEST_H
#define MG_SERVER_REQUEST_H

#include "device/device.h"
#include "formats/onnx.h"
#include "search/search.h"
#include "zoo/zoo.h"

enum mg_request_priority { MG_REQUEST_INTERACTIVE, MG_REQUEST_NORMAL, MG_REQUEST_BATCH };

struct mg_label {
    const char *key, *value;
};

struct mg_job_request {
    const char *name; /* NULL if not given, like all texts here */
    struct mg_label *labels;
    size_t label_count, label_capacity;

    const char *document; /* what was read */
    size_t document_size;
    const char *graph; /* raw JSON, of which only the brackets were looked at */
    size_t graph_size;
    const struct mg_bytes *onnx; /* a model that comes beside the request (set by the caller), read once */
    bool keep_contents;          /* ... with the data of its initialisers */
    struct mg_onnx_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    const char *model; /* zoo */
    struct mg_zoo_option *options;
    size_t option_count, option_capacity;
    bool has_training;
    struct mg_training training;

    struct mg_device device;
    char wanted_class[20]; /* why reading failed: this class is to be given by the rules */
    const char *timings;
    double latency_ratio, latency_s, memory_ratio; /* 0 = none */
    uint64_t memory_bytes;                         /* 0 = none */
    uint64_t host_memory_bytes;                    /* 0 = unlimited */
    bool has_reserve;
    uint64_t reserve_bytes; /* the profile's where not given */
    double seconds;         /* 0 = none */
    uint64_t evaluations;   /* 0 = none */
    uint64_t seed, threads;
    double deadline_s; /* 0 = none */
    uint32_t techniques;
    enum mg_numerics numerics;
    struct mg_constraint *constraints;
    size_t constraint_count, constraint_capacity;
    bool has_baselines;
    const char **baselines;
    size_t baseline_count, baseline_capacity;
    enum mg_request_priority priority;
    bool fresh;
    bool require_measured; /* only plans of which every operator was measured are published */
};

struct mg_request_rules {
    bool detached;          /* the graph comes beside the request: neither `graph` nor `zoo` is demanded */
    double max_seconds;     /* 0 = no limit; also the budget where only evaluations are given */
    const char *device_dir; /* profiles of users, NAME.json; NULL: the built-in ones alone */
    /* The one class of devices that "class:ID" may name, and its device's name; NULL or "": none. The profile that
     * names the device is taken, and has the class as the only one of its gpu_names: so that it is kept, priced and
     * reused for this class alone. */
    const char *class_id, *class_model;
};

/* Runs inside an mg_arena_guard() on `arena`; `json` must outlive the request. */
enum mg_code mg_job_request_read(const char *json, size_t size, const struct mg_request_rules *rules,
                                 struct mg_arena *arena, struct mg_job_request *out,
                                 struct mg_error *err) MG_WARN_UNUSED;
/* "a=b,c=d" of the zoo or of `training` never reach here: the command line writes JSON first. */

/* The request as it is kept: every member resolved, keys sorted, without the graph. */
void mg_job_request_write(struct mg_writer *w, const struct mg_job_request *request);
/* Digest of all that must be equal for a front to be reused, `seconds` and the graph aside. */
enum mg_code mg_job_request_digest(const struct mg_job_request *request, char out[65],
                                   struct mg_error *err) MG_WARN_UNUSED;
void mg_job_request_search_options(const struct mg_job_request *request, struct mg_search_options *out);
bool mg_job_request_wants_baseline(const struct mg_job_request *request, const char *name);

/* Builds, differentiates if asked to and normalises the graph that the request names. Inside a guard. `model` (may be
 * NULL) receives what is known beside the graph of an ONNX model. */
enum mg_code mg_job_request_graph(const struct mg_job_request *request, struct mg_arena *arena, struct mg_graph **out,
                                  struct mg_onnx_model *model, struct mg_error *err) MG_WARN_UNUSED;

#endif
