/* Bodies shared by the files of core/exec. */
#ifndef MG_EXEC_EXEC_PRIV_H
#define MG_EXEC_EXEC_PRIV_H

#include "exec/exec.h"

/* Odometer over a shape: advances `index`, false after the last element (index is zero again). */
bool mg_walk_next(const struct mg_shape *shape, int64_t *index);
int64_t mg_walk_at(const int64_t *index, const int64_t *stride, uint32_t rank);

/* One call of a reference kernel. All arrays are dense and row-major, `out` is zeroed. */
struct mg_kernel {
    const struct mg_op_desc *op;
    const double *const *in;
    double *const *out;
    const struct mg_exec_origin *origin;
    struct mg_arena *scratch;
    struct mg_error *err;
};

/* Attributes of a description; the schema guarantees their presence. */
int64_t mg_kernel_int(const struct mg_kernel *k, enum mg_attr_key key);
double mg_kernel_float(const struct mg_kernel *k, enum mg_attr_key key);
/* Element `at` of a list attribute, or `fallback` where the list is shorter. */
int64_t mg_kernel_ints(const struct mg_kernel *k, enum mg_attr_key key, uint32_t at, int64_t fallback);

const char *mg_kernel_text(const struct mg_kernel *k, enum mg_attr_key key);
/* Number of elements of operand or result i. */
int64_t mg_kernel_in_count(const struct mg_kernel *k, uint32_t i);
int64_t mg_kernel_out_count(const struct mg_kernel *k, uint32_t i);
/* Flat position in a (right-aligned, broadcasting) shape of the element at `index` of a shape of `rank`. */
int64_t mg_broadcast_at(const struct mg_shape *shape, const int64_t *index, uint32_t rank);

/* c[m, n] += a[m, k] b[k, n]. Distances are in elements; the columns of c are adjacent. */
struct mg_product {
    int64_t m, n, k;
    int64_t a_row, a_column, b_row, b_column, c_row;
};
void mg_multiply_add(const struct mg_product *p, const double *a, const double *b, double *c);

/* A layout, in elements. */
struct mg_view {
    int64_t at; /* of the first element */
    struct mg_shape shape;
    int64_t stride[MG_MAX_RANK];
};
/* Where a view operator's result `slot` lies, given where its operand lies: `layout` is the operand's on entry, the
 * result's on return. False if this operator's result is no view of that layout. */
bool mg_exec_view(const struct mg_op_desc *op, uint32_t slot, struct mg_view *layout);

#endif
