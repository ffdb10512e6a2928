/* ONNX rules: contractions and recurrent layers. */
#include <string.h>

#include "formats/onnx_rules.h"

/* ---- matmul, gemm ---- */

/* A vector becomes a row (first operand) or a column (second). */
static mg_value as_matrix(struct onnx_call *c, uint32_t i)
{
    const struct mg_shape *shape = mg_onnx_shape(c, i);
    mg_value x = mg_onnx_in(c, i);
    if (shape->rank != 1)
        return x;
    struct mg_shape matrix = {.rank = 2, .dim = {i ? shape->dim[0] : 1, i ? 1 : shape->dim[0]}};
    return mg_onnx_reshape(c, x, &matrix);
}

void onnx_rule_matmul(struct onnx_call *c, int which)
{
    (void)which;
    bool row = mg_onnx_shape(c, 0)->rank == 1, column = mg_onnx_shape(c, 1)->rank == 1;
    mg_value a = as_matrix(c, 0), b = as_matrix(c, 1);
    c->last = !row && !column;
    mg_value y = mg_onnx_binary(c, MG_OP_MATMUL, a, b);
    if (!row && !column)
        return;
    struct mg_shape shape = mg_onnx_info(c, y)->shape, out = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        if (!(row && d + 2 == shape.rank) && !(column && d + 1 == shape.rank))
            out.dim[out.rank++] = shape.dim[d];
    mg_onnx_last(c);
    mg_onnx_reshape(c, y, &out);
}

void onnx_rule_gemm(struct onnx_call *c, int which)
{
    (void)which;
    mg_value in[3] = {mg_onnx_in(c, 0), mg_onnx_weight(c, 1)};
    uint32_t count = mg_onnx_has(c, 2) ? 3 : 2;
    if (count == 3)
        in[2] = mg_onnx_weight(c, 2);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_GEMM, in, count,
                ATTRS(A_REAL(ALPHA, mg_onnx_real(c, "alpha", 1)), A_REAL(BETA, mg_onnx_real(c, "beta", 1)),
                      A_INT(TRANS_A, mg_onnx_int(c, "transA", 0)), A_INT(TRANS_B, mg_onnx_int(c, "transB", 0))),
                1, NULL);
}

/* ---- einsum ----
 * Each operand becomes [batch, own, summed] or [batch, summed, own]; one matmul; then the result's order. */

struct term {
    char letter[MG_MAX_RANK];
    uint32_t count;
};
struct equation {
    struct term in[2], out;
    int64_t size[128];
};

static bool read_term(const char **at, struct term *term)
{
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ')
            continue;
        bool letter = (**at >= 'a' && **at <= 'z') || (**at >= 'A' && **at <= 'Z');
        if (!letter || term->count == MG_MAX_RANK || memchr(term->letter, **at, term->count))
            return false;
        term->letter[term->count++] = **at;
    }
    return true;
}

static bool has(const struct term *term, char letter)
{
    return memchr(term->letter, letter, term->count) != NULL;
}

static bool read_equation(struct onnx_call *c, struct equation *e)
{
    const char *at = mg_onnx_text(c, "equation", "");
    bool good = true;
    for (uint32_t i = 0; i < c->in_count && good; i++) {
        good = read_term(&at, &e->in[i]) && e->in[i].count == mg_onnx_shape(c, i)->rank;
        for (uint32_t d = 0; good && d < e->in[i].count; d++)
            e->size[(int)e->in[i].letter[d]] = mg_onnx_shape(c, i)->dim[d];
        if (good && i + 1 < c->in_count)
            good = *at++ == ',';
    }
    if (!good || at[0] != '-' || at[1] != '>')
        return false;
    at += 2;
    good = read_term(&at, &e->out) && !*at;
    for (uint32_t d = 0; good && d < e->out.count; d++)
        good = has(&e->in[0], e->out.letter[d]) || (c->in_count == 2 && has(&e->in[1], e->out.letter[d]));
    return good;
}

/* Sums away what only this operand has and the result has not. */
static mg_value sum_alone(struct onnx_call *c, const struct equation *e, uint32_t i, struct term *term)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t count = 0, kept = 0;
    mg_value x = mg_onnx_in(c, i);
    for (uint32_t d = 0; d < term->count; d++) {
        bool shared = c->in_count == 2 && has(&e->in[1 - i], term->letter[d]);
        if (!shared && !has(&e->out, term->letter[d]))
            axes[count++] = d;
        else
            term->letter[kept++] = term->letter[d];
    }
    term->count = kept;
    return count ? onnx_reduce(c, MG_OP_REDUCE_SUM, x, axes, count, false) : x;
}

