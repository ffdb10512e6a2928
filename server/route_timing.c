/* The timing cache over HTTP: intake reads what is posted, the store keeps it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server/http_priv.h"
#include "server/intake.h"
#include "server/routes.h"
#include "server/small_json.h"
#include "server/timing_pack.h"
#include "server/timing_parse.h"
#include "store/timings.h"

enum { MOST_MISSING = 20000, MOST_CLAIMED = 1000, HEARTBEAT_S = 30 };

/* A question to store or intake; the asker may go before it is answered. */
struct asked {
    struct mg_http *http;
    struct mg_request *req;
    struct mg_caller caller;
    void (*write)(struct mg_writer *w, const struct mg_store_timings *t);
    const char *media_type;
    bool lines;
};

static void on_gone(void *state)
{
    ((struct asked *)state)->req = NULL;
}

static struct asked *ask(struct mg_request *req, void (*write)(struct mg_writer *w, const struct mg_store_timings *t))
{
    struct asked *a = mg_must(calloc(1, sizeof *a));
    *a = (struct asked){req->http, req, req->caller, write, "application/json", false};
    mg_request_keep(req, a, on_gone);
    return a;
}

/* The asker, who is answered now; NULL: gone. Frees the question. */
static struct mg_request *take(struct asked *a)
{
    struct mg_request *req = a->req;
    if (req)
        mg_request_keep(req, NULL, NULL);
    free(a);
    return req;
}

static bool has_store(struct mg_request *req)
{
    if (!req->http->config.store)
        mg_reply_problem(req, "store-failed", NULL, "this daemon keeps no timings");
    return req->http->config.store != NULL;
}

static void refuse(struct mg_request *req, const struct mg_store_result *result)
{
    const char *problem = result->code == MG_STORE_NOT_FOUND  ? "not-found"
                          : result->code == MG_STORE_CONFLICT ? "conflict"
                          : result->code == MG_STORE_FULL     ? "no-space"
                                                              : "store-failed";
    if (result->code >= MG_STORE_BUSY)
        mg_reply_header(req, "Retry-After", "5");
    mg_reply_problem(req, problem, NULL, "%s", result->message);
}

static void on_answer(void *context, const struct mg_store_result *result)
{
    struct asked *a = context;
    struct mg_writer w;
    void (*write)(struct mg_writer * w, const struct mg_store_timings *t) = a->write;
    const char *media_type = a->media_type;
    struct mg_request *req = take(a);
    if (!req)
        return;
    if (result->code != MG_STORE_OK) {
        refuse(req, result);
        return;
    }
    mg_writer_init(&w);
    write(&w, result->timings);
    mg_must(mg_writer_finish(&w) ? w.data : NULL);
    mg_reply_data(req, 200, media_type, w.data, w.size);
}

/* ---- POST /timings ---- */

static void write_added(struct mg_writer *w, const struct mg_store_timings *t)
{
    mg_write_begin_object(w);
    mg_write_member_int(w, "added", t->added);
    mg_write_member_int(w, "known", t->known);
    mg_write_member_int(w, "suspect", t->suspect);
    mg_write_member_int(w, "unjudged", t->unjudged);
    mg_write_member_int(w, "confirmed", t->confirmed);
    mg_write_member_int(w, "generation", t->generation);
    mg_write_end_object(w);
}

static void on_parsed(void *context, struct mg_reply *reply)
{
    struct asked *a = context;
    struct mg_packed_batches packed;
    if (reply->problem || !mg_timing_unpack_batches(reply->body_fd, reply->body_size, &packed)) {
        struct mg_request *req = take(a);
        if (req && reply->problem)
            mg_reply_forward(req, reply);
        else if (req)
            mg_reply_problem(req, "internal", NULL, "the answer of intake cannot be read");
        return;
    }
    for (size_t i = 0; i < packed.count; i++) {
        packed.batches[i].token = a->caller.name;
        packed.batches[i].any_agent = a->caller.role == MG_ROLE_ADMIN;
    }
    mg_store_add_timings(a->http->config.store, packed.batches, packed.count, on_answer, a);
    free(packed.memory);
}

void mg_route_timings_post(struct mg_request *req)
{
    if (!has_store(req))
        return;
    const char *type = mg_request_header(req, "Content-Type");
    bool lines = type && strncasecmp(type, "application/x-ndjson", 20) == 0;
    struct mg_intake_question question = {.kind = MG_INTAKE_TIMINGS, .args = lines ? "{\"lines\":1}" : "{}"};
    struct asked *a = ask(req, write_added);
    question.body_fd = mg_request_take_body(req, &question.body_size, &question.gzip);
    mg_intake_ask(req->http->config.intake, &question, on_parsed, a);
}

