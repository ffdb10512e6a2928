#include "server/small_json.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { MAX_TEXT = 200, ROOM = 8 << 20 };

struct reading {
    const char *text;
    size_t size;
    struct mg_arena arena;
};

static const char *kind_name(enum mg_json_kind kind)
{
    static const char *const names[] = {
        [MG_JSON_END] = "nothing",     [MG_JSON_NULL] = "null",     [MG_JSON_BOOL] = "a bool",
        [MG_JSON_NUMBER] = "a number", [MG_JSON_STRING] = "a text", [MG_JSON_ARRAY] = "an array",
        [MG_JSON_OBJECT] = "an object"};
    return names[kind];
}

/* Our own reader tells the place, and what it expected there; jansson's only a word of its own. */
static enum mg_code inspect(void *context, struct mg_error *err)
{
    struct reading *r = context;
    struct mg_json json;
    mg_json_init(&json, &r->arena, r->text, r->size);
    if (r->size == 0)
        return mg_fail(err, MG_ERR_SYNTAX, "", "the body is empty; a JSON object is expected");
    enum mg_json_kind kind = mg_json_peek(&json);
    if (mg_json_skip(&json, NULL, NULL) && mg_json_finish(&json) && kind != MG_JSON_OBJECT)
        return mg_fail(err, MG_ERR_SYNTAX, "", "a JSON object is expected, not %s", kind_name(kind));
    return json.err.code == MG_OK ? MG_OK : mg_fail(err, MG_ERR_SYNTAX, json.err.pointer, "%s", json.err.message);
}

json_t *mg_small_json_read(const char *text, size_t size, struct mg_error *err)
{
    struct reading r = {.text = text, .size = size};
    json_error_t why;
    mg_arena_init(&r.arena, ROOM);
    enum mg_code code = mg_arena_guard(&r.arena, inspect, &r, err);
    mg_arena_release(&r.arena);
    if (code != MG_OK)
        return NULL;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        mg_fail(err, MG_ERR_SYNTAX, "", "%s (line %d, column %d)", why.text, why.line, why.column);
    return root;
}

/* NULL, or what is expected. */
static const char *expected(const struct mg_member *member, const json_t *value)
{
    switch (member->type) {
    case MG_MEMBER_TEXT:
        if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
            return "a text without NUL is expected";
        if (json_is_string(value) && json_string_length(value) > MAX_TEXT)
            return "the text is too long; at most 200 bytes are expected";
        return json_is_string(value) ? NULL : "a text is expected";
    case MG_MEMBER_NUMBER:
        return json_is_number(value) ? NULL : "a number is expected";
    case MG_MEMBER_INTEGER:
        return json_is_integer(value) ? NULL : "a whole number is expected";
    case MG_MEMBER_BOOL:
        return json_is_boolean(value) ? NULL : "true or false is expected";
    default:
        return json_is_object(value) ? NULL : "an object is expected";
    }
}

/* As RFC 6901 has it. */
static void point_at(const char *key, char *out, size_t size)
{
    size_t used = 0;
    out[used++] = '/';
    for (const char *c = key; *c && used + 3 < size; c++) {
        if (*c == '~' || *c == '/')
            out[used++] = '~';
        out[used++] = *c == '~' ? '0' : *c == '/' ? '1' : *c;
    }
    out[used] = '\0';
}

enum mg_code mg_small_json_check(const json_t *object, const struct mg_member *members, struct mg_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const struct mg_member *member = members;
        while (member->name && strcmp(member->name, key) != 0)
            member++;
        const char *wrong = member->name ? expected(member, value) : "unknown member";
        if (wrong) {
            char pointer[128];
            point_at(key, pointer, sizeof pointer);
            return mg_fail(err, MG_ERR_INVALID, pointer, "%s", wrong);
        }
    }
    return MG_OK;
}
