/* JSON: a pull parser that knows the pointer of every token, and a writer with shortest
 * round-trip numbers (RFC 8259, RFC 6901).
 *
 * The reader copies nothing but the strings it is asked for (into the arena), refuses nesting
 * beyond 64, duplicate members, invalid UTF-8, strings and numbers of more than 64 KiB and more
 * than 4 MiB of different member names, and keeps a sticky error: after the first
 * failure every call returns false and reader->err holds pointer and message. LC_NUMERIC must be
 * "C", as it is in a program that never calls setlocale. */
#ifndef MG_BASE_JSON_H
#define MG_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum {
    MG_JSON_MAX_DEPTH = 64,
    MG_JSON_MAX_SCALAR = 1 << 16,
    MG_JSON_MAX_NAMES = 4 << 20,
    MG_JSON_MAX_ELEMENT = 14 << 16
};

enum mg_json_kind {
    MG_JSON_END, /* after the last element, or an error */
    MG_JSON_NULL,
    MG_JSON_BOOL,
    MG_JSON_NUMBER,
    MG_JSON_STRING,
    MG_JSON_ARRAY,
    MG_JSON_OBJECT,
};

struct mg_json_level; /* private: one open container */
struct mg_json_keys;  /* private: the member names seen so far */

struct mg_json {
    const char *start, *at, *end;
    const char *bound; /* of the element that was begun, or NULL */
    struct mg_arena *arena;
    size_t arena_base, arena_limit; /* when the reader began */
    struct mg_json_level *level;    /* MG_JSON_MAX_DEPTH of them */
    struct mg_json_keys *keys;
    int depth;
    struct mg_error err; /* sticky */
};

/* `text` must outlive the reader, and the arena must not be rewound while it is in use (member names
 * are kept there, once each). Nothing is parsed yet. */
void mg_json_init(struct mg_json *json, struct mg_arena *arena, const char *text, size_t size);
/* What the next value is, without consuming it. */
enum mg_json_kind mg_json_peek(struct mg_json *json);

/* What is said where an arena had no more room for elements (mg_json_begin_element). */
#define MG_JSON_TOO_MANY "the parts are so small and so many that they need too much memory"

/* Containers: enter; then `while (mg_json_next_member(j, &key))` / `while (mg_json_next_element(j))`
 * with exactly one value consumed in each turn. The loop's end leaves the container. */
bool mg_json_enter_object(struct mg_json *json);
bool mg_json_next_member(struct mg_json *json, const char **key);
bool mg_json_enter_array(struct mg_json *json);
bool mg_json_next_element(struct mg_json *json);

/* Scalars. Each fails with a message that names the expected type. Integers must be exact: 2, 2.0 and
 * 2e0 are integers, 2.5 and what does not fit are refused. A string is NUL-terminated; where `size`
 * is NULL, embedded NULs are refused. */
bool mg_json_string(struct mg_json *json, const char **out, size_t *size);
bool mg_json_int(struct mg_json *json, int64_t *out);
bool mg_json_uint(struct mg_json *json, uint64_t *out);
bool mg_json_double(struct mg_json *json, double *out);
bool mg_json_bool(struct mg_json *json, bool *out);
bool mg_json_null(struct mg_json *json);
/* Skips a whole value; *text / *size (may be NULL) receive its raw extent. */
bool mg_json_skip(struct mg_json *json, const char **text, size_t *size);
/* The same at a fraction of the cost, for what another reader will read: the inside is not looked at beyond brackets
 * and strings, so where it is not well-formed the extent may be wrong (and that reader fails). */
bool mg_json_extent(struct mg_json *json, const char **text, size_t *size);
/* What follows is one of the many elements of a document, each small: it takes at most MG_JSON_MAX_ELEMENT bytes, and
 * until it ends the arena takes at most 15 MiB and 16 bytes for each byte of text before it (MG_ERR_NOMEM beyond).
 * Lasts until the next element, or the call after the last one, which is needed after a failure too where the arena
 * stays. */
void mg_json_begin_element(struct mg_json *json);
void mg_json_end_elements(struct mg_json *json);
/* After the outermost value: true if only white space is left. */
bool mg_json_finish(struct mg_json *json);

/* The pointer of the current token, e.g. "/ops/3/inputs/1"; buf is always NUL-terminated. */
void mg_json_pointer(const struct mg_json *json, char *buf, size_t size);
/* Fails the reader at the current place. Always returns false. */
bool mg_json_fail(struct mg_json *json, enum mg_code code, const char *fmt, ...) MG_PRINTF(3, 4);

/* Writer into a growing malloc'ed buffer. Commas and colons are its business. Out of memory is
 * sticky and reported by mg_writer_finish. Canonical output is the caller's doing (sorted keys). */
struct mg_writer {
    char *data;
    size_t size, capacity;
    int depth;
    bool failed;
    uint8_t state[MG_JSON_MAX_DEPTH + 1];
};

void mg_writer_init(struct mg_writer *w);
void mg_writer_release(struct mg_writer *w);
void mg_write_begin_object(struct mg_writer *w);
void mg_write_end_object(struct mg_writer *w);
void mg_write_begin_array(struct mg_writer *w);
void mg_write_end_array(struct mg_writer *w);
void mg_write_key(struct mg_writer *w, const char *key);
void mg_write_string(struct mg_writer *w, const char *text);
void mg_write_int(struct mg_writer *w, int64_t value);
void mg_write_uint(struct mg_writer *w, uint64_t value);
void mg_write_double(struct mg_writer *w,
                     double value); /* shortest form that reads back equal; NaN and infinities become null */
void mg_write_bool(struct mg_writer *w, bool value);
void mg_write_null(struct mg_writer *w);
void mg_write_raw(struct mg_writer *w, const char *json, size_t size); /* a complete value */
/* key + value in one call */
void mg_write_member_string(struct mg_writer *w, const char *key, const char *text);
void mg_write_member_int(struct mg_writer *w, const char *key, int64_t value);
void mg_write_member_uint(struct mg_writer *w, const char *key, uint64_t value);
void mg_write_member_double(struct mg_writer *w, const char *key, double value);
void mg_write_member_bool(struct mg_writer *w, const char *key, bool value);
/* Plain bytes, for formats that are no text. */
void mg_write_bytes(struct mg_writer *w, const void *data, size_t size);
/* Plain text, for DOT and the like. */
void mg_write_text(struct mg_writer *w, const char *fmt, ...) MG_PRINTF(2, 3);
/* True if everything was written; data is NUL-terminated then. */
bool mg_writer_finish(struct mg_writer *w) MG_WARN_UNUSED;

#endif