static mg_value arrange(struct onnx_call *c, mg_value x, const struct term *from, const struct term *to)
{
    int64_t perm[MG_MAX_RANK];
    bool same = true;
    for (uint32_t d = 0; d < to->count; d++) {
        perm[d] = (const char *)memchr(from->letter, to->letter[d], from->count) - from->letter;
        same = same && perm[d] == d;
    }
    return same && !c->last ? x : mg_onnx_permute(c, x, perm);
}

static void append(struct term *to, const struct term *from)
{
    memcpy(to->letter + to->count, from->letter, from->count);
    to->count += from->count;
}

static int64_t size_of(const struct equation *e, const struct term *term)
{
    int64_t size = 1;
    for (uint32_t d = 0; d < term->count; d++)
        size *= e->size[(int)term->letter[d]];
    return size;
}

static void contract(struct onnx_call *c, struct equation *e)
{
    struct term batch = {.count = 0}, summed = batch, own[2] = {batch, batch}, order[2];
    mg_value x[2] = {sum_alone(c, e, 0, &e->in[0]), sum_alone(c, e, 1, &e->in[1])};
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t d = 0; d < e->in[i].count; d++) {
            char letter = e->in[i].letter[d];
            struct term *group = !has(&e->in[1 - i], letter) ? &own[i] : has(&e->out, letter) ? &batch : &summed;
            if (!has(group, letter))
                group->letter[group->count++] = letter;
        }
    struct term made = batch;
    if (batch.count + own[0].count + own[1].count > MG_MAX_RANK) {
        mg_onnx_unsupported(c, "more than %d dimensions", MG_MAX_RANK);
        return;
    }
    append(&made, &own[0]);
    append(&made, &own[1]);
    for (uint32_t i = 0; i < 2; i++) {
        order[i] = batch;
        append(&order[i], i ? &summed : &own[0]);
        append(&order[i], i ? &own[1] : &summed);
        struct mg_shape shape = {
            .rank = 3,
            .dim = {size_of(e, &batch), size_of(e, i ? &summed : &own[0]), size_of(e, i ? &own[1] : &summed)}};
        x[i] = mg_onnx_reshape(c, arrange(c, x[i], &e->in[i], &order[i]), &shape);
    }
    mg_value y = mg_onnx_binary(c, MG_OP_MATMUL, x[0], x[1]);
    struct mg_shape shape = {.rank = made.count};
    for (uint32_t d = 0; d < made.count; d++)
        shape.dim[d] = e->size[(int)made.letter[d]];
    y = mg_onnx_reshape(c, y, &shape);
    mg_onnx_last(c);
    arrange(c, y, &made, &e->out);
}

/* What no matmul gives: more operands, "...", a letter twice in one operand, no stated result. */
static void literal_einsum(struct onnx_call *c)
{
    mg_value *in = MG_NEW_ARRAY(c->m->arena, mg_value, c->in_count + 1);
    for (uint32_t i = 0; i < c->in_count; i++)
        in[i] = mg_onnx_in(c, i);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_EINSUM, in, c->in_count, ATTRS(A_TEXT(EQUATION, mg_onnx_text(c, "equation", ""))), 1, NULL);
}

void onnx_rule_einsum(struct onnx_call *c, int which)
{
    (void)which;
    struct equation e = {.size = {0}};
    if (c->in_count > 2 || !read_equation(c, &e)) {
        literal_einsum(c);
    } else if (c->in_count == 2) {
        contract(c, &e);
    } else {
        mg_value x = sum_alone(c, &e, 0, &e.in[0]);
        mg_onnx_last(c);
        arrange(c, x, &e.in[0], &e.out);
    }
}

/* ---- convolution ---- */

static void take_list(struct onnx_call *c, const char *name, uint32_t want, int64_t otherwise, int64_t *out)
{
    uint32_t count;
    const int64_t *list = mg_onnx_ints(c, name, &count);
    if (list && count != want)
        mg_onnx_invalid(c, "attribute '%s' has %u entries, must have %u", name, count, want);
    for (uint32_t d = 0; d < want; d++)
        out[d] = list && count == want ? list[d] : otherwise;
}

