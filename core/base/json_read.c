/* A pull parser for JSON (RFC 8259).
 *
 * Member names are interned in a hash table over the whole document; a record tells which object saw
 * it last, so a duplicate is found in constant time however wide an object is. When an inner object
 * meets a name of an open outer one, the older fact is saved and restored as the inner one closes.
 * The hash is seeded from addresses: names cannot be chosen to collide, and no result depends on it.
 * Strings are decoded in json_string.c, numbers in json_number.c. */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/json_priv.h"

struct mg_json_key {
    uint32_t hash;
    uint32_t object;    /* the number of the last object that saw it, ... */
    uint32_t depth : 8; /* ... which was opened at this depth */
    uint32_t size : 23;
    uint32_t plain : 1; /* it was once spelled as its text is, without escapes */
    char text[];
};
enum { GUESSES = 256 };
_Static_assert(MG_JSON_MAX_SCALAR < 1 << 23, "a key's size has 23 bits");

/* What a key said before an inner object saw it too. */
struct saved_key {
    struct mg_json_key *key;
    uint32_t object, depth;
};

struct mg_json_keys {
    struct mg_json_key *guess[GUESSES]; /* by what came before: the member that came next last time */
    struct mg_json_key **slots;         /* open addressing, a power of two */
    size_t mask, count;
    uint64_t seed;
    char *pool; /* where the next record goes */
    size_t pool_left;
    size_t bytes;     /* of all records */
    uint32_t objects; /* opened so far */
    struct saved_key *saved;
    size_t saved_count, saved_capacity;
};

void mg_json_init(struct mg_json *json, struct mg_arena *arena, const char *text, size_t size)
{
    *json = (struct mg_json){.start = text,
                             .at = text,
                             .end = text + size,
                             .arena = arena,
                             .arena_base = arena->used,
                             .arena_limit = arena->limit};
    json->level = MG_NEW_ARRAY(arena, struct mg_json_level, MG_JSON_MAX_DEPTH);
    json->keys = MG_NEW(arena, struct mg_json_keys);
    json->keys->slots = MG_NEW_ARRAY(arena, struct mg_json_key *, 64);
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

bool mg_json_fail_syntax(struct mg_json *json, const char *what)
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

bool mg_json_fail_long(struct mg_json *json)
{
    return mg_json_fail(json, MG_ERR_LIMIT, "a string or a number of more than %d bytes", MG_JSON_MAX_SCALAR);
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
        mg_json_fail_syntax(json, json->at == json->start ? "empty document" : "unexpected end of the document");
        return MG_JSON_END;
    }
    enum mg_json_kind kind = kind_of(*json->at);
    if (kind == MG_JSON_END)
        mg_json_fail_syntax(json, "expected a value");
    return kind;
}

static const char *describe(enum mg_json_kind kind)
{
    static const char *const names[] = {"nothing",  "null",     "a boolean", "a number",
                                        "a string", "an array", "an object"};
    return names[kind];
}

static bool within_bound(struct mg_json *json)
{
    return !json->bound || json->at <= json->bound ||
           mg_json_fail(json, MG_ERR_LIMIT, "one element of more than %d bytes", MG_JSON_MAX_ELEMENT);
}

bool mg_json_begin(struct mg_json *json, enum mg_json_kind kind)
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

/* ---- member names ---- */

