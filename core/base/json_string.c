/* Strings of JSON: one pass checks characters, escapes and UTF-8 and finds the end; decoding comes
 * after it and only where there is an escape. */
#include <string.h>

#include "base/json.h"
#include "base/json_priv.h"

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static unsigned hex4(const char *p)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i];
        value = value << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value;
}

static bool valid_unit(const char *p, const char *end)
{
    return end - p >= 6 && p[0] == '\\' && p[1] == 'u' && is_hex(p[2]) && is_hex(p[3]) && is_hex(p[4]) && is_hex(p[5]);
}

/* The length of the escape at p, a surrogate pair counting as one; 0 if it is wrong. */
static size_t escape_length(const char *p, const char *end)
{
    if (end - p < 2)
        return 0;
    if (p[1] != 'u')
        return p[1] && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
    if (!valid_unit(p, end))
        return 0;
    unsigned unit = hex4(p + 2);
    if (unit < 0xd800 || unit > 0xdfff)
        return 6;
    if (unit > 0xdbff || !valid_unit(p + 6, end))
        return 0;
    unsigned low = hex4(p + 8);
    return low >= 0xdc00 && low <= 0xdfff ? 12 : 0;
}

/* One character of a string other than plain ASCII; returns its length, 0 after failing. */
static size_t check_character(struct mg_json *json, const char *p)
{
    size_t length = 0;
    const char *what = "invalid UTF-8 in a string";
    if (*p == '\\') {
        length = escape_length(p, json->end);
        what = "invalid escape in a string";
    } else if ((unsigned char)*p < 0x20) {
        what = "control character in a string";
    } else {
        length = mg_utf8_length(p, (size_t)(json->end - p));
    }
    if (!length) {
        json->at = p;
        mg_json_fail_syntax(json, what);
    }
    return length;
}

bool mg_json_scan_string(struct mg_json *json, struct mg_json_span *out)
{
    const char *p = json->at + 1, *end = mg_json_scalar_end(json);
    bool escaped = false;
    for (;;) {
        p = mg_json_plain_end(p, end);
        if (p >= end) {
            if (end < json->end)
                return mg_json_fail_long(json);
            json->at = p;
            return mg_json_fail_syntax(json, "unterminated string");
        }
        if (*p == '"')
            break;
        escaped |= *p == '\\';
        size_t length = check_character(json, p);
        if (!length)
            return false;
        p += length;
    }
    *out = (struct mg_json_span){.text = json->at + 1, .size = (size_t)(p - json->at - 1), .escaped = escaped};
    json->at = p + 1;
    return true;
}

static char *encode_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* Decodes the (already checked) escape at *p. */
static char *decode_escape(char *out, const char **p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = *p;
    if (at[1] != 'u') {
        *p = at + 2;
        *out = to[strchr(from, at[1]) - from];
        return out + 1;
    }
    unsigned c = hex4(at + 2);
    *p = at + 6;
    if (c >= 0xd800 && c <= 0xdfff) {
        c = 0x10000 + ((c - 0xd800) << 10) + (hex4(at + 8) - 0xdc00);
        *p = at + 12;
    }
    return encode_utf8(out, c);
}

size_t mg_json_decode(const struct mg_json_span *span, char *out)
{
    char *to = out;
    const char *p = span->text, *end = span->text + span->size;
    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((escape ? escape : end) - p);
        memcpy(to, p, plain);
        to += plain;
        p += plain;
        if (escape)
            to = decode_escape(to, &p);
    }
    return (size_t)(to - out);
}
