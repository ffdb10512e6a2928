/* Reading: one table of members for each object, one small function for each kind of member. */
#include "server/request.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "formats/formats.h"
#include "server/version.h"

struct reader {
    struct mg_json *json;
    struct mg_arena *arena;
    struct mg_job_request *request;
    const char *device_dir;
    const char *member; /* being read, for messages */
};
struct member {
    const char *name;
    bool (*read)(struct reader *r, void *into);
    size_t offset; /* into struct mg_job_request */
};

static bool unknown_member(struct mg_json *json, const char *key, const struct member *members, size_t count)
{
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", members[i].name);
    return mg_json_fail(json, MG_ERR_INVALID, "unknown member \"%s\"; known: %s", key, list);
}

static bool read_members(struct reader *r, const struct member *members, size_t count)
{
    const char *key;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        size_t i = 0;
        while (i < count && strcmp(members[i].name, key) != 0)
            i++;
        if (i == count)
            return unknown_member(r->json, key, members, count);
        r->member = members[i].name;
        if (!members[i].read(r, (char *)r->request + members[i].offset))
            return false;
    }
    return r->json->err.code == MG_OK;
}
#define READ_MEMBERS(r, members) read_members((r), (members), sizeof(members) / sizeof((members)[0]))
#define AT(member) offsetof(struct mg_job_request, member)

/* ---- scalars ---- */

static bool read_text(struct reader *r, void *into)
{
    const char **out = into;
    size_t size;
    if (!mg_json_string(r->json, out, &size))
        return false;
    if (size > 200 || strlen(*out) != size)
        return mg_json_fail(r->json, MG_ERR_INVALID, "a text of at most 200 bytes without NUL is expected");
    return true;
}

static bool read_uint(struct reader *r, void *into)
{
    uint64_t *out = into;
    if (!mg_json_uint(r->json, out))
        return false;
    return *out <= (uint64_t)INT64_MAX || mg_json_fail(r->json, MG_ERR_INVALID, "the number is too large");
}

static bool read_count(struct reader *r, void *into)
{
    uint64_t *out = into;
    return read_uint(r, into) && (*out > 0 || mg_json_fail(r->json, MG_ERR_INVALID, "must be at least 1"));
}

static bool read_positive(struct reader *r, void *into)
{
    double *out = into;
    if (!mg_json_double(r->json, out))
        return false;
    return (*out > 0 && *out < 1e15) || mg_json_fail(r->json, MG_ERR_INVALID, "must be a number greater than 0");
}

static bool read_flag(struct reader *r, void *into)
{
    return mg_json_bool(r->json, into);
}

/* A member of the interface whose feature this version does not have. */
static bool refuse(struct reader *r, void *into)
{
    (void)into;
    return mg_json_fail(r->json, MG_ERR_UNSUPPORTED, "%s is not supported by this version", r->member);
}

static bool refuse_true(struct reader *r, void *into)
{
    bool value;
    return mg_json_bool(r->json, &value) && (!value || refuse(r, into));
}

/* Reads a text and returns its index in `words`, or -1 after an error that lists them. */
static int read_word(struct reader *r, const char *const *words, int count)
{
    const char *text;
    char list[200] = "";
    size_t used = 0;
    if (!mg_json_string(r->json, &text, NULL))
        return -1;
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    for (int i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    mg_json_fail(r->json, MG_ERR_INVALID, "\"%.40s\" is none of: %s", text, list);
    return -1;
}
#define READ_WORD(r, words) read_word((r), (words), (int)(sizeof(words) / sizeof((words)[0])))

/* ---- name, labels, source ---- */

static bool read_labels(struct reader *r, void *into)
{
    struct mg_job_request *q = r->request;
    const char *key;
    (void)into;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        struct mg_label *label = MG_PUSH(r->arena, q->labels, q->label_count, q->label_capacity);
        label->key = mg_arena_strdup(r->arena, key);
        if (strlen(key) == 0 || strlen(key) > 60 || strchr(key, ':'))
            return mg_json_fail(r->json, MG_ERR_INVALID, "a label's name has 1 to 60 bytes and no colon");
        if (q->label_count > 32)
            return mg_json_fail(r->json, MG_ERR_LIMIT, "more than 32 labels");
        if (!read_text(r, &label->value))
            return false;
    }
    return r->json->err.code == MG_OK;
}

