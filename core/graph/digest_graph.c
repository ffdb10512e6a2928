/* Identity of a graph: SHA-256 of its canonical JSON (sorted keys, no white space, shortest numbers)
 * after normalisation. Values are numbered, names, module paths and the graph's name left out. */
#include <string.h>

#include "base/digest.h"
#include "base/json.h"
#include "graph/normalise_priv.h"

static const char *kind_name(enum mg_kind kind)
{
    static const char *const names[] = {"computed", "input", "weight", "state", "constant"};
    return names[kind];
}

void mg_attr_write(struct mg_writer *w, const struct mg_attr *attr)
{
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        mg_write_int(w, attr->i);
        break;
    case MG_ATTR_TYPE_FLOAT:
        mg_write_double(w, attr->f);
        break;
    case MG_ATTR_TYPE_STRING:
        mg_write_string(w, attr->string);
        break;
    case MG_ATTR_TYPE_INTS:
        mg_write_begin_array(w);
        for (uint32_t i = 0; i < attr->count; i++)
            mg_write_int(w, attr->ints[i]);
        mg_write_end_array(w);
    }
}

/* In the order of the attributes' names: schemas are short. */
static void write_attrs(struct mg_writer *w, const struct mg_op_info *op)
{
    const char *last = "";
    mg_write_begin_object(w);
    for (uint32_t n = 0; n < op->attr_count; n++) {
        uint32_t least = op->attr_count;
        for (uint32_t i = 0; i < op->attr_count; i++) {
            const char *name = mg_attr_name(op->attrs[i].key);
            if (strcmp(name, last) > 0 &&
                (least == op->attr_count || strcmp(name, mg_attr_name(op->attrs[least].key)) < 0))
                least = i;
        }
        last = mg_attr_name(op->attrs[least].key);
        mg_write_key(w, last);
        mg_attr_write(w, &op->attrs[least]);
    }
    mg_write_end_object(w);
}

static void write_values(struct mg_writer *w, const char *key, const mg_value *values, size_t count)
{
    mg_write_key(w, key);
    mg_write_begin_array(w);
    for (size_t i = 0; i < count; i++)
        mg_write_uint(w, values[i]);
    mg_write_end_array(w);
}

static void write_op(struct mg_writer *w, const struct mg_op_info *op)
{
    mg_write_begin_object(w);
    mg_write_key(w, "attrs");
    write_attrs(w, op);
    mg_write_member_int(w, "in_place", op->in_place);
    write_values(w, "inputs", op->in, op->in_count);
    mg_write_member_string(w, "op", mg_op_type_name(op->type));
    write_values(w, "outputs", op->out, op->out_count);
    mg_write_end_object(w);
}

static void write_value(struct mg_writer *w, const struct mg_value_info *v)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "dtype", mg_dtype_name(v->dtype));
    mg_write_member_string(w, "home", v->home == MG_HOME_HOST ? "host" : "device");
    mg_write_member_string(w, "kind", kind_name(v->kind));
    mg_write_key(w, "shape");
    mg_write_begin_array(w);
    for (uint32_t d = 0; d < v->shape.rank; d++)
        mg_write_int(w, v->shape.dim[d]);
    mg_write_end_array(w);
    mg_write_end_object(w);
}

static void write_updates(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_key(w, "updates");
    mg_write_begin_array(w);
    for (mg_value v = 0; v < g->value_count; v++) {
        if (g->values[v].updated_by == MG_NONE)
            continue;
        mg_write_begin_array(w);
        mg_write_uint(w, v);
        mg_write_uint(w, g->values[v].updated_by);
        mg_write_end_array(w);
    }
    mg_write_end_array(w);
}

enum mg_code mg_graph_digest(const struct mg_graph *g, char out[65], struct mg_error *err)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "format", "magis-graph/1");
    mg_write_member_string(&w, "math", g->math == MG_MATH_TF32 ? "tf32" : "f32");
    mg_write_key(&w, "ops");
    mg_write_begin_array(&w);
    for (size_t op = 0; op < g->op_count; op++)
        write_op(&w, &g->ops[op]);
    mg_write_end_array(&w);
    write_values(&w, "outputs", g->outputs, g->output_count);
    write_updates(&w, g);
    mg_write_key(&w, "values");
    mg_write_begin_array(&w);
    for (size_t v = 0; v < g->value_count; v++)
        write_value(&w, &g->values[v]);
    mg_write_end_array(&w);
    mg_write_end_object(&w);
    bool written = mg_writer_finish(&w);
    if (written)
        mg_sha256_hex(w.data, w.size, out);
    mg_writer_release(&w);
    return written ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "out of memory for the graph's digest");
}