/* SAME: as many outputs as inputs / stride; the odd element goes to the end (UPPER) or the begin. */
static void same_pads(struct onnx_window *w, const struct mg_shape *x, bool upper)
{
    for (uint32_t d = 0; d < w->rank; d++) {
        int64_t in = x->dim[d + 2], stride = w->stride[d] > 0 ? w->stride[d] : 1;
        int64_t total = ((in + stride - 1) / stride - 1) * stride + (w->kernel[d] - 1) * w->dilation[d] + 1 - in;
        total = total < 0 ? 0 : total;
        w->pad[d] = upper ? total / 2 : total - total / 2;
        w->pad[d + w->rank] = total - w->pad[d];
    }
}

void onnx_window_of(struct onnx_call *c, const struct mg_shape *x, const int64_t *kernel, struct onnx_window *w)
{
    const char *mode = mg_onnx_text(c, "auto_pad", "NOTSET");
    *w = (struct onnx_window){.rank = x->rank > 2 ? x->rank - 2 : 0};
    if (x->rank < 3 || x->rank > 5)
        mg_onnx_unsupported(c, "%u dimensions", x->rank);
    if (c->code != MG_OK)
        return;
    if (kernel)
        memcpy(w->kernel, kernel, w->rank * sizeof *kernel);
    else
        take_list(c, "kernel_shape", w->rank, 0, w->kernel);
    take_list(c, "strides", w->rank, 1, w->stride);
    take_list(c, "dilations", w->rank, 1, w->dilation);
    take_list(c, "pads", 2 * w->rank, 0, w->pad);
    if (strncmp(mode, "SAME", 4) == 0)
        same_pads(w, x, strcmp(mode, "SAME_UPPER") == 0);
    else if (strcmp(mode, "VALID") == 0)
        memset(w->pad, 0, sizeof w->pad);
}

mg_value onnx_convolve(struct onnx_call *c, const struct onnx_window *w, const mg_value *in, uint32_t count)
{
    return mg_onnx_add(c, MG_OP_CONV, in, count,
                       ATTRS(A_INT(GROUP, mg_onnx_int(c, "group", 1)), A_INTS(STRIDES, w->stride, w->rank),
                             A_INTS(PADS, w->pad, 2 * w->rank), A_INTS(DILATIONS, w->dilation, w->rank)),
                       1, NULL);
}

void onnx_rule_conv(struct onnx_call *c, int which)
{
    (void)which;
    struct onnx_window w;
    mg_value in[3] = {mg_onnx_in(c, 0), mg_onnx_weight(c, 1)};
    uint32_t count = mg_onnx_has(c, 2) ? 3 : 2;
    if (count == 3)
        in[2] = mg_onnx_weight(c, 2);
    onnx_window_of(c, mg_onnx_shape(c, 0), mg_onnx_shape(c, 1)->dim + 2, &w);
    mg_onnx_last(c);
    onnx_convolve(c, &w, in, count);
}

/* With output_shape or SAME the pads follow from the result's size; a longer one is lengthened at its end. */
static void transposed_pads(struct onnx_call *c, struct onnx_window *w, const struct mg_shape *x, int64_t *extra)
{
    const char *mode = mg_onnx_text(c, "auto_pad", "NOTSET");
    uint32_t count;
    const int64_t *shape = mg_onnx_ints(c, "output_shape", &count);
    bool same = strncmp(mode, "SAME", 4) == 0;
    if (!same && !shape)
        return;
    if (shape && count != w->rank && count != w->rank + 2) {
        mg_onnx_invalid(c, "output_shape has %u entries", count);
        return;
    }
    for (uint32_t d = 0; d < w->rank; d++) {
        int64_t want = shape ? shape[count - w->rank + d] : x->dim[d + 2] * w->stride[d];
        if (shape && (want < 1 || want > INT32_MAX)) {
            mg_onnx_invalid(c, "output_shape has a dimension of %lld", (long long)want);
            return;
        }
        int64_t total = w->stride[d] * (x->dim[d + 2] - 1) + extra[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - want;
        bool upper = strcmp(mode, "SAME_UPPER") == 0;
        extra[d] -= total < 0 ? total : 0;
        total = total < 0 ? 0 : total;
        w->pad[d] = upper ? total / 2 : total - total / 2;
        w->pad[d + w->rank] = total - w->pad[d];
    }
}

void onnx_rule_conv_transpose(struct onnx_call *c, int which)
{
    (void)which;
    struct onnx_window w;
    int64_t extra[MG_MAX_RANK] = {0};
    const struct mg_shape *x = mg_onnx_shape(c, 0);
    mg_value in[3] = {mg_onnx_in(c, 0), mg_onnx_weight(c, 1)};
    uint32_t count = mg_onnx_has(c, 2) ? 3 : 2;
    if (count == 3)
        in[2] = mg_onnx_weight(c, 2);
    onnx_window_of(c, x, mg_onnx_shape(c, 1)->dim + 2, &w);
    take_list(c, "output_padding", w.rank, 0, extra);
    transposed_pads(c, &w, x, extra);
    for (uint32_t d = 0; d < 2 * w.rank; d++) {
        /* a negative pad is a longer result */
        if (w.pad[d] < 0 && d >= w.rank)
            extra[d - w.rank] -= w.pad[d];
        else if (w.pad[d] < 0)
            mg_onnx_unsupported(c, "negative pads");
        w.pad[d] = w.pad[d] < 0 ? 0 : w.pad[d];
    }
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_CONV_TRANSPOSE, in, count,
                ATTRS(A_INT(GROUP, mg_onnx_int(c, "group", 1)), A_INTS(STRIDES, w.stride, w.rank),
                      A_INTS(PADS, w.pad, 2 * w.rank), A_INTS(DILATIONS, w.dilation, w.rank),
                      A_INTS(OUTPUT_PADDING, extra, w.rank)),
                1, NULL);
}

