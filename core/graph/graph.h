/* The intermediate representation: values and operators by index.
 *
 * A graph is built (mg_graph_add_*), then *normalised* once (mg_graph_normalise): names resolved,
 * shapes inferred, operators in a stable topological order, views decided and explicit `copy`
 * operators inserted where a reader cannot take a view (plan/MODEL.md, Layout). After that it is
 * immutable and may be shared by threads. All memory belongs to the graph's arena.
 *
 * Shapes are element counts, outermost dimension first; bytes are logical elements * dtype size,
 * unrounded (the device's `align` rounds storages, not values). */
#ifndef MG_GRAPH_GRAPH_H
#define MG_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

typedef uint32_t mg_op;    /* index of an operator */
typedef uint32_t mg_value; /* index of a value */
#define MG_NONE UINT32_MAX

enum { MG_MAX_RANK = 8, MG_MAX_AXES = 12 };
#define MG_ANY 255                     /* ops.def: as many operands or results as are given */
#define MG_IGNORE_NONE (-2147483648LL) /* ignore_index of cross_entropy: no index is ignored */

enum mg_dtype {
    MG_DTYPE_F64,
    MG_DTYPE_F32,
    MG_DTYPE_F16,
    MG_DTYPE_BF16,
    MG_DTYPE_F8E4M3,
    MG_DTYPE_F8E5M2,
    MG_DTYPE_I64,
    MG_DTYPE_I32,
    MG_DTYPE_I16,
    MG_DTYPE_I8,
    MG_DTYPE_U8,
    MG_DTYPE_U16,
    MG_DTYPE_U32,
    MG_DTYPE_U64,
    MG_DTYPE_BOOL,
    MG_DTYPE_COUNT
};
uint32_t mg_dtype_size(enum mg_dtype dtype);
const char *mg_dtype_name(enum mg_dtype dtype);
bool mg_dtype_is_unsigned(enum mg_dtype dtype); /* whole numbers from 0 on */
/* The number of a real dtype nearest to x (of two, the even one). What f16 and bf16 cannot hold becomes infinite, what
 * the f8 formats cannot hold their largest number, as ONNX's Cast has it. f64 and whole numbers: x. */
double mg_dtype_round(enum mg_dtype dtype, double x);
enum mg_dtype mg_dtype_from_name(const char *name); /* MG_DTYPE_COUNT if unknown */

struct mg_shape {
    uint32_t rank;
    int64_t dim[MG_MAX_RANK];
};
int64_t mg_shape_elements(const struct mg_shape *shape); /* 1 for a scalar */
bool mg_shape_equal(const struct mg_shape *a, const struct mg_shape *b);
/* Rank and sizes in range, and at most 2^50 bytes. */
bool mg_shape_fits(const struct mg_shape *shape, enum mg_dtype dtype);
void mg_shape_strides(const struct mg_shape *shape, int64_t stride[MG_MAX_RANK]); /* row-major */

/* Arithmetic of f32 contractions. */
enum mg_math { MG_MATH_F32, MG_MATH_TF32 };

enum mg_op_type {
#define MG_OP(id, ...) MG_OP_##id,
#include "graph/ops.def"
#undef MG_OP
    MG_OP_COUNT
};

/* Attributes: one key space for all operators (attrs.def), each operator's own schema and
 * defaults in ops.def. After normalisation an operator carries every attribute of its schema, in
 * schema order. */
enum mg_attr_key {
#define MG_ATTR(id, name) MG_ATTR_##id,
#include "graph/attrs.def"
#undef MG_ATTR
    MG_ATTR_COUNT
};
enum mg_attr_type { MG_ATTR_TYPE_INT, MG_ATTR_TYPE_FLOAT, MG_ATTR_TYPE_INTS, MG_ATTR_TYPE_STRING };
struct mg_attr {
    enum mg_attr_key key;
    enum mg_attr_type type;
    uint32_t count; /* elements of `ints` */
    union {
        int64_t i; /* also booleans */
        double f;
        const int64_t *ints;
        const char *string;
    };
};
const char *mg_attr_name(enum mg_attr_key key);
enum mg_attr_key mg_attr_from_name(const char *name); /* MG_ATTR_COUNT if unknown */
/* Its value as JSON. */
struct mg_writer;
void mg_attr_write(struct mg_writer *w, const struct mg_attr *attr);
bool mg_attr_equal(const struct mg_attr *a, const struct mg_attr *b); /* same key, type and value */
/* NULL if absent. */
const struct mg_attr *mg_attr_find(const struct mg_attr *attrs, uint32_t count, enum mg_attr_key key);
/* The type that an operator's schema gives an attribute; false if the operator does not take it. */
bool mg_op_attr_type(enum mg_op_type type, enum mg_attr_key key, enum mg_attr_type *out);

