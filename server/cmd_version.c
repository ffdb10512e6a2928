#include <stdio.h>
#include <stdlib.h>

#include <uv.h>
#include <zlib.h>

#include "server/options.h"
#include "server/version.h"

static void write_json(struct mg_writer *w)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", "magisd");
    mg_write_member_string(w, "version", MG_VERSION);
    mg_write_member_int(w, "optimizer", MG_OPTIMIZER_VERSION);
    mg_write_member_string(w, "compiler", __VERSION__);
    mg_write_member_string(w, "libuv", uv_version_string());
    mg_write_member_string(w, "zlib", zlibVersion());
    mg_write_end_object(w);
}

int mg_cmd_version(int argc, char **argv)
{
    struct mg_options options;
    int code;
    if (mg_options_parse(&options, MG_COMMAND_VERSION, argc, argv, &code)) {
        code = MG_EXIT_DONE;
        if (mg_options_flag(&options, MG_OPTION_JSON)) {
            struct mg_writer w;
            mg_writer_init(&w);
            write_json(&w);
            code = mg_writer_finish(&w) && puts(w.data) >= 0 ? MG_EXIT_DONE : MG_EXIT_FAILED;
            mg_writer_release(&w);
        } else {
            printf("magisd %s (optimizer %d, compiler %s, libuv %s)\n", MG_VERSION, MG_OPTIMIZER_VERSION, __VERSION__,
                   uv_version_string());
        }
    }
    mg_options_release(&options);
    return code;
}
