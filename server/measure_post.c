#include "server/measure_post.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/http_client.h"

static const double EVERY_S = 2;
enum { TIMEOUT_S = 120 };

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
static int call(struct mg_measure_post *post, const char *body, size_t size)
{
    struct mg_answer_http answer;
    mg_http_call(&(struct mg_call_http){.server = post->server,
                                        .token = post->token,
                                        .method = "POST",
                                        .path = "/timings",
                                        .media_type = "application/x-ndjson",
                                        .body = body,
                                        .body_size = size,
                                        .timeout_s = TIMEOUT_S},
                 &answer);
    if (answer.status == 200) {
        count(post, answer.body);
    } else {
        char *why = mg_http_problem(&answer);
        fprintf(stderr, "magisd measure: %s: %s\n", post->name, why);
        free(why);
    }
    free(answer.body);
    return answer.status;
}

/* Begins a piece with the batch's line. */
static bool begin(struct mg_measure_post *post)
{
    if (post->rows)
        fclose(post->rows);
    free(post->text);
    post->text = NULL;
    post->waiting = 0;
    post->rows = open_memstream(&post->text, &post->size);
    return post->rows && fputs(post->batch, post->rows) >= 0;
}

/* Keeps what a daemon that is away, or busy, did not take. */
static int send_rows(struct mg_measure_post *post)
{
    post->sent_at = mg_clock_seconds();
    int status = fflush(post->rows) == 0 ? call(post, post->text, post->size) : 0;
    return status == 200 && !begin(post) ? 0 : status;
}

bool mg_measure_post_add(struct mg_measure_post *post, const char *line, size_t size)
{
    bool first = !post->batch;
    if (first) {
        post->batch = strndup(line, size);
        return post->batch && begin(post) && send_rows(post) == 200;
    }
    if (fwrite(line, 1, size, post->rows) != size)
        return false;
    post->waiting++;
    if (mg_clock_seconds() - post->sent_at < EVERY_S)
        return true;
    int status = send_rows(post);
    return status == 200 || status == 0 || status == 429 || status >= 500;
}

bool mg_measure_post_end(struct mg_measure_post *post)
{
    if (!post->batch)
        return true;
    bool good = post->waiting == 0 || send_rows(post) == 200;
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
    if (post->rows)
        fclose(post->rows);
    free(post->text);
    free(post->batch);
    mg_own_daemon_close(&post->own);
}
