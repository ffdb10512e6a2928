/* `magisd timings list|export|import|missing|stats`, of a daemon (--server), or of a directory that no daemon
 * uses (--data). */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/file.h"
#include "server/http_client.h"
#include "server/options.h"
#include "server/own_daemon.h"

enum { MOST_FILE = 1 << 30, LINES_AT_ONCE = 20000, PAGE = 2000 };

struct timings {
    const struct mg_options *options;
    const char *server;
};

static int complain(const struct mg_answer_http *answer)
{
    char *text = mg_http_problem(answer);
    fprintf(stderr, "magisd timings: %s\n", text);
    free(text);
    return MG_EXIT_FAILED;
}

/* False after having said why. */
static bool call(const struct timings *t, const char *method, const char *path, const char *body, size_t size,
                 struct mg_answer_http *answer)
{
    const struct mg_call_http request = {.server = t->server,
                                         .token = t->options->value[MG_OPTION_TOKEN],
                                         .method = method,
                                         .path = path,
                                         .media_type = "application/x-ndjson",
                                         .body = body,
                                         .body_size = size,
                                         .timeout_s = 120};
    mg_http_call(&request, answer);
    if (answer->status == 200)
        return true;
    complain(answer);
    free(answer->body);
    return false;
}

static FILE *open_output(const struct timings *t)
{
    const char *path = t->options->value[MG_OPTION_OUTPUT];
    FILE *out = path && strcmp(path, "-") != 0 ? fopen(path, "we") : stdout;
    if (!out)
        fprintf(stderr, "magisd timings: %s: %s\n", path, strerror(errno));
    return out;
}

