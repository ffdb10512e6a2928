/* Reads magis-plan/1. The text is checked in two steps: here member by member (types, names, ranges
 * that need no other member), then as a whole by mg_plan_well_formed (wellformed.c). A plan that was
 * read is safe to simulate, place and draw; whether it is right is the checker's business. */
#include <string.h>

#include "plan/read_priv.h"

static const char *const plan_members[] = {"device",    "edits",    "figures",  "format", "graph",
                                           "instances", "numerics", "original", "prices", "regions",
                                           "steps",     "storages", "program",  NULL};

static bool read_list(struct mg_plan_reader *r, bool (*element)(struct mg_plan_reader *r))
{
    if (!mg_json_enter_array(&r->json))
        return false;
    while (mg_json_next_element(&r->json)) {
        mg_json_begin_element(&r->json);
        if (!element(r))
            return false;
    }
    mg_json_end_elements(&r->json);
    return r->json.err.code == MG_OK;
}

static bool read_figures(struct mg_plan_reader *r, struct mg_figures *figures, bool host)
{
    static const char *const names[] = {"arena_bytes", "host_bytes", "latency_s", "peak_bytes", NULL};
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, names);
        bool ok = k == 0           ? mg_json_uint(&r->json, &figures->arena_bytes)
                  : k == 1 && host ? mg_json_uint(&r->json, &figures->host_bytes)
                  : k == 2         ? mg_plan_read_seconds(r, &figures->latency_s)
                  : k == 3         ? mg_json_uint(&r->json, &figures->peak_bytes)
                                   : mg_plan_unknown_member(&r->json, key);
        if (!ok)
            return false;
        seen |= 1u << k;
    }
    return mg_plan_require(&r->json, seen, host ? 15 : 13, names);
}

static bool read_device(struct mg_plan_reader *r)
{
    const char *text;
    size_t size;
    struct mg_error err = {0};
    char at[200];
    mg_json_begin_element(&r->json);
    if (!mg_json_skip(&r->json, &text, &size))
        return false;
    mg_json_end_elements(&r->json);
    if (mg_device_read(text, size, &r->plan->device, &err) == MG_OK)
        return true;
    memcpy(at, err.pointer, sizeof at - 1);
    at[sizeof at - 1] = '\0';
    return mg_json_fail(&r->json, err.code, "%s%s%s", at, at[0] ? ": " : "", err.message);
}

static bool read_digest(struct mg_plan_reader *r)
{
    const char *digest;
    if (!mg_json_string(&r->json, &digest, NULL))
        return false;
    if (strcmp(digest, r->original->digest) != 0)
        return mg_json_fail(&r->json, MG_ERR_INVALID, "the plan is for another graph");
    memcpy(r->plan->graph_digest, r->original->digest, sizeof r->plan->graph_digest);
    return true;
}

static bool read_format(struct mg_plan_reader *r)
{
    const char *format;
    if (!mg_json_string(&r->json, &format, NULL))
        return false;
    return !strcmp(format, "magis-plan/1") || mg_json_fail(&r->json, MG_ERR_UNSUPPORTED, "not 'magis-plan/1'");
}

static bool read_numerics(struct mg_plan_reader *r)
{
    const char *name;
    if (!mg_json_string(&r->json, &name, NULL))
        return false;
    r->plan->numerics = !strcmp(name, "exact") ? MG_NUMERICS_EXACT : MG_NUMERICS_REASSOCIATE;
    return r->plan->numerics == MG_NUMERICS_EXACT || !strcmp(name, "reassociate") ||
           mg_json_fail(&r->json, MG_ERR_INVALID, "numerics are 'reassociate' or 'exact'");
}

