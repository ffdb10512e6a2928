/* A pull parser for JSON (RFC 8259).
 *
 * Member names are interned in a hash table over the whole document; a record tells which object saw
 * it last, so a duplicate is found in constant time however wide an object is. When an inner object
 * meets a name of an open outer one, the older fact is saved and restored as the inner one closes.
 * The hash is seeded from addresses: names cannot be chosen to collide, and no result depends on it.
 * Numbers take Clinger's exact fast path where it holds, else strtod, which rounds correctly. */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/json_priv.h"

struct key {
    uint32_t hash;
    uint32_t object;    /* the number of the last object that saw it, ... */
    uint32_t depth : 8; /* ... which was opened at this depth */
    uint32_t size : 24;
    char text[];
};

/* What a key said before an inner object saw it too. */
struct saved_key {
    struct key *key;
    uint32_t object, depth;
};

struct mg_json_keys {
    struct key **slots; /* open addressing, a power of two */
    size_t mask, count;
    uint64_t seed;
    char *pool; /* where the next record goes */
    size_t pool_left;
    uint32_t objects; /* opened so far */
    struct saved_key *saved;
    size_t saved_count, saved_capacity;
};

struct mg_json_level {
    const struct key *key; /* objects: the current member */
    size_t index;          /* arrays: the current element */
    size_t first_saved;    /* objects: where its saved keys start */
    uint32_t number;       /* objects: 1, 2, ... in the order of opening; arrays: 0 */
    bool object;
    bool started;  /* a member or element was announced */
    bool awaiting; /* ... and its value is still to come */
};

/* A string literal as it stands between its quotes. */
struct span {
    const char *text;
    size_t size;
    bool escaped;
};

void mg_json_init(struct mg_json *json, struct mg_arena *arena, const char *text, size_t size)
{
    *json = (struct mg_json){.start = text, .at = text, .end = text + size, .arena = arena};
    json->level = MG_NEW_ARRAY(arena, struct mg_json_level, MG_JSON_MAX_DEPTH);
    json->keys = MG_NEW(arena, struct mg_json_keys);
    json->keys->slots = MG_NEW_ARRAY(arena, struct key *, 64);
    json->keys->mask = 63;
    json->keys->seed = (uint64_t)(uintptr_t)json->keys * 0x9e3779b97f4a7c15ULL ^ (uint64_t)(uintptr_t)text;
}

/* ---- errors and pointers ---- */

struct text {
    char *data;
    size_t size, used;
};

static void put(struct text *out, char c)
{
    if (out->used + 1 < out->size)
        out->data[out->used++] = c;
}

static void put_key(struct text *out, const char *key, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (key[i] == '~' || key[i] == '/') {
            put(out, '~');
            put(out, key[i] == '~' ? '0' : '1');
        } else {
            put(out, key[i]);
        }
    }
}

static void put_index(struct text *out, size_t index)
{
    char digits[24];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + index % 10);
    while (index /= 10);
    while (count)
        put(out, digits[--count]);
}

void mg_json_pointer(const struct mg_json *json, char *buf, size_t size)
{
    struct text out = {.data = buf, .size = size};
    for (int d = 0; d < json->depth && json->level[d].started; d++) {
        put(&out, '/');
        if (json->level[d].object)
            put_key(&out, json->level[d].key->text, json->level[d].key->size);
        else
            put_index(&out, json->level[d].index);
    }
    if (size)
        buf[out.used] = 0;
}

