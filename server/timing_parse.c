#include "server/timing_parse.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/floor.h"
#include "device/signature.h"

enum { MAX_KEY = 32, MAX_TEXT = 200, MAX_ROWS = 1000000, MOST_MEMORY = 16 << 20 /* for one signature */ };

struct parser {
    struct mg_arena *arena;
    struct mg_arena line; /* what reading one line takes, of which the next one needs nothing */
    struct mg_json *json;
    const char *device_dir;
    struct mg_timing_batch *batches;
    size_t count, capacity;
    struct mg_timing_row *rows; /* of the last batch */
    size_t row_count, row_capacity, all_rows;
    struct mg_device profile; /* of the last batch's device */
    bool has_profile;
};

/* ---- texts and numbers ---- */

/* A text of the line at hand, as long as the result. */
static const char *keep(const struct parser *p, const char *text)
{
    return text && p->json->arena != p->arena ? mg_arena_strdup(p->arena, text) : text;
}

static bool read_text(struct parser *p, const char **out)
{
    if (!mg_json_string(p->json, out, NULL))
        return false;
    if (strlen(*out) > MAX_TEXT)
        return mg_json_fail(p->json, MG_ERR_INVALID, "a text of at most %d bytes is expected", MAX_TEXT);
    return true;
}

bool mg_timing_is_name(const char *text)
{
    size_t size = strlen(text);
    for (const char *c = text; *c; c++)
        if (*c < '!' || *c > '~')
            return false;
    return size >= 1 && size <= MAX_TEXT;
}

static bool read_name(struct parser *p, const char **out)
{
    return mg_json_string(p->json, out, NULL) &&
           (mg_timing_is_name(*out) || mg_json_fail(p->json, MG_ERR_INVALID, MG_TIMING_NAME_RULE));
}

static bool read_seconds(struct parser *p, double *out)
{
    if (!mg_json_double(p->json, out))
        return false;
    return (*out >= 0 && *out < 1e6) || mg_json_fail(p->json, MG_ERR_INVALID, "seconds in 0..1e6 are expected");
}

static bool unknown(struct parser *p, const char *key)
{
    return mg_json_fail(p->json, MG_ERR_INVALID, "unknown member \"%.60s\"", key);
}

/* ---- the class ---- */

struct pair {
    const char *key, *value;
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static const char *write_key(struct mg_arena *arena, const struct pair *pairs, size_t n)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    for (size_t i = 0; i < n; i++)
        mg_write_member_string(&w, pairs[i].key, pairs[i].value);
    mg_write_end_object(&w);
    const char *text = mg_writer_finish(&w) ? mg_arena_strdup(arena, w.data) : "{}";
    mg_writer_release(&w);
    return text;
}

bool mg_timing_class_read(struct mg_json *json, struct mg_arena *arena, struct mg_timing_class *out)
{
    struct pair pairs[MAX_KEY];
    size_t n = 0;
    char hex[65];
    memset(out, 0, sizeof *out);
    if (!mg_json_enter_object(json))
        return false;
    for (const char *key; mg_json_next_member(json, &key); n++) {
        if (n == MAX_KEY)
            return mg_json_fail(json, MG_ERR_LIMIT, "more than %d members", MAX_KEY);
        pairs[n].key = mg_arena_strdup(arena, key);
        if (!mg_json_string(json, &pairs[n].value, NULL))
            return false;
        if (strlen(pairs[n].value) > MAX_TEXT)
            return mg_json_fail(json, MG_ERR_INVALID, "a text of at most %d bytes is expected", MAX_TEXT);
        if (strcmp(key, "device") == 0)
            out->model = mg_arena_strdup(arena, pairs[n].value);
    }
    if (json->err.code != MG_OK)
        return false;
    if (!out->model || !*out->model)
        return mg_json_fail(json, MG_ERR_INVALID, "the class needs the device's name");
    qsort(pairs, n, sizeof *pairs, by_key);
    out->key = write_key(arena, pairs, n);
    mg_sha256_hex(out->key, strlen(out->key), hex);
    hex[16] = '\0';
    out->id = mg_arena_strdup(arena, hex);
    return true;
}

/* ---- which profile names the device ---- */

static bool names(const struct mg_device *device, const char *model)
{
    for (uint32_t i = 0; i < device->gpu_name_count; i++)
        if (strcmp(device->gpu_names[i], model) == 0)
            return true;
    return false;
}

