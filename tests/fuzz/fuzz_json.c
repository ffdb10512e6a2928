/* Any bytes: the reader must refuse or accept them without harm, by skipping and by visiting alike;
 * what it accepts is written anew, read again and must then be written the same. */
#include <inttypes.h>

#include "tests/fuzz/fuzz.h"
#include "base/json.h"

static void copy_value(struct mg_json *json, struct mg_writer *w);

/* Written as an integer where that is how it stands there: -0 and 1e3 are doubles. */
static void copy_number(struct mg_json *json, struct mg_writer *w)
{
    struct mg_json before = *json, literal = *json;
    const char *text;
    size_t size;
    double value = 0;
    int64_t whole = 0;
    char plain[24];
    if (mg_json_int(&before, &whole) && mg_json_skip(&literal, &text, &size) &&
        (size_t)snprintf(plain, sizeof plain, "%" PRId64, whole) == size && memcmp(plain, text, size) == 0) {
        mg_json_int(json, &whole);
        mg_write_int(w, whole);
    } else if (mg_json_double(json, &value)) {
        mg_write_double(w, value);
    }
}

static void copy_string(struct mg_json *json, struct mg_writer *w)
{
    const char *text;
    size_t size;
    if (mg_json_string(json, &text, &size))
        mg_write_string(w, text);
}

static void copy_container(struct mg_json *json, struct mg_writer *w, bool object)
{
    const char *key;
    if (object ? !mg_json_enter_object(json) : !mg_json_enter_array(json))
        return;
    if (object)
        mg_write_begin_object(w);
    else
        mg_write_begin_array(w);
    while (object ? mg_json_next_member(json, &key) : mg_json_next_element(json)) {
        if (object)
            mg_write_key(w, key);
        copy_value(json, w);
    }
    if (object)
        mg_write_end_object(w);
    else
        mg_write_end_array(w);
}

static void copy_value(struct mg_json *json, struct mg_writer *w)
{
    bool truth;
    switch (mg_json_peek(json)) {
    case MG_JSON_OBJECT:
    case MG_JSON_ARRAY:
        copy_container(json, w, mg_json_peek(json) == MG_JSON_OBJECT);
        break;
    case MG_JSON_STRING:
        copy_string(json, w);
        break;
    case MG_JSON_NUMBER:
        copy_number(json, w);
        break;
    case MG_JSON_BOOL:
        if (mg_json_bool(json, &truth))
            mg_write_bool(w, truth);
        break;
    case MG_JSON_NULL:
        mg_json_null(json);
        mg_write_null(w);
        break;
    case MG_JSON_END:
        break;
    }
}

struct input {
    struct mg_arena *arena;
    const char *text;
    size_t size;
    struct mg_writer *out; /* NULL: skip */
};

/* Where a value is well-formed, its extent by brackets alone is that by reading it. */
static void skip_value(struct mg_json *json, const struct input *in)
{
    struct mg_json quick;
    const char *text, *quick_text;
    size_t size, quick_size;
    mg_json_init(&quick, in->arena, in->text, in->size);
    bool quickly = mg_json_extent(&quick, &quick_text, &quick_size);
    if (mg_json_skip(json, &text, &size))
        require(quickly && quick_text == text && quick_size == size, "both extents are the same", NULL);
}

static enum mg_code read_input(void *context, struct mg_error *err)
{
    struct input *in = context;
    struct mg_json json;
    mg_json_init(&json, in->arena, in->text, in->size);
    if (in->out)
        copy_value(&json, in->out);
    else
        skip_value(&json, in);
    bool ok = mg_json_finish(&json);
    require(ok == (json.err.code == MG_OK), "finish agrees with the error", NULL);
    *err = json.err;
    return json.err.code;
}

static enum mg_code read_once(const char *text, size_t size, struct mg_writer *out)
{
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, 8 * size + (1 << 17));
    struct input in = {&arena, text, size, out};
    enum mg_code code = mg_arena_guard(&arena, read_input, &in, &err);
    mg_arena_release(&arena);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mg_writer first, second;
    mg_writer_init(&first);
    mg_writer_init(&second);
    enum mg_code skipped = read_once((const char *)data, size, NULL);
    enum mg_code code = read_once((const char *)data, size, &first);
    require(code != MG_OK || skipped == MG_OK, "what is read can be skipped", NULL);
    require(skipped == MG_OK || skipped == MG_ERR_NOMEM || code != MG_OK, "what is skipped over was well-formed", NULL);
    if (code == MG_OK) {
        require(mg_writer_finish(&first), "the copy is complete", NULL);
        code = read_once(first.data, first.size, &second);
        require(code == MG_OK || code == MG_ERR_NOMEM, "the copy is read again", NULL);
        if (code == MG_OK)
            require(mg_writer_finish(&second) && second.size == first.size &&
                        !memcmp(first.data, second.data, first.size),
                    "the copy's copy is the copy", NULL);
    }
    mg_writer_release(&first);
    mg_writer_release(&second);
    return 0;
}
