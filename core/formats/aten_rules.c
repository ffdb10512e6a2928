/* Rules of elementwise calls and of those that fill tensors: the arguments as PyTorch defines them, told in
 * our operators. A rule that does not know the form that it is given declines, and the call becomes opaque. */
#include <math.h>
#include <string.h>

#include "formats/aten_rules.h"

/* ---- elementwise ---- */

/* The dtype that holds numbers of both, as PyTorch promotes them; MG_DTYPE_COUNT: none is known. */
static enum mg_dtype promoted(enum mg_dtype a, enum mg_dtype b)
{
    if (a == b || b == MG_DTYPE_BOOL)
        return a;
    if (a == MG_DTYPE_BOOL || b < a)
        return a == MG_DTYPE_BOOL ? b : promoted(b, a);
    if (a <= MG_DTYPE_F32)
        return b == MG_DTYPE_F8E4M3 || b == MG_DTYPE_F8E5M2 ? MG_DTYPE_COUNT : a;
    if (a < MG_DTYPE_I64)
        return b >= MG_DTYPE_I64 ? a : a == MG_DTYPE_F16 && b == MG_DTYPE_BF16 ? MG_DTYPE_F32 : MG_DTYPE_COUNT;
    if (b > MG_DTYPE_U8)
        return MG_DTYPE_COUNT;
    return a == MG_DTYPE_I8 && b == MG_DTYPE_U8 ? MG_DTYPE_I16 : a;
}

struct operand_type {
    enum mg_dtype dtype;
    int level; /* tensors stand above those without a dimension, and these above numbers */
};

static struct operand_type type_of(struct aten_builder *b, const struct aten_arg *arg)
{
    if (!aten_is_tensor(arg))
        return (struct operand_type){arg && arg->kind == ATEN_BOOL                                  ? MG_DTYPE_BOOL
                                     : arg && !arg->large && (arg->real || arg->kind == ATEN_FLOAT) ? MG_DTYPE_F32
                                                                                                    : MG_DTYPE_I64,
                                     0};
    const struct aten_node *node = &b->document->nodes[arg->node];
    return (struct operand_type){node->dtype, node->shape.rank ? 2 : 1};
}

/* The dtype in which the first two arguments meet: one that stands lower counts only where it is of a higher kind. */
static enum mg_dtype joint(struct aten_builder *b, const struct aten_node *node)
{
    struct operand_type high = type_of(b, aten_argument(node, 0, NULL)), low = type_of(b, aten_argument(node, 1, NULL));
    if (high.level < low.level) {
        struct operand_type other = high;
        high = low;
        low = other;
    }
    bool kept = high.dtype < MG_DTYPE_I64 || (high.dtype != MG_DTYPE_BOOL && low.dtype >= MG_DTYPE_I64);
    enum mg_dtype dtype = high.level > low.level && kept ? high.dtype : promoted(high.dtype, low.dtype);
    if (dtype == MG_DTYPE_COUNT)
        (void)aten_decline(b);
    return dtype == MG_DTYPE_COUNT ? high.dtype : dtype;
}

/* The dtype that an operand is computed in: that of the result, where it lists one; in place that in which the operands
 * meet, whatever they are written to. */
static enum mg_dtype computed_in(struct aten_builder *b, const struct aten_node *node, mg_value a)
{
    if (node->has_out && node->write_count && aten_is_tensor(aten_argument(node, 1, NULL)))
        return joint(b, node);
    return node->has_out ? node->dtype : aten_dtype(b, a);
}

/* Of integers most functions are numbers of the result's type. */
mg_value aten_rule_unary(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL);
    return aten_emit1(b, c->type, aten_cast(b, x, computed_in(b, c->node, x)));
}

/* A question, to numbers of any type. */
mg_value aten_rule_test(struct aten_builder *b, const struct aten_rule_call *c)
{
    return aten_emit1(b, c->type, aten_in(b, c->node, 0, NULL));
}

