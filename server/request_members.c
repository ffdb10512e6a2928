/* Objects by table, and the kinds of members that many of them have. */
#include <stdio.h>
#include <string.h>

#include "server/request_priv.h"

static bool unknown_member(struct mg_json *json, const char *key, const struct mg_request_member *members, size_t count)
{
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", members[i].name);
    return mg_json_fail(json, MG_ERR_INVALID, "unknown member \"%s\"; known: %s", key, list);
}

bool mg_request_read_members(struct mg_request_reader *r, const struct mg_request_member *members, size_t count)
{
    const char *key;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        size_t i = 0;
        while (i < count && strcmp(members[i].name, key) != 0)
            i++;
        if (i == count)
            return unknown_member(r->json, key, members, count);
        r->member = members[i].name;
        if (!members[i].read(r, (char *)r->request + members[i].offset))
            return false;
    }
    return r->json->err.code == MG_OK;
}

/* ---- scalars ---- */

bool mg_request_read_text(struct mg_request_reader *r, void *into)
{
    const char **out = into;
    size_t size;
    if (!mg_json_string(r->json, out, &size))
        return false;
    if (size > 200 || strlen(*out) != size)
        return mg_json_fail(r->json, MG_ERR_INVALID, "a text of at most 200 bytes without NUL is expected");
    return true;
}

bool mg_request_read_uint(struct mg_request_reader *r, void *into)
{
    uint64_t *out = into;
    if (!mg_json_uint(r->json, out))
        return false;
    return *out <= (uint64_t)INT64_MAX || mg_json_fail(r->json, MG_ERR_INVALID, "the number is too large");
}

bool mg_request_read_count(struct mg_request_reader *r, void *into)
{
    uint64_t *out = into;
    return mg_request_read_uint(r, into) && (*out > 0 || mg_json_fail(r->json, MG_ERR_INVALID, "must be at least 1"));
}

bool mg_request_read_positive(struct mg_request_reader *r, void *into)
{
    double *out = into;
    if (!mg_json_double(r->json, out))
        return false;
    return (*out >= 1e-15 && *out < 1e15) ||
           mg_json_fail(r->json, MG_ERR_INVALID, "must be a number greater than 0 (from 1e-15 to below 1e15)");
}

bool mg_request_read_flag(struct mg_request_reader *r, void *into)
{
    return mg_json_bool(r->json, into);
}

/* A member of the interface whose feature this version does not have. */
bool mg_request_refuse(struct mg_request_reader *r, void *into)
{
    (void)into;
    return mg_json_fail(r->json, MG_ERR_UNSUPPORTED, "%s is not supported by this version", r->member);
}

bool mg_request_refuse_true(struct mg_request_reader *r, void *into)
{
    bool value;
    return mg_json_bool(r->json, &value) && (!value || mg_request_refuse(r, into));
}

/* Reads a text and returns its index in `words`, or -1 after an error that lists them. */
int mg_request_read_word(struct mg_request_reader *r, const char *const *words, int count)
{
    const char *text;
    char list[200] = "";
    size_t used = 0;
    if (!mg_json_string(r->json, &text, NULL))
        return -1;
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    for (int i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    mg_json_fail(r->json, MG_ERR_INVALID, "\"%.40s\" is none of: %s", text, list);
    return -1;
}
