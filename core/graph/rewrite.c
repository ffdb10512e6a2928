/* Applies edits to a normalised graph.
 *
 * The edited graph is written down anew: every operator in its old place, but where the first of a set of
 * aggregated operators stood, the join of the second operands, the wide operator and the slices of its result;
 * the others vanish. Results keep their names and are made by the slices. Normalisation then orders, decides
 * which slices stay views, and refuses what would wait for itself. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "graph/ops_priv.h"
#include "graph/rewrite_priv.h"

/* ---- names and records ---- */

/* A name that no operator and no value of the original has. */
static const char *fresh(struct mg_rewrite_source *s, mg_op op, const char *suffix)
{
    const char *base = s->g->ops[op].name;
    const char *name = mg_arena_printf(s->arena, "%s.%s", base, suffix);
    for (unsigned n = 2; mg_rewrite_op_named(s, name) != MG_NONE || mg_graph_find_value(s->g, name) != MG_NONE; n++)
        name = mg_arena_printf(s->arena, "%s.%s%u", base, suffix, n);
    return name;
}

void mg_rewrite_name(struct mg_rewrite_source *s, struct mg_rewrite_app *app)
{
    mg_op first = app->ops[0];
    bool biased = app->rule->biased || s->g->ops[first].in_count > 2;
    app->weights = fresh(s, first, "weights");
    app->biases = biased ? fresh(s, first, "biases") : NULL;
    app->wide = fresh(s, first, "wide");
    app->sum = app->rule->biased ? fresh(s, first, "sum") : NULL;
    app->parts = MG_NEW_ARRAY(s->arena, const char *, app->op_count);
    for (uint32_t i = 0; i < app->op_count; i++)
        app->parts[i] = fresh(s, app->ops[i], "part");
}

static void write_name(struct mg_writer *w, const char *name)
{
    if (name)
        mg_write_string(w, name);
}

static void write_bound(struct mg_writer *w, const struct mg_rewrite_source *s, const struct mg_rewrite_app *app)
{
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < app->op_count; i++)
        mg_write_string(w, s->g->ops[app->ops[i]].name);
}

static void write_binding(struct mg_writer *w, const struct mg_rewrite_source *s, const struct mg_rewrite_app *app)
{
    mg_write_begin_object(w);
    mg_write_key(w, "ops");
    write_bound(w, s, app);
    mg_write_end_array(w);
    mg_write_end_object(w);
}

static void write_removed(struct mg_writer *w, const struct mg_rewrite_source *s, const struct mg_rewrite_app *app)
{
    write_bound(w, s, app);
    for (uint32_t i = 0; i < app->op_count && app->rule->biased; i++)
        mg_write_string(w, s->g->ops[mg_rewrite_bias_add(s->g, app->ops[i])].name);
    mg_write_end_array(w);
}

static void write_added(struct mg_writer *w, const struct mg_rewrite_source *s, const struct mg_rewrite_app *app)
{
    (void)s;
    mg_write_begin_array(w);
    write_name(w, app->weights);
    write_name(w, app->biases);
    write_name(w, app->wide);
    write_name(w, app->sum);
    for (uint32_t i = 0; i < app->op_count; i++)
        mg_write_string(w, app->parts[i]);
    mg_write_end_array(w);
}

typedef void writer_of(struct mg_writer *w, const struct mg_rewrite_source *s, const struct mg_rewrite_app *app);

/* The text's size; the text itself into `room`, if given. 0: no memory. */
static size_t write_text(const struct mg_rewrite_source *s, const struct mg_rewrite_app *app, writer_of *write,
                         char *room)
{
    struct mg_writer w;
    mg_writer_init(&w);
    write(&w, s, app);
    size_t size = mg_writer_finish(&w) ? w.size : 0;
    if (size && room)
        memcpy(room, w.data, size);
    mg_writer_release(&w);
    return size;
}

/* Written twice, so that no allocation of the arena's can jump past a writer. */
static const char *text_of(struct mg_rewrite_source *s, const struct mg_rewrite_app *app, writer_of *write)
{
    size_t size = write_text(s, app, write, NULL);
    char *text = mg_arena_alloc(s->arena, size + 1);
    return size && write_text(s, app, write, text) == size ? text : NULL;
}

enum mg_code mg_rewrite_record(struct mg_rewrite_source *s, const struct mg_rewrite_app *app, struct mg_edit *out,
                               struct mg_error *err)
{
    out->rule = app->rule->name;
    out->binding = text_of(s, app, write_binding);
    out->removed = text_of(s, app, write_removed);
    out->added = text_of(s, app, write_added);
    return out->binding && out->removed && out->added ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "no memory for an edit");
}

/* ---- reading edits ---- */

