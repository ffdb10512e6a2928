#include "formats/members.h"

#include <stdio.h>
#include <string.h>

enum { BEGINNING = 1 << 20 };

bool mg_parse_ignored(struct mg_json *json, void *into)
{
    enum mg_json_kind kind = mg_json_peek(json);
    (void)into;
    if (kind == MG_JSON_OBJECT || kind == MG_JSON_ARRAY)
        return mg_json_fail(json, MG_ERR_INVALID, "a text, a number, a truth value or null is expected");
    return mg_json_skip(json, NULL, NULL);
}

bool mg_parse_members(struct mg_json *json, const char *what, const struct mg_member *members, size_t count, void *into)
{
    uint32_t seen = 0;
    size_t next = 0; /* most come in the order of the table */
    const char *key;
    if (!mg_json_enter_object(json))
        return false;
    while (mg_json_next_member(json, &key)) {
        size_t at = next, tried = 0;
        for (; tried < count && strcmp(members[at].key, key) != 0; tried++)
            at = at + 1 < count ? at + 1 : 0;
        if (tried == count)
            return mg_json_fail(json, MG_ERR_INVALID, "%s has no member \"%.100s\"", what, key);
        if (!members[at].parse(json, into))
            return false;
        seen |= 1U << at;
        next = at + 1 < count ? at + 1 : 0;
    }
    for (size_t i = 0; i < count; i++)
        if (members[i].required && !(seen & 1U << i))
            return mg_json_fail(json, MG_ERR_INVALID, "%s lacks the member \"%s\"", what, members[i].key);
    return json->err.code == MG_OK;
}

bool mg_parse_word(struct mg_json *json, const char *what, const char *const *words, size_t count, size_t *out)
{
    const char *text;
    char known[200] = "";
    if (!mg_json_string(json, &text, NULL))
        return false;
    for (*out = 0; *out < count; ++*out) {
        if (strcmp(words[*out], text) == 0)
            return true;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", words[*out]);
    }
    return mg_json_fail(json, MG_ERR_INVALID, "\"%.60s\" is no %s; there are %s", text, what, known);
}

bool mg_parse_shape(struct mg_json *json, struct mg_shape *out)
{
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        int64_t size;
        if (!mg_json_int(json, &size))
            return false;
        if (size < 0)
            return mg_json_fail(json, MG_ERR_INVALID, "a dimension cannot be negative: %lld", (long long)size);
        if (out->rank == MG_MAX_RANK)
            return mg_json_fail(json, MG_ERR_LIMIT, "a shape has at most %d dimensions", MG_MAX_RANK);
        out->dim[out->rank++] = size;
    }
    return json->err.code == MG_OK;
}

bool mg_parse_dtype(struct mg_json *json, enum mg_dtype *out)
{
    const char *text;
    if (!mg_json_string(json, &text, NULL))
        return false;
    *out = mg_dtype_from_name(text);
    if (*out == MG_DTYPE_COUNT)
        return mg_json_fail(json, MG_ERR_INVALID,
                            "\"%.60s\" is no dtype; there are f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, "
                            "u8, u16, u32, u64, bool",
                            text);
    return true;
}

bool mg_is_digest(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

const char *mg_document_format(const char *json, size_t size, struct mg_arena *arena)
{
    struct mg_json reader;
    const char *key, *text;
    mg_json_init(&reader, arena, json, size < BEGINNING ? size : BEGINNING);
    if (!mg_json_enter_object(&reader))
        return "";
    while (mg_json_next_member(&reader, &key)) {
        if (strcmp(key, "format") == 0)
            return mg_json_string(&reader, &text, NULL) ? text : "";
        if (!mg_json_skip(&reader, NULL, NULL))
            return "";
    }
    return "";
}
