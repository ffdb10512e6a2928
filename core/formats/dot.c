/* A graph for Graphviz: operators as boxes (views dashed), what is given as ovals, edges with shapes. */
#include <stdio.h>

#include "formats/formats.h"

/* A quoted DOT string; quotes and backslashes escaped, control characters replaced. */
static void write_quoted(struct mg_writer *w, const char *text)
{
    mg_write_text(w, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            mg_write_text(w, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            mg_write_text(w, " ");
        else
            mg_write_text(w, "%c", *text);
    }
    mg_write_text(w, "\"");
}

static void write_label(struct mg_writer *w, const struct mg_value_info *value)
{
    mg_write_text(w, " [label=\"%s [", mg_dtype_name(value->dtype));
    for (uint32_t i = 0; i < value->shape.rank; i++)
        mg_write_text(w, "%s%lld", i ? ", " : "", (long long)value->shape.dim[i]);
    mg_write_text(w, "]\"];\n");
}

static void write_op_node(struct mg_writer *w, const struct mg_graph *g, mg_op op)
{
    const struct mg_op_info *info = &g->ops[op];
    mg_write_text(w, "  op%u [shape=box, style=%s, tooltip=", op, info->is_view ? "dashed" : "solid");
    write_quoted(w, info->module ? info->module : "");
    mg_write_text(w, ", label=");
    write_quoted(w, info->name);
    mg_write_text(w, ", xlabel=");
    write_quoted(w, mg_op_type_name(info->type));
    mg_write_text(w, "];\n");
}

static void write_given_node(struct mg_writer *w, const struct mg_graph *g, mg_value value)
{
    mg_write_text(w, "  value%u [shape=oval, style=%s, label=", value,
                  g->values[value].kind == MG_KIND_INPUT ? "bold" : "solid");
    write_quoted(w, g->values[value].name);
    mg_write_text(w, "];\n");
}

static void write_edges(struct mg_writer *w, const struct mg_graph *g, mg_op op)
{
    for (uint32_t i = 0; i < g->ops[op].in_count; i++) {
        mg_value v = g->ops[op].in[i];
        if (g->values[v].producer == MG_NONE)
            mg_write_text(w, "  value%u -> op%u", v, op);
        else
            mg_write_text(w, "  op%u -> op%u", g->values[v].producer, op);
        write_label(w, &g->values[v]);
    }
}

void mg_graph_write_dot(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_text(w, "digraph ");
    write_quoted(w, g->name);
    mg_write_text(w, " {\n  node [fontname=\"sans-serif\"];\n");
    for (mg_value v = 0; v < g->value_count; v++)
        if (g->values[v].producer == MG_NONE)
            write_given_node(w, g, v);
    for (mg_op op = 0; op < g->op_count; op++)
        write_op_node(w, g, op);
    for (mg_op op = 0; op < g->op_count; op++)
        write_edges(w, g, op);
    for (size_t i = 0; i < g->output_count; i++) {
        mg_value v = g->outputs[i];
        mg_write_text(w, "  out%zu [shape=doublecircle, label=", i);
        write_quoted(w, g->values[v].name);
        mg_write_text(w, "];\n  %s%u -> out%zu", g->values[v].producer == MG_NONE ? "value" : "op",
                      g->values[v].producer == MG_NONE ? v : g->values[v].producer, i);
        write_label(w, &g->values[v]);
    }
    mg_write_text(w, "}\n");
}
