/* The JSON writer: text into one growing buffer, with commas and colons from a state per level. */
#include "base/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_priv.h"

/* Of a level: it has an element already; a name was written and its value comes next. */
enum { STATE_FILLED = 1, STATE_NAMED = 2 };

void mg_writer_init(struct mg_writer *w)
{
    *w = (struct mg_writer){0};
}

void mg_writer_release(struct mg_writer *w)
{
    free(w->data);
    *w = (struct mg_writer){0};
}

/* Room for `extra` bytes and a NUL, or NULL (sticky). */
static char *reserve_slowly(struct mg_writer *w, size_t extra)
{
    if (w->failed || extra > SIZE_MAX / 4 || w->size > SIZE_MAX / 4)
        goto fail;
    size_t need = w->size + extra + 1;
    if (need > w->capacity) {
        size_t capacity = w->capacity < 512 ? 1024 : w->capacity * 2;
        if (capacity < need)
            capacity = need;
        char *data = realloc(w->data, capacity);
        if (!data)
            goto fail;
        w->data = data;
        w->capacity = capacity;
    }
    return w->data + w->size;
fail:
    w->failed = true;
    w->capacity = w->size; /* what has failed has no room */
    return NULL;
}

static inline char *reserve(struct mg_writer *w, size_t extra)
{
    return w->capacity - w->size > extra ? w->data + w->size : reserve_slowly(w, extra);
}

static inline void append(struct mg_writer *w, const char *text, size_t size)
{
    char *at = reserve(w, size);
    if (!at || size == 0) /* nothing may come without an address */
        return;
    memcpy(at, text, size);
    w->size += size;
}

static void begin_value(struct mg_writer *w)
{
    uint8_t *state = &w->state[w->depth];
    if (*state & STATE_NAMED)
        *state &= (uint8_t)~STATE_NAMED;
    else if (*state & STATE_FILLED)
        append(w, ",", 1);
    *state |= STATE_FILLED;
}

static void open_container(struct mg_writer *w, const char *bracket)
{
    begin_value(w);
    append(w, bracket, 1);
    if (w->depth == MG_JSON_MAX_DEPTH) {
        w->failed = true;
        return;
    }
    w->state[++w->depth] = 0;
}

static void close_container(struct mg_writer *w, const char *bracket)
{
    append(w, bracket, 1);
    if (w->depth)
        w->depth--;
    else
        w->failed = true;
}

void mg_write_begin_object(struct mg_writer *w)
{
    open_container(w, "{");
}

void mg_write_end_object(struct mg_writer *w)
{
    close_container(w, "}");
}

void mg_write_begin_array(struct mg_writer *w)
{
    open_container(w, "[");
}

void mg_write_end_array(struct mg_writer *w)
{
    close_container(w, "]");
}

/* What stands for the one character at p; *size is its length there. Bytes that are not UTF-8 become
 * U+FFFD, so that the output is valid whatever a file was called. */
static const char *escape_character(const char *p, size_t left, char buf[8], size_t *size)
{
    unsigned char c = (unsigned char)*p;
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    *size = 1;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        snprintf(buf, 8, "\\%c", to[found - from]);
        return buf;
    }
    if (c < 0x20) {
        snprintf(buf, 8, "\\u%04x", c);
        return buf;
    }
    size_t length = mg_utf8_length(p, left);
    if (!length)
        return "\xef\xbf\xbd";
    *size = length;
    memcpy(buf, p, length);
    buf[length] = 0;
    return buf;
}

static void append_escaped(struct mg_writer *w, const char *p, const char *end)
{
    append(w, "\"", 1);
    while (p < end) {
        const char *plain = p;
        p = mg_json_plain_end(p, end);
        append(w, plain, (size_t)(p - plain));
        if (p == end)
            break;
        char buf[8];
        size_t size;
        const char *escaped = escape_character(p, (size_t)(end - p), buf, &size);
        append(w, escaped, strlen(escaped));
        p += size;
    }
    append(w, "\"", 1);
}

static void append_quoted(struct mg_writer *w, const char *text)
{
    const char *end = text + strlen(text);
    size_t size = (size_t)(end - text);
    char *at = reserve(w, size + 2);
    if (!at)
        return;
    if (mg_json_plain_end(text, end) < end) {
        append_escaped(w, text, end);
        return;
    }
    at[0] = '"';
    memcpy(at + 1, text, size);
    at[size + 1] = '"';
    w->size += size + 2;
}

void mg_write_key(struct mg_writer *w, const char *key)
{
    begin_value(w);
    append_quoted(w, key);
    append(w, ":", 1);
    w->state[w->depth] |= STATE_NAMED;
}

void mg_write_string(struct mg_writer *w, const char *text)
{
    begin_value(w);
    append_quoted(w, text);
}

static void write_integer(struct mg_writer *w, uint64_t magnitude, bool negative)
{
    char digits[21];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (negative)
        digits[--at] = '-';
    begin_value(w);
    append(w, digits + at, sizeof digits - at);
}

void mg_write_uint(struct mg_writer *w, uint64_t value)
{
    write_integer(w, value, false);
}

void mg_write_int(struct mg_writer *w, int64_t value)
{
    write_integer(w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

/* 15 digits always survive the way to a normal double and back, 17 always suffice. */
static int print_shortest(char *text, size_t size, double value)
{
    int length = 0;
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        length = snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return length;
}

void mg_write_double(struct mg_writer *w, double value)
{
    if (value - value != 0) {
        mg_write_null(w);
        return;
    }
    if (value > 0 && value < 1e15 && value == (double)(uint64_t)value) {
        mg_write_uint(w, (uint64_t)value);
        return;
    }
    char text[40];
    int size = print_shortest(text, sizeof text, value);
    begin_value(w);
    append(w, text, (size_t)size);
}

void mg_write_bool(struct mg_writer *w, bool value)
{
    begin_value(w);
    append(w, value ? "true" : "false", value ? 4 : 5);
}

void mg_write_null(struct mg_writer *w)
{
    begin_value(w);
    append(w, "null", 4);
}

void mg_write_raw(struct mg_writer *w, const char *json, size_t size)
{
    begin_value(w);
    append(w, json, size);
}

void mg_write_member_string(struct mg_writer *w, const char *key, const char *text)
{
    mg_write_key(w, key);
    mg_write_string(w, text);
}

void mg_write_member_int(struct mg_writer *w, const char *key, int64_t value)
{
    mg_write_key(w, key);
    mg_write_int(w, value);
}

void mg_write_member_uint(struct mg_writer *w, const char *key, uint64_t value)
{
    mg_write_key(w, key);
    mg_write_uint(w, value);
}

void mg_write_member_double(struct mg_writer *w, const char *key, double value)
{
    mg_write_key(w, key);
    mg_write_double(w, value);
}

void mg_write_member_bool(struct mg_writer *w, const char *key, bool value)
{
    mg_write_key(w, key);
    mg_write_bool(w, value);
}

void mg_write_bytes(struct mg_writer *w, const void *data, size_t size)
{
    append(w, data, size);
}

void mg_write_text(struct mg_writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *at = size < 0 ? NULL : reserve(w, (size_t)size);
    if (!at) {
        w->failed = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(at, (size_t)size + 1, fmt, args);
    va_end(args);
    w->size += (size_t)size;
}

bool mg_writer_finish(struct mg_writer *w)
{
    char *at = w->failed ? NULL : reserve(w, 0);
    if (!at)
        return false;
    *at = 0;
    return w->depth == 0;
}
