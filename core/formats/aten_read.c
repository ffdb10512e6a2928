/* The entry: which format a document has, and the table of ATen operators by name. */
#include <string.h>

#include "formats/aten_rules.h"

const struct aten_entry *aten_find(const char *name, size_t size, const char *overload)
{
#define ATEN(name, overloads, rule, type, arguments) {name, overloads, aten_rule_##rule, MG_OP_##type, arguments},
    static const struct aten_entry entries[] = {
#include "formats/aten.def"
    };
#undef ATEN
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strncmp(entries[i].name, name, size) == 0 && !entries[i].name[size] &&
            aten_lists(entries[i].overloads, overload, strlen(overload)))
            return &entries[i];
    return NULL;
}

enum mg_code mg_aten_read(const char *json, size_t size, struct mg_arena *scratch, struct mg_arena *arena,
                          struct mg_graph **out, struct mg_error *err)
{
    struct mg_json reader;
    struct aten_document document;
    mg_json_init(&reader, scratch, json, size);
    bool good = mg_aten_parse(&reader, &document);
    mg_json_end_elements(&reader);
    if (!good)
        return mg_fail(err, reader.err.code, reader.err.pointer, "%s", reader.err.message);
    enum mg_code code = mg_aten_build(&document, scratch, arena, out, err);
    if (code == MG_OK)
        (*out)->source = mg_arena_strdup(arena, document.digest);
    return code;
}
