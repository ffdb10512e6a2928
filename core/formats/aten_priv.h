/* A captured training step (magis-aten/1) as it was read, and the state of its translation. Private to core/formats.
 *
 * A node is a call as the capture saw it, with at most one tensor as its result; calls with several results hand them
 * out through `getitem` nodes. Every tensor names the storage that it lies in, so aliasing is known, not guessed. */
#ifndef MG_FORMATS_ATEN_PRIV_H
#define MG_FORMATS_ATEN_PRIV_H

#include "formats/formats.h"

enum aten_arg_kind {
    ATEN_NULL,
    ATEN_BOOL,
    ATEN_INT,
    ATEN_FLOAT,
    ATEN_TEXT, /* devices, layouts and whatever else has no meaning here */
    ATEN_DTYPE,
    ATEN_NODE,
    ATEN_LIST
};
struct aten_arg {
    enum aten_arg_kind kind;
    uint32_t node;
    uint32_t count; /* of the items of a list */
    enum mg_dtype dtype;
    const char *key; /* keyword arguments */
    int64_t i;       /* also booleans; 0 where it is no integer */
    int64_t large;   /* integers from 2^53 on, which are ATEN_FLOAT; else 0 */
    bool real;       /* a number with a point or an exponent, be it whole */
    union {
        double f; /* also of integers and booleans */
        const char *text;
        const struct aten_arg *item;
    };
};

enum aten_node_kind { ATEN_CALL, ATEN_GETITEM, ATEN_CONSTANT, ATEN_PLACEHOLDER };
struct aten_node {
    const char *name, *op, *module, *path;
    enum aten_node_kind kind;
    enum mg_kind value_kind; /* placeholders */
    bool backward;
    struct aten_arg args, kwargs; /* lists */
    const int64_t *writes;        /* positions of arguments that are written to */
    uint32_t write_count;
    bool has_out;
    struct mg_shape shape;
    struct mg_shape strides; /* elements; rank 0 where not listed */
    int64_t offset;          /* in its storage, elements */
    enum mg_dtype dtype;
    uint64_t storage;
    bool has_value; /* a constant's only element */
    double value;
};
struct aten_output {
    uint32_t node;
    const char *of; /* path of the parameter whose gradient it is, or NULL */
};
struct aten_document {
    const char *name, *digest;
    enum mg_math math;
    struct aten_node *nodes;
    size_t node_count, node_capacity;
    struct aten_output *outputs;
    size_t output_count, output_capacity;
};

/* Parses the whole document: every reference is to an earlier node; on failure json->err holds the place. */
bool mg_aten_parse(struct mg_json *json, struct aten_document *out);
/* The whole way; sets the graph's source. All but the graph is in `scratch`. Runs inside guards. */
enum mg_code mg_aten_read(const char *json, size_t size, struct mg_arena *scratch, struct mg_arena *arena,
                          struct mg_graph **out, struct mg_error *err) MG_WARN_UNUSED;
enum mg_code mg_aten_build(const struct aten_document *document, struct mg_arena *scratch, struct mg_arena *arena,
                           struct mg_graph **out, struct mg_error *err) MG_WARN_UNUSED;

/* ---- translation ---- */

/* The tensor of a node. A view lies in its parent's storage: it is derived again from the parent's value when that
 * storage has been written to since. */
struct aten_tensor {
    mg_value value; /* MG_NONE: contents undefined (empty), or a result that we do not have */
    uint32_t storage;
    uint32_t parent;  /* node, for views */
    uint32_t version; /* of the storage, when `value` was derived */
    int64_t piece;    /* views of a part of their parent along `axis`: where it starts */
    int32_t axis;
    mg_value *results; /* calls with several results */
    uint32_t result_count;
};
struct aten_storage {
    uint32_t version;
    uint32_t last_write; /* the last node that writes to it, or MG_NONE */
    uint32_t base;       /* the first node that lies in it */
    bool tangled;        /* an unknown call made a view of it */
    bool kept; /* a copy of its contents was left out (aten_rule_clone): they are still read when overwritten */
};
enum { ATEN_MAX_ATTRS = 8 };
struct aten_change {
    uint32_t node, version;
    mg_value value;
};
struct aten_mark {
    size_t ops, values;
};
struct aten_builder {
    const struct aten_document *document;
    struct mg_graph *g;
    struct mg_arena *arena;
    struct mg_error *err;
    struct aten_tensor *tensors; /* by node */
    struct aten_storage *storages;
    uint32_t *first_item, *next_item; /* `getitem` nodes of each node */
    bool *is_read;                    /* by node; the others are left out */
    uint32_t node;                    /* being translated */
    unsigned emitted;                 /* operators made for it */
    struct mg_attr attrs[ATEN_MAX_ATTRS];
    uint32_t attr_count;
    bool joined_norms;           /* some batch norm reads a concatenation */
    bool declined;               /* a rule does not know this form of the call: it becomes opaque */
    struct aten_change *changes; /* of tensors since a translation was begun that may be taken back */
    size_t change_count, change_capacity;
    bool *as_is;       /* calls that stay opaque: somebody reads a result that their rule does not give */
    bool again;        /* another call was found to be one */
    enum mg_code code; /* sticky, like a reader's */
    mg_op first_backward;
};

struct aten_rule_call {
    const struct aten_node *node;
    enum mg_op_type type; /* the table's column */
};
/* Returns the call's (first) result. Rules of calls with several results fill tensors[node].results. */
typedef mg_value aten_rule(struct aten_builder *b, const struct aten_rule_call *c);