static bool read_graph(struct reader *r, void *into)
{
    (void)into;
    if (mg_json_peek(r->json) != MG_JSON_OBJECT)
        return mg_json_fail(r->json, MG_ERR_INVALID, "a graph is an object");
    return mg_json_extent(r->json, &r->request->graph, &r->request->graph_size);
}

static bool read_option(struct reader *r, const char *name)
{
    struct mg_job_request *q = r->request;
    const char *text;
    size_t size;
    enum mg_json_kind kind = mg_json_peek(r->json);
    if (kind == MG_JSON_STRING) {
        if (!mg_json_string(r->json, &text, NULL))
            return false;
        size = strlen(text);
    } else if (kind == MG_JSON_NUMBER || kind == MG_JSON_BOOL) {
        if (!mg_json_skip(r->json, &text, &size))
            return false;
    } else {
        return mg_json_fail(r->json, MG_ERR_INVALID, "a number, a text or a truth value is expected");
    }
    struct mg_zoo_option *option = MG_PUSH(r->arena, q->options, q->option_count, q->option_capacity);
    option->name = name;
    option->value = mg_arena_printf(r->arena, "%.*s", (int)size, text);
    return size <= 200 || mg_json_fail(r->json, MG_ERR_LIMIT, "the text is too long");
}

static bool read_zoo(struct reader *r, void *into)
{
    const char *key;
    (void)into;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        bool model = strcmp(key, "model") == 0;
        const char *name = mg_arena_strdup(r->arena, key);
        if (!(model ? read_text(r, &r->request->model) : read_option(r, name)))
            return false;
    }
    if (r->json->err.code == MG_OK && !r->request->model)
        return mg_json_fail(r->json, MG_ERR_INVALID, "\"model\" is missing");
    return r->json->err.code == MG_OK;
}

static bool read_symbols(struct reader *r, void *into)
{
    struct mg_job_request *q = r->request;
    const char *key;
    (void)into;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        struct mg_onnx_symbol *symbol = MG_PUSH(r->arena, q->symbols, q->symbol_count, q->symbol_capacity);
        symbol->name = mg_arena_strdup(r->arena, key);
        if (!mg_json_int(r->json, &symbol->value))
            return false;
        if (symbol->value < 0 || q->symbol_count > 1000)
            return mg_json_fail(r->json, MG_ERR_INVALID,
                                "a symbol is a size of at least 0, and there are at most 1000");
    }
    return r->json->err.code == MG_OK;
}

/* ---- training ---- */

static const char *const loss_words[] = {"squared", "mse", "cross_entropy", "sum", "output"};
static const char *const optimizer_words[] = {"none", "sgd", "momentum", "adam", "adamw"};

static bool read_loss(struct reader *r, void *into)
{
    int at = READ_WORD(r, loss_words);
    (void)into;
    if (at >= 0)
        r->request->training.loss = (enum mg_loss)at;
    return at >= 0;
}

static bool read_optimizer(struct reader *r, void *into)
{
    int at = READ_WORD(r, optimizer_words);
    (void)into;
    if (at >= 0)
        r->request->training.optimizer = (enum mg_optimizer)at;
    return at >= 0;
}

static bool read_trainable(struct reader *r, void *into)
{
    const char **names = NULL;
    size_t count = 0, capacity = 0;
    (void)into;
    if (mg_json_peek(r->json) == MG_JSON_STRING) {
        static const char *const words[] = {"all"};
        return READ_WORD(r, words) == 0;
    }
    if (!mg_json_enter_array(r->json))
        return false;
    while (mg_json_next_element(r->json))
        if (!mg_json_string(r->json, MG_PUSH(r->arena, names, count, capacity), NULL))
            return false;
    r->request->training.trainable = names ? names : MG_NEW_ARRAY(r->arena, const char *, 1);
    r->request->training.trainable_count = (uint32_t)count;
    return r->json->err.code == MG_OK;
}

