/* At least one instance of every operator, as text: "name | operands | results | attributes".
 * Operands: sizes joined by commas, "s" for a scalar, with a dtype and colon in front unless f32. */
#ifndef MG_TESTS_OP_SAMPLES_H
#define MG_TESTS_OP_SAMPLES_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/unit/graph_util.h"

static const char *const op_samples[] = {
    "matmul | 6,5,7 7,4 | 1",
    "matmul | 3,1,7,5 4,9,7 | 1 | trans_a=1 trans_b=1",
    "gemm | 6,7 4,7 | 1 | trans_b=1 alpha=2",
    "gemm | 6,7 7,4 4 | 1 | beta=0.5",
    "gemm | 6,7 7,4 6,1 | 1",
    "conv | 4,6,9,8 8,6,3,3 | 1 | pads=1,1,1,1 strides=2,1",
    "conv | 4,6,9,8 8,6,3,3 8 | 1 | dilations=2,1",
    "conv | 4,6,8 8,3,1 8 | 1 | group=2 strides=2",
    "conv | 2,6,4,4,4 5,6,1,1,1 | 1",
    "conv_transpose | 4,6,5,5 6,4,3,3 | 1 | strides=2,2 pads=1,1,1,1 output_padding=1,1",
    "conv_transpose | 4,6,5,5 6,4,1,1 8 | 1 | group=2",
    "conv_transpose | 4,6,5,5 6,4,1,1 4 | 1",
    "conv_grad_input | 4,8,5,5 8,6,3,3 | 1 | spatial=9,10 strides=2,2 pads=1,1,1,1",
    "conv_grad_input | 4,8,5,4 8,3,1,1 | 1 | spatial=10,4 strides=2,1 group=2",
    "conv_grad_weight | 4,8,5,5 4,6,9,10 | 1 | kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "conv_grad_weight | 4,8,5,4 4,6,10,4 | 1 | kernel_shape=1,1 strides=2,1 group=2",
    "einsum | 4,6,5 4,5,7 | 1 | equation=bij,bjk->bik",
    "einsum | 4,6,5 5,7 | 1 | equation=...j,jk",
    "einsum | 4,6,5 4,7,5 | 1 | equation=bij,bkj->bik",
    "einsum | 4,6,5 4,7,5 | 1 | equation=bij,bkj->bki",
    "einsum | 6,4,5 4,5,7 | 1 | equation=ibj,bjk->ibk",
    "einsum | 4,6,5 1,5 | 1 | equation=abc,ic->abi",
    "einsum | 4,6,5 6,3 | 1 | equation=abc,bd->ad",
    "einsum | 4 5 | 1 | equation=i,j->ij",
    "einsum | 4,5 4,5 | 1 | equation=ij,ij->",
    "einsum | 5,5,3 | 1 | equation=iij->ji",
    "einsum | 3,4 4,5 5,6 3,6 | 1 | equation=ab,bc,cd,ad->da",
    "einsum | 2,3,4 4,2,5 3,5,6 2 | 1 | equation=abc,cad,bde,a->eab",
    "einsum | 5 3,4 4 | 1 | equation=a,bc,c->ba",
    "im2col | 4,6,9,8 | 1 | kernel_shape=3,2 strides=2,1 pads=1,1,1,1",
    "im2col | 2,3,9 | 1 | kernel_shape=3 dilations=3 pads=4,0",
    "im2col | 2,3,4,5,6 | 1 | kernel_shape=2,3,2 strides=1,2,3",
    "col2im | 4,36,45 | 1 | spatial=9,8 kernel_shape=3,2 strides=2,1 pads=1,1,1,1",
    "det | 4,6,5,5 | 1",
    "quantize_linear | 4,6,5 6 u8:6 | 1",
    "quantize_linear | 4,6 s | 1 | to=i8",
    "quantize_linear | 4,6,5 5 u8:5 | 1 | axis=2",
    "dequantize_linear | u8:4,6,5 s | 1",
    "dequantize_linear | i8:4,6,5 6 i8:6 | 1",
    "dynamic_quantize_linear | 4,6 | 3",
    "matmul_integer | u8:3,6,7 u8:7,4 u8:6 u8:4 | 1",
    "matmul_integer | u8:6,7 i8:7,4 | 1",
    "matmul_integer | u8:2,1,6,300 u8:3,300,70 | 1",
    "qlinear_matmul | u8:6,7 s u8:s u8:7,4 4 u8:4 s u8:s | 1",
    "conv_integer | i8:2,4,9 i8:6,2,3 | 1 | group=2 strides=2 dilations=2",
    "conv_integer | u8:4,6,9,8 u8:8,6,3,3 u8:s u8:8 | 1 | pads=1,1,1,1",
    "qlinear_conv | u8:4,6,9,8 s u8:s i8:8,3,3,3 8 i8:8 s u8:s i32:8 | 1 | group=2",
    "rnn | 5,4,6 1,8,6 1,8,8 1,16 1,4,8 | 2 | hidden_size=8 activation=relu",
    "add | 4,1,6 5,1 | 1",
    "sub | 4,6 4,6 | 1",
    "mul | 4,6 s | 1",
    "div | 6 4,6 | 1",
    "pow | 4,6 4,6 | 1",
    "max | 4,6 4,1 | 1",
    "min | 4,6 4,6 | 1",
    "mod | i64:4,6 i64:6 | 1",
    "mod | 4,6 4,6 | 1 | fmod=1",
    "floor_div | 4,6 s | 1",
    "atan2 | 4,6 4,1 | 1",
    "prelu | 4,6,5 6,1 | 1",
    "prelu_grad | 4,6,5 4,6,5 6,1 | 1",
    "logical_xor | bool:4,6 bool:6 | 1",
    "bitwise_and | i32:4,6 i32:6 | 1",
    "bitwise_or | u8:4,6 u8:4,6 | 1",
    "bitwise_xor | i64:4,6 i64:4,6 | 1",
    "bitwise_xor | bool:4,6 bool:4,1 | 1",
    "bitwise_not | i8:4,6 | 1",
    "bitwise_not | bool:4,6 | 1",
    "bit_shift | u8:4,6 u8:4,6 | 1 | direction=LEFT",
    "bit_shift | u8:4,6 u8:6 | 1 | direction=RIGHT",
    "is_nan | 4,6 | 1",
    "is_inf | 4,6 | 1 | detect_negative=0",
    "equal | i64:4,6 i64:6 | 1",
    "not_equal | 4,6 4,6 | 1",
    "greater | 4,6 4,6 | 1",
    "greater_or_equal | 4,6 4,6 | 1",
    "less | 4,6 4,6 | 1",
    "less_or_equal | 4,6 4,6 | 1",
    "logical_and | bool:4,6 bool:4,6 | 1",
    "logical_or | bool:4,6 bool:4,6 | 1",
    "where | bool:4,1 4,6 6 | 1",
    "squared_error | 4,6 4,6 | 1",
    "squared_error_grad | 4,6 4,6 4,6 | 1",
    "affine | 4,6 | 1 | alpha=2 beta=-1",
    "neg | 4,6 | 1",
    "abs | 4,6 | 1",
    "sign | 4,6 | 1",
    "floor | 4,6 | 1",
    "ceil | 4,6 | 1",
    "round | 4,6 | 1",
    "logical_not | bool:4,6 | 1",
    "exp | 4,6 | 1",
    "log | 4,6 | 1",
    "sqrt | 4,6 | 1",
    "rsqrt | 4,6 | 1",
    "reciprocal | 4,6 | 1",
    "erf | 4,6 | 1",
    "sin | 4,6 | 1",
    "cos | 4,6 | 1",
    "trunc | 4,6 | 1",
    "tan | 4,6 | 1",
    "asin | 4,6 | 1",
    "acos | 4,6 | 1",
    "atan | 4,6 | 1",
    "sinh | 4,6 | 1",
    "cosh | 4,6 | 1",
    "asinh | 4,6 | 1",
    "acosh | 4,6 | 1",
    "atanh | 4,6 | 1",
    "expm1 | 4,6 | 1",
    "log1p | 4,6 | 1",
    "log2 | 4,6 | 1",
    "log10 | 4,6 | 1",
    "softsign | 4,6 | 1",
    "selu | 4,6 | 1",
    "celu | 4,6 | 1",
    "mish | 4,6 | 1",
    "thresholded_relu | 4,6 | 1",
    "shrink | 4,6 | 1 | bias=0.2 lambd=0.7",
    "softsign_grad | 4,6 4,6 | 1",
    "selu_grad | 4,6 4,6 | 1",
    "celu_grad | 4,6 4,6 | 1",
    "mish_grad | 4,6 4,6 | 1",
    "thresholded_relu_grad | 4,6 4,6 | 1",
    "shrink_grad | 4,6 4,6 | 1",
    "tanh | 4,6 | 1",
    "sigmoid | 4,6 | 1",
    "relu | 4,6 | 1",
    "leaky_relu | 4,6 | 1 | alpha=0.2",
    "elu | 4,6 | 1",
    "silu | 4,6 | 1",
    "gelu | 4,6 | 1",
    "gelu | 4,6 | 1 | approximate=tanh",
    "hard_swish | 4,6 | 1",
    "hard_sigmoid | 4,6 | 1",
    "softplus | 4,6 | 1",
    "clip | 4,6 | 1 | min=-0.5 max=0.5",
    "cast | 4,6 | 1 | to=f64",
    "copy | 4,6 | 1",
    "dropout | 4,6 | 2 | ratio=0.25 seed=3",
    "relu_grad | 4,6 4,6 | 1",
    "leaky_relu_grad | 4,6 4,6 | 1",
    "elu_grad | 4,6 4,6 | 1",
    "sigmoid_grad | 4,6 4,6 | 1",
    "tanh_grad | 4,6 4,6 | 1",
    "erf_grad | 4,6 4,6 | 1",
    "silu_grad | 4,6 4,6 | 1",
    "gelu_grad | 4,6 4,6 | 1",
    "gelu_grad | 4,6 4,6 | 1 | approximate=tanh",
    "hard_swish_grad | 4,6 4,6 | 1",
    "hard_sigmoid_grad | 4,6 4,6 | 1",
    "softplus_grad | 4,6 4,6 | 1",
    "clip_grad | 4,6 4,6 | 1 | min=-0.5 max=0.5",
    "dropout_grad | 4,6 bool:4,6 | 1 | ratio=0.25",
    "reduce_sum | 4,5,6 | 1 | axes=0,2 keepdims=0",
    "reduce_mean | 4,5,6 | 1 | axes=1",
    "reduce_max | 4,5,6 | 1 | axes=-1",
    "reduce_min | 4,5,6 | 1",
    "reduce_prod | 4,5,6 | 1 | axes=1 keepdims=0",
    "reduce_l1 | 4,5,6 | 1 | axes=1",
    "reduce_l2 | 4,5,6 | 1 | axes=1 keepdims=0",
    "reduce_sum_square | 4,5,6 | 1 | axes=0,1",
    "reduce_log_sum | 4,5,6 | 1 | axes=2",
    "reduce_log_sum_exp | 4,5,6 | 1 | axes=0",
    "reduce_sum | i32:4,5,6 | 1 | axes=0,2 keepdims=0",
    "reduce_prod | i64:4,5,6 | 1 | axes=1",
    "reduce_min | i64:4,5,6 | 1 | axes=2",
    "arg_min | 4,5,6 | 1 | axis=1 select_last_index=1",
    "hard_max | 4,5,6 | 1",
    "reduce_log_sum_exp | 4,5,60 | 1 | axes=1,2 keepdims=0",
    "lp_norm | 4,5,6 | 1 | axis=1 p=1",
    "lp_norm | 4,50 | 1",
    "arg_max | 4,5,6 | 1 | axis=1 keepdims=0",
    "arg_max | 4,5,6 | 1 | axis=2",
    "arg_max | 3,77 | 1 | axis=1",
    "arg_min | 4,5,6 | 1 | axis=2",
    "arg_min | i64:3,77 | 1 | axis=1 select_last_index=1",
    "cumsum | 4,5,6 | 1 | axis=1 exclusive=1 reverse=1",
    "cumsum | i32:4,5 | 1",
    "cumsum | 4,50 | 1 | axis=1 exclusive=1",
    "cumsum | 4,5,6 | 1 | axis=2 reverse=1",
    "cumsum | i64:4,5,6 | 1 | axis=1 exclusive=1",
    "softmax | 4,5,6 | 1",
    "softmax | 4,5,6 | 1 | axis=1",
    "log_softmax | 4,5,6 | 1",
    "softmax_grad | 4,5,6 4,5,6 | 1",
    "log_softmax_grad | 4,5,6 4,5,6 | 1 | axis=0",
    "cross_entropy | 6,5 i64:6 | 1",
    "cross_entropy | 6,5,3 i32:6,3 | 1",
    "cross_entropy | 6,5 i64:6 | 1 | ignore_index=-100",
    "cross_entropy_grad | s 6,5,3 i64:6,3 | 1",
    "nll_loss | 6,5,3 i64:6,3 | 1",
    "nll_loss_grad | s 6,5,3 i64:6,3 | 1",
    "layer_norm | 4,6,8 | 3",
    "layer_norm | 4,6,8 6,8 6,8 | 3 | axis=1",
    "layer_norm_grad | 4,6,8 4,6,8 4,6,1 4,6,1 | 1",
    "layer_norm_grad | 4,6,8 4,6,8 4,6,1 4,6,1 8 | 3",
    "rms_norm | 4,6,8 8 | 2",
    "rms_norm_grad | 4,6,8 4,6,8 4,6,1 8 | 2",
    "rms_norm_grad | 4,6,8 4,6,8 4,6,1 | 1",
    "batch_norm | 4,6,5,5 6 6 | 3",
    "batch_norm_grad | 4,6,5,5 4,6,5,5 1,6,1,1 1,6,1,1 6 | 3",
    "batch_norm_grad | 4,6,5,5 4,6,5,5 1,6,1,1 1,6,1,1 | 1",
    "bn_apply | 4,6,5,5 1,6,1,1 1,6,1,1 6 6 | 1",
    "bn_apply | 4,6,5,5 1,6,1,1 1,6,1,1 | 1",
    "batch_norm_inference | 4,6,5,5 6 6 6 6 | 1",
    "stat_update | 6 1,6,1,1 | 1",
    "stat_update | 6 1,6,1,1 | 1 | variance=1 count=100",
    "group_norm | 4,6,5,5 6 6 | 3 | num_groups=3",
    "group_norm_grad | 4,6,5,5 4,6,5,5 4,3,1,1 4,3,1,1 6 | 3 | num_groups=3",
    "group_norm_grad | 4,6,5,5 4,6,5,5 4,3,1,1 4,3,1,1 | 1 | num_groups=3",
    "instance_norm | 4,6,5,5 | 3",
    "instance_norm_grad | 4,6,5,5 4,6,5,5 4,6,1,1 4,6,1,1 6 | 3",
    "max_pool | 4,6,9,9 | 1 | kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "max_pool_grad | 4,6,5,5 4,6,9,9 | 1 | kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "avg_pool | 4,6,9,9 | 1 | kernel_shape=3,3 strides=2,2 pads=1,1,1,1 count_include_pad=0",
    "avg_pool_grad | 4,6,5,5 | 1 | spatial=9,9 kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "lrn | 4,6,5,5 | 1 | size=3",
    "lrn | 2,9,3 | 1 | size=4 alpha=0.5 bias=2 beta=0.6",
    "lrn_grad | 4,6,5 4,6,5 | 1 | size=3",
    "lrn_grad | 2,9,3 2,9,3 | 1 | size=4 alpha=0.5 bias=2 beta=0.6",
    "mean_variance_norm | 4,6,5,5 | 1 | axes=0,2,3",
    "mean_variance_norm | 4,30 | 1 | axes=1",
    "lp_pool | 4,6,9,9 | 1 | kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "lp_pool_grad | 4,6,5,5 4,6,9,9 | 1 | kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "avg_pool | 4,6,9,9 | 1 | kernel_shape=3,3 dilations=2,1",
    "lp_pool | 4,6,9 | 1 | kernel_shape=3 p=1",
    "lp_pool_grad | 4,6,7 4,6,9 | 1 | kernel_shape=3 p=3",
    "max_pool_indices | 4,6,8,8 | 2 | kernel_shape=2,2 strides=2,2",
    "max_pool_indices | 2,3,4,6,5 | 2 | kernel_shape=2,2,2 storage_order=1",
    "max_unpool | 4,6,4,4 i64:4,6,4,4 | 1 | spatial=8,8",
    "adaptive_avg_pool | 4,6,7,5 | 1 | spatial=3,5",
    "adaptive_avg_pool | 2,3,7 | 1 | spatial=9",
    "adaptive_avg_pool_grad | 4,6,3,5 | 1 | spatial=7,5",
    "adaptive_avg_pool_grad | 2,3,2,3,4 | 1 | spatial=4,4,9",
    "resize | 4,6,5,5 | 1 | spatial=3,9 mode=cubic coordinates=half_pixel antialias=1 scales_h=0.7",
    "resize | 2,3,5,6,7 | 1 | spatial=3,9,4 mode=cubic coordinates=pytorch_half_pixel exclude_outside=1",
    "grid_sample | 4,6,5,7 4,3,8,2 | 1 | padding=reflection",
    "grid_sample | 4,6,5,7 4,3,8,2 | 1 | mode=nearest padding=border",
    "grid_sample | 4,6,5,7 4,3,8,2 | 1 | mode=cubic align_corners=1 padding=reflection",
    "roi_align | 4,6,9,9 5,4 i64:5 | 1 | spatial=2,3 mode=max",
    "roi_align | 4,6,9,9 5,4 i64:5 | 1 | spatial=2,3 coordinates=output_half_pixel sampling_ratio=2 spatial_scale=3",
    "global_avg_pool | 4,6,5,5 | 1",
    "global_max_pool | 4,6,5,5 | 1",
    "global_avg_pool_grad | 4,6,1,1 | 1 | spatial=5,5",
    "global_max_pool_grad | 4,6,1,1 4,6,5,5 | 1",
    "resize | 4,6,5,5 | 1 | spatial=10,10",
    "resize | 4,6,5,5 | 1 | spatial=8,3 mode=linear coordinates=half_pixel",
    "resize_grad | 4,6,10,10 | 1 | spatial=5,5",
    "resize_grad | 4,6,8,3 | 1 | spatial=5,5 mode=linear coordinates=align_corners",
    "reshape | 4,6,10 | 1 | shape=24,10",
    "reshape | 12,10 | 1 | shape=8,15",
    "reshape | 4,6,10 | 1 | shape=2,2,6,5,2",
    "reshape | 8,1,6 | 1 | shape=1,4,2,6",
    "squeeze | 4,1,6,1 | 1 | axes=1",
    "unsqueeze | 4,6 | 1 | axes=0,2",
    "flatten | 4,6,10 | 1 | axis=2",
    "expand | 4,1,6 | 1 | shape=3,4,5,6",
    "transpose | 4,6,10 | 1 | perm=2,0,1",
    "slice | 4,6,10 | 1 | starts=1,0 ends=5,9 axes=1,2 steps=2,3",
    "slice_grad | 4,2,10 | 1 | shape=4,6,10 starts=1 ends=5 axes=1 steps=2",
    "split | 4,6,10 | 3 | axis=1 split=1,2,3",
    "concat | 4,6,10 4,1,10 | 1 | axis=1",
    "pad | 4,6,10 | 1 | pads=0,1,-2,0,2,0 value=1.5",
    "pad | 4,6,10 | 1 | pads=0,1,2,0,2,0 mode=reflect",
    "pad | 4,6,10 | 1 | pads=0,1,2,0,2,0 mode=edge",
    "tile | 4,6 | 1 | repeats=1,3",
    "gather | 9,5,4 i64:3,7 | 1 | axis=1",
    "gather | 9,8 i64:4,6 | 1",
    "gather | i64:9,8 i64:4 | 1 | axis=1",
    "gather | bool:9,8 i32:4 | 1",
    "scatter_add | 9,3,7,4 i64:3,7 | 1 | axis=1 size=5",
    "scatter_add | 4,6,8 i64:4,6 | 1 | size=9",
    "gather_elements | 4,6,5 i64:4,6,3 | 1 | axis=-1",
    "gather_elements | 4,6 i64:3,6 | 1",
    "scatter_elements | 4,6,5 i64:4,6,3 4,6,3 | 1 | axis=2",
    "scatter_elements | 4,6 i64:9,6 9,6 | 1 | reduction=add",
    "gather_elements | bool:4,6,5 i32:4,3,5 | 1 | axis=1",
    "scatter_elements | i64:4,6 i64:9,6 i64:9,6 | 1 | reduction=mul",
    "gather_nd | 4,6,5,3 i64:4,7,2 | 1 | batch_dims=1",
    "gather_nd | 4,6,5 i64:3,7,1 | 1",
    "scatter_nd | 4,6,5,3 i64:4,7,2 4,7,3 | 1 | batch_dims=1",
    "scatter_nd | 4,6,5 i64:7,1 7,6,5 | 1 | reduction=max",
    "scatter_nd | i64:4,6 i64:7,2 i64:7 | 1 | reduction=add",
    "one_hot | i64:4,6 2 | 1 | depth=5 axis=1",
    "one_hot | i32:7 i64:2 | 1 | depth=2",
    "top_k | 4,9,6 | 2 | k=3 axis=1",
    "top_k | 3,60 | 2 | k=40 largest=0",
    "top_k | i64:3,60 | 2 | k=5",
    "trilu | 4,6,5 | 1 | diagonal=1",
    "trilu | i64:4,5,7 | 1 | upper=0 diagonal=-2",
    "reverse | 4,6,5 | 1 | axes=1",
    "roll | 4,6,5 | 1 | shifts=2,-1 axes=0,2",
    "roll | i64:4,1,6 | 1 | shifts=-5,7 axes=0,2",
    "reverse_sequence | 5,4,6 i64:4 | 1",
    "reverse_sequence | 4,3,5,2 i64:4 | 1 | batch_axis=0 time_axis=2",
    "eye | | 1 | shape=4,6 to=f32 diagonal=1",
    "eye | | 1 | shape=6,4 to=i64 diagonal=-3",
    "random_normal | | 1 | shape=4,6 to=f32 mean=1 scale=2 seed=5",
    "random_uniform | | 1 | shape=4,6 to=f32 low=-1 high=2",
    "bernoulli | 4,6 | 1 | to=bool",
    "multinomial | 4,6 | 1 | sample_size=5",
    "depth_to_space | 4,12,3,5 | 1 | blocksize=2",
    "space_to_depth | 4,3,6,10 | 1 | blocksize=2 mode=CRD",
    "fill | | 1 | shape=4,6 to=f32 value=2",
    "iota | | 1 | size=9 to=f32 start=2 delta=0.5",
    "attention | 2,8,5,4 2,4,7,4 2,4,7,4 5,7 | 2",
    "attention | 2,8,5,4 2,4,7,4 2,4,7,4 2,8,1,7 | 2",
    "attention | 2,4,5,4 2,4,5,4 2,4,5,4 | 2 | causal=1",
    "attention_grad | 2,8,5,4 2,8,5,4 2,4,7,4 2,4,7,4 2,8,5,4 2,8,5,1 5,7 | 3",
    "attention_grad | 2,4,5,4 2,4,5,4 2,4,5,4 2,4,5,4 2,4,5,4 2,4,5,1 | 3 | causal=1",
    "lstm | 5,4,6 1,32,6 1,32,8 1,64 1,4,8 1,4,8 | 3 | hidden_size=8",
    "lstm | 5,4,6 1,32,6 1,32,8 1,64 1,4,8 1,4,8 1,24 | 3 | hidden_size=8 reverse=1",
    "lstm | 3,2,5 1,76,5 1,76,19 | 3 | hidden_size=19",
    "gru | 5,4,6 1,24,6 1,24,8 | 2 | hidden_size=8 reverse=1",
    "gru | 5,4,6 1,24,6 1,24,8 1,48 1,4,8 | 2 | hidden_size=8",
    "gru | 5,4,6 1,24,6 1,24,8 1,48 1,4,8 | 2 | hidden_size=8 linear_before_reset=1",
    "gru | 5,4,6 1,24,6 1,24,8 | 2 | hidden_size=8 linear_before_reset=1",
    "rnn | 5,4,6 1,8,6 1,8,8 | 2 | hidden_size=8",
    "sgd | 4,6 4,6 | 1 | lr=0.1 weight_decay=0.01",
    "assign | 4,6 4,6 | 1",
    "momentum | 4,6 4,6 | 1",
    "moment | 4,6 4,6 | 1 | beta=0.99 power=2",
    "adam | 4,6 4,6 4,6 | 1",
    "adamw | 4,6 4,6 4,6 | 1 | step=3",
};
enum { OP_SAMPLES = sizeof op_samples / sizeof *op_samples };