static bool read_profile(const char *dir, const char *file, struct mg_device *device)
{
    char path[4096], text[16384];
    struct mg_error err;
    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return false;
    FILE *in = fopen(path, "re");
    size_t size = in ? fread(text, 1, sizeof text, in) : 0;
    if (in)
        fclose(in);
    return size > 0 && mg_device_read(text, size, device, &err) == MG_OK;
}

bool mg_timing_profile(const char *dir, const char *model, struct mg_device *out)
{
    const struct mg_device *device;
    for (uint32_t i = 0; (device = mg_device_at(i)); i++)
        if (names(device, model)) {
            *out = *device;
            return true;
        }
    DIR *list = dir ? opendir(dir) : NULL;
    bool found = false;
    for (struct dirent *e; list && !found && (e = readdir(list));)
        found = e->d_name[0] != '.' && read_profile(dir, e->d_name, out) && names(out, model);
    if (list)
        closedir(list);
    return found;
}

/* ---- rows ---- */

static bool read_status(struct parser *p, enum mg_timing_status *out)
{
    const char *name;
    if (!mg_json_string(p->json, &name, NULL))
        return false;
    int status = mg_timing_status_parse(name);
    if (status < 0)
        return mg_json_fail(p->json, MG_ERR_INVALID, "status is ok, unsupported or out_of_memory");
    *out = (enum mg_timing_status)status;
    return true;
}

static bool read_small(struct parser *p, uint32_t *out)
{
    uint64_t value;
    if (!mg_json_uint(p->json, &value))
        return false;
    *out = (uint32_t)value;
    return value < 1u << 30 || mg_json_fail(p->json, MG_ERR_INVALID, "a number below 2^30 is expected");
}

static bool read_member(struct parser *p, struct mg_timing_row *row, const char *key)
{
    if (strcmp(key, "row") == 0)
        return read_small(p, &row->row);
    if (strcmp(key, "op") == 0)
        return read_name(p, &row->op);
    if (strcmp(key, "signature") == 0)
        return mg_json_string(p->json, &row->signature, NULL);
    if (strcmp(key, "status") == 0)
        return read_status(p, &row->status);
    if (strcmp(key, "n") == 0)
        return read_small(p, &row->n);
    if (strcmp(key, "median_s") == 0)
        return read_seconds(p, &row->median_s);
    if (strcmp(key, "mad_s") == 0)
        return read_seconds(p, &row->mad_s);
    if (strcmp(key, "min_s") == 0)
        return read_seconds(p, &row->min_s);
    if (strcmp(key, "workspace_bytes") == 0)
        return mg_json_uint(p->json, &row->workspace) &&
               (row->workspace < UINT64_C(1) << 50 || mg_json_fail(p->json, MG_ERR_INVALID, "below 2^50 is expected"));
    if (strcmp(key, "clock_mhz") == 0)
        return mg_json_double(p->json, &row->clock_mhz) &&
               ((row->clock_mhz >= 0 && row->clock_mhz < 1e6) ||
                mg_json_fail(p->json, MG_ERR_INVALID, "a clock from 0 to below 1e6 MHz is expected"));
    if (strcmp(key, "throttled") == 0)
        return mg_json_bool(p->json, &row->throttled);
    return unknown(p, key);
}

struct describing {
    struct parser *p;
    struct mg_timing_row *row;
};

static enum mg_code describe(void *context, struct mg_error *err)
{
    struct describing *d = context;
    struct mg_timing_row *row = d->row;
    struct mg_op_desc desc;
    enum mg_code code = mg_signature_read(row->op, row->signature, d->p->arena, &desc, err);
    if (code == MG_OK && d->p->has_profile) {
        row->model_s = mg_device_latency(&d->p->profile, &desc);
        row->floor_s = mg_device_floor(&d->p->profile, &desc);
    }
    return code;
}

/* What reading the signature takes is given back at once: of a million rows little stays. */
static enum mg_code describe_row(struct parser *p, struct mg_timing_row *row, struct mg_error *err)
{
    struct mg_arena *arena = p->arena;
    struct mg_arena_mark mark = mg_arena_mark(arena);
    size_t limit = arena->limit;
    if (arena->used < limit && limit - arena->used > MOST_MEMORY)
        arena->limit = arena->used + MOST_MEMORY;
    enum mg_code code = mg_arena_guard(arena, describe, &(struct describing){p, row}, err);
    arena->limit = limit;
    mg_arena_rewind(arena, mark);
    return code;
}

