/* A plan: a list of steps over a graph, as published (rules S and R: MODEL.md): every operand names an
 * instance, every instance a storage, every step its price. All indices count from 0.
 *
 * View operators of the graph have no step: an instance of a view value is a view of an instance of
 * its base value (`view_of`), made by the same step. */
#ifndef MG_PLAN_PLAN_H
#define MG_PLAN_PLAN_H

#include "base/json.h"
#include "device/pricer.h"
#include "graph/graph.h"
#include "graph/rewrite.h"

enum mg_step_kind {
    MG_STEP_COMPUTE, /* op; in: one instance per operand, out: one per result */
    MG_STEP_STORE,   /* in[0]: instance copied to the host; no out */
    MG_STEP_LOAD,    /* out[0]: new instance from the host copy of its value; in[0]: the stored instance
                        (freed by now, as a rule), none if the value's home is the host */
    MG_STEP_FREE,    /* in[0]: instance whose storage ends here */
    MG_STEP_BEGIN,   /* region; out: the region's outputs, allocated whole (only where the region is
                        the outermost of which they are outputs) */
    MG_STEP_END,     /* region */
    MG_STEP_SLICE,   /* in[0]: outer instance, out[0]: part-local dense copy of the part's box (R4) */
    MG_STEP_JOIN,    /* in[0]: part-local instance, in[1]: the region output's instance, written (R5) */
    MG_STEP_ACC,     /* in[0]: temporary, in[1]: the region output's instance, combined in place (R6);
                        where the box is not contiguous, first parts join instead: prices of acc for
                        all tuples, then prices of join for the same tuples */
};
struct mg_step {
    enum mg_step_kind kind;
    uint32_t op;                 /* COMPUTE: operator; BEGIN, END: region; else MG_NONE */
    uint32_t in, in_count;       /* range of plan->refs */
    uint32_t out, out_count;     /* range of plan->refs */
    uint32_t price, price_count; /* range of plan->refs: one index into prices per distinct tuple of
                                    part extents under the enclosing regions, in order of first
                                    occurrence; none for FREE, BEGIN, END */
};
/* Inside a region a step names an instance from outside (or a region output) directly; the part's box
 * follows from the reader's axis. A view operator inside a region gives a view of the part-local
 * instance; `slice` makes an instance of the sliced value (be it a view) with a storage of its own.
 * An update in place (R9) makes an instance of whole shape on the resident storage. */
struct mg_instance {
    mg_value value;
    uint32_t storage;            /* views: the storage of their base */
    uint32_t made_by;            /* step, or MG_NONE: there before step 0 (resident values, inputs) */
    uint32_t view_of;            /* base instance, or MG_NONE */
    int64_t offset;              /* elements, views only; part 0's in a region */
    int64_t stride[MG_MAX_RANK]; /* elements; of part 0's box in a region */
    struct mg_shape shape;       /* of part 0's box in a region, else the value's */
};
/* Storages without an instance are workspaces, in the order of the steps that need one. */
struct mg_storage {
    uint64_t bytes;  /* rounded up to the device's align */
    uint64_t offset; /* in the arena */
};
struct mg_region_op {
    mg_op op;
    uint32_t axis; /* index into mg_op_axes */
    int64_t scale; /* the operator's axis has length scale * region length */
};
struct mg_region {
    uint32_t parent; /* enclosing region (index), or MG_NONE */
    int64_t length;  /* whole length; a nested region's length is within the parent's part 0 */
    uint32_t parts;
    const struct mg_region_op *ops; /* includes the operators of nested regions, and view operators */
    uint32_t op_count;
};
/* Part p of n over length L covers [lo, hi): the first L mod n parts have one more (R1). For a
 * nested region, L is the extent of its axis within the parent's part. */
void mg_part_bounds(int64_t length, uint32_t parts, uint32_t part, int64_t *lo, int64_t *hi);

