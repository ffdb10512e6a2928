/* GET /zoo: the built-in networks. */
#include "server/http.h"
#include "server/routes.h"
#include "zoo/zoo.h"

static void write_network(struct mg_writer *w, const struct mg_zoo_entry *entry)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", entry->name);
    mg_write_member_string(w, "title", entry->title);
    mg_write_key(w, "parameters");
    mg_write_begin_array(w);
    for (uint32_t k = 0; k < entry->parameter_count; k++) {
        mg_write_begin_object(w);
        mg_write_member_string(w, "name", entry->parameters[k].name);
        mg_write_member_string(w, "default", entry->parameters[k].fallback);
        mg_write_member_string(w, "help", entry->parameters[k].help);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
    mg_write_end_object(w);
}

void mg_route_zoo(struct mg_request *req)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_key(&w, "networks");
    mg_write_begin_array(&w);
    for (uint32_t k = 0; k < mg_zoo_count(); k++)
        write_network(&w, mg_zoo_at(k));
    mg_write_end_array(&w);
    mg_write_end_object(&w);
    mg_reply_json(req, 200, &w);
}
