/* What the writers share that walk a plan's steps. */
#ifndef MG_EXPORT_STEPS_H
#define MG_EXPORT_STEPS_H

#include "export/export_priv.h"

static inline uint32_t mg_step_in(const struct mg_export *e, const struct mg_step *step, uint32_t i)
{
    return e->plan->refs[step->in + i];
}

static inline uint32_t mg_step_out(const struct mg_export *e, const struct mg_step *step, uint32_t i)
{
    return e->plan->refs[step->out + i];
}

static inline const struct mg_instance *mg_instance_at(const struct mg_export *e, uint32_t instance)
{
    return &e->plan->instances[instance];
}

/* Is it there from the start? */
bool mg_instance_given(const struct mg_export *e, uint32_t instance);
/* The step that ends the region which step `begin` begins. */
uint32_t mg_step_body_end(const struct mg_export *e, uint32_t begin);
/* The operator and operand that first read `instance`, or a view of it, after step `begin` in its region. */
bool mg_first_reader(const struct mg_export *e, uint32_t begin, uint32_t instance, mg_op *op, uint32_t *slot);
/* By value: the first instance of it that is no view and for which `holds`, or MG_NONE. */
const uint32_t *mg_index_instances(const struct mg_export *e, bool (*holds)(const void *context, uint32_t instance),
                                   const void *context);

#endif