/* logical_not and bitwise_not, which are the same for what is true or false only. */
mg_value aten_rule_not(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL);
    if (c->type == MG_OP_BITWISE_NOT && aten_dtype(b, x) != MG_DTYPE_BOOL)
        return aten_emit1(b, c->type, x);
    return aten_emit1(b, MG_OP_LOGICAL_NOT, aten_cast(b, x, MG_DTYPE_BOOL));
}

/* Gradients (dy, x or y). */
mg_value aten_rule_grad(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value dy = aten_in(b, c->node, 0, NULL), x = aten_in(b, c->node, 1, NULL);
    return aten_emit2(b, c->type, dy, x);
}

/* The second operand: a tensor, or a number as a scalar tensor. */
static mg_value operand(struct aten_builder *b, const struct aten_node *node, size_t at, enum mg_dtype dtype)
{
    static const struct mg_shape scalar = {0};
    if (aten_is_tensor(aten_argument(node, at, "other")))
        return aten_cast(b, aten_in(b, node, at, "other"), dtype);
    return aten_fill(b, &scalar, dtype, aten_real(node, at, "other", 0));
}

mg_value aten_rule_binary(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_in(b, c->node, 0, NULL);
    enum mg_dtype dtype = computed_in(b, c->node, a);
    return aten_emit2(b, c->type, aten_cast(b, a, dtype), operand(b, c->node, 1, dtype));
}

/* fmod(a, b): the remainder of a division to whole numbers towards zero */
mg_value aten_rule_fmod(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_in(b, c->node, 0, NULL);
    enum mg_dtype dtype = computed_in(b, c->node, a);
    mg_value by = operand(b, c->node, 1, dtype);
    a = aten_cast(b, a, dtype);
    aten_set_int(b, MG_ATTR_FMOD, 1);
    return aten_emit2(b, c->type, a, by);
}

/* xlogy(x, y): x log(y), of which nothing is left where x is 0 and y a number */
mg_value aten_rule_xlogy(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL), y = aten_in(b, c->node, 1, NULL);
    enum mg_dtype dtype = computed_in(b, c->node, x);
    mg_value zero = aten_fill(b, &(struct mg_shape){0}, dtype, 0);
    x = aten_cast(b, x, dtype);
    y = aten_cast(b, y, dtype);
    mg_value none =
        aten_emit2(b, MG_OP_LOGICAL_AND, aten_emit2(b, MG_OP_EQUAL, x, zero), aten_emit2(b, MG_OP_EQUAL, y, y));
    const mg_value in[3] = {none, zero, aten_emit2(b, MG_OP_MUL, x, aten_emit1(b, MG_OP_LOG, y))};
    return aten_emit(b, c->type, in, 3, NULL, 1);
}

mg_value aten_rule_compare(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_in(b, c->node, 0, NULL);
    enum mg_dtype dtype = joint(b, c->node);
    return aten_emit2(b, c->type, aten_cast(b, a, dtype), operand(b, c->node, 1, dtype));
}

/* Of two truths; a number is true but for 0. */
mg_value aten_rule_logical(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_cast(b, aten_in(b, c->node, 0, NULL), MG_DTYPE_BOOL);
    return aten_emit2(b, c->type, a, aten_cast(b, aten_in(b, c->node, 1, NULL), MG_DTYPE_BOOL));
}

static bool is_resident(const struct aten_builder *b, mg_value v)
{
    return v != MG_NONE && (b->g->values[v].kind == MG_KIND_WEIGHT || b->g->values[v].kind == MG_KIND_STATE);
}

/* add and sub: a + alpha other. In place on a weight that is the step of an optimizer. */
mg_value aten_rule_add(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_in(b, c->node, 0, NULL);
    enum mg_dtype dtype = computed_in(b, c->node, a);
    double alpha = aten_real(c->node, 2, "alpha", 1);
    if (!aten_is_tensor(aten_argument(c->node, 1, "other")))
        return dtype == MG_DTYPE_BOOL
                   ? aten_decline(b)
                   : aten_affine(b, aten_cast(b, a, dtype), 1,
                                 (c->type == MG_OP_SUB ? -alpha : alpha) * aten_real(c->node, 1, "other", 0));
    mg_value other = aten_cast(b, aten_in(b, c->node, 1, "other"), dtype);
    if (alpha != 1 && c->node->write_count && is_resident(b, a) && aten_dtype(b, a) == dtype &&
        mg_shape_equal(aten_shape(b, a), aten_shape(b, other))) {
        aten_set_real(b, MG_ATTR_LR, c->type == MG_OP_SUB ? alpha : -alpha);
        return aten_emit2(b, MG_OP_SGD, a, other);
    }
    return aten_emit2(b, c->type, aten_cast(b, a, dtype), aten_affine(b, other, alpha, 0));
}