static bool read_training(struct reader *r, void *into)
{
    static const struct member members[] = {
        {"loss", read_loss, 0}, {"optimizer", read_optimizer, 0}, {"trainable", read_trainable, 0}};
    (void)into;
    r->request->has_training = true;
    r->request->training = (struct mg_training){.loss = MG_LOSS_MSE, .optimizer = MG_OPTIMIZER_SGD};
    return READ_MEMBERS(r, members);
}

/* ---- device, limit, budget ---- */

/* A profile that was PUT (route_device.c writes them). */
static bool read_stored_device(const char *dir, const char *name, struct mg_device *device)
{
    char path[4096], text[16384];
    struct mg_error err;
    if (!dir || !*name || *name == '.' || strchr(name, '/') ||
        snprintf(path, sizeof path, "%s/%s.json", dir, name) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    return mg_device_read(text, size, device, &err) == MG_OK;
}

static bool read_device_name(struct reader *r, struct mg_device *device)
{
    const char *name;
    char list[300] = "";
    size_t used = 0;
    if (!mg_json_string(r->json, &name, NULL))
        return false;
    const struct mg_device *known = mg_device_builtin(name);
    if (known) {
        *device = *known;
        return true;
    }
    if (read_stored_device(r->device_dir, name, device))
        return true;
    for (uint32_t i = 0; mg_device_at(i) && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", mg_device_at(i)->name);
    return mg_json_fail(r->json, MG_ERR_INVALID, "unknown device \"%.60s\"; known: %s", name, list);
}

static bool read_device(struct reader *r, void *into)
{
    const char *text;
    size_t size;
    struct mg_error err;
    if (mg_json_peek(r->json) != MG_JSON_OBJECT)
        return read_device_name(r, into);
    if (!mg_json_skip(r->json, &text, &size))
        return false;
    if (mg_device_read(text, size, into, &err) == MG_OK)
        return true;
    return mg_json_fail(r->json, err.code, "device profile: %s%s%s", err.pointer, *err.pointer ? ": " : "",
                        err.message);
}

static bool read_timings(struct reader *r, void *into)
{
    static const char *const words[] = {"near", "model", "exact"};
    int at = READ_WORD(r, words);
    if (at >= 0)
        *(const char **)into = words[at];
    return at >= 0;
}

static bool read_limit(struct reader *r, void *into)
{
    static const struct member members[] = {{"latency_ratio", read_positive, AT(latency_ratio)},
                                            {"latency_s", read_positive, AT(latency_s)},
                                            {"memory_bytes", read_count, AT(memory_bytes)},
                                            {"memory_ratio", read_positive, AT(memory_ratio)}};
    struct mg_job_request *q = r->request;
    (void)into;
    if (!READ_MEMBERS(r, members))
        return false;
    if (q->latency_ratio > 0 && q->latency_s > 0)
        return mg_json_fail(r->json, MG_ERR_INVALID, "latency_ratio and latency_s exclude each other");
    if (q->memory_bytes > 0 && q->memory_ratio > 0)
        return mg_json_fail(r->json, MG_ERR_INVALID, "memory_bytes and memory_ratio exclude each other");
    return true;
}

static bool read_reserve(struct reader *r, void *into)
{
    r->request->has_reserve = true;
    return read_uint(r, into);
}

static bool read_threads(struct reader *r, void *into)
{
    uint64_t *threads = into;
    return read_count(r, into) && (*threads == 1 || mg_json_fail(r->json, MG_ERR_UNSUPPORTED,
                                                                 "more than one thread is not supported by "
                                                                 "this version"));
}

static bool read_budget(struct reader *r, void *into)
{
    static const struct member members[] = {{"seconds", read_positive, AT(seconds)},
                                            {"evaluations", read_count, AT(evaluations)},
                                            {"seed", read_uint, AT(seed)},
                                            {"deadline_s", read_positive, AT(deadline_s)},
                                            {"threads", read_threads, AT(threads)}};
    (void)into;
    return READ_MEMBERS(r, members);
}

/* ---- techniques, numerics, constraints ---- */

static const char *const technique_words[] = {"fission", "window_fission", "remat", "swap", "reorder", "rewrite"};
enum { TECHNIQUE_WORDS = sizeof technique_words / sizeof technique_words[0] };

static bool read_techniques(struct reader *r, void *into)
{
    uint32_t *mask = into;
    const char *key;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        unsigned at = 0;
        bool on;
        while (at < TECHNIQUE_WORDS && strcmp(technique_words[at], key) != 0)
            at++;
        if (at == TECHNIQUE_WORDS)
            return mg_json_fail(r->json, MG_ERR_INVALID, "unknown technique \"%.40s\"", key);
        r->member = technique_words[at];
        if (!(1u << at == MG_TECHNIQUE_WINDOW_FISSION ? refuse_true(r, NULL) : mg_json_bool(r->json, &on)))
            return false;
        if (1u << at != MG_TECHNIQUE_WINDOW_FISSION)
            *mask = on ? *mask | (1u << at) : *mask & ~(1u << at);
    }
    return r->json->err.code == MG_OK;
}

static bool read_numerics(struct reader *r, void *into)
{
    static const char *const words[] = {"reassociate", "exact"};
    int at = READ_WORD(r, words);
    if (at >= 0)
        *(enum mg_numerics *)into = (enum mg_numerics)at;
    return at >= 0;
}

static bool read_accumulate(struct reader *r, void *into)
{
    static const char *const words[] = {"same", "f32"};
    int at = READ_WORD(r, words);
    return at == 1 ? refuse(r, into) : at == 0;
}

static bool read_forbid(struct reader *r, uint32_t *mask)
{
    if (!mg_json_enter_array(r->json))
        return false;
    while (mg_json_next_element(r->json)) {
        int at = READ_WORD(r, technique_words);
        if (at < 0)
            return false;
        *mask |= 1u << at;
    }
    return r->json->err.code == MG_OK;
}

static bool read_constraint(struct reader *r, struct mg_constraint *out)
{
    const char *key;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        bool good = strcmp(key, "name") == 0 ? read_text(r, &out->pattern)
                    : strcmp(key, "forbid") == 0
                        ? read_forbid(r, &out->forbid)
                        : mg_json_fail(r->json, MG_ERR_INVALID, "unknown member \"%.40s\"; known: name, forbid", key);
        if (!good)
            return false;
    }
    if (r->json->err.code == MG_OK && (!out->pattern || !out->forbid))
        return mg_json_fail(r->json, MG_ERR_INVALID, "a constraint has a name and a list of what it forbids");
    return r->json->err.code == MG_OK;
}

