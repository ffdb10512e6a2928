/* What the command line says of itself, and what was perhaps meant where it does not understand. */
#include <stdio.h>
#include <string.h>

#include "server/options_priv.h"
#include "base/suggest.h"

#define IN(command) (1u << MG_COMMAND_##command)

/* ---- help ---- */

/* What an option means for these commands, where that is not what its row says. */
static const struct note {
    enum mg_option option;
    uint32_t commands;
    const char *argument, *help;
} notes[] = {
#define MG_OPTION_NOTE(id, commands, argument, help) {MG_OPTION_##id, commands, argument, help},
#include "server/options.def"
};

static struct note note_of(enum mg_option option, enum mg_command command)
{
    const struct mg_option_row *row = &mg_option_table[option];
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (notes[i].option == option && (notes[i].commands & (1u << command)))
            return notes[i];
    return (struct note){option, row->commands, row->argument, row->help};
}

static void print_usage(FILE *to, const struct mg_command_row *row)
{
    fprintf(to, "usage: magisd %s %s%s[options]\n", row->name, row->arguments, *row->arguments ? " " : "");
}

void mg_options_usage(enum mg_command command)
{
    const struct mg_command_row *row = &mg_command_table[command];
    print_usage(stdout, row);
    printf("%s\n%s%s\noptions:\n", row->help ? row->help : "(internal)", *row->about ? "\n" : "", row->about);
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++) {
        const struct mg_option_row *option = &mg_option_table[id];
        if (!(option->commands & (1u << command)))
            continue;
        struct note note = note_of((enum mg_option)id, command);
        int used = printf("  --%s %s", option->name, note.argument);
        printf("%*s%s", used < 30 ? 30 - used : 1, "", note.help);
        if (option->value.kind <= MG_KIND_BYTES && option->value.most > 0 && option->value.most < MG_OPTION_ANY)
            printf(" [%.0f..%.0f]", option->value.least, option->value.most);
        printf("\n");
    }
    printf("\nEvery option can also be given as a variable (MAGISD_CONFIG for --config) or in a config file.\n");
}

/* ---- what was perhaps meant ---- */

/* Names that other programs have for what is said otherwise here. */
static const struct {
    const char *name;
    uint32_t commands;
    const char *here;
} elsewhere[] = {
#define MG_OPTION_ELSEWHERE(name, commands, here) {name, commands, here},
#include "server/options.def"
};

static const char *said_here(enum mg_command command, const char *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (strcmp(elsewhere[i].name, name) == 0 && (elsewhere[i].commands & (1u << command)))
            return elsewhere[i].here;
    return NULL;
}

/* The first command that has the option. */
static const char *command_with(const char *name)
{
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++)
        for (unsigned command = 0; command < MG_COMMAND_COUNT && strcmp(mg_option_table[id].name, name) == 0; command++)
            if (mg_option_table[id].commands & (1u << command))
                return mg_command_table[command].name;
    return NULL;
}

static const char *nearest_option(enum mg_command command, const char *name)
{
    struct mg_suggestion s = {.text = name};
    for (unsigned id = 0; id < MG_OPTION_COUNT; id++)
        if (mg_option_table[id].commands & (1u << command))
            mg_suggestion_consider(&s, mg_option_table[id].name);
    return s.best;
}

void mg_options_complain_unknown(enum mg_command command, const char *text)
{
    char name[64];
    const char *word = text + strspn(text, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *here = said_here(command, name), *near = nearest_option(command, name), *other = command_with(name);
    fprintf(stderr, "magisd %s: unknown option %s", mg_command_table[command].name, text);
    if (here)
        fprintf(stderr, "; did you mean %s?\n", here);
    else if (near)
        fprintf(stderr, "; did you mean --%s?\n", near);
    else if (other)
        fprintf(stderr, ", which is one of magisd %s (see --help)\n", other);
    else
        fprintf(stderr, " (see --help)\n");
}

/* ---- arguments ---- */

/* "PLAN" of "GRAPH PLAN". */
static void print_word(const char *words, unsigned at)
{
    while (at--)
        words += strcspn(words, " ") + 1;
    fprintf(stderr, "%.*s is missing\n", (int)strcspn(words, " "), words);
}

void mg_options_complain_arguments(enum mg_command command, unsigned given, const char *surplus)
{
    const struct mg_command_row *row = &mg_command_table[command];
    fprintf(stderr, "magisd %s: ", row->name);
    if (surplus)
        fprintf(stderr, "one argument too many: \"%s\"\n", surplus);
    else
        print_word(row->arguments, given);
    print_usage(stderr, row);
    fprintf(stderr, "%s`magisd %s --help` lists the options.\n", row->about, row->name);
}
