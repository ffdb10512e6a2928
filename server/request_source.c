/* Members of a request that say what is to be planned: name, labels, graph or network, symbols, training. */
#include <string.h>

#include "server/request_priv.h"

bool mg_request_read_labels(struct mg_request_reader *r, void *into)
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
        if (!mg_request_read_text(r, &label->value))
            return false;
    }
    return r->json->err.code == MG_OK;
}

bool mg_request_read_graph(struct mg_request_reader *r, void *into)
{
    (void)into;
    if (mg_json_peek(r->json) != MG_JSON_OBJECT)
        return mg_json_fail(r->json, MG_ERR_INVALID, "a graph is an object");
    return mg_json_extent(r->json, &r->request->graph, &r->request->graph_size);
}

static bool read_option(struct mg_request_reader *r, const char *name)
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

bool mg_request_read_zoo(struct mg_request_reader *r, void *into)
{
    const char *key;
    (void)into;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        bool model = strcmp(key, "model") == 0;
        const char *name = mg_arena_strdup(r->arena, key);
        if (!(model ? mg_request_read_text(r, &r->request->model) : read_option(r, name)))
            return false;
    }
    if (r->json->err.code == MG_OK && !r->request->model)
        return mg_json_fail(r->json, MG_ERR_INVALID, "\"model\" is missing");
    return r->json->err.code == MG_OK;
}

bool mg_request_read_symbols(struct mg_request_reader *r, void *into)
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

const char *const mg_request_losses[5] = {"squared", "mse", "cross_entropy", "sum", "output"};
const char *const mg_request_optimizers[5] = {"none", "sgd", "momentum", "adam", "adamw"};

static bool read_loss(struct mg_request_reader *r, void *into)
{
    int at = MG_READ_WORD(r, mg_request_losses);
    (void)into;
    if (at >= 0)
        r->request->training.loss = (enum mg_loss)at;
    return at >= 0;
}

static bool read_optimizer(struct mg_request_reader *r, void *into)
{
    int at = MG_READ_WORD(r, mg_request_optimizers);
    (void)into;
    if (at >= 0)
        r->request->training.optimizer = (enum mg_optimizer)at;
    return at >= 0;
}

static bool read_trainable(struct mg_request_reader *r, void *into)
{
    const char **names = NULL;
    size_t count = 0, capacity = 0;
    (void)into;
    if (mg_json_peek(r->json) == MG_JSON_STRING) {
        static const char *const words[] = {"all"};
        return MG_READ_WORD(r, words) == 0;
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

bool mg_request_read_training(struct mg_request_reader *r, void *into)
{
    static const struct mg_request_member members[] = {
        {"loss", read_loss, 0}, {"optimizer", read_optimizer, 0}, {"trainable", read_trainable, 0}};
    (void)into;
    r->request->has_training = true;
    r->request->training = (struct mg_training){.loss = MG_LOSS_MSE, .optimizer = MG_OPTIMIZER_SGD};
    return MG_READ_MEMBERS(r, members);
}
