#include "server/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/file.h"
#include "server/options_priv.h"

static void set_value(struct mg_options *options, enum mg_option id, const char *text)
{
    const char *old = options->value[id];
    enum mg_option_kind kind = mg_option_table[id].value.kind;
    bool joins = old && (kind == MG_KIND_LIST || kind == MG_KIND_PAIRS);
    options->value[id] =
        joins ? mg_arena_printf(&options->arena, "%s,%s", old, text) : mg_arena_strdup(&options->arena, text);
}

/* `where` and `name` say by what the value was given. */
static bool apply(struct mg_options *options, enum mg_option id, const char *text, const char *where, const char *name)
{
    if (!mg_option_is_valid(&mg_option_table[id].value, text)) {
        char wanted[128];
        mg_option_describe(&mg_option_table[id].value, wanted, sizeof wanted);
        fprintf(stderr, "magisd: %s%s: \"%s\" is not %s\n", where, name, text, wanted);
        return false;
    }
    set_value(options, id, text);
    return true;
}

static enum mg_option find_option(const char *name, size_t size, enum mg_command command)
{
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++) {
        const struct mg_option_row *row = &mg_option_table[id];
        if (strlen(row->name) == size && memcmp(row->name, name, size) == 0 && (row->commands & (1u << command)))
            return (enum mg_option)id;
    }
    return MG_OPTION_COUNT;
}

/* One --name, --name=value or --name value; advances *at over a separate value. */
static bool read_option(struct mg_options *options, int argc, char **argv, int *at)
{
    const char *text = strcmp(argv[*at], "-o") == 0 ? "--output" : strcmp(argv[*at], "-h") == 0 ? "--help" : argv[*at];
    const char *name = text + 2, *equals = strchr(name, '=');
    size_t size = equals ? (size_t)(equals - name) : strlen(name);
    enum mg_option id = strncmp(text, "--", 2) == 0 ? find_option(name, size, options->command) : MG_OPTION_COUNT;
    if (id == MG_OPTION_COUNT) {
        mg_options_complain_unknown(options->command, argv[*at]);
        return false;
    }
    const char *row_name = mg_option_table[id].name;
    if (equals)
        return apply(options, id, equals + 1, "--", row_name);
    if (!mg_option_takes_value(mg_option_table[id].value.kind))
        return apply(options, id, "true", "--", row_name);
    if (*at + 1 >= argc) {
        fprintf(stderr, "magisd: --%s needs a value\n", row_name);
        return false;
    }
    return apply(options, id, argv[++*at], "--", row_name);
}

static bool read_arguments(struct mg_options *options, int argc, char **argv)
{
    bool only_arguments = false;
    for (int at = 1; at < argc; at++) {
        if (!only_arguments && strcmp(argv[at], "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && argv[at][0] == '-' && argv[at][1] != '\0') {
            if (!read_option(options, argc, argv, &at))
                return false;
        } else if (options->argument_count == mg_command_table[options->command].most) {
            mg_options_complain_arguments(options->command, options->argument_count, argv[at]);
            return false;
        } else {
            options->argument[options->argument_count++] = argv[at];
        }
    }
    return true;
}

/* For the daemon and its agents: timings are used and handed over only where the command line says so. */
static bool is_meant_for_others(enum mg_option id, enum mg_command command)
{
    return (id == MG_OPTION_DATA && (command == MG_COMMAND_OPTIMIZE || command == MG_COMMAND_MEASURE)) ||
           ((id == MG_OPTION_SERVER || id == MG_OPTION_AGENT_NAME) && command == MG_COMMAND_MEASURE);
}

static bool read_environment(struct mg_options *options)
{
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++) {
        char variable[64] = "MAGISD_";
        size_t at = strlen(variable);
        for (const char *c = mg_option_table[id].name; *c && at + 1 < sizeof variable; c++)
            variable[at++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        variable[at] = '\0';
        const char *text = getenv(variable);
        bool belongs = mg_option_table[id].commands & (1u << options->command);
        if (is_meant_for_others((enum mg_option)id, options->command))
            continue;
        if (text && *text && belongs && id != MG_OPTION_HELP && !options->value[id] &&
            !apply(options, (enum mg_option)id, text, "", variable))
            return false;
    }
    return true;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t size = strlen(text);
    while (size && isspace((unsigned char)text[size - 1]))
        text[--size] = '\0';
    return text;
}

static bool known_option(const char *name)
{
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++)
        if (strcmp(mg_option_table[id].name, name) == 0)
            return true;
    return false;
}

