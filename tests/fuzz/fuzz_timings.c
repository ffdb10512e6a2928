/* Any bytes as posted timings, as one document and as lines: refused with a reason, or read; what was read is written
 * as lines that say the same. */
#include "tests/fuzz/fuzz.h"
#include "server/timing_parse.h"

struct posted {
    const char *text;
    size_t size;
    bool lines;
    struct mg_arena arena;
    struct mg_timing_batch *batches;
    size_t count;
};

static enum mg_code read_guarded(void *context, struct mg_error *err)
{
    struct posted *p = context;
    return mg_timing_read(p->text, p->size, p->lines, NULL, &p->arena, &p->batches, &p->count, err);
}

static enum mg_code read_posted(struct posted *p, const char *text, size_t size, bool lines, struct mg_error *err)
{
    *p = (struct posted){.text = text, .size = size, .lines = lines};
    mg_arena_init(&p->arena, (size_t)64 << 20);
    return mg_arena_guard(&p->arena, read_guarded, p, err);
}

static bool same_row(const struct mg_timing_row *a, const struct mg_timing_row *b)
{
    bool same = a->row == b->row && a->key.lo == b->key.lo && a->key.hi == b->key.hi && a->status == b->status &&
                strcmp(a->op, b->op) == 0 && strcmp(a->signature, b->signature) == 0;
    return same && (a->status != MG_TIMING_OK ||
                    (a->n == b->n && a->median_s == b->median_s && a->mad_s == b->mad_s && a->min_s == b->min_s &&
                     a->workspace == b->workspace && a->throttled == b->throttled && a->clock_mhz == b->clock_mhz));
}

static bool same_batch(const struct mg_timing_batch *a, const struct mg_timing_batch *b)
{
    bool same = strcmp(a->agent, b->agent) == 0 && strcmp(a->batch, b->batch) == 0 && strcmp(a->host, b->host) == 0 &&
                strcmp(a->version, b->version) == 0 && strcmp(a->class.key, b->class.key) == 0 &&
                strcmp(a->class.id, b->class.id) == 0 && a->at == b->at && a->busy == b->busy &&
                a->canary_before_s == b->canary_before_s && a->canary_after_s == b->canary_after_s &&
                a->canary_best_s == b->canary_best_s && a->n_rows == b->n_rows;
    for (size_t i = 0; same && i < a->n_rows; i++)
        same = same_row(&a->rows[i], &b->rows[i]);
    return same;
}

static void write_and_compare(const struct posted *p)
{
    struct mg_writer w;
    struct mg_error err = {0};
    struct posted again;
    mg_writer_init(&w);
    for (size_t i = 0; i < p->count; i++) {
        mg_timing_write_batch(&w, &p->batches[i]);
        for (size_t k = 0; k < p->batches[i].n_rows; k++)
            mg_timing_write_row(&w, &p->batches[i].rows[k]);
    }
    require(mg_writer_finish(&w), "what was read can be written", &err);
    enum mg_code code = read_posted(&again, w.data, w.size, true, &err);
    require(code == MG_OK || code == MG_ERR_NOMEM, "what was written can be read", &err);
    bool same = code != MG_OK || again.count == p->count;
    for (size_t i = 0; code == MG_OK && same && i < p->count; i++)
        same = same_batch(&p->batches[i], &again.batches[i]);
    require(same, "what was written says the same", &err);
    mg_arena_release(&again.arena);
    mg_writer_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int lines = 0; lines < 2; lines++) {
        struct posted p;
        struct mg_error err = {0};
        if (read_posted(&p, (const char *)data, size, lines, &err) == MG_OK)
            write_and_compare(&p);
        else
            require(err.code != MG_ERR_INTERNAL && err.message[0], "a refusal has a reason", &err);
        mg_arena_release(&p.arena);
    }
    return 0;
}