/* ---- recurrent layers ---- */

struct layers {
    enum mg_op_type type;
    int64_t hidden, gates, batch;
    uint32_t directions, results;
    bool reverse, batch_first;
    mg_value x;
};

/* The activations of one direction that our operator knows: the usual ones, and for RNN what it calls so. */
static const char *activation_of(struct onnx_call *c, enum mg_op_type type, uint32_t direction)
{
    static const char *const lstm[] = {"Sigmoid", "Tanh", "Tanh"}, *const gru[] = {"Sigmoid", "Tanh"};
    const struct onnx_attribute *given = mg_onnx_attr(c, "activations");
    uint32_t count = type == MG_OP_LSTM ? 3 : type == MG_OP_GRU ? 2 : 1;
    const char *const *usual = type == MG_OP_LSTM ? lstm : gru;
    for (uint32_t i = 0; given && i < count && direction * count + i < given->texts.count; i++) {
        const char *text = ONNX_NAME(given->texts, direction * count + i);
        if (type == MG_OP_RNN && text && (strcmp(text, "Tanh") == 0 || strcmp(text, "Relu") == 0))
            return text[0] == 'T' ? "tanh" : "relu";
        if (type == MG_OP_RNN || !text || strcmp(text, usual[i]) != 0)
            mg_onnx_unsupported(c, "activations other than the usual ones");
    }
    return "tanh";
}

static void check_layers(struct onnx_call *c)
{
    if (mg_onnx_attr(c, "clip") || mg_onnx_int(c, "input_forget", 0))
        mg_onnx_unsupported(c, "clip or input_forget");
    if (!mg_onnx_has(c, 4))
        return;
    uint32_t count;
    const int64_t *lengths = mg_onnx_known_ints(c, 4, &count);
    bool first = mg_onnx_int(c, "layout", 0) != 0;
    for (uint32_t i = 0; c->code == MG_OK && i < count; i++)
        if (lengths[i] != mg_onnx_shape(c, 0)->dim[first ? 1 : 0])
            mg_onnx_unsupported(c, "sequences of different lengths");
}

static mg_value slice_of(struct onnx_call *c, mg_value x, uint32_t axis, int64_t begin, int64_t end)
{
    const int64_t at = axis;
    return mg_onnx_add(c, MG_OP_SLICE, OPERANDS(x),
                       ATTRS(A_INTS(STARTS, &begin, 1), A_INTS(ENDS, &end, 1), A_INTS(AXES, &at, 1)), 1, NULL);
}

/* One direction's part of a parameter or first state. */
static mg_value part_of(struct onnx_call *c, const struct layers *l, uint32_t operand, uint32_t direction)
{
    static const int64_t swap[] = {1, 0, 2};
    bool state = operand == 5 || operand == 6;
    mg_value x = state ? mg_onnx_in(c, operand) : mg_onnx_weight(c, operand);
    if (state && l->batch_first)
        x = mg_onnx_permute(c, x, swap);
    return l->directions == 1 ? x : slice_of(c, x, 0, direction, direction + 1);
}

