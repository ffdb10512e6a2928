/* From the messages of an ONNX file to a graph: scopes of names, and what the rules of single operators are written
 * with. Private to core/formats.
 *
 * A rule sees one node (a *call*) whose operands' shapes are known and adds operators to the graph. Failures stick:
 * after the first one every helper does nothing and returns MG_NONE, NULL or 0, so rules need no checks of their own.
 */
#ifndef MG_FORMATS_ONNX_PRIV_H
#define MG_FORMATS_ONNX_PRIV_H

#include "base/names.h"
#include "formats/onnx_proto.h"

/* ---- names ---- */

/* `name`, or the first of name_2, name_3, ... that is not taken yet; taken from now on. For tables of nothing else. */
const char *mg_onnx_unique(struct mg_names *names, struct mg_arena *arena, const char *name);

/* ---- values ---- */

enum onnx_origin { ONNX_COMPUTED, ONNX_INPUT, ONNX_INITIALIZER, ONNX_FOLDED };
struct onnx_value {
    const char *name;
    enum mg_dtype dtype;
    struct mg_shape shape;
    enum onnx_origin origin;
    mg_value value;                  /* of the graph; MG_NONE while nothing reads it */
    const struct mg_onnx_data *data; /* contents, if known */
    const struct mg_onnx_data
        *stored;   /* contents that are kept but not looked at, so that the graph is always the same */
    bool constant; /* the same in every run */
    bool lost;     /* made by something unsupported */
};

/* ---- the whole ---- */

struct onnx_reason {
    const char *text;
    uint32_t count;
};
struct onnx_import {
    struct mg_arena *arena; /* of the file's messages and all that is known while it is read; the graph has another */
    struct mg_arena *graph_arena;
    struct mg_error *err;
    const struct mg_onnx_options *options;
    const struct onnx_model *model;
    struct mg_onnx_model *out;
    struct mg_graph *g;
    struct mg_names op_names, value_names, functions, symbols;
    struct onnx_reason *reasons; /* what is not supported */
    size_t reason_count, reason_capacity;
    uint64_t node_count, node_limit; /* counting those of functions at each call */
    uint64_t folded;                 /* elements of tensors that were computed */
};
struct onnx_scope {
    struct onnx_import *m;
    const struct onnx_scope *outer;
    struct mg_names values;          /* struct onnx_value */
    struct mg_names declared;        /* struct onnx_value_info */
    int64_t opset;                   /* of the default domain */
    const char *prefix;              /* of the names of operators and values made here */
    const struct onnx_scope *caller; /* of a function's body: where the call stands, */
    const struct onnx_node *call;    /* the call */
    const struct onnx_function *body;
    unsigned depth;
};
enum { MG_ONNX_FOLDED = 1 << 18 }; /* elements of computed constants; what would go beyond stays an operator */
enum { ONNX_MAX_NESTED = 32 };     /* graphs and functions inside one another */
/* Adds nodes in an order in which each finds its operands; only those that `wanted` (names) need. */
enum mg_code mg_onnx_add_nodes(struct onnx_scope *s, const struct onnx_list *nodes, const char *const *wanted,
                               uint32_t wanted_count);
/* Initialisers of a graph into the scope. */
enum mg_code mg_onnx_add_initializers(struct onnx_scope *s, const struct onnx_graph *graph);
struct onnx_value *mg_onnx_lookup(const struct onnx_scope *s, const char *name);
void mg_onnx_define(struct onnx_scope *s, const char *name, struct onnx_value *value);
void mg_onnx_add_reason(struct onnx_import *m, const char *text);
bool mg_onnx_dtype(int64_t elem_type, enum mg_dtype *out);
const char *mg_onnx_dtype_text(int64_t elem_type);

