/* Any bytes as a native graph: refused with a reason, or built; what normalises is sound and survives
 * writing and reading with the same digest. */
#include "tests/fuzz/fuzz.h"
#include "formats/formats.h"

static struct mg_graph *read_graph(const char *text, size_t size, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_graph *g, *normal;
    struct mg_training training;
    bool has_training;
    if (mg_graph_read(text, size, arena, &g, &training, &has_training, err) != MG_OK)
        return NULL;
    return mg_graph_normalise(g, arena, &normal, err) == MG_OK ? normal : NULL;
}

static void draw(const struct mg_graph *g)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_graph_write_dot(&w, g);
    (void)!mg_writer_finish(&w);
    mg_writer_release(&w);
}

static void write_and_compare(const struct mg_graph *g, struct mg_arena *arena)
{
    struct mg_writer w;
    struct mg_error err = {0};
    mg_writer_init(&w);
    mg_graph_write(&w, g);
    require(mg_writer_finish(&w), "a graph that was read can be written", &err);
    const struct mg_graph *again = read_graph(w.data, w.size, arena, &err);
    require(again != NULL || err.code == MG_ERR_NOMEM, "what was written can be read", &err);
    require(again == NULL || strcmp(again->digest, g->digest) == 0, "the digest survives", &err);
    mg_writer_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, (size_t)64 << 20);
    const struct mg_graph *g = read_graph((const char *)data, size, &arena, &err);
    require(arena.peak <= frugal(size), "reading takes little memory", &err);
    if (g) {
        require(mg_graph_check(g, &err) == MG_OK, "a normalised graph is sound", &err);
        draw(g);
        write_and_compare(g, &arena);
    } else {
        require(err.code != MG_OK && err.code != MG_ERR_INTERNAL && err.message[0], "a refusal has a reason", &err);
    }
    mg_arena_release(&arena);
    return 0;
}