static bool read_constraints(struct reader *r, void *into)
{
    struct mg_job_request *q = r->request;
    (void)into;
    if (!mg_json_enter_array(r->json))
        return false;
    while (mg_json_next_element(r->json)) {
        if (q->constraint_count == 1000)
            return mg_json_fail(r->json, MG_ERR_LIMIT, "more than 1000 constraints");
        if (!read_constraint(r, MG_PUSH(r->arena, q->constraints, q->constraint_count, q->constraint_capacity)))
            return false;
    }
    return r->json->err.code == MG_OK;
}

static const char *const baseline_words[] = {"sublinear", "microbatch"};
static const char *const later_baselines[] = {"liveness", "inplace", "recursive", "dtr", "rotor", "pofo", "swap-all"};

static bool read_baseline(struct reader *r)
{
    struct mg_job_request *q = r->request;
    const char *text;
    if (!mg_json_string(r->json, &text, NULL))
        return false;
    for (size_t i = 0; i < sizeof later_baselines / sizeof later_baselines[0]; i++)
        if (strcmp(text, later_baselines[i]) == 0)
            return mg_json_fail(r->json, MG_ERR_UNSUPPORTED, "baseline \"%s\" is not supported by this version", text);
    for (size_t i = 0; i < sizeof baseline_words / sizeof baseline_words[0]; i++)
        if (strcmp(text, baseline_words[i]) == 0) {
            if (!mg_job_request_wants_baseline(q, text))
                *MG_PUSH(r->arena, q->baselines, q->baseline_count, q->baseline_capacity) = baseline_words[i];
            return true;
        }
    return mg_json_fail(r->json, MG_ERR_INVALID, "unknown baseline \"%.40s\"; known: sublinear, microbatch", text);
}