/* ---- the parts of the import ---- */
/* onnx_order.c: names that a node's subgraphs read from outside count as its operands, after its own. */
struct onnx_free_names {
    const char **name;
    size_t count, capacity;
};
void mg_onnx_collect_free(struct mg_arena *arena, const struct onnx_graph *graph, struct onnx_free_names *out,
                          unsigned depth);
/* onnx_node.c */
enum mg_code mg_onnx_add_node(struct onnx_scope *s, const struct onnx_node *node, uint32_t index);
int64_t mg_onnx_opset_of(const struct onnx_list *opsets, int64_t otherwise);
/* onnx_declared.c: what the file states of shapes, symbols bound */
void mg_onnx_index_declared(struct onnx_scope *s, const struct onnx_list *infos);
/* Refuses sizes given for what the model does not leave open. */
enum mg_code mg_onnx_check_symbols(struct onnx_import *m, const struct onnx_graph *graph);
enum mg_code mg_onnx_add_inputs(struct onnx_scope *s, const struct onnx_graph *graph);
enum mg_code mg_onnx_add_outputs(struct onnx_scope *s, const struct onnx_graph *graph, const char *const *names);
/* Contents of a tensor message; *out stays NULL where they are not in the file or were not kept. */
enum mg_code mg_onnx_decode(const struct onnx_tensor *tensor, struct mg_arena *arena, const char *place,
                            struct mg_onnx_data *shape, const struct mg_onnx_data **out, struct mg_error *err);
/* A graph value for one that is only known so far; `kind` is what it becomes. */
mg_value mg_onnx_materialise(struct onnx_import *m, struct onnx_value *value, enum mg_kind kind);

/* ---- one node ---- */

struct onnx_call {
    struct onnx_import *m;
    struct onnx_scope *s;
    const struct onnx_node *node;
    int64_t opset;
    uint32_t in_count, out_count;
    struct onnx_value **in;  /* NULL: left out */
    struct onnx_value **out; /* set by the rule */
    const char *name, *module;
    bool last; /* the next operator makes the node's results */
    uint32_t made;
    enum mg_code code;
};
/* Result shapes that the file declares, bound; false if one is missing. */
bool mg_onnx_declared_results(struct onnx_call *c, struct mg_onnx_data *shapes);
typedef void mg_onnx_rule(struct onnx_call *c, int which);
enum { MG_ONNX_FOLDS = 1 };

struct onnx_rule {
    const char *op_type;
    uint32_t min_in, max_in;
    mg_onnx_rule *rule;
    int which;
    bool (*fold)(struct onnx_call *c, int which); /* all operands are constant; false: not this time */
    int fold_which;
};
const struct onnx_rule *mg_onnx_rule_of(const char *domain, const char *op_type);

void mg_onnx_unsupported(struct onnx_call *c, const char *fmt, ...) MG_PRINTF(2, 3);
void mg_onnx_invalid(struct onnx_call *c, const char *fmt, ...) MG_PRINTF(2, 3);

/* Attributes; a reference inside a function is resolved to the call's. */
const struct onnx_attribute *mg_onnx_attr(const struct onnx_call *c, const char *name);
int64_t mg_onnx_int(const struct onnx_call *c, const char *name, int64_t otherwise);
double mg_onnx_real(const struct onnx_call *c, const char *name, double otherwise);
const char *mg_onnx_text(const struct onnx_call *c, const char *name, const char *otherwise);
const int64_t *mg_onnx_ints(const struct onnx_call *c, const char *name, uint32_t *count); /* NULL if absent */

