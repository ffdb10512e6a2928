/* If-Match of a change (RFC 9110, 13.1.1): which revisions of its job it may meet. Tags are those of GET /jobs/{id},
 * and compared as strong ones. */
#include <stdlib.h>
#include <string.h>

#include "server/jobs_priv.h"

static void add_tag(struct mg_call *call, const char *tag, size_t size)
{
    size_t id = strlen(call->id), most = sizeof call->revisions / sizeof *call->revisions;
    if (size <= id + 1 || size > id + 19 || strncmp(tag, call->id, id) != 0 || tag[id] != '-')
        return;
    const char *digits = tag + id + 1;
    if (*digits != '0' && strspn(digits, "0123456789") == size - id - 1 && call->revision_count < most)
        call->revisions[call->revision_count++] = strtoll(digits, NULL, 10);
}

static bool read_tags(struct mg_call *call, const char *at)
{
    do {
        bool weak = strncmp(at, "W/", 2) == 0;
        at += weak ? 2 : 0;
        const char *end = *at == '"' ? strchr(at + 1, '"') : NULL;
        if (!end)
            return false;
        if (!weak)
            add_tag(call, at + 1, (size_t)(end - at - 1));
        at = end + 1 + strspn(end + 1, " \t");
        if (*at && *at != ',')
            return false;
        at += strspn(at, ", \t");
    } while (*at);
    return true;
}

bool mg_call_match(struct mg_call *call, const char *if_match)
{
    if (!if_match || strcmp(if_match, "*") == 0) /* that there is none is told all the same */
        return true;
    call->conditional = true;
    if (read_tags(call, if_match))
        return true;
    mg_reply_fail(&call->reply, "bad-request", "", "If-Match is * or a list of tags in quotes, such as \"%s-1\"",
                  call->id);
    return false;
}
