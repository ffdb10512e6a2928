/* The router: a table (routes.def), matched segment by segment; the description of the interface
 * (OpenAPI 3.1, http_describe.c) is written from the same table. */
#include "server/http_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes.h"

const struct mg_route mg_routes[] = {
#define ROUTE(method, pattern, role, body, query, handler, request, answer, summary)                                   \
    {method, pattern, MG_ROLE_##role, MG_BODY_##body, query, handler, request, answer, summary},
#include "server/routes.def"
#undef ROUTE
};
const size_t mg_route_count = sizeof mg_routes / sizeof *mg_routes;

static bool matches(const char *pattern, const char *path)
{
    while (*pattern && *path) {
        if (*pattern == '*')
            return true;
        if (*pattern == '{') {
            size_t length = strcspn(path, "/");
            if (!length)
                return false;
            path += length;
            pattern += strcspn(pattern, "}") + 1;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return !*path && (!*pattern || *pattern == '*');
}

/* The parts of a path that matches, each ended by NUL. */
static void cut(const char *pattern, char *path, const char **part)
{
    unsigned count = 0;
    while (*pattern && *path && count < MG_MAX_PARTS) {
        if (*pattern == '*')
            break;
        if (*pattern != '{') {
            pattern++;
            path++;
            continue;
        }
        part[count++] = path;
        path += strcspn(path, "/");
        pattern += strcspn(pattern, "}") + 1;
        if (!*path)
            return;
        *path++ = 0;
        pattern += *pattern == '/';
    }
    if (*pattern == '*' && count < MG_MAX_PARTS)
        part[count] = path;
}

static void allow_method(char *allow, size_t size, const char *method)
{
    size_t used = strlen(allow);
    snprintf(allow + used, size - used, "%s%s%s", used ? ", " : "", method, strcmp(method, "GET") ? "" : ", HEAD");
}

const struct mg_route *mg_route_find(const char *method, char *path, const char **part, char *allow, size_t size)
{
    *allow = 0;
    for (size_t k = 0; k < mg_route_count; k++) {
        const struct mg_route *route = &mg_routes[k];
        if (!matches(route->pattern, path))
            continue;
        if (!strcmp(route->method, method)) {
            cut(route->pattern, path, part);
            return route;
        }
        allow_method(allow, size, route->method);
    }
    if (*allow)
        allow_method(allow, size, "OPTIONS");
    return NULL;
}
