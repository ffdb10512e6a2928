/* ONNX rules: reductions, rows, losses. */
#include <string.h>

#include "formats/onnx_rules.h"

mg_value onnx_reduce(struct onnx_call *c, enum mg_op_type type, mg_value x, const int64_t *axes, uint32_t count,
                     bool keep)
{
    return mg_onnx_add(c, type, OPERANDS(x), ATTRS(A_INTS(AXES, axes, count), A_INT(KEEPDIMS, keep)), 1, NULL);
}

/* Reduced axes; false: the node changes nothing. An absent list means all. */
static bool reduced(struct onnx_call *c, const int64_t **axes, uint32_t *count)
{
    *axes = mg_onnx_list(c, 1, "axes", count);
    return *count > 0 || !mg_onnx_int(c, "noop_with_empty_axes", 0);
}

static void reduce_last(struct onnx_call *c, enum mg_op_type type, mg_value x)
{
    const int64_t *axes;
    uint32_t count;
    if (reduced(c, &axes, &count)) {
        mg_onnx_last(c);
        onnx_reduce(c, type, x, axes, count, mg_onnx_int(c, "keepdims", 1) != 0);
    } else {
        mg_onnx_last(c);
        mg_onnx_unary(c, MG_OP_COPY, x);
    }
}

void onnx_rule_reduce(struct onnx_call *c, int which)
{
    reduce_last(c, (enum mg_op_type)which, mg_onnx_in(c, 0));
}

void onnx_rule_cumsum(struct onnx_call *c, int which)
{
    (void)which;
    uint32_t axis = mg_onnx_axis(c, mg_onnx_known_integer(c, 1, 0), mg_onnx_shape(c, 0)->rank);
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_CUMSUM, OPERANDS(x),
                ATTRS(A_INT(AXIS, axis), A_INT(EXCLUSIVE, mg_onnx_int(c, "exclusive", 0)),
                      A_INT(REVERSE, mg_onnx_int(c, "reverse", 0))),
                1, NULL);
}

/* ---- softmax ---- */

static mg_value softmax(struct onnx_call *c, enum mg_op_type type, mg_value x, uint32_t axis)
{
    return mg_onnx_add(c, type, OPERANDS(x), ATTRS(A_INT(AXIS, axis)), 1, NULL);
}

/* Before opset 13 all dimensions from the axis on are one row. */
void onnx_rule_softmax(struct onnx_call *c, int which)
{
    const struct mg_shape *shape = mg_onnx_shape(c, 0);
    bool old = c->opset < 13;
    uint32_t axis = mg_onnx_axis(c, mg_onnx_int(c, "axis", old ? 1 : -1), shape->rank);
    mg_value x = mg_onnx_in(c, 0);
    int64_t inner = 1;
    for (uint32_t d = axis + 1; d < shape->rank; d++)
        inner *= shape->dim[d];
    if (!old || inner == 1) {
        mg_onnx_last(c);
        softmax(c, (enum mg_op_type)which, x, axis);
        return;
    }
    struct mg_shape rows = {.rank = 2, .dim = {1, 1}};
    for (uint32_t d = 0; d < shape->rank; d++)
        rows.dim[d >= axis] *= shape->dim[d];
    x = softmax(c, (enum mg_op_type)which, mg_onnx_reshape(c, x, &rows), 1);
    mg_onnx_last(c);
    mg_onnx_reshape(c, x, shape);
}

void onnx_rule_mean_variance(struct onnx_call *c, int which)
{
    static const int64_t usual[] = {0, 2, 3};
    uint32_t count;
    const int64_t *axes = mg_onnx_ints(c, "axes", &count);
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_MEAN_VARIANCE_NORM, OPERANDS(x), ATTRS(A_INTS(AXES, axes ? axes : usual, axes ? count : 3)), 1,
                NULL);
}

void onnx_rule_top_k(struct onnx_call *c, int which)
{
    int64_t k = mg_onnx_known_integer(c, 1, mg_onnx_int(c, "k", 1));
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_TOP_K, OPERANDS(x),
                ATTRS(A_INT(K, k), A_INT(AXIS, mg_onnx_int(c, "axis", -1)),
                      A_INT(LARGEST, mg_onnx_int(c, "largest", 1)), A_INT(SORTED, mg_onnx_int(c, "sorted", 1))),
                2, NULL);
}

/* ---- losses ---- */

