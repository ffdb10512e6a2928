/* A plan as Graphviz: steps in order from top to bottom, regions as clusters, edges from the step that
 * made an instance to the steps that read it. */
#include "plan/plan_priv.h"

static void write_quoted(struct mg_writer *w, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            mg_write_text(w, "\\%c", *text);
        else if (*text == '\n')
            mg_write_text(w, "\\n");
        else
            mg_write_text(w, "%c", *text);
    }
}

static const char *step_colour(enum mg_step_kind kind)
{
    switch (kind) {
    case MG_STEP_STORE:
    case MG_STEP_LOAD:
        return "#cfe2ff";
    case MG_STEP_SLICE:
    case MG_STEP_JOIN:
    case MG_STEP_ACC:
        return "#fff3cd";
    default:
        return "#ffffff";
    }
}

/* The name after the step's kind: its operator, or the value that it moves. */
static const char *step_subject(const struct mg_graph *g, const struct mg_plan *plan, const struct mg_step *step)
{
    if (step->kind == MG_STEP_COMPUTE)
        return g->ops[step->op].name;
    uint32_t instance = step->in_count ? plan->refs[step->in] : plan->refs[step->out];
    return g->values[plan->instances[instance].value].name;
}

static void write_node(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan, uint32_t at)
{
    const struct mg_step *step = &plan->steps[at];
    mg_write_text(w, "s%u [label=\"", at);
    write_quoted(w, step->kind == MG_STEP_COMPUTE ? mg_op_type_name(g->ops[step->op].type) : mg_step_name(step->kind));
    mg_write_text(w, "\\n");
    write_quoted(w, step_subject(g, plan, step));
    mg_write_text(w, "\", fillcolor=\"%s\"];\n", step_colour(step->kind));
}

static void write_nodes(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan)
{
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        if (step->kind == MG_STEP_BEGIN)
            mg_write_text(w, "subgraph cluster_%u {\nlabel=\"region %u: %u parts\";\n", step->op, step->op + 1,
                          plan->regions[step->op].parts);
        else if (step->kind == MG_STEP_END)
            mg_write_text(w, "}\n");
        else if (step->kind != MG_STEP_FREE)
            write_node(w, g, plan, s);
    }
}

/* A region output is made where it is last written, not where it is allocated. */
static void write_edges(struct mg_writer *w, const struct mg_plan *plan, struct mg_arena *arena)
{
    uint32_t *maker = MG_NEW_ARRAY(arena, uint32_t, plan->instance_count);
    for (size_t i = 0; i < plan->instance_count; i++)
        maker[i] = MG_NONE;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        if (step->kind == MG_STEP_FREE || step->kind == MG_STEP_BEGIN || step->kind == MG_STEP_END)
            continue;
        bool writes = step->kind == MG_STEP_JOIN || step->kind == MG_STEP_ACC;
        for (uint32_t i = 0; i < step->in_count; i++) {
            uint32_t instance = plan->refs[step->in + i], base = plan->instances[instance].view_of;
            instance = base == MG_NONE ? instance : base;
            if (maker[instance] != MG_NONE && maker[instance] != s)
                mg_write_text(w, "s%u -> s%u;\n", maker[instance], s);
        }
        for (uint32_t i = 0; i < step->out_count; i++)
            maker[plan->refs[step->out + i]] = s;
        if (writes)
            maker[plan->refs[step->in + 1]] = s;
    }
}

struct drawing {
    struct mg_writer *w;
    const struct mg_graph *g;
    const struct mg_plan *plan;
    struct mg_arena *arena;
};

static enum mg_code draw(void *context, struct mg_error *err)
{
    struct drawing *d = context;
    (void)err;
    mg_write_text(d->w, "digraph plan {\nnode [shape=box, style=filled];\n");
    write_nodes(d->w, d->g, d->plan);
    write_edges(d->w, d->plan, d->arena);
    mg_write_text(d->w, "}\n");
    return MG_OK;
}

void mg_plan_write_dot(struct mg_writer *w, const struct mg_graph *original, const struct mg_plan *plan)
{
    const struct mg_graph *g = mg_plan_graph(original, plan);
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    struct drawing drawing = {w, g, plan, &arena};
    if (mg_arena_guard(&arena, draw, &drawing, NULL) != MG_OK)
        w->failed = true;
    mg_arena_release(&arena);
}