/* Arguments by position or keyword; NULL or the default where not given. */
const struct aten_arg *aten_argument(const struct aten_node *node, size_t at, const char *key);
mg_value aten_in(struct aten_builder *b, const struct aten_node *node, size_t at, const char *key); /* MG_NONE: none */
int64_t aten_int(const struct aten_node *node, size_t at, const char *key, int64_t otherwise);
double aten_real(const struct aten_node *node, size_t at, const char *key, double otherwise);
/* Up to MG_MAX_RANK integers; a single one is repeated `repeat` times. */
uint32_t aten_ints(const struct aten_node *node, size_t at, const char *key, uint32_t repeat, int64_t out[MG_MAX_RANK]);
/* An axis that counts from the end where it is below 0. */
static inline int64_t aten_axis(int64_t axis, uint32_t rank)
{
    return axis < 0 ? axis + rank : axis;
}
static inline bool aten_is_tensor(const struct aten_arg *arg)
{
    return arg && arg->kind == ATEN_NODE;
}

/* Attributes of the next operator. */
void aten_set_int(struct aten_builder *b, enum mg_attr_key key, int64_t value);
void aten_set_real(struct aten_builder *b, enum mg_attr_key key, double value);
void aten_set_ints(struct aten_builder *b, enum mg_attr_key key, const int64_t *values, uint32_t count);
void aten_set_text(struct aten_builder *b, enum mg_attr_key key, const char *text);
/* An operator with the attributes set before; out (may be NULL) receives all results; returns the first. MG_NONE after
 * a failure, which is sticky. */
mg_value aten_emit(struct aten_builder *b, enum mg_op_type type, const mg_value *in, uint32_t in_count, mg_value *out,
                   uint32_t out_count);
mg_value aten_emit1(struct aten_builder *b, enum mg_op_type type, mg_value a);
mg_value aten_emit2(struct aten_builder *b, enum mg_op_type type, mg_value a, mg_value c);
/* An operator that we only know from outside, priced by its bytes. */
void aten_opaque(struct aten_builder *b, const char *target, const char *purity, const char *arguments,
                 const mg_value *in, uint32_t in_count, const struct mg_shape *shapes, const enum mg_dtype *dtypes,
                 mg_value *out, uint32_t out_count);
mg_value aten_decline(struct aten_builder *b);
/* What is emitted and derived from the mark on is taken back where a call is declined. */
struct aten_mark aten_try(struct aten_builder *b);
void aten_take_back(struct aten_builder *b, struct aten_mark mark);
void aten_note(struct aten_builder *b, uint32_t node); /* before the node's value changes */
/* The results of a call that has several, for its `getitem` nodes; MG_NONE: one that we do not have. */
void aten_give(struct aten_builder *b, const mg_value *results, uint32_t count);

const struct mg_shape *aten_shape(const struct aten_builder *b, mg_value v);
enum mg_dtype aten_dtype(const struct aten_builder *b, mg_value v);
/* The operator that makes `v` if it is of that type, else NULL. */
const struct mg_op_info *aten_made_by(const struct aten_builder *b, mg_value v, enum mg_op_type type);
mg_value aten_reshape(struct aten_builder *b, mg_value v, const struct mg_shape *shape);
mg_value aten_cast(struct aten_builder *b, mg_value v, enum mg_dtype dtype);
mg_value aten_affine(struct aten_builder *b, mg_value v, double alpha, double beta);
mg_value aten_expand(struct aten_builder *b, mg_value v, const struct mg_shape *shape);
mg_value aten_slice(struct aten_builder *b, mg_value v, int64_t axis, int64_t start, int64_t end, int64_t step);

/* `part` put at a slice of `whole`. */
mg_value aten_put(struct aten_builder *b, mg_value whole, mg_value part, int64_t axis, int64_t start, int64_t end,
                  int64_t step);
/* Is it a number of that type? Of the integers from 2^53 on, which doubles do not tell apart, none is. */
bool aten_holds(enum mg_dtype dtype, double value);
mg_value aten_fill(struct aten_builder *b, const struct mg_shape *shape, enum mg_dtype dtype, double value);

/* ---- storages (aten_storage.c) ---- */
mg_value aten_read(struct aten_builder *b, uint32_t node);
void aten_write(struct aten_builder *b, uint32_t node, mg_value contents);
/* The call's result is `target`, whose contents are now `value`. */
void aten_alias(struct aten_builder *b, uint32_t target, mg_value value);
bool aten_is_whole(const struct aten_builder *b, uint32_t node); /* all of its storage */
/* Is `node` a view of its first argument? Derives it then. */
bool aten_view(struct aten_builder *b, uint32_t node);
void aten_survey(struct aten_builder *b); /* storages, `getitem` lists, last writes, what is read */

/* ---- views by strides (aten_strided.c) ---- */

/* Does `view` lie in `whole`, which has neither gaps nor repeats? Nodes, of one storage. */
bool aten_is_strided(const struct aten_node *whole, const struct aten_node *view);
/* The view of those contents of the whole. */
mg_value aten_strided_part(struct aten_builder *b, uint32_t whole, uint32_t view, mg_value contents);
/* The contents of the whole with `part` in the view's place. */
mg_value aten_strided_put(struct aten_builder *b, uint32_t whole, uint32_t view, mg_value contents, mg_value part);

/* The call as an opaque operator. */
void aten_translate_opaque(struct aten_builder *b);

/* ---- the table ---- */
struct aten_entry {
    const char *name, *overloads; /* of the operator, without aten. */
    aten_rule *rule;
    enum mg_op_type type;
    const char *arguments;
};
const struct aten_entry *aten_find(const char *name, size_t size, const char *overload); /* NULL: unknown */
/* Is `name` one of the words, which spaces part? */
bool aten_lists(const char *words, const char *name, size_t size);
/* Has the call only arguments that the entry tells, with values that it allows? */
bool aten_takes(const struct aten_entry *entry, const struct aten_node *node);

#endif
