/* Implicit matrix products of contractions and the figures of a whole graph. */
#include <string.h>

#include "graph/einsum.h"
#include "graph/ops_priv.h"

static int64_t product(const struct mg_shape *shape, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t d = from; d < to; d++)
        n *= shape->dim[d];
    return n;
}

/* A batch dimension that only one operand has is a free axis: it counts in M or N (a linear layer on
 * [b, s, h] is one product of b s rows). */
static struct mg_gemm matmul(const struct mg_op_desc *desc)
{
    const struct mg_shape *a = &desc->in_shape[0], *b = &desc->in_shape[1], *out = &desc->out_shape[0];
    bool trans = mg_desc_int(desc, MG_ATTR_TRANS_A) != 0;
    struct mg_gemm g = {
        .b = 1, .m = out->dim[out->rank - 2], .n = out->dim[out->rank - 1], .k = a->dim[a->rank - (trans ? 2 : 1)]};
    for (uint32_t d = 3; d <= out->rank; d++) {
        int64_t of_a = d <= a->rank ? a->dim[a->rank - d] : 1, of_b = d <= b->rank ? b->dim[b->rank - d] : 1;
        if (of_a == of_b)
            g.b *= of_a;
        else if (of_b == 1)
            g.m *= of_a;
        else
            g.n *= of_b;
    }
    return g;
}

/* y [n, f, ...] from x with weight [f, c / g, kernel...]. */
static struct mg_gemm conv(int64_t group, const struct mg_shape *y, const struct mg_shape *w)
{
    return (struct mg_gemm){
        .b = group, .m = y->dim[0] * product(y, 2, y->rank), .n = y->dim[1] / group, .k = product(w, 1, w->rank)};
}

static struct mg_gemm conv_input(const struct mg_op_desc *desc, int64_t group)
{
    const struct mg_shape *x = &desc->out_shape[0], *w = &desc->in_shape[1];
    struct mg_gemm g = {.b = group,
                        .m = x->dim[0] * product(x, 2, x->rank),
                        .n = x->dim[1] / group,
                        .k = w->dim[0] / group * product(w, 2, w->rank)};
    uint32_t spatial;
    const int64_t *strides = mg_desc_ints(desc, MG_ATTR_STRIDES, &spatial);
    int64_t stride = 1;
    for (uint32_t d = 0; d < spatial; d++)
        stride *= strides[d];
    g.k = g.k / stride > 1 ? g.k / stride : 1;
    return g;
}

static struct mg_gemm conv_weight(const struct mg_op_desc *desc, int64_t group)
{
    const struct mg_shape *dy = &desc->in_shape[0], *w = &desc->out_shape[0];
    return (struct mg_gemm){
        .b = group, .m = w->dim[0] / group, .n = product(w, 1, w->rank), .k = dy->dim[0] * product(dy, 2, dy->rank)};
}

/* Scores and weighted sum; backward: scores again, and the gradients of v, of the scores, of q and of k. */
static uint32_t attention(const struct mg_op_desc *desc, bool backward, struct mg_gemm *out)
{
    const struct mg_shape *q = &desc->in_shape[backward ? 1 : 0], *v = &desc->in_shape[backward ? 3 : 2];
    uint32_t r = q->rank;
    int64_t b = product(q, 0, r - 2), s = q->dim[r - 2], d = q->dim[r - 1], t = v->dim[r - 2], e = v->dim[r - 1];
    struct mg_gemm scores = {b, s, t, d};
    out[0] = scores;
    if (!backward) {
        out[1] = (struct mg_gemm){b, s, e, t};
        return 2;
    }
    out[1] = (struct mg_gemm){b, t, e, s};
    out[2] = (struct mg_gemm){b, s, t, e};
    out[3] = (struct mg_gemm){b, s, d, t};
    out[4] = (struct mg_gemm){b, t, d, s};
    return 5;
}

/* Input part for all steps at once, recurrent part step by step. */
static uint32_t recurrent(const struct mg_op_desc *desc, struct mg_gemm *out)
{
    const struct mg_shape *x = &desc->in_shape[0], *w = &desc->in_shape[1], *r = &desc->in_shape[2];
    out[0] = (struct mg_gemm){1, x->dim[0] * x->dim[1], w->dim[1], x->dim[2]};
    out[1] = (struct mg_gemm){1, x->dim[0] * x->dim[1], r->dim[1], r->dim[2]};
    return 2;
}

/* Letters of two operands: in both and the result B, in one and the result M or N, the others K. More or fewer
 * operands: one product for each element of the result. */
