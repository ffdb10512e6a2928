/* Objects by table, and the small things that graph formats share. All return false after failing the reader. */
#ifndef MG_FORMATS_MEMBERS_H
#define MG_FORMATS_MEMBERS_H

#include "base/json.h"
#include "graph/graph.h"

enum { MG_MAX_OPERANDS = UINT16_MAX }; /* of one operator or node */

struct mg_member {
    const char *key;
    bool (*parse)(struct mg_json *json, void *into);
    bool required;
};
/* An object with these members (at most 32), in any order; `what` names it in messages. */
bool mg_parse_members(struct mg_json *json, const char *what, const struct mg_member *members, size_t count,
                      void *into);
#define MG_PARSE_MEMBERS(json, what, members, into)                                                                    \
    mg_parse_members(json, what, members, sizeof(members) / sizeof *(members), into)

/* One of a list of words; its index. */
bool mg_parse_word(struct mg_json *json, const char *what, const char *const *words, size_t count, size_t *out);
#define MG_PARSE_WORD(json, what, out, ...)                                                                            \
    mg_parse_word(json, what, (const char *const[]){__VA_ARGS__},                                                      \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), out)

/* A text, number, truth value or null that says nothing here. */
bool mg_parse_ignored(struct mg_json *json, void *into);
bool mg_parse_shape(struct mg_json *json, struct mg_shape *out); /* appends to *out, which is empty */
bool mg_parse_dtype(struct mg_json *json, enum mg_dtype *out);
bool mg_is_digest(const char *text); /* 64 lower-case hexadecimal digits */
/* The member "format" of a document, or "" where its first MiB has none that can be read; memory from `arena`. */
const char *mg_document_format(const char *json, size_t size, struct mg_arena *arena);

#endif
