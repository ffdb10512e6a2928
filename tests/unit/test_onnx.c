/* The reader of ONNX models against hostile files: refused early and cheaply. And what it keeps. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/onnx.h"

enum { MIB = 1 << 20 };

/* ---- writing the wire format ---- */

struct bytes {
    char *data;
    size_t size, capacity;
};

static void put(struct bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size) + 64;
        b->data = realloc(b->data, b->capacity);
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void varint(struct bytes *b, uint64_t n)
{
    for (; n > 127; n >>= 7)
        put(b, &(char){(char)((n & 127) | 128)}, 1);
    put(b, &(char){(char)n}, 1);
}

static void number(struct bytes *b, unsigned field, uint64_t n)
{
    varint(b, field << 3);
    varint(b, n);
}

static void block(struct bytes *b, unsigned field, const void *data, size_t size)
{
    varint(b, field << 3 | 2);
    varint(b, size);
    put(b, data, size);
}

static void text(struct bytes *b, unsigned field, const char *value)
{
    block(b, field, value, strlen(value));
}

/* Takes over and frees `inner`. */
static void message(struct bytes *b, unsigned field, struct bytes inner)
{
    block(b, field, inner.data, inner.size);
    free(inner.data);
}

static struct bytes node(const char *op, const char *in, const char *out, const char *domain)
{
    struct bytes b = {NULL, 0, 0};
    if (in)
        text(&b, 1, in);
    text(&b, 2, out);
    text(&b, 4, op);
    text(&b, 7, domain);
    return b;
}

static struct bytes value(const char *name, uint64_t size)
{
    struct bytes dim = {NULL, 0, 0}, shape = dim, tensor = dim, type = dim, b = dim;
    number(&dim, 1, size);
    message(&shape, 1, dim);
    number(&tensor, 1, 1);
    message(&tensor, 2, shape);
    message(&type, 1, tensor);
    text(&b, 1, name);
    message(&b, 2, type);
    return b;
}

static struct bytes tensor(const char *name, const int64_t *dims, unsigned rank, unsigned dtype, const void *raw,
                           size_t size)
{
    struct bytes b = {NULL, 0, 0};
    for (unsigned d = 0; d < rank; d++)
        number(&b, 1, (uint64_t)dims[d]);
    number(&b, 2, dtype);
    text(&b, 8, name);
    block(&b, 9, raw, size);
    return b;
}

/* A model around a graph, which it frees. */
static struct bytes model_of(struct bytes graph, uint64_t version)
{
    struct bytes opset = {NULL, 0, 0}, b = opset;
    number(&opset, 2, version);
    number(&b, 1, 8);
    message(&b, 8, opset);
    message(&b, 7, graph);
    return b;
}

static struct bytes model(struct bytes graph)
{
    return model_of(graph, 17);
}

/* ---- reading ---- */

struct outcome {
    enum mg_code code;
    struct mg_error err;
    size_t peak;
    uint64_t read;
    size_t operators, contents;
};

static struct outcome read_bytes(struct bytes b, bool keep)
{
    struct outcome out = {.code = MG_OK};
    struct mg_bytes_block memory = {b.data, b.size};
    const struct mg_bytes source = mg_bytes_from_block(&memory);
    const struct mg_onnx_options options = {.keep_data = keep};
    struct mg_onnx_model result;
    struct mg_arena arena;
    mg_arena_init(&arena, (size_t)1 << 32);
    out.code = mg_onnx_read(&source, &options, &arena, &result, &out.err);
    out.peak = arena.peak;
    out.read = result.bytes_read;
    out.operators = out.code == MG_OK ? result.graph->op_count : 0;
    for (size_t i = 0; i < result.content_count; i++)
        out.contents += result.contents[i].data != NULL;
    mg_arena_release(&arena);
    free(b.data);
    return out;
}

static void refused(struct bytes b, enum mg_code code, const char *words)
{
    struct outcome out = read_bytes(b, false);
    cr_expect_eq(out.code, code, "%s: %s", words, out.err.message);
    cr_expect(strstr(out.err.message, words), "%s, wanted: %s", out.err.message, words);
    cr_expect_leq(out.read, MIB, "%s: %llu bytes read", words, (unsigned long long)out.read);
    cr_expect_leq(out.peak, 16 * MIB, "%s: %zu bytes allocated", words, out.peak);
}

/* ---- hostile files ---- */

