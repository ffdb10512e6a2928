#include "server/posted.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CHUNK = 1 << 16, RATIO = 200, MAX_QUERY = 100 };

/* ---- the query string as a request ---- */

struct pair {
    const char *name, *value;
};

/* Members that are texts whatever they look like; others are JSON where they read as a scalar of it. */
static bool is_text(const char *name)
{
    static const char *const texts[] = {"name", "device", "timings", "numerics", "accumulate", "priority"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(name, texts[i]) == 0)
            return true;
    return strncmp(name, "labels.", 7) == 0 || strncmp(name, "training.", 9) == 0;
}

static bool is_number(const char *text)
{
    char *end = NULL;
    if (!isdigit((unsigned char)text[*text == '-']) || strspn(text, "+-.0123456789eE") != strlen(text))
        return false;
    strtod(text, &end);
    return *end == '\0' && text[strlen(text) - 1] != '.' && !(text[0] == '0' && isdigit((unsigned char)text[1]));
}

static void write_value(struct mg_writer *w, const struct pair *pair)
{
    const char *value = pair->value;
    bool literal = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    if (strcmp(pair->name, "baselines") == 0) {
        mg_write_begin_array(w);
        if (*value)
            mg_write_string(w, value);
        mg_write_end_array(w);
    } else if (!is_text(pair->name) && (literal || is_number(value))) {
        mg_write_raw(w, value, strlen(value));
    } else {
        mg_write_string(w, value);
    }
}

static bool in_group(const struct pair *pair, const char *group, size_t size)
{
    return strncmp(pair->name, group, size) == 0 && pair->name[size] == '.';
}

/* Members of one object must stand together: the first of a group brings the others with it. */
static void write_group(struct mg_writer *w, const struct pair *pairs, size_t count, size_t first)
{
    const char *dot = strchr(pairs[first].name, '.');
    size_t size = (size_t)(dot - pairs[first].name);
    char name[64];
    for (size_t i = 0; i < first; i++)
        if (in_group(&pairs[i], pairs[first].name, size))
            return;
    if (size >= sizeof name)
        size = sizeof name - 1;
    memcpy(name, pairs[first].name, size);
    name[size] = '\0';
    mg_write_key(w, name);
    mg_write_begin_object(w);
    for (size_t i = first; i < count; i++)
        if (in_group(&pairs[i], name, size)) {
            mg_write_key(w, pairs[i].name + size + 1);
            write_value(w, &pairs[i]);
        }
    mg_write_end_object(w);
}

static void write_request(struct mg_writer *w, const struct pair *pairs, size_t count)
{
    mg_write_begin_object(w);
    for (size_t i = 0; i < count; i++) {
        if (strchr(pairs[i].name, '.')) {
            write_group(w, pairs, count, i);
            continue;
        }
        mg_write_key(w, pairs[i].name);
        write_value(w, &pairs[i]);
    }
    mg_write_end_object(w);
}

static enum mg_code read_query(struct mg_posted *posted, const char *query, struct mg_arena *arena,
                               struct mg_error *err)
{
    struct mg_json json;
    struct pair pairs[MAX_QUERY];
    size_t count = 0;
    const char *name;
    mg_json_init(&json, arena, query, strlen(query));
    if (!mg_json_enter_object(&json))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the query string was lost");
    while (mg_json_next_member(&json, &name)) {
        if (count == MAX_QUERY)
            return mg_fail(err, MG_ERR_LIMIT, "", "more than %d parameters", MAX_QUERY);
        pairs[count].name = mg_arena_strdup(arena, name);
        if (!mg_json_string(&json, &pairs[count++].value, NULL))
            break;
    }
    if (json.err.code != MG_OK)
        return mg_fail(err, MG_ERR_INVALID, "", "a query parameter is given twice, or is no text");
    write_request(&posted->written, pairs, count);
    if (!mg_writer_finish(&posted->written))
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    posted->request = posted->written.data;
    posted->request_size = posted->written.size;
    return MG_OK;
}

/* ---- a model ---- */

static bool next_inflated(void *context, const uint8_t **data, size_t *size)
{
    struct mg_posted *posted = context;
    z_stream *z = posted->inflate;
    int rc = Z_OK;
    z->next_out = posted->buffer;
    z->avail_out = CHUNK;
    while (z->avail_out == CHUNK && rc == Z_OK && !posted->ended) {
        rc = inflate(z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) {
            posted->ended = z->avail_in == 0;
            rc = posted->ended ? Z_OK : inflateReset(z);
        }
    }
    *data = posted->buffer;
    *size = CHUNK - z->avail_out;
    posted->inflated += *size;
    bool bomb = posted->inflated > (1 << 20) && posted->inflated / RATIO > posted->packed;
    return rc == Z_OK && !bomb && posted->inflated <= posted->limit;
}

static enum mg_code open_inflate(struct mg_posted *posted, const char *body, size_t size, size_t limit,
                                 struct mg_error *err)
{
    posted->inflate = calloc(1, sizeof *posted->inflate);
    posted->buffer = malloc(CHUNK);
    posted->limit = limit;
    posted->packed = size;
    if (!posted->inflate || !posted->buffer || size > UINT_MAX || inflateInit2(posted->inflate, 15 + 16) != Z_OK)
        return mg_fail(err, size > UINT_MAX ? MG_ERR_LIMIT : MG_ERR_NOMEM, "", "the body is too large");
    posted->inflate->next_in = (z_const Bytef *)(uintptr_t)body;
    posted->inflate->avail_in = (uInt)size;
    posted->onnx = (struct mg_bytes){next_inflated, posted};
    return MG_OK;
}

