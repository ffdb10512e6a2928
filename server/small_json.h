/* Small bodies as jansson's values: what is wrong with them is told with its place, as it is of graphs. */
#ifndef MG_SERVER_SMALL_JSON_H
#define MG_SERVER_SMALL_JSON_H

#include <jansson.h>

#include "base/error.h"

enum mg_member_type { MG_MEMBER_TEXT, MG_MEMBER_NUMBER, MG_MEMBER_INTEGER, MG_MEMBER_BOOL, MG_MEMBER_OBJECT };

/* A member that an object may have; lists end with a name of NULL. Texts have at most 200 bytes. */
struct mg_member {
    const char *name;
    enum mg_member_type type;
};

/* An object (the caller's), or NULL with *err: MG_ERR_SYNTAX with line and column where there is no object. */
json_t *mg_small_json_read(const char *text, size_t size, struct mg_error *err);
/* MG_ERR_INVALID with the pointer of a member that is not in the list or of another type. */
enum mg_code mg_small_json_check(const json_t *object, const struct mg_member *members,
                                 struct mg_error *err) MG_WARN_UNUSED;

#endif