static inline int64_t *sample_ints(struct mg_arena *arena, const char *text, uint32_t *count)
{
    int64_t *list = MG_NEW_ARRAY(arena, int64_t, 16);
    *count = 0;
    while (*text) {
        char *end;
        list[(*count)++] = strtoll(text, &end, 10);
        text = *end ? end + 1 : end;
    }
    return list;
}

static enum mg_dtype sample_dtype = MG_DTYPE_F32; /* of operands that name none */

static inline mg_value sample_operand(struct bench *b, const char *text)
{
    enum mg_dtype dtype = sample_dtype;
    const char *colon = strchr(text, ':');
    if (colon) {
        dtype = mg_dtype_from_name(mg_arena_printf(&b->arena, "%.*s", (int)(colon - text), text));
        text = colon + 1;
    }
    struct mg_shape shape = {0};
    if (strcmp(text, "s") != 0)
        memcpy(shape.dim, sample_ints(&b->arena, text, &shape.rank), sizeof shape.dim);
    return mg_graph_add_value(b->g, NULL, MG_KIND_INPUT, dtype, &shape);
}

static inline struct mg_attr sample_attr(struct bench *b, enum mg_op_type type, char *text)
{
    struct mg_attr attr = {0};
    char *value = strchr(text, '=');
    *value++ = 0;
    attr.key = mg_attr_from_name(text);
    cr_assert(mg_op_attr_type(type, attr.key, &attr.type), "%s", text);
    switch (attr.type) {
    case MG_ATTR_TYPE_INT:
        attr.i = strtoll(value, NULL, 10);
        break;
    case MG_ATTR_TYPE_FLOAT:
        attr.f = strtod(value, NULL);
        break;
    case MG_ATTR_TYPE_STRING:
        attr.string = value;
        break;
    case MG_ATTR_TYPE_INTS:
        attr.ints = sample_ints(&b->arena, value, &attr.count);
    }
    return attr;
}

/* Operator 0 of b->g is the sample; false, with b->err, if the operator refuses. */
static inline bool sample_build(struct bench *b, const char *sample)
{
    bench_open(b);
    char none[] = "", *rest = mg_arena_strdup(&b->arena, sample), *part[4] = {rest, none, none, none}, *word, *state;
    for (int i = 0; i < 3 && (rest = strchr(rest, '|')); i++) {
        *rest++ = 0;
        part[i + 1] = rest;
    }
    enum mg_op_type type = mg_op_type_from_name(strtok_r(part[0], " ", &state));
    mg_value in[16];
    struct mg_attr attrs[16];
    uint32_t in_count = 0, attr_count = 0;
    for (word = strtok_r(part[1], " ", &state); word; word = strtok_r(NULL, " ", &state))
        in[in_count++] = sample_operand(b, word);
    for (word = strtok_r(part[3], " ", &state); word; word = strtok_r(NULL, " ", &state))
        attrs[attr_count++] = sample_attr(b, type, word);
    return mg_graph_add_op(b->g, type, "sample", in, in_count, attrs, attr_count, NULL, (uint32_t)atol(part[2]), NULL,
                           &b->err) == MG_OK;
}

#endif