static void grow_slots(struct mg_json *json)
{
    struct mg_json_keys *keys = json->keys;
    size_t size = (keys->mask + 1) * 2;
    struct mg_json_key **slots = MG_NEW_ARRAY(json->arena, struct mg_json_key *, size);
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
static struct mg_json_key *new_key(struct mg_json *json, const char *text, size_t size)
{
    enum { POOL = 4096, ALIGN = _Alignof(struct mg_json_key) };
    struct mg_json_keys *keys = json->keys;
    size_t need = (sizeof(struct mg_json_key) + size + 1 + ALIGN - 1) / ALIGN * ALIGN;
    struct mg_json_key *key;
    if (need > POOL / 4) {
        key = mg_arena_alloc(json->arena, need);
    } else {
        if (need > keys->pool_left) {
            keys->pool = mg_arena_alloc(json->arena, POOL);
            keys->pool_left = POOL;
        }
        key = (struct mg_json_key *)(void *)keys->pool;
        keys->pool += need;
        keys->pool_left -= need;
    }
    keys->bytes += need;
    key->size = (uint32_t)size & ((1U << 23) - 1);
    memcpy(key->text, text, size);
    return key;
}

static struct mg_json_key *intern(struct mg_json *json, const char *text, size_t size)
{
    struct mg_json_keys *keys = json->keys;
    uint32_t hash = (uint32_t)mg_hash_bytes(text, size, keys->seed).lo;
    size_t at = hash & keys->mask;
    for (; keys->slots[at]; at = (at + 1) & keys->mask) {
        struct mg_json_key *key = keys->slots[at];
        if (key->hash == hash && key->size == size && !memcmp(key->text, text, size))
            return key;
    }
    struct mg_json_key *key = new_key(json, text, size);
    key->hash = hash;
    keys->slots[at] = key;
    if (++keys->count * 8 > keys->mask * 7)
        grow_slots(json);
    return key;
}

/* Where the guess for the next member is kept: behind the member before it, or inside the one whose value this object
 * is or is listed in. */
static struct mg_json_key **guess_place(struct mg_json *json)
{
    int depth = json->depth - 1;
    if (json->level[depth].started)
        return &json->keys->guess[json->level[depth].key->hash % GUESSES];
    do
        depth--;
    while (depth >= 0 && !json->level[depth].object);
    return &json->keys->guess[depth < 0 ? 0 : (json->level[depth].key->hash + 1) % GUESSES];
}

/* Objects of a kind list the same members in the same order: then no name is searched for. */
static bool take_guess(struct mg_json *json, const struct mg_json_key *guess)
{
    if (!guess || !guess->plain || (size_t)(json->end - json->at) < (size_t)guess->size + 2 || *json->at != '"' ||
        json->at[1 + guess->size] != '"' || memcmp(json->at + 1, guess->text, guess->size) != 0)
        return false;
    json->at += guess->size + 2;
    return true;
}

static struct mg_json_key *read_key(struct mg_json *json)
{
    struct mg_json_span span;
    if (json->at == json->end || *json->at != '"') {
        mg_json_fail_syntax(json, "expected a member name");
        return NULL;
    }
    if (!mg_json_scan_string(json, &span))
        return NULL;
    if (json->keys->bytes > MG_JSON_MAX_NAMES) {
        mg_json_fail(json, MG_ERR_LIMIT, "too many different member names");
        return NULL;
    }
    if (!span.escaped) {
        struct mg_json_key *key = intern(json, span.text, span.size);
        key->plain = true;
        return key;
    }
    char *text = mg_arena_alloc(json->arena, span.size);
    size_t size = mg_json_decode(&span, text);
    if (memchr(text, 0, size)) {
        mg_json_fail_syntax(json, "member name contains U+0000");
        return NULL;
    }
    return intern(json, text, size);
}

static bool open_key(struct mg_json *json, struct mg_json_level *level, struct mg_json_key *key)
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
    if (!mg_json_begin(json, kind))
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
    if (!within_bound(json))
        return false;
    skip_space(json);
    if (accept(json, object ? '}' : ']')) {
        if (object)
            close_keys(json, level);
        json->depth--;
        return false;
    }
    if (!level->started)
        return json->at < json->end || mg_json_fail_syntax(json, "unexpected end of the document");
    if (!accept(json, ','))
        return mg_json_fail_syntax(json, object ? "expected ',' or '}'" : "expected ',' or ']'");
    skip_space(json);
    return true;
}

bool mg_json_next_member(struct mg_json *json, const char **key)
{
    if (!advance(json, true))
        return false;
    struct mg_json_level *level = &json->level[json->depth - 1];
    struct mg_json_key **guess = guess_place(json), *found = *guess;
    if (!take_guess(json, found))
        found = read_key(json);
    if (!found || !open_key(json, level, found))
        return false;
    *guess = found;
    skip_space(json);
    if (!accept(json, ':'))
        return mg_json_fail_syntax(json, "expected ':'");
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
    struct mg_json_span span;
    if (!mg_json_begin(json, MG_JSON_STRING) || !mg_json_scan_string(json, &span))
        return false;
    char *text = mg_arena_alloc(json->arena, span.size + 1);
    size_t length = span.size;
    if (span.escaped)
        length = mg_json_decode(&span, text);
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

static bool read_word(struct mg_json *json, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(json->end - json->at) < size || memcmp(json->at, word, size) != 0)
        return mg_json_fail_syntax(json, "expected a value");
    json->at += size;
    return true;
}

bool mg_json_bool(struct mg_json *json, bool *out)
{
    if (!mg_json_begin(json, MG_JSON_BOOL))
        return false;
    *out = *json->at == 't';
    return read_word(json, *out ? "true" : "false");
}

bool mg_json_null(struct mg_json *json)
{
    return mg_json_begin(json, MG_JSON_NULL) && read_word(json, "null");
}

bool mg_json_finish(struct mg_json *json)
{
    if (json->err.code)
        return false;
    if (json->depth)
        return mg_json_fail(json, MG_ERR_INTERNAL, "the document was not read to its end");
    skip_space(json);
    return json->at == json->end || mg_json_fail_syntax(json, "text after the document");
}