mg_value aten_rule_rsub(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_cast(b, aten_in(b, c->node, 0, NULL), c->node->dtype);
    double alpha = aten_real(c->node, 2, "alpha", 1);
    if (aten_is_tensor(aten_argument(c->node, 1, "other")))
        return aten_emit2(b, MG_OP_SUB, operand(b, c->node, 1, c->node->dtype), aten_affine(b, a, alpha, 0));
    return aten_affine(b, a, -alpha, aten_real(c->node, 1, "other", 0));
}

/* x of s(x) (1 + x (1 - s(x))), s the sigmoid: silu's gradient, which capturing takes apart; MG_NONE: something else.
 */
static mg_value silu_slope_of(const struct aten_builder *b, mg_value v)
{
    const struct mg_op_info *slope = aten_made_by(b, v, MG_OP_MUL);
    const struct mg_op_info *s = slope ? aten_made_by(b, slope->in[0], MG_OP_SIGMOID) : NULL;
    const struct mg_op_info *plus = s ? aten_made_by(b, slope->in[1], MG_OP_AFFINE) : NULL;
    const struct mg_op_info *product = plus ? aten_made_by(b, plus->in[0], MG_OP_MUL) : NULL;
    const struct mg_op_info *rest = product ? aten_made_by(b, product->in[1], MG_OP_SUB) : NULL;
    const struct mg_op_info *one = rest ? aten_made_by(b, rest->in[0], MG_OP_FILL) : NULL;
    if (!one || rest->in[1] != slope->in[0] || product->in[0] != s->in[0] ||
        mg_op_attr_float(one, MG_ATTR_VALUE) != 1 || mg_op_attr_float(plus, MG_ATTR_ALPHA) != 1 ||
        mg_op_attr_float(plus, MG_ATTR_BETA) != 1)
        return MG_NONE;
    return s->in[0];
}

/* Is it as well to multiply by 1 / x? */
static bool is_power_of_two(double x)
{
    double power = 0x1p-14;
    while (power < fabs(x) && power < 0x1p14)
        power *= 2;
    return power == fabs(x);
}

/* mul and div; a product with a number is a scale. */
mg_value aten_rule_mul(struct aten_builder *b, const struct aten_rule_call *c)
{
    double by = aten_real(c->node, 1, "other", 0);
    bool scaled = !aten_is_tensor(aten_argument(c->node, 1, "other"));
    if (scaled && c->node->has_out && c->node->dtype == MG_DTYPE_BOOL)
        return aten_decline(b);
    mg_value a = aten_in(b, c->node, 0, NULL);
    if (!scaled) {
        mg_value silu = c->type == MG_OP_MUL ? silu_slope_of(b, aten_in(b, c->node, 1, NULL)) : MG_NONE;
        return silu == MG_NONE ? aten_rule_binary(b, c) : aten_emit2(b, MG_OP_SILU_GRAD, a, silu);
    }
    a = aten_cast(b, a, computed_in(b, c->node, a));
    if (c->type == MG_OP_DIV && !is_power_of_two(by))
        return aten_emit2(b, MG_OP_DIV, a, operand(b, c->node, 1, aten_dtype(b, a)));
    return aten_affine(b, a, c->type == MG_OP_DIV ? 1 / by : by, 0);
}

