/* Arena allocation: everything of one lifetime in a chain of blocks, released at once.
 *
 * Memory is zeroed and aligned to 16 bytes. An allocation never returns NULL: when malloc fails or
 * the byte budget is exceeded, control returns to the innermost mg_arena_guard() on this arena,
 * which then reports MG_ERR_NOMEM. Public entry points of the core wrap their work in a guard, so
 * the code inside needs no check after each allocation. Allocating outside a guard aborts. */
#ifndef MG_BASE_ARENA_H
#define MG_BASE_ARENA_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct mg_arena_block;

/* Running out does not return. */
#define MG_NONNULL __attribute__((returns_nonnull))

struct mg_arena {
    struct mg_arena_block *head;
    size_t limit; /* byte budget over all blocks; SIZE_MAX = none */
    size_t used;  /* bytes held in blocks */
    size_t peak;  /* largest `used` so far */
    jmp_buf *guard;
    struct mg_arena *payer; /* whose budget it uses up too, or NULL */
};

struct mg_arena_mark {
    struct mg_arena_block *block;
    size_t at;
};

void mg_arena_init(struct mg_arena *arena, size_t limit);
/* An arena of another lifetime on the budget of `payer`, whose `used` and `peak` count its blocks, and whose guard
 * holds where it has none of its own. It is released before the payer is. */
void mg_arena_init_within(struct mg_arena *arena, struct mg_arena *payer);
void mg_arena_release(struct mg_arena *arena);

/* Zeroed memory; size 0 gives a valid pointer. */
void *mg_arena_alloc(struct mg_arena *arena, size_t size) MG_NONNULL;
/* count * size with overflow check. */
void *mg_arena_calloc(struct mg_arena *arena, size_t count, size_t size) MG_NONNULL;
void *mg_arena_copy(struct mg_arena *arena, const void *data, size_t size);
char *mg_arena_strdup(struct mg_arena *arena, const char *text);
char *mg_arena_printf(struct mg_arena *arena, const char *fmt, ...) MG_PRINTF(2, 3);
/* Growable arrays: returns an array of at least `need` elements holding the first `count` of
 * `old`; *capacity is updated (doubling). */
void *mg_arena_grow(struct mg_arena *arena, void *old, size_t count, size_t *capacity, size_t need,
                    size_t size) MG_NONNULL;

/* Everything allocated after the mark is released by the rewind (poisoned under ASan). */
struct mg_arena_mark mg_arena_mark(const struct mg_arena *arena);
void mg_arena_rewind(struct mg_arena *arena, struct mg_arena_mark mark);

/* Typed helpers. */
#define MG_NEW(arena, type) ((type *)mg_arena_alloc((arena), sizeof(type)))
#define MG_NEW_ARRAY(arena, type, count) ((type *)mg_arena_calloc((arena), (size_t)(count), sizeof(type)))
/* Appends one element slot to a (pointer, size_t count, size_t capacity) triple and yields a pointer to it. */
#define MG_PUSH(arena, array, count, capacity)                                                                         \
    (((count) == (capacity)                                                                                            \
          ? (void)((array) = mg_arena_grow((arena), (array), (count), &(capacity), (count) + 1, sizeof *(array)))      \
          : (void)0),                                                                                                  \
     &(array)[(count)++])

/* Runs fn(context) so that running out of memory in `arena` returns MG_ERR_NOMEM here. */
enum mg_code mg_arena_guard(struct mg_arena *arena, enum mg_code (*fn)(void *context, struct mg_error *err),
                            void *context, struct mg_error *err) MG_WARN_UNUSED;

#endif
