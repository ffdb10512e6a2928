/* GET /openapi.json: written from the tables of routes, parameters and problems, and schemas.json. */
#include <stdio.h>
#include <string.h>

#include "server/http_priv.h"
#include "server/version.h"

static const struct parameter {
    const char *name, *schema, *description;
} parameters[] = {
#define PARAMETER(name, schema, description) {name, schema, description},
#include "server/parameters.def"
#undef PARAMETER
};

static void write_parameter(struct mg_writer *w, const char *name, size_t length, bool in_path)
{
    for (size_t k = 0; k < sizeof parameters / sizeof *parameters; k++) {
        const struct parameter *p = &parameters[k];
        if (strlen(p->name) != length || strncmp(p->name, name, length) != 0)
            continue;
        mg_write_begin_object(w);
        mg_write_member_string(w, "name", p->name);
        mg_write_member_string(w, "in", in_path ? "path" : "query");
        mg_write_member_string(w, "description", p->description);
        if (in_path)
            mg_write_member_bool(w, "required", true);
        mg_write_key(w, "schema");
        mg_write_raw(w, p->schema, strlen(p->schema));
        mg_write_end_object(w);
    }
}

static void write_parameters(struct mg_writer *w, const struct mg_route *route)
{
    mg_write_key(w, "parameters");
    mg_write_begin_array(w);
    for (const char *at = strchr(route->pattern, '{'); at; at = strchr(at + 1, '{'))
        write_parameter(w, at + 1, strcspn(at + 1, "}"), true);
    if (strchr(route->pattern, '*'))
        write_parameter(w, "file", 4, true);
    for (const char *at = route->query; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        write_parameter(w, at, word, false);
        at += word;
    }
    mg_write_end_array(w);
}

static void write_media(struct mg_writer *w, const char *media_type, const char *schema)
{
    char reference[80];
    snprintf(reference, sizeof reference, "#/components/schemas/%s", schema);
    mg_write_key(w, media_type);
    mg_write_begin_object(w);
    mg_write_key(w, "schema");
    mg_write_begin_object(w);
    mg_write_member_string(w, "$ref", reference);
    mg_write_end_object(w);
    mg_write_end_object(w);
}

static void write_content(struct mg_writer *w, const char *media_type, const char *schema)
{
    mg_write_key(w, "content");
    mg_write_begin_object(w);
    write_media(w, media_type, schema);
    mg_write_end_object(w);
}

static void write_response(struct mg_writer *w, const char *status, const char *text, const char *media_type,
                           const char *schema)
{
    mg_write_key(w, status);
    mg_write_begin_object(w);
    mg_write_member_string(w, "description", text);
    if (*schema)
        write_content(w, media_type, schema);
    mg_write_end_object(w);
}

static const char *role_name(enum mg_role role)
{
    static const char *const names[] = {"public", "read", "submit", "measure", "admin"};
    return names[role];
}

static void write_request(struct mg_writer *w, const struct mg_route *route)
{
    if (route->body == MG_BODY_NONE)
        return;
    mg_write_key(w, "requestBody");
    mg_write_begin_object(w);
    mg_write_member_bool(w, "required", true);
    mg_write_key(w, "content");
    mg_write_begin_object(w);
    write_media(w, "application/json", *route->request ? route->request : "Any");
    if (route->body == MG_BODY_LARGE) {
        write_media(w, "application/onnx", "Model");
        write_media(w, "application/octet-stream", "Model");
        write_media(w, "multipart/form-data", "ModelForm");
    }
    mg_write_end_object(w);
    mg_write_end_object(w);
}

static void write_operation(struct mg_writer *w, const struct mg_route *route)
{
    char method[8] = "";
    for (size_t k = 0; k < sizeof method - 1 && route->method[k]; k++)
        method[k] = (char)(route->method[k] - 'A' + 'a');
    mg_write_key(w, method);
    mg_write_begin_object(w);
    mg_write_member_string(w, "summary", route->summary);
    mg_write_member_string(w, "x-role", role_name(route->role));
    write_parameters(w, route);
    write_request(w, route);
    mg_write_key(w, "responses");
    mg_write_begin_object(w);
    write_response(w, "2XX", route->summary, "application/json", route->answer);
    write_response(w, "default", "What went wrong (RFC 9457)", "application/problem+json", "Problem");
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

static void write_paths(struct mg_writer *w)
{
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
}

bool mg_route_describe(struct mg_writer *w)
{
    mg_write_begin_object(w);
    write_info(w);
    write_paths(w);
    mg_write_key(w, "components");
    mg_write_begin_object(w);
    mg_write_key(w, "schemas");
    mg_write_raw(w, mg_schemas, strlen(mg_schemas));
    mg_write_end_object(w);
    mg_write_end_object(w);
    return !w->failed;
}
