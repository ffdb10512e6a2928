/* Any bytes as a captured PyTorch step (magis-aten/1): refused with a reason, or translated; what normalises is sound
 * and survives writing and reading as a native graph. */
#include "tests/fuzz/fuzz.h"
#include "formats/formats.h"

static enum mg_code read_step(const char *text, size_t size, struct mg_arena *arena, struct mg_graph **normal,
                              struct mg_error *err)
{
    struct mg_graph *built;
    struct mg_training training;
    bool has_training;
    enum mg_code code = mg_graph_read(text, size, arena, &built, &training, &has_training, err);
    return code == MG_OK ? mg_graph_normalise(built, arena, normal, err) : code;
}

static void write_and_compare(const struct mg_graph *g, struct mg_arena *arena)
{
    struct mg_writer w;
    struct mg_error err = {0};
    struct mg_graph *again;
    mg_writer_init(&w);
    mg_graph_write(&w, g);
    require(mg_writer_finish(&w), "a step that was read can be written", &err);
    enum mg_code code = read_step(w.data, w.size, arena, &again, &err);
    require(code == MG_OK || code == MG_ERR_NOMEM, "what was written can be read", &err);
    if (code == MG_OK)
        require(strcmp(again->digest, g->digest) == 0 &&
                    (g->source ? again->source && strcmp(again->source, g->source) == 0 : !again->source),
                "the digests survive", &err);
    mg_writer_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    struct mg_graph *normal;
    mg_arena_init(&arena, (size_t)64 << 20);
    enum mg_code code = read_step((const char *)data, size, &arena, &normal, &err);
    require(arena.peak <= frugal(size), "reading takes little memory", &err);
    if (code == MG_OK) {
        require(mg_graph_check(normal, &err) == MG_OK, "a normalised graph is sound", &err);
        write_and_compare(normal, &arena);
    } else {
        require(code != MG_ERR_INTERNAL && err.message[0], "a refusal has a reason", &err);
    }
    mg_arena_release(&arena);
    return 0;
}
