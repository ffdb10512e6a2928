/* What the files that read magis-plan/1 share. */
#ifndef MG_PLAN_READ_PRIV_H
#define MG_PLAN_READ_PRIV_H

#include "plan/plan_priv.h"

struct mg_plan_reader {
    struct mg_json json;
    const struct mg_graph *g;        /* the one that steps are over */
    const struct mg_graph *original; /* the one that the plan is for */
    struct mg_arena *arena;
    struct mg_plan *plan;
    mg_op *op_slots; /* operators by name, open addressing */
    size_t slot_count;
    size_t edit_capacity, region_capacity, storage_capacity, instance_capacity, price_capacity, step_capacity,
        ref_capacity;
    int64_t *bounds; /* of the region being read */
    size_t bound_count;
    struct mg_writer *text; /* of the edit's member being read */
};

/* ---- names and numbers (read_word.c); false: the reader's error is set ---- */
void mg_plan_index_ops(struct mg_plan_reader *r);
bool mg_plan_read_index(struct mg_json *j, uint32_t *out);
bool mg_plan_read_op(struct mg_plan_reader *r, mg_op *out);
bool mg_plan_read_value(struct mg_plan_reader *r, mg_value *out);
bool mg_plan_read_dims(struct mg_json *j, int64_t dim[MG_MAX_RANK], uint32_t *rank);
/* Pushes the array's numbers as refs. */
bool mg_plan_read_refs(struct mg_plan_reader *r, uint32_t *first, uint32_t *count);
bool mg_plan_unknown_member(struct mg_json *j, const char *key);
/* Which of the names (NULL-terminated) the key is; their number if none. */
uint32_t mg_plan_which(const char *key, const char *const *names);
bool mg_plan_require(struct mg_json *j, uint32_t seen, uint32_t wanted, const char *const *names);

/* ---- elements of the lists (read_part.c, read_step.c): each adds one to the plan ---- */
bool mg_plan_read_edit(struct mg_plan_reader *r);
bool mg_plan_read_region(struct mg_plan_reader *r);
bool mg_plan_read_storage(struct mg_plan_reader *r);
bool mg_plan_read_instance(struct mg_plan_reader *r);
bool mg_plan_read_seconds(struct mg_plan_reader *r, double *seconds);
bool mg_plan_read_price(struct mg_plan_reader *r);
bool mg_plan_read_step(struct mg_plan_reader *r);

#endif
