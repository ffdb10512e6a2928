/* Attributes in native JSON. Their types are checked against the operator's schema when the graph is
 * built; here each takes the type it is written in. Two of an opaque operator's have forms of their own:
 * `latency` is an object (kept as text) and `axes` a list of objects (kept as the flat list that the
 * operator table describes). */
#include <stdlib.h>
#include <string.h>

#include "formats/native_priv.h"

static const char *const combiners[] = {"none", "sum", "max", "min", "prod"};

static const char *combiner_name(int64_t index)
{
    bool known = index >= 0 && index < (int64_t)(sizeof combiners / sizeof combiners[0]);
    return combiners[known ? index : 0];
}

struct numbers {
    int64_t *at;
    size_t count, capacity;
};

static void push(struct mg_arena *arena, struct numbers *numbers, int64_t number)
{
    *MG_PUSH(arena, numbers->at, numbers->count, numbers->capacity) = number;
}

/* ---- opaque operators ---- */

static bool parse_dimensions(struct mg_json *json, struct numbers *out)
{
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        int64_t dim = -1;
        if (mg_json_peek(json) == MG_JSON_NULL) {
            if (!mg_json_null(json))
                return false;
        } else if (!mg_json_int(json, &dim)) {
            return false;
        } else if (dim < 0 || dim >= MG_MAX_RANK) {
            return mg_json_fail(json, MG_ERR_INVALID, "a dimension is null or between 0 and %d", MG_MAX_RANK - 1);
        }
        push(json->arena, out, dim);
    }
    return json->err.code == MG_OK;
}

static bool parse_combiner(struct mg_json *json, int64_t *out)
{
    const char *text;
    *out = 0;
    if (mg_json_peek(json) == MG_JSON_NULL)
        return mg_json_null(json);
    if (!mg_json_string(json, &text, NULL))
        return false;
    for (size_t i = 0; i < sizeof combiners / sizeof combiners[0]; i++)
        if (strcmp(text, combiners[i]) == 0) {
            *out = (int64_t)i;
            return true;
        }
    return mg_json_fail(json, MG_ERR_INVALID, "a combiner is sum, max, min, prod or none, not \"%.60s\"", text);
}

/* {"in": [...], "out": [...], "combiner": "sum"} becomes combiner, dimensions of operands, of results. */
static bool parse_axis(struct mg_json *json, struct native_op *op, struct numbers *out)
{
    struct numbers in = {0}, results = {0};
    int64_t combiner = 0;
    bool has_in = false, has_out = false;
    const char *key;
    if (!mg_json_enter_object(json))
        return false;
    while (mg_json_next_member(json, &key)) {
        if (strcmp(key, "in") == 0 && (has_in = true)) {
            if (!parse_dimensions(json, &in))
                return false;
        } else if (strcmp(key, "out") == 0 && (has_out = true)) {
            if (!parse_dimensions(json, &results))
                return false;
        } else if (strcmp(key, "combiner") == 0) {
            if (!parse_combiner(json, &combiner))
                return false;
        } else {
            return mg_json_fail(json, MG_ERR_INVALID, "an axis has no member \"%.100s\"", key);
        }
    }
    if (json->err.code == MG_OK && !(has_in && has_out))
        return mg_json_fail(json, MG_ERR_INVALID, "an axis lacks \"in\" or \"out\"");
    bool first = !op->has_axes;
    if (json->err.code == MG_OK && !first && (op->axis_in != in.count || op->axis_out != results.count))
        return mg_json_fail(json, MG_ERR_INVALID, "all axes list the same operands and results");
    op->has_axes = true;
    op->axis_in = in.count;
    op->axis_out = results.count;
    push(json->arena, out, combiner);
    for (size_t i = 0; i < in.count; i++)
        push(json->arena, out, in.at[i]);
    for (size_t i = 0; i < results.count; i++)
        push(json->arena, out, results.at[i]);
    return json->err.code == MG_OK;
}

