/* The edited graph of a plan that comes from outside. */
#include "plan/plan.h"

enum mg_code mg_plan_derive(const struct mg_graph *g, struct mg_plan *plan, struct mg_arena *arena,
                            struct mg_error *err)
{
    struct mg_graph *edited;
    size_t rewrites = 0;
    plan->edited = NULL;
    for (size_t e = 0; e < plan->edit_count; e++)
        rewrites += mg_rewrite_is_rule(plan->edits[e].rule);
    if (rewrites == 0)
        return MG_OK;
    enum mg_code code = mg_rewrite_apply(g, plan->edits, plan->edit_count, arena, &edited, err);
    if (code == MG_OK)
        plan->edited = edited;
    return code;
}
