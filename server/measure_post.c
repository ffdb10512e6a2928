#include "server/measure_post.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/http_client.h"
#include "server/interrupt.h"

enum {
    SHORT_S = 5,
    PATIENCE_S = 30,
    STEP_US = 100000
}; /* seconds until a call is given up, while we measure, and before and after */
static const double FIRST_PAUSE_S = 2, LONGEST_PAUSE_S = 60;

bool mg_measure_post_open(struct mg_measure_post *post, const struct mg_options *options)
{
    const char *dir = options->value[MG_OPTION_DATA];
    post->server = options->value[MG_OPTION_SERVER];
    post->token = options->value[MG_OPTION_TOKEN];
    if (dir && post->server) {
        fprintf(stderr, "magisd measure: --data and --server: name one of them\n");
        return false;
    }
    if (dir && !mg_own_daemon_open(&post->own, dir, "measure"))
        return false;
    post->name = dir ? dir : post->server;
    post->server = dir ? post->own.place : post->server;
    return true;
}

static void count(struct mg_measure_post *post, const char *body)
{
    json_t *root = json_loads(body, 0, NULL);
    post->added += json_integer_value(json_object_get(root, "added"));
    post->suspect += json_integer_value(json_object_get(root, "suspect"));
    post->unjudged += json_integer_value(json_object_get(root, "unjudged"));
    json_decref(root);
}

/* The status. */
static int call(struct mg_measure_post *post, const char *body, size_t size, unsigned timeout_s)
{
    struct mg_answer_http answer;
    mg_http_call(&(struct mg_call_http){.server = post->server,
                                        .token = post->token,
                                        .method = "POST",
                                        .path = "/timings",
                                        .media_type = "application/x-ndjson",
                                        .body = body,
                                        .body_size = size,
                                        .timeout_s = timeout_s},
                 &answer);
    if (answer.status == 200) {
        count(post, answer.body);
    } else {
        char *why = mg_http_problem(&answer);
        fprintf(stderr, "magisd measure: %s: %s%s\n", post->name, why,
                answer.status == 409 ? "; --name gives this one another name" : "");
        free(why);
    }
    free(answer.body);
    return answer.status;
}

bool mg_measure_post_ask(struct mg_measure_post *post, const char *head, size_t size)
{
    return call(post, head, size, PATIENCE_S) == 200;
}

/* The status. The pause begins when the call has ended. */
static int send_kept(struct mg_measure_post *post, unsigned timeout_s)
{
    int status = call(post, post->text, post->size, timeout_s);
    if (status == 200) {
        post->size = post->waiting = 0;
        post->next_at = post->pause = 0;
        return status;
    }
    post->pause = post->pause == 0 ? FIRST_PAUSE_S : 2 * post->pause;
    if (post->pause > LONGEST_PAUSE_S)
        post->pause = LONGEST_PAUSE_S;
    post->next_at = mg_clock_seconds() + post->pause;
    return status;
}

/* No answer, asked to wait, or a fault of the daemon's: another time it may be taken. */
static bool may_pass(int status)
{
    return status == 0 || status == 429 || status >= 500;
}

bool mg_measure_post_add(struct mg_measure_post *post, const char *batch, size_t size, size_t rows)
{
    char *larger = realloc(post->text, post->size + size);
    if (!larger) {
        fprintf(stderr, "magisd measure: out of memory\n");
        return false;
    }
    post->text = larger;
    memcpy(post->text + post->size, batch, size);
    post->size += size;
    post->waiting += rows;
    if (mg_clock_seconds() < post->next_at)
        return true;
    int status = send_kept(post, SHORT_S);
    return status == 200 || may_pass(status);
}

static void wait_until(double time)
{
    while (mg_clock_seconds() < time && !mg_interrupted())
        usleep(STEP_US);
}

/* Nothing is measured any more: a daemon that is away has its time to come back. */
static bool send_last(struct mg_measure_post *post)
{
    double until = mg_clock_seconds() + PATIENCE_S;
    int status;
    post->pause = 0;
    while ((status = send_kept(post, mg_interrupted() ? SHORT_S : PATIENCE_S)) != 200) {
        if (!may_pass(status) || mg_interrupted() || mg_clock_seconds() >= until)
            return false;
        wait_until(post->next_at);
    }
    return true;
}

bool mg_measure_post_end(struct mg_measure_post *post)
{
    bool good = post->waiting == 0 || send_last(post);
    if (post->added)
        fprintf(stderr, "%s: %lld added, %lld of them wait as suspects\n", post->name, post->added, post->suspect);
    if (post->unjudged)
        fprintf(stderr,
                "magisd measure: no profile names this device, and nothing says what to expect of it: put one there "
                "(magisd measure --calibrate; PUT /devices/NAME, or DIR/devices/NAME.json) and measure again\n");
    if (!good)
        fprintf(stderr, "magisd measure: %zu rows were not taken\n", post->waiting);
    return good;
}

void mg_measure_post_release(struct mg_measure_post *post)
{
    free(post->text);
    mg_own_daemon_close(&post->own);
}
