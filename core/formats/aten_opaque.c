/* Calls that no rule knows: operators that are priced by their bytes. What such a call writes to is among its results.
 */
#include <string.h>

#include "formats/aten_priv.h"

static void add_tensors(struct aten_builder *b, const struct aten_arg *arg, mg_value **in, size_t *count,
                        size_t *capacity)
{
    for (size_t i = 0; i < arg->count; i++)
        add_tensors(b, &arg->item[i], in, count, capacity);
    if (!aten_is_tensor(arg))
        return;
    mg_value v = aten_read(b, arg->node);
    if (v != MG_NONE)
        *MG_PUSH(b->arena, *in, *count, *capacity) = v;
    b->declined = false; /* a result that we do not have is left out */
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

/* The node of the i-th written argument; MG_NONE: it is no tensor that we know. */
static uint32_t written(const struct aten_builder *b, size_t i)
{
    const struct aten_node *node = &b->document->nodes[b->node];
    const struct aten_arg *arg = node->writes[i] >= 0 ? aten_argument(node, (size_t)node->writes[i], NULL) : NULL;
    return aten_is_tensor(arg) && b->document->nodes[arg->node].has_out ? arg->node : MG_NONE;
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
    mg_value *in = NULL;
    size_t count = 0, capacity = 0;
    add_tensors(b, &node->args, &in, &count, &capacity);
    add_tensors(b, &node->kwargs, &in, &count, &capacity);
    list_results(b, &r);
    mg_value *out = MG_NEW_ARRAY(b->arena, mg_value, r.count + 1);
    aten_opaque(b, node->op, purity_of(node->op), in, (uint32_t)count, r.shape, r.dtype, out, r.count);
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
