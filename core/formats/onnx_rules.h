/* The rules that onnx_rules.def names. Private to core/formats. */
#ifndef MG_FORMATS_ONNX_RULES_H
#define MG_FORMATS_ONNX_RULES_H

#include "formats/onnx_priv.h"

enum onnx_fold_kind {
    FOLD_ABS,
    FOLD_CEIL,
    FOLD_FLOOR,
    FOLD_NEG,
    FOLD_NOT,
    FOLD_RECIPROCAL,
    FOLD_RELU,
    FOLD_SQRT,
    FOLD_ADD,
    FOLD_SUB,
    FOLD_MUL,
    FOLD_DIV,
    FOLD_MOD,
    FOLD_AND,
    FOLD_OR,
    FOLD_MAX,
    FOLD_MIN,
    FOLD_EQUAL,
    FOLD_NOT_EQUAL,
    FOLD_GREATER,
    FOLD_GREATER_OR_EQUAL,
    FOLD_LESS,
    FOLD_LESS_OR_EQUAL,
};
typedef bool mg_onnx_folder(struct onnx_call *c, int which);
#define MG_ONNX(op_type, min_in, max_in, rule, rule_which, fold, fold_which)                                           \
    mg_onnx_rule onnx_rule_##rule;                                                                                     \
    mg_onnx_folder onnx_fold_##fold;
#define MG_ONNX_MICROSOFT(op_type, min_in, max_in, rule) mg_onnx_rule onnx_rule_##rule;
#include "formats/onnx_rules.def"
#undef MG_ONNX
#undef MG_ONNX_MICROSOFT

/* Shared by several files of rules. */

/* A new constant of the graph with these contents. */
mg_value onnx_contents(struct onnx_call *c, const struct mg_onnx_data *data);
/* Integers as contents of rank 1. */
struct mg_onnx_data *onnx_integers(struct onnx_call *c, const int64_t *list, uint32_t count);
/* 0, 1, ... along dimension `axis` of a shape that is 1 elsewhere. */
mg_value onnx_counting(struct onnx_call *c, int64_t size, double start, enum mg_dtype dtype, uint32_t axis,
                       uint32_t rank);
mg_value onnx_reduce(struct onnx_call *c, enum mg_op_type type, mg_value x, const int64_t *axes, uint32_t count,
                     bool keep);
/* Resize by a region of interest to these sizes, of all dimensions. */
void onnx_crop_and_resize(struct onnx_call *c, const int64_t *size);
/* Windows of convolutions and pools: spatial dimensions from 2 on. */
struct onnx_window {
    uint32_t rank;
    int64_t kernel[MG_MAX_RANK], stride[MG_MAX_RANK], dilation[MG_MAX_RANK], pad[2 * MG_MAX_RANK];
};
void onnx_window_of(struct onnx_call *c, const struct mg_shape *x, const int64_t *kernel, struct onnx_window *w);
mg_value onnx_convolve(struct onnx_call *c, const struct onnx_window *w, const mg_value *in, uint32_t count);
/* [starts, ends) of a slice as our operator takes them; negative steps are gathered. */
struct onnx_slice {
    int64_t start[MG_MAX_RANK], end[MG_MAX_RANK], step[MG_MAX_RANK], size[MG_MAX_RANK];
};
bool onnx_slice_of(struct onnx_call *c, struct onnx_slice *s);
/* Target shapes. */
bool onnx_reshape_target(struct onnx_call *c, struct mg_shape *out);
bool onnx_squeeze_target(struct onnx_call *c, struct mg_shape *out);
bool onnx_unsqueeze_target(struct onnx_call *c, struct mg_shape *out);
bool onnx_expand_target(struct onnx_call *c, struct mg_shape *out);

#endif