/* The standard output is left to main(). */
static int close_output(const struct timings *t, FILE *out)
{
    bool good = fflush(out) == 0 && !ferror(out);
    int why = errno;
    if (out == stdout)
        return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
    if (fclose(out) != 0 && good) {
        why = errno;
        good = false;
    }
    if (!good)
        fprintf(stderr, "magisd timings: %s: %s\n", t->options->value[MG_OPTION_OUTPUT], strerror(why));
    return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

/* The last line of a page that is not the last one. */
static long long next_of(char *body)
{
    char *line = strstr(body, "{\"next\":");
    if (!line)
        return 0;
    long long next = strtoll(line + 8, NULL, 10);
    *line = '\0';
    return next;
}

static int export(const struct timings *t)
{
    FILE *out = open_output(t);
    long long after = 0;
    if (!out)
        return MG_EXIT_FAILED;
    do {
        char path[96];
        struct mg_answer_http answer;
        snprintf(path, sizeof path, "/timings?format=ndjson&limit=%d&after=%lld", PAGE, after);
        if (!call(t, "GET", path, NULL, 0, &answer)) {
            close_output(t, out);
            return MG_EXIT_FAILED;
        }
        after = next_of(answer.body);
        fputs(answer.body, out);
        free(answer.body);
    } while (after);
    return close_output(t, out);
}

/* ---- what is missing ---- */

/* `key` and `value` are NULL for those of every device; *found is set where there are some. False after having said
 * why. */
static bool write_missing(const struct timings *t, FILE *out, const char *key, const char *value, bool *found)
{
    char path[1024];
    struct mg_answer_http answer;
    int used = snprintf(path, sizeof path, "/timings/missing?limit=20000");
    if (key)
        used += snprintf(path + used, sizeof path - (size_t)used, "&%s=", key);
    for (const char *c = key ? value : ""; *c && used < (int)sizeof path - 4; c++)
        used += snprintf(path + used, sizeof path - (size_t)used, "%%%02X", (unsigned)(unsigned char)*c);
    if (!call(t, "GET", path, NULL, 0, &answer))
        return false;
    fputs(answer.body, out);
    *found = *found || *answer.body;
    free(answer.body);
    return true;
}

static void add_name(json_t *names, const char *prefix, const json_t *name)
{
    size_t i;
    json_t *known, *added = json_is_string(name) ? json_sprintf("%s%s", prefix, json_string_value(name)) : NULL;
    json_array_foreach(names, i, known)
    {
        if (added && json_equal(known, added)) {
            json_decref(added);
            added = NULL;
        }
    }
    if (added)
        json_array_append_new(names, added);
}

/* What `device` stands for: a profile for the cards that it lists, any other name that is known for itself. All known
 * names are added to `names`. */
static json_t *find_devices(const json_t *root, const char *device, json_t *names)
{
    size_t i, k;
    json_t *entry, *card, *found = json_array();
    json_array_foreach(json_object_get(root, "devices"), i, entry)
    {
        const json_t *name = json_object_get(entry, "name");
        bool wanted = json_is_string(name) && strcmp(json_string_value(name), device) == 0;
        add_name(names, "", name);
        json_array_foreach(json_object_get(json_object_get(entry, "profile"), "gpu_names"), k, card)
        {
            add_name(names, "", card);
            if (wanted)
                add_name(found, "", card);
        }
    }
    json_array_foreach(json_object_get(root, "classes"), i, entry)
    {
        add_name(names, "", json_object_get(entry, "device"));
        add_name(names, "class:", json_object_get(entry, "id"));
    }
    json_array_foreach(names, i, entry)
    {
        if (json_array_size(found) == 0 && strcmp(json_string_value(entry), device) == 0)
            json_array_append(found, entry);
    }
    return found;
}

static void complain_device(const char *device, const json_t *names)
{
    size_t i;
    json_t *name;
    fprintf(stderr, "magisd timings: no device \"%.200s\" is known; there are ", device);
    json_array_foreach(names, i, name) fprintf(stderr, "%s\"%s\"", i ? ", " : "", json_string_value(name));
    fprintf(stderr, "\n");
}

/* NULL after having said why, with *code. */
static json_t *devices_of(const struct timings *t, const char *device, int *code)
{
    struct mg_answer_http answer;
    *code = MG_EXIT_FAILED;
    if (!call(t, "GET", "/devices", NULL, 0, &answer))
        return NULL;
    json_t *root = json_loads(answer.body, 0, NULL), *names = json_array(), *found = find_devices(root, device, names);
    free(answer.body);
    if (json_array_size(found) == 0) {
        complain_device(device, names);
        json_decref(found);
        found = NULL;
        *code = MG_EXIT_USAGE;
    }
    json_decref(names);
    json_decref(root);
    return found;
}

static bool write_missing_of(const struct timings *t, FILE *out, const json_t *devices, bool *found)
{
    size_t i;
    json_t *device;
    bool good = true;
    if (!devices)
        return write_missing(t, out, NULL, NULL, found);
    json_array_foreach(devices, i, device)
    {
        const char *name = json_string_value(device);
        bool class = strncmp(name, "class:", 6) == 0;
        good = good && write_missing(t, out, class ? "class" : "model", name + (class ? 6 : 0), found);
    }
    return good;
}

static int missing(const struct timings *t)
{
    const char *device = t->options->value[MG_OPTION_TIMINGS_DEVICE];
    int code;
    json_t *devices = device ? devices_of(t, device, &code) : NULL;
    if (device && !devices)
        return code;
    FILE *out = open_output(t);
    bool found = false, good = out && write_missing_of(t, out, devices, &found);
    json_decref(devices);
    if (good && !found)
        fprintf(stderr, "magisd timings: nothing is missing: no run wants what nobody has measured%s%s\n",
                device ? " on " : "", device ? device : "");
    if (!out)
        return MG_EXIT_FAILED;
    return close_output(t, out) == MG_EXIT_DONE && good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

/* ---- export, import ---- */

static bool is_batch(const char *line, size_t size)
{
    json_t *root = json_loadb(line, size, 0, NULL);
    bool batch = json_object_get(root, "batch") != NULL;
    json_decref(root);
    return batch;
}

struct sent {
    json_int_t added, known, suspect, unjudged, confirmed;
};

static bool send_lines(const struct timings *t, const char *data, size_t size, struct sent *sum)
{
    struct mg_answer_http answer;
    if (!call(t, "POST", "/timings", data, size, &answer))
        return false;
    json_t *root = json_loads(answer.body, 0, NULL);
    sum->added += json_integer_value(json_object_get(root, "added"));
    sum->known += json_integer_value(json_object_get(root, "known"));
    sum->suspect += json_integer_value(json_object_get(root, "suspect"));
    sum->unjudged += json_integer_value(json_object_get(root, "unjudged"));
    sum->confirmed += json_integer_value(json_object_get(root, "confirmed"));
    json_decref(root);
    free(answer.body);
    return true;
}

/* In pieces of many lines, each beginning with a batch: what was sent before a failure stays, and sending the file
 * again adds nothing twice. */
static bool send_pieces(const struct timings *t, const char *data, size_t size, struct sent *sum)
{
    const char *start = data, *end = data + size;
    unsigned lines = 0;
    for (const char *at = data; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const char *next = stop ? stop + 1 : end;
        if (lines >= LINES_AT_ONCE && is_batch(at, (size_t)(next - at))) {
            if (!send_lines(t, start, (size_t)(at - start), sum))
                return false;
            start = at;
            lines = 0;
        }
        lines++;
        at = next;
    }
    return start == end || send_lines(t, start, (size_t)(end - start), sum);
}

/* Of a file that was cut nothing is sent: every line is whole before the first one goes. */
static bool check_lines(const char *path, const char *data, size_t size)
{
    size_t number = 1;
    for (const char *at = data, *end = data + size; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        json_t *line = json_loadb(at, length, 0, NULL);
        bool whole = json_is_object(line) || strspn(at, " \t\r") >= length;
        json_decref(line);
        if (!whole) {
            fprintf(stderr,
                    stop ? "magisd timings: %s: line %zu is no JSON object; nothing was imported\n"
                         : "magisd timings: %s ends within line %zu, it was cut; nothing was imported: copy it whole\n",
                    path, number);
            return false;
        }
        at += length + (stop != NULL);
    }
    return true;
}

static int import(const struct timings *t)
{
    char *data;
    size_t size;
    struct sent sum = {0};
    if (!mg_file_read(t->options->argument[1], MOST_FILE, &data, &size))
        return MG_EXIT_USAGE;
    if (!check_lines(t->options->argument[1], data, size)) {
        free(data);
        return MG_EXIT_USAGE;
    }
    bool good = send_pieces(t, data, size, &sum);
    free(data);
    printf("%lld added, %lld known before, %lld suspect, %lld confirmed\n", (long long)sum.added, (long long)sum.known,
           (long long)sum.suspect, (long long)sum.confirmed);
    if (sum.unjudged)
        fprintf(
            stderr,
            "magisd timings: %lld wait, since no profile names their device and nothing says what to expect: put "
            "one there (magisd measure --calibrate; PUT /devices/NAME, or DIR/devices/NAME.json) and import again\n",
            (long long)sum.unjudged);
    return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

static void print_row(const json_t *row)
{
    const char *op = "", *signature = "", *status = "", *device = "", *agent = "";
    double median = 0, mad = 0;
    int suspect = 0, revoked = 0;
    json_unpack((json_t *)(uintptr_t)row, "{s:s, s:s, s:s, s:s, s:s, s:F, s:F, s:b, s:b}", "op", &op, "signature",
                &signature, "status", &status, "device", &device, "agent", &agent, "median_s", &median, "mad_s", &mad,
                "suspect", &suspect, "revoked", &revoked);
    printf("%12.6g s  +- %8.2g  %-14s %-12s %-10s %s %s\n", median, mad, device, agent,
           revoked   ? "revoked"
           : suspect ? "suspect"
                     : status,
           op, signature);
}

static int list(const struct timings *t)
{
    struct mg_answer_http answer;
    size_t i;
    json_t *row;
    if (!call(t, "GET", "/timings?limit=2000", NULL, 0, &answer))
        return MG_EXIT_FAILED;
    json_t *root = json_loads(answer.body, 0, NULL);
    json_array_foreach(json_object_get(root, "timings"), i, row) print_row(row);
    if (json_is_integer(json_object_get(root, "next")))
        printf("(the first 2000; `magisd timings export` writes all)\n");
    json_decref(root);
    free(answer.body);
    return MG_EXIT_DONE;
}

static int stats(const struct timings *t)
{
    struct mg_answer_http answer;
    size_t i;
    json_t *c;
    if (!call(t, "GET", "/devices", NULL, 0, &answer))
        return MG_EXIT_FAILED;
    json_t *root = json_loads(answer.body, 0, NULL);
    printf("%-16s  %-28s %9s %9s %9s %9s %9s %9s\n", "class", "device", "operators", "wanted", "settled", "rows",
           "suspects", "drifting");
    json_array_foreach(json_object_get(root, "classes"), i, c)
    {
        const char *id = "", *device = "";
        json_int_t operators = 0, wanted = 0, settled = 0, rows = 0, suspects = 0, drifting = 0;
        json_unpack(c, "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "id", &id, "device", &device, "operators",
                    &operators, "wanted", &wanted, "settled", &settled, "rows", &rows, "suspects", &suspects,
                    "drifting", &drifting);
        printf("%-16s  %-28s %9lld %9lld %9lld %9lld %9lld %9lld\n", id, device, (long long)operators,
               (long long)wanted, (long long)settled, (long long)rows, (long long)suspects, (long long)drifting);
    }
    json_decref(root);
    free(answer.body);
    return MG_EXIT_DONE;
}

static int run_on(const struct mg_options *options, const struct timings *t, int (*verb)(const struct timings *t))
{
    struct mg_own_daemon own;
    const char *dir = options->value[MG_OPTION_DATA];
    if (!dir || options->value[MG_OPTION_SERVER])
        return verb(t);
    if (!mg_own_daemon_open(&own, dir, "timings"))
        return MG_EXIT_FAILED;
    const struct timings here = {options, own.place};
    int code = verb(&here);
    mg_own_daemon_close(&own);
    return code;
}

static int run(const struct mg_options *options)
{
    static const struct {
        const char *name;
        unsigned arguments;
        int (*run)(const struct timings *t);
    } verbs[] = {
        {"list", 1, list}, {"export", 1, export}, {"import", 2, import}, {"missing", 1, missing}, {"stats", 1, stats}};
    struct timings t = {options, options->value[MG_OPTION_SERVER]};
    const char *what = options->argument_count ? options->argument[0] : "";
    if (!t.server)
        t.server = "http://127.0.0.1:8080";
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verbs[i].name, what) == 0 && options->argument_count == verbs[i].arguments)
            return run_on(options, &t, verbs[i].run);
    fprintf(stderr, "usage: magisd timings list | export | import FILE | missing [--device D] | stats [--server URL | "
                    "--data DIR]\n");
    return MG_EXIT_USAGE;
}

int mg_cmd_timings(int argc, char **argv)
{
    struct mg_options options;
    int code;
    if (mg_options_parse(&options, MG_COMMAND_TIMINGS, argc, argv, &code))
        code = run(&options);
    mg_options_release(&options);
    return code;
}
