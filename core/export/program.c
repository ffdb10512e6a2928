/* The program of a plan, by which magis_apply.py runs it with nothing else:
 *   graph   the edited graph as magis-graph/1, whose `source` is the digest of the captured step
 *   shapes, dtypes  of each value
 *   cuts    of each operator that some region cuts: the axes that are cut,
 *             {NAME: {"length", "combiner", "in": [[dimension, unit] or null for each operand], "out": [...]}}
 *           and where its attributes differ from the uncut operator's ("forms"), for each tuple of extents:
 *             {"extents": {NAME: extent of the axis}, "attrs": {those that differ}}
 */
#include "export/torch_priv.h"
#include "formats/formats.h"

struct form {
    const char *extents; /* as JSON: also what tells forms apart */
    const char *attrs;
    struct form *next;
};
struct program {
    struct mg_torch t; /* for its boxes */
    struct mg_writer *w;
    struct form **forms; /* by operator */
    bool *seen;          /* [operator][axis]: some region cuts it */
};

static void write_shapes(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_begin_object(w);
    for (size_t v = 0; v < g->value_count; v++) {
        mg_write_key(w, g->values[v].name);
        mg_write_begin_array(w);
        for (uint32_t d = 0; d < g->values[v].shape.rank; d++)
            mg_write_int(w, g->values[v].shape.dim[d]);
        mg_write_end_array(w);
    }
    mg_write_end_object(w);
}

static void write_dtypes(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_begin_object(w);
    for (size_t v = 0; v < g->value_count; v++)
        mg_write_member_string(w, g->values[v].name, mg_dtype_name(g->values[v].dtype));
    mg_write_end_object(w);
}

/* ---- forms ---- */

/* What a writer holds, in the arena; the writer is released. */
static const char *taken(struct mg_writer *w, struct mg_arena *arena)
{
    const char *text = mg_writer_finish(w) ? mg_arena_strdup(arena, w->data) : "{}";
    mg_writer_release(w);
    return text;
}

static const char *extents_of(const struct mg_torch *t, mg_op op)
{
    struct mg_torch_cut cuts[MG_MAX_AXES];
    uint32_t count = mg_torch_cuts(t, op, t->depth, cuts), axis_count;
    const struct mg_axis *axes = mg_op_axes(t->e->g, op, &axis_count);
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    for (uint32_t a = 0; a < axis_count; a++)
        for (uint32_t c = 0; c < count; c++)
            if (cuts[c].axis == a)
                mg_write_member_int(&w, axes[a].name, cuts[c].extent);
    mg_write_end_object(&w);
    return taken(&w, t->e->arena);
}

/* The attributes that the cut changes; NULL if none. */
static const char *changed_attrs(const struct mg_torch *t, const struct mg_op_info *info, const struct mg_op_desc *desc)
{
    bool changed = false;
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    for (uint32_t i = 0; i < desc->attr_count; i++) {
        const struct mg_attr *whole = mg_op_attr(info, desc->attrs[i].key);
        if (whole && mg_attr_equal(whole, &desc->attrs[i]))
            continue;
        changed = true;
        mg_write_key(&w, mg_attr_name(desc->attrs[i].key));
        mg_attr_write(&w, &desc->attrs[i]);
    }
    mg_write_end_object(&w);
    const char *text = taken(&w, t->e->arena);
    return changed ? text : NULL;
}

static enum mg_code add_form(struct program *p, mg_op op)
{
    struct mg_torch *t = &p->t;
    struct mg_op_desc desc;
    struct mg_arena *arena = t->e->arena;
    enum mg_code code = mg_torch_describe(t, op, t->depth, &desc);
    const char *attrs = code == MG_OK ? changed_attrs(t, &t->e->g->ops[op], &desc) : NULL;
    if (!attrs)
        return code;
    const char *extents = extents_of(t, op);
    for (const struct form *form = p->forms[op]; form; form = form->next)
        if (strcmp(form->extents, extents) == 0)
            return MG_OK;
    struct form *form = MG_NEW_ARRAY(arena, struct form, 1);
    *form = (struct form){extents, attrs, p->forms[op]};
    p->forms[op] = form;
    return MG_OK;
}

