/* The checker's view of a plan's edits. What remat and swap do stands in the steps and is proven there. Rewrites
 * of the graph carry their own proof: they are applied once more, from the original graph and their bindings
 * alone, every condition checked, and all that follows is judged against the graph that comes of it. Each
 * rule is an identity of real numbers (tests/unit/test_rewrite.c), though not of rounded ones. */
#include <string.h>

#include "plan/check_priv.h"

static bool check_rule(struct mg_check *c, size_t e)
{
    const struct mg_edit *edit = &c->plan->edits[e];
    MG_CHECK(edit->rule && edit->binding && edit->removed && edit->added, c, MG_NONE, "form", "edit %zu is incomplete",
             e);
    if (!strcmp(edit->rule, "remat") || !strcmp(edit->rule, "swap"))
        return true;
    MG_CHECK(mg_rewrite_is_rule(edit->rule), c, MG_NONE, "edit", "edit %zu: rule '%.40s' is not known", e, edit->rule);
    MG_CHECK(c->plan->numerics != MG_NUMERICS_EXACT, c, MG_NONE, "edit",
             "edit %zu: '%.40s' may change roundings, the plan says exact", e, edit->rule);
    return true;
}

bool mg_check_edits(struct mg_check *c)
{
    size_t rewrites = 0;
    struct mg_graph *edited;
    struct mg_error why = {0};
    for (size_t e = 0; e < c->plan->edit_count; e++) {
        if (!check_rule(c, e))
            return false;
        rewrites += mg_rewrite_is_rule(c->plan->edits[e].rule);
    }
    if (rewrites == 0)
        return true;
    enum mg_code code = mg_rewrite_apply(c->original, c->plan->edits, c->plan->edit_count, c->arena, &edited, &why);
    MG_CHECK(code == MG_OK, c, MG_NONE, "edit", "%s", why.message);
    c->g = edited;
    return true;
}
