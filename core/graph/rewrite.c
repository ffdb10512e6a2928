/* Applies edits to a normalised graph.
 *
 * The edited graph is written down anew: every operator in its old place, but in the place of a removed one what the
 * rule writes there. Results that other operators read keep their names. Normalisation then orders, decides which
 * slices stay views, and refuses what would wait for itself. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "graph/ops_priv.h"
#include "graph/rewrite_priv.h"

/* ---- reading edits ---- */

struct applier {
    struct mg_rewrite_source s;
    const struct mg_edit *edits;
    size_t edit_count;
    struct mg_graph **out;
    struct mg_rewrite_app *apps;
    uint32_t app_count;
    uint32_t *app_of; /* by operator: application that removes it + 1, or 0 */
    struct mg_rewrite_target t;
};

static enum mg_code refuse(struct mg_error *err, size_t edit, const char *what, const char *name)
{
    char pointer[40];
    snprintf(pointer, sizeof pointer, "/edits/%zu", edit);
    return mg_fail(err, MG_ERR_INVALID, pointer, "edit %zu %s%.200s", edit, what, name);
}

/* The operators' names of a binding; ascending order is checked with the texts. */
static enum mg_code read_binding(struct applier *a, size_t e, struct mg_rewrite_app *app, struct mg_error *err)
{
    struct mg_json j;
    const char *key, *name;
    const char *text = a->edits[e].binding;
    size_t count = 0, capacity = 0;
    mg_op *ops = NULL;
    mg_json_init(&j, &a->s.scratch, text, strlen(text));
    bool ok =
        mg_json_enter_object(&j) && mg_json_next_member(&j, &key) && !strcmp(key, "ops") && mg_json_enter_array(&j);
    while (ok && mg_json_next_element(&j)) {
        ok = mg_json_string(&j, &name, NULL);
        mg_op op = ok ? mg_rewrite_op_named(&a->s, name) : MG_NONE;
        if (ok && op == MG_NONE)
            return refuse(err, e, "binds an operator that the graph has not: ", name);
        *MG_PUSH(&a->s.scratch, ops, count, capacity) = op;
    }
    if (!ok || j.err.code != MG_OK || mg_json_next_member(&j, &key) || !mg_json_finish(&j))
        return refuse(err, e, "has no binding {\"ops\": [...]}", "");
    app->ops = ops;
    app->op_count = (uint32_t)count;
    return count >= 2 ? MG_OK : refuse(err, e, "binds fewer than two operators", "");
}

static enum mg_code take(struct applier *a, size_t e, mg_op op, struct mg_error *err)
{
    if (a->app_of[op])
        return refuse(err, e, "binds an operator that another edit has taken: ", a->s.g->ops[op].name);
    a->app_of[op] = a->app_count + 1;
    return MG_OK;
}

static enum mg_code check_conditions(struct applier *a, size_t e, struct mg_rewrite_app *app, struct mg_error *err)
{
    const struct mg_graph *g = a->s.g;
    for (uint32_t i = 1; i < app->op_count; i++)
        if (app->ops[i] <= app->ops[i - 1])
            return refuse(err, e, "does not bind its operators in the graph's order: ", g->ops[app->ops[i]].name);
    if (!app->rule->fits(&a->s, app))
        return refuse(err, e, "does not fit operator ", g->ops[app->ops[0]].name);
    for (uint32_t i = 0; i < app->removed_count; i++)
        MG_TRY(take(a, e, app->removed[i], err));
    return MG_OK;
}

static enum mg_code check_texts(struct applier *a, size_t e, const struct mg_rewrite_app *app, struct mg_error *err)
{
    struct mg_edit should;
    MG_TRY(mg_rewrite_record(&a->s, app, &should, err));
    if (strcmp(should.binding, a->edits[e].binding) != 0)
        return refuse(err, e, "should have the binding ", should.binding);
    if (strcmp(should.removed, a->edits[e].removed) != 0)
        return refuse(err, e, "removes ", should.removed);
    return strcmp(should.added, a->edits[e].added) == 0 ? MG_OK : refuse(err, e, "adds ", should.added);
}

static enum mg_code read_edits(struct applier *a, struct mg_error *err)
{
    a->apps = MG_NEW_ARRAY(&a->s.scratch, struct mg_rewrite_app, a->edit_count);
    a->app_of = MG_NEW_ARRAY(&a->s.scratch, uint32_t, a->s.g->op_count);
    for (size_t e = 0; e < a->edit_count; e++) {
        struct mg_rewrite_app *app = &a->apps[a->app_count];
        app->rule = mg_rewrite_rule_named(a->edits[e].rule);
        if (!app->rule)
            continue;
        MG_TRY(read_binding(a, e, app, err));
        MG_TRY(check_conditions(a, e, app, err));
        app->rule->name_added(&a->s, app);
        MG_TRY(check_texts(a, e, app, err));
        a->app_count++;
    }
    return MG_OK;
}

/* ---- the new graph ---- */

static mg_value keep_value(struct mg_rewrite_target *t, mg_value v)
{
    const struct mg_value_info *info = &t->s->g->values[v];
    mg_value copy = mg_graph_add_value(t->to, info->name, info->kind, info->dtype, &info->shape);
    t->to->values[copy].home = info->home;
    t->to->values[copy].declared = info->declared;
    return copy;
}