static bool read_member(struct mg_plan_reader *r, uint32_t member, const char *key)
{
    static bool (*const lists[])(struct mg_plan_reader * r) = {
        [5] = mg_plan_read_instance, [8] = mg_plan_read_price,    [9] = mg_plan_read_region,
        [10] = mg_plan_read_step,    [11] = mg_plan_read_storage,
    };
    switch (member) {
    case 0:
        return read_device(r);
    case 1:
        return mg_json_skip(&r->json, NULL, NULL); /* read by read_edits */
    case 2:
        return read_figures(r, &r->plan->figures, true);
    case 3:
        return read_format(r);
    case 4:
        return read_digest(r);
    case 6:
        return read_numerics(r);
    case 7:
        return read_figures(r, &r->plan->original, false);
    case 12: /* the graph that goes with the plan of a captured step: follows from graph and edits */
        return mg_json_skip(&r->json, NULL, NULL);
    case 13:
        return mg_plan_unknown_member(&r->json, key);
    default:
        return read_list(r, lists[member]);
    }
}

/* Edits come first, wherever they stand at the beginning: from them follows which graph names are looked up in. */
static bool read_edits(struct mg_plan_reader *r)
{
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    mg_json_begin_element(&r->json);
    while (mg_json_next_member(&r->json, &key)) {
        if (strcmp(key, "edits") == 0)
            return read_list(r, mg_plan_read_edit);
        if (!mg_json_skip(&r->json, NULL, NULL))
            break;
    }
    if (r->json.err.code == MG_ERR_LIMIT && r->json.bound && r->json.at > r->json.bound)
        return mg_fail(&r->json.err, MG_ERR_LIMIT, "/edits", "a plan has its edits among its first %d bytes",
                       MG_JSON_MAX_ELEMENT) == MG_OK;
    return r->json.err.code == MG_OK;
}

static bool read_plan(struct mg_plan_reader *r)
{
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(&r->json))
        return false;
    while (mg_json_next_member(&r->json, &key)) {
        uint32_t k = mg_plan_which(key, plan_members);
        if (!read_member(r, k, key))
            return false;
        seen |= 1u << k;
    }
    return mg_plan_require(&r->json, seen, (1u << 12) - 1, plan_members) && mg_json_finish(&r->json);
}

struct reading {
    const struct mg_graph *g;
    const char *text;
    size_t size;
    struct mg_arena *arena;
    struct mg_plan **out;
    struct mg_writer writer;
};

static enum mg_code fail_as(const struct mg_plan_reader *r, struct mg_error *err)
{
    if (err)
        *err = r->json.err;
    return r->json.err.code;
}

static enum mg_code read_all(void *context, struct mg_error *err)
{
    struct reading *c = context;
    struct mg_plan_reader r = {
        .original = c->g, .arena = c->arena, .plan = MG_NEW(c->arena, struct mg_plan), .text = &c->writer};
    mg_json_init(&r.json, c->arena, c->text, c->size);
    bool good = read_edits(&r);
    mg_json_end_elements(&r.json);
    if (!good)
        return fail_as(&r, err);
    enum mg_code code = mg_plan_derive(c->g, r.plan, c->arena, err);
    if (code != MG_OK)
        return code;
    r.g = mg_plan_graph(c->g, r.plan);
    mg_json_init(&r.json, c->arena, c->text, c->size);
    mg_plan_index_ops(&r);
    good = read_plan(&r);
    mg_json_end_elements(&r.json);
    if (!good)
        return fail_as(&r, err);
    *c->out = r.plan;
    return mg_plan_well_formed(r.g, r.plan, c->arena, err);
}

enum mg_code mg_plan_read(const struct mg_graph *g, const char *json, size_t size, struct mg_arena *arena,
                          struct mg_plan **out, struct mg_error *err)
{
    struct reading context = {.g = g, .text = json, .size = size, .arena = arena, .out = out};
    size_t limit = arena->limit;
    mg_writer_init(&context.writer);
    enum mg_code code = mg_arena_guard(arena, read_all, &context, err);
    mg_writer_release(&context.writer);
    if (code == MG_ERR_NOMEM && arena->limit < limit)
        code = mg_fail(err, MG_ERR_LIMIT, "", MG_JSON_TOO_MANY);
    arena->limit = limit;
    return code;
}