enum mg_kind { MG_KIND_COMPUTED, MG_KIND_INPUT, MG_KIND_WEIGHT, MG_KIND_STATE, MG_KIND_CONSTANT };
enum mg_home { MG_HOME_DEVICE, MG_HOME_HOST };

struct mg_value_info {
    const char *name;
    const char *label; /* what it is to whoever made the graph ("grad of head.weight"), or NULL; not in the digest */
    struct mg_shape shape;
    enum mg_dtype dtype;
    enum mg_kind kind;
    enum mg_home home;   /* resident values only */
    mg_op producer;      /* MG_NONE unless kind is COMPUTED */
    uint32_t slot;       /* which output of the producer */
    bool declared;       /* shape was declared by the input and must agree with inference */
    bool known;          /* shape and dtype are known (always, after normalisation) */
    bool is_output;      /* graph output */
    mg_value update_of;  /* this value is the new version of that weight or state; else MG_NONE */
    mg_value updated_by; /* for a weight or state: its new version; else MG_NONE */
    /* Decided by normalisation. A view shares the storage of `base` (never itself a view), from
     * element `offset` on, with `stride[d]` elements between neighbours of dimension d. */
    mg_value base; /* the value itself if it is no view */
    int64_t offset;
    int64_t stride[MG_MAX_RANK];
    uint64_t bytes; /* elements * size; 0 is legal */
    /* Readers: operators that list it as an operand, ascending, each once (valid after normalise). */
    const mg_op *readers;
    uint32_t reader_count;
    bool is_read; /* a base: a computing operator reads it, itself or through views, or it is a graph output so */
};

struct mg_op_info {
    const char *name;
    const char *module; /* dotted module path, or "" */
    enum mg_op_type type;
    const struct mg_attr *attrs;
    uint32_t attr_count;
    const mg_value *in;
    uint32_t in_count;
    const mg_value *out;
    uint32_t out_count;
    int32_t in_place;           /* operand whose storage the first output takes, or -1 */
    bool in_place_given;        /* asked for by the input: an error where it is impossible */
    bool is_view;               /* decided by normalisation: costs nothing, makes no storage */
    mg_op forward_of;           /* autodiff: the forward operator this gradient belongs to, or MG_NONE */
    bool inferred;              /* results and attributes are complete (always, after normalisation) */
    const struct mg_axis *axes; /* after normalisation; read through mg_op_axes */
    uint32_t axis_count;
};

struct mg_graph {
    struct mg_arena *arena;
    const char *name;
    const char *source; /* digest of the captured step that the graph was read from, or NULL */
    enum mg_math math;
    struct mg_op_info *ops;
    size_t op_count, op_capacity;
    struct mg_value_info *values;
    size_t value_count, value_capacity;
    mg_value *outputs;
    size_t output_count, output_capacity;
    bool normalised;
    mg_op forward_ops; /* operators before this index are the forward pass (autodiff); else MG_NONE, after
                        * normalisation op_count */
    char digest[65];   /* hex, after normalisation */
    void *name_index;  /* private: hash table from names */
};

/* ---- building ---- */
struct mg_graph *mg_graph_new(struct mg_arena *arena, const char *name);
/* Room for as many, beforehand: a new graph then does not grow by copying. */
void mg_graph_reserve(struct mg_graph *g, size_t ops, size_t values);
/* Names must be unique among values; NULL makes a fresh one ("v12"). Returns MG_NONE if the name is taken or the
 * shape does not fit. A COMPUTED value gets its producer later (mg_graph_add_op); its shape may be NULL: not known
 * yet, dtype ignored. So operators may be added in any order, once the values between them are. */
mg_value mg_graph_add_value(struct mg_graph *g, const char *name, enum mg_kind kind, enum mg_dtype dtype,
                            const struct mg_shape *shape);
