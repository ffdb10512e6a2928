/* The Python functions that exported modules are made of: torch_ops.py travels in the binary; a module gets those
 * functions that it calls. A function reaches from its "def" in the first column to the next line that begins there. */
#include <ctype.h>

#include "export/torch_priv.h"

__asm__(
    ".section .rodata\n.globl mg_torch_ops\nmg_torch_ops:\n.incbin \"core/export/torch_ops.py\"\n.byte 0\n.previous");
extern const char mg_torch_ops[];

struct function {
    const char *begin, *name;
    size_t size, name_size;
    bool needed;
};
struct library {
    struct function *functions;
    size_t count, capacity;
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t word_size(const char *at)
{
    size_t size = 0;
    while (is_word(at[size]))
        size++;
    return size;
}

/* The begin of the next line after `at`, or the end of the text. */
static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

static const char *function_end(const char *at)
{
    at = next_line(at);
    while (*at == ' ' || *at == '\n')
        at = next_line(at);
    while (at[-1] == '\n' && at[-2] == '\n')
        at--;
    return at;
}

static const char *next_function(const char *at)
{
    while (*at && strncmp(at, "def ", 4) != 0)
        at = next_line(at);
    return *at ? at : NULL;
}

bool mg_torch_has_function(const char *name)
{
    size_t size = strlen(name);
    for (const char *at = next_function(mg_torch_ops); at; at = next_function(next_line(at)))
        if (word_size(at + 4) == size && memcmp(at + 4, name, size) == 0)
            return true;
    return false;
}

static void index_library(struct library *library, struct mg_arena *arena)
{
    for (const char *at = next_function(mg_torch_ops); at; at = next_function(function_end(at)))
        *MG_PUSH(arena, library->functions, library->count, library->capacity) =
            (struct function){at, at + 4, (size_t)(function_end(at) - at), word_size(at + 4), false};
}

static void need(struct library *library, const char *code, size_t size);

static void need_named(struct library *library, const char *name, size_t size)
{
    for (size_t i = 0; i < library->count; i++) {
        struct function *f = &library->functions[i];
        if (f->needed || f->name_size != size || memcmp(f->name, name, size) != 0)
            continue;
        f->needed = true;
        need(library, f->begin, f->size);
        return;
    }
}

/* Every word before a parenthesis may be a call. */
static void need(struct library *library, const char *code, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t length = word_size(code + i);
        if (length && code[i + length] == '(')
            need_named(library, code + i, length);
        i += length ? length : 1;
    }
}

void mg_torch_write_functions(struct mg_writer *w, const char *code, struct mg_arena *arena)
{
    struct library library = {.count = 0};
    index_library(&library, arena);
    need(&library, code, strlen(code));
    for (size_t i = 0; i < library.count; i++)
        if (library.functions[i].needed)
            mg_write_text(w, "\n\n%.*s", (int)library.functions[i].size, library.functions[i].begin);
}
