/* magisd: one binary, a function for each subcommand (commands.def). */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/options.h"
#include "base/suggest.h"

struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
};
static const struct command commands[MG_COMMAND_COUNT] = {
#define MG_COMMAND(id, name, function, arguments, least, most, help, about) {name, help, function},
#include "server/commands.def"
#undef MG_COMMAND
};

static void usage(FILE *to)
{
    fprintf(to, "usage: magisd COMMAND [options]\n\nPlans memory for neural networks.\n\n");
    for (size_t i = 0; i < MG_COMMAND_COUNT; i++)
        if (commands[i].help)
            fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n`magisd COMMAND --help` lists a command's options.\n"
                "Exit status: 0 done, and the limit met; 1 failed; 2 wrong usage or bad input; 3 the limit is not met; "
                "4 not supported;\n130 interrupted.\n");
}

static enum mg_command find_command(const char *name)
{
    unsigned id = 0;
    while (id < MG_COMMAND_COUNT && strcmp(commands[id].name, name) != 0)
        id++;
    return (enum mg_command)id;
}

static int complain_unknown(const char *name)
{
    struct mg_suggestion near = {.text = name};
    for (size_t i = 0; i < MG_COMMAND_COUNT; i++)
        if (commands[i].help)
            mg_suggestion_consider(&near, commands[i].name);
    fprintf(stderr, "magisd: unknown command \"%s\"", name);
    if (near.best)
        fprintf(stderr, "; did you mean %s? (`magisd help` lists all)\n", near.best);
    else
        fprintf(stderr, "\n");
    if (!near.best)
        usage(stderr);
    return MG_EXIT_USAGE;
}

/* `magisd help [COMMAND]` */
static int help(const char *name)
{
    if (!name) {
        usage(stdout);
        return MG_EXIT_DONE;
    }
    enum mg_command id = find_command(name);
    if (id == MG_COMMAND_COUNT || !commands[id].help)
        return complain_unknown(name);
    mg_options_usage(id);
    return MG_EXIT_DONE;
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    enum mg_command id = find_command(name);
    if (id < MG_COMMAND_COUNT)
        return commands[id].run(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        return mg_cmd_version(1, argv);
    if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0 || strcmp(name, "-h") == 0)
        return help(argc > 2 ? argv[2] : NULL);
    if (argc > 1)
        return complain_unknown(name);
    usage(stderr);
    return MG_EXIT_USAGE;
}

/* What a full disk kept from being written is no success. A reader that has gone knows. */
static int flush_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno != EPIPE)
        fprintf(stderr, "magisd: standard output: %s\n", strerror(errno));
    return code == MG_EXIT_DONE ? MG_EXIT_FAILED : code;
}

/* Arenas come and go by the megabyte: keep what they give back, instead of faulting it in anew each time. */
static void keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    mallopt(M_TOP_PAD, 4 << 20);
}

/* Closed ones would become files or sockets of ours, which libuv never closes and the children would take for theirs.
 */
static void open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) != fd)
            _exit(MG_EXIT_FAILED);
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    keep_freed_memory();
    signal(SIGPIPE, SIG_IGN);
    return flush_output(run(argc, argv));
}
