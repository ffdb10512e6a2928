/* Any bytes as an ONNX model: refused with a reason, having taken little memory for what was read, or built; what
 * normalises is sound. The bytes arrive in chunks of different sizes, which must not matter. */
#include "tests/fuzz/fuzz.h"
#include "formats/onnx.h"

struct chunks {
    const uint8_t *data;
    size_t size, at, step;
};

static bool next(void *context, const uint8_t **data, size_t *size)
{
    struct chunks *c = context;
    size_t left = c->size - c->at;
    *data = c->data + c->at;
    *size = left < c->step ? left : c->step;
    c->at += *size;
    return true;
}

struct outcome {
    enum mg_code code;
    struct mg_error err;
    char digest[65];
    size_t operators;
};

static struct outcome read_model(const uint8_t *data, size_t size, size_t step)
{
    static const struct mg_onnx_symbol symbols[] = {{"batch", 2}, {"N", 3}, {"x.0", 2}};
    const struct mg_onnx_options options = {.symbols = symbols, .symbol_count = 3};
    struct chunks chunks = {data, size, 0, step};
    const struct mg_bytes source = {next, &chunks};
    struct outcome out = {.code = MG_OK};
    struct mg_onnx_model model;
    struct mg_graph *normal;
    struct mg_arena arena;
    mg_arena_init(&arena, (size_t)256 << 20);
    out.code = mg_onnx_read(&source, &options, &arena, &model, &out.err);
    require(out.code == MG_OK || arena.peak <= frugal(size), "a refusal takes little memory", &out.err);
    if (out.code == MG_OK) {
        out.operators = model.graph->op_count;
        out.code = mg_graph_normalise(model.graph, &arena, &normal, &out.err);
        if (out.code == MG_OK) {
            memcpy(out.digest, normal->digest, sizeof out.digest);
            require(mg_graph_check(normal, &out.err) == MG_OK, "a normalised graph is sound", &out.err);
        }
    }
    mg_arena_release(&arena);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = read_model(data, size, size ? size : 1), parts = read_model(data, size, 7);
    if (whole.code != MG_OK)
        require(whole.code != MG_ERR_INTERNAL && whole.err.message[0], "a refusal has a reason", &whole.err);
    require(whole.code == parts.code && strcmp(whole.digest, parts.digest) == 0, "chunks do not matter", &parts.err);
    return 0;
}
