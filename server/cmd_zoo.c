#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/answer.h"
#include "server/source.h"

static int list_as_json(void)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_answer_write_zoo(&w);
    int code = mg_writer_finish(&w) && puts(w.data) >= 0 ? MG_EXIT_DONE : MG_EXIT_FAILED;
    mg_writer_release(&w);
    return code;
}

static int list(void)
{
    for (uint32_t i = 0; i < mg_zoo_count(); i++)
        printf("%-14s %s\n", mg_zoo_at(i)->name, mg_zoo_at(i)->title);
    if (isatty(STDOUT_FILENO) == 1)
        printf("`magisd zoo NAME` tells the options of a network\n");
    return MG_EXIT_DONE;
}

/* What --set takes, where a person reads: else the graph follows. */
static void print_options(const struct mg_options *options, const char *name)
{
    bool graph = options->value[MG_OPTION_OUTPUT] || options->value[MG_OPTION_FORMAT] ||
                 mg_options_flag(options, MG_OPTION_JSON) || isatty(STDOUT_FILENO) != 1;
    for (uint32_t i = 0; !graph && i < mg_zoo_count(); i++) {
        const struct mg_zoo_entry *entry = mg_zoo_at(i);
        for (uint32_t k = 0; strcmp(entry->name, name) == 0 && k < entry->parameter_count; k++)
            printf("    --set %s=%s  %s\n", entry->parameters[k].name, entry->parameters[k].fallback,
                   entry->parameters[k].help);
    }
}

static int show(const struct mg_options *options, const char *name)
{
    char text[256];
    struct mg_source source = {.keep_contents = false};
    snprintf(text, sizeof text, "%s%s", strncmp(name, "zoo:", 4) == 0 ? "" : "zoo:", name);
    int code = mg_source_open(&source, options, text);
    if (code == MG_EXIT_DONE)
        code = mg_source_write_graph(options, source.graph);
    if (code == MG_EXIT_DONE)
        print_options(options, text + 4);
    mg_source_release(&source);
    return code;
}

/* True after having said that an option needs a network. */
static bool wants_network(const struct mg_options *options)
{
    static const struct {
        enum mg_option id;
        const char *name;
    } needy[] = {{MG_OPTION_SET, "set"}, {MG_OPTION_TRAINING, "training"}, {MG_OPTION_OUTPUT, "output"}};
    for (size_t i = 0; i < sizeof needy / sizeof needy[0]; i++)
        if (options->value[needy[i].id])
            return fprintf(stderr, "magisd zoo: --%s is for a network: name one (`magisd zoo` lists them)\n",
                           needy[i].name) > 0;
    return false;
}

int mg_cmd_zoo(int argc, char **argv)
{
    struct mg_options options;
    int code;
    if (mg_options_parse(&options, MG_COMMAND_ZOO, argc, argv, &code)) {
        if (options.argument_count == 0 && wants_network(&options))
            code = MG_EXIT_USAGE;
        else if (options.argument_count > 0)
            code = show(&options, options.argument[0]);
        else
            code = mg_options_flag(&options, MG_OPTION_JSON) ? list_as_json() : list();
    }
    mg_options_release(&options);
    return code;
}