/* ---- GET /timings ---- */

static void write_class(struct mg_writer *w, const char *key, const struct mg_timing_class *class)
{
    mg_write_key(w, key);
    mg_write_begin_object(w);
    mg_write_member_string(w, "id", class->id);
    mg_write_member_string(w, "device", class->model);
    mg_write_key(w, "key");
    mg_write_raw(w, class->key, strlen(class->key));
    mg_write_end_object(w);
}

static void write_listed(struct mg_writer *w, const struct mg_timing_listed *r)
{
    mg_write_begin_object(w);
    mg_write_member_int(w, "number", r->number);
    mg_write_member_string(w, "agent", r->agent);
    mg_write_member_string(w, "host", r->host);
    mg_write_member_string(w, "batch", r->batch);
    mg_write_member_uint(w, "row", r->row.row);
    mg_write_member_string(w, "token", r->token);
    mg_write_member_string(w, "class", r->class.id);
    mg_write_member_string(w, "device", r->class.model);
    mg_write_member_string(w, "op", r->row.op);
    mg_write_member_string(w, "signature", r->row.signature);
    mg_write_member_string(w, "status", mg_timing_status_name(r->row.status));
    mg_write_member_uint(w, "n", r->row.n);
    mg_write_member_double(w, "median_s", r->row.median_s);
    mg_write_member_double(w, "mad_s", r->row.mad_s);
    mg_write_member_double(w, "min_s", r->row.min_s);
    mg_write_member_uint(w, "workspace_bytes", r->row.workspace);
    mg_write_key(w, "model_s");
    if (r->row.model_s > 0)
        mg_write_double(w, r->row.model_s);
    else
        mg_write_null(w);
    mg_write_member_int(w, "at", r->at);
    mg_write_member_bool(w, "suspect", r->suspect);
    mg_write_member_bool(w, "revoked", r->revoked);
    mg_write_member_bool(w, "drifts", r->drifts);
    mg_write_end_object(w);
}

static void write_next(struct mg_writer *w, const struct mg_store_timings *t)
{
    mg_write_key(w, "next");
    if (t->next)
        mg_write_int(w, t->next);
    else
        mg_write_null(w);
}

static void write_list(struct mg_writer *w, const struct mg_store_timings *t)
{
    mg_write_begin_object(w);
    mg_write_member_int(w, "generation", t->generation);
    mg_write_key(w, "timings");
    mg_write_begin_array(w);
    for (size_t i = 0; i < t->n_rows; i++)
        write_listed(w, &t->rows[i]);
    mg_write_end_array(w);
    write_next(w, t);
    mg_write_end_object(w);
}

static bool same_batch(const struct mg_timing_listed *a, const struct mg_timing_listed *b)
{
    return strcmp(a->agent, b->agent) == 0 && strcmp(a->batch, b->batch) == 0;
}

/* As POST takes them; rows that were revoked stay behind. A last line {"next": N} leads to the next page. */
static void write_export(struct mg_writer *w, const struct mg_store_timings *t)
{
    const struct mg_timing_listed *last = NULL;
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct mg_timing_listed *r = &t->rows[i];
        if (r->revoked)
            continue;
        const struct mg_timing_batch batch = {.agent = r->agent,
                                              .host = r->host,
                                              .version = r->version,
                                              .batch = r->batch,
                                              .class = r->class,
                                              .at = r->at,
                                              .canary_before_s = r->canary_before_s,
                                              .canary_after_s = r->canary_after_s,
                                              .canary_best_s = r->canary_best_s,
                                              .busy = r->busy};
        if (!last || !same_batch(last, r))
            mg_timing_write_batch(w, &batch);
        mg_timing_write_row(w, &r->row);
        last = r;
    }
    if (t->next)
        mg_write_text(w, "{\"next\":%lld}\n", (long long)t->next);
}