/* Every operator of every region, under each tuple of extents of the parts around it. */
static enum mg_code add_forms(struct program *p, uint32_t parent)
{
    struct mg_torch *t = &p->t;
    const struct mg_plan *plan = t->e->plan;
    enum mg_code code = MG_OK;
    if (t->depth == MG_TORCH_DEPTH)
        return mg_fail(t->e->err, MG_ERR_LIMIT, "", "regions nested deeper than %d", MG_TORCH_DEPTH);
    for (uint32_t r = 0; r < plan->region_count; r++) {
        const struct mg_region *region = &plan->regions[r];
        if (region->parent != parent)
            continue;
        uint32_t larger = (uint32_t)(mg_torch_length(t, r) % (int64_t)region->parts);
        for (uint32_t part = 0; part <= larger && code == MG_OK; part += larger ? larger : 1) {
            t->open[t->depth++] = (struct mg_torch_open){r, part};
            for (uint32_t i = 0; i < region->op_count && code == MG_OK; i++) {
                p->seen[region->ops[i].op * MG_MAX_AXES + region->ops[i].axis] = true;
                code = add_form(p, region->ops[i].op);
            }
            code = code == MG_OK ? add_forms(p, r) : code;
            t->depth--;
        }
    }
    return code;
}

/* ---- cuts ---- */

static void write_uses(struct mg_writer *w, const char *key, const struct mg_axis_use *uses, uint32_t count)
{
    mg_write_key(w, key);
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < count; i++) {
        if (uses[i].dim < 0) {
            mg_write_null(w);
            continue;
        }
        mg_write_begin_array(w);
        mg_write_int(w, uses[i].dim);
        mg_write_int(w, uses[i].unit);
        mg_write_end_array(w);
    }
    mg_write_end_array(w);
}

static void write_axes(const struct program *p, mg_op op)
{
    static const char *const combiners[] = {"none", "sum", "max", "min", "prod"};
    const struct mg_op_info *info = &p->t.e->g->ops[op];
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(p->t.e->g, op, &count);
    mg_write_key(p->w, "axes");
    mg_write_begin_object(p->w);
    for (uint32_t a = 0; a < count; a++) {
        if (!p->seen[op * MG_MAX_AXES + a])
            continue;
        mg_write_key(p->w, axes[a].name);
        mg_write_begin_object(p->w);
        mg_write_member_int(p->w, "length", axes[a].length);
        mg_write_member_string(p->w, "combiner", combiners[axes[a].combiner]);
        write_uses(p->w, "in", axes[a].in, info->in_count);
        write_uses(p->w, "out", axes[a].out, info->out_count);
        mg_write_end_object(p->w);
    }
    mg_write_end_object(p->w);
}

static void write_forms(const struct program *p, mg_op op)
{
    mg_write_key(p->w, "forms");
    mg_write_begin_array(p->w);
    for (const struct form *form = p->forms[op]; form; form = form->next) {
        mg_write_begin_object(p->w);
        mg_write_key(p->w, "extents");
        mg_write_raw(p->w, form->extents, strlen(form->extents));
        mg_write_key(p->w, "attrs");
        mg_write_raw(p->w, form->attrs, strlen(form->attrs));
        mg_write_end_object(p->w);
    }
    mg_write_end_array(p->w);
}

static bool is_cut(const struct program *p, mg_op op)
{
    for (uint32_t a = 0; a < MG_MAX_AXES; a++)
        if (p->seen[op * MG_MAX_AXES + a])
            return true;
    return false;
}

static void write_cuts(const struct program *p)
{
    mg_write_begin_object(p->w);
    for (mg_op op = 0; op < p->t.e->g->op_count; op++) {
        if (!is_cut(p, op))
            continue;
        mg_write_key(p->w, p->t.e->g->ops[op].name);
        mg_write_begin_object(p->w);
        write_axes(p, op);
        write_forms(p, op);
        mg_write_end_object(p->w);
    }
    mg_write_end_object(p->w);
}

enum mg_code mg_write_program(struct mg_export *e, struct mg_writer *w)
{
    struct mg_graph shown = *e->g;
    struct program p = {.t = {.e = e}, .w = w};
    shown.source = e->original->source;
    p.forms = MG_NEW_ARRAY(e->arena, struct form *, e->g->op_count);
    p.seen = MG_NEW_ARRAY(e->arena, bool, e->g->op_count *MG_MAX_AXES);
    enum mg_code code = add_forms(&p, MG_NONE);
    if (code != MG_OK)
        return code;
    mg_write_begin_object(w);
    mg_write_key(w, "graph");
    mg_graph_write(w, &shown);
    mg_write_key(w, "shapes");
    write_shapes(w, &shown);
    mg_write_key(w, "dtypes");
    write_dtypes(w, &shown);
    mg_write_key(w, "cuts");
    write_cuts(&p);
    mg_write_end_object(w);
    return MG_OK;
}