Test(onnx, announced_sizes)
{
    struct bytes b = {NULL, 0, 0};
    varint(&b, 7 << 3 | 2);
    varint(&b, 1000000000);
    refused(b, MG_ERR_SYNTAX, "cut off");
    b = (struct bytes){NULL, 0, 0};
    struct bytes graph = b;
    varint(&graph, 1 << 3 | 2);
    varint(&graph, UINT64_MAX);
    refused(model(graph), MG_ERR_SYNTAX, "longer than what holds it");
    put(&b, "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
    refused(b, MG_ERR_SYNTAX, "cut off");
}

Test(onnx, opsets_that_are_not_known)
{
    struct bytes nothing = {NULL, 0, 0};
    text(&nothing, 2, "graph");
    struct bytes again = {NULL, 0, 0};
    text(&again, 2, "graph");
    refused(model_of(nothing, 6), MG_ERR_UNSUPPORTED, "opset 6 is older than 7");
    refused(model_of(again, 99), MG_ERR_UNSUPPORTED, "opset 99 is newer than");
}

Test(onnx, many_small_parts)
{
    struct bytes graph = {NULL, 0, 0};
    for (unsigned i = 0; i < 1000000; i++)
        put(&graph, "\x0a\x03\x22\x01\x41", 5); /* nodes with nothing but an op_type */
    refused(model(graph), MG_ERR_LIMIT, "too much memory");
    graph = (struct bytes){NULL, 0, 0};
    for (unsigned i = 0; i < 1000000; i++)
        put(&graph, "\x6a\x00", 2); /* value infos without anything */
    refused(model(graph), MG_ERR_LIMIT, "too much memory");
    struct bytes inner = {NULL, 0, 0};
    for (unsigned i = 0; i < 4000000; i++)
        put(&inner, "\x0a\x00", 2); /* operands without a name */
    text(&inner, 4, "Sum");
    graph = (struct bytes){NULL, 0, 0};
    message(&graph, 1, inner);
    refused(model(graph), MG_ERR_LIMIT, "65535");
    char *ones = malloc(4000000);
    memset(ones, 1, 4000000);
    for (unsigned field = 7; field <= 8; field++) { /* floats, integers */
        struct bytes attribute = {NULL, 0, 0}, around = node("Sum", "x", "y", "");
        block(&attribute, field, ones, 4000000);
        message(&around, 5, attribute);
        graph = (struct bytes){NULL, 0, 0};
        message(&graph, 1, around);
        refused(model(graph), MG_ERR_LIMIT, "65535");
    }
    free(ones);
}

Test(onnx, nested_graphs)
{
    struct bytes inner = {NULL, 0, 0};
    for (unsigned i = 0; i < 500; i++) {
        struct bytes attribute = {NULL, 0, 0}, outer = attribute, around = node("If", "c", "y", "");
        text(&attribute, 1, "then_branch");
        message(&attribute, 6, inner);
        message(&around, 5, attribute);
        message(&outer, 1, around);
        inner = outer;
    }
    refused(model(inner), MG_ERR_LIMIT, "64 deep");
}

Test(onnx, functions_that_double)
{
    struct bytes graph = {NULL, 0, 0}, b;
    message(&graph, 1, node("f0", "x", "y", "bomb"));
    message(&graph, 11, value("x", 4));
    message(&graph, 12, value("y", 4));
    b = model(graph);
    for (unsigned i = 0; i < 30; i++) {
        char name[8], next[8];
        struct bytes f = {NULL, 0, 0};
        snprintf(name, sizeof name, "f%u", i);
        snprintf(next, sizeof next, "f%u", i + 1);
        text(&f, 1, name);
        text(&f, 4, "a");
        text(&f, 5, "c");
        message(&f, 7, node(i < 29 ? next : "Relu", "a", "b", i < 29 ? "bomb" : ""));
        message(&f, 7, node(i < 29 ? next : "Relu", "b", "c", i < 29 ? "bomb" : ""));
        text(&f, 10, "bomb");
        message(&b, 25, f);
    }
    refused(b, MG_ERR_LIMIT, "nodes");
}

Test(onnx, functions_that_call_themselves)
{
    struct bytes graph = {NULL, 0, 0}, f = graph, b;
    message(&graph, 1, node("f", "x", "y", "loop"));
    message(&graph, 11, value("x", 4));
    message(&graph, 12, value("y", 4));
    b = model(graph);
    text(&f, 1, "f");
    text(&f, 4, "a");
    text(&f, 5, "b");
    message(&f, 7, node("f", "a", "b", "loop"));
    text(&f, 10, "loop");
    message(&b, 25, f);
    refused(b, MG_ERR_LIMIT, "deep");
}

Test(onnx, cycles_and_names)
{
    struct bytes graph = {NULL, 0, 0};
    message(&graph, 1, node("Relu", "b", "a", ""));
    message(&graph, 1, node("Relu", "a", "b", ""));
    message(&graph, 12, value("b", 4));
    refused(model(graph), MG_ERR_INVALID, "cycle");
    graph = (struct bytes){NULL, 0, 0};
    message(&graph, 1, node("Relu", "x", "y", ""));
    message(&graph, 12, value("y", 4));
    refused(model(graph), MG_ERR_INVALID, "which nothing makes");
    graph = (struct bytes){NULL, 0, 0};
    message(&graph, 1, node("Relu", "x", "y", ""));
    message(&graph, 1, node("Neg", "x", "y", ""));
    message(&graph, 11, value("x", 4));
    message(&graph, 12, value("y", 4));
    refused(model(graph), MG_ERR_INVALID, "two nodes make");
    char *name = calloc(1, 900001);
    memset(name, 'n', 900000);
    graph = (struct bytes){NULL, 0, 0};
    message(&graph, 1, node("Relu", "x", name, ""));
    refused(model(graph), MG_ERR_LIMIT, "4096 bytes");
    free(name);
    graph = (struct bytes){NULL, 0, 0};
    message(&graph, 1, node("Relu", "x", "\xff\xfe", ""));
    refused(model(graph), MG_ERR_INVALID, "UTF-8");
}

Test(onnx, impossible_tensors)
{
    const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40}, two[] = {2};
    struct bytes graph = {NULL, 0, 0};
    message(&graph, 5, tensor("w", huge, 2, 1, "", 0));
    refused(model(graph), MG_ERR_INVALID, "too large");
    graph = (struct bytes){NULL, 0, 0};
    message(&graph, 5, tensor("w", two, 1, 1, "123456", 6));
    refused(model(graph), MG_ERR_INVALID, "data for 1 elements");
    graph = (struct bytes){NULL, 0, 0};
    message(&graph, 11, value("x", (uint64_t)1 << 60));
    refused(model(graph), MG_ERR_LIMIT, "too large");
}