static bool check_row(struct parser *p, struct mg_timing_row *row)
{
    struct mg_error err = {0};
    if (!row->op || !row->signature)
        return mg_json_fail(p->json, MG_ERR_INVALID, "a row needs op and signature");
    if (row->status == MG_TIMING_OK && (row->n == 0 || row->median_s <= 0 || row->min_s > row->median_s))
        return mg_json_fail(p->json, MG_ERR_INVALID, "a measured row needs n, median_s above 0 and min_s not above it");
    if (row->status == MG_TIMING_OK && row->mad_s > row->median_s)
        return mg_json_fail(p->json, MG_ERR_INVALID,
                            "mad_s is above median_s: the median of how far times are from their median never is");
    if (describe_row(p, row, &err) != MG_OK)
        return mg_json_fail(p->json, MG_ERR_INVALID, "%s", err.message);
    row->key = mg_signature_key(row->op, row->signature);
    return true;
}

static bool add_row(struct parser *p, const struct mg_timing_row *row)
{
    if (p->count == 0)
        return mg_json_fail(p->json, MG_ERR_INVALID, "a row stands before any batch");
    if (p->all_rows++ >= MAX_ROWS)
        return mg_json_fail(p->json, MG_ERR_LIMIT, "more than %d rows", MAX_ROWS);
    struct mg_timing_row copy = *row;
    if (!check_row(p, &copy))
        return false;
    copy.op = keep(p, row->op);
    copy.signature = keep(p, row->signature);
    *MG_PUSH(p->arena, p->rows, p->row_count, p->row_capacity) = copy;
    return true;
}

static bool read_row(struct parser *p)
{
    struct mg_timing_row row = {.op = NULL};
    if (!mg_json_enter_object(p->json))
        return false;
    for (const char *key; mg_json_next_member(p->json, &key);)
        if (!read_member(p, &row, key))
            return false;
    return p->json->err.code == MG_OK && add_row(p, &row);
}

/* ---- batches ---- */

static bool read_canary(struct parser *p, struct mg_timing_batch *b)
{
    if (!mg_json_enter_object(p->json))
        return false;
    for (const char *key; mg_json_next_member(p->json, &key);) {
        double *into = strcmp(key, "before_s") == 0  ? &b->canary_before_s
                       : strcmp(key, "after_s") == 0 ? &b->canary_after_s
                       : strcmp(key, "best_s") == 0  ? &b->canary_best_s
                                                     : NULL;
        if (!into ? !unknown(p, key) : !read_seconds(p, into))
            return false;
    }
    return p->json->err.code == MG_OK;
}

static bool read_head(struct parser *p, struct mg_timing_batch *b, const char *key)
{
    if (strcmp(key, "agent") == 0)
        return read_name(p, &b->agent);
    if (strcmp(key, "batch") == 0)
        return read_name(p, &b->batch);
    if (strcmp(key, "host") == 0)
        return read_text(p, &b->host);
    if (strcmp(key, "version") == 0)
        return read_text(p, &b->version);
    if (strcmp(key, "class") == 0)
        return mg_timing_class_read(p->json, p->arena, &b->class);
    if (strcmp(key, "at") == 0)
        return mg_json_int(p->json, &b->at);
    if (strcmp(key, "canary") == 0)
        return read_canary(p, b);
    if (strcmp(key, "busy") == 0)
        return mg_json_bool(p->json, &b->busy);
    return unknown(p, key);
}

/* Ends the batch before. */
static void close_batch(struct parser *p)
{
    if (p->count) {
        p->batches[p->count - 1].rows = p->rows;
        p->batches[p->count - 1].n_rows = p->row_count;
    }
    p->rows = NULL;
    p->row_count = p->row_capacity = 0;
}

static bool open_batch(struct parser *p, const struct mg_timing_batch *b)
{
    if (!b->agent || !b->batch || !b->class.id)
        return mg_json_fail(p->json, MG_ERR_INVALID, "a batch needs agent, batch and class");
    close_batch(p);
    struct mg_timing_batch copy = *b;
    copy.agent = keep(p, b->agent);
    copy.batch = keep(p, b->batch);
    copy.host = keep(p, b->host);
    copy.version = keep(p, b->version);
    *MG_PUSH(p->arena, p->batches, p->count, p->capacity) = copy;
    p->has_profile = mg_timing_profile(p->device_dir, b->class.model, &p->profile);
    return true;
}

