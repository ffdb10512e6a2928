/* The router: a table (routes.def), matched segment by segment; the description of the interface
 * (OpenAPI 3.1) is written from the same table. */
#include "server/http_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes.h"
#include "server/version.h"

const struct mg_route mg_routes[] = {
#define ROUTE(method, pattern, role, body, query, handler, summary)                                                    \
    {method, pattern, MG_ROLE_##role, MG_BODY_##body, query, handler, summary},
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

/* ---- description ---- */

static void write_parameter(struct mg_writer *w, const char *name, size_t length, const char *in)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", text);
    mg_write_member_string(w, "in", in);
    if (!strcmp(in, "path"))
        mg_write_member_bool(w, "required", true);
    mg_write_key(w, "schema");
    mg_write_begin_object(w);
    mg_write_member_string(w, "type", "string");
    mg_write_end_object(w);
    mg_write_end_object(w);
}

static void write_parameters(struct mg_writer *w, const struct mg_route *route)
{
    mg_write_key(w, "parameters");
    mg_write_begin_array(w);
    for (const char *at = strchr(route->pattern, '{'); at; at = strchr(at + 1, '{'))
        write_parameter(w, at + 1, strcspn(at + 1, "}"), "path");
    if (strchr(route->pattern, '*'))
        write_parameter(w, "file", 4, "path");
    for (const char *at = route->query; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        write_parameter(w, at, word, "query");
        at += word;
    }
    mg_write_end_array(w);
}

static void write_content(struct mg_writer *w, const char *media_type)
{
    mg_write_key(w, "content");
    mg_write_begin_object(w);
    mg_write_key(w, media_type);
    mg_write_begin_object(w);
    mg_write_key(w, "schema");
    mg_write_begin_object(w);
    mg_write_end_object(w);
    mg_write_end_object(w);
    mg_write_end_object(w);
}

static void write_response(struct mg_writer *w, const char *status, const char *text, const char *media_type)
{
    mg_write_key(w, status);
    mg_write_begin_object(w);
    mg_write_member_string(w, "description", text);
    if (media_type)
        write_content(w, media_type);
    mg_write_end_object(w);
}

static const char *role_name(enum mg_role role)
{
    static const char *const names[] = {"public", "read", "submit", "measure", "admin"};
    return names[role];
}

static void write_operation(struct mg_writer *w, const struct mg_route *route)
{
    char method[8] = "";
    for (size_t k = 0; route->method[k] && k < sizeof method - 1; k++)
        method[k] = (char)(route->method[k] - 'A' + 'a');
    mg_write_key(w, method);
    mg_write_begin_object(w);
    mg_write_member_string(w, "summary", route->summary);
    mg_write_member_string(w, "x-role", role_name(route->role));
    write_parameters(w, route);
    if (route->body != MG_BODY_NONE) {
        mg_write_key(w, "requestBody");
        mg_write_begin_object(w);
        mg_write_member_bool(w, "required", true);
        write_content(w, "application/json");
        mg_write_end_object(w);
    }
    mg_write_key(w, "responses");
    mg_write_begin_object(w);
    write_response(w, "2XX", "As the summary says", NULL);
    write_response(w, "default", "A problem document (RFC 9457)", "application/problem+json");
    mg_write_end_object(w);
    mg_write_end_object(w);
}

static void write_info(struct mg_writer *w)
{
    mg_write_member_string(w, "openapi", "3.1.0");
    mg_write_key(w, "info");
    mg_write_begin_object(w);
    mg_write_member_string(w, "title", "magisd");
    mg_write_member_string(w, "version", MG_VERSION);
    mg_write_member_string(w, "description",
                           "Plans memory for neural networks. Every path is also served under /v1. Requests whose "
                           "framing cannot be read, or whose headers are longer than the limit, are answered by the "
                           "HTTP library itself (400, 413, 414, 431, 501, 505) with a short HTML text.");
    mg_write_end_object(w);
    mg_write_key(w, "x-problems");
    mg_problem_list(w);
}

static void write_path_name(struct mg_writer *w, const char *pattern)
{
    char name[128];
    size_t length = strlen(pattern);
    bool rest = length && pattern[length - 1] == '*';
    snprintf(name, sizeof name, "%.*s%s", (int)(rest ? length - 1 : length), pattern, rest ? "{file}" : "");
    mg_write_key(w, name);
}

bool mg_route_describe(struct mg_writer *w)
{
    mg_write_begin_object(w);
    write_info(w);
    mg_write_key(w, "paths");
    mg_write_begin_object(w);
    for (size_t k = 0; k < mg_route_count;) {
        const char *pattern = mg_routes[k].pattern;
        write_path_name(w, pattern);
        mg_write_begin_object(w);
        for (; k < mg_route_count && !strcmp(mg_routes[k].pattern, pattern); k++)
            write_operation(w, &mg_routes[k]);
        mg_write_end_object(w);
    }
    mg_write_end_object(w);
    mg_write_end_object(w);
    return !w->failed;
}