static void write_dimensions(struct mg_writer *w, const char *key, const int64_t *dims, uint32_t count)
{
    mg_write_key(w, key);
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < count; i++)
        if (dims[i] < 0)
            mg_write_null(w);
        else
            mg_write_int(w, dims[i]);
    mg_write_end_array(w);
}

void mg_native_write_axes(struct mg_writer *w, const struct mg_attr *axes, uint32_t in_count, uint32_t out_count)
{
    uint32_t width = 1 + in_count + out_count;
    mg_write_begin_array(w);
    for (uint32_t at = 0; at + width <= axes->count; at += width) {
        mg_write_begin_object(w);
        write_dimensions(w, "in", axes->ints + at + 1, in_count);
        write_dimensions(w, "out", axes->ints + at + 1 + in_count, out_count);
        mg_write_member_string(w, "combiner", combiner_name(axes->ints[at]));
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

/* {"rtx3090": 0.001} */
static bool parse_latency(struct mg_json *json, struct mg_attr *out)
{
    const char *key, *start;
    if (mg_json_peek(json) != MG_JSON_OBJECT)
        return mg_json_fail(json, MG_ERR_INVALID, "latency is an object that gives seconds by device");
    start = json->at;
    if (!mg_json_enter_object(json))
        return false;
    while (mg_json_next_member(json, &key)) {
        double seconds;
        if (!mg_json_double(json, &seconds))
            return false;
        if (!(seconds >= 0 && seconds <= 1e5))
            return mg_json_fail(json, MG_ERR_INVALID, "a latency is %g seconds, must be from 0 to 100000", seconds);
    }
    size_t size = (size_t)(json->at - start);
    char *text = mg_arena_alloc(json->arena, size + 1);
    memcpy(text, start, size);
    out->type = MG_ATTR_TYPE_STRING;
    out->string = text;
    return json->err.code == MG_OK;
}

/* ---- values by their JSON type ---- */

static bool parse_list(struct mg_json *json, struct native_op *op, struct mg_attr *out)
{
    struct numbers numbers = {0};
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        int64_t number;
        if (out->key == MG_ATTR_AXES && mg_json_peek(json) == MG_JSON_OBJECT) {
            if (!parse_axis(json, op, &numbers))
                return false;
            continue;
        }
        if (!mg_json_int(json, &number))
            return false;
        push(json->arena, &numbers, number);
    }
    out->type = MG_ATTR_TYPE_INTS;
    out->ints = numbers.at;
    out->count = (uint32_t)numbers.count;
    return json->err.code == MG_OK;
}

/* A whole number that fits is an integer, everything else a float. */
static bool parse_number(struct mg_json *json, struct mg_attr *out)
{
    const char *text = json->at; /* where peeking left it */
    bool whole = true;
    size_t size = 0;
    for (; text + size < json->end && strchr("+-.0123456789eE", text[size]) && text[size]; size++)
        whole = whole && !strchr(".eE", text[size]);
    whole = whole && size < 19;
    out->type = whole ? MG_ATTR_TYPE_INT : MG_ATTR_TYPE_FLOAT;
    return whole ? mg_json_int(json, &out->i) : mg_json_double(json, &out->f);
}

bool mg_native_parse_attr(struct mg_json *json, enum mg_attr_key key, struct native_op *op, struct mg_attr *out)
{
    bool truth;
    *out = (struct mg_attr){.key = key};
    if (key == MG_ATTR_LATENCY)
        return parse_latency(json, out);
    switch (mg_json_peek(json)) {
    case MG_JSON_NUMBER:
        return parse_number(json, out);
    case MG_JSON_ARRAY:
        return parse_list(json, op, out);
    case MG_JSON_BOOL:
        out->type = MG_ATTR_TYPE_INT;
        if (!mg_json_bool(json, &truth))
            return false;
        out->i = truth;
        return true;
    default:
        out->type = MG_ATTR_TYPE_STRING;
        return mg_json_string(json, &out->string, NULL);
    }
}
