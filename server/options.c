#include "server/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/file.h"

enum option_kind { KIND_TEXT, KIND_UINT, KIND_NUMBER, KIND_BYTES, KIND_FLAG, KIND_NOT, KIND_LIST, KIND_PAIRS };
struct option_range {
    enum option_kind kind;
    double least, most; /* of numbers */
};
/* In the words of the table. */
#define ANY 1e300 /* no bound of its own */
#define TEXT                                                                                                           \
    {                                                                                                                  \
        KIND_TEXT, 0, 0                                                                                                \
    }
#define FLAG                                                                                                           \
    {                                                                                                                  \
        KIND_FLAG, 0, 0                                                                                                \
    }
#define NOT                                                                                                            \
    {                                                                                                                  \
        KIND_NOT, 0, 0                                                                                                 \
    }
#define LIST                                                                                                           \
    {                                                                                                                  \
        KIND_LIST, 0, 0                                                                                                \
    }
#define PAIRS                                                                                                          \
    {                                                                                                                  \
        KIND_PAIRS, 0, 0                                                                                               \
    }
#define UINT(least, most)                                                                                              \
    {                                                                                                                  \
        KIND_UINT, least, most                                                                                         \
    }
#define NUMBER(least, most)                                                                                            \
    {                                                                                                                  \
        KIND_NUMBER, least, most                                                                                       \
    }
#define BYTES(least, most)                                                                                             \
    {                                                                                                                  \
        KIND_BYTES, least, most                                                                                        \
    }

struct option_row {
    const char *name;
    struct option_range value;
    const char *member;
    uint32_t commands;
    const char *argument, *help;
};
#define IN(command) (1u << MG_COMMAND_##command)
static const struct option_row option_table[MG_OPTION_COUNT] = {
#define MG_OPTION(id, name, kind, member, commands, argument, help) {name, kind, member, commands, argument, help},
#include "server/options.def"
#undef MG_OPTION
};

struct command_row {
    const char *name, *arguments, *help;
};
static const struct command_row command_table[MG_COMMAND_COUNT] = {
#define MG_COMMAND(id, name, function, arguments, help) {name, arguments, help},
#include "server/commands.def"
#undef MG_COMMAND
};

static bool takes_value(enum option_kind kind)
{
    return kind != KIND_FLAG && kind != KIND_NOT;
}

/* ---- texts to numbers ---- */

static bool parse_uint(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0]))
        return false;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool parse_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= 0 && *out < 1e300;
}

/* A count of bytes with an optional unit: K, M, G, T (powers of 1000; with "i": of 1024), "B". */
static bool parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value >= 0))
        return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        double base = end[1] == 'i' ? 1024 : 1000;
        for (const char *at = units; at <= unit; at++)
            value *= base;
        end += end[1] == 'i' ? 2 : 1;
    } else if (*end == '\0' && parse_uint(text, out)) {
        return true;
    }
    if (*end == 'B')
        end++;
    if (*end != '\0' || value >= 9e18)
        return false;
    *out = (uint64_t)value;
    return true;
}

static bool valid_value(const struct option_range *range, const char *text)
{
    uint64_t whole = 0;
    double number = 0;
    switch (range->kind) {
    case KIND_UINT:
        return parse_uint(text, &whole) && (double)whole >= range->least && (double)whole <= range->most;
    case KIND_NUMBER:
        return parse_number(text, &number) && number >= range->least && number <= range->most;
    case KIND_BYTES:
        return parse_bytes(text, &whole) && (double)whole >= range->least && (double)whole <= range->most;
    case KIND_FLAG:
    case KIND_NOT:
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    default:
        return true;
    }
}

/* What valid_value() accepts, in words. */
static void describe(const struct option_range *range, char *out, size_t size)
{
    const char *what = range->kind == KIND_UINT    ? "a whole number"
                       : range->kind == KIND_BYTES ? "a count of bytes (such as 8589934592, 8GiB or 500MB)"
                                                   : "a number";
    if (!takes_value(range->kind))
        snprintf(out, size, "true or false");
    else if (range->most < ANY)
        snprintf(out, size, "%s from %.0f to %.0f", what, range->least, range->most);
    else
        snprintf(out, size, "%s of %.0f or more", what, range->least);
}

/* ---- reading ---- */

static void set_value(struct mg_options *options, enum mg_option id, const char *text)
{
    const char *old = options->value[id];
    enum option_kind kind = option_table[id].value.kind;
    bool joins = old && (kind == KIND_LIST || kind == KIND_PAIRS);
    options->value[id] =
        joins ? mg_arena_printf(&options->arena, "%s,%s", old, text) : mg_arena_strdup(&options->arena, text);
}

static bool apply(struct mg_options *options, enum mg_option id, const char *text, const char *where)
{
    if (!valid_value(&option_table[id].value, text)) {
        char wanted[128];
        describe(&option_table[id].value, wanted, sizeof wanted);
        fprintf(stderr, "magisd: %s%s: \"%s\" is not %s\n", where, option_table[id].name, text, wanted);
        return false;
    }
    set_value(options, id, text);
    return true;
}