static mg_value zeros(struct onnx_call *c, const struct mg_shape *shape, enum mg_dtype dtype)
{
    return mg_onnx_add(c, MG_OP_FILL, NULL, 0,
                       ATTRS(A_INTS(SHAPE, shape->dim, shape->rank), A_TEXT(TO, mg_dtype_name(dtype))), 1, NULL);
}

static void run_direction(struct onnx_call *c, const struct layers *l, uint32_t direction, mg_value *results)
{
    enum mg_dtype dtype = mg_onnx_dtype_of(c, 0);
    struct mg_shape bias = {.rank = 2, .dim = {1, 2 * l->gates * l->hidden}};
    struct mg_shape state = {.rank = 3, .dim = {1, l->batch, l->hidden}};
    bool peepholes = l->type == MG_OP_LSTM && mg_onnx_has(c, 7);
    bool states = mg_onnx_has(c, 5) || (l->type == MG_OP_LSTM && mg_onnx_has(c, 6)) || peepholes;
    mg_value in[7] = {l->x, part_of(c, l, 1, direction), part_of(c, l, 2, direction)};
    uint32_t count = 3;
    if (mg_onnx_has(c, 3) || states)
        in[count++] = mg_onnx_has(c, 3) ? part_of(c, l, 3, direction) : zeros(c, &bias, dtype);
    if (states)
        in[count++] = mg_onnx_has(c, 5) ? part_of(c, l, 5, direction) : zeros(c, &state, dtype);
    if (states && l->type == MG_OP_LSTM)
        in[count++] = mg_onnx_has(c, 6) ? part_of(c, l, 6, direction) : zeros(c, &state, dtype);
    if (peepholes)
        in[count++] = part_of(c, l, 7, direction);
    const char *activation = activation_of(c, l->type, direction);
    struct mg_attr attrs[3] = {A_INT(HIDDEN_SIZE, l->hidden), A_INT(REVERSE, l->reverse || direction == 1)};
    uint32_t attr_count = 2;
    if (l->type == MG_OP_GRU)
        attrs[attr_count++] = (struct mg_attr)A_INT(LINEAR_BEFORE_RESET, mg_onnx_int(c, "linear_before_reset", 0));
    else if (l->type == MG_OP_RNN)
        attrs[attr_count++] = (struct mg_attr)A_TEXT(ACTIVATION, activation);
    mg_onnx_add(c, l->type, in, count, attrs, attr_count, l->results, results);
}

static mg_value joined(struct onnx_call *c, const mg_value *parts, uint32_t count, int64_t axis)
{
    return mg_onnx_add(c, MG_OP_CONCAT, parts, count, ATTRS(A_INT(AXIS, axis)), 1, NULL);
}

void onnx_rule_recurrent(struct onnx_call *c, int which)
{
    static const int64_t swap[] = {1, 0, 2}, to_batch[] = {2, 0, 1, 3};
    const struct mg_shape *x = mg_onnx_shape(c, 0), *r = mg_onnx_shape(c, 2);
    const char *direction = mg_onnx_text(c, "direction", "forward");
    struct layers l = {.type = (enum mg_op_type)which, .gates = which == MG_OP_LSTM ? 4 : which == MG_OP_GRU ? 3 : 1};
    check_layers(c);
    if (x->rank != 3 || r->rank != 3)
        mg_onnx_invalid(c, "operands must have rank 3");
    l.batch_first = mg_onnx_int(c, "layout", 0) != 0;
    l.hidden = r->dim[2];
    l.batch = x->dim[l.batch_first ? 0 : 1];
    l.reverse = strcmp(direction, "reverse") == 0;
    l.directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    l.results = which == MG_OP_LSTM ? 3 : 2;
    l.x = l.batch_first ? mg_onnx_permute(c, mg_onnx_in(c, 0), swap) : mg_onnx_in(c, 0);
    mg_value results[2][3] = {{MG_NONE, MG_NONE, MG_NONE}, {MG_NONE, MG_NONE, MG_NONE}};
    for (uint32_t d = 0; d < l.directions; d++)
        run_direction(c, &l, d, results[d]);
    for (uint32_t k = 0; k < l.results && c->code == MG_OK; k++) {
        const mg_value parts[] = {results[0][k], results[1][k]};
        mg_value y = l.directions == 1 ? parts[0] : joined(c, parts, 2, k == 0 ? 1 : 0);
        if (l.batch_first)
            y = mg_onnx_permute(c, y, k == 0 ? to_batch : swap);
        mg_onnx_result(c, k, y);
    }
}
