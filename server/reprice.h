/* A finished front under newer timings: what the daemon hands to intake, and what intake makes of it.
 *
 * The pack: head, snapshot of timings, then for each plan its id (17 bytes), size (8 bytes) and packed blob. The daemon
 * only puts it together. */
#ifndef MG_SERVER_REPRICE_H
#define MG_SERVER_REPRICE_H

#include "base/json.h"
#include "server/request.h"

struct mg_reprice_pack {
    unsigned char *data; /* malloc'ed */
    size_t size, capacity;
};
/* False: out of memory. The first plan is the original. */
bool mg_reprice_begin(struct mg_reprice_pack *pack, const void *snapshot, size_t size);
bool mg_reprice_add(struct mg_reprice_pack *pack, const char id[17], const void *blob, size_t size);
void mg_reprice_release(struct mg_reprice_pack *pack);

/* What is said beside the plans. */
struct mg_reprice_head {
    const char *device_class, *priced_class; /* priced_class: by which the front was made, "" */
    int64_t generation, priced_generation;
};
/* Writes {"class", "generation", "priced_class", "priced_generation", "original", "pareto"}: each plan with its latency
 * then and now, what its own operators are priced by, and whether it still stands, that is, none of the others is as
 * good in both latency and peak. Inside a guard on `arena`; MG_ERR_INTERNAL: the pack is damaged. */
enum mg_code mg_reprice_write(struct mg_writer *w, const struct mg_graph *g, const struct mg_job_request *request,
                              const void *pack, size_t size, const struct mg_reprice_head *head, struct mg_arena *arena,
                              struct mg_error *err) MG_WARN_UNUSED;

#endif