void mg_route_timings(struct mg_request *req)
{
    if (!has_store(req))
        return;
    int64_t after = 0, limit = 100;
    const char *suspect = mg_request_query(req, "suspect"), *format = mg_request_query(req, "format");
    bool lines = (format && strcmp(format, "ndjson") == 0) || mg_request_accepts(req, "application/x-ndjson");
    if (format && !lines && strcmp(format, "json") != 0) {
        mg_reply_problem(req, "bad-parameter", NULL, "format is json or ndjson");
        return;
    }
    if (!mg_request_integer(req, "after", 0, INT64_MAX / 2, &after) ||
        !mg_request_integer(req, "limit", 1, MG_TIMING_PAGE, &limit))
        return;
    const struct mg_timing_query query = {.class_id = mg_request_query(req, "class"),
                                          .model = mg_request_query(req, "model"),
                                          .op = mg_request_query(req, "op"),
                                          .agent = mg_request_query(req, "agent"),
                                          .suspect = !suspect ? -1 : strcmp(suspect, "true") == 0,
                                          .after = after,
                                          .limit = (int)limit};
    struct asked *a = ask(req, lines ? write_export : write_list);
    a->media_type = lines ? "application/x-ndjson" : "application/json";
    mg_store_list_timings(req->http->config.store, &query, on_answer, a);
}

/* ---- what is missing, claims ---- */

static void write_missing(struct mg_writer *w, const struct mg_store_timings *t)
{
    for (size_t i = 0; i < t->n_wants; i++)
        mg_timing_write_want(w, &t->wants[i]);
}

void mg_route_timings_missing(struct mg_request *req)
{
    if (!has_store(req))
        return;
    int64_t limit = 5000;
    if (!mg_request_integer(req, "limit", 1, MOST_MISSING, &limit))
        return;
    struct asked *a = ask(req, write_missing);
    a->media_type = "application/x-ndjson";
    mg_store_list_missing(req->http->config.store, mg_request_query(req, "class"), mg_request_query(req, "model"),
                          (int)limit, on_answer, a);
}

