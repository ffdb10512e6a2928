/* A graph as native JSON. Declares what is given (inputs, weights, states, constants) and the results
 * of opaque operators; all other shapes follow. */
#include <string.h>

#include "formats/native_priv.h"

static void write_shape(struct mg_writer *w, const struct mg_shape *shape)
{
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < shape->rank; i++)
        mg_write_int(w, shape->dim[i]);
    mg_write_end_array(w);
}

static void write_value(struct mg_writer *w, const struct mg_value_info *value)
{
    static const char *const kinds[] = {NULL, "input", "weight", "state", "constant"};
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", value->name);
    mg_write_key(w, "shape");
    write_shape(w, &value->shape);
    mg_write_member_string(w, "dtype", mg_dtype_name(value->dtype));
    if (kinds[value->kind])
        mg_write_member_string(w, "kind", kinds[value->kind]);
    if (value->home == MG_HOME_HOST)
        mg_write_member_string(w, "home", "host");
    mg_write_end_object(w);
}

static void write_values(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_key(w, "values");
    mg_write_begin_array(w);
    for (size_t i = 0; i < g->value_count; i++) {
        const struct mg_value_info *value = &g->values[i];
        if (value->kind != MG_KIND_COMPUTED || value->producer == MG_NONE ||
            g->ops[value->producer].type == MG_OP_OPAQUE)
            write_value(w, value);
    }
    mg_write_end_array(w);
}

static void write_names(struct mg_writer *w, const char *key, const struct mg_graph *g, const mg_value *values,
                        size_t count)
{
    mg_write_key(w, key);
    mg_write_begin_array(w);
    for (size_t i = 0; i < count; i++)
        mg_write_string(w, g->values[values[i]].name);
    mg_write_end_array(w);
}

static void write_attr(struct mg_writer *w, const struct mg_op_info *op, const struct mg_attr *attr)
{
    bool opaque = op->type == MG_OP_OPAQUE;
    if (opaque && attr->key == MG_ATTR_LATENCY) {
        if (attr->string[0] == 0)
            return;
        mg_write_key(w, mg_attr_name(attr->key));
        mg_write_raw(w, attr->string, strlen(attr->string));
        return;
    }
    mg_write_key(w, mg_attr_name(attr->key));
    if (opaque && attr->key == MG_ATTR_AXES) {
        mg_native_write_axes(w, attr, op->in_count, op->out_count);
        return;
    }
    mg_attr_write(w, attr);
}

static void write_op(struct mg_writer *w, const struct mg_graph *g, const struct mg_op_info *op)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", op->name);
    mg_write_member_string(w, "op", mg_op_type_name(op->type));
    write_names(w, "inputs", g, op->in, op->in_count);
    write_names(w, "outputs", g, op->out, op->out_count);
    if (op->attr_count) {
        mg_write_key(w, "attrs");
        mg_write_begin_object(w);
        for (uint32_t i = 0; i < op->attr_count; i++)
            write_attr(w, op, &op->attrs[i]);
        mg_write_end_object(w);
    }
    if (op->module && op->module[0])
        mg_write_member_string(w, "module", op->module);
    if (op->forward_of != MG_NONE)
        mg_write_member_string(w, "gradient_of", g->ops[op->forward_of].name);
    if (op->in_place >= 0 && (op->in_place_given || op->in_place != mg_op_in_place(op->type)))
        mg_write_member_int(w, "in_place", op->in_place);
    mg_write_end_object(w);
}

static void write_updates(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_key(w, "updates");
    mg_write_begin_array(w);
    for (size_t i = 0; i < g->value_count; i++) {
        if (g->values[i].updated_by == MG_NONE)
            continue;
        mg_write_begin_object(w);
        mg_write_member_string(w, "weight", g->values[i].name);
        mg_write_member_string(w, "value", g->values[g->values[i].updated_by].name);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static void write_labels(struct mg_writer *w, const struct mg_graph *g)
{
    bool any = false;
    for (size_t i = 0; i < g->value_count; i++)
        any = any || g->values[i].label;
    if (!any)
        return;
    mg_write_key(w, "labels");
    mg_write_begin_array(w);
    for (size_t i = 0; i < g->value_count; i++) {
        if (!g->values[i].label)
            continue;
        mg_write_begin_object(w);
        mg_write_member_string(w, "value", g->values[i].name);
        mg_write_member_string(w, "label", g->values[i].label);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

void mg_graph_write(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "format", "magis-graph/1");
    mg_write_member_string(w, "name", g->name);
    if (g->source)
        mg_write_member_string(w, "source", g->source);
    mg_write_member_string(w, "math", g->math == MG_MATH_TF32 ? "tf32" : "f32");
    write_values(w, g);
    mg_write_key(w, "ops");
    mg_write_begin_array(w);
    for (size_t i = 0; i < g->op_count; i++)
        write_op(w, g, &g->ops[i]);
    mg_write_end_array(w);
    write_names(w, "outputs", g, g->outputs, g->output_count);
    write_updates(w, g);
    write_labels(w, g);
    if (g->forward_ops < g->op_count)
        mg_write_member_uint(w, "forward_ops", g->forward_ops);
    mg_write_end_object(w);
}
