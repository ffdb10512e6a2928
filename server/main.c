/* magisd: one binary, a function for each subcommand (commands.def). */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "server/options.h"

struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
};
static const struct command commands[] = {
#define MG_COMMAND(id, name, function, arguments, help) {name, help, function},
#include "server/commands.def"
#undef MG_COMMAND
};

static void usage(FILE *to)
{
    fprintf(to, "usage: magisd COMMAND [options]\n\nPlans memory for neural networks.\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (commands[i].help)
            fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n`magisd COMMAND --help` lists a command's options.\n");
}

/* Arenas come and go by the megabyte: keep what they give back, instead of faulting it in anew each time. */
static void keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    mallopt(M_TOP_PAD, 4 << 20);
}

int main(int argc, char **argv)
{
    keep_freed_memory();
    signal(SIGPIPE, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "--help";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        return mg_cmd_version(1, argv);
    bool asked = strcmp(name, "--help") == 0 || strcmp(name, "help") == 0 || strcmp(name, "-h") == 0;
    if (!asked)
        fprintf(stderr, "magisd: unknown command \"%s\"\n", name);
    usage(asked && argc > 1 ? stdout : stderr);
    return asked && argc > 1 ? MG_EXIT_DONE : MG_EXIT_USAGE;
}
