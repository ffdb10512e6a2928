/* Which calls a rule may see: those of its overloads, with no argument that it neither reads nor knows to have no say.
 * The table's words (aten.def) are compared with the arguments as they were given: a position beyond the words, an
 * unknown keyword or another value than the only one that a rule holds for, and the call is not the rule's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/aten_priv.h"

/* The word behind `*at` and its length, or NULL at the end. */
static const char *next_word(const char **at, size_t *size)
{
    const char *word = *at + strspn(*at, " ");
    *size = strcspn(word, " ");
    *at = word + *size;
    return *size ? word : NULL;
}

bool aten_lists(const char *words, const char *name, size_t size)
{
    size_t length;
    for (const char *word; (word = next_word(&words, &length));)
        if (length == size && memcmp(word, name, size) == 0)
            return true;
    return false;
}

static bool has_nan(const struct aten_arg *arg)
{
    for (size_t i = 0; i < arg->count; i++)
        if (has_nan(&arg->item[i]))
            return true;
    return arg->kind == ATEN_FLOAT && isnan(arg->f);
}

/* May an argument told by this word have that value? */
static bool is_allowed(const char *word, size_t size, const struct aten_arg *arg)
{
    const char *value = memchr(word, '=', size);
    if (has_nan(arg))
        return false;
    if (!value || arg->kind == ATEN_NULL)
        return true;
    bool number = arg->kind == ATEN_INT || arg->kind == ATEN_FLOAT || arg->kind == ATEN_BOOL;
    return number && value[1] != 'n' && strtod(value + 1, NULL) == arg->f;
}

static bool is_keyword(const char *word, size_t size, const char *key)
{
    size_t tilde = *word == '~';
    const char *value = memchr(word, '=', size);
    size_t length = (value ? (size_t)(value - word) : size) - tilde;
    return strlen(key) == length && memcmp(word + tilde, key, length) == 0;
}

static bool takes_keyword(const char *words, const struct aten_arg *arg)
{
    size_t size;
    for (const char *word; (word = next_word(&words, &size));)
        if (is_keyword(word, size, arg->key))
            return is_allowed(word, size, arg);
    return false;
}

bool aten_takes(const struct aten_entry *entry, const struct aten_node *node)
{
    const char *words = entry->arguments, *word;
    size_t size;
    for (size_t i = 0; i < node->args.count; i++)
        if (!(word = next_word(&words, &size)) || !is_allowed(word, size, &node->args.item[i]))
            return false;
    for (size_t i = 0; i < node->kwargs.count; i++)
        if (!takes_keyword(entry->arguments, &node->kwargs.item[i]))
            return false;
    return true;
}
