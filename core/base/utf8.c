/* Well-formed UTF-8 by table 3-7 of the Unicode standard: only the second byte has special ranges. */
#include "base/utf8.h"

static size_t sequence_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

size_t mg_utf8_length(const char *at, size_t left)
{
    const unsigned char *s = (const unsigned char *)at;
    size_t length = left ? sequence_length(s[0]) : 0;
    if (length < 2)
        return length;
    if (left < length)
        return 0;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return length;
}
