/* options.def and commands.def as tables. */
#include "server/options_priv.h"

#define ANY MG_OPTION_ANY
#define TEXT                                                                                                           \
    {                                                                                                                  \
        MG_KIND_TEXT, 0, 0                                                                                             \
    }
#define FLAG                                                                                                           \
    {                                                                                                                  \
        MG_KIND_FLAG, 0, 0                                                                                             \
    }
#define NOT                                                                                                            \
    {                                                                                                                  \
        MG_KIND_NOT, 0, 0                                                                                              \
    }
#define LIST                                                                                                           \
    {                                                                                                                  \
        MG_KIND_LIST, 0, 0                                                                                             \
    }
#define PAIRS                                                                                                          \
    {                                                                                                                  \
        MG_KIND_PAIRS, 0, 0                                                                                            \
    }
#define UINT(least, most)                                                                                              \
    {                                                                                                                  \
        MG_KIND_UINT, least, most                                                                                      \
    }
#define NUMBER(least, most)                                                                                            \
    {                                                                                                                  \
        MG_KIND_NUMBER, least, most                                                                                    \
    }
#define BYTES(least, most)                                                                                             \
    {                                                                                                                  \
        MG_KIND_BYTES, least, most                                                                                     \
    }

#define IN(command) (1u << MG_COMMAND_##command)
const struct mg_option_row mg_option_table[MG_OPTION_COUNT] = {
#define MG_OPTION(id, name, kind, member, commands, argument, help) {name, kind, member, commands, argument, help},
#include "server/options.def"
};

const struct mg_command_row mg_command_table[MG_COMMAND_COUNT] = {
#define MG_COMMAND(id, name, function, arguments, least, most, help, about) {name, arguments, least, most, help, about},
#include "server/commands.def"
#undef MG_COMMAND
};