/* div(a, b, rounding_mode): exactly, down or, of real numbers, towards zero */
mg_value aten_rule_div_mode(struct aten_builder *b, const struct aten_rule_call *c)
{
    const struct aten_arg *mode = aten_argument(c->node, 2, "rounding_mode");
    const struct aten_rule_call down = {c->node, MG_OP_FLOOR_DIV};
    if (!mode || mode->kind == ATEN_NULL)
        return aten_rule_mul(b, c);
    if (mode->kind == ATEN_TEXT && strcmp(mode->text, "floor") == 0)
        return aten_rule_binary(b, &down);
    if (mode->kind != ATEN_TEXT || strcmp(mode->text, "trunc") != 0 || c->node->dtype >= MG_DTYPE_I64)
        return aten_decline(b);
    return aten_emit1(b, MG_OP_TRUNC, aten_rule_binary(b, c));
}

mg_value aten_rule_pow(struct aten_builder *b, const struct aten_rule_call *c)
{
    if (aten_is_tensor(aten_argument(c->node, 1, "exponent")) && !aten_is_tensor(aten_argument(c->node, 0, "self"))) {
        mg_value exponent = aten_cast(b, aten_in(b, c->node, 1, "exponent"), c->node->dtype);
        mg_value base = aten_fill(b, &(struct mg_shape){0}, c->node->dtype, aten_real(c->node, 0, "self", 0));
        return aten_emit2(b, MG_OP_POW, base, exponent);
    }
    mg_value a = aten_in(b, c->node, 0, NULL);
    double by = aten_real(c->node, 1, "exponent", 0);
    if (a == MG_NONE)
        return aten_decline(b);
    if (aten_is_tensor(aten_argument(c->node, 1, "exponent")))
        return aten_rule_binary(b, c);
    a = aten_cast(b, a, computed_in(b, c->node, a));
    if (by == 2)
        return aten_emit2(b, MG_OP_MUL, a, a);
    if (by == 0.5 && aten_dtype(b, a) < MG_DTYPE_I64)
        return aten_emit1(b, MG_OP_SQRT, a);
    return aten_emit2(b, MG_OP_POW, a, aten_fill(b, &(struct mg_shape){0}, aten_dtype(b, a), by));
}

/* a + value t1 t2, a + value t1 / t2 */
mg_value aten_rule_addc(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_in(b, c->node, 0, NULL);
    mg_value t = aten_emit2(b, c->type, aten_in(b, c->node, 1, NULL), aten_in(b, c->node, 2, NULL));
    return aten_emit2(b, MG_OP_ADD, a, aten_affine(b, t, aten_real(c->node, 3, "value", 1), 0));
}

mg_value aten_rule_lerp(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value a = aten_in(b, c->node, 0, NULL), end = aten_in(b, c->node, 1, NULL);
    double weight = aten_real(c->node, 2, "weight", 0);
    return aten_emit2(b, MG_OP_ADD, aten_affine(b, a, 1 - weight, 0), aten_affine(b, end, weight, 0));
}

mg_value aten_rule_where(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value mask = aten_cast(b, aten_in(b, c->node, 0, NULL), MG_DTYPE_BOOL);
    const mg_value in[3] = {mask, operand(b, c->node, 1, c->node->dtype), operand(b, c->node, 2, c->node->dtype)};
    return aten_emit(b, MG_OP_WHERE, in, 3, NULL, 1);
}

mg_value aten_rule_masked_fill(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL), mask = aten_in(b, c->node, 1, NULL);
    const mg_value in[3] = {mask, operand(b, c->node, 2, aten_dtype(b, x)), x};
    return aten_emit(b, MG_OP_WHERE, in, 3, NULL, 1);
}

mg_value aten_rule_cast(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL);
    return aten_dtype(b, x) == c->node->dtype ? aten_emit1(b, MG_OP_COPY, x) : aten_cast(b, x, c->node->dtype);
}

/* A copy that keeps what a later call overwrites is the value itself: in the graph nothing is overwritten. */
mg_value aten_rule_clone(struct aten_builder *b, const struct aten_rule_call *c)
{
    mg_value x = aten_in(b, c->node, 0, NULL);
    const struct aten_arg *from = aten_argument(c->node, 0, NULL);
    if (x == MG_NONE || !b->document->nodes[from->node].has_out || b->g->values[x].kind != MG_KIND_COMPUTED)
        return aten_emit1(b, c->type, x);
    struct aten_storage *s = &b->storages[b->tensors[from->node].storage];
    if (s->last_write == MG_NONE || s->last_write <= b->node)
        return aten_emit1(b, c->type, x);
    s->kept = true;
    return x;
}

