/* Calls that no rule knows: operators that are priced by their bytes. What such a call writes to is among its results.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/aten_priv.h"

/* The operands of a call, and its arguments as text, in which operands are numbers. */
struct operands {
    mg_value *in;
    size_t count, capacity, written;
    bool incomplete; /* a result that we do not have is left out */
};

static void add_tensors(struct aten_builder *b, const struct aten_arg *arg, struct operands *o)
{
    for (size_t i = 0; i < arg->count; i++)
        add_tensors(b, &arg->item[i], o);
    if (!aten_is_tensor(arg))
        return;
    mg_value v = aten_read(b, arg->node);
    if (v != MG_NONE)
        *MG_PUSH(b->arena, o->in, o->count, o->capacity) = v;
    else
        o->incomplete = true;
    b->declined = false;
}

static void add_operand(struct mg_writer *w, struct operands *o)
{
    mg_write_begin_object(w);
    mg_write_member_uint(w, "in", o->written++);
    mg_write_end_object(w);
}

static void add_tagged(struct mg_writer *w, const char *tag, const char *text)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, tag, text);
    mg_write_end_object(w);
}

static void add_number(struct mg_writer *w, double number)
{
    if (isnan(number))
        add_tagged(w, "float", "nan");
    else if (fabs(number) == DBL_MAX)
        add_tagged(w, "float", number > 0 ? "inf" : "-inf");
    else
        mg_write_double(w, number);
}

/* 2.0 as such: "2" would be read as an integer. */
static void add_whole(struct mg_writer *w, const struct aten_arg *arg)
{
    char text[32];
    snprintf(text, sizeof text, "%.0f", arg->f);
    if (arg->real)
        add_tagged(w, "float", text);
    else
        mg_write_int(w, arg->i);
}

static void write_argument(struct mg_writer *w, const struct aten_arg *arg, struct operands *o);

static void write_list(struct mg_writer *w, const struct aten_arg *arg, struct operands *o)
{
    mg_write_begin_array(w);
    for (size_t i = 0; i < arg->count; i++)
        write_argument(w, &arg->item[i], o);
    mg_write_end_array(w);
}

static void write_argument(struct mg_writer *w, const struct aten_arg *arg, struct operands *o)
{
    switch (arg->kind) {
    case ATEN_NULL:
        mg_write_null(w);
        break;
    case ATEN_BOOL:
        mg_write_bool(w, arg->i != 0);
        break;
    case ATEN_INT:
        add_whole(w, arg);
        break;
    case ATEN_FLOAT:
        if (arg->large)
            mg_write_int(w, arg->large);
        else
            add_number(w, arg->f);
        break;
    case ATEN_TEXT:
        mg_write_string(w, arg->text);
        break;
    case ATEN_DTYPE:
        add_tagged(w, "dtype", mg_dtype_name(arg->dtype));
        break;
    case ATEN_NODE:
        add_operand(w, o);
        break;
    case ATEN_LIST:
        write_list(w, arg, o);
        break;
    }
}

/* The node of the i-th written argument; MG_NONE: it is no tensor that we know. */
static uint32_t written(const struct aten_builder *b, size_t i)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    const struct aten_arg *arg = node->writes[i] >= 0 ? aten_argument(node, (size_t)node->writes[i], NULL) : NULL;
    return aten_is_tensor(arg) && b->document->nodes[arg->node].has_out ? arg->node : MG_NONE;
}

/* "[[by position], {by keyword}, [positions written to]]"; where memory lies and how it is laid out is the caller's
 * affair. */