/* Each node makes 64 Ki elements of a constant: computed ones are counted, and stop in time. */
Test(onnx, constants_that_grow)
{
    const int64_t big[] = {65536}, one[] = {1};
    struct bytes graph = {NULL, 0, 0};
    message(&graph, 5, tensor("s", one, 1, 7, big, sizeof big));
    message(&graph, 5, tensor("c", one, 1, 7, one, sizeof one));
    for (unsigned i = 0; i < 1500; i++) {
        char name[16];
        struct bytes expand = {NULL, 0, 0};
        snprintf(name, sizeof name, "e%u", i);
        text(&expand, 1, "c");
        text(&expand, 1, "s");
        text(&expand, 2, name);
        text(&expand, 4, "Expand");
        message(&graph, 1, expand);
        message(&graph, 12, value(name, 65536));
    }
    struct outcome out = read_bytes(model(graph), false);
    cr_expect_eq(out.code, MG_OK, "%s", out.err.message);
    cr_expect_leq(out.peak, 16 * MIB, "%zu bytes allocated", out.peak);
    cr_expect_gt(out.operators, 1000, "what is not folded is an operator");
}

/* ---- what is kept ---- */

Test(onnx, weights_are_skipped)
{
    const int64_t dims[] = {4096, 1024};
    float *data = calloc(4096 * 1024, sizeof *data);
    for (int keep = 0; keep < 2; keep++) {
        struct bytes graph = {NULL, 0, 0}, gemm = {NULL, 0, 0};
        message(&graph, 5, tensor("w", dims, 2, 1, data, (size_t)4096 * 1024 * sizeof *data));
        text(&gemm, 1, "w");
        text(&gemm, 2, "y");
        text(&gemm, 4, "Relu");
        message(&graph, 1, gemm);
        message(&graph, 12, value("y", 1));
        struct outcome out = read_bytes(model(graph), keep);
        cr_expect_eq(out.code, MG_OK, "%s", out.err.message);
        cr_expect_eq(out.contents, keep);
        if (!keep) {
            cr_expect_leq(out.read, 1000, "%llu bytes of 16 MiB were read", (unsigned long long)out.read);
            cr_expect_leq(out.peak, MIB);
        }
    }
    free(data);
}

/* Node i of 100,000 reads node i - 1; written last first, so that the order must be found. */
Test(onnx, a_hundred_thousand_nodes)
{
    enum { NODES = 100000 };
    struct bytes graph = {NULL, 0, 0};
    char in[32], out_name[32];
    for (unsigned i = NODES; i > 0; i--) {
        snprintf(in, sizeof in, "block.%u.output", i - 1);
        snprintf(out_name, sizeof out_name, "block.%u.output", i);
        message(&graph, 1, node("Relu", in, out_name, ""));
    }
    message(&graph, 11, value("block.0.output", 4));
    message(&graph, 12, value("block.100000.output", 4));
    struct outcome out = read_bytes(model(graph), false);
    cr_expect_eq(out.code, MG_OK, "%s", out.err.message);
    cr_expect_eq(out.operators, NODES);
#ifndef __SANITIZE_ADDRESS__ /* whose arenas hold red zones */
    cr_expect_leq(out.peak / NODES, 2800, "%zu bytes for each node", out.peak / NODES);
#endif
}

Test(onnx, knows_the_default_domain)
{
    static const char *const some[] = {"Conv", "Gemm", "LSTM", "Einsum", "QLinearConv", "If", "Resize", "Split"};
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++)
        cr_expect(mg_onnx_knows(some[i]), "%s", some[i]);
    cr_expect_not(mg_onnx_knows("NoSuchOperator"));
}