static void open_block(struct mg_posted *posted, const char *body, size_t size)
{
    posted->block = (struct mg_bytes_block){body, size};
    posted->onnx = mg_bytes_from_block(&posted->block);
}

enum mg_code mg_posted_open_onnx(struct mg_posted *posted, const char *body, size_t size, bool gzip, size_t limit,
                                 const char *query, struct mg_arena *arena, struct mg_error *err)
{
    *posted = (struct mg_posted){.has_onnx = true};
    mg_writer_init(&posted->written);
    enum mg_code code = read_query(posted, query, arena, err);
    if (code != MG_OK)
        return code;
    if (gzip)
        return open_inflate(posted, body, size, limit, err);
    open_block(posted, body, size);
    return MG_OK;
}

/* ---- multipart/form-data (RFC 7578) ---- */

struct part {
    const char *data;
    size_t size;
    char name[64];
};

static const char *find(const char *at, const char *end, const char *what, size_t size)
{
    return at && end > at ? memmem(at, (size_t)(end - at), what, size) : NULL;
}

/* The name of a part, from its headers. */
static void read_name(const char *at, const char *end, char *out, size_t room)
{
    *out = '\0';
    for (const char *line = at; line && line < end; line = find(line, end, "\r\n", 2), line = line ? line + 2 : NULL) {
        const char *stop = find(line, end, "\r\n", 2), *name;
        stop = stop ? stop : end;
        if (stop - line < 20 || strncasecmp(line, "content-disposition:", 20) != 0)
            continue;
        for (name = find(line, stop, "name=\"", 6); name && (name[-1] == '*' || isalnum((unsigned char)name[-1]));)
            name = find(name + 6, stop, "name=\"", 6); /* filename="..." */
        const char *quote = name ? find(name + 6, stop, "\"", 1) : NULL;
        if (quote && (size_t)(quote - name - 6) < room) {
            memcpy(out, name + 6, (size_t)(quote - name - 6));
            out[quote - name - 6] = '\0';
        }
    }
}

/* The part that begins at `at` (after a boundary); NULL after the last one, or where the body is damaged. */
static const char *next_part(const char *at, const char *end, const char *delimiter, struct part *part)
{
    size_t length = strlen(delimiter);
    if (end - at < 2 || memcmp(at, "\r\n", 2) != 0)
        return NULL;
    const char *blank = find(at, end, "\r\n\r\n", 4), *data = blank ? blank + 4 : NULL;
    /* a part may be empty: its data then ends where its headers do */
    const char *stop = find(blank ? blank + 2 : NULL, end, delimiter, length);
    if (!stop)
        return NULL;
    part->data = data;
    part->size = stop > data ? (size_t)(stop - data) : 0;
    read_name(at + 2, blank, part->name, sizeof part->name);
    return stop + length;
}

static bool begins_json(const struct part *part)
{
    size_t at = 0;
    while (at < part->size && (isspace((unsigned char)part->data[at]) || (unsigned char)part->data[at] >= 0xbb))
        at++;
    return at < part->size && part->data[at] == '{';
}

static enum mg_code take_part(struct mg_posted *posted, const struct part *part, struct mg_error *err)
{
    bool request = strcmp(part->name, "request") == 0, graph = strcmp(part->name, "graph") == 0;
    if (!request && !graph)
        return mg_fail(err, MG_ERR_INVALID, "", "part \"%.60s\" is none of: request, graph", part->name);
    if (request ? posted->request != NULL : posted->graph || posted->has_onnx)
        return mg_fail(err, MG_ERR_INVALID, "", "part \"%s\" comes twice", part->name);
    if (request) {
        posted->request = part->data;
        posted->request_size = part->size;
    } else if (begins_json(part)) {
        posted->graph = part->data;
        posted->graph_size = part->size;
    } else {
        posted->has_onnx = true;
        open_block(posted, part->data, part->size);
    }
    return MG_OK;
}

enum mg_code mg_posted_open_multipart(struct mg_posted *posted, const char *body, size_t size, const char *boundary,
                                      struct mg_error *err)
{
    char delimiter[80] = "\r\n--";
    const char *end = body + size, *at;
    struct part part;
    *posted = (struct mg_posted){.request = NULL};
    mg_writer_init(&posted->written);
    size_t length = strlen(boundary);
    if (length < 1 || length > 70)
        return mg_fail(err, MG_ERR_INVALID, "", "the Content-Type names no boundary of 1 to 70 characters");
    memcpy(delimiter + 4, boundary, length + 1);
    /* the first boundary needs no line break before it */
    bool first = size >= length + 2 && memcmp(body, delimiter + 2, length + 2) == 0;
    at = first ? body : find(body, end, delimiter, length + 4);
    if (!at)
        return mg_fail(err, MG_ERR_INVALID, "", "the body holds no part");
    for (at += first ? length + 2 : length + 4; at && (at = next_part(at, end, delimiter, &part));) {
        enum mg_code code = take_part(posted, &part, err);
        if (code != MG_OK)
            return code;
    }
    if (!posted->graph && !posted->has_onnx)
        return mg_fail(err, MG_ERR_INVALID, "", "the part \"graph\" is missing");
    if (!posted->request) {
        posted->request = "{}";
        posted->request_size = 2;
    }
    return MG_OK;
}

void mg_posted_close(struct mg_posted *posted)
{
    mg_writer_release(&posted->written);
    if (posted->inflate)
        inflateEnd(posted->inflate);
    free(posted->inflate);
    free(posted->buffer);
    *posted = (struct mg_posted){.request = NULL};
}
