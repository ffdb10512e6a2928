/* An ONNX model under construction, and what operators are written with.
 *
 * Names are SSA: each is made by one node. Text between operators is the name of a tensor; NULL as a name asked for
 * stands for one that nobody reads. What ONNX cannot say is noted (mg_emit_refuse) and the writing goes on, so that the
 * answer lists all of it. */
#ifndef MG_EXPORT_ONNX_EMIT_H
#define MG_EXPORT_ONNX_EMIT_H

#include "base/names.h"
#include "export/export_priv.h"

enum { MG_ONNX_OPSET = 17, MG_ONNX_IR = 8 };

/* ---- the wire format of protocol buffers ---- */
void mg_wire_put_int(struct mg_writer *w, uint32_t field, int64_t value);
void mg_wire_put_float(struct mg_writer *w, uint32_t field, float value);
void mg_wire_put_bytes(struct mg_writer *w, uint32_t field, const void *data, size_t size);
void mg_wire_put_text(struct mg_writer *w, uint32_t field, const char *text);
/* Takes the contents of `inner` over as a message and empties it. */
void mg_wire_put_message(struct mg_writer *w, uint32_t field, struct mg_writer *inner);

/* ---- the model ---- */
struct mg_emit_reason {
    const char *text;
    uint32_t count;
};
struct mg_onnx_sink {
    struct mg_arena *arena;
    const struct mg_graph *g;             /* its names are not given to anything else */
    struct mg_writer nodes, initializers; /* fields of the GraphProto */
    struct mg_writer inner[3];            /* messages under construction: node or tensor, what is in it, ... */
    uint64_t node_count, fresh;
    struct mg_names constants; /* pointers to names */
    struct mg_emit_reason *reasons;
    size_t reason_count, reason_capacity;
    struct mg_names reason_index; /* numbers in `reasons`, counted from 1 */
};
void mg_sink_init(struct mg_onnx_sink *s, const struct mg_graph *g, struct mg_arena *arena);
void mg_sink_release(struct mg_onnx_sink *s);
/* ONNX's number of the dtype; 0: the declared opset has none. */
int64_t mg_onnx_elem_type(enum mg_dtype dtype);
/* A tensor's elements as the file has them. */
const void *mg_onnx_encode(enum mg_dtype dtype, const double *numbers, int64_t count, struct mg_arena *arena);
/* A name that begins with `base` and is nobody's. */
const char *mg_emit_fresh(struct mg_onnx_sink *s, const char *base);
/* The text is kept by the caller. */
void mg_emit_reason(struct mg_onnx_sink *s, const char *text);
void mg_emit_initializer(struct mg_onnx_sink *s, const char *name, enum mg_dtype dtype, const struct mg_shape *shape,
                         const void *raw);

/* ---- one node ---- */
struct mg_field { /* an attribute; a list of them ends with one that has no name */
    const char *name;
    enum { MG_FIELD_INT, MG_FIELD_REAL, MG_FIELD_TEXT, MG_FIELD_INTS, MG_FIELD_TENSOR, MG_FIELD_TEXTS } kind;
    int64_t i;
    double f;
    const char *text; /* TEXTS: the only one of the list */
    const int64_t *ints;
    uint32_t count;
    enum mg_dtype dtype; /* TENSOR: one element, `f` */
};
#define F_INT(name_, value)                                                                                            \
    {                                                                                                                  \
        .name = (name_), .kind = MG_FIELD_INT, .i = (value)                                                            \
    }
#define F_REAL(name_, value)                                                                                           \
    {                                                                                                                  \
        .name = (name_), .kind = MG_FIELD_REAL, .f = (value)                                                           \
    }
#define F_TEXT(name_, value)                                                                                           \
    {                                                                                                                  \
        .name = (name_), .kind = MG_FIELD_TEXT, .text = (value)                                                        \
    }
#define F_INTS(name_, list, n)                                                                                         \
    {                                                                                                                  \
        .name = (name_), .kind = MG_FIELD_INTS, .ints = (list), .count = (n)                                           \
    }
#define FIELDS(...)                                                                                                    \
    (const struct mg_field[])                                                                                          \
    {                                                                                                                  \
        __VA_ARGS__,                                                                                                   \
        {                                                                                                              \
            .name = NULL                                                                                               \
        }                                                                                                              \
    }
void mg_emit_node(struct mg_onnx_sink *s, const char *type, const char *const *in, uint32_t in_count,
                  const char *const *out, uint32_t out_count, const struct mg_field *fields);
/* One result: `out`, or where that is NULL a fresh name; returns it. */
const char *mg_emit_one(struct mg_onnx_sink *s, const char *out, const char *type, const char *const *in,
                        uint32_t in_count, const struct mg_field *fields);
#define IN(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)
/* Constants, each kept once: a list of i64, a scalar. */
const char *mg_emit_ints(struct mg_onnx_sink *s, const int64_t *list, uint32_t count);
const char *mg_emit_number(struct mg_onnx_sink *s, enum mg_dtype dtype, double value);

/* ---- one operator of ours (onnx_ops.def) ---- */
struct mg_emit {
    struct mg_onnx_sink *s;
    const struct mg_op_desc *d;
    const char *const *in;
    const char *const *out; /* the first is never NULL */
};
typedef void mg_emit_writer(const struct mg_emit *e, const char *name);
#define MG_ONNX_OUT(id, writer, dtypes) mg_emit_writer mg_emit_##writer;
#include "export/onnx_ops.def"
#undef MG_ONNX_OUT
bool mg_emit_knows(enum mg_op_type type); /* is there a writer? */
/* Writes it; notes why not where that cannot be. */
void mg_emit_op(const struct mg_emit *e);
void mg_emit_refuse(const struct mg_emit *e, const char *fmt, ...) MG_PRINTF(2, 3);

/* What writers share: attributes of the operator, and short forms of mg_emit_one. */
int64_t mg_emit_int(const struct mg_emit *e, enum mg_attr_key key);
double mg_emit_real(const struct mg_emit *e, enum mg_attr_key key);
const char *mg_emit_text(const struct mg_emit *e, enum mg_attr_key key);
const int64_t *mg_emit_list(const struct mg_emit *e, enum mg_attr_key key, uint32_t *count); /* NULL: none */
bool mg_emit_list_is(const struct mg_emit *e, enum mg_attr_key key, int64_t value);          /* all of them */
const char *const *mg_emit_all(const struct mg_emit *e); /* names of all results, also of those that nobody reads */
enum mg_dtype mg_emit_dtype(const struct mg_emit *e);    /* of operand 0, else of result 0 */
const char *mg_emit_unary(const struct mg_emit *e, const char *out, const char *type, const char *x);
const char *mg_emit_binary(const struct mg_emit *e, const char *out, const char *type, const char *x, const char *y);
/* With a number of dtype mg_emit_dtype. */
const char *mg_emit_by(const struct mg_emit *e, const char *out, const char *type, const char *x, double number);
const char *mg_emit_reshape(const struct mg_emit *e, const char *out, const char *x, const struct mg_shape *shape);
/* reduce_sum and the like with the axes where opset 17 has them. */
const char *mg_emit_reduce(const struct mg_emit *e, const char *out, const char *type, const char *x,
                           const int64_t *axes, uint32_t count, bool keep);
/* A tensor of that shape, all elements equal. */
const char *mg_emit_filled(const struct mg_emit *e, const char *out, const struct mg_shape *shape, enum mg_dtype dtype,
                           double value);

#endif
