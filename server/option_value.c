/* The values of options: from text, and in words. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/options_priv.h"

bool mg_option_takes_value(enum mg_option_kind kind)
{
    return kind != MG_KIND_FLAG && kind != MG_KIND_NOT;
}

bool mg_option_parse_uint(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0]))
        return false;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

/* The count at the beginning of a text, in decimal digits: strtod would read 0x10, inf and nan too. */
static bool read_count(const char *text, double *out, char **end)
{
    bool decimal = isdigit((unsigned char)text[0]) || (text[0] == '.' && isdigit((unsigned char)text[1]));
    if (!decimal || (text[0] == '0' && tolower((unsigned char)text[1]) == 'x'))
        return false;
    *out = strtod(text, end);
    return *out < MG_OPTION_ANY;
}

bool mg_option_parse_number(const char *text, double *out)
{
    char *end;
    return read_count(text, out, &end) && *end == '\0';
}

bool mg_option_parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    double value;
    if (!read_count(text, &value, &end))
        return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        double base = end[1] == 'i' ? 1024 : 1000;
        for (const char *at = units; at <= unit; at++)
            value *= base;
        end += end[1] == 'i' ? 2 : 1;
    } else if (*end == '\0' && mg_option_parse_uint(text, out)) {
        return true;
    }
    if (*end == 'B')
        end++;
    if (*end != '\0' || value >= 9e18)
        return false;
    *out = (uint64_t)value;
    return true;
}

bool mg_option_is_valid(const struct mg_option_range *range, const char *text)
{
    uint64_t whole = 0;
    double number = 0;
    switch (range->kind) {
    case MG_KIND_UINT:
        return mg_option_parse_uint(text, &whole) && (double)whole >= range->least && (double)whole <= range->most;
    case MG_KIND_NUMBER:
        return mg_option_parse_number(text, &number) && number >= range->least && number <= range->most;
    case MG_KIND_BYTES:
        return mg_option_parse_bytes(text, &whole) && (double)whole >= range->least && (double)whole <= range->most;
    case MG_KIND_FLAG:
    case MG_KIND_NOT:
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    default:
        return *text != '\0';
    }
}

void mg_option_describe(const struct mg_option_range *range, char *out, size_t size)
{
    bool counts = range->kind == MG_KIND_UINT || range->kind == MG_KIND_BYTES || range->kind == MG_KIND_NUMBER;
    const char *what = range->kind == MG_KIND_UINT    ? "a whole number"
                       : range->kind == MG_KIND_BYTES ? "a count of bytes (such as 8589934592, 8GiB or 500MB)"
                                                      : "a number";
    if (!mg_option_takes_value(range->kind))
        snprintf(out, size, "true or false");
    else if (!counts)
        snprintf(out, size, "a value: it is empty");
    else if (range->most < MG_OPTION_ANY)
        snprintf(out, size, "%s from %.0f to %.0f", what, range->least, range->most);
    else
        snprintf(out, size, "%s of %.0f or more%s", what, range->least,
                 range->kind == MG_KIND_NUMBER ? ", below 1e300" : "");
}
