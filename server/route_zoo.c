/* GET /zoo: the built-in networks. */
#include "server/answer.h"
#include "server/http.h"
#include "server/routes.h"

void mg_route_zoo(struct mg_request *req)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_answer_write_zoo(&w);
    mg_reply_json(req, 200, &w);
}
