/* ONNX models in.
 *
 * The file is read once, as it arrives; the data of initialisers is skipped unless it is small (the
 * arithmetic of shapes needs it) or `keep_data` asks for it. Opset 7 and later. Local functions and
 * branches whose condition is known are inlined, arithmetic on shapes is done at once, nodes that no
 * output needs are left out. Initialisers become weights (real numbers) or constants. External data
 * is never opened. */
#ifndef MG_FORMATS_ONNX_H
#define MG_FORMATS_ONNX_H

#include "graph/graph.h"

/* Bytes in chunks. `next` sets the following chunk, which stays valid until the call after, or size 0
 * at the end; false if the source failed. */
struct mg_bytes {
    bool (*next)(void *context, const uint8_t **data, size_t *size);
    void *context;
};
/* A source that is one block of memory. */
struct mg_bytes_block {
    const void *data;
    size_t size;
};
struct mg_bytes mg_bytes_from_block(struct mg_bytes_block *block);

/* A name (dim_param) or "INPUT.N", dimension N of that input, and its size. */
struct mg_onnx_symbol {
    const char *name;
    int64_t value;
};
/* A tensor's contents: exactly one of the arrays, row-major; `uniform`: its one element is repeated. */
struct mg_onnx_data {
    enum mg_dtype dtype;
    struct mg_shape shape;
    bool uniform;
    const double *real;   /* for real dtypes */
    const int64_t *whole; /* for integers and booleans */
};
/* Contents of an input that the caller knows: used where an operator needs numbers while it is read. */
struct mg_onnx_given {
    const char *name;
    const struct mg_onnx_data *data;
};
struct mg_onnx_options {
    const struct mg_onnx_symbol *symbols;
    uint32_t symbol_count;
    const struct mg_onnx_given *given;
    uint32_t given_count;
    bool keep_data;
};
struct mg_onnx_content {
    const char *value; /* name of a weight or constant of the graph */
    const struct mg_onnx_data *data;
};
struct mg_onnx_output {
    const char *name;  /* as the model calls it */
    const char *value; /* the graph's value */
};
struct mg_onnx_model {
    struct mg_graph *graph; /* built, not yet normalised */
    struct mg_onnx_content *contents;
    size_t content_count, content_capacity; /* of all weights and constants whose contents are known */
    uint64_t bytes_read;                    /* of the file, without what was skipped */
};

/* Fails with MG_ERR_SYNTAX (not the wire format), MG_ERR_INVALID, MG_ERR_LIMIT, or MG_ERR_UNSUPPORTED with a message
 * that lists every unsupported operator with its count. Pointers: /graph/node/N, or the name of what is to blame. */
enum mg_code mg_onnx_read(const struct mg_bytes *source, const struct mg_onnx_options *options, struct mg_arena *arena,
                          struct mg_onnx_model *out, struct mg_error *err) MG_WARN_UNUSED;
/* A serialised TensorProto (files of test data). */
enum mg_code mg_onnx_read_tensor(const struct mg_bytes *source, struct mg_arena *arena, const char **name,
                                 struct mg_onnx_data *out, struct mg_error *err) MG_WARN_UNUSED;
/* Element i as a number, whatever the dtype. */
double mg_onnx_data_at(const struct mg_onnx_data *data, int64_t i);
/* Does the operator table of this program know an operator of ONNX's default domain? */
bool mg_onnx_knows(const char *op_type);

#endif
