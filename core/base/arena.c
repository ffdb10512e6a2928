/* Bump allocation from a chain of blocks.
 *
 * The newest block is the head; an allocation moves its fill mark. Blocks double from 4 KiB to
 * 1 MiB, a larger request gets a block of its own size, and near the budget a block shrinks to what
 * is asked for. Under AddressSanitizer whatever is not handed out is poisoned, with a red zone
 * between neighbours, so stale pointers after a rewind and overruns are caught. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(at, size) ASAN_POISON_MEMORY_REGION(at, size)
#define UNPOISON(at, size) ASAN_UNPOISON_MEMORY_REGION(at, size)
enum { RED_ZONE = 16 };
#else
#define POISON(at, size) ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
enum { RED_ZONE = 0 };
#endif

enum { ALIGN = 16, FIRST_BLOCK = 4096, LAST_BLOCK = 1 << 20 };

struct mg_arena_block {
    struct mg_arena_block *previous;
    size_t capacity; /* bytes after the header */
    size_t fill;     /* multiple of ALIGN */
    size_t padding;
};

_Static_assert(sizeof(struct mg_arena_block) % ALIGN == 0, "blocks keep the alignment");

static char *block_data(struct mg_arena_block *block)
{
    return (char *)(block + 1);
}

/* Unwinds to the innermost guard, of the arena or of who pays for it; without one the caller has broken the contract.
 */
static void fail_allocation(struct mg_arena *arena)
{
    while (!arena->guard && arena->payer)
        arena = arena->payer;
    if (!arena->guard) {
        fputs("magis: out of memory outside an arena guard\n", stderr);
        abort();
    }
    longjmp(*arena->guard, 1);
}

/* 0 when the size overflows. */
static size_t round_up(size_t size)
{
    if (size > SIZE_MAX / 2)
        return 0;
    size_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN;
    return (rounded ? rounded : ALIGN) + RED_ZONE;
}

void mg_arena_init(struct mg_arena *arena, size_t limit)
{
    *arena = (struct mg_arena){.limit = limit};
}

void mg_arena_init_within(struct mg_arena *arena, struct mg_arena *payer)
{
    *arena = (struct mg_arena){.limit = SIZE_MAX, .payer = payer};
}

/* Counts a block in, or out where `sign` is negative. */
static void charge(struct mg_arena *arena, const struct mg_arena_block *block, int sign)
{
    size_t bytes = sizeof *block + block->capacity;
    for (; arena; arena = arena->payer) {
        arena->used = sign < 0 ? arena->used - bytes : arena->used + bytes;
        arena->peak = arena->used > arena->peak ? arena->used : arena->peak;
    }
}

/* Of the arena and those that pay for it, the one whose budget is nearest to its end. */
static const struct mg_arena *tightest(const struct mg_arena *arena)
{
    const struct mg_arena *least = arena;
    for (; arena; arena = arena->payer)
        if (arena->limit - arena->used < least->limit - least->used)
            least = arena;
    return least;
}

static void drop_head(struct mg_arena *arena)
{
    struct mg_arena_block *block = arena->head;
    arena->head = block->previous;
    charge(arena, block, -1);
    UNPOISON(block_data(block), block->capacity);
    free(block);
}

void mg_arena_release(struct mg_arena *arena)
{
    while (arena->head)
        drop_head(arena);
}

static size_t choose_capacity(const struct mg_arena *arena, size_t need)
{
    size_t wanted = arena->head ? arena->head->capacity * 2 : FIRST_BLOCK;
    if (wanted > LAST_BLOCK)
        wanted = LAST_BLOCK;
    size_t header = sizeof(struct mg_arena_block);
    const struct mg_arena *payer = tightest(arena);
    size_t left = payer->limit - payer->used;
    if (left < header || left - header < need)
        return 0;
    if (wanted > left - header)
        wanted = need;
    return wanted > need ? wanted : need;
}

static void add_block(struct mg_arena *arena, size_t need)
{
    size_t capacity = choose_capacity(arena, need);
    struct mg_arena_block *block = capacity ? malloc(sizeof *block + capacity) : NULL;
    if (!block) {
        fail_allocation(arena);
        return;
    }
    *block = (struct mg_arena_block){.previous = arena->head, .capacity = capacity};
    POISON(block_data(block), capacity);
    arena->head = block;
    charge(arena, arena->head, 1);
}