/* Adds an operator. Results are named by out_names (NULL, or an entry NULL: fresh names); a name of a COMPUTED value
 * without producer binds that value, whose declared shape must then agree. Results of opaque operators must be declared
 * so. `attrs` may be partial: defaults fill the rest. Shapes and dtypes are inferred at once if those of all operands
 * are known, else by normalisation. Fails with a message that names operator and reason; the pointer is /ops/N, N
 * counting the operators added before. `out` (may be NULL) receives the values. */
enum mg_code mg_graph_add_op(struct mg_graph *g, enum mg_op_type type, const char *name, const mg_value *in,
                             uint32_t in_count, const struct mg_attr *attrs, uint32_t attr_count,
                             const char *const *out_names, uint32_t out_count, mg_value *out,
                             struct mg_error *err) MG_WARN_UNUSED;
/* The storage of operand `operand` shall be taken by the first result (S6); only for elementwise operators. */
void mg_graph_set_in_place(struct mg_graph *g, mg_op op, int32_t operand);
void mg_graph_set_module(struct mg_graph *g, mg_op op, const char *module);
void mg_graph_add_output(struct mg_graph *g, mg_value value);
/* Declares new_version as the update of weight. Its producer must read the weight and be elementwise; it is made in
 * place by normalisation. */
void mg_graph_add_update(struct mg_graph *g, mg_value weight, mg_value new_version);
/* Takes back what was added last: operators and values from these counts on, of which nothing else knows. */
void mg_graph_truncate(struct mg_graph *g, size_t ops, size_t values);
mg_value mg_graph_find_value(const struct mg_graph *g, const char *name); /* MG_NONE if unknown */

/* Orders, checks, decides views, inserts copies, removes nothing that is asked for, fills readers
 * and the digest. Returns a *new* graph in `arena` (which may be g's). Errors point at /ops/N. */
enum mg_code mg_graph_normalise(const struct mg_graph *g, struct mg_arena *arena, struct mg_graph **out,
                                struct mg_error *err) MG_WARN_UNUSED;
/* All invariants, for debug builds and module borders. */
enum mg_code mg_graph_check(const struct mg_graph *g, struct mg_error *why) MG_WARN_UNUSED;

/* ---- facts of an operator ---- */
const char *mg_op_type_name(enum mg_op_type type);
enum mg_op_type mg_op_type_from_name(const char *name); /* MG_OP_COUNT if unknown */

enum mg_purity { MG_PURE, MG_SEEDED, MG_IMPURE };
enum mg_cost_class {
    MG_COST_VIEW,
    MG_COST_CONTRACTION,
    MG_COST_ELEMENTWISE,
    MG_COST_ROWS /* gather, scatter: rows touched */
};
enum mg_layout {
    MG_LAYOUT_DENSE,
    MG_LAYOUT_OUTER,
    MG_LAYOUT_ANY,
    MG_LAYOUT_MATRIX /* last two dims in either order */
};
enum mg_purity mg_op_purity(const struct mg_graph *g, mg_op op);
enum mg_cost_class mg_op_cost(enum mg_op_type type);
/* Needs of its operands, for each element of the result, only that at the same index: may work in place. */
bool mg_op_is_pointwise(enum mg_op_type type);
int32_t mg_op_in_place(enum mg_op_type type); /* the table's: operand that result 0 overwrites, or -1 */
/* Does a reader accept operand `slot` with these strides (in elements)? */
bool mg_op_accepts_layout(const struct mg_graph *g, mg_op op, uint32_t slot, const struct mg_shape *shape,
                          const int64_t *stride);
/* Is operand `slot` of a contraction what is added to its result (ops.def)? */
bool mg_op_is_addend(const struct mg_graph *g, mg_op op, uint32_t slot);
/* May the only result of `op` take the storage of operand `slot` at its last reading (S6)? Elementwise
 * operators and addends of products: every element of the result needs that operand at the same index only. */
bool mg_op_may_reuse(const struct mg_graph *g, mg_op op, uint32_t slot);
bool mg_layout_contiguous(const struct mg_shape *shape, const int64_t *stride);
/* The view operators between a value and its base, the one next to the base last; 0 if they do not lead there. */
uint32_t mg_graph_view_chain(const struct mg_graph *g, mg_value value, mg_value base, struct mg_arena *arena,
                             const mg_op **chain);