static enum mg_option find_option(const char *name, size_t size, enum mg_command command)
{
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++) {
        const struct option_row *row = &option_table[id];
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
        fprintf(stderr, "magisd %s: unknown option %s (see --help)\n", command_table[options->command].name, argv[*at]);
        return false;
    }
    if (equals)
        return apply(options, id, equals + 1, "--");
    if (!takes_value(option_table[id].value.kind))
        return apply(options, id, "true", "--");
    if (*at + 1 >= argc) {
        fprintf(stderr, "magisd: --%s needs a value\n", option_table[id].name);
        return false;
    }
    return apply(options, id, argv[++*at], "--");
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
        } else if (options->argument_count == MG_MAX_ARGUMENTS) {
            fprintf(stderr, "magisd: too many arguments at \"%s\"\n", argv[at]);
            return false;
        } else {
            options->argument[options->argument_count++] = argv[at];
        }
    }
    return true;
}

static bool read_environment(struct mg_options *options)
{
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++) {
        char variable[64] = "MAGISD_";
        size_t at = strlen(variable);
        for (const char *c = option_table[id].name; *c && at + 1 < sizeof variable; c++)
            variable[at++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        variable[at] = '\0';
        const char *text = getenv(variable);
        bool belongs = option_table[id].commands & (1u << options->command);
        if (id == MG_OPTION_DATA && options->command == MG_COMMAND_OPTIMIZE)
            continue; /* meant for the daemon: timings are used only where the command line says so */
        if (text && belongs && id != MG_OPTION_HELP && !options->value[id] &&
            !apply(options, (enum mg_option)id, text, "MAGISD_ variable of "))
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
        if (strcmp(option_table[id].name, name) == 0)
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
    return apply(options, id, trim(equals + 1), "config file: ");
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
    return true;
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
    if (options->value[id] && option_table[id].value.kind == KIND_BYTES)
        (void)!parse_bytes(options->value[id], &value);
    else if (options->value[id])
        (void)!parse_uint(options->value[id], &value);
    return value;
}

double mg_options_number(const struct mg_options *options, enum mg_option id, double fallback)
{
    double value = fallback;
    if (options->value[id])
        (void)!parse_number(options->value[id], &value);
    return value;
}

/* ---- options as members of a request ---- */

static void write_scalar(struct mg_writer *w, const char *text)
{
    double number;
    uint64_t whole;
    if (parse_uint(text, &whole))
        mg_write_uint(w, whole);
    else if (parse_number(text, &number))
        mg_write_double(w, number);
    else
        mg_write_string(w, text);
}

bool mg_options_write_pairs(const char *text, struct mg_writer *w)
{
    char *copy = strdup(text), *rest = copy;
    bool good = copy != NULL;
    for (char *pair; good && (pair = strsep(&rest, ","));) {
        char *equals = strchr(pair, '=');
        if (!equals || equals == pair) {
            fprintf(stderr, "magisd: expected name=value at \"%s\"\n", pair);
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
        if (*item)
            mg_write_string(w, item);
    mg_write_end_array(w);
    free(copy);
}

static void write_value(struct mg_writer *w, enum option_kind kind, const char *text)
{
    uint64_t whole = 0;
    double number = 0;
    switch (kind) {
    case KIND_UINT:
        (void)!parse_uint(text, &whole);
        mg_write_uint(w, whole);
        break;
    case KIND_BYTES:
        (void)!parse_bytes(text, &whole);
        mg_write_uint(w, whole);
        break;
    case KIND_NUMBER:
        (void)!parse_number(text, &number);
        mg_write_double(w, number);
        break;
    case KIND_FLAG:
    case KIND_NOT:
        mg_write_bool(w, (strcmp(text, "true") == 0) == (kind == KIND_FLAG));
        break;
    case KIND_LIST:
        write_list(w, text);
        break;
    case KIND_PAIRS:
        mg_write_begin_object(w);
        if (!mg_options_write_pairs(text, w))
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
        const struct option_row *row = &option_table[id];
        if (!row->member || !options->value[id])
            continue;
        change_group(w, group, sizeof group, row->member);
        const char *dot = strchr(row->member, '.');
        mg_write_key(w, dot ? dot + 1 : row->member);
        write_value(w, row->value.kind, options->value[id]);
    }
    if (*group)
        mg_write_end_object(w);
}

/* ---- help ---- */

void mg_options_usage(enum mg_command command)
{
    const struct command_row *row = &command_table[command];
    printf("usage: magisd %s %s%s[options]\n%s\n\noptions:\n", row->name, row->arguments, *row->arguments ? " " : "",
           row->help ? row->help : "(internal)");
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++) {
        const struct option_row *option = &option_table[id];
        if (!(option->commands & (1u << command)))
            continue;
        int used = printf("  --%s %s", option->name, option->argument);
        printf("%*s%s", used < 30 ? 30 - used : 1, "", option->help);
        if (option->value.kind <= KIND_BYTES && option->value.most > 0 && option->value.most < ANY)
            printf(" [%.0f..%.0f]", option->value.least, option->value.most);
        printf("\n");
    }
    printf("\nEvery option can also be given as a variable MAGISD_NAME or in a config file.\n");
}