struct applier {
    struct mg_rewrite_source s;
    const struct mg_edit *edits;
    size_t edit_count;
    struct mg_graph **out;
    struct mg_rewrite_app *apps;
    uint32_t app_count;
    uint32_t *app_of;    /* by operator: application that removes it + 1, or 0 */
    struct mg_graph *to; /* in scratch */
    mg_value *map;       /* by old value */
    mg_op *new_index;    /* by old operator: its place in `to`; of a removed one, the wide operator's */
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

static enum mg_code check_conditions(struct applier *a, size_t e, const struct mg_rewrite_app *app,
                                     struct mg_error *err)
{
    const struct mg_graph *g = a->s.g;
    for (uint32_t i = 0; i < app->op_count; i++) {
        if (i > 0 && app->ops[i] <= app->ops[i - 1])
            return refuse(err, e, "does not bind its operators in the graph's order: ", g->ops[app->ops[i]].name);
        if (!app->rule->fits(&a->s, app->ops[0], app->ops[i]))
            return refuse(err, e, "does not fit operator ", g->ops[app->ops[i]].name);
        MG_TRY(take(a, e, app->ops[i], err));
        if (app->rule->biased)
            MG_TRY(take(a, e, mg_rewrite_bias_add(g, app->ops[i]), err));
    }
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
        mg_rewrite_name(&a->s, app);
        MG_TRY(check_texts(a, e, app, err));
        a->app_count++;
    }
    return MG_OK;
}

/* ---- the new graph ---- */

static mg_value keep_value(struct applier *a, mg_value v)
{
    const struct mg_value_info *info = &a->s.g->values[v];
    mg_value copy = mg_graph_add_value(a->to, info->name, info->kind, info->dtype, &info->shape);
    a->to->values[copy].home = info->home;
    a->to->values[copy].declared = info->declared;
    return copy;
}

/* A product whose sum with the bias alone is read has no place in the new graph. */
static bool vanishes(const struct applier *a, mg_value v)
{
    mg_op op = a->s.g->values[v].producer;
    if (op == MG_NONE || a->app_of[op] == 0 || !a->apps[a->app_of[op] - 1].rule->biased)
        return false;
    return mg_rewrite_bias_add(a->s.g, op) != MG_NONE;
}

static void keep_values(struct applier *a)
{
    const struct mg_graph *g = a->s.g;
    a->map = MG_NEW_ARRAY(&a->s.scratch, mg_value, g->value_count);
    for (mg_value v = 0; v < g->value_count; v++)
        a->map[v] = vanishes(a, v) ? MG_NONE : keep_value(a, v);
}

static void keep_op(struct applier *a, mg_op op)
{
    struct mg_graph *to = a->to;
    struct mg_op_info info = a->s.g->ops[op];
    mg_value *in = MG_NEW_ARRAY(to->arena, mg_value, info.in_count);
    mg_value *out = MG_NEW_ARRAY(to->arena, mg_value, info.out_count);
    a->new_index[op] = (mg_op)to->op_count;
    for (uint32_t i = 0; i < info.in_count; i++)
        in[i] = a->map[info.in[i]];
    for (uint32_t i = 0; i < info.out_count; i++) {
        out[i] = a->map[info.out[i]];
        to->values[out[i]].producer = a->new_index[op];
        to->values[out[i]].slot = i;
    }
    info.in = in;
    info.out = out;
    *MG_PUSH(to->arena, to->ops, to->op_count, to->op_capacity) = info;
}

/* Adds an operator; what belongs to it is taken from the old operator `like`. */
static enum mg_code add(struct applier *a, enum mg_op_type type, const char *name, const mg_value *in,
                        uint32_t in_count, const struct mg_attr *attrs, uint32_t attr_count, const char *result,
                        mg_op like, mg_value *out, struct mg_error *err)
{
    MG_TRY(mg_graph_add_op(a->to, type, name, in, in_count, attrs, attr_count, &result, 1, out, err));
    struct mg_op_info *info = &a->to->ops[a->to->op_count - 1];
    info->module = a->s.g->ops[like].module;
    info->forward_of = a->s.g->ops[like].forward_of;
    return MG_OK;
}

/* Joins the operands `slot` of operators (of their additions, if so). */
static enum mg_code join(struct applier *a, const struct mg_rewrite_app *app, const char *name, uint32_t slot,
                         bool of_sum, uint32_t axis, mg_value *out, struct mg_error *err)
{
    const struct mg_graph *g = a->s.g;
    mg_value *in = MG_NEW_ARRAY(&a->s.scratch, mg_value, app->op_count);
    for (uint32_t i = 0; i < app->op_count; i++) {
        mg_op op = of_sum ? mg_rewrite_bias_add(g, app->ops[i]) : app->ops[i];
        in[i] = a->map[g->ops[op].in[slot]];
    }
    struct mg_attr attr = {.key = MG_ATTR_AXIS, .type = MG_ATTR_TYPE_INT, .i = axis};
    return add(a, MG_OP_CONCAT, name, in, app->op_count, &attr, 1, name, app->ops[0], out, err);
}