static bool read_baselines(struct reader *r, void *into)
{
    (void)into;
    r->request->has_baselines = true;
    r->request->baseline_count = 0;
    if (!mg_json_enter_array(r->json))
        return false;
    while (mg_json_next_element(r->json))
        if (!read_baseline(r))
            return false;
    return r->json->err.code == MG_OK;
}

static bool read_priority(struct reader *r, void *into)
{
    static const char *const words[] = {"interactive", "normal", "batch"};
    int at = READ_WORD(r, words);
    if (at >= 0)
        *(enum mg_request_priority *)into = (enum mg_request_priority)at;
    return at >= 0;
}

/* ---- the whole ---- */

static const struct member request_members[] = {
    {"name", read_text, AT(name)},
    {"labels", read_labels, 0},
    {"graph", read_graph, 0},
    {"zoo", read_zoo, 0},
    {"training", read_training, 0},
    {"symbols", read_symbols, 0},
    {"device", read_device, AT(device)},
    {"timings", read_timings, AT(timings)},
    {"limit", read_limit, 0},
    {"host_memory_bytes", read_uint, AT(host_memory_bytes)},
    {"reserve_bytes", read_reserve, AT(reserve_bytes)},
    {"budget", read_budget, 0},
    {"techniques", read_techniques, AT(techniques)},
    {"numerics", read_numerics, AT(numerics)},
    {"accumulate", read_accumulate, 0},
    {"constraints", read_constraints, 0},
    {"baselines", read_baselines, 0},
    {"priority", read_priority, AT(priority)},
    {"fresh", read_flag, AT(fresh)},
    {"require_measured", read_flag, AT(require_measured)},
    {"supersedes", refuse, 0},
    {"gate", refuse, 0},
};

static void set_defaults(struct mg_job_request *q)
{
    memset(q, 0, sizeof *q);
    const struct mg_device *device = mg_device_builtin("rtx3090");
    if (device)
        q->device = *device;
    q->timings = "near";
    q->seed = 1;
    q->threads = 1;
    q->techniques = MG_TECHNIQUE_ALL & ~(uint32_t)MG_TECHNIQUE_WINDOW_FISSION;
    q->numerics = MG_NUMERICS_REASSOCIATE;
    q->priority = MG_REQUEST_NORMAL;
}

static enum mg_code check_source(const struct mg_job_request *q, const struct mg_request_rules *rules,
                                 struct mg_error *err)
{
    if (q->graph && q->model)
        return mg_fail(err, MG_ERR_INVALID, "/zoo", "graph and zoo exclude each other");
    if (q->symbol_count && q->model)
        return mg_fail(err, MG_ERR_INVALID, "/symbols", "symbols belong to an ONNX model");
    if (q->require_measured && strcmp(q->timings, "model") == 0)
        return mg_fail(err, MG_ERR_INVALID, "/require_measured", "timings: model uses no measured timings");
    if (!q->graph && !q->model && !rules->detached)
        return mg_fail(err, MG_ERR_INVALID, "", "a request needs a graph or a network of the zoo");
    return MG_OK;
}