/* The rows of a document come after its head, wherever they stand in it. */
static bool read_document(struct parser *p)
{
    struct mg_timing_batch b = {.host = "", .version = "", .token = ""};
    const char *rows = NULL;
    size_t size = 0;
    struct mg_json inner;
    if (!mg_json_enter_object(p->json))
        return false;
    for (const char *key; mg_json_next_member(p->json, &key);)
        if (strcmp(key, "rows") == 0 ? !mg_json_skip(p->json, &rows, &size) : !read_head(p, &b, key))
            return false;
    if (p->json->err.code != MG_OK || !open_batch(p, &b) || !rows)
        return p->json->err.code == MG_OK;
    struct mg_json *outer = p->json;
    mg_json_init(&inner, p->arena, rows, size);
    p->json = &inner;
    bool good = mg_json_enter_array(&inner);
    while (good && mg_json_next_element(&inner))
        good = read_row(p);
    good = good && inner.err.code == MG_OK;
    p->json = outer;
    if (!good) { /* the document has been left: the place is the rows' own */
        char pointer[sizeof outer->err.pointer];
        snprintf(pointer, sizeof pointer, "/rows%.200s", inner.err.pointer);
        return mg_fail(&outer->err, inner.err.code, pointer, "%s", inner.err.message) == MG_OK;
    }
    return true;
}

static bool is_row(const char *line, size_t size, struct mg_arena *arena)
{
    struct mg_json json;
    mg_json_init(&json, arena, line, size);
    bool row = false;
    if (mg_json_enter_object(&json))
        for (const char *key; !row && mg_json_next_member(&json, &key);) {
            row = strcmp(key, "signature") == 0;
            if (!mg_json_skip(&json, NULL, NULL))
                break;
        }
    return row;
}

static enum mg_code read_line(struct parser *p, const char *line, size_t size, size_t number, struct mg_error *err)
{
    struct mg_json json;
    mg_json_init(&json, &p->line, line, size);
    p->json = &json;
    bool good = (is_row(line, size, &p->line) ? read_row(p) : read_document(p)) && mg_json_finish(&json);
    p->json = NULL; /* it ends with this line */
    if (good)
        return MG_OK;
    char pointer[sizeof err->pointer];
    snprintf(pointer, sizeof pointer, "/%zu%.200s", number, json.err.pointer);
    return mg_fail(err, json.err.code, pointer, "line %zu: %s", number + 1, json.err.message);
}

static enum mg_code read_lines(struct parser *p, const char *text, size_t size, struct mg_error *err)
{
    size_t number = 0;
    mg_arena_alloc(&p->line, 1); /* its block stays */
    const struct mg_arena_mark begin = mg_arena_mark(&p->line);
    for (const char *at = text, *end = text + size; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at), blank = 0;
        while (blank < length && at[blank] && strchr(" \t\r", at[blank]))
            blank++;
        enum mg_code code = blank == length ? MG_OK : read_line(p, at, length, number, err);
        if (code != MG_OK)
            return code;
        mg_arena_rewind(&p->line, begin);
        at += length + 1;
    }
    return MG_OK;
}

struct reading {
    struct parser *p;
    const char *text;
    size_t size;
    bool lines;
};

static enum mg_code read_all(void *context, struct mg_error *err)
{
    struct reading *r = context;
    struct parser *p = r->p;
    struct mg_json json;
    if (r->lines)
        return read_lines(p, r->text, r->size, err);
    mg_json_init(&json, p->arena, r->text, r->size);
    p->json = &json;
    bool good = read_document(p) && mg_json_finish(&json);
    p->json = NULL;
    return good ? MG_OK : mg_fail(err, json.err.code, json.err.pointer, "%s", json.err.message);
}

enum mg_code mg_timing_read(const char *text, size_t size, bool lines, const char *device_dir, struct mg_arena *arena,
                            struct mg_timing_batch **batches, size_t *count, struct mg_error *err)
{
    struct parser p = {.arena = arena, .device_dir = device_dir};
    mg_arena_init_within(&p.line, arena);
    enum mg_code code = mg_arena_guard(arena, read_all, &(struct reading){&p, text, size, lines}, err);
    mg_arena_release(&p.line);
    close_batch(&p);
    *batches = p.batches;
    *count = p.count;
    return code;
}