static const char *list_operands(struct aten_builder *b, const struct aten_node *node, struct operands *o)
{
    static const char *const places[] = {"layout", "pin_memory", "memory_format"};
    const char *text = "";
    struct mg_writer w;
    for (size_t i = 0; i < node->args.count; i++)
        add_tensors(b, &node->args.item[i], o);
    add_tensors(b, &node->kwargs, o);
    if (o->incomplete)
        return text;
    mg_writer_init(&w);
    mg_write_begin_array(&w);
    write_list(&w, &node->args, o);
    mg_write_begin_object(&w);
    for (size_t i = 0; i < node->kwargs.count; i++) {
        const struct aten_arg *arg = &node->kwargs.item[i];
        bool said = true;
        for (size_t k = 0; k < sizeof places / sizeof *places; k++)
            said = said && strcmp(arg->key, places[k]) != 0;
        if (!said)
            continue;
        mg_write_key(&w, arg->key);
        write_argument(&w, arg, o);
    }
    mg_write_end_object(&w);
    mg_write_begin_array(&w);
    for (size_t i = 0; i < node->write_count; i++)
        if (written(b, i) != MG_NONE)
            mg_write_int(&w, node->writes[i]);
    mg_write_end_array(&w);
    mg_write_end_array(&w);
    if (mg_writer_finish(&w))
        text = mg_arena_strdup(b->arena, w.data);
    mg_writer_release(&w);
    return text;
}

static const char *purity_of(const char *op)
{
    static const char *const random[] = {"rand",        "bernoulli", "dropout",     "normal_", "uniform",
                                         "multinomial", "poisson",   "exponential", "cauchy",  "geometric"};
    if (strncmp(op, "aten.", 5) != 0)
        return "impure";
    for (size_t i = 0; i < sizeof random / sizeof *random; i++)
        if (strstr(op, random[i]))
            return "seeded";
    return "pure";
}

/* An in-place call hands out an argument that it wrote to. */
static bool hands_out(const struct aten_builder *b, uint32_t argument)
{
    const struct aten_node *node = &b->document->nodes[b->node], *from = &b->document->nodes[argument];
    return node->has_out && b->tensors[b->node].storage == b->tensors[argument].storage &&
           mg_shape_equal(&node->shape, &from->shape) && node->dtype == from->dtype;
}

struct results {
    struct mg_shape *shape;
    enum mg_dtype *dtype;
    uint32_t count, own; /* own: results of the call; those behind them are new contents of written arguments */
};

/* Results without a `getitem` are not known, and not needed. */
static void list_results(struct aten_builder *b, struct results *r)
{
    enum { MOST = 64 };
    const struct aten_node *node = &b->document->nodes[b->node];
    r->shape = MG_NEW_ARRAY(b->arena, struct mg_shape, MOST + node->write_count);
    r->dtype = MG_NEW_ARRAY(b->arena, enum mg_dtype, MOST + node->write_count);
    if (node->has_out) {
        r->shape[0] = node->shape;
        r->dtype[0] = node->dtype;
        r->count = 1;
        for (size_t i = 0; i < node->write_count; i++)
            if (written(b, i) != MG_NONE && hands_out(b, written(b, i)))
                r->count = 0;
    }
    for (uint32_t n = b->first_item[b->node]; n != MG_NONE; n = b->next_item[n]) {
        const struct aten_node *item = &b->document->nodes[n];
        int64_t at = item->args.item[1].i;
        if (!item->has_out || at < 0 || at >= MOST)
            continue;
        r->shape[at] = item->shape;
        r->dtype[at] = item->dtype;
        r->count = at + 1 > r->count ? (uint32_t)at + 1 : r->count;
    }
    r->own = r->count;
    for (size_t i = 0; i < node->write_count; i++) {
        uint32_t into = written(b, i);
        if (into == MG_NONE)
            continue;
        r->shape[r->count] = b->document->nodes[into].shape;
        r->dtype[r->count++] = b->document->nodes[into].dtype;
    }
}

void aten_translate_opaque(struct aten_builder *b)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    struct results r = {0};
    struct operands o = {0};
    const char *arguments = list_operands(b, node, &o);
    list_results(b, &r);
    mg_value *out = MG_NEW_ARRAY(b->arena, mg_value, r.count + 1);
    aten_opaque(b, node->op, purity_of(node->op), arguments, o.in, (uint32_t)o.count, r.shape, r.dtype, out, r.count);
    if (node->has_out && r.own)
        b->tensors[b->node].value = out[0];
    aten_give(b, out, r.own);
    uint32_t at = r.own;
    for (size_t i = 0; i < node->write_count; i++) {
        uint32_t into = written(b, i);
        if (into == MG_NONE)
            continue;
        aten_write(b, into, out[at]);
        if (r.own == 0 && hands_out(b, into))
            aten_alias(b, into, out[at]);
        at++;
    }
}
