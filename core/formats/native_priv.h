/* A native document as it was read: names not yet resolved. Private to core/formats. */
#ifndef MG_FORMATS_NATIVE_PRIV_H
#define MG_FORMATS_NATIVE_PRIV_H

#include "formats/formats.h"

struct native_value {
    const char *name;
    struct mg_shape shape;
    enum mg_dtype dtype;
    enum mg_kind kind; /* COMPUTED: declares the result of an operator */
    enum mg_home home;
    bool has_shape, has_dtype;
};
struct native_names {
    const char **name;
    size_t count, capacity;
};
struct native_op {
    const char *name, *module, *gradient_of; /* NULL if not given */
    enum mg_op_type type;
    struct native_names inputs, outputs;
    struct mg_attr *attrs;
    size_t attr_count, attr_capacity;
    int32_t in_place; /* -1: not given */
    bool has_axes;    /* `axes` in its form for opaque operators, each listing so many operands and results: */
    size_t axis_in, axis_out;
};
struct native_update {
    const char *weight, *value;
};
struct native_label {
    const char *value, *label;
};
struct native_document {
    const char *name;
    const char *source; /* NULL if not given */
    enum mg_math math;
    struct native_value *values;
    size_t value_count, value_capacity;
    struct native_op *ops;
    size_t op_count, op_capacity;
    struct native_names outputs;
    struct native_update *updates;
    size_t update_count, update_capacity;
    struct native_label *labels;
    size_t label_count, label_capacity;
    int64_t forward_ops; /* -1: not given */
    bool has_training;
    struct mg_training training;
    struct native_names trainable;
};

/* Parses the whole document; on failure json->err holds the place. */
bool mg_native_parse(struct mg_json *json, struct native_document *out);
/* An attribute's value, of whatever type it has; lists and strings in the arena. */
bool mg_native_parse_attr(struct mg_json *json, enum mg_attr_key key, struct native_op *op, struct mg_attr *out);
/* Resolves names and builds the graph in `arena`. */
enum mg_code mg_native_build(const struct native_document *document, struct mg_arena *scratch, struct mg_arena *arena,
                             struct mg_graph **out, struct mg_error *err) MG_WARN_UNUSED;
/* An opaque operator's attributes that have a form of their own in JSON. */
void mg_native_write_axes(struct mg_writer *w, const struct mg_attr *axes, uint32_t in_count, uint32_t out_count);

#endif
