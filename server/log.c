/* See log.h. Members are appended only when the whole member fits, so a cut line is still JSON. */
#include "server/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *level_name(enum mg_log_level level)
{
    switch (level) {
    case MG_LOG_INFO:
        return "info";
    case MG_LOG_WARN:
        return "warn";
    case MG_LOG_ERROR:
        return "error";
    }
    return "error";
}

static bool put(struct mg_log_line *line, const char *text, size_t size)
{
    if (line->size + size > MG_LOG_LINE)
        return false;
    memcpy(line->text + line->size, text, size);
    line->size += size;
    return true;
}

/* Escapes quotes, backslashes, control bytes and everything beyond ASCII: a log line must not carry
 * terminal sequences or broken UTF-8. */
static bool put_escaped(struct mg_log_line *line, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        char escape[8];
        int length;
        if (*at == '"' || *at == '\\')
            length = snprintf(escape, sizeof escape, "\\%c", *at);
        else if (*at < 0x20 || *at >= 0x7f)
            length = snprintf(escape, sizeof escape, "\\u%04x", *at);
        else
            length = snprintf(escape, sizeof escape, "%c", *at);
        if (!put(line, escape, (size_t)length))
            return false;
    }
    return true;
}

static bool put_key(struct mg_log_line *line, const char *key)
{
    return put(line, ",\"", 2) && put_escaped(line, key) && put(line, "\":", 2);
}

void mg_log_string(struct mg_log_line *line, const char *key, const char *value)
{
    size_t before = line->size;
    if (!value)
        return;
    if (!put_key(line, key) || !put(line, "\"", 1) || !put_escaped(line, value) || !put(line, "\"", 1))
        line->size = before;
}

static void put_number(struct mg_log_line *line, const char *key, const char *digits)
{
    size_t before = line->size;
    if (!put_key(line, key) || !put(line, digits, strlen(digits)))
        line->size = before;
}

void mg_log_int(struct mg_log_line *line, const char *key, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    put_number(line, key, digits);
}

void mg_log_ms(struct mg_log_line *line, const char *key, double milliseconds)
{
    char digits[64];
    snprintf(digits, sizeof digits, "%.3f", milliseconds);
    put_number(line, key, digits);
}

void mg_log_begin(struct mg_log_line *line, enum mg_log_level level, const char *event)
{
    struct timespec now;
    struct tm utc;
    char stamp[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t length = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + length, sizeof stamp - length, ".%03dZ", (int)(now.tv_nsec / 1000000));
    line->size = 0;
    put(line, "{\"time\":\"", 9);
    put(line, stamp, strlen(stamp));
    put(line, "\"", 1);
    mg_log_string(line, "level", level_name(level));
    mg_log_string(line, "event", event);
}

void mg_log_end(struct mg_log_line *line)
{
    memcpy(line->text + line->size, "}\n", 2);
    ssize_t written = write(STDERR_FILENO, line->text, line->size + 2);
    (void)written; /* nowhere left to complain */
}

void mg_log(enum mg_log_level level, const char *event, const char *format, ...)
{
    struct mg_log_line line;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    mg_log_begin(&line, level, event);
    mg_log_string(&line, "message", message);
    mg_log_end(&line);
}
