/* Options as members of a request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/options_priv.h"

static void write_scalar(struct mg_writer *w, const char *text)
{
    double number;
    uint64_t whole;
    if (mg_option_parse_uint(text, &whole))
        mg_write_uint(w, whole);
    else if (mg_option_parse_number(text, &number))
        mg_write_double(w, number);
    else
        mg_write_string(w, text);
}

static const char *example_of(enum mg_option id)
{
    return id == MG_OPTION_TRAINING ? "loss=mse,optimizer=sgd" : "batch=16";
}

bool mg_options_write_pairs(enum mg_option id, const char *text, struct mg_writer *w)
{
    const char *name = mg_option_table[id].name;
    char *copy = strdup(text), *rest = copy;
    bool good = copy != NULL;
    for (char *pair; good && (pair = strsep(&rest, ","));) {
        char *equals = strchr(pair, '=');
        if (!equals || equals == pair) {
            fprintf(stderr, "magisd: --%s: expected name=value at \"%s\", such as --%s %s\n", name, pair, name,
                    example_of(id));
            good = false;
            break;
        }
        *equals = '\0';
        mg_write_key(w, pair);
        write_scalar(w, equals + 1);
    }
    free(copy);
    return good;
}

static void write_list(struct mg_writer *w, const char *text)
{
    char *copy = strdup(text), *rest = copy;
    mg_write_begin_array(w);
    for (char *item; copy && (item = strsep(&rest, ","));)
        mg_write_string(w, item);
    mg_write_end_array(w);
    free(copy);
}

static void write_value(struct mg_writer *w, enum mg_option id, const char *text)
{
    enum mg_option_kind kind = mg_option_table[id].value.kind;
    uint64_t whole = 0;
    double number = 0;
    switch (kind) {
    case MG_KIND_UINT:
        (void)!mg_option_parse_uint(text, &whole);
        mg_write_uint(w, whole);
        break;
    case MG_KIND_BYTES:
        (void)!mg_option_parse_bytes(text, &whole);
        mg_write_uint(w, whole);
        break;
    case MG_KIND_NUMBER:
        (void)!mg_option_parse_number(text, &number);
        mg_write_double(w, number);
        break;
    case MG_KIND_FLAG:
    case MG_KIND_NOT:
        mg_write_bool(w, (strcmp(text, "true") == 0) == (kind == MG_KIND_FLAG));
        break;
    case MG_KIND_LIST:
        write_list(w, text);
        break;
    case MG_KIND_PAIRS:
        mg_write_begin_object(w);
        if (!mg_options_write_pairs(id, text, w))
            w->failed = true;
        mg_write_end_object(w);
        break;
    default:
        mg_write_string(w, text);
    }
}

/* Opens and closes the group's object ("limit" of "limit.latency_s") as the table goes by. */
static void change_group(struct mg_writer *w, char *group, size_t group_size, const char *member)
{
    const char *dot = strchr(member, '.');
    size_t size = dot ? (size_t)(dot - member) : 0;
    if (strlen(group) == size && memcmp(group, member, size) == 0)
        return;
    if (*group)
        mg_write_end_object(w);
    snprintf(group, group_size, "%.*s", (int)size, member);
    if (size) {
        mg_write_key(w, group);
        mg_write_begin_object(w);
    }
}

void mg_options_write_members(const struct mg_options *options, struct mg_writer *w)
{
    char group[32] = "";
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++) {
        const struct mg_option_row *row = &mg_option_table[id];
        if (!row->member || !options->value[id])
            continue;
        change_group(w, group, sizeof group, row->member);
        const char *dot = strchr(row->member, '.');
        mg_write_key(w, dot ? dot + 1 : row->member);
        write_value(w, (enum mg_option)id, options->value[id]);
    }
    if (*group)
        mg_write_end_object(w);
}
