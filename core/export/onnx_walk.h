/* The steps of a plan as ONNX nodes (onnx_steps.c), the model around them (onnx.c). */
#ifndef MG_EXPORT_ONNX_WALK_H
#define MG_EXPORT_ONNX_WALK_H

#include "export/onnx_emit.h"
#include "export/steps.h"
#include "plan/plan_priv.h"

/* Part of a value: where it begins in the whole, and its extents. */
struct mg_onnx_box {
    int64_t lo[MG_MAX_RANK];
    struct mg_shape shape;
};
/* The tensor that an instance is at this place of the walk. */
struct mg_onnx_held {
    const char *name; /* NULL: none */
    struct mg_onnx_box box;
    uint32_t depth; /* regions open around it: in these its box is a part's */
    /* what was last made of it, so that it is made once: a part of it; of a view, itself from its base */
    const char *part_of, *part, *view_of;
    struct mg_onnx_box part_box;
};
/* What a view operator last made: of that tensor, these results; the box is the first one's. */
struct mg_onnx_seen {
    const char *in; /* NULL: nothing yet */
    const char *const *out;
    struct mg_onnx_box box;
};
/* A region's output: the tensors of parts so far, for each open region. */
struct mg_onnx_joined {
    uint32_t depth; /* regions around the one that begins it */
    struct {
        const char **part;
        size_t count, capacity;
    } level[MG_MAX_NEST + 1];
};
struct mg_onnx_walk {
    struct mg_export *e;
    struct mg_onnx_sink sink;
    struct mg_nest nest;
    uint32_t begin[MG_MAX_NEST]; /* steps of the open regions */
    struct mg_onnx_held *held;   /* by instance */
    struct mg_onnx_joined **joined;
    struct mg_onnx_seen *seen;            /* by operator */
    bool *named;                          /* by value: a tensor has its name */
    const char **name;                    /* by value: the graph's, or one for the value that has none */
    const uint32_t *whole;                /* by value, at the end: the instance that holds it whole, or MG_NONE */
    const struct mg_onnx_data **contents; /* by value, NULL: unknown */
    uint64_t most;                        /* bytes of the model */
};

enum { MG_ONNX_MAX_NODES = 2000000 };

/* Bytes of the nodes and initializers so far. */
static inline uint64_t mg_onnx_written(const struct mg_onnx_walk *w)
{
    return w->sink.nodes.size + w->sink.initializers.size;
}

enum mg_code mg_onnx_too_large(const struct mg_onnx_walk *w); /* refuses */
enum mg_code mg_onnx_walk_steps(struct mg_onnx_walk *w, uint32_t from, uint32_t to);
void mg_onnx_whole_box(const struct mg_graph *g, mg_value value, struct mg_onnx_box *box);
/* The tensor of a whole value that lives at the end, when all steps are done; NULL if there is none. */
const char *mg_onnx_final(struct mg_onnx_walk *w, mg_value value);

#endif
