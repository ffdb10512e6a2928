/* Plans as something that other programs run or read.
 *
 * All take the original graph and a plan of it (mg_plan_read, or mg_plan_derive after unpacking). `known` (or NULL)
 * has the contents of weights and constants, for formats that hold them. Where a format does
 * not apply they fail with MG_ERR_UNSUPPORTED and a sentence that says what stands in the way; the writer's contents
 * are of no use then. Memory comes from `arena`, which they guard themselves. */
#ifndef MG_EXPORT_EXPORT_H
#define MG_EXPORT_EXPORT_H

#include "base/json.h"
#include "formats/onnx.h"
#include "plan/plan.h"

enum mg_export_format {
#define MG_EXPORT(id, name, ...) MG_EXPORT_##id,
#include "export/formats.def"
#undef MG_EXPORT
    MG_EXPORT_COUNT
};
const char *mg_export_name(enum mg_export_format format);
enum mg_export_format mg_export_from_name(const char *name); /* MG_EXPORT_COUNT if unknown */
const char *mg_export_extension(enum mg_export_format format);
const char *mg_export_media_type(enum mg_export_format format);

enum mg_code mg_export_write(enum mg_export_format format, struct mg_writer *w, const struct mg_graph *g,
                             const struct mg_plan *plan, const struct mg_onnx_model *known, struct mg_arena *arena,
                             struct mg_error *err) MG_WARN_UNUSED;

/* Every format, and whether this plan can be had in it: [{"format", "extension", "media_type", "available", "reason"}],
 * the reason being what mg_export_write() says, null where there is none. They are all written to find out. */
enum mg_code mg_export_write_formats(struct mg_writer *w, const struct mg_graph *g, const struct mg_plan *plan,
                                     struct mg_arena *arena, struct mg_error *err) MG_WARN_UNUSED;

#endif
