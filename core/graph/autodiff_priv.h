/* What gradient rules see: one forward operator of a differentiation in progress.
 *
 * A rule reads operands, results and incoming gradients, emits operators into the training graph and
 * gives each wanted operand its contribution. The first error sticks: after it calls do nothing and
 * return MG_NONE, which every call accepts as an operand. */
#ifndef MG_GRAPH_AUTODIFF_PRIV_H
#define MG_GRAPH_AUTODIFF_PRIV_H

#include "graph/graph.h"

struct mg_grad {
    struct mg_graph *g;   /* the training graph; its first operators are the forward pass */
    mg_op op;             /* the forward operator that is differentiated */
    mg_value *gradient;   /* by value: the sum of the contributions so far, or MG_NONE */
    const bool *wanted;   /* by forward value: depends on something trainable */
    size_t forward_count; /* forward values */
    uint32_t emitted;     /* operators emitted for `op`, for their names */
    struct mg_arena *arena;
    enum mg_code code;
    struct mg_error *err;
};

/* The forward operator's operand and result i, and the gradient that came to result i (or MG_NONE). */
mg_value mg_grad_in(const struct mg_grad *d, uint32_t i);
mg_value mg_grad_out(const struct mg_grad *d, uint32_t i);
mg_value mg_grad_dy(const struct mg_grad *d, uint32_t i);
uint32_t mg_grad_in_count(const struct mg_grad *d);
bool mg_grad_wants(const struct mg_grad *d, uint32_t i);
const struct mg_shape *mg_grad_shape(const struct mg_grad *d, mg_value value);

/* Adds a contribution to operand i's gradient, summed over broadcast dimensions. Nothing if it is not wanted. */
void mg_grad_give(struct mg_grad *d, uint32_t i, mg_value contribution);
/* By an operator of its own for the gradient, which reads dy and one more and has the forward operator's attributes. */
void mg_grad_give_own(struct mg_grad *d, enum mg_op_type type, mg_value other);
void mg_grad_fail(struct mg_grad *d, const char *why);

/* `name`, or name.1, name.2, ... if a value has it already. */
const char *mg_grad_fresh_name(struct mg_grad *d, const char *name);

/* Attributes. */
struct mg_attr mg_grad_int(enum mg_attr_key key, int64_t value);
struct mg_attr mg_grad_real(enum mg_attr_key key, double value);
struct mg_attr mg_grad_text(enum mg_attr_key key, const char *value);
struct mg_attr mg_grad_ints(struct mg_grad *d, enum mg_attr_key key, const int64_t *ints, uint32_t count);
const struct mg_attr *mg_grad_attr(const struct mg_grad *d, enum mg_attr_key key); /* of the forward operator */

/* Emit one operator. mg_grad_emit: any number of operands, attributes and results. */
void mg_grad_emit(struct mg_grad *d, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                  const struct mg_attr *attrs, uint32_t attr_count, mg_value *out, uint32_t out_count);
mg_value mg_grad_unary(struct mg_grad *d, enum mg_op_type type, mg_value x);
mg_value mg_grad_binary(struct mg_grad *d, enum mg_op_type type, mg_value a, mg_value b);
mg_value mg_grad_unary_with(struct mg_grad *d, enum mg_op_type type, mg_value x, const struct mg_attr *attrs,
                            uint32_t attr_count);
mg_value mg_grad_binary_with(struct mg_grad *d, enum mg_op_type type, mg_value a, mg_value b,
                             const struct mg_attr *attrs, uint32_t attr_count);
/* Emit with those attributes of the forward operator that the emitted one takes as well, and `more`. */
void mg_grad_emit_like(struct mg_grad *d, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                       const struct mg_attr *more, uint32_t more_count, mg_value *out, uint32_t out_count);
mg_value mg_grad_affine(struct mg_grad *d, mg_value x, double alpha, double beta);
mg_value mg_grad_matmul(struct mg_grad *d, mg_value a, bool trans_a, mg_value b, bool trans_b);
mg_value mg_grad_reshape(struct mg_grad *d, mg_value x, const struct mg_shape *shape); /* x itself if it has it */
mg_value mg_grad_expand(struct mg_grad *d, mg_value x, const struct mg_shape *shape);
mg_value mg_grad_cast(struct mg_grad *d, mg_value x, enum mg_dtype dtype);
mg_value mg_grad_sum(struct mg_grad *d, mg_value x, const int64_t *axes, uint32_t count, bool keepdims);
mg_value mg_grad_zeros(struct mg_grad *d, mg_value like);
/* Sums x over the dimensions along which `shape` was broadcast to it. */
mg_value mg_grad_unbroadcast(struct mg_grad *d, mg_value x, const struct mg_shape *shape);

typedef void mg_grad_rule(struct mg_grad *d);
/* The rules that ops.def names. */
mg_grad_rule grad_abs, grad_add, grad_affine, grad_attention, grad_avg_pool, grad_batch_norm;
mg_grad_rule grad_batch_norm_inference, grad_cast, grad_clip, grad_concat, grad_conv, grad_conv_grad_input;
mg_grad_rule grad_conv_grad_weight, grad_conv_transpose, grad_copy, grad_cos, grad_cross_entropy, grad_cumsum;
mg_grad_rule grad_depth_to_space, grad_div, grad_dropout, grad_elu, grad_erf, grad_exp, grad_expand;
mg_grad_rule grad_gather, grad_gelu, grad_gemm, grad_global_avg_pool, grad_global_max_pool, grad_group_norm;
mg_grad_rule grad_hard_sigmoid, grad_hard_swish, grad_instance_norm, grad_layer_norm, grad_leaky_relu, grad_log;
mg_grad_rule grad_log_softmax, grad_matmul, grad_max, grad_max_pool, grad_min, grad_nll_loss, grad_mul, grad_neg,
    grad_pad;
mg_grad_rule grad_pow, grad_reciprocal, grad_reduce_max, grad_reduce_mean, grad_reduce_min, grad_reduce_prod;
mg_grad_rule grad_reduce_sum, grad_relu, grad_reshape, grad_resize, grad_rms_norm, grad_rsqrt, grad_scatter_add;
mg_grad_rule grad_sigmoid, grad_silu, grad_sin, grad_slice, grad_slice_grad, grad_softmax, grad_softplus;
mg_grad_rule grad_space_to_depth, grad_split, grad_sqrt, grad_squared_error, grad_sub, grad_tanh, grad_tile;
mg_grad_rule grad_transpose, grad_where;
mg_grad_rule grad_mod, grad_atan2, grad_prelu, grad_softsign, grad_selu, grad_celu, grad_mish, grad_thresholded_relu,
    grad_shrink, grad_expm1, grad_log1p, grad_log2, grad_log10, grad_tan, grad_asin, grad_acos, grad_atan, grad_sinh,
    grad_cosh, grad_asinh, grad_acosh, grad_atanh, grad_reduce_l1, grad_reduce_l2, grad_reduce_sum_square,
    grad_reduce_log_sum, grad_reduce_log_sum_exp, grad_lp_norm;
mg_grad_rule grad_gather_elements, grad_scatter_elements, grad_gather_nd, grad_scatter_nd, grad_top_k, grad_trilu,
    grad_reverse, grad_roll, grad_reverse_sequence;
mg_grad_rule grad_lp_pool, grad_max_unpool, grad_adaptive_avg_pool, grad_lrn, grad_mean_variance_norm;
mg_grad_rule grad_einsum, grad_im2col, grad_col2im;

#endif
