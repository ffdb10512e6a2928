/* The rows of options.def and commands.def, and the values that options take. */
#ifndef MG_SERVER_OPTIONS_PRIV_H
#define MG_SERVER_OPTIONS_PRIV_H

#include "server/options.h"

enum mg_option_kind {
    MG_KIND_TEXT,
    MG_KIND_UINT,
    MG_KIND_NUMBER,
    MG_KIND_BYTES,
    MG_KIND_FLAG,
    MG_KIND_NOT,
    MG_KIND_LIST,
    MG_KIND_PAIRS
};

struct mg_option_range {
    enum mg_option_kind kind;
    double least, most; /* of numbers */
};
#define MG_OPTION_ANY 1e300 /* no bound of its own */

struct mg_option_row {
    const char *name;
    struct mg_option_range value;
    const char *member;
    uint32_t commands; /* bits by enum mg_command */
    const char *argument, *help;
};
extern const struct mg_option_row mg_option_table[MG_OPTION_COUNT];

struct mg_command_row {
    const char *name, *arguments;
    unsigned least, most; /* so many arguments */
    const char *help, *about;
};
extern const struct mg_command_row mg_command_table[MG_COMMAND_COUNT];

bool mg_option_takes_value(enum mg_option_kind kind);
bool mg_option_parse_uint(const char *text, uint64_t *out);
bool mg_option_parse_number(const char *text, double *out);
/* A count of bytes with an optional unit: K, M, G, T (powers of 1000; with "i": of 1024), "B". */
bool mg_option_parse_bytes(const char *text, uint64_t *out);
bool mg_option_is_valid(const struct mg_option_range *range, const char *text);
/* What mg_option_is_valid() accepts, in words. */
void mg_option_describe(const struct mg_option_range *range, char *out, size_t size);

/* What is wrong, on stderr, and what was perhaps meant. `text` is an option as given, dashes and value included. */
void mg_options_complain_unknown(enum mg_command command, const char *text);
/* `surplus`: the argument that is too many; NULL: one is missing after `given` ones. */
void mg_options_complain_arguments(enum mg_command command, unsigned given, const char *surplus);

#endif
