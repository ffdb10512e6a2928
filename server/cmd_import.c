/* FILE is an ONNX model (or a native graph, which is normalised). */
#include "server/source.h"

int mg_cmd_import(int argc, char **argv)
{
    struct mg_options options;
    struct mg_source source = {.keep_contents = false};
    int code;
    if (mg_options_parse(&options, MG_COMMAND_IMPORT, argc, argv, &code)) {
        code = mg_source_open(&source, &options, options.argument[0]);
        if (code == MG_EXIT_DONE)
            code = mg_source_write_graph(&options, source.graph);
        mg_source_release(&source);
    }
    mg_options_release(&options);
    return code;
}