enum { MG_PRICE_SIGNATURE_MAX = 8192 }; /* so that its JSON, escapes and all, is within what is read */
struct mg_price {
    char name[24];         /* operator's name, or "store", "load", "slice", "join", "acc" */
    const char *signature; /* attributes, shapes, dtypes: canonical text; of a longer one "sha256:" and its digest */
    double seconds;
    uint64_t workspace; /* bytes, live during the step only */
    enum mg_price_source source;
};
enum mg_numerics { MG_NUMERICS_REASSOCIATE, MG_NUMERICS_EXACT };

struct mg_figures {
    double latency_s;
    uint64_t peak_bytes;
    uint64_t arena_bytes;
    uint64_t host_bytes; /* distinct stored values, unrounded */
};

struct mg_plan {
    char graph_digest[65];         /* the original's */
    const struct mg_graph *edited; /* where edits rewrite the graph (graph/rewrite.h): the one that regions,
                                      instances and steps are over; else NULL. Follows from the edits. */
    struct mg_device device;
    enum mg_numerics numerics;
    struct mg_edit *edits;
    size_t edit_count;
    struct mg_region *regions;
    size_t region_count; /* parents before children */
    struct mg_storage *storages;
    size_t storage_count;
    struct mg_instance *instances;
    size_t instance_count;
    struct mg_price *prices;
    size_t price_count;
    struct mg_step *steps;
    size_t step_count;
    uint32_t *refs;
    size_t ref_count;
    struct mg_figures figures, original; /* original: host_bytes unused */
};

/* The graph that the plan's indices are over, given the original. All functions below take the original. */
static inline const struct mg_graph *mg_plan_graph(const struct mg_graph *g, const struct mg_plan *plan)
{
    return plan->edited ? plan->edited : g;
}
/* All that the plan has but the device's texts and the edited graph, in `arena`. */
struct mg_plan *mg_plan_copy(const struct mg_plan *plan, struct mg_arena *arena);
/* Sets plan->edited from the plan's edits, in `arena`. MG_ERR_INVALID points at /edits/N. */
enum mg_code mg_plan_derive(const struct mg_graph *g, struct mg_plan *plan, struct mg_arena *arena,
                            struct mg_error *err) MG_WARN_UNUSED;

/* ---- the original: graph order, each storage freed after its last reader ---- */
enum mg_code mg_plan_original(const struct mg_graph *g, const struct mg_device *device, struct mg_arena *arena,
                              struct mg_plan **out, struct mg_error *err) MG_WARN_UNUSED;
/* The same with prices from a pricer of that device. */
enum mg_code mg_plan_original_priced(const struct mg_graph *g, const struct mg_device *device, struct mg_pricer *pricer,
                                     struct mg_arena *arena, struct mg_plan **out, struct mg_error *err) MG_WARN_UNUSED;

/* ---- prices of a finished plan (reprice.c) ---- */
/* Of its compute steps the share that each source prices (a step with several prices counts by its weakest); how many
 * there are. */
uint64_t mg_plan_price_shares(const struct mg_plan *plan, double shares[MG_PRICE_SOURCES]);
/* Prices its operators anew by a pricer of plan->device: seconds, sources, latency (figures and original). Steps,
 * memory and workspaces stay as they are stated. `plan` is derived (mg_plan_derive). Memory from `arena`, guarded. */
enum mg_code mg_plan_reprice(const struct mg_graph *g, struct mg_plan *plan, struct mg_pricer *pricer,
                             struct mg_arena *arena, struct mg_error *err) MG_WARN_UNUSED;

/* ---- simulator: S3, S4, R2, R3 on the published plan ---- */
struct mg_timeline_point {
    double start_s;
    uint64_t live_bytes;
    uint32_t step;
};
struct mg_simulation {
    double latency_s;
    uint64_t peak_bytes;
    uint64_t host_bytes;
    struct mg_timeline_point *timeline; /* one per step */
    uint32_t *hot;
    size_t hot_count; /* instances alive at any step whose live bytes equal the peak */
};
enum mg_code mg_plan_simulate(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                              struct mg_simulation *out, struct mg_error *err) MG_WARN_UNUSED;

