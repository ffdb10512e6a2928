/* Any bytes as a captured PyTorch step (magis-aten/1): refused with a reason, or translated; what normalises is sound
 * and survives writing and reading as a native graph. */
#include "tests/fuzz/fuzz.h"
#include "formats/aten_priv.h"

struct step {
    const char *text;
    size_t size;
    struct mg_arena *arena;
    struct mg_graph *normal;
};

static enum mg_code read_step(void *context, struct mg_error *err)
{
    struct step *s = context;
    struct mg_graph *built;
    enum mg_code code = mg_aten_read(s->text, s->size, s->arena, &built, err);
    return code == MG_OK ? mg_graph_normalise(built, s->arena, &s->normal, err) : code;
}

static void write_and_compare(const struct mg_graph *g, struct mg_arena *arena)
{
    struct mg_writer w;
    struct mg_error err = {0};
    struct mg_graph *built, *again;
    struct mg_training training;
    bool has_training;
    mg_writer_init(&w);
    mg_graph_write(&w, g);
    require(mg_writer_finish(&w), "a step that was read can be written", &err);
    enum mg_code code = mg_graph_read(w.data, w.size, arena, &built, &training, &has_training, &err);
    if (code == MG_OK)
        code = mg_graph_normalise(built, arena, &again, &err);
    require(code == MG_OK || code == MG_ERR_NOMEM, "what was written can be read", &err);
    if (code == MG_OK)
        require(strcmp(again->digest, g->digest) == 0 && strcmp(again->source, g->source) == 0, "the digests survive",
                &err);
    mg_writer_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    struct step step = {.text = (const char *)data, .size = size, .arena = &arena};
    mg_arena_init(&arena, (size_t)64 << 20);
    enum mg_code code = mg_arena_guard(&arena, read_step, &step, &err);
    if (code == MG_OK) {
        require(mg_graph_check(step.normal, &err) == MG_OK, "a normalised graph is sound", &err);
        write_and_compare(step.normal, &arena);
    } else {
        require(code != MG_ERR_INTERNAL && err.message[0], "a refusal has a reason", &err);
    }
    mg_arena_release(&arena);
    return 0;
}
