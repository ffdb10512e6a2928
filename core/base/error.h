/* Errors: a code, the place in the input that is to blame, and a sentence for people.
 *
 * Every fallible function of the core returns `enum mg_code` (MG_OK on success) and fills the
 * caller-supplied `struct mg_error` when it fails. Blame decides what callers do: bad input becomes
 * a 4xx answer with `pointer`; MG_ERR_INTERNAL is our own bug and is logged with a dump. */
#ifndef MG_BASE_ERROR_H
#define MG_BASE_ERROR_H

#include <stdarg.h>

#define MG_WARN_UNUSED __attribute__((warn_unused_result))
#define MG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

enum mg_code {
    MG_OK = 0,
    MG_ERR_SYNTAX,      /* not well-formed JSON (or other encoding) */
    MG_ERR_INVALID,     /* well-formed but wrong: unknown name, shape mismatch, cycle, ... */
    MG_ERR_UNSUPPORTED, /* valid, but a feature or operator that we do not have */
    MG_ERR_LIMIT,       /* a limit on size, depth or count was exceeded */
    MG_ERR_NOMEM,       /* out of memory (or the arena's budget) */
    MG_ERR_CANCELLED,   /* the caller asked to stop */
    MG_ERR_REJECTED,    /* the independent checker refused a plan */
    MG_ERR_INTERNAL,    /* a broken invariant: our bug */
};

struct mg_error {
    enum mg_code code;
    char pointer[256]; /* JSON pointer (RFC 6901) to the place, or "" */
    char message[512]; /* one sentence, no trailing newline */
};

/* Fills *err (may be NULL) and returns `code`, so that callers can `return mg_fail(...)`. */
enum mg_code mg_fail(struct mg_error *err, enum mg_code code, const char *pointer, const char *fmt, ...)
    MG_PRINTF(4, 5);
/* Returns what the call returns unless that is MG_OK. */
#define MG_TRY(call)                                                                                                   \
    do {                                                                                                               \
        enum mg_code code_ = (call);                                                                                   \
        if (code_ != MG_OK)                                                                                            \
            return code_;                                                                                              \
    } while (0)

/* The stable lower-case name of a code ("invalid", "limit", ...). */
const char *mg_code_name(enum mg_code code);

#endif
