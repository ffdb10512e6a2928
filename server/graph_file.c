#include "server/graph_file.h"

#include <string.h>

enum { BEGINNING = 512, LOOKED_AT = 1 << 20 };

bool mg_graph_file_is_text(const char *data, size_t size)
{
    for (size_t i = 0; i < size && i < BEGINNING; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r'))
            return false;
    }
    return true;
}

static bool is_blank(const char *data, size_t size)
{
    size_t at = 0;
    while (at < size && strchr(" \t\r\n", data[at]) && data[at])
        at++;
    return at == size;
}

static enum mg_held kind_of(const char *format)
{
    if (strncmp(format, "magis-plan/", 11) == 0)
        return MG_HELD_PLAN;
    bool graph = strncmp(format, "magis-graph/", 12) == 0 || strncmp(format, "magis-aten/", 11) == 0;
    return graph ? MG_HELD_GRAPH : MG_HELD_JSON;
}

static enum mg_held object_holds(struct mg_json *json)
{
    enum mg_held held = MG_HELD_JSON;
    const char *key, *format;
    if (!mg_json_enter_object(json))
        return held;
    while (mg_json_next_member(json, &key)) {
        if (strcmp(key, "format") != 0 || mg_json_peek(json) != MG_JSON_STRING)
            mg_json_skip(json, NULL, NULL);
        else if (mg_json_string(json, &format, NULL))
            return kind_of(format);
    }
    return held;
}

enum mg_held mg_graph_file_holds(const char *data, size_t size, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_json json;
    enum mg_held held = MG_HELD_JSON;
    bool whole = size <= LOOKED_AT;
    if (!mg_graph_file_is_text(data, size))
        return MG_HELD_BYTES;
    if (is_blank(data, size))
        return MG_HELD_NOTHING;
    mg_json_init(&json, arena, data, whole ? size : LOOKED_AT);
    if (mg_json_peek(&json) == MG_JSON_OBJECT)
        held = object_holds(&json);
    else
        mg_json_skip(&json, NULL, NULL);
    if (!json.err.code && held == MG_HELD_JSON)
        (void)!mg_json_finish(&json);
    *err = json.err;
    return json.err.code && whole ? MG_HELD_TEXT : held;
}