static void *take(struct mg_arena *arena, size_t size)
{
    size_t need = round_up(size);
    if (!need)
        fail_allocation(arena);
    if (!arena->head || arena->head->capacity - arena->head->fill < need)
        add_block(arena, need);
    char *at = block_data(arena->head) + arena->head->fill;
    arena->head->fill += need;
    UNPOISON(at, size);
    return at;
}

void *mg_arena_alloc(struct mg_arena *arena, size_t size)
{
    return memset(take(arena, size), 0, size);
}

static size_t multiply(struct mg_arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        fail_allocation(arena);
    return total;
}

void *mg_arena_calloc(struct mg_arena *arena, size_t count, size_t size)
{
    return mg_arena_alloc(arena, multiply(arena, count, size));
}

void *mg_arena_copy(struct mg_arena *arena, const void *data, size_t size)
{
    void *copy = take(arena, size);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

char *mg_arena_strdup(struct mg_arena *arena, const char *text)
{
    return mg_arena_copy(arena, text, strlen(text) + 1);
}

char *mg_arena_printf(struct mg_arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    /* The copy must be ended before anything can jump away. */
    char *text = NULL;
    char small[256];
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    if (size <= sizeof small) {
        small[0] = 0;
        vsnprintf(small, sizeof small, fmt, again);
        va_end(again);
        return mg_arena_copy(arena, small, size);
    }
    text = take(arena, size);
    vsnprintf(text, size, fmt, again);
    va_end(again);
    return text;
}

/* Widens `old` where it lies when it is the newest allocation and its block has room. */
static bool extend_last(struct mg_arena *arena, void *old, size_t old_size, size_t new_size)
{
    struct mg_arena_block *block = arena->head;
    size_t old_need = round_up(old_size);
    size_t new_need = round_up(new_size);
    if (!block || !old || !new_need || block->fill < old_need)
        return false;
    size_t offset = block->fill - old_need;
    if (block_data(block) + offset != (char *)old || block->capacity - offset < new_need)
        return false;
    block->fill = offset + new_need;
    UNPOISON(old, new_size);
    memset((char *)old + old_size, 0, new_size - old_size);
    return true;
}

void *mg_arena_grow(struct mg_arena *arena, void *old, size_t count, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return old;
    size_t wanted = *capacity > SIZE_MAX / 2 ? need : *capacity * 2;
    if (wanted < need)
        wanted = need;
    if (wanted < 8)
        wanted = 8;
    size_t bytes = multiply(arena, wanted, size);
    if (extend_last(arena, old, *capacity * size, bytes)) {
        *capacity = wanted;
        return old;
    }
    char *fresh = take(arena, bytes);
    if (count)
        memcpy(fresh, old, count * size);
    memset(fresh + count * size, 0, bytes - count * size);
    *capacity = wanted;
    return fresh;
}

struct mg_arena_mark mg_arena_mark(const struct mg_arena *arena)
{
    return (struct mg_arena_mark){.block = arena->head, .at = arena->head ? arena->head->fill : 0};
}

void mg_arena_rewind(struct mg_arena *arena, struct mg_arena_mark mark)
{
    while (arena->head && arena->head != mark.block)
        drop_head(arena);
    if (!arena->head)
        return;
    POISON(block_data(arena->head) + mark.at, arena->head->capacity - mark.at);
    arena->head->fill = mark.at;
}

enum mg_code mg_arena_guard(struct mg_arena *arena, enum mg_code (*fn)(void *context, struct mg_error *err),
                            void *context, struct mg_error *err)
{
    jmp_buf here;
    jmp_buf *const outer = arena->guard;
    arena->guard = &here;
    if (setjmp(here)) {
        const struct mg_arena *payer = tightest(arena);
        arena->guard = outer;
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory (%zu bytes in use, budget %zu)", payer->used,
                       payer->limit);
    }
    enum mg_code code = fn(context, err);
    arena->guard = outer;
    return code;
}