static enum mg_code settle(struct mg_job_request *q, const struct mg_request_rules *rules, struct mg_arena *arena,
                           struct mg_error *err)
{
    if (!q->has_reserve)
        q->reserve_bytes = q->device.reserve_bytes;
    if (q->memory_bytes && q->memory_bytes <= q->reserve_bytes)
        return mg_fail(err, MG_ERR_INVALID, "/limit/memory_bytes",
                       "the limit of %llu bytes leaves nothing beside the reserve of %llu bytes",
                       (unsigned long long)q->memory_bytes, (unsigned long long)q->reserve_bytes);
    if (rules->max_seconds > 0 && q->seconds > rules->max_seconds)
        return mg_fail(err, MG_ERR_INVALID, "/budget/seconds", "at most %g seconds are allowed", rules->max_seconds);
    if (q->seconds <= 0 && q->evaluations == 0)
        q->seconds = rules->max_seconds > 0 && rules->max_seconds < 30 ? rules->max_seconds : 30;
    if (!q->has_baselines)
        for (size_t i = 0; i < sizeof baseline_words / sizeof baseline_words[0]; i++)
            *MG_PUSH(arena, q->baselines, q->baseline_count, q->baseline_capacity) = baseline_words[i];
    return check_source(q, rules, err);
}

/* A graph is passed over by its brackets alone: where a document turns out not to be well-formed, the first place in
 * which that shows is looked for here. False: it is well-formed. */
static bool find_syntax_error(const char *json, size_t size, struct mg_arena *arena, struct mg_error *err)
{
    struct mg_json reader;
    mg_json_init(&reader, arena, json, size);
    if (mg_json_skip(&reader, NULL, NULL) && mg_json_finish(&reader))
        return false;
    *err = reader.err;
    return true;
}

enum mg_code mg_job_request_read(const char *json, size_t size, const struct mg_request_rules *rules,
                                 struct mg_arena *arena, struct mg_job_request *out, struct mg_error *err)
{
    struct mg_json reader;
    mg_json_init(&reader, arena, json, size);
    struct reader r = {&reader, arena, out, rules->device_dir, NULL};
    set_defaults(out);
    out->document = json;
    out->document_size = size;
    if (!READ_MEMBERS(&r, request_members) || !mg_json_finish(&reader)) {
        if (reader.err.code != MG_ERR_SYNTAX || !find_syntax_error(json, size, arena, err))
            *err = reader.err;
        return err->code;
    }
    return settle(out, rules, arena, err);
}

bool mg_job_request_wants_baseline(const struct mg_job_request *request, const char *name)
{
    for (size_t i = 0; i < request->baseline_count; i++)
        if (strcmp(request->baselines[i], name) == 0)
            return true;
    return false;
}

/* ---- writing ---- */

static void write_text(struct mg_writer *w, const char *key, const char *text)
{
    if (text)
        mg_write_member_string(w, key, text);
}

static void write_budget(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "budget");
    mg_write_begin_object(w);
    if (q->deadline_s > 0)
        mg_write_member_double(w, "deadline_s", q->deadline_s);
    if (q->evaluations)
        mg_write_member_uint(w, "evaluations", q->evaluations);
    if (q->seconds > 0)
        mg_write_member_double(w, "seconds", q->seconds);
    mg_write_member_uint(w, "seed", q->seed);
    mg_write_member_uint(w, "threads", q->threads);
    mg_write_end_object(w);
}

static void write_technique_names(struct mg_writer *w, uint32_t mask)
{
    mg_write_begin_array(w);
    for (unsigned i = 0; i < TECHNIQUE_WORDS; i++)
        if (mask & (1u << i))
            mg_write_string(w, technique_words[i]);
    mg_write_end_array(w);
}

static void write_constraints(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "constraints");
    mg_write_begin_array(w);
    for (size_t i = 0; i < q->constraint_count; i++) {
        mg_write_begin_object(w);
        mg_write_key(w, "forbid");
        write_technique_names(w, q->constraints[i].forbid);
        mg_write_member_string(w, "name", q->constraints[i].pattern);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static bool is_builtin(const struct mg_device *device)
{
    struct mg_writer a, b;
    const struct mg_device *known = mg_device_builtin(device->name);
    if (!known)
        return false;
    mg_writer_init(&a);
    mg_writer_init(&b);
    mg_device_write(&a, device);
    mg_device_write(&b, known);
    bool equal = mg_writer_finish(&a) && mg_writer_finish(&b) && strcmp(a.data, b.data) == 0;
    mg_writer_release(&a);
    mg_writer_release(&b);
    return equal;
}

static void write_device(struct mg_writer *w, const struct mg_device *device)
{
    mg_write_key(w, "device");
    if (is_builtin(device))
        mg_write_string(w, device->name);
    else
        mg_device_write(w, device);
}

static void write_labels(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "labels");
    mg_write_begin_object(w);
    for (size_t i = 0; i < q->label_count; i++)
        mg_write_member_string(w, q->labels[i].key, q->labels[i].value);
    mg_write_end_object(w);
}