/* Operands. */
bool mg_onnx_has(const struct onnx_call *c, uint32_t i);
mg_value mg_onnx_in(struct onnx_call *c, uint32_t i);
mg_value mg_onnx_weight(struct onnx_call *c, uint32_t i);   /* a parameter that training changes */
mg_value mg_onnx_constant(struct onnx_call *c, uint32_t i); /* one that it does not */
const struct mg_shape *mg_onnx_shape(struct onnx_call *c, uint32_t i);
enum mg_dtype mg_onnx_dtype_of(struct onnx_call *c, uint32_t i);
/* Contents that must be known while the file is read. */
const struct mg_onnx_data *mg_onnx_known(struct onnx_call *c, uint32_t i);
const int64_t *mg_onnx_known_ints(struct onnx_call *c, uint32_t i, uint32_t *count);
double mg_onnx_known_scalar(struct onnx_call *c, uint32_t i, double otherwise);
#define ONNX_EXACT 0x1p53 /* integers up to here are doubles too */
int64_t mg_onnx_known_integer(struct onnx_call *c, uint32_t i, int64_t otherwise);
/* The integers of operand i (newer opsets) or of an attribute (older ones); NULL if neither is given. */
const int64_t *mg_onnx_list(struct onnx_call *c, uint32_t i, const char *attr, uint32_t *count);
/* Non-negative axis of rank `rank`. */
uint32_t mg_onnx_axis(struct onnx_call *c, int64_t axis, uint32_t rank);

/* Adding operators. `results` (may be NULL) receives out_count values; returns the first. */
mg_value mg_onnx_add(struct onnx_call *c, enum mg_op_type type, const mg_value *in, uint32_t in_count,
                     const struct mg_attr *attrs, uint32_t attr_count, uint32_t out_count, mg_value *results);
/* Announces that the next operator's results are the node's. */
void mg_onnx_last(struct onnx_call *c);
/* Result `slot` of the node is an operand, contents, or a value that was added before. */
void mg_onnx_alias(struct onnx_call *c, uint32_t slot, struct onnx_value *value);
void mg_onnx_fold(struct onnx_call *c, uint32_t slot, const struct mg_onnx_data *data);
void mg_onnx_result(struct onnx_call *c, uint32_t slot, mg_value value);

#define OPERANDS(...) (const mg_value[]){__VA_ARGS__}, sizeof((mg_value[]){__VA_ARGS__}) / sizeof(mg_value)
#define NO_ATTRS NULL, 0
#define ATTRS(...)                                                                                                     \
    (const struct mg_attr[]){__VA_ARGS__}, sizeof((struct mg_attr[]){__VA_ARGS__}) / sizeof(struct mg_attr)
#define A_INT(id, value)                                                                                               \
    {                                                                                                                  \
        .key = MG_ATTR_##id, .type = MG_ATTR_TYPE_INT, .i = (value)                                                    \
    }
#define A_REAL(id, value)                                                                                              \
    {                                                                                                                  \
        .key = MG_ATTR_##id, .type = MG_ATTR_TYPE_FLOAT, .f = (value)                                                  \
    }
#define A_TEXT(id, value)                                                                                              \
    {                                                                                                                  \
        .key = MG_ATTR_##id, .type = MG_ATTR_TYPE_STRING, .string = (value)                                            \
    }
#define A_INTS(id, list, n)                                                                                            \
    {                                                                                                                  \
        .key = MG_ATTR_##id, .type = MG_ATTR_TYPE_INTS, .count = (n), .ints = (list)                                   \
    }

mg_value mg_onnx_unary(struct onnx_call *c, enum mg_op_type type, mg_value x);
mg_value mg_onnx_binary(struct onnx_call *c, enum mg_op_type type, mg_value x, mg_value y);
mg_value mg_onnx_affine(struct onnx_call *c, mg_value x, double alpha, double beta);
mg_value mg_onnx_reshape(struct onnx_call *c, mg_value x, const struct mg_shape *shape);
mg_value mg_onnx_permute(struct onnx_call *c, mg_value x, const int64_t *perm);
mg_value mg_onnx_cast(struct onnx_call *c, mg_value x, enum mg_dtype dtype); /* x itself where nothing changes */
mg_value mg_onnx_scalar(struct onnx_call *c, double value, enum mg_dtype dtype);
const struct mg_value_info *mg_onnx_info(const struct onnx_call *c, mg_value value);

#endif