const struct mg_attr *mg_op_attr(const struct mg_op_info *op, enum mg_attr_key key); /* NULL if not in the schema */
int64_t mg_op_attr_int(const struct mg_op_info *op, enum mg_attr_key key);
double mg_op_attr_float(const struct mg_op_info *op, enum mg_attr_key key);

/* ---- iteration axes (graph/axes.c) ---- */
enum mg_combiner { MG_COMBINE_NONE, MG_COMBINE_SUM, MG_COMBINE_MAX, MG_COMBINE_MIN, MG_COMBINE_PROD };

/* How an axis runs over one operand or result: over dimension `dim`, each axis index covering
 * `unit` consecutive elements of it (extent in that dimension = extent of the axis * unit).
 * dim = -1: absent. */
struct mg_axis_use {
    int8_t dim;
    int64_t unit;
};
struct mg_axis {
    char name[8];              /* "b0", "m", "n", "k", "c", "g", "d0", ... unique within the operator */
    int64_t length;            /* number of axis indices in the whole operator */
    enum mg_combiner combiner; /* for results in which it is absent; NONE there: cannot be split */
    bool window;               /* sliding: parts overlap; recorded, never cut */
    int64_t kernel, stride, dilation, pad_before, pad_after; /* window axes */
    const struct mg_axis_use *in;                            /* in_count entries */
    const struct mg_axis_use *out;                           /* out_count entries */
};
/* The axes of an operator, computed once at normalisation. */
const struct mg_axis *mg_op_axes(const struct mg_graph *g, mg_op op, uint32_t *count);

/* ---- an operator as it is priced and executed: shapes and attributes, no names ---- */
struct mg_op_desc {
    enum mg_op_type type;
    enum mg_math math;
    const struct mg_attr *attrs;
    uint32_t attr_count;
    uint32_t in_count, out_count;
    const struct mg_shape *in_shape, *out_shape;
    const enum mg_dtype *in_dtype, *out_dtype;
};
/* A cut restricts one axis to indices [lo, hi). */
struct mg_cut {
    uint32_t axis; /* index into mg_op_axes */
    int64_t lo, hi;
};
/* The operator restricted by `cuts` (0 = whole), by its split rule; memory from `arena`. For
 * nested regions pass one cut per axis with absolute bounds. */
enum mg_code mg_op_describe(const struct mg_graph *g, mg_op op, const struct mg_cut *cuts, uint32_t cut_count,
                            struct mg_arena *arena, struct mg_op_desc *out, struct mg_error *err) MG_WARN_UNUSED;

/* The implicit matrix multiplications of a contraction: B products of M x N, depth K. */
enum { MG_MAX_GEMMS = 5 };
struct mg_gemm {
    int64_t b, m, n, k;
};
uint32_t mg_op_gemms(const struct mg_op_desc *desc, struct mg_gemm out[MG_MAX_GEMMS]); /* 0: no contraction */

/* ---- properties of the whole graph ---- */
struct mg_graph_stats {
    uint64_t parameters;      /* elements of all weights */
    uint64_t contractions;    /* matmul, conv and conv gradients */
    double contraction_flops; /* sum of 2 B M N K (mg_op_gemms) */
    uint64_t resident_bytes;
};
void mg_graph_stats(const struct mg_graph *g, struct mg_graph_stats *out);

/* ---- training ---- */
enum mg_loss { MG_LOSS_SQUARED, MG_LOSS_MSE, MG_LOSS_CROSS_ENTROPY, MG_LOSS_SUM, MG_LOSS_OUTPUT };
enum mg_optimizer { MG_OPTIMIZER_NONE, MG_OPTIMIZER_SGD, MG_OPTIMIZER_MOMENTUM, MG_OPTIMIZER_ADAM, MG_OPTIMIZER_ADAMW };
struct mg_training {
    enum mg_loss loss;
    enum mg_optimizer optimizer;
    const char *const *trainable; /* NULL: all weights */
    uint32_t trainable_count;
};
/* A new, not yet normalised graph in `arena`: forward, loss, gradients in reverse, each update as
 * soon as its gradient is complete and the old weight has no further reader. */
enum mg_code mg_graph_differentiate(const struct mg_graph *forward, const struct mg_training *training,
                                    struct mg_arena *arena, struct mg_graph **out, struct mg_error *err) MG_WARN_UNUSED;

#endif