/* Weight of each target: of its class, and 0 where it is ignored. Shaped like the targets. */
static mg_value target_weights(struct onnx_call *c, mg_value targets, enum mg_dtype dtype)
{
    const struct onnx_attribute *ignore = mg_onnx_attr(c, "ignore_index");
    mg_value weights = MG_NONE;
    if (ignore) {
        mg_value skip = mg_onnx_binary(c, MG_OP_EQUAL, targets,
                                       mg_onnx_scalar(c, (double)ignore->i.value, mg_onnx_info(c, targets)->dtype));
        weights = mg_onnx_cast(c, mg_onnx_unary(c, MG_OP_LOGICAL_NOT, skip), dtype);
        mg_value zero = mg_onnx_scalar(c, 0, mg_onnx_info(c, targets)->dtype);
        targets = mg_onnx_add(c, MG_OP_WHERE, OPERANDS(skip, zero, targets), NO_ATTRS, 1, NULL);
    }
    if (mg_onnx_has(c, 2)) {
        mg_value of_class =
            mg_onnx_add(c, MG_OP_GATHER, OPERANDS(mg_onnx_in(c, 2), targets), ATTRS(A_INT(AXIS, 0)), 1, NULL);
        weights = weights == MG_NONE ? of_class : mg_onnx_binary(c, MG_OP_MUL, weights, of_class);
    }
    return weights;
}

/* -logp at each target, picked by comparing with the classes; an ignored target may pick nothing. */
static mg_value picked(struct onnx_call *c, mg_value logp, mg_value targets)
{
    static const int64_t class_axis = 1;
    const struct mg_value_info info = *mg_onnx_info(c, logp);
    struct mg_shape column = info.shape;
    column.dim[1] = 1;
    mg_value classes = onnx_counting(c, info.shape.dim[1], 0, mg_onnx_info(c, targets)->dtype, 1, info.shape.rank);
    mg_value hit = mg_onnx_binary(c, MG_OP_EQUAL, mg_onnx_reshape(c, targets, &column), classes);
    mg_value zero = mg_onnx_scalar(c, 0, info.dtype);
    mg_value kept = mg_onnx_add(c, MG_OP_WHERE, OPERANDS(hit, logp, zero), NO_ATTRS, 1, NULL);
    return mg_onnx_unary(c, MG_OP_NEG, onnx_reduce(c, MG_OP_REDUCE_SUM, kept, &class_axis, 1, false));
}

static void reduce_loss(struct onnx_call *c, mg_value loss, mg_value weights)
{
    const char *reduction = mg_onnx_text(c, "reduction", "mean");
    bool none = strcmp(reduction, "none") == 0, mean = strcmp(reduction, "mean") == 0;
    if (weights != MG_NONE)
        loss = mg_onnx_binary(c, MG_OP_MUL, loss, weights);
    if (none) {
        mg_onnx_result(c, 0, loss);
        return;
    }
    c->last = !(mean && weights != MG_NONE);
    loss = onnx_reduce(c, mean && weights == MG_NONE ? MG_OP_REDUCE_MEAN : MG_OP_REDUCE_SUM, loss, NULL, 0, false);
    if (!mean || weights == MG_NONE)
        return;
    mg_value total = onnx_reduce(c, MG_OP_REDUCE_SUM, weights, NULL, 0, false);
    mg_onnx_last(c);
    mg_onnx_binary(c, MG_OP_DIV, loss, total);
}

void onnx_rule_nll(struct onnx_call *c, int which)
{
    mg_value logp = mg_onnx_in(c, 0), targets = mg_onnx_in(c, 1);
    bool simple = !mg_onnx_has(c, 2) && !mg_onnx_attr(c, "ignore_index") && c->out_count < 2 &&
                  strcmp(mg_onnx_text(c, "reduction", "mean"), "none") != 0;
    if (simple) {
        double divisor = strcmp(mg_onnx_text(c, "reduction", "mean"), "sum") == 0 ? 1 : 0;
        mg_onnx_last(c);
        mg_onnx_add(c, which ? MG_OP_CROSS_ENTROPY : MG_OP_NLL_LOSS, OPERANDS(logp, targets),
                    ATTRS(A_REAL(DIVISOR, divisor)), 1, NULL);
        return;
    }
    if (which)
        logp = mg_onnx_add(c, MG_OP_LOG_SOFTMAX, OPERANDS(logp), ATTRS(A_INT(AXIS, 1)), 1, NULL);
    mg_value weights = target_weights(c, targets, mg_onnx_info(c, logp)->dtype);
    reduce_loss(c, picked(c, logp, targets), weights);
    if (which)
        mg_onnx_result(c, 1, logp);
}
