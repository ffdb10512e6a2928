/* The text by which an operator is priced and measured: math mode, attributes in schema order, dtypes and
 * shapes of operands and results, all dense:
 *
 *     f32;stride=1,1;pads=0,0,0,0;f32[8,64,56,56],f32[64,64,1,1]->f32[8,64,56,56]
 *
 * Together with the operator's name it is the key of a timing. Plans list the same text with their prices. */
#ifndef MG_DEVICE_SIGNATURE_H
#define MG_DEVICE_SIGNATURE_H

#include "base/digest.h"
#include "graph/graph.h"

enum { MG_SIGNATURE_MAX = 4096 }; /* what is measured; longer ones are priced by the model */

/* Bytes that hold any signature with these attributes and so many operands and results, NUL included. */
size_t mg_signature_bound(const struct mg_attr *attrs, uint32_t attr_count, uint32_t values);
/* Writes the signature and its NUL; returns its length. `text` holds mg_signature_bound() bytes. */
size_t mg_signature_print(const struct mg_op_desc *desc, char *text);
/* "f32[2,3]"; returns its length. At most 16 + MG_MAX_RANK * 22 bytes. */
size_t mg_signature_print_shape(enum mg_dtype dtype, const struct mg_shape *shape, char *text);
/* The operator that `name` and `text` describe; memory from `arena` (inside its guard). MG_ERR_INVALID if the text is
 * not exactly what mg_signature_print() would write, or if shapes and attributes contradict each other. */
enum mg_code mg_signature_read(const char *name, const char *text, struct mg_arena *arena, struct mg_op_desc *out,
                               struct mg_error *err) MG_WARN_UNUSED;
/* The key of a timing among those of one device class. */
struct mg_hash128 mg_signature_key(const char *name, const char *text);

#endif
