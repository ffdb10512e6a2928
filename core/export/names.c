/* Text of a graph inside a JSON string of plain ASCII. */
#include "base/utf8.h"
#include "export/export_priv.h"

static uint32_t code_point(const char *at, size_t length)
{
    static const uint32_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)at[0] & masks[length];
    for (size_t i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)at[i] & 0x3f);
    return code;
}

static bool is_plain(uint32_t code)
{
    static const char signs[] = "_.-/@: ";
    if (code >= 0x80)
        return false;
    return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
           (code && strchr(signs, (int)code));
}

void mg_write_ascii(struct mg_writer *w, const char *text, const char *escape)
{
    size_t left = strlen(text), length;
    for (; left; text += length, left -= length) {
        length = mg_utf8_length(text, left);
        uint32_t code = length ? code_point(text, length) : 0xfffd;
        length = length ? length : 1;
        if (is_plain(code))
            mg_write_text(w, "%c", (int)code);
        else if (code < 0x10000)
            mg_write_text(w, "%su%04x", escape, code);
        else
            mg_write_text(w, "%su%04x%su%04x", escape, 0xd800 + ((code - 0x10000) >> 10), escape,
                          0xdc00 + ((code - 0x10000) & 0x3ff));
    }
}

void mg_write_python_list(struct mg_writer *w, const char *const *texts, size_t count)
{
    mg_write_text(w, "json.loads(\"[");
    for (size_t i = 0; i < count; i++) {
        mg_write_text(w, "%s\\\"", i ? ", " : "");
        mg_write_ascii(w, texts[i], "\\\\");
        mg_write_text(w, "\\\"");
    }
    mg_write_text(w, "]\")");
}
