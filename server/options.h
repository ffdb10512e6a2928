/* The command line: subcommands (commands.def) and their options (options.def). */
#ifndef MG_SERVER_OPTIONS_H
#define MG_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

enum mg_command {
#define MG_COMMAND(id, ...) MG_COMMAND_##id,
#include "server/commands.def"
#undef MG_COMMAND
    MG_COMMAND_COUNT
};

enum mg_option {
#define MG_OPTION(id, ...) MG_OPTION_##id,
#include "server/options.def"
    MG_OPTION_COUNT
};

/* Exit codes. */
enum {
    MG_EXIT_DONE = 0,
    MG_EXIT_FAILED = 1,
    MG_EXIT_USAGE = 2,
    MG_EXIT_NOT_MET = 3,
    MG_EXIT_UNSUPPORTED = 4,
    MG_EXIT_INTERRUPTED = 130
};

enum { MG_MAX_ARGUMENTS = 2 };

struct mg_options {
    enum mg_command command;
    const char *value[MG_OPTION_COUNT]; /* as text; NULL if not given; flags: "true" */
    const char *argument[MG_MAX_ARGUMENTS];
    unsigned argument_count;
    struct mg_arena arena;
};

/* One function for each command: argv[0] is the command's name. Returns the exit code. */
#define MG_COMMAND(id, name, function, ...) int function(int argc, char **argv);
#include "server/commands.def"
#undef MG_COMMAND

/* Reads command line, environment and config file, in this order of precedence. Returns true if the
 * command should run; else *exit_code says how to leave (help was printed, or an error on stderr).
 * As many arguments are there as the command takes (commands.def). Release in either case. */
bool mg_options_parse(struct mg_options *options, enum mg_command command, int argc, char **argv, int *exit_code);
void mg_options_release(struct mg_options *options);

bool mg_options_flag(const struct mg_options *options, enum mg_option id);
/* `fallback` where not given. Texts were checked by mg_options_parse. */
uint64_t mg_options_uint(const struct mg_options *options, enum mg_option id, uint64_t fallback);
double mg_options_number(const struct mg_options *options, enum mg_option id, double fallback);
/* Writes the members of the request that were given as options (without source and device). */
void mg_options_write_members(const struct mg_options *options, struct mg_writer *w);
/* "k=v,..." as the members of a JSON object; values that read as numbers become numbers. */
bool mg_options_write_pairs(enum mg_option id, const char *text, struct mg_writer *w);
void mg_options_usage(enum mg_command command);

#endif