static void write_claims(struct mg_writer *w, const struct mg_store_timings *t)
{
    mg_write_begin_object(w);
    mg_write_member_int(w, "lease_s", MG_TIMING_LEASE_MS / 1000);
    mg_write_member_string(w, "class", t->class.id);
    mg_write_key(w, "operators");
    mg_write_begin_array(w);
    for (size_t i = 0; i < t->n_wants; i++) {
        mg_write_begin_object(w);
        mg_write_member_string(w, "op", t->wants[i].op);
        mg_write_member_string(w, "signature", t->wants[i].signature);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
    mg_write_end_object(w);
}

static const char *text_of(const json_t *root, const char *key)
{
    const char *text = json_string_value(json_object_get(root, key));
    return text ? text : "";
}

void mg_route_timings_claims(struct mg_request *req)
{
    if (!has_store(req))
        return;
    static const struct mg_member known[] = {
        {"agent", MG_MEMBER_TEXT}, {"max", MG_MEMBER_INTEGER}, {"seconds", MG_MEMBER_NUMBER}, {NULL, MG_MEMBER_TEXT}};
    json_t *root = mg_route_body(req, known);
    if (!root)
        return;
    json_int_t max = json_integer_value(json_object_get(root, "max"));
    max = max < 1 ? 100 : max > MOST_CLAIMED ? MOST_CLAIMED : max;
    if (*text_of(root, "agent"))
        mg_store_claim_timings(req->http->config.store, text_of(root, "agent"), req->caller.name,
                               req->caller.role == MG_ROLE_ADMIN, (int)max,
                               json_number_value(json_object_get(root, "seconds")), on_answer, ask(req, write_claims));
    else
        mg_reply_problem(req, "invalid-request", "/agent", "the agent's name is missing");
    json_decref(root);
}

/* ---- revocation ---- */

static void write_revoked(struct mg_writer *w, const struct mg_store_timings *t)
{
    mg_write_begin_object(w);
    mg_write_member_int(w, "revoked", t->added);
    mg_write_member_int(w, "generation", t->generation);
    mg_write_key(w, "jobs");
    mg_write_begin_array(w);
    for (size_t i = 0; i < t->n_jobs; i++)
        mg_write_string(w, t->jobs[i]);
    mg_write_end_array(w);
    mg_write_end_object(w);
}

void mg_route_timings_revoke(struct mg_request *req)
{
    if (!has_store(req))
        return;
    static const struct mg_member known[] = {{"agent", MG_MEMBER_TEXT},
                                             {"token", MG_MEMBER_TEXT},
                                             {"host", MG_MEMBER_TEXT},
                                             {"since", MG_MEMBER_INTEGER},
                                             {NULL, MG_MEMBER_TEXT}};
    json_t *root = mg_route_body(req, known);
    const char *by = NULL;
    int named = 0;
    if (!root)
        return;
    for (int i = 0; i < 3; i++)
        if (json_object_get(root, known[i].name)) {
            by = known[i].name;
            named++;
        }
    if (named == 1)
        mg_store_revoke_timings(req->http->config.store, by, text_of(root, by),
                                json_integer_value(json_object_get(root, "since")), on_answer, ask(req, write_revoked));
    else
        mg_reply_problem(req, "invalid-request", NULL, "name one of agent, token and host");
    json_decref(root);
}

/* ---- agents ---- */

static void write_registered(struct mg_writer *w, const struct mg_store_timings *t)
{
    mg_write_begin_object(w);
    write_class(w, "class", &t->class);
    mg_write_member_int(w, "heartbeat_s", HEARTBEAT_S);
    mg_write_member_double(w, "canary_s", t->canary_s);
    mg_write_end_object(w);
}

struct reading {
    const char *text;
    struct mg_arena *arena;
    struct mg_timing_class class;
};

static enum mg_code read_class(void *context, struct mg_error *err)
{
    struct reading *r = context;
    struct mg_json json;
    mg_json_init(&json, r->arena, r->text, strlen(r->text));
    if (mg_timing_class_read(&json, r->arena, &r->class))
        return MG_OK;
    return mg_fail(err, json.err.code, json.err.pointer, "%s", json.err.message);
}

static void put_agent(struct mg_request *req, const json_t *root, const struct mg_timing_class *class)
{
    const struct mg_timing_agent agent = {.name = text_of(root, "agent"),
                                          .host = text_of(root, "host"),
                                          .version = text_of(root, "version"),
                                          .uuid = text_of(root, "uuid"),
                                          .state = text_of(root, "state"),
                                          .token = req->caller.name,
                                          .class = *class,
                                          .canary_s = json_number_value(json_object_get(root, "canary_s")),
                                          .any_agent = req->caller.role == MG_ROLE_ADMIN};
    mg_store_put_agent(req->http->config.store, &agent, on_answer, ask(req, write_registered));
}

void mg_route_agents_post(struct mg_request *req)
{
    if (!has_store(req))
        return;
    static const struct mg_member known[] = {{"agent", MG_MEMBER_TEXT},      {"class", MG_MEMBER_OBJECT},
                                             {"host", MG_MEMBER_TEXT},       {"version", MG_MEMBER_TEXT},
                                             {"uuid", MG_MEMBER_TEXT},       {"state", MG_MEMBER_TEXT},
                                             {"canary_s", MG_MEMBER_NUMBER}, {NULL, MG_MEMBER_TEXT}};
    json_t *root = mg_route_body(req, known);
    struct mg_arena arena;
    struct mg_error err = {0};
    if (!root)
        return;
    char *text = json_dumps(json_object_get(root, "class"), JSON_COMPACT | JSON_ENCODE_ANY);
    struct reading r = {.text = text, .arena = &arena};
    mg_arena_init(&arena, 1 << 20);
    if (!mg_timing_is_name(text_of(root, "agent")))
        mg_reply_problem(req, "invalid-request", "/agent",
                         json_object_get(root, "agent") ? MG_TIMING_NAME_RULE : "the agent's name is missing");
    else if (!text)
        mg_reply_problem(req, "invalid-request", "/class", "the agent's class is missing");
    else if (mg_arena_guard(&arena, read_class, &r, &err) != MG_OK) {
        char pointer[sizeof err.pointer];
        snprintf(pointer, sizeof pointer, "/class%.200s", err.pointer);
        mg_reply_problem(req, "invalid-request", pointer, "%s", err.message);
    } else
        put_agent(req, root, &r.class);
    mg_arena_release(&arena);
    free(text);
    json_decref(root);
}

static void write_agents(struct mg_writer *w, const struct mg_store_timings *t)
{
    mg_write_begin_object(w);
    mg_write_key(w, "agents");
    mg_write_begin_array(w);
    for (size_t i = 0; i < t->n_agents; i++) {
        const struct mg_timing_agent *a = &t->agents[i];
        mg_write_begin_object(w);
        mg_write_member_string(w, "name", a->name);
        mg_write_member_string(w, "host", a->host);
        mg_write_member_string(w, "version", a->version);
        mg_write_member_string(w, "uuid", a->uuid);
        mg_write_member_string(w, "state", a->state);
        mg_write_member_string(w, "token", a->token);
        write_class(w, "class", &a->class);
        mg_write_member_int(w, "registered_at", a->registered_at);
        mg_write_member_int(w, "seen_at", a->seen_at);
        mg_write_member_int(w, "batches", a->batches);
        mg_write_member_int(w, "rows", a->rows);
        mg_write_member_double(w, "canary_s", a->canary_s);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
    mg_write_end_object(w);
}

void mg_route_agents(struct mg_request *req)
{
    if (!has_store(req))
        return;
    mg_store_list_agents(req->http->config.store, on_answer, ask(req, write_agents));
}