static void keep_values(struct applier *a)
{
    const struct mg_graph *g = a->s.g;
    bool *dropped = MG_NEW_ARRAY(&a->s.scratch, bool, g->value_count);
    for (uint32_t i = 0; i < a->app_count; i++)
        for (uint32_t k = 0; k < a->apps[i].dropped_count; k++)
            dropped[a->apps[i].dropped[k]] = true;
    a->t.map = MG_NEW_ARRAY(&a->s.scratch, mg_value, g->value_count);
    for (mg_value v = 0; v < g->value_count; v++)
        a->t.map[v] = dropped[v] ? MG_NONE : keep_value(&a->t, v);
}

static void keep_op(struct mg_rewrite_target *t, mg_op op)
{
    struct mg_graph *to = t->to;
    struct mg_op_info info = t->s->g->ops[op];
    mg_value *in = MG_NEW_ARRAY(to->arena, mg_value, info.in_count);
    mg_value *out = MG_NEW_ARRAY(to->arena, mg_value, info.out_count);
    t->new_index[op] = (mg_op)to->op_count;
    for (uint32_t i = 0; i < info.in_count; i++)
        in[i] = t->map[info.in[i]];
    for (uint32_t i = 0; i < info.out_count; i++) {
        out[i] = t->map[info.out[i]];
        to->values[out[i]].producer = t->new_index[op];
        to->values[out[i]].slot = i;
    }
    info.in = in;
    info.out = out;
    *MG_PUSH(to->arena, to->ops, to->op_count, to->op_capacity) = info;
}

enum mg_code mg_rewrite_add(struct mg_rewrite_target *t, enum mg_op_type type, const char *name, const mg_value *in,
                            uint32_t in_count, const struct mg_attr *attrs, uint32_t attr_count, const char *result,
                            mg_op like, mg_value *out, struct mg_error *err)
{
    MG_TRY(mg_graph_add_op(t->to, type, name, in, in_count, attrs, attr_count, &result, 1, out, err));
    t->new_index[like] = (mg_op)t->to->op_count - 1;
    struct mg_op_info *info = &t->to->ops[t->new_index[like]];
    info->module = t->s->g->ops[like].module;
    info->forward_of = t->s->g->ops[like].forward_of;
    return MG_OK;
}

static void keep_ends(struct mg_rewrite_target *t, mg_op forward_ops)
{
    const struct mg_graph *g = t->s->g;
    for (size_t i = 0; i < g->output_count; i++)
        mg_graph_add_output(t->to, t->map[g->outputs[i]]);
    for (mg_value v = 0; v < g->value_count; v++)
        if (g->values[v].update_of != MG_NONE)
            mg_graph_add_update(t->to, t->map[g->values[v].update_of], t->map[v]);
    for (mg_op op = 0; op < t->to->op_count; op++) {
        mg_op origin = t->to->ops[op].forward_of;
        t->to->ops[op].forward_of = origin == MG_NONE ? MG_NONE : t->new_index[origin];
    }
    t->to->forward_ops = forward_ops;
}

static enum mg_code emit(struct applier *a, struct mg_error *err)
{
    const struct mg_graph *g = a->s.g;
    struct mg_rewrite_target *t = &a->t;
    t->s = &a->s;
    t->to = mg_graph_new(&a->s.scratch, g->name);
    t->to->math = g->math;
    t->new_index = MG_NEW_ARRAY(&a->s.scratch, mg_op, g->op_count);
    keep_values(a);
    mg_op forward_ops = MG_NONE;
    for (mg_op op = 0; op < g->op_count; op++) {
        if (op == g->forward_ops)
            forward_ops = (mg_op)t->to->op_count;
        const struct mg_rewrite_app *app = a->app_of[op] ? &a->apps[a->app_of[op] - 1] : NULL;
        if (app)
            MG_TRY(app->rule->emit(t, app, op, err));
        else
            keep_op(t, op);
    }
    keep_ends(t, forward_ops);
    return MG_OK;
}

static enum mg_code apply(void *context, struct mg_error *err)
{
    struct applier *a = context;
    mg_rewrite_prepare(&a->s);
    MG_TRY(read_edits(a, err));
    MG_TRY(emit(a, err));
    return mg_graph_normalise(a->t.to, a->s.arena, a->out, err);
}

static enum mg_code apply_with_scratch(void *context, struct mg_error *err)
{
    struct applier *a = context;
    return mg_arena_guard(&a->s.scratch, apply, a, err);
}

enum mg_code mg_rewrite_apply(const struct mg_graph *g, const struct mg_edit *edits, size_t count,
                              struct mg_arena *arena, struct mg_graph **out, struct mg_error *err)
{
    struct applier a = {.s = {.g = g, .arena = arena}, .edits = edits, .edit_count = count, .out = out};
    mg_arena_init(&a.s.scratch, SIZE_MAX);
    enum mg_code code = mg_arena_guard(arena, apply_with_scratch, &a, err);
    mg_arena_release(&a.s.scratch);
    return code;
}
