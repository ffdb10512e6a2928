/* Which modules to take as a whole where a training script has no more than PyTorch's own means: a checkpoint around a
 * module drops what is inside of it, and keeps what it reads and gives. */
#ifndef MG_EXPORT_BLOCKS_H
#define MG_EXPORT_BLOCKS_H

#include "graph/graph.h"

enum mg_fate { MG_FATE_KEEP, MG_FATE_CHUNK, MG_FATE_OFFLOAD, MG_FATE_RECOMPUTE, MG_FATES };

struct mg_blocks {
    const char **again, **offload; /* paths: checkpointed, parked */
    size_t again_count, offload_count;
    uint64_t dropped, parked; /* bytes of the results inside of them that wait for the backward pass */
    uint64_t kept;            /* of all results that do */
    bool has_batch_norm;      /* in `again`, in training mode */
};

/* The outermost modules of whose inside results the plan moves about half or more. `forward`: how many operators are
 * the forward pass; `fates`: by operator of it. */
struct mg_blocks mg_choose_blocks(const struct mg_graph *g, mg_op forward, const enum mg_fate *fates,
                                  struct mg_arena *arena);
/* Is `module` the module `around`, or inside of it? */
bool mg_is_within(const char *module, const char *around);
bool mg_in_blocks(const struct mg_blocks *blocks, const char *module);

#endif
