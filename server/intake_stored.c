/* What is stored: graphs and plans in the formats asked for, what is to be measured for a graph, a front's new prices.
 */
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "formats/formats.h"
#include "server/intake_question.h"
#include "server/pack.h"
#include "server/plan_blob.h"
#include "server/reprice.h"
#include "server/timeline.h"
#include "server/timing_pack.h"
#include "server/timing_want.h"

enum { MAX_GRAPH = 1 << 30 };

static const char *part(const struct mg_intake_ask *a, unsigned which, size_t *size)
{
    uint64_t at = 0;
    for (unsigned i = 0; i < which; i++)
        at += a->question->part_size[i];
    *size = a->question->part_size[which];
    return at + *size <= a->input_size ? a->input + at : NULL;
}

static enum mg_code read_stored_graph(struct mg_intake_ask *a, struct mg_error *err)
{
    size_t packed_size, size;
    char *text;
    const char *packed = part(a, 1, &packed_size);
    if (!packed || !mg_unpack(packed, packed_size, MAX_GRAPH, &text, &size))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the stored graph is damaged");
    const char *copy = mg_arena_copy(&a->arena, text, size + 1);
    free(text);
    struct mg_training training;
    bool has_training = false;
    struct mg_graph *built;
    enum mg_code code = mg_graph_read(copy, size, &a->arena, &built, &training, &has_training, err);
    return code == MG_OK ? mg_graph_normalise(built, &a->arena, &a->graph, err) : code;
}

enum mg_code mg_intake_graph(struct mg_intake_ask *a, struct mg_error *err)
{
    size_t packed_size, size;
    if (mg_intake_is(a, "format", "dot")) {
        enum mg_code code = read_stored_graph(a, err);
        if (code == MG_OK)
            mg_graph_write_dot(&a->body, a->graph);
        return code;
    }
    const char *packed = part(a, 1, &packed_size);
    if (!packed || !mg_unpack(packed, packed_size, MAX_GRAPH, (char **)&a->blob, &size))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the stored graph is damaged");
    a->blob_size = size;
    return MG_OK;
}

static enum mg_code answer_formats(struct mg_intake_ask *a, const struct mg_plan *plan, struct mg_error *err)
{
    mg_write_begin_object(&a->body);
    mg_write_key(&a->body, "formats");
    enum mg_code code = mg_export_write_formats(&a->body, a->graph, plan, &a->arena, err);
    mg_write_member_bool(&a->body, "captured", a->graph->source != NULL);
    mg_write_end_object(&a->body);
    return code;
}

enum mg_code mg_intake_plan(struct mg_intake_ask *a, struct mg_error *err)
{
    struct mg_plan *plan;
    size_t size;
    const char *blob = part(a, 2, &size);
    enum mg_code code = read_stored_graph(a, err);
    if (code == MG_OK && !blob)
        code = mg_fail(err, MG_ERR_INTERNAL, "", "the stored plan is missing");
    if (code == MG_OK)
        code = mg_plan_unpack(blob, size, &a->arena, &plan, err);
    if (code == MG_OK)
        code = mg_plan_derive(a->graph, plan, &a->arena, err);
    if (code != MG_OK)
        return code;
    if (a->question->kind == MG_INTAKE_TIMELINE)
        return mg_timeline_write(&a->body, a->graph, plan, &a->arena, err);
    if (a->question->kind == MG_INTAKE_FORMATS)
        return answer_formats(a, plan, err);
    const char *name = mg_export_name(MG_EXPORT_JSON);
    mg_intake_argument(a, "format", &name, NULL);
    enum mg_export_format format = mg_export_from_name(name);
    if (format == MG_EXPORT_COUNT)
        return mg_fail(err, MG_ERR_INTERNAL, "", "an unknown format");
    return mg_export_write(format, &a->body, a->graph, plan, NULL, &a->arena, err);
}

enum mg_code mg_intake_wants(struct mg_intake_ask *a, struct mg_error *err)
{
    struct mg_timing_want *wants;
    size_t count, size;
    const struct mg_request_rules rules = {.detached = true, .device_dir = a->device_dir};
    const char *request = part(a, 0, &size);
    enum mg_code code = request ? mg_job_request_read(request, size, &rules, &a->arena, &a->request, err)
                                : mg_fail(err, MG_ERR_INTERNAL, "", "the stored request is missing");
    if (code == MG_OK)
        code = read_stored_graph(a, err);
    if (code != MG_OK)
        return code;
    mg_timing_wants_of(a->graph, &a->request.device, &a->arena, &wants, &count);
    return mg_timing_pack_wants(wants, count, &a->blob, &a->blob_size)
               ? MG_OK
               : mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
}

enum mg_code mg_intake_reprice(struct mg_intake_ask *a, struct mg_error *err)
{
    struct mg_reprice_head head = {"", "", 0, 0};
    size_t request_size, pack_size;
    double generation = 0, priced = 0;
    const struct mg_request_rules rules = {.detached = true, .device_dir = a->device_dir};
    const char *request = part(a, 0, &request_size), *pack = part(a, 2, &pack_size);
    if (!request || !pack || !mg_intake_argument(a, "class", &head.device_class, NULL) ||
        !mg_intake_argument(a, "priced_class", &head.priced_class, NULL) ||
        !mg_intake_argument(a, "generation", NULL, &generation) ||
        !mg_intake_argument(a, "priced_generation", NULL, &priced))
        return mg_fail(err, MG_ERR_INTERNAL, "", "what is to be priced anew is damaged");
    head.generation = (int64_t)generation;
    head.priced_generation = (int64_t)priced;
    enum mg_code code = mg_job_request_read(request, request_size, &rules, &a->arena, &a->request, err);
    if (code == MG_OK)
        code = read_stored_graph(a, err);
    return code ? code : mg_reprice_write(&a->body, a->graph, &a->request, pack, pack_size, &head, &a->arena, err);
}