/* ---- filling ---- */

mg_value aten_rule_empty(struct aten_builder *b, const struct aten_rule_call *c)
{
    return c->node->has_out ? MG_NONE : aten_decline(b);
}

static mg_value filled(struct aten_builder *b, const struct aten_node *node, double value)
{
    return node->has_out ? aten_fill(b, &node->shape, node->dtype, value) : aten_decline(b);
}

mg_value aten_rule_zeros(struct aten_builder *b, const struct aten_rule_call *c)
{
    return filled(b, c->node, 0);
}

mg_value aten_rule_ones(struct aten_builder *b, const struct aten_rule_call *c)
{
    return filled(b, c->node, 1);
}

/* full(size, value), full_like(x, value), new_full(x, size, value), fill(x, value), scalar_tensor(value) */
mg_value aten_rule_full(struct aten_builder *b, const struct aten_rule_call *c)
{
    size_t at = strstr(c->node->op, "new_full") ? 2 : strstr(c->node->op, "scalar_tensor") ? 0 : 1;
    if (aten_is_tensor(aten_argument(c->node, at, "value")))
        return aten_expand(b, aten_cast(b, aten_in(b, c->node, at, "value"), c->node->dtype), &c->node->shape);
    return filled(b, c->node, aten_real(c->node, at, "fill_value", 0));
}

/* arange(end), arange(start, end[, step]) */
mg_value aten_rule_arange(struct aten_builder *b, const struct aten_rule_call *c)
{
    bool only_end = c->node->args.count == 1;
    int64_t size = c->node->shape.dim[0];
    double start = only_end ? 0 : aten_real(c->node, 0, "start", 0), delta = aten_real(c->node, 2, "step", 1);
    if (!aten_holds(c->node->dtype, start) || !aten_holds(c->node->dtype, delta) ||
        !aten_holds(c->node->dtype, start + delta * (double)(size ? size - 1 : 0)))
        return aten_decline(b);
    aten_set_int(b, MG_ATTR_SIZE, size);
    aten_set_text(b, MG_ATTR_TO, mg_dtype_name(c->node->dtype));
    aten_set_real(b, MG_ATTR_START, start);
    aten_set_real(b, MG_ATTR_DELTA, delta);
    return aten_emit(b, MG_OP_IOTA, NULL, 0, NULL, 1);
}

/* eye(n), eye(n, m) */
mg_value aten_rule_eye(struct aten_builder *b, const struct aten_rule_call *c)
{
    aten_set_ints(b, MG_ATTR_SHAPE, c->node->shape.dim, c->node->shape.rank);
    aten_set_text(b, MG_ATTR_TO, mg_dtype_name(c->node->dtype));
    return aten_emit(b, c->type, NULL, 0, NULL, 1);
}

static bool is_written_later(const struct aten_builder *b, uint32_t node)
{
    uint32_t last = b->storages[b->tensors[node].storage].last_write;
    return last != MG_NONE && last > b->node;
}

/* copy(target, source). Where neither is written to again, nobody can tell the copy from its source: that is how
 * gradients reach .grad in a traced step. */
mg_value aten_rule_copy(struct aten_builder *b, const struct aten_rule_call *c)
{
    const struct aten_arg *to = aten_argument(c->node, 0, NULL), *from = aten_argument(c->node, 1, NULL);
    if (!aten_is_tensor(to) || !aten_is_tensor(from))
        return aten_decline(b);
    const struct aten_node *target = &b->document->nodes[to->node];
    mg_value source = aten_read(b, from->node), v = aten_expand(b, aten_cast(b, source, target->dtype), &target->shape);
    if (v == MG_NONE)
        return aten_decline(b);
    bool same = !is_written_later(b, to->node) && !is_written_later(b, from->node) &&
                b->g->values[v].kind == MG_KIND_COMPUTED && b->tensors[to->node].value == MG_NONE;
    return v != source || same ? v : aten_emit1(b, MG_OP_COPY, v);
}