static void write_limit(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "limit");
    mg_write_begin_object(w);
    if (q->latency_ratio > 0)
        mg_write_member_double(w, "latency_ratio", q->latency_ratio);
    if (q->latency_s > 0)
        mg_write_member_double(w, "latency_s", q->latency_s);
    if (q->memory_bytes)
        mg_write_member_uint(w, "memory_bytes", q->memory_bytes);
    if (q->memory_ratio > 0)
        mg_write_member_double(w, "memory_ratio", q->memory_ratio);
    mg_write_end_object(w);
}

static void write_techniques(struct mg_writer *w, uint32_t mask)
{
    mg_write_key(w, "techniques");
    mg_write_begin_object(w);
    for (unsigned i = 0; i < TECHNIQUE_WORDS; i++)
        mg_write_member_bool(w, technique_words[i], mask & (1u << i));
    mg_write_end_object(w);
}

static void write_training(struct mg_writer *w, const struct mg_training *training)
{
    mg_write_key(w, "training");
    mg_write_begin_object(w);
    mg_write_member_string(w, "loss", loss_words[training->loss]);
    mg_write_member_string(w, "optimizer", optimizer_words[training->optimizer]);
    if (training->trainable) {
        mg_write_key(w, "trainable");
        mg_write_begin_array(w);
        for (uint32_t i = 0; i < training->trainable_count; i++)
            mg_write_string(w, training->trainable[i]);
        mg_write_end_array(w);
    }
    mg_write_end_object(w);
}

static void write_zoo(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "zoo");
    mg_write_begin_object(w);
    mg_write_member_string(w, "model", q->model);
    for (size_t i = 0; i < q->option_count; i++)
        mg_write_member_string(w, q->options[i].name, q->options[i].value);
    mg_write_end_object(w);
}

static void write_baselines(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "baselines");
    mg_write_begin_array(w);
    for (size_t i = 0; i < q->baseline_count; i++)
        mg_write_string(w, q->baselines[i]);
    mg_write_end_array(w);
}

static void write_symbols(struct mg_writer *w, const struct mg_job_request *q)
{
    if (!q->symbol_count)
        return;
    mg_write_key(w, "symbols");
    mg_write_begin_object(w);
    for (size_t i = 0; i < q->symbol_count; i++)
        mg_write_member_int(w, q->symbols[i].name, q->symbols[i].value);
    mg_write_end_object(w);
}

void mg_job_request_write(struct mg_writer *w, const struct mg_job_request *q)
{
    static const char *const priorities[] = {"interactive", "normal", "batch"};
    static const char *const numerics[] = {"reassociate", "exact"};
    mg_write_begin_object(w);
    write_baselines(w, q);
    write_budget(w, q);
    write_constraints(w, q);
    write_device(w, &q->device);
    mg_write_member_bool(w, "fresh", q->fresh);
    if (q->host_memory_bytes)
        mg_write_member_uint(w, "host_memory_bytes", q->host_memory_bytes);
    write_labels(w, q);
    write_limit(w, q);
    write_text(w, "name", q->name);
    mg_write_member_string(w, "numerics", numerics[q->numerics]);
    mg_write_member_string(w, "priority", priorities[q->priority]);
    mg_write_member_bool(w, "require_measured", q->require_measured);
    mg_write_member_uint(w, "reserve_bytes", q->reserve_bytes);
    write_symbols(w, q);
    write_techniques(w, q->techniques);
    mg_write_member_string(w, "timings", q->timings);
    if (q->has_training)
        write_training(w, &q->training);
    if (q->model)
        write_zoo(w, q);
    mg_write_end_object(w);
}