static bool read_config_line(struct mg_options *options, char *line, const bool *given)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment = '\0';
    char *text = trim(line), *equals = strchr(text, '=');
    if (!*text)
        return true;
    if (equals)
        *equals = '\0';
    const char *name = trim(text);
    enum mg_option id = find_option(name, strlen(name), options->command);
    if (!equals || !known_option(name)) {
        fprintf(stderr, "magisd: config file: expected \"option = value\" at \"%s\"\n", name);
        return false;
    }
    if (id == MG_OPTION_COUNT || given[id])
        return true; /* another command's, or already said nearer by */
    return apply(options, id, trim(equals + 1), "config file: ", name);
}

static bool read_config(struct mg_options *options)
{
    const char *path = options->value[MG_OPTION_CONFIG];
    if (!path)
        return true;
    bool given[MG_OPTION_COUNT];
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++)
        given[id] = options->value[id] != NULL;
    char *data;
    size_t size;
    if (!mg_file_read(path, 1 << 20, &data, &size))
        return false;
    bool good = true;
    char *rest = data;
    for (char *line; good && (line = strsep(&rest, "\n"));)
        good = read_config_line(options, line, given);
    free(data);
    return good;
}

struct parse_call {
    struct mg_options *options;
    int argc;
    char **argv;
};

static enum mg_code parse_guarded(void *context, struct mg_error *err)
{
    struct parse_call *call = context;
    bool good = read_arguments(call->options, call->argc, call->argv) && read_environment(call->options) &&
                read_config(call->options);
    return good ? MG_OK : mg_fail(err, MG_ERR_INVALID, "", "bad command line");
}

bool mg_options_parse(struct mg_options *options, enum mg_command command, int argc, char **argv, int *exit_code)
{
    memset(options, 0, sizeof *options);
    options->command = command;
    mg_arena_init(&options->arena, SIZE_MAX);
    struct parse_call call = {options, argc, argv};
    struct mg_error err;
    *exit_code = MG_EXIT_USAGE;
    if (mg_arena_guard(&options->arena, parse_guarded, &call, &err) != MG_OK)
        return false;
    if (options->value[MG_OPTION_HELP]) {
        mg_options_usage(command);
        *exit_code = MG_EXIT_DONE;
        return false;
    }
    if (options->argument_count >= mg_command_table[command].least)
        return true;
    mg_options_complain_arguments(command, options->argument_count, NULL);
    return false;
}

void mg_options_release(struct mg_options *options)
{
    mg_arena_release(&options->arena);
}

/* ---- asking ---- */

bool mg_options_flag(const struct mg_options *options, enum mg_option id)
{
    return options->value[id] && strcmp(options->value[id], "true") == 0;
}

uint64_t mg_options_uint(const struct mg_options *options, enum mg_option id, uint64_t fallback)
{
    uint64_t value = fallback;
    if (options->value[id] && mg_option_table[id].value.kind == MG_KIND_BYTES)
        (void)!mg_option_parse_bytes(options->value[id], &value);
    else if (options->value[id])
        (void)!mg_option_parse_uint(options->value[id], &value);
    return value;
}

double mg_options_number(const struct mg_options *options, enum mg_option id, double fallback)
{
    double value = fallback;
    if (options->value[id])
        (void)!mg_option_parse_number(options->value[id], &value);
    return value;
}
