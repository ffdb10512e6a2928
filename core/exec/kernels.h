/* The reference kernels that the operator table names: readable, double precision, dense arrays. */
#ifndef MG_EXEC_KERNELS_H
#define MG_EXEC_KERNELS_H

#include "exec/exec_priv.h"

typedef enum mg_code mg_kernel_fn(const struct mg_kernel *k);

/* elementwise */
mg_kernel_fn kernel_binary, kernel_compare, kernel_where, kernel_squared_error_grad, kernel_unary, kernel_cast;
mg_kernel_fn kernel_activation, kernel_activation_grad, kernel_prelu_grad, kernel_bits;
mg_kernel_fn kernel_copy, kernel_dropout, kernel_dropout_grad, kernel_update;
/* contractions and recurrences */
mg_kernel_fn kernel_gemm, kernel_conv, kernel_conv_transpose, kernel_conv_grad_input;
mg_kernel_fn kernel_conv_grad_weight, kernel_attention, kernel_attention_grad, kernel_lstm, kernel_gru;
/* reductions */
mg_kernel_fn kernel_reduce, kernel_arg_max, kernel_cumsum, kernel_softmax, kernel_softmax_grad;
mg_kernel_fn kernel_cross_entropy, kernel_cross_entropy_grad, kernel_hard_max, kernel_lp_norm;
/* normalisation */
mg_kernel_fn kernel_layer_norm, kernel_layer_norm_grad, kernel_rms_norm, kernel_rms_norm_grad, kernel_batch_norm;
mg_kernel_fn kernel_batch_norm_grad, kernel_bn_apply, kernel_batch_norm_inference, kernel_stat_update;
mg_kernel_fn kernel_group_norm, kernel_group_norm_grad;
/* pooling and resampling */
mg_kernel_fn kernel_max_pool, kernel_max_pool_grad, kernel_avg_pool, kernel_avg_pool_grad, kernel_global_pool;
mg_kernel_fn kernel_global_avg_pool_grad, kernel_global_max_pool_grad, kernel_resize, kernel_resize_grad;
/* movement */
mg_kernel_fn kernel_expand, kernel_transpose, kernel_slice, kernel_slice_grad, kernel_split, kernel_concat, kernel_pad;
mg_kernel_fn kernel_tile, kernel_gather, kernel_scatter_add, kernel_depth_to_space, kernel_space_to_depth;
mg_kernel_fn kernel_fill, kernel_iota, kernel_eye, kernel_gather_elements, kernel_scatter_elements, kernel_gather_nd;
mg_kernel_fn kernel_scatter_nd, kernel_one_hot, kernel_top_k, kernel_trilu, kernel_reverse, kernel_roll,
    kernel_reverse_sequence;
/* more of normalisation, pooling and sampling */
mg_kernel_fn kernel_lrn, kernel_lrn_grad, kernel_mean_variance_norm, kernel_lp_pool, kernel_lp_pool_grad,
    kernel_max_pool_indices, kernel_max_unpool;
mg_kernel_fn kernel_adaptive_avg_pool, kernel_adaptive_avg_pool_grad, kernel_grid_sample, kernel_roi_align;
mg_kernel_fn kernel_rnn, kernel_einsum, kernel_im2col, kernel_col2im, kernel_det;
/* quantized numbers */
mg_kernel_fn kernel_quantize, kernel_dequantize, kernel_dynamic_quantize, kernel_quantized_matmul,
    kernel_quantized_conv;
/* random numbers */
mg_kernel_fn kernel_random, kernel_multinomial;

#endif
