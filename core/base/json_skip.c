/* Values that are passed over, and what those that are read may cost. */
#include "base/json.h"
#include "base/json_priv.h"

/* What an arena may hold: so much at first, and so many bytes for each byte of text that was read. */
enum { FIRST_BYTES = 15 << 20, FACTOR = 16 };

void mg_json_begin_element(struct mg_json *json)
{
    size_t limit = json->arena_base + FIRST_BYTES + FACTOR * (size_t)(json->at - json->start);
    json->bound = json->end - json->at > MG_JSON_MAX_ELEMENT ? json->at + MG_JSON_MAX_ELEMENT : NULL;
    json->arena->limit = limit < json->arena_limit ? limit : json->arena_limit;
}

void mg_json_end_elements(struct mg_json *json)
{
    json->bound = NULL;
    json->arena->limit = json->arena_limit;
}

static bool skip_scalar(struct mg_json *json, enum mg_json_kind kind)
{
    struct mg_json_span span;
    struct mg_json_number number;
    bool truth;
    switch (kind) {
    case MG_JSON_STRING:
        return mg_json_begin(json, kind) && mg_json_scan_string(json, &span);
    case MG_JSON_NUMBER:
        return mg_json_begin(json, kind) && mg_json_scan_number(json, &number);
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
    return kind == MG_JSON_OBJECT  ? mg_json_enter_object(json)
           : kind == MG_JSON_ARRAY ? mg_json_enter_array(json)
                                   : skip_scalar(json, kind);
}

bool mg_json_skip(struct mg_json *json, const char **text, size_t *size)
{
    const char *key, *start;
    int depth = json->depth;
    (void)mg_json_peek(json); /* past white space */
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

/* Past the string whose opening quote is at p; `end` if it does not end. */
static const char *string_end(const char *p, const char *end)
{
    p++;
    while ((p = mg_json_plain_end(p, end)) < end && *p != '"')
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    return p < end ? p + 1 : end;
}

bool mg_json_extent(struct mg_json *json, const char **text, size_t *size)
{
    enum mg_json_kind kind = mg_json_peek(json);
    if (kind != MG_JSON_OBJECT && kind != MG_JSON_ARRAY)
        return mg_json_skip(json, text, size);
    if (!mg_json_begin(json, kind))
        return false;
    const char *p = json->at;
    size_t open = 0;
    do {
        if (*p == '"') {
            p = string_end(p, json->end);
            continue;
        }
        open += *p == '{' || *p == '[';
        open -= *p == '}' || *p == ']';
        p++;
    } while (open && p < json->end);
    *text = json->at;
    *size = (size_t)(p - json->at);
    json->at = p;
    return !open || mg_json_fail_syntax(json, "unexpected end of the document");
}
