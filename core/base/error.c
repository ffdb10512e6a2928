#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum mg_code mg_fail(struct mg_error *err, enum mg_code code, const char *pointer, const char *fmt, ...)
{
    if (!err)
        return code;
    /* Callers wrap errors: the arguments may point into *err, so the new text is built aside. */
    struct mg_error fresh = {.code = code};
    va_list args;
    va_start(args, fmt);
    vsnprintf(fresh.message, sizeof fresh.message, fmt, args);
    va_end(args);
    if (pointer) {
        size_t size = strnlen(pointer, sizeof fresh.pointer - 1);
        memcpy(fresh.pointer, pointer, size);
    }
    *err = fresh;
    return code;
}

const char *mg_code_name(enum mg_code code)
{
    switch (code) {
    case MG_OK:
        return "ok";
    case MG_ERR_SYNTAX:
        return "syntax";
    case MG_ERR_INVALID:
        return "invalid";
    case MG_ERR_UNSUPPORTED:
        return "unsupported";
    case MG_ERR_LIMIT:
        return "limit";
    case MG_ERR_NOMEM:
        return "nomem";
    case MG_ERR_CANCELLED:
        return "cancelled";
    case MG_ERR_REJECTED:
        return "rejected";
    case MG_ERR_INTERNAL:
        return "internal";
    }
    return "unknown";
}
