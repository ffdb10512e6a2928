/* Small bodies of requests; what is wrong with them is replied with its place. */
#include <jansson.h>

#include "server/http.h"
#include "server/routes.h"
#include "server/small_json.h"

json_t *mg_route_body(struct mg_request *req, const struct mg_member *known)
{
    size_t size;
    struct mg_error err = {.code = MG_OK};
    const char *body = mg_request_body(req, &size);
    json_t *root = mg_small_json_read(body, size, &err);
    if (root && mg_small_json_check(root, known, &err) == MG_OK)
        return root;
    mg_reply_problem(req, root ? "invalid-request" : "invalid-json", err.pointer, "%s", err.message);
    json_decref(root);
    return NULL;
}
