/* The operator table's rules, for core/graph and its tests.
 *
 * A rule named r in ops.def is the function mg_r. Shape rules see operands and (possibly still
 * incomplete) attributes and fill results and attributes; axes rules see a complete operator and
 * list its axes; split rules adapt attributes to restricted shapes. */
#ifndef MG_GRAPH_OPS_PRIV_H
#define MG_GRAPH_OPS_PRIV_H

#include "graph/graph.h"

/* ---- schemas ---- */
enum mg_presence {
    MG_ATTR_NEEDED,
    MG_ATTR_DEFAULTED,
    MG_ATTR_FLAG,        /* with a default too; 0 or 1 */
    MG_ATTR_LISTED,      /* optional list, completed by the shape rule */
    MG_ATTR_PER_SPATIAL, /* one number for each spatial dimension of operand 0 */
    MG_ATTR_PER_SIDE,    /* two */
};
struct mg_attr_rule {
    enum mg_attr_key key;
    enum mg_attr_type type;
    enum mg_presence presence;
    int64_t i; /* default, or fill of lists */
    double f;
    const char *text;
};

/* ---- shape rules ---- */
struct mg_infer {
    struct mg_arena *arena;
    enum mg_op_type type;
    const char *name; /* of the operator, for messages */
    mg_op op;         /* its place in the graph, for pointers */
    uint32_t in_count, out_count;
    const struct mg_shape *in;
    const enum mg_dtype *in_dtype;
    struct mg_attr *attrs;
    uint32_t attr_count;
    struct mg_shape *out; /* opaque: declared shapes on entry */
    enum mg_dtype *out_dtype;
    struct mg_error *err;
};
typedef enum mg_code mg_shape_rule(struct mg_infer *t);

/* `part` is appended to the operator's pointer: "/inputs/1", "/attrs/pads", or "". */
enum mg_code mg_infer_fail(struct mg_infer *t, const char *part, const char *fmt, ...) MG_PRINTF(3, 4);
struct mg_attr *mg_infer_attr(struct mg_infer *t, enum mg_attr_key key); /* never NULL for a key of the schema */
int64_t mg_infer_int(struct mg_infer *t, enum mg_attr_key key);
const int64_t *mg_infer_ints(struct mg_infer *t, enum mg_attr_key key, uint32_t *count);
void mg_infer_set_ints(struct mg_infer *t, enum mg_attr_key key, const int64_t *ints, uint32_t count);
/* Makes an axis attribute or value non-negative, below `rank`. */
enum mg_code mg_infer_axis(struct mg_infer *t, enum mg_attr_key key, uint32_t rank, uint32_t *axis);
enum mg_code mg_infer_list_size(struct mg_infer *t, enum mg_attr_key key, uint32_t want);
enum mg_code mg_infer_rank(struct mg_infer *t, uint32_t operand, uint32_t least, uint32_t most);
enum mg_code mg_infer_same_dtype(struct mg_infer *t);
/* A text attribute is one of `choices` (ended by NULL). */
enum mg_code mg_infer_choice(struct mg_infer *t, enum mg_attr_key key, const char *const *choices);
/* "[2, 3]" */
const char *mg_shape_text(struct mg_arena *arena, const struct mg_shape *shape);
bool mg_dtype_is_integer(enum mg_dtype dtype); /* including bool */
enum mg_dtype mg_dtype_of_statistics(enum mg_dtype dtype);
/* Checks arity and attributes, completes the schema, runs the shape rule. */
enum mg_code mg_infer_run(struct mg_infer *t, const struct mg_attr *given, uint32_t given_count);

/* ---- axes rules ---- */
struct mg_axes {
    struct mg_arena *arena;
    const struct mg_op_desc *desc;
    struct mg_axis axis[MG_MAX_AXES];
    struct mg_axis_use *in[MG_MAX_AXES], *out[MG_MAX_AXES];
    uint32_t count;
};
typedef void mg_axes_rule(struct mg_axes *t);

/* Opens an axis, absent everywhere; its index, or MG_NONE if length < 2 (nothing to split). */
uint32_t mg_axes_open(struct mg_axes *t, const char *name, int number, int64_t length, enum mg_combiner combiner);
/* Index MG_NONE is ignored by both. dim < 0: absent. */
void mg_axes_in(struct mg_axes *t, uint32_t axis, uint32_t operand, int64_t dim, int64_t unit);
void mg_axes_out(struct mg_axes *t, uint32_t axis, uint32_t result, int64_t dim, int64_t unit);
int64_t mg_desc_int(const struct mg_op_desc *desc, enum mg_attr_key key);
double mg_desc_float(const struct mg_op_desc *desc, enum mg_attr_key key);
const int64_t *mg_desc_ints(const struct mg_op_desc *desc, enum mg_attr_key key, uint32_t *count);
/* The axes of an operator; a private error if the table and the operator disagree. */
const struct mg_axis *mg_axes_of(const struct mg_op_desc *desc, struct mg_arena *arena, uint32_t *count);

/* ---- split rules ---- */
struct mg_split {
    struct mg_arena *arena;
    const struct mg_op_desc *whole;
    const struct mg_axis *axes;
    const struct mg_cut *cuts;
    uint32_t cut_count;
    const struct mg_shape *in_shape, *out_shape; /* restricted */
    struct mg_attr *attrs;                       /* to change; lists are shared with the whole: replace them */
    uint32_t attr_count;
};
typedef void mg_split_rule(struct mg_split *t);

/* ---- the table ---- */
struct mg_op_facts {
    const char *name;
    uint32_t min_in, max_in, n_out;
    const struct mg_attr_rule *schema;
    uint32_t schema_count;
    mg_shape_rule *shape;
    mg_axes_rule *axes;
    mg_split_rule *split;
    enum mg_cost_class cost;
    enum mg_purity purity;
    int32_t in_place;
    const char *layout, *onnx, *aten;
};
const struct mg_op_facts *mg_op_facts(enum mg_op_type type);

/* Infers results and attributes of an operator whose operands are known. */
enum mg_code mg_graph_infer_op(struct mg_graph *g, mg_op op, struct mg_error *err);
/* A description whose arrays point into the graph (no cuts), allocated in `arena`. */
void mg_op_whole(const struct mg_graph *g, mg_op op, struct mg_arena *arena, struct mg_op_desc *out);
/* The same for a moment: in the caller's room; only where that is too small, in the arena. */
enum { MG_OP_ROOM = 16 };
struct mg_op_room {
    struct mg_shape *shape; /* of operands, then of results */
    enum mg_dtype *dtype;
    struct mg_shape own_shape[MG_OP_ROOM];
    enum mg_dtype own_dtype[MG_OP_ROOM];
};
void mg_op_whole_in(const struct mg_graph *g, mg_op op, struct mg_op_room *room, struct mg_arena *arena,
                    struct mg_op_desc *out);

#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, ...)                                         \
    mg_shape_rule mg_##shape;                                                                                          \
    mg_axes_rule mg_##axes;                                                                                            \
    mg_split_rule mg_##split;
#include "graph/ops.def"
#undef MG_OP

#endif
