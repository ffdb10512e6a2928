/* What the files of reader and writer of JSON share. */
#ifndef MG_BASE_JSON_PRIV_H
#define MG_BASE_JSON_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

struct mg_json_key; /* a member name (json_read.c) */
struct mg_json_level {
    const struct mg_json_key *key; /* objects: the current member */
    size_t index;                  /* arrays: the current element */
    size_t first_saved;            /* objects: where its saved keys start */
    uint32_t number;               /* objects: 1, 2, ... in the order of opening; arrays: 0 */
    bool object;
    bool started;  /* a member or element was announced */
    bool awaiting; /* ... and its value is still to come */
};

/* Fails with MG_ERR_SYNTAX, naming line and column of json->at. Always returns false. */
bool mg_json_fail_syntax(struct mg_json *json, const char *what);
/* Where the string or number at json->at must have ended, and what is said where it has not. */
static inline const char *mg_json_scalar_end(const struct mg_json *json)
{
    return json->end - json->at > MG_JSON_MAX_SCALAR ? json->at + MG_JSON_MAX_SCALAR : json->end;
}
bool mg_json_fail_long(struct mg_json *json);
/* Starts the next value, which must be of `kind`. */
bool mg_json_begin(struct mg_json *json, enum mg_json_kind kind);

/* The first byte in [p, end) that is no plain character of a string: below 0x20 or above 0x7f, '"' or '\\'; or end.
 * Eight bytes are judged at once; a borrow between them can only make a later byte look special, never plain. */
static inline const char *mg_json_plain_end(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101, tops = 0x80 * ones;
    for (; end - p >= 8; p += 8) {
        uint64_t eight;
        memcpy(&eight, p, sizeof eight);
        uint64_t special =
            eight | (eight - 0x20 * ones) | ((eight ^ '"' * ones) - ones) | ((eight ^ '\\' * ones) - ones);
        if (special & tops)
            break;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* A string literal as it stands between its quotes. */
struct mg_json_span {
    const char *text;
    size_t size;
    bool escaped;
};
/* Reads the string whose opening quote is at json->at. */
bool mg_json_scan_string(struct mg_json *json, struct mg_json_span *out);
/* Decoding never lengthens: `out` holds span->size bytes. Returns the size. */
size_t mg_json_decode(const struct mg_json_span *span, char *out);

/* A number literal: digits times 10^exponent, where at most 19 significant digits fit `digits`. */
struct mg_json_number {
    const char *text;
    size_t size;
    uint64_t digits;
    int exponent;
    bool negative;
    bool exact; /* digits and exponent tell the whole value */
};
/* Reads the number at json->at by the grammar of RFC 8259. */
bool mg_json_scan_number(struct mg_json *json, struct mg_json_number *number);

#endif