/* Everything else of the request steers the search; these do not. */
static void write_steering(struct mg_writer *w, const struct mg_job_request *request)
{
    struct mg_job_request q = *request;
    q.name = NULL;
    q.label_count = 0;
    q.model = NULL;
    q.has_training = false; /* in the graph already */
    q.symbol_count = 0;
    q.priority = MG_REQUEST_NORMAL;
    q.fresh = false;
    q.deadline_s = 0;
    q.seconds = 0;
    mg_write_begin_object(w);
    mg_write_key(w, "device");
    mg_device_write(w, &q.device);
    mg_write_key(w, "request");
    mg_job_request_write(w, &q);
    mg_write_member_int(w, "optimizer", MG_OPTIMIZER_VERSION);
    mg_write_end_object(w);
}

enum mg_code mg_job_request_digest(const struct mg_job_request *request, char out[65], struct mg_error *err)
{
    struct mg_writer w;
    enum mg_code code = MG_OK;
    mg_writer_init(&w);
    write_steering(&w, request);
    if (mg_writer_finish(&w))
        mg_sha256_hex(w.data, w.size, out);
    else
        code = mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    mg_writer_release(&w);
    return code;
}

/* ---- from the request to the search ---- */

void mg_job_request_search_options(const struct mg_job_request *q, struct mg_search_options *out)
{
    *out = (struct mg_search_options){
        .device = &q->device,
        .memory_limit = q->memory_bytes ? q->memory_bytes - q->reserve_bytes : 0,
        .memory_ratio = q->memory_ratio,
        .latency_limit = q->latency_s,
        .latency_ratio = q->latency_ratio,
        .host_memory = q->host_memory_bytes,
        .max_evaluations = q->evaluations,
        .max_seconds = q->seconds,
        .seed = q->seed,
        .techniques = q->techniques,
        .numerics = q->numerics,
        .constraints = q->constraints,
        .constraint_count = (uint32_t)q->constraint_count,
    };
}

static void prefix_pointer(struct mg_error *err, const char *prefix)
{
    char pointer[sizeof err->pointer];
    snprintf(pointer, sizeof pointer, "%s%.*s", prefix, (int)(sizeof pointer - 16), err->pointer);
    memcpy(err->pointer, pointer, sizeof pointer);
}

static enum mg_code read_onnx(const struct mg_job_request *q, struct mg_arena *arena, struct mg_graph **out,
                              struct mg_onnx_model *model, struct mg_error *err)
{
    const struct mg_onnx_options options = {
        .symbols = q->symbols, .symbol_count = (uint32_t)q->symbol_count, .keep_data = q->keep_contents};
    struct mg_onnx_model ignored;
    model = model ? model : &ignored;
    enum mg_code code = mg_onnx_read(q->onnx, &options, arena, model, err);
    *out = model->graph;
    return code;
}

enum mg_code mg_job_request_graph(const struct mg_job_request *q, struct mg_arena *arena, struct mg_graph **out,
                                  struct mg_onnx_model *model, struct mg_error *err)
{
    struct mg_training training = q->training;
    bool trains = q->has_training;
    struct mg_graph *g = NULL;
    enum mg_code code = q->model  ? mg_zoo_build(q->model, q->options, (uint32_t)q->option_count, arena, &g, err)
                        : q->onnx ? read_onnx(q, arena, &g, model, err)
                                  : mg_graph_read(q->graph, q->graph_size, arena, &g, &training, &trains, err);
    bool within = q->graph >= q->document && q->graph < q->document + q->document_size;
    if (code == MG_ERR_SYNTAX && within && find_syntax_error(q->document, q->document_size, arena, err))
        return err->code;
    if (q->has_training) {
        training = q->training;
        trains = true;
    }
    if (code == MG_OK && trains)
        code = mg_graph_differentiate(g, &training, arena, &g, err);
    if (code == MG_OK)
        code = mg_graph_normalise(g, arena, out, err);
    if (code != MG_OK && strncmp(err->pointer, "/symbols", 8) != 0)
        prefix_pointer(err, q->model ? "/zoo" : "/graph");
    return code;
}
