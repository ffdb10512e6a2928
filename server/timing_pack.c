#include "server/timing_pack.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct head {
    uint64_t batches, rows, wants;
};
struct packer {
    unsigned char *data;
    size_t size, capacity;
    bool failed;
};

/* ---- packing ---- */

static size_t reserve(struct packer *p, size_t size)
{
    if (p->size + size > p->capacity) {
        size_t capacity = 2 * (p->size + size) + 4096;
        unsigned char *larger = realloc(p->data, capacity);
        if (!larger) {
            p->failed = true;
            return 0;
        }
        memset(larger + p->capacity, 0, capacity - p->capacity);
        p->data = larger;
        p->capacity = capacity;
    }
    size_t at = p->size;
    p->size += size;
    return at;
}

static const char *put_text(struct packer *p, const char *text)
{
    size_t length = strlen(text) + 1, at = reserve(p, length);
    if (!p->failed)
        memcpy(p->data + at, text, length);
    return (const char *)(uintptr_t)at;
}

static void put(struct packer *p, size_t at, const void *value, size_t size)
{
    if (!p->failed)
        memcpy(p->data + at, value, size);
}

static void put_batch(struct packer *p, size_t at, const struct mg_timing_batch *from, size_t rows_at)
{
    struct mg_timing_batch b = *from;
    b.agent = put_text(p, from->agent);
    b.host = put_text(p, from->host);
    b.version = put_text(p, from->version);
    b.batch = put_text(p, from->batch);
    b.token = put_text(p, "");
    b.class.id = put_text(p, from->class.id);
    b.class.model = put_text(p, from->class.model);
    b.class.key = put_text(p, from->class.key);
    b.rows = (const struct mg_timing_row *)(uintptr_t)rows_at;
    for (size_t i = 0; i < from->n_rows; i++) {
        struct mg_timing_row row = from->rows[i];
        row.op = put_text(p, from->rows[i].op);
        row.signature = put_text(p, from->rows[i].signature);
        put(p, rows_at + i * sizeof row, &row, sizeof row);
    }
    put(p, at, &b, sizeof b);
}

static bool finish(struct packer *p, unsigned char **out, size_t *size)
{
    reserve(p, 1); /* a NUL behind all texts */
    *out = p->data;
    *size = p->size;
    if (!p->failed)
        return true;
    free(p->data);
    return false;
}

bool mg_timing_pack_batches(const struct mg_timing_batch *batches, size_t count, unsigned char **out, size_t *size)
{
    struct packer p = {.data = NULL};
    struct head head = {.batches = count};
    for (size_t i = 0; i < count; i++)
        head.rows += batches[i].n_rows;
    size_t head_at = reserve(&p, sizeof head), batches_at = reserve(&p, count * sizeof *batches);
    size_t rows_at = reserve(&p, head.rows * sizeof(struct mg_timing_row));
    put(&p, head_at, &head, sizeof head);
    for (size_t i = 0; i < count; i++) {
        put_batch(&p, batches_at + i * sizeof *batches, &batches[i], rows_at);
        rows_at += batches[i].n_rows * sizeof(struct mg_timing_row);
    }
    return finish(&p, out, size);
}

bool mg_timing_pack_wants(const struct mg_timing_want *wants, size_t count, unsigned char **out, size_t *size)
{
    struct packer p = {.data = NULL};
    struct head head = {.wants = count};
    size_t head_at = reserve(&p, sizeof head), at = reserve(&p, count * sizeof *wants);
    put(&p, head_at, &head, sizeof head);
    for (size_t i = 0; i < count; i++) {
        struct mg_timing_want want = wants[i];
        want.op = put_text(&p, wants[i].op);
        want.signature = put_text(&p, wants[i].signature);
        put(&p, at + i * sizeof want, &want, sizeof want);
    }
    return finish(&p, out, size);
}

/* ---- unpacking ---- */

struct unpacker {
    unsigned char *data;
    size_t size;
    bool good;
};

static void text_at(struct unpacker *u, const char **text)
{
    size_t at = (size_t)(uintptr_t)*text;
    u->good = u->good && at < u->size;
    *text = u->good ? (const char *)u->data + at : "";
}

/* The whole, ended by NUL; NULL: damaged. */
static bool open_pack(int fd, size_t size, struct unpacker *u, struct head *head)
{
    *u = (struct unpacker){malloc(size + 1), size, size > sizeof *head};
    for (size_t done = 0; u->data && u->good && done < size;) {
        ssize_t got = pread(fd, u->data + done, size - done, (off_t)done);
        u->good = got > 0;
        done += got > 0 ? (size_t)got : 0;
    }
    if (!u->data || !u->good) {
        free(u->data);
        return false;
    }
    u->data[size] = '\0';
    memcpy(head, u->data, sizeof *head);
    return true;
}

bool mg_timing_unpack_batches(int fd, size_t size, struct mg_packed_batches *out)
{
    struct unpacker u;
    struct head head;
    if (!open_pack(fd, size, &u, &head))
        return false;
    size_t room = size - sizeof head;
    u.good = head.batches <= room / sizeof(struct mg_timing_batch) &&
             head.rows <= room / sizeof(struct mg_timing_row) &&
             head.batches * sizeof(struct mg_timing_batch) + head.rows * sizeof(struct mg_timing_row) <= room;
    struct mg_timing_batch *batches = (struct mg_timing_batch *)(void *)(u.data + sizeof head);
    struct mg_timing_row *rows = u.good ? (struct mg_timing_row *)(void *)(batches + head.batches) : NULL;
    size_t used = 0;
    for (size_t i = 0; u.good && i < head.batches; i++) {
        struct mg_timing_batch *b = &batches[i];
        const char **const texts[] = {&b->agent, &b->host,     &b->version,     &b->batch,
                                      &b->token, &b->class.id, &b->class.model, &b->class.key};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            text_at(&u, texts[k]);
        u.good = u.good && b->n_rows <= head.rows - used;
        b->rows = rows + used;
        used += u.good ? b->n_rows : 0;
    }
    for (size_t i = 0; u.good && i < head.rows; i++) {
        text_at(&u, &rows[i].op);
        text_at(&u, &rows[i].signature);
    }
    *out = (struct mg_packed_batches){batches, head.batches, u.data};
    if (!u.good)
        free(u.data);
    return u.good;
}

bool mg_timing_unpack_wants(int fd, size_t size, struct mg_packed_wants *out)
{
    struct unpacker u;
    struct head head;
    if (!open_pack(fd, size, &u, &head))
        return false;
    u.good = head.wants <= (size - sizeof head) / sizeof(struct mg_timing_want);
    struct mg_timing_want *wants = (struct mg_timing_want *)(void *)(u.data + sizeof head);
    for (size_t i = 0; u.good && i < head.wants; i++) {
        text_at(&u, &wants[i].op);
        text_at(&u, &wants[i].signature);
    }
    *out = (struct mg_packed_wants){wants, head.wants, u.data};
    if (!u.good)
        free(u.data);
    return u.good;
}