/* ---- placement of storages in one arena: size-ordered best fit ---- */
struct mg_buffer {
    uint64_t bytes;
    uint32_t lower, upper; /* live in [lower, upper) */
    uint64_t offset;       /* result */
};
/* Offsets are multiples of `align` (sizes are rounded up to it). Returns the arena's size. Buffers that
 * are empty or live nowhere get offset 0. Deterministic; effort counts comparisons. `magisd place
 * FILE.csv` reads id,lower,upper,size into buffers and calls mg_place_with(..., 1, MG_PLACE_HARD, ...). */
#define MG_PLACE_EFFORT UINT64_C(16000000) /* of mg_place: some 40 ms at worst */
#define MG_PLACE_HARD UINT64_C(1000000000) /* some seconds */
enum mg_code mg_place(struct mg_buffer *buffers, size_t count, uint64_t align, uint64_t *arena_bytes,
                      struct mg_arena *scratch, struct mg_error *err) MG_WARN_UNUSED;
enum mg_code mg_place_with(struct mg_buffer *buffers, size_t count, uint64_t align, uint64_t effort,
                           uint64_t *arena_bytes, struct mg_arena *scratch, struct mg_error *err) MG_WARN_UNUSED;
/* Fills offsets of plan->storages and figures.arena_bytes. */
enum mg_code mg_plan_place(struct mg_plan *plan, struct mg_arena *scratch, struct mg_error *err) MG_WARN_UNUSED;

/* ---- the independent checker (shares no code with simulator, placement and search) ---- */
struct mg_verdict {
    bool accepted;
    uint32_t step;   /* to blame, or MG_NONE */
    char reason[64]; /* stable word: "order", "freed", "overlap", "figures", "meaning", "version", ... */
    char message[256];
    struct mg_figures figures; /* as the checker computes them */
};
/* "step 7 of the plan", or "the plan" where none is to blame; text holds 40 bytes. */
const char *mg_verdict_place(const struct mg_verdict *verdict, char text[40]);
enum mg_code mg_plan_check(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                           struct mg_verdict *out, struct mg_error *err) MG_WARN_UNUSED;
/* What edits made of the graph `original` when the checker applied them: many plans of one search have the same.
 * Zero but for `arena`, which outlives all checks with it. */
enum { MG_CHECK_MEMOS = 4 };
struct mg_check_memo {
    struct mg_arena *arena;
    struct mg_edit *edits[MG_CHECK_MEMOS];
    size_t edit_count[MG_CHECK_MEMOS];
    struct mg_graph *edited[MG_CHECK_MEMOS];
    uint32_t count;
};
/* The same for one of many plans over one graph. */
enum mg_code mg_plan_check_with(const struct mg_graph *g, const struct mg_plan *plan, struct mg_check_memo *memo,
                                struct mg_arena *arena, struct mg_verdict *out, struct mg_error *err) MG_WARN_UNUSED;

/* ---- JSON (magis-plan/1, canonical), DOT ---- */
void mg_plan_write(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan);
/* Members in any order, but `edits` begin within the first MG_JSON_MAX_ELEMENT bytes. */
enum mg_code mg_plan_read(const struct mg_graph *g, const char *json, size_t size, struct mg_arena *arena,
                          struct mg_plan **out, struct mg_error *err) MG_WARN_UNUSED;
void mg_plan_write_dot(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan);
/* First 16 hex digits of the SHA-256 of the canonical JSON; id holds 17 bytes. */
enum mg_code mg_plan_id(const struct mg_graph *g, const struct mg_plan *plan, char id[17],
                        struct mg_error *err) MG_WARN_UNUSED;

#endif
