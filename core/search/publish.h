/* From a state to a plan: instances, frees, slices and accumulations made explicit, prices named,
 * storages placed (core/plan/builder.h). */
#ifndef MG_SEARCH_PUBLISH_H
#define MG_SEARCH_PUBLISH_H

#include "search/edit.h"

/* `original` becomes the plan's reference figures; keep_apart as in struct mg_evaluator. The plan lives
 * in `arena`, which must be guarded. */
enum mg_code mg_publish(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                        enum mg_numerics numerics, bool keep_apart, const struct mg_figures *original,
                        struct mg_arena *arena, struct mg_plan **out, struct mg_error *err) MG_WARN_UNUSED;

/* Which techniques a state uses: mask of mg_technique. */
uint32_t mg_list_techniques(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                            struct mg_arena *scratch);

#endif
