/* How `magisd agent` talks to its daemon: until it is answered, and telling now and then that it lives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/agent.h"
#include "server/http_client.h"

static const double SLOWEST_RETRY_S = 60, HEARTBEAT_S = 30;
enum { PATIENCE_S = 60, SHORT_S = 5 }; /* seconds until a call is given up */

void mg_agent_rest(struct mg_agent *a, const char *state, double seconds)
{
    double until = mg_measure_clock() + seconds;
    while (!mg_agent_over(a) && mg_measure_clock() < until) {
        double left = until - mg_measure_clock();
        if (state)
            (void)mg_agent_beat(a, state);
        usleep((useconds_t)((left < 0.2 ? left : 0.2) * 1e6));
    }
}

static int insist(struct mg_agent *a, const struct mg_call_http *what, char **text, size_t *size)
{
    struct mg_call_http call = *what;
    call.server = a->server;
    call.token = a->token;
    call.timeout_s = PATIENCE_S;
    for (double pause = 0.5;; pause = pause * 2 < SLOWEST_RETRY_S ? pause * 2 : SLOWEST_RETRY_S) {
        struct mg_answer_http answer;
        mg_http_call(&call, &answer);
        *text = answer.body;
        *size = answer.size;
        if (answer.status == 200)
            return 200;
        *text = mg_http_problem(&answer);
        free(answer.body);
        fprintf(stderr, "magisd agent: %s: %s\n", call.path, *text);
        if (answer.status != 0 && answer.status != 429 && answer.status < 500)
            return answer.status;
        if (mg_agent_over(a))
            return 0;
        free(*text);
        mg_agent_rest(a, NULL, pause);
    }
}

int mg_agent_post(struct mg_agent *a, const char *path, const char *type, const char *body, size_t size, char **text)
{
    size_t text_size;
    return insist(
        a, &(struct mg_call_http){.method = "POST", .path = path, .media_type = type, .body = body, .body_size = size},
        text, &text_size);
}

int mg_agent_ask(struct mg_agent *a, const char *path, json_t *root, json_t **answer)
{
    char *body = json_dumps(root, JSON_COMPACT), *text = NULL;
    int status = body ? mg_agent_post(a, path, "application/json", body, strlen(body), &text) : 0;
    json_decref(root);
    free(body);
    *answer = status == 200 ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return status == 200 && !*answer ? 0 : status;
}

int mg_agent_fetch(struct mg_agent *a, const char *path, char **text, size_t *size)
{
    return insist(a, &(struct mg_call_http){.method = "GET", .path = path}, text, size);
}

/* ---- once ---- */

static json_t *call_once(const struct mg_agent *a, const char *method, const char *path, const char *body)
{
    struct mg_answer_http answer;
    mg_http_call(&(struct mg_call_http){.server = a->server,
                                        .token = a->token,
                                        .method = method,
                                        .path = path,
                                        .media_type = body ? "application/json" : NULL,
                                        .body = body,
                                        .body_size = body ? strlen(body) : 0,
                                        .timeout_s = SHORT_S},
                 &answer);
    json_t *root = answer.status == 200 ? json_loads(answer.body, 0, NULL) : NULL;
    free(answer.body);
    return root;
}

json_t *mg_agent_look(const struct mg_agent *a, const char *path)
{
    return call_once(a, "GET", path, NULL);
}

/* ---- that it lives ---- */

static json_t *about(const struct mg_agent *a, const char *state)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:f}", "agent", a->name, "class",
                     json_loads(a->class_key, 0, NULL), "host", a->host, "version", a->version, "uuid",
                     *a->uuid ? a->uuid : a->place, "state", state, "canary_s", a->canary.best_s);
}

int mg_agent_tell(struct mg_agent *a, const char *state)
{
    json_t *answer;
    int status = mg_agent_ask(a, "/agents", about(a, state), &answer);
    const char *id = json_string_value(json_object_get(json_object_get(answer, "class"), "id"));
    double canary_s = json_number_value(json_object_get(answer, "canary_s"));
    if (a->canary.best_s == 0)
        a->canary.best_s = canary_s;
    if (id)
        snprintf(a->class_id, sizeof a->class_id, "%s", id);
    json_decref(answer);
    a->told_at = mg_measure_clock();
    return status;
}

static bool tell_once(struct mg_agent *a, const char *state)
{
    json_t *root = about(a, state), *answer = NULL;
    char *body = json_dumps(root, JSON_COMPACT);
    if (body)
        answer = call_once(a, "POST", "/agents", body);
    a->told_at = mg_measure_clock();
    free(body);
    json_decref(root);
    json_decref(answer);
    return answer != NULL;
}

bool mg_agent_beat(struct mg_agent *a, const char *state)
{
    return mg_measure_clock() - a->told_at >= HEARTBEAT_S && tell_once(a, state);
}

void mg_agent_leave(struct mg_agent *a)
{
    (void)tell_once(a, MG_TIMING_ENDED);
}

/* ---- asking for work ---- */

enum mg_agent_turn mg_agent_claim(struct mg_agent *a, const char *path, json_t *root, json_t **answer)
{
    enum { LOST_MAX = 3 }; /* with --once */
    int status = mg_agent_ask(a, path, root, answer);
    if (status == 200) {
        a->lost = 0;
        return MG_TURN_WORKED;
    }
    if (status == 0 || status == 401 || status == 403 || (a->once && ++a->lost >= LOST_MAX))
        return MG_TURN_END;
    if (status == 404 || status == 409)
        (void)mg_agent_tell(a, "idle");
    return MG_TURN_LATER;
}