static struct mg_gemm einsum(const struct mg_op_desc *desc)
{
    struct mg_einsum e;
    int64_t size[MG_EINSUM_LETTERS];
    struct mg_gemm g = {1, 1, 1, 1};
    mg_einsum_parse(mg_attr_find(desc->attrs, desc->attr_count, MG_ATTR_EQUATION)->string, &e);
    (void)mg_einsum_sizes(&e, desc->in_shape, size);
    for (char c = 'A'; c <= (char)'z'; c++) {
        if ((c > 'Z' && c < 'a') || size[mg_einsum_index(c)] == 0)
            continue;
        bool in_a = e.operands == 2 && mg_einsum_at(e.letters[0], c) >= 0, in_b = mg_einsum_at(e.letters[1], c) >= 0;
        bool kept = mg_einsum_at(MG_EINSUM_RESULT(&e), c) >= 0;
        int64_t *factor = !kept ? &g.k : in_a && in_b ? &g.b : in_a ? &g.m : &g.n;
        *factor *= size[mg_einsum_index(c)];
    }
    return g;
}

/* The product of the operator's operands a and b, as if they were real numbers. */
static struct mg_gemm quantized(const struct mg_op_desc *desc, bool convolution, uint32_t b)
{
    struct mg_op_desc real = *desc;
    struct mg_shape in[2] = {desc->in_shape[0], desc->in_shape[b]};
    real.in_shape = in;
    return convolution ? conv(mg_desc_int(desc, MG_ATTR_GROUP), &desc->out_shape[0], &in[1]) : matmul(&real);
}

uint32_t mg_op_gemms(const struct mg_op_desc *desc, struct mg_gemm out[MG_MAX_GEMMS])
{
    int64_t group = mg_desc_int(desc, MG_ATTR_GROUP);
    switch (desc->type) {
    case MG_OP_MATMUL:
    case MG_OP_GEMM:
        out[0] = matmul(desc);
        return 1;
    case MG_OP_CONV:
        out[0] = conv(group, &desc->out_shape[0], &desc->in_shape[1]);
        return 1;
    case MG_OP_CONV_TRANSPOSE:
    case MG_OP_CONV_GRAD_INPUT:
        out[0] = conv_input(desc, group);
        return 1;
    case MG_OP_CONV_GRAD_WEIGHT:
        out[0] = conv_weight(desc, group);
        return 1;
    case MG_OP_ATTENTION:
        return attention(desc, false, out);
    case MG_OP_ATTENTION_GRAD:
        return attention(desc, true, out);
    case MG_OP_LSTM:
    case MG_OP_GRU:
    case MG_OP_RNN:
        return recurrent(desc, out);
    case MG_OP_EINSUM:
        out[0] = einsum(desc);
        return 1;
    case MG_OP_MATMUL_INTEGER:
    case MG_OP_QLINEAR_MATMUL:
        out[0] = quantized(desc, false, desc->type == MG_OP_QLINEAR_MATMUL ? 3 : 1);
        return 1;
    case MG_OP_CONV_INTEGER:
    case MG_OP_QLINEAR_CONV:
        out[0] = quantized(desc, true, desc->type == MG_OP_QLINEAR_CONV ? 3 : 1);
        return 1;
    default:
        return 0;
    }
}

/* The description of an operator on the stack's account: arrays for up to 8 operands, which contractions never
 * exceed. */
enum { MOST = 12 };
struct local_desc {
    struct mg_op_desc desc;
    struct mg_shape shape[MOST];
};

static bool describe_contraction(const struct mg_graph *g, mg_op op, struct local_desc *local)
{
    const struct mg_op_info *info = &g->ops[op];
    if (mg_op_cost(info->type) != MG_COST_CONTRACTION || info->in_count + info->out_count > MOST)
        return false;
    for (uint32_t i = 0; i < info->in_count; i++)
        local->shape[i] = g->values[info->in[i]].shape;
    for (uint32_t i = 0; i < info->out_count; i++)
        local->shape[info->in_count + i] = g->values[info->out[i]].shape;
    local->desc = (struct mg_op_desc){.type = info->type,
                                      .math = g->math,
                                      .attrs = info->attrs,
                                      .attr_count = info->attr_count,
                                      .in_count = info->in_count,
                                      .out_count = info->out_count,
                                      .in_shape = local->shape,
                                      .out_shape = local->shape + info->in_count};
    return true;
}

void mg_graph_stats(const struct mg_graph *g, struct mg_graph_stats *out)
{
    *out = (struct mg_graph_stats){0};
    for (mg_value v = 0; v < g->value_count; v++) {
        const struct mg_value_info *info = &g->values[v];
        if (info->kind == MG_KIND_WEIGHT)
            out->parameters += (uint64_t)mg_shape_elements(&info->shape);
        if (info->kind != MG_KIND_COMPUTED && info->kind != MG_KIND_INPUT && info->home == MG_HOME_DEVICE)
            out->resident_bytes += (uint64_t)mg_shape_elements(&info->shape) * mg_dtype_size(info->dtype);
    }
    for (mg_op op = 0; op < g->op_count; op++) {
        struct local_desc local;
        struct mg_gemm gemm[MG_MAX_GEMMS];
        if (!describe_contraction(g, op, &local))
            continue;
        uint32_t count = mg_op_gemms(&local.desc, gemm);
        for (uint32_t i = 0; i < count; i++)
            out->contraction_flops +=
                2.0 * (double)gemm[i].b * (double)gemm[i].m * (double)gemm[i].n * (double)gemm[i].k;
        out->contractions++;
    }
}
