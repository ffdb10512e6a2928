/* The messages of an ONNX file as they were read. Private to core/formats. */
#ifndef MG_FORMATS_ONNX_PROTO_H
#define MG_FORMATS_ONNX_PROTO_H

#include "formats/onnx_wire.h"

struct onnx_list {
    void *items;
    uint32_t count, capacity;
};
struct onnx_number {
    int64_t value;
    bool given;
};
struct onnx_blob {
    const uint8_t *data; /* NULL if it was not kept */
    uint64_t size;
};
struct onnx_tensor {
    const char *name;
    struct onnx_list dims; /* int64_t */
    struct onnx_number data_type, location;
    struct onnx_blob raw;
    struct onnx_list floats, doubles, ints; /* float, double, int64_t: typed data */
    struct onnx_list strings;               /* as blobs, to count them */
    bool dropped;                           /* typed data was not kept */
    bool large;                             /* is only kept where all data is: says nothing about shapes */
};
struct onnx_graph;
struct onnx_attribute {
    const char *name, *reference; /* reference: the function's attribute that stands here */
    struct onnx_number type, i;
    struct onnx_list ints, floats, texts; /* int64_t, float, const char * */
    const char *text;
    const struct onnx_tensor *tensor;
    const struct onnx_graph *graph;
    float f;
};
struct onnx_node {
    const char *name, *op_type, *domain;
    struct onnx_list inputs, outputs, attributes; /* const char *, const char *, onnx_attribute */
};
struct onnx_dimension {
    struct onnx_number size;
    const char *symbol;
};
struct onnx_shape {
    struct onnx_list dims; /* onnx_dimension */
};
struct onnx_tensor_type {
    struct onnx_number elem_type;
    const struct onnx_shape *shape; /* NULL: unknown rank */
};
struct onnx_type {
    const struct onnx_tensor_type *tensor; /* NULL: no tensor, or nothing said */
    const struct onnx_type *other;         /* sequence, optional, map */
};
struct onnx_value_info {
    const char *name;
    const struct onnx_type *type;
};
struct onnx_graph {
    const char *name;
    struct onnx_list nodes, initializers, inputs, outputs, value_infos, sparse;
};
struct onnx_opset {
    const char *domain;
    struct onnx_number version;
};
struct onnx_function {
    const char *name, *domain;
    struct onnx_list inputs, outputs, attributes, nodes, opsets, defaults; /* attributes: names */
};
struct onnx_model {
    struct onnx_number ir_version;
    struct onnx_list opsets, functions;
    const struct onnx_graph *graph;
};

#define ONNX_AT(list, type, i) (&((type *)(list).items)[i])
#define ONNX_NAME(list, i) (*ONNX_AT(list, const char *, i))

struct onnx_parse {
    struct mg_arena *arena;
    struct mg_error *err;
    bool keep_data;
    uint64_t bytes_read;
};
/* Whole messages; all memory in the arena, texts never NULL. Refuses what needs much more memory than its size
 * allows. */
enum mg_code mg_onnx_parse_model(const struct mg_bytes *source, struct onnx_parse *how, struct onnx_model *out);
enum mg_code mg_onnx_parse_tensor(const struct mg_bytes *source, struct onnx_parse *how, struct onnx_tensor *out);

#endif