bool mg_json_fail(struct mg_json *json, enum mg_code code, const char *fmt, ...)
{
    if (json->err.code)
        return false;
    char message[sizeof json->err.message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    char pointer[sizeof json->err.pointer];
    mg_json_pointer(json, pointer, sizeof pointer);
    mg_fail(&json->err, code, pointer, "%s", message);
    return false;
}

static bool fail_syntax(struct mg_json *json, const char *what)
{
    size_t line = 1, column = 1;
    for (const char *p = json->start; p < json->at; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    return mg_json_fail(json, MG_ERR_SYNTAX, "%s (line %zu, column %zu)", what, line, column);
}

/* ---- tokens ---- */

static void skip_space(struct mg_json *json)
{
    const char *p = json->at;
    while (p < json->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    json->at = p;
}

static bool accept(struct mg_json *json, char c)
{
    if (json->at == json->end || *json->at != c)
        return false;
    json->at++;
    return true;
}

static enum mg_json_kind kind_of(char c)
{
    switch (c) {
    case '{':
        return MG_JSON_OBJECT;
    case '[':
        return MG_JSON_ARRAY;
    case '"':
        return MG_JSON_STRING;
    case 't':
    case 'f':
        return MG_JSON_BOOL;
    case 'n':
        return MG_JSON_NULL;
    default:
        return c == '-' || (c >= '0' && c <= '9') ? MG_JSON_NUMBER : MG_JSON_END;
    }
}

enum mg_json_kind mg_json_peek(struct mg_json *json)
{
    if (json->err.code)
        return MG_JSON_END;
    skip_space(json);
    if (json->at == json->end) {
        fail_syntax(json, json->at == json->start ? "empty document" : "unexpected end of the document");
        return MG_JSON_END;
    }
    enum mg_json_kind kind = kind_of(*json->at);
    if (kind == MG_JSON_END)
        fail_syntax(json, "expected a value");
    return kind;
}

static const char *describe(enum mg_json_kind kind)
{
    static const char *const names[] = {"nothing",  "null",     "a boolean", "a number",
                                        "a string", "an array", "an object"};
    return names[kind];
}

/* Starts the next value, which must be of `kind`. */
static bool begin_value(struct mg_json *json, enum mg_json_kind kind)
{
    enum mg_json_kind found = mg_json_peek(json);
    if (found == MG_JSON_END)
        return false;
    if (json->depth && !json->level[json->depth - 1].awaiting)
        return mg_json_fail(json, MG_ERR_INTERNAL, "a value was read where none was announced");
    if (found != kind)
        return mg_json_fail(json, MG_ERR_INVALID, "expected %s, found %s", describe(kind), describe(found));
    if (json->depth)
        json->level[json->depth - 1].awaiting = false;
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static unsigned hex4(const char *p)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i];
        value = value << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value;
}

static bool valid_unit(const char *p, const char *end)
{
    return end - p >= 6 && p[0] == '\\' && p[1] == 'u' && is_hex(p[2]) && is_hex(p[3]) && is_hex(p[4]) && is_hex(p[5]);
}

/* The length of the escape at p, a surrogate pair counting as one; 0 if it is wrong. */
static size_t escape_length(const char *p, const char *end)
{
    if (end - p < 2)
        return 0;
    if (p[1] != 'u')
        return p[1] && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
    if (!valid_unit(p, end))
        return 0;
    unsigned unit = hex4(p + 2);
    if (unit < 0xd800 || unit > 0xdfff)
        return 6;
    if (unit > 0xdbff || !valid_unit(p + 6, end))
        return 0;
    unsigned low = hex4(p + 8);
    return low >= 0xdc00 && low <= 0xdfff ? 12 : 0;
}

/* One character of a string other than plain ASCII; returns its length, 0 after failing. */
static size_t check_character(struct mg_json *json, const char *p)
{
    size_t length = 0;
    const char *what = "invalid UTF-8 in a string";
    if (*p == '\\') {
        length = escape_length(p, json->end);
        what = "invalid escape in a string";
    } else if ((unsigned char)*p < 0x20) {
        what = "control character in a string";
    } else {
        length = mg_utf8_length(p, (size_t)(json->end - p));
    }
    if (!length) {
        json->at = p;
        fail_syntax(json, what);
    }
    return length;
}

/* Reads the string whose opening quote is at json->at. */
static bool scan_string(struct mg_json *json, struct span *out)
{
    const char *p = json->at + 1;
    bool escaped = false;
    for (;;) {
        while (p < json->end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' && *p != '\\')
            p++;
        if (p == json->end) {
            json->at = p;
            return fail_syntax(json, "unterminated string");
        }
        if (*p == '"')
            break;
        escaped |= *p == '\\';
        size_t length = check_character(json, p);
        if (!length)
            return false;
        p += length;
    }
    *out = (struct span){.text = json->at + 1, .size = (size_t)(p - json->at - 1), .escaped = escaped};
    json->at = p + 1;
    return true;
}

static char *encode_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* Decodes the (already checked) escape at *p. */
static char *decode_escape(char *out, const char **p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = *p;
    if (at[1] != 'u') {
        *p = at + 2;
        *out = to[strchr(from, at[1]) - from];
        return out + 1;
    }
    unsigned c = hex4(at + 2);
    *p = at + 6;
    if (c >= 0xd800 && c <= 0xdfff) {
        c = 0x10000 + ((c - 0xd800) << 10) + (hex4(at + 8) - 0xdc00);
        *p = at + 12;
    }
    return encode_utf8(out, c);
}

/* Decoding never lengthens: `out` holds span->size bytes. Returns the size. */
static size_t decode(const struct span *span, char *out)
{
    char *to = out;
    const char *p = span->text, *end = span->text + span->size;
    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((escape ? escape : end) - p);
        memcpy(to, p, plain);
        to += plain;
        p += plain;
        if (escape)
            to = decode_escape(to, &p);
    }
    return (size_t)(to - out);
}

/* ---- member names ---- */

static void grow_slots(struct mg_json *json)
{
    struct mg_json_keys *keys = json->keys;
    size_t size = (keys->mask + 1) * 2;
    struct key **slots = MG_NEW_ARRAY(json->arena, struct key *, size);
    for (size_t i = 0; i <= keys->mask; i++) {
        if (!keys->slots[i])
            continue;
        size_t at = keys->slots[i]->hash & (size - 1);
        while (slots[at])
            at = (at + 1) & (size - 1);
        slots[at] = keys->slots[i];
    }
    keys->slots = slots;
    keys->mask = size - 1;
}

/* Records are small and many: they are packed, at the alignment of their own. */
static struct key *new_key(struct mg_json *json, const char *text, size_t size)
{
    enum { POOL = 4096, ALIGN = _Alignof(struct key) };
    struct mg_json_keys *keys = json->keys;
    size_t need = (sizeof(struct key) + size + 1 + ALIGN - 1) / ALIGN * ALIGN;
    struct key *key;
    if (need > POOL / 4) {
        key = mg_arena_alloc(json->arena, need);
    } else {
        if (need > keys->pool_left) {
            keys->pool = mg_arena_alloc(json->arena, POOL);
            keys->pool_left = POOL;
        }
        key = (struct key *)(void *)keys->pool;
        keys->pool += need;
        keys->pool_left -= need;
    }
    key->size = (uint32_t)size & 0xffffff;
    memcpy(key->text, text, size);
    return key;
}

static struct key *intern(struct mg_json *json, const char *text, size_t size)
{
    struct mg_json_keys *keys = json->keys;
    uint32_t hash = (uint32_t)mg_hash_bytes(text, size, keys->seed).lo;
    size_t at = hash & keys->mask;
    for (; keys->slots[at]; at = (at + 1) & keys->mask) {
        struct key *key = keys->slots[at];
        if (key->hash == hash && key->size == size && !memcmp(key->text, text, size))
            return key;
    }
    struct key *key = new_key(json, text, size);
    key->hash = hash;
    keys->slots[at] = key;
    if (++keys->count * 8 > keys->mask * 7)
        grow_slots(json);
    return key;
}

static struct key *read_key(struct mg_json *json)
{
    struct span span;
    if (json->at == json->end || *json->at != '"') {
        fail_syntax(json, "expected a member name");
        return NULL;
    }
    if (!scan_string(json, &span))
        return NULL;
    if (span.size > 0xffffff) {
        mg_json_fail(json, MG_ERR_LIMIT, "member name too long");
        return NULL;
    }
    if (!span.escaped)
        return intern(json, span.text, span.size);
    char *text = mg_arena_alloc(json->arena, span.size);
    size_t size = decode(&span, text);
    if (memchr(text, 0, size)) {
        fail_syntax(json, "member name contains U+0000");
        return NULL;
    }
    return intern(json, text, size);
}

static bool open_key(struct mg_json *json, struct mg_json_level *level, struct key *key)
{
    struct mg_json_keys *keys = json->keys;
    level->key = key;
    level->started = true;
    if (key->object == level->number)
        return mg_json_fail(json, MG_ERR_SYNTAX, "duplicate member \"%.100s\"", key->text);
    bool still_open =
        key->object && key->depth < (uint32_t)json->depth && json->level[key->depth].number == key->object;
    if (still_open)
        *MG_PUSH(json->arena, keys->saved, keys->saved_count, keys->saved_capacity) =
            (struct saved_key){key, key->object, key->depth};
    key->object = level->number;
    key->depth = (uint32_t)(json->depth - 1) & 0xff;
    return true;
}

static void close_keys(struct mg_json *json, const struct mg_json_level *level)
{
    struct mg_json_keys *keys = json->keys;
    while (keys->saved_count > level->first_saved) {
        struct saved_key *saved = &keys->saved[--keys->saved_count];
        saved->key->object = saved->object;
        saved->key->depth = saved->depth & 0xff;
    }
}

/* ---- containers ---- */

static bool enter(struct mg_json *json, enum mg_json_kind kind)
{
    if (!begin_value(json, kind))
        return false;
    if (json->depth == MG_JSON_MAX_DEPTH)
        return mg_json_fail(json, MG_ERR_LIMIT, "nested deeper than %d", MG_JSON_MAX_DEPTH);
    json->at++;
    struct mg_json_keys *keys = json->keys;
    bool object = kind == MG_JSON_OBJECT;
    if (object && ++keys->objects == UINT32_MAX)
        return mg_json_fail(json, MG_ERR_LIMIT, "too many objects");
    json->level[json->depth++] = (struct mg_json_level){
        .object = object, .number = object ? keys->objects : 0, .first_saved = keys->saved_count};
    return true;
}

bool mg_json_enter_object(struct mg_json *json)
{
    return enter(json, MG_JSON_OBJECT);
}

bool mg_json_enter_array(struct mg_json *json)
{
    return enter(json, MG_JSON_ARRAY);
}

/* Steps to the next member or element: true if there is one, false at the end or on failure. */
static bool advance(struct mg_json *json, bool object)
{
    if (json->err.code)
        return false;
    struct mg_json_level *level = json->depth ? &json->level[json->depth - 1] : NULL;
    if (!level || level->object != object || level->awaiting)
        return mg_json_fail(json, MG_ERR_INTERNAL, "the reader was asked for the wrong token");
    skip_space(json);
    if (accept(json, object ? '}' : ']')) {
        if (object)
            close_keys(json, level);
        json->depth--;
        return false;
    }
    if (!level->started)
        return json->at < json->end || fail_syntax(json, "unexpected end of the document");
    if (!accept(json, ','))
        return fail_syntax(json, object ? "expected ',' or '}'" : "expected ',' or ']'");
    skip_space(json);
    return true;
}

bool mg_json_next_member(struct mg_json *json, const char **key)
{
    if (!advance(json, true))
        return false;
    struct mg_json_level *level = &json->level[json->depth - 1];
    struct key *found = read_key(json);
    if (!found || !open_key(json, level, found))
        return false;
    skip_space(json);
    if (!accept(json, ':'))
        return fail_syntax(json, "expected ':'");
    level->awaiting = true;
    *key = found->text;
    return true;
}

bool mg_json_next_element(struct mg_json *json)
{
    if (!advance(json, false))
        return false;
    struct mg_json_level *level = &json->level[json->depth - 1];
    level->index = level->started ? level->index + 1 : 0;
    level->started = true;
    level->awaiting = true;
    return true;
}

/* ---- scalars ---- */

bool mg_json_string(struct mg_json *json, const char **out, size_t *size)
{
    struct span span;
    if (!begin_value(json, MG_JSON_STRING) || !scan_string(json, &span))
        return false;
    char *text = mg_arena_alloc(json->arena, span.size + 1);
    size_t length = span.size;
    if (span.escaped)
        length = decode(&span, text);
    else
        memcpy(text, span.text, length);
    text[length] = 0;
    if (!size && strlen(text) != length)
        return mg_json_fail(json, MG_ERR_INVALID, "the string contains U+0000");
    *out = text;
    if (size)
        *size = length;
    return true;
}

/* A number literal: digits times 10^exponent, where at most 19 significant digits fit `digits`. */
struct number {
    const char *text;
    size_t size;
    uint64_t digits;
    int exponent;
    bool negative;
    bool exact; /* digits and exponent tell the whole value */
};

/* Digits and exponents beyond this are left to strtod. */
enum { FAR = 100000 };

static bool is_digit(const struct mg_json *json)
{
    return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

/* Trailing zeros are held back, so that 1000...0 and 0.50 stay exact; `scale` is -1 after the point. */
static void scan_digits(struct mg_json *json, struct number *number, int scale, int *zeros)
{
    for (; is_digit(json); json->at++) {
        if (number->exponent == -FAR || *zeros == FAR) {
            number->exact = false;
            continue;
        }
        number->exponent += scale;
        unsigned digit = (unsigned)(*json->at - '0');
        if (!digit) {
            ++*zeros;
            continue;
        }
        for (; *zeros >= 0; --*zeros)
            if (__builtin_mul_overflow(number->digits, 10, &number->digits))
                number->exact = false;
        *zeros = 0;
        if (__builtin_add_overflow(number->digits, digit, &number->digits))
            number->exact = false;
    }
}

static bool scan_exponent(struct mg_json *json, struct number *number)
{
    json->at++;
    bool negative = accept(json, '-');
    if (!negative)
        accept(json, '+');
    if (!is_digit(json))
        return fail_syntax(json, "expected a digit in the exponent");
    int value = 0;
    for (; is_digit(json); json->at++) {
        if (value < FAR)
            value = value * 10 + (*json->at - '0');
        else
            number->exact = false;
    }
    number->exponent += negative ? -value : value;
    return true;
}

/* Reads a number by the grammar of RFC 8259. */
static bool scan_number(struct mg_json *json, struct number *number)
{
    *number = (struct number){.text = json->at, .exact = true};
    int zeros = 0;
    number->negative = accept(json, '-');
    if (!is_digit(json))
        return fail_syntax(json, "expected a digit");
    bool zero = *json->at == '0';
    if (zero)
        json->at++;
    if (zero && is_digit(json))
        return fail_syntax(json, "a number must not start with 0");
    scan_digits(json, number, 0, &zeros);
    if (accept(json, '.')) {
        if (!is_digit(json))
            return fail_syntax(json, "expected a digit after the point");
        scan_digits(json, number, -1, &zeros);
    }
    number->exponent += zeros;
    if (json->at < json->end && (*json->at | 32) == 'e' && !scan_exponent(json, number))
        return false;
    number->size = (size_t)(json->at - number->text);
    if (!number->digits && number->exact)
        number->exponent = 0;
    return true;
}

/* The magnitude as an integer; false if it is none or does not fit. */
static bool integer_value(const struct number *number, uint64_t *out)
{
    uint64_t value = number->digits;
    int exponent = number->exponent;
    if (!number->exact)
        return false;
    for (; exponent < 0; exponent++, value /= 10)
        if (value % 10)
            return false;
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    *out = value;
    return true;
}

static bool read_integer(struct mg_json *json, uint64_t *magnitude, bool *negative)
{
    struct number number;
    if (!begin_value(json, MG_JSON_NUMBER) || !scan_number(json, &number))
        return false;
    *negative = number.negative;
    if (!integer_value(&number, magnitude))
        return mg_json_fail(json, MG_ERR_INVALID, "expected an integer of 64 bits, found %.*s",
                            (int)(number.size < 40 ? number.size : 40), number.text);
    return true;
}

bool mg_json_int(struct mg_json *json, int64_t *out)
{
    uint64_t magnitude;
    bool negative;
    if (!read_integer(json, &magnitude, &negative))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return mg_json_fail(json, MG_ERR_INVALID, "the integer does not fit 64 bits");
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool mg_json_uint(struct mg_json *json, uint64_t *out)
{
    uint64_t magnitude;
    bool negative;
    if (!read_integer(json, &magnitude, &negative))
        return false;
    if (negative && magnitude)
        return mg_json_fail(json, MG_ERR_INVALID, "expected an integer >= 0");
    *out = magnitude;
    return true;
}

/* Clinger: both factors are exact doubles, so one rounding is the right one. */
static bool fast_double(const struct number *number, double *out)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (!number->exact || number->digits > 1ULL << 53 || number->exponent < -22 || number->exponent > 22)
        return false;
    double value = (double)number->digits;
    value = number->exponent < 0 ? value / powers[-number->exponent] : value * powers[number->exponent];
    *out = number->negative ? -value : value;
    return true;
}

/* The literal ends where the document may end, hence the copy. */
static double slow_double(struct mg_json *json, const struct number *number)
{
    char small[64];
    if (number->size < sizeof small) {
        memcpy(small, number->text, number->size);
        small[number->size] = 0;
        return strtod(small, NULL);
    }
    struct mg_arena_mark mark = mg_arena_mark(json->arena);
    char *copy = mg_arena_alloc(json->arena, number->size + 1);
    memcpy(copy, number->text, number->size);
    double value = strtod(copy, NULL);
    mg_arena_rewind(json->arena, mark);
    return value;
}

bool mg_json_double(struct mg_json *json, double *out)
{
    struct number number;
    if (!begin_value(json, MG_JSON_NUMBER) || !scan_number(json, &number))
        return false;
    if (fast_double(&number, out))
        return true;
    *out = slow_double(json, &number);
    if (*out - *out != 0)
        return mg_json_fail(json, MG_ERR_INVALID, "the number is too large for a double");
    return true;
}

static bool read_word(struct mg_json *json, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(json->end - json->at) < size || memcmp(json->at, word, size) != 0)
        return fail_syntax(json, "expected a value");
    json->at += size;
    return true;
}

bool mg_json_bool(struct mg_json *json, bool *out)
{
    if (!begin_value(json, MG_JSON_BOOL))
        return false;
    *out = *json->at == 't';
    return read_word(json, *out ? "true" : "false");
}

bool mg_json_null(struct mg_json *json)
{
    return begin_value(json, MG_JSON_NULL) && read_word(json, "null");
}

/* ---- skipping ---- */

static bool skip_scalar(struct mg_json *json, enum mg_json_kind kind)
{
    struct span span;
    struct number number;
    bool truth;
    switch (kind) {
    case MG_JSON_STRING:
        return begin_value(json, kind) && scan_string(json, &span);
    case MG_JSON_NUMBER:
        return begin_value(json, kind) && scan_number(json, &number);
    case MG_JSON_BOOL:
        return mg_json_bool(json, &truth);
    default:
        return mg_json_null(json);
    }
}

/* Opens the next value if it is a container, else reads past it. */
static bool skip_step(struct mg_json *json)
{
    enum mg_json_kind kind = mg_json_peek(json);
    if (kind == MG_JSON_END)
        return false;
    return kind == MG_JSON_OBJECT || kind == MG_JSON_ARRAY ? enter(json, kind) : skip_scalar(json, kind);
}

bool mg_json_skip(struct mg_json *json, const char **text, size_t *size)
{
    const char *key, *start;
    int depth = json->depth;
    skip_space(json);
    start = json->at;
    bool ok = skip_step(json);
    while (ok && json->depth > depth) {
        bool object = json->level[json->depth - 1].object;
        bool more = object ? mg_json_next_member(json, &key) : mg_json_next_element(json);
        ok = !json->err.code && (!more || skip_step(json));
    }
    if (!ok)
        return false;
    if (text)
        *text = start;
    if (size)
        *size = (size_t)(json->at - start);
    return true;
}

bool mg_json_finish(struct mg_json *json)
{
    if (json->err.code)
        return false;
    if (json->depth)
        return mg_json_fail(json, MG_ERR_INTERNAL, "the document was not read to its end");
    skip_space(json);
    return json->at == json->end || fail_syntax(json, "text after the document");
}