static enum mg_code cut(struct applier *a, const struct mg_rewrite_app *app, mg_value wide, uint32_t axis,
                        struct mg_error *err)
{
    const struct mg_graph *g = a->s.g;
    int64_t at = 0, dim = axis, end;
    for (uint32_t i = 0; i < app->op_count; i++) {
        mg_op op = app->ops[i], last = app->rule->biased ? mg_rewrite_bias_add(g, op) : op;
        mg_value result = g->ops[last].out[0], ignored;
        end = at + g->values[result].shape.dim[axis];
        struct mg_attr attrs[] = {{.key = MG_ATTR_STARTS, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = &at},
                                  {.key = MG_ATTR_ENDS, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = &end},
                                  {.key = MG_ATTR_AXES, .type = MG_ATTR_TYPE_INTS, .count = 1, .ints = &dim}};
        MG_TRY(add(a, MG_OP_SLICE, app->parts[i], &wide, 1, attrs, 3, g->values[result].name, op, &ignored, err));
        at = end;
    }
    return MG_OK;
}

static enum mg_code aggregate(struct applier *a, const struct mg_rewrite_app *app, struct mg_error *err)
{
    const struct mg_op_info *first = &a->s.g->ops[app->ops[0]];
    struct mg_rewrite_axes axes = app->rule->axes(a->s.g, app->ops[0]);
    mg_value in[3] = {a->map[first->in[0]]}, wide;
    MG_TRY(join(a, app, app->weights, 1, false, axes.operand, &in[1], err));
    if (app->biases)
        MG_TRY(join(a, app, app->biases, app->rule->biased ? 1 : 2, app->rule->biased, 0, &in[2], err));
    mg_op index = (mg_op)a->to->op_count;
    MG_TRY(add(a, first->type, app->wide, in, first->in_count, first->attrs, first->attr_count, app->wide, app->ops[0],
               &wide, err));
    if (app->sum) {
        mg_value terms[2] = {wide, in[2]};
        MG_TRY(add(a, MG_OP_ADD, app->sum, terms, 2, NULL, 0, app->sum, app->ops[0], &wide, err));
    }
    for (uint32_t i = 0; i < app->op_count; i++) {
        a->new_index[app->ops[i]] = index;
        if (app->rule->biased)
            a->new_index[mg_rewrite_bias_add(a->s.g, app->ops[i])] = index;
    }
    return cut(a, app, wide, axes.result, err);
}

static void keep_ends(struct applier *a, mg_op forward_ops)
{
    const struct mg_graph *g = a->s.g;
    for (size_t i = 0; i < g->output_count; i++)
        mg_graph_add_output(a->to, a->map[g->outputs[i]]);
    for (mg_value v = 0; v < g->value_count; v++)
        if (g->values[v].update_of != MG_NONE)
            mg_graph_add_update(a->to, a->map[g->values[v].update_of], a->map[v]);
    for (mg_op op = 0; op < a->to->op_count; op++) {
        mg_op origin = a->to->ops[op].forward_of;
        a->to->ops[op].forward_of = origin == MG_NONE ? MG_NONE : a->new_index[origin];
    }
    a->to->forward_ops = forward_ops;
}

static enum mg_code emit(struct applier *a, struct mg_error *err)
{
    const struct mg_graph *g = a->s.g;
    a->to = mg_graph_new(&a->s.scratch, g->name);
    a->to->math = g->math;
    a->new_index = MG_NEW_ARRAY(&a->s.scratch, mg_op, g->op_count);
    keep_values(a);
    mg_op forward_ops = MG_NONE;
    for (mg_op op = 0; op < g->op_count; op++) {
        if (op == g->forward_ops)
            forward_ops = (mg_op)a->to->op_count;
        const struct mg_rewrite_app *app = a->app_of[op] ? &a->apps[a->app_of[op] - 1] : NULL;
        if (!app)
            keep_op(a, op);
        else if (op == app->ops[0])
            MG_TRY(aggregate(a, app, err));
    }
    keep_ends(a, forward_ops);
    return MG_OK;
}

static enum mg_code apply(void *context, struct mg_error *err)
{
    struct applier *a = context;
    mg_rewrite_prepare(&a->s);
    MG_TRY(read_edits(a, err));
    MG_TRY(emit(a, err));
    return mg_graph_normalise(a->to, a->s.arena, a->out, err);
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
